//! What every actor of one shard shares: the way to connections, to the journal, to the store and
//! to other entities. One value per shard, never shared between shards.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use actor::{Actor, Context, Mail, Name, Pool, Reply, SendError};
use delivery::Refusal;
use net::AddressKey;
use stdx::time::{Moment, Timestamp};
use store::Store;
use telemetry::Counter;
use xml::Frame;
use xmpp::error::StanzaError;

use crate::address;
use crate::c2s::C2sService;
use crate::guard::{Charge, Generations, Guard};
use crate::journal::Port;
use crate::message::{Delivery, NotTaken, Source, UserMsg};
use crate::modules::caps;
use crate::options::{DeliveryLimits, Limits, Options};
use crate::place::Place;
use crate::queues::{self, Queues};
use crate::repeats::Repeats;
use crate::room::temporary::Table;
use crate::talkers::{self, Talkers};
use crate::user::{Debt, Turn};

/// The surroundings of the actors of one shard.
pub struct Home {
    /// The way to connections.
    pub io: net::Io<C2sService>,
    /// The same, for what may be dropped anywhere.
    pub(crate) remote: net::RemoteIo<C2sService>,
    /// Where entities live.
    pub place: Place,
    /// Reads; only ever used on pool threads.
    pub store: Store,
    /// Appends.
    pub journal: Port,
    /// Threads that read the store.
    pub reads: Pool,
    /// Threads that derive keys.
    pub crypto: Pool,
    /// How the node is set up.
    pub options: Arc<Options>,
    /// Bounds of what sessions are given, as [`Options::delivery`] says.
    pub(crate) inbox_limits: Arc<delivery::InboxLimits>,
    /// Bounds that a reload may change.
    limits: RefCell<Rc<Limits>>,
    /// Who is sent the most.
    pub(crate) talkers: RefCell<Talkers>,
    /// Who reached a budget: accounts, and addresses of those who are none.
    pub(crate) braked: RefCell<Talkers>,
    /// Lent to the user who handles a message.
    pub(crate) turn: Cell<Option<Box<Turn>>>,
    /// Lent to stanzas that are passed on.
    #[expect(clippy::vec_box, reason = "it is the boxes that are used again")]
    pub(crate) debts: RefCell<Vec<Box<Debt>>>,
    /// Stanzas that were passed on while their connections were far from their windows.
    pub(crate) passed_on: Cell<u16>,
    /// Who has messages for destinations that do not keep up.
    pub(crate) queues: Queues,
    /// How many outboxes there were on this shard.
    pub(crate) lives: Cell<u64>,
    /// What the log says of changes that failed.
    pub(crate) failed_changes: RefCell<Repeats>,
    /// When the node started.
    pub started: Timestamp,
    /// What all shards share to keep strangers within their share.
    pub(crate) guard: Arc<Guard>,
    /// Changes that end what began to log in before them.
    pub(crate) generations: RefCell<Generations>,
    /// Rooms of the node that are in no store.
    pub(crate) rooms: Arc<Table>,
    /// Capabilities of clients.
    pub(crate) caps: RefCell<caps::Table>,
}

