//! Whether a history fits the promises of docs/delivery.md. Pure: facts in, findings out, a line
//! each. Every rule is a function, named by what must hold.

mod rooms;

use super::record::{Chain, Delivery, Entry, Fate, History, Life, Message, Way};
use std::collections::{BTreeSet, HashMap, HashSet};

/// How a device ended.
pub(super) struct Final<'a> {
    pub(super) user: usize,
    pub(super) is_managed: bool,
    pub(super) name: String,
    /// The session in force at the end, which has settled.
    pub(super) chain: Option<usize>,
    /// Messages that it has seen.
    pub(super) known: &'a HashSet<usize>,
    /// If it is in the room: who it was told is there.
    pub(super) there: Option<&'a BTreeSet<String>>,
}

/// What a server is held to beyond the standards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The ids of a log grow, and what is delivered comes in their order.
    pub(super) has_ordered_ids: bool,
    /// Messages may be refused, and come back.
    pub(super) may_refuse: bool,
    /// The user who is a member of the room and never enters it.
    pub(super) absent: Option<usize>,
    /// Ranges move between shards; their accounts are read anew there.
    pub(super) ranges_move: bool,
}

/// Findings per rule that are worth reading.
const FINDINGS_MAX: usize = 10;

/// All that is wrong.
pub(super) fn check(history: &History, finals: &[Final<'_>], rules: Rules) -> Vec<String> {
    let view = View::new(history, finals, rules);
    let mut findings: Vec<String> = history.violations.clone();
    for rule in [
        archives_hold_what_was_sent_once,
        accepted_messages_are_in_both_archives,
        archives_are_in_order,
        ids_grow,
        delivered_messages_are_archived,
        a_session_gets_a_message_once,
        a_session_gets_messages_in_order,
        a_session_misses_nothing,
        confirmed_deliveries_do_not_come_again,
        catching_up_shows_what_was_missed_in_order_once,
        devices_know_everything,
        counters_agree,
        rooms::what_was_said_is_in_the_room_once,
        rooms::occupants_hear_all_of_it_in_one_order,
        rooms::members_who_are_away_are_given_all_of_it,
        rooms::everybody_is_told_who_is_there,
    ] {
        let mut found = rule(&view);
        if found.len() > FINDINGS_MAX {
            let rest = found.len() - FINDINGS_MAX;
            found.truncate(FINDINGS_MAX);
            found.push(format!("… and {rest} more of this kind"));
        }
        findings.extend(found);
    }
    findings
}

struct View<'a> {
    history: &'a History,
    finals: &'a [Final<'a>],
    rules: Rules,
    /// By user: where in the archive each message is.
    places: Vec<HashMap<usize, usize>>,
}

impl<'a> View<'a> {
    fn new(history: &'a History, finals: &'a [Final<'a>], rules: Rules) -> Self {
        let places = history.archives.iter().map(|archive| {
            let entries = archive.iter().enumerate();
            entries
                .filter_map(|(place, entry)| Some((entry.message?, place)))
                .collect()
        });
        Self {
            history,
            finals,
            rules,
            places: places.collect(),
        }
    }

    fn message(&self, number: usize) -> Option<&'a Message> {
        self.history.messages.get(number)
    }

    fn is_archived(&self, user: usize, message: usize) -> bool {
        self.places[user].contains_key(&message)
    }

    fn archives(&self) -> impl Iterator<Item = (usize, &'a Vec<Entry>)> {
        self.history.archives.iter().enumerate()
    }

    fn chains(&self) -> impl Iterator<Item = (usize, &'a Chain)> {
        self.history.chains.iter().enumerate()
    }

    fn name(&self, chain: &Chain) -> &str {
        &self.finals[chain.device].name
    }

    /// The number in the resource of a session's device.
    fn resource(&self, chain: &Chain) -> Option<usize> {
        let resource = self.name(chain).rsplit("/d").next();
        resource.and_then(|number| number.parse().ok())
    }
}

fn archives_hold_what_was_sent_once(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (user, archive) in view.archives() {
        let mut messages = HashSet::new();
        let mut ids = HashSet::new();
        for Entry { id, message, text } in archive {
            if !ids.insert(id) {
                found.push(format!("the archive of u{user} has the id {id} twice"));
            }
            let sent = message.and_then(|number| view.message(number));
            match (sent, message) {
                (Some(sent), Some(number)) if sent.from == user || sent.to == user => {
                    if !messages.insert(number) {
                        found.push(format!("the archive of u{user} has m{number} twice ({id})"));
                    }
                }
                _ => found.push(format!("the archive of u{user} has {id}, not sent: {text}")),
            }
        }
    }
    found
}

