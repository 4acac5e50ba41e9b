//! Health checks over HTTP, in a thread of its own. Owns the endpoints and the bounds of their
//! connections; knows of the server only what its owner tells it.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// Connections at a time, over all addresses; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;

/// Life of a connection: whoever wants to stay longer connects again.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after accepting failed, before the next try.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

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

/// Binds the addresses and serves them until the process ends. Returns the bound addresses.
///
/// # Errors
/// The first address that cannot be bound, with the reason.
pub(crate) fn start(addresses: &[SocketAddr], health: &Health) -> io::Result<Vec<SocketAddr>> {
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
        let router = router(health);
        thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || runtime.block_on(serve(listeners, router)))?;
    }
    Ok(bound)
}

fn router(health: &Health) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(health.clone())
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

async fn serve(listeners: Vec<StdListener>, router: Router) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut tasks = tokio::task::JoinSet::new();
    for listener in listeners {
        let listener = match TcpListener::from_std(listener) {
            Ok(socket) => Bounded {
                socket,
                permits: Arc::clone(&permits),
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

/// A listener that keeps the bounds.
struct Bounded {
    socket: TcpListener,
    permits: Arc<Semaphore>,
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            match (permit, self.socket.accept().await) {
                (Ok(permit), Ok((socket, address))) => {
                    let deadline = Box::pin(sleep(CONNECTION_TIMEOUT));
                    return (
                        Connection {
                            socket,
                            deadline,
                            _permit: permit,
                        },
                        address,
                    );
                }
                (_, Err(error)) => {
                    tracing::debug!(%error, "HTTP: cannot accept");
                    sleep(ACCEPT_BACKOFF).await;
                }
                // The semaphore is never closed.
                (Err(_), Ok(_)) => {}
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// A connection that ends at its deadline, whatever its peer does.
struct Connection {
    socket: TcpStream,
    deadline: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    fn check_deadline(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
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
        let health = Health::default();
        let any: SocketAddr = "127.0.0.1:0".parse().expect("address");
        let address = start(&[any], &health).expect("bound")[0];
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
        let taken = start(&[address], &health).expect_err("taken").to_string();
        assert!(taken.starts_with(&address.to_string()), "{taken}");
    }

    #[test]
    fn connections_beyond_the_bound_wait() {
        let health = Health::default();
        let any: SocketAddr = "127.0.0.1:0".parse().expect("address");
        let address = start(&[any], &health).expect("bound")[0];
        let silent: Vec<StdStream> = (0..CONNECTIONS_MAX)
            .map(|_| StdStream::connect(address).expect("connect"))
            .collect();
        let mut late = StdStream::connect(address).expect("the kernel takes it");
        late.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")
            .expect("write");
        late.set_read_timeout(Some(Duration::from_millis(300)))
            .expect("timeout");
        let mut byte = [0];
        assert!(
            late.read(&mut byte).is_err(),
            "not served while all places are taken"
        );
        drop(silent);
        late.set_read_timeout(Some(Duration::from_secs(10)))
            .expect("timeout");
        assert_eq!(late.read(&mut byte).expect("served"), 1);
    }
}
