//! Rooms as lines of an export, and the records that they make. A room stays locked until its last
//! line, so that nobody enters one of which half is there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use room::{Affiliated, Affiliation, Card, Config, Hat, Hats, Listed, Record, RoomLimits, Subject};
use serde::{Deserialize, Serialize};
use stdx::time::Timestamp;
use store::limits::SEQ_MAX;
use store::{EntryFlags, LogEntry, Seq, Store, StoreError, StoredRoom};
use xml::Frame;
use xmpp::form::Fields;

use super::{Bad, bad, bare};
use crate::stored::rooms::{
    AFFILIATED, CARD, CONFIGURED, CREATED, HATS, OWED, SUBJECT, UNLOCKED, records_of,
};

/// Affiliations, and marks of members, of one line.
pub(super) const AFFILIATIONS_PER_LINE: usize = 500;

/// A room; the first line of each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoomLine {
    /// Its address.
    pub(crate) jid: String,
    /// Who made it.
    creator: String,
    /// Milliseconds since the Unix epoch.
    created: i64,
    /// The number of its first message, from which those of `room_message` count.
    first: u64,
    /// What occupant ids are made with, in Base64.
    secret: String,
    /// The fields of XEP-0045 section 16.5.3.
    config: Fields,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<SubjectLine>,
    /// What it calls some (XEP-0317).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hats: Vec<HatLine>,
    /// Its `<vCard/>` (XEP-0486).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    card: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HatLine {
    uri: String,
    title: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    hue: String,
    /// Bare addresses that have it.
    worn: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectLine {
    /// The message that set it.
    xml: String,
    at: i64,
}

/// Affiliations of a room.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AffiliationsLine {
    /// The room.
    pub(crate) jid: String,
    items: Vec<AffiliatedLine>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AffiliatedLine {
    jid: String,
    affiliation: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nick: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// A message of a room's archive.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageLine {
    /// The room.
    pub(crate) jid: String,
    /// Its place behind the room's `first`.
    pub(super) number: u64,
    /// Milliseconds since the Unix epoch.
    at: i64,
    /// The sender's real bare address.
    sender: String,
    /// The message.
    xml: String,
}

/// A room may be entered; the last line of each that is not locked, but for [`MembersLine`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenLine {
    /// The room.
    pub(crate) jid: String,
}

/// Up to where members have the room's log without being there; behind [`OpenLine`], because the
/// home of a member forgets a room that he may not enter.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MembersLine {
    /// The room.
    pub(crate) jid: String,
    items: Vec<MemberLine>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberLine {
    jid: String,
    /// The number of the first message that is owed to him, said or not.
    next: u64,
}

/// What later lines need to know of a room.
#[derive(Clone, Debug, Default)]
pub(super) struct RoomHead {
    creator: String,
    first: Seq,
    config: Config,
    pub(super) is_locked: bool,
}

impl RoomHead {
    /// It stays when nobody is there. One that does not is in the store for those who come back,
    /// and in no export.
    pub(super) fn is_persistent(&self) -> bool {
        self.config.is_persistent
    }

    /// Of a room that earlier lines would have made, as if its numbers began with the first there
    /// is.
    pub(super) fn unmade() -> RoomHead {
        RoomHead {
            first: 1,
            is_locked: true,
            ..RoomHead::default()
        }
    }

    /// Of a room of the store.
    pub(super) fn of(room: &str, stored: &StoredRoom) -> Result<RoomHead, StoreError> {
        let mut head = RoomHead {
            creator: stored.listed.creator.clone(),
            is_locked: true,
            ..RoomHead::default()
        };
        for record in records_of(room, stored)? {
            match record {
                Record::Created { first, .. } => head.first = first,
                Record::Configured(config) => head.config = *config,
                Record::Unlocked => head.is_locked = false,
                _ => {}
            }
        }
        Ok(head)
    }
}

fn text(xml: Vec<u8>) -> String {
    String::from_utf8_lossy(&xml).into_owned()
}

// ---- Export ------------------------------------------------------------------------------------

