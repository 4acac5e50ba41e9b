//! XEP-0054 vcard-temp and XEP-0153 vCard-Based Avatars: everybody may read a vCard, and its owner
//! may replace it.

use actor::Context;
use base64::Engine as _;
use store::Record;
use xmpp::error::{Condition, StanzaError};

use crate::iq::{Answer, Request};
use crate::message::UserMsg;
use crate::modules::avatar::Photo;
use crate::modules::vcard::{EMPTY, NS};
use crate::user::{User, storage};

pub(super) fn vcard(
    user: &mut User,
    request: &Request<'_>,
    cx: &mut Context<'_, UserMsg>,
) -> Answer {
    if request.is_set {
        set(user, request, cx)
    } else {
        get(user, request, cx)
    }
}

fn get(user: &mut User, request: &Request<'_>, cx: &mut Context<'_, UserMsg>) -> Answer {
    let (owner, by_owner) = (user.name.clone(), request.asker.is_owner());
    user.ask_store(request, cx, move |store| match store.vcard(&owner) {
        Ok(Some(xml)) => Ok(xml),
        // Sections 3.1 and 3.3: the owner gets an empty card, others the same error as for a name
        // that nobody has.
        Ok(None) if by_owner => Ok(EMPTY.to_vec()),
        Ok(None) => Err(StanzaError::new(Condition::ServiceUnavailable)),
        Err(_) => Err(StanzaError::new(Condition::InternalServerError)),
    })
}

fn set(user: &mut User, request: &Request<'_>, cx: &mut Context<'_, UserMsg>) -> Answer {
    if !request.asker.is_owner() {
        return Answer::error(Condition::Forbidden);
    }
    let xml = request.payload.to_xml();
    if xml.len() > user.home.limits().vcard_bytes_max as usize {
        return StanzaError::new(Condition::NotAcceptable)
            .with_text("The vCard is too large.")
            .into();
    }
    let card = match request.tree() {
        Ok(card) => card,
        Err(error) => return Answer::Error(error),
    };
    let photo = match photo(&card).transpose() {
        Err(error) => return Answer::Error(error),
        Ok(photo) => photo,
    };
    let photo_hash = photo.as_ref().map(|photo| photo.hash.clone());
    let photo_hash = photo_hash.unwrap_or_default();
    if !user.may_store(xml.len(), cx) {
        return storage::full().into();
    }
    let before = user.photo_hash.as_deref().cloned().unwrap_or_default();
    user.keep_photo_hash(photo_hash.clone());
    let is_other = before != photo_hash;
    user.record(Record::VCardPut {
        user: String::from(&*user.name),
        xml: xml.into_bytes(),
        photo_hash,
    });
    user.card_was_set();
    if is_other {
        user.publish_photo(photo.as_ref(), cx);
    }
    Answer::done()
}

/// The picture of a card. Its hash is of the decoded image (XEP-0153 section 3.1).
fn photo(card: &minidom::Element) -> Option<Result<Photo, StanzaError>> {
    let photo = card.get_child("PHOTO", NS)?;
    let data = photo.get_child("BINVAL", NS)?;
    let base64: String = data.text().split_whitespace().collect();
    let kind = photo.get_child("TYPE", NS).map(|kind| kind.text());
    let decoded = base64::engine::general_purpose::STANDARD.decode(&base64);
    let invalid =
        |_| StanzaError::new(Condition::BadRequest).with_text("The photo is not valid Base64.");
    let photo = decoded.map_err(invalid).map(|image| Photo {
        kind: kind.unwrap_or_else(|| "image/png".to_owned()),
        hash: xmpp::sasl::sha1_hex(&image),
        bytes: image.len(),
        base64,
    });
    Some(photo)
}
