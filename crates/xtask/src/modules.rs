//! The order of the modules inside `server`: the table in ARCHITECTURE.md gives every file and
//! folder of its root a layer, and an import goes only to a strictly smaller one, as between
//! crates. Owns how the table and the imports are read. What tests import is not looked at.

pub mod imports;

use std::collections::BTreeMap;

use crate::TrackedFile;
use imports::Import;

/// Where the table is, from the root of the repository.
pub const PATH: &str = "ARCHITECTURE.md";

/// The heading that the table stands under.
const HEADING: &str = "## Inside `server`";

/// The crate whose modules are looked at.
const SOURCE: &str = "crates/server/src/";

/// Imports that still go up: from, to, and what keeps them. It may only shrink: one that is not
/// needed any more is a finding, and so is one that is not listed.
pub const UPWARDS: &[(&str, &str, &str)] = &[
    (
        "c2s",
        "join",
        "a connection that logs in keeps what another node would go on with",
    ),
    (
        "c2s",
        "web",
        "a stream over BOSH has its session in it; the service opens connections of any sort",
    ),
    (
        "join",
        "web",
        "a stream becomes an edge in place: what a connection is at the moment is `web`'s",
    ),
];

/// What is wrong with the order of the modules, one line each.
#[must_use]
pub fn check(files: &[TrackedFile]) -> Vec<String> {
    judge(files, UPWARDS)
}

fn judge(files: &[TrackedFile], upwards: &[(&str, &str, &str)]) -> Vec<String> {
    let document = files.iter().find(|file| file.path == PATH);
    let layers = match document.map(|file| layers(&file.text)) {
        Some(Ok(layers)) => layers,
        Some(Err(finding)) => return vec![finding],
        None => return vec![format!("{PATH} is missing")],
    };
    let sources = files.iter().filter_map(|file| {
        let path = file.path.strip_prefix(SOURCE)?;
        Some((path, file))
    });
    let sources: Vec<(&str, &TrackedFile)> = sources.collect();
    let mut findings = unlisted(&layers, &sources);
    let mut needed = Vec::new();
    for (path, file) in sources {
        for import in imports::of(path, &file.text) {
            let is_down = is_down(&layers, &import);
            if is_down != Some(false) {
                continue;
            }
            let edge = (import.from.clone(), import.to.clone());
            let is_known = upwards
                .iter()
                .any(|(from, to, _)| (*from, *to) == (&*edge.0, &*edge.1));
            match is_known {
                true => needed.push(edge),
                false => findings.push(refusal(&layers, &import, &file.path)),
            }
        }
    }
    for (from, to, _) in upwards {
        if !needed.iter().any(|edge| edge.0 == *from && edge.1 == *to) {
            findings.push(format!(
                "{from} does not import {to} from below any more: take the entry out of `UPWARDS` \
                 in crates/xtask/src/modules.rs"
            ));
        }
    }
    findings
}

/// Whether an import goes down; `None` if the table does not know one of the two, which is a
/// finding of its own, and within a module.
fn is_down(layers: &BTreeMap<String, u8>, import: &Import) -> Option<bool> {
    let (from, to) = (layers.get(&import.from)?, layers.get(&import.to)?);
    (import.from != import.to).then_some(to < from)
}

fn refusal(layers: &BTreeMap<String, u8>, import: &Import, path: &str) -> String {
    let Import { from, to, line } = import;
    let layer = |name: &str| layers.get(name).copied().unwrap_or_default();
    format!(
        "{path}:{line}: {from} (layer {}) must not import {to} (layer {}): move what both need to \
         a module below {from}, pass it as an argument, or let {from} answer with a value that \
         {to} acts on ({PATH}, \"Inside `server`\")",
        layer(from),
        layer(to),
    )
}

/// Modules without a row, and rows without a module.
fn unlisted(layers: &BTreeMap<String, u8>, sources: &[(&str, &TrackedFile)]) -> Vec<String> {
    let modules = sources.iter().filter_map(|(path, _)| imports::module(path));
    let mut modules: Vec<&str> = modules.collect();
    modules.sort_unstable();
    modules.dedup();
    let without_row = modules
        .iter()
        .filter(|module| !layers.contains_key(**module));
    let without_row = without_row.map(|module| {
        format!("{SOURCE}{module} has no layer: give it one in the table of {PATH}, \"{HEADING}\"")
    });
    let without_module = layers
        .keys()
        .filter(|listed| !modules.contains(&listed.as_str()));
    let without_module = without_module
        .map(|listed| format!("{PATH} gives `{listed}` a layer, and there is no such module"));
    without_row.chain(without_module).collect()
}

