//! A hierarchical timer wheel: six levels of 64 slots, the lowest of one millisecond. Setting and
//! cancelling cost constant time however many timers there are.

use std::time::Duration;

use crate::slab::{Key, Slab};
use crate::time::Moment;

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 6;

/// Identifies a timer; of no use once it has fired.
pub type TimerKey = Key;

struct Timer<T> {
    tick: u64,
    at: Moment,
    value: T,
}

/// Timers of one owner. Fires in the order of milliseconds; within one, in no particular order.
pub struct TimerWheel<T> {
    timers: Slab<Timer<T>>,
    /// Keys by level and slot. A cancelled timer's key stays until its slot is reached.
    slots: Box<[Vec<Key>]>,
    occupied: [u64; LEVELS],
    now: u64,
}

impl<T> Default for TimerWheel<T> {
    fn default() -> Self {
        TimerWheel::new()
    }
}

impl<T> TimerWheel<T> {
    /// A wheel without timers, at moment zero.
    pub fn new() -> Self {
        TimerWheel {
            timers: Slab::new(),
            slots: (0..SLOTS * LEVELS).map(|_| Vec::new()).collect(),
            occupied: [0; LEVELS],
            now: 0,
        }
    }

    /// The number of timers that wait.
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    /// Sets a timer. One that is due already fires at the next [`TimerWheel::advance`]. A timer
    /// never fires early; it may fire up to a millisecond late.
    pub fn insert(&mut self, at: Moment, value: T) -> TimerKey {
        let tick = at.as_nanos().div_ceil(1_000_000);
        let key = self.timers.insert(Timer { tick, at, value });
        self.place(key, tick);
        key
    }

    fn place(&mut self, key: Key, tick: u64) {
        let tick = tick.max(self.now + 1);
        // The highest bit in which the tick differs from now decides the level.
        let differs = (tick ^ self.now) | 1;
        let level = (((63 - differs.leading_zeros()) / BITS) as usize).min(LEVELS - 1);
        let slot = (tick >> (level as u32 * BITS)) as usize % SLOTS;
        self.slots[level * SLOTS + slot].push(key);
        self.occupied[level] |= 1 << slot;
    }

    /// Takes a timer back. `None` if it has fired or was cancelled before.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        self.timers.remove(key).map(|timer| timer.value)
    }

    /// Moves the wheel to `now` and hands out what is due.
    pub fn advance(&mut self, now: Moment, fire: &mut impl FnMut(T)) {
        let target = now.as_nanos() / 1_000_000;
        while self.now < target {
            if self.timers.is_empty() {
                self.clear();
                self.now = target;
                return;
            }
            // Skip to the next tick at which any slot of the lowest level or a higher turn is due.
            let next = self.next_tick().min(target);
            self.now = next.max(self.now + 1);
            self.turn(fire);
        }
    }

    fn clear(&mut self) {
        for level in 0..LEVELS {
            while self.occupied[level] != 0 {
                let slot = self.occupied[level].trailing_zeros() as usize;
                self.slots[level * SLOTS + slot] = Vec::new();
                self.occupied[level] &= !(1 << slot);
            }
        }
    }

    /// The earliest tick behind `now` at which a slot has to be looked at.
    fn next_tick(&self) -> u64 {
        let mut best = u64::MAX;
        for level in 0..LEVELS {
            let shift = level as u32 * BITS;
            let position = (self.now >> shift) as u32 % SLOTS as u32;
            let ahead = self.occupied[level].rotate_right(position + 1);
            if ahead != 0 {
                let steps = u64::from(ahead.trailing_zeros()) + 1;
                best = best.min(((self.now >> shift) + steps) << shift);
            }
        }
        best
    }

    fn turn(&mut self, fire: &mut impl FnMut(T)) {
        for level in (0..LEVELS).rev() {
            let shift = level as u32 * BITS;
            if self.now & ((1 << shift) - 1) != 0 {
                continue;
            }
            let slot = (self.now >> shift) as usize % SLOTS;
            if self.occupied[level] & (1 << slot) == 0 {
                continue;
            }
            self.occupied[level] &= !(1 << slot);
            for key in std::mem::take(&mut self.slots[level * SLOTS + slot]) {
                match self.timers.get(key).map(|timer| timer.tick) {
                    None => {}
                    Some(tick) if tick <= self.now => {
                        if let Some(timer) = self.timers.remove(key) {
                            fire(timer.value);
                        }
                    }
                    Some(tick) => self.place(key, tick),
                }
            }
        }
    }

    /// When [`TimerWheel::advance`] has something to do next: never later than the next timer, at
    /// times earlier, when a higher level has to be spread out.
    pub fn next_deadline(&self) -> Option<Moment> {
        if self.timers.is_empty() {
            return None;
        }
        let next = self.next_tick();
        (next != u64::MAX).then(|| Moment::ZERO + Duration::from_millis(next))
    }

    /// When a timer fires.
    pub fn deadline_of(&self, key: TimerKey) -> Option<Moment> {
        self.timers.get(key).map(|timer| timer.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Moment {
        Moment::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn every_timer_fires_once_in_its_millisecond() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut wheel = TimerWheel::new();
        let mut expected = Vec::new();
        for _ in 0..2_000 {
            let at = 1 + rng.u64(0..3_000_000) / rng.u64(1..10_000);
            wheel.insert(ms(at), at);
            expected.push(at);
        }
        let mut fired = Vec::new();
        let mut now = 0;
        while !wheel.is_empty() {
            let next = wheel.next_deadline().unwrap();
            now = now.max(next.as_nanos() / 1_000_000);
            wheel.advance(ms(now), &mut |at: u64| {
                assert_eq!(at, now);
                fired.push(at);
            });
        }
        expected.sort_unstable();
        assert_eq!(fired, expected);
    }

    #[test]
    fn a_jump_fires_everything_in_order_and_cancelled_ones_never() {
        let mut wheel = TimerWheel::new();
        let keys: Vec<_> = (0..100).map(|i| wheel.insert(ms(i * 37), i)).collect();
        assert_eq!(wheel.cancel(keys[50]), Some(50));
        assert_eq!(wheel.cancel(keys[50]), None);
        let mut fired = Vec::new();
        wheel.advance(ms(1_000_000), &mut |i| fired.push(i));
        assert_eq!(fired.len(), 99);
        assert!(fired.is_sorted());
        assert_eq!(wheel.next_deadline(), None);
    }
}
