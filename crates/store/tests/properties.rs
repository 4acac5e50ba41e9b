//! Properties of state: it depends on the records alone, not on how they were grouped, in what
//! engine they are kept or when the process ended; and a crash never shows half a batch.

mod common;

use std::collections::HashMap;
use std::sync::Arc;

use common::{KEY, append_all, dump, item, one, range_of};
use proptest::collection::vec;
use proptest::prelude::*;
use stdx::time::Timestamp;
use store::{
    ArchivePrefs, Delivered, DirectoryEntry, Durability, Engine, EntryFlags, FaultyEngine,
    FjallEngine, FjallOptions, InlineJournal, Item, Journal, KnownAddress, LogEntry, MemoryEngine,
    NumberedEntry, Outbound, Outcome, Progress, Reader, Record, RoomRead, Roster, SessionRecord,
    Store, Tenure,
};

const USERS: [&str; 4] = ["romeo@x", "juliet@x", "nurse@verona", "verona"];

fn progress() -> impl Strategy<Value = Progress> {
    let inbound = vec((0u32..4, any::<u32>()), 0..3);
    let acked = vec((0u32..4, 0u64..40), 0..3);
    (inbound, acked, 0u64..40).prop_map(|(inbound, acked, forwarded)| Progress {
        inbound: inbound.into(),
        acked: acked.into(),
        forwarded,
    })
}

fn entry() -> impl Strategy<Value = LogEntry> {
    let went_to = vec((0u32..4, any::<u32>()), 0..3);
    let peer = ("[r-t]@x", 0u64..9, 0u64..9);
    let rest = (vec(any::<u8>(), 0..60), any::<u32>(), went_to, progress());
    (1u64..40, any::<i64>(), peer, rest).prop_map(
        |(seq, at, (peer, source, origin), (frame, flags, went_to, progress))| {
            let went_to = went_to.into_iter();
            LogEntry {
                seq,
                at: Timestamp::from_millis(at),
                peer: peer.into(),
                flags: EntryFlags(flags),
                frame: frame.into(),
                source,
                origin,
                went_to: went_to
                    .map(|(session, count)| Outbound { session, count })
                    .collect(),
                progress,
            }
        },
    )
}

