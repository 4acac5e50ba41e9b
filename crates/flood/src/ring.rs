//! The contact ring: who knows whom, who has seen whom, and the check that both agree.
//!
//! User i knows i±1 to i±contacts/2 around a ring of all provisioned accounts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

/// A ring of accounts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    /// Accounts in the ring.
    pub(crate) size: u32,
    /// Contacts of each; even and smaller than `size`.
    pub(crate) contacts: u32,
}

impl Ring {
    /// Contact number `slot` of `user`.
    pub(crate) fn contact(self, user: u32, slot: u32) -> u32 {
        let half = self.contacts / 2;
        let (user, size) = (u64::from(user), u64::from(self.size));
        let there = if slot < half {
            user + u64::from(slot) + 1
        } else {
            user + size - u64::from(slot - half) - 1
        };
        (there % size) as u32
    }

    /// The slot of `other` among the contacts of `user`.
    pub(crate) fn slot(self, user: u32, other: u32) -> Option<u32> {
        let half = self.contacts / 2;
        let forward =
            (u64::from(other) + u64::from(self.size) - u64::from(user)) % u64::from(self.size);
        let backward = u64::from(self.size) - forward;
        if forward == 0 {
            None
        } else if forward <= u64::from(half) {
            Some(forward as u32 - 1)
        } else if backward <= u64::from(half) {
            Some(half + backward as u32 - 1)
        } else {
            None
        }
    }
}

/// One bit per contact for each of a run of users: whom they saw available.
pub(crate) struct Seen {
    words_per_user: usize,
    contacts: u32,
    words: Vec<u64>,
}

impl Seen {
    /// Nobody seen by any of `users`.
    pub(crate) fn new(users: usize, contacts: u32) -> Seen {
        let words_per_user = contacts.div_ceil(64) as usize;
        Seen {
            words_per_user,
            contacts,
            words: vec![0; users * words_per_user],
        }
    }

    fn of(&mut self, user: usize) -> &mut [u64] {
        &mut self.words[user * self.words_per_user..][..self.words_per_user]
    }

    /// Forgets all that `user` saw: a new session starts blind.
    pub(crate) fn clear(&mut self, user: usize) {
        self.of(user).fill(0);
    }

    /// Notes whether `user` sees contact `slot` available.
    pub(crate) fn set(&mut self, user: usize, slot: u32, available: bool) {
        let bit = 1_u64 << (slot % 64);
        let word = &mut self.of(user)[(slot / 64) as usize];
        if available {
            *word |= bit;
        } else {
            *word &= !bit;
        }
    }

    /// A slot that `user` sees available, picked by the random number `pick`.
    pub(crate) fn pick(&mut self, user: usize, pick: u32) -> Option<u32> {
        let words = self.of(user);
        let total: u32 = words.iter().map(|word| word.count_ones()).sum();
        let mut skip = pick.checked_rem(total)?;
        for (index, word) in words.iter().enumerate() {
            let here = word.count_ones();
            if skip < here {
                let mut word = *word;
                for _ in 0..skip {
                    word &= word - 1;
                }
                return Some(index as u32 * 64 + word.trailing_zeros());
            }
            skip -= here;
        }
        None
    }

    /// Everything as text, for [`View`].
    pub(crate) fn encode(&self) -> String {
        let mut bytes = Vec::with_capacity(self.words.len() * 8);
        for word in &self.words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        BASE64.encode(bytes)
    }

    fn decode(text: &str, users: usize, contacts: u32) -> Option<Seen> {
        let mut seen = Seen::new(users, contacts);
        let bytes = BASE64.decode(text).ok()?;
        if bytes.len() != seen.words.len() * 8 {
            return None;
        }
        for (word, bytes) in seen.words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        Some(seen)
    }

    fn is_set(&self, user: usize, slot: u32) -> bool {
        debug_assert!(slot < self.contacts);
        self.words[user * self.words_per_user + (slot / 64) as usize] >> (slot % 64) & 1 == 1
    }
}

/// A user's state at the moment of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Offline for a while.
    Offline = 0,
    /// Online for a while.
    Online = 1,
    /// Came or went a moment ago: what others should see of this user is not defined yet.
    Moving = 2,
}

/// What one process knows of its users at the moment of a check.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct View {
    /// Number of the first user.
    pub(crate) first: u32,
    /// One [`Standing`] per user, as base64 text of bytes.
    pub(crate) standings: String,
    /// Whom each has seen.
    pub(crate) seen: String,
}

impl View {
    /// Packs the standings of users from `first` on and what they have seen.
    pub(crate) fn new(first: u32, standings: &[u8], seen: &Seen) -> View {
        View {
            first,
            standings: BASE64.encode(standings),
            seen: seen.encode(),
        }
    }
}

