//! A client of a cluster that came to the node which is the home of its account: its stream
//! outlives that home as it would from another node (`crates/server/src/join.rs`).

#![allow(clippy::disallowed_methods)] // These wait for sockets, on the real clock.

mod common;

use std::time::Duration;

use common::two::{Two, message, rest, says_without_a_home};
use common::{Client, managed};
use server::admin::{Request, Response};
use server::chaos::Fault;
use server::options::Options;
use store::RangeId;

fn two(users: &[&str], change: impl Fn(&mut Options), network: net::Limits) -> Two {
    let change = |options: &mut Options| {
        options.joined.home_wait_step = Duration::from_millis(10);
        change(options);
    };
    Two::start_with(users, change, network)
}

fn ranges() -> Vec<RangeId> {
    RangeId::all().collect()
}

/// At the home itself.
fn online(two: &Two, user: &str) -> Client {
    managed(two.home.node(), user)
}

/// Everything is at home elsewhere, as far as both nodes know, but nobody knows where.
fn loses(two: &Two) {
    for range in ranges() {
        two.edge.door.set_away(range, None);
    }
    two.home.door.lose(&ranges());
}

/// Goal: a node that loses its homes, as when a server of the engine is killed, ends no stream of
/// those who are connected to it: what they say meanwhile is handled by the next home, once.
#[test]
fn a_stream_at_its_home_goes_on_at_the_next_one() {
    let two = two(&["alice", "bob"], |_| {}, net::Limits::default());
    let (mut alice, mut bob) = (online(&two, "alice"), online(&two, "bob"));
    let mut handled = 1;
    for tenure in 6..10 {
        alice.send(&message("bob@localhost/a", &format!("before {tenure}")));
        bob.expect(&format!("<body>before {tenure}</body>"));
        loses(&two);
        handled += 5;
        let both = (&mut alice, &mut bob);
        says_without_a_home(both, (tenure, handled), || {
            two.home.door.gain(&ranges(), tenure);
        });
    }
}

/// Goal: a change that could not be made durable, or of which nobody knows for a while, has an
/// account read again; streams of its clients go on, wherever they came to, and what they said is
/// handled once.
#[test]
fn a_stream_outlives_a_change_that_failed() {
    for (is_edge, is_kept) in [(false, false), (false, true), (true, false), (true, true)] {
        let two = two(&["alice", "bob"], |_| {}, net::Limits::default());
        let mut alice = match is_edge {
            true => managed(two.edge.node(), "alice"),
            false => managed(two.home.node(), "alice"),
        };
        let mut bob = managed(two.home.node(), "bob");
        for n in 0..5 {
            two.home.disk.faults().fail_commits(1, is_kept);
            alice.send(&message("bob@localhost/a", &format!("{n}.")));
            alice.send("<r xmlns='urn:xmpp:sm:3'/>");
            let answered = alice.expect(&format!("h='{}'/>", 2 * n + 2));
            assert!(!answered.contains("stream:"), "{answered}");
            alice.send(&message("bob@localhost/a", &format!("last of {n}.")));
            let heard = bob.expect(&format!("<body>last of {n}.</body>"));
            assert_eq!(
                heard.matches(&format!("<body>{n}.</body>")).count(),
                1,
                "{heard}"
            );
            alice.send("<r xmlns='urn:xmpp:sm:3'/>");
            alice.expect("<a ");
        }
    }
}

/// Goal: what the account answered is neither done nor answered once more because a change behind
/// it failed, recorded or not; what it was asked behind that is answered once, too.
#[test]
fn what_was_answered_is_not_answered_again() {
    let ping = |id: String| {
        format!("<iq type='get' id='{id}' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>")
    };
    for (is_edge, is_kept) in [(false, false), (false, true), (true, false), (true, true)] {
        let two = two(&["alice", "bob"], |_| {}, net::Limits::default());
        let mut alice = match is_edge {
            true => managed(two.edge.node(), "alice"),
            false => managed(two.home.node(), "alice"),
        };
        for n in 0..3 {
            for id in ["first", "second"] {
                alice.send(&ping(format!("{id}-{n}")));
                alice.expect(&format!("id='{id}-{n}'"));
            }
            two.home.disk.faults().fail_commits(1, is_kept);
            alice.send(&message("bob@localhost/a", &format!("{n}.")));
            alice.send(&ping(format!("last-{n}")));
            alice.send("<r xmlns='urn:xmpp:sm:3'/>");
            let heard = alice.expect(&format!("h='{}'/>", 4 * n + 5));
            assert!(!heard.contains("stream:"), "{heard}");
            let again = heard.contains("id='first-") || heard.contains("id='second-");
            assert!(!again, "{heard}");
            assert_eq!(
                heard.matches(&format!("id='last-{n}'")).count(),
                1,
                "{heard}"
            );
        }
    }
}

