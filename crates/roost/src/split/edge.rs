//! The life of an edge: it starts the keeper and with it the first home, then opens its ports; at
//! the end it says goodbye to clients, and then has the home end. Owns that order, and where
//! operators, health checks and figures are answered.
//!
//! | what | answered by |
//! |---|---|
//! | commands | the home, through the edge, which waits for one; `roost upgrade` by the keeper |
//! | `/healthz` | the edge |
//! | `/readyz` | the edge: not if there has been no home for a while |
//! | `/metrics` | the home's figures, and the edge's behind them, as `roost_edge_…` |
//! | systemd | the edge: ready once the home serves |

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use stdx::time::{Clock as _, SystemClock};
use watch::{Observer, metrics};

use super::keeper::{Event, Keeper, Shared, Wish};
use super::order::{self, Outcome};
use super::ways::{Way, Ways};
use super::{EDGE, folder};
use crate::certs;
use crate::cli::Place;
use crate::config::Config;
use crate::control::{self, ANSWER_TIMEOUT, CallError, Client};
use crate::exit::{self, Failure};
use crate::heap;
use crate::http::{Figures, Health, Stage};
use crate::logs::LogControl;
use crate::member;
use crate::node::{Request, Response, Running, refusal};
use crate::notify;
use crate::serve;

/// Events that wait for the keeper.
const KEEPER_EVENTS_MAX: usize = 256;

/// Time without a home after which balancers should send nobody: an upgrade takes less.
const HOMELESS_MAX: Duration = Duration::from_secs(5);

/// For a home to be there for a command.
const HOME_WITHIN: Duration = Duration::from_secs(15);

/// Pause between two looks for one.
const LOOK: Duration = Duration::from_millis(20);

/// For a home to tell its figures.
const FIGURES_WITHIN: Duration = Duration::from_secs(5);

/// Runs an edge until it is told to stop.
///
/// # Errors
/// It could not start, or no home did.
pub(crate) fn run(place: &Place, config: Config) -> Result<ExitCode, Failure> {
    let log = &config.settings.log;
    let logs = LogControl::start(log.level, log.format);
    crate::logs::log_panics();
    let (sender, events) = sync_channel(serve::EVENTS_MAX);
    serve::watch_signals(sender.clone())?;
    heap::settle();
    net::raise_descriptor_limit();
    let data = config.settings.node.data.clone();
    serve::make_folder(&data)?;
    let health = Health::default();
    let figures = Figures::new(metrics::CONTENT_TYPE);
    let web = serve::start_web(&config, &health, &figures)?;
    let clock = SystemClock::new();
    let edge = u64::try_from(clock.wall().as_millis()).unwrap_or_default();
    let lock = lock(&data)?;
    let ways = Ways::start(&data, EDGE.to_owned(), edge).map_err(failed("link"))?;
    let ways = Arc::new(ways);
    for note in config.notes() {
        tracing::warn!("{note}");
    }
    // One that is made is made here, and found by the home.
    let certificates = certs::load(&config.settings.tls, &config.domains(), &data, clock.wall());
    let certificates = certificates.map_err(Failure::Failed)?;
    let (to_keeper, of_keeper) = sync_channel(KEEPER_EVENTS_MAX);
    let mut keeper = Keeper::new(
        place.clone(),
        &data,
        Arc::clone(&ways),
        (edge, config.settings.server.drain_timeout),
        (to_keeper.clone(), of_keeper),
    )
    .map_err(failed("keeper"))?;
    let slot_key = keeper.begin()?;
    let way = Arc::new(Way(Arc::clone(&ways)));
    let running = Running::start_edge(&config, certificates, slot_key, web, way)?;
    if let Some(door) = running.door() {
        ways.set_door(door);
    }
    keeper.show();
    let shared = Arc::clone(&keeper.shared);
    let thread = thread::Builder::new().name("keeper".to_owned());
    let keeper = thread
        .spawn(move || keeper.run())
        .map_err(failed("keeper"))?;
    let readiness = Arc::clone(&shared);
    health.set_check(move || match readiness.homeless_since() {
        Some(since) if clock.now().saturating_since(since) > HOMELESS_MAX => {
            Err("no home".to_owned())
        }
        _ => Ok(()),
    });
    health.set(Stage::Ready);
    health.wait_for_shards();
    let observer = Arc::new(running.observer(&config, None));
    observer.watch().map_err(failed("alarms"))?;
    show_figures(&figures, Arc::clone(&observer), Arc::clone(&shared));
    let admin = running.admin();
    notify::watch(move |within| admin.is_turning(within)).map_err(failed("watchdog"))?;
    let operator = Arc::new(EdgeOperator {
        shared: Arc::clone(&shared),
        keeper: to_keeper.clone(),
        clock,
    });
    let control = control::Server::start(&data, operator).map_err(failed("control socket"))?;
    serve::announce(&config, &running);
    tracing::info!("ready");
    notify::ready(&serve::status(&running));
    let edge = Edge {
        place: place.clone(),
        config,
        logs,
        health,
        control,
        sender,
        to_keeper,
        keeper: Some(keeper),
        shared,
        _lock: lock,
    };
    Ok(edge.live(running, &events))
}

