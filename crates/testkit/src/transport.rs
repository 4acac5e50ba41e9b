//! A blocking socket, in plain or under TLS, with deadlines on every read.
//!
//! The TLS client accepts any certificate: the servers under test sign their own.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::web::bosh::BoshLink;
use crate::web::websocket::{Link, WebSocketLink};

/// How long a connect or a write may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// How a client reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// No encryption.
    Tcp,
    /// TLS after STARTTLS (RFC 6120 section 5).
    StartTls,
    /// TLS from the first byte (XEP-0368).
    DirectTls,
    /// WebSocket without encryption (RFC 7395).
    WebSocket,
    /// WebSocket under TLS.
    WebSocketTls,
    /// BOSH without encryption (XEP-0124).
    Bosh,
}

impl Kind {
    /// Every kind, in the order in which the matrix runs them.
    pub const ALL: [Self; 6] = [
        Self::Tcp,
        Self::StartTls,
        Self::DirectTls,
        Self::WebSocket,
        Self::WebSocketTls,
        Self::Bosh,
    ];

    /// Whether the server's side of it is HTTP.
    #[must_use]
    pub fn is_web(self) -> bool {
        matches!(self, Self::WebSocket | Self::WebSocketTls | Self::Bosh)
    }

    /// Whether TLS begins with the first byte.
    #[must_use]
    pub fn is_direct_tls(self) -> bool {
        matches!(self, Self::DirectTls | Self::WebSocketTls)
    }

    /// The name in scripts and in test names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::StartTls => "starttls",
            Self::DirectTls => "tls",
            Self::WebSocket => "ws",
            Self::WebSocketTls => "wss",
            Self::Bosh => "bosh",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A connected socket.
pub enum Transport {
    /// Bytes as they are.
    Plain(TcpStream),
    /// Bytes under TLS.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    /// A stream over WebSocket, and its channel binding if it has TLS 1.3.
    WebSocket(Box<WebSocketLink>, Option<[u8; 32]>),
    /// A stream over BOSH.
    Bosh(Box<BoshLink>),
}

impl Link for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Link for StreamOwned<ClientConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }
}

impl Transport {
    /// Connects in plain.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, WRITE_TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(Self::Plain(socket))
    }

    /// Opens a session over BOSH, whose requests go to these nodes in turn.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn bosh(nodes: impl IntoIterator<Item = SocketAddr>) -> io::Result<Self> {
        let link = BoshLink::open(nodes.into_iter().collect())?;
        Ok(Self::Bosh(Box::new(link)))
    }

    /// Shakes hands for a stream over WebSocket.
    ///
    /// # Errors
    /// The server does not want it.
    pub fn web_socket(self, host: &str) -> io::Result<Self> {
        let exporter = self.exporter();
        let link: Box<dyn Link> = match self {
            Self::Plain(socket) => {
                socket.set_read_timeout(Some(WRITE_TIMEOUT))?;
                Box::new(socket)
            }
            Self::Tls(stream) => {
                stream.sock.set_read_timeout(Some(WRITE_TIMEOUT))?;
                stream
            }
            _ => return Err(io::Error::other("a stream over HTTP already")),
        };
        let is_tls = exporter.is_some();
        let link = WebSocketLink::open(link, host, is_tls)?;
        Ok(Self::WebSocket(Box::new(link), exporter))
    }

    /// Runs the TLS handshake over what is so far a plain socket.
    ///
    /// # Errors
    /// The handshake failed, or it runs already.
    pub fn start_tls(self, domain: &str) -> io::Result<Self> {
        self.start_tls_for(domain, b"xmpp-client")
    }

    /// The same for another protocol (ALPN).
    ///
    /// # Errors
    /// The handshake failed, or it runs already.
    pub fn start_tls_for(self, domain: &str, protocol: &'static [u8]) -> io::Result<Self> {
        let Self::Plain(mut socket) = self else {
            return Err(io::Error::other("TLS runs already"));
        };
        let name = ServerName::try_from(domain.to_owned()).map_err(io::Error::other)?;
        let mut session =
            ClientConnection::new(tls_config(protocol), name).map_err(io::Error::other)?;
        socket.set_read_timeout(Some(WRITE_TIMEOUT))?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(Self::Tls(Box::new(StreamOwned::new(session, socket))))
    }

    /// Whether TLS runs.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::WebSocket(_, Some(_)))
    }

    /// The tls-exporter channel binding (RFC 9266), under TLS 1.3 only.
    #[must_use]
    pub fn exporter(&self) -> Option<[u8; 32]> {
        let stream = match self {
            Self::Tls(stream) => stream,
            Self::WebSocket(_, exporter) => return *exporter,
            Self::Plain(_) | Self::Bosh(_) => return None,
        };
        if stream.conn.protocol_version() != Some(rustls::ProtocolVersion::TLSv1_3) {
            return None;
        }
        let label = b"EXPORTER-Channel-Binding";
        stream
            .conn
            .export_keying_material([0; 32], label, Some(&[]))
            .ok()
    }

    /// Reads what has arrived; 0 bytes mean that the peer closed the socket.
    ///
    /// # Errors
    /// `TimedOut` once the deadline has passed; else the link broke.
    pub fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        if let Some(socket) = self.socket() {
            socket.set_read_timeout(Some(left))?;
        }
        let result = match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
            Self::WebSocket(link, _) => link.read(buffer),
            Self::Bosh(link) => link.read(buffer, deadline),
        };
        match result {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::TimedOut.into()),
            // A peer that closes TCP without a close_notify ends the stream all the same.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            other => other,
        }
    }

    /// Writes everything.
    ///
    /// # Errors
    /// The link broke, or the server has not read for ten seconds.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
            Self::WebSocket(link, _) => link.write(bytes),
            Self::Bosh(link) => link.write(bytes),
        }
    }

    /// Ends the link at once, without a word on any layer above TCP.
    pub fn drop_link(&mut self) {
        // The peer may have been faster; then there is nothing left to shut down.
        match self {
            Self::Bosh(link) => link.drop_link(),
            Self::WebSocket(link, _) => link.drop_link(),
            Self::Plain(socket) => drop(socket.shutdown(Shutdown::Both)),
            Self::Tls(stream) => drop(stream.sock.shutdown(Shutdown::Both)),
        }
    }

    fn socket(&self) -> Option<&TcpStream> {
        match self {
            Self::Plain(socket) => Some(socket),
            Self::Tls(stream) => Some(&stream.sock),
            Self::WebSocket(link, _) => Some(link.tcp()),
            Self::Bosh(_) => None,
        }
    }
}

fn tls_config(protocol: &[u8]) -> Arc<ClientConfig> {
    static XMPP: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    static HTTP: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let known = if protocol == b"http/1.1" {
        &HTTP
    } else {
        &XMPP
    };
    let make = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(AcceptAny(Arc::clone(&provider)));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            // Invariant: the ring provider supports the default versions.
            .expect("TLS versions")
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        Arc::new(config)
    };
    Arc::clone(known.get_or_init(make))
}

/// Takes any certificate, but still checks that the server holds its key.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
