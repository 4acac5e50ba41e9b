#!/usr/bin/env python3
"""Sets up a Prosody (Debian package) with ring contacts and runs it in the foreground.

Usage: prosody.py DIR USERS CONTACTS [--port 5322] [--tls-port 5323] [--no-run]

Everything lives in DIR: configuration, accounts u0..uN-1@localhost with password "pw" and one
shared salt (so that a load client derives one key), rosters with both directions. Accounts are
hashed (SCRAM-SHA-1); PLAIN is allowed without TLS, as every server under comparison allows it.
"""
import argparse
import hashlib
import hmac
import os
import subprocess
import sys

PASSWORD, SALT, ITERATIONS = b"pw", "floodfloodflood", 4096

CONFIG = """
run_as_root = true
daemonize = false
pidfile = "{dir}/prosody.pid"
data_path = "{dir}/data"
modules_enabled = {{ "disco"; "roster"; "saslauth"; "tls"; "ping"; "time"; "version"; "offline";
  "c2s"; "presence"; "message"; "iq"; {extra} }}
modules_disabled = {{ "s2s" }}
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
https_ports = {{}}
http_ports = {{}}
VirtualHost "localhost"
  ssl = {{ certificate = "{dir}/localhost.crt", key = "{dir}/localhost.key" }}
"""


def provision(path, users, contacts):
    """Writes accounts and rosters as Prosody's internal storage keeps them."""
    salted = hashlib.pbkdf2_hmac("sha1", PASSWORD, SALT.encode(), ITERATIONS)
    client = hmac.digest(salted, b"Client Key", "sha1")
    stored = hashlib.sha1(client).hexdigest()
    server = hmac.digest(salted, b"Server Key", "sha1").hex()
    account = (
        f'return {{ ["iteration_count"] = {ITERATIONS}; ["salt"] = "{SALT}"; '
        f'["stored_key"] = "{stored}"; ["server_key"] = "{server}"; }};\n'
    )
    folders = {name: f"{path}/data/localhost/{name}" for name in ("accounts", "roster")}
    for folder in folders.values():
        os.makedirs(folder, exist_ok=True)
    half = contacts // 2
    for user in range(users):
        with open(f"{folders['accounts']}/u{user}.dat", "w") as out:
            out.write(account)
        if contacts:
            steps = [step for step in range(-half, half + 1) if step]
            items = "".join(
                f'["u{(user + step) % users}@localhost"] = '
                '{ ["subscription"] = "both"; ["groups"] = {}; };\n'
                for step in steps
            )
            with open(f"{folders['roster']}/u{user}.dat", "w") as out:
                out.write("return {\n[false] = { [\"version\"] = 1; };\n" + items + "};\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir")
    parser.add_argument("users", type=int)
    parser.add_argument("contacts", type=int)
    parser.add_argument("--port", type=int, default=5322)
    parser.add_argument("--tls-port", type=int, default=5323)
    parser.add_argument("--stream-management", action="store_true")
    parser.add_argument("--no-run", action="store_true")
    args = parser.parse_args()
    path = os.path.abspath(args.dir)
    provision(path, args.users, args.contacts)
    if not os.path.exists(f"{path}/localhost.crt"):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "30", "-subj", "/CN=localhost", "-addext",
             "subjectAltName=DNS:localhost", "-keyout", f"{path}/localhost.key", "-out",
             f"{path}/localhost.crt"],
            check=True, stderr=subprocess.DEVNULL)
    extra = '"smacks";' if args.stream_management else ""
    with open(f"{path}/prosody.cfg.lua", "w") as out:
        out.write(CONFIG.format(dir=path, port=args.port, tls_port=args.tls_port, extra=extra))
    if not args.no_run:
        sys.stdout.flush()
        os.execvp("prosody", ["prosody", "--config", f"{path}/prosody.cfg.lua", "-F"])


if __name__ == "__main__":
    main()
