//! What the store costs: journal appends per second by group size, the read of a login, bulk
//! loading, and the memory of an idle store. Run by `cargo bench -p store`; each figure is printed
//! with its unit.
//!
//! Not a statistics harness: every figure is dominated by the disk, so it is taken once over enough
//! operations, on a folder below `ROOST_BENCH_DIR` (default: the build's temporary folder).
// A benchmark measures time and prints it.
#![allow(missing_docs, clippy::print_stdout, clippy::disallowed_methods)]

use std::env;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use stdx::time::Timestamp;
use store::{
    Account, Append, Durability, EntryFlags, FjallOptions, Journal, LocalJournal, LogEntry,
    Options, Outcome, RangeId, Record, Roster, RosterItem, ScramHash, ScramKeys, SlotKey, Store,
    Subscription, Tenure, Writer,
};

/// Contacts per user, as in the budgets.
const CONTACTS: usize = 18;

fn user(n: usize) -> String {
    format!("u{n}@localhost")
}

fn account() -> Account {
    let keys = |hash, len| ScramKeys {
        hash,
        iterations: 4_096,
        salt: vec![7; 16],
        stored_key: (0..len).map(|n| n as u8 ^ 0x5a).collect(),
        server_key: (0..len).map(|n| n as u8 ^ 0xa5).collect(),
    };
    Account {
        created: Timestamp::from_millis(1_700_000_000_000),
        locked: false,
        scram: vec![keys(ScramHash::Sha1, 20), keys(ScramHash::Sha256, 32)],
    }
}

fn provision(users: usize) -> impl Iterator<Item = Record> {
    (0..users).flat_map(move |n| {
        let item = |k: usize| RosterItem {
            jid: user((n + k) % users),
            subscription: Subscription::Both,
            listed: true,
            ..RosterItem::default()
        };
        let near = (1..=CONTACTS / 2).flat_map(|k| [item(k), item(users - k)]);
        let roster = Roster {
            version: 1,
            items: near.collect(),
        };
        [
            Record::AccountPut {
                user: user(n),
                account: account(),
            },
            Record::RosterReplace {
                user: user(n),
                roster,
            },
        ]
    })
}

fn message(to: &str, seq: u64) -> Record {
    let body = "Wherefore art thou, and what is the time by now? ".repeat(3);
    let frame =
        format!("<message to='{to}' type='chat' id='{seq:x}'><body>{body}</body></message>");
    let entry = LogEntry {
        seq,
        at: Timestamp::from_millis(1_700_000_000_000),
        peer: "romeo@localhost".into(),
        frame: frame.into_bytes().into(),
        flags: EntryFlags::WAITING,
        ..LogEntry::default()
    };
    Record::LogAppend {
        user: to.into(),
        entry,
    }
}

fn rss_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse::<u64>().ok())
        .unwrap_or(0);
    pages * 4_096
}

/// CPU time of the whole process, background threads included.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What the disk itself takes: the floor under every synced commit. Median of 300-byte appends.
fn bench_disk(root: &Path) {
    fs::create_dir_all(root).unwrap();
    let path = root.join("fdatasync");
    let mut file = File::create(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    let mut times: Vec<Duration> = (0..300)
        .map(|_| {
            let start = Instant::now();
            file.write_all(&[1; 300]).unwrap();
            file.sync_data().unwrap();
            start.elapsed()
        })
        .collect();
    times.sort();
    println!(
        "disk: fdatasync of 300 bytes: p50 {} us, p90 {} us",
        times[150].as_micros(),
        times[270].as_micros()
    );
    fs::remove_file(path).unwrap();
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

fn open(path: &Path, durability: Durability) -> Store {
    let buffer = env::var("ROOST_BENCH_BUFFER_MIB")
        .ok()
        .and_then(|n| n.parse::<u64>().ok());
    let mut engine = FjallOptions::default();
    if let Some(buffer) = buffer {
        engine.write_buffer_bytes = buffer << 20;
    }
    Store::open(
        path,
        &Options {
            durability,
            engine,
            ..Options::default()
        },
    )
    .unwrap()
}

/// Keeps one call of `group` appends under way, as one shard does: the next is handed over when the
/// last is decided. Every append is one message to a random user.
struct Load<'a> {
    journal: &'a LocalJournal,
    slots: SlotKey,
    users: usize,
    next_seq: Vec<u64>,
    random: u64,
    tenures: Vec<Tenure>,
}

impl Load<'_> {
    fn random(&mut self) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) as usize
    }

    fn group(&mut self, size: usize) {
        let appends = (0..size).map(|_| {
            let n = self.random() % self.users;
            let to = user(n);
            let range = self.slots.slot(&to).range();
            let tenure = self.tenures[usize::from(range.index())];
            self.next_seq[n] += 1;
            Append {
                range,
                tenure,
                writer: Writer::NOBODY,
                records: vec![message(&to, self.next_seq[n] - 1)],
            }
        });
        let appends = appends.collect();
        let (send, receive) = sync_channel(1);
        let done = Box::new(move |outcomes: Vec<Outcome>| send.send(outcomes).unwrap());
        self.journal.append(appends, done).unwrap();
        for outcome in receive.recv().unwrap() {
            assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
        }
    }
}

