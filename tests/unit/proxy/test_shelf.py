"""Whose something is: told by the API key's text, which nobody can read from it."""

import hashlib

from blazar.proxy.auth import KeyRing
from blazar.proxy.shelf import owner_of


def key(text, **more):
    ring = KeyRing([{"key": text, **more}], str)
    return ring.identify({"authorization": f"Bearer {text.removeprefix('sha256:')}"})


def test_each_key_is_an_owner_whatever_it_is_called():
    ann = owner_of(key("sk-ann", name="ann"))
    assert ann == owner_of(key("sk-ann", name="other")) == owner_of(key("sk-ann"))
    assert len({ann, owner_of(key("sk-bob", name="ann")), owner_of(None)}) == 3


def test_nothing_of_the_key_is_in_it():
    digest = hashlib.sha256(b"sk-ann").hexdigest()
    owner = owner_of(key("sk-ann", name="ann"))
    assert len(owner) == 32 and owner not in digest and "ann" not in owner and owner_of(None) == ""
