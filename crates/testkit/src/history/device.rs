//! One device of one user: it logs in, resumes, sends, receives, acknowledges and catches up, as a
//! careful client does. Owns what the client knows; everything it saw goes to the history.

mod hear;
mod room;

use super::link::{BACKLOG_BYTES_MAX, Cut, Link};
use super::plan::{DevicePlan, PADDING_MAX};
use super::reader::{Element, Item};
use super::record::{Chain, Entry, History, Life};
use crate::tree::{NS_CLIENT, NS_STREAMS, escape};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use room::{ROOM, Room};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const NS_SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
const NS_BIND: &str = "urn:ietf:params:xml:ns:xmpp-bind";
const NS_SM: &str = "urn:xmpp:sm:3";
const NS_MAM: &str = "urn:xmpp:mam:2";
const NS_RSM: &str = "http://jabber.org/protocol/rsm";
const NS_CARBONS: &str = "urn:xmpp:carbons:2";
const NS_FORWARD: &str = "urn:xmpp:forward:0";
const NS_SID: &str = "urn:xmpp:sid:0";
const NS_DELAY: &str = "urn:xmpp:delay";
const NS_CSI: &str = "urn:xmpp:csi:0";

/// What a session wants, said when it begins.
const ENABLE_CARBONS: &str =
    "<iq type='set' id='carbons'><enable xmlns='urn:xmpp:carbons:2'/></iq>";
const PRESENCE: &str = "<presence/>";

/// Domain of all users.
pub(super) const DOMAIN: &str = "localhost";
/// Password of all users.
pub(super) const PASSWORD: &str = "history";

/// One body in so many may be a long one.
const LONG_EVERY: usize = 8;
/// Entries that are asked for at once to read a whole archive for the checker.
const AUDIT_PAGE: usize = 50;
/// Messages that wait until a device is online.
const OUTBOX_MAX: usize = 60;
/// From the connect to the end of the set-up, on a server that runs.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(30);

/// What was heard in a turn that a kill may wait for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    pub(super) ack: bool,
    pub(super) message: bool,
}

/// What all devices share.
pub(super) struct Shared<'a> {
    pub(super) history: &'a mut History,
    pub(super) seed: u64,
    /// Entries of an archive that are asked for at once.
    pub(super) page: usize,
    /// Bytes that most bodies are padded with at most.
    pub(super) padding_max: usize,
    /// Whether the ids of a log grow.
    pub(super) has_ordered_ids: bool,
    /// Whether there is a room.
    pub(super) has_room: bool,
    /// The user who is a member of it and never enters.
    pub(super) absent: Option<usize>,
    /// Whether the disk may refuse things at the moment.
    pub(super) is_disk_bad: bool,
    /// Whether no stream ends that can be resumed, as long as the process lives.
    pub(super) streams_stay: bool,
    /// Whether actors crash: what waits for an answer then may be refused.
    pub(super) actors_crash: bool,
    /// Whether ranges move: a login that is under way then begins anew.
    pub(super) ranges_move: bool,
    /// Whether nobody may be put out of the room.
    pub(super) stays_in_room: bool,
    /// Whether `id` attributes are used again and again, as some clients do.
    pub(super) reuses_ids: bool,
    pub(super) heard: Heard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Offline,
    /// Waits for the features of the first stream, then for the outcome of the login.
    Login,
    /// Waits for the features of the second stream.
    LoggedIn,
    Binding,
    Enabling,
    Resuming,
    Ready,
}

/// Why an archive is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    CatchUp,
    Audit,
    /// The room's archive, for the checker.
    Room,
}

struct Query {
    id: u32,
    purpose: Purpose,
    after: Option<String>,
    entries: Vec<Entry>,
}

/// A stanza that the server has not acknowledged.
struct Sent {
    xml: String,
    message: Option<usize>,
    /// What it says to all.
    said: Option<usize>,
}

