//! Messages that a user receives: who is shown them, which of them go into the log, and those that
//! wait because nobody can be shown them right now (XEP-0160). What waits leaves the log in order,
//! before anything newer.

use actor::{Context, Mail, Name};
use net::ConnRef;
use store::{EntryFlags, LogEntry, Record, Store, StoreError};
use telemetry::Counter;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::User;
use super::barrier::Effect;
use super::copies::ADDRESSED;
use super::log::{Draft, Log, frame_bytes};
use super::managed::{SHARED, What};
use super::session::Session;
use super::spill::{Estate, Holders, SpillPage};
use crate::address;
use crate::message::{Delivery, UserMsg};
use crate::modules::carbons::{self, Direction};
use crate::modules::{hints, stanza_ids};
use crate::options::DeliveryLimits;

/// A page of messages that wait.
pub struct WaitingPage {
    /// Places of those that a session was given before and did not acknowledge.
    asked: Vec<u64>,
    /// Those of them that are there.
    again: Vec<LogEntry>,
    /// What follows in the log, waiting or not.
    entries: Vec<LogEntry>,
    /// In place of that, what a session that ended was to get from the log.
    estate: Option<(Estate, SpillPage)>,
    /// The log was read, and there is nothing in it.
    is_end: bool,
    /// The place that the next entry would have got when the page was asked for.
    next_seq: u64,
}

impl WaitingPage {
    /// Reads those in `requeued`, and once those are all, what `estate` says or else the log behind
    /// `after`.
    fn read(
        store: &Store,
        user: &str,
        mut requeued: Vec<u64>,
        (after, next_seq): (u64, u64),
        estate: Option<Estate>,
        limits: &DeliveryLimits,
    ) -> Result<Self, StoreError> {
        let again_max = limits.page_entries.div_ceil(2);
        let is_all = requeued.len() <= again_max;
        requeued.truncate(again_max);
        let mut page = WaitingPage {
            again: store.log_entries(user, &requeued)?,
            asked: requeued,
            entries: Vec::new(),
            estate: None,
            is_end: false,
            next_seq,
        };
        let room = limits.page_entries - page.again.len();
        if !is_all || room == 0 {
            return Ok(page);
        }
        if let Some(estate) = estate {
            let read = SpillPage::read_estate(store, user, (&estate, next_seq), limits)?;
            page.estate = Some((estate, read));
        } else {
            page.entries = store.log_read(user, after, room)?;
            page.is_end = page.entries.is_empty();
        }
        Ok(page)
    }
}

impl User {
    /// A chat or normal message, for the session that holds its resource or for the account as a
    /// whole (RFC 6121 sections 8.5.2.1.1, 8.5.2.2.1 and 8.5.3.1).
    ///
    /// # Errors
    /// What its sender is told if there is no room for it.
    pub(super) fn receive(
        &mut self,
        delivery: Delivery,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), StanzaError> {
        self.receive_as(delivery, false, cx)
    }

    /// The error that returns a message of this user: for the session that sent it if that is
    /// there, else for the account. It is kept until somebody has it, whatever waits.
    pub(super) fn receive_own_error(&mut self, error: Frame, cx: &mut Context<'_, UserMsg>) {
        let to = error.attr("to").unwrap_or_default();
        let resource = address::split(&to).1.map(Into::into);
        let refused = self.receive_as(Delivery::new(resource, error.clone()), true, cx);
        debug_assert!(refused.is_ok(), "there is always room for an own error");
    }

