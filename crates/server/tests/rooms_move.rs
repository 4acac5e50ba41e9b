//! Rooms whose home dies while those of their occupants and members live on: two nodes in this
//! process, the room at one of them and those who are told at the other.

#![allow(clippy::disallowed_methods)] // These wait for sockets, on the real clock.

mod common;

use common::occupants::{PERSISTENT, ROOM, configures, enters};
use common::two::{EDGE, Two};
use common::{Client, managed};
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
fn with_room(two: &Two) -> Client {
    for address in [ROOM, "carol@localhost"] {
        settle(two, two.edge.door.range(address), 6);
    }
    let added = two.edge.node().admin().call(Request::UserAdd {
        jid: "carol@localhost".into(),
        password: "secret".into(),
    });
    assert_eq!(added, Response::Ok);
    let mut carol = managed(two.edge.node(), "carol");
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
        let mut carol = with_room(&two);
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
