//! XEP-0163: the service that every account is.

use super::*;
use crate::AccessModel;

const TUNE: &str = "http://jabber.org/protocol/tune";
const OWN: &str = "juliet@capulet.example/balcony";
const CHAMBER: &str = "juliet@capulet.example/chamber";
const ROMEO: &str = "romeo@montague.example/orchard";
const NURSE: &str = "nurse@capulet.example/kitchen";
const TYBALT: &str = "tybalt@capulet.example/street";

/// Everybody is online and interested in the node.
fn everybody(world: &mut World, node: &str) {
    for session in [OWN, CHAMBER, ROMEO, NURSE, TYBALT] {
        let nodes = world.roster.sessions.entry(session.to_owned()).or_default();
        nodes.insert(node.to_owned());
    }
}

/// Who was told, and nothing else.
fn told(world: &mut World) -> Vec<String> {
    world.mail.retain(|_, mail| {
        mail.retain(|one| one.contains("pubsub#event"));
        !mail.is_empty()
    });
    let mail = std::mem::take(&mut world.mail);
    assert!(mail.values().all(|mail| mail.len() == 1), "{mail:#?}");
    mail.into_keys().collect()
}

#[test]
fn section_3_a_publication_makes_the_node_and_tells_who_sees_presence() {
    let mut world = World::account();
    everybody(&mut world, TUNE);
    world.publish_at(OWN, TUNE, "current", "").unwrap();
    let node = world.service.state().node(TUNE).unwrap();
    assert_eq!(node.config.access, AccessModel::Presence);
    has(
        &world.mail[ROMEO][0],
        &["from='juliet@capulet.example'", "type='headline'"],
    );
    assert_eq!(told(&mut world), [OWN, CHAMBER, NURSE, ROMEO]);
    world.roster.sessions.remove(ROMEO);
    world.publish_at(OWN, TUNE, "current", "").unwrap();
    assert_eq!(told(&mut world), [OWN, CHAMBER, NURSE]);
}

/// The account knows its own sessions; those of a contact are known at his home.
#[test]
fn section_4_3_2_contacts_are_told_once_whoever_knows_their_sessions() {
    const HALL: &str = "romeo@montague.example/hall";
    let romeo = "romeo@montague.example";
    let mut world = World::account();
    everybody(&mut world, TUNE);
    let nodes = BTreeSet::from([TUNE.to_owned()]);
    world.roster.sessions.insert(HALL.to_owned(), nodes);
    let nurse = "nurse@capulet.example";
    world.roster.elsewhere = [romeo, nurse].map(str::to_owned).into();
    world.publish_at(OWN, TUNE, "current", "").unwrap();
    assert_eq!(told(&mut world), [OWN, CHAMBER, NURSE, HALL, ROMEO]);
    // A subscribed session gets its copy from the account, and none from its home.
    let subscribe = |jid: &str| format!("<subscribe node='{TUNE}' jid='{jid}'/>");
    world.set(ROMEO, &subscribe(ROMEO)).unwrap();
    world.mail.clear();
    world.publish_at(OWN, TUNE, "current", "").unwrap();
    assert_eq!(told(&mut world), [OWN, CHAMBER, NURSE, HALL, ROMEO]);
    // A copy for the bare address is one for all his sessions.
    let unsubscribe = format!("<unsubscribe node='{TUNE}' jid='{ROMEO}'/>");
    world.set(ROMEO, &unsubscribe).unwrap();
    world.set(ROMEO, &subscribe(romeo)).unwrap();
    world.mail.clear();
    world.publish_at(OWN, TUNE, "current", "").unwrap();
    assert_eq!(told(&mut world), [OWN, CHAMBER, NURSE, romeo]);
    // Who may not enter is not told at his home either, and neither is anybody of the end.
    let whitelist = format!(
        "<configure node='{TUNE}'>{}</configure>",
        form("node_config", &[("access_model", "whitelist")])
    );
    world.own(OWN, "set", &whitelist).unwrap();
    world.mail.clear();
    world.publish_at(OWN, TUNE, "current", "").unwrap();
    assert_eq!(told(&mut world), [OWN, CHAMBER]);
}

#[test]
fn section_2_2_the_account_alone_publishes() {
    let mut world = World::account();
    refused(world.publish_at(ROMEO, TUNE, "x", ""), "forbidden/auth");
    world.publish_at(OWN, TUNE, "x", "").unwrap();
    refused(world.publish_at(ROMEO, TUNE, "x", ""), "forbidden/auth");
    refused(world.set(ROMEO, "<create node='mine'/>"), "forbidden/auth");
    let list = format!(
        "<affiliations node='{TUNE}'>\
         <affiliation jid='{JULIET}' affiliation='none'/></affiliations>"
    );
    refused(world.own(OWN, "set", &list), "not-acceptable/modify");
}

