//! One stream's task: commands, answers, messages and time go into its machine, effects come out
//! and are performed. Owns the consumer and its watchdog.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use stdx::{Clock, SystemClock};
use store::{Follower, Store, StoreError, StreamMark, Writer};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::nearness::Nearness;
use super::snapshots::{self, Place};
use super::ticks::{TICK, or_never, ticks};
use super::{
    Appending, Command, Event, Events, Hear, Options, Outcome, Progress, Shared, Word, Writing,
    is_home, lock,
};
use crate::engine::{Engine, Messages, Standing};
use crate::journal::member::{Effect, Member};
use crate::journal::message::Author;
use crate::journal::replica::{Replica, ReplicaError};
use crate::journal::writer::Token;
use crate::journal::{Answer, Epoch, Found, Seq};
use crate::layout::StreamId;

/// Ticks between two looks at the stream's end.
const TICKS_PER_LOOK: u32 = 20;
/// Ticks before a consumer or a snapshot that could not be had is asked for again.
const TICKS_PER_RETRY: u32 = 20;
/// How often the time is doubled before a snapshot that could not be loaded is asked for again.
const LOAD_DOUBLINGS_MAX: u32 = 6;
/// Ticks before a store that refused a write is tried again.
const TICKS_PER_HEAL: u32 = 200;

/// How often the time is doubled for which a copy may not get on before it has another consumer.
const DOUBLINGS_MAX: u32 = 3;

/// What a copy lags at least until it has once had everything, in milliseconds: a node that begins
/// with nothing would be given homes in its first second, which then wait for all that it lacks.
const COLD_LAG_MS: u32 = 1_000;

/// What a task is made of.
pub(super) struct Parts {
    pub(super) stream: StreamId,
    pub(super) engine: Engine,
    pub(super) store: Store,
    pub(super) follower: Writing,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) events: Events,
    pub(super) progress: Shared<Progress>,
}

/// What was asked of the engine has been answered.
enum Said {
    Answer(u64, Answer),
    Found(Seq, Found),
    Last(Option<Seq>),
    Consumer(Option<Messages>),
    End(Option<Standing>),
    Fetched(Result<(), String>),
    Stored,
}

/// One stream's task.
pub(super) struct Task {
    parts: Parts,
    member: Member,
    clock: SystemClock,
    place: Place,
    stalled_ticks: u32,
    waiting: HashMap<Token, Hear>,
    token: Token,
    asked: JoinSet<Said>,
    messages: Option<Messages>,
    nearness: Nearness,
    /// A consumer is being made.
    is_asking: bool,
    /// The stream's end was asked for: not once more before that is answered.
    is_looking: bool,
    /// A snapshot is needed, or on its way.
    needs_snapshot: bool,
    is_loading: bool,
    /// Snapshots in a row that could not be loaded.
    loads_failed: u32,
    /// It has had everything that the stream's leader had.
    has_caught_up: bool,
    ticks: u32,
    /// The mark at the last tick at which it moved, and how many ticks ago that was, if there is
    /// more: by that others see that this copy does not get on.
    moved: (Seq, u32),
    /// Ticks since the mark moved, or this consumer was made, and those made since the mark moved.
    stalled: u32,
    futile: u32,
    retry_in: u32,
}

impl Task {
    /// Not on a thread of a runtime.
    pub(super) fn new(options: &Options, author: Author, parts: Parts) -> Result<Task, StoreError> {
        let ranges = options.layout.ranges(parts.stream);
        let place = Place::new(&options.folder, &author, parts.stream, ranges.clone());
        let follower = parts.follower.blocking_lock();
        let replica = Replica::new(options.replica.clone(), parts.stream.0, ranges, &follower)?;
        drop(follower);
        lock(&parts.progress).lag_ms = COLD_LAG_MS;
        let stalled_ticks = options.stalled_after.as_millis() / TICK.as_millis();
        Ok(Task {
            member: Member::new(options.member.clone(), author, replica),
            clock: SystemClock::new(),
            place,
            stalled_ticks: u32::try_from(stalled_ticks).unwrap_or(u32::MAX >> DOUBLINGS_MAX),
            waiting: HashMap::new(),
            token: 0,
            asked: JoinSet::new(),
            messages: None,
            nearness: Nearness::new(options.engine.near.clone(), options.lead_again_after),
            is_asking: false,
            is_looking: false,
            needs_snapshot: false,
            is_loading: false,
            loads_failed: 0,
            has_caught_up: false,
            ticks: 0,
            moved: (0, 0),
            stalled: 0,
            futile: 0,
            retry_in: 0,
            parts,
        })
    }

