//! What leaves a room or a service: one frame for many is shared by all copies of a shard, and each
//! recipient's home writes his address into it. So many copies go in one turn; what comes after
//! waits behind the rest, and so do the others in the mailbox.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actor::{Context, Mail, Name, ShardId};
use telemetry::Counter;
use xml::Frame;

use crate::address;
use crate::home::Home;
use crate::message::{Delivery, SharedCopy, UserMsg};

/// Addresses that one frame goes to.
type Audience = Arc<[Arc<str>]>;

/// Something that leaves.
pub(crate) enum Out {
    /// A stanza that has its `to`.
    One(Frame),
    /// Copies of a frame without `to`.
    Copies(Copies),
}

/// A fan-out that is under way.
pub(crate) struct Copies {
    frame: Frame,
    /// The frame as it goes to the shard of the last copy.
    shared: Option<(ShardId, Frame)>,
    to: Rc<[Recipient]>,
    /// How many have theirs.
    done: usize,
}

/// Who gets a copy, grouped by shard.
struct Recipient {
    shard: ShardId,
    bare: Name,
    /// Full, or bare: then the account decides which of its sessions get it.
    address: Arc<str>,
}

/// Where it is counted.
#[derive(Clone, Copy)]
pub(crate) struct Counters {
    /// Copies that left.
    pub(crate) sent: Counter,
    /// Copies that found no room.
    pub(crate) dropped: Counter,
}

/// What has not left yet, in order.
pub(crate) struct Leaving {
    queue: VecDeque<Out>,
    /// [`UserMsg::GoOn`] is on its way.
    is_going: bool,
    /// The last audience that was looked up: most frames go to those who got the one before.
    known: Option<(Audience, Rc<[Recipient]>)>,
    /// Copies of one turn.
    turn_max: usize,
    counters: Counters,
}

impl Leaving {
    /// Nothing leaves yet; at most `turn_max` copies will in one turn.
    pub(crate) fn new(turn_max: usize, counters: Counters) -> Leaving {
        Leaving {
            queue: VecDeque::new(),
            is_going: false,
            known: None,
            turn_max: turn_max.max(1),
            counters,
        }
    }

    pub(crate) fn push(&mut self, out: Out) {
        self.queue.push_back(out);
    }

    pub(crate) fn extend(&mut self, out: impl IntoIterator<Item = Out>) {
        self.queue.extend(out);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// A frame goes to many.
    pub(crate) fn copies(&mut self, frame: Frame, to: Audience, home: &Home) {
        let to = match &self.known {
            Some((audience, known)) if Arc::ptr_eq(audience, &to) => Rc::clone(known),
            _ => {
                let recipient = |address: &Arc<str>| {
                    let bare = Name::from(address::bare(address));
                    Recipient {
                        shard: home.place.shard(&bare),
                        bare,
                        address: Arc::clone(address),
                    }
                };
                let mut all: Vec<Recipient> = to.iter().map(recipient).collect();
                all.sort_by_key(|recipient| recipient.shard);
                let all: Rc<[Recipient]> = all.into();
                self.known = Some((to, Rc::clone(&all)));
                all
            }
        };
        self.push(Out::Copies(Copies {
            frame,
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
        self.leave(self.turn_max, home, cx);
        if self.is_empty() {
            return;
        }
        self.is_going = true;
        if cx.send_priority(cx.myself(), UserMsg::GoOn).is_err() {
            cx.send_after(Duration::ZERO, UserMsg::GoOn);
        }
    }

    /// Lets everything leave, however much it is: whoever sends it ends.
    pub(crate) fn leave_all(&mut self, home: &Home, cx: &mut Context<'_, UserMsg>) {
        self.leave(usize::MAX, home, cx);
    }

    fn leave(&mut self, max: usize, home: &Home, cx: &mut Context<'_, UserMsg>) {
        let mut left = max;
        while let Some(out) = self.queue.pop_front() {
            if left == 0 {
                self.queue.push_front(out);
                break;
            }
            match out {
                Out::One(frame) => {
                    left -= 1;
                    self.send_one(frame, home, cx);
                }
                Out::Copies(mut copies) => {
                    left -= self.send_copies(&mut copies, left, home, cx);
                    if copies.done < copies.to.len() {
                        self.queue.push_front(Out::Copies(copies));
                    }
                }
            }
        }
    }

    /// Sends at most `max` copies, and says how many.
    fn send_copies(
        &self,
        copies: &mut Copies,
        max: usize,
        home: &Home,
        cx: &mut Context<'_, UserMsg>,
    ) -> usize {
        let count = max.min(copies.to.len() - copies.done);
        let end = copies.done + count;
        let is_message = copies.frame.name() == "message";
        let own = cx.shard();
        for recipient in &copies.to[copies.done..end] {
            let shard = recipient.shard;
            if !recipient.address.contains('/') {
                let frame = &copies.frame;
                let frame = frame.edit().set_attr("to", &recipient.address).finish();
                self.send_one(frame, home, cx);
                continue;
            }
            let shared = copies.shared.as_ref().filter(|(of, _)| *of == shard);
            let frame = match shared {
                Some((_, frame)) => frame.clone(),
                None => {
                    let frame = own_copy(&copies.frame, shard == own);
                    copies.shared = Some((shard, frame.clone()));
                    frame
                }
            };
            let copy = UserMsg::Copy(SharedCopy {
                to: Arc::clone(&recipient.address),
                frame,
            });
            // A message brings the account of a session that is gone to life, so that it says so.
            let sent = if is_message {
                cx.send_named(shard, &recipient.bare, copy)
            } else {
                cx.send_named_if_active(shard, &recipient.bare, copy)
            };
            if matches!(sent, Err(actor::SendError::Full(_))) {
                cx.stats().count(self.counters.dropped);
            }
        }
        cx.stats().add(self.counters.sent, count as u64);
        copies.done = end;
        count
    }

    fn send_one(&self, frame: Frame, home: &Home, cx: &mut Context<'_, UserMsg>) {
        let Some(to) = frame.attr("to").map(|to| to.into_owned()) else {
            return;
        };
        let (bare, resource) = address::split(&to);
        if !home.serves(address::domain(bare)) || address::local(bare).is_none() {
            // Nobody can be reached there.
            return cx.stats().count(Counter::ActorDropped);
        }
        let kind = frame.attr_raw("type");
        // A headline is for who is there.
        let activate = match frame.name() {
            "message" => !matches!(kind, Some("error" | "headline")),
            "iq" => matches!(kind, Some("get" | "set")),
            _ => false,
        };
        let delivery = Delivery::new(resource.map(Into::into), frame);
        if home
            .send(cx, bare, UserMsg::Deliver(delivery), activate)
            .is_some()
        {
            cx.stats().count(self.counters.dropped);
        }
    }
}

/// A frame for another shard has bytes of its own: a count of users that two shards change is
/// passed between processors with every copy.
fn own_copy(frame: &Frame, is_own_shard: bool) -> Frame {
    if is_own_shard {
        return frame.clone();
    }
    Frame::parse(frame.as_bytes().to_vec()).unwrap_or_else(|_| frame.clone())
}
