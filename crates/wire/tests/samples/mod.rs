//! One packet of every kind, with something in every field.
#![allow(dead_code, reason = "each test program needs a part of it")]

use std::sync::Arc;

use delivery::{Attempt, Place, Refusal, RoomPage};
use wire::{
    Adopt, Carrier, ConnAt, Counts, Credit, Envelope, Errand, Interest, Join, Joined, Mark,
    Membership, Message, Moved, NodeEvent, NotTaken, OfRequest, OfRoom, Packet, Part, Passed,
    Pulled, RequestAt, SharedCopy, Sitting, Source, Stanza, ToRoom,
};
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

/// A message in an envelope whose fields are all used.
pub(crate) fn to(message: Message) -> Packet {
    Packet::Message(Envelope {
        to: "juliet@capulet.lit".into(),
        range: 77,
        tenure: 0x0102_0304,
        activate: true,
        credit: Some(Credit {
            number: 300,
            client: Some(0xffff_c0a8_0001),
        }),
        message,
    })
}

pub(crate) fn frame(text: &str) -> Frame {
    Frame::parse(text).unwrap()
}

fn join() -> Join {
    Join {
        user: "juliet@capulet.lit".into(),
        range: 77,
        tenure: 0x0102_0304,
        from: EDGE,
        number: 0x0123_4567_89ab_cdef,
        address: [192, 0, 2, 7].into(),
        carrier: Carrier::WebSocket,
        tls: Some(Some([7; 32])),
        header: b"<open xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>".to_vec(),
        elements: vec![b"<auth/>".to_vec(), b"<response/>".to_vec()],
    }
}

const COUNTS: Counts = Counts {
    sent: 1_000,
    acked: 998,
    inbound: 0xffff_fffe,
};

const MARK: Mark = Mark {
    at: 70_026,
    heard: 300,
    counts: COUNTS,
};

fn adopt() -> Adopt {
    let join = join();
    Adopt {
        user: join.user,
        range: join.range,
        tenure: join.tenure,
        from: EDGE,
        number: join.number,
        address: join.address,
        carrier: Carrier::Socket,
        header: b"<stream:stream to='capulet.lit'>".to_vec(),
        token: "qTkx0Vb".into(),
        counts: COUNTS,
        done: Some(1),
        answered: Vec::new(),
    }
}

fn errand(is_answer: bool, bytes: &[u8]) -> Packet {
    Packet::Errand(Errand {
        number: 0x0123_4567_89ab_cdef,
        is_answer,
        is_last: true,
        bytes: bytes.to_vec(),
    })
}

pub(crate) fn passed(said: OfRequest) -> Packet {
    Packet::Passed(Passed {
        request: RequestAt {
            conn: EDGE,
            slot: 7,
            number: 0x0123_4567_89ab_cdef,
        },
        said,
    })
}

pub(crate) const SESSION: ConnAt = ConnAt {
    shard: 4,
    index: 2_000,
    generation: 80_000,
};

const EDGE: ConnAt = ConnAt {
    shard: 3,
    index: 1_000,
    generation: 70_000,
};

fn joined(said: Part) -> Packet {
    Packet::Joined(Joined {
        to: EDGE,
        from: ConnAt { shard: 1, ..EDGE },
        number: 0x0123_4567_89ab_cdef,
        said,
    })
}

fn sitting() -> Sitting {
    Sitting {
        room: "hall@conference.capulet.lit".into(),
        full: "romeo@montague.lit/orchard".into(),
        number: 4,
    }
}

fn source() -> Source {
    Source {
        seq: 1_000,
        after: 998,
        attempt: Attempt::new(7),
    }
}

fn not_taken() -> NotTaken {
    let error = StanzaError::new(Condition::Forbidden)
        .with_text("Not you.")
        .with_app("<outcast xmlns='urn:example'/>")
        .with_kind("cancel");
    NotTaken {
        by: 0x1122_3344_5566_7788,
        source: source(),
        why: Refusal::Final,
        error: Some(error),
    }
}

fn page() -> OfRoom {
    OfRoom::Page {
        who: sitting(),
        page: RoomPage {
            id: 3,
            places: vec![Place::new(5), Place::new(900)],
            through: Place::new(901),
            is_end: true,
        },
        messages: vec![
            frame("<message from='hall@c/a'><body>1</body></message>"),
            frame("<message from='hall@c/b'><body>2</body></message>"),
        ],
    }
}

