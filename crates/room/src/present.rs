//! Who is there, as far as it is durable (docs/rooms.md): in a room with managed sessions
//! (XEP-0198) these, and whoever their clients were told of. After a restart managed
//! sessions are still there, until their homes say otherwise; of everybody else who was, and of
//! those who left while a client may not have heard of it, it is remembered that they are gone. A
//! client that comes back is told of both.
//!
//! | room | what is kept |
//! |---|---|
//! | without managed sessions, for a while if it is persistent | nothing |
//! | other | each occupant who has a managed session or is announced; for a while those who left |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use stdx::Timestamp;
use xml::Frame;
use xml::build::Writer;
use xmpp::addr;
use xmpp::error::{Condition, StanzaError};

use crate::affiliation::{Affiliation, Role};
use crate::broadcast::{NS_USER, Tell};
use crate::nick;
use crate::occupants::{Key, Managed, Occupant, Session};
use crate::record::{Record, RecordError, decode};
use crate::room::{Effect, Room};
use crate::state::State;

/// An occupant, or one who was there, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Present {
    /// His nick.
    pub nick: String,
    /// When he left, in milliseconds since 1970; `None` while he is there.
    pub gone: Option<i64>,
    /// His role.
    pub role: Role,
    /// Others were told of him.
    pub is_announced: bool,
    /// His sessions, the one that is shown first; never empty.
    pub sessions: Vec<PresentSession>,
}

/// One session of an occupant, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentSession {
    /// The real full address.
    pub address: String,
    /// If it may outlive its connection (XEP-0198), its number at its home.
    pub managed: Option<u32>,
    /// What was said up to this place of the log was said before it entered.
    pub since: u64,
    /// Its last presence, without addresses.
    pub presence: Vec<u8>,
}

impl Present {
    /// Bytes for a store: a version byte, then postcard.
    pub fn encode(&self) -> Vec<u8> {
        // Invariant: as in `Record::encode`.
        postcard::to_extend(self, vec![crate::RECORD_VERSION]).expect("it is written to memory")
    }

    /// The inverse of [`Present::encode`].
    ///
    /// # Errors
    /// As [`crate::Record::decode`].
    pub fn decode(bytes: &[u8]) -> Result<Present, RecordError> {
        decode(bytes)
    }
}

/// What is remembered of one who is kept.
#[derive(Clone, Debug)]
struct Trace {
    nick: Arc<str>,
    address: Arc<str>,
    is_announced: bool,
    gone: Option<i64>,
}

/// What of those who are there, or were, is kept.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// By the nick's key.
    by_nick: BTreeMap<String, Trace>,
    /// Those of them who are gone, in the order in which they left.
    gone: VecDeque<(i64, String)>,
    /// Managed sessions whose homes have not said that they are there: those of an earlier life,
    /// and those that are in doubt.
    unconfirmed: BTreeSet<Arc<str>>,
    /// Since when there is no managed session, in milliseconds since 1970.
    unmanaged_since: Option<i64>,
    /// How often something was to be kept ([`Effect::Keep`]), and how often that was done.
    keeps: (u32, u32),
}

impl Room {
    pub(crate) fn is_durable(&self) -> bool {
        self.state.as_ref().is_some_and(State::is_durable)
    }

    /// A temporary room is in the store for as long as managed sessions are in it, and no longer:
    /// the first of them enters behind the commit that brings it there. That it goes is tried again
    /// with the next event if it is refused.
    pub(crate) fn unfollow(&mut self, now: Timestamp) {
        let is_followed = self.state.as_ref().is_some_and(|state| state.is_followed);
        // One such change is under way at a time.
        if !is_followed || self.occupants.managed() > 0 || self.is_busy() {
            return;
        }
        if self.occupants.len() == 0 {
            self.end_if_empty();
            if self.state.is_none() {
                return;
            }
        }
        let decision = self.empty.clone();
        let records = vec![Record::Followed(false)];
        self.commit(records, &decision, now, |_, _| ());
    }

