//! Every row on XML, streams, logins and addresses of `docs/limits.md`: bad input, and the answer
//! that the page names. Each stream is fed at once and byte by byte. A row without a case fails,
//! and so does a case without a row.

mod cases;

use std::collections::BTreeSet;
use std::sync::Arc;

use cases::{ADDRESSES, At, Case, ELSEWHERE, OPEN, plain};
use xml::{Event, Framer, Limits, Scratch};
use xmpp::addr;
use xmpp::sasl::{self, Hash, Mechanism};
use xmpp::stream::{C2s, C2sConfig, Credentials, Effect};

const PAGE: &str = include_str!("../../../docs/limits.md");
const SECTIONS: [&str; 3] = ["XML", "Streams", "Logging in"];

struct Peer {
    machine: C2s,
    framer: Framer,
    kept: Vec<u8>,
    out: Vec<u8>,
    is_locked: bool,
    stanzas: usize,
    ended: bool,
}

impl Peer {
    fn new(at: At) -> Peer {
        let config = C2sConfig {
            domains: vec!["localhost".into(), "other.example".into()],
            mechanisms: Mechanism::ALL.to_vec(),
            has_tls: true,
            require_tls: false,
            plain_without_tls: false,
            registration: false,
            features: Vec::new(),
            session_features: Vec::new(),
            secret: [7; 32],
            iterations: 1,
        };
        let mut peer = Peer {
            machine: C2s::new(Arc::new(config), "id".into()),
            framer: Framer::new(),
            kept: Vec::new(),
            out: Vec::new(),
            is_locked: false,
            stanzas: 0,
            ended: false,
        };
        if matches!(at, At::Tls | At::LoggedIn | At::Bound) {
            peer.machine.tls_established(Some([1; 32]));
        }
        if at != At::Start {
            peer.send(OPEN.as_bytes());
        }
        if matches!(at, At::LoggedIn | At::Bound) {
            peer.send(format!("{}{OPEN}", plain("\0alice\0secret")).as_bytes());
            assert_eq!(peer.machine.authenticated(), Some("alice@localhost"));
        }
        if at == At::Bound {
            let bind = "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>";
            peer.send(format!("<iq type='set' id='b'>{bind}</iq>").as_bytes());
            assert!(peer.machine.full_jid().is_some());
        }
        peer.out.clear();
        peer
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    fn send(&mut self, input: &[u8]) {
        self.kept.extend_from_slice(input);
        // As in the server before a session.
        let limits = Limits {
            stanza_bytes: 8 * 1024,
            ..Limits::default()
        };
        let mut scratch = Scratch::default();
        while !self.ended && !self.machine.is_waiting() {
            let (out, mut effects) = (&mut self.out, Vec::new());
            let (consumed, is_stuck) = match self.framer.next(&self.kept, &limits, &mut scratch) {
                Err(error) => {
                    self.machine.handle_xml_error(error, out, &mut effects);
                    (self.kept.len(), true)
                }
                Ok(step) => {
                    let is_stuck = step.event.is_none() && step.consumed == 0;
                    let machine = &mut self.machine;
                    match step.event {
                        Some(Event::Open(header)) => {
                            machine.handle_header(&header, out, &mut effects);
                        }
                        Some(Event::Stanza(frame)) => {
                            machine.handle_element(&frame, "ours", out, &mut effects);
                        }
                        Some(Event::Close) => machine.handle_close(out, &mut effects),
                        None => {}
                    }
                    (step.consumed, is_stuck)
                }
            };
            self.kept.drain(..consumed);
            self.carry_out(effects);
            if is_stuck {
                break;
            }
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let (out, mut more) = (&mut self.out, Vec::new());
            match effect {
                Effect::Restart => self.framer.reset(),
                Effect::StartTls => {
                    self.framer.reset();
                    self.kept.clear();
                    self.machine.tls_established(None);
                }
                Effect::Lookup { user } => {
                    let derive = |hash| sasl::derive(hash, "secret", b"0123456789abcdef", 1);
                    let keys = vec![derive(Hash::Sha1), derive(Hash::Sha256)];
                    let credentials = match &*user {
                        "busy@localhost" => Credentials::Unavailable,
                        "alice@localhost" if self.is_locked => Credentials::Locked(keys),
                        "alice@localhost" => Credentials::Known(keys),
                        _ => Credentials::Unknown,
                    };
                    self.machine.credentials(credentials, out, &mut more);
                }
                Effect::Verify { keys, password, .. } => {
                    let ok = sasl::verify_plain(&keys, &password);
                    let ok = (password != "busy").then_some(ok);
                    self.machine.verified(ok, out, &mut more);
                }
                Effect::Bind { user, .. } => {
                    self.machine.bound(Ok(format!("{user}/x").into()), out);
                }
                Effect::Resume { .. } => self.machine.resumed(None),
                Effect::Stanza(_) | Effect::Element(_) => self.stanzas += 1,
                Effect::Close => self.ended = true,
                Effect::Register { .. } | Effect::LoginEnded { .. } => {}
            }
            self.carry_out(more);
        }
    }
}

/// The rows of a section of the page, each with its answer.
fn rows(section: &str) -> Vec<(&'static str, &'static str)> {
    let (_, body) = PAGE
        .split_once(&format!("\n## {section}\n"))
        .expect("a section");
    let body = body.split_once("\n## ").map_or(body, |(body, _)| body);
    let rows = body.lines().filter_map(|line| {
        let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let (what, _) = line.split_once(" | ")?;
        let (_, answer) = line.rsplit_once("| ")?;
        (what != "what").then_some((what, answer))
    });
    rows.collect()
}

fn answer_of(row: &str) -> &'static str {
    let mut all = SECTIONS.into_iter().flat_map(rows);
    let found = all.find(|(what, _)| *what == row);
    found
        .unwrap_or_else(|| panic!("docs/limits.md has no row {row:?}"))
        .1
}

