//! Links over real sockets of this machine: packets arrive once and in order, whatever happens to
//! their connections; a full or dead peer is noticed by who sends to it.

#![allow(clippy::disallowed_methods)] // These wait for sockets, on the real clock.

use std::net::TcpListener as StdListener;
use std::time::{Duration, Instant};

use super::*;

mod bounds;
mod tls;

type Heard = Arc<Mutex<Vec<(u16, Vec<u8>)>>>;

struct Node {
    links: Links,
    heard: Heard,
    address: SocketAddr,
    incarnation: u64,
}

fn free_address() -> SocketAddr {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Delivers what begins with anything but `m` (moved), `L` (moved, with a large answer), `x`
/// (broken) or, while `is_busy`, at all.
fn node(name: &str, incarnation: u64, is_busy: &Arc<AtomicBool>) -> Node {
    node_with(name, incarnation, is_busy, |_| {})
}

fn node_with(
    name: &str,
    incarnation: u64,
    is_busy: &Arc<AtomicBool>,
    change: impl FnOnce(&mut Options),
) -> Node {
    let address = free_address();
    let mut options = Options::new(address, "test".to_owned());
    change(&mut options);
    let author = Author {
        node: name.to_owned(),
        incarnation,
    };
    let heard = Heard::default();
    let (to, is_busy) = (Arc::clone(&heard), Arc::clone(is_busy));
    let deliver = move |PeerId(from): PeerId, packet: &[u8]| match packet.first() {
        _ if is_busy.load(Ordering::Relaxed) => Taken::Later,
        Some(b'm') => Taken::Moved(b"elsewhere".to_vec()),
        Some(b'L') => Taken::Moved(vec![0; 1 << 20]),
        Some(b'x') => Taken::Bad("x".to_owned()),
        _ => {
            lock(&to).push((from, packet.to_vec()));
            Taken::Yes
        }
    };
    Node {
        links: Links::start(options, author, Arc::new(deliver)).unwrap(),
        heard,
        address,
        incarnation,
    }
}

fn meet(node: &Node, others: &[(&str, &Node)]) {
    let place = |node: &Node| Where {
        incarnation: node.incarnation,
        address: node.address.to_string(),
    };
    let peers = others
        .iter()
        .map(|(name, other)| ((*name).to_owned(), place(other)));
    node.links.set_peers(&peers.collect());
}

/// Whose ends a node is told of: that is what it waits for before anything more of them arrives.
fn told(node: &Node) -> Vec<PeerId> {
    let mut gone = Vec::new();
    node.links.tell_gone(|id| gone.push(id));
    gone
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "not in time: {what}"
        );
        thread::sleep(Duration::from_millis(5));
    }
}

fn idle() -> Arc<AtomicBool> {
    Arc::default()
}

/// Goal: packets arrive in order, answers come back, what moved or is broken does not stop the
/// others, and nothing is left waiting.
#[test]
fn packets_arrive_in_order_and_moved_ones_come_back() {
    let (a, b) = (node("a", 1, &idle()), node("b", 1, &idle()));
    let to_b = a.links.peer("b");
    assert!(
        a.links.send(to_b, b"early".to_vec()).is_err(),
        "nobody knows b yet"
    );
    meet(&a, &[("b", &b)]);
    meet(&b, &[("a", &a)]);
    for n in 0..500u32 {
        let mut packet = format!("p{n}").into_bytes();
        if n == 250 {
            packet = b"moved".to_vec();
        } else if n == 251 {
            packet = b"x".to_vec();
        }
        a.links.send(to_b, packet).unwrap();
    }
    until("all there", || lock(&b.heard).len() == 498);
    let expected = (0..500).filter(|n| *n != 250 && *n != 251);
    let expected: Vec<Vec<u8>> = expected.map(|n| format!("p{n}").into_bytes()).collect();
    let heard = lock(&b.heard).clone();
    assert!(heard.iter().map(|(_, packet)| packet).eq(&expected));
    until("both come back", || {
        lock(&a.links.shared.returned).packets.len() == 2
    });
    let returned = [b"moved".to_vec(), b"x".to_vec()];
    assert_eq!(a.links.take_returned(), returned);
    assert_eq!(b.links.take_complaints(), ["a: x".to_owned()]);
    let unreadable = |node: &Node| node.links.status()[0].unreadable;
    assert_eq!((unreadable(&a), unreadable(&b)), (0, 1));
    b.links.answer(b.links.peer("a"), b"credit".to_vec());
    until("the answer", || lock(&a.heard).len() == 1);
    until("nothing waits", || a.links.status()[0].bytes == 0);
}

