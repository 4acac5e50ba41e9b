//! Decoys: what a login with a name that nobody has is answered with. Its iterations are those of
//! some real account. Its salt follows from the name, the iterations and a secret of the store: it
//! is the same after a restart, and changes with the iterations as that of an account with a new
//! password does. Owns the choice; the answer itself is SASL's.

use std::sync::{Arc, Mutex, PoisonError};

use ring::hmac;
use store::Store;
use xmpp::sasl::{self, Hash, ScramKeys};

use crate::limits::{DECOY_SALT_BYTES_MAX, DECOY_SAMPLE};

/// What of an account's keys its owner's client is told: for each hash, iterations and the length
/// of the salt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind(Vec<(bool, u32, usize)>);

/// A kind with the number of accounts in the sample that are of it.
type Kinds = Arc<[(Kind, u64)]>;

/// See the module.
pub(crate) struct Decoys {
    secret: hmac::Key,
    /// What new passwords get.
    current: Kind,
    /// The current kind first, then those with the most iterations. Locked for a moment by logins
    /// with names that nobody has.
    kinds: Mutex<Kinds>,
}

impl Kind {
    fn of(keys: &[store::ScramKeys]) -> Kind {
        let of_one = |keys: &store::ScramKeys| {
            let is_sha_256 = keys.hash == store::ScramHash::Sha256;
            let salt = keys.salt.len().clamp(1, DECOY_SALT_BYTES_MAX);
            (is_sha_256, keys.iterations, salt)
        };
        let mut kind: Vec<_> = keys.iter().map(of_one).collect();
        kind.sort_unstable();
        Kind(kind)
    }
}

impl Decoys {
    /// Decoys of which nothing is known but how new accounts look.
    pub(super) fn new(secret: hmac::Key, iterations: u32) -> Decoys {
        let salt = crate::keys::SALT_BYTES;
        let current = Kind(vec![(false, iterations, salt), (true, iterations, salt)]);
        Decoys {
            secret,
            kinds: Mutex::new(Arc::new([(current.clone(), 1)])),
            current,
        }
    }

    /// For hashes that an account has no keys for.
    pub(crate) fn secret(&self) -> [u8; 32] {
        let mut secret = [0; 32];
        secret.copy_from_slice(self.text("other", "").as_ref());
        secret
    }

    /// Looks at some accounts: decoys are distributed as they are. The order of accounts in the
    /// store is that of a keyed hash, so the first ones are a sample, and the same one each time.
    /// For a thread that may wait. What cannot be read is left out.
    pub(crate) fn learn(&self, store: &Store) {
        let Ok(users) = store.accounts(None, None, DECOY_SAMPLE) else {
            return;
        };
        let states = users.iter().filter_map(|user| store.load_user(user).ok()?);
        let kinds: Vec<Kind> = states.map(|state| Kind::of(&state.account.scram)).collect();
        self.take(kinds);
    }

    fn take(&self, mut sample: Vec<Kind>) {
        sample.retain(|kind| !kind.0.is_empty());
        sample.sort_unstable();
        let mut kinds: Vec<(Kind, u64)> = Vec::new();
        // Accounts that are made from now on must not be the only ones of their kind.
        let few = 1 + sample.len() as u64 / 64;
        for kind in sample {
            match kinds.last_mut() {
                Some((last, count)) if *last == kind => *count += 1,
                _ => kinds.push((kind, 1)),
            }
        }
        let current = kinds.iter().position(|(kind, _)| *kind == self.current);
        let current = current.map_or(0, |at| kinds.remove(at).1).max(few);
        kinds.reverse();
        kinds.insert(0, (self.current.clone(), current));
        *self.kinds.lock().unwrap_or_else(PoisonError::into_inner) = kinds.into();
    }

    /// The keys of a name that nobody has: alike for every attempt, and wrong for every password.
    pub(crate) fn keys(&self, user: &str) -> Vec<ScramKeys> {
        let kinds = Arc::clone(&self.kinds.lock().unwrap_or_else(PoisonError::into_inner));
        let kind = pick(&kinds, self.number(user));
        // All hashes of an account have one salt.
        let iterations = kind.0.iter().map(|&(_, iterations, _)| iterations).max();
        let salted = format!("{}:{user}", iterations.unwrap_or_default());
        let keys = kind.0.iter().map(|&(is_sha_256, iterations, salt)| {
            let hash = if is_sha_256 { Hash::Sha256 } else { Hash::Sha1 };
            let secret = self.text("keys", user);
            let mut keys = sasl::fake_keys(hash, secret.as_ref(), user, iterations);
            keys.salt = self.text("salt", &salted).as_ref()[..salt].to_vec();
            keys
        });
        keys.collect()
    }

