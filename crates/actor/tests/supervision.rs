//! Supervision trees: each strategy by hand, then a model of supervisors against the
//! implementation.

mod common;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use actor::sim::Sim;
use actor::{
    ChildSpec, ChildStatus, Intensity, Mail, Name, Restart, Strategy, Supervisor, SupervisorMsg,
};
use common::{Do, Doer, HERE, Journal};
use proptest::prelude::{
    Just, ProptestConfig, Strategy as Generate, prop_assert_eq, prop_oneof, proptest,
};
use telemetry::Counter;

const SECOND: Duration = Duration::from_secs(1);

/// Children need a journal, which is not `Send`; this carries their names only.
fn child(id: &'static str, restart: Restart) -> ChildSpec {
    ChildSpec::with(id, restart, move |core| {
        let addr = core.spawn(Doer::new(id, &Journal::default()));
        core.register(addr, &Name::from(id));
        addr.id()
    })
}

fn tell(sim: &mut Sim, id: &str, msg: Do) {
    if let Some(addr) = sim.shard(HERE).whereis::<Do>(id) {
        sim.shard(HERE).send(addr, msg).map_err(drop).unwrap();
    }
    sim.run_until_idle();
}

fn addresses(sim: &mut Sim, ids: &[&str]) -> Vec<Option<actor::Addr<Do>>> {
    ids.iter()
        .map(|id| sim.shard(HERE).whereis::<Do>(id))
        .collect()
}

#[test]
fn strategies_restart_whom_they_say() {
    let ids = ["a", "b", "c"];
    for (strategy, replaced) in [
        (Strategy::OneForOne, [false, true, false]),
        (Strategy::RestForOne, [false, true, true]),
        (Strategy::OneForAll, [true, true, true]),
    ] {
        let mut sim = Sim::new(1, 1);
        let mut supervisor = Supervisor::new(strategy, Intensity::default());
        for id in ids {
            supervisor = supervisor.child(child(id, Restart::Permanent));
        }
        sim.shard(HERE).spawn(supervisor);
        sim.run_until_idle();
        let before = addresses(&mut sim, &ids);
        assert!(before.iter().all(Option::is_some));
        tell(&mut sim, "b", Do::panic());
        let after = addresses(&mut sim, &ids);
        assert!(after.iter().all(Option::is_some));
        let changed: Vec<bool> = before.iter().zip(&after).map(|(b, a)| b != a).collect();
        assert_eq!(changed, replaced, "{strategy:?}");
    }
}

#[test]
fn children_end_in_reverse_order() {
    thread_local! {
        static ORDER: Journal = Journal::default();
    }
    let spec = |id: &'static str| {
        ChildSpec::new(id, Restart::Permanent, move || {
            Doer::new(id, &ORDER.with(Journal::clone))
        })
    };
    let mut sim = Sim::new(1, 1);
    let supervisor = Supervisor::new(Strategy::OneForAll, Intensity::default())
        .child(spec("a"))
        .child(spec("b"))
        .child(spec("c"));
    let addr = sim.shard(HERE).spawn(supervisor);
    sim.run_until_idle();
    assert_eq!(
        ORDER.with(Journal::take),
        ["a started", "b started", "c started"]
    );
    sim.shard(HERE).kill(addr.id());
    sim.run_until_idle();
    assert_eq!(
        ORDER.with(Journal::take),
        [
            "c stopped: shutdown",
            "b stopped: shutdown",
            "a stopped: shutdown"
        ]
    );
    assert_eq!(sim.shard(HERE).actors(), 0);
}

