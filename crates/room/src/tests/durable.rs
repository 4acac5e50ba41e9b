//! What is durable: records, what waits for them, and what a failed append leaves behind.

use super::*;
use crate::{Affiliation, State};

const HI: &str = "<message type='groupchat'><body>hi</body></message>";

fn persistent() -> World {
    let mut world = World::coven();
    world.configure(CRONE, &[("persistentroom", "1")]).unwrap();
    world.forget_mail();
    world
}

/// What the journal makes is what the room has.
#[track_caller]
fn same_as_journal(world: &World) {
    let limits = RoomLimits::default();
    let loaded = State::of(world.journal.clone(), &limits).expect("a room");
    let state = world.room.state().expect("a room");
    assert_eq!(loaded.snapshot(), state.snapshot());
    assert_eq!(loaded.next_seq, state.next_seq);
}

#[test]
fn a_temporary_room_appends_nothing() {
    let mut world = World::coven();
    world.send(HAG, "", HI);
    world
        .admin(CRONE, "<item jid='a@b' affiliation='member'/>")
        .unwrap();
    world.configure(CRONE, &[("roomname", "New")]).unwrap();
    assert_eq!(world.appends, 0);
}

#[test]
fn a_room_that_becomes_persistent_takes_everything_along() {
    let mut world = World::coven();
    world.send(HAG, "", HI);
    world
        .admin(CRONE, "<item jid='a@b' affiliation='member' nick='A'/>")
        .unwrap();
    world.send(
        CRONE,
        "",
        "<message type='groupchat'><subject>s</subject></message>",
    );
    let said = world.room.state().expect("a room").next_seq - 1;
    assert_eq!(world.room.told(), said, "nobody is owed it");
    world.configure(CRONE, &[("persistentroom", "1")]).unwrap();
    assert_eq!(world.room.told(), said);
    same_as_journal(&world);
    world.send(HAG, "", HI);
    world.send(
        CRONE,
        "",
        "<message type='groupchat'><subject>t</subject></message>",
    );
    world
        .admin(CRONE, "<item jid='a@b' affiliation='outcast'/>")
        .unwrap();
    world.configure(CRONE, &[("roomname", "New")]).unwrap();
    same_as_journal(&world);
    assert_eq!(
        world
            .journal
            .iter()
            .filter(|r| matches!(r, Record::Created { .. }))
            .count(),
        1
    );
    world.configure(CRONE, &[("persistentroom", "0")]).unwrap();
    assert_eq!(world.journal.last(), Some(&Record::Destroyed));
    assert!(world.room.state().is_some());
}

/// Goal: whoever asks about a room that is being imported, in which nobody was yet, does not end
/// it.
#[test]
fn a_room_that_was_not_opened_yet_is_left_alone() {
    let world = persistent();
    let records = world.journal.into_iter();
    let records = records.filter(|record| !matches!(record, Record::Unlocked));
    let options = Arc::new(Options::default());
    let state = State::of(records.collect::<Vec<_>>(), &options.limits);
    let mut room = Room::new(ROOM, state, options, [9; 16], 1);
    room.recover(Vec::new(), Timestamp::from_millis(0));
    let join = "<x xmlns='http://jabber.org/protocol/muc'/>";
    let entry = format!("<presence from='{HAG}' to='{ROOM}/hag'>{join}</presence>");
    let entry = Event::Stanza {
        frame: Frame::parse(entry).unwrap(),
        may_create: true,
        managed: None,
        named: None,
    };
    let effects = room.handle(entry, Timestamp::from_millis(0)).unwrap();
    assert!(matches!(effects[..], [Effect::Refuse { .. }]));
    assert!(room.state().is_some_and(|state| state.is_locked));
    assert!(room.is_idle() && !room.is_to_end());
}

#[test]
fn a_persistent_room_is_there_without_occupants_and_after_a_restart() {
    let mut world = persistent();
    world.send(HAG, "", HI);
    world
        .admin(
            CRONE,
            "<item jid='wiccarocks@example.org' affiliation='member'/>",
        )
        .unwrap();
    for (who, nick) in [(CRONE, "crone"), (HAG, "hag"), (WICCA, "wicca")] {
        world.send(who, nick, "<presence type='unavailable'/>");
    }
    assert!(world.room.is_idle() && !world.has_ended && world.room.state().is_some());
    let options = Arc::new(Options::default());
    let state = State::of(world.journal.clone(), &options.limits);
    world.room = Room::new(ROOM, state, options, [9; 16], 1);
    world.forget_mail();
    world.join(WICCA, "wicca");
    let mail = world.read(WICCA);
    has(&mail[0], &["affiliation='member'", "code='110'"]);
    lacks(&mail[0], &["201"]);
    has(&mail[1], &["<body>hi</body>", "0000000000000001"]);
    world.send(WICCA, "", HI);
    has(&world.read_one(WICCA), &["0000000000000002"]);
}

