//! A whole node on one thread, under a clock that moves when it is told to: shards take turns in
//! an order drawn from a seed, the journal is a twin that decides when it is let, reads happen at
//! once, or late and in any order ([`Sim::set_late_reads`]). Clients find everything answered that
//! can be answered once [`Sim::work`] returns. They reach it by its port, as they reach a process,
//! or, if a seed has to play the same again, by [`Sim::connect`]: which shard accepts at a port,
//! and when, is up to the kernel. For tests that try thousands of schedules.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use actor::{Core, Delay, Handle, Mail as _, Name, Pool, ShardId};
use stdx::rand::Rng;
use stdx::time::VirtualClock;
use store::{Account, InlineJournal, Plan, Record, Store, TwinJournal};

use telemetry::Snapshot;

use super::setup::{Layout, Setup, Under};
use super::{C2sService, StartError};
use crate::journal::{PORT, PortMsg};
use crate::message::UserMsg;
use crate::modules::Extensions;
use crate::moves::{MOVER, Move, MoverMsg};
use crate::operator::AdminCommand;
use crate::options::Options;
use crate::place::Place;
use crate::post::{Post, Received};
use crate::wake::{loads, wake};

/// Turns of every shard after which work that goes on is taken for endless.
const ROUNDS_MAX: usize = 10_000;

/// See the module.
pub struct Sim {
    drivers: Vec<net::Driver<C2sService>>,
    address: SocketAddr,
    components: SocketAddr,
    journal: Arc<TwinJournal>,
    /// What is under it.
    inline: Arc<InlineJournal>,
    rng: Rng,
    reads: Delay,
    /// When late reads go on; drawn apart, so that everything else is as without them.
    lateness: Rng,
    handle: Handle,
    network: Arc<net::Shared>,
    place: Place,
    post: Post,
    /// This shard stands still.
    stalled: Option<ShardId>,
    /// No read goes on.
    has_stalled_reads: bool,
}

fn account(password: &str, iterations: u32) -> Result<Account, StartError> {
    let password = xmpp::sasl::prepare_password(password)
        .map_err(|_| StartError::Options("a password is none".to_owned()))?;
    Ok(Account {
        created: VirtualClock::START,
        locked: false,
        scram: crate::keys::derive_keys(&password, b"salt", iterations),
    })
}

impl Sim {
    /// Makes accounts in a store that no node has: each with its address and password.
    ///
    /// # Errors
    /// [`StartError::Options`] if a password is none, or the store refuses them.
    pub fn provision(
        store: &Store,
        accounts: &[(&str, &str)],
        iterations: u32,
    ) -> Result<(), StartError> {
        let made = store.bulk(Sim::accounts(accounts, iterations)?);
        made.map(drop)
            .map_err(|error| StartError::Options(error.to_string()))
    }

    /// Records that make accounts, each with its address and password.
    ///
    /// # Errors
    /// [`StartError::Options`] if a password is none.
    pub fn accounts(accounts: &[(&str, &str)], iterations: u32) -> Result<Vec<Record>, StartError> {
        let made = accounts.iter().map(|(user, password)| {
            Ok(Record::AccountPut {
                user: (*user).to_owned(),
                account: account(password, iterations)?,
            })
        });
        made.collect()
    }

