//! The way from a node to itself: a connection that outlived its home may find the next one on the
//! node that has its socket, and goes on there as it would anywhere. Owns what such a packet waits
//! in if a shard has no room.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use stdx::Level;
use store::RangeId;

use super::Door;
use crate::away::{Away, NodeId, Taken};
use crate::join::HERE;

/// See the module.
pub(crate) struct Here {
    others: Arc<dyn Away>,
    door: OnceLock<Weak<Door>>,
    /// Answers that a shard had no room for: as few as answers are. Nothing overtakes them.
    later: Mutex<VecDeque<Vec<u8>>>,
    /// How many. Without any, as nearly always, shards do not wait for each other here; who has
    /// just put one there knows of it.
    waiting: AtomicUsize,
}

impl Here {
    /// Other nodes are reached as before.
    pub(crate) fn new(others: Arc<dyn Away>) -> Here {
        Here {
            others,
            door: OnceLock::new(),
            later: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Where packets of this node for itself arrive, for as long as that is there.
    pub(crate) fn set_door(&self, door: &Arc<Door>) {
        // A node has one.
        let _ = self.door.set(Arc::downgrade(door));
    }

    fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    fn later(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False if there is no room for it now.
    fn deliver(&self, packet: &[u8]) -> bool {
        let door = self.door.get().and_then(Weak::upgrade);
        let Some(door) = door else { return true };
        match door.receive(HERE, packet) {
            Taken::Yes => true,
            Taken::Later => false,
            Taken::Moved(_) => {
                door.take_back(packet, None);
                true
            }
            Taken::Bad(why) => {
                tracing::error!(why, "a packet of this node for itself");
                true
            }
        }
    }

    /// Delivers what there was no room for.
    pub(crate) fn look(&self) {
        if !self.has_waiting() {
            return;
        }
        let mut later = self.later();
        while later.front().is_some_and(|packet| self.deliver(packet)) {
            later.pop_front();
            self.waiting.fetch_sub(1, Ordering::Release);
        }
    }
}

impl fmt::Debug for Here {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Here")
    }
}

impl Away for Here {
    fn send(&self, to: NodeId, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        if to != HERE {
            return self.others.send(to, packet);
        }
        match !self.has_waiting() && self.deliver(&packet) {
            true => Ok(()),
            false => Err(packet),
        }
    }

    fn keep(&self, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        self.others.keep(packet)
    }

    fn offer(&self, to: NodeId, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        match to == HERE {
            true => self.send(to, packet),
            false => self.others.offer(to, packet),
        }
    }

    fn answer(&self, to: NodeId, packet: Vec<u8>) {
        if to != HERE {
            return self.others.answer(to, packet);
        }
        if self.has_waiting() || !self.deliver(&packet) {
            let mut later = self.later();
            later.push_back(packet);
            self.waiting.fetch_add(1, Ordering::Release);
        }
    }

    fn level(&self) -> Level {
        self.others.level()
    }

    fn may_act(&self) -> bool {
        self.others.may_act()
    }

    fn others(&self) -> Vec<(NodeId, String)> {
        self.others.others()
    }

    fn name(&self) -> Option<String> {
        self.others.name()
    }

    fn reaches(&self, node: NodeId) -> bool {
        node == HERE || self.others.reaches(node)
    }

    fn clients(&self, range: RangeId) -> Option<String> {
        self.others.clients(range)
    }
}
