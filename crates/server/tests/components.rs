//! Domains that other programs serve (XEP-0114, docs/components.md): who is let in, what goes to
//! and fro, and what becomes of it while the program is away, slow, silent or killed.

mod common;

use std::time::Duration;

use common::PANIC;
use common::world::{Peer, World, bodies};
use server::options::{Component, Secret};
use telemetry::{Counter, Gauge};

const DOMAIN: &str = "irc.localhost";
const SECRET: &str = "a secret of some length";
const AT: &str = "nick@irc.localhost";

const NO_STORE: &str = "<no-store xmlns='urn:xmpp:hints'/>";
const GONE: &str = "<remote-server-timeout";

fn world(change: impl FnOnce(&mut server::Options)) -> World {
    World::patient(|options| {
        options.components.served = vec![Component {
            domain: DOMAIN.to_owned(),
            secret: Secret::new(SECRET.to_owned()),
            port: 0,
        }];
        change(options);
    })
}

fn header(domain: &str) -> String {
    format!(
        "<stream:stream to='{domain}' xmlns='jabber:component:accept' \
         xmlns:stream='http://etherx.jabber.org/streams'>"
    )
}

/// A stream on which the handshake has been said.
fn handshake(world: &mut World, domain: &str, secret: &str) -> Peer {
    let mut peer = world.stranger();
    let header = peer.ask(
        world,
        &header(domain),
        "xmlns:stream='http://etherx.jabber.org/streams'>",
    );
    let (_, id) = header.split_once("id='").expect("an id");
    let (id, _) = id.split_once('\'').expect("its end");
    let hash = xmpp::sasl::sha1_hex(format!("{id}{secret}").as_bytes());
    peer.send(&format!("<handshake>{hash}</handshake>"));
    peer
}

fn attach(world: &mut World) -> Peer {
    let mut peer = handshake(world, DOMAIN, SECRET);
    peer.expect(world, "<handshake/>");
    peer
}

/// The component has read up to the next ping, and says so. Gives what it read.
fn answer(world: &mut World, component: &mut Peer) -> String {
    let seen = component.expect(world, "<ping xmlns='urn:xmpp:ping'/></iq>");
    let (_, id) = seen.rsplit_once("id='roost-read-").expect("a ping of ours");
    let (id, _) = id.split_once('\'').expect("its end");
    component.send(&format!(
        "<iq type='result' id='roost-read-{id}' from='{DOMAIN}' to='localhost'/>"
    ));
    world.work();
    seen
}

/// Nothing is under way to the component any more. Gives what it read.
fn settle(world: &mut World, component: &mut Peer) -> String {
    let mut seen = String::new();
    loop {
        for _ in 0..20 {
            world.work();
            component.read();
            std::thread::sleep(Duration::from_millis(1));
        }
        if !component
            .seen
            .contains("<ping xmlns='urn:xmpp:ping'/></iq>")
        {
            return seen + &std::mem::take(&mut component.seen);
        }
        seen += &answer(world, component);
    }
}

/// The stream ends with this error.
fn ends_with(world: &mut World, peer: &mut Peer, error: &str) {
    let seen = peer.expect(world, "</stream:stream>");
    assert!(seen.contains(error), "{error}: {seen}");
}

/// Time in which senders are called who wait for the component.
fn call(world: &mut World) {
    for _ in 0..3 {
        world.pass(Duration::from_millis(100));
    }
}

/// Time in which senders notice that nobody answers, and try again.
fn retry(world: &mut World) {
    for seconds in [6, 1, 16] {
        world.pass(Duration::from_secs(seconds));
    }
}