    /// Starts a node on `store` with one port of this machine. What goes wrong with commits by
    /// itself is in `plan`.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        options: Options,
        limits: net::Limits,
        store: Store,
        clock: VirtualClock,
        seed: u64,
        plan: Plan,
    ) -> Result<Sim, StartError> {
        Sim::start_with(
            Extensions::default(),
            options,
            limits,
            store,
            clock,
            seed,
            plan,
        )
    }

    /// The same with more extensions and services.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start_with(
        extensions: Extensions,
        options: Options,
        limits: net::Limits,
        store: Store,
        clock: VirtualClock,
        seed: u64,
        plan: Plan,
    ) -> Result<Sim, StartError> {
        let inline = InlineJournal::new(&store).map_err(|e| StartError::Options(e.to_string()))?;
        let inline = Arc::new(inline);
        let journal = Arc::new(TwinJournal::inline(inline.clone(), plan));
        let reads = Delay::default();
        let under = Under {
            clock: Arc::new(clock),
            seed,
            journal: journal.clone(),
            reads: reads.pool(),
            crypto: Pool::inline(),
            extensions,
        };
        let clients = net::Listener::new(([127, 0, 0, 1], 0).into());
        let components = net::Listener {
            speaks: net::Speaks::Component(0),
            ..clients.clone()
        };
        let listeners = vec![clients, components];
        let mut layout = Layout::new(options, listeners, limits, None, store, under)?;
        let mut drivers = Vec::new();
        for (index, shard) in layout.shards.into_iter().enumerate() {
            let (driver, setup) = (layout.network.seed(index), layout.setup.clone());
            drivers.push(setup.build(driver, shard)?);
        }
        let [address, components] = *layout.network.addresses() else {
            return Err(StartError::Options("no port".to_owned()));
        };
        let Setup {
            options,
            store,
            place,
            handle,
            ..
        } = &layout.setup;
        wake(store, place, handle, options.waking, || false);
        place.set_all_woken();
        Ok(Sim {
            drivers,
            address,
            components,
            journal,
            inline,
            rng: Rng::with_seed(seed),
            reads,
            lateness: Rng::with_seed(!seed),
            handle: layout.setup.handle.clone(),
            network: layout.network.shared(),
            place: layout.setup.place.clone(),
            post: layout.setup.post(),
            stalled: None,
            has_stalled_reads: false,
        })
    }

    /// A connection to a shard that is drawn: the client's end, which never blocks.
    ///
    /// # Errors
    /// The operating system's, if it gives no sockets.
    pub fn connect(&mut self) -> io::Result<UnixStream> {
        let (client, server) = UnixStream::pair()?;
        client.set_nonblocking(true)?;
        server.set_nonblocking(true)?;
        let at = self.rng.usize(..self.drivers.len());
        self.drivers[at].take(server.into(), self.address);
        Ok(client)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens for components, those of number 0.
    pub fn components(&self) -> SocketAddr {
        self.components
    }

    /// Has an account made, as an administrator does. What became of it shows when its user logs
    /// in.
    ///
    /// # Errors
    /// [`StartError::Options`] if the password is none.
    pub fn make_account(&self, user: &str, password: &str) -> Result<(), StartError> {
        let account = account(password, 1)?;
        self.administer(user, AdminCommand::Create(account));
        Ok(())
    }

    /// Has records of accounts taken in, as an import does. Of accounts that are loaded nothing
    /// is: those take their records by [`AdminCommand::Import`].
    pub fn import(&self, records: Vec<Record>) {
        let mut shards: BTreeMap<ShardId, Vec<Record>> = BTreeMap::new();
        for record in records {
            let shard = self.place.shard(record.user());
            shards.entry(shard).or_default().push(record);
        }
        for (shard, records) in shards {
            let question = |reply| PortMsg::Import {
                slots: self.place.slots(),
                records,
                reply,
            };
            let port = Name::from(PORT);
            // As below.
            let _ = self
                .handle
                .ask_named(shard, &port, question, Duration::ZERO);
        }
    }

    /// Everything that the shards have counted, as of their last reports.
    pub fn stats(&self) -> Snapshot {
        let mut all = Snapshot::default();
        for shard in (0..self.drivers.len()).map(|shard| ShardId::new(shard as u16)) {
            all.merge(&self.handle.stats(shard));
            if let Some(stats) = self.network.stats(shard) {
                all.merge(&stats);
            }
        }
        all
    }

    /// Kills the actor of an account, if it is loaded, once its shard runs.
    pub fn kill(&self, user: &str) {
        let name = Name::from(user);
        self.handle.run_on(self.place.shard(user), move |core| {
            if let Some(actor) = core.whereis::<UserMsg>(&name) {
                core.kill(actor.id());
            }
        });
    }

    /// Moves the range of an address to the next shard as soon as it can; if it cannot for long, it
    /// stays. False if there is no other shard.
    pub fn move_range(&self, address: &str) -> bool {
        let from = self.place.shard(address);
        let to = ShardId::new((from.index() + 1) % self.handle.shards());
        let one = Move {
            range: self.place.range(address),
            to,
            tried: None,
            reply: None,
        };
        let mover = Name::from(MOVER);
        from != to
            && self
                .handle
                .send_named(from, &mover, MoverMsg::Move(one))
                .is_ok()
    }

    /// Has an account do something, as an administrator does. What became of it shows later.
    pub fn administer(&self, user: &str, command: AdminCommand) {
        let (shard, name) = (self.place.shard(user), Name::from(user));
        let question = |reply| UserMsg::Admin {
            command: Box::new(command),
            reply,
        };
        // The answer comes when the shards run, and they run on this thread.
        let _ = self
            .handle
            .ask_named(shard, &name, question, Duration::ZERO);
    }

    /// A packet comes from another node. Returns the answer to that node, if there is one.
    ///
    /// # Errors
    /// Why it is none that this node takes.
    pub fn arrives(&self, packet: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let received = self.post.receive(&self.place, packet);
        match received.map_err(|error| error.to_string())? {
            Received::Said { to, said, activate } => {
                let shard = self.place.shard(&to);
                let activate = activate || loads(&self.place, &to, &said.message);
                let tell = move |core: &mut Core| {
                    let msg = UserMsg::Said(said);
                    // With a full mailbox, whoever needs an answer is told by it.
                    let _ = match activate {
                        true => core.send_named(shard, &to, msg),
                        false => core.send_named_if_active(shard, &to, msg),
                    };
                };
                self.handle.run_on(shard, tell);
                Ok(None)
            }
            Received::Moved(moved) => {
                let mut answer = Vec::new();
                let encoded = wire::Packet::Moved(moved).encode(&mut answer);
                encoded.map_err(|error| error.to_string())?;
                Ok(Some(answer))
            }
            Received::Done => Ok(None),
            Received::Comes(_)
            | Received::Adopts(_)
            | Received::Joined(_)
            | Received::Passed(_)
            | Received::Errand(_) => Err("a simulated node has no others".to_owned()),
        }
    }

    /// The shard that is an address's home.
    pub fn shard(&self, address: &str) -> ShardId {
        self.place.shard(address)
    }

    /// A shard takes no turns from now on; with `None` all do again.
    pub fn stall(&mut self, shard: Option<ShardId>) {
        self.stalled = shard;
    }

    /// Messages that a shard has not taken yet.
    pub fn waiting(&self, shard: ShardId) -> usize {
        self.handle.waiting(shard)
    }

    /// Reads that are asked for from now on are late: each is done, and its result comes, at some
    /// time before [`Sim::work`] returns, in any order.
    pub fn set_late_reads(&mut self, are_late: bool) {
        self.reads.set_on(are_late);
    }

    /// Late reads wait from now on, until they are let go on. Returns how many there are.
    pub fn stall_reads(&mut self, do_wait: bool) -> usize {
        self.has_stalled_reads = do_wait;
        self.reads.len()
    }

    /// The late read at this place goes on: it is done, and its result waits behind the others; or
    /// that comes.
    pub fn let_read(&self, at: usize) {
        self.reads.let_go(at);
    }

    /// The range of an address.
    pub fn range(&self, address: &str) -> u16 {
        self.place.range(address).index()
    }

    /// The range of an address is at home here in another tenure from now on, or elsewhere (0).
    pub fn set_tenure(&self, address: &str, tenure: u32) {
        self.place.set_tenure(self.place.range(address), tenure);
    }

    /// The journal: appends are held, released and disturbed here.
    pub fn journal(&self) -> &TwinJournal {
        &self.journal
    }

    /// Opens the store again if a commit failed and its disk is good again. A real node tries that
    /// five times a second.
    pub fn heal(&self) {
        self.inline.try_to_heal();
    }

    /// One turn of every shard that is not stalled, in any order. True if one of them has more to
    /// do at once.
    ///
    /// # Errors
    /// The poll's.
    pub fn turn(&mut self) -> io::Result<bool> {
        let mut order: Vec<usize> = (0..self.drivers.len()).collect();
        order.retain(|at| {
            self.stalled
                .is_none_or(|one| usize::from(one.index()) != *at)
        });
        self.rng.shuffle(&mut order);
        let mut more = false;
        for at in order {
            more |= self.drivers[at].step()? == Duration::ZERO;
        }
        let reads = self.reads.len();
        if self.has_stalled_reads || reads == 0 {
            return Ok(more);
        }
        // Most of them when nobody has anything else to do.
        if !more || self.lateness.u8(..4) == 0 {
            let at = self.lateness.usize(..reads);
            self.let_read(at);
        }
        Ok(true)
    }

    /// Turns until nobody has anything to do at this time.
    ///
    /// # Errors
    /// The poll's, or there is no end to it.
    pub fn work(&mut self) -> io::Result<()> {
        for _ in 0..ROUNDS_MAX {
            if !self.turn()? {
                return Ok(());
            }
        }
        Err(io::Error::other("the shards keep each other busy for ever"))
    }
}
