//! What an [`super::Inbox`] is told and what it says, as plain data.

use smallvec::SmallVec;

use crate::outbox::ReadId;
use crate::place::{Count, Place, SessionNumber};

/// A list with an element for each of a few sessions, which needs no memory of its own.
pub type Few<T> = SmallVec<[T; 4]>;

/// How a session takes what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Its client acknowledges (XEP-0198), and the session may outlive its connection.
    Managed,
    /// What is written to its client counts as delivered, and it ends with its connection.
    Plain,
}

/// Where a session's stanzas go. `L` names a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link<L> {
    /// To this connection.
    Attached(L),
    /// Nowhere: the session is given nothing.
    Detached,
    /// This connection resumes the session and has not been answered.
    Resuming(L),
}

/// The sessions whose full addresses an entry is for. It waits for the account if one of them ends
/// without having acknowledged it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Addressee {
    /// None: it is for the account, or somebody has it who acknowledges nothing.
    #[default]
    Nobody,
    /// This one.
    Session(SessionNumber),
    /// Each that it names: an entry of before there was a mark for the account.
    Each,
}

/// For whom an entry is, decided when it is appended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recipients {
    /// For the account: for whoever takes messages for it.
    pub is_for_account: bool,
    /// Whose full address it is for.
    pub addressee: Addressee,
    /// All sessions that are to get it: takers, the addressee, and those that get copies. Of an
    /// entry that was appended only managed ones: others are remembered by nobody.
    pub sessions: Few<SessionNumber>,
}

impl Recipients {
    /// Whether it names a session.
    pub fn name(&self, session: SessionNumber) -> bool {
        self.sessions.contains(&session)
    }

    /// Whether it is for a session's full address.
    pub fn is_addressed_to(&self, session: SessionNumber) -> bool {
        match self.addressee {
            Addressee::Nobody => false,
            Addressee::Session(own) => own == session,
            Addressee::Each => !self.is_for_account && self.name(session),
        }
    }
}

/// What a session is given of an entry that is being appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Given {
    /// It is written with the commit, and has this count.
    Numbered(Count),
    /// It is written with the commit, to a client that counts nothing.
    Uncounted,
    /// It is read from the log when its turn comes.
    Later,
}

/// An entry that was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Where in the log.
    pub place: Place,
    /// Bytes of its stanza.
    pub bytes: u32,
    /// For whom it is, as it says itself.
    pub to: Recipients,
}

/// Which entries one read is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// Of the log behind a place, at most so many entries that [`Filter::is_wanted`] holds of, up
    /// to the end. All of it is committed when the effects of earlier appends have been performed.
    Log {
        /// Behind this place.
        after: Place,
        /// Up to this one.
        through: Place,
        /// Most entries.
        limit: usize,
        /// Which.
        filter: Filter,
    },
    /// These, where they still are. The answer's `through` says nothing.
    Places(Vec<Place>),
}

/// What a consumer is owed of the log behind its position; it depends on nothing but itself and the
/// entry, so that pages may be filtered wherever they are read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Filter {
    /// What a session is to be given.
    Session {
        /// The session.
        session: SessionNumber,
        /// What names it and is behind this place.
        named_after: Place,
        /// What is for the account, is behind the first place and not behind the second, and does
        /// not name it.
        account: Option<(Place, Place)>,
    },
    /// What is left of sessions that ended.
    Ended(Vec<Left>),
}

/// What a session that ended had not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Left {
    /// The session.
    pub session: SessionNumber,
    /// Everything behind this place.
    pub after: Place,
    /// And these, in order.
    pub unacked: Vec<Place>,
}

impl Left {
    pub(crate) fn has(&self, place: Place, to: &Recipients) -> bool {
        let is_behind = || place > self.after && to.is_addressed_to(self.session);
        self.unacked.binary_search(&place).is_ok() || !to.is_for_account && is_behind()
    }

    /// Nothing of it is at this place or in front of it.
    pub(crate) fn floor(&self) -> Place {
        let first = self.unacked.first().map(|first| first.before());
        first.map_or(self.after, |first| first.min(self.after))
    }
}

