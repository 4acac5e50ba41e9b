//! XEP-0060 section 7: publishing and removing items.

use super::*;

#[test]
fn section_7_1_2_an_item_without_an_id_gets_one() {
    let mut world = World::denmark();
    let publish = format!("<publish node='{NODE}'><item><e xmlns='urn:e'/></item></publish>");
    let first = world.set(HAMLET, &publish).unwrap();
    let second = world.set(HAMLET, &publish).unwrap();
    has(&first, &["<publish node='princely_musings'><item id='"]);
    assert_ne!(first, second);
    assert_eq!(world.items(HAMLET, NODE).unwrap().len(), 2);
}

#[test]
fn section_7_1_2_an_id_that_is_used_again_replaces_the_item() {
    let mut world = World::denmark();
    world.subscribe(FRANCISCO).unwrap();
    for id in ["a", "b", "a"] {
        world.publish(HAMLET, id).unwrap();
    }
    assert_eq!(world.items(HAMLET, NODE).unwrap(), ["b", "a"]);
    assert_eq!(world.read("francisco@denmark.example").len(), 3);
}

#[test]
fn section_7_1_2_the_oldest_item_makes_way() {
    let mut world = World::with_node(&[("max_items", "2")]);
    for id in ["a", "b", "c"] {
        world.publish(HAMLET, id).unwrap();
    }
    assert_eq!(world.items(HAMLET, NODE).unwrap(), ["b", "c"]);
    assert_eq!(world.store.len(), 2);
    world.configure(HAMLET, &[("max_items", "1")]).unwrap();
    assert_eq!(world.items(HAMLET, NODE).unwrap(), ["c"]);
    assert_eq!(world.store.len(), 1);
}

#[test]
fn section_7_1_2_2_a_notification_without_its_payload() {
    let mut world = World::with_node(&[("deliver_payloads", "0")]);
    world.subscribe(FRANCISCO).unwrap();
    world.publish(HAMLET, "a").unwrap();
    let notice = world.read_one("francisco@denmark.example");
    has(&notice, &["<item id='a'/>"]);
    let answer = world
        .get(FRANCISCO, &format!("<items node='{NODE}'/>"))
        .unwrap();
    has(&answer, &["<item id='a'><e xmlns='urn:e'>a</e></item>"]);
    world
        .configure(HAMLET, &[("deliver_notifications", "0")])
        .unwrap();
    world.publish(HAMLET, "b").unwrap();
    assert!(world.mail.is_empty());
}

#[test]
fn section_7_1_2_3_the_publisher_is_named_by_the_service() {
    let mut world = World::with_node(&[("itemreply", "publisher"), ("publish_model", "open")]);
    world.subscribe(FRANCISCO).unwrap();
    let item = "<item id='a' publisher='hamlet@denmark.example'><e xmlns='urn:e'/></item>";
    let publish = format!("<publish node='{NODE}'>{item}</publish>");
    world.set(BERNARDO, &publish).unwrap();
    let notice = world.read_one("francisco@denmark.example");
    has(
        &notice,
        &["<item id='a' publisher='bernardo@denmark.example'>"],
    );
}

#[test]
fn section_7_1_3_publications_are_refused_as_the_text_says() {
    let mut world = World::with_node(&[("max_payload_size", "40"), ("type", "urn:e")]);
    refused(world.publish(FRANCISCO, "a"), "forbidden/auth");
    refused(
        world.publish_at(HAMLET, "x", "a", ""),
        "item-not-found/cancel",
    );
    let mut publish = |content: &str| {
        world.set(
            HAMLET,
            &format!("<publish node='{NODE}'>{content}</publish>"),
        )
    };
    let e = "<e xmlns='urn:e'/>";
    for (content, expected) in [
        (
            format!("<item>{e}{e}</item>"),
            "bad-request/modify invalid-payload",
        ),
        (
            "<item><e xmlns='urn:f'/></item>".to_owned(),
            "bad-request/modify invalid-payload",
        ),
        (
            format!("<item>{e}</item><item>{e}</item>"),
            "bad-request/modify",
        ),
        (
            format!("<item><e xmlns='urn:e'>{}</e></item>", "x".repeat(40)),
            "not-acceptable/modify payload-too-big",
        ),
        (String::new(), "bad-request/modify item-required"),
        (
            "<item id='a'/>".to_owned(),
            "bad-request/modify payload-required",
        ),
        (
            "<item id='a'>text</item>".to_owned(),
            "bad-request/modify payload-required",
        ),
    ] {
        refused(publish(&content), expected);
    }
    refused(
        world.set(HAMLET, "<publish/>"),
        "bad-request/modify nodeid-required",
    );
    assert!(world.store.is_empty());
}