    fn receive_as(
        &mut self,
        delivery: Delivery,
        must_keep: bool,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), StanzaError> {
        let Delivery {
            resource,
            frame,
            source,
            ..
        } = delivery;
        let addressed = resource
            .and_then(|resource| self.session_of(&resource))
            .map(|session| session.conn);
        // What waits goes first: order is kept between a sender and a recipient.
        let in_order = !self.has_waiting();
        let has_taker = in_order && self.sessions.iter().any(Session::takes_messages);
        let is_waiting = match addressed {
            // It waits its turn, if that comes by itself.
            Some(_) => self.is_draining_soon(),
            None => !has_taker,
        };
        let keep = hints::keep(&frame);
        let from = frame
            .attr("from")
            .map(|from| Name::from(address::bare(&from)));
        let from = from.unwrap_or_default();
        // What somebody else sent was recognised at their home.
        let origin = if from == self.name {
            self.origin_of(&frame, &from)
        } else {
            0
        };
        if origin != 0 && self.was_sent_before(origin, cx.wall()) {
            cx.stats().count(Counter::MessagesRepeated);
            return Ok(());
        }
        let is_archived = keep.archive && self.archives(&from);
        let is_logged = must_keep
            || keep.log
                && (is_waiting
                    || is_archived
                    || source.seq != 0
                    || self.sessions.iter().any(|s| s.managed.is_some()));
        let mut shown: Vec<ConnRef> = match addressed {
            _ if is_waiting => Vec::new(),
            Some(conn) => vec![conn],
            None if in_order => self.takers().collect(),
            None => Vec::new(),
        };
        // What waits is shown to everybody when its time has come.
        let are_due = !is_waiting && carbons::are_due(keep, &frame, Direction::Received);
        let mut copies = match are_due {
            true => self.carbon_sessions(None),
            false => Vec::new(),
        };
        copies.retain(|conn| !shown.contains(conn));
        if !is_logged {
            self.show(What::Other, &frame, &shown, &copies, cx);
            return Ok(());
        }
        if is_waiting && !must_keep && !self.has_room_for(&frame) {
            cx.stats().count(Counter::MessagesRefused);
            return Err(StanzaError::new(Condition::ResourceConstraint)
                .with_text("The recipient's inbox is full; try again later."));
        }
        if !must_keep && !self.may_store(frame.as_bytes().len(), cx) {
            return Err(super::storage::full());
        }
        let mut flags = EntryFlags::default();
        if is_archived {
            flags = flags.and(EntryFlags::ARCHIVED);
        }
        if is_waiting {
            cx.stats().count(Counter::MessagesKept);
            flags = flags.and(EntryFlags::WAITING);
        }
        if addressed.is_some() {
            flags = flags.and(ADDRESSED);
        }
        let frame = stanza_ids::without_claims(frame, &self.name);
        let mut went_to = self.outbound_counts(&shown, cx);
        went_to.extend(self.outbound_counts(&copies, cx));
        self.note_anybody(&mut went_to, &[&shown, &copies]);
        let seq = self.append(
            Draft {
                peer: from,
                flags,
                frame: frame_bytes(&frame),
                source: source.seq,
                origin,
                went_to,
            },
            cx,
        );
        let stamped = stanza_ids::stamped(&frame, &self.name, seq);
        let marked = self.share(seq, &[&shown, &copies], |session| session.is_spilled());
        self.leave_out_spilled(&mut shown);
        self.leave_out_spilled(&mut copies);
        for &conn in &shown {
            cx.stats().count(Counter::MessagesOut);
            self.write(conn, What::Entry(marked), cx, |out| stamped.write(out));
        }
        if !copies.is_empty() {
            let (what, frame) = (What::Entry(marked), stamped.finish());
            self.write_copies(what, &frame, Direction::Received, &copies, cx);
        }
        if is_waiting && self.sessions.iter().any(Session::takes_messages) {
            self.drain_inbox(cx);
        }
        Ok(())
    }

    /// Sessions that take messages for the account.
    fn takers(&self) -> impl Iterator<Item = ConnRef> {
        let takers = self
            .sessions
            .iter()
            .filter(|session| session.takes_messages());
        takers.map(|session| session.conn)
    }

    fn show(
        &mut self,
        what: What,
        frame: &Frame,
        shown: &[ConnRef],
        copies: &[ConnRef],
        cx: &mut Context<'_, UserMsg>,
    ) {
        for &conn in shown {
            if what == What::Other && self.hold(conn, frame) {
                continue;
            }
            cx.stats().count(Counter::MessagesOut);
            self.write(conn, what, cx, |out| {
                out.extend_from_slice(frame.as_bytes());
            });
        }
        self.write_copies(what, frame, Direction::Received, copies, cx);
    }

