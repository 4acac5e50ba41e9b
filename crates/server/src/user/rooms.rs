//! What an account has to do with rooms and services: copies of what they send to many are written
//! to the session that is an occupant or a subscriber, and questions to a domain of rooms are
//! answered. That a session leaves its rooms when it ends is directed presence's doing
//! (`presence.rs`).

use actor::{Context, Mail, Name};
use net::ConnRef;
use room::is_same_nick;
use room::told::{has_status, is_refused};
use store::{DirectoryEntry, Record};
use telemetry::Counter;
use wire::SharedCopy;
use xml::Frame;
use xml::build::Writer;
use xmpp::error::Condition;

use super::barrier::Effect;
use super::managed::What;
use super::session::Session;
use super::{User, storage};
use crate::address;
use crate::host::{self, Said};
use crate::iq::{Answer, Question, reply_of};
use crate::message::{Delivery, UserMsg};
use crate::modules::carbons;
use crate::search;

const NS_MUC_USER: &str = "http://jabber.org/protocol/muc#user";

impl User {
    /// A room or a service sends something to one of the user's sessions.
    pub(super) fn shared_copy(&mut self, copy: &SharedCopy, cx: &mut Context<'_, UserMsg>) {
        let is_it = |session: &Session| session.started && *session.full == *copy.to;
        let Some(at) = self.sessions.iter().position(is_it) else {
            return self.is_not_there(copy, cx);
        };
        let (conn, is_inactive) = (self.sessions[at].conn, self.sessions[at].is_inactive);
        let frame = &copy.frame;
        if self.blocklist.is_active()
            && frame
                .attr("from")
                .is_some_and(|from| self.blocklist.covers(&from))
        {
            return;
        }
        if copy.place != 0 {
            if self.placed_copy(at, copy, cx) {
                return;
            }
            self.member_had(frame, copy.place);
        }
        if self.is_kept_private(at, frame) {
            return self.private_message(copy, cx);
        }
        if !frame.is_named("presence") {
            cx.stats().count(Counter::MessagesOut);
            let what = match copy.place {
                0 => What::Other,
                _ => What::Copy,
            };
            return self.write(conn, what, cx, |out| {
                room::write_copy(frame, &copy.to, out);
            });
        }
        if self.is_of_an_earlier_session(at, frame) {
            return;
        }
        self.hears_of_itself(at, frame);
        // Nobody looks, and it says nothing of the client itself: it may wait.
        if is_inactive && !has_status(frame) {
            let frame = frame.edit().set_attr("to", &copy.to).finish();
            return self.write_presence(conn, &frame, cx);
        }
        cx.stats().count(Counter::PresencesOut);
        self.write(conn, What::Presence, cx, |out| {
            room::write_copy(frame, &copy.to, out);
        });
    }

    /// Whether it is what an occupant of a room said to this one alone, and this session is the one
    /// of its nick that has it as a message of the account, one that may outlive its connection
    /// before others. The others are written theirs.
    fn is_kept_private(&self, at: usize, frame: &Frame) -> bool {
        if !frame.is_named("message") || !carbons::is_from_occupant(frame) {
            return false;
        }
        let from = frame.attr("from").unwrap_or_default();
        let (room, nick) = address::split(&from);
        if nick.is_none() || !self.home.hosts_rooms(address::domain(room)) {
            return false;
        }
        let Some(own) = self.sessions[at].nick_in(room) else {
            return false;
        };
        let is_one = |session: &&Session| {
            let nick = session.nick_in(room).filter(|_| session.started);
            nick.is_some_and(|nick| is_same_nick(nick, own))
        };
        let mut managed = self.sessions.iter().filter(is_one);
        let first = managed.find(|session| session.managed.is_some());
        let first = first.or_else(|| self.sessions.iter().find(is_one));
        first.is_some_and(|first| first.conn == self.sessions[at].conn)
    }

    /// It is a message of the account like any other, in its log and its archive.
    fn private_message(&mut self, copy: &SharedCopy, cx: &mut Context<'_, UserMsg>) {
        let frame = copy.frame.edit().set_attr("to", &copy.to).finish();
        let resource = address::split(&copy.to).1.map(Into::into);
        self.stanza_of_other(Delivery::new(resource, frame), cx);
    }

    /// Whether a room says that somebody is there to a session that has not entered: an earlier one
    /// of its name had. Its client would take itself for an occupant, and nobody would tell it once
    /// the room has heard that the earlier one has ended.
    pub(super) fn is_of_an_earlier_session(&self, at: usize, presence: &Frame) -> bool {
        let from = presence.attr("from").unwrap_or_default();
        let room = address::bare(&from);
        presence.attr_raw("type").is_none()
            && self.home.hosts_rooms(address::domain(room))
            && self.sessions[at].nick_in(room).is_none()
    }

