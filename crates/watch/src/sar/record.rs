//! Recordings of `roost sar`: text, one JSON value a line. The first line says what the file is,
//! the second is a whole look, and each later one is a merge patch (RFC 7396) to the look before
//! it, so that an idle server costs little. Owns the format; docs/watching.md describes it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Entry;
use crate::failure::Failure;
use crate::look::Look;

/// What the first line calls the format.
const FORMAT: &str = "roost-sar";

/// Its version.
const VERSION: u32 = 1;

/// Bytes of a line; a look at a thousand shards has less.
const LINE_BYTES_MAX: u64 = 16 * 1_024 * 1_024;

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
    roost: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    /// A whole look.
    Look(Value),
    /// What differs from the look before.
    Change(Value),
    /// The server did not answer at this moment.
    Lost(i64),
}

/// A recording that is being written.
pub(super) struct Writer {
    path: PathBuf,
    file: File,
    last: Option<Value>,
}

impl Writer {
    /// Begins a file, which must not exist: a recording is never overwritten. It has addresses of
    /// users, so only its owner may read it.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn create(path: &Path) -> Result<Writer, Failure> {
        let mut options = OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(path);
        let file = opened.map_err(|error| {
            Failure::Failed(match error.kind() {
                io::ErrorKind::AlreadyExists => format!(
                    "{}: exists already, and a recording is never overwritten",
                    path.display()
                ),
                _ => format!("{}: {error}", path.display()),
            })
        })?;
        let mut writer = Writer {
            path: path.to_owned(),
            file,
            last: None,
        };
        writer.write(&Header {
            format: FORMAT.to_owned(),
            version: VERSION,
            roost: env!("CARGO_PKG_VERSION").to_owned(),
        })?;
        Ok(writer)
    }

    /// Adds an entry. It is in the file when this returns.
    ///
    /// # Errors
    /// It could not be written.
    pub(super) fn add(&mut self, entry: &Entry) -> Result<(), Failure> {
        let line = match entry {
            Entry::Lost(at_ms) => Line::Lost(*at_ms),
            Entry::Look(look) => {
                let mut value = serde_json::to_value(look).map_err(io::Error::from)?;
                name_shards(&mut value);
                let line = match &self.last {
                    None => Line::Look(value.clone()),
                    Some(last) => Line::Change(patch(last, &value)),
                };
                self.last = Some(value);
                line
            }
        };
        self.write(&line)
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        let mut bytes = serde_json::to_vec(line).map_err(io::Error::from)?;
        bytes.push(b'\n');
        self.file
            .write_all(&bytes)
            .map_err(|error| Failure::Failed(format!("{}: {error}", self.path.display())))
    }
}

/// A recording that is being read.
pub(super) struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    line: usize,
    last: Option<Value>,
}

impl Reader {
    /// Opens a recording.
    ///
    /// # Errors
    /// It cannot be read, or it is none.
    pub(super) fn open(path: &Path) -> Result<Reader, Failure> {
        let named = |error: io::Error| Failure::Failed(format!("{}: {error}", path.display()));
        let mut reader = Reader {
            path: path.to_owned(),
            file: BufReader::new(File::open(path).map_err(named)?),
            line: 0,
            last: None,
        };
        let first = match reader.text() {
            Ok(first) => first,
            Err(Failure::Data(_)) => return Err(reader.wrong("not a recording of roost sar")),
            Err(other) => return Err(other),
        };
        let header = first.and_then(|text| serde_json::from_str::<Header>(&text).ok());
        match header {
            Some(header) if header.format == FORMAT && header.version == VERSION => Ok(reader),
            Some(header) if header.format == FORMAT => Err(reader.wrong(&format!(
                "a recording in version {} of the format, by Roost {}: this one reads version \
                 {VERSION}",
                header.version, header.roost
            ))),
            _ => Err(reader.wrong("not a recording of roost sar")),
        }
    }

    /// The next entry; `None` at the end.
    ///
    /// # Errors
    /// The file is damaged here.
    pub(super) fn next(&mut self) -> Result<Option<Entry>, Failure> {
        let Some(text) = self.text()? else {
            return Ok(None);
        };
        let damaged = |reader: &Reader| reader.wrong("this line is damaged");
        let line = serde_json::from_str(&text).map_err(|_| damaged(self))?;
        let value = match (line, self.last.take()) {
            (Line::Lost(at_ms), last) => {
                self.last = last;
                return Ok(Some(Entry::Lost(at_ms)));
            }
            (Line::Look(value), _) => value,
            (Line::Change(change), Some(mut value)) => {
                apply(&mut value, &change);
                value
            }
            (Line::Change(_), None) => {
                return Err(self.wrong("a change comes before the first look"));
            }
        };
        self.last = Some(value.clone());
        let mut value = value;
        number_shards(&mut value);
        let look: Look = serde_json::from_value(value).map_err(|_| damaged(self))?;
        Ok(Some(Entry::Look(Box::new(look))))
    }

    fn text(&mut self) -> Result<Option<String>, Failure> {
        let mut bytes = Vec::new();
        let read = (&mut self.file)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut bytes);
        read.map_err(|error| Failure::Failed(format!("{}: {error}", self.path.display())))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.line += 1;
        if bytes.pop() != Some(b'\n') {
            return Err(self.wrong("the recording is cut off in this line"));
        }
        String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| self.wrong("this line is damaged"))
    }

    fn wrong(&self, what: &str) -> Failure {
        let line = self.line.max(1);
        Failure::Data(format!("{}:{line}: {what}", self.path.display()))
    }
}

