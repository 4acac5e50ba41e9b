//! Accounts beside those whose clients are checked: a crowd that writes to a few others, of which
//! one makes its actor crash, one is removed and made again, and one has more senders than its
//! memory; and an administrator who imports and asks meanwhile. They share shards, journal, disk
//! and bounds with the others, and keep the promises too.

use std::collections::{HashMap, HashSet};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use server::operator::AdminCommand;
use server::queues::QueueCommand;
use server::{Options, Sim};
use stdx::rand::Rng;
use stdx::time::VirtualClock;
use store::{Plan, Record, Store};
use telemetry::Counter;

/// More senders than one user's memory tells apart.
const CROWD: usize = store::limits::SEEN_MAX + 32;
/// One schedule in so many has a crowd of that size; the others a few.
const CROWDED_EVERY: u64 = 8;
const FEW: usize = 12;
/// Clients at a time; and of a crowd, that begin at a time.
const CLIENTS_MAX: usize = 16;
const ENTER_MAX: usize = 4;
/// Looks at a client until it gives up.
const LOOKS_MAX: u32 = 400;
/// How long everything may take to settle: longer than any pause, and than a quarantine.
const SETTLE: Duration = Duration::from_secs(300);

/// The secret of `debug.panic_hook`: a message with it makes its recipient's actor crash.
pub(crate) const SECRET: &str = "CRASH-0123456789";

const HUB: &str = "hub@localhost";
const VICTIM: &str = "victim@localhost";
const GONE: &str = "gone@localhost";
/// Whom everybody knows.
pub(crate) const BYSTANDERS: [&str; 3] = [HUB, VICTIM, GONE];
const PASSWORD: &str = "secret";

const OPEN: &str = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
     xmlns:stream='http://etherx.jabber.org/streams'>";

/// What may happen in a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Full,
    Fenced,
    LongFull,
    LongUnreadable,
    LongDoubt,
    LongWait,
    LateReads,
    LongReads,
    Unreadable,
    Crashed,
    Quarantined,
    Returned,
    Crowded,
    Removed,
    MadeAgain,
    Imported,
    ImportedLoaded,
    Administered,
    Moved,
    Paused,
}

impl Event {
    pub(crate) const ALL: [(Event, &'static str); 20] = [
        (Event::Full, "changes are refused, the disk is full"),
        (Event::Fenced, "another home takes a range"),
        (
            Event::LongFull,
            "the disk is full for longer than any time-out",
        ),
        (
            Event::LongUnreadable,
            "nothing can be read for longer than any time-out",
        ),
        (
            Event::LongDoubt,
            "a commit is in doubt for longer than any time-out",
        ),
        (
            Event::LongWait,
            "no commit is decided for longer than any time-out",
        ),
        (Event::LateReads, "reads are still under way a step later"),
        (
            Event::LongReads,
            "no read is done for longer than any time-out",
        ),
        (
            Event::Unreadable,
            "a login to an account that cannot be read",
        ),
        (Event::Crashed, "a recipient crashes"),
        (Event::Quarantined, "a recipient is quarantined"),
        (Event::Returned, "a message comes back"),
        (
            Event::Crowded,
            "more senders than a recipient's memory has room for",
        ),
        (Event::Removed, "an account is removed"),
        (Event::MadeAgain, "an account is made again"),
        (Event::Imported, "accounts are imported"),
        (
            Event::ImportedLoaded,
            "a record is imported for an account that is loaded",
        ),
        (
            Event::Administered,
            "an administrator asks, and has queues retried",
        ),
        (Event::Moved, "a range moves to another shard"),
        (Event::Paused, "a busy range is paused so that it can move"),
    ];
}

/// How often each happened in all schedules.
#[derive(Debug, Default)]
pub(crate) struct Seen([AtomicU64; Event::ALL.len()]);

impl Seen {
    pub(crate) fn note(&self, event: Event) {
        self.add(event, 1);
    }

    fn add(&self, event: Event, times: u64) {
        self.0[event as usize].fetch_add(times, Ordering::Relaxed);
    }

    pub(crate) fn times(&self, event: Event) -> u64 {
        self.0[event as usize].load(Ordering::Relaxed)
    }
}

/// A message of the crowd.
struct Said {
    from: usize,
    to: &'static str,
    is_poison: bool,
    /// Its sender heard that everything up to it was handled, and no error.
    is_accepted: bool,
}

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Opening,
    Authenticating,
    Opened,
    Binding,
    Said(usize),
}

