//! One node's part in one stream: a replica always, and when the map says so its home. Owns the
//! order take over, read up to the record, serve; and what becomes of appends in doubt when a
//! tenure ends: the message at the one place where they can be decides.

use std::collections::VecDeque;

use bytes::Bytes;
use stdx::{Level, Moment};
use store::{Follower, Position, RangeId, StreamMark};

use crate::flaw::{self, Flaw};
use crate::journal::message::{Author, Message};
use crate::journal::replica::{Applied, Divergence, Replica, ReplicaError};
use crate::journal::take_over::{self, TakeOver};
use crate::journal::writer::{self, Doubtful, End, Refused, Start, Token, Writer};
use crate::journal::{Answer, Epoch, Found, Publish, Seq};

/// Bounds and times of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Of writing.
    pub writer: writer::Options,
    /// Of taking over.
    pub take_over: take_over::Options,
}

/// What a member wants done, or says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this.
    Publish(Publish),
    /// Ask the stream's leader what is at this sequence.
    Read(Seq),
    /// Ask the stream's leader for the sequence of its last message.
    AskLast,
    /// This node is the home from here on: everything up to there is in its store.
    Serving {
        /// Its tenure.
        epoch: Epoch,
        /// The epoch's record.
        seq: Seq,
    },
    /// These appends are in the stream and in the local store.
    Committed(Vec<(Token, Position)>),
    /// These are not in the stream and never will be.
    Failed(Vec<Token>),
    /// Nobody knows yet of these; [`Effect::Committed`], [`Effect::Failed`] or [`Effect::Unknown`]
    /// follows, however late.
    InDoubt(Vec<Token>),
    /// Nobody can tell any more: a snapshot was loaded that has their place behind it.
    Unknown(Vec<Token>),
    /// Whether the stream acknowledges, when that changes.
    Quorum(bool),
    /// This node's tenure is over, or did not begin. Not said of one that another take-over by this
    /// node replaces.
    Ended(Epoch, String),
    /// The local store and another node's differ.
    Diverged(Divergence),
    /// The replica cannot go on without a snapshot, or at all.
    Stuck(ReplicaError),
}

/// A node's part in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It applies what others write.
    Following,
    /// It is becoming the home.
    Taking,
    /// It writes.
    Home,
}

enum State {
    Following,
    Taking(TakeOver),
    /// The epoch's record is at this sequence; the replica is not there yet.
    Reading(Epoch, Seq),
    Home(Box<Writer>),
}

/// One node's part in one stream.
pub struct Member {
    options: Options,
    author: Author,
    replica: Replica,
    state: State,
    /// Number of the last publish of this process.
    number: u64,
    /// That of the deployment, as far as this node has heard.
    level: Level,
    /// What ended tenures left. Each has its place in the stream; bounded by the tenures that end
    /// before the stream goes on.
    doubts: VecDeque<Doubtful>,
    is_stuck: bool,
    effects: VecDeque<Effect>,
}

impl Member {
    /// Follows a stream. `author` is new in each life of the process.
    pub fn new(options: Options, author: Author, replica: Replica) -> Member {
        Member {
            options,
            author,
            replica,
            state: State::Following,
            number: 0,
            level: Level::default(),
            doubts: VecDeque::new(),
            is_stuck: false,
            effects: VecDeque::new(),
        }
    }

    /// How far the stream was applied here.
    pub fn mark(&self) -> StreamMark {
        self.replica.mark()
    }

    /// The replica.
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// What it is to the stream.
    pub fn role(&self) -> Role {
        match self.state {
            State::Following => Role::Following,
            State::Taking(_) | State::Reading(..) => Role::Taking,
            State::Home(_) => Role::Home,
        }
    }

    /// Since when the publish under way has not been answered.
    pub fn unanswered_since(&self) -> Option<Moment> {
        match &self.state {
            State::Home(writer) => writer.unanswered_since(),
            _ => None,
        }
    }

    /// The level at which messages are written from now on. It only rises; heard before the appends
    /// that are encoded at it.
    pub fn raise(&mut self, level: Level) {
        self.level = self.level.max(level);
        if let State::Home(writer) = &mut self.state {
            writer.raise(self.level);
        }
    }

