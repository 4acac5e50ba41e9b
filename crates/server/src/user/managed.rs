//! A session with stream management (XEP-0198): what it was sent and has not acknowledged, how many
//! of its client's stanzas were handled, and the connection that it has at the moment. State only;
//! what happens to it is in `resume.rs`.

use std::collections::VecDeque;

use net::ConnRef;
use rustc_hash::FxHashMap;
use stdx::time::Moment;
use store::{NumberedEntry, Seq};
use xmpp::sm::{Kept, Limits, Outbound, Pushed, Resumed, TooHigh};

use super::spill::Spill;

/// Marks an outbound count in a log entry that is owed to its session whatever the client says: it
/// was never written.
pub(super) const UNNUMBERED: u32 = 1 << 31;

/// Stands in a log entry for clients without stream management that were given it, beside sessions
/// that are to get it later. No session has this number.
pub(super) const ANYBODY: u32 = UNNUMBERED - 1;

/// Marks an entry in the list of a session's record that was not sent: it is owed whatever the
/// client says.
pub(super) const UNSENT: u64 = 1 << 62;

/// Marks the place of an entry that more than one session was given.
pub(super) const SHARED: u64 = 1 << 63;

/// Where a list says of a shared entry how many sessions held it and nobody had acknowledged it:
/// if they are fewer when the process has ended, somebody has.
const HOLDERS_SHIFT: u32 = 57;

/// Stands there if somebody has acknowledged it, and for more sessions than can be said.
const SOMEBODY: u8 = 31;

/// All marks of an entry.
const MARKS: u64 = SHARED | UNSENT | (SOMEBODY as u64) << HOLDERS_SHIFT;

const _: () = assert!(MARKS.count_ones() == store::limits::NUMBERED_MARK_BITS);

/// The number of the session that an entry notes.
pub(crate) fn session_number(noted: &store::Outbound) -> u32 {
    noted.session & !UNNUMBERED
}

/// The place of an entry without its marks.
pub(super) fn place(marked: u64) -> Seq {
    marked & !MARKS
}

/// How many sessions held an entry, as a list says; more than there are if somebody has it. Lists
/// that do not say so are of before they did: then there was one more at least.
pub(super) fn holders_told(marked: u64) -> u8 {
    match (marked & SHARED, (marked >> HOLDERS_SHIFT) as u8 & SOMEBODY) {
        (0, _) => 0,
        (_, 0) => 2,
        (_, SOMEBODY) => u8::MAX,
        (_, told) => told,
    }
}

/// Where a session's stanzas go.
#[derive(Debug)]
pub(crate) enum Link {
    /// To this connection.
    Attached(ConnRef),
    /// Nowhere: they are kept. The link was lost at this time.
    Detached(Moment),
    /// This connection resumes the session and waits for what the log owes it.
    Resuming(Box<Resuming>),
}

/// A resumption under way.
#[derive(Debug)]
pub(crate) struct Resuming {
    pub conn: ConnRef,
    /// What the client says it has handled.
    pub h: u32,
    /// Entries as they are written to this session, by place.
    pub entries: FxHashMap<Seq, Vec<u8>>,
    /// From this one on they were not read: they are too much to be sent at once.
    pub first_unread: Option<Seq>,
}

impl Resuming {
    pub(super) fn new(conn: ConnRef, h: u32) -> Self {
        Resuming {
            conn,
            h,
            entries: FxHashMap::default(),
            first_unread: None,
        }
    }
}

/// What an entry or a stanza that is written to a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// An entry of the user's log, perhaps [`SHARED`].
    Entry(u64),
    /// Presence: the current one can take its place.
    Presence,
    /// Any other stanza.
    Other,
}

impl What {
    /// The place of an entry, with its mark.
    pub(super) fn entry(self) -> Option<u64> {
        match self {
            What::Entry(entry) => Some(entry),
            What::Presence | What::Other => None,
        }
    }
}

