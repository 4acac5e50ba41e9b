//! Thousands of schedules of a whole node, on one thread and under a virtual clock: three users
//! with several devices, at least 200 operations, commits that are late, and one crash that loses
//! what was not committed, all drawn from a seed; in half of them commits fail too.
//! The clients and the rules are those of the history checker (docs/reliability.md). `SCHEDULES`
//! says how many, `SCHEDULE` which is the first; what happened in each is written to the folder
//! `SCHEDULE_FOLDER`, the same whenever it is played.

mod common;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{Disk, new_disk, sim_options, store_on};
use delivery::OutboxLimits;
use server::options::{Delivery, DeliveryLimits};
use server::{Options, Sim};
use stdx::rand::Rng;
use stdx::time::{Clock as _, Moment, VirtualClock};
use store::Plan;
use testkit::history::{Faults, Host, accounts, play_inside};

/// How many, unless the environment says otherwise.
const SCHEDULES: u64 = 1_000;

/// Time passes in steps of at most so much, so that timers fire in their order.
const STEP: Duration = Duration::from_millis(20);

/// The same for what is handed over. Its bounds of entries stay: a sender who is refused is no
/// accident.
fn draw_outbox(rng: &mut Rng) -> OutboxLimits {
    let usual = OutboxLimits::default();
    let window = [1, 2, 4, usual.window][rng.usize(..4)];
    let any =
        |millis: &[u64], rng: &mut Rng| Duration::from_millis(millis[rng.usize(..millis.len())]);
    let retry_min = any(&[1, 20, 250], rng);
    OutboxLimits {
        window,
        window_per_destination: [1, 2, 4, 256][rng.usize(..4)].min(window),
        page: [1, 2, 4, 256][rng.usize(..4)],
        answer_timeout: any(&[1, 20, 200, 5_000], rng),
        retry_min,
        retry_max: any(&[1, 200, 15_000], rng).max(retry_min),
        ..usual
    }
}

/// A node in this process on a disk that survives it.
struct Inside {
    disk: Disk,
    options: Options,
    clock: VirtualClock,
    rng: Rng,
    sim: Option<Sim>,
    is_failing: bool,
}

/// Bounds that are tiny in three of four schedules, each drawn by itself, so that each is reached
/// together with each other one.
fn draw_limits(delivery: &mut Delivery, seed: u64, rng: &mut Rng) {
    delivery.unacked_max = [10, 1_000][(seed % 2) as usize];
    if seed.is_multiple_of(4) {
        return;
    }
    let usual = DeliveryLimits::default();
    let mut any = |usual: usize| [1, 2, 4, usual][rng.usize(..4)];
    delivery.unacked_max = any(1_000) as u32;
    let page_entries = any(usual.page_entries);
    let limits = DeliveryLimits {
        page_entries,
        page_bytes: any(usual.page_bytes),
        read_entries: any(usual.read_entries),
        unacked_bytes_max: any(usual.unacked_bytes_max),
        listed_max: any(usual.listed_max),
        mark_every: any(usual.mark_every as usize) as u64,
        ended_max: any(usual.ended_max),
        ask_every: any(8) as u32,
        ask_again_every: any(64) as u32,
        retention_every: any(128) as u32,
        loads_max: any(25) as u8,
        progress_delay: Duration::from_millis([1, 20, 200, 1_000][rng.usize(..4)]),
        load_retry: Duration::from_millis([1, 20, 200][rng.usize(..3)]),
        read_retry_max: Duration::from_millis([1, 200, 5_000][rng.usize(..3)]),
        idle_eviction: Duration::from_millis([1, 100, 15_000][rng.usize(..3)]),
        ..usual
    };
    delivery.limits = limits;
    delivery.outbox = draw_outbox(rng);
}

impl Inside {
    fn new(seed: u64) -> Inside {
        let mut rng = Rng::with_seed(seed);
        let mut options = sim_options(rng.u16(1..=2), rng.bool());
        options.limits.offline_messages_max = 10_000;
        draw_limits(&mut options.delivery, seed, &mut rng);
        let mut inside = Inside {
            disk: new_disk(),
            options,
            clock: VirtualClock::new(),
            rng,
            sim: None,
            is_failing: false,
        };
        let all = accounts();
        let all: Vec<(&str, &str)> = all.iter().map(|(user, word)| (&**user, *word)).collect();
        Sim::provision(&store_on(&inside.disk), &all, 1).expect("accounts");
        inside.start();
        inside
    }

