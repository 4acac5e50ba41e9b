//! Managed sessions in a room (XEP-0198, XEP-0045) in a whole node, under a clock and a journal
//! that move when the test says so: what the room accepted reaches each of them once and in the
//! room's order, whatever links are lost and whenever the node is killed.

mod common;

use std::time::Duration;

use common::PANIC;
use common::world::{Peer, RESUME_TIMEOUT, SM, World, bodies, stanzas};
use server::Options;
use stdx::rand::Rng;

const ROOM: &str = "coven@conference.localhost";
const MUC: &str = "http://jabber.org/protocol/muc";

/// A node whose clients need not say that they are there.
fn world(change: impl FnOnce(&mut Options)) -> World {
    const NEVER: Duration = Duration::from_secs(1_000_000);
    World::with(|options| {
        options.limits.idle_ping = NEVER;
        options.delivery.ack_timeout = NEVER;
        change(options);
    })
}

/// A client that counts what it is sent, and resumes.
struct Client {
    user: &'static str,
    nick: &'static str,
    token: String,
    peer: Option<Peer>,
    /// Everything that it was sent since it was counted.
    heard: String,
}

impl Client {
    fn enter(world: &mut World, user: &'static str, nick: &'static str) -> Client {
        let (peer, token) = world.login_managed(user, nick);
        let mut client = Client {
            user,
            nick,
            token,
            peer: Some(peer),
            heard: String::new(),
        };
        let presence = format!("<presence to='{ROOM}/{nick}'><x xmlns='{MUC}'/></presence>");
        client.send(&presence);
        client.expect(world, "<subject");
        client.expect(world, "</message>");
        client
    }

    fn send(&mut self, text: &str) {
        if let Some(peer) = &mut self.peer {
            peer.send(text);
        }
    }

    fn expect(&mut self, world: &mut World, wanted: &str) {
        let peer = self.peer.as_mut().expect("it has a link");
        let seen = peer.expect(world, wanted);
        self.heard.push_str(&seen);
    }

    /// Takes what has come: whole stanzas.
    fn read(&mut self) {
        let Some(peer) = &mut self.peer else { return };
        while peer.read() {}
        let ends = ["</message>", "</presence>", "</iq>", "/>"];
        let end = ends
            .iter()
            .filter_map(|end| Some(peer.seen.rfind(end)? + end.len()));
        if let Some(end) = end.max() {
            let seen: String = peer.seen.drain(..end).collect();
            self.heard.push_str(&seen);
        }
    }

    fn handled(&self) -> u32 {
        stanzas(&self.heard)
    }

    fn acknowledge(&mut self) {
        self.read();
        let h = self.handled();
        self.send(&format!("<a {SM} h='{h}'/>"));
    }

    fn say(&mut self, number: usize) {
        self.send(&format!(
            "<message type='groupchat' to='{ROOM}' id='m{number}'><body>{number}</body></message>"
        ));
    }

    fn lose_link(&mut self) {
        self.read();
        self.peer = None;
    }

    fn resume(&mut self, world: &mut World) {
        if self.peer.is_some() {
            return;
        }
        let mut peer = world.connect(self.user);
        peer.resume(&self.token, self.handled());
        let seen = peer.expect(world, "/>");
        assert!(seen.contains("<resumed"), "{}: {seen}", self.nick);
        self.peer = Some(peer);
    }

    /// What everybody said, as this one heard it.
    fn said(&self) -> Vec<usize> {
        bodies(&self.heard)
    }
}

fn configure(world: &mut World, owner: &mut Client, fields: &str) {
    owner.send(&format!(
        "<iq type='set' id='config' to='{ROOM}'><query xmlns='{MUC}#owner'>\
         <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>{MUC}#roomconfig</value></field>{fields}</x></query></iq>"
    ));
    owner.expect(world, "id='config'");
}

const PERSISTENT: &str = "<field var='muc#roomconfig_persistentroom'><value>1</value></field>";

fn pair(world: &mut World) -> (Client, Client) {
    let mut romeo = Client::enter(world, "romeo", "romeo");
    configure(world, &mut romeo, PERSISTENT);
    let juliet = Client::enter(world, "juliet", "juliet");
    romeo.expect(world, "/juliet'");
    (romeo, juliet)
}

