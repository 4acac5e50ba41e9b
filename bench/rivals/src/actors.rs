//! The actor workloads on `ractor`.
//!
//! Owns one actor type whose state and handler are values, so that a workload is a few closures.
//! Deliberately not here: bounds on mailboxes, which the library does not have.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use fastrand::Rng;
use orbit::credit::Credit;
use orbit::generator::Generators;
use orbit::route::Layout;
use orbit::worker::{Batch, Conf, Effect, Worker};
use ractor::{Actor, ActorProcessingErr, ActorRef, Message};
use tokio::runtime::{Builder, Runtime};

use crate::Args;

/// An actor that is a function over its state.
struct Fun<M, S, F>(F, std::marker::PhantomData<fn(M, S)>);

impl<M, S, F> Actor for Fun<M, S, F>
where
    M: Message,
    S: Send + 'static,
    F: Fn(&ActorRef<M>, M, &mut S) + Send + Sync + 'static,
{
    type Msg = M;
    type State = S;
    type Arguments = S;

    async fn pre_start(&self, _: ActorRef<M>, state: S) -> Result<S, ActorProcessingErr> {
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<M>,
        msg: M,
        state: &mut S,
    ) -> Result<(), ActorProcessingErr> {
        (self.0)(&myself, msg, state);
        Ok(())
    }
}

async fn spawn<M: Message, S: Send + 'static>(
    state: S,
    handler: impl Fn(&ActorRef<M>, M, &mut S) + Send + Sync + 'static,
) -> ActorRef<M> {
    let actor = Fun(handler, std::marker::PhantomData);
    // Invariant: an actor without a name always starts.
    Actor::spawn(None, actor, state).await.expect("it starts").0
}

fn runtime(args: &Args) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(args.threads).enable_time();
    // Invariant: a benchmark without threads has nothing to do.
    builder.build().expect("threads")
}

type Done = SyncSender<u64>;

fn latch(wanted: usize) -> (Done, Receiver<u64>) {
    sync_channel(wanted)
}

fn wait(receiver: &Receiver<u64>, wanted: usize) -> u64 {
    (0..wanted)
        .map(|_| {
            receiver
                .recv_timeout(Duration::from_secs(600))
                // Invariant: a workload that hangs has no figure.
                .expect("in time")
        })
        .sum()
}

fn micros(began: Instant) -> f64 {
    began.elapsed().as_nanos() as f64 / 1e3
}

pub fn run(name: &str, args: &Args) -> Option<f64> {
    let work: fn(&Args) -> f64 = match name {
        "bang" => bang,
        "big" => big,
        "ehb" => ehb,
        "genstress" => genstress,
        "mbrot" => mbrot,
        "orbit" => orbit,
        "parallel" => parallel,
        "ran" => ran,
        "serialmsg" => serialmsg,
        "timer_wheel" => timer_wheel,
        "timers" => timers,
        "cross" => cross,
        "memory" => memory,
        "crash" => crash,
        _ => return None,
    };
    Some(work(args))
}

struct Item;

fn bang(args: &Args) -> f64 {
    let (senders, messages) = (args.number(0), args.number(1));
    let runtime = runtime(args);
    let began = Instant::now();
    let (done, all) = latch(1);
    runtime.block_on(async {
        let receiver = spawn(senders * messages, move |_, Item, left: &mut usize| {
            *left -= 1;
            if *left == 0 {
                let _ = done.try_send(0);
            }
        })
        .await;
        for _ in 0..senders {
            let to = receiver.clone();
            let sender = spawn((), move |_, Item, (): &mut ()| {
                for _ in 0..messages {
                    let _ = to.cast(Item);
                }
            })
            .await;
            let _ = sender.cast(Item);
        }
    });
    wait(&all, 1);
    micros(began)
}

#[derive(Clone)]
enum Ball {
    Go(Arc<[ActorRef<Ball>]>),
    Ping(ActorRef<Ball>),
    Pong,
    TooLate,
}

struct Player {
    left: usize,
    timers: bool,
    timer: Option<tokio::task::AbortHandle>,
    done: Done,
}

