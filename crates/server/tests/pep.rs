//! Nodes of accounts in a whole node, under a clock and a journal that move when the test says so:
//! what was answered is there wherever the node is killed, and nobody has heard of anything else;
//! what fails has changed nothing; what waits is bounded; what a client wants to hear of is asked
//! once.

mod common;

use std::time::Duration;

use common::world::{Peer, World};

const NS: &str = "http://jabber.org/protocol/pubsub";
const CAPS: &str = "http://jabber.org/protocol/caps";
const DISCO: &str = "http://jabber.org/protocol/disco#info";
const NODE: &str = "urn:example:node";

fn publication(node: &str, item: usize) -> String {
    format!(
        "<iq type='set' id='p{item}'><pubsub xmlns='{NS}'><publish node='{node}'>\
         <item id='i{item}'><e xmlns='urn:e'>{item}</e></item></publish>\
         <publish-options><x xmlns='jabber:x:data' type='submit'>\
         <field var='FORM_TYPE'><value>{NS}#publish-options</value></field>\
         <field var='pubsub#max_items'><value>10</value></field></x></publish-options>\
         </pubsub></iq>"
    )
}

fn publish(world: &mut World, peer: &mut Peer, item: usize) {
    peer.ask(world, &publication(NODE, item), &format!("id='p{item}'"));
    peer.expect(world, "</iq>");
}

/// Numbers of the items that are in a text.
fn items_in(text: &str) -> Vec<usize> {
    let ids = text.split("<item id='i").skip(1);
    let ids = ids.filter_map(|rest| rest.split_once('\''));
    ids.filter_map(|(id, _)| id.parse().ok()).collect()
}

/// What the account has kept, as it reads it.
fn kept(world: &mut World, peer: &mut Peer) -> Vec<usize> {
    let get = format!(
        "<iq type='get' id='kept'><pubsub xmlns='{NS}'><items node='{NODE}'/></pubsub></iq>"
    );
    peer.ask(world, &get, "id='kept'");
    let answer = peer.expect(world, "</iq>");
    items_in(&answer)
}

/// The numbers of publications that were answered like this.
fn answered(seen: &str, kind: &str) -> Vec<usize> {
    let answers = seen.split("<iq ").skip(1);
    let answers = answers.filter(|iq| iq.contains(&format!("type='{kind}'")));
    let ids = answers.filter_map(|iq| iq.split_once("id='p")?.1.split_once('\''));
    ids.filter_map(|(id, _)| id.parse().ok()).collect()
}

/// The hash of a client with these features, and the children of its answer.
fn client(features: &[&str]) -> (String, String) {
    let mut sorted = features.to_vec();
    sorted.sort_unstable();
    let text: String = sorted.iter().map(|var| format!("{var}<")).collect();
    let ver = xmpp::sasl::sha1_base64(format!("client/pc//Test<{text}").as_bytes());
    let vars = sorted.iter().map(|var| format!("<feature var='{var}'/>"));
    let vars: String = vars.collect();
    let identity = "<identity category='client' type='pc' name='Test'/>";
    (ver, format!("{identity}{vars}"))
}

fn presence(ver: &str) -> String {
    format!("<presence><c xmlns='{CAPS}' hash='sha-1' node='urn:test' ver='{ver}'/></presence>")
}

/// The id of a question about capabilities.
fn question(world: &mut World, peer: &mut Peer) -> String {
    peer.expect(world, "id='caps-");
    let number = peer.expect(world, "'");
    peer.expect(world, "</iq>");
    format!("caps-{}", number.trim_end_matches('\''))
}

fn answer(peer: &mut Peer, user: &str, id: &str, children: &str) {
    peer.send(&format!(
        "<iq type='result' id='{id}' to='{user}@localhost'>\
         <query xmlns='{DISCO}'>{children}</query></iq>"
    ));
}

/// Says of which node the client wants to hear, and answers the question about it.
fn hears_of(world: &mut World, peer: &mut Peer, user: &str, node: &str) {
    let (ver, children) = client(&[&format!("{node}+notify")]);
    peer.send(&presence(&ver));
    let id = question(world, peer);
    answer(peer, user, &id, &children);
    peer.sync(world);
}

