//! Clients whose socket is at one node and whose account is at home at another: what the two nodes
//! say to each other about such a connection. Its bytes are not looked at here.
//!
//! | packet | from | says |
//! |---|---|---|
//! | join | the edge, which holds the socket | who comes, and what it has said so far |
//! | bytes | both | a part of what goes over the connection, and where it stands in it |
//! | room | both | so many more bytes may be sent |
//! | end | both | nothing follows behind so many bytes |
//!
//! What is said so that a connection can outlive its home is in `adopt.rs`.

use std::fmt;
use std::net::IpAddr;

use crate::Address;
use crate::adopt::{Mark, read_answered, read_session, write_answered, write_session};
use crate::codec::{Bad, Reader, Writer};
use crate::kind::Kind;
use crate::limits::{JOIN_ELEMENTS_MAX, JOIN_PART_BYTES_MAX, JOINED_BYTES_MAX};

/// A connection, as its own node names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnAt {
    /// The shard that has it.
    pub shard: u16,
    /// Which one it is there.
    pub index: u32,
    /// Which of those that had the index.
    pub generation: u32,
}

/// What carries a client's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A socket: the bytes are those of the stream (RFC 6120).
    Socket,
    /// A WebSocket: the bytes are its frames (RFC 7395).
    WebSocket,
    /// HTTP (XEP-0124): the bytes are those of a stream, of which the edge makes answers.
    Bosh,
}

const TLS: u8 = 4;
const EXPORTER: u8 = 8;

impl Carrier {
    pub(crate) const ALL: [Carrier; 3] = [Carrier::Socket, Carrier::WebSocket, Carrier::Bosh];

    pub(crate) fn number(self) -> u8 {
        match self {
            Carrier::Socket => 0,
            Carrier::WebSocket => 1,
            Carrier::Bosh => 2,
        }
    }
}

/// A client has said whose it is: its account's home goes on with the stream.
#[derive(Clone, PartialEq, Eq)]
pub struct Join {
    /// The account, a bare address.
    pub user: Address,
    /// Its range.
    pub range: u16,
    /// The tenure of that range's home, as the edge knows it.
    pub tenure: u32,
    /// The connection at the edge.
    pub from: ConnAt,
    /// Random: what is said of another connection of the same name is told apart by it.
    pub number: u64,
    /// Where the client comes from.
    pub address: IpAddr,
    /// What carries its stream.
    pub carrier: Carrier,
    /// Whether it came under TLS; and the channel binding of that (RFC 9266), if there is one.
    pub tls: Option<Option<[u8; 32]>>,
    /// How the client opened its stream.
    pub header: Vec<u8>,
    /// The elements with which it says whose it is, in order.
    pub elements: Vec<Vec<u8>>,
}

/// Without what may be a password, and without keys.
impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Join")
            .field("user", &self.user)
            .field("from", &self.from)
            .field("carrier", &self.carrier)
            .finish_non_exhaustive()
    }
}

/// Something about a connection that is joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The connection at the node that reads this.
    pub to: ConnAt,
    /// The connection at the node that wrote it.
    pub from: ConnAt,
    /// [`Join::number`].
    pub number: u64,
    /// What is said.
    pub said: Part,
}

/// What is said of a joined connection.
#[derive(Clone, PartialEq, Eq)]
pub enum Part {
    /// Bytes of it.
    Bytes {
        /// How many went before.
        at: u64,
        /// An element, or whatever its carrier makes of one, ends with them.
        is_whole: bool,
        /// They.
        bytes: Vec<u8>,
    },
    /// So many more may be sent.
    Room(u32),
    /// Nothing follows.
    End {
        /// How many bytes went before.
        at: u64,
        /// The end of the stream has been written.
        is_orderly: bool,
    },
    /// The edge keeps what a connection needs to outlive its home, if the home marks it.
    Keeps,
    /// The client's session can go on at another home, from the next mark on.
    Session {
        /// The account, a bare address.
        user: Address,
        /// What proves whose it is.
        token: Box<str>,
        /// How its client opened its stream last.
        header: Vec<u8>,
        /// How far both directions have come.
        mark: Mark,
    },
    /// How far both directions have come.
    Mark(Mark),
    /// Bytes of it, with which an element ends, and how far both directions have come then.
    Marked {
        /// They.
        bytes: Vec<u8>,
        /// At their end.
        mark: Mark,
        /// Requests behind the mark that have their answers among these bytes, by their counts; at
        /// most [`ANSWERED_MAX`](crate::limits::ANSWERED_MAX).
        answered: Vec<u32>,
    },
    /// This home is none any more: nothing follows, and what the last mark says is all that was
    /// done. The edge introduces the connection to the next one.
    Left {
        /// How many bytes went before.
        at: u64,
        /// So many of the client's stanzas are done for certain, recorded or not.
        inbound: Option<u32>,
    },
    /// The next home goes on with the session, of whose client so many stanzas are handled: the
    /// edge sends what it has kept.
    Adopted {
        /// The count.
        inbound: u32,
    },
}

