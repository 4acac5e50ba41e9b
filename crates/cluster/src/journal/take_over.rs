//! How a node becomes the writer of a stream: it appends a record of its epoch right behind the
//! last message. Owns what the answers to that mean; reading up to the record comes after it.
//!
//! | asked | answer | then |
//! |---|---|---|
//! | the leader for its last sequence | a sequence | the record is published, expecting it |
//! | to store the record | stored right behind it | done |
//! | to store the record | wrong sequence | the leader is asked what is there |
//! | to store the record | silence | the identical publish again |
//! | what is there | ours | done |
//! | what is there | a newer epoch | lost: somebody else was given the stream later |
//! | what is there | anything else | from the beginning: the deposed writer was faster |
//! | what is there | nothing | from the beginning after a pause: it is purged, or not committed yet |

use std::collections::VecDeque;
use std::time::Duration;

use stdx::{Level, Moment};

use crate::journal::message::{Author, Body, Message};
use crate::journal::{Answer, Epoch, Found, Publish, Seq};

/// Bounds and times of a take-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Pause before something is asked again. Default: 250 ms.
    pub again_after: Duration,
    /// Records that may come too late before the take-over is given up; the map may give the stream
    /// to somebody else then. Default: 1,000.
    pub attempts_max: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            again_after: Duration::from_millis(250),
            attempts_max: 1_000,
        }
    }
}

/// What a take-over wants done, or says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the stream's leader for the sequence of its last message.
    AskLast,
    /// Send this.
    Publish(Publish),
    /// Ask the stream's leader what is at this sequence.
    Read(Seq),
    /// The record is in the stream, here.
    Done(Seq),
    /// The stream is not this node's, and why.
    Lost(String),
}

enum Step {
    Asking,
    Publishing(Publish),
    Reading(Publish),
    Over,
}

/// The taking of one stream for one epoch.
pub struct TakeOver {
    options: Options,
    author: Author,
    epoch: Epoch,
    number: u64,
    level: Level,
    attempts: u32,
    step: Step,
    again_at: Moment,
    effects: VecDeque<Effect>,
}

impl TakeOver {
    /// Begins. `number` is that of the last publish of this process, `level` that of the
    /// deployment.
    pub fn new(
        now: Moment,
        options: Options,
        author: Author,
        epoch: Epoch,
        (number, level): (u64, Level),
    ) -> Self {
        let mut taking = TakeOver {
            options,
            author,
            epoch,
            number,
            level,
            attempts: 0,
            step: Step::Asking,
            again_at: now,
            effects: VecDeque::new(),
        };
        taking.ask(now);
        taking
    }

    /// The epoch that it is to begin.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Number of the last publish.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The sequence of the last message, from the stream's leader.
    pub fn on_last(&mut self, now: Moment, last: Option<Seq>) {
        let (Step::Asking, Some(last)) = (&self.step, last) else {
            return;
        };
        self.attempts += 1;
        if self.attempts > self.options.attempts_max {
            return self.lose("others were faster too often".to_owned());
        }
        self.number += 1;
        let record = Message {
            author: self.author.clone(),
            number: self.number,
            epoch: self.epoch,
            body: Body::Epoch,
            level: self.level,
        };
        self.publish(
            now,
            Publish {
                number: self.number,
                expected: last,
                id: record.id(),
                payload: record.encode(),
            },
        );
    }

    /// What the engine answered to the publish with this number.
    pub fn on_answer(&mut self, now: Moment, number: u64, answer: Answer) {
        let Step::Publishing(publish) = &self.step else {
            return;
        };
        if publish.number != number {
            return;
        }
        match answer {
            Answer::Stored(seq) if seq == publish.expected + 1 => self.done(seq),
            // Nothing else has this id, so it cannot be where it was not expected.
            Answer::Stored(seq) => self.lose(format!("its record is at {seq}")),
            Answer::WrongSequence => {
                self.effects.push_back(Effect::Read(publish.expected + 1));
                self.step = Step::Reading(publish.clone());
                self.again_at = now + self.options.again_after;
            }
            Answer::Silence => {}
            Answer::Refused(why) => self.lose(why),
        }
    }

    /// What the leader has at a sequence that was asked for.
    pub fn on_found(&mut self, now: Moment, seq: Seq, found: &Found) {
        let publish = match &self.step {
            Step::Reading(publish) if publish.expected + 1 == seq => publish.clone(),
            _ => return,
        };
        match found {
            Found::Message(bytes) => match Message::decode(bytes) {
                Ok(other) if self.is_ours(&other) => self.done(seq),
                Ok(other) if other.epoch < self.epoch => self.ask(now),
                Ok(other) => self.lose(format!("epoch {} has begun", other.epoch)),
                Err(error) => self.lose(error.to_string()),
            },
            // Not committed yet, or purged. Another record does no harm: if the first one is there
            // after all, the epoch has begun with it.
            Found::Absent => {
                self.step = Step::Asking;
                self.again_at = now + self.options.again_after;
            }
            Found::Silence => {
                self.step = Step::Publishing(publish);
                self.again_at = now + self.options.again_after;
            }
        }
    }

