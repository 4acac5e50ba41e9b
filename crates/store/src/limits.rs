//! Every bound of the store in one place. Owns no behaviour.

use crate::slot::{RANGES, SLOTS};

/// Longest address a record may carry, in bytes: three parts of 1,023 bytes and two separators
/// (RFC 7622 section 3.1), without a NUL.
pub const USER_BYTES_MAX: usize = 3 * 1_023 + 2;

/// Longest namespace and longest element name of a private-storage item, in bytes.
pub const PRIVATE_NAME_BYTES_MAX: usize = 1_023;

/// Largest single value (a roster, a vCard, a stanza), in bytes. Far above the stanza limit: it
/// only keeps a mistake from becoming a multi-gigabyte value.
pub const VALUE_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// Most records in one append: an append is atomic, so it is held in memory as a whole.
pub const APPEND_RECORDS_MAX: usize = 10_000;

/// Most batches of appends that wait for the writer thread. One shard has one under way, so this
/// is also the number of shards and tools that can wait at a time; beyond it, an append is refused.
pub const JOURNAL_QUEUE_MAX: usize = 256;

/// The writer stops collecting a group at this many records. Bounds the memory and the latency of a
/// group commit; at 300 bytes a record this is about 1 MB.
pub const GROUP_RECORDS_MAX: usize = 4_096;

/// The writer stops collecting a group at about this many bytes of pending changes.
pub const GROUP_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// Log heads that the writer remembers, at about 150 bytes each; beyond it, it forgets all of them.
pub const HEADS_CACHED_MAX: usize = 16_384;

/// Records applied per batch of a bulk load.
pub const BULK_RECORDS_MAX: usize = 8_192;

/// Bytes of pending changes per batch of a bulk load.
pub const BULK_BYTES_MAX: usize = 2 * 1_024 * 1_024;

/// Most log entries that one read gives out, whatever the caller asks for.
pub const LOG_READ_MAX: usize = 1_000;

/// Most addresses that one page of accounts gives out.
pub const ACCOUNTS_PAGE_MAX: usize = 10_000;

/// Payload bytes after which a chunk of a backup file is closed.
pub const BACKUP_CHUNK_BYTES: usize = 256 * 1_024;

/// Largest chunk that a reader of a backup file accepts: one chunk and one largest value.
pub const BACKUP_CHUNK_BYTES_MAX: usize = BACKUP_CHUNK_BYTES + VALUE_BYTES_MAX + 64 * 1_024;

/// Problems that a verification report spells out; the rest are only counted.
pub const PROBLEMS_LISTED_MAX: usize = 100;

const _: () = assert!(
    SLOTS.is_multiple_of(RANGES),
    "ranges are equal runs of slots"
);
const _: () = assert!(
    APPEND_RECORDS_MAX >= GROUP_RECORDS_MAX,
    "one append may fill a group"
);
