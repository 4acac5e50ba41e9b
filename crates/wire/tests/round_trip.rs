//! What is written is read, whatever is in it, and what exceeds a bound is not written.

mod samples;

use std::sync::Arc;

use delivery::{Attempt, Place, Refusal, RoomPage};
use proptest::prelude::*;
use wire::limits::{
    ADDRESS_BYTES_MAX, CONTENT_BYTES_MAX, FRAME_BYTES_MAX, NODES_MAX, PAGE_MESSAGES_MAX,
    TOKEN_BYTES_MAX,
};
use wire::{
    Adopt, Carrier, ConnAt, Counts, Credit, Envelope, Interest, Join, Joined, Mark, Membership,
    Message, Moved, NodeEvent, NotTaken, OfRequest, OfRoom, Packet, Part, Passed, Pulled,
    RequestAt, SharedCopy, Sitting, Source, Stanza, ToRoom, WireError,
};
use xml::Frame;
use xmpp::error::{Condition, KINDS, StanzaError};

fn address() -> impl Strategy<Value = Arc<str>> {
    "\\PC{1,40}(@\\PC{1,40})?(/\\PC{0,40})?".prop_map(|text| text.into())
}

fn frame() -> impl Strategy<Value = Frame> {
    ("[a-z]{1,8}", "[ -;=?-~]{0,80}", 0..6_usize).prop_map(|(name, text, children)| {
        let text = text.replace('&', "&amp;");
        let inside = "<c xmlns='urn:c' a='1'><d/></c>".repeat(children);
        Frame::parse(format!("<{name} from='a@b/c'>{inside}{text}</{name}>")).unwrap()
    })
}

fn source() -> impl Strategy<Value = Source> {
    any::<(u64, u64, u64)>().prop_map(|(seq, after, attempt)| Source {
        seq,
        after,
        attempt: Attempt::new(attempt),
    })
}

fn sitting() -> impl Strategy<Value = Sitting> {
    (address(), address(), any::<u32>()).prop_map(|(room, full, number)| Sitting {
        room,
        full,
        number,
    })
}

fn error() -> impl Strategy<Value = StanzaError> {
    let conditions = prop::sample::select(Condition::ALL);
    let kinds = prop::option::of(prop::sample::select(&KINDS[..]));
    let app = prop::option::of(Just("<x xmlns='urn:x'/>"));
    let parts = (conditions, prop::option::of("[a-z é]{0,50}"), app, kinds);
    parts.prop_map(|(condition, text, app, kind)| StanzaError {
        condition,
        text: text.map(Into::into),
        app: app.map(Into::into),
        kind,
    })
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop::sample::select(vec![
        Refusal::Full,
        Refusal::Unreadable,
        Refusal::Quarantined,
        Refusal::Early,
        Refusal::Crashed,
        Refusal::Final,
        Refusal::Silent,
        Refusal::Unread,
        Refusal::Away,
    ])
}

fn to_room() -> impl Strategy<Value = ToRoom> {
    let pull = (sitting(), any::<(u32, u64)>(), 0..=PAGE_MESSAGES_MAX);
    prop_oneof![
        sitting().prop_map(ToRoom::Alive),
        sitting().prop_map(ToRoom::NotHere),
        (sitting(), "\\PC{0,20}").prop_map(|(who, nick)| ToRoom::Back(who, nick)),
        pull.prop_map(|(who, (id, after), limit)| ToRoom::Pull(Pulled {
            who,
            id,
            after,
            limit
        })),
        (address(), any::<u64>()).prop_map(|(full, place)| ToRoom::Missed(full, place)),
        address().prop_map(ToRoom::Noted),
    ]
}

