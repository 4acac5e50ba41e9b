//! What is durable: records, what waits for them, and what a failed append leaves behind.

use super::*;

/// What the journal makes is what the service has.
#[track_caller]
fn same_as_journal(world: &World) {
    let loaded = State::of(world.journal.clone(), &Options::default());
    let state = world.service.state();
    assert_eq!(loaded.bytes(), state.bytes());
    assert_eq!(loaded.next, state.next);
    assert_eq!(loaded.len(), state.len());
    for ((name, one), (other_name, other)) in loaded.nodes().zip(state.nodes()) {
        assert_eq!(
            (name, format!("{one:?}")),
            (other_name, format!("{other:?}"))
        );
    }
}

#[test]
fn a_service_is_what_its_records_make() {
    let mut world = World::with_node(&[("access_model", "authorize")]);
    world.create(HAMLET, "second", &[]).unwrap();
    world.subscribe(FRANCISCO).unwrap();
    world.affiliate(FRANCISCO, "publisher").unwrap();
    world.affiliate(BERNARDO, "outcast").unwrap();
    for id in ["a", "b", "a"] {
        world.publish(FRANCISCO, id).unwrap();
    }
    world
        .configure(HAMLET, &[("max_items", "1"), ("title", "T")])
        .unwrap();
    same_as_journal(&world);
    let redirect = "<delete node='second'><redirect uri='xmpp:x'/></delete>";
    world.own(HAMLET, "set", redirect).unwrap();
    same_as_journal(&world);
    assert_eq!(world.service.state().moved_to("second"), Some("xmpp:x"));
    let stored: usize = world.store.values().map(|item| item.payload.len()).sum();
    assert_eq!(world.service.state().bytes(), stored as u64);
    assert!(world.service.is_idle());
}

/// A store that lists items without reading their payloads, in any order.
#[test]
fn a_service_is_loaded_without_payloads() {
    let mut world = World::denmark();
    for id in ["a", "b", "c"] {
        world.publish(HAMLET, id).unwrap();
    }
    let options = Options::default();
    let made = |record: &&Record| matches!(record, Record::Created { .. });
    let records = world.journal.iter().filter(made).cloned();
    let mut loaded = State::of(records, &options);
    let node = world.service.state().node(NODE).unwrap();
    let metas: Vec<_> = node.all_items().cloned().collect();
    for meta in metas.into_iter().rev() {
        loaded.add_item(NODE, meta.clone());
        loaded.add_item("nowhere", meta);
    }
    let state = world.service.state();
    assert_eq!((loaded.bytes(), loaded.next), (state.bytes(), state.next));
    assert_eq!(
        format!("{:?}", loaded.node(NODE)),
        format!("{:?}", state.node(NODE))
    );
    world.service = Service::new(SERVICE, loaded, Arc::new(options), [1, 2]);
    assert_eq!(world.items(FRANCISCO, NODE).unwrap(), ["a", "b", "c"]);
}

#[test]
fn nothing_leaves_before_its_records_are_durable() {
    let mut world = World::with_node(&[("item_expire", "60")]);
    world.subscribe(FRANCISCO).unwrap();
    world.publish(HAMLET, "old").unwrap();
    world.mail.clear();
    world.decides = None;
    let item = "<item id='a'><e xmlns='urn:e'/></item>";
    let publish = |node: &str| {
        format!(
            "<iq type='set' id='q'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
             <publish node='{node}'>{item}</publish></pubsub></iq>"
        )
    };
    world.send(HAMLET, &publish(NODE));
    assert!(world.mail.is_empty());
    assert!(!world.service.is_idle());
    assert_eq!(world.service.state().bytes(), 24);
    // The node is busy; others are not.
    assert!(!world.try_send(HAMLET, &publish(NODE)));
    let items = "<iq type='get' id='q'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
                 <items node='princely_musings'/></pubsub></iq>";
    assert!(!world.try_send(FRANCISCO, items));
    let bare = Arc::from("francisco@denmark.example");
    assert!(!world.event(Event::Related { bare }));
    // A sweep leaves it alone.
    world.later(1_000_000);
    let appends = world.appends;
    assert!(world.event(Event::Sweep));
    assert_eq!(world.appends, appends);
    world.send(HAMLET, &publish("other"));
    assert_eq!(
        condition(&world.read_one(HAMLET)).unwrap(),
        "item-not-found/cancel"
    );
    let records = world.service.undecided().cloned().collect();
    world.keep(records);
    assert!(world.event(Event::Decided { is_committed: true }));
    has(&world.read_one(HAMLET), &["type='result'"]);
    world.read_one("francisco@denmark.example");
    same_as_journal(&world);
}

