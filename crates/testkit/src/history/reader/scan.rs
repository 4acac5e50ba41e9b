//! One element after the other, byte by byte: names, values, namespaces, references. Stricter than
//! XML where this server and these clients have no need: names are ASCII, there are neither CDATA
//! sections nor carriage returns, and no space around an equals sign.

use super::{Attribute, Node, Span, Stanza};
use std::fmt;

const NS_XML: &str = "http://www.w3.org/XML/1998/namespace";
const NS_XMLNS: &str = "http://www.w3.org/2000/xmlns/";
const DECLARATIONS: [&[u8]; 2] = [b"<?xml version='1.0'?>", b"<?xml version=\"1.0\"?>"];
/// Bytes of the longest reference that there is, `&#x10FFFF;`, with a few leading zeros.
const REFERENCE_BYTES_MAX: usize = 16;
/// Elements and texts, attributes and declarations that most stanzas do not exceed.
const NODES: usize = 16;
/// Bytes of what is declared at a root.
const EXTRA_BYTES: usize = 128;
/// Set in places that are in [`Stanza::extra`].
const EXTRA: u32 = 1 << 31;

/// Why there is no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// More bytes have to come.
    Incomplete,
    /// It is not well-formed.
    Because(&'static str),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Incomplete => f.write_str("there is no end to it"),
            Because(what) => f.write_str(what),
        }
    }
}

use Broken::{Because, Incomplete};

/// A name with its prefix, which may be empty.
#[derive(Clone, Copy)]
struct Name {
    whole: Span,
    prefix: Span,
    local: Span,
}

/// An element whose end has not come.
struct Open {
    node: usize,
    name: Span,
    /// Namespaces that were declared when it began.
    scopes: usize,
}

/// Reads from the start of some bytes.
pub(super) struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    extra: String,
    nodes: Vec<Node>,
    attributes: Vec<Attribute>,
    open: Vec<Open>,
    /// Prefixes and their namespaces, the innermost last.
    scopes: Vec<(Span, Span)>,
    /// Name of the element that was read first.
    first: Span,
}

impl Span {
    fn extra(start: usize, end: usize) -> Span {
        Span {
            start: start as u32 | EXTRA,
            end: end as u32 | EXTRA,
        }
    }

    /// The text that it means.
    pub(super) fn of<'a>(self, source: &'a str, extra: &'a str) -> &'a str {
        let (start, end) = (self.start & !EXTRA, self.end & !EXTRA);
        let text = if self.start & EXTRA == 0 {
            source
        } else {
            extra
        };
        &text[start as usize..end as usize]
    }
}

