//! What goes from one occupant to another through the room: private messages, requests and their
//! answers (XEP-0045 sections 7.5 and 17.4), the answer to a self-ping (XEP-0410), and what comes
//! back because somebody is gone (section 7.14).
//!
//! Requests are relayed without a table: the id that the other occupant sees names the two sessions
//! by number. Only the session that was asked can answer, and only to the session that asked.

use std::sync::Arc;

use stdx::Timestamp;
use xml::Frame;
use xml::build::Writer;
use xmpp::error::{Condition, StanzaError};
use xmpp::stanza::MessageType;
use xmpp::{addr, ns};

use crate::broadcast::{NS_USER, Tell, is_forged, write_occupant_id};
use crate::occupants::Key;
use crate::room::{Effect, Room};

/// Conditions of a bounce that say that its sender is no longer there (section 18.1.1).
const GONE: &[Condition] = &[
    Condition::Gone,
    Condition::ItemNotFound,
    Condition::JidMalformed,
    Condition::RecipientUnavailable,
    Condition::Redirect,
    Condition::RemoteServerNotFound,
    Condition::RemoteServerTimeout,
    Condition::ServiceUnavailable,
];

impl Room {
    /// A message to an occupant.
    pub(crate) fn private(&mut self, frame: &Frame, kind: MessageType, from: &str, nick: &str) {
        let Some(state) = self.state.as_ref().filter(|_| self.is_there_for(from)) else {
            return self.refuse(frame, Condition::ItemNotFound);
        };
        let Some(sender) = self
            .occupants
            .by_address(from)
            .and_then(|key| self.occupants.get(key))
        else {
            return self.refuse(frame, Condition::NotAcceptable);
        };
        if kind == MessageType::Groupchat {
            return self.refuse(frame, Condition::BadRequest);
        }
        if !state.config.allow_pm.allows(sender.role) {
            return self.refuse(frame, Condition::Forbidden);
        }
        let target = self
            .occupants
            .by_nick(nick)
            .and_then(|key| self.occupants.get(key));
        let Some(target) = target else {
            return self.refuse(frame, Condition::ItemNotFound);
        };
        let mut added = Vec::new();
        write_occupant_id(&mut added, &sender.id);
        // Section 7.5: so that the recipient's other clients know what this is (XEP-0280).
        Writer::new(&mut added)
            .open("x")
            .attr("xmlns", NS_USER)
            .close();
        let stamped = frame
            .edit()
            .set_attr("from", &format!("{}/{}", self.address, sender.nick))
            .remove_attr("to")
            .remove_children(|child| is_forged(child, &self.address))
            .append_child(&added)
            .finish();
        let to = target.audience();
        self.send(stamped, to);
    }

    /// An error that came back for something that the room sent.
    pub(crate) fn bounced(&mut self, frame: &Frame, from: &str, now: Timestamp) {
        let condition = condition_of(frame);
        let Some((key, nick)) = self.sender(from) else {
            if frame.name() == "message" && GONE.contains(&condition) {
                self.invitation_came_back(frame, from, now);
            }
            return;
        };
        let to = frame.attr("to").unwrap_or_default().into_owned();
        if frame.name() == "message" {
            let other = addr::split(&to)
                .resource
                .and_then(|nick| self.occupants.by_nick(nick));
            // The sender of a private message learns its fate; the room's own words are dropped.
            if let Some(other) = other.filter(|other| *other != key) {
                self.forward_error(frame, condition, &nick, other);
            }
        }
        if GONE.contains(&condition) {
            // It names no session: it may be about an earlier one of that address.
            if self.managed_number(from).is_some() {
                return self.doubt(from);
            }
            self.leave(
                key,
                from,
                &Tell {
                    codes: vec![333],
                    ..Tell::default()
                },
            );
        }
    }

    /// Only the condition goes on: texts and addresses in an error could name who is behind a nick.
    fn forward_error(&mut self, frame: &Frame, condition: Condition, nick: &str, to: Key) {
        let Some(target) = self.occupants.get(to) else {
            return;
        };
        let mut body = Vec::new();
        StanzaError::new(condition).write(&mut body);
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.open(frame.name()).attr("type", "error");
        writer.attr("from", &format!("{}/{nick}", self.address));
        if let Some(id) = frame.attr("id") {
            writer.attr("id", &id);
        }
        writer.raw(&body).close();
        let to = target.audience();
        if let Ok(frame) = Frame::parse(bytes) {
            self.send(frame, to);
        }
    }

