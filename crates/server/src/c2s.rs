//! Client connections: what carries bytes between a socket and the machines. Feeds the framer and
//! the stream machine, asks user actors and pools what they need to know, and sends stanzas on.

use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use actor::{Addr, Handle, Mail, Name, SendError, Shard};
use net::websocket::CloseCode;
use net::{Closed, ConnRef, Cx, RemoteIo};
use ring::rand::{SecureRandom, SystemRandom};
use stdx::time::Moment;
use xml::{Event, Frame, Framer, Scratch};
use xmpp::error::{Condition, StanzaError, StreamError};
use xmpp::ns;
use xmpp::sasl::{self, Hash};
use xmpp::stream::{C2s, C2sConfig, Credentials, Effect};

use crate::admin::{AdminAnswer, AdminCommand};
use crate::home::Home;
use crate::limits::{
    ADMIN_DEADLINE, PENALTIES_REMEMBERED, PENALTY, PENALTY_FREE, REGISTRATION_WINDOW,
    REGISTRATIONS_REMEMBERED,
};
use crate::message::{AppendError, UserMsg};
use crate::web;
use crate::web::bosh::{Bosh, Ticket};

/// Bytes of the salt of new keys.
pub(crate) const SALT_BYTES: usize = 16;

/// The keys of one account as its user actor answers for them.
pub enum Keys {
    /// The account's.
    Known(Vec<sasl::ScramKeys>),
    /// There is no such account.
    Unknown,
    /// Those of a locked account.
    Locked(Vec<sasl::ScramKeys>),
    /// Nobody can say right now.
    Unavailable,
}

/// Why the server ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// A newer session took its resource.
    Conflict,
    /// The account's password was changed.
    CredentialsChanged,
    /// The account was locked.
    Locked,
    /// The account was removed.
    AccountRemoved,
    /// An administrator ended the sessions.
    Kicked,
    /// The user's actor crashed.
    Crash,
    /// The node stops.
    Shutdown,
    /// Its client said nothing when it was asked what it has.
    Silent,
    /// Its client acknowledged something that makes no sense.
    BadAcknowledgement,
    /// More waits for its client than is kept.
    Overflow,
    /// Too much waits for its user, and no stanza of it can be left out.
    Overloaded,
}

/// What actors and pools tell a connection.
pub enum Control {
    /// The keys that were asked for.
    Keys(Keys),
    /// Whether a PLAIN password was right.
    Verified(bool),
    /// Whether an account was made.
    Registered(Result<(), Condition>),
    /// The full address and the actor behind it, or why there is none.
    Bound(Box<Result<BoundSession, StanzaError>>),
    /// The same for a session that was taken up again (XEP-0198 section 5); its user has written
    /// the answer.
    Resumed(Option<Box<BoundSession>>),
    /// The session ends.
    Abort(Abort),
    /// A stanza found its user's mailbox full.
    Refused(Frame),
    /// The end of the stream has been written.
    Close,
    /// Something between a connection of the web and the session behind it.
    Web(Box<web::Control>),
}

/// A full address and the actor behind it.
pub(crate) type BoundSession = (Arc<str>, Addr<UserMsg>);

/// The state of one client connection.
pub struct Conn {
    pub(crate) machine: C2s,
    pub(crate) framing: Framing,
    pub(crate) address: IpAddr,
    user: Option<Addr<UserMsg>>,
    /// The way into a session that waits for the connection to be at home.
    entry: Option<Box<Entry>>,
    accepted: Moment,
    pub(crate) heard: Moment,
    pinged: bool,
    /// Too many failed logins came from its address: it is not read until its deadline.
    pub(crate) penalized: bool,
    /// The stream was ended on purpose, by its client or for something that the client did: its
    /// session ends with it.
    pub(crate) has_ended: bool,
    /// Its stanzas are counted (XEP-0198).
    is_managed: bool,
    bytes_before_session: u32,
}

