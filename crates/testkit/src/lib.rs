//! Server builder and conversation scripts for tests.
