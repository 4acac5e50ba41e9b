//! The disk under the server: a library that is preloaded into it notes what is not synced yet, and
//! after a kill this takes it back (shim/unsynced.c). Owns that library, its notes, and the switch
//! that makes the disk full or fail.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Bytes in front of the old content in a note: three numbers.
const HEAD: usize = 24;

/// What the disk does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// All is well.
    Good,
    /// There is no space left.
    Full,
    /// Writes and syncs fail.
    Broken,
    /// Syncs fail.
    Unsyncable,
}

/// A library that is preloaded, built once for all seeds.
pub(super) struct Library {
    folder: TempDir,
    file: String,
}

impl Library {
    /// Builds one of the folder `shim` with the system's C compiler (`CC`, or cc).
    pub(super) fn build(source: &str) -> Result<Self, String> {
        let folder = tempfile::Builder::new()
            .prefix("shim-")
            .tempdir()
            .map_err(|error| error.to_string())?;
        let file = format!("{source}.so");
        let library = Self { folder, file };
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let name = source;
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("shim")
            .join(name);
        let output = Command::new(compiler)
            .args(["-std=gnu11", "-O2", "-shared", "-fPIC", "-o"])
            .arg(library.path())
            .arg(source)
            .args(["-ldl", "-lpthread"])
            .output()
            .map_err(|error| format!("no C compiler: {error}"))?;
        if output.status.success() {
            return Ok(library);
        }
        Err(format!(
            "{name} does not build: {}",
            String::from_utf8_lossy(&output.stderr)
        ))
    }

    /// What is to be preloaded.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join(&self.file)
    }
}

/// The disk under one server.
pub(super) struct Disk {
    library: PathBuf,
    data: PathBuf,
    undo: TempDir,
}

impl Disk {
    /// The disk of a server with this data folder. Notes are kept beside it: they are links too.
    pub(super) fn new(library: &Library, data: &Path) -> io::Result<Self> {
        let beside = data.parent().unwrap_or(data);
        let disk = Self {
            library: library.path(),
            data: fs::canonicalize(data)?,
            undo: tempfile::Builder::new()
                .prefix("undo-")
                .tempdir_in(beside)?,
        };
        disk.set(Mood::Good)?;
        Ok(disk)
    }

    /// What the server's process needs to know.
    pub(super) fn environment(&self) -> Vec<(OsString, OsString)> {
        vec![
            ("LD_PRELOAD".into(), self.library.clone().into()),
            ("UNSYNCED_DIR".into(), self.data.clone().into()),
            ("UNSYNCED_UNDO".into(), self.undo.path().into()),
        ]
    }

    pub(super) fn set(&self, mood: Mood) -> io::Result<()> {
        let byte = match mood {
            Mood::Good => b'-',
            Mood::Full => b'n',
            Mood::Broken => b'e',
            Mood::Unsyncable => b's',
        };
        let path = self.undo.path().join("control");
        // The file is mapped by the server: it must not become shorter.
        let options = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        options.write_all_at(&[byte], 0)
    }

    /// Takes back what was not synced when the server was killed, of each file and of the folders
    /// all but the first `survivors` of so many changes. Returns how many were taken back.
    pub(super) fn forget(&self, mut survivors: impl FnMut(usize) -> usize) -> io::Result<usize> {
        let mut changes = Vec::new();
        let mut files = HashMap::new();
        for entry in fs::read_dir(self.undo.path())? {
            let path = entry?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if name.starts_with("d-") {
                changes.push(path);
            } else if let Some(inode) = name.strip_prefix("f-").and_then(|i| i.parse().ok()) {
                files.insert(inode, path);
            }
        }
        changes.sort();
        let mut count = 0;
        let kept = survivors(changes.len());
        for path in changes.iter().skip(kept).rev() {
            take_back_change(&fs::read_to_string(path)?)?;
            count += 1;
        }
        count += self.forget_bytes(&self.data, &files, &mut survivors)?;
        for entry in fs::read_dir(self.undo.path())? {
            let path = entry?.path();
            if path.file_name() != Some("control".as_ref()) {
                fs::remove_file(path)?;
            }
        }
        Ok(count)
    }

    fn forget_bytes(
        &self,
        folder: &Path,
        files: &HashMap<u64, PathBuf>,
        survivors: &mut impl FnMut(usize) -> usize,
    ) -> io::Result<usize> {
        let mut count = 0;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let data = entry.metadata()?;
            if data.is_dir() {
                count += self.forget_bytes(&entry.path(), files, survivors)?;
            } else if let Some(note) = files.get(&data.ino()) {
                let file = OpenOptions::new().write(true).open(entry.path())?;
                count += take_back_bytes(&file, &fs::read(note)?, survivors)?;
            }
        }
        Ok(count)
    }
}

/// One change of a folder, undone.
fn take_back_change(note: &str) -> io::Result<()> {
    let words: Vec<&str> = note.split(' ').collect();
    match words[..] {
        ["C", path] => ignore_absent(fs::remove_file(path)),
        ["R", from, to, saved] => {
            ignore_absent(fs::rename(to, from))?;
            if saved == "-" {
                return Ok(());
            }
            fs::hard_link(saved, to)
        }
        ["U", path, saved] if !Path::new(path).exists() => fs::hard_link(saved, path),
        ["U", _, _] => Ok(()),
        // The kill came before the note, and the change is made behind it.
        [""] => Ok(()),
        _ => Err(io::Error::other(format!("an unknown note: {note}"))),
    }
}

