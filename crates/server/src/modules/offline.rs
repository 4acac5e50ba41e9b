//! XEP-0160 Best Practices for Handling Offline Messages 1.0.1 and XEP-0203 Delayed Delivery 2.0:
//! which messages are kept for later, and the stamp that they carry then. Where they are kept is
//! `user/inbox.rs`.

use stdx::time::Timestamp;
use xml::Frame;
use xml::build::Writer;

use super::{Module, Xep};

const NS_DELAY: &str = "urn:xmpp:delay";
const NS_HINTS: &str = "urn:xmpp:hints";
const NS_CHAT_STATES: &str = "http://jabber.org/protocol/chatstates";

pub(super) const MODULE: Module = Module {
    xeps: &[
        Xep {
            number: 160,
            name: "Best Practices for Handling Offline Messages",
            version: "1.0.1",
            note: "The pending part of the user's log; bounded by count and bytes.",
        },
        Xep {
            number: 203,
            name: "Delayed Delivery",
            version: "2.0",
            note: "On messages kept for later.",
        },
    ],
    host_features: &["msgoffline"],
    account_features: &[],
    account: &[],
    host: &[],
};

/// Whether a chat or normal message is kept for an absent recipient (XEP-0160 section 3): not what
/// only says that somebody is typing, and not what its sender does not want kept (XEP-0334).
pub fn is_worth_keeping(frame: &Frame) -> bool {
    let mut any = false;
    for child in frame.children() {
        match (child.name(), child.ns()) {
            ("no-store" | "no-permanent-store", NS_HINTS) => return false,
            ("thread", _) | (_, NS_CHAT_STATES | NS_HINTS) => {}
            _ => any = true,
        }
    }
    any
}

/// `<delay/>` with the time at which the server accepted the message.
pub fn delay(domain: &str, at: Timestamp) -> Vec<u8> {
    let mut out = Vec::with_capacity(96);
    let mut writer = Writer::new(&mut out);
    writer
        .open("delay")
        .attr("xmlns", NS_DELAY)
        .attr("from", domain);
    writer.attr("stamp", &at.to_string());
    writer.close();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(xml: &str) -> bool {
        is_worth_keeping(&Frame::parse(xml.as_bytes().to_vec()).unwrap())
    }

    #[test]
    fn only_messages_with_content_are_kept() {
        assert!(kept("<message><body>hi</body></message>"));
        assert!(kept("<message><x xmlns='urn:example'/></message>"));
        assert!(!kept("<message/>"));
        assert!(!kept(
            "<message><composing xmlns='http://jabber.org/protocol/chatstates'/></message>"
        ));
        assert!(!kept(
            "<message><thread>1</thread><active xmlns='http://jabber.org/protocol/chatstates'/></message>"
        ));
        assert!(!kept(
            "<message><body>hi</body><no-store xmlns='urn:xmpp:hints'/></message>"
        ));
    }
}
