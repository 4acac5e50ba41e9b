//! What the explorations rely on, and what a destination of its own says of itself.

use super::*;

fn place(number: u64) -> Place {
    Place::new(number)
}

fn attempts(places: &[u64]) -> Vec<(Place, Attempt)> {
    let each = places.iter();
    each.map(|number| (place(*number), Attempt::new(*number)))
        .collect()
}

/// Two entries in flight behind the mark, and the log goes further.
fn handed() -> Lagging {
    Lagging::new(place(4), attempts(&[2, 3]), Moment::ZERO, Place::START)
}

#[test]
fn each_relation_is_looked_at() {
    assert!(handed().is_consistent(place(4)));
    assert!(handed().is_consistent(place(3)), "at its end");
    assert!(
        !handed().is_consistent(place(2)),
        "it read what is not there"
    );
    let is_consistent = |change: fn(&mut Lagging)| {
        let mut own = handed();
        change(&mut own);
        own.is_consistent(place(4))
    };
    assert!(!is_consistent(|own| own.mark = place(2)), "one is settled");
    assert!(!is_consistent(|own| own.read_through = place(2)));
    // Nothing in flight.
    let idle = |mark| Lagging {
        mark: place(mark),
        ..Lagging::recovered(place(3), 0, place(4))
    };
    assert!(idle(3).is_consistent(place(4)));
    assert!(
        !idle(4).is_consistent(place(4)),
        "more is settled than was read"
    );
    // While it waits, all is read again, and may be taken all the same.
    let mut waits = handed();
    waits.retry(
        Refusal::Full,
        (&OutboxLimits::default(), Attempt::default()),
        Moment::ZERO,
    );
    assert_eq!((waits.read_through, waits.mark), (place(1), place(1)));
    assert!(waits.is_consistent(place(3)));
    assert!(!waits.is_consistent(place(2)));
}

#[test]
fn an_answer_is_to_the_latest_attempt() {
    let mut own = handed();
    let is_it =
        |own: &Lagging, number, attempt| own.is_in_flight(place(number), Attempt::new(attempt));
    assert!(is_it(&own, 2, 2) && is_it(&own, 3, 3));
    assert!(!is_it(&own, 2, 3) && !is_it(&own, 4, 4));
    assert!(own.take(place(2)));
    assert!(!is_it(&own, 2, 2), "it is taken");
    own.retry(
        Refusal::Silent,
        (&OutboxLimits::default(), Attempt::default()),
        Moment::ZERO,
    );
    assert!(is_it(&own, 3, 3), "there is no later one");
    assert_eq!(own.doubt_through, place(3));
}

/// It keeps its mark once all is settled, and only for the sake of what came back.
#[test]
fn a_mark_is_kept_for_what_came_back() {
    let limits = OutboxLimits::default();
    let new = Lagging::new(place(4), Vec::new(), Moment::ZERO, Place::START);
    assert!(!new.keeps_mark(), "nothing came back");
    let mut own = handed();
    assert!(!own.keeps_mark());
    own.give_back(place(2));
    assert_eq!(own.settle(place(2), &limits, Moment::ZERO), 1);
    assert_eq!((own.mark, own.pending), (place(2), 1));
    assert!(own.is_idle() && !own.keeps_mark(), "one is left");
    assert!(own.may_share(place(2)) && !own.may_share(place(1)));
    own.pending = 0;
    assert!(own.keeps_mark());
    own.close();
    assert!(!own.keeps_mark(), "that is not durable");
}

