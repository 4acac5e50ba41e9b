//! Presence of a user's sessions (RFC 6121 section 4): broadcast, probes, directed presence and its
//! clean-up, and what a session is told when it comes online.

use std::mem;
use std::sync::Arc;

use actor::{Context, Mail, Name};
use net::ConnRef;
use store::Record;
use xml::Frame;
use xml::build::Writer;
use xmpp::error::{Condition, StanzaError};
use xmpp::{ns, stanza};

use super::User;
use super::barrier::Effect;
use super::outbound::Destination;
use super::session::Session;
use super::subscription::Action;
use crate::address;
use crate::blocklist::Blocklist;
use crate::limits::DIRECTED_MAX;
use crate::message::{Delivery, UserMsg};
use crate::modules::vcard;

impl User {
    /// Sections 4.2 and 4.4: a session announces itself, or a change of its presence.
    pub(super) fn available(&mut self, at: usize, frame: Frame, cx: &mut Context<'_, UserMsg>) {
        let frame = self.with_own_photo(frame);
        let Ok(priority) = stanza::presence_priority(&frame) else {
            let error = StanzaError::new(Condition::BadRequest)
                .with_text("A priority is a number from -128 to 127.");
            return self.reply_error(self.sessions[at].conn, &frame, &error, cx);
        };
        let session = &mut self.sessions[at];
        let is_initial = !session.is_available();
        let took = session.takes_messages();
        session.priority = priority;
        let (conn, full) = (session.conn, Arc::clone(&session.full));
        self.show_new_presence(at, frame, cx);
        if is_initial {
            self.probe_contacts(&full, cx);
            self.show_own_resources(at, cx);
            self.show_waiting_requests(conn, cx);
        }
        self.look_at_caps(at, 0, cx);
        if self.is_any_member() && took != self.sessions[at].takes_messages() {
            self.takes_as_member(at);
        }
    }

    /// Available presence with the hash of the photo that the account's vCard has.
    fn with_own_photo(&self, frame: Frame) -> Frame {
        let photo_hash = self.photo_hash.as_deref().map(String::as_str);
        let photo_hash = photo_hash.filter(|_| self.home.options.modules.has(&vcard::MODULE));
        vcard::with_photo_hash(frame, photo_hash)
    }

    /// The presence of a session is another one from now on, though its client said nothing.
    pub(super) fn show_new_presence(
        &mut self,
        at: usize,
        frame: Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.sessions[at].presence = Some(frame.clone());
        self.save_session(at);
        self.broadcast(&frame, cx);
        for other in 0..self.sessions.len() {
            if self.sessions[other].is_available() {
                self.write_presence(self.sessions[other].conn, &frame, cx);
            }
        }
    }

    /// Section 4.5: a session says that it leaves. It stays connected and may come back.
    pub(super) fn unavailable(&mut self, at: usize, frame: Frame, cx: &mut Context<'_, UserMsg>) {
        self.members_may_change();
        let session = &mut self.sessions[at];
        let was_available = session.presence.take().is_some();
        let directed = session.directed.take();
        let number = session.number_for_rooms();
        session.caps = None;
        if !was_available && directed.is_none() {
            return;
        }
        let conn = session.conn;
        for to in directed.iter().flat_map(|directed| directed.iter()) {
            self.stop_reading(at, &Name::from(address::bare(to)));
            self.is_not_out(at, address::bare(to));
        }
        self.save_session(at);
        self.leave((&frame, number), was_available, directed, cx);
        if was_available {
            self.write_presence(conn, &frame, cx);
        }
    }

    /// The same for a session whose connection ended, with its number for rooms; it is no longer
    /// one of the user's.
    pub(super) fn announce_end(
        &mut self,
        (session, number): (&Session, Option<u32>),
        was_available: bool,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let frame = unavailable_of(&session.full);
        let directed = session.directed.clone();
        self.leave((&frame, number), was_available, directed, cx);
    }

    /// Whoever was shown a session is told that it is not there any more: also if the append fails
    /// that records so, for in memory it is gone. Rooms are told which session of that address it
    /// was: they may hear of the next one first.
    fn leave(
        &mut self,
        (frame, number): (&Frame, Option<u32>),
        was_available: bool,
        directed: Option<Box<Vec<Box<str>>>>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.turn().is_leaving = true;
        self.tell_of_leaving((frame, number), was_available, directed, cx);
        self.turn().is_leaving = false;
    }

