//! Journals under failure: what was acknowledged is there, what failed is reported once, and
//! everything goes on afterwards without a restart.

mod common;

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{KEY, append, append_all, committed, message, one, put, range_of, resolved};
use store::{
    Append, AppendBatch, AppendFailure, Durability, Engine, Faults, FaultyEngine, InlineJournal,
    Journal, JournalOptions, LocalJournal, MemoryEngine, Outcome, Plan, Position, Record, Store,
    StoreError, TwinJournal, Writer,
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
fn a_failed_commit_is_in_doubt_and_the_next_one_goes_on() {
    let (store, faults) = faulty_store();
    let journal = LocalJournal::start(&store).unwrap();
    assert!(committed(&append(&journal, KEY, vec![put(USER)])));
    faults.fail_commits(1, false);
    let range = range_of(KEY, USER);
    let (at, tenure) = (journal.position(range), journal.take(range));
    let group = [1, 2].map(|seq| one(range, tenure, vec![message(USER, seq, "lost")]));
    for outcome in append_all(&journal, group.to_vec()) {
        let lost = resolved(outcome);
        let is_certain = matches!(lost, Outcome::Failed(AppendFailure::Unavailable(_)));
        assert!(is_certain, "{lost:?}");
    }
    assert_eq!((journal.position(range), next_seq(&store)), (at, 1));
    // Nobody else has taken the range.
    let kept = one(range, tenure, vec![message(USER, 1, "kept")]);
    assert!(committed(&append_all(&journal, vec![kept])[0]));
    assert_eq!((next_seq(&store), faults.heals()), (2, 1));
    let stats = journal.stats();
    assert_eq!(
        (stats.commits_failed, stats.healed, stats.failed),
        (1, 1, 2)
    );
}

/// Who read a user before it is known whether a change of it survived would act on what turns out
/// to be old. And no time decides what became of the change: only the engine does.
#[test]
fn what_is_in_doubt_stays_so_until_the_engine_is_healed() {
    for survives in [false, true] {
        let (store, faults) = faulty_store();
        let options = JournalOptions {
            heal_interval: Duration::from_millis(1),
            ..JournalOptions::default()
        };
        let journal = LocalJournal::start_with(&store, options).unwrap();
        append(&journal, KEY, vec![put(USER)]);
        append(&journal, KEY, vec![put("bob@localhost")]);
        faults.fail_heals(u64::MAX);
        faults.fail_commits(1, survives);
        let doubtful = append(&journal, KEY, vec![message(USER, 1, "in doubt")]);
        // As many attempts as it likes.
        thread::sleep(Duration::from_millis(50));
        let Outcome::InDoubt(doubt) = &doubtful else {
            panic!("{doubtful:?}");
        };
        assert_eq!(doubt.resolved(), None);
        let refused = store.load_user(USER);
        assert!(
            matches!(refused, Err(StoreError::Unavailable(_))),
            "{refused:?}"
        );
        let other = store.load_user("bob@localhost").unwrap();
        assert!(other.is_some(), "nobody else is in doubt");
        // What comes before it is healed is refused, and in no doubt.
        let later = append(&journal, KEY, vec![message("bob@localhost", 1, "later")]);
        assert!(
            matches!(later, Outcome::Failed(AppendFailure::Unavailable(_))),
            "{later:?}"
        );
        assert!(store.load_user("bob@localhost").is_ok());

        faults.fail_heals(0);
        let became = resolved(doubtful);
        assert_eq!(committed(&became), survives, "{became:?}");
        assert_eq!(next_seq(&store), 1 + u64::from(survives));
        assert!(committed(&append(&journal, KEY, vec![put("carol@x")])));
    }
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
/// journal must find out, or it would give the place out twice.
#[test]
fn a_commit_in_doubt_is_read_again() {
    let (store, faults) = faulty_store();
    let journal = LocalJournal::start(&store).unwrap();
    append(&journal, KEY, vec![put(USER)]);
    let range = range_of(KEY, USER);
    let (at, tenure) = (journal.position(range), journal.take(range));
    faults.fail_commits(1, true);
    let first = one(range, tenure, vec![message(USER, 1, "in doubt")]);
    let doubtful = append_all(&journal, vec![first]).remove(0);
    assert_eq!(resolved(doubtful), Outcome::Committed(at.next()));
    assert_eq!(journal.position(range), at.next());
    let second = one(range, tenure, vec![message(USER, 2, "second")]);
    assert!(committed(&append_all(&journal, vec![second])[0]));
    let log = store.log_read(USER, 0, 10).unwrap();
    let bodies: Vec<_> = log
        .iter()
        .map(|e| String::from_utf8_lossy(&e.frame).into_owned())
        .collect();
    assert!(
        bodies[0].contains("in doubt") && bodies[1].contains("second"),
        "{bodies:?}"
    );
}

/// What a writer appends builds on what it appended before; what others append does not.
#[test]
fn a_failed_append_takes_only_its_own_writer_with_it() {
    let (store, _) = faulty_store();
    let journal = LocalJournal::start(&store).unwrap();
    let range = range_of(KEY, USER);
    let tenure = journal.take(range);
    let by = |writer, records| Append {
        writer: Writer(writer),
        ..one(range, tenure, records)
    };
    let outcomes = append_all(
        &journal,
        vec![
            by(1, vec![put(USER)]),
            by(2, Vec::new()),
            by(1, vec![message(USER, 0, "no place")]),
            by(1, vec![message(USER, 1, "behind it")]),
            by(2, Vec::new()),
            one(range, tenure, Vec::new()),
        ],
    );
    let good: Vec<bool> = outcomes.iter().map(committed).collect();
    assert_eq!(good, [true, true, false, false, true, true], "{outcomes:?}");
    assert_eq!(outcomes[3], Outcome::Failed(AppendFailure::Follows));
    assert_eq!((next_seq(&store), journal.stats().failed), (1, 2));
    // The next call has nothing to do with it.
    let next = by(1, vec![message(USER, 1, "next")]);
    assert!(committed(&append_all(&journal, vec![next])[0]));
}

/// Who takes a range has it: nothing of an earlier tenure is committed any more, not even what
/// waits in the queue already.
#[test]
fn taking_a_range_fences_what_waits() {
    let (store, _) = faulty_store();
    let journal = LocalJournal::start(&store).unwrap();
    append(&journal, KEY, vec![put(USER)]);
    let range = range_of(KEY, USER);
    let old = journal.take(range);
    let gate = shut(&journal);
    let (send, receive) = sync_channel(1);
    let prepared = (1..=10).map(|seq| one(range, old, vec![message(USER, seq, "deposed")]));
    let done = Box::new(move |outcomes| send.send(outcomes).unwrap());
    journal.append(prepared.collect(), done).unwrap();
    let new = journal.take(range);
    drop(gate);
    let outcomes = receive.recv().unwrap();
    assert_eq!(outcomes, vec![Outcome::Fenced; 10]);
    let first = one(range, new, vec![message(USER, 1, "of the new home")]);
    assert!(committed(&append_all(&journal, vec![first])[0]));
    assert_eq!(next_seq(&store), 2);
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
    let journal = InlineJournal::new(&store).unwrap();
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
    for queue_max in [1, 2, 4, store::limits::JOURNAL_QUEUE_MAX] {
        fill_the_queue(JournalOptions {
            queue_max,
            ..JournalOptions::default()
        });
    }
}

fn fill_the_queue(options: JournalOptions) {
    let (store, _) = faulty_store();
    let journal = LocalJournal::start_with(&store, options.clone()).unwrap();
    append(&journal, KEY, vec![put(USER)]);
    let (range, tenure) = (range_of(KEY, USER), journal.take(range_of(KEY, USER)));
    let gate = shut(&journal);
    let groups = journal.stats().groups;
    let max = options.queue_max;
    let (decide, decided) = sync_channel(max);
    let (mut taken, mut busy) = (0, 0);
    for n in 0..max as u64 * 2 {
        let decide = decide.clone();
        let appends = vec![one(range, tenure, Vec::new())];
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

/// A commit that has to wait for its time takes along what is added meanwhile, and nothing that
/// comes after; what is added to a batch that was handed back comes back.
#[test]
fn a_batch_grows_while_its_commit_waits() {
    let (store, _) = faulty_store();
    let journal = LocalJournal::start_with(
        &store,
        JournalOptions {
            commit_interval: Duration::from_secs(1),
            commits_at_once: 0,
            queue_max: 1,
            ..JournalOptions::default()
        },
    )
    .unwrap();
    append(&journal, KEY, vec![put(USER)]);
    let (range, tenure) = (range_of(KEY, USER), journal.take(range_of(KEY, USER)));
    let next = |seq| one(range, tenure, vec![message(USER, seq, "x")]);
    let (send, receive) = sync_channel(1);
    let batch = AppendBatch::new(vec![next(1)]);
    let adding = batch.adding();
    let done = Box::new(move |outcomes: Vec<Outcome>| send.send(outcomes).unwrap());
    journal.append_batch(batch, done).unwrap();
    adding.add(next(2)).unwrap();
    adding.add(next(3)).unwrap();
    let groups = journal.stats().groups;
    let outcomes = receive.recv().unwrap();
    assert!(
        outcomes.len() == 3 && outcomes.iter().all(committed),
        "{outcomes:?}"
    );
    assert_eq!(journal.stats().groups, groups + 1);
    assert_eq!(adding.add(next(4)), Err(next(4)));
    assert_eq!(next_seq(&store), 4);
    let gone = AppendBatch::new(Vec::new());
    let adding = gone.adding();
    drop(gone);
    assert_eq!(adding.add(next(4)), Err(next(4)));
}

/// A group ends at either bound, and an append with too many records is invalid.
#[test]
fn groups_and_appends_have_bounds() {
    for max in [1, 2, 4] {
        for (group_records_max, group_bytes_max) in [(max, usize::MAX), (usize::MAX, max)] {
            let (store, _) = faulty_store();
            let options = JournalOptions {
                append_records_max: max,
                group_records_max,
                group_bytes_max,
                ..JournalOptions::default()
            };
            let journal = LocalJournal::start_with(&store, options).unwrap();
            append(&journal, KEY, vec![put(USER)]);
            let (range, tenure) = (range_of(KEY, USER), journal.take(range_of(KEY, USER)));
            let gate = shut(&journal);
            let before = journal.stats().groups;
            let (send, receive) = sync_channel(8);
            for seq in 1..=8 {
                let send = send.clone();
                let append = one(range, tenure, vec![message(USER, seq, "x")]);
                let done = Box::new(move |outcomes: Vec<Outcome>| send.send(outcomes).unwrap());
                journal.append(vec![append], done).unwrap();
            }
            drop(gate);
            for _ in 0..8 {
                assert!(committed(&receive.recv().unwrap()[0]));
            }
            let records = if group_records_max == max { max } else { 1 };
            assert_eq!(journal.stats().groups - before, 8 / records as u64);
            let many = (0..=max as u64)
                .map(|n| message(USER, 9 + n, "x"))
                .collect();
            let refused = append(&journal, KEY, many);
            assert!(
                matches!(refused, Outcome::Failed(AppendFailure::Invalid(_))),
                "{refused:?}"
            );
        }
    }
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
        Outcome::Fenced,
        "another home was there first"
    );
    assert_eq!(journal.position(range), Position::new(1));
    switches.lose(1);
    let lost = resolved(append(&journal, KEY, vec![message(USER, 1, "x")]));
    assert!(matches!(lost, Outcome::Failed(_)), "{lost:?}");
    assert_eq!(
        (next_seq(&store), journal.position(range)),
        (1, Position::new(1))
    );
    switches.doubt(1);
    switches.set_stay_in_doubt(true);
    let doubtful = append(&journal, KEY, vec![message(USER, 1, "x")]);
    let Outcome::InDoubt(doubt) = &doubtful else {
        panic!("{doubtful:?}");
    };
    journal.settle();
    assert_eq!((doubt.resolved(), next_seq(&store)), (None, 2));
    switches.set_stay_in_doubt(false);
    journal.settle();
    assert_eq!(resolved(doubtful), Outcome::Committed(Position::new(2)));
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
    let (range, tenure) = (range_of(KEY, USER), journal.take(range_of(KEY, USER)));
    for n in 1..=3 {
        let order = Arc::clone(&order);
        let append = one(range, tenure, vec![message(USER, n, "x")]);
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
    let (range, tenure) = (range_of(KEY, USER), journal.take(range_of(KEY, USER)));
    for n in 1..=4u64 {
        journal
            .switches()
            .set_delay(Duration::from_millis(if n == 1 { 30 } else { 0 }));
        let send = send.clone();
        let append = one(range, tenure, vec![message(USER, n, "x")]);
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
                let records: Vec<Record> = vec![message(USER, n, &format!("number {n}."))];
                let outcome = append(&journal, KEY, records);
                let is_in_doubt = matches!(outcome, Outcome::InDoubt(_));
                let outcome = if is_in_doubt {
                    resolved(outcome)
                } else {
                    outcome
                };
                outcomes.push((is_in_doubt, outcome.clone()));
                assert_eq!(next_seq(&store) > n, committed(&outcome), "{outcome:?}");
                if committed(&outcome) {
                    break;
                }
            }
        }
        let log = store.log_read(USER, 0, 1_000).unwrap();
        assert_eq!(log.len(), 200);
        for (entry, n) in log.iter().zip(1u64..) {
            assert_eq!(entry.seq, n);
            assert!(String::from_utf8_lossy(&entry.frame).contains(&format!("number {n}.")));
        }
        for kind in [
            |o: &(bool, Outcome)| o.1 == Outcome::Fenced,
            |o: &(bool, Outcome)| o.0 && matches!(o.1, Outcome::Failed(_)),
            |o: &(bool, Outcome)| o.0 && committed(&o.1),
        ] {
            assert!(outcomes.iter().any(kind), "{outcomes:?}");
        }
        outcomes
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(1), run(2));
}
