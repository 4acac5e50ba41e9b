//! Lines with a bound in length and in time. Owns the reading; what a line says is not its concern.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use stdx::time::{Clock as _, Moment, SystemClock};

/// Bytes asked of the socket at a time.
const CHUNK: usize = 16 * 1_024;

/// How long a line may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Until its first byte.
    pub(super) first: Duration,
    /// From its first byte to its line feed.
    pub(super) whole: Duration,
}

/// Why there is no line.
#[derive(Debug)]
pub(super) enum LineError {
    /// The peer closed, in the middle of a line if `inside`.
    Closed { inside: bool },
    /// It took too long; nothing of it was there yet if not `inside`.
    Timeout { inside: bool },
    /// It is longer than the bound.
    TooLong,
    /// The socket failed.
    Io(io::Error),
}

/// Splits what a socket gives into lines.
pub(super) struct LineReader {
    socket: UnixStream,
    clock: SystemClock,
    bytes: Vec<u8>,
    length_max: usize,
}

impl LineReader {
    pub(super) fn new(socket: UnixStream, length_max: usize) -> LineReader {
        LineReader {
            socket,
            clock: SystemClock::new(),
            bytes: Vec::new(),
            length_max,
        }
    }

    /// The next line without its line feed.
    pub(super) fn read(&mut self, patience: Patience) -> Result<Vec<u8>, LineError> {
        let mut searched = 0;
        let mut deadline = self.clock.now() + patience.first;
        let mut is_first = self.bytes.is_empty();
        if !is_first {
            deadline = self.clock.now() + patience.whole;
        }
        loop {
            if let Some(at) = self.bytes[searched..]
                .iter()
                .position(|byte| *byte == b'\n')
            {
                let rest = self.bytes.split_off(searched + at + 1);
                let mut line = std::mem::replace(&mut self.bytes, rest);
                line.pop();
                return Ok(line);
            }
            searched = self.bytes.len();
            if searched >= self.length_max {
                return Err(LineError::TooLong);
            }
            self.fill(deadline)?;
            if is_first {
                is_first = false;
                deadline = self.clock.now() + patience.whole;
            }
        }
    }

    fn fill(&mut self, deadline: Moment) -> Result<(), LineError> {
        let inside = !self.bytes.is_empty();
        let mut chunk = [0; CHUNK];
        let left = deadline.saturating_since(self.clock.now());
        if left.is_zero() {
            return Err(LineError::Timeout { inside });
        }
        self.socket
            .set_read_timeout(Some(left))
            .map_err(LineError::Io)?;
        match self.socket.read(&mut chunk) {
            Ok(0) => Err(LineError::Closed { inside }),
            Ok(length) => {
                self.bytes.extend_from_slice(&chunk[..length]);
                Ok(())
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => Ok(()),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    Err(LineError::Timeout { inside })
                }
                io::ErrorKind::ConnectionReset => Err(LineError::Closed { inside }),
                _ => Err(LineError::Io(error)),
            },
        }
    }
}
