//! What waits for the account is counted right although a session acknowledges more of it than it
//! took.

use std::sync::Arc;

use delivery::{
    Addressee, Count, Inbox, InboxLimits, Kind, Place, Recipients, Recovered, SessionNumber,
};

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