/// All to all; with timers, each wait starts one and takes the last one back.
fn all_to_all(args: &Args, count: usize, timers: bool) -> f64 {
    let runtime = runtime(args);
    let began = Instant::now();
    let (done, all) = latch(count);
    runtime.block_on(async {
        let mut players = Vec::new();
        for _ in 0..count {
            let player = Player {
                left: 2 * (count - 1),
                timers,
                timer: None,
                done: done.clone(),
            };
            let handler = |me: &ActorRef<Ball>, msg: Ball, player: &mut Player| {
                match msg {
                    Ball::Go(all) => {
                        for other in all.iter().filter(|other| other.get_id() != me.get_id()) {
                            let _ = other.cast(Ball::Ping(me.clone()));
                        }
                    }
                    Ball::Ping(from) => {
                        player.left -= 1;
                        let _ = from.cast(Ball::Pong);
                    }
                    Ball::Pong => player.left -= 1,
                    Ball::TooLate => {}
                }
                if let Some(timer) = player.timer.take() {
                    timer.abort();
                }
                if player.left == 0 {
                    let _ = player.done.try_send(0);
                } else if player.timers {
                    let timer = me.send_after(Duration::from_secs(1_000), || Ball::TooLate);
                    player.timer = Some(timer.abort_handle());
                }
            };
            players.push(spawn(player, handler).await);
        }
        let all: Arc<[ActorRef<Ball>]> = players.into();
        for player in all.iter() {
            let _ = player.cast(Ball::Go(Arc::clone(&all)));
        }
    });
    wait(&all, count);
    micros(began)
}

fn big(args: &Args) -> f64 {
    all_to_all(args, args.number(0), false)
}

fn timer_wheel(args: &Args) -> f64 {
    all_to_all(args, args.number(0), args.number(1) > 0)
}

enum Hack {
    Begin(Arc<[ActorRef<Hack>]>),
    Data([u64; 12], Option<ActorRef<Hack>>),
    Ack,
}

struct HackSender {
    receivers: Arc<[ActorRef<Hack>]>,
    sent: usize,
    waits: usize,
    loops: usize,
    done: Done,
}

fn ehb(args: &Args) -> f64 {
    const SIDE: usize = 20;
    let (groups, loops) = (args.number(0), args.number(1));
    let runtime = runtime(args);
    let began = Instant::now();
    let (done, all) = latch(groups * SIDE);
    runtime.block_on(async {
        for _ in 0..groups {
            let mut receivers = Vec::new();
            for _ in 0..SIDE {
                let handler = |_: &ActorRef<Hack>, msg: Hack, sum: &mut u64| {
                    if let Hack::Data(payload, ack) = msg {
                        *sum = sum.wrapping_add(payload[11]);
                        if let Some(ack) = ack {
                            let _ = ack.cast(Hack::Ack);
                        }
                    }
                };
                receivers.push(spawn(0, handler).await);
            }
            let receivers: Arc<[ActorRef<Hack>]> = receivers.into();
            for _ in 0..SIDE {
                let state = HackSender {
                    receivers: Arc::new([]),
                    sent: 0,
                    waits: 0,
                    loops,
                    done: done.clone(),
                };
                let sender = spawn(state, hack).await;
                let _ = sender.cast(Hack::Begin(Arc::clone(&receivers)));
            }
        }
    });
    wait(&all, groups * SIDE);
    micros(began)
}

fn hack(me: &ActorRef<Hack>, msg: Hack, state: &mut HackSender) {
    match msg {
        Hack::Begin(receivers) => state.receivers = receivers,
        Hack::Ack => state.waits -= 1,
        Hack::Data(..) => {}
    }
    while state.waits == 0 && state.sent < state.loops {
        state.sent += 1;
        let is_due = state.sent.is_multiple_of(100) || state.sent == state.loops;
        for receiver in state.receivers.iter() {
            let ack = is_due.then(|| me.clone());
            let _ = receiver.cast(Hack::Data([state.sent as u64; 12], ack));
        }
        if is_due {
            state.waits = state.receivers.len();
        }
    }
    if state.waits == 0 && state.sent == state.loops {
        let _ = state.done.try_send(0);
    }
}

struct Question(u64, ractor::RpcReplyPort<u64>);

enum Client {
    Begin(ActorRef<Question>, u64),
    Answer,
}

