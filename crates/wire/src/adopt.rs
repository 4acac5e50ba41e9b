//! What a client's connection needs to outlive the home of its account: what the home marks while
//! it lives, and how the edge introduces the connection to the next one.
//!
//! | packet | from | says |
//! |---|---|---|
//! | keeps | the edge | mark what is sent: this node can introduce the connection to another home
//! | | session | the home | what proves whose the connection is |
//! | mark; marked bytes | the home | up to which count the client was written, which of its bytes
//! are done, and which of its requests behind those had their answers among the bytes |
//! | left | the home | it is none any more |
//! | adopt | the edge, to the next home | the proof, the counts of the last mark, those answers |
//! | adopted | that home | how many of the client's stanzas are handled: the rest follows |

use std::fmt;
use std::net::IpAddr;

use crate::Address;
use crate::codec::{Bad, Reader, Writer};
use crate::joined::{Carrier, ConnAt, read_conn, read_ip, write_conn, write_ip};
use crate::kind::Kind;
use crate::limits::{ANSWERED_MAX, JOIN_PART_BYTES_MAX, TOKEN_BYTES_MAX};

/// How far both directions of a connection have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Bytes for the client that went before: an element ends with them.
    pub at: u64,
    /// Up to there the client's bytes are done: so many, with everything in front of the stanza
    /// behind [`Counts::inbound`].
    pub heard: u64,
    /// The counts at these places.
    pub counts: Counts,
}

/// Counts of a session (XEP-0198), modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The last stanza that was written to the client.
    pub sent: u32,
    /// The last of them that the client has acknowledged.
    pub acked: u32,
    /// The last stanza of the client that a record says was handled.
    pub inbound: u32,
}

/// A connection whose account's home is gone introduces itself to the next one.
#[derive(Clone, PartialEq, Eq)]
pub struct Adopt {
    /// The account, a bare address.
    pub user: Address,
    /// Its range.
    pub range: u16,
    /// The tenure of that range's home, as the edge knows it.
    pub tenure: u32,
    /// The connection at the edge.
    pub from: ConnAt,
    /// As [`crate::Join::number`]: another one for each home.
    pub number: u64,
    /// Where the client comes from.
    pub address: IpAddr,
    /// What carries its stream.
    pub carrier: Carrier,
    /// How the client opened its stream last.
    pub header: Vec<u8>,
    /// What proves whose it is, as the home said it: the name under which its session is resumed,
    /// and how often it was.
    pub token: Box<str>,
    /// Those of the last mark. What the edge has kept begins behind the stanza `inbound`.
    pub counts: Counts,
    /// So many of the client's stanzas the home before has done, recorded or not.
    pub done: Option<u32>,
    /// Requests behind the last mark that have had their answers, by their counts; at most
    /// [`ANSWERED_MAX`].
    pub answered: Vec<u32>,
}

/// Without what proves whose it is.
impl fmt::Debug for Adopt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adopt")
            .field("user", &self.user)
            .field("from", &self.from)
            .field("counts", &self.counts)
            .field("done", &self.done)
            .field("answered", &self.answered)
            .finish_non_exhaustive()
    }
}

pub(crate) fn write_session(out: &mut Writer<'_>, token: &str, header: &[u8]) {
    out.bytes(token.as_bytes(), TOKEN_BYTES_MAX, "token");
    out.bytes(header, JOIN_PART_BYTES_MAX, "header");
}

pub(crate) fn read_session(from: &mut Reader<'_>) -> Result<(Box<str>, Vec<u8>), Bad> {
    let token = from.bytes(TOKEN_BYTES_MAX, "token")?;
    let token = std::str::from_utf8(token).map_err(|_| Bad("token"))?;
    let header = from.bytes(JOIN_PART_BYTES_MAX, "header")?;
    Ok((token.into(), header.to_vec()))
}

impl Counts {
    fn write(self, out: &mut Writer<'_>) {
        out.u32(self.sent);
        out.u32(self.acked);
        out.u32(self.inbound);
    }

    fn read(from: &mut Reader<'_>) -> Result<Counts, Bad> {
        Ok(Counts {
            sent: from.u32("count")?,
            acked: from.u32("count")?,
            inbound: from.u32("count")?,
        })
    }
}

impl Mark {
    pub(crate) fn write(self, out: &mut Writer<'_>) {
        out.number(self.at);
        out.number(self.heard);
        self.counts.write(out);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Mark, Bad> {
        Ok(Mark {
            at: from.number("place")?,
            heard: from.number("place")?,
            counts: Counts::read(from)?,
        })
    }
}

pub(crate) fn write_answered(out: &mut Writer<'_>, answered: &[u32]) {
    out.count(answered.len(), ANSWERED_MAX, "answered");
    for count in answered {
        out.u32(*count);
    }
}

/// There is one at least: without any it is a packet of another kind.
pub(crate) fn read_answered(from: &mut Reader<'_>) -> Result<Vec<u32>, Bad> {
    let answered = from.count(ANSWERED_MAX, "answered")?;
    if answered == 0 {
        return Err(Bad("answered"));
    }
    (0..answered).map(|_| from.u32("count")).collect()
}

/// The home before said what it has done.
const HAS_DONE: u8 = 4;

impl Adopt {
    pub(crate) fn kind(&self) -> Kind {
        match self.answered.is_empty() {
            true => Kind::Adopt,
            false => Kind::AdoptAnswered,
        }
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.u8(self.carrier.number() | self.done.map_or(0, |_| HAS_DONE));
        out.address(&self.user, "recipient");
        write_conn(out, self.from);
        out.u64(self.number);
        write_ip(out, self.address);
        write_session(out, &self.token, &self.header);
        self.counts.write(out);
        if let Some(done) = self.done {
            out.u32(done);
        }
        if !self.answered.is_empty() {
            write_answered(out, &self.answered);
        }
    }

    /// Reads the rest of one of the two kinds.
    pub(crate) fn read(
        kind: Kind,
        (range, tenure): (u16, u32),
        from: &mut Reader<'_>,
    ) -> Result<Adopt, Bad> {
        let flags = from.u8("flags")?;
        let mut carriers = Carrier::ALL.iter().copied();
        let carrier = carriers.find(|one| one.number() == flags & 3);
        let carrier = carrier.filter(|_| flags < 8).ok_or(Bad("flags"))?;
        let user = from.address("recipient")?;
        let conn = read_conn(from)?;
        let number = from.u64("number")?;
        let address = read_ip(from)?;
        let (token, header) = read_session(from)?;
        let counts = Counts::read(from)?;
        let done = match flags & HAS_DONE {
            0 => None,
            _ => Some(from.u32("count")?),
        };
        let answered = match kind {
            Kind::AdoptAnswered => read_answered(from)?,
            _ => Vec::new(),
        };
        Ok(Adopt {
            user,
            range,
            tenure,
            from: conn,
            number,
            address,
            carrier,
            header,
            token,
            counts,
            done,
            answered,
        })
    }
}
