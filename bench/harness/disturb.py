"""Clients that misbehave, each kind in a process of its own: what others must not notice.

Plain sockets: a load generator is built not to do such things.
"""
import base64
import multiprocessing
import os
import select
import socket
import time

SENDERS = 20
HOT_PER_SECOND = 10_000
HOT_TURN_SECONDS = 0.02
SLOW_PER_SECOND = 5_000
SLOW_TURN_SECONDS = 0.02


class Client:
    """One logged-in session over plaintext."""

    def __init__(self, port, user, buffer=None):
        self.user = user
        self.socket = socket.socket()
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(30)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        header = (b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/"
                  b"streams' to='localhost' version='1.0'>")
        secret = base64.b64encode(f"\0u{user}\0pw".encode())
        self.ask(header, b"</stream:features>")
        self.ask(b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>" + secret
                 + b"</auth>", b"<success")
        self.ask(header, b"</stream:features>")
        self.ask(b"<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
                 b"<resource>d</resource></bind></iq>", b"</iq>")
        self.socket.sendall(b"<presence/>")
        self.socket.setblocking(False)

    def ask(self, request, answer):
        self.socket.sendall(request)
        seen = b""
        while answer not in seen:
            part = self.socket.recv(65536)
            if not part:
                raise ConnectionError(f"u{self.user}: the server closed: {seen[-300:]!r}")
            seen += part

    def offer(self, data):
        """Bytes the socket took; closed connections count as None."""
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return None

    def drain(self):
        """Reads all there is; false when the connection is closed."""
        try:
            while self.socket.recv(262_144):
                pass
            return False
        except BlockingIOError:
            return True
        except OSError:
            return False


class Stream:
    """Messages of one sender that are never cut in the middle of a stanza for good."""

    def __init__(self, client, to):
        self.client, self.rest = client, b""
        self.stanza = (f"<message to='u{to}@localhost/d' type='chat'><body>{'x' * 60}</body>"
                       f"</message>").encode()

    def push(self, count):
        """Offers up to `count` more messages; how many were begun."""
        begun = 0
        if not self.rest:
            self.rest, begun = self.stanza * count, count
        taken = self.client.offer(self.rest)
        if taken:
            self.rest = self.rest[taken:]
        return begun


def crowd(port, first, end, counts, targets):
    """Senders who write at the same rate, one after the other and never all at once."""
    targets = [Client(port, first + number) for number in range(targets)]
    users = range(first + len(targets), first + len(targets) + SENDERS)
    senders = [Stream(Client(port, user), targets[number % len(targets)].user)
               for number, user in enumerate(users)]
    share, due = int(HOT_PER_SECOND * HOT_TURN_SECONDS / SENDERS), time.monotonic()
    while not end.is_set():
        for number, sender in enumerate(senders):
            counts["sent"] += sender.push(share)
            sender.client.drain()
            targets[number % len(targets)].drain()
            due += HOT_TURN_SECONDS / SENDERS
            time.sleep(max(0.0, due - time.monotonic()))


def hot_recipient(port, first, end, counts):
    crowd(port, first, end, counts, targets=1)


def many_recipients(port, first, end, counts):
    crowd(port, first, end, counts, targets=SENDERS)


def flooding_sender(port, first, end, counts):
    target, sender = Client(port, first), Stream(Client(port, first + 1), first)
    sockets = [sender.client.socket, target.socket]
    while not end.is_set():
        # Sleeps while the server takes nothing: it must not cost others the processor then.
        select.select(sockets, sockets[:1], [], 0.1)
        counts["sent"] += sender.push(200)
        sender.client.drain()
        target.drain()


def slow_consumer(port, first, end, counts):
    def stuck():
        return Client(port, first, buffer=4096)
    target, sender = stuck(), Stream(Client(port, first + 1), first)
    share, turns = int(SLOW_PER_SECOND * SLOW_TURN_SECONDS), 0
    due = time.monotonic()
    while not end.is_set():
        counts["sent"] += sender.push(share)
        sender.client.drain()
        turns += 1
        # Once in a while: has the server cut it off? It tells by an error on writing.
        if turns % 25 == 0 and target.offer(b" ") is None:
            counts["cut"] += 1
            target = stuck()
        due += SLOW_TURN_SECONDS
        time.sleep(max(0.0, due - time.monotonic()))


KINDS = {"slow consumer": slow_consumer, "flooding sender": flooding_sender,
         "hot recipient": hot_recipient, "as many messages to 20": many_recipients}


class Disturbance:
    """Runs one kind beside the load; `with` ends it. `result` holds what it did, per second."""

    def __init__(self, kind, port, first):
        self.end, self.pipe = multiprocessing.Event(), multiprocessing.Pipe(duplex=False)
        self.result = {}
        args = (KINDS[kind], port, first, self.end, self.pipe[1])
        self.process = multiprocessing.Process(target=serve, args=args, daemon=True)

    def __enter__(self):
        self.process.start()
        time.sleep(1.0)
        return self

    def __exit__(self, *_):
        self.end.set()
        if self.pipe[0].poll(30):
            self.result.update(self.pipe[0].recv())
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def serve(kind, port, first, end, results):
    parent = os.getppid()

    class End:
        """Also set when the benchmark is gone."""
        @staticmethod
        def is_set():
            return end.is_set() or os.getppid() != parent
    counts, start = {"sent": 0, "cut": 0}, time.monotonic()
    try:
        kind(port, first, End, counts)
    except OSError as error:
        counts["error"] = str(error)
    except KeyboardInterrupt:
        pass
    counts["per second"] = counts["sent"] / (time.monotonic() - start)
    results.send(counts)
