//! Destinations that take everything, each time later than the time-out: what they say counts, and
//! nobody waits for a pause.

use std::time::Duration;

use delivery::{Attempt, Effect, Listed, Outbox, OutboxLimits, Page, Place, Refusal};
use stdx::time::{Moment, Timestamp};

const BOB: u8 = 7;
const ENTRIES: u64 = 4;

fn limits() -> OutboxLimits {
    OutboxLimits {
        answer_timeout: Duration::from_secs(1),
        retry_min: Duration::from_secs(1_000),
        retry_max: Duration::from_secs(1_000),
        ..OutboxLimits::default()
    }
}

/// An outbox with entries for Bob that were all handed over, and the latest attempt at each.
fn handed_over(now: Moment) -> (Outbox<u8, &'static str>, Vec<Attempt>) {
    let start = (Place::START, Place::START);
    let mut outbox = Outbox::recover(limits(), Attempt::default(), start, 0, []);
    let attempts = (1..=ENTRIES).map(|number| {
        outbox.accepted();
        let over = outbox.committed(Place::new(number), BOB, now);
        over.expect("he keeps up").attempt
    });
    let attempts = attempts.collect();
    (outbox, attempts)
}

/// Whatever is read is handed over.
fn read(outbox: &mut Outbox<u8, &'static str>, now: Moment) {
    while let Some(Effect::Read {
        id, after, limit, ..
    }) = outbox.poll_effect()
    {
        let (first, at) = (after.number() + 1, Timestamp::from_millis(0));
        let through = (after.number() + u64::from(limit)).min(ENTRIES);
        let listed = |number| Listed {
            place: Place::new(number),
            dest: BOB,
            at,
        };
        let page = Page {
            entries: (first..=through).map(listed).collect(),
            through: Place::new(through),
        };
        outbox.handle_page(id, Some(&page), now, at);
    }
}

#[test]
fn what_is_taken_after_the_time_out_is_settled() {
    let mut now = Moment::ZERO;
    let (mut outbox, _) = handed_over(now);
    for number in 1..=ENTRIES {
        now = now + Duration::from_secs(2);
        outbox.handle_timeout(now);
        outbox.handle_taken(BOB, Place::new(number), now);
        assert!(outbox.is_consistent());
        read(&mut outbox, now);
    }
    assert!(outbox.is_at_rest(), "{outbox:?}");
    assert_eq!(outbox.pending(), 0);
    assert_eq!(now, Moment::ZERO + Duration::from_secs(2 * ENTRIES));
}

#[test]
fn what_is_refused_for_good_after_the_time_out_comes_back() {
    let mut now = Moment::ZERO;
    let (mut outbox, attempts) = handed_over(now);
    now = now + Duration::from_secs(2);
    outbox.handle_timeout(now);
    let first = (Place::new(1), attempts[0]);
    // For now, said late: the pause goes on.
    outbox.handle_refused(BOB, first, Refusal::Full, None, now);
    assert_eq!(outbox.poll_effect(), None);
    outbox.handle_refused(BOB, first, Refusal::Final, Some("forbidden"), now);
    let effect = outbox.poll_effect();
    assert!(
        matches!(effect, Some(Effect::Return { place, .. }) if place == Place::new(1)),
        "{effect:?}"
    );
}
