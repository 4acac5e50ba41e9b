//! Client connections: what carries bytes between a socket and the machines. Feeds the framer and
//! the stream machine, asks user actors and pools what they need to know, and sends stanzas on.

mod cost;
mod ending;
mod joins;
mod moving;
mod orphan;
mod outlived;
mod registration;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use actor::{Addr, Handle, Mail, Name, SendError, Shard};
use net::websocket::CloseCode;
use net::{AddressKey, Closed, ConnRef, Cx, Opener, RemoteIo};
use ring::rand::{SecureRandom, SystemRandom};
use stdx::time::Moment;
use telemetry::Counter;
use xml::{Event, Frame, Framer, Scratch};
use xmpp::error::{StanzaError, StreamError};
use xmpp::sasl;
use xmpp::stream::{C2s, C2sConfig, Credentials, Effect, LoginEnd};

use crate::ending::Abort;
use crate::guard::{Begin, Generation, Lists};
use crate::home::Home;
use crate::join::{Joining, KeeperMsg, Line, Prelude};
use crate::limits::PENALTY;
use crate::lines::Near;
use crate::message::control::{Control, Keys};
use crate::message::web::Ticket;
use crate::message::{AppendError, UserMsg};
use crate::repeats::Repeats;
use crate::web::bosh::Bosh;
use crate::web::{self, Connection};

/// The state of one client connection.
pub(crate) struct Conn {
    pub(crate) machine: C2s,
    pub(crate) framing: Framing,
    pub(crate) address: IpAddr,
    user: Option<Addr<UserMsg>>,
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
    /// Its socket is at another node.
    is_far: bool,
    /// What it takes to outlive a crash of its account's actor is noted.
    is_near: bool,
    /// That actor has crashed, and the next one has not taken it.
    is_orphan: bool,
    bytes_before_session: u32,
    /// The lists of bans that it was compared with.
    bans: u32,
    /// Its login; absent once it has a session, and nothing of that comes once more.
    login: Option<Box<Attempt>>,
}

/// A client that is logging in.
#[derive(Default)]
struct Attempt {
    /// When the keys were asked for that it authenticates with.
    begun: Generation,
    /// It is counted among those of its address.
    is_counted: bool,
    /// Its address has to wait before the keys of this account are asked for.
    delayed: Option<String>,
    /// The way into a session that waits for the connection to be at home.
    entry: Option<Entry>,
    /// What it said, where another node may go on with it.
    prelude: Prelude,
    /// The node that does.
    line: Option<Box<Line>>,
    /// What that was told, if another one may be told instead.
    joining: Option<Box<Joining>>,
    /// Whose it is, and since when it looks for such a node.
    joins: Option<(Name, Moment)>,
    /// What it takes that its stream outlives its account's actor, on its way to another shard.
    near: Option<Box<Near>>,
    /// Stanzas of a session that come once more: the home before this one has handled them.
    skip: u32,
}

/// An idle client costs this and what is on it.
const _: () = assert!(size_of::<Conn>() <= 128);

/// How the elements of a stream lie in the bytes that its client sends.
pub(crate) enum Framing {
    /// One behind the other, in the root of a stream (RFC 6120 section 4).
    Stream(Framer),
    /// One in each message (RFC 7395 section 3.3).
    WebSocket(net::websocket::Messages),
    /// Some in each request, of which the session has made one row (XEP-0124).
    Bosh(Box<Bosh>),
}

/// What a client asks its user for, where that user is at home.
struct Entry {
    /// Bare address.
    user: String,
    way: Way,
    /// When its login began.
    begun: Generation,
}

