//! The durable state of a room: what its records make of it, and the records that make it. It
//! knows nobody who is there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;

use stdx::Timestamp;
use xml::Frame;
use xml::build::Writer;
use xmpp::{addr, ns};

use crate::affiliation::Affiliation;
use crate::card::Card;
use crate::config::Config;
use crate::hats::Hats;
use crate::limits::RoomLimits;
use crate::nick;
use crate::record::{Affiliated, Listed, Message, Record, Subject};

/// What is durable of a room.
#[derive(Clone, Debug)]
pub struct State {
    /// When it was made.
    pub created: Timestamp,
    /// What occupant ids are made with.
    pub secret: [u8; 16],
    /// Only its creator may be there until it is configured (XEP-0045 section 10.1.3).
    pub is_locked: bool,
    /// How the room behaves.
    pub config: Config,
    /// Managed sessions (XEP-0198) are in it.
    pub is_followed: bool,
    /// By address.
    affiliations: BTreeMap<String, Entry>,
    /// Bytes of their texts.
    affiliation_bytes: usize,
    /// Who reserved a nick, by the nick's key.
    reserved: BTreeMap<String, String>,
    /// The subject, if one was set.
    pub subject: Option<Subject>,
    /// The latest messages, the oldest first.
    pub history: VecDeque<Kept>,
    history_bytes: usize,
    /// The place of the next message.
    pub next_seq: u64,
    /// What the room calls some of those who are in it.
    pub hats: Hats,
    /// What it shows of itself.
    pub card: Card,
    /// Behind this place, what is said is owed to members whose homes may not know it yet.
    pub owed: Option<u64>,
    /// No message has a place below it.
    pub(crate) first_seq: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    affiliation: Affiliation,
    nick: Option<String>,
    reason: Option<String>,
}

/// A message for those who enter.
#[derive(Clone, Debug)]
pub struct Kept {
    /// As it is in the log.
    pub message: Message,
    /// As they are sent it; made for the first of them.
    frame: OnceLock<Option<Frame>>,
}

impl Kept {
    /// As those who enter are sent it, with its time, without `to`. `None` if the stored message is
    /// damaged.
    pub(crate) fn frame(&self, room: &str) -> Option<&Frame> {
        let make = || delayed(&self.message.xml, self.message.at, room);
        self.frame.get_or_init(make).as_ref()
    }
}

impl State {
    /// The state that records make, in their order; `None` if there is no room.
    pub fn of(records: impl IntoIterator<Item = Record>, limits: &RoomLimits) -> Option<State> {
        let mut state = None;
        for record in records {
            apply(&mut state, record, limits);
        }
        state
    }

    fn new(at: i64, secret: [u8; 16], first: u64) -> State {
        State {
            created: Timestamp::from_millis(at),
            secret,
            is_locked: true,
            config: Config::default(),
            is_followed: false,
            affiliations: BTreeMap::new(),
            affiliation_bytes: 0,
            reserved: BTreeMap::new(),
            subject: None,
            history: VecDeque::new(),
            history_bytes: 0,
            next_seq: first.max(1),
            hats: Hats::default(),
            card: Card::default(),
            owed: None,
            first_seq: first.max(1),
        }
    }

    /// Whether the room is in the store: it is persistent, or managed sessions would lose it with
    /// the process.
    pub fn is_durable(&self) -> bool {
        self.config.is_persistent || self.is_followed
    }

    /// What a list of rooms says about it. Of a room that its creator has not configured yet others
    /// know nothing.
    pub fn listed(&self) -> Listed {
        Listed::of(&self.config, self.is_locked)
    }

    /// Whether [`State::listed`] is this, without making it.
    pub fn is_listed_as(&self, listed: &Listed) -> bool {
        listed.is_of(&self.config, self.is_locked)
    }

    /// The affiliation of a bare address; a ban of its domain holds for it (section 9.2).
    pub fn affiliation(&self, bare: &str) -> Affiliation {
        match self.affiliations.get(bare) {
            Some(entry) => entry.affiliation,
            None => {
                let domain = self.affiliations.get(addr::split(bare).domain);
                let is_banned = domain.is_some_and(|e| e.affiliation == Affiliation::Outcast);
                if is_banned {
                    Affiliation::Outcast
                } else {
                    Affiliation::None
                }
            }
        }
    }

