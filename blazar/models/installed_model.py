"""`InstalledModel`: one row for each name in the store. Several names may share one blob."""

from typing import Any

import peewee

from blazar.models.base import Table, query


class InstalledModel(Table):
    """Written by whoever pulls or removes, holding store.lock."""

    name = peewee.TextField(primary_key=True)
    """Canonical: lower case, with its variant."""
    digest = peewee.TextField(index=True)
    """sha256 of the file, 64 hex digits; it names the blob."""
    size = peewee.BigIntegerField()
    facts = peewee.TextField()
    """`ModelFacts` as JSON text."""
    source = peewee.TextField()
    """Where it came from, for people."""
    license = peewee.TextField(null=True)
    parameters = peewee.TextField(null=True)
    """Parameters given with the model, one a line; null when there are none."""
    template = peewee.TextField(null=True)
    """A chat template that replaces the file's own; null when it does not."""
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
    def forget(cls, name: str) -> None:
        cls.delete().where(cls.name == name).execute()

    @classmethod
    @query
    def uses(cls, digest: str) -> int:
        """How many names stand for the blob `digest`."""
        return cls.select().where(cls.digest == digest).count()
