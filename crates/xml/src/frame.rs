//! A parsed top-level element: its bytes and an index of what routing looks at. Borrowed while it
//! lies in a read buffer, owned and shared once it travels. No tree is built.

use std::borrow::Cow;
use std::sync::Arc;

use memchr::memmem;

use crate::edit::Edit;
use crate::error::Error;
use crate::escape::unescape;
use crate::index::{Buffer, Index, IndexRef, Packed, Span, pack};
use crate::limits::Limits;
use crate::parse::{Parser, Scratch, Stop, ns_bytes};
use crate::roots::RootDecl;

/// An element in a read buffer.
#[derive(Clone, Copy)]
pub struct FrameRef<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) index: IndexRef<'a>,
    pub(crate) roots: &'a [RootDecl],
}

/// An element of its own. A clone shares the bytes.
///
/// One allocation: the element, its packed index, and the length of the element.
#[derive(Clone)]
pub struct Frame(Arc<[u8]>);

const LENGTH_BYTES: usize = size_of::<u32>();

/// A direct child of a frame.
#[derive(Clone, Copy)]
pub struct Child<'a> {
    bytes: &'a [u8],
    name: &'a [u8],
    ns: &'a [u8],
    parent: FrameRef<'a>,
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl std::fmt::Debug for FrameRef<'_> {
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
        utf8(self.index.name().of(self.bytes))
    }

    /// Namespace name.
    pub fn ns(&self) -> &'a str {
        utf8(ns_bytes(self.index.ns(), self.bytes, self.roots))
    }

    /// Where its start tag's name ends: the first place for an attribute.
    pub fn name_end(&self) -> usize {
        self.index.name().end as usize
    }

    /// Whether it has this local name. Cheaper than to compare [`FrameRef::name`].
    pub fn is_named(&self, name: &str) -> bool {
        self.index.name().of(self.bytes) == name.as_bytes()
    }

    /// Whether it is of this namespace. Cheaper than to compare [`FrameRef::ns`].
    pub fn is_of(&self, ns: &str) -> bool {
        ns_bytes(self.index.ns(), self.bytes, self.roots) == ns.as_bytes()
    }

    /// The element as it came.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The raw value of an attribute without a prefix, references still in it.
    pub fn attr_raw(&self, name: &str) -> Option<&'a str> {
        let mut attrs = self.index.attrs();
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
            .attrs()
            .map(move |attr| (utf8(attr.name.of(bytes)), utf8(attr.value.of(bytes))))
    }

    /// Direct children in order.
    pub fn children(&self) -> impl Iterator<Item = Child<'a>> + use<'a> {
        let parent = *self;
        parent.index.children().map(move |child| Child {
            bytes: child.span.of(parent.bytes),
            name: child.name.of(parent.bytes),
            ns: ns_bytes(child.ns, parent.bytes, parent.roots),
            parent,
        })
    }

    /// The first child of a name and namespace.
    pub fn child(&self, name: &str, ns: &str) -> Option<Child<'a>> {
        self.children().find(|child| child.is(name, ns))
    }

    /// Whether text other than white space stands directly in the element.
    pub fn has_text(&self) -> bool {
        self.index.has_text()
    }

    /// The text of the element itself, if it has no children.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        inner_text(self.bytes)
    }

    /// An owned copy. Prefixes that only the stream's root declares become declarations of its own.
    pub fn to_frame(&self) -> Frame {
        match self.index {
            IndexRef::Fresh(index) if index.root_prefixes == 0 => {
                let mut buffer = Buffer::new();
                buffer.extend_from_slice(self.bytes);
                Frame::from_parts(&mut buffer, index)
            }
            _ => self.edit().finish(),
        }
    }

    /// Starts a change of attributes or children.
    pub fn edit(&self) -> Edit<'a> {
        Edit::new(*self)
    }
}

