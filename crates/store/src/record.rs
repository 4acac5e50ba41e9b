//! Records: the durable changes that state is made of, and the plain types they carry. Owns their
//! versioned encoding and what makes a record acceptable; how a record changes state is `apply`.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stdx::Level;
use stdx::time::Timestamp;

use crate::delivery::{
    ArchivePrefs, Delivered, LaggingMark, LogEntry, NumberedEntry, Progress, SessionRecord,
};
use crate::directory::DirectoryEntry;
use crate::followed::RoomRead;
use crate::limits::{
    ITEM_ID_BYTES_MAX, ITEMS_MAX, KNOWN_ADDRESSES_MAX, NODE_PART_BYTES_MAX, PART_BYTES_MAX,
    PARTS_MAX, PRIVATE_NAME_BYTES_MAX, ROOM_PART_BYTES_MAX, USER_BYTES_MAX, VALUE_BYTES_MAX,
};
use crate::member;
use crate::octets;
use crate::shared::SharedBytes;
use crate::state::NEXT_MARK;

/// Position of an entry in its entity's log. Assigned by the entity's home, strictly increasing
/// from 1, never reused, not even after the account was removed and created again.
pub type Seq = u64;

/// The encoding version that [`Record::encode`] writes at the newest level, its leading byte.
pub const RECORD_VERSION: u8 = 10;

/// The version that each level writes. A record that has another form, or a new kind, comes with a
/// version and a level of its own: below that level, what it says is written as before.
const RECORD_VERSIONS: [(Level, u8); 2] = [(Level::FIRST, 9), (Level::new(3), RECORD_VERSION)];

/// The oldest version that [`Record::decode`] reads: later ones only added kinds of records.
const RECORD_VERSION_MIN: u8 = 2;

