//! How long a room's log is kept: by age, number and size, as `[archive]` says, and never less than
//! those who enter are sent. It is looked at every so many messages, and when the node finds that
//! the oldest one may be too old.

use actor::{Context, Mail};
use room::Room;
use store::{LogEntry, LogHead, Seq, StoreError};

use super::durable::For;
use super::{Phase, RoomActor, RoomMsg};
use crate::limits::MARKS_KEPT;
use crate::message::UserMsg;

/// What an append does to the log.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grows {
    /// The room ends, and its log with it.
    ends: bool,
    pub(super) messages: u64,
    bytes: u64,
    /// Above the last of them.
    next_seq: Seq,
}

impl Grows {
    pub(super) fn of(records: &[store::Record]) -> Grows {
        let mut grows = Grows::default();
        for record in records {
            match record {
                store::Record::LogAppend { entry, .. } => {
                    grows.messages += 1;
                    grows.next_seq = entry.seq + 1;
                    grows.bytes += entry.frame.len() as u64;
                }
                store::Record::RoomRemove { .. } => grows.ends = true,
                _ => {}
            }
        }
        grows
    }
}

/// What the log's retention goes by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogState {
    /// Numbers below it were given out in the store.
    pub(super) next_seq: Seq,
    count: u64,
    bytes: u64,
    trimmed_through: Seq,
    /// Appends since the oldest entries were looked at.
    since: u32,
    is_looking: bool,
    has_older_marks: bool,
}

impl LogState {
    /// Of a room that is not there: what the store gave out at its address stays so.
    pub(super) fn from(next_seq: Seq) -> LogState {
        LogState {
            next_seq,
            ..LogState::default()
        }
    }

    pub(super) fn grow(&mut self, grows: Grows) {
        if grows.ends {
            *self = LogState {
                next_seq: self.next_seq,
                ..LogState::default()
            };
        }
        self.next_seq = self.next_seq.max(grows.next_seq);
        self.count += grows.messages;
        self.bytes += grows.bytes;
        self.since = self.since.saturating_add(grows.messages as u32);
    }

    pub(super) fn of(head: &LogHead, has_older_marks: bool) -> LogState {
        LogState {
            count: head.count,
            bytes: head.bytes,
            trimmed_through: head.trimmed_through,
            has_older_marks,
            next_seq: head.next_seq,
            ..LogState::default()
        }
    }
}

impl RoomActor {
    /// Entries and bytes that the log may have.
    fn log_max(&self) -> (u64, u64) {
        let archive = &self.home.options.archive;
        let history = u64::from(self.home.options.rooms.machine.limits.history_max);
        let kept_for_sessions = self.home.options.rooms.kept_for_sessions;
        // What managed sessions may have to catch up with.
        let room = self.room.as_ref().filter(|room| room.managed() > 0);
        let history = room.map_or(history, |_| history.max(kept_for_sessions));
        match archive.enabled {
            true => (archive.max_messages.max(history), archive.max_bytes),
            false => (history, archive.max_bytes),
        }
    }

    pub(super) fn look_at_retention(&mut self, cx: &mut Context<'_, UserMsg>) {
        let (max_messages, max_bytes) = self.log_max();
        let is_due = self.log.since >= self.home.bounds().retention_every
            || self.log.count > max_messages + u64::from(self.home.bounds().retention_every)
            || self.log.bytes > max_bytes;
        if is_due {
            self.look_at_oldest(cx);
        }
    }

    /// Reads the oldest entries to see which may go.
    pub(super) fn look_at_oldest(&mut self, cx: &mut Context<'_, UserMsg>) {
        let is_stored = self
            .room
            .as_ref()
            .and_then(Room::state)
            .is_some_and(room::State::is_durable);
        if !is_stored || self.phase != Phase::Ready || self.log.is_looking {
            return;
        }
        (self.log.is_looking, self.log.since) = (true, 0);
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let (after, limit) = (self.log.trimmed_through, self.home.bounds().read_entries);
        let read = move || store.log_read(&name, after, limit);
        let map = |oldest| UserMsg::Room(Box::new(RoomMsg::Oldest(oldest)));
        if cx.blocking(&self.home.later_reads, read, map).is_err() {
            // The next look tries again.
            self.log.is_looking = false;
        }
    }

    pub(super) fn oldest_read(
        &mut self,
        oldest: Result<Vec<LogEntry>, StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.log.is_looking = false;
        let Ok(entries) = oldest else { return };
        let (max_messages, max_bytes) = self.log_max();
        let max_age = self.home.options.archive.max_age.as_millis() as i64;
        let now = cx.wall().as_millis();
        let (mut records, mut through) = (Vec::new(), 0);
        for entry in &entries {
            let is_kept = now - entry.at.as_millis() <= max_age
                && self.log.count <= max_messages
                && self.log.bytes <= max_bytes;
            if is_kept {
                break;
            }
            through = entry.seq;
            self.log.count = self.log.count.saturating_sub(1);
            self.log.bytes = self.log.bytes.saturating_sub(entry.frame.len() as u64);
        }
        if through > 0 {
            self.log.trimmed_through = through;
            records.push(store::Record::LogTrim {
                user: String::from(&*self.name),
                through,
            });
        }
        if self.log.has_older_marks {
            records.push(store::Record::MarksForget {
                user: String::from(&*self.name),
                before: now - MARKS_KEPT.as_millis() as i64,
            });
        }
        if records.is_empty() {
            return;
        }
        self.append(records, (For::Upkeep, None), cx);
        if entries.last().is_some_and(|last| last.seq == through) {
            self.look_at_oldest(cx);
        }
    }
}
