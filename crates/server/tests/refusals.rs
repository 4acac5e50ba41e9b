//! Messages that are refused, by a disk that is full, by a bound of their sender or by their
//! recipient: each comes back once, whenever the process is killed.

mod common;

use std::time::Duration;

use common::world::{Peer, RESUME_TIMEOUT, ROSTER_SET, SM, World, bodies, stanzas};

/// Longer than anything is retried after.
const LONG: Duration = Duration::from_secs(30);

fn message(number: usize) -> String {
    format!(
        "<message type='chat' to='juliet@localhost' id='m{number}'><body>{number}</body></message>"
    )
}

/// How many of the client's stanzas the server has handled, as it says when it resumes a session.
fn handled(seen: &str) -> usize {
    let (_, resumed) = seen.rsplit_once("<resumed").expect("it is resumed");
    let (_, h) = resumed.split_once(" h='").expect("a count");
    let (h, _) = h.split_once('\'').expect("its end");
    h.parse().expect("a number")
}

/// The messages that came back, as their ids say.
fn returned(seen: &str) -> Vec<usize> {
    let errors = seen.split("<message ").skip(1);
    let errors = errors.filter(|stanza| stanza.contains("type='error'"));
    let ids = errors.map(|stanza| {
        let (_, id) = stanza.split_once("id='m").expect("an id");
        let (id, _) = id.split_once('\'').expect("its end");
        id.parse().expect("a number")
    });
    ids.collect()
}

/// Resumes a session whose client has acknowledged nothing, and sends again what was not handled of
/// so many messages. Gives the connection and all that was said by it.
fn come_back(world: &mut World, token: &str, sent: usize) -> (Peer, String) {
    let mut romeo = world.connect("romeo");
    romeo.resume(token, 0);
    let mut seen = romeo.expect(world, "/>");
    for number in handled(&seen)..sent {
        romeo.send(&message(number));
    }
    for _ in 0..10 {
        seen.push_str(&romeo.sync(world));
        world.pass(Duration::from_secs(1));
    }
    world.pass(LONG);
    seen.push_str(&romeo.sync(world));
    (romeo, seen)
}

/// What Juliet has, when she comes.
fn received(world: &mut World, at_least: usize) -> Vec<usize> {
    let mut juliet = world.login("juliet", "balcony");
    juliet.send("<presence/>");
    let mut seen = String::new();
    while bodies(&seen).len() < at_least {
        seen.push_str(&juliet.expect(world, "</message>"));
    }
    seen.push_str(&juliet.sync(world));
    bodies(&seen)
}

/// The error was in memory only: after a kill the message counted as handled, and nobody said that
/// it had been refused.
#[test]
fn a_message_that_a_full_disk_refused_is_not_lost_in_a_kill() {
    for is_late in [false, true] {
        let mut world = World::new();
        let (mut romeo, token) = world.login_managed("romeo", "orchard");
        world.hold();
        romeo.send(&message(0));
        world.refuse();
        drop(romeo);
        world.work();
        if is_late {
            // Whatever is recorded by itself is.
            for _ in 0..5 {
                world.pass(Duration::from_secs(1));
            }
        }
        world.crash();
        let (_, seen) = come_back(&mut world, &token, 1);
        let back = returned(&seen);
        let all = received(&mut world, 1 - back.len());
        assert_eq!([all, back].concat(), [0], "{seen}");
    }
}

/// Its sender is told once, and is told although it has no link.
#[test]
fn a_message_that_a_full_disk_refused_comes_back_when_there_is_room() {
    let mut world = World::new();
    let (mut romeo, token) = world.login_managed("romeo", "orchard");
    world.hold();
    romeo.send(&message(0));
    world.refuse();
    world.pass(Duration::from_secs(5));
    let seen = romeo.expect(&mut world, "</message>");
    assert_eq!(returned(&seen), [0], "{seen}");
    assert!(seen.contains("<resource-constraint"), "{seen}");
    drop(romeo);
    world.work();
    let (mut romeo, seen) = come_back(&mut world, &token, 1);
    assert_eq!((handled(&seen), returned(&seen)), (1, vec![0]), "{seen}");
    romeo.send(&message(1));
    assert_eq!(received(&mut world, 1), [1]);
}

/// It was told that its message had been handled, whose error was in memory only.
#[test]
fn a_client_whose_session_ended_hears_of_no_count_that_errors_wait_for() {
    let mut world = World::new();
    let (mut romeo, token) = world.login_managed("romeo", "orchard");
    world.switches().set_full(true);
    romeo.send(&message(0));
    world.work();
    drop(romeo);
    for _ in 0..15 {
        world.pass(Duration::from_secs(1));
    }
    let mut romeo = world.connect("romeo");
    romeo.resume(&token, 0);
    let failed = romeo.expect(&mut world, "</failed>");
    assert!(!failed.contains(" h='"), "{failed}");
}

