//! SASL as the server speaks it (RFC 6120 section 6): SCRAM (RFC 5802, RFC 7677) with and without
//! channel binding (RFC 9266), and PLAIN (RFC 4616). Deriving keys is slow and is a function of its
//! own, for a thread of its own. All primitives are `ring`'s.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use subtle::ConstantTimeEq;

use crate::limits::{
    PASSWORD_BYTES_MAX, SASL_MESSAGE_BYTES_MAX, SCRAM_CLIENT_NONCE_BYTES_MAX, SCRAM_SALT_BYTES,
};

/// The hash that a set of keys is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hash {
    /// SCRAM-SHA-1
    Sha1,
    /// SCRAM-SHA-256
    Sha256,
}

/// What the server keeps of a password, for one hash.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys {
    /// Which hash.
    pub hash: Hash,
    /// PBKDF2 iterations.
    pub iterations: u32,
    /// Salt.
    pub salt: Vec<u8>,
    /// H(ClientKey).
    pub stored_key: Vec<u8>,
    /// ServerKey.
    pub server_key: Vec<u8>,
}

/// The mechanisms, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Mechanism {
    ScramSha256Plus,
    ScramSha1Plus,
    ScramSha256,
    ScramSha1,
    Plain,
}

impl Mechanism {
    /// Every mechanism, strongest first.
    pub const ALL: [Mechanism; 5] = [
        Mechanism::ScramSha256Plus,
        Mechanism::ScramSha1Plus,
        Mechanism::ScramSha256,
        Mechanism::ScramSha1,
        Mechanism::Plain,
    ];

    /// The registered name.
    pub fn as_str(self) -> &'static str {
        match self {
            Mechanism::ScramSha256Plus => "SCRAM-SHA-256-PLUS",
            Mechanism::ScramSha1Plus => "SCRAM-SHA-1-PLUS",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha1 => "SCRAM-SHA-1",
            Mechanism::Plain => "PLAIN",
        }
    }

    /// The mechanism of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|mechanism| mechanism.as_str() == name)
    }

    /// Whether it binds to the TLS channel.
    pub fn is_plus(self) -> bool {
        matches!(self, Mechanism::ScramSha256Plus | Mechanism::ScramSha1Plus)
    }

    /// The hash of a SCRAM mechanism.
    pub fn hash(self) -> Option<Hash> {
        match self {
            Mechanism::ScramSha256Plus | Mechanism::ScramSha256 => Some(Hash::Sha256),
            Mechanism::ScramSha1Plus | Mechanism::ScramSha1 => Some(Hash::Sha1),
            Mechanism::Plain => None,
        }
    }
}

/// Why a login failed: the conditions of RFC 6120 section 6.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the conditions")]
pub enum Failure {
    Aborted,
    AccountDisabled,
    CredentialsExpired,
    EncryptionRequired,
    IncorrectEncoding,
    InvalidAuthzid,
    InvalidMechanism,
    MalformedRequest,
    MechanismTooWeak,
    NotAuthorized,
    TemporaryAuthFailure,
}

impl Failure {
    /// The name of its element.
    pub fn as_str(self) -> &'static str {
        match self {
            Failure::Aborted => "aborted",
            Failure::AccountDisabled => "account-disabled",
            Failure::CredentialsExpired => "credentials-expired",
            Failure::EncryptionRequired => "encryption-required",
            Failure::IncorrectEncoding => "incorrect-encoding",
            Failure::InvalidAuthzid => "invalid-authzid",
            Failure::InvalidMechanism => "invalid-mechanism",
            Failure::MalformedRequest => "malformed-request",
            Failure::MechanismTooWeak => "mechanism-too-weak",
            Failure::NotAuthorized => "not-authorized",
            Failure::TemporaryAuthFailure => "temporary-auth-failure",
        }
    }
}

impl Hash {
    fn hmac(self) -> hmac::Algorithm {
        match self {
            Hash::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Hash::Sha256 => hmac::HMAC_SHA256,
        }
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Hash::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Hash::Sha256 => &digest::SHA256,
        }
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Hash::Sha1 => pbkdf2::PBKDF2_HMAC_SHA1,
            Hash::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
        }
    }

    fn len(self) -> usize {
        self.digest().output_len()
    }

    fn sign(self, key: &[u8], text: &[u8]) -> Vec<u8> {
        hmac::sign(&hmac::Key::new(self.hmac(), key), text)
            .as_ref()
            .to_vec()
    }
}

/// A password that cannot be one: empty, too long, or with forbidden characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPassword;

/// SASLprep (RFC 4013).
///
/// # Errors
/// [`BadPassword`].
pub fn prepare_password(password: &str) -> Result<String, BadPassword> {
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        return Err(BadPassword);
    }
    let prepared = stringprep::saslprep(password).map_err(|_| BadPassword)?;
    if prepared.is_empty() {
        Err(BadPassword)
    } else {
        Ok(prepared.into_owned())
    }
}

