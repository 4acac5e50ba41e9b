"""A Roost server of its own for each test module, driven from outside as an operator would.

The binary is ROOST_BIN, or else debug/roost in the target folder. Nothing here knows XMPP: the
clients do.
"""

import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Generous, because the machine may have much else to do.
DEADLINE_S = 90


class Server:
    """A running `roost serve` on loopback."""

    def __init__(self, folder: pathlib.Path, more: str = ""):
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        self.binary = os.environ.get("ROOST_BIN", str(target / "debug" / "roost"))
        self.folder = folder
        self.config = folder / "roost.toml"
        self.port = self.tls_port = self.web_port = self.web_tls_port = 0
        self.more = more
        self.configure()
        self.process = None

    def configure(self) -> None:
        self.config.write_text(
            'domain = "localhost"\n'
            f'data = "{self.folder / "data"}"\n'
            "[c2s]\n"
            f'listen = ["127.0.0.1:{self.port}"]\n'
            f'listen_tls = ["127.0.0.1:{self.tls_port}"]\n'
            f"{self.more}"
            "[http]\n"
            f'listen = ["127.0.0.1:{self.web_port}"]\n'
            f'listen_tls = ["127.0.0.1:{self.web_tls_port}"]\n'
        )

    def run(self, *words: str) -> None:
        command = [self.binary, *words, "--config", self.config]
        subprocess.run(command, check=True, timeout=DEADLINE_S)

    def add_user(self, name: str, password: str) -> None:
        self.run("user", "add", f"{name}@localhost", "--password", password)

    def start(self) -> None:
        log = open(self.folder / "roost.log", "wb")
        command = [self.binary, "serve", "--config", str(self.config)]
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.port = self.wait_for("STARTTLS")
        self.tls_port = self.wait_for("direct TLS")
        self.web_port = self.wait_for("HTTP")
        self.web_tls_port = self.wait_for("HTTPS")

    def log(self) -> str:
        return (self.folder / "roost.log").read_text(errors="replace")

    def wait_for(self, kind: str) -> int:
        """The port that the server says it listens on."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            found = re.search(rf"^ +127\.0\.0\.1:(\d+) +{kind}$", self.log(), re.MULTILINE)
            if found:
                return int(found[1])
            assert self.process.poll() is None, f"the server ended:\n{self.log()}"
            assert time.monotonic() < deadline, f"nothing listens:\n{self.log()}"
            time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)
        assert "panicked at" not in self.log(), self.log()

    def start_again(self) -> None:
        """Starts it on the ports that it had, where its clients look for it."""
        self.configure()
        self.start()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(DEADLINE_S) == 0
        assert "panicked at" not in self.log(), self.log()


def running(folder: pathlib.Path, more: str = "", port: int = 0):
    server = Server(folder, more)
    server.port = port
    server.configure()
    for name in ("romeo", "juliet"):
        server.add_user(name, f"{name} secret")
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    yield from running(tmp_path_factory.mktemp("roost"))


@pytest.fixture
def open_server(tmp_path_factory):
    """One that lets clients in without TLS, and shows the web client, as `make serve` does."""
    packages = ROOT / "web" / "node_modules"
    more = f"require_tls = false\n[web]\nfolder = '{packages}'\n"
    yield from running(tmp_path_factory.mktemp("roost"), more)