fn record() -> impl Strategy<Value = Record> {
    let user = || prop::sample::select(&USERS[..]).prop_map(str::to_owned);
    let small = || 0u64..12;
    let text = || "[a-c]{0,6}";
    let items = vec("[a-d]@y", 0..6).prop_map(|jids| jids.iter().map(|jid| item(jid)).collect());
    prop_oneof![
        4 => (user(), 1u32..9).prop_map(|(user, n)| {
            Record::AccountPut { user, account: common::account(n) }
        }),
        1 => user().prop_map(|user| Record::AccountRemove { user }),
        3 => (user(), small(), "[a-d]@y").prop_map(|(user, version, jid)| {
            Record::RosterPut { user, version, item: item(&jid) }
        }),
        1 => (user(), small(), "[a-d]@y").prop_map(|(user, version, contact)| {
            Record::RosterRemove { user, version, contact }
        }),
        1 => (user(), small(), items).prop_map(|(user, version, items)| {
            Record::RosterReplace { user, roster: Roster { version, items } }
        }),
        1 => (user(), vec("[a-d]@y", 0..4)).prop_map(|(user, blocked)| {
            Record::BlocklistPut { user, blocked }
        }),
        1 => (user(), any::<i64>(), text()).prop_map(|(user, at, status)| {
            Record::LastActivity { user, at: Timestamp::from_millis(at), status }
        }),
        1 => (user(), vec(any::<u8>(), 0..40), text()).prop_map(|(user, xml, photo_hash)| {
            Record::VCardPut { user, xml, photo_hash }
        }),
        1 => (user(), "[ab]", "[ab]", vec(any::<u8>(), 0..40)).prop_map(|(user, ns, name, xml)| {
            Record::PrivatePut { user, ns, name, xml }
        }),
        6 => (user(), entry()).prop_map(|(user, entry)| {
            Record::LogAppend { user: user.into(), entry }
        }),
        2 => (user(), 0u64..40).prop_map(|(user, through)| Record::LogTrim { user, through }),
        2 => (user(), 0u64..40, vec(any::<u8>(), 0..60)).prop_map(|(user, seq, frame)| {
            Record::LogReplace { user, seq, frame }
        }),
        2 => (user(), progress()).prop_map(|(user, progress)| {
            Record::LogProgress { user, progress }
        }),
        1 => (user(), 0u64..40, vec(0u64..40, 0..4)).prop_map(|(user, through, requeued)| {
            let delivered = Delivered { through, requeued, ..Delivered::default() };
            Record::LogDelivered { user, delivered }
        }),
        2 => (user(), 0u32..4, text(), any::<bool>()).prop_map(|(user, number, token, carbons)| {
            let token = token.into_bytes();
            let session = SessionRecord { number, token, carbons, ..SessionRecord::default() };
            Record::SessionPut { user, session: Box::new(session) }
        }),
        1 => (user(), 0u32..4).prop_map(|(user, number)| Record::SessionRemove { user, number }),
        1 => (user(), 0u32..4, 0u64..40, any::<u32>()).prop_map(|(user, number, seq, count)| {
            let numbered = vec![NumberedEntry { count, seq }];
            Record::SessionNumbered { user, number, void_through: seq, numbered }
        }),
        1 => (user(), vec("[a-d]@y", 0..4)).prop_map(|(user, always)| {
            let prefs = ArchivePrefs { always, ..ArchivePrefs::default() };
            Record::ArchivePrefsPut { user, prefs }
        }),
        2 => (user(), user(), vec(any::<u8>(), 1..20)).prop_map(|(user, creator, about)| {
            Record::RoomMake { user, creator, about }
        }),
        2 => (user(), "[0a][a-c]{0,2}", vec(any::<u8>(), 0..20)).prop_map(|(user, part, value)| {
            Record::RoomPut { user, part, value }
        }),
        1 => user().prop_map(|user| Record::RoomRemove { user }),
        2 => (user(), "[a-c]{0,2}").prop_map(|(user, nick)| {
            let entry = DirectoryEntry { nick, ..DirectoryEntry::default() };
            Record::DirectoryPut { user, entry }
        }),
        1 => user().prop_map(|user| Record::ServiceMake { user }),
        2 => (user(), 0u64..3, "[0a][a-c]{0,2}", vec(any::<u8>(), 0..20)).prop_map(
            |(user, node, part, value)| Record::NodePut { user, node, part, value }
        ),
        1 => (user(), 0u64..3).prop_map(|(user, node)| Record::NodeRemove { user, node }),
        4 => (user(), 0u64..3, "[a-c]{0,2}", any::<u64>(), vec(any::<u8>(), 0..30)).prop_map(
            |(user, node, id, seq, payload)| {
                let item = Item { id, seq, payload: payload.into(), ..Item::default() };
                Record::ItemPut { user, node, item }
            }
        ),
        1 => (user(), 0u64..3, vec("[a-c]{0,2}", 0..4)).prop_map(|(user, node, ids)| {
            Record::ItemsRemove { user, node, ids }
        }),
        1 => (user(), 0u64..3).prop_map(|(user, node)| Record::ItemsClear { user, node }),
        2 => (user(), 0u32..4, user(), any::<u32>(), 0u64..40).prop_map(
            |(user, number, room, count, seq)| {
                let given = vec![NumberedEntry { count, seq }];
                let (user, room) = (user.into(), room.into());
                Record::SessionRoomPut { user, number, room, read: RoomRead { acked: seq, given } }
            }
        ),
        1 => (user(), 0u32..4, user()).prop_map(|(user, number, room)| {
            Record::SessionRoomRemove { user, number, room }
        }),
        2 => (user(), user(), 0u64..40).prop_map(|(user, room, through)| {
            Record::MemberRoomPut { user, room, through }
        }),
        1 => (user(), user()).prop_map(|(user, room)| Record::MemberRoomRemove { user, room }),
        1 => (user(), any::<bool>()).prop_map(|(user, locked)| {
            Record::AccountLock { user, locked }
        }),
        1 => (user(), vec((any::<u64>(), any::<u32>()), 0..3)).prop_map(|(user, known)| {
            let known = known.into_iter().map(|(key, day)| KnownAddress { key, day });
            Record::KnownAddressesPut { user, known: known.collect() }
        }),
    ]
}

/// Appends each record by itself, in calls of the given sizes.
fn run(engine: &Arc<dyn Engine>, records: &[Record], groups: &[usize], durability: Durability) {
    let store = Store::with_engine(Arc::clone(engine), durability, KEY).unwrap();
    let journal = InlineJournal::new(&store).unwrap();
    let mut rest = records;
    let mut sizes = groups.iter().cycle();
    while !rest.is_empty() {
        let size = (*sizes.next().unwrap()).min(rest.len());
        let (now, later) = rest.split_at(size);
        let mut tenures: HashMap<store::RangeId, Tenure> = HashMap::new();
        let mut appends = Vec::new();
        for record in now {
            let range = range_of(KEY, record.user());
            let tenure = tenures.entry(range);
            let tenure = *tenure.or_insert_with(|| journal.take(range));
            appends.push(one(range, tenure, vec![record.clone()]));
        }
        let outcomes = append_all(&journal, appends);
        assert!(
            outcomes.iter().all(|o| matches!(o, Outcome::Committed(_))),
            "{outcomes:?}"
        );
        rest = later;
    }
    let report = store.verify().unwrap();
    assert!(report.is_good(), "{report}");
}

