//! What the edge keeps of a connection so that it can outlive its home: the last mark, and the
//! client's bytes behind it, of which nobody knows whether the home has handled them.

use std::collections::VecDeque;

use actor::Name;
use stdx::time::Moment;
use wire::limits::ANSWERED_MAX;
use wire::{Counts, Mark};

use crate::options::Joined;

/// Where a connection stands that can outlive its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its home goes on with it.
    AtHome,
    /// It has none since then.
    Waits(Moment),
    /// It has introduced itself.
    Asks(Moment),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) stage: Stage,
    /// Whose session it is, a bare address; empty until the home has said it.
    pub(super) user: Name,
    /// What proves that.
    pub(super) token: Box<str>,
    /// How the client opened its stream, as the first home that spoke of the session said.
    pub(super) header: Vec<u8>,
    pub(super) mark: Mark,
    /// What the home before said it has done.
    pub(super) done: Option<u32>,
    /// Requests behind the mark that have had their answers, by their counts.
    answered: Vec<u32>,
    /// It said that it is none any more, behind so many bytes.
    pub(super) left: Option<u64>,
    /// The client's bytes.
    bytes: VecDeque<u8>,
    /// How many went before them.
    from: u64,
    /// The last so many of them are not sent to the next home yet.
    pub(super) unsent: usize,
}

impl Kept {
    /// Of a client of which so many bytes were sent, and whose session is not known yet.
    pub(super) fn new(sent: u64) -> Kept {
        Kept {
            stage: Stage::AtHome,
            user: Name::from(""),
            token: Box::default(),
            header: Vec::new(),
            mark: Mark::default(),
            done: None,
            answered: Vec::new(),
            left: None,
            bytes: VecDeque::new(),
            from: sent,
            unsent: 0,
        }
    }

    /// The home says whose session it is. A header stays what it was: homes that the connection
    /// came to later were told it from here.
    pub(super) fn is_of(&mut self, (user, token): (Name, Box<str>), header: Vec<u8>) {
        (self.user, self.token) = (user, token);
        if self.header.is_empty() {
            self.header = header;
        }
    }

    /// The home has said whose session it is.
    pub(super) fn has_session(&self) -> bool {
        !self.header.is_empty()
    }

    /// Bytes of the client were sent. Of more than the bound the first ones are not kept.
    pub(super) fn sends(&mut self, bytes: &[u8], bounds: &Joined) {
        let max = match self.has_session() {
            true => bounds.kept_bytes_max,
            false => bounds.early_bytes_max,
        };
        self.bytes.extend(bytes);
        let more = self.bytes.len().saturating_sub(max);
        self.forget(more);
    }

    fn forget(&mut self, bytes: usize) {
        self.bytes.drain(..bytes);
        self.from += bytes as u64;
        if self.bytes.is_empty() && self.bytes.capacity() > 4_096 {
            self.bytes = VecDeque::new();
        }
    }

    /// These requests have their answers among what came from the home.
    pub(super) fn had_answers(&mut self, counts: Vec<u32>) {
        self.answered.extend(counts);
        // Of more the first ones are done again.
        let more = self.answered.len().saturating_sub(ANSWERED_MAX);
        self.answered.drain(..more);
    }

    /// The home says how far it has come.
    pub(super) fn marked(&mut self, mark: Mark) {
        if mark.at < self.mark.at || mark.heard < self.mark.heard {
            return; // It was said before, and overtaken: two ways lead from node to node.
        }
        self.mark = mark;
        let inbound = mark.counts.inbound;
        self.answered
            .retain(|count| count.wrapping_sub(inbound).wrapping_sub(1) < u32::MAX / 2);
        let done = mark.heard.saturating_sub(self.from);
        self.forget(usize::try_from(done).map_or(self.bytes.len(), |d| d.min(self.bytes.len())));
    }

    /// Whether everything behind the last mark is known: so many bytes have come for the client.
    pub(super) fn is_whole(&self, received: u64) -> bool {
        self.mark.at == received && self.mark.heard >= self.from && self.has_session()
    }

