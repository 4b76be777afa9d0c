from blazar.proxy.notable import Notable
from blazar.telemetry.metrics import Metrics


def test_what_was_refused_is_told_once_a_second_and_only_then():
    told, metrics = [], Metrics()
    notable = Notable(metrics, lambda kind, **fields: told.append((kind, fields)))
    notable.tick()
    assert told == []
    metrics.quota_refusals.add("ann", "rpm", by=3)
    metrics.refused.add("m:q4_0", "full")
    notable.tick()
    assert told == [("key_limited", {"key": "ann", "limit": "rpm", "count": 3}),
                    ("queue_refused", {"model": "m:q4_0", "reason": "full", "count": 1})]
    notable.tick()
    assert len(told) == 2
    metrics.quota_refusals.add("ann", "rpm")
    notable.tick()
    assert told[2:] == [("key_limited", {"key": "ann", "limit": "rpm", "count": 1})]
