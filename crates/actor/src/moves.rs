//! Entities that move to another shard. Owns how they leave together, how what was sent to where
//! they were is led on, and what waits where they come to, so that every sender's messages stay in
//! their order. Deliberately not here: which entities belong together, and who decides where they
//! are ([`Whereabouts`]).
//!
//! | step | on the shard that they leave | on the shard that they come to |
//! |---|---|---|
//! | they leave | they end; what comes for them from now on is led on | what comes for them waits: what was led on apart from what was sent here |
//! | every shard has handed over what it sent there before | all of that has been led on | |
//! | the shard that they left has handed that over | | all of it is here |
//! | they arrive | | those that were loaded are loaded again; what was led on is delivered first, then what was sent here |

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::core::{Core, realm_of};
use crate::link::Call;
use crate::realm::Parts;
use crate::types::{ActorId, Name, Reason, SendError, ShardId};

/// Where an entity is at home, from one shard's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// Here.
    Here,
    /// Here soon: what comes for it waits.
    Coming,
    /// On this other shard.
    On(ShardId),
}

/// Whether an entity may end now to be made again on another shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Nothing is under way that would be lost with it.
    Now,
    /// Something is, for a moment.
    Soon,
    /// It would lose something that only it knows.
    Never,
}

/// How many entities keep others from moving with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InTheWay {
    /// For a moment.
    pub soon: usize,
    /// For good, as far as is known.
    pub never: usize,
}

/// Says where an entity is that is not loaded here.
pub(crate) type Locator = Rc<dyn Fn(&Name) -> Whereabouts>;

/// What waits for entities that come.
pub(crate) struct Coming<M> {
    /// Was sent to the shard where they were.
    led: VecDeque<Parked<M>>,
    /// Was sent here.
    direct: VecDeque<Parked<M>>,
}

struct Parked<M> {
    name: Name,
    msg: M,
    activate: bool,
}

impl<M> Default for Coming<M> {
    fn default() -> Self {
        Coming {
            led: VecDeque::new(),
            direct: VecDeque::new(),
        }
    }
}

