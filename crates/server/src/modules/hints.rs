//! What a message is worth: the one rule for logs, archives, carbons and client states. It knows
//! XEP-0334 Message Processing Hints 0.4.0, XEP-0085 Chat State Notifications 2.1, and what gives a
//! message content without a body, as XEP-0184 receipts, XEP-0333 markers, XEP-0308 corrections and
//! XEP-0424 retractions do. All of these go from client to client as they are.

use xml::{Child, Frame};
use xmpp::ns;
use xmpp::stanza::{self, Kind, MessageType};

use super::{Module, Switch, Xep, mam};

/// An extension that needs nothing of a server but to be routed and stored by the rules below.
const fn passed(number: u16, name: &'static str, version: &'static str) -> Xep {
    let note = "From client to client; what is kept and copied of it.";
    Xep {
        number,
        name,
        version,
        note,
    }
}

pub(super) const MODULE: Module = Module {
    name: "hints",
    switch: Switch::Always("it is the rule by which messages are kept and copied"),
    needs: &[],
    xeps: &[
        passed(85, "Chat State Notifications", "2.1"),
        passed(184, "Message Delivery Receipts", "1.4.0"),
        passed(308, "Last Message Correction", "1.2.1"),
        passed(333, "Displayed Markers", "0.5.0"),
        passed(334, "Message Processing Hints", "0.4.0"),
    ],
    host_features: &[],
    account_features: &[],
    account: &[],
    host: &[],
};

const NS_CHAT_STATES: &str = "http://jabber.org/protocol/chatstates";
const NS_RECEIPTS: &str = "urn:xmpp:receipts";
const NS_MARKERS: &str = "urn:xmpp:chat-markers:0";
const NS_CORRECTION: &str = "urn:xmpp:message-correct:0";
pub(super) const NS_RETRACTION: &str = "urn:xmpp:message-retract:1";
const NS_FASTENING: &str = "urn:xmpp:fasten:0";
const NS_INVITATION: &str = "jabber:x:conference";
const NS_MUC_USER: &str = "http://jabber.org/protocol/muc#user";
const NS_OCCUPANT_ID: &str = "urn:xmpp:occupant-id:0";

/// What may be done with a stanza. Nothing, for what is no message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keep {
    /// It is kept until its recipient has it.
    pub log: bool,
    /// It is shown by queries of the archive.
    pub archive: bool,
    /// The other devices of its sender and of its recipient get copies (XEP-0280 section 6).
    pub carbon: bool,
    /// It only says that somebody is typing, or has stopped.
    pub is_chat_state_only: bool,
    /// It is for all of a room: kept until the room has it.
    pub for_room: bool,
}

/// What a child of a message says about it.
enum Says {
    /// Nothing: it accompanies something.
    Nothing,
    /// Somebody is typing.
    ChatState,
    /// The message has content, of a kind that people exchange or not.
    Content {
        is_conversation: bool,
    },
    NoStore,
    NoPermanentStore,
    NoCopy,
    Store,
}

/// Classifies a stanza. A child that is unknown here counts as content: clients invent more than
/// servers know of.
pub(crate) fn keep(frame: &Frame) -> Keep {
    let Ok(Kind::Message(kind)) = stanza::parse_kind(frame) else {
        return Keep::default();
    };
    let (mut has_state, mut has_content, mut is_conversation) = (false, false, false);
    let (mut store, mut no_store, mut no_permanent, mut no_copy) = (false, false, false, false);
    for child in frame.children() {
        match says(&child) {
            Says::Nothing => {}
            Says::ChatState => has_state = true,
            Says::Content {
                is_conversation: is,
            } => {
                has_content = true;
                is_conversation |= is;
            }
            Says::NoStore => no_store = true,
            Says::NoPermanentStore => no_permanent = true,
            Says::NoCopy => no_copy = true,
            Says::Store => store = true,
        }
    }
    let is_message = matches!(kind, MessageType::Normal | MessageType::Chat);
    let log = is_message && (has_content || store) && !no_store;
    let by_type = match kind {
        MessageType::Chat => true,
        MessageType::Normal => is_conversation || has_state,
        MessageType::Groupchat | MessageType::Headline | MessageType::Error => false,
    };
    Keep {
        log,
        archive: log && !no_permanent,
        carbon: by_type && !no_copy,
        is_chat_state_only: has_state && !has_content,
        for_room: kind == MessageType::Groupchat && (has_content || store) && !no_store,
    }
}

