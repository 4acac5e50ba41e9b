"""Attackers at the port of the web: requests that never end, come early or are too many, sessions
over BOSH and streams over WebSocket whose clients do not read. Also who keeps incomplete stanzas
and handshakes in as many connections as an address may have.
"""

import base64
import itertools
import os
import random
import re
import struct
import time

from attackers import attacker, fill_archives, iq, quietly
from server import PROXY
from wire import Client, Closed

# Connections that one address may have are more; so many show what each of them takes.
MANY = 300
# A request of a session may have as much.
BODY = 270_000
# Beyond a client's allowance of input it is read at this rate.
ALLOWANCE = 250_000
QUERY = "<query xmlns='urn:xmpp:mam:2'/>"


def post(body, path="/http-bind"):
    body = body if isinstance(body, bytes) else body.encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Web(Client):
    """A connection to the port of the web."""

    def __init__(self, field, source=None, **more):
        super().__init__(field.server.http, source or field.source(), **more)
        field.clients.append(self)

    def answer(self):
        """The body of the next answer."""
        head = self.expect(b"\r\n\r\n")
        length = int(re.search(rb"Content-Length: (\d+)", head)[1])
        while len(self.seen) < length:
            self.read()
        body, self.seen = self.seen[:length], self.seen[length:]
        return body


class Bosh:
    """A session over BOSH, with a connection for each request that is under way."""

    def __init__(self, field, source=None, **attributes):
        self.field, self.source = field, source
        self.rid = random.randrange(1 << 40)
        more = "".join(f" {name}='{value}'" for name, value in attributes.items())
        text = self.ask("", "to='localhost' wait='60' hold='2' ver='1.6' xml:lang='en' "
                            f"xmpp:version='1.0' xmlns:xmpp='urn:xmpp:xbosh'{more}")
        found = re.search(rb"sid=['\"]([^'\"]+)", text)
        if not found:
            raise Closed(text)
        self.sid = found[1].decode()

    def body(self, content="", attributes="", ahead=0):
        """The next request, or one that comes before its turn."""
        if not ahead:
            self.rid += 1
        sid = f" sid='{self.sid}'" if hasattr(self, "sid") else ""
        return post(f"<body xmlns='http://jabber.org/protocol/httpbind' rid='{self.rid + ahead}'"
                    f"{sid} {attributes}>{content}</body>")

    def ask(self, content, attributes=""):
        """Sends a request and waits for its answer."""
        with Web(self.field, self.source) as web:
            web.send(self.body(content, attributes))
            text = web.answer()
            self.field.clients.remove(web)
            return text

    def login(self, user, resource):
        secret = base64.b64encode(f"\0{user}\0pw".encode()).decode()
        said = self.ask("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>"
                        f"{secret}</auth>")
        if b"<success" not in said:
            raise Closed(said)
        self.ask("", "to='localhost' xmpp:restart='true' xmlns:xmpp='urn:xmpp:xbosh'")
        said = self.ask("<iq type='set' id='bind' xmlns='jabber:client'><bind "
                        f"xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>{resource}</resource>"
                        "</bind></iq>")
        if b"<jid>" not in said:
            raise Closed(said)
        return self


