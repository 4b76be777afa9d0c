"""FC-29: children that will not stop, in every way of being asked to, at once; nobody waits for ever."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blazar.supervisor import processes
from blazar.supervisor.child import STOP_GRACE
from tests.support.daemon import DAEMONS, Daemon
from tests.support.transports import BY_END
from tests.support.waiting import until

STUBBORN = {
    "deaf": {"ignore_term": True}, "frozen": {}, "parent": {"helper": True, "helper_session": True},
    "slow": {"term_delay": 8}, "noisy": {"term_stderr_bytes": 50_000_000},
}
SLACK = 10.0
"""Seconds beyond the grace time that a busy machine may need."""


class Stubborn:
    """A daemon with one model of each kind, and so many others; `start` loads the former.

    They are made one after another: this process has one database open at a time.
    """

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.models = [daemon.install(name, **scenario) for name, scenario in STUBBORN.items()]
        self.others = [daemon.install(f"other{number}") for number in range(len(STUBBORN))]
        self._files = {model: daemon.file(model) for model in self.models + self.others}

    def start(self) -> None:
        self.daemon.start()
        self.pids = self.load(self.models)
        os.kill(self.pids[list(STUBBORN).index("frozen")], signal.SIGSTOP)
        self.tree = self.daemon.tree()

    def load(self, models: list[str]) -> list[int]:
        """The pids of the children; each load must succeed."""
        with ThreadPoolExecutor(len(models)) as pool:
            answers = list(pool.map(lambda model: self.daemon.get(f"/load/{model}", 60), models))
        assert [status for status, _ in answers] == [200] * len(models), answers
        return [endpoint["pid"] for _, endpoint in answers]

    def running(self) -> list[int]:
        """The engines that have not ended, helpers aside."""
        notes = [Path(f"{file}.starts") for file in self._files.values()]
        started = [int(line.split()[0]) for note in notes if note.exists() for line in note.read_text().splitlines()]
        return [pid for pid in started if processes.is_alive(pid)]

    def have_gone(self) -> None:
        """The children and their helpers; all can be loaded again."""
        until(lambda: not set(self.pids) & set(self.running()), STOP_GRACE + SLACK, "the end of all of them")
        until(lambda: not self.files(), what="their files to be removed")
        for model in self.models:
            Path(f"{self._files[model]}.stub.json").unlink(missing_ok=True)
        self.load(self.models)
        helper = set(self.tree) - set(self.pids)
        assert helper & set(self.daemon.tree()) == set(self.gateway()), "the helper has gone with its parent"

    def files(self) -> list[Path]:
        """What the children have in run/."""
        found = [self.daemon.paths.run.glob(f"*%3A*.{kind}") for kind in ("pid", "sock", "apikey")]
        return [file for files in found for file in files]

    def gateway(self) -> list[int]:
        gateway = self.daemon.status()["gateway"]
        return [gateway["pid"], *gateway["workers"]]


def by_another_model(child: Stubborn) -> None:
    """The others wait until the old processes have really ended, and then are loaded."""
    most = 0
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(child.load, child.others)
        while not loading.done():
            most = max(most, len(child.running()))
            time.sleep(0.02)
        loading.result()
    assert most == len(STUBBORN)
    assert not [pid for pid in child.pids if processes.is_alive(pid)]


def by_idling(child: Stubborn) -> None:
    child.have_gone()


def by_keep_alive(child: Stubborn) -> None:
    for model in child.models:
        child.daemon.get(f"/lease/{model}")
        child.daemon.get(f"/return/{model}")
        child.daemon.get(f"/keep/{model}/0")
    child.have_gone()


def at_the_end(child: Stubborn) -> None:
    assert child.daemon.stop(limit=2 + STOP_GRACE + SLACK) == 0
    child.daemon.wait_gone(child.tree, 0.5)


WAYS: dict[Callable[[Stubborn], None], dict[str, int]] = {
    # the way, and its settings
    by_another_model: {"max_loaded_models": len(STUBBORN)}, by_idling: {"idle_timeout_secs": 2},
    by_keep_alive: {}, at_the_end: {},
}


@pytest.mark.parametrize("transport", BY_END)
def test_they_are_ended_by_force(tmp_path, transport):
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(WAYS)) as pool:
        children = {}
        for way, settings in WAYS.items():
            folder = tmp_path / way.__name__
            folder.mkdir()
            children[way] = Stubborn(stack.enter_context(DAEMONS[transport](folder, **settings)))
        going = [pool.submit(_go, way, child) for way, child in children.items()]
        for one in going:
            one.result()


def _go(way: Callable[[Stubborn], None], child: Stubborn) -> None:
    child.start()
    way(child)
