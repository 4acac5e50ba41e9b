//! A user's block list (XEP-0191) and what an address on it covers. Blocks nothing by itself: the
//! routing files ask it.

use crate::address;

/// The blocked addresses; 8 bytes while empty.
#[derive(Debug, Default)]
pub(crate) struct Blocklist(Option<Box<Vec<String>>>);

impl Blocklist {
    /// Takes what the store holds.
    pub(crate) fn new(blocked: Vec<String>) -> Self {
        Blocklist((!blocked.is_empty()).then(|| Box::new(blocked)))
    }

    /// Whether anybody is blocked at all.
    pub(crate) fn is_active(&self) -> bool {
        self.0.is_some()
    }

    /// The blocked addresses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .flat_map(|blocked| blocked.iter().map(String::as_str))
    }

    /// The number of blocked addresses.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |blocked| blocked.len())
    }

    /// Whether an entry covers `jid`: the full address, the bare address, the domain with the
    /// resource, or the domain (XEP-0191 section 3.1, the rules of XEP-0016 section 2.1).
    pub(crate) fn covers(&self, jid: &str) -> bool {
        let Some(blocked) = &self.0 else { return false };
        let (bare, resource) = address::split(jid);
        let domain = address::domain(bare);
        blocked.iter().any(|entry| {
            let (entry_bare, entry_resource) = address::split(entry);
            (entry_bare == bare || entry_bare == domain)
                && (entry_resource.is_none() || entry_resource == resource)
        })
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
}
