//! Journals under failure: what was acknowledged is there, what failed is reported once, and
//! everything goes on afterwards without a restart.

mod common;

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{KEY, append, append_all, committed, message, put, range_of};
use store::{
    Append, AppendFailure, Durability, Engine, Faults, FaultyEngine, InlineJournal, Journal,
    LocalJournal, MemoryEngine, Outcome, Plan, Position, Record, Store, StoreError, TwinJournal,
};

const USER: &str = "juliet@localhost";

fn faulty_store() -> (Store, Arc<Faults>) {
    let engine = FaultyEngine::new(MemoryEngine::new());
    let faults = engine.faults();
    let engine: Arc<dyn Engine> = Arc::new(engine);
    (
        Store::with_engine(engine, Durability::Fsync, KEY).unwrap(),
        faults,
    )
}

/// Waits while a change is in doubt.
fn next_seq(store: &Store) -> u64 {
    for _ in 0..600 {
        match store.load_user(USER) {
            Err(StoreError::Unavailable(_)) => thread::sleep(Duration::from_millis(50)),
            user => return user.unwrap().unwrap().log.next_seq,
        }
    }
    panic!("in doubt for half a minute");
}

#[test]
fn a_failed_commit_fails_its_group_and_the_next_one_goes_on() {
    let (store, faults) = faulty_store();
    let journal = LocalJournal::start(&store).unwrap();
    assert!(committed(&append(&journal, KEY, vec![put(USER)])));
    faults.fail_commits(1, false);
    let at = journal.position(range_of(KEY, USER));
    let group = [at, at.next()].map(|expected| Append {
        range: range_of(KEY, USER),
        expected,
        records: vec![message(USER, 1 + expected.value() - at.value(), "lost")],
    });
    let outcomes = append_all(&journal, group.to_vec());
    assert!(
        outcomes
            .iter()
            .all(|o| matches!(o, Outcome::Failed(AppendFailure::Io(_)))),
        "{outcomes:?}"
    );
    assert_eq!(
        (journal.position(range_of(KEY, USER)), next_seq(&store)),
        (at, 1)
    );
    assert!(committed(&append(
        &journal,
        KEY,
        vec![message(USER, 1, "kept")]
    )));
    assert_eq!((next_seq(&store), faults.heals()), (2, 1));
    let stats = journal.stats();
    assert_eq!(
        (stats.commits_failed, stats.healed, stats.failed),
        (1, 1, 2)
    );
}

/// Who read a user before it is known whether a change of it survived would act on what turns out
/// to be old.
#[test]
fn a_user_in_doubt_is_not_read_before_the_engine_is_healed() {
    let (store, faults) = faulty_store();
    let journal = LocalJournal::start(&store).unwrap();
    append(&journal, KEY, vec![put(USER)]);
    append(&journal, KEY, vec![put("bob@localhost")]);
    faults.fail_heals(u64::MAX);
    faults.fail_commits(1, true);
    let doubtful = append(&journal, KEY, vec![message(USER, 1, "in doubt")]);
    assert!(matches!(doubtful, Outcome::Failed(AppendFailure::Io(_))));
    let refused = store.load_user(USER);
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    let other = store.load_user("bob@localhost").unwrap();
    assert!(other.is_some(), "nobody else is in doubt");
    // What comes before it is healed is refused, and in no doubt.
    append(&journal, KEY, vec![message("bob@localhost", 1, "later")]);
    assert!(store.load_user("bob@localhost").is_ok());

    faults.fail_heals(0);
    append(&journal, KEY, vec![put("carol@localhost")]);
    assert_eq!(next_seq(&store), 2, "it has survived, and is seen");
}

/// A twin that healed only later would show the next process what had not been there at its start.
#[test]
fn nothing_is_in_doubt_after_a_power_loss() {
    for survives in [false, true] {
        let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
        let faults = engine.faults();
        let open = || Store::with_engine(engine.clone(), Durability::Fsync, KEY).unwrap();
        let store = open();
        let journal = InlineJournal::new(&store).unwrap();
        append(&journal, KEY, vec![put(USER)]);
        faults.fail_commits(1, survives);
        append(&journal, KEY, vec![message(USER, 1, "in doubt")]);
        drop((journal, store));
        engine.crash(0).unwrap();

        let store = open();
        let journal = InlineJournal::new(&store).unwrap();
        let seq = 1 + u64::from(survives);
        assert_eq!(next_seq(&store), seq);
        let next = vec![message(USER, seq, "after it")];
        assert!(committed(&append(&journal, KEY, next)));
        assert_eq!((next_seq(&store), faults.heals()), (seq + 1, 0));
    }
}

