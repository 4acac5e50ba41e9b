//! Streams find homes that are alive, warm, not full and spread, and do not wander.

use super::*;
use crate::map::load::Load;

fn node(zone: &str, weight: u32, streams: usize) -> Node {
    Node {
        incarnation: 1,
        zone: zone.to_owned(),
        weight,
        streams: vec![Report::default(); streams],
        ..Node::default()
    }
}

fn view(weights: &[u32], streams: usize) -> View {
    let names = ["a", "b", "c", "d", "e", "f"];
    let nodes = names.iter().zip(weights);
    View {
        nodes: nodes
            .map(|(name, weight)| ((*name).to_owned(), node(name, *weight, streams)))
            .collect(),
        homes: vec![None; streams],
    }
}

/// Applies plans until nothing changes, and counts the planned moves.
fn settle(view: &mut View) -> usize {
    let mut planned = 0;
    for _ in 0..1_000 {
        let moves = plan(&Options::default(), view);
        if moves.is_empty() {
            return planned;
        }
        for one in moves {
            view.homes[usize::from(one.stream.0)] = Some(one.to);
            planned += usize::from(one.is_planned);
        }
    }
    panic!("homes wander for ever");
}

fn count(view: &View, name: &str) -> usize {
    let homes = view.homes.iter();
    homes.filter(|home| home.as_deref() == Some(name)).count()
}

/// Goal: homes are given out by weight, and a node of weight 0 gets none.
#[test]
fn homes_follow_weights() {
    let mut view = view(&[1, 1, 2, 0], 16);
    assert_eq!(settle(&mut view), 0);
    let counts = ["a", "b", "c", "d"].map(|name| count(&view, name));
    assert_eq!(counts, [4, 4, 8, 0]);
}

/// Goal: who dies loses all at once to the others, who is new gets its share one by one.
#[test]
fn nodes_die_and_join() {
    let mut view = view(&[1, 1, 1], 15);
    settle(&mut view);
    view.nodes.remove("a");
    for home in &mut view.homes {
        home.take_if(|home| home == "a");
    }
    assert_eq!(plan(&Options::default(), &view).len(), 5);
    assert_eq!(settle(&mut view), 0);
    view.nodes.insert("a".to_owned(), node("a", 1, 15));
    let moved = settle(&mut view);
    assert!((3..=5).contains(&moved), "{moved} moves");
    assert!(count(&view, "a") >= 3);
}

/// Goal: who has just started is given its share and no more, though by its own count the streams
/// that it is the home of have nothing to do yet.
#[test]
fn who_has_not_counted_for_long_gets_no_more_than_its_share() {
    let mut view = view(&[1, 1, 1], 15);
    for stream in 0..15 {
        view.homes[stream] = Some(["a", "b"][stream % 2].to_owned());
        for name in ["a", "b"] {
            view.nodes.get_mut(name).unwrap().streams[stream].load = 700;
        }
    }
    for moves in 0.. {
        let Some(one) = plan(&Options::default(), &view).pop() else {
            assert_eq!(moves, 5);
            break;
        };
        view.homes[usize::from(one.stream.0)] = Some(one.to);
    }
    assert_eq!(["a", "b", "c"].map(|name| count(&view, name)), [5, 5, 5]);
}

/// Goal: measured load is evened out, and then nothing moves any more.
#[test]
fn load_is_balanced_and_comes_to_rest() {
    let mut view = view(&[1, 1], 8);
    for stream in 0..8 {
        view.homes[stream] = Some("a".to_owned());
        let load = [5_000, 1_000, 1_000, 1_000, 500, 500, 500, 500][stream];
        view.nodes.get_mut("a").unwrap().streams[stream].load = load;
    }
    settle(&mut view);
    let load = |name: &str| -> u32 {
        let homes = view.homes.iter().zip(&view.nodes["a"].streams);
        let own = homes.filter(|(home, _)| home.as_deref() == Some(name));
        own.map(|(_, report)| report.load).sum()
    };
    assert!(
        load("a").abs_diff(load("b")) <= 1_000,
        "{} {}",
        load("a"),
        load("b")
    );
}

/// Goal: streams that have about the same to do stay where they are, though none has the same in
/// any two seconds. Each move ends the streams of clients.
#[test]
fn homes_do_not_follow_bursts() {
    for (seed, per_look_max) in [(1, 2), (2, 10), (3, 40), (4, 500)] {
        let mut rng = stdx::rand::Rng::with_seed(seed);
        let mut view = view(&[1, 1, 1], 4);
        settle(&mut view);
        let mut loads = [Load::default(); 4];
        let mut planned = 0;
        // Ten minutes.
        for look in 0..1_200 {
            for (stream, load) in loads.iter_mut().enumerate() {
                load.add(rng.usize(..per_look_max + 1) as u64);
                for node in view.nodes.values_mut() {
                    node.streams[stream].load = load.value();
                }
            }
            if look % 2 == 0 {
                for one in plan(&Options::default(), &view) {
                    view.homes[usize::from(one.stream.0)] = Some(one.to);
                    planned += 1;
                }
            }
        }
        assert!(planned <= 4, "{planned} moves, with {per_look_max}");
    }
}

