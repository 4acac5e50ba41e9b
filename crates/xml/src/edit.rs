//! Splices: a frame with some attributes or children changed. Everything else is copied as it is.

use smallvec::SmallVec;

use crate::escape;
use crate::frame::{Frame, FrameRef, qname_end, start_tag_end_of};
use crate::parse::{Attr, ChildSpan, Index, Ns, Span};

/// A change in the making.
pub struct Edit<'a> {
    frame: FrameRef<'a>,
    /// Name and new value, `None` to remove.
    attrs: SmallVec<[(String, Option<String>); 3]>,
    removed: SmallVec<[bool; 8]>,
    appended: Vec<u8>,
}

impl<'a> Edit<'a> {
    pub(crate) fn new(frame: FrameRef<'a>) -> Self {
        Edit {
            frame,
            attrs: SmallVec::new(),
            removed: SmallVec::new(),
            appended: Vec::new(),
        }
    }

    /// Replaces the value of an attribute, or adds it.
    #[must_use]
    pub fn set_attr(mut self, name: &str, value: &str) -> Self {
        self.attrs.push((name.to_owned(), Some(value.to_owned())));
        self
    }

    /// Removes an attribute.
    #[must_use]
    pub fn remove_attr(mut self, name: &str) -> Self {
        self.attrs.push((name.to_owned(), None));
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

    fn change_of(&self, name: &[u8]) -> Option<&Option<String>> {
        let mut changes = self.attrs.iter().rev();
        changes
            .find(|(changed, _)| changed.as_bytes() == name)
            .map(|(_, value)| value)
    }

    /// Writes the start tag up to the last attribute and returns where the attributes are now.
    fn write_head(&self, out: &mut Vec<u8>, mut written: impl FnMut(Option<usize>, Span, Span)) {
        let FrameRef { bytes, index, .. } = self.frame;
        let base = out.len();
        let at = |out: &Vec<u8>| (out.len() - base) as u32;
        out.extend_from_slice(&bytes[..qname_end(bytes, index.name)]);
        for (old, attr) in index.attrs.iter().enumerate() {
            let name = attr.name.of(bytes);
            let change = self.change_of(name);
            if matches!(change, Some(None)) {
                continue;
            }
            out.push(b' ');
            let name_at = at(out);
            out.extend_from_slice(name);
            out.push(b'=');
            // The value's own quotes stay: it may contain the other kind.
            let quote = bytes[attr.value.end as usize];
            let quote = if change.is_some() { b'\'' } else { quote };
            out.push(quote);
            let value_at = at(out);
            match change {
                Some(Some(value)) => escape::attr(out, value),
                _ => out.extend_from_slice(attr.value.of(bytes)),
            }
            let value = Span {
                start: value_at,
                end: at(out),
            };
            out.push(quote);
            written(
                Some(old),
                Span {
                    start: name_at,
                    end: name_at + name.len() as u32,
                },
                value,
            );
        }
        for (at_change, (name, value)) in self.attrs.iter().enumerate() {
            let known = index
                .attrs
                .iter()
                .any(|attr| attr.name.of(bytes) == name.as_bytes());
            let later = self.attrs[at_change + 1..]
                .iter()
                .any(|(other, _)| other == name);
            let (Some(value), false, false) = (value, known, later) else {
                continue;
            };
            out.push(b' ');
            let name_at = at(out);
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"='");
            let value_at = at(out);
            escape::attr(out, value);
            let value = Span {
                start: value_at,
                end: at(out),
            };
            out.push(b'\'');
            written(
                None,
                Span {
                    start: name_at,
                    end: name_at + name.len() as u32,
                },
                value,
            );
        }
    }

