//! `roost export`, `backup`, `restore` and `verify`: the data as a whole.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::unexpected;
use crate::cli::Place;
use crate::door::{self, Absent, Door};
use crate::exit::Failure;
use crate::node::{self, Request, Response};

/// Accounts asked for at a time in an export.
const EXPORT_PAGE: usize = 200;

pub(super) fn export(place: &Place, output: &Path) -> Result<(), Failure> {
    let mut door = Door::open(&place.source().load()?, Absent::Refuse)?;
    if output == Path::new("-") {
        write_export(&mut door, &mut BufWriter::new(io::stdout().lock()))?;
        return Ok(());
    }
    let named = |error: io::Error| Failure::Failed(format!("{}: {error}", output.display()));
    // It holds the keys of passwords. A file that is there already is not overwritten.
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(output);
    let file = file.map_err(named)?;
    let mut out = BufWriter::new(file);
    let counts = write_export(&mut door, &mut out)?;
    let file = out
        .into_inner()
        .map_err(|error| named(error.into_error()))?;
    file.sync_all().map_err(named)?;
    super::print(&format!("exported {counts} to {}\n", output.display()))
}

/// What was moved.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) accounts: u64,
    pub(super) rooms: u64,
    pub(super) nodes: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} accounts", self.accounts)?;
        if self.rooms > 0 {
            write!(f, ", {} rooms", self.rooms)?;
        }
        if self.nodes > 0 {
            write!(f, ", {} nodes", self.nodes)?;
        }
        Ok(())
    }
}

/// Writes all pages; an answer that is too large is asked for again in smaller parts.
fn write_export(door: &mut Door, out: &mut impl Write) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut after: Option<String> = None;
    let mut limit = EXPORT_PAGE;
    loop {
        match door.try_call(Request::Export {
            after: after.clone(),
            limit,
        })? {
            Response::Lines { lines, next } => {
                for line in &lines {
                    writeln!(out, "{line}")?;
                    counts.accounts += u64::from(node::begins(line, "account"));
                    counts.rooms += u64::from(node::begins(line, "room"));
                    counts.nodes += u64::from(node::begins(line, "node"));
                }
                after = next;
                limit = (limit * 2).min(EXPORT_PAGE);
                if after.is_none() {
                    out.flush()?;
                    return Ok(counts);
                }
            }
            Response::Error { code, .. } if code == "too_large" && limit > 1 => limit /= 2,
            Response::Error { message, .. } => return Err(Failure::Failed(message)),
            _ => return Err(unexpected()),
        }
    }
}

pub(super) fn backup(place: &Place, file: &Path, as_is: bool) -> Result<(), Failure> {
    let config = place.source().load()?;
    // The server may run in another folder.
    let dest = absolute(file)?;
    let data = &config.settings.node.data;
    if config.is_clustered() && door::connect(data)?.is_none() {
        door::require_store(data)?;
        let moved = node::backup_stopped(&config, &dest, as_is)?;
        let (entries, bytes) = (moved.entries, moved.bytes);
        let dest = dest.display();
        return super::print(&format!("wrote {dest}: {entries} entries, {bytes} bytes\n"));
    }
    let mut door = Door::open(&config, Absent::Refuse)?;
    door.call(Request::Backup { dest: dest.clone() })?;
    super::print(&format!("wrote {}\n", dest.display()))
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
}

pub(super) fn restore(place: &Place, file: &Path) -> Result<(), Failure> {
    let config = place.source().load()?;
    let data = &config.settings.node.data;
    if door::connect(data)?.is_some() {
        return Err(Failure::Failed(format!(
            "a server runs on {}: stop it first, or name another folder with --data",
            data.display()
        )));
    }
    if config.is_clustered() {
        return Err(Failure::Failed(
            "a node of a cluster is filled from the engine: restore with a configuration without \
             [cluster], which makes a single server of the backup; its export can be imported into \
             a running node"
                .to_owned(),
        ));
    }
    let moved = node::restore(file, &config)?;
    super::print(&format!(
        "restored {} to {}: {moved}\n",
        file.display(),
        data.display()
    ))
}

pub(super) fn verify(place: &Place) -> Result<(), Failure> {
    let config = place.source().load()?;
    let data = &config.settings.node.data;
    let (report, is_good) = match door::connect(data)? {
        Some(client) => match Door::Running(Box::new(client)).call(Request::Verify)? {
            Response::Verified { good, report } => (report, good),
            _ => return Err(unexpected()),
        },
        None => {
            door::require_store(data)?;
            node::verify(&config)?
        }
    };
    super::print(&format!("{report}\n"))?;
    if is_good {
        return Ok(());
    }
    Err(Failure::Data(
        "the store is damaged: restore a backup".to_owned(),
    ))
}