/// What was sent or closed is handled as far as it can be.
fn handle(world: &mut World) {
    for _ in 0..20 {
        world.work();
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn who_knows_the_secret_serves_the_domain() {
    let mut world = world(|_| ());
    let mut wrong = handshake(&mut world, DOMAIN, "another secret");
    ends_with(&mut world, &mut wrong, "<not-authorized");
    let mut unknown = world.stranger();
    unknown.send(&header("sms.localhost"));
    ends_with(&mut world, &mut unknown, "<host-unknown");
    let mut component = attach(&mut world);
    let mut second = handshake(&mut world, DOMAIN, SECRET);
    ends_with(&mut world, &mut second, "<conflict");
    component.send("<message from='romeo@localhost' to='juliet@localhost'/>");
    ends_with(&mut world, &mut component, "<invalid-from");
    drop(component);
    attach(&mut world);
}

#[test]
fn stanzas_go_to_and_fro() {
    let mut world = world(|_| ());
    let mut component = attach(&mut world);
    let mut romeo = world.login("romeo", "orchard");
    let ask = format!("<iq type='get' id='q' to='{AT}/x'><query xmlns='urn:x'/></iq>");
    romeo.send(&ask);
    let seen = component.expect(&mut world, "</iq>");
    assert!(seen.contains(&format!("to='{AT}/x'")), "{seen}");
    assert!(seen.contains("from='romeo@localhost/orchard'"), "{seen}");
    component.send(&format!(
        "<iq type='result' id='q' from='{AT}/x' to='romeo@localhost/orchard'/>"
    ));
    romeo.expect(&mut world, "id='q'");
    romeo.say(AT, "1");
    let seen = component.expect(&mut world, "</message>");
    assert!(
        seen.contains("<body>1</body>") && !seen.contains("xmlns='jabber"),
        "{seen}"
    );
    romeo.send("<presence/>");
    component.send(&format!(
        "<message type='chat' from='{AT}/x' to='Romeo@LOCALHOST'><body>2</body></message>"
    ));
    let seen = romeo.expect(&mut world, "</message>");
    assert!(seen.contains("<body>2</body>"), "{seen}");
    // The domain itself, and one that nobody serves.
    component.send(&format!(
        "<iq type='get' id='i' from='{DOMAIN}' to='localhost'>\
         <query xmlns='http://jabber.org/protocol/disco#items'/></iq>"
    ));
    let items = component.expect(&mut world, "</query></iq>");
    assert!(items.contains("<item jid='irc.localhost'/>"), "{items}");
    component.send(&format!(
        "<message id='m' from='{DOMAIN}' to='a@example.net'/>"
    ));
    component.expect(&mut world, "<remote-server-not-found");
}

#[test]
fn who_waits_for_a_component_that_is_away_hears_so_at_once() {
    let mut world = world(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    romeo.sync(&mut world);
    let waited = [
        format!("<iq type='get' id='1' to='{AT}'><query xmlns='urn:x'/></iq>"),
        format!("<message id='2' to='{AT}'><body>1</body>{NO_STORE}</message>"),
        format!("<presence id='3' to='#room@{DOMAIN}/nick'/>"),
    ];
    for stanza in &waited {
        let seen = romeo.ask(&mut world, stanza, "</error>");
        assert!(
            seen.contains(GONE) && seen.contains("type='wait'"),
            "{stanza}: {seen}"
        );
    }
    // Presence for everybody, answers and errors wait for nothing.
    romeo.send(&format!("<presence to='{AT}'/>"));
    romeo.send(&format!("<iq type='result' id='4' to='{AT}'/>"));
    let seen = romeo.sync(&mut world);
    assert!(!seen.contains("<error"), "{seen}");
}

#[test]
fn accepted_messages_wait_and_come_in_order_and_once() {
    let mut world = world(|_| ());
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    for body in 1..=3 {
        romeo.say(AT, &body.to_string());
    }
    let seen = romeo.sync(&mut world);
    assert!(!seen.contains("<error"), "{seen}");
    retry(&mut world);
    let mut component = attach(&mut world);
    retry(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [1, 2, 3]);
    romeo.say(AT, "4");
    romeo.sync(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [4]);
    retry(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [0; 0]);
}

#[test]
fn what_a_component_did_not_show_to_have_read_comes_again_to_the_next() {
    let mut world = world(|_| ());
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    let mut component = attach(&mut world);
    romeo.say(AT, "1");
    romeo.sync(&mut world);
    assert_eq!(bodies(&answer(&mut world, &mut component)), [1]);
    romeo.say(AT, "2");
    romeo.say(AT, "3");
    romeo.send(&format!(
        "<iq type='get' id='q' to='{AT}'><query xmlns='urn:x'/></iq>"
    ));
    romeo.sync(&mut world);
    component.expect(&mut world, "<query xmlns='urn:x'/></iq>");
    drop(component);
    let seen = romeo.expect(&mut world, "</error>");
    assert!(seen.contains(GONE) && seen.contains("id='q'"), "{seen}");
    let mut component = attach(&mut world);
    retry(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [2, 3]);
}

#[test]
fn a_domain_that_crashes_loses_nothing() {
    let mut world = world(|_| ());
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    let mut component = attach(&mut world);
    romeo.say(AT, "1");
    romeo.sync(&mut world);
    component.expect(&mut world, "</message>");
    world.node().kill(DOMAIN);
    world.work();
    ends_with(&mut world, &mut component, "<internal-server-error");
    let mut component = attach(&mut world);
    retry(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [1]);
    world.crash();
    let mut component = attach(&mut world);
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    romeo.say(AT, "2");
    romeo.sync(&mut world);
    retry(&mut world);
    // What it read just before the kill may come twice.
    let seen = bodies(&settle(&mut world, &mut component));
    assert!(seen == [2] || seen == [1, 2], "{seen:?}");
}

#[test]
fn a_component_that_does_not_answer_is_given_up() {
    let mut world = world(|options| options.components.answer_timeout = Duration::from_secs(10));
    let mut component = attach(&mut world);
    // It is asked although there is nothing for it.
    world.pass(Duration::from_secs(5));
    answer(&mut world, &mut component);
    for _ in 0..4 {
        world.pass(Duration::from_secs(5));
    }
    ends_with(&mut world, &mut component, "<connection-timeout");
    drop(component);
    attach(&mut world);
}

#[test]
fn a_component_that_takes_the_place_of_a_dead_one_need_not_wait_for_long() {
    let mut world = world(|options| options.components.answer_timeout = Duration::from_secs(10));
    let mut dead = attach(&mut world);
    let mut next = handshake(&mut world, DOMAIN, SECRET);
    ends_with(&mut world, &mut next, "<conflict");
    for _ in 0..2 {
        world.pass(Duration::from_secs(5));
    }
    ends_with(&mut world, &mut dead, "<connection-timeout");
    attach(&mut world);
}

#[test]
fn a_slow_component_gets_everything_at_its_own_pace() {
    let mut world = world(|options| options.components.sent_max = 2);
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    let mut component = attach(&mut world);
    for body in 1..=5 {
        romeo.say(AT, &body.to_string());
    }
    romeo.sync(&mut world);
    component.expect(&mut world, "<body>1</body>");
    // The ping went behind the first one, and the second one behind the ping.
    let seen = component.expect(&mut world, "<body>2</body>");
    assert!(seen.contains("<ping "), "{seen}");
    world.pass(Duration::from_secs(1));
    component.read();
    assert!(!component.seen.contains("<body>3"), "{:?}", component.seen);
    component.send(&format!(
        "<iq type='error' id='roost-read-1' from='{DOMAIN}' to='localhost'/>"
    ));
    let seen = settle(&mut world, &mut component);
    assert_eq!(bodies(&seen), [3, 4, 5]);
    retry(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [0; 0]);
}

/// Goal: what waits for longer than its answer is handed over again, and is recognised however many
/// others were read in between; beyond the bound on pairs it comes again.
#[test]
fn what_waits_for_long_is_read_once() {
    const EACH: u32 = 40;
    for (pairs_max, is_once) in [(80, true), (40, false)] {
        let mut world = world(|options| {
            options.components.sent_max = 2;
            options.components.pairs_max = pairs_max;
        });
        let mut component = attach(&mut world);
        for (at, user) in ["romeo", "juliet"].into_iter().enumerate() {
            let (mut client, _) = world.login_managed(user, "orchard");
            for one in 0..EACH {
                let body = at as u32 * EACH + one;
                client.say(&format!("n{one}@{DOMAIN}"), &body.to_string());
            }
            client.sync(&mut world);
        }
        // Nothing is answered for longer than senders wait.
        for seconds in [6, 1] {
            world.pass(Duration::from_secs(seconds));
        }
        let mut seen = bodies(&settle(&mut world, &mut component));
        let read = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len() as u32, 2 * EACH, "nothing is lost");
        assert_eq!(read == seen.len(), is_once, "{read} for {pairs_max} pairs");
    }
}

#[test]
fn bytes_under_way_are_bounded_too() {
    let mut world = world(|options| options.components.sent_bytes_max = 100);
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    let mut component = attach(&mut world);
    romeo.say(AT, "1");
    romeo.say(AT, "2");
    romeo.sync(&mut world);
    let seen = answer(&mut world, &mut component);
    assert_eq!(bodies(&seen), [1]);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [2]);
}

/// Goal: who is not known yet may not make the server keep more than 8 KiB.
#[test]
fn an_element_before_the_handshake_is_bounded() {
    for (bytes, error) in [(8_000, "<not-authorized"), (8_193, "<policy-violation")] {
        let mut world = world(|_| ());
        let mut stranger = world.stranger();
        stranger.ask(
            &mut world,
            &header(DOMAIN),
            "xmlns:stream='http://etherx.jabber.org/streams'>",
        );
        stranger.send(&format!("<handshake>{}</handshake>", "a".repeat(bytes)));
        ends_with(&mut world, &mut stranger, error);
        attach(&mut world);
    }
}

#[test]
fn strangers_do_not_keep_a_component_out() {
    let mut world = world(|options| options.components.strangers_per_address_max = 2);
    let mut first = world.stranger();
    world.work();
    let mut others = [world.stranger(), world.stranger()];
    ends_with(&mut world, &mut first, "<resource-constraint");
    let mut component = attach(&mut world);
    ends_with(&mut world, &mut others[0], "<resource-constraint");
    world.pass(Duration::from_secs(11));
    ends_with(&mut world, &mut others[1], "<connection-timeout");
    // One that has shaken hands is no stranger.
    component.send(&format!(
        "<message id='m' from='{DOMAIN}' to='a@example.net'/>"
    ));
    component.expect(&mut world, "<remote-server-not-found");
}

#[test]
fn strangers_of_all_addresses_are_bounded() {
    let mut world = world(|options| options.components.strangers_max = 1);
    let mut first = world.stranger();
    world.work();
    let _second = world.stranger();
    ends_with(&mut world, &mut first, "<resource-constraint");
}

#[test]
fn subscriptions_and_presence_reach_a_component() {
    let mut world = world(|_| ());
    let mut component = attach(&mut world);
    let mut romeo = world.login("romeo", "orchard");
    romeo.send("<presence/>");
    for at in [AT, DOMAIN] {
        romeo.send(&format!("<presence type='subscribe' to='{at}'/>"));
        let seen = component.expect(&mut world, "type='subscribe'");
        assert!(seen.contains("<presence "), "{seen}");
        component.send(&format!(
            "<presence type='subscribed' from='{at}' to='romeo@localhost'/>\
             <presence type='subscribe' from='{at}' to='romeo@localhost'/>"
        ));
        romeo.expect(&mut world, "type='subscribed'");
        romeo.expect(&mut world, "type='subscribe'");
        romeo.send(&format!("<presence type='subscribed' to='{at}'/>"));
        romeo.sync(&mut world);
        let seen = settle(&mut world, &mut component);
        let shown = format!("<presence from='romeo@localhost/orchard' to='{at}'/>");
        assert!(seen.contains(&shown), "{seen}");
    }
    romeo.send("<presence><show>away</show></presence>");
    romeo.sync(&mut world);
    let seen = settle(&mut world, &mut component);
    let shown = seen.matches("<show>away</show>").count();
    assert_eq!(
        (shown, seen.matches("to='").count() >= 2),
        (2, true),
        "{seen}"
    );
    // A new session asks who is there.
    let mut tower = world.login("romeo", "tower");
    tower.send("<presence/>");
    tower.sync(&mut world);
    let seen = settle(&mut world, &mut component);
    assert_eq!(seen.matches("type='probe'").count(), 2, "{seen}");
    assert!(seen.contains("from='romeo@localhost/tower'"), "{seen}");
    component.send(&format!("<presence from='{AT}/x' to='romeo@localhost'/>"));
    tower.expect(&mut world, &format!("from='{AT}/x'"));
    // And a component asks whether a user is.
    component.send(&format!(
        "<presence type='probe' from='{AT}' to='romeo@localhost'/>"
    ));
    let seen = component.expect(&mut world, "romeo@localhost/tower");
    assert!(seen.contains("<presence "), "{seen}");
}

#[test]
fn a_user_of_a_component_is_in_a_room_for_as_long_as_it_is_there() {
    let mut world = world(|_| ());
    let mut component = attach(&mut world);
    let mut romeo = world.login("romeo", "orchard");
    let room = "hall@conference.localhost";
    let muc = "<x xmlns='http://jabber.org/protocol/muc'/>";
    romeo.send(&format!("<presence to='{room}/romeo'>{muc}</presence>"));
    romeo.expect(&mut world, "code='110'");
    romeo.send(&format!(
        "<iq type='set' id='conf' to='{room}'><query xmlns='http://jabber.org/protocol/muc#owner'>\
         <x xmlns='jabber:x:data' type='submit'/></query></iq>"
    ));
    romeo.expect(&mut world, "id='conf'");
    component.send(&format!(
        "<presence from='{AT}/x' to='{room}/nick'>{muc}</presence>"
    ));
    romeo.expect(&mut world, &format!("from='{room}/nick'"));
    let seen = settle(&mut world, &mut component);
    assert!(
        seen.contains("code='110'") && seen.contains(&format!("to='{AT}/x'")),
        "{seen}"
    );
    romeo.send(&format!(
        "<message type='groupchat' to='{room}'><body>7</body></message>"
    ));
    romeo.expect(&mut world, "<body>7</body>");
    let seen = settle(&mut world, &mut component);
    assert!(seen.contains("<body>7</body>"), "{seen}");
    component.send(&format!(
        "<message type='groupchat' from='{AT}/x' to='{room}'><body>8</body></message>"
    ));
    romeo.expect(&mut world, "<body>8</body>");
    drop(component);
    handle(&mut world);
    romeo.send(&format!(
        "<message type='groupchat' to='{room}'><body>9</body></message>"
    ));
    let seen = romeo.expect(&mut world, "type='unavailable'");
    assert!(seen.contains(&format!("from='{room}/nick'")), "{seen}");
}

#[test]
fn messages_as_bytes_reach_a_component_all_the_same() {
    let mut world = world(|options| options.wire.through_bytes = true);
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    romeo.say(AT, "1");
    romeo.sync(&mut world);
    let mut component = attach(&mut world);
    retry(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [1]);
}

// ---- The list of senders -----------------------------------------------------------------------

const QUARTER: Duration = Duration::from_secs(15 * 60);

#[test]
fn a_sender_does_nothing_until_the_component_is_there_and_is_called_then() {
    let mut world = world(|_| ());
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    for body in 1..=3 {
        romeo.say(AT, &body.to_string());
    }
    romeo.say("other@irc.localhost", "4");
    romeo.sync(&mut world);
    world.pass(Duration::from_secs(60));
    let retried = |world: &mut World| world.node().stats().counter(Counter::ForwardsRetried);
    let before = retried(&mut world);
    for _ in 0..10 {
        world.pass(Duration::from_secs(60));
    }
    assert_eq!(retried(&mut world), before, "nobody tries");
    let mut component = attach(&mut world);
    call(&mut world);
    let mut seen = bodies(&settle(&mut world, &mut component));
    assert_eq!(
        seen.iter()
            .filter(|body| **body < 4)
            .copied()
            .collect::<Vec<_>>(),
        [1, 2, 3]
    );
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3, 4]);
    // He is off the list, and on it again the next time.
    drop(component);
    handle(&mut world);
    romeo.say(AT, "5");
    romeo.sync(&mut world);
    let mut component = attach(&mut world);
    call(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [5]);
}

