//! Groups that overlap in rings and trees: names are found from everywhere, and stored in their
//! group alone.

use group::{Answer, Command, Pid};

use crate::lab::{Lab, SECOND};

/// Groups of nodes, each with a name registered at its last member.
fn build(groups: &[(&str, &[&str])]) -> (Lab, Vec<Pid>) {
    let mut lab = Lab::new();
    let mut nodes: Vec<&str> = groups
        .iter()
        .flat_map(|(_, nodes)| nodes.iter().copied())
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    lab.start(&nodes);
    let mut pids = Vec::new();
    for (group, members) in groups {
        lab.group(members[0], group, members);
        let last = members[members.len() - 1];
        let pid = lab.spawn(last, last, "worker", "").unwrap();
        lab.register(last, group, "name", &pid).unwrap();
        pids.push(pid);
    }
    lab.world.run_for(SECOND);
    (lab, pids)
}

/// The number of nodes that a node is linked with.
fn links(lab: &mut Lab, node: &str) -> usize {
    match lab.ask(node, Command::Linked) {
        Answer::Nodes(nodes) => nodes.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_ring_of_groups_finds_names_all_around() {
    let ring: [(&str, &[&str]); 5] = [
        ("ab", &["a", "b"]),
        ("bc", &["b", "c"]),
        ("cd", &["c", "d"]),
        ("de", &["d", "e"]),
        ("ea", &["e", "a"]),
    ];
    let (mut lab, pids) = build(&ring);
    for node in ["a", "b", "c", "d", "e"] {
        // Links are followed inside of groups only.
        assert_eq!(links(&mut lab, node), 2, "{node}");
    }
    for node in ["a", "b", "c", "d", "e"] {
        for ((group, _), pid) in ring.iter().zip(&pids) {
            let found = lab.whereis(node, group, "name");
            assert_eq!(found.as_ref(), Some(pid), "{group} from {node}");
        }
    }
}

#[test]
fn a_tree_of_groups_finds_names_up_and_down_by_its_gateways() {
    let tree: [(&str, &[&str]); 4] = [
        ("top", &["r", "s", "t"]),
        ("left", &["s", "u", "v"]),
        ("right", &["t", "w", "x"]),
        ("low", &["x", "y", "z"]),
    ];
    let (mut lab, pids) = build(&tree);
    // A gateway is linked with both of its groups, a leaf with its own.
    for (node, expected) in [("r", 2), ("s", 4), ("x", 4), ("u", 2), ("z", 2)] {
        assert_eq!(links(&mut lab, node), expected, "{node}");
    }
    for node in ["r", "s", "u", "w", "x", "z"] {
        for ((group, _), pid) in tree.iter().zip(&pids) {
            let found = lab.whereis(node, group, "name");
            assert_eq!(found.as_ref(), Some(pid), "{group} from {node}");
        }
    }
    // A whole branch that is lost takes its name along and no other.
    for node in ["x", "y", "z"] {
        lab.world.crash(&crate::lab::name(node));
    }
    lab.world.run_for(SECOND * 30);
    assert_eq!(lab.whereis("u", "low", "name"), None);
    assert_eq!(lab.whereis("u", "right", "name"), None);
    assert_eq!(lab.whereis("w", "left", "name"), Some(pids[1].clone()));
}
