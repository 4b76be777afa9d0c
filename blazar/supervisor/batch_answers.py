"""Answers to what the gateway asks about files of clients and their batches, which are written here alone."""

import json
import time
from collections.abc import Callable
from typing import Any

from blazar.control import KEPT_DAYS, Link, Message
from blazar.errors import BatchEnded, BatchMissing, FileInUse, FileMissing, UsageRefused
from blazar.models.batch import Batch, BatchAnswer
from blazar.models.client_file import ClientFile
from blazar.paths import Paths
from blazar.store.client_files import FileWriter, remove, sweep_files, sweep_partials, take
from blazar.supervisor.store_answers import Later

LIFETIME = KEPT_DAYS * 86400
"""Seconds for which a file is kept whose client does not say."""
CANCELLABLE = ("validating", "in_progress", "finalizing")

Work = Callable[[], dict[str, Any]]


class BatchAnswers:
    """`kinds` are the messages it answers."""

    def __init__(self, paths: Paths, later: Later, wall: Callable[[], float] = time.time) -> None:
        self._paths = paths
        self._later = later
        self._wall = wall
        self._files: dict[str, Callable[[Message], Work]] = {
            "check": self._check, "put": self._put_file, "find": self._find_file, "page": self._page_files,
            "forget": self._forget_file}
        self._batches: dict[str, Callable[[Message], Work]] = {
            "put": self._put_batch, "find": self._find_batch, "page": self._page_batches, "cancel": self._cancel,
            "next": self._next, "move": self._move, "answer": self._answer, "finish": self._finish}
        self.kinds: dict[str, Callable[[Link, Message], None]] = {
            "files": lambda link, message: self._do(self._files, link, message),
            "batches": lambda link, message: self._do(self._batches, link, message)}

    def tidy(self) -> None:
        """Once, before anybody asks: delete files that have had their time, or that a killed process left behind."""
        self._forget_expired()
        sweep_files(self._paths, ClientFile.ids())

    def _do(self, verbs: dict[str, Callable[[Message], Work]], link: Link, message: Message) -> None:
        verb = verbs.get(message["verb"])
        if verb is None:
            raise UsageRefused(f"`{message['kind']}` knows no {message['verb']!r}")
        self._later(link, message, verb(message), reads_files=message["verb"] in ("put", "finish"))

    # -- files -------------------------------------------------------------------------------------------

    def _check(self, message: Message) -> Work:
        owner, size = str(message["owner"]), int(message["size"])

        def check() -> dict[str, Any]:
            self._forget_expired()
            sweep_partials(self._paths)
            ClientFile.check(owner, size)
            return {}
        return check

    def _put_file(self, message: Message) -> Work:
        row = self._file_row(str(message["object"]), str(message["owner"]), str(message["name"]), "batch",
                             int(message["size"]), message["lifetime"])

        def put() -> dict[str, Any]:
            take(self._paths, row["id"])
            try:
                ClientFile.put(row)
            except BaseException:
                remove(self._paths, row["id"])
                raise
            return {"row": row}
        return put

    def _file_row(self, id: str, owner: str, name: str, purpose: str, size: int, lifetime: Any) -> dict[str, Any]:
        now = int(self._wall())
        return {"id": id, "owner": owner, "name": name, "purpose": purpose, "size": size, "created_at": now,
                "expires_at": now + int(lifetime or LIFETIME)}

    def _find_file(self, message: Message) -> Work:
        owner, id = str(message["owner"]), str(message["object"])
        return lambda: {"row": self._existing(owner, id)}

    def _existing(self, owner: str, id: str) -> dict[str, Any]:
        row = ClientFile.find(owner, id)
        if row is None or row["expires_at"] <= self._wall():
            raise FileMissing(id=id[:100])
        return row

    def _page_files(self, message: Message) -> Work:
        owner, after, purpose = str(message["owner"]), message["after"], message["purpose"]
        limit, newest_first = int(message["limit"]), bool(message["newest_first"])

        def page() -> dict[str, Any]:
            self._forget_expired()
            rows, more = ClientFile.page(owner, after, limit, newest_first, purpose)
            return {"rows": rows, "more": more}
        return page

    def _forget_file(self, message: Message) -> Work:
        owner, id = str(message["owner"]), str(message["object"])

        def forget() -> dict[str, Any]:
            batch = Batch.reading(self._existing(owner, id)["id"])
            if batch is not None:
                raise FileInUse(id=id, batch=batch)
            ClientFile.forget(owner, id)
            remove(self._paths, id)
            return {}
        return forget

    def _forget_expired(self) -> None:
        for owner, id in ClientFile.expired(self._wall()):
            if Batch.reading(id) is None:
                ClientFile.forget(owner, id)
                remove(self._paths, id)

    # -- batches -----------------------------------------------------------------------------------------

    def _put_batch(self, message: Message) -> Work:
        row = {"id": str(message["object"]), "owner": str(message["owner"]), "state": "validating",
               "input_file": str(message["file"]), "body": json.dumps(dict(message["body"]))}

        def put() -> dict[str, Any]:
            self._existing(row["owner"], row["input_file"])
            Batch.put(row)
            return {"row": Batch.find(row["owner"], row["id"])}
        return put

    def _find_batch(self, message: Message) -> Work:
        owner, id = str(message["owner"]), str(message["object"])

        def find() -> dict[str, Any]:
            row = Batch.find(owner, id)
            if row is None:
                raise BatchMissing(id=id[:100])
            return {"row": row}
        return find

    def _page_batches(self, message: Message) -> Work:
        owner, after, limit = str(message["owner"]), message["after"], int(message["limit"])

        def page() -> dict[str, Any]:
            rows, more = Batch.page(owner, after, limit)
            return {"rows": rows, "more": more}
        return page

    def _cancel(self, message: Message) -> Work:
        find, now = self._find_batch(message), int(self._wall())

        def cancel() -> dict[str, Any]:
            row = find()["row"]
            if row["state"] != "cancelling" and not Batch.move(row["id"], CANCELLABLE, "cancelling",
                                                               {"cancelling_at": now}):
                raise BatchEnded(id=row["id"], state=row["state"])
            return find()
        return cancel

    # What follows is asked by whoever works through them, of any owner.

    def _next(self, message: Message) -> Work:
        resting = [str(owner) for owner in message["resting"]]
        return lambda: {"row": Batch.next(resting)}

    def _move(self, message: Message) -> Work:
        id, states, state = str(message["object"]), [str(message["expected"])], str(message["state"])
        changes = dict(message["changes"])
        return lambda: {"there": Batch.move(id, states, state, changes)}

    def _answer(self, message: Message) -> Work:
        id = str(message["object"])
        rows = [(int(line), bool(failed), str(text)) for line, failed, text in message["rows"]]

        def answer() -> dict[str, Any]:
            BatchAnswer.add(id, rows)
            return {}
        return answer

    def _finish(self, message: Message) -> Work:
        """Make the files of a batch of its answers, then say that it has ended. Whatever is cut short is done again
        from the beginning, under the same ids."""
        id, owner, state = str(message["object"]), str(message["owner"]), str(message["state"])
        files = {False: str(message["output"]), True: str(message["errors"])}

        def finish() -> dict[str, Any]:
            row = Batch.find(owner, id)
            if row is None:
                raise BatchMissing(id=id[:100])
            counts = {"completed": row["answered"] - row["failed"], "failed": row["failed"]}
            lifetime = json.loads(row["body"]).get("output_lifetime")
            made = {failed: self._made(id, owner, failed, file, lifetime) for failed, file in files.items()}
            Batch.end(id, row["state"], state, {**counts, "output_file_id": made[False], "error_file_id": made[True],
                                                f"{state}_at": int(self._wall())})
            return {}
        return finish

    def _made(self, batch: str, owner: str, failed: bool, id: str, lifetime: Any) -> str | None:
        """The id of the file of one kind of answers, None when there are none."""
        if not BatchAnswer.part(batch, failed, -1, 1):
            return None
        if ClientFile.find(owner, id) is not None:
            return id
        writer = FileWriter(self._paths, id, largest=None)
        try:
            last = -1
            while rows := BatchAnswer.part(batch, failed, last):
                last = rows[-1][0]
                writer.write(b"".join(text.encode() + b"\n" for _, text in rows))
            writer.seal()
            take(self._paths, id)
        finally:
            writer.close()
        name = f"{batch}_{'error' if failed else 'output'}.jsonl"
        ClientFile.put(self._file_row(id, owner, name, "batch_output", writer.size, lifetime))
        return id