/// Lets all that is left happen.
fn rest(world: &mut World) {
    for _ in 0..20 {
        world.pass(Duration::from_millis(300));
    }
}

#[test]
fn what_was_said_to_a_lost_link_comes_once() {
    for is_killed in [false, true] {
        let mut world = world(|_| ());
        let (mut romeo, mut juliet) = pair(&mut world);
        for number in 1..=3 {
            romeo.say(number);
        }
        juliet.expect(&mut world, "<body>2</body>");
        // What else is under way never arrives.
        juliet.peer = None;
        romeo.expect(&mut world, "<body>3</body>");
        for number in 4..=8 {
            romeo.say(number);
        }
        romeo.expect(&mut world, "<body>8</body>");
        if is_killed {
            romeo.lose_link();
            world.crash();
            romeo.resume(&mut world);
        }
        rest(&mut world);
        juliet.resume(&mut world);
        rest(&mut world);
        juliet.read();
        romeo.say(9);
        rest(&mut world);
        juliet.read();
        assert_eq!(
            juliet.said(),
            [1, 2, 3, 4, 5, 6, 7, 8, 9],
            "killed: {is_killed}"
        );
    }
}

#[test]
fn who_does_not_come_back_leaves_when_his_time_is_up() {
    let mut world = world(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    juliet.lose_link();
    romeo.lose_link();
    world.crash();
    romeo.resume(&mut world);
    rest(&mut world);
    romeo.read();
    let gone = |heard: &str| heard.contains("type='unavailable'");
    assert!(!gone(&romeo.heard), "{}", romeo.heard);
    world.pass(RESUME_TIMEOUT);
    rest(&mut world);
    romeo.read();
    assert!(gone(&romeo.heard), "{}", romeo.heard);
    // The room has forgotten her for good.
    romeo.lose_link();
    world.crash();
    rest(&mut world);
    let mut late = Client::enter(&mut world, "juliet", "other");
    late.read();
    assert!(!late.heard.contains("/juliet'"), "{}", late.heard);
}

#[test]
fn an_occupant_without_stream_management_is_gone_after_a_kill() {
    let mut world = world(|_| ());
    let mut romeo = Client::enter(&mut world, "romeo", "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    let mut plain = world.login("juliet", "balcony");
    plain.ask(
        &mut world,
        &format!("<presence to='{ROOM}/juliet'><x xmlns='{MUC}'/></presence>"),
        "<subject",
    );
    romeo.expect(&mut world, "/juliet'");
    romeo.lose_link();
    drop(plain);
    world.crash();
    let before = romeo.heard.len();
    romeo.resume(&mut world);
    rest(&mut world);
    romeo.read();
    let (_, after) = romeo.heard.split_at(before);
    let juliet = after
        .split("<presence")
        .find(|one| one.contains("/juliet'"));
    assert!(
        juliet.is_some_and(|one| one.contains("type='unavailable'")),
        "{after}"
    );
    assert!(after.contains("code='110'"), "{after}");
}

#[test]
fn a_room_that_crashes_has_its_managed_occupants() {
    let mut world = world(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    romeo.say(1);
    juliet.expect(&mut world, "<body>1</body>");
    romeo.send(&format!(
        "<message type='groupchat' to='{ROOM}'><x xmlns='urn:x'/>{PANIC}-in-the-room</message>"
    ));
    for _ in 0..20 {
        rest(&mut world);
    }
    juliet.say(2);
    for _ in 0..5 {
        rest(&mut world);
    }
    for client in [&mut romeo, &mut juliet] {
        client.read();
        let said: Vec<usize> = client.said();
        assert_eq!(said, [1, 2], "{}", client.heard);
    }
}

#[test]
fn who_leaves_is_owed_nothing_more() {
    let mut world = world(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    romeo.say(1);
    juliet.expect(&mut world, "<body>1</body>");
    juliet.send(&format!(
        "<presence type='unavailable' to='{ROOM}/juliet'/>"
    ));
    juliet.expect(&mut world, "code='110'");
    juliet.expect(&mut world, "</presence>");
    romeo.say(2);
    romeo.expect(&mut world, "<body>2</body>");
    juliet.lose_link();
    romeo.lose_link();
    world.crash();
    juliet.resume(&mut world);
    rest(&mut world);
    juliet.read();
    assert_eq!(juliet.said(), [1]);
    // She may come again, and is told of it from there.
    juliet.send(&format!(
        "<presence to='{ROOM}/juliet'><x xmlns='{MUC}'><history maxstanzas='0'/></x></presence>"
    ));
    juliet.expect(&mut world, "<subject");
    romeo.resume(&mut world);
    romeo.say(3);
    rest(&mut world);
    juliet.read();
    assert_eq!(juliet.said(), [1, 3]);
}

/// A schedule of a room with three managed clients of two users.
fn play(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let window = [1, 2, 4, 256][rng.usize(..4)];
    let page = [1, 2, 4, 50][rng.usize(..4)];
    let mut world = world(|options| {
        options.shards = rng.u16(1..=2);
        options.delivery.resume_timeout = Duration::from_secs(100_000);
        options.delivery.limits.rooms.window = window;
        options.delivery.limits.rooms.page = page;
        options.rooms.copies_per_turn = [1, 2, 256][rng.usize(..3)];
    });
    let mut first = Client::enter(&mut world, "romeo", "first");
    configure(&mut world, &mut first, PERSISTENT);
    let second = Client::enter(&mut world, "juliet", "second");
    let third = Client::enter(&mut world, "romeo", "third");
    let mut clients = [first, second, third];
    rest(&mut world);
    let mut number = 0;
    for _ in 0..80 {
        let at = rng.usize(..clients.len());
        let client = &mut clients[at];
        match rng.u8(..20) {
            0..=6 => {
                number += 1;
                if client.peer.is_some() {
                    client.say(number);
                }
                world.work();
            }
            7..=9 => world.pass(Duration::from_millis(rng.u64(..2_000))),
            10..=11 => client.acknowledge(),
            12 if rng.bool() => client.lose_link(),
            // What is on its way never arrives.
            12 => client.peer = None,
            13..=14 => {
                world.let_go();
                client.resume(&mut world);
            }
            15 => world.hold(),
            16 => world.let_go(),
            17 => {
                world.hold();
                world.try_one();
            }
            18 => client.read(),
            _ if rng.u8(..3) == 0 => {
                for client in &mut clients {
                    match rng.bool() {
                        true => client.lose_link(),
                        false => client.peer = None,
                    }
                }
                world.crash();
            }
            _ => world.work(),
        }
    }
    world.let_go();
    let settle = |world: &mut World, clients: &mut [Client; 3]| {
        for client in clients {
            client.resume(world);
            client.acknowledge();
        }
        world.pass(Duration::from_millis(500));
    };
    // What was accepted reaches the room.
    for _ in 0..40 {
        settle(&mut world, &mut clients);
    }
    let mut reader = world.login("juliet", "reader");
    let presence = format!("<presence to='{ROOM}/reader'><x xmlns='{MUC}'/></presence>");
    let seen = reader.ask(&mut world, &presence, "<subject");
    let kept = bodies(&seen);
    // Everybody gets the same. With a window of one, that takes a while.
    for _ in 0..400 {
        let has_all = |client: &Client| client.said().last() == kept.last();
        if clients.iter().all(has_all) {
            break;
        }
        settle(&mut world, &mut clients);
        std::thread::sleep(Duration::from_millis(1));
    }
    for client in &clients {
        let said = client.said();
        // Of a room with more than it tells those who enter, the last ones.
        let last = &said[said.len().saturating_sub(kept.len())..];
        assert_eq!(
            last, kept,
            "schedule {seed}: {} heard {said:?}",
            client.nick
        );
        assert_eq!(said, clients[0].said(), "schedule {seed}: one order");
        let mut once = said.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), said.len(), "schedule {seed}: {said:?}");
        let nicks: Vec<&str> = vec!["first", "second", "third"];
        for nick in nicks {
            assert!(
                seen.contains(&format!("/{nick}'")),
                "schedule {seed}: {nick} is not there"
            );
        }
    }
}

/// How many, unless the environment says otherwise.
const SCHEDULES: u64 = 60;

#[test]
fn no_schedule_loses_or_doubles_what_was_said() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = number("ROOM_SCHEDULE").unwrap_or(1);
    let count = number("ROOM_SCHEDULES").unwrap_or(SCHEDULES);
    for seed in first..first + count {
        play(seed);
    }
}