/// The outcome of a presence check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresenceCheck {
    /// Users online at the check.
    pub users_online: u64,
    /// Of these, users who see exactly the contacts that are online.
    pub users_right: u64,
    /// Online contacts that should be seen, over all users.
    pub expected: u64,
    /// Online contacts that a user does not see.
    pub missing: u64,
    /// Offline contacts that a user still sees.
    pub stale: u64,
}

/// Compares what users see with who is online.
pub(crate) fn check(ring: Ring, views: &[View]) -> PresenceCheck {
    let mut standing = vec![Standing::Offline as u8; ring.size as usize];
    let mut decoded = Vec::new();
    for view in views {
        let Ok(bytes) = BASE64.decode(&view.standings) else {
            continue;
        };
        let Some(seen) = Seen::decode(&view.seen, bytes.len(), ring.contacts) else {
            continue;
        };
        let Some(part) = standing.get_mut(view.first as usize..) else {
            continue;
        };
        for (place, byte) in part.iter_mut().zip(&bytes) {
            *place = *byte;
        }
        decoded.push((view.first, bytes.len(), seen));
    }
    let mut check = PresenceCheck::default();
    for (first, users, seen) in &decoded {
        for index in 0..*users {
            let user = first + index as u32;
            if standing[user as usize] != Standing::Online as u8 {
                continue;
            }
            check.users_online += 1;
            let mut right = true;
            for slot in 0..ring.contacts {
                let there = standing[ring.contact(user, slot) as usize];
                let sees = seen.is_set(index, slot);
                if there == Standing::Online as u8 {
                    check.expected += 1;
                    check.missing += u64::from(!sees);
                    right &= sees;
                } else if there == Standing::Offline as u8 {
                    check.stale += u64::from(sees);
                    right &= !sees;
                }
            }
            check.users_right += u64::from(right);
        }
    }
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn slots_and_contacts_are_inverse_and_mutual(
            half in 0_u32..20, extra in 1_u32..50, user in 0_u32..10_000,
        ) {
            let ring = Ring { size: 2 * half + extra, contacts: 2 * half };
            let user = user % ring.size;
            let mut all = Vec::new();
            for slot in 0..ring.contacts {
                let other = ring.contact(user, slot);
                assert_eq!(ring.slot(user, other), Some(slot));
                assert!(ring.slot(other, user).is_some(), "{user} knows {other} one way only");
                all.push(other);
            }
            all.push(user);
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len() as u32, ring.contacts + 1, "contacts are distinct");
            assert_eq!(ring.slot(user, user), None);
        }

        #[test]
        fn picks_are_only_what_was_seen(slots in proptest::collection::vec(0_u32..100, 0..20)) {
            let mut seen = Seen::new(3, 100);
            for slot in &slots {
                seen.set(1, *slot, true);
            }
            for pick in 0..50 {
                match seen.pick(1, pick) {
                    Some(slot) => assert!(slots.contains(&slot)),
                    None => assert!(slots.is_empty()),
                }
            }
            assert_eq!(seen.pick(0, 7), None);
            assert_eq!(seen.pick(2, 7), None);
        }
    }

    /// Goal: one missing and one stale contact are found across the border of two processes.
    #[test]
    fn the_check_finds_missing_and_stale_contacts() {
        let ring = Ring {
            size: 10,
            contacts: 4,
        };
        let online = |user: u32| user != 3;
        let view = |first: u32, spoil: &[(u32, u32, bool)]| {
            let mut seen = Seen::new(5, ring.contacts);
            let mut standings = Vec::new();
            for index in 0..5 {
                let user = first + index;
                standings.push(u8::from(online(user)));
                for slot in 0..ring.contacts {
                    seen.set(index as usize, slot, online(ring.contact(user, slot)));
                }
            }
            for (user, other, sees) in spoil {
                let slot = ring.slot(*user, *other).unwrap();
                seen.set((user - first) as usize, slot, *sees);
            }
            View::new(first, &standings, &seen)
        };
        let good = check(ring, &[view(0, &[]), view(5, &[])]);
        let all = PresenceCheck {
            users_online: 9,
            users_right: 9,
            expected: 32,
            missing: 0,
            stale: 0,
        };
        assert_eq!(good, all);
        let bad = check(ring, &[view(0, &[(4, 5, false)]), view(5, &[(5, 3, true)])]);
        assert_eq!(
            bad,
            PresenceCheck {
                users_right: 7,
                missing: 1,
                stale: 1,
                ..all
            }
        );
    }
}
