//! Groups that are made while others come and go: whoever can be reached and has no group of that
//! name becomes a member, whatever else closes the link meanwhile.

use std::time::Duration;

use group::sim::{Costs, Ticket, World};
use group::{Answer, Command, GroupError, Limits, Note, Refusal};

use crate::lab::{Lab, SECOND, name};

/// Free nodes that are all linked.
fn free(nodes: &[&str]) -> Lab {
    free_in(World::new(3, Costs::default()), nodes)
}

fn free_in(world: World, nodes: &[&str]) -> Lab {
    let mut lab = Lab::new();
    lab.world = world;
    lab.start(nodes);
    for other in &nodes[1..] {
        let answer = lab.ask(nodes[0], Command::Connect(name(other)));
        assert_eq!(answer, Answer::Done(Ok(())));
    }
    lab.world.run_for(SECOND);
    lab
}

fn new_group(group: &str, nodes: &[&str]) -> Command {
    let nodes = nodes.iter().map(|node| name(node)).collect();
    let name = Some(group.into());
    Command::NewGroup { name, nodes }
}

fn make(lab: &mut Lab, at: &str, group: &str, nodes: &[&str]) -> Ticket {
    lab.world.command(&name(at), new_group(group, nodes))
}

/// Runs until a group is made. All that joined are in it then, and nobody later.
fn joined(lab: &mut Lab, ticket: &Ticket, group: &str) -> Vec<String> {
    for _ in 0..20_000 {
        if let Some(answer) = ticket.take() {
            let Answer::Group(Ok((_, nodes))) = answer else {
                panic!("{answer:?}");
            };
            for node in &nodes {
                let answer = lab.ask(node.as_str(), Command::NodesOf(group.into()));
                assert_eq!(answer, Answer::Nodes(nodes.clone()), "at {node}");
            }
            return nodes.iter().map(ToString::to_string).collect();
        }
        lab.world.run_for(Duration::from_millis(1));
    }
    panic!("no answer");
}

/// The moments at which something else happens while a group is made.
fn moments() -> impl Iterator<Item = Duration> {
    (0..100).map(|tenths| Duration::from_micros(tenths * 150))
}

#[test]
fn one_node_makes_two_groups_at_once() {
    for after in moments() {
        let mut lab = free(&["a", "b", "c"]);
        let one = make(&mut lab, "a", "one", &["a", "b"]);
        lab.world.run_for(after);
        // This one is made at once, and ends the link between the free nodes a and b.
        let two = make(&mut lab, "a", "two", &["a"]);
        assert_eq!(joined(&mut lab, &one, "one"), ["a", "b"], "{after:?}");
        assert_eq!(joined(&mut lab, &two, "two"), ["a"], "{after:?}");
    }
}

/// One that is being made counts too: else the second one would have a member that is not in it.
#[test]
fn groups_that_are_made_at_once_are_no_more_than_a_node_may_be_in() {
    let mut lab = Lab::new();
    let limits = Limits {
        groups_max: 1,
        ..Limits::default()
    };
    let options = lab.options("a").limits(limits);
    lab.world.start(options).expect("a node");
    lab.start(&["b"]);
    let one = make(&mut lab, "a", "one", &["a", "b"]);
    let two = lab.ask("a", new_group("two", &["a", "b"]));
    assert_eq!(two, Answer::Group(Err(GroupError::Busy)));
    assert_eq!(joined(&mut lab, &one, "one"), ["a", "b"]);
    // One that comes to nothing makes room.
    let gone = lab.ask("a", Command::DeleteGroup("one".into()));
    assert_eq!(gone, Answer::Done(Ok(())));
    let two = make(&mut lab, "a", "two", &["a", "b"]);
    assert_eq!(joined(&mut lab, &two, "two"), ["a", "b"]);
}

#[test]
fn two_nodes_make_groups_with_the_same_others_at_once() {
    for after in moments() {
        let mut lab = free(&["a", "b", "c", "d"]);
        let one = make(&mut lab, "a", "one", &["a", "b", "c"]);
        lab.world.run_for(after);
        let two = make(&mut lab, "d", "two", &["b", "c", "d"]);
        assert_eq!(joined(&mut lab, &one, "one"), ["a", "b", "c"], "{after:?}");
        assert_eq!(joined(&mut lab, &two, "two"), ["b", "c", "d"], "{after:?}");
    }
}

