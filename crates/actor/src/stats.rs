//! What a shard tells about itself while it runs.
//!
//! Owns the lists of the busiest actors, decaying rates and the report that other threads read.
//! Counting happens in plain memory; every [`crate::limits::PUBLISH_INTERVAL`] the shard copies it
//! to where others may look. Deliberately not here: any exporter.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use stdx::time::Moment;
use telemetry::{Counter, Gauge, Rate, Rates};

use crate::core::Core;
use crate::limits::{LONG_TURN, PUBLISH_INTERVAL, TOP, TOP_WINDOW};
use crate::types::{ActorId, Name};

/// What a driver was doing; see [`crate::Shard::note_time`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Running actors, or reading and writing sockets.
    Working,
    /// In the system's poll without sleeping.
    Polling,
    /// Asleep.
    Idle,
}

/// One of the busiest actors.
#[derive(Clone, Debug, PartialEq)]
pub struct TopActor {
    /// Who.
    pub who: ActorId,
    /// Its name, if it has one.
    pub name: Option<Name>,
    /// The type of its messages.
    pub takes: &'static str,
    /// Messages waiting, messages handled in the window, or cost in the window.
    pub value: u32,
}

/// What a shard last reported; counters are in [`crate::Handle::stats`].
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// When.
    pub at: Moment,
    /// Messages handled per second.
    pub messages: Rates,
    /// Share of time spent working (0.0 to 1.0), as noted by the driver.
    pub working: Rates,
    /// Share of time spent polling.
    pub polling: Rates,
    /// Share of time spent asleep.
    pub idle: Rates,
    /// Longest mailboxes now. Only mailboxes that reached 8 messages since the last report.
    pub top_queue: Vec<TopActor>,
    /// Most messages handled in the last whole window of one second.
    pub top_rate: Vec<TopActor>,
    /// Highest cost in the last whole window of one second.
    pub top_cost: Vec<TopActor>,
}

/// The highest values of few actors, unordered.
#[derive(Default)]
struct Top(Vec<(ActorId, u32)>);

impl Top {
    fn note(&mut self, who: ActorId, value: u32) {
        let known = self.0.iter_mut().find(|(id, _)| *id == who);
        if let Some((_, old)) = known {
            *old = value;
        } else if self.0.len() < TOP {
            self.0.push((who, value));
        } else if let Some(lowest) = self.0.iter_mut().min_by_key(|(_, value)| *value)
            && lowest.1 < value
        {
            *lowest = (who, value);
        }
    }

    /// The value that a newcomer must exceed.
    fn floor(&self) -> u32 {
        if self.0.len() < TOP {
            0
        } else {
            self.0.iter().map(|(_, v)| *v).min().unwrap_or(0)
        }
    }
}

/// The busiest actors of the current window and of the one before.
#[derive(Default)]
pub(crate) struct Tops {
    window: u16,
    began: Moment,
    queue: Top,
    rate: Top,
    cost: Top,
    rate_floor: u32,
    cost_floor: u32,
    last_rate: Vec<(ActorId, u32)>,
    last_cost: Vec<(ActorId, u32)>,
}

impl Tops {
    pub(crate) fn window(&self) -> u16 {
        self.window
    }

    pub(crate) fn note_queue(&mut self, who: ActorId, len: u32) {
        self.queue.note(who, len);
    }

    /// Called after every run, hence the floors: most actors are not among the busiest. Where
    /// thousands are equally busy, each would exceed the others by one again and again; who is less
    /// than an eighth above the floor is as good as on it.
    #[inline]
    pub(crate) fn note_run(&mut self, who: ActorId, handled: u32, cost: u32) {
        if !telemetry::IS_ON {
            return;
        }
        if handled > self.rate_floor + self.rate_floor / 8 {
            self.rate.note(who, handled);
            self.rate_floor = self.rate.floor();
        }
        if cost > self.cost_floor + self.cost_floor / 8 {
            self.cost.note(who, cost);
            self.cost_floor = self.cost.floor();
        }
    }

    fn roll(&mut self, now: Moment) {
        if now.saturating_since(self.began) < TOP_WINDOW {
            return;
        }
        self.began = now;
        self.window = self.window.wrapping_add(1);
        self.last_rate = std::mem::take(&mut self.rate.0);
        self.last_cost = std::mem::take(&mut self.cost.0);
        (self.rate_floor, self.cost_floor) = (0, 0);
    }
}

#[derive(Default)]
pub(crate) struct Instruments {
    last: Option<Moment>,
    last_turns: u64,
    messages: Rate,
    working: Rate,
    polling: Rate,
    idle: Rate,
}

