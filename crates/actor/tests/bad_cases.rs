//! What goes wrong, and the defined outcome of each: overflow, dead addresses, late replies, mutual
//! questions, panics everywhere, timers of the dead, quarantine.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use actor::sim::Sim;
use actor::{Actor, Alarm, AskError, Context, Mail, Name, Pool, Reason, Reply, SendError, limits};
use common::{Do, Doer, Doers, HERE, Journal, THERE, gone};
use telemetry::Counter;

const SECOND: Duration = Duration::from_secs(1);

fn sim() -> (Sim, Journal) {
    (Sim::new(2, 7), Journal::default())
}

fn with_class(sim: &mut Sim, journal: &Journal, mailbox_max: usize) {
    for shard in [HERE, THERE] {
        let class = Doers {
            journal: journal.clone(),
            mailbox_max,
            bad_prefix: "bad",
        };
        sim.shard(shard).set_class(class);
    }
}

#[test]
fn full_mailbox_hands_the_message_back_and_keeps_the_rest_in_order() {
    let (mut sim, journal) = sim();
    sim.shard(HERE).set_mailbox_max::<Do>(3);
    let shard = sim.shard(HERE);
    let addr = shard.spawn(Doer::new("a", &journal));
    for n in 0..3 {
        shard
            .send(addr, Do::note(&n.to_string()))
            .map_err(drop)
            .unwrap();
    }
    let refused = shard.send(addr, Do::note("3"));
    assert!(matches!(refused, Err(SendError::Full(Do::Note(text))) if text == "3"));
    // The priority lane has room of its own, and a bound of its own.
    for _ in 0..limits::PRIORITY_MAX {
        shard
            .send_priority(addr, Do::note("!"))
            .map_err(drop)
            .unwrap();
    }
    assert!(matches!(
        shard.send_priority(addr, Do::note("!")),
        Err(SendError::Full(_))
    ));
    assert_eq!(shard.counter(Counter::ActorMailboxFull), 2);
    sim.run_until_idle();
    let seen = journal.take();
    assert_eq!(seen.len(), 1 + limits::PRIORITY_MAX + 3);
    assert_eq!(seen[0], "a started");
    assert!(
        seen[1..=limits::PRIORITY_MAX]
            .iter()
            .all(|line| line == "a !")
    );
    assert_eq!(seen[limits::PRIORITY_MAX + 1..], ["a 0", "a 1", "a 2"]);
}

#[test]
fn dead_address_never_reaches_a_successor() {
    let (mut sim, journal) = sim();
    let addr = sim.shard(HERE).spawn(Doer::new("a", &journal));
    sim.shard(HERE)
        .send(addr, Do::stop())
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    let successor = sim.shard(HERE).spawn(Doer::new("b", &journal));
    assert_ne!(addr, successor);
    assert!(matches!(
        sim.shard(HERE).send(addr, Do::note("x")),
        Err(SendError::Gone(_))
    ));
    // From another shard it is only counted.
    sim.shard(THERE)
        .send(addr, Do::note("x"))
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    assert_eq!(
        journal.take(),
        ["a started", "a stopped: normal", "b started"]
    );
    assert_eq!(sim.shard(HERE).counter(Counter::ActorGone), 2);
    assert_eq!(sim.shard(HERE).counter(Counter::ActorDropped), 1);
}

/// Asks `to` with a deadline and notes the outcome.
fn ask(to: actor::Addr<Keeper>, deadline: Duration) -> Do {
    Do::run(move |_, cx| {
        cx.ask(to, Keeper, deadline, |answer| {
            Do::run(move |me, _| me.note(&format!("answer {answer:?}")))
        });
    })
}

/// The message of [`Keeping`]: a question that it keeps until told otherwise.
struct Keeper(Reply<u32>);

/// Keeps questions for a while, then answers.
struct Keeping {
    after: Option<Duration>,
    kept: Rc<RefCell<Vec<Reply<u32>>>>,
}

impl Actor for Keeping {
    type Msg = Keeper;

    fn handle(&mut self, Keeper(reply): Keeper, cx: &mut Context<'_, Keeper>) {
        match self.after.take() {
            None => reply.send(cx, 42),
            Some(after) => {
                cx.send_after(after, Keeper(reply));
            }
        }
    }