/// A sync that failed after the data was written: the append was not acknowledged but survives. The
/// journal must find out and report the new position, or it would give the place out twice.
#[test]
fn a_commit_in_doubt_is_read_again() {
    let (store, faults) = faulty_store();
    let journal = LocalJournal::start(&store).unwrap();
    append(&journal, KEY, vec![put(USER)]);
    let range = range_of(KEY, USER);
    let at = journal.position(range);
    faults.fail_commits(1, true);
    let doubtful = append(&journal, KEY, vec![message(USER, 1, "in doubt")]);
    assert!(matches!(doubtful, Outcome::Failed(AppendFailure::Io(_))));
    // The caller that does not ask again is fenced, whatever it wants.
    let records = vec![message(USER, 1, "second")];
    let fenced = append_all(
        &journal,
        vec![Append {
            range,
            expected: at,
            records,
        }],
    )
    .remove(0);
    assert_eq!(fenced, Outcome::Fenced(at.next()));
    assert_eq!(journal.position(range), at.next());
    assert!(committed(&append(
        &journal,
        KEY,
        vec![message(USER, 2, "third")]
    )));
    let log = store.log_read(USER, 0, 10).unwrap();
    let bodies: Vec<_> = log
        .iter()
        .map(|e| String::from_utf8_lossy(&e.frame).into_owned())
        .collect();
    assert!(
        bodies[0].contains("in doubt") && bodies[1].contains("third"),
        "{bodies:?}"
    );
}

#[test]
fn a_full_disk_is_an_outcome_until_there_is_room() {
    let (store, faults) = faulty_store();
    let journal = LocalJournal::start(&store).unwrap();
    append(&journal, KEY, vec![put(USER)]);
    faults.set_disk_full(true);
    for _ in 0..3 {
        let refused = append(&journal, KEY, vec![message(USER, 1, "x")]);
        assert_eq!(refused, Outcome::Failed(AppendFailure::Full));
        assert_eq!(next_seq(&store), 1, "reads go on");
    }
    faults.set_disk_full(false);
    assert!(committed(&append(
        &journal,
        KEY,
        vec![message(USER, 1, "x")]
    )));
}

#[test]
fn an_engine_that_does_not_heal_is_asked_again() {
    let (store, faults) = faulty_store();
    let journal = LocalJournal::start(&store).unwrap();
    append(&journal, KEY, vec![put(USER)]);
    faults.fail_commits(1, false);
    faults.fail_heals(2);
    let outcomes: Vec<bool> = (0..4)
        .map(|_| committed(&append(&journal, KEY, vec![message(USER, 1, "x")])))
        .collect();
    assert_eq!(outcomes, [false, false, false, true]);
}

#[test]
fn a_failed_read_fails_the_group_without_a_trace() {
    let (store, faults) = faulty_store();
    let journal = LocalJournal::start(&store).unwrap();
    append(&journal, KEY, vec![put(USER)]);
    // The roster has to be read before it can be changed.
    let records = || {
        let item = common::item("romeo@x");
        vec![
            message(USER, 1, "x"),
            Record::RosterPut {
                user: USER.into(),
                version: 1,
                item,
            },
        ]
    };
    faults.fail_reads(1);
    assert!(matches!(
        append(&journal, KEY, records()),
        Outcome::Failed(_)
    ));
    assert_eq!(next_seq(&store), 1);
    assert!(committed(&append(&journal, KEY, records())));
    faults.fail_reads(1);
    assert!(store.load_user(USER).is_err());
    assert_eq!(next_seq(&store), 2);
}

/// Keeps the journal's thread busy with one outcome until the sender is dropped.
fn shut(journal: &LocalJournal) -> SyncSender<()> {
    let (open, gate) = sync_channel::<()>(0);
    let (arrived, arrival) = sync_channel(1);
    let wait = move |_| {
        arrived.send(()).unwrap();
        // It ends with an error, when the other side is dropped.
        let _ = gate.recv();
    };
    assert!(journal.append(Vec::new(), Box::new(wait)).is_ok());
    arrival.recv().unwrap();
    open
}

