//! What kind of stanza a frame is (RFC 6120 section 8, RFC 6121 sections 4.7 and 5.2).

use xml::Frame;
use xml::build::Writer;

use crate::error::Condition;

/// The kind of a stanza with its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `<message/>`
    Message(MessageType),
    /// `<presence/>`
    Presence(PresenceType),
    /// `<iq/>`
    Iq(IqType),
}

/// RFC 6121 section 5.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the type attribute's values")]
pub enum MessageType {
    Normal,
    Chat,
    Groupchat,
    Headline,
    Error,
}

/// RFC 6121 section 4.7.1; no type is `Available`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the type attribute's values")]
pub enum PresenceType {
    Available,
    Unavailable,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Probe,
    Error,
}

/// RFC 6120 section 8.2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the type attribute's values")]
pub enum IqType {
    Get,
    Set,
    Result,
    Error,
}

/// The kind of a stanza.
///
/// # Errors
/// `bad-request` for an IQ or presence of no known type, `feature-not-implemented` for an element
/// that is no stanza. A message of an unknown type is a normal one (RFC 6121 section 5.2.2).
pub fn parse_kind(frame: &Frame) -> Result<Kind, Condition> {
    let frame = frame.as_ref();
    let kind = || frame.attr("type");
    if frame.is_named("message") {
        return Ok(Kind::Message(match kind().as_deref() {
            Some("chat") => MessageType::Chat,
            Some("groupchat") => MessageType::Groupchat,
            Some("headline") => MessageType::Headline,
            Some("error") => MessageType::Error,
            _ => MessageType::Normal,
        }));
    }
    if frame.is_named("presence") {
        return Ok(Kind::Presence(match kind().as_deref() {
            None => PresenceType::Available,
            Some("unavailable") => PresenceType::Unavailable,
            Some("subscribe") => PresenceType::Subscribe,
            Some("subscribed") => PresenceType::Subscribed,
            Some("unsubscribe") => PresenceType::Unsubscribe,
            Some("unsubscribed") => PresenceType::Unsubscribed,
            Some("probe") => PresenceType::Probe,
            Some("error") => PresenceType::Error,
            Some(_) => return Err(Condition::BadRequest),
        }));
    }
    if frame.is_named("iq") {
        return Ok(Kind::Iq(match kind().as_deref() {
            Some("get") => IqType::Get,
            Some("set") => IqType::Set,
            Some("result") => IqType::Result,
            Some("error") => IqType::Error,
            _ => return Err(Condition::BadRequest),
        }));
    }
    Err(Condition::FeatureNotImplemented)
}

/// Checks what RFC 6120 section 8.2.3 asks of an IQ: an `id`, a type, and one child in a request.
///
/// # Errors
/// `bad-request`.
pub fn check(frame: &Frame) -> Result<Kind, Condition> {
    let kind = parse_kind(frame)?;
    if let Kind::Iq(iq) = kind {
        let children = frame.children().count();
        let one_child = match iq {
            IqType::Get | IqType::Set => children == 1,
            IqType::Result => children <= 1,
            IqType::Error => true,
        };
        if frame.attr_raw("id").is_none() || !one_child {
            return Err(Condition::BadRequest);
        }
    }
    Ok(kind)
}

/// The priority of presence, zero if it names none (RFC 6121 section 4.7.2.3).
///
/// # Errors
/// `bad-request` if it is not a number from -128 to 127.
pub fn presence_priority(frame: &Frame) -> Result<i8, Condition> {
    match frame.child("priority", xml::NS_CONTENT) {
        None => Ok(0),
        Some(child) => {
            let text = child.text().ok_or(Condition::BadRequest)?;
            text.trim().parse().map_err(|_| Condition::BadRequest)
        }
    }
}

/// `<iq type='result'>` for a request, its addresses swapped, with a payload: one well-formed
/// element, or nothing. `None` if the payload is anything else.
pub fn result(request: &Frame, payload: &[u8]) -> Option<Frame> {
    let mut bytes = Vec::with_capacity(payload.len() + 128);
    let mut writer = Writer::new(&mut bytes);
    writer.open("iq").attr("type", "result");
    for (theirs, ours) in [("id", "id"), ("from", "to"), ("to", "from")] {
        if let Some(value) = request.attr(theirs) {
            writer.attr(ours, &value);
        }
    }
    writer.raw(payload).close();
    Frame::parse(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(xml: &str) -> Frame {
        Frame::parse(xml).unwrap()
    }

    #[test]
    fn requests_have_an_id_and_one_child() {
        for (xml, ok) in [
            ("<iq type='get' id='1'><q/></iq>", true),
            ("<iq type='get'><q/></iq>", false),
            ("<iq type='set' id='1'/>", false),
            ("<iq type='get' id='1'><q/><r/></iq>", false),
            ("<iq type='result' id='1'/>", true),
            ("<iq type='odd' id='1'/>", false),
            ("<iq id='1'/>", false),
            ("<presence type='odd'/>", false),
            ("<message type='odd'/>", true),
        ] {
            assert_eq!(check(&frame(xml)).is_ok(), ok, "{xml}");
        }
    }

    #[test]
    fn priorities_are_bytes() {
        for (text, priority) in [
            ("1", Ok(1)),
            ("-128", Ok(-128)),
            ("128", Err(())),
            ("x", Err(())),
        ] {
            let frame = frame(&format!("<presence><priority>{text}</priority></presence>"));
            assert_eq!(presence_priority(&frame).map_err(|_| ()), priority);
        }
        assert_eq!(presence_priority(&frame("<presence/>")), Ok(0));
    }
}