enum Way {
    /// The keys to authenticate with.
    LogIn,
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
pub(crate) struct C2sService {
    pub(crate) config: Arc<C2sConfig>,
    /// The same for streams over HTTP, which have no STARTTLS.
    pub(crate) web_config: Arc<C2sConfig>,
    pub(crate) home: Rc<Home>,
    pub(crate) remote: RemoteIo<Control>,
    pub(crate) opener: Opener<Connection>,
    pub(crate) handle: Handle,
    pub(crate) random: SystemRandom,
    pub(crate) scratch: Scratch,
    pub(crate) effects: Vec<Effect>,
    /// How many bytes went before the input that is looked at, for a client that is elsewhere, and
    /// where in all of them the element ends that is looked at.
    pub(crate) heard_from: u64,
    pub(crate) heard: u64,
    /// The WebSocket message that is looked at.
    pub(crate) message: Vec<u8>,
    /// What sessions over BOSH want done; empty in between.
    pub(crate) actions: Vec<xmpp::bosh::Action<Ticket>>,
    pub(crate) exempt: Arc<[net::AddressRange]>,
    /// Who opens connections for clients of other nodes.
    pub(crate) keeper: Addr<KeeperMsg>,
    /// The lists of bans and which they are.
    pub(crate) bans: (u32, Arc<Lists>),
    /// What the log says of failed logins.
    pub(crate) failed_logins: Repeats,
    /// Streams of components that have not shaken hands, the oldest first.
    pub(crate) strangers: Vec<(ConnRef, AddressKey)>,
}

impl C2sService {
    pub(crate) fn random_text(&self) -> String {
        let mut bytes = [0; 18];
        // Invariant: the operating system's generator does not fail once it has been seeded.
        self.random.fill(&mut bytes).expect("random bytes");
        sasl::encode_bytes(&bytes)
    }

    /// Whether an address may be that of many clients, of whom nobody knows which is which.
    fn is_exempt(&self, address: IpAddr) -> bool {
        self.exempt.iter().any(|range| range.contains(address))
    }

    /// Whether the logins of an address are not counted.
    fn is_uncounted(&mut self, cx: &mut Cx<'_>, address: IpAddr) -> bool {
        let now = cx.mail().wall();
        self.is_exempt(address) || self.lists().allows_address(address, now)
    }

    /// The lists of bans as they are now.
    fn lists(&mut self) -> &Lists {
        let bans = &self.home.guard.bans;
        let version = bans.version();
        if self.bans.0 != version {
            self.bans = (version, bans.lists());
        }
        &self.bans.1
    }

    /// Whether nothing is taken from an address.
    pub(crate) fn is_banned(&mut self, cx: &mut Cx<'_>, address: IpAddr) -> bool {
        let now = cx.mail().wall();
        let is_banned = self.lists().bans_address(address, now);
        if is_banned {
            cx.mail().stats().count(Counter::BansApplied);
        }
        is_banned
    }

    /// Ends a stream whose address was banned since it was looked at last; true if so.
    pub(crate) fn end_if_banned(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) -> bool {
        let version = self.home.guard.bans.version();
        if conn.bans == version {
            return false;
        }
        conn.bans = version;
        let is_banned = self.is_banned(cx, conn.address);
        if is_banned {
            self.abort(cx, conn, Abort::Banned);
            self.carry_out(cx, conn);
        }
        is_banned
    }

    /// Carries out what the machine asks for.
    pub(crate) fn carry_out(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        // What cannot be done right now has effects of its own.
        while !self.effects.is_empty() {
            self.carry_out_once(cx, conn);
        }
    }

    fn carry_out_once(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::StartTls => {
                    conn.restart();
                    cx.start_tls();
                }
                Effect::Restart => conn.restart(),
                Effect::Lookup { user } => self.begin_login(cx, conn, user),
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
                Effect::LoginEnded { user, end } => self.login_ended(cx, conn, &user, end),
                Effect::Bind { user, resource } => {
                    self.bring_home(cx, conn, user, Way::Bind(resource));
                }
                Effect::Resume { user, request } => {
                    let heard = self.heard;
                    self.mark(cx, conn, |marks| marks.resumes(heard));
                    self.bring_home(cx, conn, user, Way::Resume(request));
                }
                Effect::Stanza(frame) if conn.skips() => self.skip_stanza(cx, conn, Some(&frame)),
                Effect::Stanza(frame) | Effect::Element(frame) => {
                    self.note_managed(cx, conn, &frame);
                    self.hand_over_element(cx, conn, frame);
                }
                Effect::Close => conn.close(cx),
            }
        }
        if self.effects.is_empty() {
            // Its memory is used again.
            self.effects = effects;
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
        if conn.user.is_none() || self.effects.iter().any(ends) {
            return cx.out().extend_from_slice(&answer);
        }
        self.count_answered(cx, conn, answer);
    }

