//! Messages that a user sends: accepted once they are in its own log, then handed to the
//! recipient's home, in order and until it has them (docs/delivery.md). The log is the queue; this
//! file knows how far it is, and reads it again when a recipient could not take something.

use std::collections::VecDeque;

use actor::{Context, Mail, Name};
use net::ConnRef;
use stdx::time::Moment;
use store::{EntryFlags, LogEntry, LogHead, Seq, StoreError};
use telemetry::Counter;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::barrier::Effect;
use super::log::{Draft, Recognised, frame_bytes};
use super::managed::{SHARED, What};
use super::{Phase, User};
use crate::address;
use crate::limits::{
    FORWARD_PAGE, FORWARD_RETRY, FORWARD_TIMEOUT, FORWARD_WINDOW, OUTBOX_ENTRIES_MAX,
};
use crate::message::{Delivery, Source, UserMsg};
use crate::modules::carbons::{self, Direction};
use crate::modules::{hints, stanza_ids};

/// How far the handing over is.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Handed over, or about to be, and not taken yet; by place.
    under_way: VecDeque<UnderWay>,
    /// Everything above this place is read from the log; `None` while entries are handed over as
    /// they are committed.
    behind: Option<Seq>,
    /// A page behind this place has been asked for.
    reading: Option<Seq>,
    /// A retry is on its way.
    is_waiting: bool,
    /// Since when the first one has been waited for.
    since: Option<Moment>,
    /// Messages accepted and not taken, as far as they were accepted since the user was loaded.
    waiting: u32,
    /// `forwarded` moved since it was recorded.
    moved: bool,
}

#[derive(Debug)]
struct UnderWay {
    seq: Seq,
    peer: u64,
    is_taken: bool,
}

impl Outbox {
    /// Nothing is under way, and everything is handed over.
    pub(super) fn is_done(&self) -> bool {
        self.under_way.is_empty() && self.behind.is_none()
    }

    /// Starts again behind the last entry that is known to have been taken.
    pub(super) fn restart(&mut self, head: &LogHead) {
        self.under_way.clear();
        self.since = None;
        self.behind = (head.last_outgoing > head.forwarded).then_some(head.forwarded);
    }

    pub(super) fn take_moved(&mut self, head: &LogHead) -> Seq {
        if std::mem::take(&mut self.moved) {
            head.forwarded
        } else {
            0
        }
    }

    /// The last entry for `peer` that may not have come.
    fn after(&self, peer: u64) -> Seq {
        let mut to_peer = self
            .under_way
            .iter()
            .rev()
            .filter(|entry| entry.peer == peer);
        to_peer
            .next()
            .filter(|entry| !entry.is_taken)
            .map_or(0, |entry| entry.seq)
    }

    /// Puts an entry under way and gives what its recipient needs to know of it.
    fn put(&mut self, seq: Seq, peer: u64, now: Moment) -> Source {
        let after = self.after(peer);
        self.since.get_or_insert(now);
        self.under_way.push_back(UnderWay {
            seq,
            peer,
            is_taken: false,
        });
        Source { seq, after }
    }

    fn taken(&mut self, seq: Seq, now: Moment, head: &mut LogHead) {
        if let Ok(at) = self.under_way.binary_search_by_key(&seq, |entry| entry.seq) {
            self.under_way[at].is_taken = true;
            self.waiting = self.waiting.saturating_sub(1);
        }
        while let Some(first) = self.under_way.front().filter(|first| first.is_taken) {
            head.forwarded = first.seq;
            self.moved = true;
            self.since = Some(now);
            self.under_way.pop_front();
        }
        if self.under_way.is_empty() {
            self.under_way = VecDeque::new();
            self.since = None;
        }
    }
}

