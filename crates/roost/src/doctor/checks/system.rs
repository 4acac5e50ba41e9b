//! Memory, processors and the clock of the machine.

use super::{Finding, Verdict, at_least, bad, good};
use crate::doctor::machine::Machine;

/// Clocks that are read without a system call.
const FAST_CLOCKS: &[&str] = &[
    "tsc",
    "kvm-clock",
    "arch_sys_counter",
    "hyperv_clocksource_tsc_page",
    "riscv_clocksource",
];

/// Bytes that the kernel keeps for packets of each connection, in a burst to all of them.
const BURST_BYTES: u64 = 64;

/// Least that it should keep, in kB.
const FREE_KB_MIN: u64 = 16 * 1_024;

pub(super) fn huge_pages(machine: &Machine, _: u64) -> Option<Finding> {
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

pub(super) fn swappiness(machine: &Machine, _: u64) -> Option<Finding> {
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

pub(super) fn clocksource(machine: &Machine, _: u64) -> Option<Finding> {
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

/// Packets are received without waiting for memory: what is not free then, drops them.
pub(super) fn min_free(machine: &Machine, connections: u64) -> Option<Finding> {
    let most = machine.physical_bytes()? / 20 / 1_024;
    let burst = connections.saturating_mul(BURST_BYTES) / 1_024;
    let wanted = burst.max(FREE_KB_MIN).min(most);
    at_least(machine, "vm.min_free_kbytes", wanted, Verdict::Should)
}

/// A server that may use few processors has few shards.
pub(super) fn processors(machine: &Machine, _: u64) -> Option<Finding> {
    let (allowed, online) = machine.processors()?;
    if allowed.len() >= online.len() {
        return good(format!("all {}", online.len()));
    }
    let all = online.iter().map(u32::to_string).collect::<Vec<_>>();
    bad(
        Verdict::Should,
        format!("{} of {}", allowed.len(), online.len()),
        format!(
            "taskset -c {} roost serve   # systemd: CPUAffinity=; good if others need the rest",
            all.join(",")
        ),
    )
}
