//! What rooms and the homes of managed sessions in them say to each other (docs/rooms.md).

use std::sync::Arc;

use delivery::{Place, RoomPage};
use xml::Frame;

use crate::codec::{Bad, Reader, Writer};
use crate::kind::Kind;
use crate::limits::{ADDRESS_BYTES_MAX, PAGE_MESSAGES_MAX};
use crate::{Address, Seq};

/// A managed session in a room, as both sides name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sitting {
    /// The room.
    pub room: Address,
    /// The session's full address.
    pub full: Arc<str>,
    /// Its number at its home.
    pub number: u32,
}

impl Sitting {
    fn write(&self, out: &mut Writer<'_>) {
        out.address(&self.room, "room");
        out.address(&self.full, "occupant");
        out.number(self.number.into());
    }

    fn read(from: &mut Reader<'_>) -> Result<Sitting, Bad> {
        Ok(Sitting {
            room: from.address("room")?,
            full: from.address("occupant")?,
            number: from.number32("session")?,
        })
    }
}

/// A question for a page of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Who asks.
    pub who: Sitting,
    /// Names the answer.
    pub id: u32,
    /// Messages behind this place.
    pub after: Seq,
    /// Most messages.
    pub limit: usize,
}

/// What the home of a session says to a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToRoom {
    /// A managed session is there.
    Alive(Sitting),
    /// A managed session is not there.
    NotHere(Sitting),
    /// The client of a managed session is back and has missed presence; it believes to have this
    /// nick.
    Back(Sitting, String),
    /// A managed session asks for a page of the log.
    Pull(Pulled),
    /// A copy with this place of the log found no room in the mailbox of this address.
    Missed(Arc<str>, Seq),
    /// The home of an account knows that the room delivers to it ([`OfRoom::Member`]), durably, or
    /// never will.
    Noted(Address),
}

impl ToRoom {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            ToRoom::Alive(_) => Kind::Alive,
            ToRoom::NotHere(_) => Kind::NotHere,
            ToRoom::Back(..) => Kind::Back,
            ToRoom::Pull(_) => Kind::Pull,
            ToRoom::Missed(..) => Kind::Missed,
            ToRoom::Noted(_) => Kind::Noted,
        }
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        match self {
            ToRoom::Alive(who) | ToRoom::NotHere(who) => who.write(out),
            ToRoom::Back(who, nick) => {
                who.write(out);
                out.bytes(nick.as_bytes(), ADDRESS_BYTES_MAX, "nick");
            }
            ToRoom::Pull(pulled) => {
                pulled.who.write(out);
                out.number(pulled.id.into());
                out.number(pulled.after);
                out.count(pulled.limit, PAGE_MESSAGES_MAX, "limit");
            }
            ToRoom::Noted(member) => out.address(member, "member"),
            ToRoom::Missed(full, place) => {
                out.address(full, "occupant");
                out.number(*place);
            }
        }
    }

    /// `None` if the kind is none of these.
    pub(crate) fn read(kind: Kind, from: &mut Reader<'_>) -> Result<Option<ToRoom>, Bad> {
        Ok(Some(match kind {
            Kind::Alive => ToRoom::Alive(Sitting::read(from)?),
            Kind::NotHere => ToRoom::NotHere(Sitting::read(from)?),
            Kind::Back => {
                let who = Sitting::read(from)?;
                ToRoom::Back(who, from.text(ADDRESS_BYTES_MAX, "nick")?.to_owned())
            }
            Kind::Pull => {
                let who = Sitting::read(from)?;
                let (id, after) = (from.number32("question")?, from.number("place")?);
                let limit = from.number("limit")? as usize;
                if limit > PAGE_MESSAGES_MAX {
                    return Err(Bad("limit"));
                }
                ToRoom::Pull(Pulled {
                    who,
                    id,
                    after,
                    limit,
                })
            }
            Kind::Noted => ToRoom::Noted(from.address("member")?),
            Kind::Missed => ToRoom::Missed(from.address("occupant")?, from.number("place")?),
            _ => return Ok(None),
        }))
    }
}

/// What a room that delivers to its members says to the home of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The room.
    pub room: Address,
    /// What was said behind this place of its log is owed to the account, unless its home knows
    /// better.
    pub since: Seq,
    /// The log goes as far as this.
    pub told: Seq,
    /// The account was no member before: what it had of the room then does not count.
    pub is_new: bool,
    /// The room waits for [`ToRoom::Noted`].
    pub asks: bool,
}

impl Membership {
    fn write(&self, out: &mut Writer<'_>) {
        out.address(&self.room, "room");
        out.number(self.since);
        out.number(self.told);
        out.u8(u8::from(self.is_new));
        out.u8(u8::from(self.asks));
    }

