//! Requests of moderators and admins: kick, voice, ban, and the lists of roles and affiliations
//! (XEP-0045 sections 8 and 9). A request is done whole or not at all.

use std::collections::BTreeSet;

use stdx::{Timestamp, bugs};
use xml::Frame;
use xml::build::Writer;
use xmpp::addr;
use xmpp::error::Condition;

use crate::affiliation::{Affiliation, Role, may_affiliate, may_give_role, role_after};
use crate::broadcast::{NS_USER, Tell};
use crate::config::Whois;
use crate::invite::reason_of;
use crate::nick;
use crate::occupants::Key;
use crate::owner::NS_OWNER;
use crate::record::{Affiliated, Record};
use crate::room::Room;

pub(crate) const NS_ADMIN: &str = "http://jabber.org/protocol/muc#admin";

/// One item of a request.
enum Change {
    Role {
        target: Key,
        role: Role,
        reason: Option<String>,
    },
    Affiliation(Box<Affiliated>),
}

impl Change {
    fn affiliated(&self) -> Option<&Affiliated> {
        match self {
            Change::Affiliation(new) => Some(new),
            Change::Role { .. } => None,
        }
    }
}

impl Room {
    /// `<query xmlns='…muc#admin'/>`.
    pub(crate) fn administer(&mut self, frame: &Frame, is_set: bool, from: &str, now: Timestamp) {
        let items: Vec<Frame> = match frame.children().next() {
            Some(query) => query
                .children()
                .filter(|child| child.name() == "item")
                .collect(),
            None => Vec::new(),
        };
        if items.is_empty() {
            return self.refuse(frame, Condition::BadRequest);
        }
        if items.len() > self.options.limits.items_max {
            return self.refuse(frame, Condition::NotAcceptable);
        }
        let result = match is_set {
            true => self.change(frame, from, &items, now),
            false => self.list(frame, from, &items[0]),
        };
        if let Err(condition) = result {
            self.refuse(frame, condition);
        }
    }

    fn role_of(&self, from: &str) -> Role {
        let key = self.occupants.by_address(from);
        key.and_then(|key| self.occupants.get(key))
            .map_or(Role::None, |occupant| occupant.role)
    }

    // === lists ===

    fn list(&mut self, frame: &Frame, from: &str, item: &Frame) -> Result<(), Condition> {
        let role = item
            .attr("role")
            .map(|role| Role::parse(&role).ok_or(Condition::BadRequest));
        let affiliation = item.attr("affiliation");
        let affiliation =
            affiliation.map(|name| Affiliation::parse(&name).ok_or(Condition::BadRequest));
        let mut out = Vec::new();
        match (role.transpose()?, affiliation.transpose()?) {
            (Some(role), None) => self.list_role(from, role, &mut out)?,
            (None, Some(affiliation)) => self.list_affiliation(from, affiliation, &mut out)?,
            _ => return Err(Condition::BadRequest),
        }
        self.answer(frame, &out);
        Ok(())
    }

    /// Section 8.5 for voice, 9.8 for moderators.
    fn list_role(&self, from: &str, role: Role, out: &mut Vec<u8>) -> Result<(), Condition> {
        let own = self.role_of(from);
        let may = match role {
            Role::None => return Err(Condition::BadRequest),
            Role::Moderator => self.affiliation_of(from) >= Affiliation::Admin,
            Role::Visitor | Role::Participant => own == Role::Moderator,
        };
        if !may {
            return Err(Condition::Forbidden);
        }
        let with_address = self.sees_addresses(own);
        let mut writer = Writer::new(out);
        writer.open("query").attr("xmlns", NS_ADMIN);
        for (_, occupant) in self.occupants.iter().filter(|(_, o)| o.role == role) {
            writer
                .open("item")
                .attr("affiliation", occupant.affiliation.as_str());
            writer
                .attr("role", role.as_str())
                .attr("nick", &occupant.nick);
            if with_address {
                writer.attr("jid", &occupant.sessions[0].address);
            }
            writer.close();
        }
        writer.close();
        Ok(())
    }