/// An entry comes back once it is old enough and was tried often enough, or may be forgotten by
/// then; at the bounds.
#[test]
fn an_entry_is_given_up_at_its_bounds() {
    let limits = OutboxLimits {
        give_up_after: Duration::from_secs(10),
        give_up_attempts_min: 2,
        recognised_for: Duration::from_secs(60),
        crashes_max: 2,
        ..OutboxLimits::default()
    };
    let expired = |may_be_delivered| Some(OwnReason::Expired { may_be_delivered });
    let mut own = handed();
    let after = |own: &Lagging, number, seconds| {
        own.gives_up(place(number), Duration::from_secs(seconds), &limits)
    };
    own.failures = 1;
    assert_eq!(after(&own, 2, 59), None, "it was tried once");
    own.failures = 2;
    assert_eq!(
        (after(&own, 2, 9), after(&own, 2, 10)),
        (None, expired(false))
    );
    (own.failures, own.doubt_through) = (0, place(2));
    assert_eq!(
        (after(&own, 2, 59), after(&own, 2, 60)),
        (None, expired(true))
    );
    assert_eq!(after(&own, 3, 60), None, "it was never handed over");
    for (times, reason) in [(1, None), (2, Some(OwnReason::Poison))] {
        assert_eq!(own.crashed(place(3)), times);
        assert_eq!(after(&own, 3, 0), reason);
        assert_eq!(after(&own, 2, 0), None, "another one");
    }
    own.drop_through = place(3);
    let dropped = |may_be_delivered| Some(OwnReason::Dropped { may_be_delivered });
    assert_eq!(after(&own, 2, 0), dropped(true));
    assert_eq!(after(&own, 3, 0), dropped(false));
    assert_eq!(after(&own, 4, 0), None);
}

#[test]
fn it_has_caught_up_at_the_end_of_the_log() {
    let idle = Lagging::recovered(place(3), 0, place(4));
    assert!(idle.has_caught_up(place(3)) && idle.has_caught_up(place(2)));
    assert!(!idle.has_caught_up(place(4)));
    assert!(!handed().has_caught_up(place(3)), "it has not answered");
}

#[test]
fn only_a_pause_ends_at_once() {
    let mut own = handed();
    assert!(!own.retry_now() && !own.is_idle());
    own.retry(
        Refusal::Full,
        (&OutboxLimits::default(), Attempt::default()),
        Moment::ZERO,
    );
    assert!(own.retry_now() && own.is_idle());
    assert!(!own.retry_now());
    own.close();
    assert!(own.closed() && !own.closed());
}

/// After a failure one entry shows whether the destination takes any.
#[test]
fn one_entry_is_asked_for_after_a_failure() {
    let limits = OutboxLimits {
        page: 8,
        ..OutboxLimits::default()
    };
    let mut id = ReadId::default();
    let mut own = Lagging::recovered(place(3), 1, place(6));
    assert_eq!(own.read(id.next(), &limits), (place(3), 8));
    own.retry(Refusal::Full, (&limits, Attempt::default()), Moment::ZERO);
    assert!(own.retry_now());
    assert_eq!(own.read(id.next(), &limits), (place(3), 1));
}

#[test]
fn only_silence_is_a_doubt() {
    for (why, doubt) in [
        (Refusal::Silent, 3),
        (Refusal::Full, 0),
        (Refusal::Final, 0),
    ] {
        let mut own = handed();
        own.retry(
            why,
            (&OutboxLimits::default(), Attempt::default()),
            Moment::ZERO,
        );
        assert_eq!(own.doubt_through, place(doubt), "{why:?}");
        assert_eq!((own.failures, own.last), (1, Some(why)));
    }
}

