//! The machine: what comes in, what goes out, and the order of both. What each stanza means is in
//! the files named after the part of XEP-0045 that they implement.
//!
//! | state | event | what happens |
//! |---|---|---|
//! | nothing pending | anything | decided at once; a change of what is durable is *pending* |
//! | messages pending | message to all | decided, pending behind them |
//! | anything pending | anything else | the event is given back: the room is busy |
//! | pending | decided | the change is applied, and what depends on it leaves, in order |
//! | pending | refused | nothing has changed; its sender gets an error |

use std::collections::VecDeque;
use std::sync::Arc;

use stdx::Timestamp;
use xml::Frame;
use xmpp::addr;
use xmpp::error::{Condition, StanzaError};
use xmpp::stanza::{IqType, Kind, MessageType, PresenceType, parse_kind};

use crate::affiliation::Affiliation;
use crate::broadcast::Tell;
use crate::config::Config;
use crate::enter::NS_MUC;
use crate::limits::{Budget, RoomLimits};
use crate::occupants::{Audience, Key, Managed, Occupants};
use crate::present::Traces;
use crate::record::{Message, Record};
use crate::state::{State, apply};

/// Something that happens to a room.
#[derive(Clone, Debug)]
pub enum Event {
    /// A stanza to the room or to an occupant, `from` a real address and `to` in normal form.
    Stanza {
        /// The stanza.
        frame: Frame,
        /// Its sender may make a room at this address if there is none.
        may_create: bool,
        /// If the sender's session may outlive its connection (XEP-0198), its number at its home.
        managed: Option<u32>,
        /// The message that [`Room::names`] asked for, if the log has it.
        named: Option<Box<Message>>,
    },
    /// The client of a managed session has missed presence, and believes to be here.
    Back {
        /// The real full address.
        address: Arc<str>,
        /// The session's number at its home.
        number: u32,
        /// The nick that the client believes to have.
        nick: String,
    },
    /// The home of a managed session of an earlier life of this room says that it is there.
    Confirmed {
        /// The real full address.
        address: Arc<str>,
    },
    /// A session is gone without having said so.
    Gone {
        /// The real full address.
        address: Arc<str>,
    },
    /// The first append that was not decided yet has been.
    Decided {
        /// It is durable. Otherwise it is certain that it never will be.
        is_committed: bool,
    },
    /// A room that nobody is in ends, if it was to and could not ([`Room::is_to_end`]).
    End,
    /// The service ends: everybody is told (status 332).
    Shutdown,
    /// An operator erases messages of the log.
    Erase {
        /// As the log has them.
        messages: Vec<Message>,
    },
    /// An operator removes the room.
    Destroy {
        /// Why, for those who are there.
        reason: Option<String>,
    },
}

/// What a room wants to be done, in this order.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Make these records durable together, and answer with [`Event::Decided`].
    Append(Vec<Record>),
    /// Make durable who is there, by the names of its parts; an empty part is removed. Whatever
    /// leaves behind this waits until that is done: nobody is told what a restart may take back.
    Keep(Vec<(String, Vec<u8>)>),
    /// The home of a managed session is told from where on the log is owed to it; `None` if it is
    /// not any more.
    Here {
        /// The real full address.
        address: Arc<str>,
        /// The session's number at its home.
        number: u32,
        /// Behind this place.
        since: Option<u64>,
        /// The session has just entered: nothing was said since.
        is_new: bool,
    },
    /// Write one frame to many: it has no `to`, each copy gets its own.
    Send {
        /// The frame.
        frame: Frame,
        /// Who gets it.
        to: Audience,
        /// Where it is in the room's log, if it is there.
        placed: Option<Placed>,
    },
    /// Ask the homes of the sessions of [`Room::unconfirmed`] whether these are there.
    Ask,
    /// Deliver a stanza that has its `to`.
    Deliver(Frame),
    /// The same to a managed session of that number alone: not to a later one of its name, which
    /// would take for its own what became of this one.
    Tell {
        /// The stanza.
        frame: Frame,
        /// The session's number at its home.
        number: u32,
    },
    /// Tell the sender of a stanza that it was refused: by an error, if the stanza may be answered
    /// with one ([`xmpp::error::reply`]).
    Refuse {
        /// The stanza.
        request: Frame,
        /// Why.
        error: StanzaError,
    },
    /// These accounts are delivered to as members from now on, whether they are there or not.
    Members(Vec<String>),
    /// Nobody is there and nothing is left of the room.
    Ended,
}

