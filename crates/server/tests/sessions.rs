//! Sessions that outlive their connection, where something else happens at the same time: under a
//! clock and a journal that move when the test says so.

mod common;

use std::time::Duration;

use common::world::{Peer, RESUME_TIMEOUT, ROSTER_SET, SM, World, bodies, stanzas};
use telemetry::{Counter, Gauge};

#[test]
fn of_two_connections_that_resume_at_once_one_has_the_session() {
    let mut world = World::new();
    let (lost, token) = world.login_managed("juliet", "balcony");
    drop(lost);
    world.work();
    let mut first = world.connect("juliet");
    let mut second = world.connect("juliet");
    // Something is recorded meanwhile, so that neither is answered at once.
    let mut other = world.login("juliet", "hall");
    world.hold();
    other.send(ROSTER_SET);
    world.work();
    first.resume(&token, 0);
    world.work();
    second.resume(&token, 0);
    world.work();
    world.let_go();
    second.expect(&mut world, "<resumed");
    first.expect(&mut world, "<failed");
    assert!(!first.seen.contains("<resumed"), "{}", first.seen);
    // It may still have a session of its own.
    first.bind(&mut world, "orchard");
    let mut romeo = world.login("romeo", "orchard");
    for peer in [&mut first, &mut second] {
        peer.ask(&mut world, "<presence/>", "<presence");
    }
    romeo.say("juliet@localhost", "one");
    for peer in [&mut first, &mut second] {
        peer.expect(&mut world, "<body>one</body>");
    }
}

/// Directed presence for the full address was written in front of the result (RFC 6120 section 7).
#[test]
fn nothing_comes_before_the_result_of_a_bind() {
    let mut world = World::new();
    let mut other = world.login("juliet", "hall");
    let mut romeo = world.login("romeo", "orchard");
    let mut juliet = world.connect("juliet");
    // Something is recorded meanwhile, so that the bind is not answered at once.
    world.hold();
    other.send(ROSTER_SET);
    world.work();
    juliet.send(
        "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
         <resource>balcony</resource></bind></iq>",
    );
    world.work();
    for kind in ["", "type='unavailable'"] {
        romeo.send(&format!("<presence {kind} to='juliet@localhost/balcony'/>"));
    }
    romeo.sync(&mut world);
    world.let_go();
    let seen = juliet.expect(&mut world, "</bind></iq>");
    assert!(!seen.contains("<presence"), "{seen}");
    // From there on it is shown what comes.
    romeo.send("<presence to='juliet@localhost/balcony'/>");
    juliet.expect(&mut world, "<presence");
}

/// The same while the first waits for its own change to be recorded: both heard that it goes on.
#[test]
fn a_connection_whose_resumption_is_overtaken_hears_so() {
    let mut world = World::new();
    let (mut lost, token) = world.login_managed("juliet", "balcony");
    lost.ask(&mut world, "<presence/>", "<presence");
    let mut romeo = world.login("romeo", "orchard");
    romeo.say("juliet@localhost", "1");
    lost.expect(&mut world, "<body>1</body>");
    drop(lost);
    world.crash();
    let mut first = world.connect("juliet");
    let mut second = world.connect("juliet");
    world.hold();
    first.resume(&token, 0);
    // What it is owed was counted anew, and that is to be recorded.
    world.work();
    second.resume(&token, 0);
    world.work();
    world.let_go();
    let seen = second.expect(&mut world, "<body>1</body>");
    assert!(seen.contains("<resumed"), "{seen}");
    first.expect(&mut world, "<failed");
    assert!(!first.seen.contains("<resumed"), "{}", first.seen);
}

