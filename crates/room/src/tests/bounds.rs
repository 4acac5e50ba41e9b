//! Every bound of `RoomLimits`, reached.

use super::*;

const JOIN: &str = "<presence><x xmlns='http://jabber.org/protocol/muc'/></presence>";
const NS_USER: &str = "http://jabber.org/protocol/muc#user";

#[test]
fn a_full_room_takes_admins_only_and_not_all_of_them() {
    let mut world = World::limited(|limits| {
        limits.occupants_max = 2;
        limits.occupants_over_max = 1;
    });
    world.join(CRONE, "crone");
    for who in ["hecate@example.org", "wiccarocks@example.org"] {
        world
            .admin(CRONE, &format!("<item jid='{who}' affiliation='admin'/>"))
            .unwrap();
    }
    world.join(HAG, "hag");
    assert_eq!(
        world.refused("x@example.org/x", "x", JOIN),
        "service-unavailable/wait"
    );
    world.join(HECATE, "hecate");
    assert!(world.room.has_session(HECATE));
    assert_eq!(
        world.refused(WICCA, "wicca", JOIN),
        "service-unavailable/wait"
    );
    // A further session of one who is there is no further occupant, a nick of its own is one.
    world.join("hag66@example.org/phone", "hag");
    assert!(world.room.has_session("hag66@example.org/phone"));
    let split = world.refused("hag66@example.org/phone", "hag2", "<presence/>");
    assert_eq!(split, "service-unavailable/wait");
}

#[test]
fn a_room_of_its_own_limit_is_full_earlier() {
    let mut world = World::coven();
    world.configure(CRONE, &[("maxusers", "3")]).unwrap();
    assert_eq!(
        world.refused(HECATE, "hecate", JOIN),
        "service-unavailable/wait"
    );
}

#[test]
fn sessions_of_a_nick_are_bounded() {
    let mut world = World::limited(|limits| limits.sessions_per_nick_max = 1);
    world.join(CRONE, "crone");
    let refused = world.refused("crone1@example.org/2", "crone", JOIN);
    assert_eq!(refused, "resource-constraint/wait");
    world.join("crone1@example.org/2", "crone2");
    world.forget_mail();
    let refused = world.refused("crone1@example.org/2", "crone", "<presence/>");
    assert_eq!(refused, "resource-constraint/wait");
}

#[test]
fn nicks_and_presences_are_bounded() {
    let mut world = World::limited(|limits| {
        limits.nick_bytes_max = 4;
        limits.presence_bytes_max = 64;
    });
    assert_eq!(world.refused(CRONE, "crone", JOIN), "not-acceptable/modify");
    world.join(CRONE, "cron");
    let long = format!("<presence><status>{}</status></presence>", "x".repeat(64));
    assert_eq!(world.refused(CRONE, "cron", &long), "not-acceptable/modify");
    // Leaving is not refused; the last word is left out.
    let last = long.replace("<presence>", "<presence type='unavailable'>");
    world.send(CRONE, "cron", &last);
    lacks(&world.read_one(CRONE), &["xxx"]);
}

#[test]
fn affiliations_are_bounded_wherever_they_come_from() {
    let mut world = World::limited(|limits| limits.affiliations_max = 2);
    world.join(CRONE, "crone");
    world
        .admin(CRONE, "<item jid='a@b' affiliation='member'/>")
        .unwrap();
    let one_more = world.admin(CRONE, "<item jid='c@d' affiliation='outcast'/>");
    assert_eq!(one_more.unwrap_err(), "resource-constraint/wait");
    let owners = "crone1@example.org c@d";
    let form = world.configure(CRONE, &[("roomowners", owners)]);
    assert_eq!(form.unwrap_err(), "resource-constraint/wait");
    let register = "<query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'>\
        <field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#register</value></field>\
        <field var='muc#register_roomnick'><value>hag</value></field></x></query>";
    assert_eq!(
        world.ask(HAG, "set", register).unwrap_err(),
        "resource-constraint/wait"
    );
    world.configure(CRONE, &[("membersonly", "1")]).unwrap();
    let invite = format!("<message><x xmlns='{NS_USER}'><invite to='c@d'/></x></message>");
    assert_eq!(
        world.refused(CRONE, "", &invite),
        "resource-constraint/wait"
    );
    world
        .admin(CRONE, "<item jid='a@b' affiliation='none'/>")
        .unwrap();
    world
        .admin(CRONE, "<item jid='c@d' affiliation='outcast'/>")
        .unwrap();
}

#[test]
fn the_texts_of_affiliations_are_bounded() {
    // The owner's address has 18 bytes.
    let mut world = World::limited(|limits| limits.affiliation_bytes_max = 40);
    world.join(CRONE, "crone");
    let ban = |jid: &str, reason: &str| {
        format!("<item jid='{jid}' affiliation='outcast'><reason>{reason}</reason></item>")
    };
    world.admin(CRONE, &ban("a@b", "1234567890")).unwrap();
    for item in [ban("a@b", "12345678901234567890"), ban("c@d", "1234567")] {
        let found = world.admin(CRONE, &item);
        assert_eq!(found.unwrap_err(), "resource-constraint/wait", "{item}");
    }
    world.admin(CRONE, &ban("c@d", "123456")).unwrap();
    world.configure(CRONE, &[("membersonly", "1")]).unwrap();
    let invite = format!("<message><x xmlns='{NS_USER}'><invite to='e@f'/></x></message>");
    assert_eq!(
        world.refused(CRONE, "", &invite),
        "resource-constraint/wait"
    );
    let form = world.configure(CRONE, &[("roomadmins", "e@f")]);
    assert_eq!(form.unwrap_err(), "resource-constraint/wait");
    // What makes it less is always possible.
    world.admin(CRONE, &ban("a@b", "")).unwrap();
    world.send(CRONE, "", &invite);
    assert_eq!(world.read("e@f").len(), 1);
}

