//! XEP-0060 sections 8.1 to 8.7: creating, configuring, deleting and purging nodes, and the command
//! for pending subscriptions.

use super::*;

#[test]
fn section_8_1_nodes_are_made() {
    let mut world = World::new();
    let answer = world
        .set(HAMLET, &format!("<create node='{NODE}'/>"))
        .unwrap();
    lacks(&answer, &["<create"]);
    refused(
        world.set(FRANCISCO, &format!("<create node='{NODE}'/>")),
        "conflict/cancel",
    );
    refused(
        world.set("guest@x/y", "<create node='g'/>"),
        "forbidden/auth",
    );
    let instant = world.set(HAMLET, "<create/>").unwrap();
    let other = world.set(HAMLET, "<create/>").unwrap();
    has(
        &instant,
        &["<pubsub xmlns='http://jabber.org/protocol/pubsub'><create node='"],
    );
    assert_ne!(instant, other);
    assert_eq!(world.service.state().len(), 3);
}

#[test]
fn section_8_1_3_nodes_are_made_with_a_configuration() {
    let mut world = World::new();
    world
        .create(
            HAMLET,
            NODE,
            &[("title", "T"), ("access_model", "whitelist")],
        )
        .unwrap();
    let config = &world.service.state().node(NODE).unwrap().config;
    assert_eq!(
        (&*config.title, config.access),
        ("T", crate::AccessModel::Whitelist)
    );
    for (fields, expected) in [
        (
            ("access_model", "x"),
            "not-acceptable/modify unsupported-access-model",
        ),
        (
            ("node_type", "collection"),
            "feature-not-implemented/cancel unsupported",
        ),
        (("max_items", "many"), "not-acceptable/modify"),
    ] {
        refused(world.create(HAMLET, "n", &[fields]), expected);
    }
    let form = form("node_config", &[]);
    let named = format!("<create node='n'/><configure node='n'>{form}</configure>");
    refused(world.set(HAMLET, &named), "bad-request/modify");
    let before = format!("<configure>{form}</configure><create node='n'/>");
    refused(world.set(HAMLET, &before), "bad-request/modify");
    let old = "<create node='n' type='collection'/>";
    refused(
        world.set(HAMLET, old),
        "feature-not-implemented/cancel unsupported",
    );
    assert_eq!(world.service.state().len(), 1);
}

#[test]
fn section_8_2_owners_configure() {
    let mut world = World::denmark();
    let get = format!("<configure node='{NODE}'/>");
    let answer = world.own(HAMLET, "get", &get).unwrap();
    has(
        &answer,
        &[
            "pubsub#node_config",
            "<field var='pubsub#access_model' type='list-single'",
        ],
    );
    refused(world.own(FRANCISCO, "get", &get), "forbidden/auth");
    refused(
        world.own(HAMLET, "get", "<configure/>"),
        "bad-request/modify nodeid-required",
    );
    refused(
        world.own(HAMLET, "get", "<configure node='x'/>"),
        "item-not-found/cancel",
    );
    refused(
        world.configure(FRANCISCO, &[("title", "F")]),
        "forbidden/auth",
    );
    refused(
        world.configure(HAMLET, &[("title", "F"), ("max_items", "x")]),
        "not-acceptable/modify",
    );
    assert_eq!(world.service.state().node(NODE).unwrap().config.title, "");
    let cancel = "<x xmlns='jabber:x:data' type='cancel'/>";
    let cancel = format!("<configure node='{NODE}'>{cancel}</configure>");
    world.own(HAMLET, "set", &cancel).unwrap();
    let appends = world.appends;
    world.configure(HAMLET, &[]).unwrap();
    assert_eq!(world.appends, appends, "nothing has changed");
}

#[test]
fn section_8_2_5_3_subscribers_hear_of_a_configuration() {
    let mut world = World::with_node(&[("notify_config", "1")]);
    world.subscribe(FRANCISCO).unwrap();
    world.configure(HAMLET, &[("title", "T")]).unwrap();
    let notice = world.read_one("francisco@denmark.example");
    has(
        &notice,
        &[
            "<configuration node='princely_musings'><x ",
            "type='result'",
            ">T</value>",
        ],
    );
    world
        .configure(HAMLET, &[("deliver_payloads", "0")])
        .unwrap();
    let notice = world.read_one("francisco@denmark.example");
    has(&notice, &["<configuration node='princely_musings'/>"]);
}

