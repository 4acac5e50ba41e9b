//! Who answers when, and how many at a time; over real sockets.

use std::io::{Read, Write};
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use std::sync::atomic::{AtomicU8, Ordering};

use super::*;
use crate::pages::Pages;

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

#[test]
fn requests_of_shards_are_answered_each_on_its_own_connection() {
    let (health, figures) = (Health::default(), Figures::new("text/plain; version=0.0.4"));
    let web = start(Vec::new(), &health, pages(&health, &figures)).expect("started");
    let request = |path| {
        let (mut ours, theirs) = StdUnixStream::pair().expect("pair");
        assert!((web.take)(theirs));
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
        if !(web.take)(theirs) {
            break;
        }
        silent.push(ours);
    }
    // As many wait as may; those that the thread took meanwhile make room for as many more.
    assert!(silent.len() >= WAITING_MAX && silent.len() <= CONNECTIONS_MAX + WAITING_MAX + 1);
    drop(silent);
    let (mut ours, mut theirs) = StdUnixStream::pair().expect("pair");
    while !(web.take)(theirs) {
        thread::sleep(Duration::from_millis(10));
        (ours, theirs) = StdUnixStream::pair().expect("pair");
    }
    assert_eq!(ask(&mut ours, "/healthz"), "200 ok");
}
