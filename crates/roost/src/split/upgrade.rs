//! One home replaces another while clients stay: checks, the hand-over, and what is done if it
//! fails. Owns that order.
//!
//! | step | if it fails |
//! |---|---|
//! | the program says its version, and is a Roost | nothing was touched |
//! | a process of it reads the configuration and says which format of the store it writes | it is ended; nothing was touched |
//! | the home lets go: everything that it wrote is at the edge, its store is closed, it has ended | it is ended |
//! | the new one opens the store and serves | it is ended, and the program of before serves again |
//! | for a moment it lives, and every shard turns | the same |

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use stdx::time::{Clock as _, Moment};

use super::keeper::{Keeper, READY_WITHIN, Why, Wish};
use super::order::Outcome;
use super::process::{Program, Stage};
use super::reins::Order;

/// For a program to say its version.
const VERSION_WITHIN: Duration = Duration::from_secs(5);

/// Bytes of that.
const VERSION_BYTES_MAX: u64 = 256;

/// For the threads of the edge to notice that there is no home.
const SETTLE: Duration = Duration::from_millis(5);

/// For the home to take what was sent to it before.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// For a home to let go.
const LEAVE_WITHIN: Duration = Duration::from_secs(20);

/// For which a home that took over is watched before the one of before is forgotten.
const WATCHED: Duration = Duration::from_secs(3);

/// Pause between two looks at a program that says its version.
const LOOK: Duration = Duration::from_millis(5);

impl Keeper {
    /// Has another program be the home.
    ///
    /// # Errors
    /// [`Why::Stopped`] alone: everything else is an outcome.
    pub(super) fn upgrade(&mut self, wish: &Wish) -> Result<Outcome, Why> {
        let before = Arc::clone(&self.program);
        let from = self.home().map(|home| home.version.clone());
        let from = from.unwrap_or_default();
        tracing::info!(binary = %wish.binary.display(), "upgrade: begins");
        let mut outcome = Outcome {
            from: from.clone(),
            to: from,
            ..Outcome::default()
        };
        let number = match self.prepare(wish) {
            Ok(number) => number,
            Err(Why::Stopped) => return Err(Why::Stopped),
            Err(Why::Failed(why)) => {
                tracing::error!(why, "upgrade: not begun");
                outcome.is_untouched = true;
                outcome.failed = Some(why);
                return Ok(self.complete(outcome));
            }
        };
        let since = self.let_go()?;
        let served = self.serve(number, wish.within);
        outcome.without_home_ms = self.passed(since);
        let stays = served.and_then(|()| self.stays(number));
        match stays {
            Ok(()) => {}
            Err(Why::Stopped) => return Err(Why::Stopped),
            Err(Why::Failed(why)) => {
                tracing::error!(why, "upgrade: undone");
                self.end(number);
                let since = self.shared.homeless_since().unwrap_or(since);
                self.pause = Duration::ZERO;
                self.bring_back(before)?;
                outcome.without_home_ms = self.passed(since);
                outcome.failed = Some(why);
            }
        }
        outcome.to = self
            .home()
            .map(|home| home.version.clone())
            .unwrap_or_default();
        let gap = outcome.without_home_ms;
        tracing::info!(from = outcome.from, to = outcome.to, gap, "upgrade: ends");
        Ok(self.complete(outcome))
    }

    fn complete(&self, mut outcome: Outcome) -> Outcome {
        outcome.connections = self.shared.connections.load(Ordering::Relaxed);
        outcome
    }

    fn passed(&self, since: Moment) -> u64 {
        let passed = self.clock.now().saturating_since(since);
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
    }

    /// Everything that can be found out while the home serves.
    fn prepare(&mut self, wish: &Wish) -> Result<u32, Why> {
        let Some(format) = self.home().map(|home| home.format) else {
            return Err(Why::Failed(
                "there is no home at the moment: try again".to_owned(),
            ));
        };
        self.ask_version(&wish.binary)?;
        let failed =
            |error: std::io::Error| Why::Failed(format!("{}: {error}", wish.binary.display()));
        let program = Arc::new(Program::open(&wish.binary).map_err(failed)?);
        let number = self.start(program)?;
        let ready = self.wait_for(number, (Stage::Ready, "start"), READY_WITHIN);
        let new = self.process(number).map_or(0, |process| process.format);
        let checked = ready.and_then(|()| check_format(format, new, wish.one_way));
        if checked.is_err() {
            self.end(number);
        }
        checked.map(|()| number)
    }

