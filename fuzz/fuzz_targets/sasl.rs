//! SASL with messages of any kind, and honest SCRAM exchanges that somebody on the way changes:
//! nobody is let in who does not hold the key, and nothing is accepted that was not sent so.

#![no_main]

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use ring::{digest, hmac};
use xmpp::limits::{SASL_MESSAGE_BYTES_MAX, SCRAM_CLIENT_NONCE_BYTES_MAX};
use xmpp::sasl::{self, ClientFirst, Failure, Hash, Mechanism, PlainMessage, ScramKeys};

const SALT: &[u8] = b"0123456789abcdef";
const SERVER_NONCE: &str = "server";
const CHANNEL: [u8; 32] = [9; 32];

#[derive(Debug, Arbitrary)]
enum Input<'a> {
    /// Messages that no client thought about.
    Messages(&'a str, Vec<u8>, u8),
    /// What a client sends who knows the password, and how it arrives.
    Honest {
        client: Client,
        changes: [Vec<Change>; 2],
        keys: Keys,
    },
}

#[derive(Clone, Copy, Debug, Arbitrary)]
struct Client {
    sha_256: bool,
    plus: bool,
    authzid: bool,
    channel_differs: bool,
}

/// Which keys the server holds for the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Arbitrary)]
enum Keys {
    Right,
    OtherPassword,
    Decoy,
}

#[derive(Debug, Arbitrary)]
enum Change {
    Set(u16, u8),
    Insert(u16, u8),
    Remove(u16),
    Append(String),
    /// The part between these commas comes again at the end.
    Repeat(u8),
    /// Two parts change places.
    Swap(u8, u8),
    Nonce,
    Binding,
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Messages(first, last, choice) => messages(first, &last, choice),
    Input::Honest {
        client,
        changes,
        keys,
    } => honest(client, &changes, keys),
});

/// Nobody can sign with a key that was made of a password nobody knows.
fn messages(first: &str, last: &[u8], choice: u8) {
    let mechanism = Mechanism::ALL[usize::from(choice % 4)];
    let last = String::from_utf8_lossy(last);
    if let Ok(text) = sasl::decode(first) {
        assert!(text.len() <= SASL_MESSAGE_BYTES_MAX);
        assert!(
            first == "=" || sasl::encode(&text) == first,
            "two spellings"
        );
    }
    if let Ok(plain) = PlainMessage::parse(first) {
        let parts = [&*plain.authzid, &*plain.user, &*plain.password];
        assert_eq!(parts.join("\0"), first);
    }
    let offers = choice & 0x80 != 0;
    let Ok(message) = ClientFirst::parse(first, mechanism, offers) else {
        return;
    };
    assert!(!message.user.is_empty());
    assert!(first.starts_with("p=tls-exporter,") == mechanism.is_plus());
    assert!(!(offers && first.starts_with("y,")), "a downgrade");
    let hash = mechanism.hash().expect("SCRAM has a hash");
    let (challenge, scram) = message.challenge(decoy(hash), SERVER_NONCE);
    assert!(challenge.starts_with("r=") && challenge.len() < SCRAM_CLIENT_NONCE_BYTES_MAX + 100);
    let nonce = challenge["r=".len()..].split(',').next().expect("a nonce");
    assert!(nonce.len() > SERVER_NONCE.len() && nonce.ends_with(SERVER_NONCE));
    let result = scram.finish(&last, Some(&CHANNEL));
    assert!(matches!(
        result,
        Err(Failure::NotAuthorized | Failure::MalformedRequest)
    ));
}

fn decoy(hash: Hash) -> ScramKeys {
    sasl::fake_keys(hash, &[7; 32], "alice@localhost", 1)
}

fn honest(client: Client, changes: &[Vec<Change>; 2], keys: Keys) {
    let (mechanism, hash) = match (client.sha_256, client.plus) {
        (true, true) => (Mechanism::ScramSha256Plus, Hash::Sha256),
        (true, false) => (Mechanism::ScramSha256, Hash::Sha256),
        (false, true) => (Mechanism::ScramSha1Plus, Hash::Sha1),
        (false, false) => (Mechanism::ScramSha1, Hash::Sha1),
    };
    let gs2 = match (client.plus, client.authzid) {
        (true, true) => "p=tls-exporter,a=alice@localhost,",
        (true, false) => "p=tls-exporter,,",
        (false, true) => "n,a=alice@localhost,",
        (false, false) => "n,,",
    };
    let first = format!("{gs2}n=alice,r=client");
    let arrived = change(&first, &changes[0]);
    let Ok(message) = ClientFirst::parse(&arrived, mechanism, true) else {
        assert_ne!(arrived, first, "an honest message is refused");
        return;
    };
    let (user, authzid) = (message.user.clone(), message.authzid().map(str::to_owned));
    let held = match keys {
        Keys::Right => right(hash).clone(),
        Keys::OtherPassword => other(hash).clone(),
        Keys::Decoy => decoy(hash),
    };
    let (challenge, scram) = message.challenge(held, SERVER_NONCE);
    let last = proof(hash, client, gs2, &challenge);
    let last_arrived = change(&last, &changes[1]);
    let accepted = scram.finish(&last_arrived, Some(&CHANNEL)).is_ok();
    let is_same = arrived == first && last_arrived == last;
    let is_right = keys == Keys::Right && !(client.plus && client.channel_differs);
    assert_eq!(
        accepted,
        is_same && is_right,
        "{client:?} {keys:?}: {arrived} {last_arrived}"
    );
    if accepted {
        assert_eq!(user, "alice");
        assert_eq!(authzid.is_some(), client.authzid);
    }
}

