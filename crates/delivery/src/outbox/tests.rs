//! What the explorations rely on: that each relation of an outbox is noticed when it does not hold.

mod edges;

use std::time::Duration;

use stdx::time::Timestamp;

use super::*;

type Sender = Outbox<u8, &'static str>;

fn place(number: u64) -> Place {
    Place::new(number)
}

/// Marks apart from each other, one entry in the window, and one destination that lags.
fn outbox() -> Sender {
    let limits = OutboxLimits {
        window: 1,
        window_per_destination: 1,
        ..OutboxLimits::default()
    };
    let mut outbox = Sender::recover(limits, Attempt::default(), (place(2), place(6)), 2, []);
    outbox.handed = place(4);
    outbox.recorded = place(1);
    let attempt = outbox.attempt.next();
    outbox.window.put(place(3), 1, attempt, Moment::ZERO);
    let lagging = Lagging::recovered(place(5), 2, place(6));
    outbox.lagging.insert(2, lagging);
    outbox
}

fn is_consistent_after(change: impl FnOnce(&mut Sender)) -> bool {
    let mut outbox = outbox();
    change(&mut outbox);
    outbox.is_consistent()
}

#[test]
fn each_relation_is_looked_at() {
    assert!(is_consistent_after(|_| {}));
    // At the edge of each.
    assert!(is_consistent_after(|own| own.recorded = own.mark));
    assert!(is_consistent_after(|own| own.handed = own.tail));
    assert!(is_consistent_after(|own| {
        own.window = Window::default();
        own.mark = own.handed;
    }));
    // Beyond it.
    assert!(!is_consistent_after(|own| {
        own.window = Window::default();
        own.mark = place(5);
    }));
    assert!(!is_consistent_after(|own| own.handed = place(7)));
    assert!(!is_consistent_after(|own| own.recorded = place(3)));
    assert!(!is_consistent_after(|own| own.limits.window = 0));
    assert!(!is_consistent_after(|own| own.mark = place(3)));
    assert!(!is_consistent_after(|own| {
        let beyond = Lagging::recovered(place(7), 0, place(6));
        own.lagging.insert(3, beyond);
    }));
    assert!(!is_consistent_after(|own| own.pending = 1));
    assert!(is_consistent_after(
        |own| own.own_reads = own.limits.reads_max
    ));
    assert!(!is_consistent_after(
        |own| own.own_reads = own.limits.reads_max + 1
    ));
}

/// Of many destinations that are to be read at once, a few are; each that is answered makes way for
/// the next one, whatever the answer is. The common consumer does not wait for them.
#[test]
fn reads_of_many_destinations_take_turns() {
    let limits = OutboxLimits {
        reads_max: 2,
        ..OutboxLimits::default()
    };
    let lagging = (1..=5).map(|dest| (dest, place(0), 1));
    let marks = (place(0), place(9));
    let mut outbox = Sender::recover(limits, Attempt::default(), marks, 6, lagging);
    let read = |outbox: &mut Sender| match outbox.poll_effect() {
        Some(Effect::Read { id, dest, .. }) => Some((id, dest)),
        Some(Effect::Return { .. }) => panic!("nothing comes back"),
        None => None,
    };
    let (common, dest) = read(&mut outbox).expect("the common one");
    assert_eq!(dest, None);
    let mut under_way = [1, 2].map(|dest| {
        let (id, own) = read(&mut outbox).expect("two");
        assert_eq!(own, Some(dest));
        id
    });
    assert_eq!(read(&mut outbox), None);
    assert!(outbox.reads_wait());
    let wall = Timestamp::from_millis(0);
    let empty = Page {
        entries: Vec::new(),
        through: place(9),
    };
    outbox.handle_page(common, Some(&empty), Moment::ZERO, wall);
    assert_eq!(read(&mut outbox), None, "it counts for itself alone");
    outbox
        .effects
        .retain(|effect| !matches!(effect, Effect::Read { dest: Some(4), .. }));
    outbox.give_back(4, place(3), Reason::Refused("gone"));
    assert!(matches!(
        outbox.poll_effect(),
        Some(Effect::Return { dest: 4, .. })
    ));
    for (at, dest) in [(0, Some(3)), (1, Some(5)), (0, None), (1, None)] {
        let page = (at == 0).then_some(&empty);
        outbox.handle_page(under_way[at], page, Moment::ZERO, wall);
        assert!(outbox.own_reads <= 2);
        let next = read(&mut outbox);
        assert_eq!(next.map(|(_, dest)| dest), dest.map(Some));
        if let Some((id, _)) = next {
            under_way[at] = id;
        }
    }
    assert_eq!(outbox.own_reads, 0);
    assert!(!outbox.reads_wait());
}

