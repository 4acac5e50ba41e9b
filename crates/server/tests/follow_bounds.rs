//! Managed sessions in a room at its bounds: on a disk that is full, with more said than is kept,
//! more commits under way than may be, and more copies than a mailbox has room for.

mod common;

use std::time::Duration;

use common::occupants::{
    Client, PERSISTENT, ROOM, TEMPORARY, configure, enter_as, enters, pair, pair_in, rest, there,
};
use common::world::{ROSTER_SET, World};
use telemetry::Counter;

/// A session ends while the disk is full. Its home dropped the word that it has left with what it
/// could not record, and the room showed it to everybody from then on.
#[test]
fn who_ends_while_the_disk_is_full_is_no_ghost_in_the_room() {
    for is_managed in [false, true] {
        let mut world = World::patient(|_| ());
        let mut romeo = Client::enter(&mut world, "romeo", "romeo");
        configure(&mut world, &mut romeo, PERSISTENT);
        let mut juliet = enter_as(&mut world, "juliet", is_managed);
        juliet.ask(&mut world, "<presence/>", "<presence");
        rest(&mut world);
        romeo.read();
        assert_eq!(there(&romeo), ["juliet", "romeo"], "{}", romeo.heard);
        world.hold();
        juliet.send("</stream:stream>");
        world.work();
        world.refuse();
        rest(&mut world);
        romeo.read();
        assert_eq!(
            there(&romeo),
            ["romeo"],
            "managed: {is_managed} {}",
            romeo.heard
        );
    }
}

/// Her client leaves a room, and its home cannot record that: it forgot the room all the same, so
/// that nobody told the room when the session ended.
#[test]
fn who_leaves_while_the_disk_is_full_has_left() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    world.hold();
    juliet.send(&format!(
        "<presence type='unavailable' to='{ROOM}/juliet'/>"
    ));
    world.work();
    world.refuse();
    rest(&mut world);
    romeo.read();
    assert_eq!(there(&romeo), ["romeo"], "{}", romeo.heard);
}

/// So much is said while she is away that the oldest of it is gone, in a room that keeps less than
/// that: she hears the rest, in order, and what is said then.
#[test]
fn a_room_without_an_archive_keeps_so_much_for_who_is_away() {
    const KEPT: usize = 4;
    const SAID: usize = 40;
    for (kind, is_killed) in [(TEMPORARY, false), (PERSISTENT, false), (PERSISTENT, true)] {
        let mut world = World::patient(|options| {
            let mut machine = room::Options::clone(&options.rooms.machine);
            machine.limits.history_max = 1;
            options.rooms.machine = std::sync::Arc::new(machine);
            options.rooms.kept_for_sessions = KEPT as u64;
            options.archive.enabled = false;
            options.delivery.limits.retention_every = 1;
            options.delivery.limits.read_entries = 2;
            options.delivery.limits.rooms.page = 3;
            options.delivery.resume_timeout = Duration::from_secs(100_000);
        });
        let (mut romeo, mut juliet) = pair_in(&mut world, kind);
        romeo.say(1);
        juliet.expect(&mut world, "<body>1</body>");
        juliet.expect(&mut world, "</message>");
        juliet.lose_link();
        for number in 2..=SAID {
            romeo.say(number);
            rest(&mut world);
        }
        romeo.expect(&mut world, &format!("<body>{SAID}</body>"));
        let stored = common::store_on(&world.disk).log_read(ROOM, 0, 1_000);
        let stored = stored.expect("the log is read").len();
        assert!((KEPT..=KEPT + 2).contains(&stored), "{stored} are kept");
        if is_killed {
            romeo.lose_link();
            world.crash();
            romeo.resume(&mut world);
            rest(&mut world);
        }
        juliet.resume(&mut world);
        rest(&mut world);
        juliet.read();
        romeo.say(SAID + 1);
        rest(&mut world);
        juliet.read();
        let mut expected = vec![1];
        expected.extend(SAID + 1 - stored..=SAID + 1);
        assert_eq!(juliet.said(), expected, "{kind} killed: {is_killed}");
    }
}

/// With as many commits of who is there under way as may be, nobody else is let in, and nothing is
/// lost or said too early: on a disk that is full for a while, and on one that is slow.
#[test]
fn what_leaves_waits_for_so_many_commits_and_then_what_comes_waits_too() {
    for waits_max in [1, 2] {
        for is_refused in [false, true] {
            let mut world = World::patient(|options| {
                options.rooms.waits_max = waits_max;
                options.rooms.kept_records_max = 1;
            });
            let (mut romeo, mut juliet) = pair(&mut world);
            // Of others nothing is recorded but by the room.
            let nicks = ["n0", "n1", "n2", "n3", "n4", "n5"];
            let mut others = nicks.map(|nick| (nick, world.login("juliet", nick)));
            world.hold();
            for (nick, peer) in &mut others {
                peer.send(&enters(nick));
                world.work();
            }
            romeo.say(1);
            for _ in 0..20 {
                world.work();
            }
            for client in [&mut romeo, &mut juliet] {
                client.read();
                assert!(!client.heard.contains("/n0'"), "{}", client.heard);
                assert_eq!(client.said(), [0; 0], "{}", client.heard);
            }
            match is_refused {
                true => world.refuse(),
                false => world.let_go(),
            }
            rest(&mut world);
            rest(&mut world);
            let all = ["juliet", "n0", "n1", "n2", "n3", "n4", "n5", "romeo"];
            for client in [&mut romeo, &mut juliet] {
                client.read();
                assert_eq!(there(client), all, "refused: {is_refused} {}", client.heard);
            }
            for (_, peer) in &mut others {
                while peer.read() {}
                assert!(peer.seen.contains("code='110'"), "{}", peer.seen);
            }
            romeo.say(2);
            rest(&mut world);
            juliet.read();
            assert_eq!(juliet.said().last(), Some(&2), "{}", juliet.heard);
        }
    }
}

