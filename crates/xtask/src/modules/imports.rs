//! Which modules of its crate a file names: in `use` and wherever a path begins with `crate` or
//! climbs to the root by `super`. Reads just enough of Rust for that.

use crate::source;

/// One module names another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The module of the root that the file belongs to.
    pub from: String,
    /// The one that it names.
    pub to: String,
    /// Where.
    pub line: usize,
}

/// The module of the root that a file belongs to, by its path from there; `None` for the root.
#[must_use]
pub fn module(path: &str) -> Option<&str> {
    let first = path.split('/').next()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (name != "lib").then_some(name)
}

/// What a file names outside of its tests.
#[must_use]
pub fn of(path: &str, text: &str) -> Vec<Import> {
    let (Some(from), false) = (module(path), source::is_test_path(path)) else {
        return Vec::new();
    };
    let mut reader = Reader {
        tokens: tokens(path, text),
        at: 0,
        found: Vec::new(),
    };
    reader.read(depth(path));
    let import = |(to, line)| Import {
        from: from.to_owned(),
        to,
        line,
    };
    reader.found.into_iter().map(import).collect()
}

/// How many modules there are from the root to the one of a file.
fn depth(path: &str) -> usize {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    stem.strip_suffix("/mod").unwrap_or(stem).split('/').count()
}

/// A name, or a sign, with its line.
type Token = (String, usize);

/// The code of a file that is no test's, in names and signs; `::` is one sign.
fn tokens(path: &str, text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for (index, line) in source::lines(path, text).iter().enumerate() {
        if line.is_test {
            continue;
        }
        let mut name = String::new();
        // The blank behind the line ends its last name.
        for c in line.code.chars().chain([' ']) {
            if c.is_alphanumeric() || c == '_' {
                name.push(c);
                continue;
            }
            if !name.is_empty() {
                tokens.push((std::mem::take(&mut name), index + 1));
            }
            match tokens.last_mut() {
                Some(last) if c == ':' && last.0 == ":" => last.0.push(':'),
                _ if c.is_whitespace() => {}
                _ => tokens.push((c.to_string(), index + 1)),
            }
        }
    }
    tokens
}

/// Goes through the tokens of one file.
struct Reader {
    tokens: Vec<Token>,
    at: usize,
    /// Modules of the root that are named, with the lines.
    found: Vec<Token>,
}

impl Reader {
    fn is(&self, offset: usize, sign: &str) -> bool {
        let token = self.tokens.get(self.at + offset);
        token.is_some_and(|token| token.0 == sign)
    }

    /// Finds all paths that begin with `crate` or `super`, in a module so deep below the root.
    fn read(&mut self, depth: usize) {
        while self.at < self.tokens.len() {
            match self.is(1, "::") {
                true if self.is(0, "crate") => self.path(0),
                true if self.is(0, "super") => self.path(depth.saturating_sub(1)),
                _ => self.at += 1,
            }
        }
    }

    /// What is behind a name and its `::`, from a module so deep below the root.
    fn path(&mut self, depth: usize) {
        self.at += 2;
        if !self.is(0, "{") {
            return self.element(depth);
        }
        while self.at < self.tokens.len() && !self.is(0, "}") {
            // Past the brace, or the comma behind the element before.
            self.at += 1;
            self.element(depth);
            self.skip();
        }
        self.at += 1;
    }

    /// One path of a group, or the only one.
    fn element(&mut self, depth: usize) {
        if self.is(0, "super") && self.is(1, "::") {
            return self.path(depth.saturating_sub(1));
        }
        let Some(token) = self.tokens.get(self.at) else {
            return;
        };
        if depth == 0 && token.0.starts_with(|c: char| c.is_lowercase()) && token.0 != "self" {
            self.found.push(token.clone());
        }
    }

    /// To the end of an element in a group.
    fn skip(&mut self) {
        let mut open = 0;
        while self.at < self.tokens.len() {
            match self.tokens[self.at].0.as_str() {
                "{" => open += 1,
                "}" | "," if open == 0 => return,
                "}" => open -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, text: &str) -> Vec<String> {
        of(path, text).into_iter().map(|import| import.to).collect()
    }

    #[test]
    fn groups_paths_and_super_lead_to_modules_of_the_root() {
        let text = "use crate::{a::{self, A, deep::D}, b, c as d};\nuse std::e;\n";
        assert_eq!(named("x.rs", text), ["a", "b", "c"]);
        let text = "fn f() -> crate::a::A {\n    super::b::g(crate::Options::new())\n}\n";
        assert_eq!(named("x.rs", text), ["a", "b"]);
        let text = "use super::y;\nuse super::super::a;\nuse super::{z, super::{b, c}};\n";
        assert_eq!(named("x/inner.rs", text), ["a", "b", "c"]);
        assert_eq!(named("x/inner/mod.rs", text), ["a", "b", "c"]);
        assert_eq!(named("lib.rs", "pub use crate::a::A;\n"), [""; 0]);
    }

    #[test]
    fn strings_comments_and_tests_name_nothing() {
        let text = "// crate::a\nlet s = \"crate::b\"; pub(crate) fn f() {}\n\
                    #[cfg(test)]\nmod tests {\n    use crate::c;\n}\n";
        assert_eq!(named("x.rs", text), [""; 0]);
        assert_eq!(named("x/tests.rs", "use crate::c;\n"), [""; 0]);
    }

    #[test]
    fn an_import_knows_its_file_and_line() {
        let found = of("x/y.rs", "\nuse crate::{\n    a,\n};\n");
        assert_eq!((found[0].from.as_str(), found[0].line), ("x", 3));
    }
}
