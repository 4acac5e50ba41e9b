//! What a session said to a room and the next session of its address has overtaken: in a cluster it
//! may have waited at a node for a home of the room, and reach it behind what the next one says.
//! Who is there stays there, and who is not does not come back.

#![allow(clippy::disallowed_methods)] // Two nodes wait for sockets, on the real clock.

mod common;

use common::occupants::{
    Client, PERSISTENT, ROOM, configure, configures, enters, pair, rest, there,
};
use common::two::{EDGE, HOME, Two};
use common::world::World;
use server::away::Taken;
use wire::{Arrival, Envelope, Kind, Message, Packet, Stanza};
use xml::Frame;

/// The tenure in which a node is at home of all ranges at first.
const FIRST: u32 = 1;

/// The numbers of Juliet's sessions, in the order of their logins.
const EARLIER: Option<u32> = Some(0);
const LATER: Option<u32> = Some(1);

const JULIET: &str = "juliet@localhost/juliet";

/// A stanza of Juliet's session of that number, if it has one, reaches the room now.
fn comes_late(world: &mut World, number: Option<u32>, stanza: &str) {
    let frame = Frame::parse(stanza).unwrap();
    let frame = frame.edit().set_attr("from", JULIET).finish();
    let mut stanza = Stanza::new(Some("juliet".into()), frame);
    stanza.managed = number;
    let packet = Packet::Message(Envelope {
        to: ROOM.into(),
        range: world.node().range(ROOM),
        tenure: FIRST,
        activate: true,
        credit: None,
        message: Message::Stanza(stanza),
    });
    let mut bytes = Vec::new();
    packet.encode(&mut bytes).unwrap();
    assert_eq!(world.node().arrives(&bytes), Ok(None));
    rest(world);
}

fn changes(nick: &str) -> String {
    format!("<presence to='{ROOM}/{nick}'><show>away</show></presence>")
}

fn leaves() -> String {
    format!("<presence type='unavailable' to='{ROOM}/juliet'/>")
}

/// Romeo in a room, and Juliet in the second of her sessions.
fn next_session(world: &mut World) -> (Client, Client) {
    let (mut romeo, mut juliet) = pair(world);
    juliet.lose_link();
    let juliet = Client::enter(world, "juliet", "juliet");
    rest(world);
    romeo.read();
    assert_eq!(there(&romeo), ["juliet", "romeo"]);
    romeo.heard.clear();
    (romeo, juliet)
}

/// Everybody knows that both are there, and hears what is said; nobody was told otherwise.
fn are_both_there(world: &mut World, (romeo, juliet): (&mut Client, &mut Client), case: &str) {
    rest(world);
    romeo.say(1);
    rest(world);
    juliet.say(2);
    rest(world);
    for client in [&mut *romeo, &mut *juliet] {
        client.read();
        let heard = &client.heard;
        assert_eq!(client.said(), [1, 2], "{case}: {}: {heard}", client.nick);
        assert!(!heard.contains("type='unavailable'"), "{case}: {heard}");
        assert!(!heard.contains("type='error'"), "{case}: {heard}");
        assert!(!heard.contains("<show>away"), "{case}: {heard}");
    }
    assert_eq!(
        there(juliet),
        ["juliet", "romeo"],
        "{case}: {}",
        juliet.heard
    );
}

/// Goal: presence of the earlier session changes nothing of the later one. The room took it for
/// that of the one who is there, under the earlier one's number: what ended the earlier one put her
/// out, for all others.
#[test]
fn what_the_earlier_session_said_does_not_put_the_later_one_out() {
    let all = [
        enters("juliet"),
        enters("other"),
        changes("juliet"),
        changes("other"),
    ];
    for first in all {
        let mut world = World::patient(|_| ());
        let (mut romeo, mut juliet) = next_session(&mut world);
        comes_late(&mut world, EARLIER, &first);
        comes_late(&mut world, EARLIER, &leaves());
        are_both_there(&mut world, (&mut romeo, &mut juliet), &first);
    }
}

/// Goal: the end of the earlier session alone is none of the later one's, nor is one that names no
/// session.
#[test]
fn the_end_of_the_earlier_session_is_not_that_of_the_later_one() {
    for number in [EARLIER, None] {
        let mut world = World::patient(|_| ());
        let (mut romeo, mut juliet) = next_session(&mut world);
        comes_late(&mut world, number, &leaves());
        are_both_there(
            &mut world,
            (&mut romeo, &mut juliet),
            &format!("{number:?}"),
        );
    }
}

/// Goal: the next life of the room asks for the session that is there. It asked for the earlier
/// one, of which the home says that it is gone.
#[test]
fn a_room_that_is_read_again_asks_for_the_later_session() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = next_session(&mut world);
    comes_late(&mut world, EARLIER, &enters("juliet"));
    world.node().kill(ROOM);
    are_both_there(&mut world, (&mut romeo, &mut juliet), "killed");
}

