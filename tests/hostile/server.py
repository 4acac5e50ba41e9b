"""A Roost server of its own for the zoo, driven from outside as an operator would.

The binary is ROOST_BIN, or else debug/roost in the target folder.
"""

import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import time

from weather import Weather

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Generous, because the machine may have much else to do.
DEADLINE_S = 90
USERS = 120


def binary():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return os.environ.get("ROOST_BIN", str(target / "debug" / "roost"))


# The address of a proxy that is believed whom it speaks for.
PROXY = "127.3.0.1"


class Server:
    """A running `roost serve` on loopback, with accounts u0 to u119 and the password pw."""

    def __init__(self, program):
        self.binary = program
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="roost-zoo-"))
        self.data = self.folder / "data"
        self.config = self.folder / "roost.toml"
        self.http = free_port()
        self.config.write_text(
            f'domain = "localhost"\ndata = "{self.data}"\n'
            '[c2s]\nlisten = ["127.0.0.1:0"]\nlisten_tls = ["127.0.0.1:0"]\nrequire_tls = false\n'
            "[auth]\nplain_without_tls = true\nscram_iterations = 4096\n"
            "[registration]\nenabled = true\nper_hour = 3\n[directory]\nenabled = true\n"
            # The attackers come from this machine, and are to be treated like anybody; a proxy
            # there is trusted.
            f'[limits]\nexempt_addresses = ["{PROXY}"]\n'
            f'[http]\nlisten = ["127.0.0.1:{self.http}"]\nproxies = ["{PROXY}"]\n')
        self.run("provision", "--domain", "localhost", "--users", str(USERS), "--password", "pw",
                 "--quiet")
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 20_000), most))
        log = open(self.folder / "roost.log", "wb")
        command = [self.binary, "serve", "--config", str(self.config)]
        self.weather = Weather(self.folder, self.data)
        self.process = subprocess.Popen(command, stdout=log, stderr=log,
                                        env=self.weather.environment())
        self.port = self.wait_for("STARTTLS")
        self.tls_port = self.wait_for("direct TLS")

    @property
    def control(self):
        return self.data / "control.sock"

    def run(self, *words, check=True):
        command = [self.binary, *words, "--config", str(self.config)]
        done = subprocess.run(command, capture_output=True, timeout=DEADLINE_S, text=True)
        if check and done.returncode:
            raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout if check else done.stdout + done.stderr

    def log(self):
        return (self.folder / "roost.log").read_text(errors="replace")

    def wait_for(self, kind):
        """The port that the server says it listens on."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            found = re.search(rf"^ +127\.0\.0\.1:(\d+) +{kind}$", self.log(), re.MULTILINE)
            if found:
                return int(found[1])
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no server:\n{self.log()}")
            time.sleep(0.02)

    def resident(self):
        """Bytes of resident memory."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024

    def connections(self):
        """Descriptors that are sockets, more or less the connections."""
        try:
            return len(os.listdir(f"/proc/{self.process.pid}/fd"))
        except OSError:
            return 0

    def is_alive(self):
        return self.process.poll() is None

    def healthz(self, timeout=5):
        """What /healthz says, or why nothing came."""
        try:
            with socket.create_connection(("127.0.0.1", self.http), timeout) as http:
                http.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                answer = http.recv(4096)
                return answer.split(b" ", 2)[1].decode() if answer else "closed"
        except OSError as error:
            return str(error)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            log = self.log()
            shutil.rmtree(self.folder, ignore_errors=True)
        panics = [line for line in log.splitlines() if "panicked at" in line]
        if panics:
            raise RuntimeError("\n".join(panics))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
