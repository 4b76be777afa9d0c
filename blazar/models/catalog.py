"""`Catalog`: one row for each engine lane that the catalog offers, or that a person made here."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import peewee

from blazar.models.base import Table, query

PLAIN = ("architectures", "assets", "superseded")
"""Columns that hold JSON."""


class Catalog(Table):
    """Written by whoever reads the catalog or makes a lane. Whether its build is installed the table `engine` knows."""

    name = peewee.TextField(primary_key=True)
    summary = peewee.TextField()
    architectures = peewee.TextField()
    """Those that its engine knows and the main one did not; a JSON list."""
    assets = peewee.TextField()
    """Its archives, as the catalog describes them; a JSON list."""
    superseded = peewee.TextField()
    """By architecture, the number of the main engine's build that first knows it; a JSON object."""
    offered = peewee.BooleanField()
    """Whether the catalog holds it at present."""
    curated = peewee.BooleanField()
    """Whether it came from the catalog; what a person made here is never removed for them."""
    since = peewee.TextField(null=True)
    """Since when the main engine in use can do all that it does, RFC 3339 in UTC; null when it cannot."""
    seen_at = peewee.TextField()
    """When the catalog was read last with it, RFC 3339 in UTC."""

    class Meta:
        table_name = "catalog"

    @classmethod
    @query
    def every(cls) -> list[dict[str, Any]]:
        """All rows by name, as plain values."""
        rows: Any = cls.select().order_by(cls.name).dicts()
        return [{**row, **{name: json.loads(row[name]) for name in PLAIN}} for row in rows]

    @classmethod
    @query
    def offer(cls, lanes: Iterable[Mapping[str, Any]], seen_at: str) -> None:
        """Take what the catalog holds now in place of what it held; what is installed stays known."""
        cls.update(offered=False).where(cls.curated).execute()
        for lane in lanes:
            mine = cls.select().where(cls.name == lane["name"]).first()
            if mine is not None and not mine.curated:
                continue  # a lane made here keeps its name
            texts = {name: json.dumps(lane[name]) for name in PLAIN}
            cls.replace(name=lane["name"], summary=lane["summary"], offered=True, curated=True, seen_at=seen_at,
                        since=mine.since if mine is not None else None, **texts).execute()

    @classmethod
    @query
    def own(cls, name: str, architectures: Iterable[str], seen_at: str) -> None:
        """Note a lane that a person made here."""
        cls.replace(name=name, summary="made here", architectures=json.dumps(sorted(architectures)), assets="[]",
                    superseded="{}", offered=False, curated=False, since=None, seen_at=seen_at).execute()

    @classmethod
    @query
    def superseded_since(cls, name: str, since: str | None) -> None:
        cls.update(since=since).where(cls.name == name).execute()

    @classmethod
    @query
    def keep(cls, names: Iterable[str]) -> None:
        """Drop the lanes that nobody offers any more, but for `names`, whose builds are installed."""
        cls.delete().where(~cls.offered, cls.name.not_in(list(names))).execute()
