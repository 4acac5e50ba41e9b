//! The log of a user against a plain model: random records in random groups, with the store opened
//! again at random points. What is kept apart from the entries, what follows from them and every
//! page agree with a model that keeps all it ever saw in plain lists.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use common::{KEY, append, committed, put};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use stdx::time::Timestamp;
use store::limits::{ORIGINS_MAX, SEEN_MAX};
use store::{
    ArchiveDefault, ArchivePrefs, Delivered, Durability, Engine, EntryFlags, Few, FjallEngine,
    FjallOptions, InlineJournal, LogEntry, MemoryEngine, Metadata, NumberedEntry, Origin, Outbound,
    PageQuery, Progress, Record, Seen, Seq, SessionCursor, SessionRecord, Store, UserState,
};

/// One address begins like the other.
const USERS: [&str; 2] = ["a@x", "a@xy"];

/// Places that a log leaves unused between epochs, made small.
const GAP: Seq = 1_000;

/// What a user does next; the model makes records of it.
#[derive(Clone, Debug)]
enum Op {
    Append(Vec<Message>),
    Trim(Index),
    Progress(Moves),
    Deliver {
        through: Index,
        requeue: u8,
    },
    SessionPut {
        new: bool,
        resource: String,
    },
    SessionRemove(Index),
    SessionNumbered {
        which: Index,
        count: u32,
    },
    Prefs(u8),
    Recreate,
    /// A number that was given out before.
    Repeat,
    SkipNumbers,
    Reopen,
    Pages(Vec<Query>),
}

#[derive(Clone, Debug)]
struct Message {
    peer: u8,
    flags: u32,
    frame: u8,
    clock: i64,
    source: Option<u8>,
    origin: Option<u8>,
    moves: Moves,
}

/// Cursors that move: of sessions by place in the list, and how far `forwarded` goes.
#[derive(Clone, Debug, Default)]
struct Moves {
    inbound: Vec<(Index, u32)>,
    acked: Vec<(Index, Index)>,
    forwarded: Option<Index>,
}

#[derive(Clone, Debug)]
struct Query {
    with: Option<u8>,
    start: Option<Index>,
    end: Option<Index>,
    after: Option<Index>,
    before: Option<Index>,
    flags: u32,
    limit: usize,
    backwards: bool,
}

fn moves() -> impl Strategy<Value = Moves> {
    let index = any::<Index>;
    let inbound = vec((index(), any::<u32>()), 0..2);
    let acked = vec((index(), index()), 0..2);
    let forwarded = prop::option::weighted(0.3, index());
    (inbound, acked, forwarded).prop_map(|(inbound, acked, forwarded)| Moves {
        inbound,
        acked,
        forwarded,
    })
}

fn message() -> impl Strategy<Value = Message> {
    let some = |max: u8| prop::option::weighted(0.4, 0..max);
    let parts = (0u8..6, 0u32..16, 0u8..20, -3i64..9, some(200), some(200));
    (parts, moves()).prop_map(
        |((peer, flags, frame, clock, source, origin), moves)| Message {
            peer,
            flags,
            frame,
            clock,
            source,
            origin,
            moves,
        },
    )
}

