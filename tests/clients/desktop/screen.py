"""A screen without a monitor (Xvfb), and a session of its own on D-Bus, for programs with windows.
Each program has a home that nothing else uses.
"""

import contextlib
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import time
import zlib

from conftest import DEADLINE_S, ROOT

# Where pictures of the screen are left, for people to look at.
PICTURES = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "desktop"
NEEDS = ("Xvfb", "dbus-daemon", "gdbus", "import")


def missing(*programs: str) -> list:
    """What has to be installed for a test."""
    return [name for name in (*NEEDS, *programs) if not shutil.which(name)]


def png(colour: bytes) -> bytes:
    """A picture of 32 by 32 points in one colour."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    rows = (b"\0" + 32 * colour) * 32
    head = struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def until(look, what: str, deadline_s: float = DEADLINE_S):
    """What `look` finds, once it finds something."""
    end = time.monotonic() + deadline_s
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, f"not seen: {what}"
        time.sleep(0.2)


class Screen:
    """Use as a context: what was started on it ends with it."""

    def __init__(self, name: str):
        # Not in a folder that only root may enter: some programs refuse to run as root.
        home = pathlib.Path(tempfile.mkdtemp(prefix=f"roost-{name}-"))
        self.home, self.programs = home, []
        run = home / "run"
        run.mkdir(mode=0o700)
        self.env = {name: value for name, value in os.environ.items()
                    if name in ("PATH", "SSL_CERT_FILE")}
        self.env.update(HOME=str(home), LANG="C.UTF-8", XDG_RUNTIME_DIR=str(run),
                        XDG_CONFIG_HOME=f"{home}/config", XDG_DATA_HOME=f"{home}/data",
                        XDG_CACHE_HOME=f"{home}/cache", NO_AT_BRIDGE="1",
                        GDK_BACKEND="x11", GSK_RENDERER="cairo", LIBGL_ALWAYS_SOFTWARE="1")

    def __enter__(self):
        read, write = os.pipe()
        self.start("Xvfb", "-displayfd", str(write), "-screen", "0", "1200x900x24", "-nolisten",
                   "tcp", keep=[write])
        os.close(write)
        with os.fdopen(read) as number:
            self.env["DISPLAY"] = f":{number.readline().strip()}"
        bus = self.start("dbus-daemon", "--session", "--nofork", "--print-address",
                         out=subprocess.PIPE)
        self.env["DBUS_SESSION_BUS_ADDRESS"] = bus.stdout.readline().decode().strip()
        return self

    def __exit__(self, *_):
        for program in reversed(self.programs):
            program.kill()
            program.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def who(self) -> dict:
        """Whose the programs are: nobody's, if root runs the tests."""
        if os.geteuid() != 0:
            return {}
        for path in (self.home, *self.home.rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # What a program makes may be gone.
                shutil.chown(path, "nobody", "nogroup")
        return {"user": "nobody", "group": "nogroup", "extra_groups": []}

    def start(self, *command: str, keep=(), out=None):
        name = pathlib.Path(command[0]).name
        log = open(self.home / f"{name}.log", "wb")
        program = subprocess.Popen(command, env=self.env, stdout=out or log, stderr=log,
                                   pass_fds=keep, cwd=self.home, **self.who())
        self.programs.append(program)
        return program

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text(errors="replace")

    def run(self, *command: str) -> str:
        done = subprocess.run(command, env=self.env, capture_output=True, timeout=DEADLINE_S,
                              text=True, **({"user": "nobody"} if os.geteuid() == 0 else {}))
        return done.stdout if done.returncode == 0 else ""

    def picture(self, name: str) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        shot = self.home / f"{name}.png"
        self.run("import", "-window", "root", str(shot))
        if shot.exists():
            shutil.copy(shot, PICTURES)