/// The stream management of one session.
#[derive(Debug)]
pub(crate) struct Managed {
    /// Names the session in log entries.
    pub number: u32,
    /// What the client shows to resume it.
    pub token: Box<str>,
    /// How long it may be detached, in seconds; 0 if it cannot be resumed.
    pub max_seconds: u32,
    pub link: Link,
    /// Its client was told that stanzas are counted from here on.
    pub is_enabled: bool,
    /// Stanzas of the client that were handled, modulo 2^32.
    pub inbound: u32,
    /// How many of them a record says were handled.
    pub inbound_recorded: u32,
    /// What was sent and is not acknowledged.
    pub out: Outbound,
    /// Stanzas that wait for a commit before they are sent, with the places of those that are
    /// entries.
    pub pending: VecDeque<Option<u64>>,
    /// Entries of the log in `out`.
    pub entries: u32,
    /// Entries that it is owed since the process that sent them ended, in order, each with its
    /// count if it was sent. Until it is resumed, nobody knows what the client has.
    pub owed: Option<Vec<(Option<u32>, u64)>>,
    /// Its client is behind: the rest of what it is owed is in the log only.
    pub spill: Option<Box<Spill>>,
    /// What entries up to here say of their counts is void: a record has them all. 0 if none has.
    pub void_through: Seq,
    /// Its entries were counted anew, and that could not be recorded.
    pub is_list_lost: bool,
    /// The client acknowledged entries since that was recorded last.
    pub acked_since: bool,
    /// Presence was given up: at its resumption it is told the current one of all contacts.
    pub presence_lost: bool,
    /// It cannot be served any further.
    pub is_full: bool,
}

impl Managed {
    /// A session that has just been made.
    pub(super) fn new(number: u32, token: Box<str>, max_seconds: u32, link: Link) -> Self {
        Managed {
            number,
            token,
            max_seconds,
            link,
            is_enabled: false,
            inbound: 0,
            inbound_recorded: 0,
            out: Outbound::default(),
            pending: VecDeque::new(),
            entries: 0,
            owed: None,
            spill: None,
            void_through: 0,
            is_list_lost: false,
            acked_since: false,
            presence_lost: false,
            is_full: false,
        }
    }

    /// The count that the next stanza will have.
    fn next_count(&self) -> u32 {
        let sent = self.out.sent().wrapping_add(self.pending.len() as u32);
        sent.wrapping_add(1)
    }

    /// What was said of it in a record has to be said again.
    pub(super) fn not_recorded(&mut self) {
        self.inbound_recorded = self.inbound.wrapping_sub(1);
        self.acked_since = true;
    }

    /// How an entry notes that the session was given it.
    pub(super) fn outbound(&self) -> store::Outbound {
        if self.owed.is_some() || self.spill.is_some() {
            return store::Outbound {
                session: self.number | UNNUMBERED,
                count: 0,
            };
        }
        store::Outbound {
            session: self.number,
            count: self.next_count(),
        }
    }

    /// Takes a stanza that is to be sent. False if it must not be sent.
    pub(super) fn push(&mut self, what: What, bytes: &[u8], limits: Limits) -> bool {
        if self.is_full {
            return false;
        }
        if let Some(owed) = &mut self.owed {
            match what {
                What::Entry(seq) => owed.push((None, seq)),
                // The current presence is sent at the resumption; and nobody waits for anything
                // else: what the client had asked for was lost with the process.
                What::Presence | What::Other => {}
            }
            return false;
        }
        let kept = match what {
            What::Entry(seq) => {
                self.entries += 1;
                Kept::Entry(seq)
            }
            What::Presence => Kept::Presence(bytes.into()),
            What::Other => Kept::Other(bytes.into()),
        };
        match self.out.push(kept, limits) {
            Pushed::Kept => {}
            Pushed::PresenceGaveWay => self.presence_lost = true,
            Pushed::Full => self.is_full = true,
        }
        !self.is_full
    }

