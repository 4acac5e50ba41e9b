//! Commands between nodes, after DE-Bench: `bench-actors de NODES WORKERS SECONDS FOLDER [GROUPS]`.
//!
//! Owns ten commands, the threads that give them, and files of figures with the published columns:
//! `summary.csv`, `COMMAND_latencies.csv` in microseconds, `errors.csv`. The nodes are linked over
//! TCP on addresses of this machine; with GROUPS they are cut into so many groups, and names are
//! registered in those instead of in one group of all. Deliberately not here: a simulated network.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use group::{Body, Event, Node, NodeHandle, NodeName, Options, Pid, Process, Scope};
use stdx::rand::Rng;
use stdx::time::{Clock, Moment, SystemClock};

/// How long a command may take.
const WITHIN: Duration = Duration::from_secs(60);
/// How often a line is written.
const WINDOW: Duration = Duration::from_secs(1);
/// Figures that wait for the thread that writes; a worker whose figure finds no room waits.
const FIGURES_MAX: usize = 65_536;
/// The commands. A name that is registered is looked up and taken back before the next command.
const COMMANDS: [&str; 10] = [
    "spawning",
    "remote_call",
    "gen_server_call",
    "fsm_server_call",
    "global_register",
    "global_whereis",
    "global_unregister",
    "local_register",
    "local_whereis",
    "local_unregister",
];

/// What is asked for on the command line.
pub(crate) struct Bench {
    pub(crate) nodes: usize,
    pub(crate) workers: usize,
    pub(crate) seconds: u64,
    pub(crate) folder: PathBuf,
    pub(crate) groups: usize,
}

/// Answers what it is asked.
struct Server;

impl Process for Server {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        if let Event::Request { from, body } = event {
            // A node that is too busy drops the question, which its asker hears of.
            let _ = cx.reply(from, body);
        }
    }
}

/// Has two states, and answers with the one that it leaves.
struct Machine {
    is_open: bool,
}

impl Process for Machine {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        if let Event::Request { from, .. } = event {
            self.is_open = !self.is_open;
            let _ = cx.reply(from, vec![u8::from(!self.is_open)]);
        }
    }
}

/// Ends as soon as it has begun.
struct Brief;

impl Process for Brief {
    fn started(&mut self, cx: &mut Scope<'_, '_>) {
        cx.stop(group::Reason::Normal);
    }

    fn handle(&mut self, _: Event, _: &mut Scope<'_, '_>) {}
}

/// One figure: which command, how long it took, whether it succeeded.
type Figure = (usize, Duration, bool);

fn free_name(number: usize) -> Result<String, String> {
    // Many nodes have many addresses, so that none runs out of ports.
    let host = format!("127.0.{}.{}", number / 200, number % 200 + 1);
    let listener = TcpListener::bind((host.as_str(), 0)).map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    Ok(format!("n{number}@{address}"))
}

fn start(number: usize) -> Result<Node, String> {
    let options = Options::new(&free_name(number)?, b"de")
        .function("server", |_: &Body| Box::new(Server) as Box<dyn Process>)
        .function("brief", |_: &Body| Box::new(Brief) as Box<dyn Process>)
        .function("machine", |_: &Body| {
            Box::new(Machine { is_open: false }) as Box<dyn Process>
        });
    Node::start(options).map_err(|error| error.to_string())
}

/// What a worker needs to know of a node.
#[derive(Clone)]
struct Target {
    name: NodeName,
    handle: NodeHandle,
    server: Pid,
    machine: Pid,
    group: String,
}

/// One thread that gives commands.
struct Worker {
    number: usize,
    targets: Vec<Target>,
    own: usize,
    rng: Rng,
    clock: SystemClock,
    figures: SyncSender<Figure>,
    names: u64,
}

impl Worker {
    fn time<T, E>(&mut self, command: usize, what: impl FnOnce(&mut Self) -> Result<T, E>) -> bool {
        let began = self.clock.now();
        let is_done = what(self).is_ok();
        let took = self.clock.now().saturating_since(began);
        let _ = self.figures.send((command, took, is_done));
        is_done
    }

    /// A node other than the own one.
    fn remote(&mut self) -> Target {
        let step = 1 + self.rng.usize(..self.targets.len() - 1);
        let at = (self.own + step) % self.targets.len();
        self.targets[at].clone()
    }

    /// Registers a name, looks it up, takes it back.
    fn name(&mut self, first: usize, group: &str) {
        self.names += 1;
        let name = format!("{}-{}-{}", self.number, self.own, self.names);
        let own = self.targets[self.own].clone();
        // Each name has a process of its own: one may have but one name in a group.
        let Ok(pid) = own.handle.spawn(&own.name, "server", Vec::new(), WITHIN) else {
            return;
        };
        if self.time(first, |_| own.handle.register_name(group, &name, &pid)) {
            self.time(first + 1, |_| match own.handle.whereis_name(group, &name) {
                Ok(Some(found)) if found == pid => Ok(()),
                other => Err(format!("{other:?}")),
            });
            self.time(first + 2, |_| own.handle.unregister_name(group, &name));
        }
        let _ = own.handle.kill(&pid);
    }

