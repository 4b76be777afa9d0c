"""What this gateway worker counts and others want to hear of: told once a second, as one event for each kind."""

from collections.abc import Callable, Mapping

from blazar.telemetry.metrics import Counter, Labels, Metrics


class Notable:
    """`tick` once a second."""

    def __init__(self, metrics: Metrics, publish: Callable[..., None]) -> None:
        self._publish = publish
        self._watched: Mapping[str, Counter] = {"key_limited": metrics.quota_refusals, "queue_refused": metrics.refused}
        self._told: dict[str, Mapping[Labels, int]] = {kind: {} for kind in self._watched}

    def tick(self) -> None:
        for kind, counter in self._watched.items():
            now, before = counter.values(), self._told[kind]
            self._told[kind] = now
            for labels, count in now.items():
                if count > before.get(labels, 0):
                    fields = dict(zip(counter.labels, labels, strict=True))
                    self._publish(kind, **fields, count=count - before.get(labels, 0))
