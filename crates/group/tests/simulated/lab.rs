//! What the tests over a simulated network share: processes and a world to run them in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use group::sim::{Costs, World};
use group::{
    Answer, Body, CallError, Command, Event, GroupError, Mode, NodeName, Options, Pid, Process,
    Reason, Scope, SpawnError,
};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Counts what it is sent; ends, panics or answers as it is told.
pub(crate) struct Worker {
    heard: Arc<AtomicU64>,
}

impl Process for Worker {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        match event {
            Event::Message { body, .. } if &body[..] == b"panic" => panic!("told to"),
            Event::Message { .. } => drop(self.heard.fetch_add(1, Ordering::Relaxed)),
            Event::Request { body, .. } if &body[..] == b"die" => cx.stop(Reason::Normal),
            Event::Request { body, .. } if &body[..] == b"silence" => {}
            Event::Request { from, body } => cx.reply(from, body).expect("room"),
            _ => {}
        }
    }
}

/// Watches what its argument names, by link and monitor, and notes what it hears.
pub(crate) type Heard = Arc<Mutex<Vec<String>>>;

pub(crate) struct Watcher {
    whom: Pid,
    heard: Heard,
}

impl Process for Watcher {
    fn started(&mut self, cx: &mut Scope<'_, '_>) {
        cx.trap_exits(true).expect("room");
        cx.monitor_nodes(true).expect("room");
        cx.link(&self.whom).expect("room");
        cx.monitor(&self.whom).expect("room");
    }

    fn handle(&mut self, event: Event, _: &mut Scope<'_, '_>) {
        let text = match event {
            Event::Down { reason, .. } => format!("down: {reason}"),
            Event::Exit { reason, .. } => format!("exit: {reason}"),
            Event::NodeUp(node) => format!("up: {node}"),
            Event::NodeDown(node, why) => format!("gone: {node}: {why}"),
            _ => return,
        };
        self.heard.lock().expect("no panic").push(text);
    }
}

pub(crate) struct Lab {
    pub(crate) world: World,
    pub(crate) heard: Arc<AtomicU64>,
    noted: Heard,
}

/// The process that the argument of a function names.
pub(crate) fn parse(args: &Body) -> Pid {
    let text = String::from_utf8(args.to_vec()).expect("text");
    let mut parts = text.split(' ');
    let mut next = || parts.next().expect("a part").to_owned();
    Pid {
        node: name(&next()),
        life: next().parse().expect("a number"),
        id: next().parse().expect("a number"),
    }
}

pub(crate) fn name(text: &str) -> NodeName {
    NodeName::new(text).expect("a name")
}

impl Lab {
    pub(crate) fn new() -> Self {
        Lab::seeded(3)
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        Lab {
            world: World::new(seed, Costs::default()),
            heard: Arc::default(),
            noted: Heard::default(),
        }
    }

    pub(crate) fn options(&self, node: &str) -> Options {
        let (heard, noted) = (Arc::clone(&self.heard), Arc::clone(&self.noted));
        Options::new(node, b"secret")
            .function("worker", move |_: &Body| {
                let heard = Arc::clone(&heard);
                Box::new(Worker { heard }) as Box<dyn Process>
            })
            .function("watcher", move |args: &Body| {
                let (whom, heard) = (parse(args), Arc::clone(&noted));
                Box::new(Watcher { whom, heard }) as Box<dyn Process>
            })
    }

    pub(crate) fn start(&mut self, nodes: &[&str]) {
        for node in nodes {
            self.world.start(self.options(node)).expect("a node");
        }
        self.world.run_for(SECOND);
    }

    pub(crate) fn ask(&mut self, node: &str, command: Command) -> Answer {
        self.world.ask(&name(node), command).expect("an answer")
    }

    pub(crate) fn spawn(
        &mut self,
        from: &str,
        on: &str,
        function: &str,
        args: &str,
    ) -> Result<Pid, SpawnError> {
        let command = Command::Spawn {
            node: name(on),
            function: function.into(),
            args: args.to_owned().into(),
            link: false,
            monitor: None,
            deadline: SECOND * 5,
        };
        match self.ask(from, command) {
            Answer::Spawned(result) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn call(&mut self, from: &str, to: &Pid, body: &str) -> Result<Body, CallError> {
        let command = Command::Call {
            to: to.clone(),
            body: body.to_owned().into(),
            deadline: SECOND * 5,
        };
        match self.ask(from, command) {
            Answer::Called(result) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn watch(&mut self, from: &str, whom: &Pid) {
        let args = format!("{} {} {}", whom.node, whom.life, whom.id);
        self.spawn(from, from, "watcher", &args).expect("a watcher");
        self.world.run_for(SECOND);
    }

    pub(crate) fn group(&mut self, at: &str, group: &str, nodes: &[&str]) {
        let nodes = nodes.iter().map(|node| name(node)).collect();
        let answer = self.ask(
            at,
            Command::NewGroup {
                name: Some(group.into()),
                nodes,
            },
        );
        assert!(matches!(answer, Answer::Group(Ok(_))), "{answer:?}");
        self.world.run_for(SECOND);
    }

    pub(crate) fn register(
        &mut self,
        at: &str,
        group: &str,
        key: &str,
        pid: &Pid,
    ) -> Result<(), GroupError> {
        let answer = self.ask(
            at,
            Command::Register {
                group: group.into(),
                name: key.into(),
                pid: pid.clone(),
                mode: Mode::New,
            },
        );
        match answer {
            Answer::Done(result) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn whereis(&mut self, at: &str, group: &str, key: &str) -> Option<Pid> {
        let answer = self.ask(
            at,
            Command::Whereis {
                node: None,
                group: group.into(),
                name: key.into(),
            },
        );
        match answer {
            Answer::Whereis(pid) => pid,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn noted(&self) -> Vec<String> {
        std::mem::take(&mut *self.noted.lock().expect("no panic"))
    }

    pub(crate) fn cut(&mut self, some: &[&str], others: &[&str], is_cut: bool) {
        for one in some {
            for other in others {
                if is_cut {
                    self.world.cut(&name(one), &name(other));
                } else {
                    self.world.heal(&name(one), &name(other));
                }
            }
        }
    }
}