/// One durable change of one entity. `user` is its normalised bare address.
///
/// Records other than [`Record::AccountPut`], [`Record::RoomMake`] and [`Record::ServiceMake`]
/// change nothing while the account, the room or the service does not exist: a record that races
/// with a removal leaves no residue. Records of one kind of entity change nothing of another, but
/// for those of the log, and those of nodes, which accounts and services have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Creates the account or replaces its credentials and flags.
    AccountPut {
        /// Whose account.
        user: String,
        /// The account as it is from now on.
        account: Account,
    },
    /// Removes the account with its roster, blocklist, vCard, private storage and log. What stays
    /// is the next sequence number of its log.
    AccountRemove {
        /// Whose account.
        user: String,
    },
    /// Adds or replaces one roster item.
    RosterPut {
        /// Whose roster.
        user: String,
        /// The roster's version from now on.
        version: u64,
        /// The item, identified by its address.
        item: RosterItem,
    },
    /// Removes one roster item; the version changes even if there is none.
    RosterRemove {
        /// Whose roster.
        user: String,
        /// The roster's version from now on.
        version: u64,
        /// Address of the item.
        contact: String,
    },
    /// Replaces the whole roster (import).
    RosterReplace {
        /// Whose roster.
        user: String,
        /// The roster as it is from now on. Of items with the same address the last one counts.
        roster: Roster,
    },
    /// Replaces the blocklist (XEP-0191).
    BlocklistPut {
        /// Whose blocklist.
        user: String,
        /// The blocked addresses, in the order in which they are shown.
        blocked: Vec<String>,
    },
    /// Remembers when the user was last here (XEP-0012).
    LastActivity {
        /// Who.
        user: String,
        /// When the last session ended.
        #[serde(with = "millis")]
        at: Timestamp,
        /// The status text of the last unavailable presence.
        status: String,
    },
    /// Replaces the vCard (XEP-0054); empty `xml` removes it.
    VCardPut {
        /// Whose vCard.
        user: String,
        /// The `<vCard/>` element.
        xml: Vec<u8>,
        /// SHA-1 of the photo in lower-case hex (XEP-0153), empty without a photo.
        photo_hash: String,
    },
    /// Replaces one item of private storage (XEP-0049); empty `xml` removes it.
    PrivatePut {
        /// Whose storage.
        user: String,
        /// Namespace of the stored element.
        ns: String,
        /// Name of the stored element.
        name: String,
        /// The element.
        xml: Vec<u8>,
    },
    /// Appends to the user's log. An entry whose `seq` was given out before changes nothing.
    LogAppend {
        /// Whose log. Shared: this is made for every message.
        user: Arc<str>,
        /// The entry.
        entry: LogEntry,
    },
    /// Drops all entries up to and including `through`: nobody needs them any more.
    LogTrim {
        /// Whose log.
        user: String,
        /// Last entry to go.
        through: Seq,
    },
    /// Moves cursors without an entry to carry them.
    LogProgress {
        /// Whose log.
        user: String,
        /// The cursors that move.
        progress: Progress,
    },
    /// Says anew which entries wait for a session to take them.
    LogDelivered {
        /// Whose log.
        user: String,
        /// Where delivery stands from now on.
        delivered: Delivered,
    },
    /// Adds a session that can be resumed, or replaces its record. Its cursors stay.
    SessionPut {
        /// Whose session.
        user: String,
        /// The session.
        session: Box<SessionRecord>,
    },
    /// Removes a session with its cursors.
    SessionRemove {
        /// Whose session.
        user: String,
        /// Its number.
        number: u32,
    },
    /// Replaces the list of entries that a session was given later than they were appended, with
    /// their outbound counts.
    SessionNumbered {
        /// Whose session.
        user: String,
        /// Its number.
        number: u32,
        /// Counts that entries up to here carry for the session are void.
        void_through: Seq,
        /// The list.
        numbered: Vec<NumberedEntry>,
    },
    /// Replaces what the user wants to have archived (XEP-0313).
    ArchivePrefsPut {
        /// Whose archive.
        user: String,
        /// The preferences from now on.
        prefs: ArchivePrefs,
    },
    /// Replaces the marks of destinations that lag. It goes in front of a record that moves the
    /// common mark past entries of one of them, in the same append.
    LaggingPut {
        /// Whose outgoing entries.
        user: String,
        /// The destinations, each once.
        lagging: Vec<LaggingMark>,
    },
    /// Forgets up to where senders were heard of who have not been since a time, of those that
    /// [`crate::Recognition`] has no room for.
    MarksForget {
        /// Whose marks.
        user: String,
        /// Milliseconds since 1970.
        before: i64,
    },
    /// Locks the account or unlocks it. Its credentials stay: a password that changes at the same
    /// time is not undone.
    AccountLock {
        /// Whose account.
        user: String,
        /// Whether it may log in from now on.
        locked: bool,
    },
    /// Replaces the list of addresses that the account logged in from.
    KnownAddressesPut {
        /// Whose account.
        user: String,
        /// The addresses, at most [`KNOWN_ADDRESSES_MAX`].
        known: Vec<KnownAddress>,
    },
    /// Makes a room, which has a log and parts, or replaces what lists of rooms say about it.
    RoomMake {
        /// Its address.
        user: String,
        /// Who made it: a bare address.
        creator: String,
        /// What a list says about it, in the words of whoever makes rooms; not empty.
        about: Vec<u8>,
    },
    /// Replaces one part of a room; an empty value removes it.
    RoomPut {
        /// The room.
        user: String,
        /// The part's name: parts are read in its order.
        part: String,
        /// The part.
        value: Vec<u8>,
    },
    /// Removes a room with its parts and its log. What stays is the next sequence number of its
    /// log.
    RoomRemove {
        /// The room.
        user: String,
    },
    /// Makes a service, which has nodes and nothing else. There is one already: nothing changes.
    ServiceMake {
        /// Its address.
        user: String,
    },
    /// Replaces one part of a node; an empty value removes it.
    NodePut {
        /// The account or service.
        user: String,
        /// The node's number; what no node has is with number 0.
        node: u64,
        /// The part's name: parts are read in its order.
        part: String,
        /// The part.
        value: Vec<u8>,
    },
    /// Removes a node: its parts and its items.
    NodeRemove {
        /// The account or service.
        user: String,
        /// The node's number.
        node: u64,
    },
    /// Adds an item to a node, or replaces the one with its id.
    ItemPut {
        /// The account or service.
        user: String,
        /// The node's number.
        node: u64,
        /// The item.
        item: Item,
    },
    /// Removes items of a node; of those that are not there nothing comes.
    ItemsRemove {
        /// The account or service.
        user: String,
        /// The node's number.
        node: u64,
        /// Their ids, at most [`ITEMS_MAX`].
        ids: Vec<String>,
    },
    /// Removes all items of a node.
    ItemsClear {
        /// The account or service.
        user: String,
        /// The node's number.
        node: u64,
    },
    /// Replaces how far a session has read the log of a room. It goes with the session.
    SessionRoomPut {
        /// Whose session. Shared, as the room is: this is made for every copy of a message.
        user: Arc<str>,
        /// Its number.
        number: u32,
        /// The room.
        room: Arc<str>,
        /// How far.
        read: RoomRead,
    },
    /// A session does not read the log of a room any more.
    SessionRoomRemove {
        /// Whose session.
        user: String,
        /// Its number.
        number: u32,
        /// The room.
        room: String,
    },
    /// Replaces the frame of an entry in a log, which keeps its place, its time and whom it is from
    /// or for. One that is not there any more changes nothing.
    LogReplace {
        /// The room or account.
        user: String,
        /// The entry.
        seq: Seq,
        /// Its frame from now on.
        frame: Vec<u8>,
    },
    /// Replaces what the user directory says of an account (XEP-0055); an empty entry takes the
    /// account out of it.
    DirectoryPut {
        /// Whose entry.
        user: String,
        /// What whoever searches is told.
        entry: DirectoryEntry,
    },
    /// Replaces up to where an account has the log of a room that delivers to its members.
    MemberRoomPut {
        /// The account.
        user: String,
        /// The room.
        room: String,
        /// Nothing of its log up to here is owed to the account.
        through: Seq,
    },
    /// A room delivers to an account no more.
    MemberRoomRemove {
        /// The account.
        user: String,
        /// The room.
        room: String,
    },
    /// A part of an append of which the whole is larger than a message of a stream may be. It waits
    /// with its range, for [`Record::PartsApply`]; part 0 takes the place of all that waited.
    PartPut {
        /// The entity of the append's first record, which says the range.
        user: String,
        /// Which part, from 0.
        at: u32,
        /// Up to [`PART_BYTES_MAX`] of the append's bytes.
        #[serde(with = "octets")]
        bytes: Vec<u8>,
    },
    /// Applies the append whose parts wait, as if it had come here in one piece, and drops them.
    PartsApply {
        /// As in the parts.
        user: String,
        /// How many they are.
        parts: u32,
        /// Of the whole append's bytes.
        hash: u64,
    },
}

