"""`Shelf`: what one caller has had kept, completions or responses, as the supervisor keeps it.

Whoever has another API key sees none of it.
"""

import hashlib
import logging
from dataclasses import dataclass
from typing import Any

from blazar.control import KEPT_DAYS
from blazar.errors import BlazarError, StoredMissing
from blazar.proxy.auth import ApiKey
from blazar.proxy.json import dumps, loads
from blazar.proxy.supervisor import Supervisor
from blazar.units import format_bytes

MOST = 8 << 20
"""Bytes of the largest answer that is kept, with all that was asked for it."""
NAMES = {"response": "response", "completion": "chat completion"}

log = logging.getLogger("blazar.proxy")


def owner_of(key: ApiKey | None) -> str:
    """What stands for an API key: not its name, which may go to another one, and nothing that tells its text."""
    return "" if key is None else hashlib.sha256(b"owner of what is kept:" + key.digest).hexdigest()[:32]


@dataclass(frozen=True)
class Kept:
    """One object: the answer, and what was asked for it."""

    body: dict[str, Any]
    input: list[dict[str, Any]]


@dataclass(frozen=True)
class Wanted:
    """Which objects of a list: after which id, how many, in which order, of which model, with which metadata."""

    after: str | None
    limit: int
    newest_first: bool
    model: str | None = None
    pairs: dict[str, str] | None = None


class Shelf:
    def __init__(self, supervisor: Supervisor, table: str, key: ApiKey | None) -> None:
        self._supervisor = supervisor
        self._table = table
        self.owner = owner_of(key)

    def put(self, model: str, body: dict[str, Any], asked: list[dict[str, Any]]) -> bool:
        """Keep an object under its `id`; whether that could be done, which is certain once this returns."""
        metadata = body.get("metadata") or {}
        texts = {"metadata": dumps(metadata), "input": dumps(asked), "body": dumps({**body, "metadata": {}})}
        size = sum(map(len, texts.values()))
        if size > MOST:
            log.warning("%s: %s is over the limit of %s for what is kept", body["id"], format_bytes(size),
                        format_bytes(MOST))
            return False
        try:
            self._ask("put", object=body["id"], model=model, **{name: text.decode() for name, text in texts.items()})
        except BlazarError as error:
            log.warning("%s could not be kept: %s", body["id"], error)
            return False
        return True

    def get(self, id: str) -> Kept:
        """Raises StoredMissing."""
        row = self._ask("find", object=id)["row"]
        if row is None:
            raise self._missing(id)
        return Kept(_body(row), loads(row["input"]))

    def page(self, wanted: Wanted) -> tuple[list[dict[str, Any]], bool]:
        """The objects, and whether more follow."""
        answer = self._ask("page", after=wanted.after, limit=wanted.limit, newest_first=wanted.newest_first,
                           model=wanted.model, pairs=wanted.pairs or {})
        return [_body(row) for row in answer["rows"]], answer["more"]

    def annotate(self, id: str, metadata: dict[str, str]) -> None:
        """Change an object's metadata. Raises StoredMissing."""
        if not self._ask("annotate", object=id, metadata=dumps(metadata).decode())["there"]:
            raise self._missing(id)

    def forget(self, id: str) -> None:
        """Raises StoredMissing."""
        if not self._ask("forget", object=id)["there"]:
            raise self._missing(id)

    def _ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        return self._supervisor.keep(self._table, verb, owner=self.owner, **fields)

    def _missing(self, id: str) -> StoredMissing:
        return StoredMissing(what=NAMES[self._table], id=id[:100], days=KEPT_DAYS)


def _body(row: dict[str, Any]) -> dict[str, Any]:
    return {**loads(row["body"]), "metadata": loads(row["metadata"])}
