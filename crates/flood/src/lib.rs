//! The load generator: an XMPP client over real sockets.