    /// Entries in memory that the client has not acknowledged, with their marks: those that it was
    /// given, in order, and those that are spilled although they are older than the rest.
    pub(super) fn unacked_entries(&self) -> Vec<u64> {
        let mut entries = self.given_entries();
        entries.extend(self.spill.iter().flat_map(|spill| &spill.late));
        entries
    }

    /// Entries that it was given and has not acknowledged, in order, with their marks.
    pub(super) fn given_entries(&self) -> Vec<u64> {
        let pending = self.pending.iter().flatten().copied();
        match &self.owed {
            Some(owed) => owed.iter().map(|(_, seq)| *seq).chain(pending).collect(),
            None => {
                let sent = self.out.unacked().filter_map(|(_, kept)| kept.entry());
                sent.chain(pending).collect()
            }
        }
    }

    /// The places of those that the client has not got if it has handled `h`.
    pub(super) fn given_beyond(&self, h: u32) -> Vec<Seq> {
        let is_beyond = |count: u32| count.wrapping_sub(h).cast_signed() > 0;
        let pending = self.pending.iter().flatten().copied();
        let given: Vec<u64> = match &self.owed {
            Some(owed) => {
                let owed = owed.iter().filter(|(count, _)| count.is_none_or(is_beyond));
                owed.map(|(_, entry)| *entry).chain(pending).collect()
            }
            None => {
                let sent = self.out.unacked().filter(|(count, _)| is_beyond(*count));
                let sent = sent.filter_map(|(_, kept)| kept.entry());
                sent.chain(pending).collect()
            }
        };
        given.into_iter().map(place).collect()
    }

    /// How many of `places`, entries that it is to be sent again, are not too much at once.
    pub(super) fn fitting(&self, places: &[Seq], bytes_max: usize) -> usize {
        let Link::Resuming(resuming) = &self.link else {
            return places.len();
        };
        let mut bytes = 0;
        let fits = places.iter().take_while(|place| {
            bytes += resuming.entries.get(*place).map_or(0, Vec::len);
            bytes <= bytes_max && resuming.first_unread != Some(**place)
        });
        // One goes, whatever its size.
        fits.count().max(1)
    }

    /// Leaves to the log what is too much to be sent again at once. `last` is the last entry of the
    /// log. True if there was such.
    pub(super) fn leave_surplus(&mut self, bytes_max: usize, last: Seq) -> bool {
        let entries = self.out.unacked().filter_map(|(_, kept)| kept.entry());
        let places: Vec<Seq> = entries.map(place).collect();
        let fitting = self.fitting(&places, bytes_max);
        if fitting >= places.len() {
            return false;
        }
        let left = self.out.leave_entries(fitting);
        self.entries = fitting as u32;
        let spill = self.spill.get_or_insert_with(|| Box::new(Spill::new(last)));
        spill.late.splice(0..0, left);
        true
    }

    /// The oldest entry that may be owed to it.
    pub(super) fn oldest_unacked(&self) -> Option<Seq> {
        let is_idle = self.entries == 0 && self.pending.is_empty();
        if is_idle && self.owed.is_none() && self.spill.is_none() {
            return None;
        }
        let unacked = self.unacked_entries().into_iter().map(place);
        let spilled = self.spill.iter().map(|spill| spill.after + 1);
        unacked.chain(spilled).min()
    }

