//! The logs of rooms that managed sessions of this user are in (XEP-0198, docs/rooms.md): carries
//! out what [`delivery::Followed`] decides. Copies are counted and written once that is recorded,
//! or at once if it was recorded ahead; what is missed is asked for; and rooms are told which
//! sessions outlived the process, and whose clients are back. Messages are in the rooms' logs and
//! not in this user's.

use std::sync::Arc;

use actor::{Context, Mail, Name};
use delivery::{Copied, Count, Followed, Place, RoomChange, RoomPage, SessionNumber};
use room::told::{is_of_recipient, is_put_out, is_refused};
use stdx::bugs;
use store::{NumberedEntry, Record, RoomRead, Seq};
use telemetry::Counter;
use wire::{Message, OfRoom, Pulled, SharedCopy, Sitting, ToRoom};
use xml::Frame;

use super::User;
use super::barrier::Effect;
use super::managed::What;
use super::session::Session;
use crate::address;
use crate::message::UserMsg;

fn places(read: &RoomRead) -> RoomChange {
    let given = read.given.iter();
    let given = given.map(|entry| (Count::new(entry.count), Place::new(entry.seq)));
    RoomChange {
        acked: Place::new(read.acked),
        given: given.collect(),
    }
}

fn recorded(change: RoomChange) -> RoomRead {
    // In the memory of what it is made of.
    let given = change.given.into_iter();
    let given = given.map(|(count, place)| NumberedEntry {
        count: count.number(),
        seq: place.number(),
    });
    RoomRead {
        acked: change.acked.number(),
        given: given.collect(),
    }
}

impl Session {
    /// The nick under which the session is in a room, or wants to be.
    pub(super) fn nick_in(&self, room: &str) -> Option<&str> {
        let directed = self.directed.as_deref()?;
        let mut own = directed.iter().filter(|to| address::belongs_to(to, room));
        own.find_map(|to| address::split(to).1)
    }

    /// The number by which a room knows the session, if it may outlive its connection.
    pub(super) fn number_for_rooms(&self) -> Option<u32> {
        let managed = self.managed.as_ref();
        let managed = managed.filter(|managed| managed.max_seconds > 0)?;
        Some(managed.number)
    }
}

impl User {
    /// The session that a room means.
    pub(super) fn sitting(&self, who: &Sitting) -> Option<usize> {
        let at = self.managed_session(who.number)?;
        (self.sessions[at].full == who.full).then_some(at)
    }

    /// Whether a session is in a room, as far as is known here.
    pub(super) fn is_in(&self, at: usize, room: &Name) -> bool {
        let session = &self.sessions[at];
        let managed = session.managed.as_ref();
        let is_out = managed.is_some_and(|managed| managed.put_out.contains(room));
        session.nick_in(room).is_some() && !is_out
    }

    pub(super) fn rooms_of(&mut self, at: usize) -> Option<&mut Followed<Name>> {
        let home = &self.home;
        let new = || Followed::new(home.bounds().rooms).asking_behind(home.first_question());
        let managed = self.sessions[at].managed.as_mut()?;
        Some(&mut **managed.rooms.get_or_insert_with(|| new().into()))
    }

    /// The count that the next stanza of a session will have, if it can be written to.
    fn count_of_next(&self, at: usize) -> Option<Count> {
        let managed = self.sessions[at].managed.as_ref()?;
        managed.attached().filter(|_| !managed.is_full)?;
        let log = self.log.as_ref()?;
        log.inbox.next_count(SessionNumber::new(managed.number))
    }

    // ---- What is given -------------------------------------------------------------------------

    /// A message of a room's log comes to a session. False if the session is not managed: then it
    /// is written like any other stanza.
    pub(super) fn placed_copy(
        &mut self,
        at: usize,
        copy: &SharedCopy,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        if copy.place == 0 || self.sessions[at].number_for_rooms().is_none() {
            return false;
        }
        // As it is written: what has to be escaped is in no address of a room, but in nicks.
        let from = address::bare(copy.frame.attr_raw("from").unwrap_or_default());
        if let Some(had) = self.had_plain(at, from) {
            *had = copy.place.max(*had);
            return false;
        }
        self.flush_held(self.sessions[at].conn, cx);
        let count = self.count_of_next(at);
        let Some(rooms) = self.rooms_of(at) else {
            return false;
        };
        let Some(room) = rooms.rooms().find(|room| ***room == *from).cloned() else {
            self.is_of_an_entry(at, &Name::from(from));
            return true;
        };
        let place = (Place::new(copy.place), Place::new(copy.after));
        match rooms.copy(&room, place, count) {
            Copied::Given { cut } => {
                let mut bytes = Vec::new();
                room::write_copy(&copy.frame, &copy.to, &mut bytes);
                self.give_of_room(at, (&room, cut), [bytes], cx);
            }
            Copied::Foreseen => {
                let conn = self.sessions[at].conn;
                self.count_of_room(at, &room, cx);
                self.write_counted(conn, What::Elsewhere, cx, |out| {
                    room::write_copy(&copy.frame, &copy.to, out);
                });
            }
            Copied::Later => self.log().rooms_due = true,
            Copied::Again => cx.stats().count(Counter::MessagesRepeated),
        }
        true
    }

