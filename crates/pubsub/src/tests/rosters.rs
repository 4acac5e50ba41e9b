//! Access models that go by a roster, at a service that belongs to nobody (XEP-0060 section 4.5).

use super::*;
use crate::{Admitted, Wanted};

const HAMLET_BARE: &str = "hamlet@denmark.example";

fn stanza(from: &str, kind: &str, payload: &str) -> Frame {
    let text = format!("<iq type='{kind}' id='q' from='{from}' to='{SERVICE}'>{payload}</iq>");
    Frame::parse(text).unwrap()
}

fn content(ns: &str, content: &str) -> String {
    format!("<pubsub xmlns='{ns}'>{content}</pubsub>")
}

fn items() -> String {
    content(NS, &format!("<items node='{NODE}'/>"))
}

/// A node for those who see the presence of who created it; Bernardo does.
fn for_contacts() -> World {
    let mut world = World::with_node(&[("access_model", "presence")]);
    let contacts = &mut world.roster.contacts;
    contacts.insert("bernardo@denmark.example".to_owned(), BTreeSet::new());
    world
}

fn subscribe(world: &mut World, who: &str) -> Result<String, String> {
    let jid = xmpp::addr::bare_part(who).to_owned();
    world.set(who, &format!("<subscribe node='{NODE}' jid='{jid}'/>"))
}

#[test]
fn section_4_5_the_creators_roster_decides() {
    let mut world = for_contacts();
    let refused = subscribe(&mut world, FRANCISCO).unwrap_err();
    assert!(refused.contains("not-authorized"), "{refused}");
    assert!(
        refused.contains("presence-subscription-required"),
        "{refused}"
    );
    subscribe(&mut world, BERNARDO).unwrap();
    world
        .own(
            HAMLET,
            "set",
            &affiliate("francisco@denmark.example", "owner"),
        )
        .unwrap();
    world
        .own(HAMLET, "set", &affiliate(HAMLET_BARE, "none"))
        .unwrap();
    // Whose node it was has nothing to say any more, and nobody takes his place.
    let frame = stanza(BERNARDO, "get", &items());
    assert_eq!(world.service.rosters_for(&frame), None);
    let refused = world.get(BERNARDO, &format!("<items node='{NODE}'/>"));
    assert!(refused.unwrap_err().contains("not-authorized"));
}

fn affiliate(jid: &str, what: &str) -> String {
    format!(
        "<affiliations node='{NODE}'><affiliation jid='{jid}' affiliation='{what}'/></affiliations>"
    )
}

#[test]
fn rosters_are_wanted_where_they_decide_and_nowhere_else() {
    let mut world = for_contacts();
    world.create(FRANCISCO, "open", &[]).unwrap();
    let wanted = |world: &World, from: &str, kind: &str, payload: &str| {
        world.service.rosters_for(&stanza(from, kind, payload))
    };
    let creators = |review: Option<&str>| {
        Some(Wanted {
            whose: vec![HAMLET_BARE.into()],
            review: review.map(Arc::from),
        })
    };
    let publish = content(NS, &format!("<publish node='{NODE}'><item/></publish>"));
    let subscribe = content(NS, &format!("<subscribe node='{NODE}' jid='{BERNARDO}'/>"));
    let about = |node: &str| {
        format!("<query xmlns='http://jabber.org/protocol/disco#info' node='{node}'/>")
    };
    let list = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    assert_eq!(wanted(&world, BERNARDO, "get", &items()), creators(None));
    assert_eq!(wanted(&world, BERNARDO, "set", &subscribe), creators(None));
    assert_eq!(
        wanted(&world, BERNARDO, "get", &about(NODE)),
        creators(None)
    );
    assert_eq!(wanted(&world, BERNARDO, "get", list), creators(None));
    assert_eq!(
        wanted(&world, HAMLET, "set", &publish),
        creators(Some(NODE))
    );
    for (who, kind, payload) in [
        (HAMLET, "get", items()),
        (HAMLET, "get", list.to_owned()),
        (BERNARDO, "get", about("open")),
        (BERNARDO, "get", about("nowhere")),
        (BERNARDO, "get", "<ping xmlns='urn:xmpp:ping'/>".to_owned()),
    ] {
        assert_eq!(wanted(&world, who, kind, &payload), None, "{who} {payload}");
    }
    assert_eq!(
        World::account()
            .service
            .rosters_for(&stanza(HAMLET, "get", &items())),
        None
    );
}