#[test]
fn what_was_answered_or_heard_of_is_there_wherever_the_node_is_killed() {
    const ITEMS: usize = 3;
    for kill_after in 0..=ITEMS {
        let mut world = World::patient(|_| ());
        let mut romeo = world.login("romeo", "orchard");
        let mut phone = world.login("romeo", "phone");
        hears_of(&mut world, &mut phone, "romeo", NODE);
        romeo.sync(&mut world);
        world.hold();
        for item in 1..=ITEMS {
            romeo.send(&publication(NODE, item));
            world.work();
        }
        for _ in 0..kill_after {
            world.switches().set_hold(true);
            world.try_one();
        }
        world.work();
        while romeo.read() {}
        while phone.read() {}
        let (done, heard) = (answered(&romeo.seen, "result"), items_in(&phone.seen));
        world.crash();
        let mut romeo = world.login("romeo", "orchard");
        let there = match kill_after {
            // There is no such node.
            0 => Vec::new(),
            _ => kept(&mut world, &mut romeo),
        };
        for item in done.iter().chain(&heard) {
            assert!(
                there.contains(item),
                "killed after {kill_after}: {done:?} were answered, {heard:?} heard of, and \
                 {there:?} are there"
            );
        }
        assert_eq!((there.len(), done.len()), (kill_after, kill_after));
        // A session that comes online is sent the last one.
        let mut phone = world.login("romeo", "phone");
        hears_of(&mut world, &mut phone, "romeo", NODE);
        if kill_after > 0 {
            let seen = phone.expect(&mut world, "</event>");
            assert_eq!(items_in(&seen), [kill_after], "{seen}");
        }
    }
}

#[test]
fn a_change_that_is_refused_has_changed_nothing_and_what_waited_is_taken_up() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    publish(&mut world, &mut romeo, 1);
    world.switches().set_full(true);
    romeo.send(&publication(NODE, 2));
    romeo.send(&publication(NODE, 3));
    let mut seen = String::new();
    while answered(&seen, "error").len() < 2 {
        seen += &romeo.expect(&mut world, "<resource-constraint");
    }
    world.switches().set_full(false);
    publish(&mut world, &mut romeo, 4);
    assert_eq!(kept(&mut world, &mut romeo), [1, 4]);
    world.crash();
    let mut romeo = world.login("romeo", "orchard");
    assert_eq!(kept(&mut world, &mut romeo), [1, 4]);
}

#[test]
fn what_waits_for_a_node_is_bounded() {
    let mut world = World::patient(|options| options.pep.waiting_max = 1);
    let mut romeo = world.login("romeo", "orchard");
    publish(&mut world, &mut romeo, 1);
    romeo.sync(&mut world);
    world.hold();
    for item in 2..=5 {
        romeo.send(&publication(NODE, item));
        world.work();
    }
    world.let_go();
    let mut seen = String::new();
    while answered(&seen, "result").len() + answered(&seen, "error").len() < 4 {
        seen += &romeo.expect(&mut world, "</iq>");
    }
    // One is being made durable, one waits, and there is no room for others.
    assert_eq!(answered(&seen, "result"), [2, 3], "{seen}");
    assert_eq!(answered(&seen, "error"), [4, 5], "{seen}");
    assert_eq!(kept(&mut world, &mut romeo), [1, 2, 3]);
}

#[test]
fn nodes_that_nobody_uses_are_forgotten_and_read_again() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    publish(&mut world, &mut romeo, 1);
    for _ in 0..3 {
        world.pass(world.options.delivery.limits.idle_eviction);
    }
    publish(&mut world, &mut romeo, 2);
    assert_eq!(kept(&mut world, &mut romeo), [1, 2]);
}

