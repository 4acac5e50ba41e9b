//! Members who are delivered to without being in the room (docs/rooms.md). The home of each keeps a
//! mark on the room's log, durably, and reads it from there for sessions that take messages. So a
//! member who is away costs nothing when something is said: his home asks when he is back. Owns
//! what the room tells homes: once each that the account is a member, until it is durable there;
//! and of those who are online that the log has grown, many messages at once.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use actor::{Context, Name};
use room::{Affiliation, Record, Room};
use store::Seq;
use wire::{Membership, Message, OfRoom};

use super::durable::For;
use super::{RoomActor, RoomMsg};
use crate::address;
use crate::entity::life::Phase;
use crate::message::UserMsg;
use crate::options::Tells;
use crate::stored::rooms::OWED;

/// A member whose home has to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owed {
    since: Seq,
    is_new: bool,
    /// How often its home was told in a row.
    asks: u32,
    /// It is in [`Members::unasked`].
    is_queued: bool,
}

/// What the room has to tell homes of members.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// Homes that do not know yet that the account is a member: no more than the room has
    /// affiliations.
    owed: BTreeMap<Name, Owed>,
    /// Those that are to be told, in this order, each once.
    unasked: VecDeque<Name>,
    /// Those that were told, and have not said that it is durable.
    asked: Vec<Name>,
    is_asking: bool,
    /// Some that did not answer are told later.
    is_pausing: bool,
    recorded: Recorded,
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

/// That homes have to be told, for the next life of the room.
#[derive(Debug, Default)]
struct Recorded {
    /// From where on, as the store says or is about to.
    since: Option<Seq>,
    /// The store has it.
    is_stored: bool,
    /// Changes that say so and are not decided.
    undecided: u32,
}

impl Members {
    /// Nothing has to be told now.
    pub(super) fn is_idle(&self) -> bool {
        self.unasked.is_empty()
            && self.asked.is_empty()
            && self.round.is_empty()
            && self.missed.is_empty()
    }

    pub(super) fn may_go_on(&mut self) {
        self.is_resting = false;
    }

    /// A home has to be told, once, whatever it was to be told before.
    fn owes(&mut self, member: Name, since: Seq, is_new: bool) {
        let owed = self.owed.entry(Name::clone(&member)).or_insert(Owed {
            since,
            is_new,
            asks: 0,
            is_queued: false,
        });
        (owed.since, owed.is_new, owed.asks) = (since, is_new, 0);
        if !std::mem::replace(&mut owed.is_queued, true) {
            self.unasked.push_back(member);
        }
    }

    /// Who is no member any more need not be told.
    fn keep_only(&mut self, is_member: impl Fn(&str) -> bool) {
        self.owed.retain(|member, _| is_member(member));
        let owed = &self.owed;
        self.unasked.retain(|member| owed.contains_key(member));
    }

    /// The next one to tell. Until a home has answered, or its time is up, it is not told anew: the
    /// answer would not say to what.
    fn next(&mut self, tells: &Tells, is_member: impl Fn(&str) -> bool) -> Option<(Name, Owed)> {
        if self.asked.len() >= tells.at_once.max(1) {
            return None;
        }
        for _ in 0..self.unasked.len() {
            let member = self.unasked.pop_front()?;
            if self.asked.contains(&member) {
                self.unasked.push_back(member);
                continue;
            }
            if !is_member(&member) {
                self.owed.remove(&member);
                continue;
            }
            let Some(owed) = self.owed.get_mut(&member) else {
                continue;
            };
            owed.is_queued = false;
            owed.asks += 1;
            let owed = owed.clone();
            self.asked.push(Name::clone(&member));
            return Some((member, owed));
        }
        None
    }

    /// Those that have not answered.
    fn may_ask_again(&mut self, tells: &Tells) {
        self.is_asking = false;
        for member in std::mem::take(&mut self.asked) {
            if let Some(owed) = self.owed.get_mut(&member)
                && owed.asks < tells.in_a_row
                && !std::mem::replace(&mut owed.is_queued, true)
            {
                self.unasked.push_back(member);
            }
        }
    }

