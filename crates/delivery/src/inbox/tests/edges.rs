//! Who may be managed, what an acknowledgement moves, and what of a session passes to the next
//! connection or the next life, at the edges of each.

use super::*;

const OTHER: SessionNumber = SessionNumber::new(2);

fn phone(inbox: &mut Inbox<u8>) -> &mut Session<u8> {
    inbox.sessions.get_mut(PHONE).expect("it is there")
}

fn for_account(number: u64, count: u32) -> InFlight {
    InFlight {
        is_for_account: true,
        ..in_flight(number, count, 10)
    }
}

/// Managed sessions, and those that left something, have places; others take none.
#[test]
fn so_many_sessions_may_be_managed() {
    let may = |max, change: fn(&mut Inbox<u8>)| {
        let mut inbox = inbox();
        let mut limits = limits();
        limits.sessions_max = max;
        inbox.limits = Arc::new(limits);
        change(&mut inbox);
        inbox.may_manage()
    };
    assert!(!may(1, |_| {}) && may(2, |_| {}) && may(3, |_| {}));
    assert!(may(2, |own| own.open(OTHER, Kind::Plain, 2)));
    assert!(!may(2, |own| own.open(OTHER, Kind::Managed, 2)));
    let leave = |own: &mut Inbox<u8>| {
        own.ended.parts.push(Left {
            session: OTHER,
            after: place(6),
            unacked: Vec::new(),
        });
    };
    assert!(!may(2, leave) && may(3, leave));
}

/// A session was there for what was appended after it began. If those appends fail, what comes in
/// their places comes after it too; nobody was there who is not known.
#[test]
fn a_session_was_there_for_what_came_after_it() {
    let was_there =
        |inbox: &Inbox<u8>| [5, 6, 7].map(|number| inbox.was_there(OTHER, place(number)));
    let mut inbox = inbox();
    assert_eq!(was_there(&inbox), [false, false, false]);
    inbox.open(OTHER, Kind::Managed, 2);
    assert_eq!(was_there(&inbox), [false, false, true]);
    inbox.failed(place(5), (place(5), (0, 0)), Moment::ZERO);
    assert_eq!(was_there(&inbox), [false, true, true]);
}

/// A session that ends leaves something if the log goes further than what it has; else its record
/// goes.
#[test]
fn a_session_that_has_everything_leaves_nothing() {
    let ends = |read, unacked: Option<(u64, bool)>| {
        let mut inbox = inbox();
        let own = phone(&mut inbox);
        own.read = place(read);
        own.flight
            .extend(unacked.map(|(number, is_addressed)| InFlight {
                is_addressed,
                ..in_flight(number, 1, 0)
            }));
        inbox.end(PHONE);
        let left = inbox.ended.parts.iter().map(|part| part.unacked.len());
        (left.collect::<Vec<_>>(), inbox.ended.removed.len())
    };
    assert_eq!(ends(6, None), (vec![], 1));
    assert_eq!(ends(5, None), (vec![0], 0));
    assert_eq!(ends(6, Some((6, true))), (vec![1], 0));
    assert_eq!(
        ends(6, Some((6, false))),
        (vec![], 1),
        "it is the account's"
    );
}

/// An entry that a session of before has in its window is held by it on the list, and no other.
#[test]
fn who_had_a_listed_entry_holds_it() {
    let session = |session, number| RecoveredSession {
        session,
        read: place(6),
        is_taker: true,
        backlog: None,
        given: vec![RecoveredEntry {
            place: place(number),
            count: Some(Count::new(1)),
            bytes: 1,
            is_for_account: false,
            is_addressed: false,
        }],
    };
    let stored = StoredAccount {
        mark: place(6),
        recorded: place(6),
        last: place(6),
        waiting: (0, 0),
        listed: &[place(2), place(4), place(6)],
    };
    let sessions = [session(PHONE, 4), session(OTHER, 2)];
    let limits = Arc::new(InboxLimits::default());
    let inbox: Inbox<u8> = Inbox::recover(limits, place(6), &stored, &sessions, Vec::new());
    let held = inbox.account.listed.iter().map(|listed| listed.held_by);
    assert_eq!(held.collect::<Vec<_>>(), [Some(OTHER), Some(PHONE), None]);
}

