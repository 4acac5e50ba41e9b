//! What the explorations rely on: that each relation of an inbox is noticed when it does not hold;
//! and what sessions and the account say of themselves.

mod edges;
mod pages;
mod parts;
mod recovery;

use super::*;
use session::{Backlog, Taking};

const PHONE: SessionNumber = SessionNumber::new(1);

fn place(number: u64) -> Place {
    Place::new(number)
}

fn limits() -> InboxLimits {
    InboxLimits {
        window: 2,
        window_bytes: 1_000,
        page: 2,
        listed_max: 2,
        ..InboxLimits::default()
    }
}

fn in_flight(number: u64, count: u32, bytes: u32) -> InFlight {
    InFlight {
        place: place(number),
        count: Some(Count::new(count)),
        bytes,
        is_for_account: false,
        is_addressed: false,
    }
}

/// Two entries in flight, and a backlog.
fn session() -> Session<u8> {
    let mut own = Session::new(Kind::Managed, 7, place(5));
    own.flight = VecDeque::from([in_flight(3, 1, 10), in_flight(4, 2, 20)]);
    own.flight_bytes = 30;
    own.written = Count::new(2);
    own.backlog = Some(Backlog {
        next: place(2),
        end: place(6),
    });
    own
}

fn is_sound_after(change: impl FnOnce(&mut Session<u8>)) -> bool {
    let mut own = session();
    change(&mut own);
    own.is_consistent(place(6), &limits())
}

#[test]
fn each_relation_of_a_session_is_looked_at() {
    assert!(is_sound_after(|_| {}));
    assert!(is_sound_after(|own| own.read = place(6)));
    assert!(!is_sound_after(|own| own.read = place(7)));
    assert!(!is_sound_after(|own| own.flight.swap(0, 1)));
    let wait = |own: &mut Session<u8>, written, pending| {
        (own.written, own.pending_entries) = (Count::new(written), pending);
    };
    assert!(is_sound_after(|own| wait(own, 0, 2)));
    assert!(!is_sound_after(|own| wait(own, 0, 3)));
    assert!(!is_sound_after(|own| own.flight_bytes = 31));
    // The last count is one of those that were given out.
    assert!(is_sound_after(|own| wait(own, 1, 0)));
    assert!(!is_sound_after(|own| wait(own, 0, 0)));
    assert!(is_sound_after(|own| {
        wait(own, 0, 0);
        own.is_recovered = true;
    }));
    // More than the window only of an earlier life.
    let add = |own: &mut Session<u8>| {
        own.flight.push_back(in_flight(5, 3, 0));
        own.written = Count::new(3);
    };
    assert!(!is_sound_after(add));
    assert!(is_sound_after(|own| {
        add(own);
        own.has_list = true;
    }));
    assert!(!is_sound_after(|own| own.kind = Kind::Plain));
    assert!(is_sound_after(|own| {
        own.kind = Kind::Plain;
        own.flight.clear();
        own.flight_bytes = 0;
    }));
    let backlog = |next, end| {
        move |own: &mut Session<u8>| {
            own.backlog = Some(Backlog {
                next: place(next),
                end: place(end),
            });
        }
    };
    assert!(is_sound_after(backlog(5, 6)) && is_sound_after(|own| own.backlog = None));
    assert!(!is_sound_after(backlog(6, 6)) && !is_sound_after(backlog(6, 7)));
}

/// An account that is where the log ends, with a full list and one session.
fn inbox() -> Inbox<u8> {
    let stored = StoredAccount {
        mark: place(6),
        recorded: place(6),
        last: place(6),
        waiting: (0, 0),
        listed: &[place(2), place(6)],
    };
    let mut inbox = Inbox::recover(Arc::new(limits()), place(6), &stored, &[], Vec::new());
    inbox.open(PHONE, Kind::Managed, 1);
    inbox.account.listed[0].held_by = Some(PHONE);
    inbox
}

fn is_consistent_after(change: impl FnOnce(&mut Inbox<u8>)) -> bool {
    let mut inbox = inbox();
    change(&mut inbox);
    inbox.is_consistent()
}

