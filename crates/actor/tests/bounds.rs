//! What happens at the bounds of a system's own ([`actor::limits::Bounds`]), made small: who goes
//! beyond one ends or is refused, others notice nothing, and what has ended makes room.

mod common;

use std::time::Duration;

use actor::limits::Bounds;
use actor::sim::Sim;
use actor::{Actor, Addr, Context, Mail, Name, Pool, SendError};
use common::{Do, Doer, Doers, HERE, Journal, THERE};
use telemetry::Counter;

const SECOND: Duration = Duration::from_secs(1);

fn tell(sim: &mut Sim, to: Addr<Do>, what: Do) {
    sim.shard(HERE).send(to, what).map_err(drop).unwrap();
    sim.run_until_idle();
}

fn two_actors() -> (Sim, Journal) {
    let bounds = Bounds {
        actors_max: 2,
        ..Bounds::default()
    };
    (Sim::bounded(2, 1, bounds), Journal::default())
}

#[test]
fn one_actor_too_many_is_dead_from_the_beginning_until_another_has_ended() {
    let (mut sim, journal) = two_actors();
    let first = sim.shard(HERE).spawn(Doer::new("a", &journal));
    sim.shard(HERE).spawn(Doer::new("b", &journal));
    let third = sim.shard(HERE).spawn(Doer::new("c", &journal));
    let refused = sim.shard(HERE).send(third, Do::note("never"));
    assert!(matches!(refused, Err(SendError::Gone(Do::Note(text))) if text == "never"));
    sim.run_until_idle();
    assert_eq!(journal.take(), ["a started", "b started"]);
    assert_eq!(sim.shard(HERE).counter(Counter::ActorSpawnRefused), 1);
    tell(&mut sim, first, Do::stop());
    sim.shard(HERE).spawn(Doer::new("d", &journal));
    sim.run_until_idle();
    assert_eq!(journal.take(), ["a stopped: normal", "d started"]);
}

/// A message for an entity that finds no room comes back here, and is handed to the class there;
/// once somebody has ended, the same name is activated.
#[test]
fn an_entity_without_room_is_refused_and_activated_later() {
    let (mut sim, journal) = two_actors();
    for shard in [HERE, THERE] {
        sim.shard(shard).set_class(Doers {
            journal: journal.clone(),
            mailbox_max: 8,
            bad_prefix: "bad",
        });
    }
    let first = sim.shard(HERE).spawn(Doer::new("a", &journal));
    sim.shard(HERE).spawn(Doer::new("b", &journal));
    sim.run_until_idle();
    journal.take();
    let name = Name::from("juliet");
    let refused = sim.shard(HERE).send_named(HERE, &name, Do::note("1"));
    assert!(matches!(refused, Err(SendError::Full(Do::Note(text))) if text == "1"));
    let there = sim.shard(THERE);
    let sent = there.send_named(HERE, &name, Do::note("2"));
    sent.map_err(drop).expect("it is on its way");
    sim.run_until_idle();
    assert_eq!(journal.take(), ["juliet refused 2: Full"]);
    tell(&mut sim, first, Do::stop());
    let sent = sim.shard(HERE).send_named(HERE, &name, Do::note("3"));
    sent.map_err(drop).expect("there is room");
    sim.run_until_idle();
    assert_eq!(
        journal.take(),
        ["a stopped: normal", "juliet started", "juliet 3"]
    );
}

#[test]
fn one_link_monitor_or_group_too_many_ends_its_actor_and_those_it_has_hear_of_it() {
    let bounds = Bounds {
        relations_max: 3,
        ..Bounds::default()
    };
    for last in 0..3 {
        let (mut sim, journal) = (Sim::bounded(2, 1, bounds), Journal::default());
        let a = sim.shard(HERE).spawn(Doer::new("a", &journal));
        let b = sim.shard(HERE).spawn(Doer::new("b", &journal));
        let (who, other) = (a.id(), b.id());
        let watch = Do::run(move |_, cx| {
            cx.monitor(who);
        });
        tell(&mut sim, b, watch);
        let trap = Do::run(|_, cx| cx.trap_exits(true));
        tell(&mut sim, b, trap);
        let three = Do::run(move |_, cx| {
            cx.link(other);
            let monitor = cx.monitor(other);
            cx.join(&Name::from("group"));
            // What is given up makes room.
            cx.demonitor(monitor);
            cx.monitor(other);
        });
        tell(&mut sim, a, three);
        assert_eq!(journal.take(), ["a started", "b started"]);
        let one_more = Do::run(move |_, cx| match last {
            0 => cx.link(other),
            1 => {
                cx.monitor(other);
            }
            _ => cx.join(&Name::from("another")),
        });
        tell(&mut sim, a, one_more);
        let mut seen = journal.take();
        seen.sort();
        let why = "exceeded its bound of links, monitors and groups";
        let expected = [
            format!("a stopped: {why}"),
            format!("b down: {why}"),
            format!("b exit: {why}"),
        ];
        assert_eq!(seen, expected, "{last}");
        assert_eq!(sim.shard(HERE).counter(Counter::ActorLimit), 1);
    }
}

