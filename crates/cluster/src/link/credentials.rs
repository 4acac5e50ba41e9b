//! What a node proves its name with, and how it looks at others' proofs: TLS 1.3 with certificates
//! on both sides, of one CA, each with its node's name. Owns what is asked of certificates and what
//! an operator is told of one that is refused; files are the caller's business.
//!
//! | asked | by |
//! |---|---|
//! | the chain ends at the CA, is valid now, and is for servers and clients (or for anything) | rustls |
//! | the node that was connected to has the name that the map says (DNS name) | rustls |
//! | the node that connects has the name that it says in its hello | [`Credentials::check_name`] |
//!
//! Sessions are never resumed: each connection looks at the certificates anew.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, RootCertStore, ServerConfig,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// What links speak, told in the handshake (RFC 7301): another service is not taken for a node.
const PROTOCOL: &[u8] = b"roost-link";

/// Certificates of one chain, and of a CA file.
const CERTIFICATES_MAX: usize = 64;

/// The last moment that a certificate can name (RFC 5280 section 4.1.2.5): the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// What a node is given, as PEM.
#[derive(Clone, Copy)]
pub struct Pem<'a> {
    /// The chain, the node's own certificate first.
    pub certificate: &'a [u8],
    /// The private key of the first.
    pub key: &'a [u8],
    /// The CA of all nodes; several while one replaces another.
    pub ca: &'a [u8],
}

/// Why it is of no use. The operator is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// The node's certificate.
    #[error("cluster.certificate: {0}")]
    Certificate(String),
    /// Its key.
    #[error("cluster.key: {0}")]
    Key(String),
    /// The CA.
    #[error("cluster.ca: {0}")]
    Ca(String),
    /// The node cannot have a certificate under its name.
    #[error("cluster.name: {0}")]
    Name(String),
}

