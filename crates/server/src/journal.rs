//! The shard's way to the journal: one queue for everything that is appended to the ranges which
//! are at home here, import and provisioning included. Owns the queue, its bounds, and the tenures
//! in which entities are loaded; who empties it is in `journal/port.rs`.

mod import;
mod keeper;
#[cfg(test)]
mod lane_tests;
mod port;
#[cfg(test)]
mod tests;
mod turns;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use actor::{Addr, Context, Mail};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use store::{Adding, Append, Journal, Outcome, RangeId, Record, Tenure, Writer};
use telemetry::Gauge;

use self::keeper::Keeper;
use crate::message::{AppendError, Ticket, UserMsg};
use crate::options::Commits;

pub(crate) use port::PortMsg;

/// The name of a shard's port, by which an administrator's thread finds it.
pub(crate) const PORT: &str = "(journal)";

/// Who is told what became of an append.
#[derive(Clone, Copy)]
enum Who {
    User(Addr<UserMsg>, Ticket),
    /// An actor that only waits for what was appended before.
    Waiter(Addr<UserMsg>, Ticket),
    /// An import or a provisioning, by its number.
    Import(u64),
}

impl Who {
    /// The actor whose appends build on each other.
    fn actor(self) -> Option<Addr<UserMsg>> {
        match self {
            Who::User(addr, _) => Some(addr),
            Who::Waiter(..) | Who::Import(_) => None,
        }
    }

    fn writer(self) -> Writer {
        let Some(addr) = self.actor() else {
            return Writer::NOBODY;
        };
        let mut hasher = FxHasher::default();
        std::hash::Hash::hash(&addr, &mut hasher);
        Writer(std::hash::Hasher::finish(&hasher) | 1)
    }
}

/// An append that is not decided.
#[derive(Clone, Copy)]
struct Owner {
    who: Who,
    range: RangeId,
    tenure: Tenure,
    bytes: u32,
}

/// What was handed to the journal and is not answered.
#[derive(Default)]
struct UnderWay {
    /// Counts batches: an answer to an earlier one is none to this one.
    number: u64,
    owners: VecDeque<Owner>,
    /// Their bytes, by estimate.
    bytes: usize,
    /// Until its commit begins, more can be added.
    adding: Option<Adding>,
    /// The answer was lost: empty appends in new tenures are under way instead, which tell when
    /// these are decided, and cannot come to be any more if they are not there by then.
    is_lost: bool,
}

/// What outlives a port that crashes.
struct Queue {
    journal: Arc<dyn Journal>,
    options: Commits,
    port: Option<Addr<PortMsg>>,
    appends: Vec<Append>,
    /// Whose each of them is.
    owners: VecDeque<Owner>,
    /// Their bytes, by estimate.
    bytes: usize,
    under_way: UnderWay,
    /// Ranges with an append in doubt: from it on, everything of the range waits for the journal's
    /// word, in order.
    in_doubt: FxHashMap<RangeId, VecDeque<(Owner, Outcome)>>,
    imports: import::Imports,
    /// Appends of each range that are not decided.
    undecided: FxHashMap<RangeId, u32>,
    /// The last that was given out.
    last_ticket: Ticket,
    /// Actors that were sent word of failed appends and have not heard all of it: how many words
    /// are on their way. What they append meanwhile is built on state that never came to be.
    unheard: FxHashMap<Addr<UserMsg>, u32>,
    /// Ranges that have moved to another shard, until an entity of theirs is loaded here again:
    /// their accounts may be loaded there.
    left: FxHashSet<RangeId>,
    /// In which entities are loaded. Absent from the end of one until the next entity is.
    tenures: FxHashMap<RangeId, Tenure>,
    /// A `Flush` is on its way or a batch is under way: nothing needs to be sent.
    is_scheduled: bool,
}

type Shared = Rc<RefCell<Queue>>;

/// The handle that actors of one shard append with.
#[derive(Clone)]
pub(crate) struct Port {
    queue: Shared,
}

impl Port {
    /// The way to `journal`, for the shard of `mail`, with the actors that keep it going.
    pub(crate) fn start(journal: Arc<dyn Journal>, options: Commits, mail: &mut impl Mail) -> Port {
        let queue = Rc::new(RefCell::new(Queue {
            journal,
            options,
            port: None,
            appends: Vec::new(),
            owners: VecDeque::new(),
            bytes: 0,
            under_way: UnderWay::default(),
            in_doubt: FxHashMap::default(),
            imports: import::Imports::default(),
            undecided: FxHashMap::default(),
            last_ticket: Ticket::default(),
            unheard: FxHashMap::default(),
            left: FxHashSet::default(),
            tenures: FxHashMap::default(),
            is_scheduled: false,
        }));
        // From here on it is found by its name.
        let keeper = Keeper::start(Rc::clone(&queue), mail);
        mail.spawn(keeper);
        Port { queue }
    }

