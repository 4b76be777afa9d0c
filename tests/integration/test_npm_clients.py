"""The official JavaScript clients of the three dialects against a running Blazar, unmodified.

`make test` installs them into build/npm; the scripts are in the folder `npm` beside this file.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.test_docs_ollama import listed
from tests.support.needs import need_javascript_clients
from tests.support.sdk_methods import fates
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf

SCRIPTS = Path(__file__).parent / "npm"
CHAT, EMBEDS = "solo:f32", "words:f32"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A function that runs one of the scripts and gives what it printed."""
    clients = need_javascript_clients()
    shell = Shell(tmp_path_factory.mktemp("home"))
    shell.ok("pull", str(tiny_gguf(shell.home / "chat.gguf")), "--name", CHAT)
    shell.ok("pull", str(tiny_gguf(shell.home / "words.gguf", seed=1, pooling=1)), "--name", EMBEDS)
    shell.start()
    scripts = shutil.copytree(SCRIPTS, shell.home / "scripts")  # node looks for packages beside the script
    (scripts / "node_modules").symlink_to(clients)

    def run_script(name):
        done = subprocess.run(["node", str(scripts / name), shell.url, CHAT, EMBEDS], capture_output=True, text=True,
                              timeout=100)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    yield run_script
    shell.stop()


def assert_chat(told):
    assert told["whole"] == told["streamed"] != ""
    assert told["counted"][0] == told["counted"][1] and 0 < told["counted"][0] <= 12


def assert_embeddings(told):
    assert [index for index, _ in told["embeddings"]] == [0, 1, 2]
    assert [len(vector) for _, vector in told["embeddings"]] == [64, 64, 64]
    assert len({tuple(vector) for _, vector in told["embeddings"]}) == 3


def test_openai(run):
    told = run("openai.mjs")
    assert_chat(told)
    assert_embeddings(told)
    assert told["listed"] == [CHAT, EMBEDS] and told["refused"] == ["NotFoundError", 404]
    assert len(set(told["responses"])) == 1 and told["responses"][0] != ""
    assert told["items"] == ["Write about a quiet library.", told["responses"][0], "And?"]
    assert told["gone"] == 404 and told["found"] == told["stored"]


def test_ollama(run):
    told = run("ollama.mjs")
    assert_chat(told)
    assert_embeddings(told)
    assert told["older"] == pytest.approx(told["embeddings"][0][1], abs=1e-4) and told["done"] is True
    assert told["listed"] == [CHAT, EMBEDS] and told["refused"] == ["ResponseError", 404]
    assert told["context"][0] > 12 and told["context"][1] is True
    assert_methods_of_ollama(told)


def assert_methods_of_ollama(told):
    """Every method has a row in docs/ollama.md and does what that says."""
    rows = listed("JavaScript")
    assert set(told["methods"]) == set(rows) and told["asksOllama"] == [True, True]
    for method, said in rows.items():
        if said.startswith("not ours"):
            continue
        got = told["driven"][method]
        if said.startswith("refused"):
            assert got[:2] == ["ResponseError", 400], method
        elif method != "pull":
            assert not (isinstance(got, list) and "Error" in got[0]), (method, got)
    driven = told["driven"]
    assert driven["pull"][:2] == ["ResponseError", 400] and "insecure" in driven["pull"][2]  # see test_pull.py
    assert driven["abort"] == "AbortError" and driven["fileExists"] is False and driven["encodeImage"] == "AQID"
    assert driven["copy"] == driven["delete"] == driven["create"] == {"status": "success"}
    assert driven["show"]["capabilities"][0] == "completion" and driven["ps"]["models"] and driven["version"]["version"]
    assert driven["generate"]["logprobs"] and driven["processStreamableRequest"]["done"] is True


def test_anthropic(run):
    told = run("anthropic.mjs")
    assert_chat(told)
    assert told["final"] == told["whole"] and told["input"][0] == told["input"][1] > 0
    assert told["refused"] == ["NotFoundError", 404]


def test_every_method_of_anthropics_client(run):
    """The list is tests/data/sdk-methods/anthropic-npm.txt; a method that it does not have fails."""
    told, listed = run("anthropic_methods.mjs"), fates("anthropic-npm")
    assert set(told["names"]) == set(listed)
    assert set(told["worked"]) == {name for name, fate in listed.items() if fate == "works"}
    assert all(told["worked"].values())
    assert {name for name, fate in listed.items() if fate.startswith("refused")} == set(told["refused"])
    assert {name: said for name, said in told["refused"].items() if said not in (400, 404)} == {}
