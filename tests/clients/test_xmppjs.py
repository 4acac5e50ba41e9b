"""@xmpp/client under Node.js: see chat.mjs for what it does."""

import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).parent


def test_two_people_become_contacts_and_chat(server):
    # The server signs its own certificate, which Node.js takes only when told to.
    environment = {**os.environ, "NODE_TLS_REJECT_UNAUTHORIZED": "0"}
    words = ["node", "chat.mjs", "127.0.0.1", str(server.port), str(server.tls_port)]
    done = subprocess.run(words, cwd=HERE, env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
