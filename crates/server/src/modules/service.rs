//! Small services: something with an address of its own that answers requests there, and keeps
//! named parts. One is a table row and a function, as an extension is; that it is read, evicted,
//! taken up again and counted is `crate::entity::service`'s. `docs/extending.md` shows one.
//!
//! | a handler returns | then |
//! |---|---|
//! | an answer | it leaves at once |
//! | a result and changes | they are appended; once they are durable, parts change and the result leaves |
//! | the same, and the append is refused | nothing has changed, and whoever asked gets an error |
//! | an error | it leaves at once, and nothing changes |

use std::collections::BTreeMap;
use std::fmt;

use stdx::time::Timestamp;
use xmpp::error::{Condition, StanzaError};

use crate::address;
use crate::iq::Answer;

/// What one small service is.
pub struct Service {
    /// What goes in front of each domain of accounts, and a dot, where one is: `votes` for
    /// `votes.example.org`.
    pub host: &'static str,
    /// Category, type and name that service discovery shows (XEP-0030).
    pub identity: (&'static str, &'static str, &'static str),
    /// Namespaces that it answers, beside those of every service.
    pub features: &'static [&'static str],
    /// Bytes of all its parts and their names. A change beyond that is refused with
    /// `resource-constraint`.
    pub bytes_max: usize,
    /// Answers a request.
    pub handle: fn(&View<'_>, &Request<'_>) -> Outcome,
}

impl Service {
    /// Where it is, at these domains of accounts.
    pub(crate) fn hosts(&self, domains: &[String]) -> impl Iterator<Item = String> {
        domains
            .iter()
            .map(|domain| format!("{}.{domain}", self.host))
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.host)
    }
}

/// A service as it is now.
pub struct View<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) now: Timestamp,
}

impl<'a> View<'a> {
    /// The time of the request.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// A part, if it is there.
    pub fn part(&self, name: &str) -> Option<&'a [u8]> {
        self.parts.all.get(name).map(Vec::as_slice)
    }

    /// All parts whose names begin like this, in the order of their names.
    pub fn parts(&self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        let behind = self.parts.all.range(prefix.to_owned()..);
        behind
            .map(|(name, value)| (name.as_str(), value.as_slice()))
            .take_while(move |(name, _)| name.starts_with(prefix))
    }
}

/// A request to a service.
pub struct Request<'a> {
    /// Its one child.
    pub payload: xml::Child<'a>,
    /// `type='set'` rather than `get`.
    pub is_set: bool,
    /// The full address of whoever asks.
    pub from: &'a str,
}

impl Request<'_> {
    /// The bare address of whoever asks.
    pub fn account(&self) -> &str {
        address::bare(self.from)
    }
}

/// What a handler returns.
pub struct Outcome {
    pub(crate) answer: Answer,
    pub(crate) changes: Vec<(String, Vec<u8>)>,
}

impl Outcome {
    /// `type='result'` with this payload, empty for none.
    pub fn result(payload: Vec<u8>) -> Outcome {
        Outcome {
            answer: Answer::Result(payload),
            changes: Vec::new(),
        }
    }

    /// An error.
    pub fn error(condition: Condition) -> Outcome {
        StanzaError::new(condition).into()
    }

    /// And a part gets a value; an empty one removes it. Each part at most once.
    #[must_use]
    pub fn and_put(mut self, name: &str, value: Vec<u8>) -> Outcome {
        self.changes.push((name.to_owned(), value));
        self
    }
}

impl From<StanzaError> for Outcome {
    fn from(error: StanzaError) -> Outcome {
        Outcome {
            answer: Answer::Error(error),
            changes: Vec::new(),
        }
    }
}

/// What a service keeps.
#[derive(Default)]
pub(crate) struct Parts {
    all: BTreeMap<String, Vec<u8>>,
    /// Of all of them, with their names.
    bytes: usize,
}

impl Parts {
    pub(crate) fn set(&mut self, name: String, value: Vec<u8>) {
        let size = name.len() + value.len();
        let before = match value.is_empty() {
            true => self.all.remove_entry(&name),
            false => {
                self.bytes += size;
                let before = self.all.insert(name.clone(), value);
                before.map(|value| (name, value))
            }
        };
        self.bytes -= before.map_or(0, |(name, value)| name.len() + value.len());
    }

    /// Bytes that they have after these changes, of different parts.
    pub(crate) fn bytes_with(&self, changes: &[(String, Vec<u8>)]) -> usize {
        changes.iter().fold(self.bytes, |bytes, (name, value)| {
            let size = |value: &Vec<u8>| name.len() + value.len();
            let gone = self.all.get(name).map_or(0, size);
            let comes = if value.is_empty() { 0 } else { size(value) };
            (bytes + comes).saturating_sub(gone)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_parts_and_names() {
        let mut parts = Parts::default();
        parts.set("ab".to_owned(), vec![0; 3]);
        parts.set("a".to_owned(), vec![0; 1]);
        assert_eq!(parts.bytes, 7);
        let changes = [("ab".to_owned(), vec![0; 5]), ("a".to_owned(), Vec::new())];
        assert_eq!(parts.bytes_with(&changes), 7);
        for (name, value) in changes {
            parts.set(name, value);
        }
        assert_eq!(parts.bytes, 7);
        parts.set("none".to_owned(), Vec::new());
        parts.set("ab".to_owned(), Vec::new());
        assert_eq!((parts.bytes, parts.all.len()), (0, 0));
    }
}
