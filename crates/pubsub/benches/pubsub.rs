//! What a publication costs, by the number of subscribers: the decision with its notification, and
//! the copies of it. `cargo bench -p pubsub`. Counts processor time of its thread, so that a loaded
//! machine changes little; ratios on one machine are what counts.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::sync::Arc;

use pubsub::{
    Audience, Contacts, Effect, Event, Options, Record, Service, State, Subscription,
    SubscriptionState,
};
use rustix::time::{ClockId, clock_gettime};
use stdx::Timestamp;
use xml::Frame;

const ACCOUNT: &str = "juliet@capulet.example";
const NODE: &str = "http://jabber.org/protocol/tune";
const NOW: Timestamp = Timestamp::from_millis(0);
const ROUNDS: usize = 2_000;

/// Contacts who all see presence, with a session each.
struct Friends(Vec<String>);

impl Contacts for Friends {
    fn sees_presence(&self, _of: &str, bare: &str) -> bool {
        self.0.iter().any(|full| full.starts_with(bare))
    }

    fn is_in_group(&self, _of: &str, _bare: &str, _group: &str) -> bool {
        false
    }

    fn interested(&self, _node: &str, each: &mut dyn FnMut(&str)) {
        for full in &self.0 {
            each(full);
        }
    }
}

/// Processor time of this thread so far.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn publication(to: &str, n: usize) -> Event {
    let text = format!(
        "<iq type='set' id='p{n}' from='{ACCOUNT}/balcony' to='{to}'>\
         <pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='{NODE}'>\
         <item id='current'><tune xmlns='http://jabber.org/protocol/tune'>\
         <artist>Gerald Finzi</artist><length>255</length><title>Introduction {n}</title>\
         </tune></item></publish></pubsub></iq>"
    );
    Event::Stanza {
        frame: Frame::parse(text).expect("a stanza"),
        may_create: true,
    }
}

/// Publishes, commits at once, and returns who is told of what.
fn publish(service: &mut Service, event: Event, contacts: &dyn Contacts) -> (Frame, Audience) {
    let effects = service.handle(event, NOW, contacts).expect("not busy");
    assert!(matches!(effects[0], Effect::Append(_)));
    let decided = Event::Decided { is_committed: true };
    let effects = service.handle(decided, NOW, contacts).expect("never busy");
    let send = effects.into_iter().find_map(|effect| match effect {
        Effect::Send { frame, to } => Some((frame, to)),
        _ => None,
    });
    send.expect("somebody is told")
}

/// Microseconds of a publication, nanoseconds of a copy.
fn measure(service: &mut Service, to: &str, contacts: &dyn Contacts, count: usize) -> (f64, f64) {
    let events: Vec<Event> = (0..ROUNDS).map(|n| publication(to, n)).collect();
    let mut last = publish(service, publication(to, 0), contacts);
    let start = cpu_seconds();
    for event in events {
        last = publish(service, event, contacts);
    }
    let decided = (cpu_seconds() - start) * 1e6 / ROUNDS as f64;
    let (frame, to) = last;
    assert_eq!(to.len(), count);
    let rounds = (200_000 / count).max(1);
    let mut out = Vec::new();
    let start = cpu_seconds();
    for _ in 0..rounds {
        out.clear();
        for to in to.iter() {
            frame.write_readdressed(&mut out, None, Some(to));
        }
    }
    let copy = (cpu_seconds() - start) * 1e9 / (rounds * count) as f64;
    (decided, copy)
}

fn main() {
    println!(
        "{:>24} {:>16} {:>10}",
        "told", "µs a publication", "ns a copy"
    );
    for count in [1, 100, 1_000, 10_000] {
        let created = Record::Created {
            node: NODE.to_owned(),
            number: 1,
            at: 0,
            creator: ACCOUNT.to_owned(),
            config: Box::default(),
        };
        let subscribed = (0..count).map(|n| Record::Subscribed {
            node: NODE.to_owned(),
            address: format!("subscriber{n:06}@example.org"),
            subscription: Subscription {
                state: SubscriptionState::Subscribed,
                ..Subscription::default()
            },
        });
        let records = std::iter::once(created).chain(subscribed);
        let options = Arc::new(Options::default());
        let state = State::of(records, &options);
        let to = "pubsub.example.org";
        let mut service = Service::new(to, state, options, [1, 2]);
        let (decided, copy) = measure(&mut service, to, &(), count);
        let told = format!("{count} subscribers");
        println!("{told:>24} {decided:>16.1} {copy:>10.0}");
    }
    let options = Arc::new(Options::account());
    let count = 18;
    let friends = (0..count).map(|n| format!("friend{n:03}@example.org/client"));
    let friends = Friends(friends.collect());
    let mut service = Service::new(ACCOUNT, State::default(), options, [1, 2]);
    let (decided, copy) = measure(&mut service, ACCOUNT, &friends, count);
    let told = format!("{count} contacts (PEP)");
    println!("{told:>24} {decided:>16.1} {copy:>10.0}");
}
