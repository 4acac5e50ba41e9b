//! The elements of XEP-0198, read and written.

use std::time::Duration;

use xml::FrameRef;
use xml::build::Writer;

use super::TooHigh;
use crate::error::{Condition, StreamError};
use crate::limits::SM_ID_BYTES_MAX;
use crate::ns;

/// The stream feature (section 3), offered to clients who have authenticated.
pub const FEATURE: &[u8] = b"<sm xmlns='urn:xmpp:sm:3'/>";

/// What a client says in the namespace of stream management.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `<enable/>` (section 3).
    Enable {
        /// It would like to be able to resume.
        resume: bool,
        /// How long, at most, it would like the session to be kept.
        max: Option<Duration>,
    },
    /// `<resume/>` (section 5).
    Resume {
        /// The session's id, as the server gave it.
        previd: Box<str>,
        /// How many stanzas the client has handled.
        h: u32,
    },
    /// `<r/>`: how many stanzas has the server handled (section 4)?
    AckRequest,
    /// `<a/>`: how many stanzas the client has handled.
    Ack(u32),
}

/// Why an element of the namespace cannot be acted upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answered with `<failed/>`; the stream goes on (sections 3 and 5).
    Failed(Condition),
    /// Ends the stream: an acknowledgement that means nothing leaves nothing to go on with.
    Stream(StreamError),
}

/// Reads an element whose namespace is that of stream management.
///
/// # Errors
/// What the peer did wrong, and how it is told.
pub fn parse(frame: &FrameRef<'_>) -> Result<Request, Fault> {
    match frame.name() {
        "enable" => parse_enable(frame).ok_or(Fault::Failed(Condition::BadRequest)),
        "resume" => parse_resume(frame).ok_or(Fault::Failed(Condition::BadRequest)),
        "r" => Ok(Request::AckRequest),
        "a" => match count(frame) {
            Some(h) => Ok(Request::Ack(h)),
            None => Err(Fault::Stream(StreamError::BadFormat)),
        },
        _ => Err(Fault::Stream(StreamError::UnsupportedStanzaType)),
    }
}

fn parse_enable(frame: &FrameRef<'_>) -> Option<Request> {
    let resume = match frame.attr("resume").as_deref().map(str::trim) {
        None | Some("false" | "0") => false,
        Some("true" | "1") => true,
        Some(_) => return None,
    };
    let max = match frame.attr("max") {
        None => None,
        Some(max) => Some(Duration::from_secs(number(&max)?.into())),
    };
    Some(Request::Enable { resume, max })
}

fn parse_resume(frame: &FrameRef<'_>) -> Option<Request> {
    let previd = frame.attr("previd")?;
    if previd.is_empty() || previd.len() > SM_ID_BYTES_MAX {
        return None;
    }
    let h = count(frame)?;
    let previd = previd.into();
    Some(Request::Resume { previd, h })
}

fn count(frame: &FrameRef<'_>) -> Option<u32> {
    number(&frame.attr("h")?)
}

/// `xs:unsignedInt`: digits, with white space around them at most.
fn number(text: &str) -> Option<u32> {
    let text = text.trim();
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok())?
}

/// Writes `<enabled/>` (section 3); `resumable` is the session's id and how long it is kept.
pub fn write_enabled(resumable: Option<(&str, Duration)>, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    writer.open("enabled").attr("xmlns", ns::STREAM_MANAGEMENT);
    if let Some((id, max)) = resumable {
        writer
            .attr("id", id)
            .attr("resume", "true")
            .attr("max", &max.as_secs().to_string());
    }
    writer.close();
}

/// Writes `<resumed/>` (section 5); `h` is how many of the client's stanzas have been handled.
pub fn write_resumed(previd: &str, h: u32, out: &mut Vec<u8>) {
    Writer::new(out)
        .open("resumed")
        .attr("xmlns", ns::STREAM_MANAGEMENT)
        .attr("previd", previd)
        .attr("h", &h.to_string())
        .close();
}

/// Writes `<failed/>` (sections 3 and 5). With `h` if the session is gone but its count is known,
/// so that the client sends again only what was not handled.
pub fn write_failed(condition: Condition, h: Option<u32>, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    writer.open("failed").attr("xmlns", ns::STREAM_MANAGEMENT);
    if let Some(h) = h {
        writer.attr("h", &h.to_string());
    }
    writer
        .open(condition.as_str())
        .attr("xmlns", ns::STANZA_ERRORS)
        .close();
    writer.close();
}

/// Writes `<a/>`.
pub fn write_ack(h: u32, out: &mut Vec<u8>) {
    Writer::new(out)
        .open("a")
        .attr("xmlns", ns::STREAM_MANAGEMENT)
        .attr("h", &h.to_string())
        .close();
}

