//! Requests of sessions over BOSH that came to this shard and wait for the answers of other nodes:
//! how many for which node, and on which connections. Owns the numbers of the nodes that session
//! ids name.

use std::time::Duration;

use net::ConnRef;
use rustc_hash::FxHashMap;
use stdx::time::Moment;

use crate::away::NodeId;

/// See the module.
#[derive(Default)]
pub(crate) struct Passing {
    /// By what session ids say.
    nodes: FxHashMap<u64, NodeId>,
    /// When somebody looked last which nodes there are.
    looked: Option<Moment>,
    waiting: FxHashMap<(NodeId, ConnRef), usize>,
    counts: FxHashMap<NodeId, usize>,
}

impl Passing {
    /// The node that a session id names, if it was ever seen.
    pub(crate) fn node(&self, tag: u64) -> Option<NodeId> {
        self.nodes.get(&tag).copied()
    }

    /// Whether it is time to look which nodes there are. Ids that name none cost no more than that.
    pub(crate) fn looks(&mut self, now: Moment, every: Duration) -> bool {
        let is_due = |looked| now.saturating_since(looked) >= every;
        let is_due = self.looked.is_none_or(is_due);
        if is_due {
            self.looked = Some(now);
        }
        is_due
    }

    /// These there are. The number of one that is gone is not given to another.
    pub(crate) fn saw(&mut self, nodes: impl Iterator<Item = (u64, NodeId)>) {
        self.nodes.extend(nodes);
    }

    /// Requests that wait for a node.
    pub(crate) fn count(&self, node: NodeId) -> usize {
        self.counts.get(&node).copied().unwrap_or_default()
    }

    /// One more does.
    pub(crate) fn begins(&mut self, node: NodeId, conn: ConnRef) {
        *self.counts.entry(node).or_default() += 1;
        *self.waiting.entry((node, conn)).or_default() += 1;
    }

    /// One less does.
    pub(crate) fn ends(&mut self, node: NodeId, conn: ConnRef) {
        if let Some(count) = self.counts.get_mut(&node) {
            *count = count.saturating_sub(1);
        }
        let Some(of_conn) = self.waiting.get_mut(&(node, conn)) else {
            return;
        };
        *of_conn -= 1;
        if *of_conn == 0 {
            self.waiting.remove(&(node, conn));
        }
    }

    /// Connections with requests that wait for a node.
    pub(crate) fn of(&self, node: NodeId) -> Vec<ConnRef> {
        let all = self.waiting.keys();
        let of_node = all.filter(|(other, _)| *other == node);
        of_node.map(|(_, conn)| *conn).collect()
    }
}

#[cfg(test)]
mod tests {
    use actor::ShardId;
    use stdx::slab::Key;

    use super::*;

    fn conn(index: u32) -> ConnRef {
        ConnRef {
            shard: ShardId::new(0),
            id: Key {
                index,
                generation: 1,
            },
        }
    }

    #[test]
    fn requests_are_counted_by_node_and_connection() {
        let (a, b) = (NodeId(0), NodeId(1));
        let mut passing = Passing::default();
        passing.begins(a, conn(1));
        passing.begins(a, conn(1));
        passing.begins(a, conn(2));
        passing.begins(b, conn(1));
        assert_eq!((passing.count(a), passing.count(b)), (3, 1));
        passing.ends(a, conn(1));
        let mut of_a = passing.of(a);
        of_a.sort_by_key(|conn| conn.id.index);
        assert_eq!(of_a, [conn(1), conn(2)]);
        passing.ends(a, conn(1));
        assert_eq!(passing.of(a), [conn(2)]);
        // Nothing that never began.
        passing.ends(a, conn(3));
        passing.ends(NodeId(9), conn(1));
        assert_eq!(passing.of(b), [conn(1)]);
    }

    #[test]
    fn ids_of_unknown_nodes_are_looked_up_now_and_then() {
        let mut passing = Passing::default();
        let second = Duration::from_secs(1);
        assert!(passing.looks(Moment::ZERO, second));
        assert!(!passing.looks(Moment::ZERO + second / 2, second));
        assert!(passing.looks(Moment::ZERO + second, second));
        passing.saw([(7, NodeId(1))].into_iter());
        assert_eq!(passing.node(7), Some(NodeId(1)));
        assert_eq!(passing.node(8), None);
    }
}
