"""Attackers of what looks for something: the directory of users, archives by words, the inbox."""

import itertools

from attackers import OWNER, attacker, fill_archives, iq, quietly

SEARCH = "search.localhost"
# Bounds of docs/directory.md.
SEARCHES_A_MINUTE, RESULTS_MAX = 10, 20
# A word that is in no message that `fill_archives` leaves, so that all of them are looked at.
WORDS = ("<query xmlns='urn:xmpp:mam:2'><x xmlns='jabber:x:data' type='submit'>"
         "<field var='FORM_TYPE' type='hidden'><value>urn:xmpp:mam:2</value></field>"
         "<field var='{urn:xmpp:fulltext:0}fulltext'><value>nowhere</value></field></x></query>")
INBOX = "<inbox xmlns='urn:xmpp:inbox:1'/>"


def entry(first, email):
    return (f"<query xmlns='jabber:iq:register'><first>{first}</first><last/><nick/>"
            f"<email>{email}</email></query>")


def search(first):
    return f"<query xmlns='jabber:iq:search'><first>{first}</first></query>"


@attacker("directory")
def harvest(field):
    """Two sessions each of five accounts search for every pair of letters, to list all who are in
    the directory, of whom there are sixty."""
    listed = field.crowd(60, first=30)
    for n, client in enumerate(listed):
        client.send(iq("enter", entry(f"listed{n}", f"u{n}@example.org"), "set", SEARCH))
        client.expect(b"id='xenter'")
        client.close()
    crowd = field.crowd(5, each=2)
    letters = "abcdefghijklmnopqrstuvwxyz"
    pairs = itertools.cycle(["li", *map("".join, itertools.product(letters, letters))])
    answers, begun = dict.fromkeys(crowd, 0), 0
    # Once each, also where entering took all of the time.
    while field.goes_on() or not begun:
        for client in crowd:
            client.offer(iq(begun, search(next(pairs)), "set", SEARCH))
            begun += 1
            client.skim(0.1 if begun <= len(crowd) else 0.0)
            answers[client] += client.seen.count(b"<item ") + client.seen.count(b"type='result'")
            client.seen = b""
    minutes = 1 + field.seconds / 60
    most = 5 * minutes * SEARCHES_A_MINUTE * (RESULTS_MAX + 1)
    total = sum(answers.values())
    if not total:
        return ["nobody was found: the attacker has shown nothing"]
    return [f"{total} answers and users of at most {most:.0f}"] if total > most else []


@attacker("directory")
def entries_without_end(field):
    """30 sessions of six accounts enter themselves again and again, with fields as long as may be;
    somebody else enters himself."""
    crowd = field.crowd(6, each=5)
    field.flood(crowd, lambda n: iq(n, entry(f"{n} " + "x" * 200, "y" * 250), "set", SEARCH))
    owner = field.client(OWNER).login("u100", "x")
    owner.send(iq("own", entry("Hundredth", ""), "set", SEARCH))
    said = owner.expect(b"/>", b"</iq>")
    return ["no room for somebody else"] if b"type='error'" in said else []


@attacker("answers")
def words_unread(field):
    """30 sessions of six accounts search their archives for what is not there, and read nothing."""
    crowd = field.crowd(6, each=5, receive_buffer=4096)
    fill_archives(crowd[::5])
    field.flood(crowd, lambda n: iq(n, WORDS, "set"))
    for client in crowd:
        quietly(client.close)


@attacker("answers")
def inbox_unread(field):
    """The same with inboxes, of sixty conversations each."""
    crowd = field.crowd(6, each=5, receive_buffer=4096)
    for client in crowd[::5]:
        for n in range(60):
            client.send(f"<message to='u{20 + n}@localhost' type='chat'><body>{'z' * 500}</body>"
                        "</message>")
        client.ping()
    field.flood(crowd, lambda n: iq(n, INBOX))