/// One of every kind, in the order of their numbers.
pub(crate) fn all() -> Vec<Packet> {
    let stanza = Stanza {
        resource: Some("balcony".into()),
        frame: frame("<message from='romeo@montague.lit/orchard'><body>Hi</body></message>"),
        source: source(),
        managed: Some(9),
    };
    let copy = SharedCopy {
        to: "romeo@montague.lit/orchard".into(),
        frame: frame("<message from='hall@conference.capulet.lit/nurse'><body>x</body></message>"),
        place: 12,
        after: 11,
    };
    let event = NodeEvent {
        frame: frame("<message from='romeo@montague.lit'><event xmlns='urn:e'/></message>"),
        node: "urn:xmpp:mood".into(),
        but: Arc::from([Arc::from("juliet@capulet.lit/balcony")]),
    };
    let interest = Interest {
        session: "juliet@capulet.lit/balcony".into(),
        nodes: Arc::from([Box::from("urn:xmpp:mood"), Box::from("urn:xmpp:tune")]),
    };
    let pulled = Pulled {
        who: sitting(),
        id: 3,
        after: 4,
        limit: 50,
    };
    let room = |said| to(Message::ToRoom(Box::new(said)));
    let of_room = |said| to(Message::OfRoom(Box::new(said)));
    vec![
        to(Message::Stanza(stanza)),
        to(Message::Copy(copy)),
        to(Message::Probe {
            from: "romeo@montague.lit/orchard".into(),
        }),
        to(Message::Taken {
            by: u64::MAX,
            seq: 1_000,
        }),
        to(Message::NotTaken(Box::new(not_taken()))),
        to(Message::Interest(interest)),
        to(Message::NodeEvent(Arc::new(event))),
        room(ToRoom::Alive(sitting())),
        room(ToRoom::NotHere(sitting())),
        room(ToRoom::Back(sitting(), "Romeo".to_owned())),
        room(ToRoom::Pull(pulled)),
        room(ToRoom::Missed("romeo@montague.lit/orchard".into(), 12)),
        room(ToRoom::Noted("romeo@montague.lit".into())),
        of_room(OfRoom::Here {
            who: sitting(),
            since: Some(12),
            is_new: true,
        }),
        of_room(OfRoom::More {
            who: sitting(),
            place: 13,
        }),
        of_room(OfRoom::Asks {
            who: sitting(),
            told: 14,
        }),
        of_room(OfRoom::Absent(sitting())),
        of_room(page()),
        of_room(OfRoom::Member(Membership {
            room: "hall@conference.capulet.lit".into(),
            since: 1_000,
            told: 1_003,
            is_new: true,
            asks: true,
        })),
        Packet::Credited { number: 300 },
        Packet::Moved(Moved {
            range: 77,
            tenure: 5,
            to: "juliet@capulet.lit".into(),
        }),
        Packet::Join(Box::new(join())),
        joined(Part::Bytes {
            at: 70_000,
            is_whole: true,
            bytes: b"<r xmlns='urn:xmpp:sm:3'/>".to_vec(),
        }),
        joined(Part::Room(65_536)),
        joined(Part::End {
            at: 70_026,
            is_orderly: true,
        }),
        joined(Part::Keeps),
        joined(Part::Session {
            user: "juliet@capulet.lit".into(),
            token: "qTkx0Vb".into(),
            header: b"<stream:stream to='capulet.lit'>".to_vec(),
            mark: MARK,
        }),
        joined(Part::Mark(MARK)),
        joined(Part::Marked {
            bytes: b"<message/>".to_vec(),
            mark: MARK,
            answered: Vec::new(),
        }),
        joined(Part::Marked {
            bytes: b"<iq type='result' id='1'/>".to_vec(),
            mark: MARK,
            answered: vec![0xffff_ffff, 1],
        }),
        joined(Part::Left {
            at: 70_026,
            inbound: Some(7),
        }),
        joined(Part::Adopted { inbound: 9 }),
        Packet::Adopt(Box::new(adopt())),
        Packet::Adopt(Box::new(Adopt {
            answered: vec![0xffff_ffff, 1],
            ..adopt()
        })),
        errand(false, b"{\"request\":\"status\"}"),
        errand(true, b"{\"response\":\"ok\"}"),
        passed(OfRequest::Came {
            session: SESSION,
            token: "a+b/c=".into(),
            address: "2001:db8::7".parse().unwrap(),
            is_secure: true,
            body: b"<body rid='1'/>".to_vec(),
        }),
        passed(OfRequest::Lost { session: SESSION }),
        passed(OfRequest::Answered {
            content: Some("text/plain".into()),
            body: b"<body/>".to_vec(),
        }),
        passed(OfRequest::Dropped),
    ]
}
