//! Sections 8 and 9: kick, voice, ban, members, moderators, lists.

use super::*;

#[test]
fn a_kick_is_seen_with_its_reason() {
    let mut world = World::coven();
    let kick = "<item nick='hag' role='none'><reason>Avaunt!</reason></item>";
    assert_eq!(world.admin(WICCA, kick).unwrap_err(), "forbidden/auth");
    assert_eq!(world.admin(HECATE, kick).unwrap_err(), "forbidden/auth");
    world.admin(CRONE, kick).unwrap();
    let own = world.read_one(HAG);
    has(
        &own,
        &[
            "unavailable",
            "role='none'",
            "code='307'",
            "code='110'",
            "Avaunt!",
        ],
    );
    has(&own, &["<actor nick='crone'/>"]);
    lacks(&own, &["crone1"]);
    has(
        &world.read_one(WICCA),
        &["/hag'", "code='307'", "affiliation='none'"],
    );
    assert_eq!(
        world.admin(CRONE, kick).unwrap_err(),
        "item-not-found/cancel"
    );
    world.join(HAG, "hag");
    assert!(world.room.has_session(HAG), "a kick is not a ban");
}

#[test]
fn voice_and_moderators_are_made_by_those_who_may() {
    let mut world = World::coven();
    world
        .admin(CRONE, "<item nick='wicca' role='moderator'/>")
        .unwrap();
    has(&world.read_one(HAG), &["/wicca'", "role='moderator'"]);
    // A new moderator of a semi-anonymous room learns who is who.
    let mail = world.read(WICCA);
    has(&mail[0], &["code='110'", "role='moderator'"]);
    has(&mail[2], &["/hag'", "jid='hag66@example.org/pda'"]);
    world
        .admin(WICCA, "<item nick='hag' role='visitor'/>")
        .unwrap();
    world
        .admin(WICCA, "<item nick='hag' role='participant'/>")
        .unwrap();
    let moderator = "<item nick='hag' role='moderator'/>";
    assert_eq!(world.admin(WICCA, moderator).unwrap_err(), "forbidden/auth");
    let crone = "<item nick='crone' role='none'/>";
    assert_eq!(world.admin(WICCA, crone).unwrap_err(), "not-allowed/cancel");
    let voice = "<item nick='crone' role='visitor'/>";
    assert_eq!(world.admin(WICCA, voice).unwrap_err(), "not-allowed/cancel");
    assert_eq!(world.admin(CRONE, voice).unwrap_err(), "not-allowed/cancel");
    world
        .admin(CRONE, "<item nick='wicca' role='participant'/>")
        .unwrap();
    assert_eq!(world.admin(WICCA, moderator).unwrap_err(), "forbidden/auth");
}

#[test]
fn a_ban_removes_and_keeps_out_every_session() {
    let mut world = World::coven();
    world.join("hag66@example.org/phone", "hagphone");
    world.forget_mail();
    let ban =
        "<item jid='hag66@example.org/any' affiliation='outcast'><reason>Treason</reason></item>";
    assert_eq!(world.admin(WICCA, ban).unwrap_err(), "forbidden/auth");
    world.admin(CRONE, ban).unwrap();
    has(
        &world.read(HAG)[0],
        &[
            "code='301'",
            "affiliation='outcast'",
            "role='none'",
            "Treason",
        ],
    );
    // They go together: neither sees the other go.
    let phone = world.read_one("hag66@example.org/phone");
    has(&phone, &["code='301'", "code='110'", "/hagphone'"]);
    assert_eq!(world.read(WICCA).len(), 2);
    let list = world.list(CRONE, "<item affiliation='outcast'/>").unwrap();
    has(&list, &["jid='hag66@example.org'", "Treason"]);
    let owner = "<item jid='crone1@example.org' affiliation='outcast'/>";
    assert_eq!(world.admin(CRONE, owner).unwrap_err(), "conflict/cancel");
    world
        .admin(
            CRONE,
            "<item jid='wiccarocks@example.org' affiliation='admin'/>",
        )
        .unwrap();
    assert_eq!(world.admin(WICCA, owner).unwrap_err(), "not-allowed/cancel");
    let own = "<item jid='wiccarocks@example.org' affiliation='outcast'/>";
    assert_eq!(world.admin(WICCA, own).unwrap_err(), "conflict/cancel");
    world
        .admin(WICCA, "<item jid='hag66@example.org' affiliation='none'/>")
        .unwrap();
    world.join(HAG, "hag");
    assert!(world.room.has_session(HAG));
}

