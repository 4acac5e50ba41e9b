//! Credit: room in a connection's window for one more stanza, on its way back to the connection
//! with whatever becomes of the stanza. Owns who has it back, also where the stanza left its node
//! as bytes, and that nobody can forget it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::{AddressKey, ConnRef, RemoteIo};
use rustc_hash::FxHashMap;
use wire::{Credit, Packet};

use super::control::Control;
use crate::away::{Cluster, NodeId};
use crate::guard::Charge;

/// The credit of one stanza, which its connection gets back when this is dropped: wherever a
/// request ends, its client may send another one.
pub(crate) struct Debt {
    pub(crate) remote: RemoteIo<Control>,
    /// Who has it back.
    pub(crate) to: Option<Creditor>,
    /// Where its client is.
    pub(crate) from: Option<AddressKey>,
    /// What its address is charged for the answer that comes with this.
    pub(crate) charge: Option<Box<Charge>>,
}

/// Who gets a credit back.
#[derive(Debug)]
pub(crate) enum Creditor {
    /// A connection of this node.
    Link(ConnRef),
    /// The node that the stanza came from (`None`: this one), which knows it by a number.
    Away(Arc<Credits>, Option<NodeId>, u64),
}

impl Debt {
    /// That of a stanza which came as bytes.
    pub(crate) fn away(
        remote: RemoteIo<Control>,
        credits: Arc<Credits>,
        (node, number): (Option<NodeId>, u64),
        from: Option<AddressKey>,
    ) -> Debt {
        Debt {
            remote,
            to: Some(Creditor::Away(credits, node, number)),
            from,
            charge: None,
        }
    }

    /// Somebody else gives the credit back.
    pub(crate) fn forgive(mut self) {
        self.to = None;
    }

    /// This goes back with an answer of so many bytes, which its connection has not taken.
    pub(crate) fn answered(&mut self, mut charge: Charge, bytes: usize) {
        charge.answered(bytes as u64);
        self.charge = Some(Box::new(charge));
    }

    /// Gives the credit back, by whatever way there is.
    pub(crate) fn give_back(&mut self) {
        match self.to.take() {
            Some(Creditor::Link(link)) => {
                // A connection that is gone needs no credit.
                let _ = self.remote.credit(link, 1);
            }
            Some(Creditor::Away(credits, node, number)) => credits.answer(node, number),
            None => {}
        }
    }

    /// What the address of the client is charged for the answer, if this came with one.
    pub(crate) fn take_charge(&mut self) -> Option<Charge> {
        self.charge.take().map(|charge| *charge)
    }

    /// Where the client is whose stanza it is, if it is counted.
    pub(crate) fn from(&self) -> Option<AddressKey> {
        self.from
    }
}

impl std::fmt::Debug for Debt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Debt({:?})", self.to)
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Credits of stanzas that left a node as bytes.
pub(crate) struct Credits {
    max: usize,
    away: Mutex<Away>,
    pub(crate) cluster: Option<Cluster>,
}

#[derive(Default)]
struct Away {
    /// The last number that was given out. None is given out twice: what comes late or twice
    /// brings back nothing.
    last: u64,
    /// Each with the node that the stanza went to, if it left this one.
    debts: FxHashMap<u64, (Option<NodeId>, Box<Debt>)>,
}

impl Credits {
    /// None is away; at most `max` will be.
    pub(crate) fn new(max: usize, cluster: Option<Cluster>) -> Credits {
        Credits {
            max,
            away: Mutex::default(),
            cluster,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Away> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a credit until its number is answered. With too many, it comes back at once.
    pub(crate) fn keep(&self, debt: Box<Debt>, node: Option<NodeId>) -> Option<Credit> {
        let client = debt.from().map(AddressKey::to_bits);
        let mut away = self.lock();
        if away.debts.len() >= self.max {
            return None;
        }
        away.last += 1;
        let number = away.last;
        away.debts.insert(number, (node, debt));
        Some(Credit { number, client })
    }

    /// What was kept under a number: given back when it is dropped.
    pub(crate) fn take(&self, number: u64) -> Option<Box<Debt>> {
        self.lock().debts.remove(&number).map(|(_, debt)| debt)
    }

    /// A node is gone: nobody there will answer.
    pub(crate) fn forget(&self, node: NodeId) {
        let mut away = self.lock();
        let lost = away.debts.extract_if(|_, (to, _)| *to == Some(node));
        let lost: Vec<_> = lost.collect();
        // Each gives a credit back when it is dropped.
        drop(away);
        drop(lost);
    }

    /// At the node where the stanza came: it was taken, or is forgotten. The answer goes to the
    /// node that it came from; if that is this one, through its bytes and no further.
    pub(crate) fn answer(&self, from: Option<NodeId>, number: u64) {
        let mut bytes = Vec::new();
        let level = self.cluster.as_ref().map(|cluster| cluster.away.level());
        let level = level.unwrap_or_default();
        let answer = Packet::Credited { number }.encode_at(level, &mut bytes);
        if let (Some(node), Some(cluster), Ok(())) = (from, &self.cluster, &answer) {
            return cluster.away.answer(node, bytes);
        }
        match answer.and_then(|()| Packet::decode(&bytes)) {
            Ok(Packet::Credited { number }) => drop(self.take(number)),
            other => tracing::error!(?other, "the answer to a credit is none"),
        }
    }
}

impl std::fmt::Debug for Credits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credits({})", self.max)
    }
}
