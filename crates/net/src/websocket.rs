//! WebSocket (RFC 6455) from the server's side, without sockets: the answer to a handshake, frames
//! in, messages out, and the heads of frames that leave. Owns no buffer but that of a message that
//! comes in fragments; unmasked bytes go into a buffer that the caller lends. It offers no
//! extension (docs/decisions/0042-web-compression.md), so that reserved bits are always a fault.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What a control frame may carry at most, in bytes (section 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

/// What the key of a handshake is hashed with (section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Why a connection ends (section 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum CloseCode {
    /// All has been said.
    Normal = 1000,
    /// The server stops.
    GoingAway = 1001,
    /// The peer broke the protocol.
    Protocol = 1002,
    /// It sent binary data.
    Unsupported = 1003,
    /// It sent text that is not UTF-8.
    NotUtf8 = 1007,
    /// It sent more than is taken.
    TooLarge = 1009,
}

/// What is wrong with the bytes of a peer; the connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    /// The code that it is closed with.
    pub code: CloseCode,
    /// Why, for people.
    pub text: &'static str,
}

/// What one frame was, its payload in the buffer of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// It ended a text message, which is all of the buffer.
    Text,
    /// It was a fragment: nothing to do yet.
    Part,
    /// A ping: [`pong`] answers it.
    Ping,
    /// A pong.
    Pong,
    /// The peer closes: [`close`] answers it.
    Close,
}

/// The frames of one connection. One word while no message is incomplete.
#[derive(Debug, Default)]
pub struct Messages {
    #[expect(
        clippy::box_collection,
        reason = "one word in each connection while there is none, as nearly always"
    )]
    partial: Option<Box<Vec<u8>>>,
}

/// What a frame begins with.
struct Head {
    is_final: bool,
    opcode: u8,
    mask: [u8; 4],
    /// Bytes before the payload.
    head: usize,
    payload: usize,
}

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

fn fault<T>(code: CloseCode, text: &'static str) -> Result<T, Fault> {
    Err(Fault { code, text })
}

impl Messages {
    /// Bytes of a message of which some fragments have come.
    pub fn kept_bytes(&self) -> usize {
        self.partial.as_ref().map_or(0, |partial| partial.len())
    }

    /// Takes the frame at the start of the input, if it is complete: its length in bytes and what
    /// it was. `message_max`: bytes of one message, in however many fragments.
    ///
    /// # Errors
    /// [`Fault`]; known from the head of a frame, before its payload has come.
    pub fn next(
        &mut self,
        input: &[u8],
        message_max: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<(usize, Item)>, Fault> {
        let Some(head) = self.head(input, message_max)? else {
            return Ok(None);
        };
        let length = head.head + head.payload;
        let Some(payload) = input.get(head.head..length) else {
            return Ok(None);
        };
        buffer.clear();
        let item = match head.opcode {
            CONTINUATION | TEXT => self.text(&head, payload, buffer)?,
            PING | PONG | CLOSE => {
                unmask(payload, head.mask, buffer);
                match head.opcode {
                    PING => Item::Ping,
                    PONG => Item::Pong,
                    _ => {
                        check_close(buffer)?;
                        Item::Close
                    }
                }
            }
            _ => return fault(CloseCode::Protocol, "an unknown opcode"),
        };
        Ok(Some((length, item)))
    }

    fn text(&mut self, head: &Head, payload: &[u8], buffer: &mut Vec<u8>) -> Result<Item, Fault> {
        if let Some(mut partial) = self.partial.take() {
            unmask(payload, head.mask, &mut partial);
            if !head.is_final {
                self.partial = Some(partial);
                return Ok(Item::Part);
            }
            buffer.append(&mut partial);
        } else if head.is_final {
            unmask(payload, head.mask, buffer);
        } else {
            let mut partial = Box::default();
            unmask(payload, head.mask, &mut partial);
            self.partial = Some(partial);
            return Ok(Item::Part);
        }
        if std::str::from_utf8(buffer).is_err() {
            return fault(CloseCode::NotUtf8, "text that is not UTF-8");
        }
        Ok(Item::Text)
    }

    /// Section 5.2. What is wrong is told as soon as it can be seen.
    fn head(&self, input: &[u8], message_max: usize) -> Result<Option<Head>, Fault> {
        let [first, second, rest @ ..] = input else {
            return Ok(None);
        };
        if first & 0x70 != 0 {
            return fault(CloseCode::Protocol, "a reserved bit without an extension");
        }
        if second & 0x80 == 0 {
            return fault(CloseCode::Protocol, "a frame that is not masked");
        }
        let (is_final, opcode) = (first & 0x80 != 0, first & 0x0f);
        let short = usize::from(second & 0x7f);
        match opcode {
            CONTINUATION if self.partial.is_none() => {
                return fault(CloseCode::Protocol, "a continuation of nothing");
            }
            TEXT if self.partial.is_some() => {
                return fault(CloseCode::Protocol, "a message inside of another");
            }
            BINARY => return fault(CloseCode::Unsupported, "binary data"),
            CLOSE | PING | PONG if !is_final => {
                return fault(CloseCode::Protocol, "a control frame in fragments");
            }
            CLOSE | PING | PONG if short > CONTROL_BYTES_MAX => {
                return fault(CloseCode::Protocol, "a control frame that is too long");
            }
            CONTINUATION | TEXT | CLOSE | PING | PONG => {}
            _ => return fault(CloseCode::Protocol, "an unknown opcode"),
        }
        let (extended, least) = match short {
            126 => (2, 126),
            127 => (8, 65_536),
            _ => (0, 0),
        };
        let Some(bytes) = rest.get(..extended) else {
            return Ok(None);
        };
        let payload = match extended {
            0 => short as u64,
            _ => bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)),
        };
        if payload < least {
            return fault(CloseCode::Protocol, "a length that is not the shortest");
        }
        // Control frames have their own bound, and may come between the fragments of a message.
        let before = self.kept_bytes();
        let is_data = matches!(opcode, CONTINUATION | TEXT);
        if is_data && payload > (message_max.saturating_sub(before)) as u64 {
            return fault(CloseCode::TooLarge, "a message that is too large");
        }
        let Some(&[a, b, c, d]) = rest.get(extended..extended + 4) else {
            return Ok(None);
        };
        Ok(Some(Head {
            is_final,
            opcode,
            mask: [a, b, c, d],
            head: 2 + extended + 4,
            payload: payload as usize,
        }))
    }
}