    /// Whether presence that enters a room comes back late, because nobody was at home there or the
    /// room's actor ended, to a session that is in the room: it entered once more meanwhile, or its
    /// home did so for it. Its client would take itself for one who is not there. What the room
    /// itself refuses names no session, and a change of one who is there has no element of somebody
    /// who enters.
    pub(super) fn has_entered_since(&self, at: usize, delivery: &Delivery) -> bool {
        let frame = &delivery.frame;
        let is_error = frame.attr_raw("type") == Some("error");
        if delivery.managed.is_none() || !is_error || !is_refused(frame) {
            return false;
        }
        let from = frame.attr("from").unwrap_or_default();
        self.has_entered(at, address::bare(&from))
    }

    /// The room or service believes that a session is there which is not: a message comes back, and
    /// says so.
    fn is_not_there(&mut self, copy: &SharedCopy, cx: &mut Context<'_, UserMsg>) {
        // One that could not be read may have the session, which asks for what it misses.
        if copy.frame.name() != "message" || self.phase == super::Phase::Unreadable {
            return;
        }
        let frame = copy.frame.edit().set_attr("to", &copy.to);
        let frame = match copy.frame.attr_raw("type") {
            // To the room itself: whoever said it to all has done nothing wrong.
            Some("groupchat") => {
                let from = copy.frame.attr("from").unwrap_or_default();
                frame.set_attr("from", address::bare(&from)).finish()
            }
            // The sender of a private message hears by the room that nobody has it.
            _ => frame.finish(),
        };
        self.bounce(&frame, Condition::ServiceUnavailable, cx);
    }

    /// The process was started again without the service whose rooms a session was in: the session
    /// is told that it is out of them (XEP-0045 section 11.2), and leaves nothing behind there.
    /// While a server is stopped or drained nobody is told that: rooms are there again with it, and
    /// so are those in them whose sessions can be resumed.
    pub(super) fn tell_of_closed_rooms(&mut self, at: usize, cx: &mut Context<'_, UserMsg>) {
        for (room, nick) in self.rooms_closed(at) {
            self.enters_or_leaves(at, &room, true);
            self.save_session(at);
            let session = &self.sessions[at];
            let frame = closed(&format!("{room}/{nick}"), &session.full);
            self.write_frame(session.conn, &frame, cx);
        }
    }

    /// Rooms that a session was in and whose domain is none of rooms any more, with its nicks.
    fn rooms_closed(&self, at: usize) -> Vec<(Name, String)> {
        let session = &self.sessions[at];
        let managed = session.managed.as_ref();
        let Some(rooms) = managed.and_then(|managed| managed.rooms.as_ref()) else {
            return Vec::new();
        };
        let directed = session.directed.iter().flat_map(|directed| directed.iter());
        let closed = directed.filter_map(|to| {
            let (bare, nick) = address::split(to);
            let is_closed = !self.home.hosts_rooms(address::domain(bare));
            let room = Name::from(bare);
            (is_closed && rooms.follows(&room)).then_some((room, nick?.to_owned()))
        });
        closed.collect()
    }

    /// A session sends something to a domain of rooms itself, or to where they are searched.
    pub(super) fn ask_room_host(
        &mut self,
        conn: ConnRef,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let to = frame.attr("to").unwrap_or_default();
        let said = match self.home.hosts_search(address::bare(&to)) {
            true => match search::answer((&self.home, &self.name), frame, cx) {
                search::Said::Plain(said) => said,
                search::Said::Enter(entry) => Said::Now(self.enter_directory(entry, cx)),
            },
            false => host::rooms::answer(&self.home, frame),
        };
        let answer = match said {
            Said::Nothing => return,
            Said::Now(answer) => answer,
            Said::Read(job) => {
                let question = Question::of_session(frame.clone(), conn, job);
                return self.emit(Effect::Ask(Box::new(question)), cx);
            }
        };
        if let Some(reply) = reply_of(frame, answer) {
            self.write_frame(conn, &reply, cx);
        }
    }
}

impl User {
    /// The account is in the directory with this from now on, or not any more.
    fn enter_directory(&mut self, entry: DirectoryEntry, cx: &mut Context<'_, UserMsg>) -> Answer {
        let bytes = entry.fields().iter().map(|field| field.len()).sum();
        if !entry.is_empty() && !self.may_store(bytes, cx) {
            return storage::full().into();
        }
        self.record(Record::DirectoryPut {
            user: String::from(&*self.name),
            entry,
        });
        Answer::done()
    }
}

/// What an occupant is sent when the service ends (XEP-0045 section 11.2).
fn closed(occupant: &str, to: &str) -> Frame {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.open("presence").attr("type", "unavailable");
    writer.attr("from", occupant).attr("to", to);
    writer.open("x").attr("xmlns", NS_MUC_USER);
    writer.open("item").attr("affiliation", "none");
    writer.attr("role", "none").close();
    for code in ["110", "332"] {
        writer.open("status").attr("code", code).close();
    }
    writer.close().close();
    // Invariant: both addresses are normal, and the rest is fixed.
    Frame::parse(bytes).expect("a stanza")
}
