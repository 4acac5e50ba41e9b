//! Messages of a room whose counts were recorded ahead (XEP-0198, XEP-0045), in a whole node: they
//! cost no commit of their own, and whatever comes between them, nothing of them is lost or comes
//! twice when the node is killed.

mod common;

use std::time::Duration;

use common::occupants::{Client, ROOM, pair, rest};
use common::world::World;

const PING: &str = "<iq type='get' id='between' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>";
const ROSTER_SET: &str = "<iq type='set' id='between'><query xmlns='jabber:iq:roster'>\
     <item jid='benvolio@localhost'/></query></iq>";

/// Four messages, one after the other: the record of the fourth says ahead what three more will
/// have.
fn in_a_row(world: &mut World) -> (Client, Client) {
    let (mut romeo, mut juliet) = pair(world);
    rest(world);
    juliet.read();
    for number in 1..=4 {
        say(world, (&mut romeo, &mut juliet), number);
    }
    rest(world);
    (romeo, juliet)
}

fn say(world: &mut World, (romeo, juliet): (&mut Client, &mut Client), number: usize) {
    romeo.say(number);
    for client in [romeo, juliet] {
        client.expect(world, &format!("<body>{number}</body>"));
        client.expect(world, "</message>");
    }
}

/// Commits that a message needs until it is there.
fn commits(world: &mut World, (romeo, juliet): (&mut Client, &mut Client), number: usize) -> u32 {
    world.hold();
    romeo.say(number);
    let mut commits = 0;
    loop {
        world.work();
        juliet.read();
        if juliet.said().contains(&number) {
            break;
        }
        commits += u32::from(world.try_one());
        std::thread::sleep(Duration::from_millis(1));
    }
    world.let_go();
    rest(world);
    commits
}

#[test]
fn a_message_whose_count_was_recorded_ahead_needs_no_commit_of_its_own() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    rest(&mut world);
    juliet.read();
    let needed: Vec<u32> = (1..=8)
        .map(|number| commits(&mut world, (&mut romeo, &mut juliet), number))
        .collect();
    // The fourth in a row says ahead what three more will have.
    let (own, ahead) = ([0, 1, 2, 3, 7], [4, 5, 6]);
    for (at, other) in own
        .into_iter()
        .flat_map(|at| ahead.map(|other| (at, other)))
    {
        assert!(needed[other] < needed[at], "{needed:?}");
    }
    let read = common::store_on(&world.disk).rooms_read("juliet@localhost");
    let (_, room, read) = &read.expect("the store is read")[0];
    assert_eq!(&**room, ROOM);
    let last = read.given.last().expect("something was given");
    let eighth = read.given[read.given.len() - 8];
    assert_eq!((last.count, last.seq), (eighth.count + 7, eighth.seq + 7));
}

#[test]
fn what_is_killed_while_counts_are_recorded_ahead_loses_nothing() {
    for has in 1..=7 {
        let mut world = World::patient(|_| ());
        let (mut romeo, mut juliet) = pair(&mut world);
        rest(&mut world);
        juliet.read();
        for number in 1..=has {
            say(&mut world, (&mut romeo, &mut juliet), number);
        }
        for number in has + 1..=7 {
            romeo.say(number);
            romeo.expect(&mut world, &format!("<body>{number}</body>"));
        }
        // What else came is lost with the link.
        juliet.peer = None;
        romeo.lose_link();
        world.crash();
        romeo.resume(&mut world);
        romeo.say(8);
        rest(&mut world);
        juliet.resume(&mut world);
        rest(&mut world);
        juliet.read();
        assert_eq!(juliet.said(), [1, 2, 3, 4, 5, 6, 7, 8], "has {has}");
    }
}

