//! The control socket: how commands talk to a running server. A Unix socket in the data folder, one
//! JSON request a line, one JSON response a line. Owns the wire format and its bounds; what
//! requests mean is the server's.

mod client;
mod line;
mod server;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use client::{CallError, Client};
pub(crate) use server::{Operator, Server};

/// Name of the socket in the data folder.
const SOCKET: &str = "control.sock";

/// Bytes of a request with its line feed. A longer one is answered `too_long` and ends the
/// connection. The largest honest request is a part of an import.
pub(crate) const REQUEST_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// Bytes of a response. A longer one is replaced by the error `too_large`, upon which the client
/// asks for a smaller page.
pub(crate) const RESPONSE_BYTES_MAX: usize = 32 * 1_024 * 1_024;

/// Connections at a time; one more is answered `busy` and closed. Each has a thread, and at most
/// one request in memory.
const CLIENTS_MAX: usize = 16;

/// From one response, or the start, to the first byte of the next request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// From the first byte of a request to its line feed, and for a response to be taken.
const LINE_TIMEOUT: Duration = Duration::from_secs(10);

/// For the client to wait for an answer: a part of an import or a backup takes its time.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// The folder with the socket, held open: the address of a Unix socket has at most 107 bytes, and a
/// data folder may have a longer path. Through the descriptor it is always short.
struct Folder {
    folder: File,
}

impl Folder {
    fn open(path: &Path) -> io::Result<Folder> {
        Ok(Folder {
            folder: File::open(path)?,
        })
    }

    fn socket(&self) -> PathBuf {
        PathBuf::from(format!(
            "/proc/self/fd/{}/{SOCKET}",
            self.folder.as_raw_fd()
        ))
    }
}

#[cfg(test)]
mod tests;