    /// The tenure in which an entity of a range is loaded from now on. To be asked for before its
    /// state is read.
    pub(crate) fn tenure(&self, range: RangeId) -> Tenure {
        self.queue.borrow_mut().tenure(range)
    }

    /// The ticket of the next append, or of the next question when all is settled.
    pub(crate) fn next_ticket(&self) -> Ticket {
        let mut queue = self.queue.borrow_mut();
        queue.last_ticket = Ticket(queue.last_ticket.0.wrapping_add(1));
        queue.last_ticket
    }

    /// Hands `records` over as one atomic append of an entity that was loaded in `tenure`. The
    /// actor is told the outcome by [`UserMsg::Decided`], in the order of its appends.
    ///
    /// # Errors
    /// Nothing was taken: [`AppendError::Fenced`] if the tenure is over, [`AppendError::Busy`] if
    /// the shard's queue is full.
    pub(crate) fn append(
        &self,
        cx: &mut Context<'_, UserMsg>,
        range: RangeId,
        tenure: Tenure,
        records: Vec<Record>,
        ticket: Ticket,
    ) -> Result<(), AppendError> {
        let mut queue = self.queue.borrow_mut();
        if queue.tenures.get(&range) != Some(&tenure) {
            return Err(AppendError::Fenced);
        }
        let me = cx.myself();
        if let Some(words) = queue.unheard.get_mut(&me) {
            // Behind the words that are on their way: nothing else of the actor is undecided.
            let result = Err(AppendError::Fenced);
            let word = cx.send_priority(me, UserMsg::Decided { ticket, result });
            *words += u32::from(word.is_ok());
            return word.map_err(|_| AppendError::Fenced);
        }
        if !queue.has_room() {
            return Err(AppendError::Busy);
        }
        queue.push(Who::User(me, ticket), range, tenure, records);
        cx.stats().raise(Gauge::JournalWaiting);
        queue.schedule(cx);
        Ok(())
    }

    /// A range has moved to another shard, and nothing of it is undecided here.
    pub(crate) fn leaves(&self, range: RangeId) {
        let mut queue = self.queue.borrow_mut();
        queue.forget(&[range]);
        queue.left.insert(range);
    }

    /// An actor has heard that an append of its failed.
    pub(crate) fn heard(&self, actor: Addr<UserMsg>) {
        let mut queue = self.queue.borrow_mut();
        if let Some(words) = queue.unheard.get_mut(&actor) {
            *words -= 1;
            if *words == 0 {
                queue.unheard.remove(&actor);
            }
        }
    }

    /// An actor has ended: it hears and appends nothing any more.
    pub(crate) fn forget(&self, actor: Addr<UserMsg>) {
        self.queue.borrow_mut().unheard.remove(&actor);
    }

    /// Actors that have not heard all they were sent of failed appends.
    #[cfg(test)]
    fn unheard(&self) -> usize {
        self.queue.borrow().unheard.len()
    }

    /// Tells the actor by [`UserMsg::Decided`] once everything is decided that was appended to a
    /// range before this call. Never refused: one such question of each actor is the bound.
    pub(crate) fn await_settled(
        &self,
        cx: &mut Context<'_, UserMsg>,
        range: RangeId,
        ticket: Ticket,
    ) {
        let mut queue = self.queue.borrow_mut();
        let tenure = queue.tenure(range);
        queue.push(Who::Waiter(cx.myself(), ticket), range, tenure, Vec::new());
        cx.stats().raise(Gauge::JournalWaiting);
        queue.schedule(cx);
    }

    /// Whether nothing of a range waits for its commit.
    pub(crate) fn is_settled(&self, range: RangeId) -> bool {
        !self.queue.borrow().undecided.contains_key(&range)
    }
}

impl Queue {
    fn tenure(&mut self, range: RangeId) -> Tenure {
        self.left.remove(&range);
        let journal = &self.journal;
        *self
            .tenures
            .entry(range)
            .or_insert_with(|| journal.take(range))
    }

    /// Another home has taken a range. The next entity of it that is loaded begins another tenure,
    /// unless one did already.
    fn end_tenure(&mut self, range: RangeId, tenure: Tenure) {
        if self.tenures.get(&range) == Some(&tenure) {
            self.tenures.remove(&range);
        }
    }

