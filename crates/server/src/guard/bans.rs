//! Ban and allow lists that an administrator changes while the node runs: addresses, networks and
//! accounts. Owns their file and what they cover; whoever accepts a connection or a login asks.
//! An entry on the allow list wins over every ban.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use net::AddressRange;
use serde::{Deserialize, Serialize};
use stdx::time::Timestamp;

use crate::limits::{BAN_REASON_BYTES_MAX, BANS_MAX};

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum List {
    /// May not be here.
    Ban,
    /// May be here whatever is banned, and is not counted by address.
    Allow,
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The list that it is on.
    pub list: List,
    /// An address, a network, or the bare address of an account, in normal form.
    pub what: String,
    /// Milliseconds since 1970 when it was made.
    pub made_ms: i64,
    /// When it ends; `None` for never.
    pub until_ms: Option<i64>,
    /// What the administrator said about it.
    pub reason: String,
}

impl Entry {
    fn is_over(&self, now: Timestamp) -> bool {
        self.until_ms.is_some_and(|until| until <= now.as_millis())
    }
}

/// Why a list was not changed, or could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BanError {
    /// It stands for nothing.
    #[error("{0:?} is no address, no network and no account")]
    Unknown(String),
    /// The reason is too long.
    #[error("a reason has at most {BAN_REASON_BYTES_MAX} bytes and no control characters")]
    Reason,
    /// There are too many.
    #[error("the lists have {BANS_MAX} entries: remove some")]
    Full,
    /// It is on no list.
    #[error("{0} is not on the list")]
    Absent(String),
    /// The file cannot be read or written.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// What is on the lists at one time, for asking.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    entries: BTreeMap<(String, List), Entry>,
    /// Networks of more than one address.
    networks: Vec<(AddressRange, Entry)>,
}

impl Lists {
    fn new(entries: BTreeMap<(String, List), Entry>) -> Lists {
        let ranges = entries.values().filter_map(|entry| {
            let is_network = entry.what.contains('/') && !entry.what.contains('@');
            let range = entry.what.parse().ok().filter(|_| is_network)?;
            Some((range, entry.clone()))
        });
        Lists {
            networks: ranges.collect(),
            entries,
        }
    }

    fn names(&self, list: List, what: &str, now: Timestamp) -> bool {
        let entry = self.entries.get(&(what.to_owned(), list));
        entry.is_some_and(|entry| !entry.is_over(now))
    }

    fn covers(&self, list: List, address: IpAddr, now: Timestamp) -> bool {
        let canonical = address.to_canonical();
        let mut networks = self.networks.iter();
        self.names(list, &canonical.to_string(), now)
            || networks.any(|(range, entry)| {
                entry.list == list && range.contains(canonical) && !entry.is_over(now)
            })
    }

    /// Whether an address is on the allow list.
    pub(crate) fn allows_address(&self, address: IpAddr, now: Timestamp) -> bool {
        !self.entries.is_empty() && self.covers(List::Allow, address, now)
    }

    /// Whether connections from an address are closed.
    pub(crate) fn bans_address(&self, address: IpAddr, now: Timestamp) -> bool {
        !self.entries.is_empty()
            && self.covers(List::Ban, address, now)
            && !self.covers(List::Allow, address, now)
    }

    /// Whether an account may not log in, or be made. It is the same to its owner as a lock.
    pub(crate) fn bans_account(&self, user: &str, now: Timestamp) -> bool {
        !self.entries.is_empty()
            && self.names(List::Ban, user, now)
            && !self.names(List::Allow, user, now)
    }
}

/// See the module.
pub(crate) struct Bans {
    path: Option<PathBuf>,
    /// Changes with every change, so that shards ask for the lists only then.
    version: AtomicU32,
    lists: Mutex<Arc<Lists>>,
}

