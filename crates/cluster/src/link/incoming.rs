//! What a node has of others' packets: how many of each session. Owns the rule by which one that
//! comes twice is passed over, and a connection that was replaced ends.

use super::frame::Hello;

/// What is known of one sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Incoming {
    incarnation: u64,
    session: u64,
    received: u64,
    /// The connection that may go on: the last that introduced itself.
    connection: u64,
}

/// What is to be done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    /// It is the next one.
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
        }
        self.connection += 1;
        Some(self.connection)
    }

    pub(super) fn received(&self) -> u64 {
        self.received
    }

    pub(super) fn arrives(&self, connection: u64, position: u64) -> Arrived {
        if connection != self.connection || position > self.received + 1 {
            Arrived::Wrong
        } else if position <= self.received {
            Arrived::Known
        } else {
            Arrived::Next
        }
    }

    /// The next one was taken.
    pub(super) fn taken(&mut self) {
        self.received += 1;
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
        incoming.taken();
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
        incoming.taken();
        assert!(!incoming.is_anew(&hello(5, 1)));
        assert!(incoming.is_anew(&hello(5, 2)));
        assert!(incoming.begin(&hello(5, 2)).is_some());
        assert_eq!(incoming.received(), 0);
        assert_eq!(incoming.begin(&hello(5, 1)), None);
        assert_eq!(incoming.begin(&hello(4, 9)), None);
        assert!(incoming.begin(&hello(6, 0)).is_some());
    }
}
