//! One worker of a parallel orbit, as a machine: messages in, messages out.
//!
//! Owns the worker's share of the vertices, the vertices that wait to be sent, and its credit.
//! Deliberately not here: how messages travel, timers, and threads; a shell (`local`, `nodes`) does
//! that, so that the same machine runs on shards, over nodes and in tests.
//!
//! Vertices for another worker are collected, and one message with at most
//! [`Conf::batch_max`] of them is under way at a time to each: the next leaves when the receiver
//! has taken the last. So no mailbox holds more than one message from each worker and one
//! acknowledgement for each, and what waits here is bounded by the vertices and their images.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::credit::Credit;
use crate::generator::{Fib, Generators};
use crate::route::Layout;
use crate::stats::WorkerStats;
use crate::table::Vertices;

/// Actors that compute images for one worker at a time, at most: a quarter of what the priority
/// lane of its mailbox holds.
pub const SPAWNED_MAX: usize = 1_024;

/// What is to be computed, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Conf {
    /// The functions.
    pub generators: Generators,
    /// Vertices are `0..size`; at most [`crate::generator::SIZE_MAX`].
    pub size: u32,
    /// How Fibonacci numbers are found.
    pub fib: Fib,
    /// Vertices in one message, at most. 1 is the published benchmark.
    pub batch_max: usize,
    /// Vertices that one handler expands before others have their turn.
    pub slice: usize,
    /// How long a worker without work keeps its credit, in case more comes.
    pub idle_timeout: Duration,
    /// Each image is computed by an actor of its own, of which a worker has at most so many at a
    /// time, and at most [`SPAWNED_MAX`]. 0 computes images in place.
    pub spawned_max: usize,
    /// How often the master sends the first vertex again after it lost a node.
    pub restarts_max: u32,
}

impl Conf {
    /// The defaults for a set of generators and a size of the space.
    pub fn new(generators: Generators, size: u32) -> Self {
        Conf {
            generators,
            size,
            fib: Fib::Naive,
            batch_max: 256,
            slice: 64,
            idle_timeout: Duration::ZERO,
            spawned_max: 0,
            restarts_max: 8,
        }
    }

    /// Slots in the table of each of so many workers: two for each vertex of the space.
    pub fn slots(&self, workers: u32) -> usize {
        2 * self.size as usize / workers.max(1) as usize + 1
    }
}

/// Vertices on their way from one worker (or the master) to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Whom to tell that it was taken; `None` is the master, who does not wait for that.
    pub from: Option<u32>,
    /// The vertices.
    pub vertices: Vec<u32>,
    /// The atomic credit that comes with them.
    pub credit: u32,
}

/// What a worker wants done.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send vertices to a worker.
    Send(u32, Batch),
    /// Tell a worker that its message was taken.
    Taken(u32),
    /// Return credit to the master, who acknowledges it.
    Return(Credit),
}

#[derive(Debug, Default)]
struct Way {
    waiting: Vec<u32>,
    /// A message was sent and is not yet taken.
    is_busy: bool,
}

/// One worker.
#[derive(Debug)]
pub struct Worker {
    conf: Conf,
    layout: Layout,
    me: u32,
    known: Vertices,
    /// New vertices of this worker whose images are not yet computed.
    unexpanded: Vec<u32>,
    ways: Vec<Way>,
    /// Ways with something that waits.
    waiting: usize,
    credit: Credit,
    /// Credit was returned and the master has not said that it has it.
    is_returning: bool,
    /// Images that are being computed elsewhere.
    open_images: usize,
    effects: Vec<Effect>,
    /// What it has done so far.
    pub stats: WorkerStats,
}

impl Worker {
    /// The worker of a number.
    pub fn new(conf: Conf, layout: Layout, me: u32) -> Self {
        let workers = layout.workers();
        Worker {
            known: Vertices::new(conf.slots(workers)),
            conf,
            layout,
            me,
            unexpanded: Vec::new(),
            ways: (0..workers).map(|_| Way::default()).collect(),
            waiting: 0,
            credit: Credit::NONE,
            is_returning: false,
            open_images: 0,
            effects: Vec::new(),
            stats: WorkerStats::new(me),
        }
    }

    /// What is computed.
    pub fn conf(&self) -> &Conf {
        &self.conf
    }

    // ---- What happens to it --------------------------------------------------------------------

    /// A message with vertices has come.
    pub fn handle_batch(&mut self, batch: Batch) {
        self.credit.add(batch.credit);
        self.stats.messages_recvd += 1;
        if let Some(from) = batch.from {
            self.effects.push(Effect::Taken(from));
        }
        for x in batch.vertices {
            self.stats.vertices_recvd += 1;
            self.learn(x);
        }
    }