impl User {
    /// Accepts a message of one of the user's sessions for `to`, an account of this server: it
    /// counts as accepted, and leaves, once it is durable here.
    pub(super) fn accept(
        &mut self,
        conn: ConnRef,
        to: &str,
        frame: Frame,
        is_archived: bool,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let (bare, resource) = address::split(to);
        let peer = Name::from(bare);
        let origin = self.origin_of(&frame, bare);
        if origin != 0 && self.was_sent_before(origin, cx.wall()) {
            // Its session sees it acknowledged like any other.
            return cx.stats().count(Counter::MessagesRepeated);
        }
        if self.log().outbox.waiting >= OUTBOX_ENTRIES_MAX {
            let error = StanzaError::new(Condition::ResourceConstraint)
                .with_text("Too many messages wait to be handed on; try again later.");
            return self.reply_error(conn, &frame, &error, cx);
        }
        cx.stats().count(Counter::MessagesAccepted);
        let mut flags = EntryFlags::SENT.and(EntryFlags::OUTGOING);
        if is_archived {
            flags = flags.and(EntryFlags::ARCHIVED);
        }
        let keep = hints::keep(&frame);
        let mut copies = match carbons::are_due(keep, &frame, Direction::Sent) {
            true => self.carbon_sessions(Some(conn)),
            false => Vec::new(),
        };
        // A device must not see what is newer before what waits for it.
        let must_wait = !copies.is_empty() && self.is_draining_soon();
        if must_wait {
            copies.clear();
            flags = flags.and(EntryFlags::WAITING);
        }
        let went_to = self.outbound_counts(&copies, cx);
        let seq = self.append(
            Draft {
                peer: Name::clone(&peer),
                flags,
                frame: frame_bytes(&frame),
                source: 0,
                origin,
                went_to,
            },
            cx,
        );
        // A copy that nobody acknowledges stays in the archive: it is nobody's incoming message.
        let what = What::Entry(seq | SHARED);
        self.leave_out_spilled(&mut copies);
        if !copies.is_empty() {
            let copied = stanza_ids::stamped(&frame, &self.name, seq).finish();
            self.write_copies(what, &copied, Direction::Sent, &copies, cx);
        }
        if must_wait {
            self.drain_inbox(cx);
        }
        let hash = self.home.place.slots().peer(bare);
        let (now, log) = (cx.now(), self.log());
        log.outbox.waiting += 1;
        if log.outbox.behind.is_some() {
            return;
        }
        if log.outbox.under_way.len() >= FORWARD_WINDOW {
            log.outbox.behind = Some(seq - 1);
            return;
        }
        let source = log.outbox.put(seq, hash, now);
        let delivery = Delivery {
            resource: resource.map(Into::into),
            frame,
            source,
        };
        self.forward_to(peer, delivery, true, cx);
    }

    /// What recognises a message that is sent again (XEP-0359); 0 without an origin-id.
    pub(super) fn origin_of(&self, frame: &Frame, to: &str) -> u64 {
        let id = stanza_ids::origin_id(frame);
        let slots = self.home.place.slots();
        id.map_or(0, |id| slots.origin(&self.name, to, &id))
    }

    /// Whether an entry still waits for its turn, just before it is handed over.
    pub(super) fn is_under_way(&self, seq: Seq) -> bool {
        self.log.as_ref().is_some_and(|log| {
            let under_way = &log.outbox.under_way;
            under_way
                .binary_search_by_key(&seq, |entry| entry.seq)
                .is_ok()
        })
    }

    /// The recipient's home has taken an entry over.
    pub(super) fn taken(&mut self, seq: Seq, cx: &mut Context<'_, UserMsg>) {
        let now = cx.now();
        let Some(log) = &mut self.log else { return };
        log.outbox.taken(seq, now, &mut log.head);
        let read_on = log.outbox.behind.is_some()
            && !log.outbox.is_waiting
            && log.outbox.under_way.len() <= FORWARD_WINDOW / 2;
        self.may_trim(cx);
        if read_on {
            self.read_outgoing_soon(cx);
        }
    }

    /// A recipient could not take an entry: after a while everything since then is handed over
    /// again, and what was taken meanwhile is recognised.
    pub(super) fn not_taken(&mut self, cx: &mut Context<'_, UserMsg>) {
        let Some(log) = &mut self.log else { return };
        log.outbox.restart(&log.head);
        if log.outbox.behind.is_some() && !std::mem::replace(&mut log.outbox.is_waiting, true) {
            cx.stats().count(Counter::ForwardsRetried);
            cx.send_after(FORWARD_RETRY, UserMsg::ForwardAgain);
        }
    }

    pub(super) fn forward_again(&mut self, cx: &mut Context<'_, UserMsg>) {
        let Some(log) = &mut self.log else { return };
        log.outbox.is_waiting = false;
        self.read_outgoing_soon(cx);
    }

