//! `roost serve`: the life of the process on one page. Configuration, store, ports, control socket;
//! then signals until the end. Owns the order of these steps and the exit code.
use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stdx::time::{Clock as _, SystemClock, Timestamp};

use watch::metrics;

use crate::certs;
use crate::cli::Place;
use crate::config::{Config, LimitSettings, LogFormat};
use crate::control;
use crate::exit::{self, Failure};
use crate::heap::{self, Trimmer};
use crate::http::{self, Figures, Health, Stage};
use crate::logs::LogControl;
use crate::member::{self, Joined, Member, Parts};
use crate::node::{self, Running};
use crate::notify;
use crate::pages::{self, Pages};
use crate::split;

/// Events of this process that wait for its main thread: signals, and the end of a drain.
pub(crate) const EVENTS_MAX: usize = 16;

/// How often the main thread looks whether the node is sound.
pub(crate) const WATCH: Duration = Duration::from_secs(1);

/// What the main thread waits for.
pub(crate) enum Event {
    /// The process was sent this one.
    Signal(i32),
    /// All streams are closed.
    Drained,
}

/// Runs a server until it is told to stop.
///
/// # Errors
/// It could not start.
pub(crate) fn run(place: &Place) -> Result<ExitCode, Failure> {
    let config = place.source().load()?;
    if config.settings.server.split {
        return split::run_edge(place, config);
    }
    let log = &config.settings.log;
    let logs = LogControl::start(log.level, log.format);
    crate::logs::log_panics();
    let (sender, events) = sync_channel(EVENTS_MAX);
    watch_signals(sender.clone())?;
    let health = Health::default();
    let figures = Figures::new(metrics::CONTENT_TYPE);
    let web = start_web(&config, &health, &figures)?;
    let (running, mut member) = start(&config, web)?;
    let watcher = member.as_ref().map(Member::watcher);
    if let Some(watcher) = watcher.clone() {
        health.set_check(move || watcher.ready());
    }
    // From here on the shards accept, and nobody else: who came to the ports of the web before was
    // told to try again.
    health.set(Stage::Ready);
    health.wait_for_shards();
    let observer = Arc::new(running.observer(&config, watcher));
    let watched = Arc::clone(&observer);
    figures.set(Box::new(move || metrics::page(&watched.look())));
    observer
        .watch()
        .map_err(|error| Failure::Failed(format!("alarms: {error}")))?;
    let admin = running.admin();
    notify::watch(move |within| admin.is_turning(within))
        .map_err(|error| Failure::Failed(format!("watchdog: {error}")))?;
    if let Some(member) = &mut member {
        member.ask_for_lists(running.admin(), &config.settings.node.data);
    }
    let orders = member.as_ref().map(Member::orders);
    let operator = Arc::new(running.operator(observer, orders));
    let control = control::Server::start(&config.settings.node.data, operator)
        .map_err(|error| Failure::Failed(format!("control socket: {error}")))?;
    announce(&config, &running);
    tracing::info!("ready");
    notify::ready(&status(&running));
    let process = Process {
        member,
        place: place.clone(),
        config,
        logs,
        health,
        control,
        sender,
    };
    Ok(process.live(running, &events))
}

