//! What waits for a commit: nothing leaves a user that is not durable (design rule 6). Each append
//! has an entry here, and everything that the user sends after it waits behind it in order. Bounded
//! by appends, effects and bytes: at any bound the user's mailbox is held, and nothing is dropped.

use std::cell::RefCell;
use std::collections::VecDeque;

use actor::{Name, Reply};
use delivery::{Consumer, Refusal};
use net::ConnRef;
use store::{RangeId, Seq, Tenure};
use wire::{NodeEvent, NotTaken, Source};
use xml::Frame;

use super::consumers;
use super::managed::What;
use super::outbox::ToRead;
use super::pep::{Held, Picture};
use crate::iq::Question;
use crate::message::control::Control;
use crate::message::{Delivery, Ticket};
use crate::operator::AdminAnswer;
use crate::options::Commits;

/// Something that leaves the user actor.
pub(crate) enum Effect {
    /// A stanza for one of the user's sessions.
    Write(ConnRef, What, Vec<u8>),
    /// Bytes for one of the user's sessions, or a connection, that are no stanza.
    Nonza(ConnRef, Vec<u8>),
    /// A session hears that its stanzas are counted.
    Enabled(ConnRef, Vec<u8>),
    /// A session hears that they are not.
    NotEnabled(ConnRef),
    /// A session is told how many of its stanzas were handled, unless a record failed since.
    Acknowledge {
        /// The session.
        conn: ConnRef,
        /// The count.
        h: u32,
        /// How many records had failed.
        failures: u16,
    },
    /// A message to a connection's protocol state.
    Control(ConnRef, Control),
    /// A stanza for another entity.
    Forward {
        /// Bare address.
        to: Name,
        /// The stanza.
        delivery: Delivery,
        /// Whether an entity that is not loaded is loaded for it.
        activate: bool,
    },
    /// Unavailable presence of a session that is not there any more. That is so whatever becomes of
    /// the append with it: what others were shown of the session must end.
    Gone {
        /// Bare address.
        to: Name,
        /// The stanza.
        delivery: Delivery,
        /// Whether an entity that is not loaded is loaded for it.
        activate: bool,
    },
    /// A question for the presence of a contact.
    Probe {
        /// Bare address.
        to: Box<str>,
        /// Full address that asks.
        from: std::sync::Arc<str>,
    },
    /// An answer for an administrator.
    Answer(Reply<AdminAnswer>, AdminAnswer),
    /// Room in a connection's window for one more stanza.
    Credit(ConnRef),
    /// The same once the message of this place has been taken.
    CreditWhenTaken(ConnRef, Seq),
    /// The store is asked on behalf of a request.
    Ask(Box<Question>),
    /// A page of the log is read for a session, or the account.
    Read(Box<consumers::ToRead>),
    /// It has left.
    PageGiven(Consumer),
    /// It has not, and never was.
    PageNotGiven(Consumer),
    /// Changes of the inbox are durable.
    ChangesCommitted,
    /// An error of the user's own log is durable.
    Told(Frame),
    /// It is not.
    NotTold(Frame),
    /// The record of the session of this number is durable.
    Saved(u32),
    /// It is not.
    NotSaved(u32),
    /// A message of this user is durable: it may be handed over.
    HandOver {
        /// Its recipient's bare address.
        to: Name,
        /// The same as a destination ([`store::SlotKey::peer`]).
        dest: u64,
        /// The message, with its place.
        delivery: Delivery,
    },
    /// What is to be handed over is read, or what comes back.
    Outbox(Box<ToRead>),
    /// The error that returns a message for this recipient ([`store::SlotKey::peer`]) is durable.
    ReturnCommitted(u64),
    /// It is read up to where the messages of a sender ([`store::SlotKey::peer`]) were taken.
    ReadMark(u64),
    /// A message was taken over.
    Taken {
        /// Its sender's bare address.
        to: Name,
        /// Its place in the sender's log.
        source: Source,
    },
    /// A message was not taken over.
    NotTaken {
        /// Its sender's bare address.
        to: Name,
        /// What its sender's home is told.
        answer: Box<NotTaken>,
    },
    /// The mark of the account on a room's log is durable.
    Marked {
        /// The room.
        room: Name,
        /// The mark.
        through: Seq,
    },
    /// A room hears that its member's home knows of it.
    Noted {
        /// The room.
        room: Name,
    },
    /// What a session is owed is read.
    Resume {
        /// The session.
        number: u32,
        /// The connection that resumes it.
        conn: ConnRef,
    },
    /// A session cannot go on right now.
    NotResumed {
        /// The session.
        number: u32,
        /// The connection that would resume it.
        conn: ConnRef,
    },
    /// There is no session of that name to be resumed.
    NoSession {
        /// The connection that asked.
        conn: ConnRef,
        /// The name.
        previd: Box<str>,
    },
    /// It is durable that so many stanzas of the client of a connection were handled, which is at
    /// another node.
    Recorded(ConnRef, u32),
    /// A session goes on.
    Resumed {
        /// The session.
        number: u32,
        /// The connection that resumes it.
        conn: ConnRef,
    },
    /// A change of the account's nodes is durable.
    NodesDecided {
        /// Which life of them made it.
        life: Ticket,
        /// Items that it published.
        items: u64,
    },
    /// The list of bookmarks in private storage is read for a request.
    ReadBookmarks(Box<Held>),
    /// The vCard is read to put a picture into it that was published.
    ReadPicture {
        /// Which life of the nodes wants it.
        life: Ticket,
        /// The picture.
        picture: Box<Picture>,
    },
    /// Something happened at a node that a contact may be told of.
    NodeEvent {
        /// Its bare address.
        to: Name,
        /// What happened.
        event: std::sync::Arc<NodeEvent>,
    },
}