struct Client {
    socket: UnixStream,
    seen: String,
    user: usize,
    stage: Stage,
    looks: u32,
}

/// See the module.
pub(crate) struct Bystanders {
    rng: Rng,
    crowd: usize,
    /// Of them so many have written.
    turn: usize,
    clients: Vec<Client>,
    said: Vec<Said>,
    imported: usize,
    is_gone: bool,
    poisons: usize,
}

fn member(at: usize) -> String {
    format!("c{at}@localhost")
}

impl Bystanders {
    pub(crate) fn new(seed: u64) -> Bystanders {
        let is_crowded = seed.is_multiple_of(CROWDED_EVERY);
        Bystanders {
            rng: Rng::with_seed(seed.rotate_left(17)),
            crowd: if is_crowded { CROWD } else { FEW },
            turn: 0,
            clients: Vec::new(),
            said: Vec::new(),
            imported: 0,
            is_gone: false,
            // Six crashes in a minute are one too many, and each of these messages causes two.
            poisons: if seed % 4 == 1 { 4 } else { 0 },
        }
    }

    /// Makes the accounts.
    pub(crate) fn provision(&self, store: &Store) {
        let crowd = (0..self.crowd).map(member);
        let all: Vec<String> = crowd
            .chain([HUB, VICTIM, GONE].map(str::to_owned))
            .collect();
        let all: Vec<(&str, &str)> = all.iter().map(|user| (&**user, PASSWORD)).collect();
        Sim::provision(store, &all, 1).expect("accounts");
    }

    /// The process is gone.
    pub(crate) fn crash(&mut self) {
        self.clients.clear();
    }

    /// Something happens, or nothing.
    pub(crate) fn tick(&mut self, sim: &mut Sim, seen: &Seen) {
        let is_crowding = self.crowd == CROWD && self.turn < CROWD;
        let count = match is_crowding {
            true => ENTER_MAX,
            false => usize::from(self.rng.u8(..4) == 0),
        };
        for _ in 0..count {
            let user = self.turn % self.crowd;
            let is_busy = self.clients.iter().any(|client| client.user == user);
            if !is_busy && self.clients.len() < CLIENTS_MAX {
                self.turn += 1;
                self.begin(sim, user);
            }
        }
        if self.rng.u8(..32) == 0 {
            self.administer(sim, seen);
        }
        let clients = std::mem::take(&mut self.clients);
        for mut client in clients {
            if self.look(&mut client, seen) {
                self.clients.push(client);
            }
        }
    }

    fn begin(&mut self, sim: &mut Sim, user: usize) {
        let socket = sim.connect().expect("a socket");
        let mut client = Client {
            socket,
            seen: String::new(),
            user,
            stage: Stage::Opening,
            looks: 0,
        };
        if client.say(OPEN) {
            self.clients.push(client);
        }
    }

    fn administer(&mut self, sim: &Sim, seen: &Seen) {
        let any = format!("c{}@localhost", self.rng.usize(..self.crowd));
        match self.rng.u8(..6) {
            0 if self.is_gone => {
                sim.make_account(GONE, PASSWORD).expect("a password");
                self.is_gone = false;
                seen.note(Event::MadeAgain);
            }
            0 => {
                sim.administer(GONE, AdminCommand::Remove);
                self.is_gone = true;
                seen.note(Event::Removed);
            }
            1 => {
                self.imported += 1;
                let users: Vec<String> = (0..4)
                    .map(|at| format!("i{}-{at}@localhost", self.imported))
                    .collect();
                let users: Vec<(&str, &str)> = users.iter().map(|user| (&**user, "x")).collect();
                sim.import(Sim::accounts(&users, 1).expect("passwords"));
                seen.note(Event::Imported);
            }
            2 => {
                let xml = format!("<note xmlns='urn:example'>{}</note>", self.imported);
                let record = Record::PrivatePut {
                    user: HUB.to_owned(),
                    ns: "urn:example".to_owned(),
                    name: "note".to_owned(),
                    xml: xml.into_bytes(),
                };
                sim.administer(HUB, AdminCommand::Import(Box::new(record)));
                seen.note(Event::ImportedLoaded);
            }
            3 => sim.administer(&any, AdminCommand::Kick),
            4 => sim.administer(HUB, AdminCommand::Inspect),
            _ => {
                sim.administer(&any, AdminCommand::Queue(QueueCommand::List));
                sim.administer(&any, AdminCommand::Queue(QueueCommand::Retry(None)));
                seen.note(Event::Administered);
            }
        }
    }

