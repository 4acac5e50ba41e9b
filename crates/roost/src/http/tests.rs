//! Who answers when, and how many at a time; over real sockets.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::atomic::{AtomicU8, Ordering};

use super::*;
use crate::pages::Pages;

/// Where the clients of shards are.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn ask(socket: &mut (impl Read + Write), path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).expect("write");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("read");
    let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
    let body = answer.rsplit("\r\n").next().unwrap_or_default().trim();
    format!("{status} {body}")
}

fn pages(health: &Health, figures: &Figures) -> Router {
    pages::router(Pages {
        health: health.clone(),
        figures: figures.clone(),
        url: None,
        websocket: true,
        bosh: true,
        client: None,
        domain: "localhost".to_owned(),
    })
}

#[test]
fn the_port_says_how_the_server_is_until_its_shards_accept() {
    let (health, figures) = (Health::default(), Figures::new("text/plain"));
    let socket = StdListener::bind("127.0.0.1:0").expect("bind");
    socket.set_nonblocking(true).expect("option");
    let address = socket.local_addr().expect("address");
    let shard = socket.try_clone().expect("the shard's");
    start(vec![socket], &health, pages(&health, &figures)).expect("started");
    let request = |path| ask(&mut StdStream::connect(address).expect("connect"), path);
    let expected = [
        (Stage::Starting, "200 ok", "503 starting"),
        (Stage::Draining, "200 ok", "503 draining"),
        (Stage::Broken, "503 broken", "503 broken"),
    ];
    for (stage, healthz, readyz) in expected {
        health.set(stage);
        assert_eq!(request("/healthz"), healthz);
        assert_eq!(request("/readyz"), readyz);
        assert!(request("/xmpp-websocket").starts_with("503"), "{stage:?}");
    }
    health.set(Stage::Ready);
    shard.set_nonblocking(true).expect("option");
    // The thread may have one accept under way when it hears of it; those behind are the shard's.
    for _ in 0..600 {
        let _client = StdStream::connect(address).expect("connect");
        thread::sleep(Duration::from_millis(50));
        if shard.accept().is_ok() {
            return;
        }
    }
    panic!("the shard never gets a connection");
}

/// Goal: what is asked besides counts once the server takes clients, and not before or after.
#[test]
fn a_cluster_has_a_say_in_readiness() {
    let health = Health::default();
    let is_good = Arc::new(AtomicU8::new(0));
    let asked = Arc::clone(&is_good);
    health.set_check(move || match asked.load(Ordering::Relaxed) {
        0 => Err("no lease".to_owned()),
        _ => Ok(()),
    });
    assert_eq!(health.ready(), Err("starting".to_owned()));
    health.set(Stage::Ready);
    assert_eq!(health.ready(), Err("no lease".to_owned()));
    is_good.store(1, Ordering::Relaxed);
    assert_eq!(health.ready(), Ok(()));
    health.set(Stage::Draining);
    assert_eq!(health.ready(), Err("draining".to_owned()));
}

#[test]
fn requests_of_shards_are_answered_each_on_its_own_connection() {
    let (health, figures) = (Health::default(), Figures::new("text/plain; version=0.0.4"));
    let web = start(Vec::new(), &health, pages(&health, &figures)).expect("started");
    let request = |path| {
        let (mut ours, theirs) = StdUnixStream::pair().expect("pair");
        assert!((web.take)(theirs, CLIENT));
        ask(&mut ours, path)
    };
    health.set(Stage::Ready);
    assert_eq!(request("/readyz"), "200 ready");
    assert!(request("/etc/passwd").starts_with("404"));
    assert_eq!(request("/metrics"), "503 starting");
    let count = AtomicU8::new(0);
    figures.set(Box::new(move || {
        format!("made {}\n", count.fetch_add(1, Ordering::Relaxed))
    }));
    assert_eq!(request("/metrics"), "200 made 0");
    thread::sleep(FIGURES_AGE_MAX);
    assert_eq!(request("/metrics"), "200 made 1");
    let (one, two) = (figures.page(), figures.page());
    let is_same = one.zip(two).is_some_and(|(a, b)| Arc::ptr_eq(&a, &b));
    assert!(is_same || figures.clock.now() > Moment::ZERO + FIGURES_AGE_MAX);
}

