//! XEP-0280 Message Carbons 1.0.1: copies of a conversation for the other devices of an account, in
//! the form of XEP-0297 Stanza Forwarding 1.0. Which devices want them is in their sessions.

use xml::Frame;
use xml::build::Writer;
use xmpp::error::Condition;
use xmpp::ns;

use super::hints::Keep;
use super::{AccountHandler, Change, Module, Outcome, Switch, View, Xep};
use crate::iq::Request;

pub(crate) const MODULE: Module = Module {
    name: "carbons",
    switch: Switch::ByOperator,
    needs: &[],
    xeps: &[
        Xep {
            number: 280,
            name: "Message Carbons",
            version: "1.0.1",
            note: "A copy is the same entry of the log, acknowledged and sent again like it.",
        },
        Xep {
            number: 297,
            name: "Stanza Forwarding",
            version: "1.0",
            note: "In carbons and in results of the archive.",
        },
    ],
    host_features: &[ns::CARBONS],
    account_features: &[ns::CARBONS],
    account: &[
        ("enable", ns::CARBONS, AccountHandler::Reads(enable)),
        ("disable", ns::CARBONS, AccountHandler::Reads(disable)),
    ],
    host: &[],
};

fn enable(_view: &View<'_>, request: &Request<'_>) -> Outcome {
    switch(request, true)
}

fn disable(_view: &View<'_>, request: &Request<'_>) -> Outcome {
    switch(request, false)
}

fn switch(request: &Request<'_>, is_on: bool) -> Outcome {
    if !request.asker.is_owner() {
        return Outcome::error(Condition::Forbidden);
    }
    if !request.is_set {
        return Outcome::error(Condition::BadRequest);
    }
    Outcome::done().and(Change::Carbons(is_on))
}

const NS_MUC_USER: &str = "http://jabber.org/protocol/muc#user";

/// Which way a message went, as its copy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the account.
    Received,
    /// From another device of the account.
    Sent,
}

/// Whether a message is copied (section 6). What came from an occupant of a room is not: the room
/// gives it to every device that is in there.
pub(crate) fn are_due(keep: Keep, frame: &Frame, direction: Direction) -> bool {
    keep.carbon && !(direction == Direction::Received && is_from_occupant(frame))
}

/// Whether it is what one occupant of a room says to another (XEP-0045 section 7.5).
pub(crate) fn is_from_occupant(frame: &Frame) -> bool {
    // An invitation has a child in it and comes from the room itself.
    let mark = frame.child("x", NS_MUC_USER);
    mark.is_some_and(|mark| mark.children().next().is_none())
}

/// Writes the copy of a message for the device `to`, a full address of the account `account`.
pub(crate) fn write(
    frame: &Frame,
    direction: Direction,
    account: &str,
    to: &str,
    out: &mut Vec<u8>,
) {
    out.reserve(frame.as_bytes().len() + 256);
    let mut writer = Writer::new(out);
    writer.open("message").attr("from", account).attr("to", to);
    // Section 7: the type is that of the message.
    if let Some(kind) = frame.attr("type") {
        writer.attr("type", &kind);
    }
    writer.open(match direction {
        Direction::Received => "received",
        Direction::Sent => "sent",
    });
    writer.attr("xmlns", ns::CARBONS);
    writer.open("forwarded").attr("xmlns", ns::FORWARD);
    writer.raw(&self_contained(frame));
    writer.close().close().close();
}

/// A stanza as it may stand inside another: it says that it is one.
pub(crate) fn self_contained(frame: &Frame) -> Vec<u8> {
    let mut out = Vec::new();
    match frame.attr_raw("xmlns") {
        Some(_) => out.extend_from_slice(frame.as_bytes()),
        None => frame.edit().set_attr("xmlns", ns::CLIENT).write(&mut out),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::hints;

    const ACCOUNT: &str = "romeo@localhost";

    fn frame(xml: &str) -> Frame {
        Frame::parse(xml).unwrap()
    }

    #[test]
    fn a_copy_has_the_message_in_it() {
        let message =
            frame("<message from='a@b/c' to='romeo@localhost' type='chat'><body/></message>");
        let mut out = Vec::new();
        write(
            &message,
            Direction::Received,
            ACCOUNT,
            "romeo@localhost/it's",
            &mut out,
        );
        let copy = frame(std::str::from_utf8(&out).unwrap());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "<message from='romeo@localhost' to='romeo@localhost/it&apos;s' type='chat'>\
             <received xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'>\
             <message from='a@b/c' to='romeo@localhost' type='chat' xmlns='jabber:client'><body/>\
             </message></forwarded></received></message>"
        );
        assert_eq!(copy.ns(), ns::CLIENT);
        let forwarded = copy
            .child("received", ns::CARBONS)
            .unwrap()
            .children()
            .next()
            .unwrap();
        let inner = forwarded.children().next().unwrap().to_xml();
        let inner = frame(&inner);
        assert_eq!((inner.name(), inner.ns()), ("message", ns::CLIENT));
        assert!(inner.child("body", ns::CLIENT).is_some());
    }

    #[test]
    fn a_message_without_a_type_is_copied_without() {
        let message = frame("<message xmlns='jabber:client'><body/></message>");
        let mut out = Vec::new();
        write(
            &message,
            Direction::Sent,
            ACCOUNT,
            "romeo@localhost/a",
            &mut out,
        );
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "<message from='romeo@localhost' to='romeo@localhost/a'>\
             <sent xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'>\
             <message xmlns='jabber:client'><body/></message></forwarded></sent></message>"
        );
    }

    #[test]
    fn what_a_room_multiplies_is_not_copied() {
        let due = |children: &str, direction| {
            let message = frame(&format!("<message type='chat'>{children}</message>"));
            are_due(hints::keep(&message), &message, direction)
        };
        let occupant = "<body>hi</body><x xmlns='http://jabber.org/protocol/muc#user'/>";
        assert!(!due(occupant, Direction::Received));
        assert!(due(occupant, Direction::Sent));
        let invitation = "<x xmlns='http://jabber.org/protocol/muc#user'><invite from='a@b'/></x>";
        assert!(due(invitation, Direction::Received));
        assert!(due("<body>hi</body>", Direction::Received));
        let private = "<body>hi</body><private xmlns='urn:xmpp:carbons:2'/>";
        assert!(!due(private, Direction::Sent));
    }
}
