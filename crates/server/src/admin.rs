//! What an administrator may ask of a node: plain requests and answers, the same from the control
//! socket of a running server and from the command line on a stopped one. Calls block and are for
//! threads of their own, never for a shard.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actor::{Handle, Name, ShardId};
use serde::{Deserialize, Serialize};
use stdx::time::{Clock, SystemClock, Timestamp};
use store::{Journal, Record, Store};

use crate::address;
use crate::chaos::{Chaos, Fault};
use crate::guard::{Entry, Guard, List};
use crate::journal::{PORT, PortMsg};
use crate::limits::ADMIN_DEADLINE;
use crate::message::{AppendError, UserMsg};
use crate::node::SYSTEM_ACTORS_PER_SHARD;
use crate::options::Options;
use crate::place::Place;
use crate::portable::{self, Line};
use crate::queues::{self, Queue, QueueCommand, Stuck};
use crate::room::temporary::Table;
use crate::room::{RoomCommand, RoomLine, RoomSample};
use crate::talkers;
use crate::watch::{Sample, UserSample};

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
    /// A page of accounts with all that belongs to them, as the lines of docs/export-format.md.
    Export {
        /// Those behind this address.
        after: Option<String>,
        /// At most this many, and [`PAGE_MAX`].
        limit: usize,
    },
    /// Lines of an export.
    Import {
        /// At most [`PAGE_MAX`] lines.
        lines: Vec<String>,
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
    /// What became of a message.
    Trace {
        /// Its stanza-id (XEP-0359).
        id: String,
        /// The account in whose log it has that id: the `by` of the id.
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
            Request::UserKick { jid } => ("UserKick", jid.clone()),
            Request::BanPut { list, what, .. } => ("BanPut", format!("{list:?}, {what:?}")),
            Request::BanRemove { list, what } => ("BanRemove", format!("{list:?}, {what:?}")),
            Request::BanList => ("BanList", String::new()),
            Request::Status => ("Status", String::new()),
            Request::Sample => ("Sample", String::new()),
            Request::UserInspect { jid } => ("UserInspect", jid.clone()),
            Request::Export { after, .. } => ("Export", format!("after {after:?}")),
            Request::Import { lines } => ("Import", format!("{} lines", lines.len())),
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
            Request::RoomList { after, .. } => ("RoomList", format!("after {after:?}")),
            Request::RoomShow { room } => ("RoomShow", room.clone()),
            Request::RoomDestroy { room, .. } => ("RoomDestroy", room.clone()),
            Request::Trace { id, by } => ("Trace", format!("{id}, {by:?}")),
            Request::Chaos { fault } => ("Chaos", format!("{fault:?}")),
            Request::Backup { dest } => ("Backup", dest.display().to_string()),
            Request::Verify => ("Verify", String::new()),
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
    /// How many accounts an import or a provisioning has made.
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
    /// How many that concerned.
    Counted {
        /// Queues that are tried, or messages that come back.
        count: u64,
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

/// What an administrator tells one account.
#[derive(Debug)]
pub enum AdminCommand {
    /// Make the account.
    Create(store::Account),
    /// Take a record that an import makes of it.
    Import(Box<Record>),
    /// Remove it.
    Remove,
    /// Give it new keys.
    SetKeys(Vec<store::ScramKeys>),
    /// Lock or unlock it.
    Lock {
        /// Locked from now on, or not.
        locked: bool,
    },
    /// End its sessions.
    Kick,
    /// Tell about itself.
    Inspect,
    /// Do something about messages that wait for recipients who do not keep up.
    Queue(QueueCommand),
    /// Do something that rooms do.
    Room(RoomCommand),
}

/// What the account answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAnswer {
    /// Done, and durable.
    Done,
    /// What it is doing.
    Inspected(Arc<UserSample>),
    /// Recipients who do not keep up.
    Stuck(Vec<Stuck>),
    /// How many that concerned.
    Counted(u64),
    /// What the room is.
    Room(Arc<RoomSample>),
    /// There is no such account.
    Absent,
    /// There is one already.
    Exists,
    /// The store could not be read or written.
    Unavailable,
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
    pub(crate) queues: Vec<queues::Published>,
    /// If faults may be caused.
    pub(crate) chaos: Option<Chaos>,
    pub(crate) guard: Arc<Guard>,
    /// Rooms that are in no store.
    pub(crate) rooms: Arc<Table>,
}

type Outcome = Result<Response, Response>;

impl Admin {
    /// Carries a request out. Blocks until the change is durable.
    pub fn call(&self, request: Request) -> Response {
        self.try_call(request).unwrap_or_else(|error| error)
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
            Request::Import { lines } => self.import(&lines),
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
            Request::RoomList { after, limit } => {
                self.list_rooms(after.as_deref(), limit.min(PAGE_MAX))
            }
            Request::RoomShow { room } => self.show_room(&room),
            Request::RoomDestroy { room, reason } => self.destroy_room(&room, reason.as_deref()),
            Request::Trace { id, by } => {
                let by = self.own_address_if(by)?;
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
            Request::Verify => {
                let report = self.store.verify().map_err(unreadable)?;
                Ok(Response::Verified {
                    good: report.is_good(),
                    report: report.to_string(),
                })
            }
        }
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
                Ok(Err(Response::Error { code, .. })) if code == "no_such_user" => {}
                Ok(told) => drop(told?),
                Err(_) => {}
            }
        }
        Ok(Response::Bans {
            entries: vec![entry],
        })
    }

    fn tell(&self, jid: &str, command: AdminCommand) -> Outcome {
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

    fn own_address_if(&self, jid: Option<String>) -> Result<Option<String>, Response> {
        jid.map(|jid| self.own_address(&jid)).transpose()
    }

    /// The normalised bare address of an account or a room of this server.
    fn recipient(&self, jid: &str) -> Result<String, Response> {
        match crate::room::address_of(jid, &self.options.rooms.hosts) {
            Some(room) => Ok(room),
            None => self.own_address(jid),
        }
    }

    /// The normalised bare address of an account of this server.
    fn own_address(&self, jid: &str) -> Result<String, Response> {
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
        let mut salt = vec![0; crate::c2s::SALT_BYTES];
        fastrand::Rng::new().fill(&mut salt);
        let scram = crate::c2s::derive_keys(&password, &salt, self.options.scram_iterations);
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

    fn export(&self, after: Option<&str>, limit: usize) -> Outcome {
        let limit = limit.clamp(1, PAGE_MAX);
        let jids = self
            .store
            .accounts(None, after, limit)
            .map_err(unreadable)?;
        let mut lines = Vec::new();
        for jid in &jids {
            lines.extend(portable::export(&self.store, jid).map_err(unreadable)?);
        }
        let next = (jids.len() == limit)
            .then(|| jids.last().cloned())
            .flatten();
        Ok(Response::Lines { lines, next })
    }

    fn import(&self, lines: &[String]) -> Outcome {
        let mut records = Vec::new();
        let mut accounts = 0;
        for line in lines {
            let line: Line = serde_json::from_str(line)
                .map_err(|e| error("bad_line", &format!("not a line of an export: {e}")))?;
            let jid = self.own_address(line.jid())?;
            if matches!(line, Line::Account { .. }) {
                accounts += 1;
                self.must_not_exist(&jid)?;
            }
            records.push(line.into_record().map_err(|e| error("bad_line", &e))?);
        }
        self.append(records)?;
        Ok(Response::Made { accounts })
    }

    fn must_not_exist(&self, jid: &str) -> Result<(), Response> {
        match self.store.load_user(jid).map_err(unreadable)? {
            Some(_) => Err(error(
                "user_exists",
                &format!("there is an account {jid} already"),
            )),
            None => Ok(()),
        }
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
        account.scram = crate::c2s::derive_keys(password, salt, self.options.scram_iterations);
        let made = part.count.min(part.users.saturating_sub(part.first));
        self.append(part.records(&account))?;
        Ok(Response::Made { accounts: made })
    }
}

impl Admin {
    /// Appends records of accounts through the queues of the shards where they are at home, a batch
    /// at a time. Accounts that are loaded append theirs themselves.
    fn append(&self, records: impl IntoIterator<Item = Record>) -> Result<(), Response> {
        let mut records = records.into_iter().peekable();
        while records.peek().is_some() {
            let mut shards: BTreeMap<u16, Vec<Record>> = BTreeMap::new();
            for record in records.by_ref().take(BATCH) {
                let shard = self.place.shard(record.user()).index();
                shards.entry(shard).or_default().push(record);
            }
            for (shard, records) in shards {
                for record in self.append_at(ShardId::new(shard), records)? {
                    self.tell_loaded(record)?;
                }
            }
        }
        Ok(())
    }

    /// Appends one batch of one shard. Returns the records of accounts that are loaded there.
    fn append_at(&self, shard: ShardId, records: Vec<Record>) -> Result<Vec<Record>, Response> {
        let mut patience = BUSY_ATTEMPTS;
        loop {
            let question = |reply| PortMsg::Import {
                slots: self.place.slots(),
                records: records.clone(),
                reply,
            };
            let answer = self
                .handle
                .ask_named(shard, &Name::from(PORT), question, IMPORT_DEADLINE)
                .map_err(|why| error("no_answer", &format!("{why}; {SOME_MADE}")))?;
            match answer.result {
                Ok(()) => return Ok(answer.loaded),
                Err(AppendError::Busy) if patience > 0 => {
                    patience -= 1;
                    std::thread::sleep(BUSY_PAUSE);
                }
                Err(AppendError::Busy) => {
                    let message = "the server is too busy to take these accounts; try again";
                    return Err(error("busy", message));
                }
                Err(why) => {
                    let message =
                        format!("the store did not take all of it ({why:?}); {SOME_MADE}");
                    return Err(error("store_unavailable", &message));
                }
            }
        }
    }

    /// Hands a record to the account's actor.
    fn tell_loaded(&self, record: Record) -> Result<(), Response> {
        let jid = record.user().to_owned();
        let told = self.tell(&jid, AdminCommand::Import(Box::new(record)));
        told.map(drop)
    }
}

/// Records that an import or a provisioning hands to a shard at a time: the shard's turn is short.
const BATCH: usize = 1_024;

/// How long a batch may take to be durable. Then it may still happen; nothing more is handed over.
const IMPORT_DEADLINE: Duration = Duration::from_secs(60);

/// Times that a batch is handed over while too much waits; then the administrator is told.
const BUSY_ATTEMPTS: u32 = 1_000;

/// Pause between them.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

const SOME_MADE: &str = "some of these accounts may have been made: `roost user list` shows which";

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
