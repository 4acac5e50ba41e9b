//! Members who are delivered to without being in the room (docs/rooms.md). The home of each keeps a
//! mark on the room's log, durably, and reads it from there for sessions that take messages. So a
//! member who is away costs nothing when something is said: his home asks when he is back. Owns
//! what the room tells homes: once each that the account is a member, until it is durable there;
//! and of those who are online that the log has grown, many messages at once.

use std::collections::VecDeque;
use std::time::Duration;

use actor::{Context, Name};
use room::{Affiliation, Record, Room};
use store::Seq;
use wire::{Membership, Message, OfRoom};

use super::durable::{For, OWED};
use super::{Phase, RoomActor, RoomMsg};
use crate::address;
use crate::message::UserMsg;

/// Homes that are told at a time that an account is a member, each loads one.
const ASKED_MAX: usize = 64;

/// Pause before homes that did not answer are told again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Pause between parts of a round.
const NEXT_PART: Duration = Duration::from_millis(1);

/// Pause behind a round; what is said meanwhile is told of in one.
const REST: Duration = Duration::from_millis(200);

/// Members for which that pause is a millisecond longer: so many are told of something in a second.
const MEMBERS_PER_MS: usize = 5;

/// A member whose home has to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owed {
    member: Name,
    since: Seq,
    is_new: bool,
}

/// What the room has to tell homes of members.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// Homes that do not know yet that the account is a member.
    unasked: VecDeque<Owed>,
    /// Those that were told, and have not said that it is durable.
    asked: Vec<Owed>,
    is_asking: bool,
    /// That there are such is recorded, or about to be.
    is_recorded: bool,
    /// All were told that the log goes as far as this; absent until the first round.
    told: Option<Seq>,
    /// Who is told in the round that is under way, and behind which place the news is.
    round: Vec<Name>,
    since: Seq,
    /// Members of the round, when it began.
    size: usize,
    /// Who had no room for it.
    missed: Vec<Name>,
    is_resting: bool,
}

impl Members {
    /// Nothing has to be told.
    pub(super) fn is_idle(&self) -> bool {
        self.unasked.is_empty()
            && self.asked.is_empty()
            && self.round.is_empty()
            && self.missed.is_empty()
    }

    pub(super) fn may_go_on(&mut self) {
        self.is_resting = false;
    }

    pub(super) fn may_ask_again(&mut self) {
        self.is_asking = false;
        self.unasked.extend(self.asked.drain(..));
    }

    /// A change was refused: what it owed is not.
    pub(super) fn not_committed(&mut self) {
        self.is_recorded &= !(self.unasked.is_empty() && self.asked.is_empty());
    }

    /// The mailbox of a home had no room.
    pub(super) fn missed(&mut self, member: Name) {
        if self.missed.len() < self.size.max(ASKED_MAX) && !self.missed.contains(&member) {
            self.missed.push(member);
        }
    }
}

impl RoomActor {
    /// What goes with records that may make members: should the process end before their homes
    /// know, the next life of the room tells them.
    pub(super) fn owes_more(&mut self, records: &[Record]) -> Option<Record> {
        let room = self.room.as_ref()?;
        let mut config = room.state().map(|state| &state.config);
        let mut is_any = false;
        for record in records {
            match record {
                Record::Configured(new) => (config, is_any) = (Some(&**new), true),
                Record::Unlocked | Record::Created { .. } => is_any = true,
                Record::Affiliated(new) => is_any |= new.affiliation >= Affiliation::Member,
                _ => {}
            }
        }
        let config = config?;
        let is_owed = is_any && config.delivers_to_members && config.is_persistent;
        if !is_owed || self.members.is_recorded {
            return None;
        }
        self.members.is_recorded = true;
        Some(Record::Owed(room.told()))
    }

    /// They are members, durably.
    pub(super) fn has_new_members(&mut self, new: Vec<String>) {
        let since = self.room.as_ref().map_or(0, Room::told);
        let home = &self.home;
        let new = new.iter().map(|bare| Name::from(&**bare));
        let new = new.filter(|bare| home.hosts_accounts(address::domain(bare)));
        self.members.unasked.extend(new.map(|member| Owed {
            member,
            since,
            is_new: true,
        }));
    }

