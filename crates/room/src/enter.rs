//! Presence: entering, changing nick or availability, leaving (XEP-0045 sections 7.2, 7.6, 7.7,
//! 7.14 and 10.1.1), and what of the past is sent to those who enter.

use std::borrow::Cow;
use std::sync::Arc;

use stdx::{Timestamp, bugs};
use xml::Frame;
use xml::build::Writer;
use xmpp::addr;
use xmpp::error::{Condition, StanzaError};

use crate::affiliation::{Affiliation, default_role};
use crate::broadcast::{Tell, is_of_the_room};
use crate::config::Whois;
use crate::nick;
use crate::occupants::{Audience, Key, Managed, Occupant, Session};
use crate::record::{Affiliated, Record};
use crate::room::{Effect, Room};

pub(crate) const NS_MUC: &str = xmpp::ns::MUC;

/// What `<x/>` of somebody who enters says.
#[derive(Clone, Debug, Default)]
struct Wish {
    password: Option<String>,
    chars_max: Option<usize>,
    stanzas_max: Option<usize>,
    since: Option<Timestamp>,
}

impl Wish {
    /// An attribute that cannot be read asks for nothing.
    fn parse(x: &xml::Child<'_>, now: Timestamp) -> Wish {
        let mut wish = Wish::default();
        for child in x.children() {
            match child.name() {
                "password" => wish.password = child.text().map(Cow::into_owned),
                "history" => {
                    let number = |name| child.attr(name).and_then(|n| n.trim().parse().ok());
                    wish.chars_max = number("maxchars").map(|n: u32| n as usize);
                    wish.stanzas_max = number("maxstanzas").map(|n: u32| n as usize);
                    let seconds = number("seconds").map(|n: u32| i64::from(n) * 1_000);
                    let latest = seconds.map(|ms| Timestamp(now.as_millis() - ms));
                    let since = child
                        .attr("since")
                        .and_then(|since| since.trim().parse().ok());
                    wish.since = since.max(latest);
                }
                _ => {}
            }
        }
        wish
    }
}

/// How a session comes to be in the room.
struct Entry {
    from: Arc<str>,
    /// Whether it may outlive its connection.
    managed: Managed,
    /// The nick as the room shows it.
    nick: Arc<str>,
    presence: Frame,
    id: Option<String>,
    wish: Wish,
    /// Status codes for itself.
    codes: Vec<u16>,
}

impl Room {
    /// Available presence: enters, comes back, changes nick or availability.
    pub(crate) fn available(
        &mut self,
        frame: &Frame,
        from: &str,
        nick: Option<&str>,
        may_create: bool,
        now: Timestamp,
    ) {
        let limits = self.options.limits;
        if addr::split(from).resource.is_none() {
            return self.refuse(frame, Condition::BadRequest);
        }
        if self.is_of_an_earlier_session(from) {
            return self.refuse_earlier(frame, from);
        }
        let Some(wanted) = nick else {
            return self.refuse(frame, Condition::JidMalformed);
        };
        let Some(nick) = nick::prepare(wanted, limits.nick_bytes_max) else {
            return self.refuse(frame, Condition::NotAcceptable);
        };
        let x = frame.child("x", NS_MUC);
        let current = self.occupants.by_address(from);
        if current.is_some() && self.must_be_followed(self.managed) {
            return self.available_once_followed(frame, may_create, now);
        }
        self.confirmed(from);
        if let Some(key) = current {
            self.is_there_as(key, from, self.managed);
        }
        if current.is_none() && x.is_none() {
            // Section 7.2.1: only the element says that somebody wants to enter. Without it this
            // is a change of one who believes to be here.
            let condition = if self.is_there_for(from) {
                Condition::NotAcceptable
            } else {
                Condition::ItemNotFound
            };
            return self.refuse(frame, condition);
        }
        let presence = stripped(frame);
        if presence.as_bytes().len() > limits.presence_bytes_max {
            return self.refuse(frame, Condition::NotAcceptable);
        }
        let presence = self.shared(presence);
        let entry = Entry {
            from: from.into(),
            managed: self.managed,
            codes: if *nick == *wanted {
                Vec::new()
            } else {
                vec![210]
            },
            nick: nick.into(),
            presence,
            id: frame.attr("id").map(Cow::into_owned),
            wish: x.as_ref().map(|x| Wish::parse(x, now)).unwrap_or_default(),
        };
        match current {
            Some(key) if self.has_nick(key, &entry.nick) => {
                self.update(key, entry, x.is_some());
            }
            Some(key) => self.change_nick(frame, key, entry),
            None if self.state.is_none() => self.create(frame, may_create, entry, now),
            None => self.enter(frame, entry, now),
        }
    }

