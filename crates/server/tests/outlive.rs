//! Streams that outlive the home of their account, between two nodes in this process with a link
//! that a test holds up: who may go on, for how long is waited, and what is kept meanwhile. Moves
//! and deaths of real nodes are in `crates/testkit/tests/cluster/outlive.rs`.

#![allow(clippy::disallowed_methods)] // These wait for sockets, on the real clock.

mod common;

use std::thread;
use std::time::Duration;

use common::two::{EDGE, HOME, Two, bodies, message, rest, says_without_a_home};
use common::{Client, PATIENCE};
use server::admin::Request;
use server::options::{Joined, Options};
use store::RangeId;

/// Every time-out of these tests that is to pass.
const SOON: Duration = Duration::from_millis(400);

fn two(users: &[&str], joined: impl Fn(&mut Joined)) -> Two {
    let change = |options: &mut Options| {
        options.joined.home_wait_step = Duration::from_millis(10);
        joined(&mut options.joined);
    };
    Two::start_with(users, change, net::Limits::default())
}

fn ranges() -> Vec<RangeId> {
    RangeId::all().collect()
}

/// With stream management; gives the name of the session.
fn manage(client: &mut Client) -> String {
    client.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let enabled = client.expect("/>");
    let id = enabled.split("id='").nth(1).expect("a name");
    id.split('\'').next().expect("its end").to_owned()
}

/// One whose stanzas are counted, and who takes messages.
fn online(two: &Two, user: &str) -> (Client, String) {
    let mut client = two.login(user, "a");
    let session = manage(&mut client);
    client.send("<presence/>");
    client.expect("<presence ");
    accepted(&mut client, 1);
    (client, session)
}

/// Alice, who has come to the node where her account is at home.
fn online_at_home(two: &Two) -> Client {
    let mut alice = Client::login(two.home.node().addresses()[0], "alice", "a");
    manage(&mut alice);
    alice.send("<presence/>");
    alice.expect("<presence ");
    alice
}

/// So many stanzas are in that.
fn stanzas(heard: &str) -> usize {
    let names = ["<message ", "<presence ", "<iq "];
    names.iter().map(|name| heard.matches(name).count()).sum()
}

/// Everything up to a count is accepted.
fn accepted(client: &mut Client, h: u32) {
    client.send("<r xmlns='urn:xmpp:sm:3'/>");
    client.expect(&format!("<a xmlns='urn:xmpp:sm:3' h='{h}'/>"));
}

/// Nobody is the home of anything, as far as the edge knows.
fn hide(two: &Two) {
    for range in ranges() {
        two.edge.door.set_away(range, None);
    }
}

fn show(two: &Two, tenure: u32) {
    for range in ranges() {
        two.edge.door.set_away(range, Some((HOME, tenure)));
    }
}

/// The home says goodbye to everything that it has.
fn moves(two: &Two) {
    hide(two);
    two.home.door.lose(&ranges());
    two.until("the home has no connection", |two| {
        two.home.node().connections() == 0
    });
}

/// The home is gone without a word, and what it said last never arrives.
fn dies(two: &Two) {
    // What was heard of it so far is one thing with its mark.
    thread::sleep(SOON / 8);
    hide(two);
    two.home.way.cut();
    two.home.door.lose(&ranges());
    two.until("the home has no connection", |two| {
        two.home.node().connections() == 0
    });
    two.edge.door.forget_node(HOME);
    two.home.way.mend();
}

/// It is one again.
fn comes_back(two: &Two, tenure: u32) {
    two.home.door.gain(&ranges(), tenure);
    show(two, tenure);
}

