//! Why the server ends a client's stream, and what the client hears of it (RFC 6120 section 4.9).

use net::Cx;
use xmpp::error::StreamError;

use super::{C2sService, Conn};

/// Why the server ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// A newer session took its resource.
    Conflict,
    /// The account's password was changed.
    CredentialsChanged,
    /// The account was locked.
    Locked,
    /// The account was removed.
    AccountRemoved,
    /// An administrator ended the sessions.
    Kicked,
    /// The user's actor crashed.
    Crash,
    /// The node stops.
    Shutdown,
    /// Its client said nothing when it was asked what it has.
    Silent,
    /// Its client acknowledged something that makes no sense.
    BadAcknowledgement,
    /// More waits for its client than is kept.
    Overflow,
    /// Too much waits for its user, and no stanza of it can be left out.
    Overloaded,
    /// Too many logins of its account have begun and not ended.
    LoginGivenUp,
    /// Its address is banned.
    Banned,
    /// It wants to go on with a session that is not there any more, or that cannot be taken over.
    NotTakenOver,
    /// Its account is at home on another node, or on its way there: who comes again is led there.
    Moved,
}

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
}