/// How the elements of a stream lie in the bytes that its client sends.
pub(crate) enum Framing {
    /// One behind the other, in the root of a stream (RFC 6120 section 4).
    Stream(Framer),
    /// One in each message (RFC 7395 section 3.3).
    WebSocket(net::websocket::Messages),
    /// Some in each request, of which the session has made one row (XEP-0124).
    Bosh(Box<Bosh>),
}

/// What a client that has authenticated asks its user for.
struct Entry {
    /// Bare address.
    user: String,
    way: Way,
}

enum Way {
    /// A new session, with this resource if it can be had.
    Bind(Option<String>),
    /// The session that this `<resume/>` names.
    Resume(Frame),
}

/// Bytes of one element before a session: SASL messages are far smaller.
const NEGOTIATION_ELEMENT_BYTES_MAX: u32 = 8 * 1024;

/// Bytes that a client may send before it has a session.
const NEGOTIATION_BYTES_MAX: u32 = 64 * 1024;

/// The service of one shard.
pub struct C2sService {
    pub(crate) config: Arc<C2sConfig>,
    /// The same for streams over HTTP, which have no STARTTLS.
    pub(crate) web_config: Arc<C2sConfig>,
    pub(crate) home: Rc<Home>,
    pub(crate) remote: RemoteIo<C2sService>,
    pub(crate) handle: Handle,
    pub(crate) random: SystemRandom,
    pub(crate) scratch: Scratch,
    pub(crate) effects: Vec<Effect>,
    /// The WebSocket message that is looked at.
    pub(crate) message: Vec<u8>,
    /// What sessions over BOSH want done; empty in between.
    pub(crate) actions: Vec<xmpp::bosh::Action<Ticket>>,
    pub(crate) penalties: HashMap<IpAddr, (u32, Moment)>,
    pub(crate) registrations: HashMap<IpAddr, (u32, Moment)>,
    pub(crate) exempt: Arc<[net::AddressRange]>,
}

/// The account's keys as the stream machine takes them.
pub(crate) fn credentials(account: &store::Account) -> Vec<sasl::ScramKeys> {
    let keys = account.scram.iter().map(|keys| sasl::ScramKeys {
        hash: match keys.hash {
            store::ScramHash::Sha1 => Hash::Sha1,
            store::ScramHash::Sha256 => Hash::Sha256,
        },
        iterations: keys.iterations,
        salt: keys.salt.clone(),
        stored_key: keys.stored_key.clone(),
        server_key: keys.server_key.clone(),
    });
    keys.collect()
}

/// Keys of a prepared password for every hash. Slow.
pub(crate) fn derive_keys(password: &str, salt: &[u8], iterations: u32) -> Vec<store::ScramKeys> {
    let hashes = [
        (Hash::Sha1, store::ScramHash::Sha1),
        (Hash::Sha256, store::ScramHash::Sha256),
    ];
    let keys = hashes.map(|(hash, stored)| {
        let keys = sasl::derive(hash, password, salt, iterations);
        store::ScramKeys {
            hash: stored,
            iterations,
            salt: keys.salt,
            stored_key: keys.stored_key,
            server_key: keys.server_key,
        }
    });
    keys.into()
}

impl C2sService {
    pub(crate) fn random_text(&self) -> String {
        let mut bytes = [0; 18];
        // Invariant: the operating system's generator does not fail once it has been seeded.
        self.random.fill(&mut bytes).expect("random bytes");
        sasl::encode_bytes(&bytes)
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        self.exempt.iter().any(|range| range.contains(address))
    }

    /// Carries out what the machine asks for.
    pub(crate) fn carry_out(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        // What cannot be done right now has effects of its own.
        while !self.effects.is_empty() {
            self.carry_out_once(cx, conn);
        }
    }

