//! Threads for work that blocks or takes long: store reads, key derivation.
//!
//! Owns the threads and their bounded queue, which refuses at once when it is full. Deliberately
//! not here: how the result gets back (see [`crate::Context::blocking`]).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::{fmt, io, thread};

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// There is no room for another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFull;

impl fmt::Display for PoolFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many blocking jobs are waiting")
    }
}

impl std::error::Error for PoolFull {}

/// A pool of named threads. Its threads end when the last clone is gone and the queue is done.
#[derive(Clone, Debug)]
pub struct Pool(Option<SyncSender<Job>>);

impl Pool {
    /// Starts `threads` threads behind a queue of at most `queue_max` jobs.
    ///
    /// # Errors
    /// The operating system's, if it gives no thread.
    pub fn new(name: &str, threads: usize, queue_max: usize) -> io::Result<Pool> {
        let (sender, receiver) = sync_channel::<Job>(queue_max);
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..threads {
            let receiver = Arc::clone(&receiver);
            thread::Builder::new()
                .name(format!("{name}-{number}"))
                .spawn(move || work(&receiver))?;
        }
        Ok(Pool(Some(sender)))
    }

    /// A pool that runs each job at once on the caller's thread: for simulations.
    pub fn inline() -> Pool {
        Pool(None)
    }

    /// Hands a job over. A panic of the job stays with it.
    ///
    /// # Errors
    /// [`PoolFull`]; the job did not run and will not.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), PoolFull> {
        self.offer(Box::new(job)).map_err(|_| PoolFull)
    }

    /// Hands a job over, or gives it back.
    pub(crate) fn offer(&self, job: Job) -> Result<(), Job> {
        let Some(sender) = &self.0 else {
            run_one(job);
            return Ok(());
        };
        sender.try_send(job).map_err(|error| match error {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
        })
    }
}

fn work(receiver: &Mutex<Receiver<Job>>) {
    loop {
        let job = match receiver.lock() {
            Ok(receiver) => receiver.recv(),
            Err(_) => return,
        };
        let Ok(job) = job else { return };
        run_one(job);
    }
}

/// A job that panics takes its question with it, which tells the asker; the thread goes on.
fn run_one(job: Job) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
        // The payload may panic when dropped.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(panic)));
    }
}
