//! The logs of rooms, as one managed session reads them (docs/rooms.md). The room decides the order
//! and keeps the messages; the session's home numbers what its client is sent, and knows up to
//! where the client has each room's log.
//!
//! A *copy* comes from the room with its place and the place in front of it. One that follows what
//! the session was given last is given at once, with the next count; one that does not, or that
//! cannot be sent now, is left to the log: the room is *behind*, and is asked for pages from the
//! session's place on until nothing is left. So a copy may be lost, or come twice, or come while
//! there is no link: only places count.
//!
//! | room | event | room | effect |
//! |---|---|---|---|
//! | caught up | copy that follows, room in the window | caught up | record the count, then write |
//! | caught up | copy that does not follow, or cannot be sent | behind | |
//! | behind | link, and room in the window | asked | pull a page |
//! | asked | page | caught up, or behind | record the counts, then write |
//! | asked | no answer for a while | behind | next it is asked for one message |
//! | any | link lost | behind, if it was asked or not caught up | |
//! | any | resumed: some of what was given did not arrive | behind | record that it was not given |
//! | any | append failed | behind, if it was given something by it | nothing is asked for during a pause |
//!
//! The window is one for all rooms, and what was asked for has its place in it: pages of many rooms
//! that come at once do not exceed it. Rooms are asked by turns, so that none waits for another
//! that always has more; and one that did not answer in time keeps one place until it does, so that
//! rooms that are slow leave the window to the others.
//!
//! What is recorded of a room ([`RoomChange`]) says what the session was given and has not
//! acknowledged, with the counts: after a restart the client's `h` says which of it arrived. Where
//! copies of one room follow each other with nothing between them, it also says *ahead* which
//! counts the next ones will have, so that they need no record of their own ([`run`]).

use std::collections::VecDeque;

use stdx::bugs;
use stdx::time::Moment;

use crate::limits::FollowLimits;
use crate::place::{Count, Place};
use run::Run;

mod run;

/// What becomes of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Copied<R> {
    /// It is written with the next count, once [`Followed::change`] of its room is recorded.
    Given {
        /// A room of which that has to be recorded as well: this copy has a count that was said
        /// ahead of it.
        cut: Option<R>,
    },
    /// It is written with the next count. An earlier record says so; that may not be committed yet.
    Foreseen,
    /// It is read from the room's log when its turn comes.
    Later,
    /// The session has it already.
    Again,
}

/// A page to ask a room for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pull<R> {
    /// The room.
    pub room: R,
    /// Names the answer.
    pub id: u32,
    /// Messages behind this place.
    pub after: Place,
    /// Most messages.
    pub limit: usize,
}

/// A page of a room's log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoomPage {
    /// [`Pull::id`].
    pub id: u32,
    /// Places of what the session is to be given, in order.
    pub places: Vec<Place>,
    /// Up to here the log was looked at.
    pub through: Place,
    /// There was nothing behind that.
    pub is_end: bool,
}

