//! What operators do to nodes in order: a drain that is begun and undone, and a stop that ends the
//! process's lease.

use super::node::STREAMS;
use super::stream::To;
use super::world::{Event, World};
use crate::map::Report;

impl World {
    /// A node is to be the home of nothing, or may have homes again.
    pub(super) fn drain(&mut self, at: usize) {
        self.stats.drains += 1;
        if let Some(process) = &self.nodes[at].process {
            let is_draining = !process.is_draining;
            self.set_draining(at, is_draining);
        }
    }

    /// Every node may have homes again.
    pub(super) fn drain_nobody(&mut self) {
        for at in 0..self.nodes.len() {
            self.set_draining(at, false);
        }
    }

    fn set_draining(&mut self, at: usize, is_draining: bool) {
        if let Some(process) = &mut self.nodes[at].process {
            process.is_draining = is_draining;
            let reports = vec![Report::default(); usize::from(STREAMS)];
            process.keeper.drain(is_draining);
            let weight = u32::from(!is_draining);
            process.keeper.report(false, weight, reports);
        }
    }

    /// A process ends its lease, and then itself.
    pub(super) fn leave(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let local = node.local(self.now);
        let is_paused = node.paused_until > self.now;
        let Some(process) = node.process.as_mut().filter(|_| !is_paused) else {
            return;
        };
        self.stats.leaves += 1;
        process.keeper.leave(local);
        let life = (at, node.incarnation);
        self.effects(at);
        let millis = self.rng.u64(1..1_500);
        self.push(millis, Event::Gone(life));
    }

    /// It has ended.
    pub(super) fn gone(&mut self, (at, life): To) {
        if self.nodes[at].incarnation == life {
            self.kill(at);
        }
    }
}