fn failed<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> Failure {
    let what = what.to_owned();
    move |error| Failure::Failed(format!("{what}: {error}"))
}

/// One edge has a data folder.
fn lock(data: &std::path::Path) -> Result<File, Failure> {
    let folder = folder(data, EDGE);
    serve::make_folder(&folder)?;
    let path = folder.join("lock");
    let file = File::create(&path).map_err(failed(&path.display().to_string()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Failure::Failed(format!(
            "{}: another server runs there",
            data.display()
        ))),
        Err(TryLockError::Error(error)) => Err(failed(&path.display().to_string())(error)),
    }
}

fn show_figures(figures: &Figures, observer: Arc<Observer>, shared: Arc<Shared>) {
    figures.set(Box::new(move || {
        let home = home_figures(&shared).unwrap_or_default();
        // The same names, of the other process.
        let edge = metrics::page(&observer.look()).replace("roost_", "roost_edge_");
        let homes = shared.homes.load(Ordering::Relaxed);
        format!(
            "{home}{edge}# HELP roost_edge_homes_total Homes that have served\n\
             # TYPE roost_edge_homes_total counter\nroost_edge_homes_total {homes}\n"
        )
    }));
}

fn home_figures(shared: &Shared) -> Option<String> {
    let mut client = Client::connect(&shared.serving()?).ok().flatten()?;
    match client.call_within(&order::Request::Figures, FIGURES_WITHIN) {
        Ok(order::Response::Figures { page }) => Some(page),
        _ => None,
    }
}

/// Who answers operators.
struct EdgeOperator {
    shared: Arc<Shared>,
    keeper: SyncSender<Event>,
    clock: SystemClock,
}

impl control::Operator for EdgeOperator {
    // Every line is passed on, but for those that only this process knows.
    fn call(&self, _request: Request) -> Response {
        refusal("no_home", "there is no home")
    }

    fn watch(&self, _request: watch::Request) -> watch::Response {
        watch::Response::Error {
            code: "no_home".to_owned(),
            message: "there is no home".to_owned(),
        }
    }

    fn order(&self, request: member::order::Request) -> member::order::Response {
        member::order::call(None, &request)
    }

    fn split(&self, request: order::Request) -> order::Response {
        match request {
            order::Request::Upgrade {
                binary,
                one_way,
                within_ms,
            } => self.upgrade(binary.into(), one_way, Duration::from_millis(within_ms)),
            order::Request::Figures => order::refusal(),
        }
    }

    fn pass_on(&self, line: &[u8]) -> Option<Vec<u8>> {
        if serde_json::from_slice::<order::Request>(line).is_ok() {
            return None;
        }
        let answer = self.ask_home(line);
        Some(answer.unwrap_or_else(|error| {
            let refused = refusal("no_answer", &format!("the home {error}"));
            serde_json::to_vec(&refused).unwrap_or_default()
        }))
    }
}

impl EdgeOperator {
    /// Has the home answer a line, once there is one.
    fn ask_home(&self, line: &[u8]) -> Result<Vec<u8>, CallError> {
        let until = self.clock.now() + HOME_WITHIN;
        loop {
            let folder = self.shared.serving();
            let client = folder.and_then(|folder| Client::connect(&folder).ok().flatten());
            match client {
                Some(mut client) => return client.pass(line.to_vec().into(), ANSWER_TIMEOUT),
                None if self.clock.now() >= until => {
                    let why = format!("is not there within {HOME_WITHIN:?}");
                    return Err(CallError::NoAnswer(why));
                }
                None => thread::sleep(LOOK),
            }
        }
    }

