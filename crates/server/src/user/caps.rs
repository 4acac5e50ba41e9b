//! Capabilities of the user's own clients (XEP-0115): a hash that the shard does not know is asked
//! about at the client that announced it, once; what is verified stays with the session. What a
//! hash proves is in `modules/caps.rs`.

use std::sync::Arc;
use std::time::Duration;

use actor::{Context, Mail};
use net::ConnRef;
use telemetry::Counter;
use xml::Frame;
use xml::build::Writer;
use xmpp::ns;

use super::User;
use super::managed::What;
use super::own::OwnMsg;
use super::pep::PepMsg;
use crate::message::UserMsg;
use crate::modules::caps::{self, Caps, Look};

/// In front of the number of a question.
const ID: &str = "caps-";

/// How often a session looks whether another one with the same hash has answered. It waits twice as
/// long each time, from [`WAIT_FIRST`] on: 6 s in all, longer than an answer may take.
const TRIES_MAX: u8 = 7;
const WAIT_FIRST: Duration = Duration::from_millis(50);

impl User {
    /// A session has said what its client can do, or has come back and is not known to have.
    pub(super) fn look_at_caps(&mut self, at: usize, tries: u8, cx: &mut Context<'_, UserMsg>) {
        if !self.home.options.pep.enabled {
            return;
        }
        let session = &self.sessions[at];
        let claim = session.presence.as_ref().and_then(caps::claim);
        let Some(claim) = claim.filter(|_| session.takes_messages()) else {
            self.sessions[at].caps = None;
            return;
        };
        let conn = session.conn;
        let look = self.home.caps.borrow_mut().look(&claim.key, conn, cx.now());
        match look {
            Look::Known(caps) => self.has_caps(at, caps, cx),
            Look::Ask(number) => {
                cx.stats().count(Counter::CapsAsked);
                self.ask_for_caps(at, number, &claim.about, cx);
            }
            Look::Wait => self.look_again(at, tries, cx),
        }
    }

    fn look_again(&mut self, at: usize, tries: u8, cx: &mut Context<'_, UserMsg>) {
        let conn = self.sessions[at].conn;
        if tries >= TRIES_MAX {
            // What is verified is of another claim than the one that it makes now.
            self.sessions[at].caps = None;
        } else {
            let after = WAIT_FIRST * (1 << tries);
            let tries = tries + 1;
            cx.send_after(after, OwnMsg::Pep(PepMsg::Caps { conn, tries }).into());
        }
    }

    pub(super) fn caps_due(&mut self, conn: ConnRef, tries: u8, cx: &mut Context<'_, UserMsg>) {
        let mut sessions = self.sessions.iter();
        let at = sessions.position(|session| session.conn == conn);
        if let Some(at) = at {
            self.look_at_caps(at, tries, cx);
        }
    }

    fn ask_for_caps(&mut self, at: usize, number: u32, about: &str, cx: &mut Context<'_, UserMsg>) {
        let (conn, full) = (self.sessions[at].conn, Arc::clone(&self.sessions[at].full));
        let name = self.name.clone();
        self.write(conn, What::Other, cx, |out| {
            let mut writer = Writer::new(out);
            writer.open("iq").attr("type", "get");
            writer.attr("id", &format!("{ID}{number}"));
            writer.attr("from", &name).attr("to", &full);
            writer.open("query").attr("xmlns", ns::DISCO_INFO);
            writer.attr("node", about).close().close();
        });
    }

    /// A session answers the account itself, perhaps what it was asked here.
    pub(super) fn caps_answered(
        &mut self,
        conn: ConnRef,
        answer: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let id = answer.attr("id").unwrap_or_default();
        let number = id.strip_prefix(ID).and_then(|number| number.parse().ok());
        let asked = number.and_then(|number| self.home.caps.borrow_mut().answered(conn, number));
        let Some(key) = asked else { return };
        let query = answer.child("query", ns::DISCO_INFO);
        let query = query.and_then(|query| Frame::parse(query.to_xml()).ok());
        let interests_max = self.home.options.pep.caps.interests_max;
        let verified = query.and_then(|query| caps::verify(&key, &query, interests_max));
        let Some(verified) = verified else {
            // The next one with this hash is asked.
            return cx.stats().count(Counter::CapsFalse);
        };
        let verified = Arc::new(verified);
        let is_it = |presence: &Frame| caps::claim(presence).is_some_and(|own| own.key == key);
        let mut sessions = self.sessions.iter();
        let at = sessions.position(|session| {
            session.conn == conn && session.presence.as_ref().is_some_and(is_it)
        });
        self.home.caps.borrow_mut().learn(key.clone(), &verified);
        if let Some(at) = at.filter(|at| self.sessions[*at].takes_messages()) {
            self.has_caps(at, verified, cx);
        }
    }

    /// What a session's client can do is known. It gets last items of nodes that it did not want to
    /// hear of before.
    fn has_caps(&mut self, at: usize, caps: Arc<Caps>, cx: &mut Context<'_, UserMsg>) {
        let old = self.sessions[at].caps.replace(Arc::clone(&caps));
        if old.as_ref().is_some_and(|old| Arc::ptr_eq(old, &caps)) {
            return;
        }
        let nodes = caps.since(old.as_deref());
        if !nodes.is_empty() {
            self.ask_for_last_items(at, nodes, cx);
        }
    }
}
