//! A sequence of what the server does with stanzas: edits, new addresses, error replies, children
//! taken out, stanzas put into others. Whatever comes out is one element that means what it should.
//!
//! An input that begins with `0` has no operations: what follows is the stanza.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use roost_fuzz::oracle::{self, Element, Node};
use roost_fuzz::{has_unread_names, is_text, stanza_of};
use xml::build::Writer;
use xml::{Frame, Framer, Scratch};
use xmpp::error::{self, Condition, StanzaError};
use xmpp::{addr, ns, stanza};

/// Stanzas that are at hand, the oldest forgotten first.
const FRAMES_MAX: usize = 4;
/// Bytes beyond which a stanza is not wrapped again.
const FRAME_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    operations: Vec<(u8, Operation)>,
    stanza: &'a [u8],
}

#[derive(Debug, Arbitrary)]
enum Operation {
    /// What the stream machine does: `from` is stamped, `to` brought into its normal form.
    Stamp,
    Readdress(Option<String>, Option<String>),
    Error(u8, bool),
    /// A child as a stanza of its own.
    TakeChild(u8),
    /// The children of a child.
    TakeGrandchild(u8, u8),
    /// A copy inside another stanza, as carbons and archives do.
    Forward,
    /// A time, as offline messages get it; a forged one goes.
    Delay,
    /// A text in a child.
    Text(String),
    Clone,
}

fuzz_target!(|input: Input<'_>| {
    let (mut framer, mut scratch) = (Framer::new(), Scratch::default());
    let Some(first) = stanza_of(input.stanza, &mut framer, &mut scratch) else {
        return;
    };
    let mut frames = vec![first.to_frame()];
    let read = |frame: &Frame| oracle::read_element(frame.as_bytes(), ns::CLIENT);
    if has_unread_names(frames[0].as_bytes()) && read(&frames[0]).is_err() {
        return;
    }
    for (at, operation) in input.operations.iter().take(16) {
        let frame = frames[usize::from(*at) % frames.len()].clone();
        let element = checked(&frame);
        if let Some(result) = apply(&frame, &element, operation) {
            checked(&result);
            frames.push(result);
            if frames.len() > FRAMES_MAX {
                frames.remove(0);
            }
        }
    }
    for frame in &frames {
        kind_is_true(frame, &checked(frame));
    }
});

/// The frame as `rxml` reads it; its index must say the same.
fn checked(frame: &Frame) -> Element {
    let element = oracle::read_element(frame.as_bytes(), ns::CLIENT);
    let element = element.unwrap_or_else(|why| panic!("{why}: {frame:?}"));
    oracle::check_frame(&frame.as_ref(), &element, ns::CLIENT);
    element
}