fn query() -> impl Strategy<Value = Query> {
    let place = || prop::option::weighted(0.3, any::<Index>());
    let flags = prop::sample::select(&[2u32, 2, 2, 0, 4, 8, 3][..]);
    let first = (prop::option::weighted(0.5, 0u8..7), place(), place());
    let second = (place(), place(), flags, 0usize..30, any::<bool>());
    (first, second).prop_map(
        |((with, start, end), (after, before, flags, limit, backwards))| Query {
            with,
            start,
            end,
            after,
            before,
            flags,
            limit,
            backwards,
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => vec(message(), 1..40).prop_map(Op::Append),
        2 => any::<Index>().prop_map(Op::Trim),
        3 => moves().prop_map(Op::Progress),
        2 => (any::<Index>(), any::<u8>())
            .prop_map(|(through, requeue)| Op::Deliver { through, requeue }),
        3 => (any::<bool>(), "[a-c]{1,3}")
            .prop_map(|(new, resource)| Op::SessionPut { new, resource }),
        1 => any::<Index>().prop_map(Op::SessionRemove),
        1 => (any::<Index>(), any::<u32>())
            .prop_map(|(which, count)| Op::SessionNumbered { which, count }),
        1 => any::<u8>().prop_map(Op::Prefs),
        1 => Just(Op::Recreate),
        1 => Just(Op::Repeat),
        1 => Just(Op::SkipNumbers),
        2 => Just(Op::Reopen),
        3 => vec(query(), 1..6).prop_map(Op::Pages),
    ]
}

/// All that is known of one user, in the plainest form.
#[derive(Default)]
struct Model {
    user: &'static str,
    next_seq: Seq,
    trimmed: Seq,
    forwarded: Seq,
    last_at: i64,
    last_outgoing: Seq,
    /// Everything since the account was made, also what was trimmed.
    history: Vec<LogEntry>,
    delivered: Seq,
    requeued: Vec<Seq>,
    next_session: u32,
    sessions: BTreeMap<u32, (SessionRecord, u32, Seq)>,
    prefs: Option<ArchivePrefs>,
}

fn pick<T: Copy>(index: Index, list: &[T]) -> Option<T> {
    (!list.is_empty()).then(|| list[index.index(list.len())])
}

fn peer(n: u8) -> String {
    format!("peer{n}@y")
}

impl Model {
    fn new(user: &'static str) -> Model {
        Model {
            user,
            next_seq: 1,
            ..Model::default()
        }
    }

    fn user(&self) -> String {
        self.user.to_owned()
    }

    fn there(&self) -> impl DoubleEndedIterator<Item = &LogEntry> {
        self.history.iter().filter(|entry| entry.seq > self.trimmed)
    }

    fn waiting(&self) -> Vec<&LogEntry> {
        let waits = |entry: &&LogEntry| {
            let is_new = entry.seq > self.delivered && entry.flags.has(EntryFlags::WAITING);
            is_new || self.requeued.contains(&entry.seq)
        };
        self.there().filter(waits).collect()
    }

    /// A place between 0 and a little behind the end.
    fn place(&self, index: Index) -> Seq {
        index.index(self.next_seq as usize + 2) as Seq
    }

    fn progress(&mut self, moves: &Moves) -> Progress {
        let numbers: Vec<u32> = self.sessions.keys().copied().collect();
        // A number without a session must be ignored.
        let number = |index: Index| pick(index, &numbers).unwrap_or(7_000);
        let inbound = moves.inbound.iter();
        let inbound: Vec<(u32, u32)> = inbound.map(|&(at, n)| (number(at), n)).collect();
        let acked = moves.acked.iter();
        let acked: Vec<(u32, Seq)> = acked
            .map(|&(at, to)| (number(at), self.place(to)))
            .collect();
        for (number, inbound) in &inbound {
            if let Some(session) = self.sessions.get_mut(number) {
                session.1 = *inbound;
            }
        }
        for (number, acked) in &acked {
            if let Some(session) = self.sessions.get_mut(number) {
                session.2 = session.2.max((*acked).min(self.next_seq - 1));
            }
        }
        let forwarded = moves.forwarded.map_or(0, |to| self.place(to));
        self.forwarded = self.forwarded.max(forwarded.min(self.next_seq - 1));
        Progress {
            inbound: inbound.into(),
            acked: acked.into(),
            forwarded,
        }
    }

    fn append(&mut self, message: &Message) -> Record {
        let seq = self.next_seq;
        self.next_seq += 1;
        let progress = self.progress(&message.moves);
        let clock = self.last_at + message.clock;
        self.last_at = self.last_at.max(clock);
        let mut entry = LogEntry {
            seq,
            at: Timestamp::from_millis(clock),
            peer: peer(message.peer).into(),
            flags: EntryFlags(message.flags),
            frame: vec![b'm'; usize::from(message.frame)].into(),
            // Many senders, so that the window overflows; numbers come again and go back.
            source: message.source.map_or(0, |source| u64::from(source) + 1),
            origin: message.origin.map_or(0, |origin| u64::from(origin) + 1),
            went_to: Few::from([Outbound {
                session: 3,
                count: u32::from(message.frame),
            }]),
            progress,
        };
        if message.source.is_some_and(|source| source % 2 == 0) {
            entry.peer = format!("{}@many", seq % 400).into();
        }
        if entry.flags.has(EntryFlags::OUTGOING) {
            self.last_outgoing = seq;
        }
        let record = Record::LogAppend {
            user: self.user().into(),
            entry: entry.clone(),
        };
        entry.at = Timestamp::from_millis(self.last_at);
        self.history.push(entry);
        record
    }

    fn trim(&mut self, through: Seq) -> Record {
        let cut = through.min(self.next_seq - 1);
        if cut > self.trimmed {
            self.trimmed = cut;
            self.forwarded = self.forwarded.max(cut);
            self.delivered = self.delivered.max(cut);
            self.requeued.retain(|&seq| seq > cut);
            for session in self.sessions.values_mut() {
                session.2 = session.2.max(cut);
            }
        }
        Record::LogTrim {
            user: self.user(),
            through,
        }
    }

    fn deliver(&mut self, through: Seq, requeue: u8) -> Record {
        self.delivered = through.min(self.next_seq - 1).max(self.trimmed);
        let all = self.there().map(|entry| entry.seq);
        let requeued =
            all.filter(|seq| *seq <= self.delivered && seq % 8 == u64::from(requeue % 16));
        self.requeued = requeued.collect();
        let waiting = self.waiting();
        Record::LogDelivered {
            user: self.user(),
            delivered: Delivered {
                through,
                requeued: self.requeued.clone(),
                waiting_count: waiting.len() as u64,
                waiting_bytes: waiting.iter().map(|entry| entry.frame.len() as u64).sum(),
            },
        }
    }

    fn session_put(&mut self, new: bool, resource: &str) -> Vec<Record> {
        let number = match self.sessions.keys().next() {
            Some(&number) if !new => number,
            _ => self.next_session,
        };
        if self.sessions.len() >= 60 && !self.sessions.contains_key(&number) {
            return Vec::new();
        }
        let session = SessionRecord {
            number,
            token: resource.as_bytes().to_vec(),
            resource: resource.to_owned(),
            max_seconds: 600,
            presence: new.then(|| b"<presence/>".to_vec()),
            directed: vec![peer(1)],
            carbons: new,
            ..SessionRecord::default()
        };
        self.next_session = self.next_session.max(number + 1);
        let acked = self.next_seq - 1;
        let known = self.sessions.entry(number);
        known
            .and_modify(|known| known.0.clone_from(&session))
            .or_insert_with(|| (session.clone(), 0, acked));
        vec![Record::SessionPut {
            user: self.user(),
            session: Box::new(session),
        }]
    }

    fn recreate(&mut self) -> Vec<Record> {
        let user = self.user();
        let (next_seq, next_session) = (self.next_seq, self.next_session);
        *self = Model {
            user: self.user,
            next_seq,
            next_session,
            trimmed: next_seq - 1,
            forwarded: next_seq - 1,
            delivered: next_seq - 1,
            ..Model::default()
        };
        vec![Record::AccountRemove { user: user.clone() }, put(&user)]
    }

    /// The records of an operation; they are in the model when it returns.
    fn records(&mut self, op: &Op) -> Vec<Record> {
        let user = self.user();
        let numbers: Vec<u32> = self.sessions.keys().copied().collect();
        match op {
            Op::Append(messages) => messages.iter().map(|m| self.append(m)).collect(),
            Op::Trim(through) => {
                let through = self.place(*through);
                vec![self.trim(through)]
            }
            Op::Progress(moves) => {
                let progress = self.progress(moves);
                vec![Record::LogProgress { user, progress }]
            }
            Op::Deliver { through, requeue } => {
                let through = self.place(*through);
                vec![self.deliver(through, *requeue)]
            }
            Op::SessionPut { new, resource } => self.session_put(*new, resource),
            Op::SessionRemove(which) => {
                let number = pick(*which, &numbers).unwrap_or(7_000);
                self.sessions.remove(&number);
                vec![Record::SessionRemove { user, number }]
            }
            Op::SessionNumbered { which, count } => {
                let number = pick(*which, &numbers).unwrap_or(7_000);
                let void_through = self.next_seq - 1;
                let seq = u64::from(*count) % self.next_seq;
                let numbered = vec![NumberedEntry { count: *count, seq }];
                if let Some(session) = self.sessions.get_mut(&number) {
                    let before = seq.saturating_sub(1).max(self.trimmed);
                    if session.2 >= seq {
                        session.2 = before;
                    }
                    session.0.void_through = void_through;
                    session.0.numbered.clone_from(&numbered);
                }
                vec![Record::SessionNumbered {
                    user,
                    number,
                    void_through,
                    numbered,
                }]
            }
            Op::Prefs(n) => {
                let prefs = ArchivePrefs {
                    default: ArchiveDefault::Roster,
                    always: vec![peer(*n)],
                    never: Vec::new(),
                };
                self.prefs = Some(prefs.clone());
                vec![Record::ArchivePrefsPut { user, prefs }]
            }
            Op::Recreate => self.recreate(),
            Op::Repeat => {
                let entry = LogEntry {
                    seq: self.next_seq - 1,
                    flags: EntryFlags(15),
                    ..LogEntry::default()
                };
                match entry.seq {
                    0 => Vec::new(),
                    _ => {
                        let user = user.into();
                        vec![Record::LogAppend { user, entry }]
                    }
                }
            }
            Op::SkipNumbers => {
                self.next_seq += GAP;
                let plain = Message {
                    peer: 0,
                    flags: EntryFlags::ARCHIVED.0,
                    frame: 1,
                    clock: 0,
                    source: None,
                    origin: None,
                    moves: Moves::default(),
                };
                vec![self.append(&plain)]
            }
            Op::Reopen | Op::Pages(_) => Vec::new(),
        }
    }

    fn seen(&self) -> Vec<Seen> {
        let mut seen: Vec<Seen> = Vec::new();
        for entry in self.history.iter().filter(|entry| entry.source != 0) {
            let peer = KEY.peer(&entry.peer);
            let before = seen.iter().find(|seen| seen.peer == peer);
            let source = before.map_or(0, |seen| seen.source).max(entry.source);
            seen.retain(|seen| seen.peer != peer);
            seen.push(Seen { peer, source });
            // Who falls out of the window is forgotten, and begins anew.
            let from = seen.len().saturating_sub(SEEN_MAX);
            seen.drain(..from);
        }
        seen
    }

    fn origins(&self) -> Vec<Origin> {
        let with_origin = self.history.iter().filter(|entry| entry.origin != 0);
        let all: Vec<Origin> = with_origin
            .map(|entry| Origin {
                hash: entry.origin,
                seq: entry.seq,
                at: entry.at.as_millis(),
            })
            .collect();
        all[all.len().saturating_sub(ORIGINS_MAX)..].to_vec()
    }

    fn check(&self, store: &Store) {
        let state: UserState = store.load_user(self.user).unwrap().unwrap();
        let log = state.log;
        assert_eq!(
            (log.next_seq, log.trimmed_through),
            (self.next_seq, self.trimmed)
        );
        let bytes = |entries: &[&LogEntry]| -> u64 {
            entries.iter().map(|entry| entry.frame.len() as u64).sum()
        };
        let there: Vec<&LogEntry> = self.there().collect();
        let archived = there.iter().filter(|e| e.flags.has(EntryFlags::ARCHIVED));
        assert_eq!(
            (log.count, log.bytes, log.archived_count),
            (there.len() as u64, bytes(&there), archived.count() as u64)
        );
        let outgoing = (log.forwarded, log.last_outgoing, log.last_at.as_millis());
        assert_eq!(outgoing, (self.forwarded, self.last_outgoing, self.last_at));
        let waiting = self.waiting();
        assert_eq!(
            (log.delivered_through, log.waiting_count, log.waiting_bytes),
            (self.delivered, waiting.len() as u64, bytes(&waiting))
        );
        let windows = state.windows.map(|windows| *windows).unwrap_or_default();
        assert_eq!(windows.requeued, self.requeued);
        assert_eq!(Vec::from(windows.recognition.seen), self.seen());
        assert_eq!(Vec::from(windows.recognition.origins), self.origins());
        let cursors = self.sessions.iter();
        let cursors: Vec<SessionCursor> = cursors
            .map(|(&number, &(_, inbound, acked))| SessionCursor {
                number,
                inbound,
                acked,
            })
            .collect();
        assert_eq!(windows.cursors, cursors);
        let records = self.sessions.values().map(|(record, ..)| record.clone());
        assert_eq!(state.sessions.records, records.collect::<Vec<_>>());
        assert_eq!(state.sessions.next_number, self.next_session);
        assert_eq!(state.archive_prefs.as_deref(), self.prefs.as_ref());
        let entries = store.log_read(self.user, 0, 1_000).unwrap();
        assert!(entries.iter().eq(there.iter().take(1_000).copied()));
        let is_awake = store
            .awake(None, 10)
            .unwrap()
            .iter()
            .any(|u| u == self.user);
        let has_outgoing = self.forwarded < self.last_outgoing;
        assert_eq!(is_awake, has_outgoing || !self.sessions.is_empty());
        let archived: Vec<&&LogEntry> = there
            .iter()
            .filter(|entry| entry.flags.has(EntryFlags::ARCHIVED))
            .collect();
        let ends = archived.first().zip(archived.last());
        let metadata = ends.map(|(first, last)| Metadata {
            first: first.seq,
            first_at: first.at,
            last: last.seq,
            last_at: last.at,
        });
        assert_eq!(store.log_metadata(self.user).unwrap(), metadata);
        self.check_age(store, there.first().map(|entry| entry.at));
    }

    /// The user has entries that are too old only if the oldest one is.
    fn check_age(&self, store: &Store, oldest: Option<Timestamp>) {
        let is_aged = |before: Timestamp| {
            // One user at a time, until there are no more.
            let mut page = store.aged(None, before, 1).unwrap();
            let mut found = page.found.contains(&self.user());
            while let Some(last) = page.last {
                page = store.aged(Some(&last), before, 1).unwrap();
                found |= page.found.contains(&self.user());
            }
            found
        };
        let at = oldest.unwrap_or(Timestamp::from_millis(0));
        assert!(!is_aged(at));
        let later = Timestamp::from_millis(at.as_millis() + 1);
        assert_eq!(is_aged(later), oldest.is_some());
    }

    fn check_page(&self, store: &Store, query: &Query) {
        let time =
            |index: Index| Timestamp::from_millis(index.index(self.last_at as usize + 3) as i64);
        let query = PageQuery {
            with: query.with.map(peer),
            start: query.start.map(time),
            end: query.end.map(time),
            after: query.after.map(|index| self.place(index)),
            before: query.before.map(|index| self.place(index)),
            flags: EntryFlags(query.flags),
            limit: query.limit,
            backwards: query.backwards,
        };
        let is_asked_for = |entry: &&LogEntry| {
            query.with.as_ref().is_none_or(|with| **with == *entry.peer)
                && query.start.is_none_or(|start| entry.at >= start)
                && query.end.is_none_or(|end| entry.at <= end)
                && query.after.is_none_or(|after| entry.seq > after)
                && query.before.is_none_or(|before| entry.seq < before)
                && entry.flags.has(query.flags)
        };
        let all: Vec<LogEntry> = self.there().filter(is_asked_for).cloned().collect();
        let shown = all.len().min(query.limit);
        let expected = if query.backwards {
            &all[all.len() - shown..]
        } else {
            &all[..shown]
        };
        let page = store.log_page(self.user, &query).unwrap();
        assert_eq!(page.entries, expected, "{query:?}");
        assert_eq!(page.complete, shown == all.len(), "{query:?}");
        let seqs: Vec<Seq> = page.entries.iter().map(|entry| entry.seq).collect();
        assert_eq!(store.log_entries(self.user, &seqs).unwrap(), page.entries);
        if let Some(count) = page.count {
            let counted = self.there().filter(|entry| entry.flags.has(query.flags));
            assert_eq!(count, counted.count() as u64, "{query:?}");
        }
    }
}

/// Opens the engine again, as a new process does.
type Reopen<'a> = &'a dyn Fn(Option<Arc<dyn Engine>>) -> Arc<dyn Engine>;

fn run(ops: &[(usize, Op)], sizes: &[usize], reopen: Reopen<'_>) {
    let mut engine = reopen(None);
    let open = |engine: &Arc<dyn Engine>| {
        let store = Store::with_engine(Arc::clone(engine), Durability::Fsync, KEY).unwrap();
        let journal = InlineJournal::new(&store).unwrap();
        (store, journal)
    };
    let (mut store, mut journal) = open(&engine);
    let mut models = USERS.map(Model::new);
    for user in USERS {
        assert!(committed(&append(&journal, KEY, vec![put(user)])));
    }
    let mut sizes = sizes.iter().cycle();
    for (who, op) in ops {
        let model = &mut models[*who];
        let mut records = model.records(op);
        while !records.is_empty() {
            // Invariant: the list of sizes is not empty.
            let size = (*sizes.next().unwrap()).min(records.len());
            let rest = records.split_off(size);
            assert!(committed(&append(&journal, KEY, records)));
            records = rest;
        }
        match op {
            Op::Reopen => {
                drop((store, journal));
                engine = reopen(Some(engine));
                (store, journal) = open(&engine);
                models.iter().for_each(|model| model.check(&store));
            }
            Op::Pages(queries) => queries.iter().for_each(|q| model.check_page(&store, q)),
            _ => {}
        }
    }
    models.iter().for_each(|model| model.check(&store));
    let report = store.verify().unwrap();
    assert!(report.is_good(), "{report}");
}

fn ops(max: usize) -> impl Strategy<Value = Vec<(usize, Op)>> {
    vec((0..USERS.len(), op()), 1..max)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn a_log_equals_its_model(ops in ops(60), sizes in vec(1usize..50, 1..5)) {
        run(&ops, &sizes, &|engine| engine.unwrap_or_else(|| Arc::new(MemoryEngine::new())));
    }
}

/// More senders and origins than the windows hold, and pages of a log of many folds.
#[test]
fn windows_forget_the_oldest() {
    let message = |n: usize| Message {
        peer: (n % 5) as u8,
        flags: [2, 10, 6, 0, 3][n % 7 % 5],
        frame: 1,
        clock: (n % 3) as i64,
        source: Some((n * 7 % 250) as u8),
        origin: Some((n * 11 % 250) as u8),
        moves: Moves::default(),
    };
    let mut ops = Vec::new();
    for n in 0..60 {
        ops.push((0, Op::Append((n * 25..n * 25 + 25).map(message).collect())));
        if n % 9 == 5 {
            ops.push((0, Op::Reopen));
            let some = [4, 900].map(|limit| Query {
                with: Some(3),
                start: None,
                end: None,
                after: None,
                before: None,
                flags: EntryFlags::ARCHIVED.0,
                limit,
                backwards: n % 2 == 0,
            });
            ops.push((0, Op::Pages(some.to_vec())));
        }
    }
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    run(&ops, &[7], &|_| Arc::clone(&engine));
    let store = Store::with_engine(engine, Durability::Memory, KEY).unwrap();
    let windows = store.load_user(USERS[0]).unwrap().unwrap().windows.unwrap();
    assert_eq!(windows.recognition.seen.len(), SEEN_MAX);
    assert_eq!(windows.recognition.origins.len(), ORIGINS_MAX);
}

fn open_on_disk(path: &Path) -> Arc<dyn Engine> {
    Arc::new(FjallEngine::open(path, FjallOptions::default()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn a_log_on_disk_equals_its_model(ops in ops(40), sizes in vec(1usize..50, 1..5)) {
        let folder = tempfile::tempdir().unwrap();
        run(&ops, &sizes, &|engine| {
            drop(engine);
            open_on_disk(folder.path())
        });
    }
}
