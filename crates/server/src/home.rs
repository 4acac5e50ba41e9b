//! What every actor of one shard shares: the way to connections, to the journal, to the store and
//! to other entities. One value per shard, never shared between shards.

mod debts;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use actor::{Actor, Context, Mail, Name, Pool, Refused, Reply, SendError, Shard, ShardId};
use delivery::Refusal;
use net::AddressKey;
use stdx::time::{Moment, Timestamp};
use store::Store;
use telemetry::Counter;
use wire::{Message, NotTaken, OfRoom, Source, Stanza, ToRoom};
use xml::Frame;
use xml::build::Writer;
use xmpp::error::StanzaError;

use crate::address;
use crate::guard::{Charge, Generations, Guard};
use crate::journal::Port;
use crate::lines::Lines;
use crate::listing::Table;
use crate::message::control::Control;
use crate::message::credit::{Credits, Debt};
use crate::message::{AppendError, Delivery, Said, UserMsg};
use crate::modules::service::Service;
use crate::modules::{Extensions, caps};
use crate::options::{DeliveryLimits, Limits, Options};
use crate::pace::Pace;
use crate::place::Place;
use crate::post::Post;
use crate::queues::Queues;
use crate::repeats::Repeats;
use crate::talkers::{self, Talkers};
use crate::wake::loads;

/// The surroundings of the actors of one shard.
pub(crate) struct Home {
    /// The way to connections.
    pub io: net::Io<Control>,
    /// The same, for what may be dropped anywhere.
    pub(crate) remote: net::RemoteIo<Control>,
    /// Where entities live.
    pub place: Place,
    /// Reads; only ever used on pool threads.
    pub store: Store,
    /// Appends.
    pub journal: Port,
    /// Threads that read the store.
    pub reads: Pool,
    /// The same threads, for requests, rooms and services: anybody can have much of them read, and
    /// logins and deliveries go before.
    pub later_reads: Pool,
    /// Threads that derive keys.
    pub crypto: Pool,
    /// How the node is set up.
    pub options: Arc<Options>,
    /// Domains that components serve.
    components: Vec<Name>,
    /// Extensions that answer for accounts beside [`crate::modules::MODULES`].
    pub(crate) extensions: Extensions,
    /// Bounds of what sessions are given, as [`Options::delivery`] says.
    pub(crate) inbox_limits: Arc<delivery::InboxLimits>,
    /// Bounds that a reload may change.
    limits: RefCell<Rc<Limits>>,
    /// Who is sent the most.
    pub(crate) talkers: RefCell<Talkers>,
    /// Who reached a budget: accounts, and addresses of those who are none.
    pub(crate) braked: RefCell<Talkers>,
    /// Lent to stanzas that are passed on.
    #[expect(clippy::vec_box, reason = "it is the boxes that are used again")]
    pub(crate) debts: RefCell<Vec<Box<Debt>>>,
    /// Stanzas that were passed on while their connections were far from their windows.
    pub(crate) passed_on: Cell<u16>,
    /// Who has messages for destinations that do not keep up.
    pub(crate) queues: Queues,
    /// The last of [`Home::next_life`].
    lives: Cell<u64>,
    /// What the log says of changes that failed.
    pub(crate) failed_changes: RefCell<Repeats>,
    /// And of reads of what is to be handed over.
    pub(crate) failed_reads: RefCell<Repeats>,
    /// When the node started.
    pub started: Timestamp,
    /// What all shards share to keep strangers within their share.
    pub(crate) guard: Arc<Guard>,
    /// Changes that end what began to log in before them.
    pub(crate) generations: RefCell<Generations>,
    /// Rooms of the node that are in no store.
    pub(crate) rooms: Arc<Table>,
    /// How often accounts search for others.
    pub(crate) searches: RefCell<Pace>,
    /// Capabilities of clients.
    pub(crate) caps: RefCell<caps::Table>,
    /// Connections that are shared with other nodes.
    pub(crate) lines: Lines,
    /// How session ids name this node, if it is one of several.
    pub(crate) own: Option<u64>,
    /// This node's lease was over when it was looked at last.
    is_fenced: Cell<bool>,
    /// Takes messages to other nodes, or through their bytes if that is asked for.
    post: Option<Post>,
}

