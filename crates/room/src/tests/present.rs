//! Who is there after a restart, what a client is told that comes back, and what that costs.

use super::*;

const HI: &str = "<message type='groupchat'><body>hi</body></message>";

/// The owner with a managed session, and a persistent room.
fn persistent() -> World {
    let mut world = World::new();
    world.join_managed(CRONE, "crone", 1);
    world.configure(CRONE, &[("persistentroom", "1")]).unwrap();
    world.forget_mail();
    world
}

fn back(world: &mut World, who: &str, number: u32, nick: &str) -> Vec<String> {
    world.read(who);
    assert!(world.event(Event::Back {
        address: who.into(),
        number,
        nick: nick.to_owned(),
    }));
    world.read(who)
}

fn leave(world: &mut World, who: &str, number: u32) {
    world.send_as(who, "", LEAVE, Some(number));
}

/// Nicks that are said to be there, and those that are said not to be.
fn told(mail: &[String]) -> (Vec<String>, Vec<String>) {
    let nick = |one: &String| {
        let frame = Frame::parse(one.clone().into_bytes()).unwrap();
        let from = frame.attr("from").unwrap().into_owned();
        let nick = from.split_once('/').map_or("", |(_, nick)| nick);
        nick.to_owned()
    };
    let presences = mail.iter().filter(|one| one.starts_with("<presence"));
    let (gone, there): (Vec<&String>, Vec<&String>) =
        presences.partition(|one| one.contains("type='unavailable'"));
    let nicks = |all: Vec<&String>| all.into_iter().map(nick).collect();
    (nicks(there), nicks(gone))
}

#[test]
fn managed_sessions_are_there_after_a_restart_and_others_are_gone() {
    let mut world = persistent();
    world.join(WICCA, "wicca");
    world.join_managed(HAG, "hag", 7);
    world.restart();
    assert_eq!(world.room.sessions(), 2);
    let unconfirmed = world.room.unconfirmed();
    let unconfirmed: Vec<(&str, u32)> = unconfirmed.iter().map(|(a, n)| (&**a, *n)).collect();
    assert_eq!(unconfirmed, [(CRONE, 1), (HAG, 7)]);
    // It speaks as it did, to all who are there.
    world.send(HAG, "", HI);
    has(&world.read_one(CRONE), &["coven@chat.example/hag", "hi"]);
    let mail = back(&mut world, CRONE, 1, "crone");
    let (there, gone) = told(&mail);
    assert_eq!(
        (&*there, &*gone),
        (
            &["hag", "crone"].map(String::from)[..],
            &["wicca".to_owned()][..]
        )
    );
    has(&mail[mail.len() - 1], &["<subject"]);
    has(&mail[mail.len() - 2], &["code='110'"]);
    assert!(world.event(Event::Confirmed {
        address: HAG.into()
    }));
    assert_eq!(world.room.unconfirmed(), []);
}

/// It has had what was said before, like any other without a number.
#[test]
fn who_is_managed_from_now_on_is_owed_what_is_said_from_now_on() {
    for comes_back in [false, true] {
        let mut world = persistent();
        world.join(HAG, "hag");
        world.send(CRONE, "", HI);
        world.here.clear();
        match comes_back {
            true => assert_eq!(told(&back(&mut world, HAG, 7, "hag")).1, [""; 0]),
            false => world.send_as(HAG, "hag", "<presence/>", Some(7)),
        }
        let told = world.room.told();
        assert_eq!((world.room.since(HAG), world.room.managed()), (told, 2));
        assert_eq!(world.here[0], (HAG.to_owned(), 7, Some(told)));
    }
}

