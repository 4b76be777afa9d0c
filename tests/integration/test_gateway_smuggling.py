"""Requests that two readers could understand differently, sent through a real nginx that keeps its connection to us.

What nginx passed on as one request must be one request here too: we see as many as it forwarded, never one more.
"""

import re

import pytest

from tests.support.corpus import cases
from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import GatewayUnderTest
from tests.support.nginx import Nginx

CASES = cases()
COUNTED = re.compile(r"^blazar_requests_total\{.*\} (\d+)", re.MULTILINE)
FOLLOWING = b"GET /api/version?the=last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("behind")) as gateway, \
            Nginx(tmp_path_factory.mktemp("nginx"), gateway.supervisor.port) as nginx:
        yield gateway, nginx
        assert "Traceback" not in gateway.supervisor.log()


def seen(gateway) -> int:
    """The requests that the gateway has answered, this one not among them."""
    return sum(map(int, COUNTED.findall(gateway.request("GET", "/metrics").body.decode())))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_request_is_seen_that_nginx_did_not_forward(shared, case):
    gateway, nginx = shared
    gateway.fresh()
    before, forwarded_before = seen(gateway), len(nginx.forwarded())
    with nginx.connect() as sock:
        try:
            sock.sendall(case.data + FOLLOWING)
            while sock.recv(65536):
                pass
        except (TimeoutError, ConnectionError):
            pass  # it waits for the rest of what it took for a body, or had enough
    asked = 0

    def agreed() -> bool:
        nonlocal asked
        asked += 1
        return seen(gateway) - before - asked == len(nginx.forwarded()) - forwarded_before
    eventually(agreed, 5, (case.name, nginx.forwarded()[forwarded_before:]))
    prompts = [line for line in nginx.forwarded()[forwarded_before:] if "completions" in line]
    assert len(gateway.child.received) <= len(prompts)
    # The connection that nginx keeps is still in step.
    with nginx.connect() as sock:
        sock.sendall(FOLLOWING)
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 OK")