#[test]
fn section_5_every_access_model() {
    let mut world = World::account();
    everybody(&mut world, TUNE);
    let groups = [
        ("access_model", "roster"),
        ("roster_groups_allowed", "servants"),
    ];
    for (fields, expected) in [
        (
            &[("access_model", "open")][..],
            &[OWN, CHAMBER, NURSE, ROMEO, TYBALT][..],
        ),
        (
            &[("access_model", "presence")],
            &[OWN, CHAMBER, NURSE, ROMEO],
        ),
        (&groups, &[OWN, CHAMBER, NURSE]),
        (&[("access_model", "whitelist")], &[OWN, CHAMBER]),
        (&[("access_model", "authorize")], &[OWN, CHAMBER]),
    ] {
        let options = publish_options(fields);
        world.publish_at(OWN, TUNE, "current", &options).unwrap();
        assert_eq!(told(&mut world), expected, "{fields:?}");
        let retrieve = |world: &mut World, who: &str| world.items(who, TUNE).is_ok();
        for who in [OWN, NURSE, ROMEO, TYBALT] {
            let is_expected = expected.contains(&who);
            assert_eq!(retrieve(&mut world, who), is_expected, "{fields:?} {who}");
        }
        world
            .own(OWN, "set", &format!("<delete node='{TUNE}'/>"))
            .unwrap();
        world.mail.clear();
    }
}

#[test]
fn section_5_errors_name_what_is_missing() {
    let mut world = World::account();
    world.publish_at(OWN, TUNE, "x", "").unwrap();
    let missing = "not-authorized/auth presence-subscription-required";
    refused(world.items(TYBALT, TUNE), missing);
    let fields = [
        ("access_model", "roster"),
        ("roster_groups_allowed", "servants"),
    ];
    let configure = format!(
        "<configure node='{TUNE}'>{}</configure>",
        form("node_config", &fields)
    );
    world.own(OWN, "set", &configure).unwrap();
    refused(
        world.items(ROMEO, TUNE),
        "not-authorized/auth not-in-roster-group",
    );
    world.items(NURSE, TUNE).unwrap();
}

#[test]
fn section_4_3_2_who_subscribes_and_is_online_is_told_once() {
    let mut world = World::account();
    world
        .publish_at(
            OWN,
            TUNE,
            "x",
            &publish_options(&[("access_model", "open")]),
        )
        .unwrap();
    for who in [ROMEO, TYBALT, "stranger@x/y"] {
        let jid = xmpp::addr::bare_part(who);
        world
            .set(who, &format!("<subscribe node='{TUNE}' jid='{jid}'/>"))
            .unwrap();
    }
    world
        .set(NURSE, &format!("<subscribe node='{TUNE}' jid='{NURSE}'/>"))
        .unwrap();
    everybody(&mut world, TUNE);
    world.mail.clear();
    world.publish_at(OWN, TUNE, "x", "").unwrap();
    assert_eq!(
        told(&mut world),
        [OWN, CHAMBER, NURSE, ROMEO, "stranger@x", TYBALT]
    );
}

/// What has come by presence, or because of it: the last item, with its time.
#[test]
fn section_4_3_4_who_comes_online_gets_the_last_item_of_what_interests_him() {
    let mut world = World::account();
    let secret = publish_options(&[("access_model", "whitelist")]);
    world.publish_at(OWN, TUNE, "t1", "").unwrap();
    world.publish_at(OWN, "secret", "s1", &secret).unwrap();
    world
        .publish_at(OWN, "urn:xmpp:avatar:data", "d", "")
        .unwrap();
    world.publish_at(OWN, TUNE, "t2", "").unwrap();
    world.mail.clear();
    let all: Vec<Box<str>> = [TUNE, "secret", "urn:xmpp:avatar:data", "nothing", TUNE]
        .map(Box::from)
        .to_vec();
    for (session, expected) in [(ROMEO, 1), (OWN, 2), (TYBALT, 0)] {
        let interests = all.clone();
        assert!(world.event(Event::Available {
            session: session.into(),
            interests
        }));
        let mail = world.read(session);
        assert_eq!(mail.len(), expected, "{mail:#?}");
        if expected > 0 {
            has(
                &mail.concat(),
                &[
                    "<item id='t2'>",
                    "<delay xmlns='urn:xmpp:delay' stamp='2001-09-09",
                ],
            );
        }
    }
    assert!(world.mail.is_empty());
    world.later(60);
    assert!(world.event(Event::Available {
        session: ROMEO.into(),
        interests: Vec::new()
    }));
    assert!(world.mail.is_empty());
}