    /// Up to where a session was written what a room said, if that does not know yet that its
    /// stanzas are counted.
    fn had_plain(&mut self, at: usize, room: &str) -> Option<&mut Seq> {
        let managed = self.sessions[at].managed.as_mut()?;
        let mut plain = managed.plain_rooms.iter_mut();
        let own = plain.find(|(own, _)| **own == *room);
        own.map(|(_, had)| had)
    }

    /// A copy comes from a room that did not say yet from where on its log is owed to a session: it
    /// is asked. The copy may also be meant for an earlier session of that name, which had entered.
    fn is_of_an_entry(&mut self, at: usize, room: &Name) {
        // When the client of one that outlived the process is back, it asks all its rooms.
        if self.is_recovered(at) || self.sessions[at].nick_in(room).is_none() {
            return;
        }
        if let Some(rooms) = self.rooms_of(at) {
            rooms.follow(room.clone(), Place::START, false);
            self.log().rooms_due = true;
        }
    }

    fn is_recovered(&self, at: usize) -> bool {
        let managed = self.sessions[at].managed.as_ref();
        managed.is_some_and(|managed| managed.is_recovered)
    }

    /// Messages of a room are written to a session, once it is recorded which counts they have, and
    /// that those are not what was said ahead of another room's.
    fn give_of_room(
        &mut self,
        at: usize,
        (room, cut): (&Name, Option<Name>),
        messages: impl IntoIterator<Item = Vec<u8>>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let conn = self.sessions[at].conn;
        let number = SessionNumber::new(self.sessions[at].number);
        if let Some(cut) = cut.filter(|cut| cut != room) {
            self.record_room(at, &cut);
        }
        self.record_room(at, room);
        for bytes in messages {
            self.count_of_room(at, room, cx);
            self.log().inbox.will_write(number);
            let write = Effect::Write(conn, What::Elsewhere, bytes);
            self.turn().effects.push(write);
        }
    }

    fn count_of_room(&self, at: usize, room: &Name, cx: &mut Context<'_, UserMsg>) {
        cx.stats().count(Counter::MessagesOut);
        if self.sessions[at].nick_in(room).is_none() {
            cx.stats().count(Counter::RoomMemberMessages);
        }
    }

    pub(super) fn record_room(&mut self, at: usize, room: &Name) {
        let number = self.sessions[at].number;
        let Some(rooms) = self.rooms_of(at) else {
            return;
        };
        let read = recorded(rooms.change(room));
        self.record(Record::SessionRoomPut {
            user: Name::clone(&self.name),
            number,
            room: Name::clone(room),
            read,
        });
    }

    /// A page of a room's log has come.
    fn room_page(
        &mut self,
        who: &Sitting,
        (page, messages): (&RoomPage, &[Frame]),
        cx: &mut Context<'_, UserMsg>,
    ) {
        if *who.full == *self.name {
            return self.page_for_members(&who.room, (page, messages), cx);
        }
        let Some(at) = self.sitting(who) else {
            return;
        };
        let is_awaited = self
            .rooms_of(at)
            .is_some_and(|rooms| rooms.awaits(&who.room, page.id));
        if !is_awaited {
            return;
        }
        self.flush_held(self.sessions[at].conn, cx);
        let Some(count) = self.count_of_next(at) else {
            return; // It is asked for again when the session has a link.
        };
        // What somebody wrote whom the user has blocked is passed over.
        let is_shown = |message: &Frame| {
            let from = message.attr("from").unwrap_or_default();
            !(self.blocklist.is_active() && self.blocklist.covers(&from))
        };
        let mut shown: Vec<bool> = messages.iter().map(is_shown).collect();
        if bugs::is("room_page_gap") && shown.len() > 1 {
            shown.pop();
            shown.push(false);
        }
        let kept = page.places.iter().zip(&shown).filter(|(_, shown)| **shown);
        let shorter = RoomPage {
            places: kept.map(|(place, _)| *place).collect(),
            ..page.clone()
        };
        let Some(rooms) = self.rooms_of(at) else {
            return;
        };
        let given = rooms.page(&who.room, &shorter, count);
        let mut written = Vec::with_capacity(given.len());
        for (place, message) in page.places.iter().zip(messages) {
            if given.contains(place) {
                let mut bytes = Vec::new();
                room::write_copy(message, &who.full, &mut bytes);
                written.push(bytes);
            }
        }
        self.log().rooms_due = true;
        if !written.is_empty() {
            let cut = self.rooms_of(at).and_then(Followed::cut);
            self.give_of_room(at, (&who.room, cut), written, cx);
        }
    }

