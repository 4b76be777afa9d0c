"""docs/observe.md names the fields of an audit line and the metrics as they are."""

import re
from pathlib import Path

import pytest

from blazar.config.registry import SETTINGS
from blazar.proxy.endings import Words, audit_line
from blazar.proxy.stages.trace import CLIENT_LEFT
from blazar.telemetry.audit import ROTATE_AT
from blazar.telemetry.metrics import Metrics
from tests.support.pages import ROOT

PAGE = (ROOT / "docs" / "observe.md").read_text()


def names(heading):
    """What stands in backquotes in the first cells under a heading."""
    section = PAGE.partition(f"{heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_the_fields_of_an_audit_line():
    words = Words(None, "ollama", "chat", "m", "", "m", stream=False, status=200, error=None, client_gone=False,
                  estimated=False, truncated=False, structure=None, coalesced=False, cache="")
    line = audit_line(words)
    assert names("## The audit log") == list(line)
    assert f"({CLIENT_LEFT}:" in PAGE and f"{ROTATE_AT >> 20} MiB" in PAGE


def test_metrics_are_named_as_they_are():
    known = {metric.name for metric in Metrics().every()}
    named = {name.partition("{")[0] for name in names("Worth an alarm:")}
    assert len(named) == 9 and named <= known


@pytest.mark.parametrize("page", ["operate", "observe", "secure"])
def test_settings_that_are_named_exist(page):
    text = Path(ROOT / "docs" / f"{page}.md").read_text()
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)(?: = [^`]*)?`", text))
    known = set(SETTINGS) | set(names("## The audit log"))
    assert named and {name for name in named if not name.startswith("blazar_")} - known == set()