/// What is acknowledged leaves the list, or moves the account's mark by what is behind that.
#[test]
fn an_acknowledgement_moves_the_mark() {
    let acknowledged = |takes: bool, h: u32| {
        let mut inbox = inbox();
        inbox.appended = place(9);
        (inbox.account.mark, inbox.account.last) = (place(6), place(9));
        inbox.account.waiting = (3, 30);
        let own = phone(&mut inbox);
        own.flight = VecDeque::from([
            in_flight(2, 1, 10),
            for_account(6, 2),
            for_account(7, 3),
            for_account(8, 4),
            for_account(9, 5),
        ]);
        (own.flight_bytes, own.written, own.read) = (50, Count::new(5), place(9));
        if takes {
            own.taking = Taking::Now;
        }
        inbox
            .acknowledge(PHONE, Count::new(h))
            .expect("it was sent");
        let listed: Vec<u64> = inbox.account.places().map(Place::number).collect();
        (inbox.mark().number(), inbox.account.waiting, listed)
    };
    assert_eq!(acknowledged(true, 0), (6, (3, 30), vec![2, 6]));
    assert_eq!(acknowledged(true, 1), (6, (3, 30), vec![6]));
    assert_eq!(
        acknowledged(true, 2),
        (6, (3, 30), vec![6]),
        "it is the account's"
    );
    assert_eq!(acknowledged(true, 4), (8, (1, 10), vec![6]));
    assert_eq!(acknowledged(true, 5), (9, (0, 0), vec![6]));
    assert_eq!(
        acknowledged(false, 5),
        (6, (3, 30), vec![6]),
        "it takes none"
    );
    // More than it was sent.
    let mut inbox = inbox();
    let sent = Count::new(0);
    assert_eq!(
        inbox.acknowledge(PHONE, Count::new(1)),
        Err(TooHigh { sent })
    );
    assert_eq!(
        inbox.acknowledge(OTHER, Count::new(1)),
        Ok(()),
        "it is gone"
    );
}

/// A mark that follows from what sessions acknowledged is recorded once it is `mark_every` places
/// ahead of what is recorded, and as it is: what is behind it still waits.
#[test]
fn a_mark_that_is_far_ahead_is_recorded_as_it_is() {
    let recorded = |ahead: u64| {
        let mut inbox = inbox();
        let mut limits = limits();
        limits.mark_every = 2;
        inbox.limits = Arc::new(limits);
        (inbox.account.last, inbox.appended) = (place(9), place(9));
        (inbox.account.mark, inbox.account.recorded) = (place(8), place(8 - ahead));
        inbox.account.has_changed = false;
        phone(&mut inbox).is_ack_due = true;
        let changes = inbox.take_changes().expect("something is acknowledged");
        changes.account.map(|account| account.mark)
    };
    let far = Some(place(8));
    assert_eq!([1, 2, 3].map(recorded), [None, far, far]);
}

/// A mark that nothing recorded says anything of is recorded: that of a client which counts
/// nothing, or of a session that began behind what is recorded.
#[test]
fn a_mark_that_does_not_follow_is_recorded() {
    let is_due = |kind, began, read| {
        let mut inbox = inbox();
        (inbox.account.recorded, inbox.account.mark) = (place(4), place(4));
        (inbox.account.last, inbox.account.has_changed) = (place(6), false);
        let own = phone(&mut inbox);
        (own.kind, own.began, own.taking) = (kind, place(began), Taking::Now);
        own.read = place(read);
        inbox.advance_account(PHONE, (0, 0));
        (inbox.account.mark.number(), inbox.account.has_changed)
    };
    assert_eq!(is_due(Kind::Managed, 4, 6), (6, false));
    assert_eq!(is_due(Kind::Managed, 5, 6), (6, true));
    assert_eq!(is_due(Kind::Plain, 4, 6), (6, true));
    assert_eq!(is_due(Kind::Plain, 4, 4), (4, false), "it has not moved");
}

/// What waits is nothing if the mark is at the last entry, whatever was counted; the list waits
/// beside it. Nothing is owed in front of the first of all that is.
#[test]
fn what_waits_is_behind_the_mark() {
    let waiting = |mark, last| {
        let mut inbox = inbox();
        (inbox.account.mark, inbox.account.last) = (place(mark), place(last));
        inbox.account.waiting = (3, 30);
        (inbox.waiting(), inbox.floor().number())
    };
    assert_eq!(waiting(4, 6), ((5, 30), 1));
    assert_eq!(waiting(6, 6), ((2, 0), 1));
    let floor = |change: fn(&mut Inbox<u8>)| {
        let mut inbox = inbox();
        inbox.account.listed.clear();
        change(&mut inbox);
        inbox.floor().number()
    };
    assert_eq!(floor(|_| {}), 6);
    assert_eq!(floor(|own| phone(own).read = place(5)), 5);
    assert_eq!(floor(|own| own.account.mark = place(4)), 4);
    assert_eq!(
        floor(|own| (own.account.mark, own.account.last) = (place(4), place(4))),
        6
    );
    assert_eq!(floor(|own| own.account.list(place(3), None)), 2);
    assert_eq!(
        floor(|own| phone(own).flight.push_back(in_flight(5, 1, 0))),
        4
    );
    assert_eq!(
        floor(|own| own.ended.parts.push(Left {
            session: OTHER,
            after: place(5),
            unacked: vec![place(2)],
        })),
        1
    );
    let mut inbox = inbox();
    phone(&mut inbox).flight.push_back(in_flight(3, 1, 0));
    assert_eq!((inbox.in_flight(PHONE), inbox.in_flight(OTHER)), (1, 0));
    assert_eq!(
        (inbox.listed(), inbox.mark(), inbox.appended()),
        (2, place(6), place(6))
    );
}