/// The library has no mailbox in which junk could wait while others are handled: it is left out.
fn genstress(args: &Args) -> f64 {
    let (clients, calls) = (args.number(0), args.number(2));
    let runtime = runtime(args);
    let (done, all) = latch(clients);
    let (server, asking) = runtime.block_on(async {
        let server = spawn(
            (),
            |_: &ActorRef<Question>, Question(n, reply), (): &mut ()| {
                let _ = reply.send(n + 1);
            },
        )
        .await;
        let mut asking = Vec::new();
        for _ in 0..clients {
            let state = (None::<ActorRef<Question>>, 0u64, done.clone());
            let handler =
                |me: &ActorRef<Client>,
                 msg: Client,
                 state: &mut (Option<ActorRef<Question>>, u64, Done)| {
                    match msg {
                        Client::Begin(server, calls) => (state.0, state.1) = (Some(server), calls),
                        Client::Answer => state.1 -= 1,
                    }
                    match &state.0 {
                        Some(server) if state.1 > 0 => {
                            let n = state.1;
                            // Detached: its answer comes as a message.
                            drop(server.call_and_forward(
                                move |reply| Question(n, reply),
                                me,
                                |_| Client::Answer,
                                Some(Duration::from_secs(600)),
                            ));
                        }
                        _ => {
                            let _ = state.2.try_send(0);
                        }
                    }
                };
            asking.push(spawn(state, handler).await);
        }
        (server, asking)
    });
    let began = Instant::now();
    for client in &asking {
        let _ = client.cast(Client::Begin(server.clone(), calls as u64));
    }
    wait(&all, clients);
    micros(began)
}

enum Post {
    Receivers(Arc<[ActorRef<Post>]>),
    Parcel(usize, Arc<[u8]>),
    Go,
}

fn serialmsg(args: &Args) -> f64 {
    let (pairs, messages, bytes) = (args.number(0), args.number(1), args.number(2));
    let runtime = runtime(args);
    let began = Instant::now();
    let (done, all) = latch(pairs);
    runtime.block_on(async {
        let state: Arc<[ActorRef<Post>]> = Arc::new([]);
        let dispatcher = spawn(state, |_, msg, receivers| match msg {
            Post::Receivers(all) => *receivers = all,
            Post::Parcel(to, body) => {
                let _ = receivers[to].cast(Post::Parcel(to, body));
            }
            Post::Go => {}
        })
        .await;
        let mut receivers = Vec::new();
        for _ in 0..pairs {
            let state = (messages, 0u64, done.clone());
            let handler = |_: &ActorRef<Post>, msg: Post, state: &mut (usize, u64, Done)| {
                if let Post::Parcel(_, body) = msg {
                    state.0 -= 1;
                    state.1 += body.len() as u64;
                    if state.0 == 0 {
                        let _ = state.2.try_send(state.1);
                    }
                }
            };
            receivers.push(spawn(state, handler).await);
        }
        let _ = dispatcher.cast(Post::Receivers(receivers.into()));
        let body: Arc<[u8]> = vec![b'x'; bytes].into();
        for number in 0..pairs {
            let (dispatcher, body) = (dispatcher.clone(), Arc::clone(&body));
            let generator = spawn((), move |_, _: Post, (): &mut ()| {
                for _ in 0..messages {
                    let _ = dispatcher.cast(Post::Parcel(number, Arc::clone(&body)));
                }
            })
            .await;
            let _ = generator.cast(Post::Go);
        }
    });
    assert_eq!(wait(&all, pairs), (pairs * messages * bytes) as u64);
    micros(began)
}

/// An actor for each job.
fn each<F>(args: &Args, count: usize, make: impl Fn(usize) -> F) -> (f64, u64)
where
    F: Fn() -> u64 + Send + Sync + 'static,
{
    let runtime = runtime(args);
    let began = Instant::now();
    let (done, all) = latch(count);
    runtime.block_on(async {
        for number in 0..count {
            let job = make(number);
            let actor = spawn(done.clone(), move |_, Item, done: &mut Done| {
                let _ = done.try_send(job());
            })
            .await;
            let _ = actor.cast(Item);
        }
    });
    let sum = wait(&all, count);
    (micros(began), sum)
}

fn escape(re: f64, im: f64) -> u64 {
    let (mut x, mut y, mut n) = (re, im, 0);
    while n < 255 && x * x + y * y <= 4.0 {
        (x, y) = (x * x - y * y + re, 2.0 * x * y + im);
        n += 1;
    }
    n
}

fn mbrot(args: &Args) -> f64 {
    let (workers, side) = (args.number(0), args.number(1));
    let (micros, sum) = each(args, workers, move |number| {
        move || {
            let mut sum = 0;
            for row in (number..side).step_by(workers) {
                let im = 4.0 * row as f64 / side as f64 - 2.0;
                for column in 0..side {
                    sum += escape(4.0 * column as f64 / side as f64 - 2.0, im);
                }
            }
            sum
        }
    });
    std::hint::black_box(sum);
    micros
}

fn parallel(args: &Args) -> f64 {
    let stamps = args.number(1);
    let began = Instant::now();
    let make = move |_| {
        move || {
            let list: Vec<u64> = (0..stamps)
                .map(|_| began.elapsed().as_nanos() as u64)
                .collect();
            u64::from(list.is_sorted())
        }
    };
    each(args, args.number(0), make).0
}