/// These close their streams, and their accounts are loaded no more.
fn leave_memory<const N: usize>(world: &mut World, clients: [Peer; N]) {
    for mut client in clients {
        client.send("</stream:stream>");
        client.expect(world, "</stream:stream>");
    }
    for _ in 0..4 {
        world.pass(Duration::from_secs(20));
    }
}

/// How often an account was loaded so far.
fn loaded(world: &mut World) -> u64 {
    world.node().stats().counter(Counter::UsersLoaded)
}

#[test]
fn a_sender_may_leave_the_memory_and_is_loaded_when_the_component_is_there() {
    let mut world = world(|_| ());
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    romeo.say(AT, "1");
    romeo.sync(&mut world);
    leave_memory(&mut world, [romeo]);
    let before = loaded(&mut world);
    let mut component = attach(&mut world);
    call(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [1]);
    world.pass(Duration::from_secs(1));
    assert_eq!(loaded(&mut world), before + 1, "he was not there");
}

#[test]
fn what_waits_for_too_long_comes_back_although_its_sender_left_the_memory() {
    let mut world = world(|_| ());
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    romeo.say(AT, "1");
    romeo.sync(&mut world);
    romeo.send("</stream:stream>");
    romeo.expect(&mut world, "</stream:stream>");
    drop(romeo);
    for _ in 0..5 {
        world.pass(QUARTER);
        for _ in 0..20 {
            world.pass(Duration::from_secs(1));
        }
    }
    assert_eq!(world.node().stats().counter(Counter::MessagesReturned), 1);
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    romeo.send("<presence/>");
    romeo.expect(&mut world, "</error>");
    let mut component = attach(&mut world);
    call(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [0; 0]);
}

