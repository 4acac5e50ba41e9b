//! One client's stream as a sans-IO machine: items in, bytes and at most one event per item out.
//!
//! It knows the steps of a login (RFC 6120), stream management (XEP-0198) and how to recognise the
//! flood's own messages. Sockets, time and what a user does when online belong to the worker.

use std::collections::VecDeque;

use crate::gathering::{self, Place};
use crate::sasl::{self, KeyCache, Mechanism, Scram};
use crate::scan::{Element, Item};
use crate::scenario::Scenario;

/// Unacknowledged stanzas kept for a resumption; older ones are given up.
const UNACKED_MAX: usize = 256;
/// A server is asked for an acknowledgement after so many stanzas.
const ACK_EVERY: u32 = 16;

/// What all sessions of a run share.
pub(crate) struct Profile {
    pub(crate) domain: String,
    /// The room of the run.
    pub(crate) room: String,
    pub(crate) prefix: String,
    pub(crate) password: String,
    pub(crate) resource: String,
    pub(crate) roster: bool,
    pub(crate) presence: bool,
    pub(crate) stream_management: bool,
}

impl Profile {
    /// What a scenario says of all its users.
    pub(crate) fn of(scenario: &Scenario) -> Profile {
        let client = &scenario.client;
        Profile {
            domain: scenario.server.domain.clone(),
            room: gathering::room(&scenario.server.domain),
            prefix: scenario.users.prefix.clone(),
            password: scenario.users.password.clone(),
            resource: client.resource.clone(),
            roster: client.roster,
            presence: client.presence,
            stream_management: client.stream_management,
        }
    }

    /// The number of the user in an address such as `u17@localhost/flood`.
    pub(crate) fn user_of(&self, address: &[u8]) -> Option<u32> {
        let rest = address.strip_prefix(self.prefix.as_bytes())?;
        let at = memchr::memchr(b'@', rest)?;
        let host = rest[at + 1..].strip_prefix(self.domain.as_bytes())?;
        if !(host.is_empty() || host[0] == b'/') {
            return None;
        }
        std::str::from_utf8(&rest[..at]).ok()?.parse().ok()
    }
}

/// Which way a session logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) mechanism: Mechanism,
    /// Ask for TLS on the stream before authenticating.
    pub(crate) starttls: bool,
}

/// What a session needs from outside for one item.
pub(crate) struct SessionContext<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) keys: &'a mut KeyCache,
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) user: u32,
    /// Fresh randomness for a nonce.
    pub(crate) entropy: u64,
}

/// How far a session has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Offline,
    Connecting,
    Handshake,
    Features,
    Proceed,
    Challenge,
    Success,
    BoundFeatures,
    Resume,
    Bind,
    Session,
    Roster,
    Online,
    /// `</stream:stream>` was sent; the server's is awaited.
    Closing,
}

impl Stage {
    /// For failure reasons: what was awaited.
    pub(crate) fn awaited(self) -> &'static str {
        match self {
            Stage::Offline => "nothing",
            Stage::Connecting => "the connection",
            Stage::Handshake => "the TLS handshake",
            Stage::Features => "stream features",
            Stage::Proceed => "STARTTLS",
            Stage::Challenge => "the SASL challenge",
            Stage::Success => "the SASL outcome",
            Stage::BoundFeatures => "stream features after SASL",
            Stage::Resume => "the resumption",
            Stage::Bind => "resource binding",
            Stage::Session => "the session reply",
            Stage::Roster => "the roster",
            Stage::Online => "stanzas",
            Stage::Closing => "the end of the stream",
        }
    }
}

