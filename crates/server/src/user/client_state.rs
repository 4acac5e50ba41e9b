//! Client state indication (XEP-0352): while nobody looks at a client, presence and typing wait,
//! and go out in order before anything else does.

use actor::Context;
use net::ConnRef;
use xml::Frame;

use super::User;
use super::managed::What;
use crate::message::UserMsg;
use crate::modules::csi;

impl User {
    /// A client says whether somebody is looking.
    pub(super) fn client_state(
        &mut self,
        at: usize,
        element: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if !self.home.options.modules.has(&csi::MODULE) {
            return;
        }
        let Some(is_active) = csi::parse(&element.as_ref()) else {
            return;
        };
        let session = &mut self.sessions[at];
        if session.is_inactive != is_active {
            return;
        }
        session.is_inactive = !is_active;
        let conn = session.conn;
        self.save_session(at);
        if is_active {
            self.flush_held(conn, cx);
        }
    }

    /// Spares an inactive client a stanza that can wait; false if it has to be written.
    pub(super) fn hold(&mut self, conn: ConnRef, frame: &Frame) -> bool {
        let mut sessions = self.sessions.iter_mut();
        let Some(session) = sessions.find(|session| session.conn == conn && session.is_inactive)
        else {
            return false;
        };
        let held = session.held.get_or_insert_default();
        held.hold(frame.clone(), &self.home.bounds().held).is_none()
    }

    /// Writes what a session was spared: it has waited for long enough, and leaves whatever becomes
    /// of the message that is being handled.
    pub(super) fn flush_held(&mut self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|session| session.conn == conn);
        let Some(mut held) = session.and_then(|session| session.held.take()) else {
            return;
        };
        for frame in held.flush() {
            if frame.name() == "presence" {
                self.write_presence_as(conn, What::Gone, &frame, cx);
            } else {
                self.write_now(conn, What::Copy, cx, |out| {
                    out.extend_from_slice(frame.as_bytes());
                });
            }
        }
    }
}
