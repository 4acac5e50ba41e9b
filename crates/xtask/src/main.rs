//! The command line of repository upkeep: writes the documents that are made from the code. The
//! rules have no command; they are tests.

use std::io::Write as _;
use std::process::ExitCode;
use std::{env, fs, io};

use xtask::{root, sections, tracked_files, xeps};

const USAGE: &str = "usage: cargo run -p xtask -- xeps | sections";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let written = match words.as_slice() {
        [word] if word == "xeps" => write_xeps(),
        [word] if word == "sections" => write_sections(),
        _ => Err(io::Error::other(USAGE)),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // There is nobody left to tell if this fails too.
            let _ = writeln!(io::stderr(), "{why}");
            ExitCode::FAILURE
        }
    }
}

fn write_xeps() -> io::Result<()> {
    fs::write(root().join(xeps::PATH), xeps::document())
}

fn write_sections() -> io::Result<()> {
    fs::write(
        root().join(sections::PATH),
        sections::document(&tracked_files()?),
    )
}
