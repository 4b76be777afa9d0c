import hashlib

import pytest

from blazar.errors import KeyUnknown, ModelForbidden, ModelNotFound, Unauthenticated
from blazar.proxy.auth import KeyRing

SPELLINGS = {"solo": "solo:q4_0", "duo:q8_0": "duo:q8_0"}


def resolve(reference: str) -> str:
    if reference not in SPELLINGS:
        raise ModelNotFound(name=reference, near="")
    return SPELLINGS[reference]


ENTRIES = [{"name": "ann", "key": "sk-ann", "models": ["solo", "Gone:Q4_0"]},
           {"name": None, "key": "sha256:" + hashlib.sha256(b"sk-bob").hexdigest(), "models": []},
           {"name": "umlaut", "key": "schlüssel"}]


@pytest.fixture
def ring():
    return KeyRing(ENTRIES, resolve)


@pytest.mark.parametrize(("headers", "name"), [
    ({"authorization": "Bearer sk-ann"}, "ann"),
    ({"authorization": "bearer   sk-ann "}, "ann"),
    ({"x-api-key": "sk-bob"}, "key 2"),
    ({"authorization": "Basic sk-ann", "x-api-key": "sk-bob"}, "key 2"),
    ({"x-api-key": "schlüssel".encode().decode("latin-1")}, "umlaut"),
])
def test_who_it_is(ring, headers, name):
    assert ring.identify(headers).name == name


@pytest.mark.parametrize("headers", [
    {}, {"authorization": "Bearer"}, {"authorization": "Bearer "}, {"authorization": "sk-ann"}, {"x-api-key": "SK-ANN"},
    {"authorization": "Basic sk-ann"}, {"x-api-key": "sk-ann x"}, {"x-api-key": ENTRIES[1]["key"]},
    {"authorization": "Bearer wrong", "x-api-key": "sk-ann"},
])
def test_everybody_else_is_refused(ring, headers):
    with pytest.raises(Unauthenticated):
        ring.identify(headers)


def test_a_key_that_is_not_known_is_told_from_none(ring):
    with pytest.raises(KeyUnknown):
        ring.identify({"x-api-key": "sk-an"})
    with pytest.raises(Unauthenticated, match="needs an API key"):
        ring.identify({"authorization": "sk-ann"})


def test_without_keys_everybody_is_let_in():
    ring = KeyRing([], resolve)
    assert not ring.active and ring.identify({"x-api-key": "anything"}) is None
    ring.check_model(None, "solo:q4_0")


def test_models_are_compared_by_their_canonical_names(ring):
    ann, bob = (ring.identify({"x-api-key": key}) for key in ("sk-ann", "sk-bob"))
    ring.check_model(ann, "solo:q4_0")
    ring.check_model(ann, "gone:q4_0")
    ring.check_model(bob, "duo:q8_0")
    with pytest.raises(ModelForbidden, match=r"ann.*duo:q8_0.*solo") as refused:
        ring.check_model(ann, "duo:q8_0")
    assert refused.value.status == 403
