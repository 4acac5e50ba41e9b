//! What became of one message, by its stanza-id (XEP-0359): read from the logs of its sender and
//! its recipient, a room perhaps, as they are now. Owns the sentences; changes nothing.

mod room;

use store::{EntryFlags, LogEntry, StoreError, UserState};
use xml::Frame;

use super::{Admin, Request, Response, error, unreadable};
use crate::modules::stanza_ids;
use crate::queues::Queue;

/// Entries that are read at a time.
const PAGE: usize = 1_000;

/// Accounts, or rooms, that are looked at at a time.
const ACCOUNTS: usize = 1_000;

/// What a look through a log came to.
enum Found {
    It(Box<LogEntry>),
    Nothing,
    /// Nothing among as many entries as are looked at; there are more.
    NotSoFar,
}

impl Admin {
    /// Follows a message by the stanza-id that it has in the log of `by`, or in any log.
    pub(crate) fn trace(&self, id: &str, by: Option<&str>) -> Result<Vec<String>, Response> {
        let Some(seq) = stanza_ids::seq_of(id) else {
            let message = format!("{id:?} is no stanza-id of this server: it has 16 digits");
            return Err(error("bad_id", &message));
        };
        let mut lines = Vec::new();
        match by {
            Some(owner) => self.trace_in(owner, seq, &mut lines),
            None => self.trace_everywhere(seq, &mut lines),
        }
        .map_err(unreadable)?;
        if lines.is_empty() {
            let message = format!("no log has {id}: it was trimmed, or never was there");
            return Err(error("no_such_message", &message));
        }
        Ok(lines)
    }

    fn trace_everywhere(&self, seq: u64, lines: &mut Vec<String>) -> Result<(), StoreError> {
        let accounts = |after: Option<&str>| self.store.accounts(None, after, ACCOUNTS);
        let rooms = |after: Option<&str>| {
            let page = self.store.rooms(after, ACCOUNTS)?;
            Ok(page.into_iter().map(|(room, _)| room).collect())
        };
        self.trace_in_all(accounts, seq, lines)?;
        self.trace_in_all(rooms, seq, lines)
    }

    fn trace_in_all(
        &self,
        page_behind: impl Fn(Option<&str>) -> Result<Vec<String>, StoreError>,
        seq: u64,
        lines: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        let mut after: Option<String> = None;
        loop {
            let page = page_behind(after.as_deref())?;
            for owner in &page {
                self.trace_in(owner, seq, lines)?;
            }
            match page.last() {
                Some(last) if page.len() == ACCOUNTS => after = Some(last.clone()),
                _ => return Ok(()),
            }
        }
    }

    fn trace_in(&self, owner: &str, seq: u64, lines: &mut Vec<String>) -> Result<(), StoreError> {
        // An entry that was trimmed may be kept for a destination that lags.
        let (mut entries, _) =
            self.store
                .log_outgoing(owner, None, (seq.saturating_sub(1), seq), 1)?;
        if entries.is_empty() {
            entries = self.store.log_entries(owner, &[seq])?;
        }
        let Some(entry) = entries.into_iter().next() else {
            return Ok(());
        };
        match self.store.load_user(owner)? {
            Some(state) if entry.flags.has(EntryFlags::SENT) => {
                self.sent(owner, &state, &entry, lines)
            }
            _ => self.received(owner, &entry, lines),
        }
    }

    /// From the sender's side on.
    fn sent(
        &self,
        owner: &str,
        state: &UserState,
        entry: &LogEntry,
        lines: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        let (id, peer) = (stanza_ids::id_of(entry.seq), &entry.peer);
        let at = entry.at.with_millis();
        lines.push(format!("{at}  accepted from {owner} for {peer}, as {id}"));
        let place = self.place.slots().peer(peer);
        let windows = state.windows.as_deref();
        let own = windows.and_then(|windows| windows.lagging.iter().find(|own| own.peer == place));
        let mark = own.map_or(state.log.forwarded, |own| own.mark);
        let taken = self.taken_from(owner, entry)?;
        if let Found::It(taken) = taken {
            return self.kept(peer, &taken, lines);
        }
        let returned = self.returned(owner, entry)?;
        if let Found::It(error) = returned {
            let (at, id) = (error.at.with_millis(), stanza_ids::id_of(error.seq));
            lines.push(format!("{at}  came back to {owner} as an error, {id}"));
            return self.kept(owner, &error, lines);
        }
        let is_cut = [taken, returned]
            .iter()
            .any(|one| matches!(one, Found::NotSoFar));
        if is_cut {
            let max = self.options.traced_max;
            lines.push(format!(
                "-  looked for in the first {max} entries of each log only"
            ));
        }
        if entry.seq <= mark && is_cut {
            lines.push(format!("-  taken over by {peer}, or came back"));
        } else if entry.seq <= mark {
            lines.push(format!(
                "-  taken over by {peer}, whose log does not have it any more"
            ));
        } else {
            // Only the sender's home knows.
            let sender = Some(owner.to_owned());
            let queues = match self.call(Request::QueueList { sender }) {
                Response::Queues { queues } => Ok(queues),
                Response::Error { message, .. } => Err(message),
                _ => Ok(Vec::new()),
            };
            let is_it = |queue: &&Queue| *queue.recipient == **peer;
            lines.push(match queues.as_ref().map(|all| all.iter().find(is_it)) {
                Ok(Some(queue)) => format!(
                    "-  waits for {peer}: {} failed attempts ({}), {}",
                    queue.failures, queue.why, queue.next
                ),
                Ok(None) => format!("-  is on its way to {peer}"),
                Err(why) => format!("-  has not arrived at {peer}; why is not known: {why}"),
            });
        }
        Ok(())
    }