struct Session {
    chain: usize,
    /// The name to resume it by.
    token: Option<String>,
    /// Stanzas that were received in it.
    received: u32,
    /// What the server acknowledged.
    acked: u32,
    unacked: VecDeque<Sent>,
    /// The server has shown its presence: from here on it is there for everybody.
    is_shown: bool,
}

/// See the module.
pub(super) struct Device {
    pub(super) number: usize,
    pub(super) plan: DevicePlan,
    /// For the account: user and device.
    name: String,
    link: Option<Link>,
    phase: Phase,
    since: Instant,
    session: Option<Session>,
    outbox: VecDeque<usize>,
    room: Room,
    cursor: Option<String>,
    pub(super) known: HashSet<usize>,
    query: Option<Query>,
    queries: u32,
    wants_catch_up: bool,
    /// What the session wants was refused.
    wants_set_up: bool,
    /// Acknowledgements that the server asked for.
    requests: u32,
    /// Nothing is read before this step.
    pub(super) stalled_until: usize,
    /// Another node of the cluster that the server sent it to (RFC 6120 section 4.9.3.19).
    sent_to: Option<SocketAddr>,
    /// Since when it waits for the server to say anything at all.
    waits_since: Option<Instant>,
}

impl Device {
    pub(super) fn new(number: usize, plan: DevicePlan) -> Self {
        Self {
            number,
            name: format!("u{}/{}", plan.user, plan.resource),
            plan,
            link: None,
            phase: Phase::Offline,
            since: Instant::now(),
            session: None,
            outbox: VecDeque::new(),
            room: Room::default(),
            cursor: None,
            known: HashSet::new(),
            query: None,
            queries: 0,
            wants_catch_up: false,
            wants_set_up: false,
            requests: 0,
            stalled_until: 0,
            sent_to: None,
            waits_since: None,
        }
    }

    /// Where to connect, if the server said so: once, because that node may be dead by now.
    pub(super) fn take_sent_to(&mut self) -> Option<SocketAddr> {
        self.sent_to.take()
    }

    /// Has waited for so long without a word from the server.
    pub(super) fn hears_nothing(&self, patience: Duration) -> bool {
        let waits = self.waits_since.filter(|_| self.link.is_some());
        waits.is_some_and(|since| since.elapsed() > patience)
    }

    /// For the account: user and device.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    /// Logged in, set up, and with room to write.
    pub(super) fn is_ready(&self) -> bool {
        let has_room = |link: &Link| link.backlog() < BACKLOG_BYTES_MAX;
        self.phase == Phase::Ready && self.link.as_ref().is_some_and(has_room)
    }

    /// Nothing that it sent waits for its acknowledgement.
    pub(super) fn is_all_acknowledged(&self) -> bool {
        self.session
            .as_ref()
            .is_none_or(|session| session.unacked.is_empty())
    }

    /// Nothing is owed to or by the server, as far as this device knows.
    pub(super) fn is_settled(&self) -> bool {
        self.is_ready()
            && self.outbox.is_empty()
            && self.is_settled_in_room()
            && self.query.is_none()
            && !self.wants_catch_up
            && !self.wants_set_up
            && self.is_all_acknowledged()
    }

    /// For a report of what does not settle.
    pub(super) fn state(&self) -> String {
        let unacked = self.session.as_ref().map_or(0, |s| s.unacked.len());
        format!(
            "{}: {:?}, {unacked} not acknowledged, {} to send, {} to say to all, {}",
            self.name(),
            self.phase,
            self.outbox.len(),
            self.to_say(),
            if self.query.is_some() || self.wants_catch_up {
                "catching up"
            } else {
                "caught up"
            }
        )
    }

    /// The session in force, as the history knows it.
    pub(super) fn chain(&self) -> Option<usize> {
        self.session.as_ref().map(|session| session.chain)
    }
}

// === impl Device: the link ===

