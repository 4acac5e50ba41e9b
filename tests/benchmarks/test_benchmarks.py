"""Every script of bench/ for real, but tiny: that it works, not how fast anything is.

The servers are a development build on a machine with other work, so a budget that a script finds
missed (status 3) says nothing here; what was lost, failed or not seen does. All scripts run at the
same time, a few beside each other: most of their time they wait.

Left out: bench/scaling, which loads no server and builds a program of its own; bench/panels, which
needs Prometheus and a minute of load for its panels to have data; and
bench/floor/syscalls.sh, which needs strace and a load that keeps the floor busy.
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "bench"))
from harness import pages

TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
ROOST = os.environ.get("ROOST_BIN", str(TARGET / "debug" / "roost"))
FLOOD = str(TARGET / "debug" / "flood")
# Generous, because the machine may have much else to do.
DEADLINE_S = 400
AT_ONCE = 6
# Below those that testkit gives to servers of other tests, which run beside.
FIRST_PORT, LAST_PORT, PORTS = 16_500, 18_000, 290

GOOD, TOO_FEW, MISSED_BUDGET = 0, 2, 3


class Run:
    """A script with arguments that make it small. `seconds` are what phases last at most, `more`
    is added to the load's arguments: both by the program `flood` beside this file. It uses so many
    `ports`."""

    def __init__(self, command, seconds=None, more="", page="benchmarks.md", has_page=True,
                 ports=10):
        self.command, self.seconds, self.more = command.split(), seconds, more
        self.ports = ports
        self.name = self.command[0]
        self.page, self.has_page = page, has_page

    def start(self, folder, port):
        self.out = folder / "out"
        self.out.mkdir(parents=True)
        words = [str(ROOT / "bench" / self.name), *self.command[1:]]
        if self.has_page:
            # The real page: that it has the script's place is tested too.
            self.page = shutil.copy(ROOT / "docs" / self.page, folder)
            pages.write(self.page, self.name, "")
            if self.name == "compare":
                pages.write(self.page, "compare-rooms", "", self.name)
            words += ["--page", self.page, "--out", str(self.out), "--port", str(port)]
        environment = {
            **os.environ,
            "ROOST": ROOST,
            "FLOOD": FLOOD,
            "OUT": str(self.out),
            "PORT": str(port),
            "TMPDIR": str(folder),
        }
        if self.seconds:
            environment["FLOOD"] = str(HERE / "flood")
            environment["TINY_FLOOD"] = FLOOD
            environment["TINY_SECONDS"] = str(self.seconds)
            environment["TINY_MORE"] = self.more
        script = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            self.said, _ = script.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            # Asked to end, it ends what it started.
            script.terminate()
            self.said, _ = script.communicate()
        self.status = script.returncode
        return self

    def loads(self):
        """How many loads it ran. All came to their end, and no check failed."""
        found = [json.loads(path.read_text()) for path in self.out.glob("*.json")]
        reports = [report for report in found if "faults" in report and "phases" in report]
        for report in reports:
            assert report["error"] is None and report["faults"] == [], self.said
            assert report["totals"]["logins_ok"] > 0, self.said
        return len(reports)

    def text(self, part=None):
        """Its part of the page, or another one of which that is the name."""
        first, last = pages.markers(part or self.name, self.name)
        return pathlib.Path(self.page).read_text().split(first)[1].split(last)[0]

    def tables(self, part=None):
        """The tables of a part: rows without the head, cells as text."""
        blocks = [block.splitlines() for block in self.text(part).split("\n\n")
                  if "| --- |" in block]
        return [[row.strip("| ").split(" | ") for row in block[2:]] for block in blocks]


# The longest first.
RUNS = {
    "compare": Run("compare --quick --only floor,roost", seconds=1, more="--messages 200"),
    "ledger": Run("ledger --users 1100", page="memory.md"),
    "pressure": Run("pressure --only storm,disturb --users 60 --others 60 --repeat 1",
                    seconds=1, more="--messages 100"),
    "slow_store": Run("pressure --only store --repeat 1", seconds=2, more="--rate 200"),
    "curves": Run("curves --quick --repeat 1", seconds=1),
    "durable": Run("durable --users 20 --rate 200 --seconds 3 --repeat 1 --no-profile", seconds=3),
    "durable_beside": Run(f"durable --beside {ROOST} --users 20 --rate 200 --seconds 3 --repeat 1",
                          seconds=3),
    "restart": Run("restart --users 30 --repeat 1", seconds=12),
    "crash": Run("crash --seconds 5 --every 300ms --contacts 2"),
    "split": Run("split --users 30 --upgrades 2 --look 3", seconds=40, has_page=False),
    "logins": Run("logins.sh 60 18 100", seconds=1, more="--messages 200", has_page=False),
    "pairs": Run(f"pairs {ROOST} {ROOST} --pairs 1 --users 60 --rate 100", seconds=1,
                 more="--messages 200", has_page=False),
    "instructions": Run(f"instructions {ROOST} --workload plain-busy --users 20 --seconds 2 "
                        "--idle 1", has_page=False),
    "headroom": Run("headroom --users 60 --seconds 2 --steps 2", seconds=2),
    "fanout": Run("fanout --sizes 5,9 --copies 60 --join-seconds 1 --repeat 2"),
    "fanout_calls": Run("fanout --sizes 5 --copies 60 --join-seconds 1 --calls"),
    "beside": Run("beside --others 20 --rate 100 --occupants 9 --room-rate 5 --repeat 1",
                  seconds=2),
    "at_rest": Run("at-rest --rooms 0,300 --settle 1"),
    "largest": Run("largest --servers 2 --users 30 --hold 1 --spare 0"),
    "takeover": Run("takeover --users 6 --rounds 1 --kinds node", ports=30),
    "outages": Run("outages --users 6 --nodes 1 --kinds kill,cut", page="reliability.md", ports=30),
    "nodes": Run("nodes --only alone,two,edge --users 20 --rate 60 --seconds 2 --logins 30 "
                 "--repeat 1", ports=30),
}
NEEDS = {"instructions": ("callgrind_control",), "fanout_calls": ("strace",),
         "ledger": ("heaptrack", "zstdcat")}


@pytest.fixture(scope="session")
def first_port():
    """Ports that nobody uses. The last of them is held, so that no other run of these tests takes
    them too."""
    for first in range(FIRST_PORT, LAST_PORT, PORTS):
        held = []
        try:
            for port in range(first, first + PORTS):
                held.append(socket.socket())
                held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                held[-1].bind(("127.0.0.1", port))
            # Only a socket that listens is in the way of others.
            held[-1].listen()
        except OSError:
            continue
        finally:
            for taken in held[:-1]:
                taken.close()
        yield first
        held[-1].close()
        return
    pytest.fail("no ports are free")


@pytest.fixture(scope="session")
def runs(request, first_port, tmp_path_factory):
    """What comes of each script that is tested: they are all begun with the first test."""
    # Not by several scripts at once.
    subprocess.run(["make", "-s", "-C", ROOT / "bench" / "floor"], check=True)
    tested = {item.name.removeprefix("test_") for item in request.session.items}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as threads:
        begun, port = {}, first_port
        for name, run in RUNS.items():
            if name in tested and all(map(shutil.which, NEEDS.get(name, ()))):
                begun[name] = threads.submit(run.start, tmp_path_factory.mktemp(name), port)
            port += run.ports
        # One is held.
        assert port < first_port + PORTS
        yield begun


@pytest.fixture
def run(request, runs):
    name = request.node.name.removeprefix("test_")
    if name not in runs:
        pytest.skip(f"needs {' and '.join(NEEDS[name])}")
    return runs[name].result()


def column(table, number):
    return [row[number] for row in table]


def test_largest(run):
    assert run.status == GOOD, run.said
    [table] = run.tables()
    assert column(table, 0) == ["30", "60"]
    assert "60 logins, 0 failed checks. What stopped it: nothing" in run.text()


def test_fanout(run):
    assert run.status in (GOOD, MISSED_BUDGET), run.said
    costs, entering = run.tables()
    sizes = [f"{size}, {name}" for size in (5, 9) for name in ("floor", "unmanaged", "managed")]
    assert column(costs, 0) == sizes
    assert all(int(row[1]) >= 5 and row[3].endswith("×") for row in costs)
    assert len(entering) == 4


def test_fanout_calls(run):
    assert run.status == GOOD, run.said
    lines = [line.strip("| ").split(" | ") for line in run.said.splitlines()
             if line.startswith("| 5, ")]
    assert [row[0] for row in lines] == ["5, floor", "5, unmanaged", "5, managed"], run.said
    # No copy without a call.
    assert all(float(row[1]) >= 1 for row in lines), run.said


def test_beside(run):
    assert run.status in (GOOD, MISSED_BUDGET), run.said
    assert run.loads() == 3
    [(silent, floor, talks)] = run.tables()
    assert (silent[0], talks[0]) == ("silent", "talks")
    assert float(silent[1]) == 0, run.said
    # What the floor and the room say.
    assert float(floor[1]) > 1 and float(talks[1]) > 1, run.said
    assert (silent[-1], floor[-1], talks[-1]) == ("0", "0", "0"), run.said


def test_at_rest(run):
    assert run.status in (GOOD, MISSED_BUDGET), run.said
    [(none, some)] = run.tables()
    assert (none[0], some[0]) == ("0", "300")
    # The first entry was answered.
    assert none[-1] == "–" and some[-1] != "–"


def test_pairs(run):
    # One pair is too few to say anything, and so few users too few for their memory and logins.
    assert run.status == TOO_FEW, run.said
    assert "| CPU per message, us |" in run.said


def test_instructions(run):
    assert run.status == GOOD, run.said
    row = next(line for line in run.said.splitlines() if line.startswith("| plain-busy |"))
    # The count of a development build, whatever it is.
    assert int(row.strip("| ").split(" | ")[1].replace(",", "")) > 1_000, run.said


def test_headroom(run):
    assert run.status == GOOD, run.said
    assert run.loads() == 2
    event, steps = run.tables()
    assert column(event, 1) == ["44", "60", "60"]
    assert column(steps, 0) == ["1 times the peak", "1.35 times the peak"]
    assert column(event, 7) + column(steps, 7) == ["0"] * 5
    assert "Headroom: " in run.text()


def test_restart(run):
    assert run.status in (GOOD, MISSED_BUDGET), run.said
    [[row]] = run.tables()
    resumed, refused, messages, *wrong = row[3:10]
    assert (resumed, refused) == ("30", "0"), run.said
    assert wrong == ["0"] * 4, "lost, twice, out of order, contacts not seen"
    assert messages != "0"


def test_crash(run):
    assert run.status == GOOD, run.said
    [rows] = run.tables()
    assert column(rows, 0) == ["memory", "fsync"]
    for crashes, went_on in zip(column(rows, 1), column(rows, 2)):
        # Two crashes in a row may be one to the stream.
        assert int(crashes) >= int(went_on) > 0, run.text()


def test_split(run):
    assert run.status == GOOD, run.said
    assert run.loads() == 3
    assert run.said.count('"failed": null') >= 2 and '"lost": 0' in run.said
    assert all(f"{part}\": " in run.said for part in ("edge", "home", "server"))


def test_takeover(run):
    assert run.status in (GOOD, MISSED_BUDGET), run.said
    assert "lost 0, twice 0, out of order 0" in run.said
    [[killed, times, *_]] = run.tables()[0]
    assert (killed, times) == ("a node", "1"), run.said


def test_nodes(run):
    assert run.status == GOOD, run.said
    [table] = run.tables()
    assert column(table, 0) == ["a server alone", "two nodes", "an edge and a home"]
    # Of the nodes and of the engine.
    assert all(cell.count("µs") + cell.count("ms") == 3 for cell in column(table[1:2], 2)), table
    assert all(float(cell.replace(",", "")) > 0 for cell in column(table, 4) + column(table, 7))


def test_outages(run):
    if run.status == TOO_FEW:
        pytest.skip(run.said)
    assert run.status in (GOOD, MISSED_BUDGET), run.said
    assert "lost 0, twice 0, out of order 0" in run.said
    [rows] = run.tables()
    assert column(rows, 0) == ["killed, started 4 s later", "cut off for 10 s"], run.said
    assert column(rows, 1) == ["1", "1"], run.said


def test_curves(run):
    assert run.status == GOOD, run.said
    memory, messages, shards, rosters = run.tables()
    assert run.loads() == 1 + 2 + len(shards) + len(rosters)
    assert column(memory, 0) == ["100", "200", "400"]
    assert column(messages, 0) == ["50", "100", "200"]
    assert column(shards, 0) == ["1", "2"]
    assert column(rosters, 0) == ["0", "18"]
    for name in ("memory", "messages", "shards", "rosters"):
        plot = pathlib.Path(run.page).with_name("benchmarks") / f"curve-{name}.svg"
        assert plot.read_text().startswith("<svg ")


def test_durable(run):
    assert run.status in (GOOD, MISSED_BUDGET), run.said
    assert run.loads() == 4
    [table] = run.tables()
    assert len(table) == 16
    of_load, of_journal = table[:8], table[8:]
    assert "–" not in column(of_load, 2) + column(of_load, 3), run.text()
    # On a busy machine some phase may lack the two readings that it takes.
    for steady, highest in zip(of_journal[:4], of_journal[4:]):
        assert {*steady[2:4], *highest[2:4]} != {"–"}, run.text()
    assert "Messages lost: 0; failed checks: 0." in run.text()


def test_durable_beside(run):
    assert run.status == TOO_FEW, run.said
    assert run.loads() == 2
    assert "| CPU per message at the rate, us |" in run.said


def test_pressure(run):
    assert run.status in (GOOD, MISSED_BUDGET), run.said
    assert run.loads() == 1 + 5
    storms, disturbers = run.tables()
    assert column(storms, 1) == ["60"] * 11 + ["0"]
    assert column(storms, 2) == ["0"] * 12
    assert column(disturbers, 0)[0] == "nobody" and len(disturbers) == 5
    # Each that should have did write.
    assert [sent == "–" for sent in column(disturbers, 1)] == [True] + [False] * 4


def test_slow_store(run):
    assert run.status == GOOD, run.said
    assert run.loads() == 4
    [table] = run.tables()
    assert column(table, 0) == ["0s more for each read", "50ms more for each read"]


def test_ledger(run):
    assert run.status == GOOD, run.said
    assert run.loads() == 1
    [table] = run.tables()
    titles = column(table, 0)
    assert titles[-2] == "**all of the heap**"
    assert any(title.startswith("the roster") for title in titles), run.text()


def test_compare(run):
    assert run.status == GOOD, run.said
    assert run.loads() == 6
    versions, plain, tls, websocket = run.tables()
    versions_with_rooms, room, node = run.tables("compare-rooms")
    assert column(versions, 0) == ["floor", "Roost"]
    # The floor has neither rooms nor nodes.
    assert column(versions_with_rooms, 0) == ["Roost"]
    assert column(plain, 0) == column(tls, 0) == column(websocket, 0)
    assert "–" not in column(plain, 2) + column(tls, 1), run.text()
    of_rooms = run.text("compare-rooms")
    assert "#### A room of 30 occupants" in of_rooms
    assert "#### A node with 30 subscribers" in of_rooms
    # So few joins may take less than the clock of CPU time shows.
    for table in (room, node):
        known = [row for row in table if row[0] != "CPU per join"]
        assert all(len(row) == 2 and row[1] != "–" for row in known), of_rooms
    assert "failed logins): none." in run.text() and "failed logins): none." in of_rooms


def test_logins(run):
    assert run.status == GOOD, run.said
    assert run.loads() == 2
    assert "60 ok, 0 failed" in run.said
    assert "60 users see all their 18 contacts" in run.said
    assert "ratio to the floor" in run.said


@pytest.mark.parametrize("script", ["compare", "curves", "durable", "headroom", "largest", "ledger",
                                    "panels", "pressure", "restart"])
def test_help_is_given(script):
    done = subprocess.run([ROOT / "bench" / script, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "--port" in done.stdout, done.stderr


@pytest.mark.parametrize("script, option, names, known", [
    ("compare", "--only", "roost,nothing", "floor, roost, ejabberd, prosody"),
    ("compare", "--only", "", "floor, roost, ejabberd, prosody"),
    ("compare", "--transports", "tls,", "plain, tls, websocket"),
    ("curves", "--only", "nothing", "memory, messages, shards, rosters"),
    ("pressure", "--only", "storm,,store", "storm, disturb, store"),
])
def test_unknown_names_are_refused(script, option, names, known):
    done = subprocess.run([ROOT / "bench" / script, option, names], capture_output=True, text=True)
    assert done.returncode == 2
    wrong = next(name for name in names.split(",") if name not in known.split(", "))
    assert f"argument {option}: {wrong!r}: known are {known}\n" in done.stderr