/// What is kept under one id of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Unique within the node.
    pub id: String,
    /// Its place among the items of the entity.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// Who put it there: a bare address.
    pub publisher: String,
    /// What was put there; empty if nothing was.
    pub payload: SharedBytes,
}

/// An address that its owner logged in from. The address itself is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownAddress {
    /// Keyed hash of the address (IPv6: of its /64).
    pub key: u64,
    /// Days since 1970 at the last login that was noted.
    pub day: u32,
}

/// Why a record was refused before it touched anything. The party at fault is the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The address is empty, too long or contains a NUL.
    #[error("not an address that can be stored: {0:?}")]
    Address(String),
    /// A namespace or element name of private storage is too long or contains a NUL.
    #[error("namespace or name of private storage is too long or contains a NUL")]
    PrivateName,
    /// A part of an append that is too large or one too many, or parts that do not make the append
    /// that is to be applied. Only streams have parts.
    #[error("a part of an append, or an append of parts, that does not fit the others")]
    Parts,
    /// It is of another range than its append.
    #[error("a record of another range")]
    Range,
    /// A value is larger than [`VALUE_BYTES_MAX`].
    #[error("value of {0} bytes is above the limit")]
    TooLarge(usize),
    /// The name of a room's part, or its creator's address, is too long or contains a NUL, or
    /// nothing is said about the room.
    #[error("a room needs a description, and names without a NUL that are not too long")]
    Room,
    /// The name of a node's part, the id of an item or its publisher is too long or contains a NUL.
    #[error("a node needs names without a NUL that are not too long")]
    Node,
    /// A log entry without a sequence number (0) or with one above [`crate::limits::SEQ_MAX`].
    #[error("log entry without a sequence number")]
    NoSequence,
    /// A list of the delivery state is longer than its bound.
    #[error("{0} of the delivery state are above the limit")]
    TooMany(&'static str),
    /// The encoding is of a newer version.
    #[error("record of version {0}; this program reads up to {RECORD_VERSION}: upgrade it")]
    Version(u8),
    /// The bytes are no record.
    #[error("undecodable record: {0}")]
    Encoding(String),
}

