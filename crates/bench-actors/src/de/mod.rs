//! Commands between nodes, after DE-Bench: `bench-actors de NODES WORKERS SECONDS FOLDER …`.
//!
//! Owns nodes, groups, and files of figures with the published columns: `summary.csv`,
//! `COMMAND_latencies.csv` in microseconds, `errors.csv`. The nodes are linked over TCP on
//! addresses of this machine; with GROUPS they are cut into so many groups, and names are
//! registered in those instead of in one group of all. Deliberately not here: the commands
//! ([`worker`]), and a simulated network.

mod worker;

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use group::{Name, Node, NodeName, Options};
use stdx::time::{Clock, Moment, SystemClock};
use worker::{COMMANDS, Figure, Plan, Target, WITHIN};

/// How often a line is written.
const WINDOW: Duration = Duration::from_secs(1);
/// Figures that wait for the thread that writes; a worker whose figure finds no room waits.
const FIGURES_MAX: usize = 65_536;
/// Nodes and workers of one, at most.
const NUMBERS_MAX: usize = 256;

/// What is asked for on the command line.
pub(crate) struct Bench {
    pub(crate) nodes: usize,
    pub(crate) workers: usize,
    pub(crate) seconds: u64,
    pub(crate) folder: PathBuf,
    /// So many groups, or 0 for one of all.
    pub(crate) groups: usize,
    /// Threads of each node.
    pub(crate) shards: u16,
}

fn free_name(number: usize) -> Result<String, String> {
    // Many nodes have many addresses, so that none runs out of ports.
    let host = format!("127.0.{}.{}", number / 200, number % 200 + 1);
    let listener = TcpListener::bind((host.as_str(), 0)).map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    Ok(format!("n{number}@{address}"))
}

fn start(number: usize, shards: u16, plan: &Arc<Plan>) -> Result<Node, String> {
    let options = Options::new(&free_name(number)?, b"de").shards(shards);
    let options = worker::offer(options, plan);
    Node::start(options).map_err(|error| error.to_string())
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
        let is_small = self.nodes <= NUMBERS_MAX && self.workers <= NUMBERS_MAX;
        if self.nodes < 2 || self.workers == 0 || self.groups > self.nodes || !is_small {
            return Err(format!(
                "there are two nodes at least, workers, no more groups than nodes, and no more \
                 than {NUMBERS_MAX} of any"
            ));
        }
        let (to, figures) = sync_channel::<Figure>(FIGURES_MAX);
        let plan = Arc::new(Plan {
            targets: OnceLock::new(),
            figures: to,
            stop: AtomicBool::new(false),
            clock: SystemClock::new(),
        });
        let nodes: Result<Vec<Node>, String> = (0..self.nodes)
            .map(|at| start(at, self.shards, &plan))
            .collect();
        let nodes = nodes?;
        let _ = plan.targets.set(self.targets(&nodes)?);
        for (at, node) in nodes.iter().enumerate() {
            for number in 0..self.workers {
                let args = vec![at as u8, number as u8];
                let spawned = node.spawn(node.name(), "worker", args, WITHIN);
                spawned.map_err(|error| error.to_string())?;
            }
        }
        let files = collect(&figures, &plan, Duration::from_secs(self.seconds));
        // Whoever waits for room for a figure is let go before its node is stopped.
        drop(figures);
        nodes.into_iter().for_each(Node::stop);
        let written = files.write(&self.folder);
        written.map_err(|error| error.to_string())?;
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
            let alone = Name::from(format!("local-{at}"));
            let joined = node.new_group(&alone, &own);
            joined.map_err(|error| error.to_string())?;
            let spawn = |function| {
                let pid = node.spawn(&names[at], function, Vec::new(), WITHIN);
                pid.map_err(|error| error.to_string())
            };
            targets.push(Target {
                name: names[at].clone(),
                server: spawn("server")?,
                machine: spawn("machine")?,
                caller: spawn("caller")?,
                group: Name::from(format!("g{}", at % groups)),
                alone,
            });
        }
        Ok(targets)
    }
}

/// Writes windows until the end, then has the workers stop.
fn collect(figures: &Receiver<Figure>, plan: &Plan, time: Duration) -> Files {
    let (mut files, clock) = (Files::new(), plan.clock);
    let mut window: Vec<Latencies> = COMMANDS.iter().map(|_| Latencies::default()).collect();
    let began: Moment = clock.now();
    let (end, mut opened) = (began + time, began);
    while clock.now() < end {
        let left = (opened + WINDOW).min(end).saturating_since(clock.now());
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
    plan.stop.store(true, Ordering::Relaxed);
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_succeeds_among_all_and_in_groups() {
        for (groups, shards) in [(0, 1), (2, 2)] {
            let folder = std::env::temp_dir().join(format!("de-{groups}-{}", std::process::id()));
            let bench = Bench {
                nodes: 4,
                workers: 2,
                seconds: 2,
                folder: folder.clone(),
                groups,
                shards,
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
