//! What an administrator may ask of a node: plain requests and answers, the same from the control
//! socket of a running server and from the command line on a stopped one. Calls block and are for
//! threads of their own, never for a shard.

mod anywhere;
mod erase;
mod moving;
mod newcomer;
mod nodes;
mod portable;
mod queues;
mod ranges;
mod rooms;
mod sample;
mod trace;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use actor::{Handle, Name};
use serde::{Deserialize, Serialize};
use stdx::Level;
use stdx::time::{Clock, SystemClock, Timestamp};
use store::{Journal, Record, Store};

use crate::address;
use crate::chaos::{Chaos, Fault};
use crate::errands::Errands;
use crate::guard::{Entry, Guard, List};
use crate::limits::{ADMIN_DEADLINE, SYSTEM_ACTORS_PER_SHARD};
use crate::listing::Table;
use crate::message::UserMsg;
use crate::modules::service::Service;
use crate::operator::{AdminAnswer, AdminCommand, NodesAct, NodesCommand, RoomSample};
use crate::options::Options;
use crate::place::Place;
use crate::queues::{Queue, Queues};
use crate::talkers;
use crate::watch::{Sample, UserSample};

pub use erase::{EraseFrom, Erased};
pub use nodes::{NodeItem, NodeLine, NodeSample};
pub use portable::Order as ImportOrder;
pub use rooms::RoomLine;

/// Accounts that one listing, export or provisioning request covers at most.
pub const PAGE_MAX: usize = 1_000;

