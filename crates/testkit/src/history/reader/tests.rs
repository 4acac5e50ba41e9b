//! The reader says of what is well-formed what `rxml` says, and takes next to nothing that `rxml`
//! refuses: a prefix may be empty, or mean the empty namespace, or be declared twice.

use super::{Element, Item, Reader};
use crate::tree::{self, Built, NS_CLIENT, NS_STREAMS};
use crate::wire::StreamReader;

const HEADER: &str = "<?xml version='1.0'?><stream:stream id='7' from=\"localhost\" xml:lang='en' \
    xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";
const FEATURES: &str = "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>\
    <session xmlns='urn:s'><optional/></session ></stream:features>";
const STANZAS: &str = " <message type='chat' to='u1@localhost'\n from='a&amp;&#x41;b\tc'>\
    <body>m1 &lt;x&gt; caf\u{e9}]] &#233;</body><x:y xmlns:x='urn:x' x:a='1' a='2'><x:z/>t</x:y>\
    <forwarded xmlns='urn:f'><message xmlns='jabber:client' xml:lang='de'>1<a/>2<b/>3</message>\
    </forwarded></message><r xmlns='urn:xmpp:sm:3'/>";

fn stream() -> String {
    format!("{HEADER}{FEATURES}{STANZAS}</stream:stream>")
}

/// What the reader says of these bytes, and whether it goes on.
fn ours(pieces: &[&[u8]]) -> (Vec<Item>, bool) {
    let (mut reader, mut items) = (Reader::default(), Vec::new());
    let mut pieces = pieces.iter();
    let mut is_well = pieces.all(|piece| reader.feed(piece, &mut items).is_ok());
    let is_good = |item: &Item| !matches!(item, Item::Stanza(stanza) if stanza.parse().is_err());
    if let Some(at) = items.iter().position(|item| !is_good(item)) {
        items.truncate(at);
        is_well = false;
    }
    (items, is_well)
}

fn theirs(bytes: &[u8]) -> Vec<Built> {
    let mut reader = StreamReader::default();
    // What came before an error counts.
    let _ = reader.feed(bytes);
    std::iter::from_fn(|| reader.next_item()).collect()
}

fn is_same(ours: Element<'_>, theirs: &tree::Element) -> bool {
    let attributes = ours.0.attributes().all(|a| {
        let their = theirs
            .attrs
            .get(a.namespace().unwrap_or_default(), a.name());
        their.is_some_and(|their| their == a.value())
    });
    attributes
        && ours.0.attributes().len() == theirs.attrs.iter().count()
        && ours.is(&theirs.ns, &theirs.name)
        && ours.text() == theirs.text()
        && ours.children().count() == theirs.children().count()
        && ours
            .children()
            .zip(theirs.children())
            .all(|(a, b)| is_same(a, b))
}

fn agree(ours: &[Item], theirs: &[Built]) -> bool {
    ours.len() <= theirs.len()
        && ours.iter().zip(theirs).all(|pair| match pair {
            (Item::Root, Built::Root(_)) | (Item::End, Built::End) => true,
            (Item::Stanza(ours), Built::Element(theirs)) => {
                let tree = ours.parse().unwrap();
                is_same(Element::of(&tree).unwrap(), theirs)
            }
            _ => false,
        })
}

#[test]
fn what_is_well_formed_says_the_same_to_both_readers_at_any_split() {
    let stream = stream();
    let expected = theirs(stream.as_bytes());
    assert_eq!(expected.len(), 5);
    for split in 0..stream.len() {
        let (first, second) = stream.as_bytes().split_at(split);
        let (items, is_well) = ours(&[first, second]);
        assert!(is_well, "split at {split}");
        assert_eq!(items.len(), expected.len(), "split at {split}");
        assert!(agree(&items, &expected), "split at {split}");
    }
}

#[test]
fn nothing_is_taken_that_the_other_reader_refuses() {
    let stream = stream();
    let mut refused = 0;
    for at in 0..stream.len() {
        let mut tries = vec![stream.as_bytes().to_vec(); 13];
        for (bytes, byte) in tries.iter_mut().zip(b"<>&'\" =/x;]\x01\xff") {
            bytes[at] = *byte;
        }
        let mut shorter = stream.as_bytes().to_vec();
        shorter.remove(at);
        tries.push(shorter);
        for bytes in tries {
            let (items, is_well) = ours(&[&bytes]);
            let expected = theirs(&bytes);
            let text = String::from_utf8_lossy(&bytes);
            let is_lax = text.contains("<:");
            assert!(
                is_lax || agree(&items, &expected),
                "{items:?}\n{expected:?}\n{text}"
            );
            refused += usize::from(!is_well);
        }
    }
    assert!(refused > stream.len() * 5, "{refused} were refused");
}

#[test]
fn what_namespaces_forbid_is_refused() {
    for wrong in [
        "<a:b/>",
        "<b a:c=''/>",
        "<b a='1' a='2'/>",
        "<b xmlns:x='u' xmlns:y='u' x:a='' y:a=''/>",
        "<b xmlns:xml='u'/>",
        "<b xmlns:x='http://www.w3.org/XML/1998/namespace'/>",
        "<xmlns:b/>",
        "<b><a></b></a>",
        "<b>&nbsp;</b>",
        "<b>&#0;</b>",
        "<b>\u{ffff}</b>",
        "<b>]]></b>",
        "text",
        "</b>",
    ] {
        let (items, is_well) = ours(&[HEADER.as_bytes(), wrong.as_bytes()]);
        assert!(!is_well && items.len() == 1, "{wrong}: {items:?}");
    }
}

#[test]
fn a_new_stream_begins_right_after_success() {
    let success = "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>";
    let bytes = format!("{HEADER}{success}{HEADER}{FEATURES}");
    let (items, is_well) = ours(&[bytes.as_bytes()]);
    assert!(is_well);
    assert!(matches!(&items[2], Item::Root), "{items:?}");
    let Item::Stanza(features) = &items[3] else {
        panic!("{items:?}");
    };
    let tree = features.parse().unwrap();
    let features = Element::of(&tree).unwrap();
    assert!(features.is(NS_STREAMS, "features"));
    let optional = features.child("urn:s", "session").unwrap();
    assert!(optional.child("urn:s", "optional").is_some());
    assert!(optional.child(NS_CLIENT, "optional").is_none());
    assert_eq!(
        optional.source(),
        "<session xmlns='urn:s'><optional/></session >"
    );
}
