//! Section 10: configuration with its effects, destruction.

use super::*;

const OWNER: &str = "http://jabber.org/protocol/muc#owner";

#[test]
fn the_form_is_for_owners() {
    let mut world = World::coven();
    let get = format!("<query xmlns='{OWNER}'/>");
    assert_eq!(world.ask(WICCA, "get", &get).unwrap_err(), "forbidden/auth");
    let form = world.ask(CRONE, "get", &get).unwrap();
    has(
        &form,
        &[
            "muc#roomconfig_roomname",
            "muc#roomconfig_roomowners",
            "crone1@example.org",
        ],
    );
    assert_eq!(world.configure(WICCA, &[]).unwrap_err(), "forbidden/auth");
    let bad = world.configure(CRONE, &[("whois", "x")]);
    assert_eq!(bad.unwrap_err(), "not-acceptable/modify");
    for payload in [
        "",
        "<x xmlns='urn:other'/>",
        "<x xmlns='jabber:x:data' type='form'/>",
    ] {
        let set = format!("<query xmlns='{OWNER}'>{payload}</query>");
        assert_eq!(
            world.ask(CRONE, "set", &set).unwrap_err(),
            "bad-request/modify"
        );
    }
}

#[test]
fn those_present_are_told_what_changed() {
    let mut world = World::coven();
    for (field, value, code) in [
        ("enablelogging", "1", "170"),
        ("enablelogging", "0", "171"),
        ("whois", "anyone", "172"),
        ("whois", "moderators", "173"),
        ("whois", "none", "174"),
        ("presencebroadcast", "moderator participant", "104"),
        ("roomname", "New", "104"),
    ] {
        world.forget_mail();
        world.configure(CRONE, &[(field, value)]).unwrap();
        let told = world.read_one(HAG);
        has(
            &told,
            &[
                "type='groupchat'",
                "from='coven@chat.example'",
                &format!("code='{code}'"),
            ],
        );
        assert_eq!(told.matches("<status").count(), 1, "{told}");
    }
    world.forget_mail();
    world.configure(CRONE, &[("roomname", "New")]).unwrap();
    assert!(world.mail.is_empty(), "nothing has changed");
}

#[test]
fn a_room_that_becomes_members_only_removes_the_others() {
    let mut world = World::coven();
    world
        .admin(
            CRONE,
            "<item jid='wiccarocks@example.org' affiliation='member'/>",
        )
        .unwrap();
    world.forget_mail();
    world.configure(CRONE, &[("membersonly", "1")]).unwrap();
    has(
        &world.read(HAG)[0],
        &["unavailable", "code='322'", "role='none'"],
    );
    has(&world.read(WICCA)[0], &["/hag'", "code='322'"]);
    assert!(world.room.has_session(WICCA) && !world.room.has_session(HAG));
}

#[test]
fn the_form_makes_admins_and_owners() {
    let mut world = World::coven();
    world
        .configure(CRONE, &[("roomadmins", "hag66@example.org")])
        .unwrap();
    has(
        &world.read_one(WICCA),
        &["/hag'", "affiliation='admin'", "role='moderator'"],
    );
    for owners in ["", "wiccarocks@example.org"] {
        let refused = world.configure(CRONE, &[("roomowners", owners)]);
        assert_eq!(refused.unwrap_err(), "conflict/cancel", "{owners}");
    }
    let both = "crone1@example.org wiccarocks@example.org";
    world
        .configure(CRONE, &[("roomowners", both), ("roomadmins", "")])
        .unwrap();
    let list = world.list(CRONE, "<item affiliation='owner'/>").unwrap();
    has(&list, &["crone1@example.org", "wiccarocks@example.org"]);
    lacks(
        &world.list(CRONE, "<item affiliation='admin'/>").unwrap(),
        &["<item"],
    );
}

#[test]
fn presence_of_roles_can_be_hidden_and_shown_again() {
    let mut world = World::coven();
    world
        .configure(CRONE, &[("presencebroadcast", "moderator")])
        .unwrap();
    let seen = world.read(WICCA);
    assert!(
        seen.iter()
            .any(|one| one.contains("/hag'") && one.contains("unavailable"))
    );
    world.join(HECATE, "hecate");
    let list = world.read(HECATE);
    assert_eq!(list.len(), 3, "{list:#?}");
    has(&list[0], &["/crone'"]);
    has(&list[1], &["/hecate'", "code='110'"]);
    world.forget_mail();
    world
        .admin(CRONE, "<item nick='hecate' role='moderator'/>")
        .unwrap();
    has(&world.read_one(WICCA), &["/hecate'", "role='moderator'"]);
    world
        .admin(CRONE, "<item nick='hecate' role='participant'/>")
        .unwrap();
    has(&world.read_one(WICCA), &["/hecate'", "unavailable"]);
    world
        .configure(CRONE, &[("presencebroadcast", "moderator participant")])
        .unwrap();
    assert!(world.read(WICCA).iter().any(|one| one.contains("/hecate'")));
}

#[test]
fn destruction_names_the_other_venue() {
    let mut world = World::coven();
    let destroy = format!(
        "<query xmlns='{OWNER}'><destroy jid='heath@chat.example'><reason>Macbeth</reason>\
         <password>open</password></destroy></query>"
    );
    assert_eq!(
        world.ask(WICCA, "set", &destroy).unwrap_err(),
        "forbidden/auth"
    );
    let malformed = destroy.replace("heath@", "a@b@");
    assert_eq!(
        world.ask(CRONE, "set", &malformed).unwrap_err(),
        "jid-malformed/modify"
    );
    world.ask(CRONE, "set", &destroy).unwrap();
    for (who, nick) in [(WICCA, "wicca"), (HAG, "hag"), (CRONE, "crone")] {
        let told = world.read_one(who);
        has(
            &told,
            &[
                &format!("/{nick}'"),
                "unavailable",
                "affiliation='none'",
                "role='none'",
            ],
        );
        has(
            &told,
            &["<destroy jid='heath@chat.example'><reason>Macbeth</reason>"],
        );
        has(&told, &["<password>open</password>"]);
    }
    assert!(world.has_ended && world.room.state().is_none());
}
