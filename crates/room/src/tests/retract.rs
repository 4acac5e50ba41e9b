//! XEP-0424 and XEP-0425: what is taken back, by whom, and what is left of it.

use super::*;
use crate::Message;

const PERSISTENT: &[(&str, &str)] = &[("persistentroom", "1"), ("maxhistoryfetch", "2")];

fn say(world: &mut World, who: &str, text: &str) -> String {
    world.read(who);
    let stanza = format!(
        "<message type='groupchat' id='of-{text}'><body>{text}</body>\
         <origin-id xmlns='urn:xmpp:sid:0' id='o-{text}'/><oob xmlns='urn:x'>{text}</oob></message>"
    );
    world.send(who, "", &stanza);
    let sent = world.read(who).pop().expect("his message");
    world.forget_mail();
    let (_, id) = sent.split_once("<stanza-id ").expect("an id");
    let (_, id) = id.split_once(" id='").expect("an id");
    id[..16].to_owned()
}

fn moderate(world: &mut World, who: &str, id: &str) -> Result<String, String> {
    let payload = format!(
        "<moderate xmlns='urn:xmpp:message-moderate:1' id='{id}'>\
         <retract xmlns='urn:xmpp:message-retract:1'/><reason>no &amp; no</reason></moderate>"
    );
    world.ask(who, "set", &payload)
}

fn retraction(id: &str) -> String {
    format!(
        "<message type='groupchat' id='r'><retract xmlns='urn:xmpp:message-retract:1' id='{id}'/>\
         <body>taken back</body></message>"
    )
}

/// What the journal has at a place of the log.
fn logged(world: &World, id: &str) -> String {
    let mut found = String::new();
    for record in &world.journal {
        let (seq, xml) = match record {
            Record::Message(Message { seq, xml, .. }) | Record::Retracted { seq, xml } => {
                (seq, xml)
            }
            _ => continue,
        };
        if crate::stanza_id(*seq) == id {
            found = String::from_utf8(xml.clone()).unwrap();
        }
    }
    found
}

#[test]
fn a_moderator_retracts_a_message_and_a_tombstone_is_left() {
    let mut world = World::coven();
    world.configure(CRONE, PERSISTENT).unwrap();
    let id = say(&mut world, HAG, "magic");
    moderate(&mut world, CRONE, &id).unwrap();
    for who in [CRONE, WICCA, HAG] {
        let told = world.read_one(who);
        has(
            &told,
            &[
                "<message from='coven@chat.example' type='groupchat' id=",
                &format!("<retract xmlns='urn:xmpp:message-retract:1' id='{id}'><moderated"),
                "by='coven@chat.example/crone'><occupant-id ",
                "</moderated><reason>no &amp; no</reason></retract>",
                "<stanza-id xmlns='urn:xmpp:sid:0' by='coven@chat.example'",
            ],
        );
        lacks(&told.replace(who, ""), &["crone1", "hag66"]);
    }
    let left = logged(&world, &id);
    has(
        &left,
        &[
            "from='coven@chat.example/hag'",
            "id='of-magic'",
            "id='o-magic'",
            "<occupant-id ",
            "<retracted xmlns='urn:xmpp:message-retract:1' id='0000000000000002' stamp='2001-",
            "<moderated xmlns='urn:xmpp:message-moderate:1' by='coven@chat.example/crone'>",
            "<reason>no &amp; no</reason></retracted>",
        ],
    );
    lacks(&left, &["<body", "urn:x'", ">magic<", "hag66"]);
    // Whoever enters later is not sent it, and once is enough.
    world.forget_mail();
    world.join(HECATE, "hecate");
    let mail = world.read(HECATE).concat();
    has(&mail, &["<retracted ", "<retract "]);
    lacks(&mail, &[">magic<"]);
    world.forget_mail();
    moderate(&mut world, CRONE, &id).unwrap();
    assert!(world.mail.is_empty(), "{:?}", world.mail);
    world.restart();
    world.join(HECATE, "hecate");
    lacks(&world.read(HECATE).concat(), &[">magic<"]);
}

#[test]
fn who_may_not_moderate_and_what_is_no_message_is_refused() {
    let mut world = World::coven();
    world.configure(CRONE, PERSISTENT).unwrap();
    let id = say(&mut world, HAG, "magic");
    for who in [HAG, WICCA, HECATE] {
        assert_eq!(
            moderate(&mut world, who, &id).unwrap_err(),
            "forbidden/auth"
        );
    }
    let beyond = format!("{:016x}", 77);
    for unknown in [
        "0",
        "",
        "0000000000000000",
        &beyond,
        "of-magic",
        "+000000000000001",
    ] {
        assert_eq!(
            moderate(&mut world, CRONE, unknown).unwrap_err(),
            "item-not-found/cancel",
            "{unknown}"
        );
    }
    for broken in [
        "<moderate xmlns='urn:xmpp:message-moderate:1' id='0000000000000001'/>",
        "<moderate xmlns='urn:xmpp:message-moderate:1'><retract \
         xmlns='urn:xmpp:message-retract:1'/></moderate>",
        "<moderate xmlns='urn:xmpp:message-moderate:1' id='0000000000000001'><retract/></moderate>",
    ] {
        let refused = world.ask(CRONE, "set", broken).unwrap_err();
        assert_eq!(refused, "bad-request/modify", "{broken}");
    }
    has(&logged(&world, &id), &[">magic<"]);
    // What the room said of it is nobody's message.
    moderate(&mut world, CRONE, &id).unwrap();
    let refused = moderate(&mut world, CRONE, "0000000000000002").unwrap_err();
    assert_eq!(refused, "not-acceptable/modify");
}

