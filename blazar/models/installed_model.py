"""`InstalledModel`: one row for each name in the store. Several names may share one blob."""

from collections.abc import Iterable
from typing import Any

import peewee

from blazar.models.alias import Alias
from blazar.models.base import Table, query


class InstalledModel(Table):
    """Written by whoever pulls or removes, holding store.lock."""

    name = peewee.TextField(primary_key=True)
    """Canonical: lower case, with its variant."""
    digest = peewee.TextField(index=True)
    """sha256 of the first file, 64 hex digits."""
    size = peewee.BigIntegerField()
    """Bytes of all files."""
    files = peewee.TextField(null=True)
    """All files as JSON text, the model's own first: [{role, name, digest, size}]; null in rows of before there could
    be several, which have the one that `digest` names."""
    facts = peewee.TextField()
    """`ModelFacts` as JSON text."""
    source = peewee.TextField()
    """Where it came from, for people."""
    license = peewee.TextField(null=True)
    parameters = peewee.TextField(null=True)
    """Options given with the model, under Ollama's names, as a JSON object; null when there are none."""
    template = peewee.TextField(null=True)
    """A chat template given with the model; null when there is none."""
    system = peewee.TextField(null=True)
    """What the model is told first when a request does not say; null when nothing."""
    messages = peewee.TextField(null=True)
    """Turns that stand before those of each request, as JSON text; null when there are none."""
    installed_at = peewee.TextField()
    """RFC 3339, UTC."""

    class Meta:
        table_name = "installed_model"

    @classmethod
    @query
    def every(cls) -> list[dict[str, Any]]:
        """All rows as plain values, by name."""
        rows: Any = cls.select().order_by(cls.name).dicts()
        return list(rows)

    @classmethod
    @query
    def names(cls) -> list[str]:
        rows: Any = cls.select(cls.name).order_by(cls.name).tuples()
        return [name for (name,) in rows]

    @classmethod
    @query
    def find(cls, name: str) -> dict[str, Any] | None:
        """The row of `name`, or None."""
        return cls.select().where(cls.name == name).dicts().first()

    @classmethod
    @query
    def put(cls, **row: Any) -> None:
        """Write a row, in place of the one of that name."""
        cls.replace(**row).execute()

    @classmethod
    @query
    def install(cls, hidden_by: Iterable[str], **row: Any) -> None:
        """Write a row, and drop the aliases that would hide it: both or neither."""
        cls.put(**row)
        for alias in hidden_by:
            Alias.forget(alias)

    @classmethod
    @query
    def uninstall(cls, name: str) -> None:
        """Drop the row of that name, and every alias of it: both or neither."""
        cls.forget(name)
        Alias.forget_target(name)

    @classmethod
    @query
    def forget(cls, name: str) -> None:
        cls.delete().where(cls.name == name).execute()

    @classmethod
    @query
    def uses(cls, digest: str) -> int:
        """How many names stand for the blob `digest`, among others."""
        return cls.select().where((cls.digest == digest) | cls.files.contains(digest)).count()

    @classmethod
    @query
    def preset_size(cls, besides: str) -> int:
        """Characters of system texts, turns and options of all models but one, as the gateway is told them."""
        total = peewee.fn.SUM(_length(cls.system) + _length(cls.messages) + _length(cls.parameters))
        return int(cls.select(total).where(cls.name != besides).scalar() or 0)


def _length(column: peewee.Field) -> Any:
    """Characters of a text that may be null."""
    return peewee.fn.COALESCE(peewee.fn.LENGTH(column), 0)
