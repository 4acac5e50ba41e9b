//! Messages that a user sends: accepted once they are in its own log, then handed over to their
//! recipients' homes (docs/delivery.md). The decisions are those of [`delivery::Outbox`]; this file
//! performs them: it reads the log, sends, and tells the user what comes back.

use actor::{Context, Mail, Name, Reply};
use delivery::{
    Accept, Attempt, Effect as Step, HandOver, Listed, Page, Place, ReadId, Reason, Recipients,
    Refusal,
};
use net::ConnRef;
use store::{Before, EntryFlags, LogEntry, LogHead, Seq, StoreError, Windows};
use telemetry::Counter;
use wire::NotTaken;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::barrier::{Effect, Origin};
use super::inbox::Sent;
use super::log::{Draft, frame_bytes};
use super::own::OwnMsg;
use super::session::Session;
use super::{Phase, User};
use crate::address;
use crate::home::Home;
use crate::message::{CameBack, Delivery, UserMsg};
use crate::modules::carbons::{self, Direction};
use crate::modules::hints::Keep;
use crate::modules::stanza_ids;

/// Destinations are named by the keyed hash of their address ([`store::SlotKey::peer`]).
pub(super) type Outbox = delivery::Outbox<u64, StanzaError>;

/// A read that the outbox asked for.
pub(crate) enum ToRead {
    /// A page of what is to be handed over.
    Page {
        id: ReadId,
        dest: Option<u64>,
        after: Place,
        limit: u32,
    },
    /// A message that comes back.
    Returning {
        dest: u64,
        place: Place,
        reason: Reason<StanzaError>,
    },
}

/// A page of messages that are to be handed over.
pub(crate) struct OutgoingPage {
    id: ReadId,
    /// The outbox that asked for it: the reads of another one have the same names.
    life: u64,
    /// The entries, and up to where the log was looked at.
    page: Result<(Vec<LogEntry>, Seq), StoreError>,
}

/// A message that comes back.
pub(crate) struct Returning {
    dest: u64,
    place: Place,
    reason: Reason<StanzaError>,
    entry: Result<Option<LogEntry>, StoreError>,
}

/// The outbox of a log as the store has it; `counts` are the entries that wait for each destination
/// that lags, and all that wait.
pub(super) fn recover(
    home: &Home,
    head: &LogHead,
    windows: &Windows,
    (counts, pending): (&[u32], u32),
) -> Outbox {
    let lagging = windows.lagging.iter().zip(counts);
    let lagging = lagging.map(|(own, count)| (own.peer, Place::new(own.mark), *count));
    let marks = (
        Place::new(head.forwarded),
        Place::new(head.last_outgoing.max(head.forwarded)),
    );
    let limits = home.options.delivery.outbox;
    let attempt = Attempt::of_life(home.next_life());
    Outbox::recover(limits, attempt, marks, pending, lagging)
}

/// What a sender is told of a message that comes back.
fn error_of(reason: Reason<StanzaError>) -> StanzaError {
    let timeout = || StanzaError::new(Condition::RemoteServerTimeout);
    match reason {
        Reason::Refused(error) => error,
        Reason::Expired {
            may_be_delivered: false,
        } => timeout().with_text("The recipient could not be reached; this was not delivered."),
        Reason::Expired {
            may_be_delivered: true,
        } => timeout().with_text("The recipient gave no answer; this may have been delivered."),
        Reason::Poison => StanzaError::new(Condition::InternalServerError)
            .with_text("The recipient's account failed whenever it was given this."),
        Reason::Dropped {
            may_be_delivered: false,
        } => timeout().with_text("An operator returned what waited; this was not delivered."),
        Reason::Dropped {
            may_be_delivered: true,
        } => timeout().with_text("An operator returned what waited; this may have been delivered."),
    }
}

impl User {
    // ---- Accepting -----------------------------------------------------------------------------

