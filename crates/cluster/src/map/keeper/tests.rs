//! Keepers of three nodes over one bucket that loses nothing: what operators do in order.

use super::*;
use crate::map::Key;

const STREAMS: u16 = 6;
const STEP: Duration = Duration::from_millis(50);

/// What was put, and who hears of it.
#[derive(Default)]
struct Map {
    now: Moment,
    history: Vec<(Key, String)>,
    latest: BTreeMap<String, Revision>,
    nodes: BTreeMap<String, (Keeper, usize)>,
    /// Looks at the map five times less often than the others.
    slow: Option<String>,
    rounds: u64,
}

fn said(weight: u32) -> Node {
    Node {
        incarnation: 1,
        weight,
        streams: vec![Report::default(); usize::from(STREAMS)],
        ..Node::default()
    }
}

impl Map {
    fn start(names: &[&str]) -> Map {
        let mut map = Map::default();
        for name in names {
            let author = Author {
                node: (*name).to_owned(),
                incarnation: 1,
            };
            let keeper = Keeper::new(map.now, Options::default(), author, said(1), STREAMS);
            map.nodes.insert((*name).to_owned(), (keeper, 0));
        }
        map.run(10_000);
        map
    }

    fn put(&mut self, key: Key, revision: Revision, value: String) -> Option<Revision> {
        let latest = self.latest.entry(key.name()).or_default();
        let is_deleted = |latest: Revision| self.history[latest as usize - 1].1.is_empty();
        let is_created = revision == 0 && *latest != 0 && is_deleted(*latest);
        if *latest != revision && !is_created {
            return None;
        }
        self.history.push((key, value));
        *latest = self.history.len() as Revision;
        Some(*latest)
    }

    /// As an operator does: what is left is a mark.
    fn delete(&mut self, key: Key) {
        let latest = self.latest[&key.name()];
        self.put(key, latest, String::new()).unwrap();
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis / STEP.as_millis() as u64 {
            self.now = self.now + STEP;
            self.rounds += 1;
            let names: Vec<String> = self.nodes.keys().cloned().collect();
            for name in &names {
                if self.slow.as_ref() != Some(name) || self.rounds.is_multiple_of(5) {
                    self.step(name);
                }
            }
        }
    }

    /// The most homes that had to let go at once, of all that was put from here on.
    fn letting_go_max(&self, from: usize) -> usize {
        let (mut letting_go, mut most) = (BTreeSet::new(), 0);
        for (key, value) in self.history.iter().skip(from) {
            let Key::Home(stream) = key else { continue };
            if value.is_empty() {
                continue;
            }
            let home: Home = serde_json::from_str(value).unwrap();
            match home.after {
                Some(_) => letting_go.insert(*stream),
                None => letting_go.remove(stream),
            };
            most = most.max(letting_go.len());
        }
        most
    }

    fn step(&mut self, name: &str) {
        let (mut keeper, seen) = self.nodes.remove(name).unwrap();
        for (at, (key, value)) in self.history.iter().enumerate().skip(seen) {
            let revision = at as Revision + 1;
            match key {
                Key::Home(stream) if value.is_empty() => {
                    keeper.on_home_gone(self.now, *stream, revision);
                }
                Key::Node(of) if value.is_empty() => {
                    keeper.on_node_gone(self.now, of, revision);
                }
                Key::Home(stream) => {
                    let home = serde_json::from_str(value).unwrap();
                    keeper.on_home(self.now, *stream, revision, home);
                }
                Key::Node(of) => {
                    let node = serde_json::from_str(value).unwrap();
                    keeper.on_node(self.now, of, revision, node);
                }
            }
        }
        let seen = self.history.len();
        keeper.on_time(self.now);
        while let Some(effect) = keeper.poll() {
            let json = |node: &Node| serde_json::to_string(node).unwrap();
            match effect {
                Effect::Renew(sent, revision, node) => {
                    let key = Key::Node(name.to_owned());
                    if let Some(revision) = self.put(key, revision, json(&node)) {
                        keeper.on_renewed(sent, revision);
                    }
                }
                Effect::Fence(other, revision, node) => {
                    self.put(Key::Node(other), revision, json(&node));
                }
                Effect::Change(stream, revision, home) => {
                    let home = serde_json::to_string(&home).unwrap();
                    self.put(Key::Home(stream), revision, home);
                }
                Effect::TakeOver(..) | Effect::StepDown(_) => {}
            }
        }
        self.nodes.insert(name.to_owned(), (keeper, seen));
    }

