//! Commands about names that overlap with each other, with links that break and nodes that end:
//! whatever the order, members agree afterwards, and on processes that live.
//!
//! The model of the crate waits after each command until nothing happens any more; here nobody
//! does.

use std::collections::BTreeMap;
use std::time::Duration;

use group::{Answer, Command, Limits, Mode, Name, Pid};
use stdx::rand::Rng;

use crate::lab::{Lab, SECOND, name};

/// Members of the group, and a node beside it whose processes have names there too.
const MEMBERS: [&str; 5] = ["b", "c", "d", "e", "f"];
const NODES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "z"];
const NAMES: [&str; 3] = ["one", "two", "three"];

struct Run {
    lab: Lab,
    rng: Rng,
    pids: Vec<Pid>,
    down: Vec<&'static str>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut run = Run {
            lab: Lab::seeded(seed),
            rng: Rng::with_seed(seed),
            pids: Vec::new(),
            down: NODES.to_vec(),
        };
        for node in NODES {
            run.start(node);
        }
        run.lab.group("b", "g", &MEMBERS);
        run
    }

    fn start(&mut self, node: &'static str) {
        let limits = Limits {
            heartbeat: SECOND,
            silence: SECOND * 4,
            redial_max: SECOND * 2,
            ..Limits::default()
        };
        self.down.retain(|other| *other != node);
        let options = self.lab.options(node).without_attributes().limits(limits);
        self.lab.world.start(options).expect("a node");
        for _ in 0..3 {
            let pid = self.lab.spawn(node, node, "worker", "").expect("room");
            self.pids.push(pid);
        }
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.rng.u64(..list.len() as u64) as usize].clone()
    }

    fn act(&mut self) {
        let (at, key) = (self.pick(&MEMBERS), self.pick(&NAMES));
        let pids = self.pids.clone();
        // Mostly one of the last lives, and now and then one that is long gone.
        let recent = &pids[pids.len().saturating_sub(21)..];
        let pid = self.pick(recent);
        let (group, key): (Name, Name) = ("g".into(), key.into());
        let other = self.pick(&NODES);
        let register = |mode| Command::Register {
            group: group.clone(),
            name: key.clone(),
            pid: pid.clone(),
            mode,
        };
        let command = match self.rng.u64(..20) {
            0..6 => register(Mode::New),
            6..10 => register(Mode::Replace),
            10..13 => Command::Unregister { group, name: key },
            13..15 => Command::Kill(pid),
            15 => return self.lab.cut(&[at], &[other], at != other),
            16 | 17 => return self.lab.cut(&[at], &[other], false),
            18 => {
                self.lab.world.crash(&name(other));
                return self.down.push(other);
            }
            _ => {
                return self
                    .down
                    .clone()
                    .into_iter()
                    .for_each(|node| self.start(node));
            }
        };
        self.lab.world.command(&name(at), command);
    }

    /// Heals everything, waits, and tells who has which name. A process to which both halves of a
    /// split group gave a name has two, as in the model.
    fn settle(&mut self) -> BTreeMap<&'static str, Pid> {
        self.lab.cut(&NODES, &NODES, false);
        for node in self.down.clone() {
            self.start(node);
        }
        self.lab.world.run_for(SECOND * 120);
        let mut found = BTreeMap::new();
        for key in NAMES {
            let told = MEMBERS.map(|at| self.lab.whereis(at, "g", key));
            assert!(told.iter().all(|pid| *pid == told[0]), "{key}: {told:?}");
            if let Some(pid) = told[0].clone() {
                let answer = self.lab.call("b", &pid, "x");
                assert_eq!(answer.as_deref(), Ok(&b"x"[..]), "{key}: {pid} lives");
                found.insert(key, pid);
            }
        }
        found
    }
}

#[test]
fn members_agree_on_living_processes_whatever_overlaps() {
    let runs = std::env::var("GROUP_AGREE_RUNS").ok();
    let runs: u64 = runs.and_then(|text| text.parse().ok()).unwrap_or(30);
    let mut named = 0;
    for seed in 0..runs {
        let mut run = Run::new(seed);
        let steps = 20 + run.rng.u64(..60);
        for _ in 0..steps {
            run.act();
            let pause = match run.rng.u64(..10) {
                0..6 => Duration::from_micros(run.rng.u64(..3_000)),
                6..9 => Duration::from_millis(run.rng.u64(..300)),
                _ => Duration::from_millis(run.rng.u64(..9_000)),
            };
            run.lab.world.run_for(pause);
        }
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.settle()));
        let found = found.unwrap_or_else(|why| {
            let why = why.downcast_ref::<String>();
            panic!("seed {seed}: {why:?}")
        });
        named += found.len();
        // A name that nobody has is free, one that somebody has is not.
        let at = run.pick(&MEMBERS);
        let pid = run.lab.spawn(at, at, "worker", "").expect("room");
        for key in NAMES {
            let is_free = !found.contains_key(key);
            let mode = if is_free { Mode::New } else { Mode::Replace };
            let command = Command::Register {
                group: "g".into(),
                name: key.into(),
                pid: pid.clone(),
                mode,
            };
            let answer = run.lab.ask(at, command);
            let is_done = answer == Answer::Done(Ok(()));
            let has_name = run.lab.whereis("b", "g", key) == Some(pid.clone());
            assert!(is_done == has_name, "seed {seed}: {key}: {answer:?}");
            if is_done {
                break;
            }
        }
    }
    assert!(named > runs as usize / 2, "too few names: {named}");
}