#[test]
fn a_session_whose_home_does_not_know_it_leaves() {
    let mut world = persistent();
    world.join_managed(HAG, "hag", 7);
    world.restart();
    world.send(CRONE, "", HI);
    world.forget_mail();
    assert!(world.event(Event::Gone {
        address: HAG.into()
    }));
    has(&world.read_one(CRONE), &["/hag'", "type='unavailable'"]);
    // After another restart it is remembered that he is gone.
    world.restart();
    assert_eq!(told(&back(&mut world, CRONE, 1, "crone")).1, ["hag"]);
    // Who comes back without being there is told so, and of nobody else.
    let mail = back(&mut world, HAG, 7, "hag");
    assert_eq!(mail.len(), 1);
    has(
        &mail[0],
        &["/hag'", "code='110'", "code='333'", "unavailable"],
    );
    let mail = back(&mut world, CRONE, 2, "crone");
    assert_eq!(
        mail.len(),
        1,
        "of another session of that address: {mail:?}"
    );
}

/// The next session of its name had entered, and was told that it is not there.
#[test]
fn that_a_session_is_not_there_is_told_it_alone() {
    let mut world = persistent();
    world.join_managed(HAG, "hag", 8);
    let late = Event::Back {
        address: HAG.into(),
        number: 7,
        nick: "hag".to_owned(),
    };
    let effects = world.room.handle(late, world.now).ok().unwrap();
    assert!(
        matches!(&effects[..], [Effect::Tell { number: 7, .. }]),
        "{effects:?}"
    );
}

const JOIN: &str = "<presence><x xmlns='http://jabber.org/protocol/muc'/></presence>";
const LEAVE: &str = "<presence type='unavailable'/>";

/// What a room does with presence of the session of that number, if it has one, of an address.
fn presence(
    world: &mut World,
    (who, nick): (&str, &str),
    stanza: &str,
    managed: Option<u32>,
) -> Vec<Effect> {
    let frame = Frame::parse(stanza).unwrap();
    let frame = frame.edit().set_attr("from", who);
    let event = Event::Stanza {
        frame: frame.set_attr("to", &format!("{ROOM}/{nick}")).finish(),
        may_create: true,
        managed,
        named: None,
    };
    world.room.handle(event, world.now).ok().unwrap()
}

/// What an earlier session of an address said comes behind the entry of the next one. It was taken
/// for that one's word, which left with the earlier one.
#[test]
fn what_an_earlier_session_says_changes_nothing_of_the_later_one() {
    let away = "<presence><show>away</show></presence>";
    for (nick, stanza) in [("hag", JOIN), ("hag2", JOIN), ("hag", away), ("hag2", away)] {
        let mut world = persistent();
        world.join_managed(HAG, "hag", 8);
        let kept = world.kept.clone();
        let effects = presence(&mut world, (HAG, nick), stanza, Some(7));
        let [Effect::Tell { frame, number: 7 }, Effect::Ask] = &effects[..] else {
            panic!("{effects:?}");
        };
        assert_eq!(frame.attr_raw("type"), Some("error"));
        assert_eq!(crate::told::is_refused(frame), stanza == JOIN);
        assert_eq!(world.room.unconfirmed(), [(HAG.into(), 8)]);
        // It is asked for once.
        let again = presence(&mut world, (HAG, nick), stanza, Some(7));
        assert!(matches!(&again[..], [Effect::Tell { .. }]), "{again:?}");
        assert_eq!(world.room.managed_number(HAG), Some(8));
        assert_eq!(world.kept, kept);
    }
    let mut world = persistent();
    world.join_managed(HAG, "hag", 8);
    let effects = presence(&mut world, (HAG, "hag"), LEAVE, Some(7));
    assert!(effects.is_empty(), "{effects:?}");
    assert!(world.room.has_session(HAG));
}

/// The numbers of an account that was removed and made anew begin anew.
#[test]
fn who_has_a_lower_number_enters_once_the_other_one_is_gone() {
    let mut world = persistent();
    world.join_managed(HAG, "hag", 8);
    presence(&mut world, (HAG, "hag"), JOIN, Some(0));
    assert_eq!(world.room.unconfirmed(), [(HAG.into(), 8)]);
    assert!(world.event(Event::Gone {
        address: HAG.into()
    }));
    world.join_managed(HAG, "hag", 0);
    assert_eq!(world.room.managed_number(HAG), Some(0));
    assert_eq!(world.room.unconfirmed(), []);
}

