//! The bounds of links, each of them reached.

use std::io::{Read as _, Write as _};
use std::net::TcpStream as StdStream;

use super::*;
use crate::link::frame::{Frame, Hello, Welcome};
use crate::link::receiver::{SENDERS_MAX, begin};

const SHORT: Duration = Duration::from_millis(200);

fn hello(from: &str) -> Hello {
    Hello {
        version_min: 1,
        version: 1,
        deployment: "test".to_owned(),
        from: from.to_owned(),
        incarnation: 1,
        session: 1,
        to: "b".to_owned(),
    }
}

fn write(stream: &mut StdStream, frame: &Frame) -> io::Result<()> {
    let mut bytes = Vec::new();
    frame.write(&mut bytes);
    stream.write_all(&bytes)
}

/// The next frame's bytes; `None` once the connection has ended.
fn read(stream: &mut StdStream) -> Option<Frame> {
    let mut bytes = vec![0; 4];
    stream.read_exact(&mut bytes).ok()?;
    let length = u32::from_le_bytes(bytes[..].try_into().unwrap());
    bytes.resize(4 + length as usize, 0);
    stream.read_exact(&mut bytes[4..]).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let mut from = &bytes[..];
    Some(runtime.unwrap().block_on(frame::read(&mut from)).unwrap())
}

/// A sender that does what a test says: it has introduced itself at a node.
fn introduced(to: &Node, from: &str) -> StdStream {
    let mut stream = StdStream::connect(to.address).unwrap();
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).unwrap();
    stream.set_write_timeout(patience).unwrap();
    write(&mut stream, &Frame::Hello(hello(from))).unwrap();
    assert!(matches!(read(&mut stream), Some(Frame::Welcome(_))));
    stream
}

fn place(address: SocketAddr) -> BTreeMap<String, Where> {
    let place = Where {
        incarnation: 1,
        address: address.to_string(),
    };
    [("b".to_owned(), place)].into()
}

/// The map of a node has one that is `introduced`.
fn knows_a(node: &Node, address: SocketAddr) {
    let place = Where {
        incarnation: 1,
        address: address.to_string(),
    };
    node.links.set_peers(&[("a".to_owned(), place)].into());
}

fn expect_error(node: &Node, expected: &str) {
    until(expected, || {
        let error = node.links.status()[0].last_error.clone();
        error.is_some_and(|error| error.contains(expected))
    });
}

/// Goal: a peer whose kernel takes connections and that never answers is given up in time.
#[test]
fn a_peer_that_does_not_answer_is_given_up() {
    let silent = StdListener::bind("127.0.0.1:0").unwrap();
    let a = node_with("a", 1, &idle(), |options| options.connect_within = SHORT);
    let started = Instant::now();
    a.links.set_peers(&place(silent.local_addr().unwrap()));
    expect_error(&a, "does not answer within 200ms");
    assert!(started.elapsed() >= SHORT);
}

