//! What a room costs: entries, messages to all, and the copies of one message, by the number of
//! occupants. `cargo bench -p room`. Counts processor time of its thread, so that a loaded machine
//! changes little; ratios on one machine are what counts.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::sync::Arc;

use room::{Effect, Event, Options, Room, RoomLimits};
use rustix::time::{ClockId, clock_gettime};
use stdx::Timestamp;
use xml::Frame;

const ROOM: &str = "lobby@conference.example.org";

fn stanza(n: usize, text: &str, to: &str) -> Event {
    let parsed = Frame::parse(text.to_owned()).expect("a stanza");
    let from = format!("user{n:05}@example.org/client.aB3d");
    let frame = parsed.edit().set_attr("from", &from);
    let frame = frame.set_attr("to", to).finish();
    Event::Stanza {
        frame,
        may_create: true,
        managed: None,
        named: None,
    }
}

fn join(room: &mut Room, n: usize) -> usize {
    let presence = "<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' \
                    node='https://example.org/client' ver='QgayPKawpkPSDYmwT/WM94uAlu0='/>\
                    <x xmlns='http://jabber.org/protocol/muc'/></presence>";
    let event = stanza(n, presence, &format!("{ROOM}/user{n:05}"));
    copies(
        &room
            .handle(event, Timestamp::from_millis(0))
            .expect("the room is not busy"),
    )
}

fn copies(effects: &[Effect]) -> usize {
    let count = |effect: &Effect| match effect {
        Effect::Send { to, .. } => to.len(),
        Effect::Deliver(_) | Effect::Tell { .. } => 1,
        Effect::Append(_)
        | Effect::Keep(_)
        | Effect::Here { .. }
        | Effect::Ask
        | Effect::Refuse { .. }
        | Effect::Members(_)
        | Effect::Ended => 0,
    };
    effects.iter().map(count).sum()
}

/// Processor time of this thread so far.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn filled(occupants: usize, large_from: u32) -> (Room, f64, usize) {
    let limits = RoomLimits {
        large_from,
        ..RoomLimits::default()
    };
    let options = Options {
        limits,
        locks_new: false,
        ..Options::default()
    };
    let mut room = Room::new(ROOM, None, Arc::new(options), [1; 16], 1);
    let start = cpu_seconds();
    let stanzas = (0..occupants).map(|n| join(&mut room, n)).sum();
    (room, (cpu_seconds() - start) * 1e6, stanzas)
}

fn main() {
    println!(
        "{:>9} {:>10} {:>12} {:>14} {:>12}",
        "occupants", "large from", "µs an entry", "stanzas each", "ns a stanza"
    );
    for (occupants, large_from) in [
        (350, 256),
        (350, 100_000),
        (2_000, 256),
        (2_000, 100_000),
        (15_000, 256),
    ] {
        let (_, micros, stanzas) = filled(occupants, large_from);
        println!(
            "{occupants:>9} {large_from:>10} {:>12.1} {:>14.1} {:>12.0}",
            micros / occupants as f64,
            stanzas as f64 / occupants as f64,
            micros * 1e3 / stanzas as f64
        );
    }
    println!(
        "{:>9} {:>12} {:>12}",
        "occupants", "µs a message", "ns a copy"
    );
    for occupants in [10, 350, 2_000, 15_000] {
        let (mut room, ..) = filled(occupants, 16);
        let message = "<message type='groupchat' id='a1b2c3'><body>Thrice the brinded cat hath \
                       mew'd.</body><origin-id xmlns='urn:xmpp:sid:0' id='a1b2c3'/></message>";
        let rounds = 2_000;
        let events: Vec<Event> = (0..rounds).map(|_| stanza(0, message, ROOM)).collect();
        let mut last = Vec::new();
        let start = cpu_seconds();
        for event in events {
            last = room
                .handle(event, Timestamp::from_millis(0))
                .expect("not busy");
        }
        let decided = (cpu_seconds() - start) * 1e6 / f64::from(rounds);
        let mut out = Vec::new();
        let mut written = 0;
        let start = cpu_seconds();
        for _ in 0..(200_000 / occupants).max(1) {
            for effect in &last {
                let Effect::Send { frame, to, .. } = effect else {
                    continue;
                };
                out.clear();
                for to in to.iter() {
                    room::write_copy(frame, to, &mut out);
                    written += 1;
                }
            }
        }
        let copy = (cpu_seconds() - start) * 1e9 / f64::from(written);
        println!("{occupants:>9} {decided:>12.2} {copy:>12.0}");
    }
}
