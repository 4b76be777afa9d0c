"""Stage `trace`: what is counted of an exchange that ended early."""

import pytest

from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.exchange import ClientGone, ClientSlow, Exchange
from blazar.proxy.ledger import Ledger
from blazar.proxy.stages.trace import Trace
from blazar.telemetry.metrics import Metrics


class NoSink:
    started = False
    gone = False


@pytest.mark.parametrize(("cause", "gone", "slow"), [(ClientGone(), 1, 0), (ClientSlow(), 0, 1)])
def test_cancelled_exchanges_are_counted_by_their_cause(cause, gone, slow):
    ledger, metrics = Ledger(), Metrics()
    exchange = Exchange(id="r", dialect=OpenAIDialect(), operation="chat", asked="m", stream=False, body=b"",
                        payload={})
    exchange.sink = NoSink()

    def forward(_):
        raise cause
    with pytest.raises(ClientGone):
        Trace(ledger, metrics, None)(exchange, forward)
    assert (metrics.disconnects.value(), metrics.slow_clients.value()) == (gone, slow)
    assert ledger.under_way() == metrics.in_flight.value() == 0
