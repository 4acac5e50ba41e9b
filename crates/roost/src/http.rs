//! Ordinary requests over HTTP, in a thread of its own. Owns the bounds of their connections and
//! who accepts on the ports of the web; the pages are `pages`. Knows of the server only what its
//! owner tells it.
//!
//! While the server takes clients, its shards accept on those ports and send here what is no
//! stream, one connection for each request. As long as they do not, at the start and at the end,
//! this thread accepts on the same sockets and says how far the server is.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use axum::Router;
use stdx::time::{Clock as _, Moment, SystemClock};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, Sleep, sleep};

use crate::pages;

/// Connections at a time, over all addresses. One more closes the oldest of the address that has
/// the most: whoever is slow is in nobody's way.
const CONNECTIONS_MAX: usize = 64;

/// Time that a request from a shard has before it may be closed for another one: many quick ones at
/// once wait for each other.
const UNDISTURBED: Duration = Duration::from_secs(1);

/// Pause between two looks at whether there is a place.
const PLACE_PAUSE: Duration = Duration::from_millis(10);

/// Requests from shards that wait for one of them; one more is answered 503.
const WAITING_MAX: usize = 256;

/// Life of a connection: whoever wants to stay longer connects again.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Time in which a request from a shard is to be answered: a large file over a slow link takes it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);

/// Pause after accepting failed, before the next try.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// How long a page of figures is given out before a new one is made: whoever asks more often costs
/// no more than the copying.
const FIGURES_AGE_MAX: Duration = Duration::from_millis(200);

/// Looks at whether the thread has stopped accepting, and the pause between two.
const RELEASE_TRIES_MAX: u32 = 1_000;
const RELEASE_PAUSE: Duration = Duration::from_millis(1);

/// Where the server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It opens its store and its ports.
    Starting,
    /// It takes clients.
    Ready,
    /// It closes its streams.
    Draining,
    /// Something that cannot be isolated has failed.
    Broken,
}

/// What the endpoints say; shared by the process and its HTTP thread.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    stage: Arc<watch::Sender<Stage>>,
    /// Ports on which the HTTP thread accepts right now.
    accepting: Arc<AtomicUsize>,
    /// Asked besides, once the server takes clients.
    check: Arc<OnceLock<Check>>,
}

/// Says whether the server should get clients, or why not.
struct Check(Box<dyn Fn() -> Result<(), String> + Send + Sync>);

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Check")
    }
}

impl Default for Health {
    fn default() -> Health {
        Health {
            stage: Arc::new(watch::Sender::new(Stage::Starting)),
            accepting: Arc::default(),
            check: Arc::default(),
        }
    }
}

impl Health {
    /// Notes where the server is now.
    pub(crate) fn set(&self, stage: Stage) {
        self.stage.send_replace(stage);
    }

    /// Waits until the shards alone accept, once the server is ready: who connects after that
    /// reaches it. A thread that is too busy to notice costs a client one more try.
    pub(crate) fn wait_for_shards(&self) {
        for _ in 0..RELEASE_TRIES_MAX {
            if self.accepting.load(Ordering::Acquire) == 0 {
                return;
            }
            thread::sleep(RELEASE_PAUSE);
        }
    }

    /// Notes what is asked besides. There is one.
    pub(crate) fn set_check(&self, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        let _ = self.check.set(Check(Box::new(check)));
    }

    /// Whether to send it new clients, or why not.
    ///
    /// # Errors
    /// The reason, in a few words.
    pub(crate) fn ready(&self) -> Result<(), String> {
        match (self.stage(), self.check.get()) {
            (Stage::Ready, Some(check)) => (check.0)(),
            (Stage::Ready, None) => Ok(()),
            (Stage::Starting, _) => Err("starting".to_owned()),
            (Stage::Draining, _) => Err("draining".to_owned()),
            (Stage::Broken, _) => Err("broken".to_owned()),
        }
    }

    /// Where it is.
    pub(crate) fn stage(&self) -> Stage {
        *self.stage.borrow()
    }
}

/// Makes a page of figures.
pub(crate) type MakePage = Box<dyn Fn() -> String + Send>;

/// The page of figures, once there is a server that has some.
#[derive(Clone)]
pub(crate) struct Figures {
    clock: SystemClock,
    pub(crate) content_type: &'static str,
    made: Arc<Mutex<Made>>,
}

#[derive(Default)]
struct Made {
    make: Option<MakePage>,
    last: Option<(Moment, Arc<str>)>,
}

impl Figures {
    /// Without a page yet.
    pub(crate) fn new(content_type: &'static str) -> Figures {
        Figures {
            clock: SystemClock::new(),
            content_type,
            made: Arc::default(),
        }
    }

    /// Notes how pages are made from now on.
    pub(crate) fn set(&self, make: MakePage) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.make = Some(make);
    }

    /// The page of now, or one that is a little older.
    pub(crate) fn page(&self) -> Option<Arc<str>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        match &made.last {
            Some((at, page)) if now.saturating_since(*at) < FIGURES_AGE_MAX => {
                return Some(Arc::clone(page));
            }
            _ => {}
        }
        let page: Arc<str> = made.make.as_ref()?().into();
        made.last = Some((now, Arc::clone(&page)));
        Some(page)
    }
}

/// Whoever answers ordinary requests.
pub(crate) struct Web {
    /// Takes a connection on which one request of a client comes; false if too many wait.
    pub(crate) take: Box<dyn Fn(StdUnixStream, IpAddr) -> bool + Send + Sync>,
}

