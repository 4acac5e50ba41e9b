//! Alarms: states that an operator should know of before users do. Owns when one is raised and
//! cleared, which takes a while each so that nothing flickers, and who was told. Each change is
//! logged once.

mod cluster;

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};
use telemetry::{Counter, Gauge};

use self::cluster::Lasting;
use super::drain::{Backlog, Drain};
use super::format;
use super::look::Look;

/// Share of a limit at which its alarm is raised, and below which it is cleared.
const NEAR: (f64, f64) = (0.90, 0.80);

/// Messages in all mailboxes and on their way between shards, at which there is a backlog.
const BACKLOG_MESSAGES: u64 = 10_000;

/// Messages that wait for recipients that do not keep up.
const QUEUED_MESSAGES: u64 = 1_000;

/// Messages in one mailbox at which there is a backlog: three quarters of what most take.
const BACKLOG_MAILBOX: u64 = 768;

/// Part of the disk that should stay free; at least twice what the store keeps in reserve.
const DISK_FREE_SHARE: f64 = 0.05;

/// Crashes within [`WINDOW_MS`] that are more than an accident.
const CRASHES: u64 = 5;

/// What is counted by time is counted over so many milliseconds.
const WINDOW_MS: i64 = 60_000;

/// Looks that the window holds at most; they are taken once a second.
const WINDOW_LOOKS: usize = 120;

/// Looks in a row that must agree before a state is an alarm.
const RAISE_LOOKS: u32 = 3;

/// Looks in a row that must agree before it is none any more.
const CLEAR_LOOKS: u32 = 10;

/// What there are alarms for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Backlog,
    Certificate,
    Changes,
    Connections,
    Copies,
    Crashes,
    Descriptors,
    Disk,
    Engine,
    Homes,
    Links,
    Memory,
    Queues,
    Ranges,
    Rooms,
    Storage,
}

impl Kind {
    pub(crate) const ALL: [Kind; 16] = [
        Kind::Backlog,
        Kind::Certificate,
        Kind::Changes,
        Kind::Connections,
        Kind::Copies,
        Kind::Crashes,
        Kind::Descriptors,
        Kind::Disk,
        Kind::Engine,
        Kind::Homes,
        Kind::Links,
        Kind::Memory,
        Kind::Queues,
        Kind::Ranges,
        Kind::Rooms,
        Kind::Storage,
    ];

    /// The word that operators and programs know it by.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Backlog => "backlog",
            Kind::Certificate => "certificate",
            Kind::Changes => "changes",
            Kind::Connections => "connections",
            Kind::Copies => "copies",
            Kind::Crashes => "crashes",
            Kind::Descriptors => "descriptors",
            Kind::Disk => "disk",
            Kind::Engine => "engine",
            Kind::Homes => "homes",
            Kind::Links => "links",
            Kind::Memory => "memory",
            Kind::Queues => "queues",
            Kind::Ranges => "ranges",
            Kind::Rooms => "rooms",
            Kind::Storage => "storage",
        }
    }
}

/// A raised alarm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// Its name.
    pub(crate) name: String,
    /// Since when, in milliseconds since 1970.
    pub(crate) since_ms: i64,
    /// What is the matter now.
    pub(crate) message: String,
    /// Somebody takes care of it.
    pub(crate) acknowledged: bool,
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let acknowledged = if self.acknowledged {
            " (acknowledged)"
        } else {
            ""
        };
        let since = format::time_of_day(self.since_ms);
        let Alarm { name, message, .. } = self;
        write!(f, "{name}: {message}; since {since} UTC{acknowledged}")
    }
}

/// Why an alarm could not be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAcknowledged {
    /// There is none with this name.
    Unknown,
    /// It is not raised.
    NotRaised,
}

/// A change that is worth a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Raised, with what is the matter.
    Raised(Kind, String),
    /// Cleared.
    Cleared(Kind),
}

