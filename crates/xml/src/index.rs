//! The index of a frame: where its names, attributes and children are. The parser fills one in its
//! scratch; a frame that travels has it packed behind its bytes, in the same allocation.

use std::ops::Deref;
use std::slice;

use smallvec::SmallVec;

/// A range of bytes of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }

    pub(crate) fn shifted(self, by: i64) -> Span {
        let shift = |at: u32| (i64::from(at) + by) as u32;
        Span {
            start: shift(self.start),
            end: shift(self.end),
        }
    }
}

/// Where a namespace name stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ns {
    /// The default namespace of the stream: the content namespace.
    #[default]
    Content,
    /// No namespace: `xmlns=''`.
    None,
    /// `xml:`
    Xml,
    /// Declared in the input.
    Here(Span),
    /// Declared on the stream's root: index into its declarations.
    Root(u16),
}

/// An attribute of the top-level element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attr {
    pub(crate) name: Span,
    pub(crate) value: Span,
}

/// A child of the top-level element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChildSpan {
    pub(crate) name: Span,
    pub(crate) ns: Ns,
    pub(crate) span: Span,
}

/// What is remembered of a top-level element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) name: Span,
    pub(crate) ns: Ns,
    pub(crate) attrs: SmallVec<[Attr; 8]>,
    pub(crate) children: SmallVec<[ChildSpan; 4]>,
    /// Behind the last attribute of the start tag.
    pub(crate) attrs_end: u32,
    /// Prefixes of the stream's root that the element uses, a bit each.
    pub(crate) root_prefixes: u64,
    /// Whether text other than white space stands directly in it.
    pub(crate) has_text: bool,
}

/// An index, wherever it is.
#[derive(Clone, Copy)]
pub(crate) enum IndexRef<'a> {
    Fresh(&'a Index),
    Packed(Packed<'a>),
}

/// Words of four bytes: [`HEAD`] of them, four for each attribute, six for each child. No prefix of
/// a stream's root is used: a frame of its own declares what it uses.
#[derive(Clone, Copy)]
pub(crate) struct Packed<'a>(&'a [u8]);

const WORD: usize = size_of::<u32>();
/// Name, namespace, end of the attributes, text, and how many attributes and children there are.
const HEAD: usize = 8;
const ATTR: usize = 4;
const CHILD: usize = 6;

/// Bytes that most frames do not exceed, their index included.
const INLINE_BYTES: usize = 512;

/// Bytes that are built up without an allocation as long as they are few. Appending to it is on the
/// path of every message: a copy, and nothing else.
pub(crate) struct Buffer {
    inline: [u8; INLINE_BYTES],
    length: usize,
    /// All of them, once they are many.
    spilled: Vec<u8>,
}

impl Buffer {
    pub(crate) fn new() -> Self {
        Buffer::from(Vec::new())
    }

    #[inline]
    pub(crate) fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if self.spilled.is_empty()
            && let Some(free) = self.inline.get_mut(self.length..end)
        {
            free.copy_from_slice(bytes);
            self.length = end;
        } else {
            self.spill(bytes);
        }
    }

    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        if self.spilled.is_empty() {
            self.spilled.reserve(2 * INLINE_BYTES + bytes.len());
            self.spilled.extend_from_slice(&self.inline[..self.length]);
        }
        self.spilled.extend_from_slice(bytes);
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(spilled: Vec<u8>) -> Self {
        Buffer {
            inline: [0; INLINE_BYTES],
            length: 0,
            spilled,
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self.spilled.is_empty() {
            true => &self.inline[..self.length],
            false => &self.spilled,
        }
    }
}

/// Appends the packed index.
pub(crate) fn pack(index: &Index, out: &mut Buffer) {
    let (ns_start, ns_end) = ns_words(index.ns);
    let head = [
        index.name.start,
        index.name.end,
        ns_start,
        ns_end,
        index.attrs_end,
        u32::from(index.has_text),
        index.attrs.len() as u32,
        index.children.len() as u32,
    ];
    put::<HEAD, { HEAD * WORD }>(out, head);
    for Attr { name, value } in &index.attrs {
        let words = [name.start, name.end, value.start, value.end];
        put::<ATTR, { ATTR * WORD }>(out, words);
    }
    for ChildSpan { name, ns, span } in &index.children {
        let (ns_start, ns_end) = ns_words(*ns);
        let words = [name.start, name.end, ns_start, ns_end, span.start, span.end];
        put::<CHILD, { CHILD * WORD }>(out, words);
    }
}

/// One append for a group of words.
fn put<const WORDS: usize, const BYTES: usize>(out: &mut Buffer, words: [u32; WORDS]) {
    let mut bytes = [0; BYTES];
    for (bytes, word) in bytes.chunks_exact_mut(WORD).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&bytes);
}

/// A namespace name ends behind the start of the input, which leaves the end 0 for the others.
fn ns_words(ns: Ns) -> (u32, u32) {
    match ns {
        Ns::Content => (0, 0),
        Ns::None => (1, 0),
        Ns::Xml => (2, 0),
        Ns::Root(at) => (3 + u32::from(at), 0),
        Ns::Here(span) => (span.start, span.end),
    }
}

/// The words of a group.
fn words<const WORDS: usize, const BYTES: usize>(bytes: &[u8; BYTES]) -> [u32; WORDS] {
    let (groups, _) = bytes.as_chunks();
    std::array::from_fn(|at| u32::from_le_bytes(groups[at]))
}

