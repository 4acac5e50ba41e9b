//! Conversations with the machine: bytes in, bytes and effects out.

use std::sync::Arc;

use xml::{Event, Framer, Limits, Scratch};

use super::{C2s, C2sConfig, Credentials, Effect, LoginEnd};
use crate::error::{Condition, StanzaError, StreamError};
use crate::limits::NEGOTIATION_ELEMENTS_MAX;
use crate::sasl::{self, Hash, Mechanism};

const OPEN: &str = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
                    xmlns:stream='http://etherx.jabber.org/streams'>";

struct Peer {
    machine: C2s,
    framer: Framer,
    effects: Vec<Effect>,
}

fn config(require_tls: bool) -> Arc<C2sConfig> {
    Arc::new(C2sConfig {
        domains: vec!["localhost".into()],
        mechanisms: Mechanism::ALL.to_vec(),
        has_tls: true,
        require_tls,
        plain_without_tls: false,
        registration: false,
        features: Vec::new(),
        session_features: Vec::new(),
        secret: [7; 32],
        iterations: 4096,
    })
}

impl Peer {
    fn new(require_tls: bool) -> Self {
        Peer::with(config(require_tls))
    }

    fn with(config: Arc<C2sConfig>) -> Self {
        let machine = C2s::new(config, "id".into());
        Peer {
            machine,
            framer: Framer::new(),
            effects: Vec::new(),
        }
    }

    /// Sends bytes and returns what the server writes.
    fn send(&mut self, input: &str) -> String {
        let (mut out, mut rest) = (Vec::new(), input.as_bytes());
        let mut scratch = Scratch::default();
        loop {
            match self.framer.next(rest, &Limits::default(), &mut scratch) {
                Err(error) => {
                    self.machine
                        .handle_xml_error(error, &mut out, &mut self.effects);
                    break;
                }
                Ok(step) => {
                    let done = step.event.is_none() && step.consumed == 0;
                    match step.event {
                        Some(Event::Open(header)) => {
                            self.machine
                                .handle_header(&header, &mut out, &mut self.effects);
                        }
                        Some(Event::Stanza(frame)) => {
                            self.machine.handle_element(
                                &frame,
                                "nonce",
                                &mut out,
                                &mut self.effects,
                            );
                        }
                        Some(Event::Close) => {
                            self.machine.handle_close(&mut out, &mut self.effects);
                        }
                        None => {}
                    }
                    rest = &rest[step.consumed..];
                    if done {
                        break;
                    }
                }
            }
        }
        String::from_utf8(out).unwrap()
    }

    fn answer(&mut self, credentials: Credentials) -> String {
        let mut out = Vec::new();
        self.machine
            .credentials(credentials, &mut out, &mut self.effects);
        String::from_utf8(out).unwrap()
    }

    /// Logs `user` in by PLAIN over TLS and binds `full`.
    fn bind(full: &str) -> Self {
        let mut peer = Peer::new(true);
        peer.machine.tls_established(None);
        peer.send(OPEN);
        let plain = sasl::encode("\0alice\0secret");
        peer.send(&format!(
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>"
        ));
        let keys = sasl::derive(Hash::Sha256, "secret", b"salt", 4096);
        peer.answer(Credentials::Known(vec![keys]));
        let mut out = Vec::new();
        peer.machine
            .verified(Some(true), &mut out, &mut peer.effects);
        peer.framer.reset();
        peer.send(OPEN);
        peer.send("<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>");
        assert!(matches!(
            peer.effects.last(),
            Some(Effect::Bind { resource: None, .. })
        ));
        out.clear();
        peer.machine.bound(Ok(full.into()), &mut out);
        assert!(String::from_utf8(out).unwrap().contains(full));
        peer.effects.clear();
        peer
    }
}

#[test]
fn a_header_that_is_wrong_ends_the_stream_with_its_error() {
    for (header, error) in [
        (OPEN.replace("localhost", "elsewhere"), "host-unknown"),
        (OPEN.replace("to='localhost'", ""), "host-unknown"),
        (OPEN.replace("1.0", "0.9"), "unsupported-version"),
        (
            OPEN.replace("jabber:client", "jabber:server"),
            "invalid-namespace",
        ),
        (
            OPEN.replace("etherx.jabber.org", "example.org"),
            "invalid-namespace",
        ),
        (OPEN.replace("stream:stream", "stream:flow"), "bad-format"),
        (
            OPEN.replace("stream:", "s:")
                .replace("xmlns:stream", "xmlns:s"),
            "bad-namespace-prefix",
        ),
        (OPEN.replace("localhost", "a..b@@"), "improper-addressing"),
        ("<a><b></a>".into(), "invalid-namespace"),
        ("<!DOCTYPE x>".into(), "restricted-xml"),
        ("hello".into(), "not-well-formed"),
    ] {
        let header = header.replace(
            "xmlns:stream=",
            if header.contains("<s:") {
                "xmlns:s="
            } else {
                "xmlns:stream="
            },
        );
        let out = Peer::new(false).send(&header);
        assert!(out.contains(&format!("<{error} ")), "{header}: {out}");
        assert!(out.ends_with("</stream:stream>"), "{out}");
    }
}

