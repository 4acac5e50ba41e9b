//! Bugs on purpose. The model must find each of them; that is what shows that it looks where it
//! should. They exist in the tests of this crate alone.

/// A deliberate bug of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A node joins a second group of one name.
    NameTwice,
    /// The last member does not hear of a change.
    ForgetOneMember,
    /// A process may have two names in one group.
    TwoNames,
    /// The name of a process that ended stays.
    DeadNames,
    /// A name wins though its process may have ended.
    DeadWin,
    /// The names of a lost node stay.
    KeepLost,
    /// Links stay when the last common group is left.
    KeepLinks,
    /// Free nodes do not follow the links of others.
    NoFreePeers,
    /// Hidden nodes are among the free ones.
    HiddenIsFree,
    /// A question is lost with a link that is ended on purpose.
    AskOnce,
}
