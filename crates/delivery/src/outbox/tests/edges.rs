//! Time-outs, refusals, returns and operators, at the edges of each.

use stdx::time::Timestamp;

use super::*;

fn effects(outbox: &mut Sender) -> Vec<Effect<u8, &'static str>> {
    std::iter::from_fn(|| outbox.poll_effect()).collect()
}

/// What one destination waits for.
fn waits_for(outbox: &Sender, dest: u8) -> Option<Waits> {
    let mut stuck = outbox.stuck(Moment::ZERO);
    stuck.find(|own| own.dest == dest).map(|own| own.waits)
}

/// Attempts in a row that failed.
fn failures(outbox: &Sender, dest: u8) -> Option<u32> {
    outbox.lagging.get(&dest).map(|own| own.failures)
}

/// A sender whose log ends at a place, and of which nothing waits.
fn at_rest(number: u64) -> Sender {
    let marks = (place(number), place(number));
    Sender::recover(OutboxLimits::default(), Attempt::default(), marks, 0, [])
}

/// Entries for destinations, handed over one after the other.
fn handed(dests: &[u8]) -> (Sender, Vec<HandOver>) {
    let mut outbox = at_rest(0);
    let over = (1..).zip(dests).map(|(number, dest)| {
        outbox.accepted();
        let over = outbox.committed(place(number), *dest, Moment::ZERO);
        over.expect("it keeps up")
    });
    let over = over.collect();
    (outbox, over)
}

/// Each entry names the last one for its destination in front of it, unless that was taken.
#[test]
fn an_entry_names_the_one_in_front() {
    let (outbox, over) = handed(&[1, 2, 1, 2]);
    let after: Vec<Place> = over.iter().map(|over| over.after).collect();
    assert_eq!(after, [0, 0, 1, 2].map(place));
    for (taken, after) in [(3, 0), (1, 3)] {
        let mut outbox = outbox.clone();
        outbox.handle_taken(1, place(taken), Moment::ZERO);
        outbox.accepted();
        let over = outbox.committed(place(5), 1, Moment::ZERO);
        assert_eq!(over.map(|over| over.after), Some(place(after)), "{taken}");
    }
}

/// After an append that failed nothing is read before the shortest pause is over; another one that
/// fails meanwhile does not prolong that.
#[test]
fn it_rests_after_an_append_that_failed() {
    let marks = (place(2), place(6));
    let limits = OutboxLimits::default();
    let recovered = || Sender::recover(limits, Attempt::default(), marks, 3, [(1, place(3), 1)]);
    let until = Moment::ZERO + limits.retry_min;
    let earlier = Moment::ZERO + limits.retry_min / 2;
    let mut first = recovered();
    first.rest(&at_rest(0), Moment::ZERO);
    let mut outbox = recovered();
    outbox.rest(&first, earlier);
    assert_eq!(outbox.deadline(), Some(until));
    outbox.handle_timeout(earlier);
    assert_eq!(effects(&mut outbox), []);
    outbox.handle_timeout(until);
    assert_eq!(effects(&mut outbox).len(), 2);
    // In other lives by up to as much later.
    let life = Attempt::new(7 << 32);
    let mut other = Sender::recover(limits, life, marks, 0, []);
    other.rest(&at_rest(0), Moment::ZERO);
    assert_eq!(other.deadline(), Some(until + limits.retry_min * 7 / 64));
}

/// They would be refused together again, and each time only as many get in as there is room for.
#[test]
fn those_who_are_refused_together_come_back_one_by_one() {
    let limits = OutboxLimits::default();
    let pause = |life: u64, times: u32| {
        let (ends, lagging) = ((place(1), place(1)), [(1, place(0), 1)]);
        let mut outbox = Sender::recover(limits, Attempt::of_life(life), ends, 1, lagging);
        (0..times).for_each(|_| outbox.retry(1, Refusal::Full, Moment::ZERO));
        let due = outbox.deadline().expect("it is tried again");
        due.saturating_since(Moment::ZERO)
    };
    for (times, shortest) in [(1, limits.retry_min), (20, limits.retry_max)] {
        let mut pauses: Vec<Duration> = (0..64).map(|life| pause(life, times)).collect();
        assert_eq!(pauses[0], shortest);
        pauses.sort_unstable();
        pauses.dedup();
        assert_eq!(pauses.len(), 64, "{times}");
        assert!(pauses[63] < shortest * 3 / 2, "{times}");
    }
}

