//! What a user tells itself: what the store says to what it asked, and what waits for that.

use store::StoreError;

use super::consumers::{ReadPage, ToRead};
use super::intake::MarkRead;
use super::member::RoomsMade;
use super::outbox::{OutgoingPage, Returning};
use super::pep::PepMsg;
use super::recover::Stored;
use super::resume::Owed;
use super::storage::{StorageRead, WaitingSet};
use crate::message::UserMsg;

/// See the module.
pub(super) enum OwnMsg {
    /// What the store holds of this user.
    Loaded(Result<Option<Stored>, StoreError>),
    /// A page of the log for a session, or the account.
    Page(ReadPage),
    /// A page of the log was put off, and is read now.
    ReadLater(ToRead),
    /// A page of messages that are to be handed over.
    Outgoing(OutgoingPage),
    /// A message that comes back to this user, its sender.
    Returning(Returning),
    /// Up to where a sender's messages were taken.
    MarkRead(MarkRead),
    /// What a session that is taken up again has not acknowledged.
    Owed(Owed),
    /// How many of the rooms that deliver to the user as their member one account has made.
    RoomsMade(RoomsMade),
    /// How much there is in the private storage.
    StorageRead(StorageRead),
    /// A set of private storage that waited for that.
    SetAgain(WaitingSet),
    /// What concerns nodes of accounts.
    Pep(PepMsg),
}

impl OwnMsg {
    /// It was read for the state that a reload replaces, and is asked for anew by the next one.
    pub(super) fn is_read_anew(&self) -> bool {
        match self {
            OwnMsg::Page(_)
            | OwnMsg::ReadLater(_)
            | OwnMsg::Outgoing(_)
            | OwnMsg::Returning(_)
            | OwnMsg::MarkRead(_)
            | OwnMsg::Pep(PepMsg::Loaded { .. } | PepMsg::Fetched { .. }) => true,
            OwnMsg::Loaded(_)
            | OwnMsg::Owed(_)
            | OwnMsg::RoomsMade(_)
            | OwnMsg::StorageRead(_)
            | OwnMsg::SetAgain(_)
            | OwnMsg::Pep(_) => false,
        }
    }

    /// It may come while the user is read.
    pub(super) fn is_of_reading(&self) -> bool {
        matches!(self, OwnMsg::Loaded(_) | OwnMsg::RoomsMade(_))
    }
}

impl From<OwnMsg> for UserMsg {
    fn from(own: OwnMsg) -> UserMsg {
        UserMsg::own(own)
    }
}
