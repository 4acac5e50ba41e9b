//! What a run found out: plain data for the JSON file, the verdict, and the table for a terminal.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::ring::PresenceCheck;
use crate::sample::{Machine, Sample};
use crate::scenario::Scenario;
use crate::tally::{Counts, Reasons, Timing};

/// The report of one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Version of this layout.
    pub format: u32,
    /// The scenario as it was run, command line included.
    pub scenario: Option<Scenario>,
    /// Start of the run, milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// The machine.
    pub machine: Machine,
    /// Command lines of the server's processes.
    pub server_processes: Vec<String>,
    /// Worker processes (or threads) of the load.
    pub workers: u32,
    /// What kept the run from starting or ended it early.
    pub error: Option<String>,
    /// Things a reader must know to judge the figures.
    pub warnings: Vec<String>,
    /// Failed checks; empty means that all went well.
    pub faults: Vec<String>,
    /// Memory per user, where the server's processes are known.
    pub memory: Option<MemoryPerUser>,
    /// Phase by phase.
    pub phases: Vec<PhaseReport>,
    /// Second by second.
    pub series: Vec<Second>,
    /// Totals over all phases.
    pub totals: Counts,
}

/// Resident memory per user: the slope between two settled states of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryPerUser {
    /// Users online at the first state.
    pub users_low: u64,
    /// Resident bytes then.
    pub rss_low: u64,
    /// Users online at the second state.
    pub users_high: u64,
    /// Resident bytes then.
    pub rss_high: u64,
    /// Bytes per user between the two.
    pub bytes_per_user: f64,
    /// Bytes per user in kernel slab and socket buffers, both ends of each loopback connection.
    pub kernel_bytes_per_user: f64,
}

/// What happened in one phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PhaseReport {
    /// From the scenario.
    pub name: String,
    /// From the beginning of the phase to its collection, in seconds.
    pub seconds: f64,
    /// From the beginning to the last completed login, in seconds; 0 without logins.
    pub ready_seconds: f64,
    /// Users online at its end.
    pub online: u64,
    /// Counted events.
    pub counts: Counts,
    /// Messages written that neither came nor bounced by the end of the phase.
    pub messages_lost: i64,
    /// Copies of what was said to all that did not come; below zero: that came once more.
    pub copies_lost: i64,
    /// Orders in which users got what was said to all; more than one is a fault.
    pub orders: u64,
    /// Reasons of failures.
    pub reasons: Reasons,
    /// Latencies.
    pub timings: Vec<TimingReport>,
    /// The check of who sees whom.
    pub presence: Option<PresenceCheck>,
    /// Server and machine at the beginning.
    pub before: Sample,
    /// Server and machine at the end.
    pub after: Sample,
    /// CPU time the load itself used, in seconds.
    pub load_cpu_seconds: f64,
    /// Server CPU time, in seconds.
    pub server_cpu_seconds: f64,
    /// Server CPU per completed login in microseconds, in phases that only log in.
    pub cpu_us_per_login: Option<f64>,
    /// Server CPU per received message in microseconds, in phases with messages.
    pub cpu_us_per_message: Option<f64>,
    /// Server CPU per copy of what was said to all, in microseconds.
    pub cpu_us_per_copy: Option<f64>,
    /// Server CPU per entry into a room or subscription to a node, in microseconds.
    pub cpu_us_per_entry: Option<f64>,
    /// Messages received per second of activity.
    pub messages_per_second: f64,
    /// Completed logins per second until the last one.
    pub logins_per_second: f64,
}

/// One latency of a phase, in microseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimingReport {
    /// What was timed.
    pub timing: Timing,
    /// Recorded values.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90%.
    pub p90: u64,
    /// 99%.
    pub p99: u64,
    /// 99.9%.
    pub p999: u64,
    /// Maximum.
    pub max: u64,
    /// Points (share of values, microseconds) of the distribution, for a plot.
    pub curve: Vec<(f64, u64)>,
}

