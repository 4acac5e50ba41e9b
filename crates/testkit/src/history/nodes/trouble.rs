//! What befalls a cluster in one seed, and when: everything is drawn from the seed. Owns chances
//! and times; it carries nothing out.

use super::ways::Flow;
use super::{NODES, SERVERS};
use std::time::Duration;

/// Which kinds of trouble a run may choose from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Nodes are killed, some with their disk.
    pub kills: bool,
    /// Nodes are stopped for longer than their lease, and go on.
    pub pauses: bool,
    /// Servers of the engine are killed or stopped.
    pub servers: bool,
    /// Ways between nodes, and from nodes to the engine, are cut.
    pub ways: bool,
}

impl Troubles {
    /// Everything at once.
    pub const ALL: Self = Self {
        kills: true,
        pauses: true,
        servers: true,
        ways: true,
    };
}

/// What befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum What {
    /// SIGKILL of a node; at the end of the trouble it is started.
    KillNode(usize),
    /// The same, and what it had on its disk is gone.
    LoseNode(usize),
    /// SIGSTOP and SIGCONT of a node.
    StopNode(usize),
    /// SIGKILL of a server of the engine; at the end of the trouble it is started.
    KillServer(usize),
    /// SIGSTOP and SIGCONT of a server of the engine.
    StopServer(usize),
    /// A node and a server of the engine.
    CutServer(usize, usize, Flow),
    /// A node and all servers of the engine.
    CutEngine(usize, Flow),
    /// What a node sends to another one, which is on a connection of its own.
    CutLink(usize, usize, Flow),
    /// A node and everybody, but for clients.
    CutNode(usize),
}

impl What {
    /// In a few words, without which.
    pub(in super::super) fn kind(self) -> &'static str {
        match self {
            What::KillNode(_) => "a node is killed",
            What::LoseNode(_) => "a node is killed and loses its disk",
            What::StopNode(_) => "a node is stopped",
            What::KillServer(_) => "a server of the engine is killed",
            What::StopServer(_) => "a server of the engine is stopped",
            What::CutServer(..) => "a node is cut off from a server of the engine",
            What::CutEngine(..) => "a node is cut off from the engine",
            What::CutLink(..) => "a node is cut off from another one",
            What::CutNode(_) => "a node is cut off from everybody",
        }
    }

    /// The processes that it stops or kills: no other trouble does that to them meanwhile.
    fn process(self) -> Option<usize> {
        match self {
            What::KillNode(node) | What::LoseNode(node) | What::StopNode(node) => Some(node),
            What::KillServer(server) | What::StopServer(server) => Some(NODES + server),
            _ => None,
        }
    }
}

/// Something that befalls, from some time on and for some time.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Trouble {
    pub(in super::super) what: What,
    pub(in super::super) at: Duration,
    pub(in super::super) lasts: Duration,
}

impl Trouble {
    pub(in super::super) fn end(&self) -> Duration {
        self.at + self.lasts
    }
}

/// Rounds of trouble in a seed.
const ROUNDS: std::ops::RangeInclusive<usize> = 2..=4;
/// One round in so many has two troubles.
const PAIR_EVERY: usize = 2;
/// Milliseconds between two rounds.
const PAUSE_MS: std::ops::Range<u64> = 200..6_000;

/// Everything that befalls in a seed, in order.
pub(in super::super) fn draw(seed: u64, troubles: Troubles) -> Vec<Trouble> {
    let mut rng = fastrand::Rng::with_seed(seed.rotate_left(48));
    let mut all: Vec<Trouble> = Vec::new();
    let mut at = Duration::from_millis(1_500);
    for _ in 0..rng.usize(ROUNDS) {
        let mut round: Vec<Trouble> = Vec::new();
        for _ in 0..1 + usize::from(rng.usize(..PAIR_EVERY) == 0) {
            let Some((what, lasts)) = one(&mut rng, troubles) else {
                continue;
            };
            let process = what.process();
            if process.is_some() && round.iter().any(|other| other.what.process() == process) {
                continue;
            }
            let later = Duration::from_millis(rng.u64(..2_000)) * u32::from(!round.is_empty());
            round.push(Trouble {
                what,
                at: at + later,
                lasts: Duration::from_millis(lasts),
            });
        }
        let end = round.iter().map(Trouble::end).max().unwrap_or(at);
        at = end + Duration::from_millis(rng.u64(PAUSE_MS));
        all.extend(round);
    }
    all
}

/// What befalls, and for how many milliseconds. A lease lasts 3 s, and an election of the engine 4
/// to 9: some troubles are over before anybody has noticed, others go on until everybody has.
fn one(rng: &mut fastrand::Rng, troubles: Troubles) -> Option<(What, u64)> {
    let node = rng.usize(..NODES);
    let server = rng.usize(..SERVERS);
    let other = (node + rng.usize(1..NODES)) % NODES;
    let flow = [Flow::Both, Flow::There, Flow::Back][rng.usize(..3)];
    let mut kinds: Vec<(What, std::ops::Range<u64>)> = Vec::new();
    if troubles.kills {
        kinds.extend([
            (What::KillNode(node), 10..8_000),
            (What::KillNode(node), 10..500),
            (What::LoseNode(node), 10..4_000),
        ]);
    }
    if troubles.pauses {
        kinds.extend([
            (What::StopNode(node), 3_500..9_000),
            (What::StopNode(node), 500..4_000),
        ]);
    }
    if troubles.servers {
        kinds.extend([
            (What::KillServer(server), 10..10_000),
            (What::StopServer(server), 500..15_000),
        ]);
    }
    if troubles.ways {
        kinds.extend([
            (What::CutServer(node, server, flow), 500..10_000),
            (What::CutEngine(node, flow), 500..9_000),
            (What::CutLink(node, other, flow), 500..15_000),
            (What::CutNode(node), 500..9_000),
        ]);
    }
    if kinds.is_empty() {
        return None;
    }
    let (what, lasts) = kinds.swap_remove(rng.usize(..kinds.len()));
    Some((what, rng.u64(lasts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a seed is played again from its number, and no process is killed while another trouble
    /// has it stopped.
    #[test]
    fn a_seed_says_what_befalls() {
        let text = |seed| format!("{:?}", draw(seed, Troubles::ALL));
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
        for seed in 0..500 {
            let all = draw(seed, Troubles::ALL);
            for (at, one) in all.iter().enumerate() {
                let meanwhile = |other: &&Trouble| other.at < one.end() && one.at < other.end();
                let mut others = all[at + 1..].iter().filter(meanwhile);
                let process = one.what.process();
                assert!(
                    process.is_none() || others.all(|other| other.what.process() != process),
                    "{seed}: {all:?}"
                );
            }
        }
    }
}
