"""@xmpp/client under Node.js: see chat.mjs and delivery.mjs for what they do."""

import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent


# How Romeo and Juliet connect, by the names of the server's ports.
WAYS = {
    "tcp": ("xmpp://127.0.0.1:{0.port}", "xmpps://127.0.0.1:{0.tls_port}"),
    "websocket": ("wss://127.0.0.1:{0.web_tls_port}/xmpp-websocket",) * 2,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("play", ["chat.mjs", "delivery.mjs"])
def test_plays(server, play, way):
    # The server signs its own certificate, which Node.js takes only when told to.
    environment = {**os.environ, "NODE_TLS_REJECT_UNAUTHORIZED": "0"}
    services = [service.format(server) for service in WAYS[way]]
    # Node.js 20 has a WebSocket only when told to; later versions have it anyway.
    words = ["node", "--experimental-websocket", play, *services]
    done = subprocess.run(words, cwd=HERE, env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
