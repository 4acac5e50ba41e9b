"""The servers under comparison: how each is started with the same accounts and contacts."""
import contextlib
import os
import re
import shutil
import subprocess

from . import ejabberd, process, prosody

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Logins per second that each bears while the load runs beside it.
RATES = {"floor": 1000, "roost": 1000, "ejabberd": 120, "prosody": 90}
PACKAGES = {"ejabberd": "ejabberd", "prosody": "prosody"}
COMMANDS = {"ejabberd": "ejabberdctl", "prosody": "prosody"}

ROOST = """
domain = "localhost"
data = "{dir}/data"
{top}
[c2s]
listen = ["{host}:{port}"]
listen_tls = ["{host}:{tls_port}"]
require_tls = false
[tls]
certificate = "{certificate}"
key = "{key}"
[auth]
plain_without_tls = true
[store]
durability = "{durability}"
[archive]
enabled = {archive}
[limits]
connections_per_address_max = 0
{limits}
"""


def program(name):
    """A program of ours: the one the environment names, or the release build."""
    named = os.environ.get(name.upper())
    target = os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target")
    path = named or f"{target}/release/{name}"
    if not named:
        subprocess.run(["cargo", "build", "--release", "-q", "-p", name, "--manifest-path",
                        f"{ROOT}/Cargo.toml"], check=True)
    if not os.access(path, os.X_OK):
        raise process.Trouble(f"{path} is no program")
    return path


def install(names):
    """Installs what is missing of the rivals, from the distribution."""
    missing = [PACKAGES[name] for name in names
               if name in PACKAGES and not shutil.which(COMMANDS[name], path=search_path())]
    if not missing:
        return
    by_hand = f"apt-get install --no-install-recommends {' '.join(missing)}"
    if not shutil.which("apt-get"):
        raise process.Trouble(f"not installed: {', '.join(missing)}; this machine has no apt-get")
    if os.geteuid() != 0:
        raise process.Trouble(f"not installed: {', '.join(missing)}; as root: {by_hand}")
    # The packages would start services of their own on the usual ports.
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", RUNLEVEL="1")
    subprocess.run(["apt-get", "update", "-q"], check=True, env=environment)
    subprocess.run([*by_hand.split(), "-y", "-q"], check=True, env=environment)


def search_path():
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def version(name):
    """What the program or its package says it is."""
    if name == "roost":
        text = subprocess.run([program("roost"), "--version"], capture_output=True, text=True,
                              check=True).stdout.strip()
        if os.environ.get("ROOST"):
            return text
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"],
                                capture_output=True, text=True).stdout.strip()
        return f"{text}, commit {commit}" if commit else text
    if name in PACKAGES:
        found = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", PACKAGES[name]],
                               capture_output=True, text=True)
        extra = ""
        if name == "ejabberd":
            otp = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "erlang-base"],
                                 capture_output=True, text=True).stdout
            extra = f", Erlang/OTP {re.sub('^1:', '', otp)}" if otp else ""
        return f"Debian {found.stdout.strip()}{extra}" if found.returncode == 0 else "unknown"
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True).stdout
    return f"bench/floor/floor.c, {compiler.splitlines()[0] if compiler else 'cc'}"


def certificate(folder):
    """A certificate that all servers use: ECDSA P-256, self-signed."""
    paths = f"{folder}/certificate.pem", f"{folder}/key.pem"
    if not os.path.exists(paths[0]):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout",
                        paths[1], "-out", paths[0]], check=True, stderr=subprocess.DEVNULL)
    return paths


@contextlib.contextmanager
def running(name, folder, users, contacts, port, limits="", **more):
    """Server `name` with its accounts, on `port` and (TLS) `port + 1`: yields its process.

    For Roost only: `limits` is added to its configuration, `more` is what `roost` takes.
    """
    shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
    home = f"{folder}/{name}"
    os.makedirs(home)
    keys = certificate(folder)
    if name == "floor":
        floor = f"{ROOT}/bench/floor"
        subprocess.run(["make", "-s", "-C", floor], check=True)
        server = process.running([f"{floor}/floor", str(port)], [port], f"{home}/log")
    elif name == "roost":
        server = roost(home, users, contacts, port, keys, limits, **more)
    else:
        start = {"ejabberd": ejabberd.running, "prosody": prosody.running}[name]
        server = start(home, users, contacts, port, port + 1, *keys)
    with server as started:
        yield started
    # What a server leaves behind is large, and made again for each run.
    for part in ("data", "mnesia"):
        shutil.rmtree(f"{home}/{part}", ignore_errors=True)


def configure(home, port, keys, limits="", top="", durability="memory", archive=False,
              host="127.0.0.1"):
    """Writes the configuration of a Roost in the folder `home`; returns its path."""
    config = f"{home}/roost.toml"
    with open(config, "w") as out:
        out.write(ROOST.format(dir=home, host=host, port=port, tls_port=port + 1,
                               certificate=keys[0], key=keys[1], limits=limits, top=top,
                               durability=durability, archive=str(archive).lower()))
    return config


def roost(home, users, contacts, port, keys, limits="", domains=(), binary=None, **more):
    """Roost as a benchmark wants it: `limits` and `more` are as `configure` takes them, `domains`
    are (name, users) of further domains with accounts, `binary` is another program than
    `program("roost")`.
    """
    binary = binary or program("roost")
    # What makes the server slow on purpose must not slow the filling of its store.
    config = configure(home, port, keys, **more)
    for domain, count in (("localhost", users), *domains):
        subprocess.run([binary, "provision", "--config", config, "--domain", domain,
                        "--users", str(count), "--contacts", str(contacts), "--password", "pw"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    configure(home, port, keys, limits, **more)
    command = [binary, "serve", "--config", config]
    return process.running(command, (port, port + 1), f"{home}/log")
