//! The server's end of the control socket: a thread that accepts, and one for each client. Owns who
//! may connect and how many; it answers nothing by itself.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Serialize;

use super::line::{LineError, LineReader, Patience};
use super::{
    CLIENTS_MAX, Folder, IDLE_TIMEOUT, LINE_TIMEOUT, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX,
};
use crate::member::order;
use crate::node::{Request, Response, refusal};
use crate::split::order as split;

/// Pause after accepting failed (the process may be out of descriptors), before the next try.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Who carries requests out. Called from several threads; a call blocks until it is done.
pub(crate) trait Operator: Send + Sync + 'static {
    /// The response to one request.
    fn call(&self, request: Request) -> Response;

    /// The response to somebody who watches.
    fn watch(&self, request: watch::Request) -> watch::Response;

    /// The response to an operator of a cluster.
    fn order(&self, request: order::Request) -> order::Response;

    /// The response to an operator of a server as two processes.
    fn split(&self, request: split::Request) -> split::Response;

    /// The response of another process to a whole line, if it is not for this one.
    fn pass_on(&self, _line: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// Time bounds, shorter in tests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    pub(super) idle: Duration,
    pub(super) line: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            idle: IDLE_TIMEOUT,
            line: LINE_TIMEOUT,
        }
    }
}

/// The running control socket; [`Server::stop`] ends it.
pub(crate) struct Server {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    listener: UnixListener,
    folder: Folder,
    operator: Arc<dyn Operator>,
    timeouts: Timeouts,
    clients: AtomicUsize,
    is_stopping: AtomicBool,
}

impl Server {
    /// Starts to listen in the data folder. The caller holds the folder's lock, so a socket that is
    /// there already is left over from a process that was killed.
    ///
    /// # Errors
    /// The socket or its thread cannot be made.
    pub(crate) fn start(folder: &Path, operator: Arc<dyn Operator>) -> io::Result<Server> {
        Server::start_with(folder, operator, Timeouts::default())
    }