impl Device {
    /// Connects over a link, to resume or to log in. Nothing happens if the server is not there.
    pub(super) fn connect(&mut self, link: io::Result<Link>, shared: &mut Shared<'_>) {
        match link {
            Ok(link) => {
                let port = link.port();
                let port = port.map_or(String::new(), |port| format!(" to port {port}"));
                let said = format_args!("connects{port}");
                shared.history.note(&self.name, said);
                self.link = Some(link);
            }
            Err(error) => {
                return shared
                    .history
                    .note(&self.name, format_args!("cannot connect: {error}"));
            }
        }
        self.phase = Phase::Login;
        self.since = Instant::now();
        self.waits_since = Some(self.since);
        self.say(&header());
    }

    /// Ends the stream and the session in order.
    pub(super) fn close(&mut self, shared: &mut Shared<'_>) {
        if self.link.is_none() {
            return;
        }
        self.say("</stream:stream>");
        self.flush();
        shared.history.note(&self.name, "closes");
        self.link = None;
        self.lose_session(shared);
        self.lost();
    }

    /// Ends the link without a word.
    pub(super) fn cut(&mut self, how: Cut, shared: &mut Shared<'_>) {
        if let Some(link) = self.link.take() {
            shared
                .history
                .note(&self.name, format_args!("drops its link ({how:?})"));
            link.cut(how);
            self.lost();
        }
    }

    /// The app is killed.
    pub(super) fn forget(&mut self, keeps_outbox: bool, shared: &mut Shared<'_>) {
        shared.history.note(
            &self.name,
            format_args!("is killed (outbox: {keeps_outbox})"),
        );
        self.link = None;
        self.lose_session(shared);
        if !keeps_outbox {
            self.outbox.clear();
        }
        self.lost();
    }

    /// A login that takes far too long on a server that runs.
    pub(super) fn is_stuck(&self) -> bool {
        self.link.is_some() && self.phase != Phase::Ready && self.since.elapsed() > LOGIN_TIMEOUT
    }

    fn lost(&mut self) {
        self.phase = Phase::Offline;
        self.query = None;
        self.wants_catch_up = false;
        if !self.plan.is_managed {
            self.session = None;
        }
    }

    /// The session is over; what it did not see acknowledged is to be sent again in the next.
    fn lose_session(&mut self, shared: &mut Shared<'_>) {
        let Some(session) = self.session.take() else {
            return;
        };
        let now = shared.history.now;
        let chain = &mut shared.history.chains[session.chain];
        chain.ended_at = Some(match self.phase {
            Phase::Enabling | Phase::Ready => now,
            // It has no link, and the server may have ended it at any time since.
            _ => chain.deliveries.last().map_or(0, |last| last.at),
        });
        let messages = session.unacked.iter().filter_map(|sent| sent.message);
        let again: Vec<usize> = messages.collect();
        if !again.is_empty() {
            shared.history.note(
                &self.name,
                format_args!("has to send again: {}", listed(&again)),
            );
        }
        for message in again.into_iter().rev() {
            // Its refusal may have been on the way.
            let may_refuse = shared.is_disk_bad || !shared.reuses_ids;
            shared.history.messages[message].was_refused |= may_refuse;
            self.outbox.push_front(message);
        }
    }

    fn say(&mut self, text: &str) {
        if let Some(link) = &mut self.link {
            link.say(text);
        }
    }

    /// Writes what can be written. The end of the link is found by reading.
    pub(super) fn flush(&mut self) {
        if let Some(link) = &mut self.link {
            let _ = link.flush();
        }
    }

