//! Which node should be the home of which stream: one pure function of what is known. Owns the
//! balance of load against weights, the choice of warm candidates and the spread over zones. It
//! moves little: a stream without a home at once, others only if that evens out much.

use std::collections::BTreeMap;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::layout::StreamId;
use crate::map::{Node, Report};

/// What each stream costs beside its messages: as much as 2 of them a second. Streams that have
/// fewer cost about the same, however much these fluctuate.
const BASE_LOAD: u64 = 64;

/// Bounds of the assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// A candidate is warm if it lags less, in milliseconds. Default: 1,000.
    pub lag_ms_max: u32,
    /// A home whose own copy has not got on for so long, in milliseconds, loses the stream to a
    /// warm candidate: its store refuses to write, or it waits for a snapshot. Longer than a
    /// stalled consumer takes to be replaced. Default: 20,000.
    pub stuck_ms_max: u32,
    /// Planned moves at a time; homes for streams without one are not counted. Default: 1.
    pub moves_max: usize,
    /// A planned move happens if the fullest node has so many percent more than the emptiest would
    /// have with the stream. Default: 10.
    pub gap_percent: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            lag_ms_max: 1_000,
            stuck_ms_max: 20_000,
            moves_max: 1,
            gap_percent: 10,
        }
    }
}

/// What is known.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Nodes that hold their leases.
    pub nodes: BTreeMap<String, Node>,
    /// The home of each stream, in order, if it has one that lives.
    pub homes: Vec<Option<String>>,
}

/// A stream gets another home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The stream.
    pub stream: StreamId,
    /// Its home from then on.
    pub to: String,
    /// The home before lives, and is waited for.
    pub is_planned: bool,
}

/// Load per weight, in thousandths.
type Fill = u64;

struct Plan<'a> {
    options: &'a Options,
    view: &'a View,
    /// Load of each node, as planned so far.
    loads: BTreeMap<&'a str, u64>,
}

/// Whether a node should have homes, if it lives.
pub fn may_be_home(node: &Node) -> bool {
    node.weight > 0 && !node.is_slow && !node.is_draining
}

/// What should change now.
pub fn plan(options: &Options, view: &View) -> Vec<Move> {
    let mut plan = Plan {
        options,
        view,
        loads: view.nodes.keys().map(|name| (name.as_str(), 0)).collect(),
    };
    for (stream, home) in view.homes.iter().enumerate() {
        if let Some(home) = home {
            let load = plan.load_of(stream);
            *plan.loads.entry(home).or_default() += load;
        }
    }
    let mut moves = plan.orphans();
    if moves.is_empty() {
        moves = plan.evictions();
    }
    if moves.is_empty() {
        moves.extend(plan.balance());
    }
    moves
}

/// The nodes that keep a copy of a stream: `count` of those that may be homes, in zones of their
/// own as long as there are any, chosen so that a node that comes or goes changes little.
pub fn replicas(nodes: &BTreeMap<String, Node>, stream: StreamId, count: usize) -> Vec<String> {
    let score = |name: &str| {
        let mut hasher = SipHasher13::new_with_keys(0x726f_6f73_7400, u64::from(stream.0));
        hasher.write(name.as_bytes());
        hasher.finish()
    };
    let mut left: Vec<(&String, &Node)> = nodes.iter().filter(|(_, n)| n.weight > 0).collect();
    left.sort_by_key(|(name, _)| score(name));
    let mut chosen: Vec<(&String, &Node)> = Vec::new();
    while chosen.len() < count && !left.is_empty() {
        let zones = |zone: &str| chosen.iter().filter(|(_, node)| node.zone == zone).count();
        // The first of those whose zone has the fewest.
        let next = (0..left.len()).min_by_key(|at| zones(&left[*at].1.zone));
        chosen.push(left.remove(next.unwrap_or_default()));
    }
    chosen.into_iter().map(|(name, _)| name.clone()).collect()
}