fn accepted_messages_are_in_both_archives(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (number, message) in view.history.messages.iter().enumerate() {
        let is_sent = view.is_archived(message.from, number);
        let is_received = view.is_archived(message.to, number);
        let (from, to) = (message.from, message.to);
        let wrong = match (message.fate, is_sent, is_received) {
            (Fate::Accepted, false, false) => "was acknowledged and is in no archive",
            (Fate::Accepted, true, false) => "was acknowledged and never reached its recipient",
            (_, false, true) => "reached its recipient and is not in its sender's archive",
            (Fate::Unknown, true, false) => "is in its sender's archive and not in the recipient's",
            _ => continue,
        };
        // Its error may have been written to a client that acknowledges nothing, and lost there.
        let mut own = view.finals.iter().filter(|end| end.user == from);
        if view.rules.may_refuse && !is_received && own.any(|end| !end.is_managed) {
            continue;
        }
        found.push(format!("m{number} (u{from} to u{to}) {wrong}"));
    }
    found
}

fn archives_are_in_order(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (user, archive) in view.archives() {
        // By sending device and recipient: the latest number.
        let mut latest: HashMap<(usize, usize), usize> = HashMap::new();
        for number in archive.iter().filter_map(|entry| entry.message) {
            let Some(message) = view.message(number) else {
                continue;
            };
            if message.was_refused {
                continue;
            }
            let last = latest.entry((message.device, message.to)).or_insert(number);
            if *last > number {
                found.push(format!(
                    "the archive of u{user} has m{number} behind m{last}"
                ));
            }
            *last = number.max(*last);
        }
    }
    // Between two users, both archives tell the same story.
    let told = |teller: usize, from: usize, to: usize| -> Vec<usize> {
        let is_of_both = |number: &usize| {
            view.message(*number)
                .is_some_and(|m| m.from == from && m.to == to)
                && view.is_archived(from, *number)
                && view.is_archived(to, *number)
        };
        let archive = &view.history.archives[teller];
        let numbers = archive.iter().filter_map(|entry| entry.message);
        numbers.filter(is_of_both).collect()
    };
    let users = view.history.archives.len();
    for (from, to) in (0..users).flat_map(|from| (0..users).map(move |to| (from, to))) {
        let (sent, received) = (told(from, from, to), told(to, from, to));
        if let Some(at) = (0..sent.len().min(received.len())).find(|at| sent[*at] != received[*at])
        {
            found.push(format!(
                "from u{from} to u{to}, m{} was sent where m{} was received",
                sent[at], received[at]
            ));
        }
    }
    found
}

