//! A second opinion on streams and elements: what `rxml` reads in them, and a comparison with what
//! the framer makes of them. Shared by the property test and the fuzz targets. It panics where the
//! two differ in anything but the documented limits.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "each of its users needs a part of it"
)]

use std::collections::BTreeMap;

use rxml::error::EndOrError;
use rxml::{Parse as _, WithOptions as _};
use xml::{Error, Event, Frame, FrameRef, Framer, Limits, Scratch};

const XML_NS: &str = "http://www.w3.org/XML/1998/namespace";
const XMLNS_NS: &str = "http://www.w3.org/2000/xmlns/";
const TOKEN_BYTES_MAX: usize = 1 << 20;

/// An element with everything resolved; prefixes and the order of attributes mean nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    pub ns: String,
    pub name: String,
    /// By (namespace, local name).
    pub attrs: BTreeMap<(String, String), String>,
    pub nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Element(Element),
    Text(String),
}

/// A top-level item of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Open(Element),
    Stanza(Element),
    /// Text between stanzas that is not only white space.
    Text,
    Close,
}

/// Why `rxml` stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Against XML or its namespaces.
    Malformed(String),
    /// Something that `rxml` leaves out of XML.
    Restricted(String),
}

/// What `rxml` reads in a stream, each item with the offset behind it.
#[derive(Debug, Default)]
pub struct Reading {
    pub items: Vec<(Item, usize)>,
    pub refusal: Option<Refusal>,
}

impl Element {
    fn push_text(&mut self, text: &str) {
        match self.nodes.last_mut() {
            Some(Node::Text(last)) => last.push_str(text),
            _ => self.nodes.push(Node::Text(text.to_owned())),
        }
    }

    pub fn children(&self) -> impl Iterator<Item = &Element> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// The text inside, if there are no elements inside.
    pub fn text(&self) -> Option<String> {
        match self.nodes.as_slice() {
            [] => Some(String::new()),
            [Node::Text(text)] => Some(text.clone()),
            _ => None,
        }
    }

    pub fn attr(&self, name: &str) -> Option<&str> {
        let key = (String::new(), name.to_owned());
        self.attrs.get(&key).map(String::as_str)
    }
}

fn parser() -> rxml::Parser {
    rxml::Parser::with_options(rxml::Options {
        max_token_length: TOKEN_BYTES_MAX,
        ..rxml::Options::default()
    })
}

/// Turns carriage returns that stand alone into line feeds, as XML 1.0 section 2.11 asks, because
/// `rxml` loses or refuses them in attribute values. Nothing moves.
fn with_line_feeds(input: &[u8]) -> Vec<u8> {
    let mut input = input.to_vec();
    for at in 0..input.len() {
        if input[at] == b'\r' && input.get(at + 1) != Some(&b'\n') {
            input[at] = b'\n';
        }
    }
    input
}

/// Leaves out the white space of XML, which has no form feed, at the start.
fn skip_space(input: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = input.iter().position(|byte| !is_space(byte));
    &input[start.unwrap_or(input.len())..]
}

/// Reads a stream up to its end, its first error, or the end of the input.
pub fn read(input: &[u8]) -> Reading {
    // `rxml` refuses white space at the very start, XML only if a declaration follows it.
    let input = with_line_feeds(input);
    let trimmed = skip_space(&input);
    let is_declared = trimmed.starts_with(b"<?") || b"<?".starts_with(trimmed);
    let whole = input.len();
    let mut input = if is_declared { &input } else { trimmed };
    let mut parser = parser();
    let mut reading = Reading::default();
    let mut open: Vec<Element> = Vec::new();
    let mut is_in_root = false;
    loop {
        let event = match parser.parse(&mut input, false) {
            Ok(Some(event)) => event,
            Ok(None) | Err(EndOrError::NeedMoreData) => return reading,
            Err(EndOrError::Error(error)) => {
                let text = error.to_string();
                reading.refusal = Some(match error {
                    rxml::Error::RestrictedXml(_) => Refusal::Restricted(text),
                    // It knows all characters of names but the last range of XML's.
                    rxml::Error::UnexpectedChar(_, '\u{fdf0}'..='\u{fffd}', _) => {
                        Refusal::Restricted(text)
                    }
                    _ => Refusal::Malformed(text),
                });
                return reading;
            }
        };
        let offset = whole - input.len();
        let item = match event {
            rxml::Event::XmlDeclaration(..) => continue,
            rxml::Event::StartElement(_, (ns, name), attrs) => {
                let attrs = attrs.into_iter();
                let element = Element {
                    ns: ns.to_string(),
                    name: name.to_string(),
                    attrs: attrs
                        .map(|((ns, name), value)| ((ns.to_string(), name.to_string()), value))
                        .collect(),
                    nodes: Vec::new(),
                };
                if is_in_root {
                    open.push(element);
                    continue;
                }
                is_in_root = true;
                Item::Open(element)
            }
            rxml::Event::EndElement(_) => match (open.pop(), open.last_mut()) {
                (None, _) => {
                    reading.items.push((Item::Close, offset));
                    return reading;
                }
                (Some(done), Some(parent)) => {
                    parent.nodes.push(Node::Element(done));
                    continue;
                }
                (Some(done), None) => Item::Stanza(done),
            },
            rxml::Event::Text(_, text) => match open.last_mut() {
                Some(element) => {
                    element.push_text(&text);
                    continue;
                }
                None if text.trim_matches([' ', '\t', '\r', '\n']).is_empty() => continue,
                None => Item::Text,
            },
        };
        reading.items.push((item, offset));
    }
}

