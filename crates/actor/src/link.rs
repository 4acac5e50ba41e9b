//! The ways between shards, and from other threads to shards: bounded queues of batches.
//!
//! Owns the inboxes, the wake-up protocol and what every thread may see of a shard. Nobody waits:
//! what does not fit comes back. Deliberately not here: what a batch holds.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crossbeam_queue::ArrayQueue;
use telemetry::SharedStats;

use crate::core::Core;
use crate::limits::{INBOX_BATCHES_MAX, INBOX_MESSAGES_MAX, PRESSURE_FULL, PRESSURE_HIGH};
use crate::stats::Report;
use crate::traits::Waker;
use crate::types::ShardId;

/// Something to be done on another shard.
pub(crate) type Call = Box<dyn FnOnce(&mut Core) + Send>;

/// How much waits between the shards of a system: what a driver goes by when it takes in more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Everybody keeps up.
    Low,
    /// Some shard or actor does not keep up: senders should have one message under way at a time,
    /// so that who sends much has no more than its share.
    High,
    /// Nothing new should be taken in.
    Full,
}

/// Messages of one type on their way to one shard.
pub(crate) trait Batch: Send {
    fn len(&self) -> usize;
    fn deliver(self: Box<Self>, core: &mut Core);
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

pub(crate) enum Parcel {
    Batch(Box<dyn Batch>),
    Calls(Vec<Call>),
    Call(Call),
}

impl Parcel {
    pub(crate) fn len(&self) -> usize {
        match self {
            Parcel::Batch(batch) => batch.len(),
            Parcel::Calls(calls) => calls.len(),
            Parcel::Call(_) => 1,
        }
    }
}

pub(crate) struct Inbox {
    queue: ArrayQueue<Parcel>,
    /// Messages in the queue, for [`INBOX_MESSAGES_MAX`].
    messages: AtomicUsize,
    /// Answers that found the queue full. Each has room reserved by the question it answers, so
    /// that their number is bounded by [`crate::limits::Bounds::asks_max`]; they are never refused.
    /// The lock is taken only when the queue is full.
    overflow: Mutex<Vec<Call>>,
    has_overflow: AtomicBool,
    sleeps: AtomicBool,
    closed: AtomicBool,
    shutdown: AtomicBool,
    /// A mailbox was full in the shard's last turn.
    refuses: AtomicBool,
    waker: OnceLock<Arc<dyn Waker>>,
    pub(crate) stats: SharedStats,
    pub(crate) report: Mutex<Option<Arc<Report>>>,
}

/// The inboxes of every shard of a system.
pub(crate) struct Links {
    inboxes: Vec<Inbox>,
}

impl Links {
    pub(crate) fn new(shards: u16) -> Self {
        let inbox = |_| Inbox {
            queue: ArrayQueue::new(INBOX_BATCHES_MAX),
            messages: AtomicUsize::new(0),
            overflow: Mutex::new(Vec::new()),
            has_overflow: AtomicBool::new(false),
            sleeps: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            shutdown: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            waker: OnceLock::new(),
            stats: SharedStats::new(),
            report: Mutex::new(None),
        };
        Links {
            inboxes: (0..shards).map(inbox).collect(),
        }
    }

    pub(crate) fn shards(&self) -> u16 {
        self.inboxes.len() as u16
    }

    pub(crate) fn inbox(&self, shard: ShardId) -> Option<&Inbox> {
        self.inboxes.get(usize::from(shard.index()))
    }

    /// Hands a parcel over, or back if there is no room. What is sent to a shard that has shut down
    /// is dropped.
    pub(crate) fn push(&self, shard: ShardId, parcel: Parcel) -> Result<(), Parcel> {
        match self.inbox(shard) {
            Some(inbox) => inbox.push(parcel),
            None => Err(parcel),
        }
    }

    /// Hands an answer over for which room is reserved.
    pub(crate) fn push_reserved(&self, shard: ShardId, call: Call) {
        let Some(inbox) = self.inbox(shard) else {
            return;
        };
        if let Err(Parcel::Call(call)) = inbox.push(Parcel::Call(call)) {
            let mut overflow = inbox
                .overflow
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            overflow.push(call);
            inbox.has_overflow.store(true, Ordering::SeqCst);
            drop(overflow);
            inbox.wake();
        }
    }

