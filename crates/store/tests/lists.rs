//! Lists that are in one value of the store, at their bounds: one that is as long as may be comes
//! back, a longer one is refused and changes nothing. And pages of the archive of which little is
//! asked for.

mod common;

use std::sync::Arc;

use common::{KEY, append, committed, message, put};
use store::limits::{LAGGING_MAX, LOG_PAGE_BYTES_MAX, LOG_SCAN_MAX, NUMBERED_MAX, REQUEUED_MAX};
use store::{
    AppendFailure, Delivered, Durability, EntryFlags, InlineJournal, LaggingMark, MemoryEngine,
    NumberedEntry, Outcome, PageQuery, Record, RecordError, Seq, SessionRecord, Store, UserState,
};

const JULIET: &str = "juliet@localhost";

fn store(engine: &Arc<MemoryEngine>) -> Store {
    Store::with_engine(Arc::clone(engine) as _, Durability::Fsync, KEY).unwrap()
}

fn requeued(length: usize) -> Record {
    let delivered = Delivered {
        requeued: (1..=length as Seq).collect(),
        waiting_count: length as u64,
        ..Delivered::default()
    };
    Record::LogDelivered {
        user: JULIET.to_owned(),
        delivered,
    }
}

fn lagging(length: usize) -> Record {
    let mark = |n| LaggingMark {
        peer: n as u64,
        mark: 1,
    };
    Record::LaggingPut {
        user: JULIET.to_owned(),
        lagging: (1..=length).map(mark).collect(),
    }
}

fn entries(length: usize) -> Vec<NumberedEntry> {
    let entry = |n| NumberedEntry {
        count: n as u32,
        seq: n as Seq,
    };
    (1..=length).map(entry).collect()
}

fn numbered(length: usize) -> Record {
    Record::SessionNumbered {
        user: JULIET.to_owned(),
        number: 1,
        void_through: 0,
        numbered: entries(length),
    }
}

fn session(length: usize) -> Record {
    let session = SessionRecord {
        number: 1,
        resource: "balcony".to_owned(),
        numbered: entries(length),
        ..SessionRecord::default()
    };
    Record::SessionPut {
        user: JULIET.to_owned(),
        session: Box::new(session),
    }
}

fn lengths(state: &UserState) -> [usize; 3] {
    let windows = state.windows.as_ref();
    let listed = |length: fn(&store::Windows) -> usize| windows.map_or(0, |own| length(own));
    let session = state.sessions.find(1).map_or(0, |own| own.numbered.len());
    [
        listed(|own| own.requeued.len()),
        listed(|own| own.lagging.len()),
        session,
    ]
}

