//! One screen of `roost top` as text with styles. Owns the layout and what is shown in red; it
//! draws what it is given and asks nobody.

use server::watch::{ShardSample, Top, UserSample};
use telemetry::{Counter, Gauge};

use crate::alarms::waiting;
use crate::cluster::ClusterSample;
use crate::drain::{Backlog, Drain};
use crate::format;
use crate::interval::Interval;
use crate::look::{Look, counted, measured};

/// Share of a limit from which on a figure is red.
const NEAR: f64 = 0.9;

/// Characters of a list of users.
const LIST_WIDTH: usize = 29;

/// Users of one list.
pub(super) const LIST_LENGTH: usize = 8;

/// How a part of a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Head,
    /// Over a limit.
    Alert,
    /// Where Enter goes to.
    Chosen,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) parts: Vec<(Style, String)>,
}

/// A screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) lines: Vec<Line>,
}

/// What users are listed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Queue,
    Rate,
    Cost,
    Bytes,
    Budgets,
}

impl By {
    pub(super) const ALL: [By; 5] = [By::Queue, By::Rate, By::Cost, By::Bytes, By::Budgets];

    fn title(self) -> &'static str {
        match self {
            By::Queue => "longest mailboxes",
            By::Rate => "messages a second",
            By::Cost => "cost a second",
            By::Bytes => "bytes sent to a second",
            By::Budgets => "budgets reached a second",
        }
    }

    fn of(self, shard: &ShardSample) -> &[Top] {
        match self {
            By::Queue => &shard.top_queue,
            By::Rate => &shard.top_rate,
            By::Cost => &shard.top_cost,
            By::Bytes => &shard.top_bytes,
            By::Budgets => &shard.top_budgets,
        }
    }

    /// The highest of all shards, the highest first.
    pub(super) fn list(self, look: &Look) -> Vec<Top> {
        let shards = look.sample.shards.iter();
        let mut list: Vec<Top> = shards.flat_map(|shard| self.of(shard)).cloned().collect();
        list.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.who.cmp(&b.who)));
        list.truncate(LIST_LENGTH);
        list
    }
}

impl Line {
    fn plain(text: impl Into<String>) -> Line {
        Line::default().and(Style::Plain, text)
    }

    fn head(text: impl Into<String>) -> Line {
        Line::default().and(Style::Head, text)
    }

    fn and(mut self, style: Style, text: impl Into<String>) -> Line {
        self.parts.push((style, text.into()));
        self
    }

    /// Adds a figure with its name; red if it is over its limit.
    fn figure(self, is_over: bool, name: &str, value: &str) -> Line {
        let style = if is_over { Style::Alert } else { Style::Plain };
        let start = if self.parts.is_empty() { "" } else { "   " };
        self.and(Style::Plain, format!("{start}{name} "))
            .and(style, value)
    }

    fn text(&self) -> String {
        let parts = self.parts.iter().map(|(_, text)| text.as_str());
        parts.collect::<String>().trim_end().to_owned()
    }
}

impl Frame {
    /// Without styles.
    pub(super) fn text(&self) -> String {
        let lines = self.lines.iter().map(|line| line.text() + "\n");
        lines.collect()
    }
}

/// What is shown in the overview.
pub(super) struct Overview<'a> {
    pub(super) interval: Interval<'a>,
    pub(super) backlog: &'a Backlog,
    /// The list and the place in it that are chosen.
    pub(super) chosen: Option<(By, usize)>,
    pub(super) columns: usize,
}

