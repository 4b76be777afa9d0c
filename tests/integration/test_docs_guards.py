"""docs/guards.md: the errors and numbers that it shows are those of the program."""

import re
from pathlib import Path

import pytest

from blazar.config.registry import SETTINGS
from blazar.errors import ChildFailed, ChildSilent, ChildWedged
from blazar.proxy import flight
from blazar.proxy.dialects.anthropic import AnthropicDialect
from blazar.proxy.dialects.ollama import OllamaDialect
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.receipts import COALESCED
from blazar.proxy.stages import singleflight
from blazar.supervisor import examiner
from blazar.telemetry.metrics import Metrics
from tests.support.config_files import load_text

PAGE = (Path(__file__).parent.parent.parent / "docs" / "guards.md").read_text()


def test_errors_in_streams_look_as_shown():
    error = ChildWedged(model="smollm2:q4_1")
    [shown] = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    written = b"".join(dialect().stream_error(error).rstrip() + b"\n"
                       for dialect in (OpenAIDialect, OllamaDialect, AnthropicDialect))
    assert shown.encode() == written


def test_statuses_and_slugs():
    assert (ChildWedged.status, ChildFailed.status, ChildSilent.status) == (502, 502, 504)
    for error in (ChildWedged, ChildSilent, ChildFailed):
        assert f"`{error.slug}`" in PAGE


def test_settings_and_their_defaults(tmp_path):
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", PAGE, re.MULTILINE)
    assert len(rows) == 2 and all(str(SETTINGS[name].default) == default for name, default in rows)
    assert SETTINGS["singleflight"].default is True and SETTINGS["sentinel"].default is True
    [example] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    config = load_text(example, tmp_path)
    assert (config.child_header_timeout_secs, config.sentinel_stall_secs, config.singleflight) == (300, 60, False)


@pytest.mark.parametrize("words", [
    f"longer than {singleflight.BOUND:g} seconds", f"over {singleflight.LONGEST >> 20} MiB",
    f"answers over {flight.MOST >> 20} MiB", f"with {examiner.ANSWER_LIMIT:g} seconds to answer", ": ".join(COALESCED)])
def test_numbers(words):
    assert words in PAGE


def test_metrics_that_are_named_exist():
    names = {metric.name for metric in Metrics().every()}
    named = set(re.findall(r"`(blazar_\w+_total)`", PAGE))
    assert len(named) == 4 and named <= names
