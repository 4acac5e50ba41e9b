//! One socket that never blocks: bytes out when they can go, stream items in when they are there.
//! Owns how a link ends; what is said over it is the device's.

use super::reader::{Item, Reader};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, SendFlags, getpeername, recv, send};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
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
    /// TCP resets: what was under way is thrown away on both sides. A pair of sockets inside a test
    /// resets only if something was under way to the device.
    Reset,
}

/// A connected socket with its reader.
pub(super) struct Link {
    pub(super) socket: OwnedFd,
    reader: Reader,
    /// What was just read.
    input: Box<[u8]>,
    out: Vec<u8>,
}

impl Link {
    /// To a server that listens.
    pub(super) fn open(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Self::new(socket.into()))
    }

    /// Over a stream socket that never blocks.
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            reader: Reader::default(),
            input: vec![0; READ_BYTES].into(),
            out: Vec::new(),
        }
    }

    /// The port that it came to, if it is one of TCP.
    pub(super) fn port(&self) -> Option<u16> {
        let address = getpeername(&self.socket).ok().flatten()?;
        SocketAddr::try_from(address).ok().map(|it| it.port())
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
            match send(&self.socket, &self.out, SendFlags::NOSIGNAL) {
                Ok(0) => return false,
                Ok(length) => drop(self.out.drain(..length)),
                Err(Errno::INTR) => {}
                Err(error) => return error == Errno::AGAIN,
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
            let is_open = match recv(&self.socket, &mut *self.input, RecvFlags::empty()) {
                Ok((_, 0)) => false,
                Ok((_, length)) => {
                    self.reader.feed(&self.input[..length], items)?;
                    continue;
                }
                Err(Errno::INTR) => continue,
                Err(error) => error == Errno::AGAIN,
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