    fn stopped(&mut self, _: &Reason, _: &mut Context<'_, Keeper>) {
        self.kept.borrow_mut().clear();
    }
}

#[test]
fn answers_arrive_late_ones_do_not_and_missing_ones_are_errors() {
    for shard in [HERE, THERE] {
        let (mut sim, journal) = sim();
        let quick = Keeping {
            after: None,
            kept: Rc::default(),
        };
        let quick = sim.shard(shard).spawn(quick);
        let slow = Keeping {
            after: Some(5 * SECOND),
            kept: Rc::default(),
        };
        let slow = sim.shard(shard).spawn(slow);
        let a = sim.shard(HERE).spawn(Doer::new("a", &journal));
        sim.shard(HERE)
            .send(a, ask(quick, SECOND))
            .map_err(drop)
            .unwrap();
        sim.run_until_idle();
        assert_eq!(journal.take(), ["a started", "a answer Ok(42)"]);
        sim.shard(HERE)
            .send(a, ask(slow, SECOND))
            .map_err(drop)
            .unwrap();
        sim.advance(2 * SECOND);
        assert_eq!(journal.take(), ["a answer Err(Timeout)"]);
        sim.advance(10 * SECOND);
        assert_eq!(journal.take(), Vec::<String>::new());
        assert_eq!(sim.shard(HERE).counter(Counter::ActorLateReplies), 1);
        // The one who has the question ends: dropped with it.
        let slow = Keeping {
            after: Some(5 * SECOND),
            kept: Rc::default(),
        };
        let slow = sim.shard(shard).spawn(slow);
        sim.shard(HERE)
            .send(a, ask(slow, 9 * SECOND))
            .map_err(drop)
            .unwrap();
        sim.run_until_idle();
        sim.shard(HERE).kill(slow.id());
        sim.run_until_idle();
        assert_eq!(journal.take(), ["a answer Err(Dropped)"]);
        // Nobody there.
        sim.shard(HERE)
            .send(a, ask(slow, 9 * SECOND))
            .map_err(drop)
            .unwrap();
        sim.run_until_idle();
        let expected = if shard == HERE {
            "Undeliverable"
        } else {
            "Dropped"
        };
        assert_eq!(journal.take(), [format!("a answer Err({expected})")]);
    }
}

#[test]
fn a_callback_hears_of_its_answer_or_of_its_end() {
    let (sender, heard) = std::sync::mpsc::sync_channel(2);
    let reply = || {
        let sender = sender.clone();
        Reply::<u32>::to_callback(move |answer| sender.send(answer).expect("room"))
    };
    reply().answer(7);
    drop(reply());
    assert_eq!(heard.try_recv(), Ok(Ok(7)));
    assert_eq!(heard.try_recv(), Ok(Err(AskError::Dropped)));
    assert!(heard.try_recv().is_err(), "each once");
}

#[test]
fn answer_to_a_dead_asker_is_dropped() {
    let (mut sim, journal) = sim();
    let slow = Keeping {
        after: Some(SECOND),
        kept: Rc::default(),
    };
    let slow = sim.shard(THERE).spawn(slow);
    let a = sim.shard(HERE).spawn(Doer::new("a", &journal));
    sim.shard(HERE)
        .send(a, ask(slow, 9 * SECOND))
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    sim.shard(HERE).kill(a.id());
    sim.advance(20 * SECOND);
    assert_eq!(journal.take(), ["a started", "a stopped: killed"]);
}