/// What names no session may be about an earlier one: the home of the one that is there knows.
#[test]
fn what_says_of_no_session_that_it_is_gone_is_asked_for() {
    let error = "<presence type='error'><error type='cancel'>\
                 <gone xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>";
    for stanza in [LEAVE, error] {
        let mut world = persistent();
        world.join_managed(HAG, "hag", 8);
        let effects = presence(&mut world, (HAG, "hag"), stanza, None);
        assert!(matches!(effects[..], [Effect::Ask]), "{effects:?}");
        assert_eq!(world.room.unconfirmed(), [(HAG.into(), 8)]);
        // It leaves all the same, and nobody asks any more.
        presence(&mut world, (HAG, "hag"), LEAVE, Some(8));
        assert!(!world.room.has_session(HAG));
        assert_eq!(world.room.unconfirmed(), []);
        assert!(!world.room.is_unconfirmed(HAG));
    }
}

/// A word of the earlier session that it is back is none of the later one.
#[test]
fn an_earlier_session_that_is_back_confirms_nobody() {
    let mut world = persistent();
    world.join_managed(HAG, "hag", 8);
    world.room.unconfirm(&HAG.into());
    assert_eq!(back(&mut world, HAG, 7, "hag").len(), 1);
    assert!(world.room.is_unconfirmed(HAG));
    back(&mut world, HAG, 8, "hag");
    assert!(!world.room.is_unconfirmed(HAG));
}

/// What comes from a session says that it is there, also if it had left meanwhile.
#[test]
fn whose_presence_has_come_is_confirmed() {
    for leaves in [false, true] {
        let mut world = persistent();
        world.join_managed(HAG, "hag", 7);
        world.restart();
        assert!(world.room.is_unconfirmed(HAG));
        if leaves {
            leave(&mut world, HAG, 7);
        }
        world.join_managed(HAG, "hag", 7);
        assert!(!world.room.is_unconfirmed(HAG), "{leaves}");
        world.room.unconfirm(&HAG.into());
        assert!(world.room.unconfirmed().contains(&(HAG.into(), 7)));
    }
}

/// It was told so at once, and a kill before the room was in the store took it back.
#[test]
fn a_managed_session_is_in_a_temporary_room_once_a_restart_cannot_change_it() {
    let join = "<presence><x xmlns='http://jabber.org/protocol/muc'/></presence>";
    for (world, who) in [
        (World::new(), HECATE),
        (World::coven(), HECATE),
        // One that is there, and was not managed before.
        (World::coven(), HAG),
    ] {
        let mut world = world;
        let was_there = world.room.has_session(who);
        world.decides = None;
        world.send_as(who, "hecate", join, Some(7));
        assert_eq!(world.mail, BTreeMap::new());
        assert!(world.room.is_busy());
        // The disk is full: nobody is told anything but who asked.
        world.decides = Some(true);
        assert!(world.event(Event::Decided {
            is_committed: false
        }));
        let refused = condition(&world.read_one(who));
        assert_eq!(refused.as_deref(), Some("resource-constraint/wait"));
        assert_eq!(world.mail, BTreeMap::new());
        assert_eq!(world.room.has_session(who), was_there);
        assert_eq!(world.room.managed(), 0);

        world.send_as(who, "hecate", join, Some(7));
        let mail = world.read(who);
        let (there, _) = told(&mail);
        assert_eq!(there.last().map(String::as_str), Some("hecate"), "{mail:?}");
        world.restart();
        assert_eq!(world.room.managed_number(who), Some(7));
        assert_eq!(world.room.sessions(), 1);
    }
}

/// Goal: nobody inherits owners, bans and archive of a temporary room whose end did not come to
/// pass before a kill.
#[test]
fn a_temporary_room_that_nobody_is_in_after_a_restart_is_to_end() {
    for is_there in [true, false] {
        let mut world = World::new();
        world.join_managed(CRONE, "crone", 1);
        if !is_there {
            world.kept.clear();
        }
        world.restart();
        assert!(world.room.state().is_some());
        assert_eq!(world.room.is_to_end(), !is_there);
        assert!(world.event(Event::End));
        assert_eq!(world.room.state().is_none(), !is_there);
        assert_eq!(world.has_ended, !is_there);
    }
    let mut world = persistent();
    world.kept.clear();
    world.restart();
    assert!(world.room.is_idle() && !world.room.is_to_end());
}

