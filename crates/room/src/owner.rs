//! Requests of owners: configuration and its effects on those present, destruction (XEP-0045
//! section 10), and the end of the service.

use std::collections::BTreeSet;

use stdx::{Timestamp, bugs};
use xml::build::Writer;
use xml::{Child, Frame};
use xmpp::addr;
use xmpp::error::Condition;
use xmpp::ns::DATA_FORMS;

use crate::affiliation::Affiliation;
use crate::broadcast::Tell;
use crate::config::{Config, FORM_TYPE, Submitted, Whois};
use crate::form::Form;
use crate::invite::reason_of;
use crate::record::{Affiliated, Record};
use crate::room::{Effect, Room};

pub(crate) const NS_OWNER: &str = "http://jabber.org/protocol/muc#owner";

impl Room {
    /// `<query xmlns='…muc#owner'/>`.
    pub(crate) fn own(&mut self, frame: &Frame, is_set: bool, from: &str, now: Timestamp) {
        if self.affiliation_of(from) != Affiliation::Owner {
            return self.refuse(frame, Condition::Forbidden);
        }
        let child = frame
            .children()
            .next()
            .and_then(|query| query.children().next());
        match (is_set, child) {
            (false, _) => self.send_form(frame),
            (true, Some(x)) if x.name() == "x" && x.ns() == DATA_FORMS => {
                self.configure(frame, &x, from, now);
            }
            (true, Some(destroy)) if destroy.name() == "destroy" => {
                self.destroy(frame, &destroy, now);
            }
            (true, _) => self.refuse(frame, Condition::BadRequest),
        }
    }

    fn send_form(&mut self, frame: &Frame) {
        let Some(state) = &self.state else { return };
        let list = |a| {
            state
                .list(a)
                .map(|one| one.address)
                .collect::<Vec<String>>()
        };
        let (admins, owners) = (list(Affiliation::Admin), list(Affiliation::Owner));
        let admins: Vec<&str> = admins.iter().map(String::as_str).collect();
        let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attr("xmlns", NS_OWNER);
        let max = self.options.limits.occupants_max;
        state.config.write_form(&mut writer, &admins, &owners, max);
        writer.close();
        self.answer(frame, &out);
    }

    // === configuration ===

    fn configure(&mut self, frame: &Frame, x: &Frame, from: &str, now: Timestamp) {
        let Some(state) = &self.state else { return };
        let form = match Form::parse(x, FORM_TYPE) {
            Ok(Form::Submitted(form)) => form,
            // Section 10.1.3: a room whose first configuration is put away is not made.
            Ok(Form::Cancelled) if state.is_locked => return self.abandon(frame, now),
            Ok(Form::Cancelled) => return self.answer(frame, &[]),
            Err(condition) => return self.refuse(frame, condition),
        };
        let submitted = state.config.with(&form, &self.options.limits);
        let planned = submitted.and_then(|submitted| {
            let changes = self.changes_of(addr::bare_part(from), &submitted)?;
            Ok((submitted.config, changes))
        });
        let (config, changes) = match planned {
            Ok(planned) => planned,
            Err(condition) => return self.refuse(frame, condition),
        };
        let before: Vec<Affiliation> = changes
            .iter()
            .map(|new| state.affiliation(&new.address))
            .collect();
        let old = state.config.clone();
        let mut records = Vec::new();
        if state.is_locked {
            records.push(Record::Unlocked);
        }
        if config != old {
            records.push(Record::Configured(Box::new(config)));
        }
        records.extend(changes.iter().cloned().map(Record::Affiliated));
        let actor = self.sender(from).map(|(_, nick)| nick.to_string());
        let request = frame.clone();
        let then = move |room: &mut Room, _| {
            room.answer(&request, &[]);
            room.configured(&old);
            for (new, old) in changes.iter().zip(before) {
                room.affiliation_changed(new, old, actor.as_deref());
            }
            room.end_if_empty();
        };
        if records.is_empty() {
            return then(self, now);
        }
        self.commit(records, frame, now, then);
    }