/// A request.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "request", deny_unknown_fields)]
pub enum Request {
    /// A new account.
    UserAdd {
        /// Bare address.
        jid: String,
        /// Its password.
        password: String,
    },
    /// Removes an account, tells its contacts, ends its sessions.
    UserDel {
        /// Bare address.
        jid: String,
    },
    /// A new password; ends the account's sessions.
    UserPasswd {
        /// Bare address.
        jid: String,
        /// The new password.
        password: String,
    },
    /// Locks an account, which ends its sessions, or unlocks it.
    UserLock {
        /// Bare address.
        jid: String,
        /// Locked from now on, or not.
        locked: bool,
    },
    /// A page of accounts in the order of their addresses.
    UserList {
        /// Of this domain only.
        domain: Option<String>,
        /// Those behind this address.
        after: Option<String>,
        /// At most this many, and [`PAGE_MAX`].
        limit: usize,
    },
    /// Erases a part of what an account said.
    UserErase {
        /// Bare address.
        jid: String,
        /// Where the part begins.
        from: EraseFrom,
    },
    /// Ends an account's sessions; its clients may come back.
    UserKick {
        /// Bare address.
        jid: String,
    },
    /// Puts an address, a network or an account on the ban or the allow list.
    BanPut {
        /// The list.
        list: List,
        /// What it covers.
        what: String,
        /// For so many milliseconds; `None` for good.
        for_ms: Option<u64>,
        /// What the administrator says about it.
        reason: String,
    },
    /// Takes it off.
    BanRemove {
        /// The list.
        list: List,
        /// What it covers.
        what: String,
    },
    /// Both lists.
    BanList,
    /// What the node is doing.
    Status,
    /// Everything that is counted.
    Sample,
    /// What an account is doing and what it costs.
    UserInspect {
        /// Bare address.
        jid: String,
    },
    /// A page of what there is with all that belongs to it, as the lines of docs/export-format.md.
    Export {
        /// Where the page before said that this one starts.
        after: Option<String>,
        /// Of so many accounts, rooms and services at most, and [`PAGE_MAX`].
        limit: usize,
    },
    /// Lines of an export.
    Import {
        /// At most [`PAGE_MAX`] lines.
        lines: Vec<String>,
        /// They are looked at only.
        check: bool,
        /// Places of those in `lines`, in order, whose accounts no earlier line of the file makes:
        /// they have to be there.
        #[serde(default)]
        strays: Vec<usize>,
    },
    /// A part of a population for load tests: accounts u`first`… with ring contacts.
    Provision {
        /// Their domain.
        domain: String,
        /// Accounts of the whole population.
        users: u64,
        /// Contacts of each, half on either side.
        contacts: u64,
        /// The password of all.
        password: String,
        /// First account of this part.
        first: u64,
        /// Accounts of this part, at most [`PAGE_MAX`] times 100.
        count: u64,
    },
    /// Messages that wait for recipients who do not keep up.
    QueueList {
        /// Of this sender only: a bare address.
        sender: Option<String>,
    },
    /// Tries such recipients at once.
    QueueRetry {
        /// Those of this sender only.
        sender: Option<String>,
        /// This one only.
        recipient: Option<String>,
    },
    /// Returns to a sender what waits for a recipient.
    QueueDrop {
        /// Bare address.
        sender: String,
        /// Bare address.
        recipient: String,
    },
    /// On which shard each range is.
    RangeList,
    /// Moves a range to another shard.
    RangeMove {
        /// Its number, from 0, or the bare address of somebody who is in it.
        range: String,
        /// The shard's number, from 0.
        shard: u16,
    },
    /// A page of rooms.
    RoomList {
        /// Those behind this address.
        after: Option<String>,
        /// At most this many, and [`PAGE_MAX`].
        limit: usize,
    },
    /// Figures of a room.
    RoomShow {
        /// Its address.
        room: String,
    },
    /// Ends a room: its occupants are told, and nothing of it is kept.
    RoomDestroy {
        /// Its address.
        room: String,
        /// Why, for its occupants.
        reason: Option<String>,
    },
    /// A page of nodes, in the order of services and names.
    NodeList {
        /// Of this service or account; of all services without.
        address: Option<String>,
        /// Those behind this one: address and name.
        after: Option<(String, String)>,
        /// At most this many, and [`PAGE_MAX`].
        limit: usize,
    },
    /// Figures of a node.
    NodeShow {
        /// The service or account.
        address: String,
        /// Its name.
        node: String,
    },
    /// A page of the items of a node.
    NodeItems {
        /// The service or account.
        address: String,
        /// Its name.
        node: String,
        /// Those behind this place.
        after: u64,
    },
    /// Who is related to a node.
    NodePeople {
        /// The service or account.
        address: String,
        /// Its name.
        node: String,
        /// Those who are subscribed, instead of those with an affiliation.
        subscriptions: bool,
    },
    /// Does something to a node: subscribers are told.
    NodeChange {
        /// The service or account.
        address: String,
        /// Its name.
        node: String,
        /// What.
        act: NodesAct,
    },
    /// What became of a message.
    Trace {
        /// Its stanza-id (XEP-0359).
        id: String,
        /// The account or room in whose log it has that id: the `by` of the id.
        by: Option<String>,
    },
    /// A fault on purpose.
    Chaos {
        /// Which.
        fault: Fault,
    },
    /// A copy of the data at this moment.
    Backup {
        /// A folder that does not exist yet.
        dest: PathBuf,
    },
    /// Reads everything in the store, as it is at this moment, and checks it.
    Verify,
    /// At which format level the store is written.
    Level {
        /// Raise it to the newest that this program knows first.
        raise: bool,
    },
}

