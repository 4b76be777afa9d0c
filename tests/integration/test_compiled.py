"""The compiled form is the same program: tests of the gateway, run once more against it."""

import ast
import os
import subprocess
import sys

import pytest

pytest.importorskip("mypyc")

from tools.compiled.modules import FILES
from tools.compiled.tree import ROOT, Unable, build

PURE = {"len", "min", "max", "start", "end"}
"""Calls that may be made twice."""


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
def test_no_generator_has_an_end_to_run(file):
    """One that is left before its end never runs its `finally` there."""
    tries = [node for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.Try)]
    assert not [node.lineno for node in tries if node.finalbody
                for inner in ast.walk(node) if isinstance(inner, YIELDS)]


CUT = """
from blazar.proxy.meter import Meter
from blazar.proxy.wire.framing import ChunkedFraming
from blazar.proxy.wire.head import HeadReader

head = b"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\nServer: x\\r\\n\\r\\n"
reader = HeadReader()
assert reader.read(head)[0].length == 5
for end in range(len(head)):
    assert reader.read(head[:end]) is None

usage = b'"usage":{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":1}}}'
for end in range(len(usage)):
    meter = Meter()
    meter.add(usage[:end], 1.0)
    assert meter.counts() is None or end >= len(usage) - 2, end

for body in (b"x" * 5, b"x" * 20, b"x" * 300):
    wire = b"00A;x=y\\r\\ndata: {}\\n\\n\\r\\n" + b"%x\\r\\n%b\\r\\n" % (len(body), body) * 3 + b"0\\r\\n\\r\\n"
    for first in range(len(wire)):
        for second in range(first, min(len(wire), first + 30)):
            framing, got = ChunkedFraming(), b""
            for piece in (wire[:first], wire[first:second], wire[second:]):
                got += framing.feed(piece)
            assert got == b"data: {}\\n\\n" + body * 3 and framing.ended and framing.clean
"""


def test_what_is_cut_anywhere_is_read_the_same(tree):
    """mypyc's slice of bytes that ends before it begins is an error, and not empty."""
    subprocess.run([sys.executable, "-P", "-c", CUT], env={**os.environ, "PYTHONPATH": str(tree)}, check=True)


def _name(function):
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("subject", ["corpus", "relay", "streams", "garbage", "limits"])
def test_it_serves_as_the_sources_do(tree, tmp_path, subject):
    suite = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={tmp_path}/cache", "--basetemp",
             str(tmp_path / "of"), f"tests/integration/test_gateway_{subject}.py"]
    done = None
    for more in ((), ("--last-failed",)):  # some limits of time can be missed on a busy machine alone
        done = subprocess.run([*suite, *more], cwd=ROOT, env={**os.environ, "BLAZAR_TREE": str(tree)},
                              capture_output=True, text=True)
        if done.returncode == 0:
            return
    raise AssertionError(done.stdout[-6000:])
