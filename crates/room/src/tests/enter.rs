//! Sections 7.1 to 7.3, 7.6, 7.7, 7.14 and 10.1: entering, changing, leaving.

use super::*;

const NS: &str = "http://jabber.org/protocol/muc";

fn join_with(content: &str) -> String {
    format!("<presence><x xmlns='{NS}'>{content}</x></presence>")
}

#[test]
fn whoever_enters_first_makes_the_room_and_owns_it() {
    let mut world = World::new();
    world.send(
        CRONE,
        "crone",
        &format!("<presence id='p1'><x xmlns='{NS}'/></presence>"),
    );
    let mail = world.read(CRONE);
    assert_eq!(mail.len(), 2, "{mail:#?}");
    has(
        &mail[0],
        &[
            "from='coven@chat.example/crone'",
            "id='p1'",
            "affiliation='owner'",
        ],
    );
    has(
        &mail[0],
        &[
            "role='moderator'",
            "code='110'",
            "code='201'",
            "<occupant-id ",
        ],
    );
    lacks(&mail[0], &["code='100'", &format!("xmlns='{NS}'")]);
    has(&mail[1], &["<subject/>", "type='groupchat'"]);
}

#[test]
fn who_may_not_create_is_refused() {
    let mut world = World::new();
    let frame = Frame::parse(join_with("")).unwrap();
    let frame = frame
        .edit()
        .set_attr("from", HAG)
        .set_attr("to", "coven@chat.example/x")
        .finish();
    assert!(world.event(Event::Stanza {
        frame,
        may_create: false,
        managed: None,
        named: None,
    }));
    assert_eq!(
        condition(&world.read_one(HAG)).unwrap(),
        "not-allowed/cancel"
    );
}

#[test]
fn a_locked_room_is_not_there_for_others() {
    let mut world = World::with(Options::default());
    world.join(CRONE, "crone");
    world.forget_mail();
    assert_eq!(
        world.refused(HAG, "hag", &join_with("")),
        "item-not-found/cancel"
    );
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    assert_eq!(
        world.ask(HAG, "get", info).unwrap_err(),
        "item-not-found/cancel"
    );
    // Whatever else somebody tries is answered as if there were no room.
    for (nick, stanza) in [
        ("", "<message type='groupchat'><body>x</body></message>"),
        ("", "<message><body>x</body></message>"),
        ("crone", "<message type='chat'><body>x</body></message>"),
        (
            "crone",
            "<iq type='get' id='q'><ping xmlns='urn:xmpp:ping'/></iq>",
        ),
        (
            "",
            "<iq type='get' id='q'><query xmlns='jabber:iq:register'/></iq>",
        ),
        ("hag", "<presence/>"),
    ] {
        let none = World::new().refused(HAG, nick, stanza);
        // XEP-0410: who pings himself is not there, which is said in a word of its own.
        let expected = match stanza.contains("urn:xmpp:ping") {
            true => "not-acceptable/cancel",
            false => "item-not-found/cancel",
        };
        assert_eq!(none, expected, "{stanza}");
        assert_eq!(world.refused(HAG, nick, stanza), none, "{stanza}");
    }
    assert!(world.mail.is_empty(), "{:?}", world.mail);
    world.configure(CRONE, &[]).unwrap();
    world.join(HAG, "hag");
    assert!(world.room.has_session(HAG));
}

#[test]
fn an_instant_room_takes_an_empty_form_and_is_given_up_with_cancel() {
    let mut world = World::with(Options::default());
    let owner = "<query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' ";
    world.join(CRONE, "crone");
    world
        .ask(CRONE, "set", &format!("{owner} type='submit'/></query>"))
        .unwrap();
    assert!(!world.room.state().unwrap().is_locked);
    // Later it means that nothing changes.
    world
        .ask(CRONE, "set", &format!("{owner} type='cancel'/></query>"))
        .unwrap();
    assert!(world.room.state().is_some());

    let mut world = World::with(Options::default());
    world.join(CRONE, "crone");
    world.forget_mail();
    world
        .ask(CRONE, "set", &format!("{owner} type='cancel'/></query>"))
        .unwrap();
    has(
        &world.read_one(CRONE),
        &["type='unavailable'", "role='none'"],
    );
    assert!(world.has_ended && world.room.state().is_none());
}

#[test]
fn those_present_come_first_then_oneself_then_the_subject() {
    let mut world = World::coven();
    world.join(HECATE, "hecate");
    let mail = world.read(HECATE);
    assert_eq!(mail.len(), 5, "{mail:#?}");
    for (stanza, nick) in mail.iter().zip(["crone", "wicca", "hag"]) {
        has(
            stanza,
            &[&format!("from='coven@chat.example/{nick}'"), "<item "],
        );
        lacks(stanza, &["code=", "jid="]);
    }
    has(
        &mail[3],
        &["/hecate'", "code='110'", "jid='hecate@example.org/broom'"],
    );
    has(&mail[4], &["<subject/>"]);
    // The owner is a moderator and sees who it is, the others do not (section 7.2.6).
    has(
        &world.read_one(CRONE),
        &["jid='hecate@example.org/broom'", "role='participant'"],
    );
    lacks(&world.read_one(HAG), &["hecate@example.org"]);
}