    /// Whether an account that is not in the room may know what goes on there: who could enter
    /// without saying a password, and owners, who are shown it.
    pub fn may_follow(&self, bare: &str) -> bool {
        match self.affiliation(bare) {
            Affiliation::Outcast => false,
            Affiliation::Owner => true,
            _ if !self.config.password.is_empty() => false,
            affiliation => affiliation >= Affiliation::Member || !self.config.is_members_only,
        }
    }

    /// What is kept of an address.
    pub fn affiliated(&self, address: &str) -> Option<Affiliated> {
        let entry = self.affiliations.get(address)?;
        Some(affiliated(address, entry))
    }

    /// Everybody of an affiliation, by address.
    pub fn list(&self, affiliation: Affiliation) -> impl Iterator<Item = Affiliated> {
        let all = self.affiliations.iter();
        let of_it = all.filter(move |(_, entry)| entry.affiliation == affiliation);
        of_it.map(|(address, entry)| affiliated(address, entry))
    }

    /// How many addresses have an affiliation.
    pub fn affiliations(&self) -> usize {
        self.affiliations.len()
    }

    /// Whether affiliations are within their bounds after some changes, of different addresses.
    /// What makes them fewer is always possible.
    pub(crate) fn has_room_for<'a>(
        &self,
        changes: impl IntoIterator<Item = &'a Affiliated>,
        limits: &RoomLimits,
    ) -> bool {
        let before = (self.affiliations.len(), self.affiliation_bytes);
        let (mut count, mut bytes) = before;
        let (mut count_less, mut bytes_less) = (0, 0);
        for new in changes {
            if new.affiliation != Affiliation::None {
                (count, bytes) = (count + 1, bytes + new.bytes());
            }
            if let Some(old) = self.affiliated(&new.address) {
                (count_less, bytes_less) = (count_less + 1, bytes_less + old.bytes());
            }
        }
        let (count, bytes) = (count - count_less, bytes - bytes_less);
        (count <= before.0 || count <= limits.affiliations_max)
            && (bytes <= before.1 || bytes <= limits.affiliation_bytes_max)
    }

    /// Who reserved this nick (section 7.12).
    pub fn reserved_by(&self, nick: &str) -> Option<&str> {
        self.reserved.get(&*nick::key(nick)).map(String::as_str)
    }

    /// The nick that an address reserved.
    pub fn reserved_nick(&self, bare: &str) -> Option<&str> {
        self.affiliations.get(bare)?.nick.as_deref()
    }

    /// The records that make this state out of nothing.
    pub fn snapshot(&self) -> Vec<Record> {
        let first = self
            .history
            .front()
            .map_or(self.next_seq, |kept| kept.message.seq);
        let mut records = vec![
            Record::Created {
                at: self.created.as_millis(),
                secret: self.secret,
                first,
            },
            Record::Configured(Box::new(self.config.clone())),
        ];
        if !self.is_locked {
            records.push(Record::Unlocked);
        }
        if self.is_followed {
            records.push(Record::Followed(true));
        }
        let all = self.affiliations.iter();
        records.extend(all.map(|(address, entry)| Record::Affiliated(affiliated(address, entry))));
        records.extend(self.subject.clone().map(Record::Subject));
        if !self.hats.is_empty() {
            records.push(Record::Hats(Box::new(self.hats.clone())));
        }
        if !self.card.xml.is_empty() {
            records.push(Record::Card(Box::new(self.card.clone())));
        }
        let history = self
            .history
            .iter()
            .map(|kept| Record::Message(kept.message.clone()));
        records.extend(history);
        records
    }

    fn affiliate(&mut self, new: Affiliated) {
        self.affiliation_bytes -= self.affiliated(&new.address).map_or(0, |old| old.bytes());
        if new.affiliation != Affiliation::None {
            self.affiliation_bytes += new.bytes();
        }
        let Affiliated {
            address,
            affiliation,
            nick,
            reason,
        } = new;
        let old = self.affiliations.remove(&address);
        if let Some(nick) = old.and_then(|old| old.nick) {
            self.reserved.remove(&*nick::key(&nick));
        }
        if affiliation == Affiliation::None {
            return;
        }
        if let Some(nick) = &nick {
            self.reserved
                .insert(nick::key(nick).into_owned(), address.clone());
        }
        self.affiliations.insert(
            address,
            Entry {
                affiliation,
                nick,
                reason,
            },
        );
    }

    fn keep(&mut self, message: Message, limits: &RoomLimits) {
        self.next_seq = self.next_seq.max(message.seq + 1);
        self.history_bytes += message.xml.len();
        self.history.push_back(Kept {
            message,
            frame: OnceLock::new(),
        });
        self.trim(limits);
    }

    /// A message of the history, by its place.
    pub(crate) fn kept(&self, seq: u64) -> Option<&Message> {
        let at = self.position(seq)?;
        self.history.get(at).map(|kept| &kept.message)
    }

    fn position(&self, seq: u64) -> Option<usize> {
        let history = &self.history;
        history
            .binary_search_by_key(&seq, |kept| kept.message.seq)
            .ok()
    }

    fn retract(&mut self, seq: u64, xml: Vec<u8>, limits: &RoomLimits) {
        let at = self.position(seq);
        if let Some(kept) = at.and_then(|at| self.history.get_mut(at)) {
            self.history_bytes = self.history_bytes + xml.len() - kept.message.xml.len();
            kept.message.xml = xml;
            kept.frame = OnceLock::new();
            self.trim(limits);
        }
    }

    fn trim(&mut self, limits: &RoomLimits) {
        let count_max = usize::from(self.config.history_length.min(limits.history_max));
        while self.history.len() > count_max || self.history_bytes > limits.history_bytes_max {
            match self.history.pop_front() {
                Some(oldest) => self.history_bytes -= oldest.message.xml.len(),
                None => break,
            }
        }
    }
}