impl<'a> Scan<'a> {
    /// At the start of `bytes`, where these prefixes are declared.
    pub(super) fn new(bytes: &'a [u8], declared: &[(String, String)]) -> Scan<'a> {
        let mut scan = Scan {
            bytes,
            at: 0,
            extra: String::with_capacity(EXTRA_BYTES),
            nodes: Vec::with_capacity(NODES),
            attributes: Vec::with_capacity(NODES),
            open: Vec::with_capacity(NODES),
            scopes: Vec::with_capacity(NODES),
            first: Span::default(),
        };
        for (prefix, ns) in declared {
            scan.declare(prefix, ns);
        }
        scan
    }

    /// Declares a prefix that is not in the bytes.
    fn declare(&mut self, prefix: &str, ns: &str) {
        let mut add = |text: &str| {
            let from = self.extra.len();
            self.extra.push_str(text);
            Span::extra(from, self.extra.len())
        };
        let scope = (add(prefix), add(ns));
        self.scopes.push(scope);
    }

    /// How many bytes were read.
    pub(super) fn used(&self) -> usize {
        self.at
    }

    /// What was read, if it was an element.
    pub(super) fn stanza(self) -> Result<Stanza, Broken> {
        let source = std::str::from_utf8(&self.bytes[..self.at]);
        let source = source.map_err(|_| Because("text that is not UTF-8"))?;
        if !source.is_ascii() && source.contains(['\u{fffe}', '\u{ffff}']) {
            return Err(Because("a character that is none"));
        }
        Ok(Stanza {
            source: source.to_owned(),
            extra: self.extra,
            nodes: self.nodes,
            attributes: self.attributes,
        })
    }

    /// Name and prefixes of what was read, if it was the start of a root.
    pub(super) fn root(self) -> Result<(String, Vec<(String, String)>), Broken> {
        let (name, scopes) = (self.first, self.scopes.clone());
        let read = self.stanza()?;
        let text = |span| read.get(span).to_owned();
        let scopes = scopes.iter().map(|(prefix, ns)| (text(*prefix), text(*ns)));
        Ok((text(name), scopes.collect()))
    }

    // === The parts of a document ===

    /// What may stand in front of the root.
    pub(super) fn declaration(&mut self) -> Result<(), Broken> {
        if self.bytes.starts_with(b"<?") {
            let is_one = |text: &&[u8]| self.bytes.starts_with(text);
            let may_be = |text: &&[u8]| text.starts_with(self.bytes);
            match DECLARATIONS.iter().find(|text| is_one(text)) {
                Some(text) => self.at = text.len(),
                None if DECLARATIONS.iter().any(may_be) => return Err(Incomplete),
                None => return Err(Because("another declaration")),
            }
            self.space();
        }
        self.declare("xml", NS_XML);
        Ok(())
    }

    /// The end of the root, if this is it.
    pub(super) fn end_of_root(&mut self, name: &str) -> Result<bool, Broken> {
        self.space();
        if self.peek()? != b'<' {
            return Err(Because("text between stanzas"));
        }
        if *self.bytes.get(self.at + 1).ok_or(Incomplete)? != b'/' {
            return Ok(false);
        }
        self.at += 2;
        let found = self.name()?;
        self.space();
        self.expect(b'>')?;
        if self.raw(found.whole) != name.as_bytes() {
            return Err(Because("the end of another element"));
        }
        Ok(true)
    }

    /// A whole element, with all that is in it.
    pub(super) fn element(&mut self) -> Result<(), Broken> {
        self.start_tag()?;
        while !self.open.is_empty() {
            self.text()?;
            if *self.bytes.get(self.at + 1).ok_or(Incomplete)? == b'/' {
                self.end_tag()?;
            } else {
                self.start_tag()?;
            }
        }
        Ok(())
    }

    /// A start tag. True if its element ends with it.
    pub(super) fn start_tag(&mut self) -> Result<bool, Broken> {
        let (start, scopes) = (self.at, self.scopes.len());
        self.expect(b'<')?;
        let name = self.name()?;
        if self.nodes.is_empty() {
            self.first = name.whole;
        }
        let from = self.attributes.len();
        let is_empty = loop {
            let has_space = self.space();
            match self.peek()? {
                b'>' => break false,
                b'/' => {
                    self.at += 1;
                    break true;
                }
                _ if has_space => self.attribute(scopes)?,
                _ => return Err(Because("no space in front of an attribute")),
            }
        };
        self.expect(b'>')?;
        let ns = self.namespace(name.prefix)?;
        self.resolve(from)?;
        let node = self.nodes.len();
        self.nodes.push(Node {
            ns,
            name: name.local,
            attributes: span(from, self.attributes.len()),
            end: node + 1,
            source: span(start, self.at),
        });
        if is_empty {
            self.scopes.truncate(scopes);
        } else {
            self.open.push(Open {
                node,
                name: name.whole,
                scopes,
            });
        }
        Ok(is_empty)
    }

    fn end_tag(&mut self) -> Result<(), Broken> {
        self.at += 2;
        let name = self.name()?;
        self.space();
        self.expect(b'>')?;
        let open = self.open.pop().ok_or(Because("an end without a start"))?;
        if self.raw(open.name) != self.raw(name.whole) {
            return Err(Because("the end of another element"));
        }
        self.scopes.truncate(open.scopes);
        let end = self.nodes.len();
        let node = &mut self.nodes[open.node];
        node.end = end;
        node.source.end = self.at as u32;
        Ok(())
    }

    /// An attribute, or the declaration of a namespace; those of this element begin at `scopes`.
    fn attribute(&mut self, scopes: usize) -> Result<(), Broken> {
        let name = self.name()?;
        self.expect(b'=')?;
        let quote = self.peek()?;
        if !matches!(quote, b'\'' | b'"') {
            return Err(Because("a value without quotes"));
        }
        self.at += 1;
        let value = self.run(quote)?;
        self.at += 1;
        let prefix = match (self.raw(name.prefix), self.raw(name.local)) {
            (b"", b"xmlns") => Span::default(),
            (b"xmlns", _) => name.local,
            _ => {
                self.attributes.push(Attribute {
                    // Until it is known.
                    ns: name.prefix,
                    name: name.local,
                    value,
                });
                return Ok(());
            }
        };
        let ns = self.get(value)?;
        let is_reserved = ns == NS_XML || ns == NS_XMLNS;
        let declared = self.raw(prefix);
        if is_reserved || matches!(declared, b"xml" | b"xmlns") {
            return Err(Because("a reserved namespace"));
        }
        if ns.is_empty() && !declared.is_empty() {
            return Err(Because("a prefix for no namespace"));
        }
        let own = &self.scopes[scopes..];
        if own.iter().any(|(other, _)| self.raw(*other) == declared) {
            return Err(Because("a prefix that is declared twice"));
        }
        self.scopes.push((prefix, value));
        Ok(())
    }

    /// Gives the attributes of an element their namespaces.
    fn resolve(&mut self, from: usize) -> Result<(), Broken> {
        for at in from..self.attributes.len() {
            let prefix = self.attributes[at].ns;
            if !self.raw(prefix).is_empty() {
                self.attributes[at].ns = self.namespace(prefix)?;
            }
            let this = &self.attributes[at];
            let same = |a: &Attribute| {
                self.raw(a.name) == self.raw(this.name) && self.raw(a.ns) == self.raw(this.ns)
            };
            if self.attributes[from..at].iter().any(same) {
                return Err(Because("an attribute that is there twice"));
            }
        }
        Ok(())
    }

    /// What a prefix stands for here.
    fn namespace(&self, prefix: Span) -> Result<Span, Broken> {
        let prefix = self.raw(prefix);
        let mut scopes = self.scopes.iter().rev();
        match scopes.find(|(declared, _)| self.raw(*declared) == prefix) {
            Some((_, ns)) => Ok(*ns),
            None if prefix.is_empty() => Ok(Span::default()),
            None => Err(Because("a prefix that is not declared")),
        }
    }

    /// Character data up to the next tag.
    fn text(&mut self) -> Result<(), Broken> {
        let source = self.run(b'<')?;
        if source.start < source.end {
            self.nodes.push(Node {
                end: self.nodes.len() + 1,
                source,
                ..Node::default()
            });
        }
        Ok(())
    }

    // === The parts of these ===

    /// Text up to a delimiter, which stays; references in it are expanded.
    fn run(&mut self, until: u8) -> Result<Span, Broken> {
        let start = self.at;
        loop {
            match self.peek()? {
                byte if byte == until => break,
                b'&' => return self.expand(start, until),
                b'\t' | b'\n' if until != b'<' => return self.expand(start, until),
                b'<' => return Err(Because("a tag in a value")),
                b'>' if until == b'<' && self.bytes[start..self.at].ends_with(b"]]") => {
                    return Err(Because("the end of a CDATA section"));
                }
                b'\t' | b'\n' | 0x20.. => self.at += 1,
                _ => return Err(Because("a control character")),
            }
        }
        Ok(span(start, self.at))
    }

    /// As `run`, into the text that is not there in so many words.
    fn expand(&mut self, start: usize, until: u8) -> Result<Span, Broken> {
        let from = self.extra.len();
        let mut copied = start;
        loop {
            let byte = self.peek()?;
            let is_space = matches!(byte, b'\t' | b'\n') && until != b'<';
            if byte == until || byte == b'&' || is_space {
                let run = std::str::from_utf8(&self.bytes[copied..self.at]);
                self.extra
                    .push_str(run.map_err(|_| Because("text that is not UTF-8"))?);
            }
            match byte {
                byte if byte == until => break,
                b'&' => {
                    let character = self.reference()?;
                    self.extra.push(character);
                }
                _ if is_space => {
                    self.at += 1;
                    self.extra.push(' ');
                }
                b'<' => return Err(Because("a tag in a value")),
                b'>' if until == b'<' && self.bytes[copied..self.at].ends_with(b"]]") => {
                    return Err(Because("the end of a CDATA section"));
                }
                b'\t' | b'\n' | 0x20.. => {
                    self.at += 1;
                    continue;
                }
                _ => return Err(Because("a control character")),
            }
            copied = self.at;
        }
        Ok(Span::extra(from, self.extra.len()))
    }

    /// The character that a reference means.
    fn reference(&mut self) -> Result<char, Broken> {
        let rest = &self.bytes[self.at + 1..];
        let near = &rest[..rest.len().min(REFERENCE_BYTES_MAX)];
        let Some(length) = near.iter().position(|byte| *byte == b';') else {
            let is_cut = rest.len() < REFERENCE_BYTES_MAX;
            return Err(if is_cut {
                Incomplete
            } else {
                Because("a reference without an end")
            });
        };
        let wrong = Because("a reference to nothing");
        let name = std::str::from_utf8(&near[..length]).map_err(|_| wrong)?;
        self.at += length + 2;
        Ok(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "apos" => '\'',
            "quot" => '"',
            _ => {
                let digits = name.strip_prefix('#').ok_or(wrong)?;
                let (digits, radix) = match digits.strip_prefix('x') {
                    Some(digits) => (digits, 16),
                    None => (digits, 10),
                };
                let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                let code = u32::from_str_radix(digits, radix).map_err(|_| wrong)?;
                let character = char::from_u32(code).ok_or(wrong)?;
                let is_none = matches!(character, '\u{fffe}' | '\u{ffff}')
                    || character < ' ' && !matches!(character, '\t' | '\n' | '\r');
                if is_none || !is_number {
                    return Err(wrong);
                }
                character
            }
        })
    }

