//! A client has said whose it is, and that account is at home on another node: what it has said
//! goes there. While a home is being replaced the client waits, and is said to the next one.

use net::Cx;
use stdx::time::Moment;
use store::RangeId;
use wire::{Carrier, Join, Packet};

use super::edge::Edge;
use super::line::encoded;
use super::{HERE, Prelude, at};
use crate::away::{Cluster, NodeId};
use crate::c2s::{C2sService, Conn, Framing};
use crate::ending::Abort;

/// A client that no home has answered.
pub(crate) struct Joining {
    /// What it has said.
    join: Join,
    /// Since when it waits.
    since: Moment,
}

impl C2sService {
    pub(super) fn cluster(&self) -> Option<Cluster> {
        self.home.options.cluster.clone()
    }

    /// Whether a client that says whose it is stays an edge here: its account is at home on another
    /// node, or may be one day.
    pub(crate) fn is_joined(&self, conn: &Conn, user: &str) -> bool {
        if self.home.is_elsewhere(user) {
            return true;
        }
        // Sessions over BOSH outlive no home.
        let may_outlive = !conn.is_far() && !matches!(conn.framing, Framing::Bosh(_));
        let joined = &self.home.options.joined;
        self.home.options.cluster.is_some() && joined.at_home && may_outlive
    }

    /// A client has said that it is somebody who is at home on another node: that one goes on with
    /// it, from what it has said so far. This node may be that one itself.
    pub(crate) fn join(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, user: &str) {
        if conn.is_far() {
            // It came from another node: from there it finds the right one.
            return self.abort(cx, conn, Abort::Moved);
        }
        let range = self.home.place.range(user);
        let home = self.home_to_join(range);
        let (Some(cluster), Some((node, tenure))) = (self.cluster(), home) else {
            return self.wait_to_join(cx, conn, user);
        };
        let number = self.line_number();
        let prelude = conn.take_prelude();
        let join = Join {
            user: user.into(),
            range: range.index(),
            tenure,
            from: at(cx.id()),
            number,
            address: conn.address,
            carrier: match conn.framing {
                Framing::Stream(_) => Carrier::Socket,
                Framing::WebSocket(_) => Carrier::WebSocket,
                Framing::Bosh(_) => Carrier::Bosh,
            },
            tls: conn.machine.tls(),
            header: prelude.header,
            elements: prelude.elements,
        };
        let packet = Packet::Join(Box::new(join));
        let is_sent = cluster.away.send(node, encoded(&packet)).is_ok();
        // Invariant: it was made above.
        let Packet::Join(join) = packet else { return };
        if !is_sent {
            let Join {
                header, elements, ..
            } = *join;
            conn.put_prelude(Prelude { header, elements });
            return self.wait_to_join(cx, conn, user);
        }
        conn.set_line(self.line_to(node, number));
        if !self.home.options.joined.join_wait_max.is_zero() {
            let (join, since) = (*join, conn.joins_since(user, cx.now()));
            conn.set_joining(Joining { join, since });
        }
        cx.set_deadline(Some(cx.now() + self.home.options.joined.answer_max));
    }

    /// Where a range is at home, and the tenure of that.
    pub(super) fn home_to_join(&self, range: RangeId) -> Option<(NodeId, u32)> {
        let place = &self.home.place;
        match place.is_here(range) {
            true => Some((HERE, place.tenure(range))),
            false => place.away(range),
        }
    }

    /// The one home of all accounts is being replaced: nothing is sent to it any more.
    pub(super) fn is_without_home(&self) -> bool {
        let has_one = self.home.options.joined.has_one_home;
        // All ranges are there, or none is.
        let range = RangeId::from_index(0);
        has_one && range.is_some_and(|range| self.home.place.away(range).is_none())
    }

    /// There is no home, or it takes nothing.
    fn wait_to_join(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, user: &str) {
        let joined = &self.home.options.joined;
        let until = conn.joins_since(user, cx.now()) + joined.join_wait_max;
        if cx.now() >= until {
            return self.unreachable(cx, conn, Some(user));
        }
        cx.set_deadline(Some(cx.now() + joined.home_wait_step));
    }

    /// The home that was told of a client has gone, or is none: another one is told, a moment
    /// later.
    pub(super) fn join_again(&mut self, cx: &mut Cx<'_>, edge: &mut Edge) {
        self.home.lines.remove(cx.id());
        edge.line = self.line_to(edge.line.node, self.line_number());
        cx.set_deadline(Some(cx.now() + self.home.options.joined.home_wait_step));
    }

    /// That moment has come, or there was no answer in time.
    pub(super) fn join_now(&mut self, cx: &mut Cx<'_>, edge: &mut Edge) {
        let joined = &self.home.options.joined;
        let (wait_max, pause, answer_max) = (
            joined.join_wait_max,
            joined.home_wait_step,
            joined.answer_max,
        );
        let Some(mut joining) = edge.joining.take() else {
            return;
        };
        if cx.now().saturating_since(joining.since) >= wait_max {
            return self.lose(cx, edge);
        }
        let number = self.line_number();
        let range = self.home.place.range(&joining.join.user);
        let home = self.home_to_join(range);
        let asked: Option<NodeId> = home.zip(self.cluster()).and_then(|(home, cluster)| {
            (joining.join.tenure, joining.join.number) = (home.1, number);
            let packet = Packet::Join(Box::new(joining.join.clone()));
            let is_sent = cluster.away.send(home.0, encoded(&packet)).is_ok();
            is_sent.then_some(home.0)
        });
        self.home.lines.remove(cx.id());
        edge.line = self.line_to(asked.unwrap_or(edge.line.node), number);
        edge.joining = Some(joining);
        if let Some(node) = asked {
            self.home.lines.add(cx.id(), node);
        }
        let wait = asked.map_or(pause, |_| answer_max);
        cx.set_deadline(Some(cx.now() + wait));
    }
}
