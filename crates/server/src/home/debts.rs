//! Credits of the connections of one shard: how one is taken along, and given back by the shortest
//! way.

use actor::Mail;
use net::ConnRef;
use xml::Frame;

use super::Home;
use crate::limits::{DEBTS_KEPT, FAR_FROM_WINDOW};
use crate::message::credit::{Creditor, Debt};

impl Debt {
    /// That of a stanza which came by a connection.
    pub(crate) fn of(home: &Home, link: ConnRef) -> Debt {
        Debt {
            remote: home.remote.clone(),
            to: Some(Creditor::Link(link)),
            from: home.io.address(link),
            charge: None,
        }
    }

    /// Whether the credit of a stanza that is passed on goes along. To bring it back wakes another
    /// shard, which a connection far from its window need not pay for each message: of those only
    /// one in eight takes its credit along. They are counted over the whole shard, so that nobody
    /// can tell which of his it will be. Who floods a recipient that takes nothing has about two
    /// windows under way, and no more.
    pub(crate) fn goes_along(home: &Home, link: ConnRef, frame: &Frame) -> bool {
        let in_flight = home.io.in_flight(link);
        // A question is counted where its client is, for as long as it is under way.
        if in_flight.is_none_or(|stanzas| stanzas > FAR_FROM_WINDOW) || frame.is_named("iq") {
            return true;
        }
        let passed_on = (home.passed_on.get() + 1) % FAR_FROM_WINDOW;
        home.passed_on.set(passed_on);
        passed_on == 0
    }

    /// That of a stanza which is passed on. Takes no memory for each: what was given back lately is
    /// used again.
    pub(crate) fn passed_on(home: &Home, link: ConnRef, frame: &Frame) -> Box<Debt> {
        let mut debt = home.debts.borrow_mut().pop().unwrap_or_else(|| {
            Box::new(Debt {
                remote: home.remote.clone(),
                to: None,
                from: None,
                charge: None,
            })
        });
        debt.to = Some(Creditor::Link(link));
        // Of what may become a question.
        debt.from = match frame.is_named("iq") {
            true => home.io.address(link),
            false => None,
        };
        debt
    }

    /// Gives the credit back, by the shorter way.
    pub(crate) fn repay(&mut self, home: &Home, mail: &mut impl Mail) {
        let Some(Creditor::Link(link)) = self.to else {
            return self.give_back();
        };
        // A connection that is gone needs no credit.
        let _ = home.io.credit(mail, link, 1);
        self.to = None;
    }

    /// The same, and keeps the memory for the next one.
    pub(crate) fn settle(mut self: Box<Self>, home: &Home, mail: &mut impl Mail) {
        self.repay(home, mail);
        let mut debts = home.debts.borrow_mut();
        if debts.len() < DEBTS_KEPT && self.to.is_none() {
            debts.push(self);
        }
    }
}