fn ran(args: &Args) -> f64 {
    let numbers = args.number(1);
    let make = move |number| {
        move || {
            let mut rng = Rng::with_seed(number as u64);
            let mut list: Vec<u64> = (0..numbers).map(|_| rng.u64(..)).collect();
            list.sort_unstable();
            u64::from(list.is_sorted())
        }
    };
    each(args, args.number(0), make).0
}

fn timers(args: &Args) -> f64 {
    let (actors, timers) = (args.number(0), args.number(1));
    let runtime = runtime(args);
    let began = Instant::now();
    let (done, all) = latch(actors);
    runtime.block_on(async {
        for _ in 0..actors {
            let state = (timers, done.clone());
            let handler = |me: &ActorRef<Item>, Item, state: &mut (usize, Done)| {
                let count = state.0.min(1_000);
                let later = Duration::from_secs(1_000);
                let set: Vec<_> = (0..count).map(|_| me.send_after(later, || Item)).collect();
                set.iter().for_each(|timer| timer.abort());
                state.0 -= count;
                if state.0 == 0 {
                    let _ = state.1.try_send(0);
                } else {
                    let _ = me.cast(Item);
                }
            };
            let actor = spawn(state, handler).await;
            let _ = actor.cast(Item);
        }
    });
    wait(&all, actors);
    (actors * timers) as f64 / micros(began) * 1e6
}

enum Rally {
    Serve(ActorRef<Rally>, usize),
    Ball,
}

fn cross(args: &Args) -> f64 {
    let (pairs, messages, window) = (args.number(0), args.number(1), args.number(2));
    let runtime = runtime(args);
    let (done, all) = latch(pairs);
    let players = runtime.block_on(async {
        let mut players = Vec::new();
        for _ in 0..pairs {
            let mut two = Vec::new();
            for left in [messages, usize::MAX] {
                let state = (None::<ActorRef<Rally>>, left, done.clone());
                let handler =
                    |_: &ActorRef<Rally>,
                     msg: Rally,
                     state: &mut (Option<ActorRef<Rally>>, usize, Done)| {
                        let serves = match msg {
                            Rally::Serve(partner, serves) => {
                                state.0 = Some(partner);
                                serves
                            }
                            Rally::Ball => {
                                state.1 = state.1.saturating_sub(1);
                                if state.1 == 0 {
                                    let _ = state.2.try_send(0);
                                    return;
                                }
                                1
                            }
                        };
                        if let Some(partner) = &state.0 {
                            for _ in 0..serves {
                                let _ = partner.cast(Rally::Ball);
                            }
                        }
                    };
                two.push(spawn(state, handler).await);
            }
            let _ = two[1].cast(Rally::Serve(two[0].clone(), 0));
            players.push(two);
        }
        players
    });
    let began = Instant::now();
    for two in &players {
        let _ = two[0].cast(Rally::Serve(two[1].clone(), window));
    }
    wait(&all, pairs);
    (2 * pairs * messages) as f64 / micros(began) * 1e6
}

fn memory(args: &Args) -> f64 {
    let count = args.number(0);
    let runtime = runtime(args);
    let (done, all) = latch(count);
    let idle = runtime.block_on(async {
        let mut idle = Vec::with_capacity(count);
        for _ in 0..count {
            let done = done.clone();
            let handler = move |_: &ActorRef<Item>, Item, state: &mut [u64; 2]| {
                state[0] += 1;
                let _ = done.try_send(0);
            };
            let actor = spawn([0u64; 2], handler).await;
            let _ = actor.cast(Item);
            idle.push(actor);
        }
        idle
    });
    wait(&all, count);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    drop(idle);
    kilobytes.unwrap_or_default() * 1024.0
}

/// Panics when it is told to, and answers otherwise.
enum Fragile {
    Crash,
    Answer(ractor::RpcReplyPort<u64>),
}

struct Guard;

/// Starts its child again whenever it fails, under the same name.
impl Actor for Guard {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, me: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        child(&me).await;
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<()>,
        event: ractor::SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        if let ractor::SupervisionEvent::ActorFailed(..) = event {
            child(&me).await;
        }
        Ok(())
    }
}

