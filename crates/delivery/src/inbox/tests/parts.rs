//! What each part of an inbox says of itself: what ended sessions left, what a client may be given,
//! and what is recorded of it.

use super::*;

const OTHER: SessionNumber = SessionNumber::new(2);
const THIRD: SessionNumber = SessionNumber::new(3);

fn phone(inbox: &mut Inbox<u8>) -> &mut Session<u8> {
    inbox.sessions.get_mut(PHONE).expect("it is there")
}

fn giving(places: &[u64]) -> Option<Box<session::Giving>> {
    Some(Box::new(session::Giving {
        through: None,
        is_of_backlog: false,
        places: places.iter().map(|number| place(*number)).collect(),
        of_account: Vec::new(),
    }))
}

fn left(session: SessionNumber, after: u64, unacked: &[u64]) -> Left {
    Left {
        session,
        after: place(after),
        unacked: unacked.iter().map(|number| place(*number)).collect(),
    }
}

/// A client that counts nothing is there until its page has left; any other goes at once.
#[test]
fn who_is_being_written_a_page_goes_with_it() {
    for (kind, is_given, stays) in [
        (Kind::Plain, true, true),
        (Kind::Plain, false, false),
        (Kind::Managed, true, false),
    ] {
        let mut inbox = inbox();
        phone(&mut inbox).kind = kind;
        phone(&mut inbox).giving = is_given.then(|| giving(&[2])).flatten();
        inbox.end(PHONE);
        assert_eq!(
            inbox.sessions.len(),
            usize::from(stays),
            "{kind:?} {is_given}"
        );
        assert_eq!(inbox.sessions().count(), 0);
        inbox.page_committed(Consumer::Session(PHONE));
        assert_eq!(inbox.sessions.len(), 0);
    }
}

/// What a session that ended had is remembered while somebody may leave something, and of so many.
#[test]
fn an_ended_session_is_remembered_while_others_are_behind() {
    for (read, is_known) in [(5, true), (6, false)] {
        let mut inbox = inbox();
        inbox.open(OTHER, Kind::Managed, 2);
        phone(&mut inbox).read = place(read);
        inbox.end(OTHER);
        assert_eq!(inbox.ended.known.len(), usize::from(is_known), "{read}");
    }
    let mut limits = limits();
    limits.sessions_max = 2;
    let mut inbox = inbox();
    inbox.limits = Arc::new(limits);
    phone(&mut inbox).read = place(5);
    for number in 2..6 {
        inbox.open(SessionNumber::new(number), Kind::Managed, 2);
        inbox.end(SessionNumber::new(number));
    }
    let known = inbox.ended.known.iter().map(|own| own.session.number());
    assert_eq!(known.collect::<Vec<_>>(), [4, 5]);
}

/// Who reads does not pass an entry that is not for it: the page may end in front of it.
#[test]
fn who_reads_stays_where_it_is() {
    let after = |change: fn(&mut Session<u8>)| {
        let mut inbox = inbox();
        inbox.account.listed.clear();
        change(phone(&mut inbox));
        inbox.append(place(7), Recipients::default(), 1);
        phone(&mut inbox).read.number()
    };
    assert_eq!(after(|_| {}), 7);
    assert_eq!(after(|own| own.read = place(5)), 5, "it is behind");
    let reading = session::Reading {
        id: ReadId::default(),
        is_of_list: false,
        is_of_backlog: false,
    };
    let mut inbox = inbox();
    inbox.account.listed.clear();
    phone(&mut inbox).reading = Some(reading);
    inbox.append(place(7), Recipients::default(), 1);
    assert_eq!(phone(&mut inbox).read, place(6));
}

/// What is for a full address, and is written to a client that counts nothing, is delivered,
/// whoever else takes messages for the account and has to wait.
#[test]
fn what_is_written_to_its_addressee_waits_for_nobody() {
    let mut inbox = inbox();
    inbox.account.listed.clear();
    for (session, link) in [(OTHER, 2), (THIRD, 3)] {
        inbox.open(session, Kind::Plain, link);
    }
    inbox.set_taker(OTHER, true);
    // It is late, and gets a copy.
    let other = inbox.sessions.get_mut(OTHER).expect("it is there");
    other.giving = giving(&[]);
    let to = Recipients {
        addressee: Addressee::Session(THIRD),
        sessions: [OTHER].into_iter().collect(),
        ..Recipients::default()
    };
    let (to, given) = inbox.append(place(7), to, 1);
    assert_eq!(
        (to.is_for_account, to.addressee),
        (false, Addressee::Nobody)
    );
    let all = [(OTHER, Given::Uncounted), (THIRD, Given::Uncounted)];
    assert_eq!(given.as_slice(), all);
}

