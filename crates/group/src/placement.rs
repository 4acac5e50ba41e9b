//! Where work goes: nodes chosen by their distance and their attributes at once.
//!
//! Owns rules as people write them, and the order of what is chosen. Deliberately not here: the map
//! ([`crate::distance`]) and attributes ([`crate::Attribute`]).
//!
//! ```
//! use group::placement::Placement;
//!
//! let map = r#"
//!     [[network]]
//!     nodes = ["a@10.0.1.1:4500", "b@10.0.1.2:4500"]
//!     [[network]]
//!     nodes = ["c@10.0.2.1:4500"]
//! "#;
//! // Within the own network, with two cores at least, and with a disk that is fast.
//! let placement = Placement::new(Some(map), &["distance<=0.5", "cores>=2", "ssd"]).unwrap();
//! assert_eq!(placement.predicates().len(), 2);
//! ```

use std::time::Duration;

use crate::attributes::{Predicate, Test, Value};
use crate::command::{Answer, Command, GroupError, Missing};
use crate::distance::{BadNetwork, Far, Map};
use crate::runtime::NodeHandle;
use crate::types::NodeName;

/// What a node must be, and how near, to be given work.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    map: Option<Map>,
    far: Vec<Far>,
    predicates: Vec<Predicate>,
}

/// Why rules or a map are none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPlacement {
    /// The description of the network.
    #[error("the network: {0}")]
    Network(#[from] BadNetwork),
    /// Not `NAME`, `!NAME`, or `NAME` and `VALUE` with `=`, `!=`, `<`, `<=`, `>` or `>=` between.
    #[error("{0:?} is no rule")]
    Rule(String),
    /// A rule about the distance without a map, or whose value is no number.
    #[error("{0:?} needs a network and a number")]
    Distance(String),
}

/// Nodes that were chosen, and those that did not tell their attributes.
pub type Chosen = (Vec<NodeName>, Vec<(NodeName, Missing)>);

impl Placement {
    /// Rules, all of which a node must fulfil, and a description of the network
    /// ([`Map::parse`]) for those about `distance`. `NAME` stands for an attribute that is `true`,
    /// `!NAME` for one that is `false`; other rules compare with a truth, a number or a text.
    ///
    /// # Errors
    /// [`BadPlacement`] with the first that is wrong.
    pub fn new(
        network: Option<&str>,
        rules: &[impl AsRef<str>],
    ) -> Result<Placement, BadPlacement> {
        let mut placement = Placement {
            map: network.map(Map::parse).transpose()?,
            ..Placement::default()
        };
        for rule in rules.iter().map(AsRef::as_ref) {
            let (name, test) = parse(rule).ok_or_else(|| BadPlacement::Rule(rule.into()))?;
            if name != "distance" {
                placement.predicates.push(Predicate::new(name, test));
                continue;
            }
            let far = far(&test).filter(|_| placement.map.is_some());
            let far = far.ok_or_else(|| BadPlacement::Distance(rule.into()))?;
            placement.far.push(far);
        }
        Ok(placement)
    }

    /// The rules about attributes.
    pub fn predicates(&self) -> &[Predicate] {
        &self.predicates
    }

    /// Those of some nodes that are as far from `me` as the rules want: the nearest first, and
    /// nodes of one network side by side. Without a map, all in their order.
    pub fn near(&self, me: &NodeName, among: &[NodeName]) -> Vec<NodeName> {
        let Some(map) = &self.map else {
            return among.to_vec();
        };
        let mut nodes = match self.far.is_empty() {
            true => among.to_vec(),
            false => map.choose(me, Some(among), &self.far),
        };
        nodes.sort_by(|one, other| {
            // Those that are on no map come last.
            let far = |node| map.distance(me, node).unwrap_or(f64::INFINITY);
            let by_distance = far(one).total_cmp(&far(other));
            by_distance.then_with(|| map.place(one).cmp(&map.place(other)))
        });
        nodes
    }

    /// Those of some nodes that fulfil every rule, as [`Placement::near`] orders them, and those
    /// that told no attributes within `deadline`. Whoever is too far is not asked.
    ///
    /// # Errors
    /// If the own node does not answer.
    pub fn choose(
        &self,
        node: &NodeHandle,
        among: &[NodeName],
        deadline: Duration,
    ) -> Result<Chosen, GroupError> {
        let near = self.near(node.name(), among);
        if self.predicates.is_empty() || near.is_empty() {
            return Ok((near, Vec::new()));
        }
        let question = Command::ChooseBy {
            nodes: near.clone(),
            predicates: self.predicates.clone(),
            deadline,
        };
        match node.command(question, deadline + GRACE)? {
            Answer::Chosen { nodes, missing } => {
                let chosen = near.into_iter().filter(|node| nodes.contains(node));
                Ok((chosen.collect(), missing))
            }
            _ => Err(GroupError::NotRunning),
        }
    }
}

