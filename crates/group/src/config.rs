//! Groups as a file has them: those that are configured, and those that a node was in last.
//!
//! Owns both formats, which are TOML. Deliberately not here: reading and writing files; the host
//! does.
//!
//! ```toml
//! [[group]]
//! name = "left"
//! nodes = ["a@10.0.0.1:4500", "b@10.0.0.2:4500"]
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::types::{Name, NodeName, check_name};
use crate::view::{RESERVED, View};

/// A group that is configured. A node that is in none of them is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// What it is called.
    pub name: Name,
    /// Its members.
    pub nodes: Vec<NodeName>,
}

/// What a node keeps for its next life.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The groups that it was in.
    #[serde(default)]
    pub groups: Vec<View>,
    /// Groups that were deleted or that it left: what others say of them is old.
    #[serde(default)]
    pub left: Vec<View>,
}

/// Why a file is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadConfig(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    group: Vec<Section>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    name: String,
    nodes: Vec<NodeName>,
    #[serde(default)]
    publish: Publish,
}

/// Hidden groups were never specified: a file that asks for one is refused.
#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Publish {
    #[default]
    Normal,
}

/// Reads a configuration. Sections of one name are merged; the reserved names are left out.
///
/// # Errors
/// [`BadConfig`], saying what is wrong where.
pub fn parse(text: &str) -> Result<Vec<GroupConfig>, BadConfig> {
    let file: File = toml::from_str(text).map_err(|error| BadConfig(error.to_string()))?;
    let mut merged: BTreeMap<Name, GroupConfig> = BTreeMap::new();
    for section in file.group {
        let Publish::Normal = section.publish;
        if RESERVED.contains(&section.name.as_str()) {
            continue;
        }
        check_name(&section.name).map_err(|error| BadConfig(error.to_string()))?;
        let name = Name::from(section.name);
        let group = merged.entry(Name::clone(&name));
        let group = group.or_insert_with(|| GroupConfig {
            name,
            nodes: Vec::new(),
        });
        group.nodes.extend(section.nodes);
        group.nodes.sort();
        group.nodes.dedup();
    }
    Ok(merged.into_values().collect())
}

impl Saved {
    /// Reads what [`Saved::to_text`] wrote.
    ///
    /// # Errors
    /// [`BadConfig`], saying what is wrong where.
    pub fn parse(text: &str) -> Result<Self, BadConfig> {
        toml::from_str(text).map_err(|error| BadConfig(error.to_string()))
    }

    /// The text of a file.
    ///
    /// # Errors
    /// [`BadConfig`], if there is a number that TOML cannot have (above 2^63).
    pub fn to_text(&self) -> Result<String, BadConfig> {
        toml::to_string(self).map_err(|error| BadConfig(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::GroupId;

    #[test]
    fn sections_of_one_name_are_merged_and_reserved_ones_left_out() {
        let text = r#"
            [[group]]
            name = "g"
            nodes = ["b@h:1", "a@h:1"]
            [[group]]
            name = "undefined"
            nodes = ["c@h:1"]
            [[group]]
            name = "g"
            publish = "normal"
            nodes = ["c@h:1", "a@h:1"]
        "#;
        let groups = parse(text).unwrap();
        assert_eq!(groups.len(), 1);
        let nodes: Vec<&str> = groups[0].nodes.iter().map(NodeName::as_str).collect();
        assert_eq!(nodes, ["a@h:1", "b@h:1", "c@h:1"]);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for bad in [
            "[[group]]\nname = 'g'\n",
            "[[group]]\nname = ''\nnodes = []\n",
            "[[group]]\nname = 'g'\nnodes = ['']\n",
            "[[group]]\nname = 'g'\nnodes = []\npublish = 'hidden'\n",
            "[[groups]]\nname = 'g'\nnodes = []\n",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_saved_is_read_again() {
        let view = |name: &str, members: &[&str]| View {
            id: GroupId {
                name: name.into(),
                by: "a@h:1".into(),
                at: 7,
            },
            version: 3,
            by: "b@h:1".into(),
            members: members
                .iter()
                .map(|name| NodeName::new(name).unwrap())
                .collect(),
        };
        let saved = Saved {
            groups: vec![view("g", &["a@h:1", "b@h:1"])],
            left: vec![view("h", &[])],
        };
        assert_eq!(Saved::parse(&saved.to_text().unwrap()).unwrap(), saved);
        assert!(Saved::parse("groups = 3").is_err());
        assert_eq!(Saved::parse("").unwrap(), Saved::default());
    }
}