/// All alarms of a process.
#[derive(Debug)]
pub(crate) struct Alarms {
    reserve_bytes: u64,
    states: [State; Kind::ALL.len()],
    /// When, and how many crashes and failed changes there were until then.
    window: VecDeque<(i64, u64, u64)>,
    backlog: Backlog,
    cluster: Lasting,
}

#[derive(Debug, Default)]
struct State {
    raised: Option<Alarm>,
    /// Looks in a row that spoke for a change.
    agreed: u32,
}

/// How near something is to its alarm: raised from 1 on, cleared below `clear`.
struct Measure {
    level: f64,
    clear: f64,
    message: String,
}

impl Alarms {
    /// None raised yet. `reserve_bytes`: what the store keeps free on its disk.
    pub(crate) fn new(reserve_bytes: u64) -> Alarms {
        Alarms {
            reserve_bytes,
            states: Default::default(),
            window: VecDeque::new(),
            backlog: Backlog::default(),
            cluster: Lasting::default(),
        }
    }

    /// Those that are raised.
    pub(crate) fn raised(&self) -> Vec<Alarm> {
        let raised = self.states.iter().filter_map(|state| state.raised.clone());
        raised.collect()
    }

    /// Takes in a look, about once a second, and says what changed.
    pub(crate) fn observe(&mut self, look: &Look) -> Vec<Change> {
        let at_ms = look.sample.at_ms;
        let crashes = look.counter(Counter::ActorPanics);
        self.window.push_back((at_ms, crashes, failures(look)));
        let is_old = |(then_ms, ..): &(i64, u64, u64)| at_ms - then_ms > WINDOW_MS;
        while self.window.len() > WINDOW_LOOKS || self.window.front().is_some_and(is_old) {
            self.window.pop_front();
        }
        self.backlog.observe(at_ms, waiting(look));
        self.cluster.observe(at_ms, look.cluster.as_ref());
        let mut changes = Vec::new();
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            let measure = self.measure(kind, look);
            changes.extend(self.states[index].take(kind, measure, at_ms));
        }
        changes
    }

    /// Notes that somebody takes care of an alarm, until it is cleared.
    ///
    /// # Errors
    /// There is nothing to take care of.
    pub(crate) fn acknowledge(&mut self, name: &str) -> Result<(), NotAcknowledged> {
        let index = Kind::ALL.iter().position(|kind| kind.name() == name);
        let state = &mut self.states[index.ok_or(NotAcknowledged::Unknown)?];
        let raised = state.raised.as_mut();
        raised.ok_or(NotAcknowledged::NotRaised)?.acknowledged = true;
        Ok(())
    }

    fn measure(&self, kind: Kind, look: &Look) -> Option<Measure> {
        let process = &look.process;
        match kind {
            Kind::Backlog => Some(backlog(look, self.backlog.drain())),
            Kind::Changes => Some(self.grown(|entry| entry.2, 1, "changes that failed")),
            Kind::Crashes => Some(self.grown(|entry| entry.1, CRASHES, "crashes of actors")),
            Kind::Connections => near(
                look.gauge(Gauge::NetConnections),
                look.sample.connections_max,
                |used, max| format!("{used} connections of at most {max}"),
            ),
            Kind::Descriptors => near(
                process.descriptors?,
                process.descriptors_max?,
                |used, max| format!("{used} descriptors are open of at most {max}"),
            ),
            Kind::Queues => Some(queues(look)),
            Kind::Ranges => Some(ranges(look)),
            Kind::Rooms => Some(rooms(look)),
            Kind::Certificate => cluster::certificate(look.cluster.as_ref()?, look.sample.at_ms),
            Kind::Copies => Some(cluster::copies(look.cluster.as_ref()?)),
            Kind::Engine => Some(cluster::engine(look.cluster.as_ref()?)),
            Kind::Homes => Some(self.cluster.homes(look.cluster.as_ref()?)),
            Kind::Links => Some(self.cluster.links(look.cluster.as_ref()?)),
            Kind::Storage => cluster::storage(look.cluster.as_ref()?),
            Kind::Memory => near(
                process.resident_bytes?,
                process.memory_max_bytes?,
                |used, max| {
                    let (used, max) = (format::bytes(used as f64), format::bytes(max as f64));
                    format!("{used} of memory of at most {max}")
                },
            ),
            Kind::Disk => {
                let (free, size) = (process.disk_free_bytes?, process.disk_bytes?);
                let share = size as f64 * DISK_FREE_SHARE;
                let need = share.max(self.reserve_bytes as f64 * 2.0);
                let (free_text, need_text) = (format::bytes(free as f64), format::bytes(need));
                Some(Measure {
                    level: need / (free.max(1) as f64),
                    clear: 0.85,
                    message: format!("{free_text} free on the disk, less than {need_text}"),
                })
            }
        }
    }

    /// What was counted within the window, against how much of it is an alarm.
    fn grown(&self, of: impl Fn(&(i64, u64, u64)) -> u64, limit: u64, what: &str) -> Measure {
        let first = self.window.front().map(&of).unwrap_or_default();
        let last = self.window.back().map(&of).unwrap_or_default();
        let grown = last.saturating_sub(first);
        let seconds = WINDOW_MS / 1_000;
        Measure {
            level: grown as f64 / limit as f64,
            // Nothing at all for the whole window.
            clear: 0.5 / limit as f64,
            message: format!("{grown} {what} within {seconds} seconds"),
        }
    }
}