impl Effect {
    /// The connection that waits for this.
    pub(super) fn awaited_by(&self) -> Option<ConnRef> {
        match self {
            Effect::Control(conn, _)
            | Effect::Resume { conn, .. }
            | Effect::Resumed { conn, .. }
            | Effect::NoSession { conn, .. }
            | Effect::NotResumed { conn, .. } => Some(*conn),
            _ => None,
        }
    }

    /// Whether it says to a connection that something which came by it is handled.
    pub(super) fn is_credit_for(&self, link: ConnRef) -> bool {
        matches!(self, Effect::Credit(own) if *own == link)
    }

    /// Returns the effect that replaces this one after an earlier append failed, or `None` if it is
    /// dropped. A confirmation becomes a refusal: the message may be in no log, so its sender keeps
    /// it and hands it over again. If it was taken before, it is recognised then. A room that is
    /// not told that it is noted says again that the account is its member.
    fn behind_failure(self) -> Option<Effect> {
        match self {
            Effect::Taken { to, source } => Some(Effect::NotTaken {
                to,
                answer: Box::new(NotTaken {
                    by: 0,
                    source,
                    why: Refusal::Unreadable,
                    error: None,
                }),
            }),
            // Why it was refused may not be so.
            Effect::NotTaken { to, mut answer } if answer.why == Refusal::Final => {
                (answer.why, answer.error) = (Refusal::Unreadable, None);
                Some(Effect::NotTaken { to, answer })
            }
            Effect::Noted { .. } => None,
            other => Some(other),
        }
    }

