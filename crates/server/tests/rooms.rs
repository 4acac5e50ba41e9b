//! Rooms in a whole node, under a clock and a journal that move when the test says so: what is
//! acknowledged is in the room once or comes back, wherever the node is killed; what fails has
//! changed nothing; and many copies are written a few at a time.

mod common;

use std::time::Duration;

use common::world::{Peer, ROSTER_SET, SM, World, bodies};
use common::{Client, PANIC};
use room::{Affiliated, Affiliation, Config, Record};
use stdx::Timestamp;
use store::{EntryFlags, LogEntry};

const ROOM: &str = "coven@conference.localhost";
const MUC: &str = "http://jabber.org/protocol/muc";

fn enter(world: &mut World, peer: &mut Peer, nick: &str) -> String {
    let presence = format!("<presence to='{ROOM}/{nick}'><x xmlns='{MUC}'/></presence>");
    // With the subject everything is there.
    let seen = peer.ask(world, &presence, "<subject");
    seen + &peer.expect(world, "</message>")
}

/// Accepts what the creator is offered, with some fields changed.
fn configure(world: &mut World, peer: &mut Peer, fields: &str) {
    let form = match fields {
        "" => String::new(),
        _ => format!("<field var='FORM_TYPE'><value>{MUC}#roomconfig</value></field>{fields}"),
    };
    peer.ask(
        world,
        &format!(
            "<iq type='set' id='config' to='{ROOM}'><query xmlns='{MUC}#owner'>\
             <x xmlns='jabber:x:data' type='submit'>{form}</x></query></iq>"
        ),
        "id='config'",
    );
}

const PERSISTENT: &str = "<field var='muc#roomconfig_persistentroom'><value>1</value></field>";

fn say(peer: &mut Peer, number: usize) {
    peer.send(&format!(
        "<message type='groupchat' to='{ROOM}' id='m{number}'><body>{number}</body></message>"
    ));
}

/// What the room has kept, as somebody is sent it who enters.
fn history(world: &mut World, user: &str) -> Vec<usize> {
    let mut reader = world.login(user, "reader");
    bodies(&enter(world, &mut reader, "reader"))
}

/// Lets all that is left happen.
fn rest(world: &mut World) {
    for _ in 0..20 {
        world.pass(Duration::from_secs(5));
    }
}

/// The numbers of messages that came back.
fn returned(seen: &str) -> Vec<usize> {
    let errors = seen.split("type='error'").skip(1);
    let ids = errors.filter_map(|rest| rest.split_once("id='m")?.1.split_once('\''));
    ids.filter_map(|(id, _)| id.parse().ok()).collect()
}

#[test]
fn what_is_acknowledged_is_in_the_room_once_or_comes_back() {
    const MESSAGES: usize = 4;
    let (mut kept, mut came_back) = (0, 0);
    // Who resumes is there as he was; who never was is told so.
    for (kill_after, is_there) in (0..10).flat_map(|n| [(n, true), (n, false)]) {
        let mut world = World::patient(|_| ());
        let mut owner = world.login("juliet", "owner");
        enter(&mut world, &mut owner, "owner");
        configure(&mut world, &mut owner, PERSISTENT);
        let (mut romeo, token) = world.login_managed("romeo", "orchard");
        if is_there {
            enter(&mut world, &mut romeo, "romeo");
        }
        romeo.sync(&mut world);
        // Presence and ping are counted too.
        let others = usize::from(is_there) + 1;
        world.hold();
        for number in 1..=MESSAGES {
            say(&mut romeo, number);
            world.work();
        }
        romeo.send(&format!("<r {SM}/>"));
        for _ in 0..kill_after {
            world.switches().set_hold(true);
            world.try_one();
        }
        world.work();
        while romeo.read() {}
        world.crash();
        // What the store accepted, by the sender's own count.
        let mut romeo = world.connect("romeo");
        romeo.resume(&token, 0);
        romeo.expect(&mut world, "<resumed ");
        let rest_of_it = romeo.expect(&mut world, "/>");
        let (_, h) = rest_of_it.split_once("h='").expect("a count");
        let (h, _) = h.split_once('\'').expect("its end");
        let handled: usize = h.parse().expect("a number");
        let accepted = handled.saturating_sub(others);
        rest(&mut world);
        let seen = romeo.sync(&mut world);
        let errors = returned(&seen);
        let there = history(&mut world, "juliet");
        for number in 1..=MESSAGES {
            let count = |all: &[usize]| all.iter().filter(|n| **n == number).count();
            let (in_log, back) = (count(&there), count(&errors));
            let expected = usize::from(number <= accepted);
            assert_eq!(
                in_log + back,
                expected,
                "message {number} of {accepted} accepted, killed after {kill_after}: \
                 {there:?} are in the room, {errors:?} came back"
            );
        }
        assert!(there.is_sorted(), "{there:?}");
        assert!(errors.is_empty() || !is_there, "{errors:?} came back");
        kept += there.len();
        came_back += errors.len();
    }
    assert!(
        kept > 0 && came_back > 0,
        "both happen: {kept}, {came_back}"
    );
}