/// What a node answers to somebody who speaks these versions.
fn answer_to(to: &Node, version_min: u32, version: u32) -> Frame {
    let mut stream = StdStream::connect(to.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let hello = Hello {
        version_min,
        version,
        ..hello("a")
    };
    write(&mut stream, &Frame::Hello(hello)).unwrap();
    read(&mut stream).unwrap()
}

/// Goal: the newest version that both speak is spoken. Without one the newer node and the older one
/// are refused alike, with what to do.
#[test]
fn two_versions_of_links_speak_what_both_know() {
    let b = node("b", 1, &idle());
    let newest = frame::VERSION;
    for (version_min, version, agreed) in [(1, 1, 1), (1, newest, newest), (0, 9, newest)] {
        let Frame::Welcome(welcome) = answer_to(&b, version_min, version) else {
            panic!("{version_min} to {version} were refused");
        };
        assert_eq!(welcome.version, agreed);
    }
    for (version_min, version) in [(newest + 1, newest + 2), (0, 0)] {
        let Frame::Refused(why) = answer_to(&b, version_min, version) else {
            panic!("{version_min} to {version} were not refused");
        };
        let said = format!("a speaks versions {version_min} to {version} of links");
        assert!(
            why.contains(&said) && why.contains("upgrade the older one"),
            "{why}"
        );
    }
    // Somebody who answers in what was not offered.
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let a = node("a", 1, &idle());
    a.links.set_peers(&place(listener.local_addr().unwrap()));
    let (mut stream, _) = listener.accept().unwrap();
    assert!(matches!(read(&mut stream), Some(Frame::Hello(_))));
    let welcome = Welcome {
        version: newest + 1,
        incarnation: 1,
        received: 0,
    };
    write(&mut stream, &Frame::Welcome(welcome)).unwrap();
    expect_error(
        &a,
        &format!("it answers in version {} of links", newest + 1),
    );
}

/// Goal: a packet that nobody here has goes back although the connection ended before its sender
/// heard so: it is asked for again, and one of which the sender has heard is settled. A sender of a
/// version that does not know this is asked for nothing.
#[test]
fn a_packet_goes_back_although_its_connection_ended() {
    let b = node("b", 1, &idle());
    let address = free_address();
    knows_a(&b, address);
    let begin = |version: u32| {
        let mut stream = StdStream::connect(b.address).unwrap();
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).unwrap();
        let hello = Hello {
            version,
            ..hello("a")
        };
        write(&mut stream, &Frame::Hello(hello)).unwrap();
        match read(&mut stream) {
            Some(Frame::Welcome(welcome)) => (stream, welcome.received),
            other => panic!("{other:?}"),
        }
    };
    let send = |stream: &mut StdStream, position: u64, packet: &[u8]| {
        write(stream, &Frame::Packet(position, packet.to_vec())).unwrap();
    };
    let (mut first, received) = begin(2);
    assert_eq!(received, 0);
    for (position, packet) in [(1, b"p"), (2, b"m"), (3, b"m"), (4, b"p")] {
        send(&mut first, position, packet);
    }
    until("all have come", || lock(&b.heard).len() == 2);
    drop(first);
    assert_eq!(begin(1).1, 4);
    let (mut second, received) = begin(2);
    assert_eq!(received, 1);
    // It has heard of the second, and not of the third.
    for (position, packet) in [(2, &b""[..]), (3, b"m"), (4, b"p")] {
        send(&mut second, position, packet);
    }
    let mut back = Vec::new();
    let mut acknowledged = 0;
    while acknowledged < 4 {
        match read(&mut second).unwrap() {
            Frame::Moved(position, _) => back.push(position),
            Frame::Acknowledged(settled) => acknowledged = settled,
            other => panic!("{other:?}"),
        }
        assert!(acknowledged <= 2 || back == [3], "in front of that");
    }
    assert_eq!(back, [3]);
    assert_eq!(lock(&b.heard).len(), 2, "nothing is taken twice");
    drop(second);
    assert_eq!(begin(2).1, 2);
}

/// A peer that says welcome and takes what comes; it acknowledges from its third connection on.
fn forgetful(listener: StdListener) -> Arc<Mutex<Vec<u64>>> {
    acknowledges_from(3, listener)
}

/// The same, from a connection on.
fn acknowledges_from(first: u32, listener: StdListener) -> Arc<Mutex<Vec<u64>>> {
    let seen = Arc::<Mutex<Vec<u64>>>::default();
    let positions = Arc::clone(&seen);
    thread::spawn(move || {
        for connection in 1u32.. {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = read(&mut stream);
            let welcome = Welcome {
                version: 1,
                incarnation: 1,
                received: 0,
            };
            write(&mut stream, &Frame::Welcome(welcome)).unwrap();
            while let Some(frame) = read(&mut stream) {
                if let Frame::Packet(position, _) = frame {
                    lock(&positions).push(position);
                }
                let last = lock(&positions).last().copied().unwrap_or_default();
                if connection >= first && write(&mut stream, &Frame::Acknowledged(last)).is_err() {
                    break;
                }
            }
        }
    });
    seen
}