#[test]
fn counts_are_of_clients_that_are_there() {
    let mut inbox = inbox();
    inbox.open(OTHER, Kind::Plain, 2);
    assert_eq!(inbox.next_count(PHONE), Some(Count::new(1)));
    assert_eq!(inbox.next_count(OTHER), None);
    for _ in 0..3 {
        inbox.will_write(PHONE);
    }
    assert_eq!(inbox.next_count(PHONE), Some(Count::new(4)));
    inbox.will_only_write(PHONE, 1);
    assert_eq!(inbox.next_count(PHONE), Some(Count::new(2)));
    phone(&mut inbox).is_recovered = true;
    assert_eq!(inbox.next_count(PHONE), None);
}

/// What others ask of a session.
#[test]
fn a_session_says_how_it_is() {
    let mut inbox = inbox();
    let says = |inbox: &Inbox<u8>| {
        let of = |session| {
            let is = [inbox.is_live(session), inbox.has_caught_up(session)];
            (
                is,
                inbox.is_recovered(session),
                inbox.acked_through(session),
            )
        };
        (of(PHONE), of(OTHER))
    };
    let gone = ([false, false], false, None);
    assert_eq!(says(&inbox), (([true, true], false, Some(place(6))), gone));
    assert_eq!(inbox.list_of(PHONE), None);
    let own = phone(&mut inbox);
    own.flight.push_back(in_flight(3, 1, 0));
    (own.is_recovered, own.has_list, own.link) = (true, true, Link::Detached);
    assert_eq!(says(&inbox), (([false, true], true, Some(place(2))), gone));
    let list = inbox
        .list_of(PHONE)
        .map(|list| (list.void_through, list.numbered));
    assert_eq!(
        list,
        Some((place(6), vec![(Some(Count::new(1)), place(3))]))
    );
    phone(&mut inbox).read = place(5);
    assert!(!inbox.has_caught_up(PHONE));
}

/// What is in no log overtakes nothing if somebody takes messages, and all who do are given them at
/// once.
#[test]
fn takers_are_given_all_at_once_or_not() {
    let mut inbox = inbox();
    inbox.account.listed.clear();
    assert!(!inbox.gives_at_once(), "nobody takes messages");
    inbox.open(OTHER, Kind::Plain, 2);
    inbox.set_taker(PHONE, true);
    assert!(inbox.gives_at_once());
    inbox.set_taker(OTHER, true);
    assert!(inbox.gives_at_once());
    phone(&mut inbox).read = place(5);
    assert!(!inbox.gives_at_once(), "one of them is behind");
}

/// A mark that follows from the rest is recorded every so many places.
#[test]
fn a_mark_is_not_too_far_ahead_of_its_record() {
    let recorded = |recorded: u64| {
        let mut inbox = inbox();
        let mut limits = limits();
        limits.mark_every = 4;
        inbox.limits = Arc::new(limits);
        inbox.account.recorded = place(recorded);
        inbox.account.has_changed = false;
        phone(&mut inbox).is_ack_due = true;
        let changes = inbox.take_changes().expect("something is acknowledged");
        changes.account.map(|account| account.mark.number())
    };
    assert_eq!(
        (recorded(1), recorded(2), recorded(3)),
        (Some(6), Some(6), None)
    );
}

/// Marks never go back, and nothing is counted twice.
#[test]
fn a_mark_that_stays_takes_nothing_away() {
    let mut account = inbox().account;
    account.append(place(8), place(6), 10);
    account.append(place(9), place(8), 20);
    for through in [5, 6] {
        account.advance(place(through), (1, 10));
        assert_eq!((account.mark.number(), account.waiting), (6, (2, 30)));
    }
    account.advance(place(8), (1, 10));
    assert_eq!((account.mark.number(), account.waiting), (8, (1, 20)));
}

