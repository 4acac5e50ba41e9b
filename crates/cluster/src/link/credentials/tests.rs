//! Certificates of a node, looked at before they are used; and a CA for the tests of links.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use super::*;

/// A CA of these tests.
pub(in crate::link) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// What it gave to a node.
pub(in crate::link) struct Issued {
    certificate: String,
    key: String,
    ca: String,
}

impl Authority {
    pub(in crate::link) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Authority { pem, issuer }
    }

    pub(in crate::link) fn issue(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Issued {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Issued {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
            ca: self.pem.clone(),
        }
    }

    /// What a node of this name would use.
    pub(in crate::link) fn credentials(&self, name: &str) -> Credentials {
        Credentials::new(name, &self.issue(name, |_| {}).pem()).unwrap()
    }
}

impl Issued {
    fn pem(&self) -> Pem<'_> {
        Pem {
            certificate: self.certificate.as_bytes(),
            key: self.key.as_bytes(),
            ca: self.ca.as_bytes(),
        }
    }

    /// For use without a look at it, as by a node whose certificate went bad while it ran.
    pub(in crate::link) fn unchecked(&self) -> Credentials {
        Parts::read(&self.pem()).unwrap().build(0).unwrap()
    }

    /// The same with another CA to judge others by.
    pub(in crate::link) fn trusting(self, other: &Authority) -> Issued {
        let ca = other.pem.clone();
        Issued { ca, ..self }
    }
}

pub(in crate::link) fn expired(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2021, 1, 1);
}

pub(in crate::link) fn future(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(4000, 1, 1);
    params.not_after = date_time_ymd(4001, 1, 1);
}

pub(in crate::link) fn of_a_server(params: &mut CertificateParams) {
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
}

/// Goal: a node does not begin with a certificate that its peers would refuse, and is told what
/// mends it.
#[test]
fn what_peers_would_refuse_is_refused_at_once() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let refused = |node: &str, issued: &Issued| {
        let refused = Credentials::new(node, &issued.pem());
        refused.err().unwrap().to_string()
    };
    let cases = [
        (
            ours.issue("a", expired),
            "cluster.certificate: it has expired: put a new one there",
        ),
        (
            ours.issue("a", future),
            "cluster.certificate: it is not valid yet: look at the clocks",
        ),
        (
            ours.issue("b", |_| {}),
            "it is for b: it needs the DNS name a (subjectAltName)",
        ),
        (
            ours.issue("*.a", |_| {}),
            "it needs the DNS name a (subjectAltName)",
        ),
        (
            ours.issue("a", of_a_server),
            "the extended key usages serverAuth and clientAuth",
        ),
        (
            ours.issue("a", |_| {}).trusting(&other),
            "it is not of the CA in cluster.ca",
        ),
    ];
    for (issued, expected) in cases {
        let refused = refused("a", &issued);
        assert!(refused.contains(expected), "{refused}\n{expected}");
    }
    let mut mixed = ours.issue("a", |_| {});
    mixed.key = ours.issue("a", |_| {}).key;
    let said = refused("a", &mixed);
    assert!(
        said.starts_with("cluster.key: it is not the key of"),
        "{said}"
    );
    for (field, empty) in [
        (0, "cluster.certificate"),
        (1, "cluster.key"),
        (2, "cluster.ca"),
    ] {
        let mut issued = ours.issue("a", |_| {});
        *[&mut issued.certificate, &mut issued.key, &mut issued.ca][field] = "nothing".to_owned();
        let said = refused("a", &issued);
        assert!(said.starts_with(empty), "{said}");
    }
    for name in ["A", "7", "-a", "a-", "a b", ""] {
        let said = refused(name, &ours.issue("a", |_| {}));
        assert!(said.starts_with("cluster.name: "), "{said}");
        assert!(!is_certifiable(name));
    }
    assert!(["a", "node-1", "a_b", "7a"].into_iter().all(is_certifiable));
}

/// Goal: several CAs may be trusted while one replaces another, and too many of them are no file
/// of a CA.
#[test]
fn several_authorities_are_trusted_and_not_too_many() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let mut issued = old.issue("a", |_| {});
    issued.ca = new.pem + &old.pem;
    assert!(Credentials::new("a", &issued.pem()).is_ok());
    issued.ca = old.pem.repeat(CERTIFICATES_MAX + 1);
    let refused = Credentials::new("a", &issued.pem()).err().unwrap();
    assert!(
        refused
            .to_string()
            .contains("65 certificates, more than 64"),
        "{refused}"
    );
}

/// Goal: it is known when a certificate expires, to the second.
#[test]
fn it_is_known_when_a_certificate_expires() {
    let ours = Authority::new("ours");
    let at = date_time_ymd(2090, 5, 17);
    let issued = ours.issue("a", |params| params.not_after = at);
    let credentials = Credentials::new("a", &issued.pem()).unwrap();
    assert_eq!(credentials.expires(), at.unix_timestamp() as u64);
    // rcgen's own default.
    let longest = ours.credentials("a").expires();
    assert_eq!(longest, date_time_ymd(4096, 1, 1).unix_timestamp() as u64);
}

/// Goal: the same files are recognised, so that a reload without a change disturbs nobody.
#[test]
fn the_same_files_are_recognised() {
    let ours = Authority::new("ours");
    let issued = ours.issue("a", |_| {});
    let read = || Credentials::new("a", &issued.pem()).unwrap();
    assert_eq!(read(), read());
    assert_ne!(read(), ours.credentials("a"));
    let mut both = read();
    both.ca = [both.ca.to_vec(), both.ca.to_vec()].concat().into();
    assert_ne!(read(), both);
}
