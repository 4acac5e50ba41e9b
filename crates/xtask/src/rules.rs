//! The rules for single files. Each takes a path and a text and gives its findings, one line each.

use crate::source::{Line, is_test_path, lines};

/// The widest line, in characters.
const COLUMNS_MAX: usize = 100;
/// The longest file, in lines.
const FILE_LINES_MAX: usize = 1000;

/// The heart: what delivers, and what a user is. It is read most, so it is held to more.
pub const HEART: &[&str] = &["crates/delivery/src/", "crates/server/src/user/"];
/// The longest function of the heart, in lines.
const FUNCTION_LINES_MAX: usize = 70;

/// Files that may be longer than [`FILE_LINES_MAX`], each with the reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Files that may relax `unsafe_code`, each with the reason.
const UNSAFE_FILES: &[(&str, &str)] = &[(
    "crates/roost/src/heap.rs",
    "the C library's heap is trimmed by a function without a safe wrapper",
)];

/// This file and its tests name what they forbid.
const SELF: &str = "crates/xtask/src/rules.rs";

fn finding(path: &str, index: usize, what: &str) -> String {
    format!("{path}:{}: {what}", index + 1)
}

/// Every Rust file opens with `//!`: what it owns and what it deliberately does not.
#[must_use]
pub fn module_docs(path: &str, text: &str) -> Vec<String> {
    let first = text.lines().find(|line| !line.trim().is_empty());
    match first {
        Some(line) if line.starts_with("//! ") => Vec::new(),
        _ => vec![finding(
            path,
            0,
            "the file does not open with `//!` module docs",
        )],
    }
}

/// Functions of the [`HEART`] are short; those of tests may be longer.
#[must_use]
pub fn function_length(path: &str, text: &str) -> Vec<String> {
    if !HEART.iter().any(|folder| path.starts_with(folder)) {
        return Vec::new();
    }
    let lines = lines(path, text);
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if line.is_test || !begins_function(&line.code) {
            continue;
        }
        let length = function_lines(&lines[index..]);
        if length > FUNCTION_LINES_MAX {
            let what = format!("a function of {length} lines");
            findings.push(finding(path, index, &what));
        }
    }
    findings
}

fn begins_function(code: &str) -> bool {
    let mut words = code.split_whitespace();
    let qualifies =
        |word: &str| word.starts_with("pub") || ["const", "async", "unsafe", "in"].contains(&word);
    words.find(|word| !qualifies(word)) == Some("fn")
}

/// Lines of the function that begins with the first of these: to the brace below its `fn`.
fn function_lines(lines: &[Line]) -> usize {
    let opens = |line: &Line| line.code.trim_end().ends_with(['{', '}', ';']);
    let body = lines.iter().position(opens).unwrap_or(0);
    if !lines[body].code.trim_end().ends_with('{') {
        return body + 1;
    }
    let indent = lines[0].code.len() - lines[0].code.trim_start().len();
    let closes = |line: &Line| line.code.trim_end().len() == indent + 1 && line.code.ends_with('}');
    let rest = lines[body..].iter().position(closes);
    rest.map_or(lines.len(), |end| body + end + 1)
}

/// `unwrap` and `expect` stand outside tests only under a comment `// Invariant: …`.
#[must_use]
pub fn unwraps(path: &str, text: &str) -> Vec<String> {
    let lines = lines(path, text);
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let is_unwrap = line.code.contains(".unwrap()") || line.code.contains(".expect(\"");
        if is_unwrap && !line.is_test && !has_invariant(&lines, index) {
            findings.push(finding(
                path,
                index,
                "unwrap without `// Invariant: …` above it",
            ));
        }
    }
    findings
}

/// Whether the comment right above the line, or above the statement it belongs to, states one.
fn has_invariant(lines: &[Line], index: usize) -> bool {
    let mut at = index;
    loop {
        if comment_above(lines, at) {
            return true;
        }
        if at == 0 || !lines[at].code.trim_start().starts_with(['.', ')', '}']) {
            return false;
        }
        at -= 1;
        while at > 0 && lines[at].is_comment {
            at -= 1;
        }
    }
}

fn comment_above(lines: &[Line], index: usize) -> bool {
    lines[..index]
        .iter()
        .rev()
        .take_while(|line| line.is_comment)
        .any(|line| line.text.contains("Invariant:"))
}

/// A call that is not made, where, and what is used instead.
struct Ban {
    call: &'static str,
    /// Path prefixes where it is banned.
    within: &'static [&'static str],
    /// Path prefixes where it is allowed all the same.
    except: &'static [&'static str],
    instead: &'static str,
}

