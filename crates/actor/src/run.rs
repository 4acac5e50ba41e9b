//! Running actors, and ending them.
//!
//! Owns what happens between taking an actor from the run queue and putting it back: activation,
//! the budget, panics, and the order of events at an actor's end. Deliberately not here: which
//! actor is next.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stdx::slab::Key;
use telemetry::Counter;

use crate::context::Context;
use crate::core::{Core, realm_of, takes};
use crate::limits::{ACTOR_BUDGET, ACTOR_SLICE, CLOCK_INTERVAL};
use crate::mailbox::Item;
use crate::realm::{AnyActor, Described, Extra, Ops, Realm};
use crate::send::flush;
use crate::traits::Refused;
use crate::types::{Alarm, Name, Reason, Signal};

impl<M: Send + 'static> Realm<M> {
    pub(crate) const OPS: Ops = Ops {
        takes: takes::<M>,
        run: run::<M>,
        fire: fire::<M>,
        resume: resume::<M>,
        signal: signal::<M>,
        terminate: terminate::<M>,
        end_soon: end_soon::<M>,
        extra: extra::<M>,
        describe: describe::<M>,
        flush: flush::<M>,
        keys: keys::<M>,
        entities: entities::<M>,
        tidy: tidy::<M>,
    };
}

/// Runs one actor until its mailbox is empty or its budget used up; returns what it cost.
fn run<M: Send + 'static>(core: &mut Core, id: u16, key: Key) -> u32 {
    let realm = realm_of::<M>(&mut core.realms, id);
    let Some(slot) = realm.slots.get_mut(key) else {
        return 0;
    };
    slot.flags.queued = false;
    let is_entity = slot.flags.entity && !slot.flags.started;
    let is_new = !slot.flags.started && !slot.flags.ending;
    let mut actor = match slot.actor.take() {
        Some(actor) => actor,
        None if slot.flags.ending && is_entity => {
            let reason = ending(core, id, key);
            end::<M>(core, id, key, None, reason);
            return 1;
        }
        None if is_entity => match activate::<M>(core, id, key) {
            Ok(actor) => actor,
            Err(reason) => {
                end::<M>(core, id, key, None, reason);
                return 1;
            }
        },
        None => return 0,
    };
    if is_new && let Some(slot) = realm_of::<M>(&mut core.realms, id).slots.get_mut(key) {
        slot.flags.started = true;
    }
    core.stats.count(Counter::ActorRuns);
    let began = core.now;
    let mut handled = 0;
    let mut cx = core.context::<M>(id, key);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        work(&mut *actor, &mut cx, is_new, &mut handled);
    }));
    let (mut cost, stop) = (cx.cost.max(1), cx.stop.take());
    core.tick();
    let micros = core.now.saturating_since(began).as_micros();
    cost = cost.max(u32::try_from(micros).unwrap_or(u32::MAX));
    core.stats.add(Counter::ActorMessages, u64::from(handled));
    let reason = match (outcome, stop) {
        (Err(panic), _) => {
            core.stats.count(Counter::ActorPanics);
            let reason = Reason::of_panic(&*panic);
            core.drop_quietly(panic);
            Some(reason)
        }
        (Ok(()), stop) => stop,
    };
    match reason {
        Some(reason) => end(core, id, key, Some(actor), reason),
        None => put_back(core, id, key, actor, handled, cost),
    }
    cost
}

/// The work of one run, whose panics the caller catches.
fn work<M: Send + 'static>(
    actor: &mut dyn AnyActor<M>,
    cx: &mut Context<'_, M>,
    is_new: bool,
    handled: &mut u32,
) {
    let (id, key) = (cx.id.realm, cx.id.key);
    let began = cx.core.now;
    if is_new {
        actor.started(cx);
        if cx.stop.is_some() {
            return;
        }
    }
    while cx.cost < ACTOR_BUDGET {
        let Some(item) = next::<M>(cx.core, id, key) else {
            return;
        };
        *handled += 1;
        cx.cost += 1;
        match item {
            Item::Msg(msg) | Item::Own(msg) => actor.handle(msg, cx),
            Item::Signal(signal) => hear(actor, *signal, cx),
            Item::Resume(value) => actor.resume(value, cx),
        }
        if cx.stop.is_some() {
            return;
        }
        // Often at first, in case these messages take long; a run of one message pays nothing.
        let is_early = *handled > 1 && handled.is_power_of_two();
        if is_early || handled.is_multiple_of(CLOCK_INTERVAL) {
            cx.core.tick();
            if cx.core.now.saturating_since(began) >= ACTOR_SLICE {
                return;
            }
        }
    }
}