#[test]
fn a_hash_is_asked_about_once_and_the_next_client_is_asked_if_nobody_answers() {
    let mut world = World::patient(|_| ());
    let (ver, children) = client(&[&format!("{NODE}+notify")]);
    let mut romeo = world.login("romeo", "orchard");
    publish(&mut world, &mut romeo, 1);
    let mut first = world.login("romeo", "first");
    first.send(&presence(&ver));
    question(&mut world, &mut first);
    let mut second = world.login("romeo", "second");
    second.send(&presence(&ver));
    let seen = second.sync(&mut world);
    assert!(!seen.contains("caps-"), "another one was asked: {seen}");
    // The first one does not answer.
    for _ in 0..80 {
        world.pass(Duration::from_millis(100));
    }
    let id = question(&mut world, &mut second);
    answer(&mut second, "romeo", &id, &children);
    second.expect(&mut world, "<item id='i1'");
    // Whoever comes now is not asked, and hears.
    let mut third = world.login("romeo", "third");
    third.send(&presence(&ver));
    let seen = third.expect(&mut world, "<item id='i1'");
    assert!(!seen.contains("caps-"), "{seen}");
    // An answer that nobody asked for means nothing.
    let (other, children) = client(&["urn:example:other+notify"]);
    let mut fourth = world.login("romeo", "fourth");
    fourth.send(&presence(&other));
    let id = question(&mut world, &mut fourth);
    answer(&mut third, "romeo", &id, &children);
    third.sync(&mut world);
    answer(&mut fourth, "romeo", &id, &children);
    fourth.sync(&mut world);
    let seen = third.sync(&mut world);
    assert!(!seen.contains("<event"), "{seen}");
}

#[test]
fn a_session_of_before_a_crash_gets_last_items_when_it_is_resumed() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    let (mut phone, token) = world.login_managed("romeo", "phone");
    hears_of(&mut world, &mut phone, "romeo", NODE);
    publish(&mut world, &mut romeo, 1);
    phone.expect(&mut world, "<item id='i1'");
    phone.sync(&mut world);
    world.crash();
    let mut phone = world.connect("romeo");
    phone.resume(&token, 0);
    phone.expect(&mut world, "<resumed");
    let id = question(&mut world, &mut phone);
    let (_, children) = client(&[&format!("{NODE}+notify")]);
    answer(&mut phone, "romeo", &id, &children);
    phone.expect(&mut world, "<item id='i1'");
}

#[test]
fn the_whole_of_a_list_of_bookmarks_is_made_native_or_nothing() {
    const LIST: &str = "urn:xmpp:bookmarks:1";
    let mut world = World::patient(|options| {
        let mut machine = server::NodesMachine::account();
        machine.limits.items_per_node_max = 2;
        machine.share_defaults();
        options.pep.machine = std::sync::Arc::new(machine);
    });
    let mut romeo = world.login("romeo", "orchard");
    let set = |rooms: &[&str]| {
        let rooms = rooms.iter();
        let rooms = rooms.map(|room| format!("<conference jid='{room}@rooms'/>"));
        let rooms: String = rooms.collect();
        format!(
            "<iq type='set' id='b'><query xmlns='jabber:iq:private'>\
             <storage xmlns='storage:bookmarks'>{rooms}</storage></query></iq>"
        )
    };
    let native = |world: &mut World, romeo: &mut Peer| {
        romeo.sync(world);
        let get = format!(
            "<iq type='get' id='n'><pubsub xmlns='{NS}'><items node='{LIST}'/></pubsub></iq>"
        );
        romeo.ask(world, &get, "id='n'");
        let answer = romeo.expect(world, "</iq>");
        let ids = answer.split("<item id='").skip(1);
        let ids = ids.filter_map(|rest| rest.split_once('@'));
        ids.map(|(id, _)| id.to_owned()).collect::<Vec<_>>()
    };
    romeo.ask(&mut world, &set(&["a", "b"]), "id='b'");
    assert_eq!(native(&mut world, &mut romeo), ["a", "b"]);
    romeo.ask(&mut world, &set(&["b", "c"]), "id='b'");
    assert_eq!(native(&mut world, &mut romeo), ["b", "c"]);
    romeo.send(&set(&["d", "e", "f"]));
    romeo.expect(&mut world, "not-acceptable");
    assert_eq!(native(&mut world, &mut romeo), ["b", "c"]);
    // One that is as it was changes no item, and is stored.
    let answer = romeo.ask(&mut world, &set(&["b", "c"]), "id='b'");
    assert!(!answer.contains("error"), "{answer}");
    world.crash();
    let mut romeo = world.login("romeo", "orchard");
    assert_eq!(native(&mut world, &mut romeo), ["b", "c"]);
}

/// Native bookmarks.
fn bookmarks(world: &mut World, peer: &mut Peer) -> Vec<String> {
    let get = format!(
        "<iq type='get' id='n'><pubsub xmlns='{NS}'><items node='urn:xmpp:bookmarks:1'/>\
         </pubsub></iq>"
    );
    peer.ask(world, &get, "id='n'");
    let answer = peer.expect(world, "</iq>");
    let ids = answer.split("<item id='").skip(1);
    let ids = ids.filter_map(|rest| rest.split_once('@'));
    ids.map(|(id, _)| id.to_owned()).collect()
}

