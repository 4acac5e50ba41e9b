//! Request and reply: every question has a deadline, and its answer, or the lack of one, arrives as
//! a message of the asker.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use crate::core::Mail;
use crate::link::{Envelope, Links};
use crate::types::{AskError, ShardId};

enum Asker {
    Shard {
        links: Arc<Links>,
        shard: ShardId,
        ask: u64,
    },
    Thread(SyncSender<Box<dyn Any + Send>>),
    Answered,
}

/// The right to answer one question, once. Dropping it tells the asker so.
pub struct Reply<R> {
    asker: Asker,
    takes: PhantomData<fn(R)>,
}

impl<R> std::fmt::Debug for Reply<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reply")
    }
}

impl<R: Send + 'static> Reply<R> {
    pub(crate) fn to_shard(links: Arc<Links>, shard: ShardId, ask: u64) -> Self {
        Reply {
            asker: Asker::Shard { links, shard, ask },
            takes: PhantomData,
        }
    }

    pub(crate) fn to_thread(sender: SyncSender<Box<dyn Any + Send>>) -> Self {
        Reply {
            asker: Asker::Thread(sender),
            takes: PhantomData,
        }
    }

    /// Answers.
    pub fn send(mut self, mail: &mut impl Mail, value: R) {
        match std::mem::replace(&mut self.asker, Asker::Answered) {
            Asker::Shard { shard, ask, .. } => mail.core().answer(shard, ask, Ok(Box::new(value))),
            // The thread has given up: its deadline has passed.
            Asker::Thread(sender) => drop(sender.try_send(Box::new(value))),
            Asker::Answered => {}
        }
    }
}

impl<R> Drop for Reply<R> {
    fn drop(&mut self) {
        if let Asker::Shard { links, shard, ask } = &self.asker {
            let answer = Envelope::Answer {
                ask: *ask,
                payload: Err(AskError::Dropped),
            };
            // If the way is full the deadline tells the asker instead.
            let _ = links.push(*shard, vec![answer]);
        }
    }
}
