//! The framer of one stream: finds where top-level elements end, however the bytes arrive, and has
//! each parsed once it is complete. Keeps no input: what is incomplete stays with the caller.

use std::sync::Arc;

use memchr::{memchr, memchr3};

use crate::error::Error;
use crate::frame::FrameRef;
use crate::header::StreamHeader;
use crate::index::IndexRef;
use crate::limits::Limits;
use crate::parse::{Parser, Scratch, Stop};
use crate::roots::{ROOT_DECLS_MAX, Roots};

/// What stands at the start of the input.
pub enum Event<'a> {
    /// The start tag of the stream's root.
    Open(StreamHeader<'a>),
    /// A complete top-level element.
    Stanza(FrameRef<'a>),
    /// The end tag of the stream's root.
    Close,
}

/// The result of one step.
pub struct Step<'a> {
    /// Bytes that the caller lets go of once it has handled the event.
    pub consumed: usize,
    /// `None`: more input is needed.
    pub event: Option<Event<'a>>,
}

/// The state of one stream: 24 bytes, and nothing on the heap unless the stream's root declares
/// prefixes of its own.
#[derive(Default)]
pub struct Framer {
    roots: Option<Arc<Roots>>,
    scan: Scan,
    is_open: bool,
    saw_any: bool,
}

/// The white space of XML, which is less than that of Unicode.
const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// How far an incomplete element has been looked through, so that trickled input costs linear time.
#[derive(Clone, Copy, Default)]
struct Scan {
    at: u32,
    depth: u16,
    inside: Inside,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Text,
    Tag,
    Single,
    Double,
    Cdata,
}

impl Framer {
    /// A stream of which nothing has come yet.
    pub fn new() -> Self {
        Framer::default()
    }

    /// A stream restart (RFC 6120 section 4.3.3).
    pub fn reset(&mut self) {
        *self = Framer::default();
    }

    /// Looks at the first item of `input`: all bytes that were not consumed yet. White space
    /// between items is consumed.
    ///
    /// # Errors
    /// The first thing that is wrong; the stream cannot go on after it.
    pub fn next<'a>(
        &'a mut self,
        input: &'a [u8],
        limits: &Limits,
        scratch: &'a mut Scratch,
    ) -> Result<Step<'a>, Error> {
        let space = if self.scan.at == 0 {
            leading_space(input)
        } else {
            0
        };
        let rest = &input[space..];
        if space > 0 {
            self.saw_any = true;
        }
        if rest.is_empty() {
            return Ok(Step {
                consumed: space,
                event: None,
            });
        }
        if rest[0] != b'<' {
            return Err(Error::NotWellFormed("text outside an element"));
        }
        if !self.is_open {
            return self.header(space, rest, limits, scratch);
        }
        if rest.starts_with(b"</") {
            return self.close(space, rest, limits);
        }
        if matches!(rest.get(1), Some(b'!' | b'?')) {
            return Err(forbidden(rest));
        }
        if self.scan.at > 0 && !self.scan.advance(rest, limits)? {
            return self.incomplete(space, rest, limits);
        }
        let roots = self.roots.as_deref().map_or(&[][..], |roots| &roots.decls);
        match Parser::new(rest, limits, roots, scratch).element() {
            Ok(end) if end > limits.stanza_bytes as usize => Err(Error::TooLarge),
            Ok(end) => {
                self.scan = Scan::default();
                let frame = FrameRef {
                    bytes: &rest[..end],
                    index: IndexRef::Fresh(&scratch.index),
                    roots,
                };
                Ok(Step {
                    consumed: space + end,
                    event: Some(Event::Stanza(frame)),
                })
            }
            Err(Stop::Failed(error)) => Err(error),
            Err(Stop::Incomplete) => {
                self.scan.advance(rest, limits)?;
                self.incomplete(space, rest, limits)
            }
        }
    }

    fn incomplete<'a>(
        &self,
        space: usize,
        rest: &[u8],
        limits: &Limits,
    ) -> Result<Step<'a>, Error> {
        if rest.len() > limits.stanza_bytes as usize {
            return Err(Error::TooLarge);
        }
        Ok(Step {
            consumed: space,
            event: None,
        })
    }

    fn header<'a>(
        &'a mut self,
        space: usize,
        rest: &'a [u8],
        limits: &Limits,
        scratch: &'a mut Scratch,
    ) -> Result<Step<'a>, Error> {
        if rest.starts_with(b"<?") || b"<?".starts_with(rest) {
            return self.declaration(space, rest, limits);
        }
        if rest.starts_with(b"<!") || rest.starts_with(b"</") {
            return Err(forbidden(rest));
        }
        let latest = scratch.latest_roots.take();
        let mut parser = Parser::new(rest, limits, &[], scratch);
        let end = match parser.header() {
            Ok(end) => end,
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Incomplete) => return self.incomplete(space, rest, limits),
        };
        if end > limits.stanza_bytes as usize {
            return Err(Error::TooLarge);
        }
        if parser.header_decls().count() > ROOT_DECLS_MAX {
            return Err(Error::TooManyAttributes);
        }
        let name = text(&rest[1..parser.header_name_end()]);
        let latest = latest.filter(|latest| latest.is(name, parser.header_decls()));
        let roots = latest.unwrap_or_else(|| {
            let decls = parser.header_decls();
            let decls = decls.map(|(prefix, ns)| (text(prefix).into(), text(ns).into()));
            Arc::new(Roots {
                name: name.into(),
                decls: decls.collect(),
            })
        });
        scratch.latest_roots = Some(Arc::clone(&roots));
        self.roots = Some(roots);
        self.is_open = true;
        let header = StreamHeader::new(&rest[..end], &scratch.index);
        Ok(Step {
            consumed: space + end,
            event: Some(Event::Open(header)),
        })
    }

    /// `<?xml …?>`, allowed as the very first thing of a stream.
    fn declaration<'a>(
        &mut self,
        space: usize,
        rest: &[u8],
        limits: &Limits,
    ) -> Result<Step<'a>, Error> {
        const DECLARATION_BYTES_MAX: usize = 128;
        const OPEN: &[u8] = b"<?xml";
        if !rest.starts_with(OPEN) {
            return match OPEN.starts_with(rest) {
                true => self.incomplete(space, rest, limits),
                false => Err(Error::Restricted("a processing instruction")),
            };
        }
        if self.saw_any {
            return Err(Error::NotWellFormed(
                "an XML declaration that is not at the start",
            ));
        }
        // The same answer however it is cut: what is behind the bound is not looked at.
        let window = &rest[..rest.len().min(DECLARATION_BYTES_MAX)];
        let Some(end) = window.windows(2).position(|pair| pair == b"?>") else {
            return match window.len() == DECLARATION_BYTES_MAX {
                true => Err(Error::NotWellFormed("an XML declaration without an end")),
                false => Ok(Step {
                    consumed: 0,
                    event: None,
                }),
            };
        };
        check_declaration(&rest[OPEN.len()..end])?;
        self.saw_any = true;
        Ok(Step {
            consumed: space + end + 2,
            event: None,
        })
    }

    fn close<'a>(&self, space: usize, rest: &[u8], limits: &Limits) -> Result<Step<'a>, Error> {
        let Some(end) = memchr(b'>', rest) else {
            return self.incomplete(space, rest, limits);
        };
        let name = text(&rest[2..end]).trim_end_matches(SPACE);
        let opened = self.roots.as_ref().map(|roots| &*roots.name);
        if opened != Some(name) {
            return Err(Error::NotWellFormed("an end tag that does not match"));
        }
        Ok(Step {
            consumed: space + end + 1,
            event: Some(Event::Close),
        })
    }
}