/// The error was in memory only, as above.
#[test]
fn a_message_that_leads_nowhere_comes_back_after_a_kill() {
    let block = "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'>\
         <item jid='juliet@localhost'/></block></iq>";
    let elsewhere = message(0).replace("juliet@localhost", "nurse@example.org");
    for (sent, count) in [(elsewhere, 1), (format!("{block}{}", message(0)), 2)] {
        let mut world = World::new();
        let (mut romeo, token) = world.login_managed("romeo", "orchard");
        romeo.send(&format!("{sent}<r {SM}/>"));
        romeo.expect(&mut world, &format!(" h='{count}'"));
        drop(romeo);
        world.work();
        world.crash();
        let (_, seen) = come_back(&mut world, &token, count);
        assert_eq!(
            (handled(&seen), returned(&seen)),
            (count, vec![0]),
            "{seen}"
        );
    }
}

/// Its session had ended before the append was refused, and nobody was told; but its client heard
/// that the message had been handled.
#[test]
fn what_a_session_sent_is_not_lost_although_it_expired_before_that_was_refused() {
    let mut world = World::new();
    let (mut romeo, token) = world.login_managed("romeo", "orchard");
    world.hold();
    romeo.send(&message(0));
    world.work();
    drop(romeo);
    world.work();
    world.pass(RESUME_TIMEOUT);
    world.refuse();
    // Whatever is recorded by itself is. Idle for 15 s the account is forgotten, and with it the
    // count, which only memory has.
    for _ in 0..3 {
        world.pass(Duration::from_secs(1));
    }
    let mut romeo = world.connect("romeo");
    romeo.resume(&token, 0);
    let failed = romeo.expect(&mut world, "</failed>");
    assert!(failed.contains(" h='1'"), "{failed}");
    romeo.bind(&mut world, "orchard");
    romeo.send("<presence/>");
    let seen = romeo.expect(&mut world, "</message>");
    assert_eq!(returned(&seen), [0], "{seen}");
}

/// The count was that of a time at which the append was not decided, and reached the client
/// although the append was refused: a kill lost the error.
#[test]
fn a_client_whose_session_ended_hears_of_no_count_that_is_not_decided() {
    let mut world = World::new();
    let (mut romeo, token) = world.login_managed("romeo", "orchard");
    let mut again = world.connect("romeo");
    world.hold();
    romeo.send(&message(0));
    world.work();
    drop(romeo);
    world.work();
    world.pass(RESUME_TIMEOUT);
    again.resume(&token, 0);
    world.refuse();
    let failed = again.expect(&mut world, "failed>");
    assert!(!failed.contains(" h='"), "{failed}");
}

/// A message with an origin-id, by which it is recognised when it is sent again.
fn original(number: usize) -> String {
    let origin = format!("</body><origin-id xmlns='urn:xmpp:sid:0' id='origin-{number}'/>");
    message(number).replace("</body>", &origin)
}

/// It was recognised as a copy of one that was refused later on. Who had sent that was gone.
#[test]
fn what_is_sent_again_is_not_lost_although_its_first_copy_is_refused() {
    let mut world = World::new();
    let mut first = world.login("romeo", "street");
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    world.hold();
    first.send(&original(0));
    world.work();
    drop(first);
    romeo.send(&original(0));
    world.work();
    world.refuse();
    for _ in 0..5 {
        world.pass(Duration::from_secs(1));
    }
    let seen = romeo.expect(&mut world, "</message>");
    assert_eq!(returned(&seen), [0], "{seen}");
    romeo.send(&original(0));
    assert_eq!(received(&mut world, 1), [0]);
}