/// Goal: a peer that takes nothing fills its own queue only, and its sender is refused at the
/// bound; when it goes on, everything is there.
#[test]
fn a_slow_peer_is_felt_by_its_own_senders_only() {
    let is_busy = Arc::new(AtomicBool::new(true));
    let a = node_with("a", 1, &idle(), |options| {
        options.unacknowledged_max = 4;
        options.queue_max = 4;
    });
    let (b, c) = (node("b", 1, &is_busy), node("c", 1, &idle()));
    meet(&a, &[("b", &b), ("c", &c)]);
    meet(&b, &[("a", &a)]);
    meet(&c, &[("a", &a)]);
    let (to_b, to_c) = (a.links.peer("b"), a.links.peer("c"));
    let mut taken = 0;
    let started = Instant::now();
    // What the task takes out of the queue makes room for as much again.
    while started.elapsed() < Duration::from_millis(500) {
        taken += usize::from(a.links.send(to_b, b"p".to_vec()).is_ok());
        thread::sleep(Duration::from_millis(1));
    }
    assert!((4..=8 + TAKEN_AT_ONCE).contains(&taken), "{taken}");
    a.links.send(to_c, b"p".to_vec()).unwrap();
    until("c has it", || lock(&c.heard).len() == 1);
    is_busy.store(false, Ordering::Relaxed);
    until("b has all", || lock(&b.heard).len() == taken);
}

/// The queue is taken as a whole, past the bound of what is not acknowledged.
const TAKEN_AT_ONCE: usize = 4;

/// Goal: too many bytes are refused too.
#[test]
fn bytes_are_bounded() {
    let a = node_with("a", 1, &idle(), |options| options.bytes_max = 10);
    let b = node("b", 1, &Arc::new(AtomicBool::new(true)));
    meet(&a, &[("b", &b)]);
    let to_b = a.links.peer("b");
    a.links.send(to_b, vec![0; 6]).unwrap();
    assert_eq!(a.links.send(to_b, vec![1; 6]), Err(vec![1; 6]));
}

/// Goal: what its sender can do without takes half of the bytes, and half of the queue, and leaves
/// the rest to everything else.
#[test]
fn half_of_a_link_is_kept_for_others() {
    let is_busy = Arc::new(AtomicBool::new(true));
    let bytes = node_with("a", 1, &idle(), |options| options.bytes_max = 100);
    let packets = node_with("c", 1, &idle(), |options| {
        options.unacknowledged_max = 1;
        options.queue_max = 8;
    });
    let b = node("b", 1, &is_busy);
    meet(&b, &[("a", &bytes), ("c", &packets)]);
    for a in [&bytes, &packets] {
        meet(a, &[("b", &b)]);
        assert!(a.links.takes(a.links.peer("b")) && !a.links.takes(a.links.peer("nobody")));
    }
    let to_b = bytes.links.peer("b");
    bytes.links.offer(to_b, vec![0; 50]).unwrap();
    // One goes over the half, and then none does.
    bytes.links.offer(to_b, vec![1; 20]).unwrap();
    assert_eq!(bytes.links.offer(to_b, vec![2]), Err(vec![2]));
    bytes.links.send(to_b, vec![3; 30]).unwrap();
    let to_b = packets.links.peer("b");
    until("the task takes no more", || {
        let is_offered = packets.links.offer(to_b, b"p".to_vec()).is_ok();
        thread::sleep(Duration::from_millis(20));
        !is_offered
    });
    for _ in 0..3 {
        packets.links.send(to_b, b"p".to_vec()).unwrap();
    }
    is_busy.store(false, Ordering::Relaxed);
    until("there is room again", || {
        packets.links.offer(to_b, b"p".to_vec()).is_ok()
    });
    let nobody = packets.links.peer("nobody");
    assert!(packets.links.offer(nobody, b"p".to_vec()).is_err());
}

