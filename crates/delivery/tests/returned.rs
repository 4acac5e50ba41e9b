//! An entry that came back is settled by a mark of its destination until the common mark covers it.

use delivery::{Effect, HandOver, Listed, Outbox, OutboxLimits, Page, Place, Reason, Refusal};
use stdx::time::{Moment, Timestamp};

const ALICE: u8 = 1;
const BOB: u8 = 2;

type Machine = Outbox<u8, &'static str>;

fn commit(outbox: &mut Machine, place: u64, dest: u8) -> HandOver {
    outbox.accepted();
    let over = outbox.committed(Place::new(place), dest, Moment::ZERO);
    over.expect("it keeps up")
}

/// Nothing is found where it reads.
fn read_nothing(outbox: &mut Machine) {
    while let Some(effect) = outbox.poll_effect() {
        let Effect::Read { id, .. } = effect else {
            panic!("{effect:?}");
        };
        let page = Page {
            entries: Vec::new(),
            through: outbox.tail(),
        };
        outbox.handle_page(id, Some(&page), Moment::ZERO, Timestamp::from_millis(0));
    }
}

/// A page of the log, with all entries for Bob.
fn read(outbox: &mut Machine, places: &[u64], wall: Timestamp) -> Vec<HandOver> {
    let Some(Effect::Read { id, .. }) = outbox.poll_effect() else {
        panic!("nothing is to be read");
    };
    let entries = places.iter().map(|place| Listed {
        place: Place::new(*place),
        dest: BOB,
        at: Timestamp::from_millis(0),
    });
    let page = Page {
        entries: entries.collect(),
        through: outbox.tail(),
    };
    let over = outbox.handle_page(id, Some(&page), Moment::ZERO, wall);
    over.into_iter().map(|(_, over)| over).collect()
}

/// Bob had taken the first entry in an earlier life of his sender's home, and nobody knew. His
/// mailbox refused the next copy of it, and took the second entry, which was handed over with it.
/// That came back as one that was certainly not delivered.
#[test]
fn what_is_behind_a_doubtful_entry_that_is_refused_is_doubtful_too() {
    let limits = OutboxLimits::default();
    let (first, second) = (Place::new(1), Place::new(2));
    let log = (Place::START, first);
    let lagging = [(BOB, Place::START, 1)];
    let attempt = delivery::Attempt::default();
    let mut outbox: Machine = Outbox::recover(limits, attempt, log, 1, lagging);
    let now = Timestamp::from_millis(0);
    outbox.accepted();
    assert_eq!(outbox.committed(second, BOB, Moment::ZERO), None);
    assert!(read(&mut outbox, &[1], now).is_empty(), "he lags");
    let over = read(&mut outbox, &[1, 2], now);
    assert_eq!(over.len(), 2);
    let refused = (first, over[0].attempt);
    outbox.handle_refused(BOB, refused, Refusal::Full, None, Moment::ZERO);
    outbox.drop_pending(BOB);
    for place in [first, second] {
        assert!(read(&mut outbox, &[place.number()], now).is_empty());
        let returns = Effect::Return {
            dest: BOB,
            place,
            reason: Reason::Dropped {
                may_be_delivered: true,
            },
        };
        assert_eq!(outbox.poll_effect(), Some(returns));
        outbox.returned(BOB, place, Moment::ZERO);
        outbox.return_committed(BOB);
    }
}

/// Bob had caught up and shared the common mark, which waited for Alice: after a kill the entry was
/// handed over to him again, and came back twice, or came and came back.
#[test]
fn an_entry_that_came_back_is_not_handed_over_after_a_kill() {
    let start = (Place::START, Place::START);
    let limits = OutboxLimits::default();
    let attempt = delivery::Attempt::default();
    let mut outbox: Machine = Outbox::recover(limits, attempt, start, 0, []);
    let now = Moment::ZERO;
    let (to_alice, to_bob) = (Place::new(1), Place::new(2));
    commit(&mut outbox, 1, ALICE);
    let over = commit(&mut outbox, 2, BOB);
    let refused = (to_bob, over.attempt);
    outbox.handle_refused(BOB, refused, Refusal::Final, Some("no"), now);
    let returns = Effect::Return {
        dest: BOB,
        place: to_bob,
        reason: Reason::Refused("no"),
    };
    assert_eq!(outbox.poll_effect(), Some(returns));
    outbox.returned(BOB, to_bob, now);
    assert!(outbox.take_changes().is_some());
    outbox.return_committed(BOB);
    read_nothing(&mut outbox);

    // Whatever is recorded from here on, his entry is settled.
    if let Some(changes) = outbox.take_changes() {
        assert_eq!(changes.mark, Place::START);
        assert_eq!(changes.lagging.unwrap_or_default(), [(BOB, to_bob)]);
    }
    assert!(!outbox.is_at_rest());
    outbox.handle_taken(ALICE, to_alice, now);
    let changes = outbox.take_changes().expect("the mark has moved");
    assert_eq!(changes.mark, to_bob);
    assert_eq!(changes.lagging, Some(Vec::new()));
    assert!(outbox.is_at_rest() && outbox.is_consistent());
}
