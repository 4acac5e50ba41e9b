//! A node of this operating system's process: shards on threads, links over TCP.
//!
//! Owns starting and stopping, and what threads do with a node. Deliberately not here: what
//! processes do ([`Scope`](crate::Scope)).

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};

use actor::threads::{Threads, run_threads};
use actor::{Addr, AskError, Handle, Mail, ShardId, system};
use ring::rand::{SecureRandom, SystemRandom};
use rustc_hash::FxHashMap;
use stdx::time::{Clock, SystemClock};

use crate::attributes::{Attribute, builtins};
use crate::command::{Answer, Command, GroupError, Mode, Note};
use crate::config::{self, BadConfig, GroupConfig, Saved};
use crate::host::{AnswerTo, Mailed, NodeActor, NodeMsg, Witness};
use crate::limits::Limits;
use crate::node::{Machine, Settings};
use crate::process::{Factory, Process};
use crate::tcp::{self, Hub, Tcp};
use crate::types::{BadName, Body, CallError, Name, NodeName, Pid, SpawnError};

type Observe = Box<dyn FnMut(&Note) + Send>;

/// How a node is started.
pub struct Options {
    name: String,
    cookie: Vec<u8>,
    shards: u16,
    hidden: bool,
    many_names: bool,
    limits: Limits,
    functions: FxHashMap<Name, Factory>,
    attributes: Vec<(Name, Attribute)>,
    config: Option<String>,
    state: Option<PathBuf>,
    observe: Option<Observe>,
    #[cfg(test)]
    bug: Option<crate::model::bugs::Bug>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Options of {}", self.name)
    }
}

impl Options {
    /// A node of this name, which ends in `@HOST:PORT`: it listens there, and others reach it
    /// there. Nodes with the same `cookie` link with each other.
    pub fn new(name: &str, cookie: &[u8]) -> Self {
        Options {
            name: name.into(),
            cookie: cookie.into(),
            shards: 1,
            hidden: false,
            many_names: false,
            limits: Limits::default(),
            functions: FxHashMap::default(),
            attributes: builtins(),
            config: None,
            state: None,
            observe: None,
            #[cfg(test)]
            bug: None,
        }
    }

    /// Threads that run processes; at least one, at most 256.
    #[must_use]
    pub fn shards(mut self, shards: u16) -> Self {
        self.shards = shards.clamp(1, 256);
        self
    }

    /// A hidden node is not among the free nodes: links with it are never followed by others.
    #[must_use]
    pub fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// A process may have several names in one group.
    #[must_use]
    pub fn many_names(mut self) -> Self {
        self.many_names = true;
        self
    }

    /// Other bounds than the default ones.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Registers a function that others spawn processes by.
    #[must_use]
    pub fn function(
        mut self,
        name: &str,
        make: impl Fn(&Body) -> Box<dyn Process> + Send + Sync + 'static,
    ) -> Self {
        self.functions.insert(name.into(), Arc::new(make));
        self
    }

    /// One more attribute, beside the built-in ones.
    #[must_use]
    pub fn attribute(mut self, name: &str, attribute: Attribute) -> Self {
        self.attributes.push((name.into(), attribute));
        self
    }

    /// Without the built-in attributes, and those added so far.
    #[must_use]
    pub fn without_attributes(mut self) -> Self {
        self.attributes.clear();
        self
    }

    /// The groups that the deployment starts with; see [`crate::config`].
    #[must_use]
    pub fn config(mut self, text: &str) -> Self {
        self.config = Some(text.into());
        self
    }

    /// A file where the node keeps its groups for its next life. It is replaced at each change.
    #[must_use]
    pub fn state_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.state = Some(path.into());
        self
    }

    /// Who hears of links and groups that come and go. Runs on a shard: it must not block.
    #[must_use]
    pub fn observe(mut self, observe: impl FnMut(&Note) + Send + 'static) -> Self {
        self.observe = Some(Box::new(observe));
        self
    }
}

/// A node's settings, its functions and its bounds.
type Parts = (Settings, FxHashMap<Name, Factory>, Arc<Limits>);

impl Options {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What the machine and its host are made of.
    pub(crate) fn into_parts(
        self,
        saved: Option<Saved>,
        life: u64,
        seed: u64,
    ) -> Result<Parts, StartError> {
        let groups: Vec<GroupConfig> = match &self.config {
            Some(text) => config::parse(text)?,
            None => Vec::new(),
        };
        let limits = Arc::new(self.limits);
        let settings = Settings {
            name: NodeName::new(&self.name)?,
            life,
            hidden: self.hidden,
            cookie: self.cookie,
            limits: Arc::clone(&limits),
            seed,
            shards: self.shards,
            functions: self.functions.keys().cloned().collect(),
            many_names: self.many_names,
            config: groups,
            saved,
            attributes: self.attributes,
            #[cfg(test)]
            bug: self.bug,
        };
        Ok((settings, self.functions, limits))
    }