    /// A worker has taken the last message that was sent to it.
    pub fn handle_taken(&mut self, by: u32) {
        if let Some(way) = self.ways.get_mut(by as usize) {
            way.is_busy = false;
        }
        self.send_some(by as usize, 1);
    }

    /// The master has the credit that was returned last.
    pub fn handle_returned(&mut self) {
        self.is_returning = false;
    }

    /// An image that was computed elsewhere has come.
    pub fn handle_image(&mut self, y: u32) {
        self.open_images = self.open_images.saturating_sub(1);
        self.place(y);
    }

    // ---- What it does --------------------------------------------------------------------------

    /// Expands some vertices; true if there are more to expand.
    pub fn work(&mut self) -> bool {
        for _ in 0..self.conf.slice {
            let Some(x) = self.unexpanded.pop() else {
                break;
            };
            for at in 0..self.conf.generators.count() {
                let generator = self.conf.generators.at(at);
                self.place(generator.image(x, self.conf.size, self.conf.fib));
            }
        }
        if self.unexpanded.is_empty() {
            self.flush();
        }
        !self.unexpanded.is_empty()
    }

    /// Takes a vertex whose images are to be computed elsewhere, if there is one and room for it.
    pub fn take_unexpanded(&mut self) -> Option<u32> {
        let images = self.conf.generators.count();
        let most = self.conf.spawned_max.clamp(images, SPAWNED_MAX);
        if self.open_images + images > most {
            return None;
        }
        let x = self.unexpanded.pop()?;
        self.open_images += images;
        Some(x)
    }

    /// Sends whatever waits on free ways, full or not.
    pub fn flush(&mut self) {
        if self.waiting > 0 {
            (0..self.ways.len()).for_each(|to| self.send_some(to, 1));
        }
    }

    /// Whether nothing is left to do: then its credit may go back.
    pub fn is_idle(&self) -> bool {
        self.unexpanded.is_empty() && self.waiting == 0 && self.open_images == 0
    }

    /// Whether it is idle, has credit, and may return it.
    pub fn wants_to_return(&self) -> bool {
        self.is_idle() && !self.credit.is_none() && !self.is_returning
    }

    /// Returns all credit, if it is idle.
    pub fn return_credit(&mut self) {
        if self.wants_to_return() {
            let credit = std::mem::take(&mut self.credit);
            self.stats.credit_retd += 1;
            let atom = credit.atoms().first().copied();
            self.stats.min_atomic_credit = self.stats.min_atomic_credit.max(atom.unwrap_or(0));
            self.is_returning = true;
            self.effects.push(Effect::Return(credit));
        }
    }

    /// Takes what is to be done, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The figures at the end.
    pub fn finish(&mut self) -> WorkerStats {
        self.stats.fill = self.known.fill();
        self.stats.table_bytes = self.known.bytes();
        self.stats.clone()
    }

    /// The vertices that it owns and knows.
    pub fn vertices(&self) -> impl Iterator<Item = u32> + '_ {
        self.known.iter()
    }

    fn learn(&mut self, x: u32) {
        if self.known.insert(x) {
            self.unexpanded.push(x);
        }
    }

    /// Puts a vertex where it belongs.
    fn place(&mut self, y: u32) {
        let owner = self.layout.owner(y);
        if owner == self.me {
            return self.learn(y);
        }
        let way = &mut self.ways[owner as usize];
        self.waiting += usize::from(way.waiting.is_empty());
        way.waiting.push(y);
        let full = self.conf.batch_max;
        self.send_some(owner as usize, full);
    }

    /// Sends a message on a way that is free and has at least so much waiting.
    fn send_some(&mut self, to: usize, at_least: usize) {
        let Some(way) = self.ways.get_mut(to) else {
            return;
        };
        if way.is_busy || way.waiting.len() < at_least.max(1) {
            return;
        }
        // Invariant of credit: whoever has something to send has credit, because it was woken by a
        // message that carried some and returns it only when nothing waits.
        let Some(credit) = self.credit.split() else {
            return;
        };
        let from = way.waiting.len().saturating_sub(self.conf.batch_max.max(1));
        let vertices = way.waiting.split_off(from);
        way.is_busy = true;
        self.waiting -= usize::from(way.waiting.is_empty());
        let batch = Batch {
            from: Some(self.me),
            vertices,
            credit,
        };
        self.effects.push(Effect::Send(to as u32, batch));
    }
}
