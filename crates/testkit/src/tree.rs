//! A small XML tree with resolved namespaces: what a client read, or what a script expects.
//!
//! It keeps neither prefixes nor attribute order, because XMPP gives them no meaning. Names are
//! those that `rxml` made, which are not copied. It does not compare trees: see [`crate::pattern`].

use rxml::{AttrMap, Event, Namespace, NcName, Parse, Parser};
use std::fmt::{self, Write as _};

/// The namespace of `xml:lang`.
pub const NS_XML: &str = "http://www.w3.org/XML/1998/namespace";
/// The content namespace of a client's stream.
pub const NS_CLIENT: &str = "jabber:client";
/// The namespace of the stream element, its features and its errors.
pub const NS_STREAMS: &str = "http://etherx.jabber.org/streams";

/// One XML element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Namespace of the element.
    pub ns: Namespace<'static>,
    /// Local name.
    pub name: NcName,
    /// Values by (namespace, local name); the namespace is empty for plain attributes.
    pub attrs: AttrMap,
    /// Children and text in document order.
    pub nodes: Vec<Node>,
}

/// One thing inside an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A child element.
    Element(Element),
    /// Character data, with references expanded.
    Text(String),
}

// === impl Element ===

impl Element {
    /// An element as `rxml` announced it, without content.
    #[must_use]
    pub fn from_start(ns: Namespace<'static>, name: NcName, attrs: AttrMap) -> Self {
        Self {
            ns,
            name,
            attrs,
            nodes: Vec::new(),
        }
    }

    /// The value of an attribute without a namespace.
    #[must_use]
    pub fn attr(&self, name: &str) -> Option<&str> {
        self.attrs.get("", name).map(String::as_str)
    }

    /// Whether the element has this namespace and local name.
    #[must_use]
    pub fn is(&self, ns: &str, name: &str) -> bool {
        self.ns == ns && self.name == name
    }

    /// The child elements.
    pub fn children(&self) -> impl Iterator<Item = &Element> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// The first child with this namespace and name.
    #[must_use]
    pub fn child(&self, ns: &str, name: &str) -> Option<&Element> {
        self.children().find(|child| child.is(ns, name))
    }

    /// All direct character data, joined.
    #[must_use]
    pub fn text(&self) -> String {
        self.nodes
            .iter()
            .filter_map(|node| match node {
                Node::Text(text) => Some(text.as_str()),
                Node::Element(_) => None,
            })
            .collect()
    }

    /// Appends character data, joined to text that is already at the end.
    pub fn push_text(&mut self, text: String) {
        if let Some(Node::Text(last)) = self.nodes.last_mut() {
            last.push_str(&text);
        } else {
            self.nodes.push(Node::Text(text));
        }
    }

    fn write(&self, out: &mut String, parent_ns: &str, indent: usize) -> fmt::Result {
        write!(out, "{:indent$}<{}", "", self.name)?;
        if self.ns != parent_ns {
            write!(out, " xmlns='{}'", escape(&self.ns))?;
        }
        for ((ns, name), value) in &self.attrs {
            if *name == crate::pattern::MORE {
                continue;
            }
            let prefix = if ns.is_empty() {
                ""
            } else if *ns == NS_XML {
                "xml:"
            } else {
                "?:"
            };
            write!(out, " {prefix}{name}='{}'", escape(value))?;
        }
        if self.attr(crate::pattern::MORE).is_some() {
            out.write_str(" ...")?;
        }
        if self.nodes.is_empty() {
            return out.write_str("/>");
        }
        out.write_char('>')?;
        let has_children = self.children().next().is_some();
        for node in &self.nodes {
            match node {
                Node::Element(child) => {
                    out.write_char('\n')?;
                    child.write(out, &self.ns, indent + 2)?;
                }
                Node::Text(text) if has_children && text.trim().is_empty() => {}
                Node::Text(text) => out.write_str(&escape(text))?,
            }
        }
        if has_children {
            write!(out, "\n{:indent$}", "")?;
        }
        write!(out, "</{}>", self.name)
    }
}

/// Prints the element over several lines, two spaces per level.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out, NS_CLIENT, 0)?;
        f.write_str(&out)
    }
}

/// Escapes text for element content and for attribute values in either kind of quotes.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&apos;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// Reads any number of elements written as they would stand in a client's stream: the default
/// namespace is `jabber:client` and the prefix `stream` is declared.
///
/// # Errors
/// Says what is not well-formed.
pub fn parse_fragment(xml: &str) -> Result<Vec<Element>, String> {
    let document = format!(
        "<stream:stream xmlns='{NS_CLIENT}' xmlns:stream='{NS_STREAMS}'>{xml}</stream:stream>"
    );
    let mut builder = Builder::default();
    let mut parser = Parser::new();
    let mut rest = document.as_bytes();
    let mut roots = Vec::new();
    loop {
        match parser.parse(&mut rest, true) {
            Ok(Some(event)) => match builder.event(event) {
                Some(Built::Element(element)) => roots.push(element),
                Some(Built::Root(_) | Built::End) | None => {}
            },
            Ok(None) => return Ok(roots),
            Err(error) => return Err(format!("{error:?} in {xml}")),
        }
    }
}

// === Builder ===

/// What a [`Builder`] completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Built {
    /// The document's root opened; it has no content yet.
    Root(Element),
    /// A child of the root is complete.
    Element(Element),
    /// The root was closed.
    End,
}

/// Turns parser events into the children of the root, one by one.
#[derive(Debug, Default)]
pub struct Builder {
    open: Vec<Element>,
    is_in_root: bool,
}

impl Builder {
    /// Takes one event. Text directly in the root is white space between stanzas and is dropped.
    pub fn event(&mut self, event: Event) -> Option<Built> {
        match event {
            Event::XmlDeclaration(..) => None,
            Event::StartElement(_, (ns, name), attrs) => {
                let element = Element::from_start(ns, name, attrs);
                if self.is_in_root {
                    self.open.push(element);
                    return None;
                }
                self.is_in_root = true;
                Some(Built::Root(element))
            }
            Event::EndElement(_) => match self.open.pop() {
                None => Some(Built::End),
                Some(done) => match self.open.last_mut() {
                    None => Some(Built::Element(done)),
                    Some(parent) => {
                        parent.nodes.push(Node::Element(done));
                        None
                    }
                },
            },
            Event::Text(_, text) => {
                if let Some(top) = self.open.last_mut() {
                    top.push_text(text);
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_resolves_prefixes_and_the_default_namespace() {
        let parsed =
            parse_fragment("<iq id='1'/><x:q xmlns:x='urn:q'><a/>t&amp;</x:q><stream:features/>")
                .unwrap();
        assert!(parsed[0].is(NS_CLIENT, "iq"));
        assert_eq!(parsed[0].attr("id"), Some("1"));
        assert!(parsed[1].is("urn:q", "q"));
        assert!(parsed[1].child(NS_CLIENT, "a").is_some());
        assert_eq!(parsed[1].text(), "t&");
        assert!(parsed[2].is(NS_STREAMS, "features"));
    }

    #[test]
    fn printing_and_reading_again_gives_the_same_tree() {
        let parsed = parse_fragment("<m to='a&lt;b'><b xmlns='urn:b' xml:lang='en'>x</b></m>");
        let first = parsed.unwrap().remove(0);
        let mut again = parse_fragment(&first.to_string()).unwrap().remove(0);
        again
            .nodes
            .retain(|node| !matches!(node, Node::Text(text) if text.trim().is_empty()));
        assert_eq!(first, again);
    }
}