    /// What the next home is told: up to where it has come, and which requests behind that have
    /// had their answers.
    pub(super) fn counts(&self) -> (Counts, Vec<u32>) {
        (self.mark.counts, self.answered.clone())
    }

    /// Places are those of another line from now on.
    pub(super) fn moves(&mut self) {
        (self.mark.at, self.mark.heard, self.from) = (0, 0, 0);
        self.left = None;
    }

    /// The next home goes on with it.
    pub(super) fn adopted(&mut self) {
        self.stage = Stage::AtHome;
        self.done = None;
        self.unsent = self.bytes.len();
    }

    /// What is still to be sent to the next home.
    pub(super) fn take_unsent(&mut self) -> Vec<u8> {
        let at = self.bytes.len() - self.unsent;
        self.bytes.range(at..).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        let mut kept = Kept::new(100);
        kept.is_of(("a@x".into(), "token".into()), b"<stream:stream>".to_vec());
        kept
    }

    fn bounds(early_bytes_max: usize, kept_bytes_max: usize) -> Joined {
        Joined {
            early_bytes_max,
            kept_bytes_max,
            ..Joined::default()
        }
    }

    fn mark(at: u64, heard: u64) -> Mark {
        Mark {
            at,
            heard,
            counts: Counts::default(),
        }
    }

    /// Goal: what was sent before anything was kept makes no connection outlive its home, until
    /// that is done; nor does what came behind the last mark.
    #[test]
    fn a_connection_is_whole_if_all_behind_the_mark_is_known() {
        let mut kept = kept();
        kept.marked(mark(10, 90));
        assert!(!kept.is_whole(10));
        kept.sends(b"0123456789", &bounds(0, 64));
        kept.marked(mark(10, 104));
        assert!(kept.is_whole(10) && !kept.is_whole(11));
        kept.moves();
        kept.adopted();
        assert_eq!(kept.take_unsent(), b"456789");
        kept.unsent -= 4;
        assert_eq!(kept.take_unsent(), b"89");
        assert!(kept.is_whole(0));
    }

    /// Goal: a mark, and what the client says, may come before the word of whose session it is; of
    /// the latter the last so many bytes are kept. Nobody goes on without that word.
    #[test]
    fn the_word_of_the_session_may_come_late() {
        for early_bytes_max in [10, 9] {
            let mut kept = Kept::new(100);
            kept.marked(mark(20, 100));
            assert!(!kept.is_whole(20), "nobody knows whose it is");
            kept.sends(b"0123456789", &bounds(early_bytes_max, 64));
            kept.is_of(("a@x".into(), "token".into()), b"<stream:stream>".to_vec());
            kept.marked(mark(10, 100));
            assert_eq!(kept.is_whole(20), early_bytes_max == 10);
            kept.marked(mark(20, 101));
            assert!(kept.is_whole(20));
        }
    }

    /// Goal: the next home is told which requests had their answers, until a record covers them; of
    /// no more than a packet has room for.
    #[test]
    fn what_had_its_answer_is_known_until_a_record_covers_it() {
        let mut kept = kept();
        kept.had_answers(vec![7, 9]);
        let counts = Counts {
            inbound: 8,
            ..Counts::default()
        };
        kept.marked(Mark {
            counts,
            ..mark(0, 100)
        });
        kept.moves();
        kept.adopted();
        assert_eq!(kept.counts(), (counts, vec![9]));
        kept.had_answers((10..).take(ANSWERED_MAX).collect());
        let (_, answered) = kept.counts();
        assert_eq!(
            (answered.len(), answered.first()),
            (ANSWERED_MAX, Some(&10))
        );
    }

    /// Goal: no more is kept than the bound, and what is left out is missed until the home has
    /// handled it.
    #[test]
    fn what_is_kept_is_bounded() {
        let mut kept = kept();
        kept.marked(mark(0, 100));
        kept.sends(b"0123456789", &bounds(0, 8));
        assert_eq!(kept.bytes.len(), 8);
        assert!(!kept.is_whole(0));
        kept.marked(mark(0, 103));
        assert!(kept.is_whole(0));
        assert_eq!(kept.bytes.len(), 7);
    }
}
