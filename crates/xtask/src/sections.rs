//! `docs/sections.md`: which scripts and tests show which section of a specification. The sections
//! are in `crates/xtask/sections/`; what shows them says so itself ([`citations`]). It judges
//! names and numbers alone: whether a script really shows a section is for its reader. Which of its
//! rules were broken on purpose, and what noticed, stands in files of its own ([`broken`]).

pub mod broken;
pub mod citations;
pub mod outline;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use self::broken::Broken;
use self::citations::Citation;
use self::outline::{Mark, Outline};
use crate::TrackedFile;

/// Where the document is, from the root of the repository.
pub const PATH: &str = "docs/sections.md";

/// Where conversation scripts are.
const SCRIPTS: &str = "tests/scripts/";
/// Scripts about these protocols name the sections that they show: the beginnings of their names.
const CITING: [&str; 5] = ["muc_", "pubsub_", "pep_", "websocket_", "bosh_"];

/// A script or a test, and the sections that it names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Witness {
    name: String,
    path: String,
}

/// What shows a section, by document and number.
type Shown = BTreeMap<(String, String), BTreeSet<Witness>>;

/// The document as the scripts and tests of the repository have it now.
#[must_use]
pub fn document(files: &[TrackedFile]) -> String {
    let outlines = outline::all();
    let ignored = &mut Vec::new();
    render(
        &outlines,
        &shown(files, ignored),
        &broken::read(files, ignored),
    )
}

/// What is wrong with the sections that scripts and tests name, one line each.
#[must_use]
pub fn check(files: &[TrackedFile]) -> Vec<String> {
    judge(&outline::all(), files)
}

/// Documents whose sections are listed in another version than the one that the modules of the
/// server declare, one line each.
#[must_use]
pub fn other_versions(declared: &[(u16, &str)]) -> Vec<String> {
    differing(&outline::all(), declared)
}