#[test]
fn section_4_3_events_without_items_and_items_that_are_not_kept() {
    let silent = [("persist_items", "0"), ("deliver_payloads", "0")];
    let mut world = World::with_node(&silent);
    world.subscribe(FRANCISCO).unwrap();
    refused(
        world.publish(HAMLET, "a"),
        "bad-request/modify item-forbidden",
    );
    let appends = world.appends;
    world
        .set(HAMLET, &format!("<publish node='{NODE}'/>"))
        .unwrap();
    let notice = world.read_one("francisco@denmark.example");
    has(&notice, &["<items node='princely_musings'/>"]);
    world
        .configure(HAMLET, &[("deliver_payloads", "1")])
        .unwrap();
    world.publish(HAMLET, "a").unwrap();
    has(
        &world.read_one("francisco@denmark.example"),
        &["<item id='a'><e "],
    );
    assert_eq!(world.appends, appends + 1, "the configuration alone");
    refused(
        world.set(
            HAMLET,
            &format!("<retract node='{NODE}'><item id='a'/></retract>"),
        ),
        "feature-not-implemented/cancel unsupported",
    );
    world
        .configure(HAMLET, &[("persist_items", "1"), ("deliver_payloads", "0")])
        .unwrap();
    let empty = format!("<publish node='{NODE}'><item id='e'/></publish>");
    world.set(HAMLET, &empty).unwrap();
    assert_eq!(world.items(HAMLET, NODE).unwrap(), ["e"]);
}

#[test]
fn section_4_1_subscribers_and_everybody_may_publish_where_the_model_says_so() {
    let mut world = World::with_node(&[("publish_model", "subscribers")]);
    refused(world.publish(FRANCISCO, "a"), "forbidden/auth");
    world.subscribe(FRANCISCO).unwrap();
    world.publish(FRANCISCO, "a").unwrap();
    world
        .configure(HAMLET, &[("publish_model", "open")])
        .unwrap();
    world.publish(BERNARDO, "b").unwrap();
    world.affiliate(BERNARDO, "outcast").unwrap();
    refused(world.publish(BERNARDO, "c"), "forbidden/auth");
}

#[test]
fn section_7_1_5_publish_options_are_preconditions() {
    let mut world = World::with_node(&[("access_model", "open"), ("max_items", "3")]);
    let options = |fields| publish_options(fields);
    let met = options(&[
        ("access_model", "open"),
        ("max_items", "3"),
        ("persist_items", "true"),
    ]);
    world.publish_at(HAMLET, NODE, "a", &met).unwrap();
    for unmet in [
        options(&[("access_model", "whitelist")]),
        options(&[("max_items", "max")]),
        options(&[("unheard-of", "1")]),
        options(&[("access_model", "nonsense")]),
    ] {
        let found = world.publish_at(HAMLET, NODE, "b", &unmet);
        refused(found, "conflict/cancel precondition-not-met");
    }
    let wrong = format!(
        "<publish-options>{}</publish-options>",
        form("node_config", &[])
    );
    refused(
        world.publish_at(HAMLET, NODE, "b", &wrong),
        "bad-request/modify",
    );
    refused(
        world.publish_at(HAMLET, NODE, "b", "<publish-options/>"),
        "bad-request/modify",
    );
    assert_eq!(world.items(HAMLET, NODE).unwrap(), ["a"]);
}

#[test]
fn section_7_1_4_a_service_may_make_the_node() {
    let options = Options {
        auto_creates: true,
        ..Options::default()
    };
    let mut world = World::with(SERVICE, options);
    let asked = publish_options(&[("access_model", "whitelist"), ("title", "T")]);
    world.publish_at(HAMLET, NODE, "a", &asked).unwrap();
    let node = world.service.state().node(NODE).unwrap();
    assert_eq!(node.config.access, crate::AccessModel::Whitelist);
    assert_eq!(node.config.title, "T");
    assert_eq!(
        node.owner_addresses().collect::<Vec<_>>(),
        ["hamlet@denmark.example"]
    );
    refused(
        world.publish_at("guest@x/y", "g", "a", ""),
        "item-not-found/cancel",
    );
    let nobody = publish_options(&[("access_model", "nobody")]);
    let found = world.publish_at(HAMLET, "n", "a", &nobody);
    refused(found, "not-acceptable/modify unsupported-access-model");
    assert_eq!(
        world.appends, 1,
        "the node and its first item are one change"
    );
}