#[test]
fn wherever_the_server_is_killed_what_was_accepted_comes_once() {
    // Of the commits of a message, of the list, and of what follows, so many happen.
    for commits in 1..6 {
        let mut world = world(|_| ());
        let (mut romeo, _) = world.login_managed("romeo", "orchard");
        world.hold();
        romeo.say(AT, "1");
        handle(&mut world);
        for _ in 0..commits {
            if !world.try_one() {
                world.pass(Duration::from_secs(2));
            }
        }
        world.crash();
        let mut component = attach(&mut world);
        call(&mut world);
        retry(&mut world);
        let seen = bodies(&settle(&mut world, &mut component));
        assert_eq!(seen, [1], "after {commits}");
        world.crash();
        let mut component = attach(&mut world);
        retry(&mut world);
        let seen = bodies(&settle(&mut world, &mut component));
        assert!(seen.is_empty() || seen == [1], "{seen:?}");
    }
}

#[test]
fn a_domain_that_crashes_has_its_list_and_its_senders_again() {
    let mut world = world(|_| ());
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    romeo.say(AT, "1");
    romeo.sync(&mut world);
    world.node().kill(DOMAIN);
    world.work();
    let mut component = attach(&mut world);
    call(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [1]);
}

#[test]
fn whoever_finds_no_room_on_the_list_tries_by_himself() {
    let mut world = world(|options| options.components.listed_max = 1);
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    let (mut juliet, _) = world.login_managed("juliet", "balcony");
    romeo.say(AT, "1");
    romeo.sync(&mut world);
    juliet.say(AT, "2");
    juliet.sync(&mut world);
    let mut component = attach(&mut world);
    retry(&mut world);
    let mut seen = bodies(&settle(&mut world, &mut component));
    seen.sort_unstable();
    assert_eq!(seen, [1, 2]);
}

