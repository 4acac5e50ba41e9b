"""Somebody who uses the server as it is meant to be used, while others do not: how long logins and
messages take, and whether anything is lost."""

import threading
import time

from wire import Client, Closed

# Nobody attacks these accounts, and nobody attacks from this address.
SENDER, READER, VISITOR = "u0", "u1", "u2"
PAUSE_S = 0.02


def quantile(times, share):
    """A quantile in milliseconds; None of nothing."""
    if not times:
        return None
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


class Witness:
    """Two clients who talk, and one who comes and goes."""

    def __init__(self, server):
        self.server = server
        self.sent = 0
        self.begin()

    def begin(self):
        self.reader = Client(self.server.port).login(READER, "w", presence=True)
        self.reader.ping()
        self.sender = Client(self.server.port).login(SENDER, "w")

    def begin_again(self):
        """While the disk fails the streams of those end who had something to store."""
        self.close()
        self.begin()

    def watch(self, seconds):
        """Watches for a while: times of messages and of logins, and what went wrong."""
        self.messages, self.logins, self.wrong = [], [], []
        try:
            # Who only reads would be asked whether he is there, and would not answer.
            self.reader.ping()
        except (OSError, Closed) as error:
            self.wrong.append(f"the reader was logged out: {error!r}")
        until = time.monotonic() + seconds
        parts = [threading.Thread(target=part, args=(until,)) for part in (self.talk, self.visit)]
        for part in parts:
            part.start()
        for part in parts:
            part.join()
        return self.messages, self.logins, self.wrong

    def talk(self, until):
        while time.monotonic() < until:
            self.sent += 1
            begun = time.monotonic()
            try:
                self.sender.send(f"<message to='{READER}@localhost' type='chat'>"
                                 f"<body>w{self.sent}</body></message>")
                self.reader.expect(f"<body>w{self.sent}</body>".encode())
            except (OSError, Closed) as error:
                self.wrong.append(f"a message was lost: {error!r}")
                return
            self.messages.append(time.monotonic() - begun)
            time.sleep(PAUSE_S)

    def visit(self, until):
        while time.monotonic() < until:
            begun = time.monotonic()
            try:
                with Client(self.server.port) as client:
                    client.login(VISITOR, "v")
                    client.send(b"</stream:stream>")
                    self.logins.append(time.monotonic() - begun)
                    client.expect(b"</stream:stream>")
            except (OSError, Closed) as error:
                self.wrong.append(f"a login failed: {error!r}")
                time.sleep(0.2)
            time.sleep(PAUSE_S)

    def close(self):
        self.reader.close()
        self.sender.close()