    fn carry_out_once(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::StartTls => {
                    conn.restart();
                    cx.start_tls();
                }
                Effect::Restart => conn.restart(),
                Effect::Lookup { user } => {
                    let msg = UserMsg::Credentials { conn: cx.id() };
                    if self.tell(cx, &user, msg).is_err() {
                        self.keys(cx, conn, Keys::Unavailable);
                    }
                }
                Effect::Verify {
                    user: _,
                    keys,
                    password,
                } => {
                    let (remote, id) = (self.remote.clone(), cx.id());
                    let job = move || {
                        let ok = sasl::verify_plain(&keys, &password);
                        // A connection that has gone meanwhile needs no answer.
                        let _ = remote.control(id, Control::Verified(ok));
                    };
                    if self.home.crypto.run(job).is_err() {
                        conn.machine.verified(None, cx.out(), &mut self.effects);
                    }
                }
                Effect::Register { user, password } => self.register(cx, conn, user, password),
                Effect::LoginEnded { user, ok } => {
                    let _ = self.tell(cx, &user, UserMsg::LoginEnded { ok });
                    if !ok {
                        self.penalize(cx, conn);
                    }
                }
                Effect::Bind { user, resource } => {
                    let way = Way::Bind(resource);
                    self.bring_home(cx, conn, Entry { user, way });
                }
                Effect::Resume { user, request } => {
                    let way = Way::Resume(request);
                    self.bring_home(cx, conn, Entry { user, way });
                }
                Effect::Stanza(frame) | Effect::Element(frame) => {
                    conn.is_managed |= frame.ns() == ns::STREAM_MANAGEMENT;
                    let id = cx.id();
                    let Some(user) = conn.user else { continue };
                    let msg = UserMsg::Stanza { conn: id, frame };
                    match cx.mail().send(user, msg) {
                        Ok(()) => cx.sent_on(),
                        Err(error) => {
                            if let UserMsg::Stanza { frame, .. } = error.into_inner() {
                                self.refuse(cx, conn, &frame);
                            }
                        }
                    }
                }
                Effect::Close => conn.close(cx),
            }
        }
    }

    /// The user's mailbox is full: the sender is told. Where stanzas are counted (XEP-0198) none
    /// can be left out: the stream ends, and its session may be resumed.
    fn refuse(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, frame: &Frame) {
        if conn.is_managed {
            return self.abort(cx, conn, Abort::Overloaded);
        }
        let error = AppendError::Busy.to_stanza_error();
        if let Some(reply) = xmpp::error::reply(frame, &error) {
            cx.out().extend_from_slice(reply.as_bytes());
        }
    }

    /// What the machine answers on a stream whose stanzas are counted: the end of the stream, or an
    /// error that has to be counted by the user.
    fn answer_managed(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, answer: Vec<u8>) {
        let ends = |effect: &Effect| matches!(effect, Effect::Close);
        let user = conn.user.filter(|_| !self.effects.iter().any(ends));
        let Some(user) = user else {
            return cx.out().extend_from_slice(&answer);
        };
        let msg = UserMsg::Refused {
            conn: cx.id(),
            answer,
        };
        match cx.mail().send(user, msg) {
            Ok(()) => cx.sent_on(),
            Err(_) => self.abort(cx, conn, Abort::Overloaded),
        }
    }

    fn tell(&self, cx: &mut Cx<'_>, user: &str, msg: UserMsg) -> Result<(), ()> {
        let shard = self.home.place.shard(user);
        cx.mail()
            .send_named(shard, &Name::from(user), msg)
            .map_err(|_| ())
    }

    /// Lets the connection enter where its user is at home.
    fn bring_home(&self, cx: &mut Cx<'_>, conn: &mut Conn, entry: Entry) {
        let home = self.home.place.shard(&entry.user);
        let moves = self.home.options.hand_over && !matches!(conn.framing, Framing::Bosh(_));
        if moves && home != cx.id().shard {
            conn.entry = Some(Box::new(entry));
            cx.hand_over(home);
        } else {
            self.enter(cx, entry);
        }
    }

    fn enter(&self, cx: &mut Cx<'_>, entry: Entry) {
        let conn = cx.id();
        let msg = match entry.way {
            Way::Bind(resource) => UserMsg::Bind {
                conn,
                resource: resource.map(Into::into),
            },
            Way::Resume(request) => UserMsg::Resume { conn, request },
        };
        if self.tell(cx, &entry.user, msg).is_err() {
            cx.abort();
        }
    }

    fn keys(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, keys: Keys) {
        let credentials = match keys {
            Keys::Known(keys) => Credentials::Known(keys),
            Keys::Unknown => Credentials::Unknown,
            Keys::Locked(keys) => Credentials::Locked(keys),
            Keys::Unavailable => Credentials::Unavailable,
        };
        conn.machine
            .credentials(credentials, cx.out(), &mut self.effects);
    }

    /// Brute force is paced by address: after a few failures the connection is not read for a
    /// while.
    fn penalize(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        if self.is_exempt(conn.address) {
            return;
        }
        let now = cx.now();
        if self.penalties.len() >= PENALTIES_REMEMBERED {
            self.penalties
                .retain(|_, (_, since)| now.saturating_since(*since) < PENALTY * 60);
            if self.penalties.len() >= PENALTIES_REMEMBERED {
                // As many addresses as that within minutes are one attack: all start anew.
                self.penalties.clear();
            }
        }
        let entry = self.penalties.entry(conn.address).or_insert((0, now));
        entry.0 += 1;
        entry.1 = now;
        if entry.0 > PENALTY_FREE {
            conn.penalized = true;
            cx.set_deadline(Some(now + PENALTY));
        }
    }

    fn register(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, user: String, password: String) {
        if !self.may_register(conn.address, cx.now()) {
            let error = StanzaError::new(Condition::ResourceConstraint)
                .with_text("Too many registrations from this address; try again later.");
            return conn.machine.registered(Err(error), cx.out());
        }
        let (remote, handle, id) = (self.remote.clone(), self.handle.clone(), cx.id());
        let (shard, iterations) = (
            self.home.place.shard(&user),
            self.home.options.scram_iterations,
        );
        let mut salt = [0; SALT_BYTES];
        let filled = self.random.fill(&mut salt).is_ok();
        let created = cx.mail().wall();
        let job = move || {
            let Ok(password) = sasl::prepare_password(&password) else {
                return;
            };
            let scram = derive_keys(&password, &salt, iterations);
            let account = store::Account {
                created,
                locked: false,
                scram,
            };
            let question = |reply| UserMsg::Admin {
                command: Box::new(AdminCommand::Create(account)),
                reply,
            };
            let answer = handle.ask_named(shard, &Name::from(&*user), question, ADMIN_DEADLINE);
            let result = match answer {
                Ok(AdminAnswer::Done) => Ok(()),
                Ok(AdminAnswer::Exists) => Err(Condition::Conflict),
                _ => Err(Condition::InternalServerError),
            };
            let _ = remote.control(id, Control::Registered(result));
        };
        if !filled || self.home.crypto.run(job).is_err() {
            let error = StanzaError::new(Condition::ResourceConstraint);
            conn.machine.registered(Err(error), cx.out());
        }
    }

    /// Counts a registration against its address; false if it has made its share.
    fn may_register(&mut self, address: IpAddr, now: Moment) -> bool {
        if self.registrations.len() >= REGISTRATIONS_REMEMBERED
            && !self.registrations.contains_key(&address)
        {
            self.registrations
                .retain(|_, (_, since)| now.saturating_since(*since) < REGISTRATION_WINDOW);
            if self.registrations.len() >= REGISTRATIONS_REMEMBERED {
                return false;
            }
        }
        let entry = self.registrations.entry(address).or_insert((0, now));
        if now.saturating_since(entry.1) >= REGISTRATION_WINDOW {
            *entry = (0, now);
        }
        entry.0 += 1;
        entry.0 <= self.home.options.registrations_per_hour
    }

    /// Reads on, unless the machine waits for an answer or the connection serves a penalty.
    pub(crate) fn pause_or_resume(cx: &mut Cx<'_>, conn: &Conn) {
        cx.set_paused(conn.machine.is_waiting() || conn.penalized);
    }

    pub(crate) fn abort(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, why: Abort) {
        let (error, text) = match why {
            Abort::Conflict => (StreamError::Conflict, "Replaced by a new session."),
            Abort::CredentialsChanged => (StreamError::Reset, "The password was changed."),
            Abort::Locked => (StreamError::NotAuthorized, "The account was locked."),
            Abort::AccountRemoved => (StreamError::NotAuthorized, "The account was removed."),
            Abort::Kicked => (StreamError::PolicyViolation, "Ended by an administrator."),
            Abort::Crash => (
                StreamError::InternalServerError,
                "The session ended by a fault.",
            ),
            Abort::Shutdown => (StreamError::SystemShutdown, "The server stops."),
            Abort::Silent => (
                StreamError::ConnectionTimeout,
                "No acknowledgement came when it was asked for.",
            ),
            Abort::BadAcknowledgement => (
                StreamError::BadFormat,
                "An acknowledgement that cannot be read.",
            ),
            Abort::Overflow => (
                StreamError::ResourceConstraint,
                "Too much was sent without an acknowledgement.",
            ),
            Abort::Overloaded => (
                StreamError::ResourceConstraint,
                "The server cannot take this now; resume later.",
            ),
        };
        conn.machine
            .abort(error, Some(text), cx.out(), &mut self.effects);
    }

    fn deadline_of_session(&self, cx: &mut Cx<'_>) {
        let at = cx.now() + self.home.limits().idle_ping;
        cx.set_deadline(Some(at));
    }

    /// A bound session has been silent: first it is pinged, then it is given up.
    fn session_is_silent(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        let silence = cx.now().saturating_since(conn.heard);
        if silence < self.home.limits().idle_ping {
            let at = conn.heard + self.home.limits().idle_ping;
            return cx.set_deadline(Some(at));
        }
        if conn.pinged {
            let text = Some("No answer to a ping.");
            conn.machine.abort(
                StreamError::ConnectionTimeout,
                text,
                cx.out(),
                &mut self.effects,
            );
            return self.carry_out(cx, conn);
        }
        conn.pinged = true;
        if conn.is_managed {
            // Where stanzas are counted, a question that is none does as well.
            cx.out().extend_from_slice(xmpp::sm::REQUEST);
            let at = cx.now() + self.home.limits().ping_timeout;
            return cx.set_deadline(Some(at));
        }
        let Some(full) = conn.machine.full_jid().cloned() else {
            return;
        };
        let domain = crate::address::domain(&full).to_owned();
        let mut writer = xml::build::Writer::new(cx.out());
        writer
            .open("iq")
            .attr("type", "get")
            .attr("from", &domain)
            .attr("to", &full);
        writer
            .attr("id", "roost-ping")
            .open("ping")
            .attr("xmlns", "urn:xmpp:ping")
            .close()
            .close();
        let at = cx.now() + self.home.limits().ping_timeout;
        cx.set_deadline(Some(at));
    }
}

