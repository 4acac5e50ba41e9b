//! What users ask of their node, and what it answers: the functions of s_groups, links between
//! nodes, attributes, spawning and calling.
//!
//! Owns the commands, their answers and errors. Deliberately not here: how they are carried out
//! (`node`), and the methods that threads call ([`crate::NodeHandle`]).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::attributes::{Attribute, AttributeError, Predicate, Value};
use crate::types::{Body, CallError, MonitorRef, Name, NodeName, Pid, Refusal, SpawnError};

/// Something that a node is asked to do. Each has exactly one [`Answer`].
#[derive(Clone, Debug)]
pub enum Command {
    /// Links with a node. [`Answer::Done`].
    Connect(NodeName),
    /// Ends the link with a node; fine if there is none. [`Answer::Done`].
    Disconnect(NodeName),
    /// Linked nodes. [`Answer::Nodes`].
    Linked,
    /// Starts a process by the name of a function that its node registered. [`Answer::Spawned`].
    Spawn {
        /// Where.
        node: NodeName,
        /// The function.
        function: Name,
        /// What it is given.
        args: Body,
        /// Whether it is linked with the process that asks.
        link: bool,
        /// The monitor that the process that asks has of it from the beginning.
        monitor: Option<MonitorRef>,
        /// How long to wait for the answer.
        deadline: Duration,
    },
    /// Asks a process. [`Answer::Called`].
    Call {
        /// Whom.
        to: Pid,
        /// What.
        body: Body,
        /// How long to wait for the answer.
        deadline: Duration,
    },
    /// Sends to a process; nobody hears if it is gone. [`Answer::Done`].
    SendTo {
        /// To whom.
        to: Pid,
        /// What.
        body: Body,
    },
    /// Ends a process: `Killed` cannot be trapped. [`Answer::Done`].
    Kill(Pid),
    /// Makes a group; without a name, one at random. [`Answer::Group`].
    NewGroup {
        /// What it is called.
        name: Option<Name>,
        /// Its members, this node among them.
        nodes: Vec<NodeName>,
    },
    /// Adds members. [`Answer::Group`] with those that were added.
    AddNodes {
        /// To which group.
        group: Name,
        /// The nodes.
        nodes: Vec<NodeName>,
    },
    /// Removes members. [`Answer::Done`].
    RemoveNodes {
        /// From which group.
        group: Name,
        /// The nodes.
        nodes: Vec<NodeName>,
    },
    /// Deletes a group. [`Answer::Done`].
    DeleteGroup(Name),
    /// Registers a process under a name. [`Answer::Done`].
    Register {
        /// In which group; `undefined` for the free nodes.
        group: Name,
        /// The name.
        name: Name,
        /// The process.
        pid: Pid,
        /// How.
        mode: Mode,
    },
    /// Forgets a name; fine if it is not there. [`Answer::Done`].
    Unregister {
        /// In which group.
        group: Name,
        /// The name.
        name: Name,
    },
    /// The process of a name. [`Answer::Whereis`].
    Whereis {
        /// The node to ask; without one, whoever knows.
        node: Option<NodeName>,
        /// In which group.
        group: Name,
        /// The name.
        name: Name,
    },
    /// Sends to the process of a name. [`Answer::Sent`].
    Send {
        /// The node to ask; without one, whoever knows.
        node: Option<NodeName>,
        /// In which group.
        group: Name,
        /// The name.
        name: Name,
        /// What.
        body: Body,
    },
    /// Names that a node knows, with their groups. [`Answer::Names`].
    NamesAt(NodeName),
    /// Names of a group. [`Answer::Names`].
    NamesIn(Name),
    /// Own and other groups. [`Answer::Groups`].
    Groups,
    /// Own groups with their members. [`Answer::OwnGroups`].
    OwnGroups,
    /// Members of all own groups; of a free node, itself and the free nodes that it knows.
    /// [`Answer::Nodes`].
    OwnNodes,
    /// Members of one own group, empty if it is none; `undefined` as [`Command::OwnNodes`] of a
    /// free node. [`Answer::Nodes`].
    NodesOf(Name),
    /// Everything at once. [`Answer::Info`].
    Info,
    /// Dials all members of own groups that are not linked. [`Answer::Done`].
    Sync,
    /// Whether the process that asks hears of nodes that come and go. [`Answer::Done`].
    MonitorNodes(bool),
    /// Sets attributes here or on several nodes. [`Answer::Nodes`] with those that did.
    AddAttributes {
        /// Which nodes; without, this one.
        nodes: Option<Vec<NodeName>>,
        /// Names and values.
        list: Vec<(Name, Value)>,
    },
    /// Forgets attributes. [`Answer::Nodes`] with the nodes that did.
    RemoveAttributes {
        /// Which nodes; without, this one.
        nodes: Option<Vec<NodeName>>,
        /// Their names.
        names: Vec<Name>,
    },
    /// The names of this node's attributes. [`Answer::Attributes`].
    RegisteredAttributes,
    /// Sets an attribute of this node that must not (`insert`) or must (`update`) be set already.
    /// [`Answer::Attribute`].
    SetAttribute {
        /// Its name.
        name: Name,
        /// What it is.
        attribute: Attribute,
        /// Whether it must be set already.
        update: bool,
    },
    /// Forgets an attribute of this node. [`Answer::Attribute`].
    DeleteAttribute(Name),
    /// Values of attributes of several nodes. [`Answer::Values`].
    RequestAttributes {
        /// Of which nodes.
        nodes: Vec<NodeName>,
        /// Which attributes.
        names: Vec<Name>,
        /// How long to wait.
        deadline: Duration,
    },
    /// Members of groups that have attributes. [`Answer::Nodes`].
    ChooseNodes(Vec<Choice>),
    /// Those of some nodes that fulfil all predicates. [`Answer::Chosen`].
    ChooseBy {
        /// The nodes.
        nodes: Vec<NodeName>,
        /// The conditions.
        predicates: Vec<Predicate>,
        /// How long to wait.
        deadline: Duration,
    },
    /// Registers in the name space of the free nodes, as `global` does. [`Answer::Done`].
    GlobalRegister {
        /// The name.
        name: Name,
        /// The process.
        pid: Pid,
        /// How.
        mode: Mode,
    },
    /// Names as `global` has them: of a free node its names, else those of all its groups.
    /// [`Answer::Names`].
    GlobalNames,
}

