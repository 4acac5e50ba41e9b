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
}

impl Kind {
    /// Every kind, in the order in which the matrix runs them.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::StartTls, Self::DirectTls];

    /// The name in scripts and in test names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::StartTls => "starttls",
            Self::DirectTls => "tls",
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

    /// Runs the TLS handshake over what is so far a plain socket.
    ///
    /// # Errors
    /// The handshake failed, or it runs already.
    pub fn start_tls(self, domain: &str) -> io::Result<Self> {
        let Self::Plain(mut socket) = self else {
            return Err(io::Error::other("TLS runs already"));
        };
        let name = ServerName::try_from(domain.to_owned()).map_err(io::Error::other)?;
        let mut session = ClientConnection::new(tls_config(), name).map_err(io::Error::other)?;
        socket.set_read_timeout(Some(WRITE_TIMEOUT))?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(Self::Tls(Box::new(StreamOwned::new(session, socket))))
    }

    /// Whether TLS runs.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The tls-exporter channel binding (RFC 9266), under TLS 1.3 only.
    #[must_use]
    pub fn exporter(&self) -> Option<[u8; 32]> {
        let Self::Tls(stream) = self else {
            return None;
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
        self.socket().set_read_timeout(Some(left))?;
        let result = match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
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
        }
    }

    /// Ends the link at once, without a word on any layer above TCP.
    pub fn drop_link(&mut self) {
        // The peer may have been faster; then there is nothing left to shut down.
        let _ = self.socket().shutdown(Shutdown::Both);
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }
}

fn tls_config() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
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
        config.alpn_protocols = vec![b"xmpp-client".to_vec()];
        Arc::new(config)
    };
    Arc::clone(CONFIG.get_or_init(make))
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