/// A node's certificate, checked and ready for use. Clones share it.
#[derive(Clone)]
pub struct Credentials {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
    chain: Arc<[CertificateDer<'static>]>,
    ca: Arc<[CertificateDer<'static>]>,
    expires: u64,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Credentials {
    /// The same certificates: another key would need another one.
    fn eq(&self, other: &Credentials) -> bool {
        self.chain == other.chain && self.ca == other.ca
    }
}

impl Eq for Credentials {}

impl Credentials {
    /// Looks at a node's certificate as its peers will.
    ///
    /// # Errors
    /// What is wrong with it, and what mends that.
    pub fn new(node: &str, pem: &Pem<'_>) -> Result<Credentials, CredentialsError> {
        let name = server_name(node).ok_or_else(|| {
            CredentialsError::Name(format!(
                "{node:?} cannot be in a certificate: with cluster.certificate it is of small \
                 letters, digits, - and _, has a letter, and does not begin or end with -"
            ))
        })?;
        let parts = Parts::read(pem)?;
        parts
            .judges
            .judge(&parts.chain, &name, UnixTime::now())
            .map_err(|error| CredentialsError::Certificate(format!("it {}", fault(&error))))?;
        let expires = parts.judges.expiry(&parts.chain, &name);
        parts.build(expires)
    }

    /// When the certificate, or one that it needs, expires: seconds since 1970.
    pub fn expires(&self) -> u64 {
        self.expires
    }

    pub(super) fn connector(&self) -> &TlsConnector {
        &self.connector
    }

    pub(super) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }

    /// Whether the certificate of who connected is for the name that it claims.
    pub(super) fn check_name(
        shown: Option<&[CertificateDer<'_>]>,
        claimed: &str,
    ) -> Result<(), String> {
        let first = shown.and_then(<[_]>::first).ok_or("no certificate")?;
        let name = server_name(claimed);
        let name = name.ok_or_else(|| format!("{claimed:?} cannot be in a certificate"))?;
        let parsed = ParsedCertificate::try_from(first).map_err(|error| error.to_string())?;
        verify_server_name(&parsed, &name).map_err(|error| {
            let fault = fault(&error);
            format!("it says that it is node {claimed}, but its certificate {fault}")
        })
    }
}

/// What was read, and was not looked at.
struct Parts {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    ca: Vec<CertificateDer<'static>>,
    judges: Judges,
}

impl Parts {
    fn read(pem: &Pem<'_>) -> Result<Parts, CredentialsError> {
        let chain = certificates(pem.certificate).map_err(CredentialsError::Certificate)?;
        let ca = certificates(pem.ca).map_err(CredentialsError::Ca)?;
        let key = PrivateKeyDer::from_pem_slice(pem.key)
            .map_err(|error| CredentialsError::Key(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        for one in &ca {
            let added = roots.add(one.clone());
            added.map_err(|error| CredentialsError::Ca(error.to_string()))?;
        }
        let judges = Judges::new(Arc::new(roots)).map_err(CredentialsError::Ca)?;
        Ok(Parts {
            chain,
            key,
            ca,
            judges,
        })
    }

    fn build(self, expires: u64) -> Result<Credentials, CredentialsError> {
        let configured = self.judges.configure(&self.chain, &self.key);
        let (connector, acceptor) = configured.map_err(|error| match error {
            Error::InconsistentKeys(_) => CredentialsError::Key(
                "it is not the key of cluster.certificate: name the two that belong together"
                    .to_owned(),
            ),
            other => CredentialsError::Key(other.to_string()),
        })?;
        Ok(Credentials {
            connector,
            acceptor,
            chain: self.chain.into(),
            ca: self.ca.into(),
            expires,
        })
    }
}

/// Whether a node of this name can have a certificate. Letters are small: names of certificates
/// are compared without regard to case, and names of nodes are not.
pub fn is_certifiable(node: &str) -> bool {
    server_name(node).is_some()
}

pub(super) fn server_name(node: &str) -> Option<ServerName<'static>> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    if !node.chars().all(is_plain) {
        return None;
    }
    match ServerName::try_from(node.to_owned()) {
        Ok(name @ ServerName::DnsName(_)) => Some(name),
        _ => None,
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| error.to_string())?;
    match all.len() {
        0 => Err("no certificate in the file: PEM is needed".to_owned()),
        1..=CERTIFICATES_MAX => Ok(all),
        more => Err(format!("{more} certificates, more than {CERTIFICATES_MAX}")),
    }
}

/// Those who look at certificates, of servers and of clients.
struct Judges {
    of_servers: Arc<WebPkiServerVerifier>,
    of_clients: Arc<dyn ClientCertVerifier>,
}

impl Judges {
    fn new(roots: Arc<RootCertStore>) -> Result<Judges, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let of_servers =
            WebPkiServerVerifier::builder_with_provider(roots.clone(), Arc::clone(&provider))
                .build()
                .map_err(|error| error.to_string())?;
        let of_clients = WebPkiClientVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Judges {
            of_servers,
            of_clients,
        })
    }

    /// What a peer would say of a chain at a time.
    fn judge(
        &self,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        at: UnixTime,
    ) -> Result<(), Error> {
        use rustls::client::danger::ServerCertVerifier as _;
        // Invariant: a chain has at least one certificate, or it was not read.
        let (own, rest) = chain.split_first().expect("a chain");
        self.of_servers
            .verify_server_cert(own, rest, name, &[], at)?;
        self.of_clients.verify_client_cert(own, rest, at)?;
        Ok(())
    }

    /// The first moment, in seconds, at which a chain that is good now is so no more.
    fn expiry(&self, chain: &[CertificateDer<'_>], name: &ServerName<'_>) -> u64 {
        let mut last = LAST_SECOND;
        // Who judges names one certificate that expired; another may have done so before.
        for _ in 0..CERTIFICATES_MAX {
            let at = UnixTime::since_unix_epoch(Duration::from_secs(last));
            match self.judge(chain, name, at) {
                Err(Error::InvalidCertificate(CertificateError::ExpiredContext {
                    not_after,
                    ..
                })) if not_after.as_secs() < last => last = not_after.as_secs(),
                _ => break,
            }
        }
        last
    }

    fn configure(
        self,
        chain: &[CertificateDer<'static>],
        key: &PrivateKeyDer<'static>,
    ) -> Result<(TlsConnector, TlsAcceptor), Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = &[&rustls::version::TLS13];
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)?
            .with_webpki_verifier(self.of_servers)
            .with_client_auth_cert(chain.to_vec(), key.clone_key())?;
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        client.resumption = Resumption::disabled();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(self.of_clients)
            .with_single_cert(chain.to_vec(), key.clone_key())?;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok((
            TlsConnector::from(Arc::new(client)),
            TlsAcceptor::from(Arc::new(server)),
        ))
    }
}

/// What is wrong with a certificate, and what mends it, to be said behind "it" or "its
/// certificate".
fn fault(error: &Error) -> String {
    let Error::InvalidCertificate(error) = error else {
        return format!("is of no use: {error}");
    };
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "has expired: put a new one there and reload (SIGHUP)".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet: look at the clocks of both machines".to_owned()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "is not of the CA in cluster.ca: all nodes need certificates of one CA".to_owned()
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            // Each is written as `DnsName("a")`.
            let bare = |name: &String| name.split('"').nth(1).unwrap_or(name).to_owned();
            let presented = match presented.is_empty() {
                true => "no name".to_owned(),
                false => presented.iter().map(bare).collect::<Vec<_>>().join(", "),
            };
            let expected = expected.to_str();
            format!(
                "is for {presented}: it needs the DNS name {expected} (subjectAltName), or the \
                 address is of another node"
            )
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is for another purpose: it needs the extended key usages serverAuth and clientAuth, \
             or none"
                .to_owned()
        }
        other => format!("is of no use: {other}"),
    }
}

/// What the other side, "it", did so that a connection failed.
pub(super) fn sentence(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(inner): Option<&Error> = inner else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => "it ended the connection".to_owned(),
            _ => error.to_string(),
        };
    };
    match inner {
        Error::InvalidCertificate(_) => format!("its certificate {}", fault(inner)),
        Error::NoCertificatesPresented => {
            "it shows no certificate: set cluster.certificate and cluster.key there".to_owned()
        }
        Error::AlertReceived(alert) => format!("it refuses this node: {}", refusal(*alert)),
        Error::InvalidMessage(_) => {
            "it does not speak TLS: a node without cluster.certificate, cluster.key and \
             cluster.ca, or no node at all"
                .to_owned()
        }
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => {
            format!("it does not speak TLS 1.3 as nodes do, or is no node: {inner}")
        }
        other => other.to_string(),
    }
}

/// What the other side thinks of this node's certificate.
fn refusal(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::CertificateExpired => "this node's certificate has expired for it",
        AlertDescription::UnknownCA => "this node's certificate is not of its CA (cluster.ca)",
        AlertDescription::CertificateRequired => "it wants a certificate (cluster.certificate)",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown => "this node's certificate does not suit it",
        other => return format!("TLS alert {other:?}; its log says more"),
    };
    format!("{why}; its log says more")
}

#[cfg(test)]
pub(super) mod tests;
