//! The `<body/>` of an answer: what it says of the session, and what the stream wrote, in elements
//! that stand alone.

use stdx::time::Moment;
use xml::build::Writer;

use crate::bosh::Session;
use crate::framing::{Piece, pieces, write_alone};
use crate::ns;

/// The version of BOSH that is spoken (XEP-0124 1.11).
const VERSION: (u32, u32) = (1, 11);

/// What only the first answer says (section 7.2).
pub(super) struct Creation {
    pub(super) sid: String,
    pub(super) from: Option<String>,
    pub(super) ver: Option<(u32, u32)>,
}

/// What a stream wrote.
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    /// Whether the stream has ended.
    pub(super) is_end: bool,
    /// The condition of its end, if that was an error.
    pub(super) condition: Option<&'static str>,
}

impl Content {
    pub(super) fn of(written: &[u8]) -> Content {
        let mut content = Content {
            bytes: Vec::with_capacity(written.len() + 64),
            is_end: false,
            condition: None,
        };
        for piece in pieces(written) {
            match piece {
                // There is no header; what it says is said of the session.
                Piece::Open(_) => {}
                Piece::Element(element) => {
                    if element.starts_with(b"<stream:error") {
                        content.condition = Some(condition(element));
                    }
                    write_alone(element, &mut content.bytes);
                }
                Piece::Close => content.is_end = true,
            }
        }
        content
    }
}

/// Stream errors that have a name among those of the binding (section 17.2); any other is the
/// stream's own (XEP-0206 section 6).
fn condition(error: &[u8]) -> &'static str {
    const NAMED: [&str; 4] = [
        "host-unknown",
        "improper-addressing",
        "internal-server-error",
        "system-shutdown",
    ];
    let text = String::from_utf8_lossy(error);
    let named = NAMED.into_iter().find(|name| {
        let rest = text
            .split_once('<')
            .and_then(|(_, rest)| rest.split_once('<'));
        rest.is_some_and(|(_, rest)| rest.starts_with(name))
    });
    named.unwrap_or("remote-stream-error")
}

/// The end of a session without anything else to say.
pub(super) fn write_end(condition: &str, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    writer.open("body").attr("xmlns", ns::HTTP_BIND);
    writer.attr("type", "terminate");
    if !condition.is_empty() {
        writer.attr("condition", condition);
    }
    writer.close();
}

impl<T: Copy + PartialEq> Session<T> {
    pub(super) fn write_answer(
        &mut self,
        rid: u64,
        content: &[u8],
        end: Option<&str>,
        now: Moment,
        out: &mut Vec<u8>,
    ) {
        let creation = self.creation.take();
        let mut writer = Writer::new(out);
        writer.open("body").attr("xmlns", ns::HTTP_BIND);
        if creation.is_some() || memchr::memmem::find(content, b"<stream:").is_some() {
            writer.attr("xmlns:stream", ns::STREAMS);
        }
        if let Some(creation) = &creation {
            self.write_creation(creation, rid, &mut writer);
        } else if self.uses_acks && self.rid != rid {
            // Section 9.1.
            writer.attr("ack", &self.rid.to_string());
        }
        if let Some((missed, at)) = self.report.take() {
            let millis = now.saturating_since(at).as_millis();
            writer.attr("report", &missed.to_string());
            writer.attr("time", &millis.to_string());
        }
        if let Some(condition) = end {
            writer.attr("type", "terminate");
            if !condition.is_empty() {
                writer.attr("condition", condition);
            }
        }
        writer.raw(content).close();
    }

    fn write_creation(&self, creation: &Creation, rid: u64, writer: &mut Writer<'_>) {
        let (major, minor) = creation.ver.unwrap_or(VERSION).min(VERSION);
        let seconds = |time: std::time::Duration| time.as_secs().to_string();
        writer.attr("xmlns:xmpp", ns::XBOSH);
        writer.attr("sid", &creation.sid);
        writer.attr("wait", &seconds(self.wait));
        writer.attr("ver", &format!("{major}.{minor}"));
        writer.attr("polling", &seconds(self.limits.polling));
        writer.attr("inactivity", &seconds(self.inactivity()));
        writer.attr("requests", &self.requests().to_string());
        writer.attr("hold", &self.hold.to_string());
        writer.attr("maxpause", &seconds(self.limits.pause_max));
        if self.uses_acks {
            writer.attr("ack", &rid.to_string());
        }
        if let Some(from) = &creation.from {
            writer.attr("from", from);
        }
        writer.attr("xmpp:version", "1.0");
        writer.attr("xmpp:restartlogic", "true");
    }
}
