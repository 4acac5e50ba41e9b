//! `roost chaos`: faults on a running server, each kind in its own rhythm, until the time is up or
//! somebody ends it. Owns the rhythm; what a fault is belongs to the server, and none outlasts
//! this command by more than a second.

use std::path::Path;
use std::thread;
use std::time::Duration;

use clap::Args;
use server::chaos::Fault;
use stdx::time::{Clock as _, SystemClock};

use super::{print, unexpected};
use crate::cli::Place;
use crate::config::parse_time;
use crate::door::{self, Door};
use crate::exit::Failure;
use crate::node::{Request, Response};

/// Which faults, and how often.
#[derive(Debug, Args)]
pub(crate) struct ChaosArgs {
    /// Kill the actor of an account drawn at random so often, such as 100ms.
    #[arg(long, value_name = "TIME", value_parser = time)]
    kill_actors: Option<Duration>,
    /// Let a shard panic so often: its connections drop, it starts over.
    #[arg(long, value_name = "TIME", value_parser = time)]
    panic_shards: Option<Duration>,
    /// Drop a link drawn at random so often.
    #[arg(long, value_name = "TIME", value_parser = time)]
    drop_links: Option<Duration>,
    /// Let a shard read nothing so often, for half of that time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    stall_reads: Option<Duration>,
    /// Let a shard do nothing at all so often, for half of that time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    hang_shards: Option<Duration>,
    /// Let commits and reads of the store take so much longer.
    #[arg(long, value_name = "TIME", value_parser = time)]
    delay_store: Option<Duration>,
    /// Let a commit fail so often.
    #[arg(long, value_name = "TIME", value_parser = time)]
    fail_commits: Option<Duration>,
    /// End after this time.
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = time)]
    time: Duration,
    /// Print no line for each fault.
    #[arg(long, short)]
    quiet: bool,
}

fn time(text: &str) -> Result<Duration, String> {
    parse_time(text).ok_or_else(|| format!("{text} is no time: write 100ms, 5s or 1m"))
}

impl ChaosArgs {
    /// What is to be done, and how often.
    fn rhythms(&self) -> Vec<(Fault, Duration)> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let always = Duration::ZERO;
        let all = [
            self.kill_actors.map(|every| (Fault::KillActor, every)),
            self.panic_shards.map(|every| (Fault::PanicShard, every)),
            self.drop_links.map(|every| (Fault::DropLinks(1), every)),
            self.stall_reads
                .map(|every| (Fault::StallReads(millis(every / 2)), every)),
            self.hang_shards
                .map(|every| (Fault::HangShard(millis(every / 2)), every)),
            self.delay_store
                .map(|delay| (Fault::DelayStore(millis(delay)), always)),
            self.fail_commits.map(|every| (Fault::FailCommit, every)),
        ];
        all.into_iter().flatten().collect()
    }
}

/// Causes faults.
///
/// # Errors
/// No server runs, or it does not allow them.
pub(super) fn run(args: &ChaosArgs, place: &Place) -> Result<(), Failure> {
    let rhythms = args.rhythms();
    if rhythms.is_empty() {
        let message = "which faults? See roost chaos --help";
        return Err(Failure::Usage(message.to_owned()));
    }
    let config = place.source().load()?;
    let data = &config.settings.node.data;
    let results: Vec<Result<u64, Failure>> = thread::scope(|scope| {
        let threads: Vec<_> = rhythms
            .into_iter()
            .map(|(fault, every)| scope.spawn(move || causes(data, fault, every, args)))
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            let ended = || Err(Failure::Failed("a thread has ended".to_owned()));
            thread.join().unwrap_or_else(|_| ended())
        };
        threads.into_iter().map(join).collect()
    });
    let mut faults = 0;
    for result in results {
        faults += result?;
    }
    print(&format!("{faults} faults\n"))
}

/// Causes one kind of fault in its rhythm; returns how many there were.
fn causes(data: &Path, fault: Fault, every: Duration, args: &ChaosArgs) -> Result<u64, Failure> {
    let Some(client) = door::connect(data)? else {
        let message = format!("no server runs on {}", data.display());
        return Err(Failure::Failed(message));
    };
    let mut door = Door::Running(Box::new(client));
    let clock = SystemClock::new();
    let end = clock.now() + args.time;
    let mut due = clock.now();
    let mut faults = 0;
    loop {
        due = due + every;
        let wait = due.min(end).saturating_since(clock.now());
        thread::sleep(wait);
        if clock.now() >= end {
            return Ok(faults);
        }
        match door.try_call(Request::Chaos { fault })? {
            Response::Caused { what } => {
                faults += 1;
                if !args.quiet {
                    print(&format!("{what}\n"))?;
                }
            }
            Response::Error { code, message } if code == "no_fault" => {
                if !args.quiet {
                    print(&format!("no fault: {message}\n"))?;
                }
            }
            Response::Error { message, .. } => return Err(Failure::Failed(message)),
            _ => return Err(unexpected()),
        }
    }
}
