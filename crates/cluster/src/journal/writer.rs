//! The one who writes to a stream during one epoch. Owns what is collected, the one publish under
//! way, and what its answers mean.
//!
//! | the publish is | answer | then |
//! |---|---|---|
//! | under way | stored right behind what was expected | committed; the next one leaves |
//! | under way | stored elsewhere, or any other refusal | the tenure ends, the publish is in doubt |
//! | under way | wrong sequence | the leader is asked what is there |
//! | under way | silence | the identical publish again; after [`Options::quorum_within`], no quorum |
//! | asked for | ours | committed |
//! | asked for | another one | the tenure ends, the publish is not there and never will be |
//! | asked for | nothing | still in doubt: the identical publish again |
//! | not there | a void message in the stream | the next publish goes behind it |
//!
//! One publish at a time is what fences: with more, a deposed writer whose first publish is refused
//! has the others accepted.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use stdx::{Level, Moment};
use store::{Position, RangeId};

use crate::flaw::{self, Flaw};
use crate::journal::message::{Author, Body, Check, Entry, Message, Run};
use crate::journal::{Answer, Epoch, Found, Publish, Seq};

/// Bounds and times of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most bytes of appends in one message. Default: 512 KB; the engine takes 1 MB.
    pub batch_bytes_max: usize,
    /// Most appends that wait; one more is refused with [`Refused::Busy`]. Default: 16,384.
    pub queue_appends_max: usize,
    /// Most bytes that wait; more are refused with [`Refused::Busy`]. Default: 16 MB.
    pub queue_bytes_max: usize,
    /// Without an acknowledgement for so long there is no quorum. Default: 1 s.
    pub quorum_within: Duration,
    /// Pause before the identical publish is sent again. Default: 500 ms.
    pub again_after: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            batch_bytes_max: 512 * 1_024,
            queue_appends_max: 16_384,
            queue_bytes_max: 16 * 1_024 * 1_024,
            quorum_within: Duration::from_secs(1),
            again_after: Duration::from_millis(500),
        }
    }
}

/// What the caller calls an append.
pub type Token = u64;

/// Why an append was not taken. Nothing of it will ever be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It alone is larger than a message may be.
    #[error("the append is larger than a message of the stream")]
    TooLarge,
    /// Too much waits.
    #[error("too many appends wait for the stream")]
    Busy,
    /// The stream takes nothing for the moment.
    #[error("the stream has no quorum")]
    NoQuorum,
    /// This node is not the stream's home.
    #[error("this node is not the stream's home")]
    NotHome,
}

/// Why a tenure ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Something else is where the next message should have been.
    Fenced,
    /// The engine answered something that this writer does not go on after.
    Broken(String),
}

/// What the writer wants done, or says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this.
    Publish(Publish),
    /// Ask the stream's leader what is at this sequence.
    Read(Seq),
    /// This message is in the stream, with these appends in it.
    Committed {
        /// Where.
        seq: Seq,
        /// The message.
        message: Bytes,
        /// Each append, in order, with its position.
        tokens: Vec<(Token, Position)>,
    },
    /// Whether there is a quorum, when that changes.
    Quorum(bool),
    /// These are not there and never will be.
    Failed(Vec<Token>),
    /// The tenure is over; nothing follows.
    Ended {
        /// Why.
        why: End,
        /// In the publish of which nobody knows whether it will be stored, at `seq` if so.
        in_doubt: Vec<Doubtful>,
    },
}

/// A publish whose fate the stream has not told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubtful {
    /// The only place where it can come to be.
    pub seq: Seq,
    /// What it is.
    pub message: Message,
    /// Its appends.
    pub tokens: Vec<(Token, Position)>,
}

struct Waiting {
    token: Token,
    range: RangeId,
    bytes: Bytes,
}

struct InFlight {
    publish: Publish,
    message: Message,
    tokens: Vec<(Token, Position)>,
    since: Moment,
    again_at: Moment,
    is_read: bool,
}

/// Writes to one stream during one epoch.
pub struct Writer {
    options: Options,
    author: Author,
    epoch: Epoch,
    /// Sequence of the last message, those under way included.
    last: Seq,
    /// Number of the last publish of this process.
    number: u64,
    positions: FxHashMap<RangeId, Position>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// At most one.
    in_flight: Vec<InFlight>,
    check: Option<Check>,
    level: Level,
    has_quorum: bool,
    is_over: bool,
    effects: VecDeque<Effect>,
}

/// With what a writer begins.
pub struct Start {
    /// Whoever writes.
    pub author: Author,
    /// In which epoch.
    pub epoch: Epoch,
    /// Sequence of the epoch's record, up to which everything was applied.
    pub last: Seq,
    /// Number of the last publish of this process.
    pub number: u64,
    /// That of the deployment.
    pub level: Level,
    /// Where each range of the stream stands there.
    pub positions: Vec<(RangeId, Position)>,
}

