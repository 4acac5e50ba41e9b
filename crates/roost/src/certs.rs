//! Certificates: which file serves which domain, and a self-signed one where none is configured.
//! Owns finding, making and reading PEM files; what is inside them is for the TLS layer to judge.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};
use stdx::time::Timestamp;
use zeroize::Zeroizing;

use crate::config::table::Tls;

/// Bytes of a certificate or key file; a larger one is refused.
const PEM_BYTES_MAX: u64 = 1_024 * 1_024;

/// Years that a self-signed certificate is valid.
const YEARS: i32 = 10;

/// A chain with its key, as PEM, and the names it is presented for.
pub(crate) struct CertificateFiles {
    /// Server names (SNI), in ASCII.
    pub(crate) names: Vec<String>,
    /// The chain.
    pub(crate) chain: Vec<u8>,
    /// The private key.
    pub(crate) key: Zeroizing<Vec<u8>>,
    /// Where they come from, for the log.
    pub(crate) origin: PathBuf,
}

/// Reads the certificates of all domains; the one of the first domain comes first.
///
/// # Errors
/// A file is missing or cannot be read or written; the message names it.
pub(crate) fn load(
    tls: &Tls,
    domains: &[String],
    data: &Path,
    today: Timestamp,
) -> Result<Vec<CertificateFiles>, String> {
    let mut certificates: Vec<CertificateFiles> = Vec::new();
    let mut shared: Option<usize> = None;
    for domain in domains {
        let name = crate::node::ascii_domain(domain);
        let own = tls
            .folder
            .as_ref()
            .and_then(|folder| own_folder(folder, domain, &name));
        if let Some(folder) = own {
            let files = read(&folder.join("fullchain.pem"), &folder.join("privkey.pem"))?;
            certificates.push(CertificateFiles {
                names: vec![name],
                ..files
            });
        } else if let Some(index) = shared {
            certificates[index].names.push(name);
        } else {
            let files = match (&tls.certificate, &tls.key) {
                (Some(certificate), Some(key)) => read(certificate, key)?,
                _ => self_signed(domains, data, today)?,
            };
            shared = Some(certificates.len());
            certificates.push(CertificateFiles {
                names: vec![name],
                ..files
            });
        }
    }
    Ok(certificates)
}

fn own_folder(folder: &Path, domain: &str, name: &str) -> Option<PathBuf> {
    [name, domain]
        .iter()
        .map(|sub| folder.join(sub))
        .find(|path| path.is_dir())
}

fn read(certificate: &Path, key: &Path) -> Result<CertificateFiles, String> {
    Ok(CertificateFiles {
        names: Vec::new(),
        chain: read_file(certificate)?,
        key: Zeroizing::new(read_file(key)?),
        origin: certificate.to_owned(),
    })
}

/// Reads a PEM file.
///
/// # Errors
/// It cannot be read, or is too large; the message names it.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let refuse = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let length = fs::metadata(path).map_err(|error| refuse(&error))?.len();
    if length > PEM_BYTES_MAX {
        return Err(refuse(&"too large for a certificate or key"));
    }
    fs::read(path).map_err(|error| refuse(&error))
}

/// The self-signed certificate of the data folder, made anew if there is none or if the domains are
/// not those that it was made for.
fn self_signed(
    domains: &[String],
    data: &Path,
    today: Timestamp,
) -> Result<CertificateFiles, String> {
    let folder = data.join("tls");
    let (certificate, key) = (
        folder.join("self-signed.pem"),
        folder.join("self-signed.key"),
    );
    let title = format!(
        "Self-signed certificate of Roost for {}\n",
        domains.join(", ")
    );
    if key.exists() && fs::read(&certificate).is_ok_and(|pem| pem.starts_with(title.as_bytes())) {
        return read(&certificate, &key);
    }
    let (chain, private) = make(domains, today).map_err(|e| format!("self-signed: {e}"))?;
    let write = |path: &Path, mode: u32, content: &[u8]| {
        replace(path, mode, content).map_err(|error| format!("{}: {error}", path.display()))
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    // The certificate comes last: it is what says that the pair is complete.
    write(&key, 0o600, private.as_bytes())?;
    write(&certificate, 0o644, format!("{title}{chain}").as_bytes())?;
    tracing::warn!(
        file = %certificate.display(),
        "made a self-signed certificate; clients will warn about it until tls.certificate is set"
    );
    read(&certificate, &key)
}

fn make(domains: &[String], today: Timestamp) -> Result<(String, Zeroizing<String>), rcgen::Error> {
    let names: Vec<String> = domains
        .iter()
        .map(|d| crate::node::ascii_domain(d))
        .collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "Roost, self-signed");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let year = year_of(today);
    // From the year before: a client's clock may be behind.
    params.not_before = rcgen::date_time_ymd(year - 1, 1, 1);
    params.not_after = rcgen::date_time_ymd(year + YEARS, 1, 1);
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), Zeroizing::new(key.serialize_pem())))
}

