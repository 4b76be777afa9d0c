"""`Engine`: one row for each engine build that is installed."""

from typing import Any

import peewee

from blazar.models.base import Table, change, query


class Engine(Table):
    """Written by whoever installs, activates or removes builds, in one transaction."""

    kind = peewee.TextField()
    """The engine it is a build of: `llamacpp`."""
    tag = peewee.TextField()
    """Its name among the builds of its kind: `b11434`, `b11434-cpu`, `local`, `embedded-2026.10.11549`."""
    path = peewee.TextField()
    """The program, relative to the data dir; absolute only for a build that lies elsewhere."""
    flavour = peewee.TextField()
    """What it computes with: `cpu`, `vulkan`, `cuda`; `embedded` when `path` is a Python that has xllamacpp."""
    source = peewee.TextField()
    """Where it came from, for people."""
    sha256 = peewee.TextField(null=True)
    """Of what was downloaded, 64 hex digits; null for builds made here."""
    installed_at = peewee.TextField()
    """RFC 3339, UTC."""
    active = peewee.BooleanField(default=False)
    """Whether it is the one in use; at most one of each kind."""
    pinned = peewee.BooleanField(default=False)
    """Whether it is kept when old builds are removed."""
    turn = peewee.IntegerField(default=0)
    """Counts the activations of its kind: the highest among the inactive is what was in use before; 0 = never."""

    class Meta:
        table_name = "engine"
        primary_key = peewee.CompositeKey("kind", "tag")

    @classmethod
    @query
    def every(cls, kind: str | None = None) -> list[dict[str, Any]]:
        """All rows as plain values, by kind and tag; only those of `kind` when it is given."""
        rows: Any = cls.select().order_by(cls.kind, cls.tag)
        return list((rows if kind is None else rows.where(cls.kind == kind)).dicts())

    @classmethod
    @query
    def find(cls, kind: str, tag: str) -> dict[str, Any] | None:
        """The row of that build, or None."""
        return cls.select().where(cls.kind == kind, cls.tag == tag).dicts().first()

    @classmethod
    @query
    def in_use(cls, kind: str) -> dict[str, Any] | None:
        """The active row of `kind`, or None."""
        return cls.select().where(cls.kind == kind, cls.active).dicts().first()

    @classmethod
    @query
    def before(cls, kind: str) -> dict[str, Any] | None:
        """The row that was in use before the active one, or None: what a rollback activates."""
        rows: Any = cls.select().where(cls.kind == kind, ~cls.active, cls.turn > 0)
        return rows.order_by(cls.turn.desc()).dicts().first()

    @classmethod
    @query
    def put(cls, **row: Any) -> None:
        """Write a row, in place of the one of that kind and tag."""
        cls.replace(**row).execute()

    @classmethod
    @change
    def activate(cls, kind: str, tag: str) -> bool:
        """Make that build the one in use, in place of any other; False, and no change, when it is not there."""
        mine = (cls.kind == kind) & (cls.tag == tag)
        if not cls.select().where(mine).exists():
            return False
        turn = cls.select(peewee.fn.MAX(cls.turn)).where(cls.kind == kind).scalar() + 1
        cls.update(active=False).where(cls.kind == kind).execute()
        cls.update(active=True, turn=turn).where(mine).execute()
        return True

    @classmethod
    @query
    def pin(cls, kind: str, tag: str, pinned: bool) -> bool:
        """Keep that build, or no longer; whether there was one."""
        return cls.update(pinned=pinned).where(cls.kind == kind, cls.tag == tag).execute() > 0

    @classmethod
    @query
    def forget(cls, kind: str, tag: str) -> bool:
        """Drop the row of that build; whether there was one."""
        return cls.delete().where(cls.kind == kind, cls.tag == tag).execute() > 0
