//! Actors that may block: they live behind an address of a shard and run on a pool's threads.
//!
//! Owns the journey: the mailbox stays on the shard, and while messages wait the actor travels to
//! the pool with a few of them and comes back. It is on one thread at a time, its messages keep
//! their order, and mailbox bounds, links, monitors and supervision work as for any other actor.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use crate::context::Context;
use crate::core::{Mail, Timer};
use crate::limits::{BLOCKING_BATCH, BLOCKING_RETRY};
use crate::link::Links;
use crate::pool::{Job, Pool};
use crate::realm::AnyActor;
use crate::system::Handle;
use crate::types::{ActorId, Addr, Reason, Signal};

/// An actor whose handlers may block. They run on a pool's threads, one at a time.
pub trait BlockingActor: Send + 'static {
    /// What it takes.
    type Msg: Send + 'static;

    /// Handles one message. May block; a panic ends the actor.
    fn handle(&mut self, msg: Self::Msg, cx: &mut BlockingContext<Self::Msg>);

    /// Runs last, on the pool, unless the actor panicked or the pool is full or gone.
    fn stopped(&mut self, reason: &Reason) {
        let _ = reason;
    }
}

/// The surroundings of a blocking handler. It has no shard: it sends by its [`Handle`], and answers
/// by [`crate::Reply::answer`].
#[derive(Debug)]
pub struct BlockingContext<M> {
    handle: Handle,
    me: Addr<M>,
    stop: Option<Reason>,
}

impl<M> BlockingContext<M> {
    /// The way to every shard.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// This actor's address.
    pub fn myself(&self) -> Addr<M> {
        self.me
    }

    /// Ends this actor after this handler.
    pub fn stop(&mut self) {
        self.stop_with(Reason::Normal);
    }

    /// Ends this actor after this handler, for a reason.
    pub fn stop_with(&mut self, reason: Reason) {
        self.stop.get_or_insert(reason);
    }
}

/// What comes back from the pool.
struct Returned<A: BlockingActor> {
    actor: Option<Box<A>>,
    stop: Option<Reason>,
    pool: Pool,
    ended: Arc<OnceLock<Reason>>,
}

impl<A: BlockingActor> Drop for Returned<A> {
    /// Nobody is left to come back to: the last handler runs, on the pool again.
    fn drop(&mut self) {
        if let Some(mut actor) = self.actor.take() {
            let reason = self.ended.get().cloned().unwrap_or(Reason::Shutdown);
            // A full pool lets the actor go without its last handler, as documented.
            let _ = self.pool.run(move || actor.stopped(&reason));
        }
    }
}

/// A full pool is to be tried again.
struct Retry;

pub(crate) struct BlockingHolder<A: BlockingActor> {
    pool: Pool,
    links: Arc<Links>,
    actor: Option<Box<A>>,
    batch: Vec<A::Msg>,
    /// The journey that a full pool refused.
    refused: Option<Job>,
    /// Tells an actor that is on its way that it need not go on, and why.
    ended: Arc<OnceLock<Reason>>,
}

impl<A: BlockingActor> BlockingHolder<A> {
    pub(crate) fn new(pool: Pool, links: Arc<Links>, actor: A) -> Self {
        BlockingHolder {
            pool,
            links,
            actor: Some(Box::new(actor)),
            batch: Vec::new(),
            refused: None,
            ended: Arc::new(OnceLock::new()),
        }
    }

    fn set_off(&mut self, cx: &mut Context<'_, A::Msg>) {
        let Some(actor) = self.actor.take() else {
            return;
        };
        let batch = std::mem::take(&mut self.batch);
        let (links, id, ended) = (Arc::clone(&self.links), cx.id, Arc::clone(&self.ended));
        let pool = self.pool.clone();
        let job = move || {
            let handle = Handle::new(Arc::clone(&links));
            let (actor, stop) = travel(actor, batch, handle, id, &ended);
            let returned = Returned {
                actor,
                stop,
                pool,
                ended,
            };
            let value: Box<dyn Any + Send> = Box::new(returned);
            // One actor makes one journey at a time, which bounds what is pushed here.
            links.push_reserved(
                id.shard,
                Box::new(move |core| {
                    if let Some(ops) = core.ops(id.realm) {
                        (ops.resume)(core, id.realm, id.key, value);
                    }
                }),
            );
        };
        cx.hold();
        self.offer(Box::new(job), cx);
    }

    fn offer(&mut self, job: Job, cx: &mut Context<'_, A::Msg>) {
        if let Err(job) = self.pool.offer(job) {
            self.refused = Some(job);
            let ActorId { realm, key, .. } = cx.id;
            let at = cx.now() + BLOCKING_RETRY;
            let core = cx.core();
            core.stats.count(telemetry::Counter::ActorPoolFull);
            core.timers.insert(at, Timer::Retry { realm, key });
        }
    }
}

/// Handles a batch on a pool thread.
fn travel<A: BlockingActor>(
    mut actor: Box<A>,
    batch: Vec<A::Msg>,
    handle: Handle,
    id: ActorId,
    ended: &OnceLock<Reason>,
) -> (Option<Box<A>>, Option<Reason>) {
    let mut cx = BlockingContext {
        handle,
        me: Addr::new(id),
        stop: None,
    };
    let work = catch_unwind(AssertUnwindSafe(|| {
        for msg in batch {
            if cx.stop.is_some() || ended.get().is_some() {
                break;
            }
            actor.handle(msg, &mut cx);
        }
    }));
    match work {
        Ok(()) => (Some(actor), cx.stop),
        Err(panic) => {
            let reason = Reason::of_panic(&*panic);
            // Destructors of the payload and of the actor may panic in turn.
            let _ = catch_unwind(AssertUnwindSafe(move || drop(panic)));
            let _ = catch_unwind(AssertUnwindSafe(move || drop(actor)));
            (None, Some(reason))
        }
    }
}

impl<A: BlockingActor> AnyActor<A::Msg> for BlockingHolder<A> {
    fn started(&mut self, _: &mut Context<'_, A::Msg>) {}

    fn handle(&mut self, msg: A::Msg, cx: &mut Context<'_, A::Msg>) {
        self.batch.push(msg);
        // While it is away, what comes by the priority lane waits here for its return; the lane's
        // bound bounds it.
        if self.actor.is_some() && (self.batch.len() >= BLOCKING_BATCH || cx.waiting() == 0) {
            self.set_off(cx);
        }
    }

    fn signal(&mut self, _: Signal, _: &mut Context<'_, A::Msg>) {}

    fn resume(&mut self, value: Box<dyn Any + Send>, cx: &mut Context<'_, A::Msg>) {
        if value.is::<Retry>() {
            if let Some(job) = self.refused.take() {
                self.offer(job, cx);
            }
            return;
        }
        let Ok(mut returned) = value.downcast::<Returned<A>>() else {
            return;
        };
        self.actor = returned.actor.take();
        if let Some(reason) = returned.stop.take() {
            return cx.stop_with(reason);
        }
        cx.release();
        if !self.batch.is_empty() {
            self.set_off(cx);
        }
    }

    fn stopped(&mut self, reason: &Reason, _: &mut Context<'_, A::Msg>) {
        let _ = self.ended.set(reason.clone());
        if let Some(mut actor) = self.actor.take() {
            let reason = reason.clone();
            // A full pool lets the actor go without its last handler, as documented.
            let _ = self.pool.run(move || actor.stopped(&reason));
        }
    }
}

/// Made by the shard when the timer for a retry fires.
pub(crate) fn retry() -> Box<dyn Any + Send> {
    Box::new(Retry)
}