#[test]
fn actors_that_ask_each_other_while_held_do_not_deadlock() {
    /// Asks the other, holds its mailbox until the answer comes, and answers what it is asked from
    /// the priority lane.
    struct Peer {
        answers: Rc<RefCell<Vec<Result<u32, AskError>>>>,
    }
    enum Msg {
        Ask(actor::Addr<Msg>),
        Question(Reply<u32>),
        Answer(Result<u32, AskError>),
    }
    impl Actor for Peer {
        type Msg = Msg;
        fn handle(&mut self, msg: Msg, cx: &mut Context<'_, Msg>) {
            match msg {
                Msg::Ask(other) => {
                    cx.ask(other, Msg::Question, SECOND, Msg::Answer);
                    cx.hold();
                }
                Msg::Question(reply) => reply.send(cx, 1),
                Msg::Answer(answer) => {
                    self.answers.borrow_mut().push(answer);
                    cx.release();
                }
            }
        }
    }
    // Both hold, so both questions wait behind the hold until a deadline passes; the one whose
    // deadline is first then answers the other, perhaps just in time.
    let mut sim = Sim::new(2, 3);
    let answers = Rc::new(RefCell::new(Vec::new()));
    let one = sim.shard(HERE).spawn(Peer {
        answers: Rc::clone(&answers),
    });
    let two = sim.shard(THERE).spawn(Peer {
        answers: Rc::clone(&answers),
    });
    sim.shard(HERE)
        .send(one, Msg::Ask(two))
        .map_err(drop)
        .unwrap();
    sim.shard(THERE)
        .send(two, Msg::Ask(one))
        .map_err(drop)
        .unwrap();
    sim.advance(5 * SECOND);
    assert_eq!(answers.borrow().len(), 2);
    assert_eq!(answers.borrow()[0], Err(AskError::Timeout));
    // Without a hold, the mutual question is answered at once.
    let a = Journal::default();
    let one = sim.shard(HERE).spawn(Doer::new("one", &a));
    let two = sim.shard(THERE).spawn(Doer::new("two", &a));
    for (shard, from, to) in [(HERE, one, two), (THERE, two, one)] {
        let question = |reply: Reply<u32>| Do::run(move |_, cx| reply.send(cx, 1));
        let ask = Do::run(move |_, cx| {
            cx.ask(to, question, SECOND, |answer| {
                Do::run(move |me, _| me.note(&format!("{answer:?}")))
            });
        });
        sim.shard(shard).send(from, ask).map_err(drop).unwrap();
    }
    sim.run_until_idle();
    let seen = a.take();
    assert!(
        seen.contains(&"one Ok(1)".into()) && seen.contains(&"two Ok(1)".into()),
        "{seen:?}"
    );
}

#[test]
fn panics_end_one_actor_and_nobody_else() {
    let (mut sim, journal) = sim();
    let shard = sim.shard(HERE);
    let bystander = shard.spawn(Doer::new("bystander", &journal));
    let mut in_started = Doer::new("started", &journal);
    in_started.panics_in_started = true;
    shard.spawn(in_started);
    let mut everywhere = Doer::new("everywhere", &journal);
    (everywhere.panics_in_stopped, everywhere.panics_in_drop) = (true, true);
    let everywhere = shard.spawn(everywhere);
    shard.send(everywhere, Do::panic()).map_err(drop).unwrap();
    shard
        .send(bystander, Do::note("lives"))
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    assert_eq!(
        journal.take(),
        [
            "bystander started",
            "bystander lives",
            "started started",
            "started stopped: panic: told to panic in started",
            "everywhere started",
            "everywhere stopped: panic: as told",
        ]
    );
    assert_eq!(sim.shard(HERE).actors(), 1);
    assert_eq!(sim.shard(HERE).counter(Counter::ActorPanics), 4);
}

#[test]
fn panic_in_the_destructor_of_a_waiting_message_is_contained() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("told to panic when dropped");
        }
    }
    let (mut sim, journal) = sim();
    let addr = sim.shard(HERE).spawn(Doer::new("a", &journal));
    sim.shard(HERE)
        .send(addr, Do::stop())
        .map_err(drop)
        .unwrap();
    let bomb = Bomb;
    let msg = Do::run(move |_, _| {
        let _held = &bomb;
    });
    sim.shard(HERE).send(addr, msg).map_err(drop).unwrap();
    sim.run_until_idle();
    assert_eq!(journal.take(), ["a started", "a stopped: normal"]);
    assert_eq!(sim.shard(HERE).counter(Counter::ActorPanics), 1);
}