    /// A session that is there is managed from now on, once the room is in the store.
    fn available_once_followed(&mut self, frame: &Frame, may_create: bool, now: Timestamp) {
        let (request, managed) = (frame.clone(), self.managed);
        let records = vec![Record::Followed(true)];
        self.commit(records, frame, now, move |room, now| {
            room.managed = managed;
            room.stanza(&request, may_create, now);
        });
    }

    /// A session that is there says by which number it is managed. One that was not managed before
    /// has had what was said until now. Another number than before is that of a later session of
    /// its name, while nobody has said yet that the earlier one is gone. Both are owed what is said
    /// from now on.
    pub(crate) fn is_there_as(&mut self, key: Key, from: &str, managed: Managed) {
        let before = self.managed_number(from);
        self.occupants.set_managed(key, from, managed);
        let now = managed.number();
        if now.is_some() && before != now {
            self.occupants.set_since(key, from, self.told);
            self.say_since(key, from);
        }
    }

    /// Whether a session may only be there once the room is in the store: a kill must not take back
    /// what its client was told.
    pub(crate) fn must_be_followed(&self, managed: Managed) -> bool {
        managed.number().is_some() && !self.is_durable()
    }

    fn has_nick(&self, key: Key, nick: &str) -> bool {
        self.occupants
            .get(key)
            .is_some_and(|occupant| *occupant.nick == *nick)
    }

    /// Section 10.1.1: whoever enters a room that is not there makes it and owns it.
    fn create(&mut self, frame: &Frame, may_create: bool, entry: Entry, now: Timestamp) {
        if !may_create {
            return self.refuse(frame, Condition::NotAllowed);
        }
        let mut records = vec![
            Record::Created {
                at: now.as_millis(),
                secret: self.secret,
                first: self.next_seq,
            },
            Record::Configured(Box::new(self.options.defaults.clone())),
            Record::Affiliated(Affiliated {
                address: addr::bare_part(&entry.from).to_owned(),
                affiliation: Affiliation::Owner,
                ..Affiliated::default()
            }),
        ];
        if !self.options.locks_new {
            records.push(Record::Unlocked);
        }
        if !self.options.defaults.is_persistent && entry.managed.number().is_some() {
            records.push(Record::Followed(true));
        }
        let codes = [&*entry.codes, &[201]].concat();
        let (request, entry) = (frame.clone(), Entry { codes, ..entry });
        self.commit(records, frame, now, move |room, now| {
            room.enter(&request, entry, now);
            room.end_if_empty();
        });
    }

    /// Whether somebody may enter under a nick, in the order of what he may learn (section 7.2).
    fn may_enter(&self, entry: &Entry) -> Result<Affiliation, StanzaError> {
        let not = |condition| Err(StanzaError::new(condition));
        let Some(state) = &self.state else {
            return not(Condition::ItemNotFound);
        };
        let bare = addr::bare_part(&entry.from);
        let affiliation = state.affiliation(bare);
        let config = &state.config;
        if state.is_locked && affiliation != Affiliation::Owner {
            return not(Condition::ItemNotFound);
        }
        if affiliation == Affiliation::Outcast {
            return not(Condition::Forbidden);
        }
        if config.is_members_only && affiliation < Affiliation::Member {
            return not(Condition::RegistrationRequired);
        }
        let has_password = entry.wish.password.as_deref() == Some(&config.password);
        if !config.password.is_empty() && !has_password {
            return not(Condition::NotAuthorized);
        }
        if state
            .reserved_by(&entry.nick)
            .is_some_and(|owner| owner != bare && !bugs::is("reserved_nick_is_free"))
        {
            return not(Condition::Conflict);
        }
        let Some(holder) = self.occupants.by_nick(&entry.nick) else {
            return self.has_room_for(affiliation).map(|()| affiliation);
        };
        let holder = self.occupants.get(holder);
        match holder {
            Some(holder) if holder.bare() != bare => not(Condition::Conflict),
            Some(holder) if holder.sessions.len() >= self.sessions_max() => {
                not(Condition::ResourceConstraint)
            }
            _ => Ok(affiliation),
        }
    }

    fn sessions_max(&self) -> usize {
        usize::from(self.options.limits.sessions_per_nick_max)
    }

