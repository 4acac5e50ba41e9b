"""Where a server's CPU time goes, by `perf` (Debian: linux-perf) and groups of functions."""
import collections
import contextlib
import re
import shutil
import subprocess
import threading

from . import pages, process

# Samples a second: no multiple of the server's own timers.
FREQUENCY = 397


@contextlib.contextmanager
def recording(pid, path, delay, seconds):
    """Records process `pid` for `seconds`, after `delay`; leaves its samples in `path`.txt."""
    if not shutil.which("perf"):
        raise process.Trouble("needs perf: apt-get install linux-perf")
    over = threading.Event()

    def record():
        if not over.wait(delay):
            subprocess.run(["perf", "record", "-q", "-F", str(FREQUENCY), "--call-graph",
                            "dwarf,4096", "-p", str(pid), "-o", f"{path}.data", "--", "sleep",
                            str(seconds)], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    thread = threading.Thread(target=record)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    with open(f"{path}.txt", "w") as out:
        subprocess.run(["perf", "script", "-i", f"{path}.data", "--no-inline", "-F",
                        "comm,tid,ip,sym,dso"], stdout=out, stderr=subprocess.DEVNULL)



# Kernel work by the first pattern that any frame has: title, pattern.
KERNEL = [
    ("kernel: sync of the disk", r"f(data)?sync|ext4_sync_file"),
    ("kernel: network", r"sys_(sendto|recvfrom)|sock_|tcp_|inet_"),
    ("kernel: files", r"vfs_|ext4_|filemap_|sys_p?(read|write)"),
    ("kernel: waiting and waking", r"epoll|futex|schedule|try_to_wake_up"),
]
# The rest by thread, and there by the first frame, from the inside out, that a pattern fits.
THREADS = [
    ("fjall", [("fjall: flushes and compactions, on threads of their own", "")]),
    ("journal", [("journal thread: fjall (memtable, its journal, look-ups)",
                  r"fjall::|lsm_tree|crossbeam_skiplist|quick_cache|store::engine"),
                 ("journal thread: records applied (entries, heads, index)",
                  r"store::(apply|log|state|delivery|overlay|keys|record)"),
                 ("journal thread: groups, encoding, answers", "")]),
    ("read", [("reads of the store (logins, retention, what is owed)", "")]),
    ("shard", [("shard: XML read, checked, edited", r"xml::"),
               ("shard: the user's actor (routing, log, barrier, sessions)",
                r"server::(user|modules|journal|message|address|place|home)"),
               ("shard: streams and stanzas of connections", r"server::|xmpp::"),
               ("shard: net (sockets, buffers, timers)", r"net::"),
               ("shard: actors (mailboxes, turns, timers)", r"actor::|stdx::"),
               ("shard: the rest", "")]),
]
REST = "everything else"
ALLOCATOR = re.compile(r"malloc|cfree|_int_free|realloc|calloc|unlink_chunk")


def group(comm, frames, kernel):
    """The group of one sample."""
    if kernel:
        for title, pattern in KERNEL:
            if any(re.search(pattern, frame) for frame in kernel):
                return title
        return "kernel: the rest (page faults, interrupts)"
    for thread, groups in THREADS:
        if comm.startswith(thread):
            for frame in frames:
                for title, pattern in groups[:-1]:
                    if re.search(pattern, frame):
                        return title
            return groups[-1][0]
    return REST


def samples(lines):
    """(thread, frames of the program, frames of the kernel) of each sample, from the inside out."""
    comm, frames, kernel = None, [], []
    for line in lines:
        if not line.strip():
            if comm:
                yield comm, frames, kernel
            comm, frames, kernel = None, [], []
        elif not line[0].isspace():
            comm = line.split()[0]
        elif found := re.match(r"\s+[0-9a-f]+ (.*) \((.*)\)", line):
            (kernel if "kernel" in found[2] else frames).append(found[1])


def ledger(lines, us_per_message):
    """A table of where the time of one message goes."""
    found, allocating, total = collections.Counter(), collections.Counter(), 0
    for comm, frames, kernel in samples(lines):
        title = group(comm, frames, kernel)
        total += 1
        found[title] += 1
        if frames and not kernel and ALLOCATOR.search(frames[0]):
            allocating[title] += 1
    rows = [[title, f"{100 * count / total:.1f} %", pages.time(us_per_message * count / total),
             f"{100 * allocating[title] / total:.1f} %"] for title, count in found.most_common()]
    rows.append(["**all**", "**100 %**", f"**{pages.time(us_per_message)}**",
                 f"**{100 * allocating.total() / total:.1f} %**"])
    text = (f"Where it goes: {total:,} samples of `perf record` at {FREQUENCY} a second, with "
            f"`fsync`, as fast as it goes. What was allocated and freed counts to whoever did so, "
            f"and once more in the last column.")
    return (f"{text}\n\n"
            f"{pages.table(['what', 'share', 'of a message', 'of it in malloc and free'], rows)}")
