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
use crate::iq::{self, Question};
use crate::limits::CARDS_ASKED_MAX;
use crate::message::{Ticket, UserMsg};
use crate::modules::avatar::{self, Info, Photo};
use crate::modules::{pubsub as nodes, vcard};
use crate::stored;
use crate::user::User;
use crate::user::barrier::Effect;
use crate::user::own::OwnMsg;

/// A picture that is published.
pub(crate) struct Picture {
    /// The place of what is said of it.
    seq: u64,
    /// The picture; absent if there is none any more.
    info: Option<Info>,
}

/// What is needed to put a picture into the vCard: that, and the payload of the picture's item.
type Parts = (Option<Vec<u8>>, Option<Arc<[u8]>>);

/// What was read to put a picture into the vCard.
pub(crate) struct AvatarRead {
    /// The life that asked.
    life: Ticket,
    /// How often the vCard had been set.
    cards: u64,
    picture: Picture,
    read: Result<Parts, StoreError>,
}

/// Pictures on their way into the vCard, one at a time.
#[derive(Default)]
pub(super) struct Converting {
    /// One is being read.
    pub(super) is_busy: bool,
    /// Comes next: of several only the last one counts.
    next: Option<Picture>,
    /// How often the vCard was set in this life.
    cards: u64,
    /// Who asks for the vCard while a picture is on its way into it, at most [`CARDS_ASKED_MAX`].
    asked: Vec<Question>,
}

impl Converting {
    /// Who has asked for the vCard meanwhile.
    pub(super) fn take_asked(&mut self) -> Vec<Question> {
        std::mem::take(&mut self.asked)
    }
}

/// Whether somebody asks for the vCard.
fn asks_for_card(frame: &Frame) -> bool {
    iq::payload(frame).is_some_and(|payload| payload.name() == "vCard" && payload.ns() == vcard::NS)
}

impl User {
    /// Who asks for the vCard behind a picture that has been published is told when that is in it:
    /// who publishes may ask at once. Comes back if it is to be asked now.
    pub(in crate::user) fn ask_behind_picture(&mut self, question: Question) -> Option<Question> {
        let pep = self.requests.as_mut().and_then(|r| r.pep.as_mut());
        let converting = pep.map(|pep| &mut pep.converting);
        let Some(converting) = converting.filter(|converting| converting.is_busy) else {
            return Some(question);
        };
        if !asks_for_card(question.frame()) || converting.asked.len() >= CARDS_ASKED_MAX {
            return Some(question);
        }
        converting.asked.push(question);
        None
    }

    /// Asks what has waited for a picture, behind what has been recorded.
    pub(super) fn ask_for_cards(&mut self, asked: Vec<Question>, cx: &mut Context<'_, UserMsg>) {
        for question in asked {
            self.emit(Effect::Ask(Box::new(question)), cx);
        }
    }

    fn converts_avatars(&self) -> bool {
        self.home.options.modules.has(&avatar::MODULE)
    }

    /// A vCard has been set whose picture is another one, or which has none any more.
    pub(crate) fn publish_photo(&mut self, photo: Option<&Photo>, cx: &mut Context<'_, UserMsg>) {
        if !self.converts_avatars() {
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
        if !self.converts_avatars() {
            return None;
        }
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

    /// A picture has been published for good: it goes into the vCard as that is when everything is
    /// durable that has been recorded.
    pub(super) fn convert_picture(&mut self, picture: Picture, cx: &mut Context<'_, UserMsg>) {
        let Some(pep) = self.pep() else { return };
        if pep.converting.is_busy {
            pep.converting.next = Some(picture);
            return;
        }
        pep.converting.is_busy = true;
        let life = pep.life;
        let picture = Box::new(picture);
        self.emit(Effect::ReadPicture { life, picture }, cx);
    }

    fn picture_done(&mut self, cx: &mut Context<'_, UserMsg>) {
        let Some(pep) = self.pep() else { return };
        pep.converting.is_busy = false;
        match pep.converting.next.take() {
            Some(next) => self.convert_picture(next, cx),
            None => {
                let asked = pep.converting.take_asked();
                self.ask_for_cards(asked, cx);
            }
        }
    }

    /// The vCard was set: what was read of it for a picture is not what it is any more.
    pub(crate) fn card_was_set(&mut self) {
        if let Some(pep) = self.pep() {
            pep.converting.cards += 1;
        }
    }

    pub(in crate::user) fn read_picture(
        &mut self,
        life: Ticket,
        picture: Picture,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(pep) = self.pep_of(life) else { return };
        let cards = pep.converting.cards;
        if !self.ask_for_picture((life, cards), picture, cx) {
            self.picture_done(cx);
        }
    }

    /// Reads the vCard and the picture. False if there is nothing to convert, or no way to.
    fn ask_for_picture(
        &mut self,
        (life, cards): (Ticket, u64),
        picture: Picture,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        let pep = self.pep().and_then(|pep| pep.service.as_ref());
        let Some(state) = pep.map(|service| service.state()) else {
            return false;
        };
        let is_public = |node: &pubsub::Node| {
            matches!(
                node.config.access,
                AccessModel::Open | AccessModel::Presence
            )
        };
        if !state.node(avatar::METADATA).is_some_and(is_public) {
            return false;
        }
        let data = state.node(avatar::DATA).filter(|node| is_public(node));
        let number = match (&picture.info, data) {
            (None, _) => None,
            (Some(_), Some(node)) => Some(node.number),
            (Some(_), None) => return false,
        };
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let wanted = picture.info.as_ref().zip(number);
        let wanted = wanted.map(|(info, number)| (Box::<str>::from(&*info.id), number));
        let read = move || {
            let parts = || {
                let mut data = None;
                if let Some((id, number)) = wanted {
                    let items = stored::nodes::items(&store, &name, number, &[(id, 0)])?;
                    data = items.into_iter().next().map(|item| item.payload);
                }
                Ok((store.vcard(&name)?, data))
            };
            Box::new(AvatarRead {
                life,
                cards,
                picture,
                read: parts(),
            })
        };
        let map = |read| OwnMsg::Pep(PepMsg::Avatar(read)).into();
        let asked = cx.blocking(&self.home.reads, read, map);
        if asked.is_err() {
            cx.stats().count(Counter::PepDropped);
        }
        asked.is_ok()
    }

    /// The picture goes into the vCard, unless a later one is to be, or the vCard has been set
    /// meanwhile: then it is read again.
    pub(super) fn picture_read(&mut self, read: AvatarRead, cx: &mut Context<'_, UserMsg>) {
        let Some(pep) = self.pep_of(read.life) else {
            return;
        };
        let AvatarRead {
            cards,
            picture,
            read,
            ..
        } = read;
        let converting = &mut pep.converting;
        match read {
            _ if converting.next.is_some() => {}
            Ok(_) if converting.cards != cards => converting.next = Some(picture),
            Ok(parts) => self.put_picture(picture, parts, cx),
            Err(error) => {
                let user = &self.name;
                tracing::warn!(%user, %error, "cannot convert an avatar");
            }
        }
        self.picture_done(cx);
    }

    /// The picture goes into the vCard, and its hash into presence.
    fn put_picture(
        &mut self,
        Picture { seq, info }: Picture,
        (card, data): Parts,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let pep = self.pep().and_then(|pep| pep.service.as_ref());
        let Some(service) = pep.filter(|service| !service.is_busy(avatar::METADATA)) else {
            // Another one is being published.
            return;
        };
        let node = service.state().node(avatar::METADATA);
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
