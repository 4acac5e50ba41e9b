//! When snapshots of streams are stored, behind which the streams are purged; what a snapshot is,
//! and that it is verified first, is the driver's. One at a time on each node.
//!
//! | which | when | by |
//! |---|---|---|
//! | of a stream that a single server's data began and that has none | at once, and again after a pause | whoever has the data |
//! | what an operator asked for | at once | the node that was asked |
//! | the others | so many messages behind the last one, and after a failure not before a pause | the home |

mod schedule;

use std::time::Duration;

use cluster::driver::{Driver, Stored};
use cluster::layout::StreamId;
use stdx::time::Moment;
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use super::asked::{Asked, SnapshotDone};
use schedule::Schedule;

/// Pause before the first snapshot of a stream is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// One that is being stored.
struct UnderWay {
    stream: StreamId,
    is_asked: bool,
    since: Moment,
    result: Receiver<Result<Stored, String>>,
}

/// See the module.
pub(super) struct Snapshots<'a> {
    driver: &'a Driver,
    asked: &'a Asked,
    /// By stream.
    schedules: Vec<Schedule>,
    /// Streams that must have a first one, and from when on it may be tried.
    unsaved: Vec<(StreamId, Moment)>,
    under_way: Option<UnderWay>,
}

impl<'a> Snapshots<'a> {
    pub(super) fn new(driver: &'a Driver, asked: &'a Asked, unsaved: Vec<StreamId>) -> Self {
        let unsaved = unsaved.into_iter().map(|stream| (stream, Moment::ZERO));
        Snapshots {
            driver,
            asked,
            schedules: vec![Schedule::default(); driver.layout().streams().count()],
            unsaved: unsaved.collect(),
            under_way: None,
        }
    }

    /// Begins one if it is time, and hears what became of the last.
    pub(super) fn look(&mut self, now: Moment) {
        if let Some(mut under_way) = self.under_way.take() {
            match under_way.result.try_recv() {
                Err(TryRecvError::Empty) => return self.under_way = Some(under_way),
                Ok(result) => self.on_result(now, &under_way, result),
                Err(TryRecvError::Closed) => {
                    let ended = Err("the stream's task has ended: see the log".to_owned());
                    self.on_result(now, &under_way, ended);
                }
            }
        }
        let due = self.first(now).map(|stream| (stream, false));
        let due = due.or_else(|| self.ordered().map(|stream| (stream, true)));
        let due = due.or_else(|| self.scheduled(now).map(|stream| (stream, false)));
        self.under_way = due.map(|(stream, is_asked)| UnderWay {
            stream,
            is_asked,
            since: now,
            result: self.driver.snapshot(stream),
        });
    }

    fn on_result(&mut self, now: Moment, of: &UnderWay, result: Result<Stored, String>) {
        let stream = of.stream;
        let schedule = &mut self.schedules[usize::from(stream.0)];
        let took = now.saturating_since(of.since).as_millis();
        let mut done = SnapshotDone {
            stream: stream.0,
            took_ms: u64::try_from(took).unwrap_or(u64::MAX),
            ..SnapshotDone::default()
        };
        match result {
            Ok(stored) => {
                let (seq, bytes) = (stored.mark.seq, stored.bytes);
                tracing::info!(stream = stream.0, seq, bytes, "stored a snapshot");
                schedule.on_stored(seq);
                (done.seq, done.entries, done.bytes) = (seq, stored.entries, bytes);
                self.unsaved.retain(|(unsaved, _)| *unsaved != stream);
            }
            Err(why) => {
                tracing::warn!(stream = stream.0, why, "no snapshot was stored");
                schedule.on_failed(now);
                let mut unsaved = self.unsaved.iter_mut();
                if let Some(unsaved) = unsaved.find(|(unsaved, _)| *unsaved == stream) {
                    unsaved.1 = now + AGAIN_AFTER;
                }
                done.why = Some(why);
            }
        }
        if of.is_asked {
            self.asked.done(done);
        }
    }

    /// A stream without which no other node can begin.
    fn first(&self, now: Moment) -> Option<StreamId> {
        let mut unsaved = self.unsaved.iter();
        let has_it = |stream: StreamId| self.driver.progress(stream).mark.seq > 0;
        let found = unsaved.find(|(stream, from)| *from <= now && has_it(*stream));
        found.map(|(stream, _)| *stream)
    }

    /// What an operator asked for, if this node's copy is good.
    fn ordered(&self) -> Option<StreamId> {
        loop {
            let stream = self.asked.next()?;
            let progress = self.driver.progress(stream);
            let why = match progress {
                _ if progress.divergences > 0 => {
                    "the copy of this node differs from another's: ask another node, and start \
                     this one with an empty folder"
                }
                _ if progress.is_stuck => "the copy of this node cannot go on: ask another node",
                _ if progress.mark.seq == 0 => "nothing was ever written to the stream",
                _ => return Some(stream),
            };
            self.asked.done(SnapshotDone {
                stream: stream.0,
                why: Some(why.to_owned()),
                ..SnapshotDone::default()
            });
        }
    }

    fn scheduled(&self, now: Moment) -> Option<StreamId> {
        let is_due = |stream: &StreamId| {
            let schedule = &self.schedules[usize::from(stream.0)];
            schedule.is_due(now, &self.driver.progress(*stream))
        };
        self.driver.layout().streams().find(is_due)
    }
}