/// The roster that decides from then on has to be known when the node is configured.
#[test]
fn a_roster_is_wanted_for_what_will_go_by_it() {
    let mut world = World::denmark();
    let to = |access: &str| {
        let fields = [
            ("access_model", access),
            ("roster_groups_allowed", "guards"),
        ];
        let form = form("node_config", &fields);
        let configure = format!("<configure node='{NODE}'>{form}</configure>");
        content("http://jabber.org/protocol/pubsub#owner", &configure)
    };
    let wanted = |world: &World, who: &str, access: &str| {
        let wanted = world.service.rosters_for(&stanza(who, "set", &to(access)));
        wanted.map(|wanted| wanted.whose)
    };
    for (access, is_wanted) in [
        ("presence", true),
        ("roster", true),
        ("whitelist", false),
        ("open", false),
        ("nonsense", false),
    ] {
        let found = wanted(&world, HAMLET, access);
        assert_eq!(
            found,
            is_wanted.then(|| vec![HAMLET_BARE.into()]),
            "{access}"
        );
    }
    // Of somebody else's request nothing comes.
    assert_eq!(wanted(&world, FRANCISCO, "presence"), None);
    subscribe(&mut world, BERNARDO).unwrap();
    subscribe(&mut world, FRANCISCO).unwrap();
    let contacts = &mut world.roster.contacts;
    contacts.insert("bernardo@denmark.example".to_owned(), BTreeSet::new());
    world
        .configure(HAMLET, &[("access_model", "presence")])
        .unwrap();
    let node = world.service.state().node(NODE).unwrap();
    assert_eq!(node.subscribers(), 1);
}

#[test]
fn a_list_of_nodes_reads_so_many_rosters() {
    let mut world = World::limited(|limits| limits.rosters_max = 2);
    for n in 0..4 {
        let creator = format!("creator{n}@denmark.example/a");
        let node = format!("node{n}");
        world
            .create(&creator, &node, &[("access_model", "presence")])
            .unwrap();
    }
    let list = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    let wanted = world.service.rosters_for(&stanza(BERNARDO, "get", list));
    let whose = wanted.unwrap().whose;
    assert_eq!(whose.len(), 2);
    assert_eq!(&*whose[0], "creator0@denmark.example");
}

#[test]
fn who_may_no_longer_enter_goes_before_others_hear() {
    let mut world = for_contacts();
    subscribe(&mut world, BERNARDO).unwrap();
    let member = affiliate("francisco@denmark.example", "member");
    world.own(HAMLET, "set", &member).unwrap();
    subscribe(&mut world, FRANCISCO).unwrap();
    world.mail.clear();
    world.roster.contacts.clear();
    let node = world.service.state().name(NODE).unwrap();
    assert!(world.event(Event::Reviewed {
        node: Arc::clone(&node)
    }));
    let mail = world.read("bernardo@denmark.example");
    assert!(
        mail.iter().any(|one| one.contains("subscription='none'")),
        "{mail:?}"
    );
    let appends = world.appends;
    // Members stay, and nothing more is to be done.
    assert!(world.event(Event::Reviewed { node }));
    assert_eq!(world.appends, appends);
    let publish =
        format!("<publish node='{NODE}'><item id='a'><e xmlns='urn:e'/></item></publish>");
    world.set(HAMLET, &publish).unwrap();
    assert_eq!(world.read("francisco@denmark.example").len(), 1);
    assert!(world.read("bernardo@denmark.example").is_empty());
}

#[test]
fn a_review_ends_so_many_subscriptions_and_another_one_the_rest() {
    let mut world = World::limited(|limits| limits.sweep_max = 2);
    world
        .create(HAMLET, NODE, &[("access_model", "presence")])
        .unwrap();
    for n in 0..3 {
        let who = format!("guard{n}@denmark.example");
        world.roster.contacts.insert(who.clone(), BTreeSet::new());
        subscribe(&mut world, &format!("{who}/a")).unwrap();
    }
    world.roster.contacts.clear();
    let node = world.service.state().name(NODE).unwrap();
    let left = |world: &World| world.service.state().node(NODE).unwrap().subscribers();
    for expected in [1, 0, 0] {
        assert!(world.event(Event::Reviewed {
            node: Arc::clone(&node)
        }));
        assert_eq!(left(&world), expected);
    }
}

#[test]
fn what_comes_of_a_decision_needs_no_roster() {
    let mut world = for_contacts();
    subscribe(&mut world, BERNARDO).unwrap();
    world.mail.clear();
    world.decides = None;
    let publish =
        format!("<publish node='{NODE}'><item id='a'><e xmlns='urn:e'/></item></publish>");
    world.send(
        HAMLET,
        &format!("<iq type='set' id='p'>{}</iq>", content(NS, &publish)),
    );
    let event = Event::Decided { is_committed: true };
    let effects = world.service.handle(event, world.now, &Admitted).unwrap();
    let told = effects.iter().any(|effect| match effect {
        Effect::Send { to, .. } => to.iter().any(|to| &**to == "bernardo@denmark.example"),
        _ => false,
    });
    assert!(told);
}
