"""When a loaded model unloads, in words."""

from datetime import UTC, datetime

import pytest

from blazar.cli.commands.ps import unloads

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(("expires_at", "words"), [
    ("2026-01-01T12:05:00Z", "in 5 m"),
    ("2026-01-01T13:00:30.25+01:00", "in 30 s"),
    ("2026-01-01T14:30:00.123456Z", "in 2 h 30 m"),
    ("2026-01-01T12:00:00.4Z", "now"),
    ("2026-01-01T11:00:00Z", "now"),
    ("2318-04-11T23:47:16Z", "never"),
])
def test_unloads(expires_at, words):
    assert unloads(expires_at, NOW) == words