/// Where a message is in the room's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its place.
    pub place: u64,
    /// The place of the one in front of it, or one behind that.
    pub after: u64,
}

/// What a room is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Every bound.
    pub limits: RoomLimits,
    /// The configuration of a new room.
    pub defaults: Config,
    /// New rooms are closed to others until their creator has configured them.
    pub locks_new: bool,
    /// What is said in persistent rooms can be read from an archive (XEP-0313).
    pub has_archive: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            limits: RoomLimits::default(),
            defaults: Config::default(),
            locks_new: true,
            has_archive: true,
        }
    }
}

type Then = Box<dyn FnOnce(&mut Room, Timestamp) + Send>;

/// A decision whose effects wait.
struct Pending {
    /// Empty for what needs no record but may not overtake.
    records: Vec<Record>,
    /// Whom to tell if the append fails.
    request: Frame,
    is_message: bool,
    then: Then,
}

/// One room.
pub struct Room {
    pub(crate) address: Arc<str>,
    pub(crate) options: Arc<Options>,
    pub(crate) state: Option<State>,
    /// That of a room that ends, until that is durable.
    pub(crate) ending: Option<Box<State>>,
    /// It was to end, and that was refused, or did not come to pass before a restart.
    pub(crate) owes_end: bool,
    pub(crate) occupants: Occupants,
    /// What the next room at this address is made with.
    pub(crate) secret: [u8; 16],
    pub(crate) next_seq: u64,
    /// The place of the last message that all were sent, whether the log is durable yet or not.
    pub(crate) told: u64,
    pub(crate) traces: Traces,
    pending: VecDeque<Pending>,
    pub(crate) invitations: Budget,
    pub(crate) declines: Budget,
    pub(crate) voice: Budget,
    pub(crate) approvals: Budget,
    /// That of the sender of the stanza that is handled.
    pub(crate) managed: Managed,
    /// The message of the log that it is about, if that is not in memory.
    pub(crate) named: Option<Box<Message>>,
    /// Commands that were begun.
    pub(crate) commands: u64,
    pub(crate) empty: Frame,
    /// Presences that many have are kept once: those seen last.
    recent: VecDeque<Frame>,
    pub(crate) effects: Vec<Effect>,
    #[cfg(test)]
    pub(crate) bug: Option<crate::bugs::Bug>,
}

/// Presences that are compared with a new one.
const RECENT_MAX: usize = 16;

impl Room {
    /// The room at a bare address, as the store has it: `None` if there is none. Nobody is there.
    /// `secret` is random; a room that is made anew makes occupant ids with it. `first` is above
    /// every number that messages at this address ever had.
    pub fn new(
        address: &str,
        state: Option<State>,
        options: Arc<Options>,
        secret: [u8; 16],
        first: u64,
    ) -> Room {
        let next_seq = state.as_ref().map_or(first.max(1), |state| state.next_seq);
        Room {
            address: address.into(),
            options,
            state,
            ending: None,
            owes_end: false,
            occupants: Occupants::default(),
            secret,
            next_seq,
            told: next_seq - 1,
            traces: Traces::default(),
            pending: VecDeque::new(),
            invitations: Budget::default(),
            declines: Budget::default(),
            voice: Budget::default(),
            approvals: Budget::default(),
            managed: Managed::default(),
            named: None,
            commands: 0,
            // Invariant: a constant that is well-formed.
            empty: Frame::parse("<presence/>").expect("an empty element parses"),
            recent: VecDeque::new(),
            effects: Vec::new(),
            #[cfg(test)]
            bug: None,
        }
    }

    /// Takes an event and returns what is to be done.
    ///
    /// # Errors
    /// The event comes back if the room is busy: give it again after the next
    /// [`Event::Decided`], in front of everything that came later.
    pub fn handle(&mut self, event: Event, now: Timestamp) -> Result<Vec<Effect>, Event> {
        if !self.takes(&event) {
            return Err(event);
        }
        let is_after_failure = matches!(
            event,
            Event::Decided {
                is_committed: false
            }
        );
        match event {
            Event::Stanza {
                frame,
                may_create,
                managed,
                named,
            } => {
                (self.managed, self.named) = (Managed::of(managed), named);
                self.stanza(&frame, may_create, now);
                self.named = None;
            }
            Event::Back {
                address,
                number,
                nick,
            } => self.back(&address, (number, &nick), now),
            Event::Confirmed { address } => self.confirmed(&address),
            Event::Gone { address } => self.gone(&address),
            Event::Decided { is_committed } => self.decided(is_committed, now),
            Event::End => self.end_if_empty(),
            Event::Shutdown => self.shut_down(),
            Event::Erase { messages } => self.erase(&messages, now),
            Event::Destroy { reason } => self.destroy_for(reason.as_deref(), now),
        }
        if !is_after_failure {
            self.unfollow(now);
        }
        self.keep(now);
        Ok(std::mem::take(&mut self.effects))
    }

