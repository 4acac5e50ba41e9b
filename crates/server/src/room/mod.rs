//! Rooms (XEP-0045, docs/rooms.md): one actor for each that somebody is in or asks for, at the home
//! of its address. It performs what [`room::Room`] decides. Owns its life: loading, the order of
//! what comes in, and eviction. What is taken and what is not is in `intake.rs`, and what is
//! durable in `durable.rs`.
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

use std::collections::VecDeque;
use std::rc::Rc;

use actor::{Actor, Context, Mail, Name, Reason, Reply};
use delivery::{Marks, Place, Refusal};
use ring::rand::{SecureRandom, SystemRandom};
use room::{Effect, Event, Room};
use stdx::time::Moment;
use store::limits::SEEN_MAX;
use store::{LogEntry, LogHead, Seq, StoreError, StoredRoom};
use telemetry::{Counter, Gauge};
use wire::Message;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use crate::appends::Appends;
use crate::home::Home;
use crate::leaving::{Bounds, Counters, Leaving, Out};
use crate::listing::{Reserved, Temporary};
use crate::message::{Delivery, Said, UserMsg};
use crate::operator::AdminAnswer;
use crate::taking::Taking;

pub use ::room::Options as Machine;
use durable::{For, Waiting};
use here::{Kept, PulledPage};
use intake::Parked;
pub(crate) use intake::enters;
use members::Members;

/// Seconds count for so many numbers: the numbers of messages in a room that was forgotten
/// with the process are not given out again.
const SEQS_PER_SECOND: u64 = 256;

/// What happens to a room beside what happens to every entity.
pub enum RoomMsg {
    /// What the store has of it.
    Loaded(Box<Result<Loaded, StoreError>>),
    /// Up to where a sender's messages were taken.
    Mark(Result<Seq, StoreError>),
    /// The message that a stanza is about.
    Named(Result<Vec<LogEntry>, StoreError>),
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

/// What is known of the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The store has been asked; the mailbox is held.
    Loading,
    /// It is here.
    Ready,
    /// It could not be read for a while; every question gets an error until it can be.
    Unreadable,
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
    name: Name,
    home: Rc<Home>,
    phase: Phase,
    /// The machine; absent until the room is read.
    room: Option<Room>,
    /// Who made it, if it is there.
    creator: Option<Name>,
    /// What was handed over by senders' homes.
    marks: Marks<u64>,
    appends: Appends<Waiting>,
    log: retention::LogState,
    leaving: Leaving,
    /// [`RoomMsg::TellMissed`] is on its way.
    tells_missed: bool,
    /// Members who are delivered to without being there.
    members: Members,
    /// Who is there, as far as it was refused to make that durable, in order.
    unkept: VecDeque<Kept>,
    /// Goes in front of everything in the mailbox.
    parked: Option<Parked>,
    /// A message that is being taken: if the room crashes, its sender's home hears of it.
    taking: Option<Taking>,
    /// A stanza that is being handled and is in no log: if the room crashes, its sender hears of
    /// it.
    handling: Option<Frame>,
    /// Pages of the archive that are being read.
    pages: u32,
    /// There has been a room.
    was_there: bool,
    /// How often the store could not be read in a row.
    unread: u8,
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

impl RoomActor {
    pub(crate) fn new(name: Name, home: Rc<Home>) -> Self {
        let appends = Appends::new(home.place.range(&name));
        let counters = Counters {
            sent: Counter::RoomCopies,
            dropped: Counter::RoomCopiesDropped,
        };
        let bounds = Bounds {
            turn_max: home.options.rooms.copies_per_turn,
            waits_max: home.options.rooms.waits_max,
        };
        let leaving = Leaving::new(bounds, counters);
        RoomActor {
            name,
            home,
            phase: Phase::Loading,
            room: None,
            creator: None,
            marks: Marks::new([], SEEN_MAX, false),
            appends,
            log: retention::LogState::default(),
            leaving,
            tells_missed: false,
            members: Members::default(),
            unkept: VecDeque::new(),
            parked: None,
            taking: None,
            handling: None,
            pages: 0,
            was_there: false,
            unread: 0,
            counted: Counted::default(),
            listed_occupants: 0,
            temporary: None,
            reserved: None,
            ending: None,
            erasing: None,
        }
    }

    fn range(&self) -> store::RangeId {
        self.home.place.range(&self.name)
    }

    // ---- Loading and eviction ------------------------------------------------------------------

    /// Reads the room once nothing that an earlier life of it appended is undecided.
    fn begin(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.phase = Phase::Loading;
        let waiting = Waiting::of(For::Settled, None);
        if self.appends.is_settled(waiting, &self.home, cx) {
            self.load(cx);
        }
    }

