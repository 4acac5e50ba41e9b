//! What sessions of an earlier life are owed, entry by entry.

use super::*;

const OTHER: SessionNumber = SessionNumber::new(2);

/// An entry of 10 bytes for each place before it: for the account or not, and whom it names.
struct Stored(u64, bool, Vec<SessionNumber>, Option<u32>);

fn recover(mark: u64, stored: Vec<StoredSession>, entries: &[Stored]) -> Recovered {
    let mut recovery = Recovery::new(place(mark), stored);
    for Stored(number, is_for_account, names, count) in entries {
        let to = Recipients {
            is_for_account: *is_for_account,
            addressee: match names.first() {
                Some(first) if !is_for_account => Addressee::Session(*first),
                _ => Addressee::Nobody,
            },
            sessions: names.iter().copied().collect(),
        };
        let counts = count.map(|count| (names[0], Count::new(count)));
        recovery.note(StoredEntry {
            place: place(*number),
            bytes: 10 * *number as u32,
            to: &to,
            counts: counts.as_slice(),
        });
    }
    recovery.finish(place(9))
}

fn phone(acked: u64, void_through: u64, numbered: &[(Option<u32>, u64)]) -> StoredSession {
    StoredSession {
        session: PHONE,
        is_taker: true,
        acked: place(acked),
        void_through: place(void_through),
        numbered: numbered
            .iter()
            .map(|(count, number)| (count.map(Count::new), place(*number)))
            .collect(),
        ..StoredSession::default()
    }
}

/// What a session was given, with the counts, up to where it has read, and its backlog.
type Owed = (Vec<(u64, Option<u32>)>, u64, Option<(u64, u64)>);

/// Places with counts of what the only session was given, up to where it has read, and what else
/// waits for it.
fn owed(recovered: &Recovered) -> Owed {
    let own = &recovered.sessions[0];
    let given = own.given.iter();
    let given = given.map(|entry| (entry.place.number(), entry.count.map(Count::number)));
    let backlog = own.backlog.map(|(next, end)| (next.number(), end.number()));
    (given.collect(), own.read.number(), backlog)
}

/// What names a session was given to it if it has a count. What it has acknowledged, or is void
/// and not on its list, is over; of the rest it reads on from the first that has none.
#[test]
fn what_names_a_session_is_given_or_read() {
    let named = |number, count| Stored(number, false, vec![PHONE], count);
    let entries = [
        named(3, Some(7)),
        named(4, Some(8)),
        named(5, None),
        named(6, Some(9)),
    ];
    let of = |acked, void| owed(&recover(9, vec![phone(acked, void, &[])], &entries));
    assert_eq!(
        of(2, 0),
        (vec![(3, Some(7)), (4, Some(8)), (6, Some(9))], 4, None)
    );
    assert_eq!(of(3, 0), (vec![(4, Some(8)), (6, Some(9))], 4, None));
    assert_eq!(of(0, 4), (vec![(6, Some(9))], 4, None));
    assert_eq!(of(0, 5), (vec![(6, Some(9))], 9, None), "it is void");
    // The count of another session is none.
    let entries = [Stored(3, false, vec![OTHER, PHONE], Some(7))];
    let of_other = owed(&recover(9, vec![phone(0, 0, &[])], &entries));
    assert_eq!(of_other, (vec![], 2, None));
}

/// Its list says what it was given of pages, in the order of the list, behind which come those with
/// counts of their own. What it has acknowledged is not on it any more.
#[test]
fn what_is_listed_was_given_in_that_order() {
    let named = |number, count| Stored(number, false, vec![PHONE], count);
    let entries = [
        named(3, None),
        named(4, None),
        named(5, None),
        named(6, Some(9)),
    ];
    let list = [(Some(8), 5), (Some(9), 4), (None, 3)];
    let of = |acked| owed(&recover(9, vec![phone(acked, 5, &list)], &entries));
    let last = (6, Some(9));
    assert_eq!(
        of(2),
        (vec![(5, Some(8)), (4, Some(9)), (3, None), last], 9, None)
    );
    assert_eq!(of(3), (vec![(5, Some(8)), (4, Some(9)), last], 9, None));
    assert_eq!(of(4), (vec![(5, Some(8)), last], 9, None));
}

/// What waits for the account behind its mark and does not name the session is its backlog, behind
/// what it was given of that.
#[test]
fn what_does_not_name_a_session_is_its_backlog() {
    let waits = |number| Stored(number, true, Vec::new(), None);
    let entries = [waits(3), waits(4), waits(5), waits(6)];
    let of =
        |mark, list: &[(Option<u32>, u64)]| owed(&recover(mark, vec![phone(9, 9, list)], &entries));
    assert_eq!(of(2, &[]), (vec![], 9, Some((2, 6))));
    assert_eq!(of(4, &[]), (vec![], 9, Some((4, 6))));
    assert_eq!(of(5, &[]), (vec![], 9, Some((5, 6))));
    assert_eq!(of(6, &[]), (vec![], 9, None));
    let of = |acked, list: &[(Option<u32>, u64)]| {
        owed(&recover(2, vec![phone(acked, 9, list)], &entries))
    };
    let given = vec![(4, Some(1))];
    assert_eq!(of(2, &[(Some(1), 4)]), (given, 9, Some((4, 6))));
    // One that names it is none of it.
    let mut entries = entries;
    entries[3] = Stored(6, true, vec![PHONE], Some(2));
    let stored = phone(2, 2, &[(Some(1), 4)]);
    let of = owed(&recover(2, vec![stored], &entries));
    assert_eq!(of, (vec![(4, Some(1)), (6, Some(2))], 9, Some((4, 5))));
}

