//! Tables of input and outcome for the framer, frames and edits.

use crate::{Child, Error, Event, Frame, Framer, Limits, Scratch};

const HEADER: &str = "<?xml version='1.0'?><stream:stream to='a' version='1.0' \
                      xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' xmlns:e='urn:e'>";

/// Feeds `input` in pieces of `size` bytes and lists what comes out.
fn frame_in_pieces(input: &[u8], size: usize, limits: &Limits) -> (Vec<String>, Option<Error>) {
    let (mut framer, mut scratch) = (Framer::new(), Scratch::default());
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    for piece in input.chunks(size) {
        kept.extend_from_slice(piece);
        loop {
            let (consumed, more) = match framer.next(&kept, limits, &mut scratch) {
                Err(error) => return (out, Some(error)),
                Ok(step) => {
                    let more = step.event.is_some() || step.consumed > 0;
                    match step.event {
                        Some(Event::Open(header)) => out.push(format!("open {}", header.name())),
                        Some(Event::Stanza(frame)) => {
                            let frame = frame.to_frame();
                            out.push(String::from_utf8(frame.as_bytes().to_vec()).unwrap());
                        }
                        Some(Event::Close) => out.push("close".into()),
                        None => {}
                    }
                    (step.consumed, more)
                }
            };
            kept.drain(..consumed);
            if !more {
                break;
            }
        }
    }
    (out, None)
}

fn stanzas(body: &str) -> Result<Vec<String>, Error> {
    let input = format!("{HEADER}{body}");
    let whole = frame_in_pieces(input.as_bytes(), usize::MAX, &Limits::default());
    for size in [1, 2, 3, 7, 16] {
        let pieces = frame_in_pieces(input.as_bytes(), size, &Limits::default());
        assert_eq!(pieces.0, whole.0, "in pieces of {size}: {body}");
        // What is wrong inside an element may show only once the element is complete.
        let kind = |error: &Option<Error>| error.as_ref().map(std::mem::discriminant);
        let same = kind(&pieces.1) == kind(&whole.1) || (pieces.1.is_none() && whole.1.is_some());
        assert!(same, "in pieces of {size}: {body}: {:?}", pieces.1);
    }
    match whole {
        (out, None) => Ok(out[1..].to_vec()),
        (_, Some(error)) => Err(error),
    }
}

#[test]
fn stanzas_come_out_as_they_went_in() {
    let chat = "<message to='b@c' type=\"chat\"><body>a &lt; b &#x1F600; ü</body></message>";
    let iq = "<iq id='1'><q xmlns='urn:x'><y a=\"it's > all\"/></q></iq>";
    let out = stanzas(&format!("{chat} \n{iq}<presence/></stream:stream>")).unwrap();
    assert_eq!(out, [chat, iq, "<presence/>", "close"]);
}

#[test]
fn cdata_and_nested_quotes_do_not_confuse_the_framer() {
    let out = stanzas("<m><body><![CDATA[</m> ]] > <x>]]></body></m>").unwrap();
    assert_eq!(out.len(), 1);
    let frame = Frame::parse(out[0].as_bytes()).unwrap();
    assert_eq!(
        frame.children().next().unwrap().text().unwrap(),
        "</m> ]] > <x>"
    );
}

#[test]
fn what_is_not_well_formed_or_not_allowed_is_refused() {
    type Check = fn(&Error) -> bool;
    let malformed: Check = |e| matches!(e, Error::NotWellFormed(_));
    let restricted: Check = |e| matches!(e, Error::Restricted(_));
    let unbound: Check = |e| *e == Error::UnboundPrefix;
    for (body, check) in [
        ("<a></b>", malformed),
        ("<a b='1' b='2'/>", malformed),
        (
            "<a xmlns:p='urn:1' xmlns:q='urn:1' p:b='1' q:b='2'/>",
            malformed,
        ),
        ("<a b=1/>", malformed),
        ("<a b='1'c='2'/>", malformed),
        ("<a b='<'/>", malformed),
        ("<a>]]></a>", malformed),
        ("<a>&#0;</a>", malformed),
        ("<a>&#xD800;</a>", malformed),
        ("<a>\u{1}</a>", malformed),
        ("<a>\u{ffff}</a>", malformed),
        ("<1a/>", malformed),
        ("<a:b:c/>", malformed),
        ("text", malformed),
        ("<a xmlns:xml='urn:x'/>", malformed),
        ("<a xmlns:xmlns='urn:x'/>", malformed),
        ("<a xmlns:p=''/>", malformed),
        ("<a xmlns='http://www.w3.org/2000/xmlns/'/>", malformed),
        ("<a/ >", malformed),
        ("</a>", malformed),
        ("<a>&amp</a>", malformed),
        ("<a><!-- c --></a>", restricted),
        ("<!-- c -->", restricted),
        ("<!DOCTYPE a>", restricted),
        ("<a><?p i?></a>", restricted),
        ("<?p i?>", restricted),
        ("<a>&nbsp;</a>", restricted),
        ("<p:a/>", unbound),
        ("<a p:b='1'/>", unbound),
        ("<a><b xmlns:p='urn:p'/><p:c/></a>", unbound),
    ] {
        let error = stanzas(body).unwrap_err();
        assert!(check(&error), "{body}: {error:?}");
    }
    let broken = [HEADER.as_bytes(), b"<a>\xff</a>"].concat();
    assert_eq!(
        frame_in_pieces(&broken, 64, &Limits::default()).1,
        Some(Error::BadEncoding)
    );
}

