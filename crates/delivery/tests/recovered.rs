//! What a session of an earlier life is given of what waits for the account, if others had a part
//! of it.

use delivery::{Count, Place, Recipients, Recovery, SessionNumber, StoredEntry, StoredSession};

/// Five messages wait. The phone has all of them in its window and has acknowledged the first. The
/// desk, which came later, was given the second, third and fourth.
#[test]
fn what_was_passed_over_in_front_of_a_page_does_not_bring_the_page_back() {
    let (phone, desk) = (SessionNumber::new(1), SessionNumber::new(2));
    let session = |session, listed: &[u64], void_through| StoredSession {
        session,
        is_taker: true,
        void_through: Place::new(void_through),
        numbered: (1..)
            .zip(listed)
            .map(|(count, place)| (Some(Count::new(count)), Place::new(*place)))
            .collect(),
        ..StoredSession::default()
    };
    // The acknowledgement of the first one is recorded, or it is not.
    for acked in [0, 1] {
        let phone = StoredSession {
            acked: Place::new(acked),
            ..session(phone, &[], 0)
        };
        let stored = vec![phone, session(desk, &[2, 3, 4], 4)];
        let mut recovery = Recovery::new(Place::START, stored);
        let to = Recipients {
            is_for_account: true,
            sessions: [SessionNumber::new(1)].into_iter().collect(),
            ..Recipients::default()
        };
        for place in 1..=5 {
            let count = Count::new(u32::try_from(place).expect("it is small"));
            recovery.note(StoredEntry {
                place: Place::new(place),
                bytes: 1,
                to: &to,
                counts: &[(SessionNumber::new(1), count)],
            });
        }
        let recovered = recovery.finish(Place::new(5));
        assert_eq!(recovered.mark, Place::new(acked));
        let desk = &recovered.sessions[1];
        let given: Vec<u64> = desk.given.iter().map(|own| own.place.number()).collect();
        assert_eq!(given, [2, 3, 4]);
        assert_eq!(desk.backlog, Some((Place::new(4), Place::new(5))));
    }
}
