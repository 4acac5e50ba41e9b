//! Who is online, asked of a contact whose home has just come to another node and has not loaded
//! everybody yet who is: between two nodes in this process, each the home of one of the two users.

#![allow(clippy::disallowed_methods)] // These wait for sockets, on the real clock.

mod common;

use std::thread;
use std::time::Duration;

use common::two::{EDGE, HOME, Two};
use common::{Client, managed};
use server::admin::{Request, Response};

const ALICE: &str = "alice@localhost";
const BOB: &str = "bob@localhost";

/// How long a home takes here to read who is to be loaded: long enough for whoever asks meanwhile.
const SLOWLY: Duration = Duration::from_secs(1);

/// Alice is at home at the edge, which loaded everybody long ago, and sees bob, who is not.
fn apart() -> Two {
    let two = Two::start(&["bob"]);
    let alice = two.home.door.range(ALICE);
    assert_ne!(alice, two.home.door.range(BOB), "each has a home");
    two.home.door.lose(&[alice]);
    two.edge.door.gain(&[alice], 6);
    two.home.door.set_away(alice, Some((EDGE, 6)));
    let add = Request::UserAdd {
        jid: ALICE.into(),
        password: "secret".into(),
    };
    assert_eq!(two.edge.node().admin().call(add), Response::Ok);
    let mut alice = Client::login(two.edge.node().addresses()[0], "alice", "a");
    alice.send("<presence/>");
    alice.expect("<presence ");
    let mut bob = managed(two.home.node(), "bob");
    alice.send(&format!("<presence type='subscribe' to='{BOB}'/>"));
    bob.expect("type='subscribe'");
    bob.send(&format!("<presence type='subscribed' to='{ALICE}'/>"));
    alice.expect("type='subscribed'");
    // His session waits to be resumed, and he is online.
    drop(bob);
    two.until("he is gone", |two| two.home.node().connections() == 0);
    alice.send("</stream:stream>");
    alice.expect("</stream:stream>");
    two
}

/// Goal: who comes online sees contacts who are, also those whose home has not loaded them yet,
/// however long ago the home of who asks did so.
#[test]
fn a_contact_is_seen_whose_home_has_just_come() {
    let two = apart();
    let bob = two.home.door.range(BOB);
    two.home.door.lose(&[bob]);
    two.home.disk.faults().set_read_delay(SLOWLY);
    two.home.door.gain(&[bob], 7);
    two.edge.door.set_away(bob, Some((HOME, 7)));
    let mut alice = Client::login(two.edge.node().addresses()[0], "alice", "a");
    alice.send("<presence/>");
    alice.expect("<presence from='bob@localhost/a'");
}

/// Goal: a contact who is not online is not loaded for the question once his home has loaded those
/// who are.
#[test]
fn a_contact_who_is_not_online_is_left_alone() {
    let two = apart();
    let bob = two.home.door.range(BOB);
    let kick = Request::UserKick { jid: BOB.into() };
    assert_eq!(two.home.node().admin().call(kick), Response::Ok);
    two.home.door.lose(&[bob]);
    two.home.door.gain(&[bob], 7);
    two.edge.door.set_away(bob, Some((HOME, 7)));
    // Longer than it takes to load nobody.
    thread::sleep(Duration::from_millis(300));
    let loaded = two.home.node().accounts_loaded();
    let mut alice = Client::login(two.edge.node().addresses()[0], "alice", "a");
    alice.send("<presence/>");
    // He would be loaded by then.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(two.home.node().accounts_loaded(), loaded);
}
