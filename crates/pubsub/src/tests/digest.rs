//! Section 16.4.2: digests instead of single notifications.

use super::*;

const EVENT: &str = "http://jabber.org/protocol/pubsub#event";

fn digest(milliseconds: &str) -> String {
    let form = form(
        "subscribe_options",
        &[("digest", "1"), ("digest_frequency", milliseconds)],
    );
    format!("<options>{form}</options>")
}

impl World {
    #[track_caller]
    fn subscribe_to_digests(&mut self, who: &str, milliseconds: &str) {
        let jid = xmpp::addr::bare_part(who);
        let subscribe = format!(
            "<subscribe node='{NODE}' jid='{jid}'/>{}",
            digest(milliseconds)
        );
        self.set(who, &subscribe).unwrap();
    }

    /// What the host does when something is due.
    fn until(&mut self, seconds: u64) {
        let end = self.now + std::time::Duration::from_secs(seconds);
        while let Some(due) = self.service.due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            assert!(self.event(Event::Due));
        }
        self.now = end;
    }
}

fn bare_of(who: &str) -> &str {
    xmpp::addr::bare_part(who)
}

#[test]
fn a_digest_tells_of_everything_at_once() {
    let mut world = World::with_node(&[("notify_retract", "1")]);
    world.subscribe_to_digests(FRANCISCO, "10000");
    world.subscribe(BERNARDO).unwrap();
    for id in ["a", "b", "c", "a"] {
        world.publish(HAMLET, id).unwrap();
    }
    let retract = format!("<retract node='{NODE}'><item id='b'/></retract>");
    world.set(HAMLET, &retract).unwrap();
    assert_eq!(world.read(bare_of(BERNARDO)).len(), 5);
    assert!(world.read(bare_of(FRANCISCO)).is_empty());
    assert!(!world.service.is_idle());
    world.until(9);
    assert!(world.read(bare_of(FRANCISCO)).is_empty());
    world.until(1);
    let told = world.read_one(bare_of(FRANCISCO));
    // Of each item what became of it last.
    has(&told, &[EVENT, "type='headline'"]);
    let order: Vec<usize> = ["<item id='c'>", "<item id='a'>", "<retract id='b'/>"]
        .iter()
        .map(|part| {
            told.find(part)
                .unwrap_or_else(|| panic!("no {part} in {told}"))
        })
        .collect();
    assert!(order.is_sorted(), "{told}");
    lacks(&told, &["<item id='b'"]);
    has(&told, &["<e xmlns='urn:e'>c</e>"]);
    assert!(world.service.is_idle() && world.service.due().is_none());
    // The next one has its own time.
    world.publish(HAMLET, "d").unwrap();
    world.until(9);
    assert!(world.read(bare_of(FRANCISCO)).is_empty());
    world.until(1);
    has(&world.read_one(bare_of(FRANCISCO)), &["<item id='d'>"]);
}

#[test]
fn what_is_gone_before_it_is_told_is_not_told() {
    let mut world = World::denmark();
    world.subscribe_to_digests(FRANCISCO, "1000");
    world.publish(HAMLET, "a").unwrap();
    world.publish(HAMLET, "b").unwrap();
    let retract = format!("<retract node='{NODE}'><item id='a'/></retract>");
    world.set(HAMLET, &retract).unwrap();
    world.until(2);
    let told = world.read_one(bare_of(FRANCISCO));
    has(&told, &["<item id='b'>"]);
    lacks(&told, &["'a'"]);
    // A purge is told at once, and nothing of before it later.
    world.configure(HAMLET, &[("notify_retract", "1")]).unwrap();
    world.publish(HAMLET, "c").unwrap();
    world
        .own(HAMLET, "set", &format!("<purge node='{NODE}'/>"))
        .unwrap();
    has(&world.read_one(bare_of(FRANCISCO)), &["<purge "]);
    world.until(2);
    assert!(world.read(bare_of(FRANCISCO)).is_empty());
    // So is the end of the node.
    world.publish(HAMLET, "d").unwrap();
    world
        .own(HAMLET, "set", &format!("<delete node='{NODE}'/>"))
        .unwrap();
    has(&world.read_one(bare_of(FRANCISCO)), &["<delete "]);
    world.until(2);
    assert!(world.read(bare_of(FRANCISCO)).is_empty() && world.service.is_idle());
}

#[test]
fn who_may_not_hear_it_any_more_does_not() {
    for is_banned in [true, false] {
        let mut world = World::denmark();
        world.subscribe_to_digests(FRANCISCO, "1000");
        world.publish(HAMLET, "a").unwrap();
        if is_banned {
            world.affiliate(FRANCISCO, "outcast").unwrap();
        } else {
            let jid = bare_of(FRANCISCO).to_owned();
            let leave = format!("<unsubscribe node='{NODE}' jid='{jid}'/>");
            world.set(FRANCISCO, &leave).unwrap();
        }
        world.read(bare_of(FRANCISCO));
        world.until(2);
        assert!(world.read(bare_of(FRANCISCO)).is_empty());
    }
}

