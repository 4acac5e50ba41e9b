//! Every bound that a node has, reached: what is answered then, and that the node goes on.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use group::{
    Answer, Body, CallError, Command, Event, GroupError, Limits, Name, Note, Pid, Process, Refusal,
    Scope, SpawnError, Value,
};

use crate::lab::{Lab, SECOND, name};

/// Starts a node with some bounds.
fn start(lab: &mut Lab, node: &str, limits: Limits) {
    let options = lab.options(node).without_attributes().limits(limits);
    lab.world.start(options).unwrap();
}

fn call(to: &Pid, body: &str) -> Command {
    Command::Call {
        to: to.clone(),
        body: body.to_owned().into(),
        deadline: SECOND * 9,
    }
}

#[test]
fn bounds_are_reached_by_name() {
    let mut lab = Lab::new();
    let limits = Limits {
        processes_max: 2,
        groups_max: 1,
        names_max: 1,
        members_max: 2,
        attributes_max: 1,
        links_max: 2,
        ..Limits::default()
    };
    let options = lab.options("a").without_attributes().limits(limits);
    lab.world.start(options).unwrap();
    lab.start(&["b", "c", "d"]);
    let first = lab.spawn("b", "a", "worker", "").unwrap();
    let second = lab.spawn("b", "a", "worker", "").unwrap();
    assert_eq!(lab.spawn("b", "a", "worker", ""), Err(SpawnError::Full));
    lab.group("a", "g", &["a", "b", "c"]);
    let groups = lab.ask("a", Command::NodesOf("g".into()));
    assert_eq!(groups, Answer::Nodes(vec![name("a"), name("b")]));
    let more = Command::NewGroup {
        name: Some("h".into()),
        nodes: vec![name("a")],
    };
    assert_eq!(lab.ask("a", more), Answer::Group(Err(GroupError::Busy)));
    let more = Command::AddNodes {
        group: "g".into(),
        nodes: vec![name("c")],
    };
    assert_eq!(lab.ask("a", more), Answer::Group(Err(GroupError::Busy)));
    lab.register("a", "g", "one", &first).unwrap();
    assert_eq!(
        lab.register("a", "g", "two", &second),
        Err(GroupError::Busy)
    );
    let set = |key: &str| Command::AddAttributes {
        nodes: None,
        list: vec![(key.into(), Value::Int(1))],
    };
    assert_eq!(lab.ask("a", set("x")), Answer::Nodes(vec![name("a")]));
    assert_eq!(lab.ask("a", set("y")), Answer::Nodes(vec![]));
    // Two links, and no third.
    assert_eq!(
        lab.ask("c", Command::Connect(name("a"))),
        Answer::Done(Ok(()))
    );
    let refused = lab.ask("d", Command::Connect(name("a")));
    assert_eq!(
        refused,
        Answer::Done(Err(GroupError::Refused(Refusal::Full)))
    );
}

/// Sends two messages at once, and notes what comes back.
struct Twice {
    to: Pid,
    heard: Arc<Mutex<Vec<CallError>>>,
}

impl Process for Twice {
    fn started(&mut self, cx: &mut Scope<'_, '_>) {
        for _ in 0..2 {
            cx.send(&self.to, "x").expect("room");
        }
    }

    fn handle(&mut self, event: Event, _: &mut Scope<'_, '_>) {
        if let Event::Refused { reason, .. } = event {
            self.heard.lock().expect("no panic").push(reason);
        }
    }
}

#[test]
fn a_message_to_a_full_mailbox_comes_back() {
    let mut lab = Lab::new();
    let limits = Limits {
        mailbox_max: 1,
        ..Limits::default()
    };
    start(&mut lab, "a", limits);
    let to = lab.spawn("a", "a", "worker", "").unwrap();
    let heard: Arc<Mutex<Vec<CallError>>> = Arc::default();
    let (target, notes) = (to.clone(), Arc::clone(&heard));
    let options = lab.options("b").function("twice", move |_: &Body| {
        let (to, heard) = (target.clone(), Arc::clone(&notes));
        Box::new(Twice { to, heard }) as Box<dyn Process>
    });
    lab.world.start(options).unwrap();
    lab.ask("b", Command::Connect(name("a")));
    lab.spawn("b", "b", "twice", "").unwrap();
    lab.world.run_for(SECOND);
    assert_eq!(*heard.lock().unwrap(), [CallError::Full]);
    assert_eq!(lab.heard.load(Ordering::Relaxed), 1);
    assert_eq!(lab.call("b", &to, "x").unwrap(), "x");
}

