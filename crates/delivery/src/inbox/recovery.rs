//! What the log owes to sessions of an earlier life, from their records and its entries; and where
//! the account is, whose mark is not recorded whenever it moves.
//!
//! A session that takes messages and that every entry for the account behind the recorded mark
//! names has all of them up to what it has acknowledged: the mark is there.

use std::collections::BTreeMap;

use super::types::{Recipients, RecoveredEntry, RecoveredSession, StoredAccount};
use crate::place::{Count, Place, SessionNumber};

/// What is recorded of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoredSession {
    /// The session.
    pub session: SessionNumber,
    /// It takes messages for the account.
    pub is_taker: bool,
    /// Its record is of before there was a mark for the account: what it lists was for the account
    /// is nobody else's, whatever the mark says.
    pub is_of_before: bool,
    /// Nothing up to here is owed to it.
    pub acked: Place,
    /// What entries up to here say of their counts is void, and they are owed only if listed.
    pub void_through: Place,
    /// What it was given and had not acknowledged, with the count if it was sent.
    pub numbered: Vec<(Option<Count>, Place)>,
}

/// An entry of the log, with the counts that it notes.
#[derive(Clone, Copy, Debug)]
pub struct StoredEntry<'a> {
    /// Where.
    pub place: Place,
    /// Bytes of its stanza.
    pub bytes: u32,
    /// For whom.
    pub to: &'a Recipients,
    /// The counts of those that it was written to with its commit.
    pub counts: &'a [(SessionNumber, Count)],
}

#[derive(Debug)]
struct Session {
    stored: StoredSession,
    /// By place, with where the record lists it.
    listed: BTreeMap<Place, usize>,
    given: Vec<(usize, RecoveredEntry)>,
    /// The first entry that it was not given.
    unread: Option<Place>,
    /// The first and the last entry for the account behind its mark that does not name it and was
    /// not given to it.
    backlog: Option<(Place, Place)>,
    /// The first entry for the account behind its mark that does not name it.
    unnamed: Option<Place>,
}

/// Sessions of an earlier life, while the log is read. The entries behind [`Recovery::floor`] are
/// noted in order.
#[derive(Debug)]
pub struct Recovery {
    mark: Place,
    sessions: Vec<Session>,
    /// Entries for the account behind the mark, with their bytes.
    waiting: Vec<(Place, u32)>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recovered {
    /// As [`StoredAccount`] has them.
    pub mark: Place,
    /// Likewise.
    pub recorded: Place,
    /// Likewise.
    pub last: Place,
    /// Likewise.
    pub waiting: (u64, u64),
    /// The sessions.
    pub sessions: Vec<RecoveredSession>,
}

impl Recovered {
    /// The account with what is on its list.
    pub fn account<'a>(&self, listed: &'a [Place]) -> StoredAccount<'a> {
        StoredAccount {
            mark: self.mark,
            recorded: self.recorded,
            last: self.last,
            waiting: self.waiting,
            listed,
        }
    }
}

impl Session {
    /// Notes what it is owed of an entry behind its floor. `is_waiting`: the entry is for the
    /// account, behind the recorded mark.
    fn note(&mut self, entry: StoredEntry<'_>, is_waiting: bool) {
        let (place, session) = (entry.place, self.stored.session);
        let names_it = entry.to.name(session);
        let listed = self.listed.get(&place).copied();
        let is_kept_for_it = self.stored.is_of_before && listed.is_some() && !is_waiting;
        let mut recovered = RecoveredEntry {
            place,
            count: None,
            bytes: entry.bytes,
            is_for_account: entry.to.is_for_account && !is_kept_for_it,
            is_addressed: entry.to.is_addressed_to(session) || is_kept_for_it,
        };
        if is_waiting && !names_it {
            self.unnamed.get_or_insert(place);
        }
        if let Some(at) = listed {
            recovered.count = self.stored.numbered[at].0;
            self.given.push((at, recovered));
            if is_waiting && !names_it {
                // Pages go on in order: what it was not given in front of this somebody else had
                // acknowledged, though that may not be recorded.
                self.backlog = None;
            }
        } else if names_it && place > self.stored.acked.max(self.stored.void_through) {
            let mut counts = entry.counts.iter();
            match counts.find(|(noted, _)| *noted == session) {
                Some((_, count)) => {
                    recovered.count = Some(*count);
                    self.given.push((usize::MAX, recovered));
                }
                None => {
                    self.unread.get_or_insert(place);
                }
            }
        } else if is_waiting && !names_it {
            let first = self.backlog.map_or(place, |(first, _)| first);
            self.backlog = Some((first, place));
        }
    }

    /// Everything for the account up to here was acknowledged by it.
    fn account_through(&self) -> Option<Place> {
        let acked = self.stored.acked;
        let has_all = |first: Place| first.before().min(acked);
        self.stored
            .is_taker
            .then(|| self.unnamed.map_or(acked, has_all))
    }

    fn finish(mut self, mark: Place, tail: Place) -> RecoveredSession {
        // As listed, and behind that as they came.
        self.given.sort_by_key(|(at, _)| *at);
        let backlog = self
            .backlog
            .map(|(first, last)| (first.before().max(mark), last));
        RecoveredSession {
            session: self.stored.session,
            read: self.unread.map_or(tail, Place::before),
            is_taker: self.stored.is_taker,
            backlog: backlog.filter(|(next, last)| next < last),
            given: self.given.into_iter().map(|(_, entry)| entry).collect(),
        }
    }
}

impl Recovery {
    /// Of these sessions. `mark` is the account's, as it is recorded.
    pub fn new(mark: Place, stored: Vec<StoredSession>) -> Self {
        let sessions = stored.into_iter().map(|stored| Session {
            listed: (stored.numbered.iter().enumerate())
                .filter(|(_, (_, place))| *place > stored.acked)
                .map(|(at, (_, place))| (*place, at))
                .collect(),
            stored,
            given: Vec::new(),
            unread: None,
            backlog: None,
            unnamed: None,
        });
        Recovery {
            mark,
            sessions: sessions.collect(),
            waiting: Vec::new(),
        }
    }

    /// Nothing up to here is owed to any of them, or to the account.
    pub fn floor(&self) -> Option<Place> {
        let sessions = self.sessions.iter().map(|own| own.stored.acked);
        Some(sessions.min()?.min(self.mark))
    }

    /// Notes to whom an entry is owed.
    pub fn note(&mut self, entry: StoredEntry<'_>) {
        let is_waiting = entry.to.is_for_account && entry.place > self.mark;
        if is_waiting {
            self.waiting.push((entry.place, entry.bytes));
        }
        for own in &mut self.sessions {
            own.note(entry, is_waiting);
        }
    }

    /// What came of it. `tail` is the last entry of the log.
    pub fn finish(self, tail: Place) -> Recovered {
        let through = self.sessions.iter().filter_map(Session::account_through);
        let mark = through.fold(self.mark, Place::max);
        let behind = self.waiting.iter().filter(|(place, _)| *place > mark);
        let mut waiting = (0, 0);
        for (_, bytes) in behind {
            waiting = (waiting.0 + 1, waiting.1 + u64::from(*bytes));
        }
        let last = self.waiting.last();
        let sessions = self.sessions.into_iter();
        Recovered {
            mark,
            recorded: self.mark,
            last: last.map_or(Place::START, |(place, _)| *place),
            waiting,
            sessions: sessions.map(|own| own.finish(mark, tail)).collect(),
        }
    }
}
