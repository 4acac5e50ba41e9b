//! The room's card, for its avatar (XEP-0486, XEP-0054): owners set it, everybody may read it, and
//! the hashes of its pictures are in the answer to `disco#info`.

use serde::{Deserialize, Serialize};
use stdx::Timestamp;
use xml::Frame;
use xml::build::Writer;
use xmpp::error::{Condition, StanzaError};

use crate::affiliation::Affiliation;
use crate::limits::RoomLimits;
use crate::record::Record;
use crate::room::{Effect, Room};

pub(crate) const NS_VCARD: &str = "vcard-temp";
const NS_UPDATE: &str = "vcard-temp:x:update";

/// What a room shows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// `<vCard/>`, empty if there is none.
    pub xml: Vec<u8>,
    /// Of each of its pictures, SHA-1 in lower-case hexadecimal (XEP-0153 section 3.1).
    pub hashes: Vec<String>,
}

impl Card {
    /// Reads what an owner sets; an empty card is none.
    ///
    /// # Errors
    /// `not-acceptable` for one that is too large or has too many pictures, `bad-request` for a
    /// picture that is not Base64.
    pub fn parse(xml: String, limits: &RoomLimits) -> Result<Card, StanzaError> {
        if xml.len() > limits.card_bytes_max {
            let error = StanzaError::new(Condition::NotAcceptable);
            return Err(error.with_text("The vCard is too large."));
        }
        let bad = |_| StanzaError::new(Condition::BadRequest);
        let frame = Frame::parse(xml.as_bytes()).map_err(bad)?;
        if frame.children().next().is_none() {
            return Ok(Card::default());
        }
        let mut hashes = Vec::new();
        for photo in frame.children().filter(|child| child.name() == "PHOTO") {
            let mut children = photo.children();
            let Some(data) = children.find(|child| child.name() == "BINVAL") else {
                continue;
            };
            let hash = xmpp::sasl::picture_hash(&data.text().unwrap_or_default());
            let hash = hash.ok_or_else(|| {
                StanzaError::new(Condition::BadRequest).with_text("The photo is not valid Base64.")
            })?;
            if !hash.is_empty() {
                hashes.push(hash);
            }
        }
        if hashes.len() > limits.card_photos_max {
            let error = StanzaError::new(Condition::NotAcceptable);
            return Err(error.with_text("The vCard has too many photos."));
        }
        Ok(Card {
            xml: xml.into_bytes(),
            hashes,
        })
    }
}

impl Room {
    /// `<vCard/>`.
    pub(crate) fn card(&mut self, frame: &Frame, is_set: bool, from: &str, now: Timestamp) {
        let Some(state) = &self.state else { return };
        if !is_set {
            // XEP-0054 section 3.1.
            if state.card.xml.is_empty() {
                return self.refuse(frame, Condition::ItemNotFound);
            }
            let xml = state.card.xml.clone();
            return self.answer(frame, &xml);
        }
        if self.affiliation_of(from) != Affiliation::Owner {
            let error = StanzaError::new(Condition::Forbidden)
                .with_text("Only owners are allowed to set avatars.");
            return self.refuse_with(frame, &error);
        }
        let Some(payload) = frame.child("vCard", NS_VCARD) else {
            return self.refuse(frame, Condition::BadRequest);
        };
        let card = match Card::parse(payload.to_xml(), &self.options.limits) {
            Ok(card) => card,
            Err(error) => return self.refuse_with(frame, &error),
        };
        if card == state.card {
            return self.answer(frame, &[]);
        }
        let is_other = card.hashes != state.card.hashes;
        let request = frame.clone();
        self.commit(
            vec![Record::Card(Box::new(card))],
            frame,
            now,
            move |room, _| {
                room.answer(&request, &[]);
                room.send_status(&[104]);
                if is_other && let Some(frame) = room.card_presence() {
                    let everyone = room.occupants.everyone();
                    room.send(frame, everyone);
                }
            },
        );
    }

    /// Tells one who enters of the picture (XEP-0486 section 6.2), if there is one.
    pub(crate) fn send_card_presence(&mut self, to: &str) {
        let has_picture = |state: &crate::State| !state.card.hashes.is_empty();
        if !self.state.as_ref().is_some_and(has_picture) {
            return;
        }
        let frame = self.card_presence();
        let frame = frame.map(|frame| frame.edit().set_attr("to", to).finish());
        self.effects.extend(frame.map(Effect::Deliver));
    }

    /// Older clients look for the picture in presence of the room itself.
    fn card_presence(&self) -> Option<Frame> {
        let hashes = &self.state.as_ref()?.card.hashes;
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.open("presence").attr("from", &self.address);
        writer.open("x").attr("xmlns", NS_UPDATE).open("photo");
        if let Some(hash) = hashes.first() {
            writer.text(hash);
        }
        writer.close().close().close();
        Frame::parse(bytes).ok()
    }
}
