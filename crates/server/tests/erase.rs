//! Erasing what an account said (docs/erasing.md): in its own archive and in rooms, nothing of
//! others, again and again, and never what is still to be handed over.

mod common;

use std::time::Duration;

use common::world::World;
use common::{Client, Disk, Running, new_disk, options, start_on, store_on};
use server::admin::{EraseFrom, Erased, Request, Response};
use server::operator::{AdminCommand, ErasedEntry, RoomCommand};
use server::options::Options;
use store::{LogEntry, SlotKey};

const ROMEO: &str = "romeo@localhost";
const JULIET: &str = "juliet@localhost";
const ROOM: &str = "coven@conference.localhost";
const MUC: &str = "http://jabber.org/protocol/muc";
/// What is on its way arrives soon.
const PAUSE: Duration = Duration::from_millis(10);
const ROUNDS_MAX: usize = 3_000;

fn archiving() -> Options {
    let mut options = options(2, true);
    options.archive.enabled = true;
    options
}

fn start(disk: &Disk, users: &[&str]) -> Running {
    start_on(store_on(disk), archiving(), net::Limits::default(), users)
}

fn part(running: &Running, from: EraseFrom) -> Erased {
    let request = Request::UserErase {
        jid: ROMEO.to_owned(),
        from,
    };
    match running.node.admin().call(request) {
        Response::Erased { erased } => erased,
        other => panic!("{other:?}"),
    }
}

/// All parts, one after another.
fn erase(running: &Running) -> Erased {
    let mut all = Erased::default();
    let mut from = Some(EraseFrom::Own(0));
    while let Some(begins) = from {
        let erased = part(running, begins);
        all.own += erased.own;
        all.in_rooms += erased.in_rooms;
        all.waiting += erased.waiting;
        all.failed.extend(erased.failed);
        from = erased.next;
    }
    all
}

/// The same until nothing is on its way any more.
fn erase_all(running: &Running) -> Erased {
    let mut all = erase(running);
    let mut rounds = 0;
    while all.waiting > 0 {
        rounds += 1;
        assert!(rounds < ROUNDS_MAX, "{all:?}");
        std::thread::sleep(PAUSE);
        let more = erase(running);
        all.own += more.own;
        all.in_rooms += more.in_rooms;
        all.waiting = more.waiting;
    }
    all
}

fn log(disk: &Disk, of: &str) -> Vec<LogEntry> {
    store_on(disk).log_read(of, 0, 1_000).expect("it is read")
}

/// How many entries have a text.
fn with(entries: &[LogEntry], text: &str) -> usize {
    let entries = entries
        .iter()
        .map(|entry| String::from_utf8_lossy(&entry.frame));
    entries.filter(|frame| frame.contains(text)).count()
}

fn enter(client: &mut Client, nick: &str) {
    client.send(&presence(ROOM, nick));
    client.expect("<subject");
}

fn presence(room: &str, nick: &str) -> String {
    format!("<presence to='{room}/{nick}'><x xmlns='{MUC}'/></presence>")
}

/// Makes a room persistent.
fn configuration(room: &str) -> String {
    format!(
        "<iq type='set' id='config' to='{room}'><query xmlns='{MUC}#owner'>\
         <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>{MUC}#roomconfig</value></field><field var='muc#roomconfig_persistentroom'>\
         <value>1</value></field></x></query></iq>"
    )
}

fn say(client: &mut Client, kind: &str, to: &str, body: &str) {
    client.send(&format!(
        "<message type='{kind}' to='{to}' id='{body}'><body>{body}</body></message>"
    ));
}

/// Romeo and juliet talk to each other and in a room; all that they said has come.
fn talk(running: &Running, messages: usize) -> (Client, Client) {
    let mut romeo = Client::login(running.address, "romeo", "orchard");
    let mut juliet = Client::login(running.address, "juliet", "balcony");
    for client in [&mut romeo, &mut juliet] {
        client.send("<presence/>");
        client.expect("<presence");
    }
    enter(&mut romeo, "romeo");
    romeo.send(&configuration(ROOM));
    romeo.expect("id='config'");
    enter(&mut juliet, "juliet");
    for number in 0..messages {
        say(&mut romeo, "chat", JULIET, &format!("secret{number}."));
        juliet.expect(&format!("<body>secret{number}.</body>"));
        say(
            &mut romeo,
            "groupchat",
            ROOM,
            &format!("secret-in-room{number}."),
        );
        juliet.expect(&format!("<body>secret-in-room{number}.</body>"));
    }
    say(&mut juliet, "chat", ROMEO, "answer");
    romeo.expect("<body>answer</body>");
    say(&mut juliet, "groupchat", ROOM, "answer-in-room");
    romeo.expect("<body>answer-in-room</body>");
    (romeo, juliet)
}