#[test]
fn section_7_1_who_is_no_contact_any_more_is_no_subscriber() {
    let mut world = World::account();
    world.publish_at(OWN, TUNE, "x", "").unwrap();
    world
        .publish_at(
            OWN,
            "open",
            "x",
            &publish_options(&[("access_model", "open")]),
        )
        .unwrap();
    for node in [TUNE, "open"] {
        let subscribe = format!("<subscribe node='{node}' jid='romeo@montague.example'/>");
        world.set(ROMEO, &subscribe).unwrap();
    }
    world.mail.clear();
    world.roster.contacts.remove("romeo@montague.example");
    let bare = Arc::from("romeo@montague.example");
    assert!(world.event(Event::Related { bare }));
    let notice = world.read_one("romeo@montague.example");
    has(
        &notice,
        &[
            "<subscription node='http://jabber.org/protocol/tune'",
            "'none'",
        ],
    );
    let answer = world.get(ROMEO, "<subscriptions/>").unwrap();
    assert_eq!(answer.matches("<subscription ").count(), 1);
    has(&answer, &["node='open'"]);
}

#[test]
fn section_6_2_nodes_are_listed_for_those_who_may_see_them() {
    let mut world = World::account();
    world.publish_at(OWN, TUNE, "x", "").unwrap();
    world
        .publish_at(OWN, "urn:xmpp:bookmarks:1", "room@x", "")
        .unwrap();
    world
        .publish_at(
            OWN,
            "open",
            "x",
            &publish_options(&[("access_model", "open")]),
        )
        .unwrap();
    let query = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    for (who, expected) in [(OWN, 3), (ROMEO, 2), (TYBALT, 1)] {
        let answer = world.ask(who, "get", query).unwrap();
        assert_eq!(answer.matches("<item ").count(), expected, "{who}");
        assert_eq!(answer.contains("bookmarks"), who == OWN);
    }
}

/// XEP-0402 section 3, XEP-0223: what is private is so with options and without.
#[test]
fn xep_0223_private_data_reach_nobody() {
    let mut world = World::account();
    let node = "urn:xmpp:bookmarks:1";
    everybody(&mut world, node);
    let options = publish_options(&[
        ("persist_items", "true"),
        ("max_items", "max"),
        ("send_last_published_item", "never"),
        ("access_model", "whitelist"),
    ]);
    for (id, options) in [("a@x", ""), ("b@x", &options), ("c@x", &options)] {
        world.publish_at(OWN, node, id, options).unwrap();
        assert_eq!(told(&mut world), [OWN, CHAMBER]);
    }
    assert_eq!(world.items(CHAMBER, node).unwrap(), ["a@x", "b@x", "c@x"]);
    for who in [ROMEO, NURSE, TYBALT] {
        refused(world.items(who, node), "not-allowed/cancel closed-node");
        let subscribe = format!("<subscribe node='{node}' jid='{who}'/>");
        refused(world.set(who, &subscribe), "not-allowed/cancel closed-node");
    }
    // A node that was open before cannot be used for what must be private.
    world
        .publish_at(OWN, "x", "i", &publish_options(&[("access_model", "open")]))
        .unwrap();
    let found = world.publish_at(OWN, "x", "i", &options);
    refused(found, "conflict/cancel precondition-not-met");
}

/// XEP-0222: public data, and XEP-0384, where contacts or everybody may fetch what devices there
/// are.
#[test]
fn xep_0222_public_data_are_for_everybody() {
    let mut world = World::account();
    let devices = "urn:xmpp:omemo:2:devices";
    world.publish_at(OWN, devices, "current", "").unwrap();
    world.items(ROMEO, devices).unwrap();
    let missing = "not-authorized/auth presence-subscription-required";
    refused(world.items(TYBALT, devices), missing);
    let bundles = "urn:xmpp:omemo:2:bundles";
    let options = publish_options(&[("access_model", "open"), ("max_items", "max")]);
    for device in ["1", "2"] {
        world.publish_at(OWN, bundles, device, &options).unwrap();
    }
    assert_eq!(world.items(TYBALT, bundles).unwrap(), ["1", "2"]);
}

/// Between the question for an item and its answer the node becomes private and the item another.
#[test]
fn an_item_that_was_published_anew_meanwhile_is_not_shown() {
    let mut world = World::account();
    world.publish_at(OWN, TUNE, "current", "").unwrap();
    world
        .publish_at(
            OWN,
            "open",
            "current",
            &publish_options(&[("access_model", "open")]),
        )
        .unwrap();
    world.mail.clear();
    world.reads = false;
    let request = "<iq type='get' id='q'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
                   <items node='open'/></pubsub></iq>";
    world.send(TYBALT, request);
    let fields = [("access_model", "whitelist")];
    let configure = format!(
        "<configure node='open'>{}</configure>",
        form("node_config", &fields)
    );
    world.own(OWN, "set", &configure).unwrap();
    world.publish_at(OWN, "open", "current", "").unwrap();
    world.read_store();
    has(&world.read_one(TYBALT), &["<items node='open'/>"]);
    // The same for one that is removed after its last item has been asked for.
    let interests = vec!["open".into()];
    let session = CHAMBER.into();
    assert!(world.event(Event::Available { session, interests }));
    let found = world.store.clone();
    world.own(OWN, "set", "<purge node='open'/>").unwrap();
    world.store = found;
    world.mail.clear();
    world.read_store();
    assert!(world.mail.is_empty());
}