#[test]
fn every_row_has_a_case() {
    let mut shown: BTreeSet<&str> = ELSEWHERE.iter().map(|(row, _)| *row).collect();
    shown.extend(cases::xml().iter().map(|(row, ..)| *row));
    shown.extend(cases::streams().iter().map(|(row, ..)| *row));
    shown.extend(cases::logins().iter().map(|(row, ..)| *row));
    let documented: BTreeSet<&str> = SECTIONS
        .into_iter()
        .flat_map(rows)
        .map(|row| row.0)
        .collect();
    assert_eq!(documented, shown);
    let mut shown: BTreeSet<&str> = ADDRESSES.iter().map(|(row, _)| *row).collect();
    shown.insert("bytes of a part; of a domain, of its labels; of an address");
    let documented: BTreeSet<&str> = rows("Addresses").into_iter().map(|row| row.0).collect();
    assert_eq!(documented, shown);
    for (_, file) in ELSEWHERE {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../").to_owned() + file;
        assert!(std::path::Path::new(&path).exists(), "{file}");
    }
}

/// The page names the answer in the first code span of its cell; the peer must see that element.
fn check(cases: Vec<Case>, ends: impl Fn(&str) -> bool) {
    for (row, at, inputs) in cases {
        let answer = answer_of(row);
        let condition = answer.split('`').nth(1).expect("a condition");
        for input in inputs {
            for size in [input.len(), 1] {
                let mut peer = Peer::new(at);
                for piece in input.as_bytes().chunks(size) {
                    peer.send(piece);
                }
                let out = peer.text();
                let is_named = out.contains(&format!("<{condition}"));
                assert!(is_named, "{row}: {input:.200} in pieces of {size}: {out}");
                assert_eq!(peer.ended, ends(answer), "{row}: {input:.200}: {out}");
            }
        }
    }
}

#[test]
fn bad_xml_ends_the_stream() {
    check(cases::xml(), |_| true);
}

#[test]
fn steps_out_of_order_are_refused() {
    check(cases::streams(), |answer| !answer.contains("stanza error"));
}

#[test]
fn logins_that_fail_say_why() {
    check(cases::logins(), |answer| answer.contains("stream"));
}

