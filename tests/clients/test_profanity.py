"""profanity, a client for terminals, as Debian has it: a room with two people, a bookmark that is
there at the next login, and a message to somebody who is offline. Each client runs in a terminal
of its own; what is asked of it is typed, and what it says is read off the screen.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

from conftest import DEADLINE_S

ROOM = "terrace@conference.localhost"
# What moves the cursor and colours text.
CONTROL = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>])|\x0f")


class Terminal:
    """A profanity with a home of its own."""

    # A terminal that nobody reads fills up, and its program waits: whoever waits for one reads all.
    every = {}

    def __init__(self, home):
        self.screen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(HOME=str(home), TERM="xterm", LANG="C.UTF-8", LC_ALL="C.UTF-8",
                              XDG_CONFIG_HOME=f"{home}/config", XDG_DATA_HOME=f"{home}/data")
            os.execvp("profanity", ["profanity"])
        # Wide, so that no message is broken into lines.
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        self.every[self.fd] = self
        self.sees("Profanity")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            del self.every[self.fd]
            os.close(self.fd)

    def quits(self):
        """Closes its stream. One that is killed is still there until its time is up."""
        self.types("/quit")
        end = time.monotonic() + DEADLINE_S
        del self.every[self.fd]
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            assert time.monotonic() < end, self.screen[-4000:]
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    os.read(self.fd, 65536)
                except OSError:
                    pass  # It has closed its side.
        os.close(self.fd)
        self.pid = 0

    def read(self, seconds):
        for fd in select.select(list(self.every), [], [], seconds)[0]:
            self.every[fd].screen += os.read(fd, 65536).decode(errors="replace")

    def sees(self, wanted):
        """Waits for what the screen has to show, and forgets what was shown until then."""
        end = time.monotonic() + DEADLINE_S
        while True:
            shown = CONTROL.sub(" ", self.screen)
            found = re.search(wanted, shown)
            if found:
                self.screen = shown[found.end():]
                return
            assert time.monotonic() < end, f"{wanted!r} is not in\n{shown[-4000:]}"
            self.read(0.2)

    def types(self, line):
        # Everything that was printed until now is what went before.
        os.write(self.fd, line.encode() + b"\r")

    def logs_in(self, server, name):
        self.types(f"/connect {name}@localhost server 127.0.0.1 port {server.port} tls trust")
        self.sees("[Pp]assword")
        self.types(f"{name} secret")
        self.sees(f"{name}@localhost/profanity[^ ]* logged in successfully")
        # Who comes and goes is said, and not only shown at the side.
        self.types("/presence room all")
        self.sees("All presence updates")


def test_a_room_a_bookmark_and_a_message_that_waited(server, tmp_path):
    with Terminal(tmp_path / "romeo") as romeo:
        romeo.logs_in(server, "romeo")
        romeo.types(f"/join {ROOM} nick Romeo")
        romeo.sees("locked")
        romeo.types("/room accept")
        romeo.sees("unlocked|accepted")
        romeo.types("/bookmark add")
        romeo.sees("Bookmark added")
        with Terminal(tmp_path / "juliet") as juliet:
            juliet.logs_in(server, "juliet")
            juliet.types(f"/join {ROOM} nick Juliet")
            romeo.sees("Juliet has joined the room")
            # What she types before she is shown the room is no message.
            juliet.sees("Romeo")
            juliet.types("O speak again")
            romeo.sees("Juliet: +O speak again")
            romeo.types("Shall I hear more")
            juliet.sees("Romeo: +Shall I hear more")
            juliet.quits()
        romeo.sees("Juliet has left the room")
        # In the room's window /msg is for occupants.
        romeo.types("/win 1")
        romeo.sees("Profanity")
        romeo.types("/msg juliet@localhost Goodnight")
        romeo.sees("me: +Goodnight")
        romeo.quits()
    with Terminal(tmp_path / "juliet") as juliet:
        juliet.logs_in(server, "juliet")
        juliet.sees("romeo@localhost.*win 2")
        juliet.types("/win 2")
        juliet.sees("Goodnight")
    with Terminal(tmp_path / "romeo") as romeo:
        romeo.logs_in(server, "romeo")
        romeo.types("/bookmark list")
        romeo.sees(re.escape(ROOM))
