//! What the room passes on between people: invitations, their refusal, and requests for voice
//! (XEP-0045 sections 7.8.2, 7.13 and 8.6). Direct invitations (XEP-0249) do not come by a room.

use stdx::Timestamp;
use xml::Frame;
use xml::build::Writer;
use xmpp::addr;
use xmpp::error::{Condition, StanzaError};
use xmpp::ns::DATA_FORMS;

use crate::affiliation::{Affiliation, Role};
use crate::broadcast::{NS_USER, Tell, hex};
use crate::config::Whois;
use crate::form::{Form, FormWriter, Submission, flag};
use crate::occupants::{Key, Occupant};
use crate::record::{Affiliated, Record};
use crate::register;
use crate::room::{Effect, Room};

/// What the id of an invitation begins with.
const INVITE_ID: &str = "invite.";

const VOICE_FORM: &str = "http://jabber.org/protocol/muc#request";

/// The occupant id of who asks for voice (XEP-0421). Not in the registry: the document's form names
/// him by an address, which not every room shows, and by a nick, which may change hands.
const ASKER: &str = "x-request_occupant";

/// One invitation.
struct Invite {
    to: String,
    reason: Option<String>,
    /// `<continue/>` with its thread.
    goes_on: Option<Option<String>>,
}

impl Room {
    /// A message to the room that is not for all.
    pub(crate) fn mediate(&mut self, frame: &Frame, from: &str, now: Timestamp) {
        if let Some(x) = frame.child("x", NS_USER) {
            let children: Vec<Frame> = x.children().collect();
            let named = |name: &str| {
                children
                    .iter()
                    .filter(|c| c.name() == name)
                    .cloned()
                    .collect()
            };
            let invites: Vec<Frame> = named("invite");
            if !invites.is_empty() {
                return self.invite(frame, from, &invites, now);
            }
            if let [decline] = named("decline").as_slice() {
                return self.decline(frame, from, decline, now);
            }
        }
        if let Some(x) = frame
            .child("x", DATA_FORMS)
            .and_then(|x| Frame::parse(x.to_xml()).ok())
        {
            if let Ok(Form::Submitted(form)) = Form::parse(&x, register::FORM_TYPE)
                && form.one("FORM_TYPE").is_some()
            {
                return self.registration_form(frame, from, &form, now);
            }
            return match Form::parse(&x, VOICE_FORM) {
                Ok(Form::Submitted(form)) => self.voice_form(frame, from, &form, now),
                Ok(Form::Cancelled) => {}
                Err(condition) => self.refuse(frame, condition),
            };
        }
        let is_here = self.occupants.by_address(from).is_some();
        self.refuse(
            frame,
            if is_here {
                Condition::BadRequest
            } else {
                Condition::NotAcceptable
            },
        );
    }

    /// Whether this occupant may invite (section 7.8.2).
    fn may_invite(&self, key: Key) -> Result<(), Condition> {
        let (Some(state), Some(occupant)) = (&self.state, self.occupants.get(key)) else {
            return Err(Condition::NotAcceptable);
        };
        // An invitation to a members-only room makes a member, which takes an admin.
        let may = if state.config.is_members_only {
            occupant.affiliation >= Affiliation::Admin
        } else {
            match occupant.role {
                Role::Moderator => true,
                Role::Participant => state.config.may_invite,
                Role::Visitor | Role::None => false,
            }
        };
        if may {
            Ok(())
        } else {
            Err(Condition::Forbidden)
        }
    }

