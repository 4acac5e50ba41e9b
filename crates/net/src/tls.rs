//! TLS settings of a node: certificates by server name, protocol versions, ALPN, session tickets,
//! and the exporter that rustls' unbuffered connections do not have. Owns configuration only; the
//! record layer of one connection is `record`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use ring::hkdf;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{KeyLog, ServerConfig};

use crate::listen::Speaks;

/// The ALPN protocol name of a client stream (XEP-0368).
pub const ALPN_CLIENT: &[u8] = b"xmpp-client";

/// The ALPN protocol name of HTTP/1.1 (RFC 7301 section 6), the only one of the web listeners.
const ALPN_HTTP: &[u8] = b"http/1.1";

/// Certificates per node: a bound on what a configuration may ask for.
const CERTIFICATES_MAX: usize = 10_000;

/// One certificate chain with its key and the server names it is presented for.
#[derive(Debug)]
pub struct Certificate {
    /// Server names, matched without regard to case; `*.example.org` stands for one label.
    pub names: Vec<String>,
    /// The chain, the server's own certificate first.
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key of the first certificate.
    pub key: PrivateKeyDer<'static>,
}

impl Certificate {
    /// Reads a PEM chain and a PEM key (PKCS#8, PKCS#1 or SEC1).
    pub fn from_pem(names: Vec<String>, chain: &[u8], key: &[u8]) -> Result<Certificate, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsError::Chain(error.to_string()))?;
        if chain.is_empty() {
            return Err(TlsError::Chain("no certificate in the file".into()));
        }
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Key(error.to_string()))?;
        Ok(Certificate { names, chain, key })
    }
}

/// Why TLS settings cannot be used. The operator is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The certificate file cannot be read as a chain.
    #[error("certificate chain: {0}")]
    Chain(String),
    /// The key file cannot be read, or its kind is not supported.
    #[error("private key: {0}")]
    Key(String),
    /// Certificate and key do not belong together.
    #[error("certificate of {0} and its private key do not belong together")]
    Mismatch(String),
    /// No certificate at all, or too many.
    #[error("{0} certificates given; 1 to 10000 are possible")]
    Count(usize),
    /// rustls refuses the settings.
    #[error("TLS settings: {0}")]
    Settings(String),
}

/// What a node offers in a handshake.
#[derive(Debug)]
pub struct TlsSettings {
    /// Certificates; the first one is presented to clients that name no known server.
    pub certificates: Vec<Certificate>,
    /// Whether TLS 1.2 is accepted besides 1.3. Default in [`TlsSettings::new`]: yes.
    pub tls12: bool,
    /// Whether clients get session tickets, so that a reconnect storm costs no signatures. Tickets
    /// are stateless: the server keeps nothing. Default: yes.
    pub tickets: bool,
}

impl TlsSettings {
    /// TLS 1.2 and 1.3 with tickets.
    pub fn new(certificates: Vec<Certificate>) -> TlsSettings {
        TlsSettings {
            certificates,
            tls12: true,
            tickets: true,
        }
    }

    /// Checks the settings and prepares them for use. Ticket keys are new with each call.
    pub fn build(self) -> Result<TlsConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        if self.certificates.is_empty() || self.certificates.len() > CERTIFICATES_MAX {
            return Err(TlsError::Count(self.certificates.len()));
        }
        let mut by_name = HashMap::new();
        let mut first = None;
        for certificate in self.certificates {
            let key = provider
                .key_provider
                .load_private_key(certificate.key)
                .map_err(|error| TlsError::Key(error.to_string()))?;
            let certified = Arc::new(CertifiedKey::new(certificate.chain, key));
            if let Err(rustls::Error::InconsistentKeys(_)) = certified.keys_match() {
                return Err(TlsError::Mismatch(certificate.names.join(", ")));
            }
            for name in certificate.names {
                by_name
                    .entry(name.to_ascii_lowercase())
                    .or_insert_with(|| certified.clone());
            }
            first.get_or_insert(certified);
        }
        // Invariant: the list is not empty, checked above.
        let default = first.ok_or(TlsError::Count(0))?;
        let versions: &[&rustls::SupportedProtocolVersion] = if self.tls12 {
            &[&rustls::version::TLS13, &rustls::version::TLS12]
        } else {
            &[&rustls::version::TLS13]
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|error| TlsError::Settings(error.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ByName { by_name, default }));
        config.alpn_protocols = vec![ALPN_CLIENT.to_vec()];
        config.key_log = Arc::new(ExporterTap);
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = usize::from(self.tickets);
        if self.tickets {
            config.ticketer = rustls::crypto::ring::Ticketer::new()
                .map_err(|error| TlsError::Settings(error.to_string()))?;
        }
        let mut web = config.clone();
        web.alpn_protocols = vec![ALPN_HTTP.to_vec()];
        Ok(TlsConfig {
            xmpp: Arc::new(config),
            http: Arc::new(web),
        })
    }
}

