"""KV sessions: a child's slots are saved before it goes, and given to the child that comes back. Runs on threads.

Nothing here fails for anybody: without a bank a prompt is only read again. The engine's own files hold neither a sum
nor the model they belong to, so both are looked at before it gets them (`banks.py`).
"""

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from blazar.supervisor import banks, processes
from blazar.supervisor.banks import Bank, Part
from blazar.supervisor.health import Ready, Target, own_address, wait_ready
from blazar.supervisor.policies import session_bank
from blazar.supervisor.questions import ask
from blazar.units import format_bytes

log = logging.getLogger(__name__)

SAVE_LIMIT = 5.0
"""Seconds saving may take, all slots together."""
RESTORE_LIMIT = 5.0
FIRST_ANSWER = 1.0
"""Seconds a child has for telling whether there is anything to save; one that hangs is not waited for."""
DYING = 0.5
"""Seconds in which the end of an engine shows that does not answer any more."""


class _Over(Exception):
    """The time is over, or the engine did not do it."""


def arrive(target: Target, bank: Bank | None) -> Ready | None:
    """As `wait_ready`; the child has its former slots again then, where there is a bank for it."""
    ready = wait_ready(target)
    if ready is None or bank is None:
        return ready
    tokens = restore(bank, target, ready)
    return None if tokens is None else replace(ready, restored=tokens)


def restore(bank: Bank, target: Target, ready: Ready, limit: float = RESTORE_LIMIT) -> int | None:
    """Give the child its slots; the tokens in them. A bad bank goes. None when the engine has ended over it."""
    index = bank.index(ready.ctx)
    entry = banks.read(index)
    if entry is None:
        banks.drop(index)
        return 0
    why = session_bank.difference(entry["origin"], {**bank.origin, "ctx": ready.ctx})
    end = time.monotonic() + limit
    if not why:
        try:
            return _give(index, entry["parts"][:ready.slots or 1], target, ready, end)
        except _Over as error:
            if target.process.exited.wait(DYING):
                return None  # `banks.blamed` tells whoever sees its end
            why = str(error)
        except OSError as error:
            why = f"they cannot be read: {error}"
    log.warning("%s: its saved conversations are not used and go: %s", target.model, why)
    banks.drop(index)
    return 0


def _give(index: Path, parts: list[Part], target: Target, ready: Ready, end: float) -> int:
    for part in parts:
        file = index.parent / part.file
        if file.stat().st_size != part.size or banks.checksum(file, lambda: _left(end)) != part.crc:
            raise OSError(f"{part.file} is damaged")
    mark = banks.begin_trying(index)
    for slot, part in enumerate(parts):
        status, answer = _slot(target, ready, slot, "restore", part.file, _left(end))
        if status != 200 or answer.get("n_restored") != part.tokens:
            raise _Over(_complaint(status, answer))
    mark.replace(index)
    tokens = sum(part.tokens for part in parts)
    log.info("%s: has %d tokens of its conversations again", target.model, tokens)
    return tokens


def save(bank: Bank, target: Target, ready: Ready, limit: float = SAVE_LIMIT) -> bool:
    """Save the child's slots within `limit` seconds, in place of the bank there was; whether that was done."""
    end = time.monotonic() + limit
    if not bank.lock.acquire(timeout=limit):
        return False
    try:
        if _is_stopped(target.process.pid) or own_address(target) != ready.address:
            return False
        used = _used_slots(target, ready, min(limit, FIRST_ANSWER))
        if not used:
            return False
        tokens = sum(used.values())
        why = session_bank.refusal(_estimate(bank, ready, tokens), banks.free_space(bank.folder))
        if not why:
            why = _save_slots(bank, target, ready, list(used), end)
    except (_Over, OSError) as error:
        why = str(error)
    finally:
        bank.lock.release()
    if why:
        log.info("%s: its conversations are not saved: %s", target.model, why)
    else:
        banks.shrink(bank.folder.parent, bank.keep)
    return not why


def _save_slots(bank: Bank, target: Target, ready: Ready, slots: list[int], end: float) -> str:
    """Have the engine write new files, then make them the bank; why not, when they are too much."""
    index = bank.index(ready.ctx)
    fresh: dict[Path, Part] = {}
    try:
        for slot in slots:
            file = index.with_suffix(f".{slot}.new")
            fresh[file] = Part(f"{index.stem}.{slot}.kv", 0, 0, 0)
            status, answer = _slot(target, ready, slot, "save", file.name, _left(end))
            if status != 200 or not isinstance(answer.get("n_saved"), int):
                raise _Over(_complaint(status, answer))
            size = file.stat().st_size
            file.chmod(0o600)
            fresh[file] = Part(f"{index.stem}.{slot}.kv", answer["n_saved"], size,
                               banks.checksum(file, lambda: _left(end)))
            why = session_bank.refusal(sum(part.size for part in fresh.values()), banks.free_space(bank.folder) + size)
            if why:
                banks.drop(index)
                return why
        banks.write(index, bank.model, {**bank.origin, "ctx": ready.ctx}, fresh, time.time())
    finally:
        for file in fresh:
            with suppress(OSError):
                file.unlink(missing_ok=True)
    log.info("%s: saved %d tokens of its conversations, %s", target.model,
             sum(part.tokens for part in fresh.values()), format_bytes(sum(part.size for part in fresh.values())))
    return ""


def _is_stopped(pid: int) -> bool:
    """Whether somebody has halted the process, so that it answers nothing."""
    fields = processes.stat_fields(pid)
    return bool(fields) and fields[0] == "T"


def _used_slots(target: Target, ready: Ready, limit: float) -> dict[int, int]:
    """The slots that hold something, and how many tokens. None of an engine that sleeps: it would wake to be asked."""
    status, props = _ask(target, ready, "/props", None, limit)
    if status != 200 or props.get("is_sleeping"):
        return {}
    status, slots = ask(target.process.pid, ready.address, "/slots", target.secret, limit=limit)
    if status != 200 or not isinstance(slots, list):
        return {}
    return {slot["id"]: slot["n_prompt_tokens"] for slot in slots
            if isinstance(slot, dict) and isinstance(slot.get("id"), int) and slot.get("n_prompt_tokens")}


def _estimate(bank: Bank, ready: Ready, tokens: int) -> int:
    whole = ready.ctx * max(1, ready.slots)
    return bank.cache_size * min(tokens, whole) // whole if whole else bank.cache_size


def _slot(target: Target, ready: Ready, slot: int, action: str, file: str,
          limit: float) -> tuple[int, Mapping[str, Any]]:
    return _ask(target, ready, f"/slots/{slot}?action={action}", {"filename": file}, limit)


def _ask(target: Target, ready: Ready, path: str, body: Mapping[str, Any] | None,
         limit: float) -> tuple[int, Mapping[str, Any]]:
    status, answer = ask(target.process.pid, ready.address, path, target.secret, body, limit)
    return status, answer if isinstance(answer, dict) else {}


def _left(end: float) -> float:
    """Seconds until `end`. Raises _Over after it."""
    left = end - time.monotonic()
    if left <= 0:
        raise _Over("it takes too long")
    return left


def _complaint(status: int, answer: Mapping[str, Any]) -> str:
    error = answer.get("error")
    said = error.get("message") if isinstance(error, dict) else None
    return f"the engine says {str(said)[:200]!r}" if said else f"the engine answers with status {status}"
