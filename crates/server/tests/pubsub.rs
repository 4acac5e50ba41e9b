//! A service with nodes in a whole node, under a clock and a journal that move when the test says
//! so: what was answered is there wherever the node is killed, and nobody has heard of anything
//! else; what fails has changed nothing; and many copies are written a few at a time.

mod common;

use std::time::Duration;

use common::world::{Peer, World};
use common::{Client, PANIC};

const SERVICE: &str = "pubsub.localhost";
const NS: &str = "http://jabber.org/protocol/pubsub";
const NODE: &str = "musings";

fn request(kind: &str, ns: &str, id: &str, content: &str) -> String {
    format!(
        "<iq type='{kind}' id='{id}' to='{SERVICE}'><pubsub xmlns='{ns}'>{content}</pubsub></iq>"
    )
}

/// Asks and returns the answer.
fn ask(world: &mut World, peer: &mut Peer, kind: &str, ns: &str, content: &str) -> String {
    let seen = peer.ask(world, &request(kind, ns, "ask", content), "id='ask'");
    let start = seen.rfind("<iq ").expect("an answer").to_owned();
    let head = seen[start..].to_owned();
    match peer.seen.find("</iq>") {
        _ if peer.seen.starts_with("/>") => head,
        Some(_) => head + &peer.expect(world, "</iq>"),
        None => head + &peer.expect(world, ">"),
    }
}

fn set(world: &mut World, peer: &mut Peer, content: &str) -> String {
    ask(world, peer, "set", NS, content)
}

fn create(world: &mut World, peer: &mut Peer) {
    let answer = set(world, peer, &format!("<create node='{NODE}'/>"));
    assert!(answer.contains("type='result'"), "{answer}");
}

fn subscribe(world: &mut World, peer: &mut Peer, jid: &str) {
    let content = format!("<subscribe node='{NODE}' jid='{jid}'/>");
    let answer = set(world, peer, &content);
    assert!(answer.contains("subscription='subscribed'"), "{answer}");
}

fn publication(item: usize) -> String {
    let payload = format!("<e xmlns='urn:e'>{item}</e>");
    let content = format!("<publish node='{NODE}'><item id='i{item}'>{payload}</item></publish>");
    request("set", NS, &format!("p{item}"), &content)
}

fn publish(world: &mut World, peer: &mut Peer, item: usize) {
    peer.ask(world, &publication(item), &format!("id='p{item}'"));
    peer.expect(world, "</iq>");
}

/// Numbers of the items that are in a text.
fn items_in(text: &str) -> Vec<usize> {
    let ids = text.split("<item id='i").skip(1);
    let ids = ids.filter_map(|rest| rest.split_once('\''));
    ids.filter_map(|(id, _)| id.parse().ok()).collect()
}

/// What the service has kept, as somebody reads it.
fn kept(world: &mut World, user: &str) -> Vec<usize> {
    let mut reader = world.login(user, "reader");
    let answer = ask(
        world,
        &mut reader,
        "get",
        NS,
        &format!("<items node='{NODE}'/>"),
    );
    assert!(answer.contains("type='result'"), "{answer}");
    items_in(&answer)
}

/// Lets all that is left happen.
fn rest(world: &mut World) {
    for _ in 0..20 {
        world.pass(Duration::from_secs(5));
    }
}

/// The numbers of publications that were answered like this.
fn answered(seen: &str, kind: &str) -> Vec<usize> {
    let answers = seen.split("<iq ").skip(1);
    let answers = answers.filter(|iq| iq.contains(&format!("type='{kind}'")));
    let ids = answers.filter_map(|iq| iq.split_once("id='p")?.1.split_once('\''));
    ids.filter_map(|(id, _)| id.parse().ok()).collect()
}