    /// What a request of an owner changes of the lists of admins and owners, if it can.
    pub(crate) fn changes_wanted(&self, from: &str, query: &Child<'_>) -> Option<Vec<Affiliated>> {
        let mut forms = query.children();
        let x = forms.find(|x| x.name() == "x" && x.ns() == DATA_FORMS)?;
        let Ok(Form::Submitted(form)) = Form::parse(&x, FORM_TYPE) else {
            return None;
        };
        let config = &self.state.as_ref()?.config;
        let submitted = config.with(&form, &self.options.limits).ok()?;
        self.changes_of(addr::bare_part(from), &submitted).ok()
    }

    /// What the lists of admins and owners in a form change.
    fn changes_of(&self, actor: &str, form: &Submitted) -> Result<Vec<Affiliated>, Condition> {
        let Some(state) = &self.state else {
            return Err(Condition::ItemNotFound);
        };
        let list = |a| {
            state
                .list(a)
                .map(|one| one.address)
                .collect::<Vec<String>>()
        };
        let (old_admins, old_owners) = (list(Affiliation::Admin), list(Affiliation::Owner));
        let owners = form.owners.as_ref().unwrap_or(&old_owners);
        let admins = form.admins.as_ref().unwrap_or(&old_admins);
        if owners.is_empty() {
            return Err(Condition::Conflict);
        }
        // There may be thousands of them.
        let new_owners: BTreeSet<&String> = owners.iter().collect();
        let new_admins: BTreeSet<&String> = admins.iter().collect();
        let wanted = |address: &String| match () {
            () if new_owners.contains(address) => Affiliation::Owner,
            () if new_admins.contains(address) => Affiliation::Admin,
            () => Affiliation::None,
        };
        let mut all: Vec<&String> = [&old_admins, &old_owners, admins, owners]
            .into_iter()
            .flatten()
            .collect();
        all.sort_unstable();
        all.dedup();
        let mut changes = Vec::new();
        for address in all {
            let affiliation = wanted(address);
            let old = state.affiliated(address).unwrap_or_default();
            if old.affiliation == affiliation {
                continue;
            }
            // Who configures the room does not lock himself out of it by a list without him.
            if address == actor && affiliation < Affiliation::Admin {
                return Err(Condition::Conflict);
            }
            let nick = old.nick.filter(|_| affiliation != Affiliation::None);
            changes.push(Affiliated {
                address: address.clone(),
                affiliation,
                nick,
                reason: None,
            });
        }
        self.keeps_an_owner(changes.iter())?;
        match state.has_room_for(&changes, &self.options.limits) {
            true => Ok(changes),
            false => Err(Condition::ResourceConstraint),
        }
    }

    /// What a new configuration means for those present (section 10.2.1).
    fn configured(&mut self, old: &Config) {
        let Some(state) = &self.state else { return };
        let new = state.config.clone();
        if new.is_members_only && !old.is_members_only {
            let occupants = self.occupants.iter();
            let others = occupants.filter(|(_, o)| o.affiliation < Affiliation::Member);
            let tell = Tell {
                codes: vec![322],
                ..Tell::default()
            };
            let going = others.map(|(key, o)| (key, o.affiliation, tell.clone()));
            let going = going.collect();
            self.eject(going);
        }
        let codes = status_codes(old, &new);
        if !codes.is_empty() {
            self.send_status(&codes);
        }
        if new.presence_of != old.presence_of {
            self.show_again(old);
        }
    }

    /// Shows and hides occupants after the set of roles whose presence is told has changed.
    fn show_again(&mut self, old: &Config) {
        let all = self.occupants.iter();
        let was = |o: &crate::occupants::Occupant| o.is_announced && old.presence_of.has(o.role);
        let changed = all.filter(|(_, o)| was(o) != self.is_shown(o));
        let changed: Vec<_> = changed.map(|(key, o)| (key, was(o))).collect();
        for (key, was_shown) in changed {
            self.tell_others(
                key,
                &Tell {
                    is_unavailable: was_shown,
                    ..Tell::default()
                },
            );
        }
    }