/// Turns the list of shards into a map, in which a patch can change one.
fn name_shards(look: &mut Value) {
    if let Some(shards) = look.pointer_mut("/sample/shards")
        && let Value::Array(list) = shards.take()
    {
        let named = list.into_iter().enumerate();
        *shards = named.map(|(n, shard)| (n.to_string(), shard)).collect();
    }
}

/// And back.
fn number_shards(look: &mut Value) {
    if let Some(shards) = look.pointer_mut("/sample/shards")
        && let Value::Object(mut map) = shards.take()
    {
        let count = map.len();
        let list = (0..count).filter_map(|n| map.remove(&n.to_string()));
        *shards = list.collect();
    }
}

/// The merge patch that makes `new` of `old`. Neither has nulls inside.
fn patch(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let mut changes = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(same) if same == value => {}
            Some(other) if other.is_object() && value.is_object() => {
                changes.insert(key.clone(), patch(other, value));
            }
            _ => {
                changes.insert(key.clone(), value.clone());
            }
        }
    }
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    changes.extend(gone.map(|key| (key.clone(), Value::Null)));
    Value::Object(changes)
}

/// Applies a merge patch. Serde bounds how deep one can be.
fn apply(target: &mut Value, change: &Value) {
    let Value::Object(changes) = change else {
        *target = change.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(map) = target else { return };
    for (key, change) in changes {
        if change.is_null() {
            map.remove(key);
        } else {
            apply(map.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use server::watch::{ShardSample, Top};

    use super::*;

    fn entries() -> Vec<Entry> {
        let mut look = Look::default();
        look.sample.shards = vec![ShardSample::default(); 11];
        look.process.resident_bytes = Some(5);
        let first = look.clone();
        look.sample.at_ms = 7;
        look.sample.shards[10].counters.insert("a".to_owned(), 1);
        look.sample.shards[3].top_queue = vec![Top {
            who: "a@b".to_owned(),
            value: 9,
        }];
        look.process.resident_bytes = None;
        let second = look.clone();
        look.sample.shards[10].counters.clear();
        look.sample.shards.truncate(4);
        let looks = [first, second, look].map(|look| Entry::Look(Box::new(look)));
        let mut entries = Vec::from(looks);
        entries.insert(2, Entry::Lost(12));
        entries
    }

    fn record(entries: &[Entry]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("recording");
        let mut writer = Writer::create(&path).expect("new");
        for entry in entries {
            writer.add(entry).expect("written");
        }
        (folder, path)
    }

    fn read(path: &Path) -> (Vec<Entry>, Option<String>) {
        let mut reader = match Reader::open(path) {
            Ok(reader) => reader,
            Err(failure) => return (Vec::new(), Some(failure.to_string())),
        };
        let mut entries = Vec::new();
        loop {
            match reader.next() {
                Ok(Some(entry)) => entries.push(entry),
                Ok(None) => return (entries, None),
                Err(failure) => {
                    assert!(matches!(failure, Failure::Data(_)));
                    return (entries, Some(failure.to_string()));
                }
            }
        }
    }

    #[test]
    fn what_was_recorded_is_read_again() {
        let (_folder, path) = record(&entries());
        assert_eq!(read(&path), (entries(), None));
        let text = std::fs::read_to_string(&path).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].len() < lines[1].len() / 2, "changes only");
        let again = Writer::create(&path).err().expect("refused").to_string();
        assert!(again.contains("never overwritten"), "{again}");
    }

    #[test]
    fn a_recording_that_is_cut_off_gives_what_it_has_and_says_so() {
        let (_folder, path) = record(&entries());
        let whole = std::fs::read(&path).expect("bytes");
        for end in 0..whole.len() {
            std::fs::write(&path, &whole[..end]).expect("cut");
            let (found, error) = read(&path);
            assert!(entries().starts_with(&found), "at {end}");
            if whole[..end].last() != Some(&b'\n') {
                let error = error.expect("an error");
                let is_clear = error.contains("cut off") || error.contains("not a recording");
                assert!(is_clear, "{error}");
            }
        }
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let (_folder, path) = record(&[]);
        let others: [&[u8]; 7] = [
            b"",
            b"hello\n",
            b"{\"format\":\"other\",\"version\":1,\"roost\":\"1\"}\n",
            b"{\"format\":\"roost-sar\",\"version\":99,\"roost\":\"9\"}\n",
            b"\xff\xfe\n",
            b"{}\n",
            b"\0\0\0\0\0\0",
        ];
        for other in others {
            std::fs::write(&path, other).expect("written");
            let error = read(&path).1.expect("an error");
            assert!(error.contains(":1: "), "{error}");
            let is_clear = error.contains("not a recording") || error.contains("version 99");
            assert!(is_clear, "{error}");
        }
        let header = "{\"format\":\"roost-sar\",\"version\":1,\"roost\":\"1\"}\n";
        let damaged = [
            "{\"look\":1}",
            "{\"change\":{}}",
            "{\"look\":{}}",
            "[[",
            "{}",
        ];
        for line in damaged {
            std::fs::write(&path, format!("{header}{line}\n")).expect("written");
            let error = read(&path).1.expect("an error");
            assert!(error.contains(":2: "), "{error}");
        }
    }
}