fn next<M: Send + 'static>(core: &mut Core, id: u16, key: Key) -> Option<Item<M>> {
    let realm = realm_of::<M>(&mut core.realms, id);
    let slot = realm.slots.get_mut(key)?;
    if slot.flags.ending {
        return None;
    }
    let item = match slot.urgent.pop(&mut realm.arena) {
        Some(item) => {
            if matches!(item, Item::Msg(_)) {
                slot.priority_count = slot.priority_count.saturating_sub(1);
            }
            item
        }
        None if slot.flags.held => return None,
        None => slot.normal.pop(&mut realm.arena)?,
    };
    core.waiting -= 1;
    core.non_empty -= u64::from(slot.waiting() == 0);
    Some(item)
}

/// What a signal does to its actor.
fn hear<M: Send + 'static>(actor: &mut dyn AnyActor<M>, signal: Signal, cx: &mut Context<'_, M>) {
    let (id, key) = (cx.id.realm, cx.id.key);
    let realm = realm_of::<M>(&mut cx.core.realms, id);
    let Some(slot) = realm.slots.get_mut(key) else {
        return;
    };
    let Some(extra) = &mut slot.extra else { return };
    match &signal {
        Signal::Down { monitor, .. } => {
            let before = extra.watching.len();
            extra.watching.retain(|(id, _)| id != monitor);
            // A monitor that was taken back meanwhile has nothing to say.
            if extra.watching.len() < before {
                actor.signal(signal, cx);
            }
        }
        Signal::Exit { who, reason } => {
            let before = extra.links.len();
            extra.links.retain(|id| id != who);
            if extra.links.len() == before {
                return;
            }
            if slot.flags.traps_exits {
                actor.signal(signal, cx);
            } else if reason.is_crash() {
                cx.stop = Some(reason.clone());
            }
        }
    }
}

/// Puts an actor back that has worked, unless somebody has asked for its end meanwhile.
fn put_back<M: Send + 'static>(
    core: &mut Core,
    id: u16,
    key: Key,
    actor: Box<dyn AnyActor<M>>,
    handled: u32,
    cost: u32,
) {
    let window = core.tops.window();
    let realm = realm_of::<M>(&mut core.realms, id);
    let Some(slot) = realm.slots.get_mut(key) else {
        return;
    };
    if slot.flags.ending {
        let reason = ending(core, id, key);
        return end(core, id, key, Some(actor), reason);
    }
    slot.actor = Some(actor);
    if slot.window != window {
        (slot.window, slot.handled, slot.cost) = (window, 0, 0);
    }
    slot.handled = slot.handled.saturating_add(handled);
    slot.cost = slot.cost.saturating_add(cost);
    let part = slot.part;
    let (handled, cost, spent) = (slot.handled, slot.cost, cost);
    if slot.is_runnable() && !slot.flags.queued {
        slot.flags.queued = true;
        core.run.push_back((id, key));
    }
    realm.note_cost(part, spent);
    let who = core.actor_id(id, key);
    core.tops.note_run(who, handled, cost);
}

/// Makes the actor of an entity that something was sent to.
fn activate<M: Send + 'static>(
    core: &mut Core,
    id: u16,
    key: Key,
) -> Result<Box<dyn AnyActor<M>>, Reason> {
    let shard = core.id;
    let realm = realm_of::<M>(&mut core.realms, id);
    let name = realm.slots.get(key).and_then(|slot| slot.name.clone());
    let (Some(name), Some(mut class)) = (name, realm.class.take()) else {
        return Err(Reason::NoActor);
    };
    let made = catch_unwind(AssertUnwindSafe(|| class.activate(&name, shard)));
    realm.class = Some(class);
    core.stats.count(Counter::ActorActivated);
    made.map_err(|panic| {
        core.stats.count(Counter::ActorPanics);
        let reason = Reason::of_panic(&*panic);
        core.drop_quietly(panic);
        reason
    })
}

