"""Runs the load generator and reads what it reports."""
import json
import os
import subprocess
import sys

from . import process, servers


def run(scenario, report, server, port, users, contacts=18, floor=False, tls=False, websocket=False,
        more=()):
    """One run against the process `server`; its report is written to `report` and returned.

    Without a `server` nothing is said of its memory and CPU, and the run outlives it.
    """
    command = [servers.program("flood"), "-q", "--scenario", scenario, "--server",
               f"127.0.0.1:{port}", "--tls-server", f"127.0.0.1:{port + 1}", "--users", str(users),
               "--contacts", str(contacts), "--json", report, "--html",
               report.replace(".json", ".html"), *(["--floor"] if floor else []),
               *(["--pid", str(server.pid)] if server else []),
               "--web-server", f"127.0.0.1:{port + 2}",
               *(["--transport", "direct"] if tls else []),
               *(["--transport", "websocket"] if websocket else []), *map(str, more)]
    with open(report.replace(".json", ".txt"), "w") as out:
        load = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        try:
            code = load.wait()
        finally:
            process.stop(load)
    if code == 1 or not os.path.exists(report):
        raise process.Trouble(f"the load could not run:\n{process.tail(out.name)}")
    found = read(report)
    for fault in found["faults"]:
        print(f"  FAULT {fault}", file=sys.stderr)
    return found


def note(folder, meta, label, name, busy, users):
    """Adds to `meta`, and its file, what a page says of the run `label` of server `name`."""
    meta[label] = {"version": servers.version(name), "load": busy, "users": users}
    with open(f"{folder}/meta.json", "w") as out:
        json.dump(meta, out, indent=1)


def read(path):
    with open(path) as file:
        return json.load(file)


def phase(report, name):
    return next((phase for phase in report["phases"] if phase["name"] == name), None)


def phases(report, prefix):
    return [phase for phase in report["phases"] if phase["name"].startswith(prefix)]


def timing(of_phase, name):
    return next((timing for timing in of_phase["timings"] if timing["timing"] == name), None)


def busy_seconds(report, name):
    """The wall-clock moments between which messages of a phase flowed."""
    number = [it["name"] for it in report["phases"]].index(name)
    inside = [it for it in report["series"] if it["phase"] == number]
    most = max(it["received"] for it in inside)
    at = [it["at"] for it in inside if it["received"] > most / 2]
    start = report["started_unix_ms"] / 1000
    return start + at[0], start + at[-1]


def received_between(report, start, end):
    """Messages that came between two wall-clock moments, which are ends of seconds of the run."""
    began = report["started_unix_ms"] / 1000
    inside = [it for it in report["series"] if start < began + it["at"] <= end]
    before = [start - began, *(it["at"] for it in inside)]
    return sum(it["received"] * (it["at"] - last) for it, last in zip(inside, before))
