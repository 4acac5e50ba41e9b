"""Nodes of a cluster in network namespaces of their own, so that one can be cut off as if a cable
were pulled: what is sent is lost, and nobody is told.

Each has two cables to the namespace of the benchmark: one for its clients, and one through which it
reaches the engine and the other nodes. All of it is gone with the last process of the benchmark.
"""
import os
import subprocess
import sys

from . import process, servers
from .cluster import NAMES

INSIDE = "ROOST_BENCH_APART"
# Nobody has it: frames to this address arrive, and are dropped.
NOBODY = "02:00:00:00:00:01"


def enter():
    """Runs this program again in a namespace of its own, if it is not in one."""
    if os.environ.get(INSIDE):
        return
    command = ["unshare", "--net", "--mount"]
    if os.geteuid() != 0:
        command.append("--map-root-user")
    # A build may need the network, which is left behind.
    servers.program("roost")
    try:
        tried = subprocess.run([*command, "ip", "link", "add", "type", "veth"],
                               capture_output=True, text=True)
    except FileNotFoundError as missing:
        raise process.Trouble(str(missing)) from None
    if tried.returncode:
        raise process.Trouble(tried.stderr.strip())
    os.execvpe("unshare", [*command, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})


def ip(*words, within=None):
    command = ["ip", *(["-netns", within] if within else []), *words]
    subprocess.run(command, check=True)


class Apart:
    """Places of a `cluster.Cluster`. To be made after `enter`."""
    engine = "10.92.0.1"

    def __init__(self):
        # Where the names of namespaces are: not seen by others.
        subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
        ip("link", "set", "lo", "up")
        ip("address", "add", f"{self.engine}/32", "dev", "lo")
        with open("/proc/sys/net/ipv4/ip_forward", "w") as forward:
            forward.write("1")
        for at, name in enumerate(NAMES):
            ip("netns", "add", name)
            ip("link", "set", "lo", "up", within=name)
            for net, cable in ((91, "clients"), (92, "inner")):
                ip("link", "add", f"{cable}-{name}", "type", "veth", "peer", "name", cable,
                   "netns", name)
                ip("address", "add", f"10.{net}.{at + 1}.1/24", "dev", f"{cable}-{name}")
                ip("link", "set", f"{cable}-{name}", "up")
                ip("address", "add", f"10.{net}.{at + 1}.2/24", "dev", cable, within=name)
                ip("link", "set", cable, "up", within=name)
            ip("route", "add", "default", "via", f"10.92.{at + 1}.1", within=name)
        self.has_keys = False

    @staticmethod
    def clients(at):
        return f"10.91.{at + 1}.2"

    @staticmethod
    def links(at):
        return f"10.92.{at + 1}.2"

    @staticmethod
    def within(at, command):
        return ["ip", "netns", "exec", NAMES[at], *command]

    def more(self, at, port, folder):
        """Links that are not at the loopback address need certificates."""
        keys = f"{folder}/links"
        if not self.has_keys:
            subprocess.run([servers.program("roost"), "cluster", "certificates", "--folder", keys,
                            *NAMES], check=True, stdout=subprocess.DEVNULL)
            self.has_keys = True
        return (f'clients = "{self.clients(at)}:{port}"\nca = "{keys}/ca.pem"\n'
                f'certificate = "{keys}/{NAMES[at]}.pem"\nkey = "{keys}/{NAMES[at]}.key"\n')

    def cut(self, at, hears=False, is_heard=False):
        """The node neither hears engine and nodes nor is heard by them, or one of both."""
        if not hears:
            ip("neighbour", "replace", self.links(at), "lladdr", NOBODY, "nud", "permanent",
               "dev", f"inner-{NAMES[at]}")
        if not is_heard:
            ip("neighbour", "replace", f"10.92.{at + 1}.1", "lladdr", NOBODY, "nud", "permanent",
               "dev", "inner", within=NAMES[at])

    def mend(self, at):
        for where, address, device in ((None, self.links(at), f"inner-{NAMES[at]}"),
                                       (NAMES[at], f"10.92.{at + 1}.1", "inner")):
            # An address that is asked for anew is found by its broadcast.
            ip("neighbour", "flush", "to", address, "nud", "all", "dev", device, within=where)