#[test]
fn inner_supervisor_escalates_and_is_restarted_by_the_outer_one() {
    let inner = || {
        Supervisor::new(
            Strategy::OneForOne,
            Intensity {
                max_restarts: 1,
                within: SECOND,
            },
        )
        .child(child("worker", Restart::Permanent))
    };
    let mut sim = Sim::new(1, 1);
    let outer = Supervisor::new(Strategy::OneForOne, Intensity::default())
        .child(child("sibling", Restart::Permanent))
        .child(ChildSpec::new("inner", Restart::Permanent, inner));
    sim.shard(HERE).spawn(outer);
    sim.run_until_idle();
    let sibling = sim.shard(HERE).whereis::<Do>("sibling");
    tell(&mut sim, "worker", Do::panic());
    tell(&mut sim, "worker", Do::panic());
    assert_eq!(sim.shard(HERE).counter(Counter::ActorEscalations), 1);
    assert!(sim.shard(HERE).whereis::<Do>("worker").is_some());
    assert_eq!(sim.shard(HERE).whereis::<Do>("sibling"), sibling);
    assert_eq!(sim.shard(HERE).actors(), 4);
}

#[test]
fn child_that_panics_in_started_exhausts_the_intensity() {
    thread_local! {
        static SEEN: Journal = Journal::default();
    }
    let mut sim = Sim::new(1, 1);
    let bad = ChildSpec::new("bad", Restart::Permanent, || {
        let mut doer = Doer::new("bad", &SEEN.with(Journal::clone));
        doer.panics_in_started = true;
        doer
    });
    let supervisor = Supervisor::new(Strategy::OneForOne, Intensity::default())
        .child(child("good", Restart::Permanent))
        .child(bad);
    sim.shard(HERE).spawn(supervisor);
    sim.run_until_idle();
    assert_eq!(sim.shard(HERE).actors(), 0);
    assert_eq!(sim.shard(HERE).counter(Counter::ActorRestarts), 3);
}

#[test]
fn children_can_be_added_removed_and_listed() {
    let mut sim = Sim::new(1, 1);
    let addr = sim
        .shard(HERE)
        .spawn(Supervisor::new(Strategy::OneForOne, Intensity::default()));
    let start = SupervisorMsg::Start(child("late", Restart::Permanent));
    sim.shard(HERE).send(addr, start).map_err(drop).unwrap();
    sim.run_until_idle();
    let list = |sim: &mut Sim| -> Vec<ChildStatus> {
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let asker = sim
            .shard(HERE)
            .spawn(Doer::new("asker", &Journal::default()));
        let sink = Arc::clone(&seen);
        let ask = Do::run(move |_, cx| {
            cx.ask(addr, SupervisorMsg::Children, SECOND, move |answer| {
                *sink.lock().unwrap() = answer.unwrap();
                Do::stop()
            });
        });
        sim.shard(HERE).send(asker, ask).map_err(drop).unwrap();
        sim.run_until_idle();
        let seen = seen.lock().unwrap();
        seen.clone()
    };
    let found = list(&mut sim);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].actor,
        sim.shard(HERE).whereis::<Do>("late").map(|addr| addr.id())
    );
    sim.shard(HERE)
        .send(addr, SupervisorMsg::Remove("late".into()))
        .map_err(drop)
        .unwrap();
    sim.run_until_idle();
    assert!(list(&mut sim).is_empty());
    assert!(sim.shard(HERE).whereis::<Do>("late").is_none());
}

// ---- The model ------------------------------------------------------------------------------

#[derive(Clone, Debug)]
enum Op {
    Crash(usize),
    Stop(usize),
    Wait(u64),
}

fn op() -> impl Generate<Value = Op> {
    prop_oneof![
        4 => (0usize..5).prop_map(Op::Crash),
        3 => (0usize..5).prop_map(Op::Stop),
        2 => (1u64..1500).prop_map(Op::Wait),
    ]
}

/// A supervisor as the documentation describes it: which children run, and how often each started.
struct Model {
    strategy: Strategy,
    max: usize,
    within: u64,
    now: u64,
    /// (index, restart, is running); forgotten children are removed.
    children: Vec<(usize, Restart, bool)>,
    starts: [u32; 5],
    restarts: VecDeque<u64>,
    alive: bool,
}