    /// Returns the effect that replaces this one after its own append failed, or `None` if it is
    /// dropped. An administrator hears of the failure here; the sender of a stanza hears of it by
    /// the [`Origin`].
    pub(super) fn of_failure(self) -> Option<Effect> {
        match self {
            Effect::Answer(reply, _) => Some(Effect::Answer(reply, AdminAnswer::Unavailable)),
            Effect::Taken { .. } => self.behind_failure(),
            Effect::NotTaken { to, answer } => Some(Effect::NotTaken { to, answer }),
            // Taking up a session reads what is there, whatever became of an append.
            Effect::Resume { number, conn } => Some(Effect::Resume { number, conn }),
            Effect::NoSession { conn, previd } => Some(Effect::NoSession { conn, previd }),
            Effect::PageGiven(consumer) | Effect::PageNotGiven(consumer) => {
                Some(Effect::PageNotGiven(consumer))
            }
            Effect::Told(error) | Effect::NotTold(error) => Some(Effect::NotTold(error)),
            Effect::Saved(number) | Effect::NotSaved(number) => Some(Effect::NotSaved(number)),
            Effect::Enabled(conn, _) => Some(Effect::NotEnabled(conn)),
            Effect::Resumed { number, conn } => Some(Effect::NotResumed { number, conn }),
            Effect::Gone {
                to,
                mut delivery,
                activate,
            } => {
                // The credit comes back by the [`Origin`].
                if let Some(debt) = delivery.debt.take() {
                    debt.forgive();
                }
                Some(Effect::Gone {
                    to,
                    delivery,
                    activate,
                })
            }
            Effect::Write(conn, what @ (What::Gone | What::Copy), bytes) => {
                Some(Effect::Write(conn, what, bytes))
            }
            // What came by the link is handled, whatever became of it.
            Effect::Credit(link) => Some(Effect::Credit(link)),
            // Whoever waits for a word is told, and nothing that is recorded depends on it.
            Effect::Nonza(conn, bytes) => Some(Effect::Nonza(conn, bytes)),
            Effect::Control(conn, control) => Some(Effect::Control(conn, control)),
            Effect::Ask(question) => Some(Effect::Ask(question)),
            Effect::ReadBookmarks(held) => Some(Effect::ReadBookmarks(held)),
            Effect::Forward { delivery, .. } => {
                // The credit comes back by the [`Origin`].
                if let Some(debt) = delivery.debt {
                    debt.forgive();
                }
                None
            }
            _ => None,
        }
    }
}

/// Whose stanza caused an append: who is told if it fails.
#[derive(Clone, Default)]
pub(crate) enum Origin {
    /// Nobody waits for an answer.
    #[default]
    Nobody,
    /// One of the user's own sessions.
    Session(OwnStanza),
    /// Somebody else's stanza.
    Other(Frame),
}

/// A stanza of one of the user's own sessions.
#[derive(Clone)]
pub(crate) struct OwnStanza {
    /// The session, which may have ended since.
    pub(crate) conn: ConnRef,
    /// The connection that it came by.
    pub(crate) link: ConnRef,
    /// It counts as handled (XEP-0198), so that its client does not send it again.
    pub(crate) is_counted: bool,
    pub(crate) frame: Frame,
}

/// An append that was handed over, and what depends on it.
#[derive(Default)]
pub(super) struct Append {
    pub(super) ticket: Ticket,
    pub(super) origin: Origin,
    /// Later copies of that stanza, which have its fate.
    again: Vec<OwnStanza>,
    /// Dropped if it fails.
    pub(super) effects: Vec<Effect>,
    /// Bytes that the journal reads and writes for it beside its messages.
    rewrites: usize,
}

impl Append {
    /// An append that was just handed over.
    pub(super) fn new(ticket: Ticket, origin: Origin, effects: Vec<Effect>) -> Append {
        Append {
            ticket,
            origin,
            again: Vec::new(),
            effects,
            rewrites: 0,
        }
    }

    /// The same, of an append for which so many bytes are read and written: as few of them are
    /// under way as of others with as many bytes of effects.
    pub(super) fn rewriting(self, bytes: usize) -> Append {
        Append {
            rewrites: bytes,
            ..self
        }
    }
}

/// What comes of an append that is decided.
pub(super) struct Decided {
    /// What leaves now.
    pub(super) effects: Vec<Effect>,
    /// Whose stanza failed, if it did.
    pub(super) origin: Origin,
    /// Later copies of that stanza.
    pub(super) again: Vec<OwnStanza>,
}

impl Effect {
    /// What it keeps in memory, by estimate.
    fn bytes(&self) -> usize {
        let own = match self {
            Effect::Write(_, _, bytes) | Effect::Nonza(_, bytes) | Effect::Enabled(_, bytes) => {
                bytes.len()
            }
            Effect::Forward { delivery, .. } | Effect::Gone { delivery, .. } => {
                delivery.frame.as_bytes().len()
            }
            Effect::Told(error) | Effect::NotTold(error) => error.as_bytes().len(),
            _ => 0,
        };
        own + size_of::<Effect>()
    }
}

impl Origin {
    fn bytes(&self) -> usize {
        match self {
            Origin::Nobody => 0,
            Origin::Session(OwnStanza { frame, .. }) | Origin::Other(frame) => {
                frame.as_bytes().len()
            }
        }
    }
}

