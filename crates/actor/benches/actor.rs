//! Benchmarks of the runtime: `cargo bench -p actor`. A plain harness that prints one table; each
//! figure is the best of several rounds, because the machine is seldom idle, with the median beside
//! it. Deliberately not here: anything of XMPP.
#![allow(clippy::print_stdout)] // A benchmark prints.

use std::alloc::System;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use actor::threads::run_threads;
use actor::{
    Actor, Addr, AskError, Context, EntityClass, Handle, Mail, Name, Options, Reply, Shard,
    ShardId, Waker, system,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use stdx::time::{Clock, Moment, SystemClock};
use telemetry::Histogram;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ROUNDS: usize = 7;

struct NoWaker;

impl Waker for NoWaker {
    fn wake(&self) {}
}

fn shards(count: u16, clock: SystemClock) -> Vec<Shard> {
    let (_, seeds) = system(Options::new(count, 1));
    seeds
        .into_iter()
        .map(|seed| seed.build(Arc::new(clock), Arc::new(NoWaker)))
        .collect()
}

fn drain(shard: &mut Shard) {
    while shard.turn().more {}
}

/// Times `round`, which does `count` operations: nanoseconds per operation, best and median.
fn measure(clock: SystemClock, count: u64, mut round: impl FnMut()) -> (f64, f64) {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = clock.now();
            round();
            clock.now().saturating_since(began).as_nanos() as f64 / count as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[0], times[ROUNDS / 2])
}

fn row(what: &str, (best, median): (f64, f64), target: &str) {
    let rate = 1e3 / best;
    println!("| {what:<52} | {best:>8.1} | {median:>8.1} | {rate:>10.2} | {target:<14} |");
}

/// Adds up what it is sent.
struct Sum(u64);

impl Actor for Sum {
    type Msg = u64;

    fn handle(&mut self, msg: u64, _: &mut Context<'_, u64>) {
        self.0 = self.0.wrapping_add(msg);
    }

    fn stopped(&mut self, _: &actor::Reason, _: &mut Context<'_, u64>) {
        black_box(self.0);
    }
}

fn bench_spawn(clock: SystemClock) {
    const COUNT: u64 = 200_000;
    let result = measure(clock, COUNT, || {
        let mut shard = shards(1, clock).remove(0);
        for _ in 0..COUNT {
            shard.spawn(Sum(0));
        }
        drain(&mut shard);
    });
    row("spawn, run started(), drop", result, "");
}

/// Sends a burst to another actor whenever it is told to.
struct Burst {
    to: Addr<u64>,
    count: u64,
}

impl Actor for Burst {
    type Msg = ();

    fn handle(&mut self, (): (), cx: &mut Context<'_, ()>) {
        for n in 0..self.count {
            let _ = black_box(cx.send(self.to, n));
        }
    }
}

fn bench_local(clock: SystemClock) {
    const COUNT: u64 = 1_000_000;
    let mut shard = shards(1, clock).remove(0);
    let sum = shard.spawn(Sum(0));
    let burst = shard.spawn(Burst {
        to: sum,
        count: 1000,
    });
    let result = measure(clock, COUNT, || {
        for _ in 0..COUNT / 1000 {
            let _ = shard.send(burst, ());
            drain(&mut shard);
        }
    });
    row("local send + handle, bursts of 1000", result, "<= 200 ns");

    struct Pong;
    enum Ball {
        Fly(u64, Addr<Ball>),
    }
    impl Actor for Pong {
        type Msg = Ball;
        fn handle(&mut self, Ball::Fly(left, to): Ball, cx: &mut Context<'_, Ball>) {
            if left > 0 {
                let me = cx.myself();
                let _ = cx.send(to, Ball::Fly(left - 1, me));
            }
        }
    }
    let (one, two) = (shard.spawn(Pong), shard.spawn(Pong));
    let result = measure(clock, COUNT, || {
        let _ = shard.send(one, Ball::Fly(COUNT, two));
        drain(&mut shard);
    });
    row(
        "local send + handle, ping-pong (one run each)",
        result,
        "<= 200 ns",
    );

    let many: Vec<Addr<u64>> = (0..100_000).map(|_| shard.spawn(Sum(0))).collect();
    drain(&mut shard);
    let result = measure(clock, COUNT, || {
        for _ in 0..COUNT / 100_000 {
            for addr in &many {
                let _ = shard.send(*addr, 1);
            }
            drain(&mut shard);
        }
    });
    row(
        "local send + handle, over 100,000 actors",
        result,
        "<= 200 ns",
    );

    struct Class;
    impl EntityClass for Class {
        type Msg = u64;
        type Actor = Sum;
        fn activate(&mut self, _: &Name, _: ShardId) -> Sum {
            Sum(0)
        }
    }
    shard.set_class(Class);
    let names: Vec<Name> = (0..100_000)
        .map(|n| format!("u{n}@example.org").into())
        .collect();
    let here = ShardId::new(0);
    let result = measure(clock, COUNT, || {
        for _ in 0..COUNT / 100_000 {
            for name in &names {
                let _ = shard.send_named(here, name, 1u64);
            }
            drain(&mut shard);
        }
    });
    row("send by name + handle, over 100,000 entities", result, "");
}