#[test]
fn nothing_but_tls_is_offered_where_it_is_required() {
    let mut peer = Peer::new(true);
    let out = peer.send(OPEN);
    assert!(
        out.contains("<required/>") && !out.contains("mechanism"),
        "{out}"
    );
    let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGEAYg==</auth>";
    assert!(peer.send(auth).contains("<encryption-required/>"));
    assert!(
        peer.send("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
            .contains("<proceed ")
    );
    assert!(matches!(peer.effects.last(), Some(Effect::StartTls)));
}

#[test]
fn plus_is_offered_only_with_a_channel_to_bind_to() {
    let mut peer = Peer::new(true);
    peer.machine.tls_established(Some([1; 32]));
    let out = peer.send(OPEN);
    assert!(
        out.contains("SCRAM-SHA-256-PLUS") && out.contains("tls-exporter"),
        "{out}"
    );
    let mut peer = Peer::new(true);
    peer.machine.tls_established(None);
    assert!(!peer.send(OPEN).contains("PLUS"));
}

#[test]
fn stanzas_before_a_login_are_not_authorized() {
    for stanza in [
        "<message/>",
        "<iq type='get' id='1'><q xmlns='x'/></iq>",
        "<presence/>",
    ] {
        let mut peer = Peer::new(false);
        peer.send(OPEN);
        assert!(peer.send(stanza).contains("<not-authorized "));
    }
}

#[test]
fn an_unknown_user_gets_a_challenge_like_anybody() {
    let mut peer = Peer::new(false);
    peer.send(OPEN);
    let first = sasl::encode("n,,n=nobody,r=abc");
    peer.send(&format!(
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-1'>{first}</auth>"
    ));
    assert!(peer.machine.is_waiting());
    assert!(peer.answer(Credentials::Unknown).starts_with("<challenge "));
    let proof = sasl::encode("c=biws,r=abcnonce,p=AAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    let out = peer.send(&format!(
        "<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>{proof}</response>"
    ));
    assert!(out.contains("<not-authorized/>"), "{out}");
    assert!(matches!(
        peer.effects.last(),
        Some(Effect::LoginEnded {
            end: LoginEnd::Refused,
            ..
        })
    ));
}

/// XEP-0198 sections 3 and 5: what comes at the wrong time fails, and nothing else does.
#[test]
fn stream_management_before_a_login_fails_and_the_stream_goes_on() {
    let mut peer = Peer::new(false);
    peer.send(OPEN);
    for element in [
        "<enable xmlns='urn:xmpp:sm:3'/>",
        "<resume xmlns='urn:xmpp:sm:3' previd='x' h='0'/>",
    ] {
        let out = peer.send(element);
        assert!(out.starts_with("<failed "), "{out}");
        assert!(out.contains("<unexpected-request "), "{out}");
    }
    assert!(peer.effects.is_empty());
    let first = sasl::encode("n,,n=alice,r=abc");
    peer.send(&format!(
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-1'>{first}</auth>"
    ));
    assert!(peer.machine.is_waiting(), "a login begins");
}

#[test]
fn a_registration_that_succeeds_uses_up_no_elements() {
    let config = C2sConfig {
        registration: true,
        ..Arc::into_inner(config(false)).unwrap()
    };
    let mut peer = Peer::with(Arc::new(config));
    peer.send(OPEN);
    let register = |peer: &mut Peer, result| {
        let out = peer.send(
            "<iq type='set' id='r'><query xmlns='jabber:iq:register'>\
             <username>a</username><password>b</password></query></iq>",
        );
        assert_eq!(out, "");
        assert!(matches!(peer.effects.pop(), Some(Effect::Register { .. })));
        let mut out = Vec::new();
        peer.machine.registered(result, &mut out);
    };
    for _ in 0..3 * NEGOTIATION_ELEMENTS_MAX {
        register(&mut peer, Ok(()));
    }
    for _ in 0..NEGOTIATION_ELEMENTS_MAX {
        register(&mut peer, Err(StanzaError::new(Condition::Conflict)));
    }
    let out = peer.send("<iq type='get' id='r'><query xmlns='jabber:iq:register'/></iq>");
    assert!(out.contains("<policy-violation "), "{out}");
}

