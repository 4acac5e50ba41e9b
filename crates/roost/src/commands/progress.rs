//! How far a command is that takes minutes: one line on the terminal that is written over and over,
//! and nothing where there is no terminal.

use std::io::{self, IsTerminal as _, Write as _};

use stdx::time::{Clock as _, Moment, SystemClock};

/// The line of one command that makes accounts.
pub(super) struct Progress {
    /// All there is to do, in any unit; unknown where the accounts come through a pipe.
    total: Option<u64>,
    clock: Option<SystemClock>,
}

impl Progress {
    pub(super) fn start(total: Option<u64>, quiet: bool) -> Progress {
        let is_shown = !quiet && io::stderr().is_terminal();
        Progress {
            total: total.filter(|total| *total > 0),
            clock: is_shown.then(SystemClock::new),
        }
    }

    /// `done` is in the unit of the total.
    pub(super) fn show(&self, done: u64, accounts: u64) {
        let Some(clock) = &self.clock else { return };
        let seconds = clock.now().saturating_since(Moment::ZERO).as_secs_f64();
        eprint!("\r{}  ", line(done, self.total, accounts, seconds));
        // Progress that cannot be shown is no reason to stop.
        let _ = io::stderr().flush();
    }

    pub(super) fn end(&self) {
        if self.clock.is_some() {
            eprintln!();
        }
    }
}

fn line(done: u64, total: Option<u64>, accounts: u64, seconds: f64) -> String {
    let seconds = seconds.max(0.001);
    let rate = accounts as f64 / seconds;
    let Some(total) = total else {
        return format!("{accounts} accounts, {rate:.0}/s");
    };
    let share = (done as f64 / total as f64).min(1.0);
    let left = if done > 0 {
        format!("{:.0} s left", seconds / share - seconds)
    } else {
        "-".to_owned()
    };
    let bar = "#".repeat((share * 25.0) as usize);
    let percent = share * 100.0;
    format!("[{bar:<25}] {percent:>3.0} %  {accounts} accounts, {rate:.0}/s, {left}")
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_line_says_how_far_it_is_and_how_long_it_takes() {
        assert_eq!(
            line(50, Some(200), 1_000, 10.0),
            "[######                   ]  25 %  1000 accounts, 100/s, 30 s left"
        );
        assert_eq!(
            line(200, Some(200), 4_000, 40.0),
            "[#########################] 100 %  4000 accounts, 100/s, 0 s left"
        );
        assert_eq!(
            line(0, Some(200), 0, 0.0),
            "[                         ]   0 %  0 accounts, 0/s, -"
        );
        assert_eq!(line(7_000, None, 50, 2.0), "50 accounts, 25/s");
    }
}
