//! What an occupant costs: bytes of heap that a room takes for each, over the user's own.

#![expect(
    clippy::print_stdout,
    reason = "the figure itself is what a reader wants to see"
)]

use std::sync::Arc;

use room::{Event, Options, Room, RoomLimits};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use stdx::Timestamp;
use xml::Frame;

#[global_allocator]
static HEAP: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// Bytes that an occupant may cost (design: at most 300 over the user's own).
const BYTES_MAX: usize = 300;

fn join(room: &mut Room, n: usize) {
    let stanza = format!(
        "<presence from='user{n:05}@example.org/conversations.aB3d' \
         to='lobby@conference.example.org/user{n:05}'>\
         <c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='https://example.org/client' \
         ver='QgayPKawpkPSDYmwT/WM94uAlu0='/><x xmlns='http://jabber.org/protocol/muc'/></presence>"
    );
    let frame = Frame::parse(stanza).expect("a presence");
    let event = Event::Stanza {
        frame,
        may_create: true,
        managed: None,
        named: None,
    };
    let now = Timestamp::from_millis(0);
    // What is sent is the recipients' cost, and is dropped here.
    assert!(room.handle(event, now).is_ok());
}

fn bytes_in_use(region: &Region<'_, std::alloc::System>) -> usize {
    let stats = region.change();
    stats
        .bytes_allocated
        .saturating_sub(stats.bytes_deallocated)
}

#[test]
fn an_occupant_costs_at_most_300_bytes() {
    // Large early: that nobody is told of the others saves time, and no memory is theirs.
    let limits = RoomLimits {
        large_from: 4,
        ..RoomLimits::default()
    };
    let options = Options {
        limits,
        locks_new: false,
        ..Options::default()
    };
    let mut room = Room::new(
        "lobby@conference.example.org",
        None,
        Arc::new(options),
        [1; 16],
        1,
    );
    join(&mut room, 0);
    let region = Region::new(HEAP);
    let mut counted = 1;
    for count in [1_000, 2_000, 15_000] {
        for n in counted..count {
            join(&mut room, n);
        }
        counted = count;
        // The list of everybody, which a message to all shares.
        let message = format!(
            "<message type='groupchat' from='user00000@example.org/conversations.aB3d' \
             to='lobby@conference.example.org'><active xmlns='urn:x{count}'/></message>"
        );
        let frame = Frame::parse(message).expect("a message");
        let event = Event::Stanza {
            frame,
            may_create: true,
            managed: None,
            named: None,
        };
        assert!(room.handle(event, Timestamp::from_millis(0)).is_ok());
        let each = bytes_in_use(&region) / (count - 1);
        println!("{count} occupants: {each} bytes each");
        assert!(
            each <= BYTES_MAX,
            "{each} bytes for each of {count} occupants"
        );
    }
    assert_eq!(room.sessions(), 15_000);
}
