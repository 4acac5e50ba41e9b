"""Chromium, headless, with clients that nobody here wrote: see strophe.mjs and converse.mjs for
what they do. `make clients` installs Chromium where it may; without one these tests fail, and are
never left out silently."""

import pathlib
import subprocess
import threading

import pytest

HERE = pathlib.Path(__file__).parent
PLAY_S = 300

WAYS = {
    "websocket": "ws://localhost:{0.web_port}/xmpp-websocket",
    "bosh": "http://localhost:{0.web_port}/http-bind",
}


@pytest.mark.parametrize("romeo, juliet", [("websocket", "bosh"), ("bosh", "bosh")])
def test_strophe(open_server, romeo, juliet):
    page = f"http://localhost:{open_server.web_port}/healthz"
    services = [WAYS[way].format(open_server) for way in (romeo, juliet)]
    words = ["node", "strophe.mjs", page, *services]
    done = subprocess.run(words, cwd=HERE, capture_output=True, timeout=PLAY_S)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")


def test_converse(open_server, tmp_path):
    page = f"http://localhost:{open_server.web_port}/"
    words = ["node", "converse.mjs", page, str(tmp_path)]
    play = subprocess.Popen(
        words, cwd=HERE, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    timer = threading.Timer(PLAY_S, play.kill)
    timer.start()
    try:
        if play.stdout.readline() == "kill\n":
            open_server.kill()
            open_server.start_again()
            play.stdin.write("back\n")
            play.stdin.flush()
        output, errors = play.communicate()
    finally:
        timer.cancel()
        play.kill()
    assert play.returncode == 0, f"screenshots in {tmp_path}\n{output}{errors}"
    for name in ("1-login", "2-chat", "3-reloaded", "4-after-the-kill"):
        assert any(tmp_path.glob(f"{name}-*.png")), name
