//! What was handed to a link and not taken by the other side. Owns positions and what is sent again
//! after a connection was lost; no socket, no clock.

use std::collections::VecDeque;

/// Packets of one session: one life of the peer, as long as it belongs to the cluster.
#[derive(Default)]
pub(super) struct Outgoing {
    /// Position of the first packet in the queue.
    first: u64,
    /// Position of the next packet that leaves on the present connection.
    next: u64,
    queue: VecDeque<Vec<u8>>,
    /// Positions of those that are answers.
    answers: VecDeque<u64>,
    /// Positions of those that came back, in order. They keep their places until they are
    /// acknowledged.
    came_back: VecDeque<u64>,
}

/// What is not needed any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Freed {
    pub(super) packets: usize,
    pub(super) bytes: usize,
    /// How many of the packets are answers.
    pub(super) answers: usize,
}

impl Freed {
    /// A packet that is no answer.
    pub(super) fn one(bytes: usize) -> Freed {
        Freed {
            packets: 1,
            bytes,
            answers: 0,
        }
    }
}

/// The other side said something that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Impossible;

impl Outgoing {
    pub(super) fn new() -> Outgoing {
        Outgoing {
            first: 1,
            next: 1,
            queue: VecDeque::new(),
            answers: VecDeque::new(),
            came_back: VecDeque::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn push(&mut self, packet: Vec<u8>) {
        self.queue.push_back(packet);
    }

    /// An answer to a packet of the other side.
    pub(super) fn push_answer(&mut self, packet: Vec<u8>) {
        self.answers.push_back(self.first + self.queue.len() as u64);
        self.queue.push_back(packet);
    }

    /// Answers that the other side has not taken.
    pub(super) fn answers(&self) -> usize {
        self.answers.len()
    }

    /// A new connection: the other side has so many packets of the session. What follows is sent
    /// again: that is the second figure.
    pub(super) fn connected(&mut self, received: u64) -> Result<(Freed, u64), Impossible> {
        let freed = self.acknowledged(received)?;
        let again = self.next - self.first;
        self.next = self.first;
        Ok((freed, again))
    }

    /// The other side has all packets up to this one.
    pub(super) fn acknowledged(&mut self, received: u64) -> Result<Freed, Impossible> {
        if received >= self.first + self.queue.len() as u64 {
            return Err(Impossible);
        }
        let mut freed = Freed::default();
        while self.first <= received {
            // Invariant: `received` is behind the front, as was checked above.
            freed.bytes += self.queue.pop_front().map_or(0, |packet| packet.len());
            freed.packets += 1;
            self.first += 1;
        }
        while self.answers.pop_front_if(|at| *at < self.first).is_some() {
            freed.answers += 1;
        }
        while self.came_back.pop_front_if(|at| *at < self.first).is_some() {}
        self.next = self.next.max(self.first);
        Ok(freed)
    }

    /// The other side did not take the packet at a position. Its acknowledgement comes later.
    /// Nothing if that was said before.
    pub(super) fn moved(&mut self, position: u64) -> Result<Option<&[u8]>, Impossible> {
        let at = position.checked_sub(self.first).ok_or(Impossible)?;
        let packet = self.queue.get(at as usize).ok_or(Impossible)?;
        match self.came_back.binary_search(&position) {
            Ok(_) => Ok(None),
            Err(at) => {
                self.came_back.insert(at, position);
                Ok(Some(packet))
            }
        }
    }

    /// The next packet to send on this connection, with its position. Empty if it came back on
    /// another one, of which the other side does not know that it was heard.
    pub(super) fn next(&mut self) -> Option<(u64, &[u8])> {
        let packet = self.queue.get((self.next - self.first) as usize)?;
        self.next += 1;
        let position = self.next - 1;
        match self.came_back.binary_search(&position) {
            Ok(_) => Some((position, &[])),
            Err(_) => Some((position, packet)),
        }
    }

    /// The peer is gone: everything that it did not acknowledge, but for what came back; and the
    /// places of that.
    pub(super) fn give_up(self) -> (Vec<Vec<u8>>, Freed) {
        let (mut left, mut freed) = (Vec::new(), Freed::default());
        for (position, packet) in (self.first..).zip(self.queue) {
            match self.came_back.binary_search(&position) {
                Ok(_) => {
                    freed.packets += 1;
                    freed.bytes += packet.len();
                }
                Err(_) => left.push(packet),
            }
        }
        (left, freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: u8) -> Outgoing {
        let mut outgoing = Outgoing::new();
        (1..=count).for_each(|n| outgoing.push(vec![n]));
        outgoing
    }

    /// Packets of a byte each.
    fn freed(packets: usize) -> Freed {
        Freed {
            packets,
            bytes: packets,
            answers: 0,
        }
    }

    fn sent(outgoing: &mut Outgoing) -> Vec<(u64, u8)> {
        let mut sent = Vec::new();
        while let Some((position, packet)) = outgoing.next() {
            sent.push((position, packet[0]));
        }
        sent
    }

    /// Goal: after a lost connection exactly what the other side does not have is sent again, with
    /// its position.
    #[test]
    fn what_was_not_received_is_sent_again() {
        let mut outgoing = filled(4);
        assert_eq!(outgoing.connected(0), Ok((freed(0), 0)));
        assert_eq!(sent(&mut outgoing), [(1, 1), (2, 2), (3, 3), (4, 4)]);
        assert_eq!(outgoing.acknowledged(1), Ok(freed(1)));
        assert_eq!(outgoing.connected(2), Ok((freed(1), 2)));
        assert_eq!(sent(&mut outgoing), [(3, 3), (4, 4)]);
        outgoing.push(vec![5]);
        assert_eq!(sent(&mut outgoing), [(5, 5)]);
        assert_eq!(outgoing.moved(4), Ok(Some(&[4][..])));
        assert_eq!(outgoing.acknowledged(4), Ok(freed(2)));
        assert_eq!(outgoing.give_up(), (vec![vec![5]], Freed::default()));
    }

    /// Goal: a packet that came back is nobody's any more: it comes back once, and is neither sent
    /// again nor given up, but keeps its place until that is acknowledged.
    #[test]
    fn what_came_back_is_sent_no_more() {
        let mut outgoing = filled(3);
        sent(&mut outgoing);
        assert_eq!(outgoing.moved(2), Ok(Some(&[2][..])));
        assert_eq!(outgoing.moved(2), Ok(None));
        assert_eq!(outgoing.connected(1), Ok((freed(1), 2)));
        assert_eq!(outgoing.next(), Some((2, &[][..])));
        assert_eq!(outgoing.next(), Some((3, &[3][..])));
        let other = Outgoing {
            came_back: outgoing.came_back.clone(),
            ..filled(3)
        };
        assert_eq!(other.give_up(), (vec![vec![1], vec![3]], freed(1)));
        assert_eq!(outgoing.acknowledged(3), Ok(freed(2)));
        assert!(outgoing.came_back.is_empty());
    }

    /// Goal: answers among the packets are counted until they are acknowledged.
    #[test]
    fn answers_are_counted_until_they_are_acknowledged() {
        let mut outgoing = filled(1);
        outgoing.push_answer(vec![2]);
        outgoing.push(vec![3]);
        outgoing.push_answer(vec![4]);
        assert_eq!(outgoing.answers(), 2);
        assert_eq!(outgoing.acknowledged(1).map(|freed| freed.answers), Ok(0));
        assert_eq!(outgoing.acknowledged(2).map(|freed| freed.answers), Ok(1));
        assert_eq!(outgoing.acknowledged(4).map(|freed| freed.answers), Ok(1));
        assert_eq!(outgoing.answers(), 0);
    }

    /// Goal: acknowledgements that overtake what was sent, and of what never was, are noticed.
    #[test]
    fn what_cannot_be_is_noticed() {
        let mut outgoing = filled(2);
        assert_eq!(outgoing.acknowledged(3), Err(Impossible));
        assert_eq!(outgoing.moved(3), Err(Impossible));
        assert_eq!(outgoing.acknowledged(2), Ok(freed(2)));
        assert_eq!(outgoing.moved(2), Err(Impossible));
        // Late ones are no news.
        assert_eq!(outgoing.acknowledged(1), Ok(freed(0)));
        assert_eq!(outgoing.next(), None);
        assert_eq!(outgoing.len(), 0);
    }
}