impl Record {
    /// The entity that this record changes.
    pub fn user(&self) -> &str {
        match self {
            Record::AccountPut { user, .. }
            | Record::AccountRemove { user }
            | Record::RosterPut { user, .. }
            | Record::RosterRemove { user, .. }
            | Record::RosterReplace { user, .. }
            | Record::BlocklistPut { user, .. }
            | Record::LastActivity { user, .. }
            | Record::VCardPut { user, .. }
            | Record::PrivatePut { user, .. }
            | Record::LogTrim { user, .. }
            | Record::LogProgress { user, .. }
            | Record::LogDelivered { user, .. }
            | Record::SessionPut { user, .. }
            | Record::SessionRemove { user, .. }
            | Record::SessionNumbered { user, .. }
            | Record::ArchivePrefsPut { user, .. }
            | Record::LaggingPut { user, .. }
            | Record::MarksForget { user, .. }
            | Record::AccountLock { user, .. }
            | Record::RoomMake { user, .. }
            | Record::RoomPut { user, .. }
            | Record::RoomRemove { user }
            | Record::ServiceMake { user }
            | Record::NodePut { user, .. }
            | Record::NodeRemove { user, .. }
            | Record::ItemPut { user, .. }
            | Record::ItemsRemove { user, .. }
            | Record::ItemsClear { user, .. }
            | Record::SessionRoomRemove { user, .. }
            | Record::LogReplace { user, .. }
            | Record::DirectoryPut { user, .. }
            | Record::MemberRoomPut { user, .. }
            | Record::MemberRoomRemove { user, .. }
            | Record::KnownAddressesPut { user, .. }
            | Record::PartPut { user, .. }
            | Record::PartsApply { user, .. } => user,
            Record::LogAppend { user, .. } | Record::SessionRoomPut { user, .. } => user,
        }
    }

    /// Bytes for the journal of a cluster, in the form of a level: a version byte, then postcard.
    pub fn encode(&self, level: Level) -> Vec<u8> {
        let version = level.version(&RECORD_VERSIONS);
        let mut bytes = crate::state::encode(version, self);
        if level.is_next() {
            bytes.push(NEXT_MARK);
        }
        bytes
    }

    /// The inverse of [`Record::encode`].
    ///
    /// # Errors
    /// [`RecordError::Version`] for a newer version, [`RecordError::Encoding`] for anything else.
    pub fn decode(bytes: &[u8]) -> Result<Record, RecordError> {
        Record::decode_as(bytes, Level::known())
    }

    /// As a program reads it that knows levels up to `known`: for tests of other versions.
    ///
    /// # Errors
    /// As [`Record::decode`].
    pub fn decode_as(bytes: &[u8], known: Level) -> Result<Record, RecordError> {
        let newest = known.version(&RECORD_VERSIONS);
        let malformed = |why: &dyn fmt::Display| RecordError::Encoding(why.to_string());
        match bytes.split_first() {
            Some((&version, body)) if (RECORD_VERSION_MIN..=newest).contains(&version) => {
                let (record, rest) =
                    postcard::take_from_bytes(body).map_err(|error| malformed(&error))?;
                match version > RECORD_VERSION && rest != [NEXT_MARK] {
                    true => Err(malformed(&"no mark")),
                    false => Ok(record),
                }
            }
            Some((&version, _)) if version > newest => Err(RecordError::Version(version)),
            _ => Err(malformed(&"no version byte")),
        }
    }