    /// Whether it is a record of this take-over, of this attempt or an earlier one.
    fn is_ours(&self, other: &Message) -> bool {
        (other.epoch, &other.author) == (self.epoch, &self.author)
    }

    /// Asks again for what was not answered.
    pub fn on_time(&mut self, now: Moment) {
        if now < self.again_at {
            return;
        }
        match &self.step {
            Step::Asking => self.ask(now),
            Step::Publishing(publish) | Step::Reading(publish) => {
                let publish = publish.clone();
                self.publish(now, publish);
            }
            Step::Over => {}
        }
    }

    /// When [`TakeOver::on_time`] is next of use.
    pub fn next_time(&self) -> Option<Moment> {
        (!matches!(self.step, Step::Over)).then_some(self.again_at)
    }

    /// The next effect.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    fn ask(&mut self, now: Moment) {
        self.step = Step::Asking;
        self.again_at = now + self.options.again_after;
        self.effects.push_back(Effect::AskLast);
    }

    fn publish(&mut self, now: Moment, publish: Publish) {
        self.effects.push_back(Effect::Publish(publish.clone()));
        self.step = Step::Publishing(publish);
        self.again_at = now + self.options.again_after;
    }

    fn done(&mut self, seq: Seq) {
        self.step = Step::Over;
        self.effects.push_back(Effect::Done(seq));
    }

    fn lose(&mut self, why: String) {
        self.step = Step::Over;
        self.effects.push_back(Effect::Lost(why));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const NOW: Moment = Moment::ZERO;

    fn taking(attempts_max: u32) -> TakeOver {
        let options = Options {
            attempts_max,
            ..Options::default()
        };
        let author = Author {
            node: "b".to_owned(),
            incarnation: 1,
        };
        TakeOver::new(NOW, options, author, 5, (0, Level::FIRST))
    }

    fn published(taking: &mut TakeOver) -> Publish {
        match taking.poll() {
            Some(Effect::Publish(publish)) => publish,
            other => panic!("{other:?}"),
        }
    }

    fn epoch(epoch: Epoch) -> Found {
        let author = Author {
            node: "x".to_owned(),
            incarnation: 1,
        };
        let record = Message {
            author,
            number: 1,
            epoch,
            body: Body::Epoch,
            level: Level::FIRST,
        };
        Found::Message(record.encode())
    }

    /// Asked, published, refused, looked up.
    fn refused(taking: &mut TakeOver, found: &Found) -> Publish {
        assert_eq!(taking.poll(), Some(Effect::AskLast));
        taking.on_last(NOW, Some(10));
        let publish = published(taking);
        taking.on_answer(NOW, publish.number, Answer::WrongSequence);
        assert_eq!(taking.poll(), Some(Effect::Read(11)));
        taking.on_found(NOW, 11, found);
        publish
    }

    /// Goal: a deposed writer that was faster is tried again, as often as the bound says.
    #[test]
    fn a_faster_writer_is_tried_again_within_a_bound() {
        let mut taking = taking(2);
        let first = refused(&mut taking, &epoch(4));
        let second = refused(&mut taking, &epoch(4));
        assert_ne!(first.id, second.id);
        assert_eq!(taking.poll(), Some(Effect::AskLast));
        taking.on_last(NOW, Some(12));
        assert!(matches!(taking.poll(), Some(Effect::Lost(_))));
        assert_eq!(taking.next_time(), None);
    }

    /// Goal: a newer epoch, or a message of a newer program, ends the take-over.
    #[test]
    fn a_newer_epoch_wins() {
        for found in [epoch(6), Found::Message(Bytes::from_static(&[9]))] {
            let mut taking = taking(9);
            refused(&mut taking, &found);
            assert!(matches!(taking.poll(), Some(Effect::Lost(_))));
        }
    }

    /// Goal: a record without an answer is sent again identically; one that is nowhere is followed
    /// by another, and whichever of them is there begins the epoch.
    #[test]
    fn a_record_in_doubt_may_be_any_of_its_attempts() {
        let mut taking = taking(9);
        let first = refused(&mut taking, &Found::Absent);
        assert_eq!(taking.poll(), None);
        let later = NOW + Options::default().again_after;
        taking.on_time(later);
        assert_eq!(taking.poll(), Some(Effect::AskLast));
        taking.on_last(later, Some(10));
        let second = published(&mut taking);
        assert_ne!(second.id, first.id);
        taking.on_time(later + Options::default().again_after);
        assert_eq!(published(&mut taking), second);
        taking.on_answer(later, second.number, Answer::WrongSequence);
        taking.poll();
        taking.on_found(later, 11, &Found::Message(first.payload));
        assert_eq!(taking.poll(), Some(Effect::Done(11)));
    }
}