fn ignore_absent(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Where a write began, how long the file was before, and what was there.
struct Before<'a> {
    offset: u64,
    size: u64,
    bytes: &'a [u8],
}

fn take_back_bytes(
    file: &File,
    note: &[u8],
    survivors: &mut impl FnMut(usize) -> usize,
) -> io::Result<usize> {
    let records = records(note);
    let kept = survivors(records.len()).min(records.len());
    for Before {
        offset,
        size,
        bytes,
    } in records[kept..].iter().rev()
    {
        file.write_all_at(bytes, *offset)?;
        file.set_len(*size)?;
    }
    Ok(records.len() - kept)
}

/// The records of a note; half a record at its end is of a write that never began.
fn records(mut note: &[u8]) -> Vec<Before<'_>> {
    let mut records = Vec::new();
    while let Some((head, rest)) = note.split_at_checked(HEAD) {
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[8 * at..8 * at + 8]);
            u64::from_ne_bytes(bytes)
        };
        let length = usize::try_from(number(2)).unwrap_or(usize::MAX);
        let Some((bytes, rest)) = rest.split_at_checked(length) else {
            break;
        };
        records.push(Before {
            offset: number(0),
            size: number(1),
            bytes,
        });
        note = rest;
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process under the library: it writes as told, and is killed.
    fn killed_after(disk: &Disk, script: &str) {
        let mut child = Command::new("python3")
            .args(["-c", script])
            .envs(disk.environment())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("python3");
        let mut line = [0; 1];
        let out = child.stdout.as_mut().expect("a pipe");
        io::Read::read_exact(out, &mut line).expect("it has written");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }

    #[test]
    fn what_was_not_synced_is_gone_after_a_kill() {
        let library = Library::build("unsynced.c").expect("a library");
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder");
        for name in ["old", "current"] {
            fs::write(data.join(name), "before").expect("a file");
        }
        let disk = Disk::new(&library, &data).expect("a disk");
        let script = format!(
            "import os, sys, time\n\
             os.chdir({data:?})\n\
             d = {data:?} + '/'\n\
             a = os.open(d + 'log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n\
             os.write(a, b'one'); os.fsync(a); os.write(a, b'two'); os.write(a, b'three')\n\
             b = os.open(d + 'new', os.O_WRONLY | os.O_CREAT); os.write(b, b'x')\n\
             c = os.open(d + 'old', os.O_WRONLY); os.pwrite(c, b'AFTER!!', 2)\n\
             e = os.open(d + 'next', os.O_WRONLY | os.O_CREAT); os.write(e, b'y'); os.fsync(e)\n\
             os.rename(d + 'next', d + 'current')\n\
             os.unlink(d + 'log2') if os.path.exists(d + 'log2') else None\n\
             sys.stdout.write('.'); sys.stdout.flush(); time.sleep(60)\n"
        );
        killed_after(&disk, &script);
        assert_eq!(fs::read(data.join("log")).expect("there"), b"onetwothree");
        disk.forget(|_| 0).expect("forgotten");
        assert_eq!(fs::read(data.join("log")).expect("there"), b"one");
        assert!(!data.join("new").exists());
        assert_eq!(fs::read(data.join("old")).expect("there"), b"before");
        assert_eq!(fs::read(data.join("current")).expect("there"), b"before");
        assert_eq!(fs::read(data.join("next")).expect("there"), b"y");

        // With the folder synced, the rename stays.
        let script = format!(
            "import os, sys, time\n\
             d = {data:?} + '/'\n\
             os.rename(d + 'next', d + 'current')\n\
             f = os.open({data:?}, os.O_RDONLY); os.fsync(f)\n\
             os.unlink(d + 'old')\n\
             sys.stdout.write('.'); sys.stdout.flush(); time.sleep(60)\n"
        );
        killed_after(&disk, &script);
        disk.forget(|_| 0).expect("forgotten");
        assert_eq!(fs::read(data.join("current")).expect("there"), b"y");
        assert_eq!(fs::read(data.join("old")).expect("it is back"), b"before");
    }

    #[test]
    fn a_full_disk_refuses_writes_until_it_has_room_again() {
        let library = Library::build("unsynced.c").expect("a library");
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder");
        let disk = Disk::new(&library, &data).expect("a disk");
        let script = format!(
            "import os, sys\n\
             f = os.open({data:?} + '/a', os.O_WRONLY | os.O_CREAT)\n\
             os.write(f, b'x')\n\
             c = os.open(os.environ['UNSYNCED_UNDO'] + '/control', os.O_RDWR)\n\
             os.pwrite(c, b'n', 0)\n\
             try: os.write(f, b'x'); sys.exit(1)\n\
             except OSError as e: assert e.errno == 28\n\
             os.pwrite(c, b's', 0)\n\
             os.write(f, b'x')\n\
             try: os.fsync(f); sys.exit(2)\n\
             except OSError as e: assert e.errno == 5\n\
             os.pwrite(c, b'-', 0)\n\
             os.write(f, b'x'); os.fsync(f)\n"
        );
        let status = Command::new("python3")
            .args(["-c", &script])
            .envs(disk.environment())
            .status()
            .expect("python3");
        assert!(status.success(), "{status}");
        assert_eq!(disk.forget(|_| 0).expect("forgotten"), 0);
        assert_eq!(fs::read(data.join("a")).expect("there"), b"xxx");
    }
}