fn of_room() -> impl Strategy<Value = OfRoom> {
    let page = prop::collection::vec((any::<u64>(), frame()), 0..5);
    let page = (sitting(), page, any::<(u32, u64, bool)>());
    prop_oneof![
        (sitting(), any::<Option<u64>>(), any::<bool>())
            .prop_map(|(who, since, is_new)| OfRoom::Here { who, since, is_new }),
        (sitting(), any::<u64>()).prop_map(|(who, place)| OfRoom::More { who, place }),
        (sitting(), any::<u64>()).prop_map(|(who, told)| OfRoom::Asks { who, told }),
        sitting().prop_map(OfRoom::Absent),
        (address(), any::<(u64, u64, bool, bool)>()).prop_map(
            |(room, (since, told, is_new, asks))| OfRoom::Member(Membership {
                room,
                since,
                told,
                is_new,
                asks
            })
        ),
        page.prop_map(|(who, entries, (id, through, is_end))| {
            let (places, messages) = entries
                .into_iter()
                .map(|(place, frame)| (Place::new(place), frame))
                .unzip();
            let through = Place::new(through);
            let page = RoomPage {
                id,
                places,
                through,
                is_end,
            };
            OfRoom::Page {
                who,
                page,
                messages,
            }
        }),
    ]
}

fn stanza() -> impl Strategy<Value = Stanza> {
    let resource = prop::option::of("\\PC{0,30}");
    let parts = (resource, frame(), source(), any::<Option<u32>>());
    parts.prop_map(|(resource, frame, source, managed)| Stanza {
        resource: resource.map(Into::into),
        frame,
        source,
        managed,
    })
}

fn message() -> impl Strategy<Value = Message> {
    let copy = (address(), frame(), any::<(u64, u64)>());
    let not_taken = (any::<u64>(), source(), refusal(), prop::option::of(error()));
    let interest = (address(), prop::collection::vec("\\PC{0,30}", 0..5));
    let event = (
        frame(),
        "\\PC{0,30}",
        prop::collection::vec(address(), 0..4),
    );
    prop_oneof![
        stanza().prop_map(Message::Stanza),
        copy.prop_map(|(to, frame, (place, after))| Message::Copy(SharedCopy {
            to,
            frame,
            place,
            after
        })),
        address().prop_map(|from| Message::Probe { from }),
        any::<(u64, u64)>().prop_map(|(by, seq)| Message::Taken { by, seq }),
        not_taken.prop_map(|(by, source, why, error)| {
            Message::NotTaken(Box::new(NotTaken {
                by,
                source,
                why,
                error,
            }))
        }),
        to_room().prop_map(|said| Message::ToRoom(Box::new(said))),
        of_room().prop_map(|said| Message::OfRoom(Box::new(said))),
        interest.prop_map(|(session, nodes)| Message::Interest(Interest {
            session,
            nodes: nodes.into_iter().map(Into::into).collect(),
        })),
        event.prop_map(|(frame, node, but)| {
            let (node, but) = (node.into(), but.into());
            Message::NodeEvent(Arc::new(NodeEvent { frame, node, but }))
        }),
    ]
}

fn packet() -> impl Strategy<Value = Packet> {
    let credit = any::<Option<(u64, Option<u64>)>>();
    let envelope = (address(), any::<(u16, u32, bool)>(), credit, message());
    let envelope = envelope.prop_map(|(to, (range, tenure, activate), credit, message)| {
        Packet::Message(Envelope {
            to,
            range,
            tenure,
            activate,
            credit: credit.map(|(number, client)| Credit { number, client }),
            message,
        })
    });
    prop_oneof![
        9 => envelope,
        1 => any::<u64>().prop_map(|number| Packet::Credited { number }),
        1 => (any::<(u16, u32)>(), address())
            .prop_map(|((range, tenure), to)| Packet::Moved(Moved { range, tenure, to })),
        1 => join(),
        1 => joined(),
        1 => passed(),
        1 => adopt(),
    ]
}

fn conn() -> impl Strategy<Value = ConnAt> {
    any::<(u16, u32, u32)>().prop_map(|(shard, index, generation)| ConnAt {
        shard,
        index,
        generation,
    })
}

