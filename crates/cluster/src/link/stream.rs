//! The bytes of a link, encrypted or not, over TCP or a socket file. Owns the difference, which
//! nothing else sees.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsStream;

use super::Listen;

/// Where connections of other nodes arrive.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection that another node made, of which nothing is known yet.
pub(super) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Listens.
    pub(super) async fn bind(at: &Listen) -> io::Result<Listener> {
        let path = match at {
            Listen::Tcp(address) => return TcpListener::bind(address).await.map(Listener::Tcp),
            Listen::Unix(path) => path,
        };
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        Ok(Listener::Unix(listener))
    }

    /// The next connection, and where it comes from.
    pub(super) async fn accept(&self) -> io::Result<(Accepted, String)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                // What is written is written at once.
                let _ = stream.set_nodelay(true);
                Ok((Accepted::Tcp(stream), from.ip().to_string()))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Accepted::Unix(stream), "this machine".to_owned()))
            }
        }
    }
}

/// A connection between two nodes.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Unix(UnixStream),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    /// What was taken may still be in the record layer: [`Self::poll_flush`] follows.
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