/// Goal: what a client says while its account has no home is handled by the next one, once; what
/// others say to it arrives, once; its counts go on; and its contacts notice nothing. The same if
/// the home dies, where what it had not recorded comes once more.
#[test]
fn a_stream_goes_on_at_the_next_home() {
    for is_death in [false, true] {
        let two = two(&["alice", "bob"], |_| {});
        let (mut alice, _) = online(&two, "alice");
        let (mut bob, _) = online(&two, "bob");
        let mut handled = 1;
        for tenure in 6..10 {
            alice.send(&message("bob@localhost/a", &format!("before {tenure}")));
            bob.expect(&format!("<body>before {tenure}</body>"));
            match is_death {
                false => moves(&two),
                true => dies(&two),
            }
            handled += 5;
            let both = (&mut alice, &mut bob);
            says_without_a_home(both, (tenure, handled), || comes_back(&two, tenure));
        }
        assert_eq!(two.home.node().connections(), 2);
    }
}

/// Goal: what was written and not acknowledged is neither written twice nor lost: after two homes
/// a client whose link breaks resumes its session, and gets exactly what it has not.
#[test]
fn what_was_not_acknowledged_outlives_two_homes() {
    let two = two(&["alice", "bob"], |_| {});
    let (mut alice, session) = online(&two, "alice");
    let (mut bob, _) = online(&two, "bob");
    let mut sent = 1;
    for tenure in 6..8 {
        for n in 0..3 {
            bob.send(&message("alice@localhost/a", &format!("{tenure}.{n}")));
        }
        sent += 3;
        accepted(&mut bob, sent);
        let heard = alice.expect(&format!("<body>{tenure}.2</body>"));
        assert_eq!(bodies(&heard).len(), 3, "{heard}");
        dies(&two);
        comes_back(&two, tenure);
        bob.send(&message("alice@localhost/a", &format!("{tenure}.last")));
        sent += 1;
        accepted(&mut bob, sent);
        let heard = alice.expect(&format!("<body>{tenure}.last</body>"));
        assert_eq!(bodies(&heard).len(), 1, "{heard}");
    }
    drop(alice);
    two.until("she is gone", |two| two.home.node().connections() == 1);
    let mut alice = Client::authenticate(two.edge.node().addresses()[0], "alice");
    let resume = format!("<resume xmlns='urn:xmpp:sm:3' h='1' previd='{session}'/>");
    alice.send(&resume);
    let heard = alice.expect("<body>7.last</body>");
    let expected = ["6.0", "6.1", "6.2", "6.last", "7.0", "7.1", "7.2", "7.last"];
    assert_eq!(bodies(&heard), expected, "{heard}");
}

/// Goal: what the client says before its edge hears of the session, and what the home writes
/// meanwhile, is no reason to end the stream with a home that moves before anything is recorded.
/// Of what is said behind `<enable/>` without a pause that holds too. What came too early, or too
/// long before that word, is kept no more.
#[test]
fn a_session_of_which_the_edge_hears_late_goes_on() {
    for (early_bytes_max, session_wait_max, stays) in [
        (4_096, PATIENCE, true),
        (16, PATIENCE, false),
        (4_096, SOON / 4, false),
    ] {
        let two = two(&["alice"], |joined| {
            joined.early_bytes_max = early_bytes_max;
            joined.session_wait_max = session_wait_max;
        });
        let mut alice = two.login("alice", "a");
        two.home.way.delay_answers(true);
        thread::sleep(2 * session_wait_max.min(SOON / 4));
        alice.send(
            "<enable xmlns='urn:xmpp:sm:3' resume='true'/>\
             <presence/><r xmlns='urn:xmpp:sm:3'/>",
        );
        alice.expect("<a xmlns='urn:xmpp:sm:3' h='1'/>");
        two.home.way.delay_answers(false);
        // It is an edge's own affair when it hears of it.
        thread::sleep(SOON / 8);
        moves(&two);
        comes_back(&two, 6);
        match stays {
            true => accepted(&mut alice, 1),
            false => drop(alice.expect("<stream:error><reset ")),
        }
    }
}

/// Goal: a home that moves on at once, before it has written anything to a client that came to it,
/// is outlived too.
#[test]
fn a_home_that_moves_on_at_once_is_outlived() {
    let two = two(&["alice"], |_| {});
    let (mut alice, _) = online(&two, "alice");
    for tenure in 6..9 {
        moves(&two);
        comes_back(&two, tenure);
        two.until("she is there", |two| two.home.node().connections() == 1);
        thread::sleep(SOON / 8);
    }
    accepted(&mut alice, 1);
}