#[test]
fn declarations_are_checked() {
    for (head, error) in [
        ("<?xml version='1.1'?>", Error::BadVersion),
        (
            "<?xml version='1.0' encoding='latin1'?>",
            Error::BadEncoding,
        ),
        (" <?xml version='1.0'?>", Error::NotWellFormed("")),
        ("<?xml version=\u{c}'1.0'?>", Error::NotWellFormed("")),
        ("<?xml version='1.0'\u{a0}?>", Error::NotWellFormed("")),
        ("<?xml encoding='utf-8'?>", Error::NotWellFormed("")),
    ] {
        let (_, found) = frame_in_pieces(format!("{head}<s>").as_bytes(), 5, &Limits::default());
        let same = std::mem::discriminant(&found.unwrap()) == std::mem::discriminant(&error);
        assert!(same, "{head}: {found:?}");
    }
    for size in [1, 1000] {
        let long = format!("<?xml version='1.0'{}?><s>", " ".repeat(110));
        let (out, error) = frame_in_pieces(long.as_bytes(), size, &Limits::default());
        assert!(matches!(error, Some(Error::NotWellFormed(_))) && out.is_empty());
    }
    let good = "<?xml version=\"1.0\" encoding='UTF-8' standalone='yes' ?><s>";
    assert_eq!(
        frame_in_pieces(good.as_bytes(), 3, &Limits::default()),
        (vec!["open s".into()], None)
    );
}

#[test]
fn limits_hold_for_whole_and_for_trickled_input() {
    let limits = Limits {
        stanza_bytes: 200,
        depth: 3,
        attributes: 2,
        children: 2,
        prefixes: 1,
    };
    for (body, error) in [
        (format!("<a>{}</a>", "x".repeat(300)), Error::TooLarge),
        (format!("<a>{}", "x".repeat(300)), Error::TooLarge),
        ("<a><b><c><d/></c></b></a>".into(), Error::TooDeep),
        ("<a b='' c='' d=''/>".into(), Error::TooManyAttributes),
        ("<a><b/><b/><b/></a>".into(), Error::TooManyChildren),
        (
            "<a xmlns:p='urn:p'><b xmlns:q='urn:q'/></a>".into(),
            Error::TooManyPrefixes,
        ),
    ] {
        let input = format!("<s xmlns='jabber:client'>{body}");
        for size in [1, 1000] {
            let (_, found) = frame_in_pieces(input.as_bytes(), size, &limits);
            assert_eq!(found, Some(error), "{body} in pieces of {size}");
        }
    }
}

#[test]
fn a_prefix_of_the_stream_travels_with_the_stanza() {
    let out = stanzas("<m><e:x/></m>").unwrap();
    assert_eq!(out, ["<m xmlns:e='urn:e'><e:x/></m>"]);
    let frame = Frame::parse(out[0].as_bytes()).unwrap();
    assert_eq!(frame.children().next().unwrap().ns(), "urn:e");
}

