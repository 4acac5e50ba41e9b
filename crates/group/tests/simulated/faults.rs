//! What is hard to bring about with sockets: supervision of processes elsewhere, nodes that vanish
//! without a word, links that are cut and healed, readers that stop reading, bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use group::supervise::{Child, Intensity, Restart, Strategy, Supervisor};
use group::{
    Answer, Body, CallError, Choice, Command, Event, Limits, Name, Note, Pid, Predicate, Process,
    Refusal, Scope, SpawnError, Test, Value,
};

use crate::lab::{Lab, SECOND, name};

#[test]
fn a_node_that_vanishes_is_noticed_by_its_silence() {
    let mut lab = Lab::new();
    lab.start(&["a", "b"]);
    lab.group("a", "g", &["a", "b"]);
    let pid = lab.spawn("a", "b", "worker", "").unwrap();
    lab.watch("a", &pid);
    lab.world.vanish(&name("b"));
    lab.world.run_for(SECOND * 5);
    assert!(lab.noted().is_empty(), "nothing tells yet");
    lab.world.run_for(SECOND * 30);
    let mut noted = lab.noted();
    noted.sort();
    assert_eq!(
        noted,
        [
            "down: no connection to its node",
            "exit: no connection to its node",
            "gone: b: nothing was heard in time",
        ]
    );
    assert_eq!(lab.call("a", &pid, "x"), Err(CallError::NoConnection));
    // The next life is another one: nothing of the last one is in it.
    lab.start(&["b"]);
    lab.world.run_for(SECOND * 40);
    assert_eq!(lab.call("a", &pid, "x"), Err(CallError::NoProcess));
    lab.watch("a", &pid);
    assert!(
        lab.noted()
            .iter()
            .any(|text| text == "down: no such process")
    );
}

#[test]
fn a_call_ends_when_its_process_or_its_time_does() {
    let mut lab = Lab::new();
    lab.start(&["a", "b"]);
    for node in ["a", "b"] {
        let pid = lab.spawn("a", node, "worker", "").unwrap();
        assert_eq!(lab.call("a", &pid, "hello").unwrap(), "hello");
        assert_eq!(lab.call("a", &pid, "silence"), Err(CallError::Timeout));
        assert_eq!(lab.call("a", &pid, "die"), Err(CallError::Dropped));
        assert_eq!(lab.call("a", &pid, "x"), Err(CallError::NoProcess));
    }
    assert_eq!(lab.spawn("a", "b", "none", ""), Err(SpawnError::NoFunction));
    assert_eq!(
        lab.spawn("a", "z", "worker", ""),
        Err(SpawnError::NoConnection)
    );
}

#[test]
fn a_supervisor_starts_its_children_again_on_other_nodes() {
    let mut lab = Lab::new();
    let child = |nodes: &[&str]| Child {
        function: "worker".into(),
        args: Body::new(),
        nodes: nodes.iter().map(|node| name(node)).collect(),
        restart: Restart::Permanent,
    };
    for (strategy, restarted) in [
        (Strategy::OneForOne, [false, true, false]),
        (Strategy::RestForOne, [false, true, true]),
        (Strategy::OneForAll, [true, true, true]),
    ] {
        let top = format!("top{strategy:?}");
        let children = vec![child(&["b", "c"]), child(&["c", "b"]), child(&["b"])];
        let options = lab.options(&top).function("supervisor", move |_: &Body| {
            let intensity = Intensity {
                max_restarts: 3,
                within: SECOND * 5,
            };
            Box::new(Supervisor::new(strategy, intensity, children.clone())) as Box<dyn Process>
        });
        lab.start(&["b", "c"]);
        lab.world.start(options).expect("a node");
        let supervisor = lab.spawn(&top, &top, "supervisor", "").unwrap();
        lab.world.run_for(SECOND);
        let children = |lab: &mut Lab| -> Vec<String> {
            let text = lab.call(&top, &supervisor, "").unwrap();
            let text = String::from_utf8(text.to_vec()).unwrap();
            text.lines().map(str::to_owned).collect()
        };
        let before = children(&mut lab);
        assert!(before[1].contains("<c/"), "{before:?}");
        lab.world.crash(&name("c"));
        lab.world.run_for(SECOND * 2);
        let after = children(&mut lab);
        assert!(after[1].contains("<b/"), "{after:?}");
        let changed: Vec<bool> = before.iter().zip(&after).map(|(a, b)| a != b).collect();
        assert_eq!(changed, restarted, "{strategy:?}: {before:?} {after:?}");
        // Without any node for them the bound on restarts ends it.
        lab.world.crash(&name("b"));
        lab.world.run_for(SECOND * 10);
        assert_eq!(lab.call(&top, &supervisor, ""), Err(CallError::NoProcess));
    }
}

