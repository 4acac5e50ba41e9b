//! How the kernel keeps TCP connections: queues of listeners, buffers, tables, ports.

use super::{Finding, Verdict, at_least, bad, good};
use crate::doctor::machine::Machine;

/// Connections that the listeners of the server let the kernel hold for them.
const LISTEN_BACKLOG: u64 = 4_096;

const PAGE_BYTES: u64 = 4_096;

/// One connection in so many is expected to have its buffers full at a time.
const SLOW_SHARE: u64 = 1_000;

/// Smallest bound of a socket's buffer that is ever advised.
const SOCKET_BYTES_MIN: u64 = 256 * 1_024;

pub(super) fn somaxconn(machine: &Machine, _: u64) -> Option<Finding> {
    at_least(
        machine,
        "net.core.somaxconn",
        LISTEN_BACKLOG,
        Verdict::Should,
    )
}

pub(super) fn syn_backlog(machine: &Machine, _: u64) -> Option<Finding> {
    let name = "net.ipv4.tcp_max_syn_backlog";
    at_least(machine, name, LISTEN_BACKLOG, Verdict::Should)
}

pub(super) fn syncookies(machine: &Machine, _: u64) -> Option<Finding> {
    at_least(machine, "net.ipv4.tcp_syncookies", 1, Verdict::Should)
}

pub(super) fn tcp_mem(machine: &Machine, connections: u64) -> Option<Finding> {
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

pub(super) fn tcp_rmem(machine: &Machine, connections: u64) -> Option<Finding> {
    socket_buffer(machine, "net.ipv4.tcp_rmem", connections)
}

pub(super) fn tcp_wmem(machine: &Machine, connections: u64) -> Option<Finding> {
    socket_buffer(machine, "net.ipv4.tcp_wmem", connections)
}

/// The full buffers of the slow ones must fit into half of what the kernel gives to TCP.
fn buffer_bytes_max(machine: &Machine, connections: u64) -> Option<u64> {
    let pages = machine.sysctl("net.ipv4.tcp_mem")?;
    let pages = (*pages.get(2)?).max(connections / 4 * 3);
    let slow = (connections / SLOW_SHARE).max(1);
    let share = pages.saturating_mul(PAGE_BYTES) / 2 / slow;
    Some((share / PAGE_BYTES * PAGE_BYTES).max(SOCKET_BYTES_MIN))
}

pub(super) fn rmem_max(machine: &Machine, connections: u64) -> Option<Finding> {
    buffer_ceiling(machine, "net.core.rmem_max", connections)
}

pub(super) fn wmem_max(machine: &Machine, connections: u64) -> Option<Finding> {
    buffer_ceiling(machine, "net.core.wmem_max", connections)
}

/// What a program may ask for, under the same bound.
fn buffer_ceiling(machine: &Machine, name: &str, connections: u64) -> Option<Finding> {
    let max = machine.sysctl_value(name)?;
    let bound = buffer_bytes_max(machine, connections)?;
    if max <= bound {
        return good(format!("at most {max} bytes"));
    }
    bad(
        Verdict::Should,
        format!("at most {max} bytes, needs {bound} or less"),
        format!("sysctl -w {name}={bound}"),
    )
}

fn socket_buffer(machine: &Machine, name: &str, connections: u64) -> Option<Finding> {
    let values = machine.sysctl(name)?;
    let [min, default, max] = values[..] else {
        return None;
    };
    let bound = buffer_bytes_max(machine, connections)?;
    if max <= bound {
        return good(format!("at most {max} bytes"));
    }
    let default = default.min(bound);
    bad(
        Verdict::Should,
        format!("at most {max} bytes, needs {bound} or less"),
        format!("sysctl -w {name}='{min} {default} {bound}'"),
    )
}

pub(super) fn port_range(machine: &Machine, connections: u64) -> Option<Finding> {
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

/// When a server stops, it closes all connections, and each leaves an entry for a minute.
pub(super) fn time_wait(machine: &Machine, connections: u64) -> Option<Finding> {
    let name = "net.ipv4.tcp_max_tw_buckets";
    at_least(machine, name, connections, Verdict::Should)
}

/// Two connections in a bucket are a look more for each packet; the size is chosen at boot.
pub(super) fn hash_table(machine: &Machine, connections: u64) -> Option<Finding> {
    let buckets = machine.sysctl_value("net.ipv4.tcp_ehash_entries")?;
    let wanted = connections / 2;
    if buckets >= wanted {
        return good(format!("{buckets} buckets"));
    }
    let parameter = connections.next_power_of_two();
    bad(
        Verdict::Should,
        format!("{buckets} buckets, needs {wanted}"),
        format!("# at the next boot, the kernel parameter thash_entries={parameter}"),
    )
}