/// Without what must not be in a log: passwords, and the keys in the lines of an import.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, about) = match self {
            Request::UserAdd { jid, .. } => ("UserAdd", jid.clone()),
            Request::UserDel { jid } => ("UserDel", jid.clone()),
            Request::UserPasswd { jid, .. } => ("UserPasswd", jid.clone()),
            Request::UserLock { jid, locked } => ("UserLock", format!("{jid}, {locked}")),
            Request::UserList { domain, .. } => ("UserList", format!("{domain:?}")),
            Request::UserErase { jid, from } => ("UserErase", format!("{jid}, {from:?}")),
            Request::UserKick { jid } => ("UserKick", jid.clone()),
            Request::BanPut { list, what, .. } => ("BanPut", format!("{list:?}, {what:?}")),
            Request::BanRemove { list, what } => ("BanRemove", format!("{list:?}, {what:?}")),
            Request::BanList => ("BanList", String::new()),
            Request::Status => ("Status", String::new()),
            Request::Sample => ("Sample", String::new()),
            Request::UserInspect { jid } => ("UserInspect", jid.clone()),
            Request::Export { after, .. } => ("Export", format!("after {after:?}")),
            Request::Import { lines, .. } => ("Import", format!("{} lines", lines.len())),
            Request::Provision {
                domain,
                first,
                count,
                ..
            } => ("Provision", format!("{domain}, {count} from {first}")),
            Request::QueueList { sender } => ("QueueList", format!("{sender:?}")),
            Request::QueueRetry { sender, recipient } => {
                ("QueueRetry", format!("{sender:?}, {recipient:?}"))
            }
            Request::QueueDrop { sender, recipient } => {
                ("QueueDrop", format!("{sender}, {recipient}"))
            }
            Request::RangeList => ("RangeList", String::new()),
            Request::RangeMove { range, shard } => ("RangeMove", format!("{range} to {shard}")),
            Request::RoomList { after, .. } => ("RoomList", format!("after {after:?}")),
            Request::RoomShow { room } => ("RoomShow", room.clone()),
            Request::RoomDestroy { room, .. } => ("RoomDestroy", room.clone()),
            Request::NodeList { address, after, .. } => {
                ("NodeList", format!("{address:?}, after {after:?}"))
            }
            Request::NodeShow { address, node } => ("NodeShow", format!("{address}, {node:?}")),
            Request::NodeItems { address, node, .. } => {
                ("NodeItems", format!("{address}, {node:?}"))
            }
            Request::NodePeople { address, node, .. } => {
                ("NodePeople", format!("{address}, {node:?}"))
            }
            Request::NodeChange { address, node, act } => {
                ("NodeChange", format!("{address}, {node:?}, {act:?}"))
            }
            Request::Trace { id, by } => ("Trace", format!("{id}, {by:?}")),
            Request::Chaos { fault } => ("Chaos", format!("{fault:?}")),
            Request::Backup { dest } => ("Backup", dest.display().to_string()),
            Request::Verify => ("Verify", String::new()),
            Request::Level { raise } => ("Level", raise.to_string()),
        };
        write!(f, "{name}({about})")
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "response")]
pub enum Response {
    /// Done, and durable.
    Ok,
    /// Accounts.
    Users {
        /// Bare addresses in order.
        jids: Vec<String>,
    },
    /// The ban and allow lists.
    Bans {
        /// What is in force.
        entries: Vec<Entry>,
    },
    /// What the node is doing.
    Status {
        /// The figures.
        status: Status,
    },
    /// Everything that is counted.
    Sample {
        /// The figures.
        sample: Box<Sample>,
    },
    /// An account, looked into.
    User {
        /// The figures.
        user: UserSample,
    },
    /// Lines of an export; `next` continues behind the last account.
    Lines {
        /// One JSON value each.
        lines: Vec<String>,
        /// Where the next page starts, `None` at the end.
        next: Option<String>,
    },
    /// What an import has made, or would.
    Imported {
        /// Accounts.
        accounts: u64,
        /// Rooms that may be entered.
        rooms: u64,
        /// Nodes.
        nodes: u64,
    },
    /// A line of an import is not taken, and nothing of the request.
    Refused {
        /// Its place in the request, from 0.
        index: usize,
        /// A word for programs.
        code: String,
        /// A sentence for people: what is wrong and what to do.
        message: String,
    },
    /// How many accounts a provisioning has made.
    Made {
        /// Accounts.
        accounts: u64,
    },
    /// What a verification has found.
    Verified {
        /// Whether all is well.
        good: bool,
        /// What there is, and the first problems, in lines for people.
        report: String,
    },
    /// At which format level the store is written.
    Level {
        /// Its number.
        level: u32,
        /// The newest that this program knows.
        known: u32,
    },
    /// A part of what an account said is erased.
    Erased {
        /// What, and where the next part begins.
        erased: Erased,
    },
    /// Messages that wait.
    Queues {
        /// By sender and recipient.
        queues: Vec<Queue>,
    },
    /// Rooms, in the order in which pages follow each other.
    Rooms {
        /// Each with what a list says about it.
        rooms: Vec<RoomLine>,
    },
    /// A room.
    Room {
        /// The figures.
        room: Box<RoomSample>,
    },
    /// Nodes, in the order in which pages follow each other.
    Nodes {
        /// Each with what a list says about it.
        nodes: Vec<NodeLine>,
    },
    /// A node.
    Node {
        /// The figures.
        node: Box<NodeSample>,
    },
    /// Items of a node.
    Items {
        /// The oldest first.
        items: Vec<NodeItem>,
        /// There are no more.
        is_last: bool,
    },
    /// Addresses, each with what it is to a node.
    People {
        /// By address.
        people: Vec<(String, String)>,
    },
    /// How many that concerned.
    Counted {
        /// Queues that are tried, or messages that come back.
        count: u64,
    },
    /// Where ranges are.
    Ranges {
        /// The shard of each, by range.
        shards: Vec<u16>,
    },
    /// A range is on another shard, or was there.
    Moved {
        /// Where it was.
        from: u16,
        /// Entities that were in memory and were loaded again.
        entities: u64,
        /// For how many microseconds nothing of it was handled.
        gap_us: u64,
        /// Before, for how long what was new for it waited, in microseconds.
        #[serde(default)]
        paused_us: u64,
    },
    /// What became of a message, in lines for people.
    Traced {
        /// In the order of time as far as it is known.
        lines: Vec<String>,
    },
    /// A fault happens.
    Caused {
        /// Which, for people.
        what: String,
    },
    /// It was not done.
    Error {
        /// A word for programs.
        code: String,
        /// A sentence for people: what is wrong and what to do.
        message: String,
    },
}