/// Asks so many questions that nobody answers.
fn ask(count: usize) -> Do {
    Do::run(move |me, cx| {
        for _ in 0..count {
            let reply = cx.expect::<u32>(SECOND, |answer| Do::note(&format!("{answer:?}")));
            me.note(&format!("asked: {}", reply.is_some()));
            // It is never answered, nor dropped.
            let _ = Box::leak(Box::new(reply));
        }
    })
}

#[test]
fn one_open_question_too_many_ends_its_actor() {
    let bounds = Bounds {
        asks_max: 2,
        ..Bounds::default()
    };
    let (mut sim, journal) = (Sim::bounded(1, 1, bounds), Journal::default());
    let a = sim.shard(HERE).spawn(Doer::new("a", &journal));
    for _ in 0..2 {
        tell(&mut sim, a, ask(2));
        // Their deadlines make room.
        sim.advance(2 * SECOND);
    }
    let answers = [
        "a asked: true",
        "a asked: true",
        "a Err(Timeout)",
        "a Err(Timeout)",
    ];
    let expected = [&["a started"][..], &answers, &answers].concat();
    assert_eq!(journal.take(), expected);
    tell(&mut sim, a, ask(3));
    sim.advance(2 * SECOND);
    assert_eq!(
        journal.take(),
        [
            "a asked: true",
            "a asked: true",
            "a asked: false",
            "a stopped: exceeded its bound of questions"
        ]
    );
    assert_eq!(sim.shard(HERE).counter(Counter::ActorLimit), 1);
}

#[test]
fn one_blocking_job_too_many_is_refused_and_its_actor_goes_on() {
    let bounds = Bounds {
        asks_max: 2,
        ..Bounds::default()
    };
    let (mut sim, journal) = (Sim::bounded(1, 1, bounds), Journal::default());
    let a = sim.shard(HERE).spawn(Doer::new("a", &journal));
    let jobs = || {
        Do::run(|me, cx| {
            for n in 0..3 {
                let done = cx.blocking(&Pool::inline(), move || n, |n| Do::note(&n.to_string()));
                me.note(&format!("{done:?}"));
            }
        })
    };
    let each = ["a Ok(())", "a Ok(())", "a Err(PoolFull)", "a 0", "a 1"];
    tell(&mut sim, a, jobs());
    tell(&mut sim, a, jobs());
    assert_eq!(journal.take(), [&["a started"][..], &each, &each].concat());
}

/// A message type of its own for each number.
struct Sort<const N: usize>;

impl<const N: usize> Actor for Sort<N> {
    type Msg = [u8; N];

    fn handle(&mut self, _: [u8; N], _: &mut Context<'_, [u8; N]>) {}
}

#[test]
#[should_panic(expected = "a program has far fewer message types")]
fn one_message_type_too_many_is_a_mistake_of_the_program() {
    let bounds = Bounds {
        realms_max: 2,
        ..Bounds::default()
    };
    let mut sim = Sim::bounded(1, 1, bounds);
    sim.shard(HERE).spawn(Sort::<1>);
    sim.shard(HERE).spawn(Sort::<2>);
    // The same ones again are no more.
    sim.shard(HERE).spawn(Sort::<1>);
    sim.run_until_idle();
    sim.shard(HERE).spawn(Sort::<3>);
}

/// What comes from another shard for a mailbox with patience is never refused: it waits, in order,
/// until there is room. Who is on the same shard is told that there is none.
#[test]
fn mail_for_a_patient_mailbox_waits_outside_of_it() {
    const MESSAGES: usize = 60;
    let (mut sim, journal) = (Sim::new(2, 7), Journal::default());
    sim.shard(HERE).set_patient_mailbox::<Do>(2);
    let slow = sim.shard(HERE).spawn(Doer::new("slow", &journal));
    // Each takes a turn of the shard for itself.
    let say = |number: usize| {
        Do::run(move |doer, cx| {
            doer.note(&number.to_string());
            cx.spend(u32::MAX);
        })
    };
    for number in 0..MESSAGES {
        let sent = sim.shard(THERE).send(slow, say(number));
        assert!(sent.is_ok(), "{number}");
        if number % 3 == 2 {
            sim.shard(THERE).turn();
        }
    }
    assert_eq!(sim.handle().waiting(HERE), MESSAGES);
    // One batch, then the next once there is room for something.
    for left in [57, 57, 54, 54] {
        sim.shard(HERE).turn();
        assert_eq!(sim.handle().waiting(HERE), left);
    }
    let refused = sim.shard(HERE).send(slow, Do::note("no"));
    assert!(matches!(refused, Err(SendError::Full(_))));
    sim.run_until_idle();
    let all = (0..MESSAGES).map(|number| format!("slow {number}"));
    let all: Vec<String> = std::iter::once("slow started".to_owned())
        .chain(all)
        .collect();
    assert_eq!(journal.take(), all);
}
