//! What a node has of others' packets: how many of each session. Owns the rule by which one that
//! comes twice is passed over, and a connection that was replaced ends.
//!
//! A packet that goes back has arrived as well, and its sender has to hear that it does: what was
//! said of it may have been lost with the connection. So it is asked for again with the next one,
//! and goes back again.

use std::collections::VecDeque;

use super::frame::{ASKS_AGAIN, Hello};

/// What is known of one sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Incoming {
    incarnation: u64,
    session: u64,
    received: u64,
    /// The connection that may go on: the last that introduced itself.
    connection: u64,
    /// The farthest position that has come on it.
    came: u64,
    /// Positions of packets that went back, of which the sender may not know: in order.
    went_back: VecDeque<u64>,
}

/// What is to be done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    /// It is the next one, or one that went back.
    Next,
    /// It was taken before.
    Known,
    /// Another connection goes on, or one is missing: this one ends.
    Wrong,
}

impl Incoming {
    /// Whether a session of the sender was known, and this one is another: what was under way in
    /// that one will not come.
    pub(super) fn is_anew(&self, hello: &Hello) -> bool {
        let known = (self.incarnation, self.session);
        known != (0, 0) && (hello.incarnation, hello.session) > known
    }

    /// A connection introduces itself. `None` if a later one of the sender did already.
    pub(super) fn begin(&mut self, hello: &Hello) -> Option<u64> {
        let session = (hello.incarnation, hello.session);
        if session < (self.incarnation, self.session) {
            return None;
        }
        if session > (self.incarnation, self.session) {
            (self.incarnation, self.session) = session;
            self.received = 0;
            self.went_back.clear();
        }
        self.came = 0;
        self.connection += 1;
        Some(self.connection)
    }

    /// Up to where the sender has heard of all, once it hears this behind what was said to the
    /// connection: nothing from the first on that went back, unless it has come on this connection.
    /// A sender of a version that does not know that those are asked for again would have them come
    /// back twice.
    pub(super) fn settled(&self, version: u32) -> u64 {
        let mut went_back = self.went_back.iter();
        let next = went_back.find(|one| **one > self.came);
        let next = next.filter(|_| version >= ASKS_AGAIN);
        next.map_or(self.received, |next| next - 1)
    }

    pub(super) fn arrives(&mut self, connection: u64, position: u64) -> Arrived {
        if connection != self.connection || position > self.received + 1 {
            return Arrived::Wrong;
        }
        if self.came == 0 {
            // Of what is in front of the first that it sends, it has heard.
            while self.went_back.pop_front_if(|one| *one < position).is_some() {}
        }
        self.came = self.came.max(position);
        match position <= self.received && self.went_back.binary_search(&position).is_err() {
            true => Arrived::Known,
            false => Arrived::Next,
        }
    }

