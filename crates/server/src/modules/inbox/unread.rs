//! What of a conversation is unread (XEP-0430 section 4), seen from its end: messages of others
//! count until one is met that was read, and with it everything in front of it. Read is what a mark
//! of XEP-0490 or a displayed marker of XEP-0333 names, and what the account itself has said. Knows
//! messages, and neither logs nor nodes.

use store::Seq;
use xml::Frame;

const NS_MARKERS: &str = "urn:xmpp:chat-markers:0";
const NS_CORRECTION: &str = "urn:xmpp:message-correct:0";
const NS_RETRACTION: &str = "urn:xmpp:message-retract:1";

/// Displayed markers that are remembered until the message that they name is met. Each says at
/// least as much as those in front of it, so the last ones are enough but for unknown ids.
const MARKERS_MAX: usize = 4;

/// One conversation, as far back as it was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tail {
    /// Messages of others that nobody has read.
    pub(super) unread: u64,
    /// The latest one that people see.
    pub(super) latest: Option<Seq>,
    /// Everything further in front has been read.
    pub(super) is_read: bool,
    /// Everything up to here has been read.
    pub(super) read_through: Seq,
    displayed: Vec<String>,
}

impl Tail {
    /// Everything up to a place has been read; 0 if nobody says so.
    pub(super) fn new(read_through: Seq) -> Tail {
        Tail {
            read_through,
            ..Tail::default()
        }
    }

    /// Whether nothing in front changes anything.
    pub(super) fn is_done(&self) -> bool {
        self.is_read && self.latest.is_some()
    }

    /// The message in front of those seen so far, of the account itself or of somebody else.
    pub(super) fn see(&mut self, seq: Seq, is_own: bool, frame: &Frame) {
        let is_seen = is_seen_by_people(frame);
        if is_seen {
            self.latest.get_or_insert(seq);
        }
        if self.is_read {
            return;
        }
        let id = frame.attr("id");
        let is_displayed = id.is_some_and(|id| self.displayed.iter().any(|named| *named == id));
        if seq <= self.read_through || is_displayed || is_own && is_seen {
            self.is_read = true;
        } else if is_own {
            let named = displayed(frame).filter(|_| self.displayed.len() < MARKERS_MAX);
            self.displayed.extend(named);
        } else if is_seen {
            self.unread += 1;
        }
    }
}

/// Whether people see a message as one: it has a body, open or encrypted, and changes no other one.
fn is_seen_by_people(frame: &Frame) -> bool {
    let mut has_body = false;
    for child in frame.children() {
        match (child.name(), child.ns()) {
            ("replace", NS_CORRECTION) | ("retract", NS_RETRACTION) => return false,
            ("body", ns) => has_body |= ns == xmpp::ns::CLIENT,
            // XEP-0384 and what else is encrypted without a body for others.
            ("encrypted", _) => has_body = true,
            _ => {}
        }
    }
    has_body && frame.attr_raw("type") != Some("error")
}

/// The message that a marker says was displayed, or acknowledged by a person.
fn displayed(frame: &Frame) -> Option<String> {
    let mut markers = frame.children().filter(|child| child.ns() == NS_MARKERS);
    let marker = markers.find(|child| matches!(child.name(), "displayed" | "acknowledged"))?;
    marker.attr("id").map(|id| id.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages from the last one on: whether it is one's own, its children. Their ids are their
    /// places.
    fn tail(read_through: Seq, messages: &[(bool, &str)]) -> Tail {
        let mut tail = Tail::new(read_through);
        for (at, (is_own, children)) in messages.iter().enumerate() {
            let seq = (messages.len() - at) as Seq;
            let frame = format!("<message id='{seq}' type='chat'>{children}</message>");
            tail.see(seq, *is_own, &Frame::parse(frame).unwrap());
        }
        tail
    }

    const HI: &str = "<body>hi</body>";

    #[test]
    fn what_others_said_is_unread_until_one_says_something() {
        let said = [(false, HI), (false, HI), (true, HI), (false, HI)];
        let found = tail(0, &said);
        assert_eq!((found.unread, found.latest), (2, Some(4)));
        assert!(found.is_done());
        assert_eq!(tail(0, &said[3..]).unread, 1);
        assert_eq!(tail(0, &[]), Tail::default());
    }

    #[test]
    fn a_mark_covers_everything_up_to_it() {
        let said = [(false, HI), (false, HI), (false, HI)];
        let unread = |mark| tail(mark, &said).unread;
        assert_eq!(
            [unread(0), unread(1), unread(2), unread(3), unread(9)],
            [3, 2, 1, 0, 0]
        );
    }

    #[test]
    fn a_displayed_marker_covers_the_message_that_it_names() {
        let marker = |id: &str| format!("<displayed xmlns='{NS_MARKERS}' id='{id}'/>");
        let with = |id: &str| {
            let marker = marker(id);
            tail(0, &[(false, HI), (true, &marker), (false, HI), (false, HI)]).unread
        };
        assert_eq!([with("2"), with("1"), with("none")], [1, 2, 3]);
        let theirs = marker("1");
        assert_eq!(
            tail(0, &[(false, &theirs), (false, HI)]).unread,
            1,
            "not one's own"
        );
        let received = format!("<received xmlns='{NS_MARKERS}' id='1'/>");
        assert_eq!(tail(0, &[(true, &received), (false, HI)]).unread, 1);
    }

    #[test]
    fn so_many_markers_are_remembered() {
        let markers: Vec<String> = (0..=MARKERS_MAX)
            .map(|n| format!("<displayed xmlns='{NS_MARKERS}' id='{n}x'/>"))
            .collect();
        let mut said: Vec<(bool, &str)> = markers.iter().map(|one| (true, one.as_str())).collect();
        said.push((false, HI));
        let mut found = tail(0, &said);
        assert_eq!((found.displayed.len(), found.unread), (MARKERS_MAX, 1));
        let beyond = format!("<message id='{MARKERS_MAX}x'>{HI}</message>");
        found.see(1, false, &Frame::parse(beyond).unwrap());
        assert_eq!(found.unread, 2, "one that was not remembered");
    }

    #[test]
    fn what_people_do_not_see_is_not_counted() {
        let correction = format!("{HI}<replace xmlns='{NS_CORRECTION}' id='1'/>");
        let retraction = format!("{HI}<retract xmlns='{NS_RETRACTION}' id='1'/>");
        for unseen in [
            "<received xmlns='urn:xmpp:receipts' id='1'/>",
            "<body xmlns='urn:x'>hi</body>",
            &correction,
            &retraction,
        ] {
            let found = tail(0, &[(false, unseen), (false, HI)]);
            assert_eq!((found.unread, found.latest), (1, Some(1)), "{unseen}");
            let own = tail(0, &[(true, unseen), (false, HI)]);
            assert_eq!(own.unread, 1, "{unseen}");
        }
        assert_eq!(
            tail(0, &[(false, "<encrypted xmlns='urn:xmpp:omemo:2'/>")]).unread,
            1
        );
    }
}
