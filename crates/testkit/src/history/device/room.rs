//! A device in a room (XEP-0045): the first one makes it, and every device with stream management
//! is in it, so that it is told once and in one order what everybody says there (docs/rooms.md). In
//! some seeds a user is its member and never enters: his one device is told the same.

use super::super::reader::Element;
use super::super::record::{Fate, Said};
use super::{DOMAIN, Device, Phase, Shared, listed, one_line};
use crate::tree::NS_CLIENT;
use std::collections::{BTreeSet, VecDeque};

/// The room of all.
pub(super) const ROOM: &str = "all@conference.localhost";
/// The device that makes it.
const MAKER: usize = 0;
const NS_MUC: &str = "http://jabber.org/protocol/muc";
const NS_USER: &str = "http://jabber.org/protocol/muc#user";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Out,
    Entering,
    In,
}

/// What a device knows of the room.
#[derive(Default)]
pub(super) struct Room {
    pub(super) state: State,
    /// Who it was told is there.
    pub(super) there: BTreeSet<String>,
    /// What it is going to say.
    outbox: VecDeque<usize>,
    is_configuring: bool,
    is_adding: bool,
}

impl Device {
    fn nick(&self) -> String {
        self.name.replace('/', "-")
    }

    /// Whether it is in the room, or tries to be.
    pub(in super::super) fn has_room(&self, shared: &Shared<'_>) -> bool {
        let is_absent = shared.absent == Some(self.plan.user);
        shared.has_room && self.plan.is_managed && !is_absent
    }

    /// Nothing of the room is open for it.
    pub(super) fn is_settled_in_room(&self) -> bool {
        self.room.outbox.is_empty()
    }

    /// Messages that it has not said to all yet.
    pub(super) fn to_say(&self) -> usize {
        self.room.outbox.len()
    }

    /// Whether it is in the room, and with whom.
    pub(in super::super) fn in_room(&self) -> Option<&BTreeSet<String>> {
        (self.room.state == State::In).then_some(&self.room.there)
    }

    /// A session begins: it is nowhere.
    pub(super) fn leave_room(&mut self, shared: &mut Shared<'_>) {
        self.room.state = State::Out;
        self.room.there.clear();
        self.room.is_configuring = false;
        self.room.is_adding = false;
        if let Some(session) = &self.session {
            shared.history.chains[session.chain].heard.push(Vec::new());
        }
    }

    /// Enters if it is not there and may be, and makes the room what it has to be.
    pub(in super::super) fn enter(&mut self, shared: &mut Shared<'_>) {
        if !self.has_room(shared) || !self.is_ready() {
            return;
        }
        let may_enter = self.number == MAKER || shared.history.has_room;
        match self.room.state {
            State::Out if may_enter => {
                self.room.state = State::Entering;
                let nick = self.nick();
                let xml = format!(
                    "<presence to='{ROOM}/{nick}'><x xmlns='{NS_MUC}'>\
                     <history maxstanzas='0'/></x></presence>"
                );
                shared.history.note(&self.name, "enters the room");
                self.send(xml, None, shared);
            }
            State::In if !shared.history.has_room && !self.room.is_configuring => {
                self.room.is_configuring = true;
                let delivers = u8::from(shared.absent.is_some());
                let form = format!(
                    "<field var='FORM_TYPE'>\
                     <value>http://jabber.org/protocol/muc#roomconfig</value></field>\
                     <field var='muc#roomconfig_persistentroom'><value>1</value></field>\
                     <field var='x-roomconfig_delivertomembers'><value>{delivers}</value></field>"
                );
                let xml = format!(
                    "<iq type='set' id='room' to='{ROOM}'><query xmlns='{NS_MUC}#owner'>\
                     <x xmlns='jabber:x:data' type='submit'>{form}</x></query></iq>"
                );
                self.send(xml, None, shared);
            }
            State::In => self.add_member(shared),
            State::Out | State::Entering => {}
        }
    }

    /// Makes somebody a member who does not enter, if the seed has one.
    fn add_member(&mut self, shared: &mut Shared<'_>) {
        let Some(user) = shared.absent else { return };
        let is_done = shared.history.member_since.is_some() || self.room.is_adding;
        if self.number != MAKER || !shared.history.has_room || is_done {
            return;
        }
        self.room.is_adding = true;
        let xml = format!(
            "<iq type='set' id='member' to='{ROOM}'><query xmlns='{NS_MUC}#admin'>\
             <item jid='u{user}@{DOMAIN}' affiliation='member'/></query></iq>"
        );
        self.send(xml, None, shared);
    }

    /// Somebody became a member, or could not be made one.
    pub(super) fn has_member(&mut self, element: Element<'_>, shared: &mut Shared<'_>) {
        self.room.is_adding = false;
        if element.attr("type") == Some("result") {
            let next = shared.history.said.len();
            shared.history.note(
                &self.name,
                format_args!("has made a member, from r{next} on"),
            );
            shared.history.member_since.get_or_insert(next);
        }
    }

    /// It has waited for long. What the room said may be lost, behind a commit, with the actor of
    /// its account (docs/decisions/0136): it asks again, or enters again, as clients do.
    pub(in super::super) fn waits_no_longer(&mut self) {
        self.ask_for_the_room_again();
        if self.room.state == State::Entering {
            self.room.state = State::Out;
        }
    }

    /// Its session goes on. An answer that was on its way may have been lost with the server: what
    /// was asked for is asked for again, which changes nothing if it was done.
    pub(super) fn ask_for_the_room_again(&mut self) {
        self.room.is_configuring = false;
        self.room.is_adding = false;
    }