impl TimingReport {
    /// Sums up a histogram; `None` if it is empty.
    pub(crate) fn new(timing: Timing, histogram: &Histogram<u64>) -> Option<TimingReport> {
        if histogram.is_empty() {
            return None;
        }
        let at = |quantile: f64| histogram.value_at_quantile(quantile);
        // Evenly spaced in "nines", which is how the plot shows them.
        let total = histogram.len() as f64;
        let curve = (0..=60)
            .map(|step| 1.0 - 10_f64.powf(-f64::from(step) / 10.0))
            .take_while(|share| (1.0 - share) * total >= 0.5)
            .map(|share| (share, at(share)))
            .collect();
        Some(TimingReport {
            timing,
            count: histogram.len(),
            mean: histogram.mean(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
            curve,
        })
    }
}

/// One second of the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since the start of the run.
    pub at: f64,
    /// Phase number.
    pub phase: usize,
    /// Users online.
    pub online: u64,
    /// Users logging in or about to.
    pub coming: u64,
    /// Completed logins per second.
    pub logins: f64,
    /// Failed logins and lost sessions per second.
    pub failures: f64,
    /// Messages written per second.
    pub sent: f64,
    /// Messages received per second.
    pub received: f64,
    /// Presence stanzas received from contacts per second.
    pub presences: f64,
    /// Median and 99th percentile of logins in this second, microseconds.
    pub login_us: Option<(u64, u64)>,
    /// Median and 99th percentile of messages in this second, microseconds.
    pub message_us: Option<(u64, u64)>,
    /// Server CPU in cores.
    pub server_cores: f64,
    /// Load CPU in cores.
    pub load_cores: f64,
    /// Resident bytes of the server.
    pub rss: u64,
    /// Bytes in TCP buffers of the machine.
    pub tcp_memory: u64,
}

impl Report {
    /// Whether the run came to its end and all checks held.
    pub fn is_good(&self) -> bool {
        self.error.is_none() && self.faults.is_empty()
    }

    /// Fills in totals, memory per user and the verdict from the phases.
    pub(crate) fn conclude(&mut self) {
        self.totals = Counts::default();
        for phase in &self.phases {
            self.totals.add(&phase.counts);
        }
        self.memory = memory_per_user(&self.phases);
        self.faults = faults(&self.phases, &self.totals);
        let late = self.phases.iter().flat_map(|phase| {
            let lag = phase
                .timings
                .iter()
                .find(|timing| timing.timing == Timing::Lag);
            lag.filter(|lag| lag.p99 > 20_000).map(|lag| {
                format!(
                    "phase \"{}\": the load itself was late (p99 {}); its latencies include that",
                    phase.name,
                    duration(lag.p99 as f64)
                )
            })
        });
        self.warnings.extend(late.collect::<Vec<_>>());
        if self.totals.derivations > 100 {
            self.warnings.push(format!(
                "{} SCRAM keys were derived: the accounts do not share a salt, and deriving held \
                 the load up",
                self.totals.derivations
            ));
        }
    }

    /// The report as text for a terminal.
    pub fn table(&self) -> String {
        let mut out = String::new();
        for phase in &self.phases {
            phase.write(&mut out);
        }
        if let Some(memory) = &self.memory {
            let _ = writeln!(
                out,
                "memory   {} per user resident (slope {} -> {} users, {} -> {}); \
                 kernel {} per user, both ends",
                bytes(memory.bytes_per_user),
                memory.users_low,
                memory.users_high,
                bytes(memory.rss_low as f64),
                bytes(memory.rss_high as f64),
                bytes(memory.kernel_bytes_per_user),
            );
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "warning  {warning}");
        }
        for fault in &self.faults {
            let _ = writeln!(out, "FAULT    {fault}");
        }
        if let Some(error) = &self.error {
            let _ = writeln!(out, "ERROR    {error}");
        }
        let verdict = if self.is_good() {
            "all checks held"
        } else {
            "NOT all checks held"
        };
        let _ = writeln!(out, "verdict  {verdict}");
        out
    }
}

