//! What each kind of frame is taken for, and each misuse that RFC 6455 section 5 names.

use super::*;

const MAX: usize = 1_000;

fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    let mask = [0x5a, 0x01, 0xff, 0x80];
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b));
    frame
}

/// Every item of an input, until it ends or a fault.
fn all(input: &[u8]) -> Result<Vec<(Item, String)>, CloseCode> {
    let (mut messages, mut buffer, mut items) = (Messages::default(), Vec::new(), Vec::new());
    let mut rest = input;
    loop {
        match messages.next(rest, MAX, &mut buffer) {
            Ok(Some((length, item))) => {
                items.push((item, String::from_utf8_lossy(&buffer).into_owned()));
                rest = &rest[length..];
            }
            Ok(None) => return Ok(items),
            Err(fault) => return Err(fault.code),
        }
    }
}

#[test]
fn messages_come_out_whole_however_they_are_fragmented_and_interrupted() {
    let mut input = masked(0x81, b"<open/>");
    input.extend(masked(0x01, b"<mess"));
    input.extend(masked(0x89, b"are you there"));
    input.extend(masked(0x00, b""));
    input.extend(masked(0x80, "age>ü</message>".as_bytes()));
    input.extend(masked(0x8a, b""));
    input.extend(masked(0x88, &1000u16.to_be_bytes()));
    let items = all(&input).expect("fine");
    let kinds: Vec<Item> = items.iter().map(|(item, _)| *item).collect();
    let expected = [
        Item::Text,
        Item::Part,
        Item::Ping,
        Item::Part,
        Item::Text,
        Item::Pong,
        Item::Close,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(items[0].1, "<open/>");
    assert_eq!(items[2].1, "are you there");
    assert_eq!(items[4].1, "<message>ü</message>");
}

#[test]
fn a_control_frame_is_not_counted_with_the_message_that_it_interrupts() {
    let mut input = masked(0x01, &[b'x'; MAX]);
    input.extend(masked(0x89, &[b'p'; CONTROL_BYTES_MAX]));
    input.extend(masked(0x80, b""));
    let items = all(&input).expect("fine");
    assert_eq!(items[1], (Item::Ping, "p".repeat(CONTROL_BYTES_MAX)));
    assert_eq!(items[2], (Item::Text, "x".repeat(MAX)));
}

#[test]
fn frames_are_found_at_any_cut() {
    let mut input = masked(0x81, &[b'a'; 300]);
    input.extend(masked(0x81, b"b"));
    let whole = masked(0x81, &[b'a'; 300]).len();
    let mut buffer = Vec::new();
    for cut in 0..input.len() {
        let step = Messages::default().next(&input[..cut], MAX, &mut buffer);
        let expected = (cut >= whole).then_some((whole, Item::Text));
        assert_eq!(step, Ok(expected), "cut at {cut}");
    }
}

#[test]
fn misuse_is_closed_with_the_code_that_says_why() {
    use CloseCode::{NotUtf8, Protocol, TooLarge, Unsupported};
    let two = |a: Vec<u8>, b: Vec<u8>| [a, b].concat();
    let mut unmasked = masked(0x81, b"x");
    unmasked[1] &= 0x7f;
    let mut long_ping = masked(0x89, &[0; 126]);
    long_ping.truncate(2);
    let cases: &[(&str, Vec<u8>, CloseCode)] = &[
        ("not masked", unmasked, Protocol),
        ("first reserved bit", masked(0xc1, b"x"), Protocol),
        ("second reserved bit", masked(0xa1, b"x"), Protocol),
        ("third reserved bit", masked(0x91, b"x"), Protocol),
        ("binary", masked(0x82, b"x"), Unsupported),
        ("opcode 3", masked(0x83, b"x"), Protocol),
        ("opcode 11", masked(0x8b, b"x"), Protocol),
        ("continuation of nothing", masked(0x80, b"x"), Protocol),
        (
            "text inside of text",
            two(masked(0x01, b"x"), masked(0x81, b"y")),
            Protocol,
        ),
        ("ping in fragments", masked(0x09, b"x"), Protocol),
        ("long ping, told by its head", long_ping, Protocol),
        ("long close", masked(0x88, &[3; 126]), Protocol),
        ("half a close code", masked(0x88, &[3]), Protocol),
        (
            "close code 1005",
            masked(0x88, &1005u16.to_be_bytes()),
            Protocol,
        ),
        (
            "close code 999",
            masked(0x88, &999u16.to_be_bytes()),
            Protocol,
        ),
        (
            "close code 5000",
            masked(0x88, &5000u16.to_be_bytes()),
            Protocol,
        ),
        ("close reason", masked(0x88, &[3, 0xe8, 0xff]), NotUtf8),
        ("not UTF-8", masked(0x81, &[0xff, 0xfe]), NotUtf8),
        (
            "too large, told by its head",
            masked(0x81, &[b'x'; MAX + 1])[..4].to_vec(),
            TooLarge,
        ),
        (
            "huge",
            vec![0x81, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0],
            TooLarge,
        ),
        (
            "too large in fragments",
            two(masked(0x01, &[b'x'; MAX]), masked(0x80, b"y")),
            TooLarge,
        ),
        (
            "16 bits for 5",
            vec![0x81, 0x80 | 126, 0, 5, 0, 0, 0, 0],
            Protocol,
        ),
        (
            "64 bits for 200",
            vec![0x81, 0xff, 0, 0, 0, 0, 0, 0, 0, 200],
            Protocol,
        ),
    ];
    for (name, input, code) in cases {
        assert_eq!(all(input), Err(*code), "{name}");
    }
}

#[test]
fn a_character_may_be_cut_by_fragments() {
    let bytes = "ü".as_bytes();
    let input = [masked(0x01, &bytes[..1]), masked(0x80, &bytes[1..])].concat();
    assert_eq!(all(&input).expect("fine")[1], (Item::Text, "ü".to_owned()));
}

#[test]
fn what_leaves_has_the_shortest_length() {
    let head = |length| {
        let (head, bytes) = text_head(length);
        head[..bytes].to_vec()
    };
    assert_eq!(head(5), [0x81, 5]);
    assert_eq!(head(125), [0x81, 125]);
    assert_eq!(head(126), [0x81, 126, 0, 126]);
    assert_eq!(head(65_535), [0x81, 126, 0xff, 0xff]);
    assert_eq!(head(65_536), [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    let mut out = Vec::new();
    pong(b"hi", &mut out);
    close(CloseCode::GoingAway, &mut out);
    assert_eq!(out, [0x8a, 2, b'h', b'i', 0x88, 2, 0x03, 0xe9]);
}

#[test]
fn the_key_of_the_rfc_has_the_answer_of_the_rfc() {
    let answer = accept("dGhlIHNhbXBsZSBub25jZQ==");
    assert_eq!(answer.as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    for bad in ["", "dGhl", "not base64 at all!!!", "dGhlIHNhbXBsZSBub25jZQ"] {
        assert_eq!(accept(bad), None, "{bad}");
    }
}

#[test]
fn an_idle_connection_keeps_one_word() {
    assert_eq!(size_of::<Messages>(), 8);
}
