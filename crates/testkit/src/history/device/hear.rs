//! What a device hears once its session is there: messages, copies, acknowledgements, pages of the
//! archive. Owns their reading; what they mean for all together is the checker's.

use super::super::reader::Element;
use super::super::record::{CatchUp, Delivery, Entry, Fate, Life, Way};
use super::room::said;
use super::{
    DOMAIN, Device, NS_CARBONS, NS_DELAY, NS_FORWARD, NS_MAM, NS_RSM, NS_SID, NS_SM, Purpose,
    Query, Shared, listed, one_line,
};
use crate::tree::{NS_CLIENT, escape};

impl Device {
    pub(super) fn handle_ready(&mut self, element: Element<'_>, shared: &mut Shared<'_>) {
        if element.ns() == NS_SM {
            return self.handle_management(element, shared);
        }
        if element.ns() != NS_CLIENT {
            return shared
                .history
                .note(&self.name, format_args!("hears {}", one_line(element)));
        }
        if let Some(session) = &mut self.session {
            session.received = session.received.wrapping_add(1);
        }
        match element.name() {
            "message" if self.room_message(element, shared) => {}
            "message" => self.handle_message(element, shared),
            "iq" => self.handle_iq(element, shared),
            "presence" if self.room_presence(element, shared) => {}
            "presence" if element.attr("type") == Some("error") => self.is_not_set_up(shared),
            _ => {
                let shown = element.attr("from").unwrap_or_default();
                let note = format_args!("is shown {shown}");
                shared.history.note(&self.name, note);
                let from = element.attr("from").and_then(|from| from.split_once('@'));
                let name = &self.name;
                let own = name.split_once('/');
                let is_own = |(user, rest): (&str, &str)| {
                    Some((user, rest.rsplit('/').next().unwrap_or_default())) == own
                };
                if let (Some(session), true) = (&mut self.session, from.is_some_and(is_own)) {
                    session.is_shown = true;
                    let chain = &mut shared.history.chains[session.chain];
                    chain.shown_at.get_or_insert(shared.history.now);
                }
            }
        }
    }

    fn handle_management(&mut self, element: Element<'_>, shared: &mut Shared<'_>) {
        match element.name() {
            "r" => {
                self.requests += 1;
                if !self.plan.is_lazy || self.requests.is_multiple_of(4) {
                    self.acknowledge(shared);
                }
            }
            "a" => match element.attr("h").and_then(|h| h.parse().ok()) {
                Some(h) => self.acknowledged(h, shared),
                None => self.give_up("an acknowledgement", element, shared),
            },
            _ => self.give_up("stream management", element, shared),
        }
    }

    /// The server has taken everything up to `h`.
    pub(super) fn acknowledged(&mut self, h: u32, shared: &mut Shared<'_>) {
        let name = &self.name;
        let Some(session) = &mut self.session else {
            return;
        };
        let history = &mut *shared.history;
        let more = h.wrapping_sub(session.acked);
        if more as usize > session.unacked.len() {
            let (acked, sent) = (session.acked, history.chains[session.chain].sent);
            return history.violation(format!(
                "{name}: h={h} after h={acked}, and {sent} stanzas were sent"
            ));
        }
        session.acked = h;
        history.chains[session.chain].taken = h;
        let mut accepted = Vec::new();
        for sent in session.unacked.drain(..more as usize) {
            if let Some(said) = sent.said.map(|said| &mut history.said[said])
                && said.fate == Fate::Unknown
            {
                said.fate = Fate::Accepted;
            }
            let Some(number) = sent.message else { continue };
            let message = &mut history.messages[number];
            if message.fate == Fate::Unknown {
                message.fate = Fate::Accepted;
                accepted.push(number);
            }
        }
        if !accepted.is_empty() {
            let at = history.elapsed();
            history.accepted_at.push((self.plan.user, at));
        }
        history.note(name, format_args!("hears a h={h}: {}", listed(&accepted)));
        shared.heard.ack |= !accepted.is_empty();
    }

