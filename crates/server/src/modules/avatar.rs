//! XEP-0084 User Avatar 1.1.4 and XEP-0398 User Avatar to vCard-Based Avatars Conversion 1.0.0: the
//! picture of a vCard and that of the nodes are kept the same. Owns both forms; when one follows
//! the other is in `user/pep/avatar.rs`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use xml::Frame;
use xml::build::Writer;

use super::{Module, Switch, Xep, vcard};

/// The node of what is said of pictures.
pub(crate) const METADATA: &str = "urn:xmpp:avatar:metadata";
/// The node of pictures.
pub(crate) const DATA: &str = "urn:xmpp:avatar:data";

pub(crate) const MODULE: Module = Module {
    name: "avatar",
    switch: Switch::ByOperator,
    needs: &["pubsub", "vcard"],
    xeps: &[
        Xep {
            number: 84,
            name: "User Avatar",
            version: "1.1.4",
            note: "Nodes like others; the server converts (XEP-0398).",
        },
        Xep {
            number: 398,
            name: "User Avatar to vCard-Based Avatars Conversion",
            version: "1.0.0",
            note: "Both ways. A picture that only few may see, or that is larger than a vCard, \
                   stays at the nodes.",
        },
    ],
    host_features: &[],
    account_features: &["urn:xmpp:pep-vcard-conversion:0"],
    account: &[],
    host: &[],
};

/// A picture as metadata name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    /// SHA-1 of the picture, in lower-case hexadecimal.
    pub(crate) id: String,
    /// Its media type.
    kind: String,
}

/// What metadata say (section 4.2): the picture at the data node, or that there is none. `None` if
/// they are no metadata, or name only pictures that are elsewhere.
pub(crate) fn info(metadata: &[u8]) -> Option<Option<Info>> {
    let metadata = Frame::parse(metadata).ok()?;
    if (metadata.name(), metadata.ns()) != ("metadata", METADATA) {
        return None;
    }
    let all: Vec<_> = metadata.children().collect();
    if all.is_empty() {
        return Some(None);
    }
    let is_here = |info: &&xml::Child<'_>| info.attr("url").is_none_or(|url| url.is_empty());
    let info = all.iter().find(is_here)?;
    Some(Some(Info {
        id: info.attr("id")?.into_owned(),
        kind: info.attr("type")?.into_owned(),
    }))
}

/// The vCard `card` with the picture of a data item, or without any picture. `None` if the item is
/// not the picture that the metadata name, or the card is no vCard.
pub(crate) fn into_card(card: Option<&[u8]>, picture: Option<(&Info, &[u8])>) -> Option<Frame> {
    let card = card.unwrap_or(vcard::EMPTY);
    let card = Frame::parse(card).ok()?;
    let edit = card
        .edit()
        .remove_children(|child| (child.name(), child.ns()) == ("PHOTO", vcard::NS));
    let Some((info, data)) = picture else {
        return Some(edit.finish());
    };
    let data = Frame::parse(data).ok()?;
    let text: String = data.text()?.split_whitespace().collect();
    let image = STANDARD.decode(&text).ok()?;
    if xmpp::sasl::sha1_hex(&image) != info.id {
        return None;
    }
    let mut photo = Vec::with_capacity(text.len() + 128);
    let mut writer = Writer::new(&mut photo);
    writer.open("PHOTO").attr("xmlns", vcard::NS);
    writer.open("TYPE").text(&info.kind).close();
    writer.open("BINVAL").text(&text).close();
    writer.close();
    Some(edit.append_child(&photo).finish())
}

/// A picture of a vCard.
pub(crate) struct Photo {
    /// Base64 without white space.
    pub(crate) base64: String,
    /// Its media type.
    pub(crate) kind: String,
    /// SHA-1, in lower-case hexadecimal.
    pub(crate) hash: String,
    /// Its size in bytes.
    pub(crate) bytes: usize,
}

/// The payload of the data item.
pub(crate) fn data(photo: &Photo) -> Vec<u8> {
    let mut out = Vec::with_capacity(photo.base64.len() + 64);
    let mut writer = Writer::new(&mut out);
    writer.open("data").attr("xmlns", DATA);
    writer.text(&photo.base64).close();
    out
}

/// The payload of the metadata item; of no picture, that there is none.
pub(crate) fn metadata(photo: Option<&Photo>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("metadata").attr("xmlns", METADATA);
    if let Some(photo) = photo {
        writer.open("info").attr("id", &photo.hash);
        writer.attr("bytes", &photo.bytes.to_string());
        writer.attr("type", &photo.kind).close();
    }
    writer.close();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "a9993e364706816aba3e25717850c26c9cd0d89d";

    fn photo() -> Photo {
        Photo {
            base64: "YWJj".to_owned(),
            kind: "image/png".to_owned(),
            hash: HASH.to_owned(),
            bytes: 3,
        }
    }

    #[test]
    fn a_picture_goes_to_the_nodes_and_back() {
        let info = info(&metadata(Some(&photo()))).flatten().unwrap();
        assert_eq!(info.id, HASH);
        let data = data(&photo());
        let card =
            b"<vCard xmlns='vcard-temp'><FN>x</FN><PHOTO><BINVAL>b2xk</BINVAL></PHOTO></vCard>";
        let card = into_card(Some(card), Some((&info, &data))).unwrap();
        let text = String::from_utf8(card.as_bytes().to_vec()).unwrap();
        assert!(
            text.contains("<FN>x</FN>") && !text.contains("b2xk"),
            "{text}"
        );
        assert!(
            text.contains("<TYPE>image/png</TYPE><BINVAL>YWJj</BINVAL>"),
            "{text}"
        );
        let without = into_card(Some(card.as_bytes()), None).unwrap();
        assert!(
            without.child("PHOTO", vcard::NS).is_none() && without.child("FN", vcard::NS).is_some()
        );
        let first = into_card(None, Some((&info, &data))).unwrap();
        assert!(first.child("PHOTO", vcard::NS).is_some());
    }

    #[test]
    fn only_the_picture_that_is_named_is_taken() {
        let other = Info {
            id: "00".to_owned(),
            kind: "image/png".to_owned(),
        };
        assert!(into_card(None, Some((&other, &data(&photo())))).is_none());
        assert_eq!(info(&metadata(None)), Some(None));
        assert_eq!(info(b"<metadata xmlns='urn:x'/>"), None);
        let elsewhere = b"<metadata xmlns='urn:xmpp:avatar:metadata'>\
            <info id='1' type='image/png' bytes='1' url='http://x.example/'/></metadata>";
        assert_eq!(info(elsewhere), None);
    }
}
