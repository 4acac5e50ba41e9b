//! Sessions as plays: requests by their ids, what the stream writes, time, and the answers that
//! come of it. One test for each rule of XEP-0124 and each misuse of it.

use std::time::Duration;

use stdx::time::Moment;

use super::*;

/// A session that began with request 100, and what it has wanted so far.
struct Play {
    session: Session<u32>,
    now: Moment,
    actions: Vec<Action<u32>>,
}

fn request(rid: u64, more: &str, payload: &str) -> Request {
    let body = format!(
        "<body xmlns='http://jabber.org/protocol/httpbind' xmlns:xmpp='urn:xmpp:xbosh' \
         rid='{rid}' {more}>{payload}</body>"
    );
    let limits = xml::Limits::default();
    Request::parse(body.as_bytes(), &limits, &mut xml::Scratch::default()).expect("a request")
}

impl Play {
    fn begin(more: &str) -> Play {
        let limits = Limits {
            remembered_bytes_max: 10_000,
            ..Limits::default()
        };
        let first = request(100, &format!("to='localhost' {more}"), "");
        let session = Session::new(&first, 0, "sid".to_owned(), limits, Moment::ZERO);
        let mut play = Play {
            session,
            now: Moment::ZERO,
            actions: Vec::new(),
        };
        play.writes("<stream:stream id='1'><stream:features/>");
        play
    }

    /// The same behind the answer to its first request.
    fn begun(more: &str) -> Play {
        let mut play = Play::begin(more);
        play.taken();
        play.after(10);
        play
    }

    fn after(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        if self.session.deadline() <= self.now {
            self.session.handle_deadline(self.now, &mut self.actions);
        }
    }

    fn asks(&mut self, rid: u64, more: &str, payload: &str, ticket: u32) {
        let request = request(rid, more, payload);
        self.session
            .handle_request(request, ticket, self.now, &mut self.actions);
    }

    fn writes(&mut self, text: &str) -> String {
        let mut written = text.as_bytes().to_vec();
        self.session
            .handle_output(&mut written, self.now, &mut self.actions);
        String::from_utf8(written).expect("UTF-8")
    }

    /// What it wanted since the last time, in short.
    fn taken(&mut self) -> Vec<String> {
        let short = |action: Action<u32>| match action {
            Action::Answer(ticket, body) => {
                let body = String::from_utf8(body).expect("UTF-8");
                let body = body.replace("<body xmlns='http://jabber.org/protocol/httpbind'", "<B");
                format!("{ticket}: {body}")
            }
            Action::Drop(ticket) => format!("{ticket}: dropped"),
            Action::Take(request) => format!("takes {}", request.rid),
            Action::Over => "over".to_owned(),
        };
        self.actions.drain(..).map(short).collect()
    }
}

const M: &str = "<message xmlns='jabber:client'/>";

/// XEP-0124 sections 7.1 and 7.2, XEP-0206 sections 3 and 4.
#[test]
fn the_first_answer_says_what_was_agreed_on() {
    let mut play = Play::begin("wait='600' hold='9' ver='1.6' ack='1' xmpp:version='1.0'");
    let answers = play.taken();
    for said in [
        "sid='sid'",
        "wait='60'",
        "hold='2'",
        "requests='3'",
        "ver='1.6'",
        "inactivity='60'",
        "polling='5'",
        "maxpause='300'",
        "ack='100'",
        "from='localhost'",
        "xmpp:version='1.0'",
        "xmpp:restartlogic='true'",
        "<stream:features xmlns:stream='http://etherx.jabber.org/streams'/></body>",
    ] {
        assert!(answers[0].contains(said), "{said} in {answers:?}");
    }
    let mut modest = Play::begin("wait='3' hold='1' ver='9.9'");
    let answer = modest.taken().remove(0);
    assert!(
        answer.contains("wait='3'") && answer.contains("hold='1'"),
        "{answer}"
    );
    assert!(
        answer.contains("ver='1.11'") && !answer.contains("ack="),
        "{answer}"
    );
}

