//! What is read for whom, what becomes of a page, and when what failed is tried again.

use super::*;

const OTHER: SessionNumber = SessionNumber::new(2);

fn phone(inbox: &mut Inbox<u8>) -> &mut Session<u8> {
    inbox.sessions.get_mut(PHONE).expect("it is there")
}

/// The reads that are asked for.
fn reads(inbox: &mut Inbox<u8>) -> Vec<(ReadId, Consumer, Wanted)> {
    let effects = std::iter::from_fn(|| inbox.poll_effect());
    let reads = effects.filter_map(|effect| match effect {
        Effect::Read {
            id,
            consumer,
            wanted,
        } => Some((id, consumer, wanted)),
        _ => None,
    });
    reads.collect()
}

/// The phone takes messages, and the log has two entries for it that it has not read.
fn behind() -> (Inbox<u8>, ReadId) {
    let mut inbox = inbox();
    inbox.account.listed.clear();
    (inbox.account.mark, inbox.account.recorded) = (place(4), place(4));
    inbox.account.waiting = (2, 20);
    let own = phone(&mut inbox);
    (own.read, own.taking) = (place(4), Taking::Now);
    inbox.read_for(PHONE);
    let asked = reads(&mut inbox);
    let [(id, Consumer::Session(PHONE), _)] = asked[..] else {
        panic!("{asked:?}");
    };
    (inbox, id)
}

fn entry(number: u64, is_for_account: bool, names: &[SessionNumber]) -> Entry {
    Entry {
        place: place(number),
        bytes: 10,
        to: Recipients {
            is_for_account,
            addressee: match is_for_account {
                true => Addressee::Nobody,
                false => names
                    .first()
                    .copied()
                    .map_or(Addressee::Nobody, Addressee::Session),
            },
            sessions: names.iter().copied().collect(),
        },
    }
}

fn page(entries: Vec<Entry>, through: u64) -> Page {
    Page {
        entries,
        through: place(through),
    }
}

/// A page is not read again while it is under way, and moves the session with its commit.
#[test]
fn a_page_moves_a_session_with_its_commit() {
    let (mut inbox, id) = behind();
    let consumer = Consumer::Session(PHONE);
    let found = page(vec![entry(5, true, &[PHONE]), entry(6, false, &[PHONE])], 6);
    let given = inbox.handle_page(id, consumer, Some(&found), Moment::ZERO);
    assert_eq!(given.map(|given| given.len()), Some(2));
    assert_eq!(phone(&mut inbox).read, place(4));
    let own = phone(&mut inbox).giving.clone().expect("it is on its way");
    assert_eq!(own.of_account, [(place(5), 10)]);
    assert_eq!((own.through, own.places.len()), (Some(place(6)), 2));
    let is: Vec<_> = phone(&mut inbox)
        .flight
        .iter()
        .map(|own| (own.is_for_account, own.is_addressed))
        .collect();
    assert_eq!(is, [(true, false), (false, true)]);
    assert!(phone(&mut inbox).is_list_due, "its counts are recorded");
    inbox.page_committed(consumer);
    assert_eq!(
        (phone(&mut inbox).read, phone(&mut inbox).flight.len()),
        (place(6), 2)
    );
    // Its client has it once it says so.
    assert_eq!((inbox.mark(), inbox.waiting()), (place(4), (2, 20)));
    let again = inbox.handle_page(id, consumer, Some(&found), Moment::ZERO);
    assert_eq!(again, None, "it was answered");
}

/// To a client that counts nothing, a page that has left is delivered: the mark moves, and what is
/// of the list leaves that.
#[test]
fn a_page_for_a_client_that_counts_nothing_is_delivered() {
    let (mut inbox, id) = behind();
    phone(&mut inbox).kind = Kind::Plain;
    inbox.account.list(place(5), None);
    inbox.account.has_changed = false;
    let consumer = Consumer::Session(PHONE);
    let found = page(vec![entry(5, true, &[PHONE]), entry(6, true, &[PHONE])], 6);
    inbox.handle_page(id, consumer, Some(&found), Moment::ZERO);
    assert!(inbox.account.has_changed && !phone(&mut inbox).is_list_due);
    inbox.page_committed(consumer);
    assert_eq!((inbox.mark(), inbox.waiting()), (place(6), (0, 0)));
    assert!(phone(&mut inbox).flight.is_empty());
}

