//! What other accounts say that is in no log, to a session whose client does not follow: the
//! session is spared it, so that nobody ends another's session by saying more than its client
//! reads. Owns the decision alone; who asks for it writes the stanza, or answers it.

use actor::{Context, Mail};
use telemetry::Counter;
use xml::Frame;
use xmpp::sm::Limits;

use super::User;
use super::inbound::is_node_event;
use super::session::Session;
use crate::address;
use crate::message::UserMsg;

impl User {
    /// Whether a session takes a message or a request that is in no log. What the account's own
    /// sessions and the services say it always takes: that is bounded where it is made.
    pub(super) fn takes_unlogged(
        &self,
        at: usize,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        if is_node_event(frame) {
            // It gives way as presence does.
            return self.takes_presence(at, frame, cx);
        }
        let session = &self.sessions[at];
        let takes = !self.is_of_another_account(frame)
            || self.follows(session) && self.has_kept_room(session, frame);
        if !takes {
            cx.stats().count(Counter::StanzasSpared);
        }
        takes
    }

    /// Whether a session takes presence. It always takes that of contacts, for it is not said
    /// again, and of whom the client has shown its own.
    pub(super) fn takes_presence(
        &self,
        at: usize,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        let session = &self.sessions[at];
        let takes = self.follows(session)
            || !self.is_of_another_account(frame)
            || self.is_expected_by(session, frame);
        if !takes {
            cx.stats().count(Counter::StanzasSpared);
        }
        takes
    }

    fn is_of_another_account(&self, frame: &Frame) -> bool {
        self.is_another_account(&frame.attr("from").unwrap_or_default())
    }

    /// Whether an address is of another account of this server.
    pub(super) fn is_another_account(&self, address: &str) -> bool {
        let bare = address::bare(address);
        bare != &*self.name && self.home.hosts_accounts(address::domain(bare))
    }

    /// Whether the client reads what it is sent.
    pub(super) fn follows(&self, session: &Session) -> bool {
        let backlog = session.link().and_then(|link| self.home.io.backlog(link));
        backlog.unwrap_or_default() <= self.home.bounds().others_backlog_max
    }

    /// Whether what waits to be acknowledged leaves the half that is for nobody else.
    fn has_kept_room(&self, session: &Session, frame: &Frame) -> bool {
        let all = self.home.bounds().unlogged;
        let half = Limits {
            stanzas: all.stanzas.div_ceil(2),
            bytes: all.bytes.div_ceil(2),
            ..all
        };
        let managed = session.managed.as_ref();
        let bytes = frame.as_bytes().len();
        managed.is_none_or(|managed| match &managed.early {
            Some(early) => early.takes(bytes, half),
            None => managed.out.takes(bytes, half),
        })
    }

    fn is_expected_by(&self, session: &Session, frame: &Frame) -> bool {
        let from = frame.attr("from").unwrap_or_default();
        let bare = address::bare(&from);
        let item = self.roster.find(bare);
        let mut directed = session.directed.iter().flat_map(|directed| directed.iter());
        item.is_some_and(|item| item.state.subscription.to())
            || directed.any(|to| address::belongs_to(to, bare))
    }
}