    /// Accepts a message of one of the user's sessions for `to`, an account of this server: it
    /// counts as accepted, and leaves, once it is durable here. `keep` says what it is worth, and
    /// whether it is archived here.
    pub(super) fn accept(
        &mut self,
        conn: ConnRef,
        to: &str,
        frame: Frame,
        keep: Keep,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let (bare, resource) = address::split(to);
        let peer = Name::from(bare);
        let origin = self.origin_of(&frame, bare);
        match self.sent_again(origin, cx) {
            None => {}
            Some(Before::Accepted) => return,
            Some(Before::CameBack) => return self.refuse_message(conn, &frame, &again(), cx),
        }
        let dest = self.home.place.slots().peer(bare);
        if let Some(error) = too_many(self.log().outbox.may_accept(dest)) {
            return self.refuse_message(conn, &frame, &error, cx);
        }
        if !self.may_store(frame.as_bytes().len(), cx) {
            return self.refuse_message(conn, &frame, &super::storage::full(), cx);
        }
        cx.stats().count(Counter::MessagesAccepted);
        let mut flags = EntryFlags::SENT.and(EntryFlags::OUTGOING);
        if keep.archive {
            flags = flags.and(EntryFlags::ARCHIVED);
        }
        let copies = match carbons::are_due(keep, &frame, Direction::Sent) {
            true => self.carbon_sessions(Some(conn)),
            false => Vec::new(),
        };
        let to = Recipients {
            is_for_account: false,
            ..self.recipients(None, &copies, cx)
        };
        let draft = Draft {
            peer: Name::clone(&peer),
            peer_hash: dest,
            flags,
            frame: frame_bytes(&frame),
            source: 0,
            origin,
        };
        let (seq, _, given) = self.append(draft, to, cx);
        self.log().outbox.accepted();
        // A copy that nobody acknowledges stays in the archive: it is nobody's incoming message.
        self.write_entry(
            (seq, &frame),
            &given,
            (Direction::Sent, |_: &Session| true),
            cx,
        );
        let mut delivery = Delivery::new(resource.map(Into::into), frame);
        delivery.source.seq = seq;
        let to = peer;
        self.emit(Effect::HandOver { to, dest, delivery }, cx);
        if let Some(link) = self.turn().link.take() {
            self.emit(Effect::CreditWhenTaken(link, seq), cx);
        }
    }

    /// What recognises a message that is sent again (XEP-0359); 0 without an origin-id.
    pub(super) fn origin_of(&self, frame: &Frame, to: &str) -> u64 {
        let id = stanza_ids::origin_id(frame);
        let slots = self.home.place.slots();
        id.map_or(0, |id| slots.origin(&self.name, to, &id))
    }

    /// What became of a message if it was sent before. If that was accepted, its session sees it
    /// acknowledged like any other, once its first copy is; if that is refused, this one is too.
    pub(super) fn sent_again(
        &mut self,
        origin: u64,
        cx: &mut Context<'_, UserMsg>,
    ) -> Option<Before> {
        let before = match origin {
            0 => None,
            origin => self.sent_before(origin, cx.wall()),
        };
        if before != Some(Before::Accepted) {
            return before;
        }
        cx.stats().count(Counter::MessagesRepeated);
        if let Origin::Session(again) = self.turn().origin.clone() {
            let (slots, own) = (self.home.place.slots(), &self.name);
            self.barrier.shares_fate(&again, |first| {
                let id = stanza_ids::origin_id(first);
                let to = first.attr("to");
                let to = to.as_deref().map_or(&**own, address::bare);
                id.is_some_and(|id| slots.origin(own, to, &id) == origin)
            });
        }
        before
    }

    // ---- Handing over --------------------------------------------------------------------------

    /// A message is durable: it is handed over now, or read from the log later.
    pub(super) fn hand_over_committed(
        &mut self,
        (to, dest): (Name, u64),
        delivery: Delivery,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let now = cx.now();
        let place = Place::new(delivery.source.seq);
        if let Some(over) = self.log().outbox.committed(place, dest, now) {
            self.hand_over(&to, delivery, over, cx);
        }
        self.work_on_outbox(cx);
    }

    fn hand_over(
        &mut self,
        to: &Name,
        mut delivery: Delivery,
        over: HandOver,
        cx: &mut Context<'_, UserMsg>,
    ) {
        delivery.source.after = over.after.number();
        delivery.source.attempt = over.attempt;
        self.send_over(to, delivery, cx);
    }

