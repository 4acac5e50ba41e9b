//! Who enters a room that is being made, or ends. And many who enter one at once: they wait for
//! their turn, in order, as many as there are places for; others are told that too much waits.

mod common;

use std::time::Duration;

use common::occupants::{Client, MUC, PERSISTENT, ROOM, TEMPORARY, configure, enters, rest, there};
use common::world::{Peer, World};

/// Places for whatever comes, and beyond them for those who enter or leave.
const SHARED: usize = 16;
const LINE: usize = 8;

/// Who finds a place of those that anybody may take: one is under way, the others wait.
const FIRST: usize = 1 + SHARED;

/// The last one who is let in: the last place of all is taken by the one who leaves.
const LAST: usize = FIRST + LINE - 1;

/// Longer than anything in the server waits for an answer.
const STALL: Duration = Duration::from_secs(3_600);

fn enter(world: &mut World, peer: &mut Peer, number: usize) {
    peer.send(&format!(
        "<presence to='{ROOM}/n{number:02}'><x xmlns='{MUC}'/></presence>"
    ));
    world.work();
}

fn is_refused(answer: &str) {
    assert!(answer.contains("type='wait'"), "{answer}");
    assert!(answer.contains("<resource-constraint"), "{answer}");
}

/// A room with its owner, whose mailbox is small, and accounts that are not in it.
fn a_small_room() -> (World, Client, Vec<Peer>) {
    let mut world = World::patient(|options| {
        options.rooms.waits_max = 1;
        options.limits.roster_items_max = SHARED as u32 / 4;
        options.mailboxes.shared_min = SHARED;
        options.mailboxes.line = LINE;
    });
    let mut romeo = Client::enter(&mut world, "romeo", "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    let mut others = Vec::new();
    for number in 0..=LAST {
        let user = format!("u{number}");
        world.register(&user);
        others.push(world.login(&user, "r"));
    }
    rest(&mut world);
    (world, romeo, others)
}

/// The numbers of those who entered, in the order in which the owner was told.
fn entered(owner: &Client) -> Vec<usize> {
    let all = owner.heard.split("<presence ");
    let all = all.filter(|presence| presence.contains("role='participant'"));
    all.filter_map(|presence| presence.split_once("/n")?.1.get(..2)?.parse().ok())
        .collect()
}

/// While the disk takes nothing a room lets nobody in. Whoever would enter waits for his turn, who
/// leaves meanwhile has left, and what finds no place is refused, with the error that says that it
/// may be tried again.
#[test]
fn who_enters_waits_in_line_while_the_room_takes_nothing() {
    let (mut world, mut romeo, mut others) = a_small_room();
    world.hold();
    for (number, peer) in others.iter_mut().enumerate().take(FIRST) {
        enter(&mut world, peer, number);
    }
    // What is no entry finds no place now, and takes none of those in line; nor a large entry.
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    let info = format!("<iq type='get' id='q' to='{ROOM}'>{info}</iq>");
    is_refused(&others[0].ask(&mut world, &info, "</iq>"));
    let large = format!(
        "<presence to='{ROOM}/large'><x xmlns='{MUC}'/><status>{}</status></presence>",
        "x".repeat(4_096)
    );
    is_refused(&others[LAST].ask(&mut world, &large, "</presence>"));
    for (number, peer) in others.iter_mut().enumerate().take(LAST).skip(FIRST) {
        enter(&mut world, peer, number);
    }
    // The first in line leaves again, and takes the last place for that.
    others[FIRST].send(&format!(
        "<presence type='unavailable' to='{ROOM}/n{FIRST:02}'/>"
    ));
    world.work();
    enter(&mut world, &mut others[LAST], LAST);
    is_refused(&others[LAST].expect(&mut world, "</presence>"));
    world.pass(STALL);
    for peer in &mut others {
        while peer.read() {}
        assert!(!peer.seen.contains(ROOM), "{}", peer.seen);
    }
    world.let_go();
    rest(&mut world);
    romeo.read();
    let all: Vec<usize> = (0..LAST).collect();
    assert_eq!(entered(&romeo), all, "each in his turn: {}", romeo.heard);
    let stay = all.into_iter().filter(|number| *number != FIRST);
    let mut present: Vec<String> = stay.map(|number| format!("n{number:02}")).collect();
    present.push("romeo".to_owned());
    assert_eq!(there(&romeo), present);
    // Who was refused may try again.
    enter(&mut world, &mut others[LAST], LAST);
    rest(&mut world);
    romeo.read();
    assert_eq!(entered(&romeo).last(), Some(&LAST));
}

fn is_stored(world: &World) -> bool {
    let stored = common::store_on(&world.disk).load_room(ROOM, 0);
    stored.expect("the store is read").1.is_some()
}

/// A temporary room in the store that romeo has left, and whose end was refused.
fn a_room_that_could_not_end() -> World {
    let mut world = World::patient(|_| ());
    let mut romeo = Client::enter(&mut world, "romeo", "romeo");
    configure(&mut world, &mut romeo, TEMPORARY);
    romeo.send(&format!(
        "<message type='groupchat' to='{ROOM}'><body>1</body></message>"
    ));
    romeo.expect(&mut world, "<body>1</body>");
    rest(&mut world);
    assert!(is_stored(&world));
    world.hold();
    romeo.send(&format!("<presence type='unavailable' to='{ROOM}/romeo'/>"));
    world.work();
    // It is recorded that he leaves.
    world.let_one_go();
    world.refuse_one();
    world.let_go();
    world.work();
    assert!(is_stored(&world));
    world
}

/// Juliet enters a room that was not there.
fn makes_it_anew(world: &mut World) {
    let mut juliet = world.login("juliet", "juliet");
    juliet.send(&enters("juliet"));
    let heard = juliet.expect(world, "<subject");
    assert!(heard.contains("code='201'"), "{heard}");
    assert!(!heard.contains("<body>"), "{heard}");
}

/// Goal: a room that nobody is in any more ends although that was refused at first, and leaves
/// nothing to the next one at its address. It was gone for those who asked, and stayed in the
/// store.
#[test]
fn a_room_ends_once_that_can_be_recorded() {
    for is_full_for in [0, 10] {
        let mut world = a_room_that_could_not_end();
        world.switches().set_full(is_full_for > 0);
        for _ in 0..is_full_for {
            world.pass(Duration::from_secs(1));
        }
        world.switches().set_full(false);
        world.pass(Duration::from_secs(6));
        assert!(!is_stored(&world), "{is_full_for}");
        makes_it_anew(&mut world);
    }
}

/// Goal: the same if the process is killed before the end is tried again.
#[test]
fn a_room_ends_after_a_kill_that_was_in_front_of_its_end() {
    let mut world = a_room_that_could_not_end();
    world.crash();
    assert!(is_stored(&world));
    makes_it_anew(&mut world);
}

/// Goal: the maker of a room is whoever entered first, not who comes before it is made.
#[test]
fn who_comes_while_a_room_is_being_made_is_not_its_maker() {
    let mut world = World::patient(|_| ());
    let mut romeo = Client::login(&mut world, "romeo", "romeo");
    let mut juliet = world.login("juliet", "juliet");
    world.hold();
    romeo.send(&enters("romeo"));
    world.work();
    // That he is about to be there.
    world.let_one_go();
    juliet.send(&enters("juliet"));
    world.work();
    world.let_go();
    juliet.expect(&mut world, "type='error'");
    romeo.expect(&mut world, "<subject");
    configure(&mut world, &mut romeo, PERSISTENT);
    rest(&mut world);
    let listed = common::store_on(&world.disk).room(ROOM);
    let listed = listed.expect("the store is read").expect("it is there");
    assert_eq!(&*listed.creator, "romeo@localhost");
}
