//! How far nodes are from each other, by a description of the network.
//!
//! Owns the tree of networks, distances in it, its picture, and choosing by distance. The distance
//! of two nodes is 0 for one and the same, else 2^(1-L), where L is how many networks of their
//! paths, the root included, they have in common: 1 with nothing but the root, 1/2 within one
//! network below it.
//! Deliberately not here: attributes.

use std::fmt::Write;

use serde::Deserialize;
use stdx::rand::Rng;

use crate::types::NodeName;

/// A network, with networks and nodes in it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// What it is called, for the picture.
    #[serde(default)]
    pub name: Option<String>,
    /// Networks in it.
    #[serde(default, rename = "network")]
    pub networks: Vec<Network>,
    /// Nodes that are directly in it.
    #[serde(default)]
    pub nodes: Vec<NodeName>,
}

/// Why a description is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNetwork {
    /// Not the format.
    #[error("{0}")]
    Format(String),
    /// A node is in two places.
    #[error("{0} is in two places")]
    Twice(NodeName),
    /// Networks in networks, too many times.
    #[error("more than 64 networks inside of each other")]
    Deep,
}

/// The most networks inside of each other. A distance is then at least 2^-64.
const DEPTH_MAX: usize = 64;

/// A condition on a distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Far {
    /// Less than.
    Lt(f64),
    /// At most.
    Le(f64),
    /// Greater than.
    Gt(f64),
    /// At least.
    Ge(f64),
    /// Equal: distances are powers of two, which numbers have exactly.
    Eq(f64),
    /// Unequal.
    Ne(f64),
}

impl Far {
    fn holds(self, distance: f64) -> bool {
        match self {
            Far::Lt(other) => distance < other,
            Far::Le(other) => distance <= other,
            Far::Gt(other) => distance > other,
            Far::Ge(other) => distance >= other,
            Far::Eq(other) => distance == other,
            Far::Ne(other) => distance != other,
        }
    }
}

/// Where nodes are.
#[derive(Clone, Debug)]
pub struct Map {
    root: Network,
    /// Every node with the path of networks from the root, which is itself in no path.
    paths: Vec<(NodeName, Vec<usize>)>,
}

impl Map {
    /// Reads a description in TOML:
    ///
    /// ```toml
    /// nodes = ["c@10.0.2.1:4500"]
    /// [[network]]
    /// name = "Berlin"
    /// nodes = ["a@10.0.1.1:4500", "b@10.0.1.2:4500"]
    /// ```
    ///
    /// # Errors
    /// [`BadNetwork`].
    pub fn parse(text: &str) -> Result<Map, BadNetwork> {
        let root = toml::from_str(text).map_err(|error| BadNetwork::Format(error.to_string()))?;
        Map::new(root)
    }

    /// A map of a network.
    ///
    /// # Errors
    /// [`BadNetwork`], if a node is in two places or the networks are too deep.
    pub fn new(root: Network) -> Result<Map, BadNetwork> {
        let mut paths = Vec::new();
        walk(&root, &mut Vec::new(), &mut paths)?;
        paths.sort();
        if let Some(pair) = paths.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(BadNetwork::Twice(pair[0].0.clone()));
        }
        Ok(Map { root, paths })
    }

    /// Where a node is, for an order in which those of one network stand side by side.
    pub(crate) fn place(&self, node: &NodeName) -> Option<(&[usize], &NodeName)> {
        let at = self
            .paths
            .binary_search_by(|(name, _)| name.cmp(node))
            .ok()?;
        Some((&self.paths[at].1, &self.paths[at].0))
    }

    /// The distance of two nodes; nothing, if either is unknown.
    pub fn distance(&self, one: &NodeName, other: &NodeName) -> Option<f64> {
        let (a, b) = (self.place(one)?.0, self.place(other)?.0);
        if one == other {
            return Some(0.0);
        }
        let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        Some(0.5_f64.powi(common as i32))
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.paths.iter().map(|(node, _)| node)
    }

    /// The largest distance of two nodes; 0 with fewer than two.
    pub fn max_distance(&self) -> f64 {
        self.distances().fold(0.0, f64::max)
    }

    /// The smallest distance of two nodes; 0 with fewer than two.
    pub fn min_distance(&self) -> f64 {
        let min = self.distances().fold(f64::INFINITY, f64::min);
        if min.is_finite() { min } else { 0.0 }
    }

    fn distances(&self) -> impl Iterator<Item = f64> {
        let pairs = self.paths.iter().enumerate();
        pairs.flat_map(move |(at, (one, _))| {
            let others = self.paths[at + 1..].iter();
            others.filter_map(move |(other, _)| self.distance(one, other))
        })
    }

    /// Those of some nodes (of all, without) whose distance from `from` fulfils all conditions.
    /// Nodes that are not on the map fulfil none.
    pub fn choose(
        &self,
        from: &NodeName,
        among: Option<&[NodeName]>,
        far: &[Far],
    ) -> Vec<NodeName> {
        let all: Vec<NodeName> = match among {
            Some(nodes) => nodes.to_vec(),
            None => self.nodes().cloned().collect(),
        };
        let is_it = |node: &NodeName| {
            let distance = self.distance(from, node);
            distance.is_some_and(|distance| far.iter().all(|far| far.holds(distance)))
        };
        all.into_iter().filter(is_it).collect()
    }

    /// One of [`Map::choose`], drawn at random.
    pub fn choose_one(
        &self,
        from: &NodeName,
        among: Option<&[NodeName]>,
        far: &[Far],
        rng: &mut Rng,
    ) -> Option<NodeName> {
        let nodes = self.choose(from, among, far);
        rng.choice(nodes)
    }

    /// The map as a graph for Graphviz (`dot -Tsvg`).
    pub fn render(&self) -> String {
        let mut text = String::from("graph network {\n    node [shape=box];\n");
        let mut next = 0;
        draw(&self.root, None, &mut next, &mut text);
        text.push_str("}\n");
        text
    }
}