/// Only the first resumption after a restart pushed the roster, also if it was not completed.
#[test]
fn the_roster_is_pushed_by_the_first_resumption_that_is_completed() {
    for is_refused in [false, true] {
        let mut world = World::new();
        let (mut lost, token) = world.login_managed("juliet", "balcony");
        let roster = "<iq type='get' id='all'><query xmlns='jabber:iq:roster'/></iq>";
        lost.ask(&mut world, roster, "id='all'");
        lost.ask(&mut world, ROSTER_SET, "id='roster'");
        drop(lost);
        world.crash();
        let mut first = world.connect("juliet");
        let mut second = world.connect("juliet");
        world.hold();
        first.resume(&token, 0);
        world.work();
        if is_refused {
            world.refuse();
        } else {
            second.resume(&token, 0);
            world.work();
            world.let_go();
        }
        first.expect(&mut world, "<failed");
        if is_refused {
            second.resume(&token, 0);
        }
        second.expect(&mut world, "<resumed");
        second.expect(&mut world, "nurse@localhost");
    }
}

/// The session ended, with `resource-constraint`, when more contacts than it keeps stanzas were
/// pushed at once: by the first resumption after a restart, which is for nothing else.
#[test]
fn a_roster_of_more_contacts_than_a_session_keeps_is_pushed_as_its_client_acknowledges() {
    const CONTACTS: usize = 30;
    // As many of them as are pushed at once fit into two parts, or just not; or one fits alone.
    for (stanzas_kept, bytes) in [
        (8, 256 * 1024),
        (60, 256 * 1024),
        (60, 1),
        (1_000, 256 * 1024),
    ] {
        let mut world = World::patient(|options| {
            let unlogged = &mut options.delivery.limits.unlogged;
            unlogged.stanzas = stanzas_kept;
            unlogged.stanzas_max = stanzas_kept.max(16);
            unlogged.bytes = bytes;
        });
        let mut hall = world.login("juliet", "hall");
        for n in 0..CONTACTS {
            // In another order than that of their addresses.
            let contact = n * 7 % CONTACTS;
            hall.ask(
                &mut world,
                &format!(
                    "<iq type='set' id='s{n}'><query xmlns='jabber:iq:roster'>\
                     <item jid='c{contact:02}@localhost'/></query></iq>"
                ),
                &format!("id='s{n}'"),
            );
        }
        let (mut lost, token) = world.login_managed("juliet", "balcony");
        let roster = "<iq type='get' id='all'><query xmlns='jabber:iq:roster'/></iq>";
        lost.ask(&mut world, roster, "id='all'");
        drop((lost, hall));
        world.crash();
        let mut juliet = world.connect("juliet");
        juliet.resume(&token, 1);
        juliet.expect(&mut world, "<resumed");
        let (mut handled, mut seen) = (1, String::new());
        for _ in 0..CONTACTS {
            // Behind the last part nothing is asked.
            let Some(text) = juliet.wait_for_question(&mut world) else {
                seen += &std::mem::take(&mut juliet.seen);
                break;
            };
            handled += stanzas(&text);
            juliet.send(&format!("<a {SM} h='{handled}'/>"));
            seen += &text;
        }
        let items = seen.split("<item jid='").skip(1).map(|item| &item[..3]);
        let all: Vec<String> = (0..CONTACTS).map(|n| format!("c{n:02}")).collect();
        assert!(items.eq(&all), "{seen}");
        juliet.sync(&mut world);
    }
}

/// The session ended: a page that one may ask for did not fit into what it keeps, every time.
#[test]
fn a_page_of_the_archive_as_large_as_they_get_reaches_a_managed_session() {
    const PAGE: usize = 100;
    let mut world = World::patient(|options| options.archive.enabled = true);
    let mut romeo = world.login("romeo", "orchard");
    let text = "x".repeat(2_500);
    for n in 0..PAGE {
        romeo.say("juliet@localhost", &text);
        if n % 20 == 19 {
            romeo.sync(&mut world);
        }
    }
    let (mut juliet, _) = world.login_managed("juliet", "balcony");
    let query = "<iq type='set' id='page'><query xmlns='urn:xmpp:mam:2'>\
                 <set xmlns='http://jabber.org/protocol/rsm'><max>100</max></set></query></iq>";
    for _ in 0..3 {
        let page = juliet.ask(&mut world, query, "<fin");
        assert!(page.matches("<result").count() > PAGE / 2, "{}", page.len());
    }
    juliet.sync(&mut world);
}