    /// A request to an occupant.
    pub(crate) fn relay_request(&mut self, frame: &Frame, from: &str, nick: &str) {
        let payload = frame.children().next();
        let is = |ns: &str| payload.as_ref().is_some_and(|payload| payload.ns() == ns);
        let Some(asker) = self.occupants.by_address(from) else {
            // Section 6.6 for discovery; XEP-0410 for a ping, which is not to be changed and sent
            // again; the others as for messages. Where there is no room, nobody is in it either:
            // to who pings himself `item-not-found` would say that he is.
            let is_disco = is(ns::DISCO_INFO) || is(ns::DISCO_ITEMS);
            let refusal = match () {
                () if is(ns::PING) => {
                    StanzaError::new(Condition::NotAcceptable).with_kind("cancel")
                }
                () if !self.is_there_for(from) => StanzaError::new(Condition::ItemNotFound),
                () if is_disco => StanzaError::new(Condition::BadRequest),
                () => StanzaError::new(Condition::NotAcceptable),
            };
            return self.refuse_with(frame, &refusal);
        };
        let Some(target) = self.occupants.by_nick(nick) else {
            return self.refuse(frame, Condition::ItemNotFound);
        };
        if target == asker && is(ns::PING) {
            return self.answer(frame, &[]);
        }
        let (Some(asker), Some(target)) = (self.occupants.get(asker), self.occupants.get(target))
        else {
            return;
        };
        let mut sessions = asker.sessions.iter();
        let Some(own) = sessions.find(|session| &*session.address == from) else {
            return;
        };
        let asked = &target.sessions[0];
        let id = frame.attr("id").unwrap_or_default();
        // A vCard is its account's, and its server answers for it.
        let to = if is(ns::VCARD) {
            target.bare()
        } else {
            &*asked.address
        };
        let relayed = frame
            .edit()
            .set_attr("from", &format!("{}/{}", self.address, asker.nick))
            .set_attr("to", to)
            .set_attr("id", &format!("{}.{}.{id}", own.number, asked.number))
            .finish();
        self.effects.push(Effect::Deliver(relayed));
    }

    /// The answer to a request that was relayed. One that names no such pair is dropped.
    pub(crate) fn relay_answer(&mut self, frame: &Frame, from: &str, nick: &str) {
        let Some((to, asked_nick, id)) = self.asker_of(frame, from, nick) else {
            return;
        };
        let from = format!("{}/{asked_nick}", self.address);
        let answer = if frame.attr_raw("type") == Some("error") {
            let mut body = Vec::new();
            StanzaError::new(condition_of(frame)).write(&mut body);
            let mut bytes = Vec::new();
            let mut writer = Writer::new(&mut bytes);
            writer
                .open("iq")
                .attr("type", "error")
                .attr("from", &from)
                .attr("to", &to);
            writer.attr("id", &id).raw(&body).close();
            Frame::parse(bytes).ok()
        } else {
            let edit = frame.edit().set_attr("from", &from).set_attr("to", &to);
            Some(edit.set_attr("id", &id).finish())
        };
        self.effects.extend(answer.map(Effect::Deliver));
    }

    /// The session that asked, the nick of the one that was asked, and the id of the request.
    fn asker_of(
        &self,
        frame: &Frame,
        from: &str,
        nick: &str,
    ) -> Option<(Arc<str>, Arc<str>, String)> {
        let id = frame.attr("id")?;
        let (own, rest) = id.split_once('.')?;
        let (asked, id) = rest.split_once('.')?;
        let (own, asked): (u32, u32) = (own.parse().ok()?, asked.parse().ok()?);
        let asker = self.occupants.get(self.occupants.by_nick(nick)?)?;
        let asker = asker
            .sessions
            .iter()
            .find(|session| session.number == own)?;
        // A full address answers for itself, a bare one for its account.
        let is_bare = addr::split(from).resource.is_none();
        let candidates = match is_bare {
            true => self.occupants.of(from),
            false => self.occupants.by_address(from).into_iter().collect(),
        };
        let mut candidates = candidates
            .into_iter()
            .filter_map(|key| self.occupants.get(key));
        let is_asked =
            |s: &crate::occupants::Session| s.number == asked && (is_bare || &*s.address == from);
        let asked = candidates.find(|occupant| occupant.sessions.iter().any(is_asked))?;
        Some((
            Arc::clone(&asker.address),
            Arc::clone(&asked.nick),
            id.to_owned(),
        ))
    }
}

/// The condition of an error stanza; `undefined-condition` if it names none that is known.
fn condition_of(frame: &Frame) -> Condition {
    let error = frame.child("error", xml::NS_CONTENT);
    let children = error.map(|error| error.children()).into_iter().flatten();
    let mut named = children.filter(|child| child.ns() == ns::STANZA_ERRORS);
    let found = named.find_map(|child| {
        let mut all = Condition::ALL.iter();
        all.find(|condition| condition.as_str() == child.name())
            .copied()
    });
    found.unwrap_or(Condition::UndefinedCondition)
}