/// Passes signals on to the main thread.
///
/// # Errors
/// The system gives neither signals nor threads.
pub(crate) fn watch_signals(sender: SyncSender<Event>) -> Result<(), Failure> {
    let named = |error: io::Error| Failure::Failed(format!("signals: {error}"));
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(named)?;
    let forward = move || {
        for signal in signals.forever() {
            if sender.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(forward)
        .map_err(named)?;
    Ok(())
}

/// Says that the process stops, and takes no further command. Streams are closed on a thread of its
/// own, so that a second signal is heard; the main thread hears when that is done.
pub(crate) fn stop(
    (signal, deadline): (i32, Duration),
    (health, control, sender): (&Health, &mut control::Server, &SyncSender<Event>),
    drain: impl FnOnce() + Send + 'static,
) {
    tracing::info!(
        signal,
        seconds = deadline.as_secs(),
        "stopping: closing streams"
    );
    notify::stopping();
    health.set(Stage::Draining);
    control.stop();
    let to_main = sender.clone();
    let drain = move || {
        drain();
        // Nobody waits only if the process ends already.
        let _ = to_main.send(Event::Drained);
    };
    if let Err(error) = thread::Builder::new().name("drain".to_owned()).spawn(drain) {
        tracing::error!(%error, "no thread to close streams with: they are cut off");
        let _ = sender.try_send(Event::Drained);
    }
}

/// The ports of the web come first, so that health checks can say that the server is starting.
///
/// # Errors
/// An address that was asked for is taken.
pub(crate) fn start_web(
    config: &Config,
    health: &Health,
    figures: &Figures,
) -> Result<node::Web, Failure> {
    let settings = &config.settings;
    let mut listeners = Vec::new();
    let mut plain = Vec::new();
    for (name, listener) in node::web_listeners(config) {
        let (address, is_tls) = (listener.address, listener.direct_tls);
        match listener.reserve(node::shards(config)) {
            Ok(listener) => {
                let what = match is_tls {
                    true => "WebSocket and BOSH under TLS",
                    false => "health checks, WebSocket and BOSH",
                };
                tracing::info!(address = %listener.address, "listening for {what}");
                if !is_tls {
                    let sockets = listener.reserved.iter();
                    let sockets: io::Result<Vec<_>> = sockets.map(|s| s.try_clone()).collect();
                    let failed = |error| Failure::Failed(format!("{name}: {error}"));
                    plain.extend(sockets.map_err(failed)?);
                }
                listeners.push(listener);
            }
            // Most often it is the same server a second time: to open the store says so.
            Err(_) if node::is_in_use(config) => {}
            Err(error) if config.is_given(name) => {
                return Err(Failure::Failed(format!("{name}: {address}: {error}")));
            }
            Err(error) => {
                let lost = match is_tls {
                    true => "no streams over HTTPS",
                    false => "no health checks",
                };
                tracing::warn!(%error, "{lost}: set {name} to a free address");
            }
        }
    }
    let pages = pages::router(Pages {
        health: health.clone(),
        figures: figures.clone(),
        url: settings.http.url.clone(),
        websocket: settings.http.websocket,
        bosh: settings.http.bosh,
        client: settings.web.client.then(|| settings.web.folder.clone()),
        domain: settings.node.domain.clone(),
    });
    let web = http::start(plain, health, pages)
        .map_err(|error| Failure::Failed(format!("HTTP: {error}")))?;
    Ok(node::Web {
        listeners,
        pages: server::options::Pages(Arc::new(web.take)),
    })
}

fn start(config: &Config, web: node::Web) -> Result<(Running, Option<Member>), Failure> {
    let data = &config.settings.node.data;
    match &config.file {
        Some(file) => tracing::info!(file = %file.display(), "configuration"),
        None => tracing::info!("configuration: defaults"),
    }
    for note in config.notes() {
        tracing::warn!("{note}");
    }
    heap::settle();
    let descriptors = net::raise_descriptor_limit();
    make_folder(data)?;
    let joined = member::join(config)?;
    let belongs = joined.as_ref().map(Joined::belongs);
    let store = node::open_store(config, belongs.as_ref()).map_err(|failure| match failure {
        // Unlike a command, a server that is told to start has failed.
        Failure::TryAgain(message) => Failure::Failed(message),
        other => other,
    })?;
    let domains = config.domains();
    let certificates =
        certs::load(&config.settings.tls, &domains, data, today()).map_err(Failure::Failed)?;
    let parts = joined.map(|joined| joined.start(&store)).transpose()?;
    let cluster = parts.as_ref().map(Parts::cluster);
    let running = Running::start(config, certificates, store, web, cluster)?;
    let member = match parts.zip(running.door()) {
        Some((parts, door)) => Some(Member::start(parts, door)?),
        None => None,
    };
    tracing::info!(
        data = %data.display(),
        domains = domains.join(", "),
        descriptors,
        connections_max = node::connections_max(config),
        "started"
    );
    for (address, is_direct) in running.addresses() {
        let tls = if is_direct { "direct TLS" } else { "STARTTLS" };
        tracing::info!(%address, tls, "listening for clients");
    }
    for place in running.component_places() {
        tracing::info!(place, "listening for components");
    }
    Ok((running, member))
}

/// Makes the data folder, for its owner only.
///
/// # Errors
/// It cannot be made.
pub(crate) fn make_folder(data: &Path) -> Result<(), Failure> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data)
        .map_err(|error| Failure::Failed(format!("{}: {error}", data.display())))
}

fn today() -> Timestamp {
    SystemClock::new().wall()
}

/// Tells people at a terminal what to do next; a log for programs stays free of it.
pub(crate) fn announce(config: &Config, running: &Running) {
    if config.settings.log.format != LogFormat::Human {
        return;
    }
    let data = &config.settings.node.data;
    let place = match &config.file {
        Some(file) => format!("--config {}", file.display()),
        None => format!("--data {}", data.display()),
    };
    let mut said = format!(
        "Roost serves {} from {}\n",
        config.domains().join(", "),
        data.display()
    );
    for (address, is_direct) in running.addresses() {
        let kind = if is_direct { "direct TLS" } else { "STARTTLS" };
        let _ = writeln!(said, "  {address}  {kind}");
    }
    for (address, is_tls) in running.web_addresses() {
        let kind = if is_tls { "HTTPS" } else { "HTTP" };
        let _ = writeln!(said, "  {address}  {kind}");
    }
    for place in running.component_places() {
        let _ = writeln!(said, "  {place}  components");
    }
    let _ = writeln!(
        said,
        "Add a user:   roost user add alice@{} {place}\n\
         Stop it:      Ctrl-C, or SIGTERM; SIGHUP reloads certificates, limits and log level",
        config.settings.node.domain
    );
    // A server whose output nobody takes runs all the same.
    let _ = io::stdout().lock().write_all(said.as_bytes());
}