impl State {
    fn take(&mut self, kind: Kind, measure: Option<Measure>, at_ms: i64) -> Option<Change> {
        let is_over = measure.as_ref().is_some_and(|m| m.level >= 1.0);
        let is_under = measure.as_ref().is_none_or(|m| m.level < m.clear);
        match (&mut self.raised, measure) {
            (None, Some(measure)) if is_over => {
                self.agreed += 1;
                if self.agreed < RAISE_LOOKS {
                    return None;
                }
                self.agreed = 0;
                self.raised = Some(Alarm {
                    name: kind.name().to_owned(),
                    since_ms: at_ms,
                    message: measure.message.clone(),
                    acknowledged: false,
                });
                Some(Change::Raised(kind, measure.message))
            }
            (Some(_), _) if is_under => {
                self.agreed += 1;
                if self.agreed < CLEAR_LOOKS {
                    return None;
                }
                *self = State::default();
                Some(Change::Cleared(kind))
            }
            (raised, measure) => {
                self.agreed = 0;
                if let (Some(alarm), Some(measure)) = (raised, measure) {
                    alarm.message = measure.message;
                }
                None
            }
        }
    }
}

/// Messages that wait, in mailboxes and between shards.
pub(crate) fn waiting(look: &Look) -> u64 {
    let gauges = [
        Gauge::ActorQueueTotal,
        Gauge::ActorInbox,
        Gauge::ActorOutgoing,
    ];
    gauges.iter().map(|gauge| look.gauge(*gauge)).sum()
}

fn queues(look: &Look) -> Measure {
    let (messages, senders) = (
        look.gauge(Gauge::QueueMessages),
        look.gauge(Gauge::QueueSenders),
    );
    Measure {
        level: messages as f64 / QUEUED_MESSAGES as f64,
        clear: 0.5,
        message: format!(
            "{messages} messages of {senders} senders wait for recipients that do not keep up: see \
             `roost queue list`"
        ),
    }
}

/// What comes for a range that is on its way waits until every shard has let go of it.
fn ranges(look: &Look) -> Measure {
    let late = look.gauge(Gauge::RangesLate);
    Measure {
        level: late as f64,
        clear: 0.5,
        message: format!("{late} ranges are still on their way between shards: one may hang"),
    }
}