    /// What has to be kept of what has happened, in front of whatever leaves.
    pub(crate) fn keep(&mut self, now: Timestamp) {
        if self.ending.is_some() {
            return; // That may be refused; otherwise it all goes.
        }
        let keeps = self.is_durable() && self.occupants.managed() > 0;
        match (self.occupants.tracks, keeps) {
            (false, false) => return,
            (false, true) => self.begin_to_keep(),
            (true, false) if self.lingers(now) => {}
            (true, false) => return self.end_keeping(),
            (true, true) => self.traces.unmanaged_since = None,
        }
        let mut parts = Vec::new();
        for key in self.occupants.take_changed() {
            parts.extend(self.changed(key, now));
        }
        self.forget_gone(now, &mut parts);
        self.ask_to_keep(parts);
    }

    fn ask_to_keep(&mut self, parts: Vec<(String, Vec<u8>)>) {
        if !parts.is_empty() {
            self.traces.keeps.0 += 1;
            self.effects.insert(0, Effect::Keep(parts));
        }
    }

    /// The first [`Effect::Keep`] that was not done yet has been: all of its parts are durable.
    pub fn kept(&mut self) {
        self.traces.keeps.1 += 1;
    }

    /// Whether what is kept is kept on for a while: another managed session may come.
    fn lingers(&mut self, now: Timestamp) -> bool {
        let state = self.state.as_ref();
        let is_persistent = state.is_some_and(|state| state.config.is_persistent);
        if !is_persistent || self.occupants.len() == 0 {
            return false;
        }
        let since = self.traces.unmanaged_since.get_or_insert(now.as_millis());
        let since = now.as_millis().saturating_sub(*since);
        since < self.options.limits.unmanaged_for_ms
    }

    fn begin_to_keep(&mut self) {
        self.occupants.tracks = true;
        let all: Vec<Key> = self.occupants.iter().map(|(key, _)| key).collect();
        for key in all {
            let told = self.told;
            // That it is looked at says that it changed.
            let Some(occupant) = self.occupants.get_mut(key) else {
                continue;
            };
            let mut here = Vec::new();
            for session in &mut occupant.sessions {
                session.since = told;
                if let Some(number) = session.managed.number() {
                    here.push((Arc::clone(&session.address), number));
                }
            }
            for (address, number) in here {
                let since = Some(told);
                self.effects.push(Effect::Here {
                    address,
                    number,
                    since,
                    is_new: true,
                });
            }
        }
    }

    fn end_keeping(&mut self) {
        self.occupants.tracks = false;
        self.occupants.take_changed();
        let traces = Traces {
            keeps: self.traces.keeps,
            ..Traces::default()
        };
        let traces = std::mem::replace(&mut self.traces, traces);
        if self.is_durable() {
            let parts = traces.by_nick.into_keys().map(|key| (key, Vec::new()));
            return self.ask_to_keep(parts.collect());
        }
        // What is said from now on is in no log.
        let sessions = self.occupants.iter().flat_map(|(_, o)| &o.sessions);
        let managed = sessions.filter_map(|session| {
            let address = Arc::clone(&session.address);
            Some((address, session.managed.number()?))
        });
        let no_more = managed.map(|(address, number)| Effect::Here {
            address,
            number,
            since: None,
            is_new: false,
        });
        self.effects.extend(no_more.collect::<Vec<_>>());
    }

