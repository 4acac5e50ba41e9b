//! Managed sessions in a room (XEP-0198, docs/rooms.md): who is there is durable before anybody is
//! told; after a restart their homes are asked whether they are; a session whose client comes back
//! is told who is there, and given what it has missed out of the room's log.

use std::sync::Arc;

use actor::{Context, Name};
use delivery::{Place, RoomPage};
use room::{Event, Room};
use stdx::Timestamp;
use store::{LogEntry, PageQuery, Seq, Store, StoreError};
use wire::{Message, OfRoom, Pulled, Sitting, ToRoom};
use xml::Frame;

use super::durable::Change;
use super::intake::Parked;
use super::{RoomActor, RoomMsg};
use crate::address;
use crate::entity::life::Phase;
use crate::leaving::Out;
use crate::message::UserMsg;
use crate::stored::rooms::PRESENT;

/// Who is there, on its way to be durable.
pub(super) struct Kept {
    /// What waits for it ([`crate::leaving::Leaving::wait`]).
    wait: u64,
    records: Vec<store::Record>,
    /// Nothing is left of what the machine wanted to be kept.
    pub(super) is_all: bool,
}

impl Kept {
    /// The names of the machine for the parts of it.
    pub(super) fn parts(&self) -> impl Iterator<Item = String> {
        self.records.iter().filter_map(|record| match record {
            store::Record::RoomPut { part, .. } => part.strip_prefix(PRESENT).map(str::to_owned),
            _ => None,
        })
    }
}

/// A page that was read.
pub struct PulledPage {
    who: Sitting,
    found: Result<(RoomPage, Vec<Frame>), StoreError>,
}

impl RoomActor {
    // ---- Who is there --------------------------------------------------------------------------

    /// What changed of who is there becomes durable; what leaves from here on waits for that.
    pub(super) fn keep(&mut self, parts: Vec<(String, Vec<u8>)>, cx: &mut Context<'_, UserMsg>) {
        let record = |(nick, value): (String, Vec<u8>)| store::Record::RoomPut {
            user: String::from(&*self.life.name),
            part: format!("{PRESENT}{nick}"),
            value,
        };
        let mut records: Vec<store::Record> = parts.into_iter().map(record).collect();
        let max = self.life.home.options.rooms.kept_records_max.max(1);
        while !records.is_empty() {
            let rest = records.split_off(records.len().min(max));
            let wait = self.life.leaving.wait();
            let kept = Kept {
                wait,
                is_all: rest.is_empty(),
                records,
            };
            match self.unkept.is_empty() {
                true => self.append_kept(kept, cx),
                // Not in front of what is older.
                false => self.unkept.push_back(kept),
            }
            records = rest;
        }
    }

    fn append_kept(&mut self, kept: Kept, cx: &mut Context<'_, UserMsg>) {
        let records = kept.records.clone();
        let change = Change::of_presence(kept);
        self.life.append(records, change, (None, None), cx);
    }

    /// It was refused, and what is behind it was or will be: all of that is tried again, in its
    /// order, and what waits for it waits on. Bounded by the commits that anything may wait for.
    pub(super) fn not_kept(&mut self, kept: Kept, cx: &mut Context<'_, UserMsg>) {
        if self.unkept.is_empty() {
            cx.send_after(
                self.life.home.bounds().room.keep_again,
                UserMsg::own(RoomMsg::KeepAgain),
            );
        }
        let at = self.unkept.partition_point(|other| other.wait < kept.wait);
        self.unkept.insert(at, kept);
    }

    /// Tries again what was refused.
    pub(super) fn keep_again(&mut self, cx: &mut Context<'_, UserMsg>) {
        for kept in std::mem::take(&mut self.unkept) {
            self.append_kept(kept, cx);
        }
    }

    /// The parts of which nobody knows whether they are durable.
    pub(super) fn unsure(&self) -> Vec<String> {
        let under_way = self.life.changes().filter_map(Change::kept);
        let all = self.unkept.iter().chain(under_way);
        all.flat_map(Kept::parts).collect()
    }

