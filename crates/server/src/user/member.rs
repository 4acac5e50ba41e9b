//! Rooms that deliver to this account as their member, whether it is there or not (docs/rooms.md).
//! The home keeps a mark for each, durably, and reads the room's log behind it while sessions take
//! messages and none of them is in the room. Owns the marks, and who reads.
//!
//! | session | reads from the mark on | its messages are done with |
//! |---|---|---|
//! | with stream management | by itself ([`delivery::Followed`]) | acknowledged by its client |
//! | without | together with all of those | written, which is recorded before |
//!
//! The mark is where the first of them has come to; what sessions in the room were given counts
//! too.

use std::sync::Arc;
use std::time::Duration;

use actor::{Context, Mail, Name};
use delivery::{Place, RoomPage};
use net::ConnRef;
use rustc_hash::FxHashMap;
use stdx::time::Moment;
use store::{Record, Seq, Store, StoreError};
use telemetry::Counter;
use wire::{Membership, Message, Pulled, Sitting, ToRoom};
use xml::Frame;

use super::barrier::Effect;
use super::managed::What;
use super::own::OwnMsg;
use super::recover::Stored;
use super::{Phase, User};
use crate::address;
use crate::message::UserMsg;

/// One room.
#[derive(Debug)]
struct Member {
    room: Name,
    /// The mark as it is recorded.
    recorded: Seq,
    /// Nothing up to here is owed, if that can be recorded.
    mark: Seq,
    /// The mark of which it is known that it is recorded.
    durable: Seq,
    /// Nothing up to here is owed, whatever can be recorded: clients have acknowledged it, or it
    /// was written to a session in the room without stream management, or the account was none of
    /// its members.
    had: Seq,
    /// The record of what clients have was refused: it is recorded again soon.
    is_owed: bool,
    /// A session of the account was in the room when it was looked at last.
    had_occupant: bool,
    /// How far sessions without stream management are; absent while none of them takes messages.
    reader: Option<Reader>,
}

#[derive(Debug)]
struct Reader {
    /// Up to here all was written.
    read: Seq,
    /// The last place that the log is known to have.
    head: Seq,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    CaughtUp,
    Behind,
    Asked { id: u32, since: Moment },
}

/// How many of the rooms that deliver to the account somebody has made who wants it to have one
/// more.
pub(crate) struct RoomsMade {
    said: Membership,
    of_one: Result<usize, StoreError>,
}

/// Who made a room is in the list of rooms, of which each node has all.
fn made_by_one(store: &Store, room: &str, others: &[Name]) -> Result<usize, StoreError> {
    let maker = |room: &str| {
        let listed = store.room(room);
        listed.map(|listed| listed.map(|listed| listed.creator))
    };
    let (own, mut count) = (maker(room)?, 0);
    for other in others {
        count += usize::from(maker(other)? == own);
    }
    Ok(count)
}

impl Member {
    fn new(room: Name, mark: Seq) -> Member {
        Member {
            room,
            recorded: mark,
            mark,
            durable: mark,
            had: 0,
            is_owed: false,
            had_occupant: false,
            reader: None,
        }
    }

    /// Where a session begins to read. What is between this and the mark is about to be given to
    /// others: if that cannot be recorded, and they go, it is nobody's but this session's.
    fn begins_at(&self) -> Place {
        Place::new(self.durable.max(self.had))
    }
}

impl Reader {
    fn at(mark: Seq) -> Reader {
        Reader {
            read: mark,
            head: mark,
            state: State::Behind,
        }
    }

