//! What the operating system knows about this process and about TCP on its machine. Owns the
//! reading of `/proc`: every figure is optional, because systems differ and files may be hidden. A
//! figure that cannot be had is absent, never zero.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Bytes read of one file of `/proc`; the longest of those used here has about 4 KiB.
const FILE_BYTES_MAX: u64 = 64 * 1_024;

/// A limit of memory from here on is how a system says that there is none.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// The process and its machine at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ProcessSample {
    /// Memory that is in RAM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resident_bytes: Option<u64>,
    /// Address space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) virtual_bytes: Option<u64>,
    /// The least of what the control groups of the process allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_max_bytes: Option<u64>,
    /// CPU time of all threads since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_us: Option<u64>,
    /// The part of it outside of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_us: Option<u64>,
    /// The part of it in the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) system_us: Option<u64>,
    /// Page faults, whether the disk was needed or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) page_faults: Option<u64>,
    /// Time of all processors in interrupts, of the whole machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interrupt_us: Option<u64>,
    /// Context switches of the whole machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context_switches: Option<u64>,
    /// Packets that the network cards received, without the loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) packets_in: Option<u64>,
    /// Packets that they sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) packets_out: Option<u64>,
    /// Packets that they dropped, either way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) packets_dropped: Option<u64>,
    /// Threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) threads: Option<u64>,
    /// Open descriptors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) descriptors: Option<u64>,
    /// How many it may open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) descriptors_max: Option<u64>,
    /// Memory of the kernel for TCP sockets, of the whole machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tcp_memory_bytes: Option<u64>,
    /// TCP sockets of the network name space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tcp_sockets: Option<u64>,
    /// Connections that found the queue of their listener full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) listen_overflows: Option<u64>,
    /// Connections that a listener dropped for any reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) listen_drops: Option<u64>,
    /// TCP segments sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retransmits: Option<u64>,
    /// TCP segments received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) segments_in: Option<u64>,
    /// TCP segments sent, without those sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) segments_out: Option<u64>,
    /// What the disk of the data folder has left for this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk_free_bytes: Option<u64>,
    /// Its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk_bytes: Option<u64>,
}

/// Where the figures are read from.
#[derive(Clone, Debug)]
pub(crate) struct ProcessReader {
    proc: PathBuf,
    groups: PathBuf,
    data: PathBuf,
}

impl ProcessReader {
    /// For this process, with its data folder.
    pub(crate) fn new(data: &Path) -> ProcessReader {
        ProcessReader {
            proc: PathBuf::from("/proc"),
            groups: PathBuf::from("/sys/fs/cgroup"),
            data: data.to_owned(),
        }
    }

