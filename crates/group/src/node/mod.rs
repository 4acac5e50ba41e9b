//! One node as a machine: bytes, commands and the time go in, effects come out.
//!
//! Owns everything that a node knows: links, processes and who is tied to them, questions that
//! wait, groups, names, attributes. It does no I/O, reads no clock and rolls only seeded dice, so
//! that the same code runs on sockets and in a simulation of a thousand nodes. Deliberately not
//! here: running processes and moving bytes ([`crate::host`]).
//!
//! | file | owns |
//! |---|---|
//! | `links` | connections, dialling, heart-beats, back-pressure |
//! | `handshake` | how two nodes prove to each other who they are |
//! | `relations` | messages to processes, links, monitors, exits |
//! | `asks` | questions to other nodes with deadlines, and the answers to theirs |
//! | `commands` | what users ask of their node, and its immediate answers |
//! | `groups` | membership: making, changing, leaving; what links follow from it |
//! | `changes` | changes of one space: ordered by its coordinator, applied by all members |
//! | `claims` | the table of the names of a space |
//! | `names` | registering, and how members come to know what each keeps |
//! | `clashes` | two processes of one name |
//! | `query` | attributes and choices, names looked up elsewhere |

pub(crate) mod asks;
pub(crate) mod changes;
pub(crate) mod claims;
mod clashes;
pub(crate) mod commands;
pub(crate) mod groups;
mod handshake;
pub(crate) mod links;
pub(crate) mod names;
pub(crate) mod query;
pub(crate) mod relations;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ring::hmac;
use rustc_hash::FxHashMap;
use stdx::rand::Rng;
use stdx::time::Moment;

use crate::attributes::{Attribute, Attributes, Facts};
use crate::command::{Answer, Note};
use crate::config::{GroupConfig, Saved};
use crate::limits::Limits;
use crate::process::Event;
use crate::types::{Body, MonitorRef, Name, NodeName, Pid, Reason, SHARD_BITS};
use crate::view::{GroupId, Space, View};

use asks::{Ask, Operation};
use claims::Names;
use links::{Conn, Peer};
use relations::Relations;

#[cfg(test)]
use crate::model::bugs::Bug;

/// How a node is made.
pub(crate) struct Settings {
    pub(crate) name: NodeName,
    pub(crate) life: u64,
    pub(crate) hidden: bool,
    pub(crate) cookie: Vec<u8>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) seed: u64,
    pub(crate) shards: u16,
    pub(crate) functions: BTreeSet<Name>,
    pub(crate) many_names: bool,
    pub(crate) config: Vec<GroupConfig>,
    pub(crate) saved: Option<Saved>,
    pub(crate) attributes: Vec<(Name, Attribute)>,
    #[cfg(test)]
    pub(crate) bug: Option<Bug>,
}

/// Who gave a command, and so who gets its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A process of this node; the number is the process's own.
    Process { id: u64, tag: u64 },
    /// A thread, or the driver of a simulation.
    Outside(u64),
    /// The node itself: nobody waits.
    Nobody,
}

/// What the surroundings of a node are to do, in this order.
#[derive(Debug)]
pub(crate) enum Effect {
    Dial {
        conn: u64,
        node: NodeName,
    },
    Write {
        conn: u64,
        bytes: Vec<u8>,
    },
    /// Close it once all is written.
    Close {
        conn: u64,
    },
    Deliver {
        to: u64,
        event: Event,
    },
    /// Make a process with an id that was given out for it.
    Spawn {
        id: u64,
        function: Name,
        args: Body,
    },
    Kill {
        id: u64,
        reason: Reason,
    },
    /// The mailbox rests, because a link that the process writes to is full.
    Hold {
        id: u64,
    },
    Release {
        id: u64,
    },
    Answer {
        token: u64,
        answer: Answer,
    },
    /// The node's groups have changed: keep this for its next life.
    Save(Saved),
    Note(Note),
}

/// Something to be done at a time.
#[derive(Clone, Debug)]
enum Wake {
    /// The deadline of a question.
    Ask(u64),
    /// A member of a group is dialled.
    Dial(NodeName),
    /// A handshake took too long.
    Handshake(u64),
    /// The other side's connection did not come.
    Await(NodeName),
    /// A change looks for its coordinator again.
    Submit(u64),
    /// A claim that loses looks again whether the winner's process is alive.
    Contest(Space, Name, u64),
    /// An invitation was not followed by a view.
    Reservation(Name),
    Beat,
}