    fn tell_of_leaving(
        &mut self,
        (frame, number): (&Frame, Option<u32>),
        was_available: bool,
        directed: Option<Box<Vec<Box<str>>>>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if was_available {
            if self.last_session_left() {
                self.remember_last_activity(frame, cx);
            }
            self.broadcast(frame, cx);
            for other in 0..self.sessions.len() {
                if self.sessions[other].is_available() {
                    self.write_presence(self.sessions[other].conn, frame, cx);
                }
            }
        }
        // Section 4.6.3: those outside the roster who were shown this session's presence.
        for to in directed.into_iter().flat_map(|directed| *directed) {
            let seen = was_available && self.is_subscriber(address::bare(&to));
            // XEP-0191 section 3.3: to a blocked contact the user has left already.
            if !seen && !self.blocklist.covers(&to) {
                self.send_presence_of(&to, (frame.clone(), number), cx);
            }
        }
    }

    /// Remembers when the user was last here and what was said then (XEP-0012).
    fn remember_last_activity(&mut self, frame: &Frame, cx: &mut Context<'_, UserMsg>) {
        let status = frame
            .children()
            .find(|child| child.name() == "status")
            .and_then(|child| child.text())
            .map(|text| text.chars().take(256).collect::<String>())
            .unwrap_or_default();
        let at = cx.wall();
        self.last = Some(Box::new((at, status.clone())));
        self.record(Record::LastActivity {
            user: String::from(&*self.name),
            at,
            status,
        });
    }

    /// A session that missed presence is told of every contact again: those who are there answer a
    /// probe, after everybody was said to be away.
    pub(super) fn show_contacts_again(&mut self, at: usize, cx: &mut Context<'_, UserMsg>) {
        let (conn, full) = (self.sessions[at].conn, Arc::clone(&self.sessions[at].full));
        let roster = mem::take(&mut self.roster);
        for item in roster.iter().filter(|item| item.state.subscription.to()) {
            if self.may_reach(item.jid) {
                self.write_presence(conn, &unavailable_of(item.jid), cx);
            }
        }
        self.roster = roster;
        self.probe_contacts(&full, cx);
        self.show_own_resources(at, cx);
        self.show_waiting_requests(conn, cx);
    }

    /// Whether no session of the user is available any more.
    fn last_session_left(&self) -> bool {
        !self.sessions.iter().any(Session::is_available)
    }

    /// Whether a contact may see this user.
    pub(crate) fn is_subscriber(&self, bare: &str) -> bool {
        self.roster
            .find(bare)
            .is_some_and(|item| item.state.subscription.from())
    }

    /// Sends presence to every contact that may see it and is not blocked. Contacts who are not
    /// online are not disturbed: nobody would see it.
    fn broadcast(&mut self, frame: &Frame, cx: &mut Context<'_, UserMsg>) {
        let roster = mem::take(&mut self.roster);
        for item in roster.iter().filter(|item| item.state.subscription.from()) {
            if self.may_reach(item.jid) {
                let delivery = Delivery::new(None, frame.clone());
                self.forward(item.jid, delivery, false, cx);
            }
        }
        self.roster = roster;
    }

    /// Section 4.2.2: asks the contacts whom the user may see for their presence.
    fn probe_contacts(&mut self, full: &Arc<str>, cx: &mut Context<'_, UserMsg>) {
        let roster = mem::take(&mut self.roster);
        for item in roster.iter().filter(|item| item.state.subscription.to()) {
            if self.may_reach(item.jid) {
                let effect = Effect::Probe {
                    to: item.jid.into(),
                    from: Arc::clone(full),
                };
                self.emit(effect, cx);
            }
        }
        self.roster = roster;
    }

    /// Whether presence can and may go to a contact.
    pub(super) fn may_reach(&self, bare: &str) -> bool {
        self.destination(bare) == Destination::Local && !self.blocklist.covers(bare)
    }

    /// A new session learns which other resources of the user are there.
    fn show_own_resources(&mut self, at: usize, cx: &mut Context<'_, UserMsg>) {
        let conn = self.sessions[at].conn;
        for other in (0..self.sessions.len()).filter(|other| *other != at) {
            if let Some(frame) = self.sessions[other].presence.clone() {
                self.write_presence(conn, &frame, cx);
            }
        }
    }

