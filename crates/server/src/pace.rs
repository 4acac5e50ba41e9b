//! How often accounts search for others: so many times a minute each, so that nobody reads the
//! whole directory by guessing. Owns the count of one shard; what is refused is said elsewhere.

use std::collections::HashMap;

use stdx::time::Moment;

const WINDOW_MS: u64 = 60_000;

/// Counts the searches of the accounts that live on one shard.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Which minute since the start this is.
    window: u64,
    searches: HashMap<Box<str>, u32>,
}

impl Pace {
    /// Whether an account may search once more now: at most `each_max` times a minute, and no more
    /// than `accounts_max` accounts in the same minute.
    pub(crate) fn admits(
        &mut self,
        account: &str,
        now: Moment,
        (each_max, accounts_max): (u32, usize),
    ) -> bool {
        let window = now.as_millis() / WINDOW_MS;
        if window != self.window {
            self.window = window;
            // The memory of a busy minute is not kept for quiet ones.
            self.searches = HashMap::new();
        }
        if let Some(searches) = self.searches.get_mut(account) {
            let is_admitted = *searches < each_max;
            *searches += u32::from(is_admitted);
            return is_admitted;
        }
        let is_admitted = self.searches.len() < accounts_max && each_max > 0;
        if is_admitted {
            self.searches.insert(account.into(), 1);
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn an_account_searches_so_often_a_minute_and_others_have_theirs() {
        let (mut pace, max) = (Pace::default(), (2, 9));
        let mut is_admitted = |who: &str, now| pace.admits(who, at(now), max);
        assert!(is_admitted("a@x", 1) && is_admitted("a@x", 2));
        assert!(!is_admitted("a@x", 59));
        assert!(is_admitted("b@x", 59));
        assert!(is_admitted("a@x", 60), "another minute");
    }

    #[test]
    fn so_many_accounts_are_counted_in_a_minute() {
        let (mut pace, max) = (Pace::default(), (2, 1));
        assert!(pace.admits("a@x", at(1), max));
        assert!(
            !pace.admits("b@x", at(1), max),
            "there is no place for another"
        );
        assert!(pace.admits("a@x", at(1), max));
        assert!(pace.admits("b@x", at(61), max));
        assert!(!pace.admits("a@x", at(121), (0, 1)), "nobody may");
    }
}