fn ending(core: &mut Core, id: u16, key: Key) -> Reason {
    let who = core.actor_id(id, key);
    core.extra(who)
        .and_then(|extra| extra.ending.take())
        .unwrap_or(Reason::Killed)
}

/// Marks an actor to end when it next runs.
fn end_soon<M: Send + 'static>(core: &mut Core, id: u16, key: Key, reason: Reason) {
    let realm = realm_of::<M>(&mut core.realms, id);
    let Some(slot) = realm.slots.get_mut(key) else {
        return;
    };
    if std::mem::replace(&mut slot.flags.ending, true) {
        return;
    }
    slot.extra.get_or_insert_default().ending = Some(reason);
    if !std::mem::replace(&mut slot.flags.queued, true) {
        core.run.push_back((id, key));
    }
}

/// Ends an actor now, or after its handler if it is running.
fn terminate<M: Send + 'static>(core: &mut Core, id: u16, key: Key, reason: Reason) {
    let realm = realm_of::<M>(&mut core.realms, id);
    let Some(slot) = realm.slots.get_mut(key) else {
        return;
    };
    match slot.actor.take() {
        Some(actor) => end(core, id, key, Some(actor), reason),
        None if slot.flags.entity && !slot.flags.started => {
            end::<M>(core, id, key, None, reason);
        }
        None => end_soon::<M>(core, id, key, reason),
    }
}

/// The end of an actor: its last handler, its destructor, then everything the runtime holds of it.
fn end<M: Send + 'static>(
    core: &mut Core,
    id: u16,
    key: Key,
    actor: Option<Box<dyn AnyActor<M>>>,
    reason: Reason,
) {
    if let Some(mut actor) = actor {
        let mut cx = core.context::<M>(id, key);
        let last = catch_unwind(AssertUnwindSafe(|| actor.stopped(&reason, &mut cx)));
        if let Err(panic) = last {
            core.stats.count(Counter::ActorPanics);
            core.drop_quietly(panic);
        }
        core.drop_quietly(actor);
    }
    let realm = realm_of::<M>(&mut core.realms, id);
    realm.unbind(key);
    let Some(mut slot) = realm.slots.remove(key) else {
        return;
    };
    core.alive -= 1;
    core.stats.count(Counter::ActorStopped);
    core.waiting -= slot.waiting() as u64;
    core.non_empty -= u64::from(slot.waiting() > 0);
    if matches!(reason, Reason::Limit(_)) {
        core.stats.count(Counter::ActorLimit);
    }
    while let Some((timer, item)) = realm_of::<M>(&mut core.realms, id)
        .arena
        .pop_timer(&mut slot.timers)
    {
        core.cancel_timer(timer);
        core.drop_quietly(item);
    }
    let mut left = Vec::new();
    for lane in [&mut slot.urgent, &mut slot.normal] {
        while let Some(item) = lane.pop(&mut realm_of::<M>(&mut core.realms, id).arena) {
            match item {
                Item::Msg(msg) => left.push(msg),
                other => core.drop_quietly(other),
            }
        }
    }
    if let Some(extra) = slot.extra.take() {
        core.leave_groups::<M>(id, key, &extra.groups);
        core.tell_relations(id, key, *extra, &reason);
    }
    let name = slot.name.take();
    let is_quarantined = note_crash::<M>(core, id, key, name.as_ref(), slot.flags.entity, &reason);
    let kept = if slot.flags.entity && reason != Reason::Shutdown {
        name
    } else {
        None
    };
    redeliver(core, id, kept, left, is_quarantined);
}

