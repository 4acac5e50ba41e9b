//! What clients append and what became of it, with a second opinion on which messages count.

use std::collections::{BTreeMap, HashMap};
use std::ops::AddAssign;
use std::sync::OnceLock;

use bytes::Bytes;
use stdx::Timestamp;
use store::{Account, RangeId, Record, SlotKey, Store, appended};

use crate::journal::message::{Body, Message};
use crate::journal::writer::Token;

/// Ranges for which there is an address.
const RANGES: u16 = 8;

fn users() -> &'static [String] {
    static USERS: OnceLock<Vec<String>> = OnceLock::new();
    USERS.get_or_init(|| {
        let slots = SlotKey::new([0; 16]);
        let find = |range: u16| {
            let mut names = (0..).map(|n| format!("u{n}@x"));
            names.find(|name| slots.slot(name).range().index() == range)
        };
        (0..RANGES).map(|range| find(range).unwrap()).collect()
    })
}

/// The append that a store has last applied to a range, if any.
pub(super) fn last_in(store: &Store, range: u16) -> Option<Token> {
    let user = &users()[usize::from(range)];
    let state = store.load_user(user).unwrap()?;
    Some(state.account.created.as_millis() as Token)
}

/// One record that says which append it is.
pub(super) fn bytes(range: RangeId, token: Token) -> Bytes {
    let account = Account {
        created: Timestamp::from_millis(token as i64),
        ..Account::default()
    };
    let user = users()[usize::from(range.index())].clone();
    appended::encode(stdx::Level::FIRST, &[Record::AccountPut { user, account }]).into()
}

fn token(bytes: &[u8]) -> Token {
    match &appended::decode(bytes).unwrap()[0] {
        Record::AccountPut { account, .. } => account.created.as_millis() as Token,
        other => panic!("{other:?}"),
    }
}

/// What counts of a stream's messages, decided without the code under test.
#[derive(Default)]
pub(super) struct Effective {
    pub(super) epoch: u64,
    pub(super) tokens: HashMap<Token, u32>,
    /// The appends of each range.
    pub(super) counts: BTreeMap<u16, u64>,
    /// The last append of each range.
    pub(super) last: BTreeMap<u16, Token>,
    last_of: BTreeMap<(String, u64, u16), Token>,
    pub(super) out_of_order: Option<Token>,
    pub(super) void: u64,
}

impl Effective {
    pub(super) fn on_message(&mut self, payload: &[u8]) {
        let message = Message::decode(payload).unwrap();
        match message.body {
            Body::Epoch => self.epoch = self.epoch.max(message.epoch),
            Body::Appends { .. } if message.epoch < self.epoch => self.void += 1,
            Body::Appends { entries, .. } => {
                let author = message.author;
                for entry in entries {
                    let token = token(&entry.bytes);
                    *self.tokens.entry(token).or_default() += 1;
                    let range = entry.range().unwrap().index();
                    self.last.insert(range, token);
                    *self.counts.entry(range).or_default() += 1;
                    let by = (author.node.clone(), author.incarnation, range);
                    let before = self.last_of.insert(by, token);
                    if before.is_some_and(|before| before >= token) {
                        self.out_of_order = Some(token);
                    }
                }
            }
        }
    }
}

/// What a client knows of its append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Pending,
    InDoubt,
    Accepted,
    Failed,
    /// Its node died before it said.
    Unknown,
}

/// What happened in a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    pub(super) accepted: u64,
    pub(super) failed: u64,
    pub(super) refused: u64,
    pub(super) in_doubt: u64,
    pub(super) doubt_committed: u64,
    pub(super) take_overs: u64,
    pub(super) without_quorum: u64,
    pub(super) void: u64,
    pub(super) kills: u64,
    pub(super) pauses: u64,
    pub(super) cuts: u64,
    pub(super) elections: u64,
    pub(super) fences: u64,
    pub(super) rivals: u64,
    pub(super) wiped: u64,
    pub(super) compared: u64,
    pub(super) loaded: u64,
    pub(super) stalls: u64,
    pub(super) drains: u64,
    pub(super) leaves: u64,
}

impl AddAssign for Stats {
    fn add_assign(&mut self, more: Stats) {
        let mut sums = self.all().map(|(_, sum)| sum);
        for (sum, (_, more)) in sums.iter_mut().zip(more.all()) {
            *sum += more;
        }
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = sums;
        *self = Stats {
            accepted: a,
            failed: b,
            refused: c,
            in_doubt: d,
            doubt_committed: e,
            take_overs: f,
            without_quorum: g,
            void: h,
            kills: i,
            pauses: j,
            cuts: k,
            elections: l,
            fences: m,
            rivals: n,
            wiped: o,
            compared: p,
            loaded: q,
            stalls: r,
            drains: s,
            leaves: t,
        };
    }
}

impl Stats {
    fn all(&self) -> [(&'static str, u64); 20] {
        [
            ("accepted", self.accepted),
            ("failed", self.failed),
            ("refused", self.refused),
            ("in doubt", self.in_doubt),
            ("in doubt, then committed", self.doubt_committed),
            ("take-overs", self.take_overs),
            ("without quorum", self.without_quorum),
            ("void", self.void),
            ("kills", self.kills),
            ("pauses", self.pauses),
            ("cuts", self.cuts),
            ("elections", self.elections),
            ("fences", self.fences),
            ("rivals", self.rivals),
            ("wiped", self.wiped),
            ("compared", self.compared),
            ("snapshots loaded", self.loaded),
            ("stalls", self.stalls),
            ("drains", self.drains),
            ("leaves", self.leaves),
        ]
    }

    /// A run in which something never happened shows nothing about it.
    pub(super) fn assert_all_happened(&self) {
        let never = self.all().into_iter().filter(|(_, count)| *count == 0);
        let never: Vec<&str> = never.map(|(name, _)| name).collect();
        assert!(never.is_empty(), "never happened: {never:?}");
    }
}