#[test]
fn a_node_in_as_many_groups_as_it_may_be_declines_invitations() {
    let mut lab = Lab::new();
    let limits = Limits {
        groups_max: 1,
        ..Limits::default()
    };
    start(&mut lab, "a", limits);
    lab.start(&["b"]);
    lab.group("a", "g", &["a"]);
    lab.group("b", "h", &["a", "b"]);
    let members = lab.ask("b", Command::NodesOf("h".into()));
    assert_eq!(members, Answer::Nodes(vec![name("b")]));
}

#[test]
fn questions_beyond_the_bound_fail_at_once_and_names_are_told_all_the_same() {
    let mut lab = Lab::new();
    let limits = Limits {
        asks_max: 2,
        ..Limits::default()
    };
    start(&mut lab, "a", limits);
    lab.start(&["b", "c"]);
    lab.group("a", "g", &["a", "b", "c"]);
    let pid = lab.spawn("a", "b", "worker", "").unwrap();
    let own = lab.spawn("a", "a", "worker", "").unwrap();
    let waiting = [0, 1].map(|_| lab.world.command(&name("a"), call(&pid, "silence")));
    for (to, error) in [
        (&pid, CallError::NoConnection),
        (&own, CallError::NoProcess),
    ] {
        let refused = lab.world.command(&name("a"), call(to, "x"));
        let answer = refused.take();
        assert_eq!(answer, Some(Answer::Called(Err(error))), "at once");
    }
    // What a keeper tells does not depend on room for an answer. What it is ordered to do does.
    lab.register("a", "g", "n", &own).unwrap();
    let busy = lab.register("a", "g", "far", &pid);
    assert_eq!(busy, Err(GroupError::Busy));
    lab.world.run_for(SECOND);
    assert!(waiting.iter().all(|ticket| ticket.take().is_none()));
    for node in ["a", "b", "c"] {
        assert_eq!(lab.whereis(node, "g", "n"), Some(own.clone()), "{node}");
    }
    lab.world.run_for(SECOND * 9);
    for ticket in waiting {
        let timeout = Answer::Called(Err(CallError::Timeout));
        assert_eq!(ticket.take(), Some(timeout));
    }
    assert_eq!(lab.call("a", &pid, "x").unwrap(), "x");
}

#[test]
fn commands_beyond_the_bound_are_busy() {
    let mut lab = Lab::new();
    // A registration by the node that orders and keeps it: three operations.
    let limits = Limits {
        operations_max: 3,
        ..Limits::default()
    };
    start(&mut lab, "a", limits);
    lab.start(&["b"]);
    lab.group("a", "g", &["a", "b"]);
    let pid = lab.spawn("a", "a", "worker", "").unwrap();
    let other = lab.spawn("a", "a", "worker", "").unwrap();
    lab.world.stall(&name("b"), true);
    let register = Command::Register {
        group: "g".into(),
        name: "n".into(),
        pid,
        mode: group::Mode::New,
    };
    let first = lab.world.command(&name("a"), register);
    assert_eq!(lab.register("a", "g", "m", &other), Err(GroupError::Busy));
    let unregister = Command::Unregister {
        group: "g".into(),
        name: "m".into(),
    };
    let busy = Answer::Done(Err(GroupError::Busy));
    assert_eq!(lab.ask("a", unregister), busy);
    let make = Command::NewGroup {
        name: None,
        nodes: vec![name("a")],
    };
    let busy = Answer::Group(Err(GroupError::Busy));
    assert_eq!(lab.ask("a", make), busy);
    assert_eq!(first.take(), None);
    lab.world.stall(&name("b"), false);
    lab.world.run_for(SECOND);
    assert_eq!(first.take(), Some(Answer::Done(Ok(()))));
    lab.register("a", "g", "m", &other).unwrap();
}

