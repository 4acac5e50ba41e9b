//! The tables `[[components]]` of the configuration file: domains that other programs serve
//! (XEP-0114). Owns their keys, which stand once for each component and not once for the file, and
//! what is wrong with one by itself.

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::nearest::nearest;
use super::read::shown;
use super::value::{Bound, LIST_MAX, Plain};
use crate::secret::Secret;

/// What the tables are called.
pub(super) const NAME: &str = "components";

/// Bytes that a secret has at least: whoever guesses it speaks for the whole domain.
const SECRET_BYTES_MIN: usize = 16;

/// Bytes of a secret, and of the file that one is in.
const SECRET_BYTES_MAX: usize = 1_024;

/// One key: its name, what it takes, and what it does.
struct Key {
    name: &'static str,
    bound: Bound,
    help: &'static str,
}

const SECRET: Bound = Bound::Text {
    min: SECRET_BYTES_MIN,
    max: SECRET_BYTES_MAX,
};

const KEYS: [Key; 5] = [
    Key {
        name: "domain",
        bound: Bound::Domain,
        help: "The domain. Everything that is sent to any of its addresses goes to the component.",
    },
    Key {
        name: "listen",
        bound: Bound::Address,
        help: "Address for its stream; components may share one. Streams of components are not \
               encrypted. Either this or `socket`.",
    },
    Key {
        name: "socket",
        bound: Bound::Path { optional: false },
        help: "A socket in the file system instead, which the server makes for its own user and \
               group.",
    },
    Key {
        name: "secret",
        bound: SECRET,
        help: "What the component proves that it is the right one with. Either this or \
               `secret_file`.",
    },
    Key {
        name: "secret_file",
        bound: Bound::Path { optional: false },
        help: "A file with the secret in it and nothing else but white space around it.",
    },
];

/// Where the streams of a component come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At an address.
    Address(SocketAddr),
    /// At a socket in the file system.
    Socket(PathBuf),
}

/// One component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComponentSettings {
    /// Its domain, normalised.
    pub(crate) domain: String,
    /// Where its streams come in.
    pub(crate) place: Place,
    /// What it proves that it is the right one with.
    pub(crate) secret: Secret,
    /// The file that the secret is read from, if it is not in the configuration.
    secret_file: Option<PathBuf>,
}

/// What is wrong, and where, if that is not the whole table.
type Problems = Vec<(Option<Range<usize>>, String)>;

/// Reads the tables.
pub(super) fn read(value: &DeValue<'_>) -> (Vec<ComponentSettings>, Problems) {
    let mut problems = Vec::new();
    let Some(tables) = value.as_array() else {
        problems.push((
            None,
            format!("`{NAME}` is a list of tables: write [[{NAME}]]"),
        ));
        return (Vec::new(), problems);
    };
    if tables.len() > LIST_MAX {
        let message = format!("there may be {LIST_MAX} [[{NAME}]], not {}", tables.len());
        problems.push((None, message));
        return (Vec::new(), problems);
    }
    let mut all = Vec::new();
    for table in tables.iter() {
        match table.get_ref().as_table() {
            Some(keys) => all.extend(read_one(keys, &table.span(), &mut problems)),
            None => {
                let message = format!("`{NAME}` is a list of tables: write [[{NAME}]]");
                problems.push((Some(table.span()), message));
            }
        }
    }
    (all, problems)
}