#[test]
fn each_relation_of_an_inbox_is_looked_at() {
    assert!(is_consistent_after(|_| {}));
    assert!(!is_consistent_after(|own| own.account.mark = place(7)));
    assert!(!is_consistent_after(|own| own.account.last = place(7)));
    assert!(!is_consistent_after(|own| own.account.recorded = place(7)));
    assert!(!is_consistent_after(|own| own.account.listed.swap(0, 1)));
    assert!(!is_consistent_after(|own| {
        own.account.listed[1].place = place(2);
    }));
    assert!(!is_consistent_after(|own| {
        own.account.listed[1].held_by = Some(SessionNumber::new(9));
    }));
    assert!(!is_consistent_after(|own| {
        own.account.listed[1].place = place(7);
    }));
    assert!(!is_consistent_after(|own| own.account.list(place(4), None)));
    assert!(!is_consistent_after(|own| {
        let all = own.sessions.get_mut(PHONE);
        all.expect("it is there").read = place(7);
    }));
    let leave = |number| {
        move |own: &mut Inbox<u8>| {
            own.ended.parts.push(Left {
                session: SessionNumber::new(2),
                after: place(number),
                unacked: Vec::new(),
            });
        }
    };
    assert!(is_consistent_after(leave(6)));
    assert!(!is_consistent_after(leave(7)));
    let mut inbox = inbox();
    assert!(!inbox.has_left());
    leave(6)(&mut inbox);
    assert!(inbox.has_left());
}

/// Whose list is longer than the bound is no longer than a page.
#[test]
fn a_page_may_be_more_than_the_list() {
    assert!(is_consistent_after(|own| {
        let mut limits = limits();
        limits.listed_max = 1;
        own.limits = Arc::new(limits);
    }));
}

/// Who had much in flight gives the memory back once all is acknowledged, and not before.
#[test]
fn memory_of_a_window_is_given_back() {
    let mut own = Session::new(Kind::Managed, 7, Place::START);
    for number in 1..=100 {
        own.read = place(number);
        own.give(in_flight(number, 0, 1));
    }
    own.pending_entries = 0;
    own.written = Count::new(100);
    own.acknowledge(Count::new(99)).expect("it was sent");
    assert_eq!(own.flight.len(), 1);
    assert!(own.flight.capacity() >= 100, "it would be asked for again");
    own.acknowledge(Count::new(100)).expect("it was sent");
    assert_eq!((own.flight.len(), own.flight.capacity()), (0, 0));
    // A few cost nothing.
    own.give(in_flight(101, 0, 1));
    own.pending_entries = 0;
    own.written = Count::new(101);
    own.acknowledge(Count::new(101)).expect("it was sent");
    assert!((1..=4).contains(&own.flight.capacity()));
}

/// What of a page is for the account counts behind its mark.
#[test]
fn what_a_page_has_for_the_account_is_counted() {
    let giving = session::Giving {
        through: None,
        is_of_backlog: false,
        places: Vec::new(),
        of_account: vec![(place(2), 10), (place(3), 20), (place(5), 40)],
    };
    assert_eq!(giving.of_account_behind(place(2)), (2, 60));
    assert_eq!(giving.of_account_behind(place(1)), (3, 70));
    assert_eq!(giving.of_account_behind(place(5)), (0, 0));
}

/// A session says whether something is news, and who takes messages.
#[test]
fn who_takes_messages_is_said_once() {
    let mut inbox = inbox();
    assert!(!inbox.set_taker(PHONE, false) && !inbox.has_takers());
    assert!(inbox.set_taker(PHONE, true) && inbox.has_takers());
    assert!(!inbox.set_taker(PHONE, true));
    assert!(!inbox.set_taker(SessionNumber::new(9), true));
    assert!(inbox.set_taker(PHONE, false) && !inbox.has_takers());
    let own = inbox.sessions.get(PHONE).expect("it is there");
    assert_eq!(own.taking, Taking::Until(place(6)));
}

/// Whom an entry is for: each that it names, or one.
#[test]
fn an_entry_says_whose_full_address_it_is_for() {
    let (other, third) = (SessionNumber::new(2), SessionNumber::new(3));
    let mut to = Recipients {
        sessions: [PHONE, other].into_iter().collect(),
        ..Recipients::default()
    };
    let says = |to: &Recipients| [PHONE, other, third].map(|own| to.is_addressed_to(own));
    assert_eq!(says(&to), [false; 3]);
    to.addressee = Addressee::Session(other);
    assert_eq!(says(&to), [false, true, false]);
    to.addressee = Addressee::Each;
    assert_eq!(says(&to), [true, true, false]);
    to.is_for_account = true;
    assert_eq!(says(&to), [false; 3]);
}

