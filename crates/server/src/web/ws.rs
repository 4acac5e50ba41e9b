//! Streams over WebSocket (RFC 7395): messages in, each one element, and the same out. Owns how
//! the two protocols end together (section 3.6); frames are `net::websocket`, the stream is `c2s`.

use net::Cx;
use net::websocket::{self, CloseCode, Fault, Item, Messages};
use xmpp::error::StreamError;
use xmpp::framing::{CLOSE, Piece, pieces, write_alone, write_open};
use xmpp::ns;
use xmpp::stream::{Effect, Opening};

use crate::c2s::{C2sService, Conn, Framing, nonce};

/// Bytes of a message beyond the largest element: white space behind it.
const MESSAGE_BYTES_MORE: usize = 64;

/// Makes messages of what was written to a stream: a text message of one frame for each element.
pub(super) fn encode(out: &mut Vec<u8>, from: usize) {
    let written = out.split_off(from);
    for piece in pieces(&written) {
        let start = out.len();
        match piece {
            Piece::Open(header) => write_open(header, out),
            Piece::Element(element) => write_alone(element, out),
            Piece::Close => out.extend_from_slice(CLOSE),
        }
        let (head, length) = websocket::text_head(out.len() - start);
        out.extend_from_slice(&head[..length]);
        out[start..].rotate_right(length);
    }
}

/// Ends the connection behind what has been written.
pub(crate) fn close(cx: &mut Cx<'_>, code: CloseCode) {
    cx.raw(|out| websocket::close(code, out));
    cx.close_after_flush();
}

/// The end of a stream that the server ends because it stops: the client may come again soon.
pub(crate) fn say_goodbye(cx: &mut Cx<'_>, effects: &mut Vec<Effect>) {
    if effects
        .drain(..)
        .any(|effect| matches!(effect, Effect::Close))
    {
        close(cx, CloseCode::GoingAway);
    }
}

impl C2sService {
    /// Takes frames; returns how many bytes of them were complete.
    pub(super) fn take_messages(
        &mut self,
        cx: &mut Cx<'_>,
        conn: &mut Conn,
        input: &[u8],
    ) -> usize {
        Self::note_heard(cx, conn);
        self.end_if_banned(cx, conn);
        let mut used = 0;
        let mut message = std::mem::take(&mut self.message);
        while Self::may_read(cx, conn) {
            let limits = self.xml_limits(conn);
            let bytes_max = limits.stanza_bytes as usize + MESSAGE_BYTES_MORE;
            let Framing::WebSocket(messages) = &mut conn.framing else {
                break;
            };
            match messages.next(&input[used..], bytes_max, &mut message) {
                Ok(None) => break,
                Ok(Some((length, item))) => {
                    used += length;
                    self.heard = self.heard_from + used as u64;
                    self.take_item(cx, conn, item, &message, &limits, length);
                }
                Err(fault) => {
                    self.fail(cx, conn, fault);
                    used = input.len();
                }
            }
        }
        message.clear();
        message.shrink_to(net::READ_BUFFER);
        self.message = message;
        if let Framing::WebSocket(messages) = &conn.framing
            && !self.home.io.holds(cx.id(), messages.kept_bytes())
        {
            self.brake(conn.address, cx.now());
            let code = CloseCode::TooLarge;
            let text = "too much of this address is incomplete";
            self.fail(cx, conn, Fault { code, text });
        }
        Self::pause_or_resume(cx, conn);
        used
    }

    fn take_item(
        &mut self,
        cx: &mut Cx<'_>,
        conn: &mut Conn,
        item: Item,
        message: &[u8],
        limits: &xml::Limits,
        length: usize,
    ) {
        match item {
            Item::Text => self.take_message(cx, conn, message, limits, length),
            // Counted, so that a login made of nothing else ends.
            Item::Part => self.handed_in(cx, conn, length, Vec::new()),
            Item::Ping => cx.raw(|out| websocket::pong(message, out)),
            Item::Pong => {}
            Item::Close => {
                // Section 3.6 wants `<close/>` first; without it the link is lost, and the
                // session may be resumed.
                close(cx, CloseCode::Normal);
            }
        }
    }

