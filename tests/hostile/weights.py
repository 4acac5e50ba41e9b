"""Attackers at bounds of bytes: each element is as long as it may be, and there are as many as may
be, of what the server writes as one piece or keeps for many."""

from attackers import attacker, iq, quietly
from crowds import ROOMS, enter, make_room

ROSTER, BLOCKING = "jabber:iq:roster", "urn:xmpp:blocking"
MEGABYTE = 1 << 20
# Bounds of docs/limits.md.
ROSTER_BYTES, BLOCKED_BYTES = MEGABYTE, MEGABYTE // 2
# The last item is taken while there is any room.
ITEM_BYTES = 40_000


def reading(crowd, make):
    """What floods; each reads its answers meanwhile."""
    def next_one(n):
        client = crowd[n % len(crowd)]
        client.skim(0.0)
        client.seen = b""
        return make(n)
    return next_one


def heavy_contact(n):
    groups = "".join(f"<group>{k:02}{'g' * 990}</group>" for k in range(32))
    return iq(n, f"<query xmlns='{ROSTER}'><item jid='c{n}@localhost' name='{'n' * 1000}'>"
                 f"{groups}</item></query>", "set")


def answered(client, request):
    """Bytes of the answer to a request."""
    client.send(request)
    client.expect(b"id='xall'")
    return len(client.expect(b"</iq>"))


@attacker("storage")
def heavy_roster(field):
    """Contacts with the longest name and the most groups, and then changes of them, from nine
    sessions that read their answers."""
    crowd = field.crowd(1, first=60, each=9)
    for n in range(60):
        crowd[n % 9].send(heavy_contact(n))
    for client in crowd:
        client.ping()
    rename = reading(crowd, lambda n: iq(
        n, f"<query xmlns='{ROSTER}'><item jid='c{n % 10}@localhost' name='{n}'/></query>", "set"))
    field.flood(crowd, rename)
    client = field.client().login("u60", "after")
    size = answered(client, iq("all", f"<query xmlns='{ROSTER}'/>"))
    return [f"a roster of {size} bytes"] if size > ROSTER_BYTES + 2 * ITEM_BYTES else []


@attacker("storage")
def heavy_block_list(field):
    """A block list of the longest addresses, and then blocks and unblocks of one more, from nine
    sessions that read their answers."""
    crowd = field.crowd(1, first=61, each=9)
    for n in range(0, 720, 80):
        items = "".join(f"<item jid='a{k}{'x' * 1000}@x'/>" for k in range(n, n + 80))
        crowd[0].send(iq(n, f"<block xmlns='{BLOCKING}'>{items}</block>", "set"))
        crowd[0].expect(f"id='x{n}'".encode())
    words = ("block", "unblock")
    change = reading(crowd, lambda n: iq(
        n, f"<{words[n % 2]} xmlns='{BLOCKING}'><item jid='b@x'/></{words[n % 2]}>", "set"))
    field.flood(crowd, change)
    client = field.client().login("u61", "after")
    size = answered(client, iq("all", f"<blocklist xmlns='{BLOCKING}'/>"))
    return [f"a block list of {size} bytes"] if size > 1.1 * BLOCKED_BYTES else []


@attacker("rooms")
def unread_room(field):
    """A hundred sessions of ten accounts are in a room and read nothing, while seven others say the
    longest messages there."""
    owner = field.client(field.source(1)).login("u60", "owner")
    make_room(owner, "pile")
    for n in range(100):
        client = field.client(field.source(2), receive_buffer=2048)
        client.login(f"u{62 + n // 10}", f"r{n}")
        client.send(enter("pile", f"n{n}"))
    speakers = [owner]
    for n in range(6):
        client = field.client(field.source(3)).login(f"u{80 + n}", "s")
        client.send(enter("pile", f"s{n}"))
        quietly(client.ping)
        speakers.append(client)
    body = f"<body>{'y' * 60_000}</body>"
    word = f"<message type='groupchat' to='pile@{ROOMS}'>{body}</message>".encode()
    field.flood(speakers, reading(speakers, lambda n: word))
    return []
