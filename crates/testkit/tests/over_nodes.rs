//! Runs the conversation scripts of `tests/scripts` with clients that come to a node which is not
//! their accounts' home; see `testkit::suite`. It needs the engine that `make nats` builds.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::suite::main_over_nodes(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scripts"),
    )
}