#[test]
fn changes_at_several_nodes_wait_side_by_side() {
    let mut world = World::new();
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
    assert_eq!(world.appends, 2);
    assert!(world.event(Event::Decided {
        is_committed: false
    }));
    let answer = world.read_one(HAMLET);
    assert_eq!(condition(&answer).unwrap(), "resource-constraint/wait");
    assert!(world.event(Event::Decided { is_committed: true }));
    has(&world.read_one(HAMLET), &["type='result'"]);
    let names: Vec<&str> = world
        .service
        .state()
        .nodes()
        .map(|(name, _)| &**name)
        .collect();
    assert_eq!(names, ["b"]);
    assert!(
        world.event(Event::Decided { is_committed: true }),
        "a decision too many"
    );
}

#[test]
fn a_change_that_fails_has_changed_nothing() {
    let mut world = World::denmark();
    world.subscribe(FRANCISCO).unwrap();
    world.publish(HAMLET, "a").unwrap();
    world.mail.clear();
    world.decides = Some(false);
    let failed = "resource-constraint/wait";
    refused(world.publish(HAMLET, "b"), failed);
    refused(world.affiliate(FRANCISCO, "outcast"), failed);
    refused(world.configure(HAMLET, &[("title", "T")]), failed);
    refused(world.subscribe(BERNARDO), failed);
    let delete = format!("<delete node='{NODE}'/>");
    refused(world.own(HAMLET, "set", &delete), failed);
    assert!(world.mail.is_empty());
    assert_eq!(world.items(FRANCISCO, NODE).unwrap(), ["a"]);
    same_as_journal(&world);
}

#[test]
fn items_that_cannot_be_read_are_an_error_that_passes() {
    let mut world = World::denmark();
    world.publish(HAMLET, "a").unwrap();
    world.reads = false;
    world.send(
        FRANCISCO,
        &format!(
            "<iq type='get' id='q'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <items node='{NODE}'/></pubsub></iq>"
        ),
    );
    assert!(!world.service.is_idle());
    let (ticket, ..) = world.asked.remove(0);
    assert!(world.event(Event::Fetched {
        ticket,
        items: None
    }));
    refused(world.answer(FRANCISCO), "resource-constraint/wait");
    assert!(
        world.event(Event::Fetched {
            ticket,
            items: None
        }),
        "an answer too many"
    );
    assert!(world.mail.is_empty() && world.service.is_idle());
}

/// Equal configurations are kept once, as long as they are among those seen last.
#[test]
fn configurations_seen_last_are_shared() {
    let mut world = World::new();
    for n in 0..10 {
        world
            .create(HAMLET, &format!("a{n}"), &[("title", &format!("T{n}"))])
            .unwrap();
    }
    world.create(HAMLET, "first", &[("title", "T0")]).unwrap();
    world.create(HAMLET, "last", &[("title", "T9")]).unwrap();
    let config = |node: &str| &world.service.state().node(node).unwrap().config;
    assert!(Arc::ptr_eq(config("last"), config("a9")));
    assert!(!Arc::ptr_eq(config("first"), config("a0")));
    assert_eq!(config("first"), config("a0"));
}
