"""Rooms and nodes of several servers under the same load: entering, and what one user says to all.

Every size is a server of its own with that many accounts, which know nobody: all log in, all enter
at once, then messages at a rate that makes as many copies a second whatever the size is.
"""
import os
import re
import statistics

from . import load, pages, servers

# The scenario of each kind, and what it is called.
KINDS = {"room": "A room of {} occupants", "node": "A node with {} subscribers"}
# A rate that every server bears.
COPIES_PER_SECOND = 3_500
LABEL = re.compile(r"(room|node)(\d+)")


def is_one(label):
    """Whether a run is one of these."""
    return LABEL.search(label) is not None


def measure(args, name, number, meta):
    """Run `number` of the server `name` with every size; the floor has no rooms."""
    sizes = {"room": args.rooms, "node": args.nodes}
    for kind, size in [(kind, size) for kind in KINDS for size in sizes[kind]]:
        if name == "floor":
            continue
        busy = os.getloadavg()[0]
        label = f"{name}-{kind}{size}-{number}"
        print(f"{label} (load average {busy:.1f})", flush=True)
        more = ["--messages", round(COPIES_PER_SECOND / size, 2)]
        more += ["--seconds", 2] if args.quick else []
        with servers.running(name, f"{args.out}/work", size, 0, args.port) as server:
            scenario = {"room": "room", "node": "publish"}[kind]
            load.run(scenario, f"{args.out}/{label}.json", server, args.port, size, 0, more=more)
        load.note(args.out, meta, label, name, busy, size)


def found(folder, names, reports):
    """What was measured of each size: figures by server."""
    labels = [LABEL.search(file) for file in sorted(os.listdir(folder)) if file.endswith(".json")]
    kinds = sorted({(one[1] != "room", int(one[2]), one[0]) for one in labels if one})
    out = {}
    for _, _, kind in kinds:
        runs = {name: reports(folder, name, kind) for name in names}
        out[kind] = {name: figures(runs[name]) for name in names if runs[name]}
    return out


def figures(runs):
    def each(value):
        known = []
        for run in runs:
            try:
                known.append(value(run))
            except (TypeError, KeyError, IndexError):
                pass
        known = [one for one in known if one is not None]
        return statistics.median(known) if known else None

    def of(phase, key):
        return each(lambda run: load.phase(run, phase)[key])

    def latency(name, quantile):
        return each(lambda run: load.timing(load.phase(run, "messages"), name)[quantile])

    return {
        "joins": of("join", "ready_seconds"),
        "join": of("join", "cpu_us_per_entry"),
        "copy": of("messages", "cpu_us_per_copy"),
        "p50": latency("copy", "p50"),
        "p99": latency("copy", "p99"),
        "last": latency("last_copy", "p50"),
        "last99": latency("last_copy", "p99"),
        "lag": latency("lag", "p99"),
        "faults": sum(len(run["faults"]) for run in runs),
    }


def tables(gathered, titles):
    """A section for each size."""
    wanted = [
        ("all are inside after", "joins", lambda seconds: f"{seconds:.1f} s"),
        ("CPU per join", "join", pages.time),
        ("CPU per copy", "copy", pages.time),
        ("latency of a copy p50", "p50", pages.time),
        ("latency of a copy p99", "p99", pages.time),
        ("last copy p50", "last", pages.time),
        ("last copy p99", "last99", pages.time),
        ("the load's own lag p99 meanwhile", "lag", pages.time),
    ]
    out = []
    for kind, of_kind in gathered.items():
        which, size = LABEL.search(kind).groups()
        shown = [name for name in titles if name in of_kind]
        rows = [[title] + ["–" if of_kind[name][key] is None else show(of_kind[name][key])
                           for name in shown] for title, key, show in wanted]
        out += [f"#### {KINDS[which].format(f'{int(size):,}')}",
                pages.table([""] + [titles[name] for name in shown], rows)]
    return out
