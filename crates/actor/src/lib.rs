//! Shards, mailboxes, scheduling, supervision, timers, names, monitors, statistics.
