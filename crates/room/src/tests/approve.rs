//! Registration that admins approve (XEP-0045 section 9.9).

use super::*;
use crate::{Affiliation, Config, Record};

const APPROVES: &str = "x-roomconfig_approvemembers";
const HAG_BARE: &str = "hag66@example.org";
const FORM_TYPE: &str = "<field var='FORM_TYPE'>\
    <value>http://jabber.org/protocol/muc#register</value></field>";

fn field(name: &str, value: &str) -> String {
    format!("<field var='{name}'><value>{value}</value></field>")
}

/// What somebody sends who wants to be a member.
fn registration(nick: &str) -> String {
    let nick = field("muc#register_roomnick", nick);
    format!(
        "<query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'>\
         {FORM_TYPE}{nick}</x></query>"
    )
}

/// What an admin sends back.
fn form(address: &str, nick: &str, allow: &str) -> String {
    let fields = [
        field("x-register_jid", address),
        field("muc#register_roomnick", nick),
        field("muc#register_allow", allow),
    ];
    let fields = fields.concat();
    format!("<message><x xmlns='jabber:x:data' type='submit'>{FORM_TYPE}{fields}</x></message>")
}

fn affiliation(world: &World, bare: &str) -> Affiliation {
    let state = world.room.state().expect("a room");
    state.affiliation(bare)
}

fn approving(fields: &[(&str, &str)]) -> World {
    let mut world = World::coven();
    let fields = [&[(APPROVES, "1")], fields].concat();
    world.configure(CRONE, &fields).unwrap();
    world.forget_mail();
    world
}

#[test]
fn section_9_9_who_registers_is_a_member_when_an_admin_says_so() {
    let mut world = approving(&[]);
    let admin = "<item jid='wiccarocks@example.org' affiliation='admin'/>";
    world.admin(CRONE, admin).unwrap();
    world.forget_mail();
    world.ask(HAG, "set", &registration("hag")).unwrap();
    assert_eq!(affiliation(&world, HAG_BARE), Affiliation::None);
    for who in ["crone1@example.org", "wiccarocks@example.org"] {
        let parts = [
            "type='form'",
            HAG_BARE,
            "<value>hag</value>",
            "muc#register_allow",
        ];
        has(&world.read_one(who), &parts);
    }
    assert!(world.mail.is_empty(), "{:?}", world.mail);
    // Not everybody decides, and a request that is refused makes nobody a member.
    assert_eq!(
        world.refused(HAG, "", &form(HAG_BARE, "hag", "1")),
        "forbidden/auth"
    );
    world.send(CRONE, "", &form(HAG_BARE, "hag", "0"));
    assert_eq!(affiliation(&world, HAG_BARE), Affiliation::None);
    world.send(WICCA, "", &form(HAG_BARE, "hag", "1"));
    assert_eq!(affiliation(&world, HAG_BARE), Affiliation::Member);
    let state = world.room.state().unwrap();
    assert_eq!(state.reserved_by("hag"), Some(HAG_BARE));
    // The other admin's form, later, changes nothing.
    world.forget_mail();
    let owner = "<item jid='hag66@example.org' affiliation='admin'/>";
    world.admin(CRONE, owner).unwrap();
    world.forget_mail();
    world.send(CRONE, "", &form(HAG_BARE, "other", "1"));
    assert_eq!(affiliation(&world, HAG_BARE), Affiliation::Admin);
    assert!(world.mail.is_empty(), "{:?}", world.mail);
    // Who is a member changes his nick without being approved again.
    world
        .ask(HAG, "set", &registration("crone of crones"))
        .unwrap();
    assert_eq!(
        world.room.state().unwrap().reserved_by("crone of crones"),
        Some(HAG_BARE)
    );
}

#[test]
fn a_room_for_members_takes_requests_if_its_admins_approve() {
    let mut world = World::coven();
    world.configure(CRONE, &[("membersonly", "1")]).unwrap();
    world.forget_mail();
    let refused = world.ask(HAG, "set", &registration("hag"));
    assert_eq!(refused.unwrap_err(), "not-allowed/cancel");
    let mut world = approving(&[("membersonly", "1")]);
    world.ask(HAG, "set", &registration("hag")).unwrap();
    world.forget_mail();
    world.send(CRONE, "", &form(HAG_BARE, "hag", "true"));
    // As whoever an admin makes a member there, he is invited.
    has(&world.read_one(HAG_BARE), &["<invite "]);
    world.join(HAG, "hag");
    // Nobody registers where the owner does not want it.
    let mut world = approving(&[("allowregister", "0")]);
    let refused = world.ask(HAG, "set", &registration("hag"));
    assert_eq!(refused.unwrap_err(), "not-allowed/cancel");
}

#[test]
fn forms_that_mean_nothing_are_refused() {
    let mut world = approving(&[]);
    let empty =
        format!("<message><x xmlns='jabber:x:data' type='submit'>{FORM_TYPE}</x></message>");
    for (stanza, expected) in [
        (empty, "bad-request/modify"),
        (form(HAG_BARE, "hag", "perhaps"), "bad-request/modify"),
        (form("a@b@c", "hag", "1"), "jid-malformed/modify"),
        (form(HAG_BARE, "", "1"), "not-acceptable/modify"),
        (form(HAG_BARE, "wiccarocks", "1"), "conflict/cancel"),
    ] {
        if expected.starts_with("conflict") {
            world.join(WICCA, "wiccarocks");
            world.forget_mail();
        }
        assert_eq!(world.refused(CRONE, "", &stanza), expected, "{stanza}");
    }
    // Who was banned meanwhile stays banned.
    let ban = "<item jid='hag66@example.org' affiliation='outcast'/>";
    world.admin(CRONE, ban).unwrap();
    world.send(CRONE, "", &form(HAG_BARE, "hag", "1"));
    assert_eq!(affiliation(&world, HAG_BARE), Affiliation::Outcast);
}

#[test]
fn so_many_are_asked_so_often() {
    let mut world = World::limited(|limits| {
        limits.approvers_max = 1;
        limits.invitations_per_minute_max = 2;
    });
    world.join(CRONE, "firstwitch");
    world.configure(CRONE, &[(APPROVES, "1")]).unwrap();
    let admin = "<item jid='wiccarocks@example.org' affiliation='admin'/>";
    world.admin(CRONE, admin).unwrap();
    world.forget_mail();
    for nick in ["one", "two"] {
        world.ask(HAG, "set", &registration(nick)).unwrap();
        // Owners come first.
        has(&world.read_one("crone1@example.org"), &[nick]);
        assert!(world.mail.is_empty(), "{:?}", world.mail);
    }
    let third = world.ask(HAG, "set", &registration("three"));
    assert_eq!(third.unwrap_err(), "resource-constraint/wait");
    assert!(world.mail.is_empty(), "{:?}", world.mail);
}

/// What was configured before there was the option is read.
#[test]
fn an_older_configuration_approves_nobody() {
    let config = Config {
        delivers_to_members: true,
        approves_members: true,
        ..Config::default()
    };
    let mut bytes = Record::Configured(Box::new(config.clone())).encode();
    let read = Record::decode(&bytes);
    assert_eq!(read, Ok(Record::Configured(Box::new(config.clone()))));
    bytes.pop();
    let mut before = Config {
        approves_members: false,
        ..config
    };
    let read = Record::decode(&bytes);
    assert_eq!(read, Ok(Record::Configured(Box::new(before.clone()))));
    bytes.pop();
    before.delivers_to_members = false;
    assert_eq!(
        Record::decode(&bytes),
        Ok(Record::Configured(Box::new(before)))
    );
}