/// Reads one element that stands in a stream of the content namespace `ns`.
///
/// # Errors
/// What is not well-formed, or that it is not one element.
pub fn read_element(xml: &[u8], ns: &str) -> Result<Element, String> {
    let mut stream = match ns {
        "" => b"<s>".to_vec(),
        _ => format!("<s xmlns=\"{}\">", escape(ns)).into_bytes(),
    };
    stream.extend_from_slice(xml);
    stream.extend_from_slice(b"</s>");
    let reading = read(&stream);
    match (&reading.items[..], reading.refusal) {
        ([_, (Item::Stanza(element), _), (Item::Close, _)], None) => Ok(element.clone()),
        (_, Some(refusal)) => Err(format!("{refusal:?}")),
        (items, None) => Err(format!("not one element: {items:?}")),
    }
}

/// Reads any number of elements that stand in a client's stream.
///
/// # Errors
/// What is not well-formed.
pub fn read_elements(xml: &[u8]) -> Result<Vec<Element>, String> {
    let open = "<stream:stream xmlns='jabber:client' \
                xmlns:stream='http://etherx.jabber.org/streams'>";
    let stream = [open.as_bytes(), xml, b"</stream:stream>"].concat();
    let reading = read(&stream);
    let mut elements = Vec::new();
    let is_whole = matches!(reading.items.last(), Some((Item::Close, _)));
    for (item, _) in reading.items {
        match item {
            Item::Stanza(element) => elements.push(element),
            Item::Text => return Err("text between elements".into()),
            Item::Open(_) | Item::Close => {}
        }
    }
    match reading.refusal {
        None if is_whole => Ok(elements),
        refusal => Err(format!("{refusal:?}")),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

/// Feeds `input` to a framer in pieces of the given sizes (the last one for all that is left) and
/// compares what comes out with what `rxml` reads. Returns how many items there were.
pub fn compare(input: &[u8], sizes: &[usize], limits: &Limits) -> usize {
    let theirs = read(input);
    let mut framer = Framer::new();
    let mut scratch = Scratch::default();
    let mut content_ns = String::new();
    // `at` is what the framer let go of, `known` what has come.
    let (mut at, mut known, mut count) = (0, 0, 0);
    let mut sizes = sizes.iter().copied();
    loop {
        let step = match framer.next(&input[at..known], limits, &mut scratch) {
            Ok(step) => step,
            Err(error) => {
                refused(input, at, count, error, &theirs, limits);
                return count;
            }
        };
        let is_stuck = step.event.is_none() && step.consumed == 0;
        let end = at + step.consumed;
        if let Some(event) = step.event {
            let found = theirs.items.get(count);
            let Some((item, their_end)) = found else {
                let said = theirs.refusal.as_ref();
                if matches!(said, Some(Refusal::Restricted(_))) {
                    return count;
                }
                panic!("the framer reads on at {at}, rxml said {said:?}");
            };
            assert_eq!(end, *their_end, "item {count} ends elsewhere: {item:?}");
            match (event, item) {
                (Event::Open(header), Item::Open(root)) => {
                    header.content_ns().clone_into(&mut content_ns);
                    assert_eq!((header.name(), header.ns()), (&*root.name, &*root.ns));
                    for ((ns, name), value) in &root.attrs {
                        if ns.is_empty() {
                            assert_eq!(header.attr(name).as_deref(), Some(&**value), "{name}");
                        }
                    }
                }
                (Event::Stanza(frame), Item::Stanza(element)) => {
                    check_frame(&frame, element, &content_ns);
                    let owned = frame.to_frame();
                    check_frame(&owned.as_ref(), element, &content_ns);
                    let again = read_element(owned.as_bytes(), &content_ns);
                    assert_eq!(again.as_ref(), Ok(element), "{owned:?}");
                }
                (Event::Close, Item::Close) => return count + 1,
                (_, item) => panic!("item {count} is another: {item:?}"),
            }
            count += 1;
        }
        at = end;
        if is_stuck {
            if known == input.len() {
                break;
            }
            let size = sizes.next().unwrap_or(usize::MAX).max(1);
            known = known.saturating_add(size).min(input.len());
        }
    }
    // What `rxml` refuses may still lie in an element that is not complete.
    assert_eq!(count, theirs.items.len(), "rxml reads more: {theirs:?}");
    if theirs.refusal.is_some() {
        let left = &input[at..];
        assert!(!left.is_empty(), "rxml refuses what was taken: {theirs:?}");
    }
    count
}

/// The framer refused: rightly, or within its documented limits.
fn refused(input: &[u8], at: usize, count: usize, error: Error, theirs: &Reading, limits: &Limits) {
    match error {
        Error::Restricted(_) => {}
        Error::TooLarge => assert!(input.len() > limits.stanza_bytes as usize, "{error:?}"),
        Error::TooDeep => {
            let tags = input[at..].iter().filter(|byte| **byte == b'<').count();
            assert!(tags > usize::from(limits.depth), "{error:?}");
        }
        Error::TooManyAttributes => {
            let signs = input[at..].iter().filter(|byte| **byte == b'=').count();
            assert!(signs > usize::from(limits.attributes), "{error:?}");
        }
        Error::TooManyPrefixes => {
            let signs = input[at..].windows(6).filter(|six| six == b"xmlns:");
            assert!(signs.count() > usize::from(limits.prefixes), "{error:?}");
        }
        Error::TooManyChildren => {
            let tags = input[at..].iter().filter(|byte| **byte == b'<').count();
            assert!(tags > usize::from(limits.children), "{error:?}");
        }
        Error::NotWellFormed("text outside an element") => {
            let rest = skip_space(&input[at..]);
            assert_ne!(rest.first(), Some(&b'<'), "there is an element");
        }
        // Documented limits.
        Error::NotWellFormed("an XML declaration without an end") => {
            assert!(input.len() - at >= 128, "there is room for an end");
        }
        Error::NotWellFormed("a stream that ends as it begins") => {}
        // Section 3 of Namespaces in XML; `rxml` lets them be default namespaces.
        Error::NotWellFormed("a reserved namespace is declared") => {
            let names = [XMLNS_NS, XML_NS];
            let input = String::from_utf8_lossy(&input[at..]);
            assert!(names.iter().any(|name| input.contains(name)), "{input}");
        }
        Error::NotWellFormed("an attribute twice") if theirs.items.len() > count => {
            // `rxml` lets a second declaration of the default namespace pass.
            let element = String::from_utf8_lossy(&input[at..theirs.items[count].1]).into_owned();
            assert!(element.matches("xmlns").count() > 1, "{element}");
        }
        Error::NotWellFormed(_) | Error::UnboundPrefix | Error::BadEncoding | Error::BadVersion => {
            // It may not have seen yet that an incomplete item is wrong.
            assert!(
                count == theirs.items.len(),
                "the framer refuses at {at} with {error:?}, rxml reads {theirs:?}",
            );
        }
    }
}

/// A text whose line ends are line feeds: `rxml` leaves those behind a `]` in CDATA as they are.
fn folded(text: Option<&str>) -> Option<String> {
    text.map(|text| text.replace("\r\n", "\n"))
}

/// Whether the index of a frame tells what `rxml` read.
pub fn check_frame(frame: &FrameRef<'_>, element: &Element, content_ns: &str) {
    let same_ns = |ours: &str, theirs: &str| {
        ours == theirs || (ours == xml::NS_CONTENT && theirs == content_ns)
    };
    assert_eq!(frame.name(), element.name);
    assert!(same_ns(frame.ns(), &element.ns), "{frame:?} {element:?}");
    let mut attrs = 0;
    for (name, _) in frame.attrs() {
        if name == "xmlns" || name.starts_with("xmlns:") {
            continue;
        }
        attrs += 1;
        let value = frame.attr(name).expect("an attribute that was listed");
        let local = name.split_once(':').map_or(name, |(_, local)| local);
        let is_prefixed = local.len() < name.len();
        let found = element.attrs.iter().any(|((ns, other), their)| {
            ns.is_empty() != is_prefixed && other == local && *their == *value
        });
        assert!(found, "attribute {name} of {element:?}");
    }
    assert_eq!(attrs, element.attrs.len());
    let children: Vec<_> = frame.children().collect();
    let expected: Vec<_> = element.children().collect();
    assert_eq!(children.len(), expected.len());
    let is_text =
        |node: &Node| matches!(node, Node::Text(text) if !skip_space(text.as_bytes()).is_empty());
    if element.nodes.iter().any(is_text) {
        assert!(frame.has_text(), "{element:?}");
    }
    assert_eq!(
        folded(frame.text().as_deref()),
        folded(element.text().as_deref())
    );
    for (child, expected) in children.iter().zip(expected) {
        assert_eq!(child.name(), expected.name);
        assert!(same_ns(child.ns(), &expected.ns), "{element:?}");
        assert_eq!(
            folded(child.text().as_deref()),
            folded(expected.text().as_deref())
        );
        if content_ns != xml::NS_CONTENT {
            continue;
        }
        // A child as a document of its own means what it meant inside.
        let alone = Frame::parse(child.to_xml()).expect("a child is an element");
        let again = read_element(alone.as_bytes(), content_ns);
        assert_eq!(again.as_ref(), Ok(expected), "{alone:?}");
    }
}
