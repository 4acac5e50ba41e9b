//! What a room makes durable: its records as those of the store and back, appends and what comes of
//! them. The room's machine changes when an append is committed and
//! not before, so one that is refused has changed nothing; after one of which nobody knows whether
//! it was done, the room is read again.

use actor::{Context, Mail, Name};
use delivery::Refusal;
use room::{Effect, Event, Listed, Message, Record, Room, State};
use stdx::Timestamp;
use store::{EntryFlags, LogEntry, Seq, StoreError};
use telemetry::Counter;

use super::intake::Taking;
use super::leaving::Out;
use super::retention::Grows;
use super::{Loaded, Phase, RoomActor, SEQS_PER_SECOND};
use crate::journal::Ticket;
use crate::message::{AppendError, UserMsg};

/// Parts of a room in the store. They are read in the order of their names, and what makes a room
/// comes first.
const CREATED: &str = "0";
const CONFIGURED: &str = "1";
const UNLOCKED: &str = "2";
const AFFILIATED: &str = "a";
const SUBJECT: &str = "s";

/// Whether an append was made after another one. Tickets wrap around.
fn is_after(ticket: Ticket, other: Ticket) -> bool {
    (ticket.0.wrapping_sub(other.0) as i32) > 0
}

/// What becomes of an append.
pub(super) enum For {
    /// The room may be read.
    Settled,
    /// The machine's next decision takes effect.
    Change,
    /// Nothing.
    Upkeep,
    /// There is no append: a message that is in no log keeps its place behind others.
    Nothing,
}

/// An append that is not decided, or waits for one in front of it that is not.
pub(super) struct Waiting {
    ticket: Ticket,
    what: For,
    taking: Option<Taking>,
    grows: Grows,
    result: Option<Result<(), AppendError>>,
}

impl Waiting {
    /// Everything of an earlier life is to be decided.
    pub(super) fn settled(ticket: Ticket) -> Waiting {
        Waiting {
            ticket,
            what: For::Settled,
            taking: None,
            grows: Grows::default(),
            result: None,
        }
    }
}

impl RoomActor {
    pub(super) fn next_ticket(&mut self) -> Ticket {
        self.last_ticket = self.home.journal.next_ticket();
        self.last_ticket
    }

    /// The last place of a sender's log that waits for its commit.
    pub(super) fn last_waiting_of(&self, from: &Name) -> Option<Seq> {
        let takings = self.waiting.iter().filter_map(|w| w.taking.as_ref());
        let own = takings.filter(|taking| taking.from == *from);
        own.map(|taking| taking.source.seq).max()
    }

    // ---- Reading -------------------------------------------------------------------------------

    /// The machine as the store has it.
    pub(super) fn recovered(&self, loaded: &Loaded, now: Timestamp) -> Result<Room, StoreError> {
        let options = std::sync::Arc::clone(&self.home.options.rooms.machine);
        let corrupt = |why: String| StoreError::Corrupt(format!("{}: {why}", self.name));
        let mut state = None;
        if let Some(stored) = &loaded.stored {
            let mut records = Vec::with_capacity(stored.parts.len() + stored.latest.len());
            for (part, value) in &stored.parts {
                let record = Record::decode(value);
                records.push(record.map_err(|error| corrupt(format!("part {part}: {error}")))?);
            }
            records.extend(stored.latest.iter().map(|entry| {
                Record::Message(Message {
                    seq: entry.seq,
                    at: entry.at.as_millis(),
                    sender: entry.peer.to_string(),
                    xml: entry.frame.to_vec(),
                })
            }));
            let mut read = State::of(records, &options.limits)
                .ok_or_else(|| corrupt("nothing says that it was made".to_owned()))?;
            read.next_seq = read.next_seq.max(loaded.next_seq);
            state = Some(read);
        }
        let seconds = u64::try_from(now.as_millis() / 1_000).unwrap_or_default();
        let first = loaded.next_seq.max(seconds * SEQS_PER_SECOND);
        Ok(Room::new(&self.name, state, options, loaded.secret, first))
    }

    // ---- Writing -------------------------------------------------------------------------------