/// Derives the keys of a prepared password. Takes about a microsecond for every two iterations: not
/// for a shard.
pub fn derive(hash: Hash, password: &str, salt: &[u8], iterations: u32) -> ScramKeys {
    let rounds = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
    let mut salted = vec![0; hash.len()];
    pbkdf2::derive(
        hash.pbkdf2(),
        rounds,
        salt,
        password.as_bytes(),
        &mut salted,
    );
    let client_key = hash.sign(&salted, b"Client Key");
    ScramKeys {
        hash,
        iterations,
        salt: salt.to_vec(),
        stored_key: digest::digest(hash.digest(), &client_key).as_ref().to_vec(),
        server_key: hash.sign(&salted, b"Server Key"),
    }
}

/// Whether a password as it came from a client belongs to `keys`. As slow as [`derive`].
pub fn verify_plain(keys: &ScramKeys, password: &str) -> bool {
    let Ok(password) = prepare_password(password) else {
        return false;
    };
    let derived = derive(keys.hash, &password, &keys.salt, keys.iterations);
    equal(&derived.stored_key, &keys.stored_key)
}

/// Keys of an account that does not exist: the same for every attempt, like real ones, and wrong
/// for every password.
pub fn fake_keys(hash: Hash, secret: &[u8], user: &str, iterations: u32) -> ScramKeys {
    let salt = Hash::Sha256.sign(secret, format!("salt:{user}").as_bytes());
    ScramKeys {
        hash,
        iterations,
        salt: salt[..SCRAM_SALT_BYTES].to_vec(),
        stored_key: hash.sign(secret, format!("stored:{user}").as_bytes()),
        server_key: hash.sign(secret, format!("server:{user}").as_bytes()),
    }
}

fn equal(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// SHA-1 in lower-case hexadecimal (XEP-0153).
pub fn sha1_hex(data: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, data);
    hash.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// SHA-1 in Base64 (XEP-0115).
pub fn sha1_base64(data: &[u8]) -> String {
    STANDARD.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, data))
}

/// SHA-1 in hexadecimal of what is Base64, white space left out (XEP-0153 section 3.1); empty of
/// nothing, `None` of what is no Base64.
pub fn picture_hash(base64: &str) -> Option<String> {
    let base64: String = base64.split_whitespace().collect();
    let image = STANDARD.decode(base64).ok()?;
    Some(match image.is_empty() {
        true => String::new(),
        false => sha1_hex(&image),
    })
}

/// The first message of SCRAM.
#[derive(Debug)]
pub struct ClientFirst {
    /// The user's name as the client wrote it, not prepared.
    pub user: String,
    authzid: Option<String>,
    gs2: String,
    bare: String,
    nonce: String,
    binds: bool,
}

impl ClientFirst {
    /// Parses `n,,n=user,r=nonce`.
    ///
    /// # Errors
    /// `malformed-request`; `not-authorized` if its channel binding does not fit: the wrong type,
    /// or a client that says the server offers none although it does (RFC 5802 section 6).
    pub fn parse(text: &str, mechanism: Mechanism, offered_plus: bool) -> Result<Self, Failure> {
        let malformed = Failure::MalformedRequest;
        let (flag, rest) = text.split_once(',').ok_or(malformed)?;
        let (authzid, bare) = rest.split_once(',').ok_or(malformed)?;
        let binds = match flag {
            "n" => false,
            "y" if offered_plus => return Err(Failure::NotAuthorized),
            "y" => false,
            "p=tls-exporter" => true,
            _ if flag.starts_with("p=") => return Err(Failure::NotAuthorized),
            _ => return Err(malformed),
        };
        if binds != mechanism.is_plus() {
            return Err(malformed);
        }
        let authzid = match authzid {
            "" => None,
            _ => Some(decode_name(authzid.strip_prefix("a=").ok_or(malformed)?)?),
        };
        let mut parts = bare.split(',');
        let user = parts
            .next()
            .and_then(|part| part.strip_prefix("n="))
            .ok_or(malformed)?;
        let nonce = parts
            .next()
            .and_then(|part| part.strip_prefix("r="))
            .ok_or(malformed)?;
        let printable = |byte: u8| (0x21..=0x7e).contains(&byte);
        if nonce.is_empty()
            || nonce.len() > SCRAM_CLIENT_NONCE_BYTES_MAX
            || !nonce.bytes().all(printable)
        {
            return Err(malformed);
        }
        Ok(ClientFirst {
            user: decode_name(user)?,
            authzid,
            gs2: text[..text.len() - bare.len()].to_owned(),
            bare: bare.to_owned(),
            nonce: nonce.to_owned(),
            binds,
        })
    }