#[test]
fn a_dial_that_nobody_answers_holds_a_bounded_number_of_frames_for_a_bounded_time() {
    let mut lab = Lab::new();
    let limits = Limits {
        pending_max: 1,
        operations_max: 1,
        ..Limits::default()
    };
    start(&mut lab, "a", limits.clone());
    lab.start(&["b"]);
    let pid = lab.spawn("b", "b", "worker", "").unwrap();
    lab.world.stall(&name("b"), true);
    let first = lab.world.command(&name("a"), call(&pid, "x"));
    let second = lab.world.command(&name("a"), call(&pid, "x"));
    let connect = lab.world.command(&name("a"), Command::Connect(name("b")));
    let another = lab.world.command(&name("a"), Command::Connect(name("b")));
    let gone = Answer::Called(Err(CallError::NoConnection));
    assert_eq!(second.take(), Some(gone.clone()), "no room");
    let busy = Answer::Done(Err(GroupError::Busy));
    assert_eq!(another.take(), Some(busy));
    lab.world.run_for(limits.handshake - SECOND);
    assert_eq!((first.take(), connect.take()), (None, None));
    lab.world.run_for(SECOND * 2);
    assert_eq!(first.take(), Some(gone));
    let silent = GroupError::Refused(Refusal::Silent);
    assert_eq!(connect.take(), Some(Answer::Done(Err(silent))));
    lab.world.stall(&name("b"), false);
    assert_eq!(lab.call("a", &pid, "x").unwrap(), "x");
}

#[test]
fn relations_with_other_nodes_beyond_the_bound_end_at_once() {
    let mut lab = Lab::new();
    let limits = Limits {
        relations_max: 1,
        ..Limits::default()
    };
    start(&mut lab, "a", limits);
    lab.start(&["b"]);
    let far = lab.spawn("a", "b", "worker", "").unwrap();
    let near = lab.spawn("a", "a", "worker", "").unwrap();
    // A link first, which fits, then a monitor, which does not.
    let full = "down: exceeded its bound of links and monitors with other nodes";
    lab.watch("a", &far);
    assert_eq!(lab.noted(), [full]);
    // Nor one of another node's.
    lab.watch("b", &near);
    let (down, exit) = (full.to_owned(), full.replace("down", "exit"));
    let mut noted = lab.noted();
    noted.retain(|text| !text.starts_with("up"));
    noted.sort();
    assert_eq!(noted, [down, exit]);
    // Those of processes of one node are not among them.
    lab.watch("a", &near);
    assert!(lab.noted().is_empty());
}

#[test]
fn a_message_that_is_too_large_is_dropped_and_its_asker_told() {
    let mut lab = Lab::new();
    let limits = Limits {
        frame_bytes_max: 4_096,
        ..Limits::default()
    };
    start(&mut lab, "a", limits);
    lab.start(&["b"]);
    let pid = lab.spawn("a", "b", "worker", "").unwrap();
    let large = "x".repeat(5_000);
    let failed = lab.call("a", &pid, &large);
    assert_eq!(failed, Err(CallError::NoConnection));
    let notes = lab.world.notes(&name("a"));
    assert!(notes.contains(&Note::Dropped(name("b"))), "{notes:?}");
    assert_eq!(lab.call("a", &pid, "x").unwrap(), "x");
    // What comes that is too large ends the link.
    let to = lab.spawn("b", "a", "worker", "").unwrap();
    let failed = lab.call("b", &to, &large);
    assert_eq!(failed, Err(CallError::NoConnection));
    assert_eq!(lab.call("b", &to, "x").unwrap(), "x");
}

/// More names than one frame has room for, told when two members meet again.
#[test]
fn what_a_node_keeps_is_told_in_as_many_frames_as_it_needs() {
    let mut lab = Lab::new();
    let limits = Limits {
        frame_bytes_max: 2_048,
        ..Limits::default()
    };
    for node in ["a", "b"] {
        let options = lab.options(node).limits(limits.clone()).many_names();
        lab.world.start(options).unwrap();
    }
    lab.group("a", "g", &["a", "b"]);
    let pid = lab.spawn("a", "a", "worker", "").unwrap();
    let key = |n: usize| format!("{}{n:03}", "k".repeat(100));
    for n in 0..100 {
        lab.register("a", "g", &key(n), &pid).unwrap();
    }
    lab.cut(&["a"], &["b"], true);
    lab.world.run_for(SECOND * 40);
    assert_eq!(lab.whereis("b", "g", &key(0)), None);
    lab.cut(&["a"], &["b"], false);
    lab.world.run_for(SECOND * 60);
    for n in 0..100 {
        assert_eq!(lab.whereis("b", "g", &key(n)), Some(pid.clone()), "{n}");
    }
    let notes = lab.world.notes(&name("a"));
    assert!(!notes.contains(&Note::Dropped(name("b"))), "{notes:?}");
    // And they are settled: b registers one more.
    lab.register("b", "g", "one more", &pid).unwrap();
    assert_eq!(lab.whereis("a", "g", "one more"), Some(pid));
}