    /// Asks the homes of sessions of an earlier life, and of those in doubt, whether these are
    /// there.
    pub(super) fn ask_homes(&mut self, cx: &mut Context<'_, UserMsg>) {
        let is_ready = self.life.phase == Phase::Ready;
        let Some(room) = self.room.as_mut().filter(|_| is_ready) else {
            return;
        };
        let (unconfirmed, told) = (room.unconfirmed(), room.told());
        if unconfirmed.is_empty() {
            return;
        }
        for (full, number) in unconfirmed {
            let home = Name::from(address::bare(&full));
            let who = self.sitting(full, number);
            let asks = Message::OfRoom(Box::new(OfRoom::Asks { who, told }));
            self.life.leaving.push(Out::Tell(home, asks));
        }
        self.life.leave_on(cx);
        if !std::mem::replace(&mut self.asks_homes, true) {
            cx.send_after(
                self.life.home.bounds().room.ask_again,
                UserMsg::own(RoomMsg::AskHomes),
            );
        }
    }

    /// Homes that have not answered are asked again.
    pub(super) fn ask_homes_again(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.asks_homes = false;
        self.ask_homes(cx);
    }

    pub(super) fn sitting(&self, full: Arc<str>, number: u32) -> Sitting {
        Sitting {
            room: self.life.name.clone(),
            full,
            number,
        }
    }

    /// What the machine says to the home of a session.
    pub(super) fn tell_home(&mut self, (who, since): (Sitting, Option<Seq>), is_new: bool) {
        let home = Name::from(address::bare(&who.full));
        let here = OfRoom::Here { who, since, is_new };
        let out = Out::Tell(home, Message::OfRoom(Box::new(here)));
        self.life.leaving.push(out);
    }

    /// What the home of a session says.
    pub(super) fn home_says(&mut self, said: ToRoom, cx: &mut Context<'_, UserMsg>) {
        match said {
            ToRoom::Alive(who) => self.is_alive(who, cx),
            ToRoom::NotHere(who) => self.is_gone(who, cx),
            ToRoom::Back(who, nick) => self.is_back(who, nick, cx),
            ToRoom::Pull(pulled) => self.pull(pulled, cx),
            ToRoom::Noted(member) => self.member_knows(&member, cx),
            ToRoom::Missed(member, _) if !member.contains('/') => {
                let most = self.life.home.bounds().room.missed_max;
                self.members.missed(member, most);
            }
            ToRoom::Missed(full, place) => self.life.leaving.misses(full, place),
        }
    }

    /// A client is back. While the room cannot be read, or is busy, it waits until it is heard.
    fn is_back(&mut self, who: Sitting, nick: String, cx: &mut Context<'_, UserMsg>) {
        let event = Event::Back {
            address: Arc::clone(&who.full),
            number: who.number,
            nick: nick.clone(),
        };
        // The last word of each session counts.
        let full = Arc::clone(&who.full);
        match self.life.phase == Phase::Ready && self.happens(event, None, cx).is_ok() {
            true => self.back.remove(&full),
            false => self.back.insert(full, (who, nick)),
        };
    }

    /// Hears those who wait, as many as the room may send to at a time: all that they wait for is a
    /// message to this actor.
    pub(super) fn hear_back(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.back.is_empty() || self.life.phase != Phase::Ready {
            return;
        }
        let mut waiting = std::mem::take(&mut self.back);
        while !self.life.leaving.is_busy()
            && !self.room.as_ref().is_some_and(Room::is_busy)
            && let Some((_, (who, nick))) = waiting.pop_first()
        {
            self.is_back(who, nick, cx);
        }
        self.back.append(&mut waiting);
    }

    /// The home of a session says that it is there. Of an earlier one than the occupant that says
    /// nothing.
    fn is_alive(&mut self, who: Sitting, cx: &mut Context<'_, UserMsg>) {
        if self.life.phase != Phase::Ready || !self.is_occupant(&who) {
            return; // It is asked again, if it is unconfirmed.
        }
        // Invariant: such an event is always taken.
        let _ = self.happens(Event::Confirmed { address: who.full }, None, cx);
    }

