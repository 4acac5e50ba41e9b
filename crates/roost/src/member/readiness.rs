//! Whether a load balancer should send clients here. Owns the rule; what is seen comes from the
//! cluster, and the stages of the process are `http`'s.
//!
//! | seen | the answer |
//! |---|---|
//! | the lease was not renewed for half of its time | no, at once: the engine does not answer. Then as at a start |
//! | not every stream has a home yet, or one that this node has is not served | no, until it was so once |
//! | the same later | yes for 15 s: take-overs are ordinary, and this node serves others meanwhile |
//! | anything else | yes, also if this node is the home of nothing |

use std::time::Duration;

use stdx::time::Moment;

/// How long a stream that the map gave to this node may take once the node was ready.
const TAKES_MAX: Duration = Duration::from_secs(15);

/// What is so now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// The lease was renewed lately.
    pub(super) holds_lease: bool,
    /// Streams that have no home.
    pub(super) homeless: usize,
    /// Streams that the map gave to this node.
    pub(super) given: usize,
    /// Those of them that it serves.
    pub(super) served: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    was_ready: bool,
    behind_since: Option<Moment>,
}

impl Readiness {
    /// Whether the node is ready, or why not.
    pub(super) fn look(&mut self, now: Moment, seen: Seen) -> Result<(), String> {
        if !seen.holds_lease {
            self.was_ready = false;
            return Err("the engine does not answer: no lease".to_owned());
        }
        if !self.was_ready && seen.homeless > 0 {
            return Err(format!("{} streams have no home yet", seen.homeless));
        }
        let Seen { served, given, .. } = seen;
        if served >= given {
            self.was_ready = true;
            self.behind_since = None;
            return Ok(());
        }
        let since = *self.behind_since.get_or_insert(now);
        match self.was_ready && now.saturating_since(since) < TAKES_MAX {
            true => Ok(()),
            false => Err(format!("serves {served} of its {given} streams")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Seen = Seen {
        holds_lease: true,
        homeless: 0,
        given: 3,
        served: 3,
    };

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    /// Goal: at the start everything must be served, and every stream must have a home.
    #[test]
    fn a_start_is_over_when_everything_is_served() {
        let mut readiness = Readiness::default();
        let mut say = |second, seen| readiness.look(at(second), seen).err().unwrap_or_default();
        assert_eq!(
            say(0, Seen::default()),
            "the engine does not answer: no lease"
        );
        let homeless = Seen {
            homeless: 2,
            given: 0,
            served: 0,
            ..GOOD
        };
        assert_eq!(say(1, homeless), "2 streams have no home yet");
        let taking = Seen { served: 1, ..GOOD };
        assert_eq!(say(2, taking), "serves 1 of its 3 streams");
        assert_eq!(say(90, taking), "serves 1 of its 3 streams");
        assert_eq!(say(91, GOOD), "");
    }

    /// Goal: a node that takes over is ready all the while, unless that takes too long; one that
    /// lost the engine is not; one without homes is.
    #[test]
    fn a_take_over_does_not_make_a_node_unready() {
        let mut readiness = Readiness::default();
        assert!(readiness.look(at(0), GOOD).is_ok());
        let taking = Seen {
            homeless: 1,
            given: 5,
            ..GOOD
        };
        assert!(readiness.look(at(10), taking).is_ok());
        assert!(readiness.look(at(24), taking).is_ok());
        let late = readiness.look(at(25), taking).unwrap_err();
        assert_eq!(late, "serves 3 of its 5 streams");
        assert!(readiness.look(at(30), GOOD).is_ok());
        assert!(readiness.look(at(40), taking).is_ok(), "another time");
        let cut_off = Seen {
            holds_lease: false,
            ..GOOD
        };
        assert!(readiness.look(at(41), cut_off).is_err());
        let nothing = Seen {
            given: 0,
            served: 0,
            ..GOOD
        };
        assert!(readiness.look(at(42), nothing).is_ok());
    }
}
