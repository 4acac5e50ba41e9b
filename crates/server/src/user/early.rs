//! What others send to a session before its client is back, that is in no log: answers to what it
//! had asked for, and what is said to its full address while its account has just gone to another
//! shard or home, or after a crash. It is kept without a count and sent once the client is there.
//! What the account itself says is told anew then, and so is presence.

use std::collections::VecDeque;

use actor::Name;
use delivery::{Count, SessionNumber};
use xml::Frame;
use xmpp::sm::Limits;

use super::User;
use super::managed::What;
use crate::lines;

/// Stanzas, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Early {
    stanzas: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Early {
    /// Whether one more of so many bytes is kept, and none gives way to it. One alone is.
    pub(super) fn takes(&self, bytes: usize, limits: Limits) -> bool {
        let has_room = self.bytes + bytes <= limits.bytes as usize;
        self.stanzas.is_empty() || self.stanzas.len() < usize::from(limits.stanzas) && has_room
    }

    /// Keeps one more. With too many or too much the oldest give way; one has room alone.
    fn keep(&mut self, stanza: Vec<u8>, limits: Limits) {
        self.bytes += stanza.len();
        self.stanzas.push_back(stanza);
        let (most, bytes_max) = (usize::from(limits.stanzas), limits.bytes as usize);
        while self.stanzas.len() > 1 && (self.stanzas.len() > most || self.bytes > bytes_max) {
            let given_up = self.stanzas.pop_front();
            self.bytes -= given_up.map_or(0, |stanza| stanza.len());
        }
    }
}

impl User {
    /// Keeps a stanza for a session whose client is not back, if somebody else sent it.
    pub(super) fn keep_early(&mut self, at: usize, what: What, stanza: Vec<u8>) {
        let limits = self.home.bounds().unlogged;
        if what == What::Other
            && is_of_others(&self.name, &stanza)
            && let Some(managed) = &mut self.sessions[at].managed
        {
            managed.early.get_or_insert_default().keep(stanza, limits);
        }
    }

    /// The client is back: it is sent them behind what the log owes it, and in front of all that
    /// comes from now on. `is_counting`: the inbox counts what is written already.
    pub(super) fn give_early(&mut self, at: usize, is_counting: bool) {
        let limits = self.home.bounds().unlogged;
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        let number = SessionNumber::new(managed.number);
        let early = managed.early.take().into_iter();
        for stanza in early.flat_map(|early| early.stanzas) {
            let is_kept = managed.push(What::Other, &stanza, limits);
            self.has_full_session |= managed.is_full;
            if let Some(log) = self.log.as_mut().filter(|_| is_kept && is_counting) {
                log.inbox.will_write(number);
                let count = log.inbox.wrote(number, false);
                let sent = Some(Count::new(managed.out.sent()));
                debug_assert_eq!(count, sent, "both count alike");
            }
        }
    }
}

fn is_of_others(user: &Name, stanza: &[u8]) -> bool {
    let tag = Frame::of_start_tag(stanza);
    let from = tag.as_ref().and_then(|tag| tag.attr("from"));
    from.is_some_and(|from| !lines::is_own(user, &from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_say_is_kept() {
        let user = Name::from("romeo@localhost");
        for (stanza, is_kept) in [
            (
                "<iq type='result' id='1' from='room@rooms.localhost'/>",
                true,
            ),
            (
                "<message from='romeo@localhost/desk'><body>a</body></message>",
                true,
            ),
            (
                "<iq id=\"a>'b\" type='result' from='juliet@localhost/desk'/>",
                true,
            ),
            ("<iq type='set' id='push'><query/></iq>", false),
            ("<iq type='result' id='1' from='romeo@localhost'/>", false),
            ("<iq type='result' id='1' from='localhost'/>", false),
            ("", false),
        ] {
            assert_eq!(is_of_others(&user, stanza.as_bytes()), is_kept, "{stanza}");
        }
    }

    #[test]
    fn the_oldest_give_way() {
        let limits = Limits {
            stanzas: 3,
            bytes: 10,
            ..Limits::default()
        };
        let mut early = Early::default();
        let mut kept = |bytes: usize| {
            early.keep(vec![b'x'; bytes], limits);
            let lengths: Vec<usize> = early.stanzas.iter().map(Vec::len).collect();
            assert_eq!(early.bytes, lengths.iter().sum::<usize>());
            lengths
        };
        assert!(Early::default().takes(20, limits));
        assert_eq!(kept(20), [20]);
        assert_eq!(kept(1), [1]);
        assert_eq!(kept(2), [1, 2]);
        assert_eq!(kept(3), [1, 2, 3]);
        assert_eq!(kept(4), [2, 3, 4]);
        assert_eq!(kept(6), [4, 6]);
        assert!(!early.takes(1, limits), "bytes");
        early.keep(vec![b'x'; 3], limits);
        assert!(early.takes(1, limits) && !early.takes(2, limits));
        (0..2).for_each(|_| early.keep(Vec::new(), limits));
        assert!(!early.takes(0, limits), "stanzas");
    }
}