    /// Section 3.1.3: requests that wait for an answer are shown to every session that comes.
    fn show_waiting_requests(&mut self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let roster = mem::take(&mut self.roster);
        for request in roster.iter().filter_map(|item| item.request()) {
            if let Ok(frame) = Frame::parse(request) {
                self.write_presence(conn, &frame, cx);
            }
        }
        self.roster = roster;
    }

    /// Section 4.6: presence for one entity, outside the broadcast.
    pub(super) fn directed_presence(
        &mut self,
        at: usize,
        to: &str,
        frame: Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if self.blocklist.is_active() && self.blocklist.covers(to) {
            // XEP-0191 section 3.2 asks for the same answer as for messages.
            let error = StanzaError::new(Condition::NotAcceptable)
                .with_kind("cancel")
                .with_app("<blocked xmlns='urn:xmpp:blocking:errors'/>");
            return self.reply_error(self.sessions[at].conn, &frame, &error, cx);
        }
        let is_room = self.home.hosts_rooms(address::domain(address::bare(to)));
        let was_there = is_room && self.has_entered(at, address::bare(to));
        if is_room {
            self.enters_or_leaves(at, to, frame.attr_raw("type").is_some());
        }
        let leaves = frame.attr_raw("type").is_some();
        let is_full = |directed: &Vec<Box<str>>| directed.len() >= DIRECTED_MAX;
        if !leaves && self.sessions[at].directed.as_deref().is_some_and(is_full) {
            self.forget_put_out(at);
        }
        let directed = self.sessions[at].directed.get_or_insert_default();
        let known = directed.iter().position(|other| **other == *to);
        if leaves {
            if let Some(known) = known {
                directed.swap_remove(known);
            }
        } else if known.is_none() {
            if directed.len() >= DIRECTED_MAX {
                let error = StanzaError::new(Condition::ResourceConstraint)
                    .with_text("This session has sent directed presence to too many addresses.");
                return self.reply_error(self.sessions[at].conn, &frame, &error, cx);
            }
            directed.push(to.into());
        }
        self.save_session(at);
        // Rooms too are told of the photo (XEP-0398 section 4).
        let frame = match leaves {
            true => frame,
            false => self.with_own_photo(frame),
        };
        let (bare, resource) = address::split(to);
        if is_room && !leaves && !was_there && frame.child("x", ns::MUC).is_some() {
            self.is_entering(at, bare);
        }
        if is_room && self.destination(bare) == Destination::Local {
            let mut delivery = Delivery::new(resource.map(Into::into), frame);
            delivery.managed = self.sessions[at].number_for_rooms();
            self.turn().is_leaving = leaves;
            self.forward(bare, delivery, true, cx);
            self.turn().is_leaving = false;
            return;
        }
        self.route_presence(to, frame, cx);
    }

    /// Addresses are about to be blocked: those of them that were shown a session's presence
    /// outside the roster see it end (XEP-0191 section 3.3.2).
    pub(crate) fn leave_directed(&mut self, covering: &Blocklist, cx: &mut Context<'_, UserMsg>) {
        for at in 0..self.sessions.len() {
            let Some(directed) = &mut self.sessions[at].directed else {
                continue;
            };
            let parted: Vec<Box<str>> = directed.extract_if(.., |to| covering.covers(to)).collect();
            if parted.is_empty() {
                continue;
            }
            let frame = unavailable_of(&self.sessions[at].full);
            let number = self.sessions[at].number_for_rooms();
            self.save_session(at);
            for to in parted {
                self.stop_reading(at, &Name::from(address::bare(&to)));
                self.is_not_out(at, address::bare(&to));
                if !(self.sessions[at].is_available() && self.is_subscriber(address::bare(&to))) {
                    self.turn().is_leaving = true;
                    self.send_presence_of(&to, (frame.clone(), number), cx);
                    self.turn().is_leaving = false;
                }
            }
        }
    }

    /// A contact's session came online and asks who is here (section 4.3.2).
    pub(super) fn probed(&mut self, from: &str, cx: &mut Context<'_, UserMsg>) {
        let (bare, resource) = address::split(from);
        if self.is_subscriber(bare) && !self.blocklist.covers(from) {
            self.send_own_presence(bare, resource, cx);
        }
    }