/// Streams of a shard share what they keep of equal headers; of others they must not.
#[test]
fn streams_of_one_shard_keep_their_own_prefixes() {
    let mut scratch = Scratch::default();
    let headers = [
        ("<s xmlns='a' xmlns:e='urn:1'>", "</s>", "urn:1"),
        ("<s xmlns='a' xmlns:e='urn:1'>", "</s>", "urn:1"),
        ("<s xmlns='a' xmlns:e='urn:2'>", "</s>", "urn:2"),
        (
            "<s xmlns='a' xmlns:e='urn:2' xmlns:f='urn:3'>",
            "</s>",
            "urn:2",
        ),
        (
            "<t xmlns='a' xmlns:e='urn:2' xmlns:f='urn:3'>",
            "</t>",
            "urn:2",
        ),
        ("<t xmlns='a' xmlns:e='urn:2'>", "</t>", "urn:2"),
    ];
    let limits = Limits::default();
    let mut framers = headers.map(|(header, ..)| {
        let mut framer = Framer::new();
        let opened = framer.next(header.as_bytes(), &limits, &mut scratch);
        assert!(matches!(opened.unwrap().event, Some(Event::Open(_))));
        framer
    });
    for (framer, (_, close, ns)) in framers.iter_mut().zip(headers) {
        let stanza = framer.next(b"<m><e:x/></m>", &limits, &mut scratch);
        let Some(Event::Stanza(frame)) = stanza.unwrap().event else {
            panic!("no stanza")
        };
        assert_eq!(frame.children().next().unwrap().ns(), ns);
        let closed = framer.next(close.as_bytes(), &limits, &mut scratch);
        assert!(matches!(closed.unwrap().event, Some(Event::Close)));
    }
}

#[test]
fn quotes_in_a_namespace_of_the_stream_survive_the_travel() {
    for ns in ["'a\"b'", "\"a'b\""] {
        let stream = format!("<s xmlns='jabber:client' xmlns:e={ns}><m><e:x/></m>");
        let (out, error) = frame_in_pieces(stream.as_bytes(), usize::MAX, &Limits::default());
        assert_eq!(
            (out[1].as_str(), error),
            (&*format!("<m xmlns:e={ns}><e:x/></m>"), None)
        );
    }
}

/// Such a stanza is at the limits as it comes, and over them once it has left its stream.
#[test]
fn a_stanza_at_its_limits_can_leave_the_stream() {
    let limits = Limits::default();
    let mut attributes = String::new();
    for at in 0..limits.attributes {
        attributes += &format!(" a{at}=''");
    }
    let out = stanzas(&format!("<m{attributes}><e:x/></m>")).unwrap();
    assert_eq!(out, [format!("<m{attributes} xmlns:e='urn:e'><e:x/></m>")]);
}

#[test]
fn a_child_alone_means_what_it_meant_inside() {
    for (frame, alone) in [
        (
            "<iq xmlns:p='urn:p' xmlns:q='urn:q'><x xmlns='urn:x'><p:y/></x></iq>",
            "<x xmlns:p='urn:p' xmlns='urn:x'><p:y/></x>",
        ),
        (
            "<iq xmlns='urn:d'><p:x xmlns:p='urn:p'><y/></p:x></iq>",
            "<p:x xmlns='urn:d' xmlns:p='urn:p'><y/></p:x>",
        ),
        (
            "<iq xmlns:p='urn:p'><x p:a='>' xmlns:p='urn:o'/></iq>",
            "<x xmlns='jabber:client' p:a='>' xmlns:p='urn:o'/>",
        ),
    ] {
        let frame = Frame::parse(frame).unwrap();
        assert_eq!(frame.children().next().unwrap().to_xml(), alone);
    }
}

#[test]
fn text_with_elements_in_it_is_no_text() {
    for (xml, text) in [
        (
            "<m>a<![CDATA[<b/>&amp;\r\n]]>&lt;</m>",
            Some("a<b/>&amp;\n<"),
        ),
        ("<m><b/><![CDATA[x]]></m>", None),
        ("<m><![CDATA[x]]><b/></m>", None),
        ("<m/>", Some("")),
    ] {
        assert_eq!(Frame::parse(xml).unwrap().text().as_deref(), text, "{xml}");
    }
}

#[test]
fn frames_tell_their_attributes_and_children() {
    let frame =
        Frame::parse("<m a='1&amp;2' xml:lang='de'><x xmlns='urn:x'>t</x><y/></m>").unwrap();
    assert_eq!(frame.attr("a").unwrap(), "1&2");
    assert_eq!(frame.attr_raw("xml:lang"), Some("de"));
    assert_eq!(frame.ns(), "jabber:client");
    let children: Vec<_> = frame
        .children()
        .map(|c| (c.name().to_owned(), c.ns().to_owned()))
        .collect();
    assert_eq!(
        children,
        [
            ("x".into(), "urn:x".into()),
            ("y".into(), "jabber:client".to_owned())
        ]
    );
    assert_eq!(frame.child("x", "urn:x").unwrap().text().unwrap(), "t");
    assert_eq!(
        frame.child("y", "jabber:client").unwrap().to_xml(),
        "<y xmlns='jabber:client'/>"
    );
}

