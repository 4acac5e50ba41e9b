//! What keeps a machine from a number of connections: descriptors, memory, connection tracking.

use super::{Finding, Verdict, at_least, bad, good};
use crate::doctor::machine::Machine;

/// Descriptors of the server that are no connections.
const DESCRIPTORS_RESERVED: u64 = 256;

/// Bytes of a connection with its user, the kernel's part included; docs/tuning.md has the sum.
const CONNECTION_BYTES: u64 = 12_000;

/// Bytes of the server without users.
const SERVER_BYTES: u64 = 64 * 1_024 * 1_024;

fn descriptors_wanted(connections: u64) -> u64 {
    connections.saturating_add(DESCRIPTORS_RESERVED)
}

pub(super) fn descriptors(machine: &Machine, connections: u64) -> Option<Finding> {
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

pub(super) fn nr_open(machine: &Machine, connections: u64) -> Option<Finding> {
    let wanted = descriptors_wanted(connections);
    at_least(machine, "fs.nr_open", wanted, Verdict::Must)
}

pub(super) fn file_max(machine: &Machine, connections: u64) -> Option<Finding> {
    let in_use = machine.sysctl_value("fs.file-nr").unwrap_or_default();
    let wanted = descriptors_wanted(connections).saturating_add(in_use);
    at_least(machine, "fs.file-max", wanted, Verdict::Must)
}

pub(super) fn memory(machine: &Machine, connections: u64) -> Option<Finding> {
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

pub(super) fn conntrack(machine: &Machine, connections: u64) -> Option<Finding> {
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