/// An entry is owed until whoever it is for has it: the account, a session, or whoever has what an
/// ended one left.
#[test]
fn what_is_owed_is_known() {
    let mut inbox = inbox();
    inbox.account.listed.clear();
    inbox.account.mark = place(4);
    let to_all = Recipients {
        is_for_account: true,
        ..Recipients::default()
    };
    let nobody = Recipients::default();
    let to_phone = Recipients {
        sessions: [PHONE].into_iter().collect(),
        ..Recipients::default()
    };
    let owed = |inbox: &Inbox<u8>, to: &Recipients| {
        let all = (1..=6).filter(|number| inbox.owes(place(*number), to));
        all.collect::<Vec<u64>>()
    };
    let set_read = |inbox: &mut Inbox<u8>, number| {
        inbox.sessions.get_mut(PHONE).expect("it is there").read = place(number);
    };
    set_read(&mut inbox, 6);
    assert_eq!(owed(&inbox, &to_all), [5, 6]);
    assert_eq!(owed(&inbox, &nobody), [0; 0]);
    assert_eq!(owed(&inbox, &to_phone), [0; 0]);
    set_read(&mut inbox, 5);
    assert_eq!(
        (owed(&inbox, &to_phone), owed(&inbox, &nobody)),
        (vec![6], vec![])
    );
    let own = inbox.sessions.get_mut(PHONE).expect("it is there");
    own.flight.push_back(in_flight(3, 1, 0));
    assert_eq!(owed(&inbox, &to_phone), [3, 6]);
    assert_eq!(owed(&inbox, &nobody), [3]);
    inbox.account.list(place(2), None);
    assert_eq!(owed(&inbox, &nobody), [2, 3]);
    inbox.ended.parts.push(Left {
        session: SessionNumber::new(2),
        after: place(6),
        unacked: vec![place(1)],
    });
    assert_eq!(owed(&inbox, &nobody), [1, 2, 3]);
    assert_eq!(inbox.floor(), place(0));
}

/// What a session that ended left: what it had not acknowledged, and what is for its full address
/// behind that.
#[test]
fn what_is_left_is_known() {
    let left = Left {
        session: PHONE,
        after: place(5),
        unacked: vec![place(2), place(4)],
    };
    let to = |is_for_account, addressee| Recipients {
        is_for_account,
        addressee,
        ..Recipients::default()
    };
    let has = |to: &Recipients| {
        let all = (1..=7).filter(|number| left.has(place(*number), to));
        all.collect::<Vec<u64>>()
    };
    assert_eq!(has(&to(false, Addressee::Session(PHONE))), [2, 4, 6, 7]);
    assert_eq!(has(&to(false, Addressee::Nobody)), [2, 4]);
    assert_eq!(has(&to(true, Addressee::Session(PHONE))), [2, 4]);
    assert_eq!(left.floor(), place(1));
    let behind = |unacked: Vec<Place>, after| Left {
        unacked,
        after: place(after),
        ..left.clone()
    };
    assert_eq!(behind(Vec::new(), 5).floor(), place(5));
    assert_eq!(behind(vec![place(9)], 5).floor(), place(5));
}

/// What a session is to be given: what names it behind one place, and what is for the account
/// between two others.
#[test]
fn a_filter_has_edges() {
    let filter = |account: Option<(u64, u64)>| Filter::Session {
        session: PHONE,
        named_after: place(4),
        account: account.map(|(after, through)| (place(after), place(through))),
    };
    let wanted = |filter: Filter, is_for_account, is_named: bool| {
        let to = Recipients {
            is_for_account,
            sessions: is_named.then_some(PHONE).into_iter().collect(),
            ..Recipients::default()
        };
        let all = (1..=7).filter(|number| filter.is_wanted(place(*number), &to));
        all.collect::<Vec<u64>>()
    };
    assert_eq!(wanted(filter(Some((1, 6))), false, true), [5, 6, 7]);
    assert_eq!(wanted(filter(Some((1, 6))), true, true), [5, 6, 7]);
    assert_eq!(wanted(filter(Some((1, 3))), true, false), [2, 3]);
    assert_eq!(wanted(filter(None), true, false), [0; 0]);
    assert_eq!(wanted(filter(Some((1, 3))), false, false), [0; 0]);
}