    /// Until the driver ends.
    pub(super) async fn run(mut self) {
        let mut ticks = ticks();
        loop {
            tokio::select! {
                command = self.parts.commands.recv() => match command {
                    Some(command) => self.on_command(command),
                    None => return,
                },
                Some(said) = self.asked.join_next() => {
                    if let Ok(said) = said {
                        self.on_said(said).await;
                    }
                }
                message = or_never(self.messages.as_mut().map(Messages::next)) => {
                    self.on_message(message).await;
                }
                _ = ticks.tick() => self.on_tick().await,
            }
            self.perform();
        }
    }

    fn on_command(&mut self, command: Command) {
        let now = self.clock.now();
        // What is to be appended was encoded at no higher one.
        self.member.raise(self.parts.store.level());
        match command {
            Command::Append(epoch, appends) => self.append(epoch, appends),
            Command::TakeOver(epoch) => self.member.take_over(now, epoch),
            Command::StepDown => self.member.step_down(),
            Command::Snapshot(done) => {
                let (engine, store) = (self.parts.engine.clone(), self.parts.store.clone());
                let place = self.place.clone();
                self.asked.spawn(async move {
                    let stored = snapshots::store(&engine, &store, &place).await;
                    // Nobody needs to listen.
                    let _ = done.send(stored);
                    Said::Stored
                });
            }
        }
    }

    /// Hands appends to the machine. One that follows a refused one of its writer is refused too.
    fn append(&mut self, epoch: Option<Epoch>, appends: Vec<Appending>) {
        let now = self.clock.now();
        let is_over = epoch.is_some() && self.member.serving() != epoch;
        let mut broken: Vec<Writer> = Vec::new();
        for one in appends {
            let mut hear = one.hear;
            if is_over {
                hear(Word::Decided(Outcome::Fenced));
                continue;
            }
            if broken.contains(&one.writer) {
                hear(Word::Decided(Outcome::Follows));
                continue;
            }
            let taken = one.pieces.into_iter().try_for_each(|piece| {
                self.token += 1;
                self.member.append(now, self.token, one.range, piece)
            });
            match taken {
                Ok(()) => drop(self.waiting.insert(self.token, hear)),
                Err(refused) => {
                    if one.writer != Writer::NOBODY {
                        broken.push(one.writer);
                    }
                    hear(Word::Decided(Outcome::Refused(refused)));
                }
            }
        }
    }

    async fn on_said(&mut self, said: Said) {
        let now = self.clock.now();
        match said {
            Said::Answer(number, answer) => {
                let follower = &mut *self.parts.follower.lock().await;
                self.member.on_answer(now, number, answer, follower);
            }
            Said::Found(seq, found) => {
                let follower = &mut *self.parts.follower.lock().await;
                self.member.on_found(now, seq, &found, follower);
            }
            Said::Last(last) => self.member.on_last(now, last),
            Said::Consumer(messages) => {
                self.is_asking = false;
                self.messages = messages;
                self.stalled = 0;
            }
            Said::End(Some(standing)) => {
                self.is_looking = false;
                let (first, last) = (standing.first, standing.last);
                let has_moved = self.nearness.hear(is_home(self.member.role()), &standing);
                let mut shown = lock(&self.parts.progress);
                (shown.first, shown.last) = (first, last);
                shown.leaders_moved += u64::from(has_moved);
                drop(shown);
                self.has_caught_up |= self.member.mark().seq >= last;
                // With everything purged no message comes that would show the gap. One that was
                // there may be gone: what the client had already was applied meanwhile.
                let waits = self.needs_snapshot && self.member.is_stuck();
                self.needs_snapshot = waits || first > self.member.mark().seq + 1;
            }
            Said::End(None) => self.is_looking = false,
            Said::Fetched(fetched) => {
                self.is_loading = false;
                // What it lacked may have come meanwhile: the client had it already.
                let first = lock(&self.parts.progress).first;
                let lacks = first > self.member.mark().seq + 1 || self.member.is_stuck();
                self.needs_snapshot &= lacks;
                if !self.needs_snapshot {
                    return self.place.forget_fetched();
                }
                let loaded = match fetched {
                    Ok(()) => self.load_fetched().await,
                    Err(why) => Err(why),
                };
                self.loads_failed = match loaded {
                    Ok(_) => 0,
                    Err(_) => self.loads_failed.saturating_add(1),
                };
                // Each is fetched whole, and may fill the disk that has no room for it.
                self.retry_in = TICKS_PER_RETRY << self.loads_failed.min(LOAD_DOUBLINGS_MAX);
                self.on_loaded(loaded).await;
            }
            Said::Stored => {}
        }
    }

