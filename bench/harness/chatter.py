"""A client of a cluster that goes on saying something to its partner, whatever happens: when a link
is lost it resumes its session (XEP-0198) at another node, drawn at random or named by the one that
ended the stream. It notes when what it said was accepted, and what it is told."""
import asyncio
import base64
import collections
import random
import re
import time

from . import scram

# From the connect until the session is there; then it begins again.
PATIENCE = 15
# Nothing came for so long, although something was asked: the link is taken for lost.
SILENCE = 20
PAUSE = 0.2
HEADER = ("<?xml version='1.0'?><stream:stream to='localhost' version='1.0' xmlns='jabber:client' "
          "xmlns:stream='http://etherx.jabber.org/streams'>")
CHALLENGE = re.compile(r">([^<]*)<")
BODY = re.compile(r"<body>(\d+) (\d+) ([\d.]+)</body>")
# A stanza, or an element of the stream, as far as this client has to tell them apart.
FIRST = re.compile(r"<(/?[a-z:]+)([^>]*?)(/?)>")


class Lost(Exception):
    """The link is."""


class Chatter:
    def __init__(self, number, addresses, every):
        self.number, self.addresses, self.every = number, addresses, every
        self.first = self.at = number % len(addresses)
        self.dice = random.Random(number)
        # Where the last stream said that this client should go.
        self.sent_to = None
        self.token = None
        # Stanzas that were sent and not acknowledged, with the time; how many were.
        self.unacked, self.acked, self.received = collections.deque(), 0, 0
        self.said = 0
        # When something was accepted that was not before.
        self.accepted_at = []
        # When a message was accepted, and how long after it was said.
        self.waits = []
        # How many of those that this client said were accepted.
        self.accepted = 0
        self.heard, self.delays = [], []
        # When a stream with a session ended, the node that it was at, and why; and failed logins.
        self.ended, self.failed = [], []
        # How many resumptions were asked for and done, and when one was refused.
        self.asked, self.resumed, self.refused = 0, 0, []
        self.is_over = self.is_quiet = self.is_up = self.is_leaving = False
        self.reader = self.writer = None
        self.buffer = ""

    async def run(self, later=0):
        await asyncio.sleep(later)
        # Goes on when the link is lost: what is said meanwhile is sent in the next one.
        talk = asyncio.create_task(self.talk())
        try:
            while not self.is_over:
                await self.stay()
                await asyncio.sleep(PAUSE)
        finally:
            talk.cancel()

    async def stay(self):
        """One connection, to its end."""
        ends = self.failed
        try:
            async with asyncio.timeout(PATIENCE):
                await self.log_in()
            ends = self.ended
            await self.listen()
        except (Lost, OSError, TimeoutError) as error:
            if not self.is_leaving:
                ends.append((time.monotonic(), self.at, str(error) or type(error).__name__))
            self.at = self.elsewhere()
        finally:
            self.is_up = self.is_leaving = False
            if self.writer:
                self.writer.close()
            self.reader = self.writer = None

    def leave_for(self, at):
        """Gives its link up without a word, and goes to another node."""
        self.sent_to, self.is_leaving = self.addresses[at], True
        self.writer.close()

    def elsewhere(self):
        """The node to try next."""
        named, self.sent_to = self.sent_to, None
        if named in self.addresses:
            return self.addresses.index(named)
        return self.dice.choice([at for at in range(len(self.addresses)) if at != self.at])

    def write(self, text):
        self.writer.write(text.encode())

    async def read(self):
        """The next element at the top of the stream, whole; the header is left out."""
        while True:
            element = self.cut()
            if element:
                return element
            try:
                async with asyncio.timeout(SILENCE):
                    more = await self.reader.read(65536)
            except TimeoutError:
                raise Lost("silence") from None
            if not more:
                raise Lost("closed")
            self.buffer += more.decode()

    def cut(self):
        self.buffer = self.buffer.lstrip()
        found = FIRST.match(self.buffer)
        if self.buffer.startswith("<?xml"):
            found = FIRST.search(self.buffer)
            if found:
                self.buffer = self.buffer[found.end():]
                return self.cut()
            return None
        if not found:
            return None
        name = found[1]
        if name == "stream:stream":
            self.buffer = self.buffer[found.end():]
            return self.cut()
        if name == "/stream:stream":
            raise Lost("</stream>")
        end = found.end()
        if not found[3]:
            # No element of these is inside another one of its name.
            close = self.buffer.find(f"</{name}>")
            if close < 0:
                return None
            end = close + len(name) + 3
        element, self.buffer = self.buffer[:end], self.buffer[end:]
        if name == "stream:error":
            condition, said = re.search(r"<([a-z-]+) xmlns[^>]*>([^<]*)", element).groups()
            if condition == "see-other-host":
                host, _, port = said.rpartition(":")
                self.sent_to = (host, int(port))
            text = re.search(r"<text [^>]*>([^<]*)", element)
            raise Lost(f"{condition}: {text[1]}" if text else condition)
        return element

    async def expect(self, *names):
        while True:
            element = await self.read()
            if element.startswith(tuple(f"<{name}" for name in names)):
                return element
            if "<failure" in element or element.startswith("<iq type='error'"):
                raise Lost(element)

    async def log_in(self):
        self.buffer = ""
        self.reader, self.writer = await asyncio.open_connection(*self.addresses[self.at])
        self.write(HEADER)
        await self.expect("stream:features")
        begun = scram.begin(f"u{self.number}")
        self.write("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-1'>"
                   f"{scram.text(b'n,,' + begun.encode())}</auth>")
        challenge = CHALLENGE.search(await self.expect("challenge"))[1]
        answer = scram.answer(begun, base64.b64decode(challenge).decode())
        self.write("<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>"
                   f"{scram.text(answer.encode())}</response>")
        await self.expect("success")
        self.write(HEADER)
        await self.expect("stream:features")
        if self.token:
            self.asked += 1
            self.write(f"<resume xmlns='urn:xmpp:sm:3' h='{self.received}' "
                       f"previd='{self.token}'/>")
            answer = await self.expect("resumed", "failed")
            if answer.startswith("<resumed"):
                self.resumed += 1
                self.acknowledge(answer)
                self.is_up = True
                for stanza, _ in self.unacked:
                    self.write(stanza)
                self.write("<r xmlns='urn:xmpp:sm:3'/>")
                return
            self.refused.append(time.monotonic())
            if " h=" in answer:
                self.acknowledge(answer)
        self.write("<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
                   "<resource>r</resource></bind></iq>")
        await self.expect("iq")
        self.write("<enable xmlns='urn:xmpp:sm:3' resume='true'/>")
        self.token = re.search(r" id=['\"]([^'\"]+)", await self.expect("enabled"))[1]
        # What was not acknowledged is said again in the new session.
        again, self.unacked = self.unacked, collections.deque()
        self.acked = self.received = 0
        self.is_up = True
        self.send("<presence/>", time.monotonic())
        for stanza, moment in again:
            if stanza.startswith("<message"):
                self.send(stanza, moment)

    def send(self, stanza, moment):
        self.unacked.append((stanza, moment))
        if self.is_up:
            self.write(f"{stanza}<r xmlns='urn:xmpp:sm:3'/>")

    async def talk(self):
        while not self.is_quiet:
            now = time.monotonic()
            body = f"{self.number} {self.said} {now:.6f}"
            self.send(f"<message type='chat' to='u{self.number ^ 1}@localhost' id='{self.said}'>"
                      f"<body>{body}</body><origin-id xmlns='urn:xmpp:sid:0' id='{self.said}'/>"
                      "</message>", now)
            self.said += 1
            await asyncio.sleep(self.every)

    def acknowledge(self, element):
        count = int(re.search(r" h=['\"](\d+)", element)[1])
        now, before = time.monotonic(), self.accepted
        while self.acked < count and self.unacked:
            stanza, moment = self.unacked.popleft()
            self.acked += 1
            if stanza.startswith("<message"):
                self.accepted += 1
                self.waits.append((now, now - moment))
        if self.accepted > before:
            self.accepted_at.append(now)

    async def listen(self):
        while True:
            element = await self.read()
            if element.startswith("<a "):
                self.acknowledge(element)
            elif element.startswith("<r "):
                self.write(f"<a xmlns='urn:xmpp:sm:3' h='{self.received}'/>")
            elif element.startswith(("<message", "<presence", "<iq")):
                self.received += 1
                found = BODY.search(element)
                if found and "type='error'" not in element:
                    now = time.monotonic()
                    self.heard.append(int(found[2]))
                    self.delays.append((now, now - float(found[3])))
