//! What fuzz targets share: the second opinion on XML. They are in `fuzz_targets/`.

#[path = "../../crates/xml/tests/oracle/mod.rs"]
pub mod oracle;