#[test]
fn an_outbox_at_rest_has_nothing_to_do() {
    let mut outbox = Sender::recover(
        OutboxLimits::default(),
        Attempt::default(),
        (place(6), place(6)),
        0,
        [],
    );
    assert!(outbox.is_at_rest());
    outbox.accepted();
    assert!(!outbox.is_at_rest(), "one is accepted");
    outbox.pending = 0;
    outbox.tail = place(7);
    assert!(!outbox.is_at_rest(), "one was not handed over");
    outbox.tail = place(6);
    outbox
        .lagging
        .insert(1, Lagging::recovered(place(6), 0, place(6)));
    assert!(!outbox.is_at_rest(), "a mark is to be shared");
}

/// An operator who has everybody tried at once is told who was waiting for it.
#[test]
fn only_who_waits_is_tried_at_once() {
    let mut outbox = outbox();
    while outbox.poll_effect().is_some() {}
    assert!(!outbox.retry_now(1), "it keeps up");
    assert!(!outbox.retry_now(2), "nothing has failed");
    assert_eq!(outbox.poll_effect(), None);
    outbox.retry(2, Refusal::Full, Moment::ZERO);
    assert!(outbox.retry_now(2));
    let effect = outbox.poll_effect();
    assert!(matches!(effect, Some(Effect::Read { dest: Some(2), .. })));
    assert!(!outbox.retry_now(2), "it is read");
}

#[test]
fn who_is_away_is_tried_when_it_is_called() {
    let limits = OutboxLimits::default();
    let start = (place(0), place(0));
    let mut outbox = Sender::recover(limits, Attempt::default(), start, 0, []);
    let now = Moment::ZERO;
    outbox.accepted();
    let over = outbox.committed(place(1), 1, now).expect("it keeps up");
    let refused = (place(1), over.attempt);
    outbox.handle_refused(1, refused, Refusal::Away, None, now);
    assert!(outbox.is_at_rest(), "nothing is to be done");
    assert_eq!(outbox.deadline(), Some(now + limits.give_up_after));
    outbox.accepted();
    assert!(!outbox.is_at_rest(), "one is being committed");
    assert_eq!(outbox.committed(place(2), 1, now), None);
    assert!(outbox.is_at_rest() && outbox.pending() == 2);
    assert_eq!(outbox.poll_effect(), None, "it waits with the first one");
    let waits = outbox.stuck(now).next().expect("it lags").waits;
    assert_eq!(waits, Waits::Call(limits.give_up_after));
    // Somebody else is not away.
    outbox.accepted();
    assert!(outbox.committed(place(3), 2, now).is_some());
    assert!(!outbox.is_at_rest());
    outbox.handle_taken(2, place(3), now);
    assert!(outbox.is_at_rest());
    outbox.called();
    let effect = outbox.poll_effect();
    assert!(matches!(effect, Some(Effect::Read { dest: Some(1), .. })));
    assert!(!outbox.is_at_rest(), "it is read");
    outbox.called();
    assert_eq!(outbox.poll_effect(), None, "once");
}

#[test]
fn what_is_too_old_for_who_is_away_is_tried_and_comes_back() {
    let limits = OutboxLimits::default();
    let (ends, lagging) = ((place(1), place(1)), [(1, place(0), 1)]);
    let mut outbox = Sender::recover(limits, Attempt::default(), ends, 1, lagging);
    let (mut now, at) = (Moment::ZERO, Timestamp::from_millis(0));
    let age = limits.give_up_after.as_millis() as i64;
    let page = Page {
        entries: vec![Listed {
            place: place(1),
            dest: 1,
            at,
        }],
        through: place(1),
    };
    let mut attempts = 0;
    loop {
        let Some(Effect::Read { id, .. }) = outbox.poll_effect() else {
            panic!("it is not read");
        };
        let over = outbox.handle_page(id, Some(&page), now, Timestamp::from_millis(age));
        let [(0, over)] = over[..] else {
            break;
        };
        assert!(
            attempts < limits.give_up_attempts_min,
            "it never comes back"
        );
        attempts += 1;
        let refused = (place(1), over.attempt);
        outbox.handle_refused(1, refused, Refusal::Away, None, now);
        let due = outbox.deadline().expect("it is tried again");
        assert!(due <= now + limits.retry_max, "soon");
        now = due;
        outbox.handle_timeout(now);
    }
    assert_eq!(attempts, limits.give_up_attempts_min);
    let effect = outbox.poll_effect();
    assert!(matches!(
        effect,
        Some(Effect::Return {
            reason: Reason::Expired { .. },
            ..
        })
    ));
}

