//! Resident memory of the whole process with so many idle actors: `memory ACTORS`. Each has taken a
//! message and keeps two words. The figure is bytes.

use actor::{Actor, Context};

use super::Args;
use crate::shards::{Latch, Shards};
use std::sync::mpsc::SyncSender;

struct Idle {
    state: [u64; 2],
}

impl Actor for Idle {
    type Msg = u64;

    fn handle(&mut self, msg: u64, _: &mut Context<'_, u64>) {
        self.state[0] += msg;
    }
}

/// Tells when its shard has come so far.
struct Mark(SyncSender<u64>);

impl Actor for Mark {
    type Msg = ();

    fn started(&mut self, _: &mut Context<'_, ()>) {
        let _ = self.0.try_send(0);
    }

    fn handle(&mut self, (): (), _: &mut Context<'_, ()>) {}
}

/// Actors that are started in one go.
const PORTION: usize = 10_000;

pub(super) fn run(args: &Args) -> Result<f64, String> {
    let count = args.number(0)?;
    let shards = Shards::start(args.shards, |_| {})?;
    for first in (0..count).step_by(PORTION) {
        let some = PORTION.min(count - first);
        let addrs = shards.spawn_many(some, |_| Idle { state: [0; 2] })?;
        shards.tell_all(&addrs, |_| 1)?;
        let latch = Latch::new(usize::from(args.shards));
        let done = latch.sender();
        shards.spawn_many(usize::from(args.shards), move |_| Mark(done.clone()))?;
        latch.wait()?;
    }
    let bytes = resident()?;
    shards.stop();
    Ok(bytes)
}

/// Bytes of this process in memory, as the system counts them.
fn resident() -> Result<f64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kilobytes.ok_or("the system does not say")? * 1024.0)
}