    /// Goes on with a client; false if it is done.
    fn look(&mut self, client: &mut Client, seen: &Seen) -> bool {
        client.looks += 1;
        if !client.read() || client.looks > LOOKS_MAX {
            if client.seen.contains("temporary-auth-failure") {
                seen.note(Event::Unreadable);
            }
            return false;
        }
        let stage = client.stage;
        let wanted = match stage {
            Stage::Opening | Stage::Opened => "</stream:features>",
            Stage::Authenticating => "<success",
            Stage::Binding => "</bind></iq>",
            Stage::Said(_) => "id='ping'",
        };
        if stage == Stage::Authenticating && client.seen.contains("temporary-auth-failure") {
            seen.note(Event::Unreadable);
            return false;
        }
        let Some(at) = client.seen.find(wanted) else {
            return true;
        };
        let before: String = client.seen.drain(..at + wanted.len()).collect();
        let (next, text) = match stage {
            Stage::Opening => {
                let token = format!("\0c{}\0{PASSWORD}", client.user);
                let token = xmpp::sasl::encode(&token);
                let sasl = "xmlns='urn:ietf:params:xml:ns:xmpp-sasl'";
                let auth = format!("<auth {sasl} mechanism='PLAIN'>{token}</auth>");
                (Stage::Authenticating, auth)
            }
            Stage::Authenticating => (Stage::Opened, OPEN.to_owned()),
            Stage::Opened => {
                let bind = "xmlns='urn:ietf:params:xml:ns:xmpp-bind'";
                let bind = format!("<iq type='set' id='b'><bind {bind}/></iq>");
                (Stage::Binding, bind)
            }
            Stage::Binding => {
                let (number, message) = self.message(client.user);
                let ping = "<iq type='get' id='ping' to='localhost'>\
                     <ping xmlns='urn:xmpp:ping'/></iq>";
                (Stage::Said(number), message + ping)
            }
            Stage::Said(number) => {
                self.said[number].is_accepted = !before.contains("type='error'");
                return false;
            }
        };
        client.stage = next;
        client.say(&text)
    }

    fn message(&mut self, from: usize) -> (usize, String) {
        let number = self.said.len();
        let is_crowding = self.crowd == CROWD && self.turn <= CROWD;
        let is_poison = self.poisons > 0 && self.rng.bool();
        let to = match self.rng.u8(..8) {
            _ if is_poison => VICTIM,
            _ if is_crowding => HUB,
            0..4 => HUB,
            4..6 => VICTIM,
            _ => GONE,
        };
        self.poisons -= usize::from(is_poison);
        self.said.push(Said {
            from,
            to,
            is_poison,
            is_accepted: false,
        });
        let poison = match is_poison {
            true => format!("{SECRET}-on-delivery"),
            false => String::new(),
        };
        let message = format!(
            "<message type='chat' to='{to}' id='b{number}'><body>b{number} {poison}</body>\
             </message>"
        );
        (number, message)
    }

    /// What the shards have counted.
    pub(crate) fn count(sim: &Sim, seen: &Seen) {
        let stats = sim.stats();
        for (event, counter) in [
            (Event::Crashed, Counter::ActorPanics),
            (Event::Quarantined, Counter::ActorQuarantined),
            (Event::Returned, Counter::MessagesReturned),
            (Event::Paused, Counter::RangesPaused),
        ] {
            seen.add(event, stats.counter(counter));
        }
    }