#[test]
fn connections_beyond_the_bound_wait_and_then_are_refused() {
    let (health, figures) = (Health::default(), Figures::new("text/plain"));
    let web = start(Vec::new(), &health, pages(&health, &figures)).expect("started");
    let mut silent = Vec::new();
    while silent.len() < 10 * (CONNECTIONS_MAX + WAITING_MAX) {
        let (ours, theirs) = StdUnixStream::pair().expect("pair");
        if !(web.take)(theirs, CLIENT) {
            break;
        }
        silent.push(ours);
    }
    // As many wait as may; those that the thread took meanwhile make room for as many more.
    let most = 10 * (CONNECTIONS_MAX + WAITING_MAX);
    assert!(silent.len() >= WAITING_MAX && silent.len() < most);
    drop(silent);
    let (mut ours, mut theirs) = StdUnixStream::pair().expect("pair");
    while !(web.take)(theirs, CLIENT) {
        thread::sleep(Duration::from_millis(10));
        (ours, theirs) = StdUnixStream::pair().expect("pair");
    }
    assert_eq!(ask(&mut ours, "/healthz"), "200 ok");
}

/// 200 clients that never finish their request, as found in the wild, and one that does.
#[test]
fn slow_connections_are_in_nobodys_way() {
    let (health, figures) = (Health::default(), Figures::new("text/plain"));
    let socket = StdListener::bind("127.0.0.1:0").expect("bind");
    socket.set_nonblocking(true).expect("option");
    let address = socket.local_addr().expect("address");
    start(vec![socket], &health, pages(&health, &figures)).expect("started");
    let slow: Vec<StdStream> = (0..200)
        .map(|_| {
            let mut slow = StdStream::connect(address).expect("connect");
            slow.write_all(b"GET /healthz HTTP/1.1\r\nHost:")
                .expect("write");
            slow
        })
        .collect();
    for _ in 0..3 {
        let mut socket = StdStream::connect(address).expect("connect");
        assert_eq!(ask(&mut socket, "/healthz"), "200 ok");
    }
    let mut closed = 0;
    for mut slow in slow {
        slow.set_read_timeout(Some(Duration::from_millis(1)))
            .expect("timeout");
        closed += usize::from(!waits(&mut slow));
    }
    assert!(closed >= 200 - CONNECTIONS_MAX, "{closed} were closed");
}

fn waits(socket: &mut impl Read) -> bool {
    socket.read(&mut [0]).is_err_and(|error| {
        matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        )
    })
}

/// The same behind shards: those that are slow give way once they have had their time.
#[test]
fn slow_requests_of_shards_give_way() {
    let (health, figures) = (Health::default(), Figures::new("text/plain"));
    let web = start(Vec::new(), &health, pages(&health, &figures)).expect("started");
    let mut slow = Vec::new();
    for _ in 0..2 * CONNECTIONS_MAX {
        let (ours, theirs) = StdUnixStream::pair().expect("pair");
        assert!((web.take)(theirs, CLIENT));
        slow.push(ours);
    }
    let (mut ours, theirs) = StdUnixStream::pair().expect("pair");
    assert!((web.take)(theirs, IpAddr::from([192, 0, 2, 1])));
    assert_eq!(ask(&mut ours, "/healthz"), "200 ok");
    let first = slow.iter_mut().take(CONNECTIONS_MAX);
    let closed = first.map(|slow| {
        slow.set_nonblocking(true).expect("option");
        usize::from(!waits(slow))
    });
    assert_eq!(closed.sum::<usize>(), CONNECTIONS_MAX);
}

#[test]
fn the_oldest_of_who_has_the_most_gives_its_place_up() {
    let mut places = Places::default();
    let address = |n: u8| IpAddr::from([192, 0, 2, n]);
    let start = Instant::now();
    let take = |places: &mut Places, n| places.take(address(n), UNDISTURBED, start);
    let mut of_one = take(&mut places, 1).expect("a place");
    let mut of_many: Vec<_> = (1..CONNECTIONS_MAX)
        .map(|_| take(&mut places, 2).expect("a place"))
        .collect();
    assert!(take(&mut places, 3).is_none(), "all have just begun");
    let late = places.take(address(3), UNDISTURBED, start + UNDISTURBED);
    let mut late = late.expect("the oldest had its time");
    assert!(of_many[0].try_recv().is_ok(), "the oldest");
    of_many.remove(0);
    for place in of_many.iter_mut().chain([&mut of_one, &mut late]) {
        assert!(place.try_recv().is_err(), "nobody else");
    }
    assert_eq!(places.0.len(), CONNECTIONS_MAX);
    of_many.clear();
    assert!(take(&mut places, 2).is_some());
    assert_eq!(places.0.len(), 3, "those that ended are forgotten");
}
