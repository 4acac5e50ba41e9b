//! Processes and nodes that the tests over real sockets share.

mod ports;

use std::time::Duration;

use group::{Body, Event, Node, NodeName, Options, Process, Reason, Scope};

/// Longer than anything takes on a loaded machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Answers what it is asked and ends when it is told to.
pub(crate) struct Echo;

impl Process for Echo {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        match event {
            Event::Request { from, body } => cx.reply(from, body).expect("room"),
            Event::Message { body, .. } if &body[..] == b"panic" => panic!("told to"),
            Event::Message { body, .. } if &body[..] == b"stop" => cx.stop(Reason::Normal),
            _ => {}
        }
    }
}

/// A port of this machine that is free now, as the name of a node there.
pub(crate) fn free_name(name: &str, host: &str) -> String {
    format!("{name}@{host}:{}", ports::free_port(host))
}

/// A node with an echo, on a free port.
pub(crate) fn start(name: &str, host: &str, change: impl FnOnce(Options) -> Options) -> Node {
    let options = Options::new(&free_name(name, host), b"secret")
        .function("echo", |_: &Body| Box::new(Echo) as Box<dyn Process>);
    Node::start(change(options)).expect("a node")
}

/// Names of nodes.
pub(crate) fn names(nodes: &[&Node]) -> Vec<NodeName> {
    nodes.iter().map(|node| node.name().clone()).collect()
}

/// Waits until something holds.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}
