//! What nodes, subscriptions and items cost: bytes of heap that a service takes for each.

#![expect(
    clippy::print_stdout,
    reason = "the figures themselves are what a reader wants to see"
)]

use std::sync::Arc;

use pubsub::{Config, Item, Options, Record, Service, State, Subscription, SubscriptionState};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// Bytes that a node without items and subscriptions may cost.
const NODE_BYTES_MAX: usize = 450;
/// Bytes that a subscription may cost, its address of 32 bytes included.
const SUBSCRIPTION_BYTES_MAX: usize = 150;
/// Bytes that an item may cost, whatever its payload; its id has 24.
const ITEM_BYTES_MAX: usize = 150;
/// Bytes of an account with the nodes that a usual client makes.
const ACCOUNT_BYTES_MAX: usize = 6_500;

fn bytes_in_use(region: &Region<'_, std::alloc::System>) -> usize {
    let stats = region.change();
    stats
        .bytes_allocated
        .saturating_sub(stats.bytes_deallocated)
}

/// Bytes that each of the records costs in a state made of them.
fn each(name: &str, start: &[Record], count: usize, record: impl Fn(usize) -> Record) -> usize {
    let options = Options::default();
    let before = Region::new(HEAP);
    let without = State::of(start.iter().cloned(), &options);
    let base = bytes_in_use(&before);
    let region = Region::new(HEAP);
    let with = State::of(
        start.iter().cloned().chain((0..count).map(record)),
        &options,
    );
    let all = bytes_in_use(&region);
    assert_eq!(without.nodes().count(), start.len());
    assert!(!with.is_empty());
    let each = (all - base) / count;
    println!("{name}: {each} bytes each of {count}");
    each
}

fn node(name: String, config: &Config) -> Record {
    Record::Created {
        node: name,
        number: 1,
        at: 0,
        creator: "juliet@capulet.example".to_owned(),
        config: Box::new(config.clone()),
    }
}

fn item(node: &str, n: usize) -> Record {
    Record::Published {
        node: node.to_owned(),
        item: Item {
            id: format!("{n:024}"),
            seq: n as u64,
            at: 0,
            publisher: "juliet@capulet.example".to_owned(),
            payload: [b'x'; 300].into(),
        },
    }
}

// One test, so that nothing else takes memory meanwhile.
#[test]
fn what_things_cost() {
    let nodes = each("nodes", &[], 1_000, |n| {
        node(format!("urn:xmpp:some:node:{n:06}"), &Config::default())
    });
    assert!(nodes <= NODE_BYTES_MAX);
    let one = [node("n".to_owned(), &Config::default())];
    let subscriptions = each("subscriptions", &one, 10_000, |n| Record::Subscribed {
        node: "n".to_owned(),
        address: format!("subscriber{n:06}@conference.e.org"),
        subscription: Subscription {
            state: SubscriptionState::Subscribed,
            ..Subscription::default()
        },
    });
    assert!(subscriptions <= SUBSCRIPTION_BYTES_MAX);
    let items = each("items", &one, 10_000, |n| item("n", n));
    assert!(items <= ITEM_BYTES_MAX);

    let names = [
        "urn:xmpp:bookmarks:1",
        "urn:xmpp:avatar:metadata",
        "urn:xmpp:avatar:data",
        "urn:xmpp:omemo:2:devices",
        "urn:xmpp:omemo:2:bundles",
        "eu.siacs.conversations.axolotl.devicelist",
        "eu.siacs.conversations.axolotl.bundles:1234567890",
        "urn:xmpp:mds:displayed:0",
    ];
    let options = Arc::new(Options::account());
    let region = Region::new(HEAP);
    let mut records: Vec<Record> = Vec::new();
    for name in names {
        records.push(node(name.to_owned(), &options.defaults));
        let count = if name.contains("bookmarks") { 20 } else { 1 };
        records.extend((0..count).map(|n| item(name, n)));
    }
    let state = State::of(records, &options);
    let service = Service::new("juliet@capulet.example", state, options, [1, 2]);
    let account = bytes_in_use(&region);
    println!(
        "an account of {} nodes and 27 items: {account} bytes",
        names.len()
    );
    assert!(account <= ACCOUNT_BYTES_MAX);
    assert!(service.is_idle());
}
