//! One socket that never blocks: bytes out when they can go, stream items in when they are there.
//! Owns how a link ends; what is said over it is the device's.

use super::reader::{Item, Reader};
use rustix::net::sockopt::set_socket_linger;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Bytes read from a socket at once.
const READ_BYTES: usize = 16 * 1024;
/// Bytes that wait to be written; a device that has more says nothing new.
pub(super) const BACKLOG_BYTES_MAX: usize = 256 * 1024;
/// How long a connect to this machine may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How a device leaves its link without a word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    /// TCP says goodbye: the server sees the end of the input.
    Quiet,
    /// TCP resets: what was under way is thrown away on both sides.
    Reset,
}

/// A connected socket with its reader.
pub(super) struct Link {
    pub(super) socket: TcpStream,
    reader: Reader,
    /// What was just read.
    input: Box<[u8]>,
    out: Vec<u8>,
}

impl Link {
    pub(super) fn open(address: SocketAddr) -> std::io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            reader: Reader::default(),
            input: vec![0; READ_BYTES].into(),
            out: Vec::new(),
        })
    }

    /// Begins a new stream: what comes next is its header.
    pub(super) fn restart(&mut self) {
        self.reader = Reader::default();
    }

    pub(super) fn say(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    pub(super) fn backlog(&self) -> usize {
        self.out.len()
    }

    /// Writes what the socket takes. False if the link is broken.
    pub(super) fn flush(&mut self) -> bool {
        while !self.out.is_empty() {
            match self.socket.write(&self.out) {
                Ok(0) => return false,
                Ok(length) => drop(self.out.drain(..length)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// Reads what is there into `items`. False once the link has ended.
    ///
    /// # Errors
    /// The server's bytes are not XML.
    pub(super) fn read(&mut self, items: &mut Vec<Item>) -> Result<bool, String> {
        loop {
            let is_open = match self.socket.read(&mut self.input) {
                Ok(0) => false,
                Ok(length) => {
                    self.reader.feed(&self.input[..length], items)?;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            };
            return Ok(is_open);
        }
    }

    /// Ends the link without a word of XMPP.
    pub(super) fn cut(self, how: Cut) {
        if matches!(how, Cut::Reset) {
            // If it cannot be set, the link ends all the same, only more politely.
            let _ = set_socket_linger(&self.socket, Some(Duration::ZERO));
        }
    }
}
