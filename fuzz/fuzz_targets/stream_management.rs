//! What a client may say in the namespace of stream management, and any order of what may happen to
//! a session's queue: counts agree, bounds hold, and nothing that is owed disappears.

#![no_main]

use std::collections::VecDeque;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use roost_fuzz::stanza_of;
use xml::{Frame, Framer, Scratch};
use xmpp::sm::{self, Kept, Limits, Outbound, Pushed, Request};

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    start: u32,
    limits: (u8, u16),
    more: (u8, u16),
    operations: Vec<Operation>,
    element: &'a [u8],
}

#[derive(Debug, Arbitrary)]
enum Operation {
    Entry,
    Presence(u8),
    Other(u8),
    /// So far behind what was sent last.
    Ack(u8),
    /// Any count at all.
    AckAny(u32),
    Resume(u8),
    ResumeAny(u32),
}

fuzz_target!(|input: Input<'_>| {
    let (mut framer, mut scratch) = (Framer::new(), Scratch::default());
    if let Some(element) = stanza_of(input.element, &mut framer, &mut scratch) {
        parse(&element.to_frame());
    }
    let (stanzas, bytes) = (u16::from(input.limits.0), u32::from(input.limits.1));
    let (more, more_bytes) = (u16::from(input.more.0), u32::from(input.more.1));
    let limits = Limits {
        stanzas,
        bytes,
        stanzas_max: stanzas + more,
        bytes_max: bytes + more_bytes,
    };
    let mut outbound = Outbound::recovered(input.start, []);
    let mut owed = VecDeque::new();
    for (number, operation) in input.operations.iter().take(256).enumerate() {
        step(&mut outbound, &mut owed, number as u64, operation, limits);
        check(&outbound, &owed);
    }
});

/// What is understood means the same when it is written down again.
fn parse(frame: &Frame) {
    match sm::parse(&frame.as_ref()) {
        Ok(Request::Ack(h)) => {
            let mut out = Vec::new();
            sm::write_ack(h, &mut out);
            let again = Frame::parse(out).expect("an element");
            assert_eq!(sm::parse(&again.as_ref()), Ok(Request::Ack(h)));
        }
        Ok(Request::Resume { previd, h }) => {
            let mut out = Vec::new();
            sm::write_resumed(&previd, h, &mut out);
            let again = Frame::parse(out).expect("an element");
            assert_eq!(again.attr("previd").as_deref(), Some(&*previd));
        }
        Ok(Request::Enable { .. } | Request::AckRequest) | Err(_) => {}
    }
}

fn step(
    outbound: &mut Outbound,
    owed: &mut VecDeque<u64>,
    number: u64,
    operation: &Operation,
    limits: Limits,
) {
    let sent = outbound.sent();
    let mut push = |outbound: &mut Outbound, kept: Kept| {
        let is_entry = kept.entry().is_some();
        if outbound.push(kept, limits) == Pushed::Full {
            assert_eq!(outbound.sent(), sent);
        } else {
            assert_eq!(outbound.sent(), sent.wrapping_add(1));
            owed.extend(is_entry.then_some(number));
        }
    };
    match operation {
        Operation::Entry => push(outbound, Kept::Entry(number)),
        Operation::Presence(size) => push(outbound, Kept::Presence(body(*size))),
        Operation::Other(size) => push(outbound, Kept::Other(body(*size))),
        Operation::Ack(behind) => ack(outbound, owed, sent.wrapping_sub((*behind).into())),
        Operation::AckAny(h) => ack(outbound, owed, *h),
        Operation::Resume(behind) => resume(outbound, owed, sent.wrapping_sub((*behind).into())),
        Operation::ResumeAny(h) => resume(outbound, owed, *h),
    }
}

fn body(size: u8) -> Box<[u8]> {
    vec![b' '; size.into()].into()
}

fn ack(outbound: &mut Outbound, owed: &mut VecDeque<u64>, h: u32) {
    let (sent, acked) = (outbound.sent(), outbound.acked());
    match outbound.ack(h) {
        Ok(entries) => take(owed, &entries),
        Err(error) => {
            assert_eq!((error.h, error.sent), (h, sent));
            assert_eq!(outbound.acked(), acked);
        }
    }
}

fn resume(outbound: &mut Outbound, owed: &mut VecDeque<u64>, h: u32) {
    if let Ok(resumed) = outbound.resume(h) {
        assert_eq!(outbound.acked(), h);
        let left = outbound.unacked().count() as u32;
        assert_eq!(outbound.sent(), h.wrapping_add(left));
        take(owed, &resumed.acked);
    }
}

/// What is acknowledged is the oldest of what is owed.
fn take(owed: &mut VecDeque<u64>, entries: &[u64]) {
    for seq in entries {
        assert_eq!(owed.pop_front(), Some(*seq));
    }
}

fn check(outbound: &Outbound, owed: &VecDeque<u64>) {
    let entries = outbound.unacked().filter_map(|(_, kept)| kept.entry());
    assert!(entries.eq(owed.iter().copied()), "something owed is lost");
    let span = outbound.sent().wrapping_sub(outbound.acked());
    let mut last = 0;
    for (count, _) in outbound.unacked() {
        let ahead = count.wrapping_sub(outbound.acked());
        assert!(ahead > last && ahead <= span, "a count is out of place");
        last = ahead;
    }
    if span == 0 {
        assert_eq!(outbound.heap_bytes(), 0);
    }
}