    /// The records of the store for those of the machine.
    fn stored(&self, records: Vec<Record>, source: Seq) -> Vec<store::Record> {
        let user = || String::from(&*self.name);
        let part = |part: String, value: Vec<u8>| store::Record::RoomPut {
            user: user(),
            part,
            value,
        };
        let mut stored = Vec::with_capacity(records.len() + 1);
        stored.extend(self.made(&records));
        for record in records {
            let bytes = record.encode();
            stored.push(match record {
                Record::Created { .. } => part(CREATED.to_owned(), bytes),
                Record::Configured(_) => part(CONFIGURED.to_owned(), bytes),
                Record::Unlocked => part(UNLOCKED.to_owned(), bytes),
                Record::Affiliated(new) => {
                    let is_none = new.affiliation == room::Affiliation::None;
                    let value = if is_none { Vec::new() } else { bytes };
                    part(format!("{AFFILIATED}{}", new.address), value)
                }
                Record::Subject(_) => part(SUBJECT.to_owned(), bytes),
                // It was in the log once, before the room turned temporary: a number is used once.
                Record::Message(message) if message.seq < self.log.next_seq => continue,
                Record::Message(message) => store::Record::LogAppend {
                    user: (&*self.name).into(),
                    entry: LogEntry {
                        seq: message.seq,
                        at: Timestamp::from_millis(message.at),
                        peer: message.sender.into(),
                        flags: EntryFlags::ARCHIVED,
                        frame: message.xml.into(),
                        source,
                        ..LogEntry::default()
                    },
                },
                Record::Destroyed => store::Record::RoomRemove { user: user() },
            });
        }
        stored
    }

    /// What makes the room in the store, or changes what lists say about it.
    fn made(&self, records: &[Record]) -> Option<store::Record> {
        let state = self.room.as_ref().and_then(Room::state);
        let (mut config, mut is_locked) = match state {
            Some(state) => (Some(&state.config), state.is_locked),
            None => (None, true),
        };
        let before = state.map(State::listed);
        let mut is_new = false;
        for record in records {
            match record {
                Record::Created { .. } => (is_new, is_locked) = (true, true),
                Record::Configured(new) => config = Some(new),
                Record::Unlocked => is_locked = false,
                _ => {}
            }
        }
        let config = config?;
        let listed = Listed {
            name: config.name.clone(),
            is_public: config.is_public && !is_locked,
        };
        (is_new || before.as_ref() != Some(&listed)).then(|| store::Record::RoomMake {
            user: String::from(&*self.name),
            creator: self.creator.as_deref().unwrap_or_default().to_owned(),
            about: listed.encode(),
        })
    }

    pub(super) fn append(
        &mut self,
        records: Vec<store::Record>,
        (what, taking): (For, Option<Taking>),
        cx: &mut Context<'_, UserMsg>,
    ) {
        let ticket = self.next_ticket();
        let grows = Grows::of(&records);
        // Behind one that failed nothing may be done: its message comes again, in front of these.
        let has_failed = self
            .waiting
            .iter()
            .any(|w| matches!(w.result, Some(Err(_))));
        let handed_over = match has_failed {
            true => Err(AppendError::Busy),
            false => {
                let (range, journal) = (self.range(), &self.home.journal);
                journal.append(cx, range, self.tenure, records, ticket)
            }
        };
        self.waiting.push_back(Waiting {
            ticket,
            what,
            taking,
            grows,
            result: handed_over.err().map(Err),
        });
    }

    /// Performs what the machine wants. Whose stanza it is comes back, unless an append or a
    /// refusal has answered it, or will.
    pub(super) fn perform(
        &mut self,
        effects: Vec<Effect>,
        mut taking: Option<Taking>,
        cx: &mut Context<'_, UserMsg>,
    ) -> Option<Taking> {
        for effect in effects {
            match effect {
                Effect::Append(records) => {
                    let taking = taking.take();
                    let source = taking.as_ref().map_or(0, |taking| taking.source.seq);
                    let records = self.stored(records, source);
                    self.append(records, (For::Change, taking), cx);
                }
                Effect::Send { frame, to } => self.copies(frame, to, cx),
                Effect::Deliver(frame) => self.leaving.push(Out::One(frame)),
                Effect::Refuse { request, error } => match taking.take() {
                    Some(taking) => self.refuse(taking, Refusal::Final, Some(error), cx),
                    None => {
                        let reply = xmpp::error::reply(&request, &error);
                        self.leaving.extend(reply.map(Out::One));
                    }
                },
                Effect::Ended => self.creator = None,
            }
        }
        taking
    }

    /// A message was taken that nothing is appended for.
    pub(super) fn taken(&mut self, taking: Taking, cx: &mut Context<'_, UserMsg>) {
        if self.last_waiting_of(&taking.from).is_none() {
            self.learn(&taking);
            return self.confirm(taking, cx);
        }
        let ticket = self.next_ticket();
        self.waiting.push_back(Waiting {
            ticket,
            what: For::Nothing,
            taking: Some(taking),
            grows: Grows::default(),
            result: Some(Ok(())),
        });
    }

    // ---- Decisions -----------------------------------------------------------------------------