impl Model {
    fn fail(&mut self, index: usize, crashed: bool) {
        let Some(at) = self
            .children
            .iter()
            .position(|(i, _, on)| *i == index && *on)
        else {
            return;
        };
        self.children[at].2 = false;
        match self.children[at].1 {
            Restart::Temporary => {
                self.children.remove(at);
                return;
            }
            Restart::Transient if !crashed => return,
            _ => {}
        }
        self.restarts.push_back(self.now);
        self.restarts.retain(|then| self.now - then <= self.within);
        if self.restarts.len() > self.max {
            self.alive = false;
            self.children.clear();
            return;
        }
        let range = match self.strategy {
            Strategy::OneForOne => at..at + 1,
            Strategy::RestForOne => at..self.children.len(),
            Strategy::OneForAll => 0..self.children.len(),
        };
        let mut position = 0;
        let starts = &mut self.starts;
        self.children.retain_mut(|(i, restart, on)| {
            let is_concerned = range.contains(&position);
            position += 1;
            if !is_concerned {
                return true;
            }
            if *restart == Restart::Temporary {
                return false;
            }
            starts[*i] += 1;
            *on = true;
            true
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn supervisor_agrees_with_its_model(
        strategy in prop_oneof![
            Just(Strategy::OneForOne), Just(Strategy::RestForOne), Just(Strategy::OneForAll)
        ],
        kinds in proptest::collection::vec(0u8..3, 1..6),
        max in 0u32..5,
        within in 1u64..3000,
        ops in proptest::collection::vec(op(), 1..30),
    ) {
        const IDS: [&str; 5] = ["c0", "c1", "c2", "c3", "c4"];
        let restart_of = |kind: u8| match kind {
            0 => Restart::Permanent,
            1 => Restart::Transient,
            _ => Restart::Temporary,
        };
        let starts: Arc<[AtomicU32; 5]> = Arc::default();
        let intensity = Intensity { max_restarts: max, within: Duration::from_millis(within) };
        let mut supervisor = Supervisor::new(strategy, intensity);
        let mut model = Model {
            strategy, max: max as usize, within, now: 0, children: Vec::new(),
            starts: [0; 5], restarts: VecDeque::new(), alive: true,
        };
        for (index, kind) in kinds.iter().enumerate() {
            let (id, counted) = (IDS[index], Arc::clone(&starts));
            let start = move |core: &mut actor::Core| {
                counted[index].fetch_add(1, Ordering::SeqCst);
                let addr = core.spawn(Doer::new(id, &Journal::default()));
                core.register(addr, &Name::from(id));
                addr.id()
            };
            supervisor = supervisor.child(ChildSpec::with(id, restart_of(*kind), start));
            model.children.push((index, restart_of(*kind), true));
            model.starts[index] += 1;
        }
        let mut sim = Sim::new(1, 1);
        let addr = sim.shard(HERE).spawn(supervisor);
        sim.run_until_idle();
        for op in ops {
            match op {
                Op::Crash(index) => {
                    tell(&mut sim, IDS[index], Do::run(|_, cx| {
                        cx.stop_with(actor::Reason::Failed("as told".into()));
                    }));
                    model.fail(index, true);
                }
                Op::Stop(index) => {
                    tell(&mut sim, IDS[index], Do::stop());
                    model.fail(index, false);
                }
                Op::Wait(ms) => {
                    sim.advance(Duration::from_millis(ms));
                    model.now += ms;
                }
            }
            prop_assert_eq!(sim.shard(HERE).is_alive(addr.id()), model.alive);
            for (index, id) in IDS.iter().enumerate() {
                let runs = model.children.iter().any(|(i, _, on)| *i == index && *on);
                let found = sim.shard(HERE).whereis::<Do>(id).is_some();
                prop_assert_eq!(found, runs, "{}", id);
                prop_assert_eq!(starts[index].load(Ordering::SeqCst), model.starts[index]);
            }
        }
    }
}
