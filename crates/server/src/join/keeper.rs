//! The actor of a shard that opens connections for clients of other nodes, and tells those of a
//! node that is gone. Owns no connection.

use std::rc::Rc;
use std::time::Duration;

use actor::{Actor, Context};
use net::ConnRef;
use wire::{ConnAt, Joined, Packet, Part};

use super::line::encoded;
use super::{Comer, Word, at};
use crate::away::NodeId;
use crate::c2s;
use crate::home::Home;
use crate::web::{self, Connection};

/// Pause before a link that took nothing is asked again.
const RETRY: Duration = Duration::from_millis(20);

/// Connections that are told in one turn.
const TOLD_AT_ONCE: usize = 1_024;

/// What it is told.
pub(crate) enum KeeperMsg {
    /// A client came to another node.
    Comes(Comer),
    /// A process of a node is gone.
    Gone(NodeId),
    /// Some of the connections of such a node have to be told.
    Tell(Vec<ConnRef>),
    /// A link took nothing: those who wait are told in a moment.
    Later,
    /// That moment has come.
    Due,
}

/// See the module.
pub(crate) struct Keeper(pub(crate) Rc<Home>);

impl Actor for Keeper {
    type Msg = KeeperMsg;

    fn handle(&mut self, msg: KeeperMsg, cx: &mut Context<'_, KeeperMsg>) {
        match msg {
            KeeperMsg::Comes(comer) => self.open(comer),
            KeeperMsg::Gone(node) => {
                let conns = self.0.lines.of(node);
                self.tell(conns, cx);
            }
            KeeperMsg::Tell(conns) => self.tell(conns, cx),
            KeeperMsg::Later => {
                cx.send_after(RETRY, KeeperMsg::Due);
            }
            KeeperMsg::Due => {
                let conns = std::mem::take(&mut *self.0.lines.later.borrow_mut());
                for conn in conns {
                    // One that has gone meanwhile has nothing to send.
                    let _ = self.0.io.control(cx, conn, word(Word::TryAgain));
                }
            }
        }
    }
}

impl Keeper {
    fn open(&self, comer: Comer) {
        let (node, from, number) = (comer.node, comer.join.from, comer.join.number);
        let address = comer.join.address;
        let conn = Connection::Coming(Some(Box::new(comer)));
        if self.0.io.open(None, Some(address), conn).is_err() {
            self.0.refuse_line(node, from, number);
        }
    }

    fn tell(&self, mut conns: Vec<ConnRef>, cx: &mut Context<'_, KeeperMsg>) {
        let rest = conns.split_off(conns.len().min(TOLD_AT_ONCE));
        for conn in conns {
            // One that has gone meanwhile knows more.
            let _ = self.0.io.control(cx, conn, word(Word::Lost));
        }
        if !rest.is_empty() {
            cx.send_after(Duration::ZERO, KeeperMsg::Tell(rest));
        }
    }
}

/// As a connection hears it.
pub(super) fn word(word: Word) -> c2s::Control {
    c2s::Control::Web(Box::new(web::Control::Joined(word)))
}

impl Home {
    /// Somebody speaks of a connection that is not here, or not any more.
    pub(crate) fn line_is_gone(&self, node: NodeId, joined: &Joined) {
        // Of an end nobody needs to hear.
        if !matches!(joined.said, Part::End { .. }) {
            self.refuse_line(node, joined.from, joined.number);
        }
    }

    /// Tells a node that nobody here has a connection that it speaks of.
    pub(crate) fn refuse_line(&self, node: NodeId, to: ConnAt, number: u64) {
        let Some(cluster) = &self.options.cluster else {
            return;
        };
        let end = Packet::Joined(Joined {
            to,
            from: at(ConnRef {
                shard: actor::ShardId::new(0),
                id: stdx::slab::Key::DEAD,
            }),
            number,
            said: Part::End {
                at: 0,
                is_orderly: false,
            },
        });
        cluster.away.answer(node, encoded(&end));
    }
}
