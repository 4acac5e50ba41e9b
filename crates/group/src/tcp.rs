//! Links over TCP: two threads per connection, one that reads and one that writes.
//!
//! Owns sockets and their buffers. A reader goes on only when the node has used up what it read, so
//! that a flood stays in the kernel and slows its sender; a writer takes everything that has
//! collected since its last write. There is no TLS here: the shared secret keeps strangers out, it
//! hides nothing from the network. Deliberately not here: what the bytes mean.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use actor::{Addr, Handle, SendError};

use crate::host::{NodeMsg, Transport};
use crate::types::{NodeName, Refusal};

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// Reads of one connection that the node has not used up.
const CHUNKS_MAX: usize = 2;

/// Connections that were accepted and not taken over by the node; more wait in the kernel.
const ACCEPTED_MAX: usize = 64;

/// How long a write may take in which the other side takes nothing.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a connection that we closed waits for the other side to read the end.
const LINGER: Duration = Duration::from_secs(2);

/// How long a thread waits before it offers a message to a full shard again.
const POST_RETRY: Duration = Duration::from_millis(1);

/// What the threads of a node's connections share.
pub(crate) struct Hub {
    handle: Handle,
    node: OnceLock<Addr<NodeMsg>>,
    accepted: Mutex<HashMap<u64, TcpStream>>,
    next: AtomicU64,
    stopped: AtomicBool,
    connect: Duration,
}

impl Hub {
    pub(crate) fn new(handle: Handle, connect: Duration) -> Self {
        Hub {
            handle,
            node: OnceLock::new(),
            accepted: Mutex::new(HashMap::new()),
            next: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            connect,
        }
    }

    /// Says where the node's actor is.
    pub(crate) fn set_node(&self, node: Addr<NodeMsg>) {
        // A node has one actor.
        let _ = self.node.set(node);
    }