/// Behind a full page the log may go on: the session has what the page has, and no more.
#[test]
fn behind_a_full_page_there_may_be_more() {
    let (mut inbox, id) = behind();
    inbox.appended = place(7);
    let full = page(vec![entry(5, true, &[PHONE]), entry(6, true, &[PHONE])], 6);
    let phone_reads = Consumer::Session(PHONE);
    let given = inbox.handle_page(id, phone_reads, Some(&full), Moment::ZERO);
    assert_eq!(given.map(|given| given.len()), Some(inbox.limits.page));
    inbox.page_committed(phone_reads);
    assert_eq!(phone(&mut inbox).read, place(6));
    assert!(!inbox.has_caught_up(PHONE));
}

/// What comes while a window is full, of messages or of bytes, is not passed over: it is read as
/// soon as an acknowledgement makes room.
#[test]
fn what_comes_while_a_window_is_full_is_read_later() {
    for (bytes, fit) in [(1, 2), (1_000, 1)] {
        let mut inbox = inbox();
        let arrive = |inbox: &mut Inbox<u8>, number| {
            let to = Recipients {
                addressee: Addressee::Session(PHONE),
                ..Recipients::default()
            };
            let (_, given) = inbox.append(place(number), to, bytes);
            given.to_vec()
        };
        for count in 1..=fit {
            let given = arrive(&mut inbox, 6 + u64::from(count));
            assert_eq!(given, [(PHONE, Given::Numbered(Count::new(count)))]);
            inbox.wrote(PHONE, true);
        }
        let last = 6 + u64::from(fit);
        assert_eq!(arrive(&mut inbox, last + 1), [(PHONE, Given::Later)]);
        assert_eq!(reads(&mut inbox), []);
        let acknowledged = inbox.acknowledge(PHONE, Count::new(1));
        acknowledged.expect("so much was written");
        let [(_, consumer, Wanted::Log { after, through, .. })] = &reads(&mut inbox)[..] else {
            panic!("it is read");
        };
        assert_eq!(*consumer, Consumer::Session(PHONE));
        assert_eq!((*after, *through), (place(last), place(last + 1)));
    }
}

/// What somebody else has acknowledged since the page was asked for is passed over, unless it names
/// the session. With nothing left nothing is recorded, and it reads on.
#[test]
fn what_somebody_has_by_now_is_not_given() {
    let given = |mark, names: &[SessionNumber]| {
        let (mut inbox, id) = behind();
        phone(&mut inbox).backlog = Some(Backlog {
            next: place(4),
            end: place(6),
        });
        inbox.account.mark = place(mark);
        let found = page(vec![entry(5, true, names)], 5);
        let given = inbox.handle_page(id, Consumer::Session(PHONE), Some(&found), Moment::ZERO);
        (
            given.map(|given| given.len()),
            phone(&mut inbox).read.number(),
        )
    };
    assert_eq!(given(4, &[]), (Some(1), 4));
    assert_eq!(given(5, &[]), (None, 5));
    assert_eq!(given(5, &[PHONE]), (Some(1), 4));
    let (mut inbox, id) = behind();
    let not_for_it = page(vec![entry(5, false, &[OTHER])], 5);
    let given = inbox.handle_page(
        id,
        Consumer::Session(PHONE),
        Some(&not_for_it),
        Moment::ZERO,
    );
    assert_eq!(
        given.map(|given| given.len()),
        Some(1),
        "it was read for it"
    );
}