/// What is left of `count` messages of romeo, everywhere.
fn check(disk: &Disk, count: usize) {
    let (own, room) = (log(disk, ROMEO), log(disk, ROOM));
    assert_eq!(
        (with(&own, "secret"), with(&room, "secret")),
        (count, count)
    );
    assert_eq!(
        (with(&own, "answer"), with(&room, "answer-in-room")),
        (1, 1)
    );
}

#[test]
fn what_an_account_said_is_erased_and_nothing_else() {
    let disk = new_disk();
    let running = start(&disk, &["romeo", "juliet", "nurse"]);
    let (romeo, juliet) = talk(&running, 5);
    let erased = erase_all(&running);
    assert_eq!((erased.own, erased.in_rooms, erased.waiting), (5, 5, 0));
    let again = erase(&running);
    assert_eq!((again.own, again.in_rooms, again.waiting), (0, 0, 0));
    // Who enters now is sent what is left.
    let mut nurse = Client::login(running.address, "nurse", "kitchen");
    nurse.send(&format!(
        "<presence to='{ROOM}/nurse'><x xmlns='{MUC}'/></presence>"
    ));
    let history = nurse.expect("<subject");
    assert!(!history.contains("secret-in-room0.</body>"), "{history}");
    assert!(history.contains("answer-in-room"), "{history}");
    assert_eq!(history.matches("<retracted ").count(), 5, "{history}");
    drop((romeo, juliet, nurse));
    drop(running);
    let store = store_on(&disk);
    assert!(store.verify().expect("it is read").is_good());
    drop(store);
    for (of, answers) in [(ROMEO, "answer<"), (ROOM, "answer-in-room<")] {
        let entries = log(&disk, of);
        assert_eq!(with(&entries, "<body>secret"), 0, "{of}");
        assert_eq!(with(&entries, answers), 1, "{of}");
        assert_eq!(with(&entries, "<retracted "), 5, "{of}");
    }
    // Hers is hers.
    assert_eq!(with(&log(&disk, JULIET), "<body>secret"), 5);
}

/// The process ends between two parts; whoever begins again erases the rest.
#[test]
fn what_was_begun_is_finished_after_a_kill() {
    let disk = new_disk();
    let mut running = start(&disk, &["romeo", "juliet"]);
    let clients = talk(&running, 5);
    erase_all(&running);
    drop(clients);
    let parts = [EraseFrom::Own(0), EraseFrom::Rooms(None)];
    for from in parts {
        let mut romeo = Client::login(running.address, "romeo", "again");
        say(&mut romeo, "chat", JULIET, "secret-later");
        enter(&mut romeo, "again");
        say(&mut romeo, "groupchat", ROOM, "secret-later");
        romeo.expect("<body>secret-later</body>");
        part(&running, from);
        drop(romeo);
        drop(running);
        disk.crash(0).expect("the disk is there");
        running = start(&disk, &[]);
        erase_all(&running);
        for of in [ROMEO, ROOM] {
            let entries = log(&disk, of);
            assert_eq!(with(&entries, "<body>secret"), 0, "{of}");
        }
    }
    // An account that is gone has said something in rooms all the same.
    let mut romeo = Client::login(running.address, "romeo", "last");
    enter(&mut romeo, "last");
    say(&mut romeo, "groupchat", ROOM, "secret-at-last");
    romeo.expect("<body>secret-at-last</body>");
    let removed = running.node.admin().call(Request::UserDel {
        jid: ROMEO.to_owned(),
    });
    assert_eq!(removed, Response::Ok);
    assert_eq!(erase(&running).in_rooms, 1);
    assert_eq!(with(&log(&disk, ROOM), "<body>secret"), 0);
}

