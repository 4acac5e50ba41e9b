//! XEP-0352 Client State Indication 1.0.0: what a device in a pocket need not wake up for. Presence
//! and chat states wait while it is inactive, the latest of each contact, and leave in order, in
//! front of whatever it does wake up for.

use xml::{Frame, FrameRef};
use xmpp::ns;
use xmpp::stanza::{self, Kind, PresenceType};

use super::{Module, Switch, Xep, hints};
use crate::options::HeldLimits;

const NS: &str = ns::CLIENT_STATE;

pub(crate) const MODULE: Module = Module {
    name: "csi",
    switch: Switch::ByOperator,
    needs: &[],
    xeps: &[Xep {
        number: 352,
        name: "Client State Indication",
        version: "1.0.0",
        note: "Presence and chat states wait, the latest of each contact, and leave in order.",
    }],
    host_features: &[],
    account_features: &[],
    account: &[],
    host: &[],
};

/// The stream feature (section 3).
pub(crate) const FEATURE: &[u8] = b"<csi xmlns='urn:xmpp:csi:0'/>";

/// What a client says of itself, outside any stanza (section 4): whether it is active. `None` for
/// any other element.
pub(crate) fn parse(element: &FrameRef<'_>) -> Option<bool> {
    match (element.name(), element.ns()) {
        ("active", NS) => Some(true),
        ("inactive", NS) => Some(false),
        _ => None,
    }
}

/// What a stanza is about that can wait: a later one about the same takes its place.
#[derive(PartialEq, Eq)]
enum Matter {
    /// The presence of a full address.
    Presence(String),
    /// What somebody is doing in a conversation: from, to.
    ChatState(String, String),
}

/// What waits for an inactive session.
#[derive(Default)]
pub(crate) struct Held {
    frames: Vec<(Matter, Frame)>,
    bytes: usize,
}

impl Held {
    /// Takes a stanza that can wait. Any other comes back: what is held goes first, then it.
    #[must_use]
    pub(crate) fn hold(&mut self, frame: Frame, limits: &HeldLimits) -> Option<Frame> {
        let Some(matter) = matter(&frame) else {
            return Some(frame);
        };
        let bytes = frame.as_bytes().len();
        let mut held = self.frames.iter();
        if let Some(at) = held.position(|(older, _)| *older == matter) {
            let (_, older) = self.frames.remove(at);
            self.bytes -= older.as_bytes().len();
        }
        if self.frames.len() >= limits.stanzas || self.bytes + bytes > limits.bytes {
            return Some(frame);
        }
        self.bytes += bytes;
        self.frames.push((matter, frame));
        None
    }

    /// Everything that waits, in order.
    pub(crate) fn flush(&mut self) -> impl Iterator<Item = Frame> + use<> {
        self.bytes = 0;
        let frames = std::mem::take(&mut self.frames);
        frames.into_iter().map(|(_, frame)| frame)
    }