/// While the journal is busy its queue fills; what does not fit comes back whole, and everything
/// that was taken is decided exactly once, in one group.
#[test]
fn a_full_queue_hands_back_and_loses_nothing() {
    let (store, _) = faulty_store();
    let journal = LocalJournal::start(&store).unwrap();
    append(&journal, KEY, vec![put(USER)]);
    let gate = shut(&journal);
    let groups = journal.stats().groups;
    let max = store::limits::JOURNAL_QUEUE_MAX;
    let (decide, decided) = sync_channel(max);
    let (mut taken, mut busy) = (0, 0);
    for n in 0..max as u64 * 2 {
        let decide = decide.clone();
        let appends = vec![Append {
            range: range_of(KEY, USER),
            expected: Position::new(1 + n),
            records: Vec::new(),
        }];
        match journal.append(
            appends.clone(),
            Box::new(move |outcomes| decide.send((n, outcomes)).unwrap()),
        ) {
            Ok(()) => taken += 1,
            Err(back) => {
                assert_eq!(back.appends, appends);
                busy += 1;
            }
        }
    }
    assert_eq!((taken, busy), (max, max));
    assert_eq!(journal.stats().busy, max as u64);
    drop(gate);
    drop(decide);
    for n in 0..max as u64 {
        let (at, outcomes) = decided.recv().unwrap();
        assert!(at == n && committed(&outcomes[0]), "{at}: {outcomes:?}");
    }
    // Nobody is told twice, and what waited together was committed together.
    assert!(decided.recv().is_err());
    assert_eq!(journal.stats().groups, groups + 1);
}

#[test]
fn appends_of_many_threads_are_all_committed() {
    let (store, faults) = faulty_store();
    let journal = Arc::new(LocalJournal::start(&store).unwrap());
    faults.set_commit_delay(Duration::from_millis(2));
    let users: Vec<String> = (0..).map(|n| format!("u{n}@x")).collect_distinct_ranges(8);
    thread::scope(|scope| {
        for user in &users {
            let journal = Arc::clone(&journal);
            scope.spawn(move || {
                assert!(committed(&append(&*journal, KEY, vec![put(user)])));
                for seq in 1..=20 {
                    assert!(committed(&append(
                        &*journal,
                        KEY,
                        vec![message(user, seq, "x")]
                    )));
                }
            });
        }
    });
    let stats = journal.stats();
    assert_eq!(stats.committed, 8 * 21);
    for user in &users {
        assert_eq!(store.load_user(user).unwrap().unwrap().log.count, 20);
    }
}

trait DistinctRanges {
    fn collect_distinct_ranges(self, count: usize) -> Vec<String>;
}

impl<I: Iterator<Item = String>> DistinctRanges for I {
    /// Users of different ranges, so that their appends do not fence each other.
    fn collect_distinct_ranges(self, count: usize) -> Vec<String> {
        let mut users: Vec<String> = Vec::new();
        for user in self {
            if users
                .iter()
                .all(|other| range_of(KEY, other) != range_of(KEY, &user))
            {
                users.push(user);
            }
            if users.len() == count {
                break;
            }
        }
        users
    }
}

/// A receiver that panics takes nobody with it.
#[test]
fn a_panicking_receiver_is_contained() {
    let (store, _) = faulty_store();
    let journal = LocalJournal::start(&store).unwrap();
    journal
        .append(Vec::new(), Box::new(|_| panic!("injected")))
        .unwrap();
    assert!(committed(&append(&journal, KEY, vec![put(USER)])));
}

fn twin(store: &Store, plan: Plan) -> TwinJournal {
    TwinJournal::inline(Arc::new(InlineJournal::new(store).unwrap()), plan)
}

