//! The nearest known word to a mistyped one. Owns the distance and when a suggestion is worth
//! making.

/// Characters of a word beyond which nothing is suggested: no key is that long.
const WORD_MAX: usize = 64;

/// The candidate that `word` most likely stands for.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().replace('-', "_").chars().collect();
    if word.is_empty() || word.len() > WORD_MAX {
        return None;
    }
    let scored = candidates.into_iter().map(|candidate| {
        let letters: Vec<char> = candidate.chars().collect();
        let is_part = letters.len() > 3 && word.len() > 3 && shares_start(&word, &letters);
        let distance = distance(&word, &letters);
        (
            if is_part { distance.min(2) } else { distance },
            distance,
            candidate,
        )
    });
    let (best, _, candidate) = scored.min()?;
    (best <= (word.len() / 3).max(1)).then_some(candidate)
}

/// Whether one word is the beginning of the other: `listen` and `listen_addresses`.
fn shares_start(one: &[char], other: &[char]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// Insertions, removals, replacements and swaps of neighbours (optimal string alignment).
fn distance(one: &[char], other: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let replaced = above[j] + usize::from(a != b);
            let mut best = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[other.len()]
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

    #[test]
    fn distances() {
        let letters = |text: &str| text.chars().collect::<Vec<_>>();
        for (one, other, expected) in [
            ("", "", 0),
            ("a", "", 1),
            ("ab", "ba", 1),
            ("kitten", "sitting", 3),
            ("ca", "abc", 3),
        ] {
            assert_eq!(
                distance(&letters(one), &letters(other)),
                expected,
                "{one} {other}"
            );
        }
    }
}