    /// Whether nothing waits.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

fn matter(frame: &Frame) -> Option<Matter> {
    match stanza::parse_kind(frame).ok()? {
        // A request for a subscription is for the user's eyes.
        Kind::Presence(PresenceType::Available | PresenceType::Unavailable) => {
            Some(Matter::Presence(attr(frame, "from")))
        }
        Kind::Message(_) => match copied(frame) {
            Some(message) => chat_state(&message),
            None => chat_state(frame),
        },
        Kind::Presence(_) | Kind::Iq(_) => None,
    }
}

fn chat_state(message: &Frame) -> Option<Matter> {
    let is_state = hints::keep(message).is_chat_state_only;
    is_state.then(|| Matter::ChatState(attr(message, "from"), attr(message, "to")))
}

/// The message in a carbon copy.
fn copied(frame: &Frame) -> Option<Frame> {
    let mut copies = frame.children().filter(|child| child.ns() == ns::CARBONS);
    let forwarded = copies.next()?.children().next()?;
    forwarded
        .children()
        .next()
        .and_then(|message| Frame::parse(message.to_xml()).ok())
}

fn attr(frame: &Frame, name: &str) -> String {
    frame.attr(name).unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::carbons::{self, Direction};

    const FEW: HeldLimits = HeldLimits {
        stanzas: 4,
        bytes: 1_000,
    };

    fn frame(xml: &str) -> Frame {
        Frame::parse(xml).unwrap()
    }

    fn presence(from: &str, show: &str) -> Frame {
        frame(&format!(
            "<presence from='{from}'><show>{show}</show></presence>"
        ))
    }

    fn state(from: &str, state: &str) -> Frame {
        let ns = "http://jabber.org/protocol/chatstates";
        frame(&format!(
            "<message from='{from}' type='chat'><{state} xmlns='{ns}'/></message>"
        ))
    }

    #[test]
    fn the_latest_of_each_contact_waits_in_order() {
        let mut held = Held::default();
        for stanza in [
            presence("a@b/1", "away"),
            presence("a@b/2", "away"),
            state("a@b/1", "composing"),
            presence("a@b/1", "xa"),
            state("a@b/1", "paused"),
        ] {
            assert_eq!(held.hold(stanza, &FEW), None);
        }
        let left: Vec<Frame> = held.flush().collect();
        let expected = [
            presence("a@b/2", "away"),
            presence("a@b/1", "xa"),
            state("a@b/1", "paused"),
        ];
        assert_eq!(left, expected);
        assert!(held.is_empty());
        assert_eq!(held.bytes, 0);
    }

    #[test]
    fn copies_of_chat_states_wait_as_well() {
        let copy = |message: &Frame| {
            let mut out = Vec::new();
            carbons::write(message, Direction::Sent, "me@b", "me@b/c", &mut out);
            Frame::parse(out).unwrap()
        };
        let mut held = Held::default();
        for message in [
            state("a@b/1", "active"),
            state("a@b/2", "active"),
            state("a@b/1", "gone"),
        ] {
            assert_eq!(held.hold(copy(&message), &FEW), None);
        }
        assert_eq!(held.flush().count(), 2);
        let message = frame("<message from='a@b' type='chat'><body>hi</body></message>");
        assert!(held.hold(copy(&message), &FEW).is_some());
    }

    #[test]
    fn what_matters_does_not_wait() {
        let mut held = Held::default();
        for xml in [
            "<message type='chat'><body>hi</body></message>",
            "<message type='chat'><received xmlns='urn:xmpp:receipts' id='1'/></message>",
            "<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>",
            "<presence type='subscribe' from='a@b'/>",
            "<presence type='error' from='a@b'/>",
        ] {
            assert_eq!(held.hold(frame(xml), &FEW), Some(frame(xml)));
        }
        assert!(held.is_empty());
        let gone = frame("<presence type='unavailable' from='a@b/c'/>");
        assert_eq!(held.hold(gone, &FEW), None);
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut held = Held::default();
        for contact in 0..FEW.stanzas {
            assert_eq!(
                held.hold(presence(&format!("{contact}@b/c"), "away"), &FEW),
                None
            );
        }
        assert_eq!(
            held.hold(presence("0@b/c", "xa"), &FEW),
            None,
            "it takes a place"
        );
        let one_more = presence("more@b/c", "away");
        assert_eq!(held.hold(one_more.clone(), &FEW), Some(one_more));
        assert_eq!(held.flush().count(), FEW.stanzas);
        let large = presence("a@b/c", &"x".repeat(FEW.bytes));
        assert_eq!(held.hold(large.clone(), &FEW), Some(large));
    }

    #[test]
    fn a_client_says_whether_it_is_active() {
        let said = |xml: &str| parse(&frame(xml).as_ref());
        assert_eq!(said("<active xmlns='urn:xmpp:csi:0'/>"), Some(true));
        assert_eq!(said("<inactive xmlns='urn:xmpp:csi:0'/>"), Some(false));
        assert_eq!(said("<idle xmlns='urn:xmpp:csi:0'/>"), None);
        assert_eq!(said("<active xmlns='urn:example'/>"), None);
    }
}
