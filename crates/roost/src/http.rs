//! Health checks and figures over HTTP, in a thread of its own. Owns the endpoints and the bounds
//! of their connections; knows of the server only what its owner tells it.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use stdx::time::{Clock as _, Moment, SystemClock};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

/// Connections at a time, over all addresses. One more closes the oldest of the address that has
/// the most: whoever is slow is in nobody's way.
const CONNECTIONS_MAX: usize = 64;

/// Life of a connection: whoever wants to stay longer connects again.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after accepting failed, before the next try.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// How long a page of figures is given out before a new one is made: whoever asks more often costs
/// no more than the copying.
const FIGURES_AGE_MAX: Duration = Duration::from_millis(200);

/// Where the server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    stage: Arc<AtomicU8>,
}

impl Health {
    /// Notes where the server is now.
    pub(crate) fn set(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
    }

    fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Starting,
            1 => Stage::Ready,
            2 => Stage::Draining,
            _ => Stage::Broken,
        }
    }
}

/// Makes a page of figures.
pub(crate) type MakePage = Box<dyn Fn() -> String + Send>;

/// The page of figures, once there is a server that has some.
#[derive(Clone)]
pub(crate) struct Figures {
    clock: SystemClock,
    content_type: &'static str,
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

    fn page(&self) -> Option<Arc<str>> {
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

/// Binds the addresses and serves them until the process ends. Returns the bound addresses.
///
/// # Errors
/// The first address that cannot be bound, with the reason.
pub(crate) fn start(
    addresses: &[SocketAddr],
    health: &Health,
    figures: &Figures,
) -> io::Result<Vec<SocketAddr>> {
    let mut listeners = Vec::new();
    let mut bound = Vec::new();
    for address in addresses {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
        let listener = StdListener::bind(address).map_err(named)?;
        listener.set_nonblocking(true)?;
        bound.push(listener.local_addr()?);
        listeners.push(listener);
    }
    if !listeners.is_empty() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let router = router(health, figures);
        thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || runtime.block_on(serve(listeners, router)))?;
    }
    Ok(bound)
}

fn router(health: &Health, figures: &Figures) -> Router {
    let checks = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(health.clone());
    let pages = Router::new()
        .route("/metrics", get(metrics))
        .with_state(figures.clone());
    checks.merge(pages)
}

/// Whether the process is worth keeping: only a failure that a restart would mend says no.
async fn healthz(State(health): State<Health>) -> (StatusCode, &'static str) {
    match health.stage() {
        Stage::Starting | Stage::Ready | Stage::Draining => (StatusCode::OK, "ok\n"),
        Stage::Broken => (StatusCode::SERVICE_UNAVAILABLE, "broken\n"),
    }
}

/// Whether to send it new clients.
async fn readyz(State(health): State<Health>) -> (StatusCode, &'static str) {
    match health.stage() {
        Stage::Ready => (StatusCode::OK, "ready\n"),
        Stage::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
        Stage::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        Stage::Broken => (StatusCode::SERVICE_UNAVAILABLE, "broken\n"),
    }
}