    /// Every entry in memory that it has not acknowledged, with its count if it was sent: the
    /// complete list up to [`Managed::listed_through`], which makes void what entries say. Marked
    /// are those that others have had too; `holders` knows how many hold one that nobody has
    /// acknowledged.
    pub(super) fn numbered(&self, holders: impl Fn(Seq) -> Option<u8>) -> Vec<NumberedEntry> {
        let numbered = |count: Option<u32>, entry: u64| {
            let held = match holders(place(entry)) {
                Some(1) => None,
                Some(held) => Some(held.min(SOMEBODY)),
                None => Some(SOMEBODY),
            };
            let held = held.filter(|_| entry & SHARED != 0);
            let shared = held.map_or(0, |held| SHARED | u64::from(held) << HOLDERS_SHIFT);
            let unsent = if count.is_none() { UNSENT } else { 0 };
            NumberedEntry {
                count: count.unwrap_or(0),
                seq: place(entry) | shared | unsent,
            }
        };
        let late = self.spill.iter().flat_map(|spill| &spill.late);
        let late = late.map(|entry| numbered(None, *entry));
        if let Some(owed) = &self.owed {
            let pending = self.pending.iter().flatten().map(|entry| (None, *entry));
            let all = owed.iter().copied().chain(pending);
            let all = all.map(|(count, entry)| numbered(count, entry));
            return all.chain(late).collect();
        }
        let sent = self
            .out
            .unacked()
            .map(|(count, kept)| (count, kept.entry()));
        let behind = self.pending.iter().zip(1..).map(|(entry, ahead)| {
            let count = self.out.sent().wrapping_add(ahead);
            (count, *entry)
        });
        let all = sent.chain(behind);
        let all = all.filter_map(|(count, entry)| Some(numbered(Some(count), entry?)));
        all.chain(late).collect()
    }

    /// The client is back and has handled `h`. Gives the entries that it has. `last` is the last
    /// entry of the log; after a restart the session is sent `entries_max` again at most.
    ///
    /// # Errors
    /// It was never sent so many.
    pub(super) fn resume(
        &mut self,
        h: u32,
        last: Seq,
        entries_max: usize,
    ) -> Result<Resumed, TooHigh> {
        let mut resumed = match self.owed.take() {
            None => self.out.resume(h)?,
            Some(owed) => {
                let is_owed = |count: Option<u32>| {
                    count.is_none_or(|count| count.wrapping_sub(h).cast_signed() > 0)
                };
                let (mut left, acked): (Vec<_>, Vec<_>) =
                    owed.into_iter().partition(|(count, _)| is_owed(*count));
                // What it was not sent yet, and is newer than what is left to the log begins, goes
                // among that in its order.
                let after = self.spill.as_ref().map_or(last, |spill| spill.after);
                let is_late = |count: Option<u32>, entry| count.is_none() && place(entry) > after;
                left.sort_by_key(|(count, entry)| is_late(*count, *entry));
                let early = left.iter().filter(|(count, seq)| !is_late(*count, *seq));
                let at_once = early.count().min(entries_max);
                if left.len() > at_once {
                    let rest = left.split_off(at_once);
                    let spill = self.spill.get_or_insert_with(|| Box::new(Spill::new(last)));
                    spill
                        .late
                        .splice(0..0, rest.into_iter().map(|(_, seq)| seq));
                }
                self.out = Outbound::recovered(h, left.into_iter().map(|(_, seq)| seq));
                Resumed {
                    acked: acked.into_iter().map(|(_, seq)| seq).collect(),
                    is_renumbered: true,
                    presence_lost: true,
                    behind: None,
                }
            }
        };
        resumed.is_renumbered |= std::mem::take(&mut self.is_list_lost);
        self.acked_since = true;
        self.presence_lost |= resumed.presence_lost;
        let entries = self
            .out
            .unacked()
            .filter(|(_, kept)| kept.entry().is_some());
        self.entries = entries.count() as u32;
        Ok(resumed)
    }

    /// Whether a connection is the session's, or is about to be.
    pub(super) fn has_link(&self, conn: ConnRef) -> bool {
        match &self.link {
            Link::Attached(link) => *link == conn,
            Link::Resuming(resuming) => resuming.conn == conn,
            Link::Detached(_) => false,
        }
    }

    /// The connection that resumes it.
    pub(super) fn resuming(&self) -> Option<ConnRef> {
        match &self.link {
            Link::Resuming(resuming) => Some(resuming.conn),
            Link::Attached(_) | Link::Detached(_) => None,
        }
    }

    /// The connection that is written to.
    pub(super) fn attached(&self) -> Option<ConnRef> {
        match self.link {
            Link::Attached(conn) => Some(conn),
            Link::Detached(_) | Link::Resuming(_) => None,
        }
    }
}
