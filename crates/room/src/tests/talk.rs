//! Sections 7.2.13 to 7.5, 7.8, 7.10, 7.12, 7.13, 8.1 and 6: talking, history, invitations,
//! registration, discovery; XEP-0359, 0410 and 0421.

use super::*;

const HI: &str = "<message type='groupchat' id='m1'><body>hi</body></message>";
const NS_USER: &str = "http://jabber.org/protocol/muc#user";

#[test]
fn a_message_is_sent_to_everybody_with_ids_that_last() {
    let mut world = World::coven();
    let forged = format!(
        "<message type='groupchat' id='m1' xml:lang='en'><body>hi</body>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='{ROOM}' id='forged'/>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='Coven@CHAT.example' id='forged'/>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='CRONE1@Example.ORG/desktop' id='forged'/>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='elsewhere' id='kept'/>\
         <occupant-id xmlns='urn:xmpp:occupant-id:0' id='forged'/>\
         <delay xmlns='urn:xmpp:delay' from='{ROOM}' stamp='2002-10-13T23:58:37Z'/>\
         <x xmlns='{NS_USER}'><status code='307'/></x></message>"
    );
    world.send(HAG, "", &forged);
    let mut ids = Vec::new();
    for who in [CRONE, WICCA, HAG] {
        let stanza = world.read_one(who);
        has(
            &stanza,
            &[
                "from='coven@chat.example/hag'",
                "id='m1'",
                "<body>hi</body>",
                "id='kept'",
            ],
        );
        has(
            &stanza,
            &["id='0000000000000001'", "xml:lang='en'", "<occupant-id "],
        );
        lacks(
            &stanza.replace(&format!("to='{HAG}'"), ""),
            &["forged", "307", "hag66", "delay"],
        );
        ids.push(
            stanza
                .split("urn:xmpp:occupant-id:0' ")
                .nth(1)
                .unwrap()
                .to_owned(),
        );
    }
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
    // The same person has the same id after coming back, another one has another.
    world.send(HAG, "hag", "<presence type='unavailable'/>");
    world.join(HAG, "other");
    world.forget_mail();
    world.send(HAG, "", HI);
    has(&world.read_one(HAG), &[&ids[0]]);
    world.forget_mail();
    world.send(WICCA, "", HI);
    lacks(&world.read_one(WICCA), &[&ids[0]]);
}

#[test]
fn who_is_not_there_or_has_no_voice_is_not_heard() {
    let mut world = World::coven();
    assert_eq!(world.refused(HECATE, "", HI), "not-acceptable/modify");
    world.configure(CRONE, &[("moderatedroom", "1")]).unwrap();
    world.join(HECATE, "hecate");
    has(&world.read(HECATE)[3], &["role='visitor'"]);
    assert_eq!(world.refused(HECATE, "", HI), "forbidden/auth");
    assert_eq!(World::new().refused(HAG, "", HI), "item-not-found/cancel");
    let chat = "<message type='chat'><body>hi</body></message>";
    assert_eq!(world.refused(HAG, "", chat), "bad-request/modify");
    assert_eq!(
        world.refused("no@example.org/one", "", chat),
        "not-acceptable/modify"
    );
}