/// Whether there is something to record, and whether that may wait.
#[test]
fn what_is_to_be_recorded_is_known() {
    let clean = || {
        let mut inbox = inbox();
        inbox.account.has_changed = false;
        inbox
    };
    let says = |change: fn(&mut Inbox<u8>)| {
        let mut inbox = clean();
        change(&mut inbox);
        (inbox.has_changes(), inbox.is_due())
    };
    fn phone(inbox: &mut Inbox<u8>) -> &mut Session<u8> {
        inbox.sessions.get_mut(PHONE).expect("it is there")
    }
    assert_eq!(says(|_| {}), (false, false));
    assert_eq!(says(|own| own.account.has_changed = true), (true, false));
    assert_eq!(says(|own| phone(own).is_list_due = true), (true, false));
    assert_eq!(says(|own| phone(own).is_ack_due = true), (true, false));
    assert_eq!(says(|own| own.ended.has_changed = true), (true, true));
    let remove = |own: &mut Inbox<u8>| own.ended.removed.push(SessionNumber::new(2));
    assert_eq!(says(remove), (true, true));
    let mut inbox = clean();
    remove(&mut inbox);
    inbox.read_again = Some(Moment::ZERO);
    assert!(!inbox.is_due(), "it could not be recorded");
}

/// A session whose record goes is named again by what is recorded after a failure, until all
/// appends that named it are decided.
#[test]
fn removed_sessions_are_known_until_that_is_durable() {
    let mut inbox = inbox();
    for number in [2, 3] {
        inbox.ended.removed.push(SessionNumber::new(number));
        assert!(inbox.take_changes().is_some());
    }
    inbox.changes_committed();
    assert_eq!((inbox.unconfirmed.len(), inbox.undecided), (2, 1));
    let mut failed = inbox.clone();
    failed.failed(place(6), (place(6), (0, 0)), Moment::ZERO);
    assert_eq!(failed.ended.removed.len(), 2);
    assert_eq!((failed.unconfirmed.len(), failed.undecided), (0, 0));
    inbox.changes_committed();
    assert_eq!((inbox.unconfirmed.len(), inbox.undecided), (0, 0));
}

/// One that has ended but for a page goes with the append that failed; others stay.
#[test]
fn who_was_over_goes_with_a_failure() {
    let mut inbox = inbox();
    let other = SessionNumber::new(2);
    inbox.open(other, Kind::Plain, 2);
    inbox.sessions.get_mut(other).expect("it is there").is_over = true;
    assert_eq!(inbox.sessions().collect::<Vec<_>>(), [PHONE]);
    inbox.failed(place(6), (place(6), (0, 0)), Moment::ZERO);
    assert_eq!((inbox.sessions.len(), inbox.sessions.at(0)), (1, PHONE));
}

/// What ended sessions left is read once at a time, as far as there is room, and not in a pause.
#[test]
fn what_is_left_is_read_when_it_may_be() {
    let leave = |change: fn(&mut Inbox<u8>)| {
        let mut inbox = inbox();
        inbox.account.listed.clear();
        inbox.ended.parts.push(Left {
            session: SessionNumber::new(2),
            after: place(3),
            unacked: Vec::new(),
        });
        change(&mut inbox);
        inbox.read_ended();
        match inbox.poll_effect() {
            Some(Effect::Read {
                wanted: Wanted::Log { limit, .. },
                ..
            }) => Some(limit),
            other => {
                assert_eq!(other, None);
                None
            }
        }
    };
    assert_eq!(leave(|_| {}), Some(2));
    assert_eq!(leave(|own| own.account.list(place(1), None)), Some(1));
    assert_eq!(
        leave(|own| {
            own.account.list(place(1), None);
            own.account.list(place(2), None);
        }),
        None
    );
    assert_eq!(leave(|own| own.read_again = Some(Moment::ZERO)), None);
    assert_eq!(
        leave(|own| own.ended.reading = Some((ReadId::default(), 1, place(6)))),
        None
    );
}