    fn upgrade(&self, binary: PathBuf, one_way: bool, within: Duration) -> order::Response {
        let refuse = |code: &str, message: &str| order::Response::Error {
            code: code.to_owned(),
            message: message.to_owned(),
        };
        let (reply, answer) = sync_channel(1);
        let wish = Wish {
            binary,
            one_way,
            within,
        };
        if self.keeper.send(Event::Upgrade(wish, reply)).is_err() {
            return refuse("stopping", "the server stops");
        }
        match answer.recv() {
            Ok(order::Response::Upgraded { outcome }) => {
                let connections = self.shared.connections.load(Ordering::Relaxed);
                let outcome = Outcome {
                    connections,
                    ..outcome
                };
                order::Response::Upgraded { outcome }
            }
            Ok(other) => other,
            Err(_) => refuse("stopping", "the server stops"),
        }
    }
}

/// A started edge.
struct Edge {
    place: Place,
    config: Config,
    logs: LogControl,
    health: Health,
    control: control::Server,
    sender: SyncSender<serve::Event>,
    to_keeper: SyncSender<Event>,
    keeper: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    _lock: File,
}

impl Edge {
    /// Waits for signals until the end.
    fn live(mut self, running: Running, events: &Receiver<serve::Event>) -> ExitCode {
        let mut running = Some(running);
        let mut code = ExitCode::SUCCESS;
        loop {
            if let Some(running) = &running {
                let connections = running.connections();
                self.shared
                    .connections
                    .store(connections, Ordering::Relaxed);
            }
            match events.recv_timeout(serve::WATCH) {
                Ok(serve::Event::Signal(signal_hook::consts::SIGHUP)) => {
                    if let Some(running) = &running {
                        self.reload(running);
                    }
                }
                Ok(serve::Event::Signal(signal)) => match running.take() {
                    Some(running) => self.drain(running, signal),
                    None => {
                        tracing::warn!("told a second time to stop: streams are cut off");
                        return ExitCode::from(exit::CUT_SHORT);
                    }
                },
                Ok(serve::Event::Drained) | Err(RecvTimeoutError::Disconnected) => {
                    tracing::info!("stopped");
                    return code;
                }
                Err(RecvTimeoutError::Timeout) => {
                    let keeper = self.keeper.as_ref();
                    let has_keeper = keeper.is_none_or(|keeper| !keeper.is_finished());
                    let is_broken = |running: &mut Running| !running.is_sound() || !has_keeper;
                    if let Some(broken) = running.take_if(is_broken) {
                        tracing::error!("a shard, or the keeper, has ended: stopping");
                        self.health.set(Stage::Broken);
                        code = ExitCode::from(exit::CRASH);
                        self.drain(broken, signal_hook::consts::SIGTERM);
                    }
                }
            }
        }
    }

    /// Closes all streams, and then has the home end.
    fn drain(&mut self, running: Running, signal: i32) {
        let deadline = self.config.settings.server.drain_timeout;
        let to_keeper = self.to_keeper.clone();
        let (keeper, shared) = (self.keeper.take(), Arc::clone(&self.shared));
        let drain = move || {
            running.drain(deadline);
            shared.stop();
            let _ = to_keeper.try_send(Event::Stop);
            if let Some(keeper) = keeper {
                // A panic of the thread was printed where it happened.
                let _ = keeper.join();
            }
        };
        let said = (&self.health, &mut self.control, &self.sender);
        serve::stop((signal, deadline), said, drain);
    }

    /// Applies what can be applied here, and has the home do so.
    fn reload(&mut self, running: &Running) {
        tracing::info!("reloading");
        notify::reloading();
        match serve::reload(running, &self.place, &mut self.config, &self.logs, None) {
            Ok(()) => {
                tracing::info!("reloaded");
                let _ = self.to_keeper.try_send(Event::Reload);
            }
            Err(message) => tracing::error!("not reloaded, everything stays as it was: {message}"),
        }
        notify::ready(&serve::status(running));
    }
}