    #[cfg(test)]
    pub(crate) fn bug(mut self, bug: Option<crate::model::bugs::Bug>) -> Self {
        self.bug = bug;
        self
    }
}

/// Why a node did not start. All of it is the operator's to mend.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No name for a node.
    #[error("the node's name: {0}")]
    Name(#[from] BadName),
    /// The name does not end in `@HOST:PORT`.
    #[error("the node's name does not end in @HOST:PORT")]
    NoAddress,
    /// The configuration or the saved state cannot be read.
    #[error("the groups: {0}")]
    Config(#[from] BadConfig),
    /// The operating system refused the address, the state file, or a thread.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Writes what a node keeps for its next life.
struct Keeper {
    state: Option<PathBuf>,
    observe: Option<Observe>,
}

impl Witness for Keeper {
    fn note(&mut self, note: &Note) {
        if let Some(observe) = &mut self.observe {
            observe(note);
        }
    }

    fn save(&mut self, saved: &Saved) {
        let Some(path) = &self.state else {
            return;
        };
        let write = || -> io::Result<()> {
            let text = saved.to_text().map_err(io::Error::other)?;
            let new = path.with_extension("new");
            std::fs::write(&new, text)?;
            std::fs::File::open(&new)?.sync_all()?;
            std::fs::rename(&new, path)
        };
        if let (Err(error), Some(observe)) = (write(), &mut self.observe) {
            observe(&Note::NotSaved(error.to_string()));
        }
    }
}

/// A running node. Dropping it stops it.
pub struct Node {
    handle: NodeHandle,
    hub: Arc<Hub>,
    threads: Option<Threads>,
    accept: Option<JoinHandle<()>>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node {}", self.handle.name)
    }
}

impl std::ops::Deref for Node {
    type Target = NodeHandle;

    fn deref(&self) -> &NodeHandle {
        &self.handle
    }
}

fn random_seed() -> Result<u64, StartError> {
    let mut seed = [0; 8];
    let filled = SystemRandom::new().fill(&mut seed);
    filled.map_err(|_| io::Error::other("no randomness"))?;
    Ok(u64::from_le_bytes(seed))
}

fn load(path: &Option<PathBuf>) -> Result<Option<Saved>, StartError> {
    let Some(path) = path else {
        return Ok(None);
    };
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(Saved::parse(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Node {
    /// Starts a node: binds its address, then runs it on threads of its own.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs then.
    pub fn start(options: Options) -> Result<Node, StartError> {
        let name = NodeName::new(&options.name)?;
        let address = name.address().ok_or(StartError::NoAddress)?;
        let saved = load(&options.state)?;
        let listener = TcpListener::bind(address)?;
        let clock = Arc::new(SystemClock::new());
        let life = clock.wall().as_millis().max(1) as u64;
        let mut options = options;
        let keeper = Keeper {
            state: options.state.take(),
            observe: options.observe.take(),
        };
        let (settings, functions, _) = options.into_parts(saved, life, random_seed()?)?;
        Node::run(settings, functions, keeper, listener, clock)
    }

    fn run(
        settings: Settings,
        functions: FxHashMap<Name, Factory>,
        keeper: Keeper,
        listener: TcpListener,
        clock: Arc<SystemClock>,
    ) -> Result<Node, StartError> {
        let (shards, seed, name) = (settings.shards, settings.seed, settings.name.clone());
        let (handle, seeds) = system(actor::Options::new(shards, seed));
        let limits = Arc::clone(&settings.limits);
        let hub = Arc::new(Hub::new(handle.clone(), limits.handshake));
        let (to, address) = sync_channel::<Addr<NodeMsg>>(1);
        let parts = Arc::new(Mutex::new(Some((settings, functions, keeper))));
        let (for_actor, for_clock) = (Arc::clone(&hub), Arc::clone(&clock));
        let threads = run_threads(seeds, clock, move |shard| {
            shard.set_mailbox_max::<Mailed>(limits.mailbox_max);
            shard.set_mailbox_max::<NodeMsg>(limits.queue_max.max(1));
            if shard.id() != ShardId::new(0) {
                return;
            }
            let parts = parts.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some((settings, functions, keeper)) = parts {
                let machine = Machine::new(settings, for_clock.now());
                let transport = Box::new(Tcp::new(Arc::clone(&for_actor)));
                let actor = NodeActor::new(machine, functions, transport, Box::new(keeper));
                let node = shard.spawn(actor);
                for_actor.set_node(node);
                let _ = to.try_send(node);
            }
        })?;
        let node = address.recv().map_err(io::Error::other)?;
        let accept = tcp::listen(Arc::clone(&hub), listener)?;
        let handle = NodeHandle { name, handle, node };
        Ok(Node {
            handle,
            hub,
            threads: Some(threads),
            accept: Some(accept),
        })
    }

    /// What other threads use; it may outlive the node.
    pub fn handle(&self) -> NodeHandle {
        self.handle.clone()
    }

    /// Says goodbye to all linked nodes, ends all processes and waits for the threads.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(threads) = self.threads.take() else {
            return;
        };
        // One that does not answer is stopped without a goodbye.
        let (handle, node) = (&self.handle.handle, self.handle.node);
        let _ = handle.ask(node, NodeMsg::Stop, Duration::from_secs(2));
        self.hub.stop();
        self.handle.handle.shut_down();
        threads.join();
        // Wakes the thread that accepts.
        if let Some(address) = self.handle.name.address() {
            let _ = TcpStream::connect(address);
        }
        if let Some(accept) = self.accept.take() {
            let _ = accept.join();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
    }
}

/// What threads do with a node. All of it waits for the answer, and must not be used on a shard.
#[derive(Clone, Debug)]
pub struct NodeHandle {
    name: NodeName,
    handle: Handle,
    node: Addr<NodeMsg>,
}

impl NodeHandle {
    /// The node's name.
    pub fn name(&self) -> &NodeName {
        &self.name
    }

    /// Has the node do something and waits for its answer.
    ///
    /// # Errors
    /// [`GroupError::Timeout`], [`GroupError::Busy`] or [`GroupError::NotRunning`]; everything else
    /// is in the answer.
    pub fn command(&self, command: Command, deadline: Duration) -> Result<Answer, GroupError> {
        let question = |reply| NodeMsg::Command(command, AnswerTo::Thread(reply));
        let answer = self.handle.ask(self.node, question, deadline);
        answer.map_err(|error| match error {
            AskError::Timeout => GroupError::Timeout,
            AskError::Undeliverable => GroupError::Busy,
            AskError::Dropped => GroupError::NotRunning,
        })
    }
}

/// How much longer a thread waits than the node, which answers by its own deadline.
const GRACE: Duration = Duration::from_secs(2);

/// How long the methods without a deadline wait.
const PATIENCE: Duration = Duration::from_secs(15);

/// Takes the answer that belongs to a command.
macro_rules! expect {
    ($answer:expr, $pattern:pat => $value:expr) => {
        match $answer {
            Ok($pattern) => $value,
            Err(error) => Err(error.into()),
            Ok(_) => Err(GroupError::NotRunning.into()),
        }
    };
}

impl From<GroupError> for SpawnError {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::Timeout => SpawnError::Timeout,
            GroupError::Busy => SpawnError::Full,
            _ => SpawnError::NoConnection,
        }
    }
}

impl From<GroupError> for CallError {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::Timeout => CallError::Timeout,
            GroupError::Busy => CallError::Full,
            _ => CallError::NoConnection,
        }
    }
}