    /// Whether the session that a home means is the one that is in the room.
    fn is_occupant(&self, who: &Sitting) -> bool {
        let number = self.room.as_ref().and_then(|r| r.managed_number(&who.full));
        number == Some(who.number)
    }

    /// The home of a session says that it is not there. In its turn. If presence of that session
    /// has come since it was asked for, the two may have crossed: an earlier life of this room may
    /// have said to the session that it is out, of what it sent before. It was told since that it
    /// is there, and is not put out for that: its home is asked again, behind that word.
    pub(super) fn is_gone(&mut self, who: Sitting, cx: &mut Context<'_, UserMsg>) {
        let waits = self.back.get(&who.full);
        if waits.is_some_and(|(own, _)| own.number == who.number) {
            self.back.remove(&who.full);
        }
        if self.life.phase != Phase::Ready || !self.is_occupant(&who) {
            return;
        }
        if let Some(room) = self.room.as_mut().filter(|r| !r.is_unconfirmed(&who.full)) {
            room.unconfirm(&who.full);
            return self.ask_homes(cx);
        }
        let event = Event::Gone {
            address: Arc::clone(&who.full),
        };
        if self.happens(event, None, cx).is_err() {
            self.parked = Some(Parked::Gone(who));
        }
    }

    // ---- What was missed -----------------------------------------------------------------------

    /// Copies found no room in the mailboxes of homes: these are told so after a while.
    pub(super) fn look_at_missed(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.life.leaving.has_missed() && !self.tells_missed {
            self.tells_missed = true;
            cx.send_after(
                self.life.home.bounds().room.tell_again,
                UserMsg::own(RoomMsg::TellMissed),
            );
        }
    }

    /// A room that nobody is in, and whose end was refused, ends after a pause.
    pub(super) fn look_at_end(&mut self, cx: &mut Context<'_, UserMsg>) {
        if !self.ends && self.room.as_ref().is_some_and(Room::is_to_end) {
            self.ends = true;
            cx.send_after(
                self.life.home.bounds().room.end_again,
                UserMsg::own(RoomMsg::End),
            );
        }
    }

    pub(super) fn end_again(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.ends = false;
        // With something under way it is looked at again.
        if self.parked.is_none() {
            let _ = self.happens(Event::End, None, cx);
        }
    }

    /// Those whose mailboxes are full still are told later ([`RoomActor::look_at_missed`]).
    pub(super) fn tell_of_missed(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.tells_missed = false;
        for (full, place) in self.life.leaving.take_missed() {
            let room = self.room.as_ref();
            let Some(number) = room.and_then(|room| room.managed_number(&full)) else {
                continue;
            };
            let home = Name::from(address::bare(&full));
            let who = self.sitting(Arc::clone(&full), number);
            let more = Message::OfRoom(Box::new(OfRoom::More { who, place }));
            if self.life.home.say(cx, &home, more, true).is_some() {
                self.life.leaving.misses(full, place);
            }
        }
    }

    /// A session asks for what it has missed. If the store is too busy, it asks again.
    pub(super) fn pull(&mut self, mut pulled: Pulled, cx: &mut Context<'_, UserMsg>) {
        let Some(room) = self
            .room
            .as_ref()
            .filter(|_| self.life.phase == Phase::Ready)
        else {
            return;
        };
        let state = room.state();
        let is_kept = state.is_some_and(room::State::is_durable);
        let is_occupant = room.managed_number(&pulled.who.full) == Some(pulled.who.number);
        let bare = address::bare(&pulled.who.full);
        let is_member = state.is_some_and(|state| state.delivers_to(bare));
        if !is_kept || !(is_occupant || is_member) {
            // Its home forgets what it has of the log. If who is there is not durable, it may be
            // there again after a restart, and would be given everything once more: it asks again.
            if !self.unsure().is_empty() {
                return;
            }
            let home = Name::from(address::bare(&pulled.who.full));
            let absent = Message::OfRoom(Box::new(OfRoom::Absent(pulled.who)));
            self.life.home.say(cx, &home, absent, false);
            return;
        }
        // What was said before it entered is not owed, nor more than so much to who is not there.
        let backlog_max = match is_occupant {
            true => {
                pulled.after = pulled.after.max(room.since(&pulled.who.full));
                u64::MAX
            }
            false => self.life.home.bounds().member_backlog_max,
        };
        let (store, name, told) = (
            self.life.home.store.clone(),
            self.life.name.clone(),
            room.told(),
        );
        let bytes_max = self.life.home.bounds().page_bytes;
        let read = move || {
            let since = latest(&store, &name, backlog_max, (pulled.after, told));
            let found = since.and_then(|since| {
                pulled.after = since;
                page(&store, &name, &pulled, (told, bytes_max))
            });
            let who = pulled.who;
            Box::new(PulledPage { who, found })
        };
        let map = |page| UserMsg::own(RoomMsg::Pulled(page));
        let _ = cx.blocking(&self.life.home.later_reads, read, map);
    }

