"""The attackers. Each is a function with a name, a sentence, and the section of docs/security.md
that it tries; it runs for a while and returns what it was able to do that nobody may.

Victims are u5 to u9, attackers who have accounts u10 and above. Each attacker comes from addresses
of its own, 127.1.x.1 and up: what an address has done is remembered, and would be held against the
next one. Each victim's owner comes from 127.0.2.x.
"""

import itertools
import json
import random
import socket
import ssl
import time

from wire import OPEN, Client, Closed, tls_context

ALL = {}
OWNER = "127.0.2.1"
VICTIM = "u5"


def attacker(section):
    def note(run):
        run.section = section
        ALL[run.__name__] = run
        return run
    return note


class Field:
    """Where an attacker runs: a server, and a time."""

    def __init__(self, server, seconds, name):
        self.server, self.seconds = server, seconds
        self.number = 1 + list(ALL).index(name)
        self.until = time.monotonic() + seconds
        self.clients = []

    def goes_on(self):
        return time.monotonic() < self.until

    def source(self, number=0):
        """One of the attacker's addresses."""
        return f"127.1.{self.number}.{1 + number}"

    def client(self, source=None, tls=False, port=None, **more):
        port = port or (self.server.tls_port if tls else self.server.port)
        client = Client(port, source or self.source(), tls, **more)
        self.clients.append(client)
        return client

    def crowd(self, count, first=10, sources=1, each=1, presence=False, **more):
        """Sessions of `count` accounts, `each` of one."""
        crowd = []
        for n in range(count * each):
            source = self.source(n % sources)
            client = self.client(source, **more)
            user = f"u{first + n // each}"
            crowd.append(client.login(user, f"r{n % each}", presence=presence))
        return crowd

    def close_all(self):
        for client in self.clients:
            client.close()
        self.clients.clear()

    def repeat(self, act):
        """Does something again and again; refusals and closed doors are part of it."""
        for n in itertools.count():
            if not self.goes_on():
                return n
            try:
                act(n)
            except (OSError, Closed):
                time.sleep(0.01)

    def flood(self, crowd, make):
        """Everybody sends as much as the server takes and reads nothing."""
        rest = {client: b"" for client in crowd}
        count = itertools.count()
        while self.goes_on() and rest:
            is_idle = True
            for client in list(rest):
                data = rest[client] or b"".join(make(next(count)) for _ in range(20))
                sent = client.offer(data)
                if sent is None:
                    del rest[client]
                    continue
                is_idle &= sent == 0
                rest[client] = data[sent:]
            if is_idle:
                time.sleep(0.005)


def iq(n, payload, kind="get", to=""):
    to = f" to='{to}'" if to else ""
    return f"<iq type='{kind}' id='x{n}'{to}>{payload}</iq>".encode()


# ---- Logging in ----------------------------------------------------------------------------------

GUESSES_FREE = 8


def guessed_too_often(answered, seconds):
    most = GUESSES_FREE + 2 * seconds
    return [f"{answered} guesses in {seconds:.1f} s"] if answered > most else []


@attacker("logins")
def challenges_first(field):
    """Opens 60 SCRAM challenges of one account, and only then guesses."""
    begun = time.monotonic()
    clients = []
    for n in range(60):
        client = field.client(field.source(n % 4)).open()
        client.scram_begin(VICTIM)
        clients.append(client)
    answered = 0
    for client in clients:
        try:
            client.socket.settimeout(0.05)
            answered += client.scram_finish("wrong") == "not-authorized"
        except (OSError, Closed):
            pass
    return guessed_too_often(answered, time.monotonic() - begun)


@attacker("logins")
def plain_in_parallel(field):
    """100 connections guess at one account at the same time by PLAIN."""
    begun = time.monotonic()
    clients = [field.client(field.source(n % 4)).open() for n in range(100)]
    for client in clients:
        client.send(b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>"
                    b"AHU2AHdyb25n</auth>")
    answered = 0
    for client in clients:
        try:
            client.socket.settimeout(0.05)
            answered += client.outcome() == "not-authorized"
        except (OSError, Closed):
            pass
    return guessed_too_often(answered, time.monotonic() - begun)


@attacker("logins")
def guesses_at_many(field):
    """One password at thousands of names, some of which exist."""
    def guess(n):
        with field.client() as client:
            client.socket.settimeout(0.3)
            client.open().plain(f"u{n % 400}", "wrong")
    field.repeat(guess)


