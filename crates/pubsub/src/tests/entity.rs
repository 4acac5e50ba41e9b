//! XEP-0060 section 5: discovery, and one's own subscriptions and affiliations.

use super::*;

fn info(node: &str) -> String {
    format!("<query xmlns='http://jabber.org/protocol/disco#info'{node}/>")
}

fn items(node: &str) -> String {
    format!("<query xmlns='http://jabber.org/protocol/disco#items'{node}/>")
}

#[test]
fn section_5_1_a_service_says_what_it_can_do() {
    let mut world = World::new();
    let answer = world.ask(FRANCISCO, "get", &info("")).unwrap();
    has(
        &answer,
        &[
            "<identity category='pubsub' type='service'/>",
            "<feature var='http://jabber.org/protocol/pubsub'/>",
            "<feature var='http://jabber.org/protocol/pubsub#publish-options'/>",
            "<feature var='http://jabber.org/protocol/pubsub#access-open'/>",
        ],
    );
    // What it cannot do it does not say.
    lacks(
        &answer,
        &[
            "auto-create",
            "access-presence",
            "access-whitelist",
            "multi-subscribe",
            "collections",
        ],
    );
    lacks(&answer, &["filtered", "presence-notifications"]);
    // Section 6.1.7: nodes send their last item unless their owners say otherwise.
    has(&answer, &["pubsub#last-published'"]);
    refused(world.ask(FRANCISCO, "set", &info("")), "not-allowed/cancel");
    let mut account = World::account();
    let answer = account.ask(FRANCISCO, "get", &info("")).unwrap();
    has(
        &answer,
        &[
            "type='pep'",
            "pubsub#auto-create'",
            "pubsub#last-published'",
        ],
    );
    has(
        &answer,
        &["pubsub#filtered-notifications'", "pubsub#access-presence'"],
    );
}

#[test]
fn sections_5_2_and_5_3_nodes_are_for_those_who_may_see_them() {
    let mut world = World::with_node(&[("title", "Musings")]);
    world
        .create(HAMLET, "private", &[("access_model", "whitelist")])
        .unwrap();
    world
        .create(HAMLET, "asked", &[("access_model", "authorize")])
        .unwrap();
    let answer = world.ask(FRANCISCO, "get", &items("")).unwrap();
    has(
        &answer,
        &[
            "<item jid='pubsub.denmark.example' node='princely_musings' name='Musings'/>",
            "node='asked'",
        ],
    );
    lacks(&answer, &["private"]);
    let answer = world.ask(HAMLET, "get", &items("")).unwrap();
    has(&answer, &["node='private'"]);
    for query in [
        info(" node='private'"),
        items(" node='private'"),
        info(" node='x'"),
    ] {
        refused(world.ask(FRANCISCO, "get", &query), "item-not-found/cancel");
    }
    has(
        &world.ask(HAMLET, "get", &info(" node='private'")).unwrap(),
        &["type='leaf'"],
    );
    world.affiliate(FRANCISCO, "outcast").unwrap();
    lacks(&world.ask(FRANCISCO, "get", &items("")).unwrap(), &[NODE]);
}

#[test]
fn section_5_4_meta_data_of_a_node() {
    let mut world = World::with_node(&[("title", "Musings"), ("type", "urn:e")]);
    world.subscribe(FRANCISCO).unwrap();
    let answer = world
        .ask(FRANCISCO, "get", &info(&format!(" node='{NODE}'")))
        .unwrap();
    has(
        &answer,
        &[
            "<identity category='pubsub' type='leaf' name='Musings'/>",
            "<value>http://jabber.org/protocol/pubsub#meta-data</value>",
            "<value>2001-09-09T01:46:40Z</value>",
            "var='pubsub#owner' type='jid-multi' label='Owners'>\
             <value>hamlet@denmark.example</value>",
            "var='pubsub#num_subscribers' type='text-single' label='Subscribers'><value>1</value>",
        ],
    );
}