/// TLS settings ready for use; cheap to clone.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    xmpp: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
}

impl TlsConfig {
    /// The same but for the protocol that is negotiated: a client that offers only another one is
    /// refused (RFC 7301 section 3.2).
    pub(crate) fn config(&self, speaks: Speaks) -> &Arc<ServerConfig> {
        match speaks {
            Speaks::Xmpp | Speaks::Component(_) => &self.xmpp,
            Speaks::Http => &self.http,
        }
    }
}

/// Chooses the certificate by the name the client asks for.
#[derive(Debug)]
struct ByName {
    by_name: HashMap<String, Arc<CertifiedKey>>,
    default: Arc<CertifiedKey>,
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let Some(name) = hello.server_name() else {
            return Some(self.default.clone());
        };
        let name = name.to_ascii_lowercase();
        // Unbuffered connections do not tell the name later on.
        ASKED.with_borrow_mut(|slot| *slot = Some(name.as_str().into()));
        let exact = self.by_name.get(name.as_str());
        let wildcard = || {
            let (_, parent) = name.split_once('.')?;
            self.by_name.get(format!("*.{parent}").as_str())
        };
        Some(exact.or_else(wildcard).unwrap_or(&self.default).clone())
    }
}

thread_local! {
    /// The server name that the handshake step this thread is in the middle of asked for.
    static ASKED: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
    /// The exporter secret of the handshake step this thread is in the middle of.
    static TAPPED: RefCell<Option<Secret>> = const { RefCell::new(None) };
}

/// A TLS 1.3 exporter master secret: 32 or 48 bytes, by the hash of its cipher suite.
struct Secret {
    bytes: [u8; 48],
    length: usize,
}

/// Takes the exporter master secret from rustls' key log, the only place where an unbuffered
/// connection shows it. Nothing else is logged, and nothing stays: see [`take_exporter`].
#[derive(Debug)]
struct ExporterTap;

const EXPORTER_SECRET: &str = "EXPORTER_SECRET";

impl KeyLog for ExporterTap {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if label != EXPORTER_SECRET || secret.len() > 48 {
            return;
        }
        let mut bytes = [0; 48];
        bytes[..secret.len()].copy_from_slice(secret);
        let tapped = Secret {
            bytes,
            length: secret.len(),
        };
        TAPPED.with_borrow_mut(|slot| *slot = Some(tapped));
    }

    fn will_log(&self, label: &str) -> bool {
        label == EXPORTER_SECRET
    }
}

/// The server name that the handshake step which just ran on this thread asked for, if any.
pub(crate) fn take_server_name() -> Option<Box<str>> {
    ASKED.with_borrow_mut(Option::take)
}

/// The `tls-exporter` channel binding (RFC 9266) of the handshake step that just ran on this
/// thread, if it derived an exporter secret. Forgets the secret.
pub(crate) fn take_exporter() -> Option<[u8; 32]> {
    let mut secret = TAPPED.with_borrow_mut(Option::take)?;
    let binding = channel_binding(&secret.bytes[..secret.length]);
    secret.bytes = [0; 48];
    // The compiler must not drop the clearing as a dead store.
    std::hint::black_box(&secret.bytes);
    binding
}

/// RFC 8446 section 7.5 with the label of RFC 9266 section 2, an empty context and 32 bytes.
fn channel_binding(exporter_master: &[u8]) -> Option<[u8; 32]> {
    const LABEL: &[u8] = b"EXPORTER-Channel-Binding";
    let (algorithm, digest) = match exporter_master.len() {
        32 => (hkdf::HKDF_SHA256, &ring::digest::SHA256),
        48 => (hkdf::HKDF_SHA384, &ring::digest::SHA384),
        _ => return None,
    };
    let empty = ring::digest::digest(digest, b"");
    let mut derived = [0; 48];
    let derived = &mut derived[..exporter_master.len()];
    expand_label(algorithm, exporter_master, LABEL, empty.as_ref(), derived)?;
    let mut binding = [0; 32];
    expand_label(
        algorithm,
        derived,
        b"exporter",
        empty.as_ref(),
        &mut binding,
    )?;
    Some(binding)
}

/// `HKDF-Expand-Label` of RFC 8446 section 7.1.
fn expand_label(
    algorithm: hkdf::Algorithm,
    secret: &[u8],
    label: &[u8],
    context: &[u8],
    out: &mut [u8],
) -> Option<()> {
    const PREFIX: &[u8] = b"tls13 ";
    let length = u16::try_from(out.len()).ok()?.to_be_bytes();
    let label_length = [u8::try_from(PREFIX.len() + label.len()).ok()?];
    let context_length = [u8::try_from(context.len()).ok()?];
    let info = [
        &length[..],
        &label_length,
        PREFIX,
        label,
        &context_length,
        context,
    ];
    let secret = hkdf::Prk::new_less_safe(algorithm, secret);
    secret.expand(&info, Length(out.len())).ok()?.fill(out).ok()
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}
