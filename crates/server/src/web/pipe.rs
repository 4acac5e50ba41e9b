//! Ordinary requests: a connection of HTTP and our end of one to whoever serves pages, tied
//! together. Bytes go from one to the other; neither is read while the other is not written.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use actor::{Mail, Shard};
use net::{ConnRef, Cx};

use crate::c2s::C2sService;
use crate::message::web::Control;
use crate::web::http::Http;
use crate::web::{Connection, control};

/// Bytes that wait for one end at which the other is not read.
const BYTES_PAUSE: usize = 64 * 1024;

/// The field that says how the client came, for pages that name other addresses.
const SCHEME: &str = "X-Forwarded-Proto";

/// Our end.
pub(crate) struct Pipe {
    /// The connection that it serves.
    pub(super) to: ConnRef,
    /// The request, until the pipe is there.
    first: Vec<u8>,
}

/// A message for our end: the other one has been written, so that this one may be read.
pub(super) fn told(cx: &mut Cx<'_>, _pipe: &mut Pipe, msg: &Control) {
    if matches!(msg, Control::Written) {
        cx.set_paused(false);
    }
}

impl C2sService {
    /// Opens a pipe for a request of this client. False if there is nobody to take it.
    pub(super) fn open_pipe(&mut self, cx: &mut Cx<'_>, client: IpAddr, first: Vec<u8>) -> bool {
        let Ok((ours, theirs)) = UnixStream::pair() else {
            return false;
        };
        if ours.set_nonblocking(true).is_err() || !self.home.options.web.pages.take(theirs, client)
        {
            return false;
        }
        let pipe = Connection::Pipe(Pipe { to: cx.id(), first });
        let socket = OwnedFd::from(ours);
        self.opener.open(Some(socket), None, pipe).is_ok()
    }

    pub(super) fn pipe_opened(&mut self, cx: &mut Cx<'_>, pipe: &mut Pipe) {
        cx.set_apart(true);
        cx.out().append(&mut pipe.first);
        let there = control(Control::Piped(cx.id()));
        if self.home.io.control(cx.mail(), pipe.to, there).is_err() {
            cx.abort();
        }
    }

    /// What comes from whoever serves pages.
    pub(super) fn receive_pipe(&mut self, cx: &mut Cx<'_>, pipe: &mut Pipe, input: &[u8]) -> usize {
        let to = pipe.to;
        self.pass_on(cx, to, input);
        input.len()
    }

    /// Bytes for the other end; this one pauses if that has enough.
    pub(super) fn pass_on(&mut self, cx: &mut Cx<'_>, to: ConnRef, input: &[u8]) {
        let io = &self.home.io;
        let write = |out: &mut Vec<u8>| out.extend_from_slice(input);
        if io.with_out(cx.mail(), to, write).is_err() {
            return cx.abort();
        }
        if io.backlog(to).is_some_and(|bytes| bytes > BYTES_PAUSE) {
            io.watch(to);
            cx.set_paused(true);
        }
    }

    pub(super) fn pipe_closed(&mut self, shard: &mut Shard, pipe: &Pipe) {
        self.close_other(shard, pipe.to);
    }

    /// The other end gets what is written already, and ends too.
    pub(super) fn close_other(&mut self, mail: &mut impl Mail, other: ConnRef) {
        // It may have been the first to go.
        let _ = self.home.io.close(mail, other);
    }
}

/// The head of a request as it is passed on: only what was understood of it, and that no other
/// follows on its connection.
pub(super) fn rewritten(head: &net::http::Head<'_>, http: &Http) -> Vec<u8> {
    let version = if head.is_1_1 { "1.1" } else { "1.0" };
    let mut text = format!("{} {} HTTP/{version}\r\n", head.method, head.target);
    for (name, value) in &head.headers {
        let is_ours = [
            "connection",
            "keep-alive",
            "upgrade",
            "proxy-connection",
            SCHEME,
        ]
        .iter()
        .any(|ours| name.eq_ignore_ascii_case(ours));
        if !is_ours {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    text.push_str("Connection: close\r\n");
    let scheme = if http.is_secure() { "https" } else { "http" };
    text.push_str(&format!("{SCHEME}: {scheme}\r\n\r\n"));
    text.into_bytes()
}
