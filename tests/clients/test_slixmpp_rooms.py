"""slixmpp, unmodified, in rooms: makes, finds and configures them, speaks, invites, kicks, and
finds everything again after the server was killed.
"""

import asyncio

from test_slixmpp import Person, play

ROOM = "coven@conference.localhost"
PLUGINS = ("xep_0004", "xep_0045", "xep_0059", "xep_0249", "xep_0313", "xep_0421")


class Witch(Person):
    """A client that is told what happens in the room."""

    def __init__(self, name: str, resource: str):
        super().__init__(name, resource, None, False, PLUGINS)
        self.watch("groupchat_message")
        self.watch("groupchat_subject")
        self.watch("groupchat_direct_invite")
        self.watch("groupchat_invite")
        self.watch(f"muc::{ROOM}::got_online")
        self.watch(f"muc::{ROOM}::got_offline")
        self.muc = self.plugin["xep_0045"]

    async def enter(self, nick: str, **more):
        return await self.muc.join_muc_wait(ROOM, nick, timeout=60, **more)

    async def says(self, text: str) -> None:
        self.send_message(mto=ROOM, mbody=text, mtype="groupchat")
        await self.hears(text)

    async def hears(self, text: str):
        return await self.next_like("groupchat_message", lambda m: m["body"] == text)

    async def sees(self, nick: str, event: str) -> None:
        await self.next_like(f"muc::{ROOM}::{event}", lambda p: p["from"].resource == nick)

    async def configures(self, **fields) -> None:
        form = await self.muc.get_room_config(ROOM)
        for name, value in fields.items():
            form.get_fields()[f"muc#roomconfig_{name}"]["value"] = value
        form["type"] = "submit"
        await self.muc.set_room_config(ROOM, form)


def test_a_room_from_its_making_to_its_end(server):
    async def scene():
        romeo, juliet = Witch("romeo", "orchard"), Witch("juliet", "balcony")
        await asyncio.gather(romeo.log_in(server), juliet.log_in(server))
        items = await romeo.plugin["xep_0030"].get_items(jid="localhost")
        assert "conference.localhost" in {item[0] for item in items["disco_items"]["items"]}

        await romeo.enter("romeo")
        await romeo.configures(roomname="The coven", persistentroom=True)
        info = await juliet.plugin["xep_0030"].get_info(jid=ROOM)
        assert "muc_persistent" in info["disco_info"]["features"]
        rooms = await juliet.plugin["xep_0030"].get_items(jid="conference.localhost")
        assert (ROOM, None, "The coven") in rooms["disco_items"]["items"]

        await juliet.enter("juliet")
        await romeo.sees("juliet", "got_online")
        await juliet.says("hail")
        heard = await romeo.hears("hail")
        assert heard["mucnick"] == "juliet"
        assert await romeo.plugin["xep_0199"].ping(f"{ROOM}/romeo") < 60

        romeo.muc.set_subject(ROOM, "Fire burn")
        await juliet.next_like("groupchat_subject", lambda m: m["subject"] == "Fire burn")
        await romeo.muc.set_role(ROOM, "juliet", "none", reason="avaunt")
        await romeo.sees("juliet", "got_offline")
        await romeo.muc.set_affiliation(ROOM, "member", jid="juliet@localhost")
        await asyncio.gather(romeo.leave(), juliet.leave())

        server.kill()
        server.start_again()
        juliet = Witch("juliet", "balcony")
        await juliet.log_in(server)
        await juliet.enter("juliet")
        await juliet.hears("hail")
        await juliet.next_like("groupchat_subject", lambda m: m["subject"] == "Fire burn")
        assert juliet.muc.get_jid_property(ROOM, "juliet", "affiliation") == "member"
        kept = [found async for found in juliet.plugin["xep_0313"].iterate(jid=ROOM)]
        bodies = [found["mam_result"]["forwarded"]["stanza"]["body"] for found in kept]
        assert bodies == ["hail"]
        await juliet.leave()

    play(scene())


def test_an_invitation_brings_somebody_in(server):
    async def scene():
        romeo, juliet = Witch("romeo", "orchard"), Witch("juliet", "balcony")
        await asyncio.gather(romeo.log_in(server), juliet.log_in(server))
        await romeo.enter("romeo")
        await romeo.configures(membersonly=True)
        romeo.muc.invite(ROOM, "juliet@localhost", reason="come")
        invited = await juliet.next("groupchat_invite")
        assert invited["from"].bare == ROOM
        await juliet.enter("juliet")
        await romeo.sees("juliet", "got_online")
        await romeo.muc.destroy(ROOM, reason="over")
        await juliet.sees("juliet", "got_offline")
        await asyncio.gather(romeo.leave(), juliet.leave())

    play(scene())