impl NodeHandle {
    fn done(&self, command: Command) -> Result<(), GroupError> {
        expect!(self.command(command, PATIENCE), Answer::Done(result) => result)
    }

    /// Links with a node.
    ///
    /// # Errors
    /// [`GroupError::Refused`] with the reason.
    pub fn connect(&self, node: &NodeName) -> Result<(), GroupError> {
        self.done(Command::Connect(node.clone()))
    }

    /// Linked nodes.
    ///
    /// # Errors
    /// If the node does not answer.
    pub fn linked(&self) -> Result<Vec<NodeName>, GroupError> {
        expect!(self.command(Command::Linked, PATIENCE), Answer::Nodes(nodes) => Ok(nodes))
    }

    /// Starts a process on a node.
    ///
    /// # Errors
    /// Why there is none.
    pub fn spawn(
        &self,
        node: &NodeName,
        function: &str,
        args: impl Into<Body>,
        deadline: Duration,
    ) -> Result<Pid, SpawnError> {
        let command = Command::Spawn {
            node: node.clone(),
            function: function.into(),
            args: args.into(),
            link: false,
            monitor: None,
            deadline,
        };
        expect!(self.command(command, deadline + GRACE), Answer::Spawned(result) => result)
    }

    /// Asks a process.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn call(
        &self,
        to: &Pid,
        body: impl Into<Body>,
        deadline: Duration,
    ) -> Result<Body, CallError> {
        let (to, body) = (to.clone(), body.into());
        let command = Command::Call { to, body, deadline };
        expect!(self.command(command, deadline + GRACE), Answer::Called(result) => result)
    }

    /// Sends to a process.
    ///
    /// # Errors
    /// If the node does not answer.
    pub fn send(&self, to: &Pid, body: impl Into<Body>) -> Result<(), GroupError> {
        let (to, body) = (to.clone(), body.into());
        self.done(Command::SendTo { to, body })
    }

    /// Ends a process.
    ///
    /// # Errors
    /// If its node cannot be reached.
    pub fn kill(&self, pid: &Pid) -> Result<(), GroupError> {
        self.done(Command::Kill(pid.clone()))
    }

    /// Makes a group of these nodes, this one among them; tells those that joined.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn new_group(&self, name: &str, nodes: &[NodeName]) -> Result<Vec<NodeName>, GroupError> {
        let (name, nodes) = (Some(name.into()), nodes.to_vec());
        let answer = self.command(Command::NewGroup { name, nodes }, PATIENCE);
        expect!(answer, Answer::Group(result) => result.map(|(_, nodes)| nodes))
    }

    /// Adds members to a group; tells those that joined.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn add_nodes(&self, group: &str, nodes: &[NodeName]) -> Result<Vec<NodeName>, GroupError> {
        let (group, nodes) = (group.into(), nodes.to_vec());
        let answer = self.command(Command::AddNodes { group, nodes }, PATIENCE);
        expect!(answer, Answer::Group(result) => result.map(|(_, nodes)| nodes))
    }

    /// Removes other members from a group.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn remove_nodes(&self, group: &str, nodes: &[NodeName]) -> Result<(), GroupError> {
        let (group, nodes) = (group.into(), nodes.to_vec());
        self.done(Command::RemoveNodes { group, nodes })
    }

    /// Deletes a group.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn delete_group(&self, group: &str) -> Result<(), GroupError> {
        self.done(Command::DeleteGroup(group.into()))
    }

    /// Own groups with their members.
    ///
    /// # Errors
    /// If the node does not answer.
    pub fn own_groups(&self) -> Result<Vec<(Name, Vec<NodeName>)>, GroupError> {
        let answer = self.command(Command::OwnGroups, PATIENCE);
        expect!(answer, Answer::OwnGroups(groups) => Ok(groups))
    }

    /// Registers a process in a group.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn register_name(&self, group: &str, name: &str, pid: &Pid) -> Result<(), GroupError> {
        self.register(group, name, pid, Mode::New)
    }

    /// Registers a process in the place of whoever had the name.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn re_register_name(&self, group: &str, name: &str, pid: &Pid) -> Result<(), GroupError> {
        self.register(group, name, pid, Mode::Replace)
    }

    fn register(&self, group: &str, name: &str, pid: &Pid, mode: Mode) -> Result<(), GroupError> {
        self.done(Command::Register {
            group: group.into(),
            name: name.into(),
            pid: pid.clone(),
            mode,
        })
    }

    /// Forgets a name of a group.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn unregister_name(&self, group: &str, name: &str) -> Result<(), GroupError> {
        let (group, name) = (group.into(), name.into());
        self.done(Command::Unregister { group, name })
    }

    /// The process of a name of a group, own or not.
    ///
    /// # Errors
    /// If the node does not answer.
    pub fn whereis_name(&self, group: &str, name: &str) -> Result<Option<Pid>, GroupError> {
        let command = Command::Whereis {
            node: None,
            group: group.into(),
            name: name.into(),
        };
        expect!(self.command(command, PATIENCE), Answer::Whereis(pid) => Ok(pid))
    }

    /// Sends to the process of a name of a group, own or not; tells which.
    ///
    /// # Errors
    /// [`GroupError::NotRegistered`], if nobody has it.
    pub fn send_name(
        &self,
        group: &str,
        name: &str,
        body: impl Into<Body>,
    ) -> Result<Pid, GroupError> {
        let command = Command::Send {
            node: None,
            group: group.into(),
            name: name.into(),
            body: body.into(),
        };
        expect!(self.command(command, PATIENCE), Answer::Sent(result) => result)
    }
}