    /// A change is not decided yet.
    pub fn is_busy(&self) -> bool {
        !self.pending.is_empty()
    }

    fn takes(&self, event: &Event) -> bool {
        if !self.is_busy() {
            return true;
        }
        match event {
            Event::Decided { .. } | Event::Confirmed { .. } => true,
            // The room may have to be brought into the store for it.
            Event::Back { address, .. } => !self.is_there_uncounted(address),
            Event::Stanza { frame, .. } => {
                self.pending.len() < self.options.limits.pending_max
                    && is_plain_message(frame)
                    && self.pending.iter().all(|pending| pending.is_message)
            }
            Event::Gone { .. }
            | Event::End
            | Event::Shutdown
            | Event::Erase { .. }
            | Event::Destroy { .. } => false,
        }
    }

    /// The room's bare address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its durable state; `None` while there is no room.
    pub fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    /// Occupants, each nick once.
    pub fn occupants(&self) -> usize {
        self.occupants.len()
    }

    /// Sessions of all occupants.
    pub fn sessions(&self) -> usize {
        self.occupants.sessions()
    }

    /// Everybody is told that the room's machine ends (status 332), whatever waits: nobody knows
    /// what became of it, or will. Managed sessions are not: the next life of the room takes them
    /// up, but for those of `unsure`, names of parts that [`Effect::Keep`] asked for and that may
    /// not be durable: these are told that they are not there (status 333), and their homes say the
    /// same to the next life. The machine must not be used any more.
    pub fn end(&mut self, unsure: &[String]) -> Vec<Effect> {
        self.pending.clear();
        self.effects.clear();
        let tell = Tell {
            codes: vec![332],
            ..Tell::default()
        };
        match self.occupants.tracks {
            true => {
                self.leave_behind(&tell);
                self.leave_unsure(unsure);
            }
            false => self.clear(&tell),
        }
        let effects = std::mem::take(&mut self.effects);
        let tells = |effect: &Effect| {
            use Effect::{Deliver, Send, Tell};
            matches!(effect, Send { .. } | Deliver(_) | Tell { .. })
        };
        effects.into_iter().filter(tells).collect()
    }

    /// Nobody is there and nothing waits for a decision: it can be evicted and loaded again.
    pub fn is_idle(&self) -> bool {
        self.occupants.len() == 0 && self.pending.is_empty()
    }

    /// Whether the session is an occupant.
    pub fn has_session(&self, full: &str) -> bool {
        self.occupants.by_address(full).is_some()
    }

    /// Whether somebody may know what goes on in the room: who is there, who could enter without
    /// saying a password, and owners, who are shown it. Nobody who is banned.
    pub fn may_follow(&self, from: &str) -> bool {
        let Some(state) = &self.state else {
            return false;
        };
        let bare = addr::bare_part(from);
        let is_banned = state.affiliation(bare) == Affiliation::Outcast;
        !is_banned && (self.has_session(from) || state.may_follow(bare))
    }

    /// Whether the room is there for somebody: until it is configured it is not for others than its
    /// owners and those who are in it (section 10.1.3).
    pub(crate) fn is_there_for(&self, from: &str) -> bool {
        self.state.as_ref().is_some_and(|state| {
            !state.is_locked
                || self.affiliation_of(from) == Affiliation::Owner
                || self.has_session(from)
        })
    }

    #[cfg(test)]
    pub(crate) fn has_bug(&self, bug: crate::bugs::Bug) -> bool {
        self.bug == Some(bug)
    }

    // === dispatch ===

