//! How often the message path allocates: never to frame a stanza, once for a frame of its own. The
//! only test of its file, because the allocator counts for the whole process.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use xml::{Event, Framer, Limits, Scratch};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The fewest of several runs: the test's runner has threads that allocate too.
fn allocations<T>(mut run: impl FnMut() -> T) -> usize {
    let counts = (0..50).map(|_| {
        let region = Region::new(ALLOCATOR);
        let result = run();
        let change = region.change();
        drop(result);
        change.allocations + change.reallocations
    });
    counts.min().unwrap_or_default()
}

#[test]
fn a_frame_is_one_allocation() {
    let header = "<s:stream xmlns='jabber:client' xmlns:s='http://etherx.jabber.org/streams'>";
    let stanza = "<message to='juliet@example.com/balcony' type='chat' id='ktx72v49q1zd8a'>\
                  <body>Art thou not Romeo, and a Montague?</body>\
                  <active xmlns='http://jabber.org/protocol/chatstates'/></message>";
    let (limits, mut scratch) = (Limits::default(), Scratch::default());
    let mut framer = Framer::new();
    let open = framer.next(header.as_bytes(), &limits, &mut scratch);
    assert!(open.is_ok_and(|step| step.event.is_some()));
    let mut framed = |handle: &dyn Fn(xml::FrameRef<'_>) -> Option<xml::Frame>| {
        let step = framer.next(stanza.as_bytes(), &limits, &mut scratch);
        match step.expect("a good stanza").event {
            Some(Event::Stanza(frame)) => handle(frame),
            _ => panic!("a stanza"),
        }
    };
    assert_eq!(allocations(|| framed(&|_| None)), 0);
    assert_eq!(allocations(|| framed(&|frame| Some(frame.to_frame()))), 1);
    let stamp = |frame: xml::FrameRef<'_>| {
        let edit = frame.edit().set_attr("from", "romeo@example.com/orchard");
        Some(edit.set_attr("to", "juliet@example.com").finish())
    };
    assert_eq!(allocations(|| framed(&stamp)), 1);
    let frame = framed(&|frame| Some(frame.to_frame())).expect("a frame");
    assert_eq!(allocations(|| frame.clone()), 0);
    let grow = || frame.edit().append_child(b"<x xmlns='u'/>").finish();
    assert_eq!(allocations(grow), 2, "the new child and the frame");
    let mut out = Vec::with_capacity(1024);
    let readdress = || {
        out.clear();
        frame.write_readdressed(&mut out, None, Some("romeo@example.com/orchard"));
    };
    assert_eq!(allocations(readdress), 0);
}
