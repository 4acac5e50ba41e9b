//! The strict parser of one element that begins at the start of its input: well-formedness,
//! namespaces, limits, and an index of what routing looks at. It allocates nothing once its scratch
//! has grown; it does not remember anything between calls (that is `framer.rs`).

use std::sync::Arc;

use memchr::memchr;
use smallvec::SmallVec;

use crate::error::Error;
use crate::escape::entity_char;
use crate::index::{Attr, ChildSpan, Index, Ns, Span};
use crate::limits::Limits;
use crate::name::{BEYOND_ASCII, is_ncname, may_start, name_class};
use crate::roots::{RootDecl, Roots};

#[derive(Clone, Copy)]
struct Open {
    name: Span,
    decls: u32,
    default: Ns,
}

#[derive(Clone, Copy)]
struct Decl {
    prefix: Span,
    value: Span,
}

/// Stacks and the index, reused by every element of a shard.
#[derive(Default)]
pub struct Scratch {
    pub(crate) index: Index,
    open: SmallVec<[Open; 8]>,
    decls: SmallVec<[Decl; 4]>,
    tag: SmallVec<[Attr; 8]>,
    expanded: SmallVec<[(Ns, Span); 4]>,
    /// What streams keep of their header, of the one that was opened last.
    pub(crate) latest_roots: Option<Arc<Roots>>,
}

pub(crate) enum Stop {
    /// The input ends inside the element.
    Incomplete,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// ASCII that needs no look in character data nor in attribute values.
const PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x80 {
        table[byte] = match byte as u8 {
            b'<' | b'>' | b'&' | b'\'' | b'"' => false,
            b'\t' | b'\n' | b'\r' | b' '.. => true,
            _ => false,
        };
        byte += 1;
    }
    table
};

/// Bytes that are looked at in one go.
const BLOCK: usize = 16;

/// Whether a block is [`PLAIN`] as far as a quick look tells: it takes what is rare for special.
/// Without a branch, so that all bytes are compared at once.
fn is_plain(block: &[u8; BLOCK]) -> bool {
    let is_special = |byte: u8| {
        let is_markup = (byte == b'<') | (byte == b'>') | (byte == b'&');
        is_markup | (byte == b'\'') | (byte == b'"') | !(b' '..0x80).contains(&byte)
    };
    !block
        .iter()
        .fold(false, |found, byte| found | is_special(*byte))
}

type Res<T> = Result<T, Stop>;

fn bad<T>(why: &'static str) -> Res<T> {
    Err(Stop::Failed(Error::NotWellFormed(why)))
}

pub(crate) struct Parser<'p> {
    pub(crate) bytes: &'p [u8],
    pub(crate) at: usize,
    pub(crate) limits: &'p Limits,
    pub(crate) roots: &'p [RootDecl],
    pub(crate) scratch: &'p mut Scratch,
    non_ascii: bool,
    /// An attribute of the current tag has a prefix.
    has_prefix: bool,
}

impl<'p> Parser<'p> {
    pub(crate) fn new(
        bytes: &'p [u8],
        limits: &'p Limits,
        roots: &'p [RootDecl],
        scratch: &'p mut Scratch,
    ) -> Self {
        scratch.open.clear();
        scratch.decls.clear();
        scratch.index.attrs.clear();
        scratch.index.children.clear();
        scratch.index.root_prefixes = 0;
        scratch.index.has_text = false;
        Parser {
            bytes,
            at: 0,
            limits,
            roots,
            scratch,
            non_ascii: false,
            has_prefix: false,
        }
    }

    /// Parses a whole element, `<` first, and returns its length.
    pub(crate) fn element(&mut self) -> Res<usize> {
        self.start_tag()?;
        while !self.scratch.open.is_empty() {
            self.text()?;
            match self.bytes.get(self.at + 1) {
                None => return Err(Stop::Incomplete),
                Some(b'/') => self.end_tag()?,
                Some(b'!') => self.cdata()?,
                Some(b'?') => return Err(Error::Restricted("a processing instruction").into()),
                Some(_) => self.start_tag()?,
            }
        }
        self.check_encoding(self.at)?;
        Ok(self.at)
    }

    /// Parses only the start tag of the stream's root.
    pub(crate) fn header(&mut self) -> Res<usize> {
        self.start_tag()?;
        if self.scratch.open.is_empty() {
            return bad("a stream that ends as it begins");
        }
        self.check_encoding(self.at)?;
        Ok(self.at)
    }

    pub(crate) fn header_decls(&self) -> impl Iterator<Item = (&'p [u8], &'p [u8])> {
        self.scratch
            .decls
            .iter()
            .map(|decl| (decl.prefix.of(self.bytes), decl.value.of(self.bytes)))
    }