#[test]
fn a_nick_has_to_be_there_and_to_be_fit_to_be_shown() {
    let mut world = World::coven();
    assert_eq!(
        world.refused(HECATE, "", &join_with("")),
        "jid-malformed/modify"
    );
    assert_eq!(
        world.refused(HECATE, "\u{a0}", &join_with("")),
        "not-acceptable/modify"
    );
    world.join(HECATE, "old  hecate");
    let mail = world.read(HECATE);
    has(
        &mail[3],
        &["from='coven@chat.example/old hecate'", "code='210'"],
    );
}

#[test]
fn presence_without_the_element_is_not_an_entry() {
    let mut world = World::coven();
    assert_eq!(
        world.refused(HECATE, "hecate", "<presence/>"),
        "not-acceptable/modify"
    );
    let mut world = World::new();
    assert_eq!(
        world.refused(HECATE, "hecate", "<presence/>"),
        "item-not-found/cancel"
    );
}

#[test]
fn a_non_anonymous_room_says_so_and_shows_addresses_to_all() {
    let mut world = World::coven();
    world
        .configure(CRONE, &[("whois", "anyone"), ("enablelogging", "1")])
        .unwrap();
    world.forget_mail();
    world.join(HECATE, "hecate");
    let mail = world.read(HECATE);
    has(&mail[1], &["jid='wiccarocks@example.org/laptop'"]);
    has(&mail[3], &["code='100'", "code='110'", "code='170'"]);
    has(&world.read_one(HAG), &["jid='hecate@example.org/broom'"]);
}

#[test]
fn a_password_is_asked_for() {
    let mut world = World::coven();
    world
        .configure(
            CRONE,
            &[("passwordprotectedroom", "1"), ("roomsecret", "burn")],
        )
        .unwrap();
    for wish in ["", "<password/>", "<password>bum</password>"] {
        assert_eq!(
            world.refused(HECATE, "hecate", &join_with(wish)),
            "not-authorized/auth"
        );
    }
    world.send(HECATE, "hecate", &join_with("<password>burn</password>"));
    assert!(world.room.has_session(HECATE));
}

#[test]
fn members_only_rooms_and_bans_keep_people_out() {
    let mut world = World::coven();
    world.configure(CRONE, &[("membersonly", "1")]).unwrap();
    assert_eq!(
        world.refused(HECATE, "hecate", &join_with("")),
        "registration-required/auth"
    );
    world
        .admin(
            CRONE,
            "<item jid='hecate@example.org' affiliation='member'/>",
        )
        .unwrap();
    world.join(HECATE, "hecate");
    assert!(world.room.has_session(HECATE));
    world
        .admin(
            CRONE,
            "<item jid='hag66@example.org' affiliation='outcast'/>",
        )
        .unwrap();
    assert_eq!(world.refused(HAG, "hag", &join_with("")), "forbidden/auth");
    // A ban of a domain holds for all of it.
    world
        .admin(CRONE, "<item jid='evil.example' affiliation='outcast'/>")
        .unwrap();
    assert_eq!(
        world.refused("x@evil.example/y", "x", &join_with("")),
        "forbidden/auth"
    );
}

#[test]
fn a_nick_is_one_account_s_in_any_spelling() {
    let mut world = World::coven();
    assert_eq!(
        world.refused(HECATE, "HAG", &join_with("")),
        "conflict/cancel"
    );
    // Another session of the same account shares the nick.
    world.forget_mail();
    world.join("hag66@example.org/phone", "hag");
    let mail = world.read("hag66@example.org/phone");
    assert_eq!(mail.len(), 4, "{mail:#?}");
    has(&mail[2], &["/hag'", "code='110'"]);
    assert!(
        world.mail.is_empty(),
        "others see one occupant: {:?}",
        world.mail
    );
    world.send(
        CRONE,
        "",
        "<message type='groupchat'><body>hi</body></message>",
    );
    assert_eq!(world.read("hag66@example.org/phone").len(), 1);
    assert_eq!(world.read(HAG).len(), 1);
    world.forget_mail();
    // One leaves: only it is told; with the last one everybody is.
    world.send(
        "hag66@example.org/phone",
        "hag",
        "<presence type='unavailable'/>",
    );
    has(
        &world.read_one("hag66@example.org/phone"),
        &["unavailable", "code='110'"],
    );
    assert!(world.mail.is_empty());
    world.send(HAG, "hag", "<presence type='unavailable'/>");
    has(&world.read_one(WICCA), &["unavailable", "role='none'"]);
}

#[test]
fn the_presence_sent_last_is_shown() {
    let mut world = World::coven();
    world.join("hag66@example.org/phone", "hag");
    world.forget_mail();
    world.send(
        "hag66@example.org/phone",
        "hag",
        "<presence><show>away</show></presence>",
    );
    has(&world.read_one(WICCA), &["<show>away</show>", "/hag'"]);
    has(&world.read_one(CRONE), &["jid='hag66@example.org/phone'"]);
    has(&world.read_one(HAG), &["code='110'"]);
    world.forget_mail();
    world.send(
        "hag66@example.org/phone",
        "hag",
        "<presence type='unavailable'/>",
    );
    lacks(&world.read_one(WICCA), &["<show>", "unavailable"]);
}

