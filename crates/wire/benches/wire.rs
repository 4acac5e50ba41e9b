//! What a message costs that goes as bytes: `cargo bench -p wire`. Beside each the floor: for
//! writing, a copy of the stanza's bytes; for reading, one parse of them; for staying here, a move
//! into a queue and out of it. In turns, so that a noisy machine disturbs all alike.
#![allow(clippy::print_stdout)] // A benchmark prints.

#[path = "../tests/samples/mod.rs"]
mod samples;

use std::collections::VecDeque;
use std::hint::black_box;

use stdx::time::{Clock, SystemClock};
use wire::{Envelope, Kind, Message, Packet};
use xml::Frame;

const ROUNDS: usize = 1_001;
const TIMES: usize = 100;

/// Nanoseconds of each of some works, by the median of rounds.
fn measure<const N: usize>(mut works: [&mut dyn FnMut(); N]) -> [f64; N] {
    let clock = SystemClock::new();
    let mut took = [const { Vec::<f64>::new() }; N];
    for _ in 0..ROUNDS {
        for (work, took) in works.iter_mut().zip(&mut took) {
            let began = clock.now();
            for _ in 0..TIMES {
                work();
            }
            let nanos = clock.now().saturating_since(began).as_nanos();
            took.push(nanos as f64 / TIMES as f64);
        }
    }
    took.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all[ROUNDS / 2]
    })
}

fn frame_of(packet: &Packet) -> Option<&Frame> {
    let Packet::Message(Envelope { message, .. }) = packet else {
        return None;
    };
    match message {
        Message::Stanza(stanza) => Some(&stanza.frame),
        Message::Copy(copy) => Some(&copy.frame),
        Message::NodeEvent(event) => Some(&event.frame),
        _ => None,
    }
}

fn compare(packet: &Packet) {
    let mut bytes = Vec::new();
    packet.encode(&mut bytes).expect("a sample");
    let xml = frame_of(packet).map_or(&[][..], Frame::as_bytes).to_vec();
    let Packet::Message(Envelope { message, .. }) = packet else {
        return;
    };
    let (mut copied, mut written, mut queue) = (Vec::new(), Vec::new(), VecDeque::new());
    let [moved, copy, encode, parse, decode] = measure([
        &mut || {
            // The clone is what one recipient of many costs anyway; it shares the bytes.
            queue.push_back(black_box(message).clone());
            black_box(queue.pop_front());
        },
        &mut || {
            copied.clear();
            copied.extend_from_slice(black_box(&xml));
            black_box(&copied);
        },
        &mut || {
            written.clear();
            black_box(packet).encode(&mut written).expect("a sample");
        },
        &mut || {
            if !xml.is_empty() {
                black_box(Frame::parse(black_box(&*xml)).expect("a sample"));
            }
        },
        &mut || {
            black_box(Packet::decode(black_box(&bytes)).expect("a sample"));
        },
    ]);
    println!(
        "| {} | {} | {} | {moved:.0} | {copy:.0} | {encode:.0} | {parse:.0} | {decode:.0} |",
        packet.kind().name(),
        xml.len(),
        bytes.len(),
    );
}

fn main() {
    println!("| kind | stanza, bytes | packet, bytes | moved | copy | write | parse | read |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    let kinds = [
        Kind::Stanza,
        Kind::Copy,
        Kind::Taken,
        Kind::NotTaken,
        Kind::Probe,
        Kind::NodeEvent,
        Kind::Pull,
        Kind::Page,
    ];
    for packet in samples::all() {
        if kinds.contains(&packet.kind()) {
            compare(&packet);
        }
    }
}
