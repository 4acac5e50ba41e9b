//! The `<body/>` of a request (XEP-0124 section 6): read, bounded, and checked as far as one
//! request alone can be.

use std::fmt::Write as _;

use xml::{FrameRef, Scratch};

use crate::bosh::Condition;
use crate::ns;

/// The largest request id: what a double holds exactly (section 14.1).
const RID_MAX: u64 = (1 << 53) - 1;

/// Bytes of an attribute that is remembered.
const ATTRIBUTE_BYTES_MAX: usize = 256;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its id.
    pub rid: u64,
    /// What else its `<body/>` says.
    pub attributes: Box<Attributes>,
    /// The whole `<body/>`, with an end tag, if there are payloads in it.
    pub body: Vec<u8>,
}

/// What a `<body/>` says, as far as anybody here wants to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The session; none in the request that asks for one.
    pub sid: Option<String>,
    /// The domain.
    pub to: Option<String>,
    /// The language.
    pub lang: Option<String>,
    /// The version of BOSH.
    pub ver: Option<(u32, u32)>,
    /// Seconds that a request may be held.
    pub wait: Option<u64>,
    /// Requests that may be held.
    pub hold: Option<u64>,
    /// The highest id of which an answer has come, or that there will be such.
    pub ack: Option<u64>,
    /// The content type of answers.
    pub content: Option<String>,
    /// Seconds of a pause.
    pub pause: Option<u64>,
    /// The next key.
    pub key: Option<String>,
    /// The first key of a new sequence.
    pub newkey: Option<String>,
    /// The version of XMPP (XEP-0206 section 3).
    pub xmpp_version: Option<String>,
    /// A new stream is wanted (XEP-0206 section 5).
    pub is_restart: bool,
    is_terminate: bool,
}

impl Request {
    /// Reads the body of an HTTP request.
    ///
    /// # Errors
    /// [`Condition::BadRequest`] for what is no `<body/>`, [`Condition::PolicyViolation`] for one
    /// that exceeds a limit.
    pub fn parse(
        input: &[u8],
        limits: &xml::Limits,
        scratch: &mut Scratch,
    ) -> Result<Request, Condition> {
        let frame = xml::parse_alone(without_declaration(input), limits, scratch);
        let frame = frame.map_err(|error| match error {
            xml::Error::TooLarge
            | xml::Error::TooDeep
            | xml::Error::TooManyAttributes
            | xml::Error::TooManyChildren
            | xml::Error::TooManyPrefixes => Condition::PolicyViolation,
            _ => Condition::BadRequest,
        })?;
        if frame.name() != "body" || frame.ns() != ns::HTTP_BIND || frame.has_text() {
            return Err(Condition::BadRequest);
        }
        let attributes = Attributes::read(&frame)?;
        let rid = number(&frame, "rid")?.filter(|rid| (1..=RID_MAX).contains(rid));
        let rid = rid.ok_or(Condition::BadRequest)?;
        let has_payload = frame.children().next().is_some();
        Ok(Request {
            rid,
            attributes: Box::new(attributes),
            body: match has_payload {
                true => frame.as_bytes().to_vec(),
                false => Vec::new(),
            },
        })
    }

    /// The session that a body names which is no request: as far as its start tag can be read.
    pub fn session_of(input: &[u8], limits: &xml::Limits, scratch: &mut Scratch) -> Option<String> {
        let input = without_declaration(input);
        let mut quote = None;
        let end = input.iter().position(|byte| {
            match (quote, byte) {
                (None, b'\'' | b'"') => quote = Some(*byte),
                (Some(open), byte) if open == *byte => quote = None,
                _ => {}
            }
            quote.is_none() && *byte == b'>'
        })?;
        let tag = input[..end].strip_suffix(b"/").unwrap_or(&input[..end]);
        let tag = [tag, b"/>"].concat();
        let frame = xml::parse_alone(&tag, limits, scratch).ok()?;
        let is_body = frame.name() == "body" && frame.ns() == ns::HTTP_BIND;
        is_body
            .then(|| text(&frame, "sid").ok().flatten())
            .flatten()
    }

    /// Whether it ends its session (section 13).
    pub fn is_terminate(&self) -> bool {
        self.attributes.is_terminate
    }

    /// Whether it brings nothing and wants nothing but an answer.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty() && !self.is_terminate() && !self.attributes.is_restart
    }
}

impl Attributes {
    fn read(frame: &FrameRef<'_>) -> Result<Attributes, Condition> {
        let of_xmpp = |name: &str| {
            // A namespace may have several prefixes.
            frame.attrs().find_map(|(declared, value)| {
                let prefix = declared.strip_prefix("xmlns:")?;
                let is_ours = value == ns::XBOSH;
                is_ours.then(|| frame.attr(&format!("{prefix}:{name}")))?
            })
        };
        Ok(Attributes {
            sid: text(frame, "sid")?,
            to: text(frame, "to")?,
            lang: text(frame, "xml:lang")?,
            ver: frame.attr("ver").and_then(|ver| version(&ver)),
            wait: number(frame, "wait")?,
            hold: number(frame, "hold")?,
            ack: number(frame, "ack")?,
            content: text(frame, "content")?,
            pause: number(frame, "pause")?,
            key: text(frame, "key")?,
            newkey: text(frame, "newkey")?,
            xmpp_version: of_xmpp("version").map(|version| version.into_owned()),
            is_restart: of_xmpp("restart").is_some_and(|value| matches!(&*value, "true" | "1")),
            is_terminate: frame.attr("type").as_deref() == Some("terminate"),
        })
    }
}

/// Section 6 forbids processing instructions; a declaration is none, and some clients send one.
fn without_declaration(input: &[u8]) -> &[u8] {
    let input = input.trim_ascii_start();
    if !input.starts_with(b"<?xml ") {
        return input;
    }
    let end = memchr::memmem::find(&input[..input.len().min(128)], b"?>");
    end.map_or(input, |end| input[end + 2..].trim_ascii_start())
}

fn text(frame: &FrameRef<'_>, name: &str) -> Result<Option<String>, Condition> {
    match frame.attr(name) {
        Some(value) if value.len() > ATTRIBUTE_BYTES_MAX => Err(Condition::BadRequest),
        other => Ok(other.map(|value| value.into_owned())),
    }
}

fn number(frame: &FrameRef<'_>, name: &str) -> Result<Option<u64>, Condition> {
    let parse = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    match frame.attr(name) {
        None => Ok(None),
        Some(text) => parse(&text).map(Some).ok_or(Condition::BadRequest),
    }
}

fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether a key hashes to the one that was named before it (section 15.4).
pub(super) fn is_key_of(key: &str, expected: &str) -> bool {
    let hash = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes());
    let mut hex = String::with_capacity(40);
    for byte in hash.as_ref() {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex.eq_ignore_ascii_case(expected)
}