#[test]
fn a_node_that_makes_a_group_is_added_to_another_one_meanwhile() {
    for after in moments() {
        let mut lab = free(&["a", "b", "c", "d"]);
        lab.group("c", "old", &["c", "d"]);
        let new = make(&mut lab, "a", "new", &["a", "b"]);
        lab.world.run_for(after);
        let add = Command::AddNodes {
            group: "old".into(),
            nodes: vec![name("a")],
        };
        let add = lab.world.command(&name("c"), add);
        assert_eq!(joined(&mut lab, &new, "new"), ["a", "b"], "{after:?}");
        lab.world.run_for(SECOND);
        let added = Answer::Group(Ok(("old".into(), vec![name("a")])));
        assert_eq!(add.take(), Some(added), "{after:?}");
    }
}

#[test]
fn a_group_is_made_while_the_only_other_one_in_common_is_deleted() {
    for after in moments() {
        let mut lab = free(&["a", "b"]);
        lab.group("a", "old", &["a", "b"]);
        let new = make(&mut lab, "b", "new", &["a", "b"]);
        lab.world.run_for(after);
        let delete = lab
            .world
            .command(&name("a"), Command::DeleteGroup("old".into()));
        assert_eq!(joined(&mut lab, &new, "new"), ["a", "b"], "{after:?}");
        lab.world.run_for(SECOND);
        assert_eq!(delete.take(), Some(Answer::Done(Ok(()))), "{after:?}");
    }
}

/// What is written last on one connection may be read after all that is said on the next one.
#[test]
fn a_node_is_linked_again_before_the_end_of_the_last_link_is_known() {
    let costs = Costs {
        latency: Duration::ZERO,
        jitter: Duration::from_millis(100),
        ..Costs::default()
    };
    for seed in 0..500 {
        let mut lab = free_in(World::new(seed, costs), &["a", "b"]);
        for (from, to) in [("a", "b"), ("b", "a")].repeat(3) {
            lab.world
                .command(&name(from), Command::Disconnect(name(to)));
            let answer = lab.ask(from, Command::Connect(name(to)));
            assert_eq!(answer, Answer::Done(Ok(())), "{seed}");
            lab.world.run_for(SECOND);
        }
    }
}

/// A machine that stands still for longer than a link may be silent: nobody hears anybody, and what
/// was said before is read late.
#[test]
fn nodes_that_stand_still_together_do_not_take_each_other_for_lost() {
    let mut lab = free(&["a", "b", "c"]);
    lab.group("a", "g", &["a", "b", "c"]);
    for node in ["a", "b", "c"] {
        lab.world.notes(&name(node));
    }
    let limits = Limits::default();
    // At any moment between two heart-beats.
    for tenths in 0..20 {
        lab.world
            .run_for(limits.heartbeat + limits.heartbeat * tenths / 20);
        for is_frozen in [true, false] {
            for node in ["c", "b", "a"] {
                lab.world.freeze(&name(node), is_frozen);
            }
            lab.world.run_for(limits.silence * 2);
        }
        for node in ["a", "b", "c"] {
            assert_eq!(lab.world.notes(&name(node)), [], "{node} {tenths}");
        }
    }
    // Who stands still alone is lost.
    lab.world.freeze(&name("b"), true);
    lab.world.run_for(limits.silence + limits.heartbeat * 2);
    for node in ["a", "c"] {
        let notes = lab.world.notes(&name(node));
        let down = Note::LinkDown(name("b"), Refusal::Silent);
        assert!(notes.contains(&down), "{node} {notes:?}");
    }
}

#[test]
fn a_group_is_made_by_nodes_that_stand_still_meanwhile() {
    for after in moments() {
        let mut lab = free(&["a", "b"]);
        let ticket = make(&mut lab, "a", "g", &["a", "b"]);
        lab.world.run_for(after);
        for is_frozen in [true, false] {
            for node in ["a", "b"] {
                lab.world.freeze(&name(node), is_frozen);
            }
            if is_frozen {
                lab.world.run_for(Limits::default().ask * 2);
            }
        }
        assert_eq!(joined(&mut lab, &ticket, "g"), ["a", "b"], "{after:?}");
    }
}
