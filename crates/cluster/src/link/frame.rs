//! Frames of a link: a length, a kind, a body. Owns their bytes and bounds; what they mean is said
//! by `outgoing` and `incoming`.
//!
//! | kind | from | body |
//! |---|---|---|
//! | hello | who sends packets | JSON: who it is, which versions it knows, which session this is |
//! | welcome | who takes them | JSON: who it is, how many packets need not come again |
//! | refused | who takes them | a sentence; the connection ends |
//! | packet | who sends | position, packet |
//! | ping | who sends | nothing; answered with an acknowledgement |
//! | acknowledged | who takes | how many packets of the session need not come again |
//! | moved | who takes | position, packet of the answer: nobody here has what was at that position |

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::credentials::sentence;

/// The newest version of links that this node knows.
pub(super) const VERSION: u32 = 2;

/// From this one on packets that went back are asked for again with a new connection, and an empty
/// one says that its sender has heard of it.
pub(super) const ASKS_AGAIN: u32 = 2;

/// The oldest that it still speaks.
pub(super) const VERSION_MIN: u32 = 1;

/// Largest frame in bytes: a packet of the largest stanza, with what is around it.
pub(super) const FRAME_BYTES_MAX: usize = 32 * 1_024 * 1_024;

/// Largest frame of somebody of whom nothing is known yet. Less than what the first bytes of a TLS
/// record would be as a length.
const FIRST_BYTES_MAX: usize = 64 * 1_024;

/// How records of TLS begin (RFC 8446 section 5.1).
const TLS_ALERT: u8 = 21;
const TLS_HANDSHAKE: u8 = 22;
const TLS_MAJOR: u8 = 3;

/// How a sender introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version_min: u32,
    pub(super) version: u32,
    pub(super) deployment: String,
    pub(super) from: String,
    pub(super) incarnation: u64,
    /// Counts the times that positions begin anew.
    pub(super) session: u64,
    /// Whom it means to reach.
    pub(super) to: String,
}

/// The answer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Welcome {
    pub(super) version: u32,
    pub(super) incarnation: u64,
    pub(super) received: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Hello(Hello),
    Welcome(Welcome),
    Refused(String),
    Packet(u64, Vec<u8>),
    Ping,
    Acknowledged(u64),
    Moved(u64, Vec<u8>),
}

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const REFUSED: u8 = 3;
const PACKET: u8 = 4;
const PING: u8 = 5;
const ACKNOWLEDGED: u8 = 6;
const MOVED: u8 = 7;

/// Writes a frame of some parts behind what is there.
fn write(out: &mut Vec<u8>, kind: u8, parts: [&[u8]; 2]) {
    // Bodies are bounded far below 4 GiB.
    let length = (1 + parts[0].len() + parts[1].len()) as u32;
    out.extend_from_slice(&length.to_le_bytes());
    out.push(kind);
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Writes a packet, without a copy of it before.
pub(super) fn write_packet(out: &mut Vec<u8>, position: u64, packet: &[u8]) {
    write(out, PACKET, [&position.to_le_bytes(), packet]);
}

impl Frame {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        // Invariant: they are plain structs with string keys.
        let json = |value: Result<Vec<u8>, serde_json::Error>| value.expect("a frame is JSON");
        match self {
            Frame::Hello(hello) => write(out, HELLO, [&json(serde_json::to_vec(hello)), &[]]),
            Frame::Welcome(welcome) => {
                write(out, WELCOME, [&json(serde_json::to_vec(welcome)), &[]]);
            }
            Frame::Refused(why) => write(out, REFUSED, [why.as_bytes(), &[]]),
            Frame::Packet(position, packet) => write_packet(out, *position, packet),
            Frame::Ping => write(out, PING, [&[], &[]]),
            Frame::Acknowledged(received) => {
                write(out, ACKNOWLEDGED, [&received.to_le_bytes(), &[]]);
            }
            Frame::Moved(position, packet) => {
                write(out, MOVED, [&position.to_le_bytes(), packet]);
            }
        }
    }

    /// Reads the body of a frame.
    fn parse(kind: u8, mut body: Vec<u8>) -> Result<Frame, String> {
        let json = |error: serde_json::Error| error.to_string();
        let number = |body: &[u8]| {
            let (number, rest) = body.split_first_chunk::<8>().ok_or("a short frame")?;
            Ok::<_, String>((u64::from_le_bytes(*number), rest.len()))
        };
        match kind {
            HELLO => Ok(Frame::Hello(serde_json::from_slice(&body).map_err(json)?)),
            WELCOME => Ok(Frame::Welcome(serde_json::from_slice(&body).map_err(json)?)),
            REFUSED => Ok(Frame::Refused(String::from_utf8_lossy(&body).into_owned())),
            PACKET | MOVED => {
                let (position, _) = number(&body)?;
                body.drain(..8);
                Ok(match kind {
                    PACKET => Frame::Packet(position, body),
                    _ => Frame::Moved(position, body),
                })
            }
            PING if body.is_empty() => Ok(Frame::Ping),
            ACKNOWLEDGED => match number(&body)? {
                (received, 0) => Ok(Frame::Acknowledged(received)),
                _ => Err("a long acknowledgement".to_owned()),
            },
            _ => Err(format!("a frame of kind {kind}")),
        }
    }
}