    // ---- What is missed ------------------------------------------------------------------------

    /// Asks rooms for what sessions are behind with.
    pub(super) fn work_on_rooms(&mut self, cx: &mut Context<'_, UserMsg>) {
        let Some(log) = self.log.as_mut().filter(|log| log.rooms_due) else {
            return;
        };
        log.rooms_due = false;
        let now = cx.now();
        let occupied = self.occupied();
        self.follow_as_member(&occupied);
        let mut is_waiting = self.read_as_member(cx);
        for at in 0..self.sessions.len() {
            let can_read = self.count_of_next(at).is_some();
            let barred = self.rooms_not_read(at, &occupied);
            let told = self.sessions[at].managed.as_ref();
            let told = told.map_or(0, |managed| managed.back_in.len());
            self.tell_who_is_back(at, told, cx);
            let session = &mut self.sessions[at];
            let (full, number) = (Arc::clone(&session.full), session.number);
            let managed = session.managed.as_mut();
            is_waiting |= managed.as_ref().is_some_and(|one| !one.untold.is_empty());
            let rooms = managed.and_then(|managed| managed.rooms.as_mut());
            let Some(rooms) = rooms.filter(|_| can_read) else {
                continue;
            };
            while let Some(pull) = rooms.poll_pull_of(now, |room| !barred.contains(room)) {
                let room = pull.room;
                let pulled = Pulled {
                    who: Sitting {
                        room: Name::clone(&room),
                        full: Arc::clone(&full),
                        number,
                    },
                    id: pull.id,
                    after: pull.after.number(),
                    limit: pull.limit,
                };
                let pull = Message::ToRoom(Box::new(ToRoom::Pull(pulled)));
                // Lost, it is asked again after a while.
                self.home.say(cx, &room, pull, true);
            }
            is_waiting |= rooms.deadline().is_some();
        }
        let pause = self.home.bounds().rooms.answer_timeout;
        let log = self.log();
        if is_waiting && !log.rooms_timer {
            log.rooms_timer = true;
            cx.send_after(pause, UserMsg::RoomsDue);
        }
    }

    pub(super) fn rooms_may_be_asked(&mut self, cx: &mut Context<'_, UserMsg>) {
        let now = cx.now();
        // Those that have not answered meanwhile keep nobody else from it.
        for at in 0..self.sessions.len() {
            self.tell_who_is_back(at, 0, cx);
        }
        let sessions = self.sessions.iter_mut();
        for managed in sessions.filter_map(|session| session.managed.as_mut()) {
            if let Some(rooms) = &mut managed.rooms {
                rooms.handle_timeout(now);
            }
        }
        if let Some(log) = &mut self.log {
            (log.rooms_timer, log.rooms_due) = (false, true);
            let timeout = self.home.bounds().rooms.answer_timeout;
            log.members.handle_timeout(now, timeout);
        }
    }

    // ---- What rooms say ------------------------------------------------------------------------

    pub(super) fn room_says(&mut self, said: OfRoom, cx: &mut Context<'_, UserMsg>) {
        match said {
            OfRoom::Here { who, since, is_new } => self.is_here(who, (since, is_new), cx),
            OfRoom::More { who, place } => {
                let at = self.sitting(&who);
                if let Some(rooms) = at.and_then(|at| self.rooms_of(at)) {
                    rooms.reaches(&who.room, Place::new(place));
                    self.log().rooms_due = true;
                }
            }
            OfRoom::Asks { who, told } => self.answer_room(who, told, cx),
            OfRoom::Absent(who) => {
                self.is_absent(&who);
                if let Some(at) = self.sitting(&who) {
                    self.stop_reading(at, &who.room);
                }
            }
            OfRoom::Page {
                who,
                page,
                messages,
            } => self.room_page(&who, (&page, &messages), cx),
            OfRoom::Member(member) => self.is_member(&member, cx),
        }
    }