/// A page that was not recorded was not given: it is read again once that may be done.
#[test]
fn a_page_that_was_not_recorded_was_not_given() {
    for (kind, in_flight) in [(Kind::Managed, 0), (Kind::Plain, 0)] {
        let (mut inbox, id) = behind();
        phone(&mut inbox).kind = kind;
        let consumer = Consumer::Session(PHONE);
        let found = page(vec![entry(5, true, &[PHONE])], 6);
        inbox.handle_page(id, consumer, Some(&found), Moment::ZERO);
        inbox.page_failed(consumer);
        let own = phone(&mut inbox);
        assert_eq!((own.flight.len(), own.giving.is_some()), (in_flight, false));
        assert_eq!((own.read, own.flight_bytes), (place(4), 0), "{kind:?}");
    }
}

/// A read that failed is tried again after a pause, which ends with its time, or with an append
/// that is durable if nothing but an append had failed.
#[test]
fn what_failed_is_tried_again_after_a_pause() {
    let consumer = Consumer::Session(PHONE);
    let (mut inbox, id) = behind();
    assert_eq!(inbox.deadline(), None);
    let mut other = id;
    inbox.handle_page(other.next(), consumer, None, Moment::ZERO);
    assert_eq!(inbox.deadline(), None, "that was not asked for");
    inbox.handle_page(id, consumer, None, Moment::ZERO);
    let due = Moment::ZERO + limits().retry_min;
    assert_eq!((inbox.deadline(), reads(&mut inbox).len()), (Some(due), 0));
    inbox.committed();
    inbox.handle_timeout(Moment::ZERO);
    assert_eq!((inbox.deadline(), reads(&mut inbox).len()), (Some(due), 0));
    inbox.handle_timeout(due);
    let (id, ..) = reads(&mut inbox).remove(0);
    assert_eq!((inbox.deadline(), reads(&mut inbox).len()), (None, 0));
    // Nor does it help if an append has failed since, while the log cannot be read.
    inbox.handle_page(id, consumer, None, due);
    inbox.failed(place(6), (place(4), (2, 20)), due);
    let paused = inbox.deadline();
    inbox.committed();
    assert_eq!((inbox.deadline(), reads(&mut inbox).len()), (paused, 0));
    assert!(paused.is_some());
    // After an append that failed, the next one that is durable.
    let (mut inbox, _) = behind();
    inbox.failed(place(6), (place(4), (2, 20)), Moment::ZERO);
    assert_eq!((inbox.deadline(), reads(&mut inbox).len()), (Some(due), 0));
    inbox.committed();
    assert_eq!((inbox.deadline(), reads(&mut inbox).len()), (None, 1));
}

/// What ended sessions left is read again likewise, and no answer to another question counts.
#[test]
fn what_is_left_is_read_again_too() {
    let mut inbox = inbox();
    inbox.account.listed.clear();
    inbox.ended.parts.push(Left {
        session: OTHER,
        after: place(3),
        unacked: Vec::new(),
    });
    inbox.read_ended();
    let (id, consumer, _) = reads(&mut inbox).remove(0);
    let mut other = id;
    inbox.handle_page(other.next(), consumer, None, Moment::ZERO);
    assert!(inbox.ended.is_busy() && inbox.deadline().is_none());
    inbox.handle_page(id, consumer, None, Moment::ZERO);
    assert!(!inbox.ended.is_busy() && inbox.deadline().is_some());
}

/// An entry for a session that ended goes on the list, held by whoever is to get a copy of it; one
/// that somebody has does not, and that is recorded.
#[test]
fn what_ended_sessions_left_is_listed() {
    let listed = |names: &[SessionNumber], read| {
        let mut inbox = inbox();
        inbox.account.listed.clear();
        phone(&mut inbox).read = place(read);
        inbox.account.has_changed = false;
        inbox.list(place(5), names);
        let listed = inbox.account.listed.iter();
        let listed: Vec<_> = listed
            .map(|own| (own.place.number(), own.held_by))
            .collect();
        (listed, inbox.account.has_changed)
    };
    assert_eq!(listed(&[OTHER], 6), (vec![(5, None)], true));
    assert_eq!(listed(&[OTHER, PHONE], 4), (vec![(5, Some(PHONE))], true));
    assert_eq!(listed(&[OTHER, PHONE], 5), (vec![], true), "it has read it");
}