    fn step(&mut self) {
        let own = self.targets[self.own].handle.clone();
        let target = self.remote();
        match self.rng.usize(..6) {
            0 => {
                self.time(0, |_| own.spawn(&target.name, "brief", Vec::new(), WITHIN));
            }
            1 => {
                // A process for the call alone, which is asked once.
                self.time(1, |_| -> Result<Body, String> {
                    let pid = own.spawn(&target.name, "server", Vec::new(), WITHIN);
                    let pid = pid.map_err(|error| error.to_string())?;
                    let answer = own.call(&pid, vec![7; 64], WITHIN);
                    let _ = own.kill(&pid);
                    answer.map_err(|error| error.to_string())
                });
            }
            2 => {
                self.time(2, |_| own.call(&target.server, vec![7; 64], WITHIN));
            }
            3 => {
                self.time(3, |_| own.call(&target.machine, vec![7; 64], WITHIN));
            }
            4 => {
                let group = self.targets[self.own].group.clone();
                self.name(4, &group);
            }
            _ => {
                let group = format!("local-{}", self.own);
                self.name(7, &group);
            }
        }
    }
}

/// Latencies of one command in one window, in microseconds.
#[derive(Default)]
struct Latencies {
    good: Vec<u64>,
    errors: u64,
}

impl Latencies {
    fn line(&mut self, elapsed: f64, window: f64) -> String {
        self.good.sort_unstable();
        let count = self.good.len();
        let at = |share: f64| {
            let index = (count as f64 * share) as usize;
            self.good
                .get(index.min(count.saturating_sub(1)))
                .copied()
                .unwrap_or(0)
        };
        let mean = self.good.iter().sum::<u64>() as f64 / count.max(1) as f64;
        format!(
            "{elapsed:.1}, {window:.1}, {count}, {}, {mean:.1}, {}, {}, {}, {}, {}, {}\n",
            at(0.0),
            at(0.5),
            at(0.95),
            at(0.99),
            at(0.999),
            at(1.0),
            self.errors
        )
    }
}

/// The files, as text.
struct Files {
    summary: String,
    latencies: Vec<String>,
    totals: Vec<Latencies>,
}

impl Files {
    fn new() -> Self {
        let head = "elapsed, window, n, min, mean, median, 95th, 99th, 99_9th, max, errors\n";
        Files {
            summary: "elapsed, window, total, successful, failed\n".into(),
            latencies: vec![head.into(); COMMANDS.len()],
            totals: COMMANDS.iter().map(|_| Latencies::default()).collect(),
        }
    }

    /// Ends a window.
    fn close(&mut self, elapsed: Duration, window: Duration, all: &mut [Latencies]) {
        let (elapsed, window) = (elapsed.as_secs_f64(), window.as_secs_f64());
        let good: usize = all.iter().map(|one| one.good.len()).sum();
        let failed: u64 = all.iter().map(|one| one.errors).sum();
        let total = good as u64 + failed;
        let _ = writeln!(
            self.summary,
            "{elapsed:.1}, {window:.1}, {total}, {good}, {failed}"
        );
        for (at, one) in all.iter_mut().enumerate() {
            self.latencies[at] += &one.line(elapsed, window);
            self.totals[at].good.append(&mut one.good);
            self.totals[at].errors += std::mem::take(&mut one.errors);
        }
    }

    fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("summary.csv"), &self.summary)?;
        let mut errors = String::from("command, count\n");
        for (command, text) in COMMANDS.iter().zip(&self.latencies) {
            std::fs::write(folder.join(format!("{command}_latencies.csv")), text)?;
        }
        for (command, total) in COMMANDS.iter().zip(&self.totals) {
            let _ = writeln!(errors, "{command}, {}", total.errors);
        }
        std::fs::write(folder.join("errors.csv"), errors)
    }
}

