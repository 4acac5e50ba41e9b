//! Addresses that were normalised at the edge, as plain text: splitting them costs no allocation.

/// The bare address and the resource.
pub(crate) fn split(jid: &str) -> (&str, Option<&str>) {
    match jid.split_once('/') {
        Some((bare, resource)) => (bare, Some(resource)),
        None => (jid, None),
    }
}

/// The bare address.
pub(crate) fn bare(jid: &str) -> &str {
    split(jid).0
}

/// The domain.
pub(crate) fn domain(jid: &str) -> &str {
    let bare = bare(jid);
    bare.split_once('@').map_or(bare, |(_, domain)| domain)
}

/// The local part, absent for a domain's own address.
pub(crate) fn local(jid: &str) -> Option<&str> {
    bare(jid).split_once('@').map(|(local, _)| local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_may_contain_the_separators() {
        assert_eq!(split("a@b/c/d@e"), ("a@b", Some("c/d@e")));
        assert_eq!(domain("a@b/c@d"), "b");
        assert_eq!(domain("b/c@d"), "b");
        assert_eq!(local("b/c@d"), None);
        assert_eq!(local("a@b"), Some("a"));
    }
}