    /// A store that failed takes nothing before its engine was opened again, and nobody else may
    /// do that here: with a snapshot to come the copy tries no message again.
    async fn load_fetched(&mut self) -> Result<StreamMark, String> {
        let healed = self.parts.follower.lock().await.heal();
        healed.map_err(|error| error.to_string())?;
        self.place.load(&self.parts.follower).await
    }

    async fn on_loaded(&mut self, loaded: Result<StreamMark, String>) {
        match loaded {
            Ok(mark) => {
                self.needs_snapshot = false;
                lock(&self.parts.progress).snapshots_loaded += 1;
                let follower = Arc::clone(&self.parts.follower);
                self.goes_on(&mut *follower.lock().await);
                tell(&self.parts, Event::Loaded(self.parts.stream, mark.seq));
            }
            Err(why) => tell(&self.parts, Event::Stuck(self.parts.stream, why)),
        }
    }

    /// The copy goes on from where the store stands.
    fn goes_on(&mut self, follower: &mut Follower) {
        self.messages = None;
        let mut shown = lock(&self.parts.progress);
        (shown.is_stuck, shown.has_refused) = (false, false);
        drop(shown);
        self.member.on_snapshot(follower);
    }

    /// The store refused a write, which no snapshot helps: it is tried again after a while.
    fn has_refused(&self) -> bool {
        self.member.is_stuck() && !self.needs_snapshot
    }

    /// A store that refused a write may take one now: its disk has room again, or was away for a
    /// moment only.
    async fn heal(&mut self) {
        self.retry_in = TICKS_PER_HEAL;
        let follower = Arc::clone(&self.parts.follower);
        let follower = &mut *follower.lock().await;
        if follower.heal().is_ok() {
            self.retry_in = 0;
            self.goes_on(follower);
        }
    }

    async fn on_message(&mut self, message: Option<(Seq, Bytes)>) {
        match message {
            Some((seq, bytes)) => {
                let follower = &mut *self.parts.follower.lock().await;
                self.member
                    .on_message(self.clock.now(), seq, &bytes, follower);
            }
            None => self.replace_consumer(),
        }
    }

    fn replace_consumer(&mut self) {
        if self.messages.take().is_some() {
            lock(&self.parts.progress).consumers_replaced += 1;
        }
        self.retry_in = TICKS_PER_RETRY;
    }

    async fn on_tick(&mut self) {
        let now = self.clock.now();
        self.member
            .on_time(now, &mut *self.parts.follower.lock().await);
        self.ticks = self.ticks.wrapping_add(1);
        self.retry_in = self.retry_in.saturating_sub(1);
        self.nearness.on_tick();
        let mark = self.member.mark();
        let last = {
            let mut shown = lock(&self.parts.progress);
            shown.mark = mark;
            shown.ticks = self.ticks;
            shown.last = shown.last.max(mark.seq);
            let lag_ms = self.moved.1.saturating_mul(TICK.as_millis() as u32);
            shown.lag_ms = match self.has_caught_up {
                true => lag_ms,
                false => lag_ms.max(COLD_LAG_MS),
            };
            shown.is_home = is_home(self.member.role());
            shown.stats = self.member.replica().stats();
            shown.last
        };
        match self.moved {
            (seq, ticks) if seq == mark.seq && last > seq => {
                self.moved = (seq, ticks.saturating_add(1));
                self.stalled = self.stalled.saturating_add(1);
            }
            _ => {
                self.moved = (mark.seq, 0);
                (self.stalled, self.futile) = (0, 0);
            }
        }
        // Each that brought nothing has the next one wait for longer; none helps a store that
        // refuses.
        let patience = self.stalled_ticks << self.futile.min(DOUBLINGS_MAX);
        if self.stalled > patience && self.messages.is_some() && !self.member.is_stuck() {
            self.futile += 1;
            self.replace_consumer();
            // Enough was waited.
            self.retry_in = 0;
        }
        if self.ticks.is_multiple_of(TICKS_PER_LOOK)
            && !std::mem::replace(&mut self.is_looking, true)
        {
            self.ask(|engine, stream| async move { Said::End(engine.standing(stream).await) });
        }
        if self.needs_snapshot {
            self.load();
        } else if self.has_refused() {
            if self.retry_in == 0 {
                self.heal().await;
            }
        } else if self.messages.is_none() && !self.is_asking && self.retry_in == 0 {
            self.is_asking = true;
            let from = mark.seq + 1;
            self.ask(move |engine, stream| async move {
                Said::Consumer(engine.messages(stream, from).await.ok())
            });
            self.retry_in = TICKS_PER_RETRY;
        }
    }

