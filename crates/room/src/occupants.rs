//! Who is in the room: occupants by nick, their sessions by real address. Owns the indexes, and no
//! rule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;
use xml::Frame;
use xmpp::addr;

use crate::affiliation::{Affiliation, Role};
use crate::nick;

/// Names an occupant while he is there.
pub(crate) type Key = u32;

/// Real full addresses that one frame goes to. A fan-out may keep it while others come and go.
pub type Audience = Arc<[Arc<str>]>;

/// One connection of an occupant.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// The real full address.
    pub(crate) address: Arc<str>,
    /// The last presence, without addresses and without what the room adds.
    pub(crate) presence: Frame,
    /// Never given out twice in the life of this machine.
    pub(crate) number: u32,
    /// Whether it may outlive its connection.
    pub(crate) managed: Managed,
    /// What was said up to this place of the room's log was said before it entered.
    pub(crate) since: u64,
    /// The first [`crate::Effect::Keep`] that says that it is under its nick ([`NOT_KEPT`]).
    pub(crate) kept: u32,
}

/// Nothing says yet that a session is under its nick. An earlier life of the room said so of those
/// with 0.
pub(crate) const NOT_KEPT: u32 = u32::MAX;

/// Whether a session may outlive its connection (XEP-0198), and its number at its home. Takes four
/// bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Managed(u32);

impl Managed {
    /// That of a session with a number.
    pub(crate) fn of(number: Option<u32>) -> Managed {
        Managed(number.map_or(0, |number| number.wrapping_add(1)))
    }

    pub(crate) fn number(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
}

/// Somebody in the room, under one nick.
#[derive(Clone, Debug)]
pub(crate) struct Occupant {
    pub(crate) nick: Arc<str>,
    /// Never empty. The first is the one whose presence is shown.
    pub(crate) sessions: SmallVec<[Session; 1]>,
    /// XEP-0421, in hexadecimal when it is written.
    pub(crate) id: [u8; 16],
    pub(crate) role: Role,
    pub(crate) affiliation: Affiliation,
    /// Others have been told of him, or will be as far as the configuration tells of his role.
    pub(crate) is_announced: bool,
}

impl Occupant {
    /// The real bare address.
    pub(crate) fn bare(&self) -> &str {
        addr::bare_part(&self.sessions[0].address)
    }

    /// The presence that others are shown.
    pub(crate) fn presence(&self) -> &Frame {
        &self.sessions[0].presence
    }

    /// Where all his sessions are.
    pub(crate) fn audience(&self) -> Audience {
        self.sessions
            .iter()
            .map(|session| Arc::clone(&session.address))
            .collect()
    }
}

/// Everybody.
#[derive(Debug, Default)]
pub(crate) struct Occupants {
    slots: Vec<Option<Occupant>>,
    free: Vec<Key>,
    by_address: BTreeMap<Arc<str>, Key>,
    by_nick: BTreeMap<Arc<str>, Key>,
    /// Those who are announced: whoever enters a large room is sent these, and nobody looks at the
    /// others.
    announced: BTreeSet<Key>,
    next_number: u32,
    everyone: Option<Audience>,
    /// Managed sessions of all.
    managed: usize,
    /// What changes is remembered.
    pub(crate) tracks: bool,
    /// Keys of nicks at which something has changed, while that is remembered.
    changed: BTreeSet<String>,
}

impl Occupants {
    /// Occupants, each nick once.
    pub(crate) fn len(&self) -> usize {
        self.by_nick.len()
    }

    /// Sessions of all occupants.
    pub(crate) fn sessions(&self) -> usize {
        self.by_address.len()
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Occupant> {
        self.slots.get(key as usize)?.as_ref()
    }

    /// He is about to change.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Occupant> {
        let occupant = self.slots.get_mut(key as usize)?.as_mut()?;
        if self.tracks {
            let key = nick::key(&occupant.nick).into_owned();
            self.changed.insert(key);
        }
        Some(occupant)
    }

    /// Managed sessions of all occupants.
    pub(crate) fn managed(&self) -> usize {
        self.managed
    }

    /// Something has changed at a nick.
    pub(crate) fn has_changed(&mut self, nick: &str) {
        if self.tracks {
            self.changed.insert(nick::key(nick).into_owned());
        }
    }

    /// The keys of nicks at which something has changed since this was asked last.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    /// Says whether a session may outlive its connection.
    pub(crate) fn set_managed(&mut self, key: Key, full: &str, managed: Managed) {
        let Some(occupant) = self.get_mut(key) else {
            return;
        };
        let mut sessions = occupant.sessions.iter_mut();
        if let Some(session) = sessions.find(|session| &*session.address == full) {
            let before = std::mem::replace(&mut session.managed, managed);
            if before != managed {
                session.kept = NOT_KEPT;
            }
            self.managed += usize::from(managed != Managed::default());
            self.managed -= usize::from(before != Managed::default());
        }
    }

