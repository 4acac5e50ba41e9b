"""slixmpp, unmodified, with nodes of accounts: what it listens to (XEP-0118), avatars (XEP-0084)
that other clients see in the vCard, and bookmarks (XEP-0402), which are there after the server was
killed.
"""

import asyncio
import hashlib

from test_slixmpp import Person, play

PLUGINS = ("xep_0004", "xep_0060", "xep_0084", "xep_0115", "xep_0118", "xep_0163", "xep_0402")
PICTURE = b"\x89PNG\r\n\x1a\nnot much of a picture"
BOOKMARKS = "urn:xmpp:bookmarks:1"


class Listener(Person):
    """A client that wants to hear of tunes and avatars."""

    def __init__(self, name: str, resource: str):
        super().__init__(name, resource, None, False, PLUGINS)
        for event in ("user_tune_publish", "avatar_metadata_publish"):
            self.watch(event)


async def are_contacts(one: Person, other: Person) -> None:
    for asks, grants in ((one, other), (other, one)):
        asks.send_presence_subscription(grants.boundjid.bare, ptype="subscribe")
        await grants.next("presence_subscribe")
        grants.send_presence_subscription(asks.boundjid.bare, ptype="subscribed")
        await asks.next("presence_subscribed")


def test_what_an_account_publishes_reaches_its_contacts(server):
    async def scene():
        romeo, juliet = Listener("romeo", "orchard"), Listener("juliet", "balcony")
        await asyncio.gather(romeo.log_in(server), juliet.log_in(server))
        await are_contacts(romeo, juliet)
        info = await romeo.plugin["xep_0030"].get_info(jid=romeo.boundjid.bare)
        assert ("pubsub", "pep", None, None) in info["disco_info"]["identities"]

        await romeo.plugin["xep_0118"].publish_tune(artist="Gerald Finzi", title="Prelude")
        heard = await juliet.next_like(
            "user_tune_publish",
            lambda m: m["from"] == "romeo@localhost",
        )
        tune = heard["pubsub_event"]["items"]["item"]["tune"]
        assert (tune["artist"], tune["title"]) == ("Gerald Finzi", "Prelude")
        assert heard["type"] == "headline"

        await romeo.plugin["xep_0084"].publish_avatar(PICTURE)
        name = hashlib.sha1(PICTURE).hexdigest()
        await romeo.plugin["xep_0084"].publish_avatar_metadata(
            [{"id": name, "bytes": str(len(PICTURE)), "type": "image/png"}]
        )
        heard = await juliet.next_like(
            "avatar_metadata_publish",
            lambda m: m["from"] == "romeo@localhost",
        )
        metadata = heard["pubsub_event"]["items"]["item"]["avatar_metadata"]
        assert [info["id"] for info in metadata["substanzas"]] == [name]
        found = await juliet.plugin["xep_0084"].retrieve_avatar("romeo@localhost", name)
        item = found["pubsub"]["items"]["item"]
        assert item["avatar_data"]["value"] == PICTURE
        card = await juliet.plugin["xep_0054"].get_vcard("romeo@localhost")
        assert card["vcard_temp"]["PHOTO"]["BINVAL"] == PICTURE

        room = "coven@conference.localhost"
        bookmark = romeo.plugin["xep_0402"].stanza.Conference()
        bookmark["name"], bookmark["autojoin"] = "Coven", True
        await romeo.plugin["xep_0060"].publish(
            romeo.boundjid.bare, BOOKMARKS, id=room, payload=bookmark
        )
        await asyncio.gather(romeo.leave(), juliet.leave())

        server.kill()
        server.start_again()
        romeo, juliet = Listener("romeo", "orchard"), Listener("juliet", "balcony")
        await juliet.log_in(server)
        # Romeo is not there; his nodes are.
        heard = await juliet.next_like(
            "user_tune_publish",
            lambda m: m["from"] == "romeo@localhost",
        )
        assert heard["pubsub_event"]["items"]["item"]["tune"]["title"] == "Prelude"
        await romeo.log_in(server)
        kept = await romeo.plugin["xep_0060"].get_items(romeo.boundjid.bare, BOOKMARKS)
        assert [item["id"] for item in kept["pubsub"]["items"]] == [room]
        await asyncio.gather(romeo.leave(), juliet.leave())

    play(scene())
