"""`Batch`: requests of a file that are answered in the background; `BatchAnswer`: the answers that there are so far."""

import json
from collections.abc import Iterable
from typing import Any

import peewee

from blazar.errors import BatchesFull
from blazar.models.base import Table, change, query

ACTIVE = ("validating", "in_progress", "finalizing", "cancelling")
"""States in which there is something to do."""
MOST_ACTIVE = 100
"""Batches of one owner that are to be done."""
MOST = 1000
"""Batches that are kept for one owner; of those that have ended the oldest go first."""

Row = dict[str, Any]


class Batch(Table):
    number = peewee.AutoField()
    """In the order in which they were made, and are done."""
    id = peewee.TextField(unique=True)
    owner = peewee.TextField()
    """Whose it is, as `models.stored` has it."""
    state = peewee.TextField()
    """OpenAI's word: one of ACTIVE, or completed, failed, expired, cancelled."""
    input_file = peewee.TextField()
    body = peewee.TextField()
    """What else its client is told of it, a JSON object; once it has ended with the counts."""

    class Meta:
        table_name = "batch"

    @classmethod
    @change
    def put(cls, row: Row, most: int = MOST, most_active: int = MOST_ACTIVE) -> None:
        """One more to be done. Raises BatchesFull."""
        own = cls.owner == row["owner"]
        active = cls.select().where(own, cls.state.in_(ACTIVE)).count()
        if active >= most_active:
            raise BatchesFull(active=active)
        cls.insert(**row).execute()
        last: Any = cls.select(cls.number).where(own).order_by(cls.number.desc()).offset(most).limit(1).scalar()
        if last is not None:
            cls.delete().where(own, cls.number <= last, cls.state.not_in(ACTIVE)).execute()

    @classmethod
    @query
    def find(cls, owner: str, id: str) -> Row | None:
        """The row, with what it has of answers."""
        row: Any = cls.select().where(cls.owner == owner, cls.id == id).dicts().first()
        return None if row is None else _counted(row)

    @classmethod
    @query
    def page(cls, owner: str, after: str | None, limit: int) -> tuple[list[Row], bool]:
        """Up to `limit` rows, the newest first, after that of the id `after`; and whether more follow."""
        wanted: list[Any] = [cls.owner == owner]
        if after is not None:
            start: Any = cls.select(cls.number).where(cls.owner == owner, cls.id == after).scalar()
            wanted.append(cls.number < (start or 0))
        rows: Any = cls.select().where(*wanted).order_by(cls.number.desc()).limit(limit + 1).dicts()
        found = list(rows)
        return [_counted(row) for row in found[:limit]], len(found) > limit

    @classmethod
    @query
    def next(cls, resting: Iterable[str]) -> Row | None:
        """The oldest that is to be done, of no owner who is `resting`; lines before `answered` have their answer."""
        row: Any = cls.select().where(cls.state.in_(ACTIVE), cls.owner.not_in(list(resting))).order_by(
            cls.number).dicts().first()
        if row is None:
            return None
        last: Any = BatchAnswer.select(peewee.fn.MAX(BatchAnswer.line)).where(BatchAnswer.batch == row["id"]).scalar()
        return {**row, "answered": 0 if last is None else last + 1}

    @classmethod
    @change
    def move(cls, id: str, states: Iterable[str], state: str, changes: Row) -> bool:
        """Give a batch that is in one of `states` the new `state`, and its body these `changes`; whether it was."""
        row: Any = cls.select(cls.body).where(cls.id == id, cls.state.in_(list(states))).first()
        if row is None:
            return False
        body = json.dumps({**json.loads(row.body), **changes})
        return bool(cls.update(state=state, body=body).where(cls.id == id).execute())

    @classmethod
    @change
    def end(cls, id: str, before: str, state: str, changes: Row) -> None:
        """Give a batch its last state, unless it is no longer in the one `before`. Its answers lie in files by now."""
        if cls.move(id, [before], state, changes):
            BatchAnswer.delete().where(BatchAnswer.batch == id).execute()

    @classmethod
    @query
    def reading(cls, file: str) -> str | None:
        """The id of a batch that is to be done and reads this file."""
        id: Any = cls.select(cls.id).where(cls.input_file == file, cls.state.in_(ACTIVE)).scalar()
        return id


class BatchAnswer(Table):
    """One line of what will be the output file of a batch, or its error file. Gone once they are made."""

    batch = peewee.TextField()
    line = peewee.IntegerField()
    """That of the request in the input file, from 0."""
    failed = peewee.BooleanField()
    text = peewee.TextField()
    """JSON, without the end of the line."""

    class Meta:
        table_name = "batch_answer"
        primary_key = peewee.CompositeKey("batch", "line")

    @classmethod
    @change
    def add(cls, batch: str, rows: Iterable[tuple[int, bool, str]]) -> None:
        """Keep answers: (line, failed, text). The first one to a line stays, and a batch that has ended gets none."""
        if Batch.select().where(Batch.id == batch, Batch.state.in_(ACTIVE)).exists():
            for line, failed, text in rows:
                cls.insert(batch=batch, line=line, failed=failed, text=text).on_conflict_ignore().execute()

    @classmethod
    @query
    def part(cls, batch: str, failed: bool, after: int, limit: int = 100) -> list[tuple[int, str]]:
        """Line and text of the next answers of one kind."""
        rows: Any = cls.select(cls.line, cls.text).where(
            cls.batch == batch, cls.failed == failed, cls.line > after).order_by(cls.line).limit(limit).tuples()
        return list(rows)


def _counted(row: Row) -> Row:
    """The row of a batch, with the counts of its answers so far."""
    counts: Any = BatchAnswer.select(BatchAnswer.failed, peewee.fn.COUNT(BatchAnswer.line)).where(
        BatchAnswer.batch == row["id"]).group_by(BatchAnswer.failed).tuples()
    by_kind = dict(list(counts))
    return {**row, "answered": sum(by_kind.values()), "failed": by_kind.get(True, 0)}
