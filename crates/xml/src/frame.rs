//! A parsed top-level element: its bytes and an index of what routing looks at. Borrowed while it
//! lies in a read buffer, owned and shared once it travels. No tree is built.

use std::borrow::Cow;
use std::sync::Arc;

use memchr::memmem;

use crate::edit::Edit;
use crate::error::Error;
use crate::escape::unescape;
use crate::limits::Limits;
use crate::parse::{Index, Ns, Parser, RootDecl, Scratch, Span, Stop, ns_bytes};

/// An element in a read buffer.
#[derive(Clone, Copy)]
pub struct FrameRef<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) index: &'a Index,
    pub(crate) roots: &'a [RootDecl],
}

/// An element of its own. A clone shares the bytes.
#[derive(Clone)]
pub struct Frame(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) index: Index,
}

/// A direct child of a frame.
#[derive(Clone, Copy)]
pub struct Child<'a> {
    bytes: &'a [u8],
    name: &'a [u8],
    ns: &'a [u8],
    /// Whether the namespace comes from outside the child's own bytes.
    inherits: bool,
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Frame) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Frame {}

fn utf8(bytes: &[u8]) -> &str {
    // Invariant: the parser refuses an element that is not UTF-8, and spans end at ASCII.
    std::str::from_utf8(bytes).expect("parsed bytes are UTF-8")
}

impl<'a> FrameRef<'a> {
    /// Local name.
    pub fn name(&self) -> &'a str {
        utf8(self.index.name.of(self.bytes))
    }

    /// Namespace name.
    pub fn ns(&self) -> &'a str {
        utf8(ns_bytes(self.index.ns, self.bytes, self.roots))
    }

    /// The element as it came.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The raw value of an attribute without a prefix, references still in it.
    pub fn attr_raw(&self, name: &str) -> Option<&'a str> {
        let mut attrs = self.index.attrs.iter();
        let attr = attrs.find(|attr| attr.name.of(self.bytes) == name.as_bytes())?;
        Some(utf8(attr.value.of(self.bytes)))
    }

    /// The value of an attribute; `name` is qualified as written, like `xml:lang`.
    pub fn attr(&self, name: &str) -> Option<Cow<'a, str>> {
        self.attr_raw(name)
            .map(|raw| unescape(raw, true).map_or(Cow::Borrowed(raw), Cow::Owned))
    }

    /// Every attribute, names as written, raw values.
    pub fn attrs(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let bytes = self.bytes;
        self.index
            .attrs
            .iter()
            .map(move |attr| (utf8(attr.name.of(bytes)), utf8(attr.value.of(bytes))))
    }

    /// Direct children in order.
    pub fn children(&self) -> impl Iterator<Item = Child<'a>> + use<'a> {
        let FrameRef {
            bytes,
            index,
            roots,
        } = *self;
        index.children.iter().map(move |child| Child {
            bytes: child.span.of(bytes),
            name: child.name.of(bytes),
            ns: ns_bytes(child.ns, bytes, roots),
            inherits: match child.ns {
                Ns::Here(span) => span.start < child.span.start,
                _ => true,
            },
        })
    }

    /// The first child of a name and namespace.
    pub fn child(&self, name: &str, ns: &str) -> Option<Child<'a>> {
        self.children()
            .find(|child| child.name() == name && child.ns() == ns)
    }

    /// Whether text other than white space stands directly in the element.
    pub fn has_text(&self) -> bool {
        self.index.has_text
    }

    /// The text of the element itself, if it has no children.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        inner_text(self.bytes)
    }

    /// An owned copy. Prefixes that only the stream's root declares become declarations of its own.
    pub fn to_frame(&self) -> Frame {
        if self.index.root_prefixes == 0 {
            return Frame::from_parts(self.bytes, self.index.clone());
        }
        let mut edit = self.edit();
        for (at, (prefix, ns)) in self.roots.iter().enumerate() {
            if self.index.root_prefixes & (1 << at) != 0 {
                edit = edit.set_attr(&format!("xmlns:{prefix}"), ns);
            }
        }
        let mut bytes = Vec::new();
        edit.write(&mut bytes);
        // Invariant: the element was accepted and every prefix it uses is declared now.
        Frame::parse(bytes).expect("an accepted element parses again")
    }

    /// Starts a change of attributes or children.
    pub fn edit(&self) -> Edit<'a> {
        Edit::new(*self)
    }
}

impl Frame {
    /// Parses one complete element; without an `xmlns` it is of the content namespace.
    ///
    /// # Errors
    /// What is wrong with it; a part of an element or bytes behind it are `NotWellFormed`.
    pub fn parse(bytes: impl Into<Vec<u8>>) -> Result<Frame, Error> {
        let bytes = bytes.into();
        let limits = Limits {
            stanza_bytes: u32::MAX,
            children: u16::MAX,
            ..Limits::default()
        };
        let mut scratch = Scratch::default();
        let end = match Parser::new(&bytes, &limits, &[], &mut scratch).element() {
            Ok(end) => end,
            Err(Stop::Incomplete) => return Err(Error::NotWellFormed("an element without an end")),
            Err(Stop::Failed(error)) => return Err(error),
        };
        if end != bytes.len() {
            return Err(Error::NotWellFormed("content behind the element"));
        }
        Ok(Frame(Arc::new(Inner {
            bytes: bytes.into(),
            index: scratch.index,
        })))
    }

    pub(crate) fn from_parts(bytes: impl Into<Box<[u8]>>, index: Index) -> Frame {
        Frame(Arc::new(Inner {
            bytes: bytes.into(),
            index,
        }))
    }

