//! Addresses that were normalised at the edge, as plain text: splitting them costs no allocation.

use memchr::memchr;

/// The bare address and the resource.
pub(crate) fn split(jid: &str) -> (&str, Option<&str>) {
    match memchr(b'/', jid.as_bytes()) {
        Some(at) => (&jid[..at], Some(&jid[at + 1..])),
        None => (jid, None),
    }
}

/// The bare address.
pub(crate) fn bare(jid: &str) -> &str {
    split(jid).0
}

/// Whether an address is `bare` or has it as its bare address. Asked of many in a row, it looks at
/// one byte of most of them.
pub(crate) fn belongs_to(jid: &str, bare: &str) -> bool {
    matches!(jid.as_bytes().get(bare.len()), None | Some(b'/')) && jid.starts_with(bare)
}

/// The local part, absent for a domain's own address, and the domain.
pub(crate) fn parts(jid: &str) -> (Option<&str>, &str) {
    let bare = bare(jid);
    match memchr(b'@', bare.as_bytes()) {
        Some(at) => (Some(&bare[..at]), &bare[at + 1..]),
        None => (None, bare),
    }
}

/// The domain.
pub(crate) fn domain(jid: &str) -> &str {
    parts(jid).1
}

/// The local part, absent for a domain's own address.
pub(crate) fn local(jid: &str) -> Option<&str> {
    parts(jid).0
}

/// The normalised address of a room, if it is at one of the hosts.
pub(crate) fn of_room(room: &str, hosts: &[String]) -> Option<String> {
    let room = xmpp::addr::normalize(room).ok()?;
    let domain = domain(&room);
    let is_room =
        local(&room).is_some() && !room.contains('/') && hosts.iter().any(|host| host == domain);
    is_room.then(|| room.into_owned())
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

    #[test]
    fn an_address_belongs_to_its_bare_one_alone() {
        for jid in ["a@b", "a@b/", "a@b/c", "a@b/c/d"] {
            assert!(belongs_to(jid, "a@b"), "{jid}");
        }
        for jid in ["a@", "a@bc", "a@bc/d", "c@b/c", "a@b.c/d", ""] {
            assert!(!belongs_to(jid, "a@b"), "{jid}");
        }
    }
}
