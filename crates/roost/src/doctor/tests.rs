//! A machine of files: what is said of settings that are good, bad and absent.

use std::fs;
use std::path::Path;

use super::checks::CHECKS;
use super::examine;
use super::machine::Machine;

/// A machine on which nothing needs to be changed for 100,000 connections.
const GOOD: &[(&str, &str)] = &[
    (
        "proc/self/limits",
        "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  200000  files\n",
    ),
    ("proc/self/cgroup", "0::/service\n"),
    ("sys/fs/cgroup/service/memory.max", "max\n"),
    ("proc/meminfo", "MemTotal:  8000000 kB\nSwapTotal:  0 kB\n"),
    ("proc/sys/fs/nr_open", "1048576\n"),
    ("proc/sys/fs/file-max", "2000000\n"),
    ("proc/sys/fs/file-nr", "3000\t0\t2000000\n"),
    ("proc/sys/net/core/somaxconn", "4096\n"),
    ("proc/sys/net/ipv4/tcp_max_syn_backlog", "4096\n"),
    ("proc/sys/net/ipv4/tcp_syncookies", "1\n"),
    ("proc/sys/net/ipv4/tcp_mem", "90000\t120000\t180000\n"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t3000000\n"),
    ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t3000000\n"),
    ("proc/sys/net/ipv4/ip_local_port_range", "1024\t65535\n"),
    (
        "sys/kernel/mm/transparent_hugepage/enabled",
        "always [madvise] never\n",
    ),
    ("proc/sys/vm/swappiness", "60\n"),
    ("proc/sys/vm/min_free_kbytes", "67584\n"),
    (
        "proc/self/status",
        "Name:\troost\nCpus_allowed_list:\t0-1\n",
    ),
    ("sys/devices/system/cpu/online", "0-1\n"),
    ("proc/sys/net/core/netdev_max_backlog", "1000\n"),
    (
        "proc/net/softnet_stat",
        "00456ece 00000000 00000005\n0048b91b 00000000 00000002\n",
    ),
    ("proc/sys/net/core/rmem_max", "212992\n"),
    ("proc/sys/net/core/wmem_max", "212992\n"),
    ("proc/sys/net/ipv4/tcp_ehash_entries", "262144\n"),
    ("proc/sys/net/ipv4/tcp_max_tw_buckets", "131072\n"),
    ("sys/class/net/lo/queues/rx-0/rps_cpus", "0\n"),
    ("sys/class/net/eth0/device/vendor", "0x1af4\n"),
    ("sys/class/net/eth0/device/msi_irqs/41", "msix\n"),
    ("sys/class/net/eth0/device/msi_irqs/42", "msix\n"),
    ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
    ("sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n"),
    ("proc/irq/41/effective_affinity_list", "0\n"),
    ("proc/irq/42/effective_affinity_list", "1\n"),
    (
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        "tsc\n",
    ),
    (
        "sys/devices/system/clocksource/clocksource0/available_clocksource",
        "tsc hpet \n",
    ),
];

/// What is said of a machine that differs from the good one.
fn said(changes: &[(&str, &str)], connections: u64) -> (String, bool) {
    let folder = tempfile::tempdir().expect("folder");
    for (path, text) in GOOD.iter().chain(changes) {
        write(folder.path(), path, text);
    }
    examine(
        &Machine::new(folder.path().to_owned(), "self".to_owned()),
        connections,
    )
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    fs::write(path, text).expect("a file");
}

#[test]
fn a_good_machine_is_left_alone() {
    let (text, is_able) = said(&[], 100_000);
    assert!(is_able, "{text}");
    assert!(text.contains("Nothing to change."), "{text}");
    assert!(text.contains("no connection tracking"), "{text}");
}

#[test]
fn what_keeps_a_machine_from_its_connections_is_told_with_the_command() {
    for (path, value, command) in [
        (
            "proc/self/limits",
            "Max open files 1024 4096 files",
            "ulimit -n 100256 ",
        ),
        (
            "proc/sys/fs/nr_open",
            "65536",
            "sysctl -w fs.nr_open=100256",
        ),
        (
            "proc/sys/fs/file-max",
            "90000",
            "sysctl -w fs.file-max=103256",
        ),
        (
            "proc/meminfo",
            "MemTotal: 1000000 kB",
            "--connections 79740 ",
        ),
        (
            "sys/fs/cgroup/service/memory.max",
            "500000000",
            "--connections 36074 ",
        ),
    ] {
        let (text, is_able) = said(&[(path, value)], 100_000);
        assert!(!is_able, "{path}: {text}");
        assert!(text.contains("MUST "), "{path}: {text}");
        assert!(text.contains(command), "{path}: {text}");
    }
    let tracked = [
        ("proc/sys/net/netfilter/nf_conntrack_max", "65536"),
        ("proc/sys/net/netfilter/nf_conntrack_count", "12"),
    ];
    let (text, is_able) = said(&tracked, 100_000);
    assert!(
        !is_able && text.contains("nf_conntrack_max=125000"),
        "{text}"
    );
    let (text, is_able) = said(&tracked[..1], 100_000);
    assert!(is_able && text.contains("not in use"), "{text}");
}

#[test]
fn what_costs_speed_or_memory_is_told_with_the_command() {
    let clock = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    for (changes, command) in [
        (
            &[("proc/sys/net/core/somaxconn", "128")][..],
            "net.core.somaxconn=4096",
        ),
        (
            &[("proc/sys/net/ipv4/tcp_max_syn_backlog", "512")],
            "syn_backlog=4096",
        ),
        (
            &[("proc/sys/net/ipv4/tcp_syncookies", "0")],
            "tcp_syncookies=1",
        ),
        (
            &[("proc/sys/net/ipv4/tcp_mem", "10 20000 30000")],
            "tcp_mem='37500 50000 75000'",
        ),
        (
            &[("proc/sys/net/ipv4/tcp_wmem", "4096 16384 33554432")],
            "tcp_wmem='4096 16384 3686400'",
        ),
        (
            &[("proc/sys/net/ipv4/tcp_rmem", "4096 131072 33554432")],
            "tcp_rmem='4096 131072 3686400'",
        ),
        (
            &[("proc/sys/net/ipv4/ip_local_port_range", "32768 60999")],
            "ip_local_port_range='1024 65535'",
        ),
        (
            &[(
                "sys/kernel/mm/transparent_hugepage/enabled",
                "[always] madvise",
            )],
            "echo madvise >",
        ),
        (
            &[("proc/meminfo", "MemTotal: 8000000 kB\nSwapTotal: 100 kB")],
            "vm.swappiness=10",
        ),
        (&[(clock, "hpet")], "echo tsc >"),
        (
            &[("proc/sys/net/core/netdev_max_backlog", "300")],
            "netdev_max_backlog=1000",
        ),
        (
            &[("proc/net/softnet_stat", "00456ece 0000000a 00000005\n")],
            "netdev_max_backlog=2000",
        ),
        (
            &[("proc/sys/net/core/wmem_max", "33554432")],
            "wmem_max=3686400",
        ),
        (
            &[("proc/sys/net/ipv4/tcp_ehash_entries", "32768")],
            "thash_entries=131072",
        ),
        (
            &[("proc/sys/net/ipv4/tcp_max_tw_buckets", "65536")],
            "tcp_max_tw_buckets=100000",
        ),
        (
            &[("proc/sys/vm/min_free_kbytes", "8192")],
            "vm.min_free_kbytes=16384",
        ),
        (
            &[("sys/devices/system/cpu/online", "0-3")],
            "taskset -c 0,1,2,3 roost",
        ),
        (
            &[("sys/class/net/eth1/device/vendor", "0x1af4")],
            "ethtool -L eth1 combined 2",
        ),
        (
            &[("proc/irq/42/effective_affinity_list", "0")],
            "irqbalance",
        ),
    ] {
        let (text, is_able) = said(changes, 100_000);
        assert!(is_able, "{changes:?}: {text}");
        assert!(text.contains("should "), "{changes:?}: {text}");
        assert!(text.contains(command), "{command}: {text}");
        assert!(!text.contains("MUST"), "{changes:?}: {text}");
    }
}

#[test]
fn packets_that_the_kernel_passes_on_need_no_queues() {
    let steered = [
        ("sys/class/net/eth1/device/vendor", "0x1af4"),
        (
            "sys/class/net/eth1/queues/rx-0/rps_cpus",
            "00000000,00000003\n",
        ),
    ];
    let (text, _) = said(&steered, 100_000);
    assert!(text.contains("eth0, eth1"), "{text}");
    assert!(text.contains("Nothing to change."), "{text}");
    let (text, _) = said(&[("sys/devices/system/cpu/online", "0-99999999")], 100_000);
    assert!(text.contains("unknown"), "{text}");
}

#[test]
fn what_a_machine_does_not_say_is_unknown() {
    let folder = tempfile::tempdir().expect("folder");
    let machine = Machine::new(folder.path().to_owned(), "self".to_owned());
    let (text, is_able) = examine(&machine, 1_000);
    assert!(is_able);
    assert_eq!(
        text.matches("this machine does not say").count(),
        CHECKS.len() - 1,
        "{text}"
    );
}

#[test]
fn every_setting_has_its_section_in_the_documentation() {
    let page = include_str!("../../../../docs/tuning.md");
    let sections: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'))
        .collect();
    let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
    assert_eq!(sections, names, "in the order of the report");
    for section in page.split("### `").skip(1) {
        for word in ["What:", "Why:", "How much:", "Set it:"] {
            let name = section.lines().next().unwrap_or_default();
            assert!(section.contains(word), "{name} lacks {word}");
        }
    }
}
