"""SCRAM-SHA-1: the keys of rivals, of one salt, so that a load derives one key; and the messages of
a client that logs in."""
import base64
import functools
import hashlib
import hmac
import os

PASSWORD, SALT, ITERATIONS = b"pw", b"floodfloodflood", 4096


def keys():
    """Stored key and server key."""
    salted = hashlib.pbkdf2_hmac("sha1", PASSWORD, SALT, ITERATIONS)
    client = hmac.digest(salted, b"Client Key", "sha1")
    return hashlib.sha1(client).digest(), hmac.digest(salted, b"Server Key", "sha1")


def text(data):
    return base64.b64encode(data).decode()


def ring(user, users, contacts):
    """The contacts of a user, as `roost provision` and the flood number them."""
    half = contacts // 2
    return [(user + step) % users for step in range(-half, half + 1) if step]


@functools.cache
def client_key(salt, iterations):
    salted = hashlib.pbkdf2_hmac("sha1", PASSWORD, salt, iterations)
    return hmac.digest(salted, b"Client Key", "sha1")


def begin(user):
    """The client's first message, without the header for channel binding."""
    return f"n={user},r={os.urandom(12).hex()}"


def answer(begun, challenge):
    """The client's last message, to what the server answered to the first."""
    fields = dict(field.split("=", 1) for field in challenge.split(","))
    key = client_key(base64.b64decode(fields["s"]), int(fields["i"]))
    last = f"c=biws,r={fields['r']}"
    proven = hmac.digest(hashlib.sha1(key).digest(), f"{begun},{challenge},{last}".encode(), "sha1")
    proof = bytes(one ^ other for one, other in zip(key, proven))
    return f"{last},p={text(proof)}"