fn join() -> impl Strategy<Value = Packet> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..100);
    let said = (bytes(), prop::collection::vec(bytes(), 0..8));
    let carriers = [Carrier::Socket, Carrier::WebSocket, Carrier::Bosh];
    let numbers = any::<(u16, u32, u64, std::net::IpAddr, Option<Option<[u8; 32]>>)>();
    (
        numbers,
        address(),
        conn(),
        prop::sample::select(carriers.to_vec()),
        said,
    )
        .prop_map(
            |((range, tenure, number, address, tls), user, from, carrier, (header, elements))| {
                Packet::Join(Box::new(Join {
                    user,
                    range,
                    tenure,
                    from,
                    number,
                    address,
                    carrier,
                    tls,
                    header,
                    elements,
                }))
            },
        )
}

fn counts() -> impl Strategy<Value = Counts> {
    any::<(u32, u32, u32)>().prop_map(|(sent, acked, inbound)| Counts {
        sent,
        acked,
        inbound,
    })
}

fn mark() -> impl Strategy<Value = Mark> {
    let places = any::<(u64, u64)>();
    (places, counts()).prop_map(|((at, heard), counts)| Mark { at, heard, counts })
}

fn answered() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 0..4)
}

fn session() -> impl Strategy<Value = (Box<str>, Vec<u8>)> {
    let header = prop::collection::vec(any::<u8>(), 0..100);
    ("\\PC{0,30}", header).prop_map(|(token, header)| (token.into(), header))
}

fn adopt() -> impl Strategy<Value = Packet> {
    let carriers = [Carrier::Socket, Carrier::WebSocket, Carrier::Bosh];
    let numbers = any::<(u16, u32, u64, std::net::IpAddr, Option<u32>)>();
    let numbers = (numbers, answered());
    let carrier = prop::sample::select(carriers.to_vec());
    (numbers, address(), conn(), carrier, session(), counts()).prop_map(
        |(numbers, user, from, carrier, session, counts)| {
            let ((range, tenure, number, address, done), answered) = numbers;
            let (token, header) = session;
            Packet::Adopt(Box::new(Adopt {
                user,
                range,
                tenure,
                from,
                number,
                address,
                carrier,
                header,
                token,
                counts,
                done,
                answered,
            }))
        },
    )
}

fn joined() -> impl Strategy<Value = Packet> {
    let bytes = prop::collection::vec(any::<u8>(), 0..100);
    let said = prop_oneof![
        (any::<(u64, bool)>(), bytes).prop_map(|((at, is_whole), bytes)| Part::Bytes {
            at,
            is_whole,
            bytes
        }),
        any::<u32>().prop_map(Part::Room),
        any::<(u64, bool)>().prop_map(|(at, is_orderly)| Part::End { at, is_orderly }),
        Just(Part::Keeps),
        (address(), session(), mark()).prop_map(|(user, (token, header), mark)| Part::Session {
            user,
            token,
            header,
            mark
        }),
        mark().prop_map(Part::Mark),
        (
            prop::collection::vec(any::<u8>(), 0..100),
            mark(),
            answered()
        )
            .prop_map(|(bytes, mark, answered)| Part::Marked {
                bytes,
                mark,
                answered
            }),
        any::<(u64, Option<u32>)>().prop_map(|(at, inbound)| Part::Left { at, inbound }),
        any::<u32>().prop_map(|inbound| Part::Adopted { inbound }),
    ];
    (conn(), conn(), any::<u64>(), said).prop_map(|(to, from, number, said)| {
        Packet::Joined(Joined {
            to,
            from,
            number,
            said,
        })
    })
}

fn passed() -> impl Strategy<Value = Packet> {
    let body = || prop::collection::vec(any::<u8>(), 0..100);
    let said = prop_oneof![
        (
            conn(),
            "[a-z+/=]{0,20}",
            any::<(std::net::IpAddr, bool)>(),
            body()
        )
            .prop_map(
                |(session, token, (address, is_secure), body)| OfRequest::Came {
                    session,
                    token: token.into(),
                    address,
                    is_secure,
                    body,
                }
            ),
        conn().prop_map(|session| OfRequest::Lost { session }),
        (prop::option::of("[a-z/]{0,20}"), body()).prop_map(|(content, body)| {
            OfRequest::Answered {
                content: content.map(Into::into),
                body,
            }
        }),
        Just(OfRequest::Dropped),
    ];
    let request = (conn(), any::<(u32, u64)>());
    let request = request.prop_map(|(conn, (slot, number))| RequestAt { conn, slot, number });
    (request, said).prop_map(|(request, said)| Packet::Passed(Passed { request, said }))
}

