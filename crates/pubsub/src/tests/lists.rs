//! XEP-0060 sections 8.8 and 8.9: the lists that owners keep.

use super::*;

fn affiliations(entries: &[(&str, &str)]) -> String {
    let entries = entries.iter();
    let entries =
        entries.map(|(jid, what)| format!("<affiliation jid='{jid}' affiliation='{what}'/>"));
    format!(
        "<affiliations node='{NODE}'>{}</affiliations>",
        entries.collect::<String>()
    )
}

fn subscriptions(entries: &[(&str, &str)]) -> String {
    let entries = entries.iter();
    let entries =
        entries.map(|(jid, what)| format!("<subscription jid='{jid}' subscription='{what}'/>"));
    format!(
        "<subscriptions node='{NODE}'>{}</subscriptions>",
        entries.collect::<String>()
    )
}

/// The whole error that answers a request of Hamlet.
fn error_of(world: &mut World, list: &str) -> String {
    let ns = "http://jabber.org/protocol/pubsub#owner";
    world.send(
        HAMLET,
        &format!("<iq type='set' id='q'><pubsub xmlns='{ns}'>{list}</pubsub></iq>"),
    );
    world.read_one(HAMLET)
}

#[test]
fn section_8_9_1_owners_see_who_is_what() {
    let mut world = World::denmark();
    let set = affiliations(&[
        ("f@x", "member"),
        ("g@x/resource", "outcast"),
        ("h@x", "none"),
    ]);
    world.own(HAMLET, "set", &set).unwrap();
    let answer = world.own(HAMLET, "get", &affiliations(&[])).unwrap();
    has(
        &answer,
        &[
            "<affiliation jid='f@x' affiliation='member'/>",
            "<affiliation jid='g@x' affiliation='outcast'/>",
            "<affiliation jid='hamlet@denmark.example' affiliation='owner'/>",
        ],
    );
    lacks(&answer, &["none"]);
    for kind in ["get", "set"] {
        let nowhere = "<affiliations node='x'/>";
        refused(world.own(HAMLET, kind, nowhere), "item-not-found/cancel");
        refused(
            world.own(FRANCISCO, kind, &affiliations(&[])),
            "forbidden/auth",
        );
    }
}

#[test]
fn section_8_9_2_4_what_cannot_be_changed_comes_back() {
    let mut world = World::denmark();
    let own = "hamlet@denmark.example";
    let list = affiliations(&[
        (own, "none"),
        ("f@x", "publisher"),
        ("@@", "member"),
        ("g@x", "god"),
    ]);
    let error = error_of(&mut world, &list);
    has(
        &error,
        &[
            "<affiliations node='princely_musings'>\
         <affiliation jid='hamlet@denmark.example' affiliation='owner'/>\
         <affiliation jid='@@' affiliation='none'/><affiliation jid='g@x' affiliation='none'/>\
         </affiliations>",
            "<error type='modify'><not-acceptable ",
        ],
    );
    let answer = world.own(HAMLET, "get", &affiliations(&[])).unwrap();
    has(
        &answer,
        &[
            "jid='f@x' affiliation='publisher'",
            &format!("jid='{own}' affiliation='owner'"),
        ],
    );
    let twice = affiliations(&[("f@x", "member"), ("f@x/y", "none")]);
    refused(world.own(HAMLET, "set", &twice), "bad-request/modify");
    let unsaid = format!("<affiliations node='{NODE}'><affiliation jid='f@x'/></affiliations>");
    world.own(HAMLET, "set", &unsaid).unwrap();
    let answer = world.own(HAMLET, "get", &affiliations(&[])).unwrap();
    has(&answer, &["jid='f@x' affiliation='publisher'"]);
}

/// The state chart of section 4.1.
#[test]
fn section_4_1_transitions_that_the_chart_does_not_have() {
    let mut world = World::denmark();
    for (from, to, is_possible) in [
        ("none", "outcast", true),
        ("outcast", "owner", true),
        ("owner", "member", false),
        ("owner", "outcast", false),
        ("owner", "publisher", false),
        ("owner", "none", true),
        ("none", "publisher", true),
        ("publisher", "member", false),
        ("publisher", "outcast", true),
        ("outcast", "publish-only", true),
        ("publish-only", "member", false),
        ("publish-only", "none", true),
        ("none", "member", true),
        ("member", "publisher", true),
        ("publisher", "none", true),
    ] {
        let found = world.own(HAMLET, "set", &affiliations(&[("f@x", to)]));
        assert_eq!(found.is_ok(), is_possible, "{from} {to}");
    }
}

