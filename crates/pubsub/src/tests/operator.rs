//! What whoever runs the service does to nodes.

use super::*;
use crate::Act;

fn operate(world: &mut World, node: &str, act: Act) -> bool {
    let node = node.to_owned();
    world.event(Event::Operate { node, act })
}

#[test]
fn a_node_is_emptied_and_ended_whoever_owns_it() {
    let mut world = World::with_node(&[("notify_retract", "1")]);
    world.subscribe(FRANCISCO).unwrap();
    world.publish(HAMLET, "a").unwrap();
    world.mail.clear();
    assert!(operate(&mut world, NODE, Act::Purge));
    assert!(world.store.is_empty());
    let told = world.read_one("francisco@denmark.example");
    assert!(told.contains("<purge node='princely_musings'/>"), "{told}");
    assert!(operate(&mut world, NODE, Act::Delete));
    assert!(world.service.state().is_empty());
    let told = world.read_one("francisco@denmark.example");
    assert!(told.contains("<delete node='princely_musings'/>"), "{told}");
    // Nobody has asked for it, so nobody is answered.
    assert!(world.mail.values().all(Vec::is_empty), "{:?}", world.mail);
}

#[test]
fn of_a_node_that_is_not_there_nothing_comes() {
    let mut world = World::denmark();
    let before = world.appends;
    for act in [Act::Purge, Act::Delete] {
        assert!(operate(&mut world, "elsewhere", act));
    }
    assert_eq!(world.appends, before);
}

#[test]
fn it_waits_for_a_node_that_is_being_changed_and_may_fail() {
    let mut world = World::denmark();
    world.publish(HAMLET, "a").unwrap();
    world.decides = None;
    assert!(operate(&mut world, NODE, Act::Purge));
    assert!(!operate(&mut world, NODE, Act::Delete), "it is busy");
    let is_committed = false;
    assert!(world.event(Event::Decided { is_committed }));
    let node = world.service.state().node(NODE).unwrap();
    assert_eq!(node.all_items().len(), 1);
    world.decides = Some(true);
    assert!(operate(&mut world, NODE, Act::Delete));
    assert!(world.service.state().is_empty());
}
