//! The actor of a shard that opens connections for clients of other nodes, and tells those of a
//! node that is gone. Owns no connection.

use std::rc::Rc;
use std::time::Duration;

use actor::{Actor, Context};
use net::{ConnRef, Opener};
use wire::{ConnAt, Joined, Packet, Part};

use super::line::encoded;
use super::{Comer, HERE, at};
use crate::away::NodeId;
use crate::home::Home;
use crate::message::control::{Control, Word};
use crate::message::web;
use crate::web::Connection;

/// Pause before a link that took nothing is asked again.
const RETRY: Duration = Duration::from_millis(20);

/// What it is told.
pub(crate) enum KeeperMsg {
    /// A client came to another node.
    Comes(Comer),
    /// There was no room for such a client, whose node and connection this is.
    Full(NodeId, ConnAt, u64),
    /// A process of a node is gone.
    Gone(NodeId),
    /// Some connections have to be told something.
    Tell(News, Vec<ConnRef>),
    /// A link took nothing: those who wait are told in a moment.
    Later,
    /// That moment has come.
    Due,
}

/// What many connections are told, some at a time.
#[derive(Clone, Copy)]
pub(crate) enum News {
    /// Their node is gone.
    Lost,
    /// The same, of which some requests wait for an answer.
    Gone(NodeId),
    /// A link that took nothing may take something now.
    TryAgain,
}

/// See the module.
pub(crate) struct Keeper(pub(crate) Rc<Home>, pub(crate) Opener<Connection>);

impl Actor for Keeper {
    type Msg = KeeperMsg;

    fn handle(&mut self, msg: KeeperMsg, cx: &mut Context<'_, KeeperMsg>) {
        match msg {
            KeeperMsg::Comes(comer) => self.open(comer),
            KeeperMsg::Full(node, from, number) => self.0.refuse_line(node, from, number),
            KeeperMsg::Gone(node) => {
                let conns = self.0.lines.of(node);
                self.tell(News::Lost, conns, cx);
                let waiting = self.0.lines.passing.borrow().of(node);
                self.tell(News::Gone(node), waiting, cx);
            }
            KeeperMsg::Tell(news, conns) => self.tell(news, conns, cx),
            KeeperMsg::Later => {
                cx.send_after(RETRY, KeeperMsg::Due);
            }
            KeeperMsg::Due => {
                let conns = std::mem::take(&mut *self.0.lines.later.borrow_mut());
                self.tell(News::TryAgain, conns, cx);
            }
        }
    }
}

impl Keeper {
    fn open(&self, comer: Comer) {
        let (node, (from, number), address) = (comer.node, comer.line(), comer.address());
        let conn = Connection::Coming(Some(Box::new(comer)));
        let opened = match node == HERE {
            true => self.1.open_half(address, conn),
            false => self.1.open(None, Some(address), conn),
        };
        if opened.is_err() {
            self.0.refuse_line(node, from, number);
        }
    }

    /// Tells some at a time: a shard has room for so many words to its connections.
    fn tell(&self, news: News, mut conns: Vec<ConnRef>, cx: &mut Context<'_, KeeperMsg>) {
        let at_once = self.0.options.joined.told_at_once.max(1);
        let rest = conns.split_off(conns.len().min(at_once));
        for conn in conns {
            let said = match news {
                News::Lost => word(Word::Lost),
                News::TryAgain => word(Word::TryAgain),
                News::Gone(node) => Control::Web(Box::new(web::Control::Gone(node))),
            };
            // One that has gone meanwhile knows more.
            let _ = self.0.io.control(cx, conn, said);
        }
        if !rest.is_empty() {
            cx.send_after(Duration::ZERO, KeeperMsg::Tell(news, rest));
        }
    }
}

/// As a connection hears it.
pub(super) fn word(word: Word) -> Control {
    Control::Web(Box::new(web::Control::Joined(word)))
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
