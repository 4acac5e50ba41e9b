//! A stream of the engine, as it was measured to behave: an expectation is judged against proposals
//! that are not committed yet, what timed out may be committed later, an id within the window
//! answers with the original sequence, and an election keeps any prefix of what was proposed.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use stdx::Moment;

use super::load::Effective;
use crate::journal::{Answer, Found, Publish, Seq};

/// Where an answer goes: a node, a life of its process, a stream.
pub(super) type To = (usize, u64);

struct Proposal {
    publish: Publish,
    from: Option<To>,
}

pub(super) struct Stream {
    log: Vec<Bytes>,
    /// Everything before it was purged.
    pub(super) first: Seq,
    ids: HashMap<String, (Seq, Moment)>,
    window: Duration,
    proposals: VecDeque<Proposal>,
    pub(super) has_leader: bool,
    pub(super) has_quorum: bool,
    pub(super) effective: Effective,
}

impl Stream {
    pub(super) fn new(window: Duration) -> Stream {
        Stream {
            log: Vec::new(),
            first: 1,
            ids: HashMap::new(),
            window,
            proposals: VecDeque::new(),
            has_leader: true,
            has_quorum: true,
            effective: Effective::default(),
        }
    }

    pub(super) fn len(&self) -> Seq {
        self.log.len() as Seq
    }

    pub(super) fn message(&self, seq: Seq) -> Option<Bytes> {
        let at = usize::try_from(seq.checked_sub(1)?).unwrap();
        self.log.get(at).cloned()
    }

    /// An answer now, or none: the proposal's comes when it is committed.
    pub(super) fn publish(
        &mut self,
        now: Moment,
        publish: Publish,
        from: Option<To>,
    ) -> Option<Answer> {
        if !self.has_leader {
            return Some(Answer::Silence);
        }
        if let Some((seq, at)) = self.ids.get(&publish.id)
            && now.saturating_since(*at) < self.window
        {
            return Some(Answer::Stored(*seq));
        }
        if self
            .proposals
            .iter()
            .any(|one| one.publish.id == publish.id)
        {
            return Some(Answer::Silence);
        }
        let last = self.len() + self.proposals.len() as Seq;
        if publish.expected != last {
            return Some(Answer::WrongSequence);
        }
        self.proposals.push_back(Proposal { publish, from });
        None
    }

    /// What the leader has. With `behind`, it is one that does not know yet that it is deposed.
    pub(super) fn read(&self, seq: Seq, behind: Seq) -> Found {
        match self.message(seq) {
            _ if !self.has_leader => Found::Silence,
            Some(bytes) if seq >= self.first && seq + behind <= self.len() => Found::Message(bytes),
            _ => Found::Absent,
        }
    }

    pub(super) fn last(&self, behind: Seq) -> Option<Seq> {
        self.has_leader.then(|| self.len().saturating_sub(behind))
    }

    /// Commits everything proposed, if there is a quorum.
    pub(super) fn commit(&mut self, now: Moment) -> Vec<(To, u64, Seq)> {
        let mut answers = Vec::new();
        if !self.has_leader || !self.has_quorum {
            return answers;
        }
        while let Some(Proposal { publish, from }) = self.proposals.pop_front() {
            self.effective.on_message(&publish.payload);
            self.log.push(publish.payload);
            let seq = self.len();
            self.ids.insert(publish.id, (seq, now));
            answers.extend(from.map(|from| (from, publish.number, seq)));
        }
        answers
    }

    /// The leader is gone, and with it all but `survive` of what it had proposed.
    pub(super) fn depose(&mut self, survive: usize) {
        self.has_leader = false;
        self.proposals.truncate(survive);
        // Whoever waits for an answer waited for the old leader.
        self.proposals.iter_mut().for_each(|one| one.from = None);
    }

    pub(super) fn proposed(&self) -> usize {
        self.proposals.len()
    }

    pub(super) fn elect(&mut self) {
        self.has_leader = true;
    }
}
