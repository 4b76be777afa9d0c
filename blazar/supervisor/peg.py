"""The first request of our own: a word in, a token out, so that the next request finds the engine warm."""

import logging

from blazar.supervisor.health import Ready, Target, own_address
from blazar.supervisor.questions import ask

log = logging.getLogger(__name__)

LIMIT = 30.0
"""Seconds after which nobody waits for the answer any more; the engine then drops the request."""
QUESTION = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "stream": False}


def peg(target: Target, ready: Ready, limit: float = LIMIT) -> bool:
    """Send it; whether it was answered. Runs on a thread."""
    if own_address(target) != ready.address:
        return False
    status, _ = ask(target.process.pid, ready.address, "/v1/chat/completions", target.secret, QUESTION, limit)
    log.info("%s: warmed up by a first request, which got status %d", target.model, status)
    return status == 200
