//! The schema version of stored data, and the upgrades from earlier ones. Owns every layout that is
//! no longer written; the current one is `keys` and `state`.
//!
//! Schema 1 (development versions before 0.1) kept three values per user in `State` under `slot
//! user 00 tag`: `a` the account, `r` the roster, `h` the log's head with the last activity. It had
//! no account counts, no blocklist, no lock flag, and log values without flags.
//!
//! Schema 2 (0.1) kept a log for messages that nobody was there to take, without cursors, sessions
//! and recognition; its entries named the sender's full address. Its profiles are rewritten when
//! they next change ([`crate::state::decode_profile`]), its entries and heads at once.
//!
//! Schema 3 (development versions before 0.2) had no list of the rooms that everybody may know of:
//! it is made from the list of all.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use stdx::Level;
use stdx::time::Timestamp;

use crate::delivery::{EntryFlags, Progress};
use crate::engine::{Batch, Change, Engine, Reader, Space};
use crate::error::{OpenError, StoreError};
use crate::keys;
use crate::record::{Account, Roster, RosterItem, ScramHash, ScramKeys, Subscription};
use crate::rooms::ListedRoom;
use crate::slot::SlotKey;
use crate::state::{
    HEAD_VERSION, Head, LogHead, Profile, StoredEntry, VALUE_VERSION, decode, decode_borrowed,
    decode_version, encode,
};
use crate::store::Durability;

/// The schema that opening an older store makes of it. Later ones are those of levels: values have
/// other forms beside those of before, which stay as they are until they next change, so the number
/// alone keeps older programs out. It rises when the level does, and not when a store is opened.
pub const SCHEMA: u32 = 4;

/// The level with that schema, and that of all before.
const SCHEMA_LEVEL: Level = Level::new(2);

/// The schema of a store at this level.
pub(crate) fn schema_of(level: Level) -> u32 {
    SCHEMA + level.number().saturating_sub(SCHEMA_LEVEL.number())
}

/// The newest schema that this program reads.
pub fn schema_known() -> u32 {
    schema_of(Level::known())
}

/// The level whose schema this is, if this program knows it.
pub(crate) fn level_of(schema: u32) -> Option<Level> {
    let above = schema.checked_sub(SCHEMA)?;
    let level = Level::new(SCHEMA_LEVEL.number().checked_add(above)?);
    (level <= Level::known()).then_some(level)
}

/// The level of a store that was made ready.
pub(crate) fn level(engine: &dyn Reader) -> Result<Level, StoreError> {
    let value = engine.get(Space::Meta, keys::SCHEMA)?;
    let bytes = value.as_deref().and_then(|value| value.try_into().ok());
    let found = bytes.map(u32::from_be_bytes).and_then(level_of);
    found.ok_or_else(|| StoreError::Corrupt("the schema number is damaged".to_owned()))
}

/// Entries that an upgrade rewrites per batch.
const UPGRADE_ENTRIES_MAX: usize = 1_000;

/// Leading byte of values that schema 1 wrote.
const VALUE_VERSION_1: u8 = 0;

/// Leading byte of values that schema 2 wrote.
pub(crate) const VALUE_VERSION_2: u8 = 1;

/// Makes an engine ready for this program: initialises an empty one (with `new_key`), upgrades an
/// older one, refuses a newer one. An empty one begins at this level; another one stays at the
/// level that it has. Returns the slot key.
pub(crate) fn prepare(
    engine: &dyn Engine,
    begin_at: Level,
    new_key: impl FnOnce() -> Result<SlotKey, OpenError>,
) -> Result<SlotKey, OpenError> {
    let found = match engine.get(Space::Meta, keys::SCHEMA)? {
        Some(value) => {
            let bytes = value.as_slice().try_into();
            u32::from_be_bytes(bytes.map_err(|_| corrupt("the schema number is damaged"))?)
        }
        None => {
            for space in Space::ALL {
                if !is_empty(engine, space)? {
                    return Err(corrupt("there is data without a schema number"));
                }
            }
            let key = new_key()?;
            let batch = vec![
                put(
                    Space::Meta,
                    keys::SLOT_KEY.to_vec(),
                    key.to_bytes().to_vec(),
                ),
                schema_change(schema_of(begin_at)),
            ];
            engine.commit(batch, Durability::Fsync)?;
            return Ok(key);
        }
    };
    let supported = schema_known();
    if found > supported {
        return Err(OpenError::NewerSchema { found, supported });
    }
    let slots = match engine.get(Space::Meta, keys::SLOT_KEY)? {
        Some(value) => SlotKey::new(
            value
                .as_slice()
                .try_into()
                .map_err(|_| corrupt("the slot key is damaged"))?,
        ),
        None => return Err(corrupt("the slot key is missing")),
    };
    match found {
        SCHEMA.. => Ok(slots),
        1 => {
            upgrade_from_1(engine, &slots)?;
            upgrade_from_2(engine)?;
            upgrade_from_3(engine)?;
            Ok(slots)
        }
        2 => {
            upgrade_from_2(engine)?;
            upgrade_from_3(engine)?;
            Ok(slots)
        }
        3 => {
            upgrade_from_3(engine)?;
            Ok(slots)
        }
        _ => Err(corrupt("schema 0 was never written")),
    }
}

