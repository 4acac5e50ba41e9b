//! Registration with a room: becoming a member with a nick of one's own (XEP-0045 sections 7.10
//! and 7.12, XEP-0077). Rooms whose admins approve members: `approve.rs`.

use stdx::Timestamp;
use xml::Frame;
use xml::build::Writer;
use xmpp::addr;
use xmpp::error::Condition;
use xmpp::ns::{DATA_FORMS, REGISTER};

use crate::affiliation::Affiliation;
use crate::form::{Form, FormWriter};
use crate::record::{Affiliated, Record};
use crate::room::Room;

pub(crate) const FORM_TYPE: &str = "http://jabber.org/protocol/muc#register";
pub(crate) const NICK: (&str, &str, &str) = ("muc#register_roomnick", "text-single", "Nick");

impl Room {
    /// `<query xmlns='jabber:iq:register'/>`.
    pub(crate) fn register(&mut self, frame: &Frame, is_set: bool, from: &str, now: Timestamp) {
        let bare = addr::bare_part(from).to_owned();
        if let Err(condition) = self.may_register(&bare) {
            return self.refuse(frame, condition);
        }
        if !is_set {
            return self.send_registration(frame, &bare);
        }
        let Some(query) = frame.children().next() else {
            return;
        };
        let children: Vec<Frame> = query.children().collect();
        if children.iter().any(|child| child.name() == "remove") {
            return self.unregister(frame, &bare, now);
        }
        let form = children
            .iter()
            .find(|child| child.name() == "x" && child.ns() == DATA_FORMS);
        let wanted = match form.map(|form| Form::parse(form, FORM_TYPE)) {
            Some(Ok(Form::Submitted(form))) => form.one(NICK.0).map(str::to_owned),
            Some(Ok(Form::Cancelled)) => return self.answer(frame, &[]),
            Some(Err(condition)) => return self.refuse(frame, condition),
            None => None,
        };
        // Section 7.10: a form without the nick that it requires is a bad request.
        let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else {
            return self.refuse(frame, Condition::BadRequest);
        };
        match self.registration(&bare, &wanted) {
            Ok(new) if self.is_put_to_admins(&bare) => self.ask_admins(frame, &new, now),
            Ok(new) => self.affiliate_self(frame, new, now),
            Err(condition) => self.refuse(frame, condition),
        }
    }

    fn may_register(&self, bare: &str) -> Result<(), Condition> {
        let state = self.state.as_ref().ok_or(Condition::ItemNotFound)?;
        match state.affiliation(bare) {
            // Section 7.10 has one error for everybody who is not allowed to, bans included.
            Affiliation::Outcast => Err(Condition::NotAllowed),
            Affiliation::None if !state.config.may_register => Err(Condition::NotAllowed),
            // Who enters a members-only room is decided by its admins.
            Affiliation::None if state.config.is_members_only && !state.config.approves_members => {
                Err(Condition::NotAllowed)
            }
            _ if state.is_locked => Err(Condition::ItemNotFound),
            _ => Ok(()),
        }
    }

    pub(crate) fn registration(&self, bare: &str, wanted: &str) -> Result<Affiliated, Condition> {
        let state = self.state.as_ref().ok_or(Condition::ItemNotFound)?;
        let nick = self.reserve(bare, wanted)?;
        // A nick that somebody else uses at the moment is taken too.
        let holder = self
            .occupants
            .by_nick(&nick)
            .and_then(|key| self.occupants.get(key));
        if holder.is_some_and(|holder| holder.bare() != bare) {
            return Err(Condition::Conflict);
        }
        let old = state.affiliated(bare);
        let new = Affiliated {
            address: bare.to_owned(),
            affiliation: state.affiliation(bare).max(Affiliation::Member),
            nick: Some(nick),
            reason: old.and_then(|old| old.reason),
        };
        match state.has_room_for([&new], &self.options.limits) {
            true => Ok(new),
            false => Err(Condition::ResourceConstraint),
        }
    }

    fn send_registration(&mut self, frame: &Frame, bare: &str) {
        let nick = self
            .state
            .as_ref()
            .and_then(|state| state.reserved_nick(bare));
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attr("xmlns", REGISTER);
        if let Some(nick) = nick {
            writer.open("registered").close();
            writer.open("username").text(nick).close();
        } else {
            let mut form = FormWriter::new(&mut writer, "form", FORM_TYPE);
            form.field(NICK, &[], &[]);
            form.close();
        }
        writer.close();
        self.answer(frame, &out);
    }

    /// XEP-0077 section 3.2: a member is none any more; one who is more keeps that.
    fn unregister(&mut self, frame: &Frame, bare: &str, now: Timestamp) {
        let old = self.state.as_ref().and_then(|state| state.affiliated(bare));
        let Some(old) = old else {
            return self.refuse(frame, Condition::RegistrationRequired);
        };
        let affiliation = match old.affiliation {
            Affiliation::Member => Affiliation::None,
            other => other,
        };
        let new = Affiliated {
            affiliation,
            nick: None,
            ..old
        };
        self.affiliate_self(frame, new, now);
    }

    fn affiliate_self(&mut self, frame: &Frame, new: Affiliated, now: Timestamp) {
        let state = self.state.as_ref();
        let old = state.map_or(Affiliation::None, |state| state.affiliation(&new.address));
        let request = frame.clone();
        self.commit(
            vec![Record::Affiliated(new.clone())],
            frame,
            now,
            move |room, _| {
                room.answer(&request, &[]);
                if old != new.affiliation {
                    room.affiliation_changed(&new, old, None);
                }
                room.end_if_empty();
            },
        );
    }
}