    /// The part of a nick at which something has changed, if it is kept.
    fn changed(&mut self, key: String, now: Timestamp) -> Option<(String, Vec<u8>)> {
        let there = self.occupants.by_nick(&key);
        let there = there.and_then(|there| self.occupants.get(there));
        if let Some(occupant) = there.filter(|occupant| is_kept(occupant)) {
            let trace = Trace {
                nick: Arc::clone(&occupant.nick),
                address: Arc::clone(&occupant.sessions[0].address),
                is_announced: occupant.is_announced,
                gone: None,
            };
            let value = present(occupant).encode();
            self.traces.by_nick.insert(key.clone(), trace);
            let next = self.traces.keeps.0 + 1;
            self.occupants.is_kept_by(&key, next);
            return Some((key, value));
        }
        let trace = self.traces.by_nick.get_mut(&key)?;
        if trace.gone.is_some() {
            return None;
        }
        if !trace.is_announced {
            self.traces.by_nick.remove(&key);
            return Some((key, Vec::new()));
        }
        trace.gone = Some(now.as_millis());
        let value = gone(trace).encode();
        self.traces.gone.push_back((now.as_millis(), key.clone()));
        Some((key, value))
    }

    /// Those who have been gone for long enough, or are too many.
    fn forget_gone(&mut self, now: Timestamp, parts: &mut Vec<(String, Vec<u8>)>) {
        let limits = &self.options.limits;
        let before = now.as_millis().saturating_sub(limits.gone_for_ms);
        while let Some((at, key)) = self.traces.gone.front() {
            if *at >= before && self.traces.gone.len() <= limits.gone_max {
                break;
            }
            let is_it = |trace: &Trace| trace.gone == Some(*at);
            if self.traces.by_nick.get(key).is_some_and(is_it) {
                self.traces.by_nick.remove(key);
                parts.retain(|(own, _)| own != key);
                parts.push((key.clone(), Vec::new()));
            }
            self.traces.gone.pop_front();
        }
    }

    /// Those who are not kept are told that they are not there any more.
    pub(crate) fn leave_behind(&mut self, tell: &Tell) {
        let all = self.occupants.iter().flat_map(|(key, occupant)| {
            let sessions = occupant.sessions.iter();
            sessions.map(move |session| (key, session))
        });
        let unmanaged = all.filter(|(_, session)| session.managed.number().is_none());
        let unmanaged = unmanaged.map(|(key, session)| (key, Arc::clone(&session.address)));
        let tell = Tell {
            is_unavailable: true,
            ..tell.clone()
        };
        for (key, address) in unmanaged.collect::<Vec<_>>() {
            self.tell_session(key, &address, &tell);
        }
    }

    /// Managed sessions of which nobody knows whether it is durable that they are there, or are
    /// not, are told that they are not. One that was kept under its nick is there, whatever became
    /// of what was to be kept since.
    pub(crate) fn leave_unsure(&mut self, unsure: &[String]) {
        let mut told: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
        let done = self.traces.keeps.1;
        let is_certain = |session: &Session| session.kept <= done;
        for key in unsure {
            if let Some(trace) = self.traces.by_nick.get(key)
                && !self.session_at(&trace.address).is_some_and(is_certain)
            {
                let nick = Arc::clone(&trace.nick);
                told.insert(Arc::clone(&trace.address), nick);
            }
        }
        // The nick that somebody has now goes before one that he had.
        for key in unsure {
            let there = self.occupants.by_nick(key);
            let Some(occupant) = there.and_then(|there| self.occupants.get(there)) else {
                continue;
            };
            let sessions = occupant.sessions.iter();
            let managed = sessions.filter(|session| session.managed.number().is_some());
            for session in managed.filter(|session| !is_certain(session)) {
                told.insert(Arc::clone(&session.address), Arc::clone(&occupant.nick));
            }
        }
        for (address, nick) in told {
            let number = self.managed_number(&address);
            self.tell_absent((&address, number), &nick);
        }
    }

    // === after a restart ===