#[test]
fn senders_are_called_in_turns() {
    let mut world = world(|options| options.components.calls_max = 1);
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    let (mut juliet, _) = world.login_managed("juliet", "balcony");
    romeo.say(AT, "1");
    romeo.sync(&mut world);
    juliet.say(AT, "2");
    juliet.sync(&mut world);
    let mut component = attach(&mut world);
    world.pass(Duration::from_millis(100));
    assert_eq!(bodies(&settle(&mut world, &mut component)).len(), 1);
    call(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)).len(), 1);
}

/// Goal: whoever is called hands over what he has, which a component that has enough to read would
/// not take.
#[test]
fn nobody_is_called_while_the_component_has_enough_to_read() {
    let mut world = world(|options| {
        options.components.calls_max = 1;
        options.components.sent_max = 1;
    });
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    let (mut juliet, _) = world.login_managed("juliet", "balcony");
    romeo.say(AT, "1");
    romeo.sync(&mut world);
    juliet.say(AT, "2");
    juliet.sync(&mut world);
    leave_memory(&mut world, [romeo, juliet]);
    let before = loaded(&mut world);
    let mut component = attach(&mut world);
    for _ in 0..10 {
        world.pass(Duration::from_millis(100));
    }
    assert_eq!(loaded(&mut world), before + 1);
    let mut seen = bodies(&answer(&mut world, &mut component));
    call(&mut world);
    assert_eq!(loaded(&mut world), before + 2);
    seen.extend(bodies(&settle(&mut world, &mut component)));
    seen.sort_unstable();
    assert_eq!(seen, [1, 2]);
}

