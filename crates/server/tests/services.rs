//! Small services: what docs/extending.md says of them, shown with its example. One is answered for
//! when its change is durable, and comes back with what it kept wherever it ends.

mod common;
#[path = "example/votes.rs"]
mod votes;

use std::time::Duration;

use common::world::{Peer, World};
use common::{Client, PANIC, options, start_extended};
use server::admin::{Request, Response};
use server::modules::Extensions;
use server::modules::service::{Outcome, Service};
use telemetry::Gauge;
use xmpp::error::Condition;

static SERVICES: &[&Service] = &[&votes::SERVICE];

const EXTENSIONS: Extensions = Extensions {
    modules: &[],
    services: SERVICES,
};

const AT: &str = "votes.localhost";
const NS: &str = "urn:example:votes";

fn world(change: impl FnOnce(&mut server::Options)) -> World {
    World::extended(EXTENSIONS, change)
}

fn vote(id: &str, choice: &str) -> String {
    format!("<iq type='set' id='{id}' to='{AT}'><vote xmlns='{NS}' for='{choice}'/></iq>")
}

/// What was counted, as it stands in the answer.
fn counted(world: &mut World, peer: &mut Peer) -> String {
    let ask = format!("<iq type='get' id='count' to='{AT}'><vote xmlns='{NS}'/></iq>");
    peer.ask(world, &ask, "id='count'");
    let seen = peer.expect(world, "</iq>");
    let (_, rest) = seen.split_once("<votes").expect("votes");
    let parts = rest.split("<choice for='").skip(1);
    let parts = parts.filter_map(|part| part.split_once("</choice>"));
    let parts: Vec<String> = parts.map(|(one, _)| one.replace("'>", " ")).collect();
    parts.join(", ")
}

fn voted(world: &mut World, peer: &mut Peer, choice: &str) {
    peer.ask(world, &vote("vote", choice), "id='vote'");
}

#[test]
fn the_guide_shows_the_service_that_is_compiled() {
    let page = include_str!("../../../docs/extending.md");
    let example = include_str!("example/votes.rs");
    let shown = format!("```rust\n{example}```\n");
    assert!(page.contains(&shown), "copy the example into the page");
}

