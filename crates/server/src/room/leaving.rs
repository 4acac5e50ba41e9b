//! What leaves a room: one frame for many is shared by all copies of a shard, and each recipient's
//! home writes his address into it. At most [`crate::options::Rooms::copies_per_turn`] copies go in
//! one turn; what comes after waits behind the rest, and so do the others in the mailbox.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actor::{Context, Mail, Name, ShardId};
use room::{Audience, Effect};
use telemetry::Counter;
use xml::Frame;

use super::{RoomActor, RoomMsg};
use crate::address;
use crate::message::{Delivery, RoomCopy, UserMsg};

/// Something that leaves.
pub(super) enum Out {
    /// A stanza that has its `to`.
    One(Frame),
    /// Copies of a frame without `to`.
    Copies(Copies),
}

/// A fan-out that is under way.
pub(super) struct Copies {
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
    full: Arc<str>,
}

/// What has not left yet, in order.
#[derive(Default)]
pub(super) struct Leaving {
    queue: VecDeque<Out>,
    /// [`RoomMsg::GoOn`] is on its way.
    is_going: bool,
    /// The last audience that was looked up: most frames go to those who got the one before.
    known: Option<(Audience, Rc<[Recipient]>)>,
}

impl Leaving {
    pub(super) fn push(&mut self, out: Out) {
        self.queue.push_back(out);
    }

    pub(super) fn extend(&mut self, out: impl IntoIterator<Item = Out>) {
        self.queue.extend(out);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl RoomActor {
    /// A frame goes to many.
    pub(super) fn copies(&mut self, frame: Frame, to: Audience, _cx: &mut Context<'_, UserMsg>) {
        let to = match &self.leaving.known {
            Some((audience, known)) if Arc::ptr_eq(audience, &to) => Rc::clone(known),
            _ => {
                let recipient = |full: &Arc<str>| {
                    let bare = Name::from(address::bare(full));
                    Recipient {
                        shard: self.home.place.shard(&bare),
                        bare,
                        full: Arc::clone(full),
                    }
                };
                let mut all: Vec<Recipient> = to.iter().map(recipient).collect();
                all.sort_by_key(|recipient| recipient.shard);
                let all: Rc<[Recipient]> = all.into();
                self.leaving.known = Some((to, Rc::clone(&all)));
                all
            }
        };
        self.leaving.push(Out::Copies(Copies {
            frame,
            shared: None,
            to,
            done: 0,
        }));
    }

    /// The next turn has come.
    pub(super) fn next_turn(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.leaving.is_going = false;
        self.go_on(cx);
    }

    /// Lets leave what may in this turn.
    pub(super) fn go_on(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.leaving.is_going {
            return;
        }
        let mut left = self.home.options.rooms.copies_per_turn.max(1);
        while let Some(out) = self.leaving.queue.pop_front() {
            if left == 0 {
                self.leaving.queue.push_front(out);
                break;
            }
            match out {
                Out::One(frame) => {
                    left -= 1;
                    self.send_one(frame, cx);
                }
                Out::Copies(mut copies) => {
                    left -= self.send_copies(&mut copies, left, cx);
                    if copies.done < copies.to.len() {
                        self.leaving.queue.push_front(Out::Copies(copies));
                    }
                }
            }
        }
        if self.leaving.is_empty() {
            return;
        }
        self.leaving.is_going = true;
        let go_on = || UserMsg::Room(Box::new(RoomMsg::GoOn));
        if cx.send_priority(cx.myself(), go_on()).is_err() {
            cx.send_after(Duration::ZERO, go_on());
        }
    }

    /// Sends at most `max` copies, and says how many.
    fn send_copies(
        &mut self,
        copies: &mut Copies,
        max: usize,
        cx: &mut Context<'_, UserMsg>,
    ) -> usize {
        let end = copies.to.len().min(copies.done + max);
        let count = end - copies.done;
        let is_message = copies.frame.name() == "message";
        let own = cx.shard();
        for recipient in &copies.to[copies.done..end] {
            let shard = recipient.shard;
            let shared = copies.shared.as_ref().filter(|(of, _)| *of == shard);
            let frame = match shared {
                Some((_, frame)) => frame.clone(),
                None => {
                    let frame = own_copy(&copies.frame, shard == own);
                    copies.shared = Some((shard, frame.clone()));
                    frame
                }
            };
            let copy = UserMsg::Copy(RoomCopy {
                to: Arc::clone(&recipient.full),
                frame,
            });
            // A message brings the account of a session that is gone to life, so that it says so.
            let sent = if is_message {
                cx.send_named(shard, &recipient.bare, copy)
            } else {
                cx.send_named_if_active(shard, &recipient.bare, copy)
            };
            if matches!(sent, Err(actor::SendError::Full(_))) {
                cx.stats().count(Counter::RoomCopiesDropped);
            }
        }
        cx.stats().add(Counter::RoomCopies, count as u64);
        copies.done = end;
        count
    }

    fn send_one(&mut self, frame: Frame, cx: &mut Context<'_, UserMsg>) {
        let Some(to) = frame.attr("to").map(|to| to.into_owned()) else {
            return;
        };
        let (bare, resource) = address::split(&to);
        if !self.home.serves(address::domain(bare)) || address::local(bare).is_none() {
            // Nobody can be reached there.
            return cx.stats().count(Counter::ActorDropped);
        }
        let kind = frame.attr_raw("type");
        let activate = match frame.name() {
            "message" => kind != Some("error"),
            "iq" => matches!(kind, Some("get" | "set")),
            _ => false,
        };
        let delivery = Delivery::new(resource.map(Into::into), frame);
        if self
            .home
            .send(cx, bare, UserMsg::Deliver(delivery), activate)
            .is_some()
        {
            cx.stats().count(Counter::RoomCopiesDropped);
        }
    }

    /// The room ends although somebody is there: they are told at once, however many they are.
    pub(super) fn tell_of_the_end(&mut self, cx: &mut Context<'_, UserMsg>) {
        let Some(room) = &mut self.room else { return };
        for effect in room.end() {
            match effect {
                Effect::Send { frame, to } => self.copies(frame, to, cx),
                Effect::Deliver(frame) => self.leaving.push(Out::One(frame)),
                _ => {}
            }
        }
        while let Some(out) = self.leaving.queue.pop_front() {
            match out {
                Out::One(frame) => self.send_one(frame, cx),
                Out::Copies(mut copies) => {
                    self.send_copies(&mut copies, usize::MAX, cx);
                }
            }
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