#[test]
fn section_8_7_a_new_affiliation_decides_about_who_waits() {
    let mut world = World::with_node(&[("access_model", "authorize")]);
    for who in [FRANCISCO, BERNARDO] {
        world.subscribe(who).unwrap();
    }
    world.mail.clear();
    world.affiliate(FRANCISCO, "publisher").unwrap();
    has(
        &world.read_one("francisco@denmark.example"),
        &["subscription='subscribed'"],
    );
    world.affiliate(BERNARDO, "outcast").unwrap();
    has(
        &world.read_one("bernardo@denmark.example"),
        &["subscription='none'"],
    );
    world.publish(HAMLET, "a").unwrap();
    world.read_one("francisco@denmark.example");
    assert!(world.mail.is_empty());
}

#[test]
fn section_8_8_1_owners_see_who_is_subscribed() {
    let mut world = World::with_node(&[("access_model", "authorize")]);
    world.subscribe(FRANCISCO).unwrap();
    world
        .own(
            HAMLET,
            "set",
            &subscriptions(&[("a@x", "subscribed"), ("b@x", "unconfigured")]),
        )
        .unwrap();
    let answer = world.own(HAMLET, "get", &subscriptions(&[])).unwrap();
    has(
        &answer,
        &[
            "jid='a@x' subscription='subscribed'",
            "jid='b@x' subscription='unconfigured'",
        ],
    );
    lacks(&answer, &["francisco"]);
    for kind in ["get", "set"] {
        let nowhere = "<subscriptions node='x'/>";
        refused(world.own(HAMLET, kind, nowhere), "item-not-found/cancel");
        refused(
            world.own(FRANCISCO, kind, &subscriptions(&[])),
            "forbidden/auth",
        );
    }
}

#[test]
fn section_8_8_2_owners_change_subscriptions_and_subscribers_hear_of_it() {
    let mut world = World::denmark();
    world.publish(HAMLET, "i").unwrap();
    world.affiliate("bad@x", "outcast").unwrap();
    let list = [
        ("a@x/phone", "subscribed"),
        ("bad@x", "subscribed"),
        ("b@x", "maybe"),
    ];
    let error = error_of(&mut world, &subscriptions(&list));
    has(
        &error,
        &[
            "<subscription jid='bad@x' subscription='none'/>",
            "<subscription jid='b@x' subscription='none'/>",
            "<not-acceptable ",
        ],
    );
    lacks(&error, &["a@x/phone"]);
    let mail = world.read("a@x/phone");
    has(&mail[0], &["subscription='subscribed'"]);
    has(&mail[1], &["<item id='i'>"]);
    world
        .own(HAMLET, "set", &subscriptions(&[("a@x/phone", "none")]))
        .unwrap();
    has(&world.read_one("a@x/phone"), &["subscription='none'"]);
    world.publish(HAMLET, "j").unwrap();
    assert!(world.mail.is_empty());
    let twice = subscriptions(&[("a@x", "subscribed"), ("a@x", "none")]);
    refused(world.own(HAMLET, "set", &twice), "bad-request/modify");
}

/// Section 4.2: who is to configure his subscription hears of nothing before.
#[test]
fn section_4_2_an_unconfigured_subscription_is_configured() {
    let mut world = World::denmark();
    let who = "francisco@denmark.example";
    world
        .own(HAMLET, "set", &subscriptions(&[(who, "unconfigured")]))
        .unwrap();
    has(&world.read_one(who), &["subscription='unconfigured'"]);
    world.publish(HAMLET, "a").unwrap();
    assert!(world.mail.is_empty());
    has(
        &world.subscribe(FRANCISCO).unwrap(),
        &["<subscribe-options><required/>"],
    );
    let form = form("subscribe_options", &[("deliver", "1")]);
    let options = format!("<options node='{NODE}' jid='{who}'>{form}</options>");
    world.set(FRANCISCO, &options).unwrap();
    world.publish(HAMLET, "b").unwrap();
    has(&world.read_one(who), &["<item id='b'>"]);
}