def ask_for_challenges(field, user, sources, each):
    """Opens challenges of an account whose owner was there before; `each` follows each."""
    with Client(field.server.port, OWNER) as owner:
        owner.login(user, "before")

    def ask(n):
        field.client(field.source(n % sources)).open().scram_begin(user)
        each(n)
        time.sleep(0.01)
    field.repeat(ask)


@attacker("logins")
def held_challenges(field):
    """Opens challenges of one account and finishes none; its owner logs in from where he was."""
    ask_for_challenges(field, "u7", sources=8, each=lambda n: None)
    return owner_is_let_in(field, "u7")


def owner_is_let_in(field, user):
    begun = time.monotonic()
    try:
        with Client(field.server.port, OWNER) as owner:
            owner.login(user, "owner")
    except Closed as error:
        return [f"the owner was refused: {error!r}"]
    took = time.monotonic() - begun
    return [f"the owner waited for {took:.1f} s"] if took > 3 else []


@attacker("logins")
def crowd_at_the_gate(field):
    """22 connections of one address keep asking to log in to one account; the owner wants in."""
    wrong = []

    def come_and_go(n):
        if len(field.clients) > 22:
            field.clients.pop(0).close()
        if n % 20 == 19:
            wrong.extend(owner_is_let_in(field, "u8"))
    ask_for_challenges(field, "u8", sources=2, each=come_and_go)
    return wrong[:1]


@attacker("logins")
def decoys(field):
    """Asks for challenges of names that nobody has, and compares them with real ones."""
    def parameters(user):
        client = field.client().open()
        client.scram_begin(user)
        text = client.expect(b"</challenge>", b"</failure>")
        client.close()
        import base64
        text = text.rpartition(b"<challenge")[2].partition(b">")[2].partition(b"<")[0]
        return dict(part.split("=", 1) for part in base64.b64decode(text).decode().split(","))
    try:
        real, decoy, again = (parameters(user) for user in ("u20", "nobody", "nobody"))
    except (KeyError, ValueError):
        return []  # It was paced: somebody guessed from this address before.
    wrong = []
    if decoy["s"] != again["s"]:
        wrong.append("a decoy's salt changes")
    if (real["i"], len(real["s"])) != (decoy["i"], len(decoy["s"])) and len(real["s"]) == 24:
        wrong.append("a decoy looks different")
    return wrong


@attacker("logins")
def flapping(field):
    """A phone whose link breaks again and again, with a name drawn anew each time."""
    wrong = []

    def flap(n):
        client = field.client()
        try:
            client.login("u9", f"r{random.random()}")
            client.send(b"<enable xmlns='urn:xmpp:sm:3' resume='true'/>")
            client.expect(b"<enabled")
        except Closed as error:
            wrong.append(f"locked out after {n}: {error!r}")
        client.close()
    field.repeat(flap)
    return wrong[:1]


def stays(field, *command):
    """Authenticates, has the operator do something, and binds."""
    name, word = f"victim{random.randrange(1 << 40)}", "pw"
    jid = f"{name}@localhost"
    field.server.run("user", "add", jid, "--password", word)
    unbound = field.client().open()
    unbound.plain(name, word)
    unbound.open()
    challenged = field.client().open()
    challenged.scram_begin(name)
    challenged.expect(b"<challenge")
    challenged.seen = b"<challenge" + challenged.seen
    for words in command:
        field.server.run("user", *(jid if part == "JID" else part for part in words))
    wrong = []
    try:
        if unbound.bind("x") is True:
            wrong.append("who had authenticated stayed")
    except Closed:
        pass
    try:
        if challenged.scram_finish(word) is True:
            challenged.open()
            if challenged.bind("x") is True:
                wrong.append("who had a challenge open stayed")
    except Closed:
        pass
    return wrong


@attacker("accounts")
def stays_after_lock(field):
    """Is half logged in when the account is locked."""
    return stays(field, ("lock", "JID"))


@attacker("accounts")
def stays_after_kick(field):
    """Is half logged in when the account's sessions are ended."""
    return stays(field, ("kick", "JID"))


@attacker("accounts")
def stays_after_passwd(field):
    """Is half logged in when the password changes."""
    return stays(field, ("passwd", "JID", "--password", "other"))


