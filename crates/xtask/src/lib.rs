//! Repository upkeep: the rules that the tidy test holds, and the documents made from the code.
//!
//! A rule is a function from text to findings, with a bad sample beside it in its own test;
//! `tests/tidy.rs` applies all of them to the files of this repository.

pub mod changelog;
pub mod layers;
pub mod modules;
pub mod rules;
pub mod sections;
pub mod source;
pub mod xeps;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// A file that git tracks, as text.
#[derive(Clone, Debug)]
pub struct TrackedFile {
    /// Path from the root of the repository, with `/`.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every tracked file that is text and present.
///
/// # Errors
/// Git does not answer.
pub fn tracked_files() -> io::Result<Vec<TrackedFile>> {
    let root = root();
    let output = Command::new("git")
        .arg("-C")
        .arg(&root)
        .args(["ls-files", "-z"])
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other("git ls-files failed"));
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut files = Vec::new();
    for path in names.split('\0').filter(|path| !path.is_empty()) {
        if let Ok(text) = fs::read_to_string(root.join(path)) {
            files.push(TrackedFile {
                path: path.to_owned(),
                text,
            });
        }
    }
    Ok(files)
}