/// A room without its messages, as lines; `oldest` is its oldest archived entry. What follows is
/// its messages, then [`open_line`] if it is not locked, and how their numbers count.
pub(super) fn head_lines(
    jid: &str,
    stored: &StoredRoom,
    oldest: Option<Seq>,
) -> Result<(RoomLine, Vec<AffiliationsLine>), StoreError> {
    let mut line = RoomLine {
        jid: jid.to_owned(),
        creator: stored.listed.creator.clone(),
        created: 0,
        first: 0,
        secret: String::new(),
        config: Fields::new(),
        subject: None,
        hats: Vec::new(),
        card: None,
    };
    let mut items = Vec::new();
    for record in records_of(jid, stored)? {
        match record {
            Record::Created { at, secret, first } => {
                line.created = at;
                line.secret = STANDARD.encode(secret);
                line.first = first_of(first, oldest);
            }
            Record::Configured(config) => line.config = config.fields(),
            Record::Subject(Subject { xml, at }) => {
                line.subject = Some(SubjectLine { xml: text(xml), at });
            }
            Record::Hats(hats) => line.hats = hat_lines(&hats),
            Record::Card(card) => line.card = Some(text(card.xml)),
            Record::Affiliated(one) => items.push(AffiliatedLine {
                jid: one.address,
                affiliation: one.affiliation.as_str().to_owned(),
                nick: one.nick,
                reason: one.reason,
            }),
            _ => {}
        }
    }
    let mut lines = Vec::new();
    while !items.is_empty() {
        let rest = items.split_off(items.len().min(AFFILIATIONS_PER_LINE));
        lines.push(AffiliationsLine {
            jid: jid.to_owned(),
            items: std::mem::replace(&mut items, rest),
        });
    }
    Ok((line, lines))
}

/// What homes of members have noted of a room that delivers to them.
pub(super) fn member_lines(
    store: &Store,
    jid: &str,
    stored: &StoredRoom,
    base: Seq,
) -> Result<Vec<MembersLine>, StoreError> {
    let (mut members, mut delivers) = (Vec::new(), false);
    for record in records_of(jid, stored)? {
        match record {
            Record::Configured(config) => delivers = config.delivers_to_members,
            Record::Affiliated(one) if one.affiliation >= Affiliation::Member => {
                members.push(one.address);
            }
            _ => {}
        }
    }
    let mut items = Vec::new();
    for member in members.into_iter().filter(|_| delivers) {
        if let Some(place) = store.member_place(&member, jid)? {
            let next = (place + 1).saturating_sub(base);
            items.push(MemberLine { jid: member, next });
        }
    }
    let mut lines = Vec::new();
    while !items.is_empty() {
        let rest = items.split_off(items.len().min(AFFILIATIONS_PER_LINE));
        lines.push(MembersLine {
            jid: jid.to_owned(),
            items: std::mem::replace(&mut items, rest),
        });
    }
    Ok(lines)
}

fn hat_lines(hats: &Hats) -> Vec<HatLine> {
    let line = |(uri, hat): (&str, &Hat)| {
        let worn = hats.worn().filter(|(_, worn, _)| *worn == uri);
        HatLine {
            uri: uri.to_owned(),
            title: hat.title.clone(),
            hue: hat.hue.clone(),
            worn: worn.map(|(bare, _, _)| bare.to_owned()).collect(),
        }
    };
    hats.all().map(line).collect()
}

fn first_of(first: Seq, oldest: Option<Seq>) -> Seq {
    oldest.map_or(first, |oldest| oldest.min(first))
}

/// From where the numbers of a room's messages count.
pub(super) fn base_of(head: &RoomHead, oldest: Option<Seq>) -> Seq {
    first_of(head.first, oldest)
}

pub(super) fn message_line(jid: &str, base: Seq, entry: &LogEntry) -> MessageLine {
    MessageLine {
        jid: jid.to_owned(),
        number: entry.seq.saturating_sub(base),
        at: entry.at.as_millis(),
        sender: entry.peer.to_string(),
        xml: String::from_utf8_lossy(&entry.frame).into_owned(),
    }
}

pub(super) fn open_line(jid: &str) -> OpenLine {
    OpenLine {
        jid: jid.to_owned(),
    }
}

// ---- Import ------------------------------------------------------------------------------------

fn part(room: &str, name: impl Into<String>, record: &Record) -> store::Record {
    store::Record::RoomPut {
        user: room.to_owned(),
        part: name.into(),
        value: record.encode(),
    }
}

fn made(room: &str, head: &RoomHead) -> store::Record {
    let listed = Listed::of(&head.config, head.is_locked);
    store::Record::RoomMake {
        user: room.to_owned(),
        creator: head.creator.clone(),
        about: listed.encode(),
    }
}

fn checked_message(xml: &str) -> Result<(), Bad> {
    match Frame::parse(xml) {
        Ok(frame) if frame.name() == "message" => Ok(()),
        _ => Err(bad("xml that is no <message/>")),
    }
}

