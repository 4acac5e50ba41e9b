//! What one node asks another one on behalf of an operator, and the answer: requests of the
//! administration, whose bytes are not looked at here. Long ones travel in parts, in order.

use std::fmt;

use crate::codec::{Bad, Reader, Writer};
use crate::kind::Kind;
use crate::limits::ERRAND_BYTES_MAX;

/// A part of a question or of an answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Errand {
    /// Names the question at the node that asks.
    pub number: u64,
    /// It answers, instead of asking.
    pub is_answer: bool,
    /// Nothing of it follows.
    pub is_last: bool,
    /// The part.
    pub bytes: Vec<u8>,
}

/// Without what may be a password.
impl fmt::Debug for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_answer { "Answered" } else { "Asked" };
        write!(f, "{what}({}, {} bytes)", self.number, self.bytes.len())
    }
}

impl Errand {
    pub(crate) fn kind(&self) -> Kind {
        match self.is_answer {
            false => Kind::Asked,
            true => Kind::Answered,
        }
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.number);
        out.u8(u8::from(self.is_last));
        out.bytes(&self.bytes, ERRAND_BYTES_MAX, "bytes");
    }

    pub(crate) fn read(is_answer: bool, from: &mut Reader<'_>) -> Result<Errand, Bad> {
        Ok(Errand {
            number: from.u64("number")?,
            is_answer,
            is_last: from.bool("last")?,
            bytes: from.bytes(ERRAND_BYTES_MAX, "bytes")?.to_vec(),
        })
    }
}
