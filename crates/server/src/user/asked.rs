//! What sessions have asked other accounts and were not answered yet: an answer is what a session
//! wants itself, and reaches it however much waits for its client. Owns only who asked what.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, BuildHasherDefault};

use net::ConnRef;
use rustc_hash::FxHasher;
use xml::Frame;

use crate::limits::ASKED_MAX;

/// Requests of a user's sessions to other accounts, the oldest first: at most [`ASKED_MAX`]. The
/// answer to one that is forgotten is taken for something that another account says by itself.
#[derive(Debug, Default)]
pub(super) struct Asked(VecDeque<(ConnRef, u64)>);

impl Asked {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A session asks somebody.
    pub(super) fn note(&mut self, session: ConnRef, to: &str, request: &Frame) {
        if self.0.len() >= ASKED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((session, name(to, request)));
    }

    /// Whether it is the first answer to a question of a session (RFC 6120 section 8.2.3).
    pub(super) fn take(&mut self, session: ConnRef, answer: &Frame) -> bool {
        let from = answer.attr("from").unwrap_or_default();
        let name = (session, name(&from, answer));
        let at = self.0.iter().position(|own| *own == name);
        at.and_then(|at| self.0.remove(at)).is_some()
    }

    /// A session is gone.
    pub(super) fn forget(&mut self, session: ConnRef) {
        self.0.retain(|(own, _)| *own != session);
    }
}

/// What recognises an answer: who was asked, and the request's id.
fn name(peer: &str, stanza: &Frame) -> u64 {
    let hasher = BuildHasherDefault::<FxHasher>::default();
    hasher.hash_one((peer, stanza.attr("id").as_deref()))
}