/// A client that has an entry which is about to be listed has that recorded, and whatever else was
/// to be recorded is so still. What it makes room for on the list is read.
#[test]
fn an_acknowledgement_makes_room_on_the_list() {
    let acknowledge = |inbox: &mut Inbox<u8>, number: u64| {
        inbox.account.has_changed = false;
        let own = phone(inbox);
        own.flight.push_back(in_flight(number, 1, 0));
        own.written = Count::new(1);
        inbox
            .acknowledge(PHONE, Count::new(1))
            .expect("it was sent");
        inbox.account.has_changed
    };
    let mut inbox = inbox();
    assert!(!acknowledge(&mut inbox, 3), "nobody waits for it");
    let mut inbox = self::inbox();
    inbox.ended.parts.push(Left {
        session: OTHER,
        after: place(3),
        unacked: Vec::new(),
    });
    inbox.read_ended();
    assert_eq!(reads(&mut inbox), [], "the list is full");
    assert!(acknowledge(&mut inbox, 2), "it was on the list");
    let asked = reads(&mut inbox);
    let [(id, Consumer::Ended, _)] = asked[..] else {
        panic!("{asked:?}");
    };
    let found = page(vec![entry(5, false, &[OTHER])], 6);
    inbox.handle_page(id, Consumer::Ended, Some(&found), Moment::ZERO);
    assert!(acknowledge(&mut inbox, 5), "it was about to be listed");
    inbox.page_committed(Consumer::Ended);
    assert_eq!(inbox.listed(), 1);
}

/// Who loses its link holds nothing of the list, and a page that comes later is not its any more.
#[test]
fn who_loses_its_link_gives_back_what_it_was_read() {
    let mut inbox = inbox();
    inbox.account.listed[0].held_by = None;
    inbox.set_taker(PHONE, true);
    let (id, consumer, wanted) = reads(&mut inbox).remove(0);
    assert_eq!(wanted, Wanted::Places(vec![place(2), place(6)]));
    let held = |inbox: &Inbox<u8>| {
        let listed = inbox.account.listed.iter();
        listed.filter(|own| own.held_by == Some(PHONE)).count()
    };
    assert_eq!(held(&inbox), 2);
    inbox.detach(PHONE);
    assert_eq!((held(&inbox), inbox.link(PHONE)), (0, Some(Link::Detached)));
    let found = page(vec![entry(2, false, &[OTHER])], 2);
    assert_eq!(
        inbox.handle_page(id, consumer, Some(&found), Moment::ZERO),
        None
    );
    // What it has, it keeps.
    let mut account = inbox.account.clone();
    for listed in &mut account.listed {
        listed.held_by = Some(PHONE);
    }
    account.listed[1].held_by = Some(OTHER);
    let held = |account: &Account| {
        account
            .listed
            .iter()
            .map(|own| own.held_by)
            .collect::<Vec<_>>()
    };
    account.release(PHONE, |own| own == place(2));
    assert_eq!(held(&account), [Some(PHONE), Some(OTHER)]);
    account.release(PHONE, |_| false);
    assert_eq!(held(&account), [None, Some(OTHER)]);
}

/// Of the list a session is read what is not behind its position; a read says whether it is of the
/// backlog.
#[test]
fn of_what_a_read_is() {
    let listed = |read| {
        let mut inbox = inbox();
        inbox.account.listed[0].held_by = None;
        let own = phone(&mut inbox);
        (own.read, own.taking) = (place(read), Taking::Now);
        inbox.read_for(PHONE);
        reads(&mut inbox).pop().map(|(.., wanted)| wanted)
    };
    let places = |all: &[u64]| Some(Wanted::Places(all.iter().copied().map(place).collect()));
    assert_eq!(listed(6), places(&[2, 6]));
    assert_eq!(listed(5), places(&[2]));
    assert_eq!(listed(2), places(&[2]));
    let is_of_backlog = |taking, backlog: Option<(u64, u64)>| {
        let mut inbox = inbox();
        inbox.account.listed.clear();
        (inbox.account.mark, inbox.account.recorded) = (place(1), place(1));
        let own = phone(&mut inbox);
        (own.read, own.taking) = (place(5), taking);
        own.backlog = backlog.map(|(next, end)| Backlog {
            next: place(next),
            end: place(end),
        });
        inbox.read_for(PHONE);
        phone(&mut inbox).reading.map(|own| own.is_of_backlog)
    };
    assert_eq!(is_of_backlog(Taking::Now, Some((2, 6))), Some(true));
    assert_eq!(is_of_backlog(Taking::Now, None), Some(false));
    assert_eq!(
        is_of_backlog(Taking::Until(place(5)), Some((2, 6))),
        Some(false)
    );
}

