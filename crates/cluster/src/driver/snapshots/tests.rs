//! What becomes of snapshots that cannot be verified, purged behind or loaded, over a twin of the
//! engine; and that other streams go on while one is loaded.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Mutex;

use stdx::{Level, Timestamp};
use store::{Account, Record};

use super::*;
use crate::layout::Layout;

const STREAM: StreamId = StreamId(0);
const OTHER: StreamId = StreamId(1);

/// What stands for the engine.
#[derive(Default)]
struct Twin {
    kept: Mutex<BTreeMap<Seq, Vec<u8>>>,
    /// The first message of the stream; nothing: its leader is silent.
    first: Mutex<Option<Seq>>,
    /// What is stored gets damaged.
    damages: bool,
    /// A purge is done, and not answered.
    is_silent_about_purges: bool,
}

impl Twin {
    fn with_first(first: Seq) -> Twin {
        Twin {
            first: Mutex::new(Some(first)),
            ..Twin::default()
        }
    }

    fn kept(&self) -> Vec<Seq> {
        self.kept.lock().unwrap().keys().copied().collect()
    }

    fn damage(&self, seq: Seq) {
        let mut kept = self.kept.lock().unwrap();
        let bytes = kept.get_mut(&seq).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    }
}

fn silence() -> EngineError {
    EngineError::Silent {
        asked: "twin".to_owned(),
        why: "no answer".to_owned(),
    }
}

impl Shelf for Twin {
    async fn put(&self, _: StreamId, seq: Seq, file: &Path) -> Result<(), EngineError> {
        let bytes = fs::read(file).unwrap();
        self.kept.lock().unwrap().insert(seq, bytes);
        if self.damages {
            self.damage(seq);
        }
        Ok(())
    }

    async fn get(&self, _: StreamId, seq: Seq, file: &Path) -> Result<(), EngineError> {
        let kept = self.kept.lock().unwrap();
        let bytes = kept.get(&seq).ok_or_else(silence)?;
        fs::write(file, bytes).map_err(|error| EngineError::File(error.to_string()))
    }

    async fn list(&self, _: StreamId) -> Result<Vec<Seq>, EngineError> {
        Ok(self.kept())
    }

    async fn remove(&self, _: StreamId, seq: Seq) -> Result<(), EngineError> {
        let removed = self.kept.lock().unwrap().remove(&seq);
        removed.map(drop).ok_or_else(silence)
    }

    async fn forget(&self, _: StreamId) -> Result<(), EngineError> {
        let mut kept = self.kept.lock().unwrap();
        while kept.len() > 2 {
            kept.pop_first();
        }
        Ok(())
    }

    async fn forget_parts(&self) -> Result<(), EngineError> {
        Ok(())
    }

    async fn first(&self, _: StreamId) -> Option<Seq> {
        *self.first.lock().unwrap()
    }

    async fn purge(&self, _: StreamId, before: Seq) -> Result<(), EngineError> {
        *self.first.lock().unwrap() = Some(before);
        match self.is_silent_about_purges {
            true => Err(silence()),
            false => Ok(()),
        }
    }
}

/// A node with a copy of two streams.
struct Fixture {
    runtime: tokio::runtime::Runtime,
    folder: tempfile::TempDir,
    layout: Layout,
    store: Store,
    follower: Writing,
}

impl Fixture {
    fn new() -> Fixture {
        let store = Store::in_memory();
        Fixture {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            folder: tempfile::tempdir().unwrap(),
            layout: Layout::new("test", 2).unwrap(),
            follower: Arc::new(tokio::sync::Mutex::new(Follower::new(&store).unwrap())),
            store,
        }
    }

    fn place(&self) -> Place {
        let author = Author {
            node: "a".to_owned(),
            incarnation: 1,
        };
        let ranges = self.layout.ranges(STREAM);
        Place::new(self.folder.path(), &author, STREAM, ranges)
    }