/// Goal: a candidate that lags is taken only if there is no other, and then the one that lags
/// least.
#[test]
fn candidates_are_warm_if_any_is() {
    let mut view = view(&[1, 1, 1], 1);
    let mut lag = |name: &str, lag_ms| view.nodes.get_mut(name).unwrap().streams[0].lag_ms = lag_ms;
    lag("a", 5_000);
    lag("b", 3_000);
    assert_eq!(plan(&Options::default(), &view)[0].to, "c");
    view.nodes.get_mut("c").unwrap().streams[0].lag_ms = 9_000;
    assert_eq!(plan(&Options::default(), &view)[0].to, "b");
}

/// Goal: a node that is slow loses its homes to one that is warm, one at a time; if all are slow,
/// streams without a home still get one.
#[test]
fn slow_nodes_lose_their_homes() {
    let mut view = view(&[1, 1], 4);
    settle(&mut view);
    view.nodes.get_mut("a").unwrap().is_slow = true;
    let moves = plan(&Options::default(), &view);
    assert_eq!((moves.len(), moves[0].is_planned), (1, true));
    settle(&mut view);
    assert_eq!(count(&view, "b"), 4);
    view.nodes.get_mut("b").unwrap().is_slow = true;
    assert_eq!(plan(&Options::default(), &view), []);
    view.homes[0] = None;
    assert_eq!(plan(&Options::default(), &view).len(), 1);
}

/// Goal: copies are in different zones while there are any, and a node that leaves changes only
/// what it had.
#[test]
fn copies_spread_over_zones() {
    let zones = [("a", "x"), ("b", "x"), ("c", "x"), ("d", "y"), ("e", "z")];
    let mut nodes: BTreeMap<String, Node> = zones
        .iter()
        .map(|(name, zone)| ((*name).to_owned(), node(zone, 1, 1)))
        .collect();
    let before: Vec<Vec<String>> = (0..16).map(|s| replicas(&nodes, StreamId(s), 3)).collect();
    for chosen in &before {
        let mut zones: Vec<&str> = chosen
            .iter()
            .map(|name| nodes[name].zone.as_str())
            .collect();
        zones.sort_unstable();
        assert_eq!(zones, ["x", "y", "z"]);
    }
    nodes.remove("a");
    for (stream, before) in (0..16).zip(before) {
        let after = replicas(&nodes, StreamId(stream), 3);
        let lost = before.iter().filter(|name| !after.contains(name)).count();
        assert_eq!(lost, usize::from(before.contains(&"a".to_owned())));
    }
    assert_eq!(replicas(&nodes, StreamId(0), 9).len(), 4);
}

/// Goal: a home whose own copy does not get on for long loses that stream alone, to somebody warm;
/// one that lags for a moment, or while nobody is warm, keeps it.
#[test]
fn a_home_that_is_stuck_loses_the_stream() {
    let options = Options::default();
    let mut view = view(&[1, 1], 2);
    view.homes = vec![Some("a".to_owned()), Some("b".to_owned())];
    let set = |view: &mut View, node: &str, lag_ms| {
        view.nodes.get_mut(node).unwrap().streams[0].lag_ms = lag_ms;
    };
    set(&mut view, "a", options.stuck_ms_max - 1);
    assert_eq!(plan(&options, &view), []);
    set(&mut view, "a", options.stuck_ms_max);
    set(&mut view, "b", options.lag_ms_max);
    assert_eq!(plan(&options, &view), []);
    set(&mut view, "b", 0);
    let moved = |stream, to: &str| Move {
        stream: StreamId(stream),
        to: to.to_owned(),
        is_planned: true,
    };
    assert_eq!(plan(&options, &view), [moved(0, "b")]);
    // It does not come back while the copy does not get on; others go there as before.
    view.homes[0] = Some("b".to_owned());
    assert_eq!(plan(&options, &view), [moved(1, "a")]);
    view.homes[1] = Some("a".to_owned());
    assert_eq!(plan(&options, &view), []);
}

/// Goal: a home that holds no lease keeps its streams until the map says that the lease has ended:
/// whoever hears nothing of the others for a while takes nothing from them.
#[test]
fn a_home_whose_lease_has_not_ended_keeps_its_streams() {
    let options = Options::default();
    let mut view = view(&[1, 1], 2);
    view.homes = vec![Some("a".to_owned()), Some("b".to_owned())];
    view.nodes.remove("a");
    assert_eq!(plan(&options, &view), []);
    view.homes[0] = None;
    let moved = plan(&options, &view);
    assert!(
        matches!(&moved[..], [one] if one.to == "b" && !one.is_planned),
        "{moved:?}"
    );
}
