//! One process of a home, as the keeper sees it: its program, its reins, its end. Owns starting and
//! ending it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::SyncSender;
use std::thread;

use stdx::time::Moment;

use super::keeper::Event;
use super::reins::{self, Order, Report};
use crate::cli::Place;

/// A program, which stays the same although another one is put in its place.
pub(super) struct Program {
    path: PathBuf,
    file: File,
}

impl Program {
    /// The one at a path.
    pub(super) fn open(path: &Path) -> io::Result<Program> {
        Ok(Program {
            path: path.to_owned(),
            file: File::open(path)?,
        })
    }

    /// The one that this process runs.
    pub(super) fn own() -> io::Result<Program> {
        Ok(Program {
            path: std::env::current_exe()?,
            file: File::open("/proc/self/exe")?,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// By its path, as long as that leads to it: so it has its name in lists of processes.
    fn command(&self) -> Command {
        let is_same = |other: std::fs::Metadata| {
            let own = self.file.metadata();
            own.is_ok_and(|own| (own.dev(), own.ino()) == (other.dev(), other.ino()))
        };
        let mut command = match self.path.metadata().is_ok_and(is_same) {
            true => Command::new(&self.path),
            false => Command::new(format!("/proc/self/fd/{}", self.file.as_raw_fd())),
        };
        command.arg0("roost");
        command
    }
}

/// Where a home stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It reads its configuration.
    Starting,
    /// It could serve.
    Ready,
    /// It opens the store.
    Opening,
    /// It serves.
    Serving,
    /// It lets go.
    Leaving,
    /// There is no such process any more.
    Ended,
}

/// See the module.
pub(super) struct Process {
    /// Tells its reports from those of others.
    pub(super) number: u32,
    pub(super) slot: usize,
    pub(super) program: std::sync::Arc<Program>,
    pub(super) stage: Stage,
    /// When it began, or said something.
    pub(super) heard: Moment,
    /// What it says of itself.
    pub(super) version: String,
    pub(super) format: u32,
    pub(super) slot_key: Option<[u8; 16]>,
    /// Why it ended, as far as it said.
    pub(super) failed: Option<String>,
    child: Child,
    reins: UnixStream,
}

impl Process {
    /// Starts one, which says that it is there before it does anything.
    pub(super) fn start(
        (number, slot): (u32, usize),
        program: std::sync::Arc<Program>,
        place: &Place,
        events: SyncSender<Event>,
        now: Moment,
    ) -> io::Result<Process> {
        let (here, there) = reins::pair()?;
        let mut command = program.command();
        let child = command
            .arg("home")
            .args(place.arguments())
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(there)))
            // Only what the edge says to systemd counts.
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .env_remove("WATCHDOG_PID")
            .spawn()?;
        let listening = here.try_clone()?;
        let listen = move || {
            reins::listen(&listening, |report| {
                // Nobody listens any more only at the end.
                let _ = events.send(Event::Reported(number, report));
            });
        };
        let thread = thread::Builder::new().name("reins".to_owned());
        thread.spawn(listen)?;
        Ok(Process {
            number,
            slot,
            program,
            stage: Stage::Starting,
            heard: now,
            version: String::new(),
            format: 0,
            slot_key: None,
            failed: None,
            child,
            reins: here,
        })
    }

    pub(super) fn name(&self) -> String {
        super::home_name(self.slot)
    }

    /// It said something.
    pub(super) fn reported(&mut self, report: Report, now: Moment) {
        self.heard = now;
        match report {
            Report::Here {
                version,
                program,
                format,
            } if version == reins::VERSION => {
                (self.version, self.format) = (program, format);
                self.stage = Stage::Ready;
            }
            Report::Here { version, .. } => {
                self.failed = Some(format!(
                    "it speaks version {version} of the words between edge and home, this edge {}: \
                     restart the service",
                    reins::VERSION
                ));
            }
            Report::Serving { slot_key } => {
                self.slot_key = key(&slot_key);
                self.stage = Stage::Serving;
            }
            Report::Turning => {}
            Report::Failed { why } => self.failed = Some(why),
        }
    }

    /// Tells it something; one that has ended hears nothing, which is noticed elsewhere.
    pub(super) fn order(&self, order: &Order) {
        if let Err(error) = reins::say(&self.reins, order) {
            tracing::debug!(%error, ?order, "a home cannot be told");
        }
    }

    /// Whether it has ended, and how.
    pub(super) fn has_ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten();
        if status.is_some() {
            self.stage = Stage::Ended;
        }
        status
    }

    /// Ends it at once.
    pub(super) fn kill(&mut self) {
        // One that has ended already is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.stage = Stage::Ended;
    }
}

impl Drop for Process {
    /// None is left without a keeper.
    fn drop(&mut self) {
        if self.stage != Stage::Ended {
            self.kill();
        }
    }
}

/// 16 bytes in hexadecimal digits.
pub(super) fn key(text: &str) -> Option<[u8; 16]> {
    let number = u128::from_str_radix(text, 16).ok();
    number.filter(|_| text.len() == 32).map(u128::to_be_bytes)
}

/// The same the other way.
pub(super) fn key_text(key: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a key goes through its digits whole, and what is none is refused.
    #[test]
    fn keys_are_written_and_read() {
        let bytes: [u8; 16] = std::array::from_fn(|n| n as u8);
        assert_eq!(key(&key_text(bytes)), Some(bytes));
        assert_eq!(key("00"), None);
        assert_eq!(key(&"x".repeat(32)), None);
    }
}
