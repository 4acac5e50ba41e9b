//! `roost cluster certificates`: a CA for the links of a deployment, and a certificate for each of
//! its nodes. Owns the files; who has a CA of his own needs none of this.

use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::cluster::link::{Credentials, Pem, is_certifiable};
use clap::Args;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use stdx::time::{Clock as _, SystemClock};
use zeroize::Zeroizing;

use crate::certs::{read_file, replace};
use crate::exit::Failure;

const DAY_S: u64 = 86_400;

/// How long the CA is valid.
const CA_DAYS: u64 = 3_650;

/// What the CA is called. Certificates name it, so that it stays what it is.
const CA_NAME: &str = "Roost links";

/// The name of the CA's own files, which no node can have.
const CA_FILE: &str = "ca";

/// What `roost cluster certificates` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct CertificatesArgs {
    /// Where the files are, or will be: ca.pem, ca.key, and NODE.pem with NODE.key for each node.
    /// Keep ca.key where no node is: whoever has it can be any node.
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
    /// Days that certificates of nodes are valid. Nodes raise an alarm 14 days before.
    #[arg(long, default_value = "365", value_parser = clap::value_parser!(u64).range(1..=3_650))]
    days: u64,
    /// Make certificates anew that are there already.
    #[arg(long)]
    renew: bool,
    /// Names of nodes (`cluster.name`).
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// A name cannot be in a certificate, a file is there already or cannot be written.
pub(crate) fn run(args: &CertificatesArgs) -> Result<(), Failure> {
    if let Some(name) = args.nodes.iter().find(|name| !is_certifiable(name)) {
        return Err(Failure::Usage(format!(
            "{name:?} cannot be in a certificate: small letters, digits, - and _, with a letter, \
             and no - at the beginning or end"
        )));
    }
    if args.nodes.iter().any(|name| name == CA_FILE) {
        return Err(Failure::Usage(format!(
            "a node cannot be called {CA_FILE:?} here: {CA_FILE}.pem and {CA_FILE}.key are the \
             files of the CA itself; give the node another name (cluster.name)"
        )));
    }
    let now = u64::try_from(SystemClock::new().wall().as_millis()).unwrap_or_default() / 1_000;
    let made = make(args, now).map_err(Failure::Failed)?;
    let folder = args.folder.display();
    let mut said = String::new();
    for name in made {
        // A string takes everything.
        let _ = writeln!(
            said,
            "# node {name}\n[cluster]\ncertificate = \"{folder}/{name}.pem\"\n\
             key = \"{folder}/{name}.key\"\nca = \"{folder}/ca.pem\"\n"
        );
    }
    Ok(io::stdout().lock().write_all(said.as_bytes())?)
}

/// A file that is complete, and not written yet.
struct Made {
    path: PathBuf,
    mode: u32,
    content: Zeroizing<Vec<u8>>,
}

impl Made {
    fn private(path: PathBuf, content: &[u8]) -> Made {
        Made {
            path,
            mode: 0o600,
            content: Zeroizing::new(content.to_vec()),
        }
    }

    fn public(path: PathBuf, content: &[u8]) -> Made {
        Made {
            mode: 0o644,
            ..Made::private(path, content)
        }
    }

