"""`ApiUsage`: what each API key has used of each model on each day."""

from collections.abc import Iterable, Mapping
from typing import Any

import peewee

from blazar.models.base import Table, query

NAMES = ("key", "day", "model")
COUNTS = ("requests", "prompt_tokens", "completion_tokens")


class ApiUsage(Table):
    """Written by the supervisor only, from what the gateway reports."""

    key = peewee.TextField()
    """The key's name; never its secret."""
    day = peewee.TextField()
    """In UTC, as 2026-01-31."""
    model = peewee.TextField()
    """Its canonical name; empty for what was counted before models were told apart."""
    requests = peewee.BigIntegerField()
    prompt_tokens = peewee.BigIntegerField()
    completion_tokens = peewee.BigIntegerField()

    class Meta:
        table_name = "api_usage"
        primary_key = peewee.CompositeKey(*NAMES)

    @classmethod
    @query
    def add(cls, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add the counts of each row to those of its key, day and model."""
        for row in rows:
            here = (cls.key == row["key"]) & (cls.day == row["day"]) & (cls.model == row["model"])
            more = {getattr(cls, name): getattr(cls, name) + row[name] for name in COUNTS}
            if not cls.update(more).where(here).execute():
                cls.insert(**{name: row[name] for name in (*NAMES, *COUNTS)}).execute()

    @classmethod
    @query
    def of_day(cls, day: str) -> dict[str, int]:
        """Tokens of that day by key."""
        used = peewee.fn.SUM(cls.prompt_tokens + cls.completion_tokens)
        rows: Any = cls.select(cls.key, used).where(cls.day == day).group_by(cls.key).tuples()
        return dict(rows)

    @classmethod
    @query
    def since(cls, day: str) -> list[dict[str, Any]]:
        """The rows of that day and later ones as plain values, by key, day and model."""
        rows: Any = cls.select().where(cls.day >= day).order_by(cls.key, cls.day, cls.model).dicts()
        return list(rows)

    @classmethod
    @query
    def keys(cls) -> list[str]:
        """The names of all API keys that have ever used anything."""
        rows: Any = cls.select(cls.key).distinct().order_by(cls.key).tuples()
        return [name for name, in rows]