impl Conn {
    /// Whether its stanzas are counted (XEP-0198).
    pub(crate) fn is_managed(&self) -> bool {
        self.is_managed
    }

    /// A stream of which nothing has come.
    fn new(machine: C2s, framing: Framing, address: IpAddr, now: Moment) -> Conn {
        Conn {
            machine,
            framing,
            address,
            user: None,
            entry: None,
            accepted: now,
            heard: now,
            pinged: false,
            penalized: false,
            has_ended: false,
            is_managed: false,
            bytes_before_session: 0,
        }
    }

    /// The stream begins anew on the same connection.
    fn restart(&mut self) {
        if let Framing::Stream(framer) = &mut self.framing {
            framer.reset();
        }
    }

    /// The end of the stream has been written: what follows it on its transport.
    fn close(&self, cx: &mut Cx<'_>) {
        match &self.framing {
            Framing::Stream(_) => cx.close_after_flush(),
            Framing::WebSocket(_) => web::ws::close(cx, CloseCode::Normal),
            // The session goes on until a request has been answered with the end.
            Framing::Bosh(_) => cx.wake_output(),
        }
    }
}

/// What a service hears of a client's stream, whatever carries it; `web` and sockets alike come
/// here.
impl C2sService {
    /// A client has come with a stream of this framing.
    pub(crate) fn begin(&mut self, cx: &mut Cx<'_>, address: IpAddr, framing: Framing) -> Conn {
        let at = cx.now() + self.home.limits().login_timeout;
        cx.set_deadline(Some(at));
        let config = match framing {
            Framing::Stream(_) => &self.config,
            Framing::WebSocket(_) | Framing::Bosh(_) => &self.web_config,
        };
        let machine = C2s::new(Arc::clone(config), self.random_text());
        Conn::new(machine, framing, address, cx.now())
    }

