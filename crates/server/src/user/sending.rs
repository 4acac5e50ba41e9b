//! Whatever leaves a user: at once if nothing that it depends on is undecided, else with its
//! commit. Owns the order of both, and the verbs that the other files of this folder write with.

use actor::{Context, Mail, Name};
use delivery::SessionNumber;
use net::ConnRef;
use telemetry::Counter;
use wire::{Message, NotTaken, Source, ToRoom};
use xml::Frame;

use super::User;
use super::barrier::Effect;
use super::managed::What;
use super::session::Session;
use crate::message::credit::Debt;
use crate::message::{AppendError, Delivery, UserMsg};

impl User {
    fn may_leave(&self) -> bool {
        !self.has_records() && self.to_perform == 0 && self.barrier.is_open()
    }

    /// Lets an effect leave, after everything that it depends on is durable.
    pub(crate) fn emit(&mut self, effect: Effect, cx: &mut Context<'_, UserMsg>) {
        let is_ack = matches!(effect, Effect::Acknowledge { .. });
        if self.may_leave() || is_ack && stdx::bugs::is("ack_before_commit") {
            self.perform(effect, cx);
        } else {
            self.turn().effects.push(effect);
        }
    }

    /// Lets effects leave whose append was decided, and behind them what they bring about.
    pub(super) fn perform_in_order(&mut self, effects: Vec<Effect>, cx: &mut Context<'_, UserMsg>) {
        let mut next = effects;
        while !next.is_empty() {
            self.to_perform = next.len() as u32;
            for effect in next.drain(..) {
                self.to_perform -= 1;
                self.perform(effect, cx);
            }
            self.home.spares.keep_effects(next);
            next = if self.may_leave() {
                self.take_effects()
            } else {
                Vec::new()
            };
        }
    }

    pub(super) fn perform(&mut self, effect: Effect, cx: &mut Context<'_, UserMsg>) {
        match effect {
            Effect::Write(conn, what, bytes) => {
                self.perform_bytes(conn, what, bytes, cx);
            }
            Effect::Nonza(conn, bytes) => self.write_nonza(conn, &bytes, cx),
            Effect::Enabled(conn, bytes) => self.enabled(conn, &bytes, cx),
            Effect::NotEnabled(conn) => self.not_enabled(conn, cx),
            Effect::Acknowledge { conn, h, failures } => {
                if failures == self.failures
                    && let Some(link) = self.link_of(conn)
                {
                    self.write_out(link, cx, |out| xmpp::sm::write_ack(h, out));
                }
            }
            Effect::Control(conn, control) => {
                let _ = self.home.io.control(cx, conn, control);
            }
            Effect::Forward {
                to,
                delivery,
                activate,
            }
            | Effect::Gone {
                to,
                delivery,
                activate,
            } => self.send_on(&to, delivery, activate, cx),
            Effect::HandOver { to, dest, delivery } => {
                self.hand_over_committed((to, dest), delivery, cx);
            }
            Effect::Probe { to, from } => {
                // Who is not loaded is not online, but where his home knows that he may be.
                let to = Name::from(&*to);
                self.home.say(cx, &to, Message::Probe { from }, false);
            }
            Effect::Answer(reply, answer) => reply.send(cx, answer),
            Effect::Credit(conn) => {
                let _ = self.home.io.credit(cx, conn, 1);
            }
            Effect::CreditWhenTaken(link, seq) => self.credit_when_taken(link, seq, cx),
            Effect::Ask(question) => self.ask_now(*question, cx),
            Effect::Read(read) => self.read_page(*read, cx),
            Effect::PageGiven(consumer) => {
                self.log().inbox.page_committed(consumer);
                self.may_trim(cx);
            }
            Effect::PageNotGiven(consumer) => self.log().inbox.page_failed(consumer),
            Effect::ChangesCommitted => self.log().inbox.changes_committed(),
            Effect::Saved(_) | Effect::Told(_) => {}
            Effect::NotTold(error) => self.keep_refusal(error, cx),
            Effect::NotSaved(number) => self.not_saved(number, cx),
            Effect::Outbox(read) => self.read_outgoing(*read, cx),
            Effect::ReturnCommitted(peer) => self.return_committed(peer, cx),
            Effect::ReadMark(peer) => self.read_mark(peer, cx),
            Effect::Taken { to, source } => self.say_taken(&to, source, cx),
            Effect::NotTaken { to, answer } => self.say_not_taken(&to, answer, cx),
            Effect::Marked { room, through } => self.is_marked(&room, through),
            Effect::Noted { room } => self.say_noted(&room, cx),
            Effect::Resume { number, conn } => self.read_owed(number, conn, cx),
            Effect::NoSession { conn, previd } => self.no_session(conn, &previd, cx),
            Effect::Recorded(link, inbound) => self.recorded(link, inbound, cx),
            Effect::Resumed { number, conn } => self.resumed(number, conn, cx),
            Effect::NotResumed { number, conn } => self.not_resumed(number, conn, cx),
            Effect::NodesDecided { life, items } => self.nodes_decided(life, items, cx),
            Effect::ReadBookmarks(held) => self.read_bookmarks(*held, cx),
            Effect::ReadPicture { life, picture } => self.read_picture(life, *picture, cx),
            Effect::NodeEvent { to, event } => self.send_event(&to, event, cx),
        }
    }