const EVERYWHERE: &[&str] = &["crates/"];
/// Crates of rule 2 of the design: no sockets, files, clocks or randomness of their own.
const SANS_IO: &[&str] = &["crates/xml/", "crates/xmpp/"];

const BANS: &[Ban] = &[
    Ban {
        call: "mpsc::channel(",
        within: EVERYWHERE,
        except: &[],
        instead: "`mpsc::sync_channel` with a named bound: this one is unbounded",
    },
    Ban {
        call: "unbounded_channel(",
        within: EVERYWHERE,
        except: &[],
        instead: "a channel with a named bound",
    },
    Ban {
        call: "channel::unbounded(",
        within: EVERYWHERE,
        except: &[],
        instead: "a channel with a named bound",
    },
    Ban {
        call: "SegQueue::new(",
        within: EVERYWHERE,
        except: &[],
        instead: "`crossbeam_queue::ArrayQueue` with a named bound: this one is unbounded",
    },
    Ban {
        call: "process::exit(",
        within: EVERYWHERE,
        except: &["crates/roost/", "crates/flood/"],
        instead: "an error value or an `ExitCode`: only a binary ends its process",
    },
    Ban {
        call: "thread::sleep(",
        within: &[
            "crates/xml/",
            "crates/xmpp/",
            "crates/actor/",
            "crates/server/",
        ],
        // Whoever wakes a node, administers, drains or disturbs it waits on a thread that runs no
        // actor.
        except: &[
            "crates/server/src/admin/anywhere.rs",
            "crates/server/src/admin/moving.rs",
            "crates/server/src/admin/erase.rs",
            "crates/server/src/errands.rs",
            "crates/server/src/node.rs",
            "crates/server/src/node/door.rs",
            "crates/server/src/sweep.rs",
            "crates/server/src/wake.rs",
            "crates/server/src/chaos.rs",
        ],
        instead: "a timer of the shard: handlers never wait",
    },
    Ban {
        call: "std::net",
        within: SANS_IO,
        except: &[],
        instead: "bytes in, bytes out",
    },
    Ban {
        call: "std::fs",
        within: SANS_IO,
        except: &[],
        instead: "data as an argument",
    },
    Ban {
        call: "fastrand::",
        within: SANS_IO,
        except: &[],
        instead: "entropy as an argument",
    },
    Ban {
        call: "thread_local!",
        within: SANS_IO,
        except: &[],
        instead: "state as an argument",
    },
    Ban {
        call: "static mut",
        within: EVERYWHERE,
        except: &[],
        instead: "state that belongs to a shard or is an argument",
    },
];

/// Banned calls, each with its replacement named.
#[must_use]
pub fn banned_calls(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, line) in lines(path, text).iter().enumerate() {
        for ban in BANS {
            let is_here = |prefixes: &[&str]| prefixes.iter().any(|p| path.starts_with(p));
            let applies = is_here(ban.within) && !is_here(ban.except) && !line.is_test;
            if applies && line.code.contains(ban.call) {
                let what = format!("`{}` is banned here; use {}", ban.call, ban.instead);
                findings.push(finding(path, index, &what));
            }
        }
    }
    findings
}

/// Marks of unfinished work do not merge; a to-do says in brackets when it ends.
#[must_use]
pub fn leftovers(path: &str, text: &str) -> Vec<String> {
    if path == SELF {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if has_word(line, "FIXME") {
            findings.push(finding(path, index, "a FIXME never merges"));
        }
        if path.ends_with(".rs") && line.contains("dbg!(") {
            findings.push(finding(path, index, "a dbg! never merges"));
        }
        if path.ends_with(".rs") && has_word(line, "TODO") && !line.contains("TODO(") {
            findings.push(finding(
                path,
                index,
                "a TODO says when it ends: `TODO(when): …`",
            ));
        }
    }
    findings
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric())
        .any(|part| part == word)
}

/// Lines of code are at most 100 characters wide, unless they cannot break: an address, a row of a
/// table in the documentation, or one long word such as a test vector.
#[must_use]
pub fn columns(path: &str, text: &str) -> Vec<String> {
    let is_row = |line: &str| line.starts_with("//! |") || line.starts_with("/// |");
    let is_word = |line: &str| !line.trim().contains(' ');
    let can_break = |line: &str| !line.contains("://") && !is_row(line.trim()) && !is_word(line);
    let wide = |line: &str| line.chars().count() > COLUMNS_MAX && can_break(line);
    let lines = text.lines().enumerate().filter(|(_, line)| wide(line));
    lines
        .map(|(index, _)| finding(path, index, "wider than 100 columns"))
        .collect()
}