    /// The bounds of the next element.
    pub(crate) fn xml_limits(&self, conn: &Conn) -> xml::Limits {
        xml::Limits {
            stanza_bytes: if conn.machine.full_jid().is_none() {
                NEGOTIATION_ELEMENT_BYTES_MAX
            } else {
                self.home.limits().stanza_bytes_max
            },
            ..xml::Limits::default()
        }
    }

    /// Whether more of a client's input may be looked at now.
    pub(crate) fn may_read(cx: &Cx<'_>, conn: &Conn) -> bool {
        cx.has_window() && !cx.is_ending() && !conn.machine.is_waiting() && !conn.penalized
    }

    /// Notes that the client is there.
    pub(crate) fn note_heard(cx: &Cx<'_>, conn: &mut Conn) {
        conn.heard = cx.now();
        conn.pinged = false;
    }

    /// Takes input of a stream of elements behind each other; returns what it used.
    pub(crate) fn take_in(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, input: &[u8]) -> usize {
        Self::note_heard(cx, conn);
        let limits = self.xml_limits(conn);
        let is_bosh = matches!(conn.framing, Framing::Bosh(_));
        let mut used = 0;
        while Self::may_read(cx, conn) {
            let mut answer = Vec::new();
            let step = match &mut conn.framing {
                Framing::Stream(framer) => framer.next(&input[used..], &limits, &mut self.scratch),
                Framing::Bosh(bosh) => bosh.framer.next(&input[used..], &limits, &mut self.scratch),
                // Its messages have a way of their own.
                Framing::WebSocket(_) => return used,
            };
            let machine = &mut conn.machine;
            let mut is_end = false;
            let (consumed, done) = match step {
                Err(error) => {
                    conn.has_ended = true;
                    machine.handle_xml_error(error, cx.out(), &mut self.effects);
                    (input.len() - used, true)
                }
                Ok(step) => {
                    let done = step.event.is_none() && step.consumed == 0;
                    match step.event {
                        None => {}
                        Some(Event::Open(_)) if is_bosh => {}
                        Some(Event::Open(header)) => {
                            machine.handle_header(&header, cx.out(), &mut self.effects);
                        }
                        Some(Event::Close) => is_end = true,
                        Some(Event::Stanza(frame)) => {
                            let out = match conn.is_managed {
                                true => &mut answer,
                                false => cx.out(),
                            };
                            let nonce = nonce(machine, &self.random);
                            machine.handle_element(&frame, &nonce, out, &mut self.effects);
                        }
                    }
                    (step.consumed, done)
                }
            };
            used += consumed;
            if is_end {
                self.end_of_root(cx, conn);
            }
            self.handed_in(cx, conn, consumed, answer);
            if done {
                break;
            }
        }
        Self::pause_or_resume(cx, conn);
        used
    }