#[test]
fn a_ban_may_name_a_nick_whose_address_nobody_knows() {
    let mut world = World::coven();
    world
        .admin(CRONE, "<item nick='hag' affiliation='outcast'/>")
        .unwrap();
    has(&world.read_one(HAG), &["code='301'"]);
    let unknown = "<item nick='hagg' affiliation='outcast'/>";
    assert_eq!(
        world.admin(CRONE, unknown).unwrap_err(),
        "item-not-found/cancel"
    );
}

#[test]
fn members_come_and_go() {
    let mut world = World::coven();
    let member = "<item jid='hag66@example.org' affiliation='member'><reason>r</reason></item>";
    world.admin(CRONE, member).unwrap();
    has(
        &world.read_one(HAG),
        &["affiliation='member'", "role='participant'", "<reason>r"],
    );
    world
        .admin(
            CRONE,
            "<item jid='wiccarocks@example.org' affiliation='member'/>",
        )
        .unwrap();
    world.configure(CRONE, &[("membersonly", "1")]).unwrap();
    world.forget_mail();
    world
        .admin(CRONE, "<item jid='hag66@example.org' affiliation='none'/>")
        .unwrap();
    has(
        &world.read_one(HAG),
        &["code='321'", "unavailable", "affiliation='none'"],
    );
    has(&world.read_one(WICCA), &["/hag'", "code='321'"]);
    // Of one who is not there only those learn who see addresses.
    world.forget_mail();
    world
        .admin(
            CRONE,
            "<item jid='hecate@example.org' affiliation='member'/>",
        )
        .unwrap();
    has(
        &world.read_one(CRONE),
        &["code='101'", "jid='hecate@example.org'", "role='none'"],
    );
    // She is invited, by whom she is not told.
    let invited = world.read_one("hecate@example.org");
    has(&invited, &["<invite from='coven@chat.example/crone'"]);
    assert!(world.mail.is_empty(), "{:?}", world.mail);
}

/// Section 9.5: an invitation for each, as far as the room may send some, and only to those who had
/// nothing to do with it.
#[test]
fn new_members_are_invited_within_bounds() {
    let mut world = World::limited(|limits| limits.invitations_per_minute_max = 2);
    world.join(CRONE, "crone");
    let member = |who: &str| format!("<item jid='{who}' affiliation='member'/>");
    world.admin(CRONE, &member("open@example.org")).unwrap();
    assert!(world.read("open@example.org").is_empty());
    let more = [("membersonly", "1"), ("roomsecret", "burn")];
    world.configure(CRONE, &more).unwrap();
    let three = ["a", "b", "c"].map(|name| member(&format!("{name}@example.org")));
    let items = format!("{}{}", member("example.net"), three.concat());
    world.admin(CRONE, &items).unwrap();
    has(
        &world.read_one("a@example.org"),
        &["<password>burn</password>"],
    );
    has(&world.read_one("b@example.org"), &["<invite "]);
    for nobody in ["c@example.org", "example.net"] {
        assert!(world.read(nobody).is_empty(), "{nobody}");
    }
    let list = world.list(CRONE, "<item affiliation='member'/>").unwrap();
    has(&list, &["c@example.org"]);
    // The minute is over: who is a member already, or is made more, hears nothing.
    world.now = Timestamp::from_millis(world.now.as_millis() + 60_000);
    world.admin(CRONE, &member("c@example.org")).unwrap();
    let admin = "<item jid='d@example.org' affiliation='admin'/>";
    world.admin(CRONE, admin).unwrap();
    assert!(world.read("c@example.org").is_empty() && world.read("d@example.org").is_empty());
}

