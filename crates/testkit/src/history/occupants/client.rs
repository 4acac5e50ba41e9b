//! One occupant: it logs in, enters the room, hears, and speaks if it is one of those who do. With
//! stream management it loses its link now and then, resumes, and notes every message that it is
//! given; it must be given each once.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;

use super::super::link::{BACKLOG_BYTES_MAX, Cut, Link};
use super::super::reader::{Element, Item};
use super::{DOMAIN, PASSWORD, ROOM};
use crate::tree::NS_CLIENT;

const NS_SM: &str = "urn:xmpp:sm:3";
const NS_MUC: &str = "http://jabber.org/protocol/muc";
const NS_USER: &str = "http://jabber.org/protocol/muc#user";
const NS_SID: &str = "urn:xmpp:sid:0";
const NS_SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";

/// From the connect until it is in the room; then it begins again.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest pause before it connects again, in milliseconds.
const PAUSE_MS: u64 = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Off,
    /// Waits for the features of the first stream, or the outcome of its login.
    Login,
    /// Waits for the features of the second stream.
    LoggedIn,
    Binding,
    Enabling,
    Resuming,
    Entering,
    Configuring,
    In,
}

/// A message as it was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// Its place in the room's order.
    pub(super) id: u64,
    /// Who said it, and which of his it is.
    pub(super) what: (u32, u32),
}

/// See the module.
pub(super) struct Client {
    pub(super) number: usize,
    pub(super) is_managed: bool,
    link: Option<Link>,
    phase: Phase,
    since: Instant,
    /// It connects then.
    again_at: Instant,
    /// It loses its link then.
    cut_at: Option<Instant>,
    /// What its session is resumed by.
    token: Option<String>,
    received: u32,
    sent: VecDeque<String>,
    acked: u32,
    pub(super) heard: Vec<Heard>,
    /// Messages that it said.
    pub(super) said: u32,
    pub(super) resumed: u32,
    /// What must not be.
    pub(super) faults: Vec<String>,
    /// It makes the room.
    makes: bool,
    rng: Rng,
}

impl Client {
    pub(super) fn new(number: usize, seed: u64) -> Client {
        let now = Instant::now();
        Client {
            number,
            is_managed: number.is_multiple_of(2),
            link: None,
            phase: Phase::Off,
            since: now,
            again_at: now,
            cut_at: None,
            token: None,
            received: 0,
            sent: VecDeque::new(),
            acked: 0,
            heard: Vec::new(),
            said: 0,
            resumed: 0,
            faults: Vec::new(),
            makes: number == 0,
            rng: Rng::with_seed(seed ^ number as u64),
        }
    }

    pub(super) fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    pub(super) fn is_in(&self) -> bool {
        self.phase == Phase::In
    }

    pub(super) fn is_off(&self) -> bool {
        self.phase == Phase::Off
    }

    /// Nothing that it said waits for an acknowledgement.
    pub(super) fn is_settled(&self) -> bool {
        self.sent.is_empty()
    }

    fn fault(&mut self, what: impl Into<String>) {
        if self.faults.len() < 5 {
            self.faults.push(what.into());
        }
    }

    // ---- The link ------------------------------------------------------------------------------

    /// Connects if it is time.
    pub(super) fn connect(&mut self, address: SocketAddr, now: Instant) {
        if self.phase != Phase::Off || now < self.again_at {
            return;
        }
        match Link::open(address) {
            Ok(link) => self.link = Some(link),
            Err(_) => return self.pause(now),
        }
        (self.phase, self.since) = (Phase::Login, now);
        self.open_stream();
    }

    fn pause(&mut self, now: Instant) {
        self.phase = Phase::Off;
        self.again_at = now + Duration::from_millis(self.rng.u64(100..PAUSE_MS));
    }

    fn lost(&mut self, now: Instant) {
        self.link = None;
        self.cut_at = None;
        self.pause(now);
        if !self.is_managed {
            self.sent.clear();
        }
    }

    /// From now on it loses its link about as often as this, or never.
    pub(super) fn flap(&mut self, every: Option<Duration>, now: Instant) {
        self.cut_at = every.filter(|_| self.is_managed).map(|every| {
            let every = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
            now + Duration::from_millis(self.rng.u64(every / 4..every * 2))
        });
    }

