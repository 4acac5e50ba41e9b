//! An entry that may have been taken is not handed over any more once its recipient may have
//! forgotten that it took it.

use std::time::Duration;

use delivery::{Attempt, Effect, Listed, Outbox, OutboxLimits, Page, Place, Reason};
use stdx::time::{Moment, Timestamp};

const DEST: u8 = 7;

/// Hands the first entry over when it is so old; what comes of that, and the reason if it comes
/// back. Before that it was handed over, without an answer, or it never was.
fn at_age(age: Duration, was_handed_over: bool) -> (usize, Option<Reason<()>>) {
    let limits = OutboxLimits {
        // Time alone gives nothing up.
        give_up_attempts_min: u32::MAX,
        ..OutboxLimits::default()
    };
    let (first, accepted) = (Place::new(1), Timestamp::from_millis(1_000_000));
    let mut now = Moment::ZERO + Duration::from_secs(1_000);
    let marks = (Place::START, Place::START);
    let mut outbox: Outbox<u8, ()> = Outbox::recover(limits, Attempt::new(1), marks, 0, []);
    outbox.accepted();
    if was_handed_over {
        assert!(outbox.committed(first, DEST, now).is_some());
    } else {
        // It was committed while there was a page to read.
        outbox = Outbox::recover(
            limits,
            Attempt::new(1),
            (Place::START, first),
            1,
            [(DEST, Place::START, 1)],
        );
    }
    for _ in 0..100 {
        while let Some(effect) = outbox.poll_effect() {
            match effect {
                Effect::Read {
                    id,
                    dest: Some(_),
                    limit: 1..,
                    ..
                } => {
                    let entries = vec![Listed {
                        place: first,
                        dest: DEST,
                        at: accepted,
                    }];
                    let page = Page {
                        entries,
                        through: first,
                    };
                    let wall = Timestamp::from_millis(1_000_000 + age.as_millis() as i64);
                    let over = outbox.handle_page(id, Some(&page), now, wall);
                    if !over.is_empty() {
                        return (over.len(), None);
                    }
                }
                Effect::Read { id, .. } => {
                    let page = Page {
                        entries: Vec::new(),
                        through: first,
                    };
                    outbox.handle_page(id, Some(&page), now, accepted);
                }
                Effect::Return { dest, reason, .. } => {
                    assert_eq!(dest, DEST);
                    return (0, Some(reason));
                }
            }
        }
        now = outbox.deadline().expect("it is tried again").max(now);
        outbox.handle_timeout(now);
    }
    panic!("nothing comes of it");
}

#[test]
fn what_may_be_forgotten_comes_back_instead() {
    let bound = OutboxLimits::default().recognised_for;
    let before = bound.checked_sub(Duration::from_millis(1)).expect("days");
    assert_eq!(at_age(before, true), (1, None));
    let expired = Reason::Expired {
        may_be_delivered: true,
    };
    assert_eq!(at_age(bound, true), (0, Some(expired)));
}