    /// Ends the accepting thread at its next connection.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Hands something to the node; waits while its shard takes nothing.
    fn post(&self, msg: NodeMsg) {
        let Some(node) = self.node.get() else {
            return;
        };
        let mut msg = msg;
        while let Err(SendError::Full(back)) = self.handle.send_priority(*node, msg) {
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            thread::sleep(POST_RETRY);
            msg = back;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, TcpStream>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts connections until the node stops.
///
/// # Errors
/// The operating system's, if it gives no thread.
pub(crate) fn listen(hub: Arc<Hub>, listener: TcpListener) -> io::Result<thread::JoinHandle<()>> {
    let accept = move || {
        while !hub.stopped.load(Ordering::SeqCst) {
            let Ok((stream, _)) = listener.accept() else {
                // Out of descriptors, or a connection that broke before it was accepted.
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            if hub.stopped.load(Ordering::SeqCst) {
                break;
            }
            while hub.waiting().len() >= ACCEPTED_MAX && !hub.stopped.load(Ordering::SeqCst) {
                thread::sleep(POST_RETRY);
            }
            let number = hub.next.fetch_add(1, Ordering::Relaxed);
            hub.waiting().insert(number, stream);
            hub.post(NodeMsg::Incoming(number));
        }
    };
    thread::Builder::new()
        .name("group-accept".into())
        .spawn(accept)
}

/// One connection, as its threads and the node see it.
struct Line {
    conn: u64,
    hub: Arc<Hub>,
    out: Mutex<Out>,
    has_out: Condvar,
    chunks: Mutex<usize>,
    has_room: Condvar,
}

#[derive(Default)]
struct Out {
    bytes: Vec<u8>,
    closing: bool,
}

impl Line {
    fn new(conn: u64, hub: Arc<Hub>) -> Arc<Self> {
        Arc::new(Line {
            conn,
            hub,
            out: Mutex::new(Out::default()),
            has_out: Condvar::new(),
            chunks: Mutex::new(0),
            has_room: Condvar::new(),
        })
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closing(&self) -> bool {
        self.out().closing
    }

    fn close(&self) {
        self.out().closing = true;
        self.has_out.notify_one();
        self.has_room.notify_one();
    }

    /// Tells the node that the connection is gone, unless the node ended it.
    fn broken(&self) {
        let was_closing = std::mem::replace(&mut self.out().closing, true);
        self.has_out.notify_one();
        if !was_closing {
            self.hub.post(NodeMsg::Closed(self.conn, Refusal::Broken));
        }
    }

    /// Runs both threads of the connection; the caller's becomes the reader.
    fn run(self: Arc<Self>, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let _ = stream.set_write_timeout(Some(WRITE_TIMEOUT));
        let Ok(writing) = stream.try_clone() else {
            return self.broken();
        };
        let line = Arc::clone(&self);
        let writer = thread::Builder::new().name("group-write".into());
        if writer.spawn(move || line.write(writing)).is_err() {
            return self.broken();
        }
        self.read(stream);
    }

    fn write(&self, mut stream: TcpStream) {
        loop {
            let bytes = {
                let mut out = self.out();
                while out.bytes.is_empty() && !out.closing {
                    out = self
                        .has_out
                        .wait(out)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                std::mem::take(&mut out.bytes)
            };
            if bytes.is_empty() {
                break;
            }
            if stream.write_all(&bytes).is_err() {
                self.broken();
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
            self.hub.post(NodeMsg::Written(self.conn, bytes.len()));
        }
        // The other side reads what was written before it reads the end; what it still sends is
        // thrown away for a while, because a reset would throw away ours.
        let _ = stream.set_read_timeout(Some(LINGER));
        let _ = stream.shutdown(Shutdown::Write);
    }

    /// Waits until the node has used up enough of what was read.
    fn take_room(&self) {
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        while *chunks >= CHUNKS_MAX && !self.is_closing() {
            let wait = self.has_room.wait_timeout(chunks, LINGER);
            chunks = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        *chunks += 1;
    }

    fn read(&self, mut stream: TcpStream) {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let count = match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            if self.is_closing() {
                continue;
            }
            self.take_room();
            let bytes = buffer[..count].to_vec();
            self.hub.post(NodeMsg::Received(self.conn, bytes));
        }
        self.broken();
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// The connections of a node, as its actor has them.
pub(crate) struct Tcp {
    hub: Arc<Hub>,
    lines: HashMap<u64, Arc<Line>>,
}

impl Tcp {
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        Tcp {
            hub,
            lines: HashMap::new(),
        }
    }

    fn start(&mut self, conn: u64, run: impl FnOnce(Arc<Line>) + Send + 'static) {
        let line = Line::new(conn, Arc::clone(&self.hub));
        self.lines.insert(conn, Arc::clone(&line));
        let reader = thread::Builder::new().name("group-read".into());
        let failed = Arc::clone(&line);
        if reader.spawn(move || run(line)).is_err() {
            let hub = Arc::clone(&self.hub);
            failed.close();
            hub.post(NodeMsg::Closed(conn, Refusal::Broken));
        }
    }
}

fn connect(node: &NodeName, timeout: Duration) -> io::Result<TcpStream> {
    let address = node.address().unwrap_or_default();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Transport for Tcp {
    fn dial(&mut self, conn: u64, node: &NodeName) {
        let node = node.clone();
        self.start(conn, move |line| match connect(&node, line.hub.connect) {
            Ok(stream) => {
                line.hub.post(NodeMsg::Opened(conn));
                line.run(stream);
            }
            Err(_) => line.broken(),
        });
    }

    fn write(&mut self, conn: u64, mut bytes: Vec<u8>) {
        let Some(line) = self.lines.get(&conn) else {
            return;
        };
        let mut out = line.out();
        if out.bytes.is_empty() {
            out.bytes = bytes;
        } else {
            out.bytes.append(&mut bytes);
        }
        drop(out);
        line.has_out.notify_one();
    }

    fn close(&mut self, conn: u64) {
        if let Some(line) = self.lines.remove(&conn) {
            line.close();
        }
    }

    fn consumed(&mut self, conn: u64, _: usize) {
        if let Some(line) = self.lines.get(&conn) {
            let mut chunks = line.chunks.lock().unwrap_or_else(PoisonError::into_inner);
            *chunks = chunks.saturating_sub(1);
            drop(chunks);
            line.has_room.notify_one();
        }
    }

    fn accepted(&mut self, incoming: u64, conn: u64) {
        let stream = self.hub.waiting().remove(&incoming);
        if let Some(stream) = stream {
            self.start(conn, move |line| line.run(stream));
        }
    }

    fn forget(&mut self, conn: u64) {
        self.lines.remove(&conn);
    }
}