#[test]
fn who_may_not_enter_brings_no_temporary_room_into_the_store() {
    let mut world = World::coven();
    world.join_managed(HECATE, "hag", 7);
    let refused = condition(&world.read_one(HECATE));
    assert_eq!(refused.as_deref(), Some("conflict/cancel"));
    assert_eq!(world.appends, 0);
}

#[test]
fn what_a_room_decided_of_an_occupant_survives() {
    let mut world = persistent();
    world.join_managed(HAG, "hag", 7);
    world.join_managed(WICCA, "wicca", 3);
    world
        .admin(CRONE, "<item nick='hag' role='moderator'/>")
        .unwrap();
    world.send_as(
        HAG,
        "hag2",
        "<presence><show>away</show></presence>",
        Some(7),
    );
    // A ban that was committed, of one who was not taken out any more.
    let kept = world.kept.clone();
    world
        .admin(
            CRONE,
            "<item jid='wiccarocks@example.org' affiliation='outcast'/>",
        )
        .unwrap();
    world.kept = kept;
    world.restart();
    assert_eq!(world.room.sessions(), 2);
    let mail = back(&mut world, CRONE, 1, "crone");
    assert_eq!(told(&mail).1, ["hag", "wicca"]);
    let hag = mail.iter().find(|one| one.contains("/hag2'")).unwrap();
    has(hag, &["<show>away</show>", "role='moderator'"]);
}

#[test]
fn only_rooms_with_managed_sessions_keep_anything() {
    let mut world = World::coven();
    world.configure(CRONE, &[("persistentroom", "1")]).unwrap();
    world.join(HECATE, "hecate");
    assert_eq!((world.keeps, world.kept.len()), (0, 0));
    // The first one brings along whoever its client is told of.
    world.join_managed("a@example.org/1", "a", 1);
    assert_eq!(world.kept.len(), 5);
    let told = world.room.told();
    assert_eq!(world.here, [("a@example.org/1".to_owned(), 1, Some(told))]);
    world.send(HAG, "", HI);
    world.join_managed("b@example.org/1", "b", 9);
    assert_eq!(
        world.here[1..],
        [("b@example.org/1".to_owned(), 9, Some(told + 1))]
    );
    leave(&mut world, "a@example.org/1", 1);
    assert_eq!(
        world.kept.len(),
        6,
        "that one is gone is kept for the other"
    );
    // Both of them are gone, and it is kept on for a minute.
    leave(&mut world, "b@example.org/1", 9);
    assert_eq!(world.kept.len(), 6);
    pass(&mut world, 60_000);
    world.send(HAG, "", HI);
    assert_eq!(world.kept.len(), 0, "{:?}", world.kept);
    world.join_managed("b@example.org/1", "b", 9);
    world.here.clear();
    // A room that is temporary from then on is kept until the last of them has left.
    world.configure(CRONE, &[("persistentroom", "0")]).unwrap();
    assert_eq!((&*world.here, world.is_durable()), (&[][..], true));
    leave(&mut world, "b@example.org/1", 9);
    assert!(!world.is_durable());
    world.join_managed("b@example.org/1", "b", 9);
    assert!(world.is_durable());
}

fn pass(world: &mut World, millis: i64) {
    world.now = Timestamp::from_millis(world.now.as_millis() + millis);
}

