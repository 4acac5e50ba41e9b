//! Appends whose commit failed after it may have been written. Owns the handle by which whoever
//! appended learns what became of them. Only the journal resolves it: time decides nothing.

use std::sync::{Arc, OnceLock};

use crate::journal::Outcome;

/// An append in doubt. Clones are the same doubt.
#[derive(Clone, Debug)]
pub struct Doubt(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    why: String,
    outcome: OnceLock<Outcome>,
}

impl Doubt {
    /// A doubt that is open, for whoever implements [`crate::Journal`].
    pub fn open(why: &str) -> Doubt {
        Doubt(Arc::new(Inner {
            why: why.to_owned(),
            outcome: OnceLock::new(),
        }))
    }

    /// What went wrong, for the log.
    pub fn why(&self) -> &str {
        &self.0.why
    }

    /// What became of the append: [`Outcome::Committed`], or [`Outcome::Failed`] if it is certain
    /// that nothing of it is there or ever will be. `None` while nobody knows.
    pub fn resolved(&self) -> Option<Outcome> {
        self.0.outcome.get().cloned()
    }

    /// Says what became of the append. The first word counts.
    pub fn resolve(&self, outcome: Outcome) {
        let _ = self.0.outcome.set(outcome);
    }
}

impl PartialEq for Doubt {
    fn eq(&self, other: &Doubt) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Doubt {}