    /// The identity that the client wants to act as, if it names one.
    pub fn authzid(&self) -> Option<&str> {
        self.authzid.as_deref()
    }

    /// The server's answer, and what is needed to check the client's next message.
    pub fn challenge(self, keys: ScramKeys, server_nonce: &str) -> (String, Scram) {
        let nonce = format!("{}{server_nonce}", self.nonce);
        let salt = STANDARD.encode(&keys.salt);
        let server_first = format!("r={nonce},s={salt},i={}", keys.iterations);
        let scram = Scram {
            keys,
            gs2: self.gs2,
            binds: self.binds,
            nonce,
            so_far: format!("{},{server_first}", self.bare),
        };
        (server_first, scram)
    }
}

fn decode_name(text: &str) -> Result<String, Failure> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('=') {
        out.push_str(before);
        if let Some(tail) = after.strip_prefix("2C") {
            out.push(',');
            rest = tail;
        } else if let Some(tail) = after.strip_prefix("3D") {
            out.push('=');
            rest = tail;
        } else {
            return Err(Failure::MalformedRequest);
        }
    }
    out.push_str(rest);
    if out.is_empty() {
        Err(Failure::MalformedRequest)
    } else {
        Ok(out)
    }
}

/// SCRAM between the two messages of the client.
pub struct Scram {
    keys: ScramKeys,
    gs2: String,
    binds: bool,
    nonce: String,
    so_far: String,
}

impl Scram {
    /// Checks `c=…,r=…,p=…` and returns the server's signature.
    ///
    /// # Errors
    /// `malformed-request`, or `not-authorized` for a wrong proof, nonce or channel binding.
    pub fn finish(self, text: &str, exporter: Option<&[u8]>) -> Result<String, Failure> {
        let malformed = Failure::MalformedRequest;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(malformed)?;
        let mut parts = without_proof.split(',');
        let binding = parts
            .next()
            .and_then(|part| part.strip_prefix("c="))
            .ok_or(malformed)?;
        let nonce = parts
            .next()
            .and_then(|part| part.strip_prefix("r="))
            .ok_or(malformed)?;
        let binding = STANDARD.decode(binding).map_err(|_| malformed)?;
        let mut proof = STANDARD.decode(proof).map_err(|_| malformed)?;
        let mut expected = self.gs2.into_bytes();
        if self.binds {
            expected.extend_from_slice(exporter.ok_or(Failure::NotAuthorized)?);
        }
        let hash = self.keys.hash;
        if proof.len() != hash.len() {
            return Err(malformed);
        }
        let message = format!("{},{without_proof}", self.so_far);
        let signature = hash.sign(&self.keys.stored_key, message.as_bytes());
        for (byte, other) in proof.iter_mut().zip(&signature) {
            *byte ^= other;
        }
        let stored = digest::digest(hash.digest(), &proof);
        let good = equal(stored.as_ref(), &self.keys.stored_key)
            & equal(nonce.as_bytes(), self.nonce.as_bytes())
            & equal(&binding, &expected);
        if !good {
            return Err(Failure::NotAuthorized);
        }
        let signature = hash.sign(&self.keys.server_key, message.as_bytes());
        Ok(format!("v={}", STANDARD.encode(signature)))
    }
}

/// The one message of PLAIN.
#[derive(PartialEq, Eq)]
pub struct PlainMessage {
    /// The identity that the client wants to act as; empty for the user's own.
    pub authzid: String,
    /// The user's name as the client wrote it.
    pub user: String,
    /// The password.
    pub password: String,
}

impl PlainMessage {
    /// Parses `authzid NUL user NUL password`.
    ///
    /// # Errors
    /// `malformed-request`.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let mut parts = text.split('\0');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(authzid), Some(user), Some(password), None)
                if !user.is_empty() && !password.is_empty() =>
            {
                Ok(PlainMessage {
                    authzid: authzid.to_owned(),
                    user: user.to_owned(),
                    password: password.to_owned(),
                })
            }
            _ => Err(Failure::MalformedRequest),
        }
    }
}

/// The bytes of a SASL element as text.
///
/// # Errors
/// `incorrect-encoding` if it is not Base64, `malformed-request` if it is not UTF-8 or too long.
pub fn decode(base64: &str) -> Result<String, Failure> {
    // RFC 6120 section 6.4.2: a single equals sign is an empty message.
    if base64 == "=" {
        return Ok(String::new());
    }
    let bytes = STANDARD
        .decode(base64)
        .map_err(|_| Failure::IncorrectEncoding)?;
    if bytes.len() > SASL_MESSAGE_BYTES_MAX {
        return Err(Failure::MalformedRequest);
    }
    String::from_utf8(bytes).map_err(|_| Failure::MalformedRequest)
}