    /// The room was read. If homes may not know of all members, all are told.
    pub(super) fn recover_members(&mut self) {
        self.members = Members::default();
        let Some(state) = self.room.as_ref().and_then(Room::state) else {
            return;
        };
        let Some(since) = state.owed else { return };
        // An import does not say from where on: from now on.
        let since = since.min(self.room.as_ref().map_or(0, Room::told));
        let (members, home) = (state.members(), &self.home);
        let all = members.map(|bare| Name::from(&*bare));
        let all = all.filter(|bare| home.hosts_accounts(address::domain(bare)));
        self.members.unasked = all
            .map(|member| Owed {
                member,
                since,
                is_new: false,
            })
            .collect();
        self.members.is_recorded = true;
    }

    /// A home knows that the account is a member.
    pub(super) fn member_knows(&mut self, member: &Name, cx: &mut Context<'_, UserMsg>) {
        self.members.asked.retain(|owed| owed.member != *member);
        self.owes_nobody(cx);
    }

    /// With nobody left to be told, nothing is to be told after a restart.
    pub(super) fn owes_nobody(&mut self, cx: &mut Context<'_, UserMsg>) {
        let members = &mut self.members;
        let is_over = members.unasked.is_empty() && members.asked.is_empty();
        if !(is_over && members.is_recorded) || self.phase != Phase::Ready {
            return;
        }
        members.is_recorded = false;
        let state = self.room.as_ref().and_then(Room::state);
        if !state.is_some_and(|state| state.config.is_persistent) {
            return; // It went with the room.
        }
        let none = store::Record::RoomPut {
            user: String::from(&*self.name),
            part: OWED.to_owned(),
            value: Vec::new(),
        };
        self.append(vec![none], (For::Upkeep, None), cx);
    }

    /// Tells homes what they have to know now.
    pub(super) fn work_on_members(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.phase != Phase::Ready {
            return;
        }
        self.ask_members(cx);
        if self.members.is_resting {
            return;
        }
        if self.members.round.is_empty() && !self.begin_round() {
            return;
        }
        self.tell_part(cx);
        let members = &mut self.members;
        let pause = match members.round.is_empty() {
            true => REST + Duration::from_millis((members.size / MEMBERS_PER_MS) as u64),
            false => NEXT_PART,
        };
        members.is_resting = true;
        cx.send_after(pause, UserMsg::Room(Box::new(RoomMsg::MembersDue)));
    }

    fn ask_members(&mut self, cx: &mut Context<'_, UserMsg>) {
        let told = self.room.as_ref().map_or(0, Room::told);
        while self.members.asked.len() < ASKED_MAX {
            let Some(owed) = self.members.unasked.pop_front() else {
                break;
            };
            let member = Membership {
                room: self.name.clone(),
                since: owed.since,
                told,
                is_new: owed.is_new,
                asks: true,
            };
            let member = Message::OfRoom(Box::new(OfRoom::Member(member)));
            // Lost, it is said again.
            self.home.say(cx, &owed.member, member, true);
            self.members.asked.push(owed);
        }
        if !self.members.asked.is_empty() && !self.members.is_asking {
            self.members.is_asking = true;
            let again = RoomMsg::AskMembers;
            cx.send_after(ASK_AGAIN, UserMsg::Room(Box::new(again)));
        }
    }

    /// False if nobody has to be told of anything.
    fn begin_round(&mut self) -> bool {
        let Some(room) = &self.room else { return false };
        let members = &mut self.members;
        let (told, known) = (room.told(), members.told.unwrap_or(0));
        if told <= known {
            members.round = std::mem::take(&mut members.missed);
            return !members.round.is_empty();
        }
        let is_any = room
            .state()
            .is_some_and(|state| state.config.delivers_to_members);
        // Whoever was not told of what was said before the room was read asks at his login.
        members.since = members.told.replace(told).unwrap_or(told);
        if !is_any {
            return false;
        }
        members.missed.clear();
        let absent = room.absent_members();
        members.round = absent.iter().map(|bare| Name::from(&**bare)).collect();
        members.size = members.round.len();
        true
    }

    fn tell_part(&mut self, cx: &mut Context<'_, UserMsg>) {
        let told = self.room.as_ref().map_or(0, Room::told);
        let count = self.home.options.rooms.copies_per_turn.max(1);
        let from = self.members.round.len().saturating_sub(count);
        for member in self.members.round.split_off(from) {
            if !self.home.hosts_accounts(address::domain(&member)) {
                continue;
            }
            let news = Membership {
                room: self.name.clone(),
                since: self.members.since,
                told,
                is_new: false,
                asks: false,
            };
            let news = Message::OfRoom(Box::new(OfRoom::Member(news)));
            // Who is not loaded has nobody online.
            if self.home.say(cx, &member, news, false).is_some() {
                self.members.missed(member);
            }
        }
    }
}
