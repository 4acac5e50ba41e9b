//! All entities of a shard at once: one drawn at random, and the end of every one or of some. For
//! whoever disturbs a running system on purpose, for drivers that start a shard over, and for
//! entities that go to another node.

use crate::core::{Core, Mail};
use crate::types::{ActorId, Name, Reason};

impl Core {
    /// An entity of this shard, drawn at random, if any is loaded.
    pub fn any_entity(&mut self) -> Option<(ActorId, Name)> {
        let mut all = self.entities();
        if all.is_empty() {
            return None;
        }
        let at = self.rng().usize(..all.len());
        let who = all.swap_remove(at);
        let name = self.describe(who)?.0?;
        Some((who, name))
    }

    /// Ends every entity of this shard at once. What waits in their mailboxes goes to their
    /// successors, which it brings to life. Returns how many there were.
    pub fn end_entities(&mut self) -> usize {
        let all = self.entities();
        for who in &all {
            self.terminate(*who, Reason::Killed);
        }
        all.len()
    }

    /// Ends the entities of this shard whose names are chosen, at once and in order: no crash is
    /// counted. What waits in their mailboxes goes to their successors. Returns how many there
    /// were.
    pub fn end_entities_if(&mut self, is_chosen: impl Fn(&Name) -> bool) -> usize {
        let mut ended = 0;
        for who in self.entities() {
            let name = self.describe(who).and_then(|(name, _, _)| name);
            if name.is_some_and(|name| is_chosen(&name)) {
                self.terminate(who, Reason::Normal);
                ended += 1;
            }
        }
        ended
    }

    fn entities(&mut self) -> Vec<ActorId> {
        let mut all = Vec::new();
        for realm in 0..self.realms.len() as u16 {
            let Some(ops) = self.ops(realm) else { continue };
            for key in (ops.entities)(self, realm) {
                all.push(self.actor_id(realm, key));
            }
        }
        all
    }
}
