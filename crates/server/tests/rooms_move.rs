//! Rooms whose home dies while those of their occupants and members live on: two nodes in this
//! process, the room at one of them and those who are told at the other.

#![allow(clippy::disallowed_methods)] // These wait for sockets, on the real clock.

mod common;

use std::time::Duration;

use common::occupants::{PERSISTENT, ROOM, configures, enters};
use common::two::{EDGE, Two, bodies};
use common::{Client, managed};
use server::Options;
use server::admin::{Request, Response};
use store::RangeId;

const TO_MEMBERS: &str = "<field var='x-roomconfig_delivertomembers'><value>1</value></field>";

/// The range of an address is at home at the edge from now on, for both nodes.
fn settle(two: &Two, range: RangeId, tenure: u32) {
    two.home.door.lose(&[range]);
    two.edge.door.gain(&[range], tenure);
    two.home.door.set_away(range, Some((EDGE, tenure)));
}

/// Carol and the room are at home at the edge, and she has made it.
fn with_room(two: &Two, is_managed: bool) -> Client {
    for address in [ROOM, "carol@localhost"] {
        settle(two, two.edge.door.range(address), 6);
    }
    let added = two.edge.node().admin().call(Request::UserAdd {
        jid: "carol@localhost".into(),
        password: "secret".into(),
    });
    assert_eq!(added, Response::Ok);
    let mut carol = match is_managed {
        true => managed(two.edge.node(), "carol"),
        false => Client::login(two.edge.node().addresses()[0], "carol", "a"),
    };
    carol.send(&enters("carol"));
    carol.expect("<subject");
    carol.send(&configures(&format!("{PERSISTENT}{TO_MEMBERS}")));
    carol.expect("id='config'");
    carol
}

fn says(carol: &mut Client, body: &str) {
    carol.send(&format!(
        "<message type='groupchat' to='{ROOM}'><body>{body}</body></message>"
    ));
    carol.expect(&format!("<body>{body}</body>"));
}

/// Bob is online, and a member from now on.
fn make_member(carol: &mut Client, bob: &mut Client) {
    bob.send("<presence/>");
    bob.expect("<presence ");
    carol.send(&format!(
        "<iq type='set' id='member' to='{ROOM}'>\
         <query xmlns='http://jabber.org/protocol/muc#admin'>\
         <item jid='bob@localhost' affiliation='member'/></query></iq>"
    ));
    carol.expect("id='member'");
}

/// The room's home dies, and is there again. It has accepted a message, and has told nobody
/// elsewhere.
fn dies_with_a_message(two: &Two, (carol, bob): (&mut Client, &mut Client)) {
    says(carol, "heard");
    bob.expect("<body>heard</body>");
    two.edge.way.cut();
    says(carol, "missed");
    let range = two.edge.door.range(ROOM);
    two.home.door.set_away(range, None);
    two.edge.door.lose(&[range]);
    two.home.door.forget_node(EDGE);
    two.edge.way.mend();
    settle(two, range, 7);
}

/// Goal: what a room has accepted, and its last home did not tell all of before it died, they hear
/// without anybody's using the room again: a session that is in the room, and one of a member that
/// is not.
#[test]
fn the_next_home_of_a_room_tells_what_the_last_one_did_not() {
    for is_member in [false, true] {
        let two = Two::start(&["bob"]);
        let mut carol = with_room(&two, true);
        let mut bob = match is_member {
            false => managed(two.home.node(), "bob"),
            true => Client::login(two.home.node().addresses()[0], "bob", "a"),
        };
        match is_member {
            false => {
                bob.send(&enters("bob"));
                bob.expect("<subject");
            }
            true => make_member(&mut carol, &mut bob),
        }
        dies_with_a_message(&two, (&mut carol, &mut bob));
        let missed = bob.expect("<body>missed</body>");
        assert_eq!(missed.matches("<body>").count(), 1, "{missed}");
    }
}

/// Goal: a room in which nothing was said for long is not loaded for its members; these hear what
/// they missed with the next message.
#[test]
fn a_room_that_was_quiet_for_long_tells_its_members_with_the_next_message() {
    let change = |options: &mut Options| options.waking.rooms = Duration::ZERO;
    let two = Two::start_with(&["bob"], change, net::Limits::default());
    let mut carol = with_room(&two, false);
    let mut bob = Client::login(two.home.node().addresses()[0], "bob", "a");
    make_member(&mut carol, &mut bob);
    dies_with_a_message(&two, (&mut carol, &mut bob));
    std::thread::sleep(Duration::from_millis(300));
    bob.send("<iq type='get' id='p' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    let heard = bob.expect("id='p'");
    assert!(!heard.contains("<body>"), "{heard}");
    // Nobody is in it any more: her session was not managed.
    carol.send(&enters("carol"));
    carol.expect("<subject");
    says(&mut carol, "next");
    let heard = bob.expect("<body>next</body>");
    assert_eq!(bodies(&heard), ["missed", "next"]);
}