fn walk(
    network: &Network,
    path: &mut Vec<usize>,
    paths: &mut Vec<(NodeName, Vec<usize>)>,
) -> Result<(), BadNetwork> {
    if path.len() > DEPTH_MAX {
        return Err(BadNetwork::Deep);
    }
    paths.extend(
        network
            .nodes
            .iter()
            .map(|node| (node.clone(), path.clone())),
    );
    for (at, inner) in network.networks.iter().enumerate() {
        path.push(at);
        walk(inner, path, paths)?;
        path.pop();
    }
    Ok(())
}

fn draw(network: &Network, parent: Option<usize>, next: &mut usize, text: &mut String) {
    let id = *next;
    *next += 1;
    let name = network.name.as_deref().unwrap_or("");
    // Writing to a string does not fail.
    let _ = writeln!(text, "    n{id} [label={name:?} shape=ellipse];");
    if let Some(parent) = parent {
        let _ = writeln!(text, "    n{parent} -- n{id};");
    }
    for node in &network.nodes {
        let leaf = *next;
        *next += 1;
        let _ = writeln!(text, "    n{leaf} [label={:?}];", node.as_str());
        let _ = writeln!(text, "    n{id} -- n{leaf};");
    }
    for inner in &network.networks {
        draw(inner, Some(id), next, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORLD: &str = r#"
        name = "world"
        nodes = ["x"]
        [[network]]
        name = "Berlin"
        nodes = ["c"]
        [[network.network]]
        name = "rack 1"
        nodes = ["a", "b"]
        [[network]]
        name = "Oslo"
        nodes = ["o"]
    "#;

    fn name(text: &str) -> NodeName {
        NodeName::new(text).unwrap()
    }

    #[test]
    fn distances_halve_with_each_network_in_common() {
        let map = Map::parse(WORLD).unwrap();
        let distance = |a, b| map.distance(&name(a), &name(b));
        assert_eq!(distance("a", "a"), Some(0.0));
        assert_eq!(distance("a", "b"), Some(0.25));
        assert_eq!(distance("a", "c"), Some(0.5));
        assert_eq!(distance("a", "o"), Some(1.0));
        assert_eq!(distance("x", "o"), Some(1.0));
        assert_eq!(distance("a", "unknown"), None);
        assert_eq!((map.min_distance(), map.max_distance()), (0.25, 1.0));
        assert_eq!(map.nodes().count(), 5);
    }

    #[test]
    fn nodes_are_chosen_by_distance() {
        let map = Map::parse(WORLD).unwrap();
        let near = map.choose(&name("a"), None, &[Far::Le(0.5), Far::Ne(0.0)]);
        assert_eq!(near, [name("b"), name("c")]);
        let among = [name("b"), name("o"), name("unknown")];
        let far = map.choose(&name("a"), Some(&among), &[Far::Gt(0.5)]);
        assert_eq!(far, [name("o")]);
        let mut rng = Rng::with_seed(1);
        let one = map.choose_one(&name("a"), None, &[Far::Eq(0.25)], &mut rng);
        assert_eq!(one, Some(name("b")));
        let none = map.choose_one(&name("a"), None, &[Far::Lt(0.0)], &mut rng);
        assert_eq!(none, None);
        assert_eq!(map.choose(&name("a"), None, &[Far::Ge(1.0)]).len(), 2);
    }

    #[test]
    fn the_picture_has_every_network_and_node() {
        let picture = Map::parse(WORLD).unwrap().render();
        assert!(picture.starts_with("graph network {") && picture.ends_with("}\n"));
        for label in ["world", "Berlin", "rack 1", "Oslo", "a", "b", "c", "o", "x"] {
            assert!(picture.contains(&format!("label={label:?}")), "{label}");
        }
        assert_eq!(picture.matches(" -- ").count(), 8);
    }

    #[test]
    fn what_is_no_network_is_refused() {
        assert!(matches!(
            Map::parse("nodes = 3"),
            Err(BadNetwork::Format(_))
        ));
        let twice = Map::parse("nodes = ['a']\n[[network]]\nnodes = ['a']");
        assert_eq!(twice.err(), Some(BadNetwork::Twice(name("a"))));
        let mut deep = Network {
            name: None,
            networks: Vec::new(),
            nodes: vec![name("a")],
        };
        for _ in 0..=DEPTH_MAX {
            deep = Network {
                name: None,
                networks: vec![deep],
                nodes: Vec::new(),
            };
        }
        assert_eq!(Map::new(deep).err(), Some(BadNetwork::Deep));
        let empty = Map::parse("").unwrap();
        assert_eq!((empty.min_distance(), empty.max_distance()), (0.0, 0.0));
    }
}
