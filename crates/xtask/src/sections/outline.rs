//! The sections of a specification: numbers and titles, in their order, from a file of
//! `crates/xtask/sections/`. It has no text of any section.
//!
//! ```text
//! XEP-0999 Title (version)
//! 1 ~ Introduction
//! 2.1 A section with rules
//! 2.2 - A section of an option | why it is not implemented
//! 2.3 x A section for others | why it does not apply
//! ```
//!
//! A mark holds for the sections below it too. `~`: nothing that a server has to do. Appendices
//! follow as `A`, `A.1` and so on.

/// The files, in the order of the document.
const FILES: [&str; 8] = [
    include_str!("../../sections/rfc-6121.txt"),
    include_str!("../../sections/rfc-7395.txt"),
    include_str!("../../sections/xep-0045.txt"),
    include_str!("../../sections/xep-0060.txt"),
    include_str!("../../sections/xep-0124.txt"),
    include_str!("../../sections/xep-0163.txt"),
    include_str!("../../sections/xep-0198.txt"),
    include_str!("../../sections/xep-0206.txt"),
];

/// What is said of a section beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It has rules for servers.
    Normative,
    /// `~`: it has none.
    Informative,
    /// `-`: an option that the server does not implement, and why. No script shows it.
    Absent(String),
    /// `x`: it has rules for servers of another kind, and why this one is none.
    Apart(String),
}

/// One section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// `7.2.1`.
    pub number: String,
    /// Its title.
    pub title: String,
    /// Its own mark; [`Outline::mark`] knows of those above it.
    own: Mark,
}

/// A specification and its sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// `XEP-0045` or `RFC 7395`.
    pub document: String,
    /// Its title, and the version whose numbers these are.
    pub title: String,
    sections: Vec<Section>,
}

/// Every specification whose sections are listed.
///
/// # Panics
/// A file is not of the form above: the tests of this crate fail first.
#[must_use]
pub fn all() -> Vec<Outline> {
    let parsed = FILES.iter().map(|text| Outline::parse(text));
    // Invariant: a test parses every file, which is part of this crate.
    parsed.map(|one| one.expect("the file is well")).collect()
}

impl Outline {
    /// Reads a file.
    ///
    /// # Errors
    /// A line is not of the form above, or a number stands twice or out of its place.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or("");
        let words: Vec<&str> = first.splitn(3, ' ').collect();
        let (document, title) = match words.as_slice() {
            ["RFC", number, title] => (format!("RFC {number}"), *title),
            [xep, _, ..] if xep.starts_with("XEP-") => (
                (*xep).to_owned(),
                first.split_once(' ').map_or("", |(_, title)| title),
            ),
            _ => return Err(format!("`{first}` names no document")),
        };
        let mut sections: Vec<Section> = Vec::new();
        for line in lines {
            let section = Section::parse(line)?;
            let before = sections.last().map(|one| numbers(&one.number));
            if !follows(before.as_deref(), &numbers(&section.number)) {
                return Err(format!("{document}: `{line}` is out of its place"));
            }
            sections.push(section);
        }
        Ok(Self {
            document,
            title: title.to_owned(),
            sections,
        })
    }

    /// The mark of a section, or of the one around it; `None` if there is no such section.
    #[must_use]
    pub fn mark(&self, number: &str) -> Option<&Mark> {
        let own = &self.find(number)?.own;
        let mut around = number;
        let mut mark = own;
        while *mark == Mark::Normative {
            let Some((above, _)) = around.rsplit_once('.') else {
                break;
            };
            around = above;
            mark = &self.find(around)?.own;
        }
        Some(mark)
    }

    /// Whether there are sections below it.
    #[must_use]
    pub fn has_parts(&self, number: &str) -> bool {
        self.sections
            .iter()
            .any(|one| is_below(&one.number, number))
    }

    /// The sections that have rules for servers, in their order.
    pub fn normative(&self) -> impl Iterator<Item = &Section> {
        let is_normative = |one: &&Section| self.mark(&one.number) != Some(&Mark::Informative);
        self.sections.iter().filter(is_normative)
    }

    fn find(&self, number: &str) -> Option<&Section> {
        self.sections.iter().find(|one| one.number == number)
    }
}

