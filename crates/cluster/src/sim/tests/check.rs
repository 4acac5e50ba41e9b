//! What must hold in every schedule: at each moment, and at its end.

use std::time::Duration;

use stdx::Moment;

use super::load::{self, Fate};
use super::node::{Node, STREAMS};
use super::world::World;
use crate::journal::member::Role;
use crate::layout::StreamId;

/// Two thirds of T, by the clock that runs fastest: see [`crate::map::lease`].
const HELD_AT_LEAST: Duration = Duration::from_millis(2_000 * 100 / 105);

impl World {
    /// At no moment do two processes act for one stream.
    pub(super) fn two_homes(&mut self) {
        for stream in 0..usize::from(STREAMS) {
            let acts = |node: &Node| {
                let process = node
                    .process
                    .as_ref()
                    .filter(|_| node.paused_until <= self.now);
                process.is_some_and(|process| {
                    process.members[stream].role() == Role::Home
                        && process.keeper.may_act(node.local(self.now))
                })
            };
            if self.nodes.iter().filter(|node| acts(node)).count() > 1 {
                self.problem(format!("stream {stream} has two homes that act"));
            }
        }
    }

    /// Nobody ends a lease that its holder has just renewed, however little he hears of the map.
    pub(super) fn ended_lease(&mut self, key: &str, renewed: Option<Moment>) {
        let held = renewed.map(|renewed| self.now.saturating_since(renewed));
        if held.is_some_and(|held| held < HELD_AT_LEAST) {
            self.problem(format!(
                "the lease {key} was ended {held:?} after its renewal"
            ));
        }
    }

    /// At the end: everything went on, everything is decided, and all replicas are equal.
    pub(super) fn check(&mut self) -> Result<(), String> {
        for (at, stream) in self.streams.iter().enumerate() {
            if let Some(token) = stream.effective.out_of_order {
                return Err(format!("stream {at}: append {token} is out of order"));
            }
            self.stats.void += stream.effective.void;
        }
        let mut late = [false; STREAMS as usize];
        let late_from = self.tokens.saturating_sub(200);
        for (token, (stream, _, fate)) in &self.fates {
            let there = self.streams[*stream].effective.tokens.get(token);
            let there = there.copied().unwrap_or_default();
            let is_right = match fate {
                Fate::Accepted => there == 1,
                Fate::Failed => there == 0,
                Fate::Unknown => there <= 1,
                // What was begun at the very end has not been answered.
                Fate::Pending | Fate::InDoubt => *token > late_from,
            };
            if !is_right {
                return Err(format!(
                    "append {token} is {fate:?} and there {there} times"
                ));
            }
            late[*stream] |= *token > late_from && *fate == Fate::Accepted;
        }
        let rival = |token: &u64| *token > 1 << 40;
        if self
            .streams
            .iter()
            .any(|s| s.effective.tokens.keys().any(rival))
        {
            return Err("an append of the rival counts".to_owned());
        }
        if late.contains(&false) {
            return Err(format!("a stream does not go on: {}", self.describe()));
        }
        self.equal()
    }

    /// Who thinks what, for whoever reads of a problem.
    fn describe(&self) -> String {
        let mut text = String::new();
        for (at, stream) in self.streams.iter().enumerate() {
            let (first, last, proposed) = (stream.first, stream.len(), stream.proposed());
            text += &format!("\nstream {at}: {first} to {last}, {proposed} proposed");
            for node in &self.nodes {
                let Some(process) = &node.process else {
                    continue;
                };
                let member = &process.members[at];
                let (role, mark) = (member.role(), member.mark());
                let home = process.keeper.home(StreamId(at as u16));
                let acts = process.keeper.may_act(node.local(self.now));
                text += &format!("\n{} {role:?} {mark:?} acts {acts}: {home:?}", node.name);
            }
        }
        text
    }

    fn equal(&mut self) -> Result<(), String> {
        for stream in 0..usize::from(STREAMS) {
            let mut marks = Vec::new();
            for node in &mut self.nodes {
                let Some(process) = &mut node.process else {
                    return Err("a node is down at the end".to_owned());
                };
                let member = &mut process.members[stream];
                let missing = member.mark().seq + 1..=self.streams[stream].len();
                if missing.clone().count() > 100 {
                    return Err(format!("{} lags for ever: {missing:?}", node.name));
                }
                for seq in missing {
                    let bytes = self.streams[stream].message(seq).unwrap();
                    member.on_message(self.now, seq, &bytes, &mut process.follower);
                }
                self.stats.compared += member.replica().stats().compared;
                for range in member.replica().ranges() {
                    let right = self.streams[stream].effective.last.get(&range.index());
                    let there = load::last_in(&node.store, range.index());
                    let count = self.streams[stream].effective.counts.get(&range.index());
                    let position = process.follower.range(*range).unwrap().position;
                    if position.value() != count.copied().unwrap_or_default() {
                        return Err(format!(
                            "{} stands at {position:?}, not {count:?}",
                            node.name
                        ));
                    }
                    if there.as_ref() != right {
                        return Err(format!("{} has {there:?} instead of {right:?}", node.name));
                    }
                }
                let ranges = member.replica().ranges().iter();
                let ranges = ranges.map(|range| process.follower.range(*range).unwrap());
                marks.push((member.mark(), ranges.collect::<Vec<_>>()));
            }
            if marks.windows(2).any(|pair| pair[0] != pair[1]) {
                return Err(format!("stream {stream}: replicas differ: {marks:?}"));
            }
        }
        Ok(())
    }
}
