//! What an account has to do with rooms and services: copies of what they send to many are written
//! to the session that is an occupant or a subscriber, and questions to a domain of rooms are
//! answered. That a session leaves its rooms when it ends is directed presence's doing
//! (`presence.rs`).

use actor::{Context, Mail};
use net::ConnRef;
use telemetry::Counter;
use xml::Frame;
use xmpp::error::Condition;

use super::User;
use super::barrier::Effect;
use super::managed::What;
use crate::address;
use crate::iq::{Question, reply_of};
use crate::message::{SharedCopy, UserMsg};
use crate::room::host::{self, Said};

const NS_MUC_USER: &str = "http://jabber.org/protocol/muc#user";

impl User {
    /// A room or a service sends something to one of the user's sessions.
    pub(super) fn shared_copy(&mut self, copy: &SharedCopy, cx: &mut Context<'_, UserMsg>) {
        let (_, resource) = address::split(&copy.to);
        let session = resource.and_then(|resource| self.session_of(resource));
        let Some((conn, is_inactive)) = session.map(|s| (s.conn, s.is_inactive)) else {
            return self.is_not_there(copy, cx);
        };
        let at = self
            .sessions
            .iter()
            .position(|session| session.conn == conn);
        let frame = &copy.frame;
        if self.blocklist.is_active()
            && frame
                .attr("from")
                .is_some_and(|from| self.blocklist.covers(&from))
        {
            return;
        }
        if let Some(at) = at
            && copy.place != 0
            && self.placed_copy(at, copy, cx)
        {
            return;
        }
        if frame.name() != "presence" {
            cx.stats().count(Counter::MessagesOut);
            return self.write(conn, What::Other, cx, |out| {
                room::write_copy(frame, &copy.to, out);
            });
        }
        if let Some(at) = at {
            self.hears_of_itself(at, frame);
        }
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

    /// The room or service believes that a session is there which is not: a message comes back, and
    /// says so.
    fn is_not_there(&mut self, copy: &SharedCopy, cx: &mut Context<'_, UserMsg>) {
        if copy.frame.name() != "message" {
            return;
        }
        // To the room itself: whoever said it has done nothing wrong.
        let from = copy.frame.attr("from").unwrap_or_default();
        let frame = copy.frame.edit().set_attr("to", &copy.to);
        let frame = frame.set_attr("from", address::bare(&from)).finish();
        self.bounce(&frame, Condition::ServiceUnavailable, cx);
    }

    /// A session sends something to a domain of rooms itself.
    pub(super) fn ask_room_host(
        &mut self,
        conn: ConnRef,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let answer = match host::answer(&self.home, frame) {
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

/// Whether a presence of a room is about its recipient, who does not only change his nick (XEP-0045
/// sections 7.6 and 7.14).
pub(super) fn is_of_himself(presence: &Frame) -> bool {
    let Some(x) = presence.child("x", NS_MUC_USER) else {
        return false;
    };
    let has = |code: &str| {
        let mut children = x.children();
        children
            .any(|child| child.name() == "status" && child.attr("code").as_deref() == Some(code))
    };
    has("110") && !has("303")
}

/// Whether a presence has a status code: it says what became of its recipient, or of a nick.
fn has_status(presence: &Frame) -> bool {
    let x = presence.child("x", NS_MUC_USER);
    x.is_some_and(|x| x.children().any(|child| child.name() == "status"))
}
