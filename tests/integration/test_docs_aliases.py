"""docs/aliases.md: its example does what it says, with one engine; and a daemon whose aliases hide a model."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from blazar.config.frozen import thaw
from blazar.supervisor.gateway import LAUNCHER
from tests.support.config_files import load_text
from tests.support.daemon import Daemon

PAGE = (Path(__file__).parent.parent.parent / "docs" / "aliases.md").read_text()
ASKED, MEANT = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
TOML = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1]
ENTRIES = tomllib.loads(TOML)["alias"]


def test_the_example_does_what_it_says(tmp_path):
    assert load_text(TOML, tmp_path).warnings == ()
    with Daemon(tmp_path, tuple(LAUNCHER), alias=thaw(load_text(TOML, tmp_path).alias)) as daemon:
        model = daemon.install("smollm2-135m")
        daemon.start()
        for path, body in (("/v1/chat/completions", ASKED), ("/v1/chat/completions", {**ASKED, "model": model}),
                           ("/v1/messages", {**ASKED, "model": "gpt-4o", "max_tokens": 5})):
            assert daemon.post(path, body)[0] == 200
        sent = [json.loads(bytes.fromhex(request["body"])) for request in daemon.requests(model)
                if request["path"] == "/v1/chat/completions"]
        assert sent[:2] == [MEANT, {**ASKED, "model": model}] and sent[2]["messages"] == ASKED["messages"]
        assert len(daemon.starts(model)) == 1
        assert [one["id"] for one in daemon.get("/v1/models")[1]["data"]] == ["brief", "gpt-4o", model]
        shown = daemon.post("/api/show", {"model": "brief"})[1]
        assert shown["system"] == "Answer in one sentence." and shown["details"]["parent_model"] == model


@pytest.mark.parametrize("name", ["smollm2-135m", "smollm2-135m:f32"])
def test_a_name_that_is_taken_is_told_at_boot(tmp_path, name):
    with Daemon(tmp_path, alias=[{**ENTRIES[1], "name": name, "model": "other"}]) as daemon:
        model = daemon.install("smollm2-135m")
        process = daemon.launch()
        _, said = process.communicate(timeout=60)
        assert process.returncode == 2 and "Traceback" not in said
        assert f"[[alias]] name = \"{name}\": it would hide the installed model {model}" in said
        assert daemon.tree() == []
