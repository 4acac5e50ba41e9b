//! Two processes of one name.
//!
//! Halves of a network that meet may have given one name twice. All members see both claims and
//! show the same one (`claims`). The loser's process must end, and its claim go, but only for a
//! winner that lives: a process that has ended may have had the smaller address. One node alone
//! knows whether a process lives, the one that it runs on. So the loser's keeper asks the winner's,
//! which asks the process's node, unless that is itself:
//!
//! | loser's keeper | event | then |
//! |---|---|---|
//! | has a claim that is replaced | | withdraws it |
//! | has a claim that loses | | asks, and remembers that it did |
//! | has asked | alive, and the claim still loses against that one | ends the process, withdraws |
//! | has asked | anything else, or nothing | looks again after a while |
//!
//! Until the answer is there both claims stay. If the winner is withdrawn meanwhile, the loser has
//! never been gone. If the two claims are for one process, the loser is withdrawn and nothing ends.

use std::collections::BTreeMap;

use super::asks::{Then, Told};
use super::claims::Stamp;
use super::{Effect, Machine, Wake};
use crate::command::Note;
use crate::types::{Name, NodeName, Pid, Reason};
use crate::view::Space;
use crate::wire::{Frame, Question, Tell};

/// A claim of this node that loses, and the one that wins.
#[derive(Debug)]
pub(crate) struct Contest {
    space: Space,
    name: Name,
    /// The number of the claim that loses.
    number: u64,
    winner: Stamp,
}

impl Machine {
    // ---- The loser's keeper --------------------------------------------------------------------

    /// The claims for a name have changed: looks whether this node's loses now.
    pub(super) fn contend(&mut self, space: &Space, name: &Name) {
        let Some((names, own)) = self.names(space).zip(self.own_claim(space, name)) else {
            return;
        };
        let number = own.stamp.number;
        if names.is_replaced(name, &own.stamp) {
            return self.withdraw(space, name, &BTreeMap::new());
        }
        let winner = names.get(name).map(|winner| &winner.stamp);
        let Some(winner) = winner.filter(|winner| winner.keeper != self.me).cloned() else {
            return;
        };
        if own.is_contested {
            return;
        }
        self.set_contested(space, name, true);
        let contest = Contest {
            space: space.clone(),
            name: Name::clone(name),
            number,
            winner: winner.clone(),
        };
        #[cfg(test)]
        if self.has(crate::model::bugs::Bug::DeadWin) {
            return self.lose(&contest);
        }
        let question = Question::Confirm {
            space: space.clone(),
            name: Name::clone(name),
            number: winner.number,
        };
        let (after, then) = (self.limits.ask, Then::Contest(Box::new(contest)));
        self.ask(&winner.keeper, question, after, then);
    }

    fn set_contested(&mut self, space: &Space, name: &str, is_contested: bool) {
        let me = self.me.clone();
        let names = self.names_mut(space);
        if let Some(own) = names.and_then(|names| names.claim_of_mut(name, &me)) {
            own.is_contested = is_contested;
        }
    }

    /// The winner's keeper has answered, or has not.
    pub(super) fn contest_told(&mut self, contest: &Contest, told: &Told) {
        let Contest {
            space,
            name,
            number,
            winner,
        } = contest;
        let Some((names, own)) = self.names(space).zip(self.own_claim(space, name)) else {
            return;
        };
        if own.stamp.number != *number {
            return;
        }
        let other = names.claim_of(name, &winner.keeper);
        let other = other.filter(|other| other.stamp == *winner);
        let still_loses = other.is_some_and(|other| other.wins_against(own));
        if still_loses && matches!(told, Told::Answer(Tell::Done(true))) {
            return self.lose(contest);
        }
        let wake = Wake::Contest(space.clone(), Name::clone(name), *number);
        self.wake_after(self.limits.redial_min, wake);
    }

    pub(super) fn contest_due(&mut self, space: &Space, name: &Name, number: u64) {
        let own = self.own_claim(space, name);
        if own.is_some_and(|own| own.stamp.number == number) {
            self.set_contested(space, name, false);
            self.contend(space, name);
        }
    }

    fn lose(&mut self, contest: &Contest) {
        let (space, name) = (&contest.space, &contest.name);
        let Some((names, own)) = self.names(space).zip(self.own_claim(space, name)) else {
            return;
        };
        let winner = names.claim_of(name, &contest.winner.keeper);
        let loser = own.pid.clone();
        let is_clash = winner.is_some_and(|winner| winner.pid != loser);
        self.withdraw(space, name, &BTreeMap::new());
        if is_clash {
            self.note(Note::Clash(Name::clone(name), loser.clone()));
            self.end_loser(&loser);
        }
    }

    fn end_loser(&mut self, loser: &Pid) {
        if self.is_alive(loser) {
            let (id, reason) = (loser.id, Reason::NameClash);
            self.effects.push(Effect::Kill { id, reason });
        } else if !self.is_mine(loser) {
            let frame = Frame::Exit {
                from: 0,
                to: loser.id,
                reason: Reason::Killed,
                told: true,
            };
            let _ = self.transmit_to(loser, frame);
        }
    }

    // ---- The winner's keeper, and the node of its process --------------------------------------

    /// Another keeper asks whether a claim of this node stands, and its process lives.
    pub(super) fn confirm(
        &mut self,
        node: &NodeName,
        ask: u64,
        space: &Space,
        (name, number): (&str, u64),
    ) {
        let own = self.own_claim(space, name);
        let pid = own
            .filter(|own| own.stamp.number == number)
            .map(|own| own.pid.clone());
        match pid {
            Some(pid) if !self.is_mine(&pid) => {
                // In less time than whoever asks gives this node.
                let after = self.limits.ask / 2;
                let then = Then::Confirm(node.clone(), ask);
                self.ask_life(
                    &pid.node,
                    Some(pid.life),
                    Question::Alive(pid.id),
                    after,
                    then,
                );
            }
            pid => {
                let is_alive = pid.is_some_and(|pid| self.is_alive(&pid));
                self.confirmed(node, ask, is_alive);
            }
        }
    }

    pub(super) fn confirmed(&mut self, node: &NodeName, ask: u64, is_alive: bool) {
        let answer = Tell::Done(is_alive);
        self.tell(node, &Frame::Tell { ask, answer });
    }
}
