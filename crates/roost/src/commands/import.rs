//! `roost import`: a file is read twice. The first time all of it is looked at, so that a line
//! which cannot be taken changes nothing; the second time it is done.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, Write as _};
use std::mem;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::data::Counts;
use super::progress::Progress;
use super::unexpected;
use crate::cli::Place;
use crate::control::REQUEST_BYTES_MAX;
use crate::door::{self, Absent, Door};
use crate::exit::Failure;
use crate::node::{ImportOrder, Request, Response};

/// Lines sent at a time.
const LINES: usize = 500;

/// Bytes of lines sent at a time; a quarter of a request, because JSON escapes `"`.
const BYTES: usize = REQUEST_BYTES_MAX / 4;

/// Bytes of one line: the largest roster that an account may have, with every `"` of it escaped,
/// and room for that to be escaped once more.
const LINE_BYTES_MAX: usize = REQUEST_BYTES_MAX / 2;

pub(super) fn run(place: &Place, file: &Path, quiet: bool) -> Result<(), Failure> {
    let config = place.source().load()?;
    let (mut source, bytes) = open(file)?;
    let mut door = Door::open(&config, Absent::Create)?;
    let progress = Progress::start(bytes, quiet);
    let mut order = ImportOrder::default();
    let mut checked = Counts::default();
    read(&mut source, &mut |part| {
        for (at, (line, number)) in part.lines.iter().zip(&part.numbers).enumerate() {
            let taken = order.take(line);
            let wrong = |why| Failure::Data(format!("line {number}: {why}; {NOTHING}"));
            if taken.map_err(wrong)? {
                part.strays.push(at);
            }
        }
        send(&mut door, part, true, &mut checked)
    })?;
    source.rewind()?;
    let mut counts = Counts::default();
    read(&mut source, &mut |part| {
        send(&mut door, part, false, &mut counts)?;
        progress.show(part.read, counts.accounts);
        Ok(())
    })?;
    progress.end();
    super::print(&format!("imported {counts}\n"))
}

const NOTHING: &str = "nothing is imported";

/// The file, and its bytes; what can be read once only is copied to a file that has no name.
fn open(file: &Path) -> Result<(BufReader<File>, Option<u64>), Failure> {
    let is_input = file == Path::new("-");
    let named = |error: io::Error| Failure::Failed(format!("{}: {error}", file.display()));
    if !is_input {
        let opened = File::open(file).map_err(named)?;
        let metadata = opened.metadata().map_err(named)?;
        if metadata.is_file() {
            return Ok((BufReader::new(opened), Some(metadata.len())));
        }
        return copied(opened).map_err(named);
    }
    copied(io::stdin().lock()).map_err(named)
}

fn copied(mut source: impl io::Read) -> io::Result<(BufReader<File>, Option<u64>)> {
    let name = format!("roost-import-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    // It holds the keys of passwords.
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    let mut file = file?;
    std::fs::remove_file(&path)?;
    let bytes = io::copy(&mut source, &mut file)?;
    file.flush()?;
    file.rewind()?;
    Ok((BufReader::new(file), Some(bytes)))
}

/// Lines that are sent together.
#[derive(Default)]
struct Part {
    lines: Vec<String>,
    /// The number of each of them in the file; empty lines have numbers too.
    numbers: Vec<u64>,
    /// Those of `lines` whose accounts the file does not make.
    strays: Vec<usize>,
    /// The number of the last line.
    last: u64,
    /// Bytes of everything read so far.
    read: u64,
    is_last: bool,
    /// The line that follows, if it was too long for this part.
    next: Option<String>,
}

impl Part {
    fn next(source: &mut impl BufRead, before: &mut Part) -> Result<Part, Failure> {
        let mut part = Part {
            last: before.last,
            read: before.read,
            ..Part::default()
        };
        let mut bytes = 0;
        let mut next = before.next.take();
        while part.lines.len() < LINES && bytes < BYTES {
            let line = match next.take() {
                Some(line) => Some(line),
                None => read_line(source, part.last + 1)?,
            };
            let Some(line) = line else {
                part.is_last = true;
                break;
            };
            if bytes > 0 && bytes + line.len() > BYTES {
                part.next = Some(line);
                break;
            }
            part.last += 1;
            part.read += line.len() as u64;
            if !line.trim().is_empty() {
                bytes += line.len();
                part.lines.push(line);
                part.numbers.push(part.last);
            }
        }
        Ok(part)
    }
}

/// Reads all parts of a file.
fn read(
    source: &mut impl BufRead,
    each: &mut dyn FnMut(&mut Part) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut part = Part::default();
    while !part.is_last {
        part = Part::next(source, &mut part)?;
        if !part.lines.is_empty() {
            each(&mut part)?;
        }
    }
    Ok(())
}

fn send(door: &mut Door, part: &mut Part, check: bool, counts: &mut Counts) -> Result<(), Failure> {
    let lines = mem::take(&mut part.lines);
    let done = match check {
        true => NOTHING.to_owned(),
        false => format!("{counts} of earlier lines are imported"),
    };
    let strays = mem::take(&mut part.strays);
    let request = Request::Import {
        lines,
        check,
        strays,
    };
    match door.try_call(request)? {
        Response::Imported {
            accounts,
            rooms,
            nodes,
        } => {
            counts.accounts += accounts;
            counts.rooms += rooms;
            counts.nodes += nodes;
            Ok(())
        }
        Response::Refused {
            index,
            code,
            message,
        } => {
            let number = part.numbers.get(index).copied().unwrap_or(part.last);
            Err(door::refused(
                &code,
                format!("line {number}: {message}; {done}"),
            ))
        }
        Response::Error { code, message } => {
            let first = part.numbers.first().copied().unwrap_or_default();
            let last = part.last;
            let message = format!("lines {first} to {last}: {message}; {done}");
            Err(door::refused(&code, message))
        }
        _ => Err(unexpected()),
    }
}

fn read_line(source: &mut impl BufRead, number: u64) -> Result<Option<String>, Failure> {
    let mut line = String::new();
    let bound = LINE_BYTES_MAX as u64 + 1;
    let read = source.by_ref().take(bound).read_line(&mut line);
    let length = read.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Failure::Data(format!("line {number}: not UTF-8")),
        _ => Failure::Failed(format!("line {number}: {error}")),
    })?;
    if length as u64 == bound {
        let message = format!("line {number}: longer than {LINE_BYTES_MAX} bytes");
        return Err(Failure::Data(message));
    }
    Ok((length > 0).then_some(line))
}
