//! Bounds of what a peer may send. Each costs the reader at most what it names, once per shard: the
//! framer keeps nothing of a complete element.

/// The bounds of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one top-level element, or of the stream header.
    pub stanza_bytes: u32,
    /// Nested elements, the top-level one included.
    pub depth: u16,
    /// Attributes of one element, namespace declarations included.
    pub attributes: u16,
    /// Children of a top-level element.
    pub children: u16,
    /// Prefixes that are declared at one place inside a top-level element. Each use of a prefix is
    /// looked up among them, so the bound keeps the time of an element linear in its bytes.
    pub prefixes: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            stanza_bytes: 262_144,
            depth: 64,
            attributes: 64,
            children: 1_024,
            prefixes: 64,
        }
    }
}