    /// Takes up who was there, of an earlier life of this room: managed sessions are there, others
    /// have left. To be called before anything is handled.
    pub fn recover(&mut self, kept: Vec<Present>, now: Timestamp) {
        self.occupants.tracks = !kept.is_empty();
        let (mut shorter, mut lost) = (Vec::new(), Vec::new());
        for mut present in kept {
            let key = nick::key(&present.nick).into_owned();
            let Some(first) = present.sessions.first() else {
                continue;
            };
            let trace = Trace {
                nick: present.nick.as_str().into(),
                address: first.address.as_str().into(),
                is_announced: present.is_announced,
                gone: present.gone,
            };
            self.traces.by_nick.insert(key.clone(), trace);
            if let Some(at) = present.gone {
                self.traces.gone.push_back((at, key));
                continue;
            }
            let sessions = present.sessions.len();
            present.sessions.retain(|session| session.managed.is_some());
            let stays = self.may_stay(&present);
            match stays {
                true if present.sessions.len() < sessions => shorter.push(key),
                true => {}
                false => lost.push(key),
            }
            if stays {
                self.put_back(present);
            }
        }
        self.traces.gone.make_contiguous().sort();
        self.occupants.take_changed();
        for key in shorter {
            self.occupants.has_changed(&key);
        }
        for key in lost {
            // As long as it is not written, he is lost anew with the next restart.
            let _ = self.changed(key, now);
        }
        // A temporary room is in the store while managed sessions are there. One without them could
        // not end.
        let is_temporary = |state: &State| !state.config.is_persistent;
        self.owes_end = self.occupants.len() == 0 && self.state.as_ref().is_some_and(is_temporary);
    }

    /// A change of affiliation may have been the last thing that was committed.
    fn may_stay(&self, present: &Present) -> bool {
        let (Some(state), Some(first)) = (&self.state, present.sessions.first()) else {
            return false;
        };
        let affiliation = state.affiliation(addr::bare_part(&first.address));
        let is_free = self.occupants.by_nick(&present.nick).is_none();
        let is_member = affiliation >= Affiliation::Member || !state.config.is_members_only;
        // Of a session that is under two nicks a change was not written: it is there once.
        let mut sessions = present.sessions.iter();
        let is_new = sessions.all(|one| self.occupants.by_address(&one.address).is_none());
        is_free && is_new && is_member && affiliation != Affiliation::Outcast
    }

    fn put_back(&mut self, present: Present) {
        let mut sessions: SmallVec<[Session; 1]> = SmallVec::new();
        for own in present.sessions {
            let presence = Frame::parse(own.presence).unwrap_or_else(|_| self.empty.clone());
            let presence = self.shared(presence);
            let address: Arc<str> = own.address.into();
            self.traces.unconfirmed.insert(Arc::clone(&address));
            let mut session = self.occupants.session(address, presence);
            session.managed = Managed::of(own.managed);
            session.since = own.since;
            session.kept = 0;
            sessions.push(session);
        }
        let bare = addr::bare_part(&sessions[0].address);
        let affiliation = self.affiliation_of(bare);
        let id = self.occupant_id(bare);
        self.occupants.insert(Occupant {
            nick: present.nick.into(),
            sessions,
            id,
            role: present.role,
            affiliation,
            is_announced: present.is_announced,
        });
    }

    /// Managed sessions of an earlier life, and others of which it is not certain that they are
    /// there, with their numbers. Their homes are to be asked: by [`crate::Event::Confirmed`] or
    /// [`crate::Event::Gone`] they say so.
    pub fn unconfirmed(&mut self) -> Vec<(Arc<str>, u32)> {
        let all = std::mem::take(&mut self.traces.unconfirmed).into_iter();
        let there = all.filter_map(|address| {
            let number = self.managed_number(&address)?;
            Some((address, number))
        });
        let there: Vec<(Arc<str>, u32)> = there.collect();
        let addresses = there.iter().map(|(address, _)| Arc::clone(address));
        self.traces.unconfirmed = addresses.collect();
        there
    }

    /// Where the home of a session says that it is there, or something comes from it.
    pub(crate) fn confirmed(&mut self, address: &str) {
        self.traces.unconfirmed.remove(address);
    }

    /// Whether the home of a managed session is being asked whether it is there, and nothing has
    /// come from that session since.
    pub fn is_unconfirmed(&self, address: &str) -> bool {
        self.traces.unconfirmed.contains(address)
    }