#[test]
fn a_change_that_is_refused_has_changed_nothing() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    enter(&mut world, &mut romeo, "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    say(&mut romeo, 1);
    romeo.expect(&mut world, "<body>1</body>");
    world.switches().set_full(true);
    say(&mut romeo, 2);
    say(&mut romeo, 3);
    let mut seen = String::new();
    while returned(&seen).len() < 2 {
        seen += &romeo.expect(&mut world, "<resource-constraint");
    }
    assert_eq!(returned(&seen), [2, 3], "{seen}");
    romeo.ask(
        &mut world,
        &format!(
            "<iq type='set' id='a1' to='{ROOM}'><query xmlns='{MUC}#admin'>\
             <item affiliation='outcast' jid='juliet@localhost'/></query></iq>"
        ),
        "<resource-constraint",
    );
    world.switches().set_full(false);
    say(&mut romeo, 4);
    romeo.expect(&mut world, "<body>4</body>");
    world.crash();
    assert_eq!(history(&mut world, "juliet"), [1, 4]);
}

#[test]
fn a_change_in_doubt_tells_the_occupants_and_begins_anew() {
    for survives in [false, true] {
        let mut world = World::patient(|_| ());
        let mut romeo = world.login("romeo", "orchard");
        enter(&mut world, &mut romeo, "romeo");
        configure(&mut world, &mut romeo, PERSISTENT);
        romeo.sync(&mut world);
        world.switches().set_stay_in_doubt(true);
        match survives {
            true => world.switches().doubt(1),
            false => world.switches().lose(1),
        }
        say(&mut romeo, 1);
        romeo.sync(&mut world);
        world.switches().set_stay_in_doubt(false);
        world.settle();
        world.pass(Duration::from_secs(1));
        if survives {
            romeo.expect(&mut world, "<body>1</body>");
        } else {
            // He is told that it was not kept, or that he is not there any more.
            let seen = romeo.expect(&mut world, "type='");
            assert!(!seen.contains("<body>"), "{seen}");
        }
        rest(&mut world);
        let expected: &[usize] = if survives { &[1] } else { &[] };
        assert_eq!(history(&mut world, "juliet"), expected);
    }
}

/// Romeo speaks to all and then to Juliet alone; wherever the disk is full meanwhile, both hear
/// both, in order.
#[test]
fn what_waits_behind_a_message_that_is_refused_does_not_replace_it() {
    for decided in 0..6 {
        let mut world = World::patient(|_| ());
        let (mut romeo, _) = world.login_managed("romeo", "orchard");
        enter(&mut world, &mut romeo, "romeo");
        configure(&mut world, &mut romeo, PERSISTENT);
        let mut juliet = world.login("juliet", "balcony");
        enter(&mut world, &mut juliet, "juliet");
        romeo.sync(&mut world);
        world.hold();
        say(&mut romeo, 1);
        romeo.send(&format!(
            "<message type='chat' to='{ROOM}/juliet' id='m2'><body>2</body></message>"
        ));
        world.work();
        for _ in 0..decided {
            world.try_one();
        }
        world.refuse();
        rest(&mut world);
        let heard = bodies(&juliet.sync(&mut world));
        let back = returned(&romeo.sync(&mut world));
        let mut all = [&heard[..], &back[..]].concat();
        all.sort_unstable();
        assert_eq!(all, [1, 2], "{decided}: heard {heard:?}, back {back:?}");
        assert!(heard.is_sorted(), "{decided}: {heard:?}");
    }
}

