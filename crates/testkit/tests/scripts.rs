//! Runs the conversation scripts of `tests/scripts` over the whole matrix; see `testkit::suite`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::suite::main(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scripts"))
}