    /// Reads and handles what is there; `go_on` says after each item whether to.
    pub(super) fn turn(
        &mut self,
        shared: &mut Shared<'_>,
        mut go_on: impl FnMut(&mut Shared<'_>) -> bool,
    ) {
        let Some(link) = &mut self.link else {
            return;
        };
        let mut items = Vec::new();
        let is_open = link.read(&mut items).unwrap_or_else(|why| {
            shared.history.violation(format!("{}: {why}", self.name()));
            false
        });
        if !items.is_empty() {
            self.waits_since = None;
        }
        for item in items {
            match item {
                Item::Root => {}
                Item::Stanza(stanza) => match stanza.parse() {
                    Ok(tree) => {
                        if let Some(element) = Element::of(&tree) {
                            self.handle(element, shared);
                        }
                    }
                    Err(why) => shared.history.violation(format!("{}: {why}", self.name())),
                },
                Item::End => {
                    shared.history.note(&self.name, "its stream was closed");
                    self.link = None;
                    self.lost();
                }
            }
            if !go_on(shared) {
                break;
            }
        }
        if !is_open && self.link.take().is_some() {
            shared.history.note(&self.name, "its link ended");
            self.lost();
        }
    }
}

// === impl Device: the login ===

impl Device {
    fn handle(&mut self, element: Element<'_>, shared: &mut Shared<'_>) {
        if element.is(NS_STREAMS, "error") {
            let mut children = element.children();
            let other = children.find(|child| child.name() == "see-other-host");
            self.sent_to = other.and_then(|other| other.text().trim().parse().ok());
            let is_fault = ["internal-server-error", "reset"].map(|name| {
                let mut children = element.children();
                children.any(|child| child.name() == name)
            });
            let is_managed = self.plan.is_managed && self.phase == Phase::Ready;
            if shared.streams_stay && is_managed && is_fault.contains(&true) {
                let why = one_line(element);
                let violation = format!("{}: its stream ended: {why}", self.name);
                shared.history.violation(violation);
            }
            return shared.history.note(
                &self.name,
                format_args!("stream error {}", one_line(element)),
            );
        }
        match self.phase {
            Phase::Offline => {}
            Phase::Login => self.handle_login(element, shared),
            Phase::LoggedIn => self.choose(shared),
            Phase::Resuming => self.handle_resumption(element, shared),
            Phase::Binding => {
                let is_bound = element.attr("type") == Some("result");
                if !is_bound {
                    return self.give_up("binding", element, shared);
                }
                self.begin(shared);
                if self.plan.is_managed {
                    self.phase = Phase::Enabling;
                    self.say(&format!("<enable xmlns='{NS_SM}' resume='true'/>"));
                } else {
                    self.set_up(shared);
                }
            }
            Phase::Enabling if element.is(NS_SM, "enabled") => {
                if let Some(session) = &mut self.session {
                    session.token = element.attr("id").map(str::to_owned);
                    shared.history.chains[session.chain].is_managed = true;
                }
                self.set_up(shared);
            }
            // Somebody wrote to the full address in between: nobody counts this one.
            Phase::Enabling if element.is(NS_CLIENT, "message") => {
                self.handle_message(element, shared);
            }
            Phase::Enabling if element.ns() == NS_CLIENT => {}
            Phase::Enabling => self.give_up("stream management", element, shared),
            Phase::Ready => self.handle_ready(element, shared),
        }
    }

    fn handle_login(&mut self, element: Element<'_>, shared: &mut Shared<'_>) {
        match element.name() {
            "features" => {
                let plain = format!("\0u{}\0{PASSWORD}", self.plan.user);
                let plain = STANDARD.encode(plain);
                self.say(&format!(
                    "<auth xmlns='{NS_SASL}' mechanism='PLAIN'>{plain}</auth>"
                ));
            }
            "success" => {
                shared.history.note(&self.name, "is known");
                self.phase = Phase::LoggedIn;
                if let Some(link) = &mut self.link {
                    link.restart();
                }
                self.say(&header());
            }
            _ => self.give_up("the login", element, shared),
        }
    }

    /// The second stream is open: resume what there is, or begin anew.
    fn choose(&mut self, shared: &mut Shared<'_>) {
        let token = self.session.as_ref().and_then(|session| {
            let token = session.token.as_ref()?;
            Some((token.clone(), session.received))
        });
        match token {
            Some((token, received)) => {
                let token = escape(&token);
                self.phase = Phase::Resuming;
                shared
                    .history
                    .note(&self.name, format_args!("resumes h={received}"));
                self.say(&format!(
                    "<resume xmlns='{NS_SM}' previd='{token}' h='{received}'/>"
                ));
            }
            None => self.bind(shared),
        }
    }

