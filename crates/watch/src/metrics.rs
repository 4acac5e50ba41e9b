//! A look as text for Prometheus, exposition format 0.0.4. Owns the names beyond the catalogue;
//! they stay what they are, because dashboards and alerts refer to them. No label has values that
//! come from users, so the size of the page is bounded by the numbers of shards, domains and nodes.

use std::fmt::{Display, Write as _};

use telemetry::{Counter, Gauge};

use super::alarms::Kind;
use super::cluster::{FIGURES, LINK_FIGURES};
use super::look::{Look, counted, measured};

/// What the page is, for the header of its response.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The page for a look.
pub fn page(look: &Look) -> String {
    let mut page = Page::default();
    node(&mut page, look);
    shards(&mut page, look);
    journal(&mut page, look);
    store(&mut page, look);
    domains(&mut page, look);
    cluster(&mut page, look);
    process(&mut page, look);
    machine(&mut page, look);
    alarms(&mut page, look);
    page.text
}

fn node(page: &mut Page, look: &Look) {
    let version = env!("CARGO_PKG_VERSION");
    page.family("roost_info", "gauge", "Version of the server");
    page.sample("roost_info", &format!("version=\"{version}\""), 1);
    let uptime = seconds(look.sample.uptime_ms.max(0) as u64 * 1_000);
    page.gauge("roost_uptime_seconds", "Since the node started", uptime);
    page.gauge(
        "roost_connections_max",
        "Connections that the node takes",
        look.sample.connections_max,
    );
}

fn shards(page: &mut Page, look: &Look) {
    let shards = || look.sample.shards.iter().enumerate();
    for counter in Counter::ALL {
        page.family(counter.name(), "counter", counter.help());
        for (index, shard) in shards() {
            let label = format!("shard=\"{index}\"");
            page.sample(counter.name(), &label, counted(shard, *counter));
        }
    }
    for gauge in Gauge::ALL {
        page.family(gauge.name(), "gauge", gauge.help());
        for (index, shard) in shards() {
            let label = format!("shard=\"{index}\"");
            page.sample(gauge.name(), &label, measured(shard, *gauge));
        }
    }
}

fn journal(page: &mut Page, look: &Look) {
    let journal = &look.sample.journal;
    let counters = [
        ("committed", "Appends committed", journal.committed),
        (
            "fenced",
            "Appends refused: another one came first",
            journal.fenced,
        ),
        ("failed", "Appends that failed", journal.failed),
        ("busy", "Appends refused: too many waited", journal.busy),
        ("records", "Records committed", journal.records),
        (
            "commits_failed",
            "Group commits that failed",
            journal.commits_failed,
        ),
        (
            "healed",
            "Recoveries from a failed group commit",
            journal.healed,
        ),
    ];
    for (name, help, value) in counters {
        page.counter(&format!("roost_journal_{name}_total"), help, value);
    }
    page.histogram(
        "roost_journal_group_records",
        "Records of one group commit",
        &journal.group_records,
        journal.records,
        |bound| bound.to_string(),
    );
    page.histogram(
        "roost_journal_commit_seconds",
        "Time of one group commit with its sync",
        &journal.commit_us,
        seconds(journal.commit_us_sum),
        |bound| seconds(bound).to_string(),
    );
}

fn store(page: &mut Page, look: &Look) {
    let store = &look.sample.store;
    let gauges = [
        ("disk_bytes", "Bytes of the store on disk", store.disk_bytes),
        (
            "write_buffer_bytes",
            "Bytes in write buffers",
            store.write_buffer_bytes,
        ),
        ("cache_bytes", "Bytes in the block cache", store.cache_bytes),
    ];
    for (name, help, value) in gauges {
        page.gauge(&format!("roost_store_{name}"), help, value);
    }
    page.counter(
        "roost_store_reopened_total",
        "Times the store was opened again after a failure",
        store.reopened,
    );
}

/// One series for each domain of the configuration.
fn domains(page: &mut Page, look: &Look) {
    let families = [
        ("roost_domain_accounts", "Accounts of a domain"),
        ("roost_domain_stored_bytes", "Bytes that they have stored"),
    ];
    if look.sample.domains.is_empty() {
        return;
    }
    for (name, help) in families {
        page.family(name, "gauge", help);
        for domain in &look.sample.domains {
            let value = match name {
                "roost_domain_accounts" => domain.accounts,
                _ => domain.stored_bytes,
            };
            page.sample(name, &format!("domain=\"{}\"", domain.domain), value);
        }
    }
}

/// Names of nodes come from the map of the cluster, never from users.
fn cluster(page: &mut Page, look: &Look) {
    let Some(sample) = &look.cluster else {
        return;
    };
    let kind = |is_counter: bool| if is_counter { "counter" } else { "gauge" };
    for (name, help, is_counter, value) in FIGURES {
        let name = format!("roost_cluster_{name}");
        page.family(&name, kind(*is_counter), help);
        page.sample(&name, "", value(sample));
    }
    if let Some(expires) = sample.certificate_expires {
        let help = "When the certificate for links expires, since 1970";
        page.gauge("roost_cluster_certificate_expires_seconds", help, expires);
    }
    if sample.links.is_empty() {
        return;
    }
    for (name, help, is_counter, value) in LINK_FIGURES {
        let name = format!("roost_cluster_link_{name}");
        page.family(&name, kind(*is_counter), help);
        for link in &sample.links {
            page.sample(&name, &format!("peer=\"{}\"", link.peer), value(link));
        }
    }
}

