"""Prosody from Debian, with the accounts and contacts of the benchmark.

Its storage is the internal one (a file for each account and each roster, which the kernel keeps in
its cache): the memory store cannot be filled before the start.
"""
import os

from . import process, scram

CONFIG = """
run_as_root = true
daemonize = false
admins = {{ "u0@localhost" }}
pidfile = "{dir}/prosody.pid"
data_path = "{dir}/data"
modules_enabled = {{ "disco"; "roster"; "saslauth"; "tls"; "ping"; "time"; "version"; "offline";
  "c2s"; "presence"; "message"; "iq"; "websocket" }}
modules_disabled = {{ "s2s"; "limits" }}
authentication = "internal_hashed"
allow_unencrypted_plain_auth = true
c2s_require_encryption = false
network_backend = "epoll"
c2s_ports = {{ {port} }}
c2s_direct_tls_ports = {{ {tls_port} }}
interfaces = {{ "127.0.0.1" }}
network_settings = {{ tcp_backlog = 4096 }}
c2s_tcp_keepalives = false
log = {{ warn = "{dir}/prosody.log" }}
certificates = "{dir}"
-- Global too: a direct TLS port is opened before a host is known.
ssl = {{ certificate = "{certificate}", key = "{key}" }}
https_ports = {{}}
http_ports = {{ {web_port} }}
http_interfaces = {{ "127.0.0.1" }}
http_host = "127.0.0.1"
VirtualHost "localhost"
  ssl = {{ certificate = "{certificate}", key = "{key}" }}
-- Nodes are made by admins only, so the first user is one.
Component "conference.localhost" "muc"
Component "pubsub.localhost" "pubsub"
"""


def provision(folder, users, contacts):
    """Writes accounts and rosters as Prosody's internal storage keeps them."""
    stored, server = scram.keys()
    account = (
        f'return {{ ["iteration_count"] = {scram.ITERATIONS}; ["salt"] = "{scram.SALT.decode()}"; '
        f'["stored_key"] = "{stored.hex()}"; ["server_key"] = "{server.hex()}"; }};\n'
    )
    folders = {name: f"{folder}/data/localhost/{name}" for name in ("accounts", "roster")}
    for path in folders.values():
        os.makedirs(path, exist_ok=True)
    for user in range(users):
        with open(f"{folders['accounts']}/u{user}.dat", "w") as out:
            out.write(account)
        items = "".join(
            f'["u{other}@localhost"] = {{ ["subscription"] = "both"; ["groups"] = {{}}; }};\n'
            for other in scram.ring(user, users, contacts)
        )
        with open(f"{folders['roster']}/u{user}.dat", "w") as out:
            out.write("return {\n[false] = { [\"version\"] = 1; };\n" + items + "};\n")


def running(folder, users, contacts, port, tls_port, certificate, key):
    provision(folder, users, contacts)
    with open(f"{folder}/prosody.cfg.lua", "w") as out:
        out.write(CONFIG.format(dir=folder, port=port, tls_port=tls_port, certificate=certificate,
                                key=key, web_port=tls_port + 1))
    command = ["prosody", "--config", f"{folder}/prosody.cfg.lua", "-F"]
    return process.running(command, (port, tls_port), f"{folder}/out.log", cwd=folder)
