//! Which home serves: the keeper starts it, tells the edge where it is, starts another one when it
//! dies or hangs, and has it replaced when an operator wants that (`upgrade`). Owns the processes
//! of homes. One thread, which also sees to the edge's end of the link.
//!
//! | the serving home | then |
//! |---|---|
//! | ends by itself | another one of the same program is started; connections wait for it |
//! | says for too long that not every shard turns, or nothing | it is ended, as above |
//! | is to be replaced | `upgrade` |

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stdx::time::{Clock as _, Moment, SystemClock};
use store::RangeId;

use super::process::{Process, Program, Stage};
use super::reins::{Order, Report};
use super::ways::Ways;
use super::{SLOTS, folder, order};
use crate::cli::Place;
use crate::exit::Failure;
use crate::member::Returned;

/// How often it looks at its processes and its link; more often while it waits for something.
const REST: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(2);

/// For a process to read its configuration and say that it is there.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(20);

/// For a home to open its store when nobody else could: what a crash left takes its time.
const OPEN_WITHIN: Duration = Duration::from_secs(600);

/// Silence after which a home is ended: longer than it waits for a shard before it says nothing.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Pauses before starts of homes that die at once, from the second on.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// A home that lived for so long did not die at once.
const LIVED: Duration = Duration::from_secs(30);

/// What the keeper hears.
pub(super) enum Event {
    /// A process said something.
    Reported(u32, Report),
    /// An operator wants another program to be the home.
    Upgrade(Wish, SyncSender<order::Response>),
    /// The configuration is to be read again.
    Reload,
    /// The server stops.
    Stop,
}

/// An upgrade that somebody wants.
pub(super) struct Wish {
    pub(super) binary: PathBuf,
    pub(super) one_way: bool,
    pub(super) within: Duration,
}

/// What others may know.
#[derive(Default)]
pub(super) struct Shared {
    /// The folder of the home that serves.
    serving: Mutex<Option<PathBuf>>,
    homeless_since: Mutex<Option<Moment>>,
    /// Homes that have served.
    pub(super) homes: AtomicU64,
    /// Clients whose socket is here, as whoever asked last counted.
    pub(super) connections: AtomicU64,
    is_stopping: AtomicBool,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The folder of the home that serves.
    pub(super) fn serving(&self) -> Option<PathBuf> {
        lock(&self.serving).clone()
    }

    /// Since when there is none.
    pub(super) fn homeless_since(&self) -> Option<Moment> {
        *lock(&self.homeless_since)
    }

    /// The process ends: nothing new is begun.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }
}

/// Why something did not come to its end.
pub(super) enum Why {
    /// The server stops.
    Stopped,
    /// A sentence.
    Failed(String),
}

/// See the module.
pub(super) struct Keeper {
    place: Place,
    pub(super) data: PathBuf,
    pub(super) ways: Arc<Ways>,
    /// The life of this edge.
    edge: u64,
    sender: SyncSender<Event>,
    events: Receiver<Event>,
    pub(super) clock: SystemClock,
    returned: Returned,
    processes: Vec<Process>,
    /// The number of the one that serves, and since when.
    pub(super) serving: Option<(u32, Moment)>,
    pub(super) program: Arc<Program>,
    last_number: u32,
    tenure: u32,
    /// Events that wait for the end of what is being done.
    later: VecDeque<Event>,
    pub(super) pause: Duration,
    pub(super) shared: Arc<Shared>,
    drain_timeout: Duration,
}

impl Keeper {
    pub(super) fn new(
        place: Place,
        data: &Path,
        ways: Arc<Ways>,
        (edge, drain_timeout): (u64, Duration),
        (sender, events): (SyncSender<Event>, Receiver<Event>),
    ) -> std::io::Result<Keeper> {
        Ok(Keeper {
            place,
            data: data.to_owned(),
            ways,
            edge,
            sender,
            events,
            clock: SystemClock::new(),
            returned: Returned::new(),
            processes: Vec::new(),
            serving: None,
            program: Arc::new(Program::own()?),
            last_number: 0,
            tenure: 0,
            later: VecDeque::new(),
            pause: Duration::ZERO,
            shared: Arc::default(),
            drain_timeout,
        })
    }

    /// Starts the first home; returns the key of the slot hash once it serves.
    ///
    /// # Errors
    /// It does not serve.
    pub(super) fn begin(&mut self) -> Result<[u8; 16], Failure> {
        let program = Arc::clone(&self.program);
        let begun = self.begin_home(program, OPEN_WITHIN);
        let number = begun.map_err(|why| match why {
            Why::Stopped => Failure::Failed("told to stop".to_owned()),
            Why::Failed(why) => Failure::Failed(format!("no home: {why}")),
        })?;
        let key = self.process(number).and_then(|process| process.slot_key);
        key.ok_or_else(|| Failure::Failed("no home: it names no slot key".to_owned()))
    }

