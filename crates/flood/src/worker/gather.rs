//! Users in a room or at a node: how they enter, what they say to all, and the copies that come.

use std::collections::HashMap;

use super::{Client, Core, Due};
use crate::gathering::{self, Place};
use crate::scenario::Enter;
use crate::session::{Stage, Stamp};
use crate::tally::Timing;

/// Sayings whose last copy is awaited at most; of further ones it is not timed.
const UNDER_WAY_MAX: usize = 100_000;
/// Different orders that a worker tells its coordinator of.
pub(super) const ORDERS_MAX: usize = 8;

/// What one user has to do with one place.
#[derive(Clone, Copy, Debug, Default)]
enum Part {
    #[default]
    Outside,
    /// Asked to be let in at a moment that was planned.
    Coming(u64),
    Inside,
}

/// One user's part in rooms and nodes.
#[derive(Default)]
pub(super) struct Gathered {
    parts: [Part; 2],
    /// Number of what he says next.
    sequence: u32,
    /// Of all copies in this phase, in the order in which they came.
    digest: u64,
}

/// A worker's part in rooms and nodes.
#[derive(Default)]
pub(super) struct Gathering {
    /// Its users in each place.
    pub(super) inside: [u32; 2],
    /// Copies that came of what was said, by who said it and which it was.
    under_way: HashMap<(u32, u32), u32>,
}

impl Client {
    /// Whether what is said in this place comes to this user.
    pub(super) fn is_inside(&self, place: Place) -> bool {
        let gathered = self.gathered.as_ref();
        gathered.is_some_and(|it| matches!(it.parts[place as usize], Part::Inside))
    }

    fn part(&mut self, place: Place) -> &mut Part {
        &mut self.gathered.get_or_insert_default().parts[place as usize]
    }

    /// What came in this phase, and in which order; `None` of users who are nowhere inside.
    pub(super) fn order(&self) -> Option<u64> {
        let is_inside = Place::ALL.iter().any(|place| self.is_inside(*place));
        let gathered = self.gathered.as_ref().filter(|_| is_inside)?;
        Some(gathered.digest)
    }

    /// A phase begins.
    pub(super) fn forget_order(&mut self) {
        if let Some(gathered) = &mut self.gathered {
            gathered.digest = 0;
        }
    }
}

impl Core {
    /// Schedules the entries of a phase: those of the first users, in the order of their numbers.
    pub(super) fn expect_entries(&mut self, clients: &mut [Client], entering: &Enter, at: u64) {
        self.gathering.under_way.clear();
        let wanted = entering.users.of(self.plan.scenario.users.count);
        let mine = wanted.saturating_sub(self.plan.first).min(self.plan.count);
        for (index, client) in (0..mine).zip(clients) {
            if client.session.stage != Stage::Online || client.is_inside(entering.place) {
                continue;
            }
            let number = f64::from(self.plan.first + index);
            let due = entering
                .rate
                .map_or(0, |rate| crate::clock::nanos(number / rate));
            self.counts.entries_started += 1;
            client.pending = true;
            self.pending += 1;
            self.set_timer(at + due, index, client.generation, Due::Enter);
        }
    }

    /// Asks to be let in, as was planned for the moment `at`.
    pub(super) fn enter(&mut self, client: &mut Client, index: u32, at: u64) {
        let Some(place) = self.phase.enter.as_ref().map(|entering| entering.place) else {
            return;
        };
        self.record(Timing::Lag, at);
        *client.part(place) = Part::Coming(at);
        let user = self.plan.first + index;
        self.write_gathering(client, |profile, out| match place {
            // Everybody else finds it there: nobody enters a node before it was made.
            Place::Node if user == 0 => gathering::write_node(profile, out),
            _ => gathering::write_entry(place, profile, user, out),
        });
        self.flush_or_end(client, index);
    }

    /// The user made the room: nobody else may enter until its defaults are accepted.
    pub(super) fn unlock(&mut self, client: &mut Client) {
        self.write_gathering(client, gathering::write_defaults);
    }

    /// The node is there.
    pub(super) fn subscribe(&mut self, client: &mut Client, index: u32) {
        let user = self.plan.first + index;
        self.write_gathering(client, |profile, out| {
            gathering::write_entry(Place::Node, profile, user, out);
        });
    }

    fn write_gathering(
        &mut self,
        client: &mut Client,
        write: impl FnOnce(&crate::session::Profile, &mut Vec<u8>),
    ) {
        let mut stanza = std::mem::take(&mut self.scratch);
        stanza.clear();
        write(&self.profile, &mut stanza);
        client.session.send(&stanza, &mut self.out);
        self.scratch = stanza;
    }