    /// Applies a message with accounts of these numbers, as far as they are of the stream.
    fn apply(&self, stream: StreamId, seq: Seq, users: std::ops::Range<u32>) {
        let slots = self.store.slot_key();
        let appends = users.filter_map(|user| {
            let user = format!("u{user}@x");
            let range = slots.slot(&user).range();
            let account = Account {
                created: Timestamp::from_millis(i64::try_from(seq).unwrap()),
                ..Account::default()
            };
            let is_of_it = self.layout.stream_of(range) == stream;
            is_of_it.then(|| (range, vec![Record::AccountPut { user, account }]))
        });
        let appends: Vec<_> = appends.collect();
        let mark = StreamMark { seq, epoch: 1 };
        let mut follower = self.follower.blocking_lock();
        let applied = follower.apply(stream.0, mark, Level::FIRST, &appends);
        assert_eq!(applied.unwrap(), 0);
    }

    fn store(&self, twin: &Twin) -> Result<Stored, String> {
        let place = self.place();
        let stored = store(twin, &self.store, &place);
        let stored = self.runtime.block_on(stored);
        assert!(self.is_clean());
        stored
    }

    fn is_clean(&self) -> bool {
        fs::read_dir(self.folder.path()).unwrap().next().is_none()
    }

    /// Fetches and loads what there is.
    fn load(&self, twin: &Twin) -> Result<StreamMark, String> {
        self.runtime.block_on(async {
            fetch(twin, &self.store, &self.place()).await?;
            self.place().load(&self.follower).await
        })
    }
}

/// Goal: with everything in order a snapshot is kept, and the stream purged up to it.
#[test]
fn a_verified_snapshot_is_purged_behind() {
    let (node, twin) = (Fixture::new(), Twin::with_first(1));
    node.apply(STREAM, 5, 0..9);
    assert_eq!(node.store(&twin).unwrap().mark.seq, 5);
    assert_eq!(
        (twin.kept(), *twin.first.lock().unwrap()),
        (vec![5], Some(6))
    );
}

/// Goal: attempts that fail leave nothing behind, or they would fill the engine.
#[test]
fn what_is_not_verified_is_taken_away() {
    let node = Fixture::new();
    let twin = Twin {
        damages: true,
        ..Twin::with_first(1)
    };
    for seq in 5..9 {
        node.apply(STREAM, seq, 0..9);
        assert!(node.store(&twin).is_err());
        assert!(twin.kept().is_empty());
    }
    assert_eq!(*twin.first.lock().unwrap(), Some(1));
}

/// Goal: what may be the only snapshot of what was purged is not taken away: one that was there, or
/// one of a message up to which the stream is purged, or nobody says whether it is.
#[test]
fn what_may_be_needed_is_not_taken_away() {
    let node = Fixture::new();
    node.apply(STREAM, 5, 0..9);
    for first in [Some(6), None] {
        let twin = Twin {
            damages: true,
            ..Twin::default()
        };
        *twin.first.lock().unwrap() = first;
        assert!(node.store(&twin).is_err());
        assert_eq!(twin.kept(), [5], "{first:?}");
    }
    let mut twin = Twin::with_first(1);
    node.store(&twin).unwrap();
    *twin.first.lock().unwrap() = Some(1);
    twin.damages = true;
    assert!(node.store(&twin).is_err());
    assert_eq!(twin.kept(), [5]);
}

/// Goal: a purge without an answer may be done: the snapshot behind which it was asked for stays,
/// and those of such attempts do not pile up.
#[test]
fn a_snapshot_stays_when_nobody_says_whether_was_purged() {
    let node = Fixture::new();
    let twin = Twin {
        is_silent_about_purges: true,
        ..Twin::with_first(1)
    };
    for seq in 5..9 {
        node.apply(STREAM, seq, 0..9);
        assert!(node.store(&twin).is_err());
    }
    assert_eq!(twin.kept(), [7, 8]);
}

