//! The command's end of the control socket. Owns finding out whether a server runs.

use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::line::{LineError, LineReader, Patience};
use super::{ANSWER_TIMEOUT, Folder, LINE_TIMEOUT, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX};
use crate::node::{Request, Response};

/// A connection to a running server.
pub(crate) struct Client {
    socket: UnixStream,
    lines: LineReader,
}

/// Why there was no response.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The request is larger than the server takes.
    TooLong(usize),
    /// The server ended in the meantime, or does not answer.
    NoAnswer(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::TooLong(length) => {
                write!(
                    f,
                    "a request of {length} bytes; at most {REQUEST_BYTES_MAX} are possible"
                )
            }
            CallError::NoAnswer(why) => write!(f, "the server did not answer: {why}"),
        }
    }
}

impl Client {
    /// Connects to the server that runs on the data folder; `None` if none does.
    ///
    /// # Errors
    /// There is a socket, but it cannot be used: most likely it belongs to somebody else.
    pub(crate) fn connect(folder: &Path) -> io::Result<Option<Client>> {
        let nobody = |error: &io::Error| {
            matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            )
        };
        let connected =
            Folder::open(folder).and_then(|folder| UnixStream::connect(folder.socket()));
        let socket = match connected {
            Ok(socket) => socket,
            Err(error) if nobody(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        socket.set_write_timeout(Some(LINE_TIMEOUT))?;
        let lines = LineReader::new(socket.try_clone()?, RESPONSE_BYTES_MAX);
        Ok(Some(Client { socket, lines }))
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn call(&mut self, request: &Request) -> Result<Response, CallError> {
        self.call_within(request, ANSWER_TIMEOUT)
    }

    /// Sends a request of any kind and waits so long for its response.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn call_within<A: DeserializeOwned>(
        &mut self,
        request: &impl Serialize,
        timeout: Duration,
    ) -> Result<A, CallError> {
        let no_answer = |error: io::Error| CallError::NoAnswer(error.to_string());
        let line = serde_json::to_vec(request).map_err(|error| no_answer(error.into()))?;
        let answer = self.pass(zeroize::Zeroizing::new(line), timeout)?;
        serde_json::from_slice(&answer)
            .map_err(|_| CallError::NoAnswer("its answer is of another version".to_owned()))
    }

    /// Sends a line and waits so long for the one that answers it.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn pass(
        &mut self,
        mut line: zeroize::Zeroizing<Vec<u8>>,
        timeout: Duration,
    ) -> Result<Vec<u8>, CallError> {
        let no_answer = |error: io::Error| CallError::NoAnswer(error.to_string());
        if line.len() >= REQUEST_BYTES_MAX {
            return Err(CallError::TooLong(line.len()));
        }
        line.push(b'\n');
        let written = (&self.socket).write_all(&line);
        // A server that refuses a client answers without reading, so the answer counts even if
        // writing failed.
        let patience = Patience {
            first: timeout,
            whole: timeout,
        };
        match (self.lines.read(patience), written) {
            (Ok(answer), _) => Ok(answer),
            (Err(_), Err(error)) => Err(no_answer(error)),
            (Err(error), Ok(())) => Err(CallError::NoAnswer(match error {
                LineError::Closed { .. } => "it closed the connection".to_owned(),
                LineError::Timeout { .. } => format!("{} seconds passed", timeout.as_secs()),
                LineError::TooLong => "its answer is too long".to_owned(),
                LineError::Io(error) => error.to_string(),
            })),
        }
    }
}
