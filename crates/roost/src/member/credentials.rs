//! The files with which a node proves its name to others. Owns reading them; what must be in them
//! is the link's business.

use cluster::link::{Credentials, CredentialsError, Pem};
use zeroize::Zeroizing;

use crate::certs::read_file;
use crate::config::Config;

/// The credentials of the configuration; none if its links are not encrypted.
///
/// # Errors
/// A file is missing or of no use; the message names its key and the file.
pub(crate) fn load(config: &Config) -> Result<Option<Credentials>, String> {
    let cluster = &config.settings.cluster;
    let files = (&cluster.certificate, &cluster.key, &cluster.ca);
    let (Some(certificate), Some(key), Some(ca)) = files else {
        return Ok(None);
    };
    let (chain, private) = (read_file(certificate)?, Zeroizing::new(read_file(key)?));
    let authority = read_file(ca)?;
    let pem = Pem {
        certificate: &chain,
        key: &private,
        ca: &authority,
    };
    let name = cluster.name.as_deref().unwrap_or_default();
    let credentials = Credentials::new(name, &pem).map_err(|error| {
        let file = match &error {
            CredentialsError::Key(_) => key,
            CredentialsError::Ca(_) => ca,
            CredentialsError::Certificate(_) | CredentialsError::Name(_) => certificate,
        };
        format!("{}: {error}", file.display())
    })?;
    Ok(Some(credentials))
}