    /// Gives up waiting for a recipient that has said nothing for too long.
    pub(super) fn look_at_outbox(&mut self, cx: &mut Context<'_, UserMsg>) {
        let now = cx.now();
        let Some(log) = &mut self.log else { return };
        if log.outbox.is_done() {
            return;
        }
        let since = log.outbox.since;
        if since.is_some_and(|since| now.saturating_since(since) >= FORWARD_TIMEOUT) {
            self.not_taken(cx);
        }
        self.progress_is_due(cx);
    }

    /// Reads on in the log, behind the commits that are under way.
    pub(super) fn read_outgoing_soon(&mut self, cx: &mut Context<'_, UserMsg>) {
        let outbox = &mut self.log().outbox;
        if outbox.reading.is_none() && outbox.behind.is_some() {
            outbox.reading = outbox.behind;
            self.emit(Effect::ReadOutgoing, cx);
        }
    }

    pub(super) fn read_outgoing(&mut self, cx: &mut Context<'_, UserMsg>) {
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let Some(after) = self.log().outbox.reading else {
            return;
        };
        let read = move || Box::new((after, store.log_read(&name, after, FORWARD_PAGE)));
        if cx
            .blocking(&self.home.reads, read, UserMsg::Outgoing)
            .is_err()
        {
            self.outgoing_read(after, Err(super::overloaded()), cx);
        }
    }

    pub(super) fn outgoing_read(
        &mut self,
        page_after: Seq,
        page: Result<Vec<LogEntry>, StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let now = cx.now();
        let asked = self.log().outbox.reading;
        if asked != Some(page_after) {
            return; // Asked for before the user was read again: it could leave entries out.
        }
        self.log().outbox.reading = None;
        let entries = match page {
            Ok(entries) => entries,
            Err(error) => {
                tracing::warn!(user = %self.name, %error, "cannot read what is to be handed on");
                return self.not_taken(cx);
            }
        };
        let Some(after) = self.log().outbox.behind else {
            return;
        };
        if asked != Some(after) {
            // Begun again while the store was read: this page does not follow on.
            return self.read_outgoing_soon(cx);
        }
        let is_last = entries.len() < FORWARD_PAGE;
        let through = entries.last().map_or(after, |last| last.seq);
        for entry in entries {
            if !entry.flags.has(EntryFlags::OUTGOING) {
                continue;
            }
            let Ok(frame) = Frame::parse(&*entry.frame) else {
                tracing::error!(user = %self.name, seq = entry.seq, "a stored message is damaged");
                continue;
            };
            let peer = self.home.place.slots().peer(&entry.peer);
            let source = self.log().outbox.put(entry.seq, peer, now);
            let resource = frame
                .attr("to")
                .and_then(|to| address::split(&to).1.map(Into::into));
            let delivery = Delivery {
                resource,
                frame,
                source,
            };
            self.forward_to(entry.peer, delivery, true, cx);
        }
        let log = self.log();
        let is_caught_up = is_last && log.head.last_outgoing <= through;
        log.outbox.behind = (!is_caught_up).then_some(through);
        if !is_caught_up && log.outbox.under_way.len() <= FORWARD_WINDOW / 2 {
            self.read_outgoing_soon(cx);
        }
        self.progress_is_due(cx);
    }

    // ---- At the recipient's home ---------------------------------------------------------------

    /// Whether a message that another home hands over is to be delivered now. If not, its sender's
    /// home is told why.
    pub(super) fn is_next(
        &mut self,
        from: &Name,
        source: Source,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        let peer = self.home.place.slots().peer(from);
        let recognised = match &self.log {
            // Nobody knows what has come from there already.
            _ if self.phase == Phase::Unreadable => Recognised::Early,
            Some(log) => log.recognise(peer, source.seq, source.after),
            None if source.after == 0 => Recognised::New,
            None => Recognised::Early,
        };
        match recognised {
            Recognised::New => return true,
            Recognised::Again => {
                cx.stats().count(Counter::MessagesRepeated);
                self.confirm(from, source.seq, cx);
            }
            Recognised::Early => {
                let to = Name::clone(from);
                self.emit(Effect::NotTaken { to }, cx);
            }
        }
        false
    }

    /// Tells the sender's home that a message need not be kept for this user any more, once that
    /// is durable.
    pub(super) fn confirm(&mut self, to: &Name, seq: Seq, cx: &mut Context<'_, UserMsg>) {
        let to = Name::clone(to);
        self.emit(Effect::Taken { to, seq }, cx);
    }
}
