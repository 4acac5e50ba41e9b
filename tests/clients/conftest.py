"""A Roost server of its own for each test module, driven from outside as an operator would.

The binary is ROOST_BIN, or else debug/roost in the target folder. Nothing here knows XMPP: the
clients do.
"""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEADLINE_S = 20


class Server:
    """A running `roost serve` on loopback."""

    def __init__(self, folder: pathlib.Path):
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        self.binary = os.environ.get("ROOST_BIN", str(target / "debug" / "roost"))
        self.folder = folder
        self.port, self.tls_port = free_ports(2)
        self.config = folder / "roost.toml"
        self.config.write_text(
            'domain = "localhost"\n'
            f'data = "{folder / "data"}"\n'
            "[c2s]\n"
            f'listen = ["127.0.0.1:{self.port}"]\n'
            f'listen_tls = ["127.0.0.1:{self.tls_port}"]\n'
        )
        self.process = None

    def run(self, *words: str) -> None:
        subprocess.run([self.binary, *words, "--config", self.config], check=True, timeout=60)

    def add_user(self, name: str, password: str) -> None:
        self.run("user", "add", f"{name}@localhost", "--password", password)

    def start(self) -> None:
        log = open(self.folder / "roost.log", "wb")
        command = [self.binary, "serve", "--config", str(self.config)]
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        for port in (self.port, self.tls_port):
            self.wait_for(port)

    def wait_for(self, port: int) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                log = (self.folder / "roost.log").read_text(errors="replace")
                assert self.process.poll() is None, f"the server ended:\n{log}"
                assert time.monotonic() < deadline, f"nothing listens on {port}:\n{log}"
                time.sleep(0.02)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(DEADLINE_S) == 0
        log = (self.folder / "roost.log").read_text(errors="replace")
        assert "panicked at" not in log, log


def free_ports(count: int) -> list[int]:
    """Ports that differ: none is given back before all are taken."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("roost"))
    for name in ("romeo", "juliet"):
        server.add_user(name, f"{name} secret")
    server.start()
    yield server
    server.stop()