    pub(super) fn handle_message(&mut self, element: Element<'_>, shared: &mut Shared<'_>) {
        if element.attr("type") == Some("error") {
            return self.handle_refusal(element, shared);
        }
        if let Some(result) = element.child(NS_MAM, "result") {
            return self.handle_result(result, shared);
        }
        let copies = ["sent", "received"].map(|name| element.child(NS_CARBONS, name));
        let copy = copies.into_iter().flatten().next();
        let (message, way) = match copy.map(forwarded) {
            None => (element, Way::Direct),
            Some(Some(message)) => (message, Way::Carbon),
            Some(None) => return self.give_up("a carbon copy", element, shared),
        };
        let Some(number) = number(message) else {
            return;
        };
        let id = stanza_id(message, self.plan.user);
        let is_late = message.child(NS_DELAY, "delay").is_some();
        shared.history.note(
            &self.name,
            format_args!(
                "gets m{number} ({way:?}{}) {}",
                if is_late { ", late" } else { "" },
                id.as_deref().unwrap_or("-")
            ),
        );
        shared.heard.message = true;
        let delivery = Delivery {
            message: number,
            id,
            way,
            is_late,
            is_early: self
                .session
                .as_ref()
                .is_some_and(|session| !session.is_shown),
            life: shared.history.life_of(self.plan.user),
            at: shared.history.now + 1,
        };
        self.deliver(delivery, shared);
    }

    fn deliver(&mut self, delivery: Delivery, shared: &mut Shared<'_>) {
        let (message, id) = (delivery.message, delivery.id.clone());
        self.known.insert(message);
        if message >= shared.history.messages.len() {
            let text = format!("{} got m{message}, which nobody sent", self.name());
            return shared.history.violation(text);
        }
        if let Some(id) = &id {
            shared.history.saw(self.plan.user, id, message);
        }
        let Some(session) = &self.session else { return };
        shared.history.now += 1;
        let chain = &mut shared.history.chains[session.chain];
        // Where copies come too, all that is new comes live: what was seen is where to go on.
        let is_contiguous = chain.live_from.is_some() && self.plan.has_carbons;
        chain.deliveries.push(delivery);
        if is_contiguous
            && self.plan.is_managed
            && let Some(id) = id
            && (!shared.has_ordered_ids || self.cursor.as_ref() < Some(&id))
        {
            self.cursor = Some(id);
        }
    }

    fn handle_refusal(&mut self, element: Element<'_>, shared: &mut Shared<'_>) {
        shared.history.note(
            &self.name,
            format_args!("gets an error: {}", one_line(element)),
        );
        let id = element.attr("id").and_then(|id| id.strip_prefix('i'));
        let Some(number) = id.and_then(|id| id.parse::<usize>().ok()) else {
            return;
        };
        if shared.reuses_ids {
            let text = format!(
                "{}: a message was refused: {}",
                self.name(),
                one_line(element)
            );
            return shared.history.violation(text);
        }
        if let Some(message) = shared.history.messages.get_mut(number) {
            message.fate = Fate::Refused;
            message.was_refused = true;
        }
    }

    fn handle_result(&mut self, result: Element<'_>, shared: &mut Shared<'_>) {
        let Some(query) = &mut self.query else { return };
        if result.attr("queryid") != Some(&format!("q{}", query.id)) {
            return;
        }
        let message = forwarded(result);
        let is_of_room = query.purpose == Purpose::Room;
        let message = message.and_then(|message| match is_of_room {
            true => said(message),
            false => number(message),
        });
        let id = result.attr("id").unwrap_or_default().to_owned();
        if let Some(message) = message.filter(|_| !is_of_room) {
            shared.history.saw(self.plan.user, &id, message);
        }
        query.entries.push(Entry {
            id,
            message,
            text: message.map_or_else(|| one_line(result), |number| format!("m{number}")),
        });
    }

