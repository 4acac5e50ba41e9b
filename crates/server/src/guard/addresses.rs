//! What addresses do on the whole node: logins under way, failed ones, registrations. Touched when
//! somebody logs in or registers, never by a message, so that striped locks are cheap enough. Time
//! is an argument.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use net::AddressKey;
use stdx::time::Moment;
use xmpp::stream::LoginEnd;

use crate::limits::{
    ADDRESSES_REMEMBERED, LOGINS_OF_A_GUESSER, LOGINS_OF_AN_ADDRESS, PENALTY, PENALTY_FREE,
    PENALTY_REMEMBERED, REGISTRATION_WINDOW,
};

const STRIPES: usize = 64;

/// Whether a login may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It has begun and is counted until it ends.
    Now,
    /// After this time: its address failed too often, or has many under way.
    After(Duration),
    /// Not at all for now: its address failed too often and has some under way.
    Refused,
}

#[derive(Clone, Copy, Debug, Default)]
struct Address {
    under_way: u32,
    failures: u32,
    failed_at: Moment,
    registrations: u32,
    /// When the first of them was made.
    registered: Moment,
}

impl Address {
    fn failures(&self, now: Moment) -> u32 {
        if now.saturating_since(self.failed_at) < PENALTY_REMEMBERED {
            self.failures
        } else {
            0
        }
    }

    fn registrations(&self, now: Moment) -> u32 {
        if now.saturating_since(self.registered) < REGISTRATION_WINDOW {
            self.registrations
        } else {
            0
        }
    }

    fn is_forgettable(&self, now: Moment) -> bool {
        self.under_way == 0 && self.failures(now) == 0 && self.registrations(now) == 0
    }
}

type Stripe = HashMap<AddressKey, Address>;

/// See the module.
pub(crate) struct Addresses {
    stripes: Vec<Mutex<Stripe>>,
    /// Addresses of one stripe.
    max: usize,
}

impl Default for Addresses {
    fn default() -> Self {
        Addresses::bounded(ADDRESSES_REMEMBERED / STRIPES)
    }
}

impl Addresses {
    fn bounded(max: usize) -> Self {
        Addresses {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            max,
        }
    }

    fn with<T>(&self, key: AddressKey, now: Moment, act: impl FnOnce(&mut Address) -> T) -> T {
        let at = key.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let stripe = &self.stripes[at as usize % STRIPES];
        let mut stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
        if stripe.len() >= self.max && !stripe.contains_key(&key) {
            make_room(&mut stripe, self.max, now);
        }
        let address = stripe.entry(key).or_default();
        let result = act(address);
        if address.is_forgettable(now) {
            stripe.remove(&key);
        }
        result
    }

    /// A login asks for the keys of its account.
    pub(crate) fn begin(&self, key: AddressKey, now: Moment) -> Begin {
        self.with(key, now, |address| {
            let is_guesser = address.failures(now) > PENALTY_FREE;
            if is_guesser && address.under_way >= LOGINS_OF_A_GUESSER {
                return Begin::Refused;
            }
            if is_guesser || address.under_way >= LOGINS_OF_AN_ADDRESS {
                return Begin::After(PENALTY);
            }
            address.under_way += 1;
            Begin::Now
        })
    }

    /// A login that was told to wait has waited. False if its address has too many under way.
    pub(crate) fn begin_late(&self, key: AddressKey, now: Moment) -> bool {
        self.with(key, now, |address| {
            let max = match address.failures(now) > PENALTY_FREE {
                true => LOGINS_OF_A_GUESSER,
                false => LOGINS_OF_AN_ADDRESS,
            };
            let may = address.under_way < max;
            address.under_way += u32::from(may);
            may
        })
    }

    /// A login that had begun is over. True if the address has to be slowed down.
    pub(crate) fn end(&self, key: AddressKey, end: LoginEnd, now: Moment) -> bool {
        self.with(key, now, |address| {
            address.under_way = address.under_way.saturating_sub(1);
            if end == LoginEnd::Refused {
                address.failures = address.failures(now).saturating_add(1);
                address.failed_at = now;
            }
            end == LoginEnd::Refused && address.failures > PENALTY_FREE
        })
    }

