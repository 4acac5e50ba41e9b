//! Where an entity lives: address → slot → range → shard; and in a cluster, on which node that is.
//! The one place that decides it. Owns what this node believes of every range; who is not at home
//! where it is sought says so itself.

mod waking;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use actor::{ShardId, Whereabouts};
use store::{RangeId, SlotKey};

use crate::away::NodeId;
use waking::Waking;

/// The placement of one node: every range is at home on one of its shards, and may move to another.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    key: SlotKey,
    /// The shard of each range, and [`COMING`] while the range is on its way there.
    shards: Arc<[AtomicU32]>,
    /// A range is on its way: one at a time.
    is_moving: Arc<AtomicBool>,
    /// How many have moved since the node started, or are about to: while there are none, nobody
    /// need be looked for.
    moves: Arc<AtomicU64>,
    /// How far each is with users whose sessions outlived the process or the home before.
    waking: Arc<[Waking]>,
    /// The tenure of this home with each range, as messages name it; 0 of ranges that are
    /// elsewhere.
    tenures: Arc<[AtomicU32]>,
    /// Where ranges are that are elsewhere: the number of the node and one more, above the tenure;
    /// 0 of those of which nobody knows.
    homes: Arc<[AtomicU64]>,
}

/// With a shard: not there yet.
const COMING: u32 = 1 << 16;

/// The tenure of a home that never shared its ranges with another one.
const FIRST_TENURE: u32 = 1;