/// A room that sends without a pause takes nothing else meanwhile: its occupants wait.
fn rooms(look: &Look) -> Measure {
    let behind = look.gauge(Gauge::RoomsBehind);
    let waiting = look.gauge(Gauge::RoomCopiesWaiting);
    Measure {
        level: behind as f64,
        clear: 0.5,
        message: format!("{behind} rooms do not keep up: {waiting} copies wait in rooms"),
    }
}

fn failures(look: &Look) -> u64 {
    let journal = &look.sample.journal;
    look.counter(Counter::ChangesFailed) + journal.failed + journal.commits_failed
}

fn backlog(look: &Look, drain: Drain) -> Measure {
    let (all, longest) = (waiting(look), look.gauge(Gauge::ActorQueueMax));
    let by_all = all as f64 / BACKLOG_MESSAGES as f64;
    let by_one = longest as f64 / BACKLOG_MAILBOX as f64;
    let gone = match drain {
        Drain::Empty => String::new(),
        Drain::Never => ", not getting less".to_owned(),
        Drain::After(seconds) => format!(", gone in {}", format::wait(seconds)),
    };
    Measure {
        level: by_all.max(by_one),
        clear: 0.5,
        message: format!("{all} messages wait, the longest mailbox has {longest}{gone}"),
    }
}

/// How near something is to its limit; a limit of zero is none.
fn near(used: u64, max: u64, message: impl Fn(u64, u64) -> String) -> Option<Measure> {
    let (raise, clear) = NEAR;
    (max > 0).then(|| Measure {
        level: used as f64 / max as f64 / raise,
        clear: clear / raise,
        message: message(used, max),
    })
}

#[cfg(test)]
mod tests {
    use server::watch::ShardSample;

    use super::*;
    use crate::process::ProcessSample;

    /// A look at the given second.
    fn look(second: i64, descriptors: u64, panics: u64) -> Look {
        let mut look = Look::default();
        look.sample.at_ms = second * 1_000;
        look.sample.connections_max = 100;
        look.sample.shards = vec![ShardSample {
            counters: [(Counter::ActorPanics.name().to_owned(), panics)].into(),
            ..ShardSample::default()
        }];
        look.process = ProcessSample {
            descriptors: Some(descriptors),
            descriptors_max: Some(1_000),
            disk_free_bytes: Some(50 << 30),
            disk_bytes: Some(100 << 30),
            ..ProcessSample::default()
        };
        look
    }

    #[test]
    fn an_alarm_is_raised_once_and_cleared_once_however_values_jitter() {
        let mut alarms = Alarms::new(0);
        let mut changes = Vec::new();
        let mut second = 0;
        let mut go = |alarms: &mut Alarms, values: &[u64]| {
            let mut changes = Vec::new();
            for value in values {
                second += 1;
                changes.extend(alarms.observe(&look(second, *value, 0)));
            }
            changes
        };
        // A peak of two looks is none.
        changes.extend(go(&mut alarms, &[950, 950, 100, 950, 950, 100]));
        assert_eq!(changes, []);
        changes.extend(go(&mut alarms, &[901, 950, 960]));
        let message = "960 descriptors are open of at most 1000".to_owned();
        assert_eq!(changes, [Change::Raised(Kind::Descriptors, message)]);
        // Between the two levels it stays, and what it says is of now.
        let between = go(&mut alarms, &[850; 60]);
        assert_eq!(between, []);
        assert!(alarms.raised()[0].message.starts_with("850 descriptors"));
        // Under the lower level, but not long enough.
        assert_eq!(go(&mut alarms, &[100; 9]), []);
        assert_eq!(go(&mut alarms, &[850]), []);
        assert_eq!(go(&mut alarms, &[100; 9]), []);
        assert_eq!(
            go(&mut alarms, &[100]),
            [Change::Cleared(Kind::Descriptors)]
        );
        assert_eq!(alarms.raised(), []);
    }