/// Of its backlog a session is given what is behind everybody's mark, and where a page has left.
#[test]
fn a_backlog_ends_where_somebody_has_it() {
    let backlog = |own: &Session<u8>| {
        let own = own.backlog;
        own.map(|own| (own.next.number(), own.end.number()))
    };
    let skipped = |mark| {
        let mut own = session();
        own.skip(place(mark));
        backlog(&own)
    };
    assert_eq!(skipped(1), Some((2, 6)));
    assert_eq!(skipped(4), Some((4, 6)));
    assert_eq!((skipped(5), skipped(6)), (Some((5, 6)), None));
    let advanced = |through: Option<u64>, is_of_backlog| {
        let mut own = session();
        own.advance(&session::Giving {
            through: through.map(place),
            is_of_backlog,
            places: Vec::new(),
            of_account: Vec::new(),
        });
        (own.read.number(), backlog(&own))
    };
    assert_eq!(advanced(Some(6), true), (6, None));
    assert_eq!(advanced(Some(4), true), (5, Some((4, 6))));
    assert_eq!(advanced(Some(6), false), (6, Some((2, 6))));
    assert_eq!(
        advanced(None, true),
        (5, Some((2, 6))),
        "it was of the list"
    );
    let later = |start: Option<(u64, u64)>| {
        let mut own = session();
        own.backlog = start.map(|(next, end)| Backlog {
            next: place(next),
            end: place(end),
        });
        own.take_later(place(9), place(7));
        backlog(&own)
    };
    assert_eq!(
        (later(Some((2, 6))), later(None)),
        (Some((2, 9)), Some((7, 9)))
    );
}

/// Only what the log has up to its end stays in flight when an append fails.
#[test]
fn what_was_not_appended_is_not_in_flight() {
    let kept = |tail| {
        let mut own = session();
        (own.pending_entries, own.backlog) = (2, None);
        own.failed(place(tail));
        (own.flight.len(), own.pending_entries, own.read.number())
    };
    assert_eq!((kept(5), kept(4)), ((2, 2, 5), (2, 2, 4)));
    assert_eq!((kept(3), kept(2)), ((1, 1, 3), (0, 0, 2)));
    // What somebody else appended names nobody: who takes messages reads it.
    let behind = |takes: bool, before| {
        let mut inbox = inbox();
        inbox.appended = place(before);
        let own = phone(&mut inbox);
        own.read = place(before);
        if takes {
            own.taking = Taking::Now;
        }
        inbox.failed(place(6), (place(6), (0, 0)), Moment::ZERO);
        phone(&mut inbox)
            .backlog
            .map(|own| (own.next.number(), own.end.number()))
    };
    assert_eq!((behind(true, 5), behind(true, 6)), (Some((5, 6)), None));
    assert_eq!((behind(true, 7), behind(false, 5)), (None, None));
}

/// A client that is back says what it has: of an earlier life each entry by its count; else all up
/// to there. The rest is counted anew.
#[test]
fn a_client_that_is_back_is_owed_the_rest() {
    let resumed = |is_recovered, h, counts: &[u32]| {
        let mut own = session();
        own.flight.push_back(InFlight {
            count: None,
            ..in_flight(5, 0, 40)
        });
        (own.flight_bytes, own.is_recovered) = (70, is_recovered);
        let counts = counts.iter().map(|count| Count::new(*count));
        let acked = own
            .resume(Count::new(h), Count::new(9), counts)
            .map(|acked| acked.len());
        let flight = own.flight.iter();
        let flight = flight.map(|entry| (entry.place.number(), entry.count.map(Count::number)));
        let flight: Vec<_> = flight.collect();
        (acked, flight, own.is_list_due, own.flight_bytes)
    };
    let all = vec![(4, Some(2)), (5, Some(3))];
    assert_eq!(resumed(true, 1, &[2, 3]), (Ok(1), all.clone(), true, 60));
    assert_eq!(resumed(false, 1, &[2, 3]), (Ok(1), all, true, 60));
    let two = vec![(5, Some(8))];
    assert_eq!(resumed(true, 2, &[8]), (Ok(2), two.clone(), true, 40));
    assert_eq!(
        resumed(true, 7, &[8]),
        (Ok(2), two, true, 40),
        "it has all with counts"
    );
    let sent = Count::new(2);
    let (acked, flight, is_due, _) = resumed(false, 3, &[8]);
    assert_eq!(
        (acked, flight.len(), is_due),
        (Err(TooHigh { sent }), 3, false)
    );
    // Counts that stay need not be recorded.
    let mut own = session();
    let counts = [1, 2].map(Count::new);
    let acked = own.resume(Count::new(0), Count::new(2), counts);
    assert_eq!(acked.map(|acked| acked.len()), Ok(0));
    assert!(!own.is_list_due && own.is_ack_due && own.written == Count::new(2));
}