#[test]
fn it_is_found_and_answers() {
    let mut world = world(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    let ns = "http://jabber.org/protocol/disco";
    let ask = format!("<iq type='get' id='i' to='localhost'><query xmlns='{ns}#items'/></iq>");
    let items = romeo.ask(&mut world, &ask, "</iq>");
    assert!(items.contains("<item jid='votes.localhost'/>"), "{items}");
    let ask = format!("<iq type='get' id='j' to='{AT}'><query xmlns='{ns}#info'/></iq>");
    let info = romeo.ask(&mut world, &ask, "</iq>");
    assert!(info.contains("name='Votes'") && info.contains(NS), "{info}");
    let ping = format!("<iq type='get' id='p' to='{AT}'><ping xmlns='urn:xmpp:ping'/></iq>");
    let seen = romeo.ask(&mut world, &ping, "id='p'");
    assert!(seen.contains("type='result'"), "{seen}");
    voted(&mut world, &mut romeo, "tea");
    let mut juliet = world.login("juliet", "balcony");
    voted(&mut world, &mut juliet, "tea");
    assert_eq!(counted(&mut world, &mut juliet), "tea 2");
    voted(&mut world, &mut romeo, "ale");
    assert_eq!(counted(&mut world, &mut juliet), "ale 1, tea 1");
    let seen = romeo.ask(&mut world, &vote("none", ""), "id='none'");
    assert!(seen.contains("type='result'"), "{seen}");
    assert_eq!(counted(&mut world, &mut juliet), "tea 1");
}

#[test]
fn it_refuses_what_is_no_request_of_its_own() {
    let mut world = world(|_| ());
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    romeo.say(AT, "1");
    romeo.expect(&mut world, "<service-unavailable");
    let unknown = format!("<iq type='get' id='u' to='{AT}'><x xmlns='urn:x'/></iq>");
    romeo.ask(&mut world, &unknown, "<service-unavailable");
    let someone = format!("<iq type='get' id='s' to='{AT}/x'><vote xmlns='{NS}'/></iq>");
    romeo.ask(&mut world, &someone, "<service-unavailable");
    assert_eq!(counted(&mut world, &mut romeo), "");
}

#[test]
fn nobody_hears_of_a_change_before_it_is_durable() {
    let mut world = world(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    voted(&mut world, &mut romeo, "tea");
    world.hold();
    romeo.send(&vote("held", "ale"));
    let mut juliet = world.login("juliet", "balcony");
    assert!(!romeo.sync(&mut world).contains("held"), "it is not done");
    // What comes behind it waits, and so it is counted by whoever asks now.
    juliet.send(&format!(
        "<iq type='get' id='c' to='{AT}'><vote xmlns='{NS}'/></iq>"
    ));
    assert!(!juliet.sync(&mut world).contains("id='c'"), "it waits");
    world.let_go();
    romeo.expect(&mut world, "id='held'");
    juliet.expect(&mut world, "'ale'>1<");
    world.hold();
    romeo.send(&vote("lost", "tea"));
    world.refuse();
    let seen = romeo.expect(&mut world, "</error>");
    assert!(seen.contains("id='lost'"), "{seen}");
    assert_eq!(counted(&mut world, &mut juliet), "ale 1");
}

#[test]
fn it_comes_back_with_what_it_kept_wherever_it_is_killed() {
    let mut world = world(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    voted(&mut world, &mut romeo, "tea");
    world.hold();
    romeo.send(&vote("lost", "ale"));
    romeo.sync(&mut world);
    world.crash();
    let mut romeo = world.login("romeo", "orchard");
    assert_eq!(counted(&mut world, &mut romeo), "tea 1");
    voted(&mut world, &mut romeo, "ale");
    world.crash();
    let mut romeo = world.login("romeo", "orchard");
    assert_eq!(counted(&mut world, &mut romeo), "ale 1");
}

#[test]
fn it_comes_back_after_a_panic_and_whoever_asked_hears_of_it() {
    let mut world = world(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    voted(&mut world, &mut romeo, "tea");
    let ask = format!(
        "<iq type='set' id='bad' to='{AT}'><vote xmlns='{NS}' for='ale'>{PANIC}-in-the-room\
         </vote></iq>"
    );
    let seen = romeo.ask(&mut world, &ask, "</error>");
    assert!(seen.contains("<internal-server-error"), "{seen}");
    assert_eq!(counted(&mut world, &mut romeo), "tea 1");
}

#[test]
fn one_that_nobody_asks_is_forgotten_and_found_again() {
    let mut world = world(|options| {
        options.limits.idle_ping = Duration::from_secs(1_000_000);
        options.delivery.limits.idle_eviction = Duration::from_secs(10);
    });
    let mut romeo = world.login("romeo", "orchard");
    voted(&mut world, &mut romeo, "tea");
    // What shards have counted is known a moment later.
    world.pass(Duration::from_secs(3));
    assert_eq!(world.node().stats().gauge(Gauge::Services), 1);
    for _ in 0..4 {
        world.pass(Duration::from_secs(10));
    }
    assert_eq!(world.node().stats().gauge(Gauge::Services), 0);
    assert_eq!(counted(&mut world, &mut romeo), "tea 1");
}

#[test]
fn a_change_beyond_what_it_may_keep_is_refused() {
    static SMALL: Service = Service {
        bytes_max: "romeo@localhost".len() + "tea".len(),
        ..votes::SERVICE
    };
    static ALONE: &[&Service] = &[&SMALL];
    let extensions = Extensions {
        modules: &[],
        services: ALONE,
    };
    let mut world = World::extended(extensions, |_| ());
    let mut romeo = world.login("romeo", "orchard");
    voted(&mut world, &mut romeo, "ale");
    let seen = romeo.ask(&mut world, &vote("more", "beer"), "</error>");
    assert!(seen.contains("<resource-constraint"), "{seen}");
    voted(&mut world, &mut romeo, "tea");
    assert_eq!(counted(&mut world, &mut romeo), "tea 1");
}

/// Its bound was lowered, or an import brought more.
#[test]
fn one_above_its_bound_may_shrink() {
    static SMALL: Service = Service {
        bytes_max: "romeo@localhost".len() + "tea".len(),
        ..votes::SERVICE
    };
    static ALONE: &[&Service] = &[&SMALL];
    let limits = net::Limits::default;
    let from = start_extended(EXTENSIONS, options(1, true), limits(), &["romeo"]);
    let mut romeo = Client::login(from.address, "romeo", "orchard");
    romeo.send(&vote("vote", "coffee"));
    romeo.expect("id='vote'");
    let extensions = Extensions {
        modules: &[],
        services: ALONE,
    };
    let to = start_extended(extensions, options(1, true), limits(), &[]);
    let lines = exported(&from.node.admin());
    let made = to.node.admin().call(Request::Import {
        lines,
        check: false,
        strays: Vec::new(),
    });
    assert!(matches!(made, Response::Imported { .. }), "{made:?}");
    let mut romeo = Client::login(to.address, "romeo", "orchard");
    romeo.send(&vote("less", "water"));
    romeo.expect("<iq type='result'");
    romeo.send(&vote("more", "coffee"));
    romeo.expect("<resource-constraint");
}

#[test]
fn an_error_changes_nothing() {
    static SPITEFUL: Service = Service {
        handle: |view, request| match request.is_set {
            true => Outcome::error(Condition::Conflict).and_put("it", b"tea".to_vec()),
            false => (votes::SERVICE.handle)(view, request),
        },
        ..votes::SERVICE
    };
    static ALONE: &[&Service] = &[&SPITEFUL];
    let extensions = Extensions {
        modules: &[],
        services: ALONE,
    };
    let mut world = World::extended(extensions, |_| ());
    let mut romeo = world.login("romeo", "orchard");
    let seen = romeo.ask(&mut world, &vote("vote", "tea"), "</error>");
    assert!(seen.contains("<conflict"), "{seen}");
    assert_eq!(counted(&mut world, &mut romeo), "");
}

#[test]
fn what_it_keeps_is_exported_and_imported() {
    let start = |users: &[&str]| {
        let limits = net::Limits::default();
        start_extended(EXTENSIONS, options(1, true), limits, users)
    };
    let from = start(&["romeo"]);
    let mut romeo = Client::login(from.address, "romeo", "orchard");
    romeo.send(&vote("vote", "tea"));
    romeo.expect("id='vote'");
    let lines = exported(&from.node.admin());
    assert!(
        lines.iter().any(|line| line.contains("\"part\"")),
        "{lines:?}"
    );
    let to = start(&[]);
    let import = |lines: &[String]| {
        to.node.admin().call(Request::Import {
            lines: lines.to_vec(),
            check: false,
            strays: Vec::new(),
        })
    };
    let made = import(&lines);
    assert!(matches!(made, Response::Imported { .. }), "{made:?}");
    assert_eq!(exported(&to.node.admin()), lines);
    let again = format!("{{\"type\":\"service\",\"jid\":\"{AT}\"}}");
    let made = import(&[again]);
    assert!(matches!(made, Response::Refused { .. }), "{made:?}");
    let mut romeo = Client::login(to.address, "romeo", "orchard");
    romeo.send(&format!(
        "<iq type='get' id='c' to='{AT}'><vote xmlns='{NS}'/></iq>"
    ));
    romeo.expect("'tea'>1<");
}

fn exported(admin: &server::admin::Admin) -> Vec<String> {
    let after = None;
    match admin.call(Request::Export { after, limit: 100 }) {
        Response::Lines { lines, next: None } => lines,
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_things_have_two_addresses() {
    static TWICE: &[&Service] = &[&votes::SERVICE, &votes::SERVICE];
    let extensions = Extensions {
        modules: &[],
        services: TWICE,
    };
    let store = store::Store::in_memory();
    let limits = net::Limits::default();
    let started = server::Node::start_with(
        extensions,
        options(1, true),
        Vec::new(),
        limits,
        None,
        store,
    );
    let error = started.err().expect("it does not start").to_string();
    assert!(error.contains(AT), "{error}");
}