    fn invite(&mut self, frame: &Frame, from: &str, invites: &[Frame], now: Timestamp) {
        let Some((key, _)) = self.sender(from) else {
            return self.refuse(frame, Condition::NotAcceptable);
        };
        let limits = self.options.limits;
        let found = self.may_invite(key).and_then(|()| {
            if invites.len() > limits.invitations_per_message_max {
                return Err(Condition::NotAcceptable);
            }
            invites
                .iter()
                .map(|one| parse_invite(one, limits.reason_bytes_max))
                .collect()
        });
        let found: Vec<Invite> = match found {
            Ok(found) => found,
            Err(condition) => return self.refuse(frame, condition),
        };
        for _ in &found {
            if !self
                .invitations
                .take(now, limits.invitations_per_minute_max)
            {
                return self.refuse(frame, Condition::ResourceConstraint);
            }
        }
        let Some(state) = &self.state else { return };
        let mut members: Vec<Affiliated> = Vec::new();
        for invite in &found {
            let bare = addr::bare_part(&invite.to);
            match state.affiliation(bare) {
                // An admin lifts a ban before inviting. Others do not learn who is banned.
                Affiliation::Outcast if state.config.is_members_only => {
                    return self.refuse(frame, Condition::Forbidden);
                }
                Affiliation::None if state.config.is_members_only => {
                    members.push(Affiliated {
                        address: bare.to_owned(),
                        affiliation: Affiliation::Member,
                        ..Affiliated::default()
                    });
                }
                _ => {}
            }
        }
        if !state.has_room_for(&members, &limits) {
            return self.refuse(frame, Condition::ResourceConstraint);
        }
        let records: Vec<Record> = members.into_iter().map(Record::Affiliated).collect();
        let from = from.to_owned();
        let id = frame.attr("id").map(std::borrow::Cow::into_owned);
        let send = move |room: &mut Room, _| room.send_invites(&found, &from, id.as_deref());
        if records.is_empty() {
            return send(self, now);
        }
        self.commit(records, frame, now, send);
    }

    fn send_invites(&mut self, invites: &[Invite], from: &str, id: Option<&str>) {
        let (Some(state), Some((_, nick))) = (&self.state, self.sender(from)) else {
            return;
        };
        // In a room that hides addresses the inviter's stays hidden too.
        let inviter = match state.config.whois {
            Whois::Anyone => addr::bare_part(from).to_owned(),
            _ => format!("{}/{nick}", self.address),
        };
        // Named after the session that sends it, which hears if nobody is there.
        let id = format!(
            "{INVITE_ID}{}.{}",
            self.number_of(from),
            id.unwrap_or_default()
        );
        let frames = invites.iter();
        let frames = frames.filter_map(|invite| self.invitation(invite, &inviter, Some(&id)));
        let frames: Vec<Effect> = frames.map(Effect::Deliver).collect();
        self.effects.extend(frames);
    }

