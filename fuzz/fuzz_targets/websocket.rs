//! Frames of a WebSocket client, as bytes and as messages in any fragments: however they are cut,
//! the same comes out; what is taken is what tungstenite takes, or less; and nothing grows beyond
//! the bound of a message.

#![no_main]

use std::io::{self, Cursor, Read, Write};

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use net::websocket::{Item, Messages, accept, text_head};
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Message, WebSocket};

/// Bytes of a message.
const MAX: usize = 200;

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    messages: Vec<Sent<'a>>,
    raw: &'a [u8],
    cut: u16,
    key: &'a str,
}

#[derive(Debug, Arbitrary)]
struct Sent<'a> {
    text: &'a str,
    /// Bytes of each fragment but the last.
    fragments: Vec<u8>,
    mask: [u8; 4],
    ping: Option<&'a [u8]>,
}

fn frame(first: u8, payload: &[u8], mask: [u8; 4], out: &mut Vec<u8>) {
    let (head, length) = text_head(payload.len());
    out.push(first);
    out.push(head[1] | 0x80);
    out.extend_from_slice(&head[2..length]);
    out.extend_from_slice(&mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b));
}

/// The frames of well-formed messages, and the texts that are in them.
fn frames(messages: &[Sent<'_>]) -> (Vec<u8>, Vec<String>) {
    let (mut out, mut texts) = (Vec::new(), Vec::new());
    for sent in messages.iter().take(8) {
        if sent.text.len() > MAX {
            continue;
        }
        let mut rest = sent.text.as_bytes();
        let mut opcode = 1;
        for length in sent.fragments.iter().take(8) {
            let (part, tail) = rest.split_at(usize::from(*length).min(rest.len()));
            frame(opcode, part, sent.mask, &mut out);
            (opcode, rest) = (0, tail);
            if let Some(payload) = sent.ping {
                frame(
                    0x89,
                    &payload[..payload.len().min(125)],
                    sent.mask,
                    &mut out,
                );
            }
        }
        frame(0x80 | opcode, rest, sent.mask, &mut out);
        texts.push(sent.text.to_owned());
    }
    (out, texts)
}

/// The texts that are taken before the end or a fault, and whether there was one.
fn ours(pieces: &[&[u8]]) -> (Vec<String>, bool) {
    let (mut messages, mut buffer, mut texts) = (Messages::default(), Vec::new(), Vec::new());
    let mut kept = Vec::new();
    for piece in pieces {
        kept.extend_from_slice(piece);
        loop {
            match messages.next(&kept, MAX, &mut buffer) {
                Ok(None) => break,
                Ok(Some((length, item))) => {
                    assert!(length > 0 && length <= kept.len() && buffer.len() <= MAX);
                    kept.drain(..length);
                    match item {
                        Item::Text => {
                            let text = std::str::from_utf8(&buffer).expect("UTF-8");
                            texts.push(text.to_owned());
                        }
                        Item::Close => return (texts, true),
                        Item::Part | Item::Ping | Item::Pong => {}
                    }
                }
                Err(_) => return (texts, true),
            }
        }
    }
    (texts, false)
}

/// What somebody else makes of the same bytes.
fn theirs(bytes: &[u8]) -> Vec<String> {
    struct Link<'a>(Cursor<&'a [u8]>);
    impl Read for Link<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }
    impl Write for Link<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let config = WebSocketConfig::default().max_message_size(Some(MAX));
    let link = Link(Cursor::new(bytes));
    let mut socket = WebSocket::from_raw_socket(link, Role::Server, Some(config));
    let mut texts = Vec::new();
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => texts.push(text.to_string()),
            Ok(Message::Close(_)) | Err(_) => return texts,
            Ok(_) => {}
        }
    }
}

fuzz_target!(|input: Input<'_>| {
    let (mut bytes, texts) = frames(&input.messages);
    let (taken, has_failed) = ours(&[&bytes]);
    assert!(!has_failed && taken == texts, "{taken:?} of {texts:?}");
    bytes.extend_from_slice(input.raw);
    let whole = ours(&[&bytes]);
    let cut = usize::from(input.cut).min(bytes.len());
    let (one, two) = bytes.split_at(cut);
    assert_eq!(ours(&[one, two]), whole, "cut at {cut}");
    let theirs = theirs(&bytes);
    assert!(theirs.starts_with(&whole.0), "{whole:?}, but {theirs:?}");
    if !whole.1 {
        assert_eq!(theirs, whole.0, "no fault, but less");
    }
    if let Some(answer) = accept(input.key) {
        assert_eq!(answer.len(), 28);
    }
});