/// By the names that Prometheus' own client libraries give them, where they have one.
fn process(page: &mut Page, look: &Look) {
    let process = &look.process;
    if let Some(cpu_us) = process.cpu_us {
        page.counter(
            "process_cpu_seconds_total",
            "CPU time of all threads",
            seconds(cpu_us),
        );
    }
    let started = (look.sample.at_ms - look.sample.uptime_ms).max(0) as u64;
    page.gauge(
        "process_start_time_seconds",
        "Start of the node since 1970",
        seconds(started * 1_000),
    );
    let gauges = [
        (
            "process_resident_memory_bytes",
            "Memory in RAM",
            process.resident_bytes,
        ),
        (
            "process_virtual_memory_bytes",
            "Address space",
            process.virtual_bytes,
        ),
        ("process_open_fds", "Open descriptors", process.descriptors),
        (
            "process_max_fds",
            "Descriptors that may be open",
            process.descriptors_max,
        ),
        ("process_threads", "Threads", process.threads),
        (
            "roost_memory_max_bytes",
            "Memory that its control groups allow",
            process.memory_max_bytes,
        ),
        (
            "roost_disk_free_bytes",
            "Free bytes on the disk of the data folder",
            process.disk_free_bytes,
        ),
        (
            "roost_disk_size_bytes",
            "Size of the disk of the data folder",
            process.disk_bytes,
        ),
    ];
    for (name, help, value) in gauges {
        if let Some(value) = value {
            page.gauge(name, help, value);
        }
    }
}

fn machine(page: &mut Page, look: &Look) {
    let process = &look.process;
    let gauges = [
        (
            "roost_kernel_tcp_memory_bytes",
            "Memory of the kernel for TCP, whole machine",
            process.tcp_memory_bytes,
        ),
        (
            "roost_kernel_tcp_sockets",
            "TCP sockets of the network name space",
            process.tcp_sockets,
        ),
    ];
    for (name, help, value) in gauges {
        if let Some(value) = value {
            page.gauge(name, help, value);
        }
    }
    let counters = [
        (
            "listen_overflows",
            "Connections lost: queue full",
            process.listen_overflows,
        ),
        (
            "listen_drops",
            "Connections lost at a listener",
            process.listen_drops,
        ),
        (
            "retransmitted_segments",
            "TCP segments sent again",
            process.retransmits,
        ),
        ("segments_in", "TCP segments received", process.segments_in),
        ("segments_out", "TCP segments sent", process.segments_out),
    ];
    for (name, help, value) in counters {
        if let Some(value) = value {
            page.counter(&format!("roost_kernel_tcp_{name}_total"), help, value);
        }
    }
}

fn alarms(page: &mut Page, look: &Look) {
    let raised = |kind: Kind| look.alarms.iter().find(|alarm| alarm.name == kind.name());
    page.family("roost_alarm", "gauge", "1 while the alarm is raised");
    for kind in Kind::ALL {
        let label = format!("name=\"{}\"", kind.name());
        page.sample("roost_alarm", &label, u8::from(raised(kind).is_some()));
    }
    let help = "1 while somebody takes care of the raised alarm";
    page.family("roost_alarm_acknowledged", "gauge", help);
    for kind in Kind::ALL {
        let label = format!("name=\"{}\"", kind.name());
        let is_acknowledged = raised(kind).is_some_and(|alarm| alarm.acknowledged);
        page.sample(
            "roost_alarm_acknowledged",
            &label,
            u8::from(is_acknowledged),
        );
    }
}

fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}

/// The text while it grows.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels {
            "" => writeln!(self.text, "{name} {value}"),
            _ => writeln!(self.text, "{name}{{{labels}}} {value}"),
        };
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.sample(name, "", value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, "", value);
    }

    /// `counts` by powers of two, the last one of everything above; Prometheus wants each bucket to
    /// count those before it too.
    fn histogram(
        &mut self,
        name: &str,
        help: &str,
        counts: &[u64],
        sum: impl Display,
        bound: impl Fn(u64) -> String,
    ) {
        self.family(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let mut so_far = 0;
        for (power, count) in counts.iter().enumerate() {
            so_far += count;
            if power + 1 < counts.len() {
                let le = bound(1 << power);
                self.sample(&bucket, &format!("le=\"{le}\""), so_far);
            }
        }
        self.sample(&bucket, "le=\"+Inf\"", so_far);
        self.sample(&format!("{name}_sum"), "", sum);
        self.sample(&format!("{name}_count"), "", so_far);
    }
}

#[cfg(test)]
mod tests;