#[test]
fn nothing_leaves_before_it_is_committed() {
    let mut world = persistent();
    world.decides = None;
    world.send(HAG, "", HI);
    world.send(WICCA, "", HI);
    let typing = "<message type='groupchat'><composing xmlns='urn:c'/></message>";
    world.send(HAG, "", typing);
    assert!(world.mail.is_empty() && world.appends >= 2);
    // Whatever is no message has to wait, and is given back.
    let leave = Frame::parse(format!(
        "<presence type='unavailable' from='{HAG}' to='{ROOM}/hag'/>"
    ));
    let leave = Event::Stanza {
        frame: leave.unwrap(),
        may_create: true,
        managed: None,
        named: None,
    };
    assert!(!world.event(leave.clone()));
    assert!(
        !world.event(Event::Gone {
            address: HAG.into()
        }) && !world.event(Event::Shutdown)
    );
    assert!(world.event(Event::Decided { is_committed: true }));
    assert_eq!(world.read(CRONE).len(), 1);
    assert!(world.event(Event::Decided { is_committed: true }));
    let seen = world.read(CRONE);
    assert_eq!(seen.len(), 2);
    has(&seen[0], &["/wicca'", "0000000000000002"]);
    has(&seen[1], &["composing", "/hag'"]);
    assert!(world.event(leave));
}

#[test]
fn an_append_that_fails_has_changed_nothing() {
    let mut world = persistent();
    let before = world.room.state().unwrap().snapshot();
    world.decides = Some(false);
    assert_eq!(world.refused(HAG, "", HI), "resource-constraint/wait");
    let failed = world.admin(
        CRONE,
        "<item jid='hag66@example.org' affiliation='outcast'/>",
    );
    assert_eq!(failed.unwrap_err(), "resource-constraint/wait");
    let failed = world.configure(CRONE, &[("membersonly", "1")]);
    assert_eq!(failed.unwrap_err(), "resource-constraint/wait");
    let destroy = "<query xmlns='http://jabber.org/protocol/muc#owner'><destroy/></query>";
    assert_eq!(
        world.ask(CRONE, "set", destroy).unwrap_err(),
        "resource-constraint/wait"
    );
    assert!(
        world.mail.is_empty(),
        "nobody else has heard: {:?}",
        world.mail
    );
    assert_eq!(world.room.state().unwrap().snapshot(), before);
    assert!(world.room.has_session(HAG));
    world.decides = Some(true);
    world.send(HAG, "", HI);
    has(&world.read_one(HAG), &["0000000000000002"]);
    same_as_journal(&world);
}

#[test]
fn messages_that_wait_are_bounded() {
    let mut world = World::limited(|limits| limits.pending_max = 2);
    world.join(CRONE, "crone");
    world.configure(CRONE, &[("persistentroom", "1")]).unwrap();
    world.decides = None;
    let hi = Frame::parse(HI)
        .unwrap()
        .edit()
        .set_attr("from", CRONE)
        .set_attr("to", ROOM)
        .finish();
    let mut say = || {
        world.event(Event::Stanza {
            frame: hi.clone(),
            may_create: true,
            managed: None,
            named: None,
        })
    };
    assert_eq!([say(), say(), say()], [true, true, false]);
}

#[test]
fn a_destroyed_room_starts_anew_with_numbers_that_were_never_given_out() {
    let mut world = persistent();
    world.send(HAG, "", HI);
    let destroy = "<query xmlns='http://jabber.org/protocol/muc#owner'><destroy/></query>";
    world.ask(CRONE, "set", destroy).unwrap();
    assert_eq!(world.journal.last(), Some(&Record::Destroyed));
    world.join(HAG, "hag");
    assert_eq!(
        world.room.state().unwrap().affiliation("hag66@example.org"),
        Affiliation::Owner
    );
    world.forget_mail();
    world.send(HAG, "", HI);
    has(&world.read_one(HAG), &["0000000000000002"]);
}

#[test]
fn records_for_a_room_that_is_not_there_change_nothing() {
    let limits = RoomLimits::default();
    for record in [
        Record::Unlocked,
        Record::Configured(Box::default()),
        Record::Destroyed,
    ] {
        assert!(State::of([record], &limits).is_none());
    }
}