/// Figures of a running node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Milliseconds since the node started.
    pub uptime_ms: i64,
    /// Domains.
    pub domains: Vec<String>,
    /// Threads that carry connections.
    pub shards: u16,
    /// Open client connections.
    pub connections: u64,
    /// Accounts that are loaded.
    pub actors: u64,
    /// Accounts in the store.
    pub accounts: u64,
}

/// The administrator's door to a node.
#[derive(Clone)]
pub struct Admin {
    pub(crate) handle: Handle,
    pub(crate) store: Store,
    pub(crate) place: Place,
    pub(crate) options: Arc<Options>,
    pub(crate) network: Option<Arc<net::Shared>>,
    pub(crate) clock: SystemClock,
    pub(crate) started: Timestamp,
    pub(crate) journal: Arc<dyn Journal>,
    /// By shard.
    pub(crate) talkers: Vec<talkers::Published>,
    /// By shard.
    pub(crate) braked: Vec<talkers::Published>,
    /// By shard.
    pub(crate) queues: Vec<Queues>,
    /// If faults may be caused.
    pub(crate) chaos: Option<Chaos>,
    pub(crate) guard: Arc<Guard>,
    /// Rooms that are in no store.
    pub(crate) rooms: Arc<Table>,
    /// Small services.
    pub(crate) services: &'static [&'static Service],
    /// What is asked of other nodes.
    pub(crate) errands: Arc<Errands>,
}

type Outcome = Result<Response, Response>;

/// The code of a refusal: what it is about is at home on another node.
const ELSEWHERE: &str = "elsewhere";

impl Admin {
    /// Carries a request out, wherever what it is about is at home. Blocks until the change is
    /// durable.
    pub fn call(&self, request: Request) -> Response {
        let outcome = match &self.options.cluster {
            Some(cluster) => self.call_anywhere(cluster, request),
            None => self.try_call(request),
        };
        outcome.unwrap_or_else(|error| error)
    }