impl Overview<'_> {
    /// The screen.
    pub(super) fn frame(&self) -> Frame {
        let mut lines = self.process();
        lines.push(Line::default());
        lines.extend(self.stages());
        lines.push(Line::default());
        lines.extend(self.shards());
        lines.push(Line::default());
        lines.extend(self.lists());
        Frame { lines }
    }

    fn process(&self) -> Vec<Line> {
        let look = self.interval.now;
        let (sample, process) = (&look.sample, &look.process);
        let bytes = |value: Option<u64>| value.map_or("-".to_owned(), |v| format::bytes(v as f64));
        let connections = look.gauge(Gauge::NetConnections);
        let head = format!(
            "roost {}  process {}  {} UTC  up {}",
            env!("CARGO_PKG_VERSION"),
            sample.pid,
            format::time_of_day(sample.at_ms),
            format::wait(sample.uptime_ms as f64 / 1e3),
        );
        let cpu = self.interval.cpu().map_or("-".to_owned(), format::percent);
        let memory_max = process.memory_max_bytes;
        let memory = match memory_max {
            Some(_) => format!("{} of {}", bytes(process.resident_bytes), bytes(memory_max)),
            None => bytes(process.resident_bytes),
        };
        let fds = process.descriptors.unwrap_or_default();
        let fds_max = process.descriptors_max.unwrap_or_default();
        let users = Line::default()
            .figure(
                is_near(connections, sample.connections_max),
                "connections",
                &format!("{connections} of {}", sample.connections_max),
            )
            .figure(false, "sessions", &look.gauge(Gauge::Sessions).to_string())
            .figure(false, "logins/s", &self.rate(Counter::Logins))
            .figure(false, "messages/s in", &self.rate(Counter::MessagesIn))
            .figure(false, "out", &self.rate(Counter::MessagesOut))
            .figure(false, "presence/s out", &self.rate(Counter::PresencesOut));
        let resources = Line::default()
            .figure(false, "cpu %", &cpu)
            .figure(
                is_near_maybe(process.resident_bytes, memory_max),
                "memory",
                &memory,
            )
            .figure(
                is_near(fds, fds_max),
                "descriptors",
                &format!("{fds} of {fds_max}"),
            )
            .figure(false, "kernel TCP", &bytes(process.tcp_memory_bytes))
            .figure(
                look.alarms.iter().any(|alarm| alarm.name == "disk"),
                "disk free",
                &bytes(process.disk_free_bytes),
            );
        let mut lines = vec![Line::head(head), users, resources];
        for alarm in &look.alarms {
            lines.push(Line::default().and(Style::Alert, format!("alarm {alarm}")));
        }
        lines
    }

    fn stages(&self) -> Vec<Line> {
        let interval = &self.interval;
        let look = interval.now;
        let lost = interval.per_second_of(|look| look.process.listen_overflows);
        let again = interval.per_second_of(|look| look.process.retransmits);
        let stage = |name: &str| Line::head(format!("{name:<9}"));
        let net = stage("net")
            .figure(false, "in/s", &self.bytes(Counter::NetBytesIn))
            .figure(false, "out/s", &self.bytes(Counter::NetBytesOut))
            .figure(false, "reads/s", &self.rate(Counter::NetReads))
            .figure(false, "writes/s", &self.rate(Counter::NetWrites))
            .figure(false, "accepts/s", &self.rate(Counter::NetAccepted))
            .figure(lost > Some(0.0), "lost/s", &number(lost))
            .figure(false, "sent again/s", &number(again));
        let queue = waiting(look);
        let drain = self.backlog.drain();
        let panics = interval.rate(Counter::ActorPanics);
        let backlogged = look.alarms.iter().any(|alarm| alarm.name == "backlog");
        let actors = stage("actors")
            .figure(false, "messages/s", &self.rate(Counter::ActorMessages))
            .figure(backlogged, "waiting", &queue.to_string())
            .figure(
                drain == Drain::Never && backlogged,
                "gone in",
                &drain.to_string(),
            )
            .figure(
                false,
                "longest",
                &look.gauge(Gauge::ActorQueueMax).to_string(),
            )
            .figure(
                false,
                "to run",
                &number(Some(interval.gauge(Gauge::ActorRunQueue))),
            )
            .figure(panics > Some(0.0), "crashes/s", &number(panics));
        let longest = interval.longest().map(|mailbox| {
            let delay = mailbox.delay.map(format::wait);
            stage("mailbox")
                .figure(false, "longest", mailbox.who)
                .figure(false, "waiting", &mailbox.length.to_string())
                .figure(false, "gains/s", &signed(mailbox.fills))
                .figure(false, "delay", delay.as_deref().unwrap_or("-"))
                .figure(false, "gone in", &mailbox.drain.to_string())
        });
        let failed = interval.rate(Counter::ChangesFailed);
        let micros = |q: f64| interval.commit_us(q).map_or("-".to_owned(), format::micros);
        let journal = stage("journal")
            .figure(false, "commits/s", &number(interval.commits()))
            .figure(
                false,
                "waiting",
                &number(Some(interval.gauge(Gauge::JournalWaiting))),
            )
            .figure(false, "records/s", &number(interval.records()))
            .figure(false, "median", &micros(0.5))
            .figure(false, "p99", &micros(0.99))
            .figure(failed > Some(0.0), "failed/s", &number(failed));
        let stuck = look.gauge(Gauge::QueueMessages);
        let queues = (stuck > 0).then(|| {
            let back = interval.rate(Counter::MessagesReturned);
            let senders = look.gauge(Gauge::QueueSenders);
            stage("queues")
                .figure(
                    true,
                    "messages for who does not keep up",
                    &stuck.to_string(),
                )
                .figure(false, "senders", &senders.to_string())
                .figure(back > Some(0.0), "came back/s", &number(back))
        });
        let store = &look.sample.store;
        let size = |bytes: u64| format::bytes(bytes as f64);
        let store = stage("store")
            .figure(false, "disk", &size(store.disk_bytes))
            .figure(false, "write buffers", &size(store.write_buffer_bytes))
            .figure(false, "cache", &size(store.cache_bytes))
            .figure(false, "accounts read/s", &self.rate(Counter::UsersLoaded));
        let before = [net, actors].into_iter().chain(longest);
        let all = before.chain([journal]).chain(queues).chain([store]);
        let all = all.chain(self.gatherings()).chain(self.ranges());
        all.chain(self.cluster()).collect()
    }

    /// Ranges that moved between shards since the node started, once any did, and what that cost.
    fn ranges(&self) -> Option<Line> {
        let look = self.interval.now;
        let count = |counter| look.counter(counter);
        let (moved, stayed) = (count(Counter::RangesMoved), count(Counter::RangesStayed));
        let mean = |micros, of: u64| match of {
            0 => "-".to_owned(),
            _ => format::micros(count(micros) as f64 / of as f64),
        };
        let streams = count(Counter::RangeStreams);
        let paused = count(Counter::RangesPaused);
        let line = Line::head(format!("{:<9}", "ranges"))
            .figure(false, "moved", &moved.to_string())
            .figure(false, "stayed", &stayed.to_string())
            .figure(false, "mean gap", &mean(Counter::RangeGapMicros, moved))
            .figure(false, "paused", &paused.to_string())
            .figure(
                false,
                "mean pause",
                &mean(Counter::RangePauseMicros, paused),
            )
            .figure(false, "streams", &streams.to_string())
            .figure(
                false,
                "mean wait",
                &mean(Counter::RangeStreamMicros, streams),
            );
        (moved + stayed > 0).then_some(line)
    }

    /// Rooms and nodes, while there are any.
    fn gatherings(&self) -> Vec<Line> {
        let look = self.interval.now;
        let dropped = |counter| {
            let rate = self.interval.rate(counter);
            (rate > Some(0.0), number(rate))
        };
        let mut lines = Vec::new();
        if look.gauge(Gauge::RoomsLoaded) > 0 {
            let (is_bad, lost) = dropped(Counter::RoomCopiesDropped);
            let is_behind = look.gauge(Gauge::RoomsBehind) > 0;
            let waiting = look.gauge(Gauge::RoomCopiesWaiting);
            let line = Line::head(format!("{:<9}", "rooms"))
                .figure(false, "loaded", &look.gauge(Gauge::RoomsLoaded).to_string())
                .figure(
                    false,
                    "occupants",
                    &look.gauge(Gauge::RoomOccupants).to_string(),
                )
                .figure(false, "messages/s", &self.rate(Counter::RoomMessages))
                .figure(false, "copies/s", &self.rate(Counter::RoomCopies))
                .figure(
                    false,
                    "to members/s",
                    &self.rate(Counter::RoomMemberMessages),
                )
                .figure(is_behind, "waiting", &waiting.to_string())
                .figure(false, "refused/s", &self.rate(Counter::RoomJoinsRefused))
                .figure(is_bad, "without room/s", &lost);
            lines.push(line);
        }
        if look.gauge(Gauge::PubsubNodes) > 0 {
            let (is_bad, lost) = dropped(Counter::PubsubCopiesDropped);
            let line = Line::head(format!("{:<9}", "nodes"))
                .figure(false, "loaded", &look.gauge(Gauge::PubsubNodes).to_string())
                .figure(false, "items/s", &self.rate(Counter::PubsubItems))
                .figure(false, "copies/s", &self.rate(Counter::PubsubCopies))
                .figure(is_bad, "without room/s", &lost);
            lines.push(line);
        }
        lines
    }

    /// The cluster, if the node belongs to one.
    fn cluster(&self) -> Vec<Line> {
        let Some(now) = &self.interval.now.cluster else {
            return Vec::new();
        };
        let before = self.interval.before.cluster.as_ref().unwrap_or(now);
        let rate = |figure: fn(&ClusterSample) -> u64| {
            number(self.interval.per_second(figure(before), figure(now)))
        };
        let alarms = &self.interval.now.alarms;
        let is_raised = |name: &str| alarms.iter().any(|alarm| alarm.name == name);
        let homes = format!("{} of {}", now.homes_served, now.streams);
        let nodes = format!("{} of {}", now.nodes_alive, now.nodes);
        let lease = if now.holds_lease { "yes" } else { "no" };
        let node = Line::head(format!("{:<9}", "cluster"))
            .figure(false, "node", &now.node)
            .figure(!now.holds_lease, "lease", lease)
            .figure(now.nodes_alive < now.nodes, "nodes", &nodes)
            .figure(now.homes_served < now.homes_given, "homes", &homes)
            .figure(
                now.homes_moving > 0,
                "moving",
                &now.homes_moving.to_string(),
            )
            .figure(is_raised("copies"), "lag", &now.lag_messages.to_string())
            .figure(
                is_raised("storage") || !now.engine_away.is_empty(),
                "engine",
                &engine(now),
            )
            .figure(false, "take-overs", &now.take_overs.to_string())
            .figure(
                now.streams_without_quorum > 0,
                "doubts/s",
                &rate(|c| c.doubts),
            );
        let down = now.links_down().count();
        let up = format!("{} of {}", now.links.len() - down, now.links.len());
        let waiting = now.of_links(|link| link.packets);
        let bytes = format::bytes(now.of_links(|link| link.bytes) as f64);
        let links = Line::head(format!("{:<9}", "links"))
            .figure(down > 0, "up", &up)
            .figure(false, "packets/s", &rate(|c| c.of_links(|link| link.taken)))
            .figure(is_raised("links"), "waiting", &waiting.to_string())
            .figure(is_raised("links"), "in", &bytes)
            .figure(
                false,
                "sent again/s",
                &rate(|c| c.of_links(|link| link.sent_again)),
            )
            .figure(
                false,
                "came back/s",
                &rate(|c| c.of_links(|link| link.returned)),
            )
            .figure(false, "refused/s", &rate(|c| c.links_refused));
        vec![node, links]
    }

    fn shards(&self) -> Vec<Line> {
        let mut lines = vec![Line::head(
            "shard   conn   sess login/s  msgin/s msgout/s   actors  queue longest   runq  \
             work% poll% idle%   handled/s 1s    10s   100s",
        )];
        for (index, shard) in self.interval.now.sample.shards.iter().enumerate() {
            let before = self.interval.before.sample.shards.get(index);
            let rate = |counter: Counter| {
                let before = before.map_or(0, |shard| counted(shard, counter));
                number(self.interval.per_second(before, counted(shard, counter)))
            };
            let gauge = |gauge: Gauge| measured(shard, gauge);
            let first = format!(
                "{index:>5} {:>6} {:>6} {:>7} {:>8} {:>8} {:>8} {:>6} {:>7} {:>6}  ",
                gauge(Gauge::NetConnections),
                gauge(Gauge::Sessions),
                rate(Counter::Logins),
                rate(Counter::MessagesIn),
                rate(Counter::MessagesOut),
                gauge(Gauge::ActorsAlive),
                gauge(Gauge::ActorQueueTotal),
                gauge(Gauge::ActorQueueMax),
                gauge(Gauge::ActorRunQueue),
            );
            let share = |counter: Counter| self.interval.share_of_shard(index, counter);
            let percent = |share: Option<f64>| share.map_or("-".to_owned(), format::percent);
            let working = share(Counter::ShardWorkingNanos);
            let style = match working >= Some(NEAR) {
                true => Style::Alert,
                false => Style::Plain,
            };
            let handled = shard.messages;
            let rest = format!(
                " {:>5} {:>5}   {:>12} {:>6} {:>6}",
                percent(share(Counter::ShardPollingNanos)),
                percent(share(Counter::ShardIdleNanos)),
                format::number(handled.0.round()),
                format::number(handled.1.round()),
                format::number(handled.2.round()),
            );
            let work = format!("{:>5}", percent(working));
            lines.push(Line::plain(first).and(style, work).and(Style::Plain, rest));
        }
        lines
    }

    /// The lists side by side, as many as there is room for.
    fn lists(&self) -> Vec<Line> {
        let look = self.interval.now;
        let lists: Vec<(By, Vec<Top>)> = By::ALL.map(|by| (by, by.list(look))).into();
        let beside = (self.columns / (LIST_WIDTH + 2)).clamp(1, By::ALL.len());
        let mut lines = Vec::new();
        for group in lists.chunks(beside) {
            let titles = group
                .iter()
                .map(|(by, _)| format!("{:<1$}  ", by.title(), LIST_WIDTH));
            lines.push(Line::head(titles.collect::<String>()));
            let length = group.iter().map(|(_, list)| list.len()).max();
            for place in 0..length.unwrap_or_default() {
                let mut line = Line::default();
                for (by, list) in group {
                    let text = list.get(place).map_or(String::new(), |top| {
                        let value = match by {
                            By::Bytes => format::bytes(top.value as f64),
                            _ => format::number(top.value as f64),
                        };
                        let who = format::fit(&top.who, LIST_WIDTH - 7);
                        format!("{who:<0$} {value:>6}", LIST_WIDTH - 7)
                    });
                    let is_chosen = self.chosen == Some((*by, place)) && !text.is_empty();
                    let style = if is_chosen {
                        Style::Chosen
                    } else {
                        Style::Plain
                    };
                    line = line.and(style, format!("{text:<LIST_WIDTH$}"));
                    line = line.and(Style::Plain, "  ");
                }
                lines.push(line);
            }
        }
        lines
    }

    fn rate(&self, counter: Counter) -> String {
        number(self.interval.rate(counter))
    }

    fn bytes(&self, counter: Counter) -> String {
        let rate = self.interval.rate(counter);
        rate.map_or("-".to_owned(), format::bytes)
    }
}