@attacker("accounts")
def takes_over_a_name(field):
    """Is half logged in when the account is removed and made for somebody else."""
    return stays(field, ("del", "JID"), ("add", "JID", "--password", "pw2"))


@attacker("logins")
def login_flood(field):
    """Logs in and out of its own account as fast as it can, by PLAIN."""
    def login(n):
        with Client(field.server.port, field.source()) as client:
            client.login(f"u{30 + n % 5}", "x")
    field.repeat(login)


@attacker("logins")
def scram_flood(field):
    """The same by SCRAM."""
    def login(n):
        with Client(field.server.port, field.source()) as client:
            client.open().scram_begin(f"u{30 + n % 5}")
            client.scram_finish("pw")
    field.repeat(login)


@attacker("logins")
def registrations(field):
    """Makes accounts, from two addresses at all shards."""
    made = 0

    def register(n):
        nonlocal made
        with Client(field.server.port, f"127.0.3.{1 + n % 2}") as client:
            client.open()
            name = f"spam{random.randrange(1 << 40)}"
            client.send(iq(n, f"<query xmlns='jabber:iq:register'><username>{name}</username>"
                              f"<password>x</password></query>", "set"))
            made += b"type='result'" in client.expect(b"</iq>", b"/>")
    field.repeat(register)
    return [f"{made} accounts of 6"] if made > 6 else []


# ---- Before a login ------------------------------------------------------------------------------

@attacker("connections")
def connection_flood(field):
    """Opens connections and closes them at once."""
    field.repeat(lambda n: Client(field.server.port, field.source(n % 9)).close())


@attacker("connections")
def silent_connections(field):
    """Opens hundreds of connections and says nothing."""
    def hold(n):
        if n < 600:
            field.client(field.source(n % 9))
        else:
            time.sleep(0.05)
    field.repeat(hold)


@attacker("connections")
def slow_writers(field):
    """Sends a stream header a byte at a time on a hundred connections."""
    clients = [field.client() for _ in range(100)]
    header = OPEN

    def trickle(n):
        for client in clients:
            client.send(header[n % len(header):][:1])
        time.sleep(0.02)
    field.repeat(trickle)


@attacker("connections")
def endless_header(field):
    """A stream header that never ends."""
    def header(n):
        with Client(field.server.port, field.source()) as client:
            client.send(b"<stream:stream " + b"a" * 60_000)
            client.send(b"b" * 400_000)
            client.skim(0.05)
    field.repeat(header)


@attacker("connections")
def tls_hellos(field):
    """Begins TLS handshakes and goes away."""
    def hello(n):
        with Client(field.server.tls_port, field.source(n % 9)) as client:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = tls_context().wrap_bio(incoming, outgoing)
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                client.send(outgoing.read())
    field.repeat(hello)


@attacker("connections")
def tls_handshakes(field):
    """Completes TLS handshakes and goes away."""
    field.repeat(lambda n: Client(field.server.tls_port, field.source(), tls=True).close())


@attacker("connections")
def tls_garbage(field):
    """Sends what is no TLS to the TLS port, and half records."""
    def garbage(n):
        with Client(field.server.tls_port, field.source()) as client:
            client.send(b"\x16\x03\x01\x40\x00" + random.randbytes(n % 9_000))
            client.skim(0.01)
    field.repeat(garbage)