fn says(child: &Child<'_>) -> Says {
    let content = |is_conversation| Says::Content { is_conversation };
    if child.is("body", ns::CLIENT) {
        return content(true); // That of most messages.
    }
    match (child.name(), child.ns()) {
        // A result of a room's archive is there already (XEP-0313).
        ("no-store", ns::HINTS) | ("result", mam::NS) => Says::NoStore,
        ("no-permanent-store", ns::HINTS) => Says::NoPermanentStore,
        ("no-copy", ns::HINTS) | ("private", ns::CARBONS) => Says::NoCopy,
        ("store", ns::HINTS) => Says::Store,
        (_, NS_CHAT_STATES) => Says::ChatState,
        // XEP-0160 section 3 counts a thread with the chat state that it belongs to.
        ("thread", ns::CLIENT)
        | ("request", NS_RECEIPTS)
        | ("markable", NS_MARKERS)
        | (_, ns::HINTS | ns::CARBONS | ns::STANZA_ID | ns::DELAY) => Says::Nothing,
        // What a room adds to all that comes from its occupants, and their clients to what they say
        // to one of them (XEP-0045 section 7.5).
        ("occupant-id", NS_OCCUPANT_ID) => Says::Nothing,
        ("x", NS_MUC_USER) if child.children().next().is_none() => Says::Nothing,
        (_, NS_RECEIPTS | NS_MARKERS | NS_CORRECTION | NS_RETRACTION) => content(true),
        (_, NS_FASTENING | NS_INVITATION | NS_MUC_USER) => content(true),
        _ => content(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str, children: &str) -> Keep {
        let children = children
            .replace("STATE", NS_CHAT_STATES)
            .replace("HINT", ns::HINTS);
        let message = format!("<message type='{kind}'>{children}</message>");
        keep(&Frame::parse(message).unwrap())
    }

    fn all() -> Keep {
        Keep {
            log: true,
            archive: true,
            carbon: true,
            is_chat_state_only: false,
            for_room: false,
        }
    }

    #[test]
    fn what_has_content_is_kept() {
        for children in [
            "<body>hi</body>",
            "<body/><composing xmlns='STATE'/>",
            "<received xmlns='urn:xmpp:receipts' id='1'/>",
            "<displayed xmlns='urn:xmpp:chat-markers:0' id='1'/>",
            "<body>hi</body><replace xmlns='urn:xmpp:message-correct:0' id='1'/>",
            "<retract xmlns='urn:xmpp:message-retract:1' id='1'/>",
            "<x xmlns='jabber:x:conference' jid='room@muc.example'/>",
        ] {
            assert_eq!(of("chat", children), all(), "{children}");
            assert_eq!(of("normal", children), all(), "{children}");
            for kind in ["headline", "error"] {
                assert_eq!(of(kind, children), Keep::default(), "{kind} {children}");
            }
            let for_room = Keep {
                for_room: true,
                ..Keep::default()
            };
            assert_eq!(of("groupchat", children), for_room, "{children}");
        }
        let unknown = "<x xmlns='urn:example'/>";
        assert_eq!(of("chat", unknown), all());
        let carbon = false;
        assert_eq!(of("normal", unknown), Keep { carbon, ..all() });
    }

    #[test]
    fn results_of_an_archive_are_not_kept_once_more() {
        let result = "<result xmlns='urn:xmpp:mam:2' id='1'><forwarded/></result>";
        for kind in ["normal", "chat"] {
            let keep = of(kind, result);
            assert!(!keep.log && !keep.archive && !keep.for_room, "{keep:?}");
        }
    }

    #[test]
    fn what_only_accompanies_is_not_kept() {
        for children in [
            "",
            "<thread>1</thread>",
            "<request xmlns='urn:xmpp:receipts'/>",
            "<markable xmlns='urn:xmpp:chat-markers:0'/>",
            "<origin-id xmlns='urn:xmpp:sid:0' id='1'/>",
            "<occupant-id xmlns='urn:xmpp:occupant-id:0' id='1'/>\
             <x xmlns='http://jabber.org/protocol/muc#user'/>",
        ] {
            let carbon = true;
            let expected = Keep {
                carbon,
                ..Keep::default()
            };
            assert_eq!(of("chat", children), expected, "{children}");
            assert_eq!(of("normal", children), Keep::default(), "{children}");
        }
    }

    #[test]
    fn chat_states_are_copied_and_not_kept() {
        for kind in ["chat", "normal"] {
            let (carbon, is_chat_state_only) = (true, true);
            let expected = Keep {
                carbon,
                is_chat_state_only,
                ..Keep::default()
            };
            for with in [
                "<thread>1</thread>",
                "<x xmlns='http://jabber.org/protocol/muc#user'/>",
            ] {
                let state = of(kind, &format!("{with}<active xmlns='STATE'/>"));
                assert_eq!(state, expected, "{with}");
            }
        }
    }

    #[test]
    fn hints_are_followed() {
        let body = "<body>hi</body>";
        let hinted = |hint: &str| of("chat", &format!("{body}<{hint} xmlns='HINT'/>"));
        let (log, archive, carbon) = (false, false, false);
        assert_eq!(
            hinted("no-store"),
            Keep {
                log,
                archive,
                ..all()
            }
        );
        assert_eq!(hinted("no-permanent-store"), Keep { archive, ..all() });
        assert_eq!(hinted("no-copy"), Keep { carbon, ..all() });
        assert_eq!(hinted("store"), all());
        let private = format!("{body}<private xmlns='urn:xmpp:carbons:2'/>");
        assert_eq!(of("chat", &private), Keep { carbon, ..all() });
        // A hint can make a chat state worth keeping, but not a headline.
        let state = "<active xmlns='STATE'/><store xmlns='HINT'/>";
        let is_chat_state_only = true;
        assert_eq!(
            of("chat", state),
            Keep {
                is_chat_state_only,
                ..all()
            }
        );
        assert!(!of("groupchat", "<body/><no-store xmlns='HINT'/>").for_room);
        assert!(!of("headline", "<body/><store xmlns='HINT'/>").log);
        assert!(!of("chat", "<no-store xmlns='HINT'/><store xmlns='HINT'/>").log);
    }

    #[test]
    fn what_is_no_message_is_nothing() {
        for xml in ["<presence/>", "<iq type='get' id='1'><body/></iq>"] {
            assert_eq!(keep(&Frame::parse(xml).unwrap()), Keep::default());
        }
    }
}
