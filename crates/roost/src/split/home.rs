//! The life of a home: it waits until the store is its own, serves what the edge passes on, and
//! lets go when another one takes over. Owns the order of these steps.
//!
//! It ends when its keeper does: nobody else could reach it.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use server::Door;
use server::away::Cluster;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stdx::time::{Clock as _, SystemClock};
use store::{RangeId, Store};

use super::process::key_text;
use super::reins::{self, Order, Report, VERSION};
use super::ways::{Way, Ways};
use super::{EDGE, folder, home_name};
use crate::certs;
use crate::cli::Place;
use crate::config::Config;
use crate::control;
use crate::exit::{self, Failure};
use crate::heap::{self, Trimmer};
use crate::logs::LogControl;
use crate::member::Returned;
use crate::node::{self, Running};
use crate::serve;

/// Orders that wait.
const ORDERS_MAX: usize = 16;

/// How often the main thread looks whether the node is sound.
const WATCH: Duration = Duration::from_secs(1);

/// How often it is said that every shard turns.
const TURNING: Duration = Duration::from_secs(1);

/// How long a shard may take for a turn.
const TURN_MAX: Duration = Duration::from_secs(10);

/// How often it is looked at what came back on the link.
const LOOK: Duration = Duration::from_millis(20);

/// For a process that is ending to give the store up, in steps of [`LOOK`].
const LOCKED_LOOKS: u32 = 500;

/// Looks at whether anything is still committed, the pause between two, and how many of the same
/// kind say that nothing is.
const SETTLE_LOOKS: u32 = 100;
const SETTLE_LOOK: Duration = Duration::from_millis(5);
const SETTLED: u32 = 2;

/// For connections to be told that this home is none any more.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// For the edge to take what was said to it.
const FLUSH_WITHIN: Duration = Duration::from_secs(5);

/// What the main thread waits for.
enum Event {
    Ordered(Order),
    /// The edge is gone.
    Alone,
}

/// Runs a home until its keeper has enough of it.
///
/// # Errors
/// It could not serve.
pub(crate) fn run(place: &Place) -> Result<ExitCode, Failure> {
    let reins = io::stdin().as_fd().try_clone_to_owned();
    let reins = reins.map(UnixStream::from).and_then(of_a_keeper);
    let Ok(reins) = reins else {
        return Err(Failure::Usage(
            "an edge starts this: use roost serve with server.split = true".to_owned(),
        ));
    };
    leave_signals_to_the_edge()?;
    let reins = Arc::new(reins);
    serve_for(place, &reins).inspect_err(|failure| {
        let why = failure.to_string();
        let _ = reins::say(&reins, &Report::Failed { why });
    })
}

/// The other end of a pair, and nothing that a shell gives.
fn of_a_keeper(end: UnixStream) -> io::Result<UnixStream> {
    end.peer_addr()?;
    end.set_write_timeout(Some(Duration::from_secs(5)))?;
    Ok(end)
}

/// A supervisor or a terminal sends signals to every process of a service. When a home ends is the
/// edge's affair: one that ended at once would let go of nothing in order.
fn leave_signals_to_the_edge() -> Result<(), Failure> {
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default()).map_err(failed("signals"))?;
    }
    Ok(())
}

fn serve_for(place: &Place, reins: &Arc<UnixStream>) -> Result<ExitCode, Failure> {
    let config = place.source().load()?;
    let log = &config.settings.log;
    let logs = LogControl::start(log.level, log.format);
    crate::logs::log_panics();
    heap::settle();
    net::raise_descriptor_limit();
    // What is wrong with them is found out before the other home lets go.
    let data = &config.settings.node.data;
    let today = SystemClock::new().wall();
    certs::load(&config.settings.tls, &config.domains(), data, today).map_err(Failure::Failed)?;
    let (sender, events) = sync_channel(ORDERS_MAX);
    listen(Arc::clone(reins), sender)?;
    let here = Report::Here {
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        format: store::SCHEMA,
    };
    say(reins, &here)?;
    let (tenure, slot, edge) = match events.recv() {
        Ok(Event::Ordered(Order::Serve { tenure, slot, edge })) => (tenure, slot, edge),
        // Nobody needs it.
        _ => return Ok(ExitCode::SUCCESS),
    };
    let mut home = Home::start(config, place, (tenure, slot, edge), logs, reins)?;
    let slot_key = key_text(home.slot_key);
    say(reins, &Report::Serving { slot_key })?;
    let code = home.live(&events);
    Ok(code)
}

