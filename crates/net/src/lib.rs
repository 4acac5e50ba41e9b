//! Sockets, TLS and the poll loop that drives a shard.
