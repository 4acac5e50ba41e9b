//! Requests of sessions over BOSH (XEP-0124) that came to another node than their session: what
//! the two nodes say to each other about one of them. Its body is not looked at here.
//!
//! | packet | from | says |
//! |---|---|---|
//! | request | the node that it came to | the request, and who may hear its answer |
//! | request-lost | the same | whoever waited for the answer is gone |
//! | request-answered | the session's node | the answer |
//! | request-dropped | the same | there is none: it is made again elsewhere, or has to be |

use std::fmt;
use std::net::IpAddr;

use crate::codec::{Bad, Reader, Writer};
use crate::joined::{ConnAt, read_conn, read_ip, write_conn, write_ip};
use crate::kind::Kind;
use crate::limits::{CONTENT_BYTES_MAX, FRAME_BYTES_MAX, TOKEN_BYTES_MAX};

/// A request that waits for its answer, as the node names it that it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestAt {
    /// The connection that it came over.
    pub conn: ConnAt,
    /// Which of that connection's it is.
    pub slot: u32,
    /// Random: the request of another process under the same name is told apart by it.
    pub number: u64,
}

/// Something about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The request.
    pub request: RequestAt,
    /// What is said.
    pub said: OfRequest,
}

/// What is said of a request.
#[derive(Clone, PartialEq, Eq)]
pub enum OfRequest {
    /// It came.
    Came {
        /// The connection of its session, at the node that has it.
        session: ConnAt,
        /// What proves that it is the session's.
        token: Box<str>,
        /// Where its client comes from.
        address: IpAddr,
        /// Whether it came under TLS.
        is_secure: bool,
        /// The body of the request.
        body: Vec<u8>,
    },
    /// Nobody waits for its answer any more.
    Lost {
        /// The connection of its session.
        session: ConnAt,
    },
    /// Its answer.
    Answered {
        /// The type of the body, if it is not the usual one.
        content: Option<Box<str>>,
        /// The body of the answer.
        body: Vec<u8>,
    },
    /// It gets none.
    Dropped,
}

/// Without what people say, and without what proves whose it is.
impl fmt::Debug for OfRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OfRequest::Came { body, .. } => write!(f, "Came({} bytes)", body.len()),
            OfRequest::Lost { .. } => write!(f, "Lost"),
            OfRequest::Answered { body, .. } => write!(f, "Answered({} bytes)", body.len()),
            OfRequest::Dropped => write!(f, "Dropped"),
        }
    }
}

fn text(from: &mut Reader<'_>, max: usize, field: &'static str) -> Result<Box<str>, Bad> {
    let bytes = from.bytes(max, field)?;
    let text = std::str::from_utf8(bytes).map_err(|_| Bad(field))?;
    Ok(text.into())
}

impl Passed {
    pub(crate) fn kind(&self) -> Kind {
        match self.said {
            OfRequest::Came { .. } => Kind::Request,
            OfRequest::Lost { .. } => Kind::RequestLost,
            OfRequest::Answered { .. } => Kind::RequestAnswered,
            OfRequest::Dropped => Kind::RequestDropped,
        }
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        write_conn(out, self.request.conn);
        out.u32(self.request.slot);
        out.u64(self.request.number);
        match &self.said {
            OfRequest::Came {
                session,
                token,
                address,
                is_secure,
                body,
            } => {
                write_conn(out, *session);
                out.u8(u8::from(*is_secure));
                write_ip(out, *address);
                out.bytes(token.as_bytes(), TOKEN_BYTES_MAX, "token");
                out.bytes(body, FRAME_BYTES_MAX, "body");
            }
            OfRequest::Answered { content, body } => {
                out.option(content.as_deref(), |out, content| {
                    out.bytes(content.as_bytes(), CONTENT_BYTES_MAX, "content");
                });
                out.bytes(body, FRAME_BYTES_MAX, "body");
            }
            OfRequest::Lost { session } => write_conn(out, *session),
            OfRequest::Dropped => {}
        }
    }

    /// Reads the rest of one of these kinds; `None` for any other.
    pub(crate) fn read(kind: Kind, from: &mut Reader<'_>) -> Result<Option<Passed>, Bad> {
        let is_one = matches!(
            kind,
            Kind::Request | Kind::RequestLost | Kind::RequestAnswered | Kind::RequestDropped
        );
        if !is_one {
            return Ok(None);
        }
        let request = RequestAt {
            conn: read_conn(from)?,
            slot: from.u32("slot")?,
            number: from.u64("number")?,
        };
        let said = match kind {
            Kind::Request => OfRequest::Came {
                session: read_conn(from)?,
                is_secure: from.bool("flags")?,
                address: read_ip(from)?,
                token: text(from, TOKEN_BYTES_MAX, "token")?,
                body: from.bytes(FRAME_BYTES_MAX, "body")?.to_vec(),
            },
            Kind::RequestAnswered => {
                let has_content = from.bool("flags")?;
                let content = || text(from, CONTENT_BYTES_MAX, "content");
                OfRequest::Answered {
                    content: has_content.then(content).transpose()?,
                    body: from.bytes(FRAME_BYTES_MAX, "body")?.to_vec(),
                }
            }
            Kind::RequestLost => OfRequest::Lost {
                session: read_conn(from)?,
            },
            _ => OfRequest::Dropped,
        };
        Ok(Some(Passed { request, said }))
    }
}
