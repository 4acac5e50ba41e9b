//! Whether this node should keep its homes: one that lives, and holds its lease, may still be of no
//! use to anybody. Owns the rule; what is seen comes from links and streams.
//!
//! | seen on end | for | then |
//! |---|---|---|
//! | no link to any other node that lives takes anything | 5 s, with the silence after which a link was given up | it is slow |
//! | a stream that it has does not acknowledge, while the map does: longer than an election of the engine | 20 s | it is slow |
//! | its store refused a write of any stream: its disk is full, or fails | 5 s | it is slow |
//! | nothing of that | 10 s | it is not |
//!
//! A slow node loses its homes to others that are not slow, if there are any: where all are, for
//! the engine has no quorum or there are two nodes without a link, everything stays where it is.

use std::time::Duration;

use cluster::driver::Driver;
use cluster::link::{LinkStatus, Links};
use stdx::time::Moment;

/// How long links have to be down.
const UNLINKED_AFTER: Duration = Duration::from_secs(5);

/// How long the store has to refuse. Homes of streams at rest leave before they need it, and none
/// comes.
const REFUSED_AFTER: Duration = Duration::from_secs(5);

/// How long a stream has to be silent: elections of the engine take 4 to 9 s, and no move helps.
const SILENT_AFTER: Duration = Duration::from_secs(20);

/// How long it must not be so before homes come back.
const WELL_AFTER: Duration = Duration::from_secs(10);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(500);

/// What is so now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Other nodes that live.
    others: usize,
    /// Those of them to which the link is down, or full by half.
    out_of_reach: usize,
    /// For how long the least silent of these had said nothing before it was given up.
    unheard: Duration,
    /// Streams of this home that do not acknowledge.
    silent: usize,
    /// Streams whose messages the store has refused.
    refused: usize,
}