fn state_of(world: &World, who: &str) -> crate::SubscriptionState {
    let node = world.service.state().node(NODE).unwrap();
    let subscription = node.subscription(xmpp::addr::bare_part(who), world.now);
    subscription.map_or(crate::SubscriptionState::None, |one| one.state)
}

/// Sections 4.5 and 12.14.
#[test]
fn who_may_not_enter_under_a_new_access_model_is_no_subscriber() {
    use crate::SubscriptionState::{None, Pending, Subscribed};
    // Francisco is a stranger, Bernardo a member, both subscribed; a friend has subscribed too.
    const FRIEND: &str = "friend@denmark.example/a";
    for (access, stranger, friend) in [
        ("open", Subscribed, Subscribed),
        ("authorize", Subscribed, Subscribed),
        ("presence", None, Subscribed),
        ("roster", None, Subscribed),
        ("whitelist", None, None),
    ] {
        let mut world = World::denmark();
        let groups = BTreeSet::from(["friends".to_owned()]);
        let friend_bare = xmpp::addr::bare_part(FRIEND).to_owned();
        world.roster.contacts.insert(friend_bare, groups);
        world.affiliate(BERNARDO, "member").unwrap();
        for who in [FRANCISCO, BERNARDO, FRIEND] {
            world.subscribe(who).unwrap();
        }
        world.mail.clear();
        let fields = [
            ("access_model", access),
            ("roster_groups_allowed", "friends"),
        ];
        world.configure(HAMLET, &fields).unwrap();
        for (who, expected) in [
            (FRANCISCO, stranger),
            (BERNARDO, Subscribed),
            (FRIEND, friend),
        ] {
            assert_eq!(state_of(&world, who), expected, "{who} {access}");
            let told = world.read(xmpp::addr::bare_part(who));
            assert_eq!(told.len(), usize::from(expected == None), "{told:?}");
            for one in told {
                has(
                    &one,
                    &[
                        "<subscription node='princely_musings'",
                        "subscription='none'",
                    ],
                );
            }
        }
    }
    // Who waits does so only where owners approve.
    for (access, expected) in [
        ("authorize", Pending),
        ("open", Subscribed),
        ("whitelist", None),
    ] {
        let mut world = World::with_node(&[("access_model", "authorize")]);
        world.publish(HAMLET, "a").unwrap();
        world.subscribe(FRANCISCO).unwrap();
        world.mail.clear();
        let fields = [("access_model", access), ("title", "T")];
        world.configure(HAMLET, &fields).unwrap();
        assert_eq!(state_of(&world, FRANCISCO), expected, "{access}");
        let told = world.read("francisco@denmark.example");
        // Who becomes a subscriber gets the last item too.
        let count =
            [0, 1, 2][usize::from(expected != Pending) + usize::from(expected == Subscribed)];
        assert_eq!(told.len(), count, "{access} {told:?}");
    }
}

#[test]
fn who_could_enter_as_a_member_alone_is_no_subscriber_without_that() {
    use crate::SubscriptionState::{None, Subscribed};
    for (access, expected) in [("open", Subscribed), ("whitelist", None)] {
        let mut world = World::with_node(&[("access_model", access)]);
        world.affiliate(BERNARDO, "member").unwrap();
        world.subscribe(BERNARDO).unwrap();
        world.mail.clear();
        world.affiliate(BERNARDO, "none").unwrap();
        assert_eq!(state_of(&world, BERNARDO), expected, "{access}");
        let told = world.read("bernardo@denmark.example");
        assert_eq!(told.len(), usize::from(expected == None), "{told:?}");
    }
}

