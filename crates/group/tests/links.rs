//! Nodes over TCP: spawning, asking, names in groups, and what becomes of it all when a node goes.

mod common;

use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use common::{Echo, LONG, eventually, names, start};
use group::{
    Body, CallError, Event, GroupError, Node, Options, Pid, Process, Reason, Refusal, Scope,
    SpawnError,
};

#[test]
fn a_process_is_spawned_and_asked_on_another_node() {
    let a = start("a", "127.0.0.1", |options| options);
    let b = start("b", "127.0.0.2", |options| options.shards(2));
    for round in 0..4 {
        let pid = a.spawn(b.name(), "echo", "", LONG).unwrap();
        assert_eq!(&pid.node, b.name());
        let text = format!("hello {round}");
        assert_eq!(a.call(&pid, text.clone(), LONG).unwrap(), text.as_bytes());
    }
    assert_eq!(
        a.spawn(b.name(), "nothing", "", LONG),
        Err(SpawnError::NoFunction)
    );
    assert_eq!(b.linked().unwrap(), names(&[&a]));
}

#[test]
fn a_group_has_names_of_its_own_and_others_find_them() {
    let a = start("a", "127.0.0.1", |options| options);
    let b = start("b", "127.0.0.2", |options| options);
    let c = start("c", "127.0.0.3", |options| options);
    let members = a.new_group("g", &names(&[&a, &b])).unwrap();
    assert_eq!(members, names(&[&a, &b]));
    let pid = b.spawn(b.name(), "echo", "", LONG).unwrap();
    b.register_name("g", "echo", &pid).unwrap();
    assert_eq!(a.whereis_name("g", "echo").unwrap(), Some(pid.clone()));
    assert_eq!(
        a.register_name("g", "echo", &pid),
        Err(GroupError::AlreadyRegistered)
    );
    // Not a member, and linked with one: it asks.
    c.connect(a.name()).unwrap();
    eventually("c hears of the group", || {
        c.whereis_name("g", "echo").unwrap() == Some(pid.clone())
    });
    assert_eq!(
        c.register_name("g", "mine", &pid),
        Err(GroupError::CannotRegister)
    );
    b.kill(&pid).unwrap();
    eventually("the name goes with its process", || {
        a.whereis_name("g", "echo").unwrap().is_none()
    });
}

/// Monitors and links a process of another node and tells what it hears.
struct Watch {
    whom: Pid,
    heard: SyncSender<Reason>,
}

impl Process for Watch {
    fn started(&mut self, cx: &mut Scope<'_, '_>) {
        cx.trap_exits(true).unwrap();
        cx.monitor(&self.whom).unwrap();
        cx.link(&self.whom).unwrap();
    }

    fn handle(&mut self, event: Event, _: &mut Scope<'_, '_>) {
        if let Event::Down { reason, .. } | Event::Exit { reason, .. } = event {
            self.heard.try_send(reason).unwrap();
        }
    }
}

/// Starts a [`Watch`] of the process that is named in a message.
struct Parent(SyncSender<Reason>);

impl Process for Parent {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        if let Event::Message {
            from: Some(whom), ..
        } = event
        {
            let heard = self.0.clone();
            cx.spawn_here(Watch { whom, heard }).unwrap();
        }
    }
}

/// Sends to the process that its argument names.
struct Hello;

impl Process for Hello {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        match event {
            Event::Request { from, body } => {
                let text = String::from_utf8(body.to_vec()).unwrap();
                let (node, ids) = text.split_once(' ').unwrap();
                let (life, id) = ids.split_once(' ').unwrap();
                let to = Pid {
                    node: node.try_into().unwrap(),
                    life: life.parse().unwrap(),
                    id: id.parse().unwrap(),
                };
                cx.send(&to, "hello").unwrap();
                cx.reply(from, "").unwrap();
            }
            Event::Message { .. } => panic!("told to"),
            _ => {}
        }
    }
}

