//! Owns the bounds of this crate, each with what happens when it is reached. The bounds of the
//! tokenizer (stanza bytes, depth, attributes) live in the `xml` crate.

/// Longest part (local part, domain, resource) of an address, in bytes after preparation
/// (RFC 7622 section 3.1). A longer one is a malformed address.
pub const ADDRESS_PART_BYTES_MAX: usize = 1023;

/// Longest address, in bytes: three parts and two separators. Anything longer is refused before
/// it is prepared, because preparation can be slow.
pub const ADDRESS_BYTES_MAX: usize = 3 * ADDRESS_PART_BYTES_MAX + 2;

/// Longest domain, in bytes of its ASCII form (RFC 1034 section 3.1).
pub const DOMAIN_BYTES_MAX: usize = 253;

/// Longest label of a domain, in bytes of its ASCII form (RFC 1034 section 3.1).
pub const DOMAIN_LABEL_BYTES_MAX: usize = 63;

/// Longest decoded SASL message of a client, in bytes. A longer one is a malformed request.
pub const SASL_MESSAGE_BYTES_MAX: usize = 4096;

/// Longest nonce a SCRAM client may choose, in bytes. A longer one is a malformed request.
pub const SCRAM_CLIENT_NONCE_BYTES_MAX: usize = 512;

/// Bytes of a decoy's salt, and the length that real accounts should use, so that both look alike.
pub const SCRAM_SALT_BYTES: usize = 16;

/// Longest password, in bytes. A longer one is refused, because its preparation costs time.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// Number of failed authentications after which a stream is closed with
/// `policy-violation` (RFC 6120 section 6.4.5 asks for 2 to 5).
pub const AUTH_ATTEMPTS_MAX: u8 = 5;

/// Number of elements (stream headers do not count) that a client may send before it has
/// bound a resource; one more closes the stream with `policy-violation`.
pub const NEGOTIATION_ELEMENTS_MAX: u16 = 32;

/// Longest `xml:lang` of a stream header that is remembered, in bytes; a longer one is ignored.
pub const LANG_BYTES_MAX: usize = 35;

/// Longest id of a session that a client may ask to resume, in bytes; ours are shorter. A longer
/// one is a bad request.
pub const SM_ID_BYTES_MAX: usize = 128;

/// Fields of a data form. One more makes it a bad request: fields are compared with each other.
pub const FORM_FIELDS_MAX: usize = 256;

const _: () = assert!(AUTH_ATTEMPTS_MAX >= 2, "RFC 6120 section 6.4.5");
// Addresses are indexed with 16 bits.
const _: () = assert!(ADDRESS_BYTES_MAX < u16::MAX as usize);
