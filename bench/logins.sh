#!/usr/bin/env bash
# 15,000 logins with roster and presence, bytes per user, CPU per login and per message against the
# floor in the same run. Fails if a login fails, a contact's presence is missing, or a message is
# lost or comes twice; with BUDGETS=1 also if a budget is missed.
#
# Usage: bench/logins.sh [USERS [CONTACTS [RATE]]]
#
# Environment:
#   ROOST, FLOOD      the programs (default: target/release/roost, target/release/flood; built if
#                     they are missing)
#   OUT               where reports go (default: a fresh folder under /tmp)
#   SERVER, PID       measure a server that runs already, with accounts u0.. of password "pw"
#   FLOOR=0           leave out the floor
#   BUDGETS=1         fail if a budget is missed
set -euo pipefail
users=${1:-15000}
contacts=${2:-18}
rate=${3:-1000}
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../target}
roost=${ROOST:-$target/release/roost}
flood=${FLOOD:-$target/release/flood}
out=${OUT:-$(mktemp -d /tmp/roost-logins.XXXXXX)}
port=${PORT:-5522}
started=
trap '[ -z "$started" ] || kill $started 2>/dev/null || true' EXIT
mkdir -p "$out"
[ -x "$flood" ] || cargo build --release -p flood --manifest-path "$here/../Cargo.toml"
make -s -C "$here/floor"

listening() { # address, pid, log
    for _ in $(seq 200); do
        if (exec 3<>"/dev/tcp/${1%:*}/${1#*:}") 2>/dev/null; then return 0; fi
        kill -0 "$2" 2>/dev/null || break
        sleep 0.1
    done
    echo "nothing listens on $1:" >&2
    cat "$3" >&2
    return 1
}

server=${SERVER:-127.0.0.1:$port}
pid=${PID:-}
if [ -z "${SERVER:-}" ]; then
    [ -x "$roost" ] || cargo build --release -p roost --manifest-path "$here/../Cargo.toml"
    rm -rf "$out/data"
    cat >"$out/roost.toml" <<CONFIG
domain = "localhost"
data = "$out/data"
[c2s]
listen = ["$server"]
listen_tls = []
require_tls = false
[auth]
plain_without_tls = true
[store]
durability = "memory"
[archive]
enabled = false
CONFIG
    "$roost" provision --config "$out/roost.toml" --domain localhost --users "$users" \
        --contacts "$contacts" --password pw
    "$roost" serve --config "$out/roost.toml" >"$out/roost.log" 2>&1 &
    pid=$!
    started=$pid
    listening "$server" "$pid" "$out/roost.log"
fi

code=0
"$flood" --scenario "$here/logins.toml" --server "$server" --users "$users" \
    --contacts "$contacts" --rate "$rate" ${pid:+--pid "$pid"} \
    --json "$out/server.json" --html "$out/server.html" || code=$?
if [ -n "$started" ]; then
    kill "$started"
    wait "$started" || { echo "roost ended with code $?" >&2; code=1; }
    started=
fi

if [ "${FLOOR:-1}" = 1 ]; then
    "$here/floor/floor" $((port + 1)) 2>"$out/floor.log" &
    started=$!
    listening "127.0.0.1:$((port + 1))" "$started" "$out/floor.log"
    "$flood" -q --scenario "$here/logins.toml" --floor --server "127.0.0.1:$((port + 1))" \
        --users "$users" --rate "$rate" --pid "$started" --json "$out/floor.json" \
        >"$out/floor.txt" || { cat "$out/floor.txt"; code=1; }
fi
python3 "$here/logins.py" "$out" || code=1
exit $code