    fn tell(&self, cx: &mut Cx<'_>, user: &str, msg: UserMsg) -> Result<(), ()> {
        let shard = self.home.place.shard(user);
        cx.mail()
            .send_named(shard, &Name::from(user), msg)
            .map_err(|_| ())
    }

    /// Lets the connection enter where its user is at home. It moves there as soon as it says whose
    /// it is: what the login takes is then said on one shard, which need not be woken each time.
    fn bring_home(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, user: String, way: Way) {
        if self.home.is_elsewhere(&user) {
            // Its range left since it began to log in.
            return self.abort(cx, conn, Abort::Moved);
        }
        let begun = conn
            .login
            .as_ref()
            .map_or_else(Generation::default, |login| login.begun);
        let entry = Entry { user, way, begun };
        let home = self.home.place.shard(&entry.user);
        let moves = self.home.options.hand_over && conn.has_socket();
        if moves && home != cx.id().shard {
            conn.attempt().entry = Some(entry);
            cx.hand_over(home);
        } else {
            self.enter(cx, conn, entry);
        }
    }

    fn enter(&mut self, cx: &mut Cx<'_>, state: &mut Conn, entry: Entry) {
        let conn = cx.id();
        if matches!(entry.way, Way::Resume(_)) {
            self.may_outlive(cx, state, &entry.user);
        }
        let msg = match entry.way {
            Way::LogIn => return self.ask_for_keys(cx, state, &entry.user),
            Way::Bind(resource) => UserMsg::Bind {
                conn,
                resource: resource.map(Into::into),
                begun: entry.begun,
            },
            Way::Resume(request) => UserMsg::Resume {
                conn,
                request,
                begun: entry.begun,
            },
        };
        if self.tell(cx, &entry.user, msg).is_err() {
            cx.abort();
        }
    }

    fn keys(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, keys: Keys) {
        let credentials = match keys {
            Keys::Known(keys) => Credentials::Known(keys),
            Keys::Locked(keys) => Credentials::Locked(keys),
            Keys::Unavailable => Credentials::Unavailable,
        };
        conn.machine
            .credentials(credentials, cx.out(), &mut self.effects);
    }

    /// A client wants to log in: the account is asked for its keys, unless the client's address
    /// has to wait first.
    fn begin_login(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, user: String) {
        if self.is_joined(conn, &user) {
            // There its address is counted.
            return self.join(cx, conn, &user);
        }
        let begin = match self.is_uncounted(cx, conn.address) {
            true => Begin::Now,
            false => {
                let key = AddressKey::of(conn.address);
                let begin = self.home.guard.addresses.begin(key, cx.now());
                conn.attempt().is_counted = begin == Begin::Now;
                begin
            }
        };
        match begin {
            Begin::Now => self.bring_home(cx, conn, user, Way::LogIn),
            Begin::After(time) => {
                cx.mail().stats().count(Counter::LoginsPaced);
                self.brake(conn.address, cx.now());
                conn.attempt().delayed = Some(user);
                cx.set_deadline(Some(cx.now() + time));
            }
            Begin::Refused => self.keys_unavailable(cx, conn),
        }
    }

    /// An address has reached a budget.
    pub(crate) fn brake(&self, address: IpAddr, now: Moment) {
        let who = address.to_canonical().to_string();
        self.home.brake(&Name::from(&*who), now);
    }