/// Without what people say.
impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Bytes { at, bytes, .. } => write!(f, "Bytes({at}, +{})", bytes.len()),
            Part::Room(bytes) => write!(f, "Room({bytes})"),
            Part::End { at, is_orderly } => write!(f, "End({at}, {is_orderly})"),
            Part::Keeps => write!(f, "Keeps"),
            Part::Session { .. } => write!(f, "Session"),
            Part::Mark(mark) => write!(f, "{mark:?}"),
            Part::Marked {
                bytes,
                mark,
                answered,
            } => write!(f, "Marked(+{}, {mark:?}, {answered:?})", bytes.len()),
            Part::Left { at, inbound } => write!(f, "Left({at}, {inbound:?})"),
            Part::Adopted { inbound } => write!(f, "Adopted({inbound})"),
        }
    }
}

pub(crate) fn write_conn(out: &mut Writer<'_>, conn: ConnAt) {
    out.u16(conn.shard);
    out.u32(conn.index);
    out.u32(conn.generation);
}

pub(crate) fn read_conn(from: &mut Reader<'_>) -> Result<ConnAt, Bad> {
    Ok(ConnAt {
        shard: from.u16("connection")?,
        index: from.u32("connection")?,
        generation: from.u32("connection")?,
    })
}

pub(crate) fn write_ip(out: &mut Writer<'_>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => out.bytes(&address.octets(), 16, "address"),
        IpAddr::V6(address) => out.bytes(&address.octets(), 16, "address"),
    }
}

pub(crate) fn read_ip(from: &mut Reader<'_>) -> Result<IpAddr, Bad> {
    let octets = from.bytes(16, "address")?;
    match (<[u8; 4]>::try_from(octets), <[u8; 16]>::try_from(octets)) {
        (Ok(octets), _) => Ok(IpAddr::from(octets)),
        (_, Ok(octets)) => Ok(IpAddr::from(octets)),
        _ => Err(Bad("address")),
    }
}

impl Join {
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        let mut flags = self.carrier.number();
        flags |= self.tls.map_or(0, |_| TLS);
        flags |= self.tls.flatten().map_or(0, |_| EXPORTER);
        out.u8(flags);
        out.address(&self.user, "recipient");
        write_conn(out, self.from);
        out.u64(self.number);
        write_ip(out, self.address);
        if let Some(exporter) = self.tls.flatten() {
            out.bytes(&exporter, 32, "exporter");
        }
        out.bytes(&self.header, JOIN_PART_BYTES_MAX, "header");
        out.count(self.elements.len(), JOIN_ELEMENTS_MAX, "elements");
        for element in &self.elements {
            out.bytes(element, JOIN_PART_BYTES_MAX, "elements");
        }
    }

    pub(crate) fn read((range, tenure): (u16, u32), from: &mut Reader<'_>) -> Result<Join, Bad> {
        let flags = from.u8("flags")?;
        let has = |flag| flags & flag != 0;
        let carriers = Carrier::ALL.iter();
        let carrier = carriers.copied().find(|one| one.number() == flags & 3);
        let carrier = carrier.filter(|_| flags < 16 && (has(TLS) || !has(EXPORTER)));
        let carrier = carrier.ok_or(Bad("flags"))?;
        let user = from.address("recipient")?;
        let conn = read_conn(from)?;
        let number = from.u64("number")?;
        let address = read_ip(from)?;
        let exporter = match has(EXPORTER) {
            true => {
                let bytes = from.bytes(32, "exporter")?;
                Some(bytes.try_into().map_err(|_| Bad("exporter"))?)
            }
            false => None,
        };
        let header = from.bytes(JOIN_PART_BYTES_MAX, "header")?.to_vec();
        let count = from.count(JOIN_ELEMENTS_MAX, "elements")?;
        let element = |_| Ok(from.bytes(JOIN_PART_BYTES_MAX, "elements")?.to_vec());
        let elements: Result<Vec<Vec<u8>>, Bad> = (0..count).map(element).collect();
        Ok(Join {
            user,
            range,
            tenure,
            from: conn,
            number,
            address,
            carrier,
            tls: has(TLS).then_some(exporter),
            header,
            elements: elements?,
        })
    }
}

