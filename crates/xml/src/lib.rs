//! The streaming tokenizer and stanza framer: bytes in, frames out. Strict XML 1.0 with namespaces,
//! within what RFC 6120 section 11 allows in a stream, and bounded; without allocation on the
//! message path. It knows no stanza and no extension.
//!
//! # Documented limits
//!
//! Beyond [`Limits`], and the constructs that RFC 6120 section 11.1 forbids, it refuses what XML
//! would allow in five places: a namespace name may not contain a reference, a tab or a line end; a
//! reference has at most twelve characters; a stream's root has an end tag of its own; a stream's
//! root declares at most 64 prefixes; an XML declaration has at most 128 bytes.

mod edit;
mod error;
mod frame;
mod framer;
mod header;
mod index;
mod limits;
mod name;
mod parse;
mod roots;

pub mod build;
pub mod escape;

pub use edit::Edit;
pub use error::Error;
pub use frame::{Child, Frame, FrameRef};
pub use framer::{Event, Framer, Step, element_end, parse_alone};
pub use header::StreamHeader;
pub use limits::Limits;
pub use parse::Scratch;

/// The default namespace of a client stream, which a frame without `xmlns` belongs to.
pub const NS_CONTENT: &str = "jabber:client";

#[cfg(test)]
mod tests;