/// What systemd shows.
pub(crate) fn status(running: &Running) -> String {
    let addresses: Vec<SocketAddr> = running.addresses().iter().map(|(a, _)| *a).collect();
    format!("serving on {addresses:?}")
}

/// A started process.
struct Process {
    /// In a cluster.
    member: Option<Member>,
    place: Place,
    config: Config,
    logs: LogControl,
    health: Health,
    control: control::Server,
    sender: SyncSender<Event>,
}

impl Process {
    /// Waits for signals until the end.
    fn live(mut self, running: Running, events: &Receiver<Event>) -> ExitCode {
        let mut running = Some(running);
        let mut code = ExitCode::SUCCESS;
        let crash_after = self.config.settings.debug.crash_after;
        let is_to_crash = !crash_after.is_zero();
        let watch = if is_to_crash { crash_after } else { WATCH };
        let mut heap = Trimmer::default();
        loop {
            match events.recv_timeout(watch) {
                Ok(Event::Signal(SIGHUP)) => {
                    if let Some(running) = &running {
                        self.reload(running);
                    }
                }
                Ok(Event::Signal(signal)) => match running.take() {
                    Some(running) => self.drain(running, signal),
                    None => {
                        tracing::warn!("told a second time to stop: streams are cut off");
                        return ExitCode::from(exit::CUT_SHORT);
                    }
                },
                Ok(Event::Drained) | Err(RecvTimeoutError::Disconnected) => {
                    tracing::info!("stopped");
                    return code;
                }
                Err(RecvTimeoutError::Timeout) => {
                    let is_broken = |running: &mut Running| is_to_crash || !running.is_sound();
                    if let Some(broken) = running.take_if(is_broken) {
                        tracing::error!("a shard has ended: stopping");
                        self.health.set(Stage::Broken);
                        code = ExitCode::from(exit::CRASH);
                        self.drain(broken, SIGTERM);
                    }
                    let outdated = self.member.as_ref().and_then(Member::outdated);
                    if let Some((why, running)) =
                        outdated.and_then(|why| Some((why, running.take()?)))
                    {
                        tracing::error!("{why}");
                        code = ExitCode::from(exit::OUTDATED);
                        self.drain(running, SIGTERM);
                    }
                    if let Some(running) = &running {
                        heap.look(running.accounts_loaded());
                    }
                }
            }
        }
    }

    /// Closes all streams. A node of a cluster gives its homes away first.
    fn drain(&mut self, running: Running, signal: i32) {
        let deadline = self.config.settings.server.drain_timeout;
        let member = self.member.take();
        let drain = move || {
            let clock = SystemClock::new();
            let begun = clock.now();
            if let Some(member) = &member {
                // Who comes now should come to another node.
                running.stop_accepting();
                member.hand_over(deadline / 2);
            }
            let took = clock.now().saturating_since(begun);
            running.drain(deadline.saturating_sub(took));
            if let Some(member) = &member {
                member.leave();
            }
            // Its journal is needed until then.
            drop(member);
        };
        let said = (&self.health, &mut self.control, &self.sender);
        stop((signal, deadline), said, drain);
    }

    /// Applies what can be applied. Anything wrong leaves everything as it was.
    fn reload(&mut self, running: &Running) {
        tracing::info!("reloading");
        notify::reloading();
        let member = self.member.as_ref();
        let (place, config) = (&self.place, &mut self.config);
        match reload(running, place, config, &self.logs, member) {
            Ok(()) => tracing::info!("reloaded"),
            Err(message) => tracing::error!("not reloaded, everything stays as it was: {message}"),
        }
        notify::ready(&status(running));
    }
}

/// Puts in force what can be of a configuration that is read again. Anything wrong leaves
/// everything as it was.
///
/// # Errors
/// What is wrong.
pub(crate) fn reload(
    running: &Running,
    place: &Place,
    config: &mut Config,
    logs: &LogControl,
    member: Option<&Member>,
) -> Result<(), String> {
    let new = place.source().load().map_err(|error| error.to_string())?;
    let data = &config.settings.node.data;
    // The domains in force are those of the start; so are their certificates.
    let domains = config.domains();
    let certificates = certs::load(&new.settings.tls, &domains, data, today())?;
    let links = member.map(|member| member.credentials(&new)).transpose()?;
    running.set_certificates(&new, certificates)?;
    if let Some((member, links)) = member.zip(links) {
        member.set_credentials(links)?;
    }
    let settings = &mut config.settings;
    settings.server.drain_timeout = new.settings.server.drain_timeout;
    let exempt_addresses = std::mem::take(&mut settings.limits.exempt_addresses);
    settings.limits = LimitSettings {
        exempt_addresses,
        ..new.settings.limits.clone()
    };
    running.set_limits(config)?;
    logs.set_level(new.settings.log.level);
    let (live, later) = config.changes(&new);
    for change in live {
        tracing::info!("changed: {change}");
    }
    for change in later {
        tracing::warn!("takes a restart: {change}");
    }
    config.accept_live(&new);
    Ok(())
}