/// The client's last message. It signs the challenge that it got, whatever made the server give it.
fn proof(hash: Hash, client: Client, gs2: &str, challenge: &str) -> String {
    let (algorithm, hashes) = match hash {
        Hash::Sha1 => (
            hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            &digest::SHA1_FOR_LEGACY_USE_ONLY,
        ),
        Hash::Sha256 => (hmac::HMAC_SHA256, &digest::SHA256),
    };
    let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(algorithm, key), text);
    let mut binding = gs2.as_bytes().to_vec();
    if client.plus {
        let channel = if client.channel_differs {
            [8; 32]
        } else {
            CHANNEL
        };
        binding.extend_from_slice(&channel);
    }
    let nonce = challenge.split(',').next().expect("a nonce");
    let without_proof = format!("c={},{nonce}", STANDARD.encode(binding));
    let client_key = sign(salted(hash), b"Client Key");
    let stored_key = digest::digest(hashes, client_key.as_ref());
    let text = format!("n=alice,r=client,{challenge},{without_proof}");
    let signature = sign(stored_key.as_ref(), text.as_bytes());
    let pairs = client_key.as_ref().iter().zip(signature.as_ref());
    let proof: Vec<u8> = pairs.map(|(key, sign)| key ^ sign).collect();
    format!("{without_proof},p={}", STANDARD.encode(proof))
}

fn change(message: &str, changes: &[Change]) -> String {
    let mut bytes = message.as_bytes().to_vec();
    for change in changes.iter().take(4) {
        let len = bytes.len().max(1);
        let parts = || bytes.split(|byte| *byte == b',').map(<[u8]>::to_vec);
        match change {
            Change::Set(at, byte) => {
                if let Some(old) = bytes.get_mut(usize::from(*at) % len) {
                    *old = *byte;
                }
            }
            Change::Insert(at, byte) => bytes.insert(usize::from(*at) % len, *byte),
            Change::Remove(at) if !bytes.is_empty() => {
                bytes.remove(usize::from(*at) % len);
            }
            Change::Remove(_) => {}
            Change::Append(text) => bytes.extend_from_slice(text.as_bytes()),
            Change::Repeat(at) => {
                let count = parts().count();
                let part = parts().nth(usize::from(*at) % count).unwrap_or_default();
                bytes.push(b',');
                bytes.extend_from_slice(&part);
            }
            Change::Swap(one, other) => {
                let mut parts: Vec<Vec<u8>> = parts().collect();
                let count = parts.len();
                parts.swap(usize::from(*one) % count, usize::from(*other) % count);
                bytes = parts.join(&b',');
            }
            Change::Nonce => replace(&mut bytes, b"server", b"servex"),
            Change::Binding => replace(&mut bytes, b"c=biws", b"c=eSws"),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    if let Some(at) = bytes.windows(old.len()).position(|part| part == old) {
        bytes[at..at + old.len()].copy_from_slice(new);
    }
}

fn index(hash: Hash) -> usize {
    usize::from(hash == Hash::Sha256)
}

fn right(hash: Hash) -> &'static ScramKeys {
    static KEYS: OnceLock<[ScramKeys; 2]> = OnceLock::new();
    &KEYS.get_or_init(|| [Hash::Sha1, Hash::Sha256].map(|hash| sasl::derive(hash, "pw", SALT, 1)))
        [index(hash)]
}

fn other(hash: Hash) -> &'static ScramKeys {
    static KEYS: OnceLock<[ScramKeys; 2]> = OnceLock::new();
    &KEYS.get_or_init(|| [Hash::Sha1, Hash::Sha256].map(|hash| sasl::derive(hash, "px", SALT, 1)))
        [index(hash)]
}

/// The salted password as the client makes it.
fn salted(hash: Hash) -> &'static [u8] {
    static SALTED: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let derive = |algorithm, len| {
        let mut salted = vec![0; len];
        ring::pbkdf2::derive(
            algorithm,
            std::num::NonZeroU32::MIN,
            SALT,
            b"pw",
            &mut salted,
        );
        salted
    };
    &SALTED.get_or_init(|| {
        [
            derive(ring::pbkdf2::PBKDF2_HMAC_SHA1, 20),
            derive(ring::pbkdf2::PBKDF2_HMAC_SHA256, 32),
        ]
    })[index(hash)]
}