impl Home {
    /// Puts the parts together.
    #[expect(
        clippy::too_many_arguments,
        reason = "one caller, and every part has its own type"
    )]
    pub(crate) fn new(
        io: net::Io<Control>,
        remote: net::RemoteIo<Control>,
        place: Place,
        store: Store,
        journal: Port,
        reads: Pool,
        crypto: Pool,
        options: Arc<Options>,
        extensions: Extensions,
        started: Timestamp,
        talkers: talkers::Published,
        braked: talkers::Published,
        queues: Queues,
        guard: Arc<Guard>,
        rooms: Arc<Table>,
        credits: Arc<Credits>,
    ) -> Self {
        let through_bytes = options.wire.through_bytes;
        let post = (through_bytes || options.cluster.is_some())
            .then(|| Post::new(credits, remote.clone(), through_bytes));
        let limits = RefCell::new(Rc::new(options.limits.clone()));
        let name = options.cluster.as_ref().and_then(|it| it.away.name());
        let own = name.map(|name| place.slots().node(&name));
        let served = options.components.served.iter();
        let components = served.map(|one| Name::from(&*one.domain)).collect();
        Home {
            io,
            remote,
            place,
            store,
            journal,
            later_reads: reads.later(),
            reads,
            crypto,
            inbox_limits: Arc::new(options.delivery.inbox()),
            caps: RefCell::new(caps::Table::new(options.pep.caps.clone())),
            lines: Lines::new(options.delivery.limits.lines),
            options,
            components,
            extensions,
            limits,
            talkers: RefCell::new(Talkers::new(talkers)),
            braked: RefCell::new(Talkers::of_events(braked)),
            debts: RefCell::default(),
            passed_on: Cell::default(),
            queues,
            lives: Cell::default(),
            failed_changes: RefCell::default(),
            failed_reads: RefCell::default(),
            started,
            guard,
            generations: RefCell::default(),
            rooms,
            own,
            is_fenced: Cell::default(),
            searches: RefCell::default(),
            post,
        }
    }

    /// Numbers of [`Home::next_life`] begin behind this one, below 2^31.
    pub(crate) fn begin_lives(&self, drawn: u32) {
        self.lives.set(u64::from(drawn >> 1));
    }

    /// A number for an outbox, or for who reads rooms: answers to what another one asked may be on
    /// their way still, also to one of another process, or at another node, and name that one.
    pub(crate) fn next_life(&self) -> u64 {
        let life = self.lives.get() + 1;
        self.lives.set(life);
        life
    }

    /// Behind which number the questions to rooms begin that one reader asks: far from those of
    /// others.
    pub(crate) fn first_question(&self) -> u32 {
        (self.next_life() as u32).wrapping_mul(0x9e37_79b9)
    }

    /// Bounds of delivery.
    pub(crate) fn bounds(&self) -> &DeliveryLimits {
        &self.options.delivery.limits
    }

    /// Somebody has reached a budget: for `roost top`.
    pub(crate) fn brake(&self, who: &Name, now: Moment) {
        self.braked.borrow_mut().note(who, 1, || now);
    }

    /// Charges an address for a question that the store is asked for a client there. `None` if the
    /// address has as many under way as it may.
    pub(crate) fn budget(&self, from: Option<AddressKey>) -> Option<Charge> {
        let limits = self.limits();
        let max = (
            limits.questions_per_address_max,
            limits.answer_bytes_per_address_max,
        );
        self.guard.budgets.ask(from, max)
    }

    /// The same for a room or a service, for which a refusal is counted and shown.
    pub(crate) fn charge(
        &self,
        from: Option<AddressKey>,
        cx: &mut Context<'_, UserMsg>,
    ) -> Option<Charge> {
        let charge = self.budget(from);
        if charge.is_none() {
            cx.stats().count(Counter::QuestionsRefused);
            if let Some(address) = from {
                self.brake(&Name::from(&*address.to_string()), cx.now());
            }
        }
        charge
    }

    /// The bounds in force.
    pub(crate) fn limits(&self) -> Rc<Limits> {
        Rc::clone(&self.limits.borrow())
    }

    /// Puts new bounds in force; what is already larger stays.
    pub(crate) fn set_limits(&self, limits: Limits) {
        *self.limits.borrow_mut() = Rc::new(limits);
    }

    /// Whether a domain is one of this server's, those of rooms and services included.
    pub(crate) fn serves(&self, domain: &str) -> bool {
        self.hosts_accounts(domain)
            || self.hosts_rooms(domain)
            || self.hosts_nodes(domain)
            || self.hosts_search(domain)
            || self.service_at(domain).is_some()
            || self.component_of(domain).is_some()
    }

    /// Whether a domain is one of accounts.
    pub(crate) fn hosts_accounts(&self, domain: &str) -> bool {
        self.options.domains.iter().any(|own| own == domain)
    }

    /// Whether a domain is one of rooms.
    pub(crate) fn hosts_rooms(&self, domain: &str) -> bool {
        self.options.rooms.hosts.iter().any(|own| own == domain)
    }

    /// Whether an address is one at which rooms or accounts are searched.
    pub(crate) fn hosts_search(&self, bare: &str) -> bool {
        self.options.search_hosts().any(|own| own == bare)
    }

    /// Whether an address is that of a service that has nodes.
    pub(crate) fn hosts_nodes(&self, bare: &str) -> bool {
        self.options.pubsub.hosts.iter().any(|own| own == bare)
    }

    /// Whether a domain is itself the address of an entity.
    pub(crate) fn is_entity(&self, domain: &str) -> bool {
        self.hosts_nodes(domain)
            || self.service_at(domain).is_some()
            || self.component_of(domain).is_some()
    }

    /// The domain of the component that serves an address, if one does. One entity stands for all
    /// addresses of such a domain.
    pub(crate) fn component_of(&self, address: &str) -> Option<&Name> {
        if self.components.is_empty() {
            return None; // As almost everywhere.
        }
        let domain = address::domain(address);
        self.components.iter().find(|own| ***own == *domain)
    }

    /// The small service at an address, if it is one's.
    pub(crate) fn service_at(&self, bare: &str) -> Option<&'static Service> {
        let (host, domain) = bare.split_once('.')?;
        let mut services = self.extensions.services.iter();
        let found = services.find(|service| service.host == host)?;
        self.hosts_accounts(domain).then_some(*found)
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

    /// Says something to an entity of this server, wherever it lives. Without `activate`, one that
    /// is not loaded does not hear it. What its mailbox has no room for comes back.
    pub(crate) fn say(
        &self,
        mail: &mut impl Mail,
        to: &Name,
        message: Message,
        activate: bool,
    ) -> Option<Message> {
        let refused = self.send(mail, (self.place.shard(to), to), message.into(), activate);
        refused.map(|said| said.message)
    }

    /// The same for a stanza, with what is owed for it.
    pub(crate) fn pass_on(
        &self,
        mail: &mut impl Mail,
        to: &Name,
        delivery: Delivery,
        activate: bool,
    ) -> Option<Delivery> {
        let refused = self.send(mail, (self.place.shard(to), to), delivery.into(), activate);
        match refused {
            Some(Said {
                message: Message::Stanza(stanza),
                debt,
            }) => Some(Delivery { stanza, debt }),
            _ => None,
        }
    }

    /// The same to an entity whose shard is known. Whatever one entity says to another passes here.
    pub(crate) fn send(
        &self,
        mail: &mut impl Mail,
        to: (ShardId, &Name),
        said: Said,
        activate: bool,
    ) -> Option<Said> {
        let Some(domain) = self.component_of(to.1) else {
            return self.send_there(mail, to, said, activate);
        };
        let said = Said {
            message: addressed(said.message, to.1),
            debt: said.debt,
        };
        self.send_there(mail, (self.place.shard(domain), domain), said, activate)
    }

    fn send_there(
        &self,
        mail: &mut impl Mail,
        (shard, to): (ShardId, &Name),
        said: Said,
        activate: bool,
    ) -> Option<Said> {
        let said = match &self.post {
            None => said,
            Some(post) => match post.pass((&self.place, to), said, activate) {
                Ok(Some(said)) => said,
                Ok(None) => return None,
                Err(said) => return Some(said),
            },
        };
        let activate = activate || loads(&self.place, to, &said.message);
        let msg = UserMsg::Said(said);
        let sent = if activate {
            mail.send_named(shard, to, msg)
        } else {
            mail.send_named_if_active(shard, to, msg)
        };
        match sent {
            Err(SendError::Full(UserMsg::Said(said))) => Some(said),
            _ => None,
        }
    }

    /// What another entity said finds no room, or nobody.
    pub(crate) fn not_heard(&self, name: &Name, said: Said, why: Refused, core: &mut impl Mail) {
        match said.message {
            Message::Stanza(stanza) if stanza.source.seq != 0 => {
                let from = stanza.frame.attr("from").unwrap_or_default();
                let why = match why {
                    Refused::Quarantined => Refusal::Quarantined,
                    Refused::Full => Refusal::Full,
                };
                // A domain of a component stands for all of its addresses.
                let own = stanza.frame.attr("to").unwrap_or_default();
                let own = match self.component_of(name) {
                    Some(_) => address::bare(&own),
                    None => name,
                };
                let answer = self.not_taken(own, stanza.source, why, None);
                let to = Name::from(address::bare(&from));
                self.say(core, &to, Message::NotTaken(answer), false);
            }
            // Presence that the server wrote itself, for many, has no address: nobody waits for it.
            Message::Stanza(stanza)
                if stanza.frame.name() == "presence" && stanza.frame.attr_raw("to").is_none() =>
            {
                core.stats().count(Counter::ActorDropped);
            }
            Message::Stanza(stanza) => {
                self.return_error_to((&stanza.frame, stanza.managed), &busy(), core);
            }
            Message::Copy(copy) => {
                let from = copy.frame.attr("from").unwrap_or_default();
                core.stats().count(match self.hosts_nodes(&from) {
                    true => Counter::PubsubCopiesDropped,
                    false => Counter::RoomCopiesDropped,
                });
                if copy.place != 0 {
                    // The home hears of it from the room, in the reserve of its mailbox.
                    let missed = ToRoom::Missed(Arc::clone(&copy.to), copy.place);
                    let room = Name::from(address::bare(&from));
                    let missed = Message::ToRoom(Box::new(missed));
                    self.say(core, &room, missed, true);
                }
            }
            Message::OfRoom(said) => {
                // That a room's log has grown is said once; it is said again.
                if let OfRoom::Member(member) = *said
                    && !member.asks
                {
                    let missed = ToRoom::Missed(Name::clone(name), member.told);
                    let missed = Message::ToRoom(Box::new(missed));
                    self.say(core, &member.room, missed, false);
                }
            }
            // Whoever needs it asks again.
            _ => {}
        }
    }

    /// Whether an address is at home on another node of the cluster.
    pub(crate) fn is_elsewhere(&self, bare: &str) -> bool {
        self.options.cluster.is_some() && !self.place.is_here(self.place.range(bare))
    }

    /// Ends all entities of the shard if this node's lease was not renewed in time, once each time:
    /// others may act for them soon. A process that was stopped finds out here, before anything
    /// of it leaves.
    pub(crate) fn end_if_fenced(&self, shard: &mut Shard) {
        let Some(cluster) = &self.options.cluster else {
            return;
        };
        let is_fenced = !cluster.away.may_act();
        if self.is_fenced.replace(is_fenced) == is_fenced || !is_fenced {
            return;
        }
        self.place.leave_all();
        let ended = shard.core().end_entities_if(|_| true);
        if ended > 0 {
            tracing::warn!(ended, "the lease of this node is over: its entities end");
        }
    }

    /// Answers a stanza with an error, to whoever sent it. Who is gone, or has no room for an error
    /// either, is told nothing.
    pub(crate) fn return_error(&self, mail: &mut impl Mail, frame: &Frame, error: &StanzaError) {
        self.return_error_to((frame, None), error, mail);
    }

    /// The same to the managed session of that number alone, if there is one: the next session of
    /// its name did not send the stanza.
    pub(crate) fn return_error_to(
        &self,
        (frame, managed): (&Frame, Option<u32>),
        error: &StanzaError,
        mail: &mut impl Mail,
    ) {
        let (Some(reply), Some(from)) = (xmpp::error::reply(frame, error), frame.attr("from"))
        else {
            return mail.stats().count(Counter::ActorDropped);
        };
        let (bare, resource) = address::split(&from);
        let mut delivery = Delivery::new(resource.map(Into::into), reply);
        delivery.managed = managed;
        let refused = self.pass_on(mail, &Name::from(bare), delivery, false);
        if refused.is_some() {
            mail.stats().count(Counter::ActorDropped);
        }
    }
}

/// What is said to one address of a component, as the stanza that says so by itself: the entity
/// that hears it stands for many.
fn addressed(message: Message, to: &str) -> Message {
    match message {
        Message::Stanza(mut stanza) => {
            if stanza.frame.attr_raw("to").is_none() {
                let full;
                let to = match &stanza.resource {
                    None => to,
                    Some(resource) => {
                        full = format!("{to}/{resource}");
                        &full
                    }
                };
                stanza.frame = stanza.frame.edit().set_attr("to", to).finish();
            }
            Message::Stanza(stanza)
        }
        // RFC 6121 section 4.3.
        Message::Probe { from } => {
            let mut bytes = Vec::new();
            let mut writer = Writer::new(&mut bytes);
            writer.open("presence").attr("type", "probe");
            writer.attr("from", &from).attr("to", to).close();
            match Frame::parse(bytes) {
                Ok(probe) => Message::Stanza(Stanza::new(None, probe)),
                Err(_) => Message::Probe { from },
            }
        }
        other => other,
    }
}

/// Too much waits: try again later (design section 5).
fn busy() -> StanzaError {
    AppendError::Busy.to_stanza_error()
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