/// XEP-0124 section 8.
#[test]
fn a_request_is_held_until_there_is_something_to_say() {
    let mut play = Play::begun("hold='1'");
    play.asks(101, "", "", 1);
    assert_eq!(play.taken(), Vec::<String>::new());
    assert_eq!(play.writes(M), "");
    assert_eq!(play.taken(), [format!("1: <B>{M}</body>")]);
    assert_eq!(play.writes(M), M, "nobody to say it to");
    play.asks(102, "", M, 2);
    assert_eq!(play.taken(), ["takes 102"]);
    play.writes(M);
    assert_eq!(play.taken(), [format!("2: <B>{M}</body>")]);
}

/// XEP-0124 section 8.
#[test]
fn a_request_is_answered_empty_at_the_end_of_its_wait() {
    let mut play = Play::begun("hold='1' wait='30'");
    play.asks(101, "", "", 1);
    play.after(29);
    assert_eq!(play.taken(), Vec::<String>::new());
    play.after(1);
    assert_eq!(play.taken(), ["1: <B/>"]);
}

/// XEP-0124 section 8.
#[test]
fn no_more_are_held_than_was_agreed_on() {
    let mut play = Play::begun("hold='1'");
    play.asks(101, "", "", 1);
    play.asks(102, "", M, 2);
    assert_eq!(play.taken(), ["1: <B/>", "takes 102"]);
}

/// XEP-0124 section 14.2.
#[test]
fn payloads_are_taken_in_the_order_of_ids_and_answered_so() {
    let mut play = Play::begun("hold='2'");
    play.asks(103, "", M, 3);
    play.asks(102, "", M, 2);
    assert_eq!(play.taken(), Vec::<String>::new());
    play.asks(101, "", M, 1);
    assert_eq!(
        play.taken(),
        ["takes 101", "takes 102", "1: <B/>", "takes 103"]
    );
    play.writes(M);
    play.writes(M);
    assert_eq!(
        play.taken(),
        [format!("2: <B>{M}</body>"), format!("3: <B>{M}</body>")]
    );
}

/// XEP-0124 sections 14.1 and 14.2.
#[test]
fn an_id_outside_of_the_window_ends_the_session() {
    for rid in [103, 1_000, 99, 1] {
        let mut play = Play::begun("hold='1'");
        play.asks(101, "", "", 1);
        play.writes(M);
        play.asks(102, "", M, 2);
        play.writes(M);
        play.asks(103, "", M, 3);
        play.taken();
        let bad = if rid == 103 { 106 } else { rid };
        play.asks(bad, "", "", 9);
        let end = "<B type='terminate' condition='item-not-found'/>";
        assert_eq!(
            play.taken(),
            [format!("3: {end}"), format!("9: {end}"), "over".to_owned()]
        );
        play.asks(104, "", "", 10);
        assert_eq!(play.taken(), [format!("10: {end}")], "it stays over");
    }
}

/// XEP-0124 section 14.3.
#[test]
fn a_request_made_again_gets_the_same_answer_again() {
    let mut play = Play::begun("hold='1'");
    play.asks(101, "", "", 1);
    play.writes(M);
    play.taken();
    play.asks(101, "", "", 11);
    assert_eq!(play.taken(), [format!("11: <B>{M}</body>")]);
    play.asks(102, "", M, 2);
    play.taken();
    play.asks(102, "", M, 12);
    assert_eq!(play.taken(), ["2: dropped"], "payloads are taken once");
    play.writes(M);
    assert_eq!(play.taken(), [format!("12: <B>{M}</body>")]);
}

/// Goal: what is held, remembered, early or yet to come is not forgotten; what was answered so long
/// ago that its answer is gone, is.
#[test]
fn a_request_whose_answer_is_gone_is_forgotten() {
    let mut play = Play::begun("hold='1'");
    for rid in 101..=105 {
        play.after(10);
        play.asks(rid, "", "", rid as u32);
    }
    play.asks(107, "", M, 7);
    let forgotten = (99..=109).filter(|rid| play.session.is_forgotten(*rid));
    assert_eq!(forgotten.collect::<Vec<_>>(), [99, 100, 101, 102]);
}

