//! A node that lives and is of no use.

use crate::links::{certify, files};
use crate::nodes::Nodes;

/// Goal: a node that reaches no other one, and holds its lease, loses its homes to those that reach
/// each other; it says so, and the others serve everything.
#[test]
fn a_node_without_links_loses_its_homes() {
    let folders = tempfile::tempdir().unwrap();
    let (ours, other) = (folders.path().join("ours"), folders.path().join("other"));
    let mut nodes = Nodes::prepare_with(&["a", "b", "z"], |name| match name {
        "z" => files(&other, name),
        _ => files(&ours, name),
    });
    certify(&mut nodes, &ours, &["a", "b"], &[]);
    certify(&mut nodes, &other, &["z"], &[]);
    nodes.create();
    for name in ["z", "a", "b"] {
        nodes.begin(name);
    }
    let served = |nodes: &Nodes, name| nodes.figure(name, "roost_cluster_homes_served");
    nodes.until("z has no homes", |nodes| {
        nodes.log("z").contains("its homes go to others")
            && served(nodes, "z") == 0.0
            && served(nodes, "a") + served(nodes, "b") == 4.0
    });
    let status = nodes.node("a").run(&["cluster", "status"]).unwrap();
    let of_z = status.lines().find(|line| line.starts_with("z "));
    assert!(of_z.is_some_and(|line| line.contains("slow")), "{status}");
    assert_eq!(nodes.figure("z", "roost_cluster_lease"), 1.0);
    // The others have each other, and z has its certificate now.
    certify(&mut nodes, &ours, &["z"], &[]);
    for file in ["z.pem", "z.key", "ca.pem"] {
        std::fs::copy(ours.join(file), other.join(file)).unwrap();
    }
    nodes.node("z").reload().unwrap();
    nodes.until("z has homes again", |nodes| served(nodes, "z") > 0.0);
    for name in ["a", "b", "z"] {
        nodes.node(name).stop().unwrap();
    }
}
