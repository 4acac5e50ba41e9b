//! Every bound of `PubsubLimits`, reached.

use super::*;

const TOO_MANY_NODES: &str = "policy-violation/wait max-nodes-exceeded";
const TOO_MANY_SUBSCRIPTIONS: &str = "policy-violation/wait too-many-subscriptions";

#[test]
fn nodes_of_a_service_and_of_one_creator() {
    let mut world = World::limited(|limits| {
        limits.nodes_max = 3;
        limits.nodes_per_creator_max = 2;
    });
    world.create(HAMLET, "a", &[]).unwrap();
    world.create(HAMLET, "b", &[]).unwrap();
    refused(world.create(HAMLET, "c", &[]), TOO_MANY_NODES);
    world.create(FRANCISCO, "c", &[]).unwrap();
    refused(world.create(BERNARDO, "d", &[]), TOO_MANY_NODES);
    world.own(HAMLET, "set", "<delete node='a'/>").unwrap();
    world.create(BERNARDO, "d", &[]).unwrap();
}

#[test]
fn nodes_that_wait_for_their_record_count_too() {
    let mut world = World::limited(|limits| limits.nodes_max = 1);
    world.decides = None;
    for node in ["a", "b"] {
        world.send(
            HAMLET,
            &format!(
                "<iq type='set' id='q'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
             <create node='{node}'/></pubsub></iq>"
            ),
        );
    }
    refused(world.answer(HAMLET), TOO_MANY_NODES);
    assert_eq!(world.appends, 1);
}

#[test]
fn nodes_of_an_account_made_by_publishing() {
    let mut world = World::account_with(|options| options.limits.nodes_max = 1);
    let own = "juliet@capulet.example/balcony";
    world.publish_at(own, "a", "i", "").unwrap();
    refused(world.publish_at(own, "b", "i", ""), TOO_MANY_NODES);
}

#[test]
fn bytes_of_names_ids_texts_and_payloads() {
    let mut world = World::limited(|limits| {
        limits.node_id_bytes_max = 8;
        limits.item_id_bytes_max = 4;
        limits.text_bytes_max = 16;
        limits.item_bytes_max = 30;
    });
    refused(
        world.create(HAMLET, "123456789", &[]),
        "not-acceptable/modify",
    );
    world.create(HAMLET, "12345678", &[]).unwrap();
    refused(
        world.publish_at(HAMLET, "12345678", "12345", ""),
        "bad-request/modify",
    );
    world.publish_at(HAMLET, "12345678", "1234", "").unwrap();
    let item = format!("<item><e xmlns='urn:e'>{}</e></item>", "x".repeat(30));
    let publish = format!("<publish node='12345678'>{item}</publish>");
    refused(
        world.set(HAMLET, &publish),
        "not-acceptable/modify payload-too-big",
    );
    let found = world.create(HAMLET, "n", &[("title", "12345678901234567")]);
    refused(found, "not-acceptable/modify");
    let uri = "<delete node='12345678'><redirect uri='xmpp:1234567890123'/></delete>";
    refused(world.own(HAMLET, "set", uri), "not-acceptable/modify");
    world
        .create(HAMLET, "n", &[("max_payload_size", "100")])
        .unwrap();
    let config = &world.service.state().node("n").unwrap().config;
    assert_eq!(config.payload_bytes_max, 30);
}

#[test]
fn items_of_a_node() {
    let mut world = World::limited(|limits| limits.items_per_node_max = 2);
    let most = "not-acceptable/modify max-items-exceeded";
    refused(world.create(HAMLET, NODE, &[("max_items", "3")]), most);
    world.create(HAMLET, NODE, &[("max_items", "max")]).unwrap();
    for id in ["a", "b", "c"] {
        world.publish(HAMLET, id).unwrap();
    }
    assert_eq!(world.items(HAMLET, NODE).unwrap(), ["b", "c"]);
}