    fn name(&mut self) -> Result<Name, Broken> {
        let start = self.at;
        let first = self.plain_name()?;
        if self.peek()? != b':' {
            return Ok(Name {
                whole: first,
                prefix: Span::default(),
                local: first,
            });
        }
        self.at += 1;
        let local = self.plain_name()?;
        Ok(Name {
            whole: span(start, self.at),
            prefix: first,
            local,
        })
    }

    fn plain_name(&mut self) -> Result<Span, Broken> {
        let start = self.at;
        if !matches!(self.peek()?, b'a'..=b'z' | b'A'..=b'Z' | b'_') {
            return Err(Because("a name that is none"));
        }
        let is_of_name =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        while is_of_name(self.peek()?) {
            self.at += 1;
        }
        Ok(span(start, self.at))
    }

    /// Skips white space; true if there was any.
    fn space(&mut self) -> bool {
        let start = self.at;
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n')) {
            self.at += 1;
        }
        self.at > start
    }

    fn peek(&self) -> Result<u8, Broken> {
        self.bytes.get(self.at).copied().ok_or(Incomplete)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Broken> {
        if self.peek()? != byte {
            return Err(Because("another character where a tag goes on or ends"));
        }
        self.at += 1;
        Ok(())
    }

    /// The bytes that a place means.
    fn raw(&self, span: Span) -> &[u8] {
        if span.start & EXTRA == 0 {
            &self.bytes[span.start as usize..span.end as usize]
        } else {
            span.of("", &self.extra).as_bytes()
        }
    }

    fn get(&self, span: Span) -> Result<&str, Broken> {
        std::str::from_utf8(self.raw(span)).map_err(|_| Because("text that is not UTF-8"))
    }
}

fn span(start: usize, end: usize) -> Span {
    Span {
        start: start as u32,
        end: end as u32,
    }
}