    /// Where the name of the header ends, which begins behind the first byte.
    pub(crate) fn header_name_end(&self) -> usize {
        self.scratch.index.name.end as usize
    }

    fn check_encoding(&self, end: usize) -> Res<()> {
        if self.non_ascii {
            let text = std::str::from_utf8(&self.bytes[..end]).map_err(|_| Error::BadEncoding)?;
            if text.contains(['\u{fffe}', '\u{ffff}']) {
                return bad("a character that XML does not allow");
            }
        }
        Ok(())
    }

    fn peek(&self) -> Res<u8> {
        self.bytes.get(self.at).copied().ok_or(Stop::Incomplete)
    }

    /// Skips what means nothing in text and in values, and returns it.
    fn skip_plain(&mut self) -> &'p [u8] {
        let rest = &self.bytes[self.at..];
        let (blocks, _) = rest.as_chunks();
        let plain = blocks.iter().take_while(|block| is_plain(block)).count() * BLOCK;
        let tail = rest[plain..].iter();
        let plain = plain + tail.take_while(|byte| PLAIN[usize::from(**byte)]).count();
        self.at += plain;
        &rest[..plain]
    }

    fn skip_space(&mut self) -> bool {
        let from = self.at;
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.at > from
    }

    /// A name, perhaps with a prefix: whether it has one.
    fn qname(&mut self) -> Res<(Span, bool)> {
        let start = self.at;
        let mut is_name = self.ncname();
        let mut next = self.peek()?;
        let has_prefix = next == b':';
        if has_prefix {
            self.at += 1;
            is_name &= self.ncname();
            next = self.peek()?;
        }
        if is_name && next != b':' {
            Ok((span(start, self.at), has_prefix))
        } else {
            bad("a malformed name")
        }
    }

    /// A run of bytes that names are made of, and whether it is one.
    fn ncname(&mut self) -> bool {
        let rest = &self.bytes[self.at..];
        let (mut length, mut classes) = (0, 0);
        for byte in rest {
            let class = name_class(*byte);
            if class == 0 {
                break;
            }
            classes |= class;
            length += 1;
        }
        self.at += length;
        self.non_ascii |= classes & BEYOND_ASCII != 0;
        if classes & BEYOND_ASCII == 0 {
            return length > 0 && may_start(rest[0]);
        }
        is_ncname(&rest[..length])
    }

    fn start_tag(&mut self) -> Res<()> {
        let start = self.at;
        if self.scratch.open.len() >= usize::from(self.limits.depth) {
            return Err(Error::TooDeep.into());
        }
        self.at += 1;
        let name = self.qname()?;
        self.scratch.tag.clear();
        self.has_prefix = false;
        let mut attrs_end = self.at;
        let closed = loop {
            let spaced = self.skip_space();
            match self.peek()? {
                b'>' => {
                    self.at += 1;
                    break false;
                }
                b'/' => {
                    self.at += 1;
                    if self.peek()? != b'>' {
                        return bad("a stray slash in a tag");
                    }
                    self.at += 1;
                    break true;
                }
                _ if !spaced => return bad("attributes without a space between them"),
                _ => self.attribute()?,
            }
            attrs_end = self.at;
        };
        self.enter(start, name, attrs_end, closed)
    }

    fn attribute(&mut self) -> Res<()> {
        let (name, has_prefix) = self.qname()?;
        self.has_prefix |= has_prefix;
        self.skip_space();
        if self.peek()? != b'=' {
            return bad("an attribute without a value");
        }
        self.at += 1;
        self.skip_space();
        let quote = self.peek()?;
        if quote != b'"' && quote != b'\'' {
            return bad("an attribute value without quotes");
        }
        self.at += 1;
        let start = self.at;
        loop {
            self.skip_plain();
            match self.peek()? {
                byte if byte == quote => break,
                b'<' => return bad("a '<' in an attribute value"),
                b'&' => self.reference()?,
                byte => {
                    self.check_byte(byte)?;
                    self.at += 1;
                }
            }
        }
        let value = span(start, self.at);
        self.at += 1;
        if self.scratch.tag.len() >= usize::from(self.limits.attributes) {
            return Err(Error::TooManyAttributes.into());
        }
        self.scratch.tag.push(Attr { name, value });
        Ok(())
    }

    fn check_byte(&mut self, byte: u8) -> Res<()> {
        if byte >= 0x80 {
            self.non_ascii = true;
        } else if byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r') {
            return bad("a character that XML does not allow");
        }
        Ok(())
    }

    /// `&name;` with one of the five names or a number.
    fn reference(&mut self) -> Res<()> {
        let rest = &self.bytes[self.at + 1..];
        let window = &rest[..rest.len().min(12)];
        let Some(end) = memchr(b';', window) else {
            return if window.len() == 12 || window.contains(&b'<') {
                bad("a reference without an end")
            } else {
                Err(Stop::Incomplete)
            };
        };
        let name = &window[..end];
        if entity_char(name).is_none() {
            return if name.first() == Some(&b'#') || !is_ncname(name) {
                bad("a malformed reference")
            } else {
                Err(Error::Restricted("an entity reference").into())
            };
        }
        self.at += end + 2;
        Ok(())
    }

    /// Character data up to the next `<`.
    fn text(&mut self) -> Res<()> {
        let top = self.scratch.open.len() == 1;
        loop {
            let run = self.skip_plain();
            self.scratch.index.has_text |= top && run.iter().any(|byte| *byte > b' ');
            match self.peek()? {
                b'<' => return Ok(()),
                b'&' => {
                    self.scratch.index.has_text |= top;
                    self.reference()?;
                    continue;
                }
                b'>' if self.bytes[..self.at].ends_with(b"]]") => {
                    return bad("']]>' in character data");
                }
                byte => {
                    self.check_byte(byte)?;
                    self.scratch.index.has_text |= top && byte > b' ';
                }
            }
            self.at += 1;
        }
    }

    /// `<![CDATA[…]]>`, the only construct with `<!` that a stream may have.
    fn cdata(&mut self) -> Res<()> {
        const OPEN: &[u8] = b"<![CDATA[";
        let rest = &self.bytes[self.at..];
        if !rest.starts_with(OPEN) {
            return match OPEN.starts_with(rest) {
                true => Err(Stop::Incomplete),
                false if rest.starts_with(b"<!-") => Err(Error::Restricted("a comment").into()),
                false => Err(Error::Restricted("a document type or declaration").into()),
            };
        }
        self.scratch.index.has_text |= self.scratch.open.len() == 1;
        self.at += OPEN.len();
        loop {
            if self.bytes[self.at..].starts_with(b"]]>") {
                self.at += 3;
                return Ok(());
            }
            let byte = self.peek()?;
            self.check_byte(byte)?;
            self.at += 1;
        }
    }

    fn end_tag(&mut self) -> Res<()> {
        self.at += 2;
        // Invariant: `element` calls this only while an element is open.
        let open = *self.scratch.open.last().expect("an element is open");
        let expected = open.name.of(self.bytes);
        let rest = self.bytes[self.at..].strip_prefix(expected);
        if rest.is_some_and(|rest| rest.first() == Some(&b'>')) {
            self.at += expected.len() + 1;
        } else {
            let (name, _) = self.qname()?;
            self.skip_space();
            if self.peek()? != b'>' {
                return bad("a malformed end tag");
            }
            self.at += 1;
            if expected != name.of(self.bytes) {
                return bad("an end tag that does not match");
            }
        }
        self.scratch.open.pop();
        self.scratch.decls.truncate(open.decls as usize);
        self.close_child();
        Ok(())
    }

    fn close_child(&mut self) {
        if self.scratch.open.len() == 1
            && let Some(child) = self.scratch.index.children.last_mut()
        {
            child.span.end = self.at as u32;
        }
    }

    /// A start tag is complete: namespaces, uniqueness of attributes, the index.
    fn enter(
        &mut self,
        start: usize,
        (name, has_prefix): (Span, bool),
        attrs_end: usize,
        closed: bool,
    ) -> Res<()> {
        let outer = self
            .scratch
            .open
            .last()
            .map_or(Ns::Content, |open| open.default);
        let decls = self.scratch.decls.len() as u32;
        let default = self.declare(outer)?;
        let (prefix, local) = match has_prefix {
            true => split(self.bytes, name),
            false => (None, name),
        };
        let ns = match prefix {
            None => default,
            Some(prefix) => self.resolve(prefix)?,
        };
        self.check_unique()?;
        match self.scratch.open.len() {
            0 => {
                self.scratch.index.name = local;
                self.scratch.index.ns = ns;
                self.scratch.index.attrs_end = attrs_end as u32;
                let Scratch { index, tag, .. } = &mut *self.scratch;
                index.attrs.extend_from_slice(tag);
            }
            1 => {
                if self.scratch.index.children.len() >= usize::from(self.limits.children) {
                    return Err(Error::TooManyChildren.into());
                }
                let child = ChildSpan {
                    name: local,
                    ns,
                    span: span(start, self.at),
                };
                self.scratch.index.children.push(child);
            }
            _ => {}
        }
        if closed {
            self.scratch.decls.truncate(decls as usize);
            self.close_child();
        } else {
            self.scratch.open.push(Open {
                name,
                decls,
                default,
            });
        }
        Ok(())
    }

    /// Takes the declarations of the current tag and returns its default namespace.
    fn declare(&mut self, outer: Ns) -> Res<Ns> {
        let mut default = outer;
        for at in 0..self.scratch.tag.len() {
            let Attr { name, value } = self.scratch.tag[at];
            let (name, uri) = (name.of(self.bytes), value.of(self.bytes));
            if name == b"xmlns" {
                self.check_uri(uri)?;
                default = if uri.is_empty() {
                    Ns::None
                } else {
                    Ns::Here(value)
                };
            } else if let Some(prefix) = name.strip_prefix(b"xmlns:") {
                if prefix == b"xmlns" || (prefix == b"xml") != (uri == NS_XML.as_bytes()) {
                    return bad("a reserved prefix is declared");
                }
                if prefix != b"xml" {
                    self.check_uri(uri)?;
                }
                if uri.is_empty() {
                    return bad("a prefix without a namespace");
                }
                let start = self.scratch.tag[at].name.end - prefix.len() as u32;
                let prefix = Span {
                    start,
                    end: self.scratch.tag[at].name.end,
                };
                if self.scratch.decls.len() >= usize::from(self.limits.prefixes) {
                    return Err(Error::TooManyPrefixes.into());
                }
                self.scratch.decls.push(Decl { prefix, value });
            }
        }
        Ok(default)
    }

    fn check_uri(&self, uri: &[u8]) -> Res<()> {
        if uri == NS_XML.as_bytes() || uri == NS_XMLNS.as_bytes() {
            return bad("a reserved namespace is declared");
        }
        if uri
            .iter()
            .any(|byte| matches!(byte, b'&' | b'\t' | b'\n' | b'\r'))
        {
            // A documented limit: names are compared as they are written.
            return Err(Error::Restricted("a reference or line end in a namespace name").into());
        }
        Ok(())
    }

    fn resolve(&mut self, prefix: Span) -> Res<Ns> {
        let wanted = prefix.of(self.bytes);
        if wanted == b"xml" {
            return Ok(Ns::Xml);
        }
        if wanted == b"xmlns" {
            return Err(Error::UnboundPrefix.into());
        }
        let decls = self.scratch.decls.iter().rev();
        for decl in decls {
            if decl.prefix.of(self.bytes) == wanted {
                return Ok(Ns::Here(decl.value));
            }
        }
        match self
            .roots
            .iter()
            .position(|(name, _)| name.as_bytes() == wanted)
        {
            Some(at) => {
                self.scratch.index.root_prefixes |= 1 << at;
                Ok(Ns::Root(at as u16))
            }
            None => Err(Error::UnboundPrefix.into()),
        }
    }

    /// No two attributes of one name, before and after their prefixes are resolved.
    fn check_unique(&mut self) -> Res<()> {
        for (at, attr) in self.scratch.tag.iter().enumerate() {
            let name = attr.name.of(self.bytes);
            if self.scratch.tag[..at]
                .iter()
                .any(|other| other.name.of(self.bytes) == name)
            {
                return bad("an attribute twice");
            }
        }
        if !self.has_prefix {
            return Ok(());
        }
        self.scratch.expanded.clear();
        for at in 0..self.scratch.tag.len() {
            let name = self.scratch.tag[at].name;
            let (Some(prefix), local) = split(self.bytes, name) else {
                continue;
            };
            if prefix.of(self.bytes) == b"xmlns" {
                continue;
            }
            let ns = self.resolve(prefix)?;
            let twin = self.scratch.expanded.iter().any(|(other_ns, other)| {
                other.of(self.bytes) == local.of(self.bytes)
                    && ns_bytes(*other_ns, self.bytes, self.roots)
                        == ns_bytes(ns, self.bytes, self.roots)
            });
            if twin {
                return bad("an attribute twice");
            }
            self.scratch.expanded.push((ns, local));
        }
        Ok(())
    }
}

pub(crate) const NS_XML: &str = "http://www.w3.org/XML/1998/namespace";
const NS_XMLNS: &str = "http://www.w3.org/2000/xmlns/";

/// The namespace name of an index entry.
pub(crate) fn ns_bytes<'b>(ns: Ns, bytes: &'b [u8], roots: &'b [RootDecl]) -> &'b [u8] {
    match ns {
        Ns::Content => crate::NS_CONTENT.as_bytes(),
        Ns::None => b"",
        Ns::Xml => NS_XML.as_bytes(),
        Ns::Here(span) => span.of(bytes),
        Ns::Root(at) => roots[usize::from(at)].1.as_bytes(),
    }
}

fn span(start: usize, end: usize) -> Span {
    Span {
        start: start as u32,
        end: end as u32,
    }
}

fn split(bytes: &[u8], name: Span) -> (Option<Span>, Span) {
    match memchr(b':', name.of(bytes)) {
        Some(colon) => {
            let colon = name.start + colon as u32;
            (
                Some(Span {
                    start: name.start,
                    end: colon,
                }),
                Span {
                    start: colon + 1,
                    end: name.end,
                },
            )
        }
        None => (None, name),
    }
}