/// How a name is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It must not be there, nor the process have another.
    New,
    /// It takes the place of what was there.
    Replace,
    /// As [`Mode::New`], for a process of a system that is no node: only the error differs.
    External,
}

/// One condition of [`Command::ChooseNodes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A member of this own group, other than the node itself.
    Group(Name),
    /// A linked node that has this attribute.
    Attribute(Name),
}

/// What a node answers to a [`Command`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Done or not.
    Done(Result<(), GroupError>),
    /// A group and the nodes that joined.
    Group(Result<(Name, Vec<NodeName>), GroupError>),
    /// The process of a name.
    Whereis(Option<Pid>),
    /// The process that something was sent to.
    Sent(Result<Pid, GroupError>),
    /// Groups and names.
    Names(Result<Vec<(Name, Name)>, GroupError>),
    /// Own and other groups; nothing on a free node.
    Groups(Option<(Vec<Name>, Vec<Name>)>),
    /// Groups with members.
    OwnGroups(Vec<(Name, Vec<NodeName>)>),
    /// Nodes.
    Nodes(Vec<NodeName>),
    /// Everything.
    Info(Box<Info>),
    /// Names of attributes.
    Attributes(Vec<Name>),
    /// An attribute was changed or not.
    Attribute(Result<(), AttributeError>),
    /// Values of attributes, or why a node has told none.
    Values(Values),
    /// Nodes that fulfil the predicates, and those that did not say.
    Chosen {
        /// They do.
        nodes: Vec<NodeName>,
        /// They did not say.
        missing: Vec<(NodeName, Missing)>,
    },
    /// A process was spawned or not.
    Spawned(Result<Pid, SpawnError>),
    /// The answer of a process.
    Called(Result<Body, CallError>),
}

