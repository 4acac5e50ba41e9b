"""ejabberd from Debian, with the accounts and contacts of the benchmark.

Started without its control script, which would change users and write outside of the folder. A
node alone is started without distribution, which would leave a port mapper behind. Its data is in
Mnesia, which is its default and answers reads from memory.
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


def running(folder, users, contacts, port, tls_port, certificate, key):
    """A node alone: yields its process."""
    return node(folder, (port, tls_port), (certificate, key),
                provision_args(folder, users, contacts))


@contextlib.contextmanager
def pair(folder, users, contacts, port, certificate, key):
    """Two nodes with one Mnesia, the second behind the three ports of the first: yields both."""
    mapper = port + 6
    folders = [f"{folder}/{name}" for name in ("e1", "e2")]
    for path in folders:
        os.makedirs(path)
    environment = {"ERL_EPMD_PORT": str(mapper)}

    def member(name):
        return ["-sname", f"{name}@localhost", "-setcookie", "bench", "-start_epmd", "false",
                "-kernel", "inet_dist_use_interface", "{127,0,0,1}"]

    with process.running(["epmd", "-address", "127.0.0.1", "-port", str(mapper)], [mapper],
                         f"{folder}/epmd.log"), \
            node(folders[0], (port, port + 1), (certificate, key),
                 provision_args(folders[0], users, contacts), member("e1"), environment) as first, \
            node(folders[1], (port + 3, port + 4), (certificate, key),
                 ["-run", "provision", "join", "e1@localhost", f"{folders[1]}/ready"],
                 member("e2"), environment) as second:
        yield first, second


@contextlib.contextmanager
def node(folder, ports, keys, at_the_start, more=(), variables=None):
    """A node that runs `at_the_start` before it counts as started: yields its process."""
    port, tls_port = ports
    with open(f"{folder}/localhost.pem", "w") as out:
        for part in keys:
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
        ERL_MAX_PORTS="65536", **(variables or {}))
    # No busy waiting: schedulers that spin would be charged for CPU that does nothing.
    command = ["erl", "-noinput", "+K", "true", "+P", "1000000", "+sbwt", "none", "+sbwtdcpu",
               "none", "+sbwtdio", "none", "-pa", folder, "-mnesia", "dir", f'"{folder}/mnesia"',
               *more, "-s", "ejabberd", *at_the_start]
    with process.running(command, ports, f"{folder}/out.log", cwd=folder,
                         env=environment) as server:
        end = time.monotonic() + PROVISION_SECONDS
        while not os.path.exists(f"{folder}/ready"):
            if server.poll() is not None or time.monotonic() > end:
                raise process.Trouble(f"ejabberd could not be filled with accounts:\n"
                                      f"{process.tail(f'{folder}/out.log')}")
            time.sleep(0.2)
        yield server
