#!/usr/bin/env python3
"""Sums up the reports of bench/logins.sh: figures beside the floor's and the budgets.

Usage: logins.py DIR   (with server.json and, if the floor ran, floor.json)
"""
import json
import os
import sys

BUDGETS = {"bytes per user": 3_000, "ms per login": 0.4, "floors per message": 2.0}


def load(path):
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return json.load(file)


def phase(report, name):
    return next((p for p in report["phases"] if p["name"] == name), None) if report else None


def timing(of_phase, name):
    found = [t for t in of_phase["timings"] if t["timing"] == name]
    return "p50 {p50} us, p99 {p99} us, max {max} us".format(**found[0]) if found else "-"


def main():
    folder = sys.argv[1]
    server, floor = load(f"{folder}/server.json"), load(f"{folder}/floor.json")
    faults = [server["error"]] if server["error"] else []
    faults += server["faults"]
    everyone = phase(server, "everyone")
    if not everyone:
        print("no figures:", "; ".join(faults))
        return 1
    first = phase(server, "first 1,000")
    counts = [p["counts"] for p in (first, everyone)]
    logins, failed = (sum(c[k] for c in counts) for k in ("logins_ok", "logins_failed"))
    wanted = server["scenario"]["users"]["count"]
    if logins != wanted or failed:
        faults.append(f"{logins} of {wanted} logins, {failed} failed")
    seen = everyone["presence"]
    if not seen or seen["users_right"] != wanted or seen["missing"] or seen["stale"]:
        faults.append(f"not everyone sees all contacts: {seen}")
    contacts = server["scenario"]["users"]["contacts"]
    if seen and seen["expected"] != wanted * contacts:
        faults.append(f"{seen['expected']} presences expected instead of {wanted * contacts}")

    rows = [("logins", f"{logins} ok, {failed} failed"),
            ("login latency", timing(everyone, "login")),
            ("presence", f"{seen['users_right']} users see all their {contacts} contacts")]
    missed = []

    def figure(name, value, unit, budget):
        over = value > BUDGETS[budget]
        mark = ", MISSED" if over else ""
        rows.append((name, f"{value:.3f} {unit} (budget {BUDGETS[budget]}{mark})"))
        if over:
            missed.append(name)

    if server["memory"]:
        memory = server["memory"]
        figure("resident per user", memory["bytes_per_user"], "bytes", "bytes per user")
        high = f"{memory['rss_high'] / 1e6:.1f} MB at {memory['users_high']} users"
        low = f"{memory['rss_low'] / 1e6:.1f} MB at {memory['users_low']}"
        rows.append(("resident in all", f"{high}, {low}"))
        rows.append(("kernel per user", f"{memory['kernel_bytes_per_user']:.0f} bytes, both ends"))
    if everyone["cpu_us_per_login"]:
        figure("CPU per login", everyone["cpu_us_per_login"] / 1e3, "ms", "ms per login")
    for name in ("chat at 5,000/s", "ping-pong"):
        here, there = phase(server, name), phase(floor, name)
        if not here:
            continue
        rate = f"{here['messages_per_second']:.0f}/s"
        rows.append((name, f"{rate}, {here['messages_lost']} lost, {timing(here, 'message')}"))
        cpu = here["cpu_us_per_message"]
        if cpu:
            rows.append((f"{name}: CPU per message", f"{cpu:.2f} us"))
        if there and there["cpu_us_per_message"]:
            other = there["cpu_us_per_message"]
            rate = f"{there['messages_per_second']:.0f}/s"
            rows.append((f"{name}: floor", f"{other:.2f} us ({rate})"))
            if cpu and name == "ping-pong":
                figure("ratio to the floor", cpu / other, "floors", "floors per message")
            elif cpu:
                rows.append((f"{name}: ratio", f"{cpu / other:.2f} floors"))
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name:<{width}}  {text}")
    for fault in faults:
        print(f"FAULT: {fault}")
    print(f"reports in {folder}")
    return 1 if faults or (missed and os.environ.get("BUDGETS") == "1") else 0


if __name__ == "__main__":
    sys.exit(main())
