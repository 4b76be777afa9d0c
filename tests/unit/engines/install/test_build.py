"""`blazar engine build`, with real CMake and a real compiler over a tree that builds in a second."""

import os
import signal
import subprocess
import sys

import pytest

from blazar.engines.builds import Builds
from blazar.engines.install import toolchain
from blazar.engines.install.build import TOOLS, Plan, build
from blazar.engines.install.shelf import Shelf
from blazar.engines.install.sources import local
from blazar.errors import BuildFailed, UsageRefused
from blazar.models.catalog import Catalog
from blazar.paths import Paths
from tests.support.needs import need
from tests.support.shell import Shell
from tests.support.small_tree import small_tree
from tests.support.waiting import until

pytestmark = pytest.mark.debian
ENV = dict(os.environ)


@pytest.fixture(autouse=True)
def cmake():
    need("cmake")


@pytest.fixture
def shelf(tmp_path):
    return Shelf(Paths(tmp_path / "data"))


def planned(tree, tag="b7", flavour="cpu", archs=(), **more):
    return Plan(flavour, local(tree, tag, ENV), toolchain.find(flavour, archs, ENV), 2, **more)


def tags(shelf):
    return [(one.tag, one.active) for one in Builds(shelf.paths).every()]


def leftovers(shelf):
    engines = [path for path in shelf.paths.engines.iterdir() if path.name != ".incoming"]
    return sorted(path.name for path in engines), list(shelf.paths.incoming.iterdir())


def test_the_five_tools_are_built_and_taken_into_use(shelf, tmp_path):
    steps = []
    made, gone = build(shelf, planned(small_tree(tmp_path / "tree")), steps=lambda *step: steps.append(step), env=ENV)
    folder = shelf.paths.engines / "b7-cpu"
    assert (made.tag, made.flavour, made.active, gone) == ("b7-cpu", "cpu", True, [])
    assert made.path == folder / "llama-server"
    assert made.source == f"built here from {tmp_path / 'tree'}"
    assert sorted(path.name for path in folder.iterdir()) == sorted(TOOLS)
    for name in TOOLS:
        said = subprocess.run([folder / name, "--version"], capture_output=True, text=True, check=True).stdout
        assert said == "version: 0.1.0-dev (build 7, commit unknown)\n"
    assert steps[0] == ("configure", 0, None) and steps[-1][0] == "compile" and steps[-1][1] == steps[-1][2]
    assert leftovers(shelf) == (["b7-cpu"], [])
    assert "tool.cpp" in (shelf.paths.log / "build-b7-cpu.log").read_text()


def test_a_second_build_stands_beside_the_first(shelf, tmp_path):
    tree = small_tree(tmp_path / "tree")
    build(shelf, planned(tree, "b7"), env=ENV)
    with pytest.raises(BuildFailed, match="could not build b7-cpu: it is installed already; `--again` builds it anew"):
        build(shelf, planned(tree, "b7"), env=ENV)
    build(shelf, planned(tree, "b8"), use=False, env=ENV)
    assert tags(shelf) == [("b7-cpu", True), ("b8-cpu", False)]
    made, gone = build(shelf, planned(tree, "b7"), use=False, again=True, keep=1, env=ENV)
    assert made.active and gone == ["b8-cpu"] and tags(shelf) == [("b7-cpu", True)]


@pytest.mark.parametrize(("tree", "words"), [
    ({"broken": "#error this tree is broken"}, r"compile: it ended with exit code \d; .*; its whole output is in"),
    ({"names": TOOLS[:3]}, "compile: it ended with exit code"),
    ({"first": "return 3;"}, "its server does not start: it ended with exit code 3.*what was in use stays in use"),
    ({"first": "std::abort();"}, "it was ended by SIGABRT")])
def test_a_build_that_does_not_work_is_not_installed(shelf, tmp_path, tree, words):
    build(shelf, planned(small_tree(tmp_path / "good"), "b1"), env=ENV)
    with pytest.raises(BuildFailed, match=words):
        build(shelf, planned(small_tree(tmp_path / "bad", **tree), "b2"), env=ENV)
    assert tags(shelf) == [("b1-cpu", True)] and leftovers(shelf) == (["b1-cpu"], [])
    if "broken" in tree:
        assert "this tree is broken" in (shelf.paths.log / "build-b2-cpu.log").read_text()


