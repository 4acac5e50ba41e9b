//! What the machines of rooms and of nodes have in the store, for all who read or make it: the
//! actors themselves, accounts, extensions, export and import.

pub(crate) mod nodes;
pub(crate) mod rooms;
