//! Edits of frames against the same edits of a tree that `rxml` read: the bytes that come out mean
//! what the tree says, and the index that an edit carries over is that of the bytes.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use roost_fuzz::oracle::{self, Element, Node};
use roost_fuzz::{STREAM, has_unread_names, is_text, stanza_of};
use xml::{Frame, FrameRef};

/// An input that begins with `0` has no edits: what follows is the element.
#[derive(Debug, Arbitrary)]
struct Input<'a> {
    edits: Vec<Vec<Op>>,
    element: &'a [u8],
}

#[derive(Debug, Arbitrary)]
enum Op {
    Set(Name, String),
    Remove(Name),
    /// Children by the bits of the mask.
    RemoveChildren(u8),
    Append(Content),
}

#[derive(Clone, Copy, Debug, Arbitrary)]
enum Name {
    From,
    To,
    Id,
    Type,
    Lang,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
enum Content {
    Delay,
    Nested,
}

impl Name {
    fn as_str(self) -> &'static str {
        match self {
            Name::From => "from",
            Name::To => "to",
            Name::Id => "id",
            Name::Type => "type",
            Name::Lang => "xml:lang",
        }
    }

    fn key(self) -> (String, String) {
        match self {
            Name::Lang => (
                "http://www.w3.org/XML/1998/namespace".to_owned(),
                "lang".to_owned(),
            ),
            other => (String::new(), other.as_str().to_owned()),
        }
    }
}

impl Content {
    fn as_str(self) -> &'static str {
        match self {
            Content::Delay => "<delay xmlns='urn:xmpp:delay' stamp='1'/>",
            Content::Nested => "<p:x xmlns:p='urn:x' xmlns='urn:y'>a&lt;<y/></p:x>",
        }
    }
}

fuzz_target!(|input: Input<'_>| {
    // As it stands in a stream, where prefixes of the root may be used.
    let mut scratch = xml::Scratch::default();
    let mut framer = xml::Framer::new();
    let Some(in_stream) = stanza_of(input.element, &mut framer, &mut scratch) else {
        return;
    };
    let stream = [STREAM.as_bytes(), input.element].concat();
    let reading = oracle::read(&stream);
    let Some((oracle::Item::Stanza(element), _)) = reading.items.into_iter().nth(1) else {
        assert!(has_unread_names(input.element), "rxml reads no stanza");
        return;
    };
    let Some((first, later)) = input.edits.split_first() else {
        return check(&in_stream.to_frame(), &element);
    };
    let (mut frame, mut element) = edit(in_stream, element, first);
    check(&frame, &element);
    for ops in later.iter().take(8) {
        (frame, element) = edit(frame.as_ref(), element, ops);
        check(&frame, &element);
    }
});

fn edit(frame: FrameRef<'_>, mut element: Element, ops: &[Op]) -> (Frame, Element) {
    let text = |op: &Op| match op {
        Op::Set(_, value) => value.chars().filter(|c| is_text(*c)).collect(),
        _ => String::new(),
    };
    let values: Vec<String> = ops.iter().map(text).collect();
    let mut edit = frame.edit();
    let mut removed = None;
    let mut appended = Vec::new();
    for (op, value) in ops.iter().zip(&values).take(8) {
        match op {
            Op::Set(name, _) => {
                edit = edit.set_attr(name.as_str(), value);
                element.attrs.insert(name.key(), value.clone());
            }
            Op::Remove(name) => {
                edit = edit.remove_attr(name.as_str());
                element.attrs.remove(&name.key());
            }
            Op::RemoveChildren(mask) => {
                let mut at = 0;
                let mut is_hit = || {
                    at += 1;
                    mask & (1 << ((at - 1) % 8)) != 0
                };
                let hits: Vec<bool> = frame.children().map(|_| is_hit()).collect();
                let at = std::cell::Cell::new(0);
                edit = edit.remove_children(|_| hits[at.replace(at.get() + 1)]);
                removed = Some(hits);
            }
            Op::Append(content) => {
                edit = edit.append_child(content.as_str().as_bytes());
                appended.push(*content);
            }
        }
    }
    let mut hits = removed.unwrap_or_default().into_iter();
    let mut nodes = Vec::new();
    for node in std::mem::take(&mut element.nodes) {
        if matches!(node, Node::Text(_)) || !hits.next().unwrap_or(false) {
            push(&mut nodes, node);
        }
    }
    for content in appended {
        let child = oracle::read_element(content.as_str().as_bytes(), xml::NS_CONTENT);
        nodes.push(Node::Element(child.expect("an element")));
    }
    element.nodes = nodes;
    let mut written = Vec::new();
    edit.write(&mut written);
    let frame = edit.finish();
    assert_eq!(frame.as_bytes(), written, "write and finish differ");
    (frame, element)
}

/// Text on both sides of an element that went becomes one.
fn push(nodes: &mut Vec<Node>, node: Node) {
    match (nodes.last_mut(), node) {
        (Some(Node::Text(last)), Node::Text(text)) => last.push_str(&text),
        (_, node) => nodes.push(node),
    }
}

fn check(frame: &Frame, element: &Element) {
    let again = oracle::read_element(frame.as_bytes(), xml::NS_CONTENT);
    assert_eq!(again.as_ref(), Ok(element), "{frame:?}");
    oracle::check_frame(&frame.as_ref(), element, xml::NS_CONTENT);
    let parsed = Frame::parse(frame.as_bytes()).expect("a frame parses again");
    oracle::check_frame(&parsed.as_ref(), element, xml::NS_CONTENT);
}