/// Answers that it waited for were dropped like what others say by themselves, and it waited on.
#[test]
fn an_answer_that_a_session_waits_for_reaches_it_however_much_is_unacknowledged() {
    let mut world = World::patient(|options| options.limits.stanza_bytes_max = 256 * 1024);
    let (mut juliet, _) = world.login_managed("juliet", "balcony");
    let mut romeo = world.login("romeo", "orchard");
    let text = "x".repeat(100_000);
    for id in ["a", "b", "c"] {
        juliet.send(&format!(
            "<iq type='get' id='{id}' to='romeo@localhost/orchard'><q xmlns='urn:example'/></iq>"
        ));
    }
    juliet.sync(&mut world);
    romeo.expect(&mut world, "id='c'");
    // Each once; and nobody else may say that it is the answer.
    for id in ["unasked", "a", "b", "b", "c"] {
        romeo.send(&format!(
            "<iq type='result' id='{id}' to='juliet@localhost/balcony'><q>{text}</q></iq>"
        ));
    }
    romeo.sync(&mut world);
    let seen = juliet.sync(&mut world);
    let answers: Vec<&str> = seen.split("<iq type='result' id='").skip(1).collect();
    let ids: Vec<&str> = answers.iter().map(|answer| &answer[..1]).collect();
    assert_eq!(ids, ["u", "a", "b", "c", "p"], "{}", seen.len());
}

/// A client without stream management that read slowly was cut, with all that was in its
/// connection: to it, written is delivered.
#[test]
fn a_client_that_reads_slowly_is_given_pages_as_it_reads() {
    const LARGE: usize = 250;
    let mut world = World::patient(|options| {
        options.limits.offline_messages_max = 1_000;
        options.limits.offline_bytes_max = 16 << 20;
        options.delivery.limits.others_backlog_max = 64 * 1024;
    });
    let mut romeo = world.login("romeo", "orchard");
    let text = "x".repeat(40_000);
    for number in 0..LARGE {
        romeo.say("juliet@localhost", &format!("{number} {text}"));
        romeo.sync(&mut world);
    }
    let mut juliet = world.login("juliet", "balcony");
    juliet.send("<presence/>");
    for _ in 0..100 {
        world.pass(STEP);
    }
    let written = world.node().stats().counter(Counter::MessagesOut);
    assert!(written > 0 && written < LARGE as u64, "{written}");
    let mut numbers = Vec::new();
    while numbers.len() < LARGE {
        let message = juliet.expect_patiently(&mut world, "</message>");
        let number = message.split("<body>").nth(1).expect("a body");
        let number = number.split(' ').next().expect("a number");
        numbers.push(number.parse::<usize>().expect("a number"));
    }
    assert!(numbers.into_iter().eq(0..LARGE));
    juliet.sync(&mut world);
}

/// Nobody was loaded then, and their sessions and messages were forgotten until somebody asked.
#[test]
fn who_cannot_be_read_at_the_start_is_woken_all_the_same() {
    let mut world = World::new();
    let (lost, _) = world.login_managed("juliet", "balcony");
    drop(lost);
    // A node that cannot read what it is made from does not start.
    let first = (0..1_000).find(|passed| world.crash_unread(*passed));
    let first = first.expect("it starts");
    for passed in first..first + 4 {
        assert!(world.crash_unread(passed), "{passed}");
        for _ in 0..10 {
            world.pass(Duration::from_secs(1));
        }
        let sessions = world.node().stats().gauge(Gauge::ManagedSessions);
        assert_eq!(sessions, 1, "{passed}");
    }
}

/// An account whose last session ended with an error stayed in memory.
#[test]
fn who_ended_badly_does_not_stay_in_memory() {
    let left = |last_words: &str| {
        let mut world = World::patient(|_| ());
        let (mut juliet, _) = world.login_managed("juliet", "balcony");
        // The account's first look at whether it is needed is over.
        world.pass(Duration::from_secs(60));
        juliet.send(last_words);
        juliet.expect(&mut world, "</stream:stream>");
        for _ in 0..4 {
            world.pass(Duration::from_secs(60));
        }
        world.node().stats().gauge(Gauge::ActorsAlive)
    };
    let well = left("</stream:stream>");
    assert_eq!(left(&format!("<a {SM} h='99'/>")), well);
}