impl Frame {
    /// Parses one complete element; without an `xmlns` it is of the content namespace. No limits
    /// hold: what a peer sent has passed the framer, and an edit may have added to it since.
    ///
    /// # Errors
    /// What is wrong with it; a part of an element or bytes behind it are `NotWellFormed`.
    pub fn parse(bytes: impl Into<Vec<u8>>) -> Result<Frame, Error> {
        Frame::parse_bytes(&mut bytes.into().into())
    }

    /// The start tag that bytes begin with, as an element without children.
    pub fn of_start_tag(bytes: &[u8]) -> Option<Frame> {
        let tag = &bytes[..start_tag_close(bytes)?];
        let tag = tag.strip_suffix(b"/").unwrap_or(tag);
        Frame::parse([tag, b"/>"].concat()).ok()
    }

    /// Whether it shares its bytes with another one.
    pub fn is_same(&self, other: &Frame) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn parse_bytes(bytes: &mut Buffer) -> Result<Frame, Error> {
        let limits = Limits {
            stanza_bytes: u32::MAX,
            depth: u16::MAX,
            attributes: u16::MAX,
            children: u16::MAX,
            prefixes: u16::MAX,
        };
        if bytes.first() != Some(&b'<') {
            return Err(Error::NotWellFormed("text outside an element"));
        }
        let mut scratch = Scratch::default();
        let end = match Parser::new(bytes, &limits, &[], &mut scratch).element() {
            Ok(end) => end,
            Err(Stop::Incomplete) => return Err(Error::NotWellFormed("an element without an end")),
            Err(Stop::Failed(error)) => return Err(error),
        };
        if end != bytes.len() {
            return Err(Error::NotWellFormed("content behind the element"));
        }
        Ok(Frame::from_parts(bytes, &scratch.index))
    }

    /// Of a whole element and its index, which needs nothing from a stream's root.
    pub(crate) fn from_parts(buffer: &mut Buffer, index: &Index) -> Frame {
        let length = buffer.len() as u32;
        pack(index, buffer);
        buffer.extend_from_slice(&length.to_le_bytes());
        Frame(Arc::from(&buffer[..]))
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        let (body, length) = self.0.split_at(self.0.len() - LENGTH_BYTES);
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
        body.split_at(length as usize)
    }

    /// The same element, borrowed.
    pub fn as_ref(&self) -> FrameRef<'_> {
        let (bytes, index) = self.parts();
        FrameRef {
            bytes,
            index: IndexRef::Packed(Packed::new(index)),
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

    /// See [`FrameRef::name_end`].
    pub fn name_end(&self) -> usize {
        self.as_ref().name_end()
    }

    /// See [`FrameRef::is_named`].
    pub fn is_named(&self, name: &str) -> bool {
        self.as_ref().is_named(name)
    }

    /// See [`FrameRef::is_of`].
    pub fn is_of(&self, ns: &str) -> bool {
        self.as_ref().is_of(ns)
    }

    /// The element's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.parts().0
    }

