"""Single questions to a child, beside its requests: JSON in, JSON out, and never an exception."""

import http.client
import json
from collections.abc import Mapping
from typing import Any

from blazar.supervisor import processes
from blazar.transport import Address, connection_to

ANSWER_LIMIT = 2.0
"""Seconds a question may take; a frozen child must not hold who asks for ever."""


def ask(pid: int, address: Address, path: str, secret: str | None, body: Mapping[str, Any] | None = None,
        limit: float = ANSWER_LIMIT) -> tuple[int, Any]:
    """Status and JSON of a GET, or of a POST of `body`; status 0 when there was no proper answer within `limit` s."""
    connection = connection_to(address, limit)
    try:
        connection.connect()
        if isinstance(address, str) and not processes.answers_for(connection.sock, pid):
            return 0, {}  # somebody has bound the path since it was looked at
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        if body is None:
            connection.request("GET", path, headers=headers)
        else:
            connection.request("POST", path, json.dumps(body), {**headers, "Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException):
        return 0, {}
    except ValueError:
        return answer.status, {}
    finally:
        connection.close()
