//! A hierarchical timer wheel.
//!
//! Owns: values that become due at a [`Moment`], with O(1) insert and cancel and a cost of
//! advancing that depends on what is due, not on how much time passed. Deliberately not here:
//! reading a clock, and any bound on the number of timers (owners count their own).
//!
//! Resolution is one millisecond. A timer never fires before its moment and, if `advance` is called
//! in time, less than a millisecond after it. Seven levels of 64 slots reach 139 years; what lies
//! beyond waits in the last level and is filed again on the way.

use crate::slab::{Key, Slab};
use crate::time::Moment;

const LEVELS: usize = 7;
const SLOTS: usize = 64;
const SLOT_BITS: u32 = 6;
const NONE: u32 = u32::MAX;
const TICK_NANOS: u64 = 1_000_000;
/// The farthest tick that can be filed, relative to the current one.
const HORIZON: u64 = 1 << (SLOT_BITS as usize * LEVELS);

/// The name of one timer; dead once it fired or was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerKey(Key);

impl TimerKey {
    /// A key that never names a timer.
    pub const DEAD: TimerKey = TimerKey(Key::DEAD);
}

#[derive(Debug)]
struct Entry<T> {
    tick: u64,
    next: u32,
    previous: u32,
    level: u8,
    slot: u8,
    value: T,
}

/// Values of type `T`, each due at its moment.
#[derive(Debug)]
pub struct TimerWheel<T> {
    entries: Slab<Entry<T>>,
    heads: Box<[[u32; SLOTS]; LEVELS]>,
    /// One bit per slot that holds an entry.
    occupied: [u64; LEVELS],
    /// Everything due at a tick up to and including this one has fired.
    current: u64,
}

impl<T> Default for TimerWheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> TimerWheel<T> {
    /// An empty wheel standing at [`Moment::ZERO`].
    pub fn new() -> Self {
        TimerWheel {
            entries: Slab::new(),
            heads: Box::new([[NONE; SLOTS]; LEVELS]),
            occupied: [0; LEVELS],
            current: 0,
        }
    }

    /// Number of timers waiting.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no timer waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Files `value` for `at`. A moment that has passed is due at the next millisecond.
    pub fn insert(&mut self, at: Moment, value: T) -> TimerKey {
        let tick = at.0.div_ceil(TICK_NANOS).max(self.current + 1);
        let entry = Entry {
            tick,
            next: NONE,
            previous: NONE,
            level: 0,
            slot: 0,
            value,
        };
        let key = self.entries.insert(entry);
        self.file(key);
        TimerKey(key)
    }

