//! Reads TOML against the table of keys: unknown keys, wrong types and values out of bounds are all
//! collected, each with its line, so that one run shows every mistake. Owns the wording of unknown
//! keys; the wording of single values is `value`.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::components::{self, ComponentSettings};
use super::nearest::nearest;
use super::table::{Key, SECTIONS, Section};
use super::value::FromPlain;
use super::{Problem, Resolved};

/// A parsed file, out of which the settings are taken one by one.
pub(crate) struct Values<'t> {
    text: &'t str,
    table: DeTable<'t>,
    resolved: Vec<Resolved>,
    problems: Vec<Problem>,
}

impl<'t> Values<'t> {
    /// Parses a file and checks the names of its sections and keys.
    ///
    /// # Errors
    /// It is not TOML.
    pub(super) fn parse(text: &'t str) -> Result<Values<'t>, Problem> {
        let table = DeTable::parse(text).map_err(|error| Problem {
            line: error.span().map(|span| line_of(text, &span)),
            message: format!("not TOML: {}", error.message().replace('\n', ", ")),
        })?;
        let table = table.into_inner();
        let mut values = Values {
            text,
            table,
            resolved: Vec::new(),
            problems: Vec::new(),
        };
        values.problems = values.unknown();
        Ok(values)
    }

    /// Takes the value of a key, or its default. `None` if the value is refused, which is noted.
    pub(super) fn take<T: FromPlain>(&mut self, section: &str, name: &str) -> Option<T> {
        let key = find(section, name)?;
        let full_name = full_name(section, name);
        let given = match section {
            "" => self.table.get(name),
            _ => self
                .table
                .get(section)
                .and_then(|value| value.get_ref().as_table())
                .and_then(|table| table.get(name)),
        };
        let plain = match given {
            Some(value) => match key.bound.read(value.get_ref()) {
                Ok(plain) => plain,
                Err(message) => {
                    self.problems.push(Problem {
                        line: Some(line_of(self.text, &value.span())),
                        message: format!("`{full_name}` {message}"),
                    });
                    return None;
                }
            },
            None => default_of(key)?,
        };
        let value = T::from_plain(&plain);
        self.resolved.push(Resolved {
            name: full_name,
            value: plain,
            is_live: key.is_live,
            is_given: given.is_some(),
        });
        value
    }

    /// The tables `[[components]]`, as far as they are right.
    pub(super) fn components(&mut self) -> Vec<ComponentSettings> {
        let Some(given) = self.table.get(components::NAME) else {
            return Vec::new();
        };
        let (settings, problems) = components::read(given.get_ref());
        let problems = problems.into_iter().map(|(span, message)| Problem {
            line: Some(line_of(self.text, &span.unwrap_or_else(|| given.span()))),
            message,
        });
        self.problems.extend(problems);
        settings
    }

    /// All values taken, and all problems in the order of the file.
    pub(super) fn finish(mut self) -> (Vec<Resolved>, Vec<Problem>) {
        self.problems.sort_by_key(|problem| problem.line);
        (self.resolved, self.problems)
    }

    fn unknown(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, value) in &self.table {
            let line = line_of(self.text, &name.span());
            let section = SECTIONS
                .iter()
                .find(|section| section.name == name.get_ref().as_ref());
            match (section, value.get_ref()) {
                (Some(section), DeValue::Table(keys)) => {
                    let unknown = keys.iter().filter(|(key, _)| !has(section, key));
                    problems.extend(unknown.map(|(key, _)| Problem {
                        line: Some(line_of(self.text, &key.span())),
                        message: unknown_key(section.name, key.get_ref()),
                    }));
                }
                (Some(section), _) => problems.push(Problem {
                    line: Some(line),
                    message: format!("`{0}` is a section: write [{0}]", section.name),
                }),
                // Each of its tables is looked at when it is read.
                (None, _) if name.get_ref() == components::NAME => {}
                (None, DeValue::Table(_)) if find("", name.get_ref()).is_none() => {
                    problems.push(Problem {
                        line: Some(line),
                        message: unknown_section(name.get_ref()),
                    });
                }
                (None, _) if find("", name.get_ref()).is_none() => problems.push(Problem {
                    line: Some(line),
                    message: unknown_key("", name.get_ref()),
                }),
                _ => {}
            }
        }
        problems
    }
}

fn has(section: &Section, key: &Spanned<std::borrow::Cow<'_, str>>) -> bool {
    section
        .keys
        .iter()
        .any(|known| known.name == key.get_ref().as_ref())
}

fn find(section: &str, name: &str) -> Option<&'static Key> {
    let section = SECTIONS
        .iter()
        .find(|candidate| candidate.name == section)?;
    section.keys.iter().find(|key| key.name == name)
}

/// The default of a key, read like a value of the file. `None` only if the table contradicts
/// itself, which the test of the defaults finds.
fn default_of(key: &Key) -> Option<super::value::Plain> {
    let value = DeValue::parse(key.default).ok()?;
    key.bound.read(value.get_ref()).ok()
}

fn full_name(section: &str, name: &str) -> String {
    if section.is_empty() {
        name.to_owned()
    } else {
        format!("{section}.{name}")
    }
}

fn unknown_section(name: &str) -> String {
    let known = || {
        SECTIONS
            .iter()
            .map(|section| section.name)
            .filter(|name| !name.is_empty())
    };
    match nearest(name, known()) {
        Some(meant) => format!("unknown section [{}]; did you mean [{meant}]?", shown(name)),
        None => {
            let all: Vec<&str> = known().collect();
            format!(
                "unknown section [{}]; there are {}",
                shown(name),
                all.join(", ")
            )
        }
    }
}

/// Says what the key may have been meant to be: the same name elsewhere, or a similar one here, or
/// a similar one elsewhere.
fn unknown_key(section: &str, name: &str) -> String {
    let full = shown(&full_name(section, name));
    if let Some(refusal) = crate::node::always_on(name).filter(|_| section == "modules") {
        return format!("unknown key `{full}`; {refusal}");
    }
    let holder = SECTIONS
        .iter()
        .find(|section| section.keys.iter().any(|key| key.name == name));
    if let Some(holder) = holder {
        return match holder.name {
            "" => format!("unknown key `{full}`; `{name}` stands before the first [section]"),
            other => format!("unknown key `{full}`; `{name}` belongs in section [{other}]"),
        };
    }
    let here = SECTIONS
        .iter()
        .filter(|candidate| candidate.name == section);
    let here = here.flat_map(|section| section.keys.iter().map(|key| key.name));
    if let Some(meant) = nearest(name, here) {
        return format!("unknown key `{full}`; did you mean `{meant}`?");
    }
    let everywhere = SECTIONS
        .iter()
        .flat_map(|s| s.keys.iter().map(move |key| (s.name, key.name)));
    let meant = nearest(name, everywhere.clone().map(|(_, key)| key))
        .and_then(|meant| everywhere.clone().find(|(_, key)| *key == meant));
    match meant {
        Some((section, key)) => {
            format!(
                "unknown key `{full}`; did you mean `{}`?",
                full_name(section, key)
            )
        }
        None => format!("unknown key `{full}`; `roost config` prints every key there is"),
    }
}

/// A name of the file in a message: without control characters, and not endless.
pub(super) fn shown(name: &str) -> String {
    const SHOWN_MAX: usize = 80;
    name.chars()
        .take(SHOWN_MAX)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    let before = text.as_bytes().get(..span.start).unwrap_or_default();
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}