/// The log is read on while there is more of it, one page at a time, and after a read that failed
/// not before the pause is over.
#[test]
fn the_log_is_read_on_one_page_at_a_time() {
    assert_eq!(effects(&mut at_rest(6)), []);
    let marks = (place(2), place(6));
    let mut outbox = Sender::recover(OutboxLimits::default(), Attempt::default(), marks, 2, []);
    let [Effect::Read { id, after, .. }] = effects(&mut outbox)[..] else {
        panic!("it is read");
    };
    assert_eq!(after, place(2));
    outbox.read_on();
    assert_eq!(effects(&mut outbox), [], "that is read already");
    let due = Moment::ZERO + outbox.limits.retry_min;
    outbox.handle_page(id, None, Moment::ZERO, Timestamp::from_millis(0));
    outbox.read_on();
    assert_eq!(
        (effects(&mut outbox), outbox.deadline()),
        (vec![], Some(due))
    );
    outbox.handle_timeout(Moment::ZERO);
    assert_eq!(
        (effects(&mut outbox), outbox.deadline()),
        (vec![], Some(due))
    );
    outbox.handle_timeout(due);
    assert_eq!((effects(&mut outbox).len(), outbox.deadline()), (1, None));
}

/// A log that cannot be read is tried again after pauses that double up to their bound, so that a
/// store in trouble is not asked four times a second by each sender; once it can be read, the next
/// failure is a first one.
#[test]
fn pauses_of_a_log_that_cannot_be_read_double() {
    let second = Duration::from_secs(1);
    let limits = OutboxLimits {
        retry_min: second,
        retry_max: second * 4,
        ..OutboxLimits::default()
    };
    let marks = (place(2), place(6));
    let mut outbox = Sender::recover(limits, Attempt::default(), marks, 2, []);
    let read = |outbox: &mut Sender| match effects(outbox)[..] {
        [Effect::Read { id, .. }] => id,
        _ => panic!("it is read"),
    };
    let wall = Timestamp::from_millis(0);
    let mut now = Moment::ZERO;
    let mut fail = |outbox: &mut Sender| {
        let id = read(outbox);
        outbox.handle_page(id, None, now, wall);
        let due = outbox.deadline().expect("it is tried again");
        let pause = due.saturating_since(now);
        now = due;
        outbox.handle_timeout(now);
        pause
    };
    let pauses = [1, 2, 4, 4].map(|seconds| second * seconds);
    assert_eq!([(); 4].map(|()| fail(&mut outbox)), pauses);
    let half = Page {
        entries: Vec::new(),
        through: place(4),
    };
    let id = read(&mut outbox);
    outbox.handle_page(id, Some(&half), Moment::ZERO, wall);
    assert_eq!(fail(&mut outbox), second);
}

