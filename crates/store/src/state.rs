//! What records add up to: the state of one user as a login reads it, and the values it is stored
//! as. Owns the encoding of values; which key holds which value is `keys`.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use stdx::time::Timestamp;

use crate::error::StoreError;
use crate::record::{Account, Roster, Seq};

/// The leading byte of every value. A later layout of one value gets another byte, so that values
/// can be rewritten when they are next touched.
pub(crate) const VALUE_VERSION: u8 = 1;

/// All that a login needs, from one batched read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserState {
    /// Credentials and flags.
    pub account: Account,
    /// The roster with its pending requests.
    pub roster: Roster,
    /// Blocked addresses.
    pub blocked: Vec<String>,
    /// When the user was last here and the status text of that time.
    pub last: Option<(Timestamp, String)>,
    /// Where the user's log stands.
    pub log: LogHead,
    /// SHA-1 of the vCard's photo in hex, empty without one.
    pub photo_hash: String,
}

/// Where a log stands. Its entries are those in `trimmed_through + 1 .. next_seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHead {
    /// The sequence number that the next entry gets; at least 1.
    pub next_seq: Seq,
    /// Everything up to here is acknowledged and gone; 0 if nothing is.
    pub trimmed_through: Seq,
    /// Entries that are still there.
    pub pending_count: u64,
    /// Bytes of their frames.
    pub pending_bytes: u64,
}

impl Default for LogHead {
    fn default() -> Self {
        LogHead {
            next_seq: 1,
            trimmed_through: 0,
            pending_count: 0,
            pending_bytes: 0,
        }
    }
}

/// The small value that changes with every message: apart from [`Profile`], so that a message does
/// not rewrite a roster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The account exists. The head outlives it, for the sake of `next_seq`.
    pub(crate) live: bool,
    pub(crate) log: LogHead,
    /// Milliseconds and status of the last activity.
    pub(crate) last: Option<(i64, String)>,
}

/// The larger value that changes when the user changes something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Profile {
    pub(crate) account: Account,
    pub(crate) roster: Roster,
    pub(crate) blocked: Vec<String>,
    pub(crate) photo_hash: String,
}

/// A log entry without its sequence number, which is in the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredEntry<'a> {
    pub(crate) at: i64,
    pub(crate) from: &'a str,
    pub(crate) flags: u32,
    #[serde(serialize_with = "as_bytes")]
    pub(crate) frame: &'a [u8],
}

/// Length and bytes, as for any slice, but not byte by byte.
fn as_bytes<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bytes(bytes)
}

impl UserState {
    pub(crate) fn from_parts(head: Head, profile: Profile) -> UserState {
        UserState {
            account: profile.account,
            roster: profile.roster,
            blocked: profile.blocked,
            last: head
                .last
                .map(|(at, status)| (Timestamp::from_millis(at), status)),
            log: head.log,
            photo_hash: profile.photo_hash,
        }
    }
}

/// A version byte and the postcard of `value`.
pub(crate) fn encode<T: Serialize>(version: u8, value: &T) -> Vec<u8> {
    // Invariant: writing to a `Vec` cannot fail, and none of our types refuses to serialise.
    postcard::to_extend(value, vec![version]).expect("plain data serialises")
}

/// Decodes a value of [`VALUE_VERSION`]; `what` names it in the error.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, StoreError> {
    decode_borrowed(bytes, what)
}

/// The same for types that borrow from `bytes`.
pub(crate) fn decode_borrowed<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    what: &str,
) -> Result<T, StoreError> {
    let Some((&version, body)) = bytes.split_first() else {
        return Err(StoreError::Corrupt(format!("{what}: empty value")));
    };
    if version != VALUE_VERSION {
        return Err(StoreError::Corrupt(format!(
            "{what}: value version {version}"
        )));
    }
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(StoreError::Corrupt(format!(
            "{what}: {} bytes too many",
            rest.len()
        ))),
        Err(error) => Err(StoreError::Corrupt(format!("{what}: {error}"))),
    }
}