/// Its session was attached to a connection that was gone, for as long as nothing was sent to it.
#[test]
fn a_connection_that_goes_before_its_resumption_is_answered_holds_no_session() {
    let mut world = World::with(|options| options.limits.login_timeout = RESUME_TIMEOUT / 2);
    let (lost, token) = world.login_managed("juliet", "balcony");
    drop(lost);
    world.work();
    let mut other = world.login("juliet", "hall");
    let mut first = world.connect("juliet");
    world.hold();
    other.send(ROSTER_SET);
    world.work();
    first.resume(&token, 0);
    world.work();
    world.pass(RESUME_TIMEOUT / 2);
    first.expect(&mut world, "<connection-timeout");
    world.let_go();
    world.work();
    for _ in 0..2 {
        world.pass(RESUME_TIMEOUT);
    }
    // It has expired.
    let mut late = world.connect("juliet");
    late.resume(&token, 0);
    late.expect(&mut world, "<failed");
}

// ---- Pages of what waits -----------------------------------------------------------------------

/// Messages that wait, more than two pages of them.
const WAITING: usize = 120;

/// Time that passes when nothing happens by itself.
const STEP: Duration = Duration::from_millis(100);

/// Reads until `count` bodies have come, and acknowledges whatever it is asked for, at once. Gives
/// the bodies, and the time that had to pass.
fn follow(
    world: &mut World,
    peer: &mut Peer,
    handled: &mut u32,
    count: usize,
) -> (Vec<usize>, Duration) {
    let (mut got, mut passed) = (Vec::new(), Duration::ZERO);
    while got.len() < count {
        world.work();
        let Some(text) = peer.wait_for_question(world) else {
            // Nobody asks for what comes last.
            if let Some(at) = peer.seen.rfind("</message>") {
                let text: String = peer.seen.drain(..at + "</message>".len()).collect();
                *handled += stanzas(&text);
                got.extend(bodies(&text));
                continue;
            }
            passed += STEP;
            assert!(passed < Duration::from_secs(300), "{got:?}; {}", peer.seen);
            world.pass(STEP);
            continue;
        };
        *handled += stanzas(&text);
        got.extend(bodies(&text));
        peer.send(&format!("<a {SM} h='{handled}'/>"));
    }
    (got, passed)
}

/// A client that acknowledged at once got one page a second.
#[test]
fn the_next_page_follows_the_acknowledgement() {
    for unacked_max in [1, 2, 4, 50, 1_000] {
        let mut world = World::with(|options| {
            options.delivery.unacked_max = unacked_max;
            options.limits.offline_messages_max = 1_000;
        });
        let mut romeo = world.login("romeo", "orchard");
        for number in 0..WAITING {
            romeo.say("juliet@localhost", &number.to_string());
        }
        romeo.sync(&mut world);
        let (mut juliet, _) = world.login_managed("juliet", "balcony");
        juliet.send("<presence/>");
        let (got, passed) = follow(&mut world, &mut juliet, &mut 0, WAITING);
        assert_eq!(got, (0..WAITING).collect::<Vec<_>>());
        assert!(passed <= STEP, "{unacked_max}: {passed:?}");
    }
}

/// They stayed where they were until something else happened to the user.
#[test]
fn a_page_that_cannot_be_read_is_read_again_by_itself() {
    let mut world = World::new();
    let mut romeo = world.login("romeo", "orchard");
    romeo.say("juliet@localhost", "0");
    romeo.sync(&mut world);
    let mut juliet = world.login("juliet", "balcony");
    juliet.sync(&mut world);
    world.disk.faults().fail_reads(5);
    juliet.send("<presence/>");
    world.work();
    for _ in 0..60 {
        world.pass(Duration::from_secs(1));
    }
    juliet.expect(&mut world, "<body>0</body>");
}

