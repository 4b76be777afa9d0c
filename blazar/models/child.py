"""`Child`: the engine processes that run now, kept so that a later `serve` finds what a killed one left."""

from typing import Any

import peewee

from blazar.models.base import Table, query


class Child(Table):
    """Written by the supervisor only."""

    pid = peewee.IntegerField(primary_key=True)
    start_time = peewee.BigIntegerField()
    """Field 22 of /proc/<pid>/stat: with the pid it names one process, however often pids are used again."""
    name = peewee.TextField()
    """The canonical name of the model it serves."""
    address = peewee.TextField()
    state = peewee.TextField()

    class Meta:
        table_name = "child"

    @classmethod
    @query
    def every(cls) -> list[dict[str, Any]]:
        """All rows as plain values, by pid."""
        rows: Any = cls.select().order_by(cls.pid).dicts()
        return list(rows)

    @classmethod
    @query
    def put(cls, *, pid: int, start_time: int, name: str, address: str, state: str) -> None:
        """Write a child's row, in place of an older one with that pid."""
        cls.replace(pid=pid, start_time=start_time, name=name, address=address, state=state).execute()

    @classmethod
    @query
    def forget(cls, pid: int) -> None:
        cls.delete().where(cls.pid == pid).execute()

    @classmethod
    @query
    def forget_all(cls) -> None:
        cls.delete().execute()