fn ns_of(words: [u32; 2]) -> Ns {
    match words {
        [0, 0] => Ns::Content,
        [1, 0] => Ns::None,
        [2, 0] => Ns::Xml,
        [root, 0] => Ns::Root((root - 3) as u16),
        [start, end] => Ns::Here(Span { start, end }),
    }
}

fn attr_of(bytes: &[u8; ATTR * WORD]) -> Attr {
    let [name_start, name_end, value_start, value_end] = words(bytes);
    Attr {
        name: Span {
            start: name_start,
            end: name_end,
        },
        value: Span {
            start: value_start,
            end: value_end,
        },
    }
}

fn child_of(bytes: &[u8; CHILD * WORD]) -> ChildSpan {
    let [name_start, name_end, ns_start, ns_end, start, end] = words(bytes);
    ChildSpan {
        name: Span {
            start: name_start,
            end: name_end,
        },
        ns: ns_of([ns_start, ns_end]),
        span: Span { start, end },
    }
}

impl<'a> Packed<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Packed(bytes)
    }

    fn word(self, at: usize) -> u32 {
        let (groups, _) = self.0.as_chunks();
        u32::from_le_bytes(groups[at])
    }

    fn attrs(self) -> &'a [[u8; ATTR * WORD]] {
        let (groups, _) = self.0[HEAD * WORD..].as_chunks();
        &groups[..self.word(6) as usize]
    }

    fn children(self) -> &'a [[u8; CHILD * WORD]] {
        let first = (HEAD + self.word(6) as usize * ATTR) * WORD;
        let (groups, _) = self.0[first..].as_chunks();
        &groups[..self.word(7) as usize]
    }
}

impl<'a> IndexRef<'a> {
    pub(crate) fn name(self) -> Span {
        match self {
            IndexRef::Fresh(index) => index.name,
            IndexRef::Packed(packed) => Span {
                start: packed.word(0),
                end: packed.word(1),
            },
        }
    }

    pub(crate) fn ns(self) -> Ns {
        match self {
            IndexRef::Fresh(index) => index.ns,
            IndexRef::Packed(packed) => ns_of([packed.word(2), packed.word(3)]),
        }
    }

    pub(crate) fn attrs_end(self) -> u32 {
        match self {
            IndexRef::Fresh(index) => index.attrs_end,
            IndexRef::Packed(packed) => packed.word(4),
        }
    }

    pub(crate) fn has_text(self) -> bool {
        match self {
            IndexRef::Fresh(index) => index.has_text,
            IndexRef::Packed(packed) => packed.word(5) != 0,
        }
    }

    pub(crate) fn root_prefixes(self) -> u64 {
        match self {
            IndexRef::Fresh(index) => index.root_prefixes,
            IndexRef::Packed(_) => 0,
        }
    }

    pub(crate) fn attrs(self) -> Attrs<'a> {
        match self {
            IndexRef::Fresh(index) => Attrs::Fresh(index.attrs.iter()),
            IndexRef::Packed(packed) => Attrs::Packed(packed.attrs().iter()),
        }
    }

    pub(crate) fn children(self) -> Children<'a> {
        match self {
            IndexRef::Fresh(index) => Children::Fresh(index.children.iter()),
            IndexRef::Packed(packed) => Children::Packed(packed.children().iter()),
        }
    }
}

/// Attributes, wherever their index is.
pub(crate) enum Attrs<'a> {
    Fresh(slice::Iter<'a, Attr>),
    Packed(slice::Iter<'a, [u8; ATTR * WORD]>),
}

impl Iterator for Attrs<'_> {
    type Item = Attr;

    #[inline]
    fn next(&mut self) -> Option<Attr> {
        match self {
            Attrs::Fresh(attrs) => attrs.next().copied(),
            Attrs::Packed(attrs) => attrs.next().map(attr_of),
        }
    }
}

/// Children, wherever their index is.
pub(crate) enum Children<'a> {
    Fresh(slice::Iter<'a, ChildSpan>),
    Packed(slice::Iter<'a, [u8; CHILD * WORD]>),
}

impl Iterator for Children<'_> {
    type Item = ChildSpan;

    #[inline]
    fn next(&mut self) -> Option<ChildSpan> {
        match self {
            Children::Fresh(children) => children.next().copied(),
            Children::Packed(children) => children.next().map(child_of),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Children::Fresh(children) => children.size_hint(),
            Children::Packed(children) => children.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_has_all_that_was_appended_on_both_sides_of_its_inline_room() {
        for piece in [1, 7, 100, INLINE_BYTES - 1, INLINE_BYTES, INLINE_BYTES + 1] {
            let mut buffer = Buffer::new();
            let mut expected = Vec::new();
            for nth in 0..=2 * INLINE_BYTES / piece + 1 {
                let bytes = vec![nth as u8; piece];
                buffer.extend_from_slice(&bytes);
                expected.extend_from_slice(&bytes);
                assert_eq!(buffer[..], expected[..], "{nth} pieces of {piece}");
            }
        }
        let mut begun = Buffer::from(b"<a/>".to_vec());
        begun.extend_from_slice(b"index");
        assert_eq!(&begun[..], b"<a/>index");
    }
}