fn read_one(
    table: &DeTable<'_>,
    span: &Range<usize>,
    problems: &mut Problems,
) -> Option<ComponentSettings> {
    let before = problems.len();
    for (name, _) in table {
        let name_is = |key: &Key| key.name == name.get_ref();
        if !KEYS.iter().any(name_is) {
            let full = shown(&format!("{NAME}.{}", name.get_ref()));
            let message = match nearest(name.get_ref(), KEYS.iter().map(|key| key.name)) {
                Some(meant) => format!("unknown key `{full}`; did you mean `{meant}`?"),
                None => {
                    let all = KEYS.map(|key| key.name).join(", ");
                    format!("unknown key `{full}`; there are {all}")
                }
            };
            problems.push((Some(name.span()), message));
        }
    }
    let mut take = |name: &str| {
        let key = KEYS.iter().find(|key| key.name == name)?;
        let given = table.get(name)?;
        let is_secret = name == "secret";
        match key.bound.read(given.get_ref()) {
            Ok(Plain::Text(text)) if text.is_empty() => {
                let message = format!("`{NAME}.{name}` is empty");
                problems.push((Some(given.span()), message));
                None
            }
            Ok(plain) => Some(plain),
            // A secret that is wrong may be almost right: it is not shown.
            Err(_) if is_secret => {
                let takes = key.bound.describe().replace(", or \"\" for none", "");
                problems.push((Some(given.span()), format!("`{NAME}.secret` takes {takes}")));
                None
            }
            Err(message) => {
                problems.push((Some(given.span()), format!("`{NAME}.{name}` {message}")));
                None
            }
        }
    };
    let domain = take("domain");
    let (listen, socket) = (take("listen"), take("socket"));
    let (secret, file) = (take("secret"), take("secret_file"));
    let mut refuse = |message: String| problems.push((Some(span.clone()), message));
    if !table.contains_key("domain") {
        refuse(format!("[[{NAME}]] needs `domain`"));
    }
    for (one, other) in [("listen", "socket"), ("secret", "secret_file")] {
        match (table.contains_key(one), table.contains_key(other)) {
            (true, true) => refuse(format!(
                "[[{NAME}]] has `{one}` and `{other}`: remove one, or one of them does nothing"
            )),
            (false, false) => refuse(format!("[[{NAME}]] needs `{one}` or `{other}`")),
            (true, false) | (false, true) => {}
        }
    }
    if problems.len() > before {
        return None;
    }
    let place = match (listen, socket) {
        (Some(Plain::Address(address)), _) => Place::Address(address),
        (_, Some(Plain::Path(path))) => Place::Socket(path),
        _ => return None,
    };
    let (secret, secret_file) = match (secret, file) {
        (Some(Plain::Text(text)), _) => (text, None),
        (_, Some(Plain::Path(path))) => (String::new(), Some(path)),
        _ => return None,
    };
    match domain {
        Some(Plain::Text(domain)) => Some(ComponentSettings {
            domain,
            place,
            secret: Secret::new(secret),
            secret_file,
        }),
        _ => None,
    }
}

impl ComponentSettings {
    /// Relative paths start at the folder of the file.
    pub(super) fn place_paths(&mut self, folder: &Path) {
        if let Place::Socket(path) = &mut self.place {
            *path = folder.join(&*path);
        }
        if let Some(path) = &mut self.secret_file {
            *path = folder.join(&*path);
        }
    }

    /// Reads the secret, if it is in a file.
    ///
    /// # Errors
    /// What is wrong with that.
    pub(super) fn read_secret(&mut self) -> Result<(), String> {
        let Some(path) = &self.secret_file else {
            return Ok(());
        };
        let refuse = |why: &str| format!("`{NAME}.secret_file` {}: {why}", path.display());
        let file = fs::File::open(path).map_err(|error| refuse(&error.to_string()))?;
        let mut text = String::new();
        let read = file
            .take(SECRET_BYTES_MAX as u64 + 1)
            .read_to_string(&mut text);
        read.map_err(|error| refuse(&error.to_string()))?;
        let secret = text.trim();
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len()) {
            return Err(refuse(&format!(
                "a secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes, this one {}",
                secret.len()
            )));
        }
        self.secret = Secret::new(secret.to_owned());
        Ok(())
    }
}

/// What the tables are about.
const ABOUT: &str = "A domain that another program serves, over a stream of a component \
                     (XEP-0114, docs/components.md). One table for each; there is none by default.";

/// The part of the default file.
pub(super) fn default_file() -> String {
    let mut out = String::from("\n");
    let mut lines = |text: &str| {
        for line in super::document::wrapped(text, 96) {
            let _ = writeln!(out, "# {line}");
        }
    };
    lines(ABOUT);
    lines("[[components]]");
    for key in KEYS {
        lines(&format!(
            "{}: {} Takes {}.",
            key.name,
            key.help,
            takes(&key)
        ));
    }
    out
}

/// The part of the reference page.
pub(super) fn markdown() -> String {
    let mut out =
        format!("\n## `[[{NAME}]]`\n\n{ABOUT}\n\n| key | takes | meaning |\n|---|---|---|\n");
    for key in KEYS {
        let _ = writeln!(out, "| `{}` | {} | {} |", key.name, takes(&key), key.help);
    }
    out
}

fn takes(key: &Key) -> String {
    key.bound.describe().replace(", or \"\" for none", "")
}
