//! Tests of what the engine's client does without an answer, and of what answers mean.

pub(crate) mod mute;

use mute::Mute;
use stdx::{Clock as _, Moment, SystemClock};

use super::*;

/// A connection to it, and how long it waits for an answer.
fn connect(mute: &Mute, answer_within: Duration) -> (tokio::runtime::Runtime, Engine) {
    connect_to(Options {
        answer_within,
        ..Options::new(vec![mute.address()])
    })
}

fn connect_to(options: Options) -> (tokio::runtime::Runtime, Engine) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let layout = Layout::new("test", 1).unwrap();
    let engine = runtime.block_on(Engine::connect(&options, layout));
    (runtime, engine.unwrap())
}

/// Goal: without a connection nobody waits for an answer, and nothing that was asked is kept to
/// be asked later.
#[test]
fn nothing_is_asked_without_a_connection() {
    const LONG: Duration = Duration::from_secs(20);
    let mute = Mute::start();
    let (runtime, engine) = connect(&mute, LONG);
    mute.cut();
    let clock = SystemClock::new();
    let cut = clock.now();
    while engine.client.connection_state() == State::Connected {
        assert!(clock.now().saturating_since(cut) < LONG);
        std::thread::sleep(Duration::from_millis(5));
    }
    let asked = clock.now();
    runtime.block_on(async {
        assert_eq!(engine.bounds(StreamId(0)).await, None);
        assert_eq!(engine.leader(StreamId(0)).await, None);
        assert_eq!(engine.map_leader().await, None);
        assert_eq!(engine.read(StreamId(0), 1).await, Found::Silence);
        assert!(engine.purge(StreamId(0), 1).await.is_err());
        assert!(engine.messages(StreamId(0), 1).await.is_err());
        assert!(engine.snapshots(StreamId(0)).await.is_err());
        let map = engine.map().await;
        assert!(matches!(map, Err(EngineError::Silent { .. })));
    });
    assert!(clock.now().saturating_since(asked) < LONG / 2);
}

/// Goal: what is asked has a bound of its own, and not that of the engine's client alone, which
/// does not count while the client has no room for a request.
#[test]
fn what_is_asked_is_not_waited_for_without_an_end() {
    let mute = Mute::start();
    let (runtime, engine) = connect(&mute, Duration::from_millis(100));
    let never = engine.ask(Duration::from_millis(10), std::future::pending::<()>());
    assert_eq!(runtime.block_on(never), None);
    let bounds = engine.bounds(StreamId(0));
    assert_eq!(runtime.block_on(bounds), None);
    assert_eq!(mute.asked("$JS.API.STREAM.INFO.test-0"), 1);
}

/// Goal: a node begins with the server next to it, with another one if that is away, and goes on
/// with another one if it goes.
#[test]
fn a_node_begins_with_the_server_next_to_it() {
    let next_to = |servers: Vec<String>| {
        connect_to(Options {
            near: Some("m".to_owned()),
            ..Options::new(servers)
        })
    };
    // Without that, each begins with any of them.
    for _ in 0..10 {
        let (near, other) = (Mute::start(), Mute::start());
        let connected = next_to(vec![near.address(), other.address()]);
        assert_eq!((near.connections(), other.connections()), (1, 0));
        near.cut();
        let clock = SystemClock::new();
        while other.connections() == 0 {
            assert!(clock.now().saturating_since(Moment::ZERO) < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(connected);
    }
    let (away, other) = (std::net::TcpListener::bind("127.0.0.1:0"), Mute::start());
    let away = away.unwrap().local_addr().unwrap();
    let connected = next_to(vec![format!("nats://{away}"), other.address()]);
    assert_eq!(other.connections(), 1);
    drop(connected);
}

/// Goal: a publish waits for so long for a leader that does not come, however long an answer may
/// take, and then leaves.
#[test]
fn a_leader_that_does_not_come_is_waited_for_so_long() {
    const LONG: Duration = Duration::from_secs(20);
    let mute = Mute::start();
    let (runtime, engine) = connect(&mute, LONG);
    let clock = SystemClock::new();
    let asked = clock.now();
    assert!(!runtime.block_on(engine.lead(StreamId(0), "n1")));
    let waited = clock.now().saturating_since(asked);
    assert!(
        waited >= leader::LED_WITHIN && waited < LONG / 2,
        "{waited:?}"
    );
    assert_eq!(mute.asked("$JS.API.STREAM.LEADER.STEPDOWN.test-0"), 1);
}

#[test]
fn replies_mean_what_was_measured() {
    let stored = br#"{"stream":"s","seq":12,"duplicate":true}"#;
    assert_eq!(answer(stored), Answer::Stored(12));
    let error = |code: u32, err: u32| {
        let text = format!(r#"{{"error":{{"code":{code},"err_code":{err}}}}}"#);
        answer(text.as_bytes())
    };
    assert_eq!(error(400, 10_071), Answer::WrongSequence);
    assert_eq!(error(409, 10_158), Answer::Silence);
    assert_eq!(error(503, 10_008), Answer::Silence);
    assert!(matches!(error(400, 10_054), Answer::Refused(_)));
    assert_eq!(answer(b"nonsense"), Answer::Silence);
    assert_eq!(answer(b"{}"), Answer::Silence);
}
