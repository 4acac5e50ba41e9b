//! What a load balancer and an operator see of a node: whether it is ready, and its figures.

use crate::nodes::Nodes;

fn ready(nodes: &Nodes, name: &str) -> (u16, String) {
    nodes.page(name, "/readyz").unwrap_or_default()
}

/// Goal: a node is ready once it serves what it should, not while the engine cannot be reached, and
/// not when it stops; figures and alarms say the same.
#[test]
fn a_node_is_ready_while_it_serves() {
    let mut nodes = Nodes::prepare(&["a", "b"]);
    nodes.create();
    nodes.begin("a");
    // The first homes are given once everybody had time to be seen.
    let (status, why) = ready(&nodes, "a");
    assert_eq!(status, 503, "{why}");
    let early = ["the engine does not answer", "have no home yet", "serves "];
    assert!(early.iter().any(|text| why.contains(text)), "{why}");
    assert_eq!(nodes.page("a", "/healthz").map(|page| page.0), Some(200));
    nodes.begin("b");
    for name in ["a", "b"] {
        nodes.until("ready", |nodes| {
            ready(nodes, name) == (200, "ready".to_owned())
        });
        assert_eq!(nodes.figure(name, "roost_cluster_lease"), 1.0);
    }
    nodes.until("all is served", |nodes| {
        let served = |name| nodes.figure(name, "roost_cluster_homes_served");
        let moving = |name| nodes.figure(name, "roost_cluster_homes_moving");
        served("a") + served("b") == 4.0 && moving("a") + moving("b") == 0.0
    });
    let taken = ["a", "b"].map(|name| nodes.figure(name, "roost_cluster_take_overs_total"));
    assert!(taken[0] + taken[1] >= 4.0, "{taken:?}");
    let sar = [
        "sar",
        "--count",
        "1",
        "--columns",
        "homes,moving,lag,down,lwait",
    ];
    let line = nodes.node("a").run(&sar).unwrap();
    assert!(line.contains("cluster"), "{line}");
    let screen = nodes.node("a").run(&["top", "--once"]).unwrap();
    assert!(
        screen.contains("node a   lease yes   nodes 2 of 2"),
        "{screen}"
    );
    without_engine(&mut nodes);
    // Others are ready all the while when a node goes.
    nodes.node("b").begin_to_stop().unwrap();
    nodes.until("b says so, or is gone", |nodes| {
        match nodes.page("b", "/readyz") {
            Some((status, why)) => (status, &*why) == (503, "draining"),
            None => true,
        }
    });
    nodes.until("b is gone", |nodes| nodes.page("b", "/readyz").is_none());
    // It has ended, and is waited for.
    nodes.node("b").kill().unwrap();
    nodes.until("a serves all", |nodes| {
        assert_eq!(ready(nodes, "a").0, 200);
        nodes.figure("a", "roost_cluster_homes_served") == 4.0
    });
    nodes.node("a").stop().unwrap();
}

/// Two of three servers of the engine are away, and come back.
fn without_engine(nodes: &mut Nodes) {
    nodes.engine().kill(0).unwrap();
    nodes.engine().kill(1).unwrap();
    for name in ["a", "b"] {
        nodes.until("not ready", |nodes| ready(nodes, name).0 == 503);
        assert!(ready(nodes, name).1.contains("the engine does not answer"));
    }
    assert_eq!(nodes.figure("a", "roost_cluster_lease"), 0.0);
    nodes.until("an alarm", |nodes| {
        nodes.figure("a", "roost_alarm{name=\"engine\"}") == 1.0
    });
    nodes.engine().run(0).unwrap();
    nodes.engine().run(1).unwrap();
    for name in ["a", "b"] {
        nodes.until("ready again", |nodes| ready(nodes, name).0 == 200);
    }
}
