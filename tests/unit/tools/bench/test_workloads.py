"""The client's options."""

import re

import pytest

from tools.bench.programs import SOURCES
from tools.bench.workloads import MANY, WORKLOADS, Workload


def test_options_become_words():
    workload = Workload("w", "w", "--stream --tokens 4 --dialect ollama", frozenset())
    assert workload.arguments() == ["--stream", "--tokens", "4", "--dialect", "ollama"]


def test_gentle_options_replace_and_the_rest_stays():
    workload = Workload("w", "w", "--connections 64 --seconds 1", frozenset(), gentle="--seconds 5 --warm 2")
    assert workload.arguments(slow=True) == ["--connections", "64", "--seconds", "5", "--warm", "2"]
    assert workload.arguments() == ["--connections", "64", "--seconds", "1"]


def test_names_are_unique():
    assert len({workload.name for workload in WORKLOADS}) == len(WORKLOADS)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_client_knows_every_option(workload):
    known = set(re.findall(r'\{"([a-z-]+)", [01], 0, ', (SOURCES / "options.c").read_text()))
    used = {word.removeprefix("--") for word in workload.arguments(slow=True) if word.startswith("--")}
    assert used <= known


def test_measured_requests_are_left_after_warming_up():
    arguments = dict(zip(MANY.arguments()[::2], MANY.arguments()[1::2], strict=True))
    assert int(arguments["--warm"]) > int(arguments["--connections"])
