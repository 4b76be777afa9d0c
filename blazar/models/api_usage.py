"""`ApiUsage`: what each API key has used on each day."""

from collections.abc import Iterable, Mapping
from typing import Any

import peewee

from blazar.models.base import Table, query

COUNTS = ("requests", "prompt_tokens", "completion_tokens")


class ApiUsage(Table):
    """Written by the supervisor only, from what the gateway reports."""

    key = peewee.TextField()
    """The key's name; never its secret."""
    day = peewee.TextField()
    """In UTC, as 2026-01-31."""
    requests = peewee.BigIntegerField()
    prompt_tokens = peewee.BigIntegerField()
    completion_tokens = peewee.BigIntegerField()

    class Meta:
        table_name = "api_usage"
        primary_key = peewee.CompositeKey("key", "day")

    @classmethod
    @query
    def add(cls, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add the counts of each row to those of its key and day."""
        for row in rows:
            here = (cls.key == row["key"]) & (cls.day == row["day"])
            more = {getattr(cls, name): getattr(cls, name) + row[name] for name in COUNTS}
            if not cls.update(more).where(here).execute():
                cls.insert(key=row["key"], day=row["day"], **{name: row[name] for name in COUNTS}).execute()

    @classmethod
    @query
    def of_day(cls, day: str) -> dict[str, int]:
        """Tokens of that day by key."""
        rows: Any = cls.select(cls.key, cls.prompt_tokens + cls.completion_tokens).where(cls.day == day).tuples()
        return dict(rows)

    @classmethod
    @query
    def every(cls) -> list[dict[str, Any]]:
        """All rows as plain values, by day and key."""
        rows: Any = cls.select().order_by(cls.day, cls.key).dicts()
        return list(rows)
