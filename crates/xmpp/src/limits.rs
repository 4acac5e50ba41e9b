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

/// Bytes of entropy in our half of a SCRAM nonce; 24 characters on the wire.
pub const SCRAM_NONCE_BYTES: usize = 18;

/// Bytes of a decoy's salt, and the length that real accounts should use, so that both look alike.
pub const SCRAM_SALT_BYTES: usize = 16;

/// Fewest iterations a SCRAM key may be derived with (RFC 7677 section 4).
pub const SCRAM_ITERATIONS_MIN: u32 = 4096;

/// Most iterations a SCRAM key may be derived with, so that one login cannot hold a thread for
/// minutes (about 5 s at this bound).
pub const SCRAM_ITERATIONS_MAX: u32 = 10_000_000;

/// Longest password, in bytes. A longer one is refused, because its preparation costs time.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// Default number of failed authentications after which a stream is closed with
/// `policy-violation` (RFC 6120 section 6.4.5 asks for 2 to 5).
pub const AUTH_ATTEMPTS_MAX: u8 = 5;

/// Default number of elements (stream headers included) that a client may send before it has
/// bound a resource; one more closes the stream with `policy-violation`.
pub const NEGOTIATION_ELEMENTS_MAX: u16 = 32;

/// Longest `xml:lang` of a stream header that is remembered, in bytes; a longer one is ignored.
pub const LANG_BYTES_MAX: usize = 35;

/// Longest `id` of a stanza during negotiation that is echoed in its answer, in bytes. A stanza
/// with a longer one is refused with `policy-violation`.
pub const NEGOTIATION_ID_BYTES_MAX: usize = 1024;

const _: () = assert!(
    SCRAM_NONCE_BYTES.is_multiple_of(3),
    "nonces are encoded without padding"
);
const _: () = assert!(SCRAM_ITERATIONS_MIN < SCRAM_ITERATIONS_MAX);
const _: () = assert!(AUTH_ATTEMPTS_MAX >= 2, "RFC 6120 section 6.4.5");
// Addresses are indexed with 16 bits.
const _: () = assert!(ADDRESS_BYTES_MAX < u16::MAX as usize);