impl Bench {
    /// Runs it; one line for each command: how many a second, median and 99th of a hundred in
    /// microseconds, errors.
    pub(crate) fn run(&self) -> Result<String, String> {
        if self.nodes < 2 || self.workers == 0 || self.groups > self.nodes {
            return Err(
                "there are two nodes at least, workers, and no more groups than nodes".into(),
            );
        }
        let nodes: Result<Vec<Node>, String> = (0..self.nodes).map(start).collect();
        let nodes = nodes?;
        let targets = self.targets(&nodes)?;
        let clock = SystemClock::new();
        let stop = AtomicBool::new(false);
        let began = clock.now();
        let files = thread::scope(|scope| {
            let (to, figures) = sync_channel::<Figure>(FIGURES_MAX);
            for own in 0..self.nodes {
                for number in 0..self.workers {
                    let mut worker = Worker {
                        number,
                        targets: targets.clone(),
                        own,
                        rng: Rng::with_seed((own * self.workers + number) as u64),
                        clock,
                        figures: to.clone(),
                        names: 0,
                    };
                    let stop = &stop;
                    scope.spawn(move || {
                        while !stop.load(Ordering::Relaxed) {
                            worker.step();
                        }
                    });
                }
            }
            drop(to);
            let end = began + Duration::from_secs(self.seconds);
            collect(&figures, clock, began, end, &stop)
        });
        files
            .write(&self.folder)
            .map_err(|error| error.to_string())?;
        nodes.into_iter().for_each(Node::stop);
        Ok(self.report(files))
    }

    fn report(&self, files: Files) -> String {
        let mut text = String::from("| command | a second | median us | 99 % us | errors |\n");
        text += "|---|---|---|---|---|\n";
        for (command, mut total) in COMMANDS.iter().zip(files.totals) {
            total.good.sort_unstable();
            let count = total.good.len();
            let at = |share: usize| total.good.get(count * share / 100).copied().unwrap_or(0);
            let rate = count as f64 / self.seconds as f64;
            let _ = writeln!(
                text,
                "| {command} | {rate:.0} | {} | {} | {} |",
                at(50),
                at(99),
                total.errors
            );
        }
        text
    }

    fn targets(&self, nodes: &[Node]) -> Result<Vec<Target>, String> {
        let names: Vec<NodeName> = nodes.iter().map(|node| node.name().clone()).collect();
        let groups = self.groups.max(1);
        for group in 0..groups {
            let members: Vec<NodeName> = (group..nodes.len())
                .step_by(groups)
                .map(|at| names[at].clone())
                .collect();
            let joined = nodes[group].new_group(&format!("g{group}"), &members);
            if joined.map_err(|error| error.to_string())?.len() != members.len() {
                return Err("a group lacks members".into());
            }
        }
        let mut targets = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            let own = [names[at].clone()];
            let local = node.new_group(&format!("local-{at}"), &own);
            local.map_err(|error| error.to_string())?;
            let spawn = |function| {
                let pid = node.spawn(&names[at], function, Vec::new(), WITHIN);
                pid.map_err(|error| error.to_string())
            };
            targets.push(Target {
                name: names[at].clone(),
                handle: node.handle(),
                server: spawn("server")?,
                machine: spawn("machine")?,
                group: format!("g{}", at % groups),
            });
        }
        Ok(targets)
    }
}

/// Writes windows until the end, then has the workers stop and takes what is left.
fn collect(
    figures: &std::sync::mpsc::Receiver<Figure>,
    clock: SystemClock,
    began: Moment,
    end: Moment,
    stop: &AtomicBool,
) -> Files {
    let mut files = Files::new();
    let mut window: Vec<Latencies> = COMMANDS.iter().map(|_| Latencies::default()).collect();
    let mut opened = began;
    while clock.now() < end {
        let left = (opened + WINDOW).saturating_since(clock.now());
        if let Ok((command, took, is_good)) = figures.recv_timeout(left) {
            match is_good {
                true => window[command].good.push(took.as_micros() as u64),
                false => window[command].errors += 1,
            }
        }
        let now = clock.now();
        if now.saturating_since(opened) >= WINDOW || now >= end {
            let elapsed = now.saturating_since(began);
            files.close(elapsed, now.saturating_since(opened), &mut window);
            opened = now;
        }
    }
    stop.store(true, Ordering::Relaxed);
    // Workers may wait for room; what they say now is after the end.
    while figures.recv().is_ok() {}
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_succeeds_among_all_and_in_groups() {
        for groups in [0, 2] {
            let folder = std::env::temp_dir().join(format!("de-{groups}-{}", std::process::id()));
            let bench = Bench {
                nodes: 4,
                workers: 2,
                seconds: 2,
                folder: folder.clone(),
                groups,
            };
            let report = bench.run().unwrap();
            for command in COMMANDS {
                let line = report.lines().find(|line| line.contains(command)).unwrap();
                assert!(line.ends_with("| 0 |"), "{report}");
                let file = folder.join(format!("{command}_latencies.csv"));
                assert!(std::fs::read_to_string(file).unwrap().lines().count() > 1);
            }
            let errors = std::fs::read_to_string(folder.join("errors.csv")).unwrap();
            assert!(
                errors.lines().skip(1).all(|line| line.ends_with(", 0")),
                "{errors}"
            );
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
}
