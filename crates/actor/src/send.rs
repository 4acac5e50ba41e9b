//! How messages get into mailboxes: here, on other shards, and back if they do not fit.
//!
//! Owns every path of a message up to its mailbox, and what becomes of one that cannot be
//! delivered.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stdx::slab::Key;
use telemetry::Counter;

use crate::core::{Core, realm_of};
use crate::limits::{BATCH_MAX, OUTGOING_MAX, PRIORITY_MAX};
use crate::link::{Call, Parcel};
use crate::mailbox::Item;
use crate::moves::Whereabouts;
use crate::realm::{BatchOf, Envelope, Slot, Target};
use crate::traits::Refused;
use crate::types::{Addr, Name, SendError, ShardId};

/// Why an entity cannot be found or made.
pub(crate) enum NotThere {
    /// Not loaded, and nothing to load it with.
    Absent,
    Quarantined,
    /// At the bound of actors.
    NoRoom,
    /// Another shard is its home.
    Moved(ShardId),
    /// This shard is its home soon.
    Coming,
}

impl Core {
    #[inline]
    pub(crate) fn send_to<M: Send + 'static>(
        &mut self,
        to: Addr<M>,
        msg: M,
        priority: bool,
    ) -> Result<(), SendError<M>> {
        if to.id.shard == self.id {
            return self.put(to.id.realm, to.id.key, msg, priority);
        }
        let envelope = Envelope {
            to: Target::Actor(to.id.key),
            priority,
            msg,
        };
        self.send_away(to.id.shard, envelope)
    }

    /// Puts a message that somebody sent into a mailbox of this shard.
    #[inline]
    pub(crate) fn put<M: Send + 'static>(
        &mut self,
        id: u16,
        key: Key,
        msg: M,
        priority: bool,
    ) -> Result<(), SendError<M>> {
        let realm = realm_of::<M>(&mut self.realms, id);
        if realm.pauses.is_empty() || priority {
            return self.put_now(id, key, msg, priority);
        }
        match self.keep_waiting(id, key, msg) {
            Some(msg) => self.put_now(id, key, msg, priority),
            None => Ok(()),
        }
    }

    #[inline]
    fn put_now<M: Send + 'static>(
        &mut self,
        id: u16,
        key: Key,
        msg: M,
        priority: bool,
    ) -> Result<(), SendError<M>> {
        let realm = realm_of::<M>(&mut self.realms, id);
        let Some(slot) = realm.slots.get_mut(key) else {
            self.stats.count(Counter::ActorGone);
            return Err(SendError::Gone(msg));
        };
        let is_full = if priority {
            usize::from(slot.priority_count) >= PRIORITY_MAX
        } else {
            let len = slot.normal.len();
            let may_line = || len < realm.mailbox_line && (realm.may_stand_in_line)(&msg);
            let may_reserve = || len < realm.mailbox_max && (realm.may_use_reserve)(&msg);
            len >= realm.mailbox_shared && !may_reserve() && !may_line()
        };
        if is_full {
            self.refused = true;
            self.stats.count(Counter::ActorMailboxFull);
            return Err(SendError::Full(msg));
        }
        let was_empty = slot.waiting() == 0;
        let lane = if priority {
            slot.priority_count += 1;
            &mut slot.urgent
        } else {
            &mut slot.normal
        };
        lane.push(&mut realm.arena, Item::Msg(msg));
        let len = slot.waiting();
        if !slot.flags.queued && (priority || !slot.flags.held) {
            slot.flags.queued = true;
            self.run.push_back((id, key));
        }
        self.waiting += 1;
        self.non_empty += u64::from(was_empty);
        if len >= 8 && len.is_power_of_two() {
            let who = self.actor_id(id, key);
            self.tops.note_queue(who, len as u32);
        }
        Ok(())
    }

    /// The same for what comes from elsewhere: a mailbox with patience takes it, and has further
    /// mail wait once it is full.
    fn put_patiently<M: Send + 'static>(
        &mut self,
        id: u16,
        key: Key,
        msg: M,
        priority: bool,
    ) -> Result<(), SendError<M>> {
        let realm = realm_of::<M>(&mut self.realms, id);
        if !realm.has_patience || priority {
            return self.put(id, key, msg, priority);
        }
        let put = self.put_past_bound(id, key, msg);
        if is_full::<M>(self, id, key) {
            self.held_for = Some((id, key, is_full::<M>));
        }
        put
    }

    /// The same for what was accepted before: however much waits in the mailbox.
    pub(crate) fn put_past_bound<M: Send + 'static>(
        &mut self,
        id: u16,
        key: Key,
        msg: M,
    ) -> Result<(), SendError<M>> {
        let realm = realm_of::<M>(&mut self.realms, id);
        let bound = std::mem::replace(&mut realm.mailbox_shared, usize::MAX);
        let put = self.put(id, key, msg, false);
        realm_of::<M>(&mut self.realms, id).mailbox_shared = bound;
        put
    }

    /// Whether mail from elsewhere waits for room in a mailbox.
    pub(crate) fn is_mail_held(&mut self) -> bool {
        let held_for = self.held_for.take();
        self.held_for = held_for.filter(|(id, key, is_full)| is_full(self, *id, *key));
        self.held_for.is_some()
    }

    /// Puts something into the priority lane for which there is always room: its number is bounded
    /// where it is made. Gives it back if the actor is gone.
    pub(crate) fn put_urgent<M: Send + 'static>(
        &mut self,
        id: u16,
        key: Key,
        item: Item<M>,
        prepare: impl FnOnce(&mut Slot<M>),
    ) -> Result<(), Item<M>> {
        let realm = realm_of::<M>(&mut self.realms, id);
        let Some(slot) = realm.slots.get_mut(key) else {
            return Err(item);
        };
        prepare(slot);
        self.waiting += 1;
        self.non_empty += u64::from(slot.waiting() == 0);
        slot.urgent.push(&mut realm.arena, item);
        if !slot.flags.queued {
            slot.flags.queued = true;
            self.run.push_back((id, key));
        }
        Ok(())
    }

    pub(crate) fn send_name<M: Send + 'static>(
        &mut self,
        shard: ShardId,
        name: &Name,
        msg: M,
        activate: bool,
    ) -> Result<(), SendError<M>> {
        if shard != self.id {
            return self.send_name_away(shard, name, msg, (activate, false));
        }
        match self.locate::<M>(name, activate) {
            Ok((id, key)) => self.put(id, key, msg, false),
            Err(NotThere::Absent) => Err(SendError::Gone(msg)),
            Err(NotThere::Quarantined | NotThere::NoRoom) => Err(SendError::Full(msg)),
            Err(NotThere::Moved(shard)) => self.send_name_away(shard, name, msg, (activate, true)),
            Err(NotThere::Coming) => {
                let id = self.realm_id::<M>();
                self.park(id, name, msg, (activate, false))
            }
        }
    }

    /// Sends a message to a name on another shard; `is_led` says that its entity has moved there.
    fn send_name_away<M: Send + 'static>(
        &mut self,
        shard: ShardId,
        name: &Name,
        msg: M,
        (activate, is_led): (bool, bool),
    ) -> Result<(), SendError<M>> {
        let envelope = Envelope {
            to: Target::Name {
                name: Name::clone(name),
                activate,
                is_led,
            },
            priority: false,
            msg,
        };
        self.send_away(shard, envelope)
    }

    /// The actor of a name; an entity that is not loaded gets a mailbox at once and is activated
    /// when it comes to run.
    pub(crate) fn locate<M: Send + 'static>(
        &mut self,
        name: &Name,
        activate: bool,
    ) -> Result<(u16, Key), NotThere> {
        let now = self.now;
        let (id, realm) = self.realm::<M>();
        if let Some(key) = realm.find(name) {
            return Ok((id, key));
        }
        match realm.locator.as_ref().map(|locator| locator(name)) {
            Some(Whereabouts::On(shard)) => return Err(NotThere::Moved(shard)),
            Some(Whereabouts::Coming) => return Err(NotThere::Coming),
            Some(Whereabouts::Here) | None => {}
        }
        if !activate || !realm.has_class {
            return Err(NotThere::Absent);
        }
        if realm.is_quarantined(name, now) {
            return Err(NotThere::Quarantined);
        }
        self.add::<M>(None, Some(name)).ok_or(NotThere::NoRoom)
    }

    // ---- To other shards -----------------------------------------------------------------------

    fn send_away<M: Send + 'static>(
        &mut self,
        shard: ShardId,
        envelope: Envelope<M>,
    ) -> Result<(), SendError<M>> {
        let (shards, to) = (self.calls.len(), usize::from(shard.index()));
        if to >= shards {
            return Err(SendError::Gone(envelope.msg));
        }
        let (id, realm) = self.realm::<M>();
        if realm.outgoing.is_empty() {
            realm.outgoing.resize_with(shards, Vec::new);
        }
        let waiting = &mut realm.outgoing[to];
        if waiting.len() >= OUTGOING_MAX {
            return Err(SendError::Full(envelope.msg));
        }
        waiting.push(envelope);
        let len = waiting.len();
        if len == 1 {
            self.dirty.push((id, shard.index()));
        } else if len.is_multiple_of(BATCH_MAX) {
            flush::<M>(self, id, to);
        }
        Ok(())
    }

    /// Has something done on another shard. Not refused: every use is bounded where it is made.
    pub(crate) fn send_call(&mut self, shard: ShardId, call: Call) {
        if let Some(calls) = self.calls.get_mut(usize::from(shard.index())) {
            calls.push(call);
        }
    }

    /// Hands what was collected for other shards over; true if some found no room and waits.
    pub(crate) fn flush_outgoing(&mut self) -> bool {
        self.held_back = 0;
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.retain(|(id, shard)| {
            let Some(ops) = self.ops(*id) else {
                return false;
            };
            let left = (ops.flush)(self, *id, usize::from(*shard));
            self.held_back += left as u64;
            left > 0
        });
        // What a flush sends itself comes behind what waits already.
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
        for shard in 0..self.calls.len() {
            if self.calls[shard].is_empty() {
                continue;
            }
            let calls = std::mem::take(&mut self.calls[shard]);
            let to = ShardId::new(shard as u16);
            if let Err(Parcel::Calls(calls)) = self.links.push(to, Parcel::Calls(calls)) {
                self.held_back += calls.len() as u64;
                self.calls[shard] = calls;
            }
        }
        self.held_back > 0
    }

    // ---- From other shards ---------------------------------------------------------------------

    /// Does what another shard or thread wants done here. If it panics, what comes behind it is
    /// done all the same: entities that come would wait for it for ever.
    pub(crate) fn perform(&mut self, call: Call) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| call(&mut *self))) {
            self.stats.count(Counter::CallPanics);
            self.drop_quietly(panic);
        }
    }

    pub(crate) fn deliver_batch<M: Send + 'static>(&mut self, batch: Vec<Envelope<M>>) {
        self.stats
            .add(Counter::ActorRemoteReceived, batch.len() as u64);
        let id = self.realm_id::<M>();
        for Envelope { to, priority, msg } in batch {
            match to {
                Target::Actor(key) => match self.put_patiently(id, key, msg, priority) {
                    Ok(()) => {}
                    Err(SendError::Full(msg)) => {
                        let realm = realm_of::<M>(&mut self.realms, id);
                        let name = realm.slots.get(key).and_then(|slot| slot.name.clone());
                        self.refuse(id, name, msg, Refused::Full);
                    }
                    Err(SendError::Gone(msg)) => self.discard(msg),
                },
                Target::Name {
                    name,
                    activate,
                    is_led,
                } => match self.locate::<M>(&name, activate) {
                    Ok((id, key)) => {
                        if let Err(error) = self.put(id, key, msg, priority) {
                            self.refuse(id, Some(name), error.into_inner(), Refused::Full);
                        }
                    }
                    Err(NotThere::Moved(shard)) => {
                        if let Err(error) = self.send_name_away(shard, &name, msg, (activate, true))
                        {
                            self.refuse(id, Some(name), error.into_inner(), Refused::Full);
                        }
                    }
                    Err(NotThere::Coming) => {
                        let parked = self.park(id, &name, msg, (activate, is_led));
                        if let Err(error) = parked {
                            self.refuse(id, Some(name), error.into_inner(), Refused::Full);
                        }
                    }
                    Err(NotThere::Absent) => self.discard(msg),
                    Err(NotThere::NoRoom) => self.refuse(id, Some(name), msg, Refused::Full),
                    Err(NotThere::Quarantined) => {
                        self.refuse(id, Some(name), msg, Refused::Quarantined);
                    }
                },
            }
        }
    }

    /// Hands a message that cannot be delivered to its entity's class, so that it may tell the
    /// sender. Without a class it is dropped.
    pub(crate) fn refuse<M: Send + 'static>(
        &mut self,
        id: u16,
        name: Option<Name>,
        msg: M,
        why: Refused,
    ) {
        let realm = realm_of::<M>(&mut self.realms, id);
        let (Some(name), Some(mut class)) = (name, realm.class.take()) else {
            return self.discard(msg);
        };
        self.stats.count(Counter::ActorRefused);
        let refused = catch_unwind(AssertUnwindSafe(|| {
            class.refused(&name, msg, why, &mut *self);
        }));
        if refused.is_err() {
            self.stats.count(Counter::ActorPanics);
        }
        realm_of::<M>(&mut self.realms, id).class = Some(class);
    }

    /// Drops a value that nobody can be told about. A panic of its destructor stays here.
    pub(crate) fn discard<T>(&mut self, value: T) {
        self.stats.count(Counter::ActorDropped);
        self.drop_quietly(value);
    }

    pub(crate) fn drop_quietly<T>(&mut self, value: T) {
        if catch_unwind(AssertUnwindSafe(move || drop(value))).is_err() {
            self.stats.count(Counter::ActorPanics);
        }
    }
}

