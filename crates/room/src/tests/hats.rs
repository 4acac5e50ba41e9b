//! XEP-0317: hats are made and given by owners, and shown to everybody; XEP-0050 as far as that
//! needs it.

use super::*;

const TA: &str = "http://tech.example.edu/hats#TeacherAssistant";

fn command(
    world: &mut World,
    who: &str,
    name: &str,
    fields: &[(&str, &str)],
) -> Result<String, String> {
    let fields: String = fields
        .iter()
        .map(|(name, value)| format!("<field var='{name}'><value>{value}</value></field>"))
        .collect();
    let command = format!(
        "<command xmlns='http://jabber.org/protocol/commands' node='urn:xmpp:hats:commands:{name}'>\
         <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>urn:xmpp:hats:commands</value></field>{fields}</x></command>"
    );
    world.ask(who, "set", &command)
}

fn world_with_a_hat() -> World {
    let mut world = World::coven();
    world.configure(CRONE, &[("persistentroom", "1")]).unwrap();
    let hat = [
        ("hats#uri", TA),
        ("hats#title", "Assistant"),
        ("hats#hue", "327.255"),
    ];
    command(&mut world, CRONE, "create", &hat).unwrap();
    let worn = [("hats#jid", "hag66@example.org/pda"), ("hats#uri", TA)];
    world.forget_mail();
    command(&mut world, CRONE, "assign", &worn).unwrap();
    world
}

#[test]
fn a_hat_is_shown_to_all_and_lasts() {
    let mut world = world_with_a_hat();
    let hat = format!(
        "<hats xmlns='urn:xmpp:hats:0'><hat uri='{TA}' title='Assistant' hue='327.255'/></hats>"
    );
    for who in [CRONE, WICCA, HAG] {
        has(&world.read_one(who), &["<presence ", "/hag'", &hat]);
    }
    // A hat of one's own making is none.
    let forged = "<presence><hats xmlns='urn:xmpp:hats:0'><hat uri='x:y' title='King'/></hats>\
                  <show>away</show></presence>";
    world.send(WICCA, "wicca", forged);
    lacks(&world.read_one(CRONE), &["King", "hats"]);
    world.restart();
    world.join(HECATE, "hecate");
    world.join(HAG, "hag");
    has(&world.read(HECATE).concat(), &[&hat]);
    // Who leaves has none.
    world.forget_mail();
    world.send(HAG, "hag", "<presence type='unavailable'/>");
    lacks(&world.read(HECATE).concat(), &["<hats"]);
}

#[test]
fn a_hat_is_taken_and_goes_with_its_making() {
    let mut world = world_with_a_hat();
    world.forget_mail();
    let worn = [("accountjid", "hag66@example.org"), ("hat", TA)];
    command(&mut world, CRONE, "doff", &worn).unwrap();
    lacks(&world.read_one(WICCA), &["<hats"]);
    let refused = command(&mut world, CRONE, "doff", &worn).unwrap_err();
    assert_eq!(refused, "item-not-found/cancel");
    world.forget_mail();
    command(&mut world, CRONE, "don", &worn).unwrap();
    has(&world.read_one(WICCA), &["<hats"]);
    // The same again changes nothing.
    world.forget_mail();
    let appends = world.appends;
    command(&mut world, CRONE, "don", &worn).unwrap();
    assert_eq!(world.appends, appends);
    world.forget_mail();
    command(&mut world, CRONE, "destroy", &[("hat", TA)]).unwrap();
    lacks(&world.read_one(WICCA), &["<hats"]);
    let refused = command(&mut world, CRONE, "assign", &worn).unwrap_err();
    assert_eq!(refused, "item-not-found/cancel");
}

#[test]
fn hats_and_whose_they_are_are_listed_for_owners() {
    let mut world = world_with_a_hat();
    let listed = command(&mut world, CRONE, "list", &[]).unwrap();
    has(
        &listed,
        &[
            "status='completed'",
            "<reported><field var='hats#uri' type='text-single'/>",
            &format!("<item><field var='hats#uri'><value>{TA}</value></field>"),
            "<field var='hats#title'><value>Assistant</value></field>",
        ],
    );
    let assigned = command(&mut world, CRONE, "list-assigned", &[]).unwrap();
    has(
        &assigned,
        &[
            "<item><field var='hats#jid'><value>hag66@example.org</value></field>",
            TA,
        ],
    );
    for name in [
        "create",
        "destroy",
        "list",
        "assign",
        "unassign",
        "list-assigned",
    ] {
        let refused = command(&mut world, HAG, name, &[("hat", TA)]).unwrap_err();
        assert_eq!(refused, "forbidden/auth", "{name}");
    }
    let items = "<query xmlns='http://jabber.org/protocol/disco#items' \
                 node='http://jabber.org/protocol/commands'/>";
    has(
        &world.ask(CRONE, "get", items).unwrap(),
        &["node='urn:xmpp:hats:commands:don'"],
    );
    lacks(&world.ask(HAG, "get", items).unwrap(), &["<item"]);
    let info = "<query xmlns='http://jabber.org/protocol/disco#info' \
                node='urn:xmpp:hats:commands:don'/>";
    has(
        &world.ask(CRONE, "get", info).unwrap(),
        &["type='command-node'"],
    );
    assert_eq!(
        world.ask(HAG, "get", info).unwrap_err(),
        "item-not-found/cancel"
    );
}

