//! Listening sockets: one per shard and address, sharing the port through SO_REUSEPORT so that the
//! kernel spreads connections over shards; or one socket in the file system, of which every shard
//! has a handle. Owns binding; accepting is `accept`.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use crate::address::Network;
use crate::limits::UNSENT_MAX;

/// Connections the kernel queues per listening socket. It cuts this down to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// What the connections of a listener speak. This crate only chooses the ALPN name by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speaks {
    /// Client streams of XMPP.
    #[default]
    Xmpp,
    /// HTTP/1.1.
    Http,
    /// Streams of components (XEP-0114); the service knows by the number which of them.
    Component(u16),
}

/// An address to listen on, and how its connections begin.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Where to listen; port 0 takes a free port, see
    /// [`Network::addresses`](crate::Network::addresses).
    pub address: SocketAddr,
    /// Whether TLS begins with the first byte (XEP-0368) and not by STARTTLS.
    pub direct_tls: bool,
    /// What its connections speak.
    pub speaks: Speaks,
    /// Balancers that put a PROXY header before each connection. When this is not empty,
    /// connections from other addresses are refused: a header must never be guessed.
    pub proxies: Vec<Network>,
    /// TCP keepalive: the quiet time before the first probe; 3 unanswered probes, a quarter of it
    /// apart, end the connection. `None` leaves dead peers to the stream's own pings.
    pub keepalive: Option<Duration>,
    /// How long unacknowledged data may stay so before the kernel gives the connection up
    /// (TCP_USER_TIMEOUT). `None` is the kernel's own, about 15 minutes.
    pub user_timeout: Option<Duration>,
    /// Sockets that [`Listener::reserve`] has bound; none: they are bound with the network.
    pub reserved: Vec<Arc<TcpListener>>,
    /// A socket in the file system instead, for its owner and group. Who connects there comes from
    /// `address` as far as limits are concerned.
    pub path: Option<PathBuf>,
}

impl Listener {
    /// A listener for STARTTLS without PROXY headers, with keepalive after 10 minutes and a user
    /// timeout of 2 minutes.
    pub fn new(address: SocketAddr) -> Listener {
        Listener {
            address,
            direct_tls: false,
            speaks: Speaks::Xmpp,
            proxies: Vec::new(),
            keepalive: Some(Duration::from_secs(600)),
            user_timeout: Some(Duration::from_secs(120)),
            reserved: Vec::new(),
            path: None,
        }
    }

    /// A listener at a path of the file system, whose connections come from the loopback address.
    pub fn at_path(path: PathBuf) -> Listener {
        Listener {
            path: Some(path),
            ..Listener::new((Ipv4Addr::LOCALHOST, 0).into())
        }
    }

    /// Binds the sockets already, one for each shard, so that somebody else can answer on them as
    /// long as no shard does: whoever accepts from the same socket gets the connection.
    ///
    /// # Errors
    /// The operating system's.
    pub fn reserve(mut self, shards: u16) -> io::Result<Listener> {
        let (address, sockets) = bind_address(&self, usize::from(shards))?;
        self.address = address;
        self.reserved = sockets.into_iter().map(Arc::new).collect();
        Ok(self)
    }

    /// The same with TLS from the first byte.
    pub fn direct_tls(address: SocketAddr) -> Listener {
        Listener {
            direct_tls: true,
            ..Listener::new(address)
        }
    }
}

/// A bound socket of one shard.
pub(crate) enum Bound {
    /// At an address.
    Tcp(TcpListener),
    /// In the file system.
    Unix(UnixListener),
}

/// Binds `count` sockets, and returns the address they share.
pub(crate) fn bind(spec: &Listener, count: usize) -> io::Result<(SocketAddr, Vec<Bound>)> {
    if let Some(path) = &spec.path {
        let sockets = bind_path(path, count)?;
        return Ok((spec.address, sockets));
    }
    let (address, sockets) = bind_address(spec, count)?;
    Ok((address, sockets.into_iter().map(Bound::Tcp).collect()))
}

/// Binds a socket in the file system. One that is there and that nobody listens at any more is
/// left over from a process that was killed.
fn bind_path(path: &Path, count: usize) -> io::Result<Vec<Bound>> {
    match UnixStream::connect(path) {
        Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
        Err(_) => {}
    }
    match fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => {}
    }
    let socket = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    socket.set_nonblocking(true)?;
    let handles = (0..count).map(|_| socket.try_clone().map(Bound::Unix));
    handles.collect()
}

/// A connection by a socket in the file system, which from here on is treated like any other.
pub(crate) fn as_tcp(socket: impl Into<OwnedFd>) -> mio::net::TcpStream {
    mio::net::TcpStream::from_std(std::net::TcpStream::from(socket.into()))
}