/// What was taken behind one that was not leaves the window with its destination.
#[test]
fn what_leaves_the_window_is_counted_once() {
    let mut window = Window::default();
    let mut attempt = Attempt::default();
    for number in 1..=6 {
        let dest = if number < 5 { number as u8 % 2 } else { 2 };
        window.put(place(number), dest, attempt.next(), Moment::ZERO);
    }
    // 1 and 3 are of one destination, 2 and 4 of another, 5 and 6 of a third.
    assert!(window.take(place(4), 0));
    assert!(window.take(place(5), 2));
    assert!(!window.take(place(5), 1), "it is somebody else's");
    assert_eq!(window.settle(), 0, "the first one is not taken");
    let (removed, taken) = window.remove(1);
    let removed: Vec<u64> = removed.iter().map(|(place, _)| place.number()).collect();
    assert_eq!((removed, taken), (vec![1, 3], 3));
    assert_eq!(window.first(), Some(place(6)));
    let (removed, taken) = window.remove(2);
    assert_eq!((removed.len(), taken, window.len()), (1, 0, 0));
    // Those in front of one that is not taken go with it.
    for number in 7..=9 {
        window.put(
            place(number),
            u8::from(number != 7),
            attempt.next(),
            Moment::ZERO,
        );
    }
    assert!(window.take(place(8), 1));
    let (removed, taken) = window.remove(1);
    assert_eq!((removed.len(), taken, window.len()), (1, 1, 1));
}

/// Silence is measured from when the oldest entry left, to the moment.
#[test]
fn silence_begins_with_the_oldest_entry() {
    let mut window = Window::default();
    let mut attempt = Attempt::default();
    let timeout = Duration::from_secs(5);
    assert_eq!(window.overdue(Moment::FAR, timeout), None);
    window.put(place(1), 1, attempt.next(), Moment::ZERO);
    let due = Moment::ZERO + timeout;
    window.put(place(2), 2, attempt.next(), due);
    let before = Moment::ZERO + (timeout - Duration::from_millis(1));
    assert_eq!(window.overdue(before, timeout), None);
    assert_eq!(window.overdue(due, timeout), Some(1));
}

#[test]
fn an_outbox_says_what_it_was_made_with() {
    let outbox = outbox();
    assert_eq!((outbox.mark(), outbox.tail()), (place(2), place(6)));
    assert_eq!((outbox.limits().window, outbox.pending()), (1, 2));
    assert_eq!(outbox.last_attempt(), Attempt::new(1));
    assert!(outbox.lags() && outbox.has_changes());
    assert!(outbox.is_settled(place(2), 1) && !outbox.is_settled(place(3), 1));
    assert!(outbox.is_settled(place(5), 2) && !outbox.is_settled(place(6), 2));
}

/// An entry that is too old when it is read is not handed over with the others.
#[test]
fn an_old_entry_is_left_to_its_destination() {
    let hour = OutboxLimits::default().give_up_after.as_millis() as i64;
    for (age, lags) in [(hour - 1, false), (hour, true)] {
        let limits = OutboxLimits::default();
        let marks = (place(0), place(1));
        let mut outbox = Sender::recover(limits, Attempt::default(), marks, 1, []);
        let Some(Effect::Read { id, .. }) = outbox.poll_effect() else {
            panic!("it is read");
        };
        let page = Page {
            entries: vec![Listed {
                place: place(1),
                dest: 1,
                at: Timestamp::from_millis(0),
            }],
            through: place(1),
        };
        let wall = Timestamp::from_millis(age);
        let over = outbox.handle_page(id, Some(&page), Moment::ZERO, wall);
        assert_eq!((over.is_empty(), outbox.lags()), (lags, lags), "{age}");
    }
}

/// Operators are shown a word for each, and none twice.
#[test]
fn each_refusal_has_a_word() {
    let all = [
        Refusal::Full,
        Refusal::Unreadable,
        Refusal::Quarantined,
        Refusal::Early,
        Refusal::Crashed,
        Refusal::Final,
        Refusal::Silent,
        Refusal::Unread,
    ];
    let words: std::collections::BTreeSet<&str> = all.iter().map(|why| why.as_str()).collect();
    assert_eq!(words.len(), all.len());
    let says = |why: &&Refusal| why.is_authoritative();
    assert_eq!(all.iter().filter(says).count(), 3);
}