class WebSocket(Web):
    """A stream over WebSocket."""

    def __init__(self, field, source=None, fields="", **more):
        super().__init__(field, source, **more)
        key = base64.b64encode(os.urandom(16)).decode()
        self.send("GET /xmpp-websocket HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                  "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                  f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: xmpp\r\n{fields}\r\n")
        self.expect(b"\r\n\r\n")

    @staticmethod
    def frame(data, is_first=True, is_last=True):
        data = data if isinstance(data, bytes) else data.encode()
        size = len(data)
        head = bytes([(0x80 if is_last else 0) | (1 if is_first else 0)])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 1 << 16:
            head += bytes([0x80 | 126]) + struct.pack(">H", size)
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", size)
        return head + bytes(4) + data

    def login(self, user, resource, **_):
        opening = "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='localhost' version='1.0'/>"
        secret = base64.b64encode(f"\0{user}\0pw".encode()).decode()
        self.send(self.frame(opening))
        self.expect(b"features>")
        self.send(self.frame("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>"
                             f"{secret}</auth>"))
        self.expect(b"<success")
        self.send(self.frame(opening))
        self.expect(b"features>")
        self.send(self.frame("<iq xmlns='jabber:client' type='set' id='bind'><bind "
                             "xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
                             f"<resource>{resource}</resource></bind></iq>"))
        self.expect(b"</bind></iq>")
        return self


def push(field, clients, make):
    """Everybody sends what is made for him, as fast as it is taken, and then holds it."""
    rest = {client: make(n) for n, client in enumerate(clients)}
    while field.goes_on():
        for client, data in list(rest.items()):
            sent = client.offer(data)
            if sent is None:
                del rest[client]
            else:
                rest[client] = data[sent:]
        time.sleep(0.02)


# ---- What is not finished ------------------------------------------------------------------------

@attacker("connections")
def half_requests(field):
    """300 requests that are as large as may be and lack their last bytes, without any login."""
    webs = [Web(field) for _ in range(MANY)]
    head = f"POST /http-bind HTTP/1.1\r\nHost: localhost\r\nContent-Length: {BODY}\r\n\r\n".encode()
    push(field, webs, lambda n: head + b"x" * ALLOWANCE)


@attacker("connections")
def half_heads(field):
    """300 requests whose heads never end."""
    webs = [Web(field) for _ in range(MANY)]
    push(field, webs, lambda n: b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 16_000)


@attacker("connections")
def slow_requests(field):
    """A hundred requests that come a byte at a time."""
    webs = [Web(field) for _ in range(100)]
    text = post("<body/>")
    for n in itertools.count():
        if not field.goes_on():
            break
        for web in webs:
            web.offer(text[n % len(text):][:1])
        time.sleep(0.02)


@attacker("connections")
def half_handshakes(field):
    """300 TLS handshakes whose first message goes on and on."""
    clients = [field.client(port=field.server.tls_port) for _ in range(MANY)]
    record = b"\x16\x03\x01\x40\x00"
    hello = b"\x01\x00\xf0\x00" + bytes(16_380)
    push(field, clients, lambda n: record + hello + (record + bytes(16_384)) * 2)


@attacker("stanzas")
def half_stanzas(field):
    """300 sessions of sixty accounts send stanzas as large as may be, without their last bytes."""
    crowd = field.crowd(60, first=20, each=5)
    push(field, crowd, lambda n: b"<message><body>" + b"x" * ALLOWANCE)


@attacker("stanzas")
def half_messages(field):
    """The same over WebSocket, in parts of messages."""
    crowd = [WebSocket(field).login(f"u{20 + n // 5}", f"w{n % 5}") for n in range(MANY // 2)]
    part = WebSocket.frame(b"x" * 60_000, is_first=False, is_last=False)
    first = WebSocket.frame(b"<message><body>", is_last=False)
    push(field, crowd, lambda n: first + part * 4)


@attacker("stanzas")
def half_messages_behind_a_proxy(field):
    """The same from one address through a proxy that nobody counts, in twice as many sessions."""
    part = WebSocket.frame(b"x" * 60_000, is_first=False, is_last=False)
    half = WebSocket.frame(b"<message><body>", is_last=False) + part * 4
    held = []

    def begin(n):
        if len(held) >= MANY:
            return time.sleep(0.05)
        session = WebSocket(field, PROXY, "X-Forwarded-For: 198.51.100.8\r\n")
        session.login(f"u{20 + len(held) // 5}", f"w{len(held) % 5}").send(half)
        held.append(session)
    field.repeat(begin)


@attacker("connections")
def early_requests(field):
    """Sessions over BOSH without a login: each has requests that came before their turn."""
    sessions, held = [], []

    def begin(n):
        if len(sessions) >= MANY // 2:
            return time.sleep(0.05)
        session = Bosh(field)
        sessions.append(session)
        for ahead in (2, 3):
            web = Web(field)
            web.send(session.body("<x/>" + " " * ALLOWANCE, ahead=ahead))
            held.append(web)
    field.repeat(begin)


@attacker("stanzas")
def behind_a_pause(field):
    """A session over BOSH that has used up what it may send for a minute, and sends on from ever
    new connections."""
    session = Bosh(field).login("u30", "b")
    ask = "".join(f"<presence xmlns='jabber:client' type='{kind}' to='u{n}@localhost'/>"
                  for n in range(40, 100) for kind in ("subscribe", "unsubscribe"))
    word = ("<message xmlns='jabber:client' to='u31@localhost' type='headline'><body>"
            + "x" * ALLOWANCE + "</body></message>")
    webs = []

    def send(n):
        nonlocal session
        web = Web(field)
        web.send(session.body(ask * 6 if n == 0 else word))
        webs.append(web)
        if len(webs) > 2:
            first = webs.pop(0)
            if b"terminate" in first.answer():
                session, webs[:] = Bosh(field).login("u30", "b"), []
            first.close()
    field.repeat(send)


@attacker("connections")
def sessions_without_end(field):
    """Begins sessions over BOSH, and never logs in."""
    field.repeat(lambda n: Bosh(field))


@attacker("bans")
def made_up_addresses(field):
    """Somebody who is banned comes through a proxy, and says in front of its word who he is."""
    banned, answered = "198.51.100.9", []
    field.server.run("ban", "add", banned)

    def ask(n):
        with Web(field, PROXY) as web:
            field.clients.remove(web)
            web.send("GET /http-bind HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     f"X-Forwarded-For: 203.0.113.{n % 250}\r\nX-Forwarded-For: {banned}\r\n\r\n")
            if b" 200 " in web.expect(b"\r\n"):
                answered.append("a banned address was answered")
    field.repeat(ask)
    field.server.run("ban", "remove", banned)
    return answered[:1]


# ---- What is not read ----------------------------------------------------------------------------

@attacker("answers")
def unread_sockets(field):
    """Thirty sessions over WebSocket ask for their archives and read nothing."""
    with Client(field.server.port, field.source()) as filler:
        fill_archives([filler.login("u10", "f")])
    crowd = [WebSocket(field, receive_buffer=4096).login(f"u{10 + n % 3}", f"w{n}")
             for n in range(27)]
    field.flood(crowd, lambda n: WebSocket.frame(
        iq(n, QUERY, "set").replace(b"<iq ", b"<iq xmlns='jabber:client' ")))


@attacker("answers")
def unread_requests(field):
    """Twenty sessions over BOSH ask for their archives from ever new connections, and read
    nothing."""
    with Client(field.server.port, field.source()) as filler:
        fill_archives([filler.login("u10", "f")])
    sessions = [Bosh(field).login(f"u{10 + n % 2}", f"b{n}") for n in range(18)]
    query = iq(1, QUERY, "set").decode().replace("<iq ", "<iq xmlns='jabber:client' ")
    webs = []

    def ask(n):
        web = Web(field, receive_buffer=4096)
        web.send(sessions[n % len(sessions)].body(query * 2))
        webs.append(web)
        if len(webs) > 400:
            webs.pop(0).close()
    field.repeat(ask)


@attacker("accounts")
def stays_over_the_web(field):
    """Has a session over BOSH and one over WebSocket when the account is locked, and a half login
    over each."""
    name = f"victim{random.randrange(1 << 40)}"
    jid = f"{name}@localhost"
    field.server.run("user", "add", jid, "--password", "pw")
    session, stream = Bosh(field).login(name, "b"), WebSocket(field).login(name, "w")
    field.server.run("user", "lock", jid)
    word = "<message xmlns='jabber:client' to='u5@localhost' type='chat'><body>still in</body>"
    word += "</message><iq xmlns='jabber:client' type='get' id='in'>"
    word += "<ping xmlns='urn:xmpp:ping'/></iq>"
    wrong = []
    said = quietly(session.ask, word) or b""
    if b"id='in'" in said:
        wrong.append("a session over BOSH stayed")
    quietly(stream.send, b"".join(map(stream.frame, re.findall(".*?</(?:message|iq)>", word))))
    while stream.skim(0.3) and stream.seen:
        if b"id='in'" in stream.seen:
            wrong.append("a stream over WebSocket stayed")
            break
        if b"close" in stream.seen or b"error" in stream.seen:
            break
    return wrong
