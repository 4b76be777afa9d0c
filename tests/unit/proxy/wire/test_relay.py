"""What becomes of a child's connection after an attempt at it."""

import pytest

from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.meter import Meter
from blazar.proxy.wire.pool import Pool
from blazar.proxy.wire.relay import Call
from tests.support.exchanges import exchange_of
from tests.support.fake_supervisor import endpoint
from tests.support.scripted_child import ScriptedChild

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
           b"2\r\n{}\r\n0\r\n\r\n")


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("answer", [WHOLE, CHUNKED])
def test_it_is_kept_unless_it_was_closed_because_the_client_left(answer, leaves):
    with ScriptedChild(lambda talk: talk.send(answer)) as child:
        place, pool = endpoint("m", child.address), Pool()
        asked = exchange_of(dialect=OpenAIDialect(), body=b"{}", upstream_body=b"{}",
                            upstream_path="/v1/chat/completions")
        with Call(pool, place, None, Meter()) as call:
            assert call.ask(asked).status == 200
            assert (call.whole() or b"".join(payload for _, payload in call.pieces())) == b"{}"
            if leaves:
                call.interrupt()
        assert pool.idle_count(place.child_id) == (not leaves)