    fn write(&self) -> Result<(), String> {
        let written = replace(&self.path, self.mode, &self.content);
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// The names of those that were made. Nothing is written before everything is made.
fn make(args: &CertificatesArgs, now: u64) -> Result<&[String], String> {
    let CertificatesArgs {
        folder,
        nodes,
        renew,
        ..
    } = args;
    let path = |name: &str, kind: &str| folder.join(format!("{name}.{kind}"));
    let mut parts = nodes
        .iter()
        .flat_map(|name| [path(name, "pem"), path(name, "key")]);
    if let Some(there) = parts.find(|part| !renew && part.exists()) {
        return Err(format!(
            "{} is there already: --renew makes it anew",
            there.display()
        ));
    }
    // What cannot be replaced is found before anything is.
    let mut parts = nodes
        .iter()
        .flat_map(|name| [path(name, "pem"), path(name, "key")]);
    if let Some(folder) = parts.find(|part| part.is_dir()) {
        return Err(format!("{} is a folder", folder.display()));
    }
    let (ca_pem, ca_key) = (path(CA_FILE, "pem"), path(CA_FILE, "key"));
    let (issuer, ca, mut files) = authority(&ca_pem, &ca_key, now)?;
    for name in nodes {
        let (chain, key) = issue(&issuer, name, validity(now, args.days))
            .map_err(|error| format!("{name}: {error}"))?;
        let pem = Pem {
            certificate: chain.as_bytes(),
            key: key.as_bytes(),
            ca: &ca,
        };
        // A CA of somebody else has another name, and what this one signs is not of it.
        Credentials::new(name, &pem).map_err(|error| {
            format!(
                "{}: not made by this command, or expired: {error}",
                ca_pem.display()
            )
        })?;
        files.push(Made::private(path(name, "key"), key.as_bytes()));
        files.push(Made::public(path(name, "pem"), chain.as_bytes()));
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    files.iter().try_for_each(Made::write)?;
    Ok(nodes)
}

type Validity = (u64, u64);

/// From a day before: another machine's clock may be behind.
fn validity(now: u64, days: u64) -> Validity {
    (now.saturating_sub(DAY_S), now + days * DAY_S)
}

fn set_validity(params: &mut CertificateParams, (from, to): Validity) {
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(from);
    params.not_after = epoch + Duration::from_secs(to);
}

/// Who signs, his certificate, and the files of both that are to be written.
type Authority = (Issuer<'static, KeyPair>, Vec<u8>, Vec<Made>);

/// The CA of the folder; if there is none, one that is made.
fn authority(certificate: &Path, key: &Path, now: u64) -> Result<Authority, String> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, CA_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    set_validity(&mut params, validity(now, CA_DAYS));
    if certificate.exists() || key.exists() {
        let pem = Zeroizing::new(read_file(key)?);
        let text = std::str::from_utf8(&pem).map_err(|error| error.to_string());
        let pair = text.and_then(|text| KeyPair::from_pem(text).map_err(|e| e.to_string()));
        let pair = pair.map_err(|error| format!("{}: {error}", key.display()))?;
        return Ok((
            Issuer::new(params, pair),
            read_file(certificate)?,
            Vec::new(),
        ));
    }
    let made = KeyPair::generate().and_then(|pair| {
        let pem = params.self_signed(&pair)?.pem();
        Ok((pair, pem))
    });
    let (pair, pem) = made.map_err(|error| format!("{}: {error}", certificate.display()))?;
    let private = Zeroizing::new(pair.serialize_pem());
    let files = vec![
        Made::private(key.to_owned(), private.as_bytes()),
        Made::public(certificate.to_owned(), pem.as_bytes()),
    ];
    Ok((Issuer::new(params, pair), pem.into_bytes(), files))
}

fn issue(
    issuer: &Issuer<'_, KeyPair>,
    name: &str,
    validity: Validity,
) -> Result<(String, Zeroizing<String>), rcgen::Error> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, validity);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok((certificate.pem(), Zeroizing::new(key.serialize_pem())))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn args(folder: &Path, nodes: &[&str], renew: bool) -> CertificatesArgs {
        CertificatesArgs {
            folder: folder.to_owned(),
            days: 30,
            renew,
            nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn now() -> u64 {
        SystemClock::new().wall().as_millis() as u64 / 1_000
    }

    fn load(folder: &Path, name: &str) -> Credentials {
        let read = |file: &str| fs::read(folder.join(file)).expect("a file");
        let (chain, key) = (read(&format!("{name}.pem")), read(&format!("{name}.key")));
        let pem = Pem {
            certificate: &chain,
            key: &key,
            ca: &read("ca.pem"),
        };
        Credentials::new(name, &pem).expect("good ones")
    }

    /// Goal: nodes that come later get certificates of the same CA, keys are for their owner only,
    /// and what is there is not overwritten by accident.
    #[test]
    fn certificates_are_of_one_authority() {
        let data = tempfile::tempdir().expect("folder");
        let folder = data.path().join("tls");
        make(&args(&folder, &["a", "b-2"], false), now()).expect("made");
        let first = load(&folder, "a");
        let days = first.expires().saturating_sub(now()) / DAY_S;
        assert!((29..=30).contains(&days), "{days}");
        let ca = fs::read(folder.join("ca.pem")).expect("file");
        make(&args(&folder, &["c"], false), now()).expect("made");
        load(&folder, "c");
        assert_eq!(ca, fs::read(folder.join("ca.pem")).expect("file"));
        let refused = make(&args(&folder, &["d", "a"], false), now()).unwrap_err();
        assert!(
            refused.contains("a.pem is there already: --renew"),
            "{refused}"
        );
        assert!(!folder.join("d.pem").exists());
        make(&args(&folder, &["a"], true), now()).expect("made anew");
        assert_ne!(load(&folder, "a"), first);
        for key in ["ca.key", "a.key"] {
            let mode = fs::metadata(folder.join(key))
                .expect("file")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{key}");
        }
    }

    /// Goal: a CA that is not ours, has expired or lost its key is named, and nothing is written.
    #[test]
    fn a_foreign_authority_is_named() {
        let data = tempfile::tempdir().expect("folder");
        let folder = data.path();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "somebody's");
        let key = KeyPair::generate().expect("key");
        let pem = params.self_signed(&key).expect("signed").pem();
        fs::write(folder.join("ca.pem"), pem).expect("file");
        let lost = make(&args(folder, &["a"], false), now()).unwrap_err();
        assert!(lost.contains("ca.key"), "{lost}");
        fs::write(folder.join("ca.key"), key.serialize_pem()).expect("file");
        let foreign = make(&args(folder, &["a"], false), now()).unwrap_err();
        assert!(
            foreign.contains("ca.pem: not made by this command"),
            "{foreign}"
        );
        assert!(!folder.join("a.pem").exists());
        let usage = run(&args(folder, &["A"], false));
        assert!(matches!(usage, Err(Failure::Usage(why)) if why.contains("\"A\" cannot be")));
    }

    fn files(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        let entries = entries.map(|entry| entry.expect("an entry").path());
        entries
            .map(|path| (path.clone(), fs::read(path).ok()))
            .collect()
    }

    /// Goal: a node whose files would be those of the CA is refused, with --renew too, and among
    /// others; nothing is written or overwritten.
    #[test]
    fn no_node_takes_the_files_of_the_authority() {
        let data = tempfile::tempdir().expect("folder");
        let folder = data.path().join("tls");
        for (nodes, renew) in [(&["a", "ca"][..], false), (&["ca"], true)] {
            let refused = run(&args(&folder, nodes, renew));
            assert!(matches!(refused, Err(Failure::Usage(why)) if why.contains("\"ca\"")));
            assert!(!folder.exists());
        }
        make(&args(&folder, &["a"], false), now()).expect("made");
        let before = files(&folder);
        assert!(run(&args(&folder, &["a", "ca"], true)).is_err());
        assert_eq!(files(&folder), before);
        make(&args(&folder, &["b"], false), now()).expect("the CA still signs");
        load(&folder, "b");
    }

    /// Goal: if one of several cannot be made, none is written, and the files of before stay.
    #[test]
    fn nothing_is_written_before_everything_is_made() {
        let data = tempfile::tempdir().expect("folder");
        let folder = data.path().join("tls");
        // A name that is no name in a certificate, past the check of `run`.
        assert!(make(&args(&folder, &["a", "b\u{e4}"], false), now()).is_err());
        assert!(!folder.exists(), "not even the CA");
        make(&args(&folder, &["a"], false), now()).expect("made");
        let before = files(&folder);
        assert!(make(&args(&folder, &["a", "b\u{e4}"], true), now()).is_err());
        assert_eq!(files(&folder), before);
        fs::create_dir(folder.join("c.key")).expect("folder");
        let before = files(&folder);
        assert!(make(&args(&folder, &["a", "c"], true), now()).is_err());
        assert_eq!(files(&folder), before);
    }
}