/// A file stays under 1,000 lines unless it is listed with a reason.
#[must_use]
pub fn file_length(path: &str, text: &str) -> Vec<String> {
    let count = text.lines().count();
    if count <= FILE_LINES_MAX || LONG_FILES.iter().any(|(listed, _)| *listed == path) {
        return Vec::new();
    }
    vec![finding(
        path,
        count,
        "over 1,000 lines: split it, or list it with a reason",
    )]
}

/// `unsafe` is allowed only in the files listed with a reason.
#[must_use]
pub fn unsafe_code(path: &str, text: &str) -> Vec<String> {
    let is_listed = UNSAFE_FILES.iter().any(|(listed, _)| *listed == path);
    let mut findings = Vec::new();
    for (index, line) in lines(path, text).iter().enumerate() {
        if !is_listed && line.code.contains("allow(unsafe_code") {
            findings.push(finding(
                path,
                index,
                "list this file with its reason to use unsafe",
            ));
        }
    }
    findings
}

/// Nothing tracked names a machine's folders or a package registry's hosts: the same files must
/// work on any machine, behind any mirror.
#[must_use]
pub fn places(path: &str, text: &str) -> Vec<String> {
    const PLACES: &[&str] = &[
        "/root/",
        "/home/",
        "/work/",
        "/Users/",
        "registry.npmjs.org",
        "pypi.org",
        "pythonhosted.org",
        "index.crates.io",
        "static.crates.io",
        "proxy.golang.org",
        "repo.maven.apache.org",
        "deb.debian.org",
    ];
    if path == SELF {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for place in PLACES.iter().filter(|place| line.contains(**place)) {
            findings.push(finding(path, index, &format!("names {place}")));
        }
    }
    findings
}

/// Every file under a crate's `src` is part of it: some file there says `mod NAME`.
#[must_use]
pub fn dead_file(path: &str, siblings: &[(&str, &str)]) -> Vec<String> {
    let Some((folder, inner)) = path.split_once("/src/") else {
        return Vec::new();
    };
    let stem = inner.strip_suffix(".rs").unwrap_or(inner);
    let name = match stem.strip_suffix("/mod") {
        Some(parent) => parent.rsplit('/').next().unwrap_or(parent),
        None => stem.rsplit('/').next().unwrap_or(stem),
    };
    if ["lib", "main"].contains(&stem) || stem.starts_with("bin/") || is_test_path(path) {
        return Vec::new();
    }
    let declares = |text: &str| {
        let is_declaration = |line: &str| {
            let line = line.trim();
            line.ends_with(&format!("mod {name};")) || line.ends_with(&format!("mod {name} {{"))
        };
        text.lines().any(is_declaration)
    };
    let inside = format!("{folder}/src/");
    if siblings
        .iter()
        .any(|(path, text)| path.starts_with(&inside) && declares(text))
    {
        return Vec::new();
    }
    vec![finding(
        path,
        0,
        &format!("no file of {folder} says `mod {name};`: it is dead"),
    )]
}