/// The change that was refused was another one: the message is in the log.
#[test]
fn what_is_sent_again_does_not_come_back_with_a_change_behind_its_first_copy() {
    let mut world = World::new();
    let mut first = world.login("romeo", "street");
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    world.hold();
    first.send(&original(0));
    world.work();
    first.send(ROSTER_SET);
    world.work();
    romeo.send(&original(0));
    world.work();
    world.let_one_go();
    world.refuse();
    first.expect(&mut world, "resource-constraint");
    for _ in 0..5 {
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(received(&mut world, 1), [0]);
    let seen = romeo.sync(&mut world);
    assert!(returned(&seen).is_empty(), "{seen}");
}

/// Errors that cannot be recorded have a bound: what is beyond it is not counted as handled, and
/// the actor begins anew. Its stream outlives that, and what it said is handled.
#[test]
fn a_stream_with_which_too_many_errors_would_wait_for_the_disk_begins_anew() {
    let mut world = World::with(|options| options.delivery.limits.refusals_max = 2);
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    world.hold();
    for number in 0..3 {
        romeo.send(&message(number));
        world.work();
    }
    world.refuse();
    for _ in 0..3 {
        world.pass(Duration::from_millis(100));
    }
    let seen = romeo.sync(&mut world);
    assert!(!seen.contains("stream:error"), "{seen}");
    assert!(returned(&seen).is_empty(), "{seen}");
    assert_eq!(received(&mut world, 3), [0, 1, 2]);
}

/// The error was in memory only, as above.
#[test]
fn a_message_beyond_a_bound_of_its_sender_comes_back_after_a_kill() {
    let mut world = World::with(|options| {
        options.delivery.outbox.entries_max = 1;
        options.delivery.outbox.entries_per_destination_max = 1;
        options.delivery.outbox.window = 1;
        options.delivery.outbox.window_per_destination = 1;
    });
    let (mut romeo, token) = world.login_managed("romeo", "orchard");
    world.hold();
    romeo.send(&(message(0) + &message(1)));
    world.work();
    world.let_go();
    world.work();
    world.crash();
    let (_, seen) = come_back(&mut world, &token, 2);
    assert_eq!((handled(&seen), returned(&seen)), (2, vec![1]), "{seen}");
    assert_eq!(received(&mut world, 1), [0]);
}

/// The other device was sent a copy of an error, in which no client looks for one of its own.
#[test]
fn an_error_for_a_session_that_has_ended_is_told_to_another_one() {
    let mut world = World::with(|options| options.limits.offline_messages_max = 0);
    let (mut phone, _) = world.login_managed("romeo", "phone");
    phone.send(&message(0));
    drop(phone);
    world.work();
    for _ in 0..20 {
        world.pass(Duration::from_secs(1));
    }
    let (mut desk, _) = world.login_managed("romeo", "desk");
    let carbons = "<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>";
    desk.ask(&mut world, carbons, "id='c'");
    desk.send("<presence/>");
    let seen = desk.expect(&mut world, "</message>");
    assert_eq!(returned(&seen), [0], "{seen}");
    assert!(!seen.contains("carbons"), "{seen}");
}

/// Its client had come again and was about to have its new session counted. The error was given to
/// that session, as it had the resource of the one that had sent the message, and counted as
/// delivered with its commit; it was lost with the link, or with the actor.
#[test]
fn an_error_is_not_lost_with_a_session_that_did_not_send_the_message() {
    for has_crash in [false, true] {
        let mut world = World::with(|options| options.limits.offline_messages_max = 0);
        let (mut romeo, _) = world.login_managed("romeo", "orchard");
        let mut again = world.connect("romeo");
        world.node().set_late_reads(true);
        world.node().stall_reads(true);
        romeo.send(&message(0));
        world.work();
        drop(romeo);
        again.bind(&mut world, "orchard");
        world.hold();
        world.node().stall_reads(false);
        world.work();
        match has_crash {
            true => world.node().kill("romeo@localhost"),
            false => drop(again),
        }
        world.let_go();
        world.work();
        let (mut romeo, _) = world.login_managed("romeo", "orchard");
        romeo.send("<presence/>");
        let seen = romeo.expect(&mut world, "</message>");
        assert_eq!(returned(&seen), [0], "{has_crash}: {seen}");
    }
}

/// A session without stream management that sent the message itself is told at once, also if it is
/// there for nobody else.
#[test]
fn an_error_for_a_session_without_stream_management_is_told_to_it() {
    let mut world = World::with(|options| options.limits.offline_messages_max = 0);
    let mut romeo = world.login("romeo", "orchard");
    romeo.send(&message(0));
    let seen = romeo.expect(&mut world, "</message>");
    assert_eq!(returned(&seen), [0], "{seen}");
}

/// As many messages as a client may send ahead, and of them as many as wait for their recipient.
const SENT: usize = 64;
const ROOM: usize = 5;

/// Commits between two kills.
const EVERY: usize = 5;

/// They are sent, and the process is killed after so many commits. False if all is over by then.
fn kill_after(commits: usize) -> bool {
    let mut world = World::with(|options| options.limits.offline_messages_max = ROOM as u32);
    let (mut romeo, token) = world.login_managed("romeo", "orchard");
    world.hold();
    let all: String = (0..SENT).map(message).collect();
    romeo.send(&all);
    world.work();
    let mut idle = 0;
    for _ in 0..commits {
        while !world.try_one() && idle < 100 {
            world.pass(Duration::from_millis(100));
            idle += 1;
        }
    }
    drop(romeo);
    world.crash();
    let (_, seen) = come_back(&mut world, &token, SENT);
    let mut back = returned(&seen);
    let kept = received(&mut world, ROOM);
    assert_eq!(kept.len(), ROOM, "{commits}: {kept:?}");
    assert!(kept.is_sorted(), "{commits}: {kept:?}");
    back.extend(kept);
    back.sort_unstable();
    assert_eq!(
        back,
        (0..SENT).collect::<Vec<_>>(),
        "killed after {commits}"
    );
    idle < 100
}

#[test]
fn each_message_that_a_full_inbox_refuses_comes_back_once_whenever_a_kill_comes() {
    let kills = (0..)
        .step_by(EVERY)
        .take_while(|commits| kill_after(*commits));
    let kills = kills.count();
    assert!(
        kills * EVERY >= SENT - ROOM,
        "each comes back with a commit of its own"
    );
}

/// A message that is sent again is recognised among its sender's last 256 with an origin-id, and
/// for an hour, or as long as is said. An older one is a new one.
#[test]
fn a_message_is_recognised_for_an_hour_and_among_256() {
    const REMEMBERED: usize = store::limits::ORIGINS_MAX;
    const MINUTE: Duration = Duration::from_secs(60);
    for window in [60, 5] {
        let mut world = World::patient(|options| {
            options.delivery.limits.origin_window = window * MINUTE;
        });
        let mut juliet = world.login("juliet", "balcony");
        juliet.ask(&mut world, "<presence/>", "<presence");
        let (mut romeo, _) = world.login_managed("romeo", "orchard");
        let mut heard = |world: &mut World, romeo: &mut Peer, numbers: std::ops::Range<usize>| {
            for number in numbers {
                romeo.send(&original(number));
                if number.is_multiple_of(50) {
                    romeo.sync(world);
                }
            }
            romeo.sync(world);
            world.pass(Duration::from_secs(2));
            bodies(&juliet.sync(world))
        };
        assert_eq!(heard(&mut world, &mut romeo, 0..1), [0]);
        world.pass((window - 1) * MINUTE);
        assert_eq!(heard(&mut world, &mut romeo, 0..1), [0; 0]);
        world.pass(MINUTE);
        assert_eq!(heard(&mut world, &mut romeo, 0..1), [0], "a new one");
        let others: Vec<usize> = (1..REMEMBERED).collect();
        assert_eq!(heard(&mut world, &mut romeo, 1..REMEMBERED), others);
        assert_eq!(heard(&mut world, &mut romeo, 0..1), [0; 0]);
        let more = REMEMBERED..REMEMBERED + 1;
        assert_eq!(heard(&mut world, &mut romeo, more), [REMEMBERED]);
        assert_eq!(heard(&mut world, &mut romeo, 0..1), [0], "a new one");
    }
}

/// A message that came back is not taken for a copy of one that was delivered: who sends it again
/// is told once more, whatever was killed, until an hour after it came back. Then it is a new one.
#[test]
fn what_came_back_is_refused_when_it_is_sent_again_and_not_swallowed() {
    const MINUTE: Duration = Duration::from_secs(60);
    let mut world = World::patient(|options| options.limits.offline_messages_max = 0);
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    romeo.send(&original(0));
    let seen = romeo.expect(&mut world, "</message>");
    assert_eq!(returned(&seen), [0], "{seen}");
    let mut juliet = world.login("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    for is_killed in [false, true] {
        if is_killed {
            world.pass(Duration::from_secs(2));
            world.crash();
            (romeo, _) = world.login_managed("romeo", "orchard");
            juliet = world.login("juliet", "balcony");
            juliet.ask(&mut world, "<presence/>", "<presence");
        }
        romeo.send(&original(0));
        let seen = romeo.expect(&mut world, "</message>");
        assert_eq!(returned(&seen), [0], "{seen}");
        assert!(seen.contains("<conflict"), "{seen}");
        world.pass(MINUTE);
        assert!(bodies(&juliet.sync(&mut world)).is_empty());
    }
    // Another one is not held back by it.
    romeo.send(&original(1));
    juliet.expect(&mut world, "</message>");
    world.pass(60 * MINUTE);
    romeo.sync(&mut world);
    romeo.send(&original(0));
    let seen = juliet.expect(&mut world, "</message>");
    assert_eq!(bodies(&seen), [0], "{seen}");
}

/// A version may refuse what an earlier one has stored. It was tried for an hour, and what was
/// behind it for the same recipient waited; then it was gone, and nobody had said so.
#[test]
fn a_message_that_cannot_be_read_any_more_comes_back() {
    let mut world = World::patient(|_| ());
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    romeo.send(&message(0));
    assert_eq!(received(&mut world, 1), [0]);
    world.rewrite(|store| {
        let head = store.load_user("romeo@localhost").expect("it is read");
        let head = head.expect("an account").log;
        let frames = ["<message <".to_owned(), message(1)];
        let entries = frames.into_iter().zip(head.next_seq..);
        let records = entries.map(|(frame, seq)| store::Record::LogAppend {
            user: "romeo@localhost".into(),
            entry: store::LogEntry {
                seq,
                at: head.last_at,
                peer: "juliet@localhost".into(),
                flags: store::EntryFlags::SENT.and(store::EntryFlags::OUTGOING),
                frame: frame.into_bytes().into(),
                ..store::LogEntry::default()
            },
        });
        store.bulk(records.collect::<Vec<_>>()).expect("stored");
    });
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    romeo.send("<presence/>");
    let seen = romeo.expect_patiently(&mut world, "</message>");
    let from = "from='juliet@localhost'";
    assert!(
        seen.contains("type='error'") && seen.contains(from),
        "{seen}"
    );
    assert!(seen.contains("is damaged"), "{seen}");
    assert_eq!(received(&mut world, 1), [1]);
}

/// The queue of commits was full, and its error was written at once: the client counted it for the
/// message in front of it, whose commit was under way, and that was lost with the link.
#[test]
fn what_is_refused_at_once_comes_behind_what_has_a_count_already() {
    let mut world = World::patient(|options| {
        options.commits.batch_appends = 1;
        options.commits.backlog_appends_max = 1;
    });
    let (mut juliet, token) = world.login_managed("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    let mut romeo = world.login("romeo", "orchard");
    world.hold();
    romeo.send(&message(0));
    world.work();
    // His copy is durable; hers is under way, and behind it there is room for one change.
    world.let_one_go();
    romeo.send(&message(1));
    world.work();
    juliet.send(ROSTER_SET);
    world.work();
    world.let_go();
    let seen = juliet.expect(&mut world, "type='error'");
    let at = |what: &str| seen.find(what).unwrap_or_else(|| panic!("{what}: {seen}"));
    assert!(at("<body>0</body>") < at("type='error'"), "{seen}");
    // What she has counted is what the server has.
    drop(juliet);
    world.work();
    let mut juliet = world.connect("juliet");
    juliet.resume(&token, 1 + stanzas(&seen));
    let seen = juliet.expect(&mut world, "</message>");
    assert!(seen.contains("<resumed"), "{seen}");
    assert_eq!(bodies(&seen), [1], "{seen}");
}

/// What was to be written to a client before `<enabled/>` was counted when a change behind that was
/// refused: the server had counted one stanza more than the client, and gave it a message twice.
#[test]
fn what_is_written_before_stanzas_are_counted_has_no_count() {
    let mut world = World::patient(|options| {
        options.commits.batch_appends = 1;
        options.commits.backlog_appends_max = 1;
    });
    let mut juliet = world.login("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    let mut romeo = world.login("romeo", "orchard");
    world.hold();
    juliet.send(ROSTER_SET);
    world.work();
    juliet.send("<iq type='get' id='ping'><ping xmlns='urn:xmpp:ping'/></iq>");
    juliet.send(&format!("<enable {SM} resume='true'/>"));
    juliet.send(&ROSTER_SET.replace("'roster'", "'refused'"));
    world.work();
    world.let_go();
    let mut seen = juliet.expect(&mut world, "type='error'");
    romeo.send(&message(0));
    seen.push_str(&juliet.expect(&mut world, "</message>"));
    let (before, counted) = seen.split_once("<enabled").expect("it is enabled");
    assert!(before.contains("id='ping'"), "{seen}");
    assert!(counted.contains("id='refused'"), "{seen}");
    let token = counted.split("id='").nth(1).expect("a token");
    let token = token.split('\'').next().expect("a token").to_owned();
    world.crash();
    let mut juliet = world.connect("juliet");
    juliet.resume(&token, stanzas(counted));
    let seen = juliet.sync(&mut world);
    assert!(seen.contains("<resumed"), "{seen}");
    assert_eq!(bodies(&seen), [0; 0], "{seen}");
}
