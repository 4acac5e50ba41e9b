"""Attackers of rooms and of services with nodes: whoever may make some of them and speak there asks
for as much as he can get, and tries to be somebody else.

Those who are wronged are u100 to u104, and who does it u10 and above, as in `attackers`.
"""

import re
import time

from attackers import OWNER, attacker, iq, quietly
from wire import Closed

MUC = "http://jabber.org/protocol/muc"
PUBSUB = "http://jabber.org/protocol/pubsub"
ROOMS, SERVICE = "conference.localhost", "pubsub.localhost"
MINUTE_S = 60
# Bounds of docs/rooms.md and docs/pubsub.md.
ROOMS_MAX = NODES_MAX = 100
INVITATIONS_A_MINUTE = 30


def field_of(name, value):
    return f"<field var='{name}'><value>{value}</value></field>"


def form(kind, content):
    return f"<x xmlns='jabber:x:data' type='submit'>{field_of('FORM_TYPE', kind)}{content}</x>"


def enter(room, nick):
    return (f"<presence to='{room}@{ROOMS}/{nick}' id='enter'>"
            f"<x xmlns='{MUC}'><history maxstanzas='0'/></x></presence>").encode()


def leave(room, nick):
    return f"<presence type='unavailable' to='{room}@{ROOMS}/{nick}'/>".encode()


def configured(room, content=""):
    """A form of an owner; without content he accepts what the room is."""
    query = f"<query xmlns='{MUC}#owner'>{form(f'{MUC}#roomconfig', content)}</query>"
    return iq("config", query, "set", f"{room}@{ROOMS}")


def make_room(client, room, content=""):
    """Makes a room and opens it."""
    client.send(enter(room, "owner"))
    client.expect(b"code='110'")
    client.send(configured(room, content))
    client.expect(b"id='xconfig'")


def request(n, content, kind="set", owner=False):
    """A request to the service with nodes."""
    space = PUBSUB + "#owner" * owner
    return iq(n, f"<pubsub xmlns='{space}'>{content}</pubsub>", kind, SERVICE)


def make_node(client, node, *fields):
    content = "".join(field_of(f"pubsub#{name}", value) for name, value in fields)
    options = f"<configure>{form(f'{PUBSUB}#node_config', content)}</configure>"
    client.send(request("make", f"<create node='{node}'/>{options}"))
    client.expect(b"id='xmake'")
    client.skim(0.01)


def is_heard(speaker, room):
    """Whether somebody who is in a room says something there and hears it in the end. While the
    room's mailbox is full he is told to try again."""
    word = b"<body>at last</body>"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        speaker.seen = b""
        try:
            speaker.socket.settimeout(5)
            speaker.send(b"<message type='groupchat' to='%s@%s'>%s</message>"
                         % (room.encode(), ROOMS.encode(), word))
            while b"<resource-constraint" not in speaker.seen:
                speaker.read()
                if word in speaker.seen:
                    return []
                speaker.seen = speaker.seen[-1000:]
        except TimeoutError:
            pass
        except (OSError, Closed) as error:
            return [f"who was there was logged out: {error!r}"]
        time.sleep(0.2)
    return ["who was there was not heard for a minute"]


def beside(reader, make):
    """What floods, while somebody else goes on reading what it brings about."""
    def next_one(n):
        reader.skim(0.0)
        reader.seen = b""
        return make(n)
    return next_one


# ---- Rooms ---------------------------------------------------------------------------------------

@attacker("rooms")
def rooms_without_end(field):
    """Makes rooms from ten sessions of one account, without waiting for any of them."""
    crowd = field.crowd(1, first=60, each=10)
    field.flood(crowd, lambda n: enter(f"mine{n}", "owner"))
    for client in crowd:
        quietly(client.ping)
    listed = field.server.run("room", "list")
    made = len(re.findall(r"^mine\d+@", listed, re.MULTILINE))
    return [f"{made} rooms of {ROOMS_MAX}"] if made > ROOMS_MAX else []


