//! A whole run: workers started, phases driven, the server sampled, the report drawn up.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use crate::clock::{self, MILLI, SECOND};
use crate::crew::{Crew, News, WorkerCommand, raise_descriptor_limit};
use crate::plan::{Down, PhasePart, Plan, Tick, Up};
use crate::report::{PhaseReport, Report, Second, TimingReport};
use crate::ring::{self, Ring, View};
use crate::sample::{self, Sample};
use crate::scenario::{Phase, Scenario};
use crate::tally::{Counts, Timing, Timings};

/// Descriptors a worker keeps for other things than its users' links.
const DESCRIPTORS_SPARE: u64 = 600;
/// Users of one worker process unless said otherwise.
pub const USERS_PER_WORKER: u32 = 18_000;
/// Connections from one local address at most, well under the usual port range.
const CONNECTIONS_PER_SOURCE: u32 = 10_000;
/// Time between the word that begins something and its beginning, for all workers to hear it: they
/// listen at least once in a tick, which is shorter.
const NOTICE: u64 = 300 * MILLI;
/// Nothing heard for so long means that a phase has settled.
const QUIET_MS: u64 = 700;
/// The same where one message makes many copies: a server that is busy with them may say nothing
/// for a while.
const QUIET_COPIES_MS: u64 = 5_000;
/// Workers have this long to hand over their counts.
const COLLECT_WAIT: Duration = Duration::from_secs(60);
/// Time to reach the server before the run.
const PROBE_WAIT: Duration = Duration::from_secs(5);

/// Everything a run needs besides its scenario.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The server's processes, for memory and CPU.
    pub pids: Vec<u32>,
    /// Worker processes; 0: as many as the users need.
    pub workers: u32,
    /// Users per worker at most; 0: [`USERS_PER_WORKER`] or what descriptors allow.
    pub users_per_worker: u32,
    /// Local addresses to connect from; empty: 127.0.0.x as needed for a loopback server.
    pub sources: Vec<IpAddr>,
    /// Seed of every random choice.
    pub seed: u64,
    /// How to start a worker process; without it everything runs in one thread.
    pub worker_command: Option<WorkerCommand>,
    /// Set from outside (a signal): the run stops and reports.
    pub interrupt: Arc<AtomicBool>,
}

/// Told what happens while a run goes on.
pub trait Reporter {
    /// A line worth keeping.
    fn note(&mut self, line: &str);
    /// The state of the run, once a second.
    fn progress(&mut self, phase: &str, second: &Second);
}

/// Runs `scenario` and always comes back with a report.
pub fn run(scenario: &Scenario, options: &Options, reporter: &mut dyn Reporter) -> Report {
    let mut shown = scenario.clone();
    // Reports are handed around: they carry no password.
    shown.users.password = "***".to_owned();
    let mut report = Report {
        format: 1,
        scenario: Some(shown),
        started_unix_ms: clock::unix_millis(),
        machine: sample::machine(),
        server_processes: options
            .pids
            .iter()
            .map(|pid| sample::command_line(*pid))
            .collect(),
        ..Report::default()
    };
    if let Err(error) = try_run(scenario, options, reporter, &mut report) {
        report.error = Some(error);
    }
    report.conclude();
    report
}