    fn load(&mut self) {
        if self.is_loading || self.retry_in > 0 {
            return;
        }
        self.is_loading = true;
        let (engine, store) = (self.parts.engine.clone(), self.parts.store.clone());
        let place = self.place.clone();
        self.asked
            .spawn(async move { Said::Fetched(snapshots::fetch(&engine, &store, &place).await) });
    }

    fn ask<F>(&mut self, ask: impl FnOnce(Engine, StreamId) -> F)
    where
        F: Future<Output = Said> + Send + 'static,
    {
        let asked = ask(self.parts.engine.clone(), self.parts.stream);
        self.asked.spawn(asked);
    }

    fn perform(&mut self) {
        while let Some(effect) = self.member.poll() {
            let stream = self.parts.stream;
            match effect {
                Effect::Publish(publish) => {
                    let near = self.nearness.take();
                    self.ask(move |engine, stream| async move {
                        // In front of a publish none is under way.
                        if let Some(server) = near {
                            engine.lead(stream, &server).await;
                        }
                        let answer = engine.publish(stream, &publish).await;
                        Said::Answer(publish.number, answer)
                    });
                }
                Effect::Read(seq) => self.ask(move |engine, stream| async move {
                    Said::Found(seq, engine.read(stream, seq).await)
                }),
                Effect::AskLast => self.ask(|engine, stream| async move {
                    Said::Last(engine.bounds(stream).await.map(|(_, last)| last))
                }),
                Effect::Committed(tokens) => {
                    for (token, position) in tokens {
                        self.answer(token, Outcome::Committed(position));
                    }
                }
                Effect::Failed(tokens) => {
                    for token in tokens {
                        self.answer(token, Outcome::Fenced);
                    }
                }
                Effect::Unknown(tokens) => {
                    for token in tokens {
                        self.answer(token, Outcome::Unknown);
                    }
                }
                Effect::Serving { epoch, .. } => {
                    let mut shown = lock(&self.parts.progress);
                    shown.serving = epoch;
                    shown.take_overs += 1;
                    drop(shown);
                    tell(&self.parts, Event::Serving(stream, epoch));
                }
                Effect::InDoubt(tokens) => {
                    for token in &tokens {
                        self.doubt(*token);
                    }
                    lock(&self.parts.progress).doubts += tokens.len() as u64;
                    tell(&self.parts, Event::InDoubt(stream, tokens.len()));
                }
                Effect::Quorum(has) => {
                    if !has {
                        // Nobody is to wait for these, who has others beside them.
                        self.waiting
                            .values_mut()
                            .for_each(|hear| hear(Word::InDoubt));
                    }
                    let mut shown = lock(&self.parts.progress);
                    shown.lacks_quorum = !has;
                    shown.doubts += if has { 0 } else { self.waiting.len() as u64 };
                    drop(shown);
                    tell(&self.parts, Event::Quorum(stream, has));
                }
                Effect::Ended(epoch, why) => {
                    let mut shown = lock(&self.parts.progress);
                    shown.serving = 0;
                    shown.tenures_ended += 1;
                    // Whoever comes next will see.
                    shown.lacks_quorum = false;
                    shown.ended = shown.ended.max(epoch);
                    drop(shown);
                    tell(&self.parts, Event::Ended(stream, why));
                }
                Effect::Diverged(divergence) => {
                    lock(&self.parts.progress).divergences += 1;
                    tell(&self.parts, Event::Diverged(stream, divergence));
                }
                Effect::Stuck(error) => {
                    let has_refused = matches!(error, ReplicaError::Store(_));
                    self.needs_snapshot = !has_refused;
                    self.retry_in = match has_refused {
                        true => TICKS_PER_HEAL,
                        false => 0,
                    };
                    let mut shown = lock(&self.parts.progress);
                    (shown.is_stuck, shown.has_refused) = (true, has_refused);
                    drop(shown);
                    tell(&self.parts, Event::Stuck(stream, error.to_string()));
                }
            }
        }
    }

    fn answer(&mut self, token: Token, outcome: Outcome) {
        if let Some(mut hear) = self.waiting.remove(&token) {
            hear(Word::Decided(outcome));
        }
    }

    fn doubt(&mut self, token: Token) {
        if let Some(hear) = self.waiting.get_mut(&token) {
            hear(Word::InDoubt);
        }
    }
}

fn tell(parts: &Parts, event: Event) {
    if !parts.events.tell(event) {
        lock(&parts.progress).events_lost += 1;
    }
}
