"""Gajim, as Debian has it, on a screen of its own: it enters the room of its user's bookmark, shows
what was said there before and is said now, is heard there, and shows the picture of a contact.
What it knows is read out of its own database, and what it is asked to say comes over D-Bus.
"""

import asyncio
import json
import sqlite3
import ssl

import pytest

from friend import PICTURE, PICTURE_ID, ROOM, prepare
from screen import Screen, missing, until
from test_slixmpp import play

ACCOUNT = "romeo"


def configure(screen: Screen, server) -> None:
    """What its dialogs would write: an account, and that it may be asked over D-Bus."""
    config, certificates = screen.home / "config/gajim", screen.home / "data/gajim/cert_store"
    for folder in (config, certificates):
        folder.mkdir(parents=True)
    # The certificate that its user has accepted once.
    found = ssl.get_server_certificate(("127.0.0.1", server.tls_port))
    (certificates / "roost").write_text(found)
    account = {"active": True, "name": "romeo", "hostname": "localhost", "savepass": True,
               "password": "romeo secret", "use_custom_host": True, "custom_host": "127.0.0.1",
               "custom_port": server.port, "custom_type": "START TLS"}
    app = {"remote_control": True, "use_keyring": False, "check_for_update": False,
           "gtk_css_theme": "default", "show_main_window_on_startup": "always"}
    with sqlite3.connect(config / "settings.sqlite") as settings:
        settings.executescript(
            "CREATE TABLE settings (name TEXT UNIQUE, settings TEXT);"
            "CREATE TABLE account_settings (account TEXT UNIQUE, settings TEXT);"
            "PRAGMA user_version=5;")
        empty = ("soundevents", "status_presets", "proxies", "plugins")
        workspaces = json.dumps({"8d7a3f0e-4c1b-4a54-9d0f-1c1f0a6b0001": {}})
        rows = [("app", json.dumps(app)), ("workspaces", workspaces),
                *((name, "{}") for name in empty)]
        settings.executemany("INSERT INTO settings VALUES (?, ?)", rows)
        settings.execute("INSERT INTO account_settings VALUES (?, ?)",
                         (ACCOUNT, json.dumps({"account": account, "group_chat": {},
                                               "contact": {}})))


def asks(screen: Screen, method: str, *words: str) -> str:
    return screen.run("gdbus", "call", "--session", "--dest", "org.gajim.Gajim", "--object-path",
                      "/org/gajim/dbus/RemoteObject", "--method",
                      f"org.gajim.dbus.RemoteInterface.{method}", *words)


def known(screen: Screen) -> set:
    """The messages of rooms and people that Gajim has."""
    path = screen.home / "data/gajim/logs.db"
    if not path.exists():
        return set()
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as logs:
        try:
            return {row[0] for row in logs.execute("SELECT message FROM logs")}
        except sqlite3.OperationalError:
            return set()  # It is making it.


def test_gajim_in_a_room(server):
    assert not missing("gajim"), f"to be installed: {missing('gajim')}"

    async def scene():
        juliet = await prepare(server)
        with Screen("gajim") as screen:
            configure(screen, server)
            screen.start("gajim", "--verbose")
            try:
                await juliet.sees("romeo")
                await juliet.says("Romeo, wherefore art thou here")
                for text in ("Said before you came", "Romeo, wherefore art thou here"):
                    await asyncio.to_thread(until, lambda t=text: t in known(screen), text)
                # It can be asked some seconds after its start.
                says = ("send_groupchat_message", ROOM, "With loves light wings", ACCOUNT)
                sent = await asyncio.to_thread(until, lambda: asks(screen, *says), "an answer")
                assert sent.startswith("(true"), sent
                await juliet.hears("With loves light wings", "romeo")
                juliet.send_message(mto="romeo@localhost", mbody="What man art thou", mtype="chat")
                await asyncio.to_thread(until, lambda: "What man art thou" in known(screen), "chat")
                pictures = lambda: [f for f in screen.home.rglob(f"*{PICTURE_ID}*") if f.is_file()]
                found = await asyncio.to_thread(until, pictures, "the contact's picture")
                assert found[0].read_bytes() == PICTURE
            finally:
                screen.picture("gajim")
                print(screen.log("gajim"))
        await juliet.leave()

    play(scene())