#[test]
fn timers_fire_in_order_can_be_cancelled_and_die_with_their_actor() {
    let (mut sim, journal) = sim();
    let addr = sim.shard(HERE).spawn(Doer::new("a", &journal));
    let arm = Do::run(|_, cx| {
        cx.send_after(3 * SECOND, Do::note("third"));
        cx.send_after(SECOND, Do::note("first"));
        let second = cx.send_after(2 * SECOND, Do::note("second"));
        let check = Do::run(move |me, cx| {
            let (first, again) = (cx.cancel(second), cx.cancel(second));
            me.note(&format!("cancelled {first} {again}"));
        });
        cx.send_after(Duration::from_millis(1500), check);
        cx.send_after(4 * SECOND, Do::stop());
        cx.send_after(5 * SECOND, Do::note("after the end"));
    });
    sim.shard(HERE).send(addr, arm).map_err(drop).unwrap();
    sim.advance(10 * SECOND);
    assert_eq!(
        journal.take(),
        [
            "a started",
            "a first",
            "a cancelled true false",
            "a third",
            "a stopped: normal"
        ]
    );
}

#[test]
fn timers_of_others_cannot_be_cancelled_and_too_many_end_their_actor() {
    let (mut sim, journal) = sim();
    let a = sim.shard(HERE).spawn(Doer::new("a", &journal));
    let b = sim.shard(HERE).spawn(Doer::new("b", &journal));
    let arm = Do::run(move |_, cx| {
        let key = cx.send_after(SECOND, Do::note("mine"));
        let steal = Do::run(move |me, cx| me.note(&format!("stolen {}", cx.cancel(key))));
        cx.send(b, steal).map_err(drop).unwrap();
    });
    sim.shard(HERE).send(a, arm).map_err(drop).unwrap();
    sim.advance(2 * SECOND);
    assert_eq!(
        journal.take(),
        ["a started", "b started", "b stolen false", "a mine"]
    );
    let flood = Do::run(|_, cx| {
        for _ in 0..=limits::Bounds::default().timers_max {
            cx.send_after(SECOND, Do::note("never"));
        }
    });
    sim.shard(HERE).send(a, flood).map_err(drop).unwrap();
    sim.advance(2 * SECOND);
    assert_eq!(journal.take(), ["a stopped: exceeded its bound of timers"]);
    assert_eq!(sim.shard(HERE).counter(Counter::ActorLimit), 1);
}

#[test]
fn held_mailbox_lets_only_the_priority_lane_through() {
    let (mut sim, journal) = sim();
    let addr = sim.shard(HERE).spawn(Doer::new("a", &journal));
    let shard = sim.shard(HERE);
    shard
        .send(addr, Do::run(|_, cx| cx.hold()))
        .map_err(drop)
        .unwrap();
    shard.send(addr, Do::note("1")).map_err(drop).unwrap();
    shard.send(addr, Do::note("2")).map_err(drop).unwrap();
    sim.run_until_idle();
    sim.shard(HERE)
        .send_priority(addr, Do::note("urgent"))
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    assert_eq!(journal.take(), ["a started", "a urgent"]);
    let release = Do::run(|me, cx| {
        me.note(&format!("idle: {}", cx.stop_when_idle()));
        cx.release();
    });
    sim.shard(HERE)
        .send_priority(addr, release)
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    assert_eq!(journal.take(), ["a idle: false", "a 1", "a 2"]);
}

#[test]
fn entity_is_activated_once_and_again_for_what_it_left() {
    let (mut sim, journal) = sim();
    with_class(&mut sim, &journal, 8);
    let name = Name::from("juliet");
    for shard in [HERE, THERE] {
        for msg in [
            Do::note("1"),
            Do::stop(),
            Do::note("2"),
            Do::panic(),
            Do::note("3"),
        ] {
            sim.shard(shard)
                .send_named(HERE, &name, msg)
                .map_err(drop)
                .unwrap();
        }
        sim.run_until_idle();
        assert_eq!(
            journal.take(),
            [
                "juliet started",
                "juliet 1",
                "juliet stopped: normal",
                "juliet started",
                "juliet 2",
                "juliet stopped: panic: as told",
                "juliet started",
                "juliet 3",
            ]
        );
        let addr = sim.shard(HERE).whereis::<Do>("juliet").unwrap();
        sim.shard(HERE)
            .send(addr, Do::stop())
            .map_err(drop)
            .unwrap();
        sim.run_until_idle();
        assert!(sim.shard(HERE).whereis::<Do>("juliet").is_none());
        let absent = sim
            .shard(HERE)
            .send_named_if_active(HERE, &name, Do::note("x"));
        assert!(matches!(absent, Err(SendError::Gone(_))));
        journal.take();
    }
    // Without a class for the message there is nobody.
    let nobody = sim.shard(HERE).send_named(HERE, &name, 1u8);
    assert_eq!(nobody, Err(SendError::Gone(1u8)));
}

