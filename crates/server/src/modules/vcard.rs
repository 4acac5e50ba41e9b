//! XEP-0054 vcard-temp 1.3 and XEP-0153 vCard-Based Avatars 1.1: everybody may read a vCard, its
//! owner may replace it, and presence carries the hash of its photo.

use xml::Frame;

use super::{AccountHandler, Act, Module, Switch, Xep};

pub(crate) const NS: &str = "vcard-temp";
const NS_UPDATE: &str = "vcard-temp:x:update";
pub(crate) const EMPTY: &[u8] = b"<vCard xmlns='vcard-temp'/>";

pub(crate) const MODULE: Module = Module {
    name: "vcard",
    switch: Switch::ByOperator,
    needs: &[],
    xeps: &[
        Xep {
            number: 54,
            name: "vcard-temp",
            version: "1.3",
            note: "Bounded by `limits.vcard_bytes_max`.",
        },
        Xep {
            number: 153,
            name: "vCard-Based Avatars",
            version: "1.1.1",
            note: "The server keeps the photo's hash and adds it to presence that carries none.",
        },
    ],
    host_features: &[NS],
    account_features: &[NS],
    account: &[("vCard", NS, AccountHandler::Acts(Act::VCard))],
    host: &[],
};

/// Presence of a user whose vCard has a photo, with its hash unless the client names a photo, or
/// none, itself (XEP-0398 section 4). One that only says that it knows of photos is no such word.
pub(crate) fn with_photo_hash(presence: Frame, photo_hash: Option<&str>) -> Frame {
    let Some(photo_hash) = photo_hash else {
        return presence;
    };
    if let Some(x) = presence.child("x", NS_UPDATE)
        && x.children().any(|child| child.name() == "photo")
    {
        return presence;
    }
    let edit = presence
        .edit()
        .remove_children(|child| (child.name(), child.ns()) == ("x", NS_UPDATE));
    let update = format!("<x xmlns='{NS_UPDATE}'><photo>{photo_hash}</photo></x>");
    edit.append_child(update.as_bytes()).finish()
}

/// The same presence with another hash, after the picture was published at the account's nodes
/// (XEP-0398 section 4). `None` where the client wants to say something else, and where nothing
/// changes.
pub(crate) fn with_new_hash(
    presence: &Frame,
    before: Option<&str>,
    photo_hash: Option<&str>,
) -> Option<Frame> {
    let says = presence.child("x", NS_UPDATE);
    if let Some(x) = &says {
        let photo = x.children().find(|child| child.name() == "photo")?;
        if photo.text().as_deref().unwrap_or_default() != before.unwrap_or_default() {
            return None;
        }
    }
    let edit = presence
        .edit()
        .remove_children(|child| (child.name(), child.ns()) == ("x", NS_UPDATE));
    let update = match photo_hash {
        Some(hash) => format!("<x xmlns='{NS_UPDATE}'><photo>{hash}</photo></x>"),
        None => format!("<x xmlns='{NS_UPDATE}'><photo/></x>"),
    };
    Some(edit.append_child(update.as_bytes()).finish())
}