    pub(super) fn start_with(
        folder: &Path,
        operator: Arc<dyn Operator>,
        timeouts: Timeouts,
    ) -> io::Result<Server> {
        let folder = Folder::open(folder)?;
        let path = folder.socket();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let shared = Arc::new(Shared {
            listener,
            folder,
            operator,
            timeouts,
            clients: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || accept(&accepting))?;
        Ok(Server {
            shared,
            thread: Some(thread),
        })
    }

    /// Clients that are being served.
    #[cfg(test)]
    pub(super) fn clients(&self) -> usize {
        self.shared.clients.load(Ordering::Acquire)
    }

    /// Stops to listen and removes the socket. Requests under way run on; their clients get no
    /// answer if the process ends first.
    pub(crate) fn stop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        // Wakes the thread out of accept; it can only fail if the socket is closed already.
        let _ = rustix::net::shutdown(self.shared.listener.as_fd(), rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
            let _ = fs::remove_file(self.shared.folder.socket());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(shared: &Arc<Shared>) {
    while !shared.is_stopping.load(Ordering::Acquire) {
        match shared.listener.accept() {
            Ok((socket, _)) => admit(shared, socket),
            Err(_) if shared.is_stopping.load(Ordering::Acquire) => return,
            Err(error) => {
                tracing::warn!(%error, "control socket: cannot accept");
                thread::sleep(ACCEPT_BACKOFF);
            }
        }
    }
}

/// Starts a thread for the client, or tells it why not.
fn admit(shared: &Arc<Shared>, socket: UnixStream) {
    let permit = Permit::take(shared);
    let denied = if !is_permitted(&socket) {
        Some((
            "not_permitted",
            "only root and the user of the server may use this socket",
        ))
    } else if permit.is_none() {
        Some(("busy", "too many commands at a time: try again later"))
    } else {
        None
    };
    if let Some((code, message)) = denied {
        tracing::warn!(code, "control socket: client refused");
        // A client that does not even take this answer is none of our concern.
        let _ = socket.set_write_timeout(Some(ACCEPT_BACKOFF));
        let _ = respond(&socket, &refusal(code, message));
        return;
    }
    let started = thread::Builder::new()
        .name("control-client".to_owned())
        .spawn(move || {
            // The place is given back when the thread ends, by a panic too.
            let Some(permit) = permit else { return };
            serve(&permit.0, socket);
        });
    if let Err(error) = started {
        tracing::warn!(%error, "control socket: no thread for a client");
    }
}

/// One of the places for clients.
struct Permit(Arc<Shared>);

impl Permit {
    fn take(shared: &Arc<Shared>) -> Option<Permit> {
        let before = shared.clients.fetch_add(1, Ordering::AcqRel);
        let permit = Permit(Arc::clone(shared));
        (before < CLIENTS_MAX).then_some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The folder's and the socket's mode keep others out already; this holds even if somebody changes
/// them.
fn is_permitted(socket: &UnixStream) -> bool {
    match rustix::net::sockopt::socket_peercred(socket) {
        Ok(peer) => peer.uid.is_root() || peer.uid == rustix::process::geteuid(),
        Err(_) => false,
    }
}

fn serve(shared: &Shared, socket: UnixStream) {
    let Ok(reading) = socket.try_clone() else {
        return;
    };
    if socket
        .set_write_timeout(Some(shared.timeouts.line))
        .is_err()
    {
        return;
    }
    let mut lines = LineReader::new(reading, REQUEST_BYTES_MAX);
    let patience = Patience {
        first: shared.timeouts.idle,
        whole: shared.timeouts.line,
    };
    loop {
        let line = match lines.read(patience) {
            Ok(line) => line,
            Err(error) => return refuse(&socket, &error),
        };
        let line = zeroize::Zeroizing::new(line);
        if let Some(answer) = shared.operator.pass_on(&line) {
            match write_line(&socket, answer) {
                Ok(()) => continue,
                Err(_) => return,
            }
        }
        let responded = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => respond(&socket, &shared.operator.call(request)),
            Err(error) => respond_to_others(&socket, shared, &line, &error),
        };
        drop(line);
        if responded.is_err() {
            return;
        }
    }
}

/// What is no request to the server itself.
fn respond_to_others(
    socket: &UnixStream,
    shared: &Shared,
    line: &[u8],
    error: &serde_json::Error,
) -> io::Result<()> {
    if let Ok(request) = serde_json::from_slice::<watch::Request>(line) {
        return respond(socket, &shared.operator.watch(request));
    }
    if let Ok(request) = serde_json::from_slice::<order::Request>(line) {
        return respond(socket, &shared.operator.order(request));
    }
    if let Ok(request) = serde_json::from_slice::<split::Request>(line) {
        return respond(socket, &shared.operator.split(request));
    }
    // The parser's message may quote the request, and that may hold a password.
    respond(socket, &refusal("bad_request", &position_of(error)))
}

fn position_of(error: &serde_json::Error) -> String {
    format!(
        "not a request this version knows (column {})",
        error.column()
    )
}

fn refuse(socket: &UnixStream, error: &LineError) {
    let response = match error {
        LineError::TooLong => refusal("too_long", "the request is too long"),
        LineError::Timeout { inside: true } => {
            refusal("timeout", "the request did not come to its end in time")
        }
        LineError::Closed { inside: true } => {
            refusal("bad_request", "the request has no line feed at its end")
        }
        LineError::Timeout { inside: false } | LineError::Closed { inside: false } => return,
        LineError::Io(error) => {
            tracing::debug!(%error, "control socket: reading failed");
            return;
        }
    };
    let _ = respond(socket, &response);
}

fn respond(socket: &UnixStream, response: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(response)?;
    if line.len() >= RESPONSE_BYTES_MAX {
        let message = format!(
            "the answer has {} bytes: ask for less at a time",
            line.len()
        );
        line = serde_json::to_vec(&refusal("too_large", &message))?;
    }
    write_line(socket, line)
}

fn write_line(mut socket: &UnixStream, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    socket.write_all(&line)
}