/// What is refused for good comes back if it is the first that is in flight; so does one at which
/// its recipient crashed as often as it may. All else is tried again.
#[test]
fn only_the_first_in_flight_comes_back() {
    let after = |refusals: &[(usize, Refusal, Option<&'static str>)]| {
        let (mut outbox, over) = handed(&[1, 1]);
        for (at, why, error) in refusals {
            // The second time it is another attempt.
            let attempt = match outbox.lagging.get_mut(&1) {
                Some(own) => {
                    own.retry_now();
                    read_both(&mut outbox)[*at].attempt
                }
                None => over[*at].attempt,
            };
            let entry = (place(*at as u64 + 1), attempt);
            outbox.handle_refused(1, entry, *why, *error, Moment::ZERO);
        }
        waits_for(&outbox, 1)
    };
    let retry = Some(Waits::Retry(OutboxLimits::default().retry_min));
    let later = Some(Waits::Retry(OutboxLimits::default().retry_min * 2));
    let comes_back = Some(Waits::Return);
    assert_eq!(after(&[(0, Refusal::Final, Some("no"))]), comes_back);
    assert_eq!(after(&[(1, Refusal::Final, Some("no"))]), retry);
    assert_eq!(after(&[(0, Refusal::Full, None)]), retry);
    let crash = |at| (at, Refusal::Crashed, None);
    assert_eq!(after(&[crash(0)]), retry);
    assert_eq!(after(&[crash(0), crash(0)]), comes_back);
    assert_eq!(after(&[crash(1), crash(1)]), later, "one is in front of it");
    assert_eq!(after(&[crash(0), (0, Refusal::Full, None)]), later);
}

/// Reads both entries for the destination, and hands them over.
fn read_both(outbox: &mut Sender) -> Vec<HandOver> {
    outbox.read_for(1);
    let Some(Effect::Read { id, .. }) = effects(outbox).pop() else {
        panic!("it is read");
    };
    let at = Timestamp::from_millis(0);
    let listed = |number| Listed {
        place: place(number),
        dest: 1,
        at,
    };
    let page = Page {
        entries: vec![listed(1), listed(2)],
        through: place(2),
    };
    let over = outbox.handle_page(id, Some(&page), Moment::ZERO, at);
    over.into_iter().map(|(_, over)| over).collect()
}

/// An answer to an attempt that is not the latest changes nothing.
#[test]
fn an_answer_to_an_earlier_attempt_is_not_heard() {
    let (mut outbox, over) = handed(&[1]);
    let other = Attempt::new(over[0].attempt.number() + 1);
    let refuse = |outbox: &mut Sender, attempt| {
        let entry = (place(1), attempt);
        outbox.handle_refused(1, entry, Refusal::Full, None, Moment::ZERO);
    };
    refuse(&mut outbox, other);
    assert!(!outbox.lags());
    refuse(&mut outbox, over[0].attempt);
    assert_eq!(failures(&outbox, 1), Some(1));
    refuse(&mut outbox, over[0].attempt);
    assert_eq!(failures(&outbox, 1), Some(1));
}

/// An entry that comes back is settled once its error is appended, and what is behind it is read
/// once that is durable.
#[test]
fn what_is_behind_a_returned_entry_waits() {
    let (mut outbox, over) = handed(&[1, 1]);
    let first = (place(1), over[0].attempt);
    outbox.handle_refused(1, first, Refusal::Final, Some("no"), Moment::ZERO);
    let returns = Effect::Return {
        dest: 1,
        place: place(1),
        reason: Reason::Refused("no"),
    };
    assert_eq!(effects(&mut outbox), [returns]);
    outbox.take_changes();
    outbox.returned(1, place(2), Moment::ZERO);
    assert_eq!(
        (outbox.pending(), outbox.has_changes()),
        (2, false),
        "another"
    );
    outbox.returned(1, place(1), Moment::ZERO);
    assert_eq!((outbox.pending(), outbox.has_changes()), (1, true));
    assert_eq!(effects(&mut outbox), []);
    assert_eq!(waits_for(&outbox, 1), Some(Waits::Return));
    outbox.return_committed(1);
    let read = effects(&mut outbox);
    let [Effect::Read { dest, after, .. }] = read[..] else {
        panic!("{read:?}");
    };
    assert_eq!((dest, after), (Some(1), place(1)));
    outbox.return_committed(1);
    assert_eq!(effects(&mut outbox), [], "it was durable before");
}

/// What comes back and was taken after all is settled as taken.
#[test]
fn what_was_taken_does_not_come_back() {
    for (taken, is_settled) in [(1, true), (2, false)] {
        let (mut outbox, over) = handed(&[1, 1]);
        let first = (place(1), over[0].attempt);
        outbox.handle_refused(1, first, Refusal::Final, Some("no"), Moment::ZERO);
        outbox.handle_taken(1, place(taken), Moment::ZERO);
        assert_eq!(outbox.still_returns(1, place(1)), !is_settled, "{taken}");
        assert_eq!(outbox.pending(), 2 - u32::from(is_settled));
    }
}

/// Of those whose entries came back, as many as there may be wait for the common mark; with one
/// more the slowest destination of the window makes way.
#[test]
fn too_many_that_wait_move_the_mark() {
    for (returned_max, makes_way) in [(0, true), (1, false)] {
        let (mut outbox, over) = handed(&[1, 2]);
        outbox.limits.returned_max = returned_max;
        let second = (place(2), over[1].attempt);
        outbox.handle_refused(2, second, Refusal::Final, Some("no"), Moment::ZERO);
        outbox.returned(2, place(2), Moment::ZERO);
        outbox.return_committed(2);
        let Some(Effect::Read { id, .. }) = effects(&mut outbox).pop() else {
            panic!("it is read on");
        };
        let page = Page {
            entries: Vec::new(),
            through: place(2),
        };
        let wall = Timestamp::from_millis(0);
        outbox.handle_page(id, Some(&page), Moment::ZERO, wall);
        assert_eq!(outbox.lagging.contains_key(&1), makes_way, "{returned_max}");
        assert_eq!(outbox.mark(), place(if makes_way { 2 } else { 0 }));
        // It has got everything: no operator is shown it.
        assert_eq!(waits_for(&outbox, 2), None);
    }
}

/// Half of what waits is taken late: that is settled, and the pause goes on for the rest.
#[test]
fn what_is_taken_in_a_pause_is_settled() {
    let (mut outbox, _) = handed(&[1, 1]);
    let silent = Moment::ZERO + outbox.limits.answer_timeout;
    outbox.handle_timeout(silent);
    let is_paused = |outbox: &Sender| matches!(waits_for(outbox, 1), Some(Waits::Retry(_)));
    assert!(is_paused(&outbox));
    outbox.handle_taken(1, place(1), silent);
    assert_eq!((outbox.pending(), is_paused(&outbox)), (1, true));
    assert_eq!(failures(&outbox, 1), Some(1));
    outbox.handle_taken(1, place(1), silent);
    assert_eq!(outbox.pending(), 1, "it was before");
    outbox.handle_taken(1, place(2), silent);
    assert_eq!((outbox.pending(), failures(&outbox, 1)), (0, Some(0)));
    assert_eq!(waits_for(&outbox, 1), Some(Waits::Read));
}

/// An operator has all that waits for a destination returned, at once.
#[test]
fn what_is_dropped_is_counted_and_read_at_once() {
    let (mut outbox, over) = handed(&[1, 1, 2]);
    assert_eq!(outbox.drop_pending(1), 0, "it keeps up");
    let first = (place(1), over[0].attempt);
    outbox.handle_refused(1, first, Refusal::Full, None, Moment::ZERO);
    assert_eq!(effects(&mut outbox), []);
    assert_eq!((outbox.drop_pending(1), outbox.drop_pending(2)), (2, 0));
    let read = effects(&mut outbox);
    let [Effect::Read { id, dest, .. }] = read[..] else {
        panic!("{read:?}");
    };
    assert_eq!(dest, Some(1));
    let at = Timestamp::from_millis(0);
    let page = Page {
        entries: vec![Listed {
            place: place(1),
            dest: 1,
            at,
        }],
        through: place(1),
    };
    assert_eq!(outbox.handle_page(id, Some(&page), Moment::ZERO, at), []);
    let returns = Effect::Return {
        dest: 1,
        place: place(1),
        reason: Reason::Dropped {
            may_be_delivered: false,
        },
    };
    assert_eq!(effects(&mut outbox), [returns]);
}

/// While there is more of the log to read, what is committed behind it is read in its turn; so is
/// what is there already.
#[test]
fn what_is_committed_waits_for_what_is_in_front() {
    let marks = (place(2), place(6));
    let mut outbox = Sender::recover(OutboxLimits::default(), Attempt::default(), marks, 2, []);
    assert_eq!(outbox.committed(place(7), 1, Moment::ZERO), None);
    assert_eq!((outbox.tail(), outbox.window.len()), (place(7), 0));
    let mut outbox = at_rest(6);
    assert_eq!(
        outbox.committed(place(6), 1, Moment::ZERO),
        None,
        "it was there"
    );
    assert!(outbox.committed(place(7), 1, Moment::ZERO).is_some());
}

/// With a full window the slowest destination makes way, unless the entry is for one that lags.
#[test]
fn only_who_needs_room_has_it_made() {
    let full = || {
        let mut outbox = at_rest(0);
        (outbox.limits.window, outbox.limits.window_per_destination) = (1, 1);
        assert!(outbox.committed(place(1), 1, Moment::ZERO).is_some());
        outbox
    };
    let lags = |outbox: &Sender| outbox.lagging.keys().copied().collect::<Vec<_>>();
    let mut outbox = full();
    assert!(outbox.committed(place(2), 2, Moment::ZERO).is_some());
    assert_eq!((lags(&outbox), outbox.window.len()), (vec![1], 1));
    let mut outbox = full();
    outbox.lag(3, Moment::ZERO);
    assert_eq!(outbox.committed(place(2), 3, Moment::ZERO), None);
    assert_eq!((lags(&outbox), outbox.window.len()), (vec![3], 1));
    let due = Moment::ZERO + outbox.limits.answer_timeout;
    assert_eq!(
        outbox.deadline(),
        Some(due),
        "the first one has not answered"
    );
}

/// Once the log was read to its end, destinations that lag and have everything share the common
/// mark; others are read on. An answer to no question of theirs changes nothing.
#[test]
fn at_the_end_of_the_log_who_has_everything_keeps_up() {
    for (through, keeps_up) in [(6, true), (5, false)] {
        let marks = (place(2), place(6));
        let limits = OutboxLimits::default();
        let mut outbox = Sender::recover(limits, Attempt::default(), marks, 2, []);
        let Some(Effect::Read { id, .. }) = effects(&mut outbox).pop() else {
            panic!("it is read");
        };
        for (dest, read) in [(1, 6), (2, 4)] {
            let own = Lagging::new(place(read), Vec::new(), Moment::ZERO, Place::START);
            outbox.lagging.insert(dest, own);
        }
        let page = Page {
            entries: Vec::new(),
            through: place(through),
        };
        let wall = Timestamp::from_millis(0);
        let before = outbox.clone();
        outbox.handle_page(ReadId::default(), Some(&page), Moment::ZERO, wall);
        assert_eq!(outbox, before, "nobody asked");
        outbox.handle_page(id, Some(&page), Moment::ZERO, wall);
        assert_eq!(outbox.lagging.contains_key(&1), !keeps_up, "{through}");
        let read = effects(&mut outbox).into_iter().map(|effect| match effect {
            Effect::Read { dest, after, .. } => (dest, after),
            Effect::Return { .. } => panic!("nothing comes back"),
        });
        let wanted = match keeps_up {
            true => (Some(2), place(4)),
            false => (None, place(5)),
        };
        assert_eq!(read.collect::<Vec<_>>(), [wanted]);
    }
}

/// That one shares the common mark again is recorded, and what was to be recorded is so still.
#[test]
fn a_mark_that_is_shared_again_is_recorded() {
    for (has_one, had_changed, has_changed) in [
        (true, false, true),
        (false, false, false),
        (false, true, true),
        (true, true, true),
    ] {
        let mut outbox = at_rest(6);
        outbox.mark = place(5);
        if has_one {
            outbox
                .lagging
                .insert(1, Lagging::recovered(place(4), 0, place(6)));
        }
        outbox.lagging_changed = had_changed;
        outbox.move_mark();
        assert_eq!((outbox.mark(), outbox.lags()), (place(6), false));
        assert_eq!(
            outbox.lagging_changed, has_changed,
            "{has_one} {had_changed}"
        );
    }
}

/// Crashes at an entry are remembered while others in front of it are taken.
#[test]
fn crashes_are_remembered_until_their_entry_is_settled() {
    let (mut outbox, over) = handed(&[1, 1]);
    let second = (place(2), over[1].attempt);
    outbox.handle_refused(1, second, Refusal::Crashed, None, Moment::ZERO);
    outbox.handle_taken(1, place(1), Moment::ZERO);
    outbox.retry_now(1);
    let over = read_both(&mut outbox);
    let second = (place(2), over[1].attempt);
    outbox.handle_taken(1, place(1), Moment::ZERO);
    outbox.handle_refused(1, second, Refusal::Crashed, None, Moment::ZERO);
    assert_eq!(
        waits_for(&outbox, 1),
        Some(Waits::Return),
        "for the second time"
    );
}

/// Reads of two outboxes have the same names, and a page of one passes over what the other one has
/// to hand over: whoever performs them tells outboxes apart, by their attempts.
#[test]
fn a_page_of_another_outbox_must_not_be_given_to_one() {
    let marks = (place(2), place(6));
    let new = |life: u64| {
        let attempt = Attempt::new(life << 32);
        let lagging = [(1, place(2), 1)];
        let mut outbox = Sender::recover(OutboxLimits::default(), attempt, marks, 1, lagging);
        let ids = effects(&mut outbox).into_iter().map(|effect| match effect {
            Effect::Read { id, .. } => id,
            Effect::Return { .. } => panic!("nothing comes back"),
        });
        let ids: Vec<ReadId> = ids.collect();
        (outbox, ids)
    };
    let ((one, ids), (mut other, same)) = (new(1), new(2));
    assert_eq!(ids, same);
    assert_ne!(
        one.last_attempt().number() >> 32,
        other.last_attempt().number() >> 32
    );
    // Nothing for somebody else, and so nothing for this destination.
    let page = Page {
        entries: Vec::new(),
        through: place(6),
    };
    other.handle_page(ids[1], Some(&page), Moment::ZERO, Timestamp::from_millis(0));
    assert!(
        other.is_settled(place(3), 1),
        "the entry that waits for it is passed over"
    );
}