    fn bind(&mut self, shared: &mut Shared<'_>) {
        self.lose_session(shared);
        self.phase = Phase::Binding;
        self.say(&format!(
            "<iq type='set' id='bind'><bind xmlns='{NS_BIND}'><resource>{}</resource></bind></iq>",
            self.plan.resource
        ));
    }

    fn handle_resumption(&mut self, element: Element<'_>, shared: &mut Shared<'_>) {
        let h = element.attr("h").and_then(|h| h.parse::<u32>().ok());
        if element.is(NS_SM, "failed") {
            shared
                .history
                .note(&self.name, format_args!("could not resume, h={h:?}"));
            if let Some(h) = h {
                self.acknowledged(h, shared);
            }
            return self.bind(shared);
        }
        if !element.is(NS_SM, "resumed") {
            return self.give_up("the resumption", element, shared);
        }
        let Some(h) = h else {
            return self.give_up("the resumption (no h)", element, shared);
        };
        shared
            .history
            .note(&self.name, format_args!("is resumed, h={h}"));
        self.acknowledged(h, shared);
        self.phase = Phase::Ready;
        self.ask_for_the_room_again();
        let again: Vec<String> = self.session.as_ref().map_or(Vec::new(), |session| {
            session
                .unacked
                .iter()
                .map(|sent| sent.xml.clone())
                .collect()
        });
        if !again.is_empty() {
            shared.history.note(
                &self.name,
                format_args!("sends {} stanzas again", again.len()),
            );
        }
        // A server that failed may have taken nothing of what the session wants: what came while
        // nobody knew of that comes with the next catch-up.
        if let Some(session) = &self.session
            && again
                .iter()
                .any(|xml| [ENABLE_CARBONS, PRESENCE].contains(&&**xml))
        {
            shared.history.chains[session.chain].live_from = None;
        }
        self.may_enter_again(&again, shared);
        for xml in again {
            self.say(&xml);
        }
        self.request();
        self.wants_catch_up = true;
    }

    /// A session begins.
    fn begin(&mut self, shared: &mut Shared<'_>) {
        let chain = shared.history.chains.len();
        let now = shared.history.now;
        let mut before = shared.history.chains.iter_mut().rev();
        if let Some(before) = before.find(|chain| chain.device == self.number) {
            before.replaced_at = Some(now);
        }
        let begun = Chain::new(self.number, self.plan.has_carbons);
        shared.history.chains.push(begun);
        self.session = Some(Session {
            chain,
            token: None,
            received: 0,
            acked: 0,
            unacked: VecDeque::new(),
            is_shown: false,
        });
        self.leave_room(shared);
        shared
            .history
            .note(&self.name, format_args!("begins session {chain}"));
    }

    /// Says who it is and what it wants, and asks for what it missed.
    fn set_up(&mut self, shared: &mut Shared<'_>) {
        self.phase = Phase::Ready;
        self.wants_set_up = false;
        if self.plan.has_carbons {
            self.send(ENABLE_CARBONS.to_owned(), None, shared);
        }
        self.send(PRESENCE.to_owned(), None, shared);
        self.wants_catch_up = true;
    }

    /// What the session wants was refused, while the disk was bad or too much waited: it is said
    /// again, and until then others' messages may pass it by.
    fn is_not_set_up(&mut self, shared: &mut Shared<'_>) {
        let Some(session) = &self.session else { return };
        self.wants_set_up = true;
        shared.history.chains[session.chain].live_from = None;
        let note = "is refused what its session wants";
        shared.history.note(&self.name, note);
    }

    fn give_up(&mut self, what: &str, element: Element<'_>, shared: &mut Shared<'_>) {
        let text = format!("{}: {what} was refused: {}", self.name(), one_line(element));
        let may_fail = shared.actors_crash || shared.ranges_move;
        if shared.is_disk_bad || may_fail && self.phase != Phase::Ready {
            shared.history.note(&self.name, &text);
        } else {
            shared.history.violation(text);
        }
        self.link = None;
        self.lost();
    }
}

// === impl Device: what it says ===

impl Device {
    /// Sends a stanza in the session.
    fn send(&mut self, xml: String, message: Option<usize>, shared: &mut Shared<'_>) {
        self.say(&xml);
        let Some(session) = &mut self.session else {
            return;
        };
        shared.history.chains[session.chain].sent += 1;
        if self.plan.is_managed {
            session.unacked.push_back(Sent {
                xml,
                message,
                said: None,
            });
        }
    }

