//! What the rest of a stream needs of its header: the name that closes it and the prefixes that its
//! stanzas may use.

/// A prefix and its namespace, declared on the stream's root.
pub(crate) type RootDecl = (Box<str>, Box<str>);

/// Prefixes of a stream root that stanzas may use; the mask of used ones has a bit for each.
pub(crate) const ROOT_DECLS_MAX: usize = 64;

/// Clients of one kind send the same header, so that the streams of a shard share this: five
/// allocations less for each.
pub(crate) struct Roots {
    pub(crate) name: Box<str>,
    pub(crate) decls: Box<[RootDecl]>,
}

impl Roots {
    /// Whether a header says the same.
    pub(crate) fn is<'b>(
        &self,
        name: &str,
        mut decls: impl Iterator<Item = (&'b [u8], &'b [u8])>,
    ) -> bool {
        let mut known = self.decls.iter();
        let mut is_next = |(prefix, ns): (&[u8], &[u8])| {
            let next = known.next();
            next.is_some_and(|decl| decl.0.as_bytes() == prefix && decl.1.as_bytes() == ns)
        };
        *self.name == *name && decls.all(&mut is_next) && known.next().is_none()
    }
}
