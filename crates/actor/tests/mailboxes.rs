//! Mailboxes of live actors against a model: order, priority, hold, bounds, ends and redelivery.

mod common;

use std::collections::VecDeque;

use actor::sim::Sim;
use actor::{Mail, Name, SendError};
use common::{Do, Doers, HERE, Journal};
use proptest::prelude::{
    Just, ProptestConfig, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

#[derive(Clone, Copy, Debug)]
enum Op {
    Send,
    SendHold,
    SendStop,
    SendPanic,
    Urgent,
    UrgentRelease,
    Run,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => Just(Op::Send),
        1 => Just(Op::SendHold),
        1 => Just(Op::SendStop),
        1 => Just(Op::SendPanic),
        2 => Just(Op::Urgent),
        2 => Just(Op::UrgentRelease),
        3 => Just(Op::Run),
    ]
}

const BOUND: usize = 6;

#[derive(Clone, Copy)]
enum Work {
    Note(u32),
    Hold,
    Release,
    Stop,
    Panic,
}

/// One entity as the documentation describes it.
#[derive(Default)]
struct Model {
    loaded: bool,
    started: bool,
    held: bool,
    urgent: VecDeque<Work>,
    normal: VecDeque<Work>,
    seen: Vec<String>,
    crashes: u32,
    quarantined: bool,
}

impl Model {
    fn send(&mut self, work: Work) -> bool {
        if self.quarantined || (self.loaded && self.normal.len() >= BOUND) {
            return false;
        }
        self.loaded = true;
        self.normal.push_back(work);
        true
    }

    fn run(&mut self) {
        while self.loaded {
            if !self.started {
                self.started = true;
                self.seen.push("x started".into());
            }
            let next = match self.urgent.pop_front() {
                Some(work) => work,
                None if self.held => return,
                None => match self.normal.pop_front() {
                    Some(work) => work,
                    None => return,
                },
            };
            match next {
                Work::Note(n) => self.seen.push(format!("x {n}")),
                Work::Hold => self.held = true,
                Work::Release => self.held = false,
                Work::Stop => self.end("normal"),
                Work::Panic => {
                    self.crashes += 1;
                    self.quarantined = self.crashes > actor::limits::CRASHES_MAX;
                    self.end("failed: as told");
                }
            }
        }
    }

    fn end(&mut self, reason: &str) {
        self.seen.push(format!("x stopped: {reason}"));
        let left: Vec<Work> = self.urgent.drain(..).chain(self.normal.drain(..)).collect();
        (self.loaded, self.started, self.held) = (false, false, false);
        for work in left {
            if !self.send(work) {
                let (text, why) = match work {
                    Work::Note(n) => (n.to_string(), self.quarantined),
                    _ => ("a job".to_string(), self.quarantined),
                };
                let why = if why { "Quarantined" } else { "Full" };
                self.seen.push(format!("x refused {text}: {why}"));
            }
        }
    }
}

fn message(work: Work) -> Do {
    match work {
        Work::Note(n) => Do::note(&n.to_string()),
        Work::Hold => Do::run(|_, cx| cx.hold()),
        Work::Release => Do::run(|_, cx| cx.release()),
        Work::Stop => Do::stop(),
        Work::Panic => Do::run(|_, cx| cx.stop_with(actor::Reason::Failed("as told".into()))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn entity_agrees_with_its_model(ops in proptest::collection::vec(op(), 1..80)) {
        let (mut sim, journal) = (Sim::new(1, 1), Journal::default());
        let class = Doers { journal: journal.clone(), mailbox_max: BOUND, bad_prefix: "" };
        sim.shard(HERE).set_class(class);
        let name = Name::from("x");
        let mut model = Model::default();
        for (n, op) in (0u32..).zip(ops) {
            let work = match op {
                Op::Send | Op::Urgent => Work::Note(n),
                Op::SendHold => Work::Hold,
                Op::SendStop => Work::Stop,
                Op::SendPanic => Work::Panic,
                Op::UrgentRelease => Work::Release,
                Op::Run => {
                    sim.run_until_idle();
                    model.run();
                    prop_assert_eq!(journal.take(), std::mem::take(&mut model.seen));
                    continue;
                }
            };
            if matches!(op, Op::Urgent | Op::UrgentRelease) {
                let addr = sim.shard(HERE).whereis::<Do>("x");
                prop_assert_eq!(addr.is_some(), model.loaded);
                if let Some(addr) = addr {
                    let sent = sim.shard(HERE).send_priority(addr, message(work));
                    prop_assert!(sent.is_ok());
                    model.urgent.push_back(work);
                }
            } else {
                let sent = sim.shard(HERE).send_named(HERE, &name, message(work));
                prop_assert!(!matches!(sent, Err(SendError::Gone(_))));
                prop_assert_eq!(sent.is_ok(), model.send(work));
            }
        }
    }
}