fn memory() -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The same records in the same order give the same bytes, whatever the grouping.
    #[test]
    fn state_does_not_depend_on_grouping(
        records in vec(record(), 1..120),
        groups in vec(1usize..30, 1..6),
    ) {
        let one_by_one = memory();
        run(&one_by_one, &records, &[1], Durability::Memory);
        let grouped = memory();
        run(&grouped, &records, &groups, Durability::Memory);
        prop_assert_eq!(dump(&*one_by_one), dump(&*grouped));
    }

    /// Records survive their encoding.
    #[test]
    fn records_decode_to_what_was_encoded(record in record()) {
        prop_assert_eq!(Record::decode(&record.encode(stdx::Level::NEWEST)), Ok(record));
    }

    /// Decoding never panics.
    #[test]
    fn undecodable_records_are_errors(bytes in vec(any::<u8>(), 0..80)) {
        let _ = Record::decode(&bytes);
        let mut versioned = vec![store::RECORD_VERSION];
        versioned.extend(bytes);
        let _ = Record::decode(&versioned);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// The engine on disk holds the same as the one in memory, before and after it is opened again.
    #[test]
    fn disk_and_memory_agree(
        records in vec(record(), 1..120),
        groups in vec(1usize..30, 1..6),
    ) {
        let reference = memory();
        run(&reference, &records, &[1], Durability::Memory);
        let folder = tempfile::tempdir().unwrap();
        {
            let engine: Arc<dyn Engine> =
                Arc::new(FjallEngine::open(folder.path(), FjallOptions::default()).unwrap());
            run(&engine, &records, &groups, Durability::Fsync);
            prop_assert_eq!(dump(&*engine), dump(&*reference));
        }
        let engine = FjallEngine::open(folder.path(), FjallOptions::default()).unwrap();
        prop_assert_eq!(dump(&engine), dump(&*reference));
    }
}

/// An engine that a test holds two handles of.
struct Shared(Arc<FaultyEngine<MemoryEngine>>);

impl Reader for Shared {
    fn get(&self, space: store::Space, key: &[u8]) -> Result<Option<Vec<u8>>, store::StoreError> {
        self.0.get(space, key)
    }
    fn scan(
        &self,
        space: store::Space,
        start: &[u8],
        end: &[u8],
        visit: store::Visit<'_>,
    ) -> Result<(), store::StoreError> {
        self.0.scan(space, start, end, visit)
    }
    fn scan_back(
        &self,
        space: store::Space,
        start: &[u8],
        end: &[u8],
        visit: store::Visit<'_>,
    ) -> Result<(), store::StoreError> {
        self.0.scan_back(space, start, end, visit)
    }
}

impl Engine for Shared {
    fn snapshot(&self) -> Result<Box<dyn Reader>, store::StoreError> {
        self.0.snapshot()
    }
    fn commit(&self, batch: store::Batch, durability: Durability) -> Result<(), store::StoreError> {
        self.0.commit(batch, durability)
    }
    fn heal(&self) -> Result<(), store::StoreError> {
        self.0.heal()
    }
    fn is_settled(&self) -> bool {
        self.0.is_settled()
    }
    fn stats(&self) -> store::EngineStats {
        self.0.stats()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// After a crash the state is that of a prefix of the groups: none is there by half, none that
    /// was synced is missing.
    #[test]
    fn a_crash_leaves_whole_groups(
        records in vec(record(), 1..80),
        size in 1usize..20,
        synced in 0usize..6,
        survivors in 0usize..6,
    ) {
        let groups: Vec<&[Record]> = records.chunks(size).collect();
        let synced = synced.min(groups.len());
        let faulty = Arc::new(FaultyEngine::new(MemoryEngine::new()));
        let engine: Arc<dyn Engine> = Arc::new(Shared(Arc::clone(&faulty)));
        let before: Vec<Record> = groups[..synced].concat();
        run(&engine, &before, &[size], Durability::Fsync);
        for group in &groups[synced..] {
            run(&engine, group, &[size], Durability::Memory);
        }
        let lost = faulty.crash(survivors).unwrap();
        prop_assert_eq!(lost, (groups.len() - synced).saturating_sub(survivors));
        let kept = groups.len() - lost;
        let reference = memory();
        run(&reference, &groups[..kept].concat(), &[size], Durability::Memory);
        prop_assert_eq!(dump(&*engine), dump(&*reference));
    }
}