/// A page on its way to a client that takes no messages any more moves no mark, and nothing that
/// waits is counted as given.
#[test]
fn a_page_for_who_stopped_taking_moves_no_mark() {
    let mut inbox = inbox();
    inbox.appended = place(9);
    (inbox.account.last, inbox.account.waiting) = (place(9), (2, 20));
    inbox.account.has_changed = true;
    let own = phone(&mut inbox);
    (own.kind, own.read) = (Kind::Plain, place(8));
    own.taking = Taking::Until(place(6));
    own.giving = Some(Box::new(session::Giving {
        through: Some(place(8)),
        is_of_backlog: false,
        places: vec![place(8)],
        of_account: vec![(place(8), 10)],
    }));
    let change = inbox.take_changes().expect("something changed").account;
    let change = change.expect("the mark and the list");
    assert_eq!((change.mark, change.waiting), (place(6), (2, 20)));
}

/// Whom an entry names when it is appended, and what of that it says itself.
#[test]
fn an_entry_names_managed_sessions() {
    let append = |kind, to: Recipients| {
        let mut inbox = inbox();
        inbox.account.listed.clear();
        inbox.open(OTHER, kind, 2);
        let (to, given) = inbox.append(place(7), to, 1);
        (to.sessions.to_vec(), to.is_for_account, given.len())
    };
    let to_other = || Recipients {
        addressee: Addressee::Session(OTHER),
        ..Recipients::default()
    };
    assert_eq!(append(Kind::Managed, to_other()), (vec![OTHER], false, 1));
    assert_eq!(append(Kind::Plain, to_other()), (vec![], false, 1));
    let copies = || Recipients {
        is_for_account: true,
        sessions: [OTHER].into_iter().collect(),
        ..Recipients::default()
    };
    assert_eq!(append(Kind::Managed, copies()), (vec![OTHER], true, 1));
    assert_eq!(
        append(Kind::Plain, copies()),
        (vec![], false, 1),
        "it was written"
    );
    // One that cannot be given it now is not the only one.
    let late = |kind| {
        let mut inbox = inbox();
        inbox.account.listed.clear();
        inbox.open(OTHER, kind, 2);
        inbox.sessions.get_mut(OTHER).expect("it is there").link = Link::Detached;
        let (to, _) = inbox.append(place(7), to_other(), 1);
        (to.is_for_account, to.addressee)
    };
    assert_eq!(late(Kind::Managed), (false, Addressee::Session(OTHER)));
    assert_eq!(late(Kind::Plain), (true, Addressee::Nobody));
}

/// What is written is counted for a managed client that is there; what is in no log is not waited
/// for any more.
#[test]
fn what_is_written_is_counted() {
    let mut inbox = inbox();
    let own = phone(&mut inbox);
    (own.pending_entries, own.pending_others) = (1, 2);
    own.flight.push_back(in_flight(6, 1, 0));
    assert_eq!(inbox.wrote(PHONE, true), Some(Count::new(1)));
    let pending =
        |inbox: &mut Inbox<u8>| (phone(inbox).pending_entries, phone(inbox).pending_others);
    assert_eq!(pending(&mut inbox), (0, 2));
    assert_eq!(inbox.wrote(PHONE, false), Some(Count::new(2)));
    assert_eq!(pending(&mut inbox), (0, 1));
    assert_eq!(
        (inbox.written(PHONE), inbox.written(OTHER)),
        (Some(Count::new(2)), None)
    );
    phone(&mut inbox).is_recovered = true;
    assert_eq!(inbox.wrote(PHONE, false), None);
    assert_eq!(
        (pending(&mut inbox), inbox.written(PHONE)),
        ((0, 0), Some(Count::new(2)))
    );
}

