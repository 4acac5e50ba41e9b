//! The bounds of a driver, without an engine: what happens when a stream's task takes nothing, when
//! nobody takes events, and when the engine or the store is silent. `tests/engine` reaches them
//! with real ones.

use std::sync::atomic::AtomicUsize;

use super::*;
use crate::engine::tests::mute::Mute;

/// A driver of one stream, and what its task would take.
fn stopped(commands_max: usize) -> (Driver, mpsc::Receiver<Command>) {
    let (send, commands) = channel(commands_max);
    let (_, events) = sync_channel(1);
    let driver = Driver {
        layout: Layout::new("test", 1).unwrap(),
        store: Store::in_memory(),
        streams: vec![send],
        progress: vec![Shared::default()],
        events: Mutex::new(events),
        door: Arc::default(),
        servers: Arc::default(),
        clock: SystemClock::new(),
        end: watch::channel(()).0,
        threads: Vec::new(),
    };
    (driver, commands)
}

const STREAM: StreamId = StreamId(0);

/// Goal: beyond `commands_max` an append is refused at once, and everything else is told that it
/// was not taken; with room again all goes on.
#[test]
fn commands_are_bounded() {
    let (driver, mut commands) = stopped(2);
    let range = driver.layout().ranges(STREAM)[0];
    let mut taken = [driver.append(range, &[]), driver.append(range, &[])];
    let mut refused = driver.append(range, &[]);
    assert_eq!(refused.try_recv(), Ok(Outcome::Refused(Refused::Busy)));
    assert!(
        taken.iter_mut().all(|one| one.try_recv().is_err()),
        "undecided"
    );
    assert!(!driver.take_over(STREAM, 1));
    assert!(!driver.step_down(STREAM));
    let mut snapshot = driver.snapshot(STREAM);
    assert!(snapshot.try_recv().is_ok_and(|result| result.is_err()));
    assert!(commands.try_recv().is_ok());
    assert!(driver.take_over(STREAM, 1));
    assert!(!driver.take_over(STREAM, 2));
    assert_eq!(
        Options::new(options(), layout(), PathBuf::new()).commands_max,
        4_096
    );
}

/// Goal: events that nobody takes wait up to `events_max`; whoever tells is not held up, and knows
/// of the one that was dropped.
#[test]
fn events_are_bounded() {
    let max = Options::new(options(), layout(), PathBuf::new()).events_max;
    assert_eq!(max, 1_024);
    let (tell, taken) = sync_channel(max);
    let events = Events(tell);
    let told = (0..max + 3).filter(|_| events.tell(Event::Quorum(STREAM, true)));
    assert_eq!(told.count(), max);
    assert!(taken.recv().is_ok());
    assert!(events.tell(Event::Quorum(STREAM, false)));
    drop(taken);
    // At the end nobody is there to take it, and nothing was lost.
    assert!(events.tell(Event::Quorum(STREAM, true)));
}

/// What asks whether the map has a leader, and where the map is.
const ABOUT_MAP: &str = "$JS.API.STREAM.INFO.KV_test-map";

/// A node with a map, whose engine says nothing for so long.
fn start(mute: &Mute, streams: u16, answer_within: Duration) -> Driver {
    let mut engine = engine::Options::new(vec![mute.address()]);
    engine.answer_within = answer_within;
    let layout = Layout::new("test", streams).unwrap();
    let mut options = Options::new(engine, layout, PathBuf::new());
    options.map = Some(MapOptions::default());
    Driver::start(options, author(), &Store::in_memory()).unwrap()
}

fn author() -> Author {
    Author {
        node: "a".to_owned(),
        incarnation: 1,
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let clock = SystemClock::new();
    let started = clock.now();
    while !is_so() {
        let waited = clock.now().saturating_since(started);
        assert!(waited < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Goal: what is asked each second is asked once, as long as there is no answer.
#[test]
fn what_was_asked_is_not_asked_again_before_it_is_answered() {
    let mute = Mute::start();
    let driver = start(&mute, 1, Duration::from_secs(60));
    let about_stream = "$JS.API.STREAM.INFO.test-0";
    until("asked", || {
        mute.asked(about_stream) > 0 && mute.asked(ABOUT_MAP) > 1
    });
    thread::sleep(Duration::from_millis(2_500));
    assert_eq!(mute.asked(about_stream), 1);
    assert_eq!(
        mute.asked(ABOUT_MAP),
        2,
        "for the watch, and for its leader"
    );
    drop(driver);
}

/// Goal: the lease does not wait for streams. Method: each of them holds a thread for as long as
/// the test likes, and the task of the map goes on to ask.
#[test]
fn the_map_is_kept_while_streams_stand_still() {
    let mute = Mute::start();
    let driver = start(&mute, 4, Duration::from_millis(100));
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap();
    let standing = Arc::new(AtomicUsize::new(0));
    for stream in driver.layout().streams() {
        let (gate, standing) = (Arc::clone(&gate), Arc::clone(&standing));
        let hear = Box::new(move |_| {
            standing.fetch_add(1, Ordering::Relaxed);
            drop(lock(&gate));
        });
        let append = Appending {
            range: driver.layout().ranges(stream)[0],
            writer: Writer::NOBODY,
            pieces: Vec::new(),
            hear,
        };
        driver.append_in(Some(1), stream, vec![append]);
    }
    until("all threads of streams stand still", || {
        standing.load(Ordering::Relaxed) == 2
    });
    let before = mute.asked(ABOUT_MAP);
    until("the map is asked for", || {
        mute.asked(ABOUT_MAP) >= before + 3
    });
    drop(closed);
    drop(driver);
}

/// Goal: a stream that waits for the store holds up no thread, while another one has it for long.
#[test]
fn whoever_waits_for_the_store_holds_up_nobody() {
    let mute = Mute::start();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let engine = engine::Options::new(vec![mute.address()]);
    let options = Options::new(engine, layout(), PathBuf::new());
    let engine = runtime.block_on(Engine::connect(&options.engine, layout()));
    let store = Store::in_memory();
    let follower: Writing = Arc::new(tokio::sync::Mutex::new(Follower::new(&store).unwrap()));
    let (commands, taken) = channel(1);
    let (tell, _events) = sync_channel(1);
    let parts = task::Parts {
        stream: STREAM,
        engine: engine.unwrap(),
        store,
        follower: Arc::clone(&follower),
        commands: taken,
        events: Events(tell),
        progress: Shared::default(),
    };
    let task = task::Task::new(&options, author(), parts).unwrap();
    let has_it = follower.blocking_lock();
    let running = runtime.spawn(task.run());
    thread::sleep(Duration::from_millis(200));
    let other = runtime.spawn(async {});
    until("others go on", || other.is_finished());
    assert!(!running.is_finished());
    drop((has_it, commands));
    runtime.block_on(running).unwrap();
}

fn options() -> engine::Options {
    engine::Options::new(Vec::new())
}

fn layout() -> Layout {
    Layout::new("test", 1).unwrap()
}