/// Sections 8.2 and 9.8: by address, for those who are shown addresses.
#[test]
fn roles_are_given_by_address_to_who_is_there() {
    let mut world = World::coven();
    world.join("hag66@example.org/phone", "hagphone");
    world
        .admin(CRONE, "<item jid='HAG66@example.org/pda' role='visitor'/>")
        .unwrap();
    let list = world.list(CRONE, "<item role='visitor'/>").unwrap();
    has(&list, &["nick='hag'"]);
    lacks(&list, &["hagphone"]);
    for (item, expected) in [
        (
            "<item jid='hecate@example.org' role='visitor'/>",
            "item-not-found/cancel",
        ),
        (
            "<item jid='hag66@example.org/tv' role='visitor'/>",
            "item-not-found/cancel",
        ),
        ("<item jid='a@b@c' role='visitor'/>", "jid-malformed/modify"),
    ] {
        assert_eq!(world.admin(CRONE, item).unwrap_err(), expected, "{item}");
    }
    let both = "<item jid='hag66@example.org' role='none'/>";
    assert_eq!(world.admin(WICCA, both).unwrap_err(), "forbidden/auth");
    // In a room that shows nobody who is who, not even moderators find anybody by address.
    world.configure(CRONE, &[("whois", "none")]).unwrap();
    assert_eq!(
        world.admin(CRONE, both).unwrap_err(),
        "item-not-found/cancel"
    );
    world.configure(CRONE, &[("whois", "moderators")]).unwrap();
    world.admin(CRONE, both).unwrap();
    assert_eq!(world.room.occupants(), 2);
}

#[test]
fn owners_and_admins_are_made_by_owners_and_one_stays() {
    let mut world = World::coven();
    world
        .admin(
            CRONE,
            "<item jid='wiccarocks@example.org' affiliation='admin'/>",
        )
        .unwrap();
    has(
        &world.read_one(HAG),
        &["/wicca'", "affiliation='admin'", "role='moderator'"],
    );
    for affiliation in ["owner", "admin"] {
        let item = format!("<item jid='hag66@example.org' affiliation='{affiliation}'/>");
        assert_eq!(world.admin(WICCA, &item).unwrap_err(), "forbidden/auth");
    }
    let last = "<item jid='crone1@example.org' affiliation='admin'/>";
    assert_eq!(world.admin(CRONE, last).unwrap_err(), "conflict/cancel");
    // Both at once is not possible without an owner in between either.
    let both = format!("{last}<item jid='hag66@example.org' affiliation='owner'/>");
    world.admin(CRONE, &both).unwrap();
    let own = world
        .read(HAG)
        .into_iter()
        .find(|one| one.contains("code='110'"))
        .unwrap();
    has(&own, &["affiliation='owner'", "role='moderator'"]);
    assert_eq!(world.admin(CRONE, &both).unwrap_err(), "forbidden/auth");
}

#[test]
fn lists_are_for_those_who_may_see_them() {
    let mut world = World::coven();
    world
        .admin(
            CRONE,
            "<item jid='hecate@example.org' affiliation='member'/>",
        )
        .unwrap();
    let owners = "<item affiliation='owner'/>";
    has(
        &world.list(CRONE, owners).unwrap(),
        &["jid='crone1@example.org'"],
    );
    for item in [
        owners,
        "<item affiliation='member'/>",
        "<item affiliation='outcast'/>",
        "<item role='participant'/>",
        "<item role='moderator'/>",
    ] {
        assert_eq!(
            world.list(WICCA, item).unwrap_err(),
            "forbidden/auth",
            "{item}"
        );
        assert_eq!(
            world.list(HECATE, item).unwrap_err(),
            "forbidden/auth",
            "{item}"
        );
    }
    let voices = world.list(CRONE, "<item role='participant'/>").unwrap();
    has(
        &voices,
        &["nick='hag'", "jid='hag66@example.org/pda'", "nick='wicca'"],
    );
    has(
        &world.list(CRONE, "<item role='moderator'/>").unwrap(),
        &["nick='crone'"],
    );
    // A non-anonymous room shows lists to occupants, as far as it is configured to.
    world.configure(CRONE, &[("whois", "anyone")]).unwrap();
    has(&world.list(WICCA, owners).unwrap(), &["crone1@example.org"]);
    assert_eq!(world.list(HECATE, owners).unwrap_err(), "forbidden/auth");
    // Hecate is a member: of a members-only room she may know the others before she enters.
    let members = "<item affiliation='member'/>";
    assert_eq!(world.list(HECATE, members).unwrap_err(), "forbidden/auth");
    world.configure(CRONE, &[("membersonly", "1")]).unwrap();
    has(
        &world.list(HECATE, members).unwrap(),
        &["hecate@example.org"],
    );
    let outcasts = "<item affiliation='outcast'/>";
    assert_eq!(world.list(HECATE, outcasts).unwrap_err(), "forbidden/auth");
    world.configure(CRONE, &[("membersonly", "0")]).unwrap();
    for (who, nick) in [(WICCA, "wicca"), (HAG, "hag")] {
        world.join(who, nick);
    }
    assert_eq!(
        world
            .list(WICCA, "<item affiliation='outcast'/>")
            .unwrap_err(),
        "forbidden/auth"
    );
    world
        .configure(CRONE, &[("getmemberlist", "moderator")])
        .unwrap();
    assert_eq!(world.list(WICCA, owners).unwrap_err(), "forbidden/auth");
}

