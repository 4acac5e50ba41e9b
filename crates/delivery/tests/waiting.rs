//! What waits for the account is counted right although a session acknowledges more of it than it
//! took.

use std::sync::Arc;

use delivery::{
    Addressee, Count, Inbox, InboxLimits, Kind, Place, Recipients, Recovered, SessionNumber,
};
use stdx::time::Moment;

/// Both devices have the first two messages. The desk takes none any more, gets a copy of the
/// third, and acknowledges all three.
#[test]
fn a_copy_that_is_acknowledged_still_waits_for_who_takes_it() {
    let (desk, phone) = (SessionNumber::new(1), SessionNumber::new(2));
    let nothing = Recovered::default();
    let limits = Arc::new(InboxLimits::default());
    let mut inbox: Inbox<u8> =
        Inbox::recover(limits, Place::START, &nothing.account(&[]), &[], Vec::new());
    for (session, link) in [(desk, 1), (phone, 2)] {
        inbox.open(session, Kind::Managed, link);
        inbox.set_taker(session, true);
    }
    for place in 1..=4 {
        if place == 3 {
            inbox.set_taker(desk, false);
        }
        let copies = (place == 3).then_some(desk);
        let to = Recipients {
            is_for_account: true,
            addressee: Addressee::Nobody,
            sessions: copies.into_iter().collect(),
        };
        let (_, given) = inbox.append(Place::new(place), to, 10);
        for (session, _) in given {
            inbox.wrote(session, true);
        }
    }
    assert_eq!(inbox.waiting(), (4, 40));
    inbox
        .acknowledge(desk, Count::new(3))
        .expect("it was sent them");
    assert_eq!(inbox.mark(), Place::new(2));
    assert_eq!(inbox.waiting(), (2, 20));
    inbox
        .acknowledge(phone, Count::new(3))
        .expect("it was sent them");
    assert_eq!(inbox.waiting(), (1, 10));
}

/// Each append that was refused counted one more, for as long as acknowledgements were not
/// recorded: a sender who tried again and again filled the account although nothing came to be.
#[test]
fn what_was_refused_does_not_wait() {
    let phone = SessionNumber::new(1);
    let nothing = Recovered::default();
    let limits = Arc::new(InboxLimits::default());
    let mut inbox: Inbox<u8> =
        Inbox::recover(limits, Place::START, &nothing.account(&[]), &[], Vec::new());
    inbox.open(phone, Kind::Managed, 1);
    inbox.set_taker(phone, true);
    let to = || Recipients {
        is_for_account: true,
        addressee: Addressee::Nobody,
        sessions: [].into_iter().collect(),
    };
    for place in 1..=3 {
        inbox.append(Place::new(place), to(), 10);
        inbox.wrote(phone, true);
    }
    inbox
        .acknowledge(phone, Count::new(2))
        .expect("it was sent them");
    assert_eq!(inbox.waiting(), (1, 10));
    // The store has three of them behind its mark: what was acknowledged is not recorded.
    let stored = (Place::START, (3, 30));
    for _ in 0..10 {
        inbox.append(Place::new(4), to(), 10);
        inbox.failed(Place::new(3), stored, Moment::ZERO);
        assert!(inbox.waiting() <= (3, 30), "{:?}", inbox.waiting());
    }
    assert!(inbox.is_consistent());
}