fn bench_timers(clock: SystemClock) {
    struct Timers;
    impl Actor for Timers {
        type Msg = u64;
        fn handle(&mut self, count: u64, cx: &mut Context<'_, u64>) {
            for n in 0..count {
                let key = cx.send_after(Duration::from_secs(60 + n % 1000), 0);
                cx.cancel(key);
            }
        }
    }
    let mut shard = shards(1, clock).remove(0);
    let addr = shard.spawn(Timers);
    let result = measure(clock, 1_000_000, || {
        for _ in 0..1000 {
            let _ = shard.send(addr, 1000);
            drain(&mut shard);
        }
    });
    row("timer set + cancel", result, "");
}

struct Answerer;

impl Actor for Answerer {
    type Msg = Reply<u64>;

    fn handle(&mut self, reply: Reply<u64>, cx: &mut Context<'_, Reply<u64>>) {
        reply.send(cx, 1);
    }
}

enum AskMsg {
    Go {
        left: u64,
        done: SyncSender<()>,
    },
    Answer {
        left: u64,
        done: SyncSender<()>,
        answer: Result<u64, AskError>,
    },
}

struct Asker {
    to: Addr<Reply<u64>>,
}

impl Asker {
    fn ask(&self, left: u64, done: SyncSender<()>, cx: &mut Context<'_, AskMsg>) {
        let map = move |answer| AskMsg::Answer { left, done, answer };
        cx.ask(self.to, |reply| reply, Duration::from_secs(30), map);
    }
}

impl Actor for Asker {
    type Msg = AskMsg;

    fn handle(&mut self, msg: AskMsg, cx: &mut Context<'_, AskMsg>) {
        match msg {
            AskMsg::Go { left, done } => self.ask(left, done, cx),
            AskMsg::Answer {
                left: 0,
                done,
                answer,
            } => {
                assert_eq!(answer, Ok(1));
                let _ = done.try_send(());
            }
            AskMsg::Answer { left, done, .. } => self.ask(left - 1, done, cx),
        }
    }
}

fn bench_ask(clock: SystemClock) {
    const COUNT: u64 = 200_000;
    let mut shard = shards(1, clock).remove(0);
    let to = shard.spawn(Answerer);
    let asker = shard.spawn(Asker { to });
    let (done, _finished) = sync_channel(100);
    let result = measure(clock, COUNT, || {
        let _ = shard.send(
            asker,
            AskMsg::Go {
                left: COUNT,
                done: done.clone(),
            },
        );
        drain(&mut shard);
    });
    row("request + reply with deadline, same shard", result, "");

    const CROSS: u64 = 20_000;
    let (handle, threads) = start(2, clock);
    let to = spawn_on(&handle, 1, || Answerer);
    let asker = spawn_on(&handle, 0, move || Asker { to });
    let (done, finished) = sync_channel(1);
    let result = measure(clock, CROSS, || {
        let _ = handle.send(
            asker,
            AskMsg::Go {
                left: CROSS,
                done: done.clone(),
            },
        );
        let _ = finished.recv();
    });
    row(
        "request + reply, other shard, one at a time (wakes)",
        result,
        "",
    );
    handle.shut_down();
    threads.join();
}

fn start(shards: u16, clock: SystemClock) -> (Handle, actor::threads::Threads) {
    let (handle, seeds) = system(Options::new(shards, 1));
    let threads = run_threads(seeds, Arc::new(clock), |shard| {
        shard.set_mailbox_max::<Stream>(WINDOW as usize);
    });
    (handle, threads.expect("threads start"))
}

