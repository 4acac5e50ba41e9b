//! XEP-0060 section 6: subscribing, unsubscribing, options, retrieving items.

use super::*;

const NOT_SUBSCRIBED: &str = "not-authorized/auth not-subscribed";

#[test]
fn section_6_1_2_a_subscriber_is_told_what_he_has_and_then_of_items() {
    let mut world = World::denmark();
    let answer = world.subscribe(FRANCISCO).unwrap();
    has(
        &answer,
        &["jid='francisco@denmark.example' subscription='subscribed'"],
    );
    world.publish(HAMLET, "i1").unwrap();
    let notice = world.read_one("francisco@denmark.example");
    has(
        &notice,
        &[
            "<message from='pubsub.denmark.example' id='",
            "type='headline'",
            "<event xmlns='http://jabber.org/protocol/pubsub#event'><items node='princely_musings'>",
            "<item id='i1'><e xmlns='urn:e'>i1</e></item></items></event></message>",
        ],
    );
    assert!(world.mail.is_empty());
}

#[test]
fn section_6_1_2_a_full_address_is_an_address_of_its_own() {
    let mut world = World::denmark();
    for jid in [
        FRANCISCO,
        "francisco@denmark.example",
        "francisco@denmark.example/other",
    ] {
        let request = format!("<subscribe node='{NODE}' jid='{jid}'/>");
        world.set(FRANCISCO, &request).unwrap();
    }
    world.publish(HAMLET, "i1").unwrap();
    assert_eq!(world.mail.len(), 3);
    let own = world.get(FRANCISCO, "<subscriptions/>").unwrap();
    assert_eq!(own.matches("<subscription ").count(), 3);
}

#[test]
fn section_6_1_3_requests_to_subscribe_are_refused_as_the_text_says() {
    let mut world = World::denmark();
    let subscribe = |world: &mut World, who: &str, attrs: &str| {
        world.set(who, &format!("<subscribe {attrs}/>"))
    };
    let jid = "jid='francisco@denmark.example'";
    let node = format!("node='{NODE}'");
    refused(
        subscribe(
            &mut world,
            FRANCISCO,
            &format!("{node} jid='bernardo@denmark.example'"),
        ),
        "bad-request/modify invalid-jid",
    );
    refused(
        subscribe(&mut world, FRANCISCO, &node),
        "bad-request/modify invalid-jid",
    );
    refused(
        subscribe(&mut world, FRANCISCO, &format!("{node} jid='a@b@c'")),
        "bad-request/modify invalid-jid",
    );
    refused(
        subscribe(&mut world, FRANCISCO, jid),
        "bad-request/modify nodeid-required",
    );
    refused(
        subscribe(&mut world, FRANCISCO, &format!("node='other' {jid}")),
        "item-not-found/cancel",
    );
    world.affiliate(FRANCISCO, "outcast").unwrap();
    refused(world.subscribe(FRANCISCO), "forbidden/auth");
    world
        .configure(HAMLET, &[("access_model", "whitelist")])
        .unwrap();
    refused(world.subscribe(BERNARDO), "not-allowed/cancel closed-node");
    world.affiliate(BERNARDO, "member").unwrap();
    world.subscribe(BERNARDO).unwrap();
    world
        .configure(HAMLET, &[("subscribe", "0"), ("access_model", "open")])
        .unwrap();
    let unsupported = "feature-not-implemented/cancel unsupported";
    refused(world.subscribe("x@denmark.example/y"), unsupported);
}

#[test]
fn section_6_1_4_owners_approve_and_deny() {
    let mut world = World::with_node(&[("access_model", "authorize")]);
    world.publish(HAMLET, "old").unwrap();
    let answer = world.subscribe(FRANCISCO).unwrap();
    has(&answer, &["subscription='pending'"]);
    refused(
        world.subscribe(FRANCISCO),
        "not-authorized/auth pending-subscription",
    );
    refused(world.items(FRANCISCO, NODE), NOT_SUBSCRIBED);
    let request = world.read_one("hamlet@denmark.example");
    has(
        &request,
        &[
            "pubsub#subscribe_authorization",
            "<field var='pubsub#node' type='text-single' label='Node'><value>princely_musings<",
            "<value>francisco@denmark.example</value>",
            "var='pubsub#allow' type='boolean'",
        ],
    );
    world.publish(HAMLET, "i0").unwrap();
    assert!(world.mail.is_empty());
    approve(&mut world, FRANCISCO, "1");
    refused(world.answer_of_message(FRANCISCO), "forbidden/auth");
    approve(&mut world, HAMLET, "1");
    let mail = world.read("francisco@denmark.example");
    has(
        &mail[0],
        &[
            "<subscription node='princely_musings'",
            "subscription='subscribed'/>",
        ],
    );
    has(
        &mail[1],
        &["<item id='i0'>", "<delay xmlns='urn:xmpp:delay' stamp='"],
    );
    assert_eq!(world.items(FRANCISCO, NODE).unwrap(), ["old", "i0"]);

    world.subscribe(BERNARDO).unwrap();
    world.read("hamlet@denmark.example");
    let jid = "<field var='pubsub#subscriber_jid'><value>bernardo@denmark.example</value></field>";
    let cancel =
        format!("<message id='a'><x xmlns='jabber:x:data' type='cancel'>{jid}</x></message>");
    world.send(HAMLET, &cancel);
    refused(
        world.subscribe(BERNARDO),
        "not-authorized/auth pending-subscription",
    );
    decide(&mut world, HAMLET, "bernardo@denmark.example", "false");
    let notice = world.read_one("bernardo@denmark.example");
    has(
        &notice,
        &["jid='bernardo@denmark.example' subscription='none'"],
    );
    decide(&mut world, HAMLET, "bernardo@denmark.example", "1");
    refused(
        world.answer_of_message(HAMLET),
        "unexpected-request/cancel not-subscribed",
    );
}