    /// Checks everything that the key and value layout relies on.
    ///
    /// # Errors
    /// What is wrong with the record; it must not be applied then.
    pub fn check(&self) -> Result<(), RecordError> {
        let user = self.user();
        if user.is_empty() || user.len() > USER_BYTES_MAX || user.contains('\0') {
            return Err(RecordError::Address(user.chars().take(64).collect()));
        }
        match self.measure()? {
            size if size > VALUE_BYTES_MAX => Err(RecordError::TooLarge(size)),
            _ => Ok(()),
        }
    }

    /// About how many bytes it has beside its addresses.
    pub fn bytes(&self) -> usize {
        self.measure().unwrap_or_default()
    }

    /// The same, of a record whose parts are what they may be.
    fn measure(&self) -> Result<usize, RecordError> {
        Ok(match self {
            Record::AccountPut { .. }
            | Record::AccountRemove { .. }
            | Record::AccountLock { .. }
            | Record::LogTrim { .. }
            | Record::RoomRemove { .. }
            | Record::ServiceMake { .. }
            | Record::NodeRemove { .. }
            | Record::ItemsClear { .. }
            | Record::MarksForget { .. }
            | Record::SessionRoomRemove { .. }
            | Record::SessionRemove { .. } => 0,
            Record::PartPut { at, bytes, .. } => match *at < PARTS_MAX {
                true if bytes.len() <= PART_BYTES_MAX => bytes.len(),
                _ => return Err(RecordError::Parts),
            },
            Record::PartsApply { parts, .. } => match *parts <= PARTS_MAX {
                true => 0,
                false => return Err(RecordError::Parts),
            },
            Record::RosterPut { item, .. } => item.size(),
            Record::RosterRemove { contact, .. } => contact.len(),
            Record::RosterReplace { roster, .. } => roster.items.iter().map(RosterItem::size).sum(),
            Record::BlocklistPut { blocked, .. } => blocked.iter().map(|b| b.len() + 3).sum(),
            Record::LastActivity { status, .. } => status.len(),
            Record::VCardPut {
                xml, photo_hash, ..
            } => xml.len() + photo_hash.len(),
            Record::PrivatePut { ns, name, xml, .. } => {
                let bad = |part: &str| part.len() > PRIVATE_NAME_BYTES_MAX || part.contains('\0');
                if bad(ns) || bad(name) {
                    return Err(RecordError::PrivateName);
                }
                xml.len()
            }
            Record::LogAppend { entry, .. } => entry.check()?,
            Record::LogReplace { frame, .. } => frame.len(),
            Record::DirectoryPut { entry, .. } => entry.check()?,
            Record::LogProgress { progress, .. } => progress.check()?,
            Record::LogDelivered { delivered, .. } => delivered.check()?,
            Record::SessionPut { session, .. } => session.check()?,
            Record::SessionNumbered { numbered, .. } => NumberedEntry::check(numbered)?,
            Record::ArchivePrefsPut { prefs, .. } => prefs.check()?,
            Record::KnownAddressesPut { known, .. } if known.len() > KNOWN_ADDRESSES_MAX => {
                return Err(RecordError::TooMany("known addresses"));
            }
            Record::KnownAddressesPut { .. } => 0,
            Record::LaggingPut { lagging, .. } => LaggingMark::check(lagging)?,
            Record::RoomMake { creator, about, .. } => {
                if about.is_empty() || creator.len() > USER_BYTES_MAX || creator.contains('\0') {
                    return Err(RecordError::Room);
                }
                creator.len() + about.len()
            }
            Record::RoomPut { part, value, .. } => {
                if part.len() > ROOM_PART_BYTES_MAX || part.contains('\0') {
                    return Err(RecordError::Room);
                }
                value.len()
            }
            Record::SessionRoomPut { room, read, .. } => read.check(room)?,
            Record::MemberRoomPut { room, .. } | Record::MemberRoomRemove { room, .. } => {
                member::check(room)?
            }
            Record::NodePut { part, value, .. } => {
                node_name(part, NODE_PART_BYTES_MAX)?;
                value.len()
            }
            Record::ItemPut { item, .. } => {
                node_name(&item.id, ITEM_ID_BYTES_MAX)?;
                node_name(&item.publisher, USER_BYTES_MAX)?;
                item.payload.len()
            }
            Record::ItemsRemove { ids, .. } if ids.len() > ITEMS_MAX => {
                return Err(RecordError::TooMany("items"));
            }
            Record::ItemsRemove { ids, .. } => {
                ids.iter()
                    .try_for_each(|id| node_name(id, ITEM_ID_BYTES_MAX))?;
                0
            }
        })
    }
}

