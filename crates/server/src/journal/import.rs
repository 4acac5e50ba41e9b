//! Records of accounts that an administrator makes, through the same queue as everybody's. Owns
//! the split by range and the one answer to each import. An account whose actor is loaded here
//! appends for itself: its records go back to whoever asks, to be given to that actor.

use actor::{Context, Mail, Reply};
use rustc_hash::FxHashMap;
use store::{RangeId, Record, SlotKey};

use super::Who;
use super::port::PortMsg;
use super::queue::Queue;
use crate::message::{AppendError, UserMsg};

/// The answer to an import.
#[derive(Debug)]
pub(crate) struct Imported {
    /// What became of the records, but for those below. With an error, those of some accounts may
    /// be there and those of others not; with [`AppendError::Busy`] none are.
    pub(crate) result: Result<(), AppendError>,
    /// Records of accounts that are loaded, in their order: not appended.
    pub(crate) loaded: Vec<Record>,
}

/// Imports that wait for appends.
#[derive(Default)]
pub(super) struct Imports {
    last: u64,
    waiting: FxHashMap<u64, Waiting>,
}

struct Waiting {
    /// Appends that are not decided.
    left: usize,
    answer: Imported,
    reply: Reply<Imported>,
}

impl Imports {
    /// One append of an import is decided.
    pub(super) fn decided(
        &mut self,
        number: u64,
        result: Result<(), AppendError>,
        mail: &mut impl Mail,
    ) {
        let Some(import) = self.waiting.get_mut(&number) else {
            return;
        };
        import.left -= 1;
        import.answer.result = import.answer.result.and(result);
        if import.left == 0
            && let Some(Waiting { answer, reply, .. }) = self.waiting.remove(&number)
        {
            reply.send(mail, answer);
        }
    }
}

impl Queue {
    /// Takes an import: each account's records stay together and in order. Returns how many
    /// appends there are.
    pub(super) fn import(
        &mut self,
        slots: &SlotKey,
        records: Vec<Record>,
        reply: Reply<Imported>,
        cx: &mut Context<'_, PortMsg>,
    ) -> usize {
        let mut answer = Imported {
            result: Ok(()),
            loaded: Vec::new(),
        };
        if !self.has_room() {
            answer.result = Err(AppendError::Busy);
            reply.send(cx, answer);
            return 0;
        }
        let mut ranges: Vec<(RangeId, Vec<Record>)> = Vec::new();
        for record in records {
            let range = slots.slot(record.user()).range();
            // Of a range that has moved nobody here knows who is loaded.
            let has_left = self.left.contains(&range);
            if has_left || cx.whereis::<UserMsg>(record.user()).is_some() {
                answer.loaded.push(record);
                continue;
            }
            match ranges.iter_mut().find(|(known, _)| *known == range) {
                Some((_, records)) => records.push(record),
                None => ranges.push((range, vec![record])),
            }
        }
        if ranges.is_empty() {
            reply.send(cx, answer);
            return 0;
        }
        self.imports.last += 1;
        let (number, left) = (self.imports.last, ranges.len());
        for (range, records) in ranges {
            let tenure = self.tenure(range);
            let group = self.push(Who::Import(number), range, tenure, records);
            self.schedule(group, cx);
        }
        let waiting = Waiting {
            left,
            answer,
            reply,
        };
        self.imports.waiting.insert(number, waiting);
        left
    }
}