fn decide(world: &mut World, owner: &str, who: &str, allow: &str) {
    let fields = [("node", NODE), ("subscriber_jid", who), ("allow", allow)];
    let form = form("subscribe_authorization", &fields);
    world.send(owner, &format!("<message id='a'>{form}</message>"));
}

fn approve(world: &mut World, owner: &str, allow: &str) {
    decide(world, owner, "francisco@denmark.example", allow);
}

impl World {
    /// The condition of the error that came back for a message.
    fn answer_of_message(&mut self, who: &str) -> Result<(), String> {
        match condition(&self.read_one(who)) {
            Some(condition) => Err(condition),
            None => Ok(()),
        }
    }
}

#[test]
fn section_6_1_4_members_and_publishers_need_no_approval() {
    let mut world = World::with_node(&[("access_model", "authorize")]);
    for (who, affiliation) in [(FRANCISCO, "member"), (BERNARDO, "publisher")] {
        world.affiliate(who, affiliation).unwrap();
        has(
            &world.subscribe(who).unwrap(),
            &["subscription='subscribed'"],
        );
    }
    world.affiliate("x@y", "publish-only").unwrap();
    refused(world.subscribe("x@y/z"), "forbidden/auth");
}

#[test]
fn section_6_1_6_a_second_request_is_answered_with_what_there_is() {
    let mut world = World::denmark();
    let first = world.subscribe(FRANCISCO).unwrap();
    let appends = world.appends;
    assert_eq!(world.subscribe(FRANCISCO).unwrap(), first);
    assert_eq!(world.appends, appends);
    world.publish(HAMLET, "i1").unwrap();
    world.read_one("francisco@denmark.example");
}

#[test]
fn section_6_1_7_the_last_item_is_sent_to_a_new_subscriber() {
    let mut world = World::denmark();
    world.publish(HAMLET, "i1").unwrap();
    world.publish(HAMLET, "i2").unwrap();
    world.subscribe(FRANCISCO).unwrap();
    let notice = world.read_one("francisco@denmark.example");
    has(&notice, &["<item id='i2'>", "stamp='2001-09-09T01:46:40Z'"]);
    world
        .configure(HAMLET, &[("send_last_published_item", "never")])
        .unwrap();
    world.subscribe(BERNARDO).unwrap();
    assert!(world.mail.is_empty());
}

#[test]
fn section_6_2_an_address_unsubscribes_itself() {
    let mut world = World::denmark();
    world.subscribe(FRANCISCO).unwrap();
    let leave = |attrs: &str| format!("<unsubscribe {attrs}/>");
    let own = format!("node='{NODE}' jid='francisco@denmark.example'");
    refused(world.set(BERNARDO, &leave(&own)), "forbidden/auth");
    let node = format!("node='{NODE}'");
    refused(
        world.set(FRANCISCO, &leave(&node)),
        "bad-request/modify jid-required",
    );
    let other = format!("node='{NODE}' jid='{FRANCISCO}'");
    let missing = "unexpected-request/cancel not-subscribed";
    refused(world.set(FRANCISCO, &leave(&other)), missing);
    let nowhere = "node='x' jid='francisco@denmark.example'";
    refused(
        world.set(FRANCISCO, &leave(nowhere)),
        "item-not-found/cancel",
    );
    // Section 6.2.3.5: there are no subscription ids here, so one is ignored.
    let named = format!("{own} subid='x'");
    world.set(FRANCISCO, &leave(&named)).unwrap();
    world.publish(HAMLET, "i1").unwrap();
    assert!(world.mail.is_empty());
    refused(world.set(FRANCISCO, &leave(&own)), missing);
}

