//! The way of packets from the network cards to the processors: queues, interrupts, the backlog
//! between them.

use super::{Finding, Verdict, at_least, bad, good};
use crate::doctor::machine::{Card, Machine};

/// Least that the backlog of a processor should hold; what kernels start with.
const BACKLOG_MIN: u64 = 1_000;

/// The longest that is of use: more only adds to the delay.
const BACKLOG_MAX: u64 = 30_000;

/// A burst to one connection in so many should fit.
const BURST_SHARE: u64 = 100;

/// Processors that one card needs at most, so that no interrupt holds up the shards.
const SPREAD_MAX: usize = 8;

pub(super) fn backlog(machine: &Machine, connections: u64) -> Option<Finding> {
    let name = "net.core.netdev_max_backlog";
    let value = machine.sysctl_value(name)?;
    let wanted = (connections / BURST_SHARE).clamp(BACKLOG_MIN, BACKLOG_MAX);
    let dropped = machine.backlog_drops().unwrap_or_default();
    if dropped > 0 && value < BACKLOG_MAX {
        let more = wanted.max(value.saturating_mul(2)).min(BACKLOG_MAX);
        return bad(
            Verdict::Should,
            format!("{value}, and {dropped} packets were dropped there"),
            format!("sysctl -w {name}={more}"),
        );
    }
    at_least(machine, name, wanted, Verdict::Should)
}

/// One queue is one interrupt, and one interrupt is handled by one processor at a time.
pub(super) fn queues(machine: &Machine, _: u64) -> Option<Finding> {
    let wanted = machine.processors()?.1.len().min(SPREAD_MAX);
    let is_narrow = |card: &Card| card.queues < wanted && !card.is_steered;
    each_card(machine, is_narrow, |card| {
        let (name, mask) = (&card.name, (1_u64 << wanted) - 1);
        (
            format!("{name} has {} of {wanted}", card.queues),
            format!(
                "ethtool -L {name} combined {wanted} || \
                 for q in /sys/class/net/{name}/queues/rx-*; do echo {mask:x} > $q/rps_cpus; done"
            ),
        )
    })
}

pub(super) fn interrupts(machine: &Machine, _: u64) -> Option<Finding> {
    let is_crowded = |card: &Card| card.queues > 1 && card.processors.len() == 1;
    each_card(machine, is_crowded, |card| {
        (
            format!("all of {} on one processor", card.name),
            "systemctl enable --now irqbalance   # or /proc/irq/*/smp_affinity_list".to_owned(),
        )
    })
}

/// Cards of which something is to be said, or that there is nothing.
fn each_card(
    machine: &Machine,
    is_bad: impl Fn(&Card) -> bool,
    said: impl Fn(&Card) -> (String, String),
) -> Option<Finding> {
    let cards = machine.cards()?;
    if cards.is_empty() {
        return good("no card of its own".to_owned());
    }
    let (texts, commands): (Vec<_>, Vec<_>) =
        cards.iter().filter(|card| is_bad(card)).map(said).unzip();
    if texts.is_empty() {
        let names: Vec<&str> = cards.iter().map(|card| card.name.as_str()).collect();
        return good(names.join(", "));
    }
    Some(Finding {
        verdict: Verdict::Should,
        text: texts.join(", "),
        commands,
    })
}