fn corrupt(why: &str) -> OpenError {
    OpenError::Corrupt(why.to_owned())
}

fn put(space: Space, key: Vec<u8>, value: Vec<u8>) -> Change {
    Change {
        space,
        key: key.into(),
        value: Some(value.into()),
    }
}

pub(crate) fn schema_change(schema: u32) -> Change {
    put(
        Space::Meta,
        keys::SCHEMA.to_vec(),
        schema.to_be_bytes().to_vec(),
    )
}

fn is_empty(engine: &dyn Engine, space: Space) -> Result<bool, StoreError> {
    let mut empty = true;
    engine.scan(space, &[], &[], &mut |_, _| {
        empty = false;
        ControlFlow::Break(())
    })?;
    Ok(empty)
}

/// The account of schema 1.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Account1 {
    pub(crate) created: i64,
    pub(crate) scram: Vec<Keys1>,
}

/// Hash (0 SHA-1, 1 SHA-256), iterations, salt, stored key, server key.
pub(crate) type Keys1 = (u8, u32, Vec<u8>, Vec<u8>, Vec<u8>);

/// The roster of schema 1.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Roster1 {
    pub(crate) version: u64,
    pub(crate) items: Vec<Item1>,
}

/// A roster item of schema 1; every item was listed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Item1 {
    pub(crate) jid: String,
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
    /// 0 none, 1 to, 2 from, 3 both.
    pub(crate) subscription: u8,
    pub(crate) ask: bool,
}

/// The log head of schema 1.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Head1 {
    pub(crate) next_seq: u64,
    pub(crate) trimmed_through: u64,
    pub(crate) last: Option<(i64, String)>,
}

/// A log entry of schema 1.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry1<'a> {
    pub(crate) at: i64,
    pub(crate) from: &'a str,
    pub(crate) frame: &'a [u8],
}

fn decode_1<'a, T: Deserialize<'a>>(value: &'a [u8], what: &str) -> Result<T, StoreError> {
    match value.split_first() {
        Some((&VALUE_VERSION_1, body)) => postcard::from_bytes(body)
            .map_err(|error| StoreError::Corrupt(format!("{what} of schema 1: {error}"))),
        _ => Err(StoreError::Corrupt(format!(
            "{what} of schema 1: wrong value version"
        ))),
    }
}

/// Encodes a value as schema 1 did.
#[cfg(test)]
pub(crate) fn encode_1<T: Serialize>(value: &T) -> Vec<u8> {
    encode(VALUE_VERSION_1, value)
}

/// Rewrites everything. Interrupted, it goes on where it stopped: what is rewritten no longer looks
/// like schema 1, and the schema number changes last.
fn upgrade_from_1(engine: &dyn Engine, slots: &SlotKey) -> Result<(), StoreError> {
    upgrade_log_1(engine)?;
    upgrade_users_1(engine, slots)?;
    let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    engine.scan(Space::Head, &[], &[], &mut |key, _| {
        if let Some((slot, user)) = keys::parse_user(key) {
            *counts
                .entry(keys::count(slot.range(), keys::domain_of(user)))
                .or_default() += 1;
        }
        ControlFlow::Continue(())
    })?;
    let counted =
        |(key, count): (Vec<u8>, u64)| put(Space::Meta, key, count.to_be_bytes().to_vec());
    let mut batch: Batch = counts.into_iter().map(counted).collect();
    batch.push(schema_change(2));
    engine.commit(batch, Durability::Fsync)
}