/// What nodes told of their attributes.
pub type Values = BTreeMap<NodeName, Result<BTreeMap<Name, Value>, Missing>>;

/// Why a node told nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It cannot be reached.
    NotFound,
    /// It did not answer in time.
    Timeout,
}

/// What is known of a node's groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Whether it has groups and is linked with all their members that it could reach.
    pub is_synced: bool,
    /// Own groups with their members.
    pub own_groups: Vec<(Name, Vec<NodeName>)>,
    /// Linked members of own groups.
    pub synced_nodes: Vec<NodeName>,
    /// Members of own groups that could not be reached.
    pub no_contact: Vec<NodeName>,
    /// Other groups with their members, as far as known.
    pub other_groups: Vec<(Name, Vec<NodeName>)>,
    /// Processes that hear of nodes that come and go.
    pub monitoring: usize,
    /// Names of the node's attributes.
    pub attributes: Vec<Name>,
}

/// Why a command about groups was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// `undefined` and `no_group` stand for no group.
    #[error("the name is reserved")]
    ReservedName,
    /// No name at all: empty, too long, or with a control character in it.
    #[error("no valid name")]
    BadName,
    /// The node that is asked must be one of the members.
    #[error("the node is not in the s_group")]
    RemoteGroup,
    /// The node is in a group of this name.
    #[error("the s_group's name is in use")]
    NameInUse,
    /// The node that is asked is not in the group.
    #[error("the node does not belong to the s_group")]
    NotMember,
    /// Another member must do that.
    #[error("a node cannot remove itself")]
    CannotRemoveItself,
    /// Names are registered by members alone.
    #[error("cannot register in a remote group")]
    CannotRegister,
    /// As above, for `re_register_name`.
    #[error("cannot re-register in a remote group")]
    CannotReregister,
    /// As above, for `unregister_name`.
    #[error("cannot unregister from a remote group")]
    CannotUnregister,
    /// The name is taken, or the process has another.
    #[error("the name or the process is already registered")]
    AlreadyRegistered,
    /// The process has another name.
    #[error("the process is already registered")]
    PidRegistered,
    /// The name is taken (external processes).
    #[error("the name is already used")]
    NameUsed,
    /// Nobody has that name: nothing was sent.
    #[error("nobody has that name")]
    NotRegistered,
    /// Only members know the names of a group.
    #[error("no information about a remote group")]
    NoInformation,
    /// `global` names belong to free nodes.
    #[error("the node is not free")]
    NotFree,
    /// The node cannot be reached.
    #[error("no connection to the node")]
    NoConnection,
    /// The link was refused, by name.
    #[error("the link was refused: {0}")]
    Refused(Refusal),
    /// A bound of the node is reached.
    #[error("a bound of the node is reached")]
    Busy,
    /// Not answered in time; it may have been done.
    #[error("no answer in time")]
    Timeout,
    /// The node has stopped.
    #[error("the node is not running")]
    NotRunning,
}

/// Something that happened to a node or one of its groups, for whoever watches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A link was made.
    LinkUp(NodeName),
    /// A link ended.
    LinkDown(NodeName, Refusal),
    /// A link could not be made.
    Unreachable(NodeName, Refusal),
    /// The node is in a group that it was not in.
    Joined(Name),
    /// The node is in a group no longer.
    Left(Name),
    /// Nodes were added to an own group.
    Added(Name, Vec<NodeName>),
    /// Nodes were removed from an own group.
    Removed(Name, Vec<NodeName>),
    /// A name was registered twice while the network was split; this process lost it and is ended.
    /// Noted by the node that keeps the name.
    Clash(Name, Pid),
    /// The groups could not be kept for the next life, for this reason.
    NotSaved(String),
    /// A frame for this node was too large and was not sent.
    Dropped(NodeName),
}
