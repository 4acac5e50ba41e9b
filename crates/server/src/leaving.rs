//! What leaves a room or a service: one frame for many is shared by all copies of a shard, and each
//! recipient's home writes his address into it. So many copies go in one turn; what comes after
//! waits behind the rest, and so do the others in the mailbox.

mod audience;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actor::{Context, Mail, Name, ShardId};
use room::told::is_not_there;
use store::Seq;
use telemetry::Counter;
use wire::{Message, SharedCopy};
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use self::audience::{Audience, LookUp, Recipients};
use crate::address;
use crate::home::Home;
use crate::message::credit::Debt;
use crate::message::{Delivery, UserMsg};

/// Stanzas for single recipients up to which nobody asks how much their shard has to do.
const FEW: usize = 16;

/// Pause while the shard of the next recipient is behind.
const HOLD_UP: Duration = Duration::from_millis(1);

/// Something that leaves.
pub(crate) enum Out {
    /// A stanza that has its `to`.
    One(Frame),
    /// The same for a managed session of that number alone.
    Session(Frame, u32),
    /// The end of an answer, and what its reader owes for all of it: his next request, and the
    /// bytes that his connection has not taken.
    Answer(Frame, Option<Box<Debt>>),
    /// Copies of a frame without `to`.
    Copies(Copies),
    /// What a session's home is told.
    Tell(Name, Message),
    /// What is behind it waits until so many commits in all are over.
    Wait(u64),
}

impl Out {
    /// Copies and stanzas that are left of it.
    fn count(&self) -> usize {
        match self {
            Out::One(_) | Out::Session(..) | Out::Answer(..) | Out::Tell(..) => 1,
            Out::Copies(copies) => copies.to.len() - copies.done,
            Out::Wait(_) => 0,
        }
    }
}

/// A fan-out that is under way.
pub(crate) struct Copies {
    frame: Frame,
    placed: (Seq, Seq),
    /// The frame as it goes to the shard of the last copy.
    shared: Option<(ShardId, Frame)>,
    to: Recipients,
    /// How many have theirs.
    done: usize,
}

/// Where it is counted.
#[derive(Clone, Copy)]
pub(crate) struct Counters {
    /// Copies that left; `None` where there are none.
    pub(crate) sent: Option<Counter>,
    /// Copies that found no room.
    pub(crate) dropped: Counter,
}

/// What has not left yet, in order.
pub(crate) struct Leaving {
    queue: VecDeque<Out>,
    /// Copies and stanzas in it.
    owed: usize,
    /// [`UserMsg::GoOn`] is on its way.
    is_going: bool,
    look_up: LookUp,
    bounds: Bounds,
    counters: Counters,
    /// Commits that what leaves has to wait for, and those of them that are over.
    waits: (u64, u64),
    /// Who found no room for a message of the log, and the place of the last one. No more than
    /// there are recipients.
    missed: BTreeMap<Arc<str>, Seq>,
}

/// Bounds of what leaves one entity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Copies of one turn.
    pub(crate) turn_max: usize,
    /// Commits that what leaves may wait for; with so many, what comes waits too.
    pub(crate) waits_max: u64,
}

impl Leaving {
    /// Nothing leaves yet.
    pub(crate) fn new(bounds: Bounds, counters: Counters) -> Leaving {
        Leaving {
            queue: VecDeque::new(),
            owed: 0,
            is_going: false,
            look_up: LookUp::default(),
            bounds: Bounds {
                turn_max: bounds.turn_max.max(1),
                waits_max: bounds.waits_max.max(1),
            },
            counters,
            waits: (0, 0),
            missed: BTreeMap::new(),
        }
    }

    pub(crate) fn push(&mut self, out: Out) {
        self.owed += out.count();
        self.queue.push_back(out);
    }

    pub(crate) fn extend(&mut self, out: impl IntoIterator<Item = Out>) {
        for out in out {
            self.push(out);
        }
    }