/// Calls `rewrite` with runs of entries of `space` until all were seen, committing what it returns.
fn rewrite_all(
    engine: &dyn Engine,
    space: Space,
    mut rewrite: impl FnMut(&[(Vec<u8>, Vec<u8>)]) -> Result<Batch, StoreError>,
) -> Result<(), StoreError> {
    let mut start = Vec::new();
    loop {
        let mut run: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        engine.scan(space, &start, &[], &mut |key, value| {
            // A user's entries stay together: a run ends only between users.
            let user = |key: &[u8]| match keys::parse_owned(key) {
                Some((_, user, _)) => Some(user.to_owned()),
                None => keys::parse_user(key).map(|(_, user)| user.to_owned()),
            };
            if run.len() >= UPGRADE_ENTRIES_MAX
                && run.last().is_none_or(|(last, _)| user(last) != user(key))
            {
                return ControlFlow::Break(());
            }
            run.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        let Some((last, _)) = run.last() else {
            return Ok(());
        };
        start.clone_from(last);
        start.push(0);
        let batch = rewrite(&run)?;
        if !batch.is_empty() {
            engine.commit(batch, Durability::Memory)?;
        }
    }
}

fn upgrade_log_1(engine: &dyn Engine) -> Result<(), StoreError> {
    rewrite_all(engine, Space::Log, |run| {
        let mut batch = Batch::new();
        for (key, value) in run
            .iter()
            .filter(|(_, value)| value.first() == Some(&VALUE_VERSION_1))
        {
            let entry: Entry1<'_> = decode_1(value, "log entry")?;
            let entry = Entry2 {
                at: entry.at,
                from: entry.from,
                flags: 0,
                frame: entry.frame,
            };
            batch.push(put(
                Space::Log,
                key.clone(),
                encode(VALUE_VERSION_2, &entry),
            ));
        }
        Ok(batch)
    })
}

/// The values of one user as schema 1 spread them.
#[derive(Default)]
struct User1 {
    account: Option<Account1>,
    roster: Option<Roster1>,
    head: Option<Head1>,
}

fn upgrade_users_1(engine: &dyn Engine, slots: &SlotKey) -> Result<(), StoreError> {
    rewrite_all(engine, Space::State, |run| {
        let mut batch = Batch::new();
        let mut users: BTreeMap<String, User1> = BTreeMap::new();
        for (key, value) in run {
            // A key without a tag is already rewritten.
            let Some((_, user, tag)) = keys::parse_owned(key) else {
                continue;
            };
            let parts = users.entry(user.to_owned()).or_default();
            match tag {
                b"a" => parts.account = Some(decode_1(value, "account")?),
                b"r" => parts.roster = Some(decode_1(value, "roster")?),
                b"h" => parts.head = Some(decode_1(value, "head")?),
                _ => {
                    return Err(StoreError::Corrupt(format!(
                        "{user}: unknown value of schema 1"
                    )));
                }
            }
            batch.push(Change {
                space: Space::State,
                key: (**key).into(),
                value: None,
            });
        }
        for (user, parts) in users {
            let Some(account) = parts.account else {
                return Err(StoreError::Corrupt(format!(
                    "{user}: no account in schema 1"
                )));
            };
            let profile = Profile2 {
                account: account_from_1(account)?,
                roster: parts
                    .roster
                    .map(roster_from_1)
                    .transpose()?
                    .unwrap_or_default(),
                ..Profile2::default()
            };
            let head = head_from_1(engine, slots, &user, parts.head)?;
            let key = keys::user(slots, &user);
            batch.push(put(
                Space::State,
                key.clone(),
                encode(VALUE_VERSION_2, &profile),
            ));
            batch.push(put(Space::Head, key, encode(VALUE_VERSION_2, &head)));
        }
        Ok(batch)
    })
}

fn account_from_1(account: Account1) -> Result<Account, StoreError> {
    let mut scram = Vec::with_capacity(account.scram.len());
    for (hash, iterations, salt, stored_key, server_key) in account.scram {
        let hash = match hash {
            0 => ScramHash::Sha1,
            1 => ScramHash::Sha256,
            _ => return Err(StoreError::Corrupt(format!("hash {hash} in schema 1"))),
        };
        scram.push(ScramKeys {
            hash,
            iterations,
            salt,
            stored_key,
            server_key,
        });
    }
    let created = Timestamp::from_millis(account.created);
    Ok(Account {
        created,
        locked: false,
        scram,
    })
}

fn roster_from_1(roster: Roster1) -> Result<Roster, StoreError> {
    let mut items = Vec::with_capacity(roster.items.len());
    for item in roster.items {
        let subscription = match item.subscription {
            0 => Subscription::None,
            1 => Subscription::To,
            2 => Subscription::From,
            3 => Subscription::Both,
            other => {
                return Err(StoreError::Corrupt(format!(
                    "subscription {other} in schema 1"
                )));
            }
        };
        items.push(RosterItem {
            jid: item.jid,
            name: item.name,
            groups: item.groups,
            subscription,
            ask: item.ask,
            approved: false,
            listed: true,
            pending_in: None,
        });
    }
    items.sort_by(|a, b| a.jid.cmp(&b.jid));
    Ok(Roster {
        version: roster.version,
        items,
    })
}

/// Schema 1 did not count what is pending: the log is counted here, once.
fn head_from_1(
    engine: &dyn Engine,
    slots: &SlotKey,
    user: &str,
    head: Option<Head1>,
) -> Result<Head2, StoreError> {
    let mut log = LogHead2 {
        next_seq: 1,
        ..LogHead2::default()
    };
    let mut bad = None;
    let (start, end) = keys::owned_run(slots, user);
    engine.scan(
        Space::Log,
        &start,
        &end,
        &mut |_, value| match decode_version::<Entry2<'_>>(VALUE_VERSION_2, value, "log entry") {
            Ok(entry) => {
                log.pending_count += 1;
                log.pending_bytes += entry.frame.len() as u64;
                ControlFlow::Continue(())
            }
            Err(error) => {
                bad = Some(error);
                ControlFlow::Break(())
            }
        },
    )?;
    if let Some(error) = bad {
        return Err(error);
    }
    let mut last = None;
    if let Some(head) = head {
        log.next_seq = head.next_seq.max(1);
        log.trimmed_through = head.trimmed_through;
        last = head.last;
    }
    Ok(Head2 {
        live: true,
        log,
        last,
    })
}

/// The head of a user in schema 2.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Head2 {
    pub(crate) live: bool,
    pub(crate) log: LogHead2,
    pub(crate) last: Option<(i64, String)>,
}