    /// The map gave the stream to this node.
    pub fn take_over(&mut self, now: Moment, epoch: Epoch) {
        self.leave();
        let options = self.options.take_over.clone();
        let author = self.author.clone();
        let begin = (self.number, self.level);
        self.state = State::Taking(TakeOver::new(now, options, author, epoch, begin));
        // Behind a newer epoch the record would be void, and the replica wait for it for ever.
        self.on_epoch(self.mark().epoch);
        self.settle();
    }

    /// The map gave the stream to another node, or this one has lost its lease.
    pub fn step_down(&mut self) {
        self.give_up("the stream has another home".to_owned());
        self.settle();
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
        match &mut self.state {
            State::Home(writer) => writer.append(now, token, range, bytes)?,
            _ => return Err(Refused::NotHome),
        }
        self.settle();
        Ok(())
    }

    /// What the engine answered to a publish. A home applies what it wrote at once.
    pub fn on_answer(&mut self, now: Moment, number: u64, answer: Answer, follower: &mut Follower) {
        match &mut self.state {
            State::Taking(taking) => taking.on_answer(now, number, answer),
            State::Home(writer) => writer.on_answer(now, number, answer),
            _ => {}
        }
        self.settle_with(follower);
    }

    /// What the leader has at a sequence that was asked for.
    pub fn on_found(&mut self, now: Moment, seq: Seq, found: &Found, follower: &mut Follower) {
        match &mut self.state {
            State::Taking(taking) => taking.on_found(now, seq, found),
            State::Home(writer) => writer.on_found(now, seq, found),
            _ => {}
        }
        self.settle_with(follower);
    }

    /// The sequence of the leader's last message.
    pub fn on_last(&mut self, now: Moment, last: Option<Seq>) {
        if let State::Taking(taking) = &mut self.state {
            taking.on_last(now, last);
        }
        self.settle();
    }

    /// The next message of the stream, from any server; those that are known are passed over. A
    /// home that meets its own publish need not wait for the acknowledgement.
    pub fn on_message(&mut self, now: Moment, seq: Seq, bytes: &[u8], follower: &mut Follower) {
        let own = self.apply(seq, bytes, follower);
        match (&mut self.state, own) {
            (State::Home(writer), Some(number)) => {
                writer.on_answer(now, number, Answer::Stored(seq));
            }
            (State::Taking(taking), Some(number)) => {
                taking.on_answer(now, number, Answer::Stored(seq));
            }
            _ => {}
        }
        self.settle_with(follower);
    }

    /// The store was loaded from a snapshot.
    pub fn on_snapshot(&mut self, follower: &mut Follower) {
        self.is_stuck = false;
        match self.replica.on_snapshot(follower) {
            Ok(()) => {
                self.lose_track();
                self.on_epoch(self.mark().epoch);
                if self.role() == Role::Home {
                    self.give_up("a snapshot was loaded".to_owned());
                }
            }
            Err(error) => self.stick(error.into()),
        }
        self.settle_with(follower);
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Moment, follower: &mut Follower) {
        match &mut self.state {
            State::Taking(taking) => taking.on_time(now),
            State::Home(writer) => writer.on_time(now),
            _ => {}
        }
        self.settle_with(follower);
    }

    /// Whether nothing more is applied: the store refused, or a snapshot is needed.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// When [`Member::on_time`] is next of use.
    pub fn next_time(&self) -> Option<Moment> {
        match &self.state {
            State::Taking(taking) => taking.next_time(),
            State::Home(writer) => writer.next_time(),
            _ => None,
        }
    }

    /// The next effect.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// What is in doubt behind a snapshot's message is in it or not.
    fn lose_track(&mut self) {
        let seq = self.mark().seq;
        let (behind, ahead) = std::mem::take(&mut self.doubts)
            .into_iter()
            .partition(|doubt| doubt.seq <= seq);
        self.doubts = ahead;
        let behind: VecDeque<Doubtful> = behind;
        for doubt in behind {
            let tokens = doubt.tokens.into_iter().map(|(token, _)| token);
            self.effects.push_back(Effect::Unknown(tokens.collect()));
        }
    }

