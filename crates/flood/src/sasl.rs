//! The client's side of SASL PLAIN and SCRAM (RFC 5802, RFC 7677), with derived keys kept per
//! salt: accounts that share a salt and a password cost one derivation in all.
//!
//! Channel binding is not offered: the load is about servers, not about attackers.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};
use serde::{Deserialize, Serialize};

/// Derived keys kept at most; a server with a salt per account makes one entry per account.
const KEYS_MAX: usize = 65_536;
/// Iterations accepted from a server: more would stall the load instead of measuring anything.
const ITERATIONS_MAX: u32 = 1_000_000;

/// A SASL mechanism a load client can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Mechanism {
    /// PLAIN, RFC 4616.
    Plain,
    /// SCRAM-SHA-1, RFC 5802.
    ScramSha1,
    /// SCRAM-SHA-256, RFC 7677.
    ScramSha256,
}

impl Mechanism {
    /// The name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha1 => "SCRAM-SHA-1",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
        }
    }

    fn hash(
        self,
    ) -> (
        &'static digest::Algorithm,
        hmac::Algorithm,
        pbkdf2::Algorithm,
    ) {
        match self {
            Mechanism::ScramSha256 => (
                &digest::SHA256,
                hmac::HMAC_SHA256,
                pbkdf2::PBKDF2_HMAC_SHA256,
            ),
            // PLAIN never asks for keys; it shares the arm so that the function is total.
            Mechanism::ScramSha1 | Mechanism::Plain => (
                &digest::SHA1_FOR_LEGACY_USE_ONLY,
                hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
                pbkdf2::PBKDF2_HMAC_SHA1,
            ),
        }
    }
}

/// The base64 text of a PLAIN response.
pub(crate) fn plain(user: &str, password: &str) -> String {
    BASE64.encode(format!("\0{user}\0{password}"))
}

/// Keys of a password as the JSON list of an account's line in `docs/export-format.md`.
pub(crate) fn import_keys(password: &str, salt: &[u8], iterations: u32) -> String {
    let rounds = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
    let keys = [Mechanism::ScramSha1, Mechanism::ScramSha256].map(|mechanism| {
        let (digest, hmac, pbkdf2) = mechanism.hash();
        let mut salted = vec![0_u8; digest.output_len()];
        pbkdf2::derive(pbkdf2, rounds, salt, password.as_bytes(), &mut salted);
        let salted = hmac::Key::new(hmac, &salted);
        let client = hmac::sign(&salted, b"Client Key");
        serde_json::json!({
            "hash": mechanism.name().trim_start_matches("SCRAM-"),
            "iterations": iterations,
            "salt": BASE64.encode(salt),
            "stored_key": BASE64.encode(digest::digest(digest, client.as_ref())),
            "server_key": BASE64.encode(hmac::sign(&salted, b"Server Key")),
        })
    });
    serde_json::Value::from(keys.to_vec()).to_string()
}

struct Keys {
    client: hmac::Tag,
    stored: hmac::Key,
    server: hmac::Key,
}

/// Keys derived from one password, by mechanism, salt and iterations.
pub(crate) struct KeyCache {
    password: String,
    keys: HashMap<(Mechanism, Vec<u8>, u32), Rc<Keys>>,
    /// Derivations made: each took the time of a whole key derivation from the load.
    pub(crate) derivations: u64,
}

impl KeyCache {
    /// An empty cache for accounts that all have `password`.
    pub(crate) fn new(password: &str) -> KeyCache {
        KeyCache {
            password: password.to_owned(),
            keys: HashMap::new(),
            derivations: 0,
        }
    }

    fn keys(&mut self, mechanism: Mechanism, salt: &[u8], iterations: NonZeroU32) -> Rc<Keys> {
        let name = (mechanism, salt.to_vec(), iterations.get());
        if let Some(keys) = self.keys.get(&name) {
            return Rc::clone(keys);
        }
        if self.keys.len() >= KEYS_MAX {
            self.keys.clear();
        }
        let (digest, hmac, pbkdf2) = mechanism.hash();
        let mut salted = vec![0_u8; digest.output_len()];
        pbkdf2::derive(
            pbkdf2,
            iterations,
            salt,
            self.password.as_bytes(),
            &mut salted,
        );
        self.derivations += 1;
        let salted = hmac::Key::new(hmac, &salted);
        let client = hmac::sign(&salted, b"Client Key");
        let stored = digest::digest(digest, client.as_ref());
        let server = hmac::sign(&salted, b"Server Key");
        let keys = Rc::new(Keys {
            client,
            stored: hmac::Key::new(hmac, stored.as_ref()),
            server: hmac::Key::new(hmac, server.as_ref()),
        });
        self.keys.insert(name, Rc::clone(&keys));
        keys
    }
}

