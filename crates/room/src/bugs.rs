//! Bugs on purpose, for the tests of this crate alone: the model of `model.rs` must find each of
//! them; that is what shows that it looks where it should.

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A role is changed without the privilege.
    AnybodyGivesRoles,
    /// Those who are not moderators are shown real addresses.
    AddressesForAll,
    /// Others are not told that somebody left.
    LeavesSilently,
    /// The last owner may stop being one.
    LastOwnerGoes,
    /// A nick that somebody else has registered can be taken by a change.
    ReservedNickTaken,
    /// Visitors are heard.
    VisitorsSpeak,
}

impl Bug {
    /// All of them.
    pub(crate) const ALL: [Bug; 6] = [
        Bug::AnybodyGivesRoles,
        Bug::AddressesForAll,
        Bug::LeavesSilently,
        Bug::LastOwnerGoes,
        Bug::ReservedNickTaken,
        Bug::VisitorsSpeak,
    ];
}