#[test]
fn a_form_is_asked_for_filled_in_or_put_away() {
    let mut world = world_with_a_hat();
    let step = |rest: &str| {
        format!(
            "<command xmlns='http://jabber.org/protocol/commands' \
             node='urn:xmpp:hats:commands:don' {rest}</command>"
        )
    };
    let form = world.ask(CRONE, "set", &step("action='execute'>")).unwrap();
    has(
        &form,
        &[
            "status='executing'",
            "<actions execute='complete'><complete/></actions>",
            "type='form'",
            &format!("<option label='Assistant'><value>{TA}</value></option>"),
        ],
    );
    let cancelled = world.ask(CRONE, "set", &step("sessionid='s' action='cancel'>"));
    has(&cancelled.unwrap(), &["status='canceled'", "sessionid='s'"]);
    for (rest, error) in [
        ("action='prev'>", "bad-request/modify"),
        ("action='dance'>", "bad-request/modify"),
        (
            "><x xmlns='jabber:x:data' type='submit'/>",
            "bad-request/modify",
        ),
        (
            "><x xmlns='jabber:x:data' type='form'/>",
            "bad-request/modify",
        ),
    ] {
        assert_eq!(
            world.ask(CRONE, "set", &step(rest)).unwrap_err(),
            error,
            "{rest}"
        );
    }
    let get = world.ask(CRONE, "get", &step(">")).unwrap_err();
    assert_eq!(get, "bad-request/modify");
    let unknown = command(&mut world, CRONE, "dance", &[]).unwrap_err();
    assert_eq!(unknown, "item-not-found/cancel");
    // As the document has it in its example of a removal.
    let doff = format!(
        "<command xmlns='http://jabber.org/protocol/commands' node='urn:xmpp:hats:commands:doff'>\
         <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>urn:xmpp:hats:commands</value></field><field var='accountjid'>\
         <value>hag66@example.org</value></field><field var='hat'><option label='A'>\
         <value>{TA}</value></option></field></x></command>"
    );
    has(
        &world.ask(CRONE, "set", &doff).unwrap(),
        &["status='completed'"],
    );
}

#[test]
fn hats_are_bounded() {
    let mut world = World::limited(|limits| {
        limits.hats_max = 2;
        limits.hats_worn_max = 2;
        limits.hat_text_bytes_max = 8;
        limits.hat_bytes_max = 60;
    });
    world.join(CRONE, "crone");
    let mut make = |uri: &str, title: &str, hue: &str| {
        let fields = [("hats#uri", uri), ("hats#title", title), ("hats#hue", hue)];
        command(&mut world, CRONE, "create", &fields).err()
    };
    assert_eq!(make("x:1", "one", ""), None);
    let unacceptable = Some("not-acceptable/modify".to_owned());
    assert_eq!(make("x:1234567", "one", ""), unacceptable);
    assert_eq!(make("x:2", "123456789", ""), unacceptable);
    for hue in ["red", "361", "-1", "NaN", "inf", "00000000000000001"] {
        assert_eq!(make("x:2", "two", hue), unacceptable, "{hue}");
    }
    assert_eq!(make("x:2", "", ""), Some("bad-request/modify".to_owned()));
    assert_eq!(make("x:2", "two", "12"), None);
    let full = Some("resource-constraint/wait".to_owned());
    assert_eq!(make("x:3", "three", ""), full);
    let mut give = |bare: &str| {
        let fields = [("hats#jid", bare), ("hats#uri", "x:1")];
        command(&mut world, CRONE, "assign", &fields).err()
    };
    let long = format!("{}@example.org", "a".repeat(40));
    assert_eq!(give(&long), full);
    assert_eq!(give("a@b@c"), Some("jid-malformed/modify".to_owned()));
    assert_eq!((give("a@b"), give("c@d"), give("e@f")), (None, None, full));
}
