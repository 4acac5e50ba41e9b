//! Nodes that talk: processes that are spawned, sent to, linked and monitored across nodes, groups
//! of nodes with names of their own, and placement.
//!
//! Knows nothing of XMPP and needs no other server. `docs/actors.md` is a tutorial.
//!
//! - A [`Node`] is one process of the operating system (or one of many in a simulation). Its name
//!   says where it is reached.
//! - A [`Process`] is private state with a mailbox, run as an actor. Its [`Pid`] names it on every
//!   node, for ever. It is spawned by the name of a function that its node registered.
//! - Links between nodes are made on demand. A node that is gone is a reason: calls, spawns,
//!   monitors and links end with [`Reason::NoConnection`] or its like.
//! - A group has members, who are linked all with all, and names, which nobody else stores. The
//!   linked member with the smallest name orders its changes.
//!
//! ```
//! use std::time::Duration;
//! use group::{Body, Event, Node, NodeName, Options, Process, Scope};
//!
//! /// Answers what it is asked.
//! struct Echo;
//!
//! impl Process for Echo {
//!     fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
//!         if let Event::Request { from, body } = event {
//!             cx.reply(from, body).unwrap();
//!         }
//!     }
//! }
//!
//! fn options(name: &str) -> Options {
//!     Options::new(name, b"secret")
//!         .function("echo", |_: &Body| Box::new(Echo) as Box<dyn Process>)
//! }
//!
//! let patience = Duration::from_secs(30);
//! # let port = |host: &str| std::net::TcpListener::bind((host, 0))?.local_addr();
//! # let (first, second) = (port("127.0.0.1")?, port("127.0.0.2")?);
//! // Such as `a@127.0.0.1:4501` and `b@127.0.0.2:4501`, usually on two machines.
//! let a = Node::start(options(&format!("a@{first}")))?;
//! let b = Node::start(options(&format!("b@{second}")))?;
//!
//! let echo = a.spawn(b.name(), "echo", "", patience)?;
//! assert_eq!(a.call(&echo, "hello", patience)?, "hello");
//!
//! let both = [a.name().clone(), b.name().clone()];
//! a.new_group("pair", &both)?;
//! a.register_name("pair", "echo", &echo)?;
//! assert_eq!(b.whereis_name("pair", "echo")?, Some(echo));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attributes;
mod command;
pub mod config;
pub mod distance;
#[doc(hidden)]
pub mod fuzz;
mod host;
mod limits;
mod node;
pub mod placement;
mod process;
mod runtime;
pub mod sim;
pub mod supervise;
mod tcp;
mod types;
mod view;
mod wire;

#[cfg(test)]
#[path = "tests/model/mod.rs"]
mod model;

pub use attributes::{
    Attribute, AttributeError, Evaluate, Facts, Predicate, Test, Value, builtins,
};
pub use command::{Answer, Choice, Command, GroupError, Info, Missing, Mode, Note, Values};
pub use limits::Limits;
pub use process::{Busy, Event, Factory, Process, ReplyTo, Scope};
pub use runtime::{Node, NodeHandle, Options, StartError};
pub use types::{
    BadName, Body, CallError, MonitorRef, NAME_BYTES_MAX, Name, NodeName, Pid, Reason, Refusal,
    SpawnError,
};
pub use view::{GroupId, View};

/// The tutorial's examples.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/actors.md")]
mod tutorial {}