/// What names a session, or is for another one, is none of its backlog; nor is what somebody who
/// takes messages has acknowledged.
#[test]
fn a_backlog_is_what_nobody_has() {
    let entries = [
        Stored(3, true, Vec::new(), None),
        Stored(4, true, vec![PHONE], None),
        Stored(5, false, vec![OTHER], None),
    ];
    let of = |acked, list: &[(Option<u32>, u64)]| {
        owed(&recover(2, vec![phone(acked, 9, list)], &entries)).2
    };
    assert_eq!(of(2, &[]), Some((2, 3)));
    assert_eq!(of(2, &[(Some(1), 4)]), Some((2, 3)), "it names the session");
    assert_eq!(of(2, &[(Some(1), 5)]), Some((2, 3)), "it does not wait");
    let waits = |number| Stored(number, true, vec![OTHER], Some(1));
    let all = |acked| {
        let other = StoredSession {
            session: OTHER,
            ..phone(acked, 9, &[])
        };
        owed(&recover(
            2,
            vec![phone(9, 9, &[]), other],
            &[waits(3), waits(4)],
        ))
        .2
    };
    assert_eq!((all(2), all(3), all(4)), (Some((2, 4)), Some((3, 4)), None));
}

/// What each entry is to a session: for the account, or for its full address. On a list of before
/// there was a mark, what is in front of the mark was for the session alone.
#[test]
fn what_an_entry_is_to_a_session_of_before() {
    let is = |is_of_before, mark, is_for_account, names: &[SessionNumber]| {
        let stored = StoredSession {
            is_of_before,
            ..phone(0, 9, &[(Some(1), 3)])
        };
        let entries = [Stored(3, is_for_account, names.to_vec(), None)];
        let recovered = recover(mark, vec![stored], &entries);
        let given = recovered.sessions[0].given[0];
        (given.is_for_account, given.is_addressed)
    };
    assert_eq!(is(false, 2, true, &[]), (true, false));
    assert_eq!(is(true, 2, true, &[]), (true, false), "it waits");
    assert_eq!(is(true, 3, true, &[]), (false, true));
    assert_eq!(is(false, 3, true, &[]), (true, false));
    assert_eq!(is(false, 9, false, &[PHONE]), (false, true));
    assert_eq!(is(false, 9, false, &[OTHER]), (false, false));
}

/// The mark of the account is where a session that takes messages, and that all of them name, has
/// acknowledged them; what waits behind that is counted, with its bytes.
#[test]
fn the_mark_follows_from_what_was_acknowledged() {
    let waits = |number, is_named: bool| {
        let names = is_named.then_some(PHONE);
        Stored(number, true, names.into_iter().collect(), None)
    };
    let of = |mark, is_taker, acked, unnamed: u64| {
        let stored = StoredSession {
            is_taker,
            ..phone(acked, 9, &[])
        };
        let entries: Vec<Stored> = (3..=6)
            .map(|number| waits(number, number != unnamed))
            .collect();
        let recovered = recover(mark, vec![stored], &entries);
        let marks = [recovered.mark, recovered.recorded, recovered.last];
        (marks.map(Place::number), recovered.waiting)
    };
    assert_eq!(of(2, true, 4, 0), ([4, 2, 6], (2, 110)));
    assert_eq!(of(2, true, 6, 0), ([6, 2, 6], (0, 0)));
    assert_eq!(of(2, false, 4, 0), ([2, 2, 6], (4, 180)));
    // One that does not name it is the end of that.
    assert_eq!(of(2, true, 6, 4), ([3, 2, 6], (3, 150)));
    assert_eq!(of(2, true, 2, 4), ([2, 2, 6], (4, 180)));
    assert_eq!(of(5, true, 4, 0), ([5, 5, 6], (1, 60)));
    assert_eq!(of(6, true, 4, 0), ([6, 6, 0], (0, 0)));
}

/// The account goes on where recovery found it, with its list.
#[test]
fn the_account_is_where_it_was_found() {
    let recovered = Recovered {
        mark: place(4),
        recorded: place(3),
        last: place(6),
        waiting: (2, 20),
        sessions: Vec::new(),
    };
    let listed = [place(2)];
    let stored = StoredAccount {
        mark: place(4),
        recorded: place(3),
        last: place(6),
        waiting: (2, 20),
        listed: &listed,
    };
    assert_eq!(recovered.account(&listed), stored);
}