    fn read(from: &mut Reader<'_>) -> Result<Membership, Bad> {
        Ok(Membership {
            room: from.address("room")?,
            since: from.number("place")?,
            told: from.number("place")?,
            is_new: from.bool("new")?,
            asks: from.bool("question")?,
        })
    }
}

/// What a room says to the home of a managed session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfRoom {
    /// From where on the room's log is owed to it; `None` if nothing more is.
    Here {
        /// Who.
        who: Sitting,
        /// Behind this place.
        since: Option<Seq>,
        /// It has just entered: nothing was said since.
        is_new: bool,
    },
    /// A copy found no room: the log goes as far as this.
    More {
        /// Who.
        who: Sitting,
        /// Place of the copy.
        place: Seq,
    },
    /// The room has been read, and believes that the session is there: is it?
    Asks {
        /// Who.
        who: Sitting,
        /// The log goes as far as this.
        told: Seq,
    },
    /// What the session asked for is owed to nobody: it is not there, or nothing is kept.
    Absent(Sitting),
    /// The room delivers to this account as its member, whether it is there or not.
    Member(Membership),
    /// A page of the log.
    Page {
        /// Who.
        who: Sitting,
        /// What it is.
        page: RoomPage,
        /// Its messages, without `to`: one for each place.
        messages: Vec<Frame>,
    },
}

impl OfRoom {
    /// The room that says it.
    pub fn room(&self) -> &str {
        match self {
            OfRoom::Here { who, .. }
            | OfRoom::More { who, .. }
            | OfRoom::Asks { who, .. }
            | OfRoom::Absent(who)
            | OfRoom::Page { who, .. } => &who.room,
            OfRoom::Member(member) => &member.room,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            OfRoom::Here { .. } => Kind::Here,
            OfRoom::More { .. } => Kind::More,
            OfRoom::Asks { .. } => Kind::Asks,
            OfRoom::Absent(_) => Kind::Absent,
            OfRoom::Page { .. } => Kind::Page,
            OfRoom::Member(_) => Kind::Member,
        }
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        match self {
            OfRoom::Here { who, since, is_new } => {
                who.write(out);
                out.option(*since, Writer::number);
                out.u8(u8::from(*is_new));
            }
            OfRoom::More { who, place } => {
                who.write(out);
                out.number(*place);
            }
            OfRoom::Asks { who, told } => {
                who.write(out);
                out.number(*told);
            }
            OfRoom::Absent(who) => who.write(out),
            OfRoom::Member(member) => member.write(out),
            OfRoom::Page {
                who,
                page,
                messages,
            } => {
                who.write(out);
                write_page(page, messages, out);
            }
        }
    }

    /// `None` if the kind is none of these.
    pub(crate) fn read(kind: Kind, from: &mut Reader<'_>) -> Result<Option<OfRoom>, Bad> {
        if kind == Kind::Member {
            return Ok(Some(OfRoom::Member(Membership::read(from)?)));
        }
        let is_known = matches!(
            kind,
            Kind::Here | Kind::More | Kind::Asks | Kind::Absent | Kind::Page
        );
        if !is_known {
            return Ok(None);
        }
        let who = Sitting::read(from)?;
        Ok(Some(match kind {
            Kind::Here => OfRoom::Here {
                who,
                since: from.option("place", |from| from.number("place"))?,
                is_new: from.bool("new")?,
            },
            Kind::More => OfRoom::More {
                who,
                place: from.number("place")?,
            },
            Kind::Asks => OfRoom::Asks {
                who,
                told: from.number("place")?,
            },
            Kind::Page => {
                let (page, messages) = read_page(from)?;
                OfRoom::Page {
                    who,
                    page,
                    messages,
                }
            }
            _ => OfRoom::Absent(who),
        }))
    }
}

fn write_page(page: &RoomPage, messages: &[Frame], out: &mut Writer<'_>) {
    out.number(page.id.into());
    out.number(page.through.number());
    out.u8(u8::from(page.is_end));
    out.count(page.places.len(), PAGE_MESSAGES_MAX, "messages");
    for (place, message) in page.places.iter().zip(messages) {
        out.number(place.number());
        out.frame(message);
    }
}

fn read_page(from: &mut Reader<'_>) -> Result<(RoomPage, Vec<Frame>), Bad> {
    let id = from.number32("question")?;
    let through = Place::new(from.number("place")?);
    let is_end = from.bool("end")?;
    let count = from.count(PAGE_MESSAGES_MAX, "messages")?;
    let (mut places, mut messages) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for _ in 0..count {
        places.push(Place::new(from.number("place")?));
        messages.push(from.frame()?);
    }
    let page = RoomPage {
        id,
        places,
        through,
        is_end,
    };
    Ok((page, messages))
}
