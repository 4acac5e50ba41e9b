//! Rooms (XEP-0045, docs/rooms.md): one actor for each that somebody is in or asks for, at the home
//! of its address. It performs what [`room::Room`] decides. Owns the order of what comes in; the
//! life that every entity has is in `crate::entity`. What is taken and what is not is in
//! `intake.rs`, and what is durable in `durable.rs`.
//!
//! | what waits | why | until |
//! |---|---|---|
//! | everything | the room is being read | it has been |
//! | everything but decisions | copies are under way: at most so many are written a turn | all are |
//! | everything but decisions | the room is busy with a change | it is decided |
//! | everything but decisions | the store is asked about a message or its sender | it has said |

mod archive;
mod command;
pub(crate) mod durable;
pub(crate) mod here;
mod intake;
mod listed;
mod members;
mod retention;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use actor::{Context, Mail, Name, Reason, Reply};
use delivery::{Marks, Place};
use room::{Effect, Event, Room};
use stdx::time::Moment;
use store::limits::SEEN_MAX;
use store::{LogEntry, LogHead, Seq, Store, StoreError, StoredRoom};
use telemetry::{Counter, Gauge};
use wire::{Message, Sitting};

use crate::address;
use crate::entity::kind::Kind;
use crate::entity::life::{Decided, Life, Phase, Request};
use crate::entity::taking::Taking;
use crate::entity::{self, Tenant, random};
use crate::home::Home;
use crate::leaving::{Bounds, Counters, Leaving, Out};
use crate::listing::{Reserved, Temporary};
use crate::message::{Delivery, Said, UserMsg};
use crate::operator::{AdminAnswer, AdminCommand};

pub use ::room::Options as Machine;
use durable::Change;
use here::{Kept, PulledPage};
use intake::Parked;
pub(crate) use intake::enters;
use members::Members;

/// Seconds count for so many numbers: the numbers of messages in a room that was forgotten
/// with the process are not given out again.
const SEQS_PER_SECOND: u64 = 256;

/// What happens to a room beside what happens to every entity.
pub enum RoomMsg {
    /// Up to where a sender's messages were taken.
    Mark(Result<Seq, StoreError>),
    /// The message that a stanza is about.
    Named(Result<Vec<LogEntry>, StoreError>),
    /// Whether one of those is there whom a stanza leaves as owners.
    Heirs(Result<bool, StoreError>),
    /// How many rooms somebody has made who wants to make this one.
    Made(Result<u32, StoreError>),
    /// The oldest entries of the log.
    Oldest(Result<Option<(LogHead, Vec<LogEntry>)>, StoreError>),
    /// A page of the archive.
    Page(Box<archive::Page>),
    /// A page of the log that a managed session has asked for was read.
    Pulled(Box<PulledPage>),
    /// Who is there may become durable now.
    KeepAgain,
    /// It may end now, if nobody is there.
    End,
    /// Homes that have not said whether their sessions are there may be asked again.
    AskHomes,
    /// Homes are told of copies that they have missed.
    TellMissed,
    /// Members who are not there may be told of more.
    MembersDue,
    /// Members' homes that have not answered may be told again.
    AskMembers,
    /// The same of those that did not answer for long.
    AskMembersLater,
}

/// What the store has of a room.
pub struct Loaded {
    /// The number that a message gets next.
    next_seq: u64,
    stored: Option<StoredRoom>,
    /// Random.
    secret: [u8; 16],
}

/// What gauges have of one room.
#[derive(Clone, Debug, Default)]
struct Counted {
    /// Sessions that are there.
    occupants: u64,
    /// Copies and stanzas that have not left yet.
    waiting: u64,
    /// Since when there are any.
    sends_since: Option<Moment>,
    /// 1 if that is long ago.
    behind: u64,
}

/// One room.
pub(crate) struct RoomActor {
    life: Life<Change>,
    /// The machine; absent until the room is read.
    room: Option<Room>,
    /// Who made it, if it is there.
    creator: Option<Name>,
    log: retention::LogState,
    /// [`RoomMsg::TellMissed`] is on its way.
    tells_missed: bool,
    /// [`RoomMsg::End`] is.
    ends: bool,
    /// [`RoomMsg::AskHomes`] is on its way.
    asks_homes: bool,
    /// Members who are delivered to without being there.
    members: Members,
    /// Clients that are back and were not heard yet, by their addresses. No more than sessions that
    /// were there.
    back: BTreeMap<Arc<str>, (Sitting, String)>,
    /// Who is there, as far as it was refused to make that durable, in order.
    unkept: VecDeque<Kept>,
    /// Goes in front of everything in the mailbox.
    parked: Option<Parked>,
    /// Pages of the archive that are being read.
    pages: u32,
    /// There has been a room.
    was_there: bool,
    /// What the gauges have of this room.
    counted: Counted,
    /// Occupants, as the node's table has them.
    listed_occupants: u32,
    /// What the node's table has of it, if it is temporary.
    temporary: Option<Temporary>,
    /// It is counted as made until it is known whether it is.
    reserved: Option<Reserved>,
    /// An operator who waits for the room's end.
    ending: Option<Reply<AdminAnswer>>,
    /// One who waits for messages to be erased.
    erasing: Option<Reply<AdminAnswer>>,
}

