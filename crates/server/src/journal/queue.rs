//! What waits for the journal on one shard, and what is under way. Owns how much may wait, which of
//! it goes next, and the tenures in which entities are loaded; who hands it over is in `port.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use actor::{Addr, Mail};
use rustc_hash::{FxHashMap, FxHashSet};
use store::{Adding, Append, Journal, Outcome, RangeId, Record, Tenure};

use super::Who;
use super::import::Imports;
use super::port::PortMsg;
use super::turns::{self, Sizes};
use crate::message::{Ticket, UserMsg};
use crate::options::Commits;

/// A group of ranges, as the journal numbers them: one batch of each is under way.
pub(super) type Group = u16;

/// An append that is not decided.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) who: Who,
    pub(super) range: RangeId,
    pub(super) group: Group,
    pub(super) tenure: Tenure,
    pub(super) bytes: u32,
}

/// What was handed to the journal of one group and is not answered, and how much waits behind it.
#[derive(Default)]
pub(super) struct UnderWay {
    /// Counts batches: an answer to an earlier one is none to this one.
    pub(super) number: u64,
    pub(super) owners: VecDeque<Owner>,
    /// Their bytes, by estimate.
    pub(super) bytes: usize,
    /// Until its commit begins, more can be added.
    pub(super) adding: Option<Adding>,
    /// The answer was lost: empty appends in new tenures are under way instead, which tell when
    /// these are decided, and cannot come to be any more if they are not there by then.
    pub(super) is_lost: bool,
    pub(super) waiting: usize,
    pub(super) waiting_bytes: usize,
}

/// What outlives a port that crashes.
pub(super) struct Queue {
    pub(super) journal: Arc<dyn Journal>,
    pub(super) options: Commits,
    pub(super) port: Option<Addr<PortMsg>>,
    pub(super) appends: Vec<Append>,
    /// Whose each of them is.
    pub(super) owners: VecDeque<Owner>,
    /// Their bytes, by estimate.
    pub(super) bytes: usize,
    /// By group. A journal with one group has one place here.
    pub(super) under_way: Vec<UnderWay>,
    /// Ranges with an append in doubt: from it on, everything of the range waits for the journal's
    /// word, in order.
    pub(super) in_doubt: FxHashMap<RangeId, VecDeque<(Owner, Outcome)>>,
    pub(super) imports: Imports,
    /// Appends of each range that are not decided.
    pub(super) undecided: FxHashMap<RangeId, u32>,
    /// The last that was given out.
    pub(super) last_ticket: Ticket,
    /// Actors that were sent word of failed appends and have not heard all of it: how many words
    /// are on their way. What they append meanwhile is built on state that never came to be.
    pub(super) unheard: FxHashMap<Addr<UserMsg>, u32>,
    /// Ranges that have moved to another shard, until an entity of theirs is loaded here again:
    /// their accounts may be loaded there.
    pub(super) left: FxHashSet<RangeId>,
    /// In which entities are loaded. Absent from the end of one until the next entity is.
    pub(super) tenures: FxHashMap<RangeId, Tenure>,
    /// A `Flush` is on its way: no other one needs to be sent.
    pub(super) is_scheduled: bool,
}

impl Queue {
    pub(super) fn new(journal: Arc<dyn Journal>, options: Commits) -> Queue {
        Queue {
            journal,
            options,
            port: None,
            appends: Vec::new(),
            owners: VecDeque::new(),
            bytes: 0,
            under_way: vec![UnderWay::default()],
            in_doubt: FxHashMap::default(),
            imports: Imports::default(),
            undecided: FxHashMap::default(),
            last_ticket: Ticket::default(),
            unheard: FxHashMap::default(),
            left: FxHashSet::default(),
            tenures: FxHashMap::default(),
            is_scheduled: false,
        }
    }

    pub(super) fn tenure(&mut self, range: RangeId) -> Tenure {
        self.left.remove(&range);
        let journal = &self.journal;
        *self
            .tenures
            .entry(range)
            .or_insert_with(|| journal.take(range))
    }

