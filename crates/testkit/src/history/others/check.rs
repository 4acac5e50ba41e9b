//! What must hold of the messages of the others (docs/delivery.md). Pure: facts in, findings out, a
//! line each. Every rule is a function, named by what must hold.

use std::collections::{HashMap, HashSet};

/// Who is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// Is away until the end.
    Hub,
    /// Its actor crashes at some messages.
    Victim,
    /// Its account is removed and made again.
    Gone,
}

impl To {
    pub(super) const ALL: [To; 3] = [To::Hub, To::Victim, To::Gone];

    /// The local part of its address.
    pub(super) fn name(self) -> &'static str {
        match self {
            To::Hub => "hub",
            To::Victim => "victim",
            To::Gone => "gone",
        }
    }
}

/// A message of the crowd; its number is its place in [`Facts::said`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    /// Number of the sender.
    pub(super) from: usize,
    /// The session that it was said in; each sender has one after the other.
    pub(super) session: usize,
    pub(super) to: To,
    /// Its recipient's actor crashes whenever it is given this.
    pub(super) is_poison: bool,
    /// The server acknowledged it.
    pub(super) is_accepted: bool,
}

/// An error that a sender was given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Back {
    /// Of which message.
    pub(super) number: usize,
    /// Its place in the sender's log: the same error may be given to several sessions.
    pub(super) id: Option<String>,
    /// It says that the message may have been delivered all the same.
    pub(super) is_doubtful: bool,
}

/// What a recipient has at the end, by numbers of messages in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// In its archive.
    pub(super) archive: Vec<usize>,
    /// Given to the first session that was there for them, unless that lost its link.
    pub(super) given: Option<Vec<usize>>,
}

/// Everything that is known at the end.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) said: Vec<Said>,
    pub(super) backs: HashSet<Back>,
    /// In the order of [`To::ALL`].
    pub(super) kept: [Kept; 3],
    /// The account of [`To::Gone`] was to be removed at some time: what it had went with it.
    pub(super) was_removed: bool,
}

/// All that is wrong.
pub(super) fn check(facts: &Facts) -> Vec<String> {
    let mut findings = Vec::new();
    for (to, kept) in To::ALL.into_iter().zip(&facts.kept) {
        let recipient = Recipient { facts, to, kept };
        findings.extend(recipient.has_what_was_sent_to_it_once());
        findings.extend(recipient.has_it_in_the_order_of_each_sender());
        findings.extend(recipient.is_given_what_it_has());
    }
    findings.extend(accepted_messages_arrive_or_come_back(facts));
    findings.extend(messages_come_back_once_and_were_not_delivered(facts));
    findings
}

struct Recipient<'a> {
    facts: &'a Facts,
    to: To,
    kept: &'a Kept,
}

impl Recipient<'_> {
    /// What is looked at, by its name in findings.
    fn lists(&self) -> [(&'static str, &[usize]); 2] {
        let Kept { archive, given } = self.kept;
        [
            ("has", archive),
            ("was given", given.as_deref().unwrap_or_default()),
        ]
    }

    fn has_what_was_sent_to_it_once(&self) -> Vec<String> {
        let (mut found, name) = (Vec::new(), self.to.name());
        for (what, list) in self.lists() {
            let mut seen = HashSet::new();
            for number in list {
                let said = self.facts.said.get(*number);
                if said.is_none_or(|said| said.to != self.to) {
                    found.push(format!("{name} {what} b{number}, which is not for it"));
                }
                if said.is_some_and(|said| said.is_poison) {
                    found.push(format!("{name} {what} b{number}, at which it crashes"));
                }
                if !seen.insert(number) {
                    found.push(format!("{name} {what} b{number} twice"));
                }
            }
        }
        found
    }

    /// What was said in one session is in order, and behind everything that was accepted in an
    /// earlier one. What was left unanswered in an earlier one may still have been on its way.
    fn has_it_in_the_order_of_each_sender(&self) -> Vec<String> {
        let (mut found, name) = (Vec::new(), self.to.name());
        for (what, list) in self.lists() {
            let mut before: HashMap<usize, Vec<usize>> = HashMap::new();
            for number in list {
                let Some(said) = self.facts.said.get(*number) else {
                    continue;
                };
                let own = before.entry(said.from).or_default();
                let is_wrong = |later: &&usize| {
                    let in_one = self.facts.said[**later].session == said.session;
                    **later > *number && (in_one || said.is_accepted)
                };
                if let Some(later) = own.iter().find(is_wrong) {
                    found.push(format!("{name} {what} b{number} behind b{later}"));
                }
                own.push(*number);
            }
        }
        found
    }

    /// Nobody was there to take it before.
    fn is_given_what_it_has(&self) -> Vec<String> {
        let name = self.to.name();
        let all = |list: &[usize]| list.iter().copied().collect::<HashSet<_>>();
        let Some(given) = &self.kept.given else {
            return Vec::new();
        };
        let (archive, given) = (all(&self.kept.archive), all(given));
        let missed = archive.difference(&given);
        let missed = missed.map(|number| format!("{name} has b{number} and was not given it"));
        let more = given.difference(&archive);
        let more = more.map(|number| format!("{name} was given b{number} and does not have it"));
        missed.chain(more).collect()
    }
}

fn is_kept(facts: &Facts, number: usize) -> bool {
    let mut lists = facts.kept.iter().map(|kept| &kept.archive);
    lists.any(|archive| archive.contains(&number))
}

fn accepted_messages_arrive_or_come_back(facts: &Facts) -> Vec<String> {
    let came_back: HashSet<usize> = facts.backs.iter().map(|back| back.number).collect();
    let mut found = Vec::new();
    for (number, said) in facts.said.iter().enumerate() {
        let may_be_gone = said.to == To::Gone && facts.was_removed;
        let is_settled = is_kept(facts, number) || came_back.contains(&number);
        if said.is_accepted && !is_settled && !may_be_gone {
            let (from, to) = (said.from, said.to.name());
            found.push(format!(
                "b{number} (c{from} to {to}) was acknowledged, and neither arrived nor came back"
            ));
        }
    }
    found
}

fn messages_come_back_once_and_were_not_delivered(facts: &Facts) -> Vec<String> {
    let mut times: HashMap<usize, usize> = HashMap::new();
    let mut found = Vec::new();
    for back in &facts.backs {
        let number = back.number;
        *times.entry(number).or_default() += 1;
        if is_kept(facts, number) && !back.is_doubtful {
            found.push(format!("b{number} was delivered, and came back as well"));
        }
    }
    let often = times.into_iter().filter(|(_, times)| *times > 1);
    found.extend(often.map(|(number, times)| format!("b{number} came back {times} times")));
    found
}

#[cfg(test)]
mod tests;
