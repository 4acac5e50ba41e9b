//! All entities of a shard at once: one drawn at random, and the end of every one. For whoever
//! disturbs a running system on purpose and for drivers that start a shard over; nothing here is
//! used while all goes well.

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