/// Rooms: every address of their domains.
const KIND: Kind = Kind {
    name: "room",
    has: |home, bare| home.hosts_rooms(address::domain(bare)),
    loaded: Gauge::RoomsLoaded,
    loads: Counter::RoomsLoaded,
};

impl RoomActor {
    /// An address at which there never was a room is forgotten at once: whoever asks for many of
    /// them must not fill the memory. One that has ended is remembered for a while, with the
    /// numbers that it gave out.
    fn stop_if_unknown(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.was_there |= self
            .room
            .as_ref()
            .is_some_and(|room| room.state().is_some());
        if !self.was_there && self.life.phase == Phase::Ready && entity::is_idle(self) {
            cx.stop_when_idle();
        }
    }

    // ---- Figures -------------------------------------------------------------------------------

    /// Says what has changed to those who count and list.
    fn note(&mut self, cx: &mut Context<'_, UserMsg>) {
        let waiting = self.life.leaving.owed() as u64;
        let now = cx.now();
        let since = match waiting {
            0 => None,
            _ => Some(self.counted.sends_since.unwrap_or(now)),
        };
        let behind_after = self.life.home.options.rooms.behind_after;
        self.count(
            Counted {
                occupants: self.room.as_ref().map_or(0, Room::sessions) as u64,
                waiting,
                sends_since: since,
                behind: u64::from(since.is_some_and(|since| since + behind_after <= now)),
            },
            cx,
        );
        self.list_temporary();
        // From here on the room itself is counted, if it is there.
        let room = self.room.as_ref();
        let is_being_made = room.is_some_and(|room| room.state().is_none() && room.is_busy());
        self.reserved.take_if(|_| !is_being_made);
        self.list_occupants();
        self.answer_operators(cx);
    }

    /// The gauges have this of the room from now on.
    fn count(&mut self, now: Counted, cx: &mut Context<'_, UserMsg>) {
        let before = std::mem::replace(&mut self.counted, now);
        let now = &self.counted;
        let stats = cx.stats();
        stats.shift(Gauge::RoomOccupants, before.occupants, now.occupants);
        stats.shift(Gauge::RoomCopiesWaiting, before.waiting, now.waiting);
        stats.shift(Gauge::RoomsBehind, before.behind, now.behind);
    }
}

impl Tenant for RoomActor {
    const KIND: &'static Kind = &KIND;
    type Stored = Loaded;
    type Word = RoomMsg;
    type Change = Change;

    fn new(name: Name, home: Rc<Home>) -> Self {
        let counters = Counters {
            sent: Some(Counter::RoomCopies),
            dropped: Counter::RoomCopiesDropped,
        };
        let bounds = Bounds {
            turn_max: home.options.rooms.copies_per_turn,
            waits_max: home.options.rooms.waits_max,
        };
        RoomActor {
            life: Life::new(name, home, Leaving::new(bounds, counters)),
            room: None,
            creator: None,
            log: retention::LogState::default(),
            tells_missed: false,
            ends: false,
            asks_homes: false,
            members: Members::default(),
            back: BTreeMap::new(),
            unkept: VecDeque::new(),
            parked: None,
            pages: 0,
            was_there: false,
            counted: Counted::default(),
            listed_occupants: 0,
            temporary: None,
            reserved: None,
            ending: None,
            erasing: None,
        }
    }

    fn life(&self) -> &Life<Change> {
        &self.life
    }

    fn life_mut(&mut self) -> &mut Life<Change> {
        &mut self.life
    }