impl Plan<'_> {
    fn report(&self, node: &str, stream: usize) -> Report {
        let node = self.view.nodes.get(node);
        let report = node.and_then(|node| node.streams.get(stream).copied());
        report.unwrap_or(Report {
            serving: 0,
            lag_ms: u32::MAX,
            load: 0,
        })
    }

    /// What a stream costs: streams without load are spread too. All who follow it count the same,
    /// but for who has not followed it for long enough, as a node that has just started.
    fn load_of(&self, stream: usize) -> u64 {
        let reports = self.view.nodes.values();
        let reports = reports.filter_map(|node| node.streams.get(stream));
        BASE_LOAD + u64::from(reports.map(|report| report.load).max().unwrap_or_default())
    }

    fn fill(&self, node: &str, more: u64) -> Fill {
        let weight = self.view.nodes.get(node).map_or(0, |node| node.weight);
        let load = self.loads.get(node).copied().unwrap_or_default() + more;
        match weight {
            0 => Fill::MAX,
            weight => load.saturating_mul(1_000) / u64::from(weight),
        }
    }

    fn may_be_home(&self, node: &str) -> bool {
        self.view.nodes.get(node).is_some_and(may_be_home)
    }

    /// The best home for a stream: a warm one that is least full, or the one that lags least.
    fn best(&self, stream: usize, without: Option<&str>) -> Option<String> {
        let candidates = self.view.nodes.keys().map(String::as_str);
        let candidates = candidates.filter(|name| Some(*name) != without && self.may_be_home(name));
        let key = |name: &&str| {
            let lag = self.report(name, stream).lag_ms;
            let is_cold = lag >= self.options.lag_ms_max;
            let lag = if is_cold { lag } else { 0 };
            (is_cold, lag, self.fill(name, self.load_of(stream)))
        };
        candidates.min_by_key(key).map(str::to_owned)
    }

    /// Homes for streams that have none. A node that is slow is better than nobody.
    fn orphans(&mut self) -> Vec<Move> {
        let mut moves = Vec::new();
        for stream in 0..self.view.homes.len() {
            if self.view.homes[stream].is_some() {
                continue;
            }
            let slow = || {
                let nodes = self.view.nodes.iter();
                let slow = nodes.filter(|(_, node)| node.weight > 0 && !node.is_draining);
                slow.min_by_key(|(name, _)| self.fill(name, BASE_LOAD))
                    .map(|(name, _)| name.clone())
            };
            let Some(to) = self.best(stream, None).or_else(slow) else {
                continue;
            };
            moves.push(self.moved(stream, to, false));
        }
        moves
    }

    /// Away from nodes that are slow or drain, or do not get on with this stream, if somebody warm
    /// takes it. Nodes that hold no lease keep theirs until it has ended.
    fn evictions(&mut self) -> Vec<Move> {
        let mut moves = Vec::new();
        for stream in 0..self.view.homes.len() {
            let Some(home) = self.view.homes[stream].as_deref() else {
                continue;
            };
            // The end of its lease may be under way. Or this node has not heard of others for a
            // while, and takes them for dead.
            let is_there = self.view.nodes.contains_key(home);
            let may_stay = self.may_be_home(home) && !self.is_stuck(home, stream);
            if !is_there || may_stay || moves.len() >= self.options.moves_max {
                continue;
            }
            if let Some(to) = self
                .best(stream, Some(home))
                .filter(|to| self.is_warm(to, stream))
            {
                moves.push(self.moved(stream, to, true));
            }
        }
        moves
    }

    /// From the fullest node to the emptiest, if that makes a difference.
    fn balance(&mut self) -> Vec<Move> {
        let mut moves = Vec::new();
        while moves.len() < self.options.moves_max {
            let Some((stream, to)) = self.next_balancing() else {
                break;
            };
            moves.push(self.moved(stream, to, true));
        }
        moves
    }

    fn next_balancing(&self) -> Option<(usize, String)> {
        let homes = || self.view.nodes.keys().filter(|name| self.may_be_home(name));
        let fullest = homes().max_by_key(|name| self.fill(name, 0))?;
        let before = self.fill(fullest, 0);
        let streams = 0..self.view.homes.len();
        let own = streams.filter(|at| self.view.homes[*at].as_deref() == Some(fullest));
        let options = own.flat_map(|stream| homes().map(move |to| (stream, to)));
        let after = |(stream, to): &(usize, &String)| self.fill(to, self.load_of(*stream));
        let gap = u64::from(100 + self.options.gap_percent);
        options
            .filter(|(stream, to)| *to != fullest && self.is_warm(to, *stream))
            .filter(|option| after(option).saturating_mul(gap) / 100 < before)
            .min_by_key(after)
            .map(|(stream, to)| (stream, to.clone()))
    }

    fn is_warm(&self, node: &str, stream: usize) -> bool {
        self.report(node, stream).lag_ms < self.options.lag_ms_max
    }

    /// A node that has said nothing of the stream yet is not.
    fn is_stuck(&self, node: &str, stream: usize) -> bool {
        let lag = self.report(node, stream).lag_ms;
        lag != u32::MAX && lag >= self.options.stuck_ms_max
    }

    fn moved(&mut self, stream: usize, to: String, is_planned: bool) -> Move {
        let load = self.load_of(stream);
        if let Some(before) = self.view.homes[stream].as_deref()
            && let Some(own) = self.loads.get_mut(before)
        {
            *own = own.saturating_sub(load);
        }
        if let Some(own) = self.loads.get_mut(to.as_str()) {
            *own += load;
        }
        // `home` indexes fit: there are at most `layout::STREAMS_MAX` of them.
        let stream = StreamId(stream as u16);
        Move {
            stream,
            to,
            is_planned,
        }
    }
}

#[cfg(test)]
mod tests;