    /// Another home has taken a range. The next entity of it that is loaded begins another tenure,
    /// unless one did already.
    pub(super) fn end_tenure(&mut self, range: RangeId, tenure: Tenure) {
        if self.tenures.get(&range) == Some(&tenure) {
            self.tenures.remove(&range);
        }
    }

    /// What was loaded of these ranges is gone, whatever tenure it was in.
    pub(super) fn forget(&mut self, ranges: &[RangeId]) {
        for range in ranges {
            self.tenures.remove(range);
        }
    }

    /// Whether one more append may wait. The last one may exceed the bytes: a large one must not
    /// wait for ever.
    pub(super) fn has_room(&self) -> bool {
        self.owners.len() < self.options.backlog_appends_max
            && self.bytes < self.options.backlog_bytes_max
    }

    /// The same for an append of a range. Where there are several groups, none has more of what may
    /// wait than it leaves to the others: one that stalls half of it, two a third each.
    pub(super) fn has_room_for(&self, range: RangeId) -> bool {
        let group = usize::from(self.journal.group(range));
        let Some(under_way) = self
            .under_way
            .get(group)
            .filter(|_| self.under_way.len() > 1)
        else {
            return self.has_room();
        };
        under_way.waiting + self.owners.len() < self.options.backlog_appends_max
            && under_way.waiting_bytes.saturating_add(self.bytes) < self.options.backlog_bytes_max
    }

    /// Takes an append, and tells of which group it is.
    pub(super) fn push(
        &mut self,
        who: Who,
        range: RangeId,
        tenure: Tenure,
        records: Vec<Record>,
    ) -> Group {
        let append = Append {
            range,
            tenure,
            writer: who.writer(),
            records,
        };
        let bytes = append.bytes();
        let group = self.journal.group(range);
        if self.under_way.len() <= usize::from(group) {
            let places = usize::from(group) + 1;
            self.under_way.resize_with(places, UnderWay::default);
        }
        *self.undecided.entry(range).or_insert(0) += 1;
        let owner = Owner {
            who,
            range,
            group,
            tenure,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        };
        if let Err(append) = self.add(append, owner) {
            self.bytes += bytes;
            self.appends.push(append);
            self.owners.push_back(owner);
            let under_way = &mut self.under_way[usize::from(group)];
            under_way.waiting += 1;
            under_way.waiting_bytes += bytes;
        }
        group
    }

    /// Adds an append to its group's batch under way, if its commit has not begun, it is not full,
    /// and nothing waits that came before.
    fn add(&mut self, append: Append, owner: Owner) -> Result<(), Append> {
        let under_way = &mut self.under_way[usize::from(owner.group)];
        let is_next = self.owners.is_empty() && !self.in_doubt.contains_key(&owner.range);
        let has_room = under_way.owners.len() < self.options.batch_appends
            && under_way.bytes < self.options.backlog_bytes_max;
        let Some(adding) = under_way.adding.as_ref().filter(|_| is_next && has_room) else {
            return Err(append);
        };
        adding.add(append)?;
        under_way.bytes += owner.bytes as usize;
        under_way.owners.push_back(owner);
        Ok(())
    }

    pub(super) fn is_under_way(&self, group: Group) -> bool {
        !self.under_way[usize::from(group)].owners.is_empty()
    }

    /// Has the port come to what waits of a group, if it does not anyway: the answer to a batch
    /// under way has it come too.
    pub(super) fn schedule(&mut self, group: Group, mail: &mut impl Mail) {
        if self.is_scheduled || self.is_under_way(group) {
            return;
        }
        // Normal lane on purpose: everything that runs before it joins the batch. Without a port,
        // the next one begins with what waits.
        let Some(port) = self.port else { return };
        self.is_scheduled = mail.send(port, PortMsg::Flush).is_ok()
            || mail.send_priority(port, PortMsg::Flush).is_ok();
    }

    pub(super) fn settle(&mut self, range: RangeId) {
        if let Some(count) = self.undecided.get_mut(&range) {
            *count -= 1;
            if *count == 0 {
                self.undecided.remove(&range);
            }
        }
    }

