//! Streams over WebSocket (RFC 7395) for a load client: what it writes to a stream goes out as a
//! message for each element, and messages come in as a stream again, so that a session knows
//! nothing of it. It trusts the server's frames as `scan` trusts its XML, and masks with zeros: a
//! mask that changes nothing is one too, and costs the machine under test nothing.

use memchr::memmem;

use crate::scan::{self, ELEMENT_BYTES_MAX, Item};

/// Where servers have it.
const PATH: &str = "/xmpp-websocket";

const FRAMING: &str = "urn:ietf:params:xml:ns:xmpp-framing";

/// What is read of one connection.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The server has answered the handshake.
    pub(crate) is_open: bool,
    /// Bytes of an incomplete frame, or of the answer to the handshake.
    kept: Vec<u8>,
}

/// Asks for a stream.
pub(crate) fn request(host: &str, out: &mut Vec<u8>) {
    // One key serves all: the answer to it is not checked.
    let request = format!(
        "GET {PATH} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: xmpp\r\n\r\n"
    );
    out.extend_from_slice(request.as_bytes());
}

/// Makes messages of a stream's elements.
pub(crate) fn encode(stream: &mut Vec<u8>) {
    let written = std::mem::take(stream);
    let mut at = 0;
    while let Ok(step) = scan::next(&written[at..]) {
        let element = &written[at..at + step.consumed];
        at += step.consumed;
        match step.item {
            None => break,
            Some(Item::Open(header)) => {
                let to = header.attr("to").unwrap_or_default();
                let to = String::from_utf8_lossy(to);
                let open = format!("<open xmlns='{FRAMING}' to='{to}' version='1.0'/>");
                frame(open.as_bytes(), stream);
            }
            Some(Item::Stanza(_)) => frame_element(element, stream),
            Some(Item::Close) => frame(format!("<close xmlns='{FRAMING}'/>").as_bytes(), stream),
        }
    }
}

/// An element, with the namespace that its stream would have given it.
fn frame_element(element: &[u8], out: &mut Vec<u8>) {
    let element = element.trim_ascii_start();
    let name = element.iter().position(|byte| b" />".contains(byte));
    let name = name.unwrap_or(element.len());
    let tag = memchr::memchr(b'>', element).unwrap_or(element.len());
    if memmem::find(&element[..tag], b" xmlns=").is_some() {
        return frame(element, out);
    }
    const DECLARATION: &[u8] = b" xmlns='jabber:client'";
    frame(
        &[&element[..name], DECLARATION, &element[name..]].concat(),
        out,
    );
}

fn frame(payload: &[u8], out: &mut Vec<u8>) {
    out.push(0x81);
    match payload.len() {
        length @ 0..=125 => out.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
}

impl Decoder {
    /// Takes bytes of the connection and appends what they are of the stream. True once the
    /// handshake is over for the first time.
    pub(crate) fn decode(
        &mut self,
        bytes: &[u8],
        stream: &mut Vec<u8>,
    ) -> Result<bool, &'static str> {
        self.kept.extend_from_slice(bytes);
        let mut has_opened = false;
        let mut at = 0;
        if !self.is_open {
            let Some(end) = memmem::find(&self.kept, b"\r\n\r\n") else {
                return Ok(false);
            };
            if !self.kept.starts_with(b"HTTP/1.1 101") {
                return Err("the server refuses WebSocket");
            }
            (self.is_open, has_opened) = (true, true);
            at = end + 4;
        }
        while let Some((opcode, start, end)) = head(&self.kept[at..])? {
            let payload = &self.kept[at + start..at + end];
            match opcode {
                0 | 1 => take(payload, stream),
                8 => stream.extend_from_slice(b"</stream:stream>"),
                9 => return Err("the server pings, which is not answered"),
                _ => {}
            }
            at += end;
        }
        self.kept.drain(..at);
        if self.kept.is_empty() {
            self.kept = Vec::new();
        }
        Ok(has_opened)
    }
}

fn take(payload: &[u8], stream: &mut Vec<u8>) {
    if payload.starts_with(b"<open ") {
        stream.extend_from_slice(b"<stream:stream version='1.0'>");
    } else if payload.starts_with(b"<close ") {
        stream.extend_from_slice(b"</stream:stream>");
    } else {
        stream.extend_from_slice(payload);
    }
}

/// Opcode of a frame, and where its payload begins and ends; `None` while it is incomplete.
fn head(bytes: &[u8]) -> Result<Option<(u8, usize, usize)>, &'static str> {
    let [first, second, rest @ ..] = bytes else {
        return Ok(None);
    };
    let extended = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let Some(more) = rest.get(..extended) else {
        return Ok(None);
    };
    let length = match extended {
        0 => usize::from(second & 0x7f),
        _ => more.iter().fold(0, |n, byte| n << 8 | usize::from(*byte)),
    };
    if length > ELEMENT_BYTES_MAX {
        return Err("a message that is too large");
    }
    let start = 2 + extended;
    let is_whole = bytes.len() >= start + length;
    Ok(is_whole.then_some((first & 0x0f, start, start + length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_goes_out_in_messages_and_comes_back_as_a_stream() {
        let mut out = b"<?xml version='1.0'?><stream:stream to='localhost' version='1.0'>\
            <presence/><message to='a'><body>hi</body></message></stream:stream>"
            .to_vec();
        encode(&mut out);
        // What a server would send is the same without the mask.
        let mut unmasked = b"HTTP/1.1 101 Switching Protocols\r\n\r\n".to_vec();
        let mut rest = &out[..];
        while let [_, second, tail @ ..] = rest {
            let length = match second & 0x7f {
                126 => 2 + usize::from(u16::from_be_bytes([tail[0], tail[1]])),
                short => usize::from(short),
            };
            let extended = if second & 0x7f == 126 { 2 } else { 0 };
            unmasked.extend_from_slice(&[0x81, second & 0x7f]);
            unmasked.extend_from_slice(&tail[..extended]);
            unmasked.extend_from_slice(&tail[extended + 4..length + 4]);
            rest = &tail[length + 4..];
        }
        let expected = "<stream:stream version='1.0'><presence xmlns='jabber:client'/>\
            <message xmlns='jabber:client' to='a'><body>hi</body></message></stream:stream>";
        for cut in 0..unmasked.len() {
            let (mut decoder, mut stream) = (Decoder::default(), Vec::new());
            let first = decoder.decode(&unmasked[..cut], &mut stream).expect("fine");
            let second = decoder.decode(&unmasked[cut..], &mut stream).expect("fine");
            assert!(first != second, "opened once, cut at {cut}");
            assert_eq!(String::from_utf8_lossy(&stream), expected, "cut at {cut}");
        }
        let refused = Decoder::default().decode(b"HTTP/1.1 403 No\r\n\r\n", &mut Vec::new());
        assert!(refused.is_err());
    }
}
