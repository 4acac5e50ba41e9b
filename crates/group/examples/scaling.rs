//! What names for everybody cost: the throughput of commands between simulated nodes, fully
//! connected beside groups, and the start-up of many nodes.
//!
//! Owns the load: a worker per node asks processes of other nodes, and now and then registers a
//! name, looks it up and forgets it. Everything above the sockets is what production runs; time is
//! virtual, and each frame costs its node's processor what `--frame-us` says, coming and going.
//! Prints one line of JSON per run.
#![allow(clippy::print_stdout, clippy::print_stderr, missing_docs)]

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use group::sim::{Costs, World};
use group::{
    Answer, Body, Command, Event, Limits, Mode, Name, NodeName, Options, Pid, Process, Scope,
};

/// Commands under way at one node.
const WORKERS: usize = 1;

/// What one run is.
struct Plan {
    nodes: usize,
    /// Members of a group; all nodes are one group if it is as many.
    size: usize,
    /// Share of commands that are about names of the group.
    global: f64,
    frame: Duration,
    warm: Duration,
    time: Duration,
}

/// What all workers know and count.
#[derive(Default)]
struct Shared {
    servers: OnceLock<Vec<Pid>>,
    is_counting: AtomicU64,
    commands: AtomicU64,
    names: AtomicU64,
    failed: AtomicU64,
}

struct Server;

impl Process for Server {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        if let Event::Request { from, body } = event {
            cx.reply(from, body).expect("room");
        }
    }
}

/// One command at a time, for ever.
struct Worker {
    shared: Arc<Shared>,
    node: usize,
    number: usize,
    size: usize,
    global: f64,
    step: u64,
}

const LONG: Duration = Duration::from_secs(600);

impl Worker {
    fn name(&self) -> Name {
        format!("n{}w{}", self.node, self.number).into()
    }

    fn group(&self) -> Name {
        format!("g{}", self.node / self.size).into()
    }

