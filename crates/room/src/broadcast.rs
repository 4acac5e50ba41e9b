//! What occupants are told of each other: presences with roles, affiliations and status codes
//! (XEP-0045 sections 7.2.3, 7.14 and 13), who sees whom in a large room, and who sees real
//! addresses.
//!
//! # Large rooms
//!
//! From `large_from` occupants on, one who enters is told of those who are announced, and nobody is
//! told of him before he is a moderator or has spoken: a message to all is preceded by its sender's
//! presence. He who was announced stays so until he leaves. So an entry costs work for those who
//! are announced, and not for everybody who is there.

use xml::Frame;
use xml::build::Writer;
use xmpp::{addr, ns};

use crate::affiliation::{Affiliation, Role};
use crate::config::Whois;
use crate::hats::{NS_HATS, write_hats};
use crate::occupants::{Audience, Key, Occupant};
use crate::retract;
use crate::room::{Effect, Room};

pub(crate) const NS_USER: &str = "http://jabber.org/protocol/muc#user";
pub(crate) const NS_OCCUPANT_ID: &str = "urn:xmpp:occupant-id:0";

/// What a presence says besides who and what an occupant is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tell {
    /// He is no longer there, or not under this nick.
    pub(crate) is_unavailable: bool,
    /// His presence in the words of his client, if it is not the one that is kept.
    pub(crate) presence: Option<Frame>,
    /// Status codes for everybody.
    pub(crate) codes: Vec<u16>,
    /// Status codes for himself, beside 110.
    pub(crate) own_codes: Vec<u16>,
    /// The nick that he has from now on.
    pub(crate) new_nick: Option<String>,
    /// Who did this, by nick.
    pub(crate) actor: Option<String>,
    /// Why.
    pub(crate) reason: Option<String>,
    /// The id of the presence that this answers, for himself.
    pub(crate) id: Option<String>,
    /// A `<destroy/>` element.
    pub(crate) destroy: Vec<u8>,
}

/// Writes `<occupant-id/>` (XEP-0421).
pub(crate) fn write_occupant_id(out: &mut Vec<u8>, id: &[u8; 16]) {
    let mut writer = Writer::new(out);
    writer
        .open("occupant-id")
        .attr("xmlns", NS_OCCUPANT_ID)
        .attr("id", &hex(id))
        .close();
}