    fn load(&mut self, cx: &mut Context<'_, UserMsg>) {
        cx.stats().count(Counter::RoomsLoaded);
        self.appends.begin(&self.home);
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let history = usize::from(self.home.options.rooms.machine.limits.history_max);
        let read = move || {
            let loaded = store.load_room(&name, history);
            loaded.and_then(|(next_seq, stored)| {
                let mut secret = [0; 16];
                let filled = SystemRandom::new().fill(&mut secret);
                filled.map_err(|_| StoreError::Unavailable("no randomness".to_owned()))?;
                Ok(Loaded {
                    next_seq,
                    stored,
                    secret,
                })
            })
        };
        let map = |loaded| UserMsg::own(RoomMsg::Loaded(Box::new(loaded)));
        if cx.blocking(&self.home.later_reads, read, map).is_err() {
            self.loaded(Err(overloaded()), cx);
        }
    }

    fn loaded(&mut self, loaded: Result<Loaded, StoreError>, cx: &mut Context<'_, UserMsg>) {
        let loaded = loaded.and_then(|loaded| {
            let room = self.recovered(&loaded, cx.wall())?;
            Ok((loaded, room))
        });
        let (loaded, room) = match loaded {
            Ok(loaded) => loaded,
            Err(error) => return self.not_loaded(&error, cx),
        };
        self.log = retention::LogState::from(loaded.next_seq);
        if let Some(stored) = loaded.stored {
            let seen = stored.recognition.seen.iter();
            let seen = seen.map(|seen| (seen.peer, Place::new(seen.source)));
            self.marks = Marks::new(seen, SEEN_MAX, stored.has_older_marks);
            self.creator = Some(Name::from(&*stored.listed.creator));
            self.log = retention::LogState::of(&stored.log, stored.has_older_marks);
        }
        self.room = Some(room);
        self.phase = Phase::Ready;
        self.unread = 0;
        self.recover_members();
        self.ask_homes(cx);
    }

    /// Tries again for as long as somebody may want something; after a while whoever asks is told.
    fn not_loaded(&mut self, error: &StoreError, cx: &mut Context<'_, UserMsg>) {
        self.unread = self.unread.saturating_add(1);
        let unread = self.home.bounds().unread(self.unread);
        if unread.is_given_up {
            self.phase = Phase::Unreadable;
        }
        if unread.is_news {
            tracing::error!(room = %self.name, %error, "cannot read a room");
        }
        cx.send_after(unread.pause, UserMsg::LoadAgain);
    }

    /// Nobody is there, and nothing is under way.
    fn is_idle(&self) -> bool {
        let is_idle = self.room.as_ref().is_none_or(Room::is_idle);
        is_idle
            && self.phase != Phase::Loading
            && self.appends.is_empty()
            && self.leaving.is_empty()
            && self.parked.is_none()
            && self.members.is_idle()
            && self.pages == 0
    }

    fn idle(&mut self, cx: &mut Context<'_, UserMsg>) {
        if !(self.is_idle() && cx.stop_when_idle()) {
            cx.send_after(self.home.bounds().idle_eviction, UserMsg::Idle);
        }
    }

    /// An address at which there never was a room is forgotten at once: whoever asks for many of
    /// them must not fill the memory. One that has ended is remembered for a while, with the
    /// numbers that it gave out.
    fn stop_if_unknown(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.was_there |= self
            .room
            .as_ref()
            .is_some_and(|room| room.state().is_some());
        if !self.was_there && self.phase == Phase::Ready && self.is_idle() {
            cx.stop_when_idle();
        }
    }

    /// Whether what comes has to wait.
    fn must_hold(&self) -> bool {
        self.phase == Phase::Loading || self.parked.is_some() || self.leaving.is_busy()
    }

    // ---- Figures -------------------------------------------------------------------------------

    /// Says what has changed to those who count and list.
    fn note(&mut self, cx: &mut Context<'_, UserMsg>) {
        let waiting = self.leaving.owed() as u64;
        let now = cx.now();
        let since = match waiting {
            0 => None,
            _ => Some(self.counted.sends_since.unwrap_or(now)),
        };
        let behind_after = self.home.options.rooms.behind_after;
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

    fn room_msg(&mut self, msg: RoomMsg, cx: &mut Context<'_, UserMsg>) {
        match msg {
            RoomMsg::Loaded(loaded) => self.loaded(*loaded, cx),
            RoomMsg::Mark(mark) => self.mark_read(mark, cx),
            RoomMsg::Named(found) => self.named_read(found, cx),
            RoomMsg::Made(count) => self.made_read(count, cx),
            RoomMsg::Oldest(oldest) => self.oldest_read(oldest, cx),
            RoomMsg::Page(page) => self.page_read(*page, cx),
            RoomMsg::Pulled(page) => self.pulled(*page, cx),
            RoomMsg::KeepAgain => self.keep_again(cx),
            RoomMsg::AskHomes => self.ask_homes(cx),
            RoomMsg::TellMissed => self.tell_of_missed(cx),
            RoomMsg::MembersDue => self.members.may_go_on(),
            RoomMsg::AskMembers => self.ask_members_again(cx),
            RoomMsg::AskMembersLater => self.ask_members_later(),
        }
    }

    /// What another entity says.
    fn said(&mut self, said: Said, cx: &mut Context<'_, UserMsg>) {
        let Said { message, debt } = said;
        match message {
            Message::Stanza(stanza) => self.deliver(Delivery { stanza, debt }, cx),
            Message::ToRoom(said) => self.home_says(*said, cx),
            // What accounts are told.
            _ => {}
        }
    }
}

/// The readers' queue is full.
fn overloaded() -> StoreError {
    StoreError::Unavailable("too many reads wait".to_owned())
}

impl Actor for RoomActor {
    type Msg = UserMsg;

