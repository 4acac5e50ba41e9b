"""Occupants of one room: bench/floor/occupants.c, in as many processes as the connections need."""
import os
import subprocess

from . import process, servers

ROOM = "r@conference.localhost"
# Connections of one client process.
EACH_MAX = 8_000


def cpu_ns(pid):
    """CPU time of all threads of a process, by the scheduler's clock: ticks are too coarse."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total


class Occupants:
    """All occupants, in as many processes as they need."""

    def __init__(self, port, count, managed, room, from_user=0):
        self.count, self.parts = count, []
        program = os.path.join(servers.ROOT, "bench/floor/occupants")
        for first in range(0, count, EACH_MAX):
            words = [program, port, from_user + first, min(EACH_MAX, count - first), int(managed),
                     room]
            self.parts.append(subprocess.Popen(
                [str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True, bufsize=1, preexec_fn=process.all_descriptors))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for part in self.parts:
            process.stop(part)

    def begin(self, parts, line):
        for part in parts:
            part.stdin.write(f"{line}\n")

    def hear(self, part):
        line = part.stdout.readline().split()
        if not line:
            raise process.Trouble("a client has ended; what it said is above")
        return line

    def all(self, line):
        self.begin(self.parts, line)
        return [self.hear(part) for part in self.parts]

    def one(self, line):
        self.begin(self.parts[:1], line)
        return self.hear(self.parts[0])

    def each(self, line):
        """One process after the other."""
        answers = []
        for part in self.parts:
            self.begin([part], line)
            answers.append(self.hear(part))
        return answers

    def quiet(self):
        self.all("quiet 300")

    def message(self, number, size):
        """Nanoseconds from before it is written to the last copy, and all bytes read so far."""
        self.begin(self.parts[1:], f"await {number}")
        sent = self.one(f"send {number} {size}")
        last = [self.one(f"await {number}")] + [self.hear(part) for part in self.parts[1:]]
        return max(int(one[2]) for one in last) - int(sent[2]), sum(int(one[4]) for one in last)