const IN_FLIGHT_MAX: usize = 1;

impl Writer {
    /// Begins behind the epoch's record.
    pub fn new(options: Options, start: Start) -> Writer {
        Writer {
            options,
            author: start.author,
            epoch: start.epoch,
            last: start.last,
            number: start.number,
            positions: start.positions.into_iter().collect(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            in_flight: Vec::new(),
            check: None,
            level: start.level,
            has_quorum: true,
            is_over: false,
            effects: VecDeque::new(),
        }
    }

    /// The epoch in which it writes.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Number of the last publish.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Since when the publish under way has not been answered.
    pub fn unanswered_since(&self) -> Option<Moment> {
        self.in_flight.first().map(|flight| flight.since)
    }

    /// Collects an append.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn append(
        &mut self,
        now: Moment,
        token: Token,
        range: RangeId,
        bytes: Bytes,
    ) -> Result<(), Refused> {
        if self.is_over || !self.positions.contains_key(&range) {
            return Err(Refused::NotHome);
        }
        if bytes.len() > self.options.batch_bytes_max {
            return Err(Refused::TooLarge);
        }
        if !self.has_quorum {
            return Err(Refused::NoQuorum);
        }
        let is_full = self.waiting.len() >= self.options.queue_appends_max
            || self.waiting_bytes + bytes.len() > self.options.queue_bytes_max;
        if is_full {
            return Err(Refused::Busy);
        }
        self.waiting_bytes += bytes.len();
        self.waiting.push_back(Waiting {
            token,
            range,
            bytes,
        });
        self.publish(now);
        Ok(())
    }

    /// The deployment was raised: later messages are of this level.
    pub fn raise(&mut self, level: Level) {
        self.level = self.level.max(level);
    }

    /// Hashes for other replicas, to go with the next message.
    pub fn tell(&mut self, check: Check) {
        self.check = Some(check);
    }

    /// What the engine answered to the publish with this number.
    pub fn on_answer(&mut self, now: Moment, number: u64, answer: Answer) {
        let Some(at) = self.position_of(number) else {
            return;
        };
        let expected = self.in_flight[at].publish.expected;
        match answer {
            Answer::Stored(seq) if seq == expected + 1 => self.committed(now, at),
            Answer::Stored(_) if flaw::is(Flaw::AnyAcknowledgement) => self.committed(now, at),
            Answer::Stored(seq) => self.end(End::Broken(format!(
                "acknowledged at {seq} instead of {}",
                expected + 1
            ))),
            Answer::WrongSequence if flaw::is(Flaw::RefusalDecides) => self.fail(at),
            Answer::WrongSequence => {
                if !self.in_flight[at].is_read {
                    self.in_flight[at].is_read = true;
                    self.effects.push_back(Effect::Read(expected + 1));
                }
            }
            Answer::Silence => {}
            Answer::Refused(why) => self.end(End::Broken(why)),
        }
    }

    /// What the leader has at a sequence that was asked for.
    pub fn on_found(&mut self, now: Moment, seq: Seq, found: &Found) {
        let asked = |flight: &InFlight| flight.is_read && flight.publish.expected + 1 == seq;
        let Some(at) = self.in_flight.iter().position(asked) else {
            return;
        };
        let flight = &mut self.in_flight[at];
        flight.is_read = false;
        match found {
            Found::Message(bytes) if *bytes == flight.publish.payload => self.committed(now, at),
            Found::Message(_) => {
                self.fail(at);
                self.end(End::Fenced);
            }
            Found::Absent | Found::Silence => {
                flight.again_at = now + self.options.again_after;
            }
        }
    }

    /// Something else is in the stream at a sequence, as a replica knows. A publish that could only
    /// be there never will be. What is void takes a place and changes nothing: the next publish
    /// goes behind it. One that expected the message before it would be refused for ever, and find
    /// nothing at its place once that was purged.
    pub fn on_foreign(&mut self, seq: Seq, is_void: bool) {
        let was_for = |flight: &InFlight| flight.publish.expected + 1 == seq;
        if let Some(at) = self.in_flight.iter().position(was_for) {
            self.fail(at);
            self.end(End::Fenced);
        } else if self.in_flight.is_empty() && seq > self.last {
            match is_void {
                true if flaw::is(Flaw::VoidTakesNoPlace) => {}
                true => self.last = seq,
                false => self.end(End::Fenced),
            }
        }
    }

    /// Sends again what was not answered, and notices a lost quorum.
    pub fn on_time(&mut self, now: Moment) {
        let Some(flight) = self.in_flight.first_mut() else {
            return;
        };
        let is_late = now.saturating_since(flight.since) >= self.options.quorum_within;
        if now >= flight.again_at {
            flight.again_at = now + self.options.again_after;
            // A read whose answer was lost is asked for anew, by way of the publish.
            flight.is_read = false;
            self.effects
                .push_back(Effect::Publish(flight.publish.clone()));
        }
        if is_late && flaw::is(Flaw::TimeOutDecides) {
            self.fail(0);
            self.publish(now);
        } else if is_late && flaw::is(Flaw::NewIdAfterDoubt) {
            self.renumber();
        } else if is_late && self.has_quorum {
            self.has_quorum = false;
            self.effects.push_back(Effect::Quorum(false));
        }
    }