    fn start(&mut self) {
        let (options, clock) = (self.options.clone(), self.clock.clone());
        let (seed, store) = (self.rng.u64(..), store_on(&self.disk));
        let limits = net::Limits::default();
        let sim = Sim::start(options, limits, store, clock, seed, Plan::default());
        let sim = sim.expect("a node");
        sim.journal().switches().set_hold(true);
        self.sim = Some(sim);
    }

    fn sim(&mut self) -> &mut Sim {
        self.sim.as_mut().expect("it runs")
    }

    /// Lets some of the commits that wait happen, most often all of them. Returns how many did.
    fn commit(&mut self) -> usize {
        let count = match self.rng.u8(..4) {
            0 => self.rng.usize(..3),
            _ => usize::MAX,
        };
        if self.is_failing {
            match self.rng.u8(..6) {
                0 => self.disk.faults().fail_commits(1, self.rng.bool()),
                1 => self.sim().journal().switches().lose(1),
                2 => self.sim().journal().switches().doubt(1),
                3 => self.disk.faults().fail_reads(self.rng.u64(..100)),
                _ => {}
            }
        }
        self.sim().journal().release(count)
    }
}

impl Host for Inside {
    fn connect(&mut self) -> io::Result<OwnedFd> {
        self.sim().connect().map(OwnedFd::from)
    }

    fn work(&mut self) -> Result<(), String> {
        self.sim().work().map_err(|error| error.to_string())?;
        if self.commit() == 0 {
            return Ok(());
        }
        self.sim().work().map_err(|error| error.to_string())
    }

    fn pass(&mut self, time: Duration) -> Result<(), String> {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(STEP);
            self.clock.advance(step);
            left -= step;
            if self.rng.u8(..10) == 0 {
                self.sim().heal();
            }
            self.work()?;
        }
        Ok(())
    }

    fn now(&self) -> Duration {
        self.clock.now().saturating_since(Moment::ZERO)
    }

    fn set_failing(&mut self, is_failing: bool) {
        self.is_failing = is_failing;
        if !is_failing {
            self.disk.faults().fail_reads(0);
            // What goes wrong from here on would be the server's fault.
            self.disk.faults().fail_commits(0, false);
            if let Some(sim) = &self.sim {
                sim.journal().switches().lose(0);
                sim.journal().switches().doubt(0);
                sim.heal();
            }
        }
    }

    fn crash(&mut self, survivors: &mut dyn FnMut(usize) -> usize) -> Result<(), String> {
        // What was handed to the journal may be on the disk or not when the power goes.
        let kept = survivors(3);
        self.sim().journal().release(kept);
        // A journal that is dropped decides what waits: of this nothing happens any more.
        self.sim().journal().switches().lose(u64::MAX);
        self.sim = None;
        self.is_failing = false;
        self.disk.faults().fail_reads(0);
        let lost = self.disk.crash(0);
        lost.map(drop).map_err(|error| error.to_string())
    }

    fn start_again(&mut self) -> Result<(), String> {
        self.start();
        Ok(())
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What is wrong with a schedule, if anything is.
fn play(seed: u64) -> Option<String> {
    let faults = Faults {
        stops: false,
        unsynced: false,
        // Half of them with commits that fail.
        disk: seed.is_multiple_of(2),
        ..Faults::ALL
    };
    let inside = Inside::new(seed);
    let delivery = inside.options.delivery.clone();
    let (findings, account) = play_inside(Box::new(inside), seed, faults);
    if let Some(folder) = std::env::var_os("SCHEDULE_FOLDER") {
        let path = std::path::Path::new(&folder).join(format!("schedule-{seed}.txt"));
        std::fs::write(path, account).expect("written");
    }
    if findings.is_empty() {
        return None;
    }
    let findings = findings.join("\n    ");
    Some(format!("schedule {seed}, {delivery:?}:\n    {findings}"))
}

#[test]
fn no_schedule_breaks_a_promise() {
    let first = number("SCHEDULE").unwrap_or(1);
    let count = number("SCHEDULES").unwrap_or(SCHEDULES);
    let next = AtomicU64::new(first);
    // Each is on one thread, so that a seed plays the same; several are played at once.
    let work = || -> Vec<String> {
        let seeds = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        seeds
            .take_while(|seed| *seed < first + count)
            .filter_map(play)
            .collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let failed: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let found = threads
            .into_iter()
            .map(|thread| thread.join().expect("it ends"));
        found.flatten().collect()
    });
    assert!(
        failed.is_empty(),
        "{} of {count} schedules; again with SCHEDULE=N SCHEDULES=1 SCHEDULE_FOLDER=DIR\n{}",
        failed.len(),
        failed.join("\n")
    );
}