fn try_run(
    scenario: &Scenario,
    options: &Options,
    reporter: &mut dyn Reporter,
    report: &mut Report,
) -> Result<(), String> {
    scenario.validate().map_err(|error| error.to_string())?;
    for pid in &options.pids {
        if !sample::take(&[*pid]).alive {
            return Err(format!("no process has the pid {pid}"));
        }
    }
    let server = &scenario.server;
    let addresses = std::iter::once(&server.address)
        .chain(&server.more_addresses)
        .map(|address| resolve(address))
        .collect::<Result<Vec<_>, _>>()?;
    let transport = &scenario.transport;
    if transport.plaintext > 0.0 || transport.starttls > 0.0 {
        addresses.iter().try_for_each(|address| probe(*address))?;
    }
    let mut tls_address = addresses[0];
    if transport.direct > 0.0 {
        tls_address = resolve(&server.tls_address)?;
        probe(tls_address)?;
    }
    let mut web_address = addresses[0];
    if transport.websocket > 0.0 {
        web_address = resolve(&server.web_address)?;
        probe(web_address)?;
    }
    let plans = plans(scenario, options, &addresses, [tls_address, web_address])?;
    report.workers = plans.len() as u32;
    reporter.note(&format!(
        "{}: {} users with {} contacts each against {}{}, {} worker{}",
        scenario.name,
        scenario.users.count,
        scenario.users.contacts,
        server.address,
        match server.more_addresses.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        },
        plans.len(),
        if plans.len() == 1 { "" } else { "s" },
    ));
    let workers = plans.len();
    let crew = Crew::start(plans, options.worker_command.as_ref())
        .map_err(|error| format!("cannot start the workers: {error}"))?;
    let mut conductor = Conductor {
        scenario,
        options,
        crew,
        ticks: vec![Tick::default(); workers],
        parts: Vec::new(),
        gathered: Counts::default(),
        gathered_timings: Timings::new(1),
        started: clock::now(),
        second_at: clock::now(),
        last: sample::take(&options.pids),
        last_load_cpu: 0,
        step: 0,
        trouble: Vec::new(),
        load_cpu: vec![0; workers],
    };
    let outcome = conductor.conduct(reporter, report);
    report.warnings.append(&mut conductor.trouble);
    conductor.crew.finish();
    outcome
}

fn resolve(address: &str) -> Result<SocketAddr, String> {
    let found = address.to_socket_addrs();
    let mut found = found.map_err(|error| format!("cannot resolve {address}: {error}"))?;
    found
        .next()
        .ok_or_else(|| format!("{address} has no address"))
}

fn probe(address: SocketAddr) -> Result<(), String> {
    match TcpStream::connect_timeout(&address, PROBE_WAIT) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Err(format!("nothing listens on {address}: connection refused"))
        }
        Err(error) => Err(format!("cannot reach {address}: {error}")),
    }
}

fn plans(
    scenario: &Scenario,
    options: &Options,
    addresses: &[SocketAddr],
    [tls_address, web_address]: [SocketAddr; 2],
) -> Result<Vec<Plan>, String> {
    let limit = raise_descriptor_limit().saturating_sub(DESCRIPTORS_SPARE);
    let asked = match options.users_per_worker {
        0 => USERS_PER_WORKER,
        asked => asked,
    };
    let per_worker = u64::from(asked).min(limit).max(1) as u32;
    let users = scenario.users.count;
    let needed = users.div_ceil(per_worker);
    let workers = options.workers.max(needed).min(users);
    if workers > 1 && options.worker_command.is_none() {
        return Err(format!(
            "{users} users need {workers} processes ({per_worker} links each), and this program \
             cannot start them"
        ));
    }
    let mut plans = Vec::new();
    for worker in 0..workers {
        let cut = |worker: u32| {
            // Even cuts keep pair partners together.
            let at = u64::from(users) * u64::from(worker) / u64::from(workers);
            if worker == workers {
                users
            } else {
                at as u32 & !1
            }
        };
        let (first, end) = (cut(worker), cut(worker + 1));
        plans.push(Plan {
            scenario: scenario.clone(),
            addresses: addresses.to_vec(),
            tls_address,
            web_address,
            sources: sources(options, addresses[0], worker, end - first),
            worker,
            workers,
            first,
            count: end - first,
            seed: options.seed,
        });
    }
    Ok(plans)
}

/// Local addresses of one worker: on loopback as many as its connections need, none shared.
fn sources(options: &Options, server: SocketAddr, worker: u32, users: u32) -> Vec<IpAddr> {
    if !options.sources.is_empty() {
        return options.sources.clone();
    }
    if !matches!(server.ip(), IpAddr::V4(address) if address.is_loopback()) {
        return Vec::new();
    }
    // One more than needed: ports of ended connections stay taken for a minute. Every run begins
    // elsewhere, so that it does not meet those of the run before, or of one beside it.
    let wanted = users.div_ceil(CONNECTIONS_PER_SOURCE) + 1;
    let first = std::process::id() % 4_000 * 16;
    (0..wanted)
        .map(|place| {
            let number = 0x7f00_0101 + (first + worker * wanted + place) % 0xff_0000;
            IpAddr::V4(Ipv4Addr::from(number))
        })
        .collect()
}

