//! The way of vertices between groups.
//!
//! Owns relaying: what comes from a worker of its group goes to a gateway of the receiver's group,
//! and what comes from there to the receiver. Deliberately not here: any bound of its own; a worker
//! has one message under way to each other worker, which bounds what is under way here.

use group::{Event, Process, Reason, Scope};

use super::wire::{Peers, Relay, decode, encode};

#[derive(Default)]
pub(super) struct Gateway {
    peers: Peers,
}

impl Process for Gateway {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        if self.take(event, cx).is_none() {
            cx.stop(Reason::Failed("a message of a gateway was lost".into()));
        }
    }
}

impl Gateway {
    /// `None` if something could not be understood or sent.
    fn take(&mut self, event: Event, cx: &mut Scope<'_, '_>) -> Option<()> {
        match event {
            Event::Request { from, body } => {
                self.peers = decode(&body)?;
                cx.reply(from, Vec::new()).ok()
            }
            Event::Message { body, .. } => {
                let relay: Relay = decode(&body)?;
                let group = self.peers.layout.as_ref()?.group_of(relay.to);
                if group == self.peers.group {
                    let at = relay.to - self.peers.first;
                    let worker = self.peers.workers.get(at as usize)?;
                    return cx.send(worker, encode(&relay.msg)).ok();
                }
                let gateways = self.peers.gateways.get(group as usize)?;
                let gateway = gateways.get(relay.to as usize % gateways.len().max(1))?;
                cx.send(gateway, body).ok()
            }
            Event::Refused { .. } => None,
            _ => Some(()),
        }
    }
}
