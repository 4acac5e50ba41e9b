//! Stanzas between entities.

use std::sync::Arc;

use delivery::Attempt;
use xml::Frame;

use crate::Seq;
use crate::codec::{Bad, Reader, Writer};
use crate::limits::ADDRESS_BYTES_MAX;

/// A stanza on its way to an entity. Its frame carries the sender's full address in `from`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stanza {
    /// The resource it is addressed to; `None` for the bare address.
    pub resource: Option<Box<str>>,
    /// The stanza, shared by all its recipients.
    pub frame: Frame,
    /// Where it is in its sender's log, if it is handed over from there.
    pub source: Source,
    /// Of presence for a room: the number of the sender's session, if it is managed. Of presence
    /// from one: that of the session that it is for.
    pub managed: Option<u32>,
}

impl Stanza {
    /// One that is in no log.
    pub fn new(resource: Option<Box<str>>, frame: Frame) -> Self {
        Stanza {
            resource,
            frame,
            source: Source::default(),
            managed: None,
        }
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.option(self.resource.as_deref(), |out, resource| {
            out.bytes(resource.as_bytes(), ADDRESS_BYTES_MAX, "resource");
        });
        self.source.write(out);
        out.option(self.managed, |out, number| out.number(number.into()));
        out.frame(&self.frame);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Stanza, Bad> {
        let resource = from.option("resource", |from| {
            from.text(ADDRESS_BYTES_MAX, "resource").map(Into::into)
        })?;
        Ok(Stanza {
            resource,
            source: Source::read(from)?,
            managed: from.option("session", |from| from.number32("session"))?,
            frame: from.frame()?,
        })
    }
}

/// A place in a sender's log (docs/delivery.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The place; 0 for none.
    pub seq: Seq,
    /// The place of the last message to the same recipient that may not have come yet; 0 for none.
    /// Without it this one must not be taken.
    pub after: Seq,
    /// Names this handing over in its answer.
    pub attempt: Attempt,
}

impl Source {
    pub(crate) fn write(self, out: &mut Writer<'_>) {
        out.number(self.seq);
        out.number(self.after);
        out.number(self.attempt.number());
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Source, Bad> {
        Ok(Source {
            seq: from.number("place")?,
            after: from.number("place before")?,
            attempt: Attempt::new(from.number("attempt")?),
        })
    }
}

/// A frame for one of many, who share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedCopy {
    /// The recipient's full address.
    pub to: Arc<str>,
    /// The stanza, without `to`.
    pub frame: Frame,
    /// Its place in the room's log; 0 if it is not there.
    pub place: Seq,
    /// The place of the message in front of it there.
    pub after: Seq,
}

impl SharedCopy {
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.address(&self.to, "occupant");
        out.number(self.place);
        out.number(self.after);
        out.frame(&self.frame);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<SharedCopy, Bad> {
        Ok(SharedCopy {
            to: from.address("occupant")?,
            place: from.number("place")?,
            after: from.number("place before")?,
            frame: from.frame()?,
        })
    }
}