/// Nodes of one account could take all that the service keeps, and nobody else could publish.
#[test]
fn bytes_of_the_nodes_of_one_creator() {
    // A payload has 22 bytes.
    let mut world = World::limited(|limits| limits.bytes_per_creator_max = 50);
    let open = [("max_items", "5"), ("publish_model", "open")];
    world.create(HAMLET, "a", &open).unwrap();
    world.create(HAMLET, "b", &open).unwrap();
    world.create(FRANCISCO, "c", &open).unwrap();
    world.publish_at(HAMLET, "a", "1", "").unwrap();
    // Whoever publishes.
    world.publish_at(FRANCISCO, "b", "2", "").unwrap();
    let full = "resource-constraint/wait";
    refused(world.publish_at(HAMLET, "a", "3", ""), full);
    refused(world.publish_at(FRANCISCO, "b", "4", ""), full);
    world.publish_at(HAMLET, "c", "5", "").unwrap();
    // What replaces something needs no more room, and what goes makes room, in each way.
    world.publish_at(HAMLET, "a", "1", "").unwrap();
    let retract = "<retract node='a'><item id='1'/></retract>";
    world.set(HAMLET, retract).unwrap();
    world.publish_at(HAMLET, "a", "3", "").unwrap();
    refused(world.publish_at(HAMLET, "b", "4", ""), full);
    world.own(HAMLET, "set", "<purge node='a'/>").unwrap();
    world.publish_at(HAMLET, "b", "4", "").unwrap();
    refused(world.publish_at(HAMLET, "a", "6", ""), full);
    world.own(HAMLET, "set", "<delete node='b'/>").unwrap();
    world.publish_at(HAMLET, "a", "6", "").unwrap();
    world.publish_at(HAMLET, "a", "7", "").unwrap();
    refused(world.publish_at(HAMLET, "a", "8", ""), full);
}

#[test]
fn bytes_of_the_nodes_of_one_creator_that_wait_for_their_record() {
    let mut world = World::limited(|limits| limits.bytes_per_creator_max = 40);
    for node in ["a", "b"] {
        world.create(HAMLET, node, &[]).unwrap();
    }
    world.create(FRANCISCO, "c", &[]).unwrap();
    world.decides = None;
    let publish = |node: &str| {
        format!(
            "<iq type='set' id='q'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
             <publish node='{node}'><item id='z'><e xmlns='urn:e'>z</e></item></publish>\
             </pubsub></iq>"
        )
    };
    world.mail.clear();
    world.send(FRANCISCO, &publish("c"));
    world.send(HAMLET, &publish("a"));
    assert!(world.mail.is_empty(), "both wait");
    world.send(HAMLET, &publish("b"));
    refused(world.answer(HAMLET), "resource-constraint/wait");
}

/// Owners could subscribe strangers with addresses of any length, at each of their nodes.
#[test]
fn bytes_of_the_lists_of_one_creator() {
    for is_account in [false, true] {
        let set = |limits: &mut PubsubLimits| {
            // Two owners, and two entries more.
            limits.list_bytes_per_creator_max = 4 * (64 + 24);
        };
        let (mut world, owner) = match is_account {
            true => {
                let world = World::account_with(|options| set(&mut options.limits));
                (world, "juliet@capulet.example/balcony")
            }
            false => (World::limited(set), HAMLET),
        };
        world.create(owner, "a", &[]).unwrap();
        world.create(owner, "b", &[]).unwrap();
        let change = |node: &str, who: &str, is_list: bool| {
            let (list, entry, value) = match is_list {
                true => ("subscriptions", "subscription", "subscribed"),
                false => ("affiliations", "affiliation", "member"),
            };
            format!("<{list} node='{node}'><{entry} jid='{who}' {entry}='{value}'/></{list}>")
        };
        let long = "a-stranger-with-24@x.y.z";
        let other = "another-stranger-of-24@x";
        assert_eq!((long.len(), other.len()), (24, 24));
        world.own(owner, "set", &change("a", long, true)).unwrap();
        world.own(owner, "set", &change("b", long, false)).unwrap();
        let full = "not-acceptable/modify";
        refused(world.own(owner, "set", &change("b", other, true)), full);
        refused(world.own(owner, "set", &change("a", other, false)), full);
        // Who is there already may become something else, and who goes makes room.
        let ends = change("a", long, true).replace("'subscribed'", "'none'");
        world.own(owner, "set", &ends).unwrap();
        world.own(owner, "set", &change("b", other, true)).unwrap();
        refused(world.own(owner, "set", &change("a", long, true)), full);
        let ends = change("b", long, false).replace("'member'", "'none'");
        world.own(owner, "set", &ends).unwrap();
        world.own(owner, "set", &change("a", long, true)).unwrap();
        refused(world.own(owner, "set", &change("a", other, false)), full);
        world.own(owner, "set", "<delete node='b'/>").unwrap();
        world.own(owner, "set", &change("a", other, false)).unwrap();
        // Others subscribe themselves all the same, if it is a node for all.
        if !is_account {
            world
                .set(
                    FRANCISCO,
                    "<subscribe node='a' jid='francisco@denmark.example'/>",
                )
                .unwrap();
        }
    }
}

