//! The life that every durable entity but an account leads, whatever its kind: it is read, taken up
//! again, evicted when it is idle, and it appends. A kind is a [`Tenant`]: it keeps its state and
//! says what a message and a decided append come to. Accounts have a life of their own (`user`),
//! because of what they cost.
//!
//! | phase | event | then |
//! |---|---|---|
//! | loading | all appends of an earlier life are decided | the store is read |
//! | loading | the store has said what there is | ready; the mailbox goes on |
//! | loading, unreadable | the store could not be read | once more after a pause; after many, unreadable |
//! | unreadable | a stanza | an error, or its sender's home tries again later |
//! | ready | an append is refused | the tenant hears it; nothing was changed |
//! | ready | an append is in doubt | the actor ends; the next message reads the entity again |
//! | ready, unreadable | idle for a while | evicted |

pub(crate) mod appends;
pub(crate) mod kind;
pub(crate) mod life;
pub(crate) mod service;
pub(crate) mod taking;

use std::any::Any;
use std::rc::Rc;

use actor::{Actor, Context, Leave, Mail, Name, Reason, Reply};
use delivery::Refusal;
use ring::rand::{SecureRandom, SystemRandom};
use store::{Store, StoreError};
use xmpp::error::{Condition, StanzaError};

use crate::home::Home;
use crate::message::{Said, UserMsg};
use crate::operator::{AdminAnswer, AdminCommand};
use appends::Fate;
use kind::Kind;
use life::{Decided, For, Life, Phase, Request, Waiting};