/// XEP-0124 section 14.3.
#[test]
fn what_a_lost_connection_was_owed_waits_for_it() {
    let mut play = Play::begun("hold='1'");
    play.asks(101, "", "", 1);
    play.session.handle_lost(1, play.now);
    assert!(!play.session.is_held());
    assert_eq!(play.writes(M), M, "not into a connection that is gone");
    play.asks(101, "", "", 11);
    play.writes(M);
    assert_eq!(play.taken(), [format!("11: <B>{M}</body>")]);
    // Or it goes on, and asks for what it missed.
    play.after(10);
    play.asks(102, "", "", 2);
    play.session.handle_lost(2, play.now);
    play.asks(103, "", M, 3);
    assert_eq!(play.taken(), ["takes 103"]);
    play.writes(M);
    assert_eq!(play.taken(), [format!("3: <B>{M}</body>")]);
    play.asks(102, "", "", 12);
    assert_eq!(play.taken(), ["12: <B/>"]);
}

/// XEP-0124 section 14.3.
#[test]
fn answers_are_remembered_within_bounds() {
    let mut play = Play::begun("hold='1'");
    for rid in 101..105 {
        play.asks(rid, "", M, 1);
        play.writes(M);
    }
    play.taken();
    play.asks(102, "", "", 9);
    assert!(
        play.taken()[0].contains("item-not-found"),
        "older than the window"
    );
    let mut large = Play::begun("hold='1'");
    let body = format!("<message><body>{}</body></message>", "x".repeat(8_000));
    for rid in 101..103 {
        large.asks(rid, "", M, 1);
        large.writes(&body);
    }
    large.taken();
    large.asks(102, "", M, 2);
    assert!(
        large.taken()[0].contains("xxx"),
        "the latest is always there"
    );
    large.asks(101, "", M, 3);
    assert!(
        large.taken()[0].contains("item-not-found"),
        "more bytes than are remembered"
    );
}

/// XEP-0124 section 10.
#[test]
fn silence_ends_a_session_and_a_pause_may_last_longer() {
    let mut play = Play::begun("hold='1'");
    play.after(49);
    assert_eq!(play.taken(), Vec::<String>::new());
    play.after(1);
    assert_eq!(play.taken(), ["over"]);
    let mut paused = Play::begun("hold='1'");
    paused.asks(101, "", "", 1);
    paused.asks(102, "pause='200'", "", 2);
    assert_eq!(paused.taken(), ["1: <B/>", "2: <B/>"]);
    paused.after(199);
    assert_eq!(paused.taken(), Vec::<String>::new());
    paused.asks(103, "", "", 3);
    paused.session.handle_lost(3, paused.now);
    paused.after(60);
    assert_eq!(paused.taken(), ["over"], "back to normal behind the pause");
    let mut greedy = Play::begun("hold='1'");
    greedy.asks(101, "pause='301'", "", 1);
    assert_eq!(
        greedy.taken(),
        Vec::<String>::new(),
        "too long a pause is none"
    );
}

/// XEP-0124 sections 11 and 12.
#[test]
fn who_asks_too_often_is_refused() {
    let end = "<B type='terminate' condition='policy-violation'/>";
    let mut play = Play::begun("hold='1'");
    play.asks(101, "", "", 1);
    play.asks(102, "", "", 2);
    assert_eq!(
        play.taken(),
        [format!("1: {end}"), format!("2: {end}"), "over".to_owned()]
    );
    let mut patient = Play::begun("hold='1'");
    patient.asks(101, "", "", 1);
    patient.after(5);
    patient.asks(102, "", "", 2);
    assert_eq!(patient.taken(), ["1: <B/>"]);
    let mut polls = Play::begun("hold='0' wait='0'");
    polls.asks(101, "", "", 1);
    polls.after(1);
    assert_eq!(polls.taken(), ["1: <B/>"], "at once, or nearly");
    polls.asks(102, "", "", 2);
    assert_eq!(polls.taken(), [format!("2: {end}"), "over".to_owned()]);
    let mut fed = Play::begun("hold='0'");
    fed.asks(101, "", "", 1);
    fed.writes(M);
    fed.asks(102, "", "", 2);
    fed.after(1);
    assert_eq!(
        fed.taken(),
        [format!("1: <B>{M}</body>"), "2: <B/>".to_owned()]
    );
}

