//! What the store's layouts mean to delivery, and how it says so in them: for whom an entry is,
//! what a session was given, what ended sessions left. Marks in numbers are here and nowhere else;
//! some are of before the account had a mark of its own, and only read.

use delivery::{
    Addressee, Count, Few, Given, InboxChanges, Left, Place, Recipients, SessionChange,
    SessionNumber,
};
use store::{EntryFlags, LogEntry, NumberedEntry, Outbound, Seq, SessionRecord};

/// The entry was for one session; others got copies of it.
pub(super) const ADDRESSED: EntryFlags = EntryFlags::FREE;

/// Marks a session that an entry names without a count: it reads the entry from the log.
const UNNUMBERED: u32 = 1 << 31;

/// Stands in an entry that names sessions for clients without stream management that were given it:
/// it waits for nobody else. No session has this number.
const ANYBODY: u32 = UNNUMBERED - 1;

/// The first number of sessions without stream management, which no record names.
pub(super) const PLAIN: u32 = 1 << 30;

/// Marks a listed entry that was not sent; and in what an ended session left a place, other than
/// the one behind which everything is left.
const UNSENT: u64 = 1 << 62;

/// A place without marks: lists of before say beside [`UNSENT`] who else had an entry.
const PLACE: Seq = Seq::MAX >> store::limits::NUMBERED_MARK_BITS;

/// The sessions that an entry names, by number, each with whether the entry was written to it when
/// it was appended: the others read it from the log.
pub(crate) fn named_sessions(entry: &LogEntry) -> impl Iterator<Item = (u32, bool)> {
    named(entry).map(|noted| (session_number(noted), noted.session & UNNUMBERED == 0))
}

/// The number of the session that an entry names.
pub(super) fn session_number(noted: &Outbound) -> u32 {
    noted.session & !UNNUMBERED
}

fn named(entry: &LogEntry) -> impl Iterator<Item = &Outbound> {
    let noted = entry.went_to.iter();
    noted.filter(|noted| noted.session != ANYBODY)
}

/// For whom an entry is.
pub(super) fn recipients(entry: &LogEntry) -> Recipients {
    let sessions: Few<SessionNumber> = named(entry)
        .map(|noted| SessionNumber::new(session_number(noted)))
        .collect();
    let is_for_account = entry.flags.has(EntryFlags::WAITING);
    let is_nobodys =
        sessions.len() < entry.went_to.len() || is_for_account || entry.flags.has(EntryFlags::SENT);
    let addressee = match sessions.first() {
        None => Addressee::Nobody,
        Some(_) if is_nobodys => Addressee::Nobody,
        Some(first) if entry.flags.has(ADDRESSED) => Addressee::Session(*first),
        Some(_) => Addressee::Each,
    };
    Recipients {
        is_for_account,
        addressee,
        sessions,
    }
}

/// The counts that an entry was written with.
pub(super) fn counts(entry: &LogEntry) -> Few<(SessionNumber, Count)> {
    let counted = named(entry).filter(|noted| noted.session & UNNUMBERED == 0);
    let counted = counted.map(|noted| (SessionNumber::new(noted.session), Count::new(noted.count)));
    counted.collect()
}

/// How an entry says for whom it is, and what was given of it; `is_sent` by the user himself.
pub(super) fn went_to(
    to: &Recipients,
    given: &[(SessionNumber, Given)],
    is_sent: bool,
) -> store::Few<Outbound> {
    let noted = |session: &SessionNumber| {
        let given = given.iter().find(|(own, _)| own == session);
        match given {
            Some((_, Given::Numbered(count))) => Outbound {
                session: session.number(),
                count: count.number(),
            },
            _ => Outbound {
                session: session.number() | UNNUMBERED,
                count: 0,
            },
        }
    };
    let first = match to.addressee {
        Addressee::Session(addressee) => Some(addressee),
        Addressee::Nobody | Addressee::Each => None,
    };
    let others = to.sessions.iter().filter(|own| Some(**own) != first);
    let mut went_to: store::Few<Outbound> = first.iter().chain(others).map(noted).collect();
    let is_nobodys = !is_sent && !to.is_for_account && first.is_none();
    if is_nobodys && !went_to.is_empty() {
        went_to.push(Outbound {
            session: ANYBODY,
            count: 0,
        });
    }
    went_to
}

/// What a session was given, as its record lists it.
pub(super) fn numbered(change: &SessionChange) -> Vec<NumberedEntry> {
    let all = change.numbered.iter().map(|(count, place)| NumberedEntry {
        count: count.map_or(0, Count::number),
        seq: match count {
            Some(_) => place.number(),
            None => place.number() | UNSENT,
        },
    });
    all.collect()
}

/// The same, read.
pub(super) fn listed(record: &SessionRecord) -> Vec<(Option<Count>, Place)> {
    let all = record.numbered.iter().map(|listed| {
        let is_sent = listed.seq & UNSENT == 0;
        let count = is_sent.then_some(Count::new(listed.count));
        (count, Place::new(listed.seq & PLACE))
    });
    all.collect()
}

/// Whether a record is of before the account had a mark.
pub(super) fn is_of_before(record: &SessionRecord) -> bool {
    record.resumptions.is_none()
}

/// How often a session was resumed, as its record says.
pub(super) fn resumptions(record: &SessionRecord) -> u32 {
    let resumptions = record.resumptions.unwrap_or_default();
    u32::try_from(resumptions).unwrap_or_default()
}

/// Whether a record is not of a session, but of what one left.
pub(super) fn is_left(record: &SessionRecord) -> bool {
    record.token.is_empty()
}

/// What sessions left that ended, as one record says: its own, and that of further ones.
pub(super) fn left(record: &SessionRecord) -> Vec<Left> {
    let part = |session: u32, after: Seq| Left {
        session: SessionNumber::new(session),
        after: Place::new(after),
        unacked: Vec::new(),
    };
    let mut parts = vec![part(record.number, record.void_through)];
    for listed in &record.numbered {
        let (session, place) = (SessionNumber::new(listed.count), listed.seq & PLACE);
        if listed.seq & UNSENT == 0 {
            parts.push(part(listed.count, place));
        } else if let Some(own) = parts.iter_mut().find(|own| own.session == session) {
            own.unacked.push(Place::new(place));
        }
    }
    parts
}

/// The records of what sessions left: one for each, and the last one for all that find no room.
pub(super) fn left_records(parts: &[Left], records_max: usize) -> Vec<SessionRecord> {
    let unacked = |part: &Left| {
        let session = part.session.number();
        let places = part.unacked.clone().into_iter();
        places.map(move |place| NumberedEntry {
            count: session,
            seq: place.number() | UNSENT,
        })
    };
    let mut records: Vec<SessionRecord> = Vec::new();
    for part in parts {
        let (number, after) = (part.session.number(), part.after.number());
        let is_full = records.len() >= records_max.max(1);
        match records.last_mut().filter(|_| is_full) {
            Some(last) => {
                let joined = NumberedEntry {
                    count: number,
                    seq: after,
                };
                last.numbered.push(joined);
                last.numbered.extend(unacked(part));
            }
            None => records.push(SessionRecord {
                number,
                void_through: after,
                numbered: unacked(part).collect(),
                resumptions: Some(0),
                ..SessionRecord::default()
            }),
        }
    }
    records
}

/// The acknowledgements among changes, as they go along with an entry or alone.
pub(super) fn acked(changes: &InboxChanges) -> store::Few<(u32, Seq)> {
    let acked = changes.acknowledged.iter();
    acked
        .map(|(session, place)| (session.number(), place.number()))
        .collect()
}