    /// The same element, borrowed.
    pub fn as_ref(&self) -> FrameRef<'_> {
        FrameRef {
            bytes: &self.0.bytes,
            index: &self.0.index,
            roots: &[],
        }
    }

    /// Local name.
    pub fn name(&self) -> &str {
        self.as_ref().name()
    }

    /// Namespace name.
    pub fn ns(&self) -> &str {
        self.as_ref().ns()
    }

    /// The element's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// See [`FrameRef::attr`].
    pub fn attr(&self, name: &str) -> Option<Cow<'_, str>> {
        self.as_ref().attr(name)
    }

    /// See [`FrameRef::attr_raw`].
    pub fn attr_raw(&self, name: &str) -> Option<&str> {
        self.as_ref().attr_raw(name)
    }

    /// See [`FrameRef::attrs`].
    pub fn attrs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.as_ref().attrs()
    }

    /// See [`FrameRef::children`].
    pub fn children(&self) -> impl Iterator<Item = Child<'_>> {
        self.as_ref().children()
    }

    /// See [`FrameRef::child`].
    pub fn child(&self, name: &str, ns: &str) -> Option<Child<'_>> {
        self.as_ref().child(name, ns)
    }

    /// See [`FrameRef::text`].
    pub fn text(&self) -> Option<Cow<'_, str>> {
        inner_text(self.as_bytes())
    }

    /// See [`FrameRef::edit`].
    pub fn edit(&self) -> Edit<'_> {
        self.as_ref().edit()
    }

    /// Appends the element with `from` and `to` replaced or added: the path of a fan-out, which
    /// copies the bytes once for each recipient and builds nothing.
    pub fn write_readdressed(&self, out: &mut Vec<u8>, from: Option<&str>, to: Option<&str>) {
        let mut edit = self.edit();
        for (name, value) in [("from", from), ("to", to)] {
            if let Some(value) = value {
                edit = edit.set_attr(name, value);
            }
        }
        edit.write(out);
    }
}

impl<'a> Child<'a> {
    /// Local name.
    pub fn name(&self) -> &'a str {
        utf8(self.name)
    }

    /// Namespace name.
    pub fn ns(&self) -> &'a str {
        utf8(self.ns)
    }

    /// The child as it stands in the frame; its namespace may be declared outside.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The child as a document of its own, its namespace declared.
    pub fn to_xml(&self) -> String {
        let text = utf8(self.bytes);
        if !self.inherits {
            return text.to_owned();
        }
        let name_end = 1 + text[1..]
            .find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>')
            .unwrap_or(text.len() - 1);
        let prefix = text[1..name_end].split_once(':').map(|(prefix, _)| prefix);
        let mut value = Vec::new();
        crate::escape::attr(&mut value, self.ns());
        let decl = match prefix {
            Some(prefix) => format!(" xmlns:{prefix}='{}'", utf8(&value)),
            None => format!(" xmlns='{}'", utf8(&value)),
        };
        format!("{}{decl}{}", &text[..name_end], &text[name_end..])
    }

    /// The text inside, if there are no elements inside.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        inner_text(self.bytes)
    }

    fn parsed(&self) -> Option<Frame> {
        Frame::parse(self.to_xml()).ok()
    }

    /// The value of an attribute. Parses the child: for IQ payloads, not for the message path.
    pub fn attr(&self, name: &str) -> Option<Cow<'a, str>> {
        self.parsed()?
            .attr(name)
            .map(|value| Cow::Owned(value.into_owned()))
    }

    /// The child's own children, each a frame. Parses the child.
    pub fn children(&self) -> std::vec::IntoIter<Frame> {
        let frames: Vec<Frame> = self.parsed().map_or_else(Vec::new, |frame| {
            frame
                .children()
                .filter_map(|child| child.parsed())
                .collect()
        });
        frames.into_iter()
    }
}

/// Text between a start tag and its end tag, references and CDATA resolved; `None` if an element
/// stands there.
fn inner_text(element: &[u8]) -> Option<Cow<'_, str>> {
    let Some(start) = start_tag_end(element) else {
        return Some(Cow::Borrowed(""));
    };
    let end = memmem::rfind(element, b"</")?;
    let raw = utf8(element.get(start..end)?);
    if raw.contains("<![CDATA[") {
        let mut out = String::new();
        let mut rest = raw;
        while let Some((before, after)) = rest.split_once("<![CDATA[") {
            let (inside, after) = after.split_once("]]>")?;
            out.push_str(&unescape(before, false).unwrap_or_else(|| before.to_owned()));
            out.push_str(inside);
            rest = after;
        }
        out.push_str(&unescape(rest, false).unwrap_or_else(|| rest.to_owned()));
        return (!rest.contains('<')).then_some(Cow::Owned(out));
    }
    if raw.contains('<') {
        return None;
    }
    Some(unescape(raw, false).map_or(Cow::Borrowed(raw), Cow::Owned))
}

/// The offset behind a start tag; `None` for an empty-element tag.
fn start_tag_end(element: &[u8]) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in element.iter().enumerate() {
        match (quote, byte) {
            (Some(open), byte) if *byte == open => quote = None,
            (None, b'"' | b'\'') => quote = Some(*byte),
            (None, b'>') => return (element[at - 1] != b'/').then_some(at + 1),
            _ => {}
        }
    }
    None
}

pub(crate) fn start_tag_end_of(index: &Index, bytes: &[u8]) -> usize {
    let tail = &bytes[index.attrs_end as usize..];
    // Invariant: the tag was parsed, so a `>` follows its attributes.
    let close = memchr::memchr(b'>', tail).expect("a start tag ends");
    index.attrs_end as usize + close + 1
}

pub(crate) fn qname_end(bytes: &[u8], name: Span) -> usize {
    debug_assert!((name.end as usize) <= bytes.len());
    name.end as usize
}