proptest! {
    #[test]
    fn what_is_written_is_read(packet in packet()) {
        let mut bytes = b"before".to_vec();
        packet.encode(&mut bytes).unwrap();
        let read = Packet::decode(&bytes[6..]);
        prop_assert_eq!(read.as_ref(), Ok(&packet));
        // The index of a frame is made anew and is that of its bytes.
        if let Ok(Packet::Message(Envelope { message: Message::Stanza(stanza), .. })) = &read {
            let from = stanza.frame.attr("from").map(|from| from.into_owned());
            prop_assert_eq!(from.as_deref(), Some("a@b/c"));
        }
    }
}

fn is_refused(packet: &Packet, field: &str) {
    let mut bytes = b"before".to_vec();
    let error = packet.encode(&mut bytes).unwrap_err();
    assert!(
        matches!(error, WireError::Field { field: found, .. } if found == field),
        "{error}"
    );
    assert_eq!(bytes, b"before");
}

#[test]
fn what_exceeds_a_bound_is_not_written() {
    let long: Arc<str> = "a".repeat(ADDRESS_BYTES_MAX + 1).into();
    let says = |message| samples::to(message);
    is_refused(&says(Message::Probe { from: long }), "session");
    let nodes = (0..=NODES_MAX).map(|_| Box::from("n")).collect();
    let session = "a@b/c".into();
    let interest = Interest { session, nodes };
    is_refused(&says(Message::Interest(interest)), "nodes");
    let text = "x".repeat(FRAME_BYTES_MAX);
    let frame = Frame::parse(format!("<message>{text}</message>")).unwrap();
    is_refused(&says(Message::Stanza(Stanza::new(None, frame))), "frame");
}

#[test]
fn what_exceeds_a_bound_of_a_request_is_not_written() {
    let of = |token: usize, body: usize| {
        samples::passed(OfRequest::Came {
            session: samples::SESSION,
            token: "t".repeat(token).into(),
            address: "::1".parse().unwrap(),
            is_secure: false,
            body: vec![b'x'; body],
        })
    };
    let answer = |content: usize, body: usize| {
        samples::passed(OfRequest::Answered {
            content: Some("c".repeat(content).into()),
            body: vec![b'x'; body],
        })
    };
    let (token, content) = (TOKEN_BYTES_MAX, CONTENT_BYTES_MAX);
    is_refused(&of(token + 1, 0), "token");
    is_refused(&of(0, FRAME_BYTES_MAX + 1), "body");
    is_refused(&answer(content + 1, 0), "content");
    is_refused(&answer(0, FRAME_BYTES_MAX + 1), "body");
    for largest in [of(token, FRAME_BYTES_MAX), answer(content, FRAME_BYTES_MAX)] {
        let mut bytes = Vec::new();
        largest.encode(&mut bytes).unwrap();
        // Printed, it would be of no use.
        assert!(Packet::decode(&bytes) == Ok(largest));
    }
}

/// The largest stanza that can be configured, with all that the server adds.
#[test]
fn a_stanza_of_the_largest_size_passes() {
    let frame = format!("<message>{}</message>", "x".repeat(FRAME_BYTES_MAX - 19));
    let frame = Frame::parse(frame).unwrap();
    assert_eq!(frame.as_bytes().len(), FRAME_BYTES_MAX);
    let packet = samples::to(Message::Stanza(Stanza::new(None, frame)));
    let mut bytes = Vec::new();
    packet.encode(&mut bytes).unwrap();
    assert_eq!(Packet::decode(&bytes), Ok(packet));
}