/// A bound of one destination is for one that takes nothing.
#[test]
fn what_may_be_accepted() {
    let mut outbox = outbox();
    outbox.limits.entries_max = 8;
    outbox.limits.entries_per_destination_max = 2;
    let says = |outbox: &Sender| [1, 2].map(|dest| outbox.may_accept(dest));
    assert_eq!(says(&outbox), [Accept::Yes; 2], "nothing has failed");
    outbox.retry(2, Refusal::Full, Moment::ZERO);
    assert_eq!(says(&outbox), [Accept::Yes, Accept::DestinationFull]);
    outbox.pending = 8;
    assert_eq!(says(&outbox), [Accept::Full; 2]);
}

/// One that takes an entry now and then has not failed. It filled the whole log, and its sender
/// could write to nobody else.
#[test]
fn who_is_slow_leaves_room_for_others() {
    let mut outbox = outbox();
    outbox.limits.entries_max = 10;
    outbox.limits.entries_per_destination_max = 2;
    let mut fill = |dest: u8| {
        let mut accepted = 0;
        while outbox.may_accept(dest) == Accept::Yes {
            outbox.lagging.get_mut(&2).expect("it lags").pending += 1;
            outbox.accepted();
            accepted += 1;
        }
        (accepted, outbox.may_accept(dest), outbox.may_accept(1))
    };
    let (accepted, is_full, other) = fill(2);
    assert!(accepted > 2, "a burst: {accepted}");
    assert_eq!((is_full, other), (Accept::DestinationFull, Accept::Yes));
    assert!(
        outbox.pending >= 5 && outbox.pending < 10,
        "{}",
        outbox.pending
    );
}

/// Marks are said once, those of destinations that lag if they changed.
#[test]
fn marks_that_moved_are_said_once() {
    let mut outbox = outbox();
    let changes = outbox.take_changes().expect("one has moved");
    assert_eq!((changes.mark, changes.lagging), (place(2), None));
    assert!(!outbox.has_changes() && outbox.take_changes().is_none());
    outbox.lagging_changed = true;
    assert!(outbox.has_changes());
    let changes = outbox.take_changes().expect("another has");
    assert_eq!(changes.lagging, Some(vec![(2, place(5))]));
    assert!(!outbox.has_changes() && outbox.take_changes().is_none());
}

#[test]
fn an_entry_comes_back_once() {
    let mut outbox = outbox();
    assert!(!outbox.still_returns(2, place(6)) && !outbox.still_returns(1, place(3)));
    outbox.give_back(2, place(6), Reason::Poison);
    assert!(outbox.still_returns(2, place(6)) && !outbox.still_returns(2, place(5)));
    outbox.returned(2, place(6), Moment::ZERO);
    assert!(!outbox.still_returns(2, place(6)));
}

/// Of a page of all, what was passed already and what is not committed yet is left alone.
#[test]
fn a_page_of_all_has_edges() {
    let limits = OutboxLimits::default();
    let marks = (place(2), place(4));
    let mut outbox = Sender::recover(limits, Attempt::default(), marks, 2, []);
    let Some(Effect::Read { id, .. }) = outbox.poll_effect() else {
        panic!("it is read");
    };
    let at = Timestamp::from_millis(0);
    let listed = |number| Listed {
        place: place(number),
        dest: 1,
        at,
    };
    let page = Page {
        entries: (2..=5).map(listed).collect(),
        through: place(5),
    };
    let over = outbox.handle_page(id, Some(&page), Moment::ZERO, at);
    let over: Vec<usize> = over.iter().map(|(at, _)| *at).collect();
    assert_eq!((over, outbox.window.count(1)), (vec![1, 2], 2));
    assert!(outbox.window.take(place(3), 1));
    assert_eq!((outbox.window.count(1), outbox.window.len()), (1, 2));
}

/// An entry that was to come back and cannot be read is tried again later; no other is.
#[test]
fn what_cannot_be_returned_is_tried_again() {
    let mut outbox = outbox();
    outbox.give_back(2, place(6), Reason::Poison);
    let waits = |outbox: &Sender| outbox.lagging[&2].waits();
    outbox.return_failed(2, place(5), Moment::ZERO);
    assert!(!waits(&outbox), "it is another one");
    outbox.return_failed(2, place(6), Moment::ZERO);
    assert!(waits(&outbox));
    let due = outbox.lagging[&2].deadline().expect("it waits");
    while outbox.poll_effect().is_some() {}
    outbox.handle_timeout(Moment::ZERO);
    assert!(waits(&outbox), "its time has not come");
    outbox.handle_timeout(due);
    assert!(!waits(&outbox));
}

