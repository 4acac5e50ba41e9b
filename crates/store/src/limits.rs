//! Every bound of the store in one place. Owns no behaviour.

use std::time::Duration;

use crate::slot::{RANGES, SLOTS};

/// Longest address a record may carry, in bytes: three parts of 1,023 bytes and two separators
/// (RFC 7622 section 3.1), without a NUL.
pub const USER_BYTES_MAX: usize = 3 * 1_023 + 2;

/// Longest namespace and longest element name of a private-storage item, in bytes.
pub const PRIVATE_NAME_BYTES_MAX: usize = 1_023;

/// Longest name of a part of a room, in bytes: a letter and an address.
pub const ROOM_PART_BYTES_MAX: usize = 1 + USER_BYTES_MAX;

/// Longest name of a part of a node, in bytes: a letter and an address.
pub const NODE_PART_BYTES_MAX: usize = 1 + USER_BYTES_MAX;

/// Longest id of an item of a node, in bytes.
pub const ITEM_ID_BYTES_MAX: usize = 1_024;

/// Items that one record removes by their ids, and that one read gives out.
pub const ITEMS_MAX: usize = 1_024;

/// Bytes of one field of an entry of the user directory.
pub const DIRECTORY_FIELD_BYTES_MAX: usize = 256;

/// Largest single value (a roster, a vCard, a stanza), in bytes. Far above the stanza limit: it
/// only keeps a mistake from becoming a multi-gigabyte value.
pub const VALUE_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// Bytes of one part of an append in a stream; a larger append is cut into parts.
pub const PART_BYTES_MAX: usize = 256 * 1_024;

/// Most parts of one append, which is held in memory as a whole when it is applied: 8 MiB.
pub const PARTS_MAX: u32 = 32;

/// Most records in one append: an append is atomic, so it is held in memory as a whole.
pub const APPEND_RECORDS_MAX: usize = 10_000;

/// Most batches of appends that wait for the writer thread. One shard has one under way, so this
/// is also the number of shards and tools that can wait at a time; beyond it, an append is refused.
pub const JOURNAL_QUEUE_MAX: usize = 256;

/// The writer stops collecting a group at this many records. Bounds the memory and the latency of a
/// group commit; at 300 bytes a record this is about 1 MB.
pub const GROUP_RECORDS_MAX: usize = 4_096;

/// Time from the begin of one commit to that of the next under load, on average: 800 commits a
/// second, in pairs.
pub const COMMIT_INTERVAL: Duration = Duration::from_micros(1_250);

/// Time from the end of the first commit of a pair to the begin of the second: in it the homes of
/// recipients hear of what the first one made durable, and append it.
pub const COMMIT_GATHER: Duration = Duration::from_micros(200);

/// Commits that begin as they come after a pause: a message alone takes two, one after the other.
pub const COMMITS_AT_ONCE: u32 = 4;

/// Pause between attempts to heal an engine after a failed commit, while nobody appends.
pub const HEAL_INTERVAL: Duration = Duration::from_millis(200);

/// The writer stops collecting a group at about this many bytes of pending changes.
pub const GROUP_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// Bytes of log heads that the writer remembers, by its own estimate; beyond it, it forgets all of
/// them. One head takes 400 bytes, and up to 3,072 more for the entries behind it.
pub const HEADS_CACHED_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// Largest sequence number. Its upper 23 bits count restores of backups, so that a number that was
/// given out after the backup was taken is not given out again.
pub const SEQ_MAX: u64 = (1 << 63) - 1;

/// Highest bits of an entry in the list of a session that are marks of whoever wrote the list. No
/// sequence number needs them: that would take a hundred thousand restores.
pub const NUMBERED_MARK_BITS: u32 = 7;

/// Bits of a sequence number below the count of restores.
pub const SEQ_EPOCH_SHIFT: u32 = 40;

