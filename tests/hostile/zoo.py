"""The zoo: every attacker for a while against a server, and what others noticed.

    zoo.py                a short run: whether the server stands it, not how fast anything is
    zoo.py --seconds 10   the long one: each attacker first against a second, idle server, then
                          against the one that is watched
    zoo.py --write FILE   puts the table of a long run into a document

Bounds, for every attacker: nothing of others is lost, nobody gets in who may not, the server lives;
resident memory stays within 64 MB and 4 KB for each connection of what it was, and is back 10 s
after. In a long run the 99th percentile of others' logins and messages is at most twice that beside
the same attacker on the other server, or 10 ms more. An attacker that is above this is met twice
more, and all samples are put together: a second of many logins has a 99th percentile of few.
"""

import argparse
import multiprocessing
import pathlib
import re
import sys
import time
import traceback

import attackers
import below
import crowds  # noqa: F401  It has attackers too.
import seekers  # noqa: F401
import webs  # noqa: F401
import weights  # noqa: F401
from server import Server, binary
from witness import Witness, quantile

MEGABYTE = 1 << 20
MEMORY_MAX = 64 * MEGABYTE
MEMORY_PER_CONNECTION = 4096
MEMORY_BACK_S = 10
RATIO_MAX = 2.0
SLACK_MS = 10
SHORT_S = 0.4
MEETINGS_MAX = 3


def attack(run, server, seconds, verdict):
    """In a process of its own: one attacker."""
    try:
        verdict.put(run(attackers.Field(server, seconds, run.__name__)) or [])
    except Exception:  # An attacker that breaks has shown nothing.
        verdict.put([f"the attacker broke: {traceback.format_exc()}"])


def send_in(run, server, seconds):
    verdict = multiprocessing.Queue()
    process = multiprocessing.Process(target=attack, args=(run, server, seconds, verdict))
    process.start()
    return process, verdict


def recall(process, verdict, seconds):
    try:
        said = verdict.get(timeout=seconds + 120)
    except Exception:
        said = ["the attacker did not come back"]
    process.join(10)
    if process.is_alive():
        process.kill()
    return said


class Row:
    """What one attacker did."""

    def __init__(self, name, section):
        self.name, self.section = name, section
        self.wrong = []
        self.times = {}
        self.memory = self.left = self.connections = 0
        self.samples = {"message": ([], []), "login": ([], [])}
        self.is_late = False

    def compare(self, before, beside):
        for (what, both), idle, attacked in zip(self.samples.items(), before, beside):
            both[0].extend(idle)
            both[1].extend(attacked)
            idle, attacked = both
            idle, attacked = quantile(idle, 0.99), quantile(attacked, 0.99)
            self.times[what] = (idle, attacked)
            if idle and attacked and attacked > max(RATIO_MAX * idle, idle + SLACK_MS):
                self.is_late = True
                self.wrong.append(f"p99 of a {what}: {attacked:.1f} ms, beside {idle:.1f} ms")

    def markdown(self):
        def both(what):
            idle, attacked = self.times.get(what, (None, None))
            return f"{attacked:.1f} / {idle:.1f}" if idle and attacked else "–"
        state = "stands" if not self.wrong else "; ".join(self.wrong).replace("|", "/")[:160]
        return (f"| `{self.name}` | {self.section} | {both('login')} | {both('message')} | "
                f"{self.memory / MEGABYTE:.0f} | {self.left / MEGABYTE:.0f} | {state} |")