    /// The home of a session is to be asked once more: it has said that the session is not there,
    /// but that may be older than what has come from it.
    pub fn unconfirm(&mut self, address: &Arc<str>) {
        self.traces.unconfirmed.insert(Arc::clone(address));
    }

    // === sessions that have the same address, one after the other ===

    /// Whether the stanza that is handled is of an earlier session than the occupant: what waited
    /// for a home of the room may come behind what the next session of its address says. Numbers of
    /// an account's sessions grow.
    pub(crate) fn is_of_an_earlier_session(&self, from: &str) -> bool {
        let there = self.managed_number(from);
        self.managed.number().is_some_and(|own| Some(own) < there)
    }

    /// Presence of an earlier session does not let that in, and changes nothing of the later one.
    /// It alone hears so. An account that was removed and made anew counts from the beginning: of
    /// the occupant its home says then that it is not there, and who tries again is let in.
    pub(crate) fn refuse_earlier(&mut self, frame: &Frame, from: &str) {
        let error = StanzaError::new(Condition::ResourceConstraint)
            .with_text("Another session of this address is in the room; try again.");
        let reply = xmpp::error::reply(frame, &error).zip(self.managed.number());
        let tell = reply.map(|(frame, number)| Effect::Tell { frame, number });
        self.effects.extend(tell);
        self.doubt(from);
    }

    /// Something says that the managed session of an address is not there, and may be about another
    /// one: its home is asked, unless it is being asked.
    pub(crate) fn doubt(&mut self, from: &str) {
        if self.traces.unconfirmed.insert(from.into()) {
            self.effects.push(Effect::Ask);
        }
    }

    fn session_at(&self, full: &str) -> Option<&Session> {
        let occupant = self.occupants.get(self.occupants.by_address(full)?)?;
        let mut sessions = occupant.sessions.iter();
        sessions.find(|session| &*session.address == full)
    }

    /// The number of an occupant's managed session.
    pub fn managed_number(&self, full: &str) -> Option<u32> {
        self.session_at(full)?.managed.number()
    }

    /// What was said up to this place of the log was said before a session entered; 0 if it is not
    /// there.
    pub fn since(&self, full: &str) -> u64 {
        self.session_at(full).map_or(0, |session| session.since)
    }

    /// How many sessions are managed.
    pub fn managed(&self) -> usize {
        self.occupants.managed()
    }

    /// The last message that was sent to all: whoever enters now is owed what is behind it.
    pub fn told(&self) -> u64 {
        self.told
    }

    // === a client that comes back ===

    /// Whether a session is there that had entered before its stanzas were counted, and has not
    /// said so.
    pub(crate) fn is_there_uncounted(&self, address: &str) -> bool {
        let session = self.session_at(address);
        session.is_some_and(|session| session.managed.number().is_none())
    }

    /// A session whose client missed presence is told of everybody: of those who are gone, of those
    /// who are there, and of itself. One that is not there is told so.
    pub(crate) fn back(&mut self, address: &Arc<str>, (number, nick): (u32, &str), now: Timestamp) {
        let key = self.occupants.by_address(address);
        if let Some(key) = key.filter(|_| self.is_there_uncounted(address)) {
            let managed = Managed::of(Some(number));
            if self.must_be_followed(managed) {
                return self.back_once_followed(address, (number, nick), now);
            }
            self.is_there_as(key, address, managed);
        }
        let address: &str = address;
        let is_it = self.managed_number(address) == Some(number);
        let Some(key) = key.filter(|_| is_it) else {
            // It alone: the next session of its name may have entered.
            return self.tell_absent((address, Some(number)), nick);
        };
        self.confirmed(address);
        self.send_gone(address);
        self.send_list(key, address);
        let Some(occupant) = self.occupants.get(key) else {
            return;
        };
        let mut sessions = occupant.sessions.iter();
        let session = sessions.find(|session| &*session.address == address);
        if let (Some(session), true) = (session, self.is_durable()) {
            let here = Effect::Here {
                address: Arc::clone(&session.address),
                number,
                since: Some(session.since),
                is_new: false,
            };
            self.effects.push(here);
        }
        self.tell_session(key, address, &Tell::default());
        self.send_subject(address);
    }