/// What is kept for the client counts somewhere, until it is not kept any more.
#[test]
fn what_a_session_keeps_is_known() {
    let mut play = Play::begun("hold='2'");
    let before = play.session.kept_bytes();
    play.asks(103, "", M, 2);
    let ahead = play.session.kept_bytes() - before;
    assert!(ahead >= M.len(), "came early: {ahead}");
    play.asks(101, "", M, 3);
    play.asks(102, "", M, 4);
    play.writes(M);
    let past = play.session.kept_bytes();
    assert!(past >= M.len(), "remembered: {past}");
    play.taken();
    play.session.forget_answers();
    assert_eq!(play.session.kept_bytes(), 0);
    play.asks(101, "", M, 5);
    assert!(play.taken()[0].contains("item-not-found"));
}

/// XEP-0124 section 11.
#[test]
fn too_many_early_requests_are_refused() {
    let mut play = Play::begun("hold='1'");
    play.asks(102, "", M, 2);
    play.asks(102, "", M, 3);
    assert_eq!(play.taken(), ["2: dropped"]);
    play.asks(103, "type='terminate'", "", 4);
    assert_eq!(
        play.taken(),
        Vec::<String>::new(),
        "one more may come to end it"
    );
    play.asks(104, "", M, 5);
    assert!(
        play.taken()
            .iter()
            .any(|taken| taken.contains("item-not-found"))
    );
}

/// XEP-0124 section 13.
#[test]
fn the_end_comes_with_the_streams_and_behind_what_it_wrote() {
    let mut play = Play::begun("hold='1'");
    play.asks(101, "", "", 1);
    play.asks(
        102,
        "type='terminate'",
        "<presence type='unavailable' xmlns='jabber:client'/>",
        2,
    );
    assert_eq!(play.taken(), ["takes 102"]);
    play.writes(&format!("{M}</stream:stream>"));
    let expected = [
        format!("1: <B>{M}</body>"),
        "2: <B type='terminate'/>".to_owned(),
        "over".to_owned(),
    ];
    assert_eq!(play.taken(), expected);
}

/// XEP-0124 section 13. What waited for a request does not answer the one that asks for the end:
/// nobody would be told that it has come, and the stream would wait for another request to end.
#[test]
fn what_waits_for_a_request_leaves_with_the_end_that_one_asks_for() {
    let mut play = Play::begun("hold='1'");
    assert_eq!(play.writes(M), M, "nobody to say it to");
    play.asks(101, "type='terminate'", "", 1);
    assert_eq!(play.taken(), ["takes 101"]);
    assert_eq!(play.writes(M), M, "it is not the end");
    assert_eq!(play.taken(), Vec::<String>::new());
    assert_eq!(play.writes(&format!("{M}</stream:stream>")), "");
    let expected = [
        format!("1: <B type='terminate'>{M}</body>"),
        "over".to_owned(),
    ];
    assert_eq!(play.taken(), expected);
    // A request of before may have it.
    let mut held = Play::begun("hold='1'");
    held.asks(101, "", "", 1);
    held.asks(102, "type='terminate'", "", 2);
    held.writes(M);
    assert_eq!(
        held.taken(),
        ["takes 102".to_owned(), format!("1: <B>{M}</body>")]
    );
    let mut gone = Play::begun("hold='1'");
    gone.asks(101, "type='terminate'", "", 1);
    gone.taken();
    gone.session.handle_lost(1, gone.now);
    assert_eq!(gone.writes("</stream:stream>"), "");
    assert_eq!(gone.taken(), ["over"], "who is gone is not waited for");
}

/// XEP-0124 section 13.
#[test]
fn nothing_is_taken_or_held_behind_the_end_that_a_client_asked_for() {
    let mut play = Play::begun("wait='60' hold='1'");
    play.asks(101, "type='terminate'", "", 1);
    play.taken();
    for (rid, ticket) in (102..200).zip(2..) {
        play.asks(rid, "type='terminate'", M, ticket);
        let refused = format!("{ticket}: <B type='terminate' condition='item-not-found'/>");
        assert_eq!(play.taken(), [refused]);
    }
    play.writes("</stream:stream>");
    assert_eq!(play.taken(), ["1: <B type='terminate'/>", "over"]);
}