/// A record of removed items names so many at once.
#[test]
fn items_that_make_way_for_a_new_configuration() {
    let mut world = World::limited(|limits| limits.entries_max = 2);
    world.create(HAMLET, NODE, &[("max_items", "9")]).unwrap();
    for id in ["a", "b", "c", "d", "e", "f"] {
        world.publish(HAMLET, id).unwrap();
    }
    let before = world.journal.len();
    world.configure(HAMLET, &[("max_items", "1")]).unwrap();
    assert_eq!(world.items(HAMLET, NODE).unwrap(), ["f"]);
    let retracted = world.journal[before..]
        .iter()
        .filter_map(|record| match record {
            Record::Retracted { items, .. } => Some(items.len()),
            _ => None,
        });
    assert_eq!(retracted.collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(world.store.len(), 1);
}

#[test]
fn bytes_of_everything() {
    // A payload has 22 bytes.
    let mut world = World::limited(|limits| limits.bytes_max = 60);
    world.create(HAMLET, NODE, &[("max_items", "5")]).unwrap();
    world.create(HAMLET, "n", &[("max_items", "1")]).unwrap();
    world.publish(HAMLET, "a").unwrap();
    world.publish_at(HAMLET, "n", "b", "").unwrap();
    refused(world.publish(HAMLET, "c"), "resource-constraint/wait");
    // What replaces something needs no more room.
    world.publish(HAMLET, "a").unwrap();
    world.publish_at(HAMLET, "n", "c", "").unwrap();
    world.own(HAMLET, "set", "<purge node='n'/>").unwrap();
    world.publish(HAMLET, "c").unwrap();
    assert_eq!(world.service.state().bytes(), 44);
    world.decides = None;
    world.service.options = Arc::new(Options {
        limits: PubsubLimits {
            bytes_max: 72,
            ..PubsubLimits::SERVICE
        },
        ..Options::default()
    });
    let publish = |node: &str| {
        let item = "<item id='z'><e xmlns='urn:e'>z</e></item>";
        format!(
            "<iq type='set' id='q'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
             <publish node='{node}'>{item}</publish></pubsub></iq>"
        )
    };
    world.mail.clear();
    world.send(HAMLET, &publish(NODE));
    world.send(HAMLET, &publish("n"));
    refused(world.answer(HAMLET), "resource-constraint/wait");
}

#[test]
fn subscriptions_of_a_node_and_of_one_address() {
    let mut world = World::limited(|limits| {
        limits.subscriptions_per_node_max = 3;
        limits.subscriptions_per_address_max = 2;
    });
    world.create(HAMLET, NODE, &[]).unwrap();
    let subscribe = |resource: &str| {
        format!("<subscribe node='{NODE}' jid='francisco@denmark.example/{resource}'/>")
    };
    world.set(FRANCISCO, &subscribe("a")).unwrap();
    world.set(FRANCISCO, &subscribe("b")).unwrap();
    refused(
        world.set(FRANCISCO, &subscribe("c")),
        TOO_MANY_SUBSCRIPTIONS,
    );
    world.set(FRANCISCO, &subscribe("a")).unwrap();
    world.subscribe(BERNARDO).unwrap();
    refused(world.subscribe(HAMLET), TOO_MANY_SUBSCRIPTIONS);
    let list = |what: &str| {
        format!(
            "<subscriptions node='{NODE}'><subscription jid='x@y' subscription='{what}'/>\
             </subscriptions>"
        )
    };
    refused(
        world.own(HAMLET, "set", &list("subscribed")),
        "not-acceptable/modify",
    );
    world.own(HAMLET, "set", &list("none")).unwrap();
}

#[test]
fn approvals_that_owners_are_asked_for() {
    let mut world = World::limited(|limits| limits.approvals_per_minute_max = 2);
    for node in [NODE, "n"] {
        let fields = [("access_model", "authorize")];
        world.create(HAMLET, node, &fields).unwrap();
    }
    let ask =
        |kind: &str, node: &str| format!("<{kind} node='{node}' jid='francisco@denmark.example'/>");
    for _ in 0..2 {
        world.set(FRANCISCO, &ask("subscribe", NODE)).unwrap();
        world.set(FRANCISCO, &ask("unsubscribe", NODE)).unwrap();
    }
    let found = world.set(FRANCISCO, &ask("subscribe", NODE));
    refused(found, "resource-constraint/wait");
    let asked = world.read("hamlet@denmark.example");
    assert_eq!(asked.len(), 2, "{asked:?}");
    // Other nodes have their own, and so has the next minute.
    world.set(FRANCISCO, &ask("subscribe", "n")).unwrap();
    world.later(60);
    world.set(FRANCISCO, &ask("subscribe", NODE)).unwrap();
}

/// Those who are gone cost a change together, not one each, and nobody waits for them.
#[test]
fn notifications_that_come_back_while_their_node_changes() {
    let mut world = World::limited(|limits| limits.sweep_max = 3);
    world.create(HAMLET, NODE, &[]).unwrap();
    let gone = |n: usize| format!("u{n}@denmark.example/x");
    for n in 0..6 {
        let subscribe = format!("<subscribe node='{NODE}' jid='{}'/>", gone(n));
        world.set(&gone(n), &subscribe).unwrap();
    }
    world.publish(HAMLET, "a").unwrap();
    let notice = world.read(&gone(0)).pop().unwrap();
    let (_, id) = notice.split_once("id='").unwrap();
    let (id, _) = id.split_once('\'').unwrap();
    let error = "<error type='cancel'><service-unavailable \
                 xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";
    let back = format!("<message type='error' id='{id}'>{error}</message>");
    world.decides = None;
    let before = world.appends;
    for n in 0..6 {
        assert!(world.try_send(&gone(n), &back), "nobody waits");
        assert!(n == 0 || world.try_send(&gone(n), &back), "once is enough");
    }
    // The first is being ended, three wait, and two stay until they are told again.
    assert_eq!(world.appends, before + 1);
    for appends in [before + 2, before + 2] {
        assert!(world.event(Event::Decided { is_committed: true }));
        assert_eq!(world.appends, appends);
    }
    let node = world.service.state().node(NODE).unwrap();
    let left = (0..6).filter(|n| node.subscription(&gone(*n), START).is_some());
    assert_eq!(left.collect::<Vec<_>>(), [4, 5]);
    assert!(world.service.is_idle());
}

#[test]
fn affiliations_of_a_node_and_entries_of_a_request() {
    let mut world = World::limited(|limits| {
        limits.affiliations_per_node_max = 3;
        limits.entries_max = 3;
        limits.page_entries_max = 2;
    });
    world.create(HAMLET, NODE, &[]).unwrap();
    world.affiliate("a@x", "member").unwrap();
    world.affiliate("b@x", "member").unwrap();
    refused(world.affiliate("c@x", "member"), "not-acceptable/modify");
    world.affiliate("b@x", "publisher").unwrap();
    let entries = "<affiliation jid='a@x' affiliation='none'/>".repeat(4);
    let list = format!("<affiliations node='{NODE}'>{entries}</affiliations>");
    refused(world.own(HAMLET, "set", &list), "not-acceptable/modify");
    let list = format!("<affiliations node='{NODE}'/>");
    let answer = world.own(HAMLET, "get", &list).unwrap();
    has(
        &answer,
        &["<first index='0'>a@x</first><last>b@x</last><count>3</count>"],
    );
    let set = "<set xmlns='http://jabber.org/protocol/rsm'><after>b@x</after></set>";
    let answer = world.own(HAMLET, "get", &format!("{list}{set}")).unwrap();
    has(
        &answer,
        &["<affiliation jid='hamlet@denmark.example' affiliation='owner'/>"],
    );
}

#[test]
fn pages_of_items_nodes_and_what_one_has() {
    let mut world = World::limited(|limits| {
        limits.page_entries_max = 3;
        limits.entries_max = 3;
        limits.page_bytes_max = 350;
    });
    for node in ["a", "b", "c", NODE] {
        world.create(HAMLET, node, &[]).unwrap();
    }
    for id in ["1", "2", "3", "4"] {
        world.publish(HAMLET, id).unwrap();
    }
    assert_eq!(world.items(HAMLET, NODE).unwrap(), ["1", "2", "3"]);
    let ids = "<item id='1'/>".repeat(4);
    let items = format!("<items node='{NODE}'>{ids}</items>");
    refused(world.get(HAMLET, &items), "not-acceptable/modify");
    let query = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    let answer = world.ask(HAMLET, "get", query).unwrap();
    assert_eq!(answer.matches("<item ").count(), 3);
    has(
        &answer,
        &["<first index='0'>a</first><last>c</last><count>4</count>"],
    );
    let answer = world.get(HAMLET, "<affiliations/>").unwrap();
    assert_eq!(answer.matches("<affiliation ").count(), 3);
    has(&answer, &["<count>4</count>"]);
    let set = "<set xmlns='http://jabber.org/protocol/rsm'><after>c</after></set>";
    let answer = world.get(HAMLET, &format!("<affiliations/>{set}")).unwrap();
    has(&answer, &["node='princely_musings'"]);
}

/// Whatever an entry says counts: payloads, names, addresses, and the escapes in them.
#[test]
fn bytes_of_every_answer() {
    const PAGE: usize = 2_000;
    let mut world = World::limited(|limits| {
        limits.page_bytes_max = PAGE as u64;
        limits.text_bytes_max = 200;
    });
    let title = "&lt;".repeat(100);
    let long = |n: usize| format!("{n}{}", "n".repeat(300));
    let id = |n: usize| format!("{n}{}", "&amp;".repeat(100));
    for n in 1..=9 {
        let fields = [("title", title.as_str()), ("access_model", "authorize")];
        world.create(HAMLET, &long(n), &fields).unwrap();
    }
    world
        .create(HAMLET, NODE, &[("access_model", "authorize")])
        .unwrap();
    for n in 1..=9 {
        world.publish(HAMLET, &id(n)).unwrap();
        world
            .affiliate(&format!("{}@x", long(n)), "member")
            .unwrap();
        let list = format!(
            "<subscriptions node='{NODE}'><subscription jid='{}@x' subscription='subscribed'/>\
             </subscriptions>",
            long(n)
        );
        world.own(HAMLET, "set", &list).unwrap();
        let subscribe = format!(
            "<subscribe node='{}' jid='francisco@denmark.example'/>",
            long(n)
        );
        world.set(FRANCISCO, &subscribe).unwrap();
    }
    let items = "http://jabber.org/protocol/disco#items";
    let command = "<command xmlns='http://jabber.org/protocol/commands' \
                   node='http://jabber.org/protocol/pubsub#get-pending'/>";
    let own = |content: &str| format!("<pubsub xmlns='{NS}#owner'>{content}</pubsub>");
    let open = |content: &str| format!("<pubsub xmlns='{NS}'>{content}</pubsub>");
    for (who, kind, question, entry) in [
        (HAMLET, "get", format!("<query xmlns='{items}'/>"), "<item "),
        (
            HAMLET,
            "get",
            format!("<query xmlns='{items}' node='{NODE}'/>"),
            "<item ",
        ),
        (
            HAMLET,
            "get",
            open(&format!("<items node='{NODE}'/>")),
            "<item ",
        ),
        (
            HAMLET,
            "get",
            own(&format!("<affiliations node='{NODE}'/>")),
            "<affiliation ",
        ),
        (
            HAMLET,
            "get",
            own(&format!("<subscriptions node='{NODE}'/>")),
            "<subscription ",
        ),
        (FRANCISCO, "get", open("<subscriptions/>"), "<subscription "),
        (HAMLET, "get", open("<affiliations/>"), "<affiliation "),
        (HAMLET, "set", command.to_owned(), "<option "),
    ] {
        let answer = world.ask(who, kind, &question).unwrap();
        let entries = answer.matches(entry).count();
        assert!((1..9).contains(&entries), "{entries} {entry}in {question}");
        // Beside its entries it has a head, and first and last of them once more.
        let most = PAGE + 2 * 700 + 512;
        assert!(answer.len() <= most, "{} bytes: {question}", answer.len());
    }
}

#[test]
fn leases_are_cut_and_interests_and_moved_nodes_are_so_many() {
    let mut world = World::limited(|limits| {
        limits.lease_days_max = 1;
        limits.moved_max = 1;
    });
    world.create(HAMLET, NODE, &[]).unwrap();
    let form = form("subscribe_options", &[("expire", "2050-01-01T00:00:00Z")]);
    let subscribe = format!("<subscribe node='{NODE}' jid='{FRANCISCO}'/>");
    let answer = world
        .set(FRANCISCO, &format!("{subscribe}<options>{form}</options>"))
        .unwrap();
    has(&answer, &["<value>2001-09-10T01:46:40Z</value>"]);
    for node in ["a", "b"] {
        world.create(HAMLET, node, &[]).unwrap();
        let delete = format!("<delete node='{node}'><redirect uri='xmpp:x'/></delete>");
        world.own(HAMLET, "set", &delete).unwrap();
    }
    let moved = |node| world.service.state().moved_to(node);
    assert_eq!((moved("a"), moved("b")), (None, Some("xmpp:x")));

    let mut world = World::account_with(|options| options.limits.interests_max = 1);
    let own = "juliet@capulet.example/balcony";
    for node in ["a", "b"] {
        world.publish_at(own, node, "i", "").unwrap();
    }
    world.mail.clear();
    let interests = vec!["a".into(), "b".into()];
    assert!(world.event(Event::Available {
        session: own.into(),
        interests
    }));
    has(&world.read_one(own), &["<items node='a'>"]);
}

#[test]
fn what_waits_for_the_journal_and_for_the_store() {
    let mut world = World::limited(|limits| {
        limits.pending_max = 1;
        limits.fetches_max = 1;
    });
    world.create(HAMLET, NODE, &[]).unwrap();
    world.publish(HAMLET, "a").unwrap();
    let stanza = |content: &str| {
        format!(
            "<iq type='get' id='q'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
             {content}</pubsub></iq>"
        )
    };
    let items = stanza(&format!("<items node='{NODE}'/>"));
    world.reads = false;
    assert!(world.try_send(FRANCISCO, &items));
    assert!(!world.try_send(FRANCISCO, &items));
    let interests = Vec::new();
    assert!(!world.event(Event::Available {
        session: FRANCISCO.into(),
        interests
    }));
    world.read_store();
    world.answer(FRANCISCO).unwrap();
    world.decides = None;
    let create = |node: &str| stanza(&format!("<create node='{node}'/>")).replace("'get'", "'set'");
    assert!(world.try_send(HAMLET, &create("b")));
    assert!(!world.try_send(HAMLET, &create("c")));
    assert!(world.event(Event::Decided { is_committed: true }));
    assert!(world.try_send(HAMLET, &create("c")));
}

#[test]
fn a_sweep_removes_so_much_and_the_next_one_goes_on() {
    let mut world = World::limited(|limits| limits.sweep_max = 2);
    world
        .create(HAMLET, NODE, &[("item_expire", "60")])
        .unwrap();
    for id in ["a", "b", "c"] {
        world.publish(HAMLET, id).unwrap();
    }
    world.later(60);
    for left in [1, 0, 0] {
        assert!(world.event(Event::Sweep));
        assert_eq!(world.store.len(), left);
    }
}

#[test]
fn the_last_items_of_many_nodes_are_asked_for_as_there_is_room() {
    let mut world = World::account_with(|options| options.limits.fetches_max = 2);
    let own = "juliet@capulet.example/balcony";
    for node in ["a", "b", "c"] {
        world.publish_at(own, node, "i", "").unwrap();
    }
    world.mail.clear();
    world.reads = false;
    let interests = vec!["a".into(), "b".into(), "c".into()];
    let available = |session: &str| Event::Available {
        session: session.into(),
        interests: interests.clone(),
    };
    assert!(world.event(available(own)));
    assert_eq!(world.asked.len(), 2);
    let other = "juliet@capulet.example/orchard";
    assert!(!world.event(available(other)), "it waits for the first one");
    world.read_store();
    assert_eq!(world.asked.len(), 1);
    world.read_store();
    assert_eq!(world.read(own).len(), 3);
    assert!(world.event(available(other)));
    world.read_store();
    world.read_store();
    assert_eq!(world.read(other).len(), 3);
}
