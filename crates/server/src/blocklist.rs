//! A user's block list (XEP-0191) and what an address on it covers. Blocks nothing by itself: the
//! routing files ask it.

use crate::address;

/// The blocked addresses; 8 bytes while empty.
#[derive(Debug, Default)]
pub(crate) struct Blocklist(Option<Box<Listed>>);

#[derive(Debug)]
struct Listed {
    /// In the order in which they were blocked.
    blocked: Vec<String>,
    /// Their places, in the order of the addresses: every stanza asks.
    sorted: Vec<u32>,
}

impl Listed {
    /// Whether an address is on the list that has these parts one behind the other.
    fn has<const N: usize>(&self, parts: [&str; N]) -> bool {
        let wanted = || parts.iter().flat_map(|part| part.bytes());
        let place = self.sorted.binary_search_by(|place| {
            let entry = &self.blocked[*place as usize];
            entry.bytes().cmp(wanted())
        });
        place.is_ok()
    }
}

impl Blocklist {
    /// Takes what the store holds.
    pub(crate) fn new(blocked: Vec<String>) -> Self {
        if blocked.is_empty() {
            return Blocklist::default();
        }
        let mut sorted: Vec<u32> = (0..blocked.len() as u32).collect();
        sorted.sort_unstable_by(|one, other| blocked[*one as usize].cmp(&blocked[*other as usize]));
        Blocklist(Some(Box::new(Listed { blocked, sorted })))
    }

    /// Whether anybody is blocked at all.
    pub(crate) fn is_active(&self) -> bool {
        self.0.is_some()
    }

    /// The blocked addresses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        let listed = self.0.iter().flat_map(|listed| &listed.blocked);
        listed.map(String::as_str)
    }

    /// The number of blocked addresses.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |listed| listed.blocked.len())
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.iter().map(str::len).sum()
    }

    /// Whether an address is on the list itself.
    pub(crate) fn has(&self, jid: &str) -> bool {
        self.0.as_ref().is_some_and(|listed| listed.has([jid]))
    }

    /// Whether an entry covers `jid`: the full address, the bare address, the domain with the
    /// resource, or the domain (XEP-0191 section 3.1, the rules of XEP-0016 section 2.1).
    pub(crate) fn covers(&self, jid: &str) -> bool {
        let Some(listed) = &self.0 else { return false };
        let (bare, resource) = address::split(jid);
        let domain = address::domain(bare);
        let of_resource =
            |resource| listed.has([bare, "/", resource]) || listed.has([domain, "/", resource]);
        listed.has([bare]) || listed.has([domain]) || resource.is_some_and(of_resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_covers_what_the_specification_says() {
        let covers = |entry: &str, jid: &str| Blocklist::new(vec![entry.into()]).covers(jid);
        assert!(covers("a@b/c", "a@b/c"));
        assert!(!covers("a@b/c", "a@b/d"));
        assert!(!covers("a@b/c", "a@b"));
        assert!(covers("a@b", "a@b/c"));
        assert!(covers("a@b", "a@b"));
        assert!(covers("b", "a@b/c"));
        assert!(covers("b/c", "b/c"));
        assert!(!covers("b", "a@x"));
        assert!(!covers("x@b", "a@b"));
    }

    #[test]
    fn an_empty_list_covers_nobody() {
        assert!(!Blocklist::default().covers("a@b"));
        assert!(!Blocklist::new(Vec::new()).is_active());
    }

    #[test]
    fn what_is_covered_does_not_depend_on_the_order_of_the_list() {
        let entries = ["z@b", "a@b/x", "b!/q", "b/c", "a@b!", "m@n"];
        let list = Blocklist::new(entries.map(str::to_owned).to_vec());
        assert!(list.iter().eq(entries), "as it was blocked");
        for jid in ["z@b", "z@b/r", "a@b/x", "b/c", "k@b/c", "m@n/o"] {
            assert!(list.covers(jid), "{jid}");
        }
        for jid in ["a@b", "a@b/y", "b", "b/d", "z@bb", "zz@b/r", "m@n.o"] {
            assert!(!list.covers(jid), "{jid}");
        }
        assert!(list.has("b/c") && !list.has("b"));
    }
}