    /// These are sent again. A session whose end could not be recorded, after all others were told
    /// of it, can be resumed: the room has put it out then, and its presence enters it anew.
    pub(super) fn may_enter_again(&self, again: &[String], shared: &mut Shared<'_>) {
        let enters = format!("<presence to='{ROOM}/");
        if let Some(session) = &self.session
            && !shared.stays_in_room
            && again.iter().any(|xml| xml.starts_with(&enters))
        {
            shared.history.chains[session.chain].heard.push(Vec::new());
        }
    }

    /// The room was configured, or could not be.
    pub(super) fn configured(&mut self, element: Element<'_>, shared: &mut Shared<'_>) {
        self.room.is_configuring = false;
        if element.attr("type") == Some("result") {
            shared.history.has_room = true;
        }
    }

    /// Has something to say to all.
    pub(in super::super) fn say_to_all(&mut self, shared: &mut Shared<'_>) {
        if !self.has_room(shared) || self.room.outbox.len() >= super::OUTBOX_MAX {
            return;
        }
        let number = shared.history.said.len();
        shared.history.said.push(Said {
            device: self.number,
            fate: Fate::Unknown,
        });
        self.room.outbox.push_back(number);
    }

    /// Says what waits, once it may.
    pub(super) fn speak(&mut self, shared: &mut Shared<'_>) {
        let may_speak = self.room.state == State::In && shared.history.has_room;
        if !may_speak || self.phase != Phase::Ready || self.room.outbox.is_empty() {
            return;
        }
        let said: Vec<usize> = self.room.outbox.drain(..).collect();
        for number in &said {
            let xml = format!(
                "<message type='groupchat' id='r{number}' to='{ROOM}'>\
                 <body>r{number} all</body></message>"
            );
            self.send_said(xml, *number, shared);
        }
        let all = listed(&said);
        shared
            .history
            .note(&self.name, format_args!("says {all} to all"));
    }

    /// Presence of the room. False if it is somebody else's.
    pub(super) fn room_presence(&mut self, element: Element<'_>, shared: &mut Shared<'_>) -> bool {
        let from = element.attr("from").and_then(|from| from.split_once('/'));
        let Some((ROOM, nick)) = from else {
            return false;
        };
        let kind = element.attr("type");
        if kind == Some("error") {
            shared.history.note(
                &self.name,
                format_args!("does not enter: {}", one_line(element)),
            );
            // One that asked again, because the answer was late, may be in the room by now. It does
            // not know: what it hears until it is told so again is not noted.
            let was_in = std::mem::replace(&mut self.room.state, State::Out) == State::In;
            if let Some(session) = self.session.as_ref().filter(|_| was_in) {
                shared.history.chains[session.chain].heard.push(Vec::new());
            }
            return true;
        }
        let x = element.child(NS_USER, "x");
        let has = |code: &str| {
            x.is_some_and(|x| {
                let mut children = x.children();
                children.any(|child| child.name() == "status" && child.attr("code") == Some(code))
            })
        };
        let (is_own, is_gone) = (has("110"), kind == Some("unavailable"));
        shared.history.note(
            &self.name,
            format_args!(
                "is told that {nick} is {}",
                if is_gone { "gone" } else { "there" }
            ),
        );
        match is_gone {
            true => self.room.there.remove(nick),
            false => self.room.there.insert(nick.to_owned()),
        };
        match (is_own, is_gone) {
            (true, true) => {
                self.is_put_out(shared);
                self.leave_room(shared);
            }
            (true, false) => self.room.state = State::In,
            (false, _) => {}
        }
        true
    }

    /// Nobody ever leaves, or is kicked: who was told that he is there, is there for as long as
    /// his session goes on. Where commits may stay in doubt, nobody may know whether he is.
    fn is_put_out(&self, shared: &mut Shared<'_>) {
        if self.room.state == State::In && shared.stays_in_room {
            let text = format!("{} was put out of the room", self.name);
            shared.history.violation(text);
        }
    }

    /// A message of the room. False if it is something else.
    pub(super) fn room_message(&mut self, element: Element<'_>, shared: &mut Shared<'_>) -> bool {
        let from = element.attr("from").unwrap_or_default();
        if !from.starts_with(ROOM) {
            return false;
        }
        if element.attr("type") == Some("error") {
            let text = one_line(element);
            shared
                .history
                .note(&self.name, format_args!("gets an error: {text}"));
            let id = element.attr("id").and_then(|id| id.strip_prefix('r'));
            let number = id.and_then(|id| id.parse::<usize>().ok());
            if let Some(said) = number.and_then(|number| shared.history.said.get_mut(number)) {
                said.fate = match text.contains("may have been delivered") {
                    true => Fate::Doubtful,
                    false => Fate::Refused,
                };
            }
            return true;
        }
        let (Some(number), Some(session)) = (said(element), &self.session) else {
            // The subject, and what became of the configuration.
            return element.child(super::NS_MAM, "result").is_none();
        };
        shared
            .history
            .note(&self.name, format_args!("hears r{number}"));
        shared.heard.message = true;
        // The maker's account owns the room, and is given what it misses of it outside: others of
        // its devices may be inside meanwhile, so that there are gaps.
        let is_absent = shared.absent == Some(self.plan.user);
        if self.room.state != State::In && !is_absent {
            return true;
        }
        let life = shared.history.life_of(self.plan.user);
        let chain = &mut shared.history.chains[session.chain];
        chain.heard_at.push(life);
        let heard = &mut chain.heard;
        match heard.last_mut() {
            Some(heard) => heard.push(number),
            None => heard.push(vec![number]),
        }
        true
    }
}

/// The number of what somebody said to all, which is the first word of its body.
pub(super) fn said(message: Element<'_>) -> Option<usize> {
    let body = message.child(NS_CLIENT, "body")?.text();
    body.split(' ').next()?.strip_prefix('r')?.parse().ok()
}