/// The layers of the table: rows of layer, modules in backticks, and what they own.
fn layers(document: &str) -> Result<BTreeMap<String, u8>, String> {
    let lines = document.lines().skip_while(|line| *line != HEADING).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("## "));
    let mut layers = BTreeMap::new();
    for line in lines.filter(|line| line.starts_with('|')) {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (layer, modules) = (cells.next().unwrap_or(""), cells.next().unwrap_or(""));
        let Ok(layer) = layer.parse::<u8>() else {
            continue;
        };
        for module in modules.split('`').skip(1).step_by(2) {
            if layers.insert(module.to_owned(), layer).is_some() {
                return Err(format!("{PATH} gives `{module}` two layers"));
            }
        }
    }
    match layers.is_empty() {
        true => Err(format!("{PATH} has no table under \"{HEADING}\"")),
        false => Ok(layers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "## Inside `server`\n\n| layer | module | owns |\n|---|---|---|\n\
        | 0 | `words`, `limits` | what is said |\n| 1 | `kind` | an actor |\n\
        | 2 | `node` | puts it together |\n\n## Invariants\n\n\
        | 9 | `other` | not of this table |\n";

    /// A crate of these modules.
    fn tree(kind: &str, words: &str) -> Vec<TrackedFile> {
        let file = |path: &str, text: &str| TrackedFile {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        vec![
            file(PATH, TABLE),
            file("crates/server/src/lib.rs", "pub use node::Node;\n"),
            file("crates/server/src/limits.rs", "pub const MAX: usize = 1;\n"),
            file("crates/server/src/words/mod.rs", words),
            file("crates/server/src/kind.rs", kind),
            file("crates/server/src/node/mod.rs", "use crate::kind::Kind;\n"),
            file("crates/other/src/a.rs", "use crate::words;\n"),
        ]
    }

    #[test]
    fn an_import_from_below_is_taken() {
        let down = "use crate::{limits::MAX, words};\n";
        assert_eq!(judge(&tree(down, ""), &[]), Vec::<String>::new());
        // Both in layer 0.
        assert_eq!(judge(&tree(down, "use super::limits;\n"), &[]).len(), 1);
    }

    #[test]
    fn an_import_from_above_is_refused_with_what_to_do() {
        let tree = tree("fn f() {}\nuse crate::node::{Door, Node};\n", "");
        let findings = judge(&tree, &[]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        let begins = "crates/server/src/kind.rs:2: kind (layer 1) must not import node (layer 2): \
                      move what both need to a module below kind";
        assert!(findings[0].starts_with(begins), "{}", findings[0]);
    }

    #[test]
    fn what_tests_import_is_their_own_business() {
        let tree = tree(
            "#[cfg(test)]\nmod tests {\n    use crate::node::Node;\n}\n",
            "",
        );
        assert_eq!(judge(&tree, &[]), Vec::<String>::new());
    }

    #[test]
    fn a_known_import_from_above_is_taken_until_it_is_gone() {
        let known = [("kind", "node", "a reason")];
        let up = tree("use crate::node::Node;\n", "");
        assert_eq!(judge(&up, &known), Vec::<String>::new());
        let findings = judge(&tree("", ""), &known);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].contains("take the entry out"), "{findings:?}");
    }

    #[test]
    fn table_and_tree_have_the_same_modules() {
        let mut tree = tree("", "");
        tree.push(TrackedFile {
            path: "crates/server/src/stray.rs".to_owned(),
            text: String::new(),
        });
        tree.retain(|file| !file.path.ends_with("node/mod.rs"));
        let findings = judge(&tree, &[]);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("stray has no layer"));
        assert!(findings[1].contains("`node`"));
    }

    #[test]
    fn a_module_has_one_layer() {
        let twice = TABLE.replace("`node`", "`kind`");
        assert!(layers(&twice).unwrap_err().contains("two layers"));
        assert!(layers("# Nothing\n").unwrap_err().contains("no table"));
    }
}