/// Goal: when a peer's process is gone, what it did not acknowledge comes back, its end is told,
/// and the next life of it begins with nothing of before.
#[test]
fn what_a_dead_peer_did_not_take_comes_back() {
    let a = node("a", 1, &idle());
    let b = node("b", 1, &Arc::new(AtomicBool::new(true)));
    meet(&a, &[("b", &b)]);
    let to_b = a.links.peer("b");
    for n in 0..3 {
        a.links.send(to_b, vec![n]).unwrap();
    }
    until("connected", || a.links.status()[0].is_connected);
    drop(b);
    until("lost", || !a.links.status()[0].is_connected);
    a.links.send(to_b, vec![3]).unwrap();
    meet(&a, &[]);
    until("gone", || !lock(&a.links.shared.gone).is_empty());
    assert_eq!(told(&a), [to_b]);
    until("all back", || {
        lock(&a.links.shared.returned).packets.len() == 4
    });
    assert_eq!(a.links.take_returned(), [[0], [1], [2], [3]]);
    assert!(a.links.send(to_b, vec![4]).is_err());
    let again = node("b", 2, &idle());
    meet(&again, &[("a", &a)]);
    meet(&a, &[("b", &again)]);
    a.links.send(to_b, vec![5]).unwrap();
    until("the next life", || lock(&again.heard).len() == 1);
    assert_eq!(lock(&again.heard)[0].1, [5]);
    until("nothing waits", || a.links.status()[0].bytes == 0);
}

/// Goal: a node at whose address nobody listens any more is told from one that is there.
#[test]
fn a_dead_peer_refuses() {
    let (a, b) = (node("a", 1, &idle()), node("b", 1, &idle()));
    meet(&a, &[("b", &b)]);
    until("a is connected", || a.links.is_connected("b"));
    assert_eq!(a.links.refusing(), Vec::<String>::new());
    drop(b.links);
    until("b refuses", || a.links.refusing() == ["b"]);
    // The map does not have it any more.
    meet(&a, &[]);
    until("b is forgotten", || a.links.refusing().is_empty());
}

/// Goal: over socket files links are as over TCP, and the files are for this user alone; one that a
/// process left behind is in nobody's way.
#[test]
fn links_go_over_socket_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::os::unix::net::UnixListener::bind(path("a")).unwrap();
    let at = |name: &str| {
        node_with(name, 1, &idle(), |options| {
            options.listen = Listen::Unix(path(name));
        })
    };
    let (a, b) = (at("a"), at("b"));
    let mode = std::fs::metadata(path("a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let place = |name: &str| Where {
        incarnation: 1,
        address: format!("{UNIX}{}", path(name).display()),
    };
    a.links
        .set_peers(&BTreeMap::from([("b".to_owned(), place("b"))]));
    b.links
        .set_peers(&BTreeMap::from([("a".to_owned(), place("a"))]));
    let to_b = a.links.peer("b");
    let packet = |n: u32| [&b"n"[..], &n.to_le_bytes()].concat();
    for n in 0..1_000 {
        a.links.send(to_b, packet(n)).unwrap();
    }
    until("all there", || lock(&b.heard).len() == 1_000);
    let heard: Vec<Vec<u8>> = lock(&b.heard)
        .iter()
        .map(|(_, packet)| packet.clone())
        .collect();
    assert!(heard.into_iter().eq((0..1_000).map(packet)), "in order");
    b.links.answer(b.links.peer("a"), b"answer".to_vec());
    until("the answer", || lock(&a.heard).len() == 1);
}