/// Goal: so is one that moves on while the edge still sends what the home before has handled; that
/// is not handled again by the one after it either.
#[test]
fn a_home_that_moves_on_before_it_has_heard_all_is_outlived() {
    let two = two(&["alice", "bob"], |_| {});
    let (mut alice, _) = online(&two, "alice");
    let bob = || {
        let mut bob = Client::login(two.home.node().addresses()[0], "bob", "a");
        bob.send("<presence/><iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>");
        let heard = bob.expect("id='p'");
        (bob, bodies(&heard).len())
    };
    let (mut bobs, _) = bob();
    // What is recorded of these is not heard of by the edge.
    two.home.way.hold(true);
    for n in 0..3 {
        alice.send(&message("bob@localhost", &n.to_string()));
    }
    bobs.expect("<body>2</body>");
    dies(&two);
    two.home.way.hold(false);
    two.edge.way.hold(true);
    comes_back(&two, 6);
    two.until("she introduces herself", |two| {
        two.edge.way.let_one_through(EDGE) == Some(wire::Kind::Adopt)
    });
    two.until("she is there", |two| two.home.node().connections() == 1);
    let (mut bobs, waited) = bob();
    assert_eq!(waited, 0);
    bobs.send(&message("alice@localhost/a", "in between"));
    alice.expect("<body>in between</body>");
    moves(&two);
    comes_back(&two, 7);
    two.edge.way.hold(false);
    accepted(&mut alice, 4);
    assert_eq!(bob().1, 0, "nothing came twice");
}

/// Goal: a connection waits for a home for as long as it may, and no longer: then its stream ends,
/// and the session is resumed as ever.
#[test]
fn a_home_is_waited_for_and_not_for_ever() {
    let two = two(&["alice"], |joined| joined.home_wait_max = SOON);
    let (mut alice, session) = online(&two, "alice");
    moves(&two);
    thread::sleep(SOON / 4);
    comes_back(&two, 6);
    accepted(&mut alice, 1);
    moves(&two);
    alice.expect("<stream:error><reset ");
    comes_back(&two, 7);
    let mut alice = Client::authenticate(two.edge.node().addresses()[0], "alice");
    alice.send(&format!(
        "<resume xmlns='urn:xmpp:sm:3' h='1' previd='{session}'/>"
    ));
    alice.expect("<resumed ");
}

/// Goal: a home that does not answer is asked again, and what it answers late changes nothing.
#[test]
fn a_home_that_does_not_answer_is_asked_again() {
    let two = two(&["alice"], |joined| joined.answer_max = SOON);
    let (mut alice, _) = online(&two, "alice");
    moves(&two);
    two.edge.way.cut();
    comes_back(&two, 6);
    thread::sleep(SOON / 2);
    two.edge.way.mend();
    accepted(&mut alice, 1);
    assert_eq!(two.home.node().connections(), 1);
}

/// Goal: a home of an earlier version does not know what an introduction is: the stream ends as it
/// did, and not before its time. An edge of an earlier version is sent nothing that it does not
/// know.
#[test]
fn versions_that_know_of_no_introductions_end_streams() {
    let older_home = two(&["alice"], |joined| joined.home_wait_max = SOON);
    let (mut alice, _) = online(&older_home, "alice");
    older_home.edge.way.leads_to_older();
    moves(&older_home);
    comes_back(&older_home, 6);
    alice.expect("<stream:error><reset ");
    let older_edge = two(&["alice"], |_| {});
    older_edge.edge.way.leads_to_older();
    let (mut alice, _) = online(&older_edge, "alice");
    moves(&older_edge);
    alice.expect("<stream:error><reset ");
}

