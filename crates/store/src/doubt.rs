//! Users of whom nobody knows whether their last change survives: a commit failed after it may have
//! been written, and the engine was not read anew since. Owns that set. What is read of such a user
//! before could lack a change that is there afterwards, and somebody would build on it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashSet;

use crate::error::StoreError;

#[derive(Default)]
pub(crate) struct InDoubt(Mutex<FxHashSet<String>>);

impl InDoubt {
    pub(crate) fn add<'a>(&self, users: impl Iterator<Item = &'a str>) {
        self.users().extend(users.map(str::to_owned));
    }

    /// Everything is known again.
    pub(crate) fn clear(&self) {
        self.users().clear();
    }

    /// Refuses to read a user who is in doubt.
    pub(crate) fn check(&self, user: &str) -> Result<(), StoreError> {
        if self.users().contains(user) {
            let why = format!("{user}: a change is in doubt until the engine can be opened again");
            return Err(StoreError::Unavailable(why));
        }
        Ok(())
    }

    fn users(&self) -> MutexGuard<'_, FxHashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
