//! The workloads on the runtime of this repository, each a file.
//!
//! Owns their list. A workload takes numbers and gives one figure. Deliberately not here: sizes and
//! comparisons (see `suite`).

mod bang;
mod big;
mod compute;
mod crash;
mod cross;
mod ehb;
mod genstress;
mod memory;
mod orbit;
mod serialmsg;
mod tables;
mod timers;

pub(crate) use crash::echo;

/// A workload's shards and numbers.
pub(crate) struct Args {
    /// Threads.
    pub(crate) shards: u16,
    /// What the workload's name is followed by.
    pub(crate) numbers: Vec<u64>,
}

impl Args {
    /// The number at a position.
    pub(crate) fn number(&self, at: usize) -> Result<usize, String> {
        let number = self.numbers.get(at).copied();
        Ok(number.ok_or_else(|| format!("number {} is missing", at + 1))? as usize)
    }
}

type Work = fn(&Args) -> Result<f64, String>;

const WORKLOADS: &[(&str, Work)] = &[
    ("bang", bang::run),
    ("big", big::run),
    ("crash", crash::run),
    ("cross", cross::run),
    ("ehb", ehb::run),
    ("ets_bench", tables::bench),
    ("ets_bulk", tables::bulk),
    ("ets_random_ops", tables::random_ops),
    ("ets_range", tables::range),
    ("ets_test", tables::test),
    ("genstress", genstress::run),
    ("mbrot", compute::mbrot),
    ("memory", memory::run),
    ("orbit", orbit::run),
    ("parallel", compute::parallel),
    ("process", crash::process),
    ("ran", compute::ran),
    ("serialmsg", serialmsg::run),
    ("timer_wheel", timers::wheel),
    ("timers", timers::set_and_cancel),
];

/// Runs a workload; its figure, in the unit that the suite gives it.
pub(crate) fn run(name: &str, args: &Args) -> Result<f64, String> {
    let found = WORKLOADS.iter().find(|(known, _)| *known == name);
    let (_, work) = found.ok_or_else(|| format!("no workload is called {name}"))?;
    work(args)
}