/// Goal: who may not log in any more does not go on either, and hears why; a session that ended,
/// or that somebody else has by now, is not taken over.
#[test]
fn who_may_not_go_on_hears_why() {
    let jid = || "alice@localhost".to_owned();
    let lock = Request::UserLock {
        jid: jid(),
        locked: true,
    };
    let password = Request::UserPasswd {
        jid: jid(),
        password: "another".to_owned(),
    };
    let cases = [
        (lock, "<not-authorized"),
        (password, "<reset"),
        (Request::UserKick { jid: jid() }, "<reset"),
        (Request::UserDel { jid: jid() }, "<not-authorized"),
    ];
    for (request, error) in cases {
        let two = two(&["alice"], |_| {});
        let (mut alice, _) = online(&two, "alice");
        moves(&two);
        two.home.door.gain(&ranges(), 6);
        two.administer(request);
        show(&two, 6);
        let heard = rest(&mut alice);
        assert!(
            heard.contains("<stream:error>") && heard.contains(error),
            "{heard}"
        );
    }
    let two = two(&["alice"], |_| {});
    let (mut alice, session) = online(&two, "alice");
    moves(&two);
    two.home.door.gain(&ranges(), 6);
    let mut other = Client::authenticate(two.home.node().addresses()[0], "alice");
    other.send(&format!(
        "<resume xmlns='urn:xmpp:sm:3' h='1' previd='{session}'/>"
    ));
    other.expect("<resumed ");
    show(&two, 6);
    assert!(rest(&mut alice).contains("<stream:error><conflict "));
    accepted(&mut other, 1);
}

/// Goal: an edge whose client came again by another connection, was told more there, and lost that
/// home as well, knows less than the records do: it does not go on, and the client resumes exactly.
#[test]
fn an_edge_of_before_does_not_go_on() {
    let two = two(&["alice", "bob"], |_| {});
    let (mut alice, session) = online(&two, "alice");
    let home = two.home.node().addresses()[0];
    let resume = |h: usize| {
        let mut again = Client::authenticate(home, "alice");
        again.send(&format!(
            "<resume xmlns='urn:xmpp:sm:3' h='{h}' previd='{session}'/>"
        ));
        again
    };
    dies(&two);
    two.home.door.gain(&ranges(), 6);
    let mut other = resume(1);
    let mut heard = other.expect("<resumed ");
    // Told more: what is in no log, and a message, which she has not got.
    for id in ["p1", "p2", "p3"] {
        other.send(&format!(
            "<iq type='get' id='{id}' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>"
        ));
    }
    other.send("<r xmlns='urn:xmpp:sm:3'/>");
    heard += &other.expect("<a xmlns='urn:xmpp:sm:3' h='4'/>");
    let has = 1 + stanzas(&heard);
    let mut bob = Client::login(home, "bob", "a");
    bob.send(&message("alice@localhost/a", "kept"));
    other.expect("<body>kept</body>");
    drop((other, bob));
    two.until("both are gone", |two| two.home.node().connections() == 0);
    two.home.door.lose(&ranges());
    comes_back(&two, 7);
    let heard = rest(&mut alice);
    assert!(heard.contains("<stream:error><conflict "), "{heard}");
    assert!(!heard.contains("<body>"), "{heard}");
    let mut again = resume(has);
    again.expect("<resumed ");
    again.expect("<body>kept</body>");
}

/// Goal: a session that is not counted, or cannot be resumed, ends with its home, as ever.
#[test]
fn what_cannot_be_resumed_ends_with_its_home() {
    for is_managed in [false, true] {
        let two = two(&["alice"], |_| {});
        let mut alice = two.login("alice", "a");
        if is_managed {
            alice.send("<enable xmlns='urn:xmpp:sm:3'/>");
            alice.expect("<enabled ");
        }
        moves(&two);
        alice.expect("<stream:error><reset ");
    }
}