/// Parses input that is one complete element and nothing else, as a WebSocket message is
/// (RFC 7395 section 3.3.3); white space may follow it. There is no stream's root around it:
/// without an `xmlns` it is of the content namespace, and every prefix is its own.
///
/// # Errors
/// What is wrong with it; an element without an end is `NotWellFormed`.
pub fn parse_alone<'a>(
    input: &'a [u8],
    limits: &Limits,
    scratch: &'a mut Scratch,
) -> Result<FrameRef<'a>, Error> {
    if input.len() > limits.stanza_bytes as usize {
        return Err(Error::TooLarge);
    }
    match input {
        [b'<', b'!' | b'?' | b'/', ..] => return Err(forbidden(input)),
        [b'<', ..] => {}
        _ => return Err(Error::NotWellFormed("text outside an element")),
    }
    let end = match Parser::new(input, limits, &[], scratch).element() {
        Ok(end) => end,
        Err(Stop::Incomplete) => return Err(Error::NotWellFormed("an element without an end")),
        Err(Stop::Failed(error)) => return Err(error),
    };
    if leading_space(&input[end..]) < input.len() - end {
        return Err(Error::NotWellFormed("content behind the element"));
    }
    Ok(FrameRef {
        bytes: &input[..end],
        index: IndexRef::Fresh(&scratch.index),
        roots: &[],
    })
}

/// Where the element at the start of the input ends, `None` if it does not. For what was parsed or
/// written here: it looks at nothing but tags.
pub fn element_end(input: &[u8]) -> Option<usize> {
    let limits = Limits {
        depth: u16::MAX,
        ..Limits::default()
    };
    let mut scan = Scan::default();
    scan.advance(input, &limits)
        .is_ok_and(|is_complete| is_complete)
        .then_some(scan.at as usize)
}

impl Scan {
    /// Looks at what is new; true once the element is complete, as far as tags tell.
    fn advance(&mut self, input: &[u8], limits: &Limits) -> Result<bool, Error> {
        loop {
            let rest = &input[(self.at as usize).min(input.len())..];
            let Some(step) = self.step(rest, limits)? else {
                return Ok(false);
            };
            self.at += step;
            if self.depth == 0 && self.inside == Inside::Text && self.at > 0 {
                return Ok(true);
            }
        }
    }

