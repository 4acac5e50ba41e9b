//! Gives memory back to the system after a peak. The C library keeps most of what was freed; after
//! a storm of logins that is several times what is in use.

/// Accounts at the peak from which on a trim is worth its while.
const PEAK_MIN: u64 = 1_000;

/// Decides when to trim: once a quarter of the loaded accounts has gone since the last time. While
/// as many stay, what is freed is wanted again soon, and shards are left in peace.
#[derive(Debug, Default)]
pub(crate) struct Trimmer {
    peak: u64,
}

impl Trimmer {
    /// Called now and then with the number of accounts that are loaded.
    pub(crate) fn look(&mut self, accounts: u64) {
        if self.is_due(accounts) {
            trim();
        }
    }

    fn is_due(&mut self, accounts: u64) -> bool {
        let is_due = self.peak >= PEAK_MIN && accounts <= self.peak - self.peak / 4;
        self.peak = if is_due {
            accounts
        } else {
            self.peak.max(accounts)
        };
        is_due
    }
}

/// Returns whole pages of freed memory to the system, of every thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
fn trim() {
    // SAFETY: `malloc_trim` may be called at any time by any thread and touches freed memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Other C libraries give memory back by themselves, or have no way to be asked.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::Trimmer;

    #[test]
    fn a_trim_is_due_each_time_that_a_quarter_has_gone() {
        let mut trimmer = Trimmer::default();
        let accounts = [
            0, 500, 100, 8_000, 7_000, 6_001, 6_000, 5_000, 4_500, 900, 0, 0,
        ];
        let due = accounts.map(|accounts| trimmer.is_due(accounts));
        let expected = [6, 8, 9].map(|at| accounts[at]);
        let seen: Vec<u64> = std::iter::zip(accounts, due)
            .filter_map(|(accounts, due)| due.then_some(accounts))
            .collect();
        assert_eq!(seen, expected);
    }
}