struct Waiting {
    append: Append,
    /// Effects of later stanzas, which wait for their turn.
    after: Vec<Effect>,
    /// Of all that.
    bytes: usize,
}

impl Waiting {
    fn effects(&self) -> usize {
        self.append.effects.len() + self.after.len()
    }
}

#[derive(Default)]
struct Queue {
    appends: VecDeque<Waiting>,
    /// Of all of them.
    effects: usize,
    bytes: usize,
    /// An append failed that is not among them any more, or never was.
    has_failed: bool,
}

/// Memory of what waited and has left, for what waits next on the same shard: a user who records
/// something now and then has none of his own in between.
#[derive(Default)]
pub(crate) struct Spares {
    #[expect(clippy::vec_box)] // A barrier keeps its queue in a box, and so it is lent.
    queues: RefCell<Vec<Box<Queue>>>,
    effects: RefCell<Vec<Vec<Effect>>>,
}

/// Of each kind: about as many users have a commit under way at a time.
const SPARES_MAX: usize = 64;

/// The largest that is kept.
const SPARE_LEN_MAX: usize = 16;

impl Spares {
    fn queue(&self) -> Box<Queue> {
        self.queues.borrow_mut().pop().unwrap_or_default()
    }

    fn keep(&self, mut queue: Box<Queue>) {
        queue.has_failed = false;
        let mut queues = self.queues.borrow_mut();
        if queues.len() < SPARES_MAX && queue.appends.capacity() <= SPARE_LEN_MAX {
            queues.push(queue);
        }
    }

    /// An empty list.
    pub(super) fn effects(&self) -> Vec<Effect> {
        self.effects.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes a list back.
    pub(super) fn keep_effects(&self, mut effects: Vec<Effect>) {
        let mut lists = self.effects.borrow_mut();
        if lists.len() < SPARES_MAX && (1..=SPARE_LEN_MAX).contains(&effects.capacity()) {
            effects.clear();
            lists.push(effects);
        }
    }
}

/// The queue of appends that are not decided, with their effects.
#[derive(Default)]
pub(super) struct Barrier {
    /// Absent while there is none: most of the time that a user is online, nothing is recorded.
    waiting: Option<Box<Queue>>,
    /// In which the state was read that appends build on.
    pub(super) tenure: Tenure,
    /// To which they go, once that was read.
    pub(super) range: Option<RangeId>,
}

impl Barrier {
    /// Whether effects may leave at once.
    pub(super) fn is_open(&self) -> bool {
        self.len() == 0
    }

    /// An append has failed.
    pub(super) fn fail(&mut self) {
        if let Some(queue) = &mut self.waiting {
            queue.has_failed = true;
        }
    }

    /// Whether one has failed, and what was handed over before that was known is not decided yet.
    pub(super) fn has_failed(&self) -> bool {
        self.waiting.as_ref().is_some_and(|queue| queue.has_failed)
    }