/// The same for what was left to the log.
#[test]
fn a_page_of_a_session_that_was_behind_is_read_again_by_itself() {
    let mut world = World::with(|options| options.delivery.unacked_max = 2);
    let (mut juliet, _) = world.login_managed("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    let mut romeo = world.login("romeo", "orchard");
    for number in 0..6 {
        romeo.say("juliet@localhost", &number.to_string());
    }
    romeo.sync(&mut world);
    let seen = juliet.expect(&mut world, "<body>1</body>");
    world.disk.faults().fail_reads(5);
    let mut handled = 1 + stanzas(&seen);
    juliet.send(&format!("<a {SM} h='{handled}'/>"));
    world.work();
    for _ in 0..60 {
        world.pass(Duration::from_secs(1));
    }
    let (got, _) = follow(&mut world, &mut juliet, &mut handled, 4);
    assert_eq!(got, [2, 3, 4, 5]);
}

// ---- A store that cannot be read ---------------------------------------------------------------

/// More than there are attempts in a row.
const MANY: u64 = 1_000_000;

/// Nobody read such a user again while it had sessions: each of their stanzas got an error.
#[test]
fn a_user_that_cannot_be_read_for_long_comes_back() {
    let mut world = World::new();
    let (mut juliet, token) = world.login_managed("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    world.hold();
    juliet.send(ROSTER_SET);
    world.work();
    world.disk.faults().fail_reads(MANY);
    world.refuse();
    for _ in 0..300 {
        world.pass(Duration::from_secs(1));
    }
    juliet.expect(&mut world, "<internal-server-error");
    world.disk.faults().fail_reads(0);
    for _ in 0..60 {
        world.pass(Duration::from_secs(1));
    }
    let mut romeo = world.login("romeo", "orchard");
    romeo.say("juliet@localhost", "1");
    let mut juliet = world.connect("juliet");
    juliet.bind(&mut world, "balcony");
    juliet.ask(&mut world, "<presence/>", "<body>1</body>");
    drop(token);
}

/// Its session waited for nobody when it could be read.
#[test]
fn a_session_is_resumed_when_its_user_can_be_read_again() {
    let mut world = World::with(|options| options.delivery.resume_timeout = RESUME_TIMEOUT * 100);
    let (mut juliet, token) = world.login_managed("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    let mut romeo = world.login("romeo", "orchard");
    world.hold();
    juliet.send(ROSTER_SET);
    world.work();
    world.disk.faults().fail_reads(MANY);
    world.refuse();
    for _ in 0..60 {
        world.pass(Duration::from_secs(1));
    }
    juliet.expect(&mut world, "<internal-server-error");
    world.disk.faults().fail_reads(0);
    romeo.say("juliet@localhost", "1");
    for _ in 0..60 {
        world.pass(Duration::from_secs(1));
    }
    let mut juliet = world.connect("juliet");
    juliet.resume(&token, 0);
    juliet.expect(&mut world, "<resumed");
    juliet.expect(&mut world, "<body>1</body>");
}

/// A start wakes those who have something to hand over; nobody woke who could not be read then.
#[test]
fn what_is_to_be_handed_over_is_when_its_sender_can_be_read_again() {
    let mut world = World::new();
    let mut romeo = world.login("romeo", "orchard");
    let mut juliet = world.login("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    world.hold();
    romeo.say("juliet@localhost", "1");
    world.work();
    // It is in his log, and not in hers.
    world.let_one_go();
    world.crash();
    world.disk.faults().fail_reads(MANY);
    for _ in 0..100 {
        world.pass(Duration::from_secs(1));
    }
    world.disk.faults().fail_reads(0);
    for _ in 0..60 {
        world.pass(Duration::from_secs(1));
    }
    let mut juliet = world.login("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<body>1</body>");
}

// ---- Accounts that are removed and made again --------------------------------------------------

const REGISTER: &str = "xmlns='jabber:iq:register'";

/// What is left of an account's last second was thought to be under way for ever: nothing was
/// recorded any more, and nobody was asked what he has.
#[test]
fn an_account_that_is_removed_and_made_again_has_nothing_of_before() {
    for seconds in [0, 5, 60] {
        let mut world = World::with(|options| {
            options.registration_enabled = true;
            options.delivery.ack_timeout = Duration::from_secs(5);
        });
        let (mut juliet, token) = world.login_managed("juliet", "balcony");
        juliet.ask(&mut world, "<presence/>", "<presence");
        let mut romeo = world.login("romeo", "orchard");
        romeo.say("juliet@localhost", "1");
        juliet.expect(&mut world, "<body>1</body>");
        let remove = format!("<iq type='set' id='gone'><query {REGISTER}><remove/></query></iq>");
        juliet.ask(&mut world, &remove, "<not-authorized");
        for _ in 0..seconds {
            world.pass(Duration::from_secs(1));
        }
        world.register("juliet");
        let mut old = world.connect("juliet");
        old.resume(&token, 0);
        let failed = old.expect(&mut world, "</failed>");
        assert!(!failed.contains("h='"), "{failed}");

        let (mut juliet, _) = world.login_managed("juliet", "balcony");
        juliet.ask(&mut world, "<presence/>", "<presence");
        romeo.say("juliet@localhost", "2");
        let seen = juliet.expect(&mut world, "<body>2</body>");
        assert!(!seen.contains("<body>1</body>"), "{seen}");
        // She does not answer.
        for _ in 0..20 {
            world.pass(Duration::from_secs(1));
        }
        juliet.expect(&mut world, "<connection-timeout");
    }
}

/// An answer waits in the mailbox, behind a commit, for longer than a client has to give one: she
/// was cut off as if she were silent.
#[test]
fn who_could_not_be_heard_is_not_silent() {
    const TIME: Duration = Duration::from_secs(10);
    let mut world = World::with(|options| {
        options.delivery.ack_timeout = TIME;
        options.limits.idle_ping = 100 * TIME;
        options.commits.barrier_appends_max = 1;
    });
    let (mut juliet, _) = world.login_managed("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    let mut romeo = world.login("romeo", "orchard");
    romeo.say("juliet@localhost", "1");
    juliet.wait_for_question(&mut world).expect("she is asked");
    world.hold();
    juliet.send(ROSTER_SET);
    juliet.send(&format!("<a {SM} h='2'/>"));
    for _ in 0..30 {
        world.pass(TIME / 10);
    }
    world.let_go();
    for _ in 0..30 {
        world.pass(TIME / 10);
    }
    assert!(!juliet.sync(&mut world).contains("stream:error"));
}

/// XEP-0198 section 4: who does not answer `<r/>` was asked again each second, which kept the radio
/// of a phone awake for a minute.
#[test]
fn a_client_that_does_not_answer_is_asked_twice_and_then_cut() {
    let question = format!("<r {SM}/>");
    let mut world = World::with(|options| {
        options.delivery.ack_timeout = Duration::from_secs(60);
        // A client of which nothing is heard is asked for another reason.
        options.limits.idle_ping = Duration::from_secs(3600);
    });
    let (mut juliet, _) = world.login_managed("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    let mut romeo = world.login("romeo", "orchard");
    romeo.say("juliet@localhost", "1");
    juliet.wait_for_question(&mut world).expect("she is asked");
    // The seconds after which she is asked again.
    let mut asked = Vec::new();
    for second in 1..=58 {
        world.pass(Duration::from_secs(1));
        while juliet.read() {}
        asked.extend(juliet.seen.matches(&question).map(|_| second));
        juliet.seen.clear();
    }
    assert!(matches!(asked[..], [29..=32]), "{asked:?}");
    for _ in 0..4 {
        world.pass(Duration::from_secs(1));
    }
    let end = juliet.expect(&mut world, "<connection-timeout");
    assert!(!end.contains(&question), "{end}");
}

/// An overloaded server reads what its clients say late, and their answers are behind that: for as
/// long as they say something, they are there.
#[test]
fn a_client_whose_answer_is_behind_much_else_is_not_cut() {
    let mut world = World::with(|options| {
        options.delivery.ack_timeout = Duration::from_secs(5);
    });
    let (mut juliet, _) = world.login_managed("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    let mut romeo = world.login("romeo", "orchard");
    romeo.say("juliet@localhost", "1");
    juliet.wait_for_question(&mut world).expect("she is asked");
    for second in 0..20 {
        match second < 10 {
            true => juliet.say("romeo@localhost", &second.to_string()),
            // What is answered with an error is said all the same.
            false => juliet.send("<message to='@'/>"),
        }
        world.pass(Duration::from_secs(1));
        while juliet.read() {}
    }
    assert!(
        !juliet.seen.contains("<connection-timeout"),
        "{}",
        juliet.seen
    );
    for _ in 0..8 {
        world.pass(Duration::from_secs(1));
    }
    juliet.expect(&mut world, "<connection-timeout");
}

// ---- What sessions leave behind ----------------------------------------------------------------

/// Messages for each of several sessions, of which each has two in memory and leaves three to the
/// log.
const SHARE: usize = 5;

/// Sessions of Juliet that end while they are behind, each with messages of its own.
fn leave_shares(world: &mut World, romeo: &mut Peer, sessions: usize) {
    let mut all = Vec::new();
    for at in 0..sessions {
        let (mut juliet, _) = world.login_managed("juliet", &format!("old{at}"));
        for number in at * SHARE..(at + 1) * SHARE {
            romeo.say(&format!("juliet@localhost/old{at}"), &number.to_string());
        }
        romeo.sync(world);
        juliet.sync(world);
        all.push(juliet);
    }
    for mut juliet in all {
        juliet.ask(world, "</stream:stream>", "</stream:stream>");
    }
}

fn shares_come(world: &mut World, sessions: usize) {
    let (mut juliet, _) = world.login_managed("juliet", "new");
    juliet.send("<presence/>");
    let (mut got, _) = follow(world, &mut juliet, &mut 0, sessions * SHARE);
    for at in 0..sessions {
        // In order among those of one session.
        let share = at * SHARE..(at + 1) * SHARE;
        let of_one: Vec<usize> = got.iter().copied().filter(|n| share.contains(n)).collect();
        assert_eq!(of_one, share.collect::<Vec<_>>(), "{got:?}");
    }
    got.sort_unstable();
    assert_eq!(got, (0..sessions * SHARE).collect::<Vec<_>>());
}

/// Of one more than there were records for, what was left to the log was only archived.
#[test]
fn what_many_ended_sessions_were_behind_with_comes_all_the_same() {
    for (listed_max, sessions, is_killed) in [(1, 3, false), (2, 5, true), (3, 20, true)] {
        let mut world = World::with(|options| {
            options.delivery.unacked_max = 2;
            options.delivery.limits.listed_max = listed_max;
            options.limits.sessions_per_user = 30;
        });
        let mut romeo = world.login("romeo", "orchard");
        leave_shares(&mut world, &mut romeo, sessions);
        if is_killed {
            world.crash();
        }
        shares_come(&mut world, sessions);
    }
}

/// Sessions that end while what others left is being given out leave theirs, too.
#[test]
fn a_session_that_ends_while_what_others_left_is_given_out_leaves_its_own() {
    let mut world = World::with(|options| {
        options.delivery.unacked_max = 2;
        options.delivery.limits.listed_max = 1;
        options.delivery.limits.page_entries = 1;
    });
    let mut romeo = world.login("romeo", "orchard");
    leave_shares(&mut world, &mut romeo, 2);
    let (mut last, _) = world.login_managed("juliet", "last");
    for number in 2 * SHARE..3 * SHARE {
        romeo.say("juliet@localhost/last", &number.to_string());
    }
    romeo.sync(&mut world);
    last.sync(&mut world);
    let (mut juliet, _) = world.login_managed("juliet", "new");
    juliet.send("<presence/>");
    let mut handled = 0;
    let (mut got, _) = follow(&mut world, &mut juliet, &mut handled, 6);
    last.ask(&mut world, "</stream:stream>", "</stream:stream>");
    got.extend(follow(&mut world, &mut juliet, &mut handled, 3 * SHARE - 6).0);
    got.sort_unstable();
    assert_eq!(got, (0..3 * SHARE).collect::<Vec<_>>());
}

/// Of a session that was forgotten nobody knew what it had: that came again.
#[test]
fn what_an_ended_session_had_does_not_come_again_from_what_others_left() {
    let mut world = World::with(|options| {
        options.delivery.unacked_max = 2;
        options.delivery.limits.ended_max = 1;
    });
    let (mut phone, _) = world.login_managed("juliet", "phone");
    phone.ask(&mut world, "<presence/>", "<presence");
    let (mut desk, _) = world.login_managed("juliet", "desk");
    desk.ask(&mut world, "<presence/>", "<presence");
    let mut romeo = world.login("romeo", "orchard");
    let mut handled = 1;
    for number in 0..SHARE {
        romeo.say("juliet@localhost", &number.to_string());
        let (got, _) = follow(&mut world, &mut desk, &mut handled, 1);
        assert_eq!(got, [number]);
    }
    desk.ask(&mut world, "</stream:stream>", "</stream:stream>");
    phone.ask(&mut world, "</stream:stream>", "</stream:stream>");
    let (mut juliet, _) = world.login_managed("juliet", "new");
    juliet.ask(&mut world, "<presence/>", "<presence");
    romeo.say("juliet@localhost", &SHARE.to_string());
    let (got, _) = follow(&mut world, &mut juliet, &mut 0, 1);
    assert_eq!(got, [SHARE]);
}

/// Each session that is managed has a place for what it may leave.
#[test]
fn no_session_is_managed_that_could_leave_more_than_is_kept() {
    let mut world = World::with(|options| {
        options.delivery.unacked_max = 2;
        options.delivery.limits.sessions_max = 2;
        options.delivery.limits.listed_max = 1;
    });
    let mut romeo = world.login("romeo", "orchard");
    leave_shares(&mut world, &mut romeo, 2);
    let mut juliet = world.login("juliet", "new");
    juliet.send(&format!("<enable {SM} resume='true'/>"));
    let failed = juliet.expect(&mut world, "</failed>");
    assert!(failed.contains("<resource-constraint"), "{failed}");
    // Without it she gets what waits, and then there is room again.
    juliet.send("<presence/>");
    let mut got = Vec::new();
    while got.len() < 2 * SHARE {
        got.extend(bodies(&juliet.expect(&mut world, "</message>")));
    }
    got.sort_unstable();
    assert_eq!(got, (0..2 * SHARE).collect::<Vec<_>>());
    juliet.send(&format!("<enable {SM} resume='true'/>"));
    juliet.expect(&mut world, "<enabled");
}

/// More than the list of what waits again has room for was only archived.
#[test]
fn all_that_sessions_did_not_acknowledge_waits_again() {
    for (listed_max, is_killed) in [(1, false), (2, true), (4, false)] {
        let mut world = World::with(|options| {
            options.delivery.unacked_max = SHARE as u32;
            options.delivery.limits.listed_max = listed_max;
            options.delivery.limits.page_entries = 2;
        });
        let mut romeo = world.login("romeo", "orchard");
        leave_shares(&mut world, &mut romeo, 4);
        if is_killed {
            world.crash();
        }
        shares_come(&mut world, 4);
    }
}

/// All streams of the user ended in a crash, whenever one of them changed what is recorded.
#[test]
fn a_session_with_which_too_much_would_be_recorded_ends_alone() {
    let mut world = World::with(|options| options.delivery.limits.records_bytes_max = 2_000);
    let (mut small, _) = world.login_managed("juliet", "small");
    small.ask(&mut world, "<presence/>", "<presence");
    let (mut large, _) = world.login_managed("juliet", "large");
    let status = "x".repeat(2_000);
    large.send(&format!("<presence><status>{status}</status></presence>"));
    large.expect(&mut world, "<resource-constraint");
    small.sync(&mut world);
    let mut romeo = world.login("romeo", "orchard");
    romeo.say("juliet@localhost", "1");
    small.expect(&mut world, "<body>1</body>");
}