    /// Sections 9.2, 9.5, 10.5 and 10.8. Admins see who is a member or banned, owners everybody;
    /// others those lists that the configuration leaves to their role, if the room shows them real
    /// addresses at all. Who its admins and owners are, it tells others only if it shows everybody
    /// real addresses.
    fn list_affiliation(
        &self,
        from: &str,
        affiliation: Affiliation,
        out: &mut Vec<u8>,
    ) -> Result<(), Condition> {
        let Some(state) = &self.state else {
            return Err(Condition::ItemNotFound);
        };
        let role = self.role_of(from);
        let (least, may_see) = match affiliation {
            Affiliation::Admin | Affiliation::Owner => {
                (Affiliation::Owner, self.sees_addresses(Role::Participant))
            }
            _ => (Affiliation::Admin, self.sees_addresses(role)),
        };
        let own = self.affiliation_of(from);
        let is_admin = own >= least;
        // Members need not be there to learn who else may enter (section 9.5).
        let role = match role {
            Role::None if state.config.is_members_only && own == Affiliation::Member => {
                Role::Participant
            }
            role => role,
        };
        let is_open = affiliation >= Affiliation::Member
            && role != Role::None
            && state.config.lists_for.has(role)
            && may_see;
        if affiliation == Affiliation::None {
            return Err(Condition::BadRequest);
        }
        if !is_admin && !is_open {
            return Err(Condition::Forbidden);
        }
        let mut writer = Writer::new(out);
        writer.open("query").attr("xmlns", NS_ADMIN);
        for one in state.list(affiliation) {
            writer
                .open("item")
                .attr("affiliation", affiliation.as_str());
            writer.attr("jid", &one.address);
            if let Some(nick) = &one.nick {
                writer.attr("nick", nick);
            }
            if let Some(reason) = one.reason.as_ref().filter(|_| is_admin) {
                writer.open("reason").text(reason).close();
            }
            writer.close();
        }
        writer.close();
        Ok(())
    }

    // === changes ===

    fn change(
        &mut self,
        frame: &Frame,
        from: &str,
        items: &[Frame],
        now: Timestamp,
    ) -> Result<(), Condition> {
        let mut changes: Vec<Change> = Vec::with_capacity(items.len());
        for item in items {
            changes.extend(self.parse_change(from, item)?);
        }
        self.check_sum(&changes)?;
        let mut records = Vec::new();
        let mut roles = Vec::new();
        for change in changes {
            match change {
                Change::Role {
                    target,
                    role,
                    reason,
                } => roles.push((target, role, reason)),
                Change::Affiliation(new) => records.push(Record::Affiliated(*new)),
            }
        }
        let actor = self.sender(from).map(|(_, nick)| nick.to_string());
        let request = frame.clone();
        let before: Vec<Affiliation> = records
            .iter()
            .map(|r| self.present_affiliation(r))
            .collect();
        let affiliated: Vec<Affiliated> = records.iter().filter_map(affiliated_of).collect();
        let from = from.to_owned();
        // Who asked hears that it is done before everybody hears of it (sections 8.2 to 10.8).
        let then = move |room: &mut Room, now| {
            room.answer(&request, &[]);
            for (target, role, reason) in roles {
                room.give_role(target, role, actor.as_deref(), reason);
            }
            for (new, old) in affiliated.into_iter().zip(before) {
                room.affiliation_changed(&new, old, actor.as_deref());
                if (old, new.affiliation) == (Affiliation::None, Affiliation::Member) {
                    room.invite_member(&new, &from, now);
                }
            }
            room.end_if_empty();
        };
        if records.is_empty() {
            then(self, now);
        } else {
            self.commit(records, frame, now, then);
        }
        Ok(())
    }

    fn present_affiliation(&self, record: &Record) -> Affiliation {
        let Record::Affiliated(new) = record else {
            return Affiliation::None;
        };
        self.state
            .as_ref()
            .map_or(Affiliation::None, |state| state.affiliation(&new.address))
    }

    fn parse_change(&self, from: &str, item: &Frame) -> Result<Vec<Change>, Condition> {
        let reason = reason_of(item, self.options.limits.reason_bytes_max);
        match (item.attr("role"), item.attr("affiliation")) {
            (Some(role), None) => {
                let role = Role::parse(&role).ok_or(Condition::BadRequest)?;
                self.parse_role(from, item, role, reason)
            }
            (None, Some(affiliation)) => {
                let affiliation = Affiliation::parse(&affiliation).ok_or(Condition::BadRequest)?;
                let new = self.parse_affiliated(from, item, affiliation, reason)?;
                Ok(vec![Change::Affiliation(Box::new(new))])
            }
            _ => Err(Condition::BadRequest),
        }
    }

