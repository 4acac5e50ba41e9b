//! What the accounts of each domain have stored, as it was last read, and who may store more. While
//! a domain is below its bound everybody may. At the bound an account may that would still have
//! less than its share: the bound, divided by the accounts. So one who filled the domain takes
//! nothing from those who store little. Owns no counting: the store keeps the totals.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
use store::{DomainTotals, Store, StoreError};

use crate::address;

/// A domain and what is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainSample {
    /// Its name.
    pub domain: String,
    /// Accounts.
    pub accounts: u64,
    /// Bytes that they have stored.
    pub stored_bytes: u64,
}

#[derive(Default)]
struct Domain {
    accounts: AtomicU64,
    stored: AtomicU64,
}

/// The domains of a node. Reading takes no lock: it is on the path of messages.
pub(crate) struct Shares {
    domains: BTreeMap<String, Domain>,
    /// The bytes of the domain that has the most: below the bound nothing else is looked at.
    most: AtomicU64,
}

impl Shares {
    pub(crate) fn new(domains: &[String]) -> Shares {
        let domains = domains.iter().map(|name| (name.clone(), Domain::default()));
        Shares {
            domains: domains.collect(),
            most: AtomicU64::default(),
        }
    }

    /// Reads the totals.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read; what was known stays.
    pub(crate) fn learn(&self, store: &Store) -> Result<(), StoreError> {
        self.take(&store.totals()?);
        Ok(())
    }

    fn take(&self, totals: &BTreeMap<String, DomainTotals>) {
        let mut most = 0;
        for (name, domain) in &self.domains {
            let totals = totals.get(name).copied().unwrap_or_default();
            domain.accounts.store(totals.accounts, Relaxed);
            domain.stored.store(totals.stored_bytes, Relaxed);
            most = most.max(totals.stored_bytes);
        }
        self.most.store(most, Relaxed);
    }

    /// Whether an account that has `own` bytes may store `more` while a domain may have `max`.
    pub(crate) fn may_store(&self, user: &str, own: u64, more: u64, max: u64) -> bool {
        if self.most.load(Relaxed).saturating_add(more) <= max {
            return true;
        }
        let Some(domain) = self.domains.get(address::domain(user)) else {
            return true;
        };
        if domain.stored.load(Relaxed).saturating_add(more) <= max {
            return true;
        }
        own.saturating_add(more) <= max / domain.accounts.load(Relaxed).max(1)
    }

    /// Whether a domain has no room for a further account.
    pub(crate) fn is_full(&self, user: &str, max: u64) -> bool {
        let domain = self.domains.get(address::domain(user));
        domain.is_some_and(|domain| domain.stored.load(Relaxed) >= max)
    }

    /// All domains, by name.
    pub(crate) fn sample(&self) -> Vec<DomainSample> {
        let domains = self.domains.iter().map(|(name, domain)| DomainSample {
            domain: name.clone(),
            accounts: domain.accounts.load(Relaxed),
            stored_bytes: domain.stored.load(Relaxed),
        });
        domains.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(accounts: u64, stored_bytes: u64) -> DomainTotals {
        DomainTotals {
            accounts,
            stored_bytes,
        }
    }

    #[test]
    fn at_the_bound_only_those_below_their_share_store_more() {
        let shares = Shares::new(&["a".to_owned(), "b".to_owned()]);
        assert!(shares.may_store("x@a", 0, 1_000, 1_000), "nothing is known");
        let all = [("a", totals(10, 1_000)), ("b", totals(1, 10))];
        shares.take(&all.map(|(name, totals)| (name.to_owned(), totals)).into());
        assert!(shares.may_store("x@a", 999, 10, 1_010), "below it");
        assert!(!shares.may_store("x@a", 999, 11, 1_010), "at it");
        assert!(shares.may_store("y@a", 50, 51, 1_010), "a share is 101");
        assert!(!shares.may_store("y@a", 51, 51, 1_010));
        assert!(shares.may_store("z@b", 900, 100, 1_000), "another domain");
        assert!(shares.may_store("z@elsewhere", 900, 100, 1_000));
        assert!(shares.is_full("new@a", 1_000) && !shares.is_full("new@b", 1_000));
        shares.take(&BTreeMap::new());
        assert!(shares.may_store("x@a", 999, 11, 1_010), "it was emptied");
    }
}
