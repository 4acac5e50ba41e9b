//! What is asked of rooms, and what their pages come to, at the edges of each.

use super::*;

fn following(rooms: &[&'static str], number: u64, is_caught_up: bool) -> Followed<&'static str> {
    let mut session = Followed::new(FollowLimits::default());
    for room in rooms {
        session.follow(*room, place(number), is_caught_up);
    }
    session
}

fn next(session: &mut Followed<&'static str>) -> Option<(&'static str, Place)> {
    let pull = session.poll_pull(at(0))?;
    Some((pull.room, pull.after))
}

/// A room is asked if its log goes further than what the session has, once, and only that room.
#[test]
fn a_room_whose_log_goes_further_is_asked() {
    for (number, is_asked) in [(4, false), (5, false), (6, true)] {
        let mut session = following(&[ROOM, OTHER], 5, true);
        session.reaches(&OTHER, place(number));
        let wanted = is_asked.then_some((OTHER, place(5)));
        assert_eq!(next(&mut session), wanted, "{number}");
    }
    let mut session = following(&[ROOM], 5, false);
    assert_eq!(next(&mut session), Some((ROOM, place(5))));
    session.reaches(&ROOM, place(9));
    assert_eq!(next(&mut session), None, "it has not answered");
}

/// A page is the last one if the room says so, and nothing further is known of.
#[test]
fn a_room_is_asked_until_its_end_is_known() {
    for (is_end, through, is_asked) in [
        (true, 7, false),
        (true, 8, false),
        (true, 6, true),
        (false, 7, true),
    ] {
        let mut session = following(&[ROOM, OTHER], 5, true);
        session.reaches(&ROOM, place(7));
        let id = session.poll_pull(at(0)).expect("it is behind").id;
        let page = RoomPage {
            id,
            places: Vec::new(),
            through: place(through),
            is_end,
        };
        assert_eq!(session.page(&ROOM, &page, count(1)), []);
        let wanted = is_asked.then_some((ROOM, place(through)));
        assert_eq!(next(&mut session), wanted, "{is_end} {through}");
    }
}

/// Of a page a session is given what it has not, with one count after the other; none of it is
/// acknowledged before it is written.
#[test]
fn a_page_is_counted_from_the_next_stanza_on() {
    let mut session = following(&[OTHER, ROOM], 5, true);
    session.reaches(&ROOM, place(8));
    let page = RoomPage {
        id: session.poll_pull(at(0)).expect("it is behind").id,
        places: [4, 5, 6, 8].map(place).to_vec(),
        through: place(8),
        is_end: true,
    };
    assert_eq!(session.page(&ROOM, &page, count(3)), [place(6), place(8)]);
    let counts = |session: &Followed<&str>| session.in_flight().collect::<Vec<_>>();
    assert_eq!(counts(&session), [count(3), count(4)]);
    assert!(!session.acknowledge(count(4)), "nothing was written");
    session.sent();
    assert!(!session.acknowledge(count(2)));
    assert!(session.acknowledge(count(4)));
    assert_eq!(counts(&session), [count(4)], "that was not written");
    let acked = session.acked(&ROOM);
    assert_eq!(
        (acked, session.acked(&OTHER)),
        (Some(place(7)), Some(place(5)))
    );
}

/// Rooms wait for the client if the window is full, and one of them has more.
#[test]
fn only_a_full_window_waits_for_the_client() {
    let full = |is_other_behind: bool| {
        let mut session = Followed::new(limits(1, 1));
        session.follow(ROOM, place(5), true);
        session.follow(OTHER, place(5), !is_other_behind);
        let copied = session.copy(&ROOM, (place(6), place(5)), Some(count(1)));
        assert_eq!(copied, GIVEN);
        session.sent();
        session
    };
    assert!(!full(false).waits_for_client(), "nobody has more");
    let mut session = full(true);
    assert!(session.waits_for_client());
    assert!(session.acknowledge(count(1)));
    assert!(!session.waits_for_client(), "there is room");
}

/// A session goes on at a home that began anew: what was not written was not given, and all rooms
/// are asked, without a pause.
#[test]
fn what_was_not_written_is_read_again_at_a_new_home() {
    let mut session = following(&[ROOM, OTHER], 5, true);
    for (number, sent) in [(6, 1), (7, 2)] {
        let copy = (place(number), place(number - 1));
        assert_eq!(session.copy(&ROOM, copy, Some(count(sent))), GIVEN);
    }
    session.sent();
    session.failed_at = Some(at(0));
    session.adopted();
    assert_eq!(session.in_flight().collect::<Vec<_>>(), [count(1)]);
    assert_eq!(next(&mut session), Some((ROOM, place(6))));
    assert_eq!(next(&mut session), Some((OTHER, place(5))));
}

/// Copies of a room, one after the other, each written and acknowledged: how many have a record.
fn recorded_of(
    session: &mut Followed<&'static str>,
    numbers: std::ops::RangeInclusive<u32>,
) -> usize {
    let recorded = numbers.filter(|number| {
        let at = u64::from(*number);
        let copied = session.copy(&ROOM, (place(at), place(at - 1)), Some(count(*number)));
        session.sent();
        session.acknowledge(count(*number));
        assert!(copied == GIVEN || copied == Copied::Foreseen);
        copied == GIVEN
    });
    recorded.count()
}

/// Of a thousand copies in a row 22 have a record; whatever comes in between, the next row begins
/// anew, and one more record says that the counts are free.
#[test]
fn few_copies_of_a_row_have_a_record() {
    let mut session = following(&[ROOM, OTHER], 0, true);
    assert_eq!(recorded_of(&mut session, 1..=1_000), 22);
    assert!(session.is_ahead() && session.has_said(count(1_001)));
    assert_eq!(session.cut(), Some(ROOM));
    assert!(session.is_unsure() && !session.has_said(count(1_001)));
    assert_eq!(session.change(&ROOM).given, []);
    session.settled();
    assert_eq!(session.cut(), None, "nothing was said since");
    assert_eq!(recorded_of(&mut session, 1_001..=1_003), 3);
    assert_eq!(session.cut(), None, "nothing is said of so few");
    assert!(!session.is_unsure());
}

/// A copy of another room has a count that was said, and one behind a gap of the log has another
/// place: both need the room's record anew.
#[test]
fn a_copy_that_was_not_foreseen_ends_a_row() {
    let mut session = following(&[ROOM, OTHER], 0, true);
    assert_eq!(recorded_of(&mut session, 1..=4), 4);
    let copied = session.copy(&OTHER, (place(9), place(0)), Some(count(5)));
    assert_eq!(copied, Copied::Given { cut: Some(ROOM) });
    assert_eq!(session.change(&ROOM).given, []);
    assert_eq!(session.change(&OTHER).given, [(count(5), place(9))]);
    let mut session = following(&[ROOM], 0, true);
    assert_eq!(recorded_of(&mut session, 1..=4), 4);
    let copied = session.copy(&ROOM, (place(6), place(4)), Some(count(5)));
    assert_eq!(copied, Copied::Given { cut: Some(ROOM) });
    assert_eq!(session.change(&ROOM).given, [(count(5), place(6))]);
}

/// The next copies of a row, none of which is written yet: which of them have a record.
fn given(session: &mut Followed<&'static str>, numbers: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    let has_record = |number: &u64| {
        let copy = (place(*number), place(number - 1));
        session.copy(&ROOM, copy, Some(count(*number as u32))) == GIVEN
    };
    numbers.filter(has_record).collect()
}

/// What waits in a row does not depend on a record behind the one that is committed, and nothing
/// else is written while a record may have its count.
#[test]
fn a_row_depends_on_the_record_that_says_it_ahead() {
    let mut session = following(&[ROOM], 0, true);
    assert_eq!(given(&mut session, 1..=3), [1, 2, 3]);
    assert_eq!((session.founded(), session.is_ahead()), (0, false));
    assert_eq!(given(&mut session, 4..=5), [4]);
    for written in 1..=3 {
        assert_eq!((session.founded(), session.is_ahead()), (0, true));
        session.sent();
        assert!(session.has_in_flight(), "{written} are written");
    }
    assert_eq!(session.founded(), 0, "the fourth has a record of its own");
    session.sent();
    assert_eq!((session.founded(), session.is_ahead()), (1, true));
    assert_eq!(given(&mut session, 6..=8), [8]);
    assert_eq!((session.founded(), session.is_ahead()), (3, true));
    let said = [5, 8, 9, 15, 16].map(|number| session.has_said(count(number)));
    assert_eq!(said, [false, false, true, true, false]);
}

/// A row ends: it is not known what of it is recorded if something is said ahead, or was while what
/// is not written could still be refused.
#[test]
fn a_row_that_ends_leaves_a_doubt_while_something_waits() {
    let ended = |session: &Followed<&'static str>| {
        let mut session = session.clone();
        (session.cut(), session.is_unsure())
    };
    let mut session = following(&[ROOM, OTHER], 0, true);
    given(&mut session, 1..=3);
    assert_eq!(ended(&session), (None, false), "nothing was said");
    // The eighth says nothing: it is not known that what the fourth said is committed.
    assert_eq!(given(&mut session, 4..=8), [4, 8]);
    assert_eq!(ended(&session), (None, true));
    (1..=7).for_each(|_| session.sent());
    assert!(!session.is_ahead(), "all that was said is written");
    assert_eq!(ended(&session), (None, true));
    session.sent();
    assert_eq!(ended(&session), (None, false));
    assert_eq!(given(&mut session, 9..=9), [9]);
    assert_eq!(ended(&session), (Some(ROOM), true));
}

