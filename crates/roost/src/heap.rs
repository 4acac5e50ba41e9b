//! Gives memory back to the system after a peak. The C library keeps most of what was freed; after
//! a storm of logins that is several times what is in use. And keeps large buffers out of the heap.

/// Buffers from this size on (bytes) are pages of their own: they grow in place and go back to the
/// system when they are freed. Left to itself the C library raises this after the first of them is
/// freed, up to 32 MiB; from then on each doubling of the output for a client that does not read
/// leaves a hole of the buffer's former size.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_PAGES_FROM: i32 = 256 * 1024;

/// Free bytes at the end of the heap above which they go back to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const END_KEPT: i32 = 2 * 1024 * 1024;

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

/// Settles how the C library manages large buffers. Called once, before there are threads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(crate) fn settle() {
    // SAFETY: `mallopt` may be called at any time and changes figures only. If it refuses (0), all
    // stays as it was.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_PAGES_FROM);
        libc::mallopt(libc::M_TRIM_THRESHOLD, END_KEPT);
    }
}

/// Other C libraries are left as they are.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn settle() {}

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