    fn read(&self) -> impl FnOnce(&Store) -> Result<Loaded, StoreError> + Send + 'static {
        let (name, home) = (self.life.name.clone(), &self.life.home);
        let history = usize::from(home.options.rooms.machine.limits.history_max);
        move |store| {
            let (next_seq, stored) = store.load_room(&name, history)?;
            Ok(Loaded {
                next_seq,
                stored,
                secret: random()?,
            })
        }
    }

    fn recover(&mut self, loaded: Loaded, cx: &mut Context<'_, UserMsg>) -> Result<(), StoreError> {
        let room = self.recovered(&loaded, cx.wall())?;
        self.log = retention::LogState::from(loaded.next_seq);
        if let Some(stored) = loaded.stored {
            let seen = stored.recognition.seen.iter();
            let seen = seen.map(|seen| (seen.peer, Place::new(seen.source)));
            self.life.marks = Marks::new(seen, SEEN_MAX, stored.has_older_marks);
            self.creator = Some(Name::from(&*stored.listed.creator));
            self.log = retention::LogState::of(&stored.log, stored.has_older_marks);
        }
        self.room = Some(room);
        Ok(())
    }

    fn ready(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.recover_members();
        self.ask_homes(cx);
        if self.room.as_ref().is_some_and(Room::is_to_end) {
            self.end_again(cx); // Before anybody finds it.
        }
    }

    fn said(&mut self, said: Said, cx: &mut Context<'_, UserMsg>) {
        let Said { message, debt } = said;
        match message {
            Message::Stanza(stanza) => self.deliver(Delivery { stanza, debt }, cx),
            Message::ToRoom(said) => self.home_says(*said, cx),
            // What accounts are told.
            _ => {}
        }
    }

    fn word(&mut self, msg: RoomMsg, cx: &mut Context<'_, UserMsg>) {
        match msg {
            RoomMsg::Mark(mark) => self.mark_read(mark, cx),
            RoomMsg::Named(found) => self.named_read(found, cx),
            RoomMsg::Heirs(found) => self.heirs_read(found, cx),
            RoomMsg::Made(count) => self.made_read(count, cx),
            RoomMsg::Oldest(oldest) => self.oldest_read(oldest, cx),
            RoomMsg::Page(page) => self.page_read(*page, cx),
            RoomMsg::Pulled(page) => self.pulled(*page, cx),
            RoomMsg::KeepAgain => self.keep_again(cx),
            RoomMsg::End => self.end_again(cx),
            RoomMsg::AskHomes => self.ask_homes_again(cx),
            RoomMsg::TellMissed => self.tell_of_missed(cx),
            RoomMsg::MembersDue => self.members.may_go_on(),
            RoomMsg::AskMembers => self.ask_members_again(cx),
            RoomMsg::AskMembersLater => self.ask_members_later(),
        }
    }

    fn administer(
        &mut self,
        command: AdminCommand,
        reply: Reply<AdminAnswer>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.operate(command, reply, cx);
    }

    fn aged(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.look_at_oldest(cx);
    }

    fn decided(&mut self, decided: Decided<Change>, cx: &mut Context<'_, UserMsg>) {
        self.conclude(decided, cx);
    }

    fn in_doubt(&mut self, change: Change) {
        self.doubts(change);
    }

    fn go_on(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.answer_operators(cx);
        self.give_parked(cx);
        self.look_at_retention(cx);
    }

    fn handled(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.hear_back(cx);
        self.look_at_missed(cx);
        self.look_at_end(cx);
        self.work_on_members(cx);
        self.note(cx);
        self.stop_if_unknown(cx);
    }

    fn is_idle(&self) -> bool {
        // Nobody is there, and nothing is under way.
        self.room.as_ref().is_none_or(Room::is_idle)
            && self.parked.is_none()
            && !self.room.as_ref().is_some_and(Room::is_to_end)
            && self.members.is_idle()
            && !self.owes_news()
            && self.pages == 0
    }

    fn must_stay(&self) -> bool {
        // Who is there stands in no record.
        self.room.as_ref().is_some_and(|room| !room.is_idle())
    }

    fn must_hold(&self) -> bool {
        self.parked.is_some() || self.life.leaving.is_busy()
    }

    fn unanswered(&self) -> Vec<Request> {
        let parked = self.parked.as_ref().and_then(Parked::unlogged);
        parked.into_iter().collect()
    }

    fn uncount(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.count(Counted::default(), cx);
        self.forget_temporary();
    }

    fn must_come_back(&self) -> bool {
        // Managed sessions are still there, and may have missed something; and of the last message
        // members hear from the next life.
        let is_followed = self.room.as_ref().is_some_and(|room| room.managed() > 0);
        is_followed || self.owes_news() || !self.members.is_idle()
    }

    fn ended(&mut self, reason: &Reason, cx: &mut Context<'_, UserMsg>) {
        // After a panic the machine may be half changed: who was there finds out by what he does
        // next (XEP-0410).
        let has_moved = self.life.home.is_elsewhere(&self.life.name);
        if matches!(reason, Reason::Killed) && !has_moved {
            self.tell_of_the_end(cx);
        }
    }
}

impl RoomActor {
    /// The room ends although somebody is there: they are told at once, however many they are.
    /// Nobody is told of what may not be durable: the next life of the room says who is there.
    fn tell_of_the_end(&mut self, cx: &mut Context<'_, UserMsg>) {
        let unsure = self.unsure();
        let Some(room) = &mut self.room else { return };
        self.life.leaving.forget_presence();
        for effect in room.end(&unsure) {
            match effect {
                Effect::Send { frame, to, .. } => {
                    self.life.leaving.copies(frame, to, (0, 0), &self.life.home);
                }
                Effect::Deliver(frame) => self.life.leaving.push(Out::One(frame)),
                Effect::Tell { frame, number } => {
                    self.life.leaving.push(Out::Session(frame, number));
                }
                _ => {}
            }
        }
        self.life.leaving.leave_all(&self.life.home, cx);
    }
}

impl RoomActor {
    /// Gives the machine an event, and performs what comes of it. False if the room is busy: then
    /// the event comes again.
    fn happens(
        &mut self,
        event: Event,
        taking: Option<Taking>,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), Event> {
        let Some(room) = &mut self.room else {
            return Err(event);
        };
        let effects = room.handle(event, cx.wall())?;
        let rest = self.perform(effects, taking, cx);
        if let Some(taking) = rest {
            self.life.taken(taking, cx);
        }
        self.life.leave_on(cx);
        Ok(())
    }
}
