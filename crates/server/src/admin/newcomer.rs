//! The ban and allow lists of a node that is new in its cluster. They are in a file of each node,
//! and changed on all nodes that live: whoever comes later takes them over from one of these.

use stdx::time::Clock as _;

use super::{Admin, Request, Response};

impl Admin {
    /// Takes over the lists of the first other node that answers; what is on a list here already
    /// stays as it is. Returns how many entries it had, or nothing if nobody answered. Blocks for
    /// as long as other nodes may take for an answer.
    pub fn take_lists(&self) -> Option<usize> {
        let cluster = self.options.cluster.as_ref()?;
        for (node, name) in cluster.away.others() {
            let Ok(Response::Bans { entries }) = self.call_at(cluster, node, &Request::BanList)
            else {
                continue;
            };
            let count = entries.len();
            let now = self.clock.wall();
            let own = self.guard.bans.entries(now);
            for entry in entries {
                let is_known = own
                    .iter()
                    .any(|known| (&known.what, known.list) == (&entry.what, entry.list));
                if is_known {
                    continue;
                }
                let what = entry.what.clone();
                if let Err(why) = self.guard.bans.put(entry, now) {
                    tracing::error!(what, %why, "an entry of another node's list is left out");
                }
            }
            tracing::info!(node = name, count, "took over the ban and allow lists");
            return Some(count);
        }
        None
    }
}