#[test]
fn what_was_answered_or_heard_of_is_there_wherever_the_node_is_killed() {
    const ITEMS: usize = 4;
    let mut counts = Vec::new();
    for kill_after in 0..=ITEMS {
        let mut world = World::patient(|_| ());
        let mut romeo = world.login("romeo", "orchard");
        create(&mut world, &mut romeo);
        let mut juliet = world.login("juliet", "balcony");
        subscribe(&mut world, &mut juliet, "juliet@localhost/balcony");
        romeo.sync(&mut world);
        world.hold();
        for item in 1..=ITEMS {
            romeo.send(&publication(item));
            world.work();
        }
        for _ in 0..kill_after {
            world.switches().set_hold(true);
            world.try_one();
        }
        world.work();
        while romeo.read() {}
        while juliet.read() {}
        let (done, heard) = (answered(&romeo.seen, "result"), items_in(&juliet.seen));
        world.crash();
        let there = kept(&mut world, "juliet");
        assert!(there.is_sorted(), "{there:?}");
        for item in done.iter().chain(&heard) {
            assert!(
                there.contains(item),
                "killed after {kill_after}: {done:?} were answered, {heard:?} heard of, and \
                 {there:?} are there"
            );
        }
        // One at a time at one node: the next one waits for the decision about the last.
        assert_eq!(there.len(), kill_after, "{there:?}");
        counts.push(done.len());
        // The subscription is there too.
        let mut juliet = world.login("juliet", "balcony");
        let mut romeo = world.login("romeo", "orchard");
        publish(&mut world, &mut romeo, 9);
        let seen = juliet.expect(&mut world, "</event>");
        assert_eq!(items_in(&seen), [9], "{seen}");
    }
    assert_eq!(counts, [0, 1, 2, 3, 4]);
}

#[test]
fn a_change_that_is_refused_has_changed_nothing() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    create(&mut world, &mut romeo);
    publish(&mut world, &mut romeo, 1);
    world.switches().set_full(true);
    romeo.send(&publication(2));
    romeo.send(&publication(3));
    let mut seen = String::new();
    while answered(&seen, "error").len() < 2 {
        seen += &romeo.expect(&mut world, "<resource-constraint");
    }
    let moved = "<redirect uri='xmpp:elsewhere'/>";
    let content = format!("<delete node='{NODE}'>{moved}</delete>");
    let owner = format!("{NS}#owner");
    let answer = ask(&mut world, &mut romeo, "set", &owner, &content);
    assert!(answer.contains("<resource-constraint"), "{answer}");
    world.switches().set_full(false);
    publish(&mut world, &mut romeo, 4);
    assert_eq!(kept(&mut world, "juliet"), [1, 4]);
    world.crash();
    assert_eq!(kept(&mut world, "juliet"), [1, 4]);
}

#[test]
fn after_a_change_in_doubt_the_service_begins_anew() {
    for survives in [false, true] {
        let mut world = World::patient(|_| ());
        let mut romeo = world.login("romeo", "orchard");
        create(&mut world, &mut romeo);
        publish(&mut world, &mut romeo, 1);
        let mut juliet = world.login("juliet", "balcony");
        subscribe(&mut world, &mut juliet, "juliet@localhost/balcony");
        juliet.sync(&mut world);
        world.switches().set_stay_in_doubt(true);
        match survives {
            true => world.switches().doubt(1),
            false => world.switches().lose(1),
        }
        romeo.send(&publication(2));
        let mut told = romeo.sync(&mut world);
        world.switches().set_stay_in_doubt(false);
        world.settle();
        world.pass(Duration::from_secs(1));
        rest(&mut world);
        let expected: &[usize] = if survives { &[1, 2] } else { &[1] };
        assert_eq!(kept(&mut world, "juliet"), expected);
        told += &romeo.sync(&mut world);
        let answers = [answered(&told, "result"), answered(&told, "error")].concat();
        assert_eq!(answers, [2], "one answer, whatever it is: {told}");
        // Who did not hear of it has not been told of anything that is not there.
        let heard = items_in(&juliet.sync(&mut world));
        assert!(
            heard.iter().all(|item| expected.contains(item)),
            "{heard:?}"
        );
        publish(&mut world, &mut romeo, 3);
        juliet.expect(&mut world, "<item id='i3'");
    }
}