    /// Lets everything settle on a disk that works, and says what is wrong.
    pub(crate) fn settle(
        &self,
        store: impl Fn() -> Store,
        options: Options,
        clock: &VirtualClock,
        seen: &Seen,
    ) -> Vec<String> {
        let limits = net::Limits::default();
        let sim = Sim::start(options, limits, store(), clock.clone(), 1, Plan::default());
        let mut sim = sim.expect("a node");
        let store = store();
        let mut passed = Duration::ZERO;
        let mut late = self.late(&store);
        while !late.is_empty() && passed < SETTLE {
            let step = Duration::from_millis(50);
            clock.advance(step);
            passed += step;
            sim.work().expect("work");
            if passed.subsec_millis() == 0 {
                late = self.late(&store);
            }
        }
        Bystanders::count(&sim, seen);
        let senders = bodies(&store, HUB)
            .into_iter()
            .map(|number| self.said[number].from);
        if senders.collect::<HashSet<_>>().len() > store::limits::SEEN_MAX {
            seen.note(Event::Crowded);
        }
        let mut found: Vec<String> = late;
        let senders = (0..self.crowd).map(member);
        let returned: Vec<(usize, bool)> = senders.flat_map(|user| errors(&store, &user)).collect();
        for to in [HUB, VICTIM, GONE] {
            found.extend(self.check(&store, to, &returned));
        }
        found
    }

    /// Those whose messages are not all settled.
    fn late(&self, store: &Store) -> Vec<String> {
        let senders = (0..self.crowd).map(member);
        let late = senders.filter(|user| {
            let state = store.load_user(user).expect("readable").expect("there");
            let lagging = state.windows.is_some_and(|own| !own.lagging.is_empty());
            lagging || state.log.last_outgoing > state.log.forwarded
        });
        late.map(|user| format!("{user} has messages that are not settled"))
            .collect()
    }

    /// What is wrong with what somebody got, and what came back of it.
    fn check(&self, store: &Store, to: &str, returned: &[(usize, bool)]) -> Vec<String> {
        let mut found = Vec::new();
        let mut times: HashMap<usize, usize> = HashMap::new();
        let mut last: HashMap<usize, usize> = HashMap::new();
        for number in bodies(store, to) {
            let from = self.said[number].from;
            *times.entry(number).or_default() += 1;
            if last.insert(from, number).is_some_and(|last| last > number) {
                found.push(format!(
                    "{to} has b{number} behind a later one of its sender"
                ));
            }
        }
        let own = self
            .said
            .iter()
            .enumerate()
            .filter(|(_, said)| said.to == to);
        for (number, said) in own {
            let times = times.get(&number).copied().unwrap_or_default();
            let own = returned.iter().filter(|(own, _)| *own == number);
            let errors = own.clone().count();
            let certain = own.filter(|(_, is_doubtful)| !is_doubtful).count();
            // What was for an account that was removed went with it, or came back.
            let is_lost = said.is_accepted && times + errors == 0 && to != GONE;
            let is_twice = times + certain > 1 || errors > 1 || times > 1;
            if is_lost || is_twice || said.is_poison && times > 0 {
                found.push(format!(
                    "b{number} of c{} (accepted: {}) is {times} times in {to}'s log and came back \
                     {errors} times",
                    said.from, said.is_accepted
                ));
            }
        }
        found
    }
}

/// The messages in a log, as their bodies say.
fn bodies(store: &Store, user: &str) -> Vec<usize> {
    let number = |text: &str| {
        let (_, body) = text.split_once("<body>b")?;
        body.split_once(' ')?.0.parse().ok()
    };
    entries(store, user)
        .iter()
        .filter_map(|text| number(text))
        .collect()
}

/// The messages that came back to a log, as their ids say, each with whether it may have been
/// delivered all the same.
fn errors(store: &Store, user: &str) -> Vec<(usize, bool)> {
    let number = |text: &str| {
        let (_, id) = text
            .split_once("id='b")
            .filter(|_| text.contains("type='error'"))?;
        let number = id.split_once('\'')?.0.parse().ok()?;
        Some((number, text.contains("may have been delivered")))
    };
    entries(store, user)
        .iter()
        .filter_map(|text| number(text))
        .collect()
}

/// The stanzas of a log.
fn entries(store: &Store, user: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut after = 0;
    loop {
        let page = store.log_read(user, after, 256).expect("readable");
        let Some(last) = page.last() else {
            return found;
        };
        after = last.seq;
        let texts = page
            .iter()
            .map(|entry| String::from_utf8_lossy(&entry.frame).into_owned());
        found.extend(texts);
    }
}

impl Client {
    fn say(&mut self, text: &str) -> bool {
        self.socket.write_all(text.as_bytes()).is_ok()
    }

    /// Reads what has come; false at the end.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return false,
                Ok(read) => {
                    let text = String::from_utf8_lossy(&buffer[..read]);
                    self.seen.push_str(&text);
                }
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    }
}