    #[test]
    fn crashes_count_over_a_minute() {
        let mut alarms = Alarms::new(0);
        let mut raised = Vec::new();
        for second in 0..300 {
            // One crash a minute is an accident, ten at once are not.
            let panics = second as u64 / 60 + if second >= 200 { 10 } else { 0 };
            for change in alarms.observe(&look(second, 1, panics)) {
                raised.push((second, change));
            }
        }
        let message = "11 crashes of actors within 60 seconds".to_owned();
        assert_eq!(raised, [(202, Change::Raised(Kind::Crashes, message))]);
        for second in 300..380 {
            for change in alarms.observe(&look(second, 1, 14)) {
                raised.push((second, change));
            }
        }
        assert_eq!(raised[1].1, Change::Cleared(Kind::Crashes));
    }

    #[test]
    fn acknowledging_lasts_until_the_alarm_is_cleared() {
        let mut alarms = Alarms::new(0);
        assert_eq!(
            alarms.acknowledge("descriptors"),
            Err(NotAcknowledged::NotRaised)
        );
        assert_eq!(alarms.acknowledge("x"), Err(NotAcknowledged::Unknown));
        for second in 0..3 {
            alarms.observe(&look(second, 999, 0));
        }
        assert_eq!(alarms.acknowledge("descriptors"), Ok(()));
        let shown = alarms.raised()[0].to_string();
        assert!(
            shown.ends_with("since 00:00:02 UTC (acknowledged)"),
            "{shown}"
        );
        for second in 3..20 {
            alarms.observe(&look(second, 1, 0));
        }
        for second in 20..23 {
            alarms.observe(&look(second, 999, 0));
        }
        assert!(!alarms.raised()[0].acknowledged);
    }

    #[test]
    fn each_kind_is_raised_by_what_it_is_for() {
        let gauge = |gauge: Gauge, value: u64| {
            let mut look = look(0, 1, 0);
            let gauges = &mut look.sample.shards[0].gauges;
            gauges.insert(gauge.name().to_owned(), value);
            look
        };
        let mut disk = look(0, 1, 0);
        disk.process.disk_free_bytes = Some(1 << 30);
        let mut memory = look(0, 1, 0);
        memory.process.resident_bytes = Some(95);
        memory.process.memory_max_bytes = Some(100);
        let cases = [
            (gauge(Gauge::ActorQueueTotal, 10_000), Kind::Backlog),
            (gauge(Gauge::ActorQueueMax, 768), Kind::Backlog),
            (gauge(Gauge::NetConnections, 90), Kind::Connections),
            (gauge(Gauge::QueueMessages, 1_000), Kind::Queues),
            (gauge(Gauge::RangesLate, 1), Kind::Ranges),
            (gauge(Gauge::RoomsBehind, 1), Kind::Rooms),
            (disk, Kind::Disk),
            (memory, Kind::Memory),
        ];
        for (mut look, expected) in cases {
            let mut alarms = Alarms::new(0);
            for _ in 0..RAISE_LOOKS {
                look.sample.at_ms += 1_000;
                alarms.observe(&look);
            }
            let names: Vec<String> = alarms.raised().into_iter().map(|a| a.name).collect();
            assert_eq!(names, [expected.name()]);
        }
        let mut alarms = Alarms::new(0);
        for failed in 0..=RAISE_LOOKS {
            let mut look = look(i64::from(failed), 1, 0);
            look.sample.journal.commits_failed = u64::from(failed.min(1));
            alarms.observe(&look);
        }
        assert_eq!(alarms.raised()[0].name, Kind::Changes.name());
    }

    #[test]
    fn a_system_that_tells_nothing_raises_nothing() {
        let mut alarms = Alarms::new(1 << 40);
        for second in 0..20 {
            let mut look = look(second, 1, 0);
            look.process = ProcessSample::default();
            assert_eq!(alarms.observe(&look), []);
        }
    }
}