    /// Declares the prefixes that the element has from the stream's root, which it leaves.
    fn write_roots(&self, out: &mut Vec<u8>) {
        let FrameRef { index, roots, .. } = self.frame;
        for (at, (prefix, ns)) in roots.iter().enumerate() {
            if index.root_prefixes & (1 << at) != 0 {
                // As it was written there: a value has no quotes of its own kind and no references.
                let quote = if ns.contains('\'') { '"' } else { '\'' };
                out.extend_from_slice(format!(" xmlns:{prefix}={quote}{ns}{quote}").as_bytes());
            }
        }
    }

    /// Appends the changed element to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let FrameRef { bytes, index, .. } = self.frame;
        out.reserve(bytes.len() + 64 + self.appended.len());
        self.write_head(out, |_, _, _| {});
        self.write_roots(out);
        let rest = index.attrs_end as usize;
        if self.removed.is_empty() && self.appended.is_empty() {
            return out.extend_from_slice(&bytes[rest..]);
        }
        let body = start_tag_end_of(index, bytes);
        let is_empty = body == bytes.len();
        if is_empty {
            out.push(b'>');
        } else {
            out.extend_from_slice(&bytes[rest..body]);
        }
        let end = if is_empty { body } else { end_tag_start(bytes) };
        let mut from = body;
        for (child, _) in index
            .children
            .iter()
            .zip(&self.removed)
            .filter(|(_, removed)| **removed)
        {
            out.extend_from_slice(&bytes[from..child.span.start as usize]);
            from = child.span.end as usize;
        }
        out.extend_from_slice(&bytes[from..end]);
        out.extend_from_slice(&self.appended);
        if is_empty {
            out.extend_from_slice(b"</");
            out.extend_from_slice(&bytes[1..qname_end(bytes, index.name)]);
            out.push(b'>');
        } else {
            out.extend_from_slice(&bytes[end..]);
        }
    }

    /// The changed element as a frame of its own.
    pub fn finish(self) -> Frame {
        let mut bytes = Vec::new();
        if !self.removed.is_empty()
            || !self.appended.is_empty()
            || self.frame.index.root_prefixes != 0
        {
            self.write(&mut bytes);
            // Invariant: splices of well-formed parts; callers append well-formed content.
            return Frame::parse(bytes).expect("a spliced element parses");
        }
        let index = self.write_indexed(&mut bytes);
        Frame::from_parts(bytes, index)
    }

    /// Writes a change of attributes only and carries the index over instead of parsing again.
    fn write_indexed(&self, out: &mut Vec<u8>) -> Index {
        let FrameRef {
            bytes, index: old, ..
        } = self.frame;
        out.reserve(bytes.len() + 64);
        let mut attrs = Vec::with_capacity(old.attrs.len() + self.attrs.len());
        let mut moved: SmallVec<[(Span, Span); 8]> = SmallVec::new();
        self.write_head(out, |source, name, value| {
            attrs.push(Attr { name, value });
            if let Some(source) = source {
                moved.push((old.attrs[source].value, value));
            }
        });
        let attrs_end = out.len() as u32;
        out.extend_from_slice(&bytes[old.attrs_end as usize..]);
        let shift = i64::from(attrs_end) - i64::from(old.attrs_end);
        let ns = |ns: Ns| match ns {
            Ns::Here(span) if span.start >= old.attrs_end => Ns::Here(span.shifted(shift)),
            Ns::Here(span) => {
                let found = moved.iter().find(|(from, _)| *from == span);
                found.map_or(Ns::Content, |(_, to)| Ns::Here(*to))
            }
            other => other,
        };
        let children = old.children.iter().map(|child| ChildSpan {
            name: child.name.shifted(shift),
            ns: ns(child.ns),
            span: child.span.shifted(shift),
        });
        Index {
            name: old.name,
            ns: ns(old.ns),
            attrs,
            children: children.collect(),
            attrs_end,
            root_prefixes: 0,
            has_text: old.has_text,
        }
    }
}

fn end_tag_start(bytes: &[u8]) -> usize {
    // Invariant: an element with content ends with an end tag.
    memchr::memmem::rfind(bytes, b"</").expect("an end tag")
}