#[test]
fn overflow_from_another_shard_goes_to_refused() {
    let (mut sim, journal) = sim();
    with_class(&mut sim, &journal, 2);
    let name = Name::from("romeo");
    for n in 0..4 {
        sim.shard(THERE)
            .send_named(HERE, &name, Do::note(&n.to_string()))
            .map_err(drop)
            .unwrap();
    }
    sim.run_until_idle();
    assert_eq!(
        journal.take(),
        [
            "romeo refused 2: Full",
            "romeo refused 3: Full",
            "romeo started",
            "romeo 0",
            "romeo 1"
        ]
    );
    assert_eq!(sim.shard(HERE).counter(Counter::ActorRefused), 2);
    // By address as well: the entity's name is known where it lives.
    let addr = sim.shard(HERE).whereis::<Do>("romeo").unwrap();
    for n in 0..3 {
        sim.shard(THERE)
            .send(addr, Do::note(&n.to_string()))
            .map_err(drop)
            .unwrap();
    }
    sim.run_until_idle();
    assert_eq!(
        journal.take(),
        ["romeo refused 2: Full", "romeo 0", "romeo 1"]
    );
}

#[test]
fn way_to_a_full_shard_is_bounded_and_nothing_is_lost() {
    let (mut sim, journal) = sim();
    sim.shard(HERE).set_mailbox_max::<Do>(usize::MAX);
    let addr = sim.shard(HERE).spawn(Doer::new("a", &journal));
    // The other shard does not run: its inbox fills up, then the outgoing buffer.
    let mut taken = 0u64;
    loop {
        match sim.shard(THERE).send(addr, Do::note("x")) {
            Ok(()) => taken += 1,
            Err(error) => {
                assert!(matches!(error, SendError::Full(_)));
                break;
            }
        }
    }
    let bound = (limits::INBOX_MESSAGES_MAX + limits::OUTGOING_MAX) as u64;
    assert!(
        taken > limits::OUTGOING_MAX as u64 && taken <= bound,
        "{taken}"
    );
    // The retry of the blocked way is a deadline.
    sim.advance(SECOND);
    assert_eq!(journal.take().len() as u64, taken + 1);
}

#[test]
fn entity_that_keeps_crashing_is_quarantined_and_comes_back() {
    let (mut sim, journal) = sim();
    with_class(&mut sim, &journal, 100);
    let alarms = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&alarms);
    sim.shard(HERE)
        .set_observer(move |alarm| sink.borrow_mut().push(alarm.clone()));
    let name = Name::from("tybalt");
    for _ in 0..=limits::CRASHES_MAX {
        sim.shard(HERE)
            .send_named(HERE, &name, Do::panic())
            .map_err(drop)
            .unwrap();
    }
    sim.shard(HERE)
        .send_named(HERE, &name, Do::note("left over"))
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    let seen = journal.take();
    assert_eq!(
        seen.last().unwrap(),
        "tybalt refused left over: Quarantined"
    );
    assert_eq!(seen.len(), 2 * (limits::CRASHES_MAX as usize + 1) + 1);
    let crashes = alarms
        .borrow()
        .iter()
        .filter(|a| matches!(a, Alarm::Crashed { .. }))
        .count();
    assert_eq!(crashes, limits::CRASHES_MAX as usize + 1);
    let last = alarms.borrow().last().cloned();
    assert!(matches!(last, Some(Alarm::Quarantined { name, .. }) if &*name == "tybalt"));
    assert!(matches!(
        sim.shard(HERE).send_named(HERE, &name, Do::note("x")),
        Err(SendError::Full(_))
    ));
    sim.shard(THERE)
        .send_named(HERE, &name, Do::note("far"))
        .map_err(drop)
        .unwrap();
    // Others are not concerned.
    sim.shard(HERE)
        .send_named(HERE, &Name::from("paris"), Do::note("1"))
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    let mut seen = journal.take();
    seen.sort();
    assert_eq!(
        seen,
        [
            "paris 1",
            "paris started",
            "tybalt refused far: Quarantined"
        ]
    );
    sim.advance(limits::QUARANTINE);
    sim.shard(HERE)
        .send_named(HERE, &name, Do::note("back"))
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    assert_eq!(journal.take(), ["tybalt started", "tybalt back"]);
}