/// Starts the thread, which lives as long as the process.
///
/// # Errors
/// The operating system's.
pub(crate) fn start(
    plain: Vec<std::net::TcpListener>,
    health: &Health,
    pages: Router,
) -> io::Result<Web> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (sender, waiting) = channel(WAITING_MAX);
    let health = health.clone();
    thread::Builder::new()
        .name("http".to_owned())
        .spawn(move || runtime.block_on(serve(plain, waiting, health, pages)))?;
    Ok(Web {
        take: Box::new(move |stream, client| sender.try_send((stream, client)).is_ok()),
    })
}

async fn serve(
    plain: Vec<std::net::TcpListener>,
    waiting: Receiver<(StdUnixStream, IpAddr)>,
    health: Health,
    pages: Router,
) {
    let places: Arc<Mutex<Places>> = Arc::default();
    let mut tasks = tokio::task::JoinSet::new();
    for socket in plain {
        let listener = match TcpListener::from_std(socket) {
            Ok(socket) => Direct {
                socket,
                places: Arc::clone(&places),
                stage: health.stage.subscribe(),
                accepting: Arc::clone(&health.accepting),
            },
            Err(error) => {
                tracing::error!(%error, "HTTP: an address is not served");
                continue;
            }
        };
        let checks = pages::checks(&health);
        tasks.spawn(async move { axum::serve(listener, checks).await });
    }
    let listener = FromShards { waiting, places };
    tasks.spawn(async move { axum::serve(listener, pages).await });
    while tasks.join_next().await.is_some() {}
}

/// A connection that has a place.
struct Place {
    address: IpAddr,
    since: Instant,
    close: oneshot::Sender<()>,
}

/// The connections that are open, the oldest first, and the way to close each.
#[derive(Default)]
struct Places(VecDeque<Place>);

impl Places {
    /// A place for a connection of `address`; what closes it if another one needs the place.
    /// `None` if whoever would give way is not older than `undisturbed`.
    fn take(
        &mut self,
        address: IpAddr,
        undisturbed: Duration,
        now: Instant,
    ) -> Option<oneshot::Receiver<()>> {
        self.0.retain(|place| !place.close.is_closed());
        while self.0.len() >= CONNECTIONS_MAX {
            let of = |address| {
                let same = self.0.iter().filter(|other| other.address == address);
                same.count()
            };
            let most = self.0.iter().map(|place| of(place.address)).max();
            let oldest = self
                .0
                .iter()
                .position(|place| Some(of(place.address)) == most)?;
            if now.saturating_duration_since(self.0[oldest].since) < undisturbed {
                return None;
            }
            // It may have ended by itself in this moment.
            let _ = self.0.remove(oldest).map(|place| place.close.send(()));
        }
        let (close, closed) = oneshot::channel();
        self.0.push_back(Place {
            address,
            since: now,
            close,
        });
        Some(closed)
    }
}

/// Waits for a place.
async fn place(
    places: &Mutex<Places>,
    address: IpAddr,
    undisturbed: Duration,
) -> oneshot::Receiver<()> {
    loop {
        let taken = {
            let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
            places.take(address, undisturbed, Instant::now())
        };
        match taken {
            Some(closed) => return closed,
            None => sleep(PLACE_PAUSE).await,
        }
    }
}

/// A listener on a port of the web, for as long as no shard accepts there.
struct Direct {
    socket: TcpListener,
    places: Arc<Mutex<Places>>,
    stage: watch::Receiver<Stage>,
    accepting: Arc<AtomicUsize>,
}

impl axum::serve::Listener for Direct {
    type Io = Connection<tokio::net::TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            // The sender lives as long as the process.
            let _ = self.stage.wait_for(|stage| *stage != Stage::Ready).await;
            self.accepting.fetch_add(1, Ordering::AcqRel);
            let accepted = tokio::select! {
                accepted = self.socket.accept() => Some(accepted),
                _ = self.stage.wait_for(|stage| *stage == Stage::Ready) => None,
            };
            self.accepting.fetch_sub(1, Ordering::AcqRel);
            let Some(accepted) = accepted else {
                continue;
            };
            match accepted {
                Ok((socket, address)) => {
                    let closed = place(&self.places, address.ip(), Duration::ZERO).await;
                    return (Connection::new(socket, CONNECTION_TIMEOUT, closed), address);
                }
                Err(error) => {
                    tracing::debug!(%error, "HTTP: cannot accept");
                    sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// The connections that shards open.
struct FromShards {
    waiting: Receiver<(StdUnixStream, IpAddr)>,
    places: Arc<Mutex<Places>>,
}

impl axum::serve::Listener for FromShards {
    type Io = Connection<UnixStream>;
    type Addr = ();

    async fn accept(&mut self) -> (Self::Io, ()) {
        loop {
            let Some((stream, client)) = self.waiting.recv().await else {
                // The server has ended, and the process is about to.
                std::future::pending::<()>().await;
                continue;
            };
            let opened = stream.set_nonblocking(true);
            match opened.and_then(|()| UnixStream::from_std(stream)) {
                Ok(stream) => {
                    let closed = place(&self.places, client, UNDISTURBED).await;
                    return (Connection::new(stream, REQUEST_TIMEOUT, closed), ());
                }
                Err(error) => tracing::debug!(%error, "HTTP: a connection of no use"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection that ends at its deadline, whatever its peer does, or when its place is needed.
struct Connection<S> {
    socket: S,
    deadline: Pin<Box<Sleep>>,
    closed: oneshot::Receiver<()>,
}

impl<S> Connection<S> {
    fn new(socket: S, time: Duration, closed: oneshot::Receiver<()>) -> Connection<S> {
        Connection {
            socket,
            deadline: Box::pin(sleep(time)),
            closed,
        }
    }

    fn check_deadline(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if Pin::new(&mut self.closed).poll(cx).is_ready() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        match self.deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_deadline(cx)?;
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_deadline(cx)?;
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
