//! The client's side of SASL: SCRAM (RFC 5802, RFC 7677) and PLAIN (RFC 4616).
//!
//! Written against the RFCs and not with the server's code, so that the two check each other.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SecureRandom as _;
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;

/// The most iterations that a client lets a server ask for.
const ITERATIONS_MAX: u32 = 1_000_000;

/// What a login needs to know.
#[derive(Clone, Debug)]
pub struct Login {
    /// Local part of the account.
    pub user: String,
    /// The password.
    pub password: String,
    /// An authorization identity, if one is asked for.
    pub authzid: Option<String>,
}

/// An exchange under way.
pub struct Scram {
    is_sha256: bool,
    login: Login,
    gs2: String,
    binding: Vec<u8>,
    nonce: String,
    server_signature: Option<Vec<u8>>,
}

/// The mechanisms this client knows, strongest first.
pub const MECHANISMS: [&str; 5] = [
    "SCRAM-SHA-256-PLUS",
    "SCRAM-SHA-1-PLUS",
    "SCRAM-SHA-256",
    "SCRAM-SHA-1",
    "PLAIN",
];

/// The initial response of PLAIN.
#[must_use]
pub fn plain(login: &Login) -> Vec<u8> {
    let authzid = login.authzid.as_deref().unwrap_or("");
    format!("{authzid}\0{}\0{}", login.user, login.password).into_bytes()
}

impl Scram {
    /// Starts an exchange. `binding` is the tls-exporter value for the -PLUS forms.
    ///
    /// # Errors
    /// The mechanism is not SCRAM, or it is a -PLUS form without a channel to bind to.
    pub fn new(mechanism: &str, login: &Login, binding: Option<&[u8]>) -> Result<Self, String> {
        let (base, is_plus) = match mechanism.strip_suffix("-PLUS") {
            Some(base) => (base, true),
            None => (mechanism, false),
        };
        let is_sha256 = match base {
            "SCRAM-SHA-256" => true,
            "SCRAM-SHA-1" => false,
            other => return Err(format!("this client does not know {other}")),
        };
        let flag = if is_plus { "p=tls-exporter" } else { "n" };
        let authzid = login
            .authzid
            .as_deref()
            .map_or(String::new(), |id| format!("a={}", name(id)));
        let binding = match (is_plus, binding) {
            (true, None) => return Err("there is no channel to bind to".to_owned()),
            (true, Some(binding)) => binding.to_vec(),
            (false, _) => Vec::new(),
        };
        let mut random = [0; 18];
        ring::rand::SystemRandom::new()
            .fill(&mut random)
            .map_err(|_| "no randomness")?;
        Ok(Self {
            is_sha256,
            login: login.clone(),
            gs2: format!("{flag},{authzid},"),
            binding,
            nonce: STANDARD.encode(random),
            server_signature: None,
        })
    }

    /// The client-first-message.
    #[must_use]
    pub fn first(&self) -> Vec<u8> {
        format!("{}{}", self.gs2, self.first_bare()).into_bytes()
    }

    fn first_bare(&self) -> String {
        format!("n={},r={}", name(&self.login.user), self.nonce)
    }

    /// The client-final-message that answers a server-first-message.
    ///
    /// # Errors
    /// The challenge breaks RFC 5802.
    pub fn answer(&mut self, challenge: &[u8]) -> Result<Vec<u8>, String> {
        let challenge = std::str::from_utf8(challenge).map_err(|_| "the challenge is not UTF-8")?;
        let field = |key: &str| {
            let found = challenge.split(',').find_map(|part| part.strip_prefix(key));
            found.ok_or(format!("the challenge {challenge:?} has no {key}"))
        };
        let nonce = field("r=")?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err("the server's nonce does not extend ours".to_owned());
        }
        let salt = STANDARD
            .decode(field("s=")?)
            .map_err(|_| "the salt is not base64")?;
        let iterations: u32 = field("i=")?
            .parse()
            .map_err(|_| "iterations are not a number")?;
        let iterations = NonZeroU32::new(iterations.min(ITERATIONS_MAX)).ok_or("no iterations")?;