impl Joined {
    pub(crate) fn kind(&self) -> Kind {
        match &self.said {
            Part::Bytes { .. } => Kind::JoinedBytes,
            Part::Room(_) => Kind::JoinedRoom,
            Part::End { .. } => Kind::JoinedEnd,
            Part::Keeps => Kind::JoinedKeeps,
            Part::Session { .. } => Kind::JoinedSession,
            Part::Mark(_) => Kind::JoinedMark,
            Part::Marked { answered, .. } => match answered.is_empty() {
                true => Kind::JoinedMarked,
                false => Kind::JoinedMarkedAnswers,
            },
            Part::Left { .. } => Kind::JoinedLeft,
            Part::Adopted { .. } => Kind::JoinedAdopted,
        }
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        write_conn(out, self.to);
        write_conn(out, self.from);
        out.u64(self.number);
        match &self.said {
            Part::Bytes {
                at,
                is_whole,
                bytes,
            } => {
                out.u8(u8::from(*is_whole));
                out.number(*at);
                out.bytes(bytes, JOINED_BYTES_MAX, "bytes");
            }
            Part::Room(bytes) => out.u32(*bytes),
            Part::End { at, is_orderly } => {
                out.u8(u8::from(*is_orderly));
                out.number(*at);
            }
            Part::Keeps => {}
            Part::Session {
                user,
                token,
                header,
                mark,
            } => {
                out.address(user, "recipient");
                write_session(out, token, header);
                mark.write(out);
            }
            Part::Marked {
                bytes,
                mark,
                answered,
            } => {
                mark.write(out);
                if !answered.is_empty() {
                    write_answered(out, answered);
                }
                out.bytes(bytes, JOINED_BYTES_MAX, "bytes");
            }
            Part::Mark(mark) => mark.write(out),
            Part::Left { at, inbound } => {
                out.number(*at);
                out.u8(u8::from(inbound.is_some()));
                out.u32(inbound.unwrap_or_default());
            }
            Part::Adopted { inbound } => out.u32(*inbound),
        }
    }

    /// Reads the rest of one of these kinds; `None` for any other.
    pub(crate) fn read(kind: Kind, from: &mut Reader<'_>) -> Result<Option<Joined>, Bad> {
        let is_joined = matches!(
            kind,
            Kind::JoinedBytes
                | Kind::JoinedRoom
                | Kind::JoinedEnd
                | Kind::JoinedKeeps
                | Kind::JoinedSession
                | Kind::JoinedMark
                | Kind::JoinedMarked
                | Kind::JoinedMarkedAnswers
                | Kind::JoinedLeft
                | Kind::JoinedAdopted
        );
        if !is_joined {
            return Ok(None);
        }
        let (to, sender) = (read_conn(from)?, read_conn(from)?);
        let number = from.u64("number")?;
        let said = match kind {
            Kind::JoinedKeeps => Part::Keeps,
            Kind::JoinedSession => {
                let user = from.address("recipient")?;
                let (token, header) = read_session(from)?;
                Part::Session {
                    user,
                    token,
                    header,
                    mark: Mark::read(from)?,
                }
            }
            Kind::JoinedMarked | Kind::JoinedMarkedAnswers => Part::Marked {
                mark: Mark::read(from)?,
                answered: match kind {
                    Kind::JoinedMarkedAnswers => read_answered(from)?,
                    _ => Vec::new(),
                },
                bytes: from.bytes(JOINED_BYTES_MAX, "bytes")?.to_vec(),
            },
            Kind::JoinedMark => Part::Mark(Mark::read(from)?),
            Kind::JoinedLeft => {
                let at = from.number("place")?;
                let (is_some, count) = (from.bool("flags")?, from.u32("count")?);
                if !is_some && count != 0 {
                    return Err(Bad("count"));
                }
                Part::Left {
                    at,
                    inbound: is_some.then_some(count),
                }
            }
            Kind::JoinedAdopted => Part::Adopted {
                inbound: from.u32("count")?,
            },
            Kind::JoinedRoom => Part::Room(from.u32("room")?),
            Kind::JoinedEnd => Part::End {
                is_orderly: from.bool("flags")?,
                at: from.number("place")?,
            },
            _ => Part::Bytes {
                is_whole: from.bool("flags")?,
                at: from.number("place")?,
                bytes: from.bytes(JOINED_BYTES_MAX, "bytes")?.to_vec(),
            },
        };
        Ok(Some(Joined {
            to,
            from: sender,
            number,
            said,
        }))
    }
}
