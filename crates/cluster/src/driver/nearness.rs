//! When the leader of a stream is to be the server next to the stream's home: after an election it
//! is any, and after some all lead from one server. Owns when it is asked for; asks nobody.

use std::time::Duration;

use super::ticks::TICK;
use crate::engine::Standing;

/// Of one stream.
pub(super) struct Nearness {
    /// The server next to this node; `None`: leaders stay where elections put them.
    server: Option<String>,
    /// Ticks between two times that it is asked for.
    every: u32,
    /// Ticks until the next one.
    rest: u32,
    /// With the next publish.
    is_due: bool,
    /// It was asked for, and the stream has not stood as was wanted since.
    is_asked: bool,
}

impl Nearness {
    pub(super) fn new(server: Option<String>, every: Duration) -> Nearness {
        let every = every.as_millis() / TICK.as_millis();
        Nearness {
            server,
            every: u32::try_from(every).unwrap_or(u32::MAX),
            rest: 0,
            is_due: false,
            is_asked: false,
        }
    }

    pub(super) fn on_tick(&mut self) {
        self.rest = self.rest.saturating_sub(1);
    }

    /// How the stream stands, and whether this node is its home. Returns whether the leader has
    /// moved because it was asked for.
    pub(super) fn hear(&mut self, is_home: bool, standing: &Standing) -> bool {
        let Some(server) = &self.server else {
            return false;
        };
        let leads = standing.leader == *server;
        self.is_due = is_home && !leads && self.rest == 0 && standing.others.contains(server);
        leads && std::mem::take(&mut self.is_asked)
    }

    /// A publish is about to leave: the server that shall lead before it does.
    pub(super) fn take(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.is_due) {
            return None;
        }
        self.rest = self.every;
        self.is_asked = true;
        self.server.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led_by(leader: &str, others: &[&str]) -> Standing {
        Standing {
            leader: leader.to_owned(),
            others: others.iter().map(|one| (*one).to_owned()).collect(),
            ..Standing::default()
        }
    }

    /// Goal: the server next to a home is asked for once it has everything, and not all the time.
    #[test]
    fn a_leader_is_asked_for_now_and_then() {
        let mut near = Nearness::new(Some("n1".to_owned()), 2 * TICK);
        assert_eq!(near.take(), None);
        // It lags, or this node is not the home.
        near.hear(true, &led_by("n0", &["n2"]));
        assert_eq!(near.take(), None);
        near.hear(false, &led_by("n0", &["n1", "n2"]));
        assert_eq!(near.take(), None);
        assert!(!near.hear(true, &led_by("n0", &["n1", "n2"])));
        assert_eq!(near.take().as_deref(), Some("n1"));
        assert_eq!(near.take(), None);
        // It did not help.
        for _ in 0..2 {
            near.hear(true, &led_by("n0", &["n1", "n2"]));
            assert_eq!(near.take(), None);
            near.on_tick();
        }
        // It leads at last by itself before a publish leaves.
        near.hear(true, &led_by("n0", &["n1", "n2"]));
        assert!(near.hear(true, &led_by("n1", &["n0", "n2"])));
        assert!(!near.hear(true, &led_by("n1", &["n0", "n2"])));
        assert_eq!(near.take(), None);
    }

    #[test]
    fn without_a_name_leaders_stay_where_they_are() {
        let mut near = Nearness::new(None, TICK);
        assert!(!near.hear(true, &led_by("n0", &["n1", "n2"])));
        assert_eq!(near.take(), None);
    }
}