fn is_full<M: Send + 'static>(core: &mut Core, id: u16, key: Key) -> bool {
    let realm = realm_of::<M>(&mut core.realms, id);
    let max = realm.mailbox_max;
    let slot = realm.slots.get_mut(key);
    slot.is_some_and(|slot| slot.normal.len() >= max)
}

/// Hands the messages of one realm for one shard over; returns how many found no room.
pub(crate) fn flush<M: Send + 'static>(core: &mut Core, id: u16, to: usize) -> usize {
    let realm = realm_of::<M>(&mut core.realms, id);
    let Some(waiting) = realm
        .outgoing
        .get_mut(to)
        .filter(|waiting| !waiting.is_empty())
    else {
        return 0;
    };
    let (shard, len) = (ShardId::new(to as u16), waiting.len());
    if !core
        .links
        .inbox(shard)
        .is_some_and(|inbox| inbox.has_room(len))
    {
        core.stats.count(Counter::ActorInboxFull);
        return len;
    }
    // A busy way keeps its capacity; one that is seldom used owns nothing in between.
    let next = if len >= 16 {
        Vec::with_capacity(len.min(BATCH_MAX))
    } else {
        Vec::new()
    };
    let batch = std::mem::replace(waiting, next);
    if let Err(parcel) = core
        .links
        .push(shard, Parcel::Batch(Box::new(BatchOf(batch))))
    {
        core.stats.count(Counter::ActorInboxFull);
        if let Parcel::Batch(batch) = parcel
            && let Ok(batch) = Box::<dyn Any>::downcast::<BatchOf<M>>(batch.into_any())
        {
            realm_of::<M>(&mut core.realms, id).outgoing[to] = batch.0;
        }
        return len;
    }
    core.stats.add(Counter::ActorRemoteSent, len as u64);
    core.stats.count(Counter::ActorRemoteBatches);
    0
}