fn spawn_on<A: Actor>(
    handle: &Handle,
    shard: u16,
    make: impl FnOnce() -> A + Send + 'static,
) -> Addr<A::Msg> {
    let (sender, receiver) = sync_channel(1);
    let is_taken = handle.run_on(ShardId::new(shard), move |core| {
        let _ = sender.send(core.spawn(make()));
    });
    assert!(is_taken);
    receiver.recv().expect("the shard runs")
}

enum Stream {
    /// Send so many to the other side.
    Pour(u64),
    Drop {
        n: u64,
        from: Addr<Stream>,
    },
    /// So many more have been handled.
    Ack(u64),
}

/// Pours messages to its peer at another shard within a window, and counts what it receives.
struct Pipe {
    peer: Option<Addr<Stream>>,
    left: u64,
    under_way: u64,
    received: u64,
    done: SyncSender<()>,
}

/// Messages that may be under way.
const WINDOW: u64 = 16_384;
/// Messages that are acknowledged at once.
const ACK: u64 = 1_024;

impl Pipe {
    fn new(peer: Option<Addr<Stream>>, done: &SyncSender<()>) -> Self {
        Pipe {
            peer,
            left: 0,
            under_way: 0,
            received: 0,
            done: done.clone(),
        }
    }

    fn pour(&mut self, cx: &mut Context<'_, Stream>) {
        let (Some(peer), from) = (self.peer, cx.myself()) else {
            return;
        };
        while self.left > 0 && self.under_way < WINDOW {
            if cx.send(peer, Stream::Drop { n: self.left, from }).is_err() {
                break;
            }
            self.left -= 1;
            self.under_way += 1;
        }
        if self.left == 0 && self.under_way == 0 {
            let _ = self.done.try_send(());
        }
    }
}

impl Actor for Pipe {
    type Msg = Stream;

    fn handle(&mut self, msg: Stream, cx: &mut Context<'_, Stream>) {
        match msg {
            Stream::Pour(count) => {
                self.left += count;
                self.pour(cx);
            }
            Stream::Drop { n, from } => {
                black_box(n);
                self.received += 1;
                if self.received.is_multiple_of(ACK) {
                    let _ = cx.send(from, Stream::Ack(ACK));
                }
            }
            Stream::Ack(count) => {
                self.under_way -= count;
                self.pour(cx);
            }
        }
    }
}

fn bench_cross(clock: SystemClock) {
    const COUNT: u64 = 2_000 * ACK;
    let (done, finished) = sync_channel(4);
    // Both ends on one thread: the processor time of both sides together.
    let mut pair = shards(2, clock);
    for shard in &mut pair {
        shard.set_mailbox_max::<Stream>(WINDOW as usize);
    }
    let sink = pair[1].spawn(Pipe::new(None, &done));
    let source = pair[0].spawn(Pipe::new(Some(sink), &done));
    let result = measure(clock, COUNT, || {
        let _ = pair[0].send(source, Stream::Pour(COUNT));
        while finished.try_recv().is_err() {
            for shard in &mut pair {
                shard.turn();
            }
        }
    });
    row("cross-shard send + handle, CPU of both ends", result, "");

    let (handle, threads) = start(2, clock);
    let make = done.clone();
    let sink = spawn_on(&handle, 1, move || Pipe::new(None, &make));
    let make = done;
    let source = spawn_on(&handle, 0, move || Pipe::new(Some(sink), &make));
    let result = measure(clock, COUNT, || {
        let _ = handle.send(source, Stream::Pour(COUNT));
        let _ = finished.recv();
    });
    row(
        "cross-shard send + handle, two threads, one way",
        result,
        ">= 5 million/s",
    );
    handle.shut_down();
    threads.join();
}