#[test]
fn a_network_that_was_split_agrees_again() {
    let mut lab = Lab::new();
    let nodes = ["a", "b", "c", "d"];
    lab.start(&nodes);
    lab.group("a", "g", &nodes);
    let both: Vec<Pid> = ["a", "c"]
        .iter()
        .map(|n| lab.spawn(n, n, "worker", "").unwrap())
        .collect();
    lab.cut(&["a", "b"], &["c", "d"], true);
    lab.world.run_for(SECOND * 40);
    // Each side goes on by itself: both register the name, and c leaves d out.
    lab.register("a", "g", "boss", &both[0]).unwrap();
    lab.register("c", "g", "boss", &both[1]).unwrap();
    let removed = lab.ask(
        "c",
        Command::RemoveNodes {
            group: "g".into(),
            nodes: vec![name("d")],
        },
    );
    assert_eq!(removed, Answer::Done(Ok(())));
    lab.cut(&["a", "b"], &["c", "d"], false);
    lab.world.run_for(SECOND * 90);
    // One of the two has the name, for everybody; the other one ended.
    for node in ["a", "b", "c"] {
        assert_eq!(
            lab.whereis(node, "g", "boss"),
            Some(both[0].clone()),
            "{node}"
        );
    }
    assert_eq!(lab.call("a", &both[1], "x"), Err(CallError::NoProcess));
    let notes = lab.world.notes(&name("c"));
    assert!(
        notes.iter().any(|note| matches!(note, Note::Clash(..))),
        "{notes:?}"
    );
    // The later view holds everywhere.
    for node in ["a", "b", "c"] {
        let members = vec![name("a"), name("b"), name("c")];
        let groups = lab.ask(node, Command::OwnGroups);
        assert_eq!(groups, Answer::OwnGroups(vec![("g".into(), members)]));
    }
    assert_eq!(lab.ask("d", Command::OwnGroups), Answer::OwnGroups(vec![]));
}