fn affiliated(address: &str, entry: &Entry) -> Affiliated {
    Affiliated {
        address: address.to_owned(),
        affiliation: entry.affiliation,
        nick: entry.nick.clone(),
        reason: entry.reason.clone(),
    }
}

/// What a record makes of a room. One that concerns a room that is not there changes nothing.
pub(crate) fn apply(state: &mut Option<State>, record: Record, limits: &RoomLimits) {
    match (record, state.as_mut()) {
        (Record::Created { at, secret, first }, _) => *state = Some(State::new(at, secret, first)),
        (Record::Destroyed, _) => *state = None,
        (_, None) => {}
        (Record::Configured(config), Some(state)) => {
            state.config = *config;
            state.trim(limits);
        }
        (Record::Unlocked, Some(state)) => state.is_locked = false,
        (Record::Followed(on), Some(state)) => state.is_followed = on,
        (Record::Affiliated(new), Some(state)) => state.affiliate(new),
        (Record::Subject(subject), Some(state)) => state.subject = Some(subject),
        (Record::Message(message), Some(state)) => state.keep(message, limits),
        (Record::Hats(hats), Some(state)) => state.hats = *hats,
        (Record::Card(card), Some(state)) => state.card = *card,
        (Record::Owed(since), Some(state)) => state.owed = Some(since),
        (Record::Retracted { seq, xml }, Some(state)) => state.retract(seq, xml, limits),
    }
}

/// A message of the log as somebody is sent it who was not there at the time, without `to`. `None`
/// if it is damaged.
pub fn late(xml: &[u8], at: Timestamp, room: &str) -> Option<Frame> {
    delayed(xml, at.as_millis(), room)
}

/// The message with the time at which the room got it (section 7.2.13); the room is named as the
/// one that delayed it, never the sender's real address.
pub(crate) fn delayed(xml: &[u8], at: i64, room: &str) -> Option<Frame> {
    let frame = Frame::parse(xml).ok()?;
    let mut delay = Vec::new();
    Writer::new(&mut delay)
        .open("delay")
        .attr("xmlns", ns::DELAY)
        .attr("from", room)
        .attr("stamp", &Timestamp::from_millis(at).to_string())
        .close();
    Some(frame.edit().append_child(&delay).finish())
}