    /// Reads everything that there is; takes some ten system calls, whatever the server is doing.
    pub(crate) fn read(&self) -> ProcessSample {
        let auxv = read_bytes(&self.proc.join("self/auxv"));
        let page = told(&auxv, PAGE_SIZE);
        let pages = |pages: u64| Some(pages.saturating_mul(page?));
        let ticks_a_second = told(&auxv, CLOCK_TICKS);
        let ticks = |ticks: u64| ticks.saturating_mul(1_000_000).checked_div(ticks_a_second?);
        let stat = self.text("self/stat");
        let machine = self.text("stat");
        let cards = cards(&self.text("net/dev"));
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        let memory = self.text("self/statm");
        let netstat = self.text("net/netstat");
        let snmp = self.text("net/snmp");
        let sockets = self.text("net/sockstat");
        let disk = rustix::fs::statvfs(&self.data).ok();
        let blocks = |count: u64, size: u64| count.saturating_mul(size);
        ProcessSample {
            resident_bytes: word(&memory, 1).and_then(pages),
            virtual_bytes: word(&memory, 0).and_then(pages),
            memory_max_bytes: self.memory_max(),
            cpu_us: cpu_us(),
            user_us: stat_word(&stat, 11).and_then(ticks),
            system_us: stat_word(&stat, 12).and_then(ticks),
            page_faults: both(stat_word(&stat, 7), stat_word(&stat, 9)),
            interrupt_us: both(labelled(&machine, "cpu ", 5), labelled(&machine, "cpu ", 6))
                .and_then(ticks),
            context_switches: labelled(&machine, "ctxt ", 0),
            packets_in: cards.map(|cards| cards[0]),
            packets_out: cards.map(|cards| cards[1]),
            packets_dropped: cards.map(|cards| cards[2]),
            threads: stat_word(&stat, 17),
            descriptors: self.descriptors(),
            descriptors_max: getrlimit(Resource::Nofile).current,
            tcp_memory_bytes: value_after(&sockets, "TCP:", "mem").and_then(pages),
            tcp_sockets: value_after(&sockets, "TCP:", "inuse"),
            listen_overflows: column(&netstat, "TcpExt:", "ListenOverflows"),
            listen_drops: column(&netstat, "TcpExt:", "ListenDrops"),
            retransmits: column(&snmp, "Tcp:", "RetransSegs"),
            segments_in: column(&snmp, "Tcp:", "InSegs"),
            segments_out: column(&snmp, "Tcp:", "OutSegs"),
            disk_free_bytes: disk
                .as_ref()
                .map(|disk| blocks(disk.f_bavail, disk.f_frsize)),
            disk_bytes: disk.map(|disk| blocks(disk.f_blocks, disk.f_frsize)),
        }
    }

    /// A file of `/proc`; an absent one is empty, and so has no figures.
    fn text(&self, name: &str) -> String {
        read_text(&self.proc.join(name))
    }

    /// Since Linux 6.2 the size of the folder is the number of descriptors. Before, they have to be
    /// counted one by one.
    fn descriptors(&self) -> Option<u64> {
        let folder = self.proc.join("self/fd");
        match fs::metadata(&folder).ok()?.len() {
            0 => fs::read_dir(&folder).ok().map(|all| all.count() as u64),
            count => Some(count),
        }
    }

    fn memory_max(&self) -> Option<u64> {
        let groups = self.text("self/cgroup");
        let files = limit_files(&groups);
        let limits = files
            .iter()
            .filter_map(|file| read_text(&self.groups.join(file)).trim().parse().ok())
            .filter(|bytes| *bytes < NO_LIMIT_BYTES);
        limits.min()
    }
}

fn read_text(path: &Path) -> String {
    String::from_utf8_lossy(&read_bytes(path)).into_owned()
}

fn read_bytes(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    match File::open(path).map(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)) {
        Ok(Ok(_)) => bytes,
        _ => Vec::new(),
    }
}

/// Keys of what the kernel tells a process at its start.
const PAGE_SIZE: usize = 6;
const CLOCK_TICKS: usize = 17;

/// What the kernel told the process at its start: pairs of words, of which the first says what the
/// second is.
fn told(auxv: &[u8], key: usize) -> Option<u64> {
    const WORD: usize = size_of::<usize>();
    let word = |bytes: &[u8]| bytes.try_into().map(usize::from_ne_bytes).ok();
    let mut pairs = auxv.chunks_exact(2 * WORD);
    let pair = pairs.find(|pair| word(&pair[..WORD]) == Some(key))?;
    word(&pair[WORD..]).map(|value| value as u64)
}

fn cpu_us() -> Option<u64> {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(spent.tv_sec).ok()?;
    Some(seconds * 1_000_000 + u64::try_from(spent.tv_nsec).ok()? / 1_000)
}

/// A word of `/proc/self/stat` behind its second field, which is the name of the process in
/// brackets and may itself have brackets and spaces.
fn stat_word(stat: &str, index: usize) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    word(behind_name, index)
}

/// A number of the line that begins with a label.
fn labelled(text: &str, label: &str, index: usize) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    word(line, index)
}

