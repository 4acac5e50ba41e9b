//! The start tag of a stream's root as the framer hands it out. What it has to say is checked by
//! `xmpp::stream`.

use std::borrow::Cow;

use crate::frame::FrameRef;
use crate::index::{Index, IndexRef, Ns};

/// A stream header (RFC 6120 section 4.7).
#[derive(Clone, Copy)]
pub struct StreamHeader<'a> {
    tag: FrameRef<'a>,
}

impl<'a> StreamHeader<'a> {
    pub(crate) fn new(bytes: &'a [u8], index: &'a Index) -> Self {
        StreamHeader {
            tag: FrameRef {
                bytes,
                index: IndexRef::Fresh(index),
                roots: &[],
            },
        }
    }

    /// Local name; `stream` in XMPP.
    pub fn name(&self) -> &'a str {
        self.tag.name()
    }

    /// The prefix of the name, empty if none.
    pub fn prefix(&self) -> &'a str {
        let name = self.tag.index.name();
        let before = &self.tag.bytes[1..name.start as usize];
        std::str::from_utf8(before)
            .unwrap_or_default()
            .trim_end_matches(':')
    }

    /// Namespace of the name. Without a prefix it is the default namespace.
    pub fn ns(&self) -> &'a str {
        match self.tag.index.ns() {
            Ns::Content => "",
            _ => self.tag.ns(),
        }
    }

    /// The default namespace: the content namespace (RFC 6120 section 4.8.2). Empty if none.
    pub fn content_ns(&self) -> &'a str {
        self.tag.attr_raw("xmlns").unwrap_or_default()
    }

    /// The value of an attribute, its name as written.
    pub fn attr(&self, name: &str) -> Option<Cow<'a, str>> {
        self.tag.attr(name)
    }

    /// Every attribute, names as written, raw values.
    pub fn attrs(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.tag.attrs()
    }
}
