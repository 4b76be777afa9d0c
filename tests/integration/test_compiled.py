"""The compiled form is the same program: tests of the gateway, run once more against it."""

import ast
import os
import subprocess
import sys
import tempfile

import pytest

pytest.importorskip("mypyc")

from tools.compiled.modules import FILES
from tools.compiled.tree import ROOT, Unable, build

PURE = {"len", "min", "max", "start", "end"}
"""Calls that may be made twice."""
IN_ORDER = {"self._body[start:end]", "self._body[at:end]", "raw[start:end]", "data[start:end]",
            "data[position:end + 1]", "data[position:end]", "data[len(line):-2]", "data[after - 2:after]",
            "data[end:after - 2]"}
"""Slices of which somebody has made sure that they begin before they end."""

UNITS = ("wire", "test_accounts.py", "test_json_scan.py", "test_ledger.py", "test_meter.py", "test_rates.py",
         "test_request.py", "test_sliding.py", "test_sse_cuts.py", "test_sse_splits.py")
"""Of tests/unit/proxy, those of what cuts bytes and of what keeps count."""
LEFT_OUT = ("wire/test_conversation.py::test_a_head_is_checked_once_for_all_connections_and_tells_nothing_of_another",
            "test_sse_cuts.py::test_counts_that_the_client_does_not_see")
"""Of these, what has a stand-in that compiled code does not see, or does not take."""

SUBJECTS = ("corpus", "relay", "streams", "garbage", "limits", "smuggling heads fronts stale cancel")
"""Of the tests of the gateway, those that run against it; together where each is short."""
SHORT = ("not closes_after_a_second and not body_that_stalls and not during_a_load and not reads_slowly and not "
         "stalled_client and not reads_nothing and not (test_gateway_stale and unix) and not "
         "(test_gateway_cancel and (unix or ollama or anthropic or responses))")
"""Which of them: of what takes seconds, and is the same for all dialects and transports, one kind or none."""

YIELDS = (ast.Yield, ast.YieldFrom)


@pytest.fixture(scope="module")
def tree():
    try:
        return build()
    except Unable as error:
        pytest.skip(str(error))


def test_all_of_them_are_loaded(tree):
    names = [file.removesuffix(".py").replace("/", ".") for file in FILES]
    code = f"import importlib\nfor name in {names}: print(importlib.import_module(name).__file__)"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], env={**os.environ, "PYTHONPATH": str(tree)},
                            capture_output=True, text=True, check=True).stdout.split()
    assert len(loaded) == len(FILES)
    assert all(file.startswith(f"{tree}{os.sep}") and file.endswith(".so") for file in loaded)


def test_the_sources_stay_without(tree):
    assert not list((ROOT / "blazar").rglob("*.so"))
    assert sorted(ROOT.glob("*.so")) == []


def test_it_needs_nothing_of_mypy(tree):
    """Which is there to compile, and not where a wheel is installed."""
    code = ("import sys\nfor name in ('mypy', 'mypyc', 'mypy_extensions'): sys.modules[name] = None\n"
            "import blazar.proxy.app, blazar.proxy.serve, blazar.proxy.wire.tls_client")
    subprocess.run([sys.executable, "-P", "-c", code], env={**os.environ, "PYTHONPATH": str(tree)}, check=True)


@pytest.mark.parametrize("file", FILES)
def test_no_bound_of_a_slice_does_anything(file):
    """mypyc evaluates it twice where it does not know the type of what is cut."""
    slices = [node for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.Slice)]
    calls = [node for cut in slices for node in ast.walk(cut) if isinstance(node, ast.Call | ast.NamedExpr)]
    doing = [ast.unparse(node) for node in calls if isinstance(node, ast.NamedExpr) or _name(node.func) not in PURE]
    assert doing == []


@pytest.mark.parametrize("file", FILES)
def test_no_slice_ends_before_it_begins(file):
    """mypyc makes a SystemError of that where bytes are cut, and not empty bytes."""
    cuts = [node for node in ast.walk(ast.parse((ROOT / file).read_text()))
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)]
    two_ends = [node for node in cuts if node.slice.lower is not None and node.slice.upper is not None]
    loose = [ast.unparse(node) for node in two_ends
             if not ast.unparse(node.slice.upper).startswith(f"{ast.unparse(node.slice.lower)} + ")]
    assert set(loose) <= IN_ORDER


@pytest.mark.parametrize("file", FILES)
def test_no_generator_has_an_end_to_run(file):
    """One that is left before its end never runs its `finally` there."""
    tries = [node for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.Try)]
    assert not [node.lineno for node in tries if node.finalbody
                for inner in ast.walk(node) if isinstance(inner, YIELDS)]


@pytest.mark.timeout(300)
def test_its_parts_do_what_the_sources_do(tree):
    """What neither form shows from outside unless bytes come cut in just one place."""
    with tempfile.TemporaryDirectory() as base:  # of a short name, for sockets
        suite = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", f"{base}/of", "-o",
                 f"pythonpath={tree} .", *(f"tests/unit/proxy/{name}" for name in UNITS),
                 *(f"--deselect=tests/unit/proxy/{test}" for test in LEFT_OUT)]
        done = subprocess.run(suite, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:]


def _name(function):
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("subjects", SUBJECTS)
def test_it_serves_as_the_sources_do(tree, tmp_path, subjects):
    files = [f"tests/integration/test_gateway_{one}.py" for one in subjects.split()]
    suite = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={tmp_path}/cache", "--basetemp",
             str(tmp_path / "of"), "-k", SHORT, *files]
    done = None
    for more in ((), ("--last-failed",)):  # some limits of time can be missed on a busy machine alone
        done = subprocess.run([*suite, *more], cwd=ROOT, env={**os.environ, "BLAZAR_TREE": str(tree)},
                              capture_output=True, text=True)
        if done.returncode == 0:
            return
    raise AssertionError(done.stdout[-6000:])