    /// Marks an entry that more than one session is given, now or from the log: it waits again only
    /// if all of them end without having acknowledged it.
    fn share(
        &mut self,
        seq: u64,
        given: &[&[ConnRef]],
        is_left_to_log: impl Fn(&Session) -> bool,
    ) -> u64 {
        let all: usize = given.iter().map(|conns| conns.len()).sum();
        if all < 2 {
            return seq;
        }
        let mut holders = Holders::default();
        let managed = self.sessions.iter().filter(|s| s.managed.is_some());
        for session in managed.filter(|s| given.iter().any(|conns| conns.contains(&s.conn))) {
            if is_left_to_log(session) {
                holders.spilled += 1;
            } else {
                holders.kept += 1;
            }
        }
        // To a client without stream management, written is delivered.
        let is_all = usize::from(holders.kept) + usize::from(holders.spilled) == all;
        if is_all && holders.kept > 0 {
            self.log().shared.insert(seq, holders);
        }
        seq | SHARED
    }

    fn has_waiting(&self) -> bool {
        self.log
            .as_ref()
            .is_some_and(|log| log.has_waiting() || log.is_draining)
    }

    /// Whether messages wait and there is somebody to show them to, at once or when it is known
    /// what that one has already.
    pub(super) fn is_draining_soon(&self) -> bool {
        self.has_waiting() && self.sessions.iter().any(Session::takes_messages)
    }

    fn has_room_for(&self, frame: &Frame) -> bool {
        let limits = self.home.limits();
        let (count, bytes) = self.waiting();
        count < u64::from(limits.offline_messages_max)
            && bytes + frame.as_bytes().len() as u64 <= limits.offline_bytes_max
    }

    /// Whether somebody can be given what waits. A client that acknowledges is given no more than
    /// it can follow, and holds nobody back who can follow; nor is anything kept for those without
    /// a link while the others are all behind.
    fn can_give_waiting(&self) -> bool {
        let mut there = self.sessions.iter().filter(|s| s.link().is_some());
        if there.any(Session::takes_messages) {
            self.has_follower() && !self.has_full_list()
        } else {
            self.sessions.iter().any(Session::takes_waiting) && self.has_room_to_requeue()
        }
    }

    /// Whether a session with a link can be given what waits.
    fn has_follower(&self) -> bool {
        let pause = self.unacked_pause();
        let mut takers = self.sessions.iter().filter(|s| s.takes_waiting());
        takers.any(|session| session.link().is_some() && !session.is_behind(pause))
    }

    /// Reads the next page of messages that wait, if there are any and somebody to show them to.
    pub(super) fn drain_inbox(&mut self, cx: &mut Context<'_, UserMsg>) {
        let is_due = |log: &Log| !log.is_draining && !log.is_put_off && log.has_waiting();
        if !self.log.as_deref().is_some_and(is_due) || !self.can_give_waiting() {
            return;
        }
        let log = self.log();
        log.is_draining = true;
        log.drain_through = log.head.next_seq;
        // Behind the commits that are under way: only then the store has it all.
        self.emit(Effect::ReadPage, cx);
    }

    pub(super) fn read_page(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.is_being_read() {
            return; // Then it is asked for anew.
        }
        let failures = self.failures;
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let log = self.log();
        let requeued = log.windows.requeued.clone();
        let places = (log.head.delivered_through, log.drain_through);
        let estate = log.estates.first().cloned();
        let limits = *self.home.bounds();
        let read = move || {
            let page = WaitingPage::read(&store, &name, requeued, places, estate, &limits);
            Box::new((failures, page))
        };
        if cx.blocking(&self.home.reads, read, UserMsg::Page).is_err() {
            self.page_read(failures, Err(super::overloaded()), cx);
        }
    }

