"""`ClientFile`: files that clients have uploaded, or that a batch made for them. Their content lies in `files/`."""

from typing import Any

import peewee

from blazar.errors import FilesFull
from blazar.models.base import Table, change, query
from blazar.units import format_bytes

MOST = 1000
"""Files of one owner."""
MOST_BYTES = 4 << 30
"""Bytes of them."""

Row = dict[str, Any]


class ClientFile(Table):
    number = peewee.AutoField()
    """In the order in which they came."""
    id = peewee.TextField(unique=True)
    owner = peewee.TextField()
    """Whose it is, as `models.stored` has it."""
    name = peewee.TextField()
    """What its client calls it."""
    purpose = peewee.TextField()
    """`batch`, or `batch_output`."""
    size = peewee.BigIntegerField()
    """Bytes."""
    created_at = peewee.BigIntegerField()
    expires_at = peewee.BigIntegerField()
    """Seconds since 1970, both."""

    class Meta:
        table_name = "file"

    @classmethod
    @change
    def put(cls, row: Row, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        """Note one more. Raises FilesFull; what a batch made is not refused."""
        if row["purpose"] == "batch":
            cls.check(row["owner"], row["size"], most, most_bytes)
        cls.insert(**row).execute()

    @classmethod
    @query
    def check(cls, owner: str, size: int, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        """Raises FilesFull where the owner may not have a file of `size` bytes more."""
        counted: Any = cls.select(peewee.fn.COUNT(cls.number), peewee.fn.TOTAL(cls.size)).where(
            cls.owner == owner).tuples().first()
        count, total = counted[0], int(counted[1])
        if count >= most or total + size > most_bytes:
            raise FilesFull(count=count, size=format_bytes(total), most=most, most_bytes=format_bytes(most_bytes))

    @classmethod
    @query
    def find(cls, owner: str, id: str) -> Row | None:
        row: Any = cls.select().where(cls.owner == owner, cls.id == id).dicts().first()
        return row

    @classmethod
    @query
    def page(cls, owner: str, after: str | None, limit: int, newest_first: bool, purpose: str | None,
             ) -> tuple[list[Row], bool]:
        """Up to `limit` rows after that of the id `after`, and whether more follow."""
        wanted: list[Any] = [cls.owner == owner]
        if after is not None:
            start: Any = cls.select(cls.number).where(cls.owner == owner, cls.id == after).scalar()
            wanted.append(cls.number < (start or 0) if newest_first else cls.number > (start or 1 << 62))
        if purpose is not None:
            wanted.append(cls.purpose == purpose)
        order = cls.number.desc() if newest_first else cls.number
        rows: Any = cls.select().where(*wanted).order_by(order).limit(limit + 1).dicts()
        found = list(rows)
        return found[:limit], len(found) > limit

    @classmethod
    @query
    def forget(cls, owner: str, id: str) -> bool:
        """Whether there was such a file."""
        return bool(cls.delete().where(cls.owner == owner, cls.id == id).execute())

    @classmethod
    @query
    def expired(cls, now: float) -> list[tuple[str, str]]:
        """Owner and id of each file that has had its time."""
        rows: Any = cls.select(cls.owner, cls.id).where(cls.expires_at <= int(now)).tuples()
        return list(rows)

    @classmethod
    @query
    def ids(cls) -> set[str]:
        """Those of all files."""
        rows: Any = cls.select(cls.id).tuples()
        return {id for id, in rows}