impl Core {
    /// Says where entities that take `M` are at home. Asked only for those that are not loaded.
    pub(crate) fn set_locator<M: Send + 'static>(&mut self, locator: Locator) {
        self.realm::<M>().1.locator = Some(locator);
    }

    /// Says to which part of the load entities that take `M` belong.
    pub(crate) fn set_parts<M: Send + 'static>(
        &mut self,
        count: u16,
        of: Box<dyn Fn(&Name) -> u16>,
    ) {
        let costs = vec![0; usize::from(count)];
        self.realm::<M>().1.parts = Some(Box::new(Parts { of, costs }));
    }

    /// What entities that take `M` have cost here since the shard began, by part. A message costs
    /// 1, or as many microseconds as it took.
    pub fn costs<M: Send + 'static>(&mut self) -> Vec<u64> {
        let parts = self.realm::<M>().1.parts.as_ref();
        parts.map_or_else(Vec::new, |parts| parts.costs.clone())
    }

    /// Moves the entities of a part ([`crate::Shard::set_parts`]), which are loaded here, to
    /// another shard, and everything that is on its way to them. `leave` makes the locators of all
    /// shards say that they are there, and coming; `arrive`, on that shard, that they are there.
    /// All entities of which the locators say so move, loaded or not; one move to a shard at a
    /// time. Returns how many were loaded.
    ///
    /// # Errors
    /// How many of them may not move: nothing was done.
    pub fn move_entities<M: Send + 'static>(
        &mut self,
        to: ShardId,
        part: u16,
        leave: impl FnOnce(),
        arrive: impl FnOnce(&mut Core) + Send + 'static,
    ) -> Result<usize, InTheWay> {
        let names = self.leave_entities::<M>(part, leave)?;
        let count = names.len();
        let from = self.id;
        let open: Call = Box::new(move |core| {
            arrive(core);
            core.open_entities::<M>(&names);
        });
        // Taken by the last shard that has handed over.
        let open = Arc::new(Mutex::new(Some(open)));
        let left = Arc::new(AtomicU16::new(self.links.shards() - 1));
        for shard in (0..self.links.shards()).map(ShardId::new) {
            if shard == from {
                continue;
            }
            let (open, left) = (Arc::clone(&open), Arc::clone(&left));
            let has_all: Call = Box::new(move |core| {
                if left.fetch_sub(1, Ordering::AcqRel) > 1 {
                    return;
                }
                if let Some(open) = open.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    call_behind::<M>(core, to, open);
                }
            });
            let hand_over = Box::new(move |core: &mut Core| call_behind::<M>(core, from, has_all));
            self.send_call(shard, hand_over);
        }
        Ok(count)
    }

    /// How many entities of a part that are loaded here may not move as they are, however long one
    /// waits ([`Leave::Never`]).
    pub fn fixed_entities<M: Send + 'static>(&mut self, part: u16) -> usize {
        let (_, realm) = self.realm::<M>();
        let chosen = realm.slots.iter().filter(|(_, slot)| slot.part == part);
        let actors = chosen.filter_map(|(_, slot)| slot.actor.as_ref());
        actors
            .filter(|actor| actor.may_move() == Leave::Never)
            .count()
    }

    /// Tells the entities of a part that are loaded here something, past what waits for them. Who
    /// has no room for it is not told.
    pub fn tell_entities<M: Send + 'static>(&mut self, part: u16, msg: impl Fn() -> M) {
        let (id, realm) = self.realm::<M>();
        let all = realm.slots.iter().filter(|(_, slot)| slot.part == part);
        let all: Vec<_> = all.map(|(key, _)| key).collect();
        for key in all {
            let _ = self.put(id, key, msg(), true);
        }
    }

    /// Ends the entities of a part if all of them may move, with no crash counted: `leave` is
    /// called before the first of them ends, so that what is left in their mailboxes is led on, and
    /// what waits because they are paused.
    /// Returns their names.
    fn leave_entities<M: Send + 'static>(
        &mut self,
        part: u16,
        leave: impl FnOnce(),
    ) -> Result<Vec<Name>, InTheWay> {
        let shard = self.id;
        let (id, realm) = self.realm::<M>();
        let chosen = realm.slots.iter().filter(|(_, slot)| slot.part == part);
        let (mut all, mut names) = (Vec::new(), Vec::new());
        let mut in_the_way = InTheWay::default();
        for (key, slot) in chosen {
            // What has come for this incarnation, as from a connection that has ended since, the
            // next does not understand; and an answer that is due would be lost.
            let has_mail = slot.waiting() > 0;
            let is_owed = has_mail || slot.reserved > 0;
            let may_move = match &slot.actor {
                Some(actor) => actor.may_move(),
                None if slot.flags.started => Leave::Soon,
                None => Leave::Now,
            };
            match may_move {
                Leave::Now if !is_owed => {}
                // Its mail may be the end of what keeps it.
                Leave::Never if !has_mail => in_the_way.never += 1,
                Leave::Now | Leave::Soon | Leave::Never => in_the_way.soon += 1,
            }
            names.extend(slot.name.clone());
            all.push(ActorId {
                shard,
                realm: id,
                key,
            });
        }
        if in_the_way != InTheWay::default() {
            return Err(in_the_way);
        }
        leave();
        for who in &all {
            self.terminate(*who, Reason::Normal);
        }
        self.end_pause::<M>(part);
        Ok(names)
    }

    /// Whether all that was sent from here to actors of another shard that take `M` is in the inbox
    /// of that shard.
    fn has_handed_over<M: Send + 'static>(&mut self, to: ShardId) -> bool {
        let outgoing = self.realm::<M>().1.outgoing.get(usize::from(to.index()));
        outgoing.is_none_or(Vec::is_empty)
    }

    /// Loads entities that came, also those for whom nothing waits: what is said only to those that
    /// are loaded must find them as before. Then delivers what waited.
    fn open_entities<M: Send + 'static>(&mut self, names: &[Name]) {
        for name in names {
            // One that finds no room is loaded by the next who says something to it.
            let _ = self.locate::<M>(name, true);
        }
        let Some(coming) = self.realm::<M>().1.coming.take() else {
            return;
        };
        for Parked {
            name,
            msg,
            activate,
        } in coming.led.into_iter().chain(coming.direct)
        {
            self.deliver_accepted(&name, msg, activate);
        }
    }

    /// Keeps a message for an entity that comes; [`crate::limits::Bounds::coming_max`] of them.
    pub(crate) fn park<M: Send + 'static>(
        &mut self,
        id: u16,
        name: &Name,
        msg: M,
        (activate, is_led): (bool, bool),
    ) -> Result<(), SendError<M>> {
        let coming_max = self.bounds.coming_max;
        let coming = realm_of::<M>(&mut self.realms, id)
            .coming
            .get_or_insert_default();
        if coming.led.len() + coming.direct.len() >= coming_max {
            return Err(SendError::Full(msg));
        }
        let lane = match is_led {
            true => &mut coming.led,
            false => &mut coming.direct,
        };
        lane.push_back(Parked {
            name: Name::clone(name),
            msg,
            activate,
        });
        Ok(())
    }
}

/// Has something done on another shard, behind all that was sent there from here to actors that
/// take `M`.
fn call_behind<M: Send + 'static>(core: &mut Core, to: ShardId, call: Call) {
    if core.has_handed_over::<M>(to) {
        return core.send_call(to, call);
    }
    // The other shard has no room: it is tried again in the next turn.
    let here = core.id;
    core.send_call(here, Box::new(move |core| call_behind::<M>(core, to, call)));
}