/// A page of what is left goes on the list, but for what a client says meanwhile that it has.
#[test]
fn what_is_left_goes_on_the_list() {
    let mut ended = Ended::new(vec![left(OTHER, 3, &[1, 2]), left(THIRD, 4, &[])]);
    assert!(!ended.is_busy());
    let mut id = ReadId::default();
    ended.reading = Some((id.next(), 1, place(6)));
    assert!(ended.is_busy());
    let places = |all: &[u64]| -> Vec<(Place, Vec<SessionNumber>)> {
        all.iter()
            .map(|number| (place(*number), Vec::new()))
            .collect()
    };
    let (asked, mut other) = (id, id);
    assert!(
        !ended.read(other.next(), places(&[1]), place(2)),
        "another read"
    );
    assert!(ended.read(asked, places(&[1, 2]), place(2)));
    assert!(ended.is_busy());
    assert!(ended.forget(place(1)) && !ended.forget(place(1)) && !ended.forget(place(9)));
    // The rest is still to be read, of those that were asked for.
    let (parts, removed) = ended.prospect();
    assert_eq!(parts, [left(OTHER, 3, &[]), left(THIRD, 4, &[])]);
    assert!(removed.is_empty());
    assert_eq!(ended.committed(), places(&[2]));
    assert!(!ended.is_busy() && !ended.forget(place(2)));
    // To the end of the log: nothing is left of the first.
    ended.reading = Some((id.next(), 1, place(6)));
    assert!(ended.read(id, Vec::new(), place(6)));
    assert_eq!(ended.prospect(), (vec![left(THIRD, 4, &[])], vec![OTHER]));
    // What was not appended is not there.
    ended.has_changed = false;
    ended.parts = vec![left(OTHER, 5, &[2, 4]), left(THIRD, 2, &[])];
    ended.known.push_back(left(PHONE, 4, &[3]));
    ended.failed(place(3));
    assert_eq!(ended.parts, [left(OTHER, 3, &[2]), left(THIRD, 2, &[])]);
    assert_eq!(ended.known, [left(PHONE, 3, &[3])]);
    assert!(ended.has_changed && !ended.is_busy());
}

/// Who may still acknowledge an entry holds it; if somebody has it, nobody is given it.
#[test]
fn an_entry_is_held_by_who_may_have_it() {
    let mut inbox = inbox();
    phone(&mut inbox).read = place(5);
    phone(&mut inbox).flight.push_back(in_flight(2, 1, 0));
    inbox.ended.known.push_back(left(OTHER, 4, &[3]));
    let holder = |number, names: &[SessionNumber]| inbox.holder(place(number), names);
    assert_eq!(
        holder(2, &[PHONE]),
        Some(Some(PHONE)),
        "it has it in flight"
    );
    assert_eq!(holder(6, &[PHONE]), Some(Some(PHONE)), "it is to get it");
    assert_eq!(holder(4, &[PHONE]), None, "it has it");
    assert_eq!(holder(4, &[OTHER]), None, "it had it");
    assert_eq!(
        (holder(3, &[OTHER]), holder(5, &[OTHER])),
        (Some(None), Some(None))
    );
    assert_eq!(holder(4, &[THIRD]), Some(None), "nobody knows");
    assert_eq!(holder(4, &[]), Some(None));
}

/// Nothing is read for a session whose window is full, that is read for already, or in a pause.
#[test]
fn a_session_is_read_for_when_it_may_be() {
    let wanted = |change: fn(&mut Inbox<u8>)| {
        let mut inbox = inbox();
        inbox.account.listed.clear();
        phone(&mut inbox).read = place(3);
        change(&mut inbox);
        inbox.read_for(PHONE);
        match inbox.poll_effect() {
            Some(Effect::Read {
                wanted: Wanted::Log { after, limit, .. },
                ..
            }) => Some((after.number(), limit)),
            other => {
                assert_eq!(other, None);
                None
            }
        }
    };
    assert_eq!(wanted(|_| {}), Some((3, 2)));
    assert_eq!(
        wanted(|own| phone(own).flight.push_back(in_flight(3, 1, 0))),
        Some((3, 1))
    );
    assert_eq!(wanted(|own| phone(own).flight_bytes = 1_000), None);
    assert_eq!(wanted(|own| phone(own).giving = giving(&[])), None);
    assert_eq!(wanted(|own| phone(own).link = Link::Detached), None);
    assert_eq!(wanted(|own| own.read_again = Some(Moment::ZERO)), None);
    assert_eq!(wanted(|own| phone(own).read = place(6)), None);
}