    /// Copies and stanzas that have not left yet.
    pub(crate) fn owed(&self) -> usize {
        self.owed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// What leaves from now on waits for a commit that is under way. Gives the number of that: each
    /// is above the one before.
    pub(crate) fn wait(&mut self) -> u64 {
        self.waits.0 += 1;
        self.push(Out::Wait(self.waits.0));
        self.waits.0
    }

    /// What waits for commits of which nobody knows whether they are durable says no more who is
    /// there. Whatever else waits for them may leave; also the word to one session that it is not
    /// there, which nobody would say again.
    pub(crate) fn forget_presence(&mut self) {
        let over = self.waits.1;
        let is_open = |out: &Out| matches!(out, Out::Wait(commit) if *commit > over);
        let Some(first) = self.queue.iter().position(is_open) else {
            return;
        };
        let behind = self.queue.split_off(first);
        self.queue
            .extend(behind.into_iter().filter(|out| match out {
                Out::One(frame) | Out::Session(frame, _) => {
                    frame.name() != "presence" || is_not_there(frame)
                }
                Out::Copies(copies) => copies.frame.name() != "presence",
                Out::Tell(..) => false,
                Out::Answer(..) | Out::Wait(_) => true,
            }));
        self.owed = self.queue.iter().map(Out::count).sum();
    }

    /// The first commit that something waits for is over.
    pub(crate) fn is_over(&mut self) {
        self.waits.1 += 1;
    }

    /// Nothing leaves before a commit is over.
    fn is_waiting(&self) -> bool {
        matches!(self.queue.front(), Some(Out::Wait(commit)) if *commit > self.waits.1)
    }

    /// Whether what comes has to wait: copies are under way, or too much waits for commits.
    pub(crate) fn is_busy(&self) -> bool {
        let commits = self.waits.0 - self.waits.1;
        !self.is_empty() && (!self.is_waiting() || commits >= self.bounds.waits_max)
    }

    /// Who was not given a message of the log since this was asked last, and the place of the last
    /// one.
    pub(crate) fn take_missed(&mut self) -> BTreeMap<Arc<str>, Seq> {
        std::mem::take(&mut self.missed)
    }

    /// Whether there is anybody.
    pub(crate) fn has_missed(&self) -> bool {
        !self.missed.is_empty()
    }

    /// Somebody was not given a message of the log.
    pub(crate) fn misses(&mut self, who: Arc<str>, place: Seq) {
        let last = self.missed.entry(who).or_default();
        *last = place.max(*last);
    }

    /// A frame goes to many. `placed` is its place in the log and that of the one in front of it;
    /// zeros if it is not there.
    pub(crate) fn copies(&mut self, frame: Frame, to: Audience, placed: (Seq, Seq), home: &Home) {
        let to = self.look_up.recipients(to, &home.place);
        self.push(Out::Copies(Copies {
            frame,
            placed,
            shared: None,
            to,
            done: 0,
        }));
    }

    /// The next turn has come.
    pub(crate) fn next_turn(&mut self, home: &Home, cx: &mut Context<'_, UserMsg>) {
        self.is_going = false;
        self.go_on(home, cx);
    }

    /// Lets leave what may in this turn.
    pub(crate) fn go_on(&mut self, home: &Home, cx: &mut Context<'_, UserMsg>) {
        if self.is_going {
            return;
        }
        self.leave(self.bounds.turn_max, home, cx);
        if self.is_empty() || self.is_waiting() {
            return;
        }
        self.is_going = true;
        if self.is_held_up(home, cx) {
            cx.send_after(HOLD_UP, UserMsg::GoOn);
            return;
        }
        if cx.send_priority(cx.myself(), UserMsg::GoOn).is_err() {
            cx.send_after(Duration::ZERO, UserMsg::GoOn);
        }
    }

    /// The shard of the next recipient has more to take than it can in some turns. What is sent
    /// there all the same would wait in memory: who enters rooms with a long history brings about a
    /// thousand times what he sends.
    fn is_held_up(&self, home: &Home, cx: &Context<'_, UserMsg>) -> bool {
        match self.queue.front() {
            Some(Out::Copies(copies)) => {
                let next = copies.to.get(copies.done);
                next.is_some_and(|recipient| cx.is_behind(home.place.home_of(recipient.range)))
            }
            Some(Out::One(frame) | Out::Session(frame, _)) if self.queue.len() > FEW => {
                let to = frame.attr("to").unwrap_or_default();
                cx.is_behind(home.place.shard(address::bare(&to)))
            }
            _ => false,
        }
    }

    /// Lets everything leave, however much it is: whoever sends it ends.
    pub(crate) fn leave_all(&mut self, home: &Home, cx: &mut Context<'_, UserMsg>) {
        self.waits.1 = self.waits.0;
        self.leave(usize::MAX, home, cx);
    }

    fn leave(&mut self, max: usize, home: &Home, cx: &mut Context<'_, UserMsg>) {
        let mut left = max;
        if max < usize::MAX && self.is_held_up(home, cx) {
            return;
        }
        let before = left;
        while let Some(out) = self.queue.pop_front() {
            let must_wait = matches!(out, Out::Wait(commit) if commit > self.waits.1);
            if left == 0 || must_wait {
                self.queue.push_front(out);
                break;
            }
            match out {
                Out::Wait(_) => {}
                Out::Tell(to, msg) => {
                    left -= 1;
                    // Whoever needs it asks.
                    home.say(cx, &to, msg, true);
                }
                Out::One(frame) => {
                    left -= 1;
                    self.send_one(frame, (None, None), home, cx);
                }
                Out::Session(frame, number) => {
                    left -= 1;
                    self.send_one(frame, (None, Some(number)), home, cx);
                }
                Out::Answer(frame, debt) => {
                    left -= 1;
                    self.send_one(frame, (debt, None), home, cx);
                }
                Out::Copies(mut copies) => {
                    left -= self.send_copies(&mut copies, left, home, cx);
                    if copies.done < copies.to.len() {
                        self.queue.push_front(Out::Copies(copies));
                    }
                }
            }
        }
        self.owed -= before - left;
    }

    /// Sends at most `max` copies, and says how many.
    fn send_copies(
        &mut self,
        copies: &mut Copies,
        max: usize,
        home: &Home,
        cx: &mut Context<'_, UserMsg>,
    ) -> usize {
        let count = max.min(copies.to.len() - copies.done);
        let end = copies.done + count;
        let is_message = copies.frame.is_named("message");
        let own = cx.shard();
        for recipient in &copies.to[copies.done..end] {
            let shard = home.place.home_of(recipient.range);
            if !recipient.is_full {
                let frame = &copies.frame;
                let frame = frame.edit().set_attr("to", &recipient.address).finish();
                self.send_one(frame, (None, None), home, cx);
                continue;
            }
            let shared = copies.shared.as_ref().filter(|(of, _)| *of == shard);
            let frame = match shared {
                Some((_, frame)) => frame.clone(),
                None => {
                    let is_shared = shard == own || copies.to.len() == 1;
                    let frame = own_copy(&copies.frame, is_shared);
                    copies.shared = Some((shard, frame.clone()));
                    frame
                }
            };
            let copy = Message::Copy(SharedCopy {
                to: Arc::clone(&recipient.address),
                frame,
                place: copies.placed.0,
                after: copies.placed.1,
            });
            // A message brings the account of a session that is gone to life, so that it says so.
            let at = (shard, &recipient.bare);
            if home.send(cx, at, copy.into(), is_message).is_some() {
                cx.stats().count(self.counters.dropped);
                if copies.placed.0 != 0 {
                    self.misses(Arc::clone(&recipient.address), copies.placed.0);
                } else if is_message && is_private(&copies.frame) {
                    // A private message is in no log of the room's: its sender tries again.
                    let frame = copies.frame.edit().set_attr("to", &recipient.address);
                    let busy = StanzaError::new(Condition::ResourceConstraint);
                    self.come_back(&frame.finish(), &busy, home, cx);
                }
            }
        }
        if let Some(sent) = self.counters.sent {
            cx.stats().add(sent, count as u64);
        }
        copies.done = end;
        count
    }

    fn send_one(
        &self,
        frame: Frame,
        (debt, session): (Option<Box<Debt>>, Option<u32>),
        home: &Home,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(to) = frame.attr("to").map(|to| to.into_owned()) else {
            return;
        };
        let (bare, resource) = address::split(&to);
        let is_entity = address::local(bare).is_some() || home.component_of(bare).is_some();
        if !home.serves(address::domain(bare)) || !is_entity {
            let condition = match home.serves(address::domain(bare)) {
                true => Condition::ServiceUnavailable,
                false => Condition::RemoteServerNotFound,
            };
            cx.stats().count(Counter::ActorDropped);
            return self.come_back(&frame, &StanzaError::new(condition), home, cx);
        }
        let kind = frame.attr_raw("type");
        // A headline is for who is there.
        let activate = match frame.name() {
            "message" => !matches!(kind, Some("error" | "headline")),
            "iq" => matches!(kind, Some("get" | "set")),
            _ => false,
        };
        let mut delivery = Delivery {
            debt,
            ..Delivery::new(resource.map(Into::into), frame)
        };
        delivery.managed = session;
        let refused = home.pass_on(cx, &Name::from(bare), delivery, activate);
        if refused.is_some() {
            cx.stats().count(self.counters.dropped);
        }
    }

    /// What is for an address does not get there. Who has sent a message there hears so.
    fn come_back(
        &self,
        frame: &Frame,
        error: &StanzaError,
        home: &Home,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let answer = xmpp::error::reply(frame, error);
        let Some(answer) = answer.filter(|_| frame.name() == "message") else {
            return;
        };
        let sender = answer.attr("to").unwrap_or_default().into_owned();
        let (bare, resource) = address::split(&sender);
        let delivery = Delivery::new(resource.map(Into::into), answer);
        if home
            .pass_on(cx, &Name::from(bare), delivery, false)
            .is_some()
        {
            cx.stats().count(self.counters.dropped);
        }
    }
}

/// Whether an occupant says something to another one alone (XEP-0045 section 7.5).
fn is_private(message: &Frame) -> bool {
    let from = message.attr("from").unwrap_or_default();
    let is_for_all = matches!(message.attr_raw("type"), Some("groupchat" | "error"));
    from.contains('/') && !is_for_all
}

/// A frame for many of another shard has bytes of its own: a count of users that two shards change
/// is passed between processors with every copy.
fn own_copy(frame: &Frame, is_shared: bool) -> Frame {
    if is_shared {
        return frame.clone();
    }
    Frame::parse(frame.as_bytes().to_vec()).unwrap_or_else(|_| frame.clone())
}