    /// Says up to where what was said was said before a session entered.
    pub(crate) fn set_since(&mut self, key: Key, full: &str, since: u64) {
        let occupant = self.get_mut(key);
        let mut sessions = occupant.into_iter().flat_map(|own| &mut own.sessions);
        if let Some(session) = sessions.find(|session| &*session.address == full) {
            session.since = since;
        }
    }

    /// A part with all sessions of a nick is to be kept, as so many were before it.
    pub(crate) fn is_kept_by(&mut self, nick_key: &str, number: u32) {
        let Some(key) = self.by_nick.get(nick_key) else {
            return;
        };
        let occupant = self.slots.get_mut(*key as usize).and_then(Option::as_mut);
        let sessions = occupant.into_iter().flat_map(|own| &mut own.sessions);
        for session in sessions.filter(|session| session.kept == NOT_KEPT) {
            session.kept = number;
        }
    }

    /// All of them, in no order that means anything, but always the same.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Occupant)> {
        let all = self.slots.iter().enumerate();
        all.filter_map(|(key, slot)| Some((key as Key, slot.as_ref()?)))
    }

    /// Those who are announced.
    pub(crate) fn announced(&self) -> impl Iterator<Item = (Key, &Occupant)> {
        let all = self.announced.iter();
        all.filter_map(|key| Some((*key, self.get(*key)?)))
    }

    /// From now on others are told of an occupant.
    pub(crate) fn announce(&mut self, key: Key) {
        if let Some(occupant) = self.get_mut(key) {
            occupant.is_announced = true;
            self.announced.insert(key);
        }
    }

    /// Who has this session.
    pub(crate) fn by_address(&self, full: &str) -> Option<Key> {
        self.by_address.get(full).copied()
    }

    /// Who has this nick, in any spelling.
    pub(crate) fn by_nick(&self, nick: &str) -> Option<Key> {
        self.by_nick.get(&*nick::key(nick)).copied()
    }

    /// The occupants of a bare address, or of a domain.
    pub(crate) fn of(&self, bare: &str) -> Vec<Key> {
        let mut keys: Vec<Key> = if bare.contains('@') {
            let from: Arc<str> = format!("{bare}/").into();
            let with = |(address, _): &(&Arc<str>, &Key)| address.starts_with(&*from);
            let range = self.by_address.range(Arc::clone(&from)..).take_while(with);
            range.map(|(_, key)| *key).collect()
        } else {
            let is_of = |o: &Occupant| addr::split(o.bare()).domain == bare;
            self.iter()
                .filter(|(_, o)| is_of(o))
                .map(|(key, _)| key)
                .collect()
        };
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Adds an occupant with one session.
    pub(crate) fn insert(&mut self, occupant: Occupant) -> Key {
        let key = self.free.pop().unwrap_or(self.slots.len() as Key);
        self.has_changed(&occupant.nick);
        self.managed += managed_of(&occupant);
        if occupant.is_announced {
            self.announced.insert(key);
        }
        self.by_nick.insert(nick_key(&occupant.nick), key);
        for session in &occupant.sessions {
            self.by_address.insert(Arc::clone(&session.address), key);
        }
        if key as usize == self.slots.len() {
            self.slots.push(Some(occupant));
        } else {
            self.slots[key as usize] = Some(occupant);
        }
        self.everyone = None;
        key
    }

    /// A session with a number of its own.
    pub(crate) fn session(&mut self, address: Arc<str>, presence: Frame) -> Session {
        self.next_number = self.next_number.wrapping_add(1);
        Session {
            address,
            presence,
            number: self.next_number,
            managed: Managed::default(),
            since: 0,
            kept: NOT_KEPT,
        }
    }

    /// Adds a session to an occupant, behind those that he has.
    pub(crate) fn add_session(&mut self, key: Key, session: Session) {
        let address = Arc::clone(&session.address);
        let is_managed = session.managed != Managed::default();
        if let Some(occupant) = self.get_mut(key) {
            occupant.sessions.push(session);
            self.managed += usize::from(is_managed);
            self.by_address.insert(address, key);
            self.everyone = None;
        }
    }

    /// Takes one of several sessions from an occupant.
    pub(crate) fn remove_session(&mut self, key: Key, full: &str) -> Option<Session> {
        let occupant = self.get_mut(key)?;
        let at = occupant
            .sessions
            .iter()
            .position(|session| &*session.address == full)?;
        debug_assert!(
            occupant.sessions.len() > 1,
            "the last session goes with its occupant"
        );
        let session = occupant.sessions.remove(at);
        self.managed -= usize::from(session.managed != Managed::default());
        self.by_address.remove(full);
        self.everyone = None;
        Some(session)
    }

    /// Takes an occupant with all sessions.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Occupant> {
        let occupant = self.slots.get_mut(key as usize)?.take()?;
        self.has_changed(&occupant.nick);
        self.managed -= managed_of(&occupant);
        self.free.push(key);
        self.announced.remove(&key);
        self.by_nick.remove(&*nick::key(&occupant.nick));
        for session in &occupant.sessions {
            self.by_address.remove(&session.address);
        }
        self.everyone = None;
        Some(occupant)
    }