    /// The end tag of what a client's elements lie in: of its stream, or of a request.
    fn end_of_root(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        if let Framing::Bosh(bosh) = &mut conn.framing {
            bosh.framer.reset();
            if !bosh.is_terminating {
                return;
            }
        }
        conn.has_ended = true;
        conn.machine.handle_close(cx.out(), &mut self.effects);
    }

    /// What follows from input that the machine has looked at.
    pub(crate) fn handed_in(
        &mut self,
        cx: &mut Cx<'_>,
        conn: &mut Conn,
        consumed: usize,
        answer: Vec<u8>,
    ) {
        if !answer.is_empty() {
            self.answer_managed(cx, conn, answer);
        }
        if conn.machine.full_jid().is_none() {
            conn.bytes_before_session = conn.bytes_before_session.saturating_add(consumed as u32);
            if conn.bytes_before_session > NEGOTIATION_BYTES_MAX {
                let text = Some("Too much before a session.");
                conn.machine.abort(
                    StreamError::PolicyViolation,
                    text,
                    cx.out(),
                    &mut self.effects,
                );
            }
        }
        self.carry_out(cx, conn);
    }

    /// A message for the connection.
    pub(crate) fn told(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, msg: Control) {
        match msg {
            Control::Keys(keys) => self.keys(cx, conn, keys),
            Control::Verified(ok) => {
                conn.machine.verified(Some(ok), cx.out(), &mut self.effects);
            }
            Control::Registered(result) => {
                conn.machine
                    .registered(result.map_err(StanzaError::new), cx.out());
            }
            Control::Bound(result) => {
                let user = result.as_ref().as_ref().ok().map(|(_, user)| *user);
                conn.machine.bound(result.map(|(full, _)| full), cx.out());
                if let Some(user) = user {
                    conn.user = Some(user);
                    self.deadline_of_session(cx);
                    let started = UserMsg::Started { conn: cx.id() };
                    if cx.mail().send(user, started).is_err() {
                        self.abort(cx, conn, Abort::Crash);
                    }
                }
            }
            Control::Resumed(session) => {
                let user = session.as_ref().map(|session| session.1);
                conn.machine.resumed(session.map(|session| session.0));
                if user.is_some() {
                    conn.user = user;
                    conn.is_managed = true;
                    self.deadline_of_session(cx);
                }
            }
            Control::Abort(why) => self.abort(cx, conn, why),
            Control::Refused(frame) => self.refuse(cx, conn, &frame),
            Control::Close => conn.close(cx),
            // Taken by `web`, before it comes here.
            Control::Web(_) => {}
        }
        self.carry_out(cx, conn);
        // What came behind the question that has been answered now goes on.
        Self::pause_or_resume(cx, conn);
    }