    /// Whether a program is a Roost.
    fn ask_version(&mut self, binary: &Path) -> Result<(), Why> {
        let name = binary.display();
        let mut command = Command::new(binary);
        command.arg("--version").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command
            .spawn()
            .map_err(|error| Why::Failed(format!("{name}: {error}")))?;
        let said = self.wait_for_child(&mut child);
        // One that has ended already is what we want.
        let _ = child.kill();
        let _ = child.wait();
        match said? {
            Some(said) if said.starts_with("roost ") => Ok(()),
            Some(_) => Err(Why::Failed(format!(
                "{name} is no Roost: see {name} --version"
            ))),
            None => Err(Why::Failed(format!(
                "{name} does not say its version within {VERSION_WITHIN:?}"
            ))),
        }
    }

    /// What a program says, once it has ended well.
    fn wait_for_child(&mut self, child: &mut Child) -> Result<Option<String>, Why> {
        let until = self.clock.now() + VERSION_WITHIN;
        while self.clock.now() < until {
            if let Ok(Some(status)) = child.try_wait() {
                let mut said = String::new();
                if let Some(out) = child.stdout.take().filter(|_| status.success()) {
                    // What is no text is no version.
                    let _ = out.take(VERSION_BYTES_MAX).read_to_string(&mut said);
                }
                return Ok(Some(said));
            }
            self.step(LOOK)?;
        }
        Ok(None)
    }

    /// The home lets go and ends; since when there is none.
    fn let_go(&mut self) -> Result<Moment, Why> {
        let before = self.serving.map(|(number, _)| number);
        // Who comes now waits for the next one.
        let since = self.clock.now();
        self.unseat(since);
        let Some(before) = before else {
            return Ok(since);
        };
        // Nothing is sent to it any more; it gets what has been.
        self.wait(SETTLE)?;
        self.ways.flush(FLUSH_WITHIN);
        if let Some(home) = self.process(before) {
            home.stage = Stage::Leaving;
            home.order(&Order::Leave);
        }
        match self.wait_for(before, (Stage::Ended, "let go"), LEAVE_WITHIN) {
            Ok(()) => {}
            Err(Why::Stopped) => return Err(Why::Stopped),
            Err(Why::Failed(why)) => {
                tracing::warn!(why, "the home before is ended");
                self.end(before);
            }
        }
        Ok(since)
    }

    /// Whether it lives for a moment.
    fn stays(&mut self, number: u32) -> Result<(), Why> {
        let begun = self.clock.now();
        while self.clock.now().saturating_since(begun) < WATCHED {
            self.step(LOOK)?;
            let Some(process) = self.process(number) else {
                continue;
            };
            if process.stage == Stage::Ended {
                let why = process.failed.clone().unwrap_or_default();
                return Err(Why::Failed(format!("it served, and then: {why}")));
            }
        }
        let heard = self.process(number).map(|process| process.heard);
        match heard.is_some_and(|heard| heard > begun) {
            true => Ok(()),
            false => Err(Why::Failed(format!(
                "it served, and then not every shard turned for {WATCHED:?}"
            ))),
        }
    }
}

/// Whether the home before could go on with what the new one leaves.
fn check_format(old: u32, new: u32, one_way: bool) -> Result<(), Why> {
    match new {
        _ if new < old => Err(Why::Failed(format!(
            "the store has format {old}, and it knows up to {new}: restore a backup of its version"
        ))),
        _ if new > old && !one_way => Err(Why::Failed(format!(
            "it would change the format of the store from {old} to {new}, which cannot be undone: \
             make a backup, and say --one-way"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what could not be undone is refused unless it is asked for, and what cannot be read in
    /// any case.
    #[test]
    fn formats_are_compared_before_anything_is_touched() {
        assert!(check_format(4, 4, false).is_ok());
        assert!(check_format(4, 5, false).is_err() && check_format(4, 5, true).is_ok());
        assert!(check_format(4, 3, false).is_err() && check_format(4, 3, true).is_err());
    }
}
