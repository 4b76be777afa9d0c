"""How many drafted tokens a child counts, and how many of them were right: two numbers of its own /metrics."""

import http.client
import re

from blazar.transport import Endpoint, connection_to

LIMIT = 2.0
"""Seconds for the answer."""
LONGEST = 1 << 20
"""Bytes of it that are read."""
_COUNT = r"^llamacpp:spec_decode_num_%s_tokens_total(?:\{[^}]*\})? (\d+(?:\.\d+)?(?:e\+?\d+)?)$"
DRAFTED, ACCEPTED = (re.compile(_COUNT % word, re.MULTILINE) for word in ("draft", "accepted"))


def read_drafts(endpoint: Endpoint) -> tuple[int, int] | None:
    """Drafted and accepted tokens since the child began; None when it does not tell them. Runs on a thread."""
    connection = connection_to(endpoint.address, LIMIT)
    try:
        headers = {"Authorization": f"Bearer {endpoint.secret}"} if endpoint.secret else {}
        connection.request("GET", "/metrics", headers=headers)
        answer = connection.getresponse()
        return counts(answer.read(LONGEST).decode("utf-8", "replace")) if answer.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def counts(text: str) -> tuple[int, int] | None:
    """Pure: out of a text in Prometheus's form."""
    drafted, accepted = DRAFTED.search(text), ACCEPTED.search(text)
    return (int(float(drafted[1])), int(float(accepted[1]))) if drafted and accepted else None
