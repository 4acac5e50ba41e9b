//! Windows of a line: neither side sends more than the other has room for, nothing is taken twice
//! or out of order, and an end is one only behind everything that went before it.

use std::sync::Mutex;

use actor::ShardId;
use stdx::Level;
use store::RangeId;

use super::*;

/// A link that takes so many packets.
struct Link(Mutex<(usize, Vec<Joined>)>);

impl Link {
    fn new(packets: usize) -> Link {
        Link(Mutex::new((packets, Vec::new())))
    }

    fn note(&self, packet: &[u8]) {
        let Ok(Packet::Joined(joined)) = Packet::decode(packet) else {
            panic!("no packet of a line");
        };
        self.0.lock().unwrap().1.push(joined);
    }

    fn sent(&self) -> Vec<Part> {
        let sent = std::mem::take(&mut self.0.lock().unwrap().1);
        sent.into_iter().map(|joined| joined.said).collect()
    }

    fn takes_more(&self, packets: usize) {
        self.0.lock().unwrap().0 = packets;
    }
}

impl Away for Link {
    fn send(&self, _to: NodeId, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        let mut state = self.0.lock().unwrap();
        if state.0 == 0 {
            return Err(packet);
        }
        state.0 -= 1;
        drop(state);
        self.note(&packet);
        Ok(())
    }

    fn keep(&self, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        Err(packet)
    }

    fn answer(&self, _to: NodeId, packet: Vec<u8>) {
        self.note(&packet);
    }

    fn level(&self) -> Level {
        Level::FIRST
    }

    fn may_act(&self) -> bool {
        true
    }

    fn clients(&self, _range: RangeId) -> Option<String> {
        None
    }
}

fn conn(index: u32) -> ConnRef {
    ConnRef {
        shard: ShardId::new(1),
        id: Key {
            index,
            generation: 7,
        },
    }
}

fn line(room: u32) -> Line {
    Line::new(NodeId(3), 9, Some(at(conn(2))), room)
}

/// Hands what was sent over; how many bytes that is.
fn deliver(to: &mut Line, parts: &[Part]) -> usize {
    let mut bytes_came = 0;
    for part in parts {
        if let Part::Bytes {
            at,
            is_whole,
            bytes,
        } = part
        {
            to.takes(*at, bytes.len(), *is_whole).unwrap();
            bytes_came += bytes.len();
        }
    }
    bytes_came
}

/// Goal: a sender stops at the window, goes on with the room that is given back, and everything
/// arrives once and in order.
#[test]
fn no_more_is_sent_than_there_is_room_for() {
    let link = Link::new(usize::MAX);
    let (mut here, mut there) = (line(WINDOW), line(0));
    let bytes = vec![b'x'; 3 * WINDOW as usize];
    let mut sent = here.send(conn(1), (&link, Moment::ZERO), &bytes, None);
    assert_eq!(sent, WINDOW as usize);
    assert!(!here.has_room());
    assert_eq!(here.send(conn(1), (&link, Moment::ZERO), &bytes, None), 0);
    let mut came = 0;
    while sent < bytes.len() {
        let parts = link.sent();
        assert!(
            parts
                .iter()
                .all(|part| matches!(part, Part::Bytes { bytes, .. }
            if bytes.len() <= CHUNK))
        );
        came += deliver(&mut there, &parts);
        assert!(there.owes_room());
        there.give_room(conn(2), &link);
        assert!(!there.owes_room());
        let [Part::Room(room)] = link.sent()[..] else {
            panic!("room for what came, and nothing else");
        };
        here.more_room(room);
        sent += here.send(conn(1), (&link, Moment::ZERO), &bytes[sent..], None);
    }
    came += deliver(&mut there, &link.sent());
    assert_eq!((sent, came), (bytes.len(), bytes.len()));
    // What came last ends an element, as far as its sender knew.
    assert!(there.is_whole);
}

/// Goal: a link that is full takes nothing of what it refused, and since when it does is known.
#[test]
fn what_a_full_link_refuses_is_sent_later() {
    let link = Link::new(1);
    let mut here = line(WINDOW);
    let bytes = vec![b'x'; 2 * CHUNK];
    let now = Moment::ZERO + std::time::Duration::from_secs(5);
    assert_eq!(here.send(conn(1), (&link, now), &bytes, None), CHUNK);
    assert_eq!(here.refused, Some(now));
    let later = now + std::time::Duration::from_secs(1);
    assert_eq!(here.send(conn(1), (&link, later), &bytes[CHUNK..], None), 0);
    assert_eq!(here.refused, Some(now));
    link.takes_more(1);
    assert_eq!(
        here.send(conn(1), (&link, later), &bytes[CHUNK..], None),
        CHUNK
    );
    assert_eq!(here.refused, None);
    let mut there = line(0);
    assert_eq!(deliver(&mut there, &link.sent()), bytes.len());
}

/// Goal: bytes that are missing, come twice, or exceed the window are noticed.
#[test]
fn what_cannot_be_is_noticed() {
    let mut there = line(0);
    assert_eq!(there.takes(1, 5, true), Err(Broken));
    assert_eq!(there.takes(0, 5, false), Ok(()));
    assert!(!there.is_whole);
    assert_eq!(there.takes(0, 5, true), Err(Broken));
    assert_eq!(there.takes(5, WINDOW as usize, true), Err(Broken));
    assert_eq!(there.takes(5, WINDOW as usize - 5, true), Ok(()));
    assert_eq!(there.takes(u64::from(WINDOW), 1, true), Err(Broken));
}

/// Goal: an end that overtakes bytes is one only when they are there, and nothing follows it.
#[test]
fn an_end_waits_for_what_went_before() {
    let link = Link::new(usize::MAX);
    let mut here = line(WINDOW);
    here.send(conn(1), (&link, Moment::ZERO), b"</stream:stream>", None);
    let parts = link.sent();
    here.end(conn(1), &link, true);
    let [Part::End { at, is_orderly }] = link.sent()[..] else {
        panic!("an end");
    };
    let mut there = line(0);
    there.ends(at, is_orderly);
    assert_eq!(there.has_ended(), None);
    // It was sent something meanwhile, and answers that there is no such connection.
    there.ends(0, false);
    assert_eq!(there.has_ended(), None);
    deliver(&mut there, &parts);
    assert_eq!(there.has_ended(), Some(true));
    assert_eq!(there.takes(at, 1, true), Err(Broken));
}

/// Goal: before the other side has said who it is nothing can be sent to it.
#[test]
fn nothing_is_sent_to_nobody() {
    let link = Link::new(usize::MAX);
    let mut here = Line::new(NodeId(3), 9, None, WINDOW);
    assert_eq!(here.send(conn(1), (&link, Moment::ZERO), b"x", None), 0);
    here.end(conn(1), &link, false);
    here.give_room(conn(1), &link);
    assert_eq!(link.sent(), []);
}