    fn try_call(&self, request: Request) -> Outcome {
        match request {
            Request::UserAdd { jid, password } => {
                let jid = self.own_address(&jid)?;
                let account = self.new_account(&password)?;
                self.tell(&jid, AdminCommand::Create(account))
            }
            Request::UserDel { jid } => self.tell(&self.own_address(&jid)?, AdminCommand::Remove),
            Request::UserPasswd { jid, password } => {
                let jid = self.own_address(&jid)?;
                let keys = self.new_account(&password)?.scram;
                self.tell(&jid, AdminCommand::SetKeys(keys))
            }
            Request::UserLock { jid, locked } => {
                self.tell(&self.own_address(&jid)?, AdminCommand::Lock { locked })
            }
            Request::UserErase { jid, from } => self.erase(&self.own_address(&jid)?, from),
            Request::UserKick { jid } => self.tell(&self.own_address(&jid)?, AdminCommand::Kick),
            Request::UserList {
                domain,
                after,
                limit,
            } => {
                let limit = limit.min(PAGE_MAX);
                let jids = self
                    .store
                    .accounts(domain.as_deref(), after.as_deref(), limit);
                Ok(Response::Users {
                    jids: jids.map_err(unreadable)?,
                })
            }
            Request::BanPut {
                list,
                what,
                for_ms,
                reason,
            } => self.ban(list, what, for_ms, reason),
            Request::BanRemove { list, what } => {
                let removed = self.guard.bans.remove(list, &what, self.clock.wall());
                removed.map_err(|why| error("ban_refused", &why.to_string()))?;
                Ok(Response::Ok)
            }
            Request::BanList => Ok(Response::Bans {
                entries: self.guard.bans.entries(self.clock.wall()),
            }),
            Request::Status => self.status(),
            Request::Sample => Ok(Response::Sample {
                sample: Box::new(self.sample()),
            }),
            Request::UserInspect { jid } => {
                let jid = self.own_address(&jid)?;
                let mut response = self.tell(&jid, AdminCommand::Inspect)?;
                if let Response::User { user } = &mut response {
                    user.stored_bytes = self.store.stored_by(&jid).map_err(unreadable)?;
                }
                Ok(response)
            }
            Request::Export { after, limit } => self.export(after.as_deref(), limit),
            Request::Import {
                lines,
                check,
                strays,
            } => self.import(&lines, check, &strays),
            Request::Provision {
                domain,
                users,
                contacts,
                password,
                first,
                count,
            } => {
                let part = portable::Population {
                    domain,
                    users,
                    contacts,
                    first,
                    count,
                };
                self.provision(part, &password)
            }
            Request::QueueList { sender } => {
                let sender = self.own_address_if(sender)?;
                let queues = self.queues(sender.as_deref())?;
                Ok(Response::Queues { queues })
            }
            Request::QueueRetry { sender, recipient } => {
                let recipient = recipient.map(|to| self.recipient(&to)).transpose()?;
                let sender = self.own_address_if(sender)?;
                let count = self.retry_queues(sender.as_deref(), recipient.as_deref())?;
                Ok(Response::Counted { count })
            }
            Request::QueueDrop { sender, recipient } => {
                let (sender, recipient) = (self.own_address(&sender)?, self.recipient(&recipient)?);
                let count = self.drop_queue(&sender, &recipient)?;
                Ok(Response::Counted { count })
            }
            Request::RangeList => Ok(self.ranges()),
            Request::RangeMove { range, shard } => self.move_range(&range, shard),
            Request::RoomList { after, limit } => {
                self.list_rooms(after.as_deref(), limit.min(PAGE_MAX))
            }
            Request::RoomShow { room } => self.show_room(&room),
            Request::RoomDestroy { room, reason } => self.destroy_room(&room, reason.as_deref()),
            Request::NodeList {
                address,
                after,
                limit,
            } => {
                let limit = limit.min(PAGE_MAX);
                self.list_nodes(address.as_deref(), after.as_ref(), limit)
            }
            Request::NodeShow { address, node } => self.show_node(&address, &node),
            Request::NodeItems {
                address,
                node,
                after,
            } => self.node_items(&address, &node, after),
            Request::NodePeople {
                address,
                node,
                subscriptions,
            } => self.node_people(&address, &node, subscriptions),
            Request::NodeChange { address, node, act } => {
                self.change_node(&address, NodesCommand { node, act })
            }
            Request::Trace { id, by } => {
                let by = by.map(|by| self.recipient(&by)).transpose()?;
                let lines = self.trace(&id, by.as_deref())?;
                Ok(Response::Traced { lines })
            }
            Request::Chaos { fault } => {
                let Some(chaos) = &self.chaos else {
                    return Err(error(
                        "chaos_disabled",
                        "faults are off: set `enabled = true` in [chaos] and restart the server",
                    ));
                };
                let caused = chaos.cause(fault).map_err(|why| error("no_fault", &why))?;
                Ok(Response::Caused { what: caused })
            }
            Request::Backup { dest } => {
                self.store
                    .backup(&dest)
                    .map_err(|e| error("backup_failed", &e.to_string()))?;
                Ok(Response::Ok)
            }
            Request::Level { raise } => self.level(raise),
            Request::Verify => {
                let report = self.store.verify().map_err(unreadable)?;
                Ok(Response::Verified {
                    good: report.is_good(),
                    report: report.to_string(),
                })
            }
        }
    }