    /// Section 7.2.9.
    fn has_room_for(&self, affiliation: Affiliation) -> Result<(), StanzaError> {
        let limits = &self.options.limits;
        let own = self
            .state
            .as_ref()
            .map_or(0, |state| state.config.max_users);
        let max = if own == 0 {
            limits.occupants_max
        } else {
            own.min(limits.occupants_max)
        };
        let is_privileged = affiliation >= Affiliation::Admin;
        let over = if is_privileged {
            limits.occupants_over_max
        } else {
            0
        };
        if self.occupants.len() < max.saturating_add(over) as usize {
            return Ok(());
        }
        Err(StanzaError::new(Condition::ServiceUnavailable).with_kind("wait"))
    }

    fn enter(&mut self, frame: &Frame, mut entry: Entry, now: Timestamp) {
        let from = Arc::clone(&entry.from);
        let bare = addr::bare_part(&from);
        if let Some(state) = self.state.as_ref().filter(|state| state.config.locks_nicks) {
            // Section 7.2.3: the service may give the nick that was registered.
            if let Some(own) = state.reserved_nick(bare).filter(|own| **own != *entry.nick) {
                entry.nick = own.into();
                entry.codes = [&[210], &entry.codes[..]].concat();
                entry.codes.dedup();
            }
        }
        let affiliation = match self.may_enter(&entry) {
            Ok(affiliation) => affiliation,
            Err(error) => return self.refuse_with(frame, &error),
        };
        if self.must_be_followed(entry.managed) {
            let request = frame.clone();
            return self.commit(
                vec![Record::Followed(true)],
                frame,
                now,
                move |room, now| {
                    room.enter(&request, entry, now);
                },
            );
        }
        let session = self.new_session(&entry);
        let holder = self.occupants.by_nick(&entry.nick);
        let key = match holder {
            Some(key) => {
                self.occupants.add_session(key, session);
                key
            }
            None => {
                let moderated = self.state.as_ref().is_some_and(|s| s.config.is_moderated);
                self.occupants.insert(Occupant {
                    nick: Arc::clone(&entry.nick),
                    sessions: [session].into_iter().collect(),
                    id: self.occupant_id(bare),
                    role: default_role(affiliation, moderated),
                    affiliation,
                    is_announced: false,
                })
            }
        };
        self.say_since(key, &from);
        self.send_list(key, &from);
        if holder.is_none() {
            self.announce(key, false);
            if self
                .occupants
                .get(key)
                .is_some_and(|occupant| self.is_shown(occupant))
            {
                self.tell_others(key, &Tell::default());
            }
        }
        self.welcome(key, &entry);
    }

    fn new_session(&mut self, entry: &Entry) -> Session {
        let presence = entry.presence.clone();
        let mut session = self.occupants.session(Arc::clone(&entry.from), presence);
        session.managed = entry.managed;
        session.since = self.told;
        session
    }

    /// The home of a managed session is told from where on it is owed what is said; while nobody
    /// else's is, that comes with the first of them.
    fn say_since(&mut self, key: Key, full: &str) {
        let occupant = self.occupants.get(key).filter(|_| self.occupants.tracks);
        let mut sessions = occupant.iter().flat_map(|occupant| &occupant.sessions);
        let session = sessions.find(|session| &*session.address == full);
        let here = session.and_then(|session| {
            Some(Effect::Here {
                address: Arc::clone(&session.address),
                number: session.managed.number()?,
                since: Some(session.since),
                is_new: true,
            })
        });
        self.effects.extend(here);
    }

    /// Self-presence, the past and the subject, in this order (section 7.1).
    fn welcome(&mut self, key: Key, entry: &Entry) {
        let mut own_codes = entry.codes.clone();
        if let Some(state) = &self.state {
            let warned = [
                (100, state.config.whois == Whois::Anyone),
                (
                    170,
                    state.config.is_logged && !bugs::is("logging_is_not_said"),
                ),
            ];
            own_codes.extend(
                warned
                    .iter()
                    .filter(|(_, holds)| *holds)
                    .map(|(code, _)| *code),
            );
        }
        let tell = Tell {
            own_codes,
            id: entry.id.clone(),
            ..Tell::default()
        };
        self.tell_session(key, &entry.from, &tell);
        self.send_card_presence(&entry.from);
        let is_early = bugs::is("subject_before_history");
        if is_early {
            self.send_subject(&entry.from);
        }
        self.send_history(entry);
        if !is_early {
            self.send_subject(&entry.from);
        }
    }