/// Binds `count` sockets to the listener's address, and returns the address they share.
///
/// A first socket without SO_REUSEPORT is bound and closed: it finds out whether another process
/// listens there already, which SO_REUSEPORT would silently share connections with.
fn bind_address(spec: &Listener, count: usize) -> io::Result<(SocketAddr, Vec<TcpListener>)> {
    if !spec.reserved.is_empty() {
        let sockets = spec.reserved.iter().take(count);
        let sockets = sockets.map(|socket| socket.try_clone());
        return Ok((spec.address, sockets.collect::<io::Result<_>>()?));
    }
    let probe = open(spec)?;
    probe.bind(&spec.address.into())?;
    let address = probe
        .local_addr()?
        .as_socket()
        .ok_or_else(|| io::Error::other("a bound socket without an internet address"))?;
    drop(probe);
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = open(spec)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        listeners.push(TcpListener::from(socket));
    }
    Ok((address, listeners))
}

/// A socket with every option that accepted connections inherit from their listener on Linux, which
/// saves those system calls per connection.
fn open(spec: &Listener) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(spec.address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if spec.address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT_MAX)?;
    if let Some(idle) = spec.keepalive {
        let interval = (idle / 4).max(Duration::from_secs(1));
        let keepalive = TcpKeepalive::new()
            .with_time(idle)
            .with_interval(interval)
            .with_retries(3);
        socket.set_tcp_keepalive(&keepalive)?;
    }
    if spec.user_timeout.is_some() {
        socket.set_tcp_user_timeout(spec.user_timeout)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Who reads nothing has the rest of what he is sent counted here, and not megabytes of it in
    /// the kernel, where no limit of ours reaches.
    #[test]
    fn the_kernel_holds_little_for_who_does_not_read() {
        let spec = Listener::new("127.0.0.1:0".parse().expect("address"));
        let (address, listeners) = bind_address(&spec, 1).expect("bind");
        let client = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        client.set_recv_buffer_size(4096).expect("option");
        client.connect(&address.into()).expect("connect");
        listeners[0].set_nonblocking(false).expect("blocking");
        let (mut accepted, _) = listeners[0].accept().expect("accept");
        accepted.set_nonblocking(true).expect("nonblocking");
        let (chunk, mut taken) = ([b'x'; 16 * 1024], 0);
        let error = loop {
            match accepted.write(&chunk) {
                Ok(bytes) => taken += bytes,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        // The last segment may go over it, and some left for the other side.
        assert!(taken < UNSENT_MAX as usize + 256 * 1024, "{taken} bytes");
    }

    #[test]
    fn shards_share_a_port_and_strangers_do_not() {
        let spec = Listener::new("127.0.0.1:0".parse().expect("address"));
        let (address, listeners) = bind_address(&spec, 3).expect("bind");
        assert_eq!(listeners.len(), 3);
        for listener in &listeners {
            assert_eq!(listener.local_addr().expect("address"), address);
        }
        let second = bind_address(&Listener::new(address), 1);
        assert_eq!(second.expect_err("taken").kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn accepted_sockets_inherit_their_options() {
        let spec = Listener::new("127.0.0.1:0".parse().expect("address"));
        let (address, listeners) = bind_address(&spec, 1).expect("bind");
        listeners[0].set_nonblocking(false).expect("blocking");
        let _client = std::net::TcpStream::connect(address).expect("connect");
        let (accepted, _) = listeners[0].accept().expect("accept");
        let socket = socket2::SockRef::from(&accepted);
        assert!(socket.tcp_nodelay().expect("option"));
        assert!(socket.keepalive().expect("option"));
        assert_eq!(
            socket.tcp_keepalive_time().expect("option"),
            Duration::from_secs(600)
        );
        assert_eq!(
            socket.tcp_user_timeout().expect("option"),
            spec.user_timeout
        );
    }

    /// A process that was killed leaves its socket behind: the next one takes its place, unless
    /// somebody listens there or it is something else.
    #[test]
    fn a_socket_of_before_gives_way_and_nothing_else_does() {
        let folder = std::env::temp_dir().join(format!("roost-listen-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let spec = Listener::at_path(folder.join("a.sock"));
        let path = spec.path.clone().expect("a path");
        let (_, first) = bind(&spec, 2).expect("bind");
        assert_eq!(first.len(), 2);
        let mode = fs::metadata(&path).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o660);
        let taken = bind(&spec, 1).err().expect("somebody listens there");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        drop(bind(&spec, 1).expect("nobody listens there"));
        fs::remove_file(&path).expect("a socket");
        fs::write(&path, "mine").expect("a file");
        let taken = bind(&spec, 1).err().expect("it is no socket");
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("a file"), b"mine");
        fs::remove_dir_all(&folder).expect("a folder");
    }
}
