"""slixmpp, unmodified, as a component (XEP-0114): it shakes hands, is found, and gets what was said
while it was away, in order and once.
"""

import asyncio

import pytest
from slixmpp.componentxmpp import ComponentXMPP

from conftest import running
from test_slixmpp import DEADLINE_S, Person, play

DOMAIN = "echo.localhost"
SECRET = "a secret of some length"
CONFIG = f'[[components]]\ndomain = "{DOMAIN}"\nlisten = "127.0.0.1:0"\nsecret = "{SECRET}"\n'


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    yield from running(tmp_path_factory.mktemp("roost"), CONFIG)


class Echo(ComponentXMPP):
    """Says everything back."""

    def __init__(self, server):
        super().__init__(DOMAIN, SECRET, "127.0.0.1", server.wait_for("components"))
        for plugin in ("xep_0030", "xep_0199"):
            self.register_plugin(plugin)
        self.heard = asyncio.Queue()
        self.started = asyncio.Event()
        self.add_event_handler("session_start", lambda _: self.started.set())
        self.add_event_handler("message", self.echo)

    def echo(self, message):
        self.heard.put_nowait(message["body"])
        message.reply(message["body"]).send()

    async def begin(self):
        self.connect()
        await asyncio.wait_for(self.started.wait(), DEADLINE_S)


def test_serves_a_domain(server):
    async def scene():
        echo, romeo = Echo(server), Person("romeo", "orchard", None, False, ("xep_0198",))
        await romeo.log_in(server)
        romeo.send_message(mto=f"x@{DOMAIN}", mbody="before", mtype="chat")
        await romeo.plugin["xep_0199"].ping("localhost")
        await echo.begin()
        for text in ("one", "two & <three>", "☃"):
            romeo.send_message(mto=f"x@{DOMAIN}", mbody=text, mtype="chat")
        for text in ("before", "one", "two & <three>", "☃"):
            assert await asyncio.wait_for(echo.heard.get(), DEADLINE_S) == text
            answer = await romeo.next("message")
            assert (answer["body"], answer["from"].bare) == (text, f"x@{DOMAIN}")
        items = await romeo.plugin["xep_0030"].get_items(jid="localhost")
        assert DOMAIN in [item[0] for item in items["disco_items"]["items"]]
        info = await romeo.plugin["xep_0030"].get_info(jid=DOMAIN)
        assert ("component", "generic") in [one[:2] for one in info["disco_info"]["identities"]]
        await echo.disconnect()
        romeo.send_message(mto=f"x@{DOMAIN}", mbody="meanwhile", mtype="chat")
        await romeo.plugin["xep_0199"].ping("localhost")
        echo = Echo(server)
        await echo.begin()
        assert await asyncio.wait_for(echo.heard.get(), DEADLINE_S) == "meanwhile"
        assert (await romeo.next("message"))["body"] == "meanwhile"
        assert echo.heard.empty()
        await asyncio.gather(echo.disconnect(), romeo.leave())

    play(scene())
