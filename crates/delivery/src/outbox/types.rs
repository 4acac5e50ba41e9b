//! What an [`super::Outbox`] is told and what it says, as plain data.

use std::time::Duration;

use stdx::time::Timestamp;

use crate::place::{Attempt, Place};

/// Whether an entry may be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accept {
    /// It may.
    Yes,
    /// Too many entries of this sender are not settled ([`crate::OutboxLimits::entries_max`]).
    Full,
    /// Too many of them are for this destination
    /// ([`crate::OutboxLimits::entries_per_destination_max`]).
    DestinationFull,
}

/// An entry is handed over now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandOver {
    /// The last entry in front of it, for the same destination, that is not known to be settled;
    /// [`Place::START`] without one. Without that one it must not be taken.
    pub after: Place,
    /// What an answer has to name.
    pub attempt: Attempt,
}

/// Why an entry was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The destination's mailbox or the way to it is full; or, on the sender's own shard, it is set
    /// aside.
    Full,
    /// The destination's state cannot be read.
    Unreadable,
    /// The destination is set aside because it keeps crashing.
    Quarantined,
    /// The entry in front of it has not been taken.
    Early,
    /// The destination crashed while it handled the entry, which it had recognised as new: of one
    /// that it has taken before it says nothing, or that it was taken.
    Crashed,
    /// The destination refuses it for good.
    Final,
    /// It said nothing for [`crate::OutboxLimits::answer_timeout`]; or says itself that nobody will
    /// know whether it has taken the entry.
    Silent,
    /// The sender's own log could not be read.
    Unread,
    /// Whoever serves the destination is not there, and has the sender called when he is
    /// ([`super::Outbox::called`]). Tried again only when the entry is too old to wait.
    Away,
}

impl Refusal {
    /// Whether it comes from the destination itself, which has seen every earlier copy of the entry
    /// by then and has taken none: they came in order, and one that waited on its way went on only
    /// if it was the latest ([`super::Outbox::is_latest`]).
    pub fn is_authoritative(self) -> bool {
        match self {
            Refusal::Early | Refusal::Crashed | Refusal::Final => true,
            Refusal::Full
            | Refusal::Unreadable
            | Refusal::Quarantined
            | Refusal::Silent
            | Refusal::Unread
            | Refusal::Away => false,
        }
    }

    /// A word for operators.
    pub fn as_str(self) -> &'static str {
        match self {
            Refusal::Full => "full or set aside",
            Refusal::Unreadable => "unreadable",
            Refusal::Quarantined => "set aside",
            Refusal::Early => "out of order",
            Refusal::Crashed => "crashed",
            Refusal::Final => "refused",
            Refusal::Silent => "no answer",
            Refusal::Unread => "log unreadable",
            Refusal::Away => "away",
        }
    }
}

/// Why an entry comes back to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason<E> {
    /// Its recipient refuses it for good, and has not taken it.
    Refused(E),
    /// Its recipient did not take it for [`crate::OutboxLimits::give_up_after`].
    Expired {
        /// It was handed over without an answer: it may have been taken all the same.
        may_be_delivered: bool,
    },
    /// Its recipient crashed each time that it handled it.
    Poison,
    /// An operator dropped what waits for its recipient.
    Dropped {
        /// As with [`Reason::Expired`].
        may_be_delivered: bool,
    },
}

/// Names one read of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId(u64);

impl ReadId {
    pub(crate) fn next(&mut self) -> ReadId {
        self.0 += 1;
        *self
    }
}

/// Something for the caller to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect<D, E> {
    /// Read outgoing entries, behind every append that was made so far, and call
    /// [`super::Outbox::handle_page`].
    Read {
        /// Names the read.
        id: ReadId,
        /// Only those for this destination; `None` for all.
        dest: Option<D>,
        /// Behind this place.
        after: Place,
        /// At most so many.
        limit: u32,
    },
    /// Read this entry, ask [`super::Outbox::still_returns`], append the error that returns it, and
    /// call [`super::Outbox::returned`]; or [`super::Outbox::return_failed`].
    Return {
        /// Whom it was for.
        dest: D,
        /// Where it is.
        place: Place,
        /// What its sender is told.
        reason: Reason<E>,
    },
}

/// One outgoing entry of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listed<D> {
    /// Where it is.
    pub place: Place,
    /// Whom it is for.
    pub dest: D,
    /// When it was accepted.
    pub at: Timestamp,
}

/// What a read of the log found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Page<D> {
    /// Outgoing entries in order.
    pub entries: Vec<Listed<D>>,
    /// Everything up to here was looked at.
    pub through: Place,
}

/// Durable marks, as they are from now on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Changes<D> {
    /// Every outgoing entry up to here is settled, but for those of `lagging` destinations.
    pub mark: Place,
    /// If they changed: destinations that lag, each with the place up to which its own are settled.
    pub lagging: Option<Vec<(D, Place)>>,
}

/// A destination that lags, for operators.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stuck<D> {
    /// Which one.
    pub dest: D,
    /// Entries that wait for it.
    pub pending: u32,
    /// Everything up to here is settled.
    pub mark: Place,
    /// Attempts in a row that failed.
    pub failures: u32,
    /// Why the last one did.
    pub last: Option<Refusal>,
    /// What it waits for.
    pub waits: Waits,
}

/// What a lagging destination waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waits {
    /// The next attempt, in this time.
    Retry(Duration),
    /// To be called by whoever stands for it, or this time.
    Call(Duration),
    /// A page of the log.
    Read,
    /// An answer of the destination.
    Answer,
    /// An error is appended for the sender.
    Return,
    /// The common consumer.
    Nothing,
}