fn year_of(today: Timestamp) -> i32 {
    // A clock that was never set says 1970; the certificate is then of no use before it is.
    today
        .to_string()
        .split('-')
        .next()
        .and_then(|year| year.parse().ok())
        .unwrap_or(1970)
}

/// Writes a file under its final name only when it is complete.
pub(crate) fn replace(path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const TODAY: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn tls() -> Tls {
        Tls {
            certificate: None,
            key: None,
            folder: None,
            tls12: true,
            tickets: true,
        }
    }

    fn domains(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_self_signed_certificate_is_made_once_and_kept() {
        let data = tempfile::tempdir().expect("folder");
        let both = domains(&["localhost", "example.org"]);
        let first = load(&tls(), &both, data.path(), TODAY).expect("made");
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].names, both);
        let mode = |name: &str| {
            let file = data.path().join("tls").join(name);
            fs::metadata(file).expect("file").permissions().mode() & 0o777
        };
        assert_eq!(
            (mode("self-signed.key"), mode("self-signed.pem")),
            (0o600, 0o644)
        );
        let again = load(&tls(), &both, data.path(), TODAY).expect("read");
        assert_eq!(first[0].chain, again[0].chain);
        let other = load(&tls(), &domains(&["localhost"]), data.path(), TODAY).expect("made");
        assert_ne!(
            first[0].chain, other[0].chain,
            "made anew for other domains"
        );
    }

    #[test]
    fn a_key_without_its_certificate_is_made_anew() {
        let data = tempfile::tempdir().expect("folder");
        let one = domains(&["localhost"]);
        let first = load(&tls(), &one, data.path(), TODAY).expect("made");
        fs::write(&first[0].origin, "").expect("damage");
        let second = load(&tls(), &one, data.path(), TODAY).expect("made again");
        assert_ne!(first[0].chain, second[0].chain);
    }

    #[test]
    fn each_domain_gets_its_own_files_or_the_shared_ones() {
        let data = tempfile::tempdir().expect("folder");
        let live = data.path().join("live");
        fs::create_dir_all(live.join("a.example")).expect("folder");
        fs::write(live.join("a.example/fullchain.pem"), "chain a").expect("file");
        fs::write(live.join("a.example/privkey.pem"), "key a").expect("file");
        let shared = data.path().join("shared.pem");
        fs::write(&shared, "chain and key").expect("file");
        let tls = Tls {
            folder: Some(live),
            certificate: Some(shared.clone()),
            key: Some(shared.clone()),
            ..tls()
        };
        let three = domains(&["b.example", "a.example", "c.example"]);
        let loaded = load(&tls, &three, data.path(), TODAY).expect("loaded");
        let names: Vec<_> = loaded.iter().map(|files| files.names.join(",")).collect();
        assert_eq!(names, ["b.example,c.example", "a.example"]);
        assert_eq!(loaded[1].chain, b"chain a");
        fs::remove_file(&shared).expect("removed");
        let error = load(&tls, &three, data.path(), TODAY)
            .err()
            .expect("missing");
        assert!(error.starts_with(&shared.display().to_string()), "{error}");
    }

    #[test]
    fn addresses_can_be_domains() {
        let data = tempfile::tempdir().expect("folder");
        let loaded = load(&tls(), &domains(&["127.0.0.1"]), data.path(), TODAY);
        assert_eq!(loaded.expect("made")[0].names, ["127.0.0.1"]);
    }
}
