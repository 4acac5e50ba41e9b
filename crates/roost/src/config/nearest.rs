//! The nearest known word to a mistyped one. Owns when a suggestion is worth making.

/// Characters of a word beyond which nothing is suggested: no key is that long.
const WORD_MAX: usize = 64;

/// The candidate that `word` most likely stands for.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let length = word.chars().take(WORD_MAX + 1).count();
    if length == 0 || length > WORD_MAX {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    let scored = candidates.into_iter().map(|candidate| {
        let is_part = length > 3 && candidate.len() > 3 && shares_start(&word, candidate);
        let distance = strsim::osa_distance(&word, candidate);
        (
            if is_part { distance.min(2) } else { distance },
            distance,
            candidate,
        )
    });
    let (best, _, candidate) = scored.min()?;
    (best <= (length / 3).max(1)).then_some(candidate)
}

/// Whether one word is the beginning of the other: `listen` and `listen_addresses`.
fn shares_start(one: &str, other: &str) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions() {
        let keys = ["listen", "listen_tls", "require_tls", "proxies"];
        let cases = [
            ("lisen", Some("listen")),
            ("listne", Some("listen")),
            ("listen_ssl", Some("listen_tls")),
            ("require-tls", Some("require_tls")),
            ("REQUIRE_TLS", Some("require_tls")),
            ("listen_addresses", Some("listen")),
            ("colour", None),
            ("", None),
            ("x", None),
        ];
        for (word, expected) in cases {
            assert_eq!(nearest(word, keys), expected, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(10_000), keys), None);
    }
}
