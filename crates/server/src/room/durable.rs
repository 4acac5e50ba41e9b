//! What a room makes durable: its records as those of the store and back, appends and what comes of
//! them. The room's machine changes when an append is committed and
//! not before, so one that is refused has changed nothing; after one of which nobody knows whether
//! it was done, the room is read again.

use actor::{Context, Mail};
use delivery::Refusal;
use room::{Effect, Event, Listed, Record, Room, State};
use stdx::{Timestamp, bugs};
use store::{EntryFlags, LogEntry, Seq, StoreError};
use telemetry::Counter;

use super::here::Kept;
use super::intake::enters;
use super::retention::Grows;
use super::{Loaded, RoomActor, SEQS_PER_SECOND};
use crate::entity::life::Decided;
use crate::entity::taking::Taking;
use crate::iq;
use crate::leaving::Out;
use crate::message::UserMsg;
use crate::stored::rooms::{
    AFFILIATED, CARD, CONFIGURED, CREATED, FOLLOWED, HATS, OWED, SUBJECT, UNLOCKED, message_of,
    present_of, records_of,
};

/// What an append is for.
pub(crate) struct Change {
    what: For,
    grows: Grows,
}

/// What becomes of it.
pub(super) enum For {
    /// The machine's next decision takes effect.
    Decision,
    /// Nothing.
    Upkeep,
    /// The oldest of the log are gone.
    Trim,
    /// What tells of who is there leaves.
    Presence(Kept),
}

impl Change {
    /// Who is there is made durable.
    pub(super) fn of_presence(kept: Kept) -> Change {
        Change {
            what: For::Presence(kept),
            grows: Grows::default(),
        }
    }

    /// Who is there, if that is what it makes durable.
    pub(super) fn kept(&self) -> Option<&Kept> {
        match &self.what {
            For::Presence(kept) => Some(kept),
            _ => None,
        }
    }
}

impl RoomActor {
    // ---- Reading -------------------------------------------------------------------------------

    /// The machine as the store has it.
    pub(super) fn recovered(&self, loaded: &Loaded, now: Timestamp) -> Result<Room, StoreError> {
        let options = std::sync::Arc::clone(&self.life.home.options.rooms.machine);
        let name = &self.life.name;
        let (mut state, mut present) = (None, Vec::new());
        if let Some(stored) = &loaded.stored {
            present = present_of(name, stored)?;
            let mut records = records_of(name, stored)?;
            let latest = stored.latest.iter().map(message_of);
            records.extend(latest.map(Record::Message));
            let mut read = State::of(records, &options.limits).ok_or_else(|| {
                StoreError::Corrupt(format!("{name}: nothing says that it was made"))
            })?;
            read.next_seq = read.next_seq.max(loaded.next_seq);
            state = Some(read);
        }
        let seconds = u64::try_from(now.as_millis() / 1_000).unwrap_or_default();
        let first = loaded.next_seq.max(seconds * SEQS_PER_SECOND);
        let mut room = Room::new(name, state, options, loaded.secret, first);
        if bugs::is("room_forgets_who_is_there") {
            present.clear();
        }
        room.recover(present, now);
        Ok(room)
    }

    // ---- Writing -------------------------------------------------------------------------------

