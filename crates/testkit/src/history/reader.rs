//! Bytes of a stream in, stanzas out, for clients that read much: `quick-xml` finds the end of
//! each, and `roxmltree` reads it when it is its turn. Conversation scripts read with `rxml`, as a
//! second opinion on what the server writes; here that took a third of a schedule's time. The tests
//! compare them. Owns no sockets; what a stanza means is the device's.

use std::borrow::Cow;

use quick_xml::Error;
use quick_xml::events::Event;
use roxmltree::{Document, Node};

use crate::tree::escape;

/// Bytes of one stanza that a client reads.
const STANZA_BYTES_MAX: usize = 16 * 1024 * 1024;
/// After it the next byte begins a new stream (RFC 6120 section 6.4.6).
const RESTART: (&str, &str) = ("urn:ietf:params:xml:ns:xmpp-sasl", "success");

/// What a stream is made of.
#[derive(Debug)]
pub(super) enum Item {
    /// Its header.
    Root,
    /// A child of the root.
    Stanza(Stanza),
    /// Its end.
    End,
}

/// An incremental reader of one stream.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// What is not an item yet.
    left: Vec<u8>,
    root: Option<Root>,
}

/// The root of a stream: what each stanza is read inside of.
#[derive(Debug)]
struct Root {
    /// Its tag, with the namespaces that it declares.
    tag: String,
    name: String,
}

impl Reader {
    /// Takes bytes from the server; gives what they complete to `items`.
    ///
    /// # Errors
    /// What is not well-formed: always the server's fault.
    pub(super) fn feed(&mut self, bytes: &[u8], items: &mut Vec<Item>) -> Result<(), String> {
        let mut joined = std::mem::take(&mut self.left);
        let bytes = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            &joined
        };
        let text = match str::from_utf8(bytes) {
            Ok(text) => text,
            // The rest of a character may come.
            Err(cut) if cut.error_len().is_none() => {
                str::from_utf8(&bytes[..cut.valid_up_to()]).unwrap_or_default()
            }
            Err(why) => return Err(why.to_string()),
        };
        let mut used = 0;
        while let Some((item, length)) = self.next(&text[used..]).map_err(|why| {
            let near: String = text[used..].chars().take(200).collect();
            format!("the server's XML is broken: {why}; near {near:?}")
        })? {
            used += length;
            items.push(item);
        }
        self.left = bytes[used..].to_vec();
        if self.left.len() > STANZA_BYTES_MAX {
            return Err("there is no end to a stanza of the server".to_owned());
        }
        Ok(())
    }

    /// The item at the start of a text, and how much of it that is; nothing if more has to come.
    fn next(&mut self, text: &str) -> Result<Option<(Item, usize)>, String> {
        let mut events = quick_xml::Reader::from_str(text);
        let config = events.config_mut();
        // The end of the root has no start here. References are read with the stanza.
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
        let (mut depth, mut start) = (0, 0);
        loop {
            let before = events.buffer_position() as usize;
            let event = match events.read_event() {
                Ok(event) => event,
                Err(Error::Syntax(_)) => return Ok(None),
                Err(why) => return Err(why.to_string()),
            };
            let end = events.buffer_position() as usize;
            match (event, &self.root) {
                (Event::Eof, _) => return Ok(None),
                (Event::Decl(it), None)
                    if before == 0 && it.version().is_ok_and(|it| *it == *"1.0") => {}
                (Event::Start(tag), None) => {
                    let name = tag.name().as_ref().to_owned();
                    self.root = Some(Root::new(&text[..end], name)?);
                    return Ok(Some((Item::Root, end)));
                }
                (Event::Text(_), Some(_)) if depth > 0 => {}
                (Event::Text(_), Some(_)) if text[before..end].trim_ascii().is_empty() => {}
                (Event::GeneralRef(_), Some(_)) if depth > 0 => {}
                (Event::Start(_), Some(_)) => {
                    if depth == 0 {
                        start = before;
                    }
                    depth += 1;
                }
                (Event::Empty(_), Some(_)) if depth > 0 => {}
                (Event::Empty(_), Some(_)) => return self.stanza(&text[before..end], end),
                (Event::End(_), Some(_)) if depth > 1 => depth -= 1,
                (Event::End(_), Some(_)) if depth == 1 => {
                    return self.stanza(&text[start..end], end);
                }
                (Event::End(tag), Some(root)) if *tag.name().as_ref() == *root.name => {
                    return Ok(Some((Item::End, end)));
                }
                _ => return Err("nothing that a stream has".to_owned()),
            }
        }
    }

    fn stanza(&mut self, source: &str, end: usize) -> Result<Option<(Item, usize)>, String> {
        let Some(Root { tag, name }) = &self.root else {
            return Ok(None);
        };
        let stanza = Stanza(format!("{tag}{source}</{name}>"));
        if source.starts_with("<success") {
            let tree = stanza.parse()?;
            if Element::of(&tree).is_some_and(|element| element.is(RESTART.0, RESTART.1)) {
                self.root = None;
            }
        }
        Ok(Some((Item::Stanza(stanza), end)))
    }
}

