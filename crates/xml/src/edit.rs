//! Splices: a frame with some attributes or children changed. Everything else is copied as it is.

use smallvec::SmallVec;

use crate::escape;
use crate::frame::{Frame, FrameRef, qname_end, start_tag_end_of};
use crate::index::{Attr, Buffer, ChildSpan, Index, Ns, Span};

/// A change in the making.
pub struct Edit<'a> {
    frame: FrameRef<'a>,
    changes: SmallVec<[Change<'a>; 3]>,
    removed: SmallVec<[bool; 8]>,
    appended: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Change<'a> {
    name: &'a str,
    /// `None` to remove.
    value: Option<&'a str>,
}

/// What an edit is written to.
trait Sink {
    fn put(&mut self, bytes: &[u8]);
    fn at(&self) -> usize;
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn at(&self) -> usize {
        self.len()
    }
}

impl Sink for Buffer {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn at(&self) -> usize {
        self.len()
    }
}

impl<'a> Edit<'a> {
    pub(crate) fn new(frame: FrameRef<'a>) -> Self {
        Edit {
            frame,
            changes: SmallVec::new(),
            removed: SmallVec::new(),
            appended: Vec::new(),
        }
    }

    /// Replaces the value of an attribute, or adds it.
    #[must_use]
    pub fn set_attr(mut self, name: &'a str, value: &'a str) -> Self {
        let value = Some(value);
        self.changes.push(Change { name, value });
        self
    }

    /// Removes an attribute.
    #[must_use]
    pub fn remove_attr(mut self, name: &'a str) -> Self {
        self.changes.push(Change { name, value: None });
        self
    }

    /// Removes the direct children that `remove` names.
    #[must_use]
    pub fn remove_children(mut self, remove: impl Fn(&crate::Child<'_>) -> bool) -> Self {
        self.removed = self.frame.children().map(|child| remove(&child)).collect();
        self
    }

    /// Adds well-formed content behind the last child.
    #[must_use]
    pub fn append_child(mut self, content: &[u8]) -> Self {
        self.appended.extend_from_slice(content);
        self
    }

    /// The same with content that nobody else needs, which is not copied if it is the only one.
    #[must_use]
    pub fn append_owned(mut self, content: Vec<u8>) -> Self {
        match self.appended.is_empty() {
            true => self.appended = content,
            false => self.appended.extend_from_slice(&content),
        }
        self
    }

    /// Which change of an attribute counts: the last one.
    fn change_of(&self, name: &[u8]) -> Option<usize> {
        let is_it = |change: &Change<'_>| change.name.as_bytes() == name;
        self.changes.iter().rposition(is_it)
    }

    /// Writes the start tag up to the last attribute and tells where the attributes are now, and
    /// where the value of each was before. What does not change is copied in one piece.
    fn write_head(&self, out: &mut impl Sink, mut written: impl FnMut(Option<Span>, Attr)) {
        let FrameRef { bytes, index, .. } = self.frame;
        let base = out.at();
        let at = |out: &_| (Sink::at(out) - base) as u32;
        let mut copied = 0;
        // Changes of attributes that are there.
        let mut is_done: SmallVec<[bool; 8]> = SmallVec::from_elem(false, self.changes.len());
        for attr in index.attrs() {
            let shift = i64::from(at(out)) - copied as i64;
            let Some(nth) = self.change_of(attr.name.of(bytes)) else {
                let now = Attr {
                    name: attr.name.shifted(shift),
                    value: attr.value.shifted(shift),
                };
                written(Some(attr.value), now);
                continue;
            };
            is_done[nth] = true;
            let (start, end) = (attr.name.start as usize, attr.value.end as usize + 1);
            if let Some(value) = self.changes[nth].value {
                out.put(&bytes[copied..attr.value.start as usize - 1]);
                let value = write_value(out, value, base);
                let name = attr.name.shifted(shift);
                written(Some(attr.value), Attr { name, value });
            } else {
                out.put(bytes[copied..start].trim_ascii_end());
            }
            copied = end;
        }
        out.put(&bytes[copied..index.attrs_end() as usize]);
        for (nth, change) in self.changes.iter().enumerate() {
            let is_last = self.change_of(change.name.as_bytes()) == Some(nth);
            if let (Some(value), true) = (change.value, is_last && !is_done[nth]) {
                out.put(b" ");
                let start = at(out);
                out.put(change.name.as_bytes());
                let end = at(out);
                out.put(b"=");
                let value = write_value(out, value, base);
                let name = Span { start, end };
                written(None, Attr { name, value });
            }
        }
    }

    /// Declares the prefixes that the element has from the stream's root, which it leaves.
    fn write_roots(&self, out: &mut impl Sink) {
        let FrameRef { index, roots, .. } = self.frame;
        for (at, (prefix, ns)) in roots.iter().enumerate() {
            if index.root_prefixes() & (1 << at) != 0 {
                // As it was written there: a value has no quotes of its own kind and no references.
                let quote = if ns.contains('\'') { "\"" } else { "'" };
                for part in [" xmlns:", prefix, "=", quote, ns, quote] {
                    out.put(part.as_bytes());
                }
            }
        }
    }

    /// Appends the changed element to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.frame.bytes.len() + 64 + self.appended.len());
        self.write_to(out);
    }

