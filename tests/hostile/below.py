"""Attacks from below: the machine's clock jumps, its disk is full or fails, while clients go on.

What a server owes then: it lives, answers who asks it how it is, refuses aloud what it cannot keep,
and neither loses nor doubles what it took. Its clients are not logged out by a clock.
"""

import itertools
import time

import weather
from attackers import OWNER, attacker
from wire import Client, Closed

HOUR = 3600
JUMPS = (HOUR, -HOUR, 24 * HOUR, -24 * HOUR, 90, -90)
SETTLE_S = 40


# Nobody can store anything meanwhile: the witness looks afterwards.
ALONE = set()


def alone(run):
    ALONE.add(run)
    return run


@attacker("below")
def clock_jumps(field):
    """The time of day jumps by seconds, hours and days, both ways; a session stays and is used."""
    stays = field.client(OWNER).login("u95", "v", presence=True)
    wrong = []

    def jump(n):
        field.server.weather.clock(JUMPS[n % len(JUMPS)])
        try:
            stays.ping()
            with Client(field.server.port, OWNER) as other:
                other.login("u96", "x")
                other.send(f"<message to='u95@localhost' type='chat'><body>j{n}</body></message>")
                stays.expect(f"<body>j{n}</body>".encode())
        except (OSError, Closed) as error:
            wrong.append(f"after a jump: {error!r}")
            raise
        time.sleep(0.05)
    try:
        field.repeat(jump)
    finally:
        field.server.weather.clear()
    return wrong[:1]


@attacker("below")
def clock_runs_wild(field):
    """The time of day is another one a hundred times a second, while others guess and register."""
    def jump(n):
        field.server.weather.clock((n * 7919) % (2 * HOUR) - HOUR)
        if n % 20 == 0:
            with Client(field.server.port, field.source()) as client:
                client.open().plain("u97", "wrong")
        time.sleep(0.01)
    try:
        field.repeat(jump)
    finally:
        field.server.weather.clear()


class Talk:
    """Numbered messages from one account to another, and what became of each."""

    def __init__(self, field):
        self.field = field
        self.bystander = field.client(OWNER).login("u92", "b")
        self.reader, self.read = None, b""
        self.listen(0.05)
        self.sent, self.refused, self.ended = [], set(), set()
        self.numbers = itertools.count()
        self.sender = None

    def say(self):
        number = next(self.numbers)
        try:
            if self.sender is None:
                self.sender = self.field.client().login("u90", "s")
            self.sender.send(f"<message to='u91@localhost' type='chat' id='m{number}'>"
                             f"<body>b{number};</body></message>")
            self.sent.append(number)
            self.sender.skim(0.01)
        except (OSError, Closed):
            self.lose()

    def hear(self):
        """What came back so far."""
        if self.sender is None:
            return
        for number in self.sent:
            for end in (f"id='m{number}'", f'id="m{number}"'):
                at = self.sender.seen.find(end.encode())
                tag = self.sender.seen[self.sender.seen.rfind(b"<message", 0, at):at + 200]
                if at >= 0 and b"error" in tag:
                    self.refused.add(number)

    def lose(self):
        """The stream has ended: of what it did not answer nothing is known."""
        self.hear()
        self.ended.update(self.sent)
        self.sender = None

    def settle(self):
        """With a good disk again, each message was delivered once or refused."""
        until = time.monotonic() + SETTLE_S
        while time.monotonic() < until:
            last = len(self.sent)
            self.say()
            self.hear()
            if len(self.sent) > last and self.is_through(self.sent[-1]):
                break
            time.sleep(0.2)
        else:
            return [f"nothing gets through {SETTLE_S} s after the disk is well"]
        self.listen(0.3)
        self.hear()
        delivered = [n for n in self.sent for _ in range(self.count(n))]
        wrong = []
        if twice := {n for n in delivered if delivered.count(n) > 1}:
            wrong.append(f"messages came twice: {sorted(twice)[:5]}")
        if both := self.refused.intersection(delivered):
            wrong.append(f"messages were refused and came: {sorted(both)[:5]}")
        if lost := set(self.sent) - set(delivered) - self.refused - self.ended:
            wrong.append(f"messages were lost: {sorted(lost)[:5]}")
        return wrong

    def listen(self, seconds):
        """Reads, and comes back if the stream was ended: an append in doubt may end it."""
        try:
            if self.reader is None:
                self.reader = self.field.client(OWNER).login("u91", "r", presence=True)
        except (OSError, Closed):
            time.sleep(seconds)
            return
        if not self.reader.skim(seconds):
            self.read += self.reader.seen
            self.reader = None

    def count(self, number):
        seen = self.read + (self.reader.seen if self.reader else b"")
        return seen.count(f"<body>b{number};</body>".encode())

    def is_through(self, number):
        until = time.monotonic() + 2
        while time.monotonic() < until and not self.count(number):
            self.listen(0.1)
        return self.count(number) > 0


def disk(field, mood):
    """Messages while the disk is in a mood for half of the time, and what became of them."""
    talk = Talk(field)
    wrong = []
    try:
        talk.say()
        field.server.weather.disk(mood)
        while field.goes_on():
            talk.say()
        # Operators are told what is wrong, and who stores nothing is served all the same.
        said = field.server.run("status", check=False)
        if "accounts" not in said and "store" not in said:
            wrong.append(f"no answer to the operator: {said}")
        try:
            talk.bystander.ping()
        except (OSError, Closed) as error:
            wrong.append(f"a bystander got no answer: {error!r}")
    finally:
        field.server.weather.clear()
    return wrong + talk.settle()


@attacker("below")
@alone
def full_disk(field):
    """The disk has no room while messages come."""
    return disk(field, weather.FULL)


@attacker("below")
@alone
def broken_disk(field):
    """Writes and syncs fail while messages come."""
    return disk(field, weather.BROKEN)


@attacker("below")
@alone
def unsyncable_disk(field):
    """Syncs fail while messages come: nobody knows what is kept."""
    return disk(field, weather.UNSYNCABLE)