@attacker("rooms")
def come_and_go(field):
    """20 sessions enter a room with a long history and leave it, and read nothing."""
    owner = field.client(OWNER).login("u100", "x")
    make_room(owner, "doors", field_of("muc#maxhistoryfetch", 100))
    for _ in range(100):
        owner.send(f"<message type='groupchat' to='doors@{ROOMS}'><body>{'y' * 2_000}</body>"
                   "</message>")
    crowd = field.crowd(4, each=5, receive_buffer=4096)
    everything = (f"<presence to='doors@{ROOMS}/NICK'><x xmlns='{MUC}'/></presence>"
                  f"<presence type='unavailable' to='doors@{ROOMS}/NICK'/>")
    field.flood(crowd, lambda n: everything.replace("NICK", f"n{n}").encode())
    field.close_all()


@attacker("rooms")
def nicks(field):
    """Ten of a hundred occupants change their nicks all the time; somebody else has a word."""
    owner = field.client(OWNER).login("u101", "x")
    make_room(owner, "masks")
    crowd = field.crowd(20, first=10, each=5)
    for n, client in enumerate(crowd):
        client.send(enter("masks", f"n{n}"))
    change = beside(owner, lambda n: f"<presence to='masks@{ROOMS}/m{n}'/>".encode())
    field.flood(crowd[:10], change)
    field.clients.remove(owner)
    field.close_all()
    return is_heard(owner, "masks")


@attacker("rooms")
def presence_in_a_room(field):
    """A hundred occupants, all of whom say the longest that is allowed about themselves."""
    owner = field.client(OWNER).login("u101", "x")
    make_room(owner, "moods")
    crowd = field.crowd(20, first=10, each=5)
    for n, client in enumerate(crowd):
        client.send(enter("moods", f"n{n}"))
    places = {client: n for n, client in enumerate(crowd)}

    def mood(n):
        nick = f"n{places[crowd[n % len(crowd)]]}"
        return (f"<presence to='moods@{ROOMS}/{nick}'><status>{n}{'x' * 1_900}</status>"
                "</presence>").encode()
    field.flood(crowd, beside(owner, mood))
    field.clients.remove(owner)
    field.close_all()
    return is_heard(owner, "moods")