@attacker("connections")
def starttls_twice(field):
    """Pipelines plaintext behind STARTTLS and asks for it again."""
    def twice(n):
        with Client(field.server.port, field.source()) as client:
            client.open()
            client.send(b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>" * 3 + OPEN)
            client.skim(0.02)
    field.repeat(twice)


@attacker("connections")
def proxy_headers(field):
    """Claims another address with PROXY headers on a port that takes none."""
    def claim(n):
        with Client(field.server.port, field.source()) as client:
            header = (b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
                      b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01\0\x01\0\x02")
            client.send(header[n % 2] + OPEN)
            client.skim(0.05)
            if b"<stream:features" in client.seen:
                claimed.append("a PROXY header was believed")
    claimed = []
    field.repeat(claim)
    return claimed[:1]


@attacker("connections")
def http_on_the_xmpp_port(field):
    """Speaks HTTP to the wrong port."""
    def get(n):
        with Client(field.server.port, field.source()) as client:
            client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
            client.skim(0.02)
    field.repeat(get)


@attacker("connections")
def thousand_domains(field):
    """Asks for a thousand domains that are not served."""
    def ask(n):
        with Client(field.server.port, field.source()) as client:
            client.send(OPEN.replace(b"localhost", f"d{n % 1000}.example".encode()))
            client.expect(b"host-unknown")
    field.repeat(ask)


# ---- XML -----------------------------------------------------------------------------------------

@attacker("stanzas")
def incomplete_stanzas(field):
    """A hundred stanzas just under the limit that never end."""
    clients = field.crowd(20, each=5)
    for client in clients:
        client.offer(b"<message><body>" + b"x" * 250_000)
    field.repeat(lambda n: time.sleep(0.05))


@attacker("stanzas")
def entity_bombs(field):
    """Document types with entities that stand for much."""
    bomb = (b"<!DOCTYPE a [<!ENTITY a 'aaaaaaaaaa'>"
            + b"".join(f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>".encode()
                       for n in range(8)) + b"]>")

    def send(n):
        with Client(field.server.port, field.source()) as client:
            client.send(bomb + OPEN + b"<a>&i;</a>")
            client.skim(0.02)
    field.repeat(send)


@attacker("stanzas")
def deep_and_wide(field):
    """Stanzas as deep and with as many attributes as fit."""
    def send(n):
        client = field.client().login("u40", "x")
        if n % 2:
            client.send(b"<message>" + b"<a>" * 80_000)
        else:
            client.send(b"<message " + b" ".join(b"a%d=''" % m for m in range(20_000)) + b"/>")
        client.skim(0.05)
        client.close()
    field.repeat(send)


# ---- Sessions ------------------------------------------------------------------------------------

def quietly(act, *arguments):
    try:
        return act(*arguments)
    except (OSError, Closed):
        return None


@attacker("stanzas")
def subscription_flood(field):
    """40 strangers ask to subscribe and take it back; the roster has room for friends."""
    crowd = field.crowd(40, sources=4)
    kinds = ("subscribe", "unsubscribe")
    field.flood(crowd, lambda n: f"<presence to='{VICTIM}@localhost' type='{kinds[n % 2]}'>"
                                 f"<status>{'x' * 2000}</status></presence>".encode())
    field.close_all()

    try:
        with Client(field.server.port, OWNER) as owner:
            owner.login(VICTIM, "owner")
            owner.send(iq(1, "<query xmlns='jabber:iq:roster'><item jid='friend@localhost'/>"
                             "</query>", "set"))
            answer = owner.expect(b"id='x1'", b"</iq>")
    except Closed as error:
        return [f"the owner was refused: {error!r}"]
    return ["no room for a friend"] if b"type='error'" in answer else []


@attacker("stanzas")
def crowd_at_a_mailbox(field):
    """100 sessions of strangers fill a mailbox; its owner comes and gets his messages."""
    crowd = field.crowd(25, sources=4, each=4)
    kinds = ("subscribe", "unsubscribe")
    field.flood(crowd, lambda n: f"<presence to='u6@localhost' type='{kinds[n % 2]}'>"
                                 f"<status>{'x' * 500}</status></presence>".encode())
    # They go on meanwhile: what the server has not read yet waits in their sockets.
    try:
        with Client(field.server.port, OWNER) as owner, Client(field.server.port, OWNER) as friend:
            owner.login("u6", "owner", presence=True)
            friend.login("u9", "friend")
            friend.send("<message to='u6@localhost' type='chat'><body>from a friend</body>"
                        "</message>")
            owner.expect(b"<body>from a friend</body>")
    except (Closed, TimeoutError) as error:
        return [f"the owner was refused: {error!r}"]
    return []


@attacker("stanzas")
def presence_flood(field):
    """10 sessions change their presence as fast as they can."""
    crowd = field.crowd(2, each=5, presence=True)
    field.flood(crowd, lambda n: f"<presence><status>{n}</status></presence>".encode())


@attacker("stanzas")
def big_presence(field):
    """Presence of 50 KB from each of 10 sessions to the others, unread."""
    crowd = field.crowd(1, each=10, presence=True, receive_buffer=4096)
    field.flood(crowd, lambda n: b"<presence><status>" + b"x" * 50_000 + b"</status></presence>")


@attacker("stanzas")
def directed_presence(field):
    """Presence to thousands of addresses that nobody has."""
    crowd = field.crowd(4)
    field.flood(crowd, lambda n: f"<presence to='n{n % 5000}@localhost'/>".encode())


@attacker("stanzas")
def roster_flood(field):
    """Fills its roster and rewrites it."""
    crowd = field.crowd(4)
    field.flood(crowd, lambda n: iq(n, "<query xmlns='jabber:iq:roster'>"
                                       f"<item jid='c{n % 1200}@localhost' name='{'n' * 900}'/>"
                                       "</query>", "set"))


@attacker("stanzas")
def block_list_flood(field):
    """Blocks thousands, again and again."""
    crowd = field.crowd(3)
    items = "".join(f"<item jid='s{n}@example.org'/>" for n in range(1000))
    field.flood(crowd, lambda n: iq(n, f"<block xmlns='urn:xmpp:blocking'>{items}</block>", "set"))


@attacker("stanzas")
def messages_to_nobody(field):
    """Messages to names that nobody has, each another one."""
    crowd = field.crowd(4)
    field.flood(crowd, lambda n: f"<message to='no{n}@localhost' type='chat'><body>x</body>"
                                 "</message>".encode())


@attacker("stanzas")
def questions_to_nobody(field):
    """Asks names that nobody has for their cards."""
    crowd = field.crowd(4)
    field.flood(crowd, lambda n: iq(n, "<vCard xmlns='vcard-temp'/>", to=f"no{n}@localhost"))


@attacker("stanzas")
def full_inbox(field):
    """Fills the inbox of somebody who is away."""
    crowd = field.crowd(4)
    body = "x" * 5_000
    field.flood(crowd, lambda n: f"<message to='u6@localhost' type='chat'><body>{body}</body>"
                                 "</message>".encode())


@attacker("stanzas")
def messages_at_somebody(field):
    """20 senders at somebody who is here and reads."""
    reader = field.client().login("u9", "r", presence=True)
    crowd = field.crowd(20)

    def message(n):
        reader.skim(0.0)
        reader.seen = b""
        return b"<message to='u9@localhost' type='chat'><body>x</body></message>"
    field.flood(crowd, message)


# ---- Answers -------------------------------------------------------------------------------------

def fill_archives(crowd):
    for client in crowd:
        for _ in range(30):
            client.send(f"<message to='u6@localhost' type='headline'><body>x</body></message>"
                        "<message type='chat' to='u7@localhost'>"
                        f"<body>{'y' * 8000}</body></message>")
        quietly(client.ping)


ARCHIVE = "<query xmlns='urn:xmpp:mam:2'/>"


@attacker("answers")
def archive_unread(field):
    """36 sessions of four accounts ask for their archive 500 times each and read nothing."""
    crowd = field.crowd(4, each=9)
    fill_archives(crowd[::9])
    asked = iq(1, ARCHIVE, "set") * 500
    for client in crowd:
        client.offer(asked)
    field.flood(crowd, lambda n: iq(n, ARCHIVE, "set"))


@attacker("answers")
def archive_read(field):
    """The same, and reads."""
    crowd = field.crowd(4, each=9)
    fill_archives(crowd[::9])

    def ask(n):
        client = crowd[n % len(crowd)]
        client.offer(iq(n, ARCHIVE, "set") * 20)
        client.skim(0.0)
        client.seen = b""
    field.repeat(ask)


@attacker("answers")
def archive_nonsense(field):
    """Queries that cannot be answered."""
    crowd = field.crowd(2)
    query = ("<query xmlns='urn:xmpp:mam:2'><set xmlns='http://jabber.org/protocol/rsm'>"
             "<after>ffffffffffffffff</after><max>4294967295</max></set></query>")
    field.flood(crowd, lambda n: iq(n, query, "set"))


@attacker("answers")
def giant_cards(field):
    """Asks for a card of 120 KB all the time and does not read it."""
    owner = field.client().login("u10", "x")
    card = f"<vCard xmlns='vcard-temp'><DESC>{'x' * 120_000}</DESC></vCard>"
    owner.send(iq(1, card, "set"))
    quietly(owner.expect, b"id='x1'")
    crowd = field.crowd(10, first=11, receive_buffer=4096)
    field.flood(crowd, lambda n: iq(n, "<vCard xmlns='vcard-temp'/>", to="u10@localhost"))


@attacker("answers")
def disco_flood(field):
    """Asks the domain what it can do, and does not read it."""
    crowd = field.crowd(10)
    info = "<query xmlns='http://jabber.org/protocol/disco#info'/>"
    field.flood(crowd, lambda n: iq(n, info, to="localhost"))


@attacker("answers")
def ping_flood(field):
    """Pings without reading."""
    crowd = field.crowd(10)
    field.flood(crowd, lambda n: iq(n, "<ping xmlns='urn:xmpp:ping'/>"))


@attacker("answers")
def roster_unread(field):
    """Asks for a full roster all the time and does not read it."""
    crowd = field.crowd(4, first=10, receive_buffer=4096)
    for client in crowd:
        for n in range(200):
            client.send(iq(n, f"<query xmlns='jabber:iq:roster'><item jid='c{n}@localhost' "
                              f"name='{'n' * 900}'/></query>", "set"))
    field.flood(crowd, lambda n: iq(n, "<query xmlns='jabber:iq:roster'/>"))


@attacker("answers")
def slow_readers(field):
    """20 sessions are sent much and read nothing."""
    readers = field.crowd(20, first=50, presence=True, receive_buffer=2048)
    for client in readers:
        quietly(client.ping)
    senders = field.crowd(5, first=80)
    body = "x" * 10_000
    field.flood(senders, lambda n: f"<message to='u{50 + n % 20}@localhost' type='chat'>"
                                   f"<body>{body}</body></message>".encode())


@attacker("answers")
def silent_acknowledgers(field):
    """The same with stream management that they do not keep."""
    readers = field.crowd(20, first=50, presence=True)
    for client in readers:
        client.send(b"<enable xmlns='urn:xmpp:sm:3' resume='true'/>")
        quietly(client.expect, b"<enabled")
    senders = field.crowd(5, first=80)
    body = "x" * 10_000
    field.flood(senders, lambda n: f"<message to='u{50 + n % 20}@localhost' type='chat'>"
                                   f"<body>{body}</body></message>".encode())


@attacker("answers")
def nonsense_acknowledgements(field):
    """Acknowledges what was never sent, and resumes what never was."""
    def send(n):
        client = field.client().login("u41", f"r{n % 8}")
        client.send(b"<enable xmlns='urn:xmpp:sm:3' resume='true'/><a xmlns='urn:xmpp:sm:3' "
                    b"h='4294967295'/><resume xmlns='urn:xmpp:sm:3' previd='x' h='-1'/>")
        client.skim(0.05)
        client.close()
    field.repeat(send)


@attacker("answers")
def copies(field):
    """Messages to itself with ten sessions that all want copies."""
    crowd = field.crowd(1, each=10, presence=True)
    for client in crowd:
        client.send(iq(0, "<enable xmlns='urn:xmpp:carbons:2'/>", "set"))
    message = b"<message to='u10@localhost' type='chat'><body>x</body></message>"
    field.flood(crowd, lambda n: message)


# ---- What is stored ------------------------------------------------------------------------------

@attacker("storage")
def private_storage(field):
    """Stores private elements without end."""
    client = field.client().login("u42", "x")
    stored = 0

    def store(n):
        nonlocal stored
        name = f"e{random.randrange(1 << 60)}"
        client.send(iq(n, f"<query xmlns='jabber:iq:private'><{name} xmlns='urn:x'>"
                          f"{'x' * 60_000}</{name}></query>", "set"))
        answer = client.expect(b"</iq>", b"/>")
        stored += 60_000 * (b"type='result'" in answer)
    field.repeat(store)
    return [f"{stored} bytes were stored"] if stored > 1_100_000 else []


@attacker("storage")
def big_cards(field):
    """Replaces its card with another large one, all the time."""
    crowd = field.crowd(4)
    card = f"<vCard xmlns='vcard-temp'><DESC>{'x' * 120_000}</DESC></vCard>"
    field.flood(crowd, lambda n: iq(n, card, "set"))


@attacker("storage")
def password_changes(field):
    """Changes its password all the time: each costs a derivation."""
    client = field.client().login("u43", "x")
    change = ("<query xmlns='jabber:iq:register'><username>u43</username><password>pw</password>"
              "</query>")
    field.flood([client], lambda n: iq(n, change, "set"))


# ---- Lies ----------------------------------------------------------------------------------------

@attacker("messages")
def forged_ids(field):
    """Says for the server what a message's id in somebody's archive is."""
    victim = field.client(OWNER).login("u45", "v", presence=True)
    victim.ping()
    liar = field.client().login("u46", "x")
    wrong = []

    def lie(n):
        kind = ("chat", "normal", "headline", "error", "groupchat")[n % 5]
        by = ("u45@localhost", "U45@LOCALHOST")[n % 2]
        liar.send(f"<message to='u45@localhost/v' type='{kind}' id='l{n}'><body>x</body>"
                  f"<stanza-id xmlns='urn:xmpp:sid:0' by='{by}' id='forged'/>"
                  "<no-store xmlns='urn:xmpp:hints'/></message>")
        if b"forged" in victim.expect(f"id='l{n}'".encode() ) + victim.expect(b"</message>"):
            wrong.append(f"a forged id passed in {kind}")
    field.repeat(lie)
    return wrong[:1]


@attacker("messages")
def other_senders(field):
    """Writes in the name of somebody else."""
    victim = field.client(OWNER).login("u45", "v", presence=True)

    def lie(n):
        client = field.client().login("u46", "x")
        client.send(b"<message from='u0@localhost' to='u45@localhost'><body>lie</body></message>")
        client.skim(0.05)
        client.close()
    field.repeat(lie)
    victim.skim(0.1)
    return ["somebody wrote in another's name"] if b"lie" in victim.seen else []


@attacker("operators")
def strange_names(field):
    """Resources with control and bidirectional characters, for whoever looks at them."""
    def enter(n):
        client = field.client().open()
        client.plain("u47")
        client.open()
        name = ("\u202eevil", "a\u2066b", "x\u200f", "\u0007bell")[n % 4]
        client.socket.settimeout(1)
        client.bind(name)
        client.close()
    field.repeat(enter)
    shown = field.server.run("status") + field.server.log()
    bad = [c for c in "\u202e\u2066\u200f\u0007\u001b[2J" if c in shown and c not in "[2J"]
    return [f"operators see {bad!r}"] if bad else []


@attacker("operators")
def half_commands(field):
    """Sends half commands to the control socket, and holds it."""
    held = []
    for n in range(100):
        control = socket.socket(socket.AF_UNIX)
        control.settimeout(5)
        try:
            control.connect(str(field.server.control))
            control.send(json.dumps({"request": "status"})[:-n % 20].encode() + b"{" * (n * 100))
        except OSError:
            pass
        held.append(control)
    field.repeat(lambda n: time.sleep(0.05))
    for control in held:
        control.close()
    time.sleep(0.2)
    answer = field.server.run("status", check=False)
    return [] if "accounts" in answer else [f"no answer to the operator: {answer}"]


@attacker("operators")
def slow_http(field):
    """200 connections that never finish their request for a health check."""
    held = []
    for _ in range(200):
        try:
            http = socket.create_connection(("127.0.0.1", field.server.http), 2)
            http.send(b"GET /healthz HTTP/1.1\r\nHost:")
            held.append(http)
        except OSError:
            break
    said = {field.server.healthz() for _ in range(3)}
    for http in held:
        http.close()
    return [] if said == {"200"} else [f"/healthz: {said}"]


@attacker("operators")
def http_flood(field):
    """Asks for /metrics as often as it can."""
    def get(n):
        with socket.create_connection(("127.0.0.1", field.server.http), 5) as http:
            http.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            http.recv(1 << 16)
    field.repeat(get)


@attacker("bans")
def banned(field):
    """Keeps connecting from an address that is banned, and logging in to a banned account."""
    field.server.run("ban", "add", "127.0.4.0/24")
    field.server.run("ban", "add", "u48@localhost", "--for", "1h")
    inside = []

    def connect(n):
        with Client(field.server.port, f"127.0.4.{1 + n % 200}") as client:
            client.socket.settimeout(2)
            client.open()
            inside.append("a banned address was let in")
    field.repeat(connect)
    try:
        with Client(field.server.port, OWNER) as client:
            if client.open().plain("u48") is True:
                inside.append("a banned account logged in")
    except (OSError, Closed):
        pass
    field.server.run("ban", "remove", "127.0.4.0/24")
    field.server.run("ban", "remove", "u48@localhost")
    return inside[:1]