/// The head of a log in schema 2.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct LogHead2 {
    pub(crate) next_seq: u64,
    pub(crate) trimmed_through: u64,
    pub(crate) pending_count: u64,
    pub(crate) pending_bytes: u64,
}

/// A log entry of schema 2.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry2<'a> {
    pub(crate) at: i64,
    pub(crate) from: &'a str,
    pub(crate) flags: u32,
    pub(crate) frame: &'a [u8],
}

/// The profile of schema 2.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Profile2 {
    pub(crate) account: Account,
    pub(crate) roster: Roster,
    pub(crate) blocked: Vec<String>,
    pub(crate) photo_hash: String,
}

pub(crate) fn profile_from_2(value: &[u8], user: &str) -> Result<Profile, StoreError> {
    let profile: Profile2 = decode_version(VALUE_VERSION_2, value, user)?;
    Ok(Profile {
        account: profile.account,
        roster: profile.roster,
        blocked: profile.blocked,
        photo_hash: profile.photo_hash,
        archive_prefs: None,
    })
}

/// Interrupted, it goes on where it stopped: what is rewritten has the version of today.
fn upgrade_from_2(engine: &dyn Engine) -> Result<(), StoreError> {
    rewrite_log_2(engine)?;
    rewrite_heads_2(engine)?;
    engine.commit(vec![schema_change(3)], Durability::Fsync)
}