    /// The number of the message, if it is new and this process wrote it.
    fn apply(&mut self, seq: Seq, bytes: &[u8], follower: &mut Follower) -> Option<u64> {
        if self.is_stuck {
            return None;
        }
        let applied = match self.replica.on_message(seq, bytes, follower) {
            Ok(Applied::Known) => return None,
            Ok(applied) => applied,
            Err(error) => {
                self.stick(error);
                return None;
            }
        };
        let own = match &applied {
            Applied::Changed(message) | Applied::Began(message) => {
                (message.author == self.author).then_some(message.number)
            }
            Applied::Void(_) | Applied::Known => None,
        };
        if let (State::Home(writer), None) = (&mut self.state, own) {
            writer.on_foreign(seq, matches!(applied, Applied::Void(_)));
        }
        match &applied {
            Applied::Changed(message) => self.resolve(seq, Some(message)),
            Applied::Began(message) => {
                self.resolve(seq, None);
                self.on_epoch(message.epoch);
            }
            Applied::Void(_) | Applied::Known => self.resolve(seq, None),
        }
        if let Some(divergence) = self.replica.take_divergence() {
            self.effects.push_back(Effect::Diverged(divergence));
        }
        let check = self.replica.latest_check();
        if let (State::Home(writer), Some(check)) = (&mut self.state, check)
            && check.seq == seq
        {
            writer.tell(check.clone());
        }
        own
    }

    /// Somebody began an epoch: an older one of ours is over.
    fn on_epoch(&mut self, epoch: Epoch) {
        if self.epoch().is_some_and(|own| own < epoch) {
            self.give_up(format!("epoch {epoch} has begun"));
        }
    }

    /// This node's tenure, also one that has not begun.
    fn epoch(&self) -> Option<Epoch> {
        match &self.state {
            State::Following => None,
            State::Taking(taking) => Some(taking.epoch()),
            State::Reading(own, _) => Some(*own),
            State::Home(writer) => Some(writer.epoch()),
        }
    }

    /// The tenure in which this node is the home, if it is.
    pub fn serving(&self) -> Option<Epoch> {
        match &self.state {
            State::Home(writer) => Some(writer.epoch()),
            _ => None,
        }
    }

    /// The message at `seq` is known, and with it what became of those that could only be there.
    fn resolve(&mut self, seq: Seq, there: Option<&Message>) {
        let doubts = std::mem::take(&mut self.doubts);
        for doubt in doubts {
            if doubt.seq > seq {
                self.doubts.push_back(doubt);
            } else if doubt.seq == seq && there.is_some_and(|there| there.is_same(&doubt.message)) {
                self.effects.push_back(Effect::Committed(doubt.tokens));
            } else {
                let tokens = doubt.tokens.into_iter().map(|(token, _)| token);
                self.effects.push_back(Effect::Failed(tokens.collect()));
            }
        }
    }

    fn stick(&mut self, error: ReplicaError) {
        self.is_stuck = true;
        self.give_up(error.to_string());
        self.effects.push_back(Effect::Stuck(error));
    }

    fn give_up(&mut self, why: String) {
        if let Some(epoch) = self.epoch() {
            self.leave();
            self.effects.push_back(Effect::Ended(epoch, why));
        }
    }

    fn leave(&mut self) {
        match std::mem::replace(&mut self.state, State::Following) {
            State::Following => {}
            State::Taking(taking) => self.number = taking.number(),
            State::Reading(..) => {}
            State::Home(mut writer) => {
                writer.stop();
                self.number = writer.number();
                self.last_words(*writer);
            }
        }
    }

    /// What a writer that ends had to say.
    fn last_words(&mut self, mut writer: Writer) {
        while let Some(effect) = writer.poll() {
            match effect {
                writer::Effect::Failed(tokens) => self.effects.push_back(Effect::Failed(tokens)),
                writer::Effect::Ended { in_doubt, .. } => self.doubt(in_doubt),
                writer::Effect::Committed {
                    seq,
                    message,
                    tokens,
                } => self.doubt_bytes(seq, &message, tokens),
                writer::Effect::Quorum(has) => self.effects.push_back(Effect::Quorum(has)),
                writer::Effect::Publish(_) | writer::Effect::Read(_) => {}
            }
        }
    }

    /// A committed message that the replica has not applied: it says so when it does.
    fn doubt_bytes(&mut self, seq: Seq, message: &[u8], tokens: Vec<(Token, Position)>) {
        if seq <= self.mark().seq {
            self.effects.push_back(Effect::Committed(tokens));
        } else if let Ok(message) = Message::decode(message) {
            self.doubt(vec![Doubtful {
                seq,
                message,
                tokens,
            }]);
        }
    }