#[test]
fn panic_in_activation_is_a_crash_of_that_name() {
    let (mut sim, journal) = sim();
    with_class(&mut sim, &journal, 8);
    sim.shard(HERE)
        .send_named(HERE, &Name::from("bad"), Do::note("1"))
        .map_err(drop)
        .unwrap();
    sim.shard(HERE)
        .send_named(HERE, &Name::from("good"), Do::note("2"))
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    let seen = journal.take();
    assert!(seen.contains(&"good 2".into()));
    assert!(
        seen.contains(&"bad refused 1: Quarantined".into()),
        "{seen:?}"
    );
    assert_eq!(sim.shard(HERE).counter(Counter::ActorQuarantined), 1);
}

#[test]
fn job_that_panics_ends_its_actor_and_results_pass_a_hold() {
    let (mut sim, journal) = sim();
    let addr = sim.shard(HERE).spawn(Doer::new("a", &journal));
    let job = Do::run(|_, cx| {
        let map = |n: u32| {
            Do::run(move |me, cx| {
                me.note(&n.to_string());
                cx.release();
            })
        };
        cx.blocking(&Pool::inline(), || 6 * 7, map).unwrap();
        cx.hold();
    });
    sim.shard(HERE).send(addr, job).map_err(drop).unwrap();
    sim.shard(HERE)
        .send(addr, Do::note("then"))
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    assert_eq!(journal.take(), ["a started", "a 42", "a then"]);
    let bad = Do::run(|_, cx| {
        let job = || -> u32 { panic!("told to panic in a job") };
        cx.blocking(&Pool::inline(), job, |n| Do::note(&n.to_string()))
            .unwrap();
    });
    sim.shard(HERE).send(addr, bad).map_err(drop).unwrap();
    sim.run_until_idle();
    assert_eq!(
        journal.take(),
        ["a stopped: panic: a blocking job panicked"]
    );
}

#[test]
fn full_pool_refuses_at_once_without_a_trace() {
    let (mut sim, journal) = sim();
    // No thread takes from it.
    let pool = Pool::new("none", 0, 1).unwrap();
    let addr = sim.shard(HERE).spawn(Doer::new("a", &journal));
    let job = Do::run(move |me, cx| {
        // A pool without threads has lost its receiver, so that even the first job is refused.
        let refused = cx.blocking(&pool, || (), |()| Do::note("never"));
        me.note(&format!("{refused:?}"));
    });
    sim.shard(HERE).send(addr, job).map_err(drop).unwrap();
    sim.advance(SECOND);
    assert_eq!(journal.take(), ["a started", "a Err(PoolFull)"]);
}

#[test]
fn links_and_monitors_tell_of_the_end_on_either_shard() {
    for shard in [HERE, THERE] {
        let (mut sim, journal) = sim();
        let watched = sim.shard(shard).spawn(Doer::new("watched", &journal));
        let make = |sim: &mut Sim, name: &str| sim.shard(HERE).spawn(Doer::new(name, &journal));
        let (watcher, trapper) = (make(&mut sim, "watcher"), make(&mut sim, "trapper"));
        let (linked, unlinked) = (make(&mut sim, "linked"), make(&mut sim, "unlinked"));
        sim.run_until_idle();
        journal.take();
        let id = watched.id();
        let told = [
            (
                watcher,
                Do::run(move |_, cx| {
                    let _ = cx.monitor(id);
                }),
            ),
            (
                trapper,
                Do::run(move |_, cx| {
                    cx.trap_exits(true);
                    cx.link(id);
                }),
            ),
            (linked, Do::run(move |_, cx| cx.link(id))),
            (
                unlinked,
                Do::run(move |_, cx| {
                    cx.link(id);
                    cx.unlink(id);
                    let monitor = cx.monitor(id);
                    cx.demonitor(monitor);
                }),
            ),
        ];
        for (addr, msg) in told {
            sim.shard(HERE).send(addr, msg).map_err(drop).unwrap();
        }
        sim.run_until_idle();
        sim.shard(shard)
            .send(watched, Do::panic())
            .map_err(drop)
            .unwrap();
        sim.run_until_idle();
        let mut seen = journal.take();
        seen.sort();
        assert_eq!(
            seen,
            [
                "linked stopped: panic: as told",
                "trapper exit: panic: as told",
                "watched stopped: panic: as told",
                "watcher down: panic: as told",
            ]
        );
        assert_eq!(sim.shard(HERE).actors(), 3);
    }
}

