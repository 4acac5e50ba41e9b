//! Tables that several threads share: a set ([`Set`]) and an ordered one ([`OrderedSet`]).
//!
//! Owns rows in memory that any thread reads and writes in place, cut into partitions by the hash
//! of their key, with a lock for each partition. Deliberately not here: durability, and messages.
//! The path of a message takes no lock shared by shards; a table is for applications whose shards
//! must see the same rows at once, as `ets` is in Erlang.
//!
//! - One row is read and changed atomically. [`Table::insert_all`] and its like change many rows as
//!   one: no other call sees some of them. Partitions are locked in one order, so calls on one
//!   table never wait for each other in a circle.
//! - [`OrderedSet::range`] sees all partitions at one moment and merges them in order, a page at a
//!   time.
//! - A table has a bound. A row that finds no room comes back ([`Full`]).
//! - A closure that is given to a table runs under a lock: it must be short and must not use the
//!   same table. If it panics, its row stays as it left it, and the table stays usable.
//!
//! ```
//! use stdx::table::{OrderedSet, TableOptions};
//!
//! let table = OrderedSet::new(TableOptions::default());
//! table.insert_all(vec![(3, "c"), (1, "a"), (2, "b")]).unwrap();
//! assert_eq!(table.range(2.., 10), [(2, "b"), (3, "c")]);
//! ```

mod ordered;
mod partitions;
mod rows;
mod set;
mod shared;
#[cfg(test)]
mod tests;

pub use ordered::OrderedSet;
pub use set::Set;
pub use shared::Table;

use std::fmt;

/// How a table is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Locks, rounded up to a power of two, at least 1. Four for each thread that writes leave
    /// little waiting; an ordered table pays for each of them in every range. Default 16; each
    /// takes 128 bytes.
    pub partitions: usize,
    /// Rows, at most. Partitions take room in portions, so that a table may be full up to a
    /// sixteenth earlier; with one partition the bound is exact. Default 16,777,216.
    pub rows_max: usize,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            partitions: 16,
            rows_max: 1 << 24,
        }
    }
}

/// The table has no room for what is handed back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the table is full")
    }
}

impl<T: fmt::Debug> std::error::Error for Full<T> {}

/// Why rows were not inserted; they come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotInserted<T> {
    /// No room for all of them.
    Full(T),
    /// The key of some of them is there, or twice among them.
    Exists(T),
}