/// Packets received, sent and dropped by all network cards but the loopback, from
/// `/proc/net/dev`: sixteen numbers behind each name.
fn cards(dev: &str) -> Option<[u64; 3]> {
    let mut sums = None;
    for line in dev.lines() {
        let Some((name, numbers)) = line.split_once(':') else {
            continue;
        };
        if name.trim() == "lo" {
            continue;
        }
        let numbers: Option<Vec<u64>> = numbers
            .split_ascii_whitespace()
            .map(|n| n.parse().ok())
            .collect();
        let numbers = numbers.filter(|numbers| numbers.len() >= 12)?;
        let [received, sent, dropped] = sums.unwrap_or_default();
        sums = Some([
            received + numbers[1],
            sent + numbers[9],
            dropped + numbers[3] + numbers[11],
        ]);
    }
    sums
}

/// The number at a position of a line of words.
fn word(line: &str, index: usize) -> Option<u64> {
    line.split_ascii_whitespace().nth(index)?.parse().ok()
}

/// The value behind a key, in the line with a label: `TCP: inuse 5 mem 3`.
fn value_after(text: &str, label: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    let mut words = line.split_ascii_whitespace();
    words.find(|word| *word == key)?;
    words.next()?.parse().ok()
}

/// The value of a column, where a line of names is followed by a line of values with the same
/// label.
fn column(text: &str, label: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(label));
    let (names, values) = (lines.next()?, lines.next()?);
    let index = names
        .split_ascii_whitespace()
        .position(|word| word == name)?;
    word(values, index)
}