#[test]
fn normal_end_spares_linked_actors_and_the_dead_are_reported_at_once() {
    let (mut sim, journal) = sim();
    let dead = gone(&mut sim, &journal);
    let a = sim.shard(HERE).spawn(Doer::new("a", &journal));
    let b = sim.shard(HERE).spawn(Doer::new("b", &journal));
    let id = b.id();
    sim.shard(HERE)
        .send(a, Do::run(move |_, cx| cx.link(id)))
        .map_err(drop)
        .unwrap();
    sim.shard(HERE)
        .send(
            a,
            Do::run(move |_, cx| {
                let _ = cx.monitor(dead);
            }),
        )
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    sim.shard(HERE).send(b, Do::stop()).map_err(drop).unwrap();
    sim.run_until_idle();
    assert_eq!(
        journal.take(),
        [
            "a started",
            "a down: no such actor",
            "b started",
            "b stopped: normal"
        ]
    );
    sim.shard(HERE)
        .send(a, Do::run(move |_, cx| cx.link(dead)))
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    assert_eq!(journal.take(), ["a stopped: no such actor"]);
}

#[test]
fn publications_reach_every_member_in_order_and_leavers_no_more() {
    let (mut sim, journal) = sim();
    #[derive(Clone)]
    struct Word(u32);
    struct Member(Journal, usize, Name);
    impl Actor for Member {
        type Msg = Word;
        fn started(&mut self, cx: &mut Context<'_, Word>) {
            cx.join(&self.2);
        }
        fn handle(&mut self, Word(n): Word, cx: &mut Context<'_, Word>) {
            self.0.note(format!("{} {n}", self.1));
            if n == 1 && self.1 == 0 {
                cx.leave(&self.2);
            }
            if n == 1 && self.1 == 1 {
                cx.stop();
            }
        }
    }
    let group = Name::from("room");
    let members = limits::PUBLISH_SLICE * 3;
    for n in 0..members {
        let shard = if n % 2 == 0 { HERE } else { THERE };
        sim.shard(shard)
            .spawn(Member(journal.clone(), n, Name::clone(&group)));
    }
    sim.run_until_idle();
    for n in 1..=3 {
        sim.shard(HERE)
            .publish(&group, Word(n))
            .map_err(drop)
            .unwrap();
    }
    sim.run_until_idle();
    let seen = journal.take();
    assert!(
        seen.len() >= members * 3 - 4 && seen.len() <= members * 3,
        "{}",
        seen.len()
    );
    for n in 2..members {
        let own: Vec<&String> = seen
            .iter()
            .filter(|line| line.split(' ').next() == Some(&n.to_string()))
            .collect();
        assert_eq!(
            own,
            [&format!("{n} 1"), &format!("{n} 2"), &format!("{n} 3")]
        );
    }
    sim.shard(THERE)
        .publish(&group, Word(4))
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    assert_eq!(journal.take().len(), members - 2);
}

#[test]
fn names_are_unique_per_message_type_and_free_again_after_the_end() {
    let (mut sim, journal) = sim();
    let shard = sim.shard(HERE);
    let (a, b) = (
        shard.spawn(Doer::new("a", &journal)),
        shard.spawn(Doer::new("b", &journal)),
    );
    let name = Name::from("service");
    assert!(shard.register(a, &name));
    assert!(!shard.register(b, &name));
    assert!(!shard.register(a, &Name::from("second name")));
    assert_eq!(shard.whereis::<Do>("service"), Some(a));
    assert_eq!(shard.whereis::<u8>("service"), None);
    shard.kill(a.id());
    sim.run_until_idle();
    assert!(sim.shard(HERE).register(b, &name));
    assert_eq!(sim.shard(HERE).whereis::<Do>("service"), Some(b));
}