/// Neither a panic nor a change in doubt leaves a request without an answer.
#[test]
fn a_room_that_ends_answers_what_waits_for_it() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    enter(&mut world, &mut romeo, "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    let ban = format!(
        "<iq type='set' id='ban' to='{ROOM}'><query xmlns='{MUC}#admin'>\
         <item affiliation='outcast' jid='nurse@localhost'/></query></iq>"
    );
    let info = format!(
        "<iq type='get' id='info' to='{ROOM}'>\
         <query xmlns='http://jabber.org/protocol/disco#info'/></iq>"
    );
    let mut juliet = world.login("juliet", "balcony");
    world.hold();
    romeo.send(&ban);
    romeo.send(&info);
    let presence = format!("<presence to='{ROOM}/juliet' id='in'><x xmlns='{MUC}'/></presence>");
    juliet.send(&presence);
    world.work();
    // Another home has taken the range: whether the change was kept is read anew.
    world.switches().fence(1);
    world.let_go();
    let mut seen = String::new();
    for _ in 0..10 {
        world.pass(Duration::from_secs(1));
        seen += &romeo.sync(&mut world);
    }
    for id in ["ban", "info"] {
        let answers = seen.matches(&format!("id='{id}'")).count();
        assert_eq!(answers, 1, "{id}: {seen}");
    }
    // What was in the mailbox goes to the room's next life.
    let heard = juliet.sync(&mut world);
    assert!(
        heard.contains("id='in'") || heard.contains("code='110'"),
        "{heard}"
    );
    romeo.ask(
        &mut world,
        &format!(
            "<iq type='get' id='bad' to='{ROOM}'>\
             <query xmlns='http://jabber.org/protocol/disco#info'>{PANIC}-in-the-room</query></iq>"
        ),
        "id='bad'",
    );
    romeo.expect(&mut world, "<internal-server-error");
}

/// Questions to the archive of a room.
fn questions(count: usize) -> String {
    let question =
        |n| format!("<iq type='set' id='q{n}' to='{ROOM}'><query xmlns='urn:xmpp:mam:2'/></iq>");
    (1..=count).map(question).collect()
}

#[test]
fn only_so_many_pages_of_a_room_are_read_at_a_time() {
    let mut world = World::patient(|options| options.rooms.pages_at_once = 2);
    let mut romeo = world.login("romeo", "orchard");
    enter(&mut world, &mut romeo, "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    romeo.sync(&mut world);
    romeo.send(&questions(5));
    let mut seen = String::new();
    while seen.matches("id='q").count() < 5 {
        seen += &romeo.expect(&mut world, "</iq>");
    }
    assert_eq!(seen.matches("<fin ").count(), 2, "{seen}");
    assert_eq!(seen.matches("<resource-constraint").count(), 3, "{seen}");
    // Those that were read make room.
    romeo.send(&questions(1));
    romeo.expect(&mut world, "<fin ");
}

#[test]
fn an_address_with_too_many_questions_is_refused_archives() {
    let mut options = common::options(2, true);
    options.archive.enabled = true;
    options.limits.questions_per_address_max = 0;
    let network = net::Limits {
        exempt: Vec::new(),
        ..net::Limits::default()
    };
    let running = common::start_with(options, network, &["romeo"]);
    let mut romeo = Client::login(running.address, "romeo", "orchard");
    romeo.send(&format!(
        "<presence to='{ROOM}/romeo'><x xmlns='{MUC}'/></presence>\
         <iq type='set' id='config' to='{ROOM}'><query xmlns='{MUC}#owner'>\
         <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>{MUC}#roomconfig</value></field>{PERSISTENT}</x></query></iq>"
    ));
    romeo.expect("id='config'");
    romeo.send(&questions(1));
    romeo.expect("id='q1'");
    romeo.expect("<resource-constraint");
}

/// A page of the list ends where it is asked to, and the next one goes on. Rooms that hide, show
/// themselves or end meanwhile are not there any more, or are; also after a restart.
#[test]
fn the_list_of_rooms_is_read_page_by_page_and_is_of_now() {
    let mut world = World::patient(|_| {});
    let mut romeo = world.login("romeo", "orchard");
    let is_public = |is: bool| {
        let is = u8::from(is);
        format!("<field var='muc#roomconfig_publicroom'><value>{is}</value></field>")
    };
    let address = |n: u32| format!("room{n}@conference.localhost");
    let owner = |n: u32, query: &str| {
        format!(
            "<iq type='set' id='config' to='{}'><query xmlns='{MUC}#owner'>{query}</query></iq>",
            address(n)
        )
    };
    let set = |n: u32, fields: &str| {
        let form = format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
             <value>{MUC}#roomconfig</value></field>{fields}</x>"
        );
        owner(n, &form)
    };
    for n in 0..9 {
        let kept = if n % 2 == 0 { PERSISTENT } else { "" };
        let room = address(n);
        let presence = format!("<presence to='{room}/romeo'><x xmlns='{MUC}'/></presence>");
        romeo.ask(&mut world, &presence, "<subject");
        let fields = format!("{kept}{}", is_public(n % 3 == 0));
        romeo.ask(&mut world, &set(n, &fields), "id='config'");
    }
    assert_eq!(listed(&mut world, &mut romeo), [0, 3, 6]);
    romeo.ask(&mut world, &set(0, &is_public(false)), "id='config'");
    romeo.ask(&mut world, &set(1, &is_public(true)), "id='config'");
    romeo.ask(&mut world, &set(2, &is_public(true)), "id='config'");
    romeo.ask(&mut world, &owner(6, "<destroy/>"), "id='config'");
    assert_eq!(listed(&mut world, &mut romeo), [1, 2, 3]);
    // Those that are in no store end with the server.
    world.crash();
    let mut romeo = world.login("romeo", "garden");
    assert_eq!(listed(&mut world, &mut romeo), [2]);
}