#[test]
fn an_author_takes_back_his_own_message_and_no_other() {
    let mut world = World::coven();
    world.configure(CRONE, PERSISTENT).unwrap();
    let id = say(&mut world, HAG, "magic");
    world.send(WICCA, "", &retraction(&id));
    has(&world.read_one(HAG), &["<retract ", "/wicca'"]);
    has(&logged(&world, &id), &[">magic<"]);
    world.forget_mail();
    // Under another nick he is still the author.
    world.send(HAG, "crow", "<presence/>");
    world.forget_mail();
    world.send(HAG, "", &retraction(&id));
    has(
        &world.read_one(WICCA),
        &["<retract ", "taken back", "/crow'"],
    );
    let left = logged(&world, &id);
    has(&left, &["<retracted ", "id='r'", "/hag'"]);
    lacks(&left, &[">magic<", "<moderated"]);
    // What he said in taking it back can be moderated, and still says what was taken back.
    moderate(&mut world, CRONE, "0000000000000003").unwrap();
    let left = logged(&world, "0000000000000003");
    let retract = format!("<retract xmlns='urn:xmpp:message-retract:1' id='{id}'/>");
    has(&left, &[&retract, "<moderated "]);
    lacks(&left, &["taken back"]);
}

#[test]
fn a_message_that_is_not_in_memory_is_asked_for() {
    let mut world = World::coven();
    world.configure(CRONE, PERSISTENT).unwrap();
    let id = say(&mut world, HAG, "magic");
    for text in ["a", "b", "c"] {
        say(&mut world, WICCA, text);
    }
    let stanza = |who: &str, stanza: &str| {
        let frame = Frame::parse(stanza).unwrap();
        let frame = frame.edit().set_attr("from", who).set_attr("to", ROOM);
        frame.finish()
    };
    let request = format!(
        "<iq type='set' id='q'><moderate xmlns='urn:xmpp:message-moderate:1' id='{id}'>\
         <retract xmlns='urn:xmpp:message-retract:1'/></moderate></iq>"
    );
    let request = |who| stanza(who, &request);
    // Those who may do nothing with it make nobody read.
    assert_eq!(world.room.names(&request(CRONE)), Some(1));
    assert_eq!(world.room.names(&request(HAG)), None);
    assert_eq!(world.room.names(&stanza(HAG, &retraction(&id))), Some(1));
    assert_eq!(world.room.names(&stanza(HECATE, &retraction(&id))), None);
    let recent = stanza(HAG, &retraction("0000000000000004"));
    assert_eq!(world.room.names(&recent), None);
    let mut give = |named: Option<Message>| {
        assert!(world.event(Event::Stanza {
            frame: request(CRONE),
            may_create: false,
            managed: None,
            named: named.map(Box::new),
        }));
        world.read(CRONE).concat()
    };
    has(&give(None), &["item-not-found"]);
    let named = Message {
        seq: 1,
        at: 0,
        sender: "hag66@example.org".to_owned(),
        xml: b"<message from='coven@chat.example/hag'><body>magic</body></message>".to_vec(),
    };
    has(&give(Some(named)), &["type='result'", "<retract "]);
    has(&logged(&world, &id), &["<retracted "]);
}

#[test]
fn a_temporary_room_has_no_log_and_passes_it_on() {
    let mut world = World::coven();
    world.configure(CRONE, &[("maxhistoryfetch", "1")]).unwrap();
    let id = say(&mut world, HAG, "magic");
    say(&mut world, HAG, "more");
    moderate(&mut world, CRONE, &id).unwrap();
    has(&world.read_one(HAG), &["<moderated ", &id]);
    assert!(world.journal.is_empty());
    let unknown = moderate(&mut world, CRONE, "0000000000000009").unwrap_err();
    assert_eq!(unknown, "item-not-found/cancel");
}

#[test]
fn what_only_the_room_may_say_of_it_is_removed() {
    let mut world = World::coven();
    let forged = "<message type='groupchat' id='f'><body>b</body>\
        <retract xmlns='urn:xmpp:message-retract:1' id='1'><moderated \
        xmlns='urn:xmpp:message-moderate:1' by='coven@chat.example/crone'/></retract>\
        <retracted xmlns='urn:xmpp:message-retract:1' by='x'/>\
        <moderated xmlns='urn:xmpp:message-moderate:1'/></message>";
    world.send(HAG, "", forged);
    lacks(&world.read_one(CRONE), &["moderated", "retract"]);
}

#[test]
fn a_change_that_fails_has_taken_nothing_back() {
    let mut world = World::coven();
    world.configure(CRONE, PERSISTENT).unwrap();
    let id = say(&mut world, HAG, "magic");
    world.decides = Some(false);
    let refused = moderate(&mut world, CRONE, &id).unwrap_err();
    assert_eq!(refused, "resource-constraint/wait");
    assert!(world.mail.is_empty());
    world.decides = Some(true);
    world.join(HECATE, "hecate");
    has(&world.read(HECATE).concat(), &[">magic<"]);
}
