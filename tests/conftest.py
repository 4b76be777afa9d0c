"""Under CI=true nothing is left out for want of a piece: a test that would be skipped for that reason fails.

`--may-lack openai,gguf` names modules that this end of the suite cannot have. Elsewhere a skip stays a skip.
"""

import os
import re
import signal

import pytest

NO_LACK = re.compile("root may write everywhere|only the superuser can (become another user|mount a small disk|"
                     "open so many files)"
                     "|there is no (haproxy|go|nvcc);|there is no llm$|the engine cache is cold;"
                     "|could not import '(langchain|litellm|llm)")
"""Reasons that count under CI too: who runs the suite, large programs that `make bench` only compares with, the CUDA
toolkit, engines that take a quarter of an hour to build, and other people's frameworks."""


LONGEST_ID = 60
"""Bytes that are part of a test's name."""


def pytest_configure():
    # A runner in the background may have Ctrl-C ignored, which everything it starts would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Threads of an engine that spin while they wait for each other take the cores from all that runs beside it: on two
    # busy cores an answer of the small model took ten times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def pytest_addoption(parser):
    parser.addoption("--may-lack", metavar="MODULES", default="",
                     help="modules whose absence skips a test even under CI=true, separated by commas")


def pytest_make_parametrize_id(val, argname):
    # What is made while tests are collected, such as an archive with its time, may be other bytes in another worker;
    # and workers that collect different names do not start.
    return argname if isinstance(val, bytes) and len(val) > LONGEST_ID else None


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("slow") and item.get_closest_marker("debian"):
            raise pytest.UsageError(f"{item.nodeid} is both `slow` and `debian`, so it would run on neither end")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    _refuse_to_skip((yield).get_result(), item.config)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    _refuse_to_skip((yield).get_result(), collector.config)


def _refuse_to_skip(report, config):
    """Turn the report of a skip into that of a failure."""
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if NO_LACK.match(reason) or _lacks(reason) in config.getoption("--may-lack").split(","):
        return
    report.outcome = "failed"
    report.longrepr = f"CI=true, and this would be skipped: {reason}"


def _lacks(reason):
    """The package that `pytest.importorskip` missed; None for another reason."""
    found = re.match(r"could not import '(\w+)", reason)
    return found[1] if found else None
