//! A batch that is handed over and may still grow: until its commit begins, what comes later joins
//! it instead of waiting for the commit after. Owns who may add, and until when.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::journal::Append;

/// `None` from the moment in which the commit begins.
type Appends = Arc<Mutex<Option<Vec<Append>>>>;

/// The journal's end: whoever has it begins the commit.
#[derive(Debug)]
pub struct AppendBatch(Appends);

/// The end of whoever handed the batch over.
#[derive(Clone, Debug)]
pub struct Adding(Appends);

impl AppendBatch {
    /// A batch of these, to begin with.
    pub fn new(appends: Vec<Append>) -> AppendBatch {
        AppendBatch(Arc::new(Mutex::new(Some(appends))))
    }

    /// The way to add to it.
    pub fn adding(&self) -> Adding {
        Adding(Arc::clone(&self.0))
    }

    /// Its commit begins: everything in it, in order. Nothing can be added any more.
    pub fn close(self) -> Vec<Append> {
        lock(&self.0).take().unwrap_or_default()
    }
}

/// Nothing is added to what nobody will commit.
impl Drop for AppendBatch {
    fn drop(&mut self) {
        lock(&self.0).take();
    }
}

impl Adding {
    /// Adds one append, behind all others of the batch.
    ///
    /// # Errors
    /// The append comes back: the commit has begun, or never will.
    pub fn add(&self, append: Append) -> Result<(), Append> {
        match lock(&self.0).as_mut() {
            Some(appends) => {
                appends.push(append);
                Ok(())
            }
            None => Err(append),
        }
    }
}

fn lock(appends: &Appends) -> MutexGuard<'_, Option<Vec<Append>>> {
    appends.lock().unwrap_or_else(PoisonError::into_inner)
}
