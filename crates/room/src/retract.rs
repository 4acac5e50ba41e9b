//! Messages that are taken back: by who said them (XEP-0424 0.4.2), or by a moderator (XEP-0425
//! 0.3.0). What is left of them in the room's log is a tombstone, which says when and by whom.
//!
//! A message of the log that is older than what those who enter are sent is not in memory: whoever
//! gives a stanza that names one gives that message with it ([`Room::names`]).

use std::borrow::Cow;

use stdx::Timestamp;
use xml::build::Writer;
use xml::{Child, Frame};
use xmpp::error::{Condition, StanzaError};
use xmpp::{addr, ns};

use crate::affiliation::Role;
use crate::broadcast::{NS_OCCUPANT_ID, write_occupant_id};
use crate::invite::reason_of;
use crate::message::{seq_of, stanza_id};
use crate::occupants::Occupant;
use crate::record::{Message, Record};
use crate::room::Room;

pub(crate) const NS_RETRACT: &str = "urn:xmpp:message-retract:1";
pub(crate) const NS_TOMBSTONE: &str = "urn:xmpp:message-retract:1#tombstone";
pub(crate) const NS_MODERATE: &str = "urn:xmpp:message-moderate:1";

/// What an id of a message stands for.
enum Target {
    /// The room gave out no such id, or has forgotten what it was.
    Unknown,
    /// There was such a message in a temporary room, which has no log: clients may still show it.
    Forgotten,
    /// There is nothing left of it.
    Gone,
    /// This one.
    Message(Message),
}

/// Who takes a message back, and what others are told of it.
struct Retraction<'a> {
    /// The id of the message that says so.
    id: &'a str,
    /// When.
    at: Timestamp,
    /// The moderator who does it, if it is not the author.
    moderator: Option<&'a Occupant>,
    reason: Option<&'a str>,
}

impl Room {
    /// The place of a message in the log that a stanza is about, and that is not in memory: it has
    /// to come with [`crate::Event::Stanza`].
    pub fn names(&self, frame: &Frame) -> Option<u64> {
        if frame.attr("to").as_deref() != Some(self.address()) {
            return None;
        }
        let state = self.state.as_ref()?;
        let from = frame.attr("from").unwrap_or_default();
        let occupant = self.occupants.get(self.occupants.by_address(&from)?)?;
        let id = match frame.name() {
            "iq" if occupant.role == Role::Moderator => {
                frame.child("moderate", NS_MODERATE)?.attr("id")
            }
            "message" => retracted_id(frame).map(Cow::Owned),
            _ => None,
        };
        let seq = seq_of(&id?)?;
        let is_there = (state.first_seq..self.next_seq).contains(&seq);
        (state.is_durable() && is_there && state.kept(seq).is_none()).then_some(seq)
    }