#[test]
fn bookmarks_that_are_added_one_after_the_other_are_all_there() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    let add = |room: &str| {
        format!(
            "<iq type='set' id='p{room}'><pubsub xmlns='{NS}'>\
             <publish node='urn:xmpp:bookmarks:1'><item id='{room}@rooms'>\
             <conference xmlns='urn:xmpp:bookmarks:1'/></item></publish></pubsub></iq>"
        )
    };
    romeo.ask(&mut world, &add("a"), "id='pa'");
    romeo.sync(&mut world);
    world.hold();
    romeo.send(&add("b"));
    world.work();
    // The next one is taken while the list for older clients, without it, is being made durable.
    world.let_one_go();
    romeo.send(&add("c"));
    world.work();
    world.let_go();
    romeo.expect(&mut world, "id='pc'");
    romeo.sync(&mut world);
    world.settle();
    assert_eq!(bookmarks(&mut world, &mut romeo), ["a", "b", "c"]);
}

#[test]
fn the_last_of_two_lists_of_bookmarks_counts() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    let set = |room: &str| {
        format!(
            "<iq type='set' id='b{room}'><query xmlns='jabber:iq:private'>\
             <storage xmlns='storage:bookmarks'><conference jid='{room}@rooms'/></storage>\
             </query></iq>"
        )
    };
    romeo.ask(&mut world, &set("a"), "id='ba'");
    romeo.sync(&mut world);
    romeo.send(&format!("{}{}", set("b"), set("c")));
    romeo.expect(&mut world, "id='bc'");
    romeo.sync(&mut world);
    world.settle();
    assert_eq!(bookmarks(&mut world, &mut romeo), ["c"]);
}

fn set_list(room: &str) -> String {
    format!(
        "<iq type='set' id='b{room}'><query xmlns='jabber:iq:private'>\
         <storage xmlns='storage:bookmarks'><conference jid='{room}@rooms'/><url url='{room}'/>\
         </storage></query></iq>"
    )
}

/// The list in private storage, as an older client reads it.
fn list(world: &mut World, peer: &mut Peer) -> String {
    let get = "<iq type='get' id='l'><query xmlns='jabber:iq:private'>\
         <storage xmlns='storage:bookmarks'/></query></iq>";
    peer.ask(world, get, "id='l'");
    peer.expect(world, "</iq>")
}

/// A client was told that its list is stored before native bookmarks had followed: a kill in
/// between, and it read the old ones.
#[test]
fn a_list_of_bookmarks_that_was_answered_is_native_after_a_kill() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    romeo.ask(&mut world, &set_list("a"), "id='ba'");
    romeo.sync(&mut world);
    world.hold();
    romeo.send(&set_list("b"));
    for _ in 0..10_000 {
        world.work();
        romeo.read();
        if romeo.seen.contains("id='bb'") {
            break;
        }
        world.try_one();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(romeo.seen.contains("id='bb'"), "{}", romeo.seen);
    world.crash();
    let mut romeo = world.login("romeo", "orchard");
    assert_eq!(bookmarks(&mut world, &mut romeo), ["b"]);
    let list = list(&mut world, &mut romeo);
    assert!(
        list.contains("b@rooms") && list.contains("url='b'"),
        "{list}"
    );
}

#[test]
fn a_list_of_bookmarks_that_is_refused_is_in_neither_place() {
    let mut world = World::patient(|options| options.limits.private_total_bytes_max = 1_000);
    let mut romeo = world.login("romeo", "orchard");
    romeo.ask(&mut world, &set_list("a"), "id='ba'");
    romeo.sync(&mut world);
    for _ in 0..10 {
        world.hold();
        romeo.send(&set_list("b"));
        // The items are read before anything is recorded.
        for _ in 0..20 {
            world.work();
            std::thread::sleep(Duration::from_millis(1));
        }
        world.refuse();
        romeo.expect(&mut world, "resource-constraint");
    }
    assert_eq!(bookmarks(&mut world, &mut romeo), ["a"]);
    let before = list(&mut world, &mut romeo);
    assert!(
        before.contains("a@rooms") && before.contains("url='a'"),
        "{before}"
    );
    // What was refused takes no room.
    let answer = romeo.ask(&mut world, &set_list("c"), "id='bc'");
    assert!(!answer.contains("error"), "{answer}");
    world.crash();
    let mut romeo = world.login("romeo", "orchard");
    assert_eq!(bookmarks(&mut world, &mut romeo), ["c"]);
}