#[test]
fn history_is_what_all_criteria_allow() {
    let mut world = World::coven();
    for minute in 0..5 {
        world.now = START + std::time::Duration::from_secs(minute * 60);
        let text = format!("<message type='groupchat'><body>at {minute}</body></message>");
        world.send(HAG, "", &text);
    }
    // What nobody needs later is not kept.
    let state = "<composing xmlns='http://jabber.org/protocol/chatstates'/>";
    world.send(
        HAG,
        "",
        &format!("<message type='groupchat'>{state}</message>"),
    );
    let mut ask = |wish: &str| {
        let join = format!(
            "<presence><x xmlns='http://jabber.org/protocol/muc'><history {wish}/></x></presence>"
        );
        world.forget_mail();
        world.send(HECATE, "hecate", &join);
        let mail = world.read(HECATE);
        let bodies = mail.iter().filter(|one| one.contains("<body>"));
        bodies.cloned().collect::<Vec<String>>()
    };
    let all = ask("");
    assert_eq!(all.len(), 5);
    has(
        &all[0],
        &[
            "at 0",
            "<delay ",
            "from='coven@chat.example'",
            "stamp='2001-09-09T01:46:40Z'",
        ],
    );
    lacks(&all[0], &["hag66"]);
    let chars = all[4].len() + all[3].len();
    assert_eq!(ask("maxstanzas='2'"), all[3..]);
    assert_eq!(ask("seconds='60'"), all[3..]);
    assert_eq!(ask("since='2001-09-09T01:49:40Z'"), all[3..]);
    assert_eq!(ask(&format!("maxchars='{chars}'")), all[3..]);
    assert_eq!(ask(&format!("maxchars='{}'", chars - 1)), all[4..]);
    assert_eq!(ask("maxchars='0'").len(), 0);
    assert_eq!(ask("maxstanzas='3' seconds='60'"), all[3..]);
    assert_eq!(ask("seconds='100' since='2001-09-09T01:46:40Z'"), all[3..]);
    assert_eq!(ask("since='yesterday' maxchars='-1'"), all);
}

#[test]
fn the_subject_is_set_by_those_who_may_and_shown_to_those_who_enter() {
    let mut world = World::coven();
    let subject = "<message type='groupchat'><subject>Fire Burn</subject></message>";
    assert_eq!(world.refused(HAG, "", subject), "forbidden/auth");
    world.send(CRONE, "", subject);
    let seen = world.read(HAG);
    has(
        &seen[0],
        &[
            "from='coven@chat.example/crone'",
            "<subject>Fire Burn</subject>",
        ],
    );
    world.join(HECATE, "hecate");
    has(
        world.read(HECATE).last().unwrap(),
        &["Fire Burn", "/crone'", "<delay "],
    );
    world.configure(CRONE, &[("changesubject", "1")]).unwrap();
    world.forget_mail();
    world.send(HAG, "", "<message type='groupchat'><subject/></message>");
    has(&world.read_one(HECATE), &["/hag'", "<subject/>"]);
    // With a body it is a message.
    world.configure(CRONE, &[("changesubject", "0")]).unwrap();
    world.forget_mail();
    let both = "<message type='groupchat'><subject>s</subject><body>b</body></message>";
    world.send(HAG, "", both);
    has(&world.read_one(HECATE), &["<body>b</body>"]);
}

#[test]
fn private_messages_go_from_nick_to_nick() {
    let mut world = World::coven();
    let pm = "<message type='chat' id='p'><body>psst</body></message>";
    world.send(HAG, "wicca", pm);
    let stanza = world.read_one(WICCA);
    has(
        &stanza,
        &[
            "from='coven@chat.example/hag'",
            "psst",
            "type='chat'",
            NS_USER,
        ],
    );
    lacks(&stanza, &["hag66"]);
    assert!(world.mail.is_empty());
    // What only the room may say does not pass here either.
    world.send(
        HAG,
        "wicca",
        &format!(
            "<message type='chat'><body>psst</body>\
             <stanza-id xmlns='urn:xmpp:sid:0' by='{ROOM}' id='forged'/>\
             <delay xmlns='urn:xmpp:delay' from='{ROOM}/wicca' stamp='2002-10-13T23:58:37Z'/>\
             <occupant-id xmlns='urn:xmpp:occupant-id:0' id='forged'/></message>"
        ),
    );
    lacks(&world.read_one(WICCA), &["forged", "delay"]);
    assert_eq!(world.refused(HAG, "nobody", pm), "item-not-found/cancel");
    assert_eq!(world.refused(HECATE, "hag", pm), "not-acceptable/modify");
    assert_eq!(world.refused(HAG, "wicca", HI), "bad-request/modify");
    for (allowed, hears) in [
        ("none", false),
        ("moderators", false),
        ("participants", true),
    ] {
        world.configure(CRONE, &[("allowpm", allowed)]).unwrap();
        world.forget_mail();
        world.send(HAG, "wicca", pm);
        assert_eq!(world.mail.contains_key(WICCA), hears, "{allowed}");
        assert_eq!(world.mail.contains_key(HAG), !hears, "{allowed}");
    }
}