/// Each time that it entered, a record was written for everybody who was there, and removed when it
/// left.
#[test]
fn a_managed_session_that_comes_and_goes_costs_what_the_room_has_once() {
    const CROWD: usize = 200;
    let mut world = World::coven();
    world.configure(CRONE, &[("persistentroom", "1")]).unwrap();
    for n in 0..CROWD {
        world.join(&format!("u{n}@example.org/x"), &format!("u{n}"));
    }
    world.keeps = 0;
    for _ in 0..50 {
        world.join_managed("a@example.org/1", "a", 1);
        leave(&mut world, "a@example.org/1", 1);
        pass(&mut world, 1_000);
        world.forget_mail();
    }
    let most = CROWD + 10 + 2 * 50;
    assert!((CROWD..most).contains(&world.keeps), "{}", world.keeps);
    // After a restart of that time nobody is there, and nothing stays.
    world.restart();
    assert_eq!(world.room.sessions(), 0);
    world.join(HAG, "hag");
    pass(&mut world, 60_000);
    world.send(HAG, "", HI);
    assert_eq!(world.kept.len(), 0, "{:?}", world.kept);
    // Whoever comes after that is told of those who are there, and of nobody else.
    world.join_managed("a@example.org/1", "a", 2);
    let (there, gone) = told(&back(&mut world, "a@example.org/1", 2, "a"));
    assert_eq!((there.len(), gone.len()), (2, 0), "{there:?} {gone:?}");
}

#[test]
fn those_who_left_are_forgotten_in_time_and_in_number() {
    let mut world = World::with(Options {
        limits: RoomLimits {
            gone_max: 2,
            gone_for_ms: 1_000,
            ..RoomLimits::default()
        },
        locks_new: false,
        ..Options::default()
    });
    world.join_managed(CRONE, "crone", 1);
    world.configure(CRONE, &[("persistentroom", "1")]).unwrap();
    for n in 0..4 {
        let who = format!("u{n}@example.org/x");
        world.join(&who, &format!("u{n}"));
        world.send(&who, "", "<presence type='unavailable'/>");
    }
    assert_eq!(told(&back(&mut world, CRONE, 1, "crone")).1, ["u2", "u3"]);
    assert_eq!(world.kept.len(), 3);
    world.now = Timestamp::from_millis(world.now.as_millis() + 1_001);
    world.join(HAG, "hag");
    assert_eq!(told(&back(&mut world, CRONE, 1, "crone")).1, [""; 0]);
    assert_eq!(world.kept.len(), 2);
    // Who is there again is not gone.
    world.send(HAG, "", "<presence type='unavailable'/>");
    world.join(HAG, "hag");
    let (there, gone) = told(&back(&mut world, CRONE, 1, "crone"));
    assert_eq!((there.len(), gone.len()), (2, 0));
}

#[test]
fn places_follow_each_other() {
    let mut world = persistent();
    for _ in 0..3 {
        world.send(CRONE, "", HI);
    }
    let chat_state = "<message type='groupchat'><active xmlns='urn:x'/></message>";
    world.send(CRONE, "", chat_state);
    world.restart();
    world.send(CRONE, "", HI);
    assert_eq!(world.placed.len(), 4);
    for pair in world.placed.windows(2) {
        assert_eq!(pair[1].after, pair[0].place);
    }
}

fn told_at_the_end(world: &mut World, unsure: &[&str]) -> Vec<String> {
    world.forget_mail();
    let unsure: Vec<String> = unsure.iter().map(|nick| (*nick).to_owned()).collect();
    let told = world.room.end(&unsure);
    let frames = told.iter().map(|effect| match effect {
        Effect::Deliver(frame) | Effect::Tell { frame, .. } => {
            String::from_utf8_lossy(frame.as_bytes()).into_owned()
        }
        other => panic!("{other:?}"),
    });
    frames.collect()
}

#[test]
fn at_the_end_of_the_machine_who_may_not_be_there_is_told_so() {
    let mut world = persistent();
    world.join_managed(HAG, "hag", 7);
    world.join_managed(WICCA, "wicca", 8);
    world.keeps_at_once = false;
    world.send_as(WICCA, "wicca2", "<presence/>", Some(8));
    let told = told_at_the_end(&mut world, &["wicca", "wicca2"]);
    assert_eq!(told.len(), 1, "{told:?}");
    has(
        &told[0],
        &[
            WICCA,
            "/wicca2'",
            "type='unavailable'",
            "code='110'",
            "code='333'",
        ],
    );
}

