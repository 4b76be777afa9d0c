"""`Measurement`: one row for each figure that was measured, such as the speed of a model on an engine build."""

from collections.abc import Iterable, Mapping
from typing import Any

import peewee

from blazar.models.base import Table, query

KEPT = 200
"""Rows kept for one file and subject; older ones go."""


class Measurement(Table):
    """Written by whoever measures: `blazar bench`, and the daemon."""

    id = peewee.AutoField()
    subject = peewee.TextField()
    """Why it was measured: `bench`."""
    model = peewee.TextField()
    """The name under which the model was measured."""
    digest = peewee.TextField()
    """Its file, 64 hex digits: a name may stand for another file later."""
    engine = peewee.TextField()
    """The tag of the build, or what else says which engine it was."""
    method = peewee.TextField()
    """`llama-bench`, or `http` when a server was asked."""
    task = peewee.TextField()
    """`prompt` for reading, `generate` for writing."""
    tokens = peewee.IntegerField()
    rate = peewee.FloatField()
    """Tokens a second, the mean of the runs."""
    deviation = peewee.FloatField()
    """Standard deviation of that rate; 0 for one run."""
    runs = peewee.IntegerField()
    conditions = peewee.TextField()
    """What else mattered (threads, batch, devices) as JSON text."""
    measured_at = peewee.TextField()
    """RFC 3339, UTC."""

    class Meta:
        table_name = "measurement"

    @classmethod
    @query
    def add(cls, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write the rows, all or none, and drop the oldest of each file and subject beyond KEPT."""
        for row in rows:
            cls.insert(**row).execute()
            mine = (cls.digest == row["digest"]) & (cls.subject == row["subject"])
            newest: Any = cls.select(cls.id).where(mine).order_by(cls.id.desc()).limit(KEPT).tuples()
            cls.delete().where(mine, cls.id.not_in([number for (number,) in newest])).execute()

    @classmethod
    @query
    def of(cls, digest: str, subject: str) -> list[dict[str, Any]]:
        """The rows of that file and subject as plain values, the newest first."""
        rows: Any = cls.select().where(cls.digest == digest, cls.subject == subject).order_by(cls.id.desc()).dicts()
        return list(rows)