/// Behind the end of what was handed over there may be more for those that wait for the mark.
#[test]
fn nobody_shares_a_mark_that_is_behind() {
    for (handed, is_left) in [(5, true), (6, false)] {
        let mut outbox = outbox();
        outbox.window = Window::default();
        outbox.lagging.clear();
        let mut own = Lagging::recovered(place(3), 0, place(6));
        own.give_back(place(4));
        own.settle(place(4), &outbox.limits, Moment::ZERO);
        outbox.lagging.insert(3, own);
        outbox.handed = place(handed);
        outbox.move_mark();
        assert_eq!(outbox.mark(), place(handed));
        assert_eq!(outbox.lags(), is_left, "{handed}");
    }
}

#[test]
fn what_is_in_flight_has_an_attempt() {
    let mut window = Window::default();
    let attempt = Attempt::default().next();
    window.put(place(3), 1, attempt, Moment::ZERO);
    let is_it = |dest, attempt| window.is_in_flight(place(3), dest, attempt);
    assert!(is_it(1, attempt));
    assert!(!is_it(2, attempt) && !is_it(1, Attempt::new(7)));
    assert!(!window.is_in_flight(place(2), 1, attempt));
}

/// An entry that was handed over, and what was said of it so far.
fn handed_over() -> (Sender, Attempt) {
    let limits = OutboxLimits::default();
    let start = (place(0), place(0));
    let mut outbox = Sender::recover(limits, Attempt::default(), start, 0, []);
    outbox.accepted();
    let over = outbox.committed(place(1), 1, Moment::ZERO);
    (outbox, over.expect("it keeps up").attempt)
}

/// The destination is tried again: returns the next attempt.
fn tried_again(outbox: &mut Sender) -> Attempt {
    let due = outbox.deadline().expect("it waits");
    outbox.handle_timeout(due);
    let Some(Effect::Read { id, .. }) = outbox.poll_effect() else {
        panic!("it is read");
    };
    let at = Timestamp::from_millis(0);
    let entry = Listed {
        place: place(1),
        dest: 1,
        at,
    };
    let page = Page {
        entries: vec![entry],
        through: place(1),
    };
    let over = outbox.handle_page(id, Some(&page), due, at);
    over[0].1.attempt
}

/// A copy that waits goes on while it is the latest attempt, also in the pause before the next one,
/// and no more once its entry is taken or comes back.
#[test]
fn only_the_latest_attempt_goes_on() {
    let now = Moment::ZERO;
    let (mut outbox, first) = handed_over();
    let is_it = |outbox: &Sender, attempt| outbox.is_latest(1, (place(1), attempt));
    assert!(is_it(&outbox, first), "it keeps up");
    assert!(!outbox.is_latest(2, (place(1), first)), "it is another's");
    assert!(!outbox.is_latest(1, (place(2), first)), "it is another one");
    outbox.handle_refused(1, (place(1), first), Refusal::Full, None, now);
    assert!(is_it(&outbox, first), "the next one waits");
    let second = tried_again(&mut outbox);
    assert!(!is_it(&outbox, first) && is_it(&outbox, second));

    let mut taken = outbox.clone();
    taken.handle_taken(1, place(1), now);
    assert!(!is_it(&taken, second), "it is taken");
    outbox.handle_refused(1, (place(1), second), Refusal::Final, Some("no"), now);
    assert!(outbox.still_returns(1, place(1)) && !is_it(&outbox, second));
    outbox.returned(1, place(1), now);
    outbox.return_committed(1);
    assert!(!is_it(&outbox, first) && !is_it(&outbox, second));
    let recovered = Sender::recover(*outbox.limits(), second, (place(0), place(1)), 1, []);
    assert!(!is_it(&recovered, second), "of an earlier life");
}

/// In a pause a destination is not given another one by what led to it; what is for good counts.
#[test]
fn in_a_pause_only_what_is_for_good_counts() {
    let (mut outbox, attempt) = handed_over();
    let refused = (place(1), attempt);
    outbox.handle_refused(1, refused, Refusal::Full, None, Moment::ZERO);
    let pauses = outbox.clone();
    outbox.handle_refused(1, refused, Refusal::Full, None, Moment::ZERO);
    assert_eq!(outbox, pauses);
    outbox.handle_refused(1, refused, Refusal::Final, Some("no"), Moment::ZERO);
    assert!(outbox.still_returns(1, place(1)));
}