    /// Keeps homes until the server stops.
    pub(super) fn run(mut self) {
        loop {
            if self.step(REST).is_err() {
                return self.stop();
            }
            self.forget_ended();
            while let Some(event) = self.later.pop_front() {
                let done = match event {
                    Event::Upgrade(wish, reply) => self.upgrade(&wish).map(|outcome| {
                        // Who asked may have gone.
                        let _ = reply.try_send(order::Response::Upgraded { outcome });
                    }),
                    Event::Reload => {
                        if let Some(home) = self.home() {
                            home.order(&Order::Reload);
                        }
                        Ok(())
                    }
                    Event::Reported(..) | Event::Stop => Ok(()),
                };
                if done.is_err() {
                    return self.stop();
                }
            }
            if self.look_at_home().is_err() {
                return self.stop();
            }
        }
    }

    pub(super) fn process(&mut self, number: u32) -> Option<&mut Process> {
        let mut all = self.processes.iter_mut();
        all.find(|process| process.number == number)
    }

    /// The one that serves.
    pub(super) fn home(&mut self) -> Option<&mut Process> {
        let (number, _) = self.serving?;
        self.process(number)
    }

    /// Waits a moment for something to happen.
    pub(super) fn step(&mut self, wait: Duration) -> Result<(), Why> {
        let heard = self.events.recv_timeout(wait);
        let now = self.clock.now();
        match heard {
            Ok(Event::Reported(number, report)) => {
                if let Some(process) = self.process(number) {
                    process.reported(report, now);
                }
            }
            Ok(event) => self.later.push_back(event),
            Err(_) => {}
        }
        let is_stop = |event: &Event| matches!(event, Event::Stop);
        if self.shared.is_stopping() || self.later.iter().any(is_stop) {
            return Err(Why::Stopped);
        }
        self.bury(now);
        self.ways.look(&mut self.returned, now);
        Ok(())
    }

    /// What ended is there no more.
    fn bury(&mut self, now: Moment) {
        for process in &mut self.processes {
            if process.stage != Stage::Ended
                && let Some(status) = process.has_ended()
            {
                tracing::info!(home = process.name(), %status, "a home has ended");
                process
                    .failed
                    .get_or_insert_with(|| format!("it ended: {status}"));
            }
        }
        let serving = self.serving.map(|(number, _)| number);
        let has_lost = self
            .processes
            .iter()
            .any(|process| Some(process.number) == serving && process.stage == Stage::Ended);
        if has_lost {
            self.unseat(now);
        }
        for process in &self.processes {
            if process.stage == Stage::Ended {
                self.ways.part(&process.name());
            }
        }
    }

    /// Forgets those that have ended.
    pub(super) fn forget_ended(&mut self) {
        self.processes.retain(|one| one.stage != Stage::Ended);
    }

    /// Waits until a process is that far.
    pub(super) fn wait_for(
        &mut self,
        number: u32,
        (stage, what): (Stage, &str),
        within: Duration,
    ) -> Result<(), Why> {
        let until = self.clock.now() + within;
        loop {
            let is_late = self.clock.now() >= until;
            let Some(process) = self.process(number) else {
                return Err(Why::Failed("there is no such process".to_owned()));
            };
            if process.stage == stage {
                return Ok(());
            }
            let has_ended = process.stage == Stage::Ended;
            match &process.failed {
                Some(why) if stage != Stage::Ended => return Err(Why::Failed(why.clone())),
                _ if has_ended => return Err(Why::Failed("it ended".to_owned())),
                _ if is_late => {
                    return Err(Why::Failed(format!("it does not {what} within {within:?}")));
                }
                _ => self.step(LOOK)?,
            }
        }
    }

    /// Starts a process that could be the home.
    pub(super) fn start(&mut self, program: Arc<Program>) -> Result<u32, Why> {
        self.forget_ended();
        let is_free = |slot: &usize| self.processes.iter().all(|one| one.slot != *slot);
        // Slots take turns: of one that was a home a moment ago something may still be said.
        let first = self.last_number as usize;
        let mut slots = (0..SLOTS).map(|n| (first + n) % SLOTS);
        let slot = slots.find(is_free);
        let slot = slot.ok_or_else(|| Why::Failed("too many homes are ending".to_owned()))?;
        self.last_number += 1;
        let number = self.last_number;
        let path = program.path().display().to_string();
        let events = self.sender.clone();
        let now = self.clock.now();
        let started = Process::start((number, slot), program, &self.place, events, now);
        let process = started.map_err(|error| Why::Failed(format!("{path}: {error}")))?;
        self.processes.push(process);
        Ok(number)
    }

