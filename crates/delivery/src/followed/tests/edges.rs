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