/// One user, looked into; `Err` says why that was not possible.
pub(super) fn user(jid: &str, user: Result<&UserSample, &str>) -> Frame {
    let mut lines = vec![Line::head(jid.to_owned()), Line::default()];
    match user {
        Err(why) => lines.push(Line::default().and(Style::Alert, why)),
        Ok(user) => {
            let bytes = |bytes: u64| format::bytes(bytes as f64);
            lines.push(
                Line::default()
                    .figure(false, "shard", &user.shard.to_string())
                    .figure(
                        user.locked,
                        "locked",
                        if user.locked { "yes" } else { "no" },
                    )
                    .figure(false, "mailbox", &user.mailbox.to_string())
                    .figure(
                        false,
                        "changes not durable yet",
                        &user.commits_waiting.to_string(),
                    ),
            );
            let roster = bytes(user.roster_bytes as u64);
            lines.push(
                Line::default()
                    .figure(false, "contacts", &user.roster_items.to_string())
                    .figure(false, "in", &roster)
                    .figure(false, "blocked", &user.blocked.to_string())
                    .figure(false, "messages kept", &user.pending_messages.to_string())
                    .figure(false, "in", &bytes(user.pending_bytes))
                    .figure(false, "stored", &bytes(user.stored_bytes)),
            );
            lines.push(Line::default());
            lines.push(Line::head(format!(
                "{:<40} available priority directed  not read yet",
                "session"
            )));
            for session in &user.sessions {
                lines.push(Line::plain(format!(
                    "{:<40} {:<9} {:>8} {:>8} {:>13}",
                    format::fit(&session.resource, 40),
                    if session.available { "yes" } else { "no" },
                    session.priority,
                    session.directed,
                    session
                        .backlog_bytes
                        .map_or("-".to_owned(), |n| bytes(n as u64)),
                )));
            }
        }
    }
    Frame { lines }
}

/// The engine's servers that are there, and how full the fullest one is.
fn engine(now: &ClusterSample) -> String {
    let there = now
        .engine_servers
        .saturating_sub(now.engine_away.len() as u64);
    let servers = format!("{there} of {}", now.engine_servers);
    match now.engine_stored_bytes_max {
        0 => servers,
        max => {
            let share = now.engine_stored_bytes as f64 / max as f64;
            format!("{servers}, {}% full", format::percent(share))
        }
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), format::number)
}

/// A figure that may be below zero.
fn signed(value: Option<f64>) -> String {
    let sign = if value < Some(0.0) { "-" } else { "" };
    format!("{sign}{}", number(value.map(f64::abs)))
}

fn is_near(used: u64, max: u64) -> bool {
    max > 0 && used as f64 >= max as f64 * NEAR
}

fn is_near_maybe(used: Option<u64>, max: Option<u64>) -> bool {
    used.zip(max).is_some_and(|(used, max)| is_near(used, max))
}

#[cfg(test)]
mod tests;
