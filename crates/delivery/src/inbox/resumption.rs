//! How a session passes from one connection to another.

use super::session::{InFlight, Session};
use super::types::{Effect, Failure, Link, TooHigh};
use super::{Count, Inbox, Place, SessionNumber};
use crate::bugs;

impl<L: Copy + Eq> Inbox<L> {
    /// A connection resumes a session. It is the session's from here on; one that asked before and
    /// was not answered is answered now.
    pub fn resume(&mut self, session: SessionNumber, link: L) {
        let Some(own) = self.sessions.get_mut(session) else {
            let why = Failure::Unknown;
            return self.effects.push_back(Effect::Fail { link, why });
        };
        match own.link {
            Link::Attached(old) => self.effects.push_back(Effect::Cut(old)),
            Link::Resuming(old) => self.effects.push_back(Effect::Fail {
                link: old,
                why: Failure::Conflict,
            }),
            Link::Detached => {}
        }
        own.link = Link::Resuming(link);
        own.reading = None;
        self.let_go(session);
        self.effects.push_back(Effect::ReadAgain { session, link });
        self.read_all();
    }

    /// The connection of a session that outlived its home is still there: it was written everything
    /// up to the count `written`, of which its client has acknowledged `h`. What the session was
    /// given and not written has the counts behind that, in the order of
    /// [`Inbox::unacknowledged`]: it is read as for a resumption, and written once
    /// [`Inbox::take_changes`] is recorded and [`Inbox::resumed`] has said that the session is
    /// attached.
    pub fn adopt(&mut self, session: SessionNumber, link: L, (h, written): (Count, Count)) {
        let Some(own) = self.sessions.get_mut(session) else {
            return;
        };
        own.link = Link::Resuming(link);
        own.reading = None;
        let acked = own.adopt(h, written);
        self.has(session, &acked);
        self.let_go(session);
        self.effects.push_back(Effect::ReadAgain { session, link });
        self.read_all();
    }

    /// What a session is sent again if its client has handled `h`, in order, each with the count
    /// that it had if it was sent.
    pub fn unacknowledged(
        &self,
        session: SessionNumber,
        h: Count,
    ) -> impl Iterator<Item = (Option<Count>, Place)> {
        let own = self.sessions.get(session);
        let flight = own.into_iter().flat_map(|own| &own.flight);
        let is_owed = move |entry: &&InFlight| entry.count.is_none_or(|count| count.is_after(h));
        flight
            .filter(is_owed)
            .map(|entry| (entry.count, entry.place))
    }

    /// What a session is sent again has been read. Its client has handled `h`; the entries of
    /// [`Inbox::unacknowledged`] have these counts now, and everything written to it together the
    /// count `sent`: stanzas that are in no log are counted between them, and some were given up.
    /// All of it leaves once [`Inbox::take_changes`] is recorded. False if the connection was
    /// answered already.
    ///
    /// # Errors
    /// The client was not sent so much: the session cannot go on.
    pub fn handle_resent(
        &mut self,
        session: SessionNumber,
        link: L,
        (h, sent): (Count, Count),
        counts: impl IntoIterator<Item = Count>,
    ) -> Result<bool, TooHigh> {
        let Some(own) = self.resumed_by(session, link) else {
            return Ok(false);
        };
        let acked = own.resume(h, sent, counts)?;
        self.has(session, &acked);
        Ok(true)
    }

    /// Everything in front of a resumption is recorded: the session is attached. False if its
    /// connection was answered already.
    pub fn resumed(&mut self, session: SessionNumber, link: L) -> bool {
        let Some(own) = self.resumed_by(session, link) else {
            return false;
        };
        own.link = Link::Attached(link);
        self.read_for(session);
        true
    }

    /// What a session is sent again could not be read or recorded.
    pub fn not_resumed(&mut self, session: SessionNumber, link: L) {
        if let Some(own) = self.resumed_by(session, link) {
            own.link = Link::Detached;
            let why = Failure::Unread;
            self.effects.push_back(Effect::Fail { link, why });
        }
    }

    fn resumed_by(&mut self, session: SessionNumber, link: L) -> Option<&mut Session<L>> {
        let own = self.sessions.get_mut(session);
        own.filter(|own| match own.link {
            Link::Resuming(_) if bugs::is("overtaken_resumption_counts") => true,
            Link::Resuming(own) => own == link,
            Link::Attached(_) | Link::Detached => false,
        })
    }
}