impl Seen {
    /// The links to these nodes. One with so many bytes under way is full by half.
    fn of_links<'a>(
        alive: impl Iterator<Item = &'a str>,
        links: &[LinkStatus],
        half: usize,
    ) -> Seen {
        let mut seen = Seen::default();
        let mut unheard = Vec::new();
        for name in alive {
            seen.others += 1;
            let link = links.iter().find(|link| link.name == name);
            if !link.is_some_and(|link| link.is_connected && link.bytes < half) {
                unheard.push(link.map_or(Duration::ZERO, |link| link.silent));
            }
        }
        seen.out_of_reach = unheard.len();
        seen.unheard = unheard.into_iter().min().unwrap_or_default();
        seen
    }

    fn is_unlinked(self) -> bool {
        self.others > 0 && self.out_of_reach == self.others
    }

    fn is_bad(self) -> bool {
        self.silent > 0 || self.refused > 0 || self.is_unlinked()
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Slowness {
    is_slow: bool,
    /// Since when it is not as it was decided.
    since: Option<Moment>,
    look_at: Moment,
}

impl Slowness {
    /// Looks now and then, and tells the map.
    pub(super) fn look(&mut self, now: Moment, driver: &Driver, links: &Links, own: &str) {
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK;
        if !self.observe(now, seen(driver, links, own)) {
            return;
        }
        driver.say_slow(self.is_slow);
        match self.is_slow {
            true => tracing::error!(
                "this node reaches no other one, its streams do not acknowledge, or its store \
                 refuses what they say: its homes go to others"
            ),
            false => tracing::info!("this node takes homes again"),
        }
    }

    /// Whether something has changed.
    fn observe(&mut self, now: Moment, seen: Seen) -> bool {
        if seen.is_bad() == self.is_slow {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let patience = match self.is_slow {
            true => WELL_AFTER,
            false if seen.is_unlinked() => UNLINKED_AFTER.saturating_sub(seen.unheard),
            false if seen.refused > 0 => REFUSED_AFTER,
            false => SILENT_AFTER,
        };
        if now.saturating_since(since) < patience {
            return false;
        }
        self.since = None;
        self.is_slow = !self.is_slow;
        true
    }
}

fn seen(driver: &Driver, links: &Links, own: &str) -> Seen {
    let map = driver.map();
    let nodes = map.nodes.iter();
    let alive = nodes.filter(|(name, node)| *name != own && node.is_alive && node.link.is_some());
    let alive = alive.map(|(name, _)| name.as_str());
    let progress = |stream| driver.progress(stream);
    let streams = || driver.layout().streams().map(progress);
    let silent = streams().filter(|seen| seen.is_home && seen.lacks_quorum);
    Seen {
        // Without a lease it is the engine that is silent. Whoever was well first would have all
        // homes, when it answers again.
        silent: match driver.may_act() {
            true => silent.count(),
            false => 0,
        },
        refused: streams().filter(|seen| seen.has_refused).count(),
        ..Seen::of_links(alive, &links.status(), links.bytes_max() / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: Seen = Seen {
        others: 2,
        out_of_reach: 1,
        unheard: Duration::ZERO,
        silent: 0,
        refused: 0,
    };
    const ALONE: Seen = Seen {
        out_of_reach: 2,
        ..WELL
    };

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    /// Goal: what lasts makes a node slow, what passes does not; who was slow is well only after a
    /// while.
    #[test]
    fn what_lasts_makes_a_node_slow() {
        let mut node = Slowness::default();
        let mut changes = Vec::new();
        let mut look = |second, seen| {
            if node.observe(at(second), seen) {
                changes.push((second, node.is_slow));
            }
        };
        for second in 0..5 {
            look(second, ALONE);
        }
        look(5, WELL);
        for second in 6..=20 {
            look(second, ALONE);
        }
        for second in 21..30 {
            look(second, WELL);
        }
        look(30, ALONE);
        for second in 31..=50 {
            look(second, WELL);
        }
        let silent = Seen { silent: 1, ..WELL };
        for second in 51..=80 {
            look(second, silent);
        }
        let refused = Seen { refused: 1, ..WELL };
        for second in 81..=91 {
            look(second, WELL);
        }
        for second in 92..=97 {
            look(second, refused);
        }
        let all = [(11, true), (41, false), (71, true), (91, false), (97, true)];
        assert_eq!(changes, all);
    }

    /// Goal: a node whose links were given up for their silence has waited for long enough; for
    /// what was silent for less, the rest is waited.
    #[test]
    fn the_silence_of_links_counts() {
        let silent = |seconds| Seen {
            unheard: Duration::from_secs(seconds),
            ..ALONE
        };
        let mut node = Slowness::default();
        assert!(!node.observe(at(0), WELL));
        assert!(node.observe(at(1), silent(5)) && node.is_slow);
        let mut node = Slowness::default();
        assert!(!node.observe(at(1), silent(2)) && !node.observe(at(3), silent(2)));
        assert!(node.observe(at(4), silent(2)) && node.is_slow);
    }

    /// Goal: of links that are down the one that was heard last says for how long; one that works
    /// and one that was never made are none that fell silent.
    #[test]
    fn the_link_that_was_heard_last_counts() {
        let link = |name: &str, is_connected, bytes, silent| LinkStatus {
            name: name.to_owned(),
            is_connected,
            bytes,
            silent: Duration::from_secs(silent),
            ..LinkStatus::default()
        };
        let links = [
            link("down", false, 0, 5),
            link("lost", false, 0, 3),
            link("full", true, 10, 4),
            link("well", true, 9, 0),
        ];
        let seen = |names: &[&str]| {
            let seen = Seen::of_links(names.iter().copied(), &links, 10);
            (seen.others, seen.out_of_reach, seen.unheard.as_secs())
        };
        assert_eq!(seen(&["down", "lost", "full"]), (3, 3, 3));
        assert_eq!(seen(&["down", "well"]), (2, 1, 5));
        assert_eq!(seen(&["down", "new"]), (2, 2, 0));
        assert_eq!(seen(&[]), (0, 0, 0));
    }

    /// Goal: a node that is the only one is not slow for that.
    #[test]
    fn who_is_alone_is_not_slow() {
        assert!(!Seen::default().is_bad());
    }
}