def test_a_tree_that_cmake_refuses(shelf, tmp_path):
    tree = small_tree(tmp_path / "tree")
    (tree / "CMakeLists.txt").write_text("message(FATAL_ERROR no)")
    with pytest.raises(BuildFailed, match="configure: it ended with exit code 1"):
        build(shelf, planned(tree), env=ENV)
    assert tags(shelf) == []


def test_a_lane_of_ones_own_is_never_in_use_for_all(shelf, tmp_path):
    tree = small_tree(tmp_path / "tree")
    made, _ = build(shelf, planned(tree, "b7", lane="mine", serves=("example",)), keep=1, env=ENV)
    assert (made.tag, made.kind, made.active) == ("fork-mine", "llamacpp-fork", False)
    [row] = Catalog.every()
    assert (row["name"], row["architectures"], row["curated"], row["offered"]) == ("mine", ["example"], False, False)
    for lane, serves in (("mine", ()), (None, ("x",)), ("Not A Name", ("x",))):
        with pytest.raises(UsageRefused):
            planned(tree, "b7", lane=lane, serves=serves)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_build_leaves_nothing_installed(shelf, tmp_path, number):
    """The compiler waits for a file that never comes; it ends with us, and the next build works."""
    tree = small_tree(tmp_path / "tree")
    slow = tmp_path / "slow-c++"
    waits = f'case "$*" in *tool.cpp*) echo $$ > {tmp_path}/pid; exec sleep 600;; esac'
    slow.write_text(f'#!/bin/sh\n{waits}\nexec c++ "$@"\n')
    slow.chmod(0o755)
    argv = [sys.executable, "-m", "blazar.cli.main", "--data-dir", str(shelf.paths.data_dir), "engine", "build",
            "cpu", "--source", str(tree), "--tag", "b7", "--jobs", "1"]
    env = {**ENV, "CXX": str(slow), "PYTHONPATH": os.getcwd()}
    with subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as verb:
        pid = int(until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), limit=30))
        verb.send_signal(number)
        _, said = verb.communicate(timeout=30)
    assert "Traceback" not in said
    assert tags(shelf) == [] and leftovers(shelf)[0] == []
    if number == signal.SIGINT:
        until(lambda: not os.path.exists(f"/proc/{pid}"), what="the compiler ends")
        assert leftovers(shelf) == ([], [])
    elif os.path.exists(f"/proc/{pid}"):
        os.kill(pid, signal.SIGKILL)  # ninja, killed, leaves the one file that it was at
    build(shelf, planned(tree), env=ENV)
    assert tags(shelf) == [("b7-cpu", True)] and leftovers(shelf) == (["b7-cpu"], [])


def test_the_verb_shows_its_plan_and_may_stop_there(tmp_path):
    shell = Shell(tmp_path / "home")
    tree = small_tree(tmp_path / "tree")
    words = ("engine", "build", "cpu", "--source", str(tree), "--tag", "b7", "--jobs", "3")
    said = shell.ok(*words, "--dry-run").splitlines()
    assert said[0] == f"builds b7-cpu from {tree}" and said[1].endswith(", 3 at a time")
    assert said[-2:] == ["tools: " + ", ".join(TOOLS), "nothing was changed"]
    assert not (tmp_path / "home" / ".local").exists()
    assert shell.ok(*words).splitlines()[-1] == "installed b7-cpu; it is in use now"
    assert shell.ok("engine", "list").splitlines()[1].split()[:4] == ["b7-cpu", "llamacpp", "cpu", "active"]


def test_a_cuda_build(shelf, tmp_path):
    """The real nvcc compiles a kernel; there need not be a GPU, since the architecture is named."""
    if toolchain.find_nvcc(ENV) is None:
        pytest.skip("there is no nvcc; install the CUDA toolkit for this")
    plan = planned(small_tree(tmp_path / "tree", cuda=True), "b7", "cuda", ["90"])
    assert any("GPU architectures 90" in line for line in plan.lines())
    made, _ = build(shelf, plan, env=ENV)
    assert (made.tag, made.flavour) == ("b7-cuda", "cuda")
    assert "kernel.cu" in (shelf.paths.log / "build-b7-cuda.log").read_text()