    /// Takes a timer out before it fires.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        self.unlink(key.0)?;
        self.entries.remove(key.0).map(|entry| entry.value)
    }

    /// The value of a waiting timer.
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.entries.get(key.0).map(|entry| &entry.value)
    }

    /// When a waiting timer is due, to the millisecond.
    pub fn deadline_of(&self, key: TimerKey) -> Option<Moment> {
        self.entries
            .get(key.0)
            .map(|entry| Moment(entry.tick.saturating_mul(TICK_NANOS)))
    }

    /// A moment by which [`advance`](Self::advance) should be called again.
    ///
    /// Never later than the earliest timer is due; it may be earlier, when that timer is still
    /// filed coarsely. `None` when no timer waits.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.next_tick()
            .map(|tick| Moment(tick.saturating_mul(TICK_NANOS)))
    }

    /// Moves the wheel to `now` and hands every due value to `fire`, in order of their ticks.
    pub fn advance(&mut self, now: Moment, fire: &mut impl FnMut(T)) {
        let target = now.0 / TICK_NANOS;
        while self.current < target {
            match self.next_tick() {
                Some(tick) if tick <= target => {
                    self.current = tick;
                    self.arrive(fire);
                }
                _ => self.current = target,
            }
        }
    }

    /// The first tick after the current one at which a slot must be looked at.
    fn next_tick(&self) -> Option<u64> {
        let mut best: Option<u64> = None;
        for level in 0..LEVELS {
            if self.occupied[level] == 0 {
                continue;
            }
            let shift = SLOT_BITS * level as u32;
            let position = self.current >> shift;
            let at = (position % SLOTS as u64) as u32;
            // Slots after the current one, in the order in which time reaches them; the current
            // slot itself comes last, a whole round later.
            let ahead = self.occupied[level].rotate_right(at + 1);
            let distance = u64::from(ahead.trailing_zeros()) + 1;
            let tick = (position + distance) << shift;
            best = Some(best.map_or(tick, |b| b.min(tick)));
        }
        best
    }

    /// Cascades and fires what the slots of the current tick hold, coarsest level first.
    fn arrive(&mut self, fire: &mut impl FnMut(T)) {
        for level in (0..LEVELS).rev() {
            let shift = SLOT_BITS * level as u32;
            if self.current & ((1 << shift) - 1) != 0 {
                continue;
            }
            let slot = (self.current >> shift) as usize % SLOTS;
            let mut at = std::mem::replace(&mut self.heads[level][slot], NONE);
            self.occupied[level] &= !(1 << slot);
            // The list is newest first; reversing it keeps timers of one tick in filing order.
            let mut reversed = NONE;
            while let Some(entry) = self.entry_at(at) {
                let next = std::mem::replace(&mut entry.next, reversed);
                reversed = at;
                at = next;
            }
            while let Some(key) = self.entries.key_at(reversed) {
                let Some(entry) = self.entries.get_mut(key) else {
                    break;
                };
                reversed = entry.next;
                (entry.next, entry.previous) = (NONE, NONE);
                if entry.tick > self.current {
                    self.file(key);
                } else if let Some(entry) = self.entries.remove(key) {
                    fire(entry.value);
                }
            }
        }
    }

    fn entry_at(&mut self, index: u32) -> Option<&mut Entry<T>> {
        let key = self.entries.key_at(index)?;
        self.entries.get_mut(key)
    }

    /// Links an entry into the slot its tick belongs to, seen from the current tick.
    fn file(&mut self, key: Key) {
        let current = self.current;
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let tick = entry.tick.min(current + HORIZON - 1);
        let differing = (current ^ tick) | 1;
        let level = ((63 - differing.leading_zeros()) / SLOT_BITS).min(LEVELS as u32 - 1) as usize;
        let slot = (tick >> (SLOT_BITS * level as u32)) as usize % SLOTS;
        let head = self.heads[level][slot];
        (entry.level, entry.slot) = (level as u8, slot as u8);
        (entry.next, entry.previous) = (head, NONE);
        if let Some(next) = self.entry_at(head) {
            next.previous = key.index;
        }
        self.heads[level][slot] = key.index;
        self.occupied[level] |= 1 << slot;
    }

    fn unlink(&mut self, key: Key) -> Option<()> {
        let entry = self.entries.get(key)?;
        let (next, previous) = (entry.next, entry.previous);
        let (level, slot) = (entry.level as usize, entry.slot as usize);
        if let Some(entry) = self.entry_at(next) {
            entry.previous = previous;
        }
        match self.entry_at(previous) {
            Some(entry) => entry.next = next,
            None => self.heads[level][slot] = next,
        }
        if self.heads[level][slot] == NONE {
            self.occupied[level] &= !(1 << slot);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rand::Rng;
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn due(wheel: &mut TimerWheel<u32>, at: Moment) -> Vec<u32> {
        let mut fired = Vec::new();
        wheel.advance(at, &mut |value| fired.push(value));
        fired
    }

    #[test]
    fn never_fires_early_and_keeps_order_within_a_tick() {
        let mut wheel = TimerWheel::new();
        wheel.insert(Moment(5_000_001), 1);
        wheel.insert(Moment(5_500_000), 2);
        wheel.insert(Moment(70_000_000), 3);
        assert_eq!(due(&mut wheel, Moment(5_999_999)), Vec::<u32>::new());
        assert_eq!(due(&mut wheel, Moment(6_000_000)), [1, 2]);
        assert_eq!(due(&mut wheel, Moment(69_999_999)), Vec::<u32>::new());
        assert_eq!(due(&mut wheel, Moment(70_000_000)), [3]);
        assert_eq!(wheel.next_deadline(), None);
    }

    #[test]
    fn cancelled_timers_do_not_fire_and_their_keys_are_dead() {
        let mut wheel = TimerWheel::new();
        let keys: Vec<TimerKey> = (0..10)
            .map(|n| wheel.insert(Moment(9_000_000), n))
            .collect();
        assert_eq!(wheel.cancel(keys[9]), Some(9));
        assert_eq!(wheel.cancel(keys[0]), Some(0));
        assert_eq!(wheel.cancel(keys[5]), Some(5));
        assert_eq!(wheel.cancel(keys[5]), None);
        assert_eq!(due(&mut wheel, Moment(9_000_000)), [1, 2, 3, 4, 6, 7, 8]);
        assert_eq!(wheel.cancel(keys[1]), None);
    }

    #[test]
    fn far_timers_wait_their_time() {
        let mut wheel = TimerWheel::new();
        wheel.insert(Moment::FAR, 1);
        let year = Moment::ZERO + Duration::from_secs(365 * 86_400);
        wheel.insert(year, 2);
        assert_eq!(due(&mut wheel, Moment(year.0 - 1)), Vec::<u32>::new());
        assert_eq!(due(&mut wheel, year), [2]);
        assert_eq!(wheel.len(), 1);
    }

    /// Random inserts, cancels and jumps against a sorted map.
    #[test]
    fn agrees_with_a_sorted_map() {
        for seed in 0..50 {
            let mut rng = Rng::with_seed(seed);
            let mut wheel = TimerWheel::new();
            let mut model: BTreeMap<(u64, u32), TimerKey> = BTreeMap::new();
            let (mut now, mut next_id) = (0u64, 0u32);
            for _ in 0..600 {
                match rng.u32(0..10) {
                    0..=5 => {
                        let reach = 1u64 << rng.u32(0..45);
                        let at = Moment(now + rng.u64(0..=reach));
                        let tick = at.0.div_ceil(TICK_NANOS).max(now / TICK_NANOS + 1);
                        model.insert((tick, next_id), wheel.insert(at, next_id));
                        next_id += 1;
                    }
                    6 if !model.is_empty() => {
                        let nth = rng.usize(0..model.len());
                        let (&(tick, id), &key) = model.iter().nth(nth).unwrap();
                        model.remove(&(tick, id));
                        assert_eq!(wheel.cancel(key), Some(id));
                    }
                    _ => {
                        let reach = 1u64 << rng.u32(0..42);
                        now += rng.u64(0..=reach);
                        let fired = due(&mut wheel, Moment(now));
                        let later = model.split_off(&(now / TICK_NANOS + 1, 0));
                        let expected = std::mem::replace(&mut model, later);
                        let mut ticks: Vec<u32> = expected.keys().map(|(_, id)| *id).collect();
                        let order: BTreeMap<u32, u64> =
                            expected.keys().map(|(tick, id)| (*id, *tick)).collect();
                        assert!(fired.windows(2).all(|w| order[&w[0]] <= order[&w[1]]));
                        let mut sorted = fired.clone();
                        sorted.sort_unstable();
                        ticks.sort_unstable();
                        assert_eq!(sorted, ticks, "seed {seed}");
                    }
                }
                let first = model.keys().next().map(|(tick, _)| *tick);
                let deadline = wheel.next_deadline().map(|d| d.0 / TICK_NANOS);
                assert_eq!(first.is_some(), deadline.is_some());
                assert!(deadline <= first, "seed {seed}");
            }
        }
    }
}