        let salted = self.derive(&salt, iterations);
        let client_key = self.hmac(&salted, b"Client Key");
        let stored_key = digest::digest(self.digest(), &client_key);
        let mut bound = self.gs2.clone().into_bytes();
        bound.extend_from_slice(&self.binding);
        let without_proof = format!("c={},r={nonce}", STANDARD.encode(bound));
        let message = format!("{},{challenge},{without_proof}", self.first_bare());
        let signature = self.hmac(stored_key.as_ref(), message.as_bytes());
        let proof: Vec<u8> = client_key
            .iter()
            .zip(&signature)
            .map(|(key, sig)| key ^ sig)
            .collect();
        let server_key = self.hmac(&salted, b"Server Key");
        self.server_signature = Some(self.hmac(&server_key, message.as_bytes()));
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)).into_bytes())
    }

    /// Checks the server-final-message: the server knows the keys too.
    ///
    /// # Errors
    /// The server's signature is missing or wrong.
    pub fn verify(&self, last: &[u8]) -> Result<(), String> {
        let last = std::str::from_utf8(last).map_err(|_| "the final message is not UTF-8")?;
        let given = last.split(',').find_map(|part| part.strip_prefix("v="));
        let given = given.and_then(|value| STANDARD.decode(value).ok());
        if given.is_some() && given == self.server_signature {
            return Ok(());
        }
        Err(format!("the server's signature is wrong: {last:?}"))
    }

    fn digest(&self) -> &'static digest::Algorithm {
        if self.is_sha256 {
            &digest::SHA256
        } else {
            &digest::SHA1_FOR_LEGACY_USE_ONLY
        }
    }

    fn derive(&self, salt: &[u8], iterations: NonZeroU32) -> Vec<u8> {
        let algorithm = if self.is_sha256 {
            pbkdf2::PBKDF2_HMAC_SHA256
        } else {
            pbkdf2::PBKDF2_HMAC_SHA1
        };
        let mut out = vec![0; self.digest().output_len()];
        pbkdf2::derive(
            algorithm,
            iterations,
            salt,
            self.login.password.as_bytes(),
            &mut out,
        );
        out
    }

    fn hmac(&self, key: &[u8], message: &[u8]) -> Vec<u8> {
        let algorithm = if self.is_sha256 {
            hmac::HMAC_SHA256
        } else {
            hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY
        };
        hmac::sign(&hmac::Key::new(algorithm, key), message)
            .as_ref()
            .to_vec()
    }
}

/// A saslname: RFC 5802 section 5.1 escapes these two characters.
fn name(text: &str) -> String {
    text.replace('=', "=3D").replace(',', "=2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(mechanism: &str, nonce: &str, challenge: &str, last: &str) -> String {
        let login = Login {
            user: "user".into(),
            password: "pencil".into(),
            authzid: None,
        };
        let mut scram = Scram::new(mechanism, &login, None).unwrap();
        scram.nonce = nonce.to_owned();
        let answer = scram.answer(challenge.as_bytes()).unwrap();
        scram.verify(last.as_bytes()).unwrap();
        assert!(scram.verify(b"v=AAAA").is_err());
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn the_example_of_rfc_5802_section_5_comes_out() {
        let answer = exchange(
            "SCRAM-SHA-1",
            "fyko+d2lbbFgONRv9qkxdawL",
            "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
            "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        );
        assert_eq!(
            answer,
            "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
        );
    }

    #[test]
    fn the_example_of_rfc_7677_section_3_comes_out() {
        let answer = exchange(
            "SCRAM-SHA-256",
            "rOprNGfwEbeRWgbNEkqO",
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        );
        assert!(
            answer.ends_with("p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="),
            "{answer}"
        );
    }

    #[test]
    fn a_nonce_that_is_not_ours_is_refused() {
        let login = Login {
            user: "user".into(),
            password: "pencil".into(),
            authzid: None,
        };
        let mut scram = Scram::new("SCRAM-SHA-1", &login, None).unwrap();
        assert!(scram.answer(b"r=other,s=QSXCR+Q6sek8bf92,i=4096").is_err());
    }
}