    fn is_here(
        &mut self,
        who: Sitting,
        (since, is_new): (Option<Seq>, bool),
        cx: &mut Context<'_, UserMsg>,
    ) {
        let at = self.sitting(&who);
        let Some(since) = since else {
            if let Some(at) = at {
                self.stop_reading(at, &who.room);
            }
            return;
        };
        let Some(at) = at.filter(|at| self.sessions[*at].nick_in(&who.room).is_some()) else {
            return self.is_not_in(who, cx);
        };
        self.is_not_out(at, &who.room);
        let had = self.had_plain(at, &who.room).map_or(0, |had| *had);
        if let Some(managed) = &mut self.sessions[at].managed {
            managed.plain_rooms.retain(|(room, _)| *room != who.room);
        }
        let is_caught_up = is_new && !self.is_recovered(at);
        if let Some(rooms) = self.rooms_of(at) {
            let since = Place::new(since.max(had));
            rooms.follow(who.room.clone(), since, is_caught_up);
        }
        self.log().rooms_due = true;
    }

    /// A room has let a session in that is gone, or has left meanwhile. What says so may have come
    /// there in front of what let it in, which had waited for a home of the room.
    fn is_not_in(&mut self, who: Sitting, cx: &mut Context<'_, UserMsg>) {
        if self.phase == super::Phase::Unreadable {
            return; // Nobody knows.
        }
        let room = who.room.clone();
        let gone = Message::ToRoom(Box::new(ToRoom::NotHere(who)));
        self.home.say(cx, &room, gone, false);
    }

    /// A room asks whether a session is there.
    fn answer_room(&mut self, who: Sitting, told: Seq, cx: &mut Context<'_, UserMsg>) {
        let at = self.sitting(&who);
        let is_there = at.is_some_and(|at| self.is_in(at, &who.room));
        if self.phase == super::Phase::Unreadable {
            return; // It asks again.
        }
        if at.is_some_and(|at| self.is_about_to_hear(at, &who.room)) {
            return; // The same, if it does not know from that.
        }
        let room = who.room.clone();
        let answer = match is_there {
            true => ToRoom::Alive(who),
            false => ToRoom::NotHere(who),
        };
        self.home
            .say(cx, &room, Message::ToRoom(Box::new(answer)), false);
        // A room that crashed may not have told others what it told this one.
        if let Some(at) = at.filter(|at| is_there && !self.is_recovered(*at)) {
            self.is_back_in(at, &room, cx);
            if let Some(rooms) = self.rooms_of(at) {
                rooms.reaches(&room, Place::new(told));
            }
            self.log().rooms_due = true;
        }
    }

    /// Whether a room is about to hear that the client of a session is back, and says then what it
    /// would say to one that is there. Once: what it was told may have been lost with it.
    fn is_about_to_hear(&mut self, at: usize, room: &Name) -> bool {
        let managed = self.sessions[at].managed.as_mut();
        managed.is_some_and(|managed| {
            let told = managed.back_in.iter().position(|own| own == room);
            told.map(|told| managed.back_in.swap_remove(told)).is_some()
        })
    }

    /// A session does not read the log of a room any more, if it did.
    pub(super) fn stop_reading(&mut self, at: usize, room: &Name) {
        if self.goes_on_as_member(room) {
            return;
        }
        let number = self.sessions[at].number;
        let managed = self.sessions[at].managed.as_mut();
        let rooms = managed.and_then(|managed| managed.rooms.as_mut());
        if rooms.is_some_and(|rooms| rooms.leave(room)) {
            self.record(Record::SessionRoomRemove {
                user: String::from(&*self.name),
                number,
                room: String::from(&**room),
            });
        }
    }

    // ---- Entering and leaving ------------------------------------------------------------------

    /// A session sends presence to a room: of those to one room the last one says where it is.
    pub(super) fn enters_or_leaves(&mut self, at: usize, to: &str, leaves: bool) {
        let bare = address::bare(to);
        if let Some(directed) = &mut self.sessions[at].directed {
            directed.retain(|other| !address::belongs_to(other, bare) || !leaves && **other == *to);
        }
        self.is_not_out(at, bare);
        self.members_may_change();
        if leaves && let Some(managed) = &mut self.sessions[at].managed {
            managed.plain_rooms.retain(|(room, _)| **room != *bare);
            self.stop_reading(at, &Name::from(bare));
        }
    }

