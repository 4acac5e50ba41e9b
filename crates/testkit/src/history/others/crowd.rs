//! What the crowd says, and what becomes known by what its clients, and the victim's own, hear.

use super::check::{Said, To};
use super::client::{End, Errand};
use super::seen::Event;
use super::{CLIENTS_MAX, CROWD, DOMAIN, Others, SECRET, member};
use crate::history::record::History;
use crate::history::server::Server;
use std::time::Instant;

/// Messages that are said in one session.
const MESSAGES_MAX: usize = 3;
/// Behind the secret: not the sender's actor crashes, but the recipient's.
const ON_DELIVERY: &str = "-on-delivery";
/// Logins in a row that are refused to an account that has crashed: it is quarantined. One may be
/// refused because its range moves.
const REFUSALS: usize = 3;

impl Others {
    /// The next of the crowd writes, unless it still does.
    pub(super) fn write(&mut self, server: &mut Server, history: &mut History) {
        let Some(from) = self.due.front().copied() else {
            return;
        };
        let name = member(from);
        if self.clients.len() >= CLIENTS_MAX || self.is_at_work(&name) {
            return;
        }
        self.due.pop_front();
        let first = self.facts.said.len();
        let count = 1 + self.dice.below(MESSAGES_MAX);
        let stanzas: Vec<String> = (0..count).map(|at| self.compose(from, at)).collect();
        self.sessions += 1;
        let to: Vec<&str> = self.facts.said[first..]
            .iter()
            .map(|said| said.to.name())
            .collect();
        let to = to.join(", ");
        history.note(
            "others",
            format_args!("{name} writes from b{first} to {to}"),
        );
        self.saying
            .insert(name.clone(), (first..first + count).collect());
        self.begin(name, Errand::Write(stanzas), server);
    }

    /// The next message of somebody. In a large crowd the first of everybody is for the hub.
    fn compose(&mut self, from: usize, at: usize) -> String {
        let number = self.facts.said.len();
        let is_poison = self.poisons > 0 && self.dice.chance(0.1);
        let to = match self.dice.below(8) {
            _ if self.crowd == CROWD && at == 0 => To::Hub,
            _ if is_poison => To::Victim,
            0..3 => To::Hub,
            3..6 => To::Victim,
            _ => To::Gone,
        };
        let is_poison = is_poison && to == To::Victim;
        self.poisons -= usize::from(is_poison);
        self.facts.said.push(Said {
            from,
            session: self.sessions,
            to,
            is_poison,
            is_accepted: false,
        });
        let poison = match is_poison {
            true => format!(" {SECRET}{ON_DELIVERY}"),
            false => String::new(),
        };
        format!(
            "<message type='chat' to='{}@{DOMAIN}' id='b{number}'><body>b{number}{poison}</body>\
             </message>",
            to.name()
        )
    }

    /// What a client heard becomes known.
    pub(super) fn take_in(&mut self, at: usize, now: Instant, history: &mut History) {
        let client = &mut self.clients[at];
        let (name, end) = (client.name.clone(), client.end);
        if let Some(why) = client.fault.take() {
            self.faults.push(format!("{name}: {why}"));
        }
        let accepted = client.heard.accepted;
        let saying = self.saying.get(&name).filter(|_| client.is_writer());
        for number in saying.iter().flat_map(|all| all.iter().take(accepted)) {
            self.facts.said[*number].is_accepted = true;
        }
        let is_heard = saying.is_none_or(|all| accepted >= all.len());
        if std::mem::take(&mut client.heard.has_news) {
            self.heard_at = now;
        }
        for back in client.heard.backs.drain(..) {
            history.note("others", format_args!("{name} has b{} back", back.number));
            self.facts.backs.insert(back);
        }
        let is_crash = matches!(client.errand, Errand::Crash);
        match end {
            Some(End::Done) if is_crash => {
                (self.crashes, self.refusals) = (self.crashes + 1, 0);
                self.seen.note(Event::Crashed);
                history.note("others", format_args!("{name} crashes"));
            }
            Some(End::NoLogin) if is_crash && self.crashes > 0 => {
                self.refusals += 1;
                if self.refusals == REFUSALS {
                    self.is_besieged = false;
                    self.is_set_aside = true;
                    self.seen.note(Event::Quarantined);
                    history.note("others", format_args!("{name} is quarantined"));
                }
            }
            Some(end) => {
                if matches!(client.errand, Errand::Read) {
                    self.comes_again(&name, end);
                }
                // In a large crowd everybody is to be heard.
                if self.crowd == CROWD && !is_heard {
                    self.due.extend(number_of(&name));
                }
                history.note(
                    "others",
                    format_args!("{name} goes ({end:?}, {accepted} accepted)"),
                );
            }
            None => {}
        }
    }
}

/// Which one of the crowd has this name.
fn number_of(name: &str) -> Option<usize> {
    name.strip_prefix('c')?.parse().ok()
}