    /// The client has waited.
    fn begin_delayed(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, user: String) {
        let key = AddressKey::of(conn.address);
        if self.home.guard.addresses.begin_late(key, cx.now()) {
            conn.attempt().is_counted = true;
            self.bring_home(cx, conn, user, Way::LogIn);
        } else {
            self.keys_unavailable(cx, conn);
        }
    }

    fn ask_for_keys(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, user: &str) {
        let is_exempt = self.is_exempt(conn.address);
        let msg = UserMsg::Credentials {
            conn: cx.id(),
            from: (!is_exempt).then(|| AddressKey::of(conn.address)),
        };
        if self.tell(cx, user, msg).is_err() {
            self.keys_unavailable(cx, conn);
        }
    }

    fn keys_unavailable(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        cx.mail().stats().count(Counter::LoginsRefused);
        self.keys(cx, conn, Keys::Unavailable);
    }

    /// The account hears how the login ended, and so does whoever counts those of its address.
    fn login_ended(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, user: &str, end: LoginEnd) {
        let id = cx.id();
        end_login(&self.home, cx.mail(), id, user, end);
        let is_counted = std::mem::take(&mut conn.attempt().is_counted);
        let key = AddressKey::of(conn.address);
        if is_counted && self.home.guard.addresses.end(key, end, cx.now()) {
            // Brute force is paced by address: the connection is not read for a while.
            conn.penalized = true;
            cx.set_deadline(Some(cx.now() + PENALTY));
        }
        if end == LoginEnd::Refused
            && let Some(more) = self.failed_logins.due(cx.now())
        {
            // packaging/fail2ban has the pattern for this line.
            let address = conn.address.to_canonical();
            tracing::warn!(%address, user, more, "a login failed");
        }
    }

