//! Changes that the host makes at a node of an account.

use super::*;
use crate::Change;

const LIST: &str = "urn:xmpp:bookmarks:1";
const OWN: &str = "juliet@capulet.example/balcony";

fn request(text: &str) -> Frame {
    let text = format!("<iq type='set' id='c' from='{OWN}' to='{JULIET}'><q>{text}</q></iq>");
    Frame::parse(text).unwrap()
}

/// Makes of the words of the request the items that there are; answers with what there was.
fn replace(request: &Frame, items: Option<&[Item]>) -> Change {
    let text = request.children().next().unwrap();
    let text = text.text().unwrap_or_default().into_owned();
    let wanted: Vec<&str> = text.split_whitespace().collect();
    let there: Vec<&str> = items.unwrap_or_default().iter().map(|i| &*i.id).collect();
    let was = match items {
        None => "<nothing/>".to_owned(),
        Some(_) => format!("<was>{}</was>", there.join(" ")),
    };
    Change {
        put: wanted
            .iter()
            .filter(|id| !there.contains(id))
            .map(|id| {
                (
                    id.to_string(),
                    format!("<e xmlns='urn:e'>{id}</e>").into_bytes().into(),
                )
            })
            .collect(),
        remove: there
            .iter()
            .filter(|id| !wanted.contains(id))
            .map(|id| id.to_string())
            .collect(),
        answer: was.into_bytes(),
    }
}

fn change(world: &mut World, words: &str) -> Result<String, String> {
    let event = Event::Change {
        node: LIST.to_owned(),
        request: request(words),
        changes: replace,
    };
    assert!(world.event(event));
    world.answer(OWN)
}

fn ids(world: &World) -> Vec<String> {
    let node = world.service.state().node(LIST).unwrap();
    node.items(world.now)
        .map(|item| item.id.to_string())
        .collect()
}

#[test]
fn a_change_is_made_as_one_and_told() {
    let mut world = World::account();
    let nodes = BTreeSet::from([LIST.to_owned()]);
    world.roster.sessions.insert(OWN.to_owned(), nodes);
    world.service.handle(Event::Sweep, START, &()).unwrap();
    let event = Event::Change {
        node: LIST.to_owned(),
        request: request("a b"),
        changes: replace,
    };
    assert!(world.event(event));
    assert_eq!(world.appends, 1);
    let mail = world.read(OWN);
    assert!(mail[0].contains("<nothing/>"), "{mail:#?}");
    assert!(mail[1].contains("<item id='a'>") && mail[2].contains("<item id='b'>"));
    let node = world.service.state().node(LIST).unwrap();
    assert_eq!(node.config.access, crate::AccessModel::Whitelist);
    let event = Event::Change {
        node: LIST.to_owned(),
        request: request("b c"),
        changes: replace,
    };
    assert!(world.event(event));
    let mail = world.read(OWN);
    assert!(mail[0].contains("<was>a b</was>"), "{mail:#?}");
    assert!(mail[1].contains("<retract id='a'/>") && mail[2].contains("<item id='c'>"));
    assert_eq!(
        (ids(&world), mail.len()),
        (vec!["b".to_owned(), "c".to_owned()], 3)
    );
    // Without a change nothing is appended.
    let appends = world.appends;
    assert!(
        change(&mut world, "c b")
            .unwrap()
            .contains("<was>b c</was>")
    );
    assert_eq!(world.appends, appends);
}

#[test]
fn a_change_keeps_to_the_bounds_and_is_refused_whole() {
    let mut options = Options::account();
    options.limits.items_per_node_max = 2;
    options.limits.item_bytes_max = 30;
    options.limits.nodes_max = 1;
    options.share_defaults();
    let mut world = World::with(JULIET, options);
    change(&mut world, "a b").unwrap();
    refused(
        change(&mut world, "a b c"),
        "not-acceptable/modify max-items-exceeded",
    );
    let long = "x".repeat(20);
    refused(
        change(&mut world, &format!("a {long}")),
        "not-acceptable/modify",
    );
    assert_eq!(ids(&world), ["a", "b"]);
    // One that is not made durable has changed nothing.
    world.decides = Some(false);
    refused(change(&mut world, "a c"), "resource-constraint/wait");
    assert_eq!(ids(&world), ["a", "b"]);
    world.decides = Some(true);
    let event = Event::Change {
        node: "other".to_owned(),
        request: request("a"),
        changes: replace,
    };
    assert!(world.event(event));
    refused(
        world.answer(OWN),
        "policy-violation/wait max-nodes-exceeded",
    );
}

#[test]
fn items_that_change_meanwhile_make_it_fail() {
    let mut world = World::account();
    change(&mut world, "a b").unwrap();
    world.reads = false;
    let event = Event::Change {
        node: LIST.to_owned(),
        request: request("c"),
        changes: replace,
    };
    assert!(world.event(event));
    world
        .set(
            OWN,
            &format!("<retract node='{LIST}'><item id='a'/></retract>"),
        )
        .unwrap();
    world.mail.clear();
    world.read_store();
    refused(world.answer(OWN), "resource-constraint/wait");
    assert_eq!(ids(&world), ["b"]);
}
