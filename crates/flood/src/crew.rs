//! The workers of a run, as threads or processes, and the pipes to them.
//!
//! One worker runs as a thread. More run as processes of the same program, because a process may
//! hold only so many descriptors; they talk in lines of JSON over their standard streams.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::plan::{Down, Plan, Up};
use crate::worker;

/// Words on their way to the coordinator at most; workers wait beyond that.
const UP_MAX: usize = 1_024;
/// Words on their way to a worker at most.
const DOWN_MAX: usize = 64;

/// How to start this program as a worker.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program.
    pub program: PathBuf,
    /// Arguments that make it call [`crate::serve_worker`].
    pub arguments: Vec<OsString>,
}

/// What comes from a worker.
pub(crate) enum News {
    /// A word.
    Up(Up),
    /// The worker is gone; it says no more.
    Gone,
}

enum Line {
    Thread(SyncSender<Down>),
    Process(ChildStdin),
}

/// All workers.
pub(crate) struct Crew {
    lines: Vec<Option<Line>>,
    children: Vec<Child>,
    /// News of the workers, each with the worker's number.
    pub(crate) news: Receiver<(usize, News)>,
}

impl Crew {
    /// Starts a worker per plan.
    pub(crate) fn start(plans: Vec<Plan>, command: Option<&WorkerCommand>) -> io::Result<Crew> {
        let (sender, news) = sync_channel(UP_MAX);
        let mut crew = Crew {
            lines: Vec::new(),
            children: Vec::new(),
            news,
        };
        let single = plans.len() == 1;
        for (number, plan) in plans.into_iter().enumerate() {
            let line = match command {
                Some(command) if !single => crew.start_process(number, &plan, command, &sender)?,
                _ => start_thread(number, plan, sender.clone())?,
            };
            crew.lines.push(Some(line));
        }
        Ok(crew)
    }

    fn start_process(
        &mut self,
        number: usize,
        plan: &Plan,
        command: &WorkerCommand,
        sender: &SyncSender<(usize, News)>,
    ) -> io::Result<Line> {
        let mut child = Command::new(&command.program)
            .args(&command.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a worker without pipes"));
        };
        self.children.push(child);
        write_line(&mut stdin, plan)?;
        let sender = sender.clone();
        thread::Builder::new()
            .name(format!("from worker {number}"))
            .spawn(move || {
                for line in BufReader::new(stdout).lines() {
                    let Ok(line) = line else { break };
                    let up = serde_json::from_str(&line)
                        .unwrap_or_else(|error| Up::Failed(format!("unreadable word: {error}")));
                    if sender.send((number, News::Up(up))).is_err() {
                        break;
                    }
                }
                // The coordinator may be gone as well; then nobody is left to be told.
                let _ = sender.send((number, News::Gone));
            })?;
        Ok(Line::Process(stdin))
    }

    /// Tells all workers that are left.
    pub(crate) fn tell(&mut self, down: Down) {
        for line in &mut self.lines {
            let told = match line {
                Some(Line::Thread(sender)) => sender.try_send(down).is_ok(),
                Some(Line::Process(stdin)) => write_line(stdin, &down).is_ok(),
                None => true,
            };
            if !told {
                *line = None;
            }
        }
    }

    /// Workers that are left.
    pub(crate) fn living(&self) -> Vec<usize> {
        (0..self.lines.len())
            .filter(|number| self.lines[*number].is_some())
            .collect()
    }

    /// A worker is gone.
    pub(crate) fn lost(&mut self, number: usize) {
        self.lines[number] = None;
    }

    /// Ends all workers.
    pub(crate) fn finish(mut self) {
        self.tell(Down::Finish);
        self.lines.clear();
        // Readers of the pipes must not wait for room in the queue while we wait for their ends.
        drop(self.news);
        for child in &mut self.children {
            // A worker without its coordinator ends by itself; there is nothing to do about errors.
            let _ = child.wait();
        }
    }
}

fn start_thread(number: usize, plan: Plan, sender: SyncSender<(usize, News)>) -> io::Result<Line> {
    let (down, inbox) = sync_channel(DOWN_MAX);
    thread::Builder::new()
        .name(format!("worker {number}"))
        .spawn(move || {
            worker::run(plan, &inbox, &mut |up| {
                // Once the coordinator is gone the worker learns it from its inbox.
                let _ = sender.send((number, News::Up(up)));
            });
            let _ = sender.send((number, News::Gone));
        })?;
    Ok(Line::Thread(down))
}

fn write_line(out: &mut ChildStdin, value: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// The life of a worker process: a plan from standard input, then words in both directions, until
/// the coordinator says so or goes away.
pub fn serve_worker() -> io::Result<()> {
    // The coordinator handles an interrupt from the terminal and tells its workers.
    let ignored = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, ignored)?;
    raise_descriptor_limit();
    let mut first = String::new();
    io::stdin().read_line(&mut first)?;
    let plan: Plan = serde_json::from_str(&first)?;
    let (sender, inbox) = sync_channel(DOWN_MAX);
    thread::Builder::new()
        .name("from coordinator".to_owned())
        .spawn(move || {
            for line in io::stdin().lines() {
                let Ok(line) = line else { break };
                let Ok(down) = serde_json::from_str(&line) else {
                    break;
                };
                if sender.send(down).is_err() {
                    break;
                }
            }
        })?;
    let mut out = io::stdout().lock();
    worker::run(plan, &inbox, &mut |up| {
        let Ok(mut line) = serde_json::to_vec(&up) else {
            return;
        };
        line.push(b'\n');
        // A broken pipe means that the coordinator is gone, which the inbox tells as well.
        let _ = out.write_all(&line).and_then(|()| out.flush());
    });
    Ok(())
}

/// Raises the soft limit of descriptors to the hard one and returns it.
pub(crate) fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit.current;
    limit.current = limit.maximum;
    if setrlimit(Resource::Nofile, limit).is_err() {
        return before.unwrap_or(1_024);
    }
    limit.maximum.unwrap_or(1_000_000)
}