fn apply(frame: &Frame, element: &Element, operation: &Operation) -> Option<Frame> {
    match operation {
        Operation::Stamp => {
            let to = frame.attr("to")?;
            let normal = addr::normalize(&to).ok()?;
            let edit = frame.edit().set_attr("from", "alice@localhost/a'b\"<");
            let stamped = edit.set_attr("to", &normal).finish();
            let again = checked(&stamped);
            assert_eq!(again.attr("from"), Some("alice@localhost/a'b\"<"));
            assert_eq!(addr::normalize(again.attr("to")?).as_deref(), Ok(&*normal));
            assert_eq!(again.nodes, element.nodes);
            Some(stamped)
        }
        Operation::Readdress(from, to) => {
            let clean = |text: &Option<String>| {
                let text = text.as_ref()?;
                Some(text.chars().filter(|c| is_text(*c)).collect::<String>())
            };
            let (from, to) = (clean(from), clean(to));
            let mut out = Vec::new();
            frame.write_readdressed(&mut out, from.as_deref(), to.as_deref());
            let readdressed = Frame::parse(out).expect("an element");
            let again = checked(&readdressed);
            assert_eq!(again.attr("from"), from.as_deref().or(element.attr("from")));
            assert_eq!(again.attr("to"), to.as_deref().or(element.attr("to")));
            assert_eq!(again.nodes, element.nodes);
            Some(readdressed)
        }
        Operation::Error(condition, has_text) => reply(frame, element, *condition, *has_text),
        Operation::TakeChild(at) => {
            let children = element.children().count();
            let at = usize::from(*at) % children.max(1);
            let child = frame.children().nth(at)?;
            let taken = Frame::parse(child.to_xml()).expect("a child is an element");
            assert_eq!(Some(&checked(&taken)), element.children().nth(at));
            Some(taken)
        }
        Operation::TakeGrandchild(at, inner) => {
            let expected: Vec<&Element> = element.children().collect();
            let at = usize::from(*at) % expected.len().max(1);
            let child = frame.children().nth(at)?;
            for ((_, name), value) in expected[at]
                .attrs
                .iter()
                .filter(|((ns, _), _)| ns.is_empty())
            {
                assert_eq!(child.attr(name).as_deref(), Some(&**value));
            }
            let grandchildren: Vec<Frame> = child.children().collect();
            let again: Vec<Element> = grandchildren.iter().map(checked).collect();
            assert!(again.iter().eq(expected[at].children()));
            let inner = usize::from(*inner) % grandchildren.len().max(1);
            grandchildren.into_iter().nth(inner)
        }
        Operation::Forward => {
            if frame.as_bytes().len() > FRAME_BYTES_MAX {
                return None;
            }
            let mut out = Vec::new();
            let mut writer = Writer::new(&mut out);
            writer.open("message").attr("to", "bob@localhost");
            writer.open("forwarded").attr("xmlns", "urn:xmpp:forward:0");
            // Inside another default namespace, its own has to be said.
            let mut inner = Vec::new();
            match frame.attr_raw("xmlns") {
                Some(_) => inner.extend_from_slice(frame.as_bytes()),
                None => frame.edit().set_attr("xmlns", ns::CLIENT).write(&mut inner),
            }
            writer.raw(&inner).close().close();
            let outer = Frame::parse(out).expect("an element");
            let whole = checked(&outer);
            let forwarded = whole
                .children()
                .next()
                .and_then(|child| child.children().next());
            assert_eq!(forwarded, Some(element));
            Some(outer)
        }
        Operation::Delay => {
            let delayed = frame
                .edit()
                .remove_children(|child| child.name() == "delay" && child.ns() == "urn:xmpp:delay")
                .append_child(b"<delay xmlns='urn:xmpp:delay' stamp='2026-01-01T00:00:00Z'/>")
                .finish();
            let again = checked(&delayed);
            let is_delay = |child: &&Element| child.name == "delay" && child.ns == "urn:xmpp:delay";
            assert_eq!(again.children().filter(is_delay).count(), 1);
            let others = |of: &Element| of.children().filter(|c| !is_delay(c)).cloned().collect();
            let (before, after): (Vec<_>, Vec<_>) = (others(element), others(&again));
            assert_eq!(before, after);
            Some(delayed)
        }
        Operation::Text(text) => {
            let text: String = text.chars().filter(|c| is_text(*c)).collect();
            let mut content = Vec::new();
            let mut writer = Writer::new(&mut content);
            writer
                .open("t")
                .attr("xmlns", "urn:t")
                .attr("a", &text)
                .text(&text)
                .close();
            let grown = frame.edit().append_child(&content).finish();
            let again = checked(&grown);
            let last = again.children().last().expect("a child");
            assert_eq!(
                (last.attr("a"), last.text()),
                (Some(&*text), Some(text.clone()))
            );
            Some(grown)
        }
        Operation::Clone => {
            let copy = frame.clone();
            assert_eq!(&copy, frame);
            Some(copy)
        }
    }
}

/// An error goes back to where the stanza came from, and never answers an error.
fn reply(frame: &Frame, element: &Element, condition: u8, has_text: bool) -> Option<Frame> {
    let condition = Condition::ALL[usize::from(condition) % Condition::ALL.len()];
    let mut error = StanzaError::new(condition);
    if has_text {
        error = error
            .with_text("It's <not> possible & never was.")
            .with_app("<a xmlns='urn:a'/>");
    }
    let reply = error::reply(frame, &error);
    let kind = element.attr("type");
    let is_final = kind == Some("error") || (element.name == "iq" && kind == Some("result"));
    assert_eq!(reply.is_none(), is_final);
    let reply = reply?;
    let again = checked(&reply);
    assert_eq!((&*again.name, &*again.ns), (&*element.name, ns::CLIENT));
    assert_eq!(again.attr("type"), Some("error"));
    assert_eq!(again.attr("to"), element.attr("from"));
    assert_eq!(again.attr("from"), element.attr("to"));
    assert_eq!(again.attr("id"), element.attr("id"));
    let body = again.children().next().expect("an error");
    assert_eq!(body.attr("type"), Some(condition.kind()));
    let named = body.children().next().expect("a condition");
    assert_eq!(
        (&*named.name, &*named.ns),
        (condition.as_str(), ns::STANZA_ERRORS)
    );
    assert!(
        error::reply(&reply, &error).is_none(),
        "an error answers an error"
    );
    Some(reply)
}

/// What the checks of stanzas say is what the element says.
fn kind_is_true(frame: &Frame, element: &Element) {
    let is_request = matches!(element.attr("type"), Some("get" | "set"));
    let is_stanza = matches!(&*element.name, "message" | "presence" | "iq");
    match stanza::check(frame) {
        Ok(_) => {
            assert!(is_stanza);
            if element.name == "iq" {
                assert!(element.attr("id").is_some());
                assert!(!is_request || element.children().count() == 1);
            }
        }
        Err(_) => assert_ne!(element.name, "message"),
    }
    if let Ok(priority) = stanza::presence_priority(frame) {
        let is_priority = |child: &&Element| (&*child.name, &*child.ns) == ("priority", ns::CLIENT);
        let text = element
            .children()
            .find(is_priority)
            .map(|child| match &child.nodes[..] {
                [Node::Text(text)] => text.trim().parse::<i8>().ok(),
                _ => None,
            });
        assert_eq!(text.unwrap_or(Some(0)), Some(priority));
    }
}
