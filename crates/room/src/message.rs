//! Messages to all and the subject (XEP-0045 sections 7.4 and 8.1), with ids that last (XEP-0359)
//! and the occupant's id (XEP-0421). One splice makes the frame that everybody is sent.

use stdx::Timestamp;
use xml::Frame;
use xml::build::Writer;
use xmpp::error::{Condition, StanzaError};
use xmpp::ns;
use xmpp::stanza::MessageType;

use crate::affiliation::Role;
use crate::broadcast::{Tell, is_forged, write_occupant_id};
use crate::occupants::{Key, Occupant};
use crate::record::{Message, Record, Subject};
use crate::room::Room;

/// Children that are worth keeping for those who enter later.
const KEPT: &[&str] = &[
    "body",
    "apply-to",
    "retract",
    "reactions",
    "encrypted",
    "openpgp",
];

/// The id of a message of the room's log.
pub fn stanza_id(seq: u64) -> String {
    format!("{seq:016x}")
}

/// The place of a message in the room's log by its id; `None` if the room gives out no such id.
pub(crate) fn seq_of(id: &str) -> Option<u64> {
    let seq = u64::from_str_radix(id, 16).ok()?;
    (stanza_id(seq) == id).then_some(seq)
}

impl Room {
    /// A message to the room itself.
    pub(crate) fn message(&mut self, frame: &Frame, kind: MessageType, from: &str, now: Timestamp) {
        if !self.is_there_for(from) {
            return self.refuse(frame, Condition::ItemNotFound);
        }
        if kind != MessageType::Groupchat {
            return self.mediate(frame, from, now);
        }
        let Some((key, _)) = self.sender(from) else {
            return self.refuse(frame, Condition::NotAcceptable);
        };
        let has = |name| frame.child(name, xml::NS_CONTENT).is_some();
        if has("subject") && !has("body") && !has("thread") {
            self.set_subject(frame, key, now);
        } else {
            self.say(frame, key, from, now);
        }
    }

    fn say(&mut self, frame: &Frame, key: Key, from: &str, now: Timestamp) {
        let Some(occupant) = self.occupants.get(key) else {
            return;
        };
        let may_speak = occupant.role >= Role::Participant;
        #[cfg(test)]
        let may_speak = may_speak || self.has_bug(crate::bugs::Bug::VisitorsSpeak);
        if !may_speak {
            return self.refuse(frame, Condition::Forbidden);
        }
        if frame.as_bytes().len() > self.options.limits.message_bytes_max {
            let error = StanzaError::new(Condition::NotAcceptable)
                .with_text("This message is too large for the room.");
            return self.refuse_with(frame, &error);
        }
        let is_kept = frame.children().any(|child| KEPT.contains(&child.name()));
        let seq = is_kept.then_some(self.next_seq);
        let stamped = self.stamped(frame, occupant, seq);
        let mut records = Vec::new();
        if let Some(seq) = seq {
            self.next_seq += 1;
            records.push(Record::Message(Message {
                seq,
                at: now.as_millis(),
                sender: xmpp::addr::bare_part(from).to_owned(),
                xml: stamped.as_bytes().to_vec(),
            }));
            records.extend(self.retracted_by(frame, (from, seq), now));
        }
        let is_durable = self.is_durable();
        self.commit_message(records, frame, now, move |room, _| {
            room.introduce(key);
            room.send_to_all(stamped, seq, is_durable);
        });
    }

    /// In a large room, whoever speaks is announced first.
    fn introduce(&mut self, key: Key) {
        let Some(occupant) = self.occupants.get(key) else {
            return;
        };
        if occupant.is_announced {
            return;
        }
        let was_shown = self.is_shown(occupant);
        self.announce(key, true);
        let Some(occupant) = self.occupants.get(key) else {
            return;
        };
        if !was_shown && self.is_shown(occupant) {
            self.tell_others(key, &Tell::default());
        }
    }

    /// The message as everybody is sent it: from the occupant, without `to`, without what only the
    /// room may say.
    fn stamped(&self, frame: &Frame, occupant: &Occupant, seq: Option<u64>) -> Frame {
        let mut added = Vec::with_capacity(192);
        if let Some(seq) = seq {
            Writer::new(&mut added)
                .open("stanza-id")
                .attr("xmlns", ns::STANZA_ID)
                .attr("by", &self.address)
                .attr("id", &stanza_id(seq))
                .close();
        }
        write_occupant_id(&mut added, &occupant.id);
        let room = &*self.address;
        frame
            .edit()
            .set_attr("from", &format!("{room}/{}", occupant.nick))
            .remove_attr("to")
            .remove_children(|child| is_forged(child, room))
            .append_child(&added)
            .finish()
    }

    /// Section 8.1.
    fn set_subject(&mut self, frame: &Frame, key: Key, now: Timestamp) {
        let (Some(occupant), Some(state)) = (self.occupants.get(key), &self.state) else {
            return;
        };
        let may = match occupant.role {
            Role::Moderator => true,
            Role::Participant => state.config.may_change_subject,
            Role::Visitor | Role::None => false,
        };
        if !may {
            return self.refuse(frame, Condition::Forbidden);
        }
        let stamped = self.stamped(frame, occupant, None);
        if stamped.as_bytes().len() > self.options.limits.subject_bytes_max {
            return self.refuse(frame, Condition::NotAcceptable);
        }
        let subject = Subject {
            xml: stamped.as_bytes().to_vec(),
            at: now.as_millis(),
        };
        self.commit(
            vec![Record::Subject(subject)],
            frame,
            now,
            move |room, _| {
                room.introduce(key);
                let everyone = room.occupants.everyone();
                room.send(stamped, everyone);
            },
        );
    }
}