/// The rooms of the list, in its order, two at a time.
fn listed(world: &mut World, peer: &mut Peer) -> Vec<u32> {
    let (mut found, mut after): (Vec<u32>, _) = (Vec::new(), String::new());
    loop {
        let page = peer.ask(
            world,
            &format!(
                "<iq type='get' id='list' to='conference.localhost'>\
                 <query xmlns='http://jabber.org/protocol/disco#items'>\
                 <set xmlns='http://jabber.org/protocol/rsm'><max>2</max>{after}</set>\
                 </query></iq>"
            ),
            "</iq>",
        );
        let rooms = page.split("jid='room").skip(1);
        let rooms: Vec<u32> = rooms
            .filter_map(|rest| rest.split_once('@')?.0.parse().ok())
            .collect();
        let Some(last) = rooms.last() else {
            return found;
        };
        assert!(rooms.len() <= 2, "{page}");
        after = format!("<after>room{last}@conference.localhost</after>");
        found.extend(rooms);
    }
}

/// What a room owes is counted for as long as it waits, that it is late with it, and who was not
/// let in (docs/watching.md).
#[test]
fn a_room_that_does_not_keep_up_is_counted() {
    use telemetry::{Counter, Gauge};

    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    enter(&mut world, &mut romeo, "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    let (mut juliet, _) = world.login_managed("juliet", "balcony");
    enter(&mut world, &mut juliet, "juliet");
    let [mut other, mut third] = ["garden", "tomb"].map(|own| world.login("juliet", own));
    // Figures are published ten times a second.
    let counts = |world: &mut World| {
        world.pass(Duration::from_millis(100));
        let stats = world.node().stats();
        let gauges = [
            Gauge::RoomCopiesWaiting,
            Gauge::RoomsBehind,
            Gauge::RoomOccupants,
        ];
        gauges.map(|gauge| stats.gauge(gauge))
    };
    assert_eq!(counts(&mut world), [0, 0, 2]);
    // Nobody is told of her before it is durable that she is there.
    world.hold();
    let enters = |nick: &str| format!("<presence to='{ROOM}/{nick}'><x xmlns='{MUC}'/></presence>");
    other.send(&enters("other"));
    world.work();
    let [waiting, behind, _] = counts(&mut world);
    assert!(waiting >= 2 && behind == 0, "{waiting} {behind}");
    let asks = format!("<iq type='get' id='i' to='{ROOM}'><ping xmlns='urn:xmpp:ping'/></iq>");
    for (after_ms, is_behind) in [(700, 0), (300, 1)] {
        world.pass(Duration::from_millis(after_ms));
        romeo.send(&asks);
        world.work();
        let [waiting, behind, _] = counts(&mut world);
        assert!(waiting >= 3 && behind == is_behind, "{waiting} {behind}");
    }
    world.let_go();
    rest(&mut world);
    assert_eq!(counts(&mut world), [0, 0, 3]);
    let refused = |world: &mut World| {
        world.pass(Duration::from_millis(100));
        world.node().stats().counter(Counter::RoomJoinsRefused)
    };
    assert_eq!(refused(&mut world), 0);
    third.ask(&mut world, &enters("romeo"), "<conflict");
    assert_eq!(refused(&mut world), 1);
}

/// Copies are not kept for occupants: one whose home takes nothing gets what fits into its mailbox.
#[test]
fn a_copy_that_finds_no_room_is_left_out_and_counted() {
    const MESSAGES: usize = 1_100;
    let mut world = World::patient(|options| {
        options.commits.barrier_appends_max = 1;
        options.limits.roster_items_max = 10;
    });
    let mut romeo = world.login("romeo", "orchard");
    enter(&mut world, &mut romeo, "romeo");
    configure(&mut world, &mut romeo, "");
    let mut juliet = world.login("juliet", "balcony");
    enter(&mut world, &mut juliet, "juliet");
    romeo.sync(&mut world);
    // Her home holds her mailbox until it knows what became of a change.
    world.switches().set_stay_in_doubt(true);
    world.switches().doubt(1);
    juliet.send(ROSTER_SET);
    world.work();
    let mut heard = Vec::new();
    for number in 1..=MESSAGES {
        say(&mut romeo, number);
        heard.extend(bodies(&romeo.expect(&mut world, "</message>")));
    }
    let everything: Vec<usize> = (1..=MESSAGES).collect();
    assert_eq!(heard, everything, "nobody else misses anything");
    world.switches().set_stay_in_doubt(false);
    world.settle();
    world.pass(Duration::from_secs(1));
    let seen = bodies(&juliet.sync(&mut world));
    assert_eq!(seen.len(), 1_024);
    assert_eq!(seen, everything[..seen.len()]);
    // From then on she gets everything again.
    say(&mut romeo, 0);
    juliet.expect(&mut world, "<body>0</body>");
}

#[test]
fn copies_are_written_a_few_at_a_time_and_in_order() {
    for shards in [1, 2] {
        let mut world = World::patient(|options| {
            options.shards = shards;
            options.rooms.copies_per_turn = 1;
        });
        let mut all = Vec::new();
        for n in 0..7 {
            let user = if n % 2 == 0 { "romeo" } else { "juliet" };
            let mut peer = world.login(user, &format!("r{n}"));
            enter(&mut world, &mut peer, &format!("nick{n}"));
            if n == 0 {
                configure(&mut world, &mut peer, "");
            }
            all.push(peer);
        }
        for (number, peer) in all.iter_mut().enumerate().skip(1).take(5) {
            say(peer, number);
        }
        let mut orders = Vec::new();
        for peer in &mut all {
            let mut heard = Vec::new();
            while heard.len() < 5 {
                let seen = peer.expect(&mut world, "</body>");
                heard.extend(bodies(&seen));
            }
            orders.push(heard);
        }
        assert!(orders.iter().all(|order| *order == orders[0]), "{orders:?}");
    }
}

#[test]
fn a_room_waits_for_a_shard_that_is_behind() {
    const HISTORY: usize = 100;
    const SESSIONS: usize = 5;
    let mut world = World::patient(|options| options.shards = 2);
    let home = world.node().shard("juliet@localhost");
    let of_another = (0..).map(|n| format!("coven{n}@conference.localhost"));

    let mut rooms = of_another;
    let room = rooms.find(|room| world.node().shard(room) != home);
    let room = room.expect("a room");
    let mut owner = world.login("romeo", "owner");
    let enter = |nick: &str| format!("<presence to='{room}/{nick}'><x xmlns='{MUC}'/></presence>");
    owner.ask(&mut world, &enter("owner"), "<subject");
    let open = "<x xmlns='jabber:x:data' type='submit'>\
         <field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#roomconfig</value></field>\
         <field var='muc#maxhistoryfetch'><value>100</value></field></x>";
    let query = format!("<query xmlns='{MUC}#owner'>{open}</query>");
    let configure = format!("<iq type='set' id='open' to='{room}'>{query}</iq>");
    owner.ask(&mut world, &configure, "id='open'");
    for n in 0..HISTORY {
        let says = format!("<message type='groupchat' to='{room}'><body>{n}</body></message>");
        owner.ask(&mut world, &says, "</message>");
    }
    let mut sessions = Vec::new();
    for n in 0..SESSIONS {
        sessions.push(world.login("juliet", &format!("r{n}")));
    }
    for (n, session) in sessions.iter_mut().enumerate() {
        let leave = format!("<presence type='unavailable' to='{room}/n{n}'/>");
        session.send(&format!("{}{leave}", enter(&format!("n{n}"))).repeat(30));
    }
    let node = world.node();
    let mut most = 0;
    for _ in 0..100 {
        node.turn().expect("a turn");
        node.stall(Some(home));
        for _ in 0..50 {
            node.turn().expect("a turn");
            most = most.max(node.waiting(home));
        }
        node.stall(None);
    }
    let max = actor::limits::PRESSURE_HIGH + world.options.rooms.copies_per_turn;
    assert!(most > max / 2, "the room has no need to wait: {most}");
    assert!(
        most <= max,
        "{most} stanzas wait for a shard that is behind"
    );
}

#[test]
fn who_is_gone_without_a_word_leaves_with_the_next_message() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    enter(&mut world, &mut romeo, "romeo");
    configure(&mut world, &mut romeo, "");
    let mut juliet = world.login("juliet", "balcony");
    enter(&mut world, &mut juliet, "juliet");
    romeo.expect(&mut world, "/juliet'");
    // Her actor crashes: it cannot say that she leaves.
    juliet.send(&format!(
        "<message to='romeo@localhost' type='chat'><body>x</body>{PANIC}</message>"
    ));
    rest(&mut world);
    say(&mut romeo, 1);
    let seen = romeo.expect(&mut world, "code='333'");
    assert!(seen.contains("type='unavailable'"), "{seen}");
}

