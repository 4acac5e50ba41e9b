//! The same actors on real threads: shards that wake each other, pools, blocking actors, shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use actor::threads::run_threads;
use actor::{
    Actor, Addr, AskError, BlockingActor, BlockingContext, Context, Handle, Mail, Options, Pool,
    Reason, Reply, ShardId, system,
};
use stdx::time::SystemClock;

const SOON: Duration = Duration::from_secs(60);

fn start(shards: u16) -> (Handle, actor::threads::Threads) {
    let (handle, seeds) = system(Options::new(shards, 1));
    let threads = run_threads(seeds, Arc::new(SystemClock::new()), |_| {}).unwrap();
    (handle, threads)
}

fn spawn_on<A: Actor + Send>(handle: &Handle, shard: ShardId, actor: A) -> Addr<A::Msg> {
    let (sender, receiver) = sync_channel(1);
    assert!(handle.run_on(shard, move |core| sender.send(core.spawn(actor)).unwrap()));
    receiver.recv_timeout(SOON).unwrap()
}

enum Ball {
    Fly {
        left: u32,
        to: Addr<Ball>,
        done: Reply<u32>,
    },
}

struct Player;

impl Actor for Player {
    type Msg = Ball;

    fn handle(&mut self, msg: Ball, cx: &mut Context<'_, Ball>) {
        let Ball::Fly { left, to, done } = msg;
        if left == 0 {
            return done.send(cx, 7);
        }
        let me = cx.myself();
        cx.send(
            to,
            Ball::Fly {
                left: left - 1,
                to: me,
                done,
            },
        )
        .map_err(drop)
        .unwrap();
    }
}

#[test]
fn shards_wake_each_other_and_answers_reach_waiting_threads() {
    let (handle, threads) = start(2);
    let one = spawn_on(&handle, ShardId::new(0), Player);
    let two = spawn_on(&handle, ShardId::new(1), Player);
    let fly = |done| Ball::Fly {
        left: 1000,
        to: two,
        done,
    };
    assert_eq!(handle.ask(one, fly, SOON), Ok(7));
    handle.shut_down();
    threads.join();
    let fly = |done| Ball::Fly {
        left: 0,
        to: two,
        done,
    };
    assert_eq!(handle.ask(one, fly, SOON), Err(AskError::Dropped));
}

#[test]
fn a_shard_that_is_held_up_is_not_turning() {
    let (handle, threads) = start(2);
    let (one, two) = (ShardId::new(0), ShardId::new(1));
    let (free, held) = sync_channel::<()>(1);
    assert!(handle.run_on(two, move |_| held.recv().unwrap()));
    assert!(handle.is_turning(one, SOON));
    assert!(!handle.is_turning(two, Duration::from_millis(20)));
    free.send(()).unwrap();
    assert!(handle.is_turning(two, SOON));
    handle.shut_down();
    threads.join();
    assert!(!handle.is_turning(one, SOON));
}

struct Slow {
    busy: Arc<AtomicU32>,
    total: u32,
    last: Arc<AtomicU32>,
}

enum Work {
    Add(u32),
    Total(Reply<u32>),
    Panic,
}

impl BlockingActor for Slow {
    type Msg = Work;

    fn handle(&mut self, msg: Work, cx: &mut BlockingContext<Work>) {
        assert_eq!(
            self.busy.fetch_add(1, Ordering::SeqCst),
            0,
            "one thread at a time"
        );
        std::thread::sleep(Duration::from_micros(200));
        self.busy.fetch_sub(1, Ordering::SeqCst);
        match msg {
            Work::Add(n) => {
                assert_eq!(n, self.total, "in order");
                self.total += 1;
            }
            Work::Total(reply) => reply.answer(self.total),
            Work::Panic => panic!("told to panic while blocking"),
        }
        assert_eq!(cx.handle().shards(), 1);
    }

    fn stopped(&mut self, _: &Reason) {
        self.last.store(1, Ordering::SeqCst);
    }
}

#[test]
fn blocking_actor_keeps_order_is_bounded_and_is_isolated() {
    let (handle, threads) = start(1);
    let pool = Pool::new("slow", 4, 8).unwrap();
    let last = Arc::new(AtomicU32::new(0));
    let make = |pool: &Pool| {
        let slow = Slow {
            busy: Arc::default(),
            total: 0,
            last: Arc::clone(&last),
        };
        let (pool, (sender, receiver)) = (pool.clone(), sync_channel(1));
        assert!(handle.run_on(ShardId::new(0), move |core| {
            sender.send(core.spawn_blocking(&pool, slow)).unwrap();
        }));
        receiver.recv_timeout(SOON).unwrap()
    };
    let addr: Addr<Work> = make(&pool);
    for n in 0..500 {
        handle.send(addr, Work::Add(n)).map_err(drop).unwrap();
    }
    assert_eq!(handle.ask(addr, Work::Total, SOON), Ok(500));
    // Its mailbox is an ordinary one: a flood from one turn is cut off at the bound.
    let (sender, receiver) = sync_channel(1);
    assert!(handle.run_on(ShardId::new(0), move |core| {
        let taken = (0..5000)
            .take_while(|_| core.send(addr, Work::Panic).is_ok())
            .count();
        sender.send(taken).unwrap();
    }));
    assert_eq!(receiver.recv_timeout(SOON), Ok(actor::limits::MAILBOX_MAX));
    // The first of them panics: the actor is gone, the shard and the pool are not.
    let gone = handle.ask(addr, Work::Total, SOON);
    assert!(
        matches!(gone, Err(AskError::Dropped | AskError::Undeliverable)),
        "{gone:?}"
    );
    let next = make(&pool);
    assert_eq!(handle.ask(next, Work::Total, SOON), Ok(0));
    handle.shut_down();
    threads.join();
    drop(pool);
    for _ in 0..12_000 {
        if last.load(Ordering::SeqCst) == 1 {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the last handler did not run");
}

/// Many jobs on a small pool: refused ones are told at once, all others come back.
#[test]
fn jobs_come_back_or_are_refused() {
    struct Boss {
        pool: Pool,
        back: u32,
        refused: u32,
    }
    enum Msg {
        Go(u32),
        Back,
        Count(Reply<(u32, u32)>),
    }
    impl Actor for Boss {
        type Msg = Msg;
        fn handle(&mut self, msg: Msg, cx: &mut Context<'_, Msg>) {
            match msg {
                Msg::Go(jobs) => {
                    for _ in 0..jobs {
                        let job = || std::thread::sleep(Duration::from_millis(10));
                        if cx.blocking(&self.pool, job, |()| Msg::Back).is_err() {
                            self.refused += 1;
                        }
                    }
                }
                Msg::Back => self.back += 1,
                Msg::Count(reply) => reply.send(cx, (self.back, self.refused)),
            }
        }
    }
    let (handle, threads) = start(2);
    let pool = Pool::new("jobs", 2, 4).unwrap();
    let boss = spawn_on(
        &handle,
        ShardId::new(1),
        Boss {
            pool,
            back: 0,
            refused: 0,
        },
    );
    handle.send(boss, Msg::Go(100)).map_err(drop).unwrap();
    for _ in 0..12_000 {
        let (back, refused) = handle.ask(boss, Msg::Count, SOON).unwrap();
        if back + refused == 100 {
            assert!(refused > 0 && back >= 4);
            handle.shut_down();
            return threads.join();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("jobs were lost");
}
