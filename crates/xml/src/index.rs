//! The index of a frame: where its names, attributes and children are. The parser fills one in its
//! scratch; a frame that travels has it packed behind its bytes, in the same allocation.

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

/// Bytes that are built up without an allocation as long as they are few.
pub(crate) type Buffer = SmallVec<[u8; 1024]>;

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

impl<'a> Packed<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Packed(bytes)
    }

    fn words<const N: usize>(self, at: usize) -> [u32; N] {
        let bytes = &self.0[at * WORD..][..N * WORD];
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(WORD)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        words
    }

    fn span(self, at: usize) -> Span {
        let [start, end] = self.words(at);
        Span { start, end }
    }

    fn ns(self, at: usize) -> Ns {
        match self.words(at) {
            [0, 0] => Ns::Content,
            [1, 0] => Ns::None,
            [2, 0] => Ns::Xml,
            [root, 0] => Ns::Root((root - 3) as u16),
            [start, end] => Ns::Here(Span { start, end }),
        }
    }

    fn word(self, at: usize) -> u32 {
        let [word] = self.words(at);
        word
    }
}

impl<'a> IndexRef<'a> {
    pub(crate) fn name(self) -> Span {
        match self {
            IndexRef::Fresh(index) => index.name,
            IndexRef::Packed(packed) => packed.span(0),
        }
    }

    pub(crate) fn ns(self) -> Ns {
        match self {
            IndexRef::Fresh(index) => index.ns,
            IndexRef::Packed(packed) => packed.ns(2),
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

    fn attrs_len(self) -> usize {
        match self {
            IndexRef::Fresh(index) => index.attrs.len(),
            IndexRef::Packed(packed) => packed.word(6) as usize,
        }
    }

    fn children_len(self) -> usize {
        match self {
            IndexRef::Fresh(index) => index.children.len(),
            IndexRef::Packed(packed) => packed.word(7) as usize,
        }
    }

    pub(crate) fn attrs(self) -> impl ExactSizeIterator<Item = Attr> + use<'a> {
        (0..self.attrs_len()).map(move |at| match self {
            IndexRef::Fresh(index) => index.attrs[at],
            IndexRef::Packed(packed) => {
                let at = HEAD + at * ATTR;
                Attr {
                    name: packed.span(at),
                    value: packed.span(at + 2),
                }
            }
        })
    }

    pub(crate) fn children(self) -> impl ExactSizeIterator<Item = ChildSpan> + use<'a> {
        let first = HEAD + self.attrs_len() * ATTR;
        (0..self.children_len()).map(move |at| match self {
            IndexRef::Fresh(index) => index.children[at],
            IndexRef::Packed(packed) => {
                let at = first + at * CHILD;
                ChildSpan {
                    name: packed.span(at),
                    ns: packed.ns(at + 2),
                    span: packed.span(at + 4),
                }
            }
        })
    }
}