/// Goal: a peer that says nothing is given up after so many ticks, and for how long it was silent
/// is known; what it did not acknowledge is sent again, with its positions, and counted.
#[test]
fn a_silent_peer_is_given_up_and_gets_everything_again() {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = forgetful(listener);
    let a = node_with("a", 1, &idle(), |options| {
        options.tick = Duration::from_millis(50);
        options.silent_ticks_max = 4;
    });
    a.links.set_peers(&place(address));
    let to_b = a.links.peer("b");
    for n in 0..3 {
        a.links.send(to_b, vec![n]).unwrap();
    }
    expect_error(&a, "it said nothing for 200ms");
    until("its silence is known", || {
        let link = &a.links.status()[0];
        !link.is_connected && link.silent == Duration::from_millis(200)
    });
    until("taken", || a.links.status()[0].packets == 0);
    assert_eq!(*lock(&seen), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
    let status = &a.links.status()[0];
    assert_eq!(
        (status.sent_again, status.connections, status.taken),
        (6, 3, 3)
    );
}

/// Goal: a sender that falls silent loses its connection, and one that does not read what it is
/// told likewise; both in time.
#[test]
fn senders_that_hang_lose_their_connection() {
    let b = node_with("b", 1, &idle(), |options| {
        options.silence_max = SHORT;
        options.write_within = SHORT;
    });
    knows_a(&b, free_address());
    // It is silent from its introduction on, which this thread may hear of late.
    let started = Instant::now();
    let mut silent = introduced(&b, "a");
    assert_eq!(read(&mut silent), None);
    assert!(started.elapsed() >= SHORT);
    let mut deaf = introduced(&b, "a");
    let sent = (1..=1_000).take_while(|position| {
        // Each is answered with a megabyte.
        let packet = Frame::Packet(*position, b"L".to_vec());
        thread::sleep(Duration::from_millis(2));
        write(&mut deaf, &packet).is_ok()
    });
    let sent = sent.count();
    assert!(sent < 1_000, "it could write on and on");
}

/// Goal: who sends what cannot be delivered, for nobody knows it, loses its connection in time, and
/// not its packet.
#[test]
fn who_is_never_known_loses_its_connection() {
    let b = node_with("b", 1, &idle(), |options| options.deliver_within = SHORT);
    let started = Instant::now();
    let mut a = introduced(&b, "a");
    write(&mut a, &Frame::Packet(1, b"p".to_vec())).unwrap();
    assert_eq!(read(&mut a), None);
    assert!(started.elapsed() >= SHORT);
    knows_a(&b, free_address());
    let mut a = introduced(&b, "a");
    write(&mut a, &Frame::Packet(1, b"p".to_vec())).unwrap();
    assert!(matches!(read(&mut a), Some(Frame::Acknowledged(1))));
    assert_eq!(*lock(&b.heard), [(0, b"p".to_vec())]);
}

/// Goal: whoever holds connections open without a word is in nobody's way: the oldest ends, and a
/// node gets in.
#[test]
fn strangers_give_way() {
    let b = node_with("b", 1, &idle(), |options| {
        options.strangers_max = 3;
        options.introduce_within = Duration::from_secs(600);
    });
    let strangers: Vec<StdStream> = (0..10)
        .map(|_| StdStream::connect(b.address).unwrap())
        .collect();
    until("seven have gone", || b.links.refused() == 7);
    let a = node("a", 1, &idle());
    meet(&a, &[("b", &b)]);
    until("connected", || a.links.status()[0].is_connected);
    assert!(b.links.refused() >= 8);
    assert!(b.links.take_notes()[0].text.contains("and others came"));
    drop(strangers);
}

/// Goal: at the bound of connections one more waits, and is served when there is room.
#[test]
fn connections_beyond_the_bound_wait() {
    let b = node_with("b", 1, &idle(), |options| options.connections_max = 1);
    let first = introduced(&b, "a");
    let c = node_with("c", 1, &idle(), |options| options.connect_within = SHORT);
    meet(&c, &[("b", &b)]);
    expect_error(&c, "does not answer");
    drop(first);
    until("connected", || c.links.status()[0].is_connected);
}

/// Goal: as many packets are kept for nobody's home as may wait for a peer, or as many of their
/// bytes, and again as soon as somebody has taken them.
#[test]
fn no_more_is_kept_than_may_wait_for_a_peer() {
    let a = node("a", 1, &idle());
    let (packets, mib) = (a.links.shared.options.queue_max, 1 << 20);
    for _ in 0..2 {
        for n in 0..packets {
            assert!(a.links.keep(vec![1]).is_ok(), "{n}");
        }
        assert_eq!(a.links.keep(vec![2]), Err(vec![2]));
        assert_eq!(a.links.take_returned().len(), packets);
        for n in 0..32 {
            assert!(a.links.keep(vec![3; mib]).is_ok(), "{n}");
        }
        assert_eq!(a.links.keep(vec![4]), Err(vec![4]));
        assert_eq!(a.links.take_returned().len(), 32);
    }
}

/// Goal: 32 MB may wait for a peer that does not take anything, and not a packet more; when it
/// takes, there is room again.
#[test]
fn a_peer_has_32_megabytes() {
    let is_busy = Arc::new(AtomicBool::new(true));
    let (a, b) = (node("a", 1, &idle()), node("b", 1, &is_busy));
    assert_eq!(a.links.bytes_max(), 32 << 20);
    meet(&a, &[("b", &b)]);
    meet(&b, &[("a", &a)]);
    let to_b = a.links.peer("b");
    for n in 0..32 {
        let sent = a.links.send(to_b, vec![b'p'; 1 << 20]);
        assert!(sent.is_ok(), "{n}");
    }
    assert!(a.links.send(to_b, vec![b'p']).is_err());
    let status = &a.links.status()[0];
    assert_eq!((status.packets, status.bytes), (32, 32 << 20));
    is_busy.store(false, Ordering::Relaxed);
    until("all taken", || a.links.status()[0].bytes == 0);
    assert!(a.links.send(to_b, vec![b'p']).is_ok());
    until("that too", || lock(&b.heard).len() == 33);
}

/// Goal: a peer that sends and takes no answers is not read on from once as many as may wait do;
/// when it takes them, its packets are taken again.
#[test]
fn answers_that_nobody_takes_stop_their_asker() {
    let b = node_with("b", 1, &idle(), |options| options.answers_max = 3);
    let address = free_address();
    // Nobody listens there yet.
    knows_a(&b, address);
    let to_a = b.links.peer("a");
    let mut a = introduced(&b, "a");
    for position in 1..=2 {
        b.links.answer(to_a, vec![0; 100]);
        write(&mut a, &Frame::Packet(position, b"p".to_vec())).unwrap();
    }
    until("two are fewer than three", || lock(&b.heard).len() == 2);
    b.links.answer(to_a, vec![0; 100]);
    write(&mut a, &Frame::Packet(3, b"p".to_vec())).unwrap();
    thread::sleep(SHORT);
    assert_eq!(lock(&b.heard).len(), 2);
    let status = &b.links.status()[0];
    assert_eq!((status.packets, status.bytes), (3, 300));
    let seen = acknowledges_from(1, StdListener::bind(address).unwrap());
    until("the third", || lock(&b.heard).len() == 3);
    until("nothing waits", || b.links.status()[0].bytes == 0);
    assert_eq!(*lock(&seen), [1, 2, 3]);
}

/// Goal: two nodes that both have as many answers for each other as may wait come out of it: what
/// was under way is given up, and both hear so.
#[test]
fn two_nodes_at_the_bound_of_answers_go_on() {
    let change = |options: &mut Options| {
        options.answers_max = 2;
        options.tick = Duration::from_millis(50);
        options.silent_ticks_max = 4;
    };
    let a = node_with("a", 1, &idle(), change);
    let b = node_with("b", 1, &idle(), change);
    let (to_b, to_a) = (a.links.peer("b"), b.links.peer("a"));
    // Each has its answers before the other can take one.
    for (node, peer) in [(&a, to_b), (&b, to_a)] {
        let peer = node.links.shared.by_id(peer).unwrap();
        peer.is_known.store(true, Ordering::Release);
    }
    for answer in [b"1", b"2"] {
        a.links.answer(to_b, answer.to_vec());
        b.links.answer(to_a, answer.to_vec());
    }
    meet(&a, &[("b", &b)]);
    meet(&b, &[("a", &a)]);
    until("one has given up", || {
        let gone = |node: &Node| !lock(&node.links.shared.gone).is_empty();
        gone(&a) && gone(&b)
    });
    until("both take", || {
        for node in [&a, &b] {
            told(node);
        }
        // What comes while a session ends is refused or comes back.
        let _ = a.links.send(to_b, b"p".to_vec());
        let _ = b.links.send(to_a, b"p".to_vec());
        let has = |node: &Node| lock(&node.heard).iter().any(|(_, packet)| packet == b"p");
        has(&a) && has(&b)
    });
    until("nothing waits", || {
        let status = [&a.links.status()[0], &b.links.status()[0]].map(|link| link.packets);
        status == [0, 0]
    });
    for (node, peer) in [(&a, to_b), (&b, to_a)] {
        let peer = node.links.shared.by_id(peer).unwrap();
        assert_eq!(peer.unanswered.load(Ordering::Relaxed), 0);
    }
}

/// Goal: the number of nodes is bounded, of those that are sent to and of those that send; who is
/// known goes on.
#[test]
fn nodes_are_bounded() {
    let b = node("b", 1, &idle());
    for n in 0..SENDERS_MAX {
        let one = begin(&hello(&format!("n{n}")), &b.links.shared);
        assert!(one.is_ok(), "{n}");
        assert_ne!(b.links.peer(&format!("n{n}")), PeerId(u16::MAX));
    }
    let more = begin(&hello("one more"), &b.links.shared);
    assert_eq!(more.err().as_deref(), Some("too many nodes"));
    assert!(begin(&hello("n7"), &b.links.shared).is_ok());
    let more = b.links.peer("one more");
    assert_eq!(more, PeerId(u16::MAX));
    assert!(b.links.send(more, vec![1]).is_err());
}

/// Goal: complaints that nobody takes are bounded; the connection goes on.
#[test]
fn complaints_are_bounded() {
    let (a, b) = (node("a", 1, &idle()), node("b", 1, &idle()));
    meet(&a, &[("b", &b)]);
    meet(&b, &[("a", &a)]);
    let to_b = a.links.peer("b");
    for _ in 0..COMPLAINTS_MAX + 5 {
        a.links.send(to_b, b"x".to_vec()).unwrap();
    }
    a.links.send(to_b, b"p".to_vec()).unwrap();
    until("the last one", || lock(&b.heard).len() == 1);
    assert_eq!(b.links.take_complaints().len(), COMPLAINTS_MAX);
    // Each was counted, and came back.
    let count = COMPLAINTS_MAX + 5;
    assert_eq!(b.links.status()[0].unreadable, count as u64);
    until("all came back", || {
        lock(&a.links.shared.returned).packets.len() == count
    });
}
