//! What a node says of itself, and conditions on it.
//!
//! Owns values, the three kinds of attributes, the built-in ones and predicates. One store serves
//! everything that asks: `registered_attributes`, `choose_nodes` by groups and by predicates.
//! Deliberately not here: asking other nodes (`node::query`).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::{Name, check_name};

/// What an attribute may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// Yes or no. An attribute that is only there is `true`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any number.
    Float(f64),
    /// A text, of at most 1,024 bytes.
    Text(String),
}

/// The longest text of an attribute, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 1_024;

impl Value {
    /// Numbers compare with numbers, texts with texts, truths with truths; nothing else does.
    fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
            (Value::Int(a), Value::Float(b)) => (*a as f64).partial_cmp(b),
            (Value::Float(a), Value::Int(b)) => a.partial_cmp(&(*b as f64)),
            (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.into())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Float(number)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Value::Bool(truth)
    }
}

/// What is looked at when an attribute is evaluated: the part that only the running node knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Processes of the node.
    pub processes: u64,
    /// Linked nodes.
    pub links: u64,
    /// Names that this node keeps for its groups.
    pub names: u64,
}

/// Evaluates an attribute; nothing, if it cannot be known here.
pub type Evaluate = Arc<dyn Fn(&Facts) -> Option<Value> + Send + Sync>;

/// One attribute of a node.
#[derive(Clone)]
pub enum Attribute {
    /// Said once.
    Static(Value),
    /// Evaluated when it is inserted.
    Automatic(Evaluate),
    /// Evaluated each time that somebody asks.
    Dynamic(Evaluate),
}

impl fmt::Debug for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attribute::Static(value) => write!(f, "Static({value:?})"),
            Attribute::Automatic(_) => f.write_str("Automatic"),
            Attribute::Dynamic(_) => f.write_str("Dynamic"),
        }
    }
}

/// Why an attribute was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum AttributeError {
    /// `insert` of one that is there.
    #[error("the attribute exists")]
    Exists,
    /// `update` or `delete` of one that is not there.
    #[error("the attribute is not set")]
    NotSet,
    /// The name or the text of the value is too long, or the node has too many.
    #[error("a bound of attributes is reached")]
    Limit,
}

/// The attributes of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    all: BTreeMap<Name, Attribute>,
}

impl Attributes {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.all.contains_key(name)
    }

    /// Sets an attribute, whether it was there or not. An automatic one is evaluated now; one that
    /// cannot be known is left out.
    pub(crate) fn set(
        &mut self,
        name: &Name,
        attribute: Attribute,
        facts: &Facts,
        max: usize,
    ) -> Result<(), AttributeError> {
        let attribute = match attribute {
            Attribute::Automatic(evaluate) => match evaluate(facts) {
                Some(value) => Attribute::Static(value),
                None => return Ok(()),
            },
            other => other,
        };
        let is_long = matches!(&attribute, Attribute::Static(Value::Text(text))
            if text.len() > TEXT_BYTES_MAX);
        let is_full = self.len() >= max && !self.has(name);
        if is_long || is_full || check_name(name).is_err() {
            return Err(AttributeError::Limit);
        }
        self.all.insert(Name::clone(name), attribute);
        Ok(())
    }

    /// Forgets an attribute; false if it was not there.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.all.remove(name).is_some()
    }

    pub(crate) fn names(&self) -> Vec<Name> {
        self.all.keys().cloned().collect()
    }

    /// The values of those that are set.
    pub(crate) fn values(&self, names: &[Name], facts: &Facts) -> BTreeMap<Name, Value> {
        let value = |name: &Name| match self.all.get(name)? {
            Attribute::Static(value) => Some((Name::clone(name), value.clone())),
            Attribute::Automatic(evaluate) | Attribute::Dynamic(evaluate) => {
                Some((Name::clone(name), evaluate(facts)?))
            }
        };
        names.iter().filter_map(value).collect()
    }
}

/// How an attribute is compared.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Equal.
    Eq(Value),
    /// Unequal.
    Ne(Value),
    /// Less than.
    Lt(Value),
    /// At most.
    Le(Value),
    /// At least.
    Ge(Value),
    /// Greater than.
    Gt(Value),
    /// `true`.
    True,
    /// `false`.
    False,
    /// It is there, whatever it is.
    Set,
}

/// A condition on one attribute. A list of them is a conjunction. An attribute that is not set, or
/// that does not compare with the value, fulfils none.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate {
    /// Which attribute.
    pub attribute: Name,
    /// How it is compared.
    pub test: Test,
}

impl Predicate {
    /// A condition on the attribute of this name.
    pub fn new(attribute: &str, test: Test) -> Self {
        Predicate {
            attribute: attribute.into(),
            test,
        }
    }

    /// Whether a node with these values fulfils it.
    pub fn holds(&self, values: &BTreeMap<Name, Value>) -> bool {
        let Some(value) = values.get(&self.attribute) else {
            return false;
        };
        let order = |other: &Value| value.compare(other);
        match &self.test {
            Test::Eq(other) => order(other).is_some_and(Ordering::is_eq),
            Test::Ne(other) => order(other).is_some_and(Ordering::is_ne),
            Test::Lt(other) => order(other).is_some_and(Ordering::is_lt),
            Test::Le(other) => order(other).is_some_and(Ordering::is_le),
            Test::Ge(other) => order(other).is_some_and(Ordering::is_ge),
            Test::Gt(other) => order(other).is_some_and(Ordering::is_gt),
            Test::True => *value == Value::Bool(true),
            Test::False => *value == Value::Bool(false),
            Test::Set => true,
        }
    }
}