    fn text(&self, what: &str, user: &str) -> hmac::Tag {
        hmac::sign(&self.secret, format!("{what}:{user}").as_bytes())
    }

    fn number(&self, user: &str) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.text("kind", user).as_ref()[..8]);
        u64::from_be_bytes(first)
    }
}

/// The kind that a number from the whole range falls on. As the share of the first kind grows,
/// names move to it and never back, as accounts with new passwords do.
fn pick(kinds: &[(Kind, u64)], number: u64) -> &Kind {
    let all: u64 = kinds.iter().map(|(_, count)| count).sum();
    let mut left = ((u128::from(number) * u128::from(all)) >> 64) as u64;
    for (kind, count) in kinds {
        match left.checked_sub(*count) {
            Some(rest) => left = rest,
            None => return kind,
        }
    }
    // Invariant: the current kind is always there.
    &kinds.first().expect("a kind").0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoys(iterations: u32) -> Decoys {
        Decoys::new(hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]), iterations)
    }

    fn kind(iterations: u32) -> Kind {
        Kind(vec![(false, iterations, 16), (true, iterations, 16)])
    }

    fn iterations(decoys: &Decoys, user: &str) -> u32 {
        decoys.keys(user)[0].iterations
    }

    #[test]
    fn a_decoy_is_the_same_after_a_restart_and_under_another_configuration() {
        let before = decoys(10_000);
        before.take(vec![kind(10_000); 64]);
        let after = decoys(20_000);
        after.take(vec![kind(10_000); 64]);
        let (mut same, all) = (0, 400);
        for n in 0..all {
            let user = format!("nobody{n}@x");
            let (old, new) = (before.keys(&user), after.keys(&user));
            let is_same = old[0].iterations == new[0].iterations;
            // Nobody's iterations change without a new password, which has a new salt.
            assert_eq!(old[0].salt == new[0].salt, is_same, "{user}");
            assert_eq!(old[0].salt.len(), 16);
            assert_eq!(old[0].salt, old[1].salt, "as that of a real account");
            same += usize::from(is_same);
        }
        assert!(same > all * 9 / 10, "{same}");
        assert!(
            same < all,
            "new accounts are not the only ones of their kind"
        );
    }

    #[test]
    fn decoys_are_distributed_as_accounts_are() {
        let decoys = decoys(20_000);
        let mut sample = vec![kind(4_096); 30];
        sample.extend(vec![kind(10_000); 20]);
        sample.extend(vec![kind(20_000); 50]);
        decoys.take(sample);
        let of = |wanted: u32| {
            let users = (0..1_000).map(|n| format!("n{n}@x"));
            users
                .filter(|user| iterations(&decoys, user) == wanted)
                .count()
        };
        assert!((240..360).contains(&of(4_096)), "{}", of(4_096));
        assert!((150..250).contains(&of(10_000)), "{}", of(10_000));
        assert!((440..560).contains(&of(20_000)), "{}", of(20_000));
    }

    #[test]
    fn as_accounts_change_decoys_move_one_way() {
        let decoys = decoys(20_000);
        let users: Vec<String> = (0..300).map(|n| format!("n{n}@x")).collect();
        let mut moved = vec![false; users.len()];
        for new in 0..=64 {
            let mut sample = vec![kind(10_000); 64 - new];
            sample.extend(vec![kind(20_000); new]);
            decoys.take(sample);
            for (user, moved) in users.iter().zip(&mut moved) {
                let is_new = iterations(&decoys, user) == 20_000;
                assert!(is_new || !*moved, "{user} moved back");
                *moved = is_new;
            }
        }
        assert!(moved.iter().all(|moved| *moved));
    }

    #[test]
    fn without_accounts_decoys_look_like_new_ones() {
        let decoys = decoys(4_096);
        decoys.learn(&Store::in_memory());
        let keys = decoys.keys("nobody@x");
        assert_eq!(keys.len(), 2);
        assert!(keys.iter().all(|keys| keys.iterations == 4_096));
        assert!(!sasl::verify_plain(&keys[0], "pw"));
    }
}
