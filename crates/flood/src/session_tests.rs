//! Transcripts through the session machine, cut at every place.

use super::*;
use crate::scan;

fn profile() -> Profile {
    Profile {
        domain: "localhost".to_owned(),
        room: "flood@conference.localhost".to_owned(),
        prefix: "u".to_owned(),
        password: "pw".to_owned(),
        resource: "flood".to_owned(),
        roster: true,
        presence: true,
        stream_management: false,
    }
}

const PLAIN: Way = Way {
    mechanism: Mechanism::Plain,
    starttls: false,
};

/// Feeds `chunks` to a fresh session and returns the events as text and everything it wrote.
fn talk(profile: &Profile, way: Way, chunks: &[&[u8]]) -> (Vec<String>, String, Session) {
    let mut session = Session::default();
    let mut keys = KeyCache::new("pw");
    let (mut out, mut events, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    session.begin(way);
    session.open(profile, &mut out);
    for chunk in chunks {
        kept.extend_from_slice(chunk);
        loop {
            let step = scan::next(&kept).unwrap();
            let consumed = step.consumed;
            let Some(item) = step.item else {
                kept.drain(..consumed);
                break;
            };
            let mut cx = SessionContext {
                profile,
                keys: &mut keys,
                out: &mut out,
                user: 7,
                entropy: 1,
            };
            let event = session.handle(&mut cx, item);
            if event != Event::None {
                events.push(format!("{event:?}"));
            }
            kept.drain(..consumed);
        }
    }
    (events, String::from_utf8(out).unwrap(), session)
}

const LOGIN: &str = "<?xml version='1.0'?><stream:stream id='1' from='localhost'>\
    <stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\
    <mechanism>PLAIN</mechanism></mechanisms></stream:features>\
    <success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>\
    <stream:stream id='2'><stream:features><bind xmlns='x'/><session><optional/></session>\
    </stream:features><iq type='result' id='b'><bind><jid>u7@localhost/flood</jid></bind></iq>\
    <iq type='result' id='r'><query><item jid='u6@localhost'/><item jid='u8@localhost'/></query>\
    </iq>";

const ONLINE: &str = "<presence from='u7@localhost/flood'/>\
    <presence from='u8@localhost/flood'><status>flood 55</status></presence>\
    <presence type='unavailable' from='u6@localhost/flood'/><presence from='x@other/y'/>\
    <message from='u8@localhost/flood'><body>flood c 8 3 99 padding</body></message>\
    <message from='u8@localhost'><body>flood p 8 0 9 </body>\
    <delay xmlns='urn:xmpp:delay'/></message>\
    <message from='x@other'><body>hello</body></message>\
    <message type='error' from='u9@localhost'><body>flood c 7 1 2 </body>\
    <error type='cancel'><service-unavailable/></error></message>\
    <iq type='get' from='localhost' id='p1'><ping xmlns='urn:xmpp:ping'/></iq></stream:stream>";

/// Goal: chunk boundaries never change what a session understands or answers.
#[test]
fn a_transcript_means_the_same_however_it_is_cut() {
    let transcript = format!("{LOGIN}{ONLINE}");
    let bytes = transcript.as_bytes();
    let (events, out, _) = talk(&profile(), PLAIN, &[bytes]);
    assert_eq!(
        events,
        [
            "Bound",
            "Ready { contacts: Some(2) }",
            "Presence { user: 7, available: true, stamp: None }",
            "Presence { user: 8, available: true, stamp: Some(55) }",
            "Presence { user: 6, available: false, stamp: None }",
            "OtherPresence",
            "Message(Stamp { sender: 8, sequence: 3, at: 99, pair: false, delayed: false })",
            "Message(Stamp { sender: 8, sequence: 0, at: 9, pair: true, delayed: true })",
            "ForeignMessage",
            &format!("Bounced({:?})", b"service-unavailable"),
            "Closed",
        ]
    );
    let tail = "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq><presence/>\
        <iq id='p1' to='localhost' type='result'/>";
    assert!(out.ends_with(tail), "{out}");
    for cut in 1..bytes.len() {
        let (cut_events, cut_out, _) = talk(&profile(), PLAIN, &[&bytes[..cut], &bytes[cut..]]);
        assert_eq!(
            (cut_events, cut_out),
            (events.clone(), out.clone()),
            "cut at {cut}"
        );
    }
}

#[test]
fn failures_name_their_reason() {
    let scram = Way {
        mechanism: Mechanism::ScramSha256,
        starttls: false,
    };
    let tls = Way {
        mechanism: Mechanism::Plain,
        starttls: true,
    };
    let features = "<stream:stream><stream:features><mechanisms><mechanism>PLAIN</mechanism>\
        </mechanisms></stream:features>";
    for (way, text, reason) in [
        (scram, features.to_owned(), "SCRAM-SHA-256 is not offered"),
        (tls, features.to_owned(), "STARTTLS is not offered"),
        (
            PLAIN,
            "<stream:stream><stream:features><starttls><required/></starttls></stream:features>"
                .to_owned(),
            "requires TLS",
        ),
        (
            PLAIN,
            format!("{features}<failure><not-authorized/><text>no</text></failure>"),
            "SASL failure not-authorized",
        ),
        (
            PLAIN,
            "<stream:stream><stream:error><host-unknown xmlns='x'/></stream:error>".to_owned(),
            "stream error host-unknown",
        ),
        (
            PLAIN,
            format!("{features}</stream:stream>"),
            "the server closed the stream",
        ),
        (
            PLAIN,
            LOGIN.replace(
                "<iq type='result' id='b'>",
                "<iq type='error' id='b'>\
                <error><conflict/></error>",
            ),
            "resource binding failed with conflict",
        ),
    ] {
        let (events, _, _) = talk(&profile(), way, &[text.as_bytes()]);
        let event = &events[0];
        assert!(
            event.starts_with("Failed") && event.contains(reason),
            "{events:?}"
        );
    }
}

/// Goal: after a dead link exactly the stanzas that the server has not handled are sent again.
#[test]
fn a_resumption_sends_what_was_not_handled() {
    let mut profile = profile();
    profile.stream_management = true;
    let login = LOGIN.replace(
        "<bind xmlns='x'/>",
        "<bind xmlns='x'/><sm xmlns='urn:xmpp:sm:3'/>",
    );
    let enabled =
        "<enabled xmlns='urn:xmpp:sm:3' id='some-id' resume='true'/><iq type='result' id='r'>";
    let login = login.replace("<iq type='result' id='r'>", enabled);
    let (events, out, mut session) = talk(&profile, PLAIN, &[login.as_bytes()]);
    assert_eq!(events.last().unwrap(), "Ready { contacts: Some(2) }");
    assert!(out.contains("<enable xmlns='urn:xmpp:sm:3' resume='true'/><iq type='get' id='r'>"));

    let mut out = Vec::new();
    session.send(b"<message id='1'/>", &mut out);
    session.send(b"<message id='2'/>", &mut out);
    let mut keys = KeyCache::new("pw");
    session.end(true);
    assert_eq!(session.stage, Stage::Offline);
    session.begin(PLAIN);
    out.clear();
    session.open(&profile, &mut out);
    let back = "<stream:features><mechanism>PLAIN</mechanism></stream:features><success/>\
        <stream:features><sm xmlns='urn:xmpp:sm:3'/></stream:features>\
        <resumed h='3' previd='some-id'/><r/>";
    let mut rest = back.as_bytes();
    let mut last = String::new();
    while let scan::Step {
        consumed,
        item: Some(item),
    } = scan::next(rest).unwrap()
    {
        rest = &rest[consumed..];
        let mut cx = SessionContext {
            profile: &profile,
            keys: &mut keys,
            out: &mut out,
            user: 7,
            entropy: 1,
        };
        let event = session.handle(&mut cx, item);
        if event != Event::None {
            last = format!("{event:?}");
        }
    }
    assert_eq!(last, "Resumed");
    // Handled were the roster request, presence and the first message; one stanza was received.
    let out = String::from_utf8(out).unwrap();
    assert!(
        out.contains("<resume xmlns='urn:xmpp:sm:3' h='1' previd='some-id'/>"),
        "{out}"
    );
    assert!(
        out.ends_with("<message id='2'/><a xmlns='urn:xmpp:sm:3' h='1'/>"),
        "{out}"
    );
}

#[test]
fn addresses_of_flood_users_are_told_from_others() {
    let profile = profile();
    for (address, user) in [
        ("u17@localhost/flood", Some(17)),
        ("u17@localhost", Some(17)),
        ("u17@localhost.example/x", None),
        ("v17@localhost", None),
        ("ux@localhost", None),
        ("localhost", None),
    ] {
        assert_eq!(profile.user_of(address.as_bytes()), user, "{address}");
    }
}

#[test]
fn stamps_are_read_back_at_any_length() {
    for length in [0, 10, 60, 500] {
        let stamp = Stamp {
            sender: 4,
            sequence: 9,
            at: u64::MAX,
            pair: true,
            delayed: false,
        };
        let mut body = Vec::new();
        stamp.write(length, &mut body);
        assert!(body.len() >= length as usize);
        assert_eq!(Stamp::read(&body), Some(stamp));
    }
    assert_eq!(Stamp::read(b"flood c 1 2"), None);
}