/// Goal: that a copy for the earlier session came back does not put the later one out.
#[test]
fn a_copy_for_the_earlier_session_that_comes_back_does_not_put_the_later_one_out() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = next_session(&mut world);
    let error = format!(
        "<message type='error' to='{ROOM}'><error type='cancel'><service-unavailable \
         xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
    );
    comes_late(&mut world, None, &error);
    are_both_there(&mut world, (&mut romeo, &mut juliet), "bounced");
}

/// Goal: who is gone, or has left, is not in the room again because the entry came behind that.
/// Such a ghost was there until somebody spoke.
#[test]
fn an_entry_behind_its_own_end_makes_no_ghost() {
    for (number, is_there) in [(EARLIER, false), (LATER, true)] {
        let mut world = World::patient(|_| ());
        let mut romeo = Client::enter(&mut world, "romeo", "romeo");
        configure(&mut world, &mut romeo, PERSISTENT);
        let mut first = Client::login(&mut world, "juliet", "juliet");
        first.lose_link();
        let mut juliet = Client::login(&mut world, "juliet", "juliet");
        if is_there {
            juliet.send(&leaves());
        }
        rest(&mut world);
        comes_late(&mut world, number, &enters("juliet"));
        romeo.read();
        assert_eq!(there(&romeo), ["romeo"], "{number:?}: {}", romeo.heard);
        // She may enter as ever.
        juliet.send(&enters("juliet"));
        rest(&mut world);
        for client in [&mut romeo, &mut juliet] {
            client.read();
            let all = ["juliet", "romeo"];
            assert_eq!(there(client), all, "{number:?}: {}", client.heard);
        }
    }
}

/// Packets for the room with the presence of a session, of those that have not left a node, and the
/// number of that session.
fn presence_for_the_room(packets: Vec<Vec<u8>>) -> Vec<(Vec<u8>, Option<u32>)> {
    let presence = |packet: Vec<u8>| {
        if Arrival::read(&packet).unwrap().kind() != Kind::Stanza {
            return None;
        }
        let Ok(Packet::Message(envelope)) = Packet::decode(&packet) else {
            return None;
        };
        match envelope.message {
            Message::Stanza(stanza)
                if *envelope.to == *ROOM && stanza.frame.name() == "presence" =>
            {
                Some((packet, stanza.managed))
            }
            _ => None,
        }
    };
    packets.into_iter().filter_map(presence).collect()
}

/// Goal: a home names the session in all that it says of it to a room at another node, its end as
/// well: what comes once more behind the next session's entry, as if it had waited, changes
/// nothing.
#[test]
fn what_waited_at_another_node_does_not_put_the_later_session_out() {
    const SM: &str = "xmlns='urn:xmpp:sm:3'";
    let two = Two::start(&["romeo", "juliet"]);
    let range = two.home.door.range(ROOM);
    for user in ["romeo@localhost", "juliet@localhost"] {
        assert_ne!(range, two.home.door.range(user));
    }
    two.home.door.lose(&[range]);
    two.home.door.set_away(range, Some((EDGE, 6)));
    two.edge.door.gain(&[range], 6);
    let login = |user: &str| {
        let mut client = common::Client::login(two.home.node().addresses()[0], user, user);
        client.send(&format!("<enable {SM} resume='true'/>"));
        client.expect("<enabled ");
        client
    };
    let mut romeo = login("romeo");
    romeo.send(&enters("romeo"));
    romeo.expect("<subject");
    romeo.send(&configures(PERSISTENT));
    romeo.expect("id='config'");

    let way = &two.home.way;
    way.hold(true);
    let mut juliet = login("juliet");
    juliet.send(&enters("juliet"));
    let says = |two: &Two, count| {
        two.until("what is said to the room", |two| {
            presence_for_the_room(two.home.way.waiting()).len() >= count
        });
        presence_for_the_room(two.home.way.waiting())
    };
    says(&two, 1);
    // The next one takes her place, and the end of this one follows.
    let mut juliet = login("juliet");
    let late = says(&two, 2);
    way.hold(false);
    romeo.expect("type='unavailable'");
    romeo.expect("</presence>");
    juliet.send(&enters("juliet"));
    // The subject may be that of the earlier entry.
    juliet.expect("code='110'");
    romeo.expect("</presence>");
    for (packet, number) in late {
        assert_eq!(number, EARLIER);
        assert_eq!(two.edge.door.receive(HOME, &packet), Taken::Yes);
    }
    let says = |client: &mut common::Client, number: u32| {
        client.send(&format!(
            "<message type='groupchat' to='{ROOM}'><body>{number}</body></message>"
        ));
    };
    says(&mut romeo, 1);
    let heard = romeo.expect("<body>1</body>");
    assert!(!heard.contains("unavailable"), "{heard}");
    let heard = juliet.expect("<body>1</body>");
    assert!(!heard.contains("unavailable"), "{heard}");
    says(&mut juliet, 2);
    let heard = romeo.expect("<body>2</body>");
    assert!(!heard.contains("unavailable"), "{heard}");
    assert!(!heard.contains("type='error'"), "{heard}");
}