/// What an item meant.
#[derive(Debug, PartialEq)]
pub(crate) enum Event<'a> {
    /// Nothing for the worker to do.
    None,
    /// Begin TLS now, then call [`Session::open`].
    StartTls,
    /// The resource is bound.
    Bound,
    /// The login is complete; `contacts` is the size of the roster if one was fetched.
    Ready { contacts: Option<u32> },
    /// The earlier session goes on.
    Resumed,
    /// Presence of another user.
    Presence {
        user: u32,
        available: bool,
        stamp: Option<u64>,
    },
    /// Any other presence.
    OtherPresence,
    /// A message of the flood.
    Message(Stamp),
    /// A message that somebody else wrote.
    ForeignMessage,
    /// A message came back with this condition.
    Bounced(&'a [u8]),
    /// The user is in the room or subscribed to the node.
    Entered(Place),
    /// The user made the room, and has to accept its defaults.
    Locked,
    /// The node was made, or is there already.
    Made,
    /// Entering, or what was said to all, was refused with this condition.
    Refused(Place, &'a [u8]),
    /// What somebody said to all.
    Copy(Place, Stamp),
    /// An archive query was answered (`true`) or refused.
    Archive(bool),
    /// The server ended the stream in good order.
    Closed,
    /// The login or the stream failed, and why.
    Failed(String),
}

/// What a flood message carries in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The sending user.
    pub(crate) sender: u32,
    /// Position in the sequence from this sender to this recipient, from 0.
    pub(crate) sequence: u32,
    /// When it was meant to be sent, nanoseconds of the machine's monotonic clock.
    pub(crate) at: u64,
    /// Written to a pair partner, not to a contact: a sequence of its own.
    pub(crate) pair: bool,
    /// The server kept it while the user was away.
    pub(crate) delayed: bool,
}

impl Stamp {
    /// Writes the body text, padded to `length` bytes if it is shorter.
    pub(crate) fn write(self, length: u32, out: &mut Vec<u8>) {
        use std::io::Write as _;
        let start = out.len();
        let kind = if self.pair { 'p' } else { 'c' };
        // Invariant: writing to a Vec cannot fail.
        let _ = write!(
            out,
            "flood {kind} {} {} {} ",
            self.sender, self.sequence, self.at
        );
        const PADDING: &[u8] = b"the quick brown fox jumps over the lazy dog and naps in the sun ";
        let mut missing = (length as usize).saturating_sub(out.len() - start);
        while missing > 0 {
            let part = missing.min(PADDING.len());
            out.extend_from_slice(&PADDING[..part]);
            missing -= part;
        }
    }

    /// What a text says that [`Stamp::write`] wrote.
    pub(crate) fn read(body: &[u8]) -> Option<Stamp> {
        let head = &body[..body.len().min(64)];
        let text = std::str::from_utf8(head).ok()?;
        let mut words = text.strip_prefix("flood ")?.split(' ');
        let pair = words.next()? == "p";
        let sender = words.next()?.parse().ok()?;
        let sequence = words.next()?.parse().ok()?;
        let at = words.next()?.parse().ok()?;
        Some(Stamp {
            sender,
            sequence,
            at,
            pair,
            delayed: false,
        })
    }
}

struct Login {
    way: Way,
    encrypted: bool,
    scram: Option<Scram>,
    session_needed: bool,
}

/// State of XEP-0198, kept across connections while it may be resumed.
#[derive(Default)]
struct Management {
    id: Option<Box<[u8]>>,
    enabled: bool,
    received: u32,
    /// Number of the oldest stanza in `unacked`.
    acked: u32,
    unacked: VecDeque<Box<[u8]>>,
    since_request: u32,
}

/// One client's stream. Small while online: the login's state is dropped.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) stage: Stage,
    login: Option<Box<Login>>,
    management: Option<Box<Management>>,
}

impl Session {
    /// Begins a login; the connection is on its way.
    pub(crate) fn begin(&mut self, way: Way) {
        self.stage = Stage::Connecting;
        let login = Login {
            way,
            encrypted: false,
            scram: None,
            session_needed: false,
        };
        self.login = Some(Box::new(login));
    }