#[test]
fn same_seed_same_run() {
    let run = |seed| {
        let (mut sim, journal) = (Sim::new(3, seed), Journal::default());
        let mut peers = Vec::new();
        for n in 0..9u16 {
            let shard = actor::ShardId::new(n % 3);
            peers.push((
                shard,
                sim.shard(shard)
                    .spawn(Doer::new(&format!("p{n}"), &journal)),
            ));
        }
        for (shard, addr) in &peers {
            let others: Vec<_> = peers.iter().map(|(_, addr)| *addr).collect();
            let chatter = Do::run(move |me, cx| {
                for _ in 0..20 {
                    let to = others[cx.rng().usize(..others.len())];
                    let text = format!("from {}", me.name);
                    cx.send(to, Do::Note(text)).map_err(drop).unwrap();
                }
            });
            sim.shard(*shard)
                .send(*addr, chatter)
                .map_err(drop)
                .unwrap();
        }
        sim.run_until_idle();
        journal.take()
    };
    let first = run(5);
    assert_eq!(first.len(), 9 + 180);
    assert_eq!(first, run(5));
    assert_ne!(first, run(6));
}

#[test]
fn reports_name_the_busiest_and_gauges_add_up() {
    let (mut sim, journal) = sim();
    with_class(&mut sim, &journal, 1000);
    let hold = || Do::run(|_, cx| cx.hold());
    let (busy, lazy) = (Name::from("busy"), Name::from("lazy"));
    for name in [&busy, &lazy] {
        sim.shard(HERE)
            .send_named(HERE, name, hold())
            .map_err(drop)
            .unwrap();
    }
    sim.run_until_idle();
    for (name, count) in [(&busy, 100), (&lazy, 9)] {
        for _ in 0..count {
            sim.shard(HERE)
                .send_named(HERE, name, Do::note("x"))
                .map_err(drop)
                .unwrap();
        }
    }
    sim.advance(SECOND);
    sim.shard(HERE)
        .send_named(HERE, &Name::from("other"), Do::note("x"))
        .map_err(drop)
        .unwrap();
    sim.advance(SECOND);
    let stats = sim.handle().stats(HERE);
    assert_eq!(stats.gauge(telemetry::Gauge::ActorQueueTotal), 109);
    assert_eq!(stats.gauge(telemetry::Gauge::ActorQueueNonEmpty), 2);
    assert_eq!(stats.gauge(telemetry::Gauge::ActorQueueMax), 100);
    assert_eq!(stats.gauge(telemetry::Gauge::ActorsAlive), 3);
    let report = sim.handle().report(HERE);
    let names: Vec<_> = report
        .top_queue
        .iter()
        .map(|top| top.name.as_deref())
        .collect();
    assert_eq!(names, [Some("busy"), Some("lazy")]);
    let expensive = Do::run(|_, cx| {
        cx.release();
        cx.spend(5000);
    });
    let addr = sim.shard(HERE).whereis::<Do>("lazy").unwrap();
    sim.shard(HERE)
        .send_priority(addr, expensive)
        .map_err(drop)
        .unwrap();
    sim.advance(2 * SECOND);
    let report = sim.handle().report(HERE);
    assert_eq!(
        sim.handle()
            .stats(HERE)
            .gauge(telemetry::Gauge::ActorQueueTotal),
        100
    );
    assert!(report.messages.over_100s > 0.0);
    let top = &report.top_cost[0];
    assert_eq!(top.name.as_deref(), Some("lazy"));
    assert!(top.value >= 5000 && top.takes.ends_with("Do"), "{top:?}");
    let rates: Vec<_> = report
        .top_rate
        .iter()
        .map(|top| top.name.as_deref())
        .collect();
    assert_eq!(rates.first(), Some(&Some("lazy")));
}