#[test]
fn a_request_that_means_nothing_changes_nothing() {
    let mut world = World::coven();
    for item in [
        "",
        "<item/>",
        "<item nick='hag'/>",
        "<item role='none'/>",
        "<item nick='hag' role='god'/>",
        "<item jid='x@y' affiliation='god'/>",
        "<item nick='hag' role='none' affiliation='outcast'/>",
        "<item affiliation='member'/>",
        "<item jid='x@y' affiliation='member'/><item jid='x@y' affiliation='admin'/>",
    ] {
        assert_eq!(
            world.admin(CRONE, item).unwrap_err(),
            "bad-request/modify",
            "{item}"
        );
    }
    let malformed = "<item jid='a@b@c' affiliation='member'/>";
    assert_eq!(
        world.admin(CRONE, malformed).unwrap_err(),
        "jid-malformed/modify"
    );
    for item in [
        "<item affiliation='none'/>",
        "<item role='none'/>",
        "<item role='x'/>",
    ] {
        assert_eq!(
            world.list(CRONE, item).unwrap_err(),
            "bad-request/modify",
            "{item}"
        );
    }
    // One bad item keeps all the others from being done.
    let mixed = "<item nick='hag' role='none'/><item nick='nobody' role='none'/>";
    assert_eq!(
        world.admin(CRONE, mixed).unwrap_err(),
        "item-not-found/cancel"
    );
    assert!(world.room.has_session(HAG));
    let nicks = "<item jid='x@y' affiliation='member' nick='n'/>\
                 <item jid='z@y' affiliation='member' nick='N'/>";
    assert_eq!(world.admin(CRONE, nicks).unwrap_err(), "conflict/cancel");
}

/// A ban of a domain, and a room that turns members-only: the copies are those of who goes and who
/// stays, not of everybody who goes for everybody else.
#[test]
fn a_crowd_goes_together() {
    for is_ban in [true, false] {
        let mut world = World::coven();
        for n in 0..50 {
            world.join(&format!("u{n}@elsewhere.example/r"), &format!("n{n}"));
        }
        world.forget_mail();
        if is_ban {
            let item = "<item affiliation='outcast' jid='elsewhere.example'/>";
            world.admin(CRONE, item).unwrap();
        } else {
            let member = "<item affiliation='member' jid='wiccarocks@example.org'/>\
                          <item affiliation='member' jid='hag66@example.org'/>";
            world.admin(CRONE, member).unwrap();
            world.forget_mail();
            world.configure(CRONE, &[("membersonly", "1")]).unwrap();
        }
        let code = if is_ban { "code='301'" } else { "code='322'" };
        for n in 0..50 {
            let own = world.read(&format!("u{n}@elsewhere.example/r"));
            assert_eq!(own.len(), 1, "{own:?}");
            has(
                &own[0],
                &["type='unavailable'", code, "code='110'", &format!("/n{n}'")],
            );
        }
        for who in [WICCA, HAG] {
            let mail = world.read(who);
            let gone = mail.iter().filter(|one| one.contains("type='unavailable'"));
            assert_eq!(gone.count(), 50);
            assert!(
                mail.iter()
                    .filter(|one| one.contains("unavailable"))
                    .all(|one| { one.contains(code) && !one.contains("u7@") })
            );
        }
        has(
            &world.read(CRONE).concat(),
            &["jid='u7@elsewhere.example/r'"],
        );
        assert_eq!(world.room.occupants(), 3);
    }
}