    /// Loses its link if it is time, and gives up one that brings nothing.
    pub(super) fn look_at_time(&mut self, every: Option<Duration>, now: Instant) {
        if self.phase == Phase::In && self.cut_at.is_none() && every.is_some() {
            self.flap(every, now);
        }
        if self.cut_at.is_some_and(|at| at <= now) && self.phase == Phase::In {
            let how = match self.rng.bool() {
                true => Cut::Quiet,
                false => Cut::Reset,
            };
            if let Some(link) = self.link.take() {
                link.cut(how);
            }
            return self.lost(now);
        }
        let is_slow = !matches!(self.phase, Phase::Off | Phase::In);
        if is_slow && now.saturating_duration_since(self.since) > PATIENCE {
            self.fault(format!("{:?} for too long", self.phase));
            self.lost(now);
        }
    }

    pub(super) fn flush(&mut self, now: Instant) {
        if self.link.as_mut().is_some_and(|link| !link.flush()) {
            self.lost(now);
        }
    }

    pub(super) fn read(&mut self, items: &mut Vec<Item>, now: Instant) {
        let Some(link) = &mut self.link else { return };
        let is_open = match link.read(items) {
            Ok(is_open) => is_open,
            Err(why) => {
                self.fault(why);
                false
            }
        };
        for item in items.drain(..) {
            match item {
                Item::Root => {}
                Item::End => return self.lost(now),
                Item::Stanza(stanza) => match stanza.parse() {
                    Ok(tree) => {
                        if let Some(element) = Element::of(&tree) {
                            self.hear(element, now);
                        }
                    }
                    Err(why) => self.fault(why),
                },
            }
        }
        if !is_open {
            self.lost(now);
        }
    }

    // ---- What it says --------------------------------------------------------------------------

    fn tell(&mut self, text: &str) {
        if let Some(link) = &mut self.link {
            link.say(text);
        }
    }

    fn open_stream(&mut self) {
        self.tell(&format!(
            "<stream:stream to='{DOMAIN}' version='1.0' xmlns='{NS_CLIENT}' \
             xmlns:stream='http://etherx.jabber.org/streams'>"
        ));
    }

    /// A stanza, which is said again if it is not acknowledged.
    fn send(&mut self, xml: String) {
        self.tell(&xml);
        if self.is_managed {
            self.tell(&format!("<r xmlns='{NS_SM}'/>"));
            self.sent.push_back(xml);
        }
    }

    fn enter(&mut self) {
        self.phase = Phase::Entering;
        let number = self.number;
        self.send(format!(
            "<presence to='{ROOM}/o{number}'><x xmlns='{NS_MUC}'><history maxstanzas='0'/></x>\
             </presence>"
        ));
    }

    /// Says something to all, if it can.
    pub(super) fn say(&mut self) -> bool {
        let has_room = |link: &Link| link.backlog() < BACKLOG_BYTES_MAX;
        if self.phase != Phase::In || !self.link.as_ref().is_some_and(has_room) {
            return false;
        }
        let (number, said) = (self.number, self.said);
        self.said += 1;
        self.send(format!(
            "<message type='groupchat' to='{ROOM}' id='{number}.{said}'>\
             <body>{number}.{said}</body></message>"
        ));
        true
    }

    // ---- What it hears -------------------------------------------------------------------------

    fn hear(&mut self, element: Element<'_>, now: Instant) {
        match (element.ns(), element.name()) {
            (_, "features") => self.features(),
            (NS_SASL, "success") => {
                if let Some(link) = &mut self.link {
                    link.restart();
                }
                self.phase = Phase::LoggedIn;
                self.open_stream();
            }
            (NS_SASL, _) => {
                self.fault(format!("no login: {}", element.source()));
                self.lost(now);
            }
            (NS_SM, name) => self.managed(name, element, now),
            (NS_CLIENT, _) => {
                self.received = self.received.wrapping_add(1);
                self.stanza(element, now);
            }
            (_, "error") => self.lost(now),
            _ => {}
        }
    }

    fn features(&mut self) {
        match (self.phase, self.token.clone()) {
            (Phase::Login, _) => {
                let plain = STANDARD.encode(format!("\0o{}\0{PASSWORD}", self.number));
                self.tell(&format!(
                    "<auth xmlns='{NS_SASL}' mechanism='PLAIN'>{plain}</auth>"
                ));
            }
            (Phase::LoggedIn, Some(token)) => {
                self.phase = Phase::Resuming;
                let h = self.received;
                self.tell(&format!(
                    "<resume xmlns='{NS_SM}' previd='{token}' h='{h}'/>"
                ));
            }
            (Phase::LoggedIn, None) => {
                self.phase = Phase::Binding;
                self.tell(
                    "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
                     <resource>r</resource></bind></iq>",
                );
            }
            _ => {}
        }
    }

