"""The SCRAM-SHA-1 keys of rivals: one salt, so that a load derives one key."""
import base64
import hashlib
import hmac

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