/// One SCRAM exchange in progress.
pub(crate) struct Scram {
    mechanism: Mechanism,
    first_bare: String,
    server_signature: Option<hmac::Tag>,
}

impl Scram {
    /// Starts an exchange; `nonce` must be fresh printable text without commas.
    pub(crate) fn new(mechanism: Mechanism, user: &str, nonce: &str) -> Scram {
        // The load's user names are letters and digits: nothing to escape (RFC 5802 5.1).
        Scram {
            mechanism,
            first_bare: format!("n={user},r={nonce}"),
            server_signature: None,
        }
    }

    /// The base64 text of the first message.
    pub(crate) fn first(&self) -> String {
        BASE64.encode(format!("n,,{}", self.first_bare))
    }

    /// Answers the server's challenge (base64 text) or says what is wrong with it.
    pub(crate) fn answer(
        &mut self,
        challenge: &[u8],
        cache: &mut KeyCache,
    ) -> Result<String, &'static str> {
        let server_first = decode(challenge).ok_or("a SCRAM challenge that is not base64 text")?;
        let field = |key: &str| {
            server_first
                .split(',')
                .find_map(|part| part.strip_prefix(key))
        };
        let nonce = field("r=").ok_or("a SCRAM challenge without nonce")?;
        let own = self.first_bare.rsplit("r=").next().unwrap_or_default();
        if !nonce.starts_with(own) || nonce.len() == own.len() {
            return Err("a SCRAM challenge with a foreign nonce");
        }
        let salt = field("s=").and_then(|text| BASE64.decode(text).ok());
        let salt = salt.ok_or("a SCRAM challenge without salt")?;
        let iterations = field("i=").and_then(|text| text.parse().ok());
        let iterations: NonZeroU32 = iterations.ok_or("a SCRAM challenge without iterations")?;
        if iterations.get() > ITERATIONS_MAX {
            return Err("more than 1,000,000 SCRAM iterations");
        }
        let keys = cache.keys(self.mechanism, &salt, iterations);
        let without_proof = format!("c=biws,r={nonce}");
        let message = format!("{},{server_first},{without_proof}", self.first_bare);
        let signature = hmac::sign(&keys.stored, message.as_bytes());
        let proof: Vec<u8> = std::iter::zip(keys.client.as_ref(), signature.as_ref())
            .map(|(key, signature)| key ^ signature)
            .collect();
        self.server_signature = Some(hmac::sign(&keys.server, message.as_bytes()));
        Ok(BASE64.encode(format!("{without_proof},p={}", BASE64.encode(proof))))
    }

    /// Whether the server proved that it knows the password (base64 text with `v=`).
    pub(crate) fn verify(&self, last: &[u8]) -> bool {
        let Some(expected) = &self.server_signature else {
            return false;
        };
        decode(last)
            .and_then(|text| BASE64.decode(text.strip_prefix("v=")?).ok())
            .is_some_and(|signature| signature == expected.as_ref())
    }
}

fn decode(text: &[u8]) -> Option<String> {
    String::from_utf8(BASE64.decode(text.trim_ascii()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(mechanism: Mechanism, nonce: &str, challenge: &str, proof: &str, last: &str) {
        let mut cache = KeyCache::new("pencil");
        for _ in 0..2 {
            let mut scram = Scram::new(mechanism, "user", nonce);
            let answer = scram
                .answer(BASE64.encode(challenge).as_bytes(), &mut cache)
                .unwrap();
            assert!(decode(answer.as_bytes()).unwrap().ends_with(proof));
            assert!(scram.verify(BASE64.encode(last).as_bytes()));
            assert!(!scram.verify(BASE64.encode("v=AAAA").as_bytes()));
        }
        assert_eq!(
            cache.derivations, 1,
            "the second exchange uses the cached keys"
        );
    }

    /// The example of RFC 5802 section 5.
    #[test]
    fn scram_sha_1_agrees_with_its_rfc() {
        exchange(
            Mechanism::ScramSha1,
            "fyko+d2lbbFgONRv9qkxdawL",
            "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
            "p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
            "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        );
    }

    /// The example of RFC 7677 section 3.
    #[test]
    fn scram_sha_256_agrees_with_its_rfc() {
        exchange(
            Mechanism::ScramSha256,
            "rOprNGfwEbeRWgbNEkqO",
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        );
    }

    #[test]
    fn a_tampered_challenge_is_refused() {
        let mut cache = KeyCache::new("pencil");
        for challenge in [
            "r=other,s=QUJD,i=1",
            "r=abc,s=QUJD,i=1",
            "r=abcd,i=1",
            "r=abcd,s=QUJD,i=0",
        ] {
            let mut scram = Scram::new(Mechanism::ScramSha1, "user", "abc");
            let answer = scram.answer(BASE64.encode(challenge).as_bytes(), &mut cache);
            assert!(answer.is_err(), "{challenge}");
        }
    }
}
