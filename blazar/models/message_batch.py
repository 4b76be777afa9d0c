"""`MessageBatch` and `BatchRequest`: batches of Anthropic messages, each for the API key that sent it.

A request has no outcome until it is answered, and then keeps it, so that it is answered once whatever is killed in
between. A batch ends with the last of its requests.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import peewee

from blazar.control import KEPT_DAYS
from blazar.errors import MessageBatchesFull
from blazar.models.base import Table, change, query
from blazar.units import format_bytes

LIFETIME = 86400
"""Seconds after which requests of a batch that were not answered expire."""
MOST = 1000
"""Batches of one owner."""
MOST_BYTES = 512 << 20
"""Bytes of all their requests and results."""
PAGE_BYTES = 4 << 20
"""Bytes of the results of one page, which has at least one."""
OUTCOMES = ("succeeded", "errored", "canceled", "expired")

Row = dict[str, Any]


class MessageBatch(Table):
    number = peewee.AutoField()
    id = peewee.TextField()
    owner = peewee.TextField()
    """What stands for an API key, '' where none are configured. Nobody else sees the batch."""
    requests = peewee.IntegerField()
    """How many."""
    created_at = peewee.BigIntegerField()
    """Seconds since 1970, as the others."""
    expires_at = peewee.BigIntegerField()
    cancelled_at = peewee.BigIntegerField(null=True)
    ended_at = peewee.BigIntegerField(null=True)

    class Meta:
        table_name = "message_batch"

    @classmethod
    @change
    def put(cls, owner: str, id: str, requests: Sequence[tuple[str, str]], now: float, most: int = MOST,
            most_bytes: int = MOST_BYTES) -> Row:
        """Keep a new batch of (custom_id, body), and forget those that ended long ago. Raises MessageBatchesFull."""
        old: Any = cls.select(cls.number).where(cls.ended_at <= int(now) - KEPT_DAYS * 86400)
        cls._remove([number for (number,) in old.tuples()])
        kept: Any = cls.select(cls.number).where(cls.owner == owner)
        size: Any = BatchRequest.select(peewee.fn.SUM(BatchRequest.size)).where(BatchRequest.batch.in_(kept)).scalar()
        size = (size or 0) + sum(len(body.encode()) for _, body in requests)
        count = kept.count() + 1
        if count > most or size > most_bytes:
            raise MessageBatchesFull(count=count, size=format_bytes(size), most=most,
                                     most_bytes=format_bytes(most_bytes))
        number: Any = cls.insert(id=id, owner=owner, requests=len(requests), created_at=int(now),
                                 expires_at=int(now) + LIFETIME).execute()
        for position, (custom_id, body) in enumerate(requests):
            BatchRequest.insert(batch=number, position=position, custom_id=custom_id, body=body,
                                size=len(body.encode())).execute()
        return cls._row(cls.id == id)

    @classmethod
    @query
    def find(cls, owner: str, id: str, now: float) -> Row | None:
        """The batch as plain values, with `counts` of its requests by outcome."""
        cls._settle(now)
        return cls._row(cls.owner == owner, cls.id == id)

    @classmethod
    @query
    def page(cls, owner: str, now: float, after: str | None, before: str | None, limit: int) -> tuple[list[Row], bool]:
        """Up to `limit` batches, the newest first: those right after the one whose id is `after`, or right before; and
        whether more follow in that direction. One that is not there gives none."""
        cls._settle(now)
        wanted: list[Any] = [cls.owner == owner]
        for id, older in ((after, True), (before, False)):
            if id is not None:
                place: Any = cls.select(cls.number).where(cls.owner == owner, cls.id == id).scalar() or 0
                wanted.append(cls.number < place if older else cls.number > (place or 1 << 62))
        order = cls.number if before is not None else cls.number.desc()
        found: Any = cls.select(cls.number).where(*wanted).order_by(order).limit(limit + 1).tuples()
        numbers = [number for (number,) in found]
        shown = sorted(numbers[:limit], reverse=True)
        return [cls._row(cls.number == number) for number in shown], len(numbers) > limit

    @classmethod
    @query
    def cancel(cls, owner: str, id: str, now: float) -> Row | None:
        """End a batch: what has no answer yet gets none. One that has ended stays as it is."""
        cls._settle(now)
        cls.update(cancelled_at=int(now)).where(cls.owner == owner, cls.id == id, cls.ended_at.is_null()).execute()
        cls._settle(now)
        return cls._row(cls.owner == owner, cls.id == id)

    @classmethod
    @change
    def forget(cls, owner: str, id: str) -> Row | None:
        """Remove a batch that has ended; the row is what was found, ended or not."""
        row = cls._row(cls.owner == owner, cls.id == id)
        if row is not None and row["ended_at"] is not None:
            cls._remove([row["number"]])
        return row

    @classmethod
    @query
    def next(cls, now: float, resting: Iterable[str] = ()) -> Row | None:
        """The oldest request without an outcome, of no owner who is `resting`: batch owner position body."""
        cls._settle(now)
        shown = BatchRequest.batch, cls.owner, BatchRequest.position, BatchRequest.body
        wanted = cls.ended_at.is_null(), BatchRequest.outcome.is_null(), cls.owner.not_in(list(resting))
        row: Any = BatchRequest.select(*shown).join(cls, on=(cls.number == BatchRequest.batch)).where(*wanted).order_by(
            BatchRequest.batch, BatchRequest.position).limit(1).dicts().first()
        return row

    @classmethod
    @query
    def answer(cls, batch: int, position: int, outcome: str, body: str, now: float) -> bool:
        """Keep a request's result in place of the request; whether it had none, and was still there."""
        kept = BatchRequest.update(outcome=outcome, body=body, size=len(body.encode())).where(
            BatchRequest.batch == batch, BatchRequest.position == position, BatchRequest.outcome.is_null()).execute()
        cls._settle(now)
        return bool(kept)

    @classmethod
    @query
    def results(cls, owner: str, id: str, after: int, page_bytes: int = PAGE_BYTES) -> tuple[list[Row], bool] | None:
        """Results (position custom_id outcome body) after that position, and whether more follow; None without such a
        batch, or while it has not ended."""
        ended = cls.owner == owner, cls.id == id, cls.ended_at.is_null(False)
        number: Any = cls.select(cls.number).where(*ended).scalar()
        if number is None:
            return None
        here = BatchRequest.batch == number, BatchRequest.position > after
        sizes: Any = BatchRequest.select(BatchRequest.position, BatchRequest.size).where(*here).order_by(
            BatchRequest.position).limit(1000).tuples()
        positions = [position for position, _ in sizes]
        totals = itertools.accumulate(size for _, size in sizes)
        shown = positions[:max(1, sum(total <= page_bytes for total in totals))]
        rows: Any = BatchRequest.select(BatchRequest.position, BatchRequest.custom_id, BatchRequest.outcome,
                                        BatchRequest.body).where(*here, BatchRequest.position <= max(shown, default=0)
                                                                 ).order_by(BatchRequest.position).dicts()
        more = BatchRequest.select().where(BatchRequest.batch == number,
                                           BatchRequest.position > max(shown, default=after)).exists()
        return list(rows) if shown else [], more

    @classmethod
    def _settle(cls, now: float) -> None:
        """Give an outcome to what will not be answered any more, and end the batches that have nothing open."""
        living = cls.ended_at.is_null()
        for outcome, which in (("canceled", cls.cancelled_at.is_null(False)), ("expired", cls.expires_at <= int(now))):
            batches = cls.select(cls.number).where(living, which)
            BatchRequest.update(outcome=outcome, body="", size=0).where(
                BatchRequest.batch.in_(batches), BatchRequest.outcome.is_null()).execute()
        still_open = BatchRequest.select().where(BatchRequest.batch == cls.number, BatchRequest.outcome.is_null())
        cls.update(ended_at=int(now)).where(living, ~peewee.fn.EXISTS(still_open)).execute()

    @classmethod
    def _row(cls, *where: Any) -> Any:
        row: Any = cls.select().where(*where).dicts().first()
        if row is not None:
            counts: Any = BatchRequest.select(BatchRequest.outcome, peewee.fn.COUNT(BatchRequest.outcome)).where(
                BatchRequest.batch == row["number"], BatchRequest.outcome.is_null(False)).group_by(
                BatchRequest.outcome).tuples()
            row["counts"] = dict(counts)
        return row

    @classmethod
    def _remove(cls, numbers: list[int]) -> None:
        BatchRequest.delete().where(BatchRequest.batch.in_(numbers)).execute()
        cls.delete().where(cls.number.in_(numbers)).execute()


class BatchRequest(Table):
    batch = peewee.IntegerField()
    """The batch's number."""
    position = peewee.IntegerField()
    custom_id = peewee.TextField()
    outcome = peewee.TextField(null=True)
    """One of OUTCOMES; None until then."""
    size = peewee.IntegerField()
    """Bytes of `body`."""
    body = peewee.TextField()
    """JSON: the request while it has no outcome, then a message, an error, or nothing."""

    class Meta:
        table_name = "message_batch_request"
        primary_key = peewee.CompositeKey("batch", "position")