/// The record of a session stays while something that it left is to be read, also if its removal
/// was refused.
#[test]
fn a_record_stays_while_something_is_left() {
    let mut inbox = inbox();
    inbox.unconfirmed = vec![PHONE, OTHER];
    inbox.ended.parts.push(Left {
        session: OTHER,
        after: place(3),
        unacked: Vec::new(),
    });
    inbox.failed(place(6), (place(6), (0, 0)), Moment::ZERO);
    assert_eq!(inbox.ended.removed, [PHONE]);
}

/// A window that is full takes nothing with its commit; a client that counts nothing has none. An
/// acknowledgement of nothing is not recorded.
#[test]
fn a_full_window_is_not_live() {
    let mut own = Session::<u8>::new(Kind::Managed, 7, place(6));
    assert!(own.is_live(place(6), &limits()));
    own.flight = VecDeque::from([in_flight(3, 1, 0), in_flight(4, 2, 0)]);
    assert!(!own.is_live(place(6), &limits()));
    (own.flight_bytes, own.written) = (0, Count::new(2));
    assert_eq!(
        own.acknowledge(Count::new(0)).map(|acked| acked.len()),
        Ok(0)
    );
    assert!(!own.is_ack_due);
    assert_eq!(
        own.acknowledge(Count::new(1)).map(|acked| acked.len()),
        Ok(1)
    );
    assert!(own.is_ack_due && own.is_live(place(6), &limits()));
    assert_eq!(
        own.acknowledge(Count::new(1)).map(|acked| acked.len()),
        Ok(0)
    );
    assert!(own.is_ack_due, "it is due still");
    let plain = Session::<u8>::new(Kind::Plain, 7, place(6));
    let mut limits = limits();
    limits.window_bytes = 0;
    assert!(plain.is_live(place(6), &limits) && !own.is_live(place(6), &limits));
}

/// With nothing behind it the mark is where the log ends.
#[test]
fn a_mark_with_nothing_behind_it_is_at_the_end() {
    let settled = |last| {
        let mut account = inbox().account;
        (account.last, account.waiting) = (place(last), (1, 10));
        account.settle(place(9));
        (account.mark.number(), account.waiting)
    };
    assert_eq!((settled(6), settled(7)), ((9, (0, 0)), (6, (1, 10))));
}

/// A connection that outlived its home takes its session up like one that resumes it.
#[test]
fn a_connection_takes_up_its_session() {
    let mut inbox = inbox();
    inbox.account.listed[1].held_by = Some(PHONE);
    let own = phone(&mut inbox);
    own.flight = VecDeque::from([in_flight(2, 1, 1), in_flight(4, 2, 1)]);
    (own.flight_bytes, own.is_recovered, own.link) = (2, true, Link::Detached);
    inbox.adopt(OTHER, 5, (Count::new(1), Count::new(2)));
    assert_eq!(inbox.poll_effect(), None, "it is gone");
    inbox.adopt(PHONE, 5, (Count::new(1), Count::new(2)));
    let link = 5;
    let again = Effect::ReadAgain {
        session: PHONE,
        link,
    };
    assert_eq!(inbox.poll_effect(), Some(again));
    assert_eq!(inbox.link(PHONE), Some(Link::Resuming(5)));
    assert_eq!(
        (inbox.in_flight(PHONE), inbox.written(PHONE)),
        (1, Some(Count::new(2)))
    );
    let listed = inbox.account.listed.iter();
    let listed: Vec<_> = listed
        .map(|own| (own.place.number(), own.held_by))
        .collect();
    assert_eq!(listed, [(6, None)], "its client has the other one");
}
