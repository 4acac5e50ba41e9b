//! The shard's way to the journal: one queue for everything that is appended to the ranges which
//! are at home here, import and provisioning included. Owns how actors append and what they are
//! told at once; what waits is in `journal/queue.rs`, who empties it in `journal/port.rs`.

mod import;
mod keeper;
#[cfg(test)]
mod lane_tests;
mod port;
mod queue;
#[cfg(test)]
mod tests;
mod turns;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use actor::{Addr, Context, Mail};
use rustc_hash::FxHasher;
use store::{Journal, RangeId, Record, Tenure, Writer};
use telemetry::Gauge;

use self::keeper::Keeper;
use self::queue::Queue;
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

type Shared = Rc<RefCell<Queue>>;

/// The handle that actors of one shard append with.
#[derive(Clone)]
pub(crate) struct Port {
    queue: Shared,
}

impl Port {
    /// The way to `journal`, for the shard of `mail`, with the actors that keep it going.
    pub(crate) fn start(journal: Arc<dyn Journal>, options: Commits, mail: &mut impl Mail) -> Port {
        let queue = Rc::new(RefCell::new(Queue::new(journal, options)));
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
        if !queue.has_room_for(range) {
            return Err(AppendError::Busy);
        }
        let group = queue.push(Who::User(me, ticket), range, tenure, records);
        cx.stats().raise(Gauge::JournalWaiting);
        queue.schedule(group, cx);
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
        let group = queue.push(Who::Waiter(cx.myself(), ticket), range, tenure, Vec::new());
        cx.stats().raise(Gauge::JournalWaiting);
        queue.schedule(group, cx);
    }

    /// Whether nothing of a range waits for its commit.
    pub(crate) fn is_settled(&self, range: RangeId) -> bool {
        !self.queue.borrow().undecided.contains_key(&range)
    }
}