#[test]
fn a_managed_session_stays_whatever_nodes_send_it() {
    const NODES: usize = 6;
    let mut world = World::patient(|options| options.delivery.limits.unlogged.stanzas = 4);
    let mut juliet = world.login("juliet", "balcony");
    let mut romeo = world.login("romeo", "orchard");
    romeo.send("<presence to='juliet@localhost' type='subscribe'/>");
    romeo.sync(&mut world);
    juliet.send("<presence to='romeo@localhost' type='subscribed'/>");
    juliet.sync(&mut world);
    for node in 1..=NODES {
        for peer in [&mut juliet, &mut romeo] {
            let node_name = format!("urn:example:{node}");
            peer.ask(
                &mut world,
                &publication(&node_name, node),
                &format!("id='p{node}'"),
            );
        }
    }
    let wants: Vec<String> = (1..=NODES)
        .map(|n| format!("urn:example:{n}+notify"))
        .collect();
    let wants: Vec<&str> = wants.iter().map(String::as_str).collect();
    let (ver, children) = client(&wants);
    let (mut phone, token) = world.login_managed("romeo", "phone");
    phone.send(&presence(&ver));
    let id = question(&mut world, &mut phone);
    answer(&mut phone, "romeo", &id, &children);
    // Last items of both accounts, and what happens meanwhile; nothing is acknowledged.
    let count = |text: &str| text.matches("</event>").count();
    let mut seen = String::new();
    while count(&seen) < 2 * NODES {
        seen += &phone.expect(&mut world, "</event>");
    }
    for peer in [&mut juliet, &mut romeo] {
        peer.ask(&mut world, &publication("urn:example:1", 7), "id='p7'");
        phone.expect(&mut world, "<item id='i7'");
    }
    phone.expect(&mut world, "</event>");
    // What it has not got when its link is lost comes again with last items.
    drop(phone);
    world.work();
    for node in 2..=NODES {
        juliet.ask(
            &mut world,
            &publication(&format!("urn:example:{node}"), 8),
            "id='p8'",
        );
    }
    let mut phone = world.connect("romeo");
    phone.resume(&token, 0);
    let mut seen = phone.expect(&mut world, "<resumed");
    while items_in(&seen).iter().filter(|item| **item == 8).count() < NODES - 1 {
        seen += &phone.expect(&mut world, "</event>");
    }
}

#[test]
fn a_card_that_is_set_behind_a_picture_is_kept() {
    for held in [false, true] {
        let mut world = World::patient(|_| ());
        let mut romeo = world.login("romeo", "orchard");
        let image = b"not quite a picture";
        let (id, data) = (xmpp::sasl::sha1_hex(image), xmpp::sasl::encode_bytes(image));
        let put = |node: &str, payload: &str| {
            format!(
                "<iq type='set' id='{node}'><pubsub xmlns='{NS}'>\
                 <publish node='urn:xmpp:avatar:{node}'><item id='{id}'>{payload}</item></publish>\
                 </pubsub></iq>"
            )
        };
        let card = |name: &str| {
            let card = format!("<vCard xmlns='vcard-temp'><FN>{name}</FN></vCard>");
            format!("<iq type='set' id='{name}'>{card}</iq>")
        };
        romeo.ask(&mut world, &card("Old"), "id='Old'");
        let data = format!("<data xmlns='urn:xmpp:avatar:data'>{data}</data>");
        let info = format!("<info id='{id}' bytes='19' type='image/png'/>");
        let info = format!("<metadata xmlns='urn:xmpp:avatar:metadata'>{info}</metadata>");
        if held {
            world.hold();
        }
        romeo.send(&put("data", &data));
        romeo.send(&put("metadata", &info));
        romeo.send(&card("New"));
        world.work();
        if held {
            world.let_one_go();
            world.let_go();
        }
        romeo.expect(&mut world, "id='New'");
        romeo.sync(&mut world);
        world.settle();
        let get = "<iq type='get' id='c'><vCard xmlns='vcard-temp'/></iq>";
        romeo.ask(&mut world, get, "id='c'");
        let seen = romeo.expect(&mut world, "</vCard>");
        assert!(seen.contains("<FN>New</FN>"), "{seen}");
    }
}

