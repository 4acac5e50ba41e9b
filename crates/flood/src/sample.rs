//! Reads what Linux says of processes and of the network: memory, CPU, socket buffers.
//!
//! A missing file or field gives zero: a load must not fail because a kernel is old.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::clock;

/// Kernel ticks per second in /proc/*/stat; Linux fixes it at 100 for user space.
const TICKS_PER_SECOND: u64 = 100;

/// What a set of processes and the machine used at one moment.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Moment of the monotonic clock in nanoseconds.
    pub at: u64,
    /// Resident bytes of the server's processes.
    pub rss: u64,
    /// Of these, anonymous memory: heap and stacks, without mapped files.
    pub rss_anon: u64,
    /// CPU time of the server's processes in nanoseconds.
    pub cpu: u64,
    /// Of these, time in the kernel.
    pub cpu_system: u64,
    /// Threads of the server's processes.
    pub threads: u64,
    /// Bytes in TCP socket buffers of the whole machine, both ends of loopback links included.
    pub tcp_memory: u64,
    /// TCP sockets in use on the machine.
    pub tcp_sockets: u64,
    /// Kernel objects (slab) of the whole machine in bytes: sockets, descriptors, epoll entries.
    pub slab: u64,
    /// Times a listening socket's queue overflowed since the machine started.
    pub listen_overflows: u64,
    /// TCP segments sent again since the machine started.
    pub retransmits: u64,
    /// Whether all server processes were there.
    pub alive: bool,
}

/// Takes a sample of the processes `pids` and of the machine.
pub(crate) fn take(pids: &[u32]) -> Sample {
    let mut sample = Sample {
        at: clock::now(),
        alive: true,
        ..Sample::default()
    };
    for pid in pids {
        let status = read(&format!("/proc/{pid}/status"));
        sample.rss += field_kb(&status, "VmRSS:");
        sample.rss_anon += field_kb(&status, "RssAnon:");
        sample.threads += field(&status, "Threads:");
        let (user, system) = cpu_ticks(&read(&format!("/proc/{pid}/stat")));
        sample.cpu += (user + system) * clock::SECOND / TICKS_PER_SECOND;
        sample.cpu_system += system * clock::SECOND / TICKS_PER_SECOND;
        sample.alive &= !status.is_empty() && !status.contains("State:\tZ");
    }
    let sockstat = read("/proc/net/sockstat");
    let tcp = sockstat
        .lines()
        .find(|line| line.starts_with("TCP:"))
        .unwrap_or_default();
    sample.tcp_sockets = after(tcp, "inuse");
    sample.tcp_memory = after(tcp, "mem") * rustix::param::page_size() as u64;
    sample.slab = field_kb(&read("/proc/meminfo"), "Slab:");
    sample.listen_overflows = column(&read("/proc/net/netstat"), "TcpExt:", "ListenOverflows");
    sample.retransmits = column(&read("/proc/net/snmp"), "Tcp:", "RetransSegs");
    sample
}

/// CPU time of this process in nanoseconds.
pub(crate) fn own_cpu() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * clock::SECOND + time.tv_nsec as u64
}

/// What a report says about the machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel release.
    pub kernel: String,
    /// Processor model.
    pub processor: String,
    /// Processors.
    pub processors: u64,
    /// Memory in bytes.
    pub memory: u64,
}

/// Describes this machine.
pub(crate) fn machine() -> Machine {
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    Machine {
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        processor: model
            .unwrap_or_default()
            .trim_start_matches(['\t', ' ', ':'])
            .to_owned(),
        processors: cpuinfo
            .lines()
            .filter(|line| line.starts_with("processor"))
            .count() as u64,
        memory: field_kb(&read("/proc/meminfo"), "MemTotal:"),
    }
}

/// The command line of a process, for the report.
pub(crate) fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    text.trim_end().chars().take(200).collect()
}

fn read(path: &str) -> String {
    // Command names in /proc/*/stat need not be UTF-8.
    fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

fn field_kb(text: &str, name: &str) -> u64 {
    field(text, name) * 1_024
}

fn after(line: &str, name: &str) -> u64 {
    let mut words = line.split_whitespace().skip_while(|word| *word != name);
    words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// A value of the tables whose first line has names and whose second has numbers.
fn column(text: &str, prefix: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with(prefix));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return 0;
    };
    let place = names.split_whitespace().position(|word| word == name);
    place
        .and_then(|place| values.split_whitespace().nth(place)?.parse().ok())
        .unwrap_or(0)
}

/// User and system time from /proc/*/stat, whose second field may hold spaces and parentheses.
fn cpu_ticks(stat: &str) -> (u64, u64) {
    let Some((_, rest)) = stat.rsplit_once(')') else {
        return (0, 0);
    };
    let mut words = rest
        .split_whitespace()
        .skip(11)
        .map(|word| word.parse().unwrap_or(0));
    (words.next().unwrap_or(0), words.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_the_kernel_s_formats() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 0 0 0 250 50 0 0 20 0 4 0 9 1 2";
        assert_eq!(cpu_ticks(stat), (250, 50));
        assert_eq!(cpu_ticks(""), (0, 0));
        assert_eq!(
            after("TCP: inuse 5 orphan 0 tw 2 alloc 9 mem 30", "mem"),
            30
        );
        let table = "TcpExt: A ListenOverflows C\nTcpExt: 1 22 3\nIpExt: X\nIpExt: 4\n";
        assert_eq!(column(table, "TcpExt:", "ListenOverflows"), 22);
        assert_eq!(column(table, "TcpExt:", "Absent"), 0);
        assert_eq!(field_kb("VmRSS:\t  12 kB\n", "VmRSS:"), 12_288);
    }

    #[test]
    fn this_process_has_memory_and_threads() {
        let sample = take(&[std::process::id()]);
        assert!(
            sample.alive && sample.rss > 1_000_000 && sample.threads >= 1,
            "{sample:?}"
        );
        assert!(!take(&[u32::MAX]).alive);
        assert!(machine().processors > 0);
    }
}