/// Goal: of what a client said and no record has, so much is kept and no more: beyond, its stream
/// ends with a home that dies, and its client, which was told nothing else, sends it again. A home
/// that makes no records for a while changes nothing of that.
#[test]
fn what_is_kept_of_a_client_is_bounded() {
    for is_kept in [true, false] {
        let kept_bytes_max = if is_kept { 64 * 1024 } else { 256 };
        let two = two(&["alice", "bob"], |joined| {
            joined.kept_bytes_max = kept_bytes_max;
        });
        let (mut alice, _) = online(&two, "alice");
        let (mut bob, _) = online(&two, "bob");
        let faults = two.home.disk.faults();
        faults.set_commit_delay(SOON);
        for n in 0..10 {
            alice.send(&message("bob@localhost", &n.to_string()));
        }
        thread::sleep(SOON / 4);
        dies(&two);
        faults.set_commit_delay(Duration::ZERO);
        comes_back(&two, 6);
        if is_kept {
            accepted(&mut alice, 11);
            let heard = bob.expect("<body>9</body>");
            assert_eq!(bodies(&heard).len(), 10, "{heard}");
        } else {
            alice.expect("<stream:error><reset ");
        }
    }
}

/// Goal: records are made for a client that says much of which none would be, so that its stream
/// outlives its home at any time.
#[test]
fn records_are_made_for_the_sake_of_what_is_kept() {
    let two = two(&["alice"], |_| {});
    let (mut alice, _) = online(&two, "alice");
    let text = "x".repeat(1_000);
    for _ in 0..200 {
        alice.send(&format!(
            "<iq type='result' id='x' to='localhost'><x xmlns='urn:x'>{text}</x></iq>"
        ));
    }
    alice.send("<iq type='get' id='p' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    alice.expect("id='p'");
    thread::sleep(SOON);
    dies(&two);
    comes_back(&two, 6);
    accepted(&mut alice, 202);
}

/// Goal: a home of before that goes on a while later changes nothing: what it says is of a line
/// that is none any more.
#[test]
fn a_home_of_before_is_not_heard() {
    let two = two(&["alice", "bob"], |_| {});
    let (mut alice, _) = online(&two, "alice");
    two.home.way.hold(true);
    alice.send("<iq type='get' id='late' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    thread::sleep(SOON / 2);
    hide(&two);
    two.edge.door.forget_node(HOME);
    two.home.door.lose(&ranges());
    two.until("nobody is left", |two| two.home.node().connections() == 0);
    comes_back(&two, 6);
    two.home.way.hold(false);
    let heard = alice.expect("id='late'");
    assert!(!heard.contains("stream:error"), "{heard}");
    accepted(&mut alice, 2);
    let heard = alice.seen.matches("id='late'").count();
    assert_eq!(heard, 0, "it is answered once");
}

/// Goal: a request that the account has answered is not answered again by the next homes if its
/// home dies without a word, whatever is behind it or in front of it in no record.
#[test]
fn what_was_answered_before_a_home_died_is_not_answered_again() {
    let two = two(&["alice", "bob"], |_| {});
    let (mut alice, _) = online(&two, "alice");
    let ping = |id: &str| {
        format!("<iq type='get' id='{id}' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>")
    };
    alice.send(&ping("first"));
    alice.expect("id='first'");
    alice.send("<presence><status>in no record</status></presence>");
    alice.send(&ping("second"));
    alice.expect("id='second'");
    let mut heard = String::new();
    for tenure in 6..9 {
        dies(&two);
        alice.send(&ping(&format!("at {tenure}")));
        comes_back(&two, tenure);
        heard += &alice.expect(&format!("id='at {tenure}'"));
    }
    alice.send("<r xmlns='urn:xmpp:sm:3'/>");
    heard += &alice.expect("h='7'/>");
    assert!(!heard.contains("stream:error"), "{heard}");
    for (id, more) in [
        ("first", 0),
        ("second", 0),
        ("at 6", 1),
        ("at 7", 1),
        ("at 8", 1),
    ] {
        let answers = heard.matches(&format!("id='{id}'")).count();
        assert_eq!(answers, more, "{id}: {heard}");
    }
}

/// Goal: a request that a home has handled, and has recorded so, is answered although that home
/// dies before the answer has left: by the next one, with an error.
#[test]
fn what_was_not_answered_before_a_home_died_is_answered_by_the_next() {
    let two = two(&["alice", "bob"], |_| {});
    let (mut alice, _) = online(&two, "alice");
    let (mut bob, _) = online(&two, "bob");
    let mut heard = String::new();
    for tenure in 6..9 {
        two.home.way.hold(true);
        alice.send(&format!(
            "<iq type='get' id='lost {tenure}'><ping xmlns='urn:xmpp:ping'/></iq>"
        ));
        // The record of this says that the request was handled, too.
        alice.send(&message("bob@localhost/a", &format!("behind {tenure}")));
        thread::sleep(SOON);
        dies(&two);
        two.home.way.hold(false);
        comes_back(&two, tenure);
        bob.expect(&format!("<body>behind {tenure}</body>"));
        heard += &alice.expect("may have been carried out");
        accepted(&mut alice, 1 + 2 * (tenure - 5));
    }
    alice.send("<iq type='get' id='last'><ping xmlns='urn:xmpp:ping'/></iq>");
    heard += &alice.expect("id='last'");
    assert!(!heard.contains("stream:error"), "{heard}");
    for tenure in 6..9 {
        let answers = heard.matches(&format!("id='lost {tenure}'")).count();
        assert_eq!(answers, 1, "{heard}");
    }
}

/// Goal: a client that is slow to read, and for which more waits than a window, gets everything
/// of a home that moves, and then goes on; if the home dies its stream ends, and what it has not
/// got comes with the resumption.
#[test]
fn a_client_that_reads_nothing_loses_nothing() {
    for is_death in [false, true] {
        let two = two(&["alice", "bob"], |joined| {
            joined.end_max = if is_death { SOON } else { PATIENCE };
        });
        let (mut alice, session) = online(&two, "alice");
        // At the home: his own way is not held.
        let mut bob = Client::login(two.home.node().addresses()[0], "bob", "a");
        two.home.way.hold(true);
        let body = "x".repeat(20_000);
        for n in 0..8 {
            bob.send(&message("alice@localhost/a", &format!("{n} {body}")));
        }
        let until = "everything is handled";
        two.until(until, |two| {
            two.home.way.most.load(std::sync::atomic::Ordering::Relaxed) > 60_000
        });
        bob.send("<iq type='get' id='p' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
        bob.expect("id='p'");
        drop(bob);
        thread::sleep(SOON);
        match is_death {
            true => {
                // The last one ends in the middle of an element.
                let arrives = || two.home.way.let_one_through(HOME);
                let _ = (arrives(), arrives());
                while arrives().expect("more is held") != wire::Kind::JoinedBytes {}
                dies(&two);
                two.home.way.hold(false);
            }
            false => {
                hide(&two);
                two.home.door.lose(&ranges());
                two.home.way.hold(false);
            }
        }
        comes_back(&two, 6);
        let mut heard = String::new();
        if is_death {
            heard = rest(&mut alice);
            assert!(!heard.contains("stream:error"), "an element was cut");
            let end = "</message>";
            heard.truncate(heard.rfind(end).map_or(0, |at| at + end.len()));
            alice = Client::authenticate(two.edge.node().addresses()[0], "alice");
            let had = heard.matches("</message>").count() + 1;
            alice.send(&format!(
                "<resume xmlns='urn:xmpp:sm:3' h='{had}' previd='{session}'/>"
            ));
            alice.expect("<resumed ");
            // More than is sent before something is acknowledged.
            for n in had..9 {
                heard += &alice.expect("</message>");
                alice.send(&format!("<a xmlns='urn:xmpp:sm:3' h='{n}'/>"));
            }
        }
        if !is_death {
            heard += &alice.expect("<body>7 ");
        }
        for n in 0..8 {
            assert_eq!(heard.matches(&format!("<body>{n} ")).count(), 1, "{n}");
        }
    }
}

/// Goal: the node of the socket stops while it waits for a home: its client hears so.
#[test]
fn an_edge_that_stops_while_it_waits_says_goodbye() {
    let mut two = two(&["alice"], |_| {});
    let (mut alice, _) = online(&two, "alice");
    moves(&two);
    let node = two.edge.node.take().unwrap();
    node.drain(PATIENCE / 10);
    assert!(rest(&mut alice).contains("<stream:error><system-shutdown "));
    two.home.door.forget_node(EDGE);
}

/// Goal: whoever began to log in before the account's home moved away does not get in when it is
/// back: what was changed of the account meanwhile, its password or a lock, is not known here.
/// Whether the client is at this node or at another one.
#[test]
fn what_began_before_a_home_moved_away_begins_anew_when_it_is_back() {
    let two = two(&["alice"], |_| {});
    let nodes = [two.home.node(), two.edge.node()];
    let mut clients = nodes.map(|node| Client::authenticate(node.addresses()[0], "alice"));
    two.home.door.lose(&ranges());
    comes_back(&two, 7);
    for client in &mut clients {
        client.bind("late");
        let heard = rest(client);
        assert!(!heard.contains("<jid>"), "{heard}");
        assert!(heard.contains("<reset "), "{heard}");
    }
    drop(two.login("alice", "anew"));
}

const ROOM: &str = "hall@conference.localhost";

/// Presence that enters the room.
fn enter() -> String {
    format!("<presence to='{ROOM}/Alice'><x xmlns='http://jabber.org/protocol/muc'/></presence>")
}

/// Only the room is somewhere else, where nothing arrives; then it is here again.
fn loses_room(two: &Two, tenure: u32) {
    let range = two.home.door.range(ROOM);
    two.home.way.hold(true);
    two.home.door.lose(&[range]);
    two.home.door.set_away(range, Some((EDGE, tenure)));
}

fn finds_room(two: &Two, tenure: u32) {
    let range = two.home.door.range(ROOM);
    two.home.door.gain(&[range], tenure);
}

/// Goal: that a session could not enter a room, because that had no home for long, is said to this
/// session alone: not to the next one of its name, which is in the room; and not to itself if it
/// has entered since. One that waits still is told.
#[test]
fn that_a_room_was_not_found_is_told_to_who_waits() {
    for (closes, enters_again) in [(true, true), (false, true), (false, false)] {
        let two = two(&["alice"], |_| {});
        let mut alice = online_at_home(&two);
        alice.send(&enter());
        alice.expect("code='201'");
        alice.send(&format!("<presence to='{ROOM}/Alice' type='unavailable'/>"));
        alice.expect("unavailable");
        loses_room(&two, 6);
        alice.send(&enter());
        accepted(&mut alice, 4);
        if closes {
            alice.send("</stream:stream>");
            alice.expect("</stream:stream>");
            alice = online_at_home(&two);
        }
        finds_room(&two, 7);
        if enters_again {
            alice.send(&enter());
            alice.expect("code='110'");
        }
        two.home.way.give_back();
        if !enters_again {
            alice.expect("<presence type='error'");
            continue;
        }
        // It would be there before the answer.
        thread::sleep(SOON / 8);
        alice.send("<iq type='get' id='end' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
        let heard = alice.expect("id='end'");
        assert!(
            !heard.contains("<presence type='error'"),
            "{closes}: {heard}"
        );
    }
}

/// Goal: the same if her account begins anew meanwhile, which does not know whether she was let in.
#[test]
fn that_a_room_was_not_found_is_told_by_the_next_life_of_an_account() {
    let two = two(&["alice"], |_| {});
    let mut alice = online_at_home(&two);
    loses_room(&two, 6);
    alice.send(&enter());
    accepted(&mut alice, 2);
    let own = two.home.door.range("alice@localhost");
    two.home.door.lose(&[own]);
    two.home.door.gain(&[own], 7);
    alice.send("<iq type='get' id='anew' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    alice.expect("id='anew'");
    finds_room(&two, 8);
    two.home.way.give_back();
    alice.expect("<presence type='error'");
}

/// Goal: a member's session reads the room's log before it enters, and is told all the same that
/// the room was not found.
#[test]
fn that_a_room_was_not_found_is_told_to_a_member() {
    const MUC: &str = "http://jabber.org/protocol/muc";
    let two = two(&["alice"], |_| {});
    let mut alice = online_at_home(&two);
    alice.send(&enter());
    alice.expect("code='201'");
    alice.send(&format!(
        "<iq type='set' id='made' to='{ROOM}'><query xmlns='{MUC}#owner'>\
         <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>{MUC}#roomconfig</value></field>\
         <field var='muc#roomconfig_persistentroom'><value>1</value></field>\
         <field var='x-roomconfig_delivertomembers'><value>1</value></field></x></query></iq>"
    ));
    alice.expect("id='made'");
    // Her home has noted the room, and she reads its log.
    thread::sleep(SOON / 2);
    alice.send(&format!("<presence to='{ROOM}/Alice' type='unavailable'/>"));
    alice.expect("unavailable");
    thread::sleep(SOON / 2);
    loses_room(&two, 6);
    alice.send(&enter());
    accepted(&mut alice, 5);
    finds_room(&two, 7);
    two.home.way.give_back();
    alice.expect("<presence type='error'");
    // What one who is there sends once more makes nobody leave.
    alice.send(&enter());
    alice.expect("code='110'");
    loses_room(&two, 8);
    alice.send(&enter());
    accepted(&mut alice, 7);
    finds_room(&two, 9);
    two.home.way.give_back();
    thread::sleep(SOON / 8);
    alice.send("<iq type='get' id='end' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    let heard = alice.expect("id='end'");
    assert!(!heard.contains("<presence type='error'"), "{heard}");
}

/// Goal: that a client is back is told a room of another node as soon as that can be reached. It
/// never was, and the client was sent its own unavailable presence without a word of why.
#[test]
fn a_room_that_could_not_be_reached_hears_later_that_a_client_is_back() {
    let change = |options: &mut Options| {
        options.delivery.limits.rooms.answer_timeout = SOON / 8;
    };
    let two = Two::start_with(&["alice"], change, net::Limits::default());
    let room = two.home.door.range(ROOM);
    two.home.door.lose(&[room]);
    two.edge.door.gain(&[room], 6);
    two.home.door.set_away(room, Some((EDGE, 6)));
    let mut alice = online_at_home(&two);
    alice.send(&enter());
    alice.expect("code='201'");
    accepted(&mut alice, 2);
    two.home.door.set_away(room, None);
    let own = two.home.door.range("alice@localhost");
    two.home.door.lose(&[own]);
    two.home.door.gain(&[own], 7);
    two.edge.door.set_away(own, Some((HOME, 7)));
    alice.send("<iq type='get' id='anew' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    let mut heard = alice.expect("id='anew'");
    // It would be there before the answer, or soon.
    thread::sleep(SOON / 4);
    two.home.door.set_away(room, Some((EDGE, 6)));
    heard += &alice.expect("code='110'");
    assert!(!heard.contains("unavailable"), "{heard}");
}

/// Goal: what a session has acknowledged when its link is lost is not given to the next one, also
/// if its account moves to another home right then.
#[test]
fn what_was_acknowledged_before_the_link_was_lost_does_not_come_again() {
    let two = two(&["alice", "bob"], |_| {});
    let (mut alice, _) = online(&two, "alice");
    let (mut bob, _) = online(&two, "bob");
    bob.send(&message("alice@localhost/a", "once"));
    bob.send(&message("alice@localhost", "for all"));
    let heard = alice.expect("<body>for all</body>");
    alice.send(&format!(
        "<a xmlns='urn:xmpp:sm:3' h='{}'/>",
        1 + stanzas(&heard)
    ));
    alice.send("<iq type='get' id='read' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    alice.expect("id='read'");
    drop(alice);
    two.until("she is gone", |two| two.home.node().connections() == 1);
    // Her account has heard so, and its commit is over.
    thread::sleep(SOON / 4);
    moves(&two);
    comes_back(&two, 6);
    let mut alice = two.login("alice", "a");
    alice.send("<presence/>");
    bob.send(&message("alice@localhost", "last"));
    let heard = alice.expect("<body>last</body>");
    assert_eq!(bodies(&heard), ["last"], "{heard}");
}
