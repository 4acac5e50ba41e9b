//! What a comment says that it shows: `XEP-0045 sections 7.2.1 and 8.1 to 8.3; RFC 6121 section 3`.
//!
//! Numbers follow the document that they are of; documents are set apart by `;` or `,`. A
//! document without numbers is meant as a whole.

/// A document and the numbers of its sections that a comment names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation {
    /// `XEP-0045`, `RFC 6121` or `XML 1.0`.
    pub document: String,
    /// `7.2.1`, or `A.3.4` of an appendix; ranges are written out.
    pub sections: Vec<String>,
}

/// The comment at the head of a script, in one line.
#[must_use]
pub fn head(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix('#'));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The tests of a Rust file whose comment names a document: name and comment of each.
#[must_use]
pub fn tests(path: &str, text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if !path.ends_with(".rs") || path.starts_with("crates/xtask/") {
        return found;
    }
    let mut comment = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if let Some(said) = line.strip_prefix("///") {
            comment.push(said.trim());
        } else if line == "#[test]" {
            is_test = true;
        } else if !line.starts_with("#[") {
            let name = line
                .strip_prefix("fn ")
                .and_then(|rest| rest.split('(').next());
            let said = comment.join(" ");
            let is_citing = is_test && ["RFC ", "XEP-"].iter().any(|word| said.contains(word));
            if let Some(name) = name.filter(|_| is_citing) {
                found.push((name.to_owned(), said));
            }
            comment.clear();
            is_test = false;
        }
    }
    found
}

/// Finds what a comment names.
///
/// # Errors
/// Numbers without a document, a document with `section` and no number, a range that is none.
pub fn parse(comment: &str) -> Result<Vec<Citation>, String> {
    let words: Vec<Word> = comment.split_whitespace().map(Word::new).collect();
    let mut citations = Vec::new();
    let mut rest = words.as_slice();
    while let [first, behind @ ..] = rest {
        rest = behind;
        if is_heading(first) && behind.first().is_some_and(Word::is_number) {
            return Err(format!(
                "`{} {}` of which document?",
                first.text, behind[0].text
            ));
        }
        let Some((document, end, behind)) = document(first, behind) else {
            continue;
        };
        rest = behind;
        let mut sections = Vec::new();
        if end.is_empty() && rest.first().is_some_and(is_heading) {
            if rest[0].text != "appendix" {
                rest = &rest[1..];
            }
            (sections, rest) = list(rest)?;
            if sections.is_empty() {
                return Err(format!("which section of {document}?"));
            }
        }
        citations.push(Citation { document, sections });
    }
    Ok(citations)
}

/// A word, and the `,`, `;` or `.` right behind it.
struct Word<'a> {
    text: &'a str,
    end: &'a str,
}

impl<'a> Word<'a> {
    fn new(word: &'a str) -> Self {
        let text = word.trim_end_matches([',', ';', '.', ':', ')']);
        let text = text.trim_start_matches('(');
        let end = word.trim_start_matches('(').strip_prefix(text);
        Self {
            text,
            end: end.unwrap_or(""),
        }
    }

    /// `7`, `7.2.1` or, of an appendix, `A.3`.
    fn is_number(&self) -> bool {
        let mut parts = self.text.split('.');
        let first = parts.next().unwrap_or("");
        let is_letter = first.len() == 1 && first.as_bytes()[0].is_ascii_uppercase();
        let is_first = is_digits(first) || (is_letter && self.text.len() > 1);
        is_first && parts.all(is_digits)
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_heading(word: &Word) -> bool {
    matches!(word.text, "section" | "sections" | "appendix")
}

/// The document that begins here, what stands right behind it, and the words that follow.
fn document<'a, 'b>(
    first: &Word<'a>,
    behind: &'b [Word<'a>],
) -> Option<(String, &'a str, &'b [Word<'a>])> {
    if first.text.strip_prefix("XEP-").is_some_and(is_digits) {
        return Some((first.text.to_owned(), first.end, behind));
    }
    let (second, rest) = behind.split_first()?;
    let is_rfc = first.text == "RFC" && is_digits(second.text);
    let is_xml = first.text == "XML" && second.text == "1.0";
    let name = format!("{} {}", first.text, second.text);
    (is_rfc || is_xml).then_some((name, second.end, rest))
}

/// The numbers of a list and the words behind it.
fn list<'a, 'b>(mut rest: &'b [Word<'a>]) -> Result<(Vec<String>, &'b [Word<'a>]), String> {
    let mut sections: Vec<String> = Vec::new();
    let mut is_range = false;
    loop {
        let is_appendix = rest.first().is_some_and(|word| word.text == "appendix");
        let at = usize::from(is_appendix);
        let Some(word) = rest.get(at).filter(|word| is_appendix || word.is_number()) else {
            break;
        };
        let number = word.text.to_owned();
        match sections.last() {
            Some(from) if is_range => {
                let range = range(from, &number)?;
                sections.extend(range);
            }
            _ => sections.push(number),
        }
        let end = word.end;
        rest = &rest[at + 1..];
        let next = rest.first().map_or("", |word| word.text);
        is_range = next == "to";
        let joins = matches!(next, "and" | "to");
        match end {
            "" | "," if joins => rest = &rest[1..],
            "," => {}
            _ => break,
        }
    }
    if is_range {
        return Err(format!("`to` ends no range behind {sections:?}"));
    }
    Ok((sections, rest))
}