#[test]
fn a_room_that_crashes_comes_back_with_what_it_kept() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    enter(&mut world, &mut romeo, "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    say(&mut romeo, 1);
    romeo.expect(&mut world, "<body>1</body>");
    romeo.send(&format!(
        "<message type='groupchat' to='{ROOM}'><body>x</body>{PANIC}-in-the-room</message>"
    ));
    rest(&mut world);
    // Whoever was there is not any more, and hears so when he speaks.
    say(&mut romeo, 2);
    romeo.expect(&mut world, "<not-acceptable");
    let seen = enter(&mut world, &mut romeo, "romeo");
    assert_eq!(bodies(&seen), [1]);
    say(&mut romeo, 3);
    romeo.expect(&mut world, "<body>3</body>");
}

#[test]
fn a_room_that_nobody_is_in_is_forgotten_and_found_again() {
    let mut world = World::patient(|options| {
        options.delivery.limits.idle_eviction = Duration::from_secs(1);
    });
    let mut romeo = world.login("romeo", "orchard");
    enter(&mut world, &mut romeo, "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    say(&mut romeo, 1);
    romeo.expect(&mut world, "<body>1</body>");
    romeo.ask(
        &mut world,
        &format!("<presence type='unavailable' to='{ROOM}/romeo'/>"),
        "code='110'",
    );
    rest(&mut world);
    let seen = enter(&mut world, &mut romeo, "romeo");
    assert_eq!(bodies(&seen), [1]);
    assert!(!seen.contains("code='201'"), "it was there: {seen}");
}

#[test]
fn a_log_keeps_as_much_as_it_may() {
    let mut world = World::patient(|options| {
        options.archive.max_messages = 100;
        options.delivery.limits.retention_every = 4;
        options.delivery.limits.read_entries = 4;
        let mut machine = (*options.rooms.machine).clone();
        machine.limits.history_max = 2;
        options.rooms.machine = std::sync::Arc::new(machine);
        options.archive.max_messages = 3;
    });
    let mut romeo = world.login("romeo", "orchard");
    enter(&mut world, &mut romeo, "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    for number in 1..=20 {
        say(&mut romeo, number);
        romeo.expect(&mut world, &format!("<body>{number}</body>"));
    }
    rest(&mut world);
    romeo.send(&format!(
        "<iq type='set' id='q' to='{ROOM}'><query xmlns='urn:xmpp:mam:2'/></iq>"
    ));
    let kept = bodies(&romeo.expect(&mut world, "</fin>"));
    // Looked at every four messages: no more than four beyond the bound.
    assert!(kept.len() >= 3 && kept.len() <= 3 + 4, "{kept:?}");
    assert_eq!(kept.last(), Some(&20));
}

/// A room whose log may have so many bytes, and of which those who enter are sent two messages.
fn small(bytes_max: u64) -> (World, Peer) {
    let mut world = World::patient(|options| {
        let mut machine = (*options.rooms.machine).clone();
        machine.limits.history_max = 2;
        options.rooms.machine = std::sync::Arc::new(machine);
        options.archive.max_bytes = bytes_max;
        options.archive.max_messages = 1_000;
    });
    let mut romeo = world.login("romeo", "orchard");
    enter(&mut world, &mut romeo, "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    (world, romeo)
}

/// What the log has, but for what was taken back.
fn kept(world: &World) -> Vec<usize> {
    let entries = common::store_on(&world.disk).log_read(ROOM, 0, 1_000);
    let entries = entries.expect("the log is read").into_iter();
    let text = entries.map(|entry| String::from_utf8_lossy(&entry.frame).into_owned());
    bodies(&text.collect::<String>())
}

/// 20 KB.
fn say_much(world: &mut World, peer: &mut Peer, number: usize) -> String {
    let much = "x".repeat(20_000);
    peer.seen.clear();
    peer.send(&format!(
        "<message type='groupchat' to='{ROOM}'><body>{number}</body><x xmlns='urn:x'>{much}</x>\
         </message>"
    ));
    peer.expect(world, &format!("<body>{number}</body>"));
    peer.expect(world, "</message>")
}

/// What is taken back takes no room in the log any more, however often somebody does that.
#[test]
fn who_takes_back_again_and_again_drives_nobody_out_of_the_log() {
    let (mut world, mut romeo) = small(100_000);
    for number in 1..=5 {
        say(&mut romeo, number);
        romeo.expect(&mut world, &format!("<body>{number}</body>"));
    }
    let mut juliet = world.login("juliet", "balcony");
    enter(&mut world, &mut juliet, "juliet");
    for number in 100..120 {
        let said = say_much(&mut world, &mut juliet, number);
        let (_, id) = said.split_once("<stanza-id ").expect("an id");
        let (_, id) = id.split_once(" id='").expect("an id");
        let id = &id[..16];
        juliet.seen.clear();
        juliet.send(&format!(
            "<message type='groupchat' to='{ROOM}' id='r{number}'>\
             <retract xmlns='urn:xmpp:message-retract:1' id='{id}'/></message>"
        ));
        juliet.expect(&mut world, &format!("id='r{number}'"));
    }
    rest(&mut world);
    assert_eq!(kept(&world), [1, 2, 3, 4, 5]);
}

/// The size of the log leaves what those who enter are sent, and no more.
#[test]
fn however_large_messages_are_the_history_stays() {
    let (mut world, mut romeo) = small(30_000);
    for number in 1..=8 {
        say_much(&mut world, &mut romeo, number);
    }
    rest(&mut world);
    assert_eq!(kept(&world), [7, 8]);
}

/// A persistent room in the store, in which so many have spoken; romeo was the first of them, and
/// his message the first of his log.
fn spoken_in(store: &store::Store, senders: u64) {
    let part = |part: &str, record: Record| store::Record::RoomPut {
        user: ROOM.into(),
        part: part.into(),
        value: record.encode(),
    };
    let config = Config {
        is_persistent: true,
        ..Config::default()
    };
    let owner = Affiliated {
        address: "romeo@localhost".into(),
        affiliation: Affiliation::Owner,
        ..Affiliated::default()
    };
    let mut records = vec![
        store::Record::RoomMake {
            user: ROOM.into(),
            creator: "romeo@localhost".into(),
            about: room::Listed::default().encode(),
        },
        part(
            "0",
            Record::Created {
                at: 0,
                secret: [1; 16],
                first: 1,
            },
        ),
        part("1", Record::Configured(Box::new(config))),
        part("2", Record::Unlocked),
        part("aromeo@localhost", Record::Affiliated(owner)),
    ];
    records.extend((1..=senders).map(|seq| {
        store::Record::LogAppend {
            user: ROOM.into(),
            entry: LogEntry {
                seq,
                at: Timestamp::from_millis(seq as i64),
                peer: match seq {
                    1 => "romeo@localhost".into(),
                    _ => format!("sender{seq}@localhost").into(),
                },
                flags: EntryFlags::ARCHIVED,
                frame: format!(
                    "<message from='{ROOM}/x' type='groupchat'><body>0</body></message>"
                )
                .into_bytes()
                .into(),
                source: 1,
                ..LogEntry::default()
            },
        }
    }));
    store.bulk(records).expect("stored");
}

#[test]
fn a_message_is_recognised_among_those_of_hundreds_of_senders() {
    let mut world = World::patient(|_| ());
    world.rewrite(|store| spoken_in(store, 300));
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    enter(&mut world, &mut romeo, "romeo");
    let (mut juliet, _) = world.login_managed("juliet", "balcony");
    enter(&mut world, &mut juliet, "juliet");
    // The first message of his log was taken long ago, as far as the room knows.
    for number in [1, 2] {
        say(&mut romeo, number);
        world.pass(Duration::from_secs(1));
    }
    say(&mut juliet, 3);
    let mut heard = Vec::new();
    while heard.len() < 2 {
        let seen = juliet.expect(&mut world, "</body>");
        heard.extend(bodies(&seen));
    }
    assert_eq!(heard, [2, 3]);
}

#[test]
fn a_room_that_cannot_append_now_says_so_and_goes_on() {
    let mut world = World::patient(|options| options.commits.backlog_appends_max = 1);
    let mut romeo = world.login("romeo", "orchard");
    enter(&mut world, &mut romeo, "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    let mut juliet = world.login("juliet", "balcony");
    enter(&mut world, &mut juliet, "juliet");
    romeo.sync(&mut world);
    world.hold();
    for number in 1..=6 {
        say(&mut romeo, number);
        world.work();
    }
    world.let_go();
    let mut heard = Vec::new();
    let mut seen = String::new();
    while heard.len() + returned(&seen).len() < 6 {
        seen += &romeo.sync(&mut world);
        world.pass(Duration::from_secs(1));
        heard = bodies(&seen);
        heard.dedup();
    }
    assert!(!heard.is_empty() && !returned(&seen).is_empty(), "{seen}");
    say(&mut romeo, 7);
    romeo.expect(&mut world, "<body>7</body>");
    heard.push(7);
    assert_eq!(history(&mut world, "juliet"), heard);
}

#[test]
fn a_room_that_turns_temporary_forgets_what_was_stored() {
    let mut world = World::patient(|options| {
        options.archive.max_messages = 4;
        options.delivery.limits.retention_every = 2;
        let mut machine = (*options.rooms.machine).clone();
        machine.limits.history_max = 4;
        options.rooms.machine = std::sync::Arc::new(machine);
    });
    let mut romeo = world.login("romeo", "orchard");
    enter(&mut world, &mut romeo, "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    let mut number = 0;
    for _ in 0..3 {
        for _ in 0..4 {
            number += 1;
            say(&mut romeo, number);
            romeo.expect(&mut world, &format!("<body>{number}</body>"));
        }
        let temporary = PERSISTENT.replace("<value>1", "<value>0");
        configure(&mut world, &mut romeo, &temporary);
        configure(&mut world, &mut romeo, PERSISTENT);
    }
    for _ in 0..3 {
        number += 1;
        say(&mut romeo, number);
        romeo.expect(&mut world, &format!("<body>{number}</body>"));
    }
    rest(&mut world);
    assert_eq!(history(&mut world, "juliet"), [12, 13, 14, 15]);
    world.crash();
    // A number is used once, so what was stored before is not stored again.
    assert_eq!(history(&mut world, "juliet"), [13, 14, 15]);
}

/// XEP-0045 section 11.2. A service that is only started again has put nobody out: who resumes is
/// where he was. One that is not there any more has.
#[test]
fn who_resumes_where_there_are_no_rooms_any_more_is_out_of_them() {
    for has_rooms in [true, false] {
        let mut world = World::patient(|_| {});
        let (mut romeo, token) = world.login_managed("romeo", "orchard");
        enter(&mut world, &mut romeo, "romeo");
        configure(&mut world, &mut romeo, PERSISTENT);
        say(&mut romeo, 1);
        romeo.expect(&mut world, "<body>1</body>");
        romeo.sync(&mut world);
        drop(romeo);
        if !has_rooms {
            world.options.rooms.hosts.clear();
        }
        world.crash();
        let mut romeo = world.connect("romeo");
        romeo.resume(&token, 0);
        romeo.expect(&mut world, "<resumed");
        let seen = romeo.sync(&mut world);
        assert_eq!(seen.contains("<status code='332'/>"), !has_rooms, "{seen}");
        if !has_rooms {
            let gone = format!("<presence type='unavailable' from='{ROOM}/romeo' ");
            assert!(seen.contains(&gone), "{seen}");
            assert!(seen.contains("<status code='110'/>"), "{seen}");
        }
    }
}