/// Goal: if the newest snapshot is damaged the one before is loaded, as long as the stream has all
/// that follows it; otherwise it would be loaded again and again.
#[test]
fn an_older_snapshot_is_loaded_if_the_newest_is_damaged() {
    let (node, twin) = (Fixture::new(), Twin::with_first(1));
    for seq in [5, 7] {
        node.apply(STREAM, seq, 0..9);
        node.store(&twin).unwrap();
    }
    let other = Fixture::new();
    assert_eq!(other.load(&twin).unwrap().seq, 7);
    twin.damage(7);
    let other = Fixture::new();
    let why = other.load(&twin).unwrap_err();
    assert!(!why.contains("no snapshot"), "{why}");
    assert_eq!(other.follower.blocking_lock().stream(0).unwrap().seq, 0);
    *twin.first.lock().unwrap() = Some(6);
    assert_eq!(other.load(&twin).unwrap().seq, 5);
    assert!(other.is_clean());
    assert_eq!(
        other.load(&Twin::default()).unwrap_err(),
        "the stream has no snapshot"
    );
}

/// Goal: what was fetched is loaded, although an operator has this node's own copy stored before
/// that; and a file that becomes another one while it is loaded is not taken for what it was.
#[test]
fn a_snapshot_is_loaded_as_it_was_fetched() {
    let (node, twin) = (Fixture::new(), Twin::with_first(1));
    node.apply(STREAM, 5, 0..9);
    node.store(&twin).unwrap();
    let fetched = |node: &Fixture| {
        let place = node.place();
        let fetched = fetch(&twin, &node.store, &place);
        node.runtime.block_on(fetched).unwrap();
        place
    };
    let other = Fixture::new();
    other.apply(STREAM, 3, 0..9);
    let place = fetched(&other);
    let own = store(&twin, &other.store, &place);
    assert_eq!(other.runtime.block_on(own).unwrap().mark.seq, 3);
    let loaded = place.load(&other.follower);
    assert_eq!(other.runtime.block_on(loaded).unwrap().seq, 5);
    assert!(other.is_clean());

    let other = Fixture::new();
    let place = fetched(&other);
    let locked = Cell::new(0);
    let lock = || {
        locked.set(locked.get() + 1);
        // It was checked by then.
        if locked.get() == 2 {
            let before = twin.kept.lock().unwrap()[&3].clone();
            fs::write(&place.fetched, before).unwrap();
        }
        other.follower.blocking_lock()
    };
    let loaded = Follower::load_shared(lock, STREAM.0, &place.ranges, &place.fetched);
    let why = loaded.unwrap_err().to_string();
    assert!(why.contains("became another one"), "{why}");
    assert_eq!(
        other.follower.blocking_lock().stream(STREAM.0).unwrap().seq,
        0
    );
}

/// Goal: while a stream is loaded the others go on. Method: whenever the loading asks for the
/// follower, a message of another stream is applied first.
#[test]
fn other_streams_go_on_while_one_is_loaded() {
    let (node, twin) = (Fixture::new(), Twin::with_first(1));
    node.apply(STREAM, 5, 0..12_000);
    node.store(&twin).unwrap();
    let other = Fixture::new();
    other.apply(STREAM, 1, 0..12_000);
    other.apply(OTHER, 1, 0..10);
    let place = other.place();
    let fetched = fetch(&twin, &other.store, &place);
    other.runtime.block_on(fetched).unwrap();
    let applied = RefCell::new(1);
    let lock = || {
        *applied.borrow_mut() += 1;
        other.apply(OTHER, *applied.borrow(), 0..10);
        other.follower.blocking_lock()
    };
    let loaded = Follower::load_shared(lock, STREAM.0, &place.ranges, &place.fetched);
    assert_eq!(loaded.unwrap().seq, 5);
    let applied = applied.into_inner();
    assert!(applied > 6, "{applied} times");
    let follower = other.follower.blocking_lock();
    assert_eq!(follower.stream(OTHER.0).unwrap().seq, applied);
    let ranges = other.layout.ranges(STREAM);
    let mark = |of: &Follower| {
        ranges
            .iter()
            .map(|range| of.range(*range).unwrap())
            .collect()
    };
    let (here, there): (Vec<_>, Vec<_>) = (mark(&follower), mark(&node.follower.blocking_lock()));
    assert_eq!(here, there);
    let accounts = |of: &Store| of.count_accounts(None).unwrap();
    assert!(accounts(&other.store) >= accounts(&node.store));
}
