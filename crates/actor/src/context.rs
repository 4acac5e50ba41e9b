//! What a handler sees of the runtime: everything of [`Mail`], and its own actor.

use std::marker::PhantomData;
use std::time::Duration;

use stdx::slab::Key;
use stdx::wheel::TimerKey;

use crate::ask::Reply;
use crate::core::{Core, Ending, Mail};
use crate::pool::{Pool, PoolFull};
use crate::types::{ActorId, Addr, AskError, MonitorId, SendError};

/// The surroundings of one running handler.
pub struct Context<'a, M> {
    core: &'a mut Core,
    key: Key,
    takes: PhantomData<fn(M)>,
}

impl<M> Mail for Context<'_, M> {
    fn core(&mut self) -> &mut Core {
        self.core
    }
}

impl<'a, M: Send + 'static> Context<'a, M> {
    pub(crate) fn new(core: &'a mut Core, key: Key) -> Self {
        Context {
            core,
            key,
            takes: PhantomData,
        }
    }

    /// This actor's address.
    pub fn myself(&self) -> Addr<M> {
        Addr::new(self.core.id, self.key)
    }

    fn id(&self) -> ActorId {
        ActorId {
            shard: self.core.id,
            key: self.key,
        }
    }

    /// Sends a message to this actor after a while, into the priority lane.
    pub fn send_after(&mut self, after: Duration, msg: M) -> TimerKey {
        self.core.send_after(self.key, after, msg)
    }

    /// Takes a timer back; false if it has fired.
    pub fn cancel(&mut self, timer: TimerKey) -> bool {
        self.core.timers.cancel(timer).is_some()
    }

    /// Asks an actor. The answer, or why there is none, comes as the message that `map` makes;
    /// room for it is reserved.
    pub fn ask<N: Send + 'static, R: Send + 'static>(
        &mut self,
        to: Addr<N>,
        question: impl FnOnce(Reply<R>) -> N,
        deadline: Duration,
        map: impl FnOnce(Result<R, AskError>) -> M + 'static,
    ) {
        let reply = self.core.ask(self.key, deadline, map);
        // A question that is not taken is dropped here, which tells the asker.
        let _: Result<(), SendError<N>> = self.send(to, question(reply));
    }

    /// Runs a job on a pool; its result comes as the message that `map` makes.
    ///
    /// # Errors
    /// [`PoolFull`]: the job will not run.
    pub fn blocking<R: Send + 'static>(
        &mut self,
        pool: &Pool,
        job: impl FnOnce() -> R + Send + 'static,
        map: impl FnOnce(R) -> M + Send + 'static,
    ) -> Result<(), PoolFull> {
        self.core.blocking(self.key, pool, job, map)
    }

    /// Counts extra cost against this actor's share of the turn.
    pub fn spend(&mut self, cost: u32) {
        self.core.spent = self.core.spent.saturating_add(cost);
    }

    /// Holds the mailbox: until [`Context::release`], only the priority lane is handled.
    pub fn hold(&mut self) {
        self.set_held(true);
    }

    /// Lets the mailbox go on, in order.
    pub fn release(&mut self) {
        self.set_held(false);
    }

    fn set_held(&mut self, held: bool) {
        if let Some(entry) = self.core.entries.get_mut(self.key) {
            entry.is_held = held;
        }
        if !held {
            self.core.enqueue(self.key);
        }
    }

    /// Ends this actor after this handler.
    pub fn stop(&mut self) {
        self.core.end_soon(self.key, Ending::Normal);
    }

    /// Ends this actor if nothing waits in its mailbox; false if something does.
    pub fn stop_when_idle(&mut self) -> bool {
        let idle = self
            .core
            .entries
            .get(self.key)
            .is_some_and(|entry| entry.mailbox.len() == 0);
        if idle {
            self.stop();
        }
        idle
    }

    /// Hears of the end of an actor by a signal, at once if it is gone already.
    pub fn monitor(&mut self, who: ActorId) -> MonitorId {
        let me = self.id();
        self.core.monitor(me, who)
    }

    /// Ties the lives of two actors together: the crash of one ends the other, unless it traps
    /// exits and hears of it by a signal.
    pub fn link(&mut self, who: ActorId) {
        let me = self.id();
        self.core.link(me, who);
    }

    /// Whether the crash of a linked actor comes as a signal instead of ending this actor.
    pub fn trap_exits(&mut self, trap: bool) {
        if let Some(extra) = self.core.extra(self.key) {
            extra.traps_exits = trap;
        }
    }
}