    fn count(&mut self, ok: bool, cx: &mut Scope<'_, '_>) {
        let was_global = std::mem::take(&mut self.step) > 0;
        if self.shared.is_counting.load(Ordering::Relaxed) == 1 {
            let counter = match (ok, was_global) {
                (false, _) => &self.shared.failed,
                (true, true) => &self.shared.names,
                (true, false) => &self.shared.commands,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        self.next(cx);
    }

    fn next(&mut self, cx: &mut Scope<'_, '_>) {
        if self.global > 0.0 && cx.rng().f64() < self.global {
            self.step = 1;
            let command = Command::Register {
                group: self.group(),
                name: self.name(),
                pid: cx.me().clone(),
                mode: Mode::New,
            };
            return cx.command(command, 1).expect("room");
        }
        let first = self.node / self.size * self.size;
        let servers = self.shared.servers.get().expect("servers");
        let last = (first + self.size).min(servers.len());
        let mut other = cx.rng().usize(first..last - 1);
        other += usize::from(other >= self.node);
        cx.call(&servers[other], "x", LONG, 0).expect("room");
    }

    fn named(&mut self, answer: Answer, cx: &mut Scope<'_, '_>) {
        let (group, name) = (self.group(), self.name());
        match (self.step, answer) {
            (1, Answer::Done(Ok(()))) => {
                self.step = 2;
                let node = None;
                cx.command(Command::Whereis { node, group, name }, 2)
                    .expect("room");
            }
            (2, Answer::Whereis(Some(_))) => {
                self.step = 3;
                cx.command(Command::Unregister { group, name }, 3)
                    .expect("room");
            }
            (3, Answer::Done(Ok(()))) => self.count(true, cx),
            _ => self.count(false, cx),
        }
    }
}

impl Process for Worker {
    fn started(&mut self, cx: &mut Scope<'_, '_>) {
        let pause = cx.rng().u64(0..1_000);
        cx.timer(Duration::from_micros(pause), 0);
    }

    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        match event {
            Event::Timer(_) => self.next(cx),
            Event::Reply { result, .. } => self.count(result.is_ok(), cx),
            Event::Answer { answer, .. } => self.named(answer, cx),
            _ => {}
        }
    }
}

/// The groups of a run, as a configuration.
fn config(names: &[String], size: usize) -> String {
    let section = |(at, nodes): (usize, &[String])| {
        format!("[[group]]\nname = \"g{at}\"\nnodes = {nodes:?}\n")
    };
    names.chunks(size).enumerate().map(section).collect()
}

fn limits(nodes: usize) -> Limits {
    Limits {
        links_max: nodes * 2 + 16,
        members_max: nodes,
        // A processor that is busy for seconds is not gone.
        handshake: Duration::from_secs(120),
        silence: Duration::from_secs(600),
        heartbeat: Duration::from_secs(60),
        ask: LONG,
        ..Limits::default()
    }
}

fn world(plan: &Plan, shared: &Arc<Shared>) -> Result<(World, Vec<NodeName>), Box<dyn Error>> {
    let costs = Costs {
        latency: Duration::from_micros(100),
        jitter: Duration::from_micros(50),
        frame_in: plan.frame,
        frame_out: plan.frame,
        turn: Duration::ZERO,
    };
    let mut world = World::new(1, costs);
    let names: Vec<String> = (0..plan.nodes).map(|at| format!("n{at:04}")).collect();
    let mut nodes = Vec::new();
    for (at, name) in names.iter().enumerate() {
        // Each node is told of its own group: what others there are it does not need.
        let first = at / plan.size * plan.size;
        let own = &names[first..(first + plan.size).min(names.len())];
        let text = config(own, plan.size).replace("g0", &format!("g{}", at / plan.size));
        let (shared, size, global) = (Arc::clone(shared), plan.size, plan.global);
        let options = Options::new(name, b"secret")
            .without_attributes()
            .config(&text)
            .limits(limits(plan.nodes))
            .function("server", |_: &Body| Box::new(Server) as Box<dyn Process>)
            .function("worker", move |args: &Body| {
                let number = args.first().copied().map_or(0, usize::from);
                Box::new(Worker {
                    shared: Arc::clone(&shared),
                    node: at,
                    number,
                    size,
                    global,
                    step: 0,
                }) as Box<dyn Process>
            });
        nodes.push(world.start(options)?);
    }
    Ok((world, nodes))
}

/// Runs the world until every node is linked with all members of its group; how long that took.
fn start_up(world: &mut World, nodes: &[NodeName], size: usize) -> Option<Duration> {
    let mut next = 0;
    for _ in 0..4_000 {
        world.run_for(Duration::from_millis(25));
        while next < nodes.len() {
            let members = size.min(nodes.len() - next / size * size) - 1;
            match world.ask(&nodes[next], Command::Linked) {
                Some(Answer::Nodes(linked)) if linked.len() == members => next += 1,
                _ => break,
            }
        }
        if next == nodes.len() {
            return Some(Duration::from_nanos(world.now().as_nanos()));
        }
    }
    None
}

fn spawn(world: &mut World, node: &NodeName, function: &str, args: Vec<u8>) -> Option<Pid> {
    let command = Command::Spawn {
        node: node.clone(),
        function: function.into(),
        args: args.into(),
        link: false,
        monitor: None,
        deadline: LONG,
    };
    match world.ask(node, command) {
        Some(Answer::Spawned(Ok(pid))) => Some(pid),
        _ => None,
    }
}

fn run(plan: &Plan) -> Result<(), Box<dyn Error>> {
    let shared = Arc::new(Shared::default());
    let (mut world, nodes) = world(plan, &shared)?;
    let up = start_up(&mut world, &nodes, plan.size).ok_or("the nodes do not link")?;
    let (frames, bytes) = nodes.iter().fold((0, 0), |(frames, bytes), node| {
        let (more, much) = world.traffic(node);
        (frames + more, bytes + much)
    });
    let mut rate = 0.0;
    if !plan.time.is_zero() {
        let servers: Option<Vec<Pid>> = nodes
            .iter()
            .map(|node| spawn(&mut world, node, "server", Vec::new()))
            .collect();
        let _ = shared.servers.set(servers.ok_or("no servers")?);
        for number in 0..WORKERS {
            for node in &nodes {
                spawn(&mut world, node, "worker", vec![number as u8]).ok_or("no worker")?;
            }
        }
        world.run_for(plan.warm);
        shared.is_counting.store(1, Ordering::Relaxed);
        world.run_for(plan.time);
        rate = shared.commands.load(Ordering::Relaxed) as f64 / plan.time.as_secs_f64();
    }
    let seconds = plan.time.as_secs_f64().max(1e-9);
    println!(
        "{{\"nodes\":{},\"group\":{},\"global\":{},\"frame_us\":{},\"start_ms\":{},\
         \"start_frames\":{frames},\"start_bytes\":{bytes},\"commands_per_s\":{:.0},\
         \"names_per_s\":{:.1},\"failed\":{}}}",
        plan.nodes,
        plan.size.min(plan.nodes),
        plan.global,
        plan.frame.as_micros(),
        up.as_millis(),
        rate,
        shared.names.load(Ordering::Relaxed) as f64 / seconds,
        shared.failed.load(Ordering::Relaxed),
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let find = |name: &str, default: f64| -> Result<f64, Box<dyn Error>> {
        match arguments.iter().position(|argument| argument == name) {
            Some(at) => Ok(arguments.get(at + 1).ok_or("a value is missing")?.parse()?),
            None => Ok(default),
        }
    };
    let nodes = find("--nodes", 10.0)? as usize;
    let plan = Plan {
        nodes,
        size: (find("--group", nodes as f64)? as usize).clamp(2, nodes.max(2)),
        global: find("--global", 0.0)?,
        frame: Duration::from_secs_f64(find("--frame-us", 100.0)? / 1e6),
        warm: Duration::from_secs_f64(find("--warm", 1.0)?),
        time: Duration::from_secs_f64(find("--time", 1.0)?),
    };
    if nodes < 2 {
        return Err("at least two nodes".into());
    }
    run(&plan)
}
