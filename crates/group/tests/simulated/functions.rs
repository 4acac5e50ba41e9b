//! Every function of s_groups with its results and errors, as a user of a node sees them.

use group::{
    Answer, Attribute, AttributeError, Body, Command, GroupError, Info, Mode, Name, NodeName, Note,
    Value,
};

use crate::lab::{Lab, SECOND, name};

fn nodes(list: &[&str]) -> Vec<NodeName> {
    list.iter().map(|node| name(node)).collect()
}

fn new_group(group: &str, list: &[&str]) -> Command {
    Command::NewGroup {
        name: Some(group.into()),
        nodes: nodes(list),
    }
}

fn done(error: GroupError) -> Answer {
    Answer::Done(Err(error))
}

fn joined(group: &str, list: &[&str]) -> Answer {
    Answer::Group(Ok((group.into(), nodes(list))))
}

fn register(group: &str, key: &str, pid: &group::Pid, mode: Mode) -> Command {
    Command::Register {
        group: group.into(),
        name: key.into(),
        pid: pid.clone(),
        mode,
    }
}

#[test]
fn groups_are_made_changed_and_deleted() {
    let mut lab = Lab::new();
    lab.start(&["a", "b", "c", "d"]);
    let bad = [
        (new_group("undefined", &["a"]), GroupError::ReservedName),
        (new_group("no_group", &["a"]), GroupError::ReservedName),
        (new_group("", &["a"]), GroupError::BadName),
        (new_group("g", &["b"]), GroupError::RemoteGroup),
    ];
    for (command, error) in bad {
        assert_eq!(lab.ask("a", command), Answer::Group(Err(error)));
    }
    assert_eq!(lab.ask("a", new_group("g", &[])), joined("g", &[]));
    // Unreachable nodes are left out, and what is named twice counts once.
    let made = lab.ask("a", new_group("g", &["b", "a", "nowhere", "a"]));
    assert_eq!(made, joined("g", &["a", "b"]));
    assert_eq!(
        lab.ask("a", new_group("g", &["a", "c"])),
        Answer::Group(Err(GroupError::NameInUse))
    );
    // Who has a group of the name is left out of another.
    lab.world.run_for(SECOND);
    assert_eq!(
        lab.ask("c", new_group("g", &["c", "a"])),
        joined("g", &["c"])
    );
    let Answer::Group(Ok((random, _))) = lab.ask(
        "d",
        Command::NewGroup {
            name: None,
            nodes: nodes(&["d"]),
        },
    ) else {
        panic!("no group");
    };
    assert_eq!(random.len(), 30);

    let add = |group: &str, list: &[&str]| Command::AddNodes {
        group: group.into(),
        nodes: nodes(list),
    };
    assert_eq!(lab.ask("a", add("g", &["a"])), joined("g", &[]));
    assert_eq!(lab.ask("a", add("g", &["a", "b"])), joined("g", &["b"]));
    assert_eq!(
        lab.ask("a", add("g", &["c", "d", "nowhere"])),
        joined("g", &["d"])
    );
    let stranger = lab.ask("a", add("h", &["d"]));
    assert_eq!(stranger, Answer::Group(Err(GroupError::NotMember)));

    let remove = |group: &str, list: &[&str]| Command::RemoveNodes {
        group: group.into(),
        nodes: nodes(list),
    };
    assert_eq!(lab.ask("a", remove("g", &[])), Answer::Done(Ok(())));
    assert_eq!(
        lab.ask("a", remove("g", &["a"])),
        done(GroupError::CannotRemoveItself)
    );
    assert_eq!(
        lab.ask("a", remove("h", &["b"])),
        done(GroupError::NotMember)
    );
    assert_eq!(lab.ask("a", remove("g", &["b", "c"])), Answer::Done(Ok(())));
    lab.world.run_for(SECOND);
    assert_eq!(lab.ask("b", Command::OwnGroups), Answer::OwnGroups(vec![]));

    let delete = |group: &str| Command::DeleteGroup(group.into());
    assert_eq!(lab.ask("b", delete("g")), done(GroupError::RemoteGroup));
    assert_eq!(lab.ask("d", delete("g")), Answer::Done(Ok(())));
    lab.world.run_for(SECOND);
    assert_eq!(lab.ask("a", Command::OwnGroups), Answer::OwnGroups(vec![]));
    let notes = lab.world.notes(&name("a"));
    for note in [
        Note::Joined("g".into()),
        Note::Added("g".into(), nodes(&["d"])),
        Note::Removed("g".into(), nodes(&["b"])),
        Note::Left("g".into()),
    ] {
        assert!(notes.contains(&note), "{note:?} of {notes:?}");
    }
}