    /// Those that did not answer for long are told once more.
    fn may_ask_later(&mut self, tells: &Tells) {
        self.is_pausing = false;
        for (member, owed) in &mut self.owed {
            if !owed.is_queued && !self.asked.contains(member) {
                (owed.is_queued, owed.asks) = (true, tells.in_a_row.saturating_sub(1));
                self.unasked.push_back(Name::clone(member));
            }
        }
    }

    fn knows(&mut self, member: &Name) {
        self.asked.retain(|asked| asked != member);
        if self.owed.get(member).is_some_and(|owed| !owed.is_queued) {
            self.owed.remove(member);
        }
    }

    /// A change that records that homes have to be told is decided.
    pub(super) fn decided(&mut self, is_done: bool) {
        self.recorded.undecided = self.recorded.undecided.saturating_sub(1);
        self.recorded.is_stored |= is_done;
        if !self.recorded.is_stored && self.recorded.undecided == 0 {
            self.recorded.since = None;
        }
    }

    /// The mailbox of a home had no room: it is told once more, if there are not so many already.
    pub(super) fn missed(&mut self, member: Name, most: usize) {
        if self.missed.len() < self.size.max(most) && !self.missed.contains(&member) {
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
        if !(is_any && config.delivers_to_members && config.is_persistent) {
            return None;
        }
        let told = room.told();
        let recorded = &mut self.members.recorded;
        recorded.undecided += 1;
        // With each such change: one before it may be refused, or its homes may know before this
        // one is decided. The place is that of the first.
        Some(Record::Owed(*recorded.since.get_or_insert(told)))
    }

    /// They are members, durably.
    pub(super) fn has_new_members(&mut self, new: Vec<String>) {
        let since = self.room.as_ref().map_or(0, Room::told);
        let home = &self.life.home;
        let new = new.iter().map(|bare| Name::from(&**bare));
        for member in new.filter(|bare| home.hosts_accounts(address::domain(bare))) {
            self.members.owes(member, since, true);
        }
        let state = self.room.as_ref().and_then(Room::state);
        if let Some(state) = state.filter(|s| self.members.owed.len() > s.affiliations()) {
            self.members.keep_only(|bare| state.delivers_to(bare));
        }
    }

    /// A change was made: if the room delivers to nobody any more, nobody need be told.
    pub(super) fn members_may_end(&mut self) {
        let state = self.room.as_ref().and_then(Room::state);
        if !self.members.owed.is_empty() && !state.is_some_and(room::State::delivers) {
            self.members.keep_only(|_| false);
        }
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
        for bare in state.members() {
            if self.life.home.hosts_accounts(address::domain(&bare)) {
                self.members.owes(Name::from(&*bare), since, false);
            }
        }
        (self.members.recorded.since, self.members.recorded.is_stored) = (Some(since), true);
    }

    /// A home knows that the account is a member.
    pub(super) fn member_knows(&mut self, member: &Name, cx: &mut Context<'_, UserMsg>) {
        self.members.knows(member);
        self.owes_nobody(cx);
    }

    /// Homes that have not answered may be told again.
    pub(super) fn ask_members_again(&mut self, cx: &mut Context<'_, UserMsg>) {
        let tells = self.life.home.options.rooms.tells;
        self.members.may_ask_again(&tells);
        let members = &mut self.members;
        let is_any = members.owed.values().any(|owed| !owed.is_queued);
        if is_any && !std::mem::replace(&mut members.is_pausing, true) {
            let later = UserMsg::own(RoomMsg::AskMembersLater);
            cx.send_after(tells.later, later);
        }
    }

    pub(super) fn ask_members_later(&mut self) {
        let tells = self.life.home.options.rooms.tells;
        self.members.may_ask_later(&tells);
    }

    /// With nobody left to be told, nothing is to be told after a restart.
    pub(super) fn owes_nobody(&mut self, cx: &mut Context<'_, UserMsg>) {
        let members = &mut self.members;
        let recorded = &mut members.recorded;
        // A change that is undecided needs it.
        let is_over = members.owed.is_empty() && recorded.undecided == 0;
        if !(is_over && recorded.is_stored) || self.life.phase != Phase::Ready {
            return;
        }
        *recorded = Recorded::default();
        let state = self.room.as_ref().and_then(Room::state);
        if !state.is_some_and(|state| state.config.is_persistent) {
            return; // It went with the room.
        }
        let none = store::Record::RoomPut {
            user: String::from(&*self.life.name),
            part: OWED.to_owned(),
            value: Vec::new(),
        };
        self.append(vec![none], (For::Upkeep, None), cx);
    }

    /// Tells homes what they have to know now.
    pub(super) fn work_on_members(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.life.phase != Phase::Ready {
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
        let limits = &self.life.home.bounds().room;
        let longer = Duration::from_millis((members.size / limits.members_per_ms) as u64);
        let pause = match members.round.is_empty() {
            true => limits.rest + longer,
            false => limits.next_part,
        };
        members.is_resting = true;
        cx.send_after(pause, UserMsg::own(RoomMsg::MembersDue));
    }

    fn ask_members(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.members.unasked.is_empty() {
            return;
        }
        let told = self.room.as_ref().map_or(0, Room::told);
        let tells = self.life.home.options.rooms.tells;
        loop {
            let state = self.room.as_ref().and_then(Room::state);
            let is_member = |bare: &str| state.is_some_and(|state| state.delivers_to(bare));
            let Some((member, owed)) = self.members.next(&tells, is_member) else {
                break;
            };
            let membership = Membership {
                room: self.life.name.clone(),
                since: owed.since,
                told,
                is_new: owed.is_new,
                asks: true,
            };
            let said = Message::OfRoom(Box::new(OfRoom::Member(membership)));
            // Lost, it is said again.
            self.life.home.say(cx, &member, said, true);
        }
        // Some may have been no members any more.
        self.owes_nobody(cx);
        if !self.members.asked.is_empty() && !self.members.is_asking {
            self.members.is_asking = true;
            let again = RoomMsg::AskMembers;
            cx.send_after(tells.again, UserMsg::own(again));
        }
    }

    /// Whether members who are not there will be told of a message, once the pause is over.
    pub(super) fn owes_news(&self) -> bool {
        let Some(room) = &self.room else { return false };
        let state = room.state();
        state.is_some_and(room::State::delivers)
            && room.told() > self.members.told.unwrap_or_default()
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
        let count = self.life.home.options.rooms.copies_per_turn.max(1);
        let from = self.members.round.len().saturating_sub(count);
        for member in self.members.round.split_off(from) {
            if !self.life.home.hosts_accounts(address::domain(&member)) {
                continue;
            }
            // A home that does not know of the room yet may have a place for it by now: it begins
            // where it would if it heard first that the account is a member.
            let owed = self.members.owed.get(&member).map(|owed| owed.since);
            let since = self.members.since;
            let news = Membership {
                room: self.life.name.clone(),
                since: owed.map_or(since, |owed| owed.min(since)),
                told,
                is_new: false,
                asks: false,
            };
            let news = Message::OfRoom(Box::new(OfRoom::Member(news)));
            // Who is not loaded has nobody online.
            if self.life.home.say(cx, &member, news, false).is_some() {
                let most = self.life.home.bounds().room.missed_max;
                self.members.missed(member, most);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TELLS: Tells = Tells {
        at_once: 64,
        again: Duration::from_secs(5),
        in_a_row: 5,
        later: Duration::from_secs(600),
    };
    const ASKED_MAX: usize = TELLS.at_once;

    fn member(number: usize) -> Name {
        Name::from(&*format!("m{number}@localhost"))
    }

    /// What is kept for members.
    fn kept(members: &Members) -> [usize; 3] {
        [
            members.owed.len(),
            members.unasked.len(),
            members.asked.len(),
        ]
    }

    fn ask_all(members: &mut Members) -> Vec<Name> {
        let asked = std::iter::from_fn(|| members.next(&TELLS, |_| true));
        asked.map(|(member, _)| member).collect()
    }

    #[test]
    fn a_member_is_owed_once_however_often_the_option_is_set() {
        const MEMBERS: usize = 500;
        let mut members = Members::default();
        for round in 0..100 {
            for number in 0..MEMBERS {
                members.owes(member(number), round, true);
            }
            ask_all(&mut members);
            let [owed, unasked, asked] = kept(&members);
            assert!(owed <= MEMBERS && unasked <= MEMBERS && asked <= ASKED_MAX);
            if round % 2 == 0 {
                members.keep_only(|_| false);
                assert_eq!(kept(&members), [0, 0, ASKED_MAX]);
            }
        }
        // Each is told of what counts now.
        members.may_ask_again(&TELLS);
        let mut told = std::collections::BTreeSet::new();
        while let Some((name, owed)) = members.next(&TELLS, |_| true) {
            assert_eq!(owed.since, 99);
            members.knows(&name);
            told.insert(name);
        }
        assert_eq!((told.len(), kept(&members)), (MEMBERS, [0, 0, 0]));
    }

    #[test]
    fn who_is_no_member_any_more_is_not_told() {
        let mut members = Members::default();
        for number in 0..10 {
            members.owes(member(number), 1, true);
        }
        let is_last = |bare: &str| bare == "m9@localhost";
        let (next, _) = members.next(&TELLS, is_last).unwrap();
        assert_eq!((next, kept(&members)), (member(9), [1, 0, 1]));
    }

    /// An answer to what it was told first is not one to what it has to be told now.
    #[test]
    fn an_answer_is_to_what_was_said_before_it() {
        let mut members = Members::default();
        members.owes(member(0), 1, true);
        assert_eq!(ask_all(&mut members), [member(0)]);
        members.owes(member(0), 7, true);
        assert!(ask_all(&mut members).is_empty());
        members.knows(&member(0));
        let (_, owed) = members.next(&TELLS, |_| true).unwrap();
        assert_eq!(owed.since, 7);
        members.knows(&member(0));
        assert_eq!(kept(&members), [0, 0, 0]);
    }

    /// A home that never answers keeps neither the room in memory nor others from being told.
    #[test]
    fn a_home_that_does_not_answer_is_told_more_rarely() {
        let mut members = Members::default();
        for number in 0..2 * ASKED_MAX {
            members.owes(member(number), 1, true);
        }
        let mut asks = 0;
        while !members.is_idle() {
            asks += ask_all(&mut members).len();
            members.may_ask_again(&TELLS);
        }
        assert_eq!(asks, 2 * ASKED_MAX * TELLS.in_a_row as usize);
        assert_eq!(kept(&members), [2 * ASKED_MAX, 0, 0]);
        members.may_ask_later(&TELLS);
        assert_eq!(ask_all(&mut members).len(), ASKED_MAX);
        members.knows(&member(0));
        members.may_ask_again(&TELLS);
        ask_all(&mut members);
        members.may_ask_again(&TELLS);
        assert!(members.is_idle());
        assert_eq!(kept(&members), [2 * ASKED_MAX - 1, 0, 0]);
    }

    /// Homes that had no room for the news are told once more, and no more of them than a round
    /// has: the others hear of it with the next message, or ask at the next login.
    #[test]
    fn homes_that_had_no_room_are_kept_up_to_the_size_of_a_round() {
        for (size, kept) in [(0, 3), (5, 5)] {
            let mut members = Members {
                size,
                ..Members::default()
            };
            for number in (0..2 * kept).chain(0..2 * kept) {
                members.missed(member(number), 3);
            }
            let expected: Vec<Name> = (0..kept).map(member).collect();
            assert_eq!(members.missed, expected);
            assert!(!members.is_idle());
        }
    }
}