/// The attributes that every node has unless it is told not to: cores, memory, load, versions,
/// processes. Those that the operating system does not tell are not set.
pub fn builtins() -> Vec<(Name, Attribute)> {
    type Read = fn(&Facts) -> Option<Value>;
    let automatic: [(&str, Read); 7] = [
        ("cores", |_| {
            let cores = std::thread::available_parallelism().ok()?;
            Some(Value::Int(cores.get() as i64))
        }),
        ("memory_total_bytes", |_| memory("MemTotal:")),
        ("os", |_| Some(Value::from(std::env::consts::OS))),
        ("os_version", |_| {
            let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
            Some(Value::from(text.trim()))
        }),
        ("version", |_| Some(Value::from(env!("CARGO_PKG_VERSION")))),
        ("cpu_model", |_| cpu("model name").map(Value::Text)),
        ("cpu_mhz", |_| {
            Some(Value::Float(cpu("cpu MHz")?.parse().ok()?))
        }),
    ];
    let dynamic: [(&str, Read); 7] = [
        ("load_1", |_| load(0)),
        ("load_5", |_| load(1)),
        ("load_15", |_| load(2)),
        ("memory_free_bytes", |_| memory("MemAvailable:")),
        ("actors", |facts| Some(Value::Int(facts.processes as i64))),
        ("links", |facts| Some(Value::Int(facts.links as i64))),
        ("names", |facts| Some(Value::Int(facts.names as i64))),
    ];
    let automatic =
        automatic.map(|(name, read)| (name.into(), Attribute::Automatic(Arc::new(read))));
    let dynamic = dynamic.map(|(name, read)| (name.into(), Attribute::Dynamic(Arc::new(read))));
    automatic.into_iter().chain(dynamic).collect()
}

/// A line of `/proc/meminfo`, in bytes.
fn memory(key: &str) -> Option<Value> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: i64 = line.split_whitespace().next()?.parse().ok()?;
    Some(Value::Int(kilobytes.checked_mul(1_024)?))
}

fn cpu(key: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().into())
}

fn load(column: usize) -> Option<Value> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    Some(Value::Float(
        text.split_whitespace().nth(column)?.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(list: &[(&str, Value)]) -> BTreeMap<Name, Value> {
        list.iter()
            .map(|(name, value)| ((*name).into(), value.clone()))
            .collect()
    }

    #[test]
    fn predicates_compare_and_undefined_is_false() {
        let node = values(&[
            ("cores", Value::Int(8)),
            ("load", Value::Float(0.5)),
            ("os", "linux".into()),
            ("gpu", true.into()),
        ]);
        let holds = |name: &str, test: Test| Predicate::new(name, test).holds(&node);
        assert!(holds("cores", Test::Ge(Value::Int(8))));
        assert!(!holds("cores", Test::Gt(Value::Int(8))));
        assert!(holds("cores", Test::Gt(Value::Float(7.5))));
        assert!(holds("load", Test::Lt(Value::Int(1))));
        assert!(holds("os", Test::Eq("linux".into())));
        assert!(holds("os", Test::Ne("plan9".into())));
        assert!(!holds("os", Test::Ne(Value::Int(1))));
        assert!(holds("gpu", Test::True) && !holds("gpu", Test::False));
        assert!(!holds("tpu", Test::False) && !holds("tpu", Test::Ne(Value::Int(1))));
        assert!(holds("gpu", Test::Set) && !holds("tpu", Test::Set));
        assert!(!holds("load", Test::Eq(Value::Float(f64::NAN))));
    }

    #[test]
    fn automatic_ones_are_evaluated_once_and_dynamic_ones_each_time() {
        let mut all = Attributes::default();
        let count = |facts: &Facts| Some(Value::Int(facts.processes as i64));
        let facts = |processes| Facts {
            processes,
            ..Facts::default()
        };
        for (name, attribute) in [
            ("a", Attribute::Automatic(Arc::new(count))),
            ("d", Attribute::Dynamic(Arc::new(count))),
        ] {
            all.set(&name.into(), attribute, &facts(1), 2).unwrap();
        }
        let values = all.values(&["a".into(), "d".into(), "x".into()], &facts(2));
        let numbers: Vec<_> = values.values().cloned().collect();
        assert_eq!(numbers, [Value::Int(1), Value::Int(2)]);
        let third = all.set(&"c".into(), Attribute::Static(true.into()), &facts(1), 2);
        assert_eq!(third, Err(AttributeError::Limit));
        let long = Value::Text("x".repeat(TEXT_BYTES_MAX + 1));
        let long = all.set(&"a".into(), Attribute::Static(long), &facts(1), 2);
        assert_eq!(long, Err(AttributeError::Limit));
    }

    #[test]
    fn the_built_in_ones_tell_of_this_machine() {
        let mut all = Attributes::default();
        for (name, attribute) in builtins() {
            all.set(&name, attribute, &Facts::default(), 64).unwrap();
        }
        let values = all.values(&all.names(), &Facts::default());
        let holds = |name: &str, test| Predicate::new(name, test).holds(&values);
        assert!(holds("cores", Test::Ge(Value::Int(1))));
        assert!(holds("version", Test::Set));
        assert!(holds("actors", Test::Eq(Value::Int(0))));
    }
}