/// At the bound of one commit, and where one of them fails.
#[test]
fn many_subscriptions_end_in_several_commits() {
    let guard = |n: usize| format!("guard{n}@denmark.example");
    let crowd = || {
        let mut world = World::limited(|limits| limits.sweep_max = 2);
        world.create(HAMLET, NODE, &[]).unwrap();
        for n in 0..5 {
            world.subscribe(&format!("{}/a", guard(n))).unwrap();
        }
        world.mail.clear();
        world.appends = 0;
        world
    };
    let closed = [("access_model", "whitelist")];
    let mut world = crowd();
    world.configure(HAMLET, &closed).unwrap();
    assert_eq!(
        (
            world.appends,
            world.service.state().node(NODE).unwrap().subscribers()
        ),
        (3, 0)
    );
    for n in 0..5 {
        has(&world.read_one(&guard(n)), &["subscription='none'"]);
    }
    // The second one fails: those who are left hear of nothing, and go with the next access model.
    let mut world = crowd();
    world.decides = None;
    world.send(HAMLET, &configuration(&closed));
    for is_committed in [true, false] {
        let records = world.service.undecided().cloned().collect();
        if is_committed {
            world.keep(records);
        }
        assert!(
            !world.try_send(HAMLET, &configuration(&closed)),
            "it is busy"
        );
        assert!(world.event(Event::Decided { is_committed }));
    }
    world.decides = Some(true);
    assert!(world.service.is_idle());
    assert_eq!(world.mail.len(), 3, "{:?}", world.mail);
    world.mail.clear();
    world.publish(HAMLET, "a").unwrap();
    assert!(world.mail.is_empty(), "{:?}", world.mail);
    world
        .configure(HAMLET, &[("access_model", "presence")])
        .unwrap();
    assert_eq!(world.service.state().node(NODE).unwrap().subscribers(), 0);
    assert_eq!(world.mail.len(), 3, "{:?}", world.mail);
}

fn configuration(fields: &[(&str, &str)]) -> String {
    let form = form("node_config", fields);
    format!(
        "<iq type='set' id='q'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>\
         <configure node='{NODE}'>{form}</configure></pubsub></iq>"
    )
}

#[test]
fn section_8_3_the_default_configuration() {
    let mut world = World::new();
    let answer = world.own(FRANCISCO, "get", "<default/>").unwrap();
    has(
        &answer,
        &[
            "<default><x ",
            "<field var='pubsub#max_items'",
            "<value>10</value>",
        ],
    );
}

#[test]
fn section_8_4_a_node_is_deleted_and_says_where_it_is_now() {
    let mut world = World::with_node(&[("access_model", "authorize")]);
    world.affiliate(BERNARDO, "member").unwrap();
    world.subscribe(BERNARDO).unwrap();
    world.subscribe(FRANCISCO).unwrap();
    world.publish(HAMLET, "a").unwrap();
    world.mail.clear();
    let delete = |inside: &str| format!("<delete node='{NODE}'>{inside}</delete>");
    refused(world.own(BERNARDO, "set", &delete("")), "forbidden/auth");
    refused(
        world.own(HAMLET, "set", "<delete node='x'/>"),
        "item-not-found/cancel",
    );
    refused(
        world.own(HAMLET, "set", &delete("<redirect/>")),
        "bad-request/modify",
    );
    let redirect = delete("<redirect uri='xmpp:hamlet@denmark.example?;node=blog'/>");
    world.own(HAMLET, "set", &redirect).unwrap();
    for who in ["bernardo@denmark.example", "francisco@denmark.example"] {
        let notice = world.read_one(who);
        has(
            &notice,
            &[
                "<delete node='princely_musings'>",
                "<redirect uri='xmpp:hamlet@denmark.example?;node=blog'/></delete>",
            ],
        );
    }
    assert!(world.store.is_empty());
    world.send(
        BERNARDO,
        &format!(
            "<iq type='set' id='q'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <subscribe node='{NODE}' jid='bernardo@denmark.example'/></pubsub></iq>"
        ),
    );
    let answer = world.read_one(BERNARDO);
    has(
        &answer,
        &[
            "<error type='modify'><gone",
            ">xmpp:hamlet@denmark.example?;node=blog</gone>",
        ],
    );
    world.create(HAMLET, NODE, &[]).unwrap();
    world.subscribe(BERNARDO).unwrap();
}

#[test]
fn section_8_4_a_node_may_end_silently() {
    let mut world = World::with_node(&[("notify_delete", "0")]);
    world.subscribe(FRANCISCO).unwrap();
    world
        .own(HAMLET, "set", &format!("<delete node='{NODE}'/>"))
        .unwrap();
    assert!(world.mail.is_empty());
    refused(world.subscribe(FRANCISCO), "item-not-found/cancel");
}