    /// That one was taken, or goes back. As many of the latter are remembered as a sender may have
    /// under way.
    pub(super) fn taken(&mut self, position: u64, goes_back: bool, under_way_max: usize) {
        self.received = self.received.max(position);
        match (self.went_back.binary_search(&position), goes_back) {
            (Ok(at), false) => drop(self.went_back.remove(at)),
            (Err(at), true) => self.went_back.insert(at, position),
            (Ok(_), true) | (Err(_), false) => {}
        }
        while self.went_back.len() > under_way_max {
            self.went_back.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::outgoing::Outgoing;
    use super::*;

    fn hello(incarnation: u64, session: u64) -> Hello {
        Hello {
            version_min: 1,
            version: 1,
            deployment: String::new(),
            from: String::new(),
            incarnation,
            session,
            to: String::new(),
        }
    }

    /// Goal: each packet of a session counts once, over any number of connections.
    #[test]
    fn packets_count_once() {
        let mut incoming = Incoming::default();
        let first = incoming.begin(&hello(5, 1)).unwrap();
        assert_eq!(incoming.arrives(first, 1), Arrived::Next);
        incoming.taken(1, false, 2);
        assert_eq!(incoming.arrives(first, 1), Arrived::Known);
        assert_eq!(incoming.arrives(first, 3), Arrived::Wrong);
        let second = incoming.begin(&hello(5, 1)).unwrap();
        assert_eq!(incoming.received, 1);
        assert_eq!(incoming.arrives(first, 2), Arrived::Wrong);
        assert_eq!(incoming.arrives(second, 2), Arrived::Next);
    }

    /// Goal: a new session begins at nothing, and an old one cannot come back.
    #[test]
    fn sessions_follow_each_other() {
        let mut incoming = Incoming::default();
        assert!(!incoming.is_anew(&hello(5, 1)));
        incoming.begin(&hello(5, 1)).unwrap();
        incoming.taken(1, false, 2);
        assert!(!incoming.is_anew(&hello(5, 1)));
        assert!(incoming.is_anew(&hello(5, 2)));
        assert!(incoming.begin(&hello(5, 2)).is_some());
        assert_eq!(incoming.received, 0);
        assert_eq!(incoming.begin(&hello(5, 1)), None);
        assert_eq!(incoming.begin(&hello(4, 9)), None);
        assert!(incoming.begin(&hello(6, 0)).is_some());
    }

    /// Goal: a packet that went back comes again with each connection, until its sender shows that
    /// it knows, or the packet is taken after all.
    #[test]
    fn what_went_back_comes_again() {
        let mut incoming = Incoming::default();
        let first = incoming.begin(&hello(5, 1)).unwrap();
        for position in 1..=6 {
            assert_eq!(incoming.arrives(first, position), Arrived::Next);
            incoming.taken(position, [2, 3, 5].contains(&position), 3);
        }
        assert_eq!(incoming.settled(ASKS_AGAIN), 6, "on this connection");
        let second = incoming.begin(&hello(5, 1)).unwrap();
        assert_eq!(incoming.settled(1), 6, "a sender of before");
        assert_eq!(incoming.settled(ASKS_AGAIN), 1);
        // It knows of the second.
        assert_eq!(incoming.arrives(second, 3), Arrived::Next);
        incoming.taken(3, true, 3);
        assert_eq!(incoming.settled(ASKS_AGAIN), 4, "the fifth is to come");
        assert_eq!(incoming.arrives(second, 4), Arrived::Known);
        assert_eq!(incoming.arrives(second, 5), Arrived::Next);
        incoming.taken(5, false, 3);
        assert_eq!(incoming.arrives(second, 5), Arrived::Known, "it was taken");
        for position in 7..=10 {
            incoming.taken(position, true, 3);
        }
        incoming.begin(&hello(5, 1)).unwrap();
        assert_eq!(incoming.settled(ASKS_AGAIN), 7, "the oldest are forgotten");
        incoming.begin(&hello(5, 2)).unwrap();
        assert_eq!((incoming.received, incoming.settled(ASKS_AGAIN)), (0, 0));
    }

    /// Goal: whichever packets go back and wherever connections end, a sender hears of each that
    /// went back once, and of all others that they were taken once. Method: both sides, of which
    /// one hears what the other says frame by frame, until the connection ends.
    #[test]
    fn each_packet_is_taken_or_comes_back_once() {
        const COUNT: u64 = 6;
        for pattern in 0u32..1 << COUNT {
            for ends_behind in 0..=2 * COUNT as usize {
                let goes_back = |position: u64| pattern >> (position - 1) & 1 == 1;
                let mut outgoing = Outgoing::new();
                (1..=COUNT).for_each(|n| outgoing.push(vec![n as u8]));
                let mut incoming = Incoming::default();
                let (mut taken, mut back) = (Vec::new(), Vec::new());
                // Three connections, of which the first two end behind so many frames.
                for connection in 0..3 {
                    let number = incoming.begin(&hello(5, 1)).unwrap();
                    let settled = incoming.settled(ASKS_AGAIN);
                    outgoing.connected(settled).expect("it was sent");
                    let mut heard = 0;
                    let may_hear = |heard: &mut usize| {
                        *heard += 1;
                        connection == 2 || *heard <= ends_behind
                    };
                    while let Some((position, packet)) = outgoing.next() {
                        let is_empty = packet.is_empty();
                        let arrived = incoming.arrives(number, position);
                        assert_ne!(arrived, Arrived::Wrong);
                        let back_again = arrived == Arrived::Next && !is_empty;
                        let back_again = back_again && goes_back(position);
                        if arrived == Arrived::Next {
                            incoming.taken(position, back_again, 99);
                            taken.extend((!back_again && !is_empty).then_some(position));
                        }
                        if back_again && may_hear(&mut heard) {
                            let moved = outgoing.moved(position).expect("it was sent");
                            back.extend(moved.map(|_| position));
                        }
                        if may_hear(&mut heard) {
                            let acknowledged = incoming.settled(ASKS_AGAIN);
                            outgoing.acknowledged(acknowledged).expect("it was sent");
                        }
                    }
                }
                assert_eq!(outgoing.len(), 0);
                let (all_back, all_taken): (Vec<u64>, Vec<u64>) =
                    (1..=COUNT).partition(|position| goes_back(*position));
                assert_eq!((back, taken), (all_back, all_taken), "{pattern:b}");
            }
        }
    }
}
