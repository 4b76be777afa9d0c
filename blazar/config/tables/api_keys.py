"""[[keys]]: who may call, and how much"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from blazar.config.refusal import Refusal
from blazar.config.setting import Setting, Table
from blazar.config.types import Float, Int, ListOf, Secret, Text

LIMITS = ("rpm", "tpm", "daily_tokens", "max_concurrent")
"""Fields without which a key may do more than its owner wrote."""

NAME = r"(?=.*\S)[^,\t\n\ud800-\udfff]{1,200}"
"""What a key may be called: whatever fits into a line of the audit log, and between the commas of BLAZAR_KEYS."""

HASHED = "sha256:"
"""How the secret of an entry begins that is given as the SHA-256 of the real one, in hexadecimal."""


class KeySecret(Secret):
    """A secret in plain text, or its hash."""

    def check(self, value: Any) -> str:
        text = super().check(value)
        if text.startswith(HASHED):
            try:
                whole = len(bytes.fromhex(text.removeprefix(HASHED))) == hashlib.sha256().digest_size
            except ValueError:
                whole = False
            if not whole:
                raise Refusal(f"it begins with {HASHED}, and 64 hexadecimal digits do not follow",
                              f"write {HASHED} and the digits that `printf %s SECRET | sha256sum` prints, or let "
                              f"`blazar keys add` do it")
        return text


def digest_of(text: str) -> bytes:
    """The SHA-256 of the secret that a checked `key` stands for."""
    return bytes.fromhex(text.removeprefix(HASHED)) if text.startswith(HASHED) else hashlib.sha256(
        text.encode()).digest()


def names_of(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """How API keys are called in logs and counts: by their names, those without one by their place."""
    return [entry.get("name") or f"key {place}" for place, entry in enumerate(entries, start=1)]


FIELDS = (
    Setting("name", Text(NAME, like="a name in UTF-8 on one line, of at most 200 characters and without commas",
                         empty=False), None,
            doc="How the key is called in logs and counts."),
    Setting("key", KeySecret(), None, required=True, secret=True,
            doc="The secret that callers send, or `sha256:` and the hexadecimal SHA-256 of it."),
    Setting("models", ListOf(Text(empty=False)), (),
            doc="Models it may use; empty = all."),
    Setting("rpm", Int(1), None,
            doc="Requests a minute."),
    Setting("tpm", Int(1), None,
            doc="Tokens a minute."),
    Setting("daily_tokens", Int(1, 2**53), None,
            doc="Tokens a day, which begins at midnight UTC."),
    Setting("max_concurrent", Int(1, 10**6), None,
            doc="Requests at the same time."),
    Setting("weight", Float(0.001, 1000), None,
            doc="Share of a busy model, against the other keys; unset = 1."),
)


class ApiKeys(ListOf):
    """The list of keys; in a variable, `name:secret` pairs separated by commas."""

    def __init__(self) -> None:
        super().__init__(Table(*FIELDS, what="[[keys]]"))

    def check(self, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
            raise Refusal("it is not a list of tables", 'write [[keys]], and below it name = "…" and key = "…"')
        return super().check(value)

    def parse(self, text: str) -> tuple[Any, ...]:
        entries = []
        for place, part in enumerate(filter(None, (part.strip() for part in text.split(","))), start=1):
            name, colon, secret = part.partition(":")
            if not (name and colon and secret):
                raise Refusal(f"entry {place} is not a name and a secret", "write name:secret,name:secret")
            entries.append({"name": name, "key": secret})
        return self.check(entries)