    /// The records of the store for those of the machine.
    fn stored(&mut self, mut records: Vec<Record>, source: Seq) -> Vec<store::Record> {
        let owed = self.owes_more(&records);
        records.extend(owed);
        let user = || String::from(&*self.life.name);
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
                Record::Followed(on) => {
                    part(FOLLOWED.to_owned(), if on { bytes } else { Vec::new() })
                }
                Record::Subject(_) => part(SUBJECT.to_owned(), bytes),
                Record::Hats(hats) if hats.is_empty() => part(HATS.to_owned(), Vec::new()),
                Record::Hats(_) => part(HATS.to_owned(), bytes),
                Record::Card(card) if card.xml.is_empty() => part(CARD.to_owned(), Vec::new()),
                Record::Card(_) => part(CARD.to_owned(), bytes),
                Record::Owed(_) => part(OWED.to_owned(), bytes),
                // It was in the log once, before the room turned temporary: a number is used once.
                Record::Message(message) if message.seq < self.log.next_seq => continue,
                Record::Message(message) => store::Record::LogAppend {
                    user: (&*self.life.name).into(),
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
                Record::Retracted { seq, xml } => store::Record::LogReplace {
                    user: user(),
                    seq,
                    frame: xml,
                },
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
        let listed = Listed::of(config, is_locked);
        (is_new || before.as_ref() != Some(&listed)).then(|| store::Record::RoomMake {
            user: String::from(&*self.life.name),
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
        let request = self
            .life
            .handling
            .take_if(|one| iq::is_request(&one.frame) || enters(&one.frame));
        let grows = Grows::of(&records);
        let change = Change { what, grows };
        self.life.append(records, change, (taking, request), cx);
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
                    self.append(records, (For::Decision, taking), cx);
                }
                Effect::Keep(parts) => self.keep(parts, cx),
                Effect::Here {
                    address,
                    number,
                    since,
                    is_new,
                } => {
                    let who = self.sitting(address, number);
                    self.tell_home((who, since), is_new);
                }
                Effect::Send { frame, to, placed } => {
                    let placed = placed.map_or((0, 0), |placed| (placed.place, placed.after));
                    self.life.leaving.copies(frame, to, placed, &self.life.home);
                }
                Effect::Ask => self.ask_homes(cx),
                Effect::Deliver(frame) => self.life.leaving.push(Out::One(frame)),
                Effect::Tell { frame, number } => {
                    self.life.leaving.push(Out::Session(frame, number));
                }
                Effect::Refuse { request, error } => {
                    if enters(&request) {
                        cx.stats().count(Counter::RoomJoinsRefused);
                    }
                    match taking.take() {
                        Some(taking) => {
                            taking.refuse(
                                &self.life.name,
                                Refusal::Final,
                                Some(error),
                                &self.life.home,
                                cx,
                            );
                        }
                        None => {
                            let reply = xmpp::error::reply(&request, &error);
                            self.life.leaving.extend(reply.map(Out::One));
                        }
                    }
                }
                Effect::Members(new) => self.has_new_members(new),
                Effect::Ended => self.creator = None,
            }
        }
        taking
    }

    // ---- Decisions -----------------------------------------------------------------------------

    /// Performs what is decided.
    pub(super) fn conclude(&mut self, decided: Decided<Change>, cx: &mut Context<'_, UserMsg>) {
        let Decided {
            what: Change { what, grows },
            taking,
            result,
        } = decided;
        let is_done = result.is_ok();
        if is_done {
            cx.stats().add(Counter::RoomMessages, grows.messages);
            self.log.grow(grows);
        }
        if grows.owes {
            self.members.decided(is_done);
        }
        match what {
            For::Upkeep => {}
            For::Trim => self.log.trimmed(is_done),
            For::Presence(kept) if is_done => {
                self.life.leaving.is_over();
                if let Some(room) = self.room.as_mut().filter(|_| kept.is_all) {
                    room.kept();
                }
            }
            For::Presence(kept) => self.not_kept(kept, cx),
            For::Decision if is_done => self.committed(taking, cx),
            For::Decision => self.not_committed(taking, cx),
        }
    }

    /// Nobody knows whether it was done.
    pub(super) fn doubts(&mut self, change: Change) {
        if let For::Presence(kept) = change.what {
            self.unkept.push_front(kept);
        }
    }

    fn committed(&mut self, taking: Option<Taking>, cx: &mut Context<'_, UserMsg>) {
        let effects = self.decide(true, cx);
        if let Some(taking) = &taking {
            taking.learn(&mut self.life.marks, &self.life.home);
        }
        // What it brings about is nobody's message.
        let (own, others): (Vec<_>, Vec<_>) = effects
            .into_iter()
            .partition(|effect| !matches!(effect, Effect::Append(_)));
        if let Some(taking) = self.perform(own, taking, cx) {
            taking.confirm(&self.life.name, &self.life.home, cx);
        }
        self.perform(others, None, cx);
        self.members_may_end();
        self.owes_nobody(cx);
    }

    /// It has not been done: a message of somebody's log comes again, others are told.
    fn not_committed(&mut self, taking: Option<Taking>, cx: &mut Context<'_, UserMsg>) {
        let mut effects = self.decide(false, cx);
        if let Some(taking) = taking {
            effects.retain(|effect| !matches!(effect, Effect::Refuse { .. }));
            self.life.put_off(&taking, cx);
        }
        self.perform(effects, None, cx);
        self.owes_nobody(cx);
    }

    fn decide(&mut self, is_committed: bool, cx: &mut Context<'_, UserMsg>) -> Vec<Effect> {
        let Some(room) = &mut self.room else {
            return Vec::new();
        };
        // Invariant: a decision is always taken.
        room.handle(Event::Decided { is_committed }, cx.wall())
            .unwrap_or_default()
    }
}