#[test]
fn names_are_registered_found_and_sent_to() {
    let mut lab = Lab::new();
    lab.start(&["a", "b", "c"]);
    lab.group("a", "g", &["a", "b"]);
    lab.group("a", "h", &["a", "b"]);
    let pid = lab.spawn("a", "b", "worker", "").unwrap();
    let other = lab.spawn("a", "a", "worker", "").unwrap();
    let ok = Answer::Done(Ok(()));
    let cases = [
        ("a", register("g", "n", &pid, Mode::New), ok.clone()),
        (
            "a",
            register("g", "n", &other, Mode::New),
            done(GroupError::AlreadyRegistered),
        ),
        (
            "a",
            register("g", "m", &pid, Mode::New),
            done(GroupError::AlreadyRegistered),
        ),
        (
            "a",
            register("g", "n", &other, Mode::External),
            done(GroupError::NameUsed),
        ),
        ("a", register("g", "x", &other, Mode::External), ok.clone()),
        ("b", register("h", "n", &pid, Mode::New), ok.clone()),
        (
            "a",
            register("g", "m", &pid, Mode::Replace),
            done(GroupError::PidRegistered),
        ),
        (
            "c",
            register("g", "m", &pid, Mode::New),
            done(GroupError::CannotRegister),
        ),
        (
            "c",
            register("g", "m", &pid, Mode::Replace),
            done(GroupError::CannotReregister),
        ),
        (
            "a",
            register("undefined", "m", &pid, Mode::New),
            done(GroupError::CannotRegister),
        ),
        (
            "a",
            register("g", "", &pid, Mode::New),
            done(GroupError::BadName),
        ),
    ];
    for (node, command, answer) in cases {
        assert_eq!(lab.ask(node, command.clone()), answer, "{command:?}");
    }
    let unregister = |group: &str, key: &str| Command::Unregister {
        group: group.into(),
        name: key.into(),
    };
    assert_eq!(
        lab.ask("c", unregister("g", "n")),
        done(GroupError::CannotUnregister)
    );
    assert_eq!(lab.ask("a", unregister("g", "absent")), ok);
    assert_eq!(lab.ask("a", unregister("g", "x")), ok);
    assert_eq!(lab.ask("b", register("g", "n", &other, Mode::Replace)), ok);
    lab.world.run_for(SECOND);
    assert_eq!(lab.whereis("a", "g", "n"), Some(other.clone()));
    assert_eq!(lab.whereis("b", "g", "n"), Some(other.clone()));

    let pairs = |list: &[(&str, &str)]| -> Answer {
        let pair = |(group, key): &(&str, &str)| (Name::from(*group), Name::from(*key));
        Answer::Names(Ok(list.iter().map(pair).collect()))
    };
    let all = pairs(&[("g", "n"), ("h", "n")]);
    assert_eq!(lab.ask("a", Command::NamesAt(name("a"))), all);
    assert_eq!(lab.ask("c", Command::NamesAt(name("b"))), all);
    assert_eq!(lab.ask("a", Command::GlobalNames), all);
    assert_eq!(
        lab.ask("a", Command::NamesIn("g".into())),
        pairs(&[("g", "n")])
    );
    assert_eq!(
        lab.ask("c", Command::NamesIn("g".into())),
        Answer::Names(Err(GroupError::NoInformation))
    );
    let global = Command::GlobalRegister {
        name: "top".into(),
        pid: other,
        mode: Mode::New,
    };
    assert_eq!(lab.ask("a", global.clone()), done(GroupError::NotFree));
    assert_eq!(lab.ask("c", global), ok);

    // From outside of the group, made after c started: by asking around, and by asking one node.
    for node in [None, Some(name("b"))] {
        let found = lab.ask(
            "c",
            Command::Whereis {
                node: node.clone(),
                group: "h".into(),
                name: "n".into(),
            },
        );
        assert_eq!(found, Answer::Whereis(Some(pid.clone())));
        let sent = lab.ask(
            "c",
            Command::Send {
                node,
                group: "h".into(),
                name: "n".into(),
                body: Body::from_static(b"hello"),
            },
        );
        assert_eq!(sent, Answer::Sent(Ok(pid.clone())));
    }
    let sent = lab.ask(
        "c",
        Command::Send {
            node: None,
            group: "h".into(),
            name: "absent".into(),
            body: Body::new(),
        },
    );
    assert_eq!(sent, Answer::Sent(Err(GroupError::NotRegistered)));
    lab.world.run_for(SECOND);
    assert_eq!(lab.heard.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[test]
fn a_process_may_have_many_names_if_its_node_allows_it() {
    let mut lab = Lab::new();
    let options = lab.options("a").many_names();
    lab.world.start(options).unwrap();
    lab.group("a", "g", &["a"]);
    let pid = lab.spawn("a", "a", "worker", "").unwrap();
    for key in ["one", "two"] {
        assert_eq!(lab.register("a", "g", key, &pid), Ok(()));
    }
    lab.call("a", &pid, "die").unwrap_err();
    lab.world.run_for(SECOND);
    assert_eq!(
        lab.ask("a", Command::NamesIn("g".into())),
        Answer::Names(Ok(vec![]))
    );
}

#[test]
fn a_node_tells_of_its_groups() {
    let mut lab = Lab::new();
    lab.start(&["a", "b", "c", "d"]);
    assert_eq!(lab.ask("a", Command::Groups), Answer::Groups(None));
    lab.ask("a", Command::Connect(name("d")));
    lab.world.run_for(SECOND);
    for command in [Command::OwnNodes, Command::NodesOf("undefined".into())] {
        assert_eq!(lab.ask("a", command), Answer::Nodes(nodes(&["a", "d"])));
    }
    lab.group("a", "g", &["a", "b"]);
    lab.group("b", "h", &["b", "c"]);
    let own = Answer::OwnGroups(vec![("g".into(), nodes(&["a", "b"]))]);
    assert_eq!(lab.ask("a", Command::OwnGroups), own);
    let both: (Vec<Name>, Vec<Name>) = (vec!["g".into()], vec!["h".into()]);
    assert_eq!(lab.ask("a", Command::Groups), Answer::Groups(Some(both)));
    assert_eq!(
        lab.ask("b", Command::OwnNodes),
        Answer::Nodes(nodes(&["a", "b", "c"]))
    );
    assert_eq!(
        lab.ask("a", Command::NodesOf("h".into())),
        Answer::Nodes(vec![])
    );
    // The free node was left behind.
    assert_eq!(lab.ask("a", Command::Linked), Answer::Nodes(nodes(&["b"])));
    lab.world.crash(&name("b"));
    lab.world.run_for(SECOND);
    let Answer::Info(info) = lab.ask("a", Command::Info) else {
        panic!("no info");
    };
    assert_eq!(info.no_contact, nodes(&["b"]));
    assert_eq!((info.is_synced, info.monitoring), (true, 0));
    assert_eq!(info.synced_nodes, nodes(&[]));
    assert!(info.attributes.contains(&"cores".into()));
    assert_ne!(*info, Info::default());
    lab.start(&["b"]);
    assert_eq!(lab.ask("a", Command::Sync), Answer::Done(Ok(())));
    lab.world.run_for(SECOND);
    assert_eq!(lab.ask("a", Command::Linked), Answer::Nodes(nodes(&["b"])));
}

#[test]
fn groups_come_from_a_file_and_survive_a_restart() {
    let text = "[[group]]\nname = 'g'\nnodes = ['a', 'b']\n[[group]]\nname = 'h'\nnodes = ['c']\n";
    let mut lab = Lab::new();
    for node in ["a", "b", "c"] {
        let options = lab.options(node).config(text);
        lab.world.start(options).unwrap();
    }
    lab.world.run_for(SECOND * 2);
    assert_eq!(lab.ask("a", Command::Linked), Answer::Nodes(nodes(&["b"])));
    let pid = lab.spawn("c", "c", "worker", "").unwrap();
    lab.register("c", "h", "n", &pid).unwrap();
    // Known from the file alone.
    assert_eq!(lab.whereis("a", "h", "n"), Some(pid));
    // Removed from the group, b does not come back to it because the file says so.
    lab.ask(
        "a",
        Command::RemoveNodes {
            group: "g".into(),
            nodes: nodes(&["b"]),
        },
    );
    lab.world.run_for(SECOND);
    lab.world.crash(&name("b"));
    let options = lab.options("b").config(text);
    lab.world.start(options).unwrap();
    lab.world.run_for(SECOND * 5);
    assert_eq!(lab.ask("b", Command::OwnGroups), Answer::OwnGroups(vec![]));
    // Even a node that knows nothing but the file hears of it.
    lab.world.crash(&name("b"));
    lab.world.forget(&name("b"));
    let options = lab.options("b").config(text);
    lab.world.start(options).unwrap();
    lab.world.run_for(SECOND * 5);
    assert_eq!(lab.ask("b", Command::OwnGroups), Answer::OwnGroups(vec![]));
    // A member that knows nothing at all is told that it is one.
    lab.ask(
        "a",
        Command::AddNodes {
            group: "g".into(),
            nodes: nodes(&["b"]),
        },
    );
    lab.world.run_for(SECOND);
    lab.world.crash(&name("b"));
    lab.world.forget(&name("b"));
    lab.start(&["b"]);
    lab.world.run_for(SECOND * 5);
    let own = Answer::OwnGroups(vec![("g".into(), nodes(&["a", "b"]))]);
    assert_eq!(lab.ask("b", Command::OwnGroups), own);
}

#[test]
fn attributes_are_inserted_updated_and_deleted() {
    let mut lab = Lab::new();
    let options = lab.options("a").without_attributes();
    lab.world.start(options).unwrap();
    let set = |update| Command::SetAttribute {
        name: "disk".into(),
        attribute: Attribute::Static(Value::Int(4)),
        update,
    };
    let delete = Command::DeleteAttribute("disk".into());
    let cases = [
        (set(true), Err(AttributeError::NotSet)),
        (delete.clone(), Err(AttributeError::NotSet)),
        (set(false), Ok(())),
        (set(false), Err(AttributeError::Exists)),
        (set(true), Ok(())),
    ];
    for (command, result) in cases {
        assert_eq!(lab.ask("a", command), Answer::Attribute(result));
    }
    let registered = lab.ask("a", Command::RegisteredAttributes);
    assert_eq!(registered, Answer::Attributes(vec!["disk".into()]));
    assert_eq!(lab.ask("a", delete), Answer::Attribute(Ok(())));
    assert_eq!(
        lab.ask("a", Command::MonitorNodes(true)),
        Answer::Done(Ok(()))
    );
}