/// XEP-0124 section 17.2, XEP-0206 section 6.
#[test]
fn an_error_of_the_stream_is_named() {
    let cases = [
        ("host-unknown", "host-unknown"),
        ("system-shutdown", "system-shutdown"),
        ("not-authorized", "remote-stream-error"),
    ];
    for (error, condition) in cases {
        let mut play = Play::begun("hold='1'");
        play.asks(101, "", "", 1);
        let ns = "urn:ietf:params:xml:ns:xmpp-streams";
        play.writes(&format!(
            "<stream:error><{error} xmlns='{ns}'/></stream:error></stream:stream>"
        ));
        let taken = play.taken();
        let expected = format!("type='terminate' condition='{condition}'><stream:error");
        assert!(taken[0].contains(&expected), "{taken:?}");
        assert_eq!(taken[1], "over");
    }
}

/// XEP-0124 section 17.4, XEP-0206 section 2: errors in stanzas are nobody's but the stream's.
/// What is no stanza of the client's namespace names its own.
#[test]
fn an_error_in_a_stanza_ends_nothing() {
    let mut play = Play::begun("hold='1'");
    play.asks(101, "", "", 1);
    let error = "<message xmlns='jabber:client' type='error'><error type='cancel'/></message>";
    // A stream does not say it of each, a body has to.
    play.writes(&error.replace(" xmlns='jabber:client'", ""));
    assert_eq!(play.taken(), [format!("1: <B>{error}</body>")]);
    play.after(1);
    play.asks(102, "", "<iq xmlns='jabber:client' type='error'/>", 2);
    assert_eq!(play.taken(), ["takes 102"]);
    play.writes("<a xmlns='urn:xmpp:sm:3' h='1'/>");
    assert_eq!(
        play.taken(),
        ["2: <B><a xmlns='urn:xmpp:sm:3' h='1'/></body>"]
    );
}

/// XEP-0124 sections 15.4 and 15.5.
#[test]
fn keys_keep_others_out() {
    // K(1) to K(3) of the seed "seed".
    let hash = |text: &str| {
        let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        hex.collect::<String>()
    };
    let (k1, other) = (hash("seed"), hash("other"));
    let k2 = hash(&k1);
    let k3 = hash(&k2);
    let begun = || Play::begun(&format!("hold='1' newkey='{k3}'"));
    let mut play = begun();
    play.asks(101, &format!("key='{k2}'"), M, 1);
    // The last key, and the first of a new sequence.
    play.asks(102, &format!("key='{k1}' newkey='{}'", hash(&other)), M, 2);
    play.asks(103, &format!("key='{other}'"), M, 3);
    assert_eq!(
        play.taken(),
        ["takes 101", "1: <B/>", "takes 102", "2: <B/>", "takes 103"]
    );
    let wrong = [String::new(), format!("key='{k1}'"), format!("key='{k3}'")];
    for more in wrong {
        let mut play = begun();
        play.asks(101, &more, M, 1);
        let taken = play.taken();
        assert!(
            taken[0].contains("item-not-found") && taken[1] == "over",
            "{more}"
        );
    }
    let mut replayed = begun();
    replayed.asks(101, &format!("key='{k2}'"), M, 1);
    replayed.writes(M);
    replayed.taken();
    replayed.asks(101, "", M, 9);
    assert!(
        replayed.taken()[0].contains("item-not-found"),
        "a copy needs its key"
    );
}

/// XEP-0124 sections 9.1 and 9.2.
#[test]
fn both_sides_acknowledge() {
    let mut play = Play::begun("hold='2' ack='1'");
    play.asks(101, "", M, 1);
    play.asks(102, "", M, 2);
    play.taken();
    play.writes(M);
    assert_eq!(play.taken(), [format!("1: <B ack='102'>{M}</body>")]);
    play.writes(M);
    assert_eq!(play.taken(), [format!("2: <B>{M}</body>")]);
    play.after(2);
    // The answer to 102 is missed: the next one says since when.
    play.asks(103, "ack='101'", M, 3);
    assert_eq!(
        play.taken(),
        ["3: <B report='102' time='2000'/>", "takes 103"]
    );
    play.asks(101, "", M, 9);
    assert!(
        play.taken()[0].contains("item-not-found"),
        "acknowledged, and so forgotten"
    );
}