impl Place {
    /// `key` is the one stored with the data; `shards` is at least 1.
    pub(crate) fn new(key: SlotKey, shards: u16) -> Self {
        assert!(shards > 0, "a node has at least one shard");
        Place {
            key,
            shards: RangeId::all()
                .map(|range| AtomicU32::new(u32::from(range.index() % shards)))
                .collect(),
            is_moving: Arc::default(),
            moves: Arc::default(),
            waking: RangeId::all().map(|_| Waking::default()).collect(),
            tenures: RangeId::all()
                .map(|_| AtomicU32::new(FIRST_TENURE))
                .collect(),
            homes: RangeId::all().map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Every range is elsewhere, until [`Place::set_tenure`] says otherwise.
    pub(crate) fn elsewhere(self) -> Place {
        self.leave_all();
        self
    }

    /// Whether everybody of an address's range whose sessions outlived the last process, or the
    /// home before, is there. Until then who is not loaded may be online all the same.
    pub(crate) fn has_woken(&self, bare: &str) -> bool {
        self.waking[usize::from(self.range(bare).index())].is_done()
    }

    /// Everybody of all ranges is.
    pub(crate) fn set_all_woken(&self) {
        self.waking.iter().for_each(Waking::set_done);
    }

    /// A range comes here: from before anybody is sought here on, not everybody is there.
    pub(crate) fn comes(&self, range: RangeId) {
        self.waking[usize::from(range.index())].comes();
    }

    /// It is here, and nothing of an earlier home is left: its users are to be woken.
    pub(crate) fn wake_later(&self, range: RangeId) {
        self.waking[usize::from(range.index())].is_here();
    }

    /// Ranges whose users are to be woken, each with what [`Place::set_woken`] is told then.
    pub(crate) fn to_wake(&self) -> Vec<(RangeId, u32)> {
        let due = |range: RangeId| {
            let due = self.waking[usize::from(range.index())].due()?;
            Some((range, due))
        };
        RangeId::all().filter_map(due).collect()
    }

    /// They were woken, as they came at that time.
    pub(crate) fn set_woken(&self, range: RangeId, time: u32) {
        self.waking[usize::from(range.index())].woken(time);
    }

    /// Nothing is at home here any more.
    pub(crate) fn leave_all(&self) {
        for range in RangeId::all() {
            self.set_tenure(range, 0);
        }
    }

    /// Whether a range is at home here.
    pub(crate) fn is_here(&self, range: RangeId) -> bool {
        self.tenure(range) != 0
    }

    /// Where a range is that is not at home here, and the tenure of its home there.
    pub(crate) fn away(&self, range: RangeId) -> Option<(NodeId, u32)> {
        let home = self.homes[usize::from(range.index())].load(Ordering::Acquire);
        let node = u16::try_from((home >> 32).checked_sub(1)?).ok()?;
        Some((NodeId(node), home as u32))
    }

    /// From now on a range that is not here is there.
    pub(crate) fn set_away(&self, range: RangeId, home: Option<(NodeId, u32)>) {
        let home = home.map_or(0, |(NodeId(node), tenure)| {
            ((u64::from(node) + 1) << 32) | u64::from(tenure)
        });
        self.homes[usize::from(range.index())].store(home, Ordering::Release);
    }

    /// The keyed hash.
    pub(crate) fn slots(&self) -> SlotKey {
        self.key
    }

    /// The range that holds a bare address.
    pub(crate) fn range(&self, bare: &str) -> RangeId {
        self.key.slot(bare).range()
    }

    /// The tenure of a range's home, as messages to its entities name it.
    pub(crate) fn tenure(&self, range: RangeId) -> u32 {
        self.tenures[usize::from(range.index())].load(Ordering::Acquire)
    }

    /// Whether a range is at home here, in that tenure and no other.
    pub(crate) fn is_home(&self, range: RangeId, tenure: u32) -> bool {
        tenure != 0 && self.tenure(range) == tenure
    }

    /// From now on a range is at home here in another tenure, or elsewhere (0).
    pub(crate) fn set_tenure(&self, range: RangeId, tenure: u32) {
        self.tenures[usize::from(range.index())].store(tenure, Ordering::Release);
    }

    /// The shard where a range is at home, or is about to be.
    pub(crate) fn home_of(&self, range: RangeId) -> ShardId {
        let shard = self.shards[usize::from(range.index())].load(Ordering::Acquire);
        ShardId::new((shard & !COMING) as u16)
    }

    /// Where an entity is, from a shard's point of view.
    pub(crate) fn whereabouts(&self, bare: &str, here: ShardId) -> Whereabouts {
        if self.moves() == 0 {
            return Whereabouts::Here;
        }
        let range = usize::from(self.range(bare).index());
        let shard = self.shards[range].load(Ordering::Acquire);
        match ShardId::new((shard & !COMING) as u16) {
            home if home != here => Whereabouts::On(home),
            _ if shard & COMING != 0 => Whereabouts::Coming,
            _ => Whereabouts::Here,
        }
    }

    /// How many ranges have left their shards. While this is the same, all are where they were.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    /// Whether a range is on its way to its shard.
    pub(crate) fn is_coming(&self, range: RangeId) -> bool {
        self.shards[usize::from(range.index())].load(Ordering::Acquire) & COMING != 0
    }

    /// A range may move now; false if another one is on its way.
    pub(crate) fn begin_move(&self) -> bool {
        !self.is_moving.swap(true, Ordering::AcqRel)
    }

    /// Another one may.
    pub(crate) fn end_move(&self) {
        self.is_moving.store(false, Ordering::Release);
    }

    /// A range goes to another shard. What began to log in to one of its accounts before is over:
    /// only the shard that it leaves knows which of them have other credentials by now.
    pub(crate) fn leaves(&self, range: RangeId, to: ShardId) {
        let to = u32::from(to.index()) | COMING;
        // First: who reads where the range is now must not believe that nothing ever moved.
        self.moves.fetch_add(1, Ordering::Release);
        self.shards[usize::from(range.index())].store(to, Ordering::Release);
        let tenure = &self.tenures[usize::from(range.index())];
        tenure.fetch_add(1, Ordering::AcqRel);
    }

    /// It is there.
    pub(crate) fn arrives(&self, range: RangeId) {
        self.shards[usize::from(range.index())].fetch_and(!COMING, Ordering::AcqRel);
    }

    /// The shard where a bare address is at home.
    pub(crate) fn shard(&self, bare: &str) -> ShardId {
        self.home_of(self.range(bare))
    }
}