    /// Reads on, unless the machine waits for an answer or the connection serves a penalty.
    pub(crate) fn pause_or_resume(cx: &mut Cx<'_>, conn: &Conn) {
        cx.set_paused(conn.machine.is_waiting() || conn.penalized || conn.is_orphan);
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

    /// Whether its socket is at another node.
    pub(crate) fn is_far(&self) -> bool {
        self.is_far
    }

    /// Its socket is at another node.
    pub(crate) fn come_from_afar(&mut self) {
        self.is_far = true;
    }

    /// Where that is kept, if another node may go on with the client.
    pub(crate) fn prelude(&mut self, home: &Home) -> Option<&mut Prelude> {
        prelude(&mut self.login, &self.machine, self.is_far, home)
    }

    /// A stream of which nothing has come.
    fn new(machine: C2s, framing: Framing, address: IpAddr, now: Moment, bans: u32) -> Conn {
        Conn {
            machine,
            framing,
            address,
            user: None,
            accepted: now,
            heard: now,
            pinged: false,
            penalized: false,
            has_ended: false,
            is_managed: false,
            is_far: false,
            is_near: false,
            is_orphan: false,
            bytes_before_session: 0,
            bans,
            login: None,
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
        let is_web = !matches!(framing, Framing::Stream(_));
        self.begin_as(cx, address, framing, is_web)
    }

    /// The same, where the framing does not say whether HTTP carries it.
    pub(crate) fn begin_as(
        &mut self,
        cx: &mut Cx<'_>,
        address: IpAddr,
        framing: Framing,
        is_web: bool,
    ) -> Conn {
        let at = cx.now() + self.home.limits().login_timeout;
        cx.set_deadline(Some(at));
        let config = match is_web {
            false => &self.config,
            true => &self.web_config,
        };
        let machine = C2s::new(Arc::clone(config), self.random_text());
        Conn::new(machine, framing, address, cx.now(), self.bans.0)
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
        let waits = conn.machine.is_waiting() || conn.penalized || conn.is_orphan;
        cx.has_window() && !cx.is_ending() && !waits
    }

    /// Notes that the client is there.
    pub(crate) fn note_heard(cx: &Cx<'_>, conn: &mut Conn) {
        conn.heard = cx.now();
        conn.pinged = false;
    }

    /// Takes input of a stream of elements behind each other; returns what it used.
    pub(crate) fn take_in(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, input: &[u8]) -> usize {
        Self::note_heard(cx, conn);
        self.end_if_banned(cx, conn);
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
            let prelude = prelude(&mut conn.login, machine, conn.is_far, &self.home);
            let mut is_end = false;
            let (consumed, done) = match step {
                Err(error) => {
                    conn.has_ended = true;
                    machine.handle_xml_error(error, cx.out(), &mut self.effects);
                    (input.len() - used, true)
                }
                Ok(step) => {
                    let done = step.event.is_none() && step.consumed == 0;
                    let bytes = &input[used..used + step.consumed];
                    match step.event {
                        None => {}
                        Some(Event::Open(_)) if is_bosh => {}
                        Some(Event::Open(header)) => {
                            if conn.is_far {
                                let lines = &self.home.lines;
                                lines.mark(cx.id(), |marks| marks.opened(bytes));
                            }
                            prelude.into_iter().for_each(|said| said.opens(bytes));
                            machine.handle_header(&header, cx.out(), &mut self.effects);
                        }
                        Some(Event::Close) => is_end = true,
                        Some(Event::Stanza(frame)) => {
                            if let Some(prelude) = prelude {
                                match is_bosh {
                                    // What lies in requests has no stream's root around it.
                                    true => prelude.says(frame.name(), frame.to_frame().as_bytes()),
                                    false => prelude.says(frame.name(), bytes),
                                }
                            }
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
            self.heard = self.heard_from + used as u64;
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
            match conn.skips() {
                false => self.answer_managed(cx, conn, answer),
                true => self.skip_stanza(cx, conn, None),
            }
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
        self.move_on(cx, conn, consumed);
    }

    /// A message for the connection.
    pub(crate) fn told(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, msg: Control) {
        match msg {
            Control::Keys(keys, begun) => {
                conn.attempt().begun = begun;
                self.keys(cx, conn, keys);
            }
            Control::Verified(ok) => {
                conn.machine.verified(Some(ok), cx.out(), &mut self.effects);
            }
            Control::Registered(result) => {
                if result.is_ok() {
                    conn.bytes_before_session = 0;
                }
                conn.machine
                    .registered(result.map_err(StanzaError::new), cx.out());
            }
            Control::Bound(result) => {
                let user = result.as_ref().as_ref().ok().map(|(_, user)| *user);
                conn.machine.bound(result.map(|(full, _)| full), cx.out());
                if let Some(user) = user {
                    conn.user = Some(user);
                    conn.login = None;
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
                    conn.login = None;
                    conn.is_managed = true;
                    self.deadline_of_session(cx);
                }
            }
            Control::Abort(Abort::Moved) if conn.is_orphan => self.asks_again(cx),
            Control::Abort(why) => self.abort(cx, conn, why),
            Control::Left(_) => self.is_left(cx, conn),
            Control::TakenOver(by) => self.goes_on(cx, conn, *by),
            // It is kept for the next one.
            Control::Refused(_) if conn.is_orphan => {}
            Control::Refused(frame) => self.refuse(cx, conn, &frame),
            Control::Close => conn.close(cx),
            Control::Costs(time) => cx.charge(time),
            // Taken by `web`, before it comes here.
            Control::Web(_) | Control::Component(_) => {}
        }
        self.carry_out(cx, conn);
        // What came behind the question that has been answered now goes on.
        Self::pause_or_resume(cx, conn);
    }

    /// Its deadline has come.
    pub(crate) fn overdue(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        if self.end_if_banned(cx, conn) {
            return;
        }
        if conn.is_orphan {
            self.look_for_actor(cx, conn);
            return self.carry_out(cx, conn);
        }
        if conn.machine.full_jid().is_some() {
            return self.session_is_silent(cx, conn);
        }
        let end = conn.accepted + self.home.limits().login_timeout;
        if cx.now() < end {
            conn.penalized = false;
            cx.set_deadline(Some(end));
            if let Some((user, _)) = conn.login.as_ref().and_then(|login| login.joins.clone()) {
                self.join(cx, conn, &user);
                self.carry_out(cx, conn);
                return Self::pause_or_resume(cx, conn);
            }
            let delayed = conn.login.as_mut().and_then(|login| login.delayed.take());
            if let Some(user) = delayed {
                self.begin_delayed(cx, conn, user);
                self.carry_out(cx, conn);
            }
            return Self::pause_or_resume(cx, conn);
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
        let near = conn.login.as_mut().and_then(|login| login.near.take());
        if let Some(mut near) = near {
            conn.login = None;
            near.follows();
            self.home.lines.put_near(cx.id(), near);
            self.look_for_actor(cx, conn);
            self.carry_out(cx, conn);
            return Self::pause_or_resume(cx, conn);
        }
        let entry = conn.login.as_mut().and_then(|login| login.entry.take());
        if let Some(entry) = entry {
            let home = self.home.place.shard(&entry.user);
            if home != cx.id().shard {
                // Its account has moved on meanwhile.
                conn.attempt().entry = Some(entry);
                return cx.hand_over(home);
            }
            self.enter(cx, conn, entry);
            self.carry_out(cx, conn);
            Self::pause_or_resume(cx, conn);
        }
    }

    /// Its connection is gone.
    pub(crate) fn gone(&mut self, shard: &mut Shard, id: ConnRef, conn: Conn, why: Closed) {
        tracing::trace!(?id, ?why, "connection closed");
        let msg = UserMsg::Closed {
            conn: id,
            is_lost: !conn.has_ended,
        };
        if conn.is_near && self.leaves_as_orphan(shard, id, &conn) {
            return;
        }
        if let Some(user) = conn.user {
            // Behind the stanzas that came before; past them only if the mailbox is full. An actor
            // that is gone has no session left to close.
            if let Err(SendError::Full(msg)) = shard.send(user, msg) {
                let _ = shard.send_priority(user, msg);
            }
            return;
        }
        if let Some(user) = conn.machine.claimed() {
            end_login(&self.home, shard, id, user, LoginEnd::Abandoned);
        }
        if conn.login.as_ref().is_some_and(|login| login.is_counted) {
            let key = AddressKey::of(conn.address);
            let addresses = &self.home.guard.addresses;
            addresses.end(key, LoginEnd::Abandoned, shard.now());
        }
        if let Some(user) = conn.machine.authenticated() {
            // A bind may be on its way: its session ends as soon as it begins.
            let _ = shard.send_named_if_active(self.home.place.shard(user), &Name::from(user), msg);
        }
    }
}

impl Conn {
    fn attempt(&mut self) -> &mut Attempt {
        self.login.get_or_insert_default()
    }
}

/// What a client says is kept until it has a session, if another node may go on with it.
fn prelude<'a>(
    login: &'a mut Option<Box<Attempt>>,
    machine: &C2s,
    is_far: bool,
    home: &Home,
) -> Option<&'a mut Prelude> {
    let is_kept = home.options.cluster.is_some() && !is_far && machine.full_jid().is_none();
    is_kept.then(|| &mut login.get_or_insert_default().prelude)
}

/// Tells an account how a login ended that had asked for its keys. Past what waits if there is no
/// room: a login that never ends would be in the way of others.
fn end_login(home: &Home, shard: &mut Shard, conn: ConnRef, user: &str, end: LoginEnd) {
    let (place, name) = (home.place.shard(user), Name::from(user));
    let msg = UserMsg::LoginEnded { conn, end };
    if let Err(SendError::Full(msg)) = shard.send_named_if_active(place, &name, msg)
        && let Some(user) = shard.whereis::<UserMsg>(&name)
    {
        let _ = shard.send_priority(user, msg);
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