    /// Presence comes to a session: a room may say that it has put it out, or did not let it enter.
    /// Its home remembers the room all the same. The client may never read this, and is told again
    /// after a restart; or it may have entered once more since, and then the room says so next.
    pub(super) fn hears_of_itself(&mut self, at: usize, presence: &Frame) {
        let session = &self.sessions[at];
        if session.directed.is_none() {
            return;
        }
        let from = presence.attr("from").unwrap_or_default();
        let room = address::bare(&from);
        if !self.home.hosts_rooms(address::domain(room)) || session.nick_in(room).is_none() {
            return;
        }
        let is_out = match presence.attr_raw("type") {
            Some("unavailable") => is_put_out(presence),
            Some("error") => is_refused(presence),
            // Looked for only if it changes anything: a large room says much of others.
            None if (self.is_out(at, room) || self.is_awaited(at, room))
                && is_of_recipient(presence) =>
            {
                self.is_not_out(at, room);
                return self.members_may_change();
            }
            _ => false,
        };
        if is_out {
            self.is_not_out(at, room);
            match &mut self.sessions[at].managed {
                Some(managed) => managed.put_out.push(Name::from(room)),
                None => self.plain_is_out(at, room),
            }
            self.members_may_change();
        }
    }

    /// Whether a room has put a session out, and did not say since that it is there.
    fn is_out(&self, at: usize, room: &str) -> bool {
        match &self.sessions[at].managed {
            Some(managed) => managed.put_out.iter().any(|own| **own == *room),
            None => self.is_plain_out(at, room),
        }
    }

    /// A session sends presence that enters a room, or may have.
    pub(super) fn is_entering(&mut self, at: usize, room: &str) {
        if let Some(managed) = &mut self.sessions[at].managed {
            managed.entering.push(Name::from(room));
        }
    }

    /// Whether a managed session has entered a room, which has answered and did not put it out
    /// since. That it reads the room's log is not enough: a member's session does so anyway.
    pub(super) fn has_entered(&self, at: usize, room: &str) -> bool {
        let room = Name::from(room);
        let managed = self.sessions[at].managed.as_ref();
        let rooms = managed.and_then(|managed| managed.rooms.as_ref());
        let follows = rooms.is_some_and(|rooms| rooms.follows(&room));
        follows && self.is_in(at, &room) && !self.is_awaited(at, &room)
    }

    /// Whether a room has not answered yet to a session that enters it.
    fn is_awaited(&self, at: usize, room: &str) -> bool {
        let managed = self.sessions[at].managed.as_ref();
        managed.is_some_and(|managed| managed.entering.iter().any(|own| **own == *room))
    }

    /// Whether a room has put a session out is not known any more, or it has entered since.
    pub(super) fn is_not_out(&mut self, at: usize, room: &str) {
        if let Some(managed) = &mut self.sessions[at].managed {
            managed.put_out.retain(|own| **own != *room);
            managed.entering.retain(|own| **own != *room);
            managed.back_in.retain(|own| **own != *room);
            managed.untold.retain(|own| **own != *room);
            let has_untold = !managed.untold.is_empty();
            self.log().rooms_due |= has_untold;
        }
        self.plain_is_not_out(at, room);
    }

    /// A session has sent presence to as many addresses as it may: rooms that have put it out make
    /// way, the one that did so first.
    pub(super) fn forget_put_out(&mut self, at: usize) {
        let managed = self.sessions[at].managed.as_mut();
        let first = managed.filter(|managed| !managed.put_out.is_empty());
        if let Some(room) = first.map(|managed| managed.put_out.remove(0)) {
            self.enters_or_leaves(at, &room, true);
        }
    }

    // ---- Restarts and resumptions --------------------------------------------------------------

    /// A session has outlived the process: what it has of rooms, and these hear that it is there.
    pub(super) fn recover_rooms(
        &mut self,
        at: usize,
        read: &[(u32, String, RoomRead)],
        cx: &mut Context<'_, UserMsg>,
    ) {
        let number = self.sessions[at].number;
        for (_, room, read) in read.iter().filter(|(own, ..)| *own == number) {
            let room = Name::from(&**room);
            if let Some(rooms) = self.rooms_of(at) {
                rooms.recover(room, &places(read));
            }
        }
        for (room, _) in self.rooms_entered(at) {
            // Of one that gave it nothing yet the room knows from where on it is owed what is said.
            if let Some(rooms) = self.rooms_of(at) {
                rooms.follow(room.clone(), Place::START, false);
            }
            // Nobody knows whether it has let the session in.
            self.is_entering(at, &room);
            let who = Sitting {
                room: room.clone(),
                full: Arc::clone(&self.sessions[at].full),
                number,
            };
            let alive = Message::ToRoom(Box::new(ToRoom::Alive(who)));
            self.home.say(cx, &room, alive, true);
        }
    }