struct Conductor<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    crew: Crew,
    /// The last tick of each worker.
    ticks: Vec<Tick>,
    parts: Vec<(usize, PhasePart)>,
    gathered: Counts,
    gathered_timings: Timings,
    started: u64,
    second_at: u64,
    last: Sample,
    last_load_cpu: u64,
    step: u32,
    trouble: Vec<String>,
    load_cpu: Vec<u64>,
}

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waited {
    Done,
    TooLong,
    Interrupted,
}

impl Conductor<'_> {
    fn conduct(&mut self, reporter: &mut dyn Reporter, report: &mut Report) -> Result<(), String> {
        for number in 0..self.scenario.phases.len() {
            let (phase, interrupted) = self.phase(number, reporter, report)?;
            let alive = phase.after.alive;
            let nobody = phase.online == 0 && phase.counts.logins_failed > 0;
            let reason = phase.reasons.0.iter().max_by_key(|(_, count)| **count);
            let reason = reason.map(|(reason, _)| reason.clone()).unwrap_or_default();
            report.phases.push(phase);
            if !alive {
                return Err("the server's process is gone".to_owned());
            }
            if nobody {
                return Err(format!(
                    "nobody could log in ({reason}); the rest was left out"
                ));
            }
            if interrupted {
                return Err("interrupted: the report covers what was done until then".to_owned());
            }
        }
        Ok(())
    }

    fn phase(
        &mut self,
        number: usize,
        reporter: &mut dyn Reporter,
        report: &mut Report,
    ) -> Result<(PhaseReport, bool), String> {
        let phase = &self.scenario.phases[number];
        let before = sample::take(&self.options.pids);
        let load_before: u64 = self.load_cpu.iter().sum();
        let start = clock::now() + NOTICE;
        self.step += 1;
        self.crew.tell(Down::Begin {
            phase: number,
            at: start,
            step: self.step,
        });
        let arrival_limit = start + self.arrival_limit(phase);
        let mut waited = self.wait(number, reporter, report, arrival_limit, |tick| {
            tick.pending == 0
        });
        if waited == Waited::TooLong {
            self.trouble.push(format!(
                "phase \"{}\": not everyone arrived in time",
                phase.name
            ));
        }
        // Workers may be asleep until their next tick: what is due before they hear of it is late.
        let hold_start = clock::now() + NOTICE;
        if waited != Waited::Interrupted {
            self.step += 1;
            self.crew.tell(Down::Hold {
                at: hold_start,
                step: self.step,
            });
            let until = hold_start + clock::nanos(phase.seconds);
            waited = self.wait(number, reporter, report, until, |_| false);
        }
        let hold_end = clock::now();
        self.step += 1;
        self.crew.tell(Down::Calm { step: self.step });
        let until = hold_end + clock::nanos(phase.settle_seconds_max);
        if waited != Waited::Interrupted {
            let place = phase.messages.as_ref().and_then(|it| it.peer.place());
            let quiet_ms = place.map_or(QUIET_MS, |_| QUIET_COPIES_MS);
            let quiet = |tick: &Tick| tick.quiet_ms >= quiet_ms && tick.coming == 0;
            if self.wait(number, reporter, report, until, quiet) == Waited::TooLong {
                self.trouble.push(format!(
                    "phase \"{}\": the server was still sending after {} s",
                    phase.name, phase.settle_seconds_max
                ));
            }
        }
        let after = sample::take(&self.options.pids);
        let parts = self.collect(number, reporter, report)?;
        let mut result = self.draw_up(phase, start, parts, (before, after));
        let active_start = if phase.meanwhile { start } else { hold_start };
        let active = hold_end.saturating_sub(active_start) as f64 / SECOND as f64;
        result.messages_per_second = per_second(result.counts.messages_received, active);
        let load_after: u64 = self.load_cpu.iter().sum();
        result.load_cpu_seconds = (load_after - load_before) as f64 / 1e9;
        Ok((result, waited == Waited::Interrupted))
    }

    /// How long arrivals may take: their schedule, then the time allowed for one login, twice.
    fn arrival_limit(&self, phase: &Phase) -> u64 {
        let users = f64::from(self.scenario.users.count);
        let arrivals = [
            phase.arrive.as_ref().map(|arrive| (0.0, arrive.rate)),
            phase.leave.as_ref().map(|leave| (0.0, leave.rate)),
            phase
                .storm
                .as_ref()
                .map(|storm| (storm.back_after_seconds, storm.rate)),
            phase.enter.as_ref().map(|enter| (0.0, enter.rate)),
        ];
        let schedule = arrivals
            .iter()
            .flatten()
            .map(|(delay, rate)| delay + rate.map_or(0.0, |rate| users / rate));
        let longest = schedule.fold(0.0, f64::max);
        clock::nanos(longest + 2.0 * self.scenario.client.login_timeout_seconds)
    }

    /// Hears the workers until all of them fit, the time is over, or somebody interrupts.
    fn wait(
        &mut self,
        phase: usize,
        reporter: &mut dyn Reporter,
        report: &mut Report,
        until: u64,
        fits: impl Fn(&Tick) -> bool,
    ) -> Waited {
        loop {
            if self.options.interrupt.load(Ordering::Relaxed) {
                return Waited::Interrupted;
            }
            let living = self.crew.living();
            if living.is_empty() || !self.last.alive {
                return Waited::Interrupted;
            }
            let all_fit = living.iter().all(|worker| {
                let tick = &self.ticks[*worker];
                tick.step == self.step && fits(tick)
            });
            if all_fit {
                return Waited::Done;
            }
            let now = clock::now();
            if now >= until {
                return Waited::TooLong;
            }
            self.each_second(phase, reporter, report, now);
            let pause = Duration::from_nanos((until - now).min(50 * MILLI));
            self.hear(pause);
        }
    }

    fn hear(&mut self, pause: Duration) {
        match self.crew.news.recv_timeout(pause) {
            Ok((worker, News::Up(Up::Tick(tick)))) => {
                self.gathered.add(&tick.counts);
                self.gathered_timings.add(&tick.timings);
                self.load_cpu[worker] = tick.cpu;
                self.ticks[worker] = *tick;
            }
            Ok((worker, News::Up(Up::Phase(part)))) => self.parts.push((worker, *part)),
            Ok((worker, News::Up(Up::Failed(reason)))) => {
                self.trouble.push(format!("worker {worker}: {reason}"));
                self.crew.lost(worker);
            }
            Ok((worker, News::Gone)) => {
                if self.crew.living().contains(&worker) {
                    self.trouble
                        .push(format!("worker {worker} ended before its time"));
                    self.crew.lost(worker);
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }

    fn each_second(
        &mut self,
        phase: usize,
        reporter: &mut dyn Reporter,
        report: &mut Report,
        now: u64,
    ) {
        if now < self.second_at + SECOND {
            return;
        }
        let span = (now - self.second_at) as f64 / SECOND as f64;
        self.second_at = now;
        let sample = sample::take(&self.options.pids);
        let load_cpu: u64 = self.load_cpu.iter().sum();
        let counts = std::mem::take(&mut self.gathered);
        let quantiles = |timing| {
            let histogram = self.gathered_timings.of(timing);
            (!histogram.is_empty()).then(|| {
                (
                    histogram.value_at_quantile(0.5),
                    histogram.value_at_quantile(0.99),
                )
            })
        };
        let second = Second {
            at: (now - self.started) as f64 / SECOND as f64,
            phase,
            online: self.ticks.iter().map(|tick| u64::from(tick.online)).sum(),
            coming: self.ticks.iter().map(|tick| u64::from(tick.coming)).sum(),
            logins: per_second(counts.logins_ok, span),
            failures: per_second(counts.logins_failed + counts.sessions_lost, span),
            sent: per_second(counts.messages_sent, span),
            received: per_second(counts.messages_received, span),
            presences: per_second(counts.presences_received, span),
            login_us: quantiles(Timing::Login),
            message_us: quantiles(Timing::Message),
            server_cores: sample.cpu.saturating_sub(self.last.cpu) as f64 / 1e9 / span,
            load_cores: load_cpu.saturating_sub(self.last_load_cpu) as f64 / 1e9 / span,
            rss: sample.rss,
            tcp_memory: sample.tcp_memory,
        };
        self.gathered_timings.take();
        self.last = sample;
        self.last_load_cpu = load_cpu;
        reporter.progress(&self.scenario.phases[phase].name, &second);
        report.series.push(second);
    }

    fn collect(
        &mut self,
        phase: usize,
        reporter: &mut dyn Reporter,
        report: &mut Report,
    ) -> Result<Vec<PhasePart>, String> {
        self.parts.clear();
        self.crew.tell(Down::Collect);
        let until = clock::now() + COLLECT_WAIT.as_nanos() as u64;
        loop {
            let living = self.crew.living();
            let missing = living
                .iter()
                .any(|worker| !self.parts.iter().any(|(from, _)| from == worker));
            if !missing {
                break;
            }
            let now = clock::now();
            if now > until {
                self.trouble
                    .push("a worker did not hand over its counts".to_owned());
                break;
            }
            self.each_second(phase, reporter, report, now);
            self.hear(Duration::from_millis(50));
        }
        let parts: Vec<PhasePart> = self.parts.drain(..).map(|(_, part)| part).collect();
        if parts.is_empty() {
            return Err("no worker is left".to_owned());
        }
        Ok(parts)
    }

    fn draw_up(
        &self,
        phase: &Phase,
        start: u64,
        parts: Vec<PhasePart>,
        (before, after): (Sample, Sample),
    ) -> PhaseReport {
        let mut timings = Timings::new(3);
        let mut result = PhaseReport {
            name: phase.name.clone(),
            seconds: after.at.saturating_sub(start) as f64 / SECOND as f64,
            online: self.ticks.iter().map(|tick| u64::from(tick.online)).sum(),
            before,
            after,
            ..PhaseReport::default()
        };
        let mut views: Vec<View> = Vec::new();
        let mut last_ready = 0;
        let (mut inside, mut orders) = (0, BTreeSet::new());
        let place = phase.messages.as_ref().and_then(|it| it.peer.place());
        for part in parts {
            result.counts.add(&part.counts);
            result.reasons.merge(&part.reasons);
            timings.add(&part.timings);
            last_ready = last_ready.max(part.last_ready);
            views.extend(part.view);
            inside += place.map_or(0, |place| u64::from(part.inside[place as usize]));
            orders.extend(part.orders);
        }
        result.timings = Timing::ALL
            .iter()
            .filter_map(|timing| TimingReport::new(*timing, timings.of(*timing)))
            .collect();
        if last_ready > start {
            result.ready_seconds = (last_ready - start) as f64 / SECOND as f64;
            result.logins_per_second = per_second(result.counts.logins_ok, result.ready_seconds);
        }
        if !views.is_empty() {
            let contacts = self.scenario.users.contacts;
            let ring = Ring {
                size: self.scenario.ring(),
                contacts,
            };
            result.presence = Some(ring::check(ring, &views));
        }
        let counts = &result.counts;
        result.messages_lost = counts.messages_sent as i64
            - counts.messages_received as i64
            - counts.messages_bounced as i64;
        let said = counts.sayings_sent.saturating_sub(counts.sayings_refused);
        result.copies_lost = (said * inside) as i64 - counts.copies_received as i64;
        result.orders = orders.len() as u64;
        let cpu = after.cpu.saturating_sub(before.cpu);
        result.server_cpu_seconds = cpu as f64 / 1e9;
        if before.rss > 0 && cpu > 0 {
            let each = |count: u64| (count > 0).then(|| cpu as f64 / 1e3 / count as f64);
            result.cpu_us_per_copy = each(counts.copies_received);
            result.cpu_us_per_entry = each(counts.entries_ok);
            if counts.messages_received > 0 && counts.logins_started == 0 {
                result.cpu_us_per_message =
                    Some(cpu as f64 / 1e3 / counts.messages_received as f64);
            } else if counts.messages_sent == 0 && counts.logins_ok > 0 {
                result.cpu_us_per_login = Some(cpu as f64 / 1e3 / counts.logins_ok as f64);
            }
        }
        result
    }
}

fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}