/// Who leaves a room takes back what was said of it, and of no other.
#[test]
fn who_leaves_a_room_ends_its_row_alone() {
    let mut session = following(&[ROOM, OTHER], 0, true);
    assert_eq!(recorded_of(&mut session, 1..=4), 4);
    assert!(session.leave(&OTHER) && session.has_said(count(5)));
    assert!(session.leave(&ROOM) && !session.has_said(count(5)));
}

/// An append fails while copies of a row wait that an earlier record said ahead. They are taken
/// back, but the record stays: it still names their counts, with the places that it always had.
#[test]
fn what_a_committed_record_says_ahead_outlives_an_append_that_failed() {
    let mut session = following(&[ROOM], 0, true);
    assert_eq!(recorded_of(&mut session, 1..=4), 4);
    assert_eq!(given(&mut session, 5..=6), [], "both were said ahead");
    session.failed(at(0));
    assert_eq!(session.in_flight().count(), 0);
    let said = [5, 6, 7].map(|n| (count(n), place(n.into())));
    assert_eq!(session.change(&ROOM).given, said);
    let said = [4, 5, 7, 8].map(|number| session.has_said(count(number)));
    assert_eq!(said, [false, true, true, false]);
    assert_eq!(session.cut(), Some(ROOM));
}

/// An append fails that has all of a row, with what the row said ahead, and maybe a copy in front
/// of it: nothing is recorded of the row, so that anything may have its counts.
#[test]
fn of_a_row_that_failed_nothing_is_said() {
    for (has_copy_in_front, last) in [(false, 3), (false, 5), (true, 3), (true, 5)] {
        let mut session = following(&[OTHER, ROOM], 0, true);
        if has_copy_in_front {
            let copied = session.copy(&OTHER, (place(1), place(0)), Some(count(0)));
            assert_eq!(copied, GIVEN);
        }
        given(&mut session, 1..=last);
        session.failed(at(0));
        assert!(!session.is_ahead() && !session.has_said(count(1)));
        assert_eq!((session.cut(), session.is_unsure()), (None, false));
    }
}