    /// Counts a registration; false if the address has made its share.
    pub(crate) fn may_register(&self, key: AddressKey, per_hour: u32, now: Moment) -> bool {
        self.with(key, now, |address| {
            if address.registrations(now) == 0 {
                (address.registrations, address.registered) = (0, now);
            }
            let may = address.registrations < per_hour;
            address.registrations += u32::from(may);
            may
        })
    }
}

/// Forgets what is over; if nothing is, whoever failed and registered the least lately.
fn make_room(stripe: &mut Stripe, max: usize, now: Moment) {
    stripe.retain(|_, address| !address.is_forgettable(now));
    if stripe.len() < max {
        return;
    }
    // Those with a login under way are bounded by their connections.
    let idle = stripe.iter().filter(|(_, address)| address.under_way == 0);
    let weight = |address: &Address| {
        (
            address.failures(now) + address.registrations(now),
            address.failed_at,
        )
    };
    let least = idle.min_by_key(|(_, address)| weight(address));
    if let Some(key) = least.map(|(key, _)| *key) {
        stripe.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> AddressKey {
        AddressKey::of(std::net::Ipv4Addr::from_bits(n + 1).into())
    }

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(10_000 + seconds)
    }

    fn fail(addresses: &Addresses, key: AddressKey, now: Moment) -> bool {
        assert_eq!(addresses.begin(key, now), Begin::Now);
        addresses.end(key, LoginEnd::Refused, now)
    }

    #[test]
    fn an_address_that_fails_is_slowed_down_and_forgiven() {
        let (addresses, one) = (Addresses::default(), key(1));
        for _ in 0..PENALTY_FREE {
            assert!(!fail(&addresses, one, at(0)));
        }
        assert!(fail(&addresses, one, at(0)));
        for _ in 0..LOGINS_OF_A_GUESSER {
            assert_eq!(addresses.begin(one, at(1)), Begin::After(PENALTY));
            assert!(addresses.begin_late(one, at(3)));
        }
        assert_eq!(addresses.begin(one, at(3)), Begin::Refused);
        assert!(!addresses.begin_late(one, at(3)), "waited for nothing");
        assert_eq!(addresses.begin(key(2), at(3)), Begin::Now, "another one");
        for _ in 0..LOGINS_OF_A_GUESSER {
            addresses.end(one, LoginEnd::Abandoned, at(4));
        }
        let later = at(0) + PENALTY_REMEMBERED;
        assert_eq!(addresses.begin(one, later), Begin::Now);
    }

    #[test]
    fn who_does_not_guess_may_log_in_many_at_a_time() {
        let (addresses, one) = (Addresses::default(), key(1));
        for _ in 0..LOGINS_OF_AN_ADDRESS {
            assert_eq!(addresses.begin(one, at(0)), Begin::Now);
        }
        assert_eq!(addresses.begin(one, at(0)), Begin::After(PENALTY));
        addresses.end(one, LoginEnd::Succeeded, at(1));
        assert_eq!(addresses.begin(one, at(1)), Begin::Now);
    }

    #[test]
    fn registrations_are_counted_for_the_node_and_forgotten_in_time() {
        let (addresses, one) = (Addresses::default(), key(1));
        for _ in 0..3 {
            assert!(addresses.may_register(one, 3, at(0)));
        }
        assert!(!addresses.may_register(one, 3, at(5)));
        assert!(addresses.may_register(key(2), 3, at(5)));
        let later = at(0) + REGISTRATION_WINDOW;
        assert!(addresses.may_register(one, 3, later));
    }

    #[test]
    fn at_the_bound_the_least_is_forgotten() {
        let addresses = Addresses::bounded(2);
        for n in 0..2_000 {
            let guesser = key(n);
            fail(&addresses, guesser, at(1));
            if n == 7 {
                fail(&addresses, guesser, at(1));
                fail(&addresses, guesser, at(1));
            }
        }
        let remembered = |key| addresses.with(key, at(1), |address| address.failures);
        assert_eq!(remembered(key(7)), 3, "who failed most");
        let all = addresses
            .stripes
            .iter()
            .map(|stripe| stripe.lock().unwrap().len());
        assert!(all.sum::<usize>() <= 2 * STRIPES);
    }
}
