//! Which rule of a section was broken on purpose, and which script or test failed then. What was
//! tried stands in `crates/xtask/sections/broken/`, in a file for each document:
//!
//! ```text
//! 8.2<TAB>a kick has no status code<TAB>muc_occupant_is_kicked
//! 9<TAB>why there is no rule to break<TAB>-
//! ```
//!
//! Nothing here plays a script: a row says that somebody has.

use std::collections::BTreeMap;

use crate::TrackedFile;

/// Where the files are, from the root of the repository. `XEP-0045.txt` and `RFC-7395.txt`.
const FILES: &str = "crates/xtask/sections/broken/";

/// What was broken of a section, and what failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// `a kick has no status code`, or why there is nothing to break.
    pub what: String,
    /// The script or test that failed; `None` if there was nothing to break.
    pub witness: Option<String>,
}

/// The rows of a section, by document and number.
pub type Broken = BTreeMap<(String, String), Vec<Row>>;

/// Collects the rows of every file; a finding for each line that is none.
pub fn read(files: &[TrackedFile], findings: &mut Vec<String>) -> Broken {
    let mut broken = Broken::new();
    for file in files {
        let name = file.path.strip_prefix(FILES);
        let Some(name) = name.and_then(|name| name.strip_suffix(".txt")) else {
            continue;
        };
        let document = match name.strip_prefix("RFC-") {
            Some(number) => format!("RFC {number}"),
            None => name.to_owned(),
        };
        for line in file.text.lines() {
            match row(line) {
                Some((number, row)) => broken
                    .entry((document.clone(), number))
                    .or_default()
                    .push(row),
                None => findings.push(format!("{}: `{line}` is no row", file.path)),
            }
        }
    }
    broken
}

fn row(line: &str) -> Option<(String, Row)> {
    let parts: Vec<&str> = line.split('\t').collect();
    let [number, what, witness] = *parts.as_slice() else {
        return None;
    };
    if parts.iter().any(|part| part.trim().is_empty()) {
        return None;
    }
    let row = Row {
        what: what.to_owned(),
        witness: (witness != "-").then(|| witness.to_owned()),
    };
    Some((number.to_owned(), row))
}

/// The cell of a section: each rule with what noticed.
#[must_use]
pub fn cell(rows: &[Row]) -> String {
    let said = rows.iter().map(|row| match &row.witness {
        Some(witness) => format!("{}: {witness}", row.what),
        None => format!("nothing to break: {}", row.what),
    });
    said.collect::<Vec<_>>().join("; ").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(name: &str, text: &str) -> (Broken, Vec<String>) {
        let file = TrackedFile {
            path: format!("{FILES}{name}"),
            text: text.to_owned(),
        };
        let mut findings = Vec::new();
        (read(&[file], &mut findings), findings)
    }

    #[test]
    fn rows_are_read_for_their_document() {
        let text = "2.1\t<body/> is empty\ta\n2.1\tno answer\tb\n3\tit only gathers\t-\n";
        for (name, document) in [("XEP-0999.txt", "XEP-0999"), ("RFC-9999.txt", "RFC 9999")] {
            let (broken, findings) = read_one(name, text);
            assert_eq!(findings, Vec::<String>::new());
            let of = |number: &str| cell(&broken[&(document.to_owned(), number.to_owned())]);
            assert_eq!(of("2.1"), "&lt;body/> is empty: a; no answer: b");
            assert_eq!(of("3"), "nothing to break: it only gathers");
        }
        let (broken, _) = read_one("README.md", text);
        assert!(broken.is_empty());
    }

    #[test]
    fn a_line_of_another_form_is_found() {
        for line in [
            "2.1",
            "2.1\twhat",
            "2.1\t\ta",
            "\twhat\ta",
            "2.1\twhat\ta\tb",
        ] {
            let (broken, findings) = read_one("XEP-0999.txt", &format!("{line}\n"));
            assert!(broken.is_empty(), "{line}");
            assert_eq!(
                findings,
                [format!("{FILES}XEP-0999.txt: `{line}` is no row")]
            );
        }
    }
}