/// Counts and reports a crash; true if it puts the name into quarantine.
fn note_crash<M: Send + 'static>(
    core: &mut Core,
    id: u16,
    key: Key,
    name: Option<&Name>,
    is_entity: bool,
    reason: &Reason,
) -> bool {
    if !reason.is_crash() {
        return false;
    }
    let (who, takes) = (core.actor_id(id, key), takes::<M>());
    let (name, reason) = (name.cloned(), reason.clone());
    // What was done to it says nothing about what it would do next time.
    let is_from_outside = reason == Reason::Killed;
    core.alarm(&Alarm::Crashed {
        who,
        takes,
        name: name.clone(),
        reason,
    });
    let (Some(name), true) = (name, is_entity && !is_from_outside) else {
        return false;
    };
    let now = core.now;
    if !realm_of::<M>(&mut core.realms, id).crashes.note(&name, now) {
        return false;
    }
    core.stats.count(Counter::ActorQuarantined);
    core.alarm(&Alarm::Quarantined { name, takes });
    true
}

/// Sends what an ended entity left unhandled to its successor.
fn redeliver<M: Send + 'static>(
    core: &mut Core,
    id: u16,
    name: Option<Name>,
    left: Vec<M>,
    is_quarantined: bool,
) {
    let Some(name) = name else {
        for msg in left {
            core.discard(msg);
        }
        return;
    };
    let shard = core.id;
    // It was there before anything that waits because its successor is paused.
    core.past_pause::<M, _>(|core| {
        for msg in left {
            if is_quarantined {
                core.refuse(id, Some(Name::clone(&name)), msg, Refused::Quarantined);
            } else if let Err(error) = core.send_name(shard, &name, msg, true) {
                core.refuse(
                    id,
                    Some(Name::clone(&name)),
                    error.into_inner(),
                    Refused::Full,
                );
            }
        }
    });
}

// ---- What the core does by number -----------------------------------------------------------

/// A timer's message becomes due.
fn fire<M: Send + 'static>(core: &mut Core, id: u16, key: Key, node: u32) {
    let realm = realm_of::<M>(&mut core.realms, id);
    let Some(slot) = realm.slots.get_mut(key) else {
        return;
    };
    let Some(item) = realm.arena.take_timer(&mut slot.timers, node) else {
        return;
    };
    slot.timer_count -= 1;
    core.stats.count(Counter::ActorTimersFired);
    if let Err(item) = core.put_urgent(id, key, item, |_| {}) {
        core.drop_quietly(item);
    }
}

fn resume<M: Send + 'static>(core: &mut Core, id: u16, key: Key, value: Box<dyn Any + Send>) {
    if let Err(item) = core.put_urgent::<M>(id, key, Item::Resume(value), |_| {}) {
        core.drop_quietly(item);
    }
}

fn signal<M: Send + 'static>(core: &mut Core, id: u16, key: Key, signal: Signal) {
    // To an actor that is gone there is nothing to say.
    let _ = core.put_urgent::<M>(id, key, Item::Signal(Box::new(signal)), |_| {});
}

fn extra<M: Send + 'static>(core: &mut Core, id: u16, key: Key) -> Option<&mut Extra> {
    let slot = realm_of::<M>(&mut core.realms, id).slots.get_mut(key)?;
    Some(slot.extra.get_or_insert_default())
}

fn describe<M: Send + 'static>(core: &mut Core, id: u16, key: Key) -> Option<Described> {
    let slot = realm_of::<M>(&mut core.realms, id).slots.get(key)?;
    Some((slot.name.clone(), slot.waiting()))
}

fn keys<M: Send + 'static>(core: &mut Core, id: u16) -> Vec<Key> {
    realm_of::<M>(&mut core.realms, id).slots.keys()
}

fn entities<M: Send + 'static>(core: &mut Core, id: u16) -> Vec<Key> {
    let slots = &realm_of::<M>(&mut core.realms, id).slots;
    let entities = slots.iter().filter(|(_, slot)| slot.flags.entity);
    entities.map(|(key, _)| key).collect()
}

fn tidy<M: Send + 'static>(core: &mut Core, id: u16) {
    realm_of::<M>(&mut core.realms, id).tidy();
}
