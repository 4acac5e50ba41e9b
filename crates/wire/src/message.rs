//! What one entity says to another.

use std::sync::Arc;

use crate::Seq;
use crate::answers::NotTaken;
use crate::codec::{Bad, Reader, Writer};
use crate::kind::Kind;
use crate::nodes::{Interest, NodeEvent};
use crate::rooms::{OfRoom, ToRoom};
use crate::stanza::{SharedCopy, Stanza};

/// What one entity says to another, wherever that is at home. Who is told is not in it: that is
/// the [`crate::Envelope`]'s, or the mailbox it lies in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A stanza.
    Stanza(Stanza),
    /// What a room or a service sends to one of many.
    Copy(SharedCopy),
    /// The server of a contact that came online asks for this user's presence (RFC 6121 section
    /// 4.3). Sent only to users who are loaded: an offline contact costs nothing.
    Probe {
        /// Full address of the new session.
        from: Arc<str>,
    },
    /// The recipient's home has an entry of this user's log.
    Taken {
        /// The recipient, by the hash that all homes share.
        by: u64,
        /// The entry's place.
        seq: Seq,
    },
    /// A recipient's home did not take an entry.
    NotTaken(Box<NotTaken>),
    /// What the home of a session says to a room.
    ToRoom(Box<ToRoom>),
    /// What a room says to the home of a session that is there.
    OfRoom(Box<OfRoom>),
    /// A contact's session wants to hear of nodes of this user.
    Interest(Interest),
    /// Something happened at a node of a contact.
    NodeEvent(Arc<NodeEvent>),
}

/// It is moved from mailbox to mailbox: what few have belongs in a box.
const _: () = assert!(size_of::<Message>() <= 64);

impl Message {
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self {
            Message::Stanza(_) => Kind::Stanza,
            Message::Copy(_) => Kind::Copy,
            Message::Probe { .. } => Kind::Probe,
            Message::Taken { .. } => Kind::Taken,
            Message::NotTaken(_) => Kind::NotTaken,
            Message::ToRoom(said) => said.kind(),
            Message::OfRoom(said) => said.kind(),
            Message::Interest(_) => Kind::Interest,
            Message::NodeEvent(_) => Kind::NodeEvent,
        }
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        match self {
            Message::Stanza(stanza) => stanza.write(out),
            Message::Copy(copy) => copy.write(out),
            Message::Probe { from } => out.address(from, "session"),
            Message::Taken { by, seq } => {
                out.u64(*by);
                out.number(*seq);
            }
            Message::NotTaken(answer) => answer.write(out),
            Message::ToRoom(said) => said.write(out),
            Message::OfRoom(said) => said.write(out),
            Message::Interest(interest) => interest.write(out),
            Message::NodeEvent(event) => event.write(out),
        }
    }

    /// `None` if the kind is that of no message.
    pub(crate) fn read(kind: Kind, from: &mut Reader<'_>) -> Result<Option<Message>, Bad> {
        if let Some(said) = ToRoom::read(kind, from)? {
            return Ok(Some(Message::ToRoom(Box::new(said))));
        }
        if let Some(said) = OfRoom::read(kind, from)? {
            return Ok(Some(Message::OfRoom(Box::new(said))));
        }
        Ok(Some(match kind {
            Kind::Stanza => Message::Stanza(Stanza::read(from)?),
            Kind::Copy => Message::Copy(SharedCopy::read(from)?),
            Kind::Probe => Message::Probe {
                from: from.address("session")?,
            },
            Kind::Taken => Message::Taken {
                by: from.u64("recipient")?,
                seq: from.number("place")?,
            },
            Kind::NotTaken => Message::NotTaken(Box::new(NotTaken::read(from)?)),
            Kind::Interest => Message::Interest(Interest::read(from)?),
            Kind::NodeEvent => Message::NodeEvent(Arc::new(NodeEvent::read(from)?)),
            _ => return Ok(None),
        }))
    }
}