    /// Section 7.2.14: the most that all criteria allow, the oldest first. All who enter are sent
    /// the same bytes.
    fn send_history(&mut self, entry: &Entry) {
        let Some(state) = &self.state else { return };
        let wish = &entry.wish;
        let mut chars = wish.chars_max.unwrap_or(usize::MAX);
        let count = wish.stanzas_max.unwrap_or(usize::MAX);
        let address_bytes = " to=''".len() + entry.from.len();
        let to: Audience = [Arc::clone(&entry.from)].into();
        let mut found = Vec::new();
        for kept in state.history.iter().rev().take(count) {
            if wish
                .since
                .is_some_and(|since| kept.message.at < since.as_millis())
                && !bugs::is("since_is_ignored")
            {
                break;
            }
            let Some(frame) = kept.frame(&self.address) else {
                continue;
            };
            match chars.checked_sub(frame.as_bytes().len() + address_bytes) {
                Some(left) => chars = left,
                None => break,
            }
            found.push(Effect::Send {
                frame: frame.clone(),
                to: Audience::clone(&to),
                placed: None,
            });
        }
        self.effects.extend(found.into_iter().rev());
    }

    /// Section 7.2.15: also if there is none, so that a client knows that it has all.
    pub(crate) fn send_subject(&mut self, to: &str) {
        let subject = self.state.as_ref().and_then(|state| state.subject.as_ref());
        let known = subject.and_then(|s| crate::state::delayed(&s.xml, s.at, &self.address));
        let frame = known
            .map(|frame| frame.edit().set_attr("to", to).finish())
            .or_else(|| {
                let mut bytes = Vec::new();
                let mut writer = Writer::new(&mut bytes);
                writer
                    .open("message")
                    .attr("from", &self.address)
                    .attr("to", to);
                writer
                    .attr("type", "groupchat")
                    .open("subject")
                    .close()
                    .close();
                Frame::parse(bytes).ok()
            });
        self.effects.extend(frame.map(Effect::Deliver));
    }

    /// Section 7.7; with `<x/>` it comes from a client that lost track, and is sent everything
    /// once more (section 7.2.1).
    fn update(&mut self, key: Key, entry: Entry, has_lost_track: bool) {
        let Some(occupant) = self.occupants.get_mut(key) else {
            return;
        };
        let sessions = &mut occupant.sessions;
        let Some(at) = sessions.iter().position(|one| *one.address == *entry.from) else {
            return;
        };
        let changes = at > 0 || sessions[0].presence != entry.presence;
        sessions[at].presence = entry.presence.clone();
        // What was sent last is what others see.
        sessions[..=at].rotate_right(1);
        let was_shown = self
            .occupants
            .get(key)
            .is_some_and(|occupant| self.is_shown(occupant));
        self.announce(key, false);
        if !has_lost_track {
            let tell = Tell {
                id: entry.id.clone(),
                ..Tell::default()
            };
            return self.tell(key, &tell, was_shown);
        }
        if (changes || !was_shown)
            && self
                .occupants
                .get(key)
                .is_some_and(|occupant| self.is_shown(occupant))
        {
            self.tell_others(key, &Tell::default());
        }
        self.send_list(key, &entry.from);
        self.welcome(key, &entry);
    }

    /// Section 7.6. Of several sessions only the one that asks changes.
    fn change_nick(&mut self, frame: &Frame, key: Key, entry: Entry) {
        let (Some(state), Some(occupant)) = (&self.state, self.occupants.get(key)) else {
            return;
        };
        let bare = occupant.bare();
        let is_reserved = state
            .reserved_by(&entry.nick)
            .is_some_and(|owner| owner != bare);
        let is_own_nick = state.reserved_nick(bare) == Some(&*entry.nick);
        let target = self
            .occupants
            .by_nick(&entry.nick)
            .filter(|other| *other != key);
        let holder = target.and_then(|key| self.occupants.get(key));
        let is_taken = holder.is_some_and(|holder| holder.bare() != bare);
        if state.config.locks_nicks && !is_own_nick {
            let error = StanzaError::new(Condition::NotAcceptable).with_kind("cancel");
            return self.refuse_with(frame, &error);
        }
        #[cfg(test)]
        let is_reserved = is_reserved && !self.has_bug(crate::bugs::Bug::ReservedNickTaken);
        if is_reserved || is_taken {
            return self.refuse(frame, Condition::Conflict);
        }
        if holder.is_some_and(|holder| holder.sessions.len() >= self.sessions_max()) {
            return self.refuse(frame, Condition::ResourceConstraint);
        }
        let is_alone = occupant.sessions.len() == 1;
        if !is_alone
            && target.is_none()
            && let Err(error) = self.has_room_for(occupant.affiliation)
        {
            return self.refuse_with(frame, &error);
        }
        let gone = Tell {
            is_unavailable: true,
            codes: bugs::code("rename_without_code", 303),
            new_nick: Some(entry.nick.to_string()),
            ..Tell::default()
        };
        match target {
            None if is_alone => {
                let was_shown = self.is_shown(occupant);
                self.tell(key, &gone, was_shown);
                self.occupants.rename(key, &entry.nick);
                let occupant = self.occupants.get_mut(key);
                if let Some(session) = occupant.and_then(|o| o.sessions.first_mut()) {
                    session.presence = entry.presence;
                }
                self.announce(key, false);
                let tell = Tell {
                    own_codes: entry.codes,
                    id: entry.id,
                    ..Tell::default()
                };
                self.tell(key, &tell, false);
            }
            _ => self.move_session(key, target, &gone, entry),
        }
    }