impl Bans {
    /// Reads the lists, or begins with empty ones.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub(crate) fn open(path: Option<PathBuf>) -> Result<Bans, BanError> {
        let mut entries = BTreeMap::new();
        if let Some(path) = &path {
            let failed = |error| BanError::File {
                path: path.clone(),
                error,
            };
            let text = match fs::read_to_string(path) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
                Err(error) => return Err(failed(error)),
            };
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                let entry: Entry =
                    serde_json::from_str(line).map_err(|error| failed(error.into()))?;
                entries.insert((entry.what.clone(), entry.list), entry);
            }
        }
        Ok(Bans {
            path,
            version: AtomicU32::new(1),
            lists: Mutex::new(Arc::new(Lists::new(entries))),
        })
    }

    /// The same, from a file that another process writes: changes are not written here.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub(crate) fn read(path: Option<PathBuf>) -> Result<Bans, BanError> {
        let mut bans = Bans::open(path)?;
        bans.path = None;
        Ok(bans)
    }

    /// Which change was the last.
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// The lists as they are.
    pub(crate) fn lists(&self) -> Arc<Lists> {
        Arc::clone(&self.lists.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Every entry that is in force.
    pub(crate) fn entries(&self, now: Timestamp) -> Vec<Entry> {
        let lists = self.lists();
        let entries = lists.entries.values().filter(|entry| !entry.is_over(now));
        entries.cloned().collect()
    }

    /// Puts an entry on its list, in place of the one that it had for the same. Durable when this
    /// returns. Gives the entry as it is kept.
    ///
    /// # Errors
    /// [`BanError`]; nothing is changed then.
    pub(crate) fn put(&self, mut entry: Entry, now: Timestamp) -> Result<Entry, BanError> {
        entry.what = normal(&entry.what)?;
        let reason = &entry.reason;
        let is_bad = |c: char| c.is_control() || is_directional(c);
        if reason.len() > BAN_REASON_BYTES_MAX || reason.chars().any(is_bad) {
            return Err(BanError::Reason);
        }
        let key = (entry.what.clone(), entry.list);
        self.change(now, |entries| {
            if entries.len() >= BANS_MAX && !entries.contains_key(&key) {
                return Err(BanError::Full);
            }
            entries.insert(key, entry.clone());
            Ok(entry)
        })
    }

    /// Takes an entry off a list. Durable when this returns.
    ///
    /// # Errors
    /// [`BanError`]; nothing is changed then.
    pub(crate) fn remove(&self, list: List, what: &str, now: Timestamp) -> Result<(), BanError> {
        let what = normal(what)?;
        self.change(now, |entries| {
            let removed = entries.remove(&(what.clone(), list));
            removed.map(drop).ok_or(BanError::Absent(what))
        })
    }

    fn change<T>(
        &self,
        now: Timestamp,
        change: impl FnOnce(&mut BTreeMap<(String, List), Entry>) -> Result<T, BanError>,
    ) -> Result<T, BanError> {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = lists.entries.clone();
        entries.retain(|_, entry| !entry.is_over(now));
        let result = change(&mut entries)?;
        if let Some(path) = &self.path {
            write(path, entries.values()).map_err(|error| BanError::File {
                path: path.clone(),
                error,
            })?;
        }
        *lists = Arc::new(Lists::new(entries));
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(result)
    }
}

/// Whether a character turns the text around it, so that a line shows something else than it says.
pub fn is_directional(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The one spelling of an address, a network or an account.
fn normal(what: &str) -> Result<String, BanError> {
    let unknown = || BanError::Unknown(what.chars().take(128).collect());
    if what.contains('@') {
        let parsed = xmpp::addr::parse_bare(what).map_err(|_| unknown())?;
        return Ok(parsed.as_str().to_owned());
    }
    if let Ok(address) = what.parse::<IpAddr>() {
        return Ok(address.to_canonical().to_string());
    }
    let range: AddressRange = what.parse().map_err(|_| unknown())?;
    Ok(range.to_string())
}

/// Replaces the file: the old lists or the new ones, never half of them.
fn write<'a>(path: &Path, entries: impl Iterator<Item = &'a Entry>) -> io::Result<()> {
    let mut text = String::new();
    for entry in entries {
        text.push_str(&serde_json::to_string(entry)?);
        text.push('\n');
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn entry(list: List, what: &str, until_ms: Option<i64>) -> Entry {
        Entry {
            list,
            what: what.to_owned(),
            made_ms: 0,
            until_ms,
            reason: String::new(),
        }
    }

    fn bans(entries: &[Entry]) -> Bans {
        let bans = Bans::open(None).unwrap();
        for entry in entries {
            bans.put(entry.clone(), NOW).unwrap();
        }
        bans
    }

    #[test]
    fn an_entry_covers_what_it_says() {
        let bans = bans(&[
            entry(List::Ban, "192.0.2.0/24", None),
            entry(List::Ban, "::ffff:198.51.100.7", None),
            entry(List::Ban, "2001:db8::/32", None),
            entry(List::Allow, "192.0.2.9", None),
            entry(List::Ban, "Romeo@Example.ORG", None),
        ]);
        let lists = bans.lists();
        for (address, is_banned) in [
            ("192.0.2.1", true),
            ("::ffff:192.0.2.1", true),
            ("192.0.2.9", false),
            ("192.0.3.1", false),
            ("198.51.100.7", true),
            ("2001:db8:7::1", true),
            ("2001:db9::1", false),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(lists.bans_address(address, NOW), is_banned, "{address}");
        }
        assert!(lists.bans_account("romeo@example.org", NOW));
        assert!(!lists.bans_account("juliet@example.org", NOW));
        assert!(lists.allows_address("192.0.2.9".parse().unwrap(), NOW));
    }

    #[test]
    fn an_entry_ends_at_its_time_and_the_allow_list_wins() {
        let bans = bans(&[
            entry(List::Ban, "a@x", Some(2_000)),
            entry(List::Ban, "b@x", None),
            entry(List::Allow, "b@x", Some(2_000)),
        ]);
        let lists = bans.lists();
        let at = Timestamp::from_millis;
        assert!(lists.bans_account("a@x", at(1_999)) && !lists.bans_account("a@x", at(2_000)));
        assert!(!lists.bans_account("b@x", at(1_999)) && lists.bans_account("b@x", at(2_000)));
        assert_eq!(bans.entries(at(2_000)).len(), 1);
    }

    #[test]
    fn what_stands_for_nothing_is_refused() {
        let bans = bans(&[]);
        let version = bans.version();
        for what in ["", "x", "a@", "a@b/c", "192.0.2.0/33", "\u{202e}", "1.2.3"] {
            let error = bans.put(entry(List::Ban, what, None), NOW).unwrap_err();
            assert!(matches!(error, BanError::Unknown(_)), "{what}: {error}");
        }
        for reason in [
            "\u{1b}[2J",
            "\u{202e}x",
            &"x".repeat(BAN_REASON_BYTES_MAX + 1),
        ] {
            let loud = Entry {
                reason: reason.to_owned(),
                ..entry(List::Ban, "a@x", None)
            };
            assert!(matches!(bans.put(loud, NOW), Err(BanError::Reason)));
        }
        let absent = bans.remove(List::Ban, "a@x", NOW);
        assert!(matches!(absent, Err(BanError::Absent(_))));
        assert_eq!(bans.version(), version, "nothing changed");
    }

    #[test]
    fn lists_outlive_the_process_and_a_damaged_file_is_noticed() {
        let folder = std::env::temp_dir().join(format!("roost-bans-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("bans");
        let open = || Bans::open(Some(path.clone()));
        let bans = open().unwrap();
        bans.put(entry(List::Ban, "192.0.2.1", None), NOW).unwrap();
        bans.put(entry(List::Ban, "a@x", None), NOW).unwrap();
        bans.remove(List::Ban, "a@x", NOW).unwrap();
        assert_eq!(open().unwrap().entries(NOW), bans.entries(NOW));
        assert_eq!(bans.entries(NOW).len(), 1);
        let other = Bans::read(Some(path.clone())).unwrap();
        assert_eq!(other.entries(NOW), bans.entries(NOW));
        other.put(entry(List::Ban, "b@x", None), NOW).unwrap();
        assert_eq!(other.entries(NOW).len(), 2);
        assert_eq!(open().unwrap().entries(NOW), bans.entries(NOW));
        fs::write(&path, "{\"list\":\"ban\"").unwrap();
        assert!(matches!(open(), Err(BanError::File { .. })));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_lists_are_bounded() {
        let now = NOW;
        let bans = Bans::open(None).unwrap();
        let all = (0..BANS_MAX as u32).map(|n| {
            let what = std::net::Ipv4Addr::from_bits(n + 1).to_string();
            ((what.clone(), List::Ban), entry(List::Ban, &what, None))
        });
        *bans.lists.lock().unwrap() = Arc::new(Lists::new(all.collect()));
        let more = bans.put(entry(List::Ban, "a@x", None), now);
        assert!(matches!(more, Err(BanError::Full)));
        bans.remove(List::Ban, "0.0.0.1", now).unwrap();
        bans.put(entry(List::Ban, "a@x", None), now).unwrap();
    }
}