/// What is being written says the same of a session as what is written: that it is there.
#[test]
fn at_the_end_of_the_machine_who_is_certainly_there_hears_nothing() {
    let mut world = persistent();
    world.join_managed(HAG, "hag", 7);
    world.keeps_at_once = false;
    let entry = "<presence><show>away</show></presence>";
    world.send_as(HAG, "hag", entry, Some(7));
    assert_eq!(told_at_the_end(&mut world, &["hag"]), [""; 0]);
}

/// The session that is kept under the nick is another one.
#[test]
fn at_the_end_of_the_machine_a_later_session_of_the_name_may_not_be_there() {
    let mut world = persistent();
    world.join_managed(HAG, "hag", 7);
    world.keeps_at_once = false;
    world.send_as(HAG, "hag", "<presence/>", Some(8));
    let told = told_at_the_end(&mut world, &["hag"]);
    assert_eq!(told.len(), 1, "{told:?}");
    has(&told[0], &[HAG, "/hag'", "code='333'"]);
}

/// That the first one has gone was not heard yet. Its successor was given what had been said to it.
#[test]
fn a_later_session_of_the_name_is_owed_what_is_said_from_its_entry_on() {
    let mut world = persistent();
    world.join_managed(HAG, "hag", 7);
    for (nick, number) in [("hag", 8), ("hag2", 9)] {
        world.send(CRONE, "", HI);
        world.here.clear();
        world.join_managed(HAG, nick, number);
        let told = world.room.told();
        assert_eq!(world.here, [(HAG.to_owned(), number, Some(told))]);
        assert_eq!(world.room.since(HAG), told);
        // The same one stays where it is.
        world.send(CRONE, "", HI);
        world.join_managed(HAG, nick, number);
        assert_eq!(world.room.since(HAG), told);
        assert_eq!(world.here.len(), 1);
    }
    world.restart();
    assert_eq!(world.room.since(HAG), world.room.told() - 1);
}

#[test]
fn what_was_refused_is_not_said_to_have_been_told() {
    let mut world = World::coven();
    world.configure(CRONE, &[("persistentroom", "1")]).unwrap();
    world.send(CRONE, "", HI);
    let told = world.room.told();
    world.decides = Some(false);
    world.refused(CRONE, "", HI);
    world.decides = Some(true);
    world.join_managed(HAG, "hag", 7);
    assert_eq!((world.room.told(), world.room.since(HAG)), (told, told));
}

#[test]
fn a_session_that_is_kept_under_two_nicks_is_there_once() {
    let mut world = persistent();
    world.join_managed(HAG, "hag", 7);
    let before = world.kept.clone();
    world.send_as(HAG, "hag2", "<presence/>", Some(7));
    // That the first nick is gone was not written.
    for (nick, value) in before {
        world.kept.insert(nick, value);
    }
    world.restart();
    assert_eq!(world.room.sessions(), 2, "hers and the owner's");
    leave(&mut world, HAG, 7);
    assert_eq!(world.room.sessions(), 1);
}

/// Two thousand who enter make two thousand records, whatever they are told of each other.
#[test]
fn what_is_kept_is_linear() {
    for clients in [Some(1), None] {
        let mut world = World::limited(|limits| limits.large_from = 16);
        world.join_managed(CRONE, "crone", 1);
        world.configure(CRONE, &[("persistentroom", "1")]).unwrap();
        world.keeps = 0;
        for n in 0..2_000 {
            let (who, nick) = (format!("u{n}@example.org/x"), format!("u{n}"));
            match clients {
                Some(number) => world.join_managed(&who, &nick, number),
                None => world.join(&who, &nick),
            }
            world.forget_mail();
        }
        // Of unmanaged ones only those of whom clients are told.
        let expected = if clients.is_some() { 2_000 } else { 14 };
        assert_eq!(world.keeps, expected);
    }
}