    /// Gives an occupant another nick, which nobody has.
    pub(crate) fn rename(&mut self, key: Key, nick: &str) {
        let new: Arc<str> = nick.into();
        let Some(occupant) = self.get_mut(key) else {
            return;
        };
        let old = std::mem::replace(&mut occupant.nick, Arc::clone(&new));
        for session in &mut occupant.sessions {
            session.kept = NOT_KEPT;
        }
        self.has_changed(&new);
        self.by_nick.remove(&*nick::key(&old));
        self.by_nick.insert(nick_key(&new), key);
    }

    /// Every session of everybody. Shared until somebody comes or goes.
    pub(crate) fn everyone(&mut self) -> Audience {
        if let Some(everyone) = &self.everyone {
            return Arc::clone(everyone);
        }
        let sessions = self
            .slots
            .iter()
            .flatten()
            .flat_map(|occupant| &occupant.sessions);
        let everyone: Audience = sessions
            .map(|session| Arc::clone(&session.address))
            .collect();
        self.everyone = Some(Arc::clone(&everyone));
        everyone
    }
}

fn managed_of(occupant: &Occupant) -> usize {
    let sessions = occupant.sessions.iter();
    sessions
        .filter(|session| session.managed != Managed::default())
        .count()
}

/// Appends the copy of a frame without `to` that goes to `to`: one splice behind the element's
/// name, which looks at nothing else.
pub fn write_copy(frame: &Frame, to: &str, out: &mut Vec<u8>) {
    let (bytes, name) = (frame.as_bytes(), frame.name_end());
    out.reserve(bytes.len() + to.len() + 8);
    out.extend_from_slice(&bytes[..name]);
    out.extend_from_slice(b" to='");
    xml::escape::attr(out, to);
    out.push(b'\'');
    out.extend_from_slice(&bytes[name..]);
}

/// A nick that is its own key is kept once.
fn nick_key(nick: &Arc<str>) -> Arc<str> {
    match nick::key(nick) {
        std::borrow::Cow::Borrowed(_) => Arc::clone(nick),
        std::borrow::Cow::Owned(key) => key.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occupant(all: &mut Occupants, nick: &str, address: &str) -> Key {
        let presence = Frame::parse("<presence/>").unwrap();
        let session = all.session(address.into(), presence);
        all.insert(Occupant {
            nick: nick.into(),
            sessions: [session].into_iter().collect(),
            id: [0; 16],
            role: Role::Participant,
            affiliation: Affiliation::None,
            is_announced: true,
        })
    }

    #[test]
    fn a_copy_is_the_frame_with_its_address() {
        for text in [
            "<a/>",
            "<a b='c'/>",
            "<a>t</a>",
            "<p:a xmlns:p='urn:p'\n><b/></p:a>",
        ] {
            let frame = Frame::parse(text).unwrap();
            let mut copy = Vec::new();
            write_copy(&frame, "a&'<@x/y", &mut copy);
            let copy = Frame::parse(copy).unwrap();
            assert_eq!(copy.attr("to").as_deref(), Some("a&'<@x/y"));
            assert_eq!(copy.children().count(), frame.children().count());
            assert_eq!((copy.name(), copy.ns()), (frame.name(), frame.ns()));
        }
    }

    #[test]
    fn indexes_follow_what_happens() {
        let mut all = Occupants::default();
        let a = occupant(&mut all, "First", "a@x/1");
        let b = occupant(&mut all, "second", "ab@x/1");
        assert_eq!(all.by_nick("fIRST"), Some(a));
        assert_eq!(
            (all.of("a@x"), all.of("x"), all.of("@")),
            (vec![a], vec![a, b], vec![])
        );
        let session = all.session("a@x/2".into(), Frame::parse("<presence/>").unwrap());
        all.add_session(a, session);
        assert_eq!((all.len(), all.sessions(), all.everyone().len()), (2, 3, 3));
        all.remove_session(a, "a@x/1");
        all.rename(a, "Third");
        assert_eq!(
            (all.by_nick("first"), all.by_nick("third")),
            (None, Some(a))
        );
        assert_eq!(
            (all.by_address("a@x/1"), all.by_address("a@x/2")),
            (None, Some(a))
        );
        all.remove(a);
        assert_eq!((all.len(), all.sessions(), all.of("a@x")), (1, 1, vec![]));
        assert_eq!(all.announced().map(|(key, _)| key).collect::<Vec<_>>(), [b]);
        assert_eq!(
            occupant(&mut all, "fourth", "d@x/1"),
            a,
            "places are used again"
        );
    }
}