impl Home {
    /// Puts the parts together.
    #[expect(
        clippy::too_many_arguments,
        reason = "one caller, and every part has its own type"
    )]
    pub(crate) fn new(
        io: net::Io<C2sService>,
        remote: net::RemoteIo<C2sService>,
        place: Place,
        store: Store,
        journal: Port,
        reads: Pool,
        crypto: Pool,
        options: Arc<Options>,
        started: Timestamp,
        talkers: talkers::Published,
        braked: talkers::Published,
        queues: queues::Published,
        guard: Arc<Guard>,
        rooms: Arc<Table>,
    ) -> Self {
        let limits = RefCell::new(Rc::new(options.limits.clone()));
        Home {
            io,
            remote,
            place,
            store,
            journal,
            reads,
            crypto,
            inbox_limits: Arc::new(options.delivery.inbox()),
            caps: RefCell::new(caps::Table::new(options.pep.caps.clone())),
            options,
            limits,
            talkers: RefCell::new(Talkers::new(talkers)),
            braked: RefCell::new(Talkers::of_events(braked)),
            turn: Cell::default(),
            debts: RefCell::default(),
            passed_on: Cell::default(),
            queues: Queues::new(queues),
            lives: Cell::default(),
            failed_changes: RefCell::default(),
            started,
            guard,
            generations: RefCell::default(),
            rooms,
        }
    }

    /// Bounds of delivery.
    pub(crate) fn bounds(&self) -> &DeliveryLimits {
        &self.options.delivery.limits
    }

    /// Somebody has reached a budget: for `roost top`.
    pub(crate) fn brake(&self, who: &Name, now: Moment) {
        self.braked.borrow_mut().note(who, 1, || now);
    }

    /// Charges an address for a question that a room or a service asks the store for a client
    /// there. `None` if the address has as many under way as it may: that is counted.
    pub(crate) fn charge(
        &self,
        from: Option<AddressKey>,
        cx: &mut Context<'_, UserMsg>,
    ) -> Option<Charge> {
        let limits = self.limits();
        let max = (
            limits.questions_per_address_max,
            limits.answer_bytes_per_address_max,
        );
        let charge = self.guard.budgets.ask(from, max);
        if charge.is_none() {
            cx.stats().count(Counter::QuestionsRefused);
            if let Some(address) = from {
                self.brake(&Name::from(&*address.to_string()), cx.now());
            }
        }
        charge
    }

    /// The bounds in force.
    pub fn limits(&self) -> Rc<Limits> {
        Rc::clone(&self.limits.borrow())
    }

    /// Puts new bounds in force; what is already larger stays.
    pub fn set_limits(&self, limits: Limits) {
        *self.limits.borrow_mut() = Rc::new(limits);
    }

    /// Whether a domain is one of this server's, those of rooms and services included.
    pub fn serves(&self, domain: &str) -> bool {
        self.hosts_accounts(domain) || self.hosts_rooms(domain) || self.hosts_nodes(domain)
    }

    /// Whether a domain is one of accounts.
    pub fn hosts_accounts(&self, domain: &str) -> bool {
        self.options.domains.iter().any(|own| own == domain)
    }

    /// Whether a domain is one of rooms.
    pub fn hosts_rooms(&self, domain: &str) -> bool {
        self.options.rooms.hosts.iter().any(|own| own == domain)
    }

    /// Whether an address is that of a service that has nodes.
    pub fn hosts_nodes(&self, bare: &str) -> bool {
        self.options.pubsub.hosts.iter().any(|own| own == bare)
    }

    /// The answer to the home of a sender whose message `own` did not take; `error` is what he is
    /// told if that is for good.
    pub(crate) fn not_taken(
        &self,
        own: &str,
        source: Source,
        why: Refusal,
        error: Option<StanzaError>,
    ) -> Box<NotTaken> {
        let by = self.place.slots().peer(own);
        Box::new(NotTaken {
            by,
            source,
            why,
            error,
        })
    }

    /// A test may ask for a fault of ours, as of users: the secret of `debug.panic_hook` with
    /// `-in-the-room` behind it makes the room or service panic that takes a stanza.
    pub(crate) fn panic_if_asked(&self, frame: &Frame) {
        if let Some(secret) = &self.options.debug_panic_hook {
            let text = String::from_utf8_lossy(frame.as_bytes());
            assert!(
                !text.contains(&format!("{secret}-in-the-room")),
                "a stanza had the secret of debug.panic_hook"
            );
        }
    }

    /// Sends a message to an account of this server, wherever it lives. Without `activate`, an
    /// account that is not loaded does not get it. A message that its mailbox has no room for comes
    /// back.
    pub fn send(
        &self,
        mail: &mut impl Mail,
        bare: &str,
        msg: UserMsg,
        activate: bool,
    ) -> Option<UserMsg> {
        self.send_to(mail, &Name::from(bare), msg, activate)
    }

    /// As [`Home::send`].
    pub(crate) fn send_to(
        &self,
        mail: &mut impl Mail,
        name: &Name,
        msg: UserMsg,
        activate: bool,
    ) -> Option<UserMsg> {
        let shard = self.place.shard(name);
        let sent = if activate {
            mail.send_named(shard, name, msg)
        } else {
            mail.send_named_if_active(shard, name, msg)
        };
        match sent {
            Ok(()) => None,
            Err(SendError::Full(msg)) => Some(msg),
            Err(SendError::Gone(_)) => None,
        }
    }

    /// Answers a stanza with an error, to whoever sent it. Who is gone, or has no room for an error
    /// either, is told nothing.
    pub(crate) fn return_error(&self, mail: &mut impl Mail, frame: &Frame, error: &StanzaError) {
        let (Some(reply), Some(from)) = (xmpp::error::reply(frame, error), frame.attr("from"))
        else {
            return mail.stats().count(Counter::ActorDropped);
        };
        let (bare, resource) = address::split(&from);
        let delivery = Delivery::new(resource.map(Into::into), reply);
        if self
            .send(mail, bare, UserMsg::Deliver(delivery), false)
            .is_some()
        {
            mail.stats().count(Counter::ActorDropped);
        }
    }
}

/// New bounds for one shard; answered once they are in force.
pub(crate) struct SetLimits {
    pub(crate) limits: Limits,
    pub(crate) reply: Reply<()>,
}

/// Puts new bounds in force on its shard; other threads reach the shard only by messages.
pub(crate) struct LimitsActor(pub(crate) Rc<Home>);

impl Actor for LimitsActor {
    type Msg = SetLimits;

    fn handle(&mut self, msg: SetLimits, _cx: &mut Context<'_, SetLimits>) {
        self.0.set_limits(msg.limits);
        msg.reply.answer(());
    }
}