/// Bytes as Base64: nonces, identifiers.
pub fn encode_bytes(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Text for a SASL element.
pub fn encode(text: &str) -> String {
    STANDARD.encode(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677 section 3.
    #[test]
    fn scram_sha_256_follows_the_published_example() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let keys = derive(Hash::Sha256, "pencil", &salt, 4096);
        let first = ClientFirst::parse(
            "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            Mechanism::ScramSha256,
            false,
        )
        .unwrap();
        assert_eq!(first.user, "user");
        let (challenge, scram) = first.challenge(keys, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0");
        assert_eq!(
            challenge,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let answer = scram.finish(last, None).unwrap();
        assert_eq!(answer, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    /// The example of RFC 5802 section 5, and what happens to it when it is tampered with.
    #[test]
    fn scram_sha_1_refuses_what_was_tampered_with() {
        let salt = STANDARD.decode("QSXCR+Q6sek8bf92").unwrap();
        let last =
            "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=";
        let run = |text: &str| {
            let keys = derive(Hash::Sha1, "pencil", &salt, 4096);
            let first = ClientFirst::parse(
                "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
                Mechanism::ScramSha1,
                false,
            );
            first
                .unwrap()
                .challenge(keys, "3rfcNHYJY1ZVvWVs7j")
                .1
                .finish(text, None)
        };
        assert_eq!(run(last).unwrap(), "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=");
        assert_eq!(
            run(&last.replace("WVs7j", "WVs7k")),
            Err(Failure::NotAuthorized)
        );
        assert_eq!(
            run(&last.replace("biws", "eSws")),
            Err(Failure::NotAuthorized)
        );
        assert_eq!(
            run(&last.replace("p=v0X8", "p=w0X8")),
            Err(Failure::NotAuthorized)
        );
        assert_eq!(run("c=biws"), Err(Failure::MalformedRequest));
    }

    #[test]
    fn a_downgraded_or_foreign_channel_binding_is_refused() {
        let parse = |text: &str, mechanism, offered| {
            ClientFirst::parse(text, mechanism, offered)
                .map(|_| ())
                .unwrap_err()
        };
        let plain = Mechanism::ScramSha256;
        assert_eq!(parse("y,,n=u,r=1", plain, true), Failure::NotAuthorized);
        assert_eq!(
            parse("p=tls-unique,,n=u,r=1", Mechanism::ScramSha256Plus, true),
            Failure::NotAuthorized
        );
        assert_eq!(
            parse("n,,n=u,r=1", Mechanism::ScramSha256Plus, true),
            Failure::MalformedRequest
        );
        assert_eq!(
            parse("p=tls-exporter,,n=u,r=1", plain, true),
            Failure::MalformedRequest
        );
        assert_eq!(
            parse("n,,m=x,n=u,r=1", plain, true),
            Failure::MalformedRequest
        );
        assert_eq!(
            parse("n,,n=u=41,r=1", plain, true),
            Failure::MalformedRequest
        );
    }

    #[test]
    fn messages_are_base64_and_bounded() {
        for (base64, decoded) in [
            ("=", Ok(String::new())),
            ("", Ok(String::new())),
            ("aGk=", Ok("hi".to_owned())),
            // One spelling only: no stray bits, no missing end, no line ends.
            ("aGl=", Err(Failure::IncorrectEncoding)),
            ("aGk", Err(Failure::IncorrectEncoding)),
            ("aG\nk=", Err(Failure::IncorrectEncoding)),
            ("/w==", Err(Failure::MalformedRequest)),
        ] {
            assert_eq!(decode(base64), decoded, "{base64:?}");
        }
        let longest = "x".repeat(SASL_MESSAGE_BYTES_MAX);
        assert_eq!(decode(&encode(&longest)).as_ref(), Ok(&longest));
        let longer = encode(&format!("{longest}x"));
        assert_eq!(decode(&longer), Err(Failure::MalformedRequest));
    }

    #[test]
    fn plain_has_three_parts() {
        let plain = PlainMessage::parse("\0user\0pass").unwrap();
        assert_eq!(
            (plain.user.as_str(), plain.password.as_str()),
            ("user", "pass")
        );
        for bad in ["user\0pass", "\0user\0", "\0\0pass", "a\0b\0c\0d", ""] {
            assert!(PlainMessage::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn unknown_users_look_like_known_ones() {
        let one = fake_keys(Hash::Sha1, b"secret", "a@b", 4096);
        assert!(one == fake_keys(Hash::Sha1, b"secret", "a@b", 4096));
        assert!(one != fake_keys(Hash::Sha1, b"secret", "c@b", 4096));
        assert_eq!(one.stored_key.len(), 20);
    }
}
