//! Bytes of a stream in, stanzas out, for clients that read much. Nothing is copied out of a
//! stanza: an element is a place in a list, its names and values are places in the bytes.
//!
//! Conversation scripts read with `rxml`, as a second opinion on what the server writes; here that
//! took a third of a schedule's time. What it refuses is refused here too, and what both take says
//! the same to both: the tests compare them. Owns no sockets; what a stanza means is the device's.

mod scan;

use scan::{Broken, Scan};
use std::borrow::Cow;

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
    /// The name of the root as it was written, and the namespaces declared there.
    root: Option<(String, Vec<(String, String)>)>,
}

impl Reader {
    /// Takes bytes from the server; gives what they complete to `items`.
    ///
    /// # Errors
    /// What is not well-formed: always the server's fault.
    pub(super) fn feed(&mut self, bytes: &[u8], items: &mut Vec<Item>) -> Result<(), String> {
        let joined;
        let mut rest = if self.left.is_empty() {
            bytes
        } else {
            self.left.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.left);
            &joined
        };
        loop {
            match self.next(rest) {
                Ok((item, used)) => {
                    rest = &rest[used..];
                    items.push(item);
                }
                Err(Broken::Incomplete) if rest.len() <= STANZA_BYTES_MAX => {
                    self.left = rest.to_vec();
                    return Ok(());
                }
                Err(why) => {
                    let near = String::from_utf8_lossy(&rest[..rest.len().min(200)]);
                    return Err(format!("the server's XML is broken: {why}; near {near:?}"));
                }
            }
        }
    }

    /// The item at the start of these bytes, and how many are used up.
    fn next(&mut self, bytes: &[u8]) -> Result<(Item, usize), Broken> {
        let Some((name, declared)) = &self.root else {
            let mut scan = Scan::new(bytes, &[]);
            scan.declaration()?;
            let is_empty = scan.start_tag()?;
            if is_empty {
                return Err(Broken::Because("a stream that is empty"));
            }
            let used = scan.used();
            self.root = Some(scan.root()?);
            return Ok((Item::Root, used));
        };
        let mut scan = Scan::new(bytes, declared);
        if scan.end_of_root(name)? {
            return Ok((Item::End, scan.used()));
        }
        scan.element()?;
        let used = scan.used();
        let stanza = scan.stanza()?;
        if stanza.element().is(RESTART.0, RESTART.1) {
            self.root = None;
        }
        Ok((Item::Stanza(stanza), used))
    }
}

/// From where to where in the text of a stanza.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

/// An element, or a run of text, which has no name.
#[derive(Clone, Debug, Default)]
struct Node {
    ns: Span,
    name: Span,
    /// From where to where in the list of all attributes.
    attributes: Span,
    /// The number of the node behind its last descendant.
    end: usize,
    /// The element as it was written; the text as it is meant.
    source: Span,
}

#[derive(Clone, Debug)]
struct Attribute {
    /// Empty for one without a prefix.
    ns: Span,
    name: Span,
    value: Span,
}

/// A child of a stream's root, with all that is in it.
#[derive(Clone, Debug)]
pub(super) struct Stanza {
    /// As it was written.
    source: String,
    /// What is meant but not there in so many words.
    extra: String,
    nodes: Vec<Node>,
    attributes: Vec<Attribute>,
}

impl Stanza {
    /// The stanza itself.
    pub(super) fn element(&self) -> Element<'_> {
        Element {
            stanza: self,
            at: 0,
        }
    }

    fn get(&self, span: Span) -> &str {
        span.of(&self.source, &self.extra)
    }
}

/// An element of a stanza.
#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    stanza: &'a Stanza,
    at: usize,
}

impl<'a> Element<'a> {
    fn node(self) -> &'a Node {
        &self.stanza.nodes[self.at]
    }

    /// The namespace.
    pub(super) fn ns(self) -> &'a str {
        self.stanza.get(self.node().ns)
    }

    /// The local name.
    pub(super) fn name(self) -> &'a str {
        self.stanza.get(self.node().name)
    }

    /// Whether it has this namespace and local name.
    pub(super) fn is(self, ns: &str, name: &str) -> bool {
        self.name() == name && self.ns() == ns
    }

    /// As it was written.
    pub(super) fn source(self) -> &'a str {
        self.stanza.get(self.node().source)
    }

    /// Its attributes, with the empty namespace if they have none.
    fn attributes(self) -> &'a [Attribute] {
        let span = self.node().attributes;
        &self.stanza.attributes[span.start as usize..span.end as usize]
    }

    /// The value of an attribute without a namespace.
    pub(super) fn attr(self, name: &str) -> Option<&'a str> {
        let stanza = self.stanza;
        let is_it = |a: &&Attribute| stanza.get(a.name) == name && stanza.get(a.ns).is_empty();
        let found = self.attributes().iter().find(is_it)?;
        Some(stanza.get(found.value))
    }

    /// The numbers of the nodes inside it, without theirs.
    fn inside(self) -> impl Iterator<Item = usize> {
        let (nodes, end) = (&self.stanza.nodes, self.node().end);
        let first = Some(self.at + 1).filter(|at| *at < end);
        std::iter::successors(first, move |at| Some(nodes[*at].end).filter(|at| *at < end))
    }

    /// The child elements.
    pub(super) fn children(self) -> impl Iterator<Item = Element<'a>> {
        let stanza = self.stanza;
        let inside = self.inside().map(move |at| Element { stanza, at });
        inside.filter(|child| !child.node().is_text())
    }

    /// The first child with this namespace and name.
    pub(super) fn child(self, ns: &str, name: &str) -> Option<Element<'a>> {
        self.children().find(|child| child.is(ns, name))
    }

    /// All direct character data, joined.
    pub(super) fn text(self) -> Cow<'a, str> {
        let mut all = Cow::Borrowed("");
        for at in self.inside() {
            let node = &self.stanza.nodes[at];
            if node.is_text() {
                all += self.stanza.get(node.source);
            }
        }
        all
    }
}

impl Node {
    fn is_text(&self) -> bool {
        self.name.start == self.name.end
    }
}

#[cfg(test)]
mod tests;
