//! What actors and pools tell connections. Owns no connection: what becomes of a word there is
//! `c2s`.

use std::sync::Arc;
use std::time::Duration;

use actor::Addr;
use wire::Joined;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};
use xmpp::sasl;

use super::{UserMsg, web};
use crate::away::NodeId;
use crate::ending::Abort;
use crate::guard::Generation;

/// The keys of one account as its user actor answers for them.
pub(crate) enum Keys {
    /// The account's, or those of a decoy.
    Known(Vec<sasl::ScramKeys>),
    /// Those of a locked account.
    Locked(Vec<sasl::ScramKeys>),
    /// Nobody can say right now.
    Unavailable,
}

/// What actors and pools tell a connection.
pub(crate) enum Control {
    /// The keys that were asked for, and when.
    Keys(Keys, Generation),
    /// Whether a PLAIN password was right.
    Verified(bool),
    /// What a stanza has cost turned out only now: its client may send the less.
    Costs(Duration),
    /// Whether an account was made.
    Registered(Result<(), Condition>),
    /// The full address and the actor behind it, or why there is none.
    Bound(Box<Result<BoundSession, StanzaError>>),
    /// The same for a session that was taken up again (XEP-0198 section 5); its user has written
    /// the answer.
    Resumed(Option<Box<BoundSession>>),
    /// The session ends.
    Abort(Abort),
    /// A stanza found its user's mailbox full.
    Refused(Frame),
    /// The account's actor goes on with a session that outlived its home.
    TakenOver(Box<TakenOver>),
    /// The account has another home, or will have: the connection may outlive this one. So many of
    /// its client's stanzas are done for certain.
    Left(Option<u32>),
    /// The end of the stream has been written.
    Close,
    /// Something between a connection of the web and the session behind it.
    Web(Box<web::Control>),
    /// What the domain of a component says to its stream.
    Component(ToComponent),
}

/// What the domain of a component says to its stream.
pub(crate) enum ToComponent {
    /// It has taken the stream: the actor behind it. The answer to the handshake is written.
    Attached(Addr<UserMsg>),
    /// The stream ends.
    Ends(Ending),
}

/// Why the server ends the stream of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The domain has a component already.
    Conflict,
    /// It did not answer a ping.
    Silent,
    /// Its domain's actor crashed.
    Crashed,
    /// Others came that have not shaken hands either.
    Crowded,
}

/// A full address and the actor behind it.
pub(crate) type BoundSession = (Arc<str>, Addr<UserMsg>);

/// A session that outlived its home goes on.
pub(crate) struct TakenOver {
    /// Its full address, and the actor behind it.
    pub(crate) session: BoundSession,
    /// So many of its client's stanzas are handled.
    pub(crate) inbound: u32,
}

/// What a connection hears of the one that it is tied to.
pub(crate) enum Word {
    /// What the other node says of it.
    Said(NodeId, Joined),
    /// The other node is gone, or took nothing of it.
    Lost,
    /// A link that took nothing may take something now.
    TryAgain,
    /// Nobody took it where it introduced itself under that number.
    NotTaken(u64),
    /// The other node should hear how far both directions have come.
    Mark,
}
