"""`Completion` and `Response`: answers that clients asked to have kept, each for the API key that made it."""

import itertools
from typing import Any

import peewee

from blazar.control import KEPT_DAYS
from blazar.models.base import Table, query

LIFETIME = KEPT_DAYS * 86400
"""Seconds for which an answer is kept."""
MOST = 10_000
"""Answers of one table that are kept for one owner; the oldest go first."""
MOST_BYTES = 256 << 20
"""Bytes of them."""
PAGE_BYTES = 4 << 20
"""Bytes of the answers of one page, which has at least one."""

Row = dict[str, Any]


class Stored(Table):
    """What both tables share. JSON stays text here; who reads it has made it."""

    number = peewee.AutoField()
    """In the order in which they were kept."""
    id = peewee.TextField()
    owner = peewee.TextField()
    """Whose it is: what stands for an API key, '' where none are configured. Nobody else sees it."""
    model = peewee.TextField()
    """The canonical name."""
    expires_at = peewee.BigIntegerField()
    """Seconds since 1970."""
    size = peewee.BigIntegerField()
    """Bytes of the three texts."""
    metadata = peewee.TextField()
    """The client's own notes, a JSON object of texts; the one thing that may be changed later."""
    input = peewee.TextField()
    """What was asked: a JSON list of messages or items."""
    body = peewee.TextField()
    """The answer, a JSON object."""

    @classmethod
    @query
    def put(cls, row: Row, now: float, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        """Keep one more; what has had its time goes, and the owner's oldest where there are too many."""
        cls.delete().where(cls.expires_at <= int(now)).execute()
        size = sum(len(row[text].encode()) for text in ("metadata", "input", "body"))
        cls.replace(**row, size=size, expires_at=int(now) + LIFETIME).execute()
        kept: Any = cls.select(cls.number, cls.size).where(cls.owner == row["owner"]).order_by(
            cls.number.desc()).tuples()
        total = 0
        for count, (number, size) in enumerate(kept, 1):
            total += size
            if count > most or (total > most_bytes and count > 1):
                cls.delete().where(cls.owner == row["owner"], cls.number <= number).execute()
                return

    @classmethod
    @query
    def find(cls, owner: str, id: str, now: float) -> Row | None:
        """The row as plain values."""
        row: Any = cls.select().where(*cls._living(owner, now), cls.id == id).dicts().first()
        return row

    @classmethod
    @query
    def annotate(cls, owner: str, id: str, metadata: str, now: float) -> bool:
        """Change the metadata; whether there is such an answer."""
        return bool(cls.update(metadata=metadata).where(*cls._living(owner, now), cls.id == id).execute())

    @classmethod
    @query
    def forget(cls, owner: str, id: str, now: float) -> bool:
        """Whether there was such an answer."""
        return bool(cls.delete().where(*cls._living(owner, now), cls.id == id).execute())

    @classmethod
    @query
    def page(cls, owner: str, now: float, after: str | None, limit: int, newest_first: bool, model: str | None,
             pairs: dict[str, str], page_bytes: int = PAGE_BYTES) -> tuple[list[Row], bool]:
        """Up to `limit` rows (metadata and body), and whether more follow.

        They come in their order after the row whose id is `after`, those alone that are of `model` and whose metadata
        have all the `pairs`. An `after` that is not there gives none.
        """
        wanted = [*cls._living(owner, now)]
        if after is not None:
            start: Any = cls.select(cls.number).where(cls.owner == owner, cls.id == after).scalar()
            wanted.append(cls.number < (start or 0) if newest_first else cls.number > (start or 1 << 62))
        if model is not None:
            wanted.append(cls.model == model)
        # SQLite's paths have no escape for a quote, so a key that has one matches nothing.
        wanted += [peewee.fn.json_extract(cls.metadata, f'$."{key}"') == value if '"' not in key else peewee.SQL("0")
                   for key, value in pairs.items()]
        order = cls.number.desc() if newest_first else cls.number
        found: Any = cls.select(cls.number, cls.size).where(*wanted).order_by(order).limit(limit + 1).tuples()
        numbers = [number for number, _ in found]
        sizes = itertools.accumulate(size for _, size in found)
        shown = numbers[:max(1, min(limit, sum(size <= page_bytes for size in sizes)))]
        rows: Any = cls.select(cls.metadata, cls.body).where(cls.number.in_(shown)).order_by(order).dicts()
        return list(rows), len(numbers) > len(shown)

    @classmethod
    def _living(cls, owner: str, now: float) -> tuple[Any, Any]:
        return cls.owner == owner, cls.expires_at > int(now)


class Completion(Stored):
    """Chat completions that were asked for with `store`."""

    class Meta:
        table_name = "completion"


class Response(Stored):
    """Responses; `input` holds all the items that the model was shown, those of earlier responses included."""

    class Meta:
        table_name = "response"