/// A client that counts nothing and takes messages for the account, and one that takes none yet.
const TAKER: SessionNumber = SessionNumber::new(2);
const OTHER: SessionNumber = SessionNumber::new(3);

/// An account that is where the log ends, with those two.
fn two_plain_sessions() -> Inbox<u8> {
    let mut inbox = inbox();
    inbox.account.listed.clear();
    inbox.open(TAKER, Kind::Plain, 2);
    inbox.open(OTHER, Kind::Plain, 3);
    assert!(inbox.set_taker(TAKER, true));
    inbox
}

/// The taker has to wait for a page: until that has come, it is given nothing else.
fn fall_behind(inbox: &mut Inbox<u8>) {
    inbox.sessions.get_mut(TAKER).expect("it is there").reading = Some(session::Reading {
        id: ReadId::default(),
        is_of_list: false,
        is_of_backlog: false,
    });
}

/// For the account, with copies for these.
fn to_account(copies: &[SessionNumber]) -> Recipients {
    Recipients {
        is_for_account: true,
        sessions: copies.iter().copied().collect(),
        ..Recipients::default()
    }
}

/// Reads the backlog of the one that took nothing, page by page, from a log whose entries up to
/// `last` are all for the account; returns what it is given.
fn read_backlog(inbox: &mut Inbox<u8>, last: u64) -> Vec<u64> {
    let consumer = Consumer::Session(OTHER);
    let mut all = Vec::new();
    while let Some(effect) = inbox.poll_effect() {
        let Effect::Read {
            id,
            consumer: own,
            wanted: Wanted::Log { after, limit, .. },
        } = effect
        else {
            panic!("only the log is read: {effect:?}");
        };
        if own != consumer {
            continue;
        }
        let wanted = (after.number() + 1..=last).take(limit);
        let entry = |number| Entry {
            place: place(number),
            to: to_account(&[]),
            bytes: 1,
        };
        let entries: Vec<Entry> = wanted.map(entry).collect();
        let through = entries.last().map_or(place(last), |entry| entry.place);
        let page = Page { entries, through };
        let given = inbox.handle_page(id, consumer, Some(&page), Moment::ZERO);
        // A page of which nothing is given has left already.
        if let Some(given) = given {
            let places = given.iter().map(|(at, _)| page.entries[*at].place.number());
            all.extend(places);
            inbox.page_committed(consumer);
        }
    }
    all
}

/// To a client that counts nothing and takes no messages for the account, a copy is written at
/// once, though another one has to wait for its page.
#[test]
fn a_copy_waits_for_nobody_elses_page() {
    let mut inbox = two_plain_sessions();
    let given = |inbox: &mut Inbox<u8>, number| {
        let (to, given) = inbox.append(place(number), to_account(&[OTHER]), 1);
        (to.is_for_account, given.to_vec())
    };
    let now = vec![(TAKER, Given::Uncounted), (OTHER, Given::Uncounted)];
    assert_eq!(given(&mut inbox, 7), (false, now));
    fall_behind(&mut inbox);
    let later = vec![(TAKER, Given::Later), (OTHER, Given::Uncounted)];
    assert_eq!(given(&mut inbox, 8), (true, later));
}

/// Goal: a client without stream management that has a message as a copy, while another one is
/// still to read it, is not given it again once it takes messages itself; what it has no copy of it
/// is given, and an append that failed is no copy.
#[test]
fn who_has_a_copy_is_not_given_it_again() {
    for fails in [false, true] {
        let mut inbox = two_plain_sessions();
        fall_behind(&mut inbox);
        let (_, given) = inbox.append(place(7), to_account(&[OTHER]), 1);
        assert_eq!(
            given[..],
            [(TAKER, Given::Later), (OTHER, Given::Uncounted)]
        );
        if fails {
            inbox.failed(place(6), (place(6), (0, 0)), Moment::ZERO);
            inbox.committed();
            fall_behind(&mut inbox);
            inbox.append(place(7), to_account(&[]), 1);
        }
        inbox.append(place(8), to_account(&[]), 1);
        inbox.detach(TAKER);
        assert!(inbox.set_taker(OTHER, true));
        assert_eq!(
            read_backlog(&mut inbox, 8),
            if fails { [7, 8].to_vec() } else { vec![8] }
        );
        assert!(inbox.sessions.get(OTHER).expect("there").copied.is_empty());
        assert_eq!(inbox.account.mark, place(8));
        assert!(inbox.is_consistent());
    }
}

