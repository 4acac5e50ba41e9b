//! Threads for work that blocks or takes long: store reads, key derivation. A shard hands a job over
//! and goes on; the result comes back as a message. The queue is bounded and refuses at once.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// The queue has no room for another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFull;

/// A pool of named threads. Its threads end when the last clone is gone and the queue is done.
#[derive(Clone)]
pub struct Pool(Option<SyncSender<Job>>);

impl Pool {
    /// Starts `threads` threads behind a queue of at most `queue_max` jobs.
    ///
    /// # Errors
    /// The operating system's, if it gives no thread.
    pub fn new(name: &str, threads: usize, queue_max: usize) -> std::io::Result<Pool> {
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

    /// Hands a job over.
    ///
    /// # Errors
    /// [`PoolFull`]; the job did not run and will not.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), PoolFull> {
        match &self.0 {
            None => {
                job();
                Ok(())
            }
            Some(sender) => sender.try_send(Box::new(job)).map_err(|error| match error {
                TrySendError::Full(_) | TrySendError::Disconnected(_) => PoolFull,
            }),
        }
    }
}

fn work(receiver: &Mutex<Receiver<Job>>) {
    loop {
        let job = match receiver.lock() {
            Ok(receiver) => receiver.recv(),
            Err(_) => return,
        };
        let Ok(job) = job else { return };
        // A job that panics takes its question with it; the thread goes on with the next.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
    }
}
