//! Bugs on purpose, for the tests of this crate alone: the model of `model.rs` must find each of
//! them; that is what shows that it looks where it should.

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Who is banned may subscribe and retrieve.
    OutcastsEnter,
    /// A contact may enter whatever group he is in.
    GroupsDoNotCount,
    /// Who waits for an approval is told already.
    PendingAreTold,
    /// Who waits for an approval retrieves already.
    PendingRetrieve,
    /// Members publish.
    MembersPublish,
    /// Publish options are not looked at.
    PreconditionsDoNotCount,
    /// A node keeps more items than it is to.
    ItemsPileUp,
    /// Publishers remove what others have published.
    PublishersRemoveAll,
    /// The last owner may stop being one.
    LastOwnerGoes,
    /// Private nodes are listed for everybody.
    PrivateNodesAreListed,
}

impl Bug {
    /// All of them.
    pub(crate) const ALL: [Bug; 10] = [
        Bug::OutcastsEnter,
        Bug::GroupsDoNotCount,
        Bug::PendingAreTold,
        Bug::PendingRetrieve,
        Bug::MembersPublish,
        Bug::PreconditionsDoNotCount,
        Bug::ItemsPileUp,
        Bug::PublishersRemoveAll,
        Bug::LastOwnerGoes,
        Bug::PrivateNodesAreListed,
    ];
}