    fn parse_role(
        &self,
        from: &str,
        item: &Frame,
        role: Role,
        reason: Option<String>,
    ) -> Result<Vec<Change>, Condition> {
        if item.attr_raw("nick").is_none() && item.attr_raw("jid").is_none() {
            return Err(Condition::BadRequest);
        }
        let actor = (self.role_of(from), self.affiliation_of(from));
        // Who may not change roles does not learn who is there either.
        let may = match actor.0 {
            Role::Moderator => Ok(()),
            _ => Err(Condition::Forbidden),
        };
        #[cfg(test)]
        let may = self.overlook(crate::bugs::Bug::AnybodyGivesRoles, may);
        may?;
        let targets = self.targets(actor.0, item)?;
        let change = |target: Key| {
            let occupant = self.occupants.get(target).ok_or(Condition::ItemNotFound)?;
            let checked = may_give_role(actor, (occupant.role, occupant.affiliation), role);
            #[cfg(test)]
            let checked = self.overlook(crate::bugs::Bug::AnybodyGivesRoles, checked);
            checked.map(|()| Change::Role {
                target,
                role,
                reason: reason.clone(),
            })
        };
        targets.into_iter().map(change).collect()
    }

    /// Whose role an item means: by nick, or by the address of who is there (sections 8.2 and 9.8),
    /// a bare one for all nicks of its account. Who is not shown addresses finds nobody by them.
    fn targets(&self, actor: Role, item: &Frame) -> Result<Vec<Key>, Condition> {
        let found: Vec<Key> = match (item.attr("nick"), item.attr("jid")) {
            (Some(nick), _) => self.occupants.by_nick(&nick).into_iter().collect(),
            (None, Some(jid)) => {
                let address = addr::normalize(&jid).map_err(|_| Condition::JidMalformed)?;
                match addr::split(&address).resource {
                    _ if !self.sees_addresses(actor) => Vec::new(),
                    Some(_) => self.occupants.by_address(&address).into_iter().collect(),
                    None => self.occupants.of(&address),
                }
            }
            (None, None) => Vec::new(),
        };
        match found.is_empty() {
            true => Err(Condition::ItemNotFound),
            false => Ok(found),
        }
    }

    fn parse_affiliated(
        &self,
        from: &str,
        item: &Frame,
        affiliation: Affiliation,
        reason: Option<String>,
    ) -> Result<Affiliated, Condition> {
        let Some(state) = &self.state else {
            return Err(Condition::ItemNotFound);
        };
        let own = self.affiliation_of(from);
        if own < Affiliation::Admin {
            return Err(Condition::Forbidden);
        }
        let nick = item.attr("nick");
        let address = match item.attr("jid") {
            Some(jid) => {
                let full = addr::normalize(&jid).map_err(|_| Condition::JidMalformed)?;
                addr::bare_part(&full).to_owned()
            }
            // By nick alone an occupant is meant, whose address the actor may not know.
            None => {
                let nick = nick.as_deref().ok_or(Condition::BadRequest)?;
                let key = self
                    .occupants
                    .by_nick(nick)
                    .ok_or(Condition::ItemNotFound)?;
                let occupant = self.occupants.get(key).ok_or(Condition::ItemNotFound)?;
                occupant.bare().to_owned()
            }
        };
        if affiliation == Affiliation::Outcast && address == addr::bare_part(from) {
            return Err(Condition::Conflict);
        }
        may_affiliate(own, state.affiliation(&address), affiliation)?;
        let reserved = match (item.attr("jid"), nick) {
            _ if affiliation < Affiliation::Member => None,
            (Some(_), Some(nick)) => Some(self.reserve(&address, &nick)?),
            _ => state.reserved_nick(&address).map(str::to_owned),
        };
        Ok(Affiliated {
            address,
            affiliation,
            nick: reserved,
            reason,
        })
    }