/// Entries after which what recognises and finds entries is written. Until then it follows from the
/// entries, and a load reads up to this many of them.
pub const TAIL_ENTRIES_MAX: u32 = 64;

/// Bytes that an account may have moved since its domain's total was last written, so that not
/// every message writes it.
pub const UNCOUNTED_BYTES_MAX: u64 = 16 * 1_024;

/// Bytes that a log entry is counted with beside its frame: addresses, flags, its key and its place
/// in the index.
pub const ENTRY_OVERHEAD_BYTES: u64 = 96;

/// Sessions of one user that can be resumed; one more is an invalid record.
pub const SESSIONS_MAX: usize = 64;

/// Bytes of all session records of one user, beside their lists ([`NUMBERED_MAX`]); more is an
/// invalid record.
pub const SESSIONS_BYTES_MAX: usize = 1_024 * 1_024;

/// Bytes of a resumption token.
pub const TOKEN_BYTES_MAX: usize = 64;

/// Addresses that one session sent directed presence to.
pub const DIRECTED_MAX: usize = 1_000;

/// Entries that one session was given, or is to be given, later than they were appended and that
/// are not acknowledged.
pub const NUMBERED_MAX: usize = 2_048;

/// Entries of one room's log that one session was given and has not acknowledged.
pub const FOLLOWED_GIVEN_MAX: usize = 2_048;

/// Entries of one user that wait again after the sessions that had them ended: as many as 64
/// sessions with full queues. More are only archived.
pub const REQUEUED_MAX: usize = 65_536;

/// Senders of one user whose last message is remembered together; each of the others has a key of
/// its own until [`crate::Record::MarksForget`].
pub const SEEN_MAX: usize = 128;

/// Destinations of one user that lag: one for each of the most entries that may wait to be handed
/// over, and those from which something came back lately. Sixteen bytes each.
pub const LAGGING_MAX: usize = 10_240;

/// Messages of one user whose origin-id is remembered; the oldest is forgotten.
pub const ORIGINS_MAX: usize = 256;

/// Addresses in each list of one user's archive preferences.
pub const ARCHIVE_PREFS_MAX: usize = 1_000;

/// Records applied per batch of a bulk load.
pub const BULK_RECORDS_MAX: usize = 8_192;

/// Bytes of pending changes per batch of a bulk load.
pub const BULK_BYTES_MAX: usize = 2 * 1_024 * 1_024;

/// Most log entries that one read gives out, whatever the caller asks for.
pub const LOG_READ_MAX: usize = 1_000;

/// Bytes of frames after which a page ends, if it has at least one entry.
pub const LOG_PAGE_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// A page of the archive that has at least one entry ends after looking at this many.
pub const LOG_SCAN_MAX: usize = 10_000;

/// Most addresses that one page of accounts, or of those to wake, gives out.
pub const ACCOUNTS_PAGE_MAX: usize = 10_000;

/// Payload bytes after which a chunk of a backup file is closed.
pub const BACKUP_CHUNK_BYTES: usize = 256 * 1_024;

/// Largest chunk that a reader of a backup file accepts: one chunk and one largest value, which was
/// not bounded as a whole while only the records were of which it came.
pub const BACKUP_CHUNK_BYTES_MAX: usize = BACKUP_CHUNK_BYTES + 4 * VALUE_BYTES_MAX;

/// Problems that a verification report spells out; the rest are only counted.
pub const PROBLEMS_LISTED_MAX: usize = 100;

const _: () = assert!(
    SLOTS.is_multiple_of(RANGES),
    "ranges are equal runs of slots"
);
const _: () = assert!(
    LOG_READ_MAX < LOG_SCAN_MAX,
    "a page of which nothing is left out is never cut short"
);
const _: () = assert!(
    APPEND_RECORDS_MAX >= GROUP_RECORDS_MAX,
    "one append may fill a group"
);

/// Addresses that are remembered of one account's logins; a record with more is refused.
pub const KNOWN_ADDRESSES_MAX: usize = 16;
