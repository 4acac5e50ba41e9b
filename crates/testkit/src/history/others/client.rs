//! One client of somebody beside the checked users, over stream management that is not resumed: it
//! logs in, does its errand and goes. Owns what it heard; what that means is others'.

mod hear;

use super::check::Back;
use super::{DOMAIN, SECRET};
use crate::history::link::Link;
use crate::history::reader::{Element, Item};
use crate::tree::NS_CLIENT;
use std::time::{Duration, Instant};

const NS_SM: &str = "urn:xmpp:sm:3";
const NS_MAM: &str = "urn:xmpp:mam:2";
const NS_RSM: &str = "http://jabber.org/protocol/rsm";

/// How long a login, or an answer, may take until the client gives up.
const PATIENCE: Duration = Duration::from_secs(20);
/// Entries of an archive that are asked for at once.
const PAGE: usize = 50;

/// What a client is there for.
#[derive(Clone, Debug)]
pub(super) enum Errand {
    /// Says these stanzas, and goes once all are acknowledged.
    Write(Vec<String>),
    /// Says the secret, at which the actor of its own account crashes.
    Crash,
    /// Is given all that waits for it, and stays.
    Read,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for the features of the first stream, or the outcome of its login.
    Login,
    /// Waits for the features of the second stream.
    LoggedIn,
    Binding,
    Enabling,
    /// Its errand is under way.
    Ready,
    /// It said goodbye.
    Closing,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Its errand is done.
    Done,
    /// It was not let in.
    NoLogin,
    /// Its link ended before.
    Lost,
    /// It gave up.
    Late,
}

/// What a client heard.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// So many of its stanzas were acknowledged.
    pub(super) accepted: usize,
    pub(super) backs: Vec<Back>,
    /// Messages that it was given, in their order.
    pub(super) given: Vec<usize>,
    /// Its archive, as it last read all of it.
    pub(super) archive: Option<Vec<usize>>,
    /// Its presence was shown: what waits comes.
    pub(super) is_shown: bool,
    /// A message or an error came since somebody last looked.
    pub(super) has_news: bool,
}

/// See the module.
pub(super) struct Client {
    /// The local part of its account.
    pub(super) name: String,
    pub(super) errand: Errand,
    link: Option<Link>,
    phase: Phase,
    /// Since when it waits for what is next.
    since: Instant,
    /// Stanzas that came since stream management is on.
    received: u32,
    /// What it has read of its archive so far, if it reads it.
    pages: Option<Vec<usize>>,
    pub(super) heard: Heard,
    pub(super) end: Option<End>,
    /// What was wrong on its stream.
    pub(super) fault: Option<String>,
}

impl Client {
    pub(super) fn new(name: String, errand: Errand, link: Link, now: Instant) -> Client {
        let mut client = Client {
            name,
            errand,
            link: Some(link),
            phase: Phase::Login,
            since: now,
            received: 0,
            pages: None,
            heard: Heard::default(),
            end: None,
            fault: None,
        };
        client.open_stream();
        client
    }

    pub(super) fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    pub(super) fn is_writer(&self) -> bool {
        matches!(self.errand, Errand::Write(_))
    }

    /// Reads, answers and writes what can be.
    pub(super) fn turn(&mut self, now: Instant) {
        let Some(link) = &mut self.link else { return };
        let mut items = Vec::new();
        let is_open = link.read(&mut items).unwrap_or_else(|why| {
            self.fault = Some(why);
            false
        });
        if !items.is_empty() {
            self.since = now;
        }
        for item in items {
            match item {
                Item::Root => {}
                Item::End => self.over(),
                Item::Stanza(stanza) => match stanza.parse() {
                    Ok(tree) => {
                        if let Some(element) = Element::of(&tree) {
                            self.hear(element);
                        }
                    }
                    Err(why) => self.fault = Some(why),
                },
            }
        }
        let is_written = self.link.as_mut().is_some_and(Link::flush);
        if !is_open || !is_written {
            self.over();
        }
        let waits = !matches!(self.errand, Errand::Read) || self.phase != Phase::Ready;
        if waits && now.saturating_duration_since(self.since) > PATIENCE {
            self.ends(End::Late);
        }
    }

    fn ends(&mut self, how: End) {
        self.end.get_or_insert(how);
        self.link = None;
    }

    /// Its link is over.
    fn over(&mut self) {
        let is_done = match self.errand {
            Errand::Write(_) => self.phase == Phase::Closing,
            Errand::Crash => self.phase == Phase::Ready,
            Errand::Read => false,
        };
        self.ends(if is_done { End::Done } else { End::Lost });
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

    fn acknowledge(&mut self) {
        let h = self.received;
        self.tell(&format!("<a xmlns='{NS_SM}' h='{h}'/>"));
    }

    fn begin(&mut self) {
        self.phase = Phase::Ready;
        match self.errand.clone() {
            Errand::Write(stanzas) => {
                self.tell(&stanzas.concat());
                self.tell(&format!("<r xmlns='{NS_SM}'/>"));
            }
            Errand::Crash => self.tell(&format!(
                "<message to='nobody@{DOMAIN}'><body>{SECRET}</body></message>"
            )),
            Errand::Read => self.tell("<presence/>"),
        }
    }

    /// Reads its whole archive, unless it does already.
    pub(super) fn read_archive(&mut self) {
        if self.pages.is_none() {
            self.pages = Some(Vec::new());
            self.ask_page("");
        }
    }

    fn ask_page(&mut self, after: &str) {
        self.tell(&format!(
            "<iq type='set' id='archive'><query xmlns='{NS_MAM}'><set xmlns='{NS_RSM}'>\
             <max>{PAGE}</max>{after}</set></query></iq>"
        ));
    }
}