/// Everything that is counted.
async fn metrics(State(figures): State<Figures>) -> Response {
    match figures.page() {
        Some(page) => {
            let kind = [(header::CONTENT_TYPE, figures.content_type)];
            (kind, page.to_string()).into_response()
        }
        None => (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response(),
    }
}

async fn serve(listeners: Vec<StdListener>, router: Router) {
    let places: Arc<Mutex<Places>> = Arc::default();
    let mut tasks = tokio::task::JoinSet::new();
    for listener in listeners {
        let listener = match TcpListener::from_std(listener) {
            Ok(socket) => Bounded {
                socket,
                places: Arc::clone(&places),
            },
            Err(error) => {
                tracing::error!(%error, "HTTP: an address is not served");
                continue;
            }
        };
        let router = router.clone();
        tasks.spawn(async move { axum::serve(listener, router).await });
    }
    while tasks.join_next().await.is_some() {}
}

/// The connections that are open, the oldest first, and the way to close each.
#[derive(Default)]
struct Places(VecDeque<(IpAddr, oneshot::Sender<()>)>);

impl Places {
    /// A place for a connection of `address`; what closes it if another one needs the place.
    fn take(&mut self, address: IpAddr) -> oneshot::Receiver<()> {
        self.0.retain(|(_, close)| !close.is_closed());
        while self.0.len() >= CONNECTIONS_MAX {
            let of = |address| self.0.iter().filter(|(other, _)| *other == address).count();
            let most = self.0.iter().map(|(address, _)| of(*address)).max();
            let oldest = self
                .0
                .iter()
                .position(|(address, _)| Some(of(*address)) == most);
            if let Some((_, close)) = oldest.and_then(|at| self.0.remove(at)) {
                // It may have ended by itself in this moment.
                let _ = close.send(());
            }
        }
        let (close, closed) = oneshot::channel();
        self.0.push_back((address, close));
        closed
    }
}

/// A listener that keeps the bounds.
struct Bounded {
    socket: TcpListener,
    places: Arc<Mutex<Places>>,
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.socket.accept().await {
                Ok((socket, address)) => {
                    let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
                    let connection = Connection {
                        socket,
                        deadline: Box::pin(sleep(CONNECTION_TIMEOUT)),
                        closed: places.take(address.ip()),
                    };
                    return (connection, address);
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

/// A connection that ends at its deadline, whatever its peer does, or when its place is needed.
struct Connection {
    socket: TcpStream,
    deadline: Pin<Box<Sleep>>,
    closed: oneshot::Receiver<()>,
}

impl Connection {
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

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_deadline(cx)?;
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
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
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream as StdStream;

    use super::*;

    fn request(address: SocketAddr, path: &str) -> String {
        let mut socket = StdStream::connect(address).expect("connect");
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).expect("write");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("read");
        let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
        let body = answer
            .rsplit("\r\n")
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned();
        format!("{status} {body}")
    }

    #[test]
    fn the_endpoints_follow_the_life_of_the_server() {
        let (health, figures) = (Health::default(), Figures::new("text/plain"));
        let any: SocketAddr = "127.0.0.1:0".parse().expect("address");
        let address = start(&[any], &health, &figures).expect("bound")[0];
        let expected = [
            (Stage::Starting, "200 ok", "503 starting"),
            (Stage::Ready, "200 ok", "200 ready"),
            (Stage::Draining, "200 ok", "503 draining"),
            (Stage::Broken, "503 broken", "503 broken"),
        ];
        for (stage, healthz, readyz) in expected {
            health.set(stage);
            assert_eq!(request(address, "/healthz"), healthz);
            assert_eq!(request(address, "/readyz"), readyz);
        }
        assert!(request(address, "/etc/passwd").starts_with("404"));
        let taken = start(&[address], &health, &figures)
            .expect_err("taken")
            .to_string();
        assert!(taken.starts_with(&address.to_string()), "{taken}");
    }

    #[test]
    fn figures_are_made_when_asked_for_and_not_more_often_than_they_change() {
        let (health, figures) = (Health::default(), Figures::new("text/plain; version=0.0.4"));
        let any: SocketAddr = "127.0.0.1:0".parse().expect("address");
        let address = start(&[any], &health, &figures).expect("bound")[0];
        assert_eq!(request(address, "/metrics"), "503 starting");
        let count = AtomicU8::new(0);
        figures.set(Box::new(move || {
            format!("made {}\n", count.fetch_add(1, Ordering::Relaxed))
        }));
        assert_eq!(request(address, "/metrics"), "200 made 0");
        thread::sleep(FIGURES_AGE_MAX);
        assert_eq!(request(address, "/metrics"), "200 made 1");
        let (one, two) = (figures.page(), figures.page());
        let is_same = one.zip(two).is_some_and(|(a, b)| Arc::ptr_eq(&a, &b));
        assert!(is_same || figures.clock.now() > Moment::ZERO + FIGURES_AGE_MAX);
    }

    /// 200 clients that never finish their request, as found in the wild, and one that does.
    #[test]
    fn slow_connections_are_in_nobodys_way() {
        let (health, figures) = (Health::default(), Figures::new("text/plain"));
        let any: SocketAddr = "127.0.0.1:0".parse().expect("address");
        let address = start(&[any], &health, &figures).expect("bound")[0];
        let slow: Vec<StdStream> = (0..200)
            .map(|_| {
                let mut slow = StdStream::connect(address).expect("connect");
                slow.write_all(b"GET /healthz HTTP/1.1\r\nHost:")
                    .expect("write");
                slow
            })
            .collect();
        for _ in 0..3 {
            assert_eq!(request(address, "/healthz"), "200 ok");
        }
        let mut closed = 0;
        for mut slow in slow {
            slow.set_read_timeout(Some(Duration::from_millis(1)))
                .expect("timeout");
            let mut byte = [0];
            let waits = slow.read(&mut byte).is_err_and(|error| {
                matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                )
            });
            closed += usize::from(!waits);
        }
        assert!(closed >= 200 - CONNECTIONS_MAX, "{closed} were closed");
    }

    #[test]
    fn the_oldest_of_who_has_the_most_gives_its_place_up() {
        let mut places = Places::default();
        let address = |n: u8| IpAddr::from([192, 0, 2, n]);
        let mut of_one = places.take(address(1));
        let mut of_many: Vec<_> = (1..CONNECTIONS_MAX)
            .map(|_| places.take(address(2)))
            .collect();
        let mut late = places.take(address(3));
        assert!(of_many[0].try_recv().is_ok(), "the oldest");
        of_many.remove(0);
        for place in of_many.iter_mut().chain([&mut of_one, &mut late]) {
            assert!(place.try_recv().is_err(), "nobody else");
        }
        assert_eq!(places.0.len(), CONNECTIONS_MAX);
        of_many.clear();
        drop(places.take(address(2)));
        assert_eq!(places.0.len(), 3, "those that ended are forgotten");
    }
}