    /// An append was decided.
    pub(super) fn decided(
        &mut self,
        ticket: Ticket,
        result: Result<(), AppendError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if result.is_err() {
            self.home.journal.heard(cx.myself());
        }
        let found = self.waiting.iter_mut().find(|w| w.ticket == ticket);
        let Some(found) = found else { return };
        found.result = Some(result);
        self.conclude_decided(cx);
    }

    /// Appends that the journal did not take are decided without its word.
    pub(super) fn conclude_at_once(&mut self, cx: &mut Context<'_, UserMsg>) {
        while self
            .waiting
            .front()
            .is_some_and(|first| first.result.is_some())
        {
            self.conclude_decided(cx);
        }
    }

    /// Performs what is decided, in order.
    pub(super) fn conclude_decided(&mut self, cx: &mut Context<'_, UserMsg>) {
        while let Some(first) = self.waiting.pop_front_if(|first| first.result.is_some()) {
            let result = first.result.unwrap_or(Ok(()));
            if result.is_ok() {
                cx.stats().add(Counter::RoomMessages, first.grows.messages);
                self.log.grow(first.grows);
            }
            if !self.conclude(first.what, (first.ticket, first.taking), result, cx) {
                return;
            }
            if self.waiting.is_empty() {
                self.refused_through = None;
            }
        }
        if self.phase == Phase::Ready {
            self.give_parked(cx);
            self.look_at_retention(cx);
        }
        self.go_on(cx);
    }

    /// False if the room has to be read again.
    fn conclude(
        &mut self,
        what: For,
        (ticket, taking): (Ticket, Option<Taking>),
        result: Result<(), AppendError>,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        match (what, result) {
            (For::Settled, _) => self.load(cx),
            (For::Upkeep, Ok(())) => {}
            (For::Nothing, _) => {
                if let Some(taking) = taking {
                    if !self.may_be_refused(ticket) {
                        self.learn(&taking);
                    }
                    self.confirm(taking, cx);
                }
            }
            (For::Change, Ok(())) => self.committed(taking, cx),
            (_, Err(AppendError::Failed)) => return self.start_over(cx),
            (_, Err(AppendError::Fenced)) if !self.may_be_refused(ticket) => {
                return self.start_over(cx);
            }
            (For::Upkeep, Err(_)) => self.not_done(cx),
            (For::Change, Err(error)) => {
                if let Some(more) = self.home.failed_changes.borrow_mut().due(cx.now()) {
                    let room = &self.name;
                    tracing::warn!(%room, ?error, more, "a change could not be made durable");
                }
                self.not_done(cx);
                self.not_committed(taking, cx);
            }
        }
        true
    }

    /// Whether an append in front of this one was refused when this one was made already.
    fn may_be_refused(&self, ticket: Ticket) -> bool {
        let refused = self.refused_through;
        refused.is_some_and(|through| !is_after(ticket, through))
    }

    fn not_done(&mut self, cx: &mut Context<'_, UserMsg>) {
        cx.stats().count(Counter::ChangesFailed);
        self.refused_through = Some(self.last_ticket);
    }

    fn committed(&mut self, taking: Option<Taking>, cx: &mut Context<'_, UserMsg>) {
        let effects = self.decide(true, cx);
        if let Some(taking) = &taking {
            self.learn(taking);
        }
        // What it brings about is nobody's message.
        let (own, others): (Vec<_>, Vec<_>) = effects
            .into_iter()
            .partition(|effect| !matches!(effect, Effect::Append(_)));
        if let Some(taking) = self.perform(own, taking, cx) {
            self.confirm(taking, cx);
        }
        self.perform(others, None, cx);
    }

    /// It has not been done: a message of somebody's log comes again, others are told.
    fn not_committed(&mut self, taking: Option<Taking>, cx: &mut Context<'_, UserMsg>) {
        let mut effects = self.decide(false, cx);
        if let Some(taking) = taking {
            effects.retain(|effect| !matches!(effect, Effect::Refuse { .. }));
            self.refuse(taking, Refusal::Unreadable, None, cx);
        }
        self.perform(effects, None, cx);
    }

    fn decide(&mut self, is_committed: bool, cx: &mut Context<'_, UserMsg>) -> Vec<Effect> {
        let Some(room) = &mut self.room else {
            return Vec::new();
        };
        // Invariant: a decision is always taken.
        room.handle(Event::Decided { is_committed }, cx.wall())
            .unwrap_or_default()
    }

    /// Nobody knows whether an append survived, or another home has the range: the room begins
    /// anew with what the store has.
    fn start_over(&mut self, cx: &mut Context<'_, UserMsg>) -> bool {
        cx.stats().count(Counter::ChangesFailed);
        tracing::warn!(room = %self.name, "a change is in doubt: the room is read again");
        cx.stop_with(actor::Reason::Killed);
        false
    }
}
