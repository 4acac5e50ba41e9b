//! An engine that speaks TLS, asks for certificates, and knows its users by JWTs that an operator
//! and an account have signed, as its tool `nsc` makes them.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use cluster::engine::Access;
use nkeys::KeyPair;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose as Purpose, IsCa, Issuer,
};
use serde_json::{Value, json};

/// Files of the engine's servers and of those who ask it, and what the servers' configuration says.
pub(crate) struct Secured {
    folder: PathBuf,
    /// The part of a server's configuration.
    pub(crate) configuration: String,
}

/// One CA and a certificate of it for the loopback address, for servers and clients.
fn certificates(folder: &Path, name: &str) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    let subject = &mut authority.distinguished_name;
    subject.push(DnType::CommonName, name);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let ca = authority.self_signed(&key).unwrap();
    let issuer = Issuer::new(authority, key);
    let mut own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    own.extended_key_usages = vec![Purpose::ServerAuth, Purpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let chain = own.signed_by(&key, &issuer).unwrap();
    for (kind, pem) in [
        ("ca", ca.pem()),
        ("chain", chain.pem()),
        ("key", key.serialize_pem()),
    ] {
        fs::write(folder.join(format!("{name}.{kind}")), pem).unwrap();
    }
}

/// What `issuer` says of `subject`.
fn jwt(issuer: &KeyPair, subject: &KeyPair, claims: Value) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({
        "iss": issuer.public_key(),
        "sub": subject.public_key(),
        "name": "roost",
        "iat": 1,
        "nats": claims,
    });
    let head = part(&json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
    let signed = format!("{head}.{}", part(&claims));
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

/// A user of an account, in a file.
fn credentials(file: &Path, account: &KeyPair) {
    let user = KeyPair::new_user();
    let claims = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
    let text = format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        jwt(account, &user, claims),
        user.seed().unwrap(),
    );
    fs::write(file, text).unwrap();
}

impl Secured {
    /// Makes all of it in a folder.
    pub(crate) fn new(folder: &Path) -> Secured {
        certificates(folder, "own");
        certificates(folder, "other");
        let [operator, account, system, stranger] = [
            KeyPair::new_operator(),
            KeyPair::new_account(),
            KeyPair::new_account(),
            KeyPair::new_account(),
        ];
        credentials(&folder.join("own.creds"), &account);
        credentials(&folder.join("other.creds"), &stranger);
        let limits = |storage: i64| {
            json!({ "type": "account", "version": 2, "limits": {
                "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
                "wildcards": true, "conn": -1, "leaf": -1, "mem_storage": storage,
                "disk_storage": storage, "streams": storage, "consumer": storage,
            } })
        };
        let accounts = [(&account, -1), (&system, 0)].map(|(one, storage)| {
            let signed = jwt(&operator, one, limits(storage));
            format!("{}: {signed}\n", one.public_key())
        });
        let root = jwt(
            &operator,
            &operator,
            json!({ "type": "operator", "version": 2 }),
        );
        let file = |name: &str| folder.join(name).display().to_string();
        let configuration = format!(
            "operator: \"{root}\"\nsystem_account: {}\nresolver: MEMORY\n\
             resolver_preload {{\n{}}}\n\
             tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}\n",
            system.public_key(),
            accounts.concat(),
            file("own.chain"),
            file("own.key"),
            file("own.ca"),
        );
        Secured {
            folder: folder.to_owned(),
            configuration,
        }
    }

    /// Files of who is let in.
    pub(crate) fn access(&self) -> Access {
        Access {
            ca: Some(self.file("own.ca")),
            certificate: Some((self.file("own.chain"), self.file("own.key"))),
            credentials: Some(self.file("own.creds")),
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}