    // === the end ===

    /// The creator does not want the room after all.
    fn abandon(&mut self, frame: &Frame, now: Timestamp) {
        let request = frame.clone();
        self.commit(vec![Record::Destroyed], frame, now, move |room, _| {
            let tell = Tell {
                codes: vec![],
                ..Tell::default()
            };
            room.answer(&request, &[]);
            room.clear(&tell);
        });
    }

    /// Section 10.9.
    fn destroy(&mut self, frame: &Frame, destroy: &Frame, now: Timestamp) {
        let bytes_max = self.options.limits.reason_bytes_max;
        let venue = match destroy
            .attr("jid")
            .map(|jid| addr::normalize(&jid).map(|j| j.into_owned()))
        {
            None => None,
            Some(Ok(venue)) => Some(venue),
            Some(Err(_)) => return self.refuse(frame, Condition::JidMalformed),
        };
        let mut children = destroy.children();
        let password = children.find(|child| child.name() == "password");
        let password = password.and_then(|p| Some(p.text()?.into_owned()));
        let mut element = Vec::new();
        let mut writer = Writer::new(&mut element);
        writer.open("destroy");
        if let Some(venue) = venue.filter(|_| !bugs::is("destroy_without_venue")) {
            writer.attr("jid", &venue);
        }
        if let Some(reason) = reason_of(destroy, bytes_max) {
            writer.open("reason").text(&reason).close();
        }
        if let Some(password) = password.filter(|p| p.len() <= bytes_max) {
            writer.open("password").text(&password).close();
        }
        writer.close();
        let request = frame.clone();
        self.commit(vec![Record::Destroyed], frame, now, move |room, _| {
            room.clear(&Tell {
                destroy: element,
                ..Tell::default()
            });
            room.answer(&request, &[]);
        });
    }

    /// An operator wants the room to be gone.
    pub(crate) fn destroy_for(&mut self, reason: Option<&str>, now: Timestamp) {
        if self.state.is_none() {
            return self.effects.push(Effect::Ended);
        }
        let mut element = Vec::new();
        let mut writer = Writer::new(&mut element);
        writer.open("destroy");
        if let Some(reason) = reason {
            writer.open("reason").text(reason).close();
        }
        writer.close();
        let nobody = self.empty.clone();
        self.commit(vec![Record::Destroyed], &nobody, now, move |room, _| {
            room.clear(&Tell {
                destroy: element,
                ..Tell::default()
            });
        });
    }

    /// Everybody is told that he is no longer there, of nobody but himself: nothing else matters
    /// any more.
    pub(crate) fn clear(&mut self, tell: &Tell) {
        let keys: Vec<_> = self.occupants.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.tell_himself(
                key,
                &Tell {
                    is_unavailable: true,
                    ..tell.clone()
                },
            );
            self.occupants.remove(key);
        }
        if self.state.is_none() {
            self.effects.push(Effect::Ended);
        }
    }

    /// The service ends (status 332). What is durable stays.
    pub(crate) fn shut_down(&mut self) {
        self.clear(&Tell {
            codes: vec![332],
            ..Tell::default()
        });
        self.end_if_empty();
    }
}

/// The codes of section 10.2.1 for what has changed.
fn status_codes(old: &Config, new: &Config) -> Vec<u16> {
    let mut codes = Vec::new();
    if old.is_logged != new.is_logged {
        codes.push(if new.is_logged { 170 } else { 171 });
    }
    if old.whois != new.whois && !bugs::is("privacy_change_is_not_said") {
        codes.push(match new.whois {
            Whois::Anyone => 172,
            Whois::Moderators => 173,
            Whois::Nobody => 174,
        });
    }
    let rest = Config {
        is_logged: old.is_logged,
        whois: old.whois,
        ..new.clone()
    };
    if rest != *old {
        codes.push(104);
    }
    codes
}
