//! Connections that move between the shards of a node behind each element of their client
//! (`debug.move_sockets`), so that tests see that nobody depends on where one is
//! (docs/decisions/0151).

use actor::ShardId;
use net::Cx;

use super::{C2sService, Conn, Framing};

impl C2sService {
    /// Whether connections do so. Those of a cluster stay where they are: one that another node
    /// goes on with is known to its shard.
    pub(super) fn moves_sockets(&self) -> bool {
        let options = &self.home.options;
        options.debug_move_sockets && options.cluster.is_none()
    }

    /// Moves a connection to the next shard, once something of what its client sent is used: what
    /// is incomplete waits where it is.
    pub(super) fn move_on(&self, cx: &mut Cx<'_>, conn: &Conn, consumed: usize) {
        if consumed > 0 && self.moves_sockets() && conn.has_socket() {
            let next = (cx.shard().index() + 1) % self.home.options.shards;
            cx.move_to(ShardId::new(next));
        }
    }
}

impl Conn {
    /// Whether there is a socket of this node under it.
    pub(super) fn has_socket(&self) -> bool {
        !self.is_far && !matches!(self.framing, Framing::Bosh(_))
    }
}