/// What was listed for a session and has left the log is nobody's, but for what it has.
#[test]
fn what_left_the_log_leaves_the_list() {
    let mut inbox = inbox();
    for listed in &mut inbox.account.listed {
        listed.held_by = Some(PHONE);
    }
    let mut id = ReadId::default();
    phone(&mut inbox).reading = Some(session::Reading {
        id: id.next(),
        is_of_list: true,
        is_of_backlog: false,
    });
    let to = Recipients {
        is_for_account: true,
        addressee: Addressee::Session(PHONE),
        ..Recipients::default()
    };
    let page = Page {
        entries: vec![Entry {
            place: place(6),
            bytes: 5,
            to,
        }],
        through: place(6),
    };
    let given = inbox.handle_page(id, Consumer::Session(PHONE), Some(&page), Moment::ZERO);
    assert_eq!(given, Some(vec![(0, Given::Numbered(Count::new(1)))]));
    let listed: Vec<u64> = inbox.account.places().map(Place::number).collect();
    assert_eq!(listed, [6]);
    let own = phone(&mut inbox);
    let entry = own.flight[0];
    assert!(
        !entry.is_for_account && !entry.is_addressed,
        "it is of the list"
    );
    assert_eq!(
        own.giving.as_ref().map(|giving| giving.of_account.len()),
        Some(0)
    );
}

/// Of an earlier life: who took no messages when it ended has what was given to it.
#[test]
fn a_session_of_before_is_where_it_was() {
    let recovered = |is_taker, backlog: Option<(u64, u64)>| {
        let from = RecoveredSession {
            session: PHONE,
            read: place(5),
            is_taker,
            backlog: backlog.map(|(next, end)| (place(next), place(end))),
            given: Vec::new(),
        };
        let own = Session::<u8>::recovered(&from, place(6));
        (
            own.taking,
            own.backlog.map(|own| (own.next.number(), own.end.number())),
        )
    };
    assert_eq!(recovered(true, None), (Taking::Now, None));
    assert_eq!(recovered(true, Some((2, 4))), (Taking::Now, Some((2, 4))));
    assert_eq!(recovered(false, None), (Taking::Until(place(6)), None));
    assert_eq!(
        recovered(false, Some((2, 4))),
        (Taking::Until(place(2)), None)
    );
}

/// What is behind the end of the log was not appended: a session has had none of it.
#[test]
fn a_session_falls_back_with_its_log() {
    let mut own = session();
    own.pending_entries = 1;
    (own.taking, own.began) = (Taking::Until(place(5)), place(6));
    own.failed(place(3));
    assert_eq!((own.read, own.began), (place(3), place(3)));
    assert_eq!(
        (own.flight.len(), own.flight_bytes, own.pending_entries),
        (1, 10, 0)
    );
    assert_eq!(own.taking, Taking::Until(place(3)));
    assert_eq!(own.backlog.map(|own| own.end), Some(place(3)));
    assert!(own.is_ack_due && !own.is_list_due);
    (own.has_list, own.is_ack_due) = (true, false);
    own.failed(place(2));
    assert!(own.is_list_due && own.is_ack_due && own.backlog.is_none());
    let mut plain = session();
    (plain.kind, plain.is_list_due) = (Kind::Plain, true);
    plain.failed(place(3));
    assert!(!plain.is_ack_due && plain.is_list_due, "it is due still");
}

/// Of the list nobody is given what it is given otherwise.
#[test]
fn a_session_is_given_nothing_twice() {
    let mut inbox = inbox();
    for listed in &mut inbox.account.listed {
        listed.held_by = None;
    }
    let own = phone(&mut inbox);
    own.flight.push_back(in_flight(2, 1, 0));
    own.taking = Taking::Now;
    inbox.read_for(PHONE);
    let effect = inbox.poll_effect();
    let Some(Effect::Read { wanted, .. }) = effect else {
        panic!("the other is read: {effect:?}");
    };
    assert_eq!(wanted, Wanted::Places(vec![place(6)]));
}

/// A page on its way to a client that counts nothing moves the mark that is recorded with it, if it
/// is behind that.
#[test]
fn a_page_on_its_way_moves_the_mark() {
    let recorded = |read: u64| {
        let mut inbox = inbox();
        inbox.appended = place(9);
        (inbox.account.last, inbox.account.waiting) = (place(9), (2, 20));
        inbox.account.has_changed = true;
        let own = phone(&mut inbox);
        (own.kind, own.taking, own.read) = (Kind::Plain, Taking::Now, place(read));
        own.giving = giving(&[2]);
        let change = inbox.take_changes().expect("something changed").account;
        let change = change.expect("the mark and the list");
        (change.mark.number(), change.waiting, change.listed)
    };
    assert_eq!(recorded(4), (6, (2, 20), vec![place(6)]));
    assert_eq!(recorded(8), (8, (2, 20), vec![place(6)]));
    assert_eq!(recorded(9), (9, (0, 0), vec![place(6)]));
}
