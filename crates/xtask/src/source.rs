//! Just enough of Rust's lexical structure for the rules: which bytes are code, which are comments
//! and strings, and which lines are tests.

/// One line of a source file, taken apart.
#[derive(Clone, Debug)]
pub struct Line {
    /// Code, with the inside of strings and all comments blanked out.
    pub code: String,
    /// The whole line is a comment.
    pub is_comment: bool,
    /// The line as it stands.
    pub text: String,
    /// The line is compiled for tests only.
    pub is_test: bool,
}

/// Takes a Rust file apart. `path` decides whether all of it is a test.
#[must_use]
pub fn lines(path: &str, text: &str) -> Vec<Line> {
    let code = blank(text);
    let is_test_file = is_test_path(path);
    let mut lines: Vec<Line> = text
        .lines()
        .zip(code.lines())
        .map(|(text, code)| Line {
            code: code.to_owned(),
            is_comment: text.trim_start().starts_with("//"),
            text: text.to_owned(),
            is_test: is_test_file,
        })
        .collect();
    mark_test_modules(&mut lines);
    lines
}

/// Files that exist for tests and measurements only.
#[must_use]
pub fn is_test_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_in = |folder: &str| path.starts_with(&folder[1..]) || path.contains(folder);
    name == "tests.rs"
        || name.ends_with("_tests.rs")
        || ["/tests/", "/benches/", "/fuzz/", "/examples/"]
            .into_iter()
            .any(is_in)
}

/// Marks what stands under `#[cfg(test)]`: the item that follows, to its closing brace.
fn mark_test_modules(lines: &mut [Line]) {
    let mut at = 0;
    while at < lines.len() {
        if !lines[at].code.contains("#[cfg(test)]") {
            at += 1;
            continue;
        }
        let mut depth = 0_i32;
        let mut has_opened = false;
        while at < lines.len() {
            lines[at].is_test = true;
            for c in lines[at].code.chars() {
                match c {
                    '{' => {
                        depth += 1;
                        has_opened = true;
                    }
                    '}' => depth -= 1,
                    _ => {}
                }
            }
            let is_item_without_body = !has_opened && lines[at].code.trim_end().ends_with(';');
            at += 1;
            if (has_opened && depth <= 0) || is_item_without_body {
                break;
            }
        }
    }
}

/// Replaces comments and the inside of strings and characters by blanks, line by line.
fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        let length = match rest {
            ['/', '/', ..] => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
            ['/', '*', ..] => block_comment(rest),
            ['r' | 'b' | 'c', ..] if !follows_name(&chars, at) => match raw_string(rest) {
                Some(length) => length,
                None => {
                    out.push(rest[0]);
                    at += 1;
                    continue;
                }
            },
            ['"', ..] => string(rest),
            ['\'', ..] => character(rest),
            _ => 0,
        };
        if length == 0 {
            out.push(rest[0]);
            at += 1;
            continue;
        }
        let is_comment = rest[0] == '/';
        for (index, c) in rest[..length].iter().enumerate() {
            let is_edge = !is_comment && (index == 0 || index + 1 == length);
            out.push(if *c == '\n' || is_edge { *c } else { ' ' });
        }
        at += length;
    }
    out
}

fn follows_name(chars: &[char], at: usize) -> bool {
    at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_')
}

fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => {
                depth += 1;
                at += 2;
            }
            ['*', '/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a raw string such as `r#"…"#`, with its prefix.
fn raw_string(rest: &[char]) -> Option<usize> {
    let prefix = rest
        .iter()
        .take_while(|c| matches!(c, 'r' | 'b' | 'c'))
        .count();
    if prefix > 2 || !rest[..prefix].contains(&'r') {
        return None;
    }
    let hashes = rest[prefix..].iter().take_while(|c| **c == '#').count();
    if rest.get(prefix + hashes) != Some(&'"') {
        return None;
    }
    let mut at = prefix + hashes + 1;
    while at < rest.len() {
        let closes = rest[at] == '"'
            && rest[at + 1..]
                .iter()
                .take(hashes)
                .filter(|c| **c == '#')
                .count()
                == hashes;
        if closes {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(rest.len())
}

fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a character literal, or 0 for a lifetime.
fn character(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', ..] => {
            let end = rest[3.min(rest.len())..].iter().position(|c| *c == '\'');
            end.map_or(0, |end| end + 4)
        }
        ['\'', _, '\'', ..] => 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_not_code() {
        let text = "let a = \"x.unwrap()\"; // .unwrap()\nlet b = r#\"y\"#; /* z\nz */ c('\"');\n";
        let code: Vec<String> = lines("src/a.rs", text)
            .into_iter()
            .map(|line| line.code)
            .collect();
        assert_eq!(code[0].trim_end(), "let a = \"          \";");
        assert!(!code[1].contains('y') && !code[1].contains('z'));
        assert_eq!(code[2].trim(), "c(' ');");
    }

    #[test]
    fn lifetimes_are_code_and_escapes_are_not() {
        let line = &lines(
            "src/a.rs",
            "fn f<'a>(x: &'a str) { g('\\'', '\\n', \"\\\"\") }",
        )[0];
        assert!(line.code.contains("&'a str"));
        assert!(line.code.ends_with(") }"));
    }

    #[test]
    fn test_code_is_known_by_attribute_and_by_path() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let flags: Vec<bool> = lines("src/a.rs", text)
            .iter()
            .map(|line| line.is_test)
            .collect();
        assert_eq!(flags, [false, true, true, true, true, false]);
        assert!(
            lines("crates/a/tests/b.rs", text)
                .iter()
                .all(|line| line.is_test)
        );
        assert!(is_test_path("fuzz/fuzz_targets/a.rs"));
        assert!(!is_test_path("crates/a/src/attests.rs"));
    }

    #[test]
    fn a_test_only_item_without_a_body_ends_at_its_semicolon() {
        let flags: Vec<bool> = lines("src/a.rs", "#[cfg(test)]\nmod tests;\nfn a() {}\n")
            .iter()
            .map(|line| line.is_test)
            .collect();
        assert_eq!(flags, [true, true, false]);
    }
}