#[test]
fn items_of_a_request_are_bounded() {
    let mut world = World::limited(|limits| limits.items_max = 1);
    world.join(CRONE, "crone");
    let two = "<item jid='a@b' affiliation='member'/><item jid='c@d' affiliation='member'/>";
    assert_eq!(
        world.admin(CRONE, two).unwrap_err(),
        "not-acceptable/modify"
    );
}

#[test]
fn history_is_bounded_in_messages_and_bytes() {
    let hi = |text: &str| format!("<message type='groupchat'><body>{text}</body></message>");
    let mut world = World::limited(|limits| limits.history_max = 2);
    world.join(CRONE, "crone");
    for text in ["one", "two", "three"] {
        world.send(CRONE, "", &hi(text));
    }
    let kept = |world: &World| {
        let history = &world.room.state().unwrap().history;
        history
            .iter()
            .map(|kept| kept.message.seq)
            .collect::<Vec<u64>>()
    };
    assert_eq!(kept(&world), [2, 3]);
    world.configure(CRONE, &[("maxhistoryfetch", "1")]).unwrap();
    assert_eq!(kept(&world), [3]);
    let mut world = World::limited(|limits| limits.history_bytes_max = 1_000);
    world.join(CRONE, "crone");
    for text in ["x".repeat(500), "y".repeat(500), "z".repeat(2_000)] {
        world.send(CRONE, "", &hi(&text));
        assert!(kept(&world).len() <= 1);
    }
    assert_eq!(kept(&world), Vec::<u64>::new());
    assert_eq!(
        world
            .read(CRONE)
            .iter()
            .filter(|one| one.contains("<body>"))
            .count(),
        3
    );
}

#[test]
fn subjects_and_reasons_are_bounded() {
    let mut world = World::limited(|limits| {
        limits.subject_bytes_max = 300;
        limits.reason_bytes_max = 300;
    });
    world.join(CRONE, "crone");
    world.join(HAG, "hag");
    let long = "x".repeat(301);
    let subject = format!("<message type='groupchat'><subject>{long}</subject></message>");
    assert_eq!(world.refused(CRONE, "", &subject), "not-acceptable/modify");
    world.forget_mail();
    let kick = format!("<item nick='hag' role='none'><reason>{long}</reason></item>");
    world.admin(CRONE, &kick).unwrap();
    lacks(&world.read_one(HAG), &["<reason>"]);
}

#[test]
fn what_the_room_passes_on_has_a_budget() {
    let mut world = World::limited(|limits| {
        limits.invitations_per_minute_max = 2;
        limits.invitations_per_message_max = 1;
    });
    world.join(CRONE, "crone");
    world.forget_mail();
    let invite = format!("<message><x xmlns='{NS_USER}'><invite to='c@d'/></x></message>");
    let two = invite.replace("<invite to='c@d'/>", "<invite to='c@d'/><invite to='e@f'/>");
    assert_eq!(world.refused(CRONE, "", &two), "not-acceptable/modify");
    let decline = format!(
        "<message><x xmlns='{NS_USER}'><decline to='coven@chat.example/crone'/></x></message>"
    );
    for _ in 0..2 {
        world.send(CRONE, "", &invite);
        world.send(HECATE, "", &decline);
    }
    assert_eq!(
        world.refused(CRONE, "", &invite),
        "resource-constraint/wait"
    );
    assert_eq!(
        world.refused(HECATE, "", &decline),
        "resource-constraint/wait"
    );
    world.now = world.now + std::time::Duration::from_secs(60);
    world.forget_mail();
    world.send(CRONE, "", &invite);
    assert!(world.mail.contains_key("c@d"));
}

#[test]
fn requests_for_voice_have_a_budget() {
    let mut world = World::limited(|limits| limits.invitations_per_minute_max = 1);
    world.join(CRONE, "crone");
    world.configure(CRONE, &[("moderatedroom", "1")]).unwrap();
    world.join(HAG, "hag");
    let request = "<message><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
        <value>http://jabber.org/protocol/muc#request</value></field></x></message>";
    world.send(HAG, "", request);
    assert_eq!(world.refused(HAG, "", request), "resource-constraint/wait");
}

/// Section 6.5: who is there, page by page.
#[test]
fn a_page_of_occupants_is_bounded() {
    for by_bytes in [false, true] {
        let mut world = World::limited(|limits| match by_bytes {
            true => limits.page_bytes_max = 200,
            false => limits.page_entries_max = 2,
        });
        for (who, nick) in [(CRONE, "crone"), (WICCA, "wicca"), (HAG, "hag")] {
            world.join(who, nick);
        }
        let items = |set: &str| {
            format!("<query xmlns='http://jabber.org/protocol/disco#items'>{set}</query>")
        };
        let first = world.ask(HECATE, "get", &items("")).unwrap();
        assert_eq!(first.matches("<item ").count(), 2, "{first}");
        has(
            &first,
            &["<count>3</count>", "<last>coven@chat.example/wicca</last>"],
        );
        let more = "<set xmlns='http://jabber.org/protocol/rsm'>\
                    <after>coven@chat.example/wicca</after></set>";
        let second = world.ask(HECATE, "get", &items(more)).unwrap();
        has(&second, &["jid='coven@chat.example/hag'"]);
        assert_eq!(second.matches("<item ").count(), 1, "{second}");
        let bad = more.replace("after", "max");
        let refused = world.ask(HECATE, "get", &items(&bad)).unwrap_err();
        assert_eq!(refused, "bad-request/modify");
    }
}