    /// The same once the room is in the store.
    fn back_once_followed(
        &mut self,
        address: &Arc<str>,
        (number, nick): (u32, &str),
        now: Timestamp,
    ) {
        let (nobodys, address) = (self.empty.clone(), Arc::clone(address));
        let nick = nick.to_owned();
        let records = vec![Record::Followed(true)];
        self.commit(records, &nobodys, now, move |room, now| {
            room.back(&address, (number, &nick), now);
        });
    }

    fn send_gone(&mut self, to: &str) {
        let gone = self.traces.by_nick.values().filter(|t| t.gone.is_some());
        let frames = gone.filter_map(|trace| {
            let bare = addr::bare_part(&trace.address);
            let id = self.occupant_id(bare);
            let affiliation = self.affiliation_of(bare);
            self.unavailable_of(&trace.nick, (affiliation, Some(&id)), &[], to)
        });
        let frames: Vec<Effect> = frames.map(Effect::Deliver).collect();
        self.effects.extend(frames);
    }

    /// Somebody believes to be here, and is not (status 333: it was no decision of anybody). He is
    /// named with the number of his session, if that is known.
    fn tell_absent(&mut self, (to, number): (&str, Option<u32>), nick: &str) {
        let affiliation = self.affiliation_of(addr::bare_part(to));
        let frame = self.unavailable_of(nick, (affiliation, None), &[110, 333], to);
        let effect = frame.map(|frame| match number {
            Some(number) => Effect::Tell { frame, number },
            None => Effect::Deliver(frame),
        });
        self.effects.extend(effect);
    }

    fn unavailable_of(
        &self,
        nick: &str,
        (affiliation, id): (Affiliation, Option<&[u8; 16]>),
        codes: &[u16],
        to: &str,
    ) -> Option<Frame> {
        let mut bytes = Vec::with_capacity(256);
        let mut writer = Writer::new(&mut bytes);
        writer
            .open("presence")
            .attr("from", &format!("{}/{nick}", self.address))
            .attr("to", to)
            .attr("type", "unavailable");
        let mut inner = Vec::new();
        if let Some(id) = id {
            crate::broadcast::write_occupant_id(&mut inner, id);
        }
        writer.raw(&inner);
        writer.open("x").attr("xmlns", NS_USER).open("item");
        writer
            .attr("affiliation", affiliation.as_str())
            .attr("role", Role::None.as_str())
            .close();
        for code in codes {
            let code = code.to_string();
            writer.open("status").attr("code", &code).close();
        }
        writer.close().close();
        Frame::parse(bytes).ok()
    }
}

/// Whether somebody is kept: he may outlive his connection, or others were told of him.
fn is_kept(occupant: &Occupant) -> bool {
    let mut sessions = occupant.sessions.iter();
    occupant.is_announced || sessions.any(|session| session.managed.number().is_some())
}

fn present(occupant: &Occupant) -> Present {
    let sessions = occupant.sessions.iter().map(|session| PresentSession {
        address: session.address.to_string(),
        managed: session.managed.number(),
        since: session.since,
        presence: session.presence.as_bytes().to_vec(),
    });
    Present {
        nick: occupant.nick.to_string(),
        gone: None,
        role: occupant.role,
        is_announced: occupant.is_announced,
        sessions: sessions.collect(),
    }
}

fn gone(trace: &Trace) -> Present {
    let session = PresentSession {
        address: trace.address.to_string(),
        managed: None,
        since: 0,
        presence: Vec::new(),
    };
    Present {
        nick: trace.nick.to_string(),
        gone: trace.gone,
        role: Role::None,
        is_announced: trace.is_announced,
        sessions: vec![session],
    }
}