    fn drain(&mut self, name: &str, is_draining: bool) {
        let (keeper, _) = self.nodes.get_mut(name).unwrap();
        keeper.drain(is_draining);
        let streams = said(1).streams;
        keeper.report(false, u32::from(!is_draining), streams);
        keeper.renew_now(self.now);
    }

    /// Homes of a node that have nobody to wait for, as another node sees it.
    fn homes(&self, name: &str) -> usize {
        let (keeper, _) = self.nodes.values().next_back().unwrap();
        let homes = (0..STREAMS).filter_map(|stream| keeper.home(StreamId(stream)));
        let own = homes.filter(|home| home.node == name && home.after.is_none());
        own.count()
    }
}

/// Goal: a node that drains loses its homes one after the other, keeps its lease, gets none back,
/// and has a share again when that is undone.
#[test]
fn a_drain_moves_homes_one_by_one() {
    for drained in ["a", "b", "c"] {
        let mut map = Map::start(&["a", "b", "c"]);
        assert_eq!(["a", "b", "c"].map(|name| map.homes(name)), [2, 2, 2]);
        let from = map.history.len();
        map.slow = Some(drained.to_owned());
        map.drain(drained, true);
        map.run(4_000);
        assert_eq!(map.homes(drained), 0, "{drained}");
        assert_eq!(map.letting_go_max(from), 1);
        map.run(20_000);
        assert_eq!(map.homes(drained), 0, "{drained}");
        assert!(map.nodes[drained].0.may_act(map.now));
        map.drain(drained, false);
        map.run(10_000);
        assert_eq!(map.homes(drained), 2, "{drained}");
    }
}

/// Goal: who drains and nobody else may take homes keeps them.
#[test]
fn the_last_node_keeps_its_homes() {
    let mut map = Map::start(&["a", "b"]);
    map.drain("b", true);
    map.run(2_000);
    map.drain("a", true);
    map.run(20_000);
    assert_eq!(map.homes("a"), 6);
    map.drain("b", false);
    map.run(5_000);
    assert_eq!(map.homes("a"), 0);
}

/// Goal: a process that ends its lease is followed at once, one that does not after T; neither
/// comes back by itself.
#[test]
fn who_leaves_is_not_waited_for() {
    for leaves in [true, false] {
        let mut map = Map::start(&["a", "b", "c"]);
        if leaves {
            let (keeper, _) = map.nodes.get_mut("a").unwrap();
            keeper.leave(map.now);
            assert!(!keeper.may_act(map.now) && !keeper.has_left());
            map.run(100);
            assert!(map.nodes["a"].0.has_left());
            map.run(5_000);
            let last = map.latest["node.a"];
            map.run(5_000);
            assert_eq!(map.latest["node.a"], last, "it says nothing more");
        } else {
            map.nodes.remove("a");
            map.run(2_000);
            assert_eq!(map.homes("a"), 2, "its lease has not lapsed");
            map.run(3_000);
        }
        assert_eq!(map.homes("a"), 0);
    }
    let mut map = Map::start(&["a", "b", "c"]);
    let now = map.now;
    map.nodes.get_mut("c").unwrap().0.leave(now);
    map.run(500);
    assert_eq!(map.homes("c"), 0, "at once");
}