def meet(name, run, watched, idle, witness, seconds, earlier=None):
    """One attacker against the watched server, after the idle one if there is one."""
    row = Row(name, run.section)
    if earlier:
        row.samples, row.memory = earlier.samples, earlier.memory
    if idle:
        process, verdict = send_in(run, idle, seconds)
        before = witness.watch(seconds)
        recall(process, verdict, seconds)
    start, sockets = watched.resident(), watched.connections()
    process, verdict = send_in(run, watched, seconds)
    peak, until = start, time.monotonic() + seconds
    beside = ([], [], [])
    is_alone = run in below.ALONE
    while is_alone and process.is_alive() and verdict.empty():
        time.sleep(0.05)
        peak = max(peak, watched.resident())
        row.connections = max(row.connections, watched.connections() - sockets)
        if time.monotonic() > until + 120:
            break
    if is_alone:
        witness.begin_again()
        until = time.monotonic() + min(seconds, 2)
    while time.monotonic() < until or process.is_alive() and verdict.empty():
        part = witness.watch(min(0.5, seconds))
        for all_of_it, some in zip(beside, part):
            all_of_it.extend(some)
        peak = max(peak, watched.resident())
        row.connections = max(row.connections, watched.connections() - sockets)
        if part[2] or time.monotonic() > until + 120:
            break
    row.wrong += recall(process, verdict, seconds)
    row.wrong += beside[2][:1]
    row.memory = max(row.memory, max(peak, watched.resident()) - start)
    bound = MEMORY_MAX + MEMORY_PER_CONNECTION * max(row.connections, 0)
    if row.memory > bound:
        row.wrong.append(f"{row.memory / MEGABYTE:.0f} MB above the start")
    row.left = watched.resident() - start
    deadline = time.monotonic() + MEMORY_BACK_S
    while idle and row.left > bound / 4 and time.monotonic() < deadline:
        time.sleep(0.2)
        row.left = watched.resident() - start
    if idle and row.left > bound:
        row.wrong.append(f"{row.left / MEGABYTE:.0f} MB stayed")
    if not watched.is_alive():
        row.wrong.append("the server ended")
    elif (said := watched.healthz()) != "200":
        row.wrong.append(f"/healthz: {said}")
    if idle and not row.wrong:
        row.compare(before[:2], beside[:2])
    return row


HEAD = """| attacker | defence | login p99, ms | message p99, ms | MB above | MB left | outcome | \
at 0f8860a: MB above, MB left, what went wrong |
|---|---|---|---|---|---|---|---|"""
TABLE = re.compile(r"(<!-- zoo: begin -->\n)(.*?)(<!-- zoo: end -->)", re.DOTALL)


def write(path, rows):
    """Puts the table into a document, whose last column (an older version) and whose rows of
    attackers that did not come this time stay."""
    text = path.read_text()
    found = TABLE.search(text)
    if not found:
        raise SystemExit(f"{path}: no <!-- zoo: begin --> and <!-- zoo: end --> to write between")
    table = {line.split("|")[1].strip(" `"): line for line in found[2].splitlines()[2:]}
    for row in rows:
        before = table.get(row.name, "||").split("|")[-2].strip()
        table[row.name] = f"{row.markdown()} {before} |"
    order = {name: place for place, name in enumerate(attackers.ALL)}
    lines = [table[name] for name in sorted(table.keys() & order.keys(), key=order.get)]
    path.write_text(TABLE.sub(lambda m: m[1] + "\n".join([HEAD, *lines]) + "\n" + m[3], text))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", type=pathlib.Path)
    arguments = parser.parse_args()
    chosen = [(name, run) for name, run in attackers.ALL.items()
              if not arguments.only or name in arguments.only]
    if arguments.list:
        print("\n".join(f"{name}: {run.__doc__}" for name, run in chosen))
        return 0
    is_long = arguments.seconds > 0
    seconds = arguments.seconds or SHORT_S
    watched, idle = Server(binary()), Server(binary()) if is_long else None
    rows = []
    try:
        witness = Witness(watched)
        for name, run in chosen:
            row = meet(name, run, watched, idle, witness, seconds)
            for _ in range(MEETINGS_MAX - 1):
                if row.is_late:
                    row = meet(name, run, watched, idle, witness, seconds, row)
            rows.append(row)
            print(row.markdown(), flush=True)
            if row.wrong and not is_sound(witness, watched):
                witness.close()
                watched.stop()
                watched = Server(binary())
                witness = Witness(watched)
        witness.close()
    finally:
        for server in filter(None, (watched, idle)):
            server.stop()
    if arguments.write:
        write(arguments.write, rows)
    failed = [row for row in rows if row.wrong]
    for row in failed:
        print(f"{row.name}: " + "\n  ".join(row.wrong), file=sys.stderr)
    print(f"{len(rows)} attackers, {len(failed)} of them too much")
    return 1 if failed else 0


def is_sound(witness, watched):
    """Whether the next attacker may come, or a new server is needed."""
    return watched.is_alive() and not witness.watch(0.1)[2]


if __name__ == "__main__":
    sys.exit(main())