    pub(super) fn pulled(&mut self, page: PulledPage, cx: &mut Context<'_, UserMsg>) {
        let PulledPage { who, found } = page;
        let (page, messages) = match found {
            Ok(found) => found,
            Err(error) => {
                let room = &self.life.name;
                return tracing::warn!(%room, %error, "cannot read what was missed");
            }
        };
        let home = Name::from(address::bare(&who.full));
        let room = self.room.as_ref();
        let may_have = room.is_some_and(|room| {
            let is_member = room.state().is_some_and(|state| state.delivers_to(&home));
            is_member || room.managed_number(&who.full) == Some(who.number)
        });
        if !may_have {
            return; // It asks again, and hears so.
        }
        let page = OfRoom::Page {
            who,
            page,
            messages,
        };
        // Lost, it is asked for again.
        self.life
            .home
            .say(cx, &home, Message::OfRoom(Box::new(page)), false);
    }
}

/// Where a reader goes on who has come to `after` and is owed the latest `count` messages at most.
/// Places have gaps, after a start for instance: messages are counted, and not places.
fn latest(
    store: &Store,
    room: &str,
    count: u64,
    (after, told): (Seq, Seq),
) -> Result<Seq, StoreError> {
    let (mut first, mut left) = (told.saturating_add(1), count);
    while left > 0 && first.saturating_sub(after) > left {
        let query = PageQuery {
            after: Some(after),
            before: Some(first),
            limit: usize::try_from(left).unwrap_or(usize::MAX),
            backwards: true,
            ..PageQuery::default()
        };
        let page = store.log_page(room, &query)?;
        match page.entries.first() {
            Some(entry) if !page.complete => first = entry.seq,
            _ => return Ok(after),
        }
        left = left.saturating_sub(page.entries.len() as u64);
    }
    Ok(match left {
        0 => first.saturating_sub(1).max(after),
        _ => after,
    })
}

/// A page of a room's log, up to so many bytes; everything up to `told` is committed.
fn page(
    store: &Store,
    room: &str,
    pulled: &Pulled,
    (told, bytes_max): (Seq, usize),
) -> Result<(RoomPage, Vec<Frame>), StoreError> {
    let entries = store.log_read(room, pulled.after, pulled.limit)?;
    let mut is_end = entries.len() < pulled.limit;
    let (mut places, mut messages) = (Vec::new(), Vec::new());
    let (mut bytes, mut through) = (0, pulled.after);
    for entry in entries {
        bytes += entry.frame.len();
        if bytes > bytes_max && !messages.is_empty() {
            is_end = false;
            break;
        }
        through = entry.seq;
        match late(&entry, room) {
            Some(message) => {
                places.push(Place::new(entry.seq));
                messages.push(message);
            }
            None => tracing::error!(room, seq = entry.seq, "a stored message is damaged"),
        }
    }
    if is_end {
        through = through.max(told);
    }
    let page = RoomPage {
        id: pulled.id,
        places,
        through: Place::new(through),
        is_end,
    };
    Ok((page, messages))
}

fn late(entry: &LogEntry, room: &str) -> Option<Frame> {
    let at: Timestamp = entry.at;
    room::late(&entry.frame, at, room)
}