@attacker("rooms")
def invitations(field):
    """Ten invitations with each message, to somebody who knows nobody there."""
    victim = field.client(OWNER).login("u102", "v", presence=True)
    crowd = field.crowd(1, each=4)
    make_room(crowd[0], "party")
    for n, client in enumerate(crowd[1:]):
        client.send(enter("party", f"n{n}"))
        quietly(client.ping)
    begun = time.time()
    invite = "<invite to='u102@localhost'><reason>come</reason></invite>" * 10
    field.flood(crowd, lambda n: (f"<message to='party@{ROOMS}'><x xmlns='{MUC}#user'>{invite}"
                                  "</x></message>").encode())
    minutes = 1 + int(time.time() // MINUTE_S) - int(begun // MINUTE_S)
    victim.ping()
    victim.skim(0.1)
    came = victim.seen.count(b"<invite ")
    most = minutes * INVITATIONS_A_MINUTE
    return [f"{came} invitations, {most} of one room are possible"] if came > most else []


@attacker("rooms")
def room_forms(field):
    """Forms for a room with thousands of fields, of administrators, and of what no form has."""
    crowd = field.crowd(2)
    for n, client in enumerate(crowd):
        make_room(client, f"forms{n}")
    fields = ("".join(field_of(f"muc#roomconfig_x{m}", "y") for m in range(2_000)),
              "<field var='muc#roomconfig_roomadmins'>"
              + "".join(f"<value>a{m}@localhost</value>" for m in range(5_000)) + "</field>",
              field_of("muc#roomconfig_roomdesc", "d" * 200_000))
    field.flood(crowd, lambda n: configured(f"forms{n % 2}", fields[n % 3]))


@attacker("rooms")
def room_lists(field):
    """Asks for the list of rooms, most of which are hidden, and for who is in one; unread."""
    crowd = field.crowd(10, receive_buffer=4096)
    hidden = field_of("muc#roomconfig_publicroom", 0)
    for n, client in enumerate(crowd):
        for m in range(10):
            quietly(make_room, client, f"hidden{n}x{m}", hidden if m else "")
    items = "<query xmlns='http://jabber.org/protocol/disco#items'/>"
    places = (ROOMS, f"hidden0x0@{ROOMS}")
    field.flood(crowd, lambda n: iq(n, items, to=places[n % 2]))


@attacker("rooms")
def room_archives(field):
    """30 sessions ask for the archives of ten rooms, without being there, and read nothing."""
    owner = field.client(OWNER).login("u103", "x")
    for n in range(10):
        make_room(owner, f"old{n}", field_of("muc#roomconfig_persistentroom", 1))
        for _ in range(20):
            owner.send(f"<message type='groupchat' to='old{n}@{ROOMS}'><body>{'y' * 8_000}</body>"
                       "</message>")
        owner.ping()
        owner.seen = b""
    crowd = field.crowd(6, each=5, receive_buffer=4096)
    query = "<query xmlns='urn:xmpp:mam:2'/>"
    field.flood(crowd, lambda n: iq(n, query, "set", f"old{n % 10}@{ROOMS}"))


@attacker("rooms")
def look_alikes(field):
    """Enters under spellings of somebody's nick, and under ones that cannot be seen."""
    victim = field.client(OWNER).login("u104", "v")
    make_room(victim, "mirror")
    victim.send(f"<presence to='mirror@{ROOMS}/Crone'/>")
    spellings = ("crone", "CRONE", "cRone", "\uff23\uff52\uff4f\uff4e\uff45", " Crone", "Crone ",
                 "Cro\u00adne", "Cro\u200bne", "Cr\u200done", "\u202eCrone", "Crone\u2060",
                 "\u200b", "\u00a0", "Cron\u212f")
    wrong = []
    liar = field.client().login("u46", "x")

    def lie(n):
        nick = spellings[n % len(spellings)]
        liar.send(f"<presence to='mirror@{ROOMS}/{nick}' id='lie{n}'><x xmlns='{MUC}'/></presence>")
        text = liar.expect(b"</presence>", b"/>").decode()
        if "type='error'" not in text:
            wrong.append(f"in the room as {nick!r}")
            liar.send(f"<presence type='unavailable' to='mirror@{ROOMS}/{nick}'/>")
            liar.ping()
        liar.seen = b""
    field.repeat(lie)
    return wrong[:1]


@attacker("rooms")
def spies(field):
    """Asks a room that shows nobody's address for one, in every way that answers."""
    victim = field.client(OWNER).login("u104", "secret")
    make_room(victim, "masked", field_of("muc#roomconfig_whois", "none"))
    spy = field.client().login("u47", "x")
    spy.send(enter("masked", "spy"))
    spy.ping()
    payloads = ("<vCard xmlns='vcard-temp'/>", "<query xmlns='jabber:iq:last'/>",
                "<query xmlns='http://jabber.org/protocol/disco#info'/>",
                "<query xmlns='http://jabber.org/protocol/disco#items'/>",
                "<query xmlns='urn:xmpp:mam:2'/>", "<ping xmlns='urn:xmpp:ping'/>",
                f"<query xmlns='{MUC}#admin'><item role='moderator'/></query>",
                f"<query xmlns='{MUC}#admin'><item affiliation='owner'/></query>",
                f"<query xmlns='{MUC}#owner'/>", "<query xmlns='jabber:iq:register'/>",
                f"<pubsub xmlns='{PUBSUB}'><items node='n'/></pubsub>")

    def ask(n):
        to = f"masked@{ROOMS}" + ("/owner" if n % 2 else "")
        spy.send(iq(n, payloads[n // 2 % len(payloads)], "get", to))
        spy.send(f"<message type='chat' to='masked@{ROOMS}/owner'><body>?</body></message>")
        spy.ping(f"s{n}")
        victim.skim(0.0)
        victim.seen = b""
    seen = []

    def look(n):
        before = len(spy.seen)
        ask(n)
        seen.append(spy.seen[before:])
    field.repeat(look)
    spy.skim(0.1)
    everything = b"".join(seen) + spy.seen
    return ["an address was told"] if b"u104@localhost" in everything else []


@attacker("messages")
def ids_in_a_room(field):
    """Says in a room, for somebody's server and for the room, what a message's id is."""
    victim = field.client(OWNER).login("u104", "ids", presence=True)
    make_room(victim, "lies")
    liar = field.client().login("u46", "x")
    liar.send(enter("lies", "liar"))
    liar.ping()
    ids = "".join(f"<stanza-id xmlns='urn:xmpp:sid:0' by='{by}' id='forged'/>"
                  for by in ("u104@localhost", "U104@LOCALHOST/ids", f"lies@{ROOMS}"))
    wrong = []

    def lie(n):
        kind, to = (("groupchat", ""), ("chat", "/owner"))[n % 2]
        liar.send(f"<message to='lies@{ROOMS}{to}' type='{kind}' id='l{n}'><body>x</body>{ids}"
                  "</message>")
        text = victim.expect(f"id='l{n}'".encode()) + victim.expect(b"</message>")
        if b"forged" in text:
            wrong.append(f"a forged id passed in {kind}")
        liar.skim(0.0)
        liar.seen = b""
    field.repeat(lie)
    return wrong[:1]


# ---- Nodes ---------------------------------------------------------------------------------------

@attacker("nodes")
def nodes_without_end(field):
    """Makes nodes from four sessions of one account, some of them by publishing."""
    crowd = field.crowd(1, first=61, each=4)
    field.flood(crowd, lambda n: request(n, "<create/>" if n % 2 else f"<create node='mine{n}'/>"))
    asker = field.client().login("u61", "again")
    asker.socket.settimeout(60)
    asker.send(request("own", "<affiliations/>", "get"))
    text = asker.expect(b"</affiliations>", b"<affiliations/>")
    made = text.count(b"affiliation='owner'")
    return [f"{made} nodes of {NODES_MAX}"] if made > NODES_MAX else []


@attacker("nodes")
def items_without_end(field):
    """Publishes large items at nodes that keep as many as may be."""
    crowd = field.crowd(4, first=62)
    for n, client in enumerate(crowd):
        make_node(client, f"heap{n}", ("max_items", "max"))
    item = f"<item><x xmlns='urn:x'>{'x' * 60_000}</x></item>"
    nodes = {client: f"heap{n}" for n, client in enumerate(crowd)}

    def publish(n):
        return request(n, f"<publish node='{nodes[crowd[n % 4]]}'>{item}</publish>")
    field.flood(crowd, publish)


@attacker("nodes")
def node_forms(field):
    """Forms for a node with thousands of fields, and publish options with as many."""
    crowd = field.crowd(2, first=66)
    for n, client in enumerate(crowd):
        make_node(client, f"forms{n}")
    many = "".join(field_of(f"pubsub#x{m}", "y") for m in range(2_000))

    def fill(n):
        if n % 2:
            options = f"<publish-options>{form(f'{PUBSUB}#publish-options', many)}"
            return request(n, f"<publish node='forms0'><item/></publish>{options}"
                              "</publish-options>")
        configure = form(f"{PUBSUB}#node_config", many)
        return request(n, f"<configure node='forms{n % 4 // 2}'>{configure}</configure>",
                       owner=True)
    field.flood(crowd, fill)


@attacker("nodes")
def subscribers_who_come_and_go(field):
    """20 sessions subscribe to a node that tells everybody its last item, and take it back."""
    owner = field.client(OWNER).login("u100", "x")
    make_node(owner, "fair")
    owner.send(request("last", "<publish node='fair'><item><x xmlns='urn:x'>"
                               f"{'x' * 60_000}</x></item></publish>"))
    quietly(owner.expect, b"id='xlast'")
    crowd = field.crowd(4, each=5, receive_buffer=4096)
    names = {client: f"u{10 + n // 5}@localhost/r{n % 5}" for n, client in enumerate(crowd)}
    kinds = ("subscribe", "unsubscribe")

    def change(n):
        jid = names[crowd[n // 2 % len(crowd)]]
        return request(n, f"<{kinds[n % 2]} node='fair' jid='{jid}'/>")
    field.flood(crowd, change)


@attacker("nodes")
def audience_of_nobody(field):
    """Subscribes thousands of addresses that nobody has to its node, and publishes."""
    crowd = field.crowd(2, first=68)
    for n, client in enumerate(crowd):
        make_node(client, f"stage{n}", ("notification_type", "normal"))
    last = [0]

    def tell(n):
        node = f"stage{n % 2}"
        if n % 4 < 2:
            last[0] += 150
            entries = "".join(f"<subscription jid='nobody{last[0] + m}@localhost/r' "
                              "subscription='subscribed'/>" for m in range(150))
            return request(n, f"<subscriptions node='{node}'>{entries}</subscriptions>", owner=True)
        return request(n, f"<publish node='{node}'><item id='i'><x xmlns='urn:x'/></item>"
                          "</publish>")
    field.flood(crowd, tell)


@attacker("nodes")
def items_unread(field):
    """20 sessions ask for a page of large items all the time and read nothing."""
    owner = field.client(OWNER).login("u101", "x")
    make_node(owner, "shelf", ("max_items", "max"))
    for n in range(12):
        owner.send(request(f"p{n}", "<publish node='shelf'><item><x xmlns='urn:x'>"
                                    f"{'x' * 30_000}</x></item></publish>"))
    quietly(owner.expect, b"id='xp11'")
    crowd = field.crowd(4, each=5, receive_buffer=4096)
    field.flood(crowd, lambda n: request(n, "<items node='shelf'/>", "get"))


@attacker("nodes")
def private_nodes(field):
    """Asks for what is at a node of others that only its members may see, in every way."""
    owner = field.client(OWNER).login("u102", "x")
    make_node(owner, "diary", ("access_model", "whitelist"))
    owner.send(request("word", "<publish node='diary'><item id='hush'><x xmlns='urn:x'>hush</x>"
                               "</item></publish>"))
    quietly(owner.expect, b"id='xword'")
    spy = field.client().login("u47", "y")
    disco = "http://jabber.org/protocol/disco"
    jid = "u47@localhost/y"
    asked = (request("s", "<items node='diary'/>", "get"),
             request("s", "<items node='diary'><item id='hush'/></items>", "get"),
             request("s", f"<subscribe node='diary' jid='{jid}'/>"),
             request("s", "<retract node='diary'><item id='hush'/></retract>"),
             request("s", "<affiliations node='diary'/>", "get", owner=True),
             request("s", "<configure node='diary'/>", "get", owner=True),
             iq("s", f"<query xmlns='{disco}#items' node='diary'/>", to=SERVICE),
             iq("s", f"<query xmlns='{disco}#info' node='diary'/>", to=SERVICE),
             iq("s", f"<query xmlns='{disco}#items'/>", to=SERVICE))
    wrong = []

    def ask(n):
        spy.send(asked[n % len(asked)])
        text = spy.expect(b"</iq>", b"/>") + spy.seen
        answer = text.partition(b"type='result'")[2]
        if b"hush" in answer or b"diary" in answer:
            wrong.append(f"told: {answer[:80]!r}")
        spy.ping(f"d{n}")
        spy.seen = b""
    field.repeat(ask)
    return wrong[:1]
