//! What the settings of a machine ought to be for a number of connections. Each check is a pure
//! function of the machine and that number; docs/tuning.md explains every one under its name.

use super::machine::Machine;

/// Connections that the listeners of the server let the kernel hold for them.
const LISTEN_BACKLOG: u64 = 4_096;

/// Descriptors of the server that are no connections.
const DESCRIPTORS_RESERVED: u64 = 256;

/// Bytes of a connection with its user, the kernel's part included; docs/tuning.md has the sum.
const CONNECTION_BYTES: u64 = 12_000;

/// Bytes of the server without users.
const SERVER_BYTES: u64 = 64 * 1_024 * 1_024;

const PAGE_BYTES: u64 = 4_096;

/// One connection in so many is expected to have its buffers full at a time.
const SLOW_SHARE: u64 = 1_000;

/// Smallest bound of a socket's buffer that is ever advised.
const SOCKET_BYTES_MIN: u64 = 256 * 1_024;

/// Clocks that are read without a system call.
const FAST_CLOCKS: &[&str] = &[
    "tsc",
    "kvm-clock",
    "arch_sys_counter",
    "hyperv_clocksource_tsc_page",
    "riscv_clocksource",
];

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
        examine: descriptors,
    },
    Check {
        name: "fs.nr_open",
        examine: nr_open,
    },
    Check {
        name: "fs.file-max",
        examine: file_max,
    },
    Check {
        name: "memory",
        examine: memory,
    },
    Check {
        name: "net.netfilter.nf_conntrack_max",
        examine: conntrack,
    },
    Check {
        name: "net.core.somaxconn",
        examine: somaxconn,
    },
    Check {
        name: "net.ipv4.tcp_max_syn_backlog",
        examine: syn_backlog,
    },
    Check {
        name: "net.ipv4.tcp_syncookies",
        examine: syncookies,
    },
    Check {
        name: "net.ipv4.tcp_mem",
        examine: tcp_mem,
    },
    Check {
        name: "net.ipv4.tcp_rmem",
        examine: tcp_rmem,
    },
    Check {
        name: "net.ipv4.tcp_wmem",
        examine: tcp_wmem,
    },
    Check {
        name: "net.ipv4.ip_local_port_range",
        examine: port_range,
    },
    Check {
        name: "transparent_hugepage",
        examine: huge_pages,
    },
    Check {
        name: "vm.swappiness",
        examine: swappiness,
    },
    Check {
        name: "clocksource",
        examine: clocksource,
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

fn descriptors_wanted(connections: u64) -> u64 {
    connections.saturating_add(DESCRIPTORS_RESERVED)
}

fn descriptors(machine: &Machine, connections: u64) -> Option<Finding> {
    let (value, wanted) = (machine.descriptors()?, descriptors_wanted(connections));
    if value >= wanted {
        return good(value.to_string());
    }
    bad(
        Verdict::Must,
        format!("{value}, needs {wanted} (one for each connection)"),
        format!(
            "ulimit -n {wanted}   # systemd: LimitNOFILE={wanted}; Podman: --ulimit nofile={wanted}"
        ),
    )
}

fn nr_open(machine: &Machine, connections: u64) -> Option<Finding> {
    let wanted = descriptors_wanted(connections);
    at_least(machine, "fs.nr_open", wanted, Verdict::Must)
}

fn file_max(machine: &Machine, connections: u64) -> Option<Finding> {
    let in_use = machine.sysctl_value("fs.file-nr").unwrap_or_default();
    let wanted = descriptors_wanted(connections).saturating_add(in_use);
    at_least(machine, "fs.file-max", wanted, Verdict::Must)
}

fn memory(machine: &Machine, connections: u64) -> Option<Finding> {
    let bytes = machine.memory_bytes()?;
    let wanted = connections
        .saturating_mul(CONNECTION_BYTES)
        .saturating_add(SERVER_BYTES);
    let megabytes = |bytes: u64| bytes / 1_000_000;
    if bytes >= wanted {
        let (has, needs) = (megabytes(bytes), megabytes(wanted));
        return good(format!("{has} MB, of which it needs {needs} MB"));
    }
    let held = bytes.saturating_sub(SERVER_BYTES) / CONNECTION_BYTES;
    bad(
        Verdict::Must,
        format!("{} MB, needs {} MB", megabytes(bytes), megabytes(wanted)),
        format!("roost doctor --connections {held}   # or more memory"),
    )
}

fn conntrack(machine: &Machine, connections: u64) -> Option<Finding> {
    let name = "net.netfilter.nf_conntrack_max";
    let Some(value) = machine.sysctl_value(name) else {
        return good("no connection tracking".to_owned());
    };
    let wanted = connections.saturating_add(connections / 4);
    let in_use = machine.sysctl_value("net.netfilter.nf_conntrack_count") > Some(0);
    if value >= wanted || !in_use {
        let note = if in_use { "" } else { ", not in use" };
        return good(format!("{value}{note}"));
    }
    at_least(machine, name, wanted, Verdict::Must)
}

fn somaxconn(machine: &Machine, _: u64) -> Option<Finding> {
    at_least(
        machine,
        "net.core.somaxconn",
        LISTEN_BACKLOG,
        Verdict::Should,
    )
}

fn syn_backlog(machine: &Machine, _: u64) -> Option<Finding> {
    let name = "net.ipv4.tcp_max_syn_backlog";
    at_least(machine, name, LISTEN_BACKLOG, Verdict::Should)
}

fn syncookies(machine: &Machine, _: u64) -> Option<Finding> {
    at_least(machine, "net.ipv4.tcp_syncookies", 1, Verdict::Should)
}

fn tcp_mem(machine: &Machine, connections: u64) -> Option<Finding> {
    let pages = machine.sysctl("net.ipv4.tcp_mem")?;
    let [_, pressure, max] = pages[..] else {
        return None;
    };
    let wanted = connections / 2;
    if pressure >= wanted {
        return good(format!("pressure at {pressure} pages, end at {max}"));
    }
    let (low, end) = (wanted / 4 * 3, wanted / 2 * 3);
    bad(
        Verdict::Should,
        format!("pressure at {pressure} pages, needs {wanted}"),
        format!("sysctl -w net.ipv4.tcp_mem='{low} {wanted} {end}'"),
    )
}

fn tcp_rmem(machine: &Machine, connections: u64) -> Option<Finding> {
    socket_buffer(machine, "net.ipv4.tcp_rmem", connections)
}

fn tcp_wmem(machine: &Machine, connections: u64) -> Option<Finding> {
    socket_buffer(machine, "net.ipv4.tcp_wmem", connections)
}

/// The full buffers of the slow ones must fit into half of what the kernel gives to TCP.
fn socket_buffer(machine: &Machine, name: &str, connections: u64) -> Option<Finding> {
    let values = machine.sysctl(name)?;
    let [min, default, max] = values[..] else {
        return None;
    };
    let pages = machine.sysctl("net.ipv4.tcp_mem")?;
    let pages = (*pages.get(2)?).max(connections / 4 * 3);
    let slow = (connections / SLOW_SHARE).max(1);
    let share = pages.saturating_mul(PAGE_BYTES) / 2 / slow;
    if max <= share.max(SOCKET_BYTES_MIN) {
        return good(format!("at most {max} bytes"));
    }
    let wanted = (share / PAGE_BYTES * PAGE_BYTES).max(SOCKET_BYTES_MIN);
    let default = default.min(wanted);
    bad(
        Verdict::Should,
        format!("at most {max} bytes, needs {wanted} or less"),
        format!("sysctl -w {name}='{min} {default} {wanted}'"),
    )
}

fn port_range(machine: &Machine, connections: u64) -> Option<Finding> {
    let range = machine.sysctl("net.ipv4.ip_local_port_range")?;
    let [first, last] = range[..] else {
        return None;
    };
    let ports = (last + 1).saturating_sub(first);
    let widest = 65_536 - 1_024;
    if ports >= connections.min(widest) {
        return good(format!("{first} to {last}"));
    }
    bad(
        Verdict::Should,
        format!("{first} to {last}: {ports} outgoing connections to one address"),
        "sysctl -w net.ipv4.ip_local_port_range='1024 65535'".to_owned(),
    )
}

fn huge_pages(machine: &Machine, _: u64) -> Option<Finding> {
    let setting = machine.huge_pages()?;
    if setting != "always" {
        return good(setting);
    }
    bad(
        Verdict::Should,
        "always, needs madvise".to_owned(),
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled".to_owned(),
    )
}

fn swappiness(machine: &Machine, _: u64) -> Option<Finding> {
    if machine.swap_bytes()? == 0 {
        return good("no swap".to_owned());
    }
    let value = machine.sysctl_value("vm.swappiness")?;
    if value <= 10 {
        return good(value.to_string());
    }
    let command = "sysctl -w vm.swappiness=10".to_owned();
    bad(
        Verdict::Should,
        format!("{value}, needs 10 or less"),
        command,
    )
}

fn clocksource(machine: &Machine, _: u64) -> Option<Finding> {
    let (current, all) = machine.clocks()?;
    if FAST_CLOCKS.contains(&current.as_str()) {
        return good(current);
    }
    let faster = all
        .iter()
        .find(|clock| FAST_CLOCKS.contains(&clock.as_str()));
    let command = match faster {
        Some(clock) => format!(
            "echo {clock} > /sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        None => "dmesg | grep -i clocksource   # why there is no faster one".to_owned(),
    };
    let text = format!("{current}, which takes a system call each time");
    bad(Verdict::Should, text, command)
}