    /// XEP-0425 section 3: a moderator retracts a message of anybody.
    pub(crate) fn moderate(&mut self, frame: &Frame, is_set: bool, from: &str, now: Timestamp) {
        let key = self.occupants.by_address(from);
        let occupant = key.and_then(|key| self.occupants.get(key));
        let Some(occupant) = occupant.filter(|occupant| occupant.role == Role::Moderator) else {
            let error = StanzaError::new(Condition::Forbidden)
                .with_text("Only moderators are allowed to moderate other participants' messages");
            return self.refuse_with(frame, &error);
        };
        let payload = frame.child("moderate", NS_MODERATE).filter(|_| is_set);
        let payload = payload.and_then(|payload| Frame::parse(payload.to_xml()).ok());
        let retracts = |payload: &Frame| payload.child("retract", NS_RETRACT).is_some();
        let Some(payload) = payload.filter(retracts) else {
            return self.refuse(frame, Condition::BadRequest);
        };
        let Some(id) = payload.attr("id") else {
            return self.refuse(frame, Condition::BadRequest);
        };
        let target = match self.target(&id) {
            Target::Unknown => return self.refuse(frame, Condition::ItemNotFound),
            // Somebody was faster.
            Target::Gone => return self.answer(frame, &[]),
            Target::Forgotten => None,
            // What the room itself said is not anybody's message.
            Target::Message(message) if message.sender == *self.address => {
                return self.refuse(frame, Condition::NotAcceptable);
            }
            Target::Message(message) => Some(message),
        };
        let reason = reason_of(&payload, self.options.limits.reason_bytes_max);
        let seq = self.next_seq;
        let retraction = Retraction {
            id: &stanza_id(seq),
            at: now,
            moderator: Some(occupant),
            reason: reason.as_deref(),
        };
        let Some(said) = self.moderated(&id, seq, &retraction) else {
            return self.refuse(frame, Condition::InternalServerError);
        };
        let tombstone = target.and_then(|target| self.tombstone(&target, &retraction));
        self.next_seq += 1;
        let mut records = vec![Record::Message(Message {
            seq,
            at: now.as_millis(),
            sender: self.address.to_string(),
            xml: said.as_bytes().to_vec(),
        })];
        records.extend(tombstone);
        let is_durable = self.is_durable();
        let request = frame.clone();
        self.commit(records, frame, now, move |room, _| {
            room.answer(&request, &[]);
            room.send_to_all(said, Some(seq), is_durable);
        });
    }

    /// The tombstone for a message that its author takes back by this one (XEP-0424 section 4).
    /// Of others' messages nothing changes.
    pub(crate) fn retracted_by(
        &self,
        frame: &Frame,
        (from, seq): (&str, u64),
        now: Timestamp,
    ) -> Option<Record> {
        let Target::Message(target) = self.target(&retracted_id(frame)?) else {
            return None;
        };
        if target.sender != addr::bare_part(from) {
            return None;
        }
        let own_id = frame.attr("id");
        let fallback = stanza_id(seq);
        let retraction = Retraction {
            id: own_id.as_deref().unwrap_or(&fallback),
            at: now,
            moderator: None,
            reason: None,
        };
        self.tombstone(&target, &retraction)
    }

    /// An operator erases messages of the log; nobody is told.
    pub(crate) fn erase(&mut self, messages: &[Message], now: Timestamp) {
        let is_there = |message: &&Message| !is_tombstone(&message.xml);
        let tombstone = |message: &Message| {
            let retraction = Retraction {
                id: &stanza_id(message.seq),
                at: now,
                moderator: None,
                reason: None,
            };
            self.tombstone(message, &retraction)
        };
        let records: Vec<Record> = messages
            .iter()
            .filter(is_there)
            .filter_map(tombstone)
            .collect();
        if !records.is_empty() {
            let nobody = self.empty.clone();
            self.commit(records, &nobody, now, |_, _| {});
        }
    }

    fn target(&self, id: &str) -> Target {
        let (Some(state), Some(seq)) = (&self.state, seq_of(id)) else {
            return Target::Unknown;
        };
        let named = self.named.as_ref().filter(|message| message.seq == seq);
        let message = state.kept(seq).or(named.map(|message| &**message));
        match message {
            Some(message) if is_tombstone(&message.xml) => Target::Gone,
            Some(message) => Target::Message(message.clone()),
            None => {
                let was_there = (state.first_seq..self.next_seq).contains(&seq);
                match was_there && !state.config.is_persistent {
                    true => Target::Forgotten,
                    false => Target::Unknown,
                }
            }
        }
    }

    /// What everybody is sent of it.
    fn moderated(&self, id: &str, seq: u64, retraction: &Retraction<'_>) -> Option<Frame> {
        let mut bytes = Vec::with_capacity(512);
        let mut writer = Writer::new(&mut bytes);
        writer
            .open("message")
            .attr("from", &self.address)
            .attr("type", "groupchat")
            .attr("id", retraction.id);
        writer.open("retract").attr("xmlns", NS_RETRACT);
        writer.attr("id", id);
        let mut inner = Vec::new();
        self.write_why(&mut inner, retraction);
        writer.raw(&inner).close();
        writer
            .open("stanza-id")
            .attr("xmlns", ns::STANZA_ID)
            .attr("by", &self.address)
            .attr("id", &stanza_id(seq))
            .close();
        writer.close();
        Frame::parse(bytes).ok()
    }