    fn write_nonza(&mut self, conn: ConnRef, bytes: &[u8], cx: &mut Context<'_, UserMsg>) {
        if let Some(link) = self.link_of(conn) {
            self.write_out(link, cx, |out| out.extend_from_slice(bytes));
        }
    }

    fn say_taken(&self, to: &Name, source: Source, cx: &mut Context<'_, UserMsg>) {
        // Lost, it is asked for again.
        let (by, seq) = (self.own_peer(), source.seq);
        self.home.say(cx, to, Message::Taken { by, seq }, false);
    }

    fn say_not_taken(&self, to: &Name, mut answer: Box<NotTaken>, cx: &mut Context<'_, UserMsg>) {
        answer.by = self.own_peer();
        self.home.say(cx, to, Message::NotTaken(answer), false);
    }

    fn say_noted(&self, room: &Name, cx: &mut Context<'_, UserMsg>) {
        // Lost, it is said again.
        let noted = Message::ToRoom(Box::new(ToRoom::Noted(self.name.clone())));
        self.home.say(cx, room, noted, false);
    }

    /// The connection of a session, or `conn` itself if no session has that name.
    fn link_of(&self, conn: ConnRef) -> Option<ConnRef> {
        let session = self.sessions.iter().find(|session| session.conn == conn);
        session.map_or(Some(conn), Session::link)
    }