/// A connection that outlived the home was written some of it, and acknowledged some of that.
#[test]
fn a_session_is_adopted_with_what_it_was_written() {
    let mut own = session();
    for (number, count) in [(5, 3), (6, 4)] {
        own.flight.push_back(in_flight(number, count, 1));
    }
    own.flight.push_back(InFlight {
        count: None,
        ..in_flight(7, 0, 1)
    });
    (own.flight_bytes, own.is_recovered) = (33, true);
    let acked = own.adopt(Count::new(1), Count::new(3));
    assert_eq!(
        acked.iter().map(|entry| entry.place).collect::<Vec<_>>(),
        [place(3)]
    );
    let flight = own.flight.iter();
    let flight = flight.map(|entry| (entry.place.number(), entry.count.map(Count::number)));
    let all: Vec<_> = flight.collect();
    assert_eq!(
        all,
        [(4, Some(2)), (5, Some(3)), (6, Some(4)), (7, Some(5))]
    );
    assert_eq!((own.written, own.flight_bytes), (Count::new(5), 23));
    assert!(!own.is_recovered && own.is_list_due && own.is_ack_due);
}

/// A session belongs to the connection that asked last: only that one is answered, once.
#[test]
fn only_who_asked_last_resumes_a_session() {
    let mut inbox = inbox();
    let own = phone(&mut inbox);
    own.flight = VecDeque::from([in_flight(3, 1, 0), in_flight(4, 2, 0)]);
    (own.written, own.read) = (Count::new(2), place(6));
    let effects =
        |inbox: &mut Inbox<u8>| std::iter::from_fn(|| inbox.poll_effect()).collect::<Vec<_>>();
    inbox.resume(PHONE, 2);
    let again = |link| Effect::ReadAgain {
        session: PHONE,
        link,
    };
    assert_eq!(effects(&mut inbox), [Effect::Cut(1), again(2)]);
    inbox.resume(PHONE, 3);
    let why = Failure::Conflict;
    assert_eq!(
        effects(&mut inbox),
        [Effect::Fail { link: 2, why }, again(3)]
    );
    inbox.resume(OTHER, 4);
    let why = Failure::Unknown;
    assert_eq!(effects(&mut inbox), [Effect::Fail { link: 4, why }]);
    let owed = |inbox: &Inbox<u8>, session, h| inbox.unacknowledged(session, Count::new(h)).count();
    assert_eq!([0, 1, 2].map(|h| owed(&inbox, PHONE, h)), [2, 1, 0]);
    assert_eq!(owed(&inbox, OTHER, 0), 0);
    let counts = (Count::new(1), Count::new(2));
    let resent =
        |inbox: &mut Inbox<u8>, link| inbox.handle_resent(PHONE, link, counts, [Count::new(2)]);
    assert_eq!(resent(&mut inbox, 2), Ok(false), "it was answered");
    assert_eq!(inbox.in_flight(PHONE), 2);
    inbox.not_resumed(PHONE, 2);
    assert_eq!(effects(&mut inbox), [], "it was answered");
    assert_eq!(resent(&mut inbox, 3), Ok(true));
    assert_eq!(inbox.in_flight(PHONE), 1);
    assert!(!inbox.resumed(PHONE, 2) && !inbox.is_live(PHONE));
    assert!(inbox.resumed(PHONE, 3) && inbox.link(PHONE) == Some(Link::Attached(3)));
    assert!(!inbox.resumed(PHONE, 3), "once");
    inbox.resume(PHONE, 5);
    effects(&mut inbox);
    inbox.not_resumed(PHONE, 5);
    let why = Failure::Unread;
    assert_eq!(effects(&mut inbox), [Effect::Fail { link: 5, why }]);
    assert_eq!(inbox.link(PHONE), Some(Link::Detached));
}