/// A page is handed over up to the end of what is committed, or says how far the log was read.
#[test]
fn what_becomes_of_a_page() {
    let limits = OutboxLimits::default();
    let page = |numbers: &[u64], through| Page {
        entries: (numbers.iter())
            .map(|number| super::super::types::Listed {
                place: place(*number),
                dest: 1_u8,
                at: Timestamp::from_millis(0),
            })
            .collect(),
        through: place(through),
    };
    let decide = |own: &mut Lagging, page: &Page<u8>| {
        let now = (place(6), Moment::ZERO, Timestamp::from_millis(0));
        own.page(page, &limits, &mut Attempt::default(), now)
    };
    let new = || Lagging::recovered(place(1), 2, place(6));
    let mut own = new();
    let Step::HandOver(over) = decide(&mut own, &page(&[2, 4, 7], 7)) else {
        panic!("it is handed over");
    };
    let after = |at: usize| (over[at].0, over[at].1.after, over[at].1.attempt);
    assert_eq!(over.len(), 2);
    assert_eq!(after(0), (0, Place::START, Attempt::new(1)));
    assert_eq!(after(1), (1, place(2), Attempt::new(2)));
    assert_eq!((own.read_through, own.mark), (place(4), place(1)));
    assert_eq!(own.deadline(), Some(Moment::ZERO + limits.answer_timeout));
    let mut own = new();
    assert!(matches!(decide(&mut own, &page(&[], 5)), Step::ReadOn));
    assert_eq!((own.read_through, own.mark), (place(5), place(1)));
    assert!(matches!(decide(&mut own, &page(&[], 9)), Step::CaughtUp));
    assert_eq!((own.read_through, own.mark), (place(6), place(6)));
    // What is in front of one that comes back goes first.
    let mut own = new();
    own.drop_through = place(2);
    let decided = decide(&mut own, &page(&[2, 4], 6));
    assert!(matches!(decided, Step::Return(at, _) if at == place(2)));
    let mut own = new();
    own.crashes = Some((place(4), limits.crashes_max));
    let decided = decide(&mut own, &page(&[2, 4], 6));
    assert!(matches!(decided, Step::HandOver(over) if over.len() == 1));
    // Behind a full page there may be more: the next one begins where it ends.
    let mut own = new();
    let last = 1 + u64::from(limits.page);
    let full: Vec<u64> = (2..=last).collect();
    let now = (place(last + 5), Moment::ZERO, Timestamp::from_millis(0));
    let decided = own.page(&page(&full, last), &limits, &mut Attempt::default(), now);
    assert!(matches!(decided, Step::HandOver(over) if over.len() == full.len()));
    assert_eq!(own.read_through, place(last));
}

#[test]
fn what_is_noted_is_counted_once() {
    let mut own = handed();
    assert_eq!(own.pending, 2);
    for (number, pending) in [(4, 2), (5, 3), (5, 3), (6, 4)] {
        own.note(place(number));
        assert_eq!(own.pending, pending, "{number}");
    }
}

/// What is in front of a refused entry may have been taken, and what is behind it if an earlier
/// copy of it may have been; if its recipient says so itself, it is known that nothing behind that
/// was.
#[test]
fn a_refusal_says_what_was_taken() {
    for (at, why, before, after) in [
        (3, Refusal::Full, 0, 2),
        (3, Refusal::Full, 9, 9),
        (3, Refusal::Early, 9, 2),
        (3, Refusal::Early, 0, 2),
        (2, Refusal::Full, 1, 1),
        (2, Refusal::Full, 2, 3),
        (2, Refusal::Full, 9, 9),
        (2, Refusal::Early, 2, 1),
    ] {
        let mut own = handed();
        own.doubt_through = place(before);
        own.refused(place(at), why);
        assert_eq!(own.doubt_through, place(after), "{at} {why:?} {before}");
    }
}

#[test]
fn crashes_are_counted_for_each_entry() {
    let mut own = handed();
    assert_eq!((own.crashed(place(2)), own.crashed(place(2))), (1, 2));
    assert_eq!((own.crashed(place(3)), own.crashed(place(2))), (1, 1));
}

/// Once an entry is settled, nobody asks how often the destination crashed at it.
#[test]
fn crashes_at_what_is_settled_are_forgotten() {
    for (at, crashes) in [(2, None), (3, Some((place(3), 1)))] {
        let mut own = handed();
        own.crashed(place(at));
        assert!(own.take(place(2)));
        let settled = own.settle(place(2), &OutboxLimits::default(), Moment::ZERO);
        assert_eq!(settled, 1);
        assert_eq!(own.crashes, crashes, "{at}");
    }
}