    fn invitation(&self, invite: &Invite, inviter: &str, id: Option<&str>) -> Option<Frame> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer
            .open("message")
            .attr("from", &self.address)
            .attr("to", &invite.to);
        if let Some(id) = id {
            writer.attr("id", id);
        }
        writer.open("x").attr("xmlns", NS_USER);
        writer.open("invite").attr("from", inviter);
        if let Some(reason) = &invite.reason {
            writer.open("reason").text(reason).close();
        }
        if let Some(thread) = &invite.goes_on {
            writer.open("continue");
            if let Some(thread) = thread {
                writer.attr("thread", thread);
            }
            writer.close();
        }
        writer.close();
        let password = self.state.as_ref().map(|state| &state.config.password);
        if let Some(password) = password.filter(|password| !password.is_empty()) {
            writer.open("password").text(password).close();
        }
        writer.close().close();
        Frame::parse(bytes).ok()
    }

    fn number_of(&self, full: &str) -> u32 {
        let key = self.occupants.by_address(full);
        let occupant = key.and_then(|key| self.occupants.get(key));
        let mut sessions = occupant.iter().flat_map(|occupant| &occupant.sessions);
        let own = sessions.find(|session| &*session.address == full);
        own.map_or(0, |session| session.number)
    }

    /// An invitation came back: there is no such address (section 7.8.2). Who sent it is told, if
    /// he is still there. Anybody can send such an error: so many are looked at as answers to
    /// invitations are.
    pub(crate) fn invitation_came_back(&mut self, frame: &Frame, from: &str, now: Timestamp) {
        let id = frame.attr("id").unwrap_or_default();
        let named = id.strip_prefix(INVITE_ID).and_then(|id| id.split_once('.'));
        let Some((Ok(number), id)) = named.map(|(number, id)| (number.parse::<u32>(), id)) else {
            return;
        };
        let max = self.options.limits.invitations_per_minute_max;
        if !self.declines.take(now, max) {
            return;
        }
        let mut sessions = self.occupants.iter().flat_map(|(_, o)| &o.sessions);
        let Some(session) = sessions.find(|session| session.number == number) else {
            return;
        };
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.open("message").attr("type", "error");
        writer
            .attr("from", &self.address)
            .attr("to", &session.address);
        if !id.is_empty() {
            writer.attr("id", id);
        }
        writer.open("x").attr("xmlns", NS_USER);
        writer.open("invite").attr("to", from).close().close();
        let mut error = Vec::new();
        StanzaError::new(Condition::ItemNotFound).write(&mut error);
        writer.raw(&error).close();
        self.effects
            .extend(Frame::parse(bytes).ok().map(Effect::Deliver));
    }

    /// Section 9.5: whom an admin has made a member of a members-only room is invited, if he had
    /// nothing to do with it before. It is not said who has sent it, unless everybody may know; and
    /// it uses up what the room may send: behind that he is a member without hearing of it.
    pub(crate) fn invite_member(&mut self, new: &Affiliated, from: &str, now: Timestamp) {
        let Some(state) = &self.state else { return };
        let is_account = addr::split(&new.address).node.is_some();
        if !state.config.is_members_only || !is_account {
            return;
        }
        let max = self.options.limits.invitations_per_minute_max;
        if !self.invitations.take(now, max) {
            return;
        }
        let inviter = match (state.config.whois, self.sender(from)) {
            (Whois::Anyone, _) => addr::bare_part(from).to_owned(),
            (_, Some((_, nick))) => format!("{}/{nick}", self.address),
            (_, None) => self.address.to_string(),
        };
        let invite = Invite {
            to: new.address.clone(),
            reason: new.reason.clone(),
            goes_on: None,
        };
        let frame = self.invitation(&invite, &inviter, None);
        self.effects.extend(frame.map(Effect::Deliver));
    }

    /// The invitation was refused: who made it is told, if still there.
    fn decline(&mut self, frame: &Frame, from: &str, decline: &Frame, now: Timestamp) {
        let Some(to) = decline
            .attr("to")
            .and_then(|to| addr::normalize(&to).ok().map(|to| to.into_owned()))
        else {
            return self.refuse(frame, Condition::JidMalformed);
        };
        if self.affiliation_of(from) == Affiliation::Outcast {
            return self.refuse(frame, Condition::Forbidden);
        }
        if !self
            .declines
            .take(now, self.options.limits.invitations_per_minute_max)
        {
            return self.refuse(frame, Condition::ResourceConstraint);
        }
        let parts = addr::split(&to);
        let target = match addr::bare_part(&to) {
            room if room == &*self.address => {
                parts.resource.and_then(|nick| self.occupants.by_nick(nick))
            }
            // Who invites is an account, not all of a domain.
            bare if parts.node.is_some() => self.occupants.of(bare).first().copied(),
            _ => None,
        };
        // Nobody learns from an error whose address is in the room.
        let Some(target) = target.and_then(|key| self.occupants.get(key)) else {
            return;
        };
        let audience = target.audience();
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.open("message").attr("from", &self.address);
        writer.open("x").attr("xmlns", NS_USER);
        // An occupant who declines is known by his nick; others have only their address, which
        // they send to somebody who has invited it.
        let own = self
            .sender(from)
            .map(|(_, nick)| format!("{}/{nick}", self.address));
        let own = own.unwrap_or_else(|| addr::bare_part(from).to_owned());
        writer.open("decline").attr("from", &own);
        if let Some(reason) = reason_of(decline, self.options.limits.reason_bytes_max) {
            writer.open("reason").text(&reason).close();
        }
        writer.close().close().close();
        if let Ok(frame) = Frame::parse(bytes) {
            self.send(frame, audience);
        }
    }

    // === voice ===

    /// A visitor asks for voice, or a moderator says yes.
    fn voice_form(&mut self, frame: &Frame, from: &str, form: &Submission, now: Timestamp) {
        let Some((key, nick)) = self.sender(from) else {
            return self.refuse(frame, Condition::NotAcceptable);
        };
        let Some(role) = self.occupants.get(key).map(|occupant| occupant.role) else {
            return;
        };
        let Some(allow) = form.one("muc#request_allow") else {
            return self.request_voice(frame, key, &nick, role, now);
        };
        if role != Role::Moderator {
            return self.refuse(frame, Condition::Forbidden);
        }
        let target = match self.who_asked(form) {
            Ok(target) => target,
            Err(condition) => return self.refuse(frame, condition),
        };
        let Some(occupant) = self.occupants.get(target) else {
            return;
        };
        let (role, affiliation) = (occupant.role, occupant.affiliation);
        // One who has voice already keeps what he has.
        if flag(allow) == Some(true) && role == Role::Visitor {
            self.set_role(target, (Role::Participant, affiliation), &Tell::default());
        }
    }

    /// Who asked, by the form that a moderator was sent and has filled in. A nick does not say it:
    /// by now it may be somebody else's.
    fn who_asked(&self, form: &Submission) -> Result<Key, Condition> {
        let nick = form.one("muc#roomnick");
        if let Some(id) = form.one(ASKER) {
            // An account may be there under several nicks, all with one id.
            let is_asker = |(_, one): &(Key, &Occupant)| hex(&one.id) == id;
            let askers = self.occupants.iter().filter(is_asker);
            let has_nick = |(_, one): &(Key, &Occupant)| nick == Some(&*one.nick);
            let found = askers.max_by_key(has_nick);
            return found.map(|(key, _)| key).ok_or(Condition::ItemNotFound);
        }
        let address = form.one("muc#jid").ok_or(Condition::BadRequest)?;
        let address = addr::normalize(address).map_err(|_| Condition::JidMalformed)?;
        // Who is not shown addresses finds nobody by them.
        let found = self.occupants.by_address(&address);
        let found = found.filter(|_| self.sees_addresses(Role::Moderator));
        found.ok_or(Condition::ItemNotFound)
    }

    fn request_voice(&mut self, frame: &Frame, key: Key, nick: &str, role: Role, now: Timestamp) {
        let allows = self
            .state
            .as_ref()
            .is_some_and(|state| state.config.may_request_voice);
        if !allows {
            return self.refuse(frame, Condition::Forbidden);
        }
        if role != Role::Visitor {
            return self.refuse(frame, Condition::BadRequest);
        }
        if !self
            .voice
            .take(now, self.options.limits.invitations_per_minute_max)
        {
            return self.refuse(frame, Condition::ResourceConstraint);
        }
        let Some(occupant) = self.occupants.get(key) else {
            return;
        };
        let shows_address = self.sees_addresses(Role::Moderator);
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.open("message").attr("from", &self.address);
        let mut form = FormWriter::new(&mut writer, "form", VOICE_FORM);
        form.field(
            ("muc#role", "list-single", "Requested role"),
            &["participant"],
            &[],
        );
        if shows_address {
            let address = &*occupant.sessions[0].address;
            form.field(("muc#jid", "jid-single", "User"), &[address], &[]);
        }
        form.field(("muc#roomnick", "text-single", "Nick"), &[nick], &[]);
        form.field((ASKER, "hidden", ""), &[&hex(&occupant.id)], &[]);
        form.field(
            ("muc#request_allow", "boolean", "Grant voice?"),
            &["false"],
            &[],
        );
        form.close();
        writer.close();
        let moderators = self
            .occupants
            .iter()
            .filter(|(_, o)| o.role == Role::Moderator);
        let to = moderators.flat_map(|(_, o)| &o.sessions);
        let to = to
            .map(|session| std::sync::Arc::clone(&session.address))
            .collect();
        if let Ok(frame) = Frame::parse(bytes) {
            self.send(frame, to);
        }
    }
}

fn parse_invite(invite: &Frame, reason_bytes_max: usize) -> Result<Invite, Condition> {
    let to = invite.attr("to").ok_or(Condition::BadRequest)?;
    let to = addr::normalize(&to).map_err(|_| Condition::JidMalformed)?;
    if addr::split(&to).node.is_none() {
        return Err(Condition::JidMalformed);
    }
    let mut children = invite.children();
    let goes_on = children.find(|child| child.name() == "continue");
    Ok(Invite {
        to: to.into_owned(),
        reason: reason_of(invite, reason_bytes_max),
        goes_on: goes_on.map(|c| c.attr("thread").map(std::borrow::Cow::into_owned)),
    })
}

/// The text of `<reason/>`; too long a one is left out.
pub(crate) fn reason_of(element: &Frame, bytes_max: usize) -> Option<String> {
    let mut children = element.children();
    let text = children.find(|child| child.name() == "reason")?.text()?;
    (!text.is_empty() && text.len() <= bytes_max).then(|| text.into_owned())
}