    /// By whom, and why.
    fn write_why(&self, out: &mut Vec<u8>, retraction: &Retraction<'_>) {
        if let Some(moderator) = retraction.moderator {
            let mut id = Vec::new();
            write_occupant_id(&mut id, &moderator.id);
            Writer::new(out)
                .open("moderated")
                .attr("xmlns", NS_MODERATE)
                .attr("by", &format!("{}/{}", self.address, moderator.nick))
                .raw(&id)
                .close();
        }
        if let Some(reason) = retraction.reason {
            Writer::new(out).open("reason").text(reason).close();
        }
    }

    /// What is left of a message: from whom it was, its ids, and that it is gone. `None` if what
    /// the log has of it is damaged.
    fn tombstone(&self, target: &Message, retraction: &Retraction<'_>) -> Option<Record> {
        let frame = Frame::parse(target.xml.clone()).ok()?;
        let mut xml = Vec::with_capacity(512);
        let mut writer = Writer::new(&mut xml);
        writer.open("message");
        for name in ["from", "type", "id"] {
            if let Some(value) = frame.attr(name) {
                writer.attr(name, &value);
            }
        }
        for child in frame.children().filter(is_left) {
            writer.raw(child.to_xml().as_bytes());
        }
        // Clients that have not heard of it may still learn what this one took back.
        if let Some(id) = retracted_id(&frame) {
            writer.open("retract").attr("xmlns", NS_RETRACT);
            writer.attr("id", &id).close();
        }
        let mut inner = Vec::new();
        self.write_why(&mut inner, retraction);
        writer
            .open("retracted")
            .attr("xmlns", NS_RETRACT)
            .attr("id", retraction.id)
            .attr("stamp", &retraction.at.to_string())
            .raw(&inner)
            .close();
        writer.close();
        Some(Record::Retracted {
            seq: target.seq,
            xml,
        })
    }

    /// Sends a message of the room, or of an occupant, to everybody. `place` is where it is in the
    /// log, which is one that others read if the room `is_durable`.
    pub(crate) fn send_to_all(&mut self, frame: Frame, place: Option<u64>, is_durable: bool) {
        let everyone = self.occupants.everyone();
        let placed = place.map(|place| crate::Placed {
            place,
            after: std::mem::replace(&mut self.told, place),
        });
        self.send_placed(frame, everyone, placed.filter(|_| is_durable));
    }
}

/// Which message a message takes back.
fn retracted_id(frame: &Frame) -> Option<String> {
    let retract = frame.child("retract", NS_RETRACT)?;
    Some(retract.attr("id")?.into_owned())
}

/// Whether a child of a message is left in its tombstone.
fn is_left(child: &Child<'_>) -> bool {
    matches!(
        (child.name(), child.ns()),
        ("stanza-id" | "origin-id", ns::STANZA_ID) | ("occupant-id", NS_OCCUPANT_ID)
    )
}

/// Whether there is nothing left of a message.
pub fn is_tombstone(xml: &[u8]) -> bool {
    let Ok(frame) = Frame::parse(xml) else {
        return true;
    };
    frame.child("retracted", NS_RETRACT).is_some()
        && frame
            .children()
            .all(|child| is_left(&child) || child.ns() == NS_RETRACT)
}

/// Whether a child says what only the room may say of a retraction (XEP-0425 section 5).
pub(crate) fn is_forged(child: &Child<'_>) -> bool {
    match (child.name(), child.ns()) {
        ("retracted", NS_RETRACT) | (_, NS_MODERATE) => true,
        ("retract", NS_RETRACT) => {
            let mut children = child.children();
            children.any(|child| child.ns() == NS_MODERATE)
        }
        _ => false,
    }
}