/// How much longer this waits than the node, which answers by its own deadline.
const GRACE: Duration = Duration::from_secs(2);

fn value(text: &str) -> Value {
    if let Ok(truth) = text.parse::<bool>() {
        return truth.into();
    }
    if let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    match text.parse::<f64>() {
        Ok(number) => number.into(),
        Err(_) => text.into(),
    }
}

/// What a sign between a name and a value makes of the value.
type Make = fn(Value) -> Test;

fn parse(rule: &str) -> Option<(&str, Test)> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_alphanumeric() || "_-.".contains(c))
    };
    let Some(at) = rule.find(['=', '<', '>']) else {
        let test = if rule.starts_with('!') {
            Test::False
        } else {
            Test::True
        };
        let name = rule.strip_prefix('!').unwrap_or(rule);
        return is_name(name).then_some((name, test));
    };
    // The longer signs first: `<=` begins like `<`.
    let signs: [(&str, Make); 6] = [
        ("!=", Test::Ne),
        ("<=", Test::Le),
        (">=", Test::Ge),
        ("=", Test::Eq),
        ("<", Test::Lt),
        (">", Test::Gt),
    ];
    let begin = if rule[..at].ends_with('!') {
        at - 1
    } else {
        at
    };
    let (name, rest) = rule.split_at(begin);
    let mut fitting = signs
        .iter()
        .filter_map(|(sign, make)| Some((rest.strip_prefix(sign)?, make)));
    let (text, make) = fitting.next()?;
    (is_name(name) && !text.is_empty()).then(|| (name, make(value(text))))
}

fn far(test: &Test) -> Option<Far> {
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    match test {
        Test::Eq(value) => number(value).map(Far::Eq),
        Test::Ne(value) => number(value).map(Far::Ne),
        Test::Lt(value) => number(value).map(Far::Lt),
        Test::Le(value) => number(value).map(Far::Le),
        Test::Ge(value) => number(value).map(Far::Ge),
        Test::Gt(value) => number(value).map(Far::Gt),
        Test::True | Test::False | Test::Set => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = r#"
        nodes = ["e"]
        [[network]]
        nodes = ["c", "d"]
        [[network]]
        nodes = ["a", "b"]
    "#;

    fn names(text: &str) -> Vec<NodeName> {
        let name = |c: char| NodeName::new(&c.to_string()).unwrap();
        text.chars().map(name).collect()
    }

    #[test]
    fn rules_are_read() {
        let none: [&str; 0] = [];
        assert!(Placement::new(None, &none).unwrap().predicates().is_empty());
        let rules = [
            "cores>=2",
            "load_1<0.5",
            "os!=plan9",
            "version=0.1.0",
            "ssd",
            "!old",
            "x>-3",
        ];
        let placement = Placement::new(None, &rules).unwrap();
        let tests = [
            ("cores", Test::Ge(Value::Int(2))),
            ("load_1", Test::Lt(Value::Float(0.5))),
            ("os", Test::Ne("plan9".into())),
            ("version", Test::Eq("0.1.0".into())),
            ("ssd", Test::True),
            ("old", Test::False),
            ("x", Test::Gt(Value::Int(-3))),
        ];
        let expected = tests.map(|(name, test)| Predicate::new(name, test));
        assert_eq!(placement.predicates(), expected);
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for rule in ["", "!", "=3", "a=", "a b", "<=4", "!a=3", "ä ö>1"] {
            let refused = Placement::new(None, &[rule]).unwrap_err();
            assert_eq!(refused, BadPlacement::Rule(rule.into()));
        }
        for (map, rule) in [
            (None, "distance<1"),
            (Some(MAP), "distance"),
            (Some(MAP), "distance=x"),
        ] {
            let refused = Placement::new(map, &[rule]).unwrap_err();
            assert_eq!(refused, BadPlacement::Distance(rule.into()));
        }
        let refused = Placement::new(Some("nodes = 3"), &["ssd"]).unwrap_err();
        assert!(matches!(refused, BadPlacement::Network(_)));
    }

    #[test]
    fn the_nearest_come_first_and_networks_stay_together() {
        let all = names("abcdef");
        let me = &all[1];
        let none: [&str; 0] = [];
        let placement = Placement::new(Some(MAP), &none).unwrap();
        assert_eq!(placement.near(me, &all), names("baecdf"));
        let within = Placement::new(Some(MAP), &["distance<=0.5"]).unwrap();
        assert_eq!(within.near(me, &all), names("ba"));
        let beyond = Placement::new(Some(MAP), &["distance>0.5"]).unwrap();
        assert_eq!(beyond.near(me, &all), names("ecd"));
        let without = Placement::new(None, &none).unwrap();
        assert_eq!(without.near(me, &all), all);
    }
}