    /// When [`Writer::on_time`] is next of use.
    pub fn next_time(&self) -> Option<Moment> {
        let flight = self.in_flight.first()?;
        match self.has_quorum {
            true => Some(
                flight
                    .again_at
                    .min(flight.since + self.options.quorum_within),
            ),
            false => Some(flight.again_at),
        }
    }

    /// The node gives the stream up.
    pub fn stop(&mut self) {
        self.end(End::Fenced);
    }

    /// The next effect.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    fn position_of(&self, number: u64) -> Option<usize> {
        self.in_flight
            .iter()
            .position(|flight| flight.publish.number == number)
    }

    fn committed(&mut self, now: Moment, at: usize) {
        let flight = self.in_flight.remove(at);
        self.effects.push_back(Effect::Committed {
            seq: flight.publish.expected + 1,
            message: flight.publish.payload,
            tokens: flight.tokens,
        });
        if !self.has_quorum {
            self.has_quorum = true;
            self.effects.push_back(Effect::Quorum(true));
        }
        self.publish(now);
    }

    fn fail(&mut self, at: usize) {
        let flight = self.in_flight.remove(at);
        self.last = flight.publish.expected;
        if let Body::Appends { runs, .. } = &flight.message.body {
            for run in runs {
                if let Some(range) = run.range() {
                    let before = Position::new(run.first - 1);
                    self.positions.insert(range, before);
                }
            }
        }
        let tokens = flight.tokens.into_iter().map(|(token, _)| token);
        self.effects.push_back(Effect::Failed(tokens.collect()));
    }

    fn end(&mut self, why: End) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let waiting: Vec<Token> = self.waiting.drain(..).map(|one| one.token).collect();
        if !waiting.is_empty() {
            self.effects.push_back(Effect::Failed(waiting));
        }
        let in_doubt = self.in_flight.drain(..).map(|flight| Doubtful {
            seq: flight.publish.expected + 1,
            message: flight.message,
            tokens: flight.tokens,
        });
        let in_doubt = in_doubt.collect();
        self.effects.push_back(Effect::Ended { why, in_doubt });
    }

    /// Sends what was collected, unless a publish is under way.
    fn publish(&mut self, now: Moment) {
        let most = match flaw::is(Flaw::Pipelines) {
            true => 10,
            false => IN_FLIGHT_MAX,
        };
        if self.is_over || self.waiting.is_empty() || self.in_flight.len() >= most {
            return;
        }
        let (entries, tokens, runs) = self.collect();
        self.number += 1;
        let message = Message {
            author: self.author.clone(),
            number: self.number,
            epoch: self.epoch,
            body: Body::Appends {
                runs,
                check: self.check.take(),
                entries,
            },
            level: self.level,
        };
        let publish = Publish {
            number: self.number,
            expected: self.last,
            id: message.id(),
            payload: message.encode(),
        };
        self.last += 1;
        self.effects.push_back(Effect::Publish(publish.clone()));
        self.in_flight.push(InFlight {
            publish,
            message,
            tokens,
            since: now,
            again_at: now + self.options.again_after,
            is_read: false,
        });
    }

    /// Takes as much of what waits as one message may hold, and gives out positions.
    fn collect(&mut self) -> (Vec<Entry>, Vec<(Token, Position)>, Vec<Run>) {
        let (mut entries, mut tokens) = (Vec::new(), Vec::new());
        let mut runs: Vec<Run> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.waiting.front() {
            bytes += next.bytes.len();
            if bytes > self.options.batch_bytes_max && !entries.is_empty() {
                break;
            }
            let Some(next) = self.waiting.pop_front() else {
                break;
            };
            self.waiting_bytes -= next.bytes.len();
            let position = self.positions.entry(next.range).or_default();
            *position = position.next();
            tokens.push((next.token, *position));
            match runs.iter_mut().find(|run| run.range() == Some(next.range)) {
                Some(run) => run.count += 1,
                None => runs.push(Run::new(next.range, *position, 1)),
            }
            entries.push(Entry::new(next.range, next.bytes));
        }
        (entries, tokens, runs)
    }

    /// The mistake of [`Flaw::NewIdAfterDoubt`].
    fn renumber(&mut self) {
        self.number += 1;
        let number = self.number;
        if let Some(flight) = self.in_flight.first_mut() {
            flight.message.number = number;
            flight.publish.number = number;
            flight.publish.expected += 1;
            flight.publish.id = flight.message.id();
            flight.publish.payload = flight.message.encode();
            self.last = flight.publish.expected + 1;
        }
    }
}

#[cfg(test)]
mod tests;
