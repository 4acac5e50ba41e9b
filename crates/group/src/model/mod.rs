//! The executable model of groups, and the nodes that must behave like it.

pub(crate) mod bugs;