    /// A session goes from one nick of its account to another: to one that another session has, or
    /// away from one that another session keeps.
    fn move_session(&mut self, key: Key, target: Option<Key>, gone: &Tell, entry: Entry) {
        let Some(occupant) = self.occupants.get(key) else {
            return;
        };
        let (role, affiliation, id) = (occupant.role, occupant.affiliation, occupant.id);
        let mut sessions = occupant.sessions.iter();
        let since = sessions.find(|one| *one.address == *entry.from);
        let since = since.map_or(self.told, |session| session.since);
        let was_shown = self.is_shown(occupant);
        let was_first = *occupant.sessions[0].address == *entry.from;
        if occupant.sessions.len() == 1 {
            self.tell(key, gone, was_shown);
            self.occupants.remove(key);
        } else {
            self.tell_session(key, &entry.from, gone);
            self.occupants.remove_session(key, &entry.from);
            if was_first {
                self.tell(key, &Tell::default(), was_shown);
            }
        }
        let mut session = self.new_session(&entry);
        session.since = since;
        let new = match target {
            Some(target) => {
                self.occupants.add_session(target, session);
                target
            }
            None => {
                let nick = Arc::clone(&entry.nick);
                let sessions = [session].into_iter().collect();
                let is_announced = false;
                self.occupants.insert(Occupant {
                    nick,
                    sessions,
                    id,
                    role,
                    affiliation,
                    is_announced,
                })
            }
        };
        let tell = Tell {
            own_codes: entry.codes,
            id: entry.id,
            ..Tell::default()
        };
        if target.is_none() {
            self.announce(new, false);
            self.tell(new, &tell, false);
        } else {
            self.tell_session(new, &entry.from, &tell);
        }
        self.tell_of(key, new, &entry.from);
    }

    /// Tells a session that left a nick which others of its account keep that they are there.
    fn tell_of(&mut self, left: Key, new: Key, full: &str) {
        if left != new && self.occupants.get(left).is_some_and(|o| self.is_shown(o)) {
            self.send_one(left, new, full);
        }
    }

    /// Unavailable presence: leaves (section 7.14). It may carry a last word.
    pub(crate) fn unavailable(&mut self, frame: &Frame, from: &str) {
        let Some(key) = self.occupants.by_address(from) else {
            return;
        };
        if self.is_of_an_earlier_session(from) {
            return; // That one is not there, and the later one stays.
        }
        if self.managed.number().is_none() && self.managed_number(from).is_some() {
            // It does not say which session leaves: one that was not managed, or one of a home that
            // does not name them yet.
            return self.doubt(from);
        }
        let presence = Some(stripped(frame));
        let fits = |p: &Frame| p.as_bytes().len() <= self.options.limits.presence_bytes_max;
        let presence = presence.filter(fits);
        let id = frame.attr("id").map(Cow::into_owned);
        self.leave(
            key,
            from,
            &Tell {
                presence,
                id,
                ..Tell::default()
            },
        );
    }

    /// One session goes, and its occupant with the last one.
    pub(crate) fn leave(&mut self, key: Key, full: &str, tell: &Tell) {
        let Some(occupant) = self.occupants.get(key) else {
            return;
        };
        if occupant.sessions.len() == 1 {
            self.remove(key, tell);
            return self.end_if_empty();
        }
        let was_shown = self.is_shown(occupant);
        let was_first = &*occupant.sessions[0].address == full;
        self.tell_session(
            key,
            full,
            &Tell {
                is_unavailable: true,
                ..tell.clone()
            },
        );
        self.occupants.remove_session(key, full);
        if was_first {
            self.tell(key, &Tell::default(), was_shown);
        }
    }
}

/// A presence without what the room says of its occupant: addresses, id, type, and the elements of
/// XEP-0045 and XEP-0421.
fn stripped(frame: &Frame) -> Frame {
    let mut edit = frame.edit();
    for name in ["from", "to", "id", "type"] {
        edit = edit.remove_attr(name);
    }
    edit.remove_children(|child| child.ns() == NS_MUC || is_of_the_room(child))
        .finish()
}