#[test]
fn a_group_that_was_deleted_is_remembered_until_there_are_too_many() {
    for (tombstones_max, stays) in [(2, vec![]), (1, vec!["g"])] {
        let mut lab = Lab::new();
        let limits = Limits {
            tombstones_max,
            ..Limits::default()
        };
        start(&mut lab, "a", limits);
        lab.start(&["b"]);
        for group in ["g", "h"] {
            lab.group("a", group, &["a", "b"]);
        }
        lab.world.crash(&name("b"));
        lab.world.run_for(SECOND);
        for group in ["g", "h"] {
            let delete = Command::DeleteGroup(group.into());
            assert_eq!(lab.ask("a", delete), Answer::Done(Ok(())));
        }
        lab.start(&["b"]);
        lab.ask("b", Command::Connect(name("a")));
        lab.world.run_for(SECOND);
        let members = vec![name("a"), name("b")];
        let own = stays
            .into_iter()
            .map(|group| (group.into(), members.clone()));
        let own = Answer::OwnGroups(own.collect());
        for node in ["a", "b"] {
            assert_eq!(lab.ask(node, Command::OwnGroups), own, "{tombstones_max}");
        }
    }
}

#[test]
fn groups_of_others_beyond_the_bound_are_asked_for_again() {
    let mut lab = Lab::new();
    let limits = Limits {
        known_max: 1,
        ..Limits::default()
    };
    start(&mut lab, "a", limits);
    lab.start(&["b", "c", "d"]);
    // Groups that a hears of by b alone, who is in none of them.
    lab.ask("b", Command::Connect(name("c")));
    for group in ["g", "h"] {
        lab.group("c", group, &["c"]);
    }
    let pid = lab.spawn("c", "c", "worker", "").unwrap();
    lab.register("c", "g", "n", &pid).unwrap();
    lab.register("c", "h", "n", &pid).unwrap();
    lab.ask("b", Command::Connect(name("c")));
    lab.ask("a", Command::Connect(name("b")));
    lab.world.run_for(SECOND);
    for _ in 0..2 {
        for group in ["g", "h"] {
            assert_eq!(lab.whereis("a", group, "n"), Some(pid.clone()), "{group}");
            lab.ask("a", Command::Disconnect(name("c")));
            lab.world.run_for(SECOND);
        }
        let Answer::Info(info) = lab.ask("a", Command::Info) else {
            panic!("no info");
        };
        let known: Vec<&Name> = info.other_groups.iter().map(|(group, _)| group).collect();
        assert_eq!(known, [&Name::from("g")]);
    }
}

/// A coordinator that cannot be settled, because a member is being dialled and says nothing.
#[test]
fn a_change_that_finds_no_coordinator_gives_up() {
    let text = "[[group]]\nname = 'g'\nnodes = ['a', 'b']\n";
    let mut lab = Lab::new();
    lab.world.start(lab.options("b").config(text)).unwrap();
    lab.world.run_for(SECOND);
    lab.world.stall(&name("b"), true);
    lab.world.start(lab.options("a").config(text)).unwrap();
    let pid = lab.spawn("a", "a", "worker", "").unwrap();
    assert_eq!(
        lab.register("a", "g", "n", &pid),
        Err(GroupError::Timeout),
        "while b may still answer"
    );
    lab.world.run_for(SECOND * 3);
    lab.register("a", "g", "n", &pid).unwrap();
}

/// Members that will never see the same members change their group nevertheless.
#[test]
fn members_that_never_agree_on_who_is_there_go_on_after_some_attempts() {
    let mut lab = Lab::new();
    lab.start(&["a", "b", "c"]);
    lab.cut(&["b"], &["c"], true);
    lab.group("a", "g", &["a", "b", "c"]);
    lab.world.run_for(SECOND * 10);
    let pid = lab.spawn("b", "b", "worker", "").unwrap();
    let before = lab.world.now();
    lab.register("b", "g", "n", &pid).unwrap();
    assert!(
        lab.world.now().saturating_since(before) >= SECOND,
        "twenty attempts"
    );
    for (node, found) in [("a", Some(pid.clone())), ("b", Some(pid)), ("c", None)] {
        assert_eq!(lab.whereis(node, "g", "n"), found, "{node}");
    }
}
