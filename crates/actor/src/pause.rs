//! Entities of a part that begin nothing new for a while, so that what they have under way comes to
//! its end: busy ones could never move otherwise ([`crate::Core::move_entities`]). Owns what waits
//! meanwhile, in the order in which it came, and that all of it is handled afterwards, here or
//! where its entities have moved. What is new, whoever pauses them says.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::mem;

use stdx::slab::Key;

use crate::core::{Core, realm_of};
use crate::traits::Refused;
use crate::types::{Name, SendError};

/// What becomes of a message for an entity that is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtPause {
    /// It begins something: it waits.
    Waits,
    /// Something that is under way may need it: it is handled.
    Passes,
    /// It is handled behind what waits for the same entity: that waits no longer.
    Recalls,
}

/// The parts that are paused.
pub(crate) type Pauses<M> = BTreeMap<u16, Pause<M>>;

/// Of one part: what waits, and what does not.
pub(crate) struct Pause<M> {
    of: Box<dyn Fn(&M) -> AtPause>,
    waiting: VecDeque<(Name, M)>,
}

impl Core {
    /// From now on entities of a part ([`crate::Shard::set_parts`]) that take `M` begin nothing
    /// new, until they have moved, the pause is ended, or one more waits for them than
    /// [`crate::limits::Bounds::paused_max`]. False if they are paused already.
    pub fn pause<M: Send + 'static>(
        &mut self,
        part: u16,
        of: impl Fn(&M) -> AtPause + 'static,
    ) -> bool {
        let (_, realm) = self.realm::<M>();
        let Entry::Vacant(pause) = realm.pauses.entry(part) else {
            return false;
        };
        pause.insert(Pause {
            of: Box::new(of),
            waiting: VecDeque::new(),
        });
        true
    }

    /// Whether a part is paused.
    pub fn is_paused<M: Send + 'static>(&mut self, part: u16) -> bool {
        self.realm::<M>().1.pauses.contains_key(&part)
    }

    /// A part goes on, if it is paused: what waits is handled, or led on to where its entities have
    /// moved.
    pub fn end_pause<M: Send + 'static>(&mut self, part: u16) {
        let Some(pause) = self.realm::<M>().1.pauses.remove(&part) else {
            return;
        };
        for (name, msg) in pause.waiting {
            self.deliver_accepted(&name, msg, true);
        }
    }

    /// Does something as if nothing were paused.
    pub(crate) fn past_pause<M: Send + 'static, R>(
        &mut self,
        act: impl FnOnce(&mut Core) -> R,
    ) -> R {
        let (id, realm) = self.realm::<M>();
        let pauses = mem::take(&mut realm.pauses);
        let result = act(self);
        realm_of::<M>(&mut self.realms, id).pauses = pauses;
        result
    }

    /// A message has come for an entity while some are paused. Gives it back unless it waits.
    pub(crate) fn keep_waiting<M: Send + 'static>(
        &mut self,
        id: u16,
        key: Key,
        msg: M,
    ) -> Option<M> {
        let paused_max = self.bounds.paused_max;
        let realm = realm_of::<M>(&mut self.realms, id);
        let Some(slot) = realm.slots.get(key) else {
            return Some(msg);
        };
        let part = slot.part;
        let (Some(name), Some(pause)) = (&slot.name, realm.pauses.get_mut(&part)) else {
            return Some(msg);
        };
        let name = Name::clone(name);
        match (pause.of)(&msg) {
            AtPause::Passes => {}
            AtPause::Waits if pause.waiting.len() < paused_max => {
                pause.waiting.push_back((name, msg));
                return None;
            }
            // To refuse it would be worse than not to move.
            AtPause::Waits => self.end_pause::<M>(part),
            AtPause::Recalls => self.recall::<M>(part, &name),
        }
        Some(msg)
    }

    /// What waits for an entity of a part waits no longer.
    fn recall<M: Send + 'static>(&mut self, part: u16, name: &Name) {
        let Some(pause) = self.realm::<M>().1.pauses.get_mut(&part) else {
            return;
        };
        let all = mem::take(&mut pause.waiting).into_iter();
        let (own, others): (Vec<_>, _) = all.partition(|(whose, _)| whose == name);
        pause.waiting = others.into();
        self.past_pause::<M, _>(|core| {
            for (_, msg) in own {
                core.deliver_accepted(name, msg, true);
            }
        });
    }

    /// Delivers what was accepted before, also if it is more than a mailbox takes: whoever sent it
    /// need not know that nobody was there to handle it meanwhile.
    pub(crate) fn deliver_accepted<M: Send + 'static>(
        &mut self,
        name: &Name,
        msg: M,
        activate: bool,
    ) {
        let shard = self.id;
        let sent = match self.locate::<M>(name, activate) {
            Ok((id, key)) => self.put_past_bound(id, key, msg),
            Err(_) => self.send_name(shard, name, msg, activate),
        };
        match sent {
            Ok(()) => {}
            Err(SendError::Full(msg)) => {
                let id = self.realm_id::<M>();
                self.refuse(id, Some(Name::clone(name)), msg, Refused::Full);
            }
            Err(SendError::Gone(msg)) => self.discard(msg),
        }
    }
}