    /// Sends what is said to all. In a new session it is not said again.
    fn send_said(&mut self, xml: String, said: usize, shared: &mut Shared<'_>) {
        self.send(xml, None, shared);
        let session = self.session.as_mut();
        if let Some(sent) = session.and_then(|session| session.unacked.back_mut()) {
            sent.said = Some(said);
        }
    }

    /// Takes a new message to send, now or when it is online.
    pub(super) fn compose(&mut self, message: usize) {
        if self.outbox.len() < OUTBOX_MAX {
            self.outbox.push_back(message);
        }
    }

    /// Whether the outbox has room.
    pub(super) fn can_compose(&self) -> bool {
        self.outbox.len() < OUTBOX_MAX
    }

    /// Sends what waits, once it may.
    pub(super) fn work(&mut self, shared: &mut Shared<'_>) {
        if !self.is_ready() {
            return;
        }
        if self.wants_set_up {
            self.set_up(shared);
        }
        let mut sent = Vec::new();
        while let Some(number) = self.outbox.pop_front() {
            let xml = self.message(number, shared);
            sent.push(number);
            self.send(xml, Some(number), shared);
        }
        if !sent.is_empty() {
            shared
                .history
                .note(&self.name, format_args!("sends {}", listed(&sent)));
        }
        self.speak(shared);
        if self.wants_catch_up && self.query.is_none() {
            self.wants_catch_up = false;
            self.query(Purpose::CatchUp, shared);
        }
    }

    fn message(&self, number: usize, shared: &mut Shared<'_>) -> String {
        let message = &mut shared.history.messages[number];
        let (from, to) = (message.from, message.to);
        let seen = &shared.history.seen_max;
        if message.floors.is_none() {
            message.floors = Some([seen[from].clone(), seen[to].clone()]);
            message.sent_at = shared.history.now;
        }
        let resource = message
            .to_device
            .map_or(String::new(), |device| format!("/d{device}"));
        let id = if shared.reuses_ids {
            number % 5
        } else {
            number
        };
        let padding_max = if number.is_multiple_of(LONG_EVERY) {
            PADDING_MAX
        } else {
            shared.padding_max
        };
        let (seed, padding) = (shared.seed, "x".repeat(number * 7919 % padding_max));
        format!(
            "<message type='chat' id='i{id}' to='u{to}@{DOMAIN}{resource}'><body>m{number} \
             {padding}</body><origin-id xmlns='{NS_SID}' id='{seed}-{number}'/></message>"
        )
    }

    pub(super) fn type_to(&mut self, user: usize, shared: &mut Shared<'_>) {
        let xml = format!(
            "<message type='chat' to='u{user}@{DOMAIN}'>\
             <composing xmlns='http://jabber.org/protocol/chatstates'/></message>"
        );
        self.send(xml, None, shared);
    }

    pub(super) fn show(&mut self, is_away: bool, shared: &mut Shared<'_>) {
        let show = if is_away { "<show>away</show>" } else { "" };
        self.send(format!("<presence>{show}</presence>"), None, shared);
    }

    /// Acknowledges, and pings: the answer proves that the acknowledgement was read, by the process
    /// that runs now, even if the answer is heard only after that was killed.
    pub(super) fn ping(&mut self, shared: &mut Shared<'_>) {
        self.acknowledge(shared);
        let Some(session) = &self.session else {
            return;
        };
        let chain = session.chain;
        let known = &shared.history.chains[chain];
        let (deliveries, heard) = (known.deliveries.len(), known.heard_at.len());
        let Life { crashes, at } = shared.history.life_of(self.plan.user);
        let xml = format!(
            "<iq type='get' id='ping-{chain}-{deliveries}-{crashes}-{at}-{heard}' to='{DOMAIN}'>\
             <ping xmlns='urn:xmpp:ping'/></iq>"
        );
        self.send(xml, None, shared);
    }

