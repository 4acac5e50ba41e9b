//! Snapshots that an operator asked for: which are left, and what became of the others. Owns the
//! list between the threads that answer operators and the one that stores snapshots
//! ([`super::snapshots`]). One order at a time: another one is refused until all of it is done.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cluster::layout::StreamId;
use serde::{Deserialize, Serialize};

/// What operators are told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotStatus {
    /// This node, from whose copy they are made.
    pub(crate) node: String,
    /// Streams whose snapshots are left.
    pub(crate) left: Vec<u16>,
    /// The others, in the order in which they were stored.
    pub(crate) done: Vec<SnapshotDone>,
}

/// What became of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotDone {
    /// Of this stream.
    pub(crate) stream: u16,
    /// Up to this message.
    pub(crate) seq: u64,
    /// Keys with their values.
    pub(crate) entries: u64,
    /// Its size.
    pub(crate) bytes: u64,
    /// How long that took, reading it back included.
    pub(crate) took_ms: u64,
    /// Why it was not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

/// See the module.
pub(super) struct Asked {
    node: String,
    streams: Vec<StreamId>,
    /// Bounded by the number of streams.
    list: Mutex<(VecDeque<StreamId>, Vec<SnapshotDone>)>,
}

impl Asked {
    pub(super) fn new(node: String, streams: Vec<StreamId>) -> Asked {
        Asked {
            node,
            streams,
            list: Mutex::default(),
        }
    }

    fn list(&self) -> MutexGuard<'_, (VecDeque<StreamId>, Vec<SnapshotDone>)> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for one of a stream, or of each; or says why not: a word and a sentence.
    pub(super) fn order(&self, stream: Option<u16>) -> Result<(), (&'static str, String)> {
        let wanted = self.streams.iter();
        let wanted = wanted.filter(|one| stream.is_none_or(|stream| stream == one.0));
        let wanted: VecDeque<StreamId> = wanted.copied().collect();
        if wanted.is_empty() {
            let last = self.streams.len().saturating_sub(1);
            let message = format!("there is no such stream: they are 0 to {last}");
            return Err(("no_stream", message));
        }
        let mut list = self.list();
        if let Some(next) = list.0.front() {
            let message = format!(
                "snapshots are under way on node {}: of stream {}, and {} behind it; try again",
                self.node,
                next.0,
                list.0.len() - 1
            );
            return Err(("busy", message));
        }
        *list = (wanted, Vec::new());
        Ok(())
    }

    /// How far it is.
    pub(super) fn status(&self) -> SnapshotStatus {
        let list = self.list();
        SnapshotStatus {
            node: self.node.clone(),
            left: list.0.iter().map(|stream| stream.0).collect(),
            done: list.1.clone(),
        }
    }

    /// The next one to store.
    pub(super) fn next(&self) -> Option<StreamId> {
        self.list().0.front().copied()
    }

    /// It is stored, or not.
    pub(super) fn done(&self, done: SnapshotDone) {
        let mut list = self.list();
        if list.0.front() == Some(&StreamId(done.stream)) {
            list.0.pop_front();
            list.1.push(done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: one order at a time, of streams that there are; its results stay until the next.
    #[test]
    fn one_order_at_a_time() {
        let asked = Asked::new("a".to_owned(), vec![StreamId(0), StreamId(1)]);
        assert_eq!(asked.next(), None);
        let refused = asked.order(Some(2)).unwrap_err();
        assert!(refused.1.contains("0 to 1"), "{refused:?}");
        asked.order(None).unwrap();
        let busy = asked.order(Some(1)).unwrap_err();
        assert_eq!(busy.0, "busy");
        assert!(busy.1.contains("of stream 0, and 1 behind it"), "{busy:?}");
        for stream in [0, 1] {
            assert_eq!(asked.next(), Some(StreamId(stream)));
            let done = SnapshotDone {
                stream,
                seq: 7,
                ..SnapshotDone::default()
            };
            asked.done(done.clone());
            asked.done(done);
        }
        assert_eq!((asked.next(), asked.status().done.len()), (None, 2));
        asked.order(Some(1)).unwrap();
        assert_eq!(
            (asked.status().left, asked.status().done),
            (vec![1], vec![])
        );
    }
}