    /// Whether so much waits that new stanzas should wait in the mailbox.
    pub(super) fn is_full(&self, bounds: &Commits) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| {
            waiting.appends.len() >= bounds.barrier_appends_max
                || waiting.effects >= bounds.barrier_effects_max
                || waiting.bytes >= bounds.barrier_bytes_max
        })
    }

    /// Everything that waits.
    pub(super) fn effects(&self) -> impl Iterator<Item = &Effect> {
        let waiting = self.waiting.iter().flat_map(|waiting| &waiting.appends);
        waiting.flat_map(|waiting| waiting.append.effects.iter().chain(&waiting.after))
    }

    /// Appends that are not decided.
    pub(super) fn len(&self) -> usize {
        self.waiting
            .as_ref()
            .map_or(0, |waiting| waiting.appends.len())
    }

    /// Puts an append behind those that wait already.
    pub(super) fn push(&mut self, append: Append, spares: &Spares) {
        let queue = self.waiting.get_or_insert_with(|| spares.queue());
        let bytes = append.origin.bytes() + bytes_of(&append.effects) + append.rewrites;
        queue.effects += append.effects.len();
        queue.bytes += bytes;
        queue.appends.push_back(Waiting {
            append,
            after: Vec::new(),
            bytes,
        });
    }

    /// Puts effects that need no append of their own behind the last one. The barrier must be shut.
    pub(super) fn follow(&mut self, effects: &mut Vec<Effect>) {
        // Invariant: callers ask `is_open` first.
        let queue = self.waiting.as_mut().expect("a shut barrier has a queue");
        let last = queue.appends.back_mut();
        // Invariant: an empty queue is dropped.
        let last = last.expect("a shut barrier has an append that waits");
        let bytes = bytes_of(effects);
        queue.effects += effects.len();
        queue.bytes += bytes;
        last.bytes += bytes;
        last.after.append(effects);
    }

    /// A stanza came again while it is not decided what becomes of its first copy, which is the one
    /// that `is_first` knows: it has the same fate. Nothing happens if that is decided.
    pub(super) fn shares_fate(&mut self, again: &OwnStanza, is_first: impl Fn(&Frame) -> bool) {
        let Some(queue) = &mut self.waiting else {
            return;
        };
        let mut appends = queue.appends.iter_mut();
        let first = appends.find(|waiting| match &waiting.append.origin {
            Origin::Session(own) => is_first(&own.frame),
            Origin::Nobody | Origin::Other(_) => false,
        });
        if let Some(first) = first {
            let bytes = again.frame.as_bytes().len() + size_of::<OwnStanza>();
            queue.bytes += bytes;
            first.bytes += bytes;
            first.append.again.push(again.clone());
        }
    }

    /// The outcome of an append. Returns `None` for a ticket of an earlier incarnation, whose
    /// effects died with it.
    pub(super) fn decide(&mut self, ticket: Ticket, ok: bool, spares: &Spares) -> Option<Decided> {
        let queue = self.waiting.as_mut()?;
        let is_it = |first: &mut Waiting| first.append.ticket == ticket;
        let first = queue.appends.pop_front_if(is_it)?;
        queue.effects -= first.effects();
        queue.bytes -= first.bytes;
        if queue.appends.is_empty()
            && let Some(queue) = self.waiting.take()
        {
            spares.keep(queue);
        }
        let Waiting {
            append, mut after, ..
        } = first;
        if ok {
            let mut effects = append.effects;
            effects.append(&mut after);
            return Some(Decided {
                effects,
                origin: Origin::Nobody,
                again: Vec::new(),
            });
        }
        let of_failure = append.effects.into_iter().filter_map(Effect::of_failure);
        let behind = after.into_iter().filter_map(Effect::behind_failure);
        Some(Decided {
            effects: of_failure.chain(behind).collect(),
            origin: append.origin,
            again: append.again,
        })
    }
}