#[test]
fn a_reader_that_stops_holds_its_senders_and_at_last_loses_its_link() {
    struct Flood {
        to: Pid,
        sent: Arc<AtomicU64>,
        is_refused: bool,
    }
    impl Process for Flood {
        fn started(&mut self, cx: &mut Scope<'_, '_>) {
            let me = cx.me().clone();
            cx.send(&me, "go").expect("room");
        }
        fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
            // Once the link is gone its messages wait for another, up to a bound: then it gives up.
            self.is_refused |= matches!(event, Event::Refused { .. });
            if matches!(event, Event::Message { .. }) && !self.is_refused {
                cx.send(&self.to, vec![0; 1_000]).expect("room");
                self.sent.fetch_add(1, Ordering::Relaxed);
                let me = cx.me().clone();
                cx.send(&me, "go").expect("room");
            }
        }
    }
    let mut lab = Lab::new();
    lab.start(&["b"]);
    let to = lab.spawn("b", "b", "worker", "").unwrap();
    let sent = Arc::new(AtomicU64::new(0));
    let limits = Limits {
        link_bytes_high: 100_000,
        link_bytes_max: 150_000,
        pending_max: 8,
        silence: SECOND * 3_600,
        ..Limits::default()
    };
    let (count, target) = (Arc::clone(&sent), to.clone());
    let options = lab
        .options("a")
        .limits(limits)
        .function("flood", move |_: &Body| {
            let (to, sent) = (target.clone(), Arc::clone(&count));
            let is_refused = false;
            Box::new(Flood {
                to,
                sent,
                is_refused,
            }) as Box<dyn Process>
        });
    lab.world.start(options).unwrap();
    lab.ask("a", Command::Connect(name("b")));
    lab.world.stall(&name("b"), true);
    let flood = lab.spawn("a", "a", "flood", "").unwrap();
    lab.world.run_for(SECOND);
    let held = sent.load(Ordering::Relaxed);
    assert!((90..150).contains(&held), "held after {held}");
    lab.world.run_for(SECOND);
    assert_eq!(sent.load(Ordering::Relaxed), held, "the sender rests");
    // The node itself is not held by that, nor are its commands: only they may break the bound.
    for _ in 0..60 {
        let (to, body) = (to.clone(), vec![0; 1_000].into());
        lab.ask("a", Command::SendTo { to, body });
    }
    let notes = lab.world.notes(&name("a"));
    let lost = Note::LinkDown(name("b"), Refusal::Backlog);
    assert!(notes.contains(&lost), "{notes:?}");
    lab.world.stall(&name("b"), false);
    let kill = lab.ask("a", Command::Kill(flood));
    assert_eq!(kill, Answer::Done(Ok(())));
    lab.world.run_for(SECOND);
    assert_eq!(lab.call("a", &to, "alive").unwrap(), "alive");
}

#[test]
fn a_reader_that_goes_on_lets_its_senders_go_on() {
    let mut lab = Lab::new();
    lab.start(&["b"]);
    let to = lab.spawn("b", "b", "worker", "").unwrap();
    struct Burst(Pid);
    impl Process for Burst {
        fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
            match event {
                Event::Message { .. } => cx.send(&self.0, vec![0; 1_000]).expect("room"),
                Event::Request { from, body } => cx.reply(from, body).expect("room"),
                _ => {}
            }
        }
    }
    let limits = Limits {
        link_bytes_high: 10_000,
        ..Limits::default()
    };
    let target = to;
    let options = lab
        .options("a")
        .limits(limits)
        .function("burst", move |_: &Body| {
            Box::new(Burst(target.clone())) as Box<dyn Process>
        });
    lab.world.start(options).unwrap();
    lab.ask("a", Command::Connect(name("b")));
    lab.world.stall(&name("b"), true);
    let burst = lab.spawn("a", "a", "burst", "").unwrap();
    for _ in 0..100 {
        let (to, body) = (burst.clone(), Body::from_static(b"go"));
        lab.ask("a", Command::SendTo { to, body });
    }
    assert!(lab.heard.load(Ordering::Relaxed) == 0);
    lab.world.stall(&name("b"), false);
    lab.world.run_for(SECOND);
    assert_eq!(lab.heard.load(Ordering::Relaxed), 100, "nothing is lost");
    assert_eq!(lab.call("b", &burst, "x").unwrap(), "x");
}