/// What follows the first one of a range, up to its last.
fn range(from: &str, to: &str) -> Result<Vec<String>, String> {
    let split = |number: &str| {
        let (above, last) = number.rsplit_once('.').map_or(("", number), |parts| parts);
        let last = last.parse::<u32>().ok();
        last.map(|last| (above.to_owned(), last))
    };
    match (split(from), split(to)) {
        (Some((above, first)), Some((same, last))) if above == same && first < last => {
            let dot = if above.is_empty() { "" } else { "." };
            Ok((first + 1..=last)
                .map(|last| format!("{above}{dot}{last}"))
                .collect())
        }
        _ => Err(format!("`{from} to {to}` is no range")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(comment: &str) -> Vec<(String, String)> {
        let citations = parse(comment).unwrap_or_else(|why| panic!("{comment}: {why}"));
        let flat = citations.into_iter();
        flat.map(|one| (one.document, one.sections.join(" ")))
            .collect()
    }

    #[test]
    fn every_form_that_is_in_use_is_read() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("A rule.", &[]),
            ("A rule. XEP-0045 section 7.4", &[("XEP-0045", "7.4")]),
            (
                "R. XEP-0313 section 5, XEP-0045 sections 7.2.5 and 7.10",
                &[("XEP-0313", "5"), ("XEP-0045", "7.2.5 7.10")],
            ),
            (
                "R. XEP-0060 sections 4.5, 6.1.4, 8.6 and 8.7",
                &[("XEP-0060", "4.5 6.1.4 8.6 8.7")],
            ),
            (
                "R. XEP-0060 sections 6.5.2 to 6.5.5, XEP-0059 sections 2.1 and 2.2",
                &[
                    ("XEP-0060", "6.5.2 6.5.3 6.5.4 6.5.5"),
                    ("XEP-0059", "2.1 2.2"),
                ],
            ),
            ("R. XEP-0198 sections 3 to 5", &[("XEP-0198", "3 4 5")]),
            (
                "R. XEP-0060 sections 5.1 and 5.2, XEP-0030, XEP-0199",
                &[("XEP-0060", "5.1 5.2"), ("XEP-0030", ""), ("XEP-0199", "")],
            ),
            ("R. XEP-0359 section 3.1 rule 7", &[("XEP-0359", "3.1")]),
            (
                "R. RFC 6121 sections 3.3.2, 3.3.3 and appendix A",
                &[("RFC 6121", "3.3.2 3.3.3 A")],
            ),
            ("R. RFC 6121 appendix A", &[("RFC 6121", "A")]),
            (
                "R. RFC 6121 sections 4.3.2 and A.3.4",
                &[("RFC 6121", "4.3.2 A.3.4")],
            ),
            (
                "R. XML 1.0 section 2.2; RFC 6120 section 4.9.3.13",
                &[("XML 1.0", "2.2"), ("RFC 6120", "4.9.3.13")],
            ),
            ("R. XEP-0054; docs/limits.md", &[("XEP-0054", "")]),
            (
                "RFC 7395 sections 3.3 to 3.5: what a message may be, and in which order.",
                &[("RFC 7395", "3.3 3.4 3.5")],
            ),
            (
                "With tls-exporter, which XEP-0440 announces. RFC 5802 section 6.",
                &[("XEP-0440", ""), ("RFC 5802", "6")],
            ),
        ];
        for (comment, expected) in cases {
            let found = found(comment);
            let found: Vec<_> = found
                .iter()
                .map(|(a, b)| (a.as_str(), b.as_str()))
                .collect();
            assert_eq!(found, *expected, "{comment}");
        }
    }

    #[test]
    fn what_means_nothing_is_an_error() {
        for comment in [
            "R. Section and section 7.4",
            "R. XEP-0045 section",
            "R. XEP-0045 section seven",
            "R. XEP-0045 sections 7.4 to 7.2",
            "R. XEP-0045 sections 7.4 to 8.5",
            "R. XEP-0045 sections 7.4 to the end",
            "R. XEP-0045 section 7.4; section 7.5",
        ] {
            assert!(parse(comment).is_err(), "{comment}");
        }
    }

    #[test]
    fn the_head_of_a_script_ends_at_the_first_other_line() {
        let text = "# A rule that\n# goes on.\n# XEP-0001 section 1\n\n# XEP-0002 section 2\n";
        assert_eq!(head(text), "A rule that goes on. XEP-0001 section 1");
        assert_eq!(head("[client] a\n# b\n"), "");
    }

    #[test]
    fn tests_are_found_with_their_comments() {
        let text = "/// Of a helper.\nfn a() {}\n\n/// XEP-0001\n/// section 1.\n#[test]\n\
            #[ignore]\nfn b() {}\n\n#[test]\nfn c() {}\n\n/// Section 3.\n#[test]\nfn d() {}\n";
        let expected = [("b".to_owned(), "XEP-0001 section 1.".to_owned())];
        assert_eq!(tests("crates/a/src/a.rs", text), expected);
        assert_eq!(tests("crates/xtask/src/a.rs", text), []);
        assert_eq!(tests("docs/a.md", text), []);
    }
}