/// As many addresses of a component that is away have a message of one sender. The server is killed
/// then, and the component comes.
fn component_of_many_addresses(
    addresses: usize,
    change: impl FnOnce(&mut server::Options),
) -> (World, Peer) {
    let mut world = world(change);
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    for number in 0..addresses {
        romeo.say(&format!("n{number}@{DOMAIN}"), &number.to_string());
        if number % 100 == 0 {
            romeo.sync(&mut world);
        }
    }
    romeo.sync(&mut world);
    retry(&mut world);
    world.crash();
    let component = attach(&mut world);
    call(&mut world);
    (world, component)
}

/// Goal: of hundreds that are to be read for, a few are at a time: there is room for no more.
#[test]
fn a_sender_to_many_addresses_is_read_in_pieces() {
    let (mut world, mut component) = component_of_many_addresses(300, |options| {
        options.actors.asks_max = 2 * options.delivery.outbox.reads_max as usize;
    });
    let mut seen = bodies(&settle(&mut world, &mut component));
    seen.sort_unstable();
    assert!(seen == Vec::from_iter(0..300), "{} came", seen.len());
}

/// Goal: reads for which there is no room are tried again, however many there are.
#[test]
fn reads_for_thousands_of_addresses_that_find_no_room_end_nobody() {
    let (mut world, mut component) = component_of_many_addresses(3_000, |options| {
        options.delivery.outbox.reads_max = 3_000;
        options.actors.asks_max = 8;
    });
    let came = bodies(&settle(&mut world, &mut component)).len();
    retry(&mut world);
    let later = bodies(&settle(&mut world, &mut component)).len();
    assert!(came > 0 && later > 0, "{came}, {later}");
    assert_eq!(world.node().stats().counter(Counter::ActorLimit), 0);
}

