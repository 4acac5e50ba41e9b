//! Leases: a failure detector and nothing more. A lease seems to have lapsed when an observer has
//! not seen its revision change for T on his own monotonic clock. Owns both sides: what others'
//! leases look like from here, and until when this node may act on its own. What makes an end of a
//! lease certain is the compare-and-set of the entry ([`crate::map::Node::is_fenced`]).
//!
//! A node at whose address nobody listens has most likely died. It is not waited for T, but only
//! for two thirds of it: after half of T it does not act by itself any more, however wrong the
//! observer is, and a sixth is left for clocks that do not run alike.

use std::collections::BTreeMap;
use std::time::Duration;

use stdx::Moment;

use crate::flaw::{self, Flaw};
use crate::map::Revision;

/// Most nodes whose leases are watched, those that have gone included for as long as the map has
/// entries of them; more are never seen as alive.
pub const NODES_MAX: usize = 256;

struct Seen {
    revision: Revision,
    since: Moment,
    /// Its address refused a connection since.
    is_refused: bool,
}

/// The leases of all nodes, as one observer sees them.
pub struct Leases {
    lapse_after: Duration,
    seen: BTreeMap<String, Seen>,
    has_leader: bool,
    /// A node that was not watched, of those that nobody has asked about yet.
    passed_over: Option<String>,
}

impl Leases {
    /// Leases lapse after `lapse_after` without a new revision: T.
    pub fn new(lapse_after: Duration) -> Leases {
        Leases {
            lapse_after,
            seen: BTreeMap::new(),
            has_leader: true,
            passed_over: None,
        }
    }

    /// A node's entry has this revision. One that was seen before says nothing new.
    pub fn on_revision(&mut self, now: Moment, node: &str, revision: Revision) {
        let is_full = self.seen.len() >= NODES_MAX;
        match self.seen.get_mut(node) {
            Some(seen) if revision > seen.revision => {
                *seen = Seen {
                    revision,
                    since: now,
                    is_refused: false,
                };
            }
            Some(_) => {}
            None if is_full => self.passed_over = Some(node.to_owned()),
            None => {
                let seen = Seen {
                    revision,
                    since: now,
                    is_refused: false,
                };
                self.seen.insert(node.to_owned(), seen);
            }
        }
    }

    /// At a node's address nobody listens. Counts until its next revision.
    pub fn on_refused(&mut self, node: &str) {
        if let Some(seen) = self.seen.get_mut(node) {
            seen.is_refused = true;
        }
    }

    /// A node that has an entry and is not watched, as there are too many: the last one since this
    /// was asked.
    pub fn take_passed_over(&mut self) -> Option<String> {
        self.passed_over.take()
    }

    /// A node's entry is gone.
    pub fn forget(&mut self, node: &str) {
        self.seen.remove(node);
    }

    /// Whether the map has a leader. While it has none nobody can renew, so that nothing counts as
    /// lapsed, and afterwards everybody has T anew.
    pub fn on_leader(&mut self, now: Moment, has_leader: bool) {
        if has_leader && !self.has_leader {
            for seen in self.seen.values_mut() {
                seen.since = now;
            }
        }
        self.has_leader = has_leader;
    }

    /// Whether a node's lease seems to have lapsed. One that never had an entry seems so only to
    /// whoever looks long enough: see [`Leases::expect`].
    pub fn is_lapsed(&self, now: Moment, node: &str) -> bool {
        let is_late = |seen: &Seen| {
            let lapse_after = match seen.is_refused {
                true => self.lapse_after * 2 / 3,
                false => self.lapse_after,
            };
            now.saturating_since(seen.since) >= lapse_after
        };
        self.has_leader && self.seen.get(node).is_some_and(is_late)
    }

    /// A node that an entry names has T from now on to show itself.
    pub fn expect(&mut self, now: Moment, node: &str) {
        self.on_revision(now, node, 0);
    }

    /// Whether a node has an entry and holds its lease.
    pub fn is_alive(&self, now: Moment, node: &str) -> bool {
        let has_entry = self.seen.get(node).is_some_and(|seen| seen.revision > 0);
        has_entry && !self.is_lapsed(now, node)
    }
}

/// This node's own lease.
pub struct OwnLease {
    lapse_after: Duration,
    /// When the last renewal that was acknowledged had been sent.
    renewed: Option<Moment>,
}