    /// The level of a deployment is not that of one node's store to raise.
    fn level(&self, raise: bool) -> Outcome {
        if raise && self.store.follows_streams().map_err(unreadable)? {
            return Err(error(
                "in_cluster",
                "this is a node of a cluster: say roost level --raise with its configuration",
            ));
        }
        if raise {
            let raised = self.store.raise();
            raised.map_err(|e| error("not_raised", &e.to_string()))?;
        }
        Ok(Response::Level {
            level: self.store.level().number(),
            known: Level::known().number(),
        })
    }

    /// What is banned ends: the sessions of an account at once, connections from an address with
    /// the next that is heard of them.
    fn ban(&self, list: List, what: String, for_ms: Option<u64>, reason: String) -> Outcome {
        let now = self.clock.wall();
        let until = |ms: u64| {
            now.as_millis()
                .saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
        };
        let entry = Entry {
            list,
            what,
            made_ms: now.as_millis(),
            until_ms: for_ms.map(until),
            reason,
        };
        let put = self.guard.bans.put(entry, now);
        let entry = put.map_err(|why| error("ban_refused", &why.to_string()))?;
        if list == List::Ban && entry.what.contains('@') {
            match self
                .own_address(&entry.what)
                .map(|jid| self.tell(&jid, AdminCommand::Kick))
            {
                // A name that nobody has may be banned, and one of another server.
                // Its home is told of the ban too.
                Ok(Err(Response::Error { code, .. }))
                    if code == "no_such_user" || code == ELSEWHERE => {}
                Ok(told) => drop(told?),
                Err(_) => {}
            }
        }
        Ok(Response::Bans {
            entries: vec![entry],
        })
    }

    /// Refuses what is for somebody who is at home on another node.
    pub(crate) fn must_be_here(&self, jid: &str) -> Result<(), Response> {
        let range = self.place.range(jid);
        if self.options.cluster.is_none() || self.place.is_here(range) {
            return Ok(());
        }
        let message = format!("{jid} is at home on another node of the cluster: ask that one");
        Err(error(ELSEWHERE, &message))
    }

    fn tell(&self, jid: &str, command: AdminCommand) -> Outcome {
        self.must_be_here(jid)?;
        let shard = self.place.shard(jid);
        let name = Name::from(jid);
        let answer = self.handle.ask_named(
            shard,
            &name,
            |reply| UserMsg::Admin {
                command: Box::new(command),
                reply,
            },
            ADMIN_DEADLINE,
        );
        match answer {
            Ok(AdminAnswer::Done) => Ok(Response::Ok),
            Ok(AdminAnswer::Inspected(user)) => Ok(Response::User {
                user: Arc::unwrap_or_clone(user),
            }),
            Ok(AdminAnswer::Stuck(_) | AdminAnswer::Counted(_) | AdminAnswer::Room(_)) => {
                Ok(Response::Ok)
            }
            Ok(AdminAnswer::Absent) => {
                Err(error("no_such_user", &format!("there is no account {jid}")))
            }
            Ok(AdminAnswer::Exists) => Err(error(
                "user_exists",
                &format!("there is an account {jid} already"),
            )),
            Ok(AdminAnswer::Unavailable) => Err(error(
                "store_unavailable",
                "the store could not be read or written; see the log",
            )),
            Err(why) => Err(error(
                "no_answer",
                &format!("the account did not answer: {why:?}"),
            )),
        }
    }

    /// Asks an account something; `None` if it is at home elsewhere.
    pub(crate) fn ask_here(
        &self,
        jid: &str,
        command: AdminCommand,
    ) -> Result<Option<AdminAnswer>, Response> {
        if self.must_be_here(jid).is_err() {
            return Ok(None);
        }
        let (shard, name) = (self.place.shard(jid), Name::from(jid));
        let question = |reply| UserMsg::Admin {
            command: Box::new(command),
            reply,
        };
        let answer = self
            .handle
            .ask_named(shard, &name, question, ADMIN_DEADLINE);
        let answer = answer.map_err(|why| {
            let message = format!("the account did not answer: {why:?}");
            error("no_answer", &message)
        })?;
        Ok(Some(answer))
    }

    fn own_address_if(&self, jid: Option<String>) -> Result<Option<String>, Response> {
        jid.map(|jid| self.own_address(&jid)).transpose()
    }

    /// The normalised bare address of an account or a room of this server.
    fn recipient(&self, jid: &str) -> Result<String, Response> {
        match address::of_room(jid, &self.options.rooms.hosts) {
            Some(room) => Ok(room),
            None => self.own_address(jid),
        }
    }