#[test]
fn who_lost_track_is_sent_everything_once_more() {
    let mut world = World::coven();
    world.send(
        CRONE,
        "",
        "<message type='groupchat'><body>hi</body></message>",
    );
    world.forget_mail();
    world.join(HAG, "hag");
    let mail = world.read(HAG);
    assert_eq!(mail.len(), 5, "{mail:#?}");
    has(&mail[2], &["/hag'", "code='110'"]);
    has(&mail[3], &["<body>hi</body>", "<delay "]);
    assert!(
        world.mail.is_empty(),
        "nothing has changed for others: {:?}",
        world.mail
    );
}

#[test]
fn a_nick_is_changed_for_all_to_see() {
    let mut world = World::coven();
    world.send(HAG, "oldhag", "<presence id='n1'/>");
    let mail = world.read(WICCA);
    assert_eq!(mail.len(), 2, "{mail:#?}");
    has(
        &mail[0],
        &["/hag'", "unavailable", "nick='oldhag'", "code='303'"],
    );
    has(&mail[1], &["/oldhag'", "role='participant'"]);
    let own = world.read(HAG);
    has(&own[0], &["code='110'", "code='303'"]);
    has(&own[1], &["code='110'", "id='n1'"]);
    assert_eq!(
        world.refused(HAG, "wicca", "<presence/>"),
        "conflict/cancel"
    );
    world.send(HAG, "OldHag", "<presence/>");
    has(&world.read(WICCA)[1], &["/OldHag'"]);
}

/// By the element of those who enter a refusal says that its recipient is not there.
#[test]
fn a_refusal_says_whether_one_is_there() {
    let mut world = World::coven();
    world.join(HECATE, "wicca");
    let element = &["<x xmlns='http://jabber.org/protocol/muc'/>"];
    has(&world.read_one(HECATE), element);
    world.join(HAG, "wicca");
    let refusal = world.read_one(HAG);
    lacks(&refusal, element);
    assert_eq!(condition(&refusal).as_deref(), Some("conflict/cancel"));
}

#[test]
fn one_of_two_sessions_takes_another_nick() {
    let mut world = World::coven();
    let phone = "hag66@example.org/phone";
    world.join(phone, "hag");
    world.forget_mail();
    world.send(phone, "hag2", "<presence/>");
    has(&world.read_one(WICCA), &["/hag2'", "role='participant'"]);
    let own = world.read(phone);
    assert_eq!(own.len(), 3, "{own:#?}");
    has(&own[0], &["code='303'", "code='110'"]);
    has(&own[1], &["/hag2'", "code='110'"]);
    has(&own[2], &["/hag'"]);
    world.forget_mail();
    // And back to the one that the other session kept.
    world.send(phone, "hag", "<presence/>");
    has(&world.read_one(WICCA), &["/hag2'", "code='303'"]);
    assert_eq!(world.room.occupants(), 3);
}

#[test]
fn locked_nicks_are_given_and_kept() {
    let mut world = World::coven();
    let member = "<item jid='hecate@example.org' affiliation='member' nick='Queen'/>";
    world.admin(CRONE, member).unwrap();
    world.configure(CRONE, &[("locknicks", "1")]).unwrap();
    assert_eq!(
        world.refused(HAG, "Queen", "<presence/>"),
        "not-acceptable/cancel"
    );
    world.join(HECATE, "hecate");
    has(
        &world.read(HECATE)[3],
        &["/Queen'", "code='210'", "affiliation='member'"],
    );
    assert_eq!(
        world.refused(HECATE, "other", "<presence/>"),
        "not-acceptable/cancel"
    );
}

#[test]
fn a_last_word_is_passed_on_and_the_room_ends_with_its_last_occupant() {
    let mut world = World::coven();
    let word = "<presence type='unavailable'><status>gone where the goblins go</status></presence>";
    world.send(HAG, "hag", word);
    has(
        &world.read_one(WICCA),
        &[
            "goblins",
            "unavailable",
            "role='none'",
            "affiliation='none'",
        ],
    );
    has(&world.read_one(HAG), &["code='110'"]);
    world.event(Event::Gone {
        address: WICCA.into(),
    });
    has(
        world.read(CRONE).last().unwrap(),
        &["/wicca'", "unavailable"],
    );
    assert!(!world.has_ended);
    world.send(CRONE, "crone", "<presence type='unavailable'/>");
    assert!(world.has_ended && world.room.state().is_none());
    world.join(HAG, "hag");
    has(&world.read(HAG)[0], &["affiliation='owner'", "code='201'"]);
}

#[test]
fn the_service_says_when_it_ends() {
    let mut world = World::coven();
    world.event(Event::Shutdown);
    for who in [CRONE, WICCA, HAG] {
        has(
            &world.read_one(who),
            &["unavailable", "code='332'", "code='110'"],
        );
    }
    assert_eq!(world.room.sessions(), 0);
}
