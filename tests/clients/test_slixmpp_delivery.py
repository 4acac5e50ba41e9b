"""slixmpp, unmodified, on bad links: resumes its session after a lost link and after the server was
killed, reads its archive, and gets copies of what its other devices say.
"""

import asyncio

from test_slixmpp import Person, play

PLUGINS = ("xep_0184", "xep_0198", "xep_0280", "xep_0313", "xep_0333", "xep_0359")
EVENTS = ("disconnected", "sm_enabled", "session_resumed", "stanza_acked", "carbon_sent",
          "carbon_received")


def person(name: str, resource: str) -> Person:
    made = Person(name, resource, None, False, PLUGINS)
    for event in EVENTS:
        made.watch(event)
    return made


async def lose_link(person) -> None:
    person.transport.abort()
    await person.next("disconnected")


async def come_back(person, server) -> None:
    person.dial(server)
    await person.next("session_resumed")


async def say(sender, to: str, texts) -> None:
    for text in texts:
        sender.send_message(mto=to, mbody=text, mtype="chat")


async def hear(listener, texts) -> None:
    """These and nothing else, in order."""
    for text in texts:
        assert (await listener.next("message"))["body"] == text
    await listener.plugin["xep_0199"].ping("localhost")
    assert listener.queues["message"].empty()


async def until_acknowledged(sender, last: str) -> None:
    # Messages are queued, requests are not: a round trip in between keeps the order.
    await sender.plugin["xep_0199"].ping("localhost")
    sender.plugin["xep_0198"].request_ack()
    await sender.next_like("stanza_acked", lambda stanza: stanza["body"] == last)


async def leave(*people) -> None:
    """Says what was handled and goes, as XEP-0198 section 4 asks of a client that closes its
    stream: what it did not acknowledge would wait for its next session."""
    for who in people:
        who.plugin["xep_0198"].send_ack()
    await asyncio.gather(*(who.leave() for who in people))


def texts(what: str, count: int) -> list[str]:
    return [f"{what} {number}" for number in range(count)]


def test_resumes_after_a_lost_link(server):
    async def scene():
        romeo, juliet = person("romeo", "orchard"), person("juliet", "balcony")
        await asyncio.gather(romeo.log_in(server), juliet.log_in(server))
        await juliet.next("sm_enabled")
        for turn in ("first", "second", "third"):
            await say(romeo, "juliet@localhost", texts(turn, 5))
            await hear(juliet, texts(turn, 5))
            await lose_link(juliet)
            await say(romeo, "juliet@localhost", texts(f"{turn}, late", 20))
            await romeo.plugin["xep_0199"].ping("localhost")
            await come_back(juliet, server)
            await hear(juliet, texts(f"{turn}, late", 20))
        await say(juliet, "romeo@localhost", ["back"])
        await hear(romeo, ["back"])
        await leave(romeo, juliet)

    play(scene())


def test_resumes_after_the_server_was_killed(server):
    async def scene():
        romeo, juliet = person("romeo", "orchard"), person("juliet", "balcony")
        await asyncio.gather(romeo.log_in(server), juliet.log_in(server))
        await asyncio.gather(romeo.next("sm_enabled"), juliet.next("sm_enabled"))
        written = texts("written", 500)
        await say(romeo, "juliet@localhost", written)
        for text in written[:200]:
            assert (await juliet.next("message"))["body"] == text
        await lose_link(juliet)
        await until_acknowledged(romeo, written[-1])
        server.kill()
        await romeo.next("disconnected")
        server.start_again()
        await asyncio.gather(come_back(romeo, server), come_back(juliet, server))
        await hear(juliet, written[200:])
        await say(romeo, "juliet@localhost", ["after"])
        await hear(juliet, ["after"])
        await leave(romeo, juliet)

    play(scene())


def test_reads_its_archive(server):
    async def scene():
        romeo, juliet = person("romeo", "orchard"), person("juliet", "balcony")
        await asyncio.gather(romeo.log_in(server), juliet.log_in(server))
        await say(romeo, "juliet@localhost", texts("kept", 25))
        await hear(juliet, texts("kept", 25))

        async def bodies(reader, **query) -> list[str]:
            found = reader.plugin["xep_0313"].iterate(**query)
            results = [result["mam_result"]["forwarded"]["stanza"] async for result in found]
            return [stanza["body"] for stanza in results if stanza["body"].startswith("kept")]

        for reader, other in ((romeo, "juliet@localhost"), (juliet, "romeo@localhost")):
            assert await bodies(reader, rsm={"max": 10}) == texts("kept", 25)
            assert await bodies(reader, with_jid=other, rsm={"max": 7}) == texts("kept", 25)
            page = await bodies(reader, reverse=True, rsm={"max": 10}, total=10)
            assert sorted(page) == sorted(texts("kept", 25)[15:])
        metadata = await juliet.plugin["xep_0313"].get_archive_metadata()
        start, end = (metadata["mam_metadata"][part]["id"] for part in ("start", "end"))
        assert start and end and start != end
        await leave(romeo, juliet)

    play(scene())


def test_gets_copies_from_other_devices(server):
    async def scene():
        romeo = person("romeo", "orchard")
        balcony, chamber = person("juliet", "balcony"), person("juliet", "chamber")
        await asyncio.gather(*(who.log_in(server) for who in (romeo, balcony, chamber)))
        for device in (balcony, chamber):
            await device.plugin["xep_0280"].enable()
        await say(romeo, "juliet@localhost/balcony", ["for the balcony"])
        heard = await balcony.next("message")
        copy = await chamber.next("carbon_received")
        assert copy["carbon_received"]["body"] == heard["body"] == "for the balcony"
        assert copy["carbon_received"]["stanza_id"]["id"] == heard["stanza_id"]["id"]
        await say(balcony, "romeo@localhost/orchard", ["from the balcony"])
        copy = await chamber.next("carbon_sent")
        assert copy["carbon_sent"]["body"] == "from the balcony"
        assert (await romeo.next("message"))["body"] == "from the balcony"
        await leave(romeo, balcony, chamber)

    play(scene())
