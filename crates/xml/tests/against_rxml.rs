//! The framer against `rxml`: generated streams, well-formed and mutated, in pieces of any size.
//! The same comparison runs for longer under `fuzz/fuzz_targets/framer_against_rxml.rs`.

mod oracle;

use proptest::prelude::*;
use xml::Limits;

const HEADERS: &[&str] = &[
    "<?xml version='1.0'?><stream:stream to='a' version='1.0' xmlns='jabber:client' \
     xmlns:stream='http://etherx.jabber.org/streams'>",
    "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' \
     xmlns:e='urn:e' xml:lang='de'>",
    "<s xmlns=\"urn:other\">",
    " <s>",
];

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(vec!["message", "body", "x", "e:x", "p:y", "q:y", "xml:z"])
            .prop_map(str::to_owned),
        1 => "[a-zA-Z_é][a-z0-9.é·-]{0,6}",
    ]
}

fn attribute() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        4 => prop::sample::select(vec!["to", "from", "id", "type", "xml:lang"])
            .prop_map(str::to_owned),
        3 => prop::sample::select(vec!["xmlns", "xmlns:e", "xmlns:p", "xmlns:q"])
            .prop_map(str::to_owned),
        1 => name(),
    ];
    let value = prop_oneof![
        3 => prop::sample::select(vec!["urn:1", "urn:2", "jabber:client", "", "a@b/c"])
            .prop_map(str::to_owned),
        1 => "([ -;=?-~\t\né😀]|&amp;|&lt;|&#65;|&#x1F600;){0,12}"
            .prop_map(|value| value.replace('\'', "\"")),
    ];
    (key, value, "[ \n]{0,1}")
        .prop_map(|(key, value, space)| format!(" {key}{space}='{value}'{space}"))
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "([ -%'-;=?-~\t\r\né😀]|&amp;|&lt;|&apos;|&#10;|&#xe9;){0,20}",
        1 => "<!\\[CDATA\\[[ -~é]{0,10}\\]\\]>",
    ]
}

fn element() -> impl Strategy<Value = String> {
    let attributes = || prop::collection::vec(attribute(), 0..4).prop_map(|attrs| attrs.concat());
    let leaf = (name(), attributes()).prop_map(|(name, attrs)| format!("<{name}{attrs}/>"));
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let content = prop::collection::vec(prop_oneof![2 => inner, 1 => text()], 0..4);
        (name(), attributes(), content).prop_map(|(name, attrs, content)| {
            format!("<{name}{attrs}>{}</{name}>", content.concat())
        })
    })
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let items = prop::collection::vec((element(), "[ \n]{0,2}"), 0..4);
    let header = prop::sample::select(HEADERS);
    (header, items, any::<bool>()).prop_map(|(header, items, is_closed)| {
        let mut stream = header.to_owned();
        for (element, space) in items {
            stream += &element;
            stream += &space;
        }
        if is_closed {
            let name = header
                .trim_start()
                .rsplit_once('<')
                .map_or("", |(_, tag)| tag);
            let name = name.split([' ', '>']).next().unwrap_or_default();
            stream += &format!("</{name}>");
        }
        stream.into_bytes()
    })
}

/// Splices that turn a stream into one that is probably broken.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let fragments: Vec<&[u8]> = vec![
        b"<",
        b">",
        b"/",
        b"'",
        b"\"",
        b"&",
        b"&#0;",
        b"]]>",
        b"\xff",
        b"\xef\xbf\xbe",
        b"\0",
        b":",
        b"<!--",
        b"<?x?>",
        b"<!DOCTYPE",
        b"&nbsp;",
        b" ",
        b"=",
        b"xmlns='",
        b"</body>",
        b"\xc3",
    ];
    let splice = (
        any::<prop::sample::Index>(),
        0..3usize,
        prop::sample::select(fragments),
    );
    (stream(), prop::collection::vec(splice, 1..4)).prop_map(|(mut stream, splices)| {
        for (index, removed, inserted) in splices {
            let at = index.index(stream.len() + 1);
            let end = (at + removed).min(stream.len());
            stream.splice(at..end, inserted.iter().copied());
        }
        stream
    })
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        Just(Vec::new()),
        Just(vec![1; 4096]),
        prop::collection::vec(1..40usize, 0..200),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn generated_streams_read_alike(stream in stream(), sizes in sizes()) {
        oracle::compare(&stream, &sizes, &Limits::default());
    }

    #[test]
    fn broken_streams_are_refused_alike(stream in mutated(), sizes in sizes()) {
        oracle::compare(&stream, &sizes, &Limits::default());
    }

    #[test]
    fn small_limits_are_the_only_difference(stream in stream(), sizes in sizes()) {
        let limits = Limits {
            stanza_bytes: 120,
            depth: 3,
            attributes: 2,
            children: 2,
            prefixes: 1,
        };
        oracle::compare(&stream, &sizes, &limits);
    }
}

/// The generator makes what the comparison is for: without this, all its streams could be refused.
#[test]
fn many_generated_streams_are_well_formed() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let items: usize = (0..300)
        .map(|_| {
            let stream = stream().new_tree(&mut runner).expect("a stream").current();
            oracle::compare(&stream, &[], &Limits::default())
        })
        .sum();
    assert!(items > 400, "only {items} items in 300 streams");
}