    /// The connection ended. What can be resumed is kept only if `resumable`.
    pub(crate) fn end(&mut self, resumable: bool) {
        self.stage = Stage::Offline;
        self.login = None;
        match &mut self.management {
            Some(management) if resumable && management.id.is_some() => {
                management.enabled = false;
            }
            _ => self.management = None,
        }
    }

    /// TLS is about to start.
    pub(crate) fn handshake(&mut self) {
        self.stage = Stage::Handshake;
        if let Some(login) = &mut self.login {
            login.encrypted = true;
        }
    }

    /// The handshake of WebSocket begins.
    pub(crate) fn shake_hands(&mut self) {
        self.stage = Stage::Handshake;
    }

    /// Opens the stream: at the start and again after TLS.
    pub(crate) fn open(&mut self, profile: &Profile, out: &mut Vec<u8>) {
        self.stage = Stage::Features;
        write_header(profile, out);
    }

    /// Whether a login is under way.
    pub(crate) fn is_logging_in(&self) -> bool {
        !matches!(self.stage, Stage::Offline | Stage::Online | Stage::Closing)
    }

    /// Whether the session that went before can be taken up again.
    pub(crate) fn is_resumable(&self) -> bool {
        let management = self.management.as_ref();
        management.is_some_and(|management| management.id.is_some())
    }

    /// Sends one stanza, keeping it until acknowledged where stream management is on.
    pub(crate) fn send(&mut self, stanza: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(stanza);
        let Some(management) = &mut self.management else {
            return;
        };
        if !management.enabled {
            return;
        }
        if management.unacked.len() >= UNACKED_MAX {
            management.unacked.pop_front();
            management.acked = management.acked.wrapping_add(1);
        }
        management.unacked.push_back(stanza.into());
        management.since_request += 1;
        if management.since_request >= ACK_EVERY {
            management.since_request = 0;
            out.extend_from_slice(b"<r xmlns='urn:xmpp:sm:3'/>");
        }
    }

