"""Dino, as Debian has it, on a screen of its own: it enters the room of its user's bookmark, has
what was said there before and is said now, is heard there, and has the picture of a contact. It
looks for a server at the usual port and trusts what the system trusts: so it has a network and a
list of authorities of its own (`make desktop-clients`, as root).
"""

import asyncio
import os
import sqlite3
import ssl
import subprocess

import pytest

from conftest import running
from friend import PICTURE, PICTURE_ID, prepare
from screen import Screen, missing, until
from test_slixmpp import play

AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
ACCOUNT = "romeo@localhost"


@pytest.fixture
def usual_server(tmp_path_factory):
    assert os.environ.get("ROOST_OWN_NETWORK"), "make desktop-clients, as root"
    yield from running(tmp_path_factory.mktemp("roost"), port=5222)


def trust(screen: Screen, server) -> None:
    """What an administrator does with a certificate of his own; nobody else sees it."""
    found = ssl.get_server_certificate(("127.0.0.1", server.tls_port))
    authorities = screen.home / "authorities"
    authorities.write_text(found)
    subprocess.run(["mount", "--bind", authorities, AUTHORITIES], check=True)


def database(screen: Screen, write: bool = False):
    return sqlite3.connect(f"file:{screen.home}/data/dino/dino.db?mode={'rw' if write else 'ro'}",
                           uri=True, timeout=10)


def rows(screen: Screen, query: str) -> set:
    try:
        with database(screen) as found:
            return {row[0] for row in found.execute(query)}
    except sqlite3.OperationalError:
        return set()  # It is making it.


def configure(screen: Screen) -> None:
    """What its dialog would write: an account."""
    first = screen.start("dino-im")
    until(lambda: rows(screen, "SELECT int_val FROM _meta WHERE name = 'version'"), "a database")
    first.terminate()
    first.wait()
    with database(screen, write=True) as accounts:
        accounts.execute(
            "INSERT INTO account (bare_jid, resourcepart, password, alias, enabled, roster_version,"
            " mam_earliest_synced) VALUES (?, 'dino', 'romeo secret', '', 1, '', 0)", (ACCOUNT,))


def types(screen: Screen, text: str) -> None:
    """Into the conversation that is shown: the first one, which is clicked."""
    screen.run("xdotool", "mousemove", "120", "80", "click", "1", "sleep", "1",
               "mousemove", "700", "680", "click", "1", "sleep", "1",
               "type", "--delay", "30", text)
    screen.run("xdotool", "key", "Return")


def test_dino_in_a_room(usual_server):
    assert not missing("dino-im", "xdotool"), f"to be installed: {missing('dino-im', 'xdotool')}"

    async def scene():
        juliet = await prepare(usual_server)
        with Screen("dino") as screen:
            trust(screen, usual_server)
            configure(screen)
            screen.start("dino-im")
            try:
                await juliet.sees("romeo")
                await juliet.says("Romeo, wherefore art thou here")
                bodies = "SELECT body FROM message"
                for text in ("Said before you came", "Romeo, wherefore art thou here"):
                    await asyncio.to_thread(
                        until, lambda t=text: t in rows(screen, bodies), text)
                await asyncio.to_thread(types, screen, "With loves light wings")
                await juliet.hears("With loves light wings", "romeo")
                # The picture is fetched once it is to be shown.
                juliet.send_message(mto=ACCOUNT, mbody="What man art thou", mtype="chat")
                await asyncio.to_thread(
                    until, lambda: "What man art thou" in rows(screen, bodies), "a chat")
                pictures = lambda: [f for f in screen.home.rglob(PICTURE_ID) if f.is_file()]
                found = await asyncio.to_thread(until, pictures, "the contact's picture")
                assert found[0].read_bytes() == PICTURE
            finally:
                screen.picture("dino")
                print(screen.log("dino-im"))
                subprocess.run(["umount", AUTHORITIES], check=True)
        await juliet.leave()

    play(scene())
