"""What the server says of itself on /metrics."""
import collections
import time
import urllib.error
import urllib.request


# A server that has only just started may not listen here yet; one that has very much to do may
# answer 503.
TRIES, PAUSE_SECONDS = 20, 0.1


def read(port):
    """Each metric's value, added up over its labels; of a histogram its sum and count."""
    for attempt in range(TRIES):
        try:
            return fetch(port)
        except urllib.error.URLError:
            if attempt + 1 == TRIES:
                raise
            time.sleep(PAUSE_SECONDS)


def fetch(port):
    found = collections.Counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line and not line.startswith("#") and "le=" not in line:
                name, value = line.rsplit(" ", 1)
                found[name.split("{")[0]] += float(value)
    return found