#[test]
fn an_error_that_comes_back_says_who_is_gone() {
    let error = |condition: &str, kind: &str| {
        format!(
            "<{kind} type='error' id='p'><error type='cancel' by='hag66@example.org'>\
             <{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\
             <text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'>hag66@example.org is out</text>\
             </error></{kind}>"
        )
    };
    let mut world = World::coven();
    // The sender of a private message learns its fate, and nothing more.
    world.send(HAG, "wicca", &error("not-acceptable", "message"));
    let told = world.read_one(WICCA);
    has(
        &told,
        &[
            "from='coven@chat.example/hag'",
            "not-acceptable",
            "type='error'",
            "id='p'",
        ],
    );
    lacks(&told, &["hag66"]);
    assert!(world.room.has_session(HAG));
    world.forget_mail();
    world.send(HAG, "crone", &error("service-unavailable", "message"));
    has(
        &world.read_one(WICCA),
        &["/hag'", "unavailable", "code='333'"],
    );
    assert!(!world.room.has_session(HAG));
    world.send(WICCA, "", &error("recipient-unavailable", "presence"));
    assert!(!world.room.has_session(WICCA));
    // One who is not there is not answered.
    world.forget_mail();
    world.send(HECATE, "crone", &error("gone", "message"));
    assert!(world.mail.is_empty());
}