    /// Rooms that a session is in, as far as is known here, with its nicks.
    pub(super) fn rooms_entered(&self, at: usize) -> Vec<(Name, String)> {
        let directed = self.sessions[at].directed.iter();
        let rooms = directed
            .flat_map(|directed| directed.iter())
            .filter_map(|to| {
                let (bare, nick) = address::split(to);
                let is_room = self.home.hosts_rooms(address::domain(bare));
                is_room.then_some((Name::from(bare), nick?.to_owned()))
            });
        rooms.collect()
    }

    /// A client is back, and has handled so much: what else of rooms it was given is read again.
    /// That counts begin anew is recorded before it hears anything.
    pub(super) fn resume_rooms(&mut self, at: usize, h: u32) {
        let Some(managed) = self.sessions[at].managed.as_mut() else {
            return;
        };
        let Some(rooms) = &mut managed.rooms else {
            return;
        };
        for room in rooms.resume(Count::new(h)) {
            self.record_room(at, &room);
        }
    }

    /// That counts of rooms' messages begin anew is recorded.
    pub(super) fn record_void_rooms(&mut self, at: usize) {
        let managed = self.sessions[at].managed.as_ref();
        let rooms = managed.and_then(|managed| managed.rooms.as_ref());
        for room in rooms.map_or_else(Vec::new, |rooms| rooms.void()) {
            self.record_room(at, &room);
        }
    }

    /// It has heard that its session goes on.
    pub(super) fn rooms_resumed(
        &mut self,
        at: usize,
        missed_presence: bool,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let managed = self.sessions[at].managed.as_mut();
        if let Some(rooms) = managed.and_then(|managed| managed.rooms.as_mut()) {
            rooms.resumed();
            self.log().rooms_due = true;
        }
        // One that was given nothing yet has no record of any room: as a member it begins now.
        self.members_may_change();
        if missed_presence && self.sessions[at].number_for_rooms().is_some() {
            let rooms = self.rooms_entered(at).into_iter();
            if let Some(managed) = &mut self.sessions[at].managed {
                managed.back_in.clear();
                managed.untold = rooms.map(|(room, _)| room).collect();
            }
            self.tell_who_is_back(at, 0, cx);
            // The others are told later, whether these answer or not.
            self.log().rooms_due = true;
        }
    }

    fn is_back_in(&mut self, at: usize, room: &Name, cx: &mut Context<'_, UserMsg>) {
        let session = &self.sessions[at];
        let Some(nick) = session.nick_in(room).map(str::to_owned) else {
            return;
        };
        let who = Sitting {
            room: room.clone(),
            full: Arc::clone(&session.full),
            number: session.number,
        };
        let back = Message::ToRoom(Box::new(ToRoom::Back(who, nick)));
        let is_said = self.home.say(cx, room, back, true).is_none();
        if let Some(managed) = &mut self.sessions[at].managed {
            managed.back_in.retain(|own| own != room);
            managed.untold.retain(|own| own != room);
            match is_said {
                true => managed.back_in.push(room.clone()),
                false => managed.untold.push(room.clone()),
            }
        }
        self.log().rooms_due |= !is_said;
    }

    /// Tells rooms that a client is back: a few at a time, less those that were told and have not
    /// answered, and further ones once the client has read what they said. Each says who is there,
    /// and all at once would be more than may wait for a connection.
    fn tell_who_is_back(&mut self, at: usize, told: usize, cx: &mut Context<'_, UserMsg>) {
        let at_once = self.home.bounds().rooms_back_at_once.saturating_sub(told);
        let follows = self.follows(&self.sessions[at]);
        let managed = self.sessions[at].managed.as_mut();
        let Some(managed) = managed.filter(|_| follows) else {
            return;
        };
        let more = at_once.min(managed.untold.len());
        for room in managed.untold.drain(..more).collect::<Vec<_>>() {
            self.is_back_in(at, &room, cx);
        }
    }
}