#[test]
fn the_twin_fences_loses_and_doubts_on_demand() {
    let (store, _) = faulty_store();
    let journal = twin(&store, Plan::default());
    let range = range_of(KEY, USER);
    assert!(committed(&append(&journal, KEY, vec![put(USER)])));
    let switches = journal.switches();
    switches.fence(1);
    assert_eq!(
        append(&journal, KEY, vec![message(USER, 1, "x")]),
        Outcome::Fenced(Position::new(2)),
        "another home was there first"
    );
    assert_eq!(journal.position(range), Position::new(2));
    switches.lose(1);
    assert!(matches!(
        append(&journal, KEY, vec![message(USER, 1, "x")]),
        Outcome::Failed(_)
    ));
    assert_eq!(
        (next_seq(&store), journal.position(range)),
        (1, Position::new(2))
    );
    switches.doubt(1);
    assert!(matches!(
        append(&journal, KEY, vec![message(USER, 1, "x")]),
        Outcome::Failed(_)
    ));
    assert_eq!(
        (next_seq(&store), journal.position(range)),
        (2, Position::new(3))
    );
    switches.set_full(true);
    let refused = append(&journal, KEY, vec![message(USER, 2, "x")]);
    assert_eq!(refused, Outcome::Failed(AppendFailure::Full));
    switches.set_full(false);
    assert!(committed(&append(
        &journal,
        KEY,
        vec![message(USER, 2, "x")]
    )));
}

#[test]
fn the_twin_holds_and_releases_in_order() {
    let (store, _) = faulty_store();
    let journal = twin(&store, Plan::default());
    append(&journal, KEY, vec![put(USER)]);
    journal.switches().set_hold(true);
    let order = Arc::new(Mutex::new(Vec::new()));
    for n in 1..=3 {
        let order = Arc::clone(&order);
        let append = Append {
            range: range_of(KEY, USER),
            expected: Position::new(n),
            records: vec![message(USER, n, "x")],
        };
        let done = Box::new(move |outcomes: Vec<Outcome>| {
            assert!(committed(&outcomes[0]));
            order.lock().unwrap().push(n);
        });
        journal.append(vec![append], done).unwrap();
    }
    assert_eq!(
        (next_seq(&store), journal.release(2), next_seq(&store)),
        (1, 2, 3)
    );
    drop(journal);
    assert_eq!(
        *order.lock().unwrap(),
        [1, 2, 3],
        "dropping decides the rest"
    );
}

#[test]
fn the_twin_delays_without_reordering() {
    let (store, _) = faulty_store();
    let inner = Arc::new(LocalJournal::start(&store).unwrap());
    let journal = TwinJournal::start(inner, Plan::default()).unwrap();
    assert!(committed(&append(&journal, KEY, vec![put(USER)])));
    let (send, receive) = sync_channel(8);
    for n in 1..=4u64 {
        journal
            .switches()
            .set_delay(Duration::from_millis(if n == 1 { 30 } else { 0 }));
        let send = send.clone();
        let append = Append {
            range: range_of(KEY, USER),
            expected: Position::new(n),
            records: vec![message(USER, n, "x")],
        };
        journal
            .append(
                vec![append],
                Box::new(move |outcomes| send.send((n, outcomes)).unwrap()),
            )
            .unwrap();
    }
    let decided: Vec<_> = receive
        .iter()
        .take(4)
        .map(|(n, o)| (n, committed(&o[0])))
        .collect();
    assert_eq!(decided, [(1, true), (2, true), (3, true), (4, true)]);
}

/// A client that behaves as the server does (reload and retry) gets every message in exactly once,
/// whatever the journal does to its appends; and the same seed does the same.
#[test]
fn a_retrying_writer_survives_any_plan() {
    let run = |seed| {
        let (store, _) = faulty_store();
        let plan = Plan {
            seed,
            fence_per_mille: 100,
            lose_per_mille: 100,
            doubt_per_mille: 100,
        };
        let journal = twin(&store, plan);
        let mut outcomes = Vec::new();
        while store.load_user(USER).unwrap().is_none() {
            append(&journal, KEY, vec![put(USER)]);
        }
        for n in 1..=200u64 {
            loop {
                // Reload: was the last attempt in doubt, and did it survive?
                if next_seq(&store) > n {
                    break;
                }
                let records: Vec<Record> = vec![message(USER, n, &format!("number {n}."))];
                outcomes.push(append(&journal, KEY, records));
            }
        }
        let log = store.log_read(USER, 0, 1_000).unwrap();
        assert_eq!(log.len(), 200);
        for (entry, n) in log.iter().zip(1u64..) {
            assert_eq!(entry.seq, n);
            assert!(String::from_utf8_lossy(&entry.frame).contains(&format!("number {n}.")));
        }
        assert!(outcomes.iter().any(|o| matches!(o, Outcome::Fenced(_))));
        assert!(outcomes.iter().any(|o| matches!(o, Outcome::Failed(_))));
        outcomes
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(1), run(2));
}