#[test]
fn a_list_that_is_as_long_as_may_be_comes_back_and_a_longer_one_is_refused() {
    let engine = Arc::new(MemoryEngine::new());
    let kept = store(&engine);
    let journal = InlineJournal::new(&kept).unwrap();
    // Its last place is behind all that wait.
    let last = message(JULIET, REQUEUED_MAX as Seq + 1, "last");
    let first = vec![put(JULIET), last, session(0)];
    assert!(committed(&append(&journal, KEY, first)));
    type List = (fn(usize) -> Record, usize, &'static str);
    let lists: [List; 4] = [
        (requeued, REQUEUED_MAX, "requeued entries"),
        (lagging, LAGGING_MAX, "lagging destinations"),
        (numbered, NUMBERED_MAX, "numbered entries"),
        (session, NUMBERED_MAX, "numbered entries"),
    ];
    for (list, max, what) in lists {
        assert!(committed(&append(&journal, KEY, vec![list(max)])), "{what}");
        let before = kept.load_user(JULIET).unwrap();
        let refused = RecordError::TooMany(what);
        assert_eq!(list(max + 1).check(), Err(refused.clone()));
        // Nothing of what comes in the same append either.
        let later = message(JULIET, REQUEUED_MAX as Seq + 2, "later");
        let outcome = append(&journal, KEY, vec![later, list(max + 1)]);
        let Outcome::Failed(AppendFailure::Invalid(why)) = outcome else {
            panic!("{what}: {outcome:?}");
        };
        assert!(why.contains(&refused.to_string()), "{why}");
        assert_eq!(kept.load_user(JULIET).unwrap(), before, "{what}");
    }
    drop((journal, kept));
    let kept = store(&engine);
    let state = kept.load_user(JULIET).unwrap().expect("an account");
    assert_eq!(lengths(&state), [REQUEUED_MAX, LAGGING_MAX, NUMBERED_MAX]);
    assert_eq!(state.log.next_seq, REQUEUED_MAX as Seq + 2);
}

/// A page ends after so many entries if it has one, and goes on as long as it has none: whoever
/// asks for page after page gets all that there are, once and in order.
#[test]
fn pages_that_look_at_many_entries_are_cut_and_leave_nothing_out() {
    let wanted: [Seq; 4] = [1, 5_000, 10_001, 2 * LOG_SCAN_MAX as Seq + 3_000];
    let engine = Arc::new(MemoryEngine::new());
    let kept = store(&engine);
    let entries = (1..=wanted[3]).map(|seq| {
        let mut record = message(JULIET, seq, "");
        if let Record::LogAppend { entry, .. } = &mut record
            && !wanted.contains(&seq)
        {
            entry.flags = EntryFlags::ARCHIVED;
        }
        record
    });
    kept.bulk(std::iter::once(put(JULIET)).chain(entries))
        .unwrap();
    for backwards in [false, true] {
        let mut query = PageQuery {
            flags: EntryFlags::WAITING,
            limit: 100,
            backwards,
            ..PageQuery::default()
        };
        let mut pages: Vec<Vec<Seq>> = Vec::new();
        loop {
            let page = kept.log_page(JULIET, &query).unwrap();
            pages.push(page.entries.iter().map(|entry| entry.seq).collect());
            match backwards {
                false => query.after = page.last(),
                true => query.before = page.first(),
            }
            if page.complete {
                break;
            }
            assert!(!page.entries.is_empty(), "{pages:?}");
        }
        let expected: [&[Seq]; 3] = match backwards {
            // What is behind the first 10,000 is left to the next page; that one looks until it
            // has something.
            false => [&wanted[..2], &wanted[2..3], &wanted[3..]],
            true => [&wanted[3..], &wanted[2..3], &wanted[..2]],
        };
        let pages: Vec<&[Seq]> = pages.iter().map(|page| &**page).collect();
        let pages: Vec<&[Seq]> = pages.into_iter().filter(|page| !page.is_empty()).collect();
        assert_eq!(pages, expected, "backwards: {backwards}");
    }
}

/// A page ends at so many bytes, too, if it has one entry: that of an archive in front of the one
/// that would be too much, that of what is handed over behind it.
#[test]
fn pages_of_large_entries_are_cut_and_leave_nothing_out() {
    const ENTRIES: Seq = 10;
    let body = "x".repeat(LOG_PAGE_BYTES_MAX / 4 - 1_000);
    let engine = Arc::new(MemoryEngine::new());
    let kept = store(&engine);
    let entries = (1..=ENTRIES).map(|seq| {
        let mut record = message(JULIET, seq, &body);
        if let Record::LogAppend { entry, .. } = &mut record {
            entry.flags = EntryFlags::ARCHIVED.and(EntryFlags::OUTGOING);
        }
        record
    });
    kept.bulk(std::iter::once(put(JULIET)).chain(entries))
        .unwrap();
    for (backwards, expected) in [
        (false, [&[1, 2, 3, 4][..], &[5, 6, 7, 8], &[9, 10]]),
        (true, [&[7, 8, 9, 10][..], &[3, 4, 5, 6], &[1, 2]]),
    ] {
        let mut query = PageQuery {
            flags: EntryFlags::ARCHIVED,
            limit: 100,
            backwards,
            ..PageQuery::default()
        };
        let pages = expected.map(|_| {
            let page = kept.log_page(JULIET, &query).unwrap();
            match backwards {
                false => query.after = page.last(),
                true => query.before = page.first(),
            }
            assert_eq!(page.complete, page.entries.len() == 2);
            let seqs = page.entries.iter().map(|entry| entry.seq);
            seqs.collect::<Vec<Seq>>()
        });
        assert_eq!(pages, expected, "backwards: {backwards}");
    }
    let mut after = 0;
    let pages = [5, ENTRIES, ENTRIES].map(|expected| {
        let (entries, through) = kept
            .log_outgoing(JULIET, None, (after, ENTRIES), 100)
            .unwrap();
        assert_eq!(through, expected);
        after = through;
        entries.len()
    });
    assert_eq!(pages, [5, 5, 0]);
}
