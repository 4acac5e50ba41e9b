//! Made-up records: each thing that must not be is found, and what may be is not.

use super::*;

/// c0 says b0 and b1 to the hub in one session; b2 in the next. All is accepted.
fn facts(archive: &[usize]) -> Facts {
    let said = |session| Said {
        from: 0,
        session,
        to: To::Hub,
        is_poison: false,
        is_accepted: true,
    };
    let mut facts = Facts {
        said: vec![said(0), said(0), said(1)],
        ..Facts::default()
    };
    keep(&mut facts, To::Hub, archive);
    facts
}

fn keep(facts: &mut Facts, to: To, numbers: &[usize]) {
    facts.kept[to as usize] = Kept {
        archive: numbers.to_vec(),
        given: Some(numbers.to_vec()),
    };
}

fn back(number: usize, id: &str, is_doubtful: bool) -> Back {
    Back {
        number,
        id: Some(id.to_owned()),
        is_doubtful,
    }
}

/// The finding, if it is one and only one.
fn found(facts: &Facts) -> String {
    check(facts).join("; ")
}

#[test]
fn what_arrived_once_and_in_order_is_fine() {
    assert_eq!(found(&facts(&[0, 1, 2])), "");
}

#[test]
fn a_lost_message_is_found() {
    let mut facts = facts(&[0, 2]);
    let lost = "b1 (c0 to hub) was acknowledged, and neither arrived nor came back";
    assert_eq!(found(&facts), lost);
    // It came back, or nobody promised anything.
    facts.backs.insert(back(1, "a", false));
    assert_eq!(found(&facts), "");
    facts.backs.clear();
    facts.said[1].is_accepted = false;
    assert_eq!(found(&facts), "");
}

#[test]
fn a_message_to_an_account_that_was_removed_may_be_gone_and_no_other() {
    let mut facts = facts(&[0, 1]);
    facts.said[2].to = To::Gone;
    let lost = "b2 (c0 to gone) was acknowledged, and neither arrived nor came back";
    assert_eq!(found(&facts), lost);
    facts.was_removed = true;
    assert_eq!(found(&facts), "");
    keep(&mut facts, To::Gone, &[2, 2]);
    assert_eq!(found(&facts), "gone has b2 twice; gone was given b2 twice");
    keep(&mut facts, To::Gone, &[2]);
    facts.backs.insert(back(2, "a", false));
    assert_eq!(found(&facts), "b2 was delivered, and came back as well");
}

#[test]
fn a_message_that_arrived_twice_is_found() {
    let mut facts = facts(&[0, 1, 2]);
    facts.kept[0].archive.push(1);
    assert_eq!(found(&facts), "hub has b1 twice; hub has b1 behind b2");
    facts.kept[0].archive.pop();
    facts.kept[0].given = Some(vec![0, 1, 1, 2]);
    assert_eq!(found(&facts), "hub was given b1 twice");
}

#[test]
fn messages_out_of_order_are_found() {
    let mut facts = facts(&[1, 0, 2]);
    let both = "hub has b0 behind b1; hub was given b0 behind b1";
    assert_eq!(found(&facts), both);
    keep(&mut facts, To::Hub, &[0, 2, 1]);
    assert!(found(&facts).contains("hub has b1 behind b2"));
    // What had no answer in an earlier session may come later; in one session nothing may.
    facts.said[1].is_accepted = false;
    assert_eq!(found(&facts), "");
    facts.said[2].session = 0;
    assert!(found(&facts).contains("hub has b1 behind b2"));
    // Another sender's has no order with it.
    facts.said[2].from = 1;
    assert_eq!(found(&facts), "");
}

#[test]
fn a_message_that_was_delivered_and_came_back_is_found() {
    let mut facts = facts(&[0, 1, 2]);
    facts.backs.insert(back(1, "a", true));
    assert_eq!(found(&facts), "", "the error says so");
    facts.backs = HashSet::from([back(1, "a", false)]);
    assert_eq!(found(&facts), "b1 was delivered, and came back as well");
}

#[test]
fn a_message_that_came_back_twice_is_found() {
    let mut facts = facts(&[0, 1]);
    // The same error, given to two sessions, is one.
    facts.backs.insert(back(2, "a", false));
    facts.backs.insert(back(2, "a", false));
    assert_eq!(found(&facts), "");
    facts.backs.insert(back(2, "b", false));
    assert_eq!(found(&facts), "b2 came back 2 times");
}

#[test]
fn what_nobody_sent_and_poison_are_found() {
    let mut facts = facts(&[0, 1, 2]);
    keep(&mut facts, To::Victim, &[1]);
    assert!(found(&facts).contains("victim has b1, which is not for it"));
    keep(&mut facts, To::Victim, &[]);
    facts.said[1].is_poison = true;
    assert!(found(&facts).contains("hub has b1, at which it crashes"));
    keep(&mut facts, To::Hub, &[0, 2, 7]);
    facts.said[1].is_accepted = false;
    assert!(found(&facts).contains("hub has b7, which is not for it"));
}

#[test]
fn what_a_recipient_has_is_given_to_it() {
    let mut facts = facts(&[0, 1, 2]);
    facts.kept[0].given = Some(vec![0, 1]);
    assert_eq!(found(&facts), "hub has b2 and was not given it");
    // Whoever lost the link meanwhile knows no more.
    facts.kept[0].given = None;
    assert_eq!(found(&facts), "");
    facts.kept[0].given = Some(vec![0, 1, 2]);
    facts.kept[0].archive.pop();
    facts.said[2].is_accepted = false;
    assert_eq!(found(&facts), "hub was given b2 and does not have it");
}