    pub(super) fn entered(&mut self, client: &mut Client, place: Place) {
        let part = client.part(place);
        let Part::Coming(at) = *part else { return };
        *part = Part::Inside;
        self.gathering.inside[place as usize] += 1;
        self.counts.entries_ok += 1;
        self.last_ready = self.now;
        self.record(Timing::Entry, at);
        self.resolve(client);
    }

    /// An entry, or what was said inside, was refused.
    pub(super) fn refused(&mut self, client: &mut Client, place: Place, condition: &[u8]) {
        let condition = String::from_utf8_lossy(condition);
        let part = *client.part(place);
        match part {
            Part::Coming(_) => {
                self.reasons.add(&format!("entry: {condition}"));
                *client.part(place) = Part::Outside;
                self.entry_failed(client);
            }
            // Who says good-bye is out of the room before his stream ends.
            _ if client.session.stage != Stage::Online => {}
            _ => {
                self.reasons.add(&format!("said to all: {condition}"));
                self.counts.sayings_refused += 1;
            }
        }
    }

    fn entry_failed(&mut self, client: &mut Client) {
        self.counts.entries_failed += 1;
        self.resolve(client);
    }

    /// The session ended, and with it the user's part in everything.
    pub(super) fn scatter(&mut self, client: &mut Client) {
        if self.phase.enter.is_some() && client.pending {
            self.entry_failed(client);
        }
        for place in Place::ALL {
            self.gathering.inside[place as usize] -= u32::from(client.is_inside(place));
        }
        client.gathered = None;
    }

    /// Appends one saying to the output; false if the user is not inside.
    pub(super) fn say_to_all(&mut self, client: &mut Client, at: u64, user: u32) -> bool {
        let Some(messages) = &self.phase.messages else {
            return false;
        };
        let [from, upto] = messages.body_bytes;
        let place = messages.peer.place();
        let Some(place) = place.filter(|place| client.is_inside(*place)) else {
            self.counts.messages_skipped += 1;
            return false;
        };
        let gathered = client.gathered.get_or_insert_default();
        let stamp = Stamp {
            sender: user,
            sequence: gathered.sequence,
            at,
            pair: false,
            delayed: false,
        };
        gathered.sequence += 1;
        let length = self.rng.u32(from..=upto);
        self.write_gathering(client, |profile, out| {
            gathering::write_saying(place, profile, stamp, length, out);
        });
        self.counts.sayings_sent += 1;
        self.record(Timing::Lag, at);
        true
    }

    pub(super) fn copy(&mut self, client: &mut Client, place: Place, stamp: Stamp) {
        self.counts.copies_received += 1;
        self.record(Timing::Copy, stamp.at);
        let gathered = client.gathered.get_or_insert_default();
        gathered.digest = fold(gathered.digest, stamp);
        let key = (stamp.sender, stamp.sequence);
        let under_way = &mut self.gathering.under_way;
        if under_way.len() >= UNDER_WAY_MAX && !under_way.contains_key(&key) {
            return;
        }
        let came = under_way.entry(key).or_default();
        *came += 1;
        if *came >= self.gathering.inside[place as usize] {
            under_way.remove(&key);
            self.record(Timing::LastCopy, stamp.at);
        }
    }
}

/// Adds one copy to what came before: the same copies in another order give another number.
fn fold(digest: u64, stamp: Stamp) -> u64 {
    let one = u64::from(stamp.sender) << 32 | u64::from(stamp.sequence);
    let mixed = (one ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (digest.rotate_left(5) ^ mixed).wrapping_mul(0x0000_0100_0000_01b3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(stamps: &[(u32, u32)]) -> u64 {
        stamps.iter().fold(0, |digest, (sender, sequence)| {
            let stamp = Stamp {
                sender: *sender,
                sequence: *sequence,
                at: 0,
                pair: false,
                delayed: false,
            };
            fold(digest, stamp)
        })
    }

    #[test]
    fn another_order_a_lost_and_a_repeated_copy_give_another_number() {
        let right = digest(&[(1, 0), (2, 0), (1, 1)]);
        assert_eq!(right, digest(&[(1, 0), (2, 0), (1, 1)]));
        for wrong in [
            &[(2, 0), (1, 0), (1, 1)][..],
            &[(1, 0), (2, 0)],
            &[(1, 0), (2, 0), (1, 1), (1, 1)],
            &[(1, 0), (1, 0), (2, 0), (1, 1)],
        ] {
            assert_ne!(digest(wrong), right, "{wrong:?}");
        }
    }
}