    pub(crate) fn take_message(
        &mut self,
        cx: &mut Cx<'_>,
        conn: &mut Conn,
        message: &[u8],
        limits: &xml::Limits,
        length: usize,
    ) {
        let mut answer = Vec::new();
        match xml::parse_alone(message, limits, &mut self.scratch) {
            Err(error) => {
                conn.has_ended = true;
                conn.machine
                    .handle_xml_error(error, cx.out(), &mut self.effects);
            }
            Ok(frame) if frame.ns() == ns::FRAMING => match frame.name() {
                "open" => {
                    let opening = Opening {
                        to: frame.attr("to"),
                        version: frame.attr("version"),
                        lang: frame.attr("xml:lang"),
                    };
                    if let Some(prelude) = conn.prelude(&self.home) {
                        prelude.opens(message);
                    }
                    if conn.is_far() {
                        let lines = &self.home.lines;
                        lines.mark(cx.id(), |marks| marks.opened(message));
                    }
                    conn.machine
                        .handle_opening(opening, cx.out(), &mut self.effects);
                }
                "close" => {
                    conn.has_ended = true;
                    conn.machine.handle_close(cx.out(), &mut self.effects);
                }
                _ => conn
                    .machine
                    .abort(StreamError::BadFormat, None, cx.out(), &mut self.effects),
            },
            Ok(frame) if frame.name() == "open" => {
                let text = Some("The namespace of <open/> is wrong.");
                conn.machine.abort(
                    StreamError::InvalidNamespace,
                    text,
                    cx.out(),
                    &mut self.effects,
                );
            }
            Ok(frame) => {
                if let Some(prelude) = conn.prelude(&self.home) {
                    prelude.says(frame.name(), message);
                }
                let nonce = nonce(&conn.machine, &self.random);
                let out = match conn.is_managed() {
                    true => &mut answer,
                    false => cx.out(),
                };
                let machine = &mut conn.machine;
                machine.handle_element(&frame, &nonce, out, &mut self.effects);
            }
        }
        self.handed_in(cx, conn, length, answer);
    }

    /// The peer broke WebSocket itself: the stream is told why, as far as it has words for it, and
    /// the connection by its code.
    fn fail(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, fault: Fault) {
        let error = match fault.code {
            CloseCode::NotUtf8 => StreamError::UnsupportedEncoding,
            CloseCode::TooLarge => StreamError::PolicyViolation,
            _ => StreamError::BadFormat,
        };
        conn.has_ended = true;
        conn.machine
            .abort(error, Some(fault.text), cx.out(), &mut self.effects);
        self.effects.clear();
        close(cx, fault.code);
    }

    /// A stream that begins on a connection that was HTTP so far.
    pub(super) fn begin_websocket(
        &mut self,
        cx: &mut Cx<'_>,
        address: std::net::IpAddr,
        tls: Option<Option<[u8; 32]>>,
    ) -> Conn {
        cx.encode_from_here();
        let framing = Framing::WebSocket(Messages::default());
        let mut conn = self.begin(cx, address, framing);
        if let Some(exporter) = tls {
            conn.machine.tls_established(exporter);
        }
        conn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_is_a_message_behind_what_was_there() {
        let mut out = b"before".to_vec();
        let long = format!("<iq xmlns='jabber:client' id='{}'/>", "x".repeat(200));
        out.extend_from_slice(format!("{long}<r xmlns='urn:xmpp:sm:3'/>").as_bytes());
        encode(&mut out, 6);
        let mut expected = b"before\x81\x7e".to_vec();
        expected.extend((long.len() as u16).to_be_bytes());
        expected.extend(long.as_bytes());
        expected.extend(b"\x81\x1a<r xmlns='urn:xmpp:sm:3'/>");
        assert_eq!(out, expected);
    }
}
