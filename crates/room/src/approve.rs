//! Registration that admins approve (XEP-0045 section 9.9): who wants to become a member is put to
//! the owners and admins, and becomes one when one of them says so. The room keeps no list of who
//! waits: the request is in the messages to them, and it is theirs to make members anyway.

use stdx::Timestamp;
use xml::Frame;
use xml::build::Writer;
use xmpp::addr;
use xmpp::error::Condition;

use crate::affiliation::Affiliation;
use crate::form::{FormWriter, Submission, flag};
use crate::record::{Affiliated, Record};
use crate::register::{FORM_TYPE, NICK};
use crate::room::{Effect, Room};

/// Not in the registry: the document's form names nobody but by what he says of himself.
const ADDRESS: (&str, &str, &str) = ("x-register_jid", "jid-single", "Address");
const ALLOW: (&str, &str, &str) = (
    "muc#register_allow",
    "boolean",
    "Allow this person to register with the room?",
);

impl Room {
    /// Whether admins decide if this address becomes a member.
    pub(crate) fn is_put_to_admins(&self, bare: &str) -> bool {
        self.state.as_ref().is_some_and(|state| {
            state.config.approves_members && state.affiliation(bare) == Affiliation::None
        })
    }

    /// Puts a request to the owners and admins. Who made it is told that it was taken.
    pub(crate) fn ask_admins(&mut self, frame: &Frame, wanted: &Affiliated, now: Timestamp) {
        let limits = self.options.limits;
        if !self.approvals.take(now, limits.invitations_per_minute_max) {
            return self.refuse(frame, Condition::ResourceConstraint);
        }
        let Some(state) = &self.state else { return };
        let owners = state.list(Affiliation::Owner);
        let all = owners.chain(state.list(Affiliation::Admin));
        let all = all.take(limits.approvers_max).map(|one| one.address);
        let asked: Vec<String> = all.collect();
        for to in asked {
            let mut bytes = Vec::new();
            let mut writer = Writer::new(&mut bytes);
            writer
                .open("message")
                .attr("from", &self.address)
                .attr("to", &to);
            let mut form = FormWriter::new(&mut writer, "form", FORM_TYPE);
            form.field(ADDRESS, &[&wanted.address], &[]);
            let nick = wanted.nick.as_deref().unwrap_or_default();
            form.field(NICK, &[nick], &[]);
            form.field(ALLOW, &["0"], &[]);
            form.close();
            writer.close();
            self.effects
                .extend(Frame::parse(bytes).ok().map(Effect::Deliver));
        }
        self.answer(frame, &[]);
    }

    /// An admin has filled the form in. It goes to several: who is a member by then stays what he
    /// is, and so does who was banned meanwhile.
    pub(crate) fn registration_form(
        &mut self,
        frame: &Frame,
        from: &str,
        form: &Submission,
        now: Timestamp,
    ) {
        if self.affiliation_of(from) < Affiliation::Admin {
            return self.refuse(frame, Condition::Forbidden);
        }
        let Some(is_allowed) = form.one(ALLOW.0).and_then(flag) else {
            return self.refuse(frame, Condition::BadRequest);
        };
        if !is_allowed {
            return;
        }
        let (address, nick) = (form.one(ADDRESS.0), form.one(NICK.0));
        let Some((address, nick)) = address.zip(nick) else {
            return self.refuse(frame, Condition::BadRequest);
        };
        let Ok(address) = addr::normalize(address) else {
            return self.refuse(frame, Condition::JidMalformed);
        };
        let bare = addr::bare_part(&address).to_owned();
        let old = self.state.as_ref().map(|state| state.affiliation(&bare));
        if old != Some(Affiliation::None) {
            return;
        }
        let new = match self.registration(&bare, nick) {
            Ok(new) => new,
            Err(condition) => return self.refuse(frame, condition),
        };
        let from = from.to_owned();
        let records = vec![Record::Affiliated(new.clone())];
        self.commit(records, frame, now, move |room, now| {
            let actor = room.sender(&from).map(|(_, nick)| nick.to_string());
            room.affiliation_changed(&new, Affiliation::None, actor.as_deref());
            room.invite_member(&new, &from, now);
        });
    }
}
