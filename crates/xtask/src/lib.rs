//! Repository upkeep: the tidy test and generated documents.