/// An occupant id as it is written.
pub(crate) fn hex(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a child is one that only the room may add.
pub(crate) fn is_of_the_room(child: &xml::Child<'_>) -> bool {
    [NS_USER, NS_OCCUPANT_ID, NS_HATS].contains(&child.ns())
}

/// Whether a child of a message says what only the room may say: what it adds to all stanzas, an id
/// that it gave, that it delayed the message, or that somebody retracted it. Or what only an
/// account's server may say: an id that it gave. The copies for all occupants are one, and so the
/// room sees to it for all of them.
pub(crate) fn is_forged(child: &xml::Child<'_>, room: &str) -> bool {
    // However it is spelled: clients compare addresses, not text.
    let names = |attr: &str, who: fn(&str, &str) -> bool| {
        let address = child.attr(attr).unwrap_or_default();
        addr::normalize(&address).is_ok_and(|address| who(addr::bare_part(&address), room))
    };
    match (child.name(), child.ns()) {
        ("stanza-id", ns::STANZA_ID) => names("by", |bare, _| bare.contains('@')),
        ("delay", ns::DELAY) => names("from", |bare, room| bare == room),
        _ => is_of_the_room(child) || retract::is_forged(child),
    }
}

impl Room {
    /// Whether an occupant of a role is shown real addresses.
    pub(crate) fn sees_addresses(&self, role: Role) -> bool {
        let whois = self
            .state
            .as_ref()
            .map_or(Whois::Nobody, |state| state.config.whois);
        #[cfg(test)]
        if self.has_bug(crate::bugs::Bug::AddressesForAll) {
            return true;
        }
        match whois {
            Whois::Anyone => true,
            Whois::Moderators => role == Role::Moderator,
            Whois::Nobody => false,
        }
    }

    /// Whether others are shown an occupant.
    pub(crate) fn is_shown(&self, occupant: &Occupant) -> bool {
        let roles = self.state.as_ref().map(|state| state.config.presence_of);
        occupant.is_announced && roles.is_some_and(|roles| roles.has(occupant.role))
    }

    /// Whether the room tells of whoever enters.
    pub(crate) fn is_small(&self) -> bool {
        self.occupants.len() < self.options.limits.large_from as usize
    }

    /// The occupant's id: the same in every visit of his account, and of no use in another room.
    pub(crate) fn occupant_id(&self, bare: &str) -> [u8; 16] {
        let secret = self
            .state
            .as_ref()
            .map_or(self.secret, |state| state.secret);
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
        let tag = ring::hmac::sign(&key, bare.as_bytes());
        let mut id = [0; 16];
        id.copy_from_slice(&tag.as_ref()[..16]);
        id
    }

    /// One presence of an occupant. `to` is left open for a fan-out.
    fn presence(
        &self,
        occupant: &Occupant,
        tell: &Tell,
        (with_address, is_own): (bool, bool),
        to: Option<&str>,
    ) -> Frame {
        let mut x = Vec::with_capacity(256);
        write_occupant_id(&mut x, &occupant.id);
        let mut writer = Writer::new(&mut x);
        writer.open("x").attr("xmlns", NS_USER);
        let is_gone = tell.is_unavailable && tell.new_nick.is_none();
        let (affiliation, role) = match () {
            () if !tell.destroy.is_empty() => (Affiliation::None, Role::None),
            () if is_gone => (occupant.affiliation, Role::None),
            () => (occupant.affiliation, occupant.role),
        };
        writer
            .open("item")
            .attr("affiliation", affiliation.as_str());
        writer.attr("role", role.as_str());
        if with_address || is_own {
            writer.attr("jid", &occupant.sessions[0].address);
        }
        if let Some(nick) = &tell.new_nick {
            writer.attr("nick", nick);
        }
        if let Some(actor) = &tell.actor {
            writer.open("actor").attr("nick", actor).close();
        }
        if let Some(reason) = &tell.reason {
            writer.open("reason").text(reason).close();
        }
        writer.close();
        writer.raw(&tell.destroy);
        let own: &[u16] = if is_own { &[110] } else { &[] };
        let own_codes: &[u16] = if is_own { &tell.own_codes } else { &[] };
        for code in own.iter().chain(&tell.codes).chain(own_codes) {
            writer
                .open("status")
                .attr("code", &code.to_string())
                .close();
        }
        writer.close();
        if !tell.is_unavailable
            && let Some(state) = &self.state
        {
            write_hats(&mut x, state.hats.of(occupant.bare()));
        }
        let kept = if tell.is_unavailable {
            &self.empty
        } else {
            occupant.presence()
        };
        let from = format!("{}/{}", self.address, occupant.nick);
        let mut edit = tell.presence.as_ref().unwrap_or(kept).edit();
        edit = edit.set_attr("from", &from);
        if tell.is_unavailable {
            edit = edit.set_attr("type", "unavailable");
        }
        if let Some(to) = to {
            edit = edit.set_attr("to", to);
        }
        if let (Some(id), true) = (&tell.id, is_own) {
            edit = edit.set_attr("id", id);
        }
        edit.append_child(&x).finish()
    }

    /// Tells others of an occupant, as far as they see him, and then himself. `was_shown` is what
    /// they saw before.
    pub(crate) fn tell(&mut self, key: Key, tell: &Tell, was_shown: bool) {
        let Some(occupant) = self.occupants.get(key) else {
            return;
        };
        let is_shown = self.is_shown(occupant);
        if !tell.is_unavailable && was_shown && !is_shown {
            let hides = Tell {
                is_unavailable: true,
                ..Tell::default()
            };
            self.tell_others(key, &hides);
        } else if (tell.is_unavailable && was_shown) || (!tell.is_unavailable && is_shown) {
            self.tell_others(key, tell);
        }
        self.tell_himself(key, tell);
    }

    /// Tells an occupant's own sessions of him.
    pub(crate) fn tell_himself(&mut self, key: Key, tell: &Tell) {
        let Some(occupant) = self.occupants.get(key) else {
            return;
        };
        for full in occupant.audience().iter() {
            self.tell_session(key, full, tell);
        }
    }

    /// Tells one of an occupant's sessions of him.
    pub(crate) fn tell_session(&mut self, key: Key, full: &str, tell: &Tell) {
        let Some(occupant) = self.occupants.get(key) else {
            return;
        };
        let frame = self.presence(occupant, tell, (true, true), Some(full));
        let effect = self.for_session(full, frame);
        self.effects.push(effect);
    }

    /// A stanza for one session that is there.
    fn for_session(&self, full: &str, frame: Frame) -> Effect {
        match self.managed_number(full) {
            Some(number) => Effect::Tell { frame, number },
            None => Effect::Deliver(frame),
        }
    }

    /// Where everybody is but one: those who see real addresses, and the others.
    fn audiences(&self, except: Option<Key>) -> [Audience; 2] {
        let (mut seers, mut others) = (Vec::new(), Vec::new());
        for (other, occupant) in self.occupants.iter() {
            if Some(other) == except {
                continue;
            }
            let list = match self.sees_addresses(occupant.role) {
                true => &mut seers,
                false => &mut others,
            };
            let addresses = occupant.sessions.iter();
            list.extend(addresses.map(|session| std::sync::Arc::clone(&session.address)));
        }
        [seers.into(), others.into()]
    }

    /// Tells everybody but himself of an occupant: those who see real addresses, and the others.
    pub(crate) fn tell_others(&mut self, key: Key, tell: &Tell) {
        let audiences = self.audiences(Some(key));
        let Some(occupant) = self.occupants.get(key) else {
            return;
        };
        let [seers, others] = audiences;
        for (to, with_address) in [(seers, true), (others, false)] {
            if !to.is_empty() {
                let frame = self.presence(occupant, tell, (with_address, false), None);
                self.effects.push(Effect::Send {
                    frame,
                    to,
                    placed: None,
                });
            }
        }
    }

    /// Sends a session the presence of every other occupant whom it may see.
    pub(crate) fn send_list(&mut self, key: Key, full: &str) {
        let Some(role) = self.occupants.get(key).map(|occupant| occupant.role) else {
            return;
        };
        let with_address = self.sees_addresses(role);
        let tell = Tell::default();
        let announced = self.occupants.announced();
        let others = announced.filter(|(other, _)| *other != key);
        let shown = others.filter(|(_, occupant)| self.is_shown(occupant));
        let frames: Vec<Effect> = shown
            .map(|(_, occupant)| self.presence(occupant, &tell, (with_address, false), Some(full)))
            .map(|frame| self.for_session(full, frame))
            .collect();
        self.effects.extend(frames);
    }

    /// Sends a session of one occupant the presence of another.
    pub(crate) fn send_one(&mut self, of: Key, to: Key, full: &str) {
        let Some(reader) = self.occupants.get(to) else {
            return;
        };
        let with_address = self.sees_addresses(reader.role);
        let Some(occupant) = self.occupants.get(of) else {
            return;
        };
        let frame = self.presence(
            occupant,
            &Tell::default(),
            (with_address, false),
            Some(full),
        );
        let effect = self.for_session(full, frame);
        self.effects.push(effect);
    }

    /// Announces an occupant if he is one of whom everybody is told now.
    pub(crate) fn announce(&mut self, key: Key, has_spoken: bool) {
        let is_small = self.is_small();
        let Some(occupant) = self.occupants.get(key) else {
            return;
        };
        if is_small || has_spoken || occupant.role == Role::Moderator {
            self.occupants.announce(key);
        }
    }

    /// Changes the role of an occupant who stays, and perhaps his affiliation, and tells of it. A
    /// new moderator of a semi-anonymous room is sent everybody's real address.
    pub(crate) fn set_role(
        &mut self,
        key: Key,
        (role, affiliation): (Role, Affiliation),
        tell: &Tell,
    ) {
        let Some(occupant) = self.occupants.get(key) else {
            return;
        };
        let was_shown = self.is_shown(occupant);
        let saw = self.sees_addresses(occupant.role);
        if let Some(occupant) = self.occupants.get_mut(key) {
            occupant.role = role;
            occupant.affiliation = affiliation;
        }
        self.announce(key, false);
        self.tell(key, tell, was_shown);
        if !saw && self.sees_addresses(role) {
            let Some(occupant) = self.occupants.get(key) else {
                return;
            };
            for to in occupant.audience().iter() {
                self.send_list(key, to);
            }
        }
    }

    /// Removes an occupant with all sessions, and tells of it.
    pub(crate) fn remove(&mut self, key: Key, tell: &Tell) {
        let Some(occupant) = self.occupants.get(key) else {
            return;
        };
        let was_shown = self.is_shown(occupant);
        #[cfg(test)]
        let was_shown = was_shown && !self.has_bug(crate::bugs::Bug::LeavesSilently);
        self.tell(
            key,
            &Tell {
                is_unavailable: true,
                ..tell.clone()
            },
            was_shown,
        );
        self.occupants.remove(key);
    }

    /// Removes several together. Each is told of himself, and those who stay of all of them: so it
    /// costs nothing that those who go do not see each other go, however many they are.
    pub(crate) fn remove_all(&mut self, mut leaving: Vec<(Key, Tell)>) {
        if leaving.len() < 2 {
            if let Some((key, tell)) = leaving.pop() {
                self.remove(key, &tell);
            }
            return;
        }
        let mut gone = Vec::with_capacity(leaving.len());
        for (key, tell) in leaving {
            let Some(occupant) = self.occupants.get(key) else {
                continue;
            };
            let tell = Tell {
                is_unavailable: true,
                ..tell
            };
            if self.is_shown(occupant) {
                let of = |with| self.presence(occupant, &tell, (with, false), None);
                gone.push([of(true), of(false)]);
            }
            self.tell_himself(key, &tell);
            self.occupants.remove(key);
        }
        let audiences = self.audiences(None);
        for frames in gone {
            for (frame, to) in frames.into_iter().zip(&audiences) {
                self.send(frame, Audience::clone(to));
            }
        }
    }

    /// A message of the room itself to everybody, with status codes (section 10.2.1).
    pub(crate) fn send_status(&mut self, codes: &[u16]) {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer
            .open("message")
            .attr("from", &self.address)
            .attr("type", "groupchat");
        writer.open("x").attr("xmlns", NS_USER);
        for code in codes {
            writer
                .open("status")
                .attr("code", &code.to_string())
                .close();
        }
        writer.close().close();
        let to = self.occupants.everyone();
        if let Ok(frame) = Frame::parse(bytes) {
            self.send(frame, to);
        }
    }

    /// Everybody who sees real addresses, and everybody.
    pub(crate) fn seers(&self) -> Audience {
        let seers = self
            .occupants
            .iter()
            .filter(|(_, o)| self.sees_addresses(o.role));
        let sessions = seers.flat_map(|(_, o)| &o.sessions);
        sessions
            .map(|session| std::sync::Arc::clone(&session.address))
            .collect()
    }
}