    pub(super) fn perform_write(
        &mut self,
        conn: ConnRef,
        what: What,
        cx: &mut Context<'_, UserMsg>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if let Some(at) = self.counted_session(conn) {
            let mut bytes = Vec::new();
            write(&mut bytes);
            return self.write_managed(at, what, bytes, cx);
        }
        self.write_out(conn, cx, write);
    }

    /// The same for bytes that waited.
    fn perform_bytes(
        &mut self,
        conn: ConnRef,
        what: What,
        bytes: Vec<u8>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        match self.counted_session(conn) {
            Some(at) => self.write_managed(at, what, bytes, cx),
            None => self.write_out(conn, cx, |out| out.extend_from_slice(&bytes)),
        }
    }

    /// The session of that name, if what it is sent is counted (XEP-0198).
    fn counted_session(&self, conn: ConnRef) -> Option<usize> {
        self.sessions.iter().position(|session| {
            let managed = session.managed.as_ref();
            session.conn == conn && managed.is_some_and(|managed| managed.is_enabled)
        })
    }

    /// Writes bytes to a connection.
    pub(super) fn write_out(
        &mut self,
        conn: ConnRef,
        cx: &mut Context<'_, UserMsg>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut bytes = 0;
        let write = |out: &mut Vec<u8>| {
            let before = out.len();
            write(out);
            bytes = out.len() - before;
        };
        // A connection that is gone has said so already or is about to: its session ends then.
        let _ = self.home.io.with_out(cx, conn, write);
        let mut talkers = self.home.talkers.borrow_mut();
        talkers.note(&self.name, bytes as u64, || cx.now());
    }

    /// Writes a stanza to one of the user's sessions, behind what it was spared so far.
    pub(crate) fn write(
        &mut self,
        conn: ConnRef,
        what: What,
        cx: &mut Context<'_, UserMsg>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.flush_held(conn, cx);
        self.write_now(conn, what, cx, write);
    }

    pub(super) fn write_now(
        &mut self,
        conn: ConnRef,
        what: What,
        cx: &mut Context<'_, UserMsg>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.takes_count(conn);
        self.write_counted(conn, what, cx, write);
    }

    /// The same for what may have its count.
    pub(super) fn write_counted(
        &mut self,
        conn: ConnRef,
        what: What,
        cx: &mut Context<'_, UserMsg>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.may_leave() {
            return self.perform_write(conn, what, cx, write);
        }
        let mut bytes = Vec::new();
        write(&mut bytes);
        if !what.is_entry() {
            let session = self.sessions.iter().find(|session| session.conn == conn);
            let managed = session.and_then(|session| session.managed.as_ref());
            if let Some((managed, log)) = managed.zip(self.log.as_mut()) {
                log.inbox.will_write(SessionNumber::new(managed.number));
            }
        }
        self.turn().effects.push(Effect::Write(conn, what, bytes));
    }

    /// What waits behind commits has changed: stanzas that are in no log and were to leave with one
    /// that failed never will. `first` are about to leave.
    pub(super) fn count_pending_again(&mut self, first: &[Effect]) {
        let Some(log) = &mut self.log else { return };
        for session in &self.sessions {
            let Some(managed) = &session.managed else {
                continue;
            };
            let mut others = 0;
            // What it is to be written before it hears that its stanzas are counted has no count.
            let mut is_counted = managed.is_enabled;
            let now = self.turn.iter().flat_map(|turn| &turn.effects);
            for effect in first.iter().chain(self.barrier.effects()).chain(now) {
                match effect {
                    Effect::Enabled(conn, _) => is_counted |= *conn == session.conn,
                    Effect::Write(conn, what, _) if *conn == session.conn && is_counted => {
                        others += u32::from(!what.is_entry());
                    }
                    _ => {}
                }
            }
            let number = SessionNumber::new(session.number);
            log.inbox.will_only_write(number, others);
        }
    }

    /// Writes a stanza to one of the user's connections as it is.
    pub(crate) fn write_frame(
        &mut self,
        conn: ConnRef,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.write(conn, What::Other, cx, |out| {
            out.extend_from_slice(frame.as_bytes());
        });
    }

    /// Writes presence; what was broadcast gets this user's address as its `to` only here, so that
    /// one frame serves every contact.
    pub(super) fn write_presence(
        &mut self,
        conn: ConnRef,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if !self.hold(conn, frame) {
            self.write_presence_now(conn, frame, cx);
        }
    }

    pub(super) fn write_presence_now(
        &mut self,
        conn: ConnRef,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let what = match self.turn.as_ref().is_some_and(|turn| turn.is_leaving) {
            true => What::Gone,
            false => What::Presence,
        };
        self.write_presence_as(conn, what, frame, cx);
    }

    pub(super) fn write_presence_as(
        &mut self,
        conn: ConnRef,
        what: What,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        cx.stats().count(Counter::PresencesOut);
        let is_addressed = frame.attr_raw("to").is_some();
        let name = Name::clone(&self.name);
        self.write_now(conn, what, cx, |out| {
            if is_addressed {
                out.extend_from_slice(frame.as_bytes());
            } else {
                frame.write_readdressed(out, None, Some(&name));
            }
        });
    }

    /// Sends a stanza to another account of this server. Without `activate`, an account that is not
    /// loaded does not get it.
    pub(super) fn forward(
        &mut self,
        bare: &str,
        delivery: Delivery,
        activate: bool,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.forward_to(Name::from(bare), delivery, activate, cx);
    }

    pub(super) fn forward_to(
        &mut self,
        to: Name,
        mut delivery: Delivery,
        activate: bool,
        cx: &mut Context<'_, UserMsg>,
    ) {
        // The stanza of a session that is being handled is passed on: with the first of those it is
        // for its credit goes along, or comes back now.
        let turn = self.turn.as_mut();
        if let Some(link) = turn.and_then(|turn| turn.link.take()) {
            if Debt::goes_along(&self.home, link, &delivery.frame) {
                delivery.debt = Some(Debt::passed_on(&self.home, link, &delivery.frame));
            } else {
                self.emit(Effect::Credit(link), cx);
            }
        }
        if self.may_leave() {
            self.send_on(&to, delivery, activate, cx);
        } else if self.turn().is_leaving {
            self.turn().effects.push(Effect::Gone {
                to,
                delivery,
                activate,
            });
        } else {
            self.turn().effects.push(Effect::Forward {
                to,
                delivery,
                activate,
            });
        }
    }

    fn send_on(
        &mut self,
        to: &Name,
        delivery: Delivery,
        activate: bool,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let refused = self.home.pass_on(cx, to, delivery, activate);
        if let Some(delivery) = refused {
            self.overloaded(&delivery.frame, cx);
        }
    }

    /// The recipient's mailbox is full: the sender is told to try again (design section 5).
    pub(super) fn overloaded(&mut self, frame: &Frame, cx: &mut Context<'_, UserMsg>) {
        let error = AppendError::Busy.to_stanza_error();
        if xmpp::error::reply(frame, &error).is_none() {
            return cx.stats().count(Counter::ActorDropped);
        }
        self.bounce_with(frame, &error, cx);
    }
}