    /// A message did not reach its recipient's home, or waited here until there was one. It goes on
    /// if no later attempt was made since, nor any answer came that ends it.
    pub(super) fn came_back(&mut self, back: CameBack, cx: &mut Context<'_, UserMsg>) {
        let CameBack { to, stanza } = back;
        let dest = self.home.place.slots().peer(&to);
        let attempt = (Place::new(stanza.source.seq), stanza.source.attempt);
        let Some(log) = &self.log else { return };
        if log.outbox.is_latest(dest, attempt) {
            self.send_over(&to, stanza.into(), cx);
        }
    }

    fn send_over(&mut self, to: &Name, delivery: Delivery, cx: &mut Context<'_, UserMsg>) {
        let refused = self.home.pass_on(cx, to, delivery, true);
        if let Some(delivery) = refused {
            let by = self.home.place.slots().peer(to);
            let (source, why) = (delivery.source, Refusal::Full);
            let error = None;
            self.refused(
                NotTaken {
                    by,
                    source,
                    why,
                    error,
                },
                cx,
            );
        }
    }

    /// Asks for what the outbox wants read, and for time when it is due.
    pub(super) fn work_on_outbox(&mut self, cx: &mut Context<'_, UserMsg>) {
        // A read for which there is no room fails at once, and comes back here: the loop below goes
        // on with what follows, and not a call within a call for each of thousands.
        if std::mem::replace(&mut self.log().is_at_work, true) {
            return;
        }
        while let Some(step) = self.log().outbox.poll_effect() {
            let read = match step {
                Step::Read {
                    id,
                    dest,
                    after,
                    limit,
                } => ToRead::Page {
                    id,
                    dest,
                    after,
                    limit,
                },
                Step::Return {
                    dest,
                    place,
                    reason,
                } => ToRead::Returning {
                    dest,
                    place,
                    reason,
                },
            };
            // Behind the commits that are under way: only then the store has it all.
            self.emit(Effect::Outbox(Box::new(read)), cx);
        }
        self.log().is_at_work = false;
        self.repay_settled(cx);
        let now = cx.now();
        let outbox = &self.log().outbox;
        let waiting = || outbox.stuck(now).map(|stuck| stuck.pending).sum();
        let waiting = outbox.lags().then(waiting);
        self.home.queues.note(&self.name, waiting);
        if self.log().outbox.has_changes() {
            self.progress_is_due(cx);
        }
        let log = self.log();
        if let Some(due) = log.outbox.deadline()
            && log.outbox_due.is_none_or(|(armed, _)| due < armed)
        {
            // One at a time: a destination that is away has its deadline in an hour, and there
            // would be another one of those for each that comes sooner.
            if let Some((_, later)) = log.outbox_due.take() {
                cx.cancel(later);
            }
            let timer = cx.send_after(due.saturating_since(now), UserMsg::OutboxDue);
            self.log().outbox_due = Some((due, timer));
        }
    }

    /// An answer or a retry may be due.
    pub(super) fn outbox_is_due(&mut self, cx: &mut Context<'_, UserMsg>) {
        let now = cx.now();
        let Some(log) = &mut self.log else { return };
        // One that was taken back may have been on its way.
        if log.outbox_due.is_some_and(|(due, _)| due <= now) {
            log.outbox_due = None;
        }
        log.outbox.handle_timeout(now);
        self.work_on_outbox(cx);
    }

    /// Names the outbox: it is another one whenever the user has been read again.
    pub(super) fn outbox_life(&mut self) -> u64 {
        self.log().outbox.last_attempt().life()
    }

    /// Destinations that were away may be there again.
    pub(super) fn is_called(&mut self, reply: Reply<()>, cx: &mut Context<'_, UserMsg>) {
        if self.phase == Phase::Unreadable {
            return; // Without an answer he is called again.
        }
        if let Some(log) = &mut self.log {
            log.outbox.called();
            self.work_on_outbox(cx);
        }
        reply.send(cx, ());
    }