/// A client that resumes makes a room's record void if that says counts behind what the client
/// has: they are given out anew. Of other rooms, and of what the client has, nothing is void.
#[test]
fn a_resumption_voids_what_was_said_behind_it() {
    for (last, voids_room) in [(3, false), (4, true), (6, true), (7, false)] {
        let mut session = following(&[OTHER, ROOM], 0, true);
        recorded_of(&mut session, 1..=last);
        let void = session.resume(count(last));
        let wanted: &[&str] = if voids_room { &[ROOM] } else { &[] };
        assert_eq!(void, wanted, "{last}");
    }
}

/// A client hears early that it should say what it has: when half of its window is full.
#[test]
fn a_client_is_asked_at_half_of_its_window() {
    for (window, half) in [(1, 1), (6, 3), (7, 4)] {
        let mut session = Followed::new(limits(window, 1));
        session.follow(ROOM, place(0), true);
        for number in 1..=window as u64 {
            let is_half = number > half;
            assert_eq!(session.should_ask(), is_half, "{number} of {window}");
            given(&mut session, number..=number);
        }
        assert!(session.should_ask());
    }
}

/// What was said ahead is read in the log after a kill, from the first that was not written; and
/// the log is not taken to go as far.
#[test]
fn what_was_said_ahead_is_not_there_yet() {
    let mut session = following(&[ROOM], 0, true);
    assert_eq!(recorded_of(&mut session, 1..=4), 4);
    let recorded = session.change(&ROOM);
    assert_eq!(
        recorded.given,
        [5, 6, 7].map(|n| (count(n), place(n.into())))
    );
    let mut session: Followed<&str> = Followed::new(FollowLimits::default());
    session.recover(ROOM, &recorded);
    assert_eq!(session.resume(count(5)), [ROOM]);
    session.resumed();
    let pull = session.poll_pull(at(0)).expect("it is behind");
    assert_eq!(pull.after, place(5));
    let page = RoomPage {
        id: pull.id,
        places: Vec::new(),
        through: place(5),
        is_end: true,
    };
    assert_eq!(session.page(&ROOM, &page, count(6)), []);
    assert_eq!(session.poll_pull(at(0)), None, "it has all");
}