    fn started(&mut self, cx: &mut Context<'_, UserMsg>) {
        cx.stats().raise(Gauge::RoomsLoaded);
        cx.send_after(self.home.bounds().idle_eviction, UserMsg::Idle);
        cx.hold();
        self.begin(cx);
    }

    fn handle(&mut self, msg: UserMsg, cx: &mut Context<'_, UserMsg>) {
        match msg {
            UserMsg::Said(said) => self.said(said, cx),
            UserMsg::Decided { ticket, result } => {
                self.appends.decided(ticket, result, &self.home, cx);
            }
            UserMsg::Own(own) => {
                if let Some(msg) = own.take() {
                    self.room_msg(msg, cx);
                }
            }
            UserMsg::GoOn => self.leaving.next_turn(&self.home, cx),
            UserMsg::LoadAgain if self.phase != Phase::Ready => self.begin(cx),
            UserMsg::Aged => self.look_at_oldest(cx),
            UserMsg::Admin { command, reply } => self.administer(*command, reply, cx),
            UserMsg::Idle => self.idle(cx),
            // What accounts are told.
            _ => {}
        }
        (self.taking, self.handling) = (None, None);
        while self.conclude_decided(cx) {
            (self.taking, self.handling) = (None, None);
        }
        self.look_at_missed(cx);
        self.work_on_members(cx);
        self.note(cx);
        self.stop_if_unknown(cx);
        if self.must_hold() {
            cx.hold();
        } else {
            cx.release();
        }
    }

    fn stopped(&mut self, reason: &Reason, cx: &mut Context<'_, UserMsg>) {
        cx.stats().lower(Gauge::RoomsLoaded);
        self.count(Counted::default(), cx);
        self.forget_temporary();
        self.home.journal.forget(cx.myself());
        let is_over = matches!(reason, Reason::Normal | Reason::Shutdown);
        let has_moved = self.home.is_elsewhere(&self.name);
        if !is_over && !has_moved && self.room.as_ref().is_some_and(|room| room.managed() > 0) {
            // Managed sessions are still there, and may have missed something.
            let (shard, name) = (cx.shard(), Name::clone(&self.name));
            let _ = cx.send_named(shard, &name, UserMsg::Wake);
        }
        if let Some(taking) = self.taking.take() {
            // Its sender's home counts how often that happens.
            let why = match has_moved {
                true => Refusal::Full,
                false => Refusal::Crashed,
            };
            taking.refuse(&self.name, why, None, &self.home, cx);
        }
        self.answer_the_rest(cx);
        // After a panic the machine may be half changed: who was there finds out by what he does
        // next (XEP-0410).
        if matches!(reason, Reason::Killed) && !has_moved {
            self.tell_of_the_end(cx);
        }
    }
}

impl RoomActor {
    /// The room ends: whoever waits for an answer hears that nobody can say what became of it.
    /// Messages that are in a log are handed over again.
    fn answer_the_rest(&mut self, cx: &mut Context<'_, UserMsg>) {
        let error = StanzaError::new(Condition::InternalServerError)
            .with_text("It is not known whether this was done.");
        let waiting = self.appends.iter().filter_map(Waiting::request);
        let parked = self.parked.as_ref().and_then(Parked::unlogged);
        for request in waiting.chain(&self.handling).chain(parked) {
            self.home.return_error(cx, request, &error);
        }
    }

    /// The room ends although somebody is there: they are told at once, however many they are.
    /// Nobody is told of what may not be durable: the next life of the room says who is there.
    fn tell_of_the_end(&mut self, cx: &mut Context<'_, UserMsg>) {
        let unsure = self.unsure();
        let Some(room) = &mut self.room else { return };
        self.leaving.forget_presence();
        for effect in room.end(&unsure) {
            match effect {
                Effect::Send { frame, to, .. } => {
                    self.leaving.copies(frame, to, (0, 0), &self.home);
                }
                Effect::Deliver(frame) => self.leaving.push(Out::One(frame)),
                Effect::Tell { frame, number } => self.leaving.push(Out::Session(frame, number)),
                _ => {}
            }
        }
        self.leaving.leave_all(&self.home, cx);
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
            self.taken(taking, cx);
        }
        self.leaving.go_on(&self.home, cx);
        Ok(())
    }
}
