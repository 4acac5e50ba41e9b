//! Answers to what was handed over.

use std::borrow::Cow;

use delivery::Refusal;
use xml::Frame;
use xmpp::error::{Condition, KINDS, StanzaError};

use crate::codec::{Bad, Reader, Writer};
use crate::limits::ERROR_BYTES_MAX;
use crate::stanza::Source;

/// A message was not taken by its recipient's home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTaken {
    /// The recipient, by the hash that all homes share.
    pub by: u64,
    /// What was handed over.
    pub source: Source,
    /// Why.
    pub why: Refusal,
    /// What its sender is told, if that is for good.
    pub error: Option<StanzaError>,
}

/// Numbers of refusals, which stay what they are.
const REFUSALS: [(Refusal, u8); 9] = [
    (Refusal::Full, 1),
    (Refusal::Unreadable, 2),
    (Refusal::Quarantined, 3),
    (Refusal::Early, 4),
    (Refusal::Crashed, 5),
    (Refusal::Final, 6),
    (Refusal::Silent, 7),
    (Refusal::Unread, 8),
    (Refusal::Away, 9),
];

impl NotTaken {
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.by);
        self.source.write(out);
        let number = REFUSALS.iter().find(|(why, _)| *why == self.why);
        out.u8(number.map_or(0, |(_, number)| *number));
        out.option(self.error.as_ref(), |out, error| write_error(error, out));
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<NotTaken, Bad> {
        let (by, source) = (from.u64("recipient")?, Source::read(from)?);
        let number = from.u8("refusal")?;
        let why = REFUSALS.iter().find(|(_, known)| *known == number);
        let (why, _) = why.ok_or(Bad("refusal"))?;
        Ok(NotTaken {
            by,
            source,
            why: *why,
            error: from.option("error", read_error)?,
        })
    }
}

/// Conditions have names, as in RFC 6120: no number of ours has to be kept for them.
fn write_error(error: &StanzaError, out: &mut Writer<'_>) {
    let name = error.condition.as_str();
    out.bytes(name.as_bytes(), ERROR_BYTES_MAX, "condition");
    for (part, field) in [
        (&error.text, "text"),
        (&error.app, "application's condition"),
    ] {
        out.option(part.as_deref(), |out, part| {
            out.bytes(part.as_bytes(), ERROR_BYTES_MAX, field);
        });
    }
    out.option(error.kind, |out, kind| {
        out.bytes(kind.as_bytes(), ERROR_BYTES_MAX, "type");
    });
}

fn read_error(from: &mut Reader<'_>) -> Result<StanzaError, Bad> {
    let condition = from.text(ERROR_BYTES_MAX, "condition")?;
    let condition = Condition::parse(condition).ok_or(Bad("condition"))?;
    let text = from.option("text", |from| from.text(ERROR_BYTES_MAX, "text"))?;
    // It is written without being looked at.
    let is_text = |text: &str| text.chars().all(xml::escape::is_char);
    if !text.is_none_or(is_text) {
        return Err(Bad("text"));
    }
    let field = "application's condition";
    let app = from.option(field, |from| from.text(ERROR_BYTES_MAX, field))?;
    if app.is_some_and(|app| Frame::parse(app).is_err()) {
        return Err(Bad(field));
    }
    let kind = from.option("type", |from| {
        let kind = from.text(ERROR_BYTES_MAX, "type")?;
        let known = KINDS.iter().find(|known| **known == kind);
        known.copied().ok_or(Bad("type"))
    })?;
    let owned = |text: &str| Cow::Owned(text.to_owned());
    Ok(StanzaError {
        condition,
        text: text.map(owned),
        app: app.map(owned),
        kind,
    })
}
