"""slixmpp, unmodified: logs in with SCRAM over TLS, changes rosters, subscribes, sees presence,
exchanges messages, and uses the extensions that its users have switched on.
"""

import asyncio
import ssl

import pytest
import slixmpp

DEADLINE_S = 60
PLUGINS = ("xep_0012", "xep_0030", "xep_0049", "xep_0054", "xep_0092", "xep_0191", "xep_0199",
           "xep_0202", "xep_0203")


class Person(slixmpp.ClientXMPP):
    """A client whose events are put into queues, to be awaited one by one."""

    def __init__(self, name: str, resource: str, mechanism: str, is_direct_tls: bool, plugins=()):
        super().__init__(f"{name}@localhost/{resource}", f"{name} secret", sasl_mech=mechanism)
        self.ssl_context.check_hostname = False
        self.ssl_context.verify_mode = ssl.CERT_NONE
        self.enable_direct_tls = is_direct_tls
        self.enable_starttls = not is_direct_tls
        self.auto_authorize, self.auto_subscribe = None, False
        self.queues = {}
        for plugin in (*PLUGINS, *plugins):
            self.register_plugin(plugin)
        for event in ("session_start", "failed_all_auth", "message", "message_error", "got_online",
                      "got_offline", "presence_subscribe", "presence_subscribed", "roster_update",
                      "changed_status"):
            self.watch(event)

    def watch(self, event: str) -> None:
        queue = self.queues[event] = asyncio.Queue()
        self.add_event_handler(event, queue.put_nowait)

    async def next(self, event: str):
        return await asyncio.wait_for(self.queues[event].get(), DEADLINE_S)

    async def next_like(self, event: str, test):
        """The next event of this kind that passes the test; others of its kind are skipped."""
        while True:
            found = await self.next(event)
            if test(found):
                return found

    def dial(self, server) -> None:
        self.connect("127.0.0.1", server.tls_port if self.enable_direct_tls else server.port)

    async def log_in(self, server) -> None:
        self.dial(server)
        await self.next("session_start")
        await self.get_roster()
        self.send_presence(pstatus="here I am")

    async def served_roster(self) -> dict:
        """The roster as the server has it: the client's own copy is updated by pushes that may
        still be under way, and gains an item for whoever a presence comes from."""
        ask = self.make_iq_get()
        ask.enable("roster")
        return (await ask.send())["roster"]["items"]

    async def leave(self) -> None:
        await self.disconnect()


def play(scene) -> None:
    """Runs a scene on an event loop of its own."""
    asyncio.run(asyncio.wait_for(scene, 4 * DEADLINE_S))


@pytest.mark.parametrize("is_direct_tls", [False, True], ids=["starttls", "direct-tls"])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256", "PLAIN", None])
def test_logs_in(server, mechanism, is_direct_tls):
    async def scene():
        romeo = Person("romeo", "orchard", mechanism, is_direct_tls)
        await romeo.log_in(server)
        assert romeo.boundjid.full == "romeo@localhost/orchard"
        assert romeo.is_connected()
        await romeo.leave()

    play(scene())


def test_is_refused_with_a_wrong_password(server):
    async def scene():
        romeo = Person("romeo", "orchard", None, False)
        romeo.credentials["password"] = "wrong"
        romeo.connect("127.0.0.1", server.port)
        await romeo.next("failed_all_auth")
        await romeo.leave()

    play(scene())


