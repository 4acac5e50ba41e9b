"""Who is on the other side of a program with windows: slixmpp, as juliet, who keeps a room; and
what romeo has at his account before the program logs in as him.
"""

import asyncio
import hashlib

from screen import png
from test_slixmpp import Person

ROOM = "orchard@conference.localhost"
PICTURE = png(b"\x20\x80\x40")
PICTURE_ID = hashlib.sha1(PICTURE).hexdigest()
PLUGINS = ("xep_0004", "xep_0045", "xep_0060", "xep_0084", "xep_0115", "xep_0163", "xep_0402")


class Friend(Person):
    """A client that is told what happens in the room."""

    def __init__(self, name: str):
        super().__init__(name, "balcony", None, False, PLUGINS)
        self.watch("groupchat_message")
        self.watch(f"muc::{ROOM}::got_online")

    async def keeps_the_room(self, first: str) -> None:
        """Makes a room that stays, and says something before anybody else is there."""
        muc = self.plugin["xep_0045"]
        await muc.join_muc_wait(ROOM, "juliet", timeout=60)
        form = await muc.get_room_config(ROOM)
        form.get_fields()["muc#roomconfig_persistentroom"]["value"] = True
        form["type"] = "submit"
        await muc.set_room_config(ROOM, form)
        await self.says(first)

    async def says(self, text: str) -> None:
        self.send_message(mto=ROOM, mbody=text, mtype="groupchat")
        await self.hears(text, "juliet")

    async def hears(self, text: str, nick: str):
        return await self.next_like("groupchat_message",
                                    lambda m: m["body"] == text and m["mucnick"] == nick)

    async def sees(self, nick: str) -> None:
        await self.next_like(f"muc::{ROOM}::got_online", lambda p: p["from"].resource == nick)

    async def has_an_avatar(self) -> None:
        avatar = self.plugin["xep_0084"]
        await avatar.publish_avatar(PICTURE)
        about = {"id": PICTURE_ID, "bytes": str(len(PICTURE)), "type": "image/png"}
        await avatar.publish_avatar_metadata([about])

    async def bookmarks_the_room(self) -> None:
        bookmark = self.plugin["xep_0402"].stanza.Conference()
        bookmark["name"], bookmark["autojoin"] = "Orchard", True
        bookmark["nick"] = self.boundjid.user
        await self.plugin["xep_0060"].publish(self.boundjid.bare, "urn:xmpp:bookmarks:1", id=ROOM,
                                              payload=bookmark)


async def prepare(server) -> Friend:
    """Contacts, an avatar, a bookmark of the room, and something said in it. Juliet stays."""
    romeo, juliet = Friend("romeo"), Friend("juliet")
    await asyncio.gather(romeo.log_in(server), juliet.log_in(server))
    for asks, grants in ((romeo, juliet), (juliet, romeo)):
        asks.send_presence_subscription(grants.boundjid.bare, ptype="subscribe")
        await grants.next("presence_subscribe")
        grants.send_presence_subscription(asks.boundjid.bare, ptype="subscribed")
        await asks.next("presence_subscribed")
    await juliet.has_an_avatar()
    await juliet.keeps_the_room("Said before you came")
    await romeo.bookmarks_the_room()
    await romeo.leave()
    return juliet
