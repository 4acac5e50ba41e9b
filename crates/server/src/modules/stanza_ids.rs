//! XEP-0359 Unique and Stable Stanza IDs 0.7.0: the id of a message in its owner's log, in every
//! form that it is delivered in, and never somebody else's idea of it.

use xml::{Child, Edit, Frame};
use xmpp::ns;

use super::{Module, Switch, Xep};

mod id;

use id::Digits;
pub(crate) use id::{id_of, seq_of};

pub(super) const MODULE: Module = Module {
    name: "stanza_ids",
    switch: Switch::Always("an id is the place of a message in its log"),
    needs: &[],
    xeps: &[Xep {
        number: 359,
        name: "Unique and Stable Stanza IDs",
        version: "0.7.0",
        note: "The same id in delivery, resending, carbons and the archive.",
    }],
    host_features: &[],
    account_features: &[ns::STANZA_ID],
    account: &[],
    host: &[],
};

/// Bytes of an origin-id that is looked at; a longer one is none.
const ORIGIN_ID_BYTES_MAX: usize = 1_024;

/// Whether a child claims to be the id that `by`, a normalised bare address, or one of its sessions
/// gave the message.
fn is_claim(child: &Child<'_>, by: &str) -> bool {
    if !child.is("stanza-id", ns::STANZA_ID) {
        return false;
    }
    let claimed = child.attr("by");
    let claimed = claimed.as_deref().unwrap_or_default();
    let normal = xmpp::addr::normalize(claimed);
    claimed == by || normal.is_ok_and(|claimed| xmpp::addr::bare_part(&claimed) == by)
}

/// A message without what pretends to be an id of `by` (section 3.1 rule 7).
pub(crate) fn without_claims(frame: Frame, by: &str) -> Frame {
    if frame.children().any(|child| is_claim(&child, by)) {
        let edit = frame.edit();
        edit.remove_children(|child| is_claim(child, by)).finish()
    } else {
        frame
    }
}

/// Starts an edit that gives a message the id of its place in the log of `by`, and no other id of
/// `by`: as clients of `by` get it, so without the word that it is not to be copied for others of
/// them (XEP-0280 section 9).
pub(crate) fn stamped<'a>(frame: &'a Frame, by: &str, seq: u64) -> Edit<'a> {
    let mut id = Vec::with_capacity(96);
    write(by, seq, &mut id);
    let goes = |child: &Child<'_>| is_claim(child, by) || child.is("private", ns::CARBONS);
    let edit = frame.edit();
    let edit = match frame.children().any(|child| goes(&child)) {
        true => edit.remove_children(goes),
        false => edit,
    };
    edit.append_owned(id)
}

/// Writes `<stanza-id/>`.
pub(crate) fn write(by: &str, seq: u64, out: &mut Vec<u8>) {
    xml::build::Writer::new(out)
        .open("stanza-id")
        .attr("xmlns", ns::STANZA_ID)
        .attr("by", by)
        .attr("id", Digits::of(seq).as_str())
        .close();
}

/// The id that the sending client gave the message for itself.
pub(crate) fn origin_id(frame: &Frame) -> Option<String> {
    let id = frame.child("origin-id", ns::STANZA_ID)?.attr("id")?;
    let is_usable = !id.is_empty() && id.len() <= ORIGIN_ID_BYTES_MAX;
    is_usable.then(|| id.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: &str = "romeo@localhost";

    fn ids(frame: &Frame) -> Vec<(String, String)> {
        let ids = frame.children().filter(|child| child.name() == "stanza-id");
        let attr = |child: &Child<'_>, name| child.attr(name).unwrap_or_default().into_owned();
        ids.map(|child| (attr(&child, "by"), attr(&child, "id")))
            .collect()
    }

    #[test]
    fn ids_stand_for_places_and_compare_like_them() {
        for seq in [0, 1, 0xabc, i64::MAX as u64, u64::MAX] {
            assert_eq!(seq_of(&id_of(seq)), Some(seq));
        }
        assert!(id_of(9) < id_of(10) && id_of(255) < id_of(256));
        for id in [
            "",
            "1",
            "000000000000000A",
            "+00000000000000a",
            "00000000000000001",
        ] {
            assert_eq!(seq_of(id), None, "{id}");
        }
    }

    #[test]
    fn a_forged_id_gives_way_to_ours() {
        let message = "<message><body>hi</body>\
            <stanza-id xmlns='urn:xmpp:sid:0' by='romeo@localhost' id='forged'/>\
            <stanza-id xmlns='urn:xmpp:sid:0' by='ROMEO@Localhost' id='forged'/>\
            <stanza-id xmlns='urn:xmpp:sid:0' by='Romeo@localhost/orchard' id='forged'/>\
            <s:stanza-id xmlns:s='urn:xmpp:sid:0' id='forged' by='&#114;omeo@localhost'/>\
            <stanza-id xmlns='urn:xmpp:sid:0' by='room@muc.example' id='theirs'/>\
            <stanza-id xmlns='urn:example' by='romeo@localhost' id='other'/></message>";
        let frame = Frame::parse(message).unwrap();
        let stamped = stamped(&frame, BY, 42).finish();
        let ours = (BY.to_owned(), "000000000000002a".to_owned());
        let theirs = ("room@muc.example".to_owned(), "theirs".to_owned());
        let other = (BY.to_owned(), "other".to_owned());
        assert_eq!(ids(&stamped), [theirs.clone(), other.clone(), ours]);
        assert!(stamped.child("body", ns::CLIENT).is_some());
        assert_eq!(ids(&without_claims(frame, BY)), [theirs, other]);
    }

    #[test]
    fn nothing_else_is_changed() {
        let frame = Frame::parse("<message id='1'><body>hi</body></message>").unwrap();
        assert_eq!(without_claims(frame.clone(), BY), frame);
        assert_eq!(
            stamped(&frame, BY, 1).finish().as_bytes(),
            b"<message id='1'><body>hi</body><stanza-id xmlns='urn:xmpp:sid:0' \
              by='romeo@localhost' id='0000000000000001'/></message>"
        );
    }

    #[test]
    fn an_origin_id_is_what_the_client_says() {
        let origin = |id: &str| {
            let message =
                format!("<message><origin-id xmlns='urn:xmpp:sid:0' id='{id}'/></message>");
            origin_id(&Frame::parse(message).unwrap())
        };
        assert_eq!(origin("a&lt;b"), Some("a<b".to_owned()));
        assert_eq!(origin(""), None);
        assert_eq!(origin(&"x".repeat(ORIGIN_ID_BYTES_MAX + 1)), None);
        let without = Frame::parse("<message id='1'/>").unwrap();
        assert_eq!(origin_id(&without), None, "a plain id identifies nothing");
    }
}