def test_two_people_become_contacts_and_chat(server):
    async def scene():
        romeo = Person("romeo", "orchard", "SCRAM-SHA-256", False)
        juliet = Person("juliet", "balcony", "SCRAM-SHA-1", True)
        await asyncio.gather(romeo.log_in(server), juliet.log_in(server))

        await romeo.update_roster("juliet@localhost", name="Juliet", groups=["Verona", "Friends"])
        romeo.send_presence_subscription("juliet@localhost", ptype="subscribe")
        asked = await juliet.next("presence_subscribe")
        assert asked["from"].bare == "romeo@localhost"
        juliet.send_presence_subscription("romeo@localhost", ptype="subscribed")
        juliet.send_presence_subscription("romeo@localhost", ptype="subscribe")
        await romeo.next("presence_subscribed")
        await romeo.next("presence_subscribe")
        romeo.send_presence_subscription("juliet@localhost", ptype="subscribed")
        await juliet.next("presence_subscribed")

        online = await romeo.next_like("got_online", lambda p: p["from"].bare == "juliet@localhost")
        assert online["from"].full == "juliet@localhost/balcony"
        assert online["status"] == "here I am"
        await juliet.next_like("got_online", lambda p: p["from"].bare == "romeo@localhost")

        item = (await romeo.served_roster())["juliet@localhost"]
        assert (item["name"], item["subscription"]) == ("Juliet", "both")
        assert sorted(item["groups"]) == ["Friends", "Verona"]

        for text in ("one", "two & <three>", "☃"):
            romeo.send_message(mto="juliet@localhost", mbody=text, mtype="chat")
            heard = await juliet.next("message")
            assert (heard["body"], heard["from"].full) == (text, "romeo@localhost/orchard")
            juliet.send_message(mto=heard["from"], mbody=text[::-1], mtype="chat")
            assert (await romeo.next("message"))["body"] == text[::-1]

        juliet.send_presence(pshow="away", pstatus="with the nurse")
        seen = await romeo.next_like("changed_status", lambda p: p["type"] == "away")
        assert seen["status"] == "with the nurse"
        await juliet.leave()
        gone = await romeo.next_like("got_offline", lambda p: p["from"].bare == "juliet@localhost")
        assert gone["from"].full == "juliet@localhost/balcony"

        romeo.send_message(mto="juliet@localhost", mbody="are you there?", mtype="chat")
        await romeo.plugin["xep_0199"].ping("localhost")
        juliet = Person("juliet", "chamber", "SCRAM-SHA-256", True)
        await juliet.log_in(server)
        late = await juliet.next("message")
        assert late["body"] == "are you there?"
        assert late["delay"]["stamp"] is not None

        await romeo.del_roster_item("juliet@localhost")
        assert "juliet@localhost" not in await romeo.served_roster()
        await asyncio.gather(romeo.leave(), juliet.leave())

    play(scene())


def test_extensions_answer(server):
    async def scene():
        romeo = Person("romeo", "orchard", None, False)
        juliet = Person("juliet", "balcony", None, True)
        await asyncio.gather(romeo.log_in(server), juliet.log_in(server))

        info = await romeo.plugin["xep_0030"].get_info(jid="localhost")
        assert ("server", "im") in {identity[:2] for identity in info["disco_info"]["identities"]}
        assert "urn:xmpp:ping" in info["disco_info"]["features"]
        assert await romeo.plugin["xep_0199"].ping("localhost") < DEADLINE_S
        assert await romeo.plugin["xep_0199"].ping("juliet@localhost/balcony") < DEADLINE_S
        version = await romeo.plugin["xep_0092"].get_version("localhost")
        assert version["software_version"]["name"]
        clock = await romeo.plugin["xep_0202"].get_entity_time("localhost")
        # The client's own accessor takes only times without their Z.
        assert clock.xml.findtext(".//{urn:xmpp:time}utc").endswith("Z")
        uptime = await romeo.plugin["xep_0012"].get_last_activity("localhost")
        assert int(uptime["last_activity"]["seconds"]) >= 0

        card = romeo.plugin["xep_0054"].make_vcard()
        card["FN"] = "Romeo Montague"
        await romeo.plugin["xep_0054"].publish_vcard(card)
        shown = await juliet.plugin["xep_0054"].get_vcard("romeo@localhost")
        assert shown["vcard_temp"]["FN"] == "Romeo Montague"

        await juliet.plugin["xep_0191"].block("romeo@localhost")
        romeo.send_message(mto="juliet@localhost", mbody="hello?", mtype="chat")
        refused = await romeo.next("message_error")
        assert refused["type"] == "error"
        assert refused["error"]["condition"] == "service-unavailable"
        await juliet.plugin["xep_0191"].unblock("romeo@localhost")
        romeo.send_message(mto="juliet@localhost", mbody="hello!", mtype="chat")
        assert (await juliet.next("message"))["body"] == "hello!"
        await asyncio.gather(romeo.leave(), juliet.leave())

    play(scene())