impl PhaseReport {
    fn write(&self, out: &mut String) {
        let counts = &self.counts;
        let _ = writeln!(
            out,
            "== {} ({:.1} s, {} online)",
            self.name, self.seconds, self.online
        );
        if counts.logins_started > 0 {
            let _ = writeln!(
                out,
                "logins   {} ok, {} failed, {} resumed; {:.0}/s, all done after {:.2} s",
                counts.logins_ok,
                counts.logins_failed,
                counts.sessions_resumed,
                self.logins_per_second,
                self.ready_seconds,
            );
            let _ = writeln!(
                out,
                "roster   {} items, {} rosters of another size than expected",
                counts.roster_items, counts.rosters_wrong
            );
        }
        if let Some(check) = &self.presence {
            let _ = writeln!(
                out,
                "presence {} of {} users see exactly their online contacts \
                 ({} expected, {} missing, {} stale); {} stanzas received",
                check.users_right,
                check.users_online,
                check.expected,
                check.missing,
                check.stale,
                counts.presences_received,
            );
        }
        if counts.messages_sent + counts.messages_received > 0 {
            let _ = writeln!(
                out,
                "messages {} sent, {} received ({:.0}/s), {} lost, {} duplicated, {} reordered, \
                 {} delayed, {} bounced, {} skipped",
                counts.messages_sent,
                counts.messages_received,
                self.messages_per_second,
                self.messages_lost,
                counts.messages_duplicated,
                counts.messages_reordered,
                counts.messages_delayed,
                counts.messages_bounced,
                counts.messages_skipped,
            );
        }
        self.write_gathering(out);
        for (reason, count) in &self.reasons.0 {
            let _ = writeln!(out, "         {count:>8} x {reason}");
        }
        self.write_timings(out);
        if self.before.rss > 0 {
            let _ = writeln!(
                out,
                "server   {:.2} s CPU ({:.2} s in the kernel), {} resident, {} threads, \
                 TCP buffers {}",
                self.server_cpu_seconds,
                (self.after.cpu_system.saturating_sub(self.before.cpu_system)) as f64 / 1e9,
                bytes(self.after.rss as f64),
                self.after.threads,
                bytes(self.after.tcp_memory as f64),
            );
        }
        if let Some(cpu) = self.cpu_us_per_login {
            let _ = writeln!(out, "         {:.3} ms CPU per login", cpu / 1_000.0);
        }
        if let Some(cpu) = self.cpu_us_per_message {
            let _ = writeln!(out, "         {cpu:.2} us CPU per message");
        }
        if let Some(cpu) = self.cpu_us_per_entry {
            let _ = writeln!(out, "         {:.3} ms CPU per entry", cpu / 1_000.0);
        }
        if let Some(cpu) = self.cpu_us_per_copy {
            let _ = writeln!(out, "         {cpu:.2} us CPU per copy");
        }
        let _ = writeln!(out, "load     {:.2} s CPU", self.load_cpu_seconds);
    }

    fn write_gathering(&self, out: &mut String) {
        let counts = &self.counts;
        if counts.entries_started > 0 {
            let _ = writeln!(
                out,
                "entries  {} ok, {} failed, all inside after {:.2} s",
                counts.entries_ok, counts.entries_failed, self.ready_seconds,
            );
        }
        if counts.sayings_sent > 0 {
            let _ = writeln!(
                out,
                "to all   {} sent, {} refused, {} copies, {} lost, {} order{}",
                counts.sayings_sent,
                counts.sayings_refused,
                counts.copies_received,
                self.copies_lost,
                self.orders,
                if self.orders == 1 { "" } else { "s" },
            );
        }
    }

