"""ejabberd from Debian, with the accounts and contacts of the benchmark.

Started without its control script, which would change users and write outside of the folder, and
without distribution, which would leave a port mapper behind. Its data is in Mnesia, which is its
default and answers reads from memory.
"""
import contextlib
import glob
import os
import subprocess
import time

from . import process, scram

CONFIG = """
hosts: [localhost]
loglevel: warning
certfiles: ["{dir}/localhost.pem"]
auth_method: mnesia
auth_password_format: scram
auth_scram_hash: sha
max_fsm_queue: 100000
# The default of 1,000 entries thrashes with more users online: three times the CPU of a login.
cache_size: 1000000
default_db: mnesia
language: en
listen:
  -
    port: {port}
    ip: "127.0.0.1"
    module: ejabberd_c2s
    backlog: 4096
    max_stanza_size: 262144
    shaper: none
    access: all
    starttls: true
  -
    port: {tls_port}
    ip: "127.0.0.1"
    module: ejabberd_c2s
    backlog: 4096
    max_stanza_size: 262144
    shaper: none
    access: all
    tls: true
  -
    port: {web_port}
    ip: "127.0.0.1"
    module: ejabberd_http
    backlog: 4096
    request_handlers:
      "/xmpp-websocket": ejabberd_http_ws
shaper_rules:
  max_user_sessions: 10
  max_user_offline_messages: infinity
modules:
  mod_disco: {{}}
  mod_muc:
    max_users: 20000
    default_room_options:
      max_users: 20000
  mod_offline: {{}}
  mod_ping: {{}}
  mod_pubsub: {{}}
  mod_roster: {{}}
  mod_version: {{}}
"""
PROVISION_SECONDS = 300


def provision_args(folder, users, contacts):
    stored, server = scram.keys()
    values = (users, contacts, scram.text(stored), scram.text(server), scram.text(scram.SALT),
              scram.ITERATIONS, f"{folder}/ready")
    return ["-run", "provision", "run", *map(str, values)]


@contextlib.contextmanager
def running(folder, users, contacts, port, tls_port, certificate, key):
    with open(f"{folder}/localhost.pem", "w") as out:
        for part in (certificate, key):
            with open(part) as file:
                out.write(file.read())
    with open(f"{folder}/ejabberd.yml", "w") as out:
        out.write(CONFIG.format(dir=folder, port=port, tls_port=tls_port,
                                web_port=tls_port + 1))
    here = os.path.dirname(os.path.abspath(__file__))
    subprocess.run(["erlc", "-o", folder, f"{here}/provision.erl"], check=True)
    libraries = [os.path.dirname(os.path.dirname(path))
                 for path in glob.glob("/usr/lib/*/ejabberd-*/ebin")]
    if not libraries:
        raise process.Trouble("ejabberd's library is not in /usr/lib: is the package whole?")
    environment = dict(
        os.environ, EJABBERD_CONFIG_PATH=f"{folder}/ejabberd.yml",
        EJABBERD_LOG_PATH=f"{folder}/ejabberd.log", EJABBERD_PID_PATH=f"{folder}/pid",
        ERL_CRASH_DUMP=f"{folder}/crash.dump", ERL_LIBS=libraries[0], HOME=folder,
        ERL_MAX_PORTS="65536")
    # No busy waiting: schedulers that spin would be charged for CPU that does nothing.
    command = ["erl", "-noinput", "+K", "true", "+P", "1000000", "+sbwt", "none", "+sbwtdcpu",
               "none", "+sbwtdio", "none", "-pa", folder, "-mnesia", "dir", f'"{folder}/mnesia"',
               "-s", "ejabberd", *provision_args(folder, users, contacts)]
    with process.running(command, (port, tls_port), f"{folder}/out.log", cwd=folder,
                         env=environment) as server:
        end = time.monotonic() + PROVISION_SECONDS
        while not os.path.exists(f"{folder}/ready"):
            if server.poll() is not None or time.monotonic() > end:
                raise process.Trouble(f"ejabberd could not be filled with accounts:\n"
                                      f"{process.tail(f'{folder}/out.log')}")
            time.sleep(0.2)
        yield server
