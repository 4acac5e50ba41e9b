//! Bounds of what a packet may have in it. A writer that would exceed one is told so; a reader
//! refuses the packet.

/// Bytes of an address: three parts of 1,023 bytes and two separators (RFC 7622 section 3.1).
pub const ADDRESS_BYTES_MAX: usize = 3_071;

/// Bytes of one frame: the largest stanza that can be configured (16 MiB), and what the server adds
/// to it on its way: an envelope, ids, a delay.
pub const FRAME_BYTES_MAX: usize = 16 * 1_024 * 1_024 + 65_536;

/// Bytes of one packet: its largest frame, or a page of frames, and everything around them.
pub const PACKET_BYTES_MAX: usize = FRAME_BYTES_MAX + 1_024 * 1_024;

/// Messages of a page of a room's log, and the most that may be asked for.
pub const PAGE_MESSAGES_MAX: usize = 4_096;

/// Bytes of the sentence of an error, and of an application's condition in it.
pub const ERROR_BYTES_MAX: usize = 4_096;

/// Nodes that a session is interested in.
pub const NODES_MAX: usize = 4_096;

/// Bytes of the name of a node (XEP-0060).
pub const NODE_BYTES_MAX: usize = 4_096;

/// Sessions that are sent an event anyway.
pub const BUT_MAX: usize = 65_536;

/// Bytes of a stream's header, or of an element before there is a session.
pub const JOIN_PART_BYTES_MAX: usize = 16 * 1_024;

/// Elements with which a client says whose it is.
pub const JOIN_ELEMENTS_MAX: usize = 8;

/// Bytes of the name under which a session is resumed (XEP-0198).
pub const TOKEN_BYTES_MAX: usize = 128;

/// Requests of a client's connection that were answered and that no record covers.
pub const ANSWERED_MAX: usize = 512;

/// Bytes of the type of an answer over HTTP.
pub const CONTENT_BYTES_MAX: usize = 256;

/// Bytes of one part of an operator's request to another node, or of its answer.
pub const ERRAND_BYTES_MAX: usize = 1_024 * 1_024;

/// Bytes of a connection that travel in one packet.
pub const JOINED_BYTES_MAX: usize = 65_536;
