//! Keys that passwords are checked against (SCRAM, RFC 5802): how they are derived, and how the
//! store has them. Knows no account and no stream.

use xmpp::sasl::{self, Hash};

/// Bytes of the salt of new keys.
pub(crate) const SALT_BYTES: usize = 16;

/// The account's keys as the stream machine takes them.
pub(crate) fn credentials(account: &store::Account) -> Vec<sasl::ScramKeys> {
    let keys = account.scram.iter().map(|keys| sasl::ScramKeys {
        hash: match keys.hash {
            store::ScramHash::Sha1 => Hash::Sha1,
            store::ScramHash::Sha256 => Hash::Sha256,
        },
        iterations: keys.iterations,
        salt: keys.salt.clone(),
        stored_key: keys.stored_key.clone(),
        server_key: keys.server_key.clone(),
    });
    keys.collect()
}

/// Keys of a prepared password for every hash. Slow.
pub(crate) fn derive_keys(password: &str, salt: &[u8], iterations: u32) -> Vec<store::ScramKeys> {
    let hashes = [
        (Hash::Sha1, store::ScramHash::Sha1),
        (Hash::Sha256, store::ScramHash::Sha256),
    ];
    let keys = hashes.map(|(hash, stored)| {
        let keys = sasl::derive(hash, password, salt, iterations);
        store::ScramKeys {
            hash: stored,
            iterations,
            salt: keys.salt,
            stored_key: keys.stored_key,
            server_key: keys.server_key,
        }
    });
    keys.into()
}
