//! Packets that no node took: they wait until somebody is at home for them, but neither for ever
//! nor in any number. Owns how long and how many.

use std::collections::VecDeque;
use std::time::Duration;

use stdx::time::Moment;

/// Longest wait of a packet for a home; then its sender is told.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Packets that wait; at one more the sender of the oldest is told.
const PACKETS_MAX: usize = 65_536;

/// Their bytes; likewise.
const BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// See the module.
pub(crate) struct Returned {
    waiting: VecDeque<(Moment, Vec<u8>)>,
    bytes: usize,
    wait_max: Duration,
    packets_max: usize,
    bytes_max: usize,
}

impl Returned {
    pub(crate) fn new() -> Returned {
        Returned {
            waiting: VecDeque::new(),
            bytes: 0,
            wait_max: WAIT_MAX,
            packets_max: PACKETS_MAX,
            bytes_max: BYTES_MAX,
        }
    }

    /// Packets came back.
    pub(super) fn add(&mut self, now: Moment, packets: impl IntoIterator<Item = Vec<u8>>) {
        for packet in packets {
            self.bytes += packet.len();
            self.waiting.push_back((now, packet));
        }
    }

    /// Offers each to `take`, which says whether it has gone, and must have done with one for which
    /// this is the last time.
    pub(super) fn offer(&mut self, now: Moment, mut take: impl FnMut(&[u8], bool) -> bool) {
        let mut excess = self.waiting.len().saturating_sub(self.packets_max);
        let mut excess_bytes = self.bytes.saturating_sub(self.bytes_max);
        for _ in 0..self.waiting.len() {
            let Some((since, packet)) = self.waiting.pop_front() else {
                return;
            };
            let is_too_much = excess > 0 || excess_bytes > 0;
            let is_last = is_too_much || now.saturating_since(since) >= self.wait_max;
            excess = excess.saturating_sub(1);
            excess_bytes = excess_bytes.saturating_sub(packet.len());
            self.bytes -= packet.len();
            if !take(&packet, is_last) && !is_last {
                self.bytes += packet.len();
                self.waiting.push_back((since, packet));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a packet is offered until somebody takes it, and for the last time after ten seconds,
    /// however often it was looked at.
    #[test]
    fn a_packet_waits_ten_seconds() {
        let mut returned = Returned::new();
        assert_eq!(returned.wait_max, Duration::from_secs(10));
        let start = Moment::ZERO + Duration::from_secs(5);
        returned.add(start, [b"home".to_vec(), b"nowhere".to_vec()]);
        let mut offered = Vec::new();
        for ms in [0, 20, 40, 9_999] {
            returned.offer(start + Duration::from_millis(ms), |packet, is_last| {
                offered.push((ms, packet.to_vec(), is_last));
                packet == b"home"
            });
        }
        assert_eq!(offered.len(), 5);
        assert!(offered.iter().all(|(_, _, is_last)| !is_last));
        returned.add(start + Duration::from_secs(9), [b"later".to_vec()]);
        let mut last = Vec::new();
        for _ in 0..2 {
            returned.offer(start + WAIT_MAX, |packet, is_last| {
                last.push((packet.to_vec(), is_last));
                false
            });
        }
        let expected: [(&[u8], bool); 3] =
            [(b"nowhere", true), (b"later", false), (b"later", false)];
        assert!(
            last.iter().map(|(p, l)| (p.as_slice(), *l)).eq(expected),
            "{last:?}"
        );
    }

    /// Goal: more bytes than may wait are offered for the last time, the oldest first.
    #[test]
    fn the_oldest_go_at_the_bound_of_bytes() {
        let mut returned = Returned::new();
        let packet = |n: usize| vec![n as u8; BYTES_MAX / 4];
        returned.add(Moment::ZERO, (0..6).map(packet));
        let mut gone = Vec::new();
        let mut offer = |returned: &mut Returned| {
            returned.offer(Moment::ZERO, |packet, is_last| {
                gone.extend(is_last.then(|| packet[0]));
                packet[0] == 5
            });
        };
        offer(&mut returned);
        offer(&mut returned);
        assert_eq!(gone, [0, 1]);
        assert_eq!(returned.bytes, 3 * (BYTES_MAX / 4));
    }

    /// Goal: more than may wait is offered for the last time, the oldest first.
    #[test]
    fn the_oldest_go_at_the_bound() {
        let mut returned = Returned::new();
        let packet = |n: usize| n.to_le_bytes().to_vec();
        returned.add(Moment::ZERO, (0..PACKETS_MAX + 3).map(packet));
        let mut gone = Vec::new();
        returned.offer(Moment::ZERO, |packet, is_last| {
            gone.extend(is_last.then(|| packet.to_vec()));
            false
        });
        assert_eq!(gone, [packet(0), packet(1), packet(2)]);
        assert_eq!(returned.waiting.len(), PACKETS_MAX);
    }
}