/// Reads the first frame: a hello, or the answer to one.
pub(super) async fn read_first(from: &mut (impl AsyncRead + Unpin)) -> Result<Frame, String> {
    read_within(from, FIRST_BYTES_MAX).await
}

/// Reads the next frame. Not to be cancelled in between.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Frame, String> {
    read_within(from, FRAME_BYTES_MAX).await
}

async fn read_within(from: &mut (impl AsyncRead + Unpin), most: usize) -> Result<Frame, String> {
    let text = |error: std::io::Error| sentence(&error);
    let length = from.read_u32_le().await.map_err(text)?;
    let start = length.to_le_bytes();
    let length = length as usize;
    if length > most && matches!(start, [TLS_ALERT | TLS_HANDSHAKE, TLS_MAJOR, ..]) {
        return Err(
            "it speaks TLS, and this node does not: set cluster.certificate, cluster.key and \
             cluster.ca"
                .to_owned(),
        );
    }
    if length == 0 || length > most {
        return Err(format!("it is no node: a frame of {length} bytes"));
    }
    let kind = from.read_u8().await.map_err(text)?;
    // Memory grows with what comes, not with what is claimed.
    let mut body = Vec::new();
    let rest = (length - 1) as u64;
    from.take(rest).read_to_end(&mut body).await.map_err(text)?;
    if body.len() < length - 1 {
        return Err("the connection ended inside a frame".to_owned());
    }
    Frame::parse(kind, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(bytes: &[u8]) -> Vec<Result<Frame, String>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let mut from = bytes;
            let mut frames = Vec::new();
            while !from.is_empty() {
                frames.push(read(&mut from).await);
                if frames.last().is_some_and(Result::is_err) {
                    break;
                }
            }
            frames
        })
    }

    #[test]
    fn frames_survive_their_bytes_and_cut_ones_do_not() {
        let hello = Hello {
            version_min: 1,
            version: 2,
            deployment: "roost".to_owned(),
            from: "a".to_owned(),
            incarnation: 7,
            session: 3,
            to: "b".to_owned(),
        };
        let welcome = Welcome {
            version: 1,
            incarnation: 9,
            received: 4,
        };
        let frames = [
            Frame::Hello(hello),
            Frame::Welcome(welcome),
            Frame::Refused("no".to_owned()),
            Frame::Packet(8, b"packet".to_vec()),
            Frame::Packet(9, Vec::new()),
            Frame::Ping,
            Frame::Acknowledged(9),
            Frame::Moved(8, b"moved".to_vec()),
        ];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut bytes));
        let back: Vec<Frame> = read_all(&bytes).into_iter().map(Result::unwrap).collect();
        assert_eq!(back, frames);
        for frame in frames {
            let mut bytes = Vec::new();
            frame.write(&mut bytes);
            for cut in 1..bytes.len() {
                assert!(read_all(&bytes[..cut])[0].is_err());
            }
        }
    }

    /// Goal: who is not known cannot make a node wait for much, and TLS is recognised where none is
    /// spoken.
    #[test]
    fn a_first_frame_is_small() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let first = |bytes: &[u8]| {
            let mut bytes = bytes;
            runtime.as_ref().unwrap().block_on(read_first(&mut bytes))
        };
        let claims = |length: usize| (length as u32).to_le_bytes();
        let refused = first(&claims(FIRST_BYTES_MAX + 1)).unwrap_err();
        assert!(refused.contains("a frame of 65537 bytes"), "{refused}");
        let cut = first(&claims(FIRST_BYTES_MAX)).unwrap_err();
        assert_eq!(cut, "it ended the connection");
        for tls in [[22, 3, 1, 0], [22, 3, 3, 2], [21, 3, 3, 0]] {
            let refused = first(&tls).unwrap_err();
            assert!(refused.contains("it speaks TLS"), "{refused}");
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for bad in [
            &[0, 0, 0, 0, 5][..],
            &[1, 0, 0, 0, 99],
            &[2, 0, 0, 0, PING, 0],
            &[3, 0, 0, 0, ACKNOWLEDGED, 0, 0],
            &[2, 0, 0, 0, HELLO, b'{'],
            &u32::MAX.to_le_bytes(),
        ] {
            assert!(read_all(bad)[0].is_err(), "{bad:?}");
        }
    }
}