    pub(crate) fn stanza(&mut self, frame: &Frame, may_create: bool, now: Timestamp) {
        let from = frame.attr("from").unwrap_or_default();
        let to = frame.attr("to").unwrap_or_default();
        let nick = addr::split(&to).resource;
        let kind = match parse_kind(frame) {
            Ok(kind) => kind,
            Err(condition) => return self.refuse(frame, condition),
        };
        match (kind, nick) {
            (Kind::Presence(PresenceType::Available), nick) => {
                self.available(frame, &from, nick, may_create, now);
            }
            (Kind::Presence(PresenceType::Unavailable), _) => self.unavailable(frame, &from),
            (Kind::Presence(PresenceType::Error), _) => self.bounced(frame, &from, now),
            // A room has no roster, and tells its presence to nobody (section 17.3).
            (Kind::Presence(_), _) => {}
            (Kind::Message(MessageType::Error), _) => self.bounced(frame, &from, now),
            (Kind::Message(kind), None) => self.message(frame, kind, &from, now),
            (Kind::Message(kind), Some(nick)) => self.private(frame, kind, &from, nick),
            (Kind::Iq(IqType::Result | IqType::Error), Some(nick)) => {
                self.relay_answer(frame, &from, nick);
            }
            (Kind::Iq(IqType::Result | IqType::Error), None) => {}
            (Kind::Iq(_), Some(nick)) => self.relay_request(frame, &from, nick),
            (Kind::Iq(kind), None) => self.iq(frame, kind == IqType::Set, &from, now),
        }
    }

    fn gone(&mut self, address: &str) {
        if let Some(key) = self.occupants.by_address(address) {
            self.leave(key, address, &Tell::default());
        }
    }

    // === what waits ===

    /// Makes a change: at once in a room that is not durable, else when it is committed. `then`
    /// runs once the change is in force.
    pub(crate) fn commit(
        &mut self,
        records: Vec<Record>,
        request: &Frame,
        now: Timestamp,
        then: impl FnOnce(&mut Room, Timestamp) + Send + 'static,
    ) {
        let (records, durable) = self.durable(records);
        if durable.is_empty() {
            self.apply(records);
            return then(self, now);
        }
        self.effects.push(Effect::Append(durable));
        self.pending.push_back(Pending {
            records,
            request: request.clone(),
            is_message: false,
            then: Box::new(then),
        });
    }

    /// The same for a message to all; without records it only keeps its place in the order.
    pub(crate) fn commit_message(
        &mut self,
        records: Vec<Record>,
        request: &Frame,
        now: Timestamp,
        then: impl FnOnce(&mut Room, Timestamp) + Send + 'static,
    ) {
        let is_durable = self.is_durable();
        let waits = !self.pending.is_empty() || (is_durable && !records.is_empty());
        if !waits {
            self.apply(records);
            return then(self, now);
        }
        if is_durable && !records.is_empty() {
            self.effects.push(Effect::Append(records.clone()));
        }
        self.pending.push_back(Pending {
            records,
            request: request.clone(),
            is_message: true,
            then: Box::new(then),
        });
    }

    /// Which records have to be appended for a change: none for a room that is in no store, all for
    /// one that is, everything for one that comes there, and its end for one that no longer is.
    fn durable(&self, mut records: Vec<Record>) -> (Vec<Record>, Vec<Record>) {
        let was = self.is_durable();
        let mut after = self.state.clone();
        let is_plain = |r: &Record| {
            matches!(
                r,
                Record::Affiliated(_)
                    | Record::Subject(_)
                    | Record::Message(_)
                    | Record::Retracted { .. }
                    | Record::Hats(_)
                    | Record::Card(_)
            )
        };
        if records.iter().all(is_plain) {
            let durable = if was { records.clone() } else { Vec::new() };
            return (records, durable);
        }
        for record in records.iter().cloned() {
            apply(&mut after, record, &self.options.limits);
        }
        let is_left = matches!(&after, Some(after) if was && !after.is_durable());
        if is_left && self.occupants.managed() > 0 {
            // It is temporary from now on, and managed sessions are in it.
            apply(&mut after, Record::Followed(true), &self.options.limits);
            records.push(Record::Followed(true));
        }
        let after = after.filter(State::is_durable);
        let durable = match (was, after) {
            (true, Some(_)) => records.clone(),
            (false, Some(after)) => after.snapshot(),
            (true, None) => vec![Record::Destroyed],
            (false, None) => Vec::new(),
        };
        (records, durable)
    }

    fn apply(&mut self, records: Vec<Record>) {
        let before = self.members_before(&records);
        for record in records {
            apply(&mut self.state, record, &self.options.limits);
        }
        self.members_after(before);
    }