    /// A `<presence type='probe'/>` that a client wrote itself (section 4.3.2). Unlike the server's
    /// own questions it is answered even if nobody is online.
    pub(super) fn answer_probe(&mut self, delivery: &Delivery, cx: &mut Context<'_, UserMsg>) {
        let Some(from) = delivery.frame.attr("from") else {
            return;
        };
        let (bare, resource) = address::split(&from);
        if bare != &*self.name && !self.is_subscriber(bare) {
            if let Some(shown) = self.shown_by_direction(delivery, &from) {
                return self.send_presence(&from, shown, cx);
            }
            return self.answer_probe_with(&delivery.frame, Action::Unsubscribed, cx);
        }
        if let Some(wanted) = &delivery.resource {
            let shown = self
                .session_of(wanted)
                .and_then(|session| session.presence.clone());
            if let Some(frame) = shown {
                return self.send_presence(&from, frame, cx);
            }
        } else if self.send_own_presence(bare, resource, cx) {
            return;
        }
        self.send_presence(&from, unavailable_of(&self.name), cx);
    }

    /// To whom a session has sent directed presence it is still there for (section 4.6.6): so much
    /// and no more, as what it said then is not kept.
    fn shown_by_direction(&self, delivery: &Delivery, from: &str) -> Option<Frame> {
        let session = self.session_of(delivery.resource.as_deref()?)?;
        let directed = session.directed.iter().flat_map(|to| to.iter());
        let is_one = |to: &str| to == from || to == address::bare(from);
        let own = format!("{}/{}", self.name, session.resource());
        let mut directed = directed.map(|to| &**to);
        directed.any(is_one).then(|| presence_of(&own, None))
    }

    /// Answers a probe on behalf of an account that does not exist or does not want to be seen.
    pub(super) fn answer_probe_with(
        &mut self,
        probe: &Frame,
        action: Action,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(from) = probe.attr("from") else {
            return;
        };
        let frame = presence_of(&self.name, Some(action.as_str()));
        self.send_presence(&from, frame, cx);
    }

    /// Sends the presence of every available session to one entity; false if there is none.
    pub(super) fn send_own_presence(
        &mut self,
        bare: &str,
        resource: Option<&str>,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        let mut any = false;
        for at in 0..self.sessions.len() {
            if let Some(frame) = self.sessions[at].presence.clone() {
                let delivery = Delivery::new(resource.map(Into::into), frame);
                self.forward(bare, delivery, false, cx);
                any = true;
            }
        }
        any
    }

    /// Sends unavailable presence of every available session to one entity.
    pub(crate) fn hide_from(&mut self, bare: &str, cx: &mut Context<'_, UserMsg>) {
        for at in 0..self.sessions.len() {
            if self.sessions[at].is_available() {
                let frame = unavailable_of(&self.sessions[at].full);
                self.forward(bare, Delivery::new(None, frame), false, cx);
            }
        }
    }

    /// Sends presence to an entity that may be anything: this user, another, or a remote one.
    pub(super) fn send_presence(&mut self, to: &str, frame: Frame, cx: &mut Context<'_, UserMsg>) {
        self.send_presence_of(to, (frame, None), cx);
    }

    /// The same of a session that rooms know by a number.
    fn send_presence_of(
        &mut self,
        to: &str,
        (frame, number): (Frame, Option<u32>),
        cx: &mut Context<'_, UserMsg>,
    ) {
        let (bare, resource) = address::split(to);
        let mut delivery = Delivery::new(resource.map(Into::into), frame);
        delivery.managed = number.filter(|_| self.home.hosts_rooms(address::domain(bare)));
        match self.destination(bare) {
            Destination::Own => self.deliver(delivery, cx),
            Destination::Local => self.forward(bare, delivery, false, cx),
            Destination::Host | Destination::RoomHost | Destination::Remote => {}
        }
    }
}

/// `<presence from='…' type='unavailable'/>`.
pub(crate) fn unavailable_of(from: &str) -> Frame {
    presence_of(from, Some("unavailable"))
}

/// An empty presence stanza.
pub(crate) fn presence_of(from: &str, kind: Option<&str>) -> Frame {
    let mut bytes = Vec::with_capacity(64);
    let mut writer = Writer::new(&mut bytes);
    writer.open("presence").attr("from", from);
    if let Some(kind) = kind {
        writer.attr("type", kind);
    }
    writer.close();
    // Invariant: the writer makes one well-formed element with escaped attributes.
    Frame::parse(bytes).expect("a written element parses")
}
