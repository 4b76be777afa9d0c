"""`Routed`: what is asked of single models while one child, the router, serves them; all on the run loop.

A model that the router cannot serve has a child of its own, as has every model when the engine is no router.
"""

import http.client
import json
import logging
import time
from collections.abc import Callable
from typing import Any

from blazar.engines.router import section_of
from blazar.errors import BlazarError, RouterMissing
from blazar.supervisor.child import Child
from blazar.supervisor.means import Waiter
from blazar.supervisor.pool import Pool
from blazar.supervisor.states import State
from blazar.supervisor.workers import Workers
from blazar.transport import Endpoint, connection_to

log = logging.getLogger(__name__)

UNLOAD_LIMIT = 20.0
"""Seconds an unloading model is waited for; the router ends it by force after 10."""
ANSWER_LIMIT = 5.0
"""Seconds for one answer of the router."""
PAUSE = 0.05


class Routed:
    """`alone` asks for a child of the model's own, `has_own` says whether there is one."""

    def __init__(self, child: Child, workers: Workers, pool: Pool, alone: Callable[[str, Waiter, bool], None],
                 has_own: Callable[[str], bool]) -> None:
        self.child = child
        self._workers = workers
        self._pool = pool
        self._alone = alone
        self._has_own = has_own
        self._is_missing = False
        """Whether the engine is no router, as far as is known."""
        self._leaving: dict[str, list[Waiter]] = {}
        """Who asks for a model that is being unloaded: it is not asked for an answer before it is gone."""
        self._warned = ""

    def ensure_ready(self, model: str, waiter: Waiter, is_spare: bool = False) -> None:
        """Call `waiter` with the endpoint of the model; `is_spare` as in `Child.ensure_ready`."""
        def ready(_: Endpoint | None, error: BlazarError | None) -> None:
            endpoint = self.child.endpoints().get(model)
            if isinstance(error, RouterMissing):
                self._is_missing = True
                self._warn(error.message)
                self._alone(model, waiter, is_spare)
            elif error is not None or endpoint is not None:
                waiter(endpoint, error)
            else:
                self._alone(model, waiter, is_spare)

        if model in self._leaving:
            self._leaving[model].append(waiter)
        elif self._is_missing or self._has_own(model) or self._is_left_out(model):
            self._alone(model, waiter, is_spare)
        else:
            self.child.ensure_ready(ready, is_spare)

    def _is_left_out(self, model: str) -> bool:
        """Whether the router, when it was started last, could not take the model; it would not now."""
        child = self.child
        return child.prepared is not None and not child.outdated and model not in child.serves

    def reconsider(self) -> None:
        """Something was installed or removed: the engine may be a router now."""
        self._is_missing = False

    def serves(self, model: str) -> bool:
        return self.child.state is State.READY and model in self.child.serves

    def evict(self, model: str, then: Callable[[bool], None]) -> None:
        """Have the router unload the model when its running requests have ended; `then` is told whether it had it."""
        endpoint = self.child.endpoints()[model]
        self._leaving.setdefault(model, [])

        def left(was_loaded: bool | None, error: BlazarError | None) -> None:
            for waiter in self._leaving.pop(model, []):
                self.ensure_ready(model, waiter)
            then(bool(was_loaded))

        log.info("%s: unloading", endpoint.child_id)
        self._workers.drain(endpoint.child_id, lambda: self._pool.submit(left, unload, endpoint))

    def _warn(self, message: str) -> None:
        if message != self._warned:
            self._warned = message
            log.warning("%s", message)


def unload(endpoint: Endpoint) -> bool:
    """On a thread: have the router of `endpoint` unload its model, and wait until it is gone; whether it was loaded."""
    if _status(endpoint) == "unloaded" or not _ask(endpoint, "POST", "/models/unload"):
        return False
    deadline = time.monotonic() + UNLOAD_LIMIT
    while _status(endpoint) not in ("unloaded", "") and time.monotonic() < deadline:
        time.sleep(PAUSE)
    return True


def _status(endpoint: Endpoint) -> str:
    """What the router calls the state of its model; empty when it does not say."""
    models = _ask(endpoint, "GET", "/models").get("data") or ()
    return next((model["status"]["value"] for model in models if model["id"] == section_of(endpoint.model)), "")


def _ask(endpoint: Endpoint, method: str, path: str) -> dict[str, Any]:
    """The router's answer; empty when there was none that is of use."""
    connection = connection_to(endpoint.address, ANSWER_LIMIT)
    body = json.dumps({"model": section_of(endpoint.model)}) if method == "POST" else None
    headers = {"Authorization": f"Bearer {endpoint.secret}"} if endpoint.secret else {}
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        told = json.loads(answer.read()) if answer.status == 200 else {}
        return told if isinstance(told, dict) else {}
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    finally:
        connection.close()