    fn decided(&mut self, is_committed: bool, now: Timestamp) {
        let Some(first) = self.pending.pop_front() else {
            return;
        };
        if is_committed {
            self.apply(first.records);
            (first.then)(self, now);
        } else {
            let error = StanzaError::new(Condition::ResourceConstraint)
                .with_text("The room could not keep this; try again.");
            self.refuse_with(&first.request, &error);
            match self.ending.take() {
                Some(state) => (self.state, self.owes_end) = (Some(*state), true),
                None => self.end_if_empty(),
            }
        }
        while let Some(next) = self.pending.front() {
            if !next.records.is_empty() {
                break;
            }
            if let Some(next) = self.pending.pop_front() {
                (next.then)(self, now);
            }
        }
    }

    // === answers ===

    /// Answers with an error, if the stanza may be answered with one.
    pub(crate) fn refuse(&mut self, frame: &Frame, condition: Condition) {
        self.refuse_with(frame, &StanzaError::new(condition));
    }

    /// The same with more than a condition.
    pub(crate) fn refuse_with(&mut self, frame: &Frame, error: &StanzaError) {
        // The room's own decisions have no sender.
        let Some(from) = frame.attr("from") else {
            return;
        };
        // An error with the element of those who enter says that its recipient is not there.
        let stays = frame.name() == "presence" && self.has_session(&from);
        let request = match stays {
            true => frame.edit().remove_children(|x| x.ns() == NS_MUC).finish(),
            false => frame.clone(),
        };
        let error = error.clone();
        self.effects.push(Effect::Refuse { request, error });
    }

    /// Answers a request with a result.
    pub(crate) fn answer(&mut self, request: &Frame, payload: &[u8]) {
        self.effects
            .extend(xmpp::stanza::result(request, payload).map(Effect::Deliver));
    }

    /// Adds a frame for several sessions.
    pub(crate) fn send(&mut self, frame: Frame, to: Audience) {
        self.send_placed(frame, to, None);
    }

    /// The same for a message of the log.
    pub(crate) fn send_placed(&mut self, frame: Frame, to: Audience, placed: Option<Placed>) {
        if !to.is_empty() {
            self.effects.push(Effect::Send { frame, to, placed });
        }
    }

    // === what many parts ask ===

    /// The affiliation of the bare address of `from`.
    pub(crate) fn affiliation_of(&self, from: &str) -> Affiliation {
        let state = self.state.as_ref();
        state.map_or(Affiliation::None, |state| {
            state.affiliation(addr::bare_part(from))
        })
    }

    /// The occupant and the nick of a session.
    pub(crate) fn sender(&self, from: &str) -> Option<(Key, Arc<str>)> {
        let key = self.occupants.by_address(from)?;
        Some((key, Arc::clone(&self.occupants.get(key)?.nick)))
    }

    /// A presence without addresses, kept once for all who have the same.
    pub(crate) fn shared(&mut self, presence: Frame) -> Frame {
        if let Some(known) = self.recent.iter().find(|known| **known == presence) {
            return known.clone();
        }
        if self.recent.len() >= RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(presence.clone());
        presence
    }

    /// A room that nobody is in ends, unless it is persistent (section 7.14). One that was never
    /// configured ends too.
    pub(crate) fn end_if_empty(&mut self) {
        let Some(state) = self.state.take_if(|_| self.pending.is_empty()) else {
            return;
        };
        self.owes_end = false;
        if self.occupants.len() > 0 || state.config.is_persistent && !state.is_locked {
            self.state = Some(state);
            return;
        }
        self.next_seq = self.next_seq.max(state.next_seq);
        if state.is_durable() {
            self.ending = Some(Box::new(state));
            self.effects.push(Effect::Append(vec![Record::Destroyed]));
            self.pending.push_back(Pending {
                records: vec![Record::Destroyed],
                request: self.empty.clone(),
                is_message: false,
                then: Box::new(|room, _| {
                    room.ending = None;
                    room.effects.push(Effect::Ended);
                }),
            });
        } else {
            self.effects.push(Effect::Ended);
        }
    }

    /// Whether the room was to end, that was refused or did not come to pass before a restart, and
    /// nobody has come since: [`Event::End`] is due.
    pub fn is_to_end(&self) -> bool {
        self.owes_end && self.is_idle()
    }
}

/// Whether a stanza is a message to all that changes nothing but the log.
fn is_plain_message(frame: &Frame) -> bool {
    frame.name() == "message"
        && frame.attr_raw("type") == Some("groupchat")
        && !frame.children().any(|child| child.name() == "subject")
}