/// Goal: the end of an account's actor, as by a fault of ours, ends none of its streams: the next
/// one goes on with them, and nothing is lost or comes twice.
#[test]
fn a_stream_outlives_the_actor_of_its_account() {
    let chaos = |options: &mut Options| options.chaos = true;
    let two = two(&["alice", "bob"], chaos, net::Limits::default());
    let mut alice = managed(two.edge.node(), "alice");
    let mut bob = managed(two.home.node(), "bob");
    let mut killed = 0;
    for n in 0..60 {
        let fault = Fault::KillActor;
        let caused = two.home.node().admin().call(Request::Chaos { fault });
        killed += u32::from(matches!(caused, Response::Caused { .. }));
        alice.send(&message("bob@localhost/a", &format!("{n}.")));
        alice.send("<r xmlns='urn:xmpp:sm:3'/>");
        let answered = alice.expect(&format!("h='{}'/>", n + 2));
        assert!(!answered.contains("stream:"), "{answered}");
        let heard = bob.expect(&format!("<body>{n}.</body>"));
        assert_eq!(heard.matches("<body>").count(), 1, "{heard}");
    }
    assert!(killed > 10, "{killed}");
}

/// Goal: such a client counts once, and not as two connections of its address or of the node.
#[test]
fn who_is_at_home_counts_once() {
    let network = net::Limits {
        connections_per_address_max: 2,
        exempt: Vec::new(),
        ..net::Limits::default()
    };
    let two = two(&["alice", "bob"], |_| {}, network);
    let (alice, mut bob) = (online(&two, "alice"), online(&two, "bob"));
    assert_eq!(two.home.node().connections(), 2);
    let mut third = Client::connect(two.home.node().addresses()[0]);
    assert!(!rest(&mut third).contains("<stream:features"));
    // And what was counted is given back.
    drop(alice);
    two.until("alice has gone", |two| two.home.node().connections() == 1);
    let mut alice = online(&two, "alice");
    alice.send(&message("bob@localhost/a", "again"));
    bob.expect("<body>again</body>");
}

/// Goal: the bound on connections counts them so too, and lets in as many as it says.
#[test]
fn the_bound_on_connections_counts_clients() {
    let network = net::Limits {
        connections_max: 2,
        ..net::Limits::default()
    };
    let two = two(&["alice", "bob", "carol"], |_| {}, network);
    let (alice, _bob) = (online(&two, "alice"), online(&two, "bob"));
    let mut third = Client::connect(two.home.node().addresses()[0]);
    assert!(!rest(&mut third).contains("<stream:features"));
    drop(alice);
    two.until("alice has gone", |two| two.home.node().connections() == 1);
    let _carol = online(&two, "carol");
    assert_eq!(two.home.node().connections(), 2);
}

/// Goal: actors that end one after the other, also before they have a stream again, end none.
#[test]
fn a_stream_outlives_actors_that_end_before_they_have_it() {
    let chaos = |options: &mut Options| options.chaos = true;
    let two = two(&["alice", "bob"], chaos, net::Limits::default());
    let mut alice = managed(two.edge.node(), "alice");
    let mut bob = managed(two.home.node(), "bob");
    for n in 0..30 {
        alice.send(&message("bob@localhost/a", &format!("{n}.")));
        for _ in 0..20 {
            let fault = Fault::KillActor;
            two.home.node().admin().call(Request::Chaos { fault });
        }
        alice.send("<r xmlns='urn:xmpp:sm:3'/>");
        let answered = alice.expect(&format!("h='{}'/>", n + 2));
        assert!(!answered.contains("stream:"), "{answered}");
        let heard = bob.expect(&format!("<body>{n}.</body>"));
        assert_eq!(heard.matches("<body>").count(), 1, "{heard}");
    }
}

/// Goal: where it is switched off, a stream ends with its home, and says why.
#[test]
fn without_it_a_stream_ends_with_its_home() {
    let two = two(
        &["alice"],
        |options| options.joined.at_home = false,
        net::Limits::default(),
    );
    let mut alice = online(&two, "alice");
    loses(&two);
    assert!(rest(&mut alice).contains("<stream:error><reset "));
}