/// Goal: the bound of what is remembered of copies. Method: a client without stream management gets
/// copies of some entries in a row while another one is still to read them, and then takes
/// messages itself; the last entry it has no copy of. Up to a window of copies none comes again.
/// Of each one more the first is forgotten and comes again, once. In either case nothing is lost,
/// and nothing of it waits for anybody afterwards.
#[test]
fn of_more_copies_than_a_window_the_first_come_again() {
    let window = limits().window;
    for copies in 1..=2 * window {
        let mut inbox = two_plain_sessions();
        fall_behind(&mut inbox);
        let last = 7 + copies as u64;
        for number in 7..last {
            let (_, given) = inbox.append(place(number), to_account(&[OTHER]), 1);
            let copy = [(TAKER, Given::Later), (OTHER, Given::Uncounted)];
            assert_eq!(given[..], copy, "{number}");
        }
        let (_, given) = inbox.append(place(last), to_account(&[]), 1);
        assert_eq!(given[..], [(TAKER, Given::Later)]);
        let has = &inbox.sessions.get(OTHER).expect("there").copied;
        assert_eq!(has.len(), copies.min(window));
        inbox.detach(TAKER);
        assert!(inbox.set_taker(OTHER, true));
        let forgotten = copies.saturating_sub(window) as u64;
        let again: Vec<u64> = (7..7 + forgotten).chain([last]).collect();
        assert_eq!(read_backlog(&mut inbox, last), again, "{copies} copies");
        assert_eq!(
            (inbox.account.mark, inbox.account.waiting),
            (place(last), (0, 0))
        );
        assert!(inbox.sessions.get(OTHER).expect("there").copied.is_empty());
        // Who comes next is given none of it.
        assert!(inbox.set_taker(OTHER, false) && inbox.set_taker(OTHER, true));
        assert_eq!(read_backlog(&mut inbox, last), [0; 0]);
        assert!(inbox.is_consistent());
    }
}

/// The mark is recorded with what depends on it, if it has moved.
#[test]
fn a_mark_that_moved_is_recorded() {
    let is_due = |kind, recorded, act: fn(&mut Inbox<u8>)| {
        let mut inbox = inbox();
        inbox.sessions.get_mut(PHONE).expect("it is there").kind = kind;
        inbox.account.recorded = place(recorded);
        inbox.account.has_changed = false;
        act(&mut inbox);
        inbox.account.has_changed
    };
    let take = |inbox: &mut Inbox<u8>| assert!(inbox.set_taker(PHONE, true));
    assert!(is_due(Kind::Managed, 4, take));
    assert!(!is_due(Kind::Managed, 6, take) && !is_due(Kind::Plain, 4, take));
    let end = |inbox: &mut Inbox<u8>| inbox.end(PHONE);
    assert!(is_due(Kind::Managed, 4, end));
    assert!(!is_due(Kind::Managed, 6, end) && !is_due(Kind::Plain, 4, end));
    let say = |inbox: &mut Inbox<u8>| inbox.record_mark();
    assert!(is_due(Kind::Managed, 4, say) && !is_due(Kind::Managed, 6, say));
}

/// What a session has of the list, or is going to have, nobody else is given.
#[test]
fn what_a_session_keeps_is_its_own() {
    let mut own = session();
    let keeps = |own: &Session<u8>| {
        (1..=6)
            .filter(|at| own.keeps(place(*at)))
            .collect::<Vec<_>>()
    };
    assert_eq!(keeps(&own), [3, 4, 6]);
    own.giving = Some(Box::new(session::Giving {
        through: None,
        is_of_backlog: false,
        places: vec![place(1)],
        of_account: Vec::new(),
    }));
    assert_eq!(keeps(&own), [1, 3, 4, 6]);
}