    fn managed(&mut self, name: &str, element: Element<'_>, now: Instant) {
        let number = |name| element.attr(name).and_then(|text| text.parse::<u32>().ok());
        match name {
            "enabled" => {
                self.token = element.attr("id").map(str::to_owned);
                (self.received, self.acked) = (0, 0);
                self.enter();
            }
            "resumed" => {
                self.resumed += 1;
                self.acknowledged(number("h").unwrap_or(0));
                self.phase = Phase::In;
                for xml in self.sent.clone() {
                    self.tell(&xml);
                }
                if !self.sent.is_empty() {
                    self.tell(&format!("<r xmlns='{NS_SM}'/>"));
                }
            }
            "failed" if self.phase == Phase::Resuming => {
                self.fault(format!("not resumed: {}", element.source()));
                self.token = None;
                self.lost(now);
            }
            "failed" => self.fault(element.source()),
            "r" => {
                let h = self.received;
                self.tell(&format!("<a xmlns='{NS_SM}' h='{h}'/>"));
            }
            "a" => self.acknowledged(number("h").unwrap_or(0)),
            _ => {}
        }
    }

    fn acknowledged(&mut self, h: u32) {
        let count = h.wrapping_sub(self.acked) as usize;
        if count > self.sent.len() {
            return self.fault(format!("{count} acknowledged of {}", self.sent.len()));
        }
        self.sent.drain(..count);
        self.acked = h;
    }

    fn stanza(&mut self, element: Element<'_>, now: Instant) {
        match element.name() {
            "iq" if self.phase == Phase::Binding => match self.is_managed {
                true => {
                    self.phase = Phase::Enabling;
                    self.tell(&format!("<enable xmlns='{NS_SM}' resume='true'/>"));
                }
                false => self.enter(),
            },
            "iq" if self.phase == Phase::Configuring => self.phase = Phase::In,
            "presence" => self.presence(element, now),
            "message" => self.message(element),
            _ => {}
        }
    }

    /// Of others it takes no notice: that they are there is shown elsewhere.
    fn presence(&mut self, element: Element<'_>, now: Instant) {
        let from = element.attr("from").unwrap_or_default();
        if *from != format!("{ROOM}/o{}", self.number) {
            return;
        }
        match element.attr("type") {
            None if self.phase == Phase::Entering => {
                self.phase = Phase::In;
                if std::mem::take(&mut self.makes) {
                    self.configure();
                }
            }
            None => {}
            // Its nick may still be that of its session before, which has not ended yet.
            Some("error") if !self.is_managed => self.lost(now),
            Some("error") => self.fault(format!("cannot enter: {}", element.source())),
            Some(_) if self.is_managed => {
                let codes = element.child(NS_USER, "x");
                let codes = codes.map(|x| x.source().to_owned()).unwrap_or_default();
                self.fault(format!("put out: {codes}"));
            }
            Some(_) => self.lost(now),
        }
    }

    fn configure(&mut self) {
        self.phase = Phase::Configuring;
        self.send(format!(
            "<iq type='set' id='room' to='{ROOM}'><query xmlns='{NS_MUC}#owner'>\
             <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
             <value>{NS_MUC}#roomconfig</value></field>\
             <field var='muc#roomconfig_persistentroom'><value>1</value></field></x></query></iq>"
        ));
    }

    fn message(&mut self, element: Element<'_>) {
        if element.attr("type") == Some("error") {
            return self.fault(format!("refused: {}", element.source()));
        }
        let Some(body) = element.child(NS_CLIENT, "body") else {
            return; // The subject, or what the room itself says.
        };
        let body = body.text();
        let what = body.split_once('.');
        let what = what.and_then(|(who, which)| Some((who.parse().ok()?, which.parse().ok()?)));
        let id = element.child(NS_SID, "stanza-id");
        let id = id.and_then(|id| u64::from_str_radix(id.attr("id")?, 16).ok());
        let (Some(what), Some(id)) = (what, id) else {
            return self.fault(format!("what is this: {}", element.source()));
        };
        if let Some(last) = self.heard.last().filter(|last| last.id >= id) {
            let last = last.id;
            self.fault(format!("{id:x} behind {last:x}: {body}"));
        }
        self.heard.push(Heard { id, what });
    }
}