    /// Takes out the next batch, of a group that has none under way, and notes that it is now: all
    /// that waits while that is little and of one group, else what [`turns::choose`] says. `None`
    /// if nothing may go.
    pub(super) fn take_ready(&mut self) -> Option<(Group, Vec<Append>)> {
        let is_ready = |owner: &&Owner| {
            !self.is_under_way(owner.group) && !self.in_doubt.contains_key(&owner.range)
        };
        let is_one_group = self.under_way.len() == 1;
        if is_one_group && self.is_under_way(0) {
            return None;
        }
        // What is first of these always goes: nothing of its range is in front of it.
        let group = self.owners.iter().find(is_ready)?.group;
        let sizes = Sizes {
            enough: self.options.batch_appends,
            each: self.options.batch_appends_each,
            large: self.options.batch_appends_large,
        };
        let are_few = self.owners.len() <= sizes.enough;
        let (appends, owners) = match is_one_group && self.in_doubt.is_empty() && are_few {
            true => self.take_all(),
            false => self.take_some(group, sizes),
        };
        let under_way = &mut self.under_way[usize::from(group)];
        under_way.bytes = bytes_of(&owners);
        under_way.owners = owners;
        Some((group, appends))
    }

    fn take_all(&mut self) -> (Vec<Append>, VecDeque<Owner>) {
        // The next batch is about as large.
        let next = Vec::with_capacity(self.appends.len());
        let appends = std::mem::replace(&mut self.appends, next);
        let next = VecDeque::with_capacity(self.owners.len());
        let owners = std::mem::replace(&mut self.owners, next);
        self.count_waiting();
        (appends, owners)
    }

    fn take_some(&mut self, group: Group, sizes: Sizes) -> (Vec<Append>, VecDeque<Owner>) {
        let may_go =
            |owner: &Owner| owner.group == group && !self.in_doubt.contains_key(&owner.range);
        let chosen = turns::choose(&self.owners, sizes, may_go);
        let appends = std::mem::take(&mut self.appends).into_iter();
        let waiting = appends.zip(std::mem::take(&mut self.owners)).zip(chosen);
        let room = sizes.enough;
        let mut batch = (Vec::with_capacity(room), VecDeque::with_capacity(room));
        for ((append, owner), goes) in waiting {
            if goes {
                batch.0.push(append);
                batch.1.push_back(owner);
            } else {
                self.appends.push(append);
                self.owners.push_back(owner);
            }
        }
        self.count_waiting();
        batch
    }

    fn count_waiting(&mut self) {
        for under_way in &mut self.under_way {
            (under_way.waiting, under_way.waiting_bytes) = (0, 0);
        }
        for owner in &self.owners {
            let under_way = &mut self.under_way[usize::from(owner.group)];
            under_way.waiting += 1;
            under_way.waiting_bytes += owner.bytes as usize;
        }
        self.bytes = bytes_of(&self.owners);
    }

    /// Puts a batch back that the journal did not take.
    pub(super) fn put_back(&mut self, group: Group, mut appends: Vec<Append>) {
        let under_way = &mut self.under_way[usize::from(group)];
        let mut owners = std::mem::take(&mut under_way.owners);
        appends.append(&mut self.appends);
        owners.append(&mut self.owners);
        (self.appends, self.owners) = (appends, owners);
        self.count_waiting();
    }

    /// Takes out what some actors appended, and tells whose it was.
    pub(super) fn take_of(&mut self, actors: &[Addr<UserMsg>]) -> Vec<Owner> {
        let waiting = std::mem::take(&mut self.appends).into_iter();
        let waiting = waiting.zip(std::mem::take(&mut self.owners));
        let (stale, good): (Vec<_>, Vec<_>) = waiting.partition(|(_, owner)| {
            let actor = owner.who.actor();
            actor.is_some_and(|actor| actors.contains(&actor))
        });
        (self.appends, self.owners) = good.into_iter().unzip();
        self.count_waiting();
        stale.into_iter().map(|(_, owner)| owner).collect()
    }
}

pub(super) fn bytes_of(owners: &VecDeque<Owner>) -> usize {
    owners.iter().map(|owner| owner.bytes as usize).sum()
}