/// Whoever asked for an account's keys says how it ended, once.
#[test]
fn every_login_that_began_ends() {
    let first = sasl::encode("n,,n=alice,r=abc");
    let auth = format!(
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-1'>{first}</auth>"
    );
    let ended = |peer: &mut Peer| match peer.effects.pop() {
        Some(Effect::LoginEnded { user, end }) => {
            assert_eq!(user, "alice@localhost");
            end
        }
        _ => panic!("the login has not ended"),
    };
    let mut peer = Peer::new(false);
    peer.send(OPEN);
    peer.send(&auth);
    assert_eq!(peer.machine.claimed(), Some("alice@localhost"));
    peer.answer(Credentials::Unavailable);
    assert_eq!(ended(&mut peer), LoginEnd::Abandoned);
    assert_eq!(peer.machine.claimed(), None);
    peer.send(&auth);
    peer.answer(Credentials::Unknown);
    assert_eq!(peer.machine.claimed(), Some("alice@localhost"));
    peer.send("<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    assert_eq!(ended(&mut peer), LoginEnd::Abandoned);
    peer.send(&auth);
    peer.answer(Credentials::Unknown);
    peer.send("<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>=</response>");
    assert_eq!(ended(&mut peer), LoginEnd::Abandoned);
    assert!(
        peer.effects
            .iter()
            .all(|effect| matches!(effect, Effect::Lookup { .. }))
    );
}

#[test]
fn too_many_failures_end_the_stream() {
    let mut peer = Peer::new(false);
    peer.send(OPEN);
    let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='NOPE'/>";
    for _ in 0..4 {
        assert!(peer.send(auth).ends_with("</failure>"));
    }
    assert!(peer.send(auth).contains("<policy-violation "));
}

#[test]
fn a_foreign_authzid_is_refused() {
    let mut peer = Peer::new(true);
    peer.machine.tls_established(None);
    peer.send(OPEN);
    let plain = sasl::encode("bob@localhost\0alice\0secret");
    let out = peer.send(&format!(
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>"
    ));
    assert!(out.contains("<invalid-authzid/>"), "{out}");
}

#[test]
fn a_bound_session_stamps_and_checks_addresses() {
    let mut peer = Peer::bind("alice@localhost/phone");
    assert_eq!(
        peer.send("<message to='Bob@LOCALHOST/x'><body>hi</body></message>"),
        ""
    );
    let Some(Effect::Stanza(frame)) = peer.effects.pop() else {
        panic!("a stanza")
    };
    assert_eq!(frame.attr_raw("from"), Some("alice@localhost/phone"));
    assert_eq!(frame.attr_raw("to"), Some("bob@localhost/x"));
    assert!(peer.send("<message to='@@'/>").contains("<jid-malformed "));
    assert!(
        peer.send("<iq type='get' id='1'/>")
            .contains("<bad-request ")
    );
    assert!(peer.effects.is_empty());
    assert!(
        peer.send("<message from='eve@localhost'/>")
            .contains("<invalid-from ")
    );
}

#[test]
fn anything_but_a_stanza_is_unsupported() {
    let mut peer = Peer::bind("alice@localhost/phone");
    assert!(peer.send("<odd/>").contains("<unsupported-stanza-type "));
}

#[test]
fn a_stream_that_has_ended_says_nothing_more() {
    let end = |machine: &mut C2s, out: &mut Vec<u8>, effects: &mut Vec<Effect>| {
        machine.abort(StreamError::SystemShutdown, None, out, effects);
    };
    let mut waiting = Peer::new(false);
    waiting.send(OPEN);
    let first = sasl::encode("n,,n=alice,r=abc");
    waiting.send(&format!(
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-1'>{first}</auth>"
    ));
    for mut peer in [waiting, Peer::bind("alice@localhost/phone")] {
        peer.effects.clear();
        let mut out = Vec::new();
        end(&mut peer.machine, &mut out, &mut peer.effects);
        let text = String::from_utf8(std::mem::take(&mut out)).unwrap();
        assert!(text.contains("<system-shutdown "), "{text}");
        assert!(matches!(peer.effects[..], [Effect::Close]));
        // Answers that were on their way, and more reasons to end.
        peer.machine
            .credentials(Credentials::Unavailable, &mut out, &mut peer.effects);
        peer.machine
            .verified(Some(true), &mut out, &mut peer.effects);
        peer.machine.registered(Ok(()), &mut out);
        peer.machine
            .bound(Ok("alice@localhost/late".into()), &mut out);
        end(&mut peer.machine, &mut out, &mut peer.effects);
        peer.machine.handle_close(&mut out, &mut peer.effects);
        assert!(out.is_empty(), "{}", String::from_utf8_lossy(&out));
        assert_eq!(peer.send("<message/>"), "");
        assert_eq!(peer.effects.len(), 1);
        assert!(peer.machine.is_waiting());
    }
}

#[test]
fn a_type_written_with_references_is_that_type() {
    let mut peer = Peer::bind("alice@localhost/phone");
    assert_eq!(peer.send("<message to='b@c' type='&#101;rror'/>"), "");
    let Some(Effect::Stanza(frame)) = peer.effects.pop() else {
        panic!("a stanza")
    };
    assert_eq!(frame.attr_raw("type"), Some("error"));
    assert!(
        peer.send("<iq type='res&#117;lt' id='1'><a/><b/></iq>")
            .is_empty(),
        "results are not answered"
    );
}