/// A home takes nothing while many things are said: copies that find its mailbox full are left to
/// the log, and the room says so once for each occupant however many they are.
#[test]
fn who_misses_more_copies_than_a_mailbox_has_room_for_hears_all_of_them() {
    const MESSAGES: usize = 1_200;
    let mut world = World::patient(|options| {
        options.commits.barrier_appends_max = 1;
        options.limits.roster_items_max = 10;
        options.rooms.machine = {
            let mut machine = room::Options::clone(&options.rooms.machine);
            machine.limits.history_max = 0;
            std::sync::Arc::new(machine)
        };
    });
    let (mut romeo, mut juliet) = pair(&mut world);
    world.switches().set_stay_in_doubt(true);
    world.switches().doubt(1);
    juliet.send(ROSTER_SET);
    world.work();
    for number in 1..=MESSAGES {
        romeo.say(number);
        romeo.expect(&mut world, "</message>");
        if number.is_multiple_of(100) {
            romeo.acknowledge();
        }
    }
    world.switches().set_stay_in_doubt(false);
    world.settle();
    let all: Vec<usize> = (1..=MESSAGES).collect();
    assert_eq!(romeo.said(), all, "nobody else waits");
    for _ in 0..200 {
        rest(&mut world);
        juliet.acknowledge();
        if juliet.said().len() >= MESSAGES {
            break;
        }
    }
    assert_eq!(juliet.said(), all);
}

/// Answers each question for what it has, as clients do; says how many questions there were.
fn answer(client: &mut Client, known: usize) -> usize {
    client.read();
    let asked = client.heard.matches("<r ").count();
    if asked > known {
        client.acknowledge();
    }
    asked
}

/// To ask for an acknowledgement of each message of a room, and to handle it, cost as much as the
/// message. The last messages are asked for all the same, and once.
#[test]
fn who_hears_much_is_asked_once_for_several_messages() {
    const SAID: usize = 20;
    let mut world = World::patient(|options| options.delivery.limits.ask_every_of_rooms = 8);
    let (mut romeo, mut juliet) = pair(&mut world);
    juliet.acknowledge();
    rest(&mut world);
    let before = answer(&mut juliet, 0);
    let mut asked = before;
    for number in 1..=SAID {
        romeo.say(number);
        world.work();
        asked = answer(&mut juliet, asked);
        if number == 1 {
            assert_eq!(asked, before + 1, "the first is asked for at once");
        }
    }
    assert_eq!(juliet.said(), (1..=SAID).collect::<Vec<usize>>());
    assert_eq!(
        asked,
        before + 3,
        "for the first, the ninth and the seventeenth"
    );
    world.pass(Duration::from_secs(2));
    asked = answer(&mut juliet, asked);
    assert_eq!(asked, before + 4, "for the last ones");
    world.work();
    rest(&mut world);
    assert_eq!(answer(&mut juliet, asked), asked, "she has answered");
}

/// A window that is smaller than what is asked for at a time does not wait for a timer.
#[test]
fn a_small_window_is_asked_for_before_it_is_full() {
    const SAID: usize = 20;
    for window in [1, 2, 4] {
        let mut world = World::patient(|options| {
            options.delivery.limits.ask_every_of_rooms = 8;
            options.delivery.limits.rooms.window = window;
        });
        let (mut romeo, mut juliet) = pair(&mut world);
        juliet.acknowledge();
        rest(&mut world);
        let mut asked = answer(&mut juliet, 0);
        for number in 1..=SAID {
            romeo.say(number);
            world.work();
            asked = answer(&mut juliet, asked);
            world.work();
        }
        juliet.read();
        let all: Vec<usize> = (1..=SAID).collect();
        assert_eq!(juliet.said(), all, "a window of {window}");
    }
}

/// Goal: while a room cannot be read, more clients come back to it than an actor may have timers,
/// and each is told who is there once it can be.
#[test]
fn more_clients_are_back_than_a_room_may_have_timers() {
    const TIMERS: usize = 8;
    const NAMES: [&str; TIMERS + 2] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let mut world = World::patient(|options| options.actors.timers_max = TIMERS);
    let mut romeo = Client::enter(&mut world, "romeo", "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    let mut clients = NAMES.map(|name| {
        world.register(name);
        Client::enter(&mut world, name, name)
    });
    rest(&mut world);
    for client in &mut clients {
        client.lose_link();
    }
    romeo.lose_link();
    world.crash();
    rest(&mut world);
    world.disk.faults().fail_reads(u64::MAX);
    world.node().kill(ROOM);
    for _ in 0..20 {
        rest(&mut world);
    }
    let heard = clients.each_ref().map(|client| client.heard.len());
    for client in &mut clients {
        world.disk.faults().fail_reads(0);
        client.resume(&mut world);
        world.disk.faults().fail_reads(u64::MAX);
    }
    rest(&mut world);
    world.disk.faults().fail_reads(0);
    for _ in 0..20 {
        rest(&mut world);
    }
    for (client, heard) in clients.iter_mut().zip(heard) {
        client.read();
        let told = &client.heard[heard..];
        assert!(told.contains("/romeo'"), "{}: {told}", client.nick);
    }
    assert_eq!(world.node().stats().counter(Counter::ActorLimit), 0);
}