async fn child(guard: &ActorRef<()>) {
    let handler = |_: &ActorRef<Fragile>, msg: Fragile, (): &mut ()| match msg {
        Fragile::Crash => panic!("as told"),
        Fragile::Answer(reply) => {
            let _ = reply.send(1);
        }
    };
    // The guard hears of the end before the name is free.
    loop {
        let actor = Fun(handler, std::marker::PhantomData);
        let name = Some("fragile".into());
        match Actor::spawn_linked(name, actor, (), guard.get_cell()).await {
            Ok(_) => return,
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

fn crash(args: &Args) -> f64 {
    std::panic::set_hook(Box::new(|_| {}));
    let runtime = runtime(args);
    let mut times = runtime.block_on(async {
        // Invariant: an actor without a name always starts.
        let guard = Actor::spawn(None, Guard, ()).await.expect("it starts");
        let mut times = Vec::new();
        let find = || ActorRef::<Fragile>::where_is("fragile".into());
        for _ in 0..args.number(0) {
            // Invariant: the guard starts it before it starts itself.
            let before = find().expect("it is there");
            let began = Instant::now();
            let _ = before.cast(Fragile::Crash);
            // Asked until its successor answers.
            loop {
                let after = find().filter(|after| after.get_id() != before.get_id());
                match after {
                    Some(after) if after.call(Fragile::Answer, None).await.is_ok() => break,
                    _ => tokio::task::yield_now().await,
                }
            }
            times.push(micros(began));
        }
        drop(guard);
        times
    });
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

// ---- The orbit: the same machine as on the runtime of this repository

enum Way {
    Peers(Arc<[ActorRef<Way>]>, ActorRef<Home>),
    Batch(Batch),
    Taken(u32),
    Returned,
    Work,
}

enum Home {
    Peers(Arc<[ActorRef<Way>]>),
    Return(u32, Credit),
}

struct WorkerState {
    machine: Worker,
    me: u32,
    peers: Arc<[ActorRef<Way>]>,
    home: Option<ActorRef<Home>>,
    is_working: bool,
}

fn step(actor: &ActorRef<Way>, msg: Way, state: &mut WorkerState) {
    match msg {
        Way::Peers(peers, home) => {
            (state.peers, state.home) = (peers, Some(home));
            return;
        }
        Way::Batch(batch) => state.machine.handle_batch(batch),
        Way::Taken(by) => state.machine.handle_taken(by),
        Way::Returned => state.machine.handle_returned(),
        Way::Work => state.is_working = false,
    }
    if state.machine.work() && !state.is_working {
        state.is_working = true;
        let _ = actor.cast(Way::Work);
    }
    state.machine.return_credit();
    for effect in state.machine.take_effects() {
        let _ = match effect {
            Effect::Send(to, batch) => state.peers[to as usize].cast(Way::Batch(batch)),
            Effect::Taken(from) => state.peers[from as usize].cast(Way::Taken(state.me)),
            Effect::Return(credit) => {
                if let Some(home) = &state.home {
                    let _ = home.cast(Home::Return(state.me, credit));
                }
                Ok(())
            }
        };
    }
}

fn orbit(args: &Args) -> f64 {
    let (set, size, workers) = (args.number(0), args.number(1), args.number(2) as u32);
    // Invariant: the suite names sets that are there.
    let generators: Generators = format!("g{set}").parse().expect("a set of generators");
    let conf = Conf::new(generators, size as u32);
    let layout = Layout::new(&[workers]);
    let runtime = runtime(args);
    let began = Instant::now();
    let (done, all) = latch(1);
    runtime.block_on(async {
        let mut credit = Credit::whole();
        let first = credit.split().unwrap_or_default();
        let state = (credit, Arc::new([]) as Arc<[ActorRef<Way>]>, done);
        let home = spawn(state, |_, msg, state| match msg {
            Home::Peers(peers) => state.1 = peers,
            Home::Return(worker, credit) => {
                state.0.add_all(credit);
                let _ = state.1[worker as usize].cast(Way::Returned);
                if state.0.is_whole() {
                    let _ = state.2.try_send(0);
                }
            }
        })
        .await;
        let mut peers = Vec::new();
        for me in 0..workers {
            let state = WorkerState {
                machine: Worker::new(conf.clone(), layout.clone(), me),
                me,
                peers: Arc::new([]),
                home: None,
                is_working: false,
            };
            peers.push(spawn(state, step).await);
        }
        let peers: Arc<[ActorRef<Way>]> = peers.into();
        let _ = home.cast(Home::Peers(Arc::clone(&peers)));
        for peer in peers.iter() {
            let _ = peer.cast(Way::Peers(Arc::clone(&peers), home.clone()));
        }
        let batch = Batch {
            from: None,
            vertices: vec![0],
            credit: first,
        };
        let _ = peers[layout.owner(0) as usize].cast(Way::Batch(batch));
    });
    wait(&all, 1);
    micros(began)
}