/// Goal: however often somebody writes elsewhere, a destination that is away has one timer.
#[test]
fn a_destination_that_is_away_takes_one_timer() {
    let mut world = world(|options| options.actors.timers_max = 8);
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    romeo.say(AT, "1");
    romeo.sync(&mut world);
    for _ in 0..10 {
        romeo.say("juliet@localhost", "2");
        romeo.sync(&mut world);
        world.pass(Duration::from_secs(6));
    }
    assert_eq!(world.node().stats().counter(Counter::ActorLimit), 0);
    let mut component = attach(&mut world);
    call(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [1]);
}

/// Goal: a domain that crashed so often that it is set aside calls those on its list all the same.
#[test]
fn a_domain_that_was_set_aside_comes_back_by_itself() {
    let mut world = world(|_| ());
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    romeo.say(AT, "1");
    romeo.sync(&mut world);
    // As of a moment ago: 300 ms pass.
    let components = |world: &mut World| {
        call(world);
        world.node().stats().gauge(Gauge::Components)
    };
    assert_eq!(components(&mut world), 1);
    for _ in 0..=actor::limits::CRASHES_MAX {
        romeo.send(&format!(
            "<message type='headline' to='{AT}'><body>{PANIC}-in-the-room</body></message>"
        ));
        romeo.sync(&mut world);
    }
    assert_eq!(components(&mut world), 0, "it is set aside");
    world.pass(actor::limits::QUARANTINE - Duration::from_secs(1));
    assert_eq!(components(&mut world), 0);
    world.pass(Duration::from_secs(1));
    assert_eq!(components(&mut world), 1);
    let mut component = attach(&mut world);
    call(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [1]);
}

