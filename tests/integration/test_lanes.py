"""A model whose architecture the engine lacks: what the person reads, and what helps."""

import json
import urllib.error
import urllib.request

import pytest

from tests.support.lane_catalog import LaneCatalog
from tests.support.real_engine import engine_path
from tests.support.shell import Shell
from tests.support.stub_model import write_header
from tests.support.waiting import until

UNKNOWN = "odd:f32 did not load: its architecture is 'examplemoe', which this engine does not know"


class LaneShell(Shell):
    def find_engine(self):
        """An engine that stands beside us is put on PATH: BLAZAR_ENGINE_PATH would go before any lane."""
        engine, folder = engine_path(), self.home / "bin"
        if engine and not folder.exists():
            folder.mkdir()
            (folder / "llama-server").symlink_to(engine)
            self.env["PATH"] = f"{folder}:{self.env['PATH']}"


@pytest.fixture
def shell(tmp_path):
    shell = LaneShell(tmp_path / "home")
    yield shell
    shell.stop()


@pytest.fixture
def catalog():
    with LaneCatalog() as server:
        yield server


def chat(shell):
    """Status and text of one chat with the model `odd`."""
    body = json.dumps({"model": "odd", "messages": [{"role": "user", "content": "hi"}]}).encode()
    request = urllib.request.Request(f"{shell.url}/v1/chat/completions", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())["error"]["message"]


def test_the_lane_is_offered_installed_and_used(shell, catalog, tmp_path):
    catalog.offer(catalog.lane("example", "examplemoe"), catalog.lane("other", "zzz"))
    shell.config.write_text(shell.config.read_text() + f'capability_registry_url = "{catalog.catalog_url}"\n')
    shell.ok("pull", str(write_header(tmp_path / "odd.gguf", "odd", architecture="examplemoe")), "--name", "odd")
    listed = shell.ok("engine", "lane").splitlines()
    assert listed[0].split()[:2] == ["LANE", "INSTALLED"]
    assert [line.split()[:2] for line in listed[1:]] == [["example", "examplemoe"], ["other", "zzz"]]
    shell.start()
    status, words = chat(shell)
    assert (status, words) == (503, f"{UNKNOWN}; `blazar engine lane example` installs an engine that does")
    assert shell.ok("engine", "lane", "example") == "installed fork-example\n"
    assert shell.ok("engine", "lane", "example") == "fork-example is installed already\n"
    status, words = chat(shell)
    assert status == 200, words
    assert [one["tag"] for one in json.loads(shell.ok("engine", "list", "--json")) if one["installed_at"]] == [
        "fork-example"]
    lanes = json.loads(shell.ok("engine", "lane", "--json"))
    assert [(lane["name"], lane["build"]) for lane in lanes] == [("example", "fork-example"), ("other", None)]
    refused = shell("engine", "use", "fork-example")
    assert (refused.returncode, refused.stderr) == (2, (
        "blazar: fork-example is a lane of its own: it serves its own architectures beside the build in use; other "
        "models get it by `engine = \"fork-example\"` in their [model_overrides]\n"))
    shell.ok("stop", "odd")
    shell.ok("engine", "remove", "fork-example")
    assert chat(shell)[0] == 503


def test_the_daemon_reads_the_catalog_by_itself(shell, catalog, tmp_path):
    catalog.offer(catalog.lane("example", "examplemoe"))
    shell.env["BLAZAR_CAPABILITY_REGISTRY"] = catalog.catalog_url
    shell.ok("pull", str(write_header(tmp_path / "odd.gguf", "odd", architecture="examplemoe")), "--name", "odd")
    shell.start()
    until(lambda: any(seen.sent for seen in catalog.requests), what="the catalog is read")
    until(lambda: "`blazar engine lane example`" in chat(shell)[1], limit=30, what="the lane is named")


def test_without_a_lane_the_words_say_what_else_to_try(shell, tmp_path):
    shell.ok("pull", str(write_header(tmp_path / "odd.gguf", "odd", architecture="examplemoe")), "--name", "odd")
    listed = shell("engine", "lane")
    assert listed.stderr == "blazar: no catalog is asked: capability_registry_url is unset\n"
    shell.start()
    assert chat(shell) == (503, f"{UNKNOWN}; `blazar engine update` may bring one that does, and `blazar engine lane` "
                                f"lists engines for single architectures")


def test_a_catalog_that_is_away_is_told_and_what_was_read_is_used(shell, catalog):
    catalog.offer(catalog.lane("example", "examplemoe"))
    where = {"BLAZAR_CAPABILITY_REGISTRY": catalog.catalog_url}
    shell.ok("engine", "lane", **where)
    catalog.put("/lanes/catalog.json", b"gone", status=500)
    told = shell("engine", "lane", **where)
    assert told.returncode == 0 and "example" in told.stdout
    assert "the server answered 500" in told.stderr and "going by what was read before" in told.stderr
    assert "capability_registry_url is empty" in shell("engine", "lane", BLAZAR_CAPABILITY_REGISTRY="").stderr