fn bytes_of(effects: &[Effect]) -> usize {
    effects.iter().map(Effect::bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Effect> {
        vec![Effect::ReadMark(0)]
    }

    fn append(ticket: Ticket, effects: Vec<Effect>) -> Append {
        Append {
            ticket,
            effects,
            ..Append::default()
        }
    }

    fn effects_of(decided: Option<Decided>) -> usize {
        decided.map_or(0, |decided| decided.effects.len())
    }

    #[test]
    fn effects_leave_in_order_with_their_commit() {
        let (mut barrier, spares) = (Barrier::default(), &Spares::default());
        assert!(barrier.is_open());
        let first = Ticket(1);
        barrier.push(append(first, some()), spares);
        let second = Ticket(2);
        barrier.push(append(second, some()), spares);
        barrier.follow(&mut some());
        assert_eq!(effects_of(barrier.decide(first, true, spares)), 1);
        assert!(!barrier.is_open());
        assert_eq!(effects_of(barrier.decide(second, true, spares)), 2);
        assert!(barrier.is_open());
    }

    /// A room says twice that the account is its member, and what the account noted at the first
    /// time is refused: the room must not hear that it is noted.
    #[test]
    fn nothing_is_noted_behind_an_append_that_failed() {
        let (mut barrier, spares) = (Barrier::default(), &Spares::default());
        let room = Name::from("room@x");
        let noted = || vec![Effect::Noted { room: room.clone() }];
        for (is_done, count) in [(true, 2), (false, 0)] {
            let ticket = Ticket(u32::from(is_done));
            barrier.push(append(ticket, noted()), spares);
            barrier.follow(&mut noted());
            assert_eq!(effects_of(barrier.decide(ticket, is_done, spares)), count);
        }
    }

    #[test]
    fn a_failed_append_takes_its_own_effects_with_it_and_no_others() {
        let (mut barrier, spares) = (Barrier::default(), &Spares::default());
        let ticket = Ticket(3);
        let both = vec![Effect::ReadMark(0), Effect::ReadMark(0)];
        barrier.push(append(ticket, both), spares);
        barrier.follow(&mut some());
        assert_eq!(effects_of(barrier.decide(ticket, false, spares)), 1);
    }

    #[test]
    fn behind_an_append_that_failed_others_fail_until_all_are_decided() {
        let (mut barrier, spares) = (Barrier::default(), &Spares::default());
        barrier.fail();
        assert!(!barrier.has_failed(), "nothing waits");
        let (first, second) = (Ticket(6), Ticket(7));
        barrier.push(append(first, Vec::new()), spares);
        barrier.push(append(second, Vec::new()), spares);
        barrier.fail();
        barrier.decide(first, true, spares);
        assert!(barrier.has_failed());
        barrier.decide(second, false, spares);
        assert!(!barrier.has_failed());
        // Its memory is used again, by anybody.
        let mut other = Barrier::default();
        other.push(append(first, Vec::new()), spares);
        assert!(!other.has_failed());
    }

    #[test]
    fn an_unknown_ticket_changes_nothing() {
        let (mut barrier, spares) = (Barrier::default(), &Spares::default());
        let ticket = Ticket(4);
        barrier.push(append(ticket, some()), spares);
        assert!(barrier.decide(Ticket(99), true, spares).is_none());
        assert_eq!(barrier.len(), 1);
    }

    fn bounds(appends: usize, effects: usize, bytes: usize) -> Commits {
        Commits {
            barrier_appends_max: appends,
            barrier_effects_max: effects,
            barrier_bytes_max: bytes,
            ..Commits::default()
        }
    }

    #[test]
    fn it_is_full_by_appends_effects_and_bytes() {
        const MANY: usize = usize::MAX;
        let (mut barrier, spares) = (Barrier::default(), &Spares::default());
        assert!(!barrier.is_full(&bounds(1, 1, 1)), "nothing waits");
        let first = Ticket(5);
        barrier.push(append(first, Vec::new()), spares);
        assert!(barrier.is_full(&bounds(1, MANY, MANY)));
        assert!(!barrier.is_full(&bounds(2, 1, 1)), "no effects yet");
        barrier.follow(&mut some());
        assert!(barrier.is_full(&bounds(2, 1, MANY)));
        assert!(!barrier.is_full(&bounds(2, 2, MANY)));
        let one = size_of::<Effect>();
        assert!(barrier.is_full(&bounds(2, 2, one)) && !barrier.is_full(&bounds(2, 2, one + 1)));
        barrier.decide(first, true, spares);
        assert!(!barrier.is_full(&bounds(1, 1, 1)), "all of it has left");
        barrier.push(append(first, Vec::new()).rewriting(one), spares);
        assert!(barrier.is_full(&bounds(2, 2, one)) && !barrier.is_full(&bounds(2, 2, one + 1)));
        barrier.decide(first, true, spares);
        assert!(barrier.is_open());
    }

    #[test]
    fn stanzas_count_with_their_bytes() {
        const MANY: usize = usize::MAX;
        let (mut barrier, spares) = (Barrier::default(), &Spares::default());
        let frame = Frame::parse(b"<message xmlns='jabber:client'/>".to_vec()).expect("a stanza");
        let its = frame.as_bytes().len();
        let conn = ConnRef {
            shard: actor::ShardId::new(0),
            id: stdx::slab::Key {
                index: 0,
                generation: 0,
            },
        };
        let write = Effect::Write(conn, What::Other, vec![0; 1_000]);
        let of_another = Append {
            origin: Origin::Other(frame),
            ..append(Ticket(8), vec![write])
        };
        barrier.push(of_another, spares);
        let all = size_of::<Effect>() + 1_000 + its;
        assert!(barrier.is_full(&bounds(MANY, MANY, all)));
        assert!(!barrier.is_full(&bounds(MANY, MANY, all + 1)));
    }
}