/// Goal: whoever came while a component was there that had stopped to answer, and has gone since,
/// takes nobody's place; also if he came on another thread than the domain's.
#[test]
fn one_that_has_gone_is_not_taken_for_the_next_component() {
    let mut world = world(|options| {
        options.shards = 4;
        options.components.sent_max = 1;
        options.components.strangers_per_address_max = 100;
    });
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    let mut silent = attach(&mut world);
    romeo.say(AT, "1");
    romeo.sync(&mut world);
    silent.expect(&mut world, "<body>1</body>");
    let mut gone = Vec::new();
    for _ in 0..8 {
        gone.push(handshake(&mut world, DOMAIN, SECRET));
        handle(&mut world);
        // Whoever is taken has this to read.
        romeo.send(&format!(
            "<message type='headline' to='{AT}'><body>2</body></message>"
        ));
        romeo.sync(&mut world);
    }
    world.pass(Duration::from_secs(11));
    for peer in &mut gone {
        ends_with(&mut world, peer, "<connection-timeout");
    }
    drop(gone);
    for _ in 0..5 {
        world.pass(Duration::from_secs(5));
    }
    ends_with(&mut world, &mut silent, "<connection-timeout");
    let mut component = attach(&mut world);
    retry(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [1]);
}

/// Goal: a store that takes longer to read an account than that has to hear its call keeps nobody
/// on the list for ever, and nothing from the component.
#[test]
fn an_account_that_does_not_hear_its_call_in_time_is_called_again() {
    let mut world = world(|_| ());
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    romeo.say(AT, "1");
    romeo.sync(&mut world);
    leave_memory(&mut world, [romeo]);
    let mut component = attach(&mut world);
    world.node().set_late_reads(true);
    world.node().stall_reads(true);
    call(&mut world);
    world.pass(Duration::from_secs(11));
    assert_eq!(bodies(&settle(&mut world, &mut component)), [0; 0]);
    world.node().stall_reads(false);
    world.node().set_late_reads(false);
    world.work();
    assert_eq!(bodies(&settle(&mut world, &mut component)), [1]);
    // He is called again, hears it, and is off the list: nobody loads him once he has gone.
    for _ in 0..10 {
        world.pass(Duration::from_secs(20));
        settle(&mut world, &mut component);
    }
    drop(component);
    handle(&mut world);
    // Nobody calls him while the component is away, so that he leaves the memory.
    leave_memory(&mut world, []);
    let before = loaded(&mut world);
    let mut component = attach(&mut world);
    call(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [0; 0]);
    assert_eq!(loaded(&mut world), before);
}

#[test]
fn a_list_that_cannot_be_written_loses_nothing() {
    let mut world = world(|_| ());
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    world.hold();
    romeo.say(AT, "1");
    handle(&mut world);
    // Accepted; then the list is refused.
    world.let_one_go();
    world.refuse();
    let mut component = attach(&mut world);
    retry(&mut world);
    assert_eq!(bodies(&settle(&mut world, &mut component)), [1]);
}