impl Section {
    fn parse(line: &str) -> Result<Self, String> {
        let wrong = || format!("`{line}` is no section");
        let (number, rest) = line.split_once(' ').ok_or_else(wrong)?;
        let (mark, rest) = match rest.split_once(' ') {
            Some((mark @ ("~" | "-" | "x"), rest)) => (mark, rest),
            _ => ("", rest),
        };
        let (title, why) = match rest.split_once(" | ") {
            Some((title, why)) => (title, Some(why.to_owned())),
            None => (rest, None),
        };
        let own = match (mark, why) {
            ("", None) => Mark::Normative,
            ("~", None) => Mark::Informative,
            ("-", Some(why)) => Mark::Absent(why),
            ("x", Some(why)) => Mark::Apart(why),
            _ => return Err(wrong()),
        };
        if numbers(number).is_empty() || title.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            number: number.to_owned(),
            title: title.to_owned(),
            own,
        })
    }
}

/// What the letter of the first appendix counts as: more than any section.
const APPENDIX: u32 = 1000;

/// The parts of a number; nothing if it is none.
fn numbers(text: &str) -> Vec<u32> {
    let part = |part: &str| match part.as_bytes() {
        [letter @ b'A'..=b'Z'] => Some(APPENDIX + u32::from(letter - b'A')),
        _ => part.parse().ok(),
    };
    let parts: Option<Vec<u32>> = text.split('.').map(part).collect();
    parts.unwrap_or_default()
}

fn is_below(number: &str, above: &str) -> bool {
    let rest = number.strip_prefix(above);
    rest.is_some_and(|rest| rest.starts_with('.'))
}

/// Whether a number may stand right behind another one: the first part of it, or the next one of
/// it or of a section around it.
fn follows(before: Option<&[u32]>, number: &[u32]) -> bool {
    let Some(before) = before else {
        return number == [1];
    };
    let Some((last, above)) = number.split_last() else {
        return false;
    };
    if above == before {
        return *last == 1;
    }
    if above.is_empty() && *last == APPENDIX {
        return before[0] < APPENDIX;
    }
    before.len() > above.len()
        && before[..above.len()] == *above
        && before[above.len()] + 1 == *last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_well() {
        for text in FILES {
            let outline = Outline::parse(text).unwrap_or_else(|why| panic!("{why}"));
            assert!(outline.normative().count() > 2, "{}", outline.document);
        }
        assert_eq!(all().len(), FILES.len());
    }

    #[test]
    fn marks_hold_for_what_is_below_them() {
        let text = "RFC 1 A title\n1 ~ First\n1.1 Part\n2 - Second | no need\n2.1 Part\n2.2 x \
            Other | it is none\n3 Third\n3.1 Part\n3.1.1 Part of a part\n3.2 Part\n";
        let outline = Outline::parse(text).expect("it is well");
        assert_eq!((&*outline.document, &*outline.title), ("RFC 1", "A title"));
        assert_eq!(outline.mark("1.1"), Some(&Mark::Informative));
        assert_eq!(
            outline.mark("2.1"),
            Some(&Mark::Absent("no need".to_owned()))
        );
        assert_eq!(
            outline.mark("2.2"),
            Some(&Mark::Apart("it is none".to_owned()))
        );
        assert_eq!(outline.mark("3.1.1"), Some(&Mark::Normative));
        assert_eq!(outline.mark("3.3"), None);
        assert!(outline.has_parts("3.1") && !outline.has_parts("3.2"));
        let appendix = format!("{text}A Appendix\nA.1 Part\n");
        let appendix = Outline::parse(&appendix).expect("it is well");
        assert_eq!(appendix.mark("A.1"), Some(&Mark::Normative));
        let numbers: Vec<&str> = outline.normative().map(|one| &*one.number).collect();
        assert_eq!(numbers, ["2", "2.1", "2.2", "3", "3.1", "3.1.1", "3.2"]);
    }

    #[test]
    fn a_file_of_another_form_is_refused() {
        for text in [
            "",
            "Title\n",
            "XEP-0001 T\n2 Second\n",
            "XEP-0001 T\n1 First\n3 Third\n",
            "XEP-0001 T\n1 First\n1.2 Second\n",
            "XEP-0001 T\n1 First\n1 First\n",
            "XEP-0001 T\n1 First\n1.1 Part\n1.1.1 Part\n1.3 Part\n",
            "XEP-0001 T\none First\n",
            "XEP-0001 T\n1 First\nB Second appendix\n",
            "XEP-0001 T\n1 First\nA Appendix\n2 Second\n",
            "XEP-0001 T\n1\n",
            "XEP-0001 T\n1 - Without a reason\n",
            "XEP-0001 T\n1 A reason without a mark | why\n",
        ] {
            assert!(Outline::parse(text).is_err(), "{text}");
        }
    }
}
