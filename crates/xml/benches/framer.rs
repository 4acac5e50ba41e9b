//! Benchmark of the framer: `cargo bench -p xml`. The same bytes through the framer and through
//! `rxml`, in turns, so that a noisy machine disturbs both alike; the ratio of the medians is what
//! counts. Deliberately not here: sockets, stanzas' meaning.
#![allow(clippy::print_stdout)] // A benchmark prints.

use std::alloc::System;
use std::hint::black_box;

use rxml::Parse as _;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use stdx::time::{Clock, SystemClock};
use xml::{Event, Frame, Framer, Limits, Scratch};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ROUNDS: usize = 1_001;
/// Few in a round and many rounds, so that most rounds are not interrupted.
const STANZAS: usize = 40;
const HEADER: &str = "<?xml version='1.0'?><stream:stream to='localhost' version='1.0' \
                      xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";
/// A chat message as clients send it.
const STANZA: &str = "<message to='juliet@example.com/balcony' type='chat' id='ktx72v49q1zd8a'>\
                      <body>Art thou not Romeo, and a Montague?</body>\
                      <active xmlns='http://jabber.org/protocol/chatstates'/></message>";
const _: () = assert!(STANZA.len() == 186);

/// Frames what comes in reads of whole stanzas; `handle` is what a caller does with one.
fn frame(reads: &[Vec<u8>], mut handle: impl FnMut(xml::FrameRef<'_>)) -> usize {
    let (mut framer, mut scratch) = (Framer::new(), Scratch::default());
    let (limits, mut count) = (Limits::default(), 0);
    for read in reads {
        let mut rest = &read[..];
        while !rest.is_empty() {
            let step = framer
                .next(rest, &limits, &mut scratch)
                .expect("a good stream");
            if let Some(Event::Stanza(frame)) = step.event {
                count += 1;
                handle(frame);
            }
            rest = &rest[step.consumed..];
        }
    }
    count
}

fn read_by_rxml(reads: &[Vec<u8>]) -> usize {
    let (mut parser, mut depth, mut count) = (rxml::Parser::new(), 0, 0);
    for read in reads {
        let mut rest = &read[..];
        loop {
            match parser.parse(&mut rest, false) {
                Ok(Some(event)) => {
                    match &event {
                        rxml::Event::StartElement(..) => depth += 1,
                        rxml::Event::EndElement(_) => {
                            depth -= 1;
                            count += usize::from(depth == 1);
                        }
                        _ => {}
                    }
                    black_box(event);
                }
                Ok(None) | Err(rxml::error::EndOrError::NeedMoreData) => break,
                Err(error) => panic!("a good stream: {error:?}"),
            }
        }
    }
    count
}

/// Nanoseconds for each stanza of one round.
fn time(clock: &SystemClock, run: impl FnOnce() -> usize) -> f64 {
    let began = clock.now();
    let count = run();
    let nanos = clock.now().saturating_since(began).as_nanos() as f64;
    assert_eq!(count, STANZAS);
    nanos / STANZAS as f64
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn allocations(run: impl FnOnce()) -> f64 {
    let region = Region::new(ALLOCATOR);
    run();
    let change = region.change();
    (change.allocations + change.reallocations) as f64 / STANZAS as f64
}

fn stamped(frame: xml::FrameRef<'_>) -> Frame {
    frame
        .edit()
        .set_attr("from", "romeo@example.com/orchard")
        .finish()
}

fn main() {
    println!(
        "A stanza of {} bytes, median of {ROUNDS} rounds.",
        STANZA.len()
    );
    for per_read in [1, 20] {
        compare(per_read);
    }
}

/// `rxml` gets slower the more a read holds, so that one stanza a read is its best case.
fn compare(per_read: usize) {
    let mut reads = vec![HEADER.as_bytes().to_vec()];
    let read = STANZA.repeat(per_read).into_bytes();
    reads.extend(std::iter::repeat_n(read, STANZAS / per_read));
    let clock = SystemClock::new();
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let round = [
            time(&clock, || read_by_rxml(&reads)),
            time(&clock, || frame(&reads, |frame| _ = black_box(frame))),
            time(&clock, || {
                frame(&reads, |frame| _ = black_box(frame.to_frame()))
            }),
            time(&clock, || {
                frame(&reads, |frame| _ = black_box(stamped(frame)))
            }),
        ];
        for (times, time) in times.iter_mut().zip(round) {
            times.push(time);
        }
    }
    let allocations = [
        allocations(|| _ = read_by_rxml(&reads)),
        allocations(|| _ = frame(&reads, |frame| _ = black_box(frame))),
        allocations(|| _ = frame(&reads, |frame| _ = black_box(frame.to_frame()))),
        allocations(|| _ = frame(&reads, |frame| _ = black_box(stamped(frame)))),
    ];
    let names = [
        "rxml: events",
        "framed, checked, indexed",
        "the same, as a frame of its own",
        "the same, with `from` stamped",
    ];
    println!("\n| {per_read} in a read | ns | times faster than rxml | allocations |");
    println!("| --- | ---: | ---: | ---: |");
    let medians = times.each_mut().map(|times| median(times));
    for ((name, time), allocations) in names.iter().zip(medians).zip(allocations) {
        let ratio = medians[0] / time;
        println!("| {name} | {time:.0} | {ratio:.1} | {allocations:.2} |");
    }
}
