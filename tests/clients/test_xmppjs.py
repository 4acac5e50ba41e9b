"""@xmpp/client under Node.js: see chat.mjs and delivery.mjs for what they do."""

import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent


@pytest.mark.parametrize("play", ["chat.mjs", "delivery.mjs"])
def test_plays(server, play):
    # The server signs its own certificate, which Node.js takes only when told to.
    environment = {**os.environ, "NODE_TLS_REJECT_UNAUTHORIZED": "0"}
    words = ["node", play, "127.0.0.1", str(server.port), str(server.tls_port)]
    done = subprocess.run(words, cwd=HERE, env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