#[test]
fn requests_are_relayed_to_one_session_and_answered_by_it_alone() {
    let mut world = World::coven();
    world.join("hag66@example.org/phone", "hag");
    world.forget_mail();
    let version = "<iq type='get' id='v'><query xmlns='jabber:iq:version'/></iq>";
    world.send(WICCA, "hag", version);
    let asked = world.read_one(HAG);
    has(
        &asked,
        &["from='coven@chat.example/wicca'", "jabber:iq:version"],
    );
    lacks(&asked, &["wiccarocks"]);
    let id = asked
        .split("id='")
        .nth(1)
        .unwrap()
        .split('\'')
        .next()
        .unwrap()
        .to_owned();
    let result = format!("<iq type='result' id='{id}'><query xmlns='jabber:iq:version'/></iq>");
    for liar in [CRONE, "hag66@example.org/phone", HECATE] {
        world.send(liar, "wicca", &result);
        assert!(world.mail.is_empty(), "{liar} was not asked");
    }
    world.send(HAG, "wicca", &result);
    has(
        &world.read_one(WICCA),
        &["from='coven@chat.example/hag'", "id='v'", "type='result'"],
    );
    let refused = format!(
        "<iq type='error' id='{id}'><error type='cancel' by='hag66@example.org/pda'>\
         <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    );
    world.send(HAG, "wicca", &refused);
    let told = world.read_one(WICCA);
    has(&told, &["service-unavailable", "id='v'"]);
    lacks(&told, &["hag66"]);
    for nonsense in ["", "1", "1.x.y", "99.99.v"] {
        world.send(
            HAG,
            "wicca",
            &format!("<iq type='result' id='{nonsense}'/>"),
        );
    }
    assert!(world.mail.is_empty());
    // A vCard is asked of the account.
    world.send(
        WICCA,
        "hag",
        "<iq type='get' id='c'><vCard xmlns='vcard-temp'/></iq>",
    );
    let asked = world.read_one("hag66@example.org");
    let id = asked
        .split("id='")
        .nth(1)
        .unwrap()
        .split('\'')
        .next()
        .unwrap()
        .to_owned();
    world.send(
        "hag66@example.org",
        "wicca",
        &format!("<iq type='result' id='{id}'/>"),
    );
    has(
        &world.read_one(WICCA),
        &["from='coven@chat.example/hag'", "id='c'"],
    );
}

#[test]
fn a_ping_to_oneself_is_answered_by_the_room() {
    let mut world = World::coven();
    let ping = "<iq type='get' id='s'><ping xmlns='urn:xmpp:ping'/></iq>";
    world.send(HAG, "hag", ping);
    has(
        &world.read_one(HAG),
        &["type='result'", "from='coven@chat.example/hag'", "id='s'"],
    );
    assert_eq!(
        world.refused(HECATE, "hecate", ping),
        "not-acceptable/cancel"
    );
    assert_eq!(world.refused(HAG, "hagg", ping), "item-not-found/cancel");
    let disco = "<iq type='get' id='s'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>";
    assert_eq!(world.refused(HECATE, "hag", disco), "bad-request/modify");
    assert!(
        world
            .ask(HECATE, "get", "<ping xmlns='urn:xmpp:ping'/>")
            .is_ok()
    );
}

fn invite(to: &str, content: &str) -> String {
    format!("<message><x xmlns='{NS_USER}'><invite to='{to}'>{content}</invite></x></message>")
}

#[test]
fn invitations_go_by_the_room_and_so_does_their_refusal() {
    let mut world = World::coven();
    let reason = "<reason>Hey</reason><continue thread='t'/>";
    assert_eq!(
        world.refused(HECATE, "", &invite("x@y", "")),
        "not-acceptable/modify"
    );
    world.send(HAG, "", &invite("hecate@example.org", reason));
    let invitation = world.read_one("hecate@example.org");
    has(
        &invitation,
        &[
            "from='coven@chat.example'",
            "<invite from='coven@chat.example/hag'>",
        ],
    );
    has(
        &invitation,
        &["<reason>Hey</reason>", "<continue thread='t'/>"],
    );
    lacks(&invitation, &["hag66", "<password>"]);
    let decline = |to: &str| {
        format!(
            "<message><x xmlns='{NS_USER}'><decline to='{to}'><reason>No</reason></decline></x>\
             </message>"
        )
    };
    world.send(HECATE, "", &decline("coven@chat.example/hag"));
    has(
        &world.read_one(HAG),
        &["<decline from='hecate@example.org'><reason>No</reason>"],
    );
    world.send(HECATE, "", &decline("wiccarocks@example.org"));
    has(&world.read_one(WICCA), &["<decline "]);
    // Whether somebody of that address is there is nobody's business; a domain has invited nobody.
    world.forget_mail();
    for nobody in ["no@example.org", "example.org"] {
        world.send(HECATE, "", &decline(nobody));
        assert!(world.mail.is_empty(), "{:?}", world.mail);
    }
    assert_eq!(
        world.refused(HAG, "", &invite("a@b@c", "")),
        "jid-malformed/modify"
    );
    world
        .configure(CRONE, &[("allowinvites", "0"), ("roomsecret", "burn")])
        .unwrap();
    assert_eq!(world.refused(HAG, "", &invite("x@y", "")), "forbidden/auth");
    world.send(CRONE, "", &invite("x@y", ""));
    has(&world.read_one("x@y"), &["<password>burn</password>"]);
}

/// Section 7.8.2: the error comes from who was invited, or from whoever says so: it names nobody
/// but its sender.
#[test]
fn an_invitation_to_nobody_comes_back_to_who_sent_it() {
    let mut world = World::limited(|limits| limits.invitations_per_minute_max = 3);
    for (who, nick) in [(CRONE, "crone"), (HAG, "hag")] {
        world.join(who, nick);
    }
    let named = invite("no@example.org", "").replacen("<message>", "<message id='v.1'>", 1);
    world.send(HAG, "", &named);
    let sent = world.read_one("no@example.org");
    world.forget_mail();
    let id = sent.split("id='").nth(1).unwrap();
    let id = id.split('\'').next().unwrap();
    let error = |id: &str, condition: &str| {
        format!(
            "<message type='error' id='{id}'><error type='cancel'>\
             <{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
        )
    };
    world.send("no@example.org", "", &error(id, "service-unavailable"));
    let told = world.read_one(HAG);
    has(
        &told,
        &["type='error'", "id='v.1'", "<invite to='no@example.org'/>"],
    );
    has(&told, &["from='coven@chat.example'", "<item-not-found "]);
    // What is temporary, or no answer to an invitation, is dropped; and so is what is too much.
    for stranger in [
        error(id, "resource-constraint"),
        error("invite.7", "gone"),
        error("invite.x.y", "gone"),
        error("invite.99999.y", "gone"),
        error("v.1", "gone"),
    ] {
        world.send(HECATE, "", &stranger);
        assert!(world.mail.is_empty(), "{stranger}: {:?}", world.mail);
    }
    world.send(HECATE, "", &error(id, "gone"));
    has(&world.read_one(HAG), &["<invite to='hecate@example.org/"]);
    world.send(HECATE, "", &error(id, "gone"));
    assert!(world.mail.is_empty(), "{:?}", world.mail);
}

#[test]
fn an_invitation_to_a_members_only_room_makes_a_member() {
    let mut world = World::coven();
    world
        .admin(
            CRONE,
            "<item jid='hag66@example.org' affiliation='member'/>",
        )
        .unwrap();
    world
        .configure(CRONE, &[("membersonly", "1"), ("whois", "anyone")])
        .unwrap();
    assert_eq!(
        world.refused(HAG, "", &invite("hecate@example.org", "")),
        "forbidden/auth"
    );
    world.send(CRONE, "", &invite("hecate@example.org/broom", ""));
    has(
        &world.read_one(HECATE),
        &["<invite from='crone1@example.org'/>"],
    );
    world.join(HECATE, "hecate");
    assert!(world.room.has_session(HECATE));
}

#[test]
fn voice_is_asked_for_and_granted() {
    let mut world = World::coven();
    world.configure(CRONE, &[("moderatedroom", "1")]).unwrap();
    world.join(HECATE, "hecate");
    world.forget_mail();
    let request = voice(WANTED);
    world.send(HECATE, "", &request);
    let asked = world.read_one(CRONE);
    has(
        &asked,
        &[
            "muc#request_allow",
            "<value>hecate</value>",
            "hecate@example.org/broom",
        ],
    );
    assert!(world.mail.is_empty(), "moderators alone are asked");
    let grant = voice(
        "<field var='muc#request_allow'><value>true</value></field>\
         <field var='muc#jid'><value>hecate@example.org/broom</value></field>\
         <field var='muc#roomnick'><value>hecate</value></field>",
    );
    assert_eq!(world.refused(HECATE, "", &grant), "forbidden/auth");
    world.send(CRONE, "", &grant);
    has(
        &world.read_one(HECATE),
        &["role='participant'", "code='110'"],
    );
    has(&world.read_one(WICCA), &["/hecate'", "role='participant'"]);
    assert_eq!(world.refused(HECATE, "", &request), "bad-request/modify");
    world
        .configure(CRONE, &[("allowvoicerequests", "0")])
        .unwrap();
    assert_eq!(world.refused(HECATE, "", &request), "forbidden/auth");
}

/// Section 8.6: nicks change hands between a request and its approval.
#[test]
fn voice_goes_to_who_asked_for_it_whoever_has_the_nick() {
    for whois in ["moderators", "none"] {
        let mut world = World::coven();
        let fields = [("moderatedroom", "1"), ("whois", whois)];
        world.configure(CRONE, &fields).unwrap();
        // He has voice from before the room was moderated.
        world.send(HAG, "", "<presence type='unavailable'/>");
        for (who, nick) in [(HECATE, "hecate"), (HAG, "hag")] {
            world.join(who, nick);
        }
        world.forget_mail();
        world.send(HECATE, "", &voice(WANTED));
        let asked = world.read_one(CRONE);
        for (who, nick) in [(HECATE, "third"), (HAG, "hecate"), (HECATE, "hag")] {
            world.send(who, nick, "<presence/>");
        }
        world.forget_mail();
        world.send(CRONE, "", &voice(&granted(&asked, &[])));
        has(
            &world.read_one(HECATE),
            &["/hag'", "role='participant'", "code='110'"],
        );
        lacks(&world.read_one(HAG), &["code='110'"]);
        // A client may leave out what it was not shown, and then the address says who it was.
        for who in [HECATE, HAG] {
            world.send(who, "", "<presence type='unavailable'/>");
        }
        for (who, nick) in [(HECATE, "hecate"), (HAG, "hag")] {
            world.join(who, nick);
        }
        world.forget_mail();
        let without = voice(&granted(&asked, &["x-request_occupant"]));
        if whois == "none" {
            assert_eq!(world.refused(CRONE, "", &without), "bad-request/modify");
        } else {
            world.send(CRONE, "", &without);
            has(
                &world.read_one(HECATE),
                &["role='participant'", "code='110'"],
            );
        }
        world.forget_mail();
        // Nobody is named by a nick alone, nor by an address in a room that shows none.
        let nick = granted(&asked, &["x-request_occupant", "muc#jid"]);
        assert_eq!(
            world.refused(CRONE, "", &voice(&nick)),
            "bad-request/modify"
        );
        let address = format!("{nick}<field var='muc#jid'><value>{HAG}</value></field>");
        if whois == "none" {
            assert_eq!(
                world.refused(CRONE, "", &voice(&address)),
                "item-not-found/cancel"
            );
        }
        // Who has left is not there to be given anything.
        world.send(HECATE, "", "<presence type='unavailable'/>");
        world.forget_mail();
        assert_eq!(
            world.refused(CRONE, "", &voice(&granted(&asked, &[]))),
            "item-not-found/cancel"
        );
    }
}

const WANTED: &str = "<field var='muc#role'><value>participant</value></field>";

fn voice(fields: &str) -> String {
    format!(
        "<message><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>http://jabber.org/protocol/muc#request</value></field>{fields}</x></message>"
    )
}

/// The fields of a form that a moderator was sent, filled in, without some.
fn granted(asked: &str, without: &[&str]) -> String {
    let message = Frame::parse(asked).unwrap();
    let x = message.child("x", "jabber:x:data").unwrap();
    let shown = xmpp::form::shown(&Frame::parse(x.to_xml()).unwrap());
    let fields = shown
        .into_iter()
        .filter(|(name, _)| !without.contains(&name.as_str()));
    let fields = fields.map(|(name, values)| {
        let value = match name.as_str() {
            "muc#request_allow" => "1",
            _ => values.first().map_or("", String::as_str),
        };
        format!("<field var='{name}'><value>{value}</value></field>")
    });
    fields.collect()
}

#[test]
fn registration_makes_a_member_with_a_nick_of_his_own() {
    let mut world = World::coven();
    let register = |content: &str| format!("<query xmlns='jabber:iq:register'>{content}</query>");
    let with = |nick: &str| {
        register(&format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
             <value>http://jabber.org/protocol/muc#register</value></field>\
             <field var='muc#register_roomnick'><value>{nick}</value></field></x>"
        ))
    };
    let nick = "<query xmlns='http://jabber.org/protocol/disco#info' node='x-roomuser-item'/>";
    lacks(&world.ask(HECATE, "get", nick).unwrap(), &["identity"]);
    has(
        &world.ask(HECATE, "get", &register("")).unwrap(),
        &["muc#register_roomnick"],
    );
    assert_eq!(
        world.ask(HECATE, "set", &with("hag")).unwrap_err(),
        "conflict/cancel"
    );
    assert_eq!(
        world.ask(HECATE, "set", &with("")).unwrap_err(),
        "bad-request/modify"
    );
    world.ask(HECATE, "set", &with("Queen")).unwrap();
    has(&world.ask(HECATE, "get", nick).unwrap(), &["name='Queen'"]);
    has(
        &world.ask(HECATE, "get", &register("")).unwrap(),
        &["<registered/><username>Queen<"],
    );
    let join = "<presence><x xmlns='http://jabber.org/protocol/muc'/></presence>";
    assert_eq!(
        world.refused("no@example.org/x", "queen", join),
        "conflict/cancel"
    );
    assert_eq!(
        world.refused(HAG, "queen", "<presence/>"),
        "conflict/cancel"
    );
    assert_eq!(
        world.ask(HAG, "set", &with("Queen")).unwrap_err(),
        "conflict/cancel"
    );
    world.ask(HAG, "set", &with("hag")).unwrap();
    has(
        world.read(WICCA).last().unwrap(),
        &["/hag'", "affiliation='member'"],
    );
    world.ask(HAG, "set", &register("<remove/>")).unwrap();
    has(
        world.read(WICCA).last().unwrap(),
        &["/hag'", "affiliation='none'"],
    );
    assert_eq!(
        world.ask(WICCA, "set", &register("<remove/>")).unwrap_err(),
        "registration-required/auth"
    );
    world
        .admin(CRONE, "<item jid='x@example.org' affiliation='outcast'/>")
        .unwrap();
    assert_eq!(
        world
            .ask("x@example.org/1", "get", &register(""))
            .unwrap_err(),
        "not-allowed/cancel"
    );
    world.configure(CRONE, &[("membersonly", "1")]).unwrap();
    assert_eq!(
        world.ask(WICCA, "get", &register("")).unwrap_err(),
        "not-allowed/cancel"
    );
}

