"""`Alias`: another name for an installed model."""

from typing import Any

import peewee

from blazar.models.base import Table, query


class Alias(Table):
    """Written by whoever pulls, removes or names models, holding store.lock."""

    name = peewee.TextField(primary_key=True)
    target = peewee.TextField()
    """The canonical name of an installed model."""

    class Meta:
        table_name = "alias"

    @classmethod
    @query
    def targets(cls) -> dict[str, str]:
        """Canonical names by alias."""
        rows: Any = cls.select(cls.name, cls.target).order_by(cls.name).tuples()
        return dict(rows)

    @classmethod
    @query
    def put(cls, name: str, target: str) -> None:
        cls.replace(name=name, target=target).execute()

    @classmethod
    @query
    def forget(cls, name: str) -> bool:
        """Drop the alias `name`; whether there was one."""
        return cls.delete().where(cls.name == name).execute() > 0

    @classmethod
    @query
    def forget_target(cls, target: str) -> None:
        """Drop every alias of a model that is being removed."""
        cls.delete().where(cls.target == target).execute()
