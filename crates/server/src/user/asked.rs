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

#[cfg(test)]
mod tests {
    use actor::ShardId;
    use stdx::slab::Key;

    use super::*;

    fn session(index: u32) -> ConnRef {
        ConnRef {
            shard: ShardId::new(0),
            id: Key {
                index,
                generation: 0,
            },
        }
    }

    fn request(id: usize) -> Frame {
        Frame::parse(format!("<iq id='{id}' from='b@h' type='get'/>").as_bytes()).unwrap()
    }

    #[test]
    fn each_request_has_one_answer_and_the_oldest_is_forgotten() {
        let mut asked = Asked::default();
        for id in 0..=ASKED_MAX {
            asked.note(session(1), "b@h", &request(id));
        }
        assert!(!asked.take(session(1), &request(0)), "it had to give way");
        assert!(!asked.take(session(2), &request(1)), "another one's");
        assert!(asked.take(session(1), &request(1)));
        assert!(!asked.take(session(1), &request(1)), "answered already");
        asked.note(session(2), "b@h", &request(1));
        asked.forget(session(1));
        assert!(!asked.take(session(1), &request(2)));
        assert!(asked.take(session(2), &request(1)) && asked.is_empty());
    }
}