/// More than a part has, of which nothing is left out.
#[test]
fn many_messages_are_erased_in_parts() {
    let disk = new_disk();
    let running = start(&disk, &["romeo", "juliet"]);
    let clients = talk(&running, 300);
    check(&disk, 300);
    let first = part(&running, EraseFrom::Own(0));
    assert!(first.own < 300 && first.next.is_some(), "{first:?}");
    let rest = erase_all(&running);
    assert_eq!((first.own + rest.own, rest.in_rooms), (300, 300));
    drop(clients);
}

/// More rooms than are looked at in one part, in few of which the account said something.
#[test]
fn many_rooms_are_looked_at_in_parts() {
    const ROOMS: usize = 135;
    let disk = new_disk();
    let mut options = archiving();
    options.rooms.per_account_max = ROOMS as u32;
    let limits = net::Limits::default();
    let running = start_on(store_on(&disk), options, limits, &["romeo", "juliet"]);
    let mut juliet = Client::login(running.address, "juliet", "balcony");
    let mut romeo = Client::login(running.address, "romeo", "orchard");
    let room = |n: usize| format!("r{n}@conference.localhost");
    for n in 0..ROOMS {
        let text = |text: &str| text.replace("ROOM", &room(n));
        juliet.send(&text(&format!(
            "<presence to='ROOM/juliet'><x xmlns='{MUC}'/></presence>\
             <iq type='set' id='config' to='ROOM'><query xmlns='{MUC}#owner'>\
             <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
             <value>{MUC}#roomconfig</value></field><field var='muc#roomconfig_persistentroom'>\
             <value>1</value></field></x></query></iq>"
        )));
        juliet.expect("id='config'");
        if n % 50 == 7 {
            romeo.send(&text(&format!(
                "<presence to='ROOM/romeo'><x xmlns='{MUC}'/></presence>"
            )));
            romeo.expect("<subject");
            say(&mut romeo, "groupchat", &room(n), "secret");
            romeo.expect("<body>secret</body>");
        }
    }
    let (mut from, mut erased, mut parts) = (Some(EraseFrom::Rooms(None)), 0, 0);
    let mut empty = 0;
    while let Some(begins) = from {
        let part = part(&running, begins);
        erased += part.in_rooms;
        parts += 1;
        empty += usize::from(part.in_rooms == 0 && part.next.is_some());
        from = part.next;
    }
    assert_eq!(erased, 3);
    // Some end because there were so many rooms.
    assert!(empty > 0 && parts < ROOMS, "{empty} of {parts}");
    for n in 0..ROOMS {
        let is_one = n % 50 == 7;
        let left = log(&disk, &room(n));
        assert_eq!(with(&left, "<body>secret"), 0, "{n}");
        assert_eq!(with(&left, "<retracted "), usize::from(is_one), "{n}");
    }
}

/// A message that its recipient's home has not taken is not erased: it would arrive as nothing.
#[test]
fn what_is_on_its_way_stays_until_it_has_arrived() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    romeo.sync(&mut world);
    world.hold();
    romeo.say(JULIET, "secret");
    world.work();
    // His is durable, hers is not.
    world.let_one_go();
    let entry = log(&world.disk, ROMEO).pop().expect("it is in his log");
    let slots = SlotKey::new([7; 16]);
    let frame = b"<message><retracted xmlns='urn:xmpp:message-retract:1'/></message>";
    let erase = |world: &mut World| {
        let erased = ErasedEntry {
            seq: entry.seq,
            dest: Some(slots.peer(JULIET)),
            bytes: entry.frame.len() as u64,
            frame: frame.to_vec(),
        };
        world
            .node()
            .administer(ROMEO, AdminCommand::Erase(vec![erased]));
        world.work();
    };
    erase(&mut world);
    world.let_go();
    for _ in 0..3 {
        world.work();
    }
    assert_eq!(with(&log(&world.disk, ROMEO), "secret"), 1);
    assert_eq!(with(&log(&world.disk, JULIET), "secret"), 1);
    // It has arrived; the store does not know it yet.
    erase(&mut world);
    world.work();
    assert_eq!(with(&log(&world.disk, ROMEO), "secret"), 0);
    assert_eq!(with(&log(&world.disk, JULIET), "secret"), 1);
}