#[test]
fn section_7_2_items_are_removed_by_who_published_them_and_by_owners() {
    let mut world = World::with_node(&[("publish_model", "open")]);
    let retract =
        |id: &str, more: &str| format!("<retract node='{NODE}' {more}><item id='{id}'/></retract>");
    world.subscribe("x@y/z").unwrap();
    for (who, id) in [
        (HAMLET, "h1"),
        (HAMLET, "h2"),
        (FRANCISCO, "f1"),
        (BERNARDO, "b1"),
    ] {
        world.publish(who, id).unwrap();
    }
    world.read("x@y");
    world.affiliate(BERNARDO, "publisher").unwrap();
    refused(world.set(FRANCISCO, &retract("h1", "")), "forbidden/auth");
    refused(world.set(BERNARDO, &retract("h1", "")), "forbidden/auth");
    refused(world.set(FRANCISCO, &retract("none", "")), "forbidden/auth");
    refused(
        world.set(BERNARDO, &retract("none", "")),
        "item-not-found/cancel",
    );
    world.set(FRANCISCO, &retract("f1", "")).unwrap();
    world.set(HAMLET, &retract("b1", "")).unwrap();
    assert!(world.mail.is_empty());
    world.set(HAMLET, &retract("h1", "notify='true'")).unwrap();
    has(
        &world.read_one("x@y"),
        &["<items node='princely_musings'><retract id='h1'/></items>"],
    );
    world.configure(HAMLET, &[("notify_retract", "1")]).unwrap();
    world.set(HAMLET, &retract("h2", "notify='0'")).unwrap();
    has(&world.read_one("x@y"), &["<retract id='h2'/>"]);
    assert!(world.store.is_empty());
}

#[test]
fn section_7_1_2_an_item_of_somebody_else_is_not_replaced() {
    let mut world = World::with_node(&[("publish_model", "open"), ("itemreply", "publisher")]);
    world.publish(FRANCISCO, "a").unwrap();
    refused(world.publish(BERNARDO, "a"), "forbidden/auth");
    world.affiliate(BERNARDO, "publisher").unwrap();
    refused(world.publish(BERNARDO, "a"), "forbidden/auth");
    let of_francisco = "<item id='a' publisher='francisco@denmark.example'>";
    let items = format!("<items node='{NODE}'/>");
    has(&world.get(BERNARDO, &items).unwrap(), &[of_francisco]);
    world.publish(FRANCISCO, "a").unwrap();
    // An owner may, as he may remove it; then it is his.
    world.publish(HAMLET, "a").unwrap();
    refused(world.publish(FRANCISCO, "a"), "forbidden/auth");
}

#[test]
fn section_7_2_3_removals_are_refused_as_the_text_says() {
    let mut world = World::denmark();
    world.publish(HAMLET, "a").unwrap();
    let a = "<item id='a'/>";
    for (request, expected) in [
        (
            format!("<retract>{a}</retract>"),
            "bad-request/modify nodeid-required",
        ),
        (
            format!("<retract node='{NODE}'/>"),
            "bad-request/modify item-required",
        ),
        (
            format!("<retract node='{NODE}'><item/></retract>"),
            "bad-request/modify item-required",
        ),
        (
            format!("<retract node='{NODE}'>{a}{a}</retract>"),
            "bad-request/modify",
        ),
        (
            format!("<retract node='{NODE}' notify='x'>{a}</retract>"),
            "bad-request/modify",
        ),
        (
            format!("<retract node='x'>{a}</retract>"),
            "item-not-found/cancel",
        ),
    ] {
        refused(world.set(HAMLET, &request), expected);
    }
    assert_eq!(world.store.len(), 1);
}

#[test]
fn section_8_2_items_that_are_too_old_are_not_there() {
    let mut world = World::with_node(&[("item_expire", "60")]);
    world.publish(HAMLET, "a").unwrap();
    world.later(30);
    world.publish(HAMLET, "b").unwrap();
    assert_eq!(world.items(FRANCISCO, NODE).unwrap(), ["a", "b"]);
    world.later(30);
    assert_eq!(world.items(FRANCISCO, NODE).unwrap(), ["b"]);
    assert_eq!(world.store.len(), 2);
    assert!(world.event(Event::Sweep));
    assert_eq!(world.store.len(), 1);
    world.subscribe(FRANCISCO).unwrap();
    has(
        &world.read_one("francisco@denmark.example"),
        &["<item id='b'>"],
    );
}