    fn write_timings(&self, out: &mut String) {
        if self.timings.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "         {:<14} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "latency", "count", "p50", "p90", "p99", "p99.9", "max"
        );
        for timing in &self.timings {
            let _ = writeln!(
                out,
                "         {:<14} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}",
                timing.timing.label(),
                timing.count,
                duration(timing.p50 as f64),
                duration(timing.p90 as f64),
                duration(timing.p99 as f64),
                duration(timing.p999 as f64),
                duration(timing.max as f64),
            );
        }
    }
}

fn memory_per_user(phases: &[PhaseReport]) -> Option<MemoryPerUser> {
    let known = || {
        phases
            .iter()
            .filter(|phase| phase.after.alive && phase.after.rss > 0)
    };
    let low = known().find(|phase| phase.online > 0)?;
    // The first phase with the most users: what chatting adds later is not what being online costs.
    let high = known().rev().max_by_key(|phase| phase.online)?;
    if high.online <= low.online {
        return None;
    }
    let users = (high.online - low.online) as f64;
    let kernel = |sample: &Sample| (sample.slab + sample.tcp_memory) as f64;
    Some(MemoryPerUser {
        users_low: low.online,
        rss_low: low.after.rss,
        users_high: high.online,
        rss_high: high.after.rss,
        bytes_per_user: (high.after.rss as f64 - low.after.rss as f64) / users,
        kernel_bytes_per_user: (kernel(&high.after) - kernel(&low.after)) / users,
    })
}

fn faults(phases: &[PhaseReport], totals: &Counts) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |count: u64, text: &str| {
        if count > 0 {
            faults.push(format!("{count} {text}"));
        }
    };
    fault(totals.logins_failed, "logins failed");
    fault(
        totals.sessions_lost,
        "sessions were ended by the server or the network",
    );
    fault(
        totals.rosters_wrong,
        "rosters had another size than expected",
    );
    fault(totals.messages_duplicated, "messages came twice");
    fault(totals.messages_reordered, "messages came out of order");
    fault(totals.messages_bounced, "messages bounced");
    fault(totals.archive_errors, "archive queries failed");
    let lost = phases.iter().map(|phase| phase.messages_lost).sum::<i64>();
    fault(lost.max(0) as u64, "messages were lost");
    let unanswered = totals.entries_started - totals.entries_ok - totals.entries_failed;
    fault(totals.entries_failed, "entries were refused or cut off");
    fault(unanswered, "entries were not answered");
    fault(totals.sayings_refused, "messages to all were refused");
    let copies = || phases.iter().map(|phase| phase.copies_lost);
    fault(
        copies().map(|lost| lost.max(0) as u64).sum(),
        "copies were lost",
    );
    let repeated = copies().map(|lost| lost.min(0).unsigned_abs()).sum();
    fault(repeated, "copies came twice");
    let disputed = phases
        .iter()
        .filter(|it| it.copies_lost == 0 && it.orders > 1);
    fault(
        disputed.count() as u64,
        "phases in which not all got the same order",
    );
    let (mut missing, mut stale) = (0, 0);
    for check in phases.iter().filter_map(|phase| phase.presence) {
        missing += check.missing;
        stale += check.stale;
    }
    fault(missing, "online contacts were not seen");
    fault(stale, "offline contacts were still seen");
    faults
}

/// Microseconds in a unit fit to read.
pub(crate) fn duration(us: f64) -> String {
    match us {
        _ if us < 1_000.0 => format!("{us:.0} us"),
        _ if us < 10_000.0 => format!("{:.2} ms", us / 1e3),
        _ if us < 1_000_000.0 => format!("{:.0} ms", us / 1e3),
        _ => format!("{:.2} s", us / 1e6),
    }
}

/// Bytes in a unit fit to read.
pub(crate) fn bytes(value: f64) -> String {
    match value.abs() {
        size if size < 1_000.0 => format!("{value:.0} B"),
        size if size < 1e6 => format!("{:.2} kB", value / 1e3),
        size if size < 1e9 => format!("{:.1} MB", value / 1e6),
        _ => format!("{:.2} GB", value / 1e9),
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