/// Identifies a wake, to take it back.
pub(crate) type WakeKey = (Moment, u64);

/// Numbers that the machine and the processes of a node draw from, on all shards.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    serial: AtomicU64,
    monitor: AtomicU64,
}

impl Shared {
    /// A new id for a process on a shard.
    pub(crate) fn new_id(&self, shard: u16) -> u64 {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed) + 1;
        (serial << SHARD_BITS) | u64::from(shard)
    }

    pub(crate) fn new_monitor(&self) -> MonitorRef {
        MonitorRef(self.monitor.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// A node.
pub(crate) struct Machine {
    pub(crate) me: NodeName,
    pub(crate) life: u64,
    pub(crate) hidden: bool,
    key: hmac::Key,
    pub(crate) limits: Arc<Limits>,
    rng: Rng,
    /// The time, without that in which this node did not run.
    pub(crate) now: Moment,
    /// How long it did not run, in all its life.
    missed: Duration,
    shards: u16,
    functions: BTreeSet<Name>,
    many_names: bool,
    stopped: bool,
    effects: Vec<Effect>,
    wakes: BTreeMap<WakeKey, Wake>,
    next_wake: u64,
    // Links.
    conns: FxHashMap<u64, Conn>,
    next_conn: u64,
    peers: BTreeMap<NodeName, Peer>,
    dirty: Vec<u64>,
    watch_nodes: BTreeSet<u64>,
    // Processes.
    pub(crate) shared: Arc<Shared>,
    next_shard: u16,
    relations: Relations,
    // Questions and operations.
    asks: FxHashMap<u64, Ask>,
    next_ask: u64,
    operations: FxHashMap<u64, Operation>,
    next_operation: u64,
    // Groups.
    groups: BTreeMap<Name, Group>,
    free: Names,
    next_claim: u64,
    reserved: BTreeMap<Name, (GroupId, WakeKey)>,
    tombstones: VecDeque<View>,
    known: BTreeMap<Name, BTreeSet<NodeName>>,
    next_group: u64,
    has_config: bool,
    attributes: Attributes,
    #[cfg(test)]
    pub(crate) bug: Option<Bug>,
}

/// How late a node does what is due if it did not run; less is the usual delay of threads.
const LATE_MIN: Duration = Duration::from_secs(1);

/// A group that this node is in.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) view: View,
    pub(crate) names: Names,
}

impl Machine {
    /// A node without links; its first effects may dial the members of its groups.
    pub(crate) fn new(settings: Settings, now: Moment) -> Self {
        let mut machine = Machine {
            key: hmac::Key::new(hmac::HMAC_SHA256, &settings.cookie),
            me: settings.name,
            life: settings.life,
            hidden: settings.hidden,
            rng: Rng::with_seed(settings.seed),
            now,
            missed: Duration::ZERO,
            shards: settings.shards.max(1),
            functions: settings.functions,
            many_names: settings.many_names,
            stopped: false,
            effects: Vec::new(),
            wakes: BTreeMap::new(),
            next_wake: 0,
            conns: FxHashMap::default(),
            next_conn: 0,
            peers: BTreeMap::new(),
            dirty: Vec::new(),
            watch_nodes: BTreeSet::new(),
            shared: Arc::new(Shared::default()),
            next_shard: 0,
            relations: Relations::default(),
            asks: FxHashMap::default(),
            next_ask: 0,
            operations: FxHashMap::default(),
            next_operation: 0,
            groups: BTreeMap::new(),
            free: Names::default(),
            next_claim: 0,
            reserved: BTreeMap::new(),
            tombstones: VecDeque::new(),
            known: BTreeMap::new(),
            next_group: 0,
            has_config: !settings.config.is_empty(),
            attributes: Attributes::default(),
            #[cfg(test)]
            bug: settings.bug,
            limits: settings.limits,
        };
        let max = machine.limits.attributes_max;
        for (name, attribute) in settings.attributes {
            // Beyond the bound the rest is left out, as the option's documentation says.
            let _ = machine
                .attributes
                .set(&name, attribute, &Facts::default(), max);
        }
        machine.load_groups(settings.config, settings.saved);
        let beat = machine.limits.heartbeat;
        machine.wake_after(beat, Wake::Beat);
        machine
    }

    /// Takes what is to be done; with `writes`, the frames that were written as well.
    pub(crate) fn effects(&mut self, writes: bool) -> Vec<Effect> {
        if writes {
            self.flush();
        }
        std::mem::take(&mut self.effects)
    }

    /// When [`Machine::tick`] is due at the latest.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        let first = self.wakes.first_key_value();
        first.map(|((at, _), _)| *at + self.missed)
    }

    /// Takes note of the time, and does what is due.
    ///
    /// If that was due long ago, this node did not run: its machine was suspended, or had much else
    /// to do. What the others said meanwhile waits to be read, so that nothing of that time counts
    /// as their silence.
    pub(crate) fn tick(&mut self, now: Moment) {
        let mut now = Moment::ZERO + now.saturating_since(Moment::ZERO + self.missed);
        if let Some(((due, _), _)) = self.wakes.first_key_value() {
            let late = now.saturating_since(*due);
            if late >= LATE_MIN {
                (self.missed, now) = (self.missed + late, *due);
            }
        }
        self.now = now;
        while let Some(entry) = self.wakes.first_entry() {
            if entry.key().0 > now {
                break;
            }
            match entry.remove() {
                Wake::Ask(id) => self.ask_timed_out(id),
                Wake::Dial(node) => self.dial_due(&node),
                Wake::Handshake(conn) => self.handshake_due(conn),
                Wake::Await(node) => self.await_due(&node),
                Wake::Submit(operation) => self.submit_again(operation),
                Wake::Contest(space, name, number) => self.contest_due(&space, &name, number),
                Wake::Reservation(name) => self.unreserve(&name, None),
                Wake::Beat => self.beat(),
            }
        }
    }

    fn wake_after(&mut self, after: Duration, wake: Wake) -> WakeKey {
        self.next_wake += 1;
        let key = (self.now + after, self.next_wake);
        self.wakes.insert(key, wake);
        key
    }

    fn cancel(&mut self, key: WakeKey) {
        self.wakes.remove(&key);
    }

    pub(crate) fn pid(&self, id: u64) -> Pid {
        Pid {
            node: self.me.clone(),
            life: self.life,
            id,
        }
    }

    fn is_mine(&self, pid: &Pid) -> bool {
        pid.node == self.me
    }

    fn answer(&mut self, caller: Caller, answer: Answer) {
        match caller {
            Caller::Process { id, tag } => {
                let event = match answer {
                    Answer::Spawned(result) => Event::Spawned { tag, result },
                    Answer::Called(result) => Event::Reply { tag, result },
                    answer => Event::Answer { tag, answer },
                };
                self.deliver(id, event);
            }
            Caller::Outside(token) => self.effects.push(Effect::Answer { token, answer }),
            Caller::Nobody => {}
        }
    }

    fn deliver(&mut self, to: u64, event: Event) {
        self.effects.push(Effect::Deliver { to, event });
    }

    fn note(&mut self, note: Note) {
        self.effects.push(Effect::Note(note));
    }

    fn facts(&self) -> Facts {
        let mine = |names: &Names| names.kept_by(&self.me, None, None).count() as u64;
        let names = self.groups.values().map(|group| mine(&group.names)).sum();
        Facts {
            processes: self.relations.processes() as u64,
            links: self.linked().count() as u64,
            names,
        }
    }

    /// Whether a deliberate bug is in force; never outside tests of the model.
    #[cfg(test)]
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// The names of a space that this node is in.
    fn names(&self, space: &Space) -> Option<&Names> {
        match space {
            Space::Free => self.is_free().then_some(&self.free),
            Space::Group(id) => {
                let group = self.groups.get(&id.name)?;
                (group.view.id == *id).then_some(&group.names)
            }
        }
    }

    fn names_mut(&mut self, space: &Space) -> Option<&mut Names> {
        match space {
            Space::Free => self.is_free().then_some(&mut self.free),
            Space::Group(id) => {
                let group = self.groups.get_mut(&id.name)?;
                (group.view.id == *id).then_some(&mut group.names)
            }
        }
    }

    /// Whether the node is in no group.
    pub(crate) fn is_free(&self) -> bool {
        self.groups.is_empty()
    }
}