fn node_name(name: &str, bytes_max: usize) -> Result<(), RecordError> {
    match name.len() > bytes_max || name.contains('\0') {
        true => Err(RecordError::Node),
        false => Ok(()),
    }
}

/// Credentials and flags of one account. Passwords are kept only as SCRAM keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// When it was created.
    #[serde(with = "millis")]
    pub created: Timestamp,
    /// A locked account cannot log in.
    pub locked: bool,
    /// Keys for each mechanism family.
    pub scram: Vec<ScramKeys>,
}

/// What a server keeps of a password (RFC 5802 section 3).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScramKeys {
    /// The hash of the mechanism.
    pub hash: ScramHash,
    /// Iteration count of the derivation.
    pub iterations: u32,
    /// Salt of the derivation.
    #[serde(with = "octets")]
    pub salt: Vec<u8>,
    /// `StoredKey`.
    #[serde(with = "octets")]
    pub stored_key: Vec<u8>,
    /// `ServerKey`.
    #[serde(with = "octets")]
    pub server_key: Vec<u8>,
}

impl fmt::Debug for ScramKeys {
    /// Shows no key: accounts get into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramKeys")
            .field("hash", &self.hash)
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

/// Hash functions of the SCRAM family in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ScramHash {
    /// SCRAM-SHA-1 (RFC 5802).
    Sha1,
    /// SCRAM-SHA-256 (RFC 7677).
    Sha256,
}

/// A user's whole roster: one value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// Changes with every change of an item (RFC 6121 section 2.6).
    pub version: u64,
    /// Sorted by address, one item for each.
    pub items: Vec<RosterItem>,
}

/// One contact of a roster, or a request that waits for an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RosterItem {
    /// The contact's bare address.
    pub jid: String,
    /// Display name, empty if none.
    pub name: String,
    /// Group names.
    pub groups: Vec<String>,
    /// Subscription state (RFC 6121 section 2.1.2.5).
    pub subscription: Subscription,
    /// A request of ours is unanswered ("pending out").
    pub ask: bool,
    /// We approved a request before it came (RFC 6121 section 3.4).
    pub approved: bool,
    /// The item is shown to clients; false for a mere pending request.
    pub listed: bool,
    /// The contact's unanswered request ("pending in"): the `subscribe` stanza.
    #[serde(with = "octets::optional")]
    pub pending_in: Option<Vec<u8>>,
}

impl RosterItem {
    /// About the number of bytes that the item takes in storage.
    fn size(&self) -> usize {
        let groups: usize = self.groups.iter().map(|group| group.len() + 3).sum();
        self.jid.len()
            + self.name.len()
            + groups
            + self.pending_in.as_ref().map_or(0, Vec::len)
            + 16
    }
}

/// Who sees whose presence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Subscription {
    /// Nobody.
    #[default]
    None,
    /// We see theirs.
    To,
    /// They see ours.
    From,
    /// Both.
    Both,
}

/// Timestamps are stored as signed milliseconds.
pub(crate) mod millis {
    use serde::{Deserialize, Deserializer, Serializer};
    use stdx::time::Timestamp;

    pub(crate) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(at.as_millis())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(from).map(Timestamp::from_millis)
    }
}
