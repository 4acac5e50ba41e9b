//! What a client hears when the server ends its stream (RFC 6120 section 4.9).

use net::Cx;
use xmpp::error::StreamError;

use super::{C2sService, Conn, Framing};
use crate::ending::Abort;

impl C2sService {
    /// Ends a stream with the error for that. [`C2sService::carry_out`] closes it.
    pub(crate) fn abort(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, why: Abort) {
        let (error, text) = match why {
            Abort::Conflict => (StreamError::Conflict, "Replaced by a new session."),
            Abort::CredentialsChanged => (StreamError::Reset, "The password was changed."),
            Abort::Locked => (StreamError::NotAuthorized, "The account was locked."),
            Abort::AccountRemoved => (StreamError::NotAuthorized, "The account was removed."),
            Abort::Kicked => (StreamError::PolicyViolation, "Ended by an administrator."),
            Abort::Crash => (
                StreamError::InternalServerError,
                "The session ended by a fault.",
            ),
            Abort::Shutdown => (StreamError::SystemShutdown, "The server stops."),
            Abort::Silent => (
                StreamError::ConnectionTimeout,
                "No acknowledgement came when it was asked for.",
            ),
            Abort::BadAcknowledgement => (
                StreamError::BadFormat,
                "An acknowledgement that cannot be read.",
            ),
            Abort::Overflow => (
                StreamError::ResourceConstraint,
                "Too much was sent without an acknowledgement.",
            ),
            Abort::Overloaded => (
                StreamError::ResourceConstraint,
                "The server cannot take this now; resume later.",
            ),
            Abort::LoginGivenUp => (
                StreamError::ResourceConstraint,
                "Too many logins of this account have begun.",
            ),
            Abort::Banned => (StreamError::PolicyViolation, "This address is banned."),
            Abort::NotTakenOver => (
                StreamError::Reset,
                "The session ended with its home: come again.",
            ),
            Abort::Moved => (
                StreamError::Reset,
                "The account goes on at another node: come again.",
            ),
        };
        conn.machine
            .abort(error, Some(text), cx.out(), &mut self.effects);
    }

    /// The home of an account cannot be reached from here, or there is none for now. The client may
    /// have a better way there: it is told where that is, if anybody knows and its transport has a
    /// word for it (RFC 6120 section 4.9.3.19).
    pub(crate) fn unreachable(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, user: Option<&str>) {
        let cluster = self.home.options.cluster.as_ref();
        let cluster = cluster.filter(|_| matches!(conn.framing, Framing::Stream(_)));
        let to = cluster.zip(user).and_then(|(cluster, user)| {
            let range = self.home.place.range(user);
            cluster.away.clients(range)
        });
        match to {
            Some(to) => conn.machine.redirect(&to, cx.out(), &mut self.effects),
            None => conn.machine.abort(
                StreamError::ResourceConstraint,
                Some("The account's home cannot be reached: come again."),
                cx.out(),
                &mut self.effects,
            ),
        }
    }
}