fn listen(reins: Arc<UnixStream>, events: SyncSender<Event>) -> Result<(), Failure> {
    let hear = move || {
        reins::listen(&reins, |order| {
            let _ = events.send(Event::Ordered(order));
        });
        let _ = events.send(Event::Alone);
    };
    let thread = thread::Builder::new().name("reins".to_owned());
    thread.spawn(hear).map(drop).map_err(failed("reins"))
}

fn say(reins: &UnixStream, report: &Report) -> Result<(), Failure> {
    reins::say(reins, report).map_err(failed("the edge does not listen"))
}

fn failed<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> Failure {
    let what = what.to_owned();
    move |error| Failure::Failed(format!("{what}: {error}"))
}

/// All ranges, which have one home here.
fn all() -> Vec<RangeId> {
    RangeId::all().collect()
}

/// Opens the store, once whoever had it has given it up.
fn open(config: &Config) -> Result<Store, Failure> {
    let mut looks = 0;
    loop {
        match node::open_store(config, None) {
            Err(Failure::TryAgain(_)) if looks < LOCKED_LOOKS => {
                looks += 1;
                thread::sleep(LOOK);
            }
            Err(Failure::TryAgain(why)) => return Err(Failure::Failed(why)),
            opened => return opened,
        }
    }
}

/// A home that serves.
struct Home {
    place: Place,
    config: Config,
    logs: LogControl,
    running: Option<Running>,
    door: Door,
    ways: Arc<Ways>,
    control: control::Server,
    slot_key: [u8; 16],
    is_over: Arc<AtomicBool>,
}

impl Home {
    fn start(
        config: Config,
        place: &Place,
        (tenure, slot, edge): (u32, usize, u64),
        logs: LogControl,
        reins: &Arc<UnixStream>,
    ) -> Result<Home, Failure> {
        let data = config.settings.node.data.clone();
        let store = open(&config)?;
        let slot_key = store.slot_key().to_bytes();
        let certificates = certs::load(
            &config.settings.tls,
            &config.domains(),
            &data,
            SystemClock::new().wall(),
        );
        let certificates = certificates.map_err(Failure::Failed)?;
        let name = home_name(slot);
        let ways = Ways::start(&data, name.clone(), u64::from(tenure)).map_err(failed("link"))?;
        let ways = Arc::new(ways);
        let cluster = Cluster {
            journal: node::local_journal(&store, &config)?,
            away: Arc::new(Way(Arc::clone(&ways))),
        };
        let running = Running::start_home(&config, certificates, store, cluster)?;
        let door = running
            .door()
            .ok_or_else(|| Failure::Failed("a home without a door".to_owned()))?;
        ways.set_door(door.clone());
        ways.meet(&data, EDGE, edge).map_err(failed("link"))?;
        let is_over: Arc<AtomicBool> = Arc::default();
        look_after(Arc::clone(&ways), Arc::clone(&is_over))?;
        let observer = Arc::new(running.observer(&config, None));
        observer.watch().map_err(failed("alarms"))?;
        let operator = Arc::new(running.operator(observer, None));
        let control = control::Server::start(&folder(&data, &name), operator);
        let control = control.map_err(failed("control socket"))?;
        door.gain(&all(), tenure);
        say_turning(running.admin(), Arc::clone(reins))?;
        tracing::info!(tenure, "home");
        Ok(Home {
            place: place.clone(),
            config,
            logs,
            running: Some(running),
            door,
            ways,
            control,
            slot_key,
            is_over,
        })
    }

