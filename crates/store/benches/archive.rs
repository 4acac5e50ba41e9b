//! What a page of an archive costs: 50 entries of one log with a million, at the end and at any
//! place, by time and by address. Run by `cargo bench -p store --bench archive`; each figure is
//! printed with its unit.
//!
//! Not a statistics harness: each figure is taken over a thousand pages at places that follow from
//! a fixed seed, on a folder below `ROOST_BENCH_DIR` (default: the build's temporary folder).
// A benchmark measures time and prints it.
#![allow(missing_docs, clippy::print_stdout, clippy::disallowed_methods)]

use std::env;
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use stdx::time::Timestamp;
use store::{
    Account, Durability, EntryFlags, Few, LogEntry, Options, Outbound, PageQuery, Record, Seq,
    Store,
};

const USER: &str = "juliet@localhost";
const PEERS: u64 = 50;
const PAGES: usize = 1_000;
const PAGE: usize = 50;
/// One in so many entries is with the one who seldom writes.
const RARE: u64 = 10_007;

fn at(seq: Seq) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + seq as i64 * 600)
}

fn peer(seq: Seq) -> String {
    if seq.is_multiple_of(RARE) {
        return "seldom@localhost".to_owned();
    }
    // Conversations: some messages with one, then some with another.
    format!("u{}@localhost", seq / 7 * 31 % PEERS)
}

fn records(entries: u64) -> impl Iterator<Item = Record> {
    let account = Record::AccountPut {
        user: USER.to_owned(),
        account: Account::default(),
    };
    let body = "Wherefore art thou, and what is the time by now? ".repeat(3);
    let entry = move |seq: Seq| {
        let frame = format!("<message type='chat' id='{seq:x}'><body>{body}</body></message>");
        let sent = EntryFlags::SENT.and(EntryFlags::ARCHIVED);
        Record::LogAppend {
            user: USER.into(),
            entry: LogEntry {
                seq,
                at: at(seq),
                peer: peer(seq).into(),
                flags: [EntryFlags::ARCHIVED, sent][(seq % 2) as usize],
                frame: frame.into_bytes().into(),
                source: seq * (seq % 2),
                origin: seq.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                went_to: Few::from([Outbound {
                    session: 1,
                    count: seq as u32,
                }]),
                ..LogEntry::default()
            },
        }
    };
    std::iter::once(account).chain((1..=entries).map(entry))
}

/// A sequence of places that follows from nothing but the seed.
fn places(entries: u64) -> impl FnMut() -> Seq {
    let mut random = 1u64;
    move || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % entries + 1
    }
}

fn measure(what: &str, mut page: impl FnMut() -> usize) {
    let mut times = Vec::with_capacity(PAGES);
    let mut found = 0;
    for _ in 0..PAGES {
        let start = Instant::now();
        found += black_box(page());
        times.push(start.elapsed());
    }
    let first = times[0].as_secs_f64() * 1e6;
    times.sort();
    let part = |part: f64| times[((PAGES - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
    println!(
        "page: {what:44} first {first:6.0} us, p50 {:6.0} us, p99 {:6.0} us, max {:6.0} us; {:.1} \
         entries",
        part(0.5),
        part(0.99),
        part(1.0),
        found as f64 / PAGES as f64,
    );
}

fn main() {
    let root = env::var_os("ROOST_BENCH_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let path = root.join("archive-bench");
    let _ = fs::remove_dir_all(&path);
    let entries = env::var("ROOST_BENCH_ENTRIES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1_000_000u64);
    let options = Options {
        durability: Durability::Memory,
        ..Options::default()
    };
    let store = Store::open(&path, &options).unwrap();
    let start = Instant::now();
    store.bulk(records(entries)).unwrap();
    let took = start.elapsed().as_secs_f64();
    println!(
        "bulk: {entries} entries in {took:.1} s: {:.1} us each, {:.0} MiB on disk",
        took * 1e6 / entries as f64,
        store.stats().disk_bytes as f64 / (1 << 20) as f64
    );
    drop(store);
    let store = Store::open(&path, &options).unwrap();
    let archived = PageQuery {
        flags: EntryFlags::ARCHIVED,
        limit: PAGE,
        ..PageQuery::default()
    };
    let mut place = places(entries);
    let page = |query: &PageQuery| store.log_page(USER, query).unwrap().entries.len();
    let last = PageQuery {
        backwards: true,
        ..archived.clone()
    };
    measure("the last", || page(&last));
    measure("behind any place", || {
        let after = Some(place());
        page(&PageQuery {
            after,
            ..archived.clone()
        })
    });
    measure("in front of any place", || {
        let before = Some(place());
        page(&PageQuery {
            before,
            ..last.clone()
        })
    });
    measure("from any time", || {
        let start = Some(at(place()));
        page(&PageQuery {
            start,
            ..archived.clone()
        })
    });
    measure("the last of a day at any time", || {
        let end = at(place());
        let start = Timestamp::from_millis(end.as_millis() - 24 * 3_600_000);
        page(&PageQuery {
            start: Some(start),
            end: Some(end),
            ..last.clone()
        })
    });
    let with = |peer: String, before, end| {
        page(&PageQuery {
            with: Some(peer),
            before,
            end,
            ..last.clone()
        })
    };
    measure("the last with one of 50 addresses", || {
        with(peer(7), None, None)
    });
    measure("with one of 50 addresses, any place and time", || {
        let (seq, time) = (place(), at(place()));
        with(peer(seq), Some(seq), Some(time))
    });
    measure("the last with one in 10,007", || {
        with(peer(RARE), None, None)
    });
    measure("with a stranger", || {
        with("stranger@localhost".to_owned(), None, None)
    });
    measure("50 entries at any places", || {
        let seqs: Vec<Seq> = (0..PAGE).map(|_| place()).collect();
        store.log_entries(USER, &seqs).unwrap().len()
    });
    measure("ends of the archive", || {
        store.log_metadata(USER).unwrap().map_or(0, |_| 2)
    });
    measure("load of the user", || {
        store.load_user(USER).unwrap().map_or(0, |_| 1)
    });
    drop(store);
    fs::remove_dir_all(&path).unwrap();
}