/// A script's name is a sentence: at least three words.
#[must_use]
pub fn script_name(path: &str) -> Vec<String> {
    let name = path
        .rsplit('/')
        .next()
        .unwrap_or(path)
        .trim_end_matches(".xmpp");
    let is_sentence = name.split('_').filter(|word| !word.is_empty()).count() >= 3
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_sentence {
        return Vec::new();
    }
    vec![finding(
        path,
        0,
        "a script's name is a sentence in snake case",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_module_docs_is_found() {
        assert_eq!(module_docs("a.rs", "use std::fs;\n").len(), 1);
        assert_eq!(module_docs("a.rs", "").len(), 1);
        assert!(module_docs("a.rs", "//! Owns a.\n").is_empty());
    }

    #[test]
    fn an_unwrap_without_its_invariant_is_found() {
        let bad = "fn f() {\n    x.unwrap();\n    y\n        .z()\n        .expect(\"q\");\n}\n";
        assert_eq!(unwraps("crates/a/src/a.rs", bad).len(), 2);
        let good = "fn f() {\n    // Invariant: x is set.\n    x.unwrap();\n    // Invariant: y is \
            there,\n    // as above.\n    y\n        .z()\n        .expect(\"q\");\n\
            a.unwrap_or(1);\n    self.expect(b'<');\n}\n\
            #[cfg(test)]\nmod t { fn g() { x.unwrap() } }";
        assert_eq!(unwraps("crates/a/src/a.rs", good), Vec::<String>::new());
        let inside = "    y\n        // Invariant: never.\n        .expect(\"q\");\n";
        assert!(unwraps("crates/a/src/a.rs", inside).is_empty());
        assert!(unwraps("crates/a/tests/a.rs", bad).is_empty());
    }

    #[test]
    fn banned_calls_are_found_where_they_are_banned() {
        let bad = "let (a, b) = std::sync::mpsc::channel();\n";
        let found = banned_calls("crates/net/src/a.rs", bad);
        assert!(found[0].contains("crates/net/src/a.rs:1") && found[0].contains("sync_channel"));
        assert!(banned_calls("crates/net/src/a.rs", "mpsc::sync_channel(4);").is_empty());
        assert_eq!(
            banned_calls("crates/xml/src/a.rs", "use std::net::TcpStream;").len(),
            1
        );
        assert!(banned_calls("crates/net/src/a.rs", "use std::net::TcpStream;").is_empty());
        assert_eq!(
            banned_calls("crates/server/src/a.rs", "thread::sleep(d);").len(),
            1
        );
        assert_eq!(
            banned_calls("crates/net/src/a.rs", "std::process::exit(1)").len(),
            1
        );
        assert!(banned_calls("crates/roost/src/a.rs", "std::process::exit(1)").is_empty());
    }

    #[test]
    fn leftovers_are_found() {
        let bad = "// FIXME later\nlet x = dbg!(y);\n// TODO: more\n// TODO(issue 4): more\n";
        assert_eq!(leftovers("crates/a/src/a.rs", bad).len(), 3);
        assert_eq!(leftovers("docs/a.md", "FIXME\n").len(), 1);
        assert!(leftovers("docs/a.md", "no FIXMEs\n").is_empty());
    }

    #[test]
    fn wide_lines_are_found() {
        let wide = "x ".repeat(51);
        assert_eq!(columns("a.rs", &wide).len(), 1);
        assert!(columns("a.rs", &"x".repeat(101)).is_empty());
        assert!(columns("a.rs", &"ö".repeat(100)).is_empty());
        assert!(columns("a.rs", &format!("https://{wide}")).is_empty());
        assert!(columns("a.rs", &format!("//! | {wide} |")).is_empty());
    }

    #[test]
    fn long_files_are_found() {
        assert_eq!(file_length("a.rs", &"\n".repeat(1001)).len(), 1);
        assert!(file_length("a.rs", &"\n".repeat(1000)).is_empty());
    }

    #[test]
    fn long_functions_of_the_heart_are_found() {
        let of = |lines: usize| {
            let head = "    pub(super) const fn f(\n        a: u8,\n    ) -> u8 {\n";
            let body = "        x();\n".repeat(lines - 4);
            format!("impl A {{\n    fn one() {{}}\n\n{head}{body}    }}\n}}\n")
        };
        let path = "crates/delivery/src/a.rs";
        assert_eq!(function_length(path, &of(70)), Vec::<String>::new());
        let found = function_length(path, &of(71));
        assert_eq!(
            found,
            ["crates/delivery/src/a.rs:4: a function of 71 lines"]
        );
        assert!(function_length("crates/net/src/a.rs", &of(71)).is_empty());
        assert!(function_length("crates/delivery/src/a/tests.rs", &of(71)).is_empty());
    }

    #[test]
    fn unlisted_unsafe_is_found() {
        assert_eq!(
            unsafe_code("a.rs", "#![allow(unsafe_code)] // why\n").len(),
            1
        );
        assert!(unsafe_code("a.rs", "// allow(unsafe_code)\n").is_empty());
    }

    #[test]
    fn places_are_found() {
        assert_eq!(
            places("a.md", "see /home/me/x\nand https://pypi.org/x\n").len(),
            2
        );
        assert!(places("a.md", "see ./roost-data\n").is_empty());
    }

    #[test]
    fn dead_files_are_found() {
        let files = [
            ("crates/a/src/lib.rs", "pub mod b;\nmod c {\n"),
            ("crates/d/src/lib.rs", ""),
        ];
        assert!(dead_file("crates/a/src/b.rs", &files).is_empty());
        assert!(dead_file("crates/a/src/b/mod.rs", &files).is_empty());
        assert!(dead_file("crates/a/src/c.rs", &files).is_empty());
        assert_eq!(dead_file("crates/a/src/x.rs", &files).len(), 1);
        assert_eq!(dead_file("crates/d/src/b.rs", &files).len(), 1);
    }

    #[test]
    fn a_script_without_a_sentence_for_a_name_is_found() {
        assert_eq!(script_name("tests/scripts/test1.xmpp").len(), 1);
        assert!(script_name("tests/scripts/ping_is_answered.xmpp").is_empty());
    }
}