#[test]
fn section_6_3_a_subscriber_turns_notifications_off_and_on() {
    let mut world = World::denmark();
    world.subscribe(FRANCISCO).unwrap();
    let jid = "jid='francisco@denmark.example'";
    let form_of = format!("<options node='{NODE}' {jid}/>");
    let answer = world.get(FRANCISCO, &form_of).unwrap();
    has(
        &answer,
        &[
            "pubsub#subscribe_options",
            "var='pubsub#deliver'",
            "<value>1</value>",
        ],
    );
    let set = |fields: &[(&str, &str)]| {
        format!(
            "<options node='{NODE}' {jid}>{}</options>",
            form("subscribe_options", fields)
        )
    };
    world
        .set(FRANCISCO, &set(&[("deliver", "0"), ("digest", "0")]))
        .unwrap();
    world.publish(HAMLET, "i1").unwrap();
    assert!(world.mail.is_empty());
    world.set(FRANCISCO, &set(&[("deliver", "true")])).unwrap();
    world.publish(HAMLET, "i2").unwrap();
    world.read_one("francisco@denmark.example");
    for bad in [
        ("deliver", "x"),
        ("digest", "x"),
        ("include_body", "1"),
        ("expire", "soon"),
    ] {
        let found = world.set(FRANCISCO, &set(&[bad]));
        refused(found, "bad-request/modify invalid-options");
    }
    refused(world.get(BERNARDO, &form_of), "forbidden/auth");
    // Nobody has an id of a subscription.
    let named = |action: &str| format!("<{action} node='{NODE}' {jid} subid='x'/>");
    let invalid = "not-acceptable/modify invalid-subid";
    refused(world.get(FRANCISCO, &named("options")), invalid);
    refused(world.get(FRANCISCO, &named("items")), invalid);
    let without = format!("<items node='{NODE}' subid=''/>");
    world.get(FRANCISCO, &without).unwrap();
    let no_jid = format!("<options node='{NODE}'/>");
    refused(
        world.get(FRANCISCO, &no_jid),
        "bad-request/modify jid-required",
    );
    let other = format!("<options node='{NODE}' jid='{BERNARDO}'/>");
    let missing = "unexpected-request/modify not-subscribed";
    refused(world.get(BERNARDO, &other), missing);
}

#[test]
fn section_6_3_7_options_beside_a_subscription() {
    let mut world = World::denmark();
    let form = form("subscribe_options", &[("deliver", "0")]);
    let subscribe = format!("<subscribe node='{NODE}' jid='francisco@denmark.example'/>");
    let beside = format!("{subscribe}<options>{form}</options>");
    let answer = world.set(FRANCISCO, &beside).unwrap();
    has(
        &answer,
        &[
            "subscription='subscribed'",
            "type='result'",
            "<value>0</value>",
        ],
    );
    let named = format!("{subscribe}<options node='{NODE}'>{form}</options>");
    refused(world.set(FRANCISCO, &named), "bad-request/modify");
    let before = format!("<options>{form}</options>{subscribe}");
    refused(
        world.set(FRANCISCO, &before),
        "bad-request/modify nodeid-required",
    );
}

#[test]
fn section_6_4_default_options() {
    let mut world = World::denmark();
    has(
        &world.get(FRANCISCO, "<default/>").unwrap(),
        &["subscribe_options", "type='result'"],
    );
    let of_node = format!("<default node='{NODE}'/>");
    has(
        &world.get(FRANCISCO, &of_node).unwrap(),
        &["<default node='princely_musings'>"],
    );
    refused(
        world.get(FRANCISCO, "<default node='x'/>"),
        "item-not-found/cancel",
    );
}

#[test]
fn section_6_5_items_are_retrieved() {
    let mut world = World::denmark();
    for id in ["a", "b", "c", "d"] {
        world.publish(HAMLET, id).unwrap();
    }
    assert_eq!(world.items(FRANCISCO, NODE).unwrap(), ["a", "b", "c", "d"]);
    let mut ids = |content: &str| {
        let answer = world.get(FRANCISCO, content).unwrap();
        let ids = answer.split("<item id='").skip(1);
        ids.map(|rest| rest.split('\'').next().unwrap())
            .collect::<String>()
    };
    let items = |inside: &str| format!("<items node='{NODE}'>{inside}</items>");
    assert_eq!(
        ids(&items("<item id='c'/><item id='a'/><item id='x'/>")),
        "ac"
    );
    assert_eq!(ids(&format!("<items node='{NODE}' max_items='2'/>")), "cd");
    let set = |inside| format!("<set xmlns='http://jabber.org/protocol/rsm'>{inside}</set>");
    let page = |inside| format!("{}{}", items(""), set(inside));
    assert_eq!(ids(&page("<max>2</max>")), "ab");
    assert_eq!(ids(&page("<max>2</max><after>b</after>")), "cd");
    assert_eq!(ids(&page("<max>1</max><before/>")), "d");
    assert_eq!(ids(&items("<item id='x'/>")), "");
    let answer = world
        .get(FRANCISCO, &page("<max>2</max><after>a</after>"))
        .unwrap();
    has(
        &answer,
        &["<first index='1'>b</first><last>c</last><count>4</count>"],
    );
    refused(
        world.get(FRANCISCO, &page("<after>x</after>")),
        "item-not-found/cancel",
    );
    refused(
        world.get(FRANCISCO, &page("<max>x</max>")),
        "bad-request/modify",
    );
    let most = format!("<items node='{NODE}' max_items='x'/>");
    refused(world.get(FRANCISCO, &most), "bad-request/modify");
}

