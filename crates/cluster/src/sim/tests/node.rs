//! One node of the simulation: what a process is made of, and what its kill leaves.

use std::time::Duration;

use stdx::Moment;
use store::{Follower, Store};

use crate::journal::member::{self, Member};
use crate::journal::message::Author;
use crate::journal::replica::{self, Replica};
use crate::journal::writer;
use crate::layout::{Layout, StreamId};
use crate::map::keeper::{self, Keeper};
use crate::map::{self, Report};

pub(super) const STREAMS: u16 = 2;

/// A layout with two ranges a stream, of which the simulation uses the first streams.
pub(super) fn layout() -> Layout {
    Layout::new("sim", 64).unwrap()
}

pub(super) struct Process {
    pub(super) follower: Follower,
    pub(super) members: Vec<Member>,
    pub(super) keeper: Keeper,
    /// How far each stream was delivered.
    pub(super) delivered: Vec<u64>,
    /// How far the map was watched.
    pub(super) watched: usize,
    /// An operator wants it to be the home of nothing.
    pub(super) is_draining: bool,
}

pub(super) struct Node {
    pub(super) name: String,
    pub(super) incarnation: u64,
    pub(super) store: Store,
    pub(super) process: Option<Process>,
    pub(super) paused_until: Moment,
    pub(super) cut_until: Moment,
    /// Its watch and its consumers say nothing, and all else works.
    pub(super) stalled_until: Moment,
    /// Ticks of its clock for a thousand of the world's.
    pub(super) rate: u64,
}

fn options() -> member::Options {
    member::Options {
        writer: writer::Options {
            batch_bytes_max: 128,
            queue_appends_max: 4,
            queue_bytes_max: 1_024,
            ..writer::Options::default()
        },
        ..member::Options::default()
    }
}

impl Node {
    pub(super) fn new(name: String, rate: u64) -> Node {
        Node {
            name,
            incarnation: 0,
            store: Store::in_memory(),
            process: None,
            paused_until: Moment::ZERO,
            cut_until: Moment::ZERO,
            stalled_until: Moment::ZERO,
            rate,
        }
    }

    /// What its own clock says.
    pub(super) fn local(&self, now: Moment) -> Moment {
        Moment::from_nanos(now.as_nanos() / 1_000 * self.rate)
    }

    pub(super) fn start(&mut self, now: Moment) {
        self.incarnation += 1;
        let author = Author {
            node: self.name.clone(),
            incarnation: self.incarnation,
        };
        let follower = Follower::new(&self.store).unwrap();
        let compare = replica::Options {
            compare_every: 4,
            remembered_max: 2,
        };
        let member = |stream: u16| {
            let ranges = layout().ranges(StreamId(stream));
            let replica = Replica::new(compare.clone(), stream, ranges, &follower).unwrap();
            Member::new(options(), author.clone(), replica)
        };
        let members: Vec<Member> = (0..STREAMS).map(member).collect();
        let said = map::Node {
            incarnation: self.incarnation,
            zone: self.name.clone(),
            weight: 1,
            streams: vec![Report::default(); usize::from(STREAMS)],
            ..map::Node::default()
        };
        let times = keeper::Options {
            again_after: Duration::from_millis(700),
            ..keeper::Options::default()
        };
        let keeper = Keeper::new(self.local(now), times, author, said, STREAMS);
        self.process = Some(Process {
            delivered: members.iter().map(|member| member.mark().seq).collect(),
            watched: 0,
            is_draining: false,
            follower,
            members,
            keeper,
        });
    }
}