/// Romeo has published a picture whose read for his vCard is still under way: so many reads wait,
/// and this is the picture as the vCard will have it.
fn a_picture_is_read_late(world: &mut World, romeo: &mut Peer) -> (usize, String) {
    let image = b"not quite a picture";
    let (id, data) = (xmpp::sasl::sha1_hex(image), xmpp::sasl::encode_bytes(image));
    let put = |node: &str, payload: &str| {
        format!(
            "<iq type='set' id='{node}'><pubsub xmlns='{NS}'>\
             <publish node='urn:xmpp:avatar:{node}'><item id='{id}'>{payload}</item></publish>\
             </pubsub></iq>"
        )
    };
    let picture = format!("<data xmlns='urn:xmpp:avatar:data'>{data}</data>");
    romeo.ask(world, &put("data", &picture), "</iq>");
    world.node().set_late_reads(true);
    world.node().stall_reads(true);
    let info = format!("<info id='{id}' bytes='19' type='image/png'/>");
    let info = format!("<metadata xmlns='urn:xmpp:avatar:metadata'>{info}</metadata>");
    romeo.ask(world, &put("metadata", &info), "id='metadata'");
    let binval = format!("<BINVAL>{data}</BINVAL>");
    (world.node().stall_reads(true), binval)
}

/// What is asked of the store behind the first so many reads is answered before them.
fn read_behind(world: &mut World, reads: usize) {
    while world.node().stall_reads(true) > reads {
        world.read_now(reads);
    }
}

/// Who publishes a picture and asks for his vCard has it there, however long that takes to read: it
/// came without, now and then.
#[test]
fn a_card_that_is_asked_for_behind_a_picture_has_it() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    let (reads, picture) = a_picture_is_read_late(&mut world, &mut romeo);
    romeo.send("<iq type='get' id='c'><vCard xmlns='vcard-temp'/></iq>");
    world.work();
    read_behind(&mut world, reads);
    world.node().stall_reads(false);
    world.work();
    let seen = romeo.expect(&mut world, "</vCard>");
    assert!(seen.contains(&picture), "{seen}");
}

/// One more is told what there is.
#[test]
fn so_many_who_ask_for_a_card_wait_for_a_picture() {
    const WAIT_MAX: usize = 64;
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    let mut phone = world.login("romeo", "phone");
    let (reads, picture) = a_picture_is_read_late(&mut world, &mut romeo);
    let get = |number| format!("<iq type='get' id='c{number}'><vCard xmlns='vcard-temp'/></iq>");
    // A client's own window is as large as that.
    for number in 0..WAIT_MAX / 2 {
        romeo.send(&get(number));
        phone.send(&get(number));
    }
    world.work();
    phone.send(&get(WAIT_MAX));
    world.work();
    read_behind(&mut world, reads);
    let seen = phone.expect(&mut world, &format!("id='c{WAIT_MAX}'"));
    assert_eq!(seen.matches("id='c").count(), 1, "{seen}");
    world.node().stall_reads(false);
    world.work();
    for peer in [&mut romeo, &mut phone] {
        let last = format!("id='c{}'", WAIT_MAX / 2 - 1);
        let seen = peer.expect(&mut world, &last) + &peer.expect(&mut world, "</vCard>");
        assert_eq!(seen.matches(&picture).count(), WAIT_MAX / 2, "{seen}");
    }
}

#[test]
fn a_client_that_claims_anew_while_another_is_asked_hears_of_what_it_wants_now() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    publish(&mut world, &mut romeo, 1);
    let mut phone = world.login("romeo", "phone");
    hears_of(&mut world, &mut phone, "romeo", "urn:example:other");
    let (ver, children) = client(&[&format!("{NODE}+notify")]);
    let mut silent = world.login("romeo", "silent");
    silent.send(&presence(&ver));
    question(&mut world, &mut silent);
    phone.send(&presence(&ver));
    phone.sync(&mut world);
    for _ in 0..20 {
        world.pass(Duration::from_millis(100));
    }
    let id = question(&mut world, &mut phone);
    answer(&mut phone, "romeo", &id, &children);
    phone.expect(&mut world, "<item id='i1'");
}