#[test]
fn bytes_that_are_not_utf_8_end_the_stream() {
    assert!(answer_of("bytes that are not UTF-8").contains("`unsupported-encoding`"));
    for bytes in [
        &b"<message>\xff</message>"[..],
        b"<message a='\xc3('/>",
        b"<message>\xed\xa0\x80</message>",
        b"<message>\xc0\xaf</message>",
        b"<message>\xf4\x90\x80\x80</message>",
    ] {
        for size in [1, bytes.len()] {
            let mut peer = Peer::new(At::Bound);
            bytes.chunks(size).for_each(|piece| peer.send(piece));
            let is_refused = peer.text().contains("<unsupported-encoding ");
            assert!(is_refused && peer.ended, "{bytes:?}: {}", peer.text());
        }
    }
}

#[test]
fn what_is_cut_off_has_no_effect() {
    let stanza = "<message to='b@c'><body>hi</body><x xmlns='urn:x' a='&amp;'/></message>";
    for end in 0..stanza.len() {
        let mut peer = Peer::new(At::Bound);
        for byte in stanza[..end].bytes() {
            peer.send(&[byte]);
        }
        let seen = (peer.stanzas, peer.out.len(), peer.ended);
        assert_eq!(seen, (0, 0, false), "after {end} bytes");
        peer.send(&stanza.as_bytes()[end..]);
        assert_eq!(peer.stanzas, 1);
    }
}

#[test]
fn the_domain_stays_the_same() {
    assert!(answer_of("another domain after a login").contains("`host-unknown`"));
    let mut peer = Peer::new(At::Tls);
    let other = OPEN.replace("localhost", "other.example");
    peer.send(format!("{}{other}", plain("\0alice\0secret")).as_bytes());
    assert!(peer.text().contains("<host-unknown ") && peer.ended);
}

#[test]
fn a_long_language_tag_is_ignored() {
    for (length, is_kept) in [(35, true), (36, false)] {
        let lang = "x".repeat(length);
        let mut peer = Peer::new(At::Start);
        let header = OPEN.replace("version", &format!("xml:lang='{lang}' version"));
        peer.send(header.as_bytes());
        assert_eq!(peer.text().contains(&lang), is_kept);
        assert!(!peer.ended);
    }
}

#[test]
fn a_resource_that_is_none_is_refused() {
    assert!(answer_of("a resource that is none").contains("`bad-request`"));
    for resource in ["\u{1F916}".to_owned(), "x".repeat(1024)] {
        let mut peer = Peer::new(At::LoggedIn);
        let bind = format!(
            "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
             <resource>{resource}</resource></bind></iq>"
        );
        peer.send(bind.as_bytes());
        assert!(peer.text().contains("<bad-request "));
        assert!(!peer.ended && peer.machine.full_jid().is_none());
    }
}

#[test]
fn unknown_message_types_are_normal() {
    let mut peer = Peer::new(At::Bound);
    peer.send(b"<message type='odd'/>");
    assert_eq!((peer.stanzas, peer.out.len()), (1, 0));
}

#[test]
fn a_lock_shows_only_to_who_knows_the_password() {
    assert!(answer_of("a locked account").contains("`account-disabled`"));
    for (password, condition) in [("secret", "account-disabled"), ("wrong", "not-authorized")] {
        let mut peer = Peer::new(At::Tls);
        peer.is_locked = true;
        peer.send(plain(&format!("\0alice\0{password}")).as_bytes());
        let is_named = peer.text().contains(&format!("<{condition}/>"));
        assert!(is_named, "{}", peer.text());
        assert_eq!(peer.machine.authenticated(), None);
    }
}

#[test]
fn tricks_with_addresses_do_not_work() {
    for (row, table) in ADDRESSES {
        for (text, normal) in *table {
            let found = addr::normalize(text).map(|found| found.into_owned());
            assert_eq!(found.unwrap_or_default(), *normal, "{row}: {text:?}");
        }
    }
    let part = |count| "a".repeat(count);
    let labels = [part(63), part(63), part(63)].join(".");
    for (text, fits) in [
        (format!("{}@b/{}", part(1023), part(1023)), true),
        (format!("{}@b", part(1024)), false),
        (format!("b/{}", part(1024)), false),
        (format!("b/{}", "é".repeat(512)), false),
        (format!("{}.b", part(63)), true),
        (format!("{}.b", part(64)), false),
        (format!("{labels}.{}", part(61)), true),
        (format!("{labels}.{}", part(62)), false),
    ] {
        assert_eq!(addr::parse(&text).is_ok(), fits, "{} bytes", text.len());
    }
}
