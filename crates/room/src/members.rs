//! Delivery to members who are not in the room, if its owner wants it: to whom, and who is new
//! among them. What they are given is the room's log; their homes read it (docs/rooms.md).

use std::collections::BTreeSet;

use xmpp::addr;

use crate::affiliation::Affiliation;
use crate::record::Record;
use crate::room::{Effect, Room};
use crate::state::State;

/// Who is delivered to before a change.
pub(crate) enum Before {
    /// The change concerns nobody.
    Nothing,
    /// It concerns these addresses only: whether they are delivered to.
    These(Vec<(String, bool)>),
    /// It may concern everybody: those who are delivered to.
    All(BTreeSet<String>),
}

impl State {
    /// Whether what is said goes to members who are not there. Who would have to say a password has
    /// not said it.
    pub fn delivers(&self) -> bool {
        self.config.delivers_to_members && self.config.is_persistent && !self.is_locked
    }

    /// Whether an account is delivered to as a member.
    pub fn delivers_to(&self, bare: &str) -> bool {
        self.delivers()
            && addr::split(bare).node.is_some()
            && self.affiliation(bare) >= Affiliation::Member
            && self.may_follow(bare)
    }

    /// All who are.
    pub fn members(&self) -> impl Iterator<Item = String> {
        let of = |affiliation| self.list(affiliation).map(|one| one.address);
        let all = [Affiliation::Member, Affiliation::Admin, Affiliation::Owner];
        let all = all.into_iter().flat_map(of);
        all.filter(|address| self.delivers_to(address))
    }
}

impl Room {
    /// Members who are delivered to and who are not there.
    pub fn absent_members(&self) -> Vec<String> {
        let Some(state) = self.state.as_ref().filter(|state| state.delivers()) else {
            return Vec::new();
        };
        let occupants = self.occupants.iter();
        let present: BTreeSet<&str> = occupants.map(|(_, occupant)| occupant.bare()).collect();
        let all = state.members();
        all.filter(|bare| !present.contains(bare.as_str()))
            .collect()
    }

    pub(crate) fn members_before(&self, records: &[Record]) -> Before {
        let state = self.state.as_ref();
        let mut these = Vec::new();
        for record in records {
            match record {
                Record::Affiliated(new) => {
                    let is_member = state.is_some_and(|state| state.delivers_to(&new.address));
                    these.push((new.address.clone(), is_member));
                }
                Record::Created { .. }
                | Record::Configured(_)
                | Record::Unlocked
                | Record::Destroyed => {
                    return Before::All(state.into_iter().flat_map(State::members).collect());
                }
                _ => {}
            }
        }
        match these.is_empty() {
            true => Before::Nothing,
            false => Before::These(these),
        }
    }

    pub(crate) fn members_after(&mut self, before: Before) {
        let Some(state) = &self.state else { return };
        let new: Vec<String> = match before {
            Before::Nothing => return,
            Before::These(all) => {
                let all = all.into_iter();
                let new = all.filter(|(bare, was)| !was && state.delivers_to(bare));
                new.map(|(bare, _)| bare).collect()
            }
            Before::All(before) => {
                let all = state.members();
                all.filter(|bare| !before.contains(bare)).collect()
            }
        };
        if !new.is_empty() {
            self.effects.push(Effect::Members(new));
        }
    }
}