#[test]
fn section_8_5_a_node_is_purged() {
    let mut world = World::denmark();
    world.subscribe(FRANCISCO).unwrap();
    world.publish(HAMLET, "a").unwrap();
    world.publish(HAMLET, "b").unwrap();
    world.mail.clear();
    let purge = format!("<purge node='{NODE}'/>");
    refused(world.own(FRANCISCO, "set", &purge), "forbidden/auth");
    world.own(HAMLET, "set", &purge).unwrap();
    assert!(world.store.is_empty() && world.mail.is_empty());
    world.configure(HAMLET, &[("notify_retract", "1")]).unwrap();
    world.own(HAMLET, "set", &purge).unwrap();
    has(
        &world.read_one("francisco@denmark.example"),
        &["<purge node='princely_musings'/>"],
    );
    world.configure(HAMLET, &[("persist_items", "0")]).unwrap();
    let unsupported = "feature-not-implemented/cancel unsupported";
    refused(world.own(HAMLET, "set", &purge), unsupported);
    refused(
        world.own(HAMLET, "set", "<purge node='x'/>"),
        "item-not-found/cancel",
    );
    assert_eq!(world.service.state().bytes(), 0);
}

const GET_PENDING: &str = "node='http://jabber.org/protocol/pubsub#get-pending'";

#[test]
fn section_8_7_owners_ask_who_waits() {
    let mut world = World::with_node(&[("access_model", "authorize")]);
    world.create(HAMLET, "quiet", &[]).unwrap();
    world.subscribe(FRANCISCO).unwrap();
    world.mail.clear();
    let command = |more: &str, inside: &str| {
        format!("<command xmlns='http://jabber.org/protocol/commands' {more}>{inside}</command>")
    };
    let execute = command(&format!("{GET_PENDING} action='execute'"), "");
    let answer = world.ask(HAMLET, "set", &execute).unwrap();
    has(
        &answer,
        &[
            "status='executing'",
            "<option label='princely_musings'>",
            "sessionid='",
        ],
    );
    lacks(&answer, &["quiet"]);
    refused(world.ask(FRANCISCO, "set", &execute), "forbidden/auth");
    let node = form("subscribe_authorization", &[("node", NODE)]);
    let submit = command(&format!("{GET_PENDING} sessionid='s'"), &node);
    let answer = world.ask(HAMLET, "set", &submit).unwrap();
    has(&answer, &["status='completed'", "sessionid='s'"]);
    let request = world.read_one("hamlet@denmark.example");
    has(
        &request,
        &["pubsub#allow", "<value>francisco@denmark.example</value>"],
    );
    refused(world.ask(FRANCISCO, "set", &submit), "forbidden/auth");
    let node = form("subscribe_authorization", &[("node", "x")]);
    let nowhere = command(GET_PENDING, &node);
    refused(world.ask(HAMLET, "set", &nowhere), "item-not-found/cancel");
    let cancel = command(&format!("{GET_PENDING} action='cancel'"), "");
    has(
        &world.ask(HAMLET, "set", &cancel).unwrap(),
        &["status='canceled'"],
    );
    let other = command("node='urn:x'", "");
    refused(world.ask(HAMLET, "set", &other), "item-not-found/cancel");
}

#[test]
fn section_8_2_owners_hear_of_subscriptions_if_they_want_to() {
    let mut world = World::with_node(&[("notify_sub", "1")]);
    world.subscribe(FRANCISCO).unwrap();
    let notice = world.read_one("hamlet@denmark.example");
    has(
        &notice,
        &["jid='francisco@denmark.example' subscription='subscribed'/>"],
    );
    let leave = format!("<unsubscribe node='{NODE}' jid='francisco@denmark.example'/>");
    world.set(FRANCISCO, &leave).unwrap();
    has(
        &world.read_one("hamlet@denmark.example"),
        &["subscription='none'/>"],
    );
}

/// Where a private node has gone is nothing for those who could not enter it.
#[test]
fn section_8_4_2_a_private_node_leaves_no_trace_for_others() {
    for access in ["whitelist", "presence", "roster"] {
        let groups = ("roster_groups_allowed", "servants");
        let mut world = World::with_node(&[("access_model", access), groups]);
        world.affiliate(FRANCISCO, "member").unwrap();
        world.subscribe(FRANCISCO).unwrap();
        world.mail.clear();
        let delete = format!("<delete node='{NODE}'><redirect uri='xmpp:x?;node=y'/></delete>");
        world.own(HAMLET, "set", &delete).unwrap();
        let notice = world.read_one("francisco@denmark.example");
        has(&notice, &["<redirect uri='xmpp:x?;node=y'/>"]);
        refused(world.subscribe(BERNARDO), "item-not-found/cancel");
    }
}
