//! What keeps strangers from taking more than their share: the one place of a node that counts
//! logins, registrations and questions by address, makes decoys of accounts that do not exist,
//! knows who is banned, who may store more and which sessions over BOSH are made up. Owns no
//! connection and no account; whoever asks acts on the answer.

mod addresses;
mod bans;
mod budgets;
mod decoys;
mod generations;
mod shares;

use std::sync::Arc;

use net::{AddressKey, ConnRef};
use ring::hmac;
use ring::rand::SystemRandom;
use store::Store;
use xmpp::{bosh, sasl};

pub(crate) use addresses::{Addresses, Begin};
pub use bans::{BanError, Entry, List, is_directional};
pub(crate) use bans::{Bans, Lists};
pub(crate) use budgets::{Budgets, Charge};
pub(crate) use decoys::Decoys;
pub(crate) use generations::{Generation, Generations};
pub use shares::DomainSample;
pub(crate) use shares::Shares;

/// Bytes of the secret in the id of a session over BOSH.
const SESSION_SECRET_BYTES: usize = 18;

/// What all shards of a node share. Nothing here is touched by a message of a bound session.
pub(crate) struct Guard {
    /// Logins under way, failures and registrations by address.
    pub addresses: Addresses,
    /// Questions under way and answers not taken by address.
    pub budgets: Arc<Budgets>,
    /// Who may not be here.
    pub bans: Bans,
    /// Keys for names that nobody has.
    pub decoys: Decoys,
    /// What the accounts of each domain have stored.
    pub shares: Shares,
    secret: hmac::Key,
    /// Of this process alone: places of connections come again in the next one.
    sessions: hmac::Key,
}

impl Guard {
    /// For a node on `store`; `iterations` are those of new passwords.
    pub(crate) fn new(store: &Store, domains: &[String], bans: Bans, iterations: u32) -> Guard {
        // The key of the slots is as old and as secret as the accounts themselves, and no two
        // deployments share it.
        let key = hmac::Key::new(hmac::HMAC_SHA256, &store.slot_key().to_bytes());
        let secret = |label: &[u8]| {
            let secret = hmac::sign(&key, label);
            hmac::Key::new(hmac::HMAC_SHA256, secret.as_ref())
        };
        let decoys = Decoys::new(secret(b"roost decoys"), iterations);
        decoys.learn(store);
        let shares = Shares::new(domains);
        if let Err(error) = shares.learn(store) {
            tracing::warn!(%error, "cannot read what the domains have stored");
        }
        Guard {
            addresses: Addresses::default(),
            budgets: Arc::default(),
            bans,
            decoys,
            shares,
            secret: secret(b"roost addresses"),
            // Invariant: the operating system's generator does not fail once it has been seeded.
            sessions: hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
                .expect("random bytes"),
        }
    }

    /// The secret of a session over BOSH. It follows from the session's place, so that a request
    /// with a made-up one is known wherever it comes, before anything is said to a connection that
    /// it names.
    pub(crate) fn session_secret(&self, place: ConnRef) -> String {
        let mut context = hmac::Context::with_key(&self.sessions);
        context.update(&place.shard.index().to_be_bytes());
        context.update(&place.id.index.to_be_bytes());
        context.update(&place.id.generation.to_be_bytes());
        sasl::encode_bytes(&context.sign().as_ref()[..SESSION_SECRET_BYTES])
    }

    /// Whether a secret is that of the session at this place, if there ever was one.
    pub(crate) fn is_session(&self, place: ConnRef, secret: &str) -> bool {
        bosh::is_same_secret(secret, &self.session_secret(place))
    }

    /// What an address is called among those that an account was logged in from. Of another account
    /// it is called otherwise: the store does not tell who shares an address.
    pub(crate) fn known_as(&self, user: &str, from: AddressKey) -> u64 {
        let mut context = hmac::Context::with_key(&self.secret);
        context.update(&from.to_bits().to_be_bytes());
        context.update(user.as_bytes());
        let tag = context.sign();
        let mut first = [0; 8];
        first.copy_from_slice(&tag.as_ref()[..8]);
        u64::from_be_bytes(first)
    }
}