/// Lists the rooms that everybody may know of. Interrupted, it begins again: it writes the same.
fn upgrade_from_3(engine: &dyn Engine) -> Result<(), StoreError> {
    let (first, end) = keys::ROOM_RUN;
    let mut start = first.to_vec();
    loop {
        let mut run: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        engine.scan(Space::Meta, &start, end, &mut |key, value| {
            run.push((key.to_vec(), value.to_vec()));
            crate::scan::until(run.len() == UPGRADE_ENTRIES_MAX)
        })?;
        let is_last = run.len() < UPGRADE_ENTRIES_MAX;
        let mut batch = Batch::new();
        for (key, value) in run {
            let Some(keys::Meta::Room(_, room)) = keys::parse_meta(&key) else {
                return Err(StoreError::Corrupt("key in the list of rooms".to_owned()));
            };
            let listed: ListedRoom = decode(&value, room)?;
            if listed.is_public() {
                batch.push(put(Space::Meta, keys::public(room), value));
            }
            start = [&*key, &[0]].concat();
        }
        if is_last {
            batch.push(schema_change(SCHEMA));
            return engine.commit(batch, Durability::Fsync);
        }
        engine.commit(batch, Durability::Memory)?;
    }
}

fn is_of_2(entry: &&(Vec<u8>, Vec<u8>)) -> bool {
    entry.1.first() == Some(&VALUE_VERSION_2)
}

fn rewrite_log_2(engine: &dyn Engine) -> Result<(), StoreError> {
    rewrite_all(engine, Space::Log, |run| {
        let mut batch = Batch::new();
        let (mut of, mut last_at) = (None, 0);
        for (key, value) in run.iter().filter(is_of_2) {
            let user = keys::parse_owned(key).map(|(_, user, _)| user);
            if of != user {
                (of, last_at) = (user, i64::MIN);
            }
            let value = entry_from_2(value, &mut last_at)?;
            batch.push(put(Space::Log, key.clone(), value));
        }
        Ok(batch)
    })
}

fn rewrite_heads_2(engine: &dyn Engine) -> Result<(), StoreError> {
    rewrite_all(engine, Space::Head, |run| {
        let mut batch = Batch::new();
        for (key, value) in run.iter().filter(is_of_2) {
            let head: Head2 = decode_version(VALUE_VERSION_2, value, "head")?;
            let mut last_at = 0;
            if head.log.pending_count > 0 {
                last_at = last_at_of(engine, key)?;
            }
            let head = head_from_2(head, last_at)?;
            batch.push(put(Space::Head, key.clone(), encode(HEAD_VERSION, &head)));
        }
        Ok(batch)
    })
}

/// When the last entry of a log was accepted; `user` is the key of the head.
fn last_at_of(engine: &dyn Engine, user: &[u8]) -> Result<i64, StoreError> {
    let (start, end) = ([user, &[0]].concat(), [user, &[1]].concat());
    let mut last = Ok(0);
    engine.scan_back(Space::Log, &start, &end, &mut |_, value| {
        last = decode_borrowed::<StoredEntry<'_>>(value, "log entry").map(|entry| entry.at);
        ControlFlow::Break(())
    })?;
    last
}

/// What is in a log of schema 2 waits for a session. Its times could run backwards.
fn entry_from_2(value: &[u8], last_at: &mut i64) -> Result<Vec<u8>, StoreError> {
    let entry: Entry2<'_> = decode_version(VALUE_VERSION_2, value, "log entry")?;
    *last_at = entry.at.max(*last_at);
    let entry = StoredEntry {
        at: *last_at,
        peer: entry.from.split('/').next().unwrap_or_default(),
        flags: EntryFlags::WAITING,
        source: 0,
        origin: 0,
        went_to: Cow::default(),
        progress: Cow::Owned(Progress::default()),
        frame: entry.frame,
    };
    Ok(encode(VALUE_VERSION, &entry))
}

fn head_from_2(head: Head2, last_at: i64) -> Result<Head, StoreError> {
    let old = head.log;
    let Some(last) = old.next_seq.checked_sub(1) else {
        return Err(StoreError::Corrupt("head of schema 2".to_owned()));
    };
    Ok(Head {
        live: head.live,
        log: LogHead {
            next_seq: old.next_seq,
            trimmed_through: old.trimmed_through,
            count: old.pending_count,
            bytes: old.pending_bytes,
            forwarded: old.trimmed_through,
            delivered_through: old.trimmed_through,
            waiting_count: old.pending_count,
            waiting_bytes: old.pending_bytes,
            last_at: Timestamp::from_millis(last_at),
            ..LogHead::default()
        },
        // There is nothing to recognise or to index in them.
        folded: last,
        last: head.last,
        ..Head::default()
    })
}

#[cfg(test)]
mod tests;
