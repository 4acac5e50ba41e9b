//! Copies for the other devices of a user (XEP-0280): who gets them, and in which form an entry of
//! the log is written to a session.

use actor::{Context, Mail};
use net::ConnRef;
use store::{EntryFlags, LogEntry};
use telemetry::Counter;
use xml::Frame;

use super::User;
use super::layout::{ADDRESSED, session_number};
use super::managed::What;
use super::session::Session;
use crate::address;
use crate::message::UserMsg;
use crate::modules::carbons::{self, Direction};
use crate::modules::{offline, stanza_ids};

impl User {
    /// Sessions that want copies, but for one.
    pub(super) fn carbon_sessions(&self, but: Option<ConnRef>) -> Vec<ConnRef> {
        let others = self.sessions.iter().filter(|session| session.carbons);
        let others = others.filter(|session| Some(session.conn) != but);
        others.map(|session| session.conn).collect()
    }

    /// Writes copies of a message that is in no log.
    pub(super) fn write_copies(
        &mut self,
        frame: &Frame,
        direction: Direction,
        conns: &[ConnRef],
        cx: &mut Context<'_, UserMsg>,
    ) {
        for &conn in conns {
            let Some(at) = self
                .sessions
                .iter()
                .position(|session| session.conn == conn)
            else {
                continue;
            };
            if !self.takes_unlogged(at, frame, cx) {
                continue;
            }
            let session = &self.sessions[at];
            let mut copy = Vec::new();
            carbons::write(frame, direction, &self.name, &session.full, &mut copy);
            cx.stats().count(Counter::CarbonsOut);
            if let Ok(copy) = Frame::parse(copy.clone())
                && self.hold(conn, &copy)
            {
                continue;
            }
            self.write(conn, What::Other, cx, |out| out.extend_from_slice(&copy));
        }
    }

    /// An entry as clients get it: with its stanza-id and, if it waited, the time at which it was
    /// accepted (XEP-0203).
    pub(super) fn entry_frame(&self, entry: &LogEntry, is_late: bool) -> Option<Frame> {
        let Ok(frame) = Frame::parse(&*entry.frame) else {
            tracing::error!(user = %self.name, seq = entry.seq, "a stored message is damaged");
            return None;
        };
        let mut edit = stanza_ids::stamped(&frame, &self.name, entry.seq);
        if is_late {
            edit = edit.append_child(&offline::delay(address::domain(&self.name), entry.at));
        }
        Some(edit.finish())
    }

    /// An entry as a session gets it again, or later than others: itself, or a copy, with its time
    /// if it is `given_late` or that session was not there when it came. Nothing if it is damaged.
    pub(super) fn entry_for(
        &self,
        session: &Session,
        entry: &LogEntry,
        given_late: bool,
    ) -> Vec<u8> {
        let came_live = |noted: &store::Outbound| session_number(noted) == session.number;
        let is_late = given_late || !entry.went_to.iter().any(came_live);
        let Some(frame) = self.entry_frame(entry, is_late) else {
            return Vec::new();
        };
        let full = &session.full;
        // An error for a session that ended is no copy: whoever gets it is told instead.
        let is_error = frame.attr("type").as_deref() == Some("error");
        let is_for_another =
            entry.flags.has(ADDRESSED) && !is_error && frame.attr("to").as_deref() != Some(&**full);
        let direction = if entry.flags.has(EntryFlags::SENT) {
            Direction::Sent
        } else if is_for_another && session.carbons {
            Direction::Received
        } else {
            return frame.as_bytes().to_vec();
        };
        let mut copy = Vec::new();
        carbons::write(&frame, direction, &self.name, full, &mut copy);
        copy
    }
}