/// Section 5.3.
fn unmask(payload: &[u8], mask: [u8; 4], out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(payload);
    let (words, rest) = out[from..].as_chunks_mut::<4>();
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ u32::from_ne_bytes(mask)).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

/// Section 5.5.1: a code that may be sent, and a reason in UTF-8.
fn check_close(payload: &[u8]) -> Result<(), Fault> {
    let (code, reason) = match payload {
        [] => return Ok(()),
        [_] => return fault(CloseCode::Protocol, "half a close code"),
        [a, b, reason @ ..] => (u16::from_be_bytes([*a, *b]), reason),
    };
    // Section 7.4 and its registry: 1004 to 1006 and 1015 are never sent.
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return fault(CloseCode::Protocol, "a close code that is none");
    }
    match std::str::from_utf8(reason) {
        Ok(_) => Ok(()),
        Err(_) => fault(CloseCode::NotUtf8, "a reason that is not UTF-8"),
    }
}

/// The longest head of a frame that leaves here: they are not masked.
pub const HEAD_BYTES_MAX: usize = 10;

/// The head of a text message of one frame: its bytes, and how many of them count.
pub fn text_head(payload: usize) -> ([u8; HEAD_BYTES_MAX], usize) {
    let mut head = [0; HEAD_BYTES_MAX];
    head[0] = 0x80 | TEXT;
    let length = (payload as u64).to_be_bytes();
    match payload {
        0..=125 => {
            head[1] = length[7];
            (head, 2)
        }
        126..=0xffff => {
            head[1] = 126;
            head[2..4].copy_from_slice(&length[6..]);
            (head, 4)
        }
        _ => {
            head[1] = 127;
            head[2..].copy_from_slice(&length);
            (head, 10)
        }
    }
}

/// The answer to a ping, whose payload it repeats (section 5.5.3).
pub fn pong(payload: &[u8], out: &mut Vec<u8>) {
    control(PONG, payload, out);
}

/// The end of our side (section 5.5.1).
pub fn close(code: CloseCode, out: &mut Vec<u8>) {
    control(CLOSE, &(code as u16).to_be_bytes(), out);
}

fn control(opcode: u8, payload: &[u8], out: &mut Vec<u8>) {
    let payload = &payload[..payload.len().min(CONTROL_BYTES_MAX)];
    out.extend_from_slice(&[0x80 | opcode, payload.len() as u8]);
    out.extend_from_slice(payload);
}

/// `Sec-WebSocket-Accept` for a key (section 4.2.2), if the key is one: 16 bytes.
pub fn accept(key: &str) -> Option<String> {
    let bytes = STANDARD.decode(key).ok()?;
    if bytes.len() != 16 {
        return None;
    }
    let mut context = ring::digest::Context::new(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key.as_bytes());
    context.update(GUID);
    Some(STANDARD.encode(context.finish()))
}

#[cfg(test)]
mod tests;
