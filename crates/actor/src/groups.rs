//! Groups of actors, and publications to them.
//!
//! Owns membership (kept by each shard for its own actors) and publications under way: a large one
//! is a job that is resumed every turn, so that it never holds up a shard. Deliberately not here:
//! any promise of delivery. A member with a full mailbox misses a publication, and that is counted.

use std::rc::Rc;

use stdx::slab::Key;

use crate::core::{Core, realm_of};
use crate::limits::{OUTGOING_MAX, PUBLICATIONS_MAX, PUBLISH_SLICE};
use crate::realm::Realm;
use crate::types::{ActorId, Name, ShardId};

/// A publication under way.
pub(crate) trait Publication {
    /// Goes on for a slice; true when done.
    fn step(&mut self, core: &mut Core) -> bool;
}

struct Publishing<M> {
    realm: u16,
    members: Rc<Vec<Key>>,
    next: usize,
    msg: M,
}

impl<M: Clone + Send + 'static> Publication for Publishing<M> {
    fn step(&mut self, core: &mut Core) -> bool {
        let end = self.members.len().min(self.next + PUBLISH_SLICE);
        for key in &self.members[self.next..end] {
            if let Err(error) = core.put(self.realm, *key, self.msg.clone(), false) {
                core.discard(error.into_inner());
            }
        }
        self.next = end;
        end == self.members.len()
    }
}

impl Core {
    pub(crate) fn join_group<M: Send + 'static>(&mut self, who: ActorId, group: &Name) {
        let Some(extra) = self.extra(who) else { return };
        if extra.groups.contains(group) {
            return;
        }
        extra.groups.push(Name::clone(group));
        let realm = realm_of::<M>(&mut self.realms, who.realm);
        Rc::make_mut(realm.groups.entry(Name::clone(group)).or_default()).push(who.key);
    }

    pub(crate) fn leave_group<M: Send + 'static>(&mut self, who: ActorId, group: &Name) {
        let Some(extra) = self.extra(who) else { return };
        extra.groups.retain(|name| name != group);
        remove_member(realm_of::<M>(&mut self.realms, who.realm), who.key, group);
    }

    pub(crate) fn leave_groups<M: Send + 'static>(&mut self, id: u16, key: Key, groups: &[Name]) {
        for group in groups {
            remove_member(realm_of::<M>(&mut self.realms, id), key, group);
        }
    }

    pub(crate) fn publish_everywhere<M: Clone + Send + 'static>(
        &mut self,
        group: &Name,
        msg: M,
    ) -> Result<(), M> {
        let is_full = self.publications.len() >= PUBLICATIONS_MAX
            || self.calls.iter().any(|calls| calls.len() >= OUTGOING_MAX);
        if is_full {
            return Err(msg);
        }
        for shard in (0..self.links.shards()).map(ShardId::new) {
            if shard != self.id {
                let (group, msg) = (Name::clone(group), msg.clone());
                self.send_call(
                    shard,
                    Box::new(move |core| core.publish_from_afar(&group, msg)),
                );
            }
        }
        self.publish_here(group, msg);
        Ok(())
    }

    /// The publisher cannot be told any more that there is no room.
    fn publish_from_afar<M: Clone + Send + 'static>(&mut self, group: &Name, msg: M) {
        if self.publications.len() >= PUBLICATIONS_MAX {
            self.discard(msg);
        } else {
            self.publish_here(group, msg);
        }
    }

    fn publish_here<M: Clone + Send + 'static>(&mut self, group: &Name, msg: M) {
        let (id, realm) = self.realm::<M>();
        let Some(members) = realm.groups.get(group).map(Rc::clone) else {
            return;
        };
        let mut publication = Publishing {
            realm: id,
            members,
            next: 0,
            msg,
        };
        // One that comes while others are under way goes behind them: groups keep their order.
        if !self.publications.is_empty() || !publication.step(self) {
            self.publications.push_back(Box::new(publication));
        }
    }

    /// Goes on with the oldest publication; true if there is more to do.
    pub(crate) fn step_publications(&mut self) -> bool {
        if let Some(mut publication) = self.publications.pop_front()
            && !publication.step(self)
        {
            self.publications.push_front(publication);
        }
        !self.publications.is_empty()
    }
}

fn remove_member<M>(realm: &mut Realm<M>, key: Key, group: &Name) {
    let Some(members) = realm.groups.get_mut(group) else {
        return;
    };
    Rc::make_mut(members).retain(|member| *member != key);
    if members.is_empty() {
        realm.groups.remove(group);
    }
}
