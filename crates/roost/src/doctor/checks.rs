//! What the settings of a machine ought to be for a number of connections. Each check is a pure
//! function of the machine and that number; docs/tuning.md explains every one under its name.

mod card;
mod limits;
mod system;
mod tcp;

use super::machine::Machine;

/// How a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As it should be.
    Good,
    /// It costs speed or memory.
    Should,
    /// It keeps the machine from the connections.
    Must,
    /// The machine does not say.
    Unknown,
}

/// What was found out about a setting.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    /// The value and what it ought to be.
    pub(super) text: String,
    /// What changes it.
    pub(super) commands: Vec<String>,
}

/// One setting.
pub(super) struct Check {
    /// Its name, and that of its section in docs/tuning.md.
    pub(super) name: &'static str,
    pub(super) examine: fn(&Machine, u64) -> Option<Finding>,
}

/// All settings, the ones that stop a server first.
pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "descriptors",
        examine: limits::descriptors,
    },
    Check {
        name: "fs.nr_open",
        examine: limits::nr_open,
    },
    Check {
        name: "fs.file-max",
        examine: limits::file_max,
    },
    Check {
        name: "memory",
        examine: limits::memory,
    },
    Check {
        name: "net.netfilter.nf_conntrack_max",
        examine: limits::conntrack,
    },
    Check {
        name: "net.core.somaxconn",
        examine: tcp::somaxconn,
    },
    Check {
        name: "net.ipv4.tcp_max_syn_backlog",
        examine: tcp::syn_backlog,
    },
    Check {
        name: "net.ipv4.tcp_syncookies",
        examine: tcp::syncookies,
    },
    Check {
        name: "net.core.netdev_max_backlog",
        examine: card::backlog,
    },
    Check {
        name: "card queues",
        examine: card::queues,
    },
    Check {
        name: "card interrupts",
        examine: card::interrupts,
    },
    Check {
        name: "net.ipv4.tcp_mem",
        examine: tcp::tcp_mem,
    },
    Check {
        name: "net.ipv4.tcp_rmem",
        examine: tcp::tcp_rmem,
    },
    Check {
        name: "net.ipv4.tcp_wmem",
        examine: tcp::tcp_wmem,
    },
    Check {
        name: "net.core.rmem_max",
        examine: tcp::rmem_max,
    },
    Check {
        name: "net.core.wmem_max",
        examine: tcp::wmem_max,
    },
    Check {
        name: "TCP hash table",
        examine: tcp::hash_table,
    },
    Check {
        name: "net.ipv4.tcp_max_tw_buckets",
        examine: tcp::time_wait,
    },
    Check {
        name: "net.ipv4.ip_local_port_range",
        examine: tcp::port_range,
    },
    Check {
        name: "transparent_hugepage",
        examine: system::huge_pages,
    },
    Check {
        name: "vm.swappiness",
        examine: system::swappiness,
    },
    Check {
        name: "vm.min_free_kbytes",
        examine: system::min_free,
    },
    Check {
        name: "processors",
        examine: system::processors,
    },
    Check {
        name: "clocksource",
        examine: system::clocksource,
    },
];

fn good(text: String) -> Option<Finding> {
    Some(Finding {
        verdict: Verdict::Good,
        text,
        commands: Vec::new(),
    })
}

fn bad(verdict: Verdict, text: String, command: String) -> Option<Finding> {
    Some(Finding {
        verdict,
        text,
        commands: vec![command],
    })
}

/// A kernel setting that must not be below a value.
fn at_least(machine: &Machine, name: &str, wanted: u64, short: Verdict) -> Option<Finding> {
    let value = machine.sysctl_value(name)?;
    if value >= wanted {
        return good(value.to_string());
    }
    let command = format!("sysctl -w {name}={wanted}");
    bad(short, format!("{value}, needs {wanted}"), command)
}
