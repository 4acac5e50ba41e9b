//! Pictures of a vCard and of nodes follow each other (XEP-0398): what is set in one place is put
//! in the other, and presence names what is there.

use std::sync::Arc;

use actor::{Context, Mail};
use pubsub::{AccessModel, Event, Record};
use store::StoreError;
use telemetry::Counter;
use xml::Frame;
use xml::build::Writer;

use super::{Held, PepMsg};
use crate::message::UserMsg;
use crate::modules::avatar::{self, Info, Photo};
use crate::modules::{pubsub as nodes, vcard};
use crate::nodes::stored;
use crate::user::User;

/// A picture that is published.
pub(super) struct Picture {
    /// The place of what is said of it.
    seq: u64,
    /// The picture; absent if there is none any more.
    info: Option<Info>,
}

/// A picture that has been published, with what is needed to put it into the vCard.
pub struct Published {
    picture: Picture,
    /// The vCard.
    card: Option<Vec<u8>>,
    /// The payload of its item.
    data: Option<Arc<[u8]>>,
}

/// What was read.
pub(super) type AvatarRead = Result<Published, StoreError>;

impl User {
    /// A vCard has been set whose picture is another one, or which has none any more.
    pub(crate) fn publish_photo(&mut self, photo: Option<&Photo>, cx: &mut Context<'_, UserMsg>) {
        if !self.home.options.pep.enabled {
            return;
        }
        let id = photo.map_or("", |photo| &photo.hash).to_owned();
        if let Some(photo) = photo {
            let data = avatar::data(photo);
            self.publish_own(avatar::DATA, &id, &data, cx);
        }
        let metadata = avatar::metadata(photo);
        self.publish_own(avatar::METADATA, &id, &metadata, cx);
    }

    /// The account itself publishes; nobody waits for the answer.
    pub(super) fn publish_own(
        &mut self,
        node: &str,
        id: &str,
        payload: &[u8],
        cx: &mut Context<'_, UserMsg>,
    ) {
        let mut bytes = Vec::with_capacity(payload.len() + 256);
        let mut writer = Writer::new(&mut bytes);
        writer.open("iq").attr("type", "set").attr("id", "own");
        writer.attr("from", &self.name).attr("to", &self.name);
        writer.open("pubsub").attr("xmlns", nodes::NS);
        writer.open("publish").attr("node", node).open("item");
        if !id.is_empty() {
            writer.attr("id", id);
        }
        writer.raw(payload).close().close().close().close();
        if let Ok(frame) = Frame::parse(bytes) {
            let may_create = true;
            let event = Event::Stanza { frame, may_create };
            self.give_nodes(event, Held::default(), cx);
        }
    }

    /// The picture that records publish, if it is another one than the vCard has.
    pub(super) fn published_picture(&self, records: &[Record]) -> Option<Picture> {
        let metadata = records.iter().rev().find_map(|record| match record {
            Record::Published { node, item } if node == avatar::METADATA => Some(item),
            _ => None,
        });
        let metadata = metadata?;
        let info = avatar::info(&metadata.payload)?;
        let known = self.photo_hash.as_deref().map(String::as_str);
        let is_other = info.as_ref().map(|info| &*info.id) != known;
        let seq = metadata.seq;
        is_other.then_some(Picture { seq, info })
    }

    /// A picture has been published for good: the vCard and the picture are read.
    pub(super) fn read_picture(&mut self, picture: Picture, cx: &mut Context<'_, UserMsg>) {
        let pep = self.pep().and_then(|pep| pep.service.as_ref());
        let Some(state) = pep.map(|service| service.state()) else {
            return;
        };
        let is_public = |node: &pubsub::Node| {
            matches!(
                node.config.access,
                AccessModel::Open | AccessModel::Presence
            )
        };
        if !state.node(avatar::METADATA).is_some_and(is_public) {
            return;
        }
        let data = state.node(avatar::DATA).filter(|node| is_public(node));
        let number = match (&picture.info, data) {
            (None, _) => None,
            (Some(_), Some(node)) => Some(node.number),
            (Some(_), None) => return,
        };
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let read = move || {
            let mut data = None;
            if let Some((info, number)) = picture.info.as_ref().zip(number) {
                let id = [(Box::from(&*info.id), 0)];
                let items = stored::items(&store, &name, number, &id)?;
                data = items.into_iter().next().map(|item| item.payload);
            }
            let card = store.vcard(&name)?;
            Ok(Published {
                picture,
                card,
                data,
            })
        };
        let map = |read: AvatarRead| UserMsg::Pep(Box::new(PepMsg::Avatar(Box::new(read))));
        if cx.blocking(&self.home.reads, read, map).is_err() {
            cx.stats().count(Counter::PepDropped);
        }
    }

    /// The picture goes into the vCard, and its hash into presence.
    pub(super) fn picture_read(&mut self, read: AvatarRead, cx: &mut Context<'_, UserMsg>) {
        let published = match read {
            Ok(published) => published,
            Err(error) => {
                let user = &self.name;
                return tracing::warn!(%user, %error, "cannot convert an avatar");
            }
        };
        let Published {
            picture: Picture { seq, info },
            card,
            data,
        } = published;
        let pep = self.pep().and_then(|pep| pep.service.as_ref());
        let node = pep.and_then(|service| service.state().node(avatar::METADATA));
        let last = node.and_then(|node| node.items(cx.wall()).next_back());
        if last.is_none_or(|last| last.seq != seq) {
            // Another one has been published meanwhile, and is put into the card by itself.
            return;
        }
        let picture = match (&info, &data) {
            (Some(info), Some(data)) => Some((info, &**data)),
            // It is not there, whatever the metadata say.
            (Some(_), None) => return,
            (None, _) => None,
        };
        let Some(card) = avatar::into_card(card.as_deref(), picture) else {
            return;
        };
        let bytes = card.as_bytes();
        let max = self.home.limits().vcard_bytes_max as usize;
        if !self.is_registered() || bytes.len() > max || !self.may_store(bytes.len(), cx) {
            return;
        }
        let before = self.photo_hash.as_deref().cloned();
        let hash = info.map(|info| info.id).unwrap_or_default();
        self.keep_photo_hash(hash.clone());
        self.record(store::Record::VCardPut {
            user: String::from(&*self.name),
            xml: bytes.to_vec(),
            photo_hash: hash,
        });
        self.rename_photo(before.as_deref(), cx);
    }

    /// Presence of sessions names another picture from now on.
    fn rename_photo(&mut self, before: Option<&str>, cx: &mut Context<'_, UserMsg>) {
        let hash = self.photo_hash.as_deref().cloned();
        for at in 0..self.sessions.len() {
            let Some(presence) = self.sessions[at].presence.clone() else {
                continue;
            };
            let renamed = vcard::with_new_hash(&presence, before, hash.as_deref());
            if let Some(renamed) = renamed {
                self.show_new_presence(at, renamed, cx);
            }
        }
    }
}
