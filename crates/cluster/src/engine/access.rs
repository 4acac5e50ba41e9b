//! How a node is let in by the engine's servers, and how it knows that they are those: what
//! addresses say of a user, and files of this machine. Owns what an operator is told of a file.

use std::path::{Path, PathBuf};

use async_nats::{ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::EngineError;

/// Largest of these files, in bytes.
const FILE_BYTES_MAX: u64 = 1_024 * 1_024;

/// Files of this machine. Certificates are read whenever a connection is made, so that renewed ones
/// count without a restart; credentials are read once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// PEM file with the CA that the servers' certificates are of. With it every connection is TLS,
    /// whatever the addresses say. Without it, `tls://` believes the CAs of the system.
    pub ca: Option<PathBuf>,
    /// PEM files with the certificate chain that a server is shown, and with its private key. With
    /// them every connection is TLS too.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// File with a user's JWT and the seed of its key, as NATS's tools write it (`.creds`).
    pub credentials: Option<PathBuf>,
}

impl Access {
    /// Looks at the files and says to the engine's client what they are for.
    ///
    /// # Errors
    /// [`EngineError::File`]: what is wrong with one of them, by the key that names it.
    pub(super) async fn apply(
        &self,
        mut connect: ConnectOptions,
        servers: &[String],
    ) -> Result<ConnectOptions, EngineError> {
        if let Some(ca) = &self.ca {
            let pem = read("cluster.engine_ca", ca).await?;
            require("cluster.engine_ca", ca, has_certificate(&pem), CERTIFICATE)?;
            connect = connect.add_root_certificates(ca.clone()).require_tls(true);
        }
        if let Some((chain, key)) = &self.certificate {
            let pem = read("cluster.engine_certificate", chain).await?;
            let has_one = has_certificate(&pem);
            require("cluster.engine_certificate", chain, has_one, CERTIFICATE)?;
            let pem = read("cluster.engine_key", key).await?;
            let has_key = PrivateKeyDer::from_pem_slice(&pem).is_ok();
            require("cluster.engine_key", key, has_key, "no private key in PEM")?;
            let (chain, key) = (chain.clone(), key.clone());
            connect = connect.add_client_certificate(chain, key).require_tls(true);
        }
        let Some(credentials) = &self.credentials else {
            return Ok(log_in(connect, servers));
        };
        let text = read("cluster.engine_credentials", credentials).await?;
        let text = String::from_utf8_lossy(&text);
        connect.credentials(&text).map_err(|error| {
            let file = credentials.display();
            EngineError::File(format!("cluster.engine_credentials {file}: {error}"))
        })
    }
}

const CERTIFICATE: &str = "no certificate in PEM";

fn has_certificate(pem: &[u8]) -> bool {
    let mut found = CertificateDer::pem_slice_iter(pem).peekable();
    found.peek().is_some() && found.all(|one| one.is_ok())
}

fn require(key: &str, file: &Path, is_there: bool, fault: &str) -> Result<(), EngineError> {
    let file = file.display();
    let refusal = || EngineError::File(format!("{key} {file}: there is {fault} in it"));
    is_there.then_some(()).ok_or_else(refusal)
}

async fn read(key: &str, file: &Path) -> Result<Vec<u8>, EngineError> {
    let fault =
        |why: &dyn std::fmt::Display| EngineError::File(format!("{key} {}: {why}", file.display()));
    let bytes = tokio::fs::metadata(file).await;
    let bytes = bytes.map_err(|error| fault(&error))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(fault(&format!(
            "{bytes} bytes are more than {FILE_BYTES_MAX}"
        )));
    }
    let read = tokio::fs::read(file).await;
    read.map_err(|error| fault(&error))
}

/// The engine's client does not do what an address says of a user.
fn log_in(connect: ConnectOptions, servers: &[String]) -> ConnectOptions {
    let mut servers = servers.iter().filter_map(|server| server.parse().ok());
    let Some(server) = servers.find(ServerAddr::has_user_pass) else {
        return connect;
    };
    let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let user = plain(server.username().unwrap_or_default());
    match server.password() {
        Some(password) => connect.user_and_password(user, plain(password)),
        None => connect.token(user),
    }
}