    fn live(&mut self, events: &Receiver<Event>) -> ExitCode {
        let mut heap = Trimmer::default();
        let crash_after = self.config.settings.debug.crash_after;
        loop {
            let watch = if crash_after.is_zero() {
                WATCH
            } else {
                crash_after
            };
            match events.recv_timeout(watch) {
                Ok(Event::Ordered(Order::Reload)) => self.reload(),
                Ok(Event::Ordered(Order::Leave)) => {
                    self.leave();
                    return ExitCode::SUCCESS;
                }
                Ok(Event::Ordered(Order::Serve { .. })) => {}
                Ok(Event::Ordered(Order::Stop)) => {
                    self.stop();
                    return ExitCode::SUCCESS;
                }
                Ok(Event::Alone) | Err(RecvTimeoutError::Disconnected) => {
                    tracing::warn!("the edge is gone");
                    // Its connections are told so, and nothing is sent any more.
                    self.ways.part(EDGE);
                    self.stop();
                    return ExitCode::SUCCESS;
                }
                Err(RecvTimeoutError::Timeout) => {
                    let sound = self.running.as_ref().is_some_and(Running::is_sound);
                    if !sound || !crash_after.is_zero() {
                        tracing::error!("a shard has ended: stopping");
                        return ExitCode::from(exit::CRASH);
                    }
                    if let Some(running) = &self.running {
                        heap.look(running.accounts_loaded());
                    }
                }
            }
        }
    }

    /// Another home takes over: every connection is left with what the next one needs.
    fn leave(&mut self) {
        tracing::info!("another home takes over");
        self.control.stop();
        self.settle();
        self.door.lose(&all());
        self.end(LEAVE_WITHIN);
    }

    /// Lets what clients have said come to its end: the edge sends nothing any more. What is still
    /// under way then is done again by the next home, or not at all.
    fn settle(&self) {
        let Some(running) = &self.running else { return };
        let admin = running.admin();
        let (mut before, mut same) = (None, 0);
        for _ in 0..SETTLE_LOOKS {
            thread::sleep(SETTLE_LOOK);
            let journal = admin.sample().journal;
            let now = Some((journal.committed, journal.failed));
            same = if now == before { same + 1 } else { 0 };
            if same == SETTLED {
                return;
            }
            before = now;
        }
        tracing::warn!("changes are under way as another home takes over");
    }

    /// The server stops. The edge has said goodbye to its clients.
    fn stop(&mut self) {
        self.control.stop();
        self.end(self.config.settings.server.drain_timeout);
    }

    fn end(&mut self, within: Duration) {
        if let Some(running) = self.running.take() {
            running.drain(within);
        }
        self.ways.flush(FLUSH_WITHIN);
        self.is_over.store(true, Ordering::Release);
        tracing::info!("home ends");
    }

    fn reload(&mut self) {
        let Some(running) = &self.running else { return };
        match serve::reload(running, &self.place, &mut self.config, &self.logs, None) {
            Ok(()) => tracing::info!("home reloaded"),
            Err(message) => {
                tracing::error!("home not reloaded, everything stays as it was: {message}");
            }
        }
    }
}

/// Sees to the link until the end.
fn look_after(ways: Arc<Ways>, is_over: Arc<AtomicBool>) -> Result<(), Failure> {
    let look = move || {
        let (clock, mut returned) = (SystemClock::new(), Returned::new());
        while !is_over.load(Ordering::Acquire) {
            ways.look(&mut returned, clock.now());
            thread::sleep(LOOK);
        }
    };
    let thread = thread::Builder::new().name("ways".to_owned());
    thread.spawn(look).map(drop).map_err(failed("ways"))
}

/// Shows the keeper that all is well, for as long as it is.
fn say_turning(admin: server::admin::Admin, reins: Arc<UnixStream>) -> Result<(), Failure> {
    let show = move || {
        loop {
            if !admin.is_turning(TURN_MAX) {
                tracing::error!("a shard took no turn for {TURN_MAX:?}");
            } else if reins::say(&reins, &Report::Turning).is_err() {
                return;
            }
            thread::sleep(TURNING);
        }
    };
    let thread = thread::Builder::new().name("turning".to_owned());
    thread.spawn(show).map(drop).map_err(failed("turning"))
}
