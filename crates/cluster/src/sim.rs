//! The deterministic simulation of a cluster. Everything of it is in tests, where its twin of the
//! engine may take what cannot happen for granted.

mod tests;