    /// What was loaded of these ranges is gone, whatever tenure it was in.
    fn forget(&mut self, ranges: &[RangeId]) {
        for range in ranges {
            self.tenures.remove(range);
        }
    }

    /// Whether one more append may wait. The last one may exceed the bytes: a large one must not
    /// wait for ever.
    fn has_room(&self) -> bool {
        self.owners.len() < self.options.backlog_appends_max
            && self.bytes < self.options.backlog_bytes_max
    }

    fn push(&mut self, who: Who, range: RangeId, tenure: Tenure, records: Vec<Record>) {
        let append = Append {
            range,
            tenure,
            writer: who.writer(),
            records,
        };
        let bytes = append.bytes();
        *self.undecided.entry(range).or_insert(0) += 1;
        let owner = Owner {
            who,
            range,
            tenure,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        };
        if let Err(append) = self.add(append, owner) {
            self.bytes += bytes;
            self.appends.push(append);
            self.owners.push_back(owner);
        }
    }

    /// Adds an append to the batch under way, if its commit has not begun, it is not full, and
    /// nothing waits that came before.
    fn add(&mut self, append: Append, owner: Owner) -> Result<(), Append> {
        let under_way = &mut self.under_way;
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

    /// Has the port come to what waits, if it does not anyway.
    fn schedule(&mut self, mail: &mut impl Mail) {
        if self.is_scheduled {
            return;
        }
        // Normal lane on purpose: everything that runs before it joins the batch. Without a port,
        // the next one begins with what waits.
        let Some(port) = self.port else { return };
        self.is_scheduled = mail.send(port, PortMsg::Flush).is_ok()
            || mail.send_priority(port, PortMsg::Flush).is_ok();
    }

    fn settle(&mut self, range: RangeId) {
        if let Some(count) = self.undecided.get_mut(&range) {
            *count -= 1;
            if *count == 0 {
                self.undecided.remove(&range);
            }
        }
    }

    /// Takes out what goes with the next batch: all that waits while that is little, else what
    /// [`turns::choose`] says.
    fn take_ready(&mut self) -> (Vec<Append>, VecDeque<Owner>) {
        let enough = self.options.batch_appends;
        if self.in_doubt.is_empty() && self.owners.len() <= enough {
            // The next batch is about as large.
            let next = Vec::with_capacity(self.appends.len());
            let appends = std::mem::replace(&mut self.appends, next);
            let next = VecDeque::with_capacity(self.owners.len());
            let owners = std::mem::replace(&mut self.owners, next);
            self.bytes = 0;
            return (appends, owners);
        }
        let may_go = |range| !self.in_doubt.contains_key(&range);
        let chosen = turns::choose(&self.owners, enough, may_go);
        let appends = std::mem::take(&mut self.appends).into_iter();
        let waiting = appends.zip(std::mem::take(&mut self.owners)).zip(chosen);
        let mut batch = (Vec::with_capacity(enough), VecDeque::with_capacity(enough));
        for ((append, owner), goes) in waiting {
            if goes {
                batch.0.push(append);
                batch.1.push_back(owner);
            } else {
                self.appends.push(append);
                self.owners.push_back(owner);
            }
        }
        self.bytes = bytes_of(&self.owners);
        batch
    }

    /// Puts a batch back that the journal did not take.
    fn put_back(&mut self, mut appends: Vec<Append>, mut owners: VecDeque<Owner>) {
        appends.append(&mut self.appends);
        owners.append(&mut self.owners);
        (self.appends, self.owners) = (appends, owners);
        self.bytes = bytes_of(&self.owners);
    }

    /// Takes out what some actors appended, and tells whose it was.
    fn take_of(&mut self, actors: &[Addr<UserMsg>]) -> Vec<Owner> {
        let waiting = std::mem::take(&mut self.appends).into_iter();
        let waiting = waiting.zip(std::mem::take(&mut self.owners));
        let (stale, good): (Vec<_>, Vec<_>) = waiting.partition(|(_, owner)| {
            let actor = owner.who.actor();
            actor.is_some_and(|actor| actors.contains(&actor))
        });
        (self.appends, self.owners) = good.into_iter().unzip();
        self.bytes = bytes_of(&self.owners);
        stale.into_iter().map(|(_, owner)| owner).collect()
    }
}

fn bytes_of(owners: &VecDeque<Owner>) -> usize {
    owners.iter().map(|owner| owner.bytes as usize).sum()
}
