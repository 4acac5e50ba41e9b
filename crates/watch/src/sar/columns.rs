//! The columns of `roost sar`. Owns the one table of them: names, widths, what each means. Nothing
//! else knows a column.

use telemetry::{Counter, Gauge};

use crate::alarms::waiting;
use crate::cluster::ClusterSample;
use crate::drain::Drain;
use crate::format;
use crate::interval::Interval;
use crate::look::Look;

/// One column.
pub(crate) struct Column {
    /// Its heading, by which `--columns` knows it.
    pub(crate) name: &'static str,
    /// What it belongs to.
    pub(crate) group: &'static str,
    /// Characters, without the space in front.
    pub(crate) width: usize,
    /// What it means.
    pub(crate) help: &'static str,
    /// Whether it is shown unless others are asked for.
    pub(crate) is_usual: bool,
    /// How its figure is written.
    unit: Unit,
    figure: Figure,
}

#[derive(Clone, Copy)]
enum Unit {
    Number,
    /// One that may be below zero.
    Signed,
    Bytes,
    Micros,
    Percent,
}

#[derive(Clone, Copy)]
enum Figure {
    Value(fn(&Interval<'_>) -> Option<f64>),
    Text(fn(&Interval<'_>) -> Option<String>),
    Drain,
}

impl Column {
    /// Its text for an interval. `drain` is that of all mailboxes.
    pub(crate) fn text(&self, interval: &Interval<'_>, drain: Drain) -> String {
        match self.figure {
            Figure::Value(value) => self.written(value(interval)),
            Figure::Text(text) => match text(interval) {
                Some(text) => format::fit(&text, self.width),
                None => "-".to_owned(),
            },
            Figure::Drain => drain.to_string(),
        }
    }

    /// Its figure, if it is a number.
    pub(crate) fn value(&self, interval: &Interval<'_>) -> Option<f64> {
        match self.figure {
            Figure::Value(value) => value(interval),
            Figure::Text(_) | Figure::Drain => None,
        }
    }

    /// Whether it is a number, of which there are averages.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.figure, Figure::Value(_))
    }

    /// A figure as this column writes it.
    pub(crate) fn written(&self, value: Option<f64>) -> String {
        let Some(value) = value else {
            return "-".to_owned();
        };
        match self.unit {
            Unit::Number => format::number(value),
            Unit::Signed if value < 0.0 => format!("-{}", format::number(-value)),
            Unit::Signed => format::number(value),
            Unit::Bytes => format::bytes(value),
            Unit::Micros => format::micros(value),
            Unit::Percent => format::percent(value),
        }
    }
}

macro_rules! columns {
    ($($group:literal {
        $($name:literal $width:literal $usual:literal $unit:ident $figure:expr, $help:literal;)+
    })+) => {
        /// All columns in the order in which they are shown.
        pub(crate) const COLUMNS: &[Column] = &[
            $($(Column {
                name: $name,
                group: $group,
                width: $width,
                help: $help,
                is_usual: $usual,
                unit: Unit::$unit,
                figure: $figure,
            },)+)+
        ];
    };
}

columns! {
    "users" {
        "conn" 6 true Number Figure::Value(|i| Some(i.gauge(Gauge::NetConnections))),
            "client connections";
        "sess" 6 true Number Figure::Value(|i| Some(i.gauge(Gauge::Sessions))),
            "sessions with a resource";
        "acc" 5 false Number Figure::Value(|i| i.rate(Counter::NetAccepted)),
            "connections accepted a second";
        "tls" 5 false Number Figure::Value(|i| i.rate(Counter::NetTlsHandshakes)),
            "TLS handshakes a second";
        "login" 5 true Number Figure::Value(|i| i.rate(Counter::Logins)),
            "logins a second";
        "fail" 5 false Number Figure::Value(|i| i.rate(Counter::LoginsFailed)),
            "logins refused a second";
        "load" 5 false Number Figure::Value(|i| i.rate(Counter::UsersLoaded)),
            "accounts read from the store a second";
    }
    "stanzas" {
        "msgin" 5 true Number Figure::Value(|i| i.rate(Counter::MessagesIn)),
            "messages from clients a second";
        "msgout" 6 true Number Figure::Value(|i| i.rate(Counter::MessagesOut)),
            "messages to clients a second";
        "kept" 5 false Number Figure::Value(|i| i.rate(Counter::MessagesKept)),
            "messages kept for absent users a second";
        "prsin" 5 true Number Figure::Value(|i| i.rate(Counter::PresencesIn)),
            "presence stanzas from clients a second";
        "prsout" 6 true Number Figure::Value(|i| i.rate(Counter::PresencesOut)),
            "presence stanzas to clients a second";
        "iqin" 5 false Number Figure::Value(|i| i.rate(Counter::IqsIn)),
            "IQ stanzas from clients a second";
        "stuck" 5 false Number Figure::Value(|i| Some(i.gauge(Gauge::QueueMessages))),
            "messages that wait for recipients that do not keep up (`roost queue list`)";
        "back" 5 false Number Figure::Value(|i| i.rate(Counter::MessagesReturned)),
            "accepted messages that came back to their senders a second";
        "bounce" 6 false Number Figure::Value(|i| i.rate(Counter::StanzasBounced)),
            "stanzas answered with an error a second";
    }
    "rooms" {
        "rooms" 5 false Number Figure::Value(|i| Some(i.gauge(Gauge::RoomsLoaded))),
            "rooms that are loaded";
        "occ" 6 false Number Figure::Value(|i| Some(i.gauge(Gauge::RoomOccupants))),
            "sessions that are in rooms";
        "rmsg" 5 false Number Figure::Value(|i| i.rate(Counter::RoomMessages)),
            "messages that rooms made durable a second";
        "rcopy" 6 false Number Figure::Value(|i| i.rate(Counter::RoomCopies)),
            "copies that rooms sent to their occupants a second";
        "rmemb" 5 false Number Figure::Value(|i| i.rate(Counter::RoomMemberMessages)),
            "messages that rooms delivered to members who are not there a second";
        "rwait" 5 false Number Figure::Value(|i| Some(i.gauge(Gauge::RoomCopiesWaiting))),
            "copies that rooms have not sent yet";
        "rref" 5 false Number Figure::Value(|i| i.rate(Counter::RoomJoinsRefused)),
            "entries into rooms that were refused a second";
        "nodes" 5 false Number Figure::Value(|i| Some(i.gauge(Gauge::PubsubNodes))),
            "nodes of services that are loaded";
        "items" 5 false Number
            Figure::Value(|i| Some(i.rate(Counter::PubsubItems)? + i.rate(Counter::PepItems)?)),
            "items a second that services and accounts made durable at their nodes";
        "ncopy" 6 false Number
            Figure::Value(|i| Some(i.rate(Counter::PubsubCopies)? + i.rate(Counter::PepEvents)?)),
            "events of nodes given to subscribers and contacts a second";
    }
    "network" {
        "in" 5 true Bytes Figure::Value(|i| i.rate(Counter::NetBytesIn)),
            "bytes read a second";
        "out" 5 true Bytes Figure::Value(|i| i.rate(Counter::NetBytesOut)),
            "bytes written a second";
        "rd" 5 true Number Figure::Value(|i| i.rate(Counter::NetReads)),
            "reads that gave bytes a second";
        "wr" 5 true Number Figure::Value(|i| i.rate(Counter::NetWrites)),
            "writes a second";
    }
    "actors" {
        "queue" 5 true Number Figure::Value(|i| Some(waiting(i.now) as f64)),
            "messages that wait, in mailboxes and between shards";
        "drain" 5 true Number Figure::Drain,
            "when they will be gone if it goes on like this";
        "long" 5 true Number Figure::Value(|i| Some(i.gauge(Gauge::ActorQueueMax))),
            "messages in the longest mailbox";
        "owner" 14 true Number Figure::Text(|i| Some(i.longest()?.who.to_owned())),
            "whose it is, if it had 8 or more";
        "fill" 5 false Signed Figure::Value(|i| i.longest()?.fills),
            "messages a second that it gains; below zero while it drains";
        "delay" 5 false Micros Figure::Value(|i| Some(i.longest()?.delay? * 1e6)),
            "time until its last message is handled, at the rate of the last second";
        "ldrain" 6 false Number Figure::Text(|i| Some(i.longest()?.drain.to_string())),
            "when it will be empty if it goes on like this";
        "boxes" 5 false Number Figure::Value(|i| Some(i.gauge(Gauge::ActorQueueNonEmpty))),
            "mailboxes that are not empty";
        "runq" 5 true Number Figure::Value(|i| Some(i.gauge(Gauge::ActorRunQueue))),
            "actors that wait to run";
        "actors" 6 false Number Figure::Value(|i| Some(i.gauge(Gauge::ActorsAlive))),
            "actors present";
        "amsg" 5 false Number Figure::Value(|i| i.rate(Counter::ActorMessages)),
            "messages handled by actors a second";
        "panic" 5 false Number Figure::Value(|i| i.rate(Counter::ActorPanics)),
            "crashes of actors a second";
        "slow" 4 false Number Figure::Value(|i| i.rate(Counter::ShardLongTurns)),
            "stretches of work of 10 ms and more a second, in which nobody else is served";
    }
    "shards %" {
        "work" 4 true Percent Figure::Value(|i| i.share(Counter::ShardWorkingNanos)),
            "time of all shards in actors and input or output";
        "poll" 4 true Percent Figure::Value(|i| i.share(Counter::ShardPollingNanos)),
            "time of all shards asking the kernel for more";
        "idle" 4 true Percent Figure::Value(|i| i.share(Counter::ShardIdleNanos)),
            "time of all shards asleep";
    }
    "journal" {
        "commit" 6 true Number Figure::Value(|i| i.commits()),
            "group commits a second";
        "wait" 5 false Number Figure::Value(|i| Some(i.gauge(Gauge::JournalWaiting))),
            "appends that wait for their commit";
        "rec" 5 false Number Figure::Value(|i| i.records()),
            "records committed a second";
        "p50" 5 true Micros Figure::Value(|i| i.commit_us(0.5)),
            "median time of a commit with its sync";
        "p99" 5 true Micros Figure::Value(|i| i.commit_us(0.99)),
            "99th percentile of the same";
        "chfail" 6 false Number Figure::Value(|i| i.rate(Counter::ChangesFailed)),
            "changes that failed a second";
    }
    "cluster" {
        "homes" 5 false Number Figure::Value(|i| of_cluster(i, |c| c.homes_served)),
            "streams that this node serves";
        "moving" 6 false Number Figure::Value(|i| of_cluster(i, |c| c.homes_moving)),
            "streams of the cluster that no node serves";
        "lag" 5 false Number Figure::Value(|i| of_cluster(i, |c| c.lag_messages)),
            "messages that the copy furthest behind lacks";
        "taken" 5 false Number Figure::Value(|i| of_cluster(i, |c| c.take_overs)),
            "times that this node became the home of a stream";
        "doubts" 6 false Number Figure::Value(|i| grown(i, |c| c.doubts)),
            "appends that came into doubt a second";
        "down" 4 false Number Figure::Value(|i| of_cluster(i, |c| c.links_down().count() as u64)),
            "links to nodes that live that are down";
        "lpkt" 5 false Number Figure::Value(|i| grown(i, |c| c.of_links(|l| l.taken))),
            "packets that other nodes acknowledged a second";
        "lwait" 5 false Number Figure::Value(|i| of_cluster(i, |c| c.of_links(|l| l.packets))),
            "packets that other nodes have not acknowledged";
        "lbytes" 6 false Bytes Figure::Value(|i| of_cluster(i, |c| c.of_links(|l| l.bytes))),
            "their bytes";
        "lagain" 6 false Number Figure::Value(|i| grown(i, |c| c.of_links(|l| l.sent_again))),
            "packets sent again to other nodes a second";
    }
    "process" {
        "cpu" 4 true Percent Figure::Value(|i| i.cpu()),
            "CPU time, percent of one core";
        "usr" 4 false Percent Figure::Value(|i| of_one(i, |look| look.process.user_us)),
            "the part of it outside of the kernel";
        "sys" 4 false Percent Figure::Value(|i| of_one(i, |look| look.process.system_us)),
            "the part of it in the kernel";
        "flt" 5 false Number Figure::Value(|i| i.per_second_of(|look| look.process.page_faults)),
            "page faults a second";
        "rss" 5 true Bytes Figure::Value(|i| known(i.now.process.resident_bytes)),
            "memory in RAM";
        "fds" 5 false Number Figure::Value(|i| known(i.now.process.descriptors)),
            "open descriptors";
        "store" 5 false Bytes Figure::Value(|i| Some(i.now.sample.store.disk_bytes as f64)),
            "bytes of the store on disk";
        "free" 5 false Bytes Figure::Value(|i| known(i.now.process.disk_free_bytes)),
            "bytes free on the disk of the data folder";
        "alarms" 6 false Number Figure::Value(|i| Some(i.now.alarms.len() as f64)),
            "alarms that are raised";
    }
    "kernel" {
        "ksock" 5 true Bytes Figure::Value(|i| known(i.now.process.tcp_memory_bytes)),
            "memory of the kernel for TCP, whole machine";
        "lovf" 4 true Number Figure::Value(|i| i.per_second_of(overflows)),
            "connections lost a second because a listener's queue was full";
        "retx" 4 true Number Figure::Value(|i| i.per_second_of(retransmits)),
            "TCP segments sent again a second";
        "segin" 5 false Number Figure::Value(|i| i.per_second_of(segments_in)),
            "TCP segments received a second";
        "segout" 6 false Number Figure::Value(|i| i.per_second_of(segments_out)),
            "TCP segments sent a second";
        "irq" 4 false Percent Figure::Value(|i| of_one(i, |look| look.process.interrupt_us)),
            "time in interrupts, whole machine, percent of one core";
        "cs" 5 false Number
            Figure::Value(|i| i.per_second_of(|look| look.process.context_switches)),
            "context switches a second, whole machine";
        "pktin" 5 false Number Figure::Value(|i| i.per_second_of(|look| look.process.packets_in)),
            "packets that network cards received a second";
        "pktout" 6 false Number Figure::Value(|i| i.per_second_of(|look| look.process.packets_out)),
            "packets that they sent a second";
        "pktdrp" 6 false Number
            Figure::Value(|i| i.per_second_of(|look| look.process.packets_dropped)),
            "packets that they dropped a second";
    }
}

/// The columns that somebody wants: names with commas between, or all of them.
///
/// # Errors
/// The name that there is none of, with those that there are.
pub(crate) fn choose(names: Option<&str>) -> Result<Vec<&'static Column>, String> {
    let Some(names) = names else {
        return Ok(COLUMNS.iter().filter(|column| column.is_usual).collect());
    };
    if names == "all" {
        return Ok(COLUMNS.iter().collect());
    }
    let chosen = names.split(',').map(|name| {
        let found = COLUMNS.iter().find(|column| column.name == name.trim());
        found.ok_or_else(|| {
            let known: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
            let known = known.join(" ");
            format!("there is no column {name:?}: there are {known}, and all")
        })
    });
    chosen.collect()
}

fn known(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// The share of one core that grew in the interval.
fn of_one(interval: &Interval<'_>, micros: fn(&Look) -> Option<u64>) -> Option<f64> {
    interval.per_second_of(micros).map(|us| us / 1e6)
}

/// A figure of the cluster, if the node belongs to one.
fn of_cluster(interval: &Interval<'_>, figure: fn(&ClusterSample) -> u64) -> Option<f64> {
    interval.now.cluster.as_ref().map(|c| figure(c) as f64)
}

/// Its growth in a second.
fn grown(interval: &Interval<'_>, figure: fn(&ClusterSample) -> u64) -> Option<f64> {
    let of = |look: &Look| look.cluster.as_ref().map(figure);
    interval.per_second(of(interval.before)?, of(interval.now)?)
}

fn overflows(look: &Look) -> Option<u64> {
    look.process.listen_overflows
}

fn retransmits(look: &Look) -> Option<u64> {
    look.process.retransmits
}

fn segments_in(look: &Look) -> Option<u64> {
    look.process.segments_in
}

fn segments_out(look: &Look) -> Option<u64> {
    look.process.segments_out
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_fit_their_columns() {
        let names: HashSet<&str> = COLUMNS.iter().map(|column| column.name).collect();
        assert_eq!(names.len(), COLUMNS.len());
        for column in COLUMNS {
            assert!(column.name.len() <= column.width, "{}", column.name);
        }
        let usual = choose(None).expect("columns");
        let width: usize = usual.iter().map(|column| column.width + 1).sum();
        assert!(width <= 170, "{width}");
    }

    #[test]
    fn columns_are_chosen_by_name() {
        let chosen = choose(Some("cpu, conn")).expect("columns");
        let names: Vec<&str> = chosen.iter().map(|column| column.name).collect();
        assert_eq!(names, ["cpu", "conn"]);
        assert_eq!(choose(Some("all")).expect("all").len(), COLUMNS.len());
        let Err(message) = choose(Some("cpu,nope")) else {
            panic!("there is no such column");
        };
        assert!(message.starts_with("there is no column \"nope\": there are conn"));
    }

    #[test]
    fn the_page_of_the_documentation_has_every_column() {
        let page = include_str!("../../../../docs/watching.md");
        for column in COLUMNS {
            let row = format!("| `{}` | {} |", column.name, column.help);
            assert!(page.contains(&row), "docs/watching.md lacks: {row}");
        }
    }
}