/// Nanoseconds per second as a share of one.
fn share(rate: &Rate) -> Rates {
    let Rates {
        over_1s,
        over_10s,
        over_100s,
    } = rate.rates();
    Rates {
        over_1s: over_1s / 1e9,
        over_10s: over_10s / 1e9,
        over_100s: over_100s / 1e9,
    }
}

impl Core {
    pub(crate) fn note_time(&mut self, stage: Stage, time: Duration) {
        let counter = match stage {
            Stage::Working => Counter::ShardWorkingNanos,
            Stage::Polling => Counter::ShardPollingNanos,
            Stage::Idle => Counter::ShardIdleNanos,
        };
        self.stats
            .add(counter, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        if stage == Stage::Working && time >= LONG_TURN {
            self.stats.add(Counter::ShardLongTurns, 1);
        }
    }

    /// When the next report is due, if anything happened since the last.
    pub(crate) fn next_report(&self) -> Option<Moment> {
        let last = self.instruments.last?;
        // A turn that did nothing but report is no news.
        let news = self.stats.get(Counter::ActorRuns) != self.instruments.last_turns;
        news.then(|| last + PUBLISH_INTERVAL)
    }

    pub(crate) fn report_if_due(&mut self) {
        if !telemetry::IS_ON {
            return;
        }
        let is_due = match self.instruments.last {
            Some(last) => self.now.saturating_since(last) >= PUBLISH_INTERVAL,
            None => true,
        };
        if is_due {
            self.report();
        }
    }

    /// Publishes everything.
    pub(crate) fn report(&mut self) {
        let now = self.now;
        self.instruments.last = Some(now);
        self.instruments.last_turns = self.stats.get(Counter::ActorRuns);
        self.tops.roll(now);
        for id in 0..self.realms.len() as u16 {
            if let Some(ops) = self.ops(id) {
                (ops.tidy)(self, id);
            }
        }
        self.instruments
            .messages
            .observe(now, self.stats.get(Counter::ActorMessages));
        self.instruments
            .working
            .observe(now, self.stats.get(Counter::ShardWorkingNanos));
        self.instruments
            .polling
            .observe(now, self.stats.get(Counter::ShardPollingNanos));
        self.instruments
            .idle
            .observe(now, self.stats.get(Counter::ShardIdleNanos));
        let noted = std::mem::take(&mut self.tops.queue.0);
        let top_queue = self.describe_top(&noted, true);
        for top in &top_queue {
            self.tops.queue.note(top.who, top.value);
        }
        let report = Report {
            at: now,
            messages: self.instruments.messages.rates(),
            working: share(&self.instruments.working),
            polling: share(&self.instruments.polling),
            idle: share(&self.instruments.idle),
            top_rate: self.describe_top(&self.tops.last_rate.clone(), false),
            top_cost: self.describe_top(&self.tops.last_cost.clone(), false),
            top_queue,
        };
        self.set_gauges(&report);
        let links = Arc::clone(&self.links);
        if let Some(inbox) = links.inbox(self.id) {
            inbox.stats.publish(&self.stats);
            *inbox.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(report));
        }
    }

    /// Looks the noted actors up; those that ended are left out.
    fn describe_top(&mut self, noted: &[(ActorId, u32)], by_queue: bool) -> Vec<TopActor> {
        let mut top = Vec::with_capacity(noted.len());
        for (who, value) in noted {
            let Some((name, takes, waiting)) = self.describe(*who) else {
                continue;
            };
            let value = if by_queue { waiting as u32 } else { *value };
            if value > 0 {
                top.push(TopActor {
                    who: *who,
                    name,
                    takes,
                    value,
                });
            }
        }
        top.sort_by_key(|actor| std::cmp::Reverse((actor.value, actor.who)));
        top
    }

    fn set_gauges(&mut self, report: &Report) {
        // Mailboxes below the mark of 8 are not noted; then the mean of the others must do.
        let mean = self.waiting.div_ceil(self.non_empty.max(1));
        let max = report
            .top_queue
            .first()
            .map_or(mean, |top| u64::from(top.value).max(mean));
        let inbox = self.links.inbox(self.id).map_or(0, |inbox| inbox.waiting());
        for (gauge, value) in [
            (Gauge::ActorsAlive, self.alive),
            (Gauge::ActorQueueTotal, self.waiting),
            (Gauge::ActorQueueMax, max),
            (Gauge::ActorQueueNonEmpty, self.non_empty),
            (Gauge::ActorRunQueue, self.run.len() as u64),
            (Gauge::ActorTimers, self.timers.len() as u64),
            (Gauge::ActorAsksWaiting, self.asks.len() as u64),
            (Gauge::ActorInbox, inbox as u64),
            (Gauge::ActorOutgoing, self.held_back),
        ] {
            self.stats.set(gauge, value);
        }
    }
}