    fn handle_iq(&mut self, element: Element<'_>, shared: &mut Shared<'_>) {
        let id = element.attr("id").unwrap_or_default();
        if let ("get", Some(from)) = (
            element.attr("type").unwrap_or_default(),
            element.attr("from"),
        ) {
            let answer = format!(
                "<iq type='result' id='{}' to='{}'/>",
                escape(id),
                escape(from)
            );
            return self.send(answer, None, shared);
        }
        if id == "carbons" {
            if element.attr("type") == Some("error") {
                self.is_not_set_up(shared);
            }
            return;
        }
        if id == "room" {
            return self.configured(element, shared);
        }
        if id == "member" {
            return self.has_member(element, shared);
        }
        if let Some(rest) = id.strip_prefix("ping-") {
            return self.confirmed(rest, shared);
        }
        let is_current = |query: &Query| id == format!("q{}", query.id);
        if !self.query.as_ref().is_some_and(is_current) {
            return;
        }
        let Some(fin) = element.child(NS_MAM, "fin") else {
            let text = format!("{}: no archive: {}", self.name(), one_line(element));
            let was_asked = self.query.take().map(|query| query.purpose);
            // An account of which too much is refused starts over as one that crashed.
            let starts_over = shared.actors_crash || !shared.reuses_ids;
            if starts_over && was_asked == Some(Purpose::CatchUp) {
                // Only the client knows whether to ask again.
                shared.history.note(&self.name, text);
                return self.catch_up();
            }
            if !shared.is_disk_bad {
                shared.history.violation(text);
            }
            return;
        };
        let last = fin
            .child(NS_RSM, "set")
            .and_then(|set| set.child(NS_RSM, "last"))
            .map(Element::text);
        match last {
            Some(last) if fin.attr("complete") != Some("true") => {
                self.ask_page(Some(&last), shared);
            }
            _ => self.page_end(shared),
        }
    }

    fn confirmed(&mut self, rest: &str, shared: &mut Shared<'_>) {
        let numbers: Vec<usize> = rest.split('-').flat_map(str::parse).collect();
        let [chain, deliveries, crashes, at, heard] = numbers[..] else {
            return;
        };
        if let Some(chain) = shared.history.chains.get_mut(chain)
            && chain.is_managed
        {
            chain.confirmed = chain.confirmed.max(deliveries);
            chain.heard_confirmed = chain.heard_confirmed.max(heard);
            let at = at as u64;
            chain.confirmed_at = Life { crashes, at };
        }
    }

    /// All pages are there.
    fn page_end(&mut self, shared: &mut Shared<'_>) {
        let Some(query) = self.query.take() else {
            return;
        };
        let numbers: Vec<usize> = query.entries.iter().filter_map(|e| e.message).collect();
        shared.history.note(
            &self.name,
            format_args!("read {:?}: {}", query.purpose, listed(&numbers)),
        );
        if query.purpose == Purpose::Room {
            shared.history.room_archive = numbers;
            return;
        }
        if query.purpose == Purpose::Audit {
            shared.history.archives[self.plan.user] = query.entries;
            return;
        }
        self.known.extend(numbers);
        let last = query.entries.last().map(|entry| entry.id.clone());
        if last.is_some() && (!shared.has_ordered_ids || self.cursor < last) {
            self.cursor = last;
        }
        if let Some(session) = &self.session {
            let chain = &mut shared.history.chains[session.chain];
            let is_set_up = !self.wants_set_up && !self.wants_catch_up;
            if chain.live_from.is_none() && is_set_up {
                chain.live_from = Some(self.cursor.clone().unwrap_or_default());
            }
        }
        shared.history.catch_ups.push(CatchUp {
            device: self.number,
            after: query.after,
            entries: query.entries,
        });
    }
}

// === helpers ===

/// The message inside `<forwarded/>`.
fn forwarded(holder: Element<'_>) -> Option<Element<'_>> {
    holder
        .child(NS_FORWARD, "forwarded")?
        .child(NS_CLIENT, "message")
}

/// The number of a message under test, which is the first word of its body.
fn number(message: Element<'_>) -> Option<usize> {
    let body = message.child(NS_CLIENT, "body")?.text();
    body.split(' ').next()?.strip_prefix('m')?.parse().ok()
}

/// The id that the user's own server gave (XEP-0359).
fn stanza_id(message: Element<'_>, user: usize) -> Option<String> {
    let by = format!("u{user}@{DOMAIN}");
    let is_own = |child: &Element<'_>| child.attr("by") == Some(&by);
    let mut ids = message.children().filter(|c| c.is(NS_SID, "stanza-id"));
    ids.find(is_own)?.attr("id").map(str::to_owned)
}