    /// Its deadline has come.
    pub(crate) fn overdue(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        if conn.machine.full_jid().is_some() {
            return self.session_is_silent(cx, conn);
        }
        let end = conn.accepted + self.home.limits().login_timeout;
        if cx.now() < end {
            conn.penalized = false;
            Self::pause_or_resume(cx, conn);
            return cx.set_deadline(Some(end));
        }
        let text = Some("The login took too long.");
        conn.machine.abort(
            StreamError::ConnectionTimeout,
            text,
            cx.out(),
            &mut self.effects,
        );
        self.carry_out(cx, conn);
    }

    /// It is on this shard now.
    pub(crate) fn arrived(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        cx.set_deadline(Some(conn.accepted + self.home.limits().login_timeout));
        if let Some(entry) = conn.entry.take() {
            self.enter(cx, *entry);
        }
    }

    /// Its connection is gone.
    pub(crate) fn gone(&mut self, shard: &mut Shard, id: ConnRef, conn: Conn, why: Closed) {
        tracing::trace!(?id, ?why, "connection closed");
        let msg = UserMsg::Closed {
            conn: id,
            is_lost: !conn.has_ended,
        };
        if let Some(user) = conn.user {
            // Behind the stanzas that came before; past them only if the mailbox is full. An actor
            // that is gone has no session left to close.
            if let Err(SendError::Full(msg)) = shard.send(user, msg) {
                let _ = shard.send_priority(user, msg);
            }
        } else if let Some(user) = conn.machine.authenticated() {
            // A bind may be on its way: its session ends as soon as it begins.
            let _ = shard.send_named_if_active(self.home.place.shard(user), &Name::from(user), msg);
        }
    }
}

/// What a SCRAM exchange of this element would begin with; nothing once there is a session.
pub(crate) fn nonce(machine: &C2s, random: &SystemRandom) -> String {
    if machine.full_jid().is_some() {
        return String::new();
    }
    let mut bytes = [0; 18];
    // Invariant: the operating system's generator does not fail once it has been seeded.
    random.fill(&mut bytes).expect("random bytes");
    sasl::encode_bytes(&bytes)
}