    /// The nick in its form, if the address may reserve it.
    pub(crate) fn reserve(&self, address: &str, wanted: &str) -> Result<String, Condition> {
        let nick = nick::prepare(wanted, self.options.limits.nick_bytes_max);
        let nick = nick.ok_or(Condition::NotAcceptable)?.into_owned();
        let state = self.state.as_ref().ok_or(Condition::ItemNotFound)?;
        if state
            .reserved_by(&nick)
            .is_some_and(|other| other != address)
        {
            return Err(Condition::Conflict);
        }
        Ok(nick)
    }

    /// What all changes together must not do: leave the room without an owner who can come (section
    /// 10.4), exceed the bounds of affiliations, or name an address or a nick twice.
    fn check_sum(&self, changes: &[Change]) -> Result<(), Condition> {
        let Some(state) = &self.state else {
            return Err(Condition::ItemNotFound);
        };
        let mut seen: Vec<&str> = Vec::new();
        let mut nicks: Vec<String> = Vec::new();
        for change in changes {
            let Change::Affiliation(new) = change else {
                continue;
            };
            if seen.contains(&new.address.as_str()) {
                return Err(Condition::BadRequest);
            }
            seen.push(&new.address);
            if let Some(nick) = &new.nick {
                let key = nick::key(nick).into_owned();
                if nicks.contains(&key) {
                    return Err(Condition::Conflict);
                }
                nicks.push(key);
            }
        }
        let new = changes.iter().filter_map(Change::affiliated);
        self.keeps_an_owner(new.clone())?;
        match state.has_room_for(new, &self.options.limits) {
            true => Ok(()),
            false => Err(Condition::ResourceConstraint),
        }
    }

