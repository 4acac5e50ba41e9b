"""A cluster on this machine: three servers of its engine and three nodes, each a process that can
be killed, stopped and started again by itself."""
import contextlib
import os
import shutil
import signal
import subprocess
import time

from . import process, servers

NAMES = "abc"
ENGINES = ("n1", "n2", "n3")
WELL_SECONDS = 90

ENGINE = """server_name: {name}
listen: {host}:{port}
http: {host}:{monitor}
jetstream {{ store_dir: "{folder}/{name}", sync_interval: always }}
cluster {{ name: roost, listen: 127.0.0.1:{route}, routes: [{routes}] }}
"""

NODE = """
[http]
listen = ["{host}:{http}"]
listen_tls = []
[cluster]
engine = [{engine}]
monitor = [{monitors}]
name = "{name}"
zone = "{name}"
listen = "{link}"
{more}"""


class Here:
    """Where everything is: at the loopback address."""
    engine = "127.0.0.1"

    @staticmethod
    def clients(_at):
        return "127.0.0.1"

    links = clients

    @staticmethod
    def within(_at, command):
        """The command that runs `command` where node number `at` is."""
        return command

    @staticmethod
    def more(_at, _port, _folder):
        """What else the configuration of a node says about the cluster."""
        return ""


def nats():
    """The engine: the program that the environment names, or the one that `make nats` builds."""
    target = os.environ.get("CARGO_TARGET_DIR", f"{servers.ROOT}/target")
    path = os.environ.get("NATS_SERVER", f"{target}/nats/nats-server")
    if not os.access(path, os.X_OK):
        raise process.Trouble(f"{path} is no program: make nats builds it")
    return path


def quoted(texts):
    return ", ".join(f'"{text}"' for text in texts)


class Cluster:
    """Its ports are `first` and the next 25; `places` is where its parts are. Of its nodes `homes`
    are the home of something."""

    def __init__(self, folder, first, places=Here, nodes=NAMES, homes=len(NAMES)):
        self.folder, self.nodes, self.homes = folder, nodes, homes
        # Where clients reach the nodes.
        self.addresses = [(places.clients(at), first + 2 * at) for at in range(len(nodes))]
        engine, monitor, route = ([first + 16 + 3 * kind + at for at in range(3)]
                                  for kind in range(3))
        self.programs, self.logs, self.listens = {}, {}, {}
        routes = quoted(f"nats://127.0.0.1:{port}" for port in route)
        keys = servers.certificate(folder)
        for at, name in enumerate(ENGINES):
            path = f"{folder}/{name}.conf"
            with open(path, "w") as out:
                out.write(ENGINE.format(name=name, host=places.engine, port=engine[at],
                                        monitor=monitor[at], route=route[at], routes=routes,
                                        folder=folder))
            self.add(name, [nats(), "-c", path], (places.engine, engine[at]))
        for at, name in enumerate(nodes):
            os.makedirs(f"{folder}/{name}")
            host, port = self.addresses[at]
            config = servers.configure(f"{folder}/{name}", port, keys, NODE.format(
                host=host, http=first + 10 + at, name=name,
                link=f"{places.links(at)}:{first + 13 + at}",
                engine=quoted(f"nats://{places.engine}:{port}"
                              for port in engine[at:] + engine[:at]),
                monitors=quoted(f"http://{places.engine}:{port}" for port in monitor),
                more=places.more(at, port, folder)), archive=True, host=host)
            command = [servers.program("roost"), "serve", "--config", config]
            self.add(name, places.within(at, command), (host, port))
        self.running = {}

    def add(self, name, command, listens):
        self.programs[name], self.listens[name] = command, listens
        self.logs[name] = f"{self.folder}/{name}.log"

    def start(self, name):
        with open(self.logs[name], "ab") as out:
            self.running[name] = subprocess.Popen(
                self.programs[name], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True, preexec_fn=process.all_descriptors)

    def kill(self, name):
        child = self.running.pop(name)
        child.kill()
        child.wait()

    def pause(self, name):
        self.running[name].send_signal(signal.SIGSTOP)

    def go_on(self, name):
        self.running[name].send_signal(signal.SIGCONT)

    def stop(self, name):
        """Ends it in order; whether it did so."""
        child = self.running.pop(name)
        process.stop(child)
        return child.returncode == 0

    def wait_for(self, name):
        host, port = self.listens[name]
        process.wait_for(port, self.running[name], self.logs[name], host)

    def ask(self, *arguments, node="a"):
        """What the program says to an administrator's command."""
        command = [servers.program("roost"), *arguments, "--config",
                   f"{self.folder}/{node}/roost.toml"]
        return subprocess.run(command, capture_output=True, text=True)

    def illness(self):
        """Why the cluster is not well; None if everything is where it belongs."""
        said = self.ask("cluster", "status")
        if said.returncode:
            return said.stderr
        lines = [line.split() for line in said.stdout.splitlines() if line.strip()]
        alive = [line for line in lines if line[0] in self.nodes and line[1] == "alive"]
        serving = [line for line in lines if line[0].isdigit() and line[3] == "serving"]
        streams = [line for line in lines if line[0].isdigit()]
        # Each node that should is the home of something again.
        homes = {line[1] for line in serving}
        if len(alive) == len(self.nodes) and streams and len(serving) == len(streams) \
                and len(homes) == self.homes:
            return None
        return said.stdout

    def until_well(self):
        end = time.monotonic() + WELL_SECONDS
        while (why := self.illness()):
            if time.monotonic() > end:
                raise process.Trouble(f"the cluster does not get well:\n{why}")
            time.sleep(0.5)


@contextlib.contextmanager
def running(folder, first, users, places=Here, contacts=0, **more):
    """A cluster with accounts u0.. of password "pw"; `more` is as `Cluster` takes it."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    cluster = Cluster(folder, first, places, **more)
    try:
        for name in ENGINES:
            cluster.start(name)
        end = time.monotonic() + WELL_SECONDS
        while cluster.ask("cluster", "check", "--create").returncode:
            if time.monotonic() > end:
                raise process.Trouble(process.tail(cluster.logs["n1"]))
            time.sleep(0.5)
        for name in cluster.nodes:
            cluster.start(name)
        for name in cluster.nodes:
            cluster.wait_for(name)
        cluster.until_well()
        said = cluster.ask("provision", "--domain", "localhost", "--users", str(users),
                           "--contacts", str(contacts), "--password", "pw", "--quiet")
        if said.returncode:
            raise process.Trouble(said.stderr)
        yield cluster
    finally:
        # Nodes first: the engine has what they accepted.
        for name in [*cluster.nodes, *ENGINES]:
            if name in cluster.running:
                process.stop(cluster.running[name])