    /// The highest pressure of any shard.
    pub(crate) fn pressure(&self) -> Pressure {
        let pressures = self.inboxes.iter().map(Inbox::pressure);
        pressures.max().unwrap_or(Pressure::Low)
    }

    /// Messages that one shard has not taken yet; none wait for a shard that is not there.
    pub(crate) fn waiting(&self, shard: ShardId) -> usize {
        self.inbox(shard).map_or(0, Inbox::waiting)
    }

    /// Asks every shard to shut down.
    pub(crate) fn shut_down(&self) {
        for inbox in &self.inboxes {
            inbox.shutdown.store(true, Ordering::SeqCst);
            inbox.wake();
        }
    }
}

impl Inbox {
    /// Whether a batch of `messages` would be taken now.
    pub(crate) fn has_room(&self, messages: usize) -> bool {
        !self.queue.is_full()
            && self.messages.load(Ordering::Relaxed) + messages <= INBOX_MESSAGES_MAX
    }

    fn push(&self, parcel: Parcel) -> Result<(), Parcel> {
        if self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        let messages = parcel.len();
        if self.messages.fetch_add(messages, Ordering::Relaxed) + messages > INBOX_MESSAGES_MAX {
            self.messages.fetch_sub(messages, Ordering::Relaxed);
            return Err(parcel);
        }
        if let Err(parcel) = self.queue.push(parcel) {
            self.messages.fetch_sub(messages, Ordering::Relaxed);
            return Err(parcel);
        }
        self.wake();
        Ok(())
    }

    /// Wakes the shard if it sleeps. The fence pairs with the one in `fall_asleep`: either the
    /// shard sees what was pushed before, or this sees that it sleeps.
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed)
            && self.sleeps.swap(false, Ordering::SeqCst)
            && let Some(waker) = self.waker.get()
        {
            waker.wake();
        }
    }

    pub(crate) fn set_waker(&self, waker: Arc<dyn Waker>) {
        // A shard is built once; a second waker would have no sleeper.
        let _ = self.waker.set(waker);
    }

    pub(crate) fn pop(&self) -> Option<Parcel> {
        let parcel = self.queue.pop()?;
        self.messages.fetch_sub(parcel.len(), Ordering::Relaxed);
        Some(parcel)
    }

    pub(crate) fn take_overflow(&self) -> Vec<Call> {
        // Looked at first: nearly always there is nothing, and a swap costs more.
        let has_some = self.has_overflow.load(Ordering::SeqCst);
        if !has_some || !self.has_overflow.swap(false, Ordering::SeqCst) {
            return Vec::new();
        }
        std::mem::take(&mut *self.overflow.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn pressure(&self) -> Pressure {
        match self.waiting() {
            PRESSURE_FULL.. => Pressure::Full,
            PRESSURE_HIGH.. => Pressure::High,
            _ if self.refuses.load(Ordering::Relaxed) => Pressure::High,
            _ => Pressure::Low,
        }
    }

    /// Notes whether a mailbox of the shard was full in the turn that ends.
    pub(crate) fn note_refusals(&self, any: bool) {
        // Others read this all the time: it is written only when it changes.
        if self.refuses.load(Ordering::Relaxed) != any {
            self.refuses.store(any, Ordering::Relaxed);
        }
    }

    /// Messages not yet taken.
    pub(crate) fn waiting(&self) -> usize {
        self.messages.load(Ordering::Relaxed)
    }

    fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.has_overflow.load(Ordering::SeqCst)
    }

    /// Whether the shard sleeps, or is about to.
    pub(crate) fn is_asleep(&self) -> bool {
        self.sleeps.load(Ordering::Acquire)
    }

    /// Announces that the shard is about to sleep; false if something has come meanwhile.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.sleeps.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !self.has_work() {
            return true;
        }
        self.wake_up();
        false
    }

    pub(crate) fn wake_up(&self) {
        // Only the shard itself lets it sleep: awake, it stays so.
        if self.sleeps.load(Ordering::Relaxed) {
            self.sleeps.store(false, Ordering::SeqCst);
        }
    }

    pub(crate) fn is_shutdown_requested(&self) -> bool {
        self.shutdown.load(Ordering::Relaxed)
    }

    /// From now on, what is sent here is dropped.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Dropping a parcel may answer questions, which pushes; those are dropped in turn.
        while self.pop().is_some() {}
        drop(self.take_overflow());
    }
}
