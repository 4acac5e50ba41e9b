"""A client that does as it is told, well-behaved or not: bytes, SASL, a little waiting.

Plain sockets and the standard library: a client library is built not to do such things.
"""

import base64
import hashlib
import hmac
import os
import socket
import ssl

OPEN = (b"<stream:stream to='localhost' version='1.0' xmlns='jabber:client' "
        b"xmlns:stream='http://etherx.jabber.org/streams'>")
SASL = b"urn:ietf:params:xml:ns:xmpp-sasl"
PASSWORD = "pw"


class Closed(Exception):
    """The server ended the connection."""


def tls_context():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Client:
    """One connection."""

    def __init__(self, port, source="127.0.0.1", tls=False, timeout=20, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.bind((source, 0))
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls_context().wrap_socket(self.socket)
        self.seen = b""

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def offer(self, data):
        """Sends what the socket takes without waiting; None if it is closed."""
        self.socket.setblocking(False)
        try:
            return self.socket.send(data if isinstance(data, bytes) else data.encode())
        except (BlockingIOError, ssl.SSLWantWriteError):
            return 0
        except OSError:
            return None

    def read(self):
        part = self.socket.recv(1 << 16)
        if not part:
            raise Closed(self.seen[-300:])
        self.seen += part

    def expect(self, *wanted):
        """Waits for one of these and returns what came up to its end."""
        while True:
            places = [(self.seen.find(one), one) for one in wanted if one in self.seen]
            if places:
                at, one = min(places)
                end = at + len(one)
                text, self.seen = self.seen[:end], self.seen[end:]
                return text
            self.read()

    def skim(self, seconds=0.0):
        """Takes what has come, without waiting longer than that. False once it is closed."""
        self.socket.settimeout(max(seconds, 0.001))
        try:
            self.read()
        except (TimeoutError, ssl.SSLWantReadError):
            pass
        except (OSError, Closed):
            return False
        finally:
            try:
                self.socket.settimeout(20)
            except OSError:
                pass
        return True

    def open(self):
        self.send(OPEN)
        self.expect(b"</stream:features>")
        return self

    def plain(self, user, password=PASSWORD):
        """Tries a password; True if it was right, else the condition of the failure."""
        secret = base64.b64encode(f"\0{user}\0{password}".encode())
        self.send(b"<auth xmlns='" + SASL + b"' mechanism='PLAIN'>" + secret + b"</auth>")
        return self.outcome()

    def outcome(self):
        text = self.expect(b"<success", b"</failure>")
        if text.endswith(b"<success"):
            self.expect(b">")
            return True
        return text.rpartition(b"<failure")[2].partition(b"<")[2].partition(b"/")[0].decode()

    def scram_begin(self, user):
        """Asks for a challenge."""
        self.bare = f"n={user},r={base64.b64encode(os.urandom(12)).decode()}"
        first = base64.b64encode(b"n,," + self.bare.encode())
        self.send(b"<auth xmlns='" + SASL + b"' mechanism='SCRAM-SHA-1'>" + first + b"</auth>")

    def scram_finish(self, password):
        """Waits for the challenge and guesses."""
        text = self.expect(b"</challenge>", b"</failure>")
        if text.endswith(b"</failure>"):
            return text.rpartition(b"<failure")[2].partition(b"<")[2].partition(b"/")[0].decode()
        text = text.rpartition(b"<challenge")[2].partition(b">")[2].partition(b"<")[0]
        challenge = base64.b64decode(text).decode()
        parts = dict(part.split("=", 1) for part in challenge.split(","))
        salted = hashlib.pbkdf2_hmac("sha1", password.encode(), base64.b64decode(parts["s"]),
                                     int(parts["i"]))
        key = hmac.digest(salted, b"Client Key", "sha1")
        without = f"c=biws,r={parts['r']}"
        message = f"{self.bare},{challenge},{without}".encode()
        signature = hmac.digest(hashlib.sha1(key).digest(), message, "sha1")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature))).decode()
        last = base64.b64encode(f"{without},p={proof}".encode())
        self.send(b"<response xmlns='" + SASL + b"'>" + last + b"</response>")
        return self.outcome()

    def bind(self, resource=None):
        """Binds; True, or what came instead."""
        wanted = f"<resource>{resource}</resource>" if resource else ""
        self.send(f"<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
                  f"{wanted}</bind></iq>")
        text = self.expect(b"</bind></iq>", b"</iq>", b"</stream:stream>")
        return text.endswith(b"</bind></iq>") or text

    def login(self, user, resource=None, password=PASSWORD, presence=False):
        self.open()
        result = self.plain(user, password)
        if result is not True:
            raise Closed(result)
        self.open()
        result = self.bind(resource)
        if result is not True:
            raise Closed(result)
        if presence:
            self.send(b"<presence/>")
        return self

    def ping(self, name="p"):
        """Everything sent before has been handled when this returns."""
        self.send(f"<iq type='get' id='{name}'><ping xmlns='urn:xmpp:ping'/></iq>")
        self.expect(f"id='{name}'".encode())

    def close(self):
        try:
            self.socket.close()
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