#[test]
fn copies_are_written_a_few_at_a_time_and_in_order() {
    for shards in [1, 2] {
        let mut world = World::patient(|options| {
            options.shards = shards;
            options.pubsub.copies_per_turn = 1;
        });
        let mut romeo = world.login("romeo", "orchard");
        create(&mut world, &mut romeo);
        let mut all = Vec::new();
        for n in 0..7 {
            let user = if n % 2 == 0 { "romeo" } else { "juliet" };
            let resource = format!("r{n}");
            let mut peer = world.login(user, &resource);
            subscribe(
                &mut world,
                &mut peer,
                &format!("{user}@localhost/{resource}"),
            );
            all.push(peer);
        }
        for item in 1..=5 {
            romeo.send(&publication(item));
        }
        for peer in &mut all {
            let mut heard = Vec::new();
            while heard.len() < 5 {
                let seen = peer.expect(&mut world, "</event>");
                heard.extend(items_in(&seen));
            }
            assert_eq!(heard, [1, 2, 3, 4, 5]);
        }
    }
}

#[test]
fn a_service_that_crashes_comes_back_with_what_it_kept() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    create(&mut world, &mut romeo);
    publish(&mut world, &mut romeo, 1);
    romeo.send(&format!(
        "<message to='{SERVICE}'>{PANIC}-in-the-room</message>"
    ));
    rest(&mut world);
    publish(&mut world, &mut romeo, 2);
    assert_eq!(kept(&mut world, "juliet"), [1, 2]);
}

#[test]
fn a_service_that_nobody_asks_is_forgotten_and_found_again() {
    let mut world = World::patient(|options| {
        options.delivery.limits.idle_eviction = Duration::from_secs(1);
    });
    let mut romeo = world.login("romeo", "orchard");
    create(&mut world, &mut romeo);
    publish(&mut world, &mut romeo, 1);
    rest(&mut world);
    publish(&mut world, &mut romeo, 2);
    assert_eq!(kept(&mut world, "juliet"), [1, 2]);
    let answer = set(&mut world, &mut romeo, &format!("<create node='{NODE}'/>"));
    assert!(answer.contains("<conflict"), "{answer}");
}

const SUBMIT: &str = "<x xmlns='jabber:x:data' type='submit'>";

fn field(name: &str, value: &str) -> String {
    let name = match name {
        "FORM_TYPE" => name.to_owned(),
        name => format!("pubsub#{name}"),
    };
    format!("<field var='{name}'><value>{value}</value></field>")
}

/// Makes a node whose owner approves subscriptions.
fn make_closed(world: &mut World, peer: &mut Peer) {
    let config =
        field("FORM_TYPE", &format!("{NS}#node_config")) + &field("access_model", "authorize");
    let content = format!("<create node='{NODE}'/><configure>{SUBMIT}{config}</x></configure>");
    set(world, peer, &content);
}

/// An owner's message that approves a subscription.
fn approval(subscriber: &str) -> String {
    let form = field("FORM_TYPE", &format!("{NS}#subscribe_authorization"))
        + &field("node", NODE)
        + &field("subscriber_jid", subscriber)
        + &field("allow", "1");
    format!("<message to='{SERVICE}' id='yes'><body>yes</body>{SUBMIT}{form}</x></message>")
}

#[test]
fn an_acknowledged_message_is_taken_or_comes_back() {
    let mut world = World::patient(|_| ());
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    make_closed(&mut world, &mut romeo);
    let mut juliet = world.login("juliet", "balcony");
    let content = format!("<subscribe node='{NODE}' jid='juliet@localhost/balcony'/>");
    let answer = set(&mut world, &mut juliet, &content);
    assert!(answer.contains("subscription='pending'"), "{answer}");
    // With words it is kept in his log until the service has it.
    romeo.send(&approval("juliet@localhost/balcony"));
    juliet.expect(&mut world, "subscription='subscribed'");
    // What is for nobody comes back, once.
    romeo.send(&format!(
        "<message to='{SERVICE}' id='no'><body>no</body></message>"
    ));
    let mut seen = romeo.expect(&mut world, "<service-unavailable");
    rest(&mut world);
    seen += &romeo.sync(&mut world);
    assert_eq!(seen.matches("<service-unavailable").count(), 1, "{seen}");
    assert!(!seen.contains("id='yes'"), "{seen}");
}