/// Ends a stream whose client acknowledged what was never sent (section 4). The header must have
/// been written.
pub fn write_too_high(error: TooHigh, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    writer.open("stream:error");
    writer
        .open(StreamError::UndefinedCondition.as_str())
        .attr("xmlns", ns::STREAM_ERRORS)
        .close();
    writer
        .open("handled-count-too-high")
        .attr("xmlns", ns::STREAM_MANAGEMENT)
        .attr("h", &error.h.to_string())
        .attr("send-count", &error.sent.to_string())
        .close();
    writer.close();
    out.extend_from_slice(b"</stream:stream>");
}

#[cfg(test)]
mod tests {
    use xml::Frame;

    use super::*;

    fn parsed(xml: &str) -> Result<Request, Fault> {
        let xml = xml.replacen(' ', " xmlns='urn:xmpp:sm:3' ", 1);
        parse(&Frame::parse(xml).unwrap().as_ref())
    }

    fn enable(resume: bool, max: Option<u64>) -> Result<Request, Fault> {
        let max = max.map(Duration::from_secs);
        Ok(Request::Enable { resume, max })
    }

    #[test]
    fn what_a_client_says_is_understood() {
        assert_eq!(parsed("<enable />"), enable(false, None));
        assert_eq!(parsed("<enable resume='true'/>"), enable(true, None));
        assert_eq!(
            parsed("<enable resume='1' max='600'/>"),
            enable(true, Some(600))
        );
        assert_eq!(
            parsed("<enable resume='0' max='0'/>"),
            enable(false, Some(0))
        );
        let previd = "some id".into();
        assert_eq!(
            parsed("<resume previd='some id' h='4294967295'/>"),
            Ok(Request::Resume {
                previd,
                h: u32::MAX
            })
        );
        assert_eq!(parsed("<r />"), Ok(Request::AckRequest));
        assert_eq!(parsed("<a h=' 7 '/>"), Ok(Request::Ack(7)));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let failed = Err(Fault::Failed(Condition::BadRequest));
        let long = "x".repeat(SM_ID_BYTES_MAX + 1);
        for xml in [
            "<enable resume='maybe'/>",
            "<enable max='-1'/>",
            "<enable max='4294967296'/>",
            "<resume h='1'/>",
            "<resume previd='a'/>",
            "<resume previd='' h='1'/>",
            "<resume previd='a' h='one'/>",
            &format!("<resume previd='{long}' h='1'/>"),
        ] {
            assert_eq!(parsed(xml), failed, "{xml}");
        }
        let broken = Err(Fault::Stream(StreamError::BadFormat));
        for xml in [
            "<a />",
            "<a h=''/>",
            "<a h='-1'/>",
            "<a h='+1'/>",
            "<a h='4294967296'/>",
            "<a h='0x10'/>",
        ] {
            assert_eq!(parsed(xml), broken, "{xml}");
        }
        let unknown = Err(Fault::Stream(StreamError::UnsupportedStanzaType));
        assert_eq!(parsed("<enabled />"), unknown);
    }

    #[test]
    fn what_the_server_says_is_well_formed() {
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            let text = String::from_utf8(out).unwrap();
            text.replace(" xmlns='urn:xmpp:sm:3'", "")
        };
        let max = Duration::from_secs(600);
        assert_eq!(
            written(&|out| write_enabled(Some(("a'b", max)), out)),
            "<enabled id='a&apos;b' resume='true' max='600'/>"
        );
        assert_eq!(written(&|out| write_enabled(None, out)), "<enabled/>");
        assert_eq!(
            written(&|out| write_resumed("id", 3, out)),
            "<resumed previd='id' h='3'/>"
        );
        assert_eq!(
            written(&|out| write_ack(u32::MAX, out)),
            "<a h='4294967295'/>"
        );
        let condition = "<item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>";
        assert_eq!(
            written(&|out| write_failed(Condition::ItemNotFound, Some(5), out)),
            format!("<failed h='5'>{condition}</failed>")
        );
        assert_eq!(
            written(&|out| write_failed(Condition::ItemNotFound, None, out)),
            format!("<failed>{condition}</failed>")
        );
        let too_high = TooHigh { h: 10, sent: 8 };
        assert_eq!(
            written(&|out| write_too_high(too_high, out)),
            "<stream:error><undefined-condition xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>\
             <handled-count-too-high h='10' send-count='8'/></stream:error></stream:stream>"
        );
        for bytes in [FEATURE, super::super::REQUEST] {
            let frame = Frame::parse(bytes).unwrap();
            assert_eq!(frame.ns(), ns::STREAM_MANAGEMENT);
        }
    }
}
