#!/bin/sh
# Counts the floor's system calls per message with `strace -c`; fails above 2.1.
# Usage: syscalls.sh [FLOOD]   (the load generator; default: target/release/flood)
#
# strace is attached for some seconds while messages flow, when everyone has logged in. A message is
# one write.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
flood=${1:-$here/../../target/release/flood}
port=${PORT:-5429}
out=$(mktemp -d)
make -s -C "$here"
"$here/floor" "$port" 2>"$out/floor" &
floor=$!
load=
trap 'kill $floor $load 2>/dev/null || true; rm -rf "$out"' EXIT
sleep 0.5
"$flood" --scenario pingpong --floor --users 2000 --rate 1000 --seconds 20 \
    --server "127.0.0.1:$port" >"$out/report" 2>"$out/progress" &
load=$!
for _ in $(seq 100); do
    grep -q 'ping-pong' "$out/progress" && break
    sleep 0.2
done
timeout -s INT 8 strace -c -U calls,name -o "$out/calls" -p "$floor" 2>/dev/null || true
kill -INT "$load"
wait "$load" || true
cat "$out/calls"
awk '$2 == "write" { writes = $1 } $NF == "total" { calls = $1 } END {
    if (!writes) { print "no messages were counted"; exit 1 }
    printf "%d calls for %d messages: %.3f per message\n", calls, writes, calls / writes
    exit !(calls / writes <= 2.1)
}' "$out/calls"
