//! The gate alone: strangers, the owner, and what either can do to the other.

use actor::ShardId;
use stdx::slab::Key;

use super::*;

const TODAY: u32 = 20_000;

fn conn(n: u32) -> ConnRef {
    ConnRef {
        shard: ShardId::new(0),
        id: Key {
            index: n,
            generation: 0,
        },
    }
}

fn known(key: u64, day: u32) -> KnownAddress {
    KnownAddress { key, day }
}

/// A gate whose owner logged in from address 1, and a stranger at 2 who has guessed enough.
fn guessed() -> Gate {
    let mut gate = Gate::default();
    gate.learn(vec![known(1, TODAY)], TODAY);
    for n in 0..LOGINS_FREE {
        assert_eq!(gate.ask(conn(n), Some(2)).let_in, [conn(n)]);
        gate.ended(conn(n), LoginEnd::Refused);
    }
    gate
}

#[test]
fn logins_under_way_count_like_failures() {
    let mut gate = Gate::default();
    for n in 0..LOGINS_FREE {
        assert_eq!(gate.ask(conn(n), Some(2)).let_in, [conn(n)]);
    }
    let more = conn(LOGINS_FREE);
    assert_eq!(gate.ask(more, Some(2)), Verdict::default(), "it waits");
    assert!(gate.wants_known());
    let verdict = gate.ended(conn(0), LoginEnd::Refused);
    assert_eq!(verdict, Verdict::default(), "a guess is no room");
    let verdict = gate.ended(conn(1), LoginEnd::Abandoned);
    assert_eq!(verdict.let_in, [more], "what comes to nothing is");
}

/// However many connections guess: five at once, and then one a second.
#[test]
fn guesses_are_paced_whoever_makes_them() {
    let mut gate = Gate::default();
    let mut guesses = 0;
    for n in 0..300 {
        for conn in gate.ask(conn(n), Some(u64::from(n))).let_in {
            gate.ended(conn, LoginEnd::Refused);
            guesses += 1;
        }
    }
    assert_eq!(guesses, LOGINS_FREE);
    for _ in 0..10 {
        for conn in gate.tick().let_in {
            gate.ended(conn, LoginEnd::Refused);
            guesses += 1;
        }
    }
    assert_eq!(guesses, LOGINS_FREE + 10);
}

#[test]
fn a_known_address_does_not_wait_among_strangers() {
    let mut gate = guessed();
    for n in 100..200 {
        gate.ask(conn(n), Some(u64::from(n)));
    }
    assert_eq!(gate.ask(conn(1), Some(1)).let_in, [conn(1)]);
    assert_eq!(
        gate.ask(conn(200), Some(3)).refused,
        [conn(200)],
        "a stranger"
    );
    // And it is not known any more when its time is over.
    let days = KNOWN_DAYS + KNOWN_NOTED_DAYS;
    let mut later = guessed();
    later.learn(vec![known(1, TODAY)], TODAY + days + 1);
    assert_eq!(later.ask(conn(1), Some(1)), Verdict::default());
}

/// The list may be read after the owner has asked.
#[test]
fn who_turns_out_to_be_known_is_let_in() {
    let mut gate = Gate::default();
    for n in 0..50 {
        gate.ask(conn(n), Some(2));
    }
    assert_eq!(gate.ask(conn(50), Some(1)), Verdict::default());
    let verdict = gate.learn(vec![known(1, TODAY)], TODAY);
    assert_eq!(verdict.let_in, [conn(50)]);
    assert!(!gate.wants_known());
}

/// A neighbour of the owner behind the same address is paced too, and takes no other lane's turn.
#[test]
fn a_known_address_that_guesses_is_paced_by_itself() {
    let mut gate = guessed();
    for n in 20..20 + LOGINS_FREE {
        assert_eq!(gate.ask(conn(n), Some(1)).let_in, [conn(n)]);
        gate.ended(conn(n), LoginEnd::Refused);
    }
    assert_eq!(gate.ask(conn(40), Some(1)), Verdict::default());
    assert_eq!(gate.ask(conn(41), Some(3)), Verdict::default());
    let mut let_in = gate.tick().let_in;
    let_in.sort_by_key(|conn| conn.id.index);
    assert_eq!(let_in, [conn(40), conn(41)], "each lane has its turn");
}