    pub(super) fn page_read(
        &mut self,
        failures: u32,
        page: Result<WaitingPage, StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if failures != self.failures {
            return; // The user was read since, and another page was asked for in its place.
        }
        self.log().is_draining = false;
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                // They stay where they are.
                tracing::warn!(user = %self.name, %error, "cannot read waiting messages");
                return self.read_again_later(cx);
            }
        };
        self.log().reads_failed = 0;
        if !self.sessions.iter().any(Session::takes_waiting) {
            return;
        }
        let log = self.log();
        let requeued = &mut log.windows.requeued;
        requeued.retain(|seq| !page.asked.contains(seq));
        let is_last = page.is_end && requeued.is_empty() && page.next_seq == log.head.next_seq;
        let through = page.entries.last().map(|last| last.seq);
        log.head.delivered_through = through.unwrap_or(log.head.delivered_through);
        let waiting = page.entries.into_iter();
        let waiting = waiting.filter(|entry| entry.flags.has(EntryFlags::WAITING));
        let mut waiting: Vec<LogEntry> = page.again.into_iter().chain(waiting).collect();
        if stdx::bugs::is("reorder") {
            waiting.reverse();
        }
        let head = &mut log.head;
        for entry in &waiting {
            head.waiting_count = head.waiting_count.saturating_sub(1);
            let bytes = entry.frame.len() as u64;
            head.waiting_bytes = head.waiting_bytes.saturating_sub(bytes);
        }
        if is_last {
            head.waiting_count = 0;
            head.waiting_bytes = 0;
        }
        self.record_delivered();
        let is_held_by_fewer = page.estate.is_some();
        if let Some((estate, page)) = page.estate {
            waiting.extend(self.inherit(&estate, page));
        }
        if !waiting.is_empty() && self.has_follower() {
            self.spill_those_behind(cx);
        }
        let takers: Vec<ConnRef> = self.takers().collect();
        for entry in &waiting {
            if let Some(frame) = self.entry_frame(entry, true) {
                self.show_late(entry, &frame, &takers, cx);
            }
        }
        if !waiting.is_empty() || is_held_by_fewer {
            self.record_all_numbered();
        }
        self.drain_inbox(cx);
    }

    /// Shows a message that waited: to the session that it is for, with copies for others, or to
    /// all that take messages.
    fn show_late(
        &mut self,
        entry: &LogEntry,
        frame: &Frame,
        takers: &[ConnRef],
        cx: &mut Context<'_, UserMsg>,
    ) {
        if entry.flags.has(EntryFlags::SENT) {
            let from = frame.attr("from").unwrap_or_default();
            let sender = self.sessions.iter().find(|session| *session.full == *from);
            let mut copies = self.carbon_sessions(sender.map(|session| session.conn));
            self.keep_late(entry.seq | SHARED, &mut copies, cx);
            let what = What::Entry(entry.seq | SHARED);
            return self.write_copies(what, frame, Direction::Sent, &copies, cx);
        }
        let to = frame.attr("to").unwrap_or_default();
        let resource = address::split(&to).1.filter(|_| entry.flags.has(ADDRESSED));
        let session = resource.and_then(|resource| self.session_of(resource));
        let session = session.map(|session| session.conn);
        let (mut shown, mut copies) = match session {
            None => (takers.to_vec(), Vec::new()),
            Some(conn) if carbons::are_due(hints::keep(frame), frame, Direction::Received) => {
                (vec![conn], self.carbon_sessions(Some(conn)))
            }
            Some(conn) => (vec![conn], Vec::new()),
        };
        let marked = self.share(entry.seq, &[&shown, &copies], |_| false);
        self.keep_late(marked, &mut shown, cx);
        self.keep_late(marked, &mut copies, cx);
        self.show(What::Entry(marked), frame, &shown, &copies, cx);
    }

    /// Records where delivery stands.
    pub(super) fn record_delivered(&mut self) {
        let log = self.log();
        let delivered = store::Delivered {
            through: log.head.delivered_through,
            requeued: log.windows.requeued.clone(),
            waiting_count: log.head.waiting_count,
            waiting_bytes: log.head.waiting_bytes,
        };
        self.record(Record::LogDelivered {
            user: String::from(&*self.name),
            delivered,
        });
    }
}