fn bench_journal(path: &Path, users: usize) {
    for (durability, name) in [(Durability::Fsync, "fsync"), (Durability::Memory, "memory")] {
        for group in [1, 20, 200] {
            let store = open(path, durability);
            let journal = LocalJournal::start(&store).unwrap();
            let next_seq = (0..users)
                .map(|n| store.load_user(&user(n)).unwrap().unwrap().log.next_seq)
                .collect();
            let tenures = RangeId::all().map(|range| journal.take(range)).collect();
            let mut load = Load {
                journal: &journal,
                slots: store.slot_key(),
                users,
                next_seq,
                random: 1,
                tenures,
            };
            let (start, cpu_before) = (Instant::now(), cpu());
            let mut appends = 0;
            while start.elapsed() < Duration::from_secs(3) {
                load.group(group);
                appends += group;
            }
            let took = start.elapsed();
            let spent = (cpu() - cpu_before).as_secs_f64() * 1e6 / appends as f64;
            let resident = mib(rss_bytes());
            println!(
                "journal: {name:6} group {group:3}: {:8.0} appends/s, {:6.0} us per group, \
                 {spent:.1} us CPU per append, {resident:.0} MiB resident",
                appends as f64 / took.as_secs_f64(),
                took.as_secs_f64() * 1e6 / (appends / group) as f64,
            );
        }
    }
}

fn bench_load_user(path: &Path, users: usize) {
    let store = open(path, Durability::Memory);
    let reads = 200_000;
    let (mut random, mut times) = (1u64, Vec::with_capacity(reads));
    for _ in 0..reads {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let name = user((random >> 33) as usize % users);
        let start = Instant::now();
        let state = black_box(store.load_user(&name)).unwrap().unwrap();
        times.push(start.elapsed());
        assert_eq!(state.roster.items.len(), CONTACTS);
    }
    times.sort();
    let at = |part: f64| times[(reads as f64 * part) as usize].as_nanos() as f64 / 1e3;
    println!(
        "load_user: {CONTACTS} contacts, one of {users} users: p50 {:.1} us, p99 {:.1} us, \
         p99.9 {:.1} us",
        at(0.5),
        at(0.99),
        at(0.999)
    );
    println!("load_user: resident after it {:.1} MiB", mib(rss_bytes()));
}

fn bench_bulk(path: &Path, users: usize) {
    let before = rss_bytes();
    let store = open(path, Durability::Fsync);
    println!(
        "idle: an empty store costs {:.1} MiB resident",
        mib(rss_bytes().saturating_sub(before))
    );
    let mut peak = 0;
    let mut seen = 0u32;
    let watched = provision(users).inspect(|_| {
        seen += 1;
        if seen.is_multiple_of(4_096) {
            peak = peak.max(rss_bytes());
        }
    });
    let start = Instant::now();
    let records = store.bulk(watched).unwrap();
    let took = start.elapsed().as_secs_f64();
    println!(
        "bulk: {users} accounts with {CONTACTS} contacts in {took:.1} s: {:.0} accounts/s, \
         {:.0} records/s, {:.0} MiB on disk, peak {:.1} MiB resident",
        users as f64 / took,
        records as f64 / took,
        mib(store.stats().disk_bytes),
        mib(peak),
    );
    let start = Instant::now();
    drop(store);
    println!("close: {:.2} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let store = open(path, Durability::Fsync);
    println!("open: {:.2} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let report = store.verify().unwrap();
    assert!(report.is_good(), "{report}");
    println!(
        "verify: {:.1} s, {} MiB of keys and values",
        start.elapsed().as_secs_f64(),
        report.bytes >> 20
    );
    let backup = path.with_extension("backup");
    let start = Instant::now();
    let moved = store.backup(&backup).unwrap();
    println!(
        "backup: {:.1} s, {:.0} MiB",
        start.elapsed().as_secs_f64(),
        mib(moved.bytes)
    );
    fs::remove_file(backup).unwrap();
}

fn main() {
    let root = env::var_os("ROOST_BENCH_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let path = root.join("store-bench");
    let _ = fs::remove_dir_all(&path);
    let users = env::var("ROOST_BENCH_USERS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(100_000);
    bench_disk(&root);
    bench_bulk(&path, users);
    bench_disk(&root);
    bench_load_user(&path, users);
    bench_journal(&path, users);
    bench_load_user(&path, users);
    fs::remove_dir_all(&path).unwrap();
}