/// XEP-0206 section 5.
#[test]
fn a_restart_reaches_the_stream_without_payloads() {
    let mut play = Play::begun("hold='1'");
    play.asks(101, "xmpp:restart='true' to='localhost'", "", 1);
    assert_eq!(play.taken(), ["takes 101"]);
}

/// XEP-0124 section 17.2.
#[test]
fn a_body_that_is_none_may_name_its_session() {
    const NS: &str = "xmlns='http://jabber.org/protocol/httpbind'";
    for (text, expected) in [
        (format!("<body {NS} sid='s'/>"), Some("s")),
        (format!("<body {NS} rid='x' sid='s'><a>"), Some("s")),
        (format!("<body {NS} sid='a>b' rid='1'><a></b>"), Some("a>b")),
        (format!("<body {NS} sid=\"it's\">&#0;</body>"), Some("it's")),
        (format!("<body {NS} rid='1'><a>"), None),
        (format!("<corpse {NS} sid='s'>"), None),
        ("<body sid='s'>".to_owned(), None),
        (format!("<body {NS} sid='s'"), None),
        (format!("<body {NS} sid='s"), None),
        ("sid='s'>".to_owned(), None),
        (String::new(), None),
    ] {
        let limits = xml::Limits::default();
        let found = Request::session_of(text.as_bytes(), &limits, &mut xml::Scratch::default());
        assert_eq!(found.as_deref(), expected, "{text}");
    }
}

/// XEP-0124 section 6.
#[test]
fn bodies_that_are_none_are_refused() {
    let limits = xml::Limits {
        stanza_bytes: 1_000,
        ..xml::Limits::default()
    };
    let parse = |text: &str| {
        Request::parse(text.as_bytes(), &limits, &mut xml::Scratch::default()).map(|r| r.rid)
    };
    const NS: &str = "xmlns='http://jabber.org/protocol/httpbind'";
    let good = [
        format!("<body {NS} rid='1'/>"),
        format!(
            "<?xml version='1.0' encoding='utf-8'?>\n<body {NS} rid='1'> <a xmlns='b'/></body>\n"
        ),
        "<b:body xmlns:b='http://jabber.org/protocol/httpbind' rid='1'/>".to_owned(),
    ];
    for text in good {
        assert_eq!(parse(&text), Ok(1), "{text}");
    }
    let long = "x".repeat(300);
    let bad = [
        String::new(),
        "rid=1".to_owned(),
        "<body rid='1'/>".to_owned(),
        format!("<corpse {NS} rid='1'/>"),
        format!("<body {NS}/>"),
        format!("<body {NS} rid='0'/>"),
        format!("<body {NS} rid='-1'/>"),
        format!("<body {NS} rid='1e3'/>"),
        format!("<body {NS} rid='9007199254740992'/>"),
        format!("<body {NS} rid='1' wait='soon'/>"),
        format!("<body {NS} rid='1' sid='{long}'/>"),
        format!("<body {NS} rid='1'>text</body>"),
        format!("<body {NS} rid='1'><a></body>"),
        format!("<body {NS} rid='1'/><body {NS} rid='2'/>"),
        format!("<body {NS} rid='1'><!-- --></body>"),
        format!("<!DOCTYPE x><body {NS} rid='1'/>"),
        format!("<body {NS} rid='1'><x:a/></body>"),
    ];
    for text in bad {
        assert_eq!(parse(&text), Err(Condition::BadRequest), "{text}");
    }
    let huge = format!("<body {NS} rid='1'><a>{}</a></body>", "x".repeat(1_000));
    assert_eq!(parse(&huge), Err(Condition::PolicyViolation));
}

/// XEP-0206 section 5. A namespace may have several prefixes, and any of them counts.
#[test]
fn what_is_of_xmpp_is_found_under_every_prefix() {
    let limits = xml::Limits::default();
    for used in ["a", "b"] {
        let body = format!(
            "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' xmlns:a='urn:xmpp:xbosh' \
             xmlns:b='urn:xmpp:xbosh' {used}:restart='true' {used}:version='1.0'/>"
        );
        let read = Request::parse(body.as_bytes(), &limits, &mut xml::Scratch::default());
        let attributes = read.expect("a request").attributes;
        assert!(attributes.is_restart, "{used}");
        assert_eq!(attributes.xmpp_version.as_deref(), Some("1.0"), "{used}");
    }
}