/// Two approvals of one owner: wherever the disk is full meanwhile, both are done or come back.
#[test]
fn what_waits_behind_an_approval_that_is_refused_does_not_replace_it() {
    for decided in 0..6 {
        let mut world = World::patient(|_| ());
        let (mut romeo, _) = world.login_managed("romeo", "orchard");
        make_closed(&mut world, &mut romeo);
        let mut juliet = world.login("juliet", "balcony");
        let subscribers = ["juliet@localhost/balcony", "juliet@localhost"];
        for jid in subscribers {
            let subscribe = format!("<subscribe node='{NODE}' jid='{jid}'/>");
            let answer = set(&mut world, &mut juliet, &subscribe);
            assert!(answer.contains("subscription='pending'"), "{answer}");
        }
        romeo.sync(&mut world);
        world.hold();
        for jid in subscribers {
            romeo.send(&approval(jid));
        }
        world.work();
        for _ in 0..decided {
            world.try_one();
        }
        world.refuse_one();
        world.let_go();
        rest(&mut world);
        let answer = ask(&mut world, &mut juliet, "get", NS, "<subscriptions/>");
        let approved = answer.matches("subscription='subscribed'").count();
        let seen = romeo.sync(&mut world);
        let back = seen.matches("<message type='error'").count();
        assert_eq!(approved + back, 2, "{decided}: {answer} {seen}");
    }
}

#[test]
fn an_address_with_too_many_questions_is_refused_items() {
    let mut options = common::options(2, true);
    options.limits.questions_per_address_max = 0;
    let network = net::Limits {
        exempt: Vec::new(),
        ..net::Limits::default()
    };
    let running = common::start_with(options, network, &["romeo"]);
    let mut romeo = Client::login(running.address, "romeo", "orchard");
    romeo.send(&request(
        "set",
        NS,
        "c",
        &format!("<create node='{NODE}'/>"),
    ));
    romeo.expect("id='c'");
    romeo.send(&publication(1));
    romeo.expect("id='p1'");
    romeo.send(&request("get", NS, "i", &format!("<items node='{NODE}'/>")));
    romeo.expect("id='i'");
    romeo.expect("<resource-constraint");
    // What needs no items of the store is answered.
    romeo.send(&request("get", NS, "a", "<affiliations/>"));
    romeo.expect("affiliation='owner'");
}

/// Who may no longer enter goes before others hear of a change; if that is refused, so is the
/// change, and nobody has heard of anything.
#[test]
fn a_change_whose_review_is_refused_is_refused_too() {
    for is_refused in [true, false] {
        let mut world = World::new();
        let mut romeo = world.login("romeo", "orchard");
        let mut juliet = world.login("juliet", "balcony");
        romeo.send("<presence type='subscribed' to='juliet@localhost'/>");
        romeo.sync(&mut world);
        juliet.send("<presence type='subscribe' to='romeo@localhost'/>");
        juliet.sync(&mut world);
        romeo.sync(&mut world);
        let config =
            field("FORM_TYPE", &format!("{NS}#node_config")) + &field("access_model", "presence");
        let content = format!("<create node='{NODE}'/><configure>{SUBMIT}{config}</x></configure>");
        set(&mut world, &mut romeo, &content);
        subscribe(&mut world, &mut juliet, "juliet@localhost/balcony");
        romeo.send("<presence type='unsubscribed' to='juliet@localhost'/>");
        romeo.sync(&mut world);
        juliet.sync(&mut world);
        juliet.seen.clear();
        world.hold();
        romeo.send(&publication(1));
        world.work();
        match is_refused {
            true => world.refuse(),
            false => world.let_go(),
        }
        romeo.expect(&mut world, "id='p1'");
        if is_refused {
            romeo.expect(&mut world, "<resource-constraint");
        }
        let seen = juliet.sync(&mut world);
        assert_eq!(seen.contains("subscription='none'"), !is_refused, "{seen}");
        assert!(!seen.contains("<e xmlns"), "{seen}");
    }
}