fn differing(outlines: &[Outline], declared: &[(u16, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, version) in declared {
        let document = format!("XEP-{number:04}");
        let listed = outlines.iter().find(|one| one.document == document);
        let Some(listed) = listed.map(|outline| &outline.title) else {
            continue;
        };
        if !listed.ends_with(&format!(" ({version})")) {
            findings.push(format!(
                "{document} is declared as {version}, and its sections are of `{listed}`"
            ));
        }
    }
    findings
}

fn judge(outlines: &[Outline], files: &[TrackedFile]) -> Vec<String> {
    let mut findings = Vec::new();
    let shown = shown(files, &mut findings);
    for ((document, number), witnesses) in &shown {
        let Some(outline) = outlines.iter().find(|one| one.document == *document) else {
            continue;
        };
        let what = match outline.mark(number) {
            None => format!("{document} has no section {number}"),
            Some(Mark::Absent(why)) => {
                format!("{document} section {number} is listed as not implemented: {why}")
            }
            Some(_) => continue,
        };
        findings.extend(witnesses.iter().map(|one| format!("{}: {what}", one.path)));
    }
    let broken = broken::read(files, &mut findings);
    findings.extend(unfounded(outlines, &shown, &broken));
    findings
}

/// Rows of what was broken that name a section that is not there, or a script that does not say
/// that it shows the section.
fn unfounded(outlines: &[Outline], shown: &Shown, broken: &Broken) -> Vec<String> {
    let mut findings = Vec::new();
    for (key, rows) in broken {
        let (document, number) = key;
        let outline = outlines.iter().find(|one| one.document == *document);
        if outline.is_none_or(|outline| outline.mark(number).is_none()) {
            findings.push(format!("broken: {document} has no section {number}"));
        }
        for witness in rows.iter().filter_map(|row| row.witness.as_ref()) {
            let shows = |all: &BTreeSet<Witness>| all.iter().any(|one| one.name == *witness);
            if !shown.get(key).is_some_and(shows) {
                findings.push(format!(
                    "broken: {witness} does not name {document} section {number}"
                ));
            }
        }
    }
    findings
}

/// Collects what names sections; a finding for each comment that cannot be read.
fn shown(files: &[TrackedFile], findings: &mut Vec<String>) -> Shown {
    let mut shown = Shown::new();
    for file in files {
        let comments = match file.path.strip_prefix(SCRIPTS) {
            Some(name) => script(name, &file.text),
            None => citations::tests(&file.path, &file.text),
        };
        for (name, comment) in comments {
            let cited = citations::parse(&comment).unwrap_or_else(|why| {
                findings.push(format!("{}: {why}", file.path));
                Vec::new()
            });
            let is_bare = cited.iter().all(|one| one.sections.is_empty());
            if is_bare && CITING.iter().any(|start| name.starts_with(start)) {
                let what = "its head names no section that it shows";
                findings.push(format!("{}: {what}", file.path));
            }
            note(&mut shown, cited, &name, &file.path);
        }
    }
    shown
}

/// The head of a script, and the script's name.
fn script(name: &str, text: &str) -> Vec<(String, String)> {
    match name.strip_suffix(".xmpp") {
        Some(name) => vec![(name.to_owned(), citations::head(text))],
        None => Vec::new(),
    }
}

fn note(shown: &mut Shown, cited: Vec<Citation>, name: &str, path: &str) {
    for Citation { document, sections } in cited {
        for section in sections {
            let witness = Witness {
                name: name.to_owned(),
                path: path.to_owned(),
            };
            let key = (document.clone(), section);
            shown.entry(key).or_default().insert(witness);
        }
    }
}

const INTRODUCTION: &str = "# Sections of the specifications\n\n\
    Which script or test shows which section. Made by `make docs` from the heads of the scripts \
    in `tests/scripts/`, the\ncomments of tests, and the sections in `crates/xtask/sections/`; a \
    test fails when it is out of date, and when a script\nnames a section that is not there. Left \
    out are introductions, terms, security advice, registries, schemas, and what is\nfor clients \
    alone. A section that only gathers others has no script of its own.\n\n\
    That a script names a section says that it shows something of it, not all. Most scripts run \
    over every transport, so\nRFC 7395 and XEP-0124 are shown by more than the tests that name \
    them.\n\n\
    The last column of a table says which rule of the section was broken on purpose, and the \
    script or test that failed then:\neach was broken once, by itself and by hand, on 24 November \
    2026 (the rules are in `crates/xtask/sections/broken/`).\nThis is not part of `make test`; the \
    rules of `stdx::bugs::RULES` are broken again by every `make bugs`.\n";

fn render(outlines: &[Outline], shown: &Shown, broken: &Broken) -> String {
    let mut out = String::from(INTRODUCTION);
    let mut missing = String::new();
    let mut tables = String::new();
    out.push_str("\n| document | sections | shown | broken | not there | without a script |\n");
    out.push_str("|---|---|---|---|---|---|\n");
    for outline in outlines {
        let mut counts = [0_u32; 3];
        let mut tried = 0_u32;
        let was_tried = broken.keys().any(|(of, _)| *of == outline.document);
        let column = if was_tried {
            [" broken |", "---|"]
        } else {
            [""; 2]
        };
        let _ = write!(
            tables,
            "\n## {}: {}\n\n| section | title | shown by |{}\n|---|---|---|{}\n",
            outline.document, outline.title, column[0], column[1]
        );
        for section in outline.normative() {
            let key = (outline.document.clone(), section.number.clone());
            let state = State::of(outline, &section.number, shown.get(&key));
            let (number, title) = (&section.number, escape(&section.title));
            let rows = broken.get(&key).map_or(&[][..], Vec::as_slice);
            tried += u32::from(rows.iter().any(|row| row.witness.is_some()));
            let rule = match was_tried {
                true => format!(" {} |", broken::cell(rows)),
                false => String::new(),
            };
            let by = state.cell();
            let _ = writeln!(tables, "| {number} | {title} | {by} |{rule}");
            match state {
                State::Shown(_) => counts[0] += 1,
                State::Absent(_) => counts[1] += 1,
                State::Missing => {
                    counts[2] += 1;
                    let document = &outline.document;
                    let _ = writeln!(missing, "| {document} | {number} | {title} |");
                }
                State::Gathers => {}
            }
        }
        let [there, absent, without] = counts;
        let (document, sum) = (&outline.document, counts.iter().sum::<u32>());
        let tried = match was_tried {
            true => tried.to_string(),
            false => "not tried".to_owned(),
        };
        let _ = writeln!(
            out,
            "| {document} {} | {sum} | {there} | {tried} | {absent} | {without} |",
            escape(&outline.title)
        );
    }
    out.push_str("\n## Without a script\n\n");
    match missing.is_empty() {
        true => out.push_str("None.\n"),
        false => out.push_str("| document | section | title |\n|---|---|---|\n"),
    }
    out.push_str(&missing);
    out.push_str(&tables);
    out
}

/// What there is to say of a section.
enum State<'a> {
    Shown(&'a BTreeSet<Witness>),
    Absent(&'a str),
    /// It has sections of its own, which say it all.
    Gathers,
    Missing,
}

impl<'a> State<'a> {
    fn of(outline: &'a Outline, number: &str, shown: Option<&'a BTreeSet<Witness>>) -> Self {
        match (shown, outline.mark(number)) {
            (Some(witnesses), _) => Self::Shown(witnesses),
            (None, Some(Mark::Absent(why) | Mark::Apart(why))) => Self::Absent(why),
            (None, _) if outline.has_parts(number) => Self::Gathers,
            (None, _) => Self::Missing,
        }
    }

    fn cell(&self) -> String {
        match self {
            Self::Shown(witnesses) => {
                let links = witnesses
                    .iter()
                    .map(|one| format!("[{}](../{})", one.name, one.path));
                links.collect::<Vec<_>>().join(", ")
            }
            Self::Absent(why) => format!("not there: {why}"),
            Self::Gathers | Self::Missing => String::new(),
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTLINE: &str = "XEP-0999 Tests (1.0)\n1 ~ Introduction\n2 Use\n2.1 Greeting\n2.2 - \
        Parting | nobody leaves\n3 Rules\n";

    const BROKEN: &str = "crates/xtask/sections/broken/XEP-0999.txt";

    fn file(path: &str, text: &str) -> TrackedFile {
        TrackedFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn findings(path: &str, text: &str) -> Vec<String> {
        judge(
            &[Outline::parse(OUTLINE).expect("it is well")],
            &[file(path, text)],
        )
    }

    #[test]
    fn a_script_that_names_what_is_there_passes() {
        let text = "# A rule.\n# XEP-0999 sections 2.1 and 3; XEP-0998 section 77\n";
        assert_eq!(
            findings("tests/scripts/muc_a.xmpp", text),
            Vec::<String>::new()
        );
        let none = "# A rule.\n";
        assert_eq!(findings("tests/scripts/a.xmpp", none), Vec::<String>::new());
        assert_eq!(
            findings("tests/scripts/README.md", none),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_version_that_is_declared_otherwise_is_found() {
        let outlines = [Outline::parse("XEP-0999 Title (Words) (1.2)\n1 First\n").unwrap()];
        for (declared, count) in [(999, "1.2"), (998, "1.3"), (999, "1.3"), (999, ".2")]
            .into_iter()
            .zip([0, 0, 1, 1])
        {
            assert_eq!(
                differing(&outlines, &[declared]).len(),
                count,
                "{declared:?}"
            );
        }
    }

    #[test]
    fn a_section_that_is_not_there_is_found_with_the_file_that_names_it() {
        let cases = [
            ("# R.\n# XEP-0999 section 4\n", "XEP-0999 has no section 4"),
            (
                "# R.\n# XEP-0999 section 2.2\n",
                "XEP-0999 section 2.2 is listed as not implemented: nobody leaves",
            ),
            (
                "# R.\n# XEP-0999\n",
                "its head names no section that it shows",
            ),
            ("# R.\n", "its head names no section that it shows"),
        ];
        for (text, what) in cases {
            let path = "tests/scripts/muc_a.xmpp";
            assert_eq!(findings(path, text), [format!("{path}: {what}")], "{text}");
        }
        let test = "/// XEP-0999 section 2.3.\n#[test]\nfn a() {}\n";
        assert_eq!(
            findings("crates/a/src/a.rs", test),
            ["crates/a/src/a.rs: XEP-0999 has no section 2.3"]
        );
    }

    #[test]
    fn a_broken_rule_was_noticed_by_who_says_that_he_shows_the_section() {
        let outlines = [Outline::parse(OUTLINE).expect("it is well")];
        let script = file("tests/scripts/a.xmpp", "# R.\n# XEP-0999 section 2.1\n");
        let of = |rows: &str| judge(&outlines, &[script.clone(), file(BROKEN, rows)]);
        let well = "2.1\tnobody greets\ta\n3\tit has no rule\t-\n";
        assert_eq!(of(well), Vec::<String>::new());
        assert_eq!(
            of("3\tno rules\ta\n4\tnothing\t-\n2.1\tnobody greets\tb\n"),
            [
                "broken: b does not name XEP-0999 section 2.1",
                "broken: a does not name XEP-0999 section 3",
                "broken: XEP-0999 has no section 4",
            ]
        );
    }

    #[test]
    fn the_document_has_what_is_shown_and_what_is_not() {
        let script = file("tests/scripts/a.xmpp", "# R.\n# XEP-0999 section 2.1\n");
        let outlines = [Outline::parse(OUTLINE).expect("it is well")];
        let rows = file(BROKEN, "2.1\tnobody greets\ta\n");
        let broken = broken::read(&[rows], &mut Vec::new());
        let text = render(&outlines, &shown(&[script], &mut Vec::new()), &broken);
        for line in [
            "| XEP-0999 Tests (1.0) | 3 | 1 | 1 | 1 | 1 |",
            "| 2 | Use |  |  |",
            "| 2.1 | Greeting | [a](../tests/scripts/a.xmpp) | nobody greets: a |",
            "| 2.2 | Parting | not there: nobody leaves |  |",
            "| 3 | Rules |  |  |",
            "| XEP-0999 | 3 | Rules |",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("Introduction |"), "{text}");
    }
}