    /// Says good-bye.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        self.stage = Stage::Closing;
        out.extend_from_slice(b"<presence type='unavailable'/></stream:stream>");
    }

    /// Handles one top-level item.
    pub(crate) fn handle<'a>(&mut self, cx: &mut SessionContext<'_>, item: Item<'a>) -> Event<'a> {
        let stanza = match item {
            Item::Open(_) => return Event::None,
            Item::Close => {
                return match self.stage {
                    Stage::Online | Stage::Closing => Event::Closed,
                    _ => self.failed("the server closed the stream"),
                };
            }
            Item::Stanza(stanza) => stanza,
        };
        if stanza.name() == b"stream:error" {
            let condition = text(stanza.first_child().unwrap_or(b"undefined-condition"));
            return self.failed(&format!("stream error {condition}"));
        }
        if self.manage(cx, stanza) {
            return Event::None;
        }
        match self.stage {
            Stage::Online | Stage::Closing => online(self, cx, stanza),
            Stage::Features => self.features(cx, stanza),
            Stage::Proceed => match stanza.name() {
                b"proceed" => Event::StartTls,
                _ => self.failed("STARTTLS was refused"),
            },
            Stage::Challenge | Stage::Success => self.sasl(cx, stanza),
            Stage::BoundFeatures => self.bound_features(cx, stanza),
            Stage::Resume => self.resume(cx, stanza),
            Stage::Bind | Stage::Session | Stage::Roster => self.setup(cx, stanza),
            Stage::Offline | Stage::Connecting | Stage::Handshake => Event::None,
        }
    }

    fn failed<'a>(&self, reason: &str) -> Event<'a> {
        if self.stage == Stage::Online {
            return Event::Failed(reason.to_owned());
        }
        Event::Failed(format!("{reason} (awaiting {})", self.stage.awaited()))
    }

    // Steps of the login, in order.

    fn features<'a>(&mut self, cx: &mut SessionContext<'_>, features: Element<'a>) -> Event<'a> {
        let Some(login) = &mut self.login else {
            return Event::None;
        };
        if features.name() != b"stream:features" {
            return self.failed("no stream features");
        }
        let starttls = features.find("<starttls");
        if login.way.starttls && !login.encrypted {
            if starttls.is_none() {
                return self.failed("STARTTLS is not offered");
            }
            self.stage = Stage::Proceed;
            cx.out
                .extend_from_slice(b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
            return Event::None;
        }
        let mechanism = login.way.mechanism;
        if !features.has(&format!(">{}<", mechanism.name())) {
            let reason = if starttls.is_some_and(|tls| tls.has("<required")) {
                "the server requires TLS".to_owned()
            } else {
                format!("{} is not offered", mechanism.name())
            };
            return self.failed(&reason);
        }
        let user = format!("{}{}", cx.profile.prefix, cx.user);
        let (stage, text) = match mechanism {
            Mechanism::Plain => (Stage::Success, sasl::plain(&user, &cx.profile.password)),
            Mechanism::ScramSha1 | Mechanism::ScramSha256 => {
                let nonce = format!("{:016x}{:08x}", cx.entropy, cx.user);
                let scram = login.scram.insert(Scram::new(mechanism, &user, &nonce));
                (Stage::Challenge, scram.first())
            }
        };
        self.stage = stage;
        let auth = format!(
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{}'>{text}</auth>",
            mechanism.name()
        );
        cx.out.extend_from_slice(auth.as_bytes());
        Event::None
    }

    fn sasl<'a>(&mut self, cx: &mut SessionContext<'_>, answer: Element<'a>) -> Event<'a> {
        let Some(login) = &mut self.login else {
            return Event::None;
        };
        match (answer.name(), self.stage) {
            (b"challenge", Stage::Challenge) => {
                let Some(scram) = &mut login.scram else {
                    return Event::None;
                };
                match scram.answer(answer.text(), cx.keys) {
                    Ok(text) => {
                        self.stage = Stage::Success;
                        let response = format!(
                            "<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>{text}</response>"
                        );
                        cx.out.extend_from_slice(response.as_bytes());
                        Event::None
                    }
                    Err(reason) => self.failed(reason),
                }
            }
            (b"success", Stage::Success) => {
                if login
                    .scram
                    .take()
                    .is_some_and(|scram| !scram.verify(answer.text()))
                {
                    return self.failed("a wrong SCRAM server signature");
                }
                self.stage = Stage::BoundFeatures;
                write_header(cx.profile, cx.out);
                Event::None
            }
            (b"failure", _) => {
                let condition = text(answer.first_child().unwrap_or(b"without condition"));
                self.failed(&format!("SASL failure {condition}"))
            }
            _ => self.failed("an unexpected SASL element"),
        }
    }

    fn bound_features<'a>(&mut self, cx: &mut SessionContext<'_>, item: Element<'a>) -> Event<'a> {
        if item.name() != b"stream:features" {
            return self.failed("no stream features");
        }
        let can_manage = cx.profile.stream_management && item.has("urn:xmpp:sm:3");
        if let Some(management) = &self.management
            && let Some(id) = &management.id
            && can_manage
        {
            self.stage = Stage::Resume;
            let resume = format!(
                "<resume xmlns='urn:xmpp:sm:3' h='{}' previd='{}'/>",
                management.received,
                text(id)
            );
            cx.out.extend_from_slice(resume.as_bytes());
            return Event::None;
        }
        if let Some(login) = &mut self.login {
            // RFC 3921 sessions: asked for only where a server insists.
            let session = item.find("<session");
            login.session_needed = session.is_some_and(|session| !session.has("<optional"));
        }
        self.management = can_manage.then(Box::default);
        self.bind(cx)
    }

    fn bind<'a>(&mut self, cx: &mut SessionContext<'_>) -> Event<'a> {
        self.stage = Stage::Bind;
        let bind = format!(
            "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
             <resource>{}</resource></bind></iq>",
            cx.profile.resource
        );
        cx.out.extend_from_slice(bind.as_bytes());
        Event::None
    }

    fn resume<'a>(&mut self, cx: &mut SessionContext<'_>, answer: Element<'a>) -> Event<'a> {
        if answer.name() == b"resumed" {
            let acked = number(answer.attr("h"));
            let Some(management) = &mut self.management else {
                return Event::None;
            };
            management.enabled = true;
            management.acknowledge(acked);
            for stanza in &management.unacked {
                cx.out.extend_from_slice(stanza);
            }
            self.stage = Stage::Online;
            self.login = None;
            return Event::Resumed;
        }
        self.management = Some(Box::default());
        self.bind(cx)
    }

    fn setup<'a>(&mut self, cx: &mut SessionContext<'_>, stanza: Element<'a>) -> Event<'a> {
        let is_reply = |id: &[u8]| stanza.name() == b"iq" && stanza.attr("id") == Some(id);
        let refused = stanza.attr("type") == Some(b"error");
        let step: (&[u8], &str) = match self.stage {
            Stage::Bind => (b"b", "resource binding"),
            Stage::Session => (b"s", "the session request"),
            _ => (b"r", "the roster request"),
        };
        if !is_reply(step.0) {
            // Offline messages and presence of contacts may come before the login's last answer.
            return online(self, cx, stanza);
        }
        if refused {
            let condition = stanza.find("<error").and_then(|error| error.first_child());
            let condition = text(condition.unwrap_or(b"undefined-condition"));
            return self.failed(&format!("{} failed with {condition}", step.1));
        }
        match self.stage {
            Stage::Bind => {
                let needed = self
                    .login
                    .as_ref()
                    .is_some_and(|login| login.session_needed);
                if needed {
                    self.stage = Stage::Session;
                    cx.out.extend_from_slice(
                        b"<iq type='set' id='s'>\
                          <session xmlns='urn:ietf:params:xml:ns:xmpp-session'/></iq>",
                    );
                } else {
                    self.fetch_roster(cx);
                }
                match self.stage {
                    Stage::Online => Event::Ready { contacts: None },
                    _ => Event::Bound,
                }
            }
            Stage::Session => {
                self.fetch_roster(cx);
                match self.stage {
                    Stage::Online => Event::Ready { contacts: None },
                    _ => Event::None,
                }
            }
            _ => {
                self.announce(cx);
                Event::Ready {
                    contacts: Some(stanza.count("<item ") as u32),
                }
            }
        }
    }

    fn fetch_roster(&mut self, cx: &mut SessionContext<'_>) {
        if let Some(management) = &mut self.management {
            management.enabled = true;
            cx.out
                .extend_from_slice(b"<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
        }
        if cx.profile.roster {
            self.stage = Stage::Roster;
            self.send(
                b"<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>",
                cx.out,
            );
        } else {
            self.announce(cx);
        }
    }

    fn announce(&mut self, cx: &mut SessionContext<'_>) {
        self.stage = Stage::Online;
        self.login = None;
        if cx.profile.presence {
            self.send(b"<presence/>", cx.out);
        }
    }

    fn iq<'a>(&mut self, cx: &mut SessionContext<'_>, iq: Element<'a>) -> Event<'a> {
        match iq.attr("type") {
            Some(b"get" | b"set") => {
                let known = iq.has("urn:xmpp:ping") || iq.has("jabber:iq:roster");
                let mut reply = Vec::with_capacity(128);
                reply.extend_from_slice(b"<iq id='");
                reply.extend_from_slice(iq.attr("id").unwrap_or_default());
                if let Some(from) = iq.attr("from") {
                    reply.extend_from_slice(b"' to='");
                    reply.extend_from_slice(from);
                }
                reply.extend_from_slice(if known {
                    b"' type='result'/>"
                } else {
                    b"' type='error'><error type='cancel'><service-unavailable \
                      xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
                });
                self.send(&reply, cx.out);
                Event::None
            }
            kind if iq.attr("id").is_some_and(|id| id.starts_with(b"mam")) => {
                Event::Archive(kind == Some(b"result"))
            }
            _ => Event::None,
        }
    }

    /// Handles the elements of XEP-0198 and counts stanzas; true if `element` was one of its own.
    fn manage(&mut self, cx: &mut SessionContext<'_>, element: Element<'_>) -> bool {
        let Some(management) = &mut self.management else {
            return false;
        };
        if !management.enabled {
            return false;
        }
        match element.name() {
            b"message" | b"presence" | b"iq" => {
                management.received = management.received.wrapping_add(1);
                false
            }
            b"r" => {
                let ack = format!("<a xmlns='urn:xmpp:sm:3' h='{}'/>", management.received);
                cx.out.extend_from_slice(ack.as_bytes());
                true
            }
            b"a" => {
                management.acknowledge(number(element.attr("h")));
                true
            }
            b"enabled" => {
                let resumable = matches!(element.attr("resume"), Some(b"true" | b"1"));
                management.id = element.attr("id").filter(|_| resumable).map(Box::from);
                // Stanzas count from here on (XEP-0198 section 4).
                management.received = 0;
                true
            }
            b"failed" => {
                self.management = None;
                true
            }
            _ => false,
        }
    }
}