    pub(super) fn set_activity(&mut self, is_active: bool) {
        let word = if is_active { "active" } else { "inactive" };
        self.say(&format!("<{word} xmlns='{NS_CSI}'/>"));
    }

    pub(super) fn request(&mut self) {
        if self.plan.is_managed {
            self.waits_since.get_or_insert_with(Instant::now);
            self.say(&format!("<r xmlns='{NS_SM}'/>"));
        }
    }

    pub(super) fn acknowledge(&mut self, shared: &mut Shared<'_>) {
        let (true, Some(session)) = (self.plan.is_managed, &self.session) else {
            return;
        };
        let h = session.received;
        shared
            .history
            .note(&self.name, format_args!("says a h={h}"));
        self.say(&format!("<a xmlns='{NS_SM}' h='{h}'/>"));
    }

    pub(super) fn catch_up(&mut self) {
        self.wants_catch_up = self.query.is_none();
    }

    /// Reads the user's whole archive.
    pub(super) fn audit(&mut self, shared: &mut Shared<'_>) {
        self.query(Purpose::Audit, shared);
    }

    /// Reads the room's whole archive.
    pub(super) fn audit_room(&mut self, shared: &mut Shared<'_>) {
        self.query(Purpose::Room, shared);
    }

    pub(super) fn is_querying(&self) -> bool {
        self.query.is_some()
    }

    fn query(&mut self, purpose: Purpose, shared: &mut Shared<'_>) {
        let after = match purpose {
            Purpose::CatchUp => self.cursor.clone(),
            Purpose::Audit | Purpose::Room => None,
        };
        self.queries += 1;
        self.query = Some(Query {
            id: self.queries,
            purpose,
            after: after.clone(),
            entries: Vec::new(),
        });
        self.ask_page(after.as_deref(), shared);
    }

    fn ask_page(&mut self, after: Option<&str>, shared: &mut Shared<'_>) {
        let Some(query) = &self.query else { return };
        let id = query.id;
        let max = match query.purpose {
            Purpose::CatchUp => shared.page,
            Purpose::Audit | Purpose::Room => AUDIT_PAGE,
        };
        let to = match query.purpose {
            Purpose::Room => format!(" to='{ROOM}'"),
            Purpose::CatchUp | Purpose::Audit => String::new(),
        };
        shared.history.note(
            &self.name,
            format_args!("asks for its archive after {after:?} (query {id})"),
        );
        let after = after.map_or(String::new(), |id| format!("<after>{}</after>", escape(id)));
        let xml = format!(
            "<iq type='set' id='q{id}'{to}><query xmlns='{NS_MAM}' queryid='q{id}'>\
             <set xmlns='{NS_RSM}'><max>{max}</max>{after}</set></query></iq>"
        );
        self.send(xml, None, shared);
    }
}

// === helpers ===

fn header() -> String {
    format!(
        "<?xml version='1.0'?><stream:stream to='{DOMAIN}' version='1.0' \
         xmlns='{NS_CLIENT}' xmlns:stream='{NS_STREAMS}'>"
    )
}

/// An element on one line, without what pads the bodies.
fn one_line(element: Element<'_>) -> String {
    let text = element.source().replace("xxxxxxxx", "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `m1..m4 m7`: runs are joined.
fn listed(numbers: &[usize]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < numbers.len() {
        let first = numbers[at];
        let mut end = at;
        while end + 1 < numbers.len() && numbers[end + 1] == numbers[end] + 1 {
            end += 1;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&format!("m{first}"));
        if end > at {
            out.push_str(&format!("..m{}", numbers[end]));
        }
        at = end + 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_messages_are_listed_shortly() {
        assert_eq!(listed(&[1, 2, 3, 7, 9, 10]), "m1..m3 m7 m9..m10");
        assert_eq!(listed(&[]), "");
    }
}
