"""The page on queueing: its example is carried out, and its numbers are those of the code."""

import itertools
import re
import tomllib
from pathlib import Path

from blazar.config.load import load
from blazar.config.registry import SETTINGS
from blazar.errors import QueueFull, QueueTimeout
from blazar.proxy import heartbeat, parking
from blazar.proxy.dialects.anthropic import AnthropicDialect
from blazar.proxy.dialects.ollama import OllamaDialect
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.fair_queue import FairQueue, Ticket
from blazar.telemetry.metrics import Metrics

PAGE = (Path(__file__).parent.parent / "docs" / "queueing.md").read_text()


def block(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)[0]


def test_the_example_goes_as_it_says(tmp_path):
    (tmp_path / "config.toml").write_text(block("toml"))
    assert load(tmp_path / "config.toml", {}).warnings == ()
    weights = {key["name"]: key.get("weight", 1) for key in tomllib.loads(block("toml"))["keys"]}
    queue, since = FairQueue(), itertools.count()
    for name in ["guest"] * 3 + ["team"] * 6:
        queue.push(Ticket(name, weights[name], next(since), lambda: None))
    turns = []
    while queue:
        ticket = queue.pop()
        queue.settle(ticket.key, 50, ticket.charged)
        turns.append(ticket.key)
    assert " ".join(turns) == block("text").strip()


def test_the_numbers_are_those_of_the_code():
    defaults = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", PAGE, re.MULTILINE))
    assert defaults == {name: str(SETTINGS[name].default) for name in ("max_queued", "queue_timeout_secs")}
    assert f"after {heartbeat.USUAL:g} s" in PAGE and f"1 to {parking.LONGEST_PAUSE:g} s" in PAGE
    assert (parking.BATCH_SHARE, parking.PROMPT_TOKENS, parking.POSITION) == (1 / 16, 20, "X-Blazar-Queue-Position")
    statuses = dict(re.findall(r"^\| (OpenAI|Anthropic|Ollama) \| (\d+) \|", PAGE, re.MULTILINE))
    assert statuses == {"OpenAI": str(OpenAIDialect.busy), "Anthropic": str(AnthropicDialect.busy),
                        "Ollama": str(OllamaDialect.busy)}
    assert f'"{QueueFull.slug}"' in PAGE and f'"{QueueTimeout.slug}"' in PAGE
    named = set(re.findall(r"`(blazar_\w+)`", PAGE))
    assert named <= {metric.name for metric in Metrics().every()} and len(named) == 3