fn ids_grow(view: &View<'_>) -> Vec<String> {
    if !view.rules.has_ordered_ids {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (user, archive) in view.archives() {
        for pair in archive.windows(2).filter(|pair| pair[0].id >= pair[1].id) {
            let (a, b) = (&pair[0].id, &pair[1].id);
            found.push(format!("the archive of u{user} has {b} behind {a}"));
        }
        for entry in archive {
            let Some(message) = entry.message.and_then(|number| view.message(number)) else {
                continue;
            };
            let Some([from, to]) = &message.floors else {
                continue;
            };
            let floor = if message.from == user { from } else { to };
            if let Some(floor) = floor.as_ref().filter(|floor| **floor >= entry.id) {
                let (text, id) = (&entry.text, &entry.id);
                found.push(format!(
                    "{text} got {id} of u{user}, though {floor} was given out before it was sent"
                ));
            }
        }
    }
    found
}

fn delivered_messages_are_archived(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (number, chain) in view.chains() {
        let user = view.finals[chain.device].user;
        let is_lost = |message: &usize| !view.is_archived(user, *message);
        let lost = chain.deliveries.iter().map(|delivery| delivery.message);
        for message in lost.filter(is_lost) {
            let name = view.name(chain);
            found.push(format!(
                "{name} got m{message} in session {number}, and the archive does not have it"
            ));
        }
    }
    found
}

fn a_session_gets_a_message_once(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (number, chain) in view.chains() {
        let mut seen = HashMap::new();
        for delivery in &chain.deliveries {
            if let Some(before) = seen.insert(delivery.message, delivery.way) {
                found.push(format!(
                    "{} got m{} twice in session {number} ({before:?}, then {:?})",
                    view.name(chain),
                    delivery.message,
                    delivery.way
                ));
            }
        }
    }
    found
}

fn a_session_gets_messages_in_order(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (number, chain) in view.chains() {
        let name = view.name(chain);
        let is_regular = |d: &&Delivery| {
            let was_early = d.is_early || was_early(view, chain, d) || was_hidden(view, chain, d);
            !was_early && !was_owed_to_another(view, chain.device, d)
        };
        let regular = || chain.deliveries.iter().filter(is_regular);
        // Copies come to a client without stream management at once, and in front of what waits for
        // its turn (docs/delivery.md): they have an order of their own.
        let is_apart = |d: &Delivery| !chain.is_managed && d.way == Way::Carbon;
        // By sender and recipient: the highest id so far. Other messages have no order.
        let mut highest: HashMap<(usize, usize, bool), &String> = HashMap::new();
        for delivery in regular().filter(|_| view.rules.has_ordered_ids) {
            let sent = view.message(delivery.message);
            let (Some(sent), Some(id)) = (sent, &delivery.id) else {
                continue;
            };
            let last = highest
                .entry((sent.from, sent.to, is_apart(delivery)))
                .or_insert(id);
            if *last > id {
                found.push(format!("{name} got {id} behind {last} in session {number}"));
            }
            *last = id.max(*last);
        }
        let mut latest: HashMap<(usize, usize, bool), usize> = HashMap::new();
        for delivery in regular() {
            let message = delivery.message;
            let Some(sent) = view.message(message).filter(|m| !m.was_refused) else {
                continue;
            };
            let last = latest
                .entry((sent.device, sent.to, is_apart(delivery)))
                .or_insert(message);
            if *last > message {
                found.push(format!(
                    "{name} got m{message} behind m{last} in session {number}"
                ));
            }
            *last = message.max(*last);
        }
    }
    found
}

/// Whether a message that comes late was the session's own before that was there for everybody:
/// addressed to it, or a copy for it. It was in its queue, or left to the log for it, when what
/// waited for the account began to be its own too, and comes in front of that (docs/delivery.md).
/// What was sent later has no such excuse.
fn was_early(view: &View<'_>, chain: &Chain, delivery: &Delivery) -> bool {
    let Some(message) = view.message(delivery.message).filter(|_| delivery.is_late) else {
        return false;
    };
    let is_own = delivery.way == Way::Carbon
        || message.to_device.is_some() && message.to_device == view.resource(chain);
    is_own && chain.shown_at.is_none_or(|shown| message.sent_at <= shown)
}

/// Whether a message was addressed to the session while its presence may have been lost with a
/// change that failed: it was there for nobody else then, and what was for everybody waited.
fn was_hidden(view: &View<'_>, chain: &Chain, delivery: &Delivery) -> bool {
    let message = view.message(delivery.message);
    let to = message.and_then(|message| message.to_device);
    view.history.was_disk_bad && to.is_some() && to == view.resource(chain)
}

/// Whether another session of the user was owed the message and ended since: what it had not
/// acknowledged waits again, and comes to others behind newer messages, with the time at which it
/// was accepted.
fn was_owed_to_another(view: &View<'_>, device: usize, delivery: &Delivery) -> bool {
    let Some(message) = view.message(delivery.message).filter(|_| delivery.is_late) else {
        return false;
    };
    let user = view.finals[device].user;
    let is_of_user = |chain: &&Chain| view.finals[chain.device].user == user;
    let mut chains = view.history.chains.iter().filter(is_of_user);
    chains.any(|chain| {
        // Its device has given it up; for the server it goes on until it is replaced.
        let is_over = chain.ended_at.is_some_and(|ended| ended <= delivery.at);
        is_over
            && chain
                .replaced_at
                .is_none_or(|replaced| message.sent_at <= replaced)
    })
}

fn a_session_misses_nothing(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (number, chain) in view.chains().filter(|(_, chain)| chain.is_managed) {
        let Some(from) = &chain.live_from else {
            continue;
        };
        let end = &view.finals[chain.device];
        let archive = &view.history.archives[end.user];
        let got: HashSet<usize> = chain.deliveries.iter().map(|d| d.message).collect();
        let place = |entry: &Entry| entry.message.is_some_and(|message| got.contains(&message));
        let last = if end.chain == Some(number) {
            archive.len()
        } else {
            archive.iter().rposition(place).map_or(0, |at| at + 1)
        };
        let first = archive.iter().rposition(|entry| entry.id == *from);
        for entry in &archive[first.map_or(0, |at| at + 1).min(last)..last] {
            let Some(message) = entry.message else {
                continue;
            };
            if is_owed(view, chain, end.user, message) && !got.contains(&message) {
                let name = view.name(chain);
                found.push(format!("{name} never got m{message} in session {number}"));
            }
        }
    }
    found
}

/// Whether a session that is there must get a message of its user's log.
fn is_owed(view: &View<'_>, chain: &Chain, user: usize, message: usize) -> bool {
    let Some(sent) = view.message(message).filter(|m| !m.was_refused) else {
        return false;
    };
    let resource = view.resource(chain);
    if sent.to == user {
        match sent.to_device {
            None => return true,
            device if device == resource => return true,
            Some(_) => {}
        }
    }
    chain.has_carbons && sent.device != chain.device
}

fn confirmed_deliveries_do_not_come_again(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    // By device and message: when the acknowledgement of a delivery was confirmed.
    let mut confirmed: HashMap<(usize, usize), Life> = HashMap::new();
    for (number, chain) in view.chains() {
        for delivery in &chain.deliveries {
            let key = (chain.device, delivery.message);
            let before = confirmed.get(&key);
            let may_be_forgotten = view.rules.ranges_move && is_copy(view, chain, delivery.message);
            let is_known = |before: &Life| {
                view.history.is_same_life(*before, delivery.life) && !may_be_forgotten
            };
            if before.is_some_and(is_known) {
                let (name, message) = (view.name(chain), delivery.message);
                found.push(format!(
                    "{name} got m{message} again in session {number} after it acknowledged it"
                ));
            }
        }
        for delivery in &chain.deliveries[..chain.confirmed.min(chain.deliveries.len())] {
            let key = (chain.device, delivery.message);
            confirmed.insert(key, chain.confirmed_at);
        }
    }
    found
}

/// Whether a message is for the full address of another device of the same user. Once that one's
/// session ends it is for all of them; an account that was read anew meanwhile, as by a move, does
/// not know which sessions that had ended before had a copy.
fn is_copy(view: &View<'_>, chain: &Chain, message: usize) -> bool {
    let user = view.finals[chain.device].user;
    let sent = view.message(message).filter(|sent| sent.to == user);
    let to_device = sent.and_then(|sent| sent.to_device);
    to_device.is_some_and(|device| Some(device) != view.resource(chain))
}

fn catching_up_shows_what_was_missed_in_order_once(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for catch_up in &view.history.catch_ups {
        let end = &view.finals[catch_up.device];
        let name = &end.name;
        let mut seen = HashSet::new();
        for entry in &catch_up.entries {
            if !seen.insert(&entry.id) {
                found.push(format!("{name} was shown {} twice", entry.id));
            }
        }
        // What it was shown is what the archive has there at the end, without a gap.
        let archive = &view.history.archives[end.user];
        let place = |id: &String| archive.iter().position(|entry| entry.id == *id);
        let first = match &catch_up.after {
            None => 0,
            Some(after) => match place(after) {
                Some(at) => at + 1,
                None => {
                    found.push(format!("{name} has seen {after}, which is in no archive"));
                    continue;
                }
            },
        };
        let expected = archive[first..].iter().map(|entry| &entry.id);
        let shown = catch_up.entries.iter().map(|entry| &entry.id);
        if let Some((shown, expected)) = shown.zip(expected).find(|(a, b)| a != b) {
            found.push(format!(
                "{name} was shown {shown} where {expected} was next after {:?}",
                catch_up.after
            ));
        }
    }
    found
}

fn devices_know_everything(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (device, end) in view.finals.iter().enumerate() {
        for message in view.history.archives[end.user]
            .iter()
            .filter_map(|entry| entry.message)
        {
            // One that its sender was told to send again may be in the archive alone.
            let is_free = |m: &Message| m.device == device || m.was_refused;
            if !view.message(message).is_some_and(is_free) && !end.known.contains(&message) {
                found.push(format!("{} never learned of m{message}", end.name));
            }
        }
    }
    found
}

fn counters_agree(view: &View<'_>) -> Vec<String> {
    let ends = view.finals.iter();
    let chains = ends.filter_map(|end| Some((end, &view.history.chains[end.chain?])));
    chains
        .filter(|(_, chain)| chain.is_managed && chain.sent != chain.taken)
        .map(|(end, chain)| {
            format!(
                "{} sent {} stanzas and the server counts {}",
                end.name, chain.sent, chain.taken
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(to_device: Option<usize>, sent_at: usize) -> Message {
        Message {
            device: 0,
            from: 0,
            to: 1,
            to_device,
            fate: Fate::Accepted,
            floors: None,
            sent_at,
            was_refused: false,
        }
    }

    fn late(message: usize, at: usize) -> Delivery {
        Delivery {
            message,
            id: Some(format!("{message}")),
            way: Way::Direct,
            life: Life::default(),
            at,
            is_early: false,
            is_late: true,
        }
    }

    /// What is wrong if a session gets m1 and m0 after it was shown, m1 sent at `sent_at`.
    fn findings(to_device: Option<usize>, sent_at: usize) -> Vec<String> {
        let mut history = History::new(2);
        history.messages = vec![message(None, 2), message(to_device, sent_at)];
        history.chains.push(Chain {
            is_managed: true,
            deliveries: vec![late(1, 12), late(0, 13)],
            shown_at: Some(10),
            ..Chain::new(1, false)
        });
        let known = HashSet::new();
        let end = |user: usize| Final {
            user,
            is_managed: true,
            name: format!("u{user}/d0"),
            chain: None,
            known: &known,
            there: None,
        };
        let finals = [end(0), end(1)];
        let rules = Rules {
            has_ordered_ids: true,
            may_refuse: false,
            absent: None,
            ranges_move: false,
        };
        a_session_gets_messages_in_order(&View::new(&history, &finals, rules))
    }

    /// What is wrong if m0 is acknowledged in one session at 10 ms, and given again in the next at
    /// 30 ms, with a home that began then, or for this device in a world in which ranges move.
    fn given_again(
        home_began: Option<u64>,
        to_device: Option<usize>,
        ranges_move: bool,
    ) -> Vec<String> {
        let mut history = History::new(2);
        history.homes_began.extend(home_began);
        history.messages = vec![Message {
            to: 0,
            ..message(to_device, 0)
        }];
        let given = |at: u64| Delivery {
            life: Life { crashes: 1, at },
            ..late(0, 1)
        };
        let session = |at: u64| Chain {
            deliveries: vec![given(at)],
            confirmed: 1,
            confirmed_at: given(10).life,
            ..Chain::new(0, false)
        };
        history.chains.extend([session(5), session(30)]);
        let known = HashSet::new();
        let finals = [Final {
            user: 0,
            is_managed: true,
            name: "u0/d0".to_owned(),
            chain: None,
            known: &known,
            there: None,
        }];
        let rules = Rules {
            has_ordered_ids: true,
            may_refuse: true,
            absent: None,
            ranges_move,
        };
        confirmed_deliveries_do_not_come_again(&View::new(&history, &finals, rules))
    }

    #[test]
    fn what_was_acknowledged_may_come_again_from_another_home_alone() {
        for (home_began, findings) in [(None, 1), (Some(9), 1), (Some(31), 1), (Some(20), 0)] {
            let found = given_again(home_began, None, false);
            assert_eq!(found.len(), findings, "{home_began:?}");
        }
    }

    #[test]
    fn a_copy_that_was_acknowledged_may_come_again_where_ranges_move() {
        for (to_device, ranges_move, findings) in [
            (Some(1), true, 0),
            (Some(1), false, 1),
            (Some(0), true, 1),
            (None, true, 1),
        ] {
            let found = given_again(None, to_device, ranges_move);
            assert_eq!(found.len(), findings, "{to_device:?}, {ranges_move}");
        }
    }

    #[test]
    fn what_was_addressed_to_a_session_before_it_was_available_may_come_first() {
        assert_eq!(findings(Some(0), 3), Vec::<String>::new());
        // Sent when the session was available, or not addressed to it, it has to wait its turn.
        assert_eq!(findings(Some(0), 11).len(), 2);
        assert_eq!(findings(Some(1), 3).len(), 2);
        assert_eq!(findings(None, 3).len(), 2);
    }
}