/// Goal: who is not meant is not told anything: another node at the address, another deployment.
#[test]
fn strangers_are_refused() {
    let (a, b) = (node("a", 1, &idle()), node("b", 1, &idle()));
    let stranger = node_with("c", 1, &idle(), |options| {
        options.deployment = "other".to_owned();
    });
    meet(&a, &[("z", &b)]);
    a.links.send(a.links.peer("z"), vec![1]).unwrap();
    until("refused", || a.links.status()[0].last_error.is_some());
    let error = a.links.status()[0].last_error.clone().unwrap();
    assert!(error.ends_with("this is node b"), "{error}");
    meet(&stranger, &[("b", &b)]);
    until("refused", || {
        stranger.links.status()[0].last_error.is_some()
    });
    let error = stranger.links.status()[0].last_error.clone().unwrap();
    assert!(error.ends_with("this is deployment test"), "{error}");
    assert_eq!(*lock(&b.heard), []);
}

/// Goal: who takes packets hears that their sender gave up a session, and what it had under way.
#[test]
fn a_session_that_begins_anew_is_noticed() {
    let (a, b) = (node("a", 1, &idle()), node("b", 1, &idle()));
    meet(&a, &[("b", &b)]);
    meet(&b, &[("a", &a)]);
    let to_b = a.links.peer("b");
    a.links.send(to_b, b"1".to_vec()).unwrap();
    until("the first", || lock(&b.heard).len() == 1);
    assert_eq!(told(&b), []);
    meet(&a, &[]);
    until("given up", || !lock(&a.links.shared.gone).is_empty());
    meet(&a, &[("b", &b)]);
    a.links.send(to_b, b"2".to_vec()).unwrap();
    until("the end", || !lock(&b.links.shared.gone).is_empty());
    // Nothing arrives of the new session before that.
    thread::sleep(Duration::from_millis(100));
    assert_eq!(lock(&b.heard).len(), 1);
    assert_eq!(told(&b), [b.links.peer("a")]);
    until("the second", || lock(&b.heard).len() == 2);
}

/// Goal: what a life of a peer sends waits until the map has that life, for it could not be
/// answered; and until the end of the life before it was told.
#[test]
fn a_life_that_is_not_known_yet_is_not_heard() {
    let (a, b) = (node("a", 1, &idle()), node("b", 1, &idle()));
    meet(&a, &[("b", &b)]);
    let to_b = a.links.peer("b");
    a.links.send(to_b, b"1".to_vec()).unwrap();
    until("connected", || a.links.is_connected("b"));
    thread::sleep(Duration::from_millis(100));
    assert_eq!(*lock(&b.heard), []);
    meet(&b, &[("a", &a)]);
    until("the first", || lock(&b.heard).len() == 1);
    drop(a);
    let a = node("a", 2, &idle());
    meet(&a, &[("b", &b)]);
    a.links.send(to_b, b"2".to_vec()).unwrap();
    // Of the session that was under way; the map still has the life before.
    until("it introduced itself", || {
        !lock(&b.links.shared.gone).is_empty()
    });
    assert_eq!(told(&b), [b.links.peer("a")]);
    thread::sleep(Duration::from_millis(100));
    assert_eq!(lock(&b.heard).len(), 1);
    meet(&b, &[("a", &a)]);
    until("the end of that life", || {
        !lock(&b.links.shared.gone).is_empty()
    });
    assert_eq!(told(&b), [b.links.peer("a")]);
    until("the second", || lock(&b.heard).len() == 2);
    let to_a = b.links.peer("a");
    b.links.answer(to_a, b"answer".to_vec());
    until("the answer", || lock(&a.heard).len() == 1);
}