    /// Has a process that is ready be the home.
    pub(super) fn serve(&mut self, number: u32, within: Duration) -> Result<(), Why> {
        self.tenure += 1;
        let (tenure, edge) = (self.tenure, self.edge);
        let Some(process) = self.process(number) else {
            return Err(Why::Failed("there is no such process".to_owned()));
        };
        let slot = process.slot;
        process.stage = Stage::Opening;
        process.order(&Order::Serve { tenure, slot, edge });
        self.wait_for(number, (Stage::Serving, "serve"), within)?;
        self.seat(number)
    }

    /// It serves: connections go there.
    fn seat(&mut self, number: u32) -> Result<(), Why> {
        let tenure = self.tenure;
        let Some(process) = self.process(number) else {
            return Ok(());
        };
        let (name, program) = (process.name(), Arc::clone(&process.program));
        let met = self.ways.meet(&self.data, &name, u64::from(tenure));
        met.map_err(|error| Why::Failed(format!("link: {error}")))?;
        self.program = program;
        self.serving = Some((number, self.clock.now()));
        *lock(&self.shared.serving) = Some(folder(&self.data, &name));
        *lock(&self.shared.homeless_since) = None;
        self.shared.homes.fetch_add(1, Ordering::Relaxed);
        self.show();
        Ok(())
    }

    /// Tells the edge where the home is, or that there is none.
    pub(super) fn show(&mut self) {
        let (tenure, ways) = (self.tenure, Arc::clone(&self.ways));
        let at = self.home().map(|home| home.name());
        let at = at.map(|name| (ways.node(&name), tenure));
        if let Some(door) = ways.door() {
            for range in RangeId::all() {
                door.set_away(range, at);
            }
        }
    }

    /// Nobody is the home.
    pub(super) fn unseat(&mut self, now: Moment) {
        self.serving = None;
        *lock(&self.shared.serving) = None;
        lock(&self.shared.homeless_since).get_or_insert(now);
        self.show();
    }

    /// Starts a home and waits until it serves.
    pub(super) fn begin_home(
        &mut self,
        program: Arc<Program>,
        within: Duration,
    ) -> Result<u32, Why> {
        let number = self.start(program)?;
        let begun = self
            .wait_for(number, (Stage::Ready, "start"), READY_WITHIN)
            .and_then(|()| self.serve(number, within));
        if begun.is_err() {
            self.end(number);
        }
        begun.map(|()| number)
    }

    /// Ends a process at once.
    pub(super) fn end(&mut self, number: u32) {
        if let Some(process) = self.process(number) {
            process.kill();
        }
        self.bury(self.clock.now());
    }

    /// Ends a home that hangs, and starts one if there is none.
    fn look_at_home(&mut self) -> Result<(), Why> {
        let now = self.clock.now();
        if let Some((number, since)) = self.serving {
            let heard = self.process(number).map_or(now, |process| process.heard);
            if now.saturating_since(heard) > SILENCE_MAX {
                tracing::error!("the home says nothing for {SILENCE_MAX:?}: it is ended");
                self.end(number);
            } else if now.saturating_since(since) > LIVED {
                self.pause = Duration::ZERO;
            }
            return Ok(());
        }
        tracing::error!("there is no home: another one is started");
        self.bring_back(Arc::clone(&self.program))
    }

    /// Starts homes of a program until one serves.
    pub(super) fn bring_back(&mut self, program: Arc<Program>) -> Result<(), Why> {
        loop {
            self.wait(self.pause)?;
            self.pause = (self.pause * 2).clamp(PAUSES.0, PAUSES.1);
            match self.begin_home(Arc::clone(&program), OPEN_WITHIN) {
                Ok(_) => return Ok(()),
                Err(Why::Stopped) => return Err(Why::Stopped),
                Err(Why::Failed(why)) => tracing::error!(why, "no home"),
            }
        }
    }

    /// Lets some time pass.
    pub(super) fn wait(&mut self, time: Duration) -> Result<(), Why> {
        let until = self.clock.now() + time;
        while self.clock.now() < until {
            self.step(LOOK)?;
        }
        Ok(())
    }

    /// The server stops: whoever has the store ends in order, if it does so in time. In the middle
    /// of an upgrade one may be letting go, or opening it.
    fn stop(&mut self) {
        let has_store =
            |one: &Process| matches!(one.stage, Stage::Opening | Stage::Serving | Stage::Leaving);
        for home in self.processes.iter().filter(|one| has_store(one)) {
            home.order(&Order::Stop);
        }
        let until = self.clock.now() + self.drain_timeout + Duration::from_secs(5);
        loop {
            let mut homes = self.processes.iter_mut().filter(|one| has_store(one));
            if homes.all(|one| one.has_ended().is_some()) {
                break;
            }
            if self.clock.now() >= until {
                tracing::warn!("the home does not end: it is cut off");
                break;
            }
            std::thread::sleep(LOOK);
        }
        self.processes.clear();
    }
}
