//! Frames there and back, and everything that is none.

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::proptest;

use super::*;

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn frames() -> Vec<Frame> {
    let id = GroupId {
        name: "g".into(),
        by: "a".into(),
        at: 3,
    };
    let pid = Pid {
        node: name("a@h:1"),
        life: 7,
        id: 256,
    };
    let entry = Entry {
        name: "n".into(),
        pid: pid.clone(),
        number: 4,
        over: vec![Stamp {
            keeper: name("b@h:1"),
            life: 7,
            number: 3,
        }],
    };
    vec![
        Frame::Alive,
        Frame::Send {
            to: 256,
            from: Some(512),
            body: Body::from_static(b"hello"),
        },
        Frame::Ask {
            ask: 1,
            question: Question::Submit {
                space: Space::Group(id.clone()),
                change: Change::Register {
                    name: "n".into(),
                    pid,
                    keeper: name("b@h:1"),
                    replace: true,
                },
                attempt: 1,
                seen: 77,
            },
        },
        Frame::Keep {
            space: Space::Free,
            after: Some("m".into()),
            upto: None,
            entries: vec![entry.clone()],
            want: true,
        },
        Frame::Kept {
            space: Space::Free,
            entry,
            ask: Some(9),
        },
        Frame::Withdrawn {
            space: Space::Group(id.clone()),
            name: "n".into(),
            ask: None,
        },
        Frame::Tell {
            ask: 1,
            answer: Tell::Attributes([("cores".into(), Value::Int(-3))].into()),
        },
        Frame::Status(Status {
            is_joining: true,
            groups: vec![Advert {
                id,
                version: 9,
                by: "b".into(),
                members: Some(vec![name("a@h:1")]),
            }],
        }),
    ]
}

fn written(frame: &Frame) -> Vec<u8> {
    let mut out = Vec::new();
    write(frame, 1 << 20, &mut out).unwrap();
    out
}

#[test]
fn frames_are_read_as_they_were_written_in_whatever_pieces() {
    let all: Vec<u8> = frames().iter().flat_map(written).collect();
    for piece in [1, 3, 7, all.len()] {
        let mut inbound = Inbound::default();
        let mut read_frames = Vec::new();
        for part in all.chunks(piece) {
            inbound.push(part);
            while let Some(body) = inbound.next(1 << 20).unwrap() {
                read_frames.push(read(body).unwrap());
            }
        }
        assert_eq!(read_frames, frames());
    }
}

#[test]
fn what_is_cut_off_or_too_long_is_no_frame() {
    for frame in frames() {
        let bytes = written(&frame);
        let body = &bytes[PREFIX..];
        for len in 0..body.len() {
            assert!(
                read(&body[..len]) != Ok(frame.clone()),
                "{frame:?} at {len}"
            );
        }
        let longer = [body, b"x"].concat();
        assert_eq!(read(&longer), Err(Malformed::NoFrame));
    }
    assert_eq!(read(&[]), Err(Malformed::NoFrame));
    assert_eq!(read(&[255; 8]), Err(Malformed::NoFrame));
}

#[test]
fn a_prefix_that_announces_too_much_ends_it_before_the_bytes_come() {
    let mut inbound = Inbound::default();
    inbound.push(&[0, 0, 0, 101]);
    assert_eq!(inbound.next(100), Err(Malformed::TooLarge));
    let mut inbound = Inbound::default();
    inbound.push(&[0, 0, 0, 100]);
    assert_eq!(inbound.next(100), Ok(None));
    inbound.push(&[0xFF; 3]);
    assert_eq!(inbound.next(100), Ok(None));
}

#[test]
fn a_frame_that_is_too_large_is_left_out() {
    let mut out = b"before".to_vec();
    let frame = Frame::Send {
        to: 1,
        from: None,
        body: vec![0; 100].into(),
    };
    assert_eq!(write(&frame, 50, &mut out), Err(Malformed::TooLarge));
    assert_eq!(out, b"before");
}

#[test]
fn a_length_inside_of_a_frame_that_is_a_lie_is_refused() {
    // A body of 2^60 bytes, in a frame of a few.
    let mut body = vec![0, 1, 0];
    body.extend_from_slice(&[0xFF; 8]);
    body.push(0x0F);
    assert_eq!(read(&body), Err(Malformed::NoFrame));
}

#[test]
fn names_that_are_none_are_refused_on_the_wire() {
    let hello = |text: &str| {
        let mut body = vec![0];
        body.extend_from_slice(&MAGIC);
        body.extend_from_slice(&[0, 1, 0, 1, 1]);
        body.push(text.len() as u8);
        body.extend_from_slice(text.as_bytes());
        body.extend_from_slice(&[0, 5, 0]);
        body.extend_from_slice(&[7; 16]);
        match read_greeting(&body).unwrap() {
            Greeting::Hello { hello, .. } => hello,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(hello("a@h:1").unwrap().name, name("a@h:1"));
    assert_eq!(hello(""), None);
    assert_eq!(hello("a\nb"), None);
}

#[test]
fn greetings_are_read_as_they_were_written() {
    let hello = Hello {
        name: name("a@h:1"),
        to: Some(name("b@h:1")),
        life: 9,
        hidden: true,
        nonce: [3; 16],
    };
    for greeting in [
        Greeting::Hello {
            version_min: 1,
            version_max: 2,
            hello: Some(hello),
        },
        Greeting::Proof([9; 32]),
        Greeting::Refuse(Refusal::Cookie),
    ] {
        let mut out = Vec::new();
        write_greeting(&greeting, &mut out);
        assert_eq!(read_greeting(&out[PREFIX..]), Ok(greeting));
        assert_eq!(
            read_greeting(&out[PREFIX..out.len() - 1])
                .ok()
                .filter(|greeting| { !matches!(greeting, Greeting::Hello { hello: None, .. }) }),
            None
        );
    }
    assert!(read_greeting(b"").is_err());
    assert!(read_greeting(b"\x00GET / HTTP/1.1").is_err());
}

proptest! {
    #[test]
    fn whatever_comes_is_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
        let _ = read_greeting(&bytes);
        let mut inbound = Inbound::default();
        inbound.push(&bytes);
        while let Ok(Some(_)) = inbound.next(64) {}
    }
}