    pub(super) fn read_outgoing(&mut self, read: ToRead, cx: &mut Context<'_, UserMsg>) {
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let (tail, life) = (self.log().outbox.tail().number(), self.outbox_life());
        match read {
            ToRead::Page {
                id,
                dest,
                after,
                limit,
            } => {
                let places = (after.number(), tail);
                let job = move || {
                    let page = store.log_outgoing(&name, dest, places, limit as usize);
                    OutgoingPage { id, life, page }
                };
                let map = |page| OwnMsg::Outgoing(page).into();
                if cx.blocking(&self.home.reads, job, map).is_err() {
                    let page = Err(super::overloaded());
                    self.outgoing_read(OutgoingPage { id, life, page }, cx);
                }
            }
            ToRead::Returning {
                dest,
                place,
                reason,
            } => {
                let told = reason.clone();
                let places = (place.before().number(), place.number());
                let job = move || {
                    let page = store.log_outgoing(&name, Some(dest), places, 1);
                    let entry = page.map(|(entries, _)| entries.into_iter().next());
                    Returning {
                        dest,
                        place,
                        reason,
                        entry,
                    }
                };
                let map = |read| OwnMsg::Returning(read).into();
                if cx.blocking(&self.home.reads, job, map).is_err() {
                    let returning = Returning {
                        dest,
                        place,
                        reason: told,
                        entry: Err(super::overloaded()),
                    };
                    self.returning_read(returning, cx);
                }
            }
        }
    }

    pub(super) fn outgoing_read(&mut self, read: OutgoingPage, cx: &mut Context<'_, UserMsg>) {
        if read.life != self.outbox_life() {
            return; // The user was read again since, and so is what waits.
        }
        let (now, wall) = (cx.now(), cx.wall());
        let slots = self.home.place.slots();
        let page = match &read.page {
            Ok((entries, through)) => {
                let listed = entries.iter().map(|entry| Listed {
                    place: Place::new(entry.seq),
                    dest: slots.peer(&entry.peer),
                    at: entry.at,
                });
                Some(Page {
                    entries: listed.collect(),
                    through: Place::new(*through),
                })
            }
            Err(error) => {
                // Of a sender to thousands each read may fail.
                if let Some(more) = self.home.failed_reads.borrow_mut().due(now) {
                    tracing::warn!(
                        user = %self.name, %error, more,
                        "cannot read what is to be handed over"
                    );
                }
                None
            }
        };
        let outbox = &mut self.log().outbox;
        let over = outbox.handle_page(read.id, page.as_ref(), now, wall);
        let entries = read.page.map(|(entries, _)| entries).unwrap_or_default();
        for (at, over) in over {
            let entry = &entries[at];
            let Ok(frame) = Frame::parse(&*entry.frame) else {
                let (place, dest) = (Place::new(entry.seq), slots.peer(&entry.peer));
                let own = (place, over.attempt);
                let outbox = &mut self.log().outbox;
                outbox.handle_refused(dest, own, Refusal::Final, Some(damaged()), now);
                continue;
            };
            let to = frame.attr("to");
            let resource = to.and_then(|to| address::split(&to).1.map(Into::into));
            let mut delivery = Delivery::new(resource, frame);
            delivery.source.seq = entry.seq;
            self.hand_over(&entry.peer, delivery, over, cx);
        }
        self.work_on_outbox(cx);
    }

    // ---- Credit --------------------------------------------------------------------------------

    /// A message of a session is durable. Its credit comes back once its recipient's home has it,
    /// or it is left to the log, where it counts as one that waits.
    pub(super) fn credit_when_taken(
        &mut self,
        link: ConnRef,
        seq: Seq,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.log().owed.owe(link, seq);
        self.repay_settled(cx);
    }

    fn repay_settled(&mut self, cx: &mut Context<'_, UserMsg>) {
        let log = self.log();
        let mark = log.outbox.mark().number();
        while let Some((link, stanzas)) = self.log().owed.settle(mark) {
            // A connection that is gone needs no credit.
            let _ = self.home.io.credit(cx, link, stanzas);
        }
    }

    // ---- Answers -------------------------------------------------------------------------------