/// Who begins to take messages has a backlog only if there is something behind the mark.
#[test]
fn a_backlog_is_behind_the_mark() {
    let begin = |mark, taking, backlog: Option<(u64, u64)>| {
        let mut own = session();
        (own.taking, own.read) = (taking, place(6));
        own.backlog = backlog.map(|(next, end)| Backlog {
            next: place(next),
            end: place(end),
        });
        own.take(place(mark), place(6));
        assert_eq!((own.taking, own.began), (Taking::Now, place(6)));
        own.backlog
            .map(|backlog| (backlog.next.number(), backlog.end.number()))
    };
    assert_eq!(begin(6, Taking::Never, None), None);
    assert_eq!(begin(5, Taking::Never, None), Some((5, 6)));
    assert_eq!(begin(2, Taking::Until(place(4)), None), Some((4, 6)));
    assert_eq!(begin(2, Taking::Until(place(6)), None), None);
    assert_eq!(
        begin(2, Taking::Until(place(5)), Some((3, 4))),
        Some((3, 6))
    );
}

/// Of what a page is on its way with, the account is where it is once that has left.
#[test]
fn a_page_takes_the_account_along() {
    let mut own = session();
    own.flight.clear();
    own.taking = Taking::Now;
    let giving = |through, is_of_backlog| session::Giving {
        through: Some(place(through)),
        is_of_backlog,
        places: Vec::new(),
        of_account: Vec::new(),
    };
    assert_eq!(own.account_through(), Some(place(2)));
    assert_eq!(own.account_through_with(&giving(4, true)), Some(place(4)));
    assert_eq!(own.account_through_with(&giving(6, true)), Some(place(5)));
    assert_eq!(own.account_through_with(&giving(4, false)), Some(place(2)));
    own.taking = Taking::Until(place(3));
    assert_eq!(own.account_through_with(&giving(4, true)), Some(place(3)));
    own.taking = Taking::Never;
    assert_eq!(own.account_through_with(&giving(4, true)), None);
}

/// What a session that ended had acknowledged: all but what it had not, and what is behind that.
#[test]
fn what_an_ended_session_had_is_known() {
    let mut inbox = inbox();
    inbox.ended.known.push_back(Left {
        session: PHONE,
        after: place(5),
        unacked: vec![place(2)],
    });
    let had = |session| {
        (1..=6)
            .filter(|at| inbox.ended.had(session, place(*at)))
            .collect()
    };
    let (own, others): (Vec<u64>, Vec<u64>) = (had(PHONE), had(SessionNumber::new(2)));
    assert_eq!((own, others), (vec![1, 3, 4, 5], vec![]));
}

/// After a failure what waits is what the store says, unless more was acknowledged since.
#[test]
fn an_account_falls_back_to_what_is_stored() {
    let failed = |mark, count| {
        let mut inbox = inbox();
        inbox.account.mark = place(mark);
        inbox.account.waiting = (9, 90);
        inbox
            .account
            .failed(place(5), (place(3), (count, 10 * count)));
        let own = inbox.account;
        assert!(own.has_changed);
        (
            own.mark.number(),
            own.recorded.number(),
            own.last.number(),
            own.waiting,
        )
    };
    assert_eq!(failed(3, 2), (3, 3, 5, (2, 20)));
    assert_eq!(failed(2, 2), (3, 3, 5, (2, 20)));
    assert_eq!(failed(4, 2), (4, 3, 5, (2, 20)));
    assert_eq!(failed(6, 12), (5, 3, 5, (9, 90)));
    assert_eq!(failed(3, 0), (3, 3, 0, (0, 0)));
}

/// Nothing in front of the oldest thing that is owed need be read after a restart.
#[test]
fn a_recovery_begins_at_what_is_owed_first() {
    let stored = |acked| StoredSession {
        acked: place(acked),
        ..StoredSession::default()
    };
    let floor = |mark, acked: &[u64]| {
        let sessions = acked.iter().map(|acked| stored(*acked)).collect();
        Recovery::new(place(mark), sessions).floor()
    };
    assert_eq!(floor(5, &[3, 7]), Some(place(3)));
    assert_eq!(floor(2, &[3, 7]), Some(place(2)));
    assert_eq!(floor(2, &[]), None);
}
