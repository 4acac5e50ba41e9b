//! When pages are read again after something failed, and what a link that breaks gives back.

use std::sync::Arc;
use std::time::Duration;

use delivery::{
    Consumer, Inbox, InboxEffect as Effect, InboxLimits, Kind, Left, Place, ReadId, Recovered,
    SessionNumber, Wanted,
};
use stdx::time::Moment;

const PHONE: SessionNumber = SessionNumber::new(1);
const DESK: SessionNumber = SessionNumber::new(2);
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

fn limits() -> InboxLimits {
    InboxLimits {
        retry_min: PAUSE,
        retry_max: LONGEST,
        ..InboxLimits::default()
    }
}

/// The inbox of a log that ends at `tail`, in which everything waits behind the start.
fn inbox(tail: Place, listed: &[Place], left: Vec<Left>) -> Inbox<u8> {
    let recovered = Recovered {
        last: if listed.is_empty() {
            tail
        } else {
            Place::START
        },
        waiting: (u64::from(listed.is_empty()), 0),
        ..Recovered::default()
    };
    let account = recovered.account(listed);
    Inbox::recover(Arc::new(limits()), tail, &account, &[], left)
}

/// The reads that are asked for, each with whom it is for.
fn reads(inbox: &mut Inbox<u8>) -> Vec<(ReadId, Consumer, Wanted)> {
    let effects = std::iter::from_fn(|| inbox.poll_effect());
    let reads = effects.filter_map(|effect| match effect {
        Effect::Read {
            id,
            consumer,
            wanted,
        } => Some((id, consumer, wanted)),
        _ => None,
    });
    reads.collect()
}

/// The pause after the append that fails next.
fn pause(inbox: &mut Inbox<u8>, now: Moment) -> Duration {
    inbox.failed(inbox.appended(), (inbox.mark(), (1, 0)), now);
    let until = inbox.deadline().expect("it is tried again");
    until.saturating_since(now)
}

/// What failed long ago made every later pause the longest one.
#[test]
fn pauses_begin_anew_after_an_append_that_is_durable() {
    let now = Moment::ZERO;
    let mut inbox = inbox(Place::new(1), &[], Vec::new());
    inbox.open(PHONE, Kind::Managed, 1);
    for (failures, seconds) in [(1, 1), (2, 2), (3, 4), (4, 8)] {
        let wanted = Duration::from_secs(seconds);
        assert_eq!(pause(&mut inbox, now), wanted, "{failures} in a row");
    }
    inbox.committed();
    assert_eq!(inbox.deadline(), None);
    assert_eq!(pause(&mut inbox, now), PAUSE);
}

/// They read what they are owed as soon as something can be recorded again.
#[test]
fn an_append_that_is_durable_ends_the_pause() {
    let now = Moment::ZERO;
    let mut inbox = inbox(Place::new(1), &[], Vec::new());
    inbox.open(PHONE, Kind::Managed, 1);
    pause(&mut inbox, now);
    inbox.set_taker(PHONE, true);
    assert_eq!(reads(&mut inbox), []);
    inbox.committed();
    assert_eq!(reads(&mut inbox).len(), 1);
    // Nothing that is durable helps while the log cannot be read.
    let mut inbox = self::inbox(Place::new(1), &[], Vec::new());
    inbox.open(PHONE, Kind::Managed, 1);
    inbox.set_taker(PHONE, true);
    let (id, consumer, _) = reads(&mut inbox).remove(0);
    inbox.handle_page(id, consumer, None, now);
    assert_eq!(pause(&mut inbox, now), PAUSE);
    inbox.committed();
    assert_eq!(inbox.deadline(), Some(now + PAUSE));
    assert_eq!(reads(&mut inbox), []);
    inbox.handle_timeout(now + PAUSE);
    assert_eq!(reads(&mut inbox).len(), 1);
}

/// A page of what ended sessions left ends a row of failures too.
#[test]
fn pauses_begin_anew_after_a_page_of_what_ended_sessions_left() {
    let now = Moment::ZERO;
    let left = Left {
        session: PHONE,
        after: Place::START,
        unacked: Vec::new(),
    };
    let mut inbox = inbox(Place::new(2), &[], vec![left]);
    for failures in [1, 2] {
        let (id, consumer, _) = reads(&mut inbox).remove(0);
        assert_eq!(consumer, Consumer::Ended);
        inbox.handle_page(id, consumer, None, now);
        let pause = PAUSE * failures;
        assert_eq!(inbox.deadline(), Some(now + pause));
        inbox.handle_timeout(now + pause);
    }
    let (id, consumer, _) = reads(&mut inbox).remove(0);
    let page = delivery::InboxPage {
        entries: Vec::new(),
        through: Place::new(1),
    };
    let given = inbox.handle_page(id, consumer, Some(&page), now);
    assert_eq!(given, Some(Vec::new()));
    inbox.page_committed(consumer);
    let (id, consumer, _) = reads(&mut inbox).remove(0);
    inbox.handle_page(id, consumer, None, now);
    assert_eq!(inbox.deadline(), Some(now + PAUSE));
}

/// The entries of the list were read for a session whose link broke, and nobody else was given
/// them as long as it stayed away.
#[test]
fn a_link_that_breaks_while_the_list_is_read_frees_its_entries() {
    let listed = [Place::new(1), Place::new(2)];
    let mut inbox = inbox(Place::new(2), &listed, Vec::new());
    for (session, link) in [(PHONE, 1), (DESK, 2)] {
        inbox.open(session, Kind::Managed, link);
        inbox.set_taker(session, true);
    }
    let asked = reads(&mut inbox);
    let of_list = (Consumer::Session(PHONE), Wanted::Places(listed.to_vec()));
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((asked[0].1, asked[0].2.clone()), of_list);
    inbox.detach(PHONE);
    let asked = reads(&mut inbox);
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0].1, Consumer::Session(DESK));
    assert_eq!(asked[0].2, Wanted::Places(listed.to_vec()));
}