/// One actor's mailbox is kept full; others get a message now and then and note how long it waited.
fn bench_fairness(clock: SystemClock) {
    struct Flooded(SystemClock);
    impl Actor for Flooded {
        type Msg = u64;
        fn handle(&mut self, nanos: u64, _: &mut Context<'_, u64>) {
            let until = self.0.now() + Duration::from_nanos(nanos);
            while self.0.now() < until {}
        }
    }
    struct Other(SystemClock, std::rc::Rc<std::cell::RefCell<Histogram>>);
    impl Actor for Other {
        type Msg = Moment;
        fn handle(&mut self, sent: Moment, _: &mut Context<'_, Moment>) {
            let waited = self.0.now().saturating_since(sent);
            self.1.borrow_mut().record(waited.as_nanos() as u64);
        }
    }
    let flood = |nanos: u64| {
        let mut shard = shards(1, clock).remove(0);
        let waits = std::rc::Rc::new(std::cell::RefCell::new(Histogram::new()));
        let flooded = shard.spawn(Flooded(clock));
        let others: Vec<Addr<Moment>> = (0..1000)
            .map(|_| shard.spawn(Other(clock, waits.clone())))
            .collect();
        drain(&mut shard);
        let began = clock.now();
        let mut next = 0;
        while clock.now().saturating_since(began) < Duration::from_secs(1) {
            while shard.send(flooded, nanos).is_ok() {}
            for _ in 0..10 {
                let _ = shard.send(others[next % others.len()], clock.now());
                next += 1;
            }
            shard.turn();
        }
        waits.take()
    };
    for (nanos, what) in [
        (0, "cheap messages"),
        (2_000, "2 us each"),
        (50_000, "50 us each"),
    ] {
        // The round that the rest of the machine disturbed least.
        let waits = (0..ROUNDS)
            .map(|_| flood(nanos))
            .min_by_key(|waits| waits.quantile(0.99));
        let waits = waits.unwrap_or_default();
        let micros = |quantile| waits.quantile(quantile) as f64 / 1e3;
        println!(
            "| {:<52} | {:>8.1} | {:>8.1} | {:>10.1} | {:<14} |",
            format!("others' wait beside a flood of {what}, us"),
            micros(0.5),
            micros(0.99),
            waits.max() as f64 / 1e3,
            "p99 < 1000 us"
        );
    }
}

fn bench_memory(clock: SystemClock) {
    struct Idle([u64; 8]);
    impl Actor for Idle {
        type Msg = u64;
        fn handle(&mut self, msg: u64, _: &mut Context<'_, u64>) {
            self.0[0] += msg;
        }
    }
    struct Class;
    impl EntityClass for Class {
        type Msg = u64;
        type Actor = Idle;
        fn activate(&mut self, _: &Name, _: ShardId) -> Idle {
            Idle([0; 8])
        }
    }
    const COUNT: usize = 200_000;
    let mut shard = shards(1, clock).remove(0);
    shard.set_class(Class);
    let names: Vec<Name> = (0..COUNT)
        .map(|n| format!("user{n}@example.org").into())
        .collect();
    let grown = |region: &Region<'_, System>| {
        let change = region.change();
        (change.bytes_allocated - change.bytes_deallocated) as f64 / COUNT as f64 - 64.0
    };
    let region = Region::new(ALLOCATOR);
    for chunk in names.chunks(100) {
        for _ in chunk {
            let addr = shard.spawn(Idle([0; 8]));
            let _ = shard.send(addr, 1);
        }
        drain(&mut shard);
    }
    let anonymous = grown(&region);
    let region = Region::new(ALLOCATOR);
    for chunk in names.chunks(100) {
        for name in chunk {
            let _ = shard.send_named(ShardId::new(0), name, 1u64);
        }
        drain(&mut shard);
    }
    let named = grown(&region);
    for (what, bytes) in [("idle actor", anonymous), ("idle named entity", named)] {
        let what = format!("bytes per {what} over its own state");
        println!(
            "| {what:<52} | {bytes:>8.1} | {:>8} | {:>10} | {:<14} |",
            "", "", "<= 128"
        );
    }
}

fn main() {
    let clock = SystemClock::new();
    println!(
        "| {:<52} | {:>8} | {:>8} | {:>10} | {:<14} |",
        "nanoseconds per operation", "best", "median", "million/s", "target"
    );
    println!(
        "|{}|{}|{}|{}|{}|",
        "-".repeat(54),
        "-".repeat(10),
        "-".repeat(10),
        "-".repeat(12),
        "-".repeat(16)
    );
    bench_spawn(clock);
    bench_local(clock);
    bench_timers(clock);
    bench_ask(clock);
    bench_cross(clock);
    println!(
        "| {:<52} | {:>8} | {:>8} | {:>10} | {:<14} |",
        "waits", "p50", "p99", "max", "target"
    );
    bench_fairness(clock);
    println!(
        "| {:<52} | {:>8} | {:>8} | {:>10} | {:<14} |",
        "memory", "bytes", "", "", "target"
    );
    bench_memory(clock);
}
