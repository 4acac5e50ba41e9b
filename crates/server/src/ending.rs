//! Why the server ends a client's stream. What its client hears of it is `c2s/ending.rs`.

/// Why the server ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abort {
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