    fn reaches(&mut self, place: Seq) {
        self.head = self.head.max(place);
        if self.head > self.read && self.state == State::CaughtUp {
            self.state = State::Behind;
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Members {
    rooms: Vec<Member>,
    /// Sessions without stream management that a room has put out, or did not let in. No more of
    /// each than addresses that it has sent presence to.
    out: Vec<(ConnRef, Name)>,
    last_id: u32,
    /// The store is asked who made rooms.
    is_counting: bool,
    /// An append failed then: for a while nothing is asked for, and nothing recorded that can wait.
    failed_at: Option<Moment>,
}

impl Members {
    /// What the store has takes the place of what was known, but for what is not owed in any case.
    pub(super) fn renew(&mut self, stored: &Stored) {
        let before = std::mem::take(&mut self.rooms);
        let rooms = stored.member_rooms.iter().map(|(room, mark)| {
            let mut own = Member::new(Name::from(&**room), *mark);
            let known = before.iter().find(|known| known.room == own.room);
            own.had = known.map_or(0, |known| known.had);
            own.mark = own.had.max(*mark);
            // What an occupant was written is recorded every so often, and not for this reason.
            let was_refused = known.is_some_and(|own| own.is_owed || own.recorded > *mark);
            own.is_owed = was_refused && own.mark > *mark;
            own
        });
        self.rooms = rooms.collect();
    }

    /// Whether a mark could not be recorded.
    pub(super) fn owes(&self) -> bool {
        self.rooms.iter().any(|own| own.is_owed)
    }

    fn position(&self, room: &str) -> Option<usize> {
        self.rooms.iter().position(|own| *own.room == *room)
    }

    /// An append failed: what the store has of it is about to come.
    pub(super) fn failed(&mut self, now: Moment) {
        self.failed_at.get_or_insert(now);
    }

    /// Rooms that have not answered are asked again, and all after an append that failed.
    pub(super) fn handle_timeout(&mut self, now: Moment, timeout: Duration) {
        self.failed_at = self.failed_at.filter(|at| *at + timeout > now);
        for reader in self.rooms.iter_mut().filter_map(|own| own.reader.as_mut()) {
            if let State::Asked { since, .. } = reader.state
                && since + timeout <= now
            {
                reader.state = State::Behind;
            }
        }
    }
}

/// Who is in which of the rooms that deliver to the account, in their order: looked up for all of
/// them at once, for there may be many of each.
pub(super) struct Occupied {
    /// By session: whether it is in a room.
    by_session: Vec<Vec<bool>>,
    /// Whether any is.
    has_occupant: Vec<bool>,
}

impl User {
    /// Whether any room delivers to the account as its member.
    pub(super) fn is_any_member(&self) -> bool {
        let log = self.log.as_ref();
        log.is_some_and(|log| !log.members.rooms.is_empty())
    }

    fn member(&self, room: &str) -> Option<usize> {
        self.log.as_ref()?.members.position(room)
    }

    /// Who is in rooms, or takes messages, has changed.
    pub(super) fn members_may_change(&mut self) {
        if self.is_any_member() {
            self.log().rooms_due = true;
        }
    }

    /// Sessions without stream management that take messages.
    fn plain_takers(&self) -> Vec<usize> {
        let is_one = |at: &usize| {
            let session = &self.sessions[*at];
            session.managed.is_none() && session.started && session.takes_messages()
        };
        (0..self.sessions.len()).filter(is_one).collect()
    }

    // ---- Marks ---------------------------------------------------------------------------------

    /// Moves a mark to where sessions have come, and records it if it is ahead by so much.
    fn note_mark(&mut self, at: usize, ahead: Seq) {
        let room = self.log().members.rooms[at].room.clone();
        let sessions = self.sessions.iter();
        let rooms = sessions.filter_map(|session| session.managed.as_ref()?.rooms.as_ref());
        let acked = rooms.filter_map(|rooms| rooms.acked(&room));
        let acked = acked.map(|place| place.number()).max().unwrap_or(0);
        let acked = acked * u64::from(!stdx::bugs::is("member_mark_stays"));
        let members = &mut self.log().members;
        let may_wait = ahead > 1 && members.failed_at.is_some();
        let own = &mut members.rooms[at];
        own.had = own.had.max(acked);
        own.mark = own.mark.max(acked);
        if !may_wait && own.mark >= own.recorded + ahead {
            self.record_mark(at);
        }
    }

    /// Records all marks that are ahead of their records.
    pub(super) fn record_member_marks(&mut self) {
        for at in 0..self.log().members.rooms.len() {
            self.note_mark(at, 1);
        }
    }

    /// Records the marks that could not be.
    pub(super) fn record_marks_again(&mut self) {
        if !self.is_any_member() {
            return;
        }
        for at in 0..self.log().members.rooms.len() {
            if self.log().members.rooms[at].is_owed {
                self.record_mark(at);
            }
        }
    }

    /// Whether records have every mark, and what sessions acknowledged of rooms.
    pub(super) fn has_recorded_marks(&self) -> bool {
        let Some(log) = &self.log else { return true };
        log.members.rooms.iter().all(|own| {
            let sessions = self.sessions.iter();
            let rooms = sessions.filter_map(|session| session.managed.as_ref()?.rooms.as_ref());
            let mut acked = rooms.filter_map(|rooms| rooms.acked(&own.room));
            own.mark <= own.recorded && acked.all(|place| place.number() <= own.recorded)
        })
    }

    fn record_mark(&mut self, at: usize) {
        let own = &mut self.log().members.rooms[at];
        (own.recorded, own.is_owed) = (own.mark, false);
        let (room, through) = (Name::clone(&own.room), own.mark);
        self.record(Record::MemberRoomPut {
            user: String::from(&*self.name),
            room: String::from(&*room),
            through,
        });
        self.turn().effects.push(Effect::Marked { room, through });
    }

    /// A mark is durable.
    pub(super) fn is_marked(&mut self, room: &str, through: Seq) {
        if let Some(at) = self.member(room) {
            let own = &mut self.log().members.rooms[at];
            own.durable = own.durable.max(through);
        }
    }

    /// A session without stream management was written a message of a room's log.
    pub(super) fn member_had(&mut self, message: &Frame, place: Seq) {
        if !self.is_any_member() {
            return;
        }
        let from = message.attr("from").unwrap_or_default();
        if let Some(at) = self.member(address::bare(&from)) {
            let own = &mut self.log().members.rooms[at];
            own.had = own.had.max(place);
            own.mark = own.mark.max(place);
            let ahead = self.home.bounds().member_mark_every;
            self.note_mark(at, ahead);
        }
    }

    /// A session is about to end.
    pub(super) fn ends_as_member(&mut self, at: usize) {
        let conn = self.sessions[at].conn;
        if let Some(log) = &mut self.log {
            log.members.out.retain(|(own, _)| *own != conn);
        }
        if !self.is_any_member() {
            return;
        }
        self.log().rooms_due = true;
        for room in 0..self.log().members.rooms.len() {
            self.note_mark(room, 1);
        }
    }

    // ---- Who is in the room --------------------------------------------------------------------

    /// A room has put a session without stream management out. The account may be its member
    /// later.
    pub(super) fn plain_is_out(&mut self, at: usize, room: &str) {
        let conn = self.sessions[at].conn;
        self.plain_is_not_out(at, room);
        self.log().members.out.push((conn, Name::from(room)));
    }

    pub(super) fn is_plain_out(&self, at: usize, room: &str) -> bool {
        let conn = self.sessions[at].conn;
        let log = self.log.as_ref();
        let mut out = log.iter().flat_map(|log| &log.members.out);
        out.any(|(own, from)| *own == conn && **from == *room)
    }

    pub(super) fn plain_is_not_out(&mut self, at: usize, room: &str) {
        let conn = self.sessions[at].conn;
        if let Some(log) = &mut self.log {
            let is_other = |(own, from): &(ConnRef, Name)| *own != conn || **from != *room;
            log.members.out.retain(is_other);
        }
    }

    /// A session has left a room. One that is a member reads on, so that what it was given and has
    /// not acknowledged is not given to it again.
    pub(super) fn goes_on_as_member(&mut self, room: &str) -> bool {
        let is_member = self.member(room).is_some();
        if is_member {
            self.log().rooms_due = true;
        }
        is_member
    }

    /// A session takes messages from now on, or no more. What the account had of rooms meanwhile is
    /// not given to it.
    pub(super) fn takes_as_member(&mut self, at: usize) {
        self.log().rooms_due = true;
        if !self.sessions[at].takes_messages() || self.sessions[at].managed.is_none() {
            return;
        }
        for room in 0..self.log().members.rooms.len() {
            self.note_mark(room, self.home.bounds().member_mark_every);
            let own = &self.log().members.rooms[room];
            let (name, place) = (own.room.clone(), own.begins_at());
            if let Some(rooms) = self.rooms_of(at).filter(|rooms| rooms.follows(&name)) {
                rooms.follow(name, place, false);
            }
        }
    }

    // ---- What rooms say ------------------------------------------------------------------------

    /// A room says that the account is its member, or that its log has grown.
    pub(super) fn is_member(&mut self, said: &Membership, cx: &mut Context<'_, UserMsg>) {
        self.take_membership(said, None, cx);
    }

    /// `of_one` says how many rooms of the same maker are noted, once the store was asked.
    fn take_membership(
        &mut self,
        said: &Membership,
        of_one: Option<usize>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let is_read = self.is_being_read();
        let known = self.member(&said.room);
        match self.phase {
            Phase::Registered if is_read => {
                if let Some(at) = known {
                    self.room_reaches(at, said.told);
                }
                return; // Otherwise it says so again.
            }
            Phase::Loading | Phase::Unreadable => return,
            Phase::Registered => {
                if known.is_none() && !self.has_place_for(&said.room) {
                    return; // It says so again.
                }
                if known.is_none() && !self.may_have_one_more(said, of_one, cx) {
                    return; // The same.
                }
                self.note_member(known, said);
            }
            Phase::Absent => {} // There is no such account.
        }
        if said.asks {
            let room = Name::clone(&said.room);
            self.emit(Effect::Noted { room }, cx);
        }
    }

    /// Whether one room more may be noted. Members are not asked whether they want to be: a room
    /// that the account blocks gives way.
    fn has_place_for(&mut self, room: &Name) -> bool {
        let is_blocked =
            |user: &User, room: &str| user.blocklist.is_active() && user.blocklist.covers(room);
        if is_blocked(self, room) {
            return false;
        }
        if self.log().members.rooms.len() < self.home.bounds().member_rooms_max {
            return true;
        }
        let rooms = self.log.iter().flat_map(|log| &log.members.rooms);
        let mut rooms = rooms.map(|own| Name::clone(&own.room));
        match rooms.find(|own| is_blocked(self, own)) {
            Some(blocked) => {
                self.forget_member_room(&blocked);
                true
            }
            None => {
                tracing::debug!(user = %self.name, %room, "too many rooms");
                false
            }
        }
    }

    /// Whether one room more of its maker may be noted. With so many that they may all be his, the
    /// store is asked first, about one room at a time.
    fn may_have_one_more(
        &mut self,
        said: &Membership,
        of_one: Option<usize>,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        let max = self.home.bounds().member_rooms_of_one_max;
        let (name, room) = (self.name.clone(), said.room.clone());
        let members = &mut self.log().members;
        if members.rooms.len() < max {
            return true;
        }
        if let Some(of_one) = of_one {
            if of_one >= max {
                tracing::debug!(user = %name, %room, "too many rooms of one maker");
            }
            return of_one < max;
        }
        if std::mem::replace(&mut members.is_counting, true) {
            return false;
        }
        let others: Vec<Name> = members.rooms.iter().map(|own| own.room.clone()).collect();
        let (store, said) = (self.home.store.clone(), said.clone());
        let read = move || {
            let of_one = made_by_one(&store, &room, &others);
            RoomsMade { said, of_one }
        };
        let (pool, map) = (&self.home.later_reads, |read| {
            OwnMsg::RoomsMade(read).into()
        });
        if cx.blocking(pool, read, map).is_err() {
            self.log().members.is_counting = false;
        }
        false
    }

    /// The store has said how many rooms somebody has made.
    pub(super) fn rooms_made(&mut self, read: RoomsMade, cx: &mut Context<'_, UserMsg>) {
        if let Some(log) = &mut self.log {
            log.members.is_counting = false;
        }
        match read.of_one {
            Ok(of_one) => self.take_membership(&read.said, Some(of_one), cx),
            Err(error) => tracing::warn!(user = %self.name, %error, "cannot read who made rooms"),
        }
    }

    fn note_member(&mut self, known: Option<usize>, said: &Membership) {
        let Some(at) = known else {
            let log = self.log();
            log.rooms_due = true;
            let room = Name::clone(&said.room);
            log.members.rooms.push(Member::new(room, said.since));
            let last = log.members.rooms.len() - 1;
            return self.record_mark(last);
        };
        let own = &mut self.log().members.rooms[at];
        if said.is_new && said.since > own.mark {
            // It was none for a while: of what was said then nothing is owed.
            (own.mark, own.had) = (said.since, said.since);
            if let Some(reader) = &mut own.reader {
                reader.read = reader.read.max(said.since);
            }
            self.record_mark(at);
            for session in 0..self.sessions.len() {
                let (room, since) = (said.room.clone(), Place::new(said.since));
                if let Some(rooms) = self.rooms_of(session).filter(|r| r.follows(&room)) {
                    rooms.follow(room, since, false);
                }
            }
        }
        self.room_reaches(at, said.told);
    }

    fn room_reaches(&mut self, at: usize, told: Seq) {
        let own = &mut self.log().members.rooms[at];
        let room = own.room.clone();
        if let Some(reader) = &mut own.reader {
            reader.reaches(told);
        }
        for managed in self.sessions.iter_mut().filter_map(|s| s.managed.as_mut()) {
            if let Some(rooms) = &mut managed.rooms {
                rooms.reaches(&room, Place::new(told));
            }
        }
        self.log().rooms_due = true;
    }

    /// A room delivers nothing to the account, or to a session.
    pub(super) fn is_absent(&mut self, who: &Sitting) {
        let of_session = self.sitting(who);
        let is_occupant = of_session.is_some_and(|at| self.is_in(at, &who.room));
        if !is_occupant && !self.is_being_read() {
            self.forget_member_room(&who.room);
        }
    }

    fn forget_member_room(&mut self, room: &Name) {
        let Some(at) = self.member(room) else { return };
        self.log().members.rooms.remove(at);
        self.record(Record::MemberRoomRemove {
            user: String::from(&*self.name),
            room: String::from(&**room),
        });
        for session in 0..self.sessions.len() {
            if !self.is_in(session, room) {
                self.stop_reading(session, room);
            }
        }
    }

    // ---- Reading -------------------------------------------------------------------------------

    /// Lets those read who are to.
    pub(super) fn follow_as_member(&mut self, occupied: &Occupied) {
        if !self.is_any_member() || self.is_being_read() {
            return;
        }
        let has_plain = !self.plain_takers().is_empty();
        for member in 0..self.log().members.rooms.len() {
            self.note_mark(member, self.home.bounds().member_mark_every);
            let room = self.log().members.rooms[member].room.clone();
            let has_occupant = occupied.has_occupant[member];
            let own = &mut self.log().members.rooms[member];
            let had_occupant = std::mem::replace(&mut own.had_occupant, has_occupant);
            let (mark, place) = (own.mark, own.begins_at());
            match has_plain && !has_occupant {
                true => drop(own.reader.get_or_insert_with(|| Reader::at(mark))),
                false => own.reader = None,
            }
            if !has_occupant {
                self.follow_in_sessions(&room, place, had_occupant);
            }
        }
    }

    /// Sessions with stream management begin to read at a place. What one in the room had until now
    /// is not given to others.
    fn follow_in_sessions(&mut self, room: &Name, place: Place, had_occupant: bool) {
        for at in 0..self.sessions.len() {
            let session = &self.sessions[at];
            let managed = session.managed.as_ref();
            let is_there = managed.is_some_and(|m| m.is_enabled && !m.is_recovered);
            if !is_there || !session.takes_messages() {
                continue;
            }
            if let Some(rooms) = self.rooms_of(at)
                && (had_occupant || !rooms.follows(room))
            {
                let late = u64::from(stdx::bugs::is("member_begins_late"));
                let place = Place::new(place.number() + late);
                rooms.follow(Name::clone(room), place, false);
            }
        }
    }

    /// Where the sessions are, of the rooms that deliver to the account as a member.
    pub(super) fn occupied(&self) -> Occupied {
        let log = self.log.as_ref();
        let rooms = log.map_or(&[][..], |log| &log.members.rooms);
        let places = rooms.iter().enumerate();
        let places: FxHashMap<&str, usize> = places.map(|(at, own)| (&*own.room, at)).collect();
        let mut occupied = Occupied {
            by_session: vec![vec![false; rooms.len()]; self.sessions.len()],
            has_occupant: vec![false; rooms.len()],
        };
        if rooms.is_empty() {
            return occupied;
        }
        for (at, session) in self.sessions.iter().enumerate() {
            let managed = session.managed.as_ref();
            for to in session.directed.iter().flat_map(|directed| directed.iter()) {
                let (bare, nick) = address::split(to);
                let Some(place) = nick.and_then(|_| places.get(bare)) else {
                    continue;
                };
                let room = &rooms[*place].room;
                if managed.is_none_or(|managed| !managed.put_out.contains(room)) {
                    occupied.by_session[at][*place] = true;
                    occupied.has_occupant[*place] |= !self.is_plain_out(at, room);
                }
            }
        }
        occupied
    }

    /// Rooms of which a session that is not there reads nothing now.
    pub(super) fn rooms_not_read(&self, at: usize, occupied: &Occupied) -> Vec<Name> {
        let takes = self.sessions[at].takes_messages();
        let rooms = self.log.iter().flat_map(|log| &log.members.rooms);
        let barred = rooms.enumerate().filter(|(place, _)| {
            !occupied.by_session[at][*place] && (!takes || occupied.has_occupant[*place])
        });
        barred.map(|(_, own)| Name::clone(&own.room)).collect()
    }

    /// How many rooms may be asked for a page now: none while a client has not read the ones
    /// before, for with its connection all that it has not read would be lost.
    fn member_pages(&self) -> usize {
        let mut takers = self.plain_takers().into_iter();
        if takers.any(|at| !self.follows(&self.sessions[at])) {
            return 0;
        }
        let rooms = self.log.iter().flat_map(|log| &log.members.rooms);
        let readers = rooms.filter_map(|own| own.reader.as_ref());
        let asked = readers.filter(|reader| matches!(reader.state, State::Asked { .. }));
        let at_once = self.home.bounds().member_pages_at_once;
        at_once.saturating_sub(asked.count())
    }

    /// Asks rooms for what sessions without stream management are behind with. True if some have
    /// not answered.
    pub(super) fn read_as_member(&mut self, cx: &mut Context<'_, UserMsg>) -> bool {
        if !self.is_any_member() || self.is_being_read() {
            return false;
        }
        let (now, limit) = (cx.now(), self.home.bounds().rooms.page);
        let full: Arc<str> = self.name.clone();
        let mut pulls = Vec::new();
        if self.log().members.last_id == 0 {
            self.log().members.last_id = self.home.first_question();
        }
        let mut more = self.member_pages();
        let members = &mut self.log().members;
        let mut is_waiting = members.failed_at.is_some();
        for own in &mut members.rooms {
            let Some(reader) = &mut own.reader else {
                continue;
            };
            if reader.state == State::Behind && members.failed_at.is_none() && more > 0 {
                more -= 1;
                members.last_id = members.last_id.wrapping_add(1);
                let id = members.last_id;
                reader.state = State::Asked { id, since: now };
                let who = Sitting {
                    room: Name::clone(&own.room),
                    full: Arc::clone(&full),
                    number: 0,
                };
                pulls.push(Pulled {
                    who,
                    id,
                    after: reader.read,
                    limit,
                });
            }
            is_waiting |= reader.state != State::CaughtUp;
        }
        for pulled in pulls {
            let room = Name::clone(&pulled.who.room);
            // Lost, it is asked again after a while.
            let pull = Message::ToRoom(Box::new(ToRoom::Pull(pulled)));
            self.home.say(cx, &room, pull, true);
        }
        is_waiting
    }

    /// A page of a room's log has come for sessions without stream management. They are written it
    /// once that is recorded.
    pub(super) fn page_for_members(
        &mut self,
        room: &Name,
        (page, messages): (&RoomPage, &[Frame]),
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(at) = self.member(room).filter(|_| !self.is_being_read()) else {
            return;
        };
        let takers = self.plain_takers();
        let own = &mut self.log().members.rooms[at];
        let Some(reader) = &mut own.reader else {
            return;
        };
        if !matches!(reader.state, State::Asked { id, .. } if id == page.id) {
            return;
        }
        if takers.is_empty() {
            // The last one went, or its stanzas are about to be counted: then it reads by itself.
            own.reader = None;
            return;
        }
        let before = reader.read;
        reader.read = reader.read.max(page.through.number());
        reader.state = match page.is_end && reader.head <= reader.read {
            true => State::CaughtUp,
            false => State::Behind,
        };
        own.mark = own.mark.max(reader.read);
        self.note_mark(at, 1);
        self.log().rooms_due = true;
        for session in takers {
            let (conn, full) = {
                let session = &self.sessions[session];
                (session.conn, Arc::clone(&session.full))
            };
            for (place, message) in page.places.iter().zip(messages) {
                let from = message.attr("from").unwrap_or_default();
                let is_blocked = self.blocklist.is_active() && self.blocklist.covers(&from);
                if place.number() <= before || is_blocked {
                    continue;
                }
                cx.stats().count(Counter::MessagesOut);
                cx.stats().count(Counter::RoomMemberMessages);
                self.write(conn, What::Other, cx, |out| {
                    room::write_copy(message, &full, out);
                });
            }
        }
    }
}