/// What one kind of entity is, beside the life that all have.
pub(crate) trait Tenant: Sized + 'static {
    /// Its row in the table of kinds.
    const KIND: &'static Kind;
    /// What the store has of one.
    type Stored: Send + 'static;
    /// What one tells itself.
    type Word: Any + Send;
    /// What an append is for.
    type Change: 'static;

    /// One that is about to be read.
    fn new(name: Name, home: Rc<Home>) -> Self;

    /// Its life.
    fn life(&self) -> &Life<Self::Change>;

    /// The same, to be changed.
    fn life_mut(&mut self) -> &mut Life<Self::Change>;

    /// What reads it, on a thread of the pool.
    fn read(&self) -> impl FnOnce(&Store) -> Result<Self::Stored, StoreError> + Send + 'static;

    /// Takes what was read.
    ///
    /// # Errors
    /// It makes no such entity.
    fn recover(
        &mut self,
        stored: Self::Stored,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), StoreError>;

    /// It has been read.
    fn ready(&mut self, _cx: &mut Context<'_, UserMsg>) {}

    /// What another entity says.
    fn said(&mut self, said: Said, cx: &mut Context<'_, UserMsg>);

    /// What it told itself.
    fn word(&mut self, _word: Self::Word, _cx: &mut Context<'_, UserMsg>) {}

    /// What an operator asks, beside making way.
    fn administer(
        &mut self,
        command: AdminCommand,
        reply: Reply<AdminAnswer>,
        cx: &mut Context<'_, UserMsg>,
    );

    /// The oldest entry of its log may be too old.
    fn aged(&mut self, _cx: &mut Context<'_, UserMsg>) {}

    /// An append is durable, or never will be. In their order.
    fn decided(&mut self, decided: Decided<Self::Change>, cx: &mut Context<'_, UserMsg>);

    /// Nobody knows whether this was done: the entity ends.
    fn in_doubt(&mut self, _change: Self::Change) {}

    /// Appends were decided: what waited for them may go on.
    fn go_on(&mut self, _cx: &mut Context<'_, UserMsg>) {}

    /// A message was handled.
    fn handled(&mut self, _cx: &mut Context<'_, UserMsg>) {}

    /// Whether nothing of the kind's own is under way.
    fn is_idle(&self) -> bool {
        true
    }

    /// Whether it has something, beside what is under way for a moment, that is lost with it.
    fn must_stay(&self) -> bool {
        false
    }

    /// Whether what comes has to wait for something of the kind's own.
    fn must_hold(&self) -> bool;

    /// Requests that wait for an answer, beside those of appends.
    fn unanswered(&self) -> Vec<Request> {
        Vec::new()
    }

    /// The entity ends: who counts and lists it hears so.
    fn uncount(&mut self, _cx: &mut Context<'_, UserMsg>) {}

    /// Whether it is to be taken up again at once after a crash.
    fn must_come_back(&self) -> bool {
        false
    }

    /// The entity has ended, and everybody who waited for an answer was told.
    fn ended(&mut self, _reason: &Reason, _cx: &mut Context<'_, UserMsg>) {}
}

/// The actor of an entity.
pub(crate) struct Durable<T>(T);

/// What the store has said.
struct Loaded<S>(Result<S, StoreError>);

/// Makes an entity of a kind.
pub(crate) fn make<T: Tenant>(name: Name, home: Rc<Home>) -> Box<dyn Actor<Msg = UserMsg>> {
    Box::new(Durable(T::new(name, home)))
}

/// The readers' queue is full.
pub(crate) fn overloaded() -> StoreError {
    StoreError::Unavailable("too many reads wait".to_owned())
}

/// Random bytes.
///
/// # Errors
/// The system has none to give.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| StoreError::Unavailable("no randomness".to_owned()))?;
    Ok(bytes)
}

/// Whether nothing is under way.
pub(crate) fn is_idle<T: Tenant>(tenant: &T) -> bool {
    tenant.life().is_idle() && tenant.is_idle()
}

impl<T: Tenant> Durable<T> {
    // ---- Loading and eviction ------------------------------------------------------------------

    /// Reads the entity once nothing that an earlier life of it appended is undecided.
    fn begin(&mut self, cx: &mut Context<'_, UserMsg>) {
        let life = self.0.life_mut();
        life.phase = Phase::Loading;
        let waiting = Waiting::of(For::Settled, None);
        if life.appends.is_settled(waiting, &life.home, cx) {
            self.load(cx);
        }
    }

    fn load(&mut self, cx: &mut Context<'_, UserMsg>) {
        cx.stats().count(T::KIND.loads);
        let read = self.0.read();
        let life = self.0.life_mut();
        life.appends.begin(&life.home);
        let store = life.home.store.clone();
        let read = move || read(&store);
        let map = |stored| UserMsg::own(Loaded::<T::Stored>(stored));
        if cx.blocking(&life.home.later_reads, read, map).is_err() {
            self.loaded(Err(overloaded()), cx);
        }
    }

    fn loaded(&mut self, stored: Result<T::Stored, StoreError>, cx: &mut Context<'_, UserMsg>) {
        let recovered = stored.and_then(|stored| self.0.recover(stored, cx));
        if let Err(error) = recovered {
            return self.0.life_mut().not_loaded(T::KIND, &error, cx);
        }
        self.0.life_mut().is_ready();
        self.0.ready(cx);
    }

    fn idle(&mut self, cx: &mut Context<'_, UserMsg>) {
        if !(is_idle(&self.0) && cx.stop_when_idle()) {
            let after = self.0.life().home.bounds().idle_eviction;
            cx.send_after(after, UserMsg::Idle);
        }
    }

    /// Makes way for an import, if nothing is under way.
    fn leave(&mut self, reply: Reply<AdminAnswer>, cx: &mut Context<'_, UserMsg>) {
        let leaves = is_idle(&self.0) && cx.stop_when_idle();
        let busy = AdminAnswer::Unavailable;
        reply.send(cx, if leaves { AdminAnswer::Done } else { busy });
    }

    // ---- Decisions -----------------------------------------------------------------------------

    /// Performs what is decided, in order. True if there was anything: then there may be more, that
    /// the journal did not take.
    fn conclude_decided(&mut self, cx: &mut Context<'_, UserMsg>) -> bool {
        let mut is_any = false;
        while let Some((waiting, fate)) = self.0.life_mut().appends.next(cx) {
            is_any = true;
            if !self.conclude(waiting, fate, cx) {
                return false;
            }
        }
        if !is_any {
            return false;
        }
        if self.0.life().phase == Phase::Ready {
            self.0.go_on(cx);
        }
        self.0.life_mut().leave_on(cx);
        true
    }

    /// False if the entity has to be read again.
    fn conclude(
        &mut self,
        waiting: Waiting<T::Change>,
        fate: Fate,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        let Waiting {
            what,
            taking,
            request,
        } = waiting;
        match (what, fate) {
            (For::Settled, _) => self.load(cx),
            (what, Fate::InDoubt) => {
                let life = self.0.life_mut();
                let (kind, entity) = (T::KIND.name, &life.name);
                tracing::warn!(kind, %entity, "a change is in doubt: it is read again");
                life.handling = request;
                if let For::Change(change) = what {
                    self.0.in_doubt(change);
                }
                cx.stop_with(Reason::Killed);
                return false;
            }
            (For::Place, fate) => self.0.life_mut().place_reached(taking, fate, cx),
            (For::Change(what), fate) => {
                let result = match fate {
                    Fate::Refused(error) => Err(error),
                    Fate::Done { .. } | Fate::InDoubt => Ok(()),
                };
                if let Err(error) = result {
                    self.0.life().note_failure(T::KIND, error, cx);
                }
                let decided = Decided {
                    what,
                    taking,
                    result,
                };
                self.0.decided(decided, cx);
            }
        }
        true
    }

    /// The entity ends: whoever waits for an answer hears that nobody can say what became of it.
    /// Messages that are in a log are handed over again.
    fn answer_the_rest(&mut self, cx: &mut Context<'_, UserMsg>) {
        let error = StanzaError::new(Condition::InternalServerError)
            .with_text("It is not known whether this was done.");
        let (life, others) = (self.0.life(), self.0.unanswered());
        let waiting = life.appends.iter().filter_map(Waiting::request);
        for request in waiting.chain(&life.handling).chain(&others) {
            let to = (&request.frame, request.session);
            life.home.return_error_to(to, &error, cx);
        }
    }
}

impl<T: Tenant> Actor for Durable<T> {
    type Msg = UserMsg;

    fn started(&mut self, cx: &mut Context<'_, UserMsg>) {
        cx.stats().raise(T::KIND.loaded);
        let after = self.0.life().home.bounds().idle_eviction;
        cx.send_after(after, UserMsg::Idle);
        cx.hold();
        self.begin(cx);
    }

    fn handle(&mut self, msg: UserMsg, cx: &mut Context<'_, UserMsg>) {
        let life = self.0.life_mut();
        match msg {
            UserMsg::Said(said) => self.0.said(said, cx),
            UserMsg::Decided { ticket, result } => {
                life.appends.decided(ticket, result, &life.home, cx);
            }
            UserMsg::Own(own) => match own.take_or::<Loaded<T::Stored>>() {
                Ok(Loaded(stored)) => self.loaded(stored, cx),
                Err(own) => {
                    if let Some(word) = own.take() {
                        self.0.word(word, cx);
                    }
                }
            },
            UserMsg::GoOn => life.leaving.next_turn(&life.home, cx),
            UserMsg::LoadAgain if life.phase != Phase::Ready => self.begin(cx),
            UserMsg::Aged => self.0.aged(cx),
            UserMsg::Admin { command, reply } => match *command {
                AdminCommand::Leave => self.leave(reply, cx),
                command => self.0.administer(command, reply, cx),
            },
            UserMsg::Wake => life.wakes(),
            UserMsg::Idle => self.idle(cx),
            // What accounts are told.
            _ => {}
        }
        self.0.life_mut().is_handled();
        while self.conclude_decided(cx) {
            self.0.life_mut().is_handled();
        }
        self.0.handled(cx);
        if self.0.life().phase == Phase::Loading || self.0.must_hold() {
            cx.hold();
        } else {
            cx.release();
        }
    }

    fn may_move(&self) -> Leave {
        match () {
            () if self.0.must_stay() => Leave::Never,
            () if is_idle(&self.0) => Leave::Now,
            () => Leave::Soon,
        }
    }

    fn stopped(&mut self, reason: &Reason, cx: &mut Context<'_, UserMsg>) {
        cx.stats().lower(T::KIND.loaded);
        self.0.uncount(cx);
        let must_come_back = self.0.must_come_back() || self.0.life().is_awaited();
        let life = self.0.life_mut();
        life.home.journal.forget(cx.myself());
        let has_moved = life.home.is_elsewhere(&life.name);
        let is_over = matches!(reason, Reason::Normal | Reason::Shutdown);
        if must_come_back && !is_over && !has_moved {
            let (shard, name) = (cx.shard(), Name::clone(&life.name));
            let _ = cx.send_named(shard, &name, UserMsg::Wake);
        }
        if let Some(taking) = life.taking.take() {
            // Its sender's home counts how often that happens.
            let why = match has_moved {
                true => Refusal::Full,
                false => Refusal::Crashed,
            };
            taking.refuse(&life.name, why, None, &life.home, cx);
        }
        self.answer_the_rest(cx);
        self.0.ended(reason, cx);
    }
}