impl Filter {
    /// Whether the consumer is owed an entry.
    pub fn is_wanted(&self, place: Place, to: &Recipients) -> bool {
        match self {
            Filter::Session {
                session,
                named_after,
                account,
            } => {
                if to.name(*session) {
                    return place > *named_after;
                }
                let is_in = |(after, through): (Place, Place)| place > after && place <= through;
                to.is_for_account && account.is_some_and(is_in)
            }
            Filter::Ended(parts) => parts.iter().any(|part| part.has(place, to)),
        }
    }
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// In order.
    pub entries: Vec<Entry>,
    /// Up to here the log was looked at.
    pub through: Place,
}

/// Who a read is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Consumer {
    /// A session.
    Session(SessionNumber),
    /// What sessions left that ended: it is put on the account's list.
    Ended,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect<L> {
    /// Read, behind the commits under way, and call [`super::Inbox::handle_page`].
    Read {
        /// Names the answer.
        id: ReadId,
        /// Whom it is for.
        consumer: Consumer,
        /// What.
        wanted: Wanted,
    },
    /// Read what a session is sent again, behind the commits under way, and call
    /// [`super::Inbox::handle_resent`].
    ReadAgain {
        /// The session.
        session: SessionNumber,
        /// The connection that resumes it.
        link: L,
    },
    /// A connection's request to resume a session failed.
    Fail {
        /// The connection.
        link: L,
        /// Why.
        why: Failure,
    },
    /// The session of this connection is resumed by another one: its stream ends with `conflict`.
    Cut(L),
}

/// Why a session is not resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// There is no such session.
    Unknown,
    /// Another connection asked for it since.
    Conflict,
    /// The log could not be read, or what is resent not recorded.
    Unread,
}

/// A client says that it has handled more than it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TooHigh {
    /// What it was sent.
    pub sent: Count,
}

/// What is to be recorded of one session, in front of whatever is written to it next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionChange {
    /// The session.
    pub session: SessionNumber,
    /// Entries up to here are owed to it only if they are listed, whatever they say themselves.
    pub void_through: Place,
    /// All that it was given and has not acknowledged, with the count if it was sent.
    pub numbered: Vec<(Option<Count>, Place)>,
}

/// Where the account is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccountChange {
    /// Its mark.
    pub mark: Place,
    /// Its list.
    pub listed: Vec<Place>,
    /// Entries for it behind the mark, and their bytes.
    pub waiting: (u64, u64),
}

/// State that moved since it was taken last. All of it goes into one append.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Changes {
    /// The account's mark and its list. A mark that follows from what sessions acknowledged
    /// ([`super::Recovery`]) is left out, but for every [`crate::InboxLimits::mark_every`] places.
    pub account: Option<AccountChange>,
    /// Sessions whose entries were counted anew.
    pub sessions: Vec<SessionChange>,
    /// Nothing up to the place is owed to the session.
    pub acknowledged: Few<(SessionNumber, Place)>,
    /// What sessions left that ended, if that changed.
    pub left: Option<Vec<Left>>,
    /// Sessions whose records go. If there are any, [`super::Inbox::changes_committed`] follows.
    pub removed: Vec<SessionNumber>,
}

/// What the store says of one session of an earlier life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecoveredSession {
    /// The session.
    pub session: SessionNumber,
    /// What names it up to here was given to it.
    pub read: Place,
    /// It takes messages for the account.
    pub is_taker: bool,
    /// What is for the account, does not name it and was not given to it is behind the first place
    /// and not behind the second.
    pub backlog: Option<(Place, Place)>,
    /// What it was given and may not have, in the order of the counts; those that were never sent
    /// last.
    pub given: Vec<RecoveredEntry>,
}

/// An entry that a session of an earlier life was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecoveredEntry {
    /// Where.
    pub place: Place,
    /// Its count, if it was sent.
    pub count: Option<Count>,
    /// Bytes of its stanza.
    pub bytes: u32,
    /// It is for the account, behind its mark.
    pub is_for_account: bool,
    /// It is for the session's own full address.
    pub is_addressed: bool,
}

/// What the store says of the account, or follows from it ([`super::Recovery`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoredAccount<'a> {
    /// Its mark.
    pub mark: Place,
    /// The mark that is recorded: not above it.
    pub recorded: Place,
    /// The last entry for the account, or one behind it. Nothing waits if the mark is not below it.
    pub last: Place,
    /// Entries for the account behind the mark, and their bytes.
    pub waiting: (u64, u64),
    /// Its list.
    pub listed: &'a [Place],
}