/// Goal: a node that is the home of nothing and dies is known to have ended, as any other is: only
/// then can it be forgotten.
#[test]
fn who_is_no_home_and_dies_has_ended() {
    let mut map = Map::start(&["a", "b", "c"]);
    map.drain("b", true);
    map.run(4_000);
    assert_eq!(map.homes("b"), 0);
    map.nodes.remove("b");
    let has_ended = |map: &Map| {
        let newest = &map.history[map.latest["node.b"] as usize - 1].1;
        serde_json::from_str::<Node>(newest).unwrap().is_fenced
    };
    map.run(2_000);
    assert!(!has_ended(&map), "its lease has not lapsed");
    map.run(3_000);
    assert!(has_ended(&map));
    let last = map.latest["node.b"];
    map.run(5_000);
    assert_eq!(map.latest["node.b"], last, "that is said once");
}

/// Goal: a renewal that was under way when a process left does not keep its lease alive.
#[test]
fn an_earlier_renewal_does_not_undo_the_end() {
    let mut map = Map::start(&["a", "b", "c"]);
    let now = map.now;
    let (keeper, _) = map.nodes.get_mut("a").unwrap();
    let revision = keeper.revision;
    keeper.leave(now);
    // What was sent before arrives first.
    let before = serde_json::to_string(&said(1)).unwrap();
    let renewed = map.put(Key::Node("a".to_owned()), revision, before);
    let (keeper, _) = map.nodes.get_mut("a").unwrap();
    let sent = Moment::from_nanos(now.as_nanos() - 10_000_000);
    keeper.on_renewed(sent, renewed.unwrap());
    assert!(!keeper.may_act(now) && !keeper.has_left());
    map.run(500);
    assert!(map.nodes["a"].0.has_left());
    map.run(1_500);
    assert_eq!(map.homes("a"), 0);
}

/// Goal: a node that is gone and whose entry an operator deleted is not in the map any more, and
/// one that begins anew under its name is the home of something, also where it knows nothing.
#[test]
fn a_node_whose_entry_was_deleted_begins_anew() {
    let mut map = Map::start(&["a", "b", "c"]);
    map.nodes.remove("b");
    map.run(5_000);
    assert_eq!(map.homes("b"), 0);
    map.delete(Key::Node("b".to_owned()));
    map.run(100);
    for (keeper, _) in map.nodes.values() {
        assert!(!keeper.view(map.now).nodes.contains_key("b"));
        assert!(keeper.gone.is_empty());
    }
    let author = Author {
        node: "b".to_owned(),
        incarnation: 2,
    };
    let keeper = Keeper::new(map.now, Options::default(), author, said(1), STREAMS);
    map.nodes.insert("b".to_owned(), (keeper, 0));
    map.run(10_000);
    assert_eq!(map.homes("b"), 2);
}

/// Goal: a node that lives and whose entry was deleted ends what it does, as if its lease had been
/// ended, and takes part again by itself.
#[test]
fn a_node_that_lives_outlives_its_entry() {
    for name in ["a", "b", "c"] {
        let mut map = Map::start(&["a", "b", "c"]);
        map.delete(Key::Node(name.to_owned()));
        let (mut keeper, seen) = map.nodes.remove(name).unwrap();
        let revision = map.latest[&Key::Node(name.to_owned()).name()];
        keeper.on_node_gone(map.now, name, revision);
        assert!(!keeper.may_act(map.now), "{name}");
        map.nodes.insert(name.to_owned(), (keeper, seen));
        map.run(10_000);
        assert!(map.nodes[name].0.may_act(map.now), "{name}");
        assert_eq!(map.homes(name), 2, "{name}");
    }
}

/// Goal: a stream whose entry was deleted has the same home, which puts it there again, and goes
/// to another one when that ends.
#[test]
fn a_home_whose_entry_was_deleted_stays_where_it_is() {
    let mut map = Map::start(&["a", "b"]);
    let home = map.nodes["a"].0.home(StreamId(0)).cloned().unwrap();
    map.delete(Key::Home(StreamId(0)));
    map.run(1_000);
    let newest = &map.history[map.latest["home.0"] as usize - 1].1;
    assert_eq!(serde_json::from_str::<Home>(newest).unwrap(), home);
    map.nodes.remove(&home.node);
    map.run(10_000);
    let left = map.nodes.keys().next().unwrap().clone();
    assert_eq!(map.homes(&left), usize::from(STREAMS));
}