#[test]
fn one_store_of_attributes_serves_every_choice() {
    let mut lab = Lab::new();
    lab.start(&["a", "b", "c"]);
    lab.group("a", "g", &["a", "b", "c"]);
    let nodes = [name("b"), name("c")];
    let added = lab.ask(
        "a",
        Command::AddAttributes {
            nodes: Some(nodes.to_vec()),
            list: vec![("ssd".into(), true.into()), ("rack".into(), Value::Int(2))],
        },
    );
    assert_eq!(added, Answer::Nodes(nodes.to_vec()));
    let removed = lab.ask(
        "c",
        Command::RemoveAttributes {
            nodes: None,
            names: vec!["ssd".into()],
        },
    );
    assert_eq!(removed, Answer::Nodes(vec![name("c")]));
    let by_group = vec![Choice::Group("g".into()), Choice::Attribute("ssd".into())];
    let chosen = lab.ask("a", Command::ChooseNodes(by_group));
    assert_eq!(chosen, Answer::Nodes(vec![name("b")]));
    let only_group = vec![Choice::Group("g".into())];
    let chosen = lab.ask("a", Command::ChooseNodes(only_group));
    assert_eq!(chosen, Answer::Nodes(nodes.to_vec()));
    let by_predicate = Command::ChooseBy {
        nodes: vec![name("a"), name("b"), name("c"), name("nowhere")],
        predicates: vec![Predicate::new("rack", Test::Ge(Value::Int(2)))],
        deadline: SECOND,
    };
    match lab.ask("a", by_predicate) {
        Answer::Chosen {
            nodes: chosen,
            missing,
        } => {
            assert_eq!(chosen, nodes);
            assert_eq!(missing, [(name("nowhere"), group::Missing::NotFound)]);
        }
        other => panic!("{other:?}"),
    }
    let values = lab.ask(
        "a",
        Command::RequestAttributes {
            nodes: vec![name("b")],
            names: vec!["rack".into(), "actors".into()],
            deadline: SECOND,
        },
    );
    let Answer::Values(values) = values else {
        panic!("{values:?}");
    };
    let told = values[&name("b")].clone().unwrap();
    assert_eq!(told[&Name::from("rack")], Value::Int(2));
    assert_eq!(told[&Name::from("actors")], Value::Int(0));
}

/// The winner of a name runs on a node that has vanished, which nobody knows yet.
#[test]
fn no_process_ends_for_a_name_whose_winner_does_not_answer() {
    let mut lab = Lab::new();
    let limits = Limits {
        redial_max: SECOND,
        ..Limits::default()
    };
    for node in ["far", "keep", "live"] {
        let options = lab.options(node).limits(limits.clone());
        lab.world.start(options).unwrap();
    }
    lab.group("keep", "g", &["keep", "live"]);
    // The smaller address wins, and is that of a node outside of the group.
    let winner = lab.spawn("far", "far", "worker", "").unwrap();
    let living = lab.spawn("live", "live", "worker", "").unwrap();
    lab.cut(&["keep"], &["live"], true);
    lab.world.run_for(SECOND * 40);
    lab.register("keep", "g", "boss", &winner).unwrap();
    lab.register("live", "g", "boss", &living).unwrap();
    lab.world.vanish(&name("far"));
    lab.cut(&["keep"], &["live"], false);
    lab.world.run_for(SECOND * 5);
    let boss = lab.whereis("live", "g", "boss");
    assert_eq!(boss, Some(winner), "they have met");
    assert_eq!(lab.call("live", &living, "x").unwrap(), "x");
    lab.world.run_for(SECOND * 30);
    for node in ["keep", "live"] {
        assert_eq!(lab.whereis(node, "g", "boss"), Some(living.clone()));
    }
    assert_eq!(lab.call("keep", &living, "x").unwrap(), "x");
    let notes = lab.world.notes(&name("live"));
    assert!(!notes.iter().any(|note| matches!(note, Note::Clash(..))));
}

#[test]
fn a_process_of_a_past_life_is_not_that_of_the_same_number() {
    let mut lab = Lab::new();
    lab.start(&["a", "b"]);
    let old = lab.spawn("a", "b", "worker", "").unwrap();
    lab.world.crash(&name("b"));
    lab.start(&["b"]);
    let new = lab.spawn("a", "b", "worker", "").unwrap();
    assert_eq!(new.id, old.id, "or this shows nothing");
    assert_eq!(lab.ask("a", Command::Kill(old)), Answer::Done(Ok(())));
    lab.world.run_for(SECOND);
    assert_eq!(lab.call("a", &new, "x").unwrap(), "x");
}
