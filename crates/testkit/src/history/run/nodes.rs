//! Plays a seed over the nodes of a cluster: clients chat, and by the clock of the plan something
//! befalls the nodes, the engine or the ways between them. Owns those moments, and that everything
//! is well again before the end is looked at.

use super::super::nodes::Trouble;
use super::{Rig, SETTLE_TIMEOUT};
use crate::history::link::Cut;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Milliseconds between two steps, at most.
const PACE_MS: usize = 80;
/// How long is played on when the last trouble is over.
const AFTER: Duration = Duration::from_secs(2);
/// How long a cluster may take to get well, on a machine with other work.
const WELL_WITHIN: Duration = Duration::from_secs(90);
/// How long everything may take to settle then.
const SETTLE_WITHIN: Duration = Duration::from_secs(90);
/// A client that waits for so long without a word gives its link up, and tries another node.
const PATIENCE_MS: std::ops::Range<usize> = 1_500..5_000;
/// Behind a trouble, how long a user may still wait because of it.
const ECHO: Duration = Duration::from_secs(10);

impl Rig {
    /// Carries the plan out, until the cluster is well again.
    pub(super) fn run_over_nodes(&mut self) -> Result<(), String> {
        // Whatever is refused may be refused: for want of a quorum, or of a home.
        self.is_disk_bad = true;
        self.history.was_disk_bad = true;
        let mut coming: VecDeque<Trouble> = self.plan.troubles.iter().flatten().copied().collect();
        let mut going: Vec<Trouble> = Vec::new();
        let over = coming.iter().map(Trouble::end).max().unwrap_or_default() + AFTER;
        let started = Instant::now();
        for step in 0.. {
            let now = started.elapsed();
            if now > over {
                break;
            }
            self.step = step;
            self.befall(now, &mut coming, &mut going)?;
            self.leave_the_silent();
            self.reconnect();
            self.enter();
            let next = self.dice.step(&self.plan);
            self.carry_out(next)?;
            let wait = Duration::from_millis(self.dice.below(PACE_MS) as u64);
            self.pump(wait)?;
        }
        self.befall(Duration::MAX, &mut coming, &mut going)?;
        self.await_health()
    }

    /// Begins and ends what is due.
    fn befall(
        &mut self,
        now: Duration,
        coming: &mut VecDeque<Trouble>,
        going: &mut Vec<Trouble>,
    ) -> Result<(), String> {
        while let Some(trouble) = coming.pop_front_if(|trouble| trouble.at <= now) {
            self.history.crashes += 1;
            self.history.kills += 1;
            let (what, lasts) = (trouble.what, trouble.lasts);
            self.history
                .note("**", format_args!("{what:?} for {} ms", lasts.as_millis()));
            if let Some(cluster) = self.server.cluster() {
                cluster.begin(what)?;
            }
            going.push(trouble);
        }
        let (over, left) = going.drain(..).partition(|trouble| trouble.end() <= now);
        *going = left;
        let over: Vec<Trouble> = over;
        for Trouble { what, .. } in over {
            self.history.note("**", format_args!("{what:?} is over"));
            if let Some(cluster) = self.server.cluster() {
                cluster.end(what)?;
            }
        }
        Ok(())
    }

    /// Devices that hear nothing drop their links, as apps do whose pings are not answered.
    pub(super) fn leave_the_silent(&mut self) {
        for device in 0..self.devices.len() {
            let patience = PATIENCE_MS.start + device * 331 % PATIENCE_MS.len();
            let patience = Duration::from_millis(patience as u64);
            if self.devices[device].hears_nothing(patience) {
                self.with(device, |device, shared| {
                    shared.history.note(device.name(), "hears nothing");
                    device.cut(Cut::Quiet, shared);
                });
            }
        }
    }

    /// Nodes that ended by themselves are started, as by a supervisor.
    pub(super) fn tend(&mut self) -> Result<(), String> {
        if let Some(cluster) = self.server.cluster() {
            for note in cluster.tend()? {
                self.history.note("nodes", note);
            }
        }
        Ok(())
    }

    fn await_health(&mut self) -> Result<(), String> {
        self.history.note("--", "everything is over");
        if let Some(cluster) = self.server.cluster() {
            cluster.forget_health();
        }
        let deadline = self.now() + WELL_WITHIN;
        loop {
            let illness = self.server.cluster().and_then(|cluster| cluster.illness());
            let Some(illness) = illness else {
                self.history.note("--", "the cluster is well");
                return Ok(());
            };
            if self.now() > deadline {
                return Err(format!("the cluster does not get well: {illness}"));
            }
            self.leave_the_silent();
            self.reconnect();
            self.pump(Duration::from_millis(100))?;
        }
    }

    /// How long everything may take to settle.
    pub(super) fn settle_timeout(&self) -> Duration {
        match self.plan.troubles {
            Some(_) => SETTLE_WITHIN,
            None => SETTLE_TIMEOUT,
        }
    }

    /// When homes began, as far as it has come.
    pub(super) fn look_at_homes(&mut self) {
        if let Some(cluster) = self.server.cluster() {
            self.history.have_begun(&cluster.homes_began());
        }
    }

    /// What the nodes themselves show at the end.
    pub(super) fn check_nodes(&mut self) -> Vec<String> {
        let Some(cluster) = self.server.cluster() else {
            return Vec::new();
        };
        cluster.check()
    }

    /// For each trouble that came alone, and each user who was heard before and behind it: the
    /// longest time around it in which nothing of his was accepted.
    pub(super) fn gaps(&self) -> Vec<(&'static str, Duration)> {
        let troubles: Vec<Trouble> = self.plan.troubles.iter().flatten().copied().collect();
        let is_alone = |one: &&Trouble| {
            let near = |other: &&Trouble| other.at < one.end() + ECHO && one.at < other.end();
            troubles.iter().filter(near).count() == 1
        };
        let mut gaps = Vec::new();
        for trouble in troubles.iter().filter(is_alone) {
            for user in 0..self.plan.users {
                let of_user = self
                    .history
                    .accepted_at
                    .iter()
                    .filter(|(of, _)| *of == user);
                let times: Vec<Duration> = of_user.map(|(_, at)| *at).collect();
                let around = times
                    .windows(2)
                    .filter(|pair| pair[1] > trouble.at && pair[0] < trouble.end() + ECHO);
                let longest = around.map(|pair| pair[1] - pair[0]).max();
                gaps.extend(longest.map(|gap| (trouble.what.kind(), gap)));
            }
        }
        gaps
    }
}