/// The count of the stanza in between was said to be that of the fifth message.
#[test]
fn what_comes_between_messages_is_not_taken_for_one_of_them() {
    let chat = "<message type='chat' to='juliet@localhost/juliet'><body>100</body></message>";
    let status = format!("<presence to='{ROOM}/romeo'><status>between</status></presence>");
    let ways: [(bool, &str, &str); 4] = [
        (true, PING, "id='between'"),
        (true, ROSTER_SET, "id='between'"),
        (false, chat, "<body>100</body>"),
        (false, &status, "<status>between</status>"),
    ];
    for (is_own, stanza, seen) in ways {
        let mut world = World::patient(|_| ());
        let (mut romeo, mut juliet) = in_a_row(&mut world);
        let sender = if is_own { &mut juliet } else { &mut romeo };
        sender.send(stanza);
        juliet.expect(&mut world, seen);
        rest(&mut world);
        juliet.lose_link();
        rest(&mut world);
        romeo.say(5);
        romeo.expect(&mut world, "<body>5</body>");
        romeo.lose_link();
        world.crash();
        romeo.resume(&mut world);
        romeo.say(6);
        rest(&mut world);
        juliet.resume(&mut world);
        rest(&mut world);
        juliet.read();
        let mut said = juliet.said();
        said.retain(|number| *number != 100);
        assert_eq!(said, [1, 2, 3, 4, 5, 6], "{stanza}");
    }
}

/// A stanza that cannot take its count back is not written, nor is the error that would answer it:
/// the user begins anew, and whether the stream outlives that or the session is resumed, no count
/// is taken for a message that was not written.
#[test]
fn a_count_that_cannot_be_taken_back_is_given_to_nothing_else() {
    for stanza in [PING, ROSTER_SET] {
        let mut world = World::patient(|_| ());
        let (mut romeo, mut juliet) = in_a_row(&mut world);
        juliet.may_end();
        world.hold();
        juliet.send(stanza);
        world.refuse();
        rest(&mut world);
        juliet.read();
        romeo.say(5);
        romeo.expect(&mut world, "<body>5</body>");
        juliet.resume(&mut world);
        romeo.say(6);
        rest(&mut world);
        for client in [&mut romeo, &mut juliet] {
            client.lose_link();
        }
        world.crash();
        romeo.resume(&mut world);
        romeo.say(7);
        rest(&mut world);
        juliet.resume(&mut world);
        rest(&mut world);
        juliet.read();
        assert_eq!(juliet.said(), [1, 2, 3, 4, 5, 6, 7], "{stanza}");
    }
}

/// Goal: an answer that comes while an account is read again, because an append of it was refused,
/// is given, but not with the count that the append had for a message of a room. It was, and the
/// message counted as had once the process was killed.
#[test]
fn what_comes_while_an_account_is_read_again_is_not_taken_for_a_message() {
    const ARCHIVE: &str = "<iq type='set' id='archive'><query xmlns='urn:xmpp:mam:2'/></iq>";
    let mut were_read_again = 0;
    for (refused, is_killed) in (0..6).flat_map(|at| [(at, true), (at, false)]) {
        let mut world = World::patient(|_| ());
        let (mut romeo, mut juliet) = in_a_row(&mut world);
        for number in 5..=7 {
            say(&mut world, (&mut romeo, &mut juliet), number);
        }
        rest(&mut world);
        world.node().set_late_reads(true);
        world.node().stall_reads(true);
        juliet.send(ARCHIVE);
        world.work();
        assert_eq!(world.node().stall_reads(true), 1);
        world.hold();
        romeo.say(8);
        world.work();
        for _ in 0..refused {
            world.try_one();
        }
        world.refuse_one();
        world.let_go();
        world.work();
        // Whose append was refused is read again.
        were_read_again += world.node().stall_reads(true) - 1;
        world.read_now(0);
        if is_killed {
            juliet.lose_link();
            romeo.lose_link();
            world.crash();
        } else {
            world.node().stall_reads(false);
            rest(&mut world);
            juliet.expect(&mut world, "id='archive'");
        }
        for client in [&mut romeo, &mut juliet] {
            client.resume(&mut world);
            rest(&mut world);
        }
        // What was refused to its sender is in no log.
        let log = common::store_on(&world.disk).log_read(ROOM, 0, 100);
        let log = log.expect("the store is read");
        for client in [&mut romeo, &mut juliet] {
            client.read();
            let expected: Vec<usize> = (1..=log.len()).collect();
            let nick = client.nick;
            assert_eq!(client.said(), expected, "{refused} {is_killed}: {nick}");
        }
    }
    assert!(
        were_read_again >= 2 * 3,
        "the sender's, the room's and hers"
    );
}
