//! `roost export`, `import`, `backup`, `restore` and `verify`: the data as a whole.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Write};
use std::mem;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::progress::Progress;
use super::unexpected;
use crate::cli::Place;
use crate::config::Config;
use crate::control::REQUEST_BYTES_MAX;
use crate::door::{self, Absent, Door};
use crate::exit::Failure;
use crate::node::{self, Request, Response};

/// Accounts asked for at a time in an export.
const EXPORT_PAGE: usize = 200;

/// Lines sent at a time in an import.
const IMPORT_LINES: usize = 500;

/// Bytes of lines sent at a time in an import; a quarter of a request, because JSON escapes `"`.
const IMPORT_BYTES: usize = REQUEST_BYTES_MAX / 4;

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
    let accounts = write_export(&mut door, &mut out)?;
    let file = out
        .into_inner()
        .map_err(|error| named(error.into_error()))?;
    file.sync_all().map_err(named)?;
    super::print(&format!(
        "exported {accounts} accounts to {}\n",
        output.display()
    ))
}

/// Writes all pages; an answer that is too large is asked for again in smaller parts.
fn write_export(door: &mut Door, out: &mut impl Write) -> Result<u64, Failure> {
    let mut accounts = 0;
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
                    accounts += u64::from(node::is_account_line(line));
                }
                after = next;
                limit = (limit * 2).min(EXPORT_PAGE);
                if after.is_none() {
                    out.flush()?;
                    return Ok(accounts);
                }
            }
            Response::Error { code, .. } if code == "too_large" && limit > 1 => limit /= 2,
            Response::Error { message, .. } => return Err(Failure::Failed(message)),
            _ => return Err(unexpected()),
        }
    }
}

pub(super) fn import(place: &Place, file: &Path, quiet: bool) -> Result<(), Failure> {
    let config = place.source().load()?;
    let accounts = if file == Path::new("-") {
        read_import(&config, io::stdin().lock(), &Progress::start(None, quiet))?
    } else {
        let opened = File::open(file);
        let opened = opened.map_err(|e| Failure::Failed(format!("{}: {e}", file.display())))?;
        let bytes = opened.metadata().ok().map(|metadata| metadata.len());
        let progress = Progress::start(bytes, quiet);
        read_import(&config, BufReader::new(opened), &progress)?
    };
    super::print(&format!("imported {accounts} accounts\n"))
}

/// Lines that are sent together.
#[derive(Default)]
struct Part {
    lines: Vec<String>,
    /// The number of the first line and of the last one, empty ones included.
    first: u64,
    last: u64,
    /// Bytes of everything read so far.
    read: u64,
    is_last: bool,
}

impl Part {
    fn read(source: &mut impl BufRead, before: &Part) -> Result<Part, Failure> {
        let mut part = Part {
            first: before.last + 1,
            last: before.last,
            read: before.read,
            ..Part::default()
        };
        let mut bytes = 0;
        while part.lines.len() < IMPORT_LINES && bytes < IMPORT_BYTES {
            let Some(line) = read_line(source, part.last + 1)? else {
                part.is_last = true;
                break;
            };
            part.last += 1;
            part.read += line.len() as u64;
            if !line.trim().is_empty() {
                bytes += line.len();
                part.lines.push(line);
            }
        }
        Ok(part)
    }
}

/// Sends the lines in parts. What was imported before a bad line stays imported.
fn read_import(
    config: &Config,
    mut source: impl BufRead,
    progress: &Progress,
) -> Result<u64, Failure> {
    let mut door = Door::open(config, Absent::Create)?;
    let mut accounts = 0;
    let mut part = Part::default();
    while !part.is_last {
        part = Part::read(&mut source, &part)?;
        let lines = mem::take(&mut part.lines);
        if !lines.is_empty() {
            match door.call(Request::Import { lines }) {
                Ok(Response::Made { accounts: made }) => accounts += made,
                Ok(_) => return Err(unexpected()),
                Err(failure) => return Err(located(failure, part.first, part.last, accounts)),
            }
        }
        progress.show(part.read, accounts);
    }
    progress.end();
    Ok(accounts)
}

fn located(failure: Failure, first: u64, last: u64, accounts: u64) -> Failure {
    let place = format!("lines {first} to {last}");
    let rest = format!("({accounts} accounts of earlier lines are imported)");
    match failure {
        Failure::Data(message) => Failure::Data(format!("{place}: {message} {rest}")),
        Failure::Failed(message) => Failure::Failed(format!("{place}: {message} {rest}")),
        other => other,
    }
}

fn read_line(source: &mut impl BufRead, number: u64) -> Result<Option<String>, Failure> {
    let mut line = String::new();
    let bound = IMPORT_BYTES as u64 + 1;
    let read = source.by_ref().take(bound).read_line(&mut line);
    let length = read.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Failure::Data(format!("line {number}: not UTF-8")),
        _ => Failure::Failed(format!("line {number}: {error}")),
    })?;
    if length as u64 == bound {
        let message = format!("line {number}: longer than {IMPORT_BYTES} bytes");
        return Err(Failure::Data(message));
    }
    Ok((length > 0).then_some(line))
}

pub(super) fn backup(place: &Place, file: &Path) -> Result<(), Failure> {
    let mut door = Door::open(&place.source().load()?, Absent::Refuse)?;
    // The server may run in another folder.
    let dest = absolute(file)?;
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
