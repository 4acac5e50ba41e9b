//! How long a room's log is kept: by age, number and size, as `[archive]` says; whatever the number
//! and the size, those who enter can be sent the history. It is looked at every so many messages,
//! and when the node finds that the oldest one may be too old.
//!
//! What the actor counts says when to look. What goes is decided by the store's own head, read with
//! the oldest entries: what is replaced in the log (a retraction) takes less, or more, than before.

use actor::{Context, Mail};
use room::Room;
use store::{LogEntry, LogHead, Seq, StoreError};

use super::durable::For;
use super::{RoomActor, RoomMsg};
use crate::entity::life::Phase;
use crate::message::UserMsg;
use crate::stored::rooms::OWED;

/// What an append does to the log.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grows {
    /// The room ends, and its log with it.
    ends: bool,
    pub(super) messages: u64,
    bytes: u64,
    /// It says that homes have to be told of members.
    pub(super) owes: bool,
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
                store::Record::RoomPut { part, value, .. } => {
                    grows.owes |= part == OWED && !value.is_empty();
                }
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
    /// Without what was replaced since the store was asked.
    bytes: u64,
    /// Appends since the oldest entries were looked at.
    since: u32,
    is_looking: bool,
    /// A trim is undecided: until then the store has what it takes.
    is_trimming: bool,
    /// Behind it there may be more to trim.
    has_more: bool,
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

    /// A trim is decided. One that was refused is not tried again at once.
    pub(super) fn trimmed(&mut self, is_done: bool) {
        self.is_trimming = false;
        self.has_more &= is_done;
    }

    pub(super) fn of(head: &LogHead, has_older_marks: bool) -> LogState {
        LogState {
            count: head.count,
            bytes: head.bytes,
            has_older_marks,
            next_seq: head.next_seq,
            ..LogState::default()
        }
    }
}

/// What a log may have.
struct Max {
    messages: u64,
    bytes: u64,
    /// So many messages stay, however large they are.
    kept: u64,
}

impl RoomActor {
    fn log_max(&self) -> Max {
        let (options, archive) = (
            &self.life.home.options.rooms,
            &self.life.home.options.archive,
        );
        let history = u64::from(options.machine.limits.history_max);
        let room = self.room.as_ref();
        let state = room.and_then(Room::state);
        let mut messages = history;
        // What managed sessions may have to catch up with.
        if room.is_some_and(|room| room.managed() > 0) {
            messages = messages.max(options.kept_for_sessions);
        }
        // The same of members who are not there, with stream management or without.
        if state.is_some_and(room::State::delivers) {
            let backlog = self.life.home.bounds().member_backlog_max;
            messages = messages.max(options.kept_for_sessions).max(backlog);
        }
        if archive.enabled {
            messages = messages.max(archive.max_messages);
        }
        Max {
            messages,
            bytes: archive.max_bytes,
            kept: history,
        }
    }

    pub(super) fn look_at_retention(&mut self, cx: &mut Context<'_, UserMsg>) {
        let (max, log) = (self.log_max(), &self.log);
        let every = self.life.home.bounds().retention_every;
        let is_due = log.has_more
            || log.since >= every
            || log.count > max.messages + u64::from(every)
            || log.bytes > max.bytes && log.count > max.kept;
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
        let is_busy = self.log.is_looking || self.log.is_trimming;
        if !is_stored || self.life.phase != Phase::Ready || is_busy {
            return;
        }
        (self.log.is_looking, self.log.since) = (true, 0);
        let (store, name) = (self.life.home.store.clone(), self.life.name.clone());
        let limit = self.life.home.bounds().read_entries;
        let read = move || store.log_oldest(&name, limit);
        let map = |oldest| UserMsg::own(RoomMsg::Oldest(oldest));
        if cx.blocking(&self.life.home.later_reads, read, map).is_err() {
            // The next look tries again.
            self.log.is_looking = false;
        }
    }

    pub(super) fn oldest_read(
        &mut self,
        oldest: Result<Option<(LogHead, Vec<LogEntry>)>, StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.log.is_looking = false;
        let Ok(Some((head, entries))) = oldest else {
            return;
        };
        let max = self.log_max();
        let max_age = self.life.home.options.archive.max_age.as_millis() as i64;
        let now = cx.wall().as_millis();
        let (mut count, mut bytes) = (head.count, head.bytes);
        let (mut records, mut through) = (Vec::new(), 0);
        for entry in &entries {
            let is_old = now - entry.at.as_millis() > max_age;
            let is_too_much = count > max.messages || bytes > max.bytes && count > max.kept;
            if !(is_old || is_too_much) {
                break;
            }
            through = entry.seq;
            count = count.saturating_sub(1);
            bytes = bytes.saturating_sub(entry.frame.len() as u64);
        }
        // What is decided meanwhile may be counted twice or not at all, until the next look.
        (self.log.count, self.log.bytes) = (count, bytes);
        self.log.has_more = through > 0 && entries.last().is_some_and(|last| last.seq == through);
        if through > 0 {
            records.push(store::Record::LogTrim {
                user: String::from(&*self.life.name),
                through,
            });
        }
        let marks_kept = self.life.home.bounds().marks_kept;
        if self.log.has_older_marks {
            records.push(store::Record::MarksForget {
                user: String::from(&*self.life.name),
                before: now - marks_kept.as_millis() as i64,
            });
        }
        if records.is_empty() {
            return;
        }
        self.log.is_trimming = true;
        self.append(records, (For::Trim, None), cx);
    }
}