    /// The normalised bare address of an account of this server.
    pub(crate) fn own_address(&self, jid: &str) -> Result<String, Response> {
        let parsed = xmpp::addr::parse(jid)
            .map_err(|e| error("bad_address", &format!("{jid:?} is not an address: {e}")))?;
        let jid = parsed.as_str();
        if address::local(jid).is_none() || jid.contains('/') {
            return Err(error(
                "bad_address",
                "an account's address has the form name@domain",
            ));
        }
        let domain = address::domain(jid);
        if !self.options.domains.iter().any(|own| own == domain) {
            let own = self.options.domains.join(", ");
            let message = format!("{domain} is not a domain of this server, which has {own}");
            return Err(error("foreign_domain", &message));
        }
        Ok(jid.to_owned())
    }

    fn new_account(&self, password: &str) -> Result<store::Account, Response> {
        let password = xmpp::sasl::prepare_password(password).map_err(|_| {
            error(
                "bad_password",
                "a password has 1 to 1023 bytes and no control characters",
            )
        })?;
        let mut salt = vec![0; crate::keys::SALT_BYTES];
        fastrand::Rng::new().fill(&mut salt);
        let scram = crate::keys::derive_keys(&password, &salt, self.options.scram_iterations);
        Ok(store::Account {
            created: self.clock.wall(),
            locked: false,
            scram,
        })
    }

    /// Accounts that are in memory: online, or written to a moment ago.
    pub(crate) fn accounts_loaded(&self) -> u64 {
        let others = u64::from(self.options.shards) * SYSTEM_ACTORS_PER_SHARD;
        self.handle.actors().saturating_sub(others)
    }

    fn status(&self) -> Outcome {
        let mut accounts = 0;
        for domain in &self.options.domains {
            accounts += self
                .store
                .count_accounts(Some(domain))
                .map_err(unreadable)?;
        }
        let status = Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: self.clock.wall().as_millis() - self.started.as_millis(),
            domains: self.options.domains.clone(),
            shards: self.options.shards,
            connections: self
                .network
                .as_ref()
                .map_or(0, |network| network.connections()),
            actors: self.accounts_loaded(),
            accounts,
        };
        Ok(Response::Status { status })
    }

    fn provision(&self, part: portable::Population, password: &str) -> Outcome {
        if part.count > (PAGE_MAX * 100) as u64 {
            return Err(error(
                "too_many",
                "provision at most 100000 accounts in one request",
            ));
        }
        self.own_address(&format!("u0@{}", part.domain))?;
        let mut account = self.new_account(password)?;
        // One salt for all of them and for every part, so that a load client derives one key.
        let salt = &portable::SHARED_SALT;
        account.scram = crate::keys::derive_keys(password, salt, self.options.scram_iterations);
        // Each node of a cluster makes those that are at home there.
        let is_here = |user: &str| {
            self.options.cluster.is_none() || self.place.is_here(self.place.range(user))
        };
        let mut accounts = 0;
        let records = part.records(&account).filter(|record| {
            let is_own = is_here(record.user());
            accounts += u64::from(is_own && matches!(record, Record::AccountPut { .. }));
            is_own
        });
        self.append(records)?;
        Ok(Response::Made { accounts })
    }
}

pub(crate) fn error(code: &str, message: &str) -> Response {
    Response::Error {
        code: code.to_owned(),
        message: message.to_owned(),
    }
}

pub(crate) fn unreadable(why: store::StoreError) -> Response {
    error("store_unavailable", &why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_shown_without_secrets() {
        let secret = || "hunter2".to_owned();
        let jid = || "alice@localhost".to_owned();
        let requests = [
            Request::UserAdd {
                jid: jid(),
                password: secret(),
            },
            Request::UserPasswd {
                jid: jid(),
                password: secret(),
            },
            Request::Import {
                lines: vec![secret()],
                check: false,
                strays: Vec::new(),
            },
            Request::Provision {
                domain: "localhost".to_owned(),
                users: 1,
                contacts: 0,
                password: secret(),
                first: 0,
                count: 1,
            },
        ];
        for request in requests {
            let shown = format!("{request:?} {request:#?}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        let kick = Request::UserKick { jid: jid() };
        assert_eq!(format!("{kick:?}"), "UserKick(alice@localhost)");
    }
}