    fn write_to(&self, out: &mut impl Sink) {
        let FrameRef { bytes, index, .. } = self.frame;
        self.write_head(out, |_, _| {});
        self.write_roots(out);
        let rest = index.attrs_end() as usize;
        if self.removed.is_empty() && self.appended.is_empty() {
            return out.put(&bytes[rest..]);
        }
        let body = start_tag_end_of(index, bytes);
        let is_empty = body == bytes.len();
        if is_empty {
            out.put(b">");
        } else {
            out.put(&bytes[rest..body]);
        }
        let end = if is_empty { body } else { end_tag_start(bytes) };
        let mut from = body;
        for (child, is_removed) in index.children().zip(&self.removed) {
            if *is_removed {
                out.put(&bytes[from..child.span.start as usize]);
                from = child.span.end as usize;
            }
        }
        out.put(&bytes[from..end]);
        out.put(&self.appended);
        if is_empty {
            out.put(b"</");
            out.put(&bytes[1..qname_end(bytes, index.name())]);
            out.put(b">");
        } else {
            out.put(&bytes[end..]);
        }
    }

    /// The changed element as a frame of its own.
    pub fn finish(self) -> Frame {
        let mut bytes = Buffer::new();
        if !self.removed.is_empty()
            || !self.appended.is_empty()
            || self.frame.index.root_prefixes() != 0
        {
            self.write_to(&mut bytes);
            // Invariant: splices of well-formed parts; callers append well-formed content.
            return Frame::parse_bytes(&mut bytes).expect("a spliced element parses");
        }
        let index = self.write_indexed(&mut bytes);
        Frame::from_parts(&mut bytes, &index)
    }

    /// Writes a change of attributes only and carries the index over instead of parsing again.
    fn write_indexed(&self, out: &mut Buffer) -> Index {
        let FrameRef {
            bytes, index: old, ..
        } = self.frame;
        let mut index = Index {
            name: old.name(),
            has_text: old.has_text(),
            ..Index::default()
        };
        let mut moved: SmallVec<[(Span, Span); 8]> = SmallVec::new();
        self.write_head(out, |source, attr| {
            index.attrs.push(attr);
            moved.extend(source.map(|source| (source, attr.value)));
        });
        index.attrs_end = out.len() as u32;
        out.extend_from_slice(&bytes[old.attrs_end() as usize..]);
        let shift = i64::from(index.attrs_end) - i64::from(old.attrs_end());
        let ns = |ns: Ns| match ns {
            Ns::Here(span) if span.start >= old.attrs_end() => Ns::Here(span.shifted(shift)),
            Ns::Here(span) => {
                let found = moved.iter().find(|(from, _)| *from == span);
                found.map_or(Ns::Content, |(_, to)| Ns::Here(*to))
            }
            other => other,
        };
        index.ns = ns(old.ns());
        index.children = old
            .children()
            .map(|child| ChildSpan {
                name: child.name.shifted(shift),
                ns: ns(child.ns),
                span: child.span.shifted(shift),
            })
            .collect();
        index
    }
}

/// Writes a new value in its quotes and returns where it is.
fn write_value(out: &mut impl Sink, value: &str, base: usize) -> Span {
    out.put(b"'");
    let start = (out.at() - base) as u32;
    escape::attr_with(value.as_bytes(), |bytes| out.put(bytes));
    let end = (out.at() - base) as u32;
    out.put(b"'");
    Span { start, end }
}

fn end_tag_start(bytes: &[u8]) -> usize {
    // Invariant: an element with content ends with an end tag, in which there is no other `<`.
    memchr::memrchr(b'<', bytes).expect("an end tag")
}