#[test]
fn edits_are_splices_that_keep_the_index_true() {
    let frame =
        Frame::parse("<m xmlns='urn:d' to=\"a\" id='1'><x><z/></x><y xmlns='urn:y'/></m>").unwrap();
    let edited = frame
        .edit()
        .set_attr("from", "o'k")
        .set_attr("to", "longer")
        .remove_attr("id")
        .finish();
    assert_eq!(
        String::from_utf8_lossy(edited.as_bytes()),
        "<m xmlns='urn:d' to='longer' from='o&apos;k'><x><z/></x><y xmlns='urn:y'/></m>"
    );
    let parsed = Frame::parse(edited.as_bytes()).unwrap();
    assert_eq!(edited.attr("from").unwrap(), "o'k");
    for (kept, fresh) in edited.children().zip(parsed.children()) {
        assert_eq!(
            (kept.name(), kept.ns(), kept.bytes()),
            (fresh.name(), fresh.ns(), fresh.bytes())
        );
    }
    let grown = edited
        .edit()
        .append_child(b"<d/>")
        .remove_children(|c| c.name() == "x")
        .finish();
    assert!(grown.as_bytes().ends_with(b"><y xmlns='urn:y'/><d/></m>"));
    let empty = Frame::parse("<p/>")
        .unwrap()
        .edit()
        .append_child(b"<d/>")
        .finish();
    assert_eq!(empty.as_bytes(), b"<p><d/></p>");
}

#[test]
fn of_several_changes_of_an_attribute_the_last_one_counts() {
    let frame = Frame::parse("<m to='a' id='1'/>").unwrap();
    let edited = frame
        .edit()
        .set_attr("to", "b")
        .set_attr("from", "c")
        .remove_attr("id")
        .set_attr("from", "d")
        .set_attr("to", "e")
        .set_attr("id", "2")
        .set_attr("x", "y")
        .remove_attr("x")
        .finish();
    assert_eq!(edited.as_bytes(), b"<m to='e' id='2' from='d'/>");
    assert_eq!(edited.attr("from").unwrap(), "d");
}

#[test]
fn names_are_told_apart_without_text() {
    let frame = Frame::parse("<m><x xmlns='urn:x'/><y/></m>").unwrap();
    assert!(frame.is_named("m") && !frame.is_named("x"));
    assert!(frame.is_of(crate::NS_CONTENT) && !frame.is_of("urn:x"));
    let of_x = |child: &Child<'_>| child.is("x", "urn:x") && child.is_of("urn:x");
    assert_eq!(frame.children().filter(of_x).count(), 1);
    assert!(!frame.children().any(|child| child.is("y", "urn:x")));
}

#[test]
fn readdressing_writes_the_recipient() {
    let mut out = Vec::new();
    Frame::parse("<presence from='a@b/c'/>")
        .unwrap()
        .write_readdressed(&mut out, None, Some("d@e"));
    assert_eq!(out, b"<presence from='a@b/c' to='d@e'/>");
}

/// Bytes of another node are parsed alone: whatever they begin with, they are an element or none.
#[test]
fn a_start_tag_alone_is_an_element_without_children() {
    let cases: [(&[u8], Option<&str>); 6] = [
        (b"<a b='1'><c/></a>", Some("<a b='1'/>")),
        (b"<a b='1'/>", Some("<a b='1'/>")),
        (b"<a b='1>2' c=\"'>\">t</a>", Some("<a b='1>2' c=\"'>\"/>")),
        (b"<a b='1'><never ends", Some("<a b='1'/>")),
        (b"<a b='1'", None),
        (b"", None),
    ];
    for (bytes, expected) in cases {
        let frame = Frame::of_start_tag(bytes);
        let tag = frame.as_ref().map(Frame::as_bytes);
        assert_eq!(tag, expected.map(str::as_bytes));
    }
}

#[test]
fn what_does_not_begin_with_a_tag_is_no_frame() {
    for bytes in ["", "x", "xa/>", "a", " <a/>", "\u{feff}<a/>"] {
        let refused = Frame::parse(bytes).err();
        assert!(
            matches!(refused, Some(Error::NotWellFormed(_))),
            "{bytes:?}"
        );
    }
    assert!(Frame::parse("<").is_err());
}