#[test]
fn options_of_digests_are_kept_and_cut() {
    let mut world = World::denmark();
    world.subscribe(FRANCISCO).unwrap();
    let jid = bare_of(FRANCISCO).to_owned();
    let get = format!("<options node='{NODE}' jid='{jid}'/>");
    let set = |fields: &[(&str, &str)]| {
        format!(
            "<options node='{NODE}' jid='{jid}'>{}</options>",
            form("subscribe_options", fields)
        )
    };
    let shown = |world: &mut World| {
        let form = world.get(FRANCISCO, &get).unwrap();
        let value = |name: &str| {
            let (_, rest) = form.split_once(&format!("pubsub#{name}'")).unwrap();
            let (_, rest) = rest.split_once("<value>").unwrap();
            rest.split('<').next().unwrap().to_owned()
        };
        (value("digest"), value("digest_frequency"))
    };
    let owned = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    assert_eq!(shown(&mut world), owned("0", "60000"));
    for (fields, expected) in [
        (&[("digest", "1")][..], owned("1", "60000")),
        (&[("digest_frequency", "5000")], owned("1", "5000")),
        (&[("digest_frequency", "1")], owned("1", "1000")),
        (
            &[("digest_frequency", "4294967295")],
            owned("1", "86400000"),
        ),
        (&[("deliver", "1")], owned("1", "86400000")),
        (&[("digest", "0")], owned("0", "60000")),
        (&[("digest_frequency", "5000")], owned("0", "60000")),
    ] {
        world.set(FRANCISCO, &set(fields)).unwrap();
        assert_eq!(shown(&mut world), expected, "{fields:?}");
    }
    for bad in [
        ("digest", "x"),
        ("digest_frequency", "soon"),
        ("digest_frequency", "-1"),
    ] {
        refused(
            world.set(FRANCISCO, &set(&[bad])),
            "bad-request/modify invalid-options",
        );
    }
    // An account offers none: its nodes have few readers and small news.
    let mut world = World::account();
    world
        .create(JULIET, NODE, &[("access_model", "open")])
        .unwrap();
    let subscribe = format!("<subscribe node='{NODE}' jid='{jid}'/>{}", digest("1000"));
    refused(
        world.set(FRANCISCO, &subscribe),
        "bad-request/modify invalid-options",
    );
}

#[test]
fn what_is_not_kept_is_told_at_once() {
    let mut world = World::with_node(&[("persist_items", "0")]);
    world.subscribe_to_digests(FRANCISCO, "1000");
    world.publish(HAMLET, "a").unwrap();
    assert_eq!(world.read(bare_of(FRANCISCO)).len(), 1);
}

/// Each bound: what is full goes at once, who finds no place is told as others are.
#[test]
fn digests_are_bounded() {
    let node = |world: &mut World| {
        world.create(HAMLET, NODE, &[]).unwrap();
    };
    let mut world = World::limited(|limits| limits.digest_entries_max = 2);
    node(&mut world);
    world.subscribe_to_digests(FRANCISCO, "60000");
    world.publish(HAMLET, "a").unwrap();
    world.publish(HAMLET, "b").unwrap();
    world.until(0);
    has(&world.read_one(bare_of(FRANCISCO)), &["'a'", "'b'"]);

    let mut world = World::limited(|limits| limits.digest_entries_total_max = 2);
    node(&mut world);
    for who in [FRANCISCO, BERNARDO] {
        world.subscribe_to_digests(who, "60000");
    }
    world.publish(HAMLET, "a").unwrap();
    world.until(0);
    let told = [FRANCISCO, BERNARDO].map(|who| world.read(bare_of(who)).len());
    assert_eq!(told.iter().sum::<usize>(), 1, "{told:?}");

    let mut world = World::limited(|limits| limits.digests_max = 1);
    node(&mut world);
    for who in [FRANCISCO, BERNARDO] {
        world.subscribe_to_digests(who, "60000");
    }
    world.publish(HAMLET, "a").unwrap();
    let told = [FRANCISCO, BERNARDO].map(|who| world.read(bare_of(who)).len());
    assert_eq!(told.iter().sum::<usize>(), 1, "{told:?}");

    let mut world = World::limited(|limits| limits.page_bytes_max = 100);
    node(&mut world);
    world.subscribe_to_digests(FRANCISCO, "1000");
    for id in ["a", "b", "c"] {
        world.publish(HAMLET, id).unwrap();
    }
    world.until(1);
    assert_eq!(world.read(bare_of(FRANCISCO)).len(), 2);

    // While all readers are busy, digests wait for them.
    let mut world = World::limited(|limits| limits.fetches_max = 1);
    node(&mut world);
    for who in [FRANCISCO, BERNARDO] {
        world.subscribe_to_digests(who, "1000");
    }
    world.publish(HAMLET, "a").unwrap();
    world.reads = false;
    world.until(1);
    assert!(world.service.due().is_none() && world.asked.len() == 1);
    world.read_store();
    world.read_store();
    for who in [FRANCISCO, BERNARDO] {
        has(&world.read_one(bare_of(who)), &["<item id='a'>"]);
    }
}

/// A store that cannot be read: the ids are told.
#[test]
fn a_digest_that_cannot_be_read_names_its_items() {
    let mut world = World::denmark();
    world.subscribe_to_digests(FRANCISCO, "1000");
    world.publish(HAMLET, "a").unwrap();
    world.reads = false;
    world.until(1);
    let (ticket, ..) = world.asked.remove(0);
    assert!(world.event(Event::Fetched {
        ticket,
        items: None
    }));
    has(&world.read_one(bare_of(FRANCISCO)), &["<item id='a'/>"]);
}