    /// From the recipient's side: its way begins at its sender's, if that is known.
    fn received(
        &self,
        owner: &str,
        entry: &LogEntry,
        lines: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        if entry.source != 0 {
            let sent = self.store.log_entries(&entry.peer, &[entry.source])?;
            for sent in sent {
                let at = sent.at.with_millis();
                let id = stanza_ids::id_of(sent.seq);
                let from = &entry.peer;
                lines.push(format!("{at}  accepted from {from} for {owner}, as {id}"));
            }
        }
        self.kept(owner, entry, lines)
    }

    /// What became of an entry in the log of who receives it.
    fn kept(
        &self,
        owner: &str,
        entry: &LogEntry,
        lines: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        let Some(state) = self.store.load_user(owner)? else {
            return self.kept_in_room(owner, entry, lines);
        };
        let (at, id) = (entry.at.with_millis(), stanza_ids::id_of(entry.seq));
        lines.push(format!("{at}  in the log of {owner}, as {id}"));
        let mut is_for_sessions = false;
        for (number, was_given) in crate::user::named_sessions(entry) {
            is_for_sessions = true;
            let record = state.sessions.find(number);
            let cursor = state.windows.as_deref();
            let cursor = cursor.and_then(|windows| windows.cursor(number));
            lines.push(match (record, cursor) {
                (Some(record), Some(cursor)) if cursor.acked >= entry.seq => {
                    format!("-  acknowledged by {owner}/{}", record.resource)
                }
                (Some(record), _) => {
                    let what = match was_given {
                        true => "given to",
                        false => "in the log for",
                    };
                    let resource = &record.resource;
                    format!("-  {what} {owner}/{resource}, not acknowledged as far as is recorded")
                }
                (None, _) => format!("-  for session {number}, which has ended"),
            });
        }
        let waits = entry.flags.has(EntryFlags::WAITING) && entry.seq > state.log.delivered_through;
        let requeued = state.windows.as_deref();
        let again = requeued.is_some_and(|windows| windows.requeued.contains(&entry.seq));
        if waits || again {
            lines.push(format!("-  waits for a session of {owner}"));
        } else if !is_for_sessions {
            lines.push(format!("-  given to sessions of {owner}"));
        }
        Ok(())
    }

    /// The entry that a recipient made of a message.
    fn taken_from(&self, owner: &str, entry: &LogEntry) -> Result<Found, StoreError> {
        let is_it = |theirs: &LogEntry| theirs.source == entry.seq && *theirs.peer == *owner;
        self.find(&entry.peer, 0, is_it)
    }

    /// The error that returned a message to its sender: the one that its origin names, and of a
    /// message without one the first that has its `id`, or none.
    fn returned(&self, owner: &str, entry: &LogEntry) -> Result<Found, StoreError> {
        let id_of = |frame: &[u8]| {
            let frame = Frame::parse(frame).ok()?;
            let is_error = frame.attr("type").as_deref() == Some("error");
            Some((is_error, frame.attr("id").map(|id| id.into_owned())))
        };
        let id = id_of(&entry.frame).and_then(|(_, id)| id);
        let is_it = |later: &LogEntry| {
            let is_named = match later.origin {
                0 => id_of(&later.frame) == Some((true, id.clone())),
                origin => origin == store::of_returned(entry.origin),
            };
            !later.flags.has(EntryFlags::SENT) && later.peer == entry.peer && is_named
        };
        self.find(owner, entry.seq, is_it)
    }

    /// The first entry of a log behind a place that is so.
    fn find(
        &self,
        user: &str,
        mut after: u64,
        is_it: impl Fn(&LogEntry) -> bool,
    ) -> Result<Found, StoreError> {
        let mut left = self.options.traced_max;
        while left > 0 {
            let wanted = PAGE.min(left);
            let page = self.store.log_read(user, after, wanted)?;
            let is_last = page.len() < wanted;
            left -= page.len();
            after = page.last().map_or(after, |last| last.seq);
            if let Some(found) = page.into_iter().find(&is_it) {
                return Ok(Found::It(Box::new(found)));
            }
            if is_last {
                return Ok(Found::Nothing);
            }
        }
        Ok(Found::NotSoFar)
    }
}