#[test]
fn section_6_5_9_items_are_for_whom_the_access_model_names() {
    let mut world = World::with_node(&[("access_model", "authorize")]);
    world.publish(HAMLET, "a").unwrap();
    refused(world.items(FRANCISCO, NODE), NOT_SUBSCRIBED);
    world.affiliate(FRANCISCO, "publisher").unwrap();
    world.items(FRANCISCO, NODE).unwrap();
    world
        .configure(HAMLET, &[("access_model", "whitelist")])
        .unwrap();
    refused(
        world.items(BERNARDO, NODE),
        "not-allowed/cancel closed-node",
    );
    world.affiliate(BERNARDO, "member").unwrap();
    world.items(BERNARDO, NODE).unwrap();
    world.affiliate(BERNARDO, "outcast").unwrap();
    refused(world.items(BERNARDO, NODE), "forbidden/auth");
    refused(world.items(BERNARDO, "x"), "item-not-found/cancel");
    refused(
        world.get(HAMLET, "<items/>"),
        "bad-request/modify nodeid-required",
    );
    world.configure(HAMLET, &[("persist_items", "0")]).unwrap();
    refused(
        world.items(HAMLET, NODE),
        "feature-not-implemented/cancel unsupported",
    );
    assert!(world.store.is_empty());
}

#[test]
fn section_12_3_who_is_gone_is_no_subscriber_any_more() {
    let mut world = World::denmark();
    world.subscribe(FRANCISCO).unwrap();
    world.subscribe(BERNARDO).unwrap();
    world.publish(HAMLET, "i1").unwrap();
    let notice = world.read_one("francisco@denmark.example");
    let id = notice
        .split_once(" id='")
        .unwrap()
        .1
        .split('\'')
        .next()
        .unwrap();
    let error = |kind: &str, condition: &str| {
        format!(
            "<message type='error' id='{id}'><error type='{kind}'>\
             <{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
        )
    };
    let list = format!("<subscriptions node='{NODE}'/>");
    world.send(
        "francisco@denmark.example",
        &error("wait", "resource-constraint"),
    );
    let before = world.own(HAMLET, "get", &list).unwrap();
    assert_eq!(before.matches("<subscription ").count(), 2);
    world.send(
        "francisco@denmark.example",
        &error("cancel", "item-not-found"),
    );
    let after = world.own(HAMLET, "get", &list).unwrap();
    lacks(&after, &["francisco"]);
    has(&after, &["bernardo"]);
    assert!(world.read(HAMLET).is_empty());
}

#[test]
fn section_12_18_a_lease_ends() {
    let mut world = World::denmark();
    let lease = |end: &str| {
        let form = form("subscribe_options", &[("expire", end)]);
        let subscribe = format!("<subscribe node='{NODE}' jid='francisco@denmark.example'/>");
        format!("{subscribe}<options>{form}</options>")
    };
    let past = lease("2001-09-09T01:46:39Z");
    refused(
        world.set(FRANCISCO, &past),
        "bad-request/modify invalid-options",
    );
    let answer = world
        .set(FRANCISCO, &lease("2001-09-09T01:47:40Z"))
        .unwrap();
    has(&answer, &["<value>2001-09-09T01:47:40Z</value>"]);
    world.publish(HAMLET, "a").unwrap();
    world.read_one("francisco@denmark.example");
    world.later(60);
    world.publish(HAMLET, "b").unwrap();
    assert!(world.mail.is_empty());
    let own = world.get(FRANCISCO, "<subscriptions/>").unwrap();
    lacks(&own, &["<subscription "]);
    assert!(world.event(Event::Sweep));
    let notice = world.read_one("francisco@denmark.example");
    has(&notice, &["subscription='none'"]);
    assert_eq!(
        world
            .service
            .state()
            .node(NODE)
            .unwrap()
            .subscriptions
            .len(),
        0
    );
    // A lease that is too long is cut.
    let answer = world
        .set(FRANCISCO, &lease("2101-01-01T00:00:00Z"))
        .unwrap();
    has(&answer, &["<value>2002-09-09T01:47:40Z</value>"]);
}