    /// The recipient's home has taken an entry over.
    pub(super) fn taken(&mut self, by: u64, seq: Seq, cx: &mut Context<'_, UserMsg>) {
        let now = cx.now();
        let Some(log) = &mut self.log else { return };
        log.outbox.handle_taken(by, Place::new(seq), now);
        self.may_trim(cx);
        self.work_on_outbox(cx);
    }

    /// A recipient's home did not take an entry.
    pub(super) fn refused(&mut self, answer: NotTaken, cx: &mut Context<'_, UserMsg>) {
        let now = cx.now();
        let Some(log) = &mut self.log else { return };
        let source = answer.source;
        cx.stats().count(Counter::ForwardsRetried);
        log.outbox.handle_refused(
            answer.by,
            (Place::new(source.seq), source.attempt),
            answer.why,
            answer.error,
            now,
        );
        self.work_on_outbox(cx);
    }

    // ---- Returning -----------------------------------------------------------------------------

    /// A message comes back: its sender is told by an entry of his own log, so that he is told
    /// whatever happens (docs/delivery.md, "What comes back").
    pub(super) fn returning_read(&mut self, read: Returning, cx: &mut Context<'_, UserMsg>) {
        let now = cx.now();
        let Returning {
            dest,
            place,
            reason,
            entry,
        } = read;
        if !self.log().outbox.still_returns(dest, place) {
            return;
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                if let Some(more) = self.home.failed_reads.borrow_mut().due(now) {
                    tracing::warn!(user = %self.name, %error, more, "cannot read what comes back");
                }
                self.log().outbox.return_failed(dest, place, now);
                return self.work_on_outbox(cx);
            }
        };
        self.log().outbox.returned(dest, place, now);
        cx.stats().count(Counter::MessagesReturned);
        let sent = Sent {
            place,
            origin: entry.as_ref().map_or(0, |entry| entry.origin),
        };
        let peer = entry.as_ref().map(|entry| Name::from(&*entry.peer));
        let frame = entry.and_then(|entry| Frame::parse(&*entry.frame).ok());
        let error = error_of(reason);
        let reply = frame.and_then(|frame| xmpp::error::reply(&frame, &error));
        let reply = reply.or_else(|| {
            let seq = place.number();
            tracing::error!(user = %self.name, seq, "a stored message is damaged");
            xmpp::error::reply(&nameless(&self.name, &peer?)?, &error)
        });
        if let Some(reply) = reply {
            self.receive_own_error(reply, Some(sent), cx);
        }
        // Takes the marks along if no entry did.
        self.save_progress(cx);
        self.emit(Effect::ReturnCommitted(dest), cx);
        self.may_trim(cx);
    }

    pub(super) fn return_committed(&mut self, dest: u64, cx: &mut Context<'_, UserMsg>) {
        self.log().outbox.return_committed(dest);
        self.work_on_outbox(cx);
    }
}

/// What the sender of a message is told that cannot be read any more.
fn damaged() -> StanzaError {
    StanzaError::new(Condition::InternalServerError)
        .with_text("A message that waited here is damaged; this was not delivered.")
}

/// A message of which only is known who sent it, and to whom. Bare addresses have no character that
/// is written in another way (RFC 7622 section 3.3.1).
fn nameless(from: &str, to: &str) -> Option<Frame> {
    Frame::parse(format!("<message type='chat' from='{from}' to='{to}'/>").as_bytes()).ok()
}

/// What the sender of a message is told that came back, and that he sends again: he may not have
/// had the error of the first time yet, so it is not a new one.
fn again() -> StanzaError {
    StanzaError::new(Condition::Conflict)
        .with_text("This message came back before; give it another origin-id to send it again.")
}

/// What the sender of a message is told that is not accepted.
fn too_many(accept: Accept) -> Option<StanzaError> {
    let text = match accept {
        Accept::Yes => return None,
        Accept::Full => "Too many messages wait to be handed on; try again later.",
        Accept::DestinationFull => {
            "Too many messages wait for this recipient, who cannot be reached; try again later."
        }
    };
    Some(StanzaError::new(Condition::ResourceConstraint).with_text(text))
}
