//! Records, journal and storage traits, the on-disk engine and its twins.
