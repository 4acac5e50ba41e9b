//! The ways between shards, and from other threads to shards: bounded queues of batches. Nobody
//! waits: what does not fit comes back.

use std::any::{Any, TypeId};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_queue::ArrayQueue;
use stdx::slab::Key;

use crate::core::Core;
use crate::limits::INBOX_BATCHES_MAX;
use crate::traits::Waker;
use crate::types::{AskError, Name, ShardId};

/// Something on its way to another shard.
pub(crate) enum Envelope {
    Msg {
        key: Key,
        priority: bool,
        payload: Box<dyn Any + Send>,
    },
    Named {
        class: TypeId,
        name: Name,
        payload: Box<dyn Any + Send>,
        activate: bool,
    },
    Answer {
        ask: u64,
        payload: Result<Box<dyn Any + Send>, AskError>,
    },
    Call(Box<dyn FnOnce(&mut Core) + Send>),
}

pub(crate) struct Inbox {
    queue: ArrayQueue<Vec<Envelope>>,
    sleeps: AtomicBool,
    waker: OnceLock<Arc<dyn Waker>>,
    pub(crate) actors: AtomicU64,
    pub(crate) handled: AtomicU64,
}

/// The inboxes of every shard of a system.
pub(crate) struct Links {
    inboxes: Vec<Inbox>,
}

impl Links {
    pub(crate) fn new(shards: u16) -> Self {
        let inbox = |_| Inbox {
            queue: ArrayQueue::new(INBOX_BATCHES_MAX),
            sleeps: AtomicBool::new(false),
            waker: OnceLock::new(),
            actors: AtomicU64::new(0),
            handled: AtomicU64::new(0),
        };
        Links {
            inboxes: (0..shards).map(inbox).collect(),
        }
    }

    pub(crate) fn shards(&self) -> u16 {
        self.inboxes.len() as u16
    }

    pub(crate) fn inbox(&self, shard: ShardId) -> &Inbox {
        &self.inboxes[usize::from(shard.index())]
    }

    pub(crate) fn push(&self, shard: ShardId, batch: Vec<Envelope>) -> Result<(), Vec<Envelope>> {
        let inbox = self.inbox(shard);
        inbox.queue.push(batch)?;
        if inbox.sleeps.swap(false, Ordering::SeqCst) {
            if let Some(waker) = inbox.waker.get() {
                waker.wake();
            }
        }
        Ok(())
    }
}

impl Inbox {
    pub(crate) fn set_waker(&self, waker: Arc<dyn Waker>) {
        // A shard is built once; a second waker would have no sleeper.
        let _ = self.waker.set(waker);
    }

    pub(crate) fn pop(&self) -> Option<Vec<Envelope>> {
        self.queue.pop()
    }

    /// Announces that the shard is about to sleep; false if something has come meanwhile.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.sleeps.store(true, Ordering::SeqCst);
        if self.queue.is_empty() {
            return true;
        }
        self.sleeps.store(false, Ordering::SeqCst);
        false
    }

    pub(crate) fn wake_up(&self) {
        self.sleeps.store(false, Ordering::SeqCst);
    }
}