#[test]
fn links_and_monitors_tell_of_a_crash_and_of_a_lost_node() {
    let (heard, reasons) = sync_channel(16);
    let a = start("a", "127.0.0.1", |options| {
        options.function("parent", move |_: &Body| {
            Box::new(Parent(heard.clone())) as Box<dyn Process>
        })
    });
    let hello = |options: Options| {
        options.function("hello", |_: &Body| Box::new(Hello) as Box<dyn Process>)
    };
    let b = start("b", "127.0.0.2", hello);
    let parent = a.spawn(a.name(), "parent", "", LONG).unwrap();
    let introduce = |pid: &Pid| {
        let text = format!("{} {} {}", parent.node, parent.life, parent.id);
        a.call(pid, text, LONG).unwrap();
    };
    let crashing = a.spawn(b.name(), "hello", "", LONG).unwrap();
    introduce(&crashing);
    // The watch is set up some time after the introduction; a crash before that is told as well.
    a.send(&crashing, "now").unwrap();
    for _ in 0..2 {
        match reasons.recv_timeout(LONG).unwrap() {
            Reason::Panic(text) => assert_eq!(text, "told to"),
            Reason::NoProcess => {}
            other => panic!("{other}"),
        }
    }
    let staying = a.spawn(b.name(), "hello", "", LONG).unwrap();
    introduce(&staying);
    eventually("the watch is there", || {
        // A third process of the node: parent, and the watches of both.
        a.spawn(a.name(), "parent", "", LONG).is_ok()
    });
    std::thread::sleep(Duration::from_millis(200));
    b.stop();
    for _ in 0..2 {
        let reason = reasons.recv_timeout(LONG).unwrap();
        assert!(
            matches!(reason, Reason::NoConnection | Reason::Shutdown),
            "{reason}"
        );
    }
    assert_eq!(a.call(&staying, "x", LONG), Err(CallError::NoConnection));
}

#[test]
fn a_node_that_is_not_there_is_a_reason_and_not_a_hang() {
    let a = start("a", "127.0.0.1", |options| options);
    let nobody = common::free_name("n", "127.0.0.9")
        .as_str()
        .try_into()
        .unwrap();
    assert_eq!(
        a.connect(&nobody),
        Err(GroupError::Refused(Refusal::Broken))
    );
    assert_eq!(
        a.spawn(&nobody, "echo", "", LONG),
        Err(SpawnError::NoConnection)
    );
    let pid = Pid {
        node: nobody,
        life: 1,
        id: 256,
    };
    assert_eq!(a.call(&pid, "x", LONG), Err(CallError::NoConnection));
}

#[test]
fn a_stranger_and_a_namesake_are_refused_by_name() {
    let a = start("a", "127.0.0.1", |options| options);
    let stranger = Options::new(&common::free_name("s", "127.0.0.1"), b"another secret");
    let stranger = Node::start(stranger).unwrap();
    assert_eq!(
        stranger.connect(a.name()),
        Err(GroupError::Refused(Refusal::Cookie))
    );
    // Another name for the same address.
    let (_, address) = a.name().as_str().split_once('@').unwrap();
    let alias = format!("other@{address}").as_str().try_into().unwrap();
    let b = start("b", "127.0.0.2", |options| options);
    assert_eq!(
        b.connect(&alias),
        Err(GroupError::Refused(Refusal::OtherName))
    );
    assert!(a.linked().unwrap().is_empty());
}

#[test]
fn a_stopped_node_says_so() {
    let a = start("a", "127.0.0.1", |options| options);
    let handle = a.handle();
    a.stop();
    assert_eq!(handle.linked(), Err(GroupError::NotRunning));
    let _ = Echo;
}

#[test]
fn a_node_keeps_its_groups_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("groups.toml");
    let name = common::free_name("a", "127.0.0.1");
    let start = || {
        let options = Options::new(&name, b"secret").state_file(&path);
        Node::start(options).unwrap()
    };
    let a = start();
    let members = a.new_group("g", &names(&[&a])).unwrap();
    a.new_group("h", &members).unwrap();
    a.delete_group("h").unwrap();
    a.stop();
    let a = start();
    assert_eq!(a.own_groups().unwrap(), [("g".into(), members)]);
    a.stop();
    std::fs::write(&path, "groups = 3").unwrap();
    let refused = Node::start(Options::new(&name, b"secret").state_file(&path));
    assert!(matches!(refused, Err(group::StartError::Config(_))));
}

#[test]
fn garbage_on_the_port_is_refused_and_harms_nobody() {
    use std::io::{Read, Write};
    let a = start("a", "127.0.0.1", |options| options);
    let b = start("b", "127.0.0.2", |options| options);
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xFF; 64],
        &[0, 0, 0, 4, 9, 9, 9, 9],
        &[0, 0, 0, 9, 0, b'R', b'G', b'R', b'P', 0, 200, 0, 201],
    ] {
        let address = a.name().address().unwrap();
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(garbage).unwrap();
        let mut answer = Vec::new();
        // A reset is an end as well.
        let _ = stream.read_to_end(&mut answer);
    }
    let pid = b.spawn(a.name(), "echo", "", LONG).unwrap();
    assert_eq!(b.call(&pid, "well", LONG).unwrap(), "well");
}