/// A room that cannot erase anything (its host is not configured any more) is named, the others do
/// it all the same, and it does once it can.
#[test]
fn a_room_that_fails_keeps_no_other_from_it() {
    const CLOSED: &str = "cave@closed.localhost";
    let disk = new_disk();
    let begin = |hosts: &[&str], users: &[&str]| {
        let mut options = archiving();
        options.rooms.hosts = hosts.iter().map(|host| (*host).into()).collect();
        start_on(store_on(&disk), options, net::Limits::default(), users)
    };
    let both = ["conference.localhost", "closed.localhost"];
    let running = begin(&both, &["romeo", "juliet"]);
    let (mut romeo, juliet) = talk(&running, 1);
    romeo.send(&presence(CLOSED, "romeo"));
    romeo.expect("<subject");
    romeo.send(&configuration(CLOSED));
    romeo.expect("id='config'");
    say(&mut romeo, "groupchat", CLOSED, "secret-in-cave");
    romeo.expect("<body>secret-in-cave</body>");
    drop((romeo, juliet));
    drop(running);
    let running = begin(&both[..1], &[]);
    let erased = erase(&running);
    assert_eq!(erased.in_rooms, 1, "{erased:?}");
    assert_eq!(erased.failed.len(), 1, "{erased:?}");
    let (room, why) = &erased.failed[0];
    assert_eq!(room, CLOSED);
    assert!(why.contains("no address of a room"), "{why}");
    assert_eq!(with(&log(&disk, ROOM), "<body>secret"), 0);
    assert_eq!(with(&log(&disk, CLOSED), "<body>secret"), 1);
    drop(running);
    let running = begin(&both, &[]);
    let erased = erase(&running);
    assert_eq!((erased.in_rooms, erased.failed.len()), (1, 0), "{erased:?}");
    assert_eq!(with(&log(&disk, CLOSED), "<body>secret"), 0);
}

/// A room in which a message of romeo is durable, and another one of his is not yet.
fn busy_room() -> (World, LogEntry) {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    romeo.send(&presence(ROOM, "romeo"));
    romeo.expect(&mut world, "<subject");
    romeo.ask(&mut world, &configuration(ROOM), "id='config'");
    let body = |text: &str| {
        format!("<message type='groupchat' to='{ROOM}' id='{text}'><body>{text}</body></message>")
    };
    romeo.ask(&mut world, &body("secret"), "<body>secret</body>");
    world.work();
    let entry = log(&world.disk, ROOM).pop().expect("it is in the log");
    romeo.sync(&mut world);
    world.hold();
    romeo.send(&body("later"));
    world.work();
    assert_eq!(with(&log(&world.disk, ROOM), "<body>later"), 0);
    (world, entry)
}

fn settle(world: &mut World) {
    world.let_go();
    for _ in 0..3 {
        world.work();
    }
}

#[test]
fn a_busy_room_erases_when_it_is_its_turn() {
    let (mut world, entry) = busy_room();
    let message = room::Message {
        seq: entry.seq,
        at: entry.at.as_millis(),
        sender: entry.peer.to_string(),
        xml: entry.frame.to_vec(),
    };
    let erase = AdminCommand::Room(RoomCommand::Erase(vec![message]));
    world.node().administer(ROOM, erase);
    world.work();
    assert_eq!(with(&log(&world.disk, ROOM), "<body>secret"), 1);
    settle(&mut world);
    let entries = log(&world.disk, ROOM);
    assert_eq!(with(&entries, "<body>secret"), 0);
    assert_eq!(with(&entries, "<retracted "), 1);
    assert_eq!(with(&entries, "<body>later"), 1);
}

#[test]
fn a_busy_room_ends_when_it_is_its_turn() {
    let (mut world, _) = busy_room();
    let destroy = AdminCommand::Room(RoomCommand::Destroy { reason: None });
    world.node().administer(ROOM, destroy);
    world.work();
    settle(&mut world);
    let (_, stored) = store_on(&world.disk)
        .load_room(ROOM, 0)
        .expect("it is read");
    assert!(stored.is_none());
}