#[test]
fn one_address_cannot_keep_another_from_waiting() {
    let mut gate = guessed();
    let refused: usize = (10..40)
        .map(|n| gate.ask(conn(n), Some(2)).refused.len())
        .sum();
    assert_eq!(refused, 30 - LOGINS_WAITING_OF_AN_ADDRESS);
    let addresses = LOGINS_WAITING as u64 / 2;
    for n in 0..2 * addresses {
        gate.ask(conn(50 + n as u32), Some(10 + n / 2));
    }
    assert_eq!(gate.waiting.len(), LOGINS_WAITING);
    let owner = conn(99);
    let verdict = gate.ask(owner, Some(3));
    assert_eq!(verdict.refused.len(), 1, "somebody's second place");
    assert!(verdict.refused != [owner]);
    let mut ticks = 1;
    while !gate.tick().let_in.contains(&owner) {
        ticks += 1;
        // The others come again at once.
        for n in 0..30 {
            gate.ask(conn(1_000 * ticks + n), Some(2));
        }
        assert!(
            ticks as usize <= LOGINS_WAITING,
            "it waits its turn and no longer"
        );
    }
}

#[test]
fn challenges_that_nobody_finishes_do_not_close_the_gate() {
    let mut gate = Gate::default();
    gate.learn(Vec::new(), TODAY);
    let mut held = 0;
    for n in 0..10 * LOGINS_UNDER_WAY as u32 {
        held += gate.ask(conn(n), Some(2)).let_in.len();
        held += gate.tick().let_in.len();
    }
    assert!(held > LOGINS_UNDER_WAY);
    assert_eq!(gate.under_way.len(), LOGINS_UNDER_WAY);
    let newcomer = conn(9_999);
    gate.ask(newcomer, Some(3));
    let mut verdict = gate.tick();
    if !verdict.let_in.contains(&newcomer) {
        verdict = gate.tick();
    }
    assert!(verdict.let_in.contains(&newcomer));
    assert_eq!(verdict.ended.len(), 1, "the oldest of who has the most");
}

#[test]
fn an_address_is_noted_once_in_a_while() {
    let mut gate = Gate::default();
    let login = |gate: &mut Gate, from, today| {
        gate.ask(conn(1), Some(from));
        gate.ended(conn(1), LoginEnd::Succeeded);
        gate.note(today)
    };
    assert_eq!(
        login(&mut gate, 7, TODAY),
        None,
        "it is not known who is known"
    );
    assert!(gate.wants_known() && !gate.is_idle());
    assert!(!gate.wants_known(), "it is being read");
    gate.learn(vec![known(5, TODAY - 10)], TODAY);
    let both = vec![known(7, TODAY), known(5, TODAY - 10)];
    assert_eq!(gate.note(TODAY), Some(both));
    assert_eq!(login(&mut gate, 7, TODAY + KNOWN_NOTED_DAYS - 1), None);
    let later = TODAY + KNOWN_NOTED_DAYS;
    assert_eq!(login(&mut gate, 7, later).unwrap()[0], known(7, later));
    for n in 0..2 * KNOWN_ADDRESSES_MAX as u64 {
        login(&mut gate, 100 + n, later + 1);
    }
    let noted = login(&mut gate, 7, later + KNOWN_NOTED_DAYS).unwrap();
    assert_eq!(noted.len(), KNOWN_ADDRESSES_MAX, "the oldest go");
    assert!(gate.is_idle());
}

/// A balancer that does not say who is behind it: nobody is known, and nobody is kept to two
/// places.
#[test]
fn an_address_that_many_share_is_everybodys() {
    let mut gate = Gate::default();
    let all = LOGINS_FREE + LOGINS_WAITING as u32;
    for n in 0..all {
        assert_eq!(gate.ask(conn(n), None).refused, []);
    }
    assert_eq!(gate.ask(conn(all), None).refused, [conn(all)]);
    assert!(!gate.wants_known());
    gate.ended(conn(0), LoginEnd::Succeeded);
    assert_eq!(gate.note(TODAY), None);
    assert!(gate.succeeded.is_empty());
}