impl Management {
    fn acknowledge(&mut self, handled: u32) {
        let done = handled.wrapping_sub(self.acked) as usize;
        if done <= self.unacked.len() {
            self.unacked.drain(..done);
            self.acked = handled;
        }
    }
}

fn online<'a>(
    session: &mut Session,
    cx: &mut SessionContext<'_>,
    stanza: Element<'a>,
) -> Event<'a> {
    if let Some(event) = gathering::read(cx.profile, stanza) {
        return event;
    }
    match stanza.name() {
        b"message" => message(stanza),
        b"presence" => presence(cx.profile, stanza),
        b"iq" => session.iq(cx, stanza),
        _ => Event::None,
    }
}

fn message(stanza: Element<'_>) -> Event<'_> {
    if stanza.attr("type") == Some(b"error") {
        let condition = stanza.find("<error").and_then(|error| error.first_child());
        return Event::Bounced(condition.unwrap_or(b"undefined-condition"));
    }
    let Some(body) = stanza.find("<body") else {
        return Event::ForeignMessage;
    };
    match Stamp::read(body.text()) {
        // What an archive gives out is wrapped in <forwarded/> and is no delivery.
        Some(_) if stanza.has("<forwarded") => Event::None,
        Some(stamp) => Event::Message(Stamp {
            delayed: stanza.has("<delay"),
            ..stamp
        }),
        None => Event::ForeignMessage,
    }
}

fn presence<'a>(profile: &Profile, stanza: Element<'a>) -> Event<'a> {
    let available = match stanza.attr("type") {
        None => true,
        Some(b"unavailable") => false,
        Some(_) => return Event::OtherPresence,
    };
    let Some(user) = stanza.attr("from").and_then(|from| profile.user_of(from)) else {
        return Event::OtherPresence;
    };
    let stamp = stanza.find("<status").and_then(|status| {
        std::str::from_utf8(status.text())
            .ok()?
            .strip_prefix("flood ")?
            .parse()
            .ok()
    });
    Event::Presence {
        user,
        available,
        stamp,
    }
}

fn write_header(profile: &Profile, out: &mut Vec<u8>) {
    let header = format!(
        "<?xml version='1.0'?><stream:stream to='{}' version='1.0' xmlns='jabber:client' \
         xmlns:stream='http://etherx.jabber.org/streams'>",
        profile.domain
    );
    out.extend_from_slice(header.as_bytes());
}

fn number(attribute: Option<&[u8]>) -> u32 {
    attribute
        .and_then(|text| std::str::from_utf8(text).ok()?.parse().ok())
        .unwrap_or(0)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned()
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
