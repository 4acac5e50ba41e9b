"""slixmpp, unmodified, at the publish-subscribe service: makes and configures a node, subscribes,
publishes, pages, retracts, and finds everything again after the server was killed.
"""

import asyncio
from xml.etree import ElementTree

import pytest
from slixmpp.exceptions import IqError

from test_slixmpp import Person, play

SERVICE = "pubsub.localhost"
NODE = "princely_musings"
PLUGINS = ("xep_0004", "xep_0059", "xep_0060")


class Prince(Person):
    """A client that is told what is published."""

    def __init__(self, name: str, resource: str):
        super().__init__(name, resource, None, False, PLUGINS)
        for event in ("publish", "retract", "purge", "delete"):
            self.watch(f"pubsub_{event}")
        self.pubsub = self.plugin["xep_0060"]

    async def says(self, item: str, text: str) -> None:
        payload = ElementTree.Element("{urn:example:words}words")
        payload.text = text
        await self.pubsub.publish(SERVICE, NODE, id=item, payload=payload)

    async def hears(self, item: str):
        return await self.next_like(
            "pubsub_publish",
            lambda m: m["pubsub_event"]["items"]["item"]["id"] == item,
        )

    async def items(self, **more) -> list:
        found = await self.pubsub.get_items(SERVICE, NODE, **more)
        return [(item["id"], item["payload"].text) for item in found["pubsub"]["items"]]


def test_a_node_from_its_making_to_its_end(server):
    async def scene():
        romeo, juliet = Prince("romeo", "orchard"), Prince("juliet", "balcony")
        await asyncio.gather(romeo.log_in(server), juliet.log_in(server))
        items = await romeo.plugin["xep_0030"].get_items(jid="localhost")
        assert SERVICE in {item[0] for item in items["disco_items"]["items"]}
        info = await romeo.plugin["xep_0030"].get_info(jid=SERVICE)
        assert ("pubsub", "service", None, None) in info["disco_info"]["identities"]

        await romeo.pubsub.create_node(SERVICE, NODE)
        config = await romeo.pubsub.get_node_config(SERVICE, NODE)
        form = config["pubsub_owner"]["configure"]["form"]
        assert form.get_fields()["pubsub#access_model"]["value"] == "open"
        form["type"] = "submit"
        form.get_fields()["pubsub#title"]["value"] = "Musings"
        form.get_fields()["pubsub#notify_retract"]["value"] = True
        await romeo.pubsub.set_node_config(SERVICE, NODE, form)
        nodes = await juliet.plugin["xep_0030"].get_items(jid=SERVICE)
        assert (SERVICE, NODE, "Musings") in nodes["disco_items"]["items"]

        with pytest.raises(IqError) as refused:
            await juliet.says("a", "not mine")
        assert refused.value.condition == "forbidden"
        await juliet.pubsub.subscribe(SERVICE, NODE)
        await romeo.says("a", "to be")
        heard = await juliet.hears("a")
        assert heard["pubsub_event"]["items"]["item"]["payload"].text == "to be"
        await romeo.pubsub.modify_affiliations(
            SERVICE, NODE, [("juliet@localhost", "publisher")]
        )
        await juliet.says("b", "or not")
        await juliet.hears("b")
        assert await juliet.items(max_items=1) == [("b", "or not")]
        await romeo.pubsub.retract(SERVICE, NODE, "a", notify=True)
        await juliet.next("pubsub_retract")
        await asyncio.gather(romeo.leave(), juliet.leave())

        server.kill()
        server.start_again()
        romeo, juliet = Prince("romeo", "orchard"), Prince("juliet", "balcony")
        await asyncio.gather(romeo.log_in(server), juliet.log_in(server))
        assert await romeo.items() == [("b", "or not")]
        kept = await juliet.pubsub.get_subscriptions(SERVICE, NODE)
        subscriptions = [one["jid"] for one in kept["pubsub"]["subscriptions"]]
        assert subscriptions == ["juliet@localhost"]
        await romeo.says("c", "to be")
        await juliet.hears("c")
        await romeo.pubsub.purge(SERVICE, NODE)
        await juliet.next("pubsub_purge")
        assert await romeo.items() == []
        await romeo.pubsub.delete_node(SERVICE, NODE)
        await juliet.next("pubsub_delete")
        with pytest.raises(IqError) as gone:
            await romeo.items()
        assert gone.value.condition == "item-not-found"
        await asyncio.gather(romeo.leave(), juliet.leave())

    play(scene())