#[test]
fn the_room_tells_what_it_is() {
    let mut world = World::coven();
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    world
        .configure(CRONE, &[("roomname", "Cave"), ("roomdesc", "Dark")])
        .unwrap();
    let found = world.ask(HECATE, "get", info).unwrap();
    has(
        &found,
        &[
            "category='conference'",
            "name='Cave'",
            "muc_public",
            "muc_open",
            "muc_temporary",
        ],
    );
    has(
        &found,
        &[
            "muc_semianonymous",
            "muc_unsecured",
            "muc_unmoderated",
            "muc#stable_id",
        ],
    );
    has(
        &found,
        &[
            "muc#roominfo_occupants",
            "<value>3</value>",
            "<value>Dark</value>",
        ],
    );
    world
        .configure(CRONE, &[("roomsecret", "burn"), ("membersonly", "0")])
        .unwrap();
    let closed = world.ask(HECATE, "get", info).unwrap();
    has(&closed, &["muc_passwordprotected"]);
    lacks(&closed, &["muc#roominfo_occupants", "burn"]);
    // Whoever likes makes himself a member. That does not say the password.
    let form = "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
                <value>http://jabber.org/protocol/muc#register</value></field>\
                <field var='muc#register_roomnick'><value>hecate</value></field></x>";
    let register = format!("<query xmlns='jabber:iq:register'>{form}</query>");
    world.ask(HECATE, "set", &register).unwrap();
    let closed = world.ask(HECATE, "get", info).unwrap();
    lacks(&closed, &["muc#roominfo_occupants"]);
    let follow = [CRONE, HAG, HECATE].map(|who| world.room.may_follow(who));
    assert_eq!(follow, [true, true, false]);
    let items = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    lacks(&world.ask(HECATE, "get", items).unwrap(), &["<item"]);
    has(
        &world.ask(HAG, "get", items).unwrap(),
        &["jid='coven@chat.example/wicca'"],
    );
    assert_eq!(
        world.ask(HAG, "set", info).unwrap_err(),
        "not-allowed/cancel"
    );
    let node = "<query xmlns='http://jabber.org/protocol/disco#info' node='n'/>";
    assert_eq!(
        world.ask(HAG, "get", node).unwrap_err(),
        "item-not-found/cancel"
    );
    let unknown = "<query xmlns='urn:example:unknown'/>";
    assert_eq!(
        world.ask(HAG, "get", unknown).unwrap_err(),
        "service-unavailable/cancel"
    );
    assert_eq!(
        World::new().ask(HAG, "get", info).unwrap_err(),
        "item-not-found/cancel"
    );
}