    /// A room keeps an owner who can come, whatever affiliations change (section 10.4).
    pub(crate) fn keeps_an_owner<'a>(
        &self,
        changes: impl Iterator<Item = &'a Affiliated>,
    ) -> Result<(), Condition> {
        let heirs = self.owners_after(changes);
        #[cfg(test)]
        let heirs = heirs.filter(|_| !self.has_bug(crate::bugs::Bug::LastOwnerGoes));
        match heirs.is_some_and(|heirs| heirs.is_empty()) {
            true => Err(Condition::Conflict),
            false => Ok(()),
        }
    }

    /// The owners who are left after changes of affiliations, without those who cannot come, if
    /// somebody stops being one.
    fn owners_after<'a>(
        &self,
        changes: impl Iterator<Item = &'a Affiliated>,
    ) -> Option<BTreeSet<String>> {
        let state = self.state.as_ref()?;
        let mut heirs: Option<BTreeSet<String>> = None;
        let mut made = Vec::new();
        for new in changes {
            let old = state.affiliated(&new.address).unwrap_or_default();
            if new.affiliation == Affiliation::Owner {
                made.push(new.address.clone());
            } else if old.affiliation == Affiliation::Owner {
                let all = || state.list(Affiliation::Owner).map(|one| one.address);
                let left = heirs.get_or_insert_with(|| all().collect());
                left.remove(&new.address);
            }
        }
        let mut heirs = heirs?;
        heirs.extend(made);
        // A room is entered from an account, and no domain is one.
        heirs.retain(|who| addr::split(who).node.is_some());
        Some(heirs)
    }

    /// Whom a request leaves as owners, if it takes that from somebody and its sender is not among
    /// them: the host knows whether one of them is there (section 10.4).
    pub fn heirs(&self, frame: &Frame) -> Option<Vec<String>> {
        // Every stanza for the room passes here.
        let is_change = frame.name() == "iq" && frame.attr_raw("type") == Some("set");
        if !is_change || frame.attr("to").as_deref() != Some(self.address()) {
            return None;
        }
        let from = frame.attr("from").unwrap_or_default();
        if self.affiliation_of(&from) != Affiliation::Owner {
            return None;
        }
        let query = frame.children().next()?;
        let heirs = match query.ns() {
            NS_ADMIN => {
                let items = query.children().filter(|child| child.name() == "item");
                let items: Vec<Frame> = items.take(self.options.limits.items_max).collect();
                let changes = items.iter().map(|item| self.parse_change(&from, item));
                let changes: Vec<Vec<Change>> = changes.collect::<Result<_, _>>().ok()?;
                self.owners_after(changes.iter().flatten().filter_map(Change::affiliated))
            }
            NS_OWNER => {
                let changes = self.changes_wanted(&from, &query)?;
                self.owners_after(changes.iter())
            }
            _ => None,
        };
        let heirs = heirs.filter(|heirs| !heirs.contains(addr::bare_part(&from)))?;
        Some(heirs.into_iter().collect())
    }

    fn give_role(&mut self, target: Key, role: Role, actor: Option<&str>, reason: Option<String>) {
        let Some(occupant) = self.occupants.get(target) else {
            return;
        };
        let affiliation = occupant.affiliation;
        let actor = actor.map(str::to_owned);
        if role == Role::None {
            let codes = bugs::code("kick_without_code", 307);
            return self.remove(
                target,
                &Tell {
                    codes,
                    actor,
                    reason,
                    ..Tell::default()
                },
            );
        }
        if occupant.role != role {
            self.set_role(
                target,
                (role, affiliation),
                &Tell {
                    actor,
                    reason,
                    ..Tell::default()
                },
            );
        }
    }

    /// What a changed affiliation means for those present: their role, or their place.
    pub(crate) fn affiliation_changed(
        &mut self,
        new: &Affiliated,
        old: Affiliation,
        actor: Option<&str>,
    ) {
        let Some(state) = &self.state else { return };
        let (moderated, members_only) = (state.config.is_moderated, state.config.is_members_only);
        let present = self.occupants.of(&new.address);
        if present.is_empty() {
            return self.tell_of_absent(new);
        }
        let mut going = Vec::new();
        for key in present {
            let Some(occupant) = self.occupants.get(key) else {
                continue;
            };
            // A ban of a domain is weaker than what an address of it has of its own.
            let bare = occupant.bare().to_owned();
            let now = self.affiliation_of(&bare);
            let role = role_after(occupant.role, old, now, moderated);
            let tell = Tell {
                actor: actor.map(str::to_owned),
                reason: new.reason.clone(),
                ..Tell::default()
            };
            if now == Affiliation::Outcast {
                let codes = bugs::code("ban_without_code", 301);
                going.push((key, now, Tell { codes, ..tell }));
            } else if members_only && now < Affiliation::Member {
                let codes = bugs::code("loss_without_code", 321);
                going.push((key, now, Tell { codes, ..tell }));
            } else if (role, now) != (occupant.role, occupant.affiliation) {
                self.set_role(key, (role, now), &tell);
            }
        }
        self.eject(going);
    }

    /// Removes occupants because of affiliations that they have now.
    pub(crate) fn eject(&mut self, going: Vec<(Key, Affiliation, Tell)>) {
        let mut leaving = Vec::with_capacity(going.len());
        for (key, affiliation, tell) in going {
            if let Some(occupant) = self.occupants.get_mut(key) {
                occupant.affiliation = affiliation;
                leaving.push((key, tell));
            }
        }
        self.remove_all(leaving);
    }

    /// Somebody who is not there has another affiliation (status 101): those who may see real
    /// addresses are told.
    fn tell_of_absent(&mut self, new: &Affiliated) {
        let Some(state) = &self.state else { return };
        if state.config.whois == Whois::Nobody {
            return;
        }
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.open("message").attr("from", &self.address);
        writer.open("x").attr("xmlns", NS_USER);
        writer
            .open("item")
            .attr("affiliation", new.affiliation.as_str());
        writer
            .attr("jid", &new.address)
            .attr("role", "none")
            .close();
        writer.open("status").attr("code", "101").close();
        writer.close().close();
        let to = self.seers();
        if let Ok(frame) = Frame::parse(bytes) {
            self.send(frame, to);
        }
    }

    #[cfg(test)]
    fn overlook(
        &self,
        bug: crate::bugs::Bug,
        checked: Result<(), Condition>,
    ) -> Result<(), Condition> {
        if self.has_bug(bug) { Ok(()) } else { checked }
    }
}

fn affiliated_of(record: &Record) -> Option<Affiliated> {
    match record {
        Record::Affiliated(new) => Some(new.clone()),
        _ => None,
    }
}