/// What is to be recorded of one room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RoomChange {
    /// Nothing up to here is owed.
    pub acked: Place,
    /// What was given behind that and is not acknowledged, in order.
    pub given: Vec<(Count, Place)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    CaughtUp,
    Behind,
    Asked {
        id: u32,
        since: Moment,
        /// Places of the window that are kept for the answer.
        limit: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Room<R> {
    room: R,
    /// Up to here everything was given.
    read: Place,
    /// The last place that the log is known to have.
    head: Place,
    state: State,
    /// What is recorded of it may have counts that were given out anew since.
    is_void: bool,
    /// It did not answer in time when it was asked last.
    is_slow: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct InFlight<R> {
    room: R,
    place: Place,
    count: Count,
}

/// How far one session has read the logs of the rooms that it is in. `R` names a room.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Followed<R> {
    limits: FollowLimits,
    rooms: Vec<Room<R>>,
    /// Given and not acknowledged, in the order of the counts.
    flight: VecDeque<InFlight<R>>,
    /// So many of the last ones wait for their commit.
    unsent: usize,
    last_id: u32,
    /// The room that is asked next, if it is behind, or the first one behind it.
    turn: usize,
    /// An append failed then: nothing is asked for before [`FollowLimits::answer_timeout`].
    failed_at: Option<Moment>,
    /// The copies that were given last, if they follow each other.
    run: Option<Run<R>>,
    /// Counts were said ahead for copies whose run has ended, and not all is decided that waited
    /// then: a record that takes counts back, or copies that had them.
    is_unsure: bool,
}

impl<R: Clone + Eq> Followed<R> {
    /// A session that is in no room.
    pub fn new(limits: FollowLimits) -> Self {
        Followed {
            limits,
            rooms: Vec::new(),
            flight: VecDeque::new(),
            unsent: 0,
            last_id: 0,
            turn: 0,
            failed_at: None,
            run: None,
            is_unsure: false,
        }
    }

    /// What it asks for has numbers behind this one. Pages that an earlier reader of the same
    /// session asked for may be on their way still: they begin elsewhere, and must not be taken for
    /// others.
    #[must_use]
    pub fn asking_behind(self, id: u32) -> Self {
        Followed {
            last_id: id,
            ..self
        }
    }

    /// Takes up what is recorded of a room: [`Followed::resume`] or [`Followed::adopt`] follows
    /// before anything is given. What was given, of all rooms, comes in any order. What was only
    /// said ahead is part of it: no count of that was written, so that the client has none of it.
    pub fn recover(&mut self, room: R, recorded: &RoomChange) {
        let last = recorded.given.last().map_or(recorded.acked, |last| last.1);
        self.rooms.push(Room {
            room: room.clone(),
            read: last,
            // The log may not go as far as what was said ahead.
            head: recorded.acked,
            state: State::Behind,
            is_void: false,
            is_slow: false,
        });
        for &(count, place) in &recorded.given {
            let room = room.clone();
            let behind = self
                .flight
                .iter()
                .take_while(|own| !own.count.is_after(count));
            let at = behind.count();
            self.flight.insert(at, InFlight { room, place, count });
        }
    }

    /// Whether the session reads the room's log.
    pub fn follows(&self, room: &R) -> bool {
        self.rooms.iter().any(|own| own.room == *room)
    }

    /// Whether something was given and is not acknowledged.
    pub fn has_in_flight(&self) -> bool {
        !self.flight.is_empty()
    }

    /// The session is in a room from now on, and everything behind a place is owed to it;
    /// `is_caught_up` says that there is nothing yet. A room that it reads already stays where it
    /// is, unless that is in front of the place.
    pub fn follow(&mut self, room: R, at: Place, is_caught_up: bool) {
        if let Some(own) = self.rooms.iter_mut().find(|own| own.room == room) {
            own.read = own.read.max(at);
            own.head = own.head.max(at);
        } else {
            self.rooms.push(Room {
                room,
                read: at,
                head: at,
                state: match is_caught_up {
                    true => State::CaughtUp,
                    false => State::Behind,
                },
                is_void: false,
                is_slow: false,
            });
        }
    }

    /// The session is not in a room any more, and what is recorded of it is to be removed. False if
    /// it was not.
    pub fn leave(&mut self, room: &R) -> bool {
        let before = self.rooms.len();
        if self.run.as_ref().is_some_and(|run| run.room == *room) {
            self.cut();
        }
        self.rooms.retain(|own| own.room != *room);
        before != self.rooms.len()
    }

    /// The log of a room goes as far as this.
    pub fn reaches(&mut self, room: &R, place: Place) {
        if let Some(own) = self.rooms.iter_mut().find(|own| own.room == *room)
            && place > own.read
        {
            own.head = own.head.max(place);
            if own.state == State::CaughtUp {
                own.state = State::Behind;
            }
        }
    }

    /// A copy of a message at a place behind `after` has come. `count` is that of the next stanza
    /// that is written to the session, if it can be written to: its link is there, and it is not
    /// being resumed.
    pub fn copy(
        &mut self,
        room: &R,
        (place, after): (Place, Place),
        count: Option<Count>,
    ) -> Copied<R> {
        if !self.follows(room) {
            self.rooms.push(Room {
                room: room.clone(),
                read: after,
                head: after,
                state: State::CaughtUp,
                is_void: false,
                is_slow: false,
            });
        }
        let has_room = self.places_left() > 0;
        let mut rooms = self.rooms.iter_mut();
        // Invariant: it was added above if it was not there.
        let own = rooms.find(|own| own.room == *room).expect("it is there");
        if place <= own.read {
            return Copied::Again;
        }
        own.head = own.head.max(place);
        match count {
            Some(count) if own.state == State::CaughtUp && after <= own.read && has_room => {
                own.read = place;
                let named = own.room.clone();
                self.flight.push_back(InFlight {
                    room: named,
                    place,
                    count,
                });
                self.unsent += 1;
                self.goes_on(room, (count, place))
            }
            _ => {
                if own.state == State::CaughtUp {
                    own.state = State::Behind;
                }
                Copied::Later
            }
        }
    }

    /// A copy was given. Either its count was said ahead of it, or that is to be recorded now, with
    /// what is said ahead of the next ones.
    fn goes_on(&mut self, room: &R, (count, place): (Count, Place)) -> Copied<R> {
        if let Some(run) = &mut self.run
            && run.goes_on(room, (count, place))
        {
            if run.has(count) {
                return Copied::Foreseen;
            }
            run.say_ahead(&self.limits);
            return Copied::Given { cut: None };
        }
        let cut = self.cut();
        self.run = Some(Run::new(room.clone(), (count, place)));
        Copied::Given { cut }
    }

    /// Something else gets the next count: another stanza, or the first message of a page. Gives
    /// the room of which that has to be recorded before it is written, because the count was said
    /// ahead of the room's next message.
    pub fn cut(&mut self) -> Option<R> {
        let run = self.run.take()?;
        self.is_unsure |= run.is_ahead() || self.unsent > 0 && run.has_said_any();
        run.is_ahead().then_some(run.room)
    }

    /// Whether counts behind what was written are recorded, or may be. Nothing but the messages
    /// that have them may be written now, without [`Followed::cut`] and a commit.
    pub fn is_ahead(&self) -> bool {
        let first = self.flight.get(self.flight.len() - self.unsent);
        let is_ahead = |run: &Run<R>| match first {
            Some(first) => run.has_said_any() && run.has(first.count),
            None => run.is_ahead(),
        };
        self.is_unsure || self.run.as_ref().is_some_and(is_ahead)
    }

    /// How many of the first copies that were not written do not depend on a record that is not
    /// committed.
    pub fn founded(&self) -> usize {
        let sent = self.flight.len() - self.unsent;
        let unsent = self.flight.iter().skip(sent);
        let Some(run) = &self.run else { return 0 };
        unsent.take_while(|own| run.is_founded(own.count)).count()
    }

    /// Whether a count was said ahead, and not given yet.
    pub fn has_said(&self, count: Count) -> bool {
        let run = self.run.as_ref();
        run.is_some_and(|run| run.has(count) && count.is_after(run.last()))
    }

    /// Whether, if an append is refused now, nobody can say which counts a record has for messages
    /// that were not written: then the session cannot go on as it is, but has to be recovered.
    pub fn is_unsure(&self) -> bool {
        self.is_unsure
    }

    /// All that was recorded is committed, and what waited for it is written.
    pub fn settled(&mut self) {
        self.is_unsure = false;
    }

    /// What is to be recorded of a room now.
    pub fn change(&self, room: &R) -> RoomChange {
        let given = self.flight.iter().filter(|entry| entry.room == *room);
        let mut given: Vec<(Count, Place)> =
            given.map(|entry| (entry.count, entry.place)).collect();
        let own = self.rooms.iter().find(|own| own.room == *room);
        let read = own.map_or(Place::START, |own| own.read);
        let acked = given.first().map_or(read, |(_, place)| place.before());
        if let Some(run) = self.run.as_ref().filter(|run| run.room == *room) {
            given.extend(run.ahead());
        }
        RoomChange { acked, given }
    }

    /// Nothing of a room up to here is owed; absent if its log is not read.
    pub fn acked(&self, room: &R) -> Option<Place> {
        let own = self.rooms.iter().find(|own| own.room == *room)?;
        let first = self.flight.iter().find(|entry| entry.room == *room);
        Some(first.map_or(own.read, |first| first.place.before()))
    }

    /// The first of what waits for its commit was written.
    pub fn sent(&mut self) {
        let sent = self.flight.len() - self.unsent;
        if let (Some(run), Some(entry)) = (&mut self.run, self.flight.get(sent)) {
            run.was_written(entry.count);
        }
        self.unsent = self.unsent.saturating_sub(1);
        self.failed_at = None;
    }

    /// The client has handled everything up to a count. True if that made room.
    pub fn acknowledge(&mut self, h: Count) -> bool {
        let sent = self.flight.len() - self.unsent;
        let acked = self.flight.iter().take(sent);
        let acked = acked.take_while(|entry| !entry.count.is_after(h)).count();
        self.flight.drain(..acked);
        if self.flight.is_empty() {
            self.flight = VecDeque::new(); // Most are at rest, and then take no memory.
        }
        acked > 0
    }

    /// The link is gone: nobody waits for an answer.
    pub fn detach(&mut self) {
        for own in &mut self.rooms {
            if matches!(own.state, State::Asked { .. }) {
                own.state = State::Behind;
            }
        }
    }

    /// The client is back and has handled everything up to a count. What else it was given did not
    /// arrive, and is read again; every room is asked for more. Gives the rooms of which that has
    /// to be recorded before anything is sent: counts begin anew behind `h`.
    pub fn resume(&mut self, h: Count) -> Vec<R> {
        self.detach();
        self.unsent = 0;
        self.acknowledge(h);
        let run = self.run.take().filter(|run| run.is_behind(h));
        let is_unsure = std::mem::take(&mut self.is_unsure);
        for own in &mut self.rooms {
            own.state = State::Behind;
            let is_ahead = run.as_ref().is_some_and(|run| run.room == own.room);
            own.is_void |= is_unsure || is_ahead;
        }
        for entry in std::mem::take(&mut self.flight).into_iter().rev() {
            if let Some(own) = self.rooms.iter_mut().find(|own| own.room == entry.room) {
                if !bugs::is("room_given_lost") {
                    own.read = own.read.min(entry.place.before());
                }
                own.is_void = true;
            }
        }
        self.void()
    }

    /// What [`Followed::resume`] asked for is recorded, and the client has heard that its session
    /// goes on.
    pub fn resumed(&mut self) {
        for own in &mut self.rooms {
            own.is_void = false;
        }
    }

    /// Half of the window is full: the client should say soon what it has.
    pub fn should_ask(&self) -> bool {
        2 * self.flight.len() >= self.limits.window
    }

    /// Whether rooms wait for the client to acknowledge something.
    pub fn waits_for_client(&self) -> bool {
        let is_behind = |own: &Room<R>| own.state == State::Behind;
        self.flight.len() >= self.limits.window && self.rooms.iter().any(is_behind)
    }

    /// An append failed, and so did everything behind it. To be called once all appends are
    /// decided, and [`Followed::sent`] for what was written: what is left was not given. One more
    /// that fails while nothing is asked for does not prolong that: where some always fail, nothing
    /// would ever be given.
    pub fn failed(&mut self, now: Moment) {
        self.failed_at.get_or_insert(now);
        self.take_back();
    }

    /// The session goes on at a home that began anew, with the connection that it has. What was to
    /// be written with commits of the earlier life was not, and is read again once it is recorded
    /// that it was not given.
    pub fn adopted(&mut self) {
        self.failed_at = None;
        self.take_back();
        for own in &mut self.rooms {
            own.state = State::Behind;
        }
    }

    /// The same for a session that was recovered at another home: its connection was written
    /// everything up to the count `written`, of which its client has acknowledged `h`. What was not
    /// written has to be recorded before anything is ([`Followed::void`]).
    pub fn adopt(&mut self, (h, written): (Count, Count)) {
        self.unsent = 0;
        self.detach();
        self.acknowledge(h);
        for own in &mut self.rooms {
            own.state = State::Behind;
        }
        let sent = self.flight.iter();
        let sent = sent.take_while(|entry| !entry.count.is_after(written));
        let sent = sent.count();
        for entry in self.flight.drain(sent..).rev() {
            if let Some(own) = self.rooms.iter_mut().find(|own| own.room == entry.room) {
                own.read = own.read.min(entry.place.before());
                own.is_void = true;
            }
        }
    }

    /// Rooms of which a record may have counts that were given out anew since: before anything has
    /// these counts, it has to be recorded what was given.
    pub fn void(&self) -> Vec<R> {
        let void = self.rooms.iter().filter(|own| own.is_void);
        void.map(|own| own.room.clone()).collect()
    }

    /// Counts of what was given and is not acknowledged, in order.
    pub fn in_flight(&self) -> impl Iterator<Item = Count> {
        self.flight.iter().map(|entry| entry.count)
    }

    /// The rooms whose logs are read.
    pub fn rooms(&self) -> impl Iterator<Item = &R> {
        self.rooms.iter().map(|own| &own.room)
    }

    fn take_back(&mut self) {
        let sent = self.flight.len() - self.unsent;
        self.unsent = 0;
        let first = self.flight.get(sent).map(|entry| entry.count);
        self.run.take_if(|run| !run.take_back(first));
        for entry in self.flight.drain(sent..).rev() {
            if let Some(own) = self.rooms.iter_mut().find(|own| own.room == entry.room) {
                own.read = own.read.min(entry.place.before());
                own.state = State::Behind;
            }
        }
        self.detach();
    }

    /// Places of the window that nothing has, and that are kept for no answer.
    fn places_left(&self) -> usize {
        let kept = self.rooms.iter().map(|own| match own.state {
            State::Asked { limit, .. } => limit,
            State::CaughtUp | State::Behind => 0,
        });
        let taken = self.flight.len() + kept.sum::<usize>();
        self.limits.window.saturating_sub(taken)
    }

    /// The next page to ask for. The session can be written to.
    pub fn poll_pull(&mut self, now: Moment) -> Option<Pull<R>> {
        self.poll_pull_of(now, |_| true)
    }

    /// The same of rooms that may be read now.
    pub fn poll_pull_of(&mut self, now: Moment, may: impl Fn(&R) -> bool) -> Option<Pull<R>> {
        let left = self.places_left();
        if left == 0 || self.failed_at.is_some() {
            return None;
        }
        let is_behind = |own: &Room<R>| own.state == State::Behind && may(&own.room);
        let turn = self.turn.min(self.rooms.len());
        let next = self.rooms[turn..].iter().position(is_behind);
        let at = match next {
            Some(behind) => turn + behind,
            None => self.rooms[..turn].iter().position(is_behind)?,
        };
        self.turn = at + 1;
        self.last_id = self.last_id.wrapping_add(1);
        let id = self.last_id;
        let own = &mut self.rooms[at];
        let page = match own.is_slow {
            true => 1,
            false => self.limits.page,
        };
        let limit = left.min(page);
        own.state = State::Asked {
            id,
            since: now,
            limit,
        };
        Some(Pull {
            room: own.room.clone(),
            id,
            after: own.read,
            limit,
        })
    }

    /// When [`Followed::handle_timeout`] has something to do.
    pub fn deadline(&self) -> Option<Moment> {
        let asked = self.rooms.iter().filter_map(|own| match own.state {
            State::Asked { since, .. } => Some(since),
            State::CaughtUp | State::Behind => None,
        });
        let first = asked.chain(self.failed_at).min()?;
        Some(first + self.limits.answer_timeout)
    }

    /// Rooms that have not answered are asked again, and so are all after an append that failed.
    pub fn handle_timeout(&mut self, now: Moment) {
        let timeout = self.limits.answer_timeout;
        self.failed_at = self.failed_at.filter(|at| *at + timeout > now);
        for own in &mut self.rooms {
            if let State::Asked { since, .. } = own.state
                && since + timeout <= now
            {
                own.state = State::Behind;
                own.is_slow = true;
            }
        }
    }

    /// Whether a page is the one that the room was asked for.
    pub fn awaits(&self, room: &R, id: u32) -> bool {
        let is_it = |own: &Room<R>| {
            own.room == *room && matches!(own.state, State::Asked { id: own, .. } if own == id)
        };
        self.rooms.iter().any(is_it)
    }

    /// A page has come, which the session awaits. `count` is that of the next stanza that is
    /// written to the session: the page's entries get it and those behind it. All of them leave
    /// once [`Followed::change`] of the room is recorded, behind [`Followed::cut`]. Gives how many,
    /// of the page's first ones; others the session has already.
    pub fn page(&mut self, room: &R, page: &RoomPage, count: Count) -> Vec<Place> {
        let mut rooms = self.rooms.iter_mut();
        let Some(own) = rooms.find(|own| own.room == *room) else {
            return Vec::new();
        };
        let new = page.places.iter().filter(|place| **place > own.read);
        let new: Vec<Place> = new.copied().collect();
        for (more, place) in new.iter().enumerate() {
            self.flight.push_back(InFlight {
                room: room.clone(),
                place: *place,
                count: count.plus(more as u32),
            });
        }
        self.unsent += new.len();
        own.read = own.read.max(page.through);
        own.is_slow = false;
        let has_all = page.is_end && own.head <= own.read;
        own.state = match has_all {
            true => State::CaughtUp,
            false => State::Behind,
        };
        new
    }
}

#[cfg(test)]
mod tests;