/// A question that rosters decide about is one to the store, and so is a change that subscribers
/// may hear of.
#[test]
fn an_address_with_too_many_questions_is_refused_rosters() {
    let mut options = common::options(2, true);
    options.limits.questions_per_address_max = 0;
    let network = net::Limits {
        exempt: Vec::new(),
        ..net::Limits::default()
    };
    let running = common::start_with(options, network, &["romeo", "juliet"]);
    let mut romeo = Client::login(running.address, "romeo", "orchard");
    let mut juliet = Client::login(running.address, "juliet", "balcony");
    let config =
        field("FORM_TYPE", &format!("{NS}#node_config")) + &field("access_model", "presence");
    let create = format!("<create node='{NODE}'/><configure>{SUBMIT}{config}</x></configure>");
    romeo.send(&request("set", NS, "c", &create));
    romeo.expect("id='c'");
    let items = format!("<items node='{NODE}'/>");
    let subscribe = format!("<subscribe node='{NODE}' jid='juliet@localhost'/>");
    for (id, kind, content) in [("i", "get", &items), ("s", "set", &subscribe)] {
        juliet.send(&request(kind, NS, id, content));
        juliet.expect(&format!("id='{id}'"));
        juliet.expect("<resource-constraint");
    }
    juliet.send(&format!(
        "<iq type='get' id='l' to='{SERVICE}'>\
         <query xmlns='http://jabber.org/protocol/disco#items'/></iq>"
    ));
    juliet.expect("<resource-constraint");
    romeo.send(&publication(1));
    romeo.expect("<resource-constraint");
    // An owner's own question needs nobody's roster, and whatever waited behind is answered.
    romeo.send(&request("get", NS, "a", "<affiliations/>"));
    romeo.expect("affiliation='owner'");
}

#[test]
fn a_flood_of_requests_is_answered_in_its_order() {
    const REQUESTS: usize = 300;
    let running = common::start(2, true, &["romeo"]);
    let mut romeo = Client::login(running.address, "romeo", "orchard");
    for node in [NODE, "others"] {
        romeo.send(&request(
            "set",
            NS,
            node,
            &format!("<create node='{node}'/>"),
        ));
        romeo.expect(&format!("id='{node}'"));
    }
    // More than may be under way, at one node, at two by turns, and without waiting for any answer.
    let requests = (1..=REQUESTS).map(|item| {
        let publication = publication(item);
        match item % 3 {
            0 => publication.replace(NODE, "others"),
            _ => publication,
        }
    });
    romeo.send(&requests.collect::<String>());
    let mut seen = String::new();
    while !seen.contains(&format!("id='p{REQUESTS}'")) {
        seen += &romeo.expect("</iq>");
    }
    let expected: Vec<usize> = (1..=REQUESTS).collect();
    assert_eq!(answered(&seen, "result"), expected);
}

#[test]
fn items_that_are_too_old_and_leases_that_are_over_go() {
    let mut world = World::patient(|options| options.pubsub.sweep_every = Duration::from_secs(60));
    let mut romeo = world.login("romeo", "orchard");
    let form_type = format!("<field var='FORM_TYPE'><value>{NS}#node_config</value></field>");
    let expire = "<field var='pubsub#item_expire'><value>100</value></field>";
    let form = format!("<x xmlns='jabber:x:data' type='submit'>{form_type}{expire}</x>");
    let content = format!("<create node='{NODE}'/><configure>{form}</configure>");
    set(&mut world, &mut romeo, &content);
    publish(&mut world, &mut romeo, 1);
    for _ in 0..12 {
        // The service must not be forgotten meanwhile: it would be swept when it is loaded.
        ask(&mut world, &mut romeo, "get", NS, "<affiliations/>");
        world.pass(Duration::from_secs(10));
    }
    publish(&mut world, &mut romeo, 2);
    for _ in 0..7 {
        ask(&mut world, &mut romeo, "get", NS, "<affiliations/>");
        world.pass(Duration::from_secs(10));
    }
    assert_eq!(kept(&mut world, "juliet"), [2]);
    let mut stored = Vec::new();
    world.rewrite(|store| {
        let visit = |entry: store::NodeEntry<'_>| {
            if let store::NodeEntry::Item { item, .. } = entry {
                stored.push(item.id);
            }
            Ok(())
        };
        assert!(store.load_nodes(SERVICE, visit).expect("readable"));
    });
    assert_eq!(stored, ["i2"], "it is gone from the store too");
}
