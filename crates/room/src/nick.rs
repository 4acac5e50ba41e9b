//! Nicks: their form, and when two of them are the same one (XEP-0045 section 17.1, RFC 8266).
//! Preparation is that of a resource in `xmpp::addr`; what is added is what RFC 8266 section 2.1
//! adds: no white space at the ends, single spaces inside, and comparison without regard to case.

use std::borrow::Cow;

use xmpp::addr;

/// The nick in the form in which the room shows it; `None` if nothing is left, if a character is
/// not allowed, or if it has more than `bytes_max` bytes.
pub(crate) fn prepare(nick: &str, bytes_max: usize) -> Option<Cow<'_, str>> {
    if nick.len() > addr_bytes(bytes_max) {
        return None;
    }
    let prepared = addr::prepare_resource(nick).ok()?;
    let words: Vec<&str> = prepared.as_str().split_whitespace().collect();
    let shown = words.join(" ");
    if shown.is_empty() || shown.len() > bytes_max {
        return None;
    }
    Some(if shown == nick {
        Cow::Borrowed(nick)
    } else {
        Cow::Owned(shown)
    })
}

/// What two spellings of a nick have in common, of a nick in the form of [`prepare`].
pub(crate) fn key(nick: &str) -> Cow<'_, str> {
    let is_key = |c: char| c.is_ascii() && !c.is_ascii_uppercase();
    if nick.chars().all(is_key) {
        Cow::Borrowed(nick)
    } else {
        Cow::Owned(nick.to_lowercase())
    }
}

/// Whether two nicks, as clients spell them, are the same one in a room.
pub fn is_same_nick(one: &str, other: &str) -> bool {
    let known = |nick: &str| prepare(nick, usize::MAX).map(|nick| key(&nick).into_owned());
    one == other || known(one).is_some_and(|one| known(other) == Some(one))
}

/// Preparation may shorten text, but not without limit: what is much too long is not prepared.
fn addr_bytes(bytes_max: usize) -> usize {
    bytes_max.saturating_mul(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_nick_are_the_same() {
        assert!(is_same_nick("Bo  b", "bO b"));
        assert!(!is_same_nick("Bob", "Rob"));
        assert!(!is_same_nick(" ", "Rob"));
    }

    #[test]
    fn white_space_is_trimmed_and_folded() {
        assert_eq!(prepare("third witch", 64).as_deref(), Some("third witch"));
        assert_eq!(
            prepare("  third \u{a0} witch ", 64).as_deref(),
            Some("third witch")
        );
        for empty in ["", " ", "\u{a0}\u{2003}"] {
            assert_eq!(prepare(empty, 64), None, "{empty:?}");
        }
    }

    #[test]
    fn what_cannot_be_shown_is_refused() {
        for bad in ["a\u{202e}b", "a\u{0}", "\u{fffe}"] {
            assert_eq!(prepare(bad, 64), None, "{bad:?}");
        }
        assert_eq!(prepare("ﬁsh", 64).as_deref(), Some("fish"));
        assert!(prepare(&"x".repeat(64), 64).is_some());
        assert!(prepare(&"x".repeat(65), 64).is_none());
        assert!(prepare(&"x".repeat(100_000), 64).is_none());
    }

    #[test]
    fn case_makes_no_difference() {
        assert_eq!(key("FirstWitch"), key("firstwitch"));
        assert_eq!(key("ΣΊΣΥΦΟΣ"), "σίσυφος");
        assert_ne!(
            key("a"),
            key("а"),
            "look-alikes are different, as in addresses"
        );
    }
}