/// The files with the memory limits of a process, from its own group up to the root: a group has at
/// most what those around it have.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, name) = match controllers {
            "" => ("", "memory.max"),
            "memory" => ("memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        // A group that lies outside of what this process sees has no limit that can be read.
        if path.components().any(|part| part.as_os_str() == "..") {
            continue;
        }
        let up = path.ancestors();
        files.extend(up.map(|group| Path::new(root).join(group).join(name)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "5929 (a (b) c) S 5927 5927 539 0 -1 4194304 101 0 0 0 7 9 0 0 20 0 6 0 \
                        2681784 3133440 414 18446744073709551615 0 0 0";
    const SOCKSTAT: &str = "sockets: used 21836\nTCP: inuse 21808 orphan 0 tw 4 alloc 21808 mem \
                            53\nUDP: inuse 0 mem 7\n";
    const SNMP: &str = "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm MaxConn InSegs OutSegs \
                        RetransSegs\nTcp: 1 -1 74692846 74687219 17679\n";
    const DEV: &str = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame \
                       compressed multicast|bytes packets errs drop fifo colls carrier \
                       compressed\n    lo: 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n  eth0: 800 70 0 3 0 0 \
                       0 0 600 50 0 4 0 0 0 0\n  eth1: 1 1 0 0 0 0 0 0 1 2 0 0 0 0 0 0\n";
    const MACHINE: &str = "cpu  100 0 50 9000 7 30 12 0 0 0\ncpu0 1 1 1 1 1 1 1\nintr 55 1 2\n\
                           ctxt 4711\nbtime 3\n";
    const NETSTAT: &str = "TcpExt: TW ListenOverflows ListenDrops\nTcpExt: 5 175 17757\n\
                           MPTcpExt: ListenDrops\nMPTcpExt: 3\n";

    /// A reader of a folder instead of the system.
    fn saved(files: &[(&str, &str)]) -> (tempfile::TempDir, ProcessReader) {
        let folder = tempfile::tempdir().expect("folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("in a folder")).expect("folder");
            fs::write(path, text).expect("file");
        }
        let reader = ProcessReader {
            proc: folder.path().join("proc"),
            groups: folder.path().join("groups"),
            data: folder.path().to_owned(),
        };
        (folder, reader)
    }

    #[test]
    fn saved_texts_are_read() {
        let page: u64 = 16_384;
        let auxv = [3_usize, 5, 6, page as usize, 17, 100, 0, 0].map(usize::to_ne_bytes);
        let auxv = String::from_utf8(auxv.concat()).expect("small numbers");
        let (_folder, reader) = saved(&[
            ("proc/self/auxv", &auxv),
            ("proc/self/stat", STAT),
            ("proc/self/statm", "765 442 414 5 0 123 0\n"),
            ("proc/self/cgroup", "4:memory:/x\n0::/a/b\n"),
            ("proc/net/sockstat", SOCKSTAT),
            ("proc/net/dev", DEV),
            ("proc/stat", MACHINE),
            ("proc/net/snmp", SNMP),
            ("proc/net/netstat", NETSTAT),
            ("groups/a/b/memory.max", "max\n"),
            ("groups/a/memory.max", "1048576\n"),
            (
                "groups/memory/x/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ]);
        let sample = reader.read();
        assert_eq!(sample.resident_bytes, Some(442 * page));
        assert_eq!(sample.virtual_bytes, Some(765 * page));
        assert_eq!(sample.memory_max_bytes, Some(1_048_576));
        assert_eq!(sample.threads, Some(6));
        assert_eq!(sample.user_us, Some(70_000));
        assert_eq!(sample.system_us, Some(90_000));
        assert_eq!(sample.page_faults, Some(101));
        assert_eq!(sample.interrupt_us, Some(420_000));
        assert_eq!(sample.context_switches, Some(4_711));
        assert_eq!(sample.packets_in, Some(71));
        assert_eq!(sample.packets_out, Some(52));
        assert_eq!(sample.packets_dropped, Some(7));
        assert_eq!(sample.tcp_memory_bytes, Some(53 * page));
        assert_eq!(sample.tcp_sockets, Some(21_808));
        assert_eq!(sample.listen_overflows, Some(175));
        assert_eq!(sample.listen_drops, Some(17_757));
        assert_eq!(sample.retransmits, Some(17_679));
        assert_eq!(sample.segments_in, Some(74_692_846));
        assert_eq!(sample.segments_out, Some(74_687_219));
    }

    #[test]
    fn what_is_missing_or_broken_is_absent() {
        let broken = [
            ("proc/self/stat", "5929 (a"),
            ("proc/self/statm", "x"),
            ("proc/self/cgroup", "0\n:::\n0::/../up\n"),
            ("proc/net/sockstat", "TCP: inuse\nTCP: mem 1"),
            ("proc/net/snmp", "Tcp: InSegs OutSegs\nTcp: 1"),
            ("proc/net/netstat", "TcpExt: ListenDrops"),
            ("proc/net/dev", "eth0: 1 2 3\n"),
            ("proc/stat", "cpu  1 2 3\nctxt\n"),
        ];
        for files in [&[][..], &broken[..]] {
            let (_folder, reader) = saved(files);
            let mut sample = reader.read();
            // These do not come from files.
            assert!(sample.cpu_us.take().is_some());
            assert!(sample.disk_free_bytes.take() <= sample.disk_bytes.take());
            sample.descriptors_max = None;
            if !files.is_empty() {
                assert_eq!(sample.segments_in.take(), Some(1));
            }
            assert_eq!(sample, ProcessSample::default());
        }
    }

    #[test]
    fn texts_cut_off_anywhere_are_no_trouble() {
        for text in [
            STAT,
            SOCKSTAT,
            SNMP,
            NETSTAT,
            DEV,
            MACHINE,
            "0::/a/b\n4:memory:/x",
        ] {
            for end in 0..text.len() {
                let text = &text[..end];
                stat_word(text, 17);
                labelled(text, "ctxt ", 0);
                cards(text);
                value_after(text, "TCP:", "mem");
                column(text, "Tcp:", "RetransSegs");
                column(text, "TcpExt:", "ListenDrops");
                limit_files(text);
                told(text.as_bytes(), PAGE_SIZE);
            }
        }
    }

    #[test]
    fn this_process_has_figures() {
        let sample = ProcessReader::new(Path::new("/")).read();
        assert!(sample.resident_bytes > Some(100_000), "{sample:?}");
        assert!(sample.descriptors >= Some(3), "{sample:?}");
        assert!(sample.descriptors <= sample.descriptors_max, "{sample:?}");
        assert!(sample.threads >= Some(1), "{sample:?}");
    }
}
