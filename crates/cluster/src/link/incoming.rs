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
    /// Nothing has come on it.
    is_new: bool,
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
        self.is_new = true;
        self.connection += 1;
        Some(self.connection)
    }

    /// How many have arrived.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// How many need not come again with a new connection. A sender of a version that does not know
    /// that packets which went back are asked for would have them come back twice.
    pub(super) fn settled(&self, version: u32) -> u64 {
        let first = self.went_back.front();
        let first = first.filter(|_| version >= ASKS_AGAIN);
        first.map_or(self.received, |first| first - 1)
    }

    pub(super) fn arrives(&mut self, connection: u64, position: u64) -> Arrived {
        if connection != self.connection || position > self.received + 1 {
            return Arrived::Wrong;
        }
        if std::mem::take(&mut self.is_new) {
            // Of what is in front of the first that it sends, it has heard.
            while self.went_back.pop_front_if(|one| *one < position).is_some() {}
        }
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
        assert_eq!(incoming.received(), 1);
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
        assert_eq!(incoming.received(), 0);
        assert_eq!(incoming.begin(&hello(5, 1)), None);
        assert_eq!(incoming.begin(&hello(4, 9)), None);
        assert!(incoming.begin(&hello(6, 0)).is_some());
    }

    /// Goal: a packet that went back comes again with each connection, until its sender shows that
    /// it knows, or the packet is taken after all.
    #[test]
    fn what_went_back_comes_again() {
        let mut incoming = Incoming::default();
        let mut number = incoming.begin(&hello(5, 1)).unwrap();
        for position in 1..=6 {
            assert_eq!(incoming.arrives(number, position), Arrived::Next);
            incoming.taken(position, [2, 3, 5].contains(&position), 3);
        }
        assert_eq!((incoming.received(), incoming.settled(ASKS_AGAIN)), (6, 1));
        assert_eq!(incoming.settled(1), 6, "a sender of before");
        // On the same connection nothing comes again.
        assert_eq!(incoming.arrives(number, 7), Arrived::Next);
        number = incoming.begin(&hello(5, 1)).unwrap();
        assert_eq!(
            incoming.arrives(number, 3),
            Arrived::Next,
            "it knows of the second"
        );
        incoming.taken(3, true, 3);
        assert_eq!(incoming.arrives(number, 4), Arrived::Known);
        assert_eq!(incoming.arrives(number, 5), Arrived::Next);
        incoming.taken(5, false, 3);
        assert_eq!((incoming.received(), incoming.settled(ASKS_AGAIN)), (6, 2));
        assert_eq!(incoming.arrives(number, 5), Arrived::Known, "it was taken");
        for position in 7..=10 {
            incoming.taken(position, true, 3);
        }
        assert_eq!(incoming.settled(ASKS_AGAIN), 7, "the oldest are forgotten");
        incoming.begin(&hello(5, 2)).unwrap();
        assert_eq!((incoming.received(), incoming.settled(ASKS_AGAIN)), (0, 0));
    }
}