impl Root {
    fn new(header: &str, name: String) -> Result<Self, String> {
        let whole = Stanza(format!("{header}</{name}>"));
        let tree = whole.parse()?;
        let mut tag = format!("<{name}");
        for declared in tree.root_element().namespaces() {
            let uri = escape(declared.uri());
            match declared.name() {
                None => tag += &format!(" xmlns='{uri}'"),
                Some("xml") => {}
                Some(prefix) => tag += &format!(" xmlns:{prefix}='{uri}'"),
            }
        }
        tag.push('>');
        Ok(Self { tag, name })
    }
}

/// A child of a stream's root, inside of that.
#[derive(Clone, Debug)]
pub(super) struct Stanza(String);

impl Stanza {
    /// Reads it; [`Element::of`] gives what it is.
    ///
    /// # Errors
    /// What is not well-formed.
    pub(super) fn parse(&self) -> Result<Document<'_>, String> {
        Document::parse(&self.0).map_err(|why| format!("{why} in {:?}", self.0))
    }
}

/// An element of a stanza.
#[derive(Clone, Copy)]
pub(super) struct Element<'a>(Node<'a, 'a>);

impl<'a> Element<'a> {
    /// The stanza itself.
    pub(super) fn of(tree: &'a Document<'a>) -> Option<Self> {
        tree.root_element().first_element_child().map(Element)
    }

    /// The namespace.
    pub(super) fn ns(self) -> &'a str {
        self.0.tag_name().namespace().unwrap_or_default()
    }

    /// The local name.
    pub(super) fn name(self) -> &'a str {
        self.0.tag_name().name()
    }

    /// Whether it has this namespace and local name.
    pub(super) fn is(self, ns: &str, name: &str) -> bool {
        self.name() == name && self.ns() == ns
    }

    /// As it was written.
    pub(super) fn source(self) -> &'a str {
        &self.0.document().input_text()[self.0.range()]
    }

    /// The value of an attribute without a namespace.
    pub(super) fn attr(self, name: &str) -> Option<&'a str> {
        let is_it = |a: &roxmltree::Attribute<'_, '_>| a.name() == name && a.namespace().is_none();
        let found = self.0.attributes().find(is_it)?;
        Some(found.value())
    }

    /// The child elements.
    pub(super) fn children(self) -> impl Iterator<Item = Element<'a>> {
        self.0.children().filter(Node::is_element).map(Element)
    }

    /// The first child with this namespace and name.
    pub(super) fn child(self, ns: &str, name: &str) -> Option<Element<'a>> {
        self.children().find(|child| child.is(ns, name))
    }

    /// All direct character data, joined.
    pub(super) fn text(self) -> Cow<'a, str> {
        let mut all = Cow::Borrowed("");
        for text in self.0.children().filter(Node::is_text) {
            all += text.text().unwrap_or_default();
        }
        all
    }
}

#[cfg(test)]
mod tests;
