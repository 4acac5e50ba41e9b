//! What the machine says about itself, below `/proc` and `/sys`. Owns the places and their formats;
//! what the values ought to be is `checks`.

use std::fs;
use std::path::PathBuf;

/// Where values are read from.
pub(super) struct Machine {
    root: PathBuf,
    process: String,
}

impl Machine {
    /// The machine below `root`, with the limits of a process: its number, or `self`.
    pub(super) fn new(root: PathBuf, process: String) -> Machine {
        Machine { root, process }
    }

    /// Whether the process of which the limits are wanted is there.
    pub(super) fn has_process(&self) -> bool {
        self.text(&format!("proc/{}/limits", self.process))
            .is_some()
    }

    fn text(&self, path: &str) -> Option<String> {
        // A setting that is absent or not for our eyes is unknown, and said to be so.
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The numbers of a kernel setting such as `net.core.somaxconn`.
    pub(super) fn sysctl(&self, name: &str) -> Option<Vec<u64>> {
        let text = self.text(&format!("proc/sys/{}", name.replace('.', "/")))?;
        let numbers = text.split_whitespace().map(str::parse);
        numbers.collect::<Result<Vec<u64>, _>>().ok()
    }

    /// The first number of a kernel setting.
    pub(super) fn sysctl_value(&self, name: &str) -> Option<u64> {
        self.sysctl(name)?.first().copied()
    }

    /// The hard limit of open descriptors. The server raises the soft one by itself.
    pub(super) fn descriptors(&self) -> Option<u64> {
        let limits = self.text(&format!("proc/{}/limits", self.process))?;
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max open files"))?;
        match line.split_whitespace().nth(4)? {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        }
    }

    /// Bytes of memory of the whole machine.
    pub(super) fn physical_bytes(&self) -> Option<u64> {
        self.memory_info("MemTotal:")
    }

    /// Bytes of memory: the machine's, or those that its control group may use.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        let physical = self.physical_bytes()?;
        Some(
            self.group_bytes()
                .map_or(physical, |group| group.min(physical)),
        )
    }

    /// Bytes of swap space.
    pub(super) fn swap_bytes(&self) -> Option<u64> {
        self.memory_info("SwapTotal:")
    }

    fn memory_info(&self, key: &str) -> Option<u64> {
        let info = self.text("proc/meminfo")?;
        let line = info.lines().find(|line| line.starts_with(key))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kib.saturating_mul(1_024))
    }

    /// The bound of the control group, in either version; `max` is none.
    fn group_bytes(&self) -> Option<u64> {
        let groups = self.text(&format!("proc/{}/cgroup", self.process))?;
        let bounds = groups.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let file = match controllers {
                "" => format!("sys/fs/cgroup{path}/memory.max"),
                "memory" => format!("sys/fs/cgroup/memory{path}/memory.limit_in_bytes"),
                _ => return None,
            };
            self.text(&file)?.parse::<u64>().ok()
        });
        bounds.min()
    }

    /// The setting of transparent huge pages that is in force.
    pub(super) fn huge_pages(&self) -> Option<String> {
        let text = self.text("sys/kernel/mm/transparent_hugepage/enabled")?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    }

    /// The clock in use, and those to choose from.
    pub(super) fn clocks(&self) -> Option<(String, Vec<String>)> {
        let folder = "sys/devices/system/clocksource/clocksource0";
        let current = self.text(&format!("{folder}/current_clocksource"))?;
        let all = self.text(&format!("{folder}/available_clocksource"))?;
        Some((current, all.split_whitespace().map(str::to_owned).collect()))
    }

    /// The processors that the process may run on, and those that are there.
    pub(super) fn processors(&self) -> Option<(Vec<u32>, Vec<u32>)> {
        let status = self.text(&format!("proc/{}/status", self.process))?;
        let key = "Cpus_allowed_list:";
        let allowed = status.lines().find_map(|line| line.strip_prefix(key))?;
        let online = self.text("sys/devices/system/cpu/online")?;
        Some((ranges(allowed.trim())?, ranges(&online)?))
    }

    /// Packets that a processor dropped because its backlog was full, since the start.
    pub(super) fn backlog_drops(&self) -> Option<u64> {
        let text = self.text("proc/net/softnet_stat")?;
        let drops = text.lines().map(|line| {
            let word = line.split_whitespace().nth(1)?;
            u64::from_str_radix(word, 16).ok()
        });
        drops.sum()
    }

    /// The cards that have a device: not the loopback, bridges and the like.
    pub(super) fn cards(&self) -> Option<Vec<Card>> {
        let mut names = self.names("sys/class/net")?;
        names.retain(|name| self.exists(&format!("sys/class/net/{name}/device")));
        names.sort();
        Some(names.into_iter().map(|name| self.card(name)).collect())
    }

    fn card(&self, name: String) -> Card {
        let folder = format!("sys/class/net/{name}");
        let queues = self.names(&format!("{folder}/queues")).unwrap_or_default();
        let receiving = queues.iter().filter(|queue| queue.starts_with("rx-"));
        let is_steered = receiving.clone().count() > 0
            && receiving.clone().all(|queue| {
                let mask = self.text(&format!("{folder}/queues/{queue}/rps_cpus"));
                mask.is_some_and(|mask| mask.chars().any(|digit| !matches!(digit, '0' | ',')))
            });
        let mut processors: Vec<u32> = Vec::new();
        for place in ["device/msi_irqs", "device/../msi_irqs"] {
            for irq in self.names(&format!("{folder}/{place}")).unwrap_or_default() {
                let list = self.text(&format!("proc/irq/{irq}/effective_affinity_list"));
                processors.extend(list.and_then(|list| ranges(&list)).unwrap_or_default());
            }
        }
        processors.sort_unstable();
        processors.dedup();
        Card {
            queues: receiving.count(),
            name,
            is_steered,
            processors,
        }
    }

    fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    fn names(&self, path: &str) -> Option<Vec<String>> {
        let entries = fs::read_dir(self.root.join(path)).ok()?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Some(names.collect())
    }
}

/// A network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) name: String,
    /// Queues that it receives into.
    pub(super) queues: usize,
    /// The kernel passes what it receives on to other processors (RPS).
    pub(super) is_steered: bool,
    /// Processors that its interrupts go to.
    pub(super) processors: Vec<u32>,
}

/// Highest number of a processor that is believed.
const PROCESSOR_MAX: u32 = 65_535;

/// The numbers of a list such as `0-3,8`.
fn ranges(list: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last > PROCESSOR_MAX {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}