    fn doubt(&mut self, in_doubt: Vec<Doubtful>) {
        for doubt in in_doubt {
            let tokens = doubt.tokens.iter().map(|(token, _)| *token);
            if flaw::is(Flaw::DoubtDecides) {
                self.effects.push_back(Effect::Failed(tokens.collect()));
                continue;
            }
            // Their place was passed by a snapshot: a replica that reads knows what was there.
            if doubt.seq <= self.mark().seq {
                self.effects.push_back(Effect::Unknown(tokens.collect()));
                continue;
            }
            self.effects.push_back(Effect::InDoubt(tokens.collect()));
            self.doubts.push_back(doubt);
        }
    }

    fn settle_with(&mut self, follower: &mut Follower) {
        loop {
            let effect = match &mut self.state {
                State::Home(writer) => writer.poll(),
                _ => None,
            };
            match effect {
                Some(effect) => self.on_writer(effect, Some(&mut *follower)),
                None => break,
            }
        }
        self.settle();
        self.serve(follower);
    }

    fn settle(&mut self) {
        loop {
            match &mut self.state {
                State::Taking(taking) => match taking.poll() {
                    Some(effect) => self.on_taking(effect),
                    None => return,
                },
                State::Home(writer) => match writer.poll() {
                    Some(effect) => self.on_writer(effect, None),
                    None => return,
                },
                _ => return,
            }
        }
    }

    fn on_taking(&mut self, effect: take_over::Effect) {
        let State::Taking(taking) = &self.state else {
            return;
        };
        match effect {
            take_over::Effect::AskLast => self.effects.push_back(Effect::AskLast),
            take_over::Effect::Publish(publish) => self.effects.push_back(Effect::Publish(publish)),
            take_over::Effect::Read(seq) => self.effects.push_back(Effect::Read(seq)),
            take_over::Effect::Done(seq) => {
                let epoch = taking.epoch();
                self.number = taking.number();
                self.state = State::Reading(epoch, seq);
            }
            take_over::Effect::Lost(why) => self.give_up(why),
        }
    }

    fn on_writer(&mut self, effect: writer::Effect, follower: Option<&mut Follower>) {
        match effect {
            writer::Effect::Publish(publish) => self.effects.push_back(Effect::Publish(publish)),
            writer::Effect::Read(seq) => self.effects.push_back(Effect::Read(seq)),
            writer::Effect::Quorum(has) => self.effects.push_back(Effect::Quorum(has)),
            writer::Effect::Failed(tokens) => self.effects.push_back(Effect::Failed(tokens)),
            writer::Effect::Committed {
                seq,
                message,
                tokens,
            } => {
                if let Some(follower) = follower {
                    self.apply(seq, &message, follower);
                }
                // The caller is told only what its store can be asked for.
                match self.mark().seq >= seq {
                    true => self.effects.push_back(Effect::Committed(tokens)),
                    false => self.doubt_bytes(seq, &message, tokens),
                }
            }
            writer::Effect::Ended { why, in_doubt } => {
                self.doubt(in_doubt);
                if let State::Home(writer) = &self.state {
                    let epoch = writer.epoch();
                    self.number = writer.number();
                    self.state = State::Following;
                    let why = match why {
                        End::Fenced => "something else is in the stream".to_owned(),
                        End::Broken(why) => why,
                    };
                    self.effects.push_back(Effect::Ended(epoch, why));
                }
            }
        }
    }

    /// Serves once the replica has read up to the epoch's record.
    fn serve(&mut self, follower: &mut Follower) {
        let State::Reading(epoch, seq) = self.state else {
            return;
        };
        let mark = self.replica.mark();
        let has_read = mark.seq >= seq && mark.epoch == epoch
            || flaw::is(Flaw::ReadsOneLess) && mark.seq + 2 == seq;
        if self.is_stuck || !(has_read || flaw::is(Flaw::ServesEarly)) {
            return;
        }
        let ranges = self.replica.ranges().iter();
        let positions = ranges.map(|range| Ok((*range, follower.range(*range)?.position)));
        let positions = match positions.collect::<Result<_, _>>() {
            Ok(positions) => positions,
            Err(error) => return self.stick(ReplicaError::Store(error)),
        };
        let start = Start {
            level: self.level,
            author: self.author.clone(),
            epoch,
            // Behind the record there can only be what is void.
            last: mark.seq.max(seq),
            number: self.number,
            positions,
        };
        let writer = Writer::new(self.options.writer.clone(), start);
        self.state = State::Home(Box::new(writer));
        self.effects.push_back(Effect::Serving { epoch, seq });
    }
}

#[cfg(test)]
mod tests;