    /// One token; `None` if the input ends before it is over.
    fn step(&mut self, rest: &[u8], limits: &Limits) -> Result<Option<u32>, Error> {
        let quote_end = |quote| memchr(quote, rest).map(|at| at as u32 + 1);
        Ok(match self.inside {
            Inside::Single | Inside::Double => {
                let quote = if self.inside == Inside::Single {
                    b'\''
                } else {
                    b'"'
                };
                let end = quote_end(quote);
                if end.is_some() {
                    self.inside = Inside::Tag;
                } else {
                    self.at += rest.len() as u32;
                }
                end
            }
            Inside::Cdata => {
                let end = memchr::memmem::find(rest, b"]]>").map(|at| at as u32 + 3);
                if end.is_some() {
                    self.inside = Inside::Text;
                } else {
                    // The last two bytes may begin the end.
                    self.at += (rest.len() as u32).saturating_sub(2);
                }
                end
            }
            Inside::Tag => match memchr3(b'>', b'\'', b'"', rest) {
                None => {
                    // A slash at the very end may belong to a `/>` that is still to come.
                    self.at += (rest.len() as u32).saturating_sub(1);
                    None
                }
                Some(at) => {
                    match rest[at] {
                        b'\'' => self.inside = Inside::Single,
                        b'"' => self.inside = Inside::Double,
                        _ => {
                            self.inside = Inside::Text;
                            if at > 0 && rest[at - 1] == b'/' {
                                self.depth -= 1;
                            }
                        }
                    }
                    Some(at as u32 + 1)
                }
            },
            Inside::Text => self.text_step(rest, limits)?,
        })
    }

    fn text_step(&mut self, rest: &[u8], limits: &Limits) -> Result<Option<u32>, Error> {
        const CDATA: &[u8] = b"<![CDATA[";
        let Some(at) = memchr(b'<', rest) else {
            self.at += rest.len() as u32;
            return Ok(None);
        };
        let tag = &rest[at..];
        match tag.get(1) {
            None => {
                self.at += at as u32;
                Ok(None)
            }
            Some(b'/') => {
                let end = memchr(b'>', tag);
                if end.is_some() {
                    self.depth = self.depth.saturating_sub(1);
                } else {
                    self.at += at as u32;
                }
                Ok(end.map(|end| (at + end) as u32 + 1))
            }
            Some(b'!') if tag.starts_with(CDATA) => {
                self.inside = Inside::Cdata;
                Ok(Some((at + CDATA.len()) as u32))
            }
            Some(b'!') if CDATA.starts_with(tag) => {
                self.at += at as u32;
                Ok(None)
            }
            Some(b'!' | b'?') => Err(forbidden(tag)),
            Some(_) => {
                if self.depth >= limits.depth {
                    return Err(Error::TooDeep);
                }
                self.depth += 1;
                self.inside = Inside::Tag;
                Ok(Some(at as u32 + 1))
            }
        }
    }
}

fn forbidden(rest: &[u8]) -> Error {
    if rest.starts_with(b"</") {
        Error::NotWellFormed("an end tag that does not match")
    } else if rest.starts_with(b"<?") {
        Error::Restricted("a processing instruction")
    } else if rest.starts_with(b"<!-") {
        Error::Restricted("a comment")
    } else {
        Error::Restricted("a document type or declaration")
    }
}

/// Section 2.8 of XML 1.0: a version, then perhaps an encoding and a standalone declaration.
fn check_declaration(body: &[u8]) -> Result<(), Error> {
    let body = std::str::from_utf8(body).map_err(|_| Error::BadEncoding)?;
    let mut rest = body;
    let mut order = 0;
    while !rest.trim_matches(SPACE).is_empty() {
        if !rest.starts_with(SPACE) {
            return Err(Error::NotWellFormed("a malformed XML declaration"));
        }
        let malformed = || Error::NotWellFormed("a malformed XML declaration");
        let (name, tail) = rest
            .trim_start_matches(SPACE)
            .split_once('=')
            .ok_or_else(malformed)?;
        let tail = tail.trim_start_matches(SPACE);
        let quote = tail
            .chars()
            .next()
            .filter(|c| matches!(c, '"' | '\''))
            .ok_or_else(malformed)?;
        let (value, tail) = tail[1..].split_once(quote).ok_or_else(malformed)?;
        let place = match name.trim_end_matches(SPACE) {
            "version" if value == "1.0" => 1,
            "version" => return Err(Error::BadVersion),
            "encoding" if value.eq_ignore_ascii_case("utf-8") => 2,
            "encoding" => return Err(Error::BadEncoding),
            "standalone" if matches!(value, "yes" | "no") => 3,
            _ => return Err(malformed()),
        };
        if place <= order || (order == 0 && place != 1) {
            return Err(malformed());
        }
        order = place;
        rest = tail;
    }
    if order == 0 {
        Err(Error::BadVersion)
    } else {
        Ok(())
    }
}

fn leading_space(input: &[u8]) -> usize {
    input
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
        .count()
}

fn text(bytes: &[u8]) -> &str {
    // Names and declarations of an accepted header are UTF-8; an end tag that is not matches none.
    std::str::from_utf8(bytes).unwrap_or_default()
}