impl OwnLease {
    /// A lease that was never renewed.
    pub fn new(lapse_after: Duration) -> OwnLease {
        OwnLease {
            lapse_after,
            renewed: None,
        }
    }

    /// A renewal that was sent at this moment has been acknowledged.
    pub fn on_renewed(&mut self, sent: Moment) {
        self.renewed = self.renewed.max(Some(sent));
    }

    /// The lease is over.
    pub fn on_fenced(&mut self) {
        self.renewed = None;
    }

    /// Until when effects that need no commit may leave. Half of T: nobody else acts before T.
    pub fn acts_until(&self) -> Moment {
        let part = if flaw::is(Flaw::ActsToTheEnd) { 1 } else { 2 };
        let renewed = self.renewed.map(|sent| sent + self.lapse_after / part);
        renewed.unwrap_or(Moment::ZERO)
    }

    /// Whether they may now.
    pub fn may_act(&self, now: Moment) -> bool {
        flaw::is(Flaw::LeaseNotChecked) || now < self.acts_until()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    /// Goal: a lease lapses T after its revision was last seen to change, and not before.
    #[test]
    fn a_lease_lapses_when_its_revision_does_not_change() {
        let mut leases = Leases::new(T);
        leases.on_revision(at(1), "a", 5);
        leases.on_revision(at(9), "a", 5);
        assert!(leases.is_alive(at(10), "a"));
        assert!(leases.is_lapsed(at(11), "a"));
        leases.on_revision(at(12), "a", 6);
        assert!(leases.is_alive(at(21), "a"));
        assert!(!leases.is_alive(at(21), "b") && !leases.is_lapsed(at(99), "b"));
        leases.expect(at(21), "b");
        assert!(!leases.is_alive(at(22), "b") && leases.is_lapsed(at(31), "b"));
    }

    /// Goal: a node at whose address nobody listens is waited for less, but for longer than it may
    /// act by itself; a renewal says that it lives.
    #[test]
    fn a_lease_of_a_node_that_refuses_lapses_sooner() {
        let mut leases = Leases::new(T);
        let mut own = OwnLease::new(T);
        own.on_renewed(at(1));
        leases.on_revision(at(1), "a", 5);
        leases.on_refused("a");
        leases.on_refused("b");
        assert!(leases.is_alive(at(7), "a") && !own.may_act(at(6)));
        assert!(leases.is_lapsed(at(8), "a") && !leases.is_lapsed(at(99), "b"));
        leases.on_revision(at(8), "a", 6);
        assert!(leases.is_alive(at(17), "a") && leases.is_lapsed(at(18), "a"));
    }

    /// Goal: while the map has no leader nothing lapses, and then everybody has T anew.
    #[test]
    fn nothing_lapses_while_the_map_has_no_leader() {
        let mut leases = Leases::new(T);
        leases.on_revision(at(0), "a", 5);
        leases.on_leader(at(5), false);
        assert!(!leases.is_lapsed(at(100), "a"));
        leases.on_leader(at(100), true);
        assert!(!leases.is_lapsed(at(109), "a"));
        assert!(leases.is_lapsed(at(110), "a"));
    }

    /// Goal: what counts is when a renewal was sent, not when its answer came.
    #[test]
    fn a_home_acts_for_half_of_t_after_it_sent_a_renewal() {
        let mut own = OwnLease::new(T);
        assert!(!own.may_act(at(0)));
        own.on_renewed(at(3));
        own.on_renewed(at(1));
        assert!(own.may_act(at(7)));
        assert!(!own.may_act(at(8)));
    }

    /// Goal: more nodes than the bound are not watched, which is said; one whose entry is gone
    /// makes room.
    #[test]
    fn leases_are_bounded() {
        let mut leases = Leases::new(T);
        for node in 0..NODES_MAX {
            leases.on_revision(at(0), &node.to_string(), 1);
        }
        assert_eq!(leases.take_passed_over(), None);
        leases.on_revision(at(0), "one more", 1);
        assert!(!leases.is_alive(at(0), "one more"));
        assert_eq!(leases.take_passed_over().as_deref(), Some("one more"));
        assert_eq!(leases.take_passed_over(), None);
        leases.forget("0");
        leases.on_revision(at(1), "one more", 2);
        assert!(leases.is_alive(at(1), "one more"));
        assert_eq!(leases.take_passed_over(), None);
    }
}