    /// The buffer that begins with the element's bytes, for who wants to share them.
    pub fn buffer(&self) -> Arc<[u8]> {
        Arc::clone(&self.0)
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

    /// Whether it has this local name and namespace. Cheaper than to compare the two.
    pub fn is(&self, name: &str, ns: &str) -> bool {
        self.name == name.as_bytes() && self.is_of(ns)
    }

    /// Whether it is of this namespace. Cheaper than to compare [`Child::ns`].
    pub fn is_of(&self, ns: &str) -> bool {
        self.ns == ns.as_bytes()
    }

    /// The child as it stands in the frame; its namespace may be declared outside.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The child as a document of its own: what it takes from outside is declared in it.
    pub fn to_xml(&self) -> String {
        let text = utf8(self.bytes);
        let is_end = |c: char| c.is_ascii_whitespace() || c == '/' || c == '>';
        // Invariant: the child was parsed, so its start tag ends.
        let name_end = text.find(is_end).expect("a start tag ends");
        let mut out = String::with_capacity(text.len() + 64);
        out.push_str(&text[..name_end]);
        let declared: Vec<&str> = attribute_names(text).collect();
        let mut declare = |name: &str, value: &str| {
            let quote = if value.contains('\'') { '"' } else { '\'' };
            if !declared.contains(&name) {
                out.extend([" ", name, "="]);
                out.push(quote);
                out.push_str(value);
                out.push(quote);
            }
        };
        let default = self.parent.attr_raw("xmlns").unwrap_or(crate::NS_CONTENT);
        declare("xmlns", default);
        // A prefix that does not stand in the child's text cannot be used there.
        let is_used = |prefix: &str| text.contains(&format!("{prefix}:"));
        for (name, value) in self.parent.attrs() {
            if name.strip_prefix("xmlns:").is_some_and(is_used) {
                declare(name, value);
            }
        }
        for (prefix, value) in self.parent.roots {
            let name = format!("xmlns:{prefix}");
            if is_used(prefix) && self.parent.attr_raw(&name).is_none() {
                declare(&name, value);
            }
        }
        out.push_str(&text[name_end..]);
        out
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
    const CDATA: &str = "<![CDATA[";
    let Some(start) = start_tag_end(element) else {
        return Some(Cow::Borrowed(""));
    };
    let end = memmem::rfind(element, b"</")?;
    let raw = utf8(element.get(start..end)?);
    if !raw.contains('<') {
        return Some(unescape(raw, false).map_or(Cow::Borrowed(raw), Cow::Owned));
    }
    let mut out = String::new();
    let mut rest = raw;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        let (inside, after) = tag.strip_prefix(CDATA)?.split_once("]]>")?;
        push_text(&mut out, before);
        // Only line ends are normalised in it: there are no references.
        for (at, line) in inside.split('&').enumerate() {
            out.push_str(if at == 0 { "" } else { "&" });
            push_text(&mut out, line);
        }
        rest = after;
    }
    push_text(&mut out, rest);
    Some(Cow::Owned(out))
}

fn push_text(out: &mut String, raw: &str) {
    match unescape(raw, false) {
        Some(text) => out.push_str(&text),
        None => out.push_str(raw),
    }
}

/// The names of the attributes of an element's start tag, as written.
fn attribute_names(element: &str) -> impl Iterator<Item = &str> {
    let name_end = element.find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>');
    let mut rest = &element[name_end.unwrap_or(element.len())..];
    std::iter::from_fn(move || {
        let tag = rest.trim_ascii_start();
        let (name, value) = match tag.as_bytes().first() {
            None | Some(b'/' | b'>') => return None,
            Some(_) => tag.split_once('=')?,
        };
        let value = value.trim_ascii_start();
        let quote = value.chars().next()?;
        rest = value[1..].split_once(quote)?.1;
        Some(name.trim_ascii_end())
    })
}

/// The offset behind a start tag; `None` for an empty-element tag.
fn start_tag_end(element: &[u8]) -> Option<usize> {
    let close = start_tag_close(element)?;
    (element[..close].last() != Some(&b'/')).then_some(close + 1)
}

/// The offset of the `>` that ends the tag which an element starts with.
fn start_tag_close(element: &[u8]) -> Option<usize> {
    let mut quote = None;
    element.iter().position(|byte| {
        match (quote, byte) {
            (Some(open), byte) if *byte == open => quote = None,
            (None, b'"' | b'\'') => quote = Some(*byte),
            (None, b'>') => return true,
            _ => {}
        }
        false
    })
}

pub(crate) fn start_tag_end_of(index: IndexRef<'_>, bytes: &[u8]) -> usize {
    let tail = &bytes[index.attrs_end() as usize..];
    // Invariant: the tag was parsed, so a `>` follows its attributes.
    let close = memchr::memchr(b'>', tail).expect("a start tag ends");
    index.attrs_end() as usize + close + 1
}

pub(crate) fn qname_end(bytes: &[u8], name: Span) -> usize {
    debug_assert!((name.end as usize) <= bytes.len());
    name.end as usize
}