impl RoomLine {
    /// The records of a locked room, and what later lines need. `next` is the number that the
    /// address gives out next: what it gave out before it does not again.
    pub(super) fn records(
        self,
        next: Seq,
        limits: &RoomLimits,
    ) -> Result<(RoomHead, Vec<store::Record>), Bad> {
        let room = &self.jid;
        let config = Config::of_fields(&self.config, limits);
        let config = config.map_err(|field| bad(&format!("a bad value of {field}")))?;
        if !config.is_persistent {
            return Err(bad("a room that is not persistent"));
        }
        let secret = STANDARD.decode(&self.secret).ok();
        let secret: Option<[u8; 16]> = secret.and_then(|secret| secret.try_into().ok());
        let secret = secret.ok_or_else(|| bad("a secret that is not 16 bytes in Base64"))?;
        if self.first > SEQ_MAX / 2 {
            return Err(bad("a first number that leaves none"));
        }
        let head = RoomHead {
            creator: bare(&self.creator)?,
            first: self.first.max(next),
            config,
            is_locked: true,
        };
        let created = Record::Created {
            at: self.created,
            secret,
            first: head.first,
        };
        let mut records = vec![
            made(room, &head),
            part(room, CREATED, &created),
            part(
                room,
                CONFIGURED,
                &Record::Configured(Box::new(head.config.clone())),
            ),
        ];
        if head.config.delivers_to_members {
            // Homes of members are told so when the room is used.
            records.push(part(room, OWED, &Record::Owed(SEQ_MAX / 2)));
        }
        if let Some(SubjectLine { xml, at }) = self.subject {
            checked_message(&xml)?;
            let xml = xml.into_bytes();
            records.push(part(room, SUBJECT, &Record::Subject(Subject { xml, at })));
        }
        if !self.hats.is_empty() {
            let hats = Box::new(hats_of(self.hats, limits)?);
            records.push(part(room, HATS, &Record::Hats(hats)));
        }
        if let Some(xml) = self.card {
            let card = Card::parse(xml, limits).map_err(|_| bad("a card that is no vCard"))?;
            records.push(part(room, CARD, &Record::Card(Box::new(card))));
        }
        Ok((head, records))
    }
}

fn hats_of(lines: Vec<HatLine>, limits: &RoomLimits) -> Result<Hats, Bad> {
    let mut hats = Hats::default();
    for HatLine {
        uri,
        title,
        hue,
        worn,
    } in lines
    {
        hats.make(&uri, Hat { title, hue });
        for address in worn {
            // Invariant: the hat has just been made.
            let _ = hats.don(&bare(&address)?, &uri);
        }
    }
    match hats.fits(limits) {
        true => Ok(hats),
        false => Err(bad("more hats than a room may have")),
    }
}

impl AffiliationsLine {
    pub(super) fn records(self) -> Result<Vec<store::Record>, Bad> {
        let room = self.jid;
        let record = |one: AffiliatedLine| {
            let affiliation = Affiliation::parse(&one.affiliation)
                .filter(|affiliation| *affiliation != Affiliation::None)
                .ok_or_else(|| bad(&format!("an unknown affiliation {:?}", one.affiliation)))?;
            let address = bare(&one.jid)?;
            if let Some(nick) = &one.nick
                && xmpp::addr::normalize(&format!("{room}/{nick}")).is_err()
            {
                return Err(bad(&format!("{nick:?} is no nick")));
            }
            let record = Record::Affiliated(Affiliated {
                address: address.clone(),
                affiliation,
                nick: one.nick,
                reason: one.reason,
            });
            Ok(part(&room, format!("{AFFILIATED}{address}"), &record))
        };
        self.items.into_iter().map(record).collect()
    }
}

impl MessageLine {
    pub(super) fn records(self, head: &RoomHead) -> Result<Vec<store::Record>, Bad> {
        checked_message(&self.xml)?;
        let seq = head.first.checked_add(self.number);
        let seq = seq.filter(|seq| (1..=SEQ_MAX / 2).contains(seq));
        Ok(vec![store::Record::LogAppend {
            user: self.jid.as_str().into(),
            entry: LogEntry {
                seq: seq.ok_or_else(|| bad("a number that leaves none"))?,
                at: Timestamp::from_millis(self.at),
                peer: bare(&self.sender)?.into(),
                flags: EntryFlags::ARCHIVED,
                frame: self.xml.into_bytes().into(),
                ..LogEntry::default()
            },
        }])
    }
}

impl MembersLine {
    /// The records of those who have an account here; the store takes nothing for others.
    pub(super) fn records(self, head: &RoomHead) -> Result<Vec<store::Record>, Bad> {
        let room = self.jid;
        let record = |one: MemberLine| {
            let through = one.next.checked_add(head.first.saturating_sub(1));
            let through = through.filter(|through| *through <= SEQ_MAX / 2);
            Ok(store::Record::MemberRoomPut {
                user: bare(&one.jid)?,
                room: room.clone(),
                through: through.ok_or_else(|| bad("a number that leaves none"))?,
            })
        };
        self.items.into_iter().map(record).collect()
    }
}

impl OpenLine {
    pub(super) fn records(self, head: &mut RoomHead) -> Vec<store::Record> {
        head.is_locked = false;
        let unlocked = part(&self.jid, UNLOCKED, &Record::Unlocked);
        vec![unlocked, made(&self.jid, head)]
    }
}