#[test]
fn section_5_5_items_of_a_node_are_for_those_who_may_retrieve_them() {
    let mut world = World::with_node(&[("access_model", "authorize")]);
    for id in ["a", "b", "c"] {
        world.publish(HAMLET, id).unwrap();
    }
    let node = format!(" node='{NODE}'");
    refused(
        world.ask(FRANCISCO, "get", &items(&node)),
        "not-authorized/auth not-subscribed",
    );
    let answer = world.ask(HAMLET, "get", &items(&node)).unwrap();
    has(&answer, &["<item jid='pubsub.denmark.example' name='a'/>"]);
    assert_eq!(answer.matches("<item ").count(), 3);
    let set = "<set xmlns='http://jabber.org/protocol/rsm'><max>1</max><after>a</after></set>";
    let ns = "http://jabber.org/protocol/disco#items";
    let page = format!("<query xmlns='{ns}'{node}>{set}</query>");
    let answer = world.ask(HAMLET, "get", &page).unwrap();
    has(
        &answer,
        &[
            "name='b'",
            "<first index='1'>b</first><last>b</last><count>3</count>",
        ],
    );
    lacks(&answer, &["name='a'", "name='c'"]);
}

#[test]
fn section_5_6_and_5_7_what_one_has() {
    let mut world = World::denmark();
    world.create(FRANCISCO, "own", &[]).unwrap();
    world.subscribe(FRANCISCO).unwrap();
    let answer = world.get(FRANCISCO, "<subscriptions/>").unwrap();
    has(
        &answer,
        &[
            "<subscriptions><subscription node='princely_musings' jid='francisco@denmark.example' \
         subscription='subscribed'/></subscriptions>",
        ],
    );
    has(
        &world.get(FRANCISCO, "<subscriptions node='own'/>").unwrap(),
        &["<subscriptions node='own'/>"],
    );
    has(
        &world.get(BERNARDO, "<subscriptions/>").unwrap(),
        &["<subscriptions/>"],
    );
    let answer = world.get(FRANCISCO, "<affiliations/>").unwrap();
    has(
        &answer,
        &["<affiliations><affiliation node='own' affiliation='owner'/></affiliations>"],
    );
    let of = format!("<affiliations node='{NODE}'/>");
    has(&world.get(FRANCISCO, &of).unwrap(), &["<affiliations/>"]);
    refused(
        world.get(FRANCISCO, "<affiliations node='x'/>"),
        "item-not-found/cancel",
    );
}

#[test]
fn what_a_service_does_not_know_is_refused() {
    let mut world = World::denmark();
    for (kind, payload, expected) in [
        (
            "get",
            "<query xmlns='urn:x'/>",
            "service-unavailable/cancel",
        ),
        (
            "get",
            "<pubsub xmlns='http://jabber.org/protocol/pubsub'/>",
            "bad-request/modify",
        ),
        (
            "get",
            "<pubsub xmlns='urn:x'><items node='n'/></pubsub>",
            "service-unavailable/cancel",
        ),
    ] {
        refused(world.ask(FRANCISCO, kind, payload), expected);
    }
    refused(
        world.get(FRANCISCO, "<publish node='n'/>"),
        "bad-request/modify",
    );
    refused(
        world.set(FRANCISCO, "<items node='n'/>"),
        "bad-request/modify",
    );
    refused(
        world.set(FRANCISCO, "<x xmlns='urn:x' node='n'/>"),
        "bad-request/modify",
    );
    world.send(FRANCISCO, "<message id='m'><body>hi</body></message>");
    let bounced = world.read_one(FRANCISCO);
    assert_eq!(
        condition(&bounced).as_deref(),
        Some("service-unavailable/cancel")
    );
    world.send(
        FRANCISCO,
        "<message type='headline'><body>hi</body></message>",
    );
    world.send(FRANCISCO, "<presence/>");
    assert!(world.mail.is_empty());
}
